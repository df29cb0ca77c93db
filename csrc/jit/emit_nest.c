/* jit/emit_nest.c -- nests as source text: the parts that C (emit_c.c) and CUDA C (emit_cuda.c)
 * share. */
#include "jit/emit_nest.h"

#include <stdio.h>
#include <string.h>

#include "jit/emit_cuda.h"
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
struct fr_names
fr_value_names(const struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];

    return fr_names_make(w->element && in->level != FR_LEVEL_FULL ? w->row : "", "v", i, in->dtype);
}

/* ---- recipes ------------------------------------------------------------------------------ */

/* Declares an argument as inputs of the recipe. */
static struct fr_mnum
input(struct fr_mcode *code, fr_dtype d, const struct fr_names *n, const char **inputs, int *n_inputs)
{
    struct fr_mnum v = {0};

    for (int p = 0; p < fr_parts(d); p++) {
        fr_mval m = fr_m_emit(code, FR_M_INPUT, fr_machine_type(d), 0, 0, 0, (uint64_t)*n_inputs);

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
    struct fr_text_lines lines = {w->indent, prefix, inputs, roots, names, fr_parts(d), false, 0};

    fr_text_micro(&w->text, code, &lines);
}

/* The same of what a recipe has written, or why it has not: `what` it is and the dtype `of` it. Ends the code. */
static void
write_recipe(struct fr_writer *w, fr_status st, struct fr_mcode *code, struct fr_mnum r, fr_dtype d, const char **inputs,
             const struct fr_names *result, const char *prefix, const char *what, fr_dtype of)
{
    st = st == FR_OK ? code->st : st;
    if (st == FR_OK)
        write_micro(w, code, r, d, inputs, result, prefix);
    else if (w->st == FR_OK)
        w->st = fr_fail(w->err, st, "no text for %s of %s: %s", what, fr_dtype_code(of), fr_status_text(st));
    fr_mcode_clear(code);
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
    write_recipe(w, st, &code, out, fr_op_result(op, compute), inputs, result, prefix, fr_op_info[op].name, compute);
}

/* Within a row NumPy multiplies complex numbers without fma, which its element-wise loops have. */
void
fr_write_plain_product(struct fr_writer *w, fr_dtype d, const struct fr_names *args, const struct fr_names *result)
{
    struct fr_mcode code = {0};
    const fr_dtype  t = fr_machine_type(d);
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

void
fr_write_cast(struct fr_writer *w, fr_dtype from, fr_dtype to, const struct fr_names *arg,
              const struct fr_names *result, const char *prefix)
{
    struct fr_mcode code = {0};
    struct fr_mnum  out = {0};
    const char     *inputs[2];
    int             n_inputs = 0;
    fr_status       st;

    st = fr_recipe_cast(&code, from, to, input(&code, from, arg, inputs, &n_inputs), &out);
    write_recipe(w, st, &code, out, to, inputs, result, prefix, "a cast", from);
}

/* `arg` of dtype `from` as a new name, when it has to become `to` first. */
struct fr_names
fr_write_converted(struct fr_writer *w, fr_dtype from, fr_dtype to, struct fr_names arg, int inst)
{
    struct fr_names n = fr_names_make("", "x", inst, to);

    if (from == to)
        return arg;
    fr_write_cast(w, from, to, &arg, &n, n.s[0]);
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
        else if (w->tile && o->schedule & FR_SCHEDULE_TURNED_ANY)
            fr_name_turned(w, k, p, n.s[p], sizeof n.s[p]);
        else if (w->vector && o->access == FR_ACCESS_UNIT)
            snprintf(n.s[p], sizeof n.s[p], fr_parts(o->dtype) == 2 ? "q%d.v[2 * v + %d]" : "q%d.v[v]", k, p);
        else if (o->access == FR_ACCESS_STRIDED)
            snprintf(n.s[p], sizeof n.s[p], "AT(%s%s, %sp%d, j * %si%d)[%d]",
                     o->flags & FR_OPERAND_WRITTEN ? "" : "const ", fr_part_memory_type(o->dtype),
                     w->row, k, w->row, k, p);
        else if (o->access >= FR_ACCESS_BACK)
            snprintf(n.s[p], sizeof n.s[p], "%sp%d[%d + %d * j]", w->row, k, p,
                     fr_parts(o->dtype) * fr_access_step(o->access));
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
        const char              *type = fr_part_memory_type(o->dtype);
        char                     at[128] = "";
        bool                     seen = false;

        for (uint32_t e = 0; e < i; e++)
            seen |= w->nest->insts[e].operand == k && fr_inst_has_operand(&w->nest->insts[e]);
        if (seen || !fr_inst_has_operand(in))
            continue;
        if (w->tile && (o->schedule & FR_SCHEDULE_TURNED_ANY || (w->vector && fr_cuda_is_vector(w->nest, k))))
            continue;   /* it is in shared memory, or in registers */
        if (row)
            snprintf(at, sizeof at, " + %s * row_stride[%d]", row, k);
        if (w->tile && fr_cuda_has_deep_tiles(w->nest))
            snprintf(at + strlen(at), sizeof at - strlen(at), " + deep * g.outer_stride[%d][g.n_outer]", k);
        if (in->kind == FR_INST_IOTA)
            W("%s%s%sp%d = (int64_t)ptr[%d]%s;\n", w->indent, declare ? "const int64_t " : "",
              w->row, k, k, at);
        else if (o->access == FR_ACCESS_STRIDED)
            W("%s%s%sp%d = ptr[%d]%s;\n", w->indent, declare ? "char *const " : "", w->row, k, k,
              at);
        else if (declare)
            W("%s%s%s *const %sp%d = (%s%s *)(ptr[%d]%s);\n", w->indent, konst, type, w->row, k, konst, type, k, at);
        else
            W("%s%sp%d = (%s%s *)(ptr[%d]%s);\n", w->indent, w->row, k, konst, type, k, at);
        if (in->level == FR_LEVEL_FULL && (in->kind == FR_INST_IOTA || o->access == FR_ACCESS_STRIDED))
            W("%s%s%si%d = inner_stride[%d];\n", w->indent, declare ? "const int64_t " : "", w->row,
              k, k);
    }
}

/* ---- instructions ------------------------------------------------------------------------- */

void
fr_write_load(struct fr_writer *w, fr_dtype d, const struct fr_names *value, const struct fr_names *mem)
{
    for (int p = 0; p < fr_parts(d); p++)
        W("%sconst %s %s = %s%s;\n", w->indent, fr_part_type(d), value->s[p], mem->s[p],
          d == FR_BOOL ? " != 0" : "");
}

void
fr_write_store(struct fr_writer *w, fr_dtype d, const struct fr_names *mem,
               const struct fr_names *value, const char *guard)
{
    for (int p = 0; p < fr_parts(d); p++)
        W("%s%s%s = %s;\n", w->indent, guard, mem->s[p], value->s[p]);
}

/* operand = combine(operand, value). In C the launcher has filled the operand. In CUDA C a thread has the accumulators of its
 * column as c5, or leaves the value for the one that has; where rows have stages the first value of all finds the identity in the operand's place. */
static void
write_accum(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    const bool            cuda = w->dialect == FR_DIALECT_CUDA, in_memory = !cuda || *w->row;
    struct fr_names       mem = element_names(w, in->operand, in->level), args[2], sum;

    args[0] = fr_names_make("", in_memory ? "m" : "c", i, in->dtype);
    args[1] = fr_write_converted(w, w->nest->insts[in->a[0]].dtype, in->dtype, fr_value_names(w, in->a[0]), i);
    sum = fr_names_make("", "n", i, in->dtype);
    for (int p = 0; cuda && in_memory && p < fr_parts(in->dtype); p++) {
        W("%sconst %s %s = r->first && !r->begun[%d] ? ", w->indent, fr_part_type(in->dtype), args[0].s[p], in->operand);
        fr_text_const(&w->text, fr_machine_type(in->dtype), fr_op_identity(in->op, in->dtype, p));
        W(" : %s%s;\n", mem.s[p], in->dtype == FR_BOOL ? " != 0" : "");
    }
    if (!cuda)
        fr_write_load(w, in->dtype, &args[0], &mem);
    if (cuda && !in_memory && fr_cuda_has_lines(w->nest)) {
        struct fr_names line = fr_names_line(i, in->dtype);

        W("#if SPLIT == 2\n");
        fr_write_store(w, in->dtype, &line, &args[1], "");
        W("#else\n");
    }
    fr_write_op(w, fr_op_info[in->op].combine, in->dtype, args, &sum, sum.s[0]);
    fr_write_store(w, in->dtype, in_memory ? &mem : &args[0], &sum, "");
    if (cuda && !in_memory && fr_cuda_has_lines(w->nest))
        W("#endif\n");
}

/* Declares the accumulators of a column, with what they begin with; or puts them into memory. */
void
fr_write_column(struct fr_writer *w, bool ends)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        struct fr_names       c = fr_names_make("", "c", (int)i, in->dtype);

        if (in->kind != FR_INST_ACCUM)
            continue;
        for (int p = 0; p < fr_parts(in->dtype); p++) {
            char mem[80];

            snprintf(mem, sizeof mem, "AT(%s, ptr[%d], j * inner_stride[%d])[%d]", fr_part_memory_type(in->dtype), in->operand, in->operand, p);
            if (ends) {
                W("%s%s = %s;\n", w->indent, mem, c.s[p]);
                continue;
            }
            W("%s%s %s = BEGUN(%d) ? %s%s : ", w->indent, fr_part_type(in->dtype), c.s[p], in->operand, mem, in->dtype == FR_BOOL ? " != 0" : "");
            fr_text_const(&w->text, fr_machine_type(in->dtype), fr_op_identity(in->op, in->dtype, p));
            W(";\n");
        }
    }
}

