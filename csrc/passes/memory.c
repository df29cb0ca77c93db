/* Placing temporaries, a case of dynamic storage allocation: rectangles of given width and place in
 * time, to be moved up and down until they overlap nowhere and reach as low as they can.
 *
 *     bytes ^  +-------+                    What is alive in one section is a bound from below.
 *           |  |   c   | +------+           Placements in a few orders are quick and usually meet
 *           |  +---+---+ |  d   |           it; memory_search.c does the rest.
 *           |  | a | +---+-+----+
 *           |  |   | |  b  |
 *           +--+---+-+-----+------> sections of time
 */
#include "passes/memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/memory_int.h"

enum {
    MAX_PAIRS = 1 << 16, /* some 5 ms for an order */
    NEAR = 64
}; /* of very many pieces, 1/64 above what is wanted is near enough */

struct packer {
    struct fr_piece *piece; /* [n] sorted by the beginning of their lives */
    int              n, n_sections;
    int64_t         *live;    /* [n_sections] bytes */
    struct order    *order;   /* [n] */
    int64_t         *best_at; /* [n] of the best placement so far */
    int64_t          peak, bound;
    /* Where not too many pairs meet: */
    int32_t     *meets, *first_meet; /* [2 * pairs], [n + 1] those that piece i meets */
    struct span *span;               /* [n] */
    /* Where too many do: */
    struct tower *tower; /* [4 * n_sections] */
};

struct order {
    int64_t key;
    int     tie, index; /* the caller's index, and ours */
};

static int
by_key(const void *a, const void *b)
{
    const struct order *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->tie - y->tie;
}

static fr_status
no_memory(const struct packer *p, struct fr_err *err)
{
    return fr_fail(err, FR_ENOMEM, "out of memory: placing %d temporaries", p->n);
}

/* ---- sections and the bound --------------------------------------------------------------- */

/* How many of the n sorted numbers are not above x. */
static int
count_up_to(const int32_t *sorted, int n, int32_t x)
{
    int lo = 0;

    while (lo < n) {
        int mid = lo + (n - lo) / 2;

        if (sorted[mid] <= x)
            lo = mid + 1;
        else
            n = mid;
    }
    return lo;
}

static int64_t
padded(int64_t n_bytes)
{
    return (n_bytes + FR_MEMORY_ALIGN - 1) / FR_MEMORY_ALIGN * FR_MEMORY_ALIGN;
}

/* Makes the pieces, sorted by `from`; `begins` has room for n + 1. */
static void
cut_into_sections(struct packer *p, const struct fr_interval *v, int n, int32_t *begins)
{
    for (int i = 0; i < n; i++)
        if (v[i].n_bytes > 0)
            p->order[p->n++] = (struct order){v[i].from, i, i};
    qsort(p->order, (size_t)p->n, sizeof *p->order, by_key);
    for (int i = 0; i < p->n; i++)
        if (i == 0 || p->order[i].key != p->order[i - 1].key)
            begins[p->n_sections++] = (int32_t)p->order[i].key;
    for (int i = 0; i < p->n; i++) {
        const struct fr_interval *x = &v[p->order[i].index];
        p->piece[i] = (struct fr_piece){.from = count_up_to(begins, p->n_sections, x->from) - 1,
                                        .to = count_up_to(begins, p->n_sections, x->to) - 1,
                                        .index = p->order[i].index,
                                        .n_bytes = x->n_bytes,
                                        .size = padded(x->n_bytes)};
    }
}

/* Returns how many pairs meet. */
static int64_t
find_bound(struct packer *p)
{
    int64_t  n_alive = 0, n_pairs = 0;
    int64_t *change = p->live, *n_end = p->best_at; /* best_at is not in use yet */

    memset(change, 0, (size_t)(p->n_sections + 1) * sizeof *change);
    memset(n_end, 0, (size_t)(p->n_sections + 1) * sizeof *n_end);
    for (int i = 0; i < p->n; i++) {
        change[p->piece[i].from] += p->piece[i].size;
        change[p->piece[i].to + 1] -= p->piece[i].size;
        n_end[p->piece[i].to + 1]++;
    }
    for (int s = 0, i = 0; s < p->n_sections; s++) {
        p->live[s] = change[s] + (s ? p->live[s - 1] : 0);
        p->bound = p->live[s] > p->bound ? p->live[s] : p->bound;
        for (n_alive -= n_end[s]; i < p->n && p->piece[i].from == s; i++)
            n_pairs += n_alive++;
    }
    return n_pairs;
}

