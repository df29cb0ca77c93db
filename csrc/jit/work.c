/* jit/work.c -- see work.h. */
#include "jit/work.h"

#include <pthread.h>

#include "base/alloc.h"
#include "jit/recipe.h"

/* Whether the instruction gives the same for all elements: it is done before them. */
static bool
is_before(const struct fr_mcode *code, size_t i, const uint8_t *before, unsigned same)
{
    const struct fr_minst *in = &code->inst[i];
    const fr_mval          args[] = {in->a, in->b, in->c};
    bool                   is = in->op != FR_M_INPUT || (same >> in->imm / 2 & 1);

    for (int k = 0; k < fr_mop_arity[in->op]; k++)
        is &= before[args[k]];
    return is;
}

/* Places that an instruction takes for each byte of the larger of both numbers. A division takes twice as long for numbers twice as
 * large, while a vector has half of them; and no processor shifts or multiplies single bytes. */
static double
places(enum fr_mop op, fr_dtype type, fr_dtype from)
{
    const double slots = fr_m_cost(op, type, from).slots;

    switch (op) {
    case FR_M_DIV: case FR_M_SQRT: return type == FR_F64 ? 1.5 * slots : slots;
    case FR_M_MUL: return fr_dtype_size(type) == 1 ? 2 * slots : slots;
    case FR_M_SHL: case FR_M_SHR: return fr_dtype_size(type) == 1 ? 6 * slots : slots;
    default: return slots;
    }
}

/* What the result of micro code takes that begins with its arguments; bit k of `same`: argument k is one for all elements. */
static fr_status
count_code(struct fr_mcode *code, const struct fr_mnum *result, fr_dtype d, unsigned same, struct fr_nest_share *out)
{
    uint8_t *needed = code->st == FR_OK ? fr_calloc(code->n + 1, 2) : NULL, *before;
    float   *ready = needed ? fr_calloc(code->n + 1, sizeof *ready) : NULL;   /* when each value is, in cycles */

    if (!ready) {
        fr_free(needed);
        return FR_ENOMEM;
    }
    before = needed + code->n + 1;
    needed[result->re] = 1;
    if (fr_dtype_is_complex(d))
        needed[result->im] = 1;
    fr_m_needed(code, FR_SIDES_NOTED, needed);
    for (size_t i = 0; i < code->n; i++) {
        const struct fr_minst *in = &code->inst[i];
        fr_dtype               from = fr_mop_arity[in->op] ? code->inst[in->a].type : in->type;
        int                    size = fr_dtype_size(in->type), other = fr_dtype_size(from);

        before[i] = is_before(code, i, before, same);
        for (int k = 0; k < fr_mop_arity[in->op]; k++) {
            const float at = ready[((const fr_mval[]){in->a, in->b, in->c})[k]];

            ready[i] = at > ready[i] ? at : ready[i];
        }
        if (!needed[i] || before[i] || in->op == FR_M_INPUT || in->op == FR_M_BITCAST)
            continue;
        ready[i] += fr_m_cost((enum fr_mop)in->op, in->type, from).latency;
        out->kind[fr_m_kind((enum fr_mop)in->op, in->type, from)] +=
            fr_m_is_scalar((enum fr_mop)in->op) ? 1 : places((enum fr_mop)in->op, in->type, from) * (double)(size > other ? size : other);
    }
    out->latency += fr_dtype_is_complex(d) && ready[result->im] > ready[result->re] ? ready[result->im] : ready[result->re];
    fr_free(ready);
    fr_free(needed);
    return FR_OK;
}

/* ---- what is known of operations already: micro code takes microseconds to make ----
 *
 * Plans are made on two threads; runtime/planner.c also keeps this lock from being held over a fork. */

