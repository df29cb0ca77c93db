#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

enum {
    FIRST_BLOCKS = 256, /* as many plans as most programs have */
    MAX_SPARE = 8,      /* of the blocks beyond */
};

struct block {
    struct block *next;
};

/* Plans are made on two threads (runtime/planner.c, which also keeps the lock from being held over a fork). */
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static char         *first, *untouched, *first_end; /* the first blocks; those that nobody has had yet */
static struct block *spare_first, *spare;
static int           n_spare;

void
fr_blocks_init(void)
{
    const size_t n_bytes = (size_t)FIRST_BLOCKS * FR_BLOCK_BYTES;
    char        *mem;

    if (first || fr_alloc_may_fail())
        return;
    mem = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (mem == MAP_FAILED)
        return;
    first = untouched = mem;
    first_end = first + n_bytes;
}

/* The C library gives memory of its heap back to the system, and asks for it and its pages again, from a size on that grows
 * with the largest block that was ever freed. NumPy's temporaries are such blocks: this is one that nobody touches. */
void
fr_alloc_keep_heap(void)
{
    enum { KEPT = 8 << 20 };
    void *volatile p = malloc(KEPT);

    free(p);
}

static struct block *
take_from(struct block **list)
{
    struct block *b = *list;

    if (b)
        *list = b->next;
    return b;
}

void *
fr_block_get(void)
{
    void *b;

    if (fr_alloc_may_fail())
        return NULL;
    pthread_mutex_lock(&blocks_lock);
    if (!(b = take_from(&spare_first))) {
        if (untouched < first_end) {
            b = untouched;
            untouched += FR_BLOCK_BYTES;
        } else if ((b = take_from(&spare))) {
            n_spare--;
        }
    }
    pthread_mutex_unlock(&blocks_lock);
    return counted(b ? b : malloc(FR_BLOCK_BYTES));
}

void
fr_block_put(void *p)
{
    bool           is_first = (char *)p >= first && (char *)p < first_end;
    struct block **list = is_first ? &spare_first : &spare, *b = p;

    pthread_mutex_lock(&blocks_lock);
    if (is_first || n_spare < MAX_SPARE) {
        atomic_fetch_sub_explicit(&n_live, 1, memory_order_relaxed);
        n_spare += !is_first;
        b->next = *list;
        *list = b;
        b = NULL;
    }
    pthread_mutex_unlock(&blocks_lock);
    fr_free(b);
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