/* ---- placing into gaps -------------------------------------------------------------------- */

struct span {
    int64_t at, top;
    int32_t to; /* the last section; for place_by_start */
};

static int
by_at(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return x->at < y->at ? -1 : x->at > y->at;
}

/* Fills p->meets; `alive` has room for n. */
static void
find_meetings(struct packer *p, int32_t *alive)
{
    for (int fill = 0; fill <= 1; fill++) {
        int n_alive = 0;

        if (fill) /* from counts to where each list ends; filling brings that to where it begins */
            for (int i = 0; i < p->n; i++)
                p->first_meet[i + 1] += p->first_meet[i];
        for (int i = 0; i < p->n; i++) {
            int kept = 0;

            for (int k = 0; k < n_alive; k++)
                if (p->piece[alive[k]].to >= p->piece[i].from)
                    alive[kept++] = alive[k];
            for (int k = 0; k < kept; k++)
                if (fill) {
                    p->meets[--p->first_meet[i]] = alive[k];
                    p->meets[--p->first_meet[alive[k]]] = i;
                } else {
                    p->first_meet[i]++;
                    p->first_meet[alive[k]]++;
                }
            alive[kept++] = i;
            n_alive = kept;
        }
    }
}

/* The lowest of the tightest gaps between the spans, sorted by `at`, or the place above them all.
 * The gap below the roof is filled from above. *before: how many spans are below it. */
static int64_t
best_gap(const struct span *span, int n, int64_t size, int64_t roof, int *before)
{
    int64_t end = 0, best = -1, best_gap = INT64_MAX;

    for (int k = 0; k < n; k++) {
        int64_t gap = span[k].at - end;

        if (gap >= size && gap < best_gap) {
            best = end;
            best_gap = gap;
            *before = k;
        }
        end = span[k].top > end ? span[k].top : end;
    }
    if (n && roof - end >= size && roof - end < best_gap)
        best = roof - size;
    if (best < 0 || best >= end)
        *before = n;
    return best >= 0 ? best : end;
}

/* The place for piece x among those placed before it that it meets. */
static int64_t
gap_for(const struct packer *p, int x)
{
    int m = 0, before;

    for (int k = p->first_meet[x]; k < p->first_meet[x + 1]; k++) {
        const struct fr_piece *y = &p->piece[p->meets[k]];

        if (y->at >= 0)
            p->span[m++] = (struct span){.at = y->at, .top = y->at + y->size};
    }
    qsort(p->span, (size_t)m, sizeof *p->span, by_at);
    return best_gap(p->span, m, p->piece[x].size, 0, &before);
}

/* All pieces in order of time: those alive are kept in order of place. With a roof, a chain of
 * results, each read by the next, has every other one below and the rest at the roof. */
static void
place_by_start(struct packer *p, int64_t roof)
{
    int n_alive = 0;

    for (int i = 0; i < p->n; i++) {
        struct fr_piece *x = &p->piece[i];
        int              kept = 0, before;

        for (int k = 0; k < n_alive; k++)
            if (p->span[k].to >= x->from)
                p->span[kept++] = p->span[k];
        x->at = best_gap(p->span, kept, x->size, roof, &before);
        memmove(p->span + before + 1, p->span + before, (size_t)(kept - before) * sizeof *p->span);
        p->span[before] = (struct span){x->at, x->at + x->size, x->to};
        n_alive = kept + 1;
    }
}

/* ---- stacking ----------------------------------------------------------------------------- */

/* A node of a tree over the sections: how high the pieces reach that cover all its sections, and
 * how high any piece does that is within. */
struct tower {
    int64_t covered, highest;
};

static int64_t
height(const struct packer *p, int node, int lo, int hi, const struct fr_piece *x)
{
    int     mid = lo + (hi - lo) / 2;
    int64_t h = p->tower[node].covered, below;

    if (x->from <= lo && hi <= x->to)
        return p->tower[node].highest;
    if (x->from <= mid && (below = height(p, 2 * node, lo, mid, x)) > h)
        h = below;
    if (x->to > mid && (below = height(p, 2 * node + 1, mid + 1, hi, x)) > h)
        h = below;
    return h;
}

