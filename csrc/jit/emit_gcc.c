/* jit/emit_gcc.c -- loop form to libgccjit calls.
 *
 * Each stage becomes one function over elements [j0, j0 + n) of a row, each `mid` one function over the ROW
 * instructions; frit_rows calls them row after row. A stage works on blocks of as many elements as
 * a vector register holds of the smallest type in use:
 *
 *     for each block:                          (j, j + B)
 *         for b < B:                           B is a constant: GCC vectorises this loop into straight
 *             load, compute, t[b] = value      vector code, and t[] never leaves the registers
 *         operand[j ..] = t                    all stores after all loads, so an output may be an input
 *         accumulators += t
 *
 * There are no promises about aliasing to be made and no run-time checks: t[] cannot alias. What is left
 * over (n % B) goes through the same code once more: loads from padded copies, stores to pads, of which
 * the valid part is copied out. Hence one copy of the body, and tails at vector speed.
 *
 * Sums follow NumPy's pairwise tree (csrc/README.md, "Numerics"): leaves of at most 128 elements with 8 accumulators, joined
 * by an explicit stack. The other reductions keep one accumulator per lane. */
#include "jit/emit_gcc.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "jit/cc/gcc.h"

enum { MAX_BLOCK = 64, LEAF = 128, TREE_DEPTH = 64, MAX_CHUNKS = 16 };

/* How a FULL value leaves the loop over its stage. */
enum how {
    HOW_STORE,  /* to an operand, or to a row buffer */
    HOW_TREE,   /* pairwise sum */
    HOW_SEQ,    /* one element after another: products of floats */
    HOW_LANES,  /* an accumulator per lane, any order */
    HOW_PICK,   /* the same with the place where it was found: extremes of floats, argmax */
};

struct sink {
    uint16_t    inst;
    uint8_t     how;
    fr_op       op;              /* of a reduction */
    fr_dtype    dtype;           /* of the elements of t; of a reduction's accumulator */
    int         parts;           /* machine numbers per element */
    gj_lvalue  *t;               /* [B * parts] */
    gj_lvalue  *part[2];         /* [B] each: what the loop computes; with one part it is t */
    /* HOW_STORE */
    gj_lvalue  *to, *step;       /* where element 0 would be (char *), bytes between elements; step NULL: unit */
    gj_rvalue  *to_start, *step_start;
    gj_lvalue  *pad;             /* NULL: whole blocks always fit (row buffers) */
    /* reductions */
    int         lane_bytes;      /* a lane of a bool is an integer as wide as the stage's smallest number */
    gj_type    *lane;
    int         n_chunks;        /* registers per accumulator part */
    gj_type    *chunk;           /* vector type of a register */
    int         chunk_lanes;
    gj_lvalue  *acc[2][MAX_CHUNKS];   /* registers; HOW_SEQ: acc[part][0], a scalar */
    gj_lvalue  *saved[MAX_CHUNKS];    /* HOW_TREE: the registers before the tail */
    gj_lvalue  *lanes[2];        /* arrays through which registers are combined lane by lane */
    gj_type    *place_type;      /* HOW_PICK */
    int         place_bytes;
    int         place_lanes, n_place_chunks;
    gj_type    *place_chunk;
    gj_lvalue  *place[MAX_CHUNKS], *places;
    gj_lvalue  *left[2];         /* HOW_TREE: sums of left halves that wait for their right ones */
    gj_lvalue  *sum[2];          /* HOW_TREE: of the leaf; at the end, of everything */
};

struct source {                  /* an operand that FULL loads read */
    uint16_t   operand;
    gj_lvalue *from, *step;      /* as in struct sink */
    gj_rvalue *from_start, *step_start;
    gj_lvalue *pad;
};

struct emit {
    struct fr_gcc         c;
    const struct fr_nest *nest;
    int                   vector_bytes;
    struct fr_err        *err;
    /* the function being written */
    uint8_t               runs[FR_MAX_INSTS];
    uint8_t               wanted[FR_MAX_INSTS];   /* lower-level values that it needs */
    struct fr_gval        val[FR_MAX_INSTS];
    gj_rvalue            *ptr, *stride, *j0, *n, *scalars, *slots, *slots_out, *scratch;
    /* the stage being written */
    int                   block;
    int                   n_sinks, n_sources;
    struct sink           sinks[FR_MAX_INSTS];
    struct source         sources[FR_MAX_OPERANDS];
    int16_t               source_of[FR_MAX_OPERANDS];
    gj_rvalue            *iota_start[FR_MAX_OPERANDS], *iota_step[FR_MAX_OPERANDS];
    gj_lvalue            *j, *live, *n_blocks;    /* of this block: first element, valid ones, number */
    gj_rvalue            *live_as[9], *place_as[9];   /* as integers of so many bytes */
};

static const struct fr_inst *
inst(const struct emit *e, int i)
{
    return &e->nest->insts[i];
}

static int
n_args(const struct fr_inst *in)
{
    if (in->kind == FR_INST_OP)
        return in->op == FR_OP_cast ? 1 : fr_op_info[in->op].arity;
    return in->kind == FR_INST_REDUCE || in->kind == FR_INST_STORE || in->kind == FR_INST_ACCUM;
}

static bool
writes(const struct fr_inst *in)
{
    return in->kind == FR_INST_STORE || in->kind == FR_INST_ACCUM;
}

/* ---- one instruction -------------------------------------------------------------------------- */

static struct fr_gval
emit_op(struct emit *e, const struct fr_inst *in)
{
    struct fr_gval args[3] = {{0}};

    for (int k = 0; k < n_args(in); k++)
        args[k] = e->val[in->a[k]];
    if (in->op == FR_OP_cast)
        return fr_gcc_convert(&e->c, inst(e, in->a[0])->dtype, in->dtype, args[0]);
    return fr_gcc_op(&e->c, in->op, fr_nest_compute(e->nest, (int)(in - e->nest->insts)), args);
}

/* The operation that joins two partial results of `in`, over values of dtype `d`. */
static struct fr_gval
combine(struct emit *e, fr_op op, fr_dtype d, struct fr_gval a, struct fr_gval b)
{
    return fr_gcc_op(&e->c, fr_op_info[op].combine, d, (struct fr_gval[]){a, b});
}

/* A slot's or a scalar's bytes as a value. */
static struct fr_gval
load_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int64_t offset)
{
    gj_rvalue *at = fr_gcc_offset(&e->c, table, fr_gcc_i64(&e->c, offset));

    return fr_gcc_load(&e->c, d, at, fr_gcc_i64(&e->c, 0));
}

static void
store_slot(struct emit *e, fr_dtype d, gj_rvalue *table, int i, struct fr_gval v)
{
    gj_rvalue *at =
        fr_gcc_offset(&e->c, table, fr_gcc_i64(&e->c, (int64_t)sizeof(struct fr_slot) * i));

    fr_gcc_store(&e->c, d, at, fr_gcc_i64(&e->c, 0), v);
}

/* Element k of an array of pointers or of int64_t that is a parameter. */
static gj_rvalue *
table_entry(struct emit *e, gj_rvalue *table, gj_type *type, int k)
{
    gj_lvalue *at = e->c.g->context_new_array_access(e->c.ctxt, NULL, table, fr_gcc_i64(&e->c, k));

    return fr_gcc_keep(&e->c, type, fr_gcc_get(&e->c, at));
}

/* Marks what the marked instructions need from lower levels, and SCALAR operations' arguments. */
static void
close_wanted(struct emit *e)
{
    for (int i = (int)e->nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = inst(e, i);
        bool used = in->level == FR_LEVEL_SCALAR ? e->wanted[i] : false;

        for (int k = 0; used && k < n_args(in); k++)
            e->wanted[in->a[k]] = 1;
    }
}

static void
emit_scalars(struct emit *e)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (in->level != FR_LEVEL_SCALAR || !e->wanted[i])
            continue;
        e->val[i] = in->kind == FR_INST_SCALAR ? load_slot(e, in->dtype, e->scalars, 16 * in->operand)
                                               : emit_op(e, in);
    }
}

/* ---- a block's lanes -------------------------------------------------------------------------- */

static bool
tree_sum(const struct fr_inst *in)
{
    return in->op == FR_OP_sum && fr_dtype_kind(in->dtype) != 'i' && fr_dtype_kind(in->dtype) != 'u';
}

static enum how
reduce_how(const struct emit *e, const struct fr_inst *in)
{
    fr_dtype from = inst(e, in->a[0])->dtype;
    bool     real_number = from >= FR_F16;

    switch (in->op) {
    case FR_OP_sum: return tree_sum(in) ? HOW_TREE : HOW_LANES;
    case FR_OP_prod: return real_number ? HOW_SEQ : HOW_LANES;
    case FR_OP_max:
    case FR_OP_min: return real_number ? HOW_PICK : HOW_LANES;
    case FR_OP_argmax:
    case FR_OP_argmin: return HOW_PICK;
    default: return HOW_LANES;
    }
}

/* Bytes of the smallest number that the stage handles in vectors; bools inside are masks. */
static int
smallest_number(const struct emit *e)
{
    int least = 8;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);
        fr_dtype              d = in->dtype;
        bool                  in_memory = in->kind == FR_INST_LOAD || writes(in);

        if (in->level != FR_LEVEL_FULL || !e->runs[i] || (d == FR_BOOL && !in_memory))
            continue;
        d = fr_dtype_info[d].component;
        if (fr_dtype_size(d) < least)
            least = fr_dtype_size(d);
    }
    return least;
}

static bool
stage_has(const struct emit *e, enum how how)
{
    for (int k = 0; k < e->n_sinks; k++)
        if (e->sinks[k].how == how)
            return true;
    return false;
}

static gj_type *
vector_of(struct emit *e, gj_type *type, int lanes)
{
    return lanes == 1 ? type : e->c.g->type_get_vector(type, (size_t)lanes);
}

/* Lanes [lane, lane + n) of a local array, or of memory, as one vector that need not be aligned. */
static gj_lvalue *
vector_at(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *first)
{
    struct fr_gcc *c = &e->c;
    gj_type       *loose = c->g->type_get_aligned(vector, (size_t)elem_bytes);

    return c->g->rvalue_dereference(
        fr_gcc_cast(c, c->g->lvalue_get_address(first, NULL), c->g->type_get_pointer(loose)), NULL);
}

