/* jit/emit_nest.c -- nests as source text: the parts that C and CUDA C share, and the C file.
 * The C text is what users see, and a check on recipes: tests compile it and compare with NumPy. */
#include "jit/emit_nest.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "jit/recipe.h"

/* ---- names and types --------------------------------------------------------------------- */

struct fr_names
fr_names_make(const char *of, const char *letter, int inst, fr_dtype d)
{
    struct fr_names n;

    snprintf(n.s[0], sizeof n.s[0], "%s%s%d%s", of, letter, inst, fr_parts(d) == 2 ? "r" : "");
    snprintf(n.s[1], sizeof n.s[1], "%s%s%di", of, letter, inst);
    return n;
}

/* How the value of instruction i is called at this point of the text. */
static struct fr_names
value_names(const struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];

    return fr_names_make(w->element && in->level != FR_LEVEL_FULL ? w->row : "", "v", i, in->dtype);
}

static const char *
part_type(fr_dtype d)
{
    return fr_text_type(fr_text_machine(d));
}

static const char *
part_memory_type(fr_dtype d)
{
    return fr_text_memory_type(fr_text_machine(d));
}

fr_dtype
fr_reduce_dtype(const struct fr_nest *nest, const struct fr_inst *in)
{
    const struct fr_op_info *info = &fr_op_info[in->op];

    if (info->rule == FR_RULE_INDEX)
        return nest->insts[in->a[0]].dtype;
    return in->dtype == FR_F16 && info->rule == FR_RULE_SUM ? FR_F32 : in->dtype;
}

bool
fr_reduce_is_sum(const struct fr_inst *in)
{
    return in->kind == FR_INST_REDUCE && in->op == FR_OP_sum;
}

bool
fr_reduce_is_index(const struct fr_inst *in)
{
    return fr_op_info[in->op].rule == FR_RULE_INDEX;
}

/* ---- recipes ------------------------------------------------------------------------------ */

static void
fail(struct fr_writer *w, fr_status st, const char *what, fr_dtype d)
{
    if (w->st == FR_OK)
        w->st = fr_fail(w->err, st, "no text for %s of %s: %s", what, fr_dtype_code(d),
                        fr_status_text(st));
}

/* Declares an argument as inputs of the recipe. */
static struct fr_mnum
input(struct fr_mcode *code, fr_dtype d, const struct fr_names *n, const char **inputs,
      int *n_inputs)
{
    struct fr_mnum v = {0};

    for (int p = 0; p < fr_parts(d); p++) {
        fr_mval m = fr_m_emit(code, FR_M_INPUT, fr_text_machine(d), 0, 0, 0, (uint64_t)*n_inputs);

        inputs[(*n_inputs)++] = n->s[p];
        *(p ? &v.im : &v.re) = m;
    }
    return v;
}

static void
write_micro(struct fr_writer *w, const struct fr_mcode *code, struct fr_mnum r, fr_dtype d,
            const char **inputs, const struct fr_names *result, const char *prefix)
{
    const fr_mval        roots[2] = {r.re, r.im};
    const char *const    names[2] = {result->s[0], result->s[1]};
    struct fr_text_lines lines = {w->indent, prefix, inputs, roots, names, fr_parts(d)};

    fr_text_micro(&w->text, code, &lines);
}

void
fr_write_op(struct fr_writer *w, fr_op op, fr_dtype compute, const struct fr_names *args,
            const struct fr_names *result, const char *prefix)
{
    struct fr_mcode code = {0};
    struct fr_mnum  in[3], out = {0};
    const char     *inputs[6];
    int             n_inputs = 0;
    fr_status       st;

    for (int k = 0; k < fr_op_info[op].arity; k++)
        in[k] = input(&code, fr_op_arg(op, k, compute), &args[k], inputs, &n_inputs);
    st = fr_recipe_op(&code, op, compute, in, &out);
    if (st == FR_OK)
        st = code.st;
    if (st == FR_OK)
        write_micro(w, &code, out, fr_op_result(op, compute), inputs, result, prefix);
    else
        fail(w, st, fr_op_info[op].name, compute);
    fr_mcode_clear(&code);
}

/* Within a row NumPy multiplies complex numbers without fma, which its element-wise loops have. */
static void
write_plain_product(struct fr_writer *w, fr_dtype d, const struct fr_names *args,
                    const struct fr_names *result)
{
    struct fr_mcode code = {0};
    const fr_dtype  t = fr_text_machine(d);
    const char     *inputs[4];
    int             n_inputs = 0;
    struct fr_mnum  a = input(&code, d, &args[0], inputs, &n_inputs), r;
    struct fr_mnum  b = input(&code, d, &args[1], inputs, &n_inputs);

    r.re = fr_m_emit(&code, FR_M_SUB, t, fr_m_emit(&code, FR_M_MUL, t, a.re, b.re, 0, 0),
                     fr_m_emit(&code, FR_M_MUL, t, a.im, b.im, 0, 0), 0, 0);
    r.im = fr_m_emit(&code, FR_M_ADD, t, fr_m_emit(&code, FR_M_MUL, t, a.re, b.im, 0, 0),
                     fr_m_emit(&code, FR_M_MUL, t, a.im, b.re, 0, 0), 0, 0);
    write_micro(w, &code, r, d, inputs, result, result->s[0]);
    fr_mcode_clear(&code);
}

static void
write_cast(struct fr_writer *w, fr_dtype from, fr_dtype to, const struct fr_names *arg,
           const struct fr_names *result, const char *prefix)
{
    struct fr_mcode code = {0};
    struct fr_mnum  out = {0};
    const char     *inputs[2];
    int             n_inputs = 0;
    fr_status       st;

    st = fr_recipe_cast(&code, from, to, input(&code, from, arg, inputs, &n_inputs), &out);
    if (st == FR_OK)
        st = code.st;
    if (st == FR_OK)
        write_micro(w, &code, out, to, inputs, result, prefix);
    else
        fail(w, st, "a cast", from);
    fr_mcode_clear(&code);
}