enum { N_KNOWN = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known {
    uint64_t             key; /* 0: nothing */
    struct fr_nest_share share;
} known[N_KNOWN];

void
fr_nest_share_add(struct fr_nest_share *to, const struct fr_nest_share *from, double times)
{
    for (int k = 0; k < FR_N_WORK_KINDS; k++)
        to->kind[k] += times * from->kind[k];
    to->loaded += times * from->loaded;
    to->stored += times * from->stored;
    to->between += times * from->between;
    to->latency += times * from->latency;
}

static bool
find_known(uint64_t key, struct fr_nest_share *out)
{
    const struct known *at = &known[key * 0x9e3779b97f4a7c15u >> 56];
    bool                is;

    _Static_assert(N_KNOWN == 1 << 8, "of which a hash has 8 bits");
    pthread_mutex_lock(&lock);
    if ((is = at->key == key))
        fr_nest_share_add(out, &at->share, 1);
    pthread_mutex_unlock(&lock);
    return is;
}

static void
note_known(uint64_t key, const struct fr_nest_share *share)
{
    pthread_mutex_lock(&lock);
    known[key * 0x9e3779b97f4a7c15u >> 56] = (struct known){key, *share};
    pthread_mutex_unlock(&lock);
}

static fr_status
count_op(const struct fr_nest *nest, int i, struct fr_nest_share *out)
{
    const struct fr_inst *in = &nest->insts[i];
    const bool            casts = in->op == FR_OP_cast;
    const fr_dtype        compute = casts ? nest->insts[in->a[0]].dtype : fr_nest_compute(nest, i);
    const bool            in_floats = !casts && compute == FR_F16 && fr_recipe_half_use((fr_op)in->op) != FR_HALF_BITS;
    struct fr_mcode       code = {0};
    struct fr_mnum        x[3] = {{0, 0}}, result = {0, 0};
    struct fr_nest_share  share = {0};
    unsigned              same = 0;
    uint64_t              key;
    fr_status             st;

    for (int k = 0; k < fr_nest_n_args(in); k++)
        same |= (unsigned)(in->level == FR_LEVEL_FULL && nest->insts[in->a[k]].level != FR_LEVEL_FULL) << k;
    key = UINT64_C(1) << 63 | (uint64_t)same << 24 | (uint64_t)in->dtype << 16 | (uint64_t)compute << 8 | (uint64_t)in->op;
    if (find_known(key, out))
        return FR_OK;
    for (int k = 0; k < fr_nest_n_args(in); k++) {
        fr_dtype d = casts ? compute : fr_op_arg((fr_op)in->op, k, compute);

        x[k] = fr_m_number(&code, FR_M_INPUT, in_floats && d == FR_F16 ? FR_F32 : d, k);
    }
    st = casts       ? fr_recipe_cast(&code, compute, in->dtype, x[0], &result)
         : in_floats ? fr_recipe_half(&code, (fr_op)in->op, x, &result)
                     : fr_recipe_op(&code, (fr_op)in->op, compute, x, &result);
    if (st == FR_OK)
        st = count_code(&code, &result, in->dtype, same, &share);
    fr_mcode_clear(&code);
    if (st != FR_OK)
        return st;
    share.kind[FR_WK_HALF] += in_floats && fr_recipe_half_use((fr_op)in->op) <= FR_HALF_READ; /* it is rounded, or compared */
    share.between += fr_dtype_size(in->dtype);
    for (int k = 0; k < fr_nest_n_args(in); k++)
        share.between += fr_dtype_size(nest->insts[in->a[k]].dtype);
    note_known(key, &share);
    fr_nest_share_add(out, &share, 1);
    return FR_OK;
}

/* A load or a store of an element. */
static void
count_memory(const struct fr_nest *nest, const struct fr_inst *in, double *bytes, struct fr_nest_share *out)
{
    const uint8_t access = nest->operands[in->operand].access;
    const double  size = (double)fr_dtype_size(in->dtype);

    *bytes += size;
    if (access == FR_ACCESS_STRIDED)
        out->kind[FR_WK_APART]++;
    else if (access > FR_ACCESS_STRIDED) /* they are put side by side */
        out->kind[FR_MK_BITS] += size;
}

/* An element that is folded into the value of its row. Floats are added in one order: in eight sums, products in one. */
static void
count_fold(fr_op op, fr_dtype d, struct fr_nest_share *out)
{
    out->kind[FR_WK_HALF] += d == FR_F16;
    if (fr_op_finds_index(op))
        out->kind[FR_WK_FIND] += fr_dtype_size(d);
    else if (op == FR_OP_sum && fr_dtype_is_complex(d)) /* after all else of a block: parts that lie side by side are added apart */
        out->kind[FR_MK_SCALAR] += 0.35;
    else if ((op == FR_OP_sum || op == FR_OP_prod) && (fr_dtype_is_float(d) || fr_dtype_is_complex(d)))
        out->kind[FR_WK_SUM] += op == FR_OP_sum ? 1 : 8;
    else
        out->kind[FR_WK_FOLD] += fr_dtype_size(d);
}

static fr_status
count(const struct fr_nest *nest, int i, struct fr_nest_share *out)
{
    const struct fr_inst *in = &nest->insts[i];
    const fr_dtype        d = in->kind == FR_INST_REDUCE || in->kind == FR_INST_ACCUM ? nest->insts[in->a[0]].dtype : in->dtype;
    const double          size = (double)fr_dtype_size(d);

    switch (in->kind) {
    case FR_INST_LOAD: count_memory(nest, in, &out->loaded, out); return FR_OK;
    case FR_INST_STORE: count_memory(nest, in, &out->stored, out); return FR_OK;
    case FR_INST_OP: return count_op(nest, i, out);
    case FR_INST_IOTA: out->kind[FR_MK_FLOAT] += size; return FR_OK;
    case FR_INST_REDUCE: count_fold((fr_op)in->op, d, out); return FR_OK;
    case FR_INST_ACCUM:
        out->kind[FR_MK_FLOAT] += size;
        out->loaded += size;
        out->stored += size;
        return FR_OK;
    default: return FR_OK;
    }
}

fr_status
fr_nest_count(const struct fr_nest *nest, struct fr_nest_work *out, struct fr_err *err)
{
    uint8_t  *runs = fr_malloc(nest->n_insts + 1);
    fr_status st = FR_OK;

    *out = (struct fr_nest_work){.n_loops = nest->n_stages, .smallest = 8};
    if (!runs)
        return fr_no_memory(err, "the work of a nest");
    for (int s = 0; s < nest->n_stages; s++) {
        fr_nest_stage_runs(nest, s, (nest->flags & FR_NEST_ROWBUF) != 0, runs);
        for (uint32_t i = 0; i < nest->n_insts && st == FR_OK; i++)
            if (runs[i])
                st = count(nest, (int)i, &out->loop[s < FR_MOST_LOOPS ? s : FR_MOST_LOOPS - 1]);
    }
    for (uint32_t i = 0; i < nest->n_insts && st == FR_OK; i++) {
        const int size = fr_dtype_size(fr_dtype_info[nest->insts[i].dtype].component);

        out->n_folds += nest->insts[i].kind == FR_INST_REDUCE;
        if (nest->insts[i].level == FR_LEVEL_FULL && size < out->smallest)
            out->smallest = size;
        if (nest->insts[i].level == FR_LEVEL_ROW && nest->insts[i].kind != FR_INST_REDUCE)
            st = count(nest, (int)i, &out->row);
    }
    fr_free(runs);
    return st == FR_OK ? st : fr_no_memory(err, "the work of a nest");
}