static gj_lvalue *
array_vector(struct emit *e, gj_type *vector, int elem_bytes, gj_lvalue *array, int64_t lane)
{
    return vector_at(e, vector, elem_bytes, fr_gcc_elem(&e->c, array, fr_gcc_i64(&e->c, lane)));
}

static gj_rvalue *
splat(struct emit *e, gj_type *vector, int lanes, gj_rvalue *v)
{
    gj_rvalue *all[MAX_BLOCK];

    if (lanes == 1)
        return v;
    for (int k = 0; k < lanes; k++)
        all[k] = v;
    return e->c.g->context_new_rvalue_from_vector(e->c.ctxt, NULL, vector, (size_t)lanes, all);
}

static int
least(int a, int b)
{
    return a < b ? a : b;
}

/* ---- accumulators ------------------------------------------------------------------------------ */

/* Bits of the neutral element of a lane-wise reduction of `d` elements. */
static uint64_t
identity_bits(fr_op op, fr_dtype d)
{
    bool     low = op == FR_OP_max || op == FR_OP_argmax;
    int      bits = 8 * fr_dtype_size(fr_dtype_info[d].component);
    uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;

    switch (op) {
    case FR_OP_sum:
    case FR_OP_any: return 0;
    case FR_OP_prod:
    case FR_OP_all: return 1;
    default: break;
    }
    switch (fr_dtype_info[d].component) {
    case FR_BOOL: return !low;
    case FR_F16: return low ? 0xfc00 : 0x7c00;
    case FR_F32: return low ? 0xff800000u : 0x7f800000u;
    case FR_F64: return low ? 0xfffull << 52 : 0x7ffull << 52;
    default: break;
    }
    if (fr_dtype_kind(d) == 'u')
        return low ? 0 : all;
    return low ? 1ull << (bits - 1) : all >> 1;
}

static gj_rvalue *
identity(struct emit *e, const struct sink *k)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       m = fr_gcc_machine(k->dtype);

    if (k->how == HOW_TREE)
        return fr_gcc_bits(c, m, m == FR_F32 ? 0x80000000u : 1ull << 63);
    if (k->how == HOW_SEQ)
        return fr_gcc_bits(c, m, m == FR_F32 ? 0x3f800000u : 0x3ffull << 52);
    if (k->dtype == FR_BOOL)
        return fr_gcc_int(c, k->lane, (int64_t)identity_bits(k->op, FR_BOOL));
    return fr_gcc_bits(c, m, identity_bits(k->op, k->dtype));
}

/* A tree of complex numbers has both parts side by side in one set of registers. */
static int
register_sets(const struct sink *k)
{
    return k->how == HOW_TREE ? 1 : k->parts;
}

static void
reset_accumulator(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    if (k->how == HOW_STORE)
        return;
    if (k->how == HOW_SEQ) {
        fr_gcc_set(c, k->acc[0][0], identity(e, k));
        if (k->parts == 2)
            fr_gcc_set(c, k->acc[1][0], fr_gcc_bits(c, fr_gcc_machine(k->dtype), 0));
        return;
    }
    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_set(c, k->acc[p][r], splat(e, k->chunk, k->chunk_lanes, identity(e, k)));
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_set(c, k->place[r],
                   splat(e, k->place_chunk, k->place_lanes, fr_gcc_int(c, k->place_type, 0)));
}

static void
declare_registers(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    int            lanes = k->how == HOW_TREE ? 8 : e->block;

    k->chunk_lanes = least(lanes, e->vector_bytes / k->lane_bytes);
    k->n_chunks = lanes / k->chunk_lanes;
    k->chunk = vector_of(e, k->lane, k->chunk_lanes);
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

    /* With a tree in the same loop blocks begin anywhere: a place is then an element, not a block. */
    k->place_bytes = stage_has(e, HOW_TREE) ? 8 : k->lane_bytes < 4 ? 4 : k->lane_bytes;
    k->place_type = fr_gcc_int_type(c, k->place_bytes);
    k->place_lanes = least(e->block, e->vector_bytes / k->place_bytes);
    k->n_place_chunks = e->block / k->place_lanes;
    k->place_chunk = vector_of(e, k->place_type, k->place_lanes);
    for (int r = 0; r < k->n_place_chunks; r++)
        k->place[r] = fr_gcc_var(c, k->place_chunk);
    k->places = fr_gcc_array(c, k->place_type, e->block);
}

static void
declare_t(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    k->t = k->part[0] = fr_gcc_array(c, c->memory[k->dtype], e->block * k->parts);
    for (int p = 0; p < k->parts && k->parts == 2; p++)
        k->part[p] = fr_gcc_array(c, c->memory[k->dtype], e->block);
}

static void
declare_reduction(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    k->lane_bytes = k->dtype == FR_BOOL ? smallest_number(e)
                                        : fr_dtype_size(fr_dtype_info[k->dtype].component);
    k->lane = k->dtype == FR_BOOL ? fr_gcc_int_type(c, k->lane_bytes) : c->memory[k->dtype];
    if (k->how == HOW_SEQ || k->how == HOW_TREE)
        declare_t(e, k);
    if (k->how == HOW_SEQ) {
        for (int p = 0; p < k->parts; p++)
            k->acc[p][0] = fr_gcc_var(c, k->lane);
        return;
    }
    declare_registers(e, k);
    if (k->how == HOW_PICK)
        declare_places(e, k);
    for (int p = 0; p < k->parts && k->how == HOW_TREE; p++) {
        k->left[p] = fr_gcc_array(c, k->lane, TREE_DEPTH);
        k->sum[p] = fr_gcc_var(c, k->lane);
    }
}

/* What lanes hold as a value, and back. */
static struct fr_gval
from_lane(struct emit *e, const struct sink *k, gj_rvalue *const *part)
{
    struct fr_gcc *c = &e->c;

    if (k->dtype != FR_BOOL)
        return (struct fr_gval){part[0], part[1]};
    return (struct fr_gval){
        fr_gcc_keep(c, c->t_bool, fr_gcc_cmp(c, GJ_NE, part[0], fr_gcc_int(c, k->lane, 0))), NULL};
}

static gj_rvalue *
to_lane(struct emit *e, const struct sink *k, gj_rvalue *v)
{
    return k->dtype == FR_BOOL ? fr_gcc_cast(&e->c, v, k->lane) : v;
}

/* The lanes' arrays get what the registers hold, and the other way round. After GCC has vectorised the
 * loop in between, both copies vanish. */
static void
spill_lanes(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_set(c, array_vector(e, k->chunk, k->lane_bytes, k->lanes[p], r * k->chunk_lanes),
                       fr_gcc_get(c, k->acc[p][r]));
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_set(c, array_vector(e, k->place_chunk, k->place_bytes, k->places, r * k->place_lanes),
                   fr_gcc_get(c, k->place[r]));
}

static void
fill_lanes(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int p = 0; p < register_sets(k); p++)
        for (int r = 0; r < k->n_chunks; r++)
            fr_gcc_set(c, k->acc[p][r],
                       fr_gcc_get(c, array_vector(e, k->chunk, k->lane_bytes, k->lanes[p],
                                                  r * k->chunk_lanes)));
    for (int r = 0; r < k->n_place_chunks; r++)
        fr_gcc_set(c, k->place[r],
                   fr_gcc_get(c, array_vector(e, k->place_chunk, k->place_bytes, k->places,
                                              r * k->place_lanes)));
}

/* ---- the order of extremes ---------------------------------------------------------------------
 * max is the left fold of `maximum`: the first NaN; among equal numbers (zeros of both signs) the last for F32 and
 * F64, the first otherwise. argmax is the first in any case. */

static gj_rvalue *
is_nan(struct emit *e, fr_dtype d, struct fr_gval v)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r;

    if (d < FR_F32)
        return fr_gcc_bits(c, FR_BOOL, 0);
    r = fr_gcc_cmp(c, GJ_NE, v.re, v.re);
    return fr_gcc_keep(c, c->t_bool,
                       fr_dtype_is_complex(d) ? fr_gcc_or(c, r, fr_gcc_cmp(c, GJ_NE, v.im, v.im))
                                              : r);
}

static gj_rvalue *
is_beyond(struct emit *e, fr_op op, fr_dtype d, struct fr_gval v, struct fr_gval than)
{
    struct fr_gcc *c = &e->c;
    int            cmp = op == FR_OP_max || op == FR_OP_argmax ? GJ_GT : GJ_LT;
    gj_rvalue     *r;

    if (d == FR_BOOL)
        return fr_gcc_keep(c, c->t_bool,
                           cmp == GJ_GT ? fr_gcc_and(c, v.re, fr_gcc_not(c, than.re))
                                        : fr_gcc_and(c, than.re, fr_gcc_not(c, v.re)));
    r = fr_gcc_keep(c, c->t_bool, fr_gcc_cmp(c, cmp, v.re, than.re));
    if (!fr_dtype_is_complex(d))
        return r;
    return fr_gcc_keep(
        c, c->t_bool,
        fr_gcc_or(c, r, fr_gcc_and(c, fr_gcc_cmp(c, GJ_EQ, v.re, than.re),
                                   fr_gcc_cmp(c, cmp, v.im, than.im))));
}

static gj_rvalue *
is_equal(struct emit *e, fr_dtype d, struct fr_gval a, struct fr_gval b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r;

    if (d == FR_BOOL)
        return fr_gcc_keep(c, c->t_bool, fr_gcc_not(c, fr_gcc_bin(c, GJ_XOR, c->t_bool, a.re, b.re)));
    r = fr_gcc_keep(c, c->t_bool, fr_gcc_cmp(c, GJ_EQ, a.re, b.re));
    if (!fr_dtype_is_complex(d))
        return r;
    return fr_gcc_keep(c, c->t_bool, fr_gcc_and(c, r, fr_gcc_cmp(c, GJ_EQ, a.im, b.im)));
}

static bool
last_wins(const struct sink *k)
{
    return (k->dtype == FR_F32 || k->dtype == FR_F64) && (k->op == FR_OP_max || k->op == FR_OP_min);
}

