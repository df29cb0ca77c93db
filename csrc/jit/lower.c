/* Lowering: from a group to instructions, operands and axes.
 *
 *     1. axes     the domain's axes in loop order (NumPy's for reductions, the output's otherwise)
 *     2. insts    members by birth; loads and scalars on demand; stores of what must reach memory
 *     3. stages   each instruction as early as its arguments allow, each load as late as its readers do
 *     4. coalesce neighbouring axes that every operand walks with one stride; the last axis is the
 *                 inner one, the one before it the rows, the rest the launcher's
 *     5. access   how each operand is accessed along the rows
 *
 * Nothing here depends on sizes, but which axes coalesce: what a machine's caches say is the backend's schedule. */
#include "jit/lower.h"

#include <string.h>

#include "base/alloc.h"

struct operand {
    int64_t *stride;    /* elements, by position in `axes` */
    uint16_t load;      /* the instruction that loads it, or FR_LOWER_NO_INST */
};

struct lowering {
    const struct fr_graph  *g;
    const struct fr_fusion *f;
    const struct fr_group  *grp;
    const bool             *stored;
    bool                    after;                /* lowering the AFTER members of a group */
    int                     n_axes;
    int                     axes[FR_MAX_DIMS];    /* loop order, until axes coalesce: axis of D */
    int64_t                 dims[FR_MAX_DIMS];    /* by position in `axes` */
    uint8_t                 class_[FR_MAX_DIMS];  /* only axes of one class coalesce */
    int                     n_inner_axes;
    struct fr_arena        *arena;
    struct fr_inst         *inst;
    size_t                  n_inst, n_op, n_scalar;
    struct operand         *op;
    struct fr_operand      *form;                 /* [n_op], and so the next */
    struct fr_operand_source *source;
    int32_t                *scalar;               /* [n_scalar], and so the next two */
    fr_dtype               *scalar_dtype;
    uint16_t               *scalar_inst;
    uint16_t               *value;                /* [n_nodes] instruction that holds a node's value */
    struct fr_err          *err;
};

static fr_status
no_memory(struct lowering *z)
{
    return fr_fail(z->err, FR_ENOMEM, "out of memory: lowering a group of %d nodes", z->grp->n_members);
}

/* ---- axes --------------------------------------------------------------------------------- */

/* The reduced axes of D that a member of this level does not have. */
static uint32_t
missing_axes(const struct lowering *z, int level)
{
    if (level == FR_MEMBER_FULL || z->after)
        return 0;
    return level == FR_MEMBER_KEPT || z->grp->kind != FR_GROUP_MIX ? z->grp->reduced
                                                                   : z->grp->columns;
}

/* Spreads strides over the axes of a node's domain (`ndim` of `dims`, all axes) to positions in loop
 * order. The node's axes of size 1 are not in D, but for the one that a reduction keeps. */
static void
to_positions(const struct lowering *z, int n, const int64_t *strides, int level, int64_t *out)
{
    const struct fr_layout *l = fr_gnode_domain(&z->g->node[n]);
    uint32_t                missing = missing_axes(z, level);
    int64_t                 by_axis[FR_MAX_DIMS];
    int                     k = 0;

    if (!missing && l->ndim == z->n_axes) {
        for (int p = 0; p < z->n_axes; p++)
            out[p] = strides[z->axes[p]];
        return;
    }
    memset(by_axis, 0, (size_t)z->n_axes * sizeof *by_axis);
    for (int d = 0; d < z->n_axes; d++) {
        if (missing >> d & 1)
            continue;
        /* Axes of D come in the node's logical order; skip the node's axes of size 1 that D lacks. */
        int64_t want = 0;

        for (int p = 0; p < z->n_axes; p++)
            if (z->axes[p] == d)
                want = z->dims[p];
        while (k < l->ndim && fr_layout_dims(l)[k] == 1 && want != 1)
            k++;
        if (k < l->ndim)
            by_axis[d] = strides[k++];
    }
    for (int p = 0; p < z->n_axes; p++)
        out[p] = by_axis[z->axes[p]];
}