static void
stack(struct packer *p, int node, int lo, int hi, const struct fr_piece *x)
{
    int     mid = lo + (hi - lo) / 2;
    int64_t top = x->at + x->size;

    if (top > p->tower[node].highest)
        p->tower[node].highest = top;
    if (x->from <= lo && hi <= x->to) {
        p->tower[node].covered = top;
        return;
    }
    if (x->from <= mid)
        stack(p, 2 * node, lo, mid, x);
    if (x->to > mid)
        stack(p, 2 * node + 1, mid + 1, hi, x);
}

/* ---- orders ------------------------------------------------------------------------------- */

enum by { BY_SIZE, BY_LENGTH, BY_AREA, BY_END, BY_CROWD, N_BY };

/* What is small comes first. */
static int64_t
key_of(const struct packer *p, const struct fr_piece *x, enum by by)
{
    int64_t length = x->to - x->from + 1, crowd = 0;

    switch (by) {
    case BY_END:
        return -x->to;
    case BY_SIZE:
        return -x->n_bytes;
    case BY_LENGTH:
        return -length;
    case BY_AREA:
        return -(x->size / FR_MEMORY_ALIGN) * length;
    default: /* the most that is alive beside it */
        for (int s = x->from; s <= x->to; s++)
            crowd = p->live[s] > crowd ? p->live[s] : crowd;
        return -crowd;
    }
}

static void
place_in_order(struct packer *p, enum by by)
{
    for (int i = 0; i < p->n; i++) {
        p->order[i] = (struct order){key_of(p, &p->piece[i], by), p->piece[i].index, i};
        p->piece[i].at = -1;
    }
    qsort(p->order, (size_t)p->n, sizeof *p->order, by_key);
    if (p->tower)
        memset(p->tower, 0, (size_t)p->n_sections * 4 * sizeof *p->tower);
    for (int i = 0; i < p->n; i++) {
        struct fr_piece *x = &p->piece[p->order[i].index];

        if (p->tower) {
            x->at = height(p, 1, 0, p->n_sections - 1, x);
            stack(p, 1, 0, p->n_sections - 1, x);
        } else {
            x->at = gap_for(p, p->order[i].index);
        }
    }
}

/* Keeps the placement that has just been made if it is the best. */
static void
keep_better(struct packer *p)
{
    int64_t peak = 0;

    for (int i = 0; i < p->n; i++)
        peak = p->piece[i].at + p->piece[i].size > peak ? p->piece[i].at + p->piece[i].size : peak;
    if (peak >= p->peak)
        return;
    p->peak = peak;
    for (int i = 0; i < p->n; i++)
        p->best_at[i] = p->piece[i].at;
}

static void
try_by_start(struct packer *p, int64_t wanted)
{
    for (int roof = 0; roof <= 1 && p->peak > wanted; roof++) {
        place_by_start(p, roof ? wanted : 0);
        keep_better(p);
    }
}

/* Placements until one is no higher than `wanted`. */
static fr_status
try_orders(struct packer *p, int64_t n_pairs, int64_t wanted, int32_t *numbers, struct fr_err *err)
{
    bool few = n_pairs <= MAX_PAIRS;

    if (few)
        try_by_start(p, wanted);
    if (p->peak <= wanted)
        return FR_OK;
    if (few)
        p->meets = fr_malloc(2 * (size_t)n_pairs * sizeof *p->meets);
    else
        p->tower = fr_malloc((size_t)p->n_sections * 4 * sizeof *p->tower);
    if (!p->meets && !p->tower)
        return no_memory(p, err);
    if (few)
        find_meetings(p, numbers);
    for (int by = 0; by < (few ? N_BY : BY_CROWD) && p->peak > wanted; by++) {
        place_in_order(p, by);
        keep_better(p);
    }
    if (!few && p->peak - wanted > wanted / NEAR)
        try_by_start(p, wanted);
    return FR_OK;
}

/* ---- all of it ---------------------------------------------------------------------------- */