/* Whether `v` replaces `best`; `later` tells whether v comes after it. */
static gj_rvalue *
replaces(struct emit *e, const struct sink *k, struct fr_gval v, struct fr_gval best,
         gj_rvalue *later)
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
    beyond = fr_gcc_or(c, is_beyond(e, k->op, d, v, best),
                       fr_gcc_and(c, is_equal(e, d, v, best), tie));
    beyond = fr_gcc_keep(c, c->t_bool, beyond);
    if (d < FR_F32)
        return beyond;
    nan = is_nan(e, d, v);
    best_nan = is_nan(e, d, best);
    /* Of two NaNs the earlier one. */
    nan = fr_gcc_and(c, nan, fr_gcc_not(c, fr_gcc_and(c, best_nan, later)));
    beyond = fr_gcc_and(c, beyond, fr_gcc_not(c, best_nan));
    return fr_gcc_keep(c, c->t_bool, fr_gcc_or(c, nan, beyond));
}

/* ---- the body: one block ----------------------------------------------------------------------- */

/* a % n of a number that is not negative; n is a power of two. */
static gj_rvalue *
rest_of(struct emit *e, gj_rvalue *a, int64_t n)
{
    return fr_gcc_bin(&e->c, GJ_AND, e->c.t_i64, a, fr_gcc_i64(&e->c, n - 1));
}

static gj_rvalue *
plus(struct emit *e, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(&e->c, GJ_PLUS, e->c.t_i64, a, b);
}

static gj_rvalue *
minus(struct emit *e, gj_rvalue *a, gj_rvalue *b)
{
    return fr_gcc_bin(&e->c, GJ_SUB, e->c.t_i64, a, b);
}

static gj_rvalue *
times(struct emit *e, gj_rvalue *a, int64_t b)
{
    return b == 1 ? a : fr_gcc_bin(&e->c, GJ_MULT, e->c.t_i64, a, fr_gcc_i64(&e->c, b));
}

static int
n_parts(fr_dtype d)
{
    return fr_dtype_is_complex(d) ? 2 : 1;
}

/* Element `j` of memory that begins at `from` and has `step` bytes between elements (NULL: no gaps). */
static struct fr_gval
load_element(struct emit *e, fr_dtype d, gj_rvalue *from, gj_rvalue *step, gj_rvalue *j)
{
    struct fr_gcc *c = &e->c;

    if (!step)
        return fr_gcc_load(c, d, from, times(e, j, n_parts(d)));
    return fr_gcc_load(c, d, fr_gcc_offset(c, from, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, step)),
                       fr_gcc_i64(c, 0));
}

static void
store_element(struct emit *e, fr_dtype d, gj_rvalue *to, gj_rvalue *step, gj_rvalue *j,
              struct fr_gval v)
{
    struct fr_gcc *c = &e->c;

    if (!step)
        fr_gcc_store(c, d, to, times(e, j, n_parts(d)), v);
    else
        fr_gcc_store(c, d, fr_gcc_offset(c, to, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, step)),
                     fr_gcc_i64(c, 0), v);
}

static gj_rvalue *
maybe(struct emit *e, gj_lvalue *v)
{
    return v ? fr_gcc_get(&e->c, v) : NULL;
}

static struct fr_gval
load_operand(struct emit *e, int operand, fr_dtype d, gj_rvalue *j)
{
    const struct source *s = &e->sources[e->source_of[operand]];

    return load_element(e, d, fr_gcc_get(&e->c, s->from), maybe(e, s->step), j);
}

static struct fr_gval
emit_iota(struct emit *e, const struct fr_inst *in, gj_rvalue *j)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *start = e->iota_start[in->operand], *v = start;

    if (j)
        v = plus(e, start, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, e->iota_step[in->operand]));
    return (struct fr_gval){fr_gcc_keep(c, c->t_i64, v), NULL};
}

/* The arguments of `in` that an earlier stage left in row buffers. */
static void
load_crossing(struct emit *e, const struct fr_inst *in, gj_rvalue *j)
{
    struct fr_gcc *c = &e->c;

    for (int k = 0; k < n_args(in); k++) {
        const struct fr_inst *arg = inst(e, in->a[k]);
        gj_rvalue            *from;

        if (arg->level != FR_LEVEL_FULL || e->runs[in->a[k]] || e->val[in->a[k]].re)
            continue;
        from = fr_gcc_offset(c, e->scratch,
                             fr_gcc_i64(c, (int64_t)fr_nest_rowbuf(e->nest, in->a[k])));
        e->val[in->a[k]] = load_element(e, arg->dtype, from, NULL, j);
    }
}

static gj_rvalue *
is_live(struct emit *e, gj_rvalue *b, int n_bytes)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = fr_gcc_int_type(c, n_bytes);

    return fr_gcc_keep(c, c->t_bool,
                       fr_gcc_cmp(c, GJ_LT, fr_gcc_cast(c, b, type), e->live_as[n_bytes]));
}

/* Takes value `v` of lane `b` into the accumulators of that lane, unless it is past the end. */
static void
combine_lane(struct emit *e, struct sink *k, struct fr_gval v, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *live = is_live(e, b, k->lane_bytes), *part[2] = {NULL, NULL}, *take, *place;
    gj_lvalue     *lane[2] = {NULL, NULL};
    fr_dtype       m = fr_gcc_machine(k->dtype);
    struct fr_gval best;

    for (int p = 0; p < k->parts; p++) {
        lane[p] = fr_gcc_elem(c, k->lanes[p], b);
        part[p] = fr_gcc_keep(c, k->lane, fr_gcc_get(c, lane[p]));
    }
    best = from_lane(e, k, part);
    if (k->how == HOW_LANES) {
        struct fr_gval none = {fr_gcc_bits(c, m, identity_bits(k->op, k->dtype)), NULL};

        v.re = fr_gcc_keep(c, k->dtype == FR_BOOL ? c->t_bool : k->lane,
                           fr_gcc_select(c, m, live, v.re, none.re));
        v = combine(e, k->op, k->dtype, best, v);
        fr_gcc_set(c, lane[0], to_lane(e, k, v.re));
        return;
    }
    take = fr_gcc_and(c, live, replaces(e, k, v, best, fr_gcc_bits(c, FR_BOOL, 1)));
    take = fr_gcc_keep(c, c->t_bool, take);
    fr_gcc_set(c, lane[0], to_lane(e, k, fr_gcc_select(c, m, take, v.re, best.re)));
    if (k->parts == 2)
        fr_gcc_set(c, lane[1], fr_gcc_select(c, m, take, v.im, best.im));
    place = fr_gcc_get(c, fr_gcc_elem(c, k->places, b));
    place = fr_gcc_keep(c, k->place_type, place);
    m = k->place_bytes == 4 ? FR_I32 : FR_I64;
    fr_gcc_set(c, fr_gcc_elem(c, k->places, b),
               fr_gcc_select(c, m, take, e->place_as[k->place_bytes], place));
}

static struct fr_gval
sink_value(struct emit *e, const struct sink *k)
{
    const struct fr_inst *in = inst(e, k->inst);
    struct fr_gval        v = e->val[k->inst];

    if (in->kind == FR_INST_STORE)
        v = e->val[in->a[0]];
    if (in->kind == FR_INST_REDUCE) {
        v = e->val[in->a[0]];
        /* any and all take anything; f16 is summed in f32. */
        v = fr_gcc_convert(&e->c, inst(e, in->a[0])->dtype, k->dtype, v);
    }
    return v;
}

/* Everything that the stage computes for element j + b of a block. */
static void
emit_element(struct emit *e, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *j = fr_gcc_keep(c, c->t_i64, plus(e, fr_gcc_get(c, e->j), b));

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);
        struct fr_gval        old;

        if (!e->runs[i])
            continue;
        load_crossing(e, in, j);
        switch (in->kind) {
        case FR_INST_LOAD: e->val[i] = load_operand(e, in->operand, in->dtype, j); break;
        case FR_INST_IOTA: e->val[i] = emit_iota(e, in, j); break;
        case FR_INST_OP: e->val[i] = emit_op(e, in); break;
        case FR_INST_ACCUM:
            old = load_operand(e, in->operand, in->dtype, j);
            e->val[i] = combine(e, in->op, in->dtype, old, e->val[in->a[0]]);
            break;
        default: break;
        }
    }
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink   *k = &e->sinks[s];
        struct fr_gval v = sink_value(e, k);

        if (!k->t) {
            combine_lane(e, k, v, b);
            continue;
        }
        fr_gcc_set(c, fr_gcc_elem(c, k->part[0], b),
                   k->dtype == FR_BOOL ? fr_gcc_cast(c, v.re, c->memory[FR_BOOL]) : v.re);
        if (k->parts == 2)
            fr_gcc_set(c, fr_gcc_elem(c, k->part[1], b), v.im);
    }
}

/* Complex numbers get their parts side by side only now.  Computed side by side, GCC 12 would turn a multiplication
 * followed by - in one part and + in the other into vfmsubadd, which rounds once, in spite of -ffp-contract=off. */
static void
interleave(struct emit *e, struct sink *k)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    gj_rvalue         *b = fr_gcc_get(c, l.i), *at = times(e, b, 2);

    fr_gcc_set(c, fr_gcc_elem(c, k->t, at), fr_gcc_get(c, fr_gcc_elem(c, k->part[0], b)));
    fr_gcc_set(c, fr_gcc_elem(c, k->t, plus(e, at, fr_gcc_i64(c, 1))),
               fr_gcc_get(c, fr_gcc_elem(c, k->part[1], b)));
    fr_gcc_end_for(c, l);
}

/* Whole blocks of t to memory: as vectors where elements lie side by side. */
static void
store_block(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *j = fr_gcc_get(c, e->j), *to = fr_gcc_get(c, k->to);
    gj_type       *type = c->memory[k->dtype], *vector;
    int            n = e->block * k->parts, size = fr_dtype_size(fr_dtype_info[k->dtype].component);
    int            lanes = least(n, e->vector_bytes / size);

    if (k->step) {
        struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), true);
        gj_rvalue         *b = fr_gcc_get(c, l.i);
        struct fr_gval     v;

        v = fr_gcc_load(c, k->dtype, fr_gcc_address(c, fr_gcc_elem(c, k->t, fr_gcc_i64(c, 0))),
                        times(e, b, k->parts));
        store_element(e, k->dtype, to, fr_gcc_get(c, k->step), plus(e, j, b), v);
        fr_gcc_end_for(c, l);
        return;
    }
    vector = vector_of(e, type, lanes);
    j = times(e, j, k->parts);
    for (int lane = 0; lane < n; lane += lanes)
        fr_gcc_set(c, vector_at(e, vector, size, fr_gcc_at(c, type, to, plus(e, j, fr_gcc_i64(c, lane)))),
                   fr_gcc_get(c, array_vector(e, vector, size, k->t, lane)));
}

