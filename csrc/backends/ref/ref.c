/* backends/ref/ref.c -- the contract of jit/loop.h to the letter, one element at a time.
 *
 *     fill the accumulators with identities
 *     SCALAR instructions
 *     for each index of the outer axes, for each row:
 *         for each stage:  ROW instructions,  then for each element: FULL instructions
 *         the last ROW instructions
 *
 * A FULL value that something beyond its own loop wants (a later stage, a reduction) is kept for
 * the whole row; nothing is computed twice. */
#include "backends/ref/ref.h"

#include <string.h>

#include "base/alloc.h"
#include "jit/build.h"
#include "jit/recipe.h"

/* The bits of one number of any dtype; part[1] is the imaginary part. */
struct value {
    uint64_t part[2];
};

/* A small function of up to three numbers, as micro code. */
struct function {
    struct fr_mcode code;
    struct fr_mnum  result;
};

struct ref {
    const struct fr_nest     *nest;
    const struct fr_instance *in;
    struct function          *fn;        /* [n_insts] what OP computes; for accumulators and REDUCE
                                            the step (result so far, element) -> result */
    struct function          *is_nan;    /* [n_insts] of argmax and argmin, whose step compares */
    struct value             *now;       /* [n_insts] values of this element, row or launch */
    struct value            **row;       /* [n_insts] values of the whole row, where wanted */
    uint64_t                 *values;    /* room for the longest micro code */
    struct function           widen, narrow; /* f16 to f32 and back */
    void                     *flat;      /* n_inner numbers as floats, for sums */
    char                     *ptr[FR_MAX_OPERANDS];   /* each operand at this row */
    bool                      first[FR_MAX_OPERANDS]; /* nothing has been accumulated there yet */
};

/* ---- functions ------------------------------------------------------------------------------- */

static fr_status
no_recipe(fr_status st, fr_op op, fr_dtype d, struct fr_err *err)
{
    return fr_fail(err, st, "reference executor: %s of %s", fr_op_info[op].name, fr_dtype_code(d));
}

static fr_status
make_op(struct function *f, fr_op op, fr_dtype compute, struct fr_err *err)
{
    struct fr_mnum args[3];
    fr_status      st;

    for (int k = 0; k < fr_op_info[op].arity; k++)
        args[k] = fr_m_number(&f->code, FR_M_INPUT, fr_op_arg(op, k, compute), k);
    if ((st = fr_recipe_op(&f->code, op, compute, args, &f->result)) != FR_OK)
        return no_recipe(st, op, compute, err);
    return FR_OK;
}

static fr_status
make_cast(struct function *f, fr_dtype from, fr_dtype to, struct fr_err *err)
{
    fr_status st = fr_recipe_cast(&f->code, from, to, fr_m_number(&f->code, FR_M_INPUT, from, 0), &f->result);

    if (st != FR_OK)
        return no_recipe(st, FR_OP_cast, from, err);
    return FR_OK;
}

/* The imaginary part of a real result is noise; nobody looks at it. */
static struct value
call(struct ref *r, const struct function *f, struct value a, struct value b, struct value c)
{
    const uint64_t inputs[6] = {a.part[0], a.part[1], b.part[0], b.part[1], c.part[0], c.part[1]};

    fr_micro_eval(&f->code, inputs, r->values);
    return (struct value){{r->values[f->result.re], r->values[f->result.im]}};
}

static struct value
call1(struct ref *r, const struct function *f, struct value a)
{
    return call(r, f, a, a, a);
}