static void
write_op_inst(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       args[3], result = fr_names_make("", "v", i, in->dtype);
    char                  prefix[16];

    snprintf(prefix, sizeof prefix, "v%d", i);
    for (int k = 0; k < 3; k++)
        args[k] = fr_value_names(w, in->a[k]);
    if (in->op == FR_OP_cast)
        fr_write_cast(w, w->nest->insts[in->a[0]].dtype, in->dtype, args, &result, prefix);
    else
        fr_write_op(w, in->op, fr_nest_compute(w->nest, i), args, &result, prefix);
}

/* Any instruction but REDUCE, as lines at its own level. */
void
fr_write_inst(struct fr_writer *w, int i)
{
    const struct fr_inst *in = &w->nest->insts[i];
    struct fr_names       value = fr_names_make("", "v", i, in->dtype), mem, arg;

    switch (in->kind) {
    case FR_INST_LOAD:
        mem = element_names(w, in->operand, in->level);
        fr_write_load(w, in->dtype, &value, &mem);
        break;
    case FR_INST_SCALAR:
        for (int p = 0; p < fr_parts(in->dtype); p++)
            W("%sconst %s %s = AT(const %s, scalars, %d)[%d]%s;\n", w->indent,
              fr_part_type(in->dtype), value.s[p], fr_part_memory_type(in->dtype), 16 * in->operand,
              p, in->dtype == FR_BOOL ? " != 0" : "");
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
        arg = fr_value_names(w, in->a[0]);
        fr_write_store(w, in->dtype, &mem, &arg, in->level == FR_LEVEL_ROW ? w->guard : "");
        break;
    case FR_INST_ACCUM:
        write_accum(w, i);
        break;
    }
}

