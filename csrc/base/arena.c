#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

struct fr_arena_block {
    struct fr_arena_block *next;
    size_t                 cap;
    _Alignas(16) char      mem[];
};

enum { USUAL_BYTES = FR_BLOCK_BYTES - sizeof(struct fr_arena_block) };

void *
fr_arena_grow(struct fr_arena *a, size_t n_bytes)
{
    size_t                 n = n_bytes ? (n_bytes + 15) & ~(size_t)15 : 16;
    size_t                 cap = n > USUAL_BYTES ? n : USUAL_BYTES;
    struct fr_arena_block *b;

    if (n < n_bytes || cap > SIZE_MAX - sizeof *b)
        return NULL;
    if (!(b = cap == USUAL_BYTES ? fr_block_get() : fr_malloc(sizeof *b + cap)))
        return NULL;
    b->next = a->blocks;
    b->cap = cap;
    a->blocks = b;
    a->at = b->mem + n;
    a->end = b->mem + cap;
    return b->mem;
}

void *
fr_arena_alloc(struct fr_arena *a, size_t n_bytes)
{
    void *p = fr_arena_room(a, n_bytes);

    return p ? memset(p, 0, n_bytes) : NULL;
}

size_t
fr_arena_bytes(const struct fr_arena *a)
{
    size_t n = 0;

    for (const struct fr_arena_block *b = a->blocks; b; b = b->next)
        n += sizeof *b + b->cap;
    return n;
}

void
fr_arena_clear(struct fr_arena *a)
{
    while (a->blocks) {
        struct fr_arena_block *b = a->blocks;

        a->blocks = b->next;
        if (b->cap == USUAL_BYTES)
            fr_block_put(b);
        else
            fr_free(b);
    }
    a->at = a->end = NULL;
}