/* Adds 8 numbers of t, from number `first` on, to registers `to`. */
static void
add_group(struct emit *e, struct sink *k, gj_lvalue **to, gj_rvalue *first)
{
    struct fr_gcc *c = &e->c;

    for (int r = 0; r < k->n_chunks; r++) {
        gj_lvalue *at = fr_gcc_elem(c, k->t, plus(e, first, fr_gcc_i64(c, r * k->chunk_lanes)));

        fr_gcc_set(c, to[r], fr_gcc_bin(c, GJ_PLUS, k->chunk, fr_gcc_get(c, to[r]),
                                        fr_gcc_get(c, vector_at(e, k->chunk, k->lane_bytes, at))));
    }
}

/* Element i of t. */
static struct fr_gval
from_t(struct emit *e, const struct sink *k, gj_rvalue *i)
{
    struct fr_gcc *c = &e->c;

    return fr_gcc_load(c, k->dtype, fr_gcc_address(c, fr_gcc_elem(c, k->t, fr_gcc_i64(c, 0))),
                       times(e, i, k->parts));
}

/* a * b as NumPy multiplies along a row: complex numbers without the fma that the operation has. */
static struct fr_gval
row_product(struct emit *e, struct sink *k, struct fr_gval a, struct fr_gval b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *p[4];

    if (k->parts == 1)
        return combine(e, k->op, k->dtype, a, b);
    p[0] = fr_gcc_bin(c, GJ_MULT, k->lane, a.re, b.re);
    p[1] = fr_gcc_bin(c, GJ_MULT, k->lane, a.im, b.im);
    p[2] = fr_gcc_bin(c, GJ_MULT, k->lane, a.re, b.im);
    p[3] = fr_gcc_bin(c, GJ_MULT, k->lane, a.im, b.re);
    return (struct fr_gval){
        fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_SUB, k->lane, p[0], p[1])),
        fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_PLUS, k->lane, p[2], p[3])),
    };
}

/* Products of floats, element after element. */
static void
multiply_block(struct emit *e, struct sink *k)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_get(c, e->live), true);
    struct fr_gval     v = {fr_gcc_get(c, k->acc[0][0]), maybe(e, k->acc[1][0])};

    v = row_product(e, k, v, from_t(e, k, fr_gcc_get(c, l.i)));
    fr_gcc_set(c, k->acc[0][0], v.re);
    if (k->parts == 2)
        fr_gcc_set(c, k->acc[1][0], v.im);
    fr_gcc_end_for(c, l);
}

/* Narrow copies of `live` and of the place of this block, for comparing lane by lane. */
static void
narrow_counters(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    bool           tree = stage_has(e, HOW_TREE);

    memset(e->live_as, 0, sizeof e->live_as);
    memset(e->place_as, 0, sizeof e->place_as);
    for (int s = 0; s < e->n_sinks; s++) {
        const struct sink *k = &e->sinks[s];
        gj_rvalue         *place = tree ? minus(e, fr_gcc_get(c, e->j), e->j0)
                                        : fr_gcc_get(c, e->n_blocks);
        int                n = k->lane_bytes, m = k->place_bytes;

        if (k->how != HOW_LANES && k->how != HOW_PICK)
            continue;
        if (!e->live_as[n])
            e->live_as[n] = fr_gcc_keep(c, fr_gcc_int_type(c, n),
                                        fr_gcc_cast(c, fr_gcc_get(c, e->live),
                                                    fr_gcc_int_type(c, n)));
        if (k->how == HOW_PICK && !e->place_as[m])
            e->place_as[m] = fr_gcc_keep(c, k->place_type, fr_gcc_cast(c, place, k->place_type));
    }
}

static void
emit_block(struct emit *e)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l;

    narrow_counters(e);
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_LANES || e->sinks[s].how == HOW_PICK)
            spill_lanes(e, &e->sinks[s]);
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    emit_element(e, fr_gcc_get(c, l.i));
    fr_gcc_end_for(c, l);
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (k->t && k->parts == 2)
            interleave(e, k);
        switch ((enum how)k->how) {
        case HOW_STORE: store_block(e, k); break;
        case HOW_SEQ: multiply_block(e, k); break;
        case HOW_TREE:
            for (int first = 0; first < e->block * k->parts; first += 8)
                add_group(e, k, k->acc[0], fr_gcc_i64(c, first));
            break;
        default: fill_lanes(e, k); break;
        }
    }
    fr_gcc_set(c, e->j, plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, e->block)));
    fr_gcc_set(c, e->n_blocks, plus(e, fr_gcc_get(c, e->n_blocks), fr_gcc_i64(c, 1)));
}

/* ---- what is left over after whole blocks ------------------------------------------------------- */

/* The address at which element 0 would be if element j were at the beginning of `pad`. */
static gj_rvalue *
pad_origin(struct emit *e, gj_lvalue *pad, fr_dtype d)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *back = fr_gcc_bin(c, GJ_MULT, c->t_i64, fr_gcc_get(c, e->j),
                                     fr_gcc_i64(c, -fr_dtype_size(d)));

    return fr_gcc_offset(c, fr_gcc_address(c, fr_gcc_elem(c, pad, fr_gcc_i64(c, 0))), back);
}

static fr_dtype
operand_dtype(const struct emit *e, int operand)
{
    return e->nest->operands[operand].dtype;
}

/* Copies what is left of every operand to its pad, and reads from there. The rest of a pad is zero: what lies
 * on the stack could be subnormal, and slow. */
static void
gather(struct emit *e, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l;

    for (int s = 0; s < e->n_sources; s++) {
        struct source *k = &e->sources[s];
        fr_dtype       d = operand_dtype(e, k->operand);
        gj_type       *type = c->memory[d];
        int            size = fr_dtype_size(fr_dtype_info[d].component);
        int            n = e->block * n_parts(d), lanes = least(n, e->vector_bytes / size);
        gj_rvalue     *zero = fr_gcc_bits(c, d == FR_BOOL ? FR_U8 : fr_gcc_machine(d), 0);
        gj_type       *vector = vector_of(e, type, lanes);

        for (int lane = 0; lane < n; lane += lanes)
            fr_gcc_set(c, array_vector(e, vector, size, k->pad, lane), splat(e, vector, lanes, zero));
    }
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_left, true);
    for (int s = 0; s < e->n_sources; s++) {
        struct source *k = &e->sources[s];
        fr_dtype       d = operand_dtype(e, k->operand);
        gj_rvalue     *i = fr_gcc_get(c, l.i), *j = plus(e, fr_gcc_get(c, e->j), i);
        struct fr_gval v = load_element(e, d, fr_gcc_get(c, k->from), maybe(e, k->step), j);

        fr_gcc_store(c, d, fr_gcc_address(c, fr_gcc_elem(c, k->pad, fr_gcc_i64(c, 0))),
                     times(e, i, n_parts(d)), v);
    }
    fr_gcc_end_for(c, l);
    for (int s = 0; s < e->n_sources; s++) {
        struct source *k = &e->sources[s];
        fr_dtype       d = operand_dtype(e, k->operand);

        fr_gcc_set(c, k->from, pad_origin(e, k->pad, d));
        if (k->step)
            fr_gcc_set(c, k->step, fr_gcc_i64(c, fr_dtype_size(d)));
    }
}

/* Whether a whole block from element j on cannot be read where it is: it may end in a page that does not exist.  Within a
 * page, what lies behind the last element is read and not used (as string functions of the C library
 * do). Strided operands are always copied. */
static gj_rvalue *
may_not_read(struct emit *e)
{
    enum { PAGE = 4096 };
    struct fr_gcc *c = &e->c;
    gj_rvalue     *any = fr_gcc_bits(c, FR_BOOL, 0);

    for (int s = 0; s < e->n_sources; s++) {
        const struct source *k = &e->sources[s];
        fr_dtype             d = operand_dtype(e, k->operand);
        gj_rvalue           *at;

        if (k->step)
            return fr_gcc_bits(c, FR_BOOL, 1);
        at = fr_gcc_offset(c, fr_gcc_get(c, k->from), times(e, fr_gcc_get(c, e->j), fr_dtype_size(d)));
        at = c->g->context_new_bitcast(c->ctxt, NULL, at, c->t_i64);
        at = fr_gcc_cmp(c, GJ_GT, rest_of(e, at, PAGE),
                        fr_gcc_i64(c, PAGE - e->block * fr_dtype_size(d)));
        any = fr_gcc_keep(c, c->t_bool, fr_gcc_or(c, any, at));
    }
    return any;
}

static void
stores_to_pads(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (!k->pad)
            continue;
        fr_gcc_set(c, k->to, pad_origin(e, k->pad, k->dtype));
        if (k->step)
            fr_gcc_set(c, k->step, fr_gcc_i64(c, fr_dtype_size(k->dtype)));
    }
}

static void
restore_operands(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sources; s++) {
        fr_gcc_set(c, e->sources[s].from, e->sources[s].from_start);
        if (e->sources[s].step)
            fr_gcc_set(c, e->sources[s].step, e->sources[s].step_start);
    }
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (!k->pad)
            continue;
        fr_gcc_set(c, k->to, k->to_start);
        if (k->step)
            fr_gcc_set(c, k->step, k->step_start);
    }
}

/* The first n_left elements of a pad to memory from element j on, in pieces of 1, 2, 4 .. elements. */
static void
scatter_unit(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = c->memory[k->dtype];
    int            size = fr_dtype_size(fr_dtype_info[k->dtype].component);

    for (int n = e->block / 2; n; n /= 2) {
        gj_block  *copy = fr_gcc_block(c), *next = fr_gcc_block(c);
        int        lanes = least(n * k->parts, e->vector_bytes / size);
        gj_type   *vector = vector_of(e, type, lanes);
        gj_rvalue *done = fr_gcc_bin(c, GJ_AND, c->t_i64, n_left, fr_gcc_i64(c, -2 * n)), *to;
        gj_rvalue *bit = fr_gcc_bin(c, GJ_AND, c->t_i64, n_left, fr_gcc_i64(c, n));

        fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, bit, fr_gcc_i64(c, 0)), copy, next);
        c->at = copy;
        done = fr_gcc_keep(c, c->t_i64, times(e, done, k->parts));
        to = fr_gcc_keep(c, c->t_i64, plus(e, times(e, fr_gcc_get(c, e->j), k->parts), done));
        for (int i = 0; i < n * k->parts; i += lanes) {
            gj_lvalue *from = fr_gcc_elem(c, k->pad, plus(e, done, fr_gcc_i64(c, i)));
            gj_lvalue *at = fr_gcc_at(c, type, fr_gcc_get(c, k->to), plus(e, to, fr_gcc_i64(c, i)));

            fr_gcc_set(c, vector_at(e, vector, size, at), fr_gcc_get(c, vector_at(e, vector, size, from)));
        }
        fr_gcc_jump(c, next);
    }
}

