/* jit/emit_gcc_reduce.c -- reductions: which way each is done, its accumulators, the order of
 * extremes, sums as trees, and how lanes become one result. */
#include "jit/emit_gcc_int.h"

#include <stddef.h>

static bool
tree_sum(const struct fr_inst *in)
{
    return in->op == FR_OP_sum && fr_dtype_kind(in->dtype) != 'i' &&
           fr_dtype_kind(in->dtype) != 'u';
}

enum how
fr_emit_reduce_how(const struct emit *e, const struct fr_inst *in)
{
    fr_dtype from = inst(e, in->a[0])->dtype;
    bool     real_number = from >= FR_F16;

    if (fr_op_finds_index(in->op))
        return HOW_PICK;
    if (fr_op_picks(in->op) && real_number)
        return e->extremes && fr_emit_is_extreme(in->op, from) ? HOW_EXTREME : HOW_PICK;
    if (tree_sum(in))
        return HOW_TREE;
    return in->op == FR_OP_prod && real_number ? HOW_SEQ : HOW_LANES;
}

/* Bytes of the smallest number that the stage handles in vectors; bools inside are masks. */
int
fr_emit_smallest_number(const struct emit *e)
{
    int least = 8;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);
        fr_dtype              d = in->dtype;
        bool                  in_memory = in->kind == FR_INST_LOAD || fr_inst_writes(in);

        if (in->level != FR_LEVEL_FULL || !e->runs[i] || (d == FR_BOOL && !in_memory))
            continue;
        if (in->kind == FR_INST_LOAD && fr_emit_is_wide_integer(e, in->operand))
            d = FR_I32;
        if (d == FR_F16 && e->halves_are_floats)
            d = FR_F32;
        d = fr_dtype_info[d].component;
        if (fr_dtype_size(d) < least)
            least = fr_dtype_size(d);
    }
    return least;
}

bool
fr_emit_stage_has(const struct emit *e, enum how how)
{
    for (int k = 0; k < e->n_sinks; k++)
        if (e->sinks[k].how == how)
            return true;
    return false;
}

/* ---- a block's lanes ------------------------------------------------------------------------- */

/* ---- accumulators ---------------------------------------------------------------------------- */

static gj_rvalue *
identity(struct emit *e, const struct sink *k)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       m = fr_machine_type(k->dtype);

    if (k->how == HOW_TREE)
        return fr_gcc_bits(c, m, m == FR_F32 ? 0x80000000u : 1ull << 63);
    if (k->how == HOW_SEQ)
        return fr_gcc_bits(c, m, fr_op_identity(k->op, m, 0));
    if (k->dtype == FR_BOOL)
        return fr_gcc_int(c, k->lane, (int64_t)fr_op_identity(k->op, FR_BOOL, 0));
    return fr_gcc_bits(c, m, fr_op_identity(k->op, k->dtype, 0));
}

/* A tree of complex numbers has both parts side by side in one set of registers. */
static int register_sets(const struct sink *k) { return k->how == HOW_TREE ? 1 : k->parts; }

void
fr_emit_reset_accumulator(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    if (k->how == HOW_STORE)
        return;
    if (k->how == HOW_SEQ) {
        fr_gcc_set(c, k->acc[0][0], identity(e, k));
        if (k->parts == 2)
            fr_gcc_set(c, k->acc[1][0], fr_gcc_bits(c, fr_machine_type(k->dtype), 0));
        return;
    }
    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_set(c, k->acc[p][r], fr_emit_splat(e, k->chunk, k->chunk_lanes, identity(e, k)));
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_set(c, k->place[r], fr_emit_splat(e, k->place_chunk, k->place_lanes, fr_gcc_int(c, k->place_type, 0)));
}

static void
declare_registers(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    int            lanes = k->how == HOW_TREE ? 8 : e->block;

    k->chunk_lanes = least(lanes, e->vector_bytes / k->lane_bytes);
    k->n_chunks = lanes / k->chunk_lanes;
    k->chunk = fr_emit_vector_of(e, k->lane, k->chunk_lanes);
    for (int p = 0; p < register_sets(k); p++) {
        for (int r = 0; r < k->n_chunks; r++) {
            k->acc[p][r] = fr_gcc_var(c, k->chunk);
            if (k->how == HOW_TREE)
                k->saved[r] = fr_gcc_var(c, k->chunk);
        }
        k->lanes[p] = fr_gcc_array(c, k->lane, lanes);
    }
}

