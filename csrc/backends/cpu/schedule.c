/* backends/cpu/schedule.c -- a lowered group as this machine runs it best; no choice changes a bit of the results.
 *
 * Sizes of arrays and caches decide which axis the rows are, which operands are packed and short rows joined
 * (schedule_rows.c), what is stored past the caches and asked for ahead (schedule_reach.c), and whether values that cross
 * from one stage to the next have row buffers. */
#include "backends/cpu/schedule_int.h"

#include <string.h>

#include "backends/cpu/launch.h"

/* The copies that may change. */
static bool
begin(struct scheduling *z, const struct fr_lowered *from, struct fr_arena *arena, struct fr_lowered *l)
{
    size_t n_strides;

    *l = *from;
    *z = (struct scheduling){.l = l, .n_axes = l->n_axes, .n_inst = l->nest.n_insts, .n_op = l->nest.n_operands, .source = l->source};
    n_strides = z->n_op * (size_t)(l->n_outer + 2);
    z->inst = fr_arena_room(arena, z->n_inst * sizeof *z->inst);
    z->form = fr_arena_room(arena, z->n_op * sizeof *z->form);
    z->op = fr_arena_alloc(arena, z->n_op * sizeof *z->op);
    l->stride = fr_arena_room(arena, n_strides * sizeof *l->stride);
    if (!z->inst || !z->form || !z->op || !l->stride)
        return false;
    memcpy(l->stride, from->stride, n_strides * sizeof *l->stride);
    memcpy(z->inst, l->nest.insts, z->n_inst * sizeof *z->inst);
    memcpy(z->form, l->nest.operands, z->n_op * sizeof *z->form);
    l->nest.insts = z->inst;
    l->nest.operands = z->form;
    return true;
}

/* Bytes of what the operand's strides count. */
static int
unit_of(const struct scheduling *z, size_t o)
{
    return z->source[o].node < 0 ? 1 : fr_dtype_size(z->form[o].dtype);
}

static int64_t
axis_size(const struct fr_lowered *l, int axis)
{
    return axis < l->n_outer ? l->outer[axis] : axis == l->n_outer ? l->n_rows : l->n_inner;
}

/* Strides as elements. */
static bool
read_strides(struct scheduling *z, struct fr_arena *arena)
{
    const struct fr_lowered *l = z->l;
    int                      first = l->n_outer + 2 - z->n_axes;

    for (int p = 0; p < z->n_axes; p++)
        z->dims[p] = axis_size(l, first + p);
    for (size_t o = 0; o < z->n_op; o++) {
        const int64_t *from = l->stride + o * (size_t)(l->n_outer + 2) + first;

        if (!(z->op[o].stride = fr_arena_room(arena, ((size_t)z->n_axes + 1) * sizeof *from)))
            return false;
        for (int p = 0; p < z->n_axes; p++)
            z->op[o].stride[p] = from[p] / unit_of(z, o);
        z->op[o].load = FR_LOWER_NO_INST;
    }
    for (size_t i = 0; i < z->n_inst; i++)
        if (z->inst[i].kind == FR_INST_LOAD)
            z->op[z->inst[i].operand].load = (uint16_t)i;
    return true;
}

static void
write_strides(struct scheduling *z)
{
    struct fr_lowered *l = z->l;
    int                first = l->n_outer + 2 - z->n_axes;

    for (int p = 0; p < z->n_axes; p++) {
        int axis = first + p;

        *(axis < l->n_outer ? &l->outer[axis] : axis == l->n_outer ? &l->n_rows : &l->n_inner) = z->dims[p];
    }
    for (size_t o = 0; o < z->n_op; o++) {
        int64_t *to = l->stride + o * (size_t)(l->n_outer + 2) + first;

        for (int p = 0; p < z->n_axes; p++)
            to[p] = z->op[o].stride[p] * unit_of(z, o);
        /* An inner axis of one element: any stride is right, and the kernel believes UNIT. */
        if (l->n_inner == 1 && z->form[o].access == FR_ACCESS_UNIT)
            l->stride[(o + 1) * (size_t)(l->n_outer + 2) - 1] = unit_of(z, o);
    }
}

