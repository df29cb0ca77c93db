/* runtime/bands.c -- which steps of a plan run band by band. Called by plan.c; band_run.c runs them.
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
#include <stdint.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "base/env.h"
#include "passes/memory.h"
#include "runtime/plan.h"
#include "runtime/storage.h"

enum {
    WORTH = 16,         /* times FRIT_BAND_BYTES at least, of what is touched */
    MOST = 4,           /* times FRIT_BAND_BYTES that a single unit may have */
    RUN_SHARE = 256,    /* a part of FRIT_BAND_BYTES, at least, are neighbours where a band is a part of each row */
    AGAIN_SHARE = 4,    /* a part of what is touched, at least, that a step finds where another one has been */
    HALO_SHARE = 4,     /* one in so many indices may be computed twice, on the average */
    SET_BITS = 11,      /* lines so far apart, or a multiple of that, push each other out of the first cache */
    ALIGNED = 64,       /* bands of more units are multiples of it */
};

enum { NOBODY = -1, SPOILT = -2 }; /* no maker; an item of the band writes it, but nobody can tell what readers need */

struct finder {
    struct fr_plan     *p;
    const int32_t      *to;         /* [n_nodes] last step that touches the memory of each root */
    struct fr_arena    *arena;
    int32_t            *maker;      /* [n_nodes] item; NOBODY, SPOILT */
    int64_t            *made;       /* [n_nodes] the stride of its axis, */
    int64_t            *line;       /* [n_nodes] and of what has lines of it: from one line to the next; 0: it has not */
    double             *unit, *seen; /* [n_nodes] bytes of a root that a unit touches, and one item of it */
    int32_t            *touched;    /* [n_touched] roots that have been looked at */
    int                 n_touched;
    bool               *is_touched; /* [n_nodes] */
    bool                has_lines;  /* of one of them, at least */
    int64_t             factor;     /* by which units are to become longer for the item that is being added */
    struct fr_band      band;       /* that is being looked for */
    struct fr_band_item item[FR_BAND_ITEMS];
    struct fr_instance  view[FR_BAND_ITEMS];  /* of each item: what is cut, */
    struct fr_band_item outer[FR_BAND_ITEMS]; /* which is one unit of this */
    int                 n_outer;    /* 0: it is all of it */
    struct fr_band_need need[FR_BAND_NEEDS];
    int64_t             low[FR_BAND_ITEMS], high[FR_BAND_ITEMS], longest[FR_BAND_ITEMS];
    double              again[FR_BAND_ITEMS]; /* indices computed, all bands together */
    double              accesses;   /* bytes that the items of a unit touch */
};

static int
root_of(const struct fr_plan *p, int n)
{
    return p->place[n].kind == FR_PLACE_SAME ? p->place[n].root : n;
}

static const int64_t *
strides_of(const struct fr_instance *in, int k)
{
    return in->stride + (size_t)k * (size_t)(in->n_outer + 2);
}

/* The axis with the longest stride of the operand, of more than one index; -1: there is none, or it goes backwards. */
static int
outermost(const struct fr_instance *in, int k)
{
    const int64_t *stride = strides_of(in, k);
    int            best = -1;

    for (int a = 0; a < in->n_outer + 2; a++)
        if (fr_instance_dim(in, a) > 1 && stride[a] != 0 &&
            (best < 0 || (stride[a] < 0 ? -stride[a] : stride[a]) > stride[best])) {
            if (stride[a] < 0)
                return -1;
            best = a;
        }
    return best;
}

/* The bytes from index 0 that the operand reaches along all axes but one, and how many it touches. */
struct reach {
    int64_t low, high, touched;
};

static struct reach
reach_of(const struct fr_instance *in, int k, int but, int64_t size)
{
    const int64_t *stride = strides_of(in, k);
    struct reach   r = {0, size, size};

    for (int a = 0; a < in->n_outer + 2; a++) {
        int64_t n = fr_instance_dim(in, a);

        if (a == but || stride[a] == 0)
            continue;
        *(stride[a] < 0 ? &r.low : &r.high) += stride[a] * (n - 1);
        r.touched *= n;
    }
    return r;
}

static void
touch(struct finder *z, int root)
{
    if (!z->is_touched[root])
        z->touched[z->n_touched++] = root;
    z->is_touched[root] = true;
}

