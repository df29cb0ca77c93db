/* runtime/band_items.c -- which steps go together in bands (bands.c), and what their instances need of each other. */
#include "runtime/bands.h"

static bool
may_be_part(const struct fr_step *s)
{
    return s->kind == FR_STEP_LAUNCH || s->kind == FR_STEP_SCAN;
}

/* The axis with the longest stride of the operand, of more than one index; -1: there is none, or it goes backwards. */
static int
outermost(const struct fr_instance *in, int k)
{
    const int64_t *stride = fr_band_strides(in, k);
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

/* Notes that the item goes through the root with this stride. */
static void
touch(struct fr_band_finder *z, int root, int item, int64_t stride)
{
    if (z->walker[root] == FR_BAND_NOBODY)
        z->touched[z->n_touched++] = root;
    else if (z->walked[root] > 0)
        return;
    z->walker[root] = item;
    z->walked[root] = stride > 0 ? stride : 0;
}

void
fr_band_forget(struct fr_band_finder *z)
{
    for (int i = 0; i < z->n_touched; i++) {
        z->maker[z->touched[i]] = z->walker[z->touched[i]] = FR_BAND_NOBODY;
        z->walked[z->touched[i]] = 0;
    }
    z->n_touched = 0;
}

/* Whether all that the operand reaches within one index of the axis lies within `made` bytes, but for axes that go from
 * line to line. `line` 0: there are none. */
static bool
stays_in_lines(const struct fr_instance *in, int k, int axis, int64_t made, int64_t line, int64_t size)
{
    const int64_t *stride = fr_band_strides(in, k);
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
        if (fr_band_strides(in, k)[a] == stride && fr_instance_dim(in, a) > 1)
            return a;
    return -1;
}

/* The axis along which the item is cut, so that a unit is what it is of root number `root`, as its operand k has it. */
static bool
follow(struct fr_band_finder *z, struct fr_band_item *it, int k, int root)
{
    const struct fr_instance *in = &z->view[z->band.n_items];
    int64_t                   read, unit;

    it->axis = z->maker[root] >= 0 && z->line[root] ? with_stride(in, k, z->made[root]) : outermost(in, k);
    if (it->axis < 0)
        return false;
    it->n = fr_instance_dim(in, it->axis);
    it->per = 1;
    read = fr_band_strides(in, k)[it->axis];
    unit = z->item[z->walker[root]].per * z->walked[root];
    if (read > unit && read % unit == 0)
        z->factor = read / unit;
    else if (unit % read == 0)
        it->per = unit / read;
    else
        return false;
    return true;
}

/* The axis along which the item is cut and what a unit is of it: by its first operand that the band makes, else by one
 * that it reads elsewhere, too; of the first step's, by what they write. False: there is none. */
static bool
choose_axis(struct fr_band_finder *z, struct fr_band_item *it)
{
    const struct fr_step     *s = &z->p->step[it->step];
    const struct fr_instance *in = &z->view[z->band.n_items];
    int                       n_op = fr_step_operands(s);

    for (int k = 0; k < n_op && it->step == z->band.first; k++)
        if (fr_band_writes(s, k)) {
            it->axis = outermost(in, k);
            it->n = it->axis < 0 ? 0 : fr_instance_dim(in, it->axis);
            it->per = 1;
            return it->axis >= 0;
        }
    for (int made = 1; made >= 0; made--)
        for (int k = 0; k < n_op; k++) {
            int node = s->binding[it->instance][k].node, root = node < 0 ? -1 : fr_place_root(z->p->place, node);

            if (root < 0 || fr_band_writes(s, k) || (made ? z->maker[root] == FR_BAND_NOBODY : z->walked[root] == 0))
                continue;
            return z->maker[root] != FR_BAND_SPOILT && follow(z, it, k, root);
        }
    return false;
}

bool
fr_band_may_cut(const struct fr_step *s, const struct fr_instance *in, int axis)
{
    const struct fr_nest *nest = s->kind == FR_STEP_SCAN ? NULL : s->kernel->nest;

    if (in->joined)
        return false;
    if (axis == in->n_outer + 1 && (!nest || nest->n_stages != 1 || (nest->flags & (FR_NEST_ROWBUF | FR_NEST_REDUCES))))
        return false;
    for (int k = 0; k < fr_step_operands(s); k++)
        if (fr_band_writes(s, k) && fr_band_strides(in, k)[axis] <= 0)
            return false;
    return true;
}

/* What the item reads of what the band makes. */
static bool
add_need(struct fr_band_finder *z, struct fr_band_item *it, int k, int root, const struct fr_binding *b, int64_t size)
{
    const struct fr_instance *in = &z->view[z->band.n_items];
    int                       m = z->maker[root];
    int64_t                   read = fr_band_strides(in, k)[it->axis], made = z->made[root], line = z->line[root];
    struct fr_band_reach              r = fr_band_reach(in, k, it->axis, size);

    if (m == FR_BAND_SPOILT || read <= 0 || b->moving >= 0 || z->band.n_needs == FR_BAND_NEEDS ||
        read * it->per != made * z->item[m].per * z->factor)
        return false;
    if (line) {
        if (read != made || it->n != z->item[m].n || b->offset % line != 0 || in->n_packed ||
            !stays_in_lines(in, k, it->axis, read, line, size))
            return false;
        r = (struct fr_band_reach){-b->offset, size - b->offset, 0}; /* the same indices, of any lines */
    }
    z->need[z->band.n_needs++] = (struct fr_band_need){
        .item = m, .made = made, .read = read, .low = b->offset + r.low, .high = b->offset + r.high};
    it->n_needs++;
    return true;
}

static bool
add_item(struct fr_band_finder *z, int step, int instance)
{
    const struct fr_step *s = &z->p->step[step];
    int                   i = z->band.n_items;
    struct fr_band_item  *it = &z->item[i];
    struct fr_instance   *in = &z->view[i];

    if (i == FR_BAND_ITEMS)
        return false;
    *it = (struct fr_band_item){
        .step = step, .instance = instance, .first_need = z->band.n_needs, .outer_axis = FR_BAND_NOBODY};
    *in = s->instance[instance];
    z->factor = 1;
    if (z->n_outer) { /* the same items come in the same order */
        it->outer_axis = z->outer[i].axis;
        it->outer_per = z->outer[i].per;
        fr_instance_cut(in, it->outer_axis, it->outer_per);
    }
    if (!choose_axis(z, it) || !fr_band_may_cut(s, in, it->axis))
        return false;
    for (int written = 0; written < 2; written++) /* what is read first: nothing reads what it writes */
        for (int k = 0; k < fr_step_operands(s); k++) {
            const struct fr_binding *b = &s->binding[instance][k];
            int64_t                  size = fr_band_size(s, k), made;
            int                      root;

            if (b->node < 0 || fr_band_writes(s, k) != written)
                continue;
            root = fr_place_root(z->p->place, b->node);
            if (!written) {
                if (z->maker[root] != FR_BAND_NOBODY && !add_need(z, it, k, root, b, size))
                    return false;
            } else {
                /* Memory of its own, written once and whole. */
                if (root != b->node || z->p->graph->node[root].op == FR_OP_store || z->maker[root] != FR_BAND_NOBODY ||
                    (z->p->place[root].kind != FR_PLACE_ARENA && z->p->place[root].kind != FR_PLACE_NEW))
                    return false;
                made = z->made[root] = fr_band_strides(in, k)[it->axis];
                z->line[root] = stays_in_lines(in, k, it->axis, made, 0, size) ? 0 : made * it->n;
                z->has_lines |= z->line[root] != 0;
                z->maker[root] = b->offset == 0 && !(z->line[root] && in->n_packed) &&
                                         stays_in_lines(in, k, it->axis, made, z->line[root], size)
                                     ? i
                                     : FR_BAND_SPOILT;
            }
            touch(z, root, i, fr_band_strides(in, k)[it->axis]);
        }
    for (int k = 0; k < i; k++)
        z->item[k].per *= z->factor;
    z->band.n_items++;
    return true;
}

void
fr_band_gather(struct fr_band_finder *z, int first, int end)
{
    z->band = (struct fr_band){.first = first, .n_outer = 1, .item = z->item, .need = z->need};
    z->has_lines = false;
    for (int s = first; s < end && may_be_part(&z->p->step[s]); s++) {
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