/* Whether FULL code reads this SCALAR or ROW value, so that struct row has to hold it. */
bool
fr_is_shared(const struct fr_nest *nest, int i)
{
    for (uint32_t u = (uint32_t)i + 1; u < nest->n_insts; u++) {
        const struct fr_inst *in = &nest->insts[u];

        for (int k = 0; k < fr_nest_n_args(in); k++)
            if (in->a[k] == i && in->level == FR_LEVEL_FULL)
                return true;
    }
    return false;
}

/* Copies a value that was just made into struct row. */
void
fr_write_share(struct fr_writer *w, int i)
{
    const fr_dtype  d = w->nest->insts[i].dtype;
    struct fr_names n = fr_names_make("", "v", i, d), shared = fr_names_make("r.", "v", i, d);

    if (fr_is_shared(w->nest, i))
        fr_write_store(w, d, &shared, &n, "");
}

void
fr_write_scalars(struct fr_writer *w, const uint8_t *users, bool sharing)
{
    uint8_t need[FR_MAX_INSTS] = {0};

    for (uint32_t i = w->nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = &w->nest->insts[i];

        if (need[i] || !users || users[i])
            for (int k = 0; k < fr_nest_n_args(in); k++)
                need[in->a[k]] |= w->nest->insts[in->a[k]].level == FR_LEVEL_SCALAR;
    }
    for (uint32_t i = 0; i < w->nest->n_insts; i++)
        if (need[i]) {
            fr_write_inst(w, (int)i);
            if (sharing)
                fr_write_share(w, (int)i);
        }
}

static bool
runs_in_row(const struct fr_nest *nest, uint32_t i, int stage)
{
    const struct fr_inst *in = &nest->insts[i];

    return in->level == FR_LEVEL_ROW && in->stage == stage && in->kind != FR_INST_REDUCE;
}

void
fr_write_row(struct fr_writer *w, int stage)
{
    const struct fr_nest *nest = w->nest;
    bool                  waits = w->dialect == FR_DIALECT_CUDA && *w->row;   /* all threads of a block have a row */

    for (uint32_t k = 0; k < 2 * nest->n_insts; k++) {
        const uint32_t i = k % nest->n_insts;

        if (!runs_in_row(nest, i, stage) || !fr_is_its_turn(nest, k))
            continue;
        if (nest->insts[i].kind == FR_INST_STORE && waits) {
            W("%sSYNC();\n", w->indent);   /* every thread has loaded what one of them writes over */
            waits = false;
        }
        fr_write_inst(w, (int)i);
        if (nest->insts[i].kind != FR_INST_STORE && *w->row)
            fr_write_share(w, (int)i);
    }
}

void
fr_write_body(struct fr_writer *w)
{
    uint8_t runs[FR_MAX_INSTS];

    fr_nest_stage_runs(w->nest, 0, true, runs);
    for (uint32_t k = 0; k < 2 * w->nest->n_insts; k++)
        if (runs[k % w->nest->n_insts] && fr_is_its_turn(w->nest, k))
            fr_write_inst(w, (int)(k % w->nest->n_insts));
}