/* `arg` of dtype `from` as a new name, when it has to become `to` first. */
static struct fr_names
converted(struct fr_writer *w, fr_dtype from, fr_dtype to, struct fr_names arg, int inst)
{
    struct fr_names n = fr_names_make("", "x", inst, to);

    if (from == to)
        return arg;
    write_cast(w, from, to, &arg, &n, n.s[0]);
    return n;
}

/* ---- memory ------------------------------------------------------------------------------- */

/* Part `part` of operand k at element j, or at this row's one element. */
static struct fr_names
element_names(const struct fr_writer *w, int k, int level)
{
    const struct fr_operand *o = &w->nest->operands[k];
    struct fr_names          n;

    for (int p = 0; p < 2; p++) {
        if (level == FR_LEVEL_ROW)
            snprintf(n.s[p], sizeof n.s[p], "%sp%d[%d]", w->row, k, p);
        else if (o->access == FR_ACCESS_STRIDED)
            snprintf(n.s[p], sizeof n.s[p], "AT(%s%s, %sp%d, j * %si%d)[%d]",
                     o->flags & FR_OPERAND_WRITTEN ? "" : "const ", part_memory_type(o->dtype),
                     w->row, k, w->row, k, p);
        else if (fr_parts(o->dtype) == 2)
            snprintf(n.s[p], sizeof n.s[p], "%sp%d[2 * j + %d]", w->row, k, p);
        else
            snprintf(n.s[p], sizeof n.s[p], "%sp%d[j]", w->row, k);
    }
    return n;
}

void
fr_write_operands(struct fr_writer *w, bool declare, const char *row)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst    *in = &w->nest->insts[i];
        const int                k = in->operand;
        const struct fr_operand *o = &w->nest->operands[k];
        const char              *konst = o->flags & FR_OPERAND_WRITTEN ? "" : "const ";
        const char              *type = part_memory_type(o->dtype);
        char                     at[64] = "";
        bool                     seen = false;

        if (in->kind == FR_INST_OP || in->kind == FR_INST_REDUCE || in->kind == FR_INST_SCALAR)
            continue;
        for (uint32_t e = 0; e < i; e++)
            seen |= w->nest->insts[e].operand == k && w->nest->insts[e].kind != FR_INST_SCALAR &&
                    w->nest->insts[e].kind != FR_INST_OP &&
                    w->nest->insts[e].kind != FR_INST_REDUCE;
        if (seen)
            continue;
        if (row)
            snprintf(at, sizeof at, " + %s * row_stride[%d]", row, k);
        if (in->kind == FR_INST_IOTA)
            W("%s%s%sp%d = (int64_t)ptr[%d]%s;\n", w->indent, declare ? "const int64_t " : "",
              w->row, k, k, at);
        else if (o->access == FR_ACCESS_STRIDED)
            W("%s%s%sp%d = ptr[%d]%s;\n", w->indent, declare ? "char *const " : "", w->row, k, k,
              at);
        else if (declare)
            W("%s%s%s *const %sp%d = (%s%s *)(ptr[%d]%s);\n", w->indent, konst, type, w->row, k,
              konst, type, k, at);
        else
            W("%s%sp%d = (%s%s *)(ptr[%d]%s);\n", w->indent, w->row, k, konst, type, k, at);
        if (in->level == FR_LEVEL_FULL &&
            (in->kind == FR_INST_IOTA || o->access == FR_ACCESS_STRIDED))
            W("%s%s%si%d = inner_stride[%d];\n", w->indent, declare ? "const int64_t " : "", w->row,
              k, k);
    }
}

/* ---- instructions ------------------------------------------------------------------------- */

static void
write_load(struct fr_writer *w, fr_dtype d, const struct fr_names *value,
           const struct fr_names *mem)
{
    for (int p = 0; p < fr_parts(d); p++)
        W("%sconst %s %s = %s%s;\n", w->indent, part_type(d), value->s[p], mem->s[p],
          d == FR_BOOL ? " != 0" : "");
}

static void
write_store(struct fr_writer *w, fr_dtype d, const struct fr_names *mem,
            const struct fr_names *value, const char *guard)
{
    for (int p = 0; p < fr_parts(d); p++)
        W("%s%s%s = %s;\n", w->indent, guard, mem->s[p], value->s[p]);
}

/* operand = combine(operand, value) */
static void
write_accum(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       mem = element_names(w, in->operand, in->level), args[2], sum;

    args[0] = fr_names_make("", "m", i, in->dtype);
    args[1] = converted(w, w->nest->insts[in->a[0]].dtype, in->dtype, value_names(w, in->a[0]), i);
    sum = fr_names_make("", "n", i, in->dtype);
    write_load(w, in->dtype, &args[0], &mem);
    fr_write_op(w, fr_op_info[in->op].combine, in->dtype, args, &sum, sum.s[0]);
    write_store(w, in->dtype, &mem, &sum, "");
}

static void
write_op_inst(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       args[3], result = fr_names_make("", "v", i, in->dtype);
    char                  prefix[16];

    snprintf(prefix, sizeof prefix, "v%d", i);
    for (int k = 0; k < 3; k++)
        args[k] = value_names(w, in->a[k]);
    if (in->op == FR_OP_cast)
        write_cast(w, w->nest->insts[in->a[0]].dtype, in->dtype, args, &result, prefix);
    else
        fr_write_op(w, in->op, fr_nest_compute(w->nest, i), args, &result, prefix);
}

