/* Planning: gathered structure -> groups -> kernels, steps and places in memory.
 *
 *     graph --passes--> groups --lower--> nests --> steps (dispatches, copies, scans, products)
 *                                          `------> places: leaf, new, arena, same as another
 *
 * Groups that run the same kernel and do not depend on one another share a step: one dispatch over a table
 * of pointers and sizes (an optimizer's update of all its parameters). */
#include "runtime/plan.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backends/expect.h"
#include "base/alloc.h"
#include "base/env.h"
#include "passes/memory.h"
#include "passes/pipeline.h"
#include "runtime/storage.h"

enum { EARLY_BYTES = 128 << 10 };    /* of temporaries, so many live longer than they need to */

/* The last step with this kernel that instances may join. */
struct joint {
    const struct fr_kernel *kernel;
    int                           step;
};

struct planner {
    struct fr_plan  *p;
    const struct fr_graph *g;
    struct fr_fusion *f;
    struct fr_arena  scratch, lowering;  /* until the plan is made; until the group is lowered */
    bool            *stored;
    int             *step_of;        /* [n_groups] last step of a group */
    int             *root;           /* [n_nodes] whose memory a node has: the first of those that are stored over it; NULL
                                        until somebody asks (may_be_early), and so the next two */
    bool            *kept;           /* [n_nodes] a root that outlives the plan */
    int             *born;           /* [n_nodes] the step that first writes a root, counted from 1; 0: none so far */
    int64_t          early_bytes;    /* of temporaries that are written in a step before their time */
    size_t           cap_steps;
    uint16_t        *value;          /* [n_nodes] scratch of lowering */
    struct joint    *joint;          /* [n_joints], a power of two */
    size_t           n_joints;
    struct fr_err   *err;
};

static fr_status
no_memory(struct planner *z)
{
    return fr_no_memory(z->err, "a plan");
}

/* ---- what reaches memory ------------------------------------------------------------------ */

static void
find_stored(struct planner *z)
{
    const struct fr_graph *g = z->g;

    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];
        int                    grp = z->f->group_of[n];

        if (grp < 0) { /* empty memory is there when it is wanted */
            z->stored[n] |= node->op == FR_OP_empty && node->output;
            continue;
        }
        if (node->output || node->op == FR_OP_store ||
            (fr_op_reduces(node->op) && (z->f->group[grp]->kind == FR_GROUP_POST ||
                                 z->f->level[n] == FR_MEMBER_AFTER)))
            z->stored[n] = true;
        for (int k = 0; k < node->n_args; k++) {
            int src = node->arg[k].src;

            if (src >= 0 && z->f->group_of[src] != grp)
                z->stored[src] = true;
        }
    }
}

/* ---- steps -------------------------------------------------------------------------------- */

static struct fr_step *
new_step(struct planner *z, int kind, bool counts)
{
    struct fr_plan *p = z->p;

    if ((size_t)p->n_steps == z->cap_steps) {
        struct fr_step *step = fr_arena_room(&p->graph->arena, 2 * z->cap_steps * sizeof *step);

        if (!step) {
            no_memory(z);
            return NULL;
        }
        memcpy(step, p->step, z->cap_steps * sizeof *step);
        p->step = step;
        z->cap_steps *= 2;
    }
    p->step[p->n_steps] = (struct fr_step){.kind = (uint8_t)kind, .counts = counts};
    p->n_kernels += counts;
    return &p->step[p->n_steps++];
}

static bool
room_for_instance(struct fr_arena *arena, struct fr_step *s)
{
    size_t              n = (size_t)s->n_instances, cap = n ? 2 * n : 1;
    struct fr_instance *instance;
    struct fr_binding **binding;
    int32_t           **scalar;
    int                *group;

    if (s->n_instances < s->cap_instances)
        return true;
    instance = fr_arena_room(arena, cap * sizeof *instance);
    binding = fr_arena_room(arena, cap * sizeof *binding);
    scalar = fr_arena_room(arena, cap * sizeof *scalar);
    group = fr_arena_room(arena, cap * sizeof *group);
    if (!instance || !binding || !scalar || !group)
        return false;
    if (n) {
        memcpy(instance, s->instance, n * sizeof *instance);
        memcpy(binding, s->binding, n * sizeof *binding);
        memcpy(scalar, s->scalar, n * sizeof *scalar);
        memcpy(group, s->group, n * sizeof *group);
    }
    s->instance = instance;
    s->binding = binding;
    s->scalar = scalar;
    s->group = group;
    s->cap_instances = (int)cap;
    return true;
}

/* One thread is expected to take so much longer. */
static void
expect(struct fr_plan *p, struct fr_step *s, int64_t ps)
{
    s->ps = s->ps < INT64_MAX - ps ? s->ps + ps : INT64_MAX;
    p->ps = p->ps < INT64_MAX - ps ? p->ps + ps : INT64_MAX;
}

