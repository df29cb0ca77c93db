/* backends/cpu/runs.c -- see runs.h.
 *
 * Which pages of a region are free is a bitmap in the region's first page, which a run's address leads to, as regions
 * lie at multiples of their size. */
#include "backends/cpu/runs.h"

#include <string.h>

#include "backends/cpu/mapping.h"
#include "base/alloc.h"
#include "base/status.h"

#define REGION_BYTES ((size_t)8 << 20)
#define AHEAD (2 * FR_HUGE)

enum { N_PAGES = (int)(REGION_BYTES / FR_PAGE), N_WORDS = N_PAGES / 64 };

struct region {
    uint32_t index;           /* in regions[] */
    uint32_t n_free;          /* pages */
    uint64_t free[N_WORDS];
    uint64_t holds[N_WORDS];  /* memory: what has been handed out since its memory was last given back */
};
_Static_assert(sizeof(struct region) <= FR_PAGE, "the first page");

/* From the oldest to the newest. */
static struct {
    struct region *at;
    uint32_t       longest;   /* free run, or more: pages */
} *regions;
static uint32_t n_regions, max_regions;
static uint64_t n_kept;       /* free pages that hold memory */
static char    *top;          /* of the newest region: no page from here on has been handed out */
static char    *ready;        /* up to here its pages have been populated, or somebody has been asked to */
static char    *spare;        /* the next region, of which the first huge page is there */

static int
pages(size_t n_bytes)
{
    return (int)((n_bytes + FR_PAGE - 1) / FR_PAGE);
}

static struct region *
region_of(const void *run)
{
    return (struct region *)((uintptr_t)run & ~(uintptr_t)(REGION_BYTES - 1));
}

static char *
page(struct region *r, int at)
{
    return (char *)r + (size_t)at * FR_PAGE;
}

/* The bits of pages at .. end - 1 that are in word w. */
static uint64_t
bits(int w, int at, int end)
{
    int low = at > w * 64 ? at - w * 64 : 0, high = end < w * 64 + 64 ? end - w * 64 : 64;

    return (high == 64 ? 0 : (uint64_t)1 << high) - ((uint64_t)1 << low);
}

/* The first page from `at` on that is free, or (flip = ~0) that is not; N_PAGES where there is none. */
static int
next(const struct region *r, int at, uint64_t flip)
{
    uint64_t word;
    int      w = at / 64;

    if (at >= N_PAGES)
        return N_PAGES;
    word = (r->free[w] ^ flip) >> at % 64 << at % 64;
    while (!word) {
        if (++w == N_WORDS)
            return N_PAGES;
        word = r->free[w] ^ flip;
    }
    return w * 64 + __builtin_ctzll(word);
}

/* The first place for n pages at a multiple of `step`, or -1 and the longest run. */
static int
first_fit(const struct region *r, int n, int step, uint32_t *longest)
{
    int at = next(r, 0, 0), most = 0;

    while (at < N_PAGES) {
        int end = next(r, at, ~(uint64_t)0), begin = (at + step - 1) & ~(step - 1);

        if (end - begin >= n)
            return begin;
        most = end - at > most ? end - at : most;
        at = next(r, end, 0);
    }
    *longest = (uint32_t)most;
    return -1;
}

static void *
claim(struct region *r, int at, int n)
{
    for (int w = at / 64; w <= (at + n - 1) / 64; w++) {
        uint64_t b = bits(w, at, at + n);

        FR_ASSERT((r->free[w] & b) == b);
        n_kept -= (uint64_t)__builtin_popcountll(r->holds[w] & b);
        r->free[w] &= ~b;
        r->holds[w] |= b;
    }
    r->n_free -= (uint32_t)n;
    if (r->index == n_regions - 1 && page(r, at + n) > top)
        top = page(r, at + n);
    return page(r, at);
}

static struct region *
add_region(void)
{
    struct region *r;

    if (n_regions == max_regions) {
        uint32_t more = max_regions ? 2 * max_regions : 16;
        void    *p = fr_realloc(regions, more * sizeof *regions);

        if (!p)
            return NULL;
        regions = p;
        max_regions = more;
    }
    r = (struct region *)(void *)(spare ? spare : fr_map(REGION_BYTES, REGION_BYTES));
    if (!r)
        return NULL;
    top = (char *)r + FR_PAGE;
    ready = spare ? (char *)r + FR_HUGE : top;
    spare = NULL;
    r->index = n_regions;
    r->n_free = N_PAGES - 1;
    memset(r->free, 0xff, sizeof r->free);
    r->free[0] &= ~(uint64_t)1;
    regions[n_regions].at = r;
    regions[n_regions++].longest = r->n_free;
    return r;
}

