/* runtime/chunks.c -- how a plan is cut whose data is larger than the memory of its backend.  chunk_run.c runs it so.
 *
 * Memory is cut along one axis, in units: a row of each operand, say, or an element. An instance of a step is cut
 * along an axis whose strides tell what a unit is of each operand: index i of the axis is so many bytes behind index
 * i - 1. What does not move along it (a row that is added to all rows) is there as a whole, and what none of its operands
 * moves along is computed once, with the first chunk.
 *
 * Of memory that is not cut no more is there than is touched: a few rows of a large array may be all.
 *
 * A unit of what is written is not read or written with another unit, which may be another chunk's. Of what is only
 * read, units may overlap (the neighbours of a stencil), and what lies crosswise is there as a whole.
 *
 * Products and takes are cut along rows, or matrices of a stack. (A GPU's products of floats have no promised bits.)
 *
 * Whole rows in any order give the same bits. An axis along which something is added up is not cut, nor is what adds up
 * floats along others than the rows: a backend may choose the order of those by the shape. */
#include "runtime/chunks.h"

#include <string.h>

#include "passes/memory.h"
#include "runtime/bands.h"

enum {
    HALO = 4,          /* units that may be read with one, or */
    HALO_SHARE = 32,   /* such a part of all; else it is there as a whole */
    CANDIDATES = 12,   /* axes that are tried */
    SPARE = 8,         /* a part of the memory that there is, which kernels may want for themselves */
    MOST_BYTES = 512 << 20,    /* of chunks, where a unit has not more: the first and the last one are copied beside
                          nothing, and so many take some 10 ms, beside which a launch is nothing */
    ALIGNED = 64,      /* chunks of more units are multiples of it */
};

static int64_t
magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

/* An operand of an instance. */
struct use {
    struct fr_chunk_root   *root;    /* NULL: it has no memory */
    const int64_t          *stride;  /* along the axes of a loop; */
    const struct fr_layout *layout;  /* or how it lies in a call, */
    bool                    is_cut;  /* along whose first axis it goes with the result */
    int64_t                 offset, size;
    bool                    is_written;
};

/* Whether an operand of a product goes along with the first axis of its result: matrices of a stack, or the left rows. */
static bool
product_cuts(const struct fr_call *c, int k)
{
    const int n = c->in[0]->ndim > c->in[1]->ndim ? c->in[0]->ndim : c->in[1]->ndim;

    if (n > 2)
        return c->in[k]->ndim == n && fr_layout_dims(c->in[k])[0] == fr_layout_dims(c->out)[0];
    return k == 0 && c->in[0]->ndim == n;
}

bool
fr_chunk_cuts(const struct fr_call *c, int k)
{
    if (k == c->n_in)
        return true;
    if (c->op == FR_OP_matmul)
        return product_cuts(c, k);
    return c->op == FR_OP_take ? k == (c->axis == 0) && c->in[k]->ndim > 0 : c->n_in == 1;
}

static struct use
use_of(const struct fr_chunks *c, const struct fr_step *s, int i, int k)
{
    const struct fr_binding *b = &s->binding[i][k];
    struct use               u = {.offset = fr_binding_at(b, c->moving)};

    if (b->node >= 0)
        u.root = &c->root[fr_place_root(c->p->place, b->node)];
    if (s->kind == FR_STEP_CALL) {
        u.layout = k < s->call.n_in ? s->call.in[k] : s->call.out;
        u.size = fr_dtype_size(s->call.op == FR_OP_take && k == 1 ? s->call.index : s->call.dtype);
        u.is_cut = fr_chunk_cuts(&s->call, k);
        u.is_written = k == s->call.n_in;
    } else {
        u.stride = fr_band_strides(&s->instance[i], k);
        u.size = fr_band_size(s, k);
        u.is_written = fr_band_writes(s, k);
    }
    return u;
}

/* The axes of an instance, of which a call has the first one of its result. */
static int
n_axes(const struct fr_step *s, int i)
{
    return s->kind == FR_STEP_CALL ? s->call.out->ndim > 0 : s->instance[i].n_outer + 2;
}

static int64_t
dim_of(const struct fr_step *s, int i, int axis)
{
    return s->kind == FR_STEP_CALL ? fr_layout_dims(s->call.out)[0] : fr_instance_dim(&s->instance[i], axis);
}

static int64_t
along(const struct use *u, int axis)
{
    if (!u->layout)
        return u->stride[axis];
    return u->is_cut && u->layout->ndim > 0 ? fr_layout_strides(u->layout)[0] * u->size : 0;
}