/* Any instruction but REDUCE, as lines at its own level. */
static void
write_inst(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       value = fr_names_make("", "v", i, in->dtype), mem, arg;

    switch (in->kind) {
    case FR_INST_LOAD:
        mem = element_names(w, in->operand, in->level);
        write_load(w, in->dtype, &value, &mem);
        break;
    case FR_INST_SCALAR:
        for (int p = 0; p < fr_parts(in->dtype); p++)
            W("%sconst %s %s = AT(const %s, scalars, %d)[%d]%s;\n", w->indent, part_type(in->dtype),
              value.s[p], part_memory_type(in->dtype), 16 * in->operand, p,
              in->dtype == FR_BOOL ? " != 0" : "");
        break;
    case FR_INST_IOTA:
        if (in->level == FR_LEVEL_FULL)
            W("%sconst int64_t %s = %sp%d + j * %si%d;\n", w->indent, value.s[0], w->row,
              in->operand, w->row, in->operand);
        else
            W("%sconst int64_t %s = %sp%d;\n", w->indent, value.s[0], w->row, in->operand);
        break;
    case FR_INST_OP:
        write_op_inst(w, i);
        break;
    case FR_INST_STORE:
        mem = element_names(w, in->operand, in->level);
        arg = value_names(w, in->a[0]);
        write_store(w, in->dtype, &mem, &arg, in->level == FR_LEVEL_ROW ? w->guard : "");
        break;
    case FR_INST_ACCUM:
        write_accum(w, i);
        break;
    }
}

bool
fr_has_stages(const struct fr_nest *nest)
{
    return nest->n_stages > 1 || (nest->flags & FR_NEST_REDUCES);
}

/* How many of a[0..2] an instruction reads. */
static int
n_args(const struct fr_inst *in)
{
    if (in->kind == FR_INST_OP)
        return in->op == FR_OP_cast ? 1 : fr_op_info[in->op].arity;
    return in->kind == FR_INST_REDUCE || in->kind == FR_INST_STORE || in->kind == FR_INST_ACCUM;
}

/* Whether FULL code reads this SCALAR or ROW value, so that struct row has to hold it. */
static bool
is_shared(const struct fr_nest *nest, int i)
{
    for (uint32_t u = (uint32_t)i + 1; u < nest->n_insts; u++) {
        const struct fr_inst *in = &nest->insts[u];

        for (int k = 0; k < n_args(in); k++)
            if (in->a[k] == i && in->level == FR_LEVEL_FULL)
                return true;
    }
    return false;
}

/* Copies a value that was just made into struct row. */
static void
share(struct fr_writer *w, int i)
{
    struct fr_names n = fr_names_make("", "v", i, w->nest->insts[i].dtype);

    if (is_shared(w->nest, i))
        for (int p = 0; p < fr_parts(w->nest->insts[i].dtype); p++)
            W("%sr.%s = %s;\n", w->indent, n.s[p], n.s[p]);
}

void
fr_write_scalars(struct fr_writer *w, const uint8_t *users, bool sharing)
{
    uint8_t need[FR_MAX_INSTS] = {0};

    for (uint32_t i = w->nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = &w->nest->insts[i];

        if (need[i] || !users || users[i])
            for (int k = 0; k < n_args(in); k++)
                need[in->a[k]] |= w->nest->insts[in->a[k]].level == FR_LEVEL_SCALAR;
    }
    for (uint32_t i = 0; i < w->nest->n_insts; i++)
        if (need[i]) {
            write_inst(w, (int)i);
            if (sharing)
                share(w, (int)i);
        }
}

void
fr_write_row(struct fr_writer *w, int stage)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];

        if (in->level != FR_LEVEL_ROW || in->stage != stage || in->kind == FR_INST_REDUCE)
            continue;
        write_inst(w, (int)i);
        if (in->kind != FR_INST_STORE && *w->row)
            share(w, (int)i);
    }
}

void
fr_write_body(struct fr_writer *w)
{
    uint8_t runs[FR_MAX_INSTS];

    fr_nest_stage_runs(w->nest, 0, true, runs);
    for (uint32_t i = 0; i < w->nest->n_insts; i++)
        if (runs[i])
            write_inst(w, (int)i);
}

/* ---- stages ------------------------------------------------------------------------------- */

void
fr_write_row_struct(struct fr_writer *w)
{
    W("\n/* What the stages of one row share. */\nstruct row {\n");
    for (int k = 0; k < w->nest->n_operands; k++) {
        const struct fr_operand *o = &w->nest->operands[k];
        bool                     iota = false;

        for (uint32_t i = 0; i < w->nest->n_insts; i++)
            iota |= w->nest->insts[i].kind == FR_INST_IOTA && w->nest->insts[i].operand == k;
        if (iota)
            W("    int64_t p%d, i%d;\n", k, k);
        else if (o->access == FR_ACCESS_STRIDED)
            W("    char *p%d;\n    int64_t i%d;\n", k, k);
        else
            W("    %s%s *p%d;\n", o->flags & FR_OPERAND_WRITTEN ? "" : "const ",
              part_memory_type(o->dtype), k);
    }
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        struct fr_names       n = fr_names_make("", "v", (int)i, in->dtype);

        if (fr_nest_crosses(w->nest, (int)i))
            W("    %s *b%u;\n", part_memory_type(in->dtype), i);
        if (in->level != FR_LEVEL_FULL && in->kind != FR_INST_STORE && is_shared(w->nest, (int)i))
            for (int p = 0; p < fr_parts(in->dtype); p++)
                W("    %s %s;\n", part_type(in->dtype), n.s[p]);
    }
    W("};\n");
}

void
fr_write_rowbufs(struct fr_writer *w, const char *scratch)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        size_t at = fr_nest_rowbuf(w->nest, (int)i);

        if (at != SIZE_MAX)
            W("%s%sb%u = AT(%s, %s, %zu);\n", w->indent, w->row, i,
              part_memory_type(w->nest->insts[i].dtype), scratch, at);
    }
}