static void
edge_positions(const struct lowering *z, int n, const struct fr_edge *e, int level, int64_t *out)
{
    const struct fr_layout *l = fr_gnode_domain(&z->g->node[n]);
    int64_t                 s[FR_MAX_DIMS];

    fr_edge_strides(z->g, e, l->ndim, fr_layout_dims(l), s);
    to_positions(z, n, s, level, out);
}

/* Where a node's own result lies, over the axes of D. A reduction's result has stride 0 along the
 * axes that it reduces. */
static void
result_positions(const struct lowering *z, int n, int level, int64_t *out)
{
    const struct fr_gnode *node = &z->g->node[n];
    int64_t                s[FR_MAX_DIMS];
    int                    j = 0;

    if (node->op == FR_OP_store) {
        edge_positions(z, n, &node->arg[2], level, out);
    } else if (fr_op_reduces(node->op)) {
        const struct fr_layout *d = node->arg[0].layout;
        int64_t                 room[FR_MAX_DIMS];
        const int64_t          *own = fr_walked_strides(node->layout, room);

        for (int k = 0; k < d->ndim; k++)
            s[k] = node->axes >> k & 1 ? 0 : own[j++];
        to_positions(z, n, s, FR_MEMBER_FULL, out);
    } else {
        to_positions(z, n, fr_walked_strides(node->layout, s), level, out);
    }
}

/* Loop order of a group without reductions: by falling strides of what it writes. */
static void
map_order(struct lowering *z, int n_dims, const int64_t *dims)
{
    int64_t s[FR_MAX_DIMS];
    int     decides = -1;

    z->n_axes = n_dims;
    for (int k = 0; k < n_dims; k++) {
        z->axes[k] = k;
        z->dims[k] = dims[k];
    }
    for (int n = n_dims > 1 ? z->grp->first : -1; n >= 0; n = z->f->next[n]) {
        if ((z->after && z->f->level[n] != FR_MEMBER_AFTER) || fr_op_reduces(z->g->node[n].op))
            continue;
        decides = n;
        if (z->g->node[n].op == FR_OP_store)
            break; /* into a window: its memory is the least regular */
    }
    if (decides >= 0) {
        result_positions(z, decides, FR_MEMBER_FULL, s);
        fr_axes_by_stride(z->axes, n_dims, s);
    }
    for (int p = 0; p < n_dims; p++) {
        z->dims[p] = dims[z->axes[p]];
        z->class_[p] = FR_AXIS_KEPT;
    }
    z->n_inner_axes = n_dims > 0;
}

static void
set_axes(struct lowering *z)
{
    const struct fr_group *grp = z->grp;

    if (z->after) {
        uint32_t gone = grp->kind == FR_GROUP_MIX ? grp->columns : grp->reduced;
        int64_t  dims[FR_MAX_DIMS];
        int      n = 0;

        for (int k = 0; k < grp->ndim; k++)
            if (!(gone >> k & 1))
                dims[n++] = grp->dims[k];
        map_order(z, n, dims);
        return;
    }
    if (grp->kind == FR_GROUP_MAP) {
        map_order(z, grp->ndim, grp->dims);
        return;
    }
    z->n_axes = grp->ndim;
    for (int p = 0; p < grp->ndim; p++) {
        int ax = grp->order[p];

        z->axes[p] = ax;
        z->dims[p] = grp->dims[ax];
        z->class_[p] = (grp->reduced >> ax & 1 ? FR_AXIS_REDUCED : FR_AXIS_KEPT) | (grp->columns >> ax & 1 ? FR_AXIS_COLUMNS : FR_AXIS_KEPT);
        if (p >= grp->ndim - grp->n_inner)
            z->class_[p] = FR_AXIS_INNER;
    }
    z->n_inner_axes = grp->n_inner;
}

/* ---- instructions ------------------------------------------------------------------------- */

static fr_status
append(struct lowering *z, struct fr_inst in, uint16_t *out)
{
    if (z->n_inst >= FR_MAX_INSTS)
        return fr_fail(z->err, FR_EBUG, "a group of %d nodes is too large for one kernel", z->grp->n_members);
    z->inst[z->n_inst] = in;
    *out = (uint16_t)z->n_inst++;
    return FR_OK;
}