/* Adds the lowered group as one more instance of the step's kernel. */
static fr_status
add_instance(struct planner *z, struct fr_step *s, const struct fr_lowered *l, int group)
{
    int                 n_op = l->nest.n_operands, n_axes = l->n_outer + 2;
    struct fr_arena    *arena = &z->p->graph->arena;
    struct fr_instance *in;
    struct fr_binding  *bind;
    int32_t            *scalar;
    int64_t            *stride;
    char              **ptr;
    struct fr_scalar_bits *values;

    if (!room_for_instance(arena, s))
        return no_memory(z);
    bind = fr_arena_room(arena, (size_t)n_op * sizeof *bind);
    scalar = fr_arena_room(arena, ((size_t)l->nest.n_scalars + 1) * sizeof *scalar);
    stride = fr_arena_room(arena, (size_t)n_op * (size_t)n_axes * sizeof *stride);
    ptr = fr_arena_room(arena, (size_t)n_op * sizeof *ptr);
    values = fr_arena_room(arena, ((size_t)l->nest.n_scalars + 1) * sizeof *values);
    if (!bind || !scalar || !stride || !ptr || !values)
        return no_memory(z);
    in = &s->instance[s->n_instances];
    *in = (struct fr_instance){.n_outer = l->n_outer, .n_packed = l->n_packed, .joined = l->joined, .n_rows = l->n_rows,
                               .n_inner = l->n_inner, .ptr = ptr, .stride = stride, .scalars = values};
    memcpy(in->outer, l->outer, (size_t)l->n_outer * sizeof *l->outer);
    memcpy(stride, l->stride, (size_t)n_op * (size_t)n_axes * sizeof *stride);
    for (int k = 0; k < l->nest.n_scalars; k++) {
        const uint64_t *constant = fr_graph_constant(z->g, l->scalar[k]);

        scalar[k] = constant ? -1 : l->scalar[k];
        if (constant)
            memcpy(&values[k], constant, sizeof *values);
    }
    for (int k = 0; k < n_op; k++) {
        const uint64_t touched = (uint64_t)(fr_instance_touched(in, k) * fr_dtype_size(l->nest.operands[k].dtype));

        bind[k] = (struct fr_binding){l->source[k].node, l->source[k].moving, fr_dtype_size(l->nest.operands[k].dtype), l->source[k].offset};
        if (l->source[k].node < 0)
            continue;
        if (l->nest.operands[k].flags & FR_OPERAND_WRITTEN)
            s->bytes_written += touched;
        else
            s->bytes_read += touched;
    }
    s->binding[s->n_instances] = bind;
    s->scalar[s->n_instances] = scalar;
    s->group[s->n_instances] = group;
    s->n_instances++;
    expect(z->p, s, s->kind == FR_STEP_SCAN ? fr_expect_scan(s->dtype, in) : fr_expect_instance(s->kernel, in));
    return FR_OK;
}

/* The first step at which everything that group `grp` waits for is done. */
static int
earliest_step(const struct planner *z, int grp)
{
    const struct fr_graph *g = z->g;
    int                    first = 0;

    if (z->p->n_steps == 0)
        return 0;
    for (int n = z->f->group[grp]->first; n >= 0; n = z->f->next[n]) {
        const struct fr_gnode *node = &g->node[n];

        for (int k = 0; k < node->n_args; k++) {
            int src = node->arg[k].src, other = src < 0 ? -1 : z->f->group_of[src];

            if (other >= 0 && other != grp && z->step_of[other] + 1 > first)
                first = z->step_of[other] + 1;
        }
        if (node->op != FR_OP_store)
            continue;
        if (!z->f->in_place[n] && g->node[node->arg[0].src].op != FR_OP_empty)
            return z->p->n_steps;        /* after its copy, the last step so far */
        /* What reads the version that is about to be overwritten. */
        for (int i = z->f->readers.first[node->arg[0].src]; z->f->readers.node[i] < n; i++) {
            int other = z->f->group_of[z->f->readers.node[i]];

            if (other != grp && z->step_of[other] + 1 > first)
                first = z->step_of[other] + 1;
        }
    }
    return first;
}

static fr_status
add_copy(struct planner *z, int n)
{
    const struct fr_gnode *node = &z->g->node[n];
    int                    prev = node->arg[0].src;
    struct fr_step        *s;

    if (node->op != FR_OP_store || z->f->in_place[n] || z->g->node[prev].op == FR_OP_empty)
        return FR_OK;
    if (!(s = new_step(z, FR_STEP_COPY, true)))
        return FR_ENOMEM;
    s->copy_from = prev;
    s->copy_to = n;
    s->copy_bytes = node->layout->n_elems * fr_dtype_size(node->dtype);
    s->bytes_read = s->bytes_written = (uint64_t)s->copy_bytes;
    expect(z->p, s, fr_expect_copy(s->copy_bytes));
    return FR_OK;
}