/* The pass of its stage that takes root `in`; -1 if it is no root of this stage. */
static int
pass_of(const struct fr_writer *w, int stage, const struct fr_inst *in, bool real_sums)
{
    if (in->kind == FR_INST_REDUCE) {
        if (in->stage != stage + 1)
            return -1;
        if (fr_reduce_is_sum(in) && fr_dtype_is_complex(in->dtype) && real_sums)
            return FR_PASS_COMPLEX;
        if (in->op == FR_OP_prod && w->dialect == FR_DIALECT_CUDA)
            return FR_PASS_PROD;
        return FR_PASS_MAIN;
    }
    if ((in->kind == FR_INST_STORE || in->kind == FR_INST_ACCUM) && in->level == FR_LEVEL_FULL &&
        in->stage == stage)
        return FR_PASS_MAIN;
    return -1;
}

bool
fr_pass_find(const struct fr_writer *w, int stage, enum fr_pass_kind kind, bool rowbuf,
             struct fr_pass *pass)
{
    const struct fr_nest *nest = w->nest;
    uint8_t               all[FR_MAX_INSTS];
    bool                  real_sums = false, any = false;

    memset(pass, 0, sizeof *pass);
    pass->stage = stage;
    pass->rowbuf = rowbuf && fr_nest_scratch(nest) > 0;
    snprintf(pass->tag, sizeof pass->tag, "%d%s%s", stage,
             kind == FR_PASS_COMPLEX ? "c"
             : kind == FR_PASS_PROD  ? "p"
                                     : "",
             rowbuf || !fr_nest_scratch(nest) ? "" : "x");
    fr_nest_stage_runs(nest, stage, rowbuf, all);
    for (uint32_t i = 0; i < nest->n_insts; i++)
        real_sums |= fr_reduce_is_sum(&nest->insts[i]) && nest->insts[i].stage == stage + 1 &&
                     !fr_dtype_is_complex(nest->insts[i].dtype);
    for (uint32_t i = nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = &nest->insts[i];

        if (pass_of(w, stage, in, real_sums) == (int)kind) {
            pass->roots[i] = pass->runs[i] = any = true;
            if (fr_reduce_is_sum(in)) {
                pass->has_sums = true;
                pass->complex_tree |= fr_dtype_is_complex(in->dtype);
            } else if (in->kind == FR_INST_REDUCE) {
                pass->has_accs = true;
            }
        }
        if (!pass->runs[i])
            continue;
        if (!all[i]) {
            pass->runs[i] = 0;
            pass->reads[i] = 1;
            continue;
        }
        for (int k = 0; k < n_args(in); k++)
            if (nest->insts[in->a[k]].level == FR_LEVEL_FULL)
                pass->runs[in->a[k]] = 1;
    }
    return any;
}

/* A struct with one member for each sum, or for each other reduction. */
static void
write_parts_struct(struct fr_writer *w, const struct fr_pass *pass, bool sums)
{
    W("\nstruct %s_%s {\n", sums ? "sums" : "accs", pass->tag);
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        fr_dtype              d;

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE || fr_reduce_is_sum(in) != sums)
            continue;
        d = fr_reduce_dtype(w->nest, in);
        for (int p = 0; p < fr_parts(d); p++)
            W("    %s %s;\n", part_type(d),
              fr_names_make("", fr_reduce_is_index(in) ? "m" : "v", (int)i, d).s[p]);
        if (fr_reduce_is_index(in))
            W("    int64_t v%u;\n", i);
    }
    W("};\n");
}

/* Whether value `v` comes before `best` for argmax or argmin: as `name`, a bool. NaN comes first.
 */
static void
write_better(struct fr_writer *w, const struct fr_inst *in, fr_dtype d, const struct fr_names *v,
             const struct fr_names *best, const char *name)
{
    struct fr_names args[2] = {*v, *best}, n[3];
    const char     *what[3] = {"wins", "is_nan", "was_nan"};

    for (int k = 0; k < 3; k++)
        snprintf(n[k].s[0], sizeof n[k].s[0], "%s_%s", name, what[k]);
    fr_write_op(w, in->op == FR_OP_argmax ? FR_OP_greater : FR_OP_less, d, args, &n[0], n[0].s[0]);
    fr_write_op(w, FR_OP_isnan, d, v, &n[1], n[1].s[0]);
    fr_write_op(w, FR_OP_isnan, d, best, &n[2], n[2].s[0]);
    W("%sconst bool %s = (%s | %s) & !%s;\n", w->indent, name, n[0].s[0], n[1].s[0], n[2].s[0]);
}

/* a->v1 takes in FULL value a[0] of reduction i. */
static void
write_take(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    const fr_dtype        from = w->nest->insts[in->a[0]].dtype, d = fr_reduce_dtype(w->nest, in);
    struct fr_names       v = converted(w, from, d, value_names(w, in->a[0]), i);
    struct fr_names acc = fr_names_make("a->", "v", i, d), next = fr_names_make("", "n", i, d);
    struct fr_names args[2] = {acc, v};
    char            name[24];

    if (fr_reduce_is_sum(in)) {
        for (int p = 0; p < fr_parts(d); p++)
            W("%st.%s = %s;\n", w->indent, fr_names_make("", "v", i, d).s[p], v.s[p]);
        return;
    }
    if (!fr_reduce_is_index(in)) {
        if (in->op == FR_OP_prod && fr_dtype_is_complex(d))
            write_plain_product(w, d, args, &next);
        else
            fr_write_op(w, fr_op_info[in->op].combine, d, args, &next, next.s[0]);
        write_store(w, d, &acc, &next, "");
        return;
    }
    acc = fr_names_make("a->", "m", i, d);
    snprintf(name, sizeof name, "n%d", i);
    write_better(w, in, d, &v, &acc, name);
    W("%sif (n%d | (a->v%d < 0)) {\n", w->indent, i, i);
    for (int p = 0; p < fr_parts(d); p++)
        W("%s    %s = %s;\n", w->indent, acc.s[p], v.s[p]);
    W("%s    a->v%d = j;\n%s}\n", w->indent, i, w->indent);
}

