/* core/buffer.h -- a counted piece of array memory, released through a function pointer. */
#ifndef FR_CORE_BUFFER_H
#define FR_CORE_BUFFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct fr_buffer {
    void      *mem;                             /* first element of the storage that owns it */
    size_t     n_bytes;
    atomic_int refs;                            /* nodes + exports + running plans */
    void     (*release)(struct fr_buffer *);    /* frees mem and the struct; set by who made it */
    void      *owner;                           /* belongs to `release` */
    bool       exported;                        /* foreign code knows the address of `mem` */
};

/* Whoever looks at the memory from outside wants to see what is stored there: it never moves. */
static inline bool
fr_buffer_pinned(const struct fr_buffer *b)
{
    return b->owner || b->exported;
}

static inline struct fr_buffer *
fr_buffer_ref(struct fr_buffer *b)
{
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static inline void
fr_buffer_unref(struct fr_buffer *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        b->release(b);
}

#endif