static void
declare_places(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    /* With a tree in the same loop blocks begin anywhere: a place is then an element, not a block.
     */
    k->place_bytes = fr_emit_stage_has(e, HOW_TREE) ? 8 : k->lane_bytes < 4 ? 4 : k->lane_bytes;
    if (k->how == HOW_EXTREME)
        k->place_bytes = k->lane_bytes;
    k->place_type = fr_gcc_int_type(c, k->place_bytes);
    k->place_lanes = least(e->block, e->vector_bytes / k->place_bytes);
    k->n_place_chunks = e->block / k->place_lanes;
    k->place_chunk = fr_emit_vector_of(e, k->place_type, k->place_lanes);
    for (int r = 0; r < k->n_place_chunks; r++)
        k->place[r] = fr_gcc_var(c, k->place_chunk);
    k->places = fr_gcc_array(c, k->place_type, e->block);
}

void
fr_emit_declare_t(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int u = 0; u < e->unroll; u++) {
        k->of[u].t = fr_gcc_array(c, c->memory[k->dtype], e->block * k->parts);
        k->of[u].part[0] = k->of[u].t;
        for (int p = 0; p < k->parts && k->parts == 2; p++)
            k->of[u].part[p] = fr_gcc_array(c, c->memory[k->dtype], e->block);
    }
}

void
fr_emit_declare_reduction(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    k->lane_bytes = k->dtype == FR_BOOL ? fr_emit_smallest_number(e)
                                        : fr_dtype_size(fr_dtype_info[k->dtype].component);
    k->lane = k->dtype == FR_BOOL ? fr_gcc_int_type(c, k->lane_bytes) : c->memory[k->dtype];
    if (k->how == HOW_SEQ || k->how == HOW_TREE)
        fr_emit_declare_t(e, k);
    if (k->how == HOW_SEQ) {
        for (int p = 0; p < k->parts; p++)
            k->acc[p][0] = fr_gcc_var(c, k->lane);
        return;
    }
    declare_registers(e, k);
    if (k->how == HOW_PICK || k->how == HOW_EXTREME)
        declare_places(e, k);
    for (int p = 0; p < k->parts && (k->how == HOW_TREE || k->how == HOW_EXTREME); p++)
        k->sum[p] = fr_gcc_var(c, k->lane);
    for (int p = 0; p < k->parts && k->how == HOW_TREE; p++)
        k->left[p] = fr_gcc_array(c, k->lane, TREE_DEPTH);
}

/* What lanes hold as a value, and back. */
static struct fr_gval
from_lane(struct emit *e, const struct sink *k, gj_rvalue *const *part)
{
    struct fr_gcc *c = &e->c;

    if (k->dtype != FR_BOOL)
        return (struct fr_gval){.re = part[0], .im = part[1]};
    return (struct fr_gval){
        .re = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_NE, part[0], fr_gcc_int(c, k->lane, 0)))};
}

static gj_rvalue *
to_lane(struct emit *e, const struct sink *k, gj_rvalue *v)
{
    return k->dtype == FR_BOOL ? fr_gcc_cast(&e->c, v, k->lane) : v;
}

/* The lanes' arrays get what the registers hold, and the other way round. After GCC has vectorised
 * the loop in between, both copies vanish. */
void
fr_emit_spill_lanes(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_move(c, fr_emit_array_vector(e, k->chunk, k->lane_bytes, k->lanes[p], r * k->chunk_lanes), k->acc[p][r]);
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_move(c, fr_emit_array_vector(e, k->place_chunk, k->place_bytes, k->places, r * k->place_lanes), k->place[r]);
}

void
fr_emit_fill_lanes(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_move(c, k->acc[p][r], fr_emit_array_vector(e, k->chunk, k->lane_bytes, k->lanes[p], r * k->chunk_lanes));
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_move(c, k->place[r], fr_emit_array_vector(e, k->place_chunk, k->place_bytes, k->places, r * k->place_lanes));
}