/* Does a FULL value of an earlier stage serve a later one? */
static bool
has_crossing(const struct scheduling *z)
{
    for (size_t i = 0; i < z->n_inst; i++)
        for (int k = 0; k < fr_nest_n_args(&z->inst[i]); k++) {
            const struct fr_inst *a = &z->inst[z->inst[i].a[k]];
            int s = z->inst[i].stage - (z->inst[i].kind == FR_INST_REDUCE);

            if (a->level == FR_LEVEL_FULL && a->stage < s)
                return true;
        }
    return false;
}

/* Whether the axis of `l` is one of `from`, and of the same class: whatever has a stride along it has the same. A stride
 * along one index does not matter. */
static bool
is_axis_of(const struct fr_lowered *l, int to, const struct fr_lowered *from, int axis)
{
    int n = l->n_outer + 2, first = n - l->n_axes;

    if (l->class_[to] != from->class_[axis] || axis_size(l, first + to) != axis_size(from, first + axis))
        return false;
    for (int o = 0; o < l->nest.n_operands; o++)
        if (l->stride[o * n + first + to] != from->stride[o * n + first + axis] && axis_size(l, first + to) != 1)
            return false;
    return true;
}

static FR_DEBUG_ONLY bool
has_axes_of(const struct fr_lowered *l, const struct fr_lowered *from)
{
    uint32_t used = 0;

    for (int p = 0, q; p < l->n_axes; p++) {
        for (q = 0; q < l->n_axes && (used >> q & 1 || !is_axis_of(l, p, from, q)); q++)
            ;
        if (q == l->n_axes)
            return false;
        used |= 1u << q;
    }
    return true;
}

/* Whether the same is computed, but that what is loaded once a row may be loaded for each element. */
static FR_DEBUG_ONLY bool
computes_what(const struct fr_lowered *l, const struct fr_lowered *from)
{
    for (uint32_t i = 0; i < l->nest.n_insts; i++) {
        struct fr_inst in = l->nest.insts[i];

        if (in.kind == FR_INST_LOAD && in.level == FR_LEVEL_FULL)
            in.level = from->nest.insts[i].level;
        if (memcmp(&in, &from->nest.insts[i], sizeof in))
            return false;
    }
    for (int o = 0; o < l->nest.n_operands; o++)
        if (l->nest.operands[o].dtype != from->nest.operands[o].dtype || l->nest.operands[o].flags != from->nest.operands[o].flags)
            return false;
    return true;
}

fr_status
fr_cpu_schedule(const struct fr_lowered *from, bool otherwise, struct fr_arena *arena, struct fr_lowered **out, bool *close,
                struct fr_err *err)
{
    struct fr_lowered *l = fr_arena_room(arena, sizeof *l);
    struct scheduling  z;

    if (!l || !begin(&z, from, arena, l) || !read_strides(&z, arena))
        return fr_fail(err, FR_ENOMEM, "out of memory for a kernel");
    z.otherwise = otherwise;
    if (l->kind == FR_GROUP_POST)
        fr_schedule_neighbours(&z);
    l->joined = (uint8_t)fr_schedule_join_rows(&z, &l->n_packed);
    if (!l->joined) {
        if (l->kind == FR_GROUP_MAP || l->kind == FR_GROUP_ROW)
            fr_schedule_longest_rows(&z);
        l->n_packed = fr_schedule_pack(&z);
    }
    for (size_t o = 0; o < z.n_op; o++)
        if (z.op[o].packed)
            z.form[o].access = FR_ACCESS_UNIT;
    fr_schedule_reach(&z);
    write_strides(&z);
    if (l->nest.n_stages > 1 && has_crossing(&z) && l->n_inner <= FR_ROWBUF_MAX)
        l->nest.flags |= FR_NEST_ROWBUF;
    FR_ASSERT(has_axes_of(l, from));
    FR_ASSERT(computes_what(l, from));
    FR_ASSERT(fr_nest_verify(&l->nest, NULL) == FR_OK);
    *close = z.close;
    *out = l;
    return FR_OK;
}