/* True if the operand has one element for the whole row. */
static bool
constant_along_row(const struct lowering *z, const int64_t *stride)
{
    if (z->n_axes == 0)
        return true;
    /* Without row axes (column sums, maps) the last axis is the inner one. A row without elements has
     * not even the one that would be read for all, whatever its stride. */
    for (int p = z->n_axes - (z->n_inner_axes ? z->n_inner_axes : 1); p < z->n_axes; p++)
        if ((stride[p] != 0 && z->dims[p] != 1) || z->dims[p] == 0)
            return false;
    return true;
}

static fr_status
add_operand(struct lowering *z, fr_dtype dtype, const struct fr_operand_source *src,
            const int64_t *stride, uint8_t flags, uint16_t *out)
{
    int64_t *s;

    if (z->n_op >= FR_MAX_OPERANDS)
        return fr_fail(z->err, FR_EBUG, "a group has more than %d operands", FR_MAX_OPERANDS);
    if (!(s = fr_arena_room(z->arena, (size_t)z->n_axes * sizeof *s)))
        return no_memory(z);
    for (int p = 0; p < z->n_axes; p++)
        s[p] = stride[p];
    z->op[z->n_op] = (struct operand){.stride = s, .load = FR_LOWER_NO_INST};
    z->form[z->n_op] = (struct fr_operand){.dtype = dtype, .flags = flags};
    z->source[z->n_op] = *src;
    *out = (uint16_t)z->n_op++;
    return FR_OK;
}

/* A load of this memory, made once for all who read it alike. */
static fr_status
load(struct lowering *z, fr_dtype dtype, const struct fr_operand_source *src, const int64_t *stride,
     int level, uint16_t *out)
{
    uint16_t operand;
    fr_status st;

    for (size_t i = 0; i < z->n_op; i++) {
        const struct operand           *o = &z->op[i];
        const struct fr_operand_source *s = &z->source[i];

        if (s->node == src->node && s->moving == src->moving && s->offset == src->offset &&
            o->load != FR_LOWER_NO_INST && z->inst[o->load].level == level &&
            z->form[i].dtype == dtype &&
            !memcmp(o->stride, stride, (size_t)z->n_axes * sizeof *stride)) {
            *out = o->load;
            return FR_OK;
        }
    }
    if ((st = add_operand(z, dtype, src, stride, 0, &operand)) != FR_OK ||
        (st = append(z, (struct fr_inst){.kind = FR_INST_LOAD, .level = (uint8_t)level,
                                         .dtype = dtype, .operand = operand}, out)) != FR_OK)
        return st;
    z->op[operand].load = *out;
    return FR_OK;
}

static fr_status
scalar(struct lowering *z, int slot, uint16_t *out)
{
    fr_dtype  dtype = z->g->scalar_dtype[slot];
    size_t    i = 0;
    fr_status st;

    while (i < z->n_scalar && z->scalar[i] != slot)
        i++;
    if (i < z->n_scalar) {
        *out = z->scalar_inst[i];
        return FR_OK;
    }
    if ((st = append(z, (struct fr_inst){.kind = FR_INST_SCALAR, .level = FR_LEVEL_SCALAR,
                                         .dtype = dtype, .operand = (uint16_t)i}, out)) != FR_OK)
        return st;
    z->scalar[i] = slot;
    z->scalar_dtype[i] = dtype;
    z->scalar_inst[i] = *out;
    z->n_scalar++;
    return FR_OK;
}

/* The level at which member n reads its arguments. */
static int
member_level(const struct lowering *z, int n)
{
    return z->after || fr_op_reduces(z->g->node[n].op) ? FR_MEMBER_FULL : z->f->level[n];
}

static int
inst_level(const struct lowering *z, int n)
{
    return member_level(z, n) == FR_MEMBER_FULL ? FR_LEVEL_FULL : FR_LEVEL_ROW;
}

