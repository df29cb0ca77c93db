/* runtime/bands.c -- which steps of a plan run band by band. Called by plan.c.  band_items.c finds what goes
 * together, band_place.c places it, band_run.c runs it.
 *
 * A step that goes through more memory than the caches hold leaves nothing there for the next one, which reads it all
 * again: the mean over the channels of some images, then the squares of what differs from it. So steps that follow each
 * other are run together, a band of a few images (rows, channels) after the other, each band through all of them while it
 * is in the second cache. What only they see is never there as a whole: a temporary is as large as what one band needs
 * of it, and each thread, which takes bands of its own, has one. (Known as overlapped tiling: Krishnamoorthy et al.,
 * "Effective Automatic Parallelization of Stencil Computations", PLDI 2007.)
 *
 * What one band of an item -- one instance of a step -- is, follows from the strides. Along the outermost axis of a
 * temporary, the one with its longest stride, its maker and its readers are cut: index i of the maker writes the bytes
 * from i * made on, index j of a reader reads those from low + j * read to high + j * read, and so it is known which
 * indices of the maker a range of the reader needs, also beyond the band's own (the neighbours of a stencil, which two
 * bands compute each for itself). What others see as well is computed once: of such an item the bands are a partition.
 *
 * Where the axis is not the outermost one of a temporary, which has lines of it for each channel, say, a reader that has
 * the same lines needs the same indices; the lines of one band then lie close together.
 *
 * Where a single index of that axis has more than a band should -- an image of many channels -- the steps are cut twice:
 * each image by itself, and along the axis that is the outermost one within it.
 *
 * Any order of whole rows gives the same bits. An axis along which something is added up is not cut. */
#include "runtime/bands.h"

#include <string.h>

#include "base/env.h"
#include "runtime/storage.h"

enum {
    WORTH = 16,         /* times FRIT_BAND_BYTES at least, of what is touched */
    MOST = 4,           /* times FRIT_BAND_BYTES that a single unit may have */
    RUN_SHARE = 256,    /* a part of FRIT_BAND_BYTES, at least, are neighbours where a band is a part of each row */
    AGAIN_SHARE = 4,    /* a part of what is touched, at least, that a step finds where another one has been */
    HALO_SHARE = 4,     /* one in so many indices may be computed twice, on the average */
    ALIGNED = 64,       /* bands of more units are multiples of it, */
    SCANNED = 8,        /* and those with scans of this: so many rows go together */
};

/* ---- what a band is ----------------------------------------------------------------------- */

static int64_t
floor_div(int64_t a, int64_t b) /* b > 0 */
{
    return a / b - (a % b < 0);
}

bool
fr_band_ranges(const struct fr_band *b, int64_t t, int64_t *low, int64_t *high)
{
    for (int i = 0; i < b->n_items; i++) {
        const struct fr_band_item *it = &b->item[i];
        int64_t                    size = b->units * it->per;

        low[i] = !it->whole ? INT64_MAX : t * size < it->n ? t * size : it->n;
        high[i] = !it->whole ? 0 : t == b->n_bands - 1 || it->n - low[i] < size ? it->n : low[i] + size;
    }
    for (int i = b->n_items - 1; i >= 0; i--) {
        if (low[i] >= high[i])
            continue;
        for (int k = 0; k < b->item[i].n_needs; k++) {
            const struct fr_band_need *need = &b->need[b->item[i].first_need + k];
            int                        m = need->item;
            int64_t                    first = floor_div(need->low + low[i] * need->read, need->made);
            int64_t last = floor_div(need->high - 1 + (high[i] - 1) * need->read, need->made) + 1;

            first = first < 0 ? 0 : first;
            last = last > b->item[m].n ? b->item[m].n : last;
            if (b->item[m].whole) {
                if (first < low[m] || last > high[m])
                    return false;
                continue;
            }
            low[m] = first < low[m] ? first : low[m];
            high[m] = last > high[m] ? last : high[m];
        }
    }
    return true;
}

/* ---- how it is cut ------------------------------------------------------------------------ */

/* Which items are computed once, and the number of units. */
static void
find_whole(struct fr_band_finder *z)
{
    for (int i = 0; i < z->band.n_items; i++) {
        struct fr_band_item  *it = &z->item[i];
        const struct fr_step *s = &z->p->step[it->step];
        bool                  is_read = false;

        for (int k = 0; k < z->band.n_needs; k++)
            is_read |= z->need[k].item == i;
        it->whole = !is_read;
        for (int k = 0; k < fr_step_operands(s); k++)
            if (fr_band_writes(s, k))
                it->whole |= !fr_band_is_inner(z, s->binding[it->instance][k].node);
        if (it->whole && (it->n + it->per - 1) / it->per > z->band.n_units)
            z->band.n_units = (it->n + it->per - 1) / it->per;
    }
}