static const char *
local(const struct fr_writer *w)
{
    return w->dialect == FR_DIALECT_CUDA ? "static __device__ " : "static ";
}

static void
write_sum_functions(struct fr_writer *w, const struct fr_pass *pass)
{
    const char *tag = pass->tag;

    W("\n%sinline struct sums_%s\nzero_%s(void)\n{\n    struct sums_%s t;\n\n", local(w), tag, tag,
      tag);
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const fr_dtype  d = fr_reduce_dtype(w->nest, &w->nest->insts[i]);
        struct fr_names t = fr_names_make("t.", "v", (int)i, d);

        if (pass->roots[i] && fr_reduce_is_sum(&w->nest->insts[i]))
            for (int p = 0; p < fr_parts(d); p++)
                W("    %s = %s;\n", t.s[p],
                  d == FR_F32 || d == FR_C64    ? "-0.0f"
                  : d == FR_F64 || d == FR_C128 ? "-0.0"
                                                : "0");
    }
    W("    return t;\n}\n\n%sinline struct sums_%s\nadd_%s(struct sums_%s a, struct sums_%s b)\n{\n"
      "    struct sums_%s t;\n\n",
      local(w), tag, tag, tag, tag, tag);
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const fr_dtype  d = fr_reduce_dtype(w->nest, &w->nest->insts[i]);
        struct fr_names args[2] = {fr_names_make("a.", "v", (int)i, d),
                                   fr_names_make("b.", "v", (int)i, d)};
        struct fr_names sum = fr_names_make("", "n", (int)i, d),
                        t = fr_names_make("t.", "v", (int)i, d);

        if (pass->roots[i] && fr_reduce_is_sum(&w->nest->insts[i])) {
            w->indent = "    ";
            fr_write_op(w, FR_OP_add, d, args, &sum, sum.s[0]);
            write_store(w, d, &t, &sum, "");
        }
    }
    W("    return t;\n}\n");
}

void
fr_write_element(struct fr_writer *w, const struct fr_pass *pass)
{
    const struct fr_nest *nest = w->nest;
    const char           *tag = pass->tag;

    if (pass->has_accs)
        write_parts_struct(w, pass, false);
    if (pass->has_sums)
        write_parts_struct(w, pass, true);
    W("\n/* Stage %d at element j. */\n%sinline ", pass->stage, local(w));
    if (pass->has_sums)
        W("struct sums_%s\n", tag);
    else
        W("void\n");
    W("element_%s(const struct row *r, int64_t j", tag);
    if (pass->has_accs)
        W(", struct accs_%s *a", tag);
    W(")\n{\n");
    if (pass->has_sums)
        W("    struct sums_%s t;\n", tag);
    w->indent = "    ";
    w->row = "r->";
    w->element = true;
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        struct fr_names       v = fr_names_make("", "v", (int)i, in->dtype), b;

        for (int p = 0; p < 2; p++)
            if (fr_parts(in->dtype) == 2)
                snprintf(b.s[p], sizeof b.s[p], "r->b%u[2 * j + %d]", i, p);
            else
                snprintf(b.s[p], sizeof b.s[p], "r->b%u[j]", i);
        if (pass->reads[i])
            write_load(w, in->dtype, &v, &b);
        if (!pass->runs[i])
            continue;
        if (in->kind == FR_INST_REDUCE)
            write_take(w, (int)i);
        else
            write_inst(w, (int)i);
        if (pass->rowbuf && fr_nest_crosses(nest, (int)i))
            write_store(w, in->dtype, &b, &v, "");
    }
    w->element = false;
    if (pass->has_sums)
        W("    return t;\n");
    W("}\n");
    if (pass->has_sums)
        write_sum_functions(w, pass);
}

/* The bits of the number with which a reduction begins. */
static uint64_t
identity(const struct fr_inst *in, fr_dtype d, int part)
{
    const fr_dtype m = fr_dtype_info[d].component;
    const int      bits = 8 * fr_dtype_size(m);
    const bool     low = in->op == FR_OP_max || in->op == FR_OP_any;
    const uint64_t ones = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
    uint64_t       inf = m == FR_F16 ? 0x7c00 : m == FR_F32 ? 0x7f800000 : 0x7ff0000000000000ull;
    uint64_t       one = m == FR_F32 ? 0x3f800000 : m == FR_F64 ? 0x3ff0000000000000ull : 1;

    if (in->op == FR_OP_prod)
        return part ? 0 : one;
    switch (fr_dtype_kind(m)) {
    case 'b':
        return !low;
    case 'f':
        return low ? inf | 1ull << (bits - 1) : inf;
    case 'i':
        return low ? 1ull << (bits - 1) : ones >> 1;
    default:
        return low ? 0 : ones;
    }
}

void
fr_write_accs(struct fr_writer *w, const struct fr_pass *pass)
{
    if (!pass->has_accs)
        return;
    W("%sstruct accs_%s a%s;\n", w->indent, pass->tag, pass->tag);
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        fr_dtype              d;

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE || fr_reduce_is_sum(in))
            continue;
        d = fr_reduce_dtype(w->nest, in);
        for (int p = 0; p < fr_parts(d); p++) {
            W("%sa%s.%s = ", w->indent, pass->tag,
              fr_names_make("", fr_reduce_is_index(in) ? "m" : "v", (int)i, d).s[p]);
            fr_text_const(&w->text, fr_text_machine(d),
                          fr_reduce_is_index(in) ? 0 : identity(in, d, p));
            W(";\n");
        }
        if (fr_reduce_is_index(in))
            W("%sa%s.v%u = -1;\n", w->indent, pass->tag, i);
    }
}