static fr_status
add_scan(struct planner *z, int grp)
{
    int                    n = z->f->group[grp]->first, n_axes = 0, axis;
    const struct fr_gnode *node = &z->g->node[n];
    const int64_t         *dims = fr_layout_dims(node->layout);
    const struct fr_edge  *e = &node->arg[0];
    struct fr_lowered      l = {.nest = {.n_operands = 2, .n_insts = 2}};
    struct fr_operand      ops[2] = {{.dtype = node->dtype},
                                     {.dtype = node->dtype, .flags = FR_OPERAND_WRITTEN}};
    struct fr_operand_source src[2] = {{.node = e->src, .moving = e->moving,
                                        .offset = e->offset * fr_dtype_size(node->dtype)},
                                       {.node = n, .moving = -1}};
    int64_t                in[FR_MAX_DIMS], stride[2 * (FR_MAX_DIMS + 2)] = {0};
    int64_t                size = fr_dtype_size(node->dtype), all[FR_MAX_DIMS];
    struct fr_step        *s;

    axis = (int)node->axes;
    fr_edge_strides(z->g, e, node->layout->ndim, dims, in);
    for (int k = 0; k < node->layout->ndim; k++)
        if (k != axis && dims[k] != 1)
            all[n_axes++] = k;
    l.n_inner = node->layout->ndim ? dims[axis] : 1;
    l.n_rows = n_axes ? dims[all[n_axes - 1]] : 1;
    l.n_outer = n_axes > 1 ? n_axes - 1 : 0;
    for (int k = 0; k < l.n_outer; k++)
        l.outer[k] = dims[all[k]];
    for (int o = 0; o < 2; o++) {
        const int64_t *from = o ? fr_layout_strides(node->layout) : in;
        int64_t       *to = stride + o * (l.n_outer + 2);

        for (int k = 0; k < n_axes; k++)
            to[l.n_outer + 1 - n_axes + k] = from[all[k]] * size;
        to[l.n_outer + 1] = node->layout->ndim ? from[axis] * size : size;
    }
    l.nest.operands = ops;
    l.source = src;
    l.stride = stride;
    if (!(s = new_step(z, FR_STEP_SCAN, true)))
        return FR_ENOMEM;
    s->op = node->op;
    s->dtype = node->dtype;
    z->step_of[grp] = z->p->n_steps - 1;
    return add_instance(z, s, &l, grp);
}

/* A step that is no loop nest: its operands, as they lie, then its result. */
static fr_status
add_call(struct planner *z, int grp)
{
    int                    n = z->f->group[grp]->first;
    const struct fr_gnode *node = &z->g->node[n];
    int64_t                size = fr_dtype_size(node->dtype);
    struct fr_step        *s;
    struct fr_binding     *bind;
    char                 **ptr;

    if (!(s = new_step(z, FR_STEP_CALL, node->op != FR_OP_matmul)) ||
        !room_for_instance(&z->p->graph->arena, s))
        return no_memory(z);
    bind = fr_arena_alloc(&z->p->graph->arena, ((size_t)node->n_args + 1) * sizeof *bind);
    ptr = fr_arena_alloc(&z->p->graph->arena, ((size_t)node->n_args + 1) * sizeof *ptr);
    if (!bind || !ptr)
        return no_memory(z);
    s->call = (struct fr_call){.op = node->op, .dtype = node->dtype, .axis = (int)node->axes,
                               .n_in = node->n_args, .out = node->layout};
    for (int k = 0; k < node->n_args; k++) {
        const struct fr_edge *e = &node->arg[k];
        int64_t               in_size = fr_dtype_size(z->g->node[e->src].dtype), n_read;

        s->call.in[k] = e->layout;
        if (node->op == FR_OP_take && k == 1) {
            s->call.index = z->g->node[e->src].dtype;
            s->call.wary = z->g->node[e->src].pinned;
        }
        bind[k] = (struct fr_binding){e->src, e->moving, in_size, e->offset * in_size};
        /* Of what it takes from, a take reads as much as its result has. */
        n_read = node->op == FR_OP_take && k == 0 ? node->layout->n_elems : e->layout->n_elems;
        s->bytes_read += (uint64_t)(n_read * in_size);
    }
    bind[node->n_args] = (struct fr_binding){.node = n, .moving = -1};
    s->bytes_written = (uint64_t)(node->layout->n_elems * size);
    s->instance[0] = (struct fr_instance){.ptr = ptr};
    s->binding[0] = bind;
    s->scalar[0] = NULL;
    s->group[0] = grp;
    s->n_instances = 1;
    z->step_of[grp] = z->p->n_steps - 1;
    expect(z->p, s, fr_expect_call(&s->call));
    z->p->n_products += node->op == FR_OP_matmul;
    return FR_OK;
}

/* Where the kernel's joint is, or is to be. */
static struct joint *
joint_of(struct planner *z, const struct fr_kernel *k)
{
    size_t i = (size_t)((uintptr_t)k / _Alignof(max_align_t) * 0x9e3779b97f4a7c15u >> 20);

    while (z->joint[i % z->n_joints].kernel && z->joint[i % z->n_joints].kernel != k)
        i++;
    return &z->joint[i % z->n_joints];
}

/* The bytes of temporaries that would be written first in step s, if the group were done there. */
static int64_t
born_bytes(const struct planner *z, int grp, int s)
{
    int64_t bytes = 0;

    for (int n = z->f->group[grp]->first; n >= 0; n = z->f->next[n]) {
        int                    r = z->root[n];
        const struct fr_gnode *root = &z->g->node[r];

        if (z->stored[n] && !z->kept[r] && (z->born[r] == 0 || z->born[r] > s + 1))
            bytes += root->layout->n_elems * fr_dtype_size(root->dtype);
    }
    return bytes;
}