/* Argument k of member n as an instruction: a scalar's, or a load's. */
static fr_status
outer_argument(struct lowering *z, int n, int k, uint16_t *out)
{
    const struct fr_gnode   *node = &z->g->node[n];
    const struct fr_edge    *e = &node->arg[k];
    struct fr_operand_source src = {.node = e->src, .moving = e->moving};
    int64_t                  s[FR_MAX_DIMS];
    int                      level = inst_level(z, n);

    if (e->src == FR_SRC_SCALAR)
        return scalar(z, e->scalar, out);
    src.offset = e->offset * fr_dtype_size(z->g->node[e->src].dtype);
    edge_positions(z, n, e, member_level(z, n), s);
    if (level == FR_LEVEL_FULL && constant_along_row(z, s))
        level = FR_LEVEL_ROW;
    return load(z, z->g->node[e->src].dtype, &src, s, level, out);
}

/* Argument k of member n as an instruction. */
static inline fr_status
argument(struct lowering *z, int n, int k, uint16_t *out)
{
    int src = z->g->node[n].arg[k].src;

    if (src < 0 || z->value[src] == FR_LOWER_NO_INST)
        return outer_argument(z, n, k, out);
    *out = z->value[src];
    return FR_OK;
}

/* The value at this level, so that it can be stored or reduced element by element. */
static fr_status
spread(struct lowering *z, int level, uint16_t *value)
{
    const struct fr_inst *in = &z->inst[*value];
    struct fr_inst        copy = {.kind = FR_INST_OP, .level = (uint8_t)level, .dtype = in->dtype,
                                  .op = FR_OP_cast, .a = {*value}};

    return in->level == level ? FR_OK : append(z, copy, value);
}

static fr_status
store(struct lowering *z, int n, uint16_t value)
{
    const struct fr_gnode   *node = &z->g->node[n];
    struct fr_operand_source dst = {.node = n, .moving = -1};
    struct fr_inst           in = {.kind = FR_INST_STORE, .dtype = node->dtype};
    int64_t                  s[FR_MAX_DIMS];
    uint8_t                  flags = FR_OPERAND_WRITTEN;
    uint16_t                 ignored;
    fr_status                st;

    result_positions(z, n, member_level(z, n), s);
    if (node->op == FR_OP_store) {
        dst.moving = node->arg[2].moving;
        dst.offset = node->arg[2].offset * fr_dtype_size(node->dtype);
    }
    if (fr_op_reduces(node->op)) {
        int kind = z->grp->kind;
        bool column = z->f->level[n] == FR_MEMBER_AFTER;

        if (kind == FR_GROUP_POST && z->grp->n_inner == 0) {
            in.kind = FR_INST_ACCUM;
            in.op = node->op;
        } else if (kind == FR_GROUP_POST || column) {
            flags |= FR_OPERAND_STREAM;
            in.op = node->op;
        }
    } else if ((st = spread(z, inst_level(z, n), &value)) != FR_OK) {
        return st;
    }
    in.a[0] = value;
    in.level = z->inst[value].level;
    if ((st = add_operand(z, node->dtype, &dst, s, flags, &in.operand)) != FR_OK)
        return st;
    return append(z, in, &ignored);
}

static fr_status
member(struct lowering *z, int n)
{
    const struct fr_gnode *node = &z->g->node[n];
    struct fr_inst         in = {.kind = FR_INST_OP, .level = (uint8_t)inst_level(z, n),
                                 .dtype = node->dtype, .op = node->op};
    uint16_t               value = FR_LOWER_NO_INST;
    fr_status              st;

    if (node->op == FR_OP_store) {
        if ((st = argument(z, n, 1, &value)) != FR_OK)
            return st;
        return store(z, n, value);
    }
    if (node->op == FR_OP_iota) {
        struct fr_operand_source start = {.node = -1, .moving = -1};
        int64_t                  s[FR_MAX_DIMS] = {0}, pos[FR_MAX_DIMS];

        s[node->axes] = 1;
        to_positions(z, n, s, member_level(z, n), pos);
        in.kind = FR_INST_IOTA;
        in.op = 0;
        if ((st = add_operand(z, FR_I64, &start, pos, 0, &in.operand)) != FR_OK)
            return st;
        if ((st = append(z, in, &z->value[n])) != FR_OK)
            return st;
        return z->stored[n] ? store(z, n, z->value[n]) : FR_OK;
    }
    for (int k = 0; k < node->n_args; k++)
        if ((st = argument(z, n, k, &in.a[k])) != FR_OK)
            return st;
    if (fr_op_reduces(node->op)) {
        bool column = z->f->level[n] == FR_MEMBER_AFTER;

        if ((st = spread(z, FR_LEVEL_FULL, &in.a[0])) != FR_OK)
            return st;
        if (column || (z->grp->kind == FR_GROUP_POST && z->grp->n_inner == 0))
            return store(z, n, in.a[0]);
        in.kind = FR_INST_REDUCE;
        in.level = FR_LEVEL_ROW;
        if ((st = append(z, in, &value)) != FR_OK)
            return st;
        if (z->grp->kind == FR_GROUP_POST)
            return store(z, n, value);
        z->value[n] = value;
        return z->stored[n] ? store(z, n, value) : FR_OK;
    }
    if ((st = append(z, in, &z->value[n])) != FR_OK)
        return st;
    return z->stored[n] ? store(z, n, z->value[n]) : FR_OK;
}

