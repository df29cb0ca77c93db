/* jit/emit_gcc_round.c -- half precision in the midst of a block, rounded by the processor's own instructions.
 *
 * Each operation rounds its result. Within the loop over a block that is ten instructions (fr_recipe_round_half), for GCC makes
 * vectors of no others; F16C has two, which stand between loops. So the loop is cut where rounded values are read:
 *
 *     pass 0:   for b: x = a * a, exact               into an array
 *     between:  exact -> bits -> the same as floats   a register at a time
 *     pass 1:   for b: y = x + a, exact ...
 *
 * An instruction belongs to the pass after the last rounding that it waits for; what writes or reduces, to the last
 * pass. Values that cross a cut do so in arrays as long as a block, of which GCC makes registers; what was read from
 * memory is read again. (x * x + x).sum() of 2^20 halves takes two thirds of the time. */
#include "jit/emit_gcc_int.h"

#include <string.h>

enum { MAX_PASSES = 64 };        /* GCC takes its time over each loop */

static bool in_loop(const struct emit *e, int i) { return inst(e, i)->level == FR_LEVEL_FULL && e->runs[i]; }

bool
fr_emit_is_rounded(const struct emit *e, int i)
{
    const struct fr_inst *in = inst(e, i);

    if (!in_loop(e, i) || in->dtype != FR_F16)
        return false;
    if (in->kind == FR_INST_ACCUM)
        return fr_recipe_half_use(fr_op_info[in->op].combine) == FR_HALF_ROUNDED;
    if (in->kind != FR_INST_OP)
        return false;
    if (in->op == FR_OP_cast)
        return inst(e, in->a[0])->dtype == FR_F32;
    return fr_nest_compute(e->nest, i) == FR_F16 && fr_recipe_half_use((fr_op)in->op) == FR_HALF_ROUNDED;
}

/* Whether the exact value is all that this instruction takes of its argument. */
static bool
rounds_itself(const struct emit *e, const struct fr_inst *in)
{
    return in->kind == FR_INST_STORE && inst(e, in->a[0])->dtype == FR_F16;
}

static bool
read_again(const struct fr_inst *in)
{
    return in->kind == FR_INST_LOAD || in->kind == FR_INST_IOTA;
}

/* Whether instruction i makes floats of halves, or halves of floats. */
static bool
converts(const struct emit *e, int i)
{
    const struct fr_inst *in = inst(e, i);

    if (in->kind == FR_INST_ACCUM)
        return fr_emit_is_rounded(e, i);
    if (in->kind == FR_INST_REDUCE)
        return inst(e, in->a[0])->dtype == FR_F16 && (in->op == FR_OP_sum || in->op == FR_OP_prod);
    if (in->kind != FR_INST_OP)
        return false;
    if (in->op == FR_OP_cast)
        return in->dtype == FR_F16 || inst(e, in->a[0])->dtype == FR_F16;
    return fr_nest_compute(e->nest, i) == FR_F16 && fr_recipe_half_use((fr_op)in->op) <= FR_HALF_READ;
}

void
fr_emit_find_passes(struct emit *e)
{
    int last = 0;

    memset(e->pass, 0, sizeof e->pass);
    e->n_passes = 1;
    e->halves_are_floats = false;
    if (!e->c.has_f16c)
        return;
    for (int i = 0; i < (int)e->nest->n_insts && !e->halves_are_floats; i++)
        e->halves_are_floats = e->runs[i] && converts(e, i);
    for (int i = 0; i < (int)e->nest->n_insts && last < MAX_PASSES; i++) {
        const struct fr_inst *in = inst(e, i);

        for (int k = 0; e->runs[i] && k < fr_nest_n_args(in); k++) {
            int arg = in->a[k], after = !in_loop(e, arg) ? 0 : e->pass[arg] + (fr_emit_is_rounded(e, arg) && !rounds_itself(e, in));

            e->pass[i] = after > e->pass[i] ? (uint8_t)after : e->pass[i];
        }
        last = e->pass[i] > last ? e->pass[i] : last;
    }
    if (last >= MAX_PASSES)
        memset(e->pass, 0, sizeof e->pass);
    else
        e->n_passes = last + 1;
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->runs[i] && (fr_inst_writes(inst(e, i)) || inst(e, i)->kind == FR_INST_REDUCE))
            e->pass[i] = (uint8_t)(e->n_passes - 1);
}

