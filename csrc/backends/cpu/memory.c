/* backends/cpu/memory.c -- see memory.h.
 *
 * Three kinds of blocks, by size:
 *
 *     small   up to 32 KB     carved from slabs of some eight blocks, 64 to 256 KB, whose first 64 bytes
 *                             say how to find it
 *     middle  below 2 MB      whole pages, carved from regions of 8 MB one after the other
 *     large   2 MB and more   a mapping of its own
 *
 * All mappings are aligned to 2 MB and advised to use huge pages, of which those untouched take no
 * memory: the kernel has one ready in the time of 24 small ones (31 us on a Zen 5 under KVM, where
 * each fault takes 1.3), so that what a first call writes costs little more than what later ones do.
 * Where one takes longer (200 us on a Zen 4 of 2.6 GHz) it is felt, so slabs lie close to each other.
 *
 * Classes are multiples of 64 bytes up to 1 KB, then four steps to each power of two. A free
 * block holds the link of its class list. One spin lock guards everything: it is held for a few
 * nanoseconds, or for a system call when the pool is empty. */
#define _GNU_SOURCE
#include "backends/cpu/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/status.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define GRAIN ((size_t)64)
#define PAGE (4 * KB)
#define SLAB_MIN (64 * KB)
#define SLAB_MAX (256 * KB)
#define SLABS_BYTES (2 * HUGE) /* asked for at once: a system call takes as long as a small evaluation */
#define REGION_BYTES (8 * MB)
#define AHEAD (2 * HUGE)      /* of a region */
#define SMALL_MAX (32 * KB)
#define HUGE (2 * MB)
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
    struct free_block *dry;   /* middle: all but the first page of each is given back */
    char              *fresh, *fresh_end; /* of the newest slab: not yet handed out */
} classes[N_CLASSES];

static struct slab           *slabs;
static char                  *low_slab, *high_slab; /* of a huge page: not a slab yet, the least from below */
static char                  *next_slabs, *end_slabs; /* mapped: huge pages not begun */
static char                  *next_middle, *end_middle; /* .. and not a block yet */
static struct fr_memory_stats stats;
static uint64_t               high_water; /* of live_bytes, forgotten slowly: see keep_limit */
/* fr_memory_look_ahead's: what is there beyond what has been begun. */
static char                  *spare_slabs, *spare_region;  /* mappings */
static char                  *ready_middle;  /* up to here the pages are there */
static atomic_bool            wants_ahead; /* there is not much left of them */
static atomic_bool            touching;    /* somebody has pages made, without the lock: no slab may go */
void                        (*fr_memory_wants)(void);
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

/* ---- the system ----------------------------------------------------------------------------- */

static void *
map(size_t n_bytes)
{
    void *p;

    if (fr_alloc_may_fail())
        return NULL;
    p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    __atomic_fetch_add(&stats.n_system, 1, __ATOMIC_RELAXED);
    return p;
}

/* A mapping of huge pages: a larger one, cut to size. */
static void *
map_huge(size_t n_bytes)
{
    char  *p = map(n_bytes + HUGE);
    size_t before;

    if (!p)
        return NULL;
    before = (HUGE - (uintptr_t)p % HUGE) % HUGE;
    if (before)
        munmap(p, before);
    if (before < HUGE)
        munmap(p + before + n_bytes, HUGE - before);
#if defined(MADV_HUGEPAGE)
    madvise(p + before, n_bytes, MADV_HUGEPAGE);
#endif
    return p + before;
}

static size_t
mapped_bytes(int c)
{
    size_t n = class_bytes(c);

    return (n + PAGE - 1) / PAGE * PAGE;
}

/* In the child. Where another thread held the lock, the lists may be half changed: they are
 * forgotten, and what was free in them is lost to the child. (Holding the lock across fork
 * instead could deadlock with the pool, which waits there for tasks that may allocate.) */