/* ---- stages ------------------------------------------------------------------------------- */

/* Sets every stage and sorts by it; n_stages counts the loops over the row. */
static fr_status
set_stages(struct lowering *z, int *n_stages)
{
    struct fr_inst *sorted;
    uint16_t       *place, *first;
    size_t          n = 0;
    int             last = 0;

    *n_stages = 1;
    for (size_t i = 0; i < z->n_inst; i++) {
        struct fr_inst *in = &z->inst[i];
        int             s = 0;

        for (int k = 0, n_args = fr_nest_n_args(in); k < n_args; k++)
            if (z->inst[in->a[k]].stage > s)
                s = z->inst[in->a[k]].stage;
        if (in->level == FR_LEVEL_FULL && s + 1 > *n_stages)
            *n_stages = s + 1;
        in->stage = (uint8_t)(s + (in->kind == FR_INST_REDUCE));
        if (in->stage > last)
            last = in->stage;
    }
    if (last == 0)
        return FR_OK;
    sorted = fr_arena_room(z->arena, z->n_inst * sizeof *sorted);
    place = fr_arena_room(z->arena, z->n_inst * sizeof *place);
    first = fr_arena_alloc(z->arena, z->n_inst * sizeof *first); /* stage of a reader, and 1 */
    if (!sorted || !place || !first)
        return no_memory(z);
    /* A load belongs to its first reader's stage; a row's load is made before that loop. */
    for (size_t i = z->n_inst; i-- > 0;) {
        struct fr_inst *in = &z->inst[i];
        uint16_t        s;

        if (in->kind == FR_INST_LOAD)
            in->stage = (uint8_t)(first[i] ? first[i] - 1 : 0);
        s = (uint16_t)(in->stage - (in->kind == FR_INST_REDUCE) + 1);
        for (int k = 0; k < fr_nest_n_args(in); k++)
            if (!first[in->a[k]] || s < first[in->a[k]])
                first[in->a[k]] = s;
    }
    for (int s = 0; s <= last; s++)
        for (size_t i = 0; i < z->n_inst; i++)
            if (z->inst[i].stage == s) {
                place[i] = (uint16_t)n;
                sorted[n] = z->inst[i];
                for (int k = 0; k < fr_nest_n_args(&sorted[n]); k++)
                    sorted[n].a[k] = place[sorted[n].a[k]];
                n++;
            }
    z->inst = sorted;
    return FR_OK;
}

/* ---- coalescing and the result ------------------------------------------------------------ */

static void
coalesce(struct lowering *z)
{
    for (int p = z->n_axes - 1; p > 0; p--) {
        bool joins = z->class_[p] == z->class_[p - 1];

        for (size_t o = 0; joins && o < z->n_op; o++)
            joins = z->op[o].stride[p - 1] == z->op[o].stride[p] * z->dims[p];
        if (!joins)
            continue;
        z->dims[p - 1] *= z->dims[p];
        for (size_t o = 0; o < z->n_op; o++)
            z->op[o].stride[p - 1] = z->op[o].stride[p];
        for (int q = p; q + 1 < z->n_axes; q++) {
            z->dims[q] = z->dims[q + 1];
            z->class_[q] = z->class_[q + 1];
            for (size_t o = 0; o < z->n_op; o++)
                z->op[o].stride[q] = z->op[o].stride[q + 1];
        }
        z->n_axes--;
    }
}