static void
note_born(struct planner *z, int grp, int s)
{
    if (!z->root)
        return;
    for (int n = z->f->group[grp]->first; n >= 0; n = z->f->next[n])
        if (z->stored[n] && (z->born[z->root[n]] == 0 || z->born[z->root[n]] > s + 1))
            z->born[z->root[n]] = s + 1;
}

/* Finds who has whose memory, and what the groups before this one have written. False: no memory. */
static bool
find_born(struct planner *z, int grp)
{
    const struct fr_graph *g = z->g;
    size_t                 n_nodes = (size_t)g->n_nodes + 1;
    int                   *root = fr_arena_room(&z->scratch, n_nodes * sizeof *root);

    z->kept = fr_arena_alloc(&z->scratch, n_nodes * sizeof *z->kept);
    z->born = fr_arena_alloc(&z->scratch, n_nodes * sizeof *z->born);
    if (!root || !z->kept || !z->born)
        return false;
    z->root = root;
    for (int n = 0; n < g->n_nodes; n++) {
        const struct fr_gnode *node = &g->node[n];

        root[n] = !node->dead && node->op == FR_OP_store && z->f->in_place[n] ? root[node->arg[0].src] : n;
        z->kept[root[n]] |= node->output || node->op == FR_OP_leaf;
    }
    for (int i = 0; i < grp; i++)
        note_born(z, i, z->step_of[i]);
    return true;
}

/* Whether a group may be done in step s instead of a step of its own behind the last: the memory that it writes lives
 * longer then, which in a loop that is traced whole would be that of all rounds at once. */
static bool
may_be_early(struct planner *z, int grp, int s)
{
    int64_t bytes;

    if (s == z->p->n_steps - 1)
        return true;
    if (!z->root && !find_born(z, grp))
        return false;
    bytes = born_bytes(z, grp, s);
    if (z->early_bytes + bytes > EARLY_BYTES)
        return false;
    z->early_bytes += bytes;
    return true;
}

static fr_status
add_launch(struct planner *z, const struct fr_lowered *l, int grp, int earliest, bool counts)
{
    struct fr_kernel *k;
    struct fr_step         *s;
    bool                    joins = counts && !l->after;    /* no later phase right behind */
    struct joint           *joint;
    fr_status               st = fr_kernel_get(z->p->device, &l->nest, &k, z->err);

    if (st != FR_OK)
        return st;
    joint = joint_of(z, k);
    if (joins && joint->kernel == k && joint->step >= earliest && may_be_early(z, grp, joint->step)) {
        s = &z->p->step[joint->step];
        z->step_of[grp] = joint->step;
        fr_kernel_unref(k);
    } else {
        if (!(s = new_step(z, FR_STEP_LAUNCH, counts))) {
            fr_kernel_unref(k);
            return FR_ENOMEM;
        }
        s->kernel = k;
        z->step_of[grp] = z->p->n_steps - 1;
        if (joins)
            *joint = (struct joint){k, z->p->n_steps - 1};
    }
    note_born(z, grp, z->step_of[grp]);
    return add_instance(z, s, l, grp);
}

/* Has the backend choose how the group is run. Where that is a close choice, what there is code for already is taken, so
 * that arrays which grow or shrink a little are not compiled for anew. */
static fr_status
schedule(struct planner *z, const struct fr_lowered *l, struct fr_lowered **out)
{
    struct fr_lowered *other;
    bool               close = false;
    fr_status          st;

    if ((st = fr_plan_by(z->p)->schedule(l, false, &z->lowering, out, &close, z->err)) != FR_OK || !close ||
        fr_kernel_has_code(z->p->device, &(*out)->nest))
        return st;
    if ((st = fr_plan_by(z->p)->schedule(l, true, &z->lowering, &other, &close, z->err)) == FR_OK && fr_kernel_has_code(z->p->device, &other->nest))
        *out = other;
    return st;
}

static fr_status
add_group(struct planner *z, int grp)
{
    const struct fr_group *group = z->f->group[grp];
    struct fr_lowered     *l, *after;
    fr_status              st;

    if (group->kind == FR_GROUP_SCAN)
        return add_scan(z, grp);
    if (group->kind == FR_GROUP_CALL)
        return add_call(z, grp);
    for (int n = group->first; n >= 0; n = z->f->next[n])
        if ((st = add_copy(z, n)) != FR_OK)
            return st;
    TRY(fr_lower(z->g, z->f, grp, z->stored, z->value, &z->lowering, &l, z->err));
    after = l->after;
    if (fr_plan_by(z->p)->schedule)
        TRY(schedule(z, l, &l));
    TRY(add_launch(z, l, grp, earliest_step(z, grp), true));
    if (after && fr_plan_by(z->p)->schedule)
        TRY(schedule(z, after, &after));
    if (after)
        TRY(add_launch(z, after, grp, 0, false));
out:
    fr_arena_clear(&z->lowering);
    return st;
}

