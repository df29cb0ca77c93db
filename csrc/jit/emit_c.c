/* jit/emit_c.c -- nests as a C file: `frit_rows` and, when they reduce, `frit_stages`.
 * This is what users see, and a check on recipes: tests compile it and compare with NumPy. */
#include "jit/emit_nest.h"

#include <stdio.h>
#include <string.h>

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
    const fr_dtype  m = fr_machine_type(d);

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
    const struct fr_nest    *nest = w->nest;
    struct fr_pass           pass;
    uint8_t                  runs[FR_MAX_INSTS];
    size_t                   start;
    static const char *const all[] = {"ptr",   "inner_stride", "j0",      "n", "scalars",
                                      "slots", "slots_out",    "scratch", NULL};

    W("\nstatic void\nstage_%d(char *const *ptr, const int64_t *inner_stride, int64_t j0, int64_t "
      "n,\n"
      "        const void *scalars, const struct slot *slots, struct slot *slots_out, void "
      "*scratch)\n"
      "{\n",
      s);
    start = w->text.n;
    fr_nest_stage_runs(nest, s, rowbuf, runs);
    if (!memchr(runs, 1, nest->n_insts)) {
        write_end(w, start, all);
        return;
    }
    W("    struct row r;\n\n");
    w->indent = "    ";
    w->row = "r.";
    fr_write_scalars(w, runs, true);
    fr_write_operands(w, false, NULL);
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        struct fr_names       r = fr_names_make("r.", "v", (int)i, in->dtype);
        struct fr_names       slot = slot_names("slots", (int)i, in->dtype);

        if (in->level == FR_LEVEL_ROW && in->stage <= s && fr_is_shared(nest, (int)i))
            fr_write_store(w, in->dtype, &r, &slot, "");
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
            part = fr_names_make(of, fr_op_finds_index(in->op) ? "m" : "v", (int)i, d);
            fr_write_store(w, d, &slot, &part, "");
            if (fr_op_finds_index(in->op))
                W("    slots_out[%u].index = %sv%u;\n", i, of, i);
        }
    }
    write_end(w, start, all);
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

            for (int k = 0; k < fr_nest_n_args(user) && user->kind != FR_INST_REDUCE; k++)
                used |= user->a[k] == i && user->level == FR_LEVEL_ROW && user->stage == s;
        }
        if (in->level != FR_LEVEL_ROW || !used)
            continue;
        if (!mine) {
            fr_write_load(w, in->dtype, &v, &slot);
        } else {
            if (in->kind == FR_INST_LOAD || in->kind == FR_INST_STORE) {
                const struct fr_operand *o = &nest->operands[in->operand];
                const char              *konst = o->flags & FR_OPERAND_WRITTEN ? "" : "const ";

                W("    %s%s *const p%d = (%s%s *)ptr[%d];\n", konst, fr_part_memory_type(o->dtype),
                  in->operand, konst, fr_part_memory_type(o->dtype), in->operand);
            } else if (in->kind == FR_INST_IOTA) {
                W("    const int64_t p%d = (int64_t)ptr[%d];\n", in->operand, in->operand);
            }
            fr_write_inst(w, (int)i);
            if (in->kind != FR_INST_STORE)
                fr_write_store(w, in->dtype, &slot, &v, "");
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

void
fr_write_c(struct fr_writer *w)
{
    const struct fr_nest *nest = w->nest;
    const bool            stages = fr_nest_has_stages(nest);
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