/* Whether every band has what it needs, and not too much is computed twice; the longest part of each item. */
static bool
try_all(struct fr_band_finder *z)
{
    const struct fr_band *b = &z->band;
    int64_t               low[FR_BAND_ITEMS], high[FR_BAND_ITEMS];
    double                computed = 0; /* items, those that are computed twice counted twice */

    memset(z->longest, 0, sizeof z->longest);
    for (int64_t t = 0; t < b->n_bands; t++) {
        if (!fr_band_ranges(b, t, low, high))
            return false;
        for (int i = 0; i < b->n_items; i++) {
            int64_t n = high[i] > low[i] ? high[i] - low[i] : 0;

            computed += (double)n / (double)b->item[i].n;
            z->longest[i] = n > z->longest[i] ? n : z->longest[i];
        }
    }
    return computed <= b->n_items * (1 + 1.0 / HALO_SHARE);
}

/* Whether the parts of rows that a band has are long enough, where it has parts of rows. */
static bool
runs_are_long(const struct fr_band_finder *z)
{
    for (int i = 0; i < z->band.n_items; i++) {
        const struct fr_band_item *it = &z->item[i];
        const struct fr_instance  *in = &z->view[i];

        if (it->axis == in->n_outer + 1 && (in->n_outer > 0 || in->n_rows > 1) &&
            z->band.units * it->per * (int64_t)sizeof(float) < fr_env.band_bytes / RUN_SHARE)
            return false;
    }
    return true;
}

/* What a unit touches, of each root once; and what its items do, each by itself. */
static double
weigh(struct fr_band_finder *z)
{
    double bytes = 0;

    for (int i = 0; i < z->n_touched; i++)
        z->unit[z->touched[i]] = z->seen[z->touched[i]] = 0;
    z->accesses = 0;
    for (int i = 0; i < z->band.n_items; i++) {
        const struct fr_band_item *it = &z->item[i];
        const struct fr_instance  *in = &z->view[i];
        const struct fr_step      *s = &z->p->step[it->step];

        for (int k = 0; k < fr_step_operands(s); k++) {
            int    n = s->binding[it->instance][k].node, root;
            double of;

            if (n < 0)
                continue;
            root = fr_place_root(z->p->place, n);
            of = (double)fr_band_reach(in, k, it->axis, fr_band_size(s, k)).touched *
                 (fr_band_strides(in, k)[it->axis] != 0 ? (double)it->per : 1);
            bytes += of > z->unit[root] ? of - z->unit[root] : 0;
            z->unit[root] = of > z->unit[root] ? of : z->unit[root];
            z->accesses += of > z->seen[root] ? of - z->seen[root] : 0;
            z->seen[root] = of > z->seen[root] ? of : z->seen[root];
        }
        for (int k = 0; k < fr_step_operands(s); k++)
            if (s->binding[it->instance][k].node >= 0)
                z->seen[fr_place_root(z->p->place, s->binding[it->instance][k].node)] = 0;
    }
    return bytes;
}

static bool
scans(const struct fr_band_finder *z)
{
    for (int i = 0; i < z->band.n_items; i++)
        if (z->p->step[z->item[i].step].kind == FR_STEP_SCAN)
            return true;
    return false;
}

/* Sizes of bands; false: it does not pay, or cannot be. */
static bool
cut(struct fr_band_finder *z, double bytes)
{
    struct fr_band *b = &z->band;
    double          want = fr_env.band_bytes;
    int64_t         most;

    if (bytes <= 0 || bytes * (double)b->n_units * (double)b->n_outer < WORTH * want || bytes > MOST * want ||
        z->accesses < (1 + 1.0 / AGAIN_SHARE) * bytes)
        return false;
    most = b->n_units * b->n_outer / (2 * fr_plan_by(z->p)->n_workers()); /* two for each thread, so that none waits long */
    most = most < b->n_units ? most : b->n_units;
    b->units = (int64_t)(want / bytes) + 1;
    if (scans(z))
        b->units = (b->units + SCANNED - 1) / SCANNED * SCANNED;
    for (; b->units <= most; b->units *= 2) {
        if (b->units > ALIGNED)
            b->units = b->units / ALIGNED * ALIGNED;
        b->n_bands = (b->n_units + b->units - 1) / b->units;
        if ((double)b->units * bytes > 2 * MOST * want || !runs_are_long(z))
            return false;
        if (try_all(z))
            return true;
    }
    return false;
}