void
fr_write_results(struct fr_writer *w, const struct fr_pass *pass)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        const fr_dtype        d = fr_reduce_is_index(in) ? FR_I64 : fr_reduce_dtype(w->nest, in);
        const bool            sum = fr_reduce_is_sum(in);
        const bool            narrow = d != in->dtype;
        struct fr_names       from, to;
        char                  of[16];

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE)
            continue;
        snprintf(of, sizeof of, "%s%s.", sum ? "t" : "a", pass->tag);
        from = fr_names_make(of, "v", (int)i, d);
        to = fr_names_make("", narrow ? "x" : "v", (int)i, d);
        for (int p = 0; p < fr_parts(d); p++)
            W("%sconst %s %s = %s%s;\n", w->indent, part_type(d), to.s[p],
              !sum                          ? ""
              : d == FR_F32 || d == FR_C64  ? "0.0f + "
              : d == FR_F64 || d == FR_C128 ? "0.0 + "
                                            : "",
              from.s[p]);
        if (narrow) {
            from = fr_names_make("", "v", (int)i, in->dtype);
            write_cast(w, d, in->dtype, &to, &from, from.s[0]);
        }
        share(w, (int)i);
    }
}

void
fr_write_join(struct fr_writer *w, const struct fr_pass *pass)
{
    w->indent = "    ";
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        const fr_dtype        d = fr_reduce_dtype(w->nest, in);
        const char           *letter = fr_reduce_is_index(in) ? "m" : "v";
        struct fr_names       args[2], n = fr_names_make("", "n", (int)i, d);
        char                  to[24], from[24];

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE || fr_reduce_is_sum(in))
            continue;
        args[0] = fr_names_make("a->", letter, (int)i, d);
        args[1] = fr_names_make("b.", letter, (int)i, d);
        if (!fr_reduce_is_index(in)) {
            fr_write_op(w, fr_op_info[in->op].combine, d, args, &n, n.s[0]);
            write_store(w, d, &args[0], &n, "");
            continue;
        }
        snprintf(from, sizeof from, "n%u", i);
        snprintf(to, sizeof to, "k%u", i);
        write_better(w, in, d, &args[1], &args[0], from);
        write_better(w, in, d, &args[0], &args[1], to);
        W("    if (b.v%u >= 0 && (a->v%u < 0 || %s || (!%s && b.v%u < a->v%u))) {\n", i, i, from,
          to, i, i);
        for (int p = 0; p < fr_parts(d); p++)
            W("        %s = %s;\n", args[0].s[p], args[1].s[p]);
        W("        a->v%u = b.v%u;\n    }\n", i, i);
    }
}

/* ---- the C file ---------------------------------------------------------------------------- */

/* NumPy's pairwise order over elements [j, j + n). */
static void
write_tree(struct fr_writer *w, const struct fr_pass *pass)
{
    const char *tag = pass->tag, *accs = pass->has_accs ? ", a" : "";
    const int   lanes = pass->complex_tree ? 4 : 8;

    W("\n/* Sums of elements [j, j + n) in NumPy's order: halves down to %d elements, %d running "
      "sums"
      " there. */\nstatic struct sums_%s\ntree_%s(const struct row *r, int64_t j, int64_t n",
      16 * lanes, lanes, tag, tag);
    if (pass->has_accs)
        W(", struct accs_%s *a", tag);
    W(")\n{\n    const int64_t whole = n < %d ? 0 : n - n %% %d;\n    struct sums_%s t, s[%d];\n\n",
      lanes, lanes, tag, lanes);
    W("    if (n > %d) {\n        const int64_t half = %s;\n\n", 16 * lanes,
      pass->complex_tree ? "(n - n % 8) / 2" : "n / 2 - n / 2 % 8");
    W("        t = tree_%s(r, j, half%s);\n", tag, accs);
    W("        return add_%s(t, tree_%s(r, j + half, n - half%s));\n    }\n", tag, tag, accs);
    W("    for (int k = 0; k < %d; k++)\n        s[k] = zero_%s();\n", lanes, tag);
    W("    for (int64_t i = 0; i < whole; i += %d)\n        for (int k = 0; k < %d; k++)\n"
      "            s[k] = add_%s(s[k], element_%s(r, j + i + k%s));\n",
      lanes, lanes, tag, tag, accs);
    W("    for (int k = 1; k < %d; k *= 2)\n        for (int i = 0; i < %d; i += 2 * k)\n"
      "            s[i] = add_%s(s[i], s[i + k]);\n    t = s[0];\n",
      lanes, lanes, tag);
    W("    for (int64_t i = whole; i < n; i++)\n        t = add_%s(t, element_%s(r, j + i%s));\n"
      "    return t;\n}\n",
      tag, tag, accs);
}

/* The walk of a pass over elements [from, from + n). */
static void
write_walk(struct fr_writer *w, const struct fr_pass *pass, const char *from, const char *n)
{
    const char *tag = pass->tag;

    if (pass->has_sums) {
        W("%sconst struct sums_%s t%s = tree_%s(&r, %s, %s", w->indent, tag, tag, tag, from, n);
        if (pass->has_accs)
            W(", &a%s", tag);
        W(");\n");
        return;
    }
    W("%sfor (int64_t j = %s; j < %s%s%s; j++)\n%s    element_%s(&r, j", w->indent, from,
      *from == '0' ? "" : from, *from == '0' ? "" : " + ", n, w->indent, tag);
    if (pass->has_accs)
        W(", &a%s", tag);
    W(");\n");
}

