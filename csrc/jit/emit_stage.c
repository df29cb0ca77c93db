/* jit/emit_stage.c -- the stages of a row in text: passes, what they share, what reductions take
 * in. */
#include "jit/emit_nest.h"

#include <stdio.h>
#include <string.h>

fr_dtype
fr_reduce_dtype(const struct fr_nest *nest, const struct fr_inst *in)
{
    if (fr_op_finds_index(in->op))
        return nest->insts[in->a[0]].dtype;
    return in->dtype == FR_F16 && fr_op_info[in->op].rule == FR_RULE_SUM ? FR_F32 : in->dtype;
}

bool
fr_reduce_is_sum(const struct fr_inst *in)
{
    return in->kind == FR_INST_REDUCE && in->op == FR_OP_sum && (fr_dtype_is_float(in->dtype) || fr_dtype_is_complex(in->dtype));
}

bool
fr_reduce_is_ordered(const struct fr_inst *in)
{
    return in->kind == FR_INST_REDUCE && in->op == FR_OP_prod && (fr_dtype_is_float(in->dtype) || fr_dtype_is_complex(in->dtype));
}

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
              fr_part_memory_type(o->dtype), k);
    }
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        struct fr_names       n = fr_names_make("", "v", (int)i, in->dtype);

        if (fr_nest_crosses(w->nest, (int)i))
            W("    %s *b%u;\n", fr_part_memory_type(in->dtype), i);
        if (in->level != FR_LEVEL_FULL && in->kind != FR_INST_STORE && fr_is_shared(w->nest, (int)i))
            for (int p = 0; p < fr_parts(in->dtype); p++)
                W("    %s %s;\n", fr_part_type(in->dtype), n.s[p]);
    }
    if (w->dialect == FR_DIALECT_CUDA && fr_nest_accumulates(w->nest))
        W("    bool first;\n    const int64_t *begun;\n");
    W("};\n");
}

void
fr_write_rowbufs(struct fr_writer *w, const char *scratch)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        size_t at = fr_nest_rowbuf(w->nest, (int)i);

        if (at != SIZE_MAX)
            W("%s%sb%u = AT(%s, %s, %zu);\n", w->indent, w->row, i,
              fr_part_memory_type(w->nest->insts[i].dtype), scratch, at);
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
        if (fr_reduce_is_ordered(in) && w->dialect == FR_DIALECT_CUDA)
            return FR_PASS_PROD;
        return FR_PASS_MAIN;
    }
    return fr_inst_writes(in) && in->level == FR_LEVEL_FULL && in->stage == stage ? FR_PASS_MAIN : -1;
}

bool
fr_pass_find(const struct fr_writer *w, int stage, enum fr_pass_kind kind, bool rowbuf, struct fr_pass *pass)
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
        for (int k = 0; k < fr_nest_n_args(in); k++)
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
            W("    %s %s;\n", fr_part_type(d),
              fr_names_make("", fr_op_finds_index(in->op) ? "m" : "v", (int)i, d).s[p]);
        if (fr_op_finds_index(in->op))
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
    struct fr_names       v = fr_write_converted(w, from, d, fr_value_names(w, in->a[0]), i);
    struct fr_names acc = fr_names_make("a->", "v", i, d), next = fr_names_make("", "n", i, d);
    struct fr_names args[2] = {acc, v}, sum = fr_names_make("t.", "v", i, d);
    char            name[24];

    if (fr_reduce_is_sum(in)) {
        fr_write_store(w, d, &sum, &v, "");
        return;
    }
    if (!fr_op_finds_index(in->op)) {
        if (in->op == FR_OP_prod && fr_dtype_is_complex(d))
            fr_write_plain_product(w, d, args, &next);
        else
            fr_write_op(w, fr_op_info[in->op].combine, d, args, &next, next.s[0]);
        fr_write_store(w, d, &acc, &next, "");
        return;
    }
    acc = fr_names_make("a->", "m", i, d);
    snprintf(name, sizeof name, "n%d", i);
    write_better(w, in, d, &v, &acc, name);
    W("%sif (n%d | (a->v%d < 0)) {\n", w->indent, i, i);
    fr_write_store(w, d, &acc, &v, "    ");
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

    W("\n%sinline struct sums_%s\nzero_%s(void)\n{\n    struct sums_%s t;\n\n", local(w), tag, tag, tag);
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
            fr_write_store(w, d, &t, &sum, "");
        }
    }
    W("    return t;\n}\n");
}