/* ---- the order of extremes ---------------------------------------------------------------------
 * max is the left fold of `maximum`: the first NaN; among equal numbers (zeros of both signs) the
 * last for F32 and F64, the first otherwise. argmax is the first in any case. */

static gj_rvalue *
is_nan(struct emit *e, fr_dtype d, struct fr_gval v)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r;

    if (d < FR_F32)
        return fr_gcc_bits(c, FR_BOOL, 0);
    r = fr_gcc_cmp(c, GJ_NE, v.re, v.re);
    return fr_gcc_keep_bool(c, fr_dtype_is_complex(d) ? fr_gcc_or(c, r, fr_gcc_cmp(c, GJ_NE, v.im, v.im)) : r);
}

static gj_rvalue *
is_beyond(struct emit *e, fr_op op, fr_dtype d, struct fr_gval v, struct fr_gval than)
{
    struct fr_gcc *c = &e->c;
    int            cmp = op == FR_OP_max || op == FR_OP_argmax ? GJ_GT : GJ_LT;
    gj_rvalue     *r;

    if (d == FR_BOOL)
        return fr_gcc_keep_bool(c, cmp == GJ_GT ? fr_gcc_and(c, v.re, fr_gcc_not(c, than.re)) : fr_gcc_and(c, than.re, fr_gcc_not(c, v.re)));
    r = fr_gcc_keep_bool(c, fr_gcc_cmp(c, cmp, v.re, than.re));
    if (!fr_dtype_is_complex(d))
        return r;
    return fr_gcc_keep_bool(c, fr_gcc_or(c, r, fr_gcc_and(c, fr_gcc_cmp(c, GJ_EQ, v.re, than.re), fr_gcc_cmp(c, cmp, v.im, than.im))));
}

static gj_rvalue *
is_equal(struct emit *e, fr_dtype d, struct fr_gval a, struct fr_gval b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r;

    if (d == FR_BOOL)
        return fr_gcc_keep_bool(c, fr_gcc_not(c, fr_gcc_bin(c, GJ_XOR, c->t_bool, a.re, b.re)));
    r = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_EQ, a.re, b.re));
    if (!fr_dtype_is_complex(d))
        return r;
    return fr_gcc_keep_bool(c, fr_gcc_and(c, r, fr_gcc_cmp(c, GJ_EQ, a.im, b.im)));
}

static bool
last_wins(const struct sink *k)
{
    return (k->dtype == FR_F32 || k->dtype == FR_F64) && (k->op == FR_OP_max || k->op == FR_OP_min);
}

/* Whether `v` replaces `best`; `later` tells whether v comes after it. */
static gj_rvalue *
replaces(struct emit *e, const struct sink *k, struct fr_gval v, struct fr_gval best, gj_rvalue *later)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       d = k->dtype;
    gj_rvalue     *beyond, *tie, *nan, *best_nan;

    if (d == FR_F16) {
        v = fr_gcc_convert(c, FR_F16, FR_F32, v);
        best = fr_gcc_convert(c, FR_F16, FR_F32, best);
        d = FR_F32;
    }
    tie = last_wins(k) ? later : fr_gcc_not(c, later);
    beyond = fr_gcc_or(c, is_beyond(e, k->op, d, v, best), fr_gcc_and(c, is_equal(e, d, v, best), tie));
    beyond = fr_gcc_keep_bool(c, beyond);
    if (d < FR_F32)
        return beyond;
    nan = is_nan(e, d, v);
    best_nan = is_nan(e, d, best);
    /* Of two NaNs the earlier one. */
    nan = fr_gcc_and(c, nan, fr_gcc_not(c, fr_gcc_and(c, best_nan, later)));
    beyond = fr_gcc_and(c, beyond, fr_gcc_not(c, best_nan));
    return fr_gcc_keep_bool(c, fr_gcc_or(c, nan, beyond));
}