static void
scatter_strided(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_left, true);
    gj_rvalue         *i = fr_gcc_get(c, l.i);
    struct fr_gval     v;

    v = fr_gcc_load(c, k->dtype, fr_gcc_address(c, fr_gcc_elem(c, k->pad, fr_gcc_i64(c, 0))),
                    times(e, i, k->parts));
    store_element(e, k->dtype, fr_gcc_get(c, k->to), fr_gcc_get(c, k->step),
                  plus(e, fr_gcc_get(c, e->j), i), v);
    fr_gcc_end_for(c, l);
}

/* The valid part of the pads to memory; e->j is the first element left over. */
static void
scatter(struct emit *e, gj_rvalue *n_left)
{
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (k->pad && k->step)
            scatter_strided(e, k, n_left);
        else if (k->pad)
            scatter_unit(e, k, n_left);
    }
}

/* ---- sums --------------------------------------------------------------------------------------- */

/* The tail went through the block with everything else; its whole groups of 8 numbers are added again to the
 * registers as they were before. */
static void
add_left_over(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    int                group = 8 / k->parts;
    gj_rvalue         *n_groups = fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, n_left, fr_gcc_i64(c, group));
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_groups, true);

    add_group(e, k, k->saved, times(e, fr_gcc_get(c, l.i), 8));
    fr_gcc_end_for(c, l);
    for (int r = 0; r < k->n_chunks; r++)
        fr_gcc_set(c, k->acc[0][r], fr_gcc_get(c, k->saved[r]));
}

/* ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7)); for complex numbers r0, r2 .. are real parts. */
static void
join_registers(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *r[8];

    spill_lanes(e, k);
    for (int i = 0; i < 8; i++)
        r[i] = fr_gcc_get(c, fr_gcc_elem(c, k->lanes[0], fr_gcc_i64(c, i)));
    for (int n = 8; n > k->parts; n /= 2)
        for (int i = 0; i < n / 2; i++) {
            int a = k->parts == 1 ? 2 * i : 2 * i - (i & 1), b = a + k->parts;

            r[i] = fr_gcc_keep(c, k->lane, fr_gcc_bin(c, GJ_PLUS, k->lane, r[a], r[b]));
        }
    for (int p = 0; p < k->parts; p++)
        fr_gcc_set(c, k->sum[p], r[p]);
}

/* The sum of a leaf: registers joined, then the last numbers one by one. */
static void
finish_leaf(struct emit *e, struct sink *k, gj_rvalue *n_left)
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

/* ---- a stage ------------------------------------------------------------------------------------ */

static void
add_sink(struct emit *e, int i, enum how how)
{
    const struct fr_inst *in = inst(e, i);
    struct sink          *k = &e->sinks[e->n_sinks++];

    *k = (struct sink){.inst = (uint16_t)i, .how = how, .op = in->op, .dtype = in->dtype};
    if (in->kind == FR_INST_REDUCE) {
        k->dtype = inst(e, in->a[0])->dtype;
        if (in->op == FR_OP_any || in->op == FR_OP_all)
            k->dtype = FR_BOOL;
        else if (k->dtype == FR_F16 && (how == HOW_TREE || how == HOW_SEQ))
            k->dtype = FR_F32;
    }
    k->parts = n_parts(k->dtype);
}

static void
find_sinks(struct emit *e)
{
    e->n_sinks = 0;
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        if (in->kind == FR_INST_REDUCE)
            add_sink(e, i, reduce_how(e, in));
        else if (writes(in) || fr_nest_crosses(e->nest, i))
            add_sink(e, i, HOW_STORE);
    }
}

static gj_rvalue *
entry_bytes(struct emit *e, int operand)
{
    return table_entry(e, e->ptr, e->c.t_bytes, operand);
}

static gj_rvalue *
entry_step(struct emit *e, int operand)
{
    return table_entry(e, e->stride, e->c.t_i64, operand);
}

static bool
strided(const struct emit *e, int operand)
{
    return e->nest->operands[operand].access == FR_ACCESS_STRIDED;
}

static gj_lvalue *
copied(struct emit *e, gj_type *type, gj_rvalue *v)
{
    gj_lvalue *to = fr_gcc_var(&e->c, type);

    fr_gcc_set(&e->c, to, v);
    return to;
}

static void
declare_source(struct emit *e, int operand)
{
    struct fr_gcc *c = &e->c;
    struct source *s;
    fr_dtype       d = operand_dtype(e, operand);

    if (e->source_of[operand] >= 0)
        return;
    e->source_of[operand] = (int16_t)e->n_sources;
    s = &e->sources[e->n_sources++];
    *s = (struct source){.operand = (uint16_t)operand};
    s->from_start = entry_bytes(e, operand);
    s->from = copied(e, c->t_bytes, s->from_start);
    if (strided(e, operand)) {
        s->step_start = entry_step(e, operand);
        s->step = copied(e, c->t_i64, s->step_start);
    }
    s->pad = fr_gcc_array(c, c->memory[d], e->block * n_parts(d));
}

static void
declare_store(struct emit *e, struct sink *k)
{
    struct fr_gcc        *c = &e->c;
    const struct fr_inst *in = inst(e, k->inst);

    declare_t(e, k);
    if (!writes(in)) {
        gj_rvalue *at = fr_gcc_i64(c, (int64_t)fr_nest_rowbuf(e->nest, k->inst));

        k->to = copied(e, c->t_bytes, fr_gcc_offset(c, e->scratch, at));
        return;
    }
    k->to_start = entry_bytes(e, in->operand);
    k->to = copied(e, c->t_bytes, k->to_start);
    if (strided(e, in->operand)) {
        k->step_start = entry_step(e, in->operand);
        k->step = copied(e, c->t_i64, k->step_start);
    }
    k->pad = fr_gcc_array(c, c->memory[k->dtype], e->block * k->parts);
}

/* Where an iota starts travels as the operand's pointer. */
static void
declare_iota(struct emit *e, int operand)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *table = fr_gcc_cast(c, e->ptr, c->g->type_get_pointer(c->t_i64));

    e->iota_start[operand] = table_entry(e, table, c->t_i64, operand);
    e->iota_step[operand] = e->stride ? entry_step(e, operand) : NULL;
}

static void
declare_operands(struct emit *e)
{
    e->n_sources = 0;
    memset(e->source_of, -1, sizeof e->source_of);
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        if (in->kind == FR_INST_LOAD || in->kind == FR_INST_ACCUM)
            declare_source(e, in->operand);
        if (in->kind == FR_INST_IOTA)
            declare_iota(e, in->operand);
    }
}

/* The lower-level values that the stage's loop reads. */
static void
load_outer_values(struct emit *e)
{
    memset(e->wanted, 0, sizeof e->wanted);
    memset(e->val, 0, sizeof e->val);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        for (int k = 0; e->runs[i] && k < n_args(inst(e, i)); k++)
            if (inst(e, inst(e, i)->a[k])->level != FR_LEVEL_FULL)
                e->wanted[inst(e, i)->a[k]] = 1;
    close_wanted(e);
    emit_scalars(e);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->wanted[i] && inst(e, i)->level == FR_LEVEL_ROW)
            e->val[i] = load_slot(e, inst(e, i)->dtype, e->slots, (int64_t)sizeof(struct fr_slot) * i);
}

static int
choose_block(const struct emit *e)
{
    int n = e->vector_bytes / smallest_number(e);

    return stage_has(e, HOW_TREE) && n < 8 ? 8 : n;
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

/* An integer of the width of places that grows as a lane's value becomes a better one: NaN is the best, both zeros are
 * equal. */
static gj_rvalue *
rank_of(struct emit *e, const struct sink *k, gj_rvalue *v)
{
    struct fr_gcc *c = &e->c;
    bool           most = k->op == FR_OP_max || k->op == FR_OP_argmax;
    fr_dtype       m = fr_gcc_machine(k->dtype), w = k->place_bytes == 4 ? FR_I32 : FR_I64;
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
    is_nan = fr_gcc_cmp(c, GJ_GT, size,
                        fr_gcc_int(c, type, (int64_t)identity_bits(FR_OP_min, k->dtype)));
    sign = fr_gcc_bin(c, GJ_RSHIFT, type, v, fr_gcc_int(c, type, bits - 1));
    v = fr_gcc_bin(c, GJ_XOR, type, v, fr_gcc_bin(c, GJ_AND, type, sign, all));
    v = fr_gcc_select(c, w, fr_gcc_cmp(c, GJ_EQ, size, fr_gcc_int(c, type, 0)),
                      fr_gcc_int(c, type, 0), fr_gcc_keep(c, type, v));
    if (!most)
        v = c->g->context_new_unary_op(c->ctxt, NULL, GJ_BITWISE_NEGATE, type, v);
    return fr_gcc_select(c, w, is_nan, fr_gcc_int(c, type, k->place_bytes == 4 ? INT32_MAX : INT64_MAX),
                         fr_gcc_keep(c, type, v));
}

/* Which lane of `k`, and its place times the number of lanes plus the lane. Two short loops that GCC
 * vectorises: the best rank, and the first or the last place among those of that rank. */
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
    rank = rank_of(e, k, fr_gcc_get(c, fr_gcc_elem(c, k->lanes[0], fr_gcc_get(c, l.i))));
    rank = fr_gcc_keep(c, type, rank);
    fr_gcc_set(c, fr_gcc_elem(c, ranks, fr_gcc_get(c, l.i)), rank);
    raise_to(e, best, rank);
    fr_gcc_end_for(c, l);

    /* The last place is the largest, the first the largest of the negated ones. */
    turn = fr_gcc_i64(c, -1);
    if (last_wins(k))
        turn = fr_gcc_select(c, FR_I64, fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, best), nan), turn,
                             fr_gcc_i64(c, 1));
    turn = fr_gcc_keep(c, c->t_i64, turn);
    fr_gcc_set(c, found, fr_gcc_i64(c, INT64_MIN));
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    at = fr_gcc_cast(c, fr_gcc_get(c, fr_gcc_elem(c, k->places, fr_gcc_get(c, l.i))), c->t_i64);
    at = plus(e, times(e, at, e->block), fr_gcc_get(c, l.i));
    at = fr_gcc_keep(c, c->t_i64, fr_gcc_bin(c, GJ_MULT, c->t_i64, at, turn));
    hit = fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, fr_gcc_elem(c, ranks, fr_gcc_get(c, l.i))),
                     fr_gcc_get(c, best));
    raise_to(e, found,
             fr_gcc_keep(c, c->t_i64, fr_gcc_select(c, FR_I64, hit, at, fr_gcc_i64(c, INT64_MIN))));
    fr_gcc_end_for(c, l);
    return fr_gcc_keep(c, c->t_i64,
                       fr_gcc_bin(c, GJ_MULT, c->t_i64, fr_gcc_get(c, found), turn));
}