/* What many arrays of one dispatch make together may be as much as what one makes that goes past the caches. */
static fr_status
schedule_dispatch(struct planner *z, struct fr_step *s)
{
    struct fr_nest nest;
    fr_status      st;

    if (!fr_plan_by(z->p)->schedule_dispatch)
        return FR_OK;
    st = fr_step_copy_nest(s, &z->scratch, &nest, z->err);

    if (st != FR_OK)
        return st;
    return fr_plan_by(z->p)->schedule_dispatch(&nest, (int64_t)(s->bytes_read + s->bytes_written)) ? fr_step_set_nest(s, &nest, z->err) : FR_OK;
}

/* When every step has the kernel that it keeps. */
static fr_status
bind_instances(struct planner *z)
{
    struct fr_plan *p = z->p;
    int             n = 0;

    for (int i = 0; i < p->n_steps; i++)
        n += p->step[i].kind == FR_STEP_LAUNCH ? p->step[i].n_instances : 0;
    if (!(p->own = fr_arena_alloc(&p->graph->arena, ((size_t)n + 1) * sizeof *p->own)))
        return no_memory(z);
    for (int i = 0; i < p->n_steps; i++) {
        struct fr_step *s = &p->step[i];

        if (s->kind != FR_STEP_LAUNCH)
            continue;
        for (int k = 0; k < s->n_instances; k++)
            s->instance[k].own = &p->own[p->n_instances++];
        fr_plan_by(p)->bind(s->kernel, s->instance, s->n_instances, p->is_unfused);
        for (int k = 0; k < s->n_instances; k++)
            if ((int64_t)s->instance[k].scratch_bytes > p->scratch_bytes)
                p->scratch_bytes = (int64_t)s->instance[k].scratch_bytes;
    }
    return FR_OK;
}

/* ---- places ------------------------------------------------------------------------------- */

static void
first_places(struct planner *z)
{
    struct fr_place *place = z->p->place;

    for (int n = 0; n < z->g->n_nodes; n++) {
        const struct fr_gnode *node = &z->g->node[n];

        if (node->dead)
            continue;
        place[n].bytes = node->layout->n_elems * fr_dtype_size(node->dtype);
        if (node->op == FR_OP_leaf) {
            place[n].kind = FR_PLACE_LEAF;
        } else if (node->op == FR_OP_store && z->f->in_place[n]) {
            place[n].kind = FR_PLACE_SAME;
            place[n].root = fr_place_root(z->p->place, node->arg[0].src);
        } else if (z->stored[n] || node->op == FR_OP_empty) {
            place[n].kind = FR_PLACE_ARENA;
        }
    }
    for (int n = 0; n < z->g->n_nodes; n++)
        if (z->g->node[n].output) {
            int r = fr_place_root(z->p->place, n);

            if (place[r].kind == FR_PLACE_ARENA)
                place[r].kind = FR_PLACE_NEW;
        }
}

/* First and last step that touches the memory of each root. */
static void
find_lives(const struct planner *z, int32_t *from, int32_t *to)
{
    const struct fr_plan *p = z->p;

    for (int n = 0; n < z->g->n_nodes; n++) {
        from[n] = INT32_MAX;
        to[n] = -1;
    }
    for (int s = 0; s < p->n_steps; s++) {
        const struct fr_step *step = &p->step[s];
        int                   n_op = fr_step_operands(step);

        for (int i = 0; i < step->n_instances; i++)
            for (int k = 0; k < n_op; k++)
                if (step->binding[i][k].node >= 0) {
                    int r = fr_place_root(p->place, step->binding[i][k].node);

                    from[r] = s < from[r] ? s : from[r];
                    to[r] = s;
                }
        if (step->kind == FR_STEP_COPY) {
            int a = fr_place_root(p->place, step->copy_from), b = fr_place_root(p->place, step->copy_to);

            from[a] = s < from[a] ? s : from[a];
            from[b] = s < from[b] ? s : from[b];
            to[a] = to[b] = s;
        }
    }
}

/* Operand k of the instance is stored whole, at the very end of each element's work, so memory that is
 * read in the same way may take it. */
static bool
stored_last(const struct fr_nest *nest, int k)
{
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->operand != k || (in->kind != FR_INST_STORE && in->kind != FR_INST_ACCUM))
            continue;
        return in->kind == FR_INST_STORE && in->level == FR_LEVEL_FULL &&
               in->stage == nest->n_stages - 1 && !(nest->operands[k].flags & FR_OPERAND_STREAM);
    }
    return false;
}

/* A hundredth of a second. A longer evaluation leaves its leaves alone, so that
 * Ctrl-C can end it at any time and it can be made again. */
static const int64_t LONG_PS = 10000000000;

/* Counts what the step reads and writes in the memory of each root; `sign` -1 takes it back. */
static void
count_uses(const struct fr_plan *p, const struct fr_step *step, int32_t *uses, int sign)
{
    for (int i = 0; i < step->n_instances; i++)
        for (int k = 0; k < step->kernel->nest->n_operands; k++)
            if (step->binding[i][k].node >= 0)
                uses[fr_place_root(p->place, step->binding[i][k].node)] += sign;
}