/* The launcher adds rows up, so an axis along which results accumulate must be the rows (and, if there
 * are more, the axes outside of them). Among the outer axes those of this class move to the end; the order
 * of the others is free, and that of the reduced among themselves stays. What lies between axes that are one
 * is no longer there then. */
static void
rows_last(struct lowering *z, uint8_t reduced)
{
    int     n_outer = z->n_axes - 1, n = 0, from[FR_MAX_DIMS];
    int64_t moved[FR_MAX_DIMS];
    uint8_t class_[FR_MAX_DIMS];

    while (n_outer > 0 && z->class_[n_outer - 1] == FR_AXIS_INNER)
        n_outer--;
    for (int pass = 0; pass < 2; pass++)
        for (int p = 0; p < n_outer; p++)
            if ((z->class_[p] == reduced) == pass)
                from[n++] = p;
    for (int p = 0; p < n; p++) {
        class_[p] = z->class_[from[p]];
        moved[p] = z->dims[from[p]];
    }
    memcpy(z->class_, class_, (size_t)n);
    memcpy(z->dims, moved, (size_t)n * sizeof *moved);
    for (size_t o = 0; o < z->n_op; o++) {
        for (int p = 0; p < n; p++)
            moved[p] = z->op[o].stride[from[p]];
        memcpy(z->op[o].stride, moved, (size_t)n * sizeof *moved);
    }
    coalesce(z);
}

static void
set_access(struct lowering *z)
{
    for (size_t i = 0; i < z->n_inst; i++) {
        struct fr_inst       *in = &z->inst[i];
        const struct operand *o;
        int64_t               step;

        if (!fr_inst_has_operand(in))
            continue;
        o = &z->op[in->operand];
        step = !z->n_axes || z->dims[z->n_axes - 1] == 1 ? 1 : o->stride[z->n_axes - 1];
        z->form[in->operand].access = in->level != FR_LEVEL_FULL ? FR_ACCESS_ZERO
                                      : in->kind == FR_INST_LOAD ? fr_access_of(in->dtype, step)
                                      : step == 1                ? FR_ACCESS_UNIT
                                                                 : FR_ACCESS_STRIDED;
    }
}

static fr_status
finish(struct lowering *z, int n_stages, struct fr_lowered *out)
{
    int n = z->n_axes;

    out->n_axes = n;
    memcpy(out->class_, z->class_, (size_t)n);
    out->kind = (uint8_t)(z->after ? FR_GROUP_MAP : z->grp->kind);

    out->n_outer = n > 2 ? n - 2 : 0;
    memcpy(out->outer, z->dims, (size_t)out->n_outer * sizeof *out->outer);
    out->n_rows = n > 1 ? z->dims[n - 2] : 1;
    out->n_inner = n > 0 ? z->dims[n - 1] : 1;
    out->nest.n_insts = (uint32_t)z->n_inst;
    out->nest.n_operands = (uint16_t)z->n_op;
    out->nest.n_scalars = (uint16_t)z->n_scalar;
    out->nest.n_stages = (uint8_t)n_stages;
    out->nest.insts = z->inst;
    out->nest.operands = z->form;
    out->nest.scalar_dtype = z->scalar_dtype;
    out->source = z->source;
    out->scalar = z->scalar;
    out->stride = fr_arena_alloc(z->arena, z->n_op * (size_t)(out->n_outer + 2) * sizeof *out->stride);
    out->begins = fr_arena_room(z->arena, z->n_op * sizeof *out->begins);
    if (!out->stride || !out->begins)
        return no_memory(z);
    for (size_t i = 0; i < z->n_inst; i++)
        if (z->inst[i].kind == FR_INST_REDUCE)
            out->nest.flags |= FR_NEST_REDUCES;
    for (size_t o = 0; o < z->n_op; o++) {
        int64_t *s = out->stride + o * (size_t)(out->n_outer + 2);
        int      size = z->source[o].node < 0 ? 1 : fr_dtype_size(z->form[o].dtype), moving = z->source[o].moving;

        out->begins[o] = moving < 0           ? z->source[o].offset
                         : z->g->moving_at    ? z->source[o].offset + z->g->moving_at[moving] * size
                                              : FR_BEGINS_ANYWHERE;
        for (int p = 0; p < n; p++)
            s[out->n_outer + 2 - n + p] = z->op[o].stride[p] * size;
        /* An inner axis of one element: any stride is right, and the kernel believes UNIT. */
        if (out->n_inner == 1 && z->form[o].access == FR_ACCESS_UNIT)
            s[out->n_outer + 1] = size;
    }
    return FR_OK;
}