/* The element that a place from best_place stands for, counted from the first of the range. */
static gj_rvalue *
element_of(struct emit *e, gj_rvalue *place)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *first;

    if (!stage_has(e, HOW_TREE))
        return place;
    first = fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, place, fr_gcc_i64(c, e->block));
    return plus(e, first, rest_of(e, place, e->block));
}

/* The lanes of an extreme of complex numbers, one after the other. */
static void
join_complex(struct emit *e, struct sink *k, struct fr_gval *value, gj_rvalue **index)
{
    struct fr_gcc     *c = &e->c;
    fr_dtype           m = fr_gcc_machine(k->dtype);
    gj_lvalue         *best[2], *at = fr_gcc_var(c, c->t_i64);
    struct fr_gcc_loop l;
    struct fr_gval     v, old;
    gj_rvalue         *part[2], *place, *take;

    for (int p = 0; p < 2; p++)
        best[p] = copied(e, k->lane, fr_gcc_get(c, fr_gcc_elem(c, k->lanes[p], fr_gcc_i64(c, 0))));
    fr_gcc_set(c, at, fr_gcc_i64(c, INT64_MAX));
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), true);
    for (int p = 0; p < 2; p++)
        part[p] = fr_gcc_keep(c, k->lane, fr_gcc_get(c, fr_gcc_elem(c, k->lanes[p], fr_gcc_get(c, l.i))));
    v = (struct fr_gval){part[0], part[1]};
    old = (struct fr_gval){fr_gcc_get(c, best[0]), fr_gcc_get(c, best[1])};
    place = fr_gcc_cast(c, fr_gcc_get(c, fr_gcc_elem(c, k->places, fr_gcc_get(c, l.i))), c->t_i64);
    place = fr_gcc_keep(c, c->t_i64, plus(e, times(e, place, e->block), fr_gcc_get(c, l.i)));
    take = fr_gcc_keep(c, c->t_bool, fr_gcc_cmp(c, GJ_GT, place, fr_gcc_get(c, at)));
    take = replaces(e, k, v, old, take);
    fr_gcc_set(c, best[0], fr_gcc_select(c, m, take, v.re, old.re));
    fr_gcc_set(c, best[1], fr_gcc_select(c, m, take, v.im, old.im));
    fr_gcc_set(c, at, fr_gcc_select(c, FR_I64, take, place, fr_gcc_get(c, at)));
    fr_gcc_end_for(c, l);
    *value = (struct fr_gval){fr_gcc_get(c, best[0]), fr_gcc_get(c, best[1])};
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

    spill_lanes(e, k);
    if (k->how == HOW_PICK && k->parts == 2) {
        join_complex(e, k, value, index);
        return;
    }
    if (k->how == HOW_PICK) {
        place = best_place(e, k);
        part[0] = fr_gcc_get(c, fr_gcc_elem(c, k->lanes[0], rest_of(e, place, e->block)));
        part[0] = fr_gcc_keep(c, k->lane, part[0]);
        *value = from_lane(e, k, part);
        *index = element_of(e, place);
        return;
    }
    part[0] = fr_gcc_get(c, fr_gcc_elem(c, k->lanes[0], fr_gcc_i64(c, 0)));
    all = copied(e, k->dtype == FR_BOOL ? c->t_bool : k->lane, from_lane(e, k, part).re);
    l = fr_gcc_for(c, fr_gcc_i64(c, 1), fr_gcc_i64(c, e->block), true);
    part[0] = fr_gcc_get(c, fr_gcc_elem(c, k->lanes[0], fr_gcc_get(c, l.i)));
    part[0] = fr_gcc_keep(c, k->lane, part[0]);
    *value = combine(e, k->op, k->dtype, (struct fr_gval){fr_gcc_get(c, all), NULL},
                     from_lane(e, k, part));
    fr_gcc_set(c, all, value->re);
    fr_gcc_end_for(c, l);
    *value = (struct fr_gval){fr_gcc_get(c, all), NULL};
}

static void
write_partial_results(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink   *k = &e->sinks[s];
        struct fr_gval v = {NULL, NULL};
        gj_rvalue     *index = NULL, *slot;

        switch ((enum how)k->how) {
        case HOW_STORE: continue;
        case HOW_TREE: v = (struct fr_gval){fr_gcc_get(c, k->sum[0]), maybe(e, k->sum[1])}; break;
        case HOW_SEQ:
            v = (struct fr_gval){fr_gcc_get(c, k->acc[0][0]), maybe(e, k->acc[1][0])};
            break;
        default: join_lanes(e, k, &v, &index); break;
        }
        store_slot(e, k->dtype, e->slots_out, k->inst, v);
        if (k->op != FR_OP_argmax && k->op != FR_OP_argmin)
            continue;
        slot = fr_gcc_offset(c, e->slots_out,
                             fr_gcc_i64(c, (int64_t)(sizeof(struct fr_slot) * k->inst +
                                                     offsetof(struct fr_slot, index))));
        fr_gcc_set(c, fr_gcc_at(c, c->t_i64, slot, fr_gcc_i64(c, 0)), plus(e, e->j0, index));
    }
}

/* The loop over a range of the row. With sums it is walked leaf by leaf, left to right:
 *
 *     descend:  while m > leaf: push the right half, m = the left one
 *     leaf:     blocks, then what is left over
 *     climb:    while the top of the stack waits for this sum: add; then its right half is next */
struct walk {
    gj_block  *descend, *leaf, *head, *body, *after, *done, *climb, *finish;
    gj_lvalue *m, *leaf_end, *whole_end, *in_tail, *left_over;
    gj_lvalue *depth, *todo, *joined;
    gj_rvalue *end;
};

static gj_rvalue *
at_depth(struct emit *e, struct walk *w, gj_lvalue *stack)
{
    return fr_gcc_get(&e->c, fr_gcc_elem(&e->c, stack, fr_gcc_get(&e->c, w->depth)));
}

static void
set_at_depth(struct emit *e, struct walk *w, gj_lvalue *stack, gj_rvalue *v)
{
    fr_gcc_set(&e->c, fr_gcc_elem(&e->c, stack, fr_gcc_get(&e->c, w->depth)), v);
}

static void
add_to(struct emit *e, gj_lvalue *v, int64_t n)
{
    fr_gcc_set(&e->c, v, plus(e, fr_gcc_get(&e->c, v), fr_gcc_i64(&e->c, n)));
}

static void
emit_descend(struct emit *e, struct walk *w, int parts)
{
    struct fr_gcc *c = &e->c;
    gj_block      *push = fr_gcc_block(c);
    gj_rvalue     *m = fr_gcc_get(c, w->m), *half;

    c->at = w->descend;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_GT, m, fr_gcc_i64(c, LEAF / parts)), push, w->leaf);
    c->at = push;
    half = fr_gcc_bin(c, GJ_RSHIFT, c->t_i64, m, fr_gcc_i64(c, 1));
    half = fr_gcc_keep(c, c->t_i64, half);
    half = minus(e, half, rest_of(e, half, 8 / parts));
    half = fr_gcc_keep(c, c->t_i64, half);
    set_at_depth(e, w, w->todo, minus(e, m, half));
    set_at_depth(e, w, w->joined, fr_gcc_i64(c, 0));
    add_to(e, w->depth, 1);
    fr_gcc_set(c, w->m, half);
    c->g->block_end_with_jump(c->at, NULL, w->descend);
}

static void
emit_climb(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *up = fr_gcc_block(c), *join = fr_gcc_block(c), *right = fr_gcc_block(c);

    c->at = w->climb;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, w->depth), fr_gcc_i64(c, 0)), w->finish, up);
    c->at = up;
    add_to(e, w->depth, -1);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, at_depth(e, w, w->joined), fr_gcc_i64(c, 0)), join, right);
    c->at = join;
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        for (int p = 0; p < k->parts && k->how == HOW_TREE; p++)
            fr_gcc_set(c, k->sum[p], fr_gcc_bin(c, GJ_PLUS, k->lane, at_depth(e, w, k->left[p]),
                                                fr_gcc_get(c, k->sum[p])));
    }
    c->g->block_end_with_jump(c->at, NULL, w->climb);
    c->at = right;
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        for (int p = 0; p < k->parts && k->how == HOW_TREE; p++)
            set_at_depth(e, w, k->left[p], fr_gcc_get(c, k->sum[p]));
    }
    set_at_depth(e, w, w->joined, fr_gcc_i64(c, 1));
    fr_gcc_set(c, w->m, at_depth(e, w, w->todo));
    add_to(e, w->depth, 1);
    c->g->block_end_with_jump(c->at, NULL, w->descend);
}

static void
emit_leaf(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *whole;

    c->at = w->leaf;
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            reset_accumulator(e, &e->sinks[s]);
    fr_gcc_set(c, w->leaf_end, plus(e, fr_gcc_get(c, e->j), fr_gcc_get(c, w->m)));
    whole = rest_of(e, fr_gcc_get(c, w->m), e->block);
    fr_gcc_set(c, w->whole_end, minus(e, fr_gcc_get(c, w->leaf_end), whole));
    fr_gcc_set(c, w->in_tail, fr_gcc_i64(c, 0));
    fr_gcc_set(c, w->left_over, fr_gcc_i64(c, 0));
    fr_gcc_set(c, e->live, fr_gcc_i64(c, e->block));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), fr_gcc_get(c, w->whole_end)), w->head,
                  w->after);
    /* A tight loop around the block; the way back from the tail enters it from outside. */
    c->at = w->head;
    fr_gcc_jump(c, w->body);
    emit_block(e);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), fr_gcc_get(c, w->whole_end)), w->body,
                  w->after);
}