/* Whether all uses of the memory of `q` in the step are reads of instance `i`, of the very elements
 * that its operand `out` is written to. */
static bool
read_where_written(const struct fr_plan *p, const struct fr_step *step, int i, int out, int q,
                   int n_uses)
{
    const struct fr_nest    *nest = step->kernel->nest;
    const struct fr_binding *b = step->binding[i];
    const int64_t           *stride = step->instance[i].stride;
    size_t                   row = (size_t)(step->instance[i].n_outer + 2);

    for (int k = 0; k < nest->n_operands; k++)
        if (b[k].node >= 0 && fr_place_root(p->place, b[k].node) == q) {
            if (b[k].offset != b[out].offset || b[k].moving >= 0 ||
                (nest->operands[k].flags & FR_OPERAND_WRITTEN) ||
                memcmp(stride + (size_t)k * row, stride + (size_t)out * row, row * sizeof *stride))
                return false;
            n_uses--;
        }
    return n_uses == 0;
}

/* Whether another step of the band that step s is in, if any, touches the memory of `q`: bands of it are run before
 * others of this one. */
static bool
band_touches(const struct fr_plan *p, int s, int q)
{
    const struct fr_band *b = p->step[s].band ? &p->band[p->step[s].band - 1] : NULL;

    for (int i = 0; b && i < b->n_items; i++) {
        const struct fr_step *step = &p->step[b->item[i].step];

        if (b->item[i].step == s)
            continue;
        for (int k = 0; k < fr_step_operands(step); k++) {
            int n = step->binding[b->item[i].instance][k].node;

            if (n >= 0 && fr_place_root(p->place, n) == q)
                return true;
        }
    }
    return false;
}

/* All that the steps of a band touch is alive from the first of them to the last. */
static void
widen_lives(const struct fr_plan *p, int n_nodes, int32_t *from, int32_t *to)
{
    for (int n = 0; n < n_nodes && p->n_bands > 0; n++) {
        const struct fr_step *first, *last;

        if (to[n] < 0 || to[n] == INT32_MAX)
            continue;
        first = &p->step[from[n]];
        last = &p->step[to[n]];
        if (first->band)
            from[n] = p->band[first->band - 1].first;
        if (last->band)
            to[n] = p->band[last->band - 1].first + p->band[last->band - 1].n_steps - 1;
    }
}

/* Lets results take the memory of operands that nobody needs afterwards. `uses`: [n_nodes] zeros. */
static void
reuse_dying(struct planner *z, const int32_t *from, int32_t *to, int32_t *uses)
{
    struct fr_plan *p = z->p;

    /* Memory that holds a result at the end is not dying, whatever it was at the beginning. */
    for (int n = 0; n < z->g->n_nodes; n++)
        if (z->g->node[n].output)
            to[fr_place_root(p->place, n)] = INT32_MAX;
    for (int s = 0; s < p->n_steps; s++) {
        struct fr_step *step = &p->step[s];

        if (step->kind != FR_STEP_LAUNCH)
            continue;
        count_uses(p, step, uses, 1);
        for (int i = 0; i < step->n_instances; i++) {
            const struct fr_nest    *nest = step->kernel->nest;
            const struct fr_binding *b = step->binding[i];

            for (int out = 0; out < nest->n_operands; out++) {
                int r = b[out].node;

                if (r < 0 || !(nest->operands[out].flags & FR_OPERAND_WRITTEN) ||
                    (p->place[r].kind != FR_PLACE_NEW && p->place[r].kind != FR_PLACE_ARENA) ||
                    from[r] != s || !stored_last(nest, out) || z->g->node[r].op == FR_OP_store)
                    continue;
                for (int in = 0; in < nest->n_operands; in++) {
                    int q = b[in].node;

                    if (q < 0 || (nest->operands[in].flags & FR_OPERAND_WRITTEN) || q == r)
                        continue;
                    q = fr_place_root(p->place, q);
                    if (to[q] != s || p->place[q].bytes != p->place[r].bytes ||
                        nest->operands[in].dtype != nest->operands[out].dtype ||
                        !(p->place[q].kind == FR_PLACE_ARENA ||
                          (p->place[q].kind == FR_PLACE_LEAF && z->g->node[q].dying &&
                           p->ps <= LONG_PS)) ||
                        !read_where_written(p, step, i, out, q, uses[q]) || band_touches(p, s, q))
                        continue;
                    FR_ASSERT(q != r && p->place[q].kind != FR_PLACE_SAME && from[q] <= s); /* roots do not go round */
                    /* A result over a temporary: the temporary is made in the result's memory. */
                    if (p->place[q].kind == FR_PLACE_ARENA)
                        p->place[q].kind = p->place[r].kind;
                    p->place[r].kind = FR_PLACE_SAME;
                    p->place[r].root = q;
                    to[q] = to[r];
                    uses[q] += uses[r];
                    uses[r] = 0;
                    break;
                }
            }
        }
        count_uses(p, step, uses, -1);
    }
}