int64_t
fr_chunk_step(const struct fr_chunks *c, int step, int i, int k)
{
    const struct use u = use_of(c, &c->p->step[step], i, k);

    return c->item[step][i].axis < 0 ? 0 : along(&u, c->item[step][i].axis) * c->item[step][i].per;
}

/* As struct fr_band_reach has it, of the axes but one. */
static struct fr_band_reach
reach_of(const struct fr_step *s, int i, int k, const struct use *u, int but)
{
    struct fr_band_reach r = {0, u->size, u->size};

    if (!u->layout)
        return fr_band_reach(&s->instance[i], k, but, u->size);
    for (int a = but >= 0 && u->is_cut; a < u->layout->ndim; a++) {
        const int64_t far = fr_layout_strides(u->layout)[a] * u->size * (fr_layout_dims(u->layout)[a] - 1);

        *(far < 0 ? &r.low : &r.high) += far;
        r.touched *= fr_layout_dims(u->layout)[a];
    }
    return r;
}

/* ---- what may be cut ------------------------------------------------------------------------- */

/* Whether it adds up in an order that the number of columns may change. */
static bool
adds_columns(const struct fr_nest *nest)
{
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        const bool            folds = in->kind == FR_INST_ACCUM ||
                           (in->kind == FR_INST_STORE && (nest->operands[in->operand].flags & FR_OPERAND_STREAM));

        if (folds && fr_op_rounds((fr_op)in->op, in->dtype))
            return true;
    }
    return false;
}

static bool
may_be_cut(const struct fr_step *s, const struct fr_instance *in, int axis)
{
    if (s->kind == FR_STEP_CALL) /* (a vector times a matrix has no rows) */
        return fr_layout_strides(s->call.out)[0] > 0 && (fr_chunk_cuts(&s->call, 0) || fr_chunk_cuts(&s->call, 1));
    return fr_band_may_cut(s, in, axis) && (s->kind == FR_STEP_SCAN || !adds_columns(s->kernel->nest));
}

/* ---- along which axes ------------------------------------------------------------------------ */

/* An operand of an item goes through a root with this stride from unit to unit. False: it cannot. */
static bool
move(struct fr_chunk_root *r, int64_t pitch)
{
    const bool fits = !r->is_touched || (r->moves ? r->pitch == pitch : pitch == 0);

    if (r->is_touched && !fits && !r->may_stay)
        return false;
    r->moves = fits && pitch != 0;
    r->pitch = r->moves ? pitch : 0;
    r->is_touched = true;
    return true;
}

/* The item is cut so, and all that it touches. */
static bool
cut_item(struct fr_chunks *c, const struct fr_step *s, int i, struct fr_chunk_item *it)
{
    if (!may_be_cut(s, &s->instance[i], it->axis))
        return false;
    for (int k = 0; k < fr_step_operands(s); k++) {
        const struct use u = use_of(c, s, i, k);

        if (u.root && !move(u.root, along(&u, it->axis) * it->per))
            return false;
    }
    return true;
}

/* The axis of the item along which one of its operands goes as others do; false: there is none. */
static bool
find_axis(const struct fr_chunks *c, const struct fr_step *s, int i, struct fr_chunk_item *it)
{
    for (int k = 0; k < fr_step_operands(s); k++) {
        const struct use u = use_of(c, s, i, k);

        for (int a = 0; u.root && u.root->moves && a < n_axes(s, i); a++) {
            const int64_t n = dim_of(s, i, a), per = n / c->n_units;

            if (per > 0 && n % c->n_units == 0 && along(&u, a) * per == u.root->pitch) {
                *it = (struct fr_chunk_item){a, per};
                return true;
            }
        }
    }
    return false;
}

/* All that goes along with what is known to move. */
static bool
spread(struct fr_chunks *c)
{
    for (bool more = true; more;) {
        more = false;
        for (int n = 0; n < c->p->n_steps; n++)
            for (int i = 0; i < c->p->step[n].n_instances; i++) {
                struct fr_chunk_item *it = &c->item[n][i];

                if (it->axis >= 0 || !find_axis(c, &c->p->step[n], i, it))
                    continue;
                if (!cut_item(c, &c->p->step[n], i, it))
                    return false;
                more = true;
            }
    }
    return true;
}

/* What is not cut is computed in the first chunk: what it touches is whole, and nothing that is cut touches before, or
 * with it, what it writes. */
