#include "base/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long n_calls, n_live, fail_at;

bool
fr_alloc_may_fail(void)
{
    long at = atomic_load_explicit(&fail_at, memory_order_relaxed);

    if (at == 0)
        return false;
    return atomic_fetch_add(&n_calls, 1) + 1 == at;
}

void
fr_alloc_fail_at(long n)
{
    atomic_store(&n_calls, 0);
    /* A negative target counts calls and never fails. */
    atomic_store(&fail_at, n);
}

long
fr_alloc_count(void)
{
    return atomic_load(&n_calls);
}

long
fr_alloc_live(void)
{
    return atomic_load(&n_live);
}

static void *
counted(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&n_live, 1, memory_order_relaxed);
    return p;
}

void *
fr_malloc(size_t n_bytes)
{
    return fr_alloc_may_fail() ? NULL : counted(malloc(n_bytes ? n_bytes : 1));
}

void *
fr_calloc(size_t n, size_t n_bytes)
{
    return fr_alloc_may_fail() ? NULL : counted(calloc(n ? n : 1, n_bytes ? n_bytes : 1));
}

void *
fr_realloc(void *p, size_t n_bytes)
{
    if (!p)
        return fr_malloc(n_bytes);
    return fr_alloc_may_fail() ? NULL : realloc(p, n_bytes ? n_bytes : 1);
}

void
fr_free(void *p)
{
    if (p)
        atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    free(p);
}

/* ---- blocks ----------------------------------------------------------------------------- */

enum { MAX_SPARE = 8 };

struct block {
    struct block *next;
};

static struct block *spare;
static int           n_spare;

void *
fr_block_get(void)
{
    struct block *b = spare;

    if (!b)
        return fr_malloc(FR_BLOCK_BYTES);
    if (fr_alloc_may_fail())
        return NULL;
    spare = b->next;
    n_spare--;
    return counted(b);
}

void
fr_block_put(void *p)
{
    struct block *b = p;

    if (n_spare == MAX_SPARE) {
        fr_free(b);
        return;
    }
    atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
    b->next = spare;
    spare = b;
    n_spare++;
}

bool
fr_grow(void *p, size_t *cap, size_t n, size_t size)
{
    size_t want = *cap ? *cap : 16;
    void  *old, *grown;

    while (want < n) {
        if (want > SIZE_MAX / 2 / size)
            return false;
        want *= 2;
    }
    memcpy(&old, p, sizeof old);
    grown = fr_realloc(old, want * size);
    if (!grown)
        return false;
    memcpy(p, &grown, sizeof grown);
    *cap = want;
    return true;
}