/* Marks the steps after which the evaluation cannot be begun again from its leaves. */
static void
mark_overwrites(struct fr_plan *p)
{
    for (int s = 0; s < p->n_steps; s++) {
        struct fr_step *step = &p->step[s];

        if (step->kind != FR_STEP_LAUNCH)
            continue; /* scans, calls and copies write to memory of their own */
        for (int i = 0; i < step->n_instances; i++)
            for (int k = 0; k < step->kernel->nest->n_operands; k++) {
                int n = step->binding[i][k].node;

                if (n >= 0 && (step->kernel->nest->operands[k].flags & FR_OPERAND_WRITTEN))
                    step->overwrites |= p->place[fr_place_root(p->place, n)].kind == FR_PLACE_LEAF;
            }
    }
}

/* Finds the leaves whose memory holds something else in the end. */
static fr_status
find_lost(struct planner *z)
{
    struct fr_plan *p = z->p;
    bool           *known = fr_arena_alloc(&z->scratch, (size_t)z->g->n_nodes + 1);

    if (!known || !(p->lost = fr_arena_room(&p->graph->arena, ((size_t)p->n_leaves + 1) * sizeof *p->lost)))
        return no_memory(z);
    for (int i = p->n_leaves; i < p->n_placed; i++) {
        int n = p->placed[i], r = fr_place_root(p->place, n);

        if (p->place[n].kind != FR_PLACE_SAME || p->place[r].kind != FR_PLACE_LEAF || known[r] ||
            !fr_gnode_computes(&p->graph->node[n]))
            continue;
        known[r] = true;
        p->lost[p->n_lost++] = r;
        p->lost_bytes += p->place[r].bytes;
    }
    return FR_OK;
}

static fr_status
place_all(struct planner *z)
{
    struct fr_plan     *p = z->p;
    int                 n = z->g->n_nodes, n_arena = 0;
    int32_t            *from = fr_arena_room(&z->scratch, ((size_t)n + 1) * sizeof *from);
    int32_t            *to = fr_arena_room(&z->scratch, ((size_t)n + 1) * sizeof *to);
    int32_t            *uses = fr_arena_alloc(&z->scratch, ((size_t)n + 1) * sizeof *uses);
    struct fr_interval *v = fr_arena_room(&z->scratch, ((size_t)n + 1) * sizeof *v);
    struct fr_packing   packing;
    fr_status           st = FR_OK;

    if (!from || !to || !uses || !v)
        return no_memory(z);
    first_places(z);
    find_lives(z, from, to);
    TRY(fr_bands_find(p, to, &z->scratch, z->err));
    reuse_dying(z, from, to, uses);
    widen_lives(p, n, from, to);
    for (int i = 0; i < n; i++) {
        if (p->place[i].kind == FR_PLACE_NEW) {
            p->new_[p->n_new++] = i;
            p->new_bytes += p->place[i].bytes;
        } else if (p->place[i].kind == FR_PLACE_ARENA && to[i] >= 0) {
            v[n_arena++] = (struct fr_interval){from[i], to[i], p->place[i].bytes, 0};
        }
        if (z->g->node[i].output)
            p->output[p->n_outputs++] = i;
        if (p->place[i].kind == FR_PLACE_LEAF)
            p->placed[p->n_placed++] = i;
    }
    p->n_leaves = p->n_placed;
    for (int i = 0; i < n; i++)
        if (p->place[i].kind == FR_PLACE_NEW || p->place[i].kind == FR_PLACE_ARENA)
            p->placed[p->n_placed++] = i;
    for (int i = 0; i < n; i++)
        if (p->place[i].kind == FR_PLACE_SAME)
            p->placed[p->n_placed++] = i;
    mark_overwrites(p);
    TRY(find_lost(z));
    TRY(fr_memory_pack(v, n_arena, 0, FR_MEMORY_PLAN_STEPS, &packing, z->err));
    p->n_arena = n_arena;
    p->arena_bytes = packing.peak;
    p->arena_bound = packing.bound;
    n_arena = 0;
    for (int i = 0; i < n; i++) {
        if (p->place[i].kind == FR_PLACE_ARENA && to[i] >= 0)
            p->place[i].offset = v[n_arena++].offset;
        else if (p->place[i].kind == FR_PLACE_SAME)
            p->place[i].root = fr_place_root(p->place, i);
    }
    FR_ASSERT(fr_plan_is_sound(p, from, to, (int32_t *)(void *)v));
out:
    return st;
}

/* ---- the plan ----------------------------------------------------------------------------- */

int64_t
fr_plan_temporary_bytes(const struct fr_plan *p, int n_threads)
{
    return p->arena_bytes + p->band_bytes * n_threads + p->scratch_bytes;
}

void
fr_plan_free(struct fr_plan *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_instances; i++)
        if (p->own[i])
            fr_plan_by(p)->unbind(p->own[i]);
    if (p->recorded)
        fr_plan_by(p)->recorder->drop(p->recorded);
    for (int s = 0; s < p->n_steps; s++)
        if (p->step[s].kernel)
            fr_kernel_unref(p->step[s].kernel);
    for (int i = 0; i < p->n_held; i++)
        fr_layout_unref(p->held[i]);
    fr_plan_free(p->unfused);
    fr_free(p->room);
    fr_graph_free(p->graph); /* with all that lies in its arena */
}