static void
forget(struct finder *z)
{
    for (int i = 0; i < z->n_touched; i++) {
        z->maker[z->touched[i]] = NOBODY;
        z->is_touched[z->touched[i]] = false;
    }
    z->n_touched = 0;
}

/* Whether all that the operand reaches within one index of the axis lies within `made` bytes, but for axes that go from
 * line to line. `line` 0: there are none. */
static bool
stays_in_lines(const struct fr_instance *in, int k, int axis, int64_t made, int64_t line, int64_t size)
{
    const int64_t *stride = strides_of(in, k);
    int64_t        reach = size;

    for (int a = 0; a < in->n_outer + 2; a++) {
        if (a == axis || stride[a] == 0 || fr_instance_dim(in, a) == 1 || (line && stride[a] % line == 0))
            continue;
        if (stride[a] < 0)
            return false;
        reach += stride[a] * (fr_instance_dim(in, a) - 1);
    }
    return reach <= made;
}

/* ---- one more item ------------------------------------------------------------------------ */

static int
with_stride(const struct fr_instance *in, int k, int64_t stride)
{
    for (int a = 0; a < in->n_outer + 2; a++)
        if (strides_of(in, k)[a] == stride && fr_instance_dim(in, a) > 1)
            return a;
    return -1;
}

/* The axis along which the item is cut and what a unit is of it, by its first operand that the band makes, or, of the
 * first step's, by what it writes. False: there is none. */
static bool
choose_axis(struct finder *z, struct fr_band_item *it)
{
    const struct fr_step     *s = &z->p->step[it->step];
    const struct fr_instance *in = &z->view[z->band.n_items];
    const struct fr_nest     *nest = s->kernel->k.nest;
    bool                      is_first = it->step == z->band.first;

    for (int k = 0; k < nest->n_operands; k++) {
        int     n = s->binding[it->instance][k].node, root = n < 0 ? n : root_of(z->p, n), m;
        int64_t read, unit;

        if (n < 0 || ((nest->operands[k].flags & FR_OPERAND_WRITTEN) != 0) != is_first ||
            (!is_first && z->maker[root] == NOBODY))
            continue;
        m = z->maker[root];
        it->axis = !is_first && z->line[root] ? with_stride(in, k, z->made[root]) : outermost(in, k);
        if (it->axis < 0 || m == SPOILT)
            return false;
        it->n = fr_instance_dim(in, it->axis);
        it->per = 1;
        if (is_first)
            return true;
        read = strides_of(in, k)[it->axis];
        unit = z->item[m].per * z->made[root];
        if (read > unit && read % unit == 0)
            z->factor = read / unit;
        else if (unit % read == 0)
            it->per = unit / read;
        else
            return false;
        return true;
    }
    return false;
}

/* Whether the item may be cut along its axis: nothing is folded along it. */
static bool
may_be_cut(const struct fr_nest *nest, const struct fr_instance *in, int axis)
{
    if (in->joined)
        return false;
    if (axis == in->n_outer + 1 && (nest->n_stages != 1 || (nest->flags & (FR_NEST_ROWBUF | FR_NEST_REDUCES))))
        return false;
    for (int k = 0; k < nest->n_operands; k++)
        if ((nest->operands[k].flags & FR_OPERAND_WRITTEN) && strides_of(in, k)[axis] <= 0)
            return false;
    return true;
}

/* What the item reads of what the band makes. */
static bool
add_need(struct finder *z, struct fr_band_item *it, int k, int root, const struct fr_binding *b, int64_t size)
{
    const struct fr_instance *in = &z->view[z->band.n_items];
    int                       m = z->maker[root];
    int64_t                   read = strides_of(in, k)[it->axis], made = z->made[root], line = z->line[root];
    struct reach              r = reach_of(in, k, it->axis, size);

    if (m == SPOILT || read <= 0 || b->moving >= 0 || z->band.n_needs == FR_BAND_NEEDS ||
        read * it->per != made * z->item[m].per * z->factor)
        return false;
    if (line) {
        if (read != made || it->n != z->item[m].n || b->offset % line != 0 || in->n_packed ||
            !stays_in_lines(in, k, it->axis, read, line, size))
            return false;
        r = (struct reach){-b->offset, size - b->offset, 0}; /* the same indices, of any lines */
    }
    z->need[z->band.n_needs++] = (struct fr_band_need){
        .item = m, .made = made, .read = read, .low = b->offset + r.low, .high = b->offset + r.high};
    it->n_needs++;
    return true;
}