/* Whether `name` occurs in s as a word of its own. */
static bool
mentions(const char *s, const char *name)
{
    static const char letters[] = "_abcdefghijklmnopqrstuvwxyz";

    for (const char *p = s; (p = strstr(p, name)) != NULL; p++) {
        char before = p > s ? p[-1] : ' ', after = p[strlen(name)];

        if (!strchr(letters, before) && !strchr(letters, after))
            return true;
    }
    return false;
}

/* Ends a function that began at `start`; parameters that it does not use are named for the
 * compiler. */
static void
write_end(struct fr_writer *w, size_t start, const char *const *params)
{
    for (; *params; params++)
        if (w->text.s && !mentions(w->text.s + start, *params))
            W("    (void)%s;\n", *params);
    W("}\n");
}

static void
write_c_maps(struct fr_writer *w)
{
    w->indent = "    ";
    fr_write_scalars(w, NULL, false);
    W("    for (int64_t row = 0; row < n_rows; row++) {\n");
    w->indent = "        ";
    fr_write_operands(w, true, "row");
    fr_write_row(w, 0);
    W("        for (int64_t j = 0; j < n_inner; j++) {\n");
    w->indent = "            ";
    fr_write_body(w);
    W("        }\n");
    w->indent = "        ";
    fr_write_row(w, 1);
    W("    }\n");
}

static void
write_c_rows(struct fr_writer *w)
{
    struct fr_pass pass;

    w->indent = "    ";
    w->row = "r.";
    W("    struct row r;\n\n");
    fr_write_scalars(w, NULL, true);
    fr_write_rowbufs(w, "scratch");
    W("    for (int64_t row = 0; row < n_rows; row++) {\n");
    w->indent = "        ";
    fr_write_operands(w, false, "row");
    for (int s = 0; s < w->nest->n_stages; s++) {
        fr_write_row(w, s);
        for (int kind = 0; kind <= FR_PASS_MAIN; kind++)
            if (fr_pass_find(w, s, (enum fr_pass_kind)kind, true, &pass)) {
                fr_write_accs(w, &pass);
                write_walk(w, &pass, "0", "n_inner");
                fr_write_results(w, &pass);
            }
    }
    fr_write_row(w, w->nest->n_stages);
    W("    }\n");
}

/* "slots[4].v.f32[0]" of a ROW value, or of the partial result of a reduction. */
static struct fr_names
slot_names(const char *slots, int inst, fr_dtype d)
{
    struct fr_names n;
    const fr_dtype  m = fr_text_machine(d);

    for (int p = 0; p < 2; p++)
        snprintf(n.s[p], sizeof n.s[p], "%s[%d].v.%s[%d]", slots, inst,
                 m == FR_BOOL ? "u8" : fr_dtype_code(m), p);
    return n;
}

static void
write_slot_struct(struct fr_writer *w)
{
    W("\n/* A value of a row, or the partial result of a reduction. */\nstruct slot {\n"
      "    union {\n        int8_t i8[1]; int16_t i16[1]; int32_t i32[1]; int64_t i64[2];\n"
      "        uint8_t u8[16]; uint16_t u16[1]; uint32_t u32[1]; uint64_t u64[1];\n"
      "        float f32[2]; double f64[2];\n    } v;\n    int64_t index, pad;\n};\n");
}

/* Elements [j0, j0 + n) of a long row, stage s: partial results to slots_out. */
static void
write_stage_fn(struct fr_writer *w, int s, bool rowbuf)
{
    const struct fr_nest *nest = w->nest;
    struct fr_pass        pass;
    uint8_t               runs[FR_MAX_INSTS];
    size_t                start;

    W("\nstatic void\nstage_%d(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t "
      "n,\n"
      "        const void *scalars, const struct slot *slots, struct slot *slots_out, void "
      "*scratch)\n"
      "{\n",
      s);
    start = w->text.n;
    W("    struct row r;\n\n");
    w->indent = "    ";
    w->row = "r.";
    fr_nest_stage_runs(nest, s, rowbuf, runs);
    fr_write_scalars(w, runs, true);
    fr_write_operands(w, false, NULL);
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        struct fr_names       r = fr_names_make("r.", "v", (int)i, in->dtype);
        struct fr_names       slot = slot_names("slots", (int)i, in->dtype);

        if (in->level == FR_LEVEL_ROW && in->stage <= s && is_shared(nest, (int)i))
            for (int p = 0; p < fr_parts(in->dtype); p++)
                W("    %s = %s;\n", r.s[p], slot.s[p]);
    }
    for (int kind = 0; kind <= FR_PASS_MAIN; kind++) {
        if (!fr_pass_find(w, s, (enum fr_pass_kind)kind, rowbuf, &pass))
            continue;
        fr_write_accs(w, &pass);
        write_walk(w, &pass, "j0", "n");
        for (uint32_t i = 0; i < nest->n_insts; i++) {
            const struct fr_inst *in = &nest->insts[i];
            const fr_dtype        d = fr_reduce_dtype(nest, in);
            struct fr_names       slot = slot_names("slots_out", (int)i, d), part;
            char                  of[16];

            if (!pass.roots[i] || in->kind != FR_INST_REDUCE)
                continue;
            snprintf(of, sizeof of, "%s%s.", fr_reduce_is_sum(in) ? "t" : "a", pass.tag);
            part = fr_names_make(of, fr_reduce_is_index(in) ? "m" : "v", (int)i, d);
            write_store(w, d, &slot, &part, "");
            if (fr_reduce_is_index(in))
                W("    slots_out[%u].index = %sv%u;\n", i, of, i);
        }
    }
    write_end(w, start,
              (const char *const[]){"ptr", "inner_stride", "scalars", "slots", "slots_out",
                                    "scratch", NULL});
}

