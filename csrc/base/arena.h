/* base/arena.h -- many allocations, one free.  What belongs to one plan or one compilation. */
#ifndef FR_BASE_ARENA_H
#define FR_BASE_ARENA_H

#include <stddef.h>

struct fr_arena_block;
struct fr_arena {
    struct fr_arena_block *blocks;
    size_t                 n_bytes;    /* handed out so far */
};

/* Zeroed memory aligned to 16 bytes, or NULL. */
void *fr_arena_alloc(struct fr_arena *, size_t n_bytes);
void  fr_arena_clear(struct fr_arena *);

#endif