static bool
add_item(struct finder *z, int step, int instance)
{
    const struct fr_step *s = &z->p->step[step];
    const struct fr_nest *nest = s->kernel->k.nest;
    int                   i = z->band.n_items;
    struct fr_band_item  *it = &z->item[i];
    struct fr_instance   *in = &z->view[i];

    if (i == FR_BAND_ITEMS)
        return false;
    *it = (struct fr_band_item){.step = step, .instance = instance, .first_need = z->band.n_needs, .outer_axis = NOBODY};
    *in = s->instance[instance];
    z->factor = 1;
    if (z->n_outer) { /* the same items come in the same order */
        it->outer_axis = z->outer[i].axis;
        it->outer_per = z->outer[i].per;
        fr_instance_cut(in, it->outer_axis, it->outer_per);
    }
    if (!choose_axis(z, it) || !may_be_cut(nest, in, it->axis))
        return false;
    for (int written = 0; written < 2; written++) /* what is read first: nothing reads what it writes */
        for (int k = 0; k < nest->n_operands; k++) {
            const struct fr_binding *b = &s->binding[instance][k];
            int64_t                  size = fr_dtype_size(nest->operands[k].dtype), made;
            int                      root;

            if (b->node < 0 || ((nest->operands[k].flags & FR_OPERAND_WRITTEN) != 0) != written)
                continue;
            root = root_of(z->p, b->node);
            if (!written) {
                if (z->maker[root] != NOBODY && !add_need(z, it, k, root, b, size))
                    return false;
            } else {
                /* Memory of its own, written once and whole. */
                if (root != b->node || z->p->graph->node[root].op == FR_OP_store || z->maker[root] != NOBODY ||
                    (z->p->place[root].kind != FR_PLACE_ARENA && z->p->place[root].kind != FR_PLACE_NEW))
                    return false;
                made = z->made[root] = strides_of(in, k)[it->axis];
                z->line[root] = stays_in_lines(in, k, it->axis, made, 0, size) ? 0 : made * it->n;
                z->has_lines |= z->line[root] != 0;
                z->maker[root] = b->offset == 0 && !(z->line[root] && in->n_packed) &&
                                         stays_in_lines(in, k, it->axis, made, z->line[root], size)
                                     ? i
                                     : SPOILT;
            }
            touch(z, root);
        }
    for (int k = 0; k < i; k++)
        z->item[k].per *= z->factor;
    z->band.n_items++;
    return true;
}

/* As many steps from `first` on as go together, up to `end`. */
static void
gather_steps(struct finder *z, int first, int end)
{
    z->band = (struct fr_band){.first = first, .n_outer = 1, .item = z->item, .need = z->need};
    z->has_lines = false;
    for (int s = first; s < end && z->p->step[s].kind == FR_STEP_LAUNCH; s++) {
        struct fr_band before = z->band;

        if (z->n_outer && before.n_items + z->p->step[s].n_instances > z->n_outer)
            return;
        for (int i = 0; i < z->p->step[s].n_instances; i++)
            if (!add_item(z, s, i)) {
                z->band = before;
                return;
            }
        z->band.n_steps++;
    }
}

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

static bool
is_in(const struct fr_band *b, int step)
{
    return step >= b->first && step < b->first + b->n_steps;
}

/* The node has memory only while a band runs. */
static bool
is_inner(const struct finder *z, int n)
{
    return z->maker[n] >= 0 && z->maker[n] < z->band.n_items && z->p->place[n].kind == FR_PLACE_ARENA &&
           is_in(&z->band, z->to[n]);
}

