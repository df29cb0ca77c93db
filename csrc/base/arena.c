#include "base/arena.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

enum { BLOCK_BYTES = 8192 };

struct fr_arena_block {
    struct fr_arena_block *next;
    size_t                 used, cap;
    _Alignas(16) char      mem[];
};

void *
fr_arena_alloc(struct fr_arena *a, size_t n_bytes)
{
    struct fr_arena_block *b = a->blocks;
    size_t                 n = (n_bytes + 15) & ~(size_t)15;

    if (n < n_bytes)
        return NULL;
    if (!b || b->cap - b->used < n) {
        size_t cap = n > BLOCK_BYTES ? n : BLOCK_BYTES;

        if (!(b = fr_malloc(sizeof *b + cap)))
            return NULL;
        b->next = a->blocks;
        b->used = 0;
        b->cap = cap;
        a->blocks = b;
    }
    b->used += n;
    a->n_bytes += n;
    return memset(b->mem + b->used - n, 0, n);
}

void
fr_arena_clear(struct fr_arena *a)
{
    while (a->blocks) {
        struct fr_arena_block *next = a->blocks->next;

        fr_free(a->blocks);
        a->blocks = next;
    }
    a->n_bytes = 0;
}