static gj_rvalue *
is_live(struct emit *e, gj_rvalue *b, int n_bytes)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = fr_gcc_int_type(c, n_bytes);

    return fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_cast(c, b, type), e->live_as[n_bytes]));
}

/* The place of the block that is being written. */
static gj_rvalue *
place_here(struct emit *e, const struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *first = e->place_as[k->place_bytes];
    int64_t        after = e->u * e->place_step;

    return after ? fr_gcc_bin(c, GJ_PLUS, k->place_type, first, fr_gcc_int(c, k->place_type, after))
                 : first;
}

/* `v` of lane `b`, or past the end the neutral element. */
gj_rvalue *
fr_emit_or_identity(struct emit *e, const struct sink *k, gj_rvalue *v, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *live = is_live(e, b, k->lane_bytes);
    fr_dtype       m = fr_machine_type(k->dtype);
    gj_rvalue     *none = fr_gcc_bits(c, m, fr_op_identity(k->op, k->dtype, 0));

    return fr_gcc_keep(c, k->dtype == FR_BOOL ? c->t_bool : k->lane, fr_gcc_select(c, m, live, v, none));
}

/* Takes value `v` of lane `b` into the accumulators of that lane, unless it is past the end. */
void
fr_emit_combine_lane(struct emit *e, struct sink *k, struct fr_gval v, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *part[2] = {NULL, NULL}, *take, *place;
    gj_lvalue     *lane[2] = {NULL, NULL};
    fr_dtype       m = fr_machine_type(k->dtype);
    struct fr_gval best;

    for (int p = 0; p < k->parts; p++) {
        lane[p] = fr_gcc_elem(c, k->lanes[p], b);
        part[p] = fr_gcc_keep(c, k->lane, fr_gcc_get(c, lane[p]));
    }
    if (k->how == HOW_LANES)
        v.re = fr_emit_or_identity(e, k, v.re, b);
    if (k->how == HOW_LANES && k->dtype == FR_BOOL && (fr_op_picks(k->op) || fr_op_info[k->op].rule == FR_RULE_TRUTH)) {
        /* As integers: what a lane holds is no mask, and to make it one takes longer than all the rest. */
        int op = fr_op_identity(k->op, FR_BOOL, 0) ? GJ_AND : GJ_OR;

        fr_gcc_set(c, lane[0], fr_gcc_bin(c, op, k->lane, part[0], to_lane(e, k, v.re)));
        return;
    }
    best = from_lane(e, k, part);
    if (k->how == HOW_LANES) {
        v = fr_emit_combine(e, k->op, k->dtype, best, v);
        fr_gcc_set(c, lane[0], to_lane(e, k, v.re));
        return;
    }
    take = fr_gcc_and(c, is_live(e, b, k->lane_bytes), replaces(e, k, v, best, fr_gcc_bits(c, FR_BOOL, 1)));
    take = fr_gcc_keep_bool(c, take);
    fr_gcc_set(c, lane[0], to_lane(e, k, fr_gcc_select(c, m, take, v.re, best.re)));
    if (k->parts == 2)
        fr_gcc_set(c, lane[1], fr_gcc_select(c, m, take, v.im, best.im));
    place = fr_gcc_read(c, k->places, b);
    place = fr_gcc_keep(c, k->place_type, place);
    m = k->place_bytes == 4 ? FR_I32 : FR_I64;
    fr_gcc_set(c, fr_gcc_elem(c, k->places, b), fr_gcc_select(c, m, take, place_here(e, k), place));
}

/* Adds 8 numbers of t, from number `first` on, to registers `to`. */
void
fr_emit_add_group(struct emit *e, struct sink *k, gj_lvalue **to, gj_rvalue *first)
{
    struct fr_gcc *c = &e->c;

    for (int r = 0; r < k->n_chunks; r++) {
        gj_lvalue *at = fr_gcc_elem(c, k->of[e->u].t, plus(e, first, fr_gcc_i64(c, r * k->chunk_lanes)));

        fr_gcc_set(c, to[r],
                   fr_gcc_bin(c, GJ_PLUS, k->chunk, fr_gcc_get(c, to[r]),
                              fr_gcc_get(c, fr_emit_vector_at(e, k->chunk, k->lane_bytes, at))));
    }
}