static void
after_fork(void)
{
    if (atomic_flag_test_and_set(&lock)) {
        memset(classes, 0, sizeof classes);
        slabs = NULL;
        low_slab = high_slab = next_slabs = end_slabs = NULL;
        next_middle = end_middle = ready_middle = NULL;
        spare_slabs = spare_region = NULL;
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

/* Under the lock. */
static struct slab *
new_slab(size_t n_bytes)
{
    /* What is left of the last page is too short for this one: nobody touches it any more. */
    if (((uintptr_t)high_slab & ~(uintptr_t)(n_bytes - 1)) < (uintptr_t)low_slab + n_bytes) {
        if (next_slabs == end_slabs) {
            if (!(next_slabs = spare_slabs) && !(next_slabs = map_huge(SLABS_BYTES))) {
                end_slabs = NULL;
                return NULL;
            }
            spare_slabs = NULL;
            end_slabs = next_slabs + SLABS_BYTES;
        }
        low_slab = next_slabs;
        next_slabs += HUGE;
        atomic_store_explicit(&wants_ahead, true, memory_order_relaxed);
        high_slab = next_slabs;
    }
    if (n_bytes == SLAB_MIN) {
        low_slab += n_bytes;
        return (struct slab *)(void *)(low_slab - n_bytes);
    }
    high_slab -= n_bytes + (uintptr_t)high_slab % n_bytes;
    return (struct slab *)(void *)high_slab;
}

/* Under the lock. What is left of a region that is too short for a block is never touched. */
static void *
carve(size_t n_bytes)
{
    if ((size_t)(end_middle - next_middle) < n_bytes) {
        char *region = spare_region ? spare_region : map_huge(REGION_BYTES);

        if (!region)
            return map(n_bytes);
        ready_middle = region == spare_region ? region + HUGE : region;
        spare_region = NULL;
        next_middle = region;
        end_middle = region + REGION_BYTES;
    }
    next_middle += n_bytes;
    if (next_middle + AHEAD / 2 > ready_middle)
        atomic_store_explicit(&wants_ahead, true, memory_order_relaxed);
    return next_middle - n_bytes;
}

/* Under the lock: a new block of class c from the system. */
static void *
new_block(int c)
{
    size_t size = class_bytes(c);

    if (!at_fork_installed)
        at_fork_installed = pthread_atfork(NULL, NULL, after_fork) == 0;
    if (size <= SMALL_MAX) {
        struct slab *s = new_slab(slab_bytes(c));

        if (!s)
            return NULL;
        s->next = slabs;
        s->block_bytes = size;
        s->n_blocks = (slab_bytes(c) - GRAIN) / size;
        s->n_free = 0;
        slabs = s;
        classes[c].fresh = (char *)s + GRAIN;
        classes[c].fresh_end = classes[c].fresh + s->n_blocks * size;
        stats.pooled_bytes += s->n_blocks * size;
        classes[c].fresh += size;
        return classes[c].fresh - size;
    }
    if (size < HUGE) {
        struct free_block *b = classes[c].dry;

        if (!b)
            return carve(mapped_bytes(c));
        classes[c].dry = b->next;
        return b;
    }
    return map_huge(mapped_bytes(c));
}

/* Under the lock: gives back the memory of pooled blocks of class c, middle or large, until `keep`
 * bytes are pooled. */
static void
drop_class(int c, uint64_t keep)
{
    size_t size = class_bytes(c);

    while (classes[c].free && stats.pooled_bytes > keep) {
        struct free_block *b = classes[c].free;

        classes[c].free = b->next;
        stats.pooled_bytes -= size;
        if (size < HUGE) {
            madvise((char *)b + PAGE, mapped_bytes(c) - PAGE, MADV_DONTNEED);
            b->next = classes[c].dry;
            classes[c].dry = b;
        } else {
            munmap(b, mapped_bytes(c));
        }
    }
}

static void
drop_large(uint64_t keep)
{
    for (int c = N_CLASSES - 1; c >= 0 && class_bytes(c) > SMALL_MAX; c--)
        drop_class(c, keep);
}

/* Of a block of class c. */
static struct slab *
slab_of(const void *p, int c)
{
    return (struct slab *)((uintptr_t)p & ~(uintptr_t)(slab_bytes(c) - 1));
}

/* Under the lock: slabs with no block in use go back. */
static void
drop_slabs(void)
{
    struct slab **at = &slabs, *s;

    while (atomic_load(&touching))
        sched_yield();
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
            munmap(s, slab_bytes(class_of(s->block_bytes)));
        } else {
            at = &s->next;
        }
}

/* How much may stay pooled: what brings live + pooled back to a recent peak, since a loop that
 * frees its temporaries asks for them again. The mark falls by 1/64 with each large block freed
 * below it. */
static uint64_t
keep_limit(void)
{
    uint64_t room;

    if (high_water > stats.live_bytes)
        high_water -= (high_water - stats.live_bytes) / 64;
    room = high_water - stats.live_bytes;
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
    if (FR_LIKELY(classes[c].free != NULL)) {
        p = classes[c].free;
        classes[c].free = classes[c].free->next;
        stats.pooled_bytes -= class_bytes(c);
    } else if (classes[c].fresh != classes[c].fresh_end) {
        p = classes[c].fresh;
        classes[c].fresh += class_bytes(c);
        stats.pooled_bytes -= class_bytes(c);
    } else {
        p = new_block(c);
        if (!p && stats.pooled_bytes) {
            drop_large(0);
            drop_slabs();
            p = new_block(c);
        }
        wants = atomic_load_explicit(&wants_ahead, memory_order_relaxed);
        if (p && class_bytes(c) <= SMALL_MAX)
            stats.pooled_bytes -= class_bytes(c);
    }
    if (FR_LIKELY(p != NULL)) {
        stats.n_allocs++;
        stats.live_bytes += n_bytes;
        if (stats.live_bytes > stats.peak_bytes)
            stats.peak_bytes = stats.live_bytes;
        if (stats.live_bytes > high_water)
            high_water = stats.live_bytes;
    }
    release();
    if (wants && fr_memory_wants)
        fr_memory_wants();
    return p;
}

void
fr_memory_free(void *p, size_t n_bytes)
{
    struct free_block *b = p;
    int                c;
    size_t             size;

    if (!p)
        return;
    c = class_of(n_bytes);
    size = class_bytes(c);
    acquire();
    FR_ASSERT(stats.live_bytes >= n_bytes);
    stats.live_bytes -= n_bytes;
    b->next = classes[c].free;
    classes[c].free = b;
    stats.pooled_bytes += size;
    if (size > SMALL_MAX && stats.pooled_bytes > POOLED_MIN) {
        uint64_t keep = keep_limit();

        if (stats.pooled_bytes > keep)
            drop_large(keep);
    }
    release();
}

/* Has the pages there, if they are not yet, whatever another thread does with them. */
static void
populate(char *from, char *to)
{
    if (!from || from >= to)
        return;
#ifdef MADV_POPULATE_WRITE
    if (madvise(from, (size_t)(to - from), MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (char *p = from; p < to; p += PAGE)
        __atomic_fetch_or(p, 0, __ATOMIC_RELAXED);
}

/* A mapping for later, of which the first part is there. */
static char *
map_ahead(size_t n_bytes)
{
    char *p = map_huge(n_bytes);

    populate(p, p ? p + HUGE : NULL);
    return p;
}

void
fr_memory_look_ahead(void)
{
    char *slab = NULL, *middle = NULL, *middle_end = NULL, *slabs_more = NULL, *region_more = NULL;
    bool  wants_slabs, wants_region;

    if (!atomic_exchange_explicit(&wants_ahead, false, memory_order_relaxed))
        return;
    acquire();
    wants_slabs = next_slabs && next_slabs == end_slabs && !spare_slabs;
    wants_region = (size_t)(end_middle - next_middle) < AHEAD && !spare_region; /* the first one, too */
    if (next_slabs != end_slabs)
        slab = next_slabs;
    if (next_middle) {
        middle = (char *)((uintptr_t)(ready_middle > next_middle ? ready_middle : next_middle) & ~(uintptr_t)(PAGE - 1));
        middle_end = (size_t)(end_middle - next_middle) < AHEAD ? end_middle : next_middle + AHEAD;
        ready_middle = middle_end;
    }
    atomic_store(&touching, true);
    release();
    populate(middle, middle_end);
    populate(slab, slab ? slab + HUGE : NULL);
    atomic_store(&touching, false);
    if (wants_slabs)
        slabs_more = map_ahead(SLABS_BYTES);
    if (wants_region)
        region_more = map_ahead(REGION_BYTES);
    acquire();
    if (slabs_more)
        spare_slabs = slabs_more;
    if (region_more)
        spare_region = region_more;
    release();
}

void
fr_memory_stats(struct fr_memory_stats *out)
{
    acquire();
    *out = stats;
    release();
}

void
fr_memory_reset_peak(void)
{
    acquire();
    stats.peak_bytes = stats.live_bytes;
    release();
}

void
fr_memory_trim(void)
{
    acquire();
    drop_large(0);
    drop_slabs();
    high_water = stats.live_bytes;
    release();
}