void
fr_write_element(struct fr_writer *w, const struct fr_pass *pass)
{
    const struct fr_nest *nest = w->nest;
    const char           *tag = pass->tag, *at = w->dialect == FR_DIALECT_CUDA ? "KEPT(j)" : "j";

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
    for (uint32_t k = 0; k < 2 * nest->n_insts; k++) {
        const uint32_t        i = k % nest->n_insts;
        const struct fr_inst *in = &nest->insts[i];
        struct fr_names       v = fr_names_make("", "v", (int)i, in->dtype), b;

        if (!fr_is_its_turn(nest, k))
            continue;
        for (int p = 0; p < 2; p++)
            if (fr_parts(in->dtype) == 2)
                snprintf(b.s[p], sizeof b.s[p], "r->b%u[2 * %s + %d]", i, at, p);
            else
                snprintf(b.s[p], sizeof b.s[p], "r->b%u[%s]", i, at);
        if (pass->reads[i])
            fr_write_load(w, in->dtype, &v, &b);
        if (!pass->runs[i])
            continue;
        if (in->kind == FR_INST_REDUCE)
            write_take(w, (int)i);
        else
            fr_write_inst(w, (int)i);
        if (pass->rowbuf && fr_nest_crosses(nest, (int)i))
            fr_write_store(w, in->dtype, &b, &v, "");
    }
    w->element = false;
    if (pass->has_sums)
        W("    return t;\n");
    W("}\n");
    if (pass->has_sums)
        write_sum_functions(w, pass);
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
              fr_names_make("", fr_op_finds_index(in->op) ? "m" : "v", (int)i, d).s[p]);
            fr_text_const(&w->text, fr_machine_type(d),
                          fr_op_finds_index(in->op) ? 0 : fr_op_identity(in->op, d, p));
            W(";\n");
        }
        if (fr_op_finds_index(in->op))
            W("%sa%s.v%u = -1;\n", w->indent, pass->tag, i);
    }
}

void
fr_write_results(struct fr_writer *w, const struct fr_pass *pass)
{
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        const fr_dtype        d = fr_op_finds_index(in->op) ? FR_I64 : fr_reduce_dtype(w->nest, in);
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
            W("%sconst %s %s = %s%s;\n", w->indent, fr_part_type(d), to.s[p],
              !sum                          ? ""
              : d == FR_F32 || d == FR_C64  ? "0.0f + "
              : d == FR_F64 || d == FR_C128 ? "0.0 + "
                                            : "",
              from.s[p]);
        if (narrow) {
            from = fr_names_make("", "v", (int)i, in->dtype);
            fr_write_cast(w, d, in->dtype, &to, &from, from.s[0]);
        }
        fr_write_share(w, (int)i);
    }
}

void
fr_write_join(struct fr_writer *w, const struct fr_pass *pass)
{
    w->indent = "    ";
    for (uint32_t i = 0; i < w->nest->n_insts; i++) {
        const struct fr_inst *in = &w->nest->insts[i];
        const fr_dtype        d = fr_reduce_dtype(w->nest, in);
        const char           *letter = fr_op_finds_index(in->op) ? "m" : "v";
        struct fr_names       args[2], n = fr_names_make("", "n", (int)i, d);
        char                  to[24], from[24];

        if (!pass->roots[i] || in->kind != FR_INST_REDUCE || fr_reduce_is_sum(in))
            continue;
        args[0] = fr_names_make("a->", letter, (int)i, d);
        args[1] = fr_names_make("b.", letter, (int)i, d);
        if (!fr_op_finds_index(in->op)) {
            fr_write_op(w, fr_op_info[in->op].combine, d, args, &n, n.s[0]);
            fr_write_store(w, d, &args[0], &n, "");
            continue;
        }
        snprintf(from, sizeof from, "n%u", i);
        snprintf(to, sizeof to, "k%u", i);
        write_better(w, in, d, &args[1], &args[0], from);
        write_better(w, in, d, &args[0], &args[1], to);
        W("    if (b.v%u >= 0 && (a->v%u < 0 || %s || (!%s && b.v%u < a->v%u))) {\n", i, i, from, to, i, i);
        fr_write_store(w, d, &args[0], &args[1], "    ");
        W("        a->v%u = b.v%u;\n    }\n", i, i);
    }
}