/* Which items are computed once, and the number of units. */
static void
find_whole(struct finder *z)
{
    for (int i = 0; i < z->band.n_items; i++) {
        struct fr_band_item  *it = &z->item[i];
        const struct fr_step *s = &z->p->step[it->step];
        bool                  is_read = false;

        for (int k = 0; k < z->band.n_needs; k++)
            is_read |= z->need[k].item == i;
        it->whole = !is_read;
        for (int k = 0; k < s->kernel->k.nest->n_operands; k++)
            if (s->kernel->k.nest->operands[k].flags & FR_OPERAND_WRITTEN)
                it->whole |= !is_inner(z, s->binding[it->instance][k].node);
        if (it->whole && (it->n + it->per - 1) / it->per > z->band.n_units)
            z->band.n_units = (it->n + it->per - 1) / it->per;
    }
}

/* Whether every band has what it needs; the longest part of each item. */
static bool
try_all(struct finder *z)
{
    double most = 0, again = 0;

    memset(z->longest, 0, sizeof z->longest);
    memset(z->again, 0, sizeof z->again);
    for (int64_t t = 0; t < z->band.n_bands; t++) {
        if (!fr_band_ranges(&z->band, t, z->low, z->high))
            return false;
        for (int i = 0; i < z->band.n_items; i++) {
            int64_t n = z->high[i] - z->low[i];

            if (n <= 0)
                continue;
            z->again[i] += (double)n;
            z->longest[i] = n > z->longest[i] ? n : z->longest[i];
        }
    }
    for (int i = 0; i < z->band.n_items; i++) {
        most += 1;
        again += z->again[i] / (double)z->item[i].n;
    }
    return again <= most * (1 + 1.0 / HALO_SHARE);
}

/* Whether the parts of rows that a band has are long enough, where it has parts of rows. */
static bool
runs_are_long(const struct finder *z)
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
weigh(struct finder *z)
{
    double bytes = 0;

    for (int i = 0; i < z->n_touched; i++)
        z->unit[z->touched[i]] = z->seen[z->touched[i]] = 0;
    z->accesses = 0;
    for (int i = 0; i < z->band.n_items; i++) {
        const struct fr_band_item *it = &z->item[i];
        const struct fr_instance  *in = &z->view[i];
        const struct fr_step      *s = &z->p->step[it->step];

        for (int k = 0; k < s->kernel->k.nest->n_operands; k++) {
            int    n = s->binding[it->instance][k].node, root;
            double of;

            if (n < 0)
                continue;
            root = root_of(z->p, n);
            of = (double)reach_of(in, k, it->axis, fr_dtype_size(s->kernel->k.nest->operands[k].dtype)).touched *
                 (strides_of(in, k)[it->axis] != 0 ? (double)it->per : 1);
            bytes += of > z->unit[root] ? of - z->unit[root] : 0;
            z->unit[root] = of > z->unit[root] ? of : z->unit[root];
            z->accesses += of > z->seen[root] ? of - z->seen[root] : 0;
            z->seen[root] = of > z->seen[root] ? of : z->seen[root];
        }
        for (int k = 0; k < s->kernel->k.nest->n_operands; k++)
            if (s->binding[it->instance][k].node >= 0)
                z->seen[root_of(z->p, s->binding[it->instance][k].node)] = 0;
    }
    return bytes;
}