/* The ROW instructions of one stage, from slots to slots. */
static void
write_mid_fn(struct fr_writer *w, int s)
{
    const struct fr_nest *nest = w->nest;
    uint8_t               users[FR_MAX_INSTS];
    size_t                start;

    W("\nstatic void\nmid_%d(char *const *ptr, const void *scalars, struct slot *slots)\n{\n", s);
    start = w->text.n;
    w->indent = "    ";
    w->row = "";
    for (uint32_t i = 0; i < nest->n_insts; i++)
        users[i] = nest->insts[i].level == FR_LEVEL_ROW && nest->insts[i].stage == s;
    fr_write_scalars(w, users, false);
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        bool mine = in->level == FR_LEVEL_ROW && in->stage == s && in->kind != FR_INST_REDUCE;
        struct fr_names v = fr_names_make("", "v", (int)i, in->dtype);
        struct fr_names slot = slot_names("slots", (int)i, in->dtype);
        bool            used = mine;

        for (uint32_t u = i + 1; u < nest->n_insts && !used; u++) {
            const struct fr_inst *user = &nest->insts[u];

            for (int k = 0; k < n_args(user) && user->kind != FR_INST_REDUCE; k++)
                used |= user->a[k] == i && user->level == FR_LEVEL_ROW && user->stage == s;
        }
        if (in->level != FR_LEVEL_ROW || !used)
            continue;
        if (!mine) {
            write_load(w, in->dtype, &v, &slot);
        } else {
            if (in->kind == FR_INST_LOAD || in->kind == FR_INST_STORE) {
                const struct fr_operand *o = &nest->operands[in->operand];
                const char              *konst = o->flags & FR_OPERAND_WRITTEN ? "" : "const ";

                W("    %s%s *const p%d = (%s%s *)ptr[%d];\n", konst, part_memory_type(o->dtype),
                  in->operand, konst, part_memory_type(o->dtype), in->operand);
            } else if (in->kind == FR_INST_IOTA) {
                W("    const int64_t p%d = (int64_t)ptr[%d];\n", in->operand, in->operand);
            }
            write_inst(w, (int)i);
            if (in->kind != FR_INST_STORE)
                write_store(w, in->dtype, &slot, &v, "");
        }
    }
    write_end(w, start, (const char *const[]){"ptr", "scalars", "slots", NULL});
}

static void
write_elements(struct fr_writer *w, bool rowbuf)
{
    struct fr_pass pass;

    for (int s = 0; s < w->nest->n_stages; s++)
        for (int kind = 0; kind <= FR_PASS_MAIN; kind++)
            if (fr_pass_find(w, s, (enum fr_pass_kind)kind, rowbuf, &pass)) {
                fr_write_element(w, &pass);
                if (pass.has_sums)
                    write_tree(w, &pass);
            }
}

static void
write_c(struct fr_writer *w)
{
    const struct fr_nest *nest = w->nest;
    const bool            stages = fr_has_stages(nest);
    size_t                start;

    if (stages) {
        fr_write_row_struct(w);
        write_elements(w, true);
    }
    W("\nvoid\nfrit_rows(char *const *ptr, const int64_t *row_stride, const int64_t "
      "*inner_stride,\n"
      "          int64_t n_rows, int64_t n_inner, const void *scalars, void *scratch)\n{\n");
    start = w->text.n;
    if (stages)
        write_c_rows(w);
    else
        write_c_maps(w);
    write_end(w, start,
              (const char *const[]){"ptr", "row_stride", "inner_stride", "n_inner", "scalars",
                                    "scratch", NULL});
    if (!(nest->flags & FR_NEST_REDUCES))
        return;
    W("\n/* ---- long rows, cut into ranges of elements ---- */\n");
    write_slot_struct(w);
    if (fr_nest_scratch(nest))
        write_elements(w, false);
    for (int s = 0; s < nest->n_stages; s++)
        write_stage_fn(w, s, false);
    for (int s = 0; s <= nest->n_stages; s++)
        write_mid_fn(w, s);
    W("\nvoid (*const frit_stages[])(void) = {\n");
    for (int s = 0; s < nest->n_stages; s++)
        W("    (void (*)(void))stage_%d,\n", s);
    for (int s = 0; s <= nest->n_stages; s++)
        W("    (void (*)(void))mid_%d,\n", s);
    W("};\n");
}

/* The nest itself, as a comment. */
static void
write_comment(struct fr_text *out, const struct fr_nest *nest)
{
    int   n = fr_nest_print(nest, NULL, 0);
    char *s = fr_malloc((size_t)n + 1);

    if (!s) {
        out->st = FR_ENOMEM;
        return;
    }
    fr_nest_print(nest, s, (size_t)n + 1);
    fr_text_add(out, "/*\n");
    for (char *p = s; *p;) {
        char *end = p + strcspn(p, "\n");

        fr_text_add(out, " * %.*s\n", (int)(end - p), p);
        p = *end ? end + 1 : end;
    }
    fr_text_add(out, " */\n");
    fr_free(s);
}

fr_status
fr_text_nest(struct fr_text *out, const struct fr_nest *nest, enum fr_dialect dialect,
             struct fr_err *err)
{
    struct fr_writer w = {
        .nest = nest, .dialect = dialect, .indent = "", .row = "", .guard = "", .err = err};
    fr_status st;

    TRY(fr_nest_verify(nest, err));
    if (dialect == FR_DIALECT_C)
        write_c(&w);
    else
        fr_write_cuda(&w);
    TRY(w.st);
    write_comment(out, nest);
    fr_text_head(out, dialect, w.text.helpers);
    fr_text_add(out, "\n#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))\n%s",
                w.text.s ? w.text.s : "");
    if (w.text.st != FR_OK || out->st != FR_OK)
        st = fr_fail(err, w.text.st != FR_OK ? w.text.st : out->st,
                     "text of a nest of %u instructions", nest->n_insts);
out:
    fr_text_clear(&w.text);
    return st;
}
