/* core/buffer.h -- a counted piece of array memory, released through a function pointer. */
#ifndef FR_CORE_BUFFER_H
#define FR_CORE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

struct fr_backend;

struct fr_buffer {
    void      *mem;                             /* first element of the storage that owns it */
    size_t     n_bytes;
    const struct fr_backend *home;              /* in whose memory that is; NULL: the host's */
    void      *host;                            /* where it goes back to from there, as others know that address; NULL: anywhere */
    void      *shadowed;                        /* the host's memory that it has left for a while, as it was (fr_buffer_shadow) */
    atomic_int refs;                            /* nodes + exports + running plans */
    void     (*release)(struct fr_buffer *);    /* frees mem and the struct; set by who made it */
    void      *owner;                           /* belongs to `release` */
    bool       pinned;                          /* somebody outside looks at it: stores land here */
    bool       watched;                         /* and does so at any time, */
    bool       loud;                            /* and may write to it at any time */
    bool       shown;                           /* its address on the host was given out */
    bool       stale;                           /* what is at `host` is older */
    bool       away;                            /* others know its address there: it stays, and `host` is a copy for a look */
};

static inline struct fr_buffer *
fr_buffer_ref(struct fr_buffer *b)
{
    FR_ASSERT(atomic_load_explicit(&b->refs, memory_order_relaxed) > 0); /* else it is being released */
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static inline void
fr_buffer_unref(struct fr_buffer *b)
{
    FR_ASSERT(!b || atomic_load_explicit(&b->refs, memory_order_relaxed) > 0);
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        b->release(b);
}

#endif