/* Element i of t. */
static struct fr_gval
from_t(struct emit *e, const struct sink *k, gj_rvalue *i)
{
    struct fr_gcc *c = &e->c;

    return fr_gcc_load(c, k->dtype, fr_gcc_place(c, k->of[e->u].t, 0), times(e, i, k->parts));
}

/* a * b as NumPy multiplies along a row: complex numbers without the fma that the operation has. */
static struct fr_gval
row_product(struct emit *e, struct sink *k, struct fr_gval a, struct fr_gval b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *p[4];

    if (k->parts == 1)
        return fr_emit_combine(e, k->op, k->dtype, a, b);
    p[0] = fr_gcc_bin(c, GJ_MULT, k->lane, a.re, b.re);
    p[1] = fr_gcc_bin(c, GJ_MULT, k->lane, a.im, b.im);
    p[2] = fr_gcc_bin(c, GJ_MULT, k->lane, a.re, b.im);
    p[3] = fr_gcc_bin(c, GJ_MULT, k->lane, a.im, b.re);
    return (struct fr_gval){
        .re = fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_SUB, k->lane, p[0], p[1])),
        .im = fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_PLUS, k->lane, p[2], p[3])),
    };
}

static void
set_product(struct emit *e, struct sink *k, struct fr_gval v)
{
    fr_gcc_set(&e->c, k->acc[0][0], v.re);
    if (k->parts == 2)
        fr_gcc_set(&e->c, k->acc[1][0], v.im);
}

/* Products of floats, element after element: each waits for the one before, and around whole blocks for nothing else. */
void
fr_emit_multiply_block(struct emit *e, struct sink *k)
{
    struct fr_gcc     *c = &e->c;
    gj_block          *whole = fr_gcc_block(c), *part = fr_gcc_block(c), *done = fr_gcc_block(c);
    gj_rvalue         *is_whole = fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, e->live), fr_gcc_i64(c, e->block));
    struct fr_gval     v = {.re = fr_gcc_get(c, k->acc[0][0]), .im = maybe(e, k->acc[1][0])}, first = v;
    struct fr_gcc_loop l;

    fr_gcc_branch(c, is_whole, whole, part);
    c->at = whole;
    for (int i = 0; i < e->block; i++)
        v = row_product(e, k, v, from_t(e, k, fr_gcc_i64(c, i)));
    set_product(e, k, v);
    fr_gcc_end(c, done);
    c->at = part;
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_get(c, e->live), true);
    set_product(e, k, row_product(e, k, first, from_t(e, k, fr_gcc_get(c, l.i))));
    fr_gcc_end_for(c, l);
    fr_gcc_jump(c, done);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The tail went through the block with everything else; its whole groups of 8 numbers are added
 * again to the registers as they were before. */
void
fr_emit_add_left_over(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    int                group = 8 / k->parts;
    gj_rvalue         *n_groups = fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, n_left, fr_gcc_i64(c, group));
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_groups, true);

    fr_emit_add_group(e, k, k->saved, times(e, fr_gcc_get(c, l.i), 8));
    fr_gcc_end_for(c, l);
    for (int r = 0; r < k->n_chunks; r++)
        fr_gcc_move(c, k->acc[0][r], k->saved[r]);
}

/* ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)); for complex numbers r0, r2 .. are real parts.
 */
static void
join_registers(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r[8];

    fr_emit_spill_lanes(e, k);
    for (int i = 0; i < 8; i++)
        r[i] = fr_gcc_read(c, k->lanes[0], fr_gcc_i64(c, i));
    for (int n = 8; n > k->parts; n /= 2)
        for (int i = 0; i < n / 2; i++) {
            int a = k->parts == 1 ? 2 * i : 2 * i - (i & 1), b = a + k->parts;

            r[i] = fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_PLUS, k->lane, r[a], r[b]));
        }
    for (int p = 0; p < k->parts; p++)
        fr_gcc_set(c, k->sum[p], r[p]);
}