/* Rows that go together are accumulated one after the other: each waits for the rounding of the one before. */
static void
stagger_rows(struct emit *e)
{
    e->staggered = false;
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        e->staggered |= e->together && inst(e, i)->kind == FR_INST_ACCUM && fr_emit_is_rounded(e, i);
    e->staggered &= e->c.has_f16c;
    e->n_passes += e->staggered ? e->unroll - 1 : 0;
}

int
fr_emit_pass_of(const struct emit *e, int i, int u)
{
    return e->pass[i] + (e->staggered && inst(e, i)->kind == FR_INST_ACCUM ? u : 0);
}

/* The last pass that reads a value. */
static void
find_last_reads(const struct emit *e, uint8_t *last)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        int pass = fr_emit_pass_of(e, i, e->unroll - 1);

        for (int k = 0; e->runs[i] && k < fr_nest_n_args(inst(e, i)); k++)
            last[inst(e, i)->a[k]] = (uint8_t)(pass > last[inst(e, i)->a[k]] ? pass : last[inst(e, i)->a[k]]);
        if (inst(e, i)->kind == FR_INST_ACCUM)
            last[i] = (uint8_t)pass;
    }
}

/* In an array: a truth as wide as the floats beside it, or GCC would make vectors of a few of them. */
static fr_dtype crossing_dtype(fr_dtype d) { return d == FR_BOOL ? FR_I32 : d; }

void
fr_emit_declare_crossing(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    int            n = (int)e->nest->n_insts;
    uint8_t        last[FR_MAX_INSTS] = {0};

    for (int u = 0; u < e->unroll; u++)
        memset(e->crossing[u], 0, (size_t)n * sizeof e->crossing[u][0]);
    stagger_rows(e);
    find_last_reads(e, last);
    for (int i = 0; i < n; i++)
        for (int u = 0; u < e->unroll && in_loop(e, i) && last[i] > e->pass[i] && !read_again(inst(e, i)); u++) {
            struct crossing *x = &e->crossing[u][i];
            fr_dtype         d = inst(e, i)->dtype;

            x->re = fr_gcc_array(c, c->memory[fr_dtype_info[crossing_dtype(d)].component], e->block * n_parts(d));
            x->wide = d == FR_F16 ? fr_gcc_array(c, c->memory[FR_F32], e->block) : NULL;
            x->exact = fr_emit_is_rounded(e, i) ? fr_gcc_array(c, c->memory[FR_F32], e->block) : NULL;
        }
}

void
fr_emit_leave_crossing(struct emit *e, int pass, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        struct crossing *x = &e->crossing[e->u][i];
        struct fr_gval   v = *fr_emit_value(e, i);
        const fr_dtype   d = inst(e, i)->dtype;

        if (!x->re || fr_emit_pass_of(e, i, e->u) != pass)
            continue;
        if (x->exact) {
            fr_gcc_set(c, fr_gcc_elem(c, x->exact, b), v.exact);
            continue;
        }
        if (d == FR_BOOL)
            v.re = fr_gcc_cast(c, v.re, c->memory[FR_I32]);
        fr_emit_store_element(e, crossing_dtype(d), fr_gcc_place(c, x->re, 0), NULL, b, v);
        if (v.wide)
            fr_gcc_set(c, fr_gcc_elem(c, x->wide, b), v.wide);
        else
            x->wide = NULL;
        x->quiet = v.exact != NULL;
    }
}

bool
fr_emit_load_crossing(struct emit *e, int i, gj_rvalue *b)
{
    struct fr_gcc         *c = &e->c;
    const struct crossing *x = &e->crossing[e->u][i];
    struct fr_gval        *v = fr_emit_value(e, i);

    if (!x->re)
        return false;
    *v = fr_emit_load_element(e, crossing_dtype(inst(e, i)->dtype), fr_gcc_place(c, x->re, 0), NULL, b);
    if (inst(e, i)->dtype == FR_BOOL)
        v->re = fr_gcc_cmp(c, GJ_NE, v->re, fr_gcc_int(c, c->memory[FR_I32], 0));
    if (x->wide)
        v->wide = fr_gcc_keep(c, c->memory[FR_F32], fr_gcc_read(c, x->wide, b));
    if (x->exact)
        v->exact = fr_gcc_keep(c, c->memory[FR_F32], fr_gcc_read(c, x->exact, b));
    else if (x->quiet)
        v->exact = v->wide;
    return true;
}

void
fr_emit_round_between(struct emit *e, int pass, int n)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        for (int u = 0; u < n; u++)
            if (e->crossing[u][i].exact && fr_emit_pass_of(e, i, u) == pass)
                fr_emit_round(e, e->crossing[u][i].exact, e->crossing[u][i].re, e->crossing[u][i].wide);
}
