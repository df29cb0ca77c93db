/* backends/cpu/memory.c -- see memory.h.
 *
 * Three kinds of blocks, by size:
 *
 *     small   up to 32 KB     carved from slabs of some eight blocks, 64 to 256 KB, which begin with what
 *                             says how to find it
 *     middle  below 2 MB      runs of pages
 *     large   2 MB and more   a mapping of its own, in which they begin some lines beside the others
 *
 * Slabs are runs of pages, too (runs.h), so that what is small lies close together: a huge page that takes longer to
 * come than usual (200 us on a Zen 4 of 2.6 GHz) is felt.
 *
 * Small and large blocks have classes: multiples of 64 bytes up to 1 KB, then four steps to each power of two. A free
 * block holds the link of its class list. One spin lock guards everything: it is held for a few
 * nanoseconds, or for a system call when the pool is empty. */
#include "backends/cpu/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backends/cpu/mapping.h"
#include "backends/cpu/runs.h"
#include "base/alloc.h"
#include "base/status.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define GRAIN ((size_t)64)
#define SLAB_MIN (64 * KB)
#define SLAB_MAX (256 * KB)
#define SMALL_MAX (32 * KB)
#define LARGE_MIN FR_RUN_MAX  /* of a class */
/* Where blocks of pages and more begin in a page: large ones by turns at one of these places, small ones at another, and
 * none where a page does, as arrays of NumPy's and middle blocks do. */
#define SMALL_BEGINS (8 * GRAIN)
#define LARGE_BEGINS (16 * GRAIN)
#define APART (10 * GRAIN)
#define N_APART ((size_t)5)
#define POOLED_MIN (256 * MB) /* kept for reuse whatever is live */

enum { N_EXACT = 16,          /* 64 .. 1024 by 64 */
       N_CLASSES = N_EXACT + 4 * 38 };

struct free_block {
    struct free_block *next;
};

/* At the start of each slab. */
struct slab {
    struct slab *next;
    size_t       block_bytes;
    size_t       n_blocks;
    size_t       n_free;      /* counted by trim only */
};

static struct {
    struct free_block *free;
    char              *fresh, *fresh_end; /* of the newest slab: not yet handed out */
    uint64_t           asked;             /* of a class that is not small: the last time, by n_asked */
} classes[N_CLASSES];

static struct slab           *slabs;
static struct fr_memory_stats stats;      /* pooled_bytes: of small and large blocks only */
static uint64_t               high_water; /* of live_bytes, forgotten slowly: see keep_limit */
static uint64_t               elsewhere;  /* bytes of a memory that is only counted: fr_memory_count */
static uint64_t               n_asked;    /* blocks that are not small, so far */
static atomic_bool            wants_ahead; /* fr_memory_look_ahead has something to do */
static atomic_bool            touching;    /* it has pages made, without the lock: no region may go */
static bool                   at_fork_installed;
static atomic_flag            lock = ATOMIC_FLAG_INIT;

static void
acquire(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        sched_yield();
}

static void
release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

/* ---- classes -------------------------------------------------------------------------------- */

static int
class_of(size_t n_bytes)
{
    size_t n = n_bytes ? n_bytes - 1 : 0;
    int    log;

    if (n < N_EXACT * GRAIN)
        return (int)(n / GRAIN);
    log = 63 - __builtin_clzll(n);          /* 2^log <= n: at least 10 */
    return N_EXACT + 4 * (log - 10) + (int)(n >> (log - 2) & 3);
}

static size_t
class_bytes(int c)
{
    int log;

    if (c < N_EXACT)
        return (size_t)(c + 1) * GRAIN;
    c -= N_EXACT;
    log = c / 4 + 10;
    return ((size_t)5 + (size_t)(c % 4)) << (log - 2);
}

/* Of a large block. */
static size_t
mapped_bytes(int c)
{
    size_t n = class_bytes(c) + LARGE_BEGINS + (N_APART - 1) * APART;

    return (n + FR_PAGE - 1) / FR_PAGE * FR_PAGE;
}

/* ---- new blocks ----------------------------------------------------------------------------- */

/* In the child. Where another thread held the lock, the lists may be half changed: they are
 * forgotten, and what was free in them is lost to the child. (Holding the lock across fork
 * instead could deadlock with the pool, which waits there for tasks that may allocate.) */
static void
after_fork(void)
{
    if (atomic_flag_test_and_set(&lock)) {
        memset(classes, 0, sizeof classes);
        slabs = NULL;
        fr_runs_forget();
        stats.pooled_bytes = 0;
    }
    atomic_store(&touching, false);
    release();
}

/* Of the slabs of class c, at multiples of which they begin. */
static size_t
slab_bytes(int c)
{
    size_t n = SLAB_MIN;

    while (n < 8 * class_bytes(c) && n < SLAB_MAX)
        n *= 2;
    return n;
}