/* The sum of a leaf: registers joined, then the last numbers one by one. */
void
fr_emit_finish_leaf(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    gj_rvalue         *rest;
    struct fr_gcc_loop l;
    struct fr_gval     v;

    join_registers(e, k);
    rest = rest_of(e, n_left, 8 / k->parts);
    l = fr_gcc_for(c, minus(e, n_left, rest), n_left, true);
    v = from_t(e, k, fr_gcc_get(c, l.i));
    fr_gcc_set(c, k->sum[0], fr_gcc_bin(c, GJ_PLUS, k->lane, fr_gcc_get(c, k->sum[0]), v.re));
    if (k->parts == 2)
        fr_gcc_set(c, k->sum[1], fr_gcc_bin(c, GJ_PLUS, k->lane, fr_gcc_get(c, k->sum[1]), v.im));
    fr_gcc_end_for(c, l);
}

/* v = max(v, x): written with a branch, which GCC knows as a maximum and so as a reduction. */
static void
raise_to(struct emit *e, gj_lvalue *v, gj_rvalue *x)
{
    struct fr_gcc *c = &e->c;
    gj_block      *more = fr_gcc_block(c), *next = fr_gcc_block(c);

    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_GT, x, fr_gcc_get(c, v)), more, next);
    c->at = more;
    fr_gcc_set(c, v, x);
    fr_gcc_jump(c, next);
}

/* An integer of the width of places that grows as a lane's value becomes a better one: NaN is the
 * best, both zeros are equal. */
static gj_rvalue *
rank_of(struct emit *e, const struct sink *k, gj_rvalue *v)
{
    struct fr_gcc *c = &e->c;
    bool           most = k->op == FR_OP_max || k->op == FR_OP_argmax;
    fr_dtype       m = fr_machine_type(k->dtype), w = k->place_bytes == 4 ? FR_I32 : FR_I64;
    int            bits = 8 * k->lane_bytes;
    gj_type       *type = k->place_type;
    gj_rvalue     *size, *is_nan, *sign, *all;
    bool           real_number = k->dtype >= FR_F16;

    if (k->dtype >= FR_F32)
        v = c->g->context_new_bitcast(c->ctxt, NULL, v, fr_gcc_int_type(c, k->lane_bytes));
    else if (k->dtype == FR_F16)
        v = fr_gcc_cast(c, v, fr_gcc_int_type(c, 2));
    v = fr_gcc_keep(c, type, fr_gcc_cast(c, v, type));
    if (m == FR_U64 || (m == FR_U32 && k->place_bytes == 4))
        v = fr_gcc_bin(c, GJ_XOR, type, v, fr_gcc_int(c, type, bits == 32 ? INT32_MIN : INT64_MIN));
    if (!real_number)
        return most ? v : c->g->context_new_unary_op(c->ctxt, NULL, GJ_BITWISE_NEGATE, type, v);
    all = fr_gcc_int(c, type, (int64_t)(~0ull >> (65 - bits)));
    size = fr_gcc_keep(c, type, fr_gcc_bin(c, GJ_AND, type, v, all));
    is_nan = fr_gcc_cmp(c, GJ_GT, size, fr_gcc_int(c, type, (int64_t)fr_op_identity(FR_OP_min, k->dtype, 0)));
    sign = fr_gcc_bin(c, GJ_RSHIFT, type, v, fr_gcc_int(c, type, bits - 1));
    v = fr_gcc_bin(c, GJ_XOR, type, v, fr_gcc_bin(c, GJ_AND, type, sign, all));
    v = fr_gcc_select(c, w, fr_gcc_cmp(c, GJ_EQ, size, fr_gcc_int(c, type, 0)),
                      fr_gcc_int(c, type, 0), fr_gcc_keep(c, type, v));
    if (!most)
        v = c->g->context_new_unary_op(c->ctxt, NULL, GJ_BITWISE_NEGATE, type, v);
    return fr_gcc_select(c, w, is_nan,
                         fr_gcc_int(c, type, k->place_bytes == 4 ? INT32_MAX : INT64_MAX),
                         fr_gcc_keep(c, type, v));
}

/* Which lane of `k`, and its place times the number of lanes plus the lane. Two short loops that
 * GCC vectorises: the best rank, and the first or the last place among those of that rank. */