/* The search, for what is wanted and then for something between that and what there is. */
static fr_status
search(struct packer *p, int64_t wanted, int64_t max_steps, int64_t *steps, struct fr_err *err)
{
    bool      found = false;
    fr_status st = FR_OK;

    *steps = 0;
    for (int i = 0; i < p->n; i++)
        p->piece[i].at = p->best_at[i];
    while (wanted < p->peak && *steps < max_steps && !found) {
        int64_t share = (max_steps - *steps + 1) / 2, left = share;

        TRY(fr_memory_search(p->piece, p->n, p->n_sections, wanted, &left, &found, err));
        *steps += share - left;
        if (left == share)
            break; /* too large to be searched */
        if (!found)
            wanted += ((p->peak - wanted) / 2 + FR_MEMORY_ALIGN) / FR_MEMORY_ALIGN * FR_MEMORY_ALIGN;
    }
    if (found) {
        p->peak = 0;
        for (int i = 0; i < p->n; i++) {
            int64_t top = p->piece[i].at + p->piece[i].size;

            p->best_at[i] = p->piece[i].at;
            p->peak = top > p->peak ? top : p->peak;
        }
    }
out:
    return st;
}

/* Whether no two that live in a common step share a byte, and all are within the block; of many only that. */
static FR_DEBUG_ONLY bool
lie_apart(const struct fr_interval *v, int n, int64_t peak)
{
    enum { FEW = 512 };

    for (int i = 0; i < n; i++) {
        if (v[i].offset < 0 || v[i].offset % FR_MEMORY_ALIGN || v[i].offset + padded(v[i].n_bytes) > peak)
            return false;
        for (int k = 0; k < i && n <= FEW; k++)
            if (v[i].from <= v[k].to && v[k].from <= v[i].to && v[i].offset < v[k].offset + v[k].n_bytes &&
                v[k].offset < v[i].offset + v[i].n_bytes)
                return false;
    }
    return true;
}

fr_status
fr_memory_pack(struct fr_interval *v, int n, int64_t wanted, int64_t max_steps,
               struct fr_packing *out, struct fr_err *err)
{
    size_t        room = (size_t)n + 1;
    struct packer p = {.peak = INT64_MAX};
    int32_t      *numbers;
    int64_t       n_pairs;
    fr_status     st = FR_OK;

    *out = (struct fr_packing){0};
    if (n == 0)
        return FR_OK;
    if (n == 1) {
        v->offset = 0;
        out->bound = out->quick_peak = out->peak = padded(v->n_bytes);
        return FR_OK;
    }
    numbers = fr_malloc(room * sizeof *numbers);
    p.piece = fr_malloc(room * sizeof *p.piece);
    p.live = fr_malloc(room * sizeof *p.live);
    p.order = fr_malloc(room * sizeof *p.order);
    p.best_at = fr_malloc(room * sizeof *p.best_at);
    p.span = fr_malloc(room * sizeof *p.span);
    p.first_meet = fr_calloc(room, sizeof *p.first_meet);
    if (!numbers || !p.piece || !p.live || !p.order || !p.best_at || !p.span || !p.first_meet)
        TRY(no_memory(&p, err));
    cut_into_sections(&p, v, n, numbers);
    n_pairs = find_bound(&p);
    wanted = wanted > p.bound ? wanted : p.bound;
    TRY(try_orders(&p, n_pairs, wanted, numbers, err));
    *out = (struct fr_packing){.bound = p.bound, .quick_peak = p.peak};
    TRY(search(&p, wanted, max_steps, &out->steps, err));
    out->peak = p.peak;
    for (int i = 0; i < n; i++)
        v[i].offset = 0; /* of those without bytes */
    for (int i = 0; i < p.n; i++)
        v[p.piece[i].index].offset = p.best_at[i];
    FR_ASSERT(out->bound <= out->peak && out->peak <= out->quick_peak && lie_apart(v, n, out->peak));
out:
    fr_free(numbers);
    fr_free(p.piece);
    fr_free(p.live);
    fr_free(p.order);
    fr_free(p.best_at);
    fr_free(p.span);
    fr_free(p.first_meet);
    fr_free(p.meets);
    fr_free(p.tower);
    return st;
}