/* After whole blocks: the tail if there is one, and after the tail its clearing up. */
static void
emit_after(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *fix = fr_gcc_block(c), *check = fr_gcc_block(c), *tail = fr_gcc_block(c),
             *near_end = fr_gcc_block(c), *pads = fr_gcc_block(c);
    gj_rvalue *left = fr_gcc_get(c, w->left_over);

    c->at = w->after;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, fr_gcc_get(c, w->in_tail), fr_gcc_i64(c, 0)), fix, check);
    c->at = check;
    fr_gcc_set(c, w->left_over, minus(e, fr_gcc_get(c, w->leaf_end), fr_gcc_get(c, e->j)));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_EQ, left, fr_gcc_i64(c, 0)), w->done, tail);

    c->at = tail;
    for (int s = 0; s < e->n_sinks; s++)
        for (int r = 0; r < e->sinks[s].n_chunks && e->sinks[s].how == HOW_TREE; r++)
            fr_gcc_set(c, e->sinks[s].saved[r], fr_gcc_get(c, e->sinks[s].acc[0][r]));
    fr_gcc_set(c, w->in_tail, fr_gcc_i64(c, 1));
    fr_gcc_set(c, e->live, left);
    fr_gcc_set(c, w->whole_end, plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, e->block)));
    stores_to_pads(e);
    /* In the middle of a range the elements after the leaf are there to be read. */
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LE, fr_gcc_get(c, w->whole_end), w->end), w->head, near_end);
    c->at = near_end;
    fr_gcc_branch(c, may_not_read(e), pads, w->head);
    c->at = pads;
    gather(e, left);
    c->g->block_end_with_jump(c->at, NULL, w->head);

    c->at = fix;
    add_to(e, e->j, -e->block);
    restore_operands(e);
    scatter(e, left);
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            add_left_over(e, &e->sinks[s], left);
    fr_gcc_set(c, e->j, fr_gcc_get(c, w->leaf_end));
    c->g->block_end_with_jump(c->at, NULL, w->done);
}

static void
declare_walk(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block     **blocks[] = {&w->descend, &w->leaf, &w->head,  &w->body,
                               &w->after,   &w->done, &w->climb, &w->finish};
    gj_lvalue    **vars[] = {&e->j,          &e->live,    &e->n_blocks,  &w->m,    &w->leaf_end,
                             &w->whole_end, &w->in_tail, &w->left_over, &w->depth};

    for (size_t i = 0; i < FR_LEN(vars); i++)
        *vars[i] = fr_gcc_var(c, c->t_i64);
    for (size_t i = 0; i < FR_LEN(blocks); i++)
        *blocks[i] = fr_gcc_block(c);
    w->todo = fr_gcc_array(c, c->t_i64, TREE_DEPTH);
    w->joined = fr_gcc_array(c, c->t_i64, TREE_DEPTH);
    w->end = fr_gcc_keep(c, c->t_i64, plus(e, e->j0, e->n));
}

static void
emit_walk(struct emit *e, int tree_parts)
{
    struct fr_gcc *c = &e->c;
    struct walk    w;

    declare_walk(e, &w);
    for (int s = 0; s < e->n_sinks; s++)
        reset_accumulator(e, &e->sinks[s]);
    fr_gcc_set(c, e->j, e->j0);
    fr_gcc_set(c, e->n_blocks, fr_gcc_i64(c, 0));
    fr_gcc_set(c, w.m, e->n);
    fr_gcc_set(c, w.depth, fr_gcc_i64(c, 0));
    c->g->block_end_with_jump(c->at, NULL, w.descend);
    if (tree_parts) {
        emit_descend(e, &w, tree_parts);
    } else {
        c->at = w.descend;
        c->g->block_end_with_jump(c->at, NULL, w.leaf);
    }
    emit_leaf(e, &w);
    emit_after(e, &w);
    c->at = w.done;
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            finish_leaf(e, &e->sinks[s], fr_gcc_get(c, w.left_over));
    c->g->block_end_with_jump(c->at, NULL, w.climb);
    if (tree_parts) {
        emit_climb(e, &w);
    } else {
        c->at = w.climb;
        c->g->block_end_with_jump(c->at, NULL, w.finish);
    }
    c->at = w.finish;
}

/* ---- functions ---------------------------------------------------------------------------------- */

enum { MAX_PARAMS = 8 };

static gj_function *
new_function(struct emit *e, int kind, const char *name, int n, gj_type *const *types,
             gj_rvalue **const *params)
{
    struct fr_gcc *c = &e->c;
    gj_param      *p[MAX_PARAMS];

    for (int i = 0; i < n; i++)
        p[i] = c->g->context_new_param(c->ctxt, NULL, types[i], "p");
    c->fn = c->g->context_new_function(c->ctxt, NULL, kind, c->t_void, name, n, p, 0);
    c->at = fr_gcc_block(c);
    for (int i = 0; i < n; i++)
        *params[i] = c->g->param_as_rvalue(p[i]);
    return c->fn;
}

static gj_type *
pointer_to(struct emit *e, gj_type *type)
{
    return e->c.g->type_get_pointer(type);
}

/* Returns the fr_stage_fn of stage `s`. */
static gj_function *
emit_stage(struct emit *e, int s)
{
    struct fr_gcc *c = &e->c;
    gj_type       *bytes = c->t_bytes, *i64 = c->t_i64;
    gj_function   *fn;
    char           name[24];
    int            parts = 0;

    snprintf(name, sizeof name, "stage_%d", s);
    fn = new_function(e, GJ_FUNCTION_INTERNAL, name, 8,
                      (gj_type *[]){pointer_to(e, bytes), pointer_to(e, i64), i64, i64, bytes, bytes,
                                    bytes, bytes},
                      (gj_rvalue **[]){&e->ptr, &e->stride, &e->j0, &e->n, &e->scalars, &e->slots,
                                       &e->slots_out, &e->scratch});
    fr_nest_stage_runs(e->nest, s, true, e->runs);
    find_sinks(e);
    for (int k = 0; k < e->n_sinks; k++) {
        if (e->sinks[k].how != HOW_TREE)
            continue;
        /* Their leaves have different lengths. */
        if (parts && parts != e->sinks[k].parts) {
            c->st = FR_ENOTSUP;
            fr_fail(e->err, FR_ENOTSUP, "sums of real and of complex numbers in one stage");
        }
        parts = e->sinks[k].parts;
    }
    e->block = choose_block(e);
    load_outer_values(e);
    declare_operands(e);
    for (int k = 0; k < e->n_sinks; k++)
        if (e->sinks[k].how == HOW_STORE)
            declare_store(e, &e->sinks[k]);
        else
            declare_reduction(e, &e->sinks[k]);
    if (e->n_sinks) {
        emit_walk(e, parts);
        write_partial_results(e);
    }
    c->g->block_end_with_void_return(c->at, NULL);
    return fn;
}

/* Whether somebody outside of mid `s` reads ROW value `i`. */
static bool
read_elsewhere(const struct emit *e, int i, int s)
{
    for (int u = i + 1; u < (int)e->nest->n_insts; u++)
        for (int k = 0; k < n_args(inst(e, u)); k++)
            if (inst(e, u)->a[k] == i && (inst(e, u)->level == FR_LEVEL_FULL || inst(e, u)->stage != s))
                return true;
    return false;
}

static void
emit_row_inst(struct emit *e, int i, int s)
{
    struct fr_gcc        *c = &e->c;
    const struct fr_inst *in = inst(e, i);
    gj_rvalue            *zero = fr_gcc_i64(c, 0);

    for (int k = 0; k < n_args(in); k++)
        if (!e->val[in->a[k]].re)
            e->val[in->a[k]] = load_slot(e, inst(e, in->a[k])->dtype, e->slots,
                                         (int64_t)sizeof(struct fr_slot) * in->a[k]);
    switch (in->kind) {
    case FR_INST_LOAD:
        e->val[i] = fr_gcc_load(c, in->dtype, entry_bytes(e, in->operand), zero);
        break;
    case FR_INST_IOTA:
        declare_iota(e, in->operand);
        e->val[i] = emit_iota(e, in, NULL);
        break;
    case FR_INST_OP:
        e->val[i] = emit_op(e, in);
        break;
    case FR_INST_STORE:
        fr_gcc_store(c, in->dtype, entry_bytes(e, in->operand), zero, e->val[in->a[0]]);
        return;
    default:
        return;
    }
    if (read_elsewhere(e, i, s))
        store_slot(e, in->dtype, e->slots, i, e->val[i]);
}

/* Returns the fr_mid_fn before the loop of stage `s`. */
static gj_function *
emit_mid(struct emit *e, int s)
{
    struct fr_gcc *c = &e->c;
    gj_function   *fn;
    char           name[24];

    snprintf(name, sizeof name, "mid_%d", s);
    fn = new_function(e, GJ_FUNCTION_INTERNAL, name, 3,
                      (gj_type *[]){pointer_to(e, c->t_bytes), c->t_bytes, c->t_bytes},
                      (gj_rvalue **[]){&e->ptr, &e->scalars, &e->slots});
    e->stride = NULL;
    memset(e->val, 0, sizeof e->val);
    memset(e->wanted, 0, sizeof e->wanted);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        for (int k = 0; k < n_args(inst(e, i)); k++)
            if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s)
                e->wanted[inst(e, i)->a[k]] = 1;
    close_wanted(e);
    emit_scalars(e);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s &&
            inst(e, i)->kind != FR_INST_REDUCE)
            emit_row_inst(e, i, s);
    c->g->block_end_with_void_return(c->at, NULL);
    return fn;
}

static bool
mid_does_something(const struct emit *e, int s)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (inst(e, i)->level == FR_LEVEL_ROW && inst(e, i)->stage == s &&
            inst(e, i)->kind != FR_INST_REDUCE)
            return true;
    return false;
}