static gj_rvalue *
best_place(struct emit *e, struct sink *k)
{
    struct fr_gcc     *c = &e->c;
    gj_type           *type = k->place_type;
    gj_lvalue         *ranks = fr_gcc_array(c, type, e->block), *best = fr_gcc_var(c, type);
    gj_lvalue         *found = fr_gcc_var(c, c->t_i64);
    gj_rvalue         *none = fr_gcc_int(c, type, k->place_bytes == 4 ? INT32_MIN : INT64_MIN);
    gj_rvalue         *nan = fr_gcc_int(c, type, k->place_bytes == 4 ? INT32_MAX : INT64_MAX);
    gj_rvalue         *rank, *at, *turn, *hit;
    struct fr_gcc_loop l;

    fr_gcc_set(c, best, none);
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    rank = rank_of(e, k, fr_gcc_read(c, k->lanes[0], fr_gcc_get(c, l.i)));
    rank = fr_gcc_keep(c, type, rank);
    fr_gcc_set(c, fr_gcc_elem(c, ranks, fr_gcc_get(c, l.i)), rank);
    raise_to(e, best, rank);
    fr_gcc_end_for(c, l);

    /* The last place is the largest, the first the largest of the negated ones. */
    turn = fr_gcc_i64(c, -1);
    if (last_wins(k))
        turn = fr_gcc_select(c, FR_I64, fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, best), nan), turn, fr_gcc_i64(c, 1));
    turn = fr_gcc_keep_i64(c, turn);
    fr_gcc_set(c, found, fr_gcc_i64(c, INT64_MIN));
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    at = fr_gcc_cast(c, fr_gcc_read(c, k->places, fr_gcc_get(c, l.i)), c->t_i64);
    at = plus(e, times(e, at, e->block), fr_gcc_get(c, l.i));
    at = fr_gcc_keep_i64(c, fr_gcc_bin(c, GJ_MULT, c->t_i64, at, turn));
    hit = fr_gcc_cmp(c, GJ_EQ, fr_gcc_read(c, ranks, fr_gcc_get(c, l.i)), fr_gcc_get(c, best));
    raise_to(e, found, fr_gcc_keep_i64(c, fr_gcc_select(c, FR_I64, hit, at, fr_gcc_i64(c, INT64_MIN))));
    fr_gcc_end_for(c, l);
    return fr_gcc_keep_i64(c, fr_gcc_bin(c, GJ_MULT, c->t_i64, fr_gcc_get(c, found), turn));
}

/* The element that a place from best_place stands for, counted from the first of the range. */
static gj_rvalue *
element_of(struct emit *e, gj_rvalue *place)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *first;

    if (!fr_emit_stage_has(e, HOW_TREE))
        return place;
    first = fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, place, fr_gcc_i64(c, e->block));
    return plus(e, first, rest_of(e, place, e->block));
}

/* The lanes of an extreme of complex numbers, one after the other. */
static void
join_complex(struct emit *e, struct sink *k, struct fr_gval *value, gj_rvalue **index)
{
    struct fr_gcc     *c = &e->c;
    fr_dtype           m = fr_machine_type(k->dtype);
    gj_lvalue         *best[2], *at = fr_gcc_var(c, c->t_i64);
    struct fr_gcc_loop l;
    struct fr_gval     v, old;
    gj_rvalue         *part[2], *place, *take;

    for (int p = 0; p < 2; p++)
        best[p] = fr_emit_copied(e, k->lane, fr_gcc_read(c, k->lanes[p], fr_gcc_i64(c, 0)));
    fr_gcc_set(c, at, fr_gcc_i64(c, INT64_MAX));
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), true);
    for (int p = 0; p < 2; p++)
        part[p] = fr_gcc_keep(c, k->lane, fr_gcc_read(c, k->lanes[p], fr_gcc_get(c, l.i)));
    v = (struct fr_gval){.re = part[0], .im = part[1]};
    old = (struct fr_gval){.re = fr_gcc_get(c, best[0]), .im = fr_gcc_get(c, best[1])};
    place = fr_gcc_cast(c, fr_gcc_read(c, k->places, fr_gcc_get(c, l.i)), c->t_i64);
    place = fr_gcc_keep_i64(c, plus(e, times(e, place, e->block), fr_gcc_get(c, l.i)));
    take = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_GT, place, fr_gcc_get(c, at)));
    take = replaces(e, k, v, old, take);
    fr_gcc_set(c, best[0], fr_gcc_select(c, m, take, v.re, old.re));
    fr_gcc_set(c, best[1], fr_gcc_select(c, m, take, v.im, old.im));
    fr_gcc_set(c, at, fr_gcc_select(c, FR_I64, take, place, fr_gcc_get(c, at)));
    fr_gcc_end_for(c, l);
    *value = (struct fr_gval){.re = fr_gcc_get(c, best[0]), .im = fr_gcc_get(c, best[1])};
    *index = element_of(e, fr_gcc_get(c, at));
}