/* Room for what the members can become: each may load what it reads, be spread, computed, spread
 * again and stored. */
static fr_status
make_room(struct lowering *z)
{
    size_t n_args = 0, n = 0;

    for (int i = z->grp->first; i >= 0; i = z->f->next[i], n++)
        n_args += z->g->node[i].n_args;
    z->inst = fr_arena_room(z->arena, (n_args + 4 * n) * sizeof *z->inst);
    z->op = fr_arena_room(z->arena, (n_args + 2 * n) * sizeof *z->op);
    z->form = fr_arena_room(z->arena, (n_args + 2 * n) * sizeof *z->form);
    z->source = fr_arena_room(z->arena, (n_args + 2 * n) * sizeof *z->source);
    z->scalar = fr_arena_room(z->arena, n_args * sizeof *z->scalar);
    z->scalar_dtype = fr_arena_room(z->arena, n_args * sizeof *z->scalar_dtype);
    z->scalar_inst = fr_arena_room(z->arena, n_args * sizeof *z->scalar_inst);
    return z->inst && z->op && z->form && z->source && z->scalar && z->scalar_dtype &&
                   z->scalar_inst
               ? FR_OK
               : no_memory(z);
}

static fr_status
lower_members(const struct fr_graph *g, const struct fr_fusion *f, int group, const bool *stored,
              uint16_t *value, bool after, struct fr_arena *arena, struct fr_lowered **out,
              struct fr_err *err)
{
    struct lowering    z = {.g = g, .f = f, .grp = f->group[group], .stored = stored,
                            .after = after, .value = value, .arena = arena, .err = err};
    struct fr_lowered *l = fr_arena_alloc(arena, sizeof *l);
    int                n_stages = 1;
    fr_status          st;

    if (!l)
        return no_memory(&z);
    TRY(make_room(&z));
    set_axes(&z);
    for (int n = z.grp->first; n >= 0; n = f->next[n]) {
        bool late = f->level[n] == FR_MEMBER_AFTER && !fr_op_reduces(g->node[n].op);

        if (late == after && !(after && fr_op_reduces(g->node[n].op)))
            TRY(member(&z, n));
    }
    TRY(set_stages(&z, &n_stages));
    coalesce(&z);
    if (!after && z.grp->kind != FR_GROUP_ROW && z.grp->kind != FR_GROUP_MAP)
        rows_last(&z, z.grp->kind == FR_GROUP_MIX ? FR_AXIS_COLUMNS : FR_AXIS_REDUCED);
    set_access(&z);
    TRY(finish(&z, n_stages, l));
    FR_ASSERT(fr_nest_verify(&l->nest, NULL) == FR_OK);
    *out = l;
out:
    for (int n = z.grp->first; n >= 0; n = f->next[n])
        value[n] = FR_LOWER_NO_INST;
    return st;
}

fr_status
fr_lower(const struct fr_graph *g, const struct fr_fusion *f, int group, const bool *stored,
         uint16_t *value, struct fr_arena *arena, struct fr_lowered **out, struct fr_err *err)
{
    struct fr_lowered *l;
    bool               more = false;
    fr_status          st;

    for (int n = f->group[group]->first; n >= 0; n = f->next[n])
        more |= f->level[n] == FR_MEMBER_AFTER && !fr_op_reduces(g->node[n].op);
    TRY(lower_members(g, f, group, stored, value, false, arena, &l, err));
    if (more)
        TRY(lower_members(g, f, group, stored, value, true, arena, &l->after, err));
    *out = l;
out:
    return st;
}