/* Partial results of a whole row become results, in place: what the launcher does for long rows. */
static void
finish_reductions(struct emit *e, int s, gj_rvalue *slots)
{
    struct fr_gcc *c = &e->c;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);
        bool                  half = in->dtype == FR_F16;
        fr_dtype              acc = half ? FR_F32 : in->dtype;
        enum how              how;
        int64_t               at = (int64_t)sizeof(struct fr_slot) * i;
        struct fr_gval        v;

        if (in->kind != FR_INST_REDUCE || in->stage != s + 1)
            continue;
        how = reduce_how(e, in);
        if (in->op == FR_OP_argmax || in->op == FR_OP_argmin) {
            v = load_slot(e, FR_I64, slots, at + (int64_t)offsetof(struct fr_slot, index));
        } else if (how == HOW_TREE) {
            fr_dtype   m = fr_gcc_machine(acc);
            gj_rvalue *zero = fr_gcc_bits(c, m, 0);

            v = load_slot(e, acc, slots, at);
            v.re = fr_gcc_keep(c, c->memory[m], fr_gcc_bin(c, GJ_PLUS, c->memory[m], zero, v.re));
            if (v.im)
                v.im = fr_gcc_keep(c, c->memory[m], fr_gcc_bin(c, GJ_PLUS, c->memory[m], zero, v.im));
        } else if (how == HOW_SEQ && half) {
            v = load_slot(e, acc, slots, at);
        } else {
            continue;
        }
        if (half && how != HOW_PICK)
            v = fr_gcc_convert(c, FR_F32, FR_F16, v);
        store_slot(e, in->dtype, slots, i, v);
    }
}

static void
call_function(struct emit *e, gj_function *fn, int n, gj_rvalue **args)
{
    struct fr_gcc *c = &e->c;

    c->g->block_add_eval(c->at, NULL, c->g->context_new_call(c->ctxt, NULL, fn, n, args));
}

static gj_rvalue *
first_elem(struct emit *e, gj_lvalue *array)
{
    return e->c.g->lvalue_get_address(fr_gcc_elem(&e->c, array, fr_gcc_i64(&e->c, 0)), NULL);
}

/* frit_rows: every row through all stages. */
static void
emit_rows(struct emit *e, gj_function *const *stage, gj_function *const *mid)
{
    struct fr_gcc     *c = &e->c;
    gj_type           *bytes = c->t_bytes, *i64 = c->t_i64;
    gj_rvalue         *ptr, *row_stride, *stride, *n_rows, *n, *scalars, *scratch, *slots, *row_ptr;
    int                n_operands = e->nest->n_operands ? e->nest->n_operands : 1;
    gj_lvalue         *row, *slot_array;
    gj_rvalue         *step[FR_MAX_OPERANDS];
    struct fr_gcc_loop l;

    new_function(e, GJ_FUNCTION_EXPORTED, "frit_rows", 7,
                 (gj_type *[]){pointer_to(e, bytes), pointer_to(e, i64), pointer_to(e, i64), i64, i64,
                               bytes, bytes},
                 (gj_rvalue **[]){&ptr, &row_stride, &stride, &n_rows, &n, &scalars, &scratch});
    row = fr_gcc_array(c, bytes, n_operands);
    slot_array = fr_gcc_array(c, i64, (int)(sizeof(struct fr_slot) / 8 * e->nest->n_insts));
    slots = fr_gcc_address(c, fr_gcc_elem(c, slot_array, fr_gcc_i64(c, 0)));
    row_ptr = first_elem(e, row);
    for (int k = 0; k < e->nest->n_operands; k++) {
        fr_gcc_set(c, fr_gcc_elem(c, row, fr_gcc_i64(c, k)), table_entry(e, ptr, bytes, k));
        step[k] = table_entry(e, row_stride, i64, k);
    }
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_rows, true);
    for (int s = 0; s <= e->nest->n_stages; s++) {
        if (mid[s])
            call_function(e, mid[s], 3, (gj_rvalue *[]){row_ptr, scalars, slots});
        if (s == e->nest->n_stages)
            break;
        call_function(e, stage[s], 8,
                      (gj_rvalue *[]){row_ptr, stride, fr_gcc_i64(c, 0), n, scalars, slots, slots, scratch});
        finish_reductions(e, s, slots);
    }
    for (int k = 0; k < e->nest->n_operands; k++) {
        gj_lvalue *at = fr_gcc_elem(c, row, fr_gcc_i64(c, k));

        fr_gcc_set(c, at, fr_gcc_offset(c, fr_gcc_get(c, at), step[k]));
    }
    fr_gcc_end_for(c, l);
    c->g->block_end_with_void_return(c->at, NULL);
}

/* frit_stages: the table of stage and mid functions. */
static void
emit_table(struct emit *e, gj_function *const *stage, gj_function *const *mid)
{
    struct fr_gcc *c = &e->c;
    gj_type       *pointer = c->g->context_get_type(c->ctxt, GJ_VOID_PTR), *type;
    gj_rvalue     *entry[2 * UINT8_MAX + 1];
    size_t         n = 0;

    for (int s = 0; s < e->nest->n_stages; s++)
        entry[n++] = fr_gcc_cast(c, c->g->function_get_address(stage[s], NULL), pointer);
    for (int s = 0; s <= e->nest->n_stages; s++)
        entry[n++] = fr_gcc_cast(c, c->g->function_get_address(mid[s], NULL), pointer);
    type = c->g->context_new_array_type(c->ctxt, NULL, pointer, (int)n);
    c->g->global_set_initializer_rvalue(
        c->g->context_new_global(c->ctxt, NULL, GJ_GLOBAL_EXPORTED, type, "frit_stages"),
        c->g->context_new_array_constructor(c->ctxt, NULL, type, n, entry));
}

static void
emit_nest(struct emit *e)
{
    const struct fr_nest *nest = e->nest;
    gj_function          *stage[UINT8_MAX], *mid[UINT8_MAX + 1];
    bool                  reduces = nest->flags & FR_NEST_REDUCES;
    /* Code for parts of rows would read no row buffers, so it would be all of the stages once more. A nest with row
     * buffers has short rows, which need not be cut. */
    bool                  table = reduces && !fr_nest_scratch(nest);

    for (int s = 0; s < nest->n_stages; s++)
        stage[s] = emit_stage(e, s);
    for (int s = 0; s <= nest->n_stages; s++)
        mid[s] = table || mid_does_something(e, s) ? emit_mid(e, s) : NULL;
    emit_rows(e, stage, mid);
    if (table)
        emit_table(e, stage, mid);
}

/* ---- the compiler ------------------------------------------------------------------------------- */

/* With vectorised loops -O1 makes as fast code as -O2 (the same loops, within 2 % for maps, dot products and softmax) in
 * two thirds of the time: 46 instead of 70 ms for a softmax, 23 instead of 30 for a * b + c. */
static const char *const options[] = {
    "-ftree-loop-vectorize", "-fno-tree-slp-vectorize", "-fvect-cost-model=dynamic", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fwrapv", "-fno-strict-aliasing", "-fno-tree-loop-distribute-patterns",
    "-fno-asynchronous-unwind-tables", "-fno-stack-protector", "-fcf-protection=none",
};
/* No libraries: what little a kernel may call (memcpy) is in every process, and the machine need not have the
 * files that linking against libc takes. */
static const char *const link_options[] = {
    "-nostartfiles", "-nodefaultlibs", "-Wl,--build-id=none", "-Wl,-z,noexecstack",
    "-Wl,-z,now", "-Wl,-z,noseparate-code", "-Wl,-s",
};
#if defined __x86_64__
enum { FMA_IS_AN_OPTION = 1 };
#else
enum { FMA_IS_AN_OPTION = 0 };
#endif

static void
set_options(struct emit *e, const char *const *features)
{
    struct fr_gcc *c = &e->c;

    e->vector_bytes = 16;
    c->has_fma = !FMA_IS_AN_OPTION;
    c->g->context_set_str_option(c->ctxt, GJ_STR_PROGNAME, "frit-cc");
    c->g->context_set_int_option(c->ctxt, GJ_INT_OPTIMIZATION_LEVEL, 1);
    if (c->g->context_set_bool_print_errors_to_stderr)
        c->g->context_set_bool_print_errors_to_stderr(c->ctxt, 0);
    for (size_t i = 0; i < FR_LEN(options); i++)
        c->g->context_add_command_line_option(c->ctxt, options[i]);
    for (size_t i = 0; i < FR_LEN(link_options); i++)
        c->g->context_add_driver_option(c->ctxt, link_options[i]);
    for (; *features; features++) {
        c->g->context_add_command_line_option(c->ctxt, *features);
        if (!strcmp(*features, "-mavx512f"))
            e->vector_bytes = 64;
        c->has_fma |= !strcmp(*features, "-mfma");
        if (!strcmp(*features, "-mavx2") && e->vector_bytes < 32)
            e->vector_bytes = 32;
    }
    if (e->vector_bytes == 64)
        c->g->context_add_command_line_option(c->ctxt, "-mprefer-vector-width=512");
}

fr_status
fr_emit_gcc(const struct fr_gccjit *g, const struct fr_nest *nest, const char *const *features,
            const char *path, struct fr_err *err)
{
    struct emit *e = fr_calloc(1, sizeof *e);
    gj_context  *ctxt = g->context_acquire();
    const char  *text;
    fr_status    st;

    if (!e || !ctxt) {
        st = fr_fail(err, FR_ENOMEM, "compiling a nest of %u instructions", nest->n_insts);
        goto out;
    }
    fr_gcc_init(&e->c, g, ctxt);
    e->nest = nest;
    e->err = err;
    set_options(e, features);
    emit_nest(e);
    if ((st = e->c.st) != FR_OK) {
        fr_fail(err, st, "nest of %u instructions: %s", nest->n_insts, fr_status_text(st));
        goto out;
    }
    if (e->c.needs_libm)
        g->context_add_driver_option(ctxt, "-l:libm.so.6");
    g->context_compile_to_file(ctxt, GJ_OUTPUT_DYNAMIC_LIBRARY, path);
    if ((text = g->context_get_first_error(ctxt)))
        st = fr_fail(err, FR_EOS, "libgccjit: %s", text);
out:
    if (e)
        fr_gcc_clear(&e->c);
    if (ctxt)
        g->context_release(ctxt);
    fr_free(e);
    return st;
}