/* The lanes of `k` joined into one value, and for extremes the element where it was found. */
static void
join_lanes(struct emit *e, struct sink *k, struct fr_gval *value, gj_rvalue **index)
{
    struct fr_gcc     *c = &e->c;
    gj_lvalue         *all;
    struct fr_gcc_loop l;
    gj_rvalue         *part[2] = {NULL, NULL}, *place;

    fr_emit_spill_lanes(e, k);
    if (k->how == HOW_PICK && k->parts == 2) {
        join_complex(e, k, value, index);
        return;
    }
    if (k->how == HOW_PICK) {
        place = best_place(e, k);
        part[0] = fr_gcc_read(c, k->lanes[0], rest_of(e, place, e->block));
        part[0] = fr_gcc_keep(c, k->lane, part[0]);
        *value = from_lane(e, k, part);
        *index = element_of(e, place);
        return;
    }
    part[0] = fr_gcc_read(c, k->lanes[0], fr_gcc_i64(c, 0));
    all = fr_emit_copied(e, k->dtype == FR_BOOL ? c->t_bool : k->lane, from_lane(e, k, part).re);
    l = fr_gcc_for(c, fr_gcc_i64(c, 1), fr_gcc_i64(c, e->block), true);
    part[0] = fr_gcc_read(c, k->lanes[0], fr_gcc_get(c, l.i));
    part[0] = fr_gcc_keep(c, k->lane, part[0]);
    *value = fr_emit_combine(e, k->op, k->dtype, (struct fr_gval){.re = fr_gcc_get(c, all)},
                             from_lane(e, k, part));
    fr_gcc_set(c, all, value->re);
    fr_gcc_end_for(c, l);
    *value = (struct fr_gval){.re = fr_gcc_get(c, all)};
}

void
fr_emit_write_partial_results(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink   *k = &e->sinks[s];
        struct fr_gval v = {.re = NULL};
        fr_dtype       d = k->dtype;
        gj_rvalue     *index = NULL, *slot;

        switch ((enum how)k->how) {
        case HOW_STORE:
            continue;
        case HOW_TREE:
            v = (struct fr_gval){.re = fr_gcc_get(c, k->sum[0]), .im = maybe(e, k->sum[1])};
            break;
        case HOW_EXTREME:
            d = inst(e, k->inst)->dtype;
            v = fr_gcc_convert(c, k->dtype, d, (struct fr_gval){.re = fr_gcc_get(c, k->sum[0])});
            break;
        case HOW_SEQ:
            v = (struct fr_gval){.re = fr_gcc_get(c, k->acc[0][0]), .im = maybe(e, k->acc[1][0])};
            break;
        default:
            join_lanes(e, k, &v, &index);
            break;
        }
        fr_emit_store_slot(e, d, e->slots_out, k->inst, v);
        if (!fr_op_finds_index(k->op))
            continue;
        slot = fr_gcc_offset(c, e->slots_out,
                             fr_gcc_i64(c, (int64_t)(sizeof(struct fr_slot) * k->inst +
                                                     offsetof(struct fr_slot, index))));
        fr_gcc_set(c, fr_gcc_at(c, c->t_i64, slot, fr_gcc_i64(c, 0)), plus(e, e->j0, index));
    }
}