static struct value
call2(struct ref *r, const struct function *f, struct value a, struct value b)
{
    return call(r, f, a, b, b);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct value
load(const char *p, fr_dtype d)
{
    struct value v = {{0, 0}};
    size_t       part = (size_t)fr_dtype_size(fr_dtype_info[d].component);

    memcpy(&v.part[0], p, part);
    if (fr_dtype_is_complex(d))
        memcpy(&v.part[1], p + part, part);
    if (d == FR_BOOL)
        v.part[0] = v.part[0] != 0;
    return v;
}

static void
store(char *p, fr_dtype d, struct value v)
{
    size_t part = (size_t)fr_dtype_size(fr_dtype_info[d].component);

    memcpy(p, &v.part[0], part);
    if (fr_dtype_is_complex(d))
        memcpy(p + part, &v.part[1], part);
}

/* Stride in bytes of an operand along axis `d`; the axes after the outer ones are row and inner. */
static int64_t
stride(const struct ref *r, int operand, int d)
{
    return r->in->stride[(int64_t)operand * (r->in->n_outer + 2) + d];
}

static int64_t
inner_stride(const struct ref *r, int operand)
{
    return stride(r, operand, r->in->n_outer + 1);
}

/* Pointers may step beyond their memory in rows that do not come; as integers they may. */
static char *
moved(char *p, int64_t bytes)
{
    return (char *)((uintptr_t)p + (uintptr_t)bytes);
}

/* ---- reductions of a row --------------------------------------------------------------------- */

/* NumPy's pairwise sum of n scalars, `width` of them to a number: a complex array counts as scalars
 * whose even and odd ones are summed apart. Without an identity in front. */
#define PAIRWISE(name, ctype)                                                                      \
    static void name(const ctype *x, int64_t n, int width, ctype out[2])                           \
    {                                                                                              \
        ctype   acc[8], right[2];                                                                  \
        int64_t half, i;                                                                           \
                                                                                                   \
        if (n < 8) {                                                                               \
            out[0] = out[1] = (ctype)-0.0;                                                         \
            for (i = 0; i < n; i++)                                                                \
                out[i % width] += x[i];                                                            \
        } else if (n <= 128) {                                                                     \
            memcpy(acc, x, sizeof acc);                                                            \
            for (i = 8; i < n - n % 8; i++)                                                        \
                acc[i % 8] += x[i];                                                                \
            if (width == 1) {                                                                      \
                out[0] = ((acc[0] + acc[1]) + (acc[2] + acc[3])) +                                 \
                         ((acc[4] + acc[5]) + (acc[6] + acc[7]));                                  \
            } else {                                                                               \
                out[0] = (acc[0] + acc[2]) + (acc[4] + acc[6]);                                    \
                out[1] = (acc[1] + acc[3]) + (acc[5] + acc[7]);                                    \
            }                                                                                      \
            for (; i < n; i++)                                                                     \
                out[i % width] += x[i];                                                            \
        } else {                                                                                   \
            half = n / 2 - n / 2 % 8;                                                              \
            name(x, half, width, out);                                                             \
            name(x + half, n - half, width, right);                                                \
            out[0] += right[0];                                                                    \
            if (width == 2)                                                                        \
                out[1] += right[1];                                                                \
        }                                                                                          \
    }
PAIRWISE(pairwise_f32, float)
PAIRWISE(pairwise_f64, double)
#undef PAIRWISE

/* NumPy begins with +0.0, so that a row of -0.0 gives 0.0. */
static struct value
sum_floats(struct ref *r, fr_dtype d, const struct value *x)
{
    int64_t      n = r->in->n_inner;
    int          width = fr_dtype_is_complex(d) ? 2 : 1;
    struct value v = {{0, 0}};

    if (fr_dtype_info[d].component == FR_F64) {
        double *flat = r->flat, sum[2];

        for (int64_t i = 0; i < n * width; i++)
            memcpy(&flat[i], &x[i / width].part[i % width], sizeof *flat);
        pairwise_f64(flat, n * width, width, sum);
        for (int k = 0; k < width; k++) {
            sum[k] = 0.0 + sum[k];
            memcpy(&v.part[k], &sum[k], sizeof sum[k]);
        }
    } else {
        float *flat = r->flat, sum[2];

        for (int64_t i = 0; i < n * width; i++) {
            struct value f = d == FR_F16 ? call1(r, &r->widen, x[i]) : x[i / width];

            memcpy(&flat[i], &f.part[i % width], sizeof *flat);
        }
        pairwise_f32(flat, n * width, width, sum);
        for (int k = 0; k < width; k++) {
            sum[k] = 0.0f + sum[k];
            memcpy(&v.part[k], &sum[k], sizeof sum[k]);
        }
    }
    return d == FR_F16 ? call1(r, &r->narrow, v) : v;
}

/* From 1 on: with an infinite part even 1 times a complex number is not that number. */
static struct value
product(struct ref *r, fr_dtype d, const struct function *multiply, const struct value *x)
{
    struct value v = {{fr_op_identity(FR_OP_prod, d == FR_F16 ? FR_F32 : d, 0), 0}};

    for (int64_t i = 0; i < r->in->n_inner; i++)
        v = call2(r, multiply, v, d == FR_F16 ? call1(r, &r->widen, x[i]) : x[i]);
    return d == FR_F16 ? call1(r, &r->narrow, v) : v;
}

/* The first index of the extreme value, or of the first NaN. */
static struct value
first_index(struct ref *r, int inst, const struct value *x)
{
    const struct function *is_nan = &r->is_nan[inst], *better = &r->fn[inst];
    struct value           best = {{0, 0}};

    for (int64_t i = 0; i < r->in->n_inner; i++) {
        bool nan = call1(r, is_nan, x[i]).part[0];

        if (nan || call2(r, better, x[best.part[0]], x[i]).part[0])
            best.part[0] = (uint64_t)i;
        if (nan)
            break;
    }
    return best;
}

/* Left to right by the operation itself. */
static struct value
fold(struct ref *r, fr_op op, const struct function *step, const struct value *x)
{
    struct value v = {{fr_op_identity(op, FR_I64, 0), 0}};

    for (int64_t i = 0; i < r->in->n_inner; i++)
        v = fr_op_picks(op) && i == 0 ? x[0] : call2(r, step, v, x[i]);
    return v;
}

static struct value
reduce_row(struct ref *r, int i)
{
    const struct fr_inst *inst = &r->nest->insts[i];
    fr_dtype              d = r->nest->insts[inst->a[0]].dtype;
    const struct value   *x = r->row[inst->a[0]];

    if (fr_op_finds_index(inst->op))
        return first_index(r, i, x);
    if (inst->op == FR_OP_prod)
        return product(r, d, &r->fn[i], x);
    return inst->op == FR_OP_sum && fr_dtype_info[d].component >= FR_F16 ? sum_floats(r, d, x)
                                                                         : fold(r, inst->op, &r->fn[i], x);
}

/* ---- accumulators ---------------------------------------------------------------------------- */

static bool
accumulates(const struct ref *r, const struct fr_inst *inst)
{
    if (inst->kind == FR_INST_STORE)
        return r->nest->operands[inst->operand].flags & FR_OPERAND_STREAM;
    return inst->kind == FR_INST_ACCUM;
}

/* A streamed store that does not name its reduction sums. */
static fr_op
accumulator_op(const struct fr_inst *inst)
{
    return fr_op_reduces(inst->op) ? inst->op : FR_OP_sum;
}

/* Writes the identity to every element that has one, walking the axes that the operand keeps. */
static void
fill_identity(struct ref *r, const struct fr_inst *inst, char *p, int d, struct value identity)
{
    int     n_axes = r->in->n_outer + (inst->level == FR_LEVEL_FULL ? 2 : 1);
    int64_t by, n;

    if (d == n_axes) {
        store(p, inst->dtype, identity);
        return;
    }
    by = stride(r, inst->operand, d);
    n = d < r->in->n_outer ? r->in->outer[d] : d == r->in->n_outer ? r->in->n_rows : r->in->n_inner;
    if (by == 0)
        n = 1;
    for (int64_t i = 0; i < n; i++)
        fill_identity(r, inst, moved(p, i * by), d + 1, identity);
}

static void
fill_accumulators(struct ref *r)
{
    for (uint32_t i = 0; i < r->nest->n_insts; i++) {
        const struct fr_inst *inst = &r->nest->insts[i];
        const fr_op           op = accumulator_op(inst);
        struct value          identity = {{fr_op_identity(op, inst->dtype, 0), 0}};

        if (accumulates(r, inst) && !fr_op_picks(op)) /* these begin with the first element */
            fill_identity(r, inst, r->in->ptr[inst->operand], 0, identity);
    }
}

static void
accumulate(struct ref *r, int i, char *p, bool first, struct value v)
{
    const struct fr_inst *inst = &r->nest->insts[i];
    fr_op                 op = accumulator_op(inst);

    if (!first || !fr_op_picks(op))
        v = call2(r, &r->fn[i], load(p, inst->dtype), v);
    store(p, inst->dtype, v);
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* Argument k of an instruction for element j: from the row where one is kept. */
static struct value
argument(const struct ref *r, const struct fr_inst *inst, int k, int64_t j)
{
    int a = inst->a[k];

    return r->row[a] ? r->row[a][j] : r->now[a];
}

static void
run_inst(struct ref *r, int i, int64_t j)
{
    const struct fr_inst *inst = &r->nest->insts[i];
    bool                  full = inst->level == FR_LEVEL_FULL;
    int                   k = inst->operand;
    int64_t               step, start;
    char                 *p;
    struct value          v = {{0, 0}};

    switch (inst->kind) {
    case FR_INST_LOAD:
        v = load(moved(r->ptr[k], full ? j * inner_stride(r, k) : 0), inst->dtype);
        break;
    case FR_INST_SCALAR: v = load((const char *)r->in->scalars + 16 * k, inst->dtype); break;
    case FR_INST_IOTA:
        step = full ? inner_stride(r, k) : 0;
        start = (int64_t)(intptr_t)r->ptr[k];
        v.part[0] = (uint64_t)(start + j * step);
        break;
    case FR_INST_OP:
        v = call(r, &r->fn[i], argument(r, inst, 0, j), argument(r, inst, 1, j),
                 argument(r, inst, 2, j));
        break;
    case FR_INST_STORE:
    case FR_INST_ACCUM:
        p = moved(r->ptr[k], full ? j * inner_stride(r, k) : 0);
        v = argument(r, inst, 0, j);
        if (accumulates(r, inst))
            accumulate(r, i, p, r->first[k] && (j == 0 || inner_stride(r, k) != 0), v);
        else
            store(p, inst->dtype, v);
        return;
    }
    if (full && r->row[i])
        r->row[i][j] = v;
    else
        r->now[i] = v;
}

/* Stores come last: a result may lie in the memory of an operand, of which each element is loaded before. */
static void
run_level(struct ref *r, enum fr_level level, int stage, int64_t j)
{
    for (uint32_t k = 0; k < 2 * r->nest->n_insts; k++) {
        uint32_t              i = k % r->nest->n_insts;
        const struct fr_inst *inst = &r->nest->insts[i];

        if (inst->level != level || (level != FR_LEVEL_SCALAR && inst->stage != stage) ||
            fr_inst_writes(inst) != (k >= r->nest->n_insts))
            continue;
        if (inst->kind == FR_INST_REDUCE)
            r->now[i] = reduce_row(r, (int)i);
        else
            run_inst(r, (int)i, j);
    }
}

static void
run_row(struct ref *r)
{
    for (int s = 0; s <= r->nest->n_stages; s++) {
        run_level(r, FR_LEVEL_ROW, s, 0);
        for (int64_t j = 0; s < r->nest->n_stages && j < r->in->n_inner; j++)
            run_level(r, FR_LEVEL_FULL, s, j);
    }
}

/* Points every operand at the row with these indices along the outer axes and the rows. */
static void
seek(struct ref *r, const int64_t *index)
{
    for (int k = 0; k < r->nest->n_operands; k++) {
        r->ptr[k] = r->in->ptr[k];
        r->first[k] = true;
        for (int d = 0; d <= r->in->n_outer; d++) {
            r->ptr[k] = moved(r->ptr[k], index[d] * stride(r, k, d));
            if (stride(r, k, d) == 0 && index[d] != 0)
                r->first[k] = false;
        }
    }
}

static int64_t
extent(const struct fr_instance *in, int d)
{
    return d < in->n_outer ? in->outer[d] : in->n_rows;
}

static void
run_all(struct ref *r)
{
    int64_t index[FR_LAUNCH_AXES + 1] = {0};
    int     d;

    for (d = 0; d <= r->in->n_outer; d++)
        if (extent(r->in, d) == 0)
            return;
    do {
        seek(r, index);
        run_row(r);
        for (d = r->in->n_outer; d >= 0 && ++index[d] == extent(r->in, d); d--)
            index[d] = 0;
    } while (d >= 0);
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* The step of a reduction.  Within a row NumPy multiplies complex numbers without fma, and f16 in
 * f32; any and all take elements of every dtype. */
static fr_status
make_step(struct ref *r, int i, struct fr_err *err)
{
    const struct fr_inst *inst = &r->nest->insts[i];
    struct function      *f = &r->fn[i];
    fr_op                 op = accumulator_op(inst);
    fr_dtype              d = inst->dtype, arg = r->nest->insts[inst->a[0]].dtype;
    bool                  row_product = inst->kind == FR_INST_REDUCE && op == FR_OP_prod;
    struct fr_mnum        x[2];
    fr_status             st;

    if (fr_op_finds_index(op)) {
        if ((st = make_op(&r->is_nan[i], FR_OP_isnan, arg, err)) != FR_OK)
            return st;
        return make_op(f, op == FR_OP_argmax ? FR_OP_less : FR_OP_greater, arg, err);
    }
    if (fr_op_info[op].rule == FR_RULE_TRUTH) {
        x[0] = fr_m_number(&f->code, FR_M_INPUT, d, 0);
        if ((st = fr_recipe_cast(&f->code, arg, d, fr_m_number(&f->code, FR_M_INPUT, arg, 1), &x[1])) == FR_OK)
            st = fr_recipe_op(&f->code, fr_op_info[op].combine, d, x, &f->result);
        return st == FR_OK ? st : no_recipe(st, op, arg, err);
    }
    if (row_product && fr_dtype_is_complex(d)) {
        code_t c = &f->code;

        x[0] = fr_m_number(c, FR_M_INPUT, d, 0);
        x[1] = fr_m_number(c, FR_M_INPUT, d, 1);
        f->result.re = m_sub(c, m_mul(c, x[0].re, x[1].re), m_mul(c, x[0].im, x[1].im));
        f->result.im = m_add(c, m_mul(c, x[0].re, x[1].im), m_mul(c, x[0].im, x[1].re));
        return c->st;
    }
    return make_op(f, fr_op_info[op].combine, row_product && d == FR_F16 ? FR_F32 : d, err);
}

static fr_status
make_inst(struct ref *r, int i, struct fr_err *err)
{
    const struct fr_inst *inst = &r->nest->insts[i];

    if (inst->kind == FR_INST_REDUCE || accumulates(r, inst))
        return make_step(r, i, err);
    if (inst->kind != FR_INST_OP)
        return FR_OK;
    if (inst->op == FR_OP_cast)
        return make_cast(&r->fn[i], r->nest->insts[inst->a[0]].dtype, inst->dtype, err);
    return make_op(&r->fn[i], inst->op, fr_nest_compute(r->nest, i), err);
}

static fr_status
keep_row(struct ref *r, int i)
{
    if (!r->row[i])
        r->row[i] = fr_calloc((size_t)r->in->n_inner + 1, sizeof *r->row[i]);
    return r->row[i] ? FR_OK : FR_ENOMEM;
}

/* Rows of the FULL arguments that instruction i reads outside their own loop. */
static fr_status
keep_arguments(struct ref *r, int i)
{
    const struct fr_inst *inst = &r->nest->insts[i];
    int                   n_args = inst->kind < FR_INST_OP ? 0 : 1;
    fr_status             st = FR_OK;

    if (inst->kind == FR_INST_OP && inst->op != FR_OP_cast)
        n_args = fr_op_info[inst->op].arity;
    for (int k = 0; k < n_args; k++) {
        const struct fr_inst *a = &r->nest->insts[inst->a[k]];

        if (a->level == FR_LEVEL_FULL && (inst->stage > a->stage || inst->kind == FR_INST_REDUCE))
            TRY(keep_row(r, inst->a[k]));
    }
out:
    return st;
}

static fr_status
prepare(struct ref *r, struct fr_err *err)
{
    size_t    n = r->nest->n_insts, n_values = 1;
    fr_status st = FR_ENOMEM;

    r->fn = fr_calloc(n, sizeof *r->fn);
    r->is_nan = fr_calloc(n, sizeof *r->is_nan);
    r->now = fr_calloc(n, sizeof *r->now);
    r->row = fr_calloc(n, sizeof *r->row);
    r->flat = fr_calloc((size_t)r->in->n_inner + 1, sizeof(double[2]));
    if (!r->fn || !r->is_nan || !r->now || !r->row || !r->flat)
        goto out;
    TRY(make_cast(&r->widen, FR_F16, FR_F32, err));
    TRY(make_cast(&r->narrow, FR_F32, FR_F16, err));
    for (size_t i = 0; i < n; i++) {
        TRY(make_inst(r, (int)i, err));
        TRY(keep_arguments(r, (int)i));
        n_values = r->fn[i].code.n > n_values ? r->fn[i].code.n : n_values;
        n_values = r->is_nan[i].code.n > n_values ? r->is_nan[i].code.n : n_values;
    }
    n_values += r->widen.code.n + r->narrow.code.n;
    st = (r->values = fr_calloc(n_values, sizeof *r->values)) ? FR_OK : FR_ENOMEM;
out:
    return st;
}

static void
clear(struct ref *r)
{
    for (uint32_t i = 0; i < r->nest->n_insts; i++) {
        if (r->fn)
            fr_mcode_clear(&r->fn[i].code);
        if (r->is_nan)
            fr_mcode_clear(&r->is_nan[i].code);
        if (r->row)
            fr_free(r->row[i]);
    }
    fr_mcode_clear(&r->widen.code);
    fr_mcode_clear(&r->narrow.code);
    fr_free(r->fn);
    fr_free(r->is_nan);
    fr_free(r->now);
    fr_free(r->row);
    fr_free(r->flat);
    fr_free(r->values);
}

fr_status
fr_ref_launch(const struct fr_nest *nest, const struct fr_instance *in, struct fr_err *err)
{
    struct ref r = {.nest = nest, .in = in};
    fr_status  st;

    TRY(prepare(&r, err));
    fill_accumulators(&r);
    run_level(&r, FR_LEVEL_SCALAR, 0, 0);
    run_all(&r);
out:
    if (st == FR_ENOMEM)
        fr_fail(err, st, "reference executor: rows of %lld elements", (long long)in->n_inner);
    clear(&r);
    return st;
}