/* Sizes of bands; false: it does not pay, or cannot be. */
static bool
cut(struct finder *z, double bytes)
{
    struct fr_band *b = &z->band;
    double          want = fr_env.band_bytes;
    int64_t         most;

    if (bytes <= 0 || bytes * (double)b->n_units * (double)b->n_outer < WORTH * want || bytes > MOST * want ||
        z->accesses < (1 + 1.0 / AGAIN_SHARE) * bytes)
        return false;
    most = b->n_units * b->n_outer / (2 * fr_pool_size()); /* two for each thread, so that none waits long */
    most = most < b->n_units ? most : b->n_units;
    for (b->units = (int64_t)(want / bytes) + 1; b->units <= most; b->units *= 2) {
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
units_are_apart(const struct finder *z)
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
look(struct finder *z, int first, int end)
{
    forget(z);
    gather_steps(z, first, end);
    if (z->band.n_steps < 2)
        return 0;
    find_whole(z);
    return weigh(z);
}

/* These steps, cut once or twice. */
static bool
find_up_to(struct finder *z, int first, int end)
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
find(struct finder *z, int first)
{
    for (int end = z->p->n_steps; end >= first + 2; end = first + z->band.n_steps - 1) {
        if (find_up_to(z, first, end))
            return true;
        if (z->band.n_steps < 2)
            break;
    }
    return false;
}

/* ---- what is kept ------------------------------------------------------------------------- */

/* From one line to the next in scratch: not so that they share sets of the first cache. */
static int64_t
pitch(const struct finder *z, int n)
{
    int64_t bytes = (z->longest[z->maker[n]] * z->made[n] + FR_MEMORY_ALIGN - 1) / FR_MEMORY_ALIGN * FR_MEMORY_ALIGN;

    return bytes % (1 << SET_BITS) ? bytes : bytes + FR_MEMORY_ALIGN;
}

/* Gives the temporaries that only the band sees places in its scratch. */
static fr_status
place_inner(struct finder *z, struct fr_err *err)
{
    struct fr_interval *v = fr_arena_room(z->arena, ((size_t)z->n_touched + 1) * sizeof *v);
    int32_t            *node = fr_arena_room(z->arena, ((size_t)z->n_touched + 1) * sizeof *node);
    struct fr_packing   packing;
    int                 n = 0;
    fr_status           st;

    if (!v || !node)
        return fr_no_memory(err, "a plan");
    for (int i = 0; i < z->n_touched; i++) {
        int t = z->touched[i], m = z->maker[t];

        if (!is_inner(z, t))
            continue;
        v[n] = (struct fr_interval){m, m, z->longest[m] * z->made[t], 0};
        if (z->line[t])
            v[n].n_bytes = pitch(z, t) * (z->p->place[t].bytes / z->band.n_outer / z->line[t]);
        for (int k = 0; k < z->band.n_items; k++)
            for (int j = 0; j < z->item[k].n_needs; j++)
                if (z->need[z->item[k].first_need + j].item == m)
                    v[n].to = k;
        node[n++] = t;
    }
    if ((st = fr_memory_pack(v, n, 0, 0, &packing, err)) != FR_OK)
        return st;
    for (int i = 0; i < n; i++) {
        z->p->place[node[i]].kind = FR_PLACE_BAND;
        z->p->place[node[i]].offset = v[i].offset;
    }
    z->band.n_bytes = packing.peak;
    return FR_OK;
}

/* Where each operand of each item is while a band runs, and how it lies there. */
static bool
place_operands(struct finder *z, struct fr_band *b)
{
    struct fr_arena *arena = &z->p->graph->arena;

    for (int i = 0; i < b->n_items; i++) {
        struct fr_band_item      *it = &b->item[i];
        const struct fr_step     *s = &z->p->step[it->step];
        const struct fr_instance *in = &s->instance[it->instance];
        size_t                    n_op = s->kernel->k.nest->n_operands, n_axes = (size_t)in->n_outer + 2;
        int64_t                  *stride = fr_arena_room(arena, n_op * n_axes * sizeof *stride);

        it->inner = fr_arena_room(arena, n_op * sizeof *it->inner);
        it->stride = stride;
        if (!stride || !it->inner)
            return false;
        memcpy(stride, in->stride, n_op * n_axes * sizeof *stride);
        for (size_t k = 0; k < n_op; k++) {
            const struct fr_binding *from = &s->binding[it->instance][k];
            int                      n = from->node;
            int64_t                  line;

            it->inner[k] = (struct fr_band_inner){.item = NOBODY};
            if (n < 0 || z->p->place[n].kind != FR_PLACE_BAND)
                continue;
            it->inner[k] = (struct fr_band_inner){z->maker[n], z->made[n], z->p->place[n].offset};
            if (!(line = z->line[n]))
                continue;
            it->inner[k].offset += from->offset / line * pitch(z, n) - from->offset;
            for (size_t a = 0; a < n_axes; a++)
                if ((int)a != it->axis && stride[k * n_axes + a] % line == 0)
                    stride[k * n_axes + a] = stride[k * n_axes + a] / line * pitch(z, n);
        }
    }
    return true;
}

/* A kernel for what stays in the caches, where the step's is for what does not. */
static fr_status
change_kernel(struct finder *z, struct fr_step *s, struct fr_err *err)
{
    struct fr_nest          nest = *s->kernel->k.nest;
    struct fr_operand      *operands = fr_arena_room(z->arena, nest.n_operands * sizeof *operands);
    struct fr_kernel_entry *kernel;
    bool                    changed = false;
    fr_status               st;

    if (!operands)
        return fr_no_memory(err, "a plan");
    memcpy(operands, nest.operands, nest.n_operands * sizeof *operands);
    nest.operands = operands;
    for (int i = 0; i < s->n_instances; i++)
        for (int k = 0; k < nest.n_operands; k++) {
            int n = s->binding[i][k].node, far = FR_OPERAND_EITHER_PAST | FR_OPERAND_AHEAD | FR_OPERAND_BEHIND;

            if (n < 0 || z->p->place[n].kind != FR_PLACE_BAND || !(operands[k].flags & far))
                continue;
            operands[k].flags &= (uint8_t)~far;
            changed = true;
        }
    if (!changed)
        return FR_OK;
    if ((st = fr_kernel_get(&nest, &kernel, err)) != FR_OK)
        return st;
    fr_kernel_unref(s->kernel);
    s->kernel = kernel;
    return FR_OK;
}

static fr_status
keep(struct finder *z, struct fr_err *err)
{
    struct fr_plan  *p = z->p;
    struct fr_arena *arena = &p->graph->arena;
    struct fr_band  *b = &p->band[p->n_bands];
    fr_status        st;

    if ((st = place_inner(z, err)) != FR_OK)
        return st;
    *b = z->band;
    b->item = fr_arena_room(arena, (size_t)b->n_items * sizeof *b->item);
    b->need = fr_arena_room(arena, ((size_t)b->n_needs + 1) * sizeof *b->need);
    if (!b->item || !b->need)
        return fr_no_memory(err, "a plan");
    memcpy(b->item, z->item, (size_t)b->n_items * sizeof *b->item);
    memcpy(b->need, z->need, (size_t)b->n_needs * sizeof *b->need);
    if (!place_operands(z, b))
        return fr_no_memory(err, "a plan");
    for (int s = b->first; s < b->first + b->n_steps; s++) {
        p->step[s].band = p->n_bands + 1;
        if ((st = change_kernel(z, &p->step[s], err)) != FR_OK)
            return st;
    }
    p->band_bytes = b->n_bytes > p->band_bytes ? b->n_bytes : p->band_bytes;
    p->n_bands++;
    return FR_OK;
}

fr_status
fr_bands_find(struct fr_plan *p, const int32_t *to, struct fr_arena *scratch, struct fr_err *err)
{
    size_t         n = (size_t)p->graph->n_nodes + 1;
    uint64_t       bytes = 0;
    struct finder *z;
    fr_status      st = FR_OK;

    for (int s = 0; s < p->n_steps; s++)
        bytes += p->step[s].bytes_read + p->step[s].bytes_written;
    if (fr_env.band_bytes <= 0 || p->n_steps < 2 || bytes < (uint64_t)fr_env.band_bytes * WORTH)
        return FR_OK;
    if (!(z = fr_arena_alloc(scratch, sizeof *z)))
        return fr_no_memory(err, "a plan");
    z->p = p;
    z->to = to;
    z->arena = scratch;
    z->maker = fr_arena_room(scratch, n * sizeof *z->maker);
    z->made = fr_arena_alloc(scratch, n * sizeof *z->made);
    z->line = fr_arena_alloc(scratch, n * sizeof *z->line);
    z->unit = fr_arena_alloc(scratch, n * sizeof *z->unit);
    z->seen = fr_arena_alloc(scratch, n * sizeof *z->seen);
    z->is_touched = fr_arena_alloc(scratch, n * sizeof *z->is_touched);
    z->touched = fr_arena_room(scratch, n * sizeof *z->touched);
    p->band = fr_arena_room(&p->graph->arena, (size_t)p->n_steps / 2 * sizeof *p->band);
    if (!z->maker || !z->made || !z->line || !z->unit || !z->seen || !z->is_touched || !z->touched || !p->band)
        return fr_no_memory(err, "a plan");
    memset(z->maker, 0xff, n * sizeof *z->maker); /* NOBODY */
    for (int s = 0; s + 1 < p->n_steps && st == FR_OK;) {
        int last = s;

        if (find(z, s)) {
            st = keep(z, err);
            last = s + z->band.n_steps - 1;
        }
        s = last + 1;
    }
    return st;
}