static bool
find_once(struct fr_chunks *c)
{
    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            for (int k = 0; c->item[n][i].axis < 0 && k < fr_step_operands(&c->p->step[n]); k++) {
                const struct use u = use_of(c, &c->p->step[n], i, k);

                if (u.root && !move(u.root, 0))
                    return false;
                if (u.root && u.is_written && !u.root->once)
                    u.root->once = n + 1;
            }
    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            for (int k = 0; c->item[n][i].axis >= 0 && k < fr_step_operands(&c->p->step[n]); k++) {
                const struct use u = use_of(c, &c->p->step[n], i, k);

                if (u.root && (u.root->once > n || (u.is_written && !u.root->moves)))
                    return false;
            }
    return true;
}

/* ---- which bytes ----------------------------------------------------------------------------- */

static void
reach(struct fr_chunks *c, const struct fr_step *s, int i, int k, const struct fr_chunk_item *it)
{
    const struct use    u = use_of(c, s, i, k);
    const bool          moves = u.root && u.root->moves;
    struct fr_band_reach r;
    int64_t             more;

    if (!u.root)
        return;
    r = reach_of(s, i, k, &u, moves ? it->axis : -1);
    more = moves ? (it->per - 1) * along(&u, it->axis) : 0;
    r.low += u.offset + (more < 0 ? more : 0);
    r.high += u.offset + (more > 0 ? more : 0);
    u.root->is_filled = moves && u.is_written && !u.root->is_written && r.touched * it->per == u.root->pitch;
    if (r.low < u.root->low || !(u.root->is_read || u.root->is_written))
        u.root->low = r.low;
    if (r.high > u.root->high || !(u.root->is_read || u.root->is_written))
        u.root->high = r.high;
    u.root->is_read |= !u.is_written;
    u.root->is_written |= u.is_written;
}

/* Whether units that are only read overlap so little that each chunk may have its own. */
static bool
overlaps_little(const struct fr_chunks *c, const struct fr_chunk_root *r, int64_t size)
{
    return r->high - r->low <= HALO * size || r->high - r->low <= fr_chunk_bytes(r, c->n_units) / HALO_SHARE;
}

/* Finds the bytes of a unit of each root. False: they are not apart. */
static bool
find_bytes(struct fr_chunks *c)
{
    bool again = false;

    for (int n = 0; n < c->p->graph->n_nodes; n++)
        c->root[n].is_read = c->root[n].is_written = false;
    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            for (int k = 0; k < fr_step_operands(&c->p->step[n]); k++)
                reach(c, &c->p->step[n], i, k, &c->item[n][i]);
    for (int n = 0; n < c->p->graph->n_nodes; n++) {
        struct fr_chunk_root *r = &c->root[n];
        const int64_t         size = magnitude(r->pitch);

        r->is_filled &= r->is_written && !r->is_read && r->high - r->low == size;
        if (!r->moves || (r->may_stay ? overlaps_little(c, r, size) : r->high - r->low <= size))
            continue;
        if (!r->may_stay)
            return false;
        r->moves = false;
        again = true;
    }
    return !again || find_bytes(c);
}