void *
fr_run_take(size_t n_bytes, size_t align)
{
    int            n = pages(n_bytes), step = (int)(align / FR_PAGE), at;
    struct region *r;

    for (uint32_t i = 0; i < n_regions; i++)
        if (regions[i].longest >= (uint32_t)n) {
            at = first_fit(regions[i].at, n, step, &regions[i].longest);
            if (at >= 0)
                return claim(regions[i].at, at, n);
        }
    if (!(r = add_region()))
        return NULL;
    return claim(r, first_fit(r, n, step, &regions[r->index].longest), n);
}

void
fr_run_give(void *run, size_t n_bytes)
{
    struct region *r = region_of(run);
    int            n = pages(n_bytes), at = (int)(((char *)run - (char *)r) / (ptrdiff_t)FR_PAGE);

    if (r->index >= n_regions || regions[r->index].at != r)
        return; /* of before fr_runs_forget */
    for (int w = at / 64; w <= (at + n - 1) / 64; w++) {
        FR_ASSERT(!(r->free[w] & bits(w, at, at + n)));
        r->free[w] |= bits(w, at, at + n);
    }
    r->n_free += (uint32_t)n;
    n_kept += (uint64_t)n;
    regions[r->index].longest = r->n_free;
}

uint64_t
fr_runs_kept(void)
{
    return n_kept * FR_PAGE;
}

/* Gives the memory of r's free pages back, until `keep` are kept in all. */
static void
dry(struct region *r, uint64_t keep)
{
    for (int at = next(r, 0, 0); at < N_PAGES && n_kept > keep;) {
        int end = next(r, at, ~(uint64_t)0);
        int n_held = 0;

        for (int w = at / 64; w <= (end - 1) / 64; w++) {
            n_held += __builtin_popcountll(r->holds[w] & bits(w, at, end));
            r->holds[w] &= ~bits(w, at, end);
        }
        if (n_held)
            fr_map_dry(page(r, at), (size_t)(end - at) * FR_PAGE);
        n_kept -= (uint64_t)n_held;
        at = next(r, end, 0);
    }
}

static void
remove_region(struct region *r)
{
    uint32_t at = r->index;

    for (int w = 0; w < N_WORDS; w++)
        n_kept -= (uint64_t)__builtin_popcountll(r->holds[w]);
    fr_unmap(r, REGION_BYTES);
    if (at == --n_regions)
        top = ready = NULL;
    for (uint32_t i = at; i < n_regions; i++) {
        regions[i] = regions[i + 1];
        regions[i].at->index = i;
    }
}

void
fr_runs_drop(uint64_t keep)
{
    keep /= FR_PAGE;
    for (uint32_t i = n_regions; i-- && n_kept > keep;)
        if (regions[i].at->n_free == N_PAGES - 1)
            remove_region(regions[i].at);
        else
            dry(regions[i].at, keep);
}

void
fr_runs_forget(void)
{
    regions = NULL;
    n_regions = max_regions = 0;
    n_kept = 0;
    top = ready = spare = NULL;
}

/* ---- ahead ---- */

static bool
is_last(void)
{
    return !top || (size_t)((char *)regions[n_regions - 1].at + REGION_BYTES - top) < AHEAD;
}

bool
fr_runs_are_short(void)
{
    return (top && top + AHEAD / 2 > ready && ready < (char *)regions[n_regions - 1].at + REGION_BYTES)
        || (is_last() && !spare);
}

struct fr_runs_ahead
fr_runs_look_ahead(void)
{
    struct fr_runs_ahead a = {.wants_region = is_last() && !spare};

    if (top) {
        char *end = (char *)regions[n_regions - 1].at + REGION_BYTES;

        a.from = ready > top ? ready : top;
        a.to = (size_t)(end - top) < AHEAD ? end : top + AHEAD;
        ready = a.to;
    }
    return a;
}

char *
fr_runs_map_ahead(void)
{
    char *p = fr_map(REGION_BYTES, REGION_BYTES);

    fr_map_populate(p, p ? p + FR_HUGE : NULL);
    return p;
}

void
fr_runs_add(char *region)
{
    spare = region;
}