/* Of a slab of class c, before its blocks. If those of pages began a line after the beginning of one, sums down the columns
 * of 1024 x 1024 f32 of NumPy's would take 77 us instead of 53, for what is read next seems to be what was stored last
 * (map_large). No slab has fewer blocks for it. */
static size_t
head_bytes(int c)
{
    return class_bytes(c) < 4 * KB ? GRAIN : SMALL_BEGINS;
}

/* Under the lock. */
static bool
add_slab(int c)
{
    size_t       n = slab_bytes(c), size = class_bytes(c), head = head_bytes(c);
    struct slab *s = fr_run_take(n, n);

    if (!s)
        return false;
    *s = (struct slab){.next = slabs, .block_bytes = size, .n_blocks = (n - head) / size};
    slabs = s;
    classes[c].fresh = (char *)s + head;
    classes[c].fresh_end = classes[c].fresh + s->n_blocks * size;
    stats.pooled_bytes += s->n_blocks * size;
    return true;
}

/* Under the lock: one that has not been handed out, of which there is some. */
static void *
next_fresh(int c)
{
    stats.pooled_bytes -= class_bytes(c);
    classes[c].fresh += class_bytes(c);
    return classes[c].fresh - class_bytes(c);
}

/* Under the lock. If all began where a page does, loads of x[i - 1] would meet stores to y[i - 1] that are on their way,
 * and to the processor have the same address at first sight: five points of 2000 x 2000 f64 take 1.9 ms instead of 1.6.
 * (A distance of one line, of which each load meets the store before, is worse: 2.5.) */
static void *
map_large(int c)
{
    static size_t n_mapped;
    char         *p = fr_map(mapped_bytes(c), FR_HUGE);

    return p ? p + LARGE_BEGINS + n_mapped++ % N_APART * APART : NULL;
}

static void
unmap_large(void *p, int c)
{
    fr_unmap((void *)((uintptr_t)p & ~(uintptr_t)(FR_HUGE - 1)), mapped_bytes(c));
}