/* As many units of a chunk as there is memory for, twice where copies go on beside kernels. False: not for one. */
static bool
find_units(struct fr_chunks *c, int64_t room)
{
    int64_t whole = 0, each = 0;

    for (int i = 0; i < c->p->n_placed; i++) {
        const int                   n = c->p->placed[i];
        const struct fr_chunk_root *r = &c->root[n];

        if (c->p->place[n].kind == FR_PLACE_SAME || r->is_there || !(r->is_read || r->is_written))
            continue;
        if (r->moves)
            each += fr_chunk_slots(c, n) * magnitude(r->pitch);
        whole += fr_chunk_slots(c, n) * (fr_chunk_bytes(r, 0) + FR_MEMORY_ALIGN);
    }
    room -= room / SPARE;
    if (each == 0) {
        c->units = 1;
        return c->n_units == 1 && whole <= room;
    }
    if ((c->units = (room - whole) / each) < 1)
        return false;
    if (c->units > MOST_BYTES / each)
        c->units = MOST_BYTES / each + 1;
    c->units = c->units < c->n_units ? c->units : c->n_units;
    if (c->units > ALIGNED)
        c->units -= c->units % ALIGNED;
    return true;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* An axis that may be cut, of so many indices: along which a root goes with this stride. */
struct candidate {
    int     root;
    int64_t bytes, pitch, n;
};

/* Larger memory comes first, and of one the longer strides: fewer units are whole rows of more. */
static bool
comes_before(const struct candidate *a, const struct candidate *b)
{
    return a->bytes != b->bytes ? a->bytes > b->bytes : magnitude(a->pitch) > magnitude(b->pitch);
}

static void
add_candidate(struct candidate *list, int *n, const struct candidate *x)
{
    int at = 0;

    for (int i = 0; i < *n; i++)
        if (list[i].root == x->root && list[i].pitch == x->pitch && list[i].n == x->n)
            return;
    while (at < *n && !comes_before(x, &list[at]))
        at++;
    if (at == CANDIDATES)
        return;
    *n += *n < CANDIDATES;
    memmove(&list[at + 1], &list[at], (size_t)(*n - 1 - at) * sizeof *list);
    list[at] = *x;
}

static int
find_candidates(const struct fr_chunks *c, struct candidate *out)
{
    int n_out = 0;

    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            for (int k = 0; k < fr_step_operands(&c->p->step[n]); k++) {
                const struct use u = use_of(c, &c->p->step[n], i, k);

                for (int a = 0; u.root && a < n_axes(&c->p->step[n], i); a++) {
                    const int              root = (int)(u.root - c->root);
                    const struct candidate x = {root, c->p->place[root].bytes, along(&u, a),
                                                dim_of(&c->p->step[n], i, a)};

                    if (x.pitch != 0 && x.n > 1)
                        add_candidate(out, &n_out, &x);
                }
            }
    return n_out;
}

/* What a leaf is that nothing writes. */
static void
begin(struct fr_chunks *c, const bool *is_there)
{
    for (int i = 0; i < c->p->n_leaves; i++)
        c->root[c->p->placed[i]].is_there = is_there[i];
    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            for (int k = 0; k < fr_step_operands(&c->p->step[n]); k++) {
                const struct use u = use_of(c, &c->p->step[n], i, k);

                if (u.root)
                    *(u.is_written ? &u.root->is_written : &u.root->is_read) = true;
            }
    for (int i = 0; i < c->p->n_leaves; i++)
        c->root[c->p->placed[i]].may_stay = !c->root[c->p->placed[i]].is_written;
}

/* NULL: not at all, but with no more in memory than is touched. */
static bool
cut(struct fr_chunks *c, const struct candidate *by, int64_t room)
{
    for (int n = 0; n < c->p->graph->n_nodes; n++) {
        c->root[n].is_touched = c->root[n].moves = c->root[n].is_filled = false;
        c->root[n].pitch = c->root[n].once = 0;
    }
    for (int n = 0; n < c->p->n_steps; n++)
        for (int i = 0; i < c->p->step[n].n_instances; i++)
            c->item[n][i] = (struct fr_chunk_item){.axis = -1};
    c->n_units = by ? by->n : 1;
    if (by && (!move(&c->root[by->root], by->pitch) || !spread(c)))
        return false;
    return find_once(c) && find_bytes(c) && find_units(c, room);
}

/* Copies of whole arrays, and what has no elements, are not looked at. */
static bool
is_known(const struct fr_step *s)
{
    bool well = s->kind != FR_STEP_COPY && !s->band;

    for (int i = 0; i < s->n_instances && well; i++)
        well = s->kind == FR_STEP_CALL || !fr_instance_is_empty(&s->instance[i]);
    for (int k = 0; s->kind == FR_STEP_CALL && k < s->call.n_in; k++)
        well &= s->call.in[k]->n_elems > 0 && s->call.out->n_elems > 0;
    return well;
}

static bool
has_room(struct fr_chunks *c)
{
    const struct fr_plan *p = c->p;

    c->root = fr_arena_alloc(&c->arena, ((size_t)p->graph->n_nodes + 1) * sizeof *c->root);
    c->item = fr_arena_room(&c->arena, ((size_t)p->n_steps + 1) * sizeof *c->item);
    for (int n = 0; c->item && n < p->n_steps; n++)
        if (!(c->item[n] = fr_arena_room(&c->arena, ((size_t)p->step[n].n_instances + 1) * sizeof **c->item)))
            return false;
    return c->root && c->item;
}

fr_status
fr_chunks_find(struct fr_chunks *c, const struct fr_plan *p, const int64_t *moving, const bool *is_there, int64_t room,
               struct fr_err *err)
{
    struct candidate by[CANDIDATES];
    int              n;

    *c = (struct fr_chunks){.p = p, .moving = moving};
    for (int s = 0; s < p->n_steps; s++)
        if (!is_known(&p->step[s]))
            return FR_ENOTSUP;
    if (!has_room(c))
        return fr_no_memory(err, "a plan in chunks");
    begin(c, is_there);
    if (cut(c, NULL, room))
        return FR_OK;
    n = find_candidates(c, by);
    for (int i = 0; i < n; i++)
        if (cut(c, &by[i], room))
            return FR_OK;
    return FR_ENOTSUP;
}
