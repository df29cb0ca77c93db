/* jit/emit_gcc_together.c -- rows that are only accumulated, several at once.
 *
 * Sums down columns add one row after the other. A row at a time, the accumulators are read and written for each; of rows
 * that go together, a block of each is added before those of its columns are written, in the same order. That pays where
 * the accumulators are too many for the first cache, or what is added is in the second. Else memory is what there is to wait
 * for, and it comes sooner in one stream than in eight. */
#include "jit/emit_gcc_int.h"

enum {
    SHORT = 2048,    /* elements of a row */
    AHEAD = 1024,    /* bytes */
    NEAR = 131072,   /* elements that come from the second cache */
    NEAREST = 16384, /* bytes of accumulators that are in the first one */
};

static bool
is_accumulator(const struct emit *e, int operand)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (inst(e, i)->kind == FR_INST_ACCUM && inst(e, i)->operand == operand)
            return true;
    return false;
}

static bool
only_accumulates(const struct fr_nest *nest)
{
    bool any = false;

    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];

        if (in->level == FR_LEVEL_ROW || in->kind == FR_INST_STORE || in->kind == FR_INST_IOTA)
            return false;
        if ((in->kind == FR_INST_ACCUM || in->kind == FR_INST_LOAD) && nest->operands[in->operand].access != FR_ACCESS_UNIT)
            return false;
        any |= in->kind == FR_INST_ACCUM;
    }
    return any && nest->n_stages == 1 && !(nest->flags & FR_NEST_REDUCES);
}

/* How far ahead each row is asked for: what stands there a step of rows later, or, of long rows, what comes next. */
static void
find_asked(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *is_short = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_LE, e->n, fr_gcc_i64(c, SHORT))), *step, *ahead;

    e->n_asked = 0;
    for (int k = 0; k < e->n_sources; k++) {
        const struct source *s = &e->sources[k];

        if (is_accumulator(e, s->operand))
            continue;
        step = fr_emit_table_entry(e, e->row_stride, c->t_i64, s->operand);
        step = fr_gcc_keep_i64(c, times(e, step, e->unroll));
        ahead = fr_gcc_select(c, FR_I64, is_short, step, fr_gcc_i64(c, AHEAD));
        for (int u = 0; u < e->unroll; u++) {
            e->asked[e->n_asked].size = fr_dtype_size(operand_dtype(e, s->operand));
            e->asked[e->n_asked++].from = fr_gcc_keep(c, c->t_bytes, fr_gcc_offset(c, s->row[u], ahead));
        }
    }
}

static bool
may_go_together(struct emit *e)
{
    if (!only_accumulates(e->nest))
        return false;
    fr_nest_stage_runs(e->nest, 0, true, e->runs);
    e->together = true;
    fr_emit_find_sinks(e, true);
    fr_emit_choose_rows(e);
    e->together = e->unroll > 1;
    return e->together;
}

gj_rvalue *
fr_emit_if_together(struct emit *e, gj_rvalue *const *step, gj_rvalue *n_rows, gj_rvalue *n)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *other = rest_of(e, n, e->block), *near, *many;
    int            size = 1;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (in->kind != FR_INST_ACCUM)
            continue;
        other = fr_gcc_bin(c, GJ_OR, c->t_i64, other, step[in->operand]); /* the accumulators are others in each row */
        size = fr_dtype_size(in->dtype) > size ? fr_dtype_size(in->dtype) : size;
    }
    near = fr_gcc_cmp(c, GJ_LE, fr_gcc_bin(c, GJ_MULT, c->t_i64, n_rows, n), fr_gcc_i64(c, NEAR));
    many = fr_gcc_cmp(c, GJ_GT, n, fr_gcc_i64(c, NEAREST / size));
    return fr_gcc_and(c, fr_gcc_cmp(c, GJ_EQ, other, fr_gcc_i64(c, 0)), fr_gcc_or(c, near, many));
}

gj_function *
fr_emit_together(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    gj_type       *i64 = c->t_i64;
    gj_function   *fn;
    gj_block      *body, *done;

    if (!may_go_together(e))
        return NULL;
    fn = fr_emit_new_function(e, GJ_FUNCTION_INTERNAL, "together", "BIIib", &e->ptr, &e->stride, &e->row_stride, &e->n,
                              &e->scalars);
    e->j = fr_gcc_var(c, i64);
    e->n_blocks = fr_gcc_var(c, i64);
    fr_gcc_set(c, e->j, fr_gcc_i64(c, 0));
    fr_gcc_set(c, e->n_blocks, fr_gcc_i64(c, 0));
    fr_emit_declare_loop(e);
    find_asked(e);
    body = fr_gcc_block(c);
    done = fr_gcc_block(c);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), e->n), body, done);
    c->at = body;
    fr_emit_step(e, e->unroll);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), e->n), body, done);
    c->at = done;
    fr_gcc_return(c);
    e->together = false;
    return fn;
}