/* Under the lock. */
static void *
new_block(int c, size_t n_bytes)
{
    if (!at_fork_installed)
        at_fork_installed = pthread_atfork(NULL, NULL, after_fork) == 0;
    if (class_bytes(c) >= LARGE_MIN)
        return map_large(c);
    if (class_bytes(c) > SMALL_MAX)
        return fr_run_take(n_bytes, FR_PAGE);
    return add_slab(c) ? next_fresh(c) : NULL;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static uint64_t
pooled(void)
{
    return stats.pooled_bytes + fr_runs_kept();
}

/* The large class with free blocks that nobody has asked for the longest; -1: there is none. */
static int
stalest(void)
{
    int found = -1;

    for (int c = N_CLASSES - 1; c >= 0 && class_bytes(c) >= LARGE_MIN; c--)
        if (classes[c].free && (found < 0 || classes[c].asked < classes[found].asked))
            found = c;
    return found;
}

/* Under the lock: the memory of free blocks of whole pages goes back until `keep` bytes are pooled. What a loop makes
 * and drops stays, whatever was left by work before it. */
static void
drop(uint64_t keep)
{
    int c;

    while (atomic_load(&touching))
        sched_yield();
    while (pooled() > keep && (c = stalest()) >= 0) {
        struct free_block *b = classes[c].free;

        classes[c].free = b->next;
        stats.pooled_bytes -= class_bytes(c);
        unmap_large(b, c);
    }
    if (pooled() > keep)
        fr_runs_drop(keep > stats.pooled_bytes ? keep - stats.pooled_bytes : 0);
}

/* Of a block of class c. */
static struct slab *
slab_of(const void *p, int c)
{
    return (struct slab *)((uintptr_t)p & ~(uintptr_t)(slab_bytes(c) - 1));
}

/* Under the lock: slabs with no block in use are free pages again. */
static void
drop_slabs(void)
{
    struct slab **at = &slabs, *s;

    for (s = slabs; s; s = s->next)
        s->n_free = 0;
    for (int c = 0; c < N_CLASSES && class_bytes(c) <= SMALL_MAX; c++) {
        for (struct free_block *b = classes[c].free; b; b = b->next)
            slab_of(b, c)->n_free++;
        if (classes[c].fresh != classes[c].fresh_end)
            slab_of(classes[c].fresh, c)->n_free +=
                (size_t)(classes[c].fresh_end - classes[c].fresh) / class_bytes(c);
    }
    for (int c = 0; c < N_CLASSES && class_bytes(c) <= SMALL_MAX; c++) {
        struct free_block **b = &classes[c].free;

        while (*b)
            if (slab_of(*b, c)->n_free == slab_of(*b, c)->n_blocks)
                *b = (*b)->next;
            else
                b = &(*b)->next;
        if (classes[c].fresh != classes[c].fresh_end) {
            s = slab_of(classes[c].fresh, c);
            if (s->n_free == s->n_blocks)
                classes[c].fresh = classes[c].fresh_end = NULL;
        }
    }
    while ((s = *at))
        if (s->n_free == s->n_blocks) {
            *at = s->next;
            stats.pooled_bytes -= s->n_blocks * s->block_bytes;
            fr_run_give(s, slab_bytes(class_of(s->block_bytes)));
        } else {
            at = &s->next;
        }
}

/* How much may stay pooled: what brings live + pooled back to a recent peak, since a loop that frees its temporaries
 * asks for them again; and half as much more, as classes round a block up by as much as a quarter, and small ones are
 * pooled beside it. The mark falls by 1/64 with each large block freed below it. */
static uint64_t
keep_limit(void)
{
    uint64_t room;

    if (high_water > stats.live_bytes)
        high_water -= (high_water - stats.live_bytes) / 64;
    room = (high_water - stats.live_bytes) / 2 * 3;
    return room > POOLED_MIN ? room : POOLED_MIN;
}

/* ---- the interface -------------------------------------------------------------------------- */

void *
fr_memory_alloc(size_t n_bytes)
{
    int   c;
    bool  wants = false;
    void *p;

    if (n_bytes > (size_t)1 << 46 || fr_alloc_may_fail())
        return NULL;
    c = class_of(n_bytes);
    acquire();
    if (n_bytes > SMALL_MAX)
        classes[c].asked = ++n_asked;
    if (FR_LIKELY(classes[c].free != NULL)) {
        p = classes[c].free;
        classes[c].free = classes[c].free->next;
        stats.pooled_bytes -= class_bytes(c);
    } else if (classes[c].fresh != classes[c].fresh_end) {
        p = next_fresh(c);
    } else {
        p = new_block(c, n_bytes);
        if (!p && pooled()) {
            drop_slabs();
            drop(0);
            p = new_block(c, n_bytes);
        }
        if ((wants = fr_runs_are_short()))
            atomic_store_explicit(&wants_ahead, true, memory_order_relaxed);
    }
    if (FR_LIKELY(p != NULL)) {
        stats.n_allocs++;
        stats.live_bytes += n_bytes;
        if (stats.live_bytes + elsewhere > stats.peak_bytes)
            stats.peak_bytes = stats.live_bytes + elsewhere;
        if (stats.live_bytes > high_water)
            high_water = stats.live_bytes;
    }
    release();
    if (wants && fr_backend_wants)
        fr_backend_wants();
    return p;
}

void
fr_memory_free(void *p, size_t n_bytes)
{
    int    c;
    size_t size;

    if (!p)
        return;
    c = class_of(n_bytes);
    size = class_bytes(c);
    acquire();
    FR_ASSERT(stats.live_bytes >= n_bytes);
    stats.live_bytes -= n_bytes;
    if (size > SMALL_MAX && size < LARGE_MIN) {
        fr_run_give(p, n_bytes);
    } else {
        struct free_block *b = p;

        b->next = classes[c].free;
        classes[c].free = b;
        stats.pooled_bytes += size;
    }
    if (size > SMALL_MAX && pooled() > POOLED_MIN)
        drop(keep_limit());
    release();
}

void
fr_memory_look_ahead(void)
{
    struct fr_runs_ahead ahead;
    char                *region;

    if (!atomic_exchange_explicit(&wants_ahead, false, memory_order_relaxed))
        return;
    acquire();
    ahead = fr_runs_look_ahead();
    atomic_store(&touching, true);
    release();
    fr_map_populate(ahead.from, ahead.to);
    atomic_store(&touching, false);
    region = ahead.wants_region ? fr_runs_map_ahead() : NULL;
    acquire();
    if (region)
        fr_runs_add(region);
    release();
}

void
fr_memory_stats(struct fr_memory_stats *out)
{
    acquire();
    *out = stats;
    out->pooled_bytes = pooled();
    release();
    out->n_system = fr_map_count();
}

void
fr_memory_reset_peak(void)
{
    acquire();
    stats.peak_bytes = stats.live_bytes + elsewhere;
    release();
}

void
fr_memory_count(int64_t n_bytes)
{
    acquire();
    elsewhere += (uint64_t)n_bytes;
    if (stats.live_bytes + elsewhere > stats.peak_bytes)
        stats.peak_bytes = stats.live_bytes + elsewhere;
    release();
}

uint64_t
fr_memory_take_peak(uint64_t peak)
{
    uint64_t was;

    acquire();
    was = stats.peak_bytes;
    stats.peak_bytes = peak > stats.live_bytes + elsewhere ? peak : stats.live_bytes + elsewhere;
    release();
    return was;
}

void
fr_memory_trim(void)
{
    acquire();
    drop_slabs();
    drop(0);
    high_water = stats.live_bytes;
    release();
}
