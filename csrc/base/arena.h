/* base/arena.h -- many allocations, one free.  What belongs to one plan or one compilation, and
 * what a function needs while it runs. Each is one thread's at a time. */
#ifndef FR_BASE_ARENA_H
#define FR_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

struct fr_arena_block;
struct fr_arena {
    struct fr_arena_block *blocks;
    char                  *at, *end; /* what is free of the newest */
};

/* The slow way of fr_arena_room: in a new block. */
void *fr_arena_grow(struct fr_arena *, size_t n_bytes);

/* Memory aligned to 16 bytes, or NULL. */
static inline void *
fr_arena_room(struct fr_arena *a, size_t n_bytes)
{
    size_t n = (n_bytes + 15) & ~(size_t)15;
    char  *p = a->at;

    if (FR_UNLIKELY(n - 1 >= (size_t)(a->end - a->at))) /* 0, too, is for the other */
        return fr_arena_grow(a, n_bytes);
    a->at += n;
    return p;
}

/* The same, zeroed. */
void *fr_arena_alloc(struct fr_arena *, size_t n_bytes);
void  fr_arena_clear(struct fr_arena *);
/* The bytes that it has taken. */
size_t fr_arena_bytes(const struct fr_arena *);

#endif