fr_status
fr_plan_make(struct fr_graph *g, bool unfused, struct fr_plan **out, struct fr_err *err)
{
    struct planner  z = {.err = err, .g = g, .n_joints = 2};
    struct fr_plan *p = fr_arena_alloc(&g->arena, sizeof *p);
    size_t          n;
    fr_status       st;

    if (!p) {
        fr_graph_free(g);
        return fr_no_memory(err, "a plan");
    }
    z.p = p;
    p->graph = g;
    p->device = g->device == FR_DEVICE_ANY ? FR_DEVICE_HOST : g->device;
    p->is_unfused = unfused;
    p->may_wait = fr_plan_by(p)->kernel_waits != NULL;
    TRY(fr_passes_run(g, unfused, &p->graph->arena, &p->fusion, err));
    n = (size_t)g->n_nodes + 1;
    z.f = p->fusion;
    z.stored = fr_arena_alloc(&z.scratch, n);
    z.step_of = fr_arena_alloc(&z.scratch, n * sizeof *z.step_of);
    z.value = fr_arena_room(&z.scratch, n * sizeof *z.value);
    z.cap_steps = (size_t)p->fusion->n_groups + 1;
    while (z.n_joints < 2 * z.cap_steps)
        z.n_joints *= 2;
    z.joint = fr_arena_alloc(&z.scratch, z.n_joints * sizeof *z.joint);
    p->given = fr_arena_room(&p->graph->arena, n * sizeof *p->given);
    p->step = fr_arena_room(&p->graph->arena, z.cap_steps * sizeof *p->step);
    p->place = fr_arena_alloc(&p->graph->arena, n * sizeof *p->place);
    p->base = fr_arena_alloc(&p->graph->arena, n * sizeof *p->base);
    p->fresh = fr_arena_alloc(&p->graph->arena, n * sizeof *p->fresh);
    p->new_ = fr_arena_room(&p->graph->arena, n * sizeof *p->new_);
    p->output = fr_arena_room(&p->graph->arena, n * sizeof *p->output);
    p->placed = fr_arena_room(&p->graph->arena, n * sizeof *p->placed);
    if (!z.joint || !z.stored || !z.step_of || !z.value || !p->step || !p->place || !p->base || !p->fresh ||
        !p->new_ || !p->output || !p->placed || !p->given) {
        st = no_memory(&z);
        goto out;
    }
    memset(z.value, 0xff, n * sizeof *z.value); /* FR_LOWER_NO_INST */
    for (int i = 0; i < g->n_nodes; i++)
        p->given[i] = g->node[i].given;
    find_stored(&z);
    for (int i = 0; i < p->fusion->n_groups; i++)
        TRY(add_group(&z, i));
    for (int i = 0; i < p->n_steps; i++)
        if (p->step[i].kind == FR_STEP_LAUNCH && p->step[i].n_instances > 1)
            TRY(schedule_dispatch(&z, &p->step[i]));
    TRY(place_all(&z));
    TRY(bind_instances(&z));
    *out = p;
    p = NULL;
out:
    fr_arena_clear(&z.scratch);
    fr_plan_free(p);
    return st;
}

/* Notes which scalars fold has taken for one. False: no memory. */
static bool
note_alike(struct fr_plan *p)
{
    const struct fr_graph *g = p->graph;
    int                    n = 0;

    for (int i = 0; g->scalar_must && i < g->n_scalars; i++)
        n += g->scalar_must[i];
    if (n == 0)
        return true;
    if (!(p->alike = fr_arena_room(&p->graph->arena, (size_t)n * sizeof *p->alike)))
        return false;
    for (int i = 0; i < g->n_scalars; i++)
        if (g->scalar_must[i])
            p->alike[p->n_alike++] = (struct fr_alike){g->scalar_like[i], i};
    return true;
}

fr_status
fr_plan_build(const struct fr_structure *of, bool apart, struct fr_plan **out, struct fr_err *err)
{
    struct fr_graph *g;
    struct fr_plan  *p;
    struct fr_move  *move;
    fr_status        st;

    if ((st = fr_structure_graph(of, apart, &g, err)) != FR_OK)
        return st;
    if ((st = fr_moving_settle(g, of, &move, err)) != FR_OK) {
        fr_graph_free(g);
        return st;
    }
    if ((st = fr_plan_make(g, of->unfused, &p, err)) != FR_OK)
        return st;
    p->n_moving = of->n_moving;
    p->move = move;
    if (!note_alike(p) || !(p->key = fr_arena_room(&p->graph->arena, of->n_key * sizeof *p->key))) {
        fr_plan_free(p);
        return fr_no_memory(err, "a plan");
    }
    if (of->n_key) /* an explained one has none */
        memcpy(p->key, of->key, of->n_key * sizeof *p->key);
    p->n_key = of->n_key;
    *out = p;
    return FR_OK;
}