/* Whether each unit of all items lies by itself and needs nothing of others, so that it can be cut once more. */
static bool
units_are_apart(const struct fr_band_finder *z)
{
    const struct fr_band *b = &z->band;

    if (z->has_lines)
        return false;
    for (int i = 0; i < b->n_items; i++) {
        const struct fr_band_item *it = &z->item[i];

        if (it->n != b->n_units * it->per)
            return false;
        for (int k = 0; k < it->n_needs; k++) {
            const struct fr_band_need *need = &z->need[it->first_need + k];

            if (need->low < 0 || need->high + (it->per - 1) * need->read > z->item[need->item].per * need->made)
                return false;
        }
    }
    return true;
}

/* What a unit touches of the steps from `first` up to `end`; 0: no two go together. */
static double
look(struct fr_band_finder *z, int first, int end)
{
    fr_band_forget(z);
    fr_band_gather(z, first, end);
    if (z->band.n_steps < 2)
        return 0;
    find_whole(z);
    return weigh(z);
}

/* These steps, cut once or twice. */
static bool
find_up_to(struct fr_band_finder *z, int first, int end)
{
    int64_t n_units;
    double  bytes;

    z->n_outer = 0;
    bytes = look(z, first, end);
    if (bytes <= fr_env.band_bytes || !units_are_apart(z))
        return cut(z, bytes);
    n_units = z->band.n_units;
    z->n_outer = z->band.n_items;
    memcpy(z->outer, z->item, sizeof z->outer);
    bytes = look(z, first, end);
    z->band.n_outer = n_units;
    if (cut(z, bytes))
        return true;
    z->n_outer = 0;
    return cut(z, look(z, first, end));
}

/* As many steps from `first` on as can be cut. */
static bool
find(struct fr_band_finder *z, int first)
{
    for (int end = z->p->n_steps; end >= first + 2; end = first + z->band.n_steps - 1) {
        if (find_up_to(z, first, end))
            return true;
        if (z->band.n_steps < 2)
            break;
    }
    return false;
}

fr_status
fr_bands_find(struct fr_plan *p, const int32_t *to, struct fr_arena *scratch, struct fr_err *err)
{
    size_t                 n = (size_t)p->graph->n_nodes + 1;
    uint64_t               bytes = 0;
    struct fr_band_finder *z;
    fr_status              st = FR_OK;

    for (int s = 0; s < p->n_steps; s++)
        bytes += p->step[s].bytes_read + p->step[s].bytes_written;
    if (!fr_plan_by(p)->share || fr_env.band_bytes <= 0 || p->n_steps < 2 || bytes < (uint64_t)fr_env.band_bytes * WORTH)
        return FR_OK;
    if (!(z = fr_arena_alloc(scratch, sizeof *z)))
        return fr_no_memory(err, "a plan");
    z->p = p;
    z->to = to;
    z->arena = scratch;
    z->maker = fr_arena_room(scratch, n * sizeof *z->maker);
    z->walker = fr_arena_room(scratch, n * sizeof *z->walker);
    z->walked = fr_arena_alloc(scratch, n * sizeof *z->walked);
    z->made = fr_arena_alloc(scratch, n * sizeof *z->made);
    z->line = fr_arena_alloc(scratch, n * sizeof *z->line);
    z->unit = fr_arena_alloc(scratch, n * sizeof *z->unit);
    z->seen = fr_arena_alloc(scratch, n * sizeof *z->seen);
    z->touched = fr_arena_room(scratch, n * sizeof *z->touched);
    p->band = fr_arena_room(&p->graph->arena, (size_t)p->n_steps / 2 * sizeof *p->band);
    if (!z->maker || !z->walker || !z->walked || !z->made || !z->line || !z->unit || !z->seen || !z->touched ||
        !p->band)
        return fr_no_memory(err, "a plan");
    memset(z->maker, 0xff, n * sizeof *z->maker); /* FR_BAND_NOBODY */
    memset(z->walker, 0xff, n * sizeof *z->walker);
    for (int s = 0, n_steps; s + 1 < p->n_steps && st == FR_OK; s += n_steps) {
        n_steps = 1;
        if (find(z, s)) {
            st = fr_band_keep(z, err);
            n_steps = z->band.n_steps;
        }
    }
    return st;
}
