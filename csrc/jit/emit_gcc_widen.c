/* jit/emit_gcc_widen.c -- narrow numbers in memory as wide ones in registers, a register at a time: half precision
 * as single and back (F16C), small integers as those of 32 bits.
 *
 * GCC makes vectors of what jit/recipe_half.c says, but not of the instructions that processors have
 * for it. Small integers it loads a whole vector at a time and takes apart, in three steps and on one port of the
 * processor, where one instruction reads as many as fit when they are wide: (2 a + b) >> 2 of bytes takes two thirds of
 * the time. So those instructions stand around the loop over a block: its operands have been made wide before, and of
 * half precision what it leaves are floats, too. The bits are those of the recipes. Values in the midst of the loop
 * are rounded there, or between two loops (emit_gcc_round.c). */
#include "jit/emit_gcc_int.h"

static int words(const struct emit *e) { return e->vector_bytes / 4; }

/* What makes numbers of dtype d wide, with vectors of more than 16 bytes. */
static const char *
widening(const struct emit *e, fr_dtype d)
{
    switch ((int)d) {
    case FR_F16: return e->c.has_f16c ? "vcvtph2ps" : NULL;
    case FR_I8: return e->vector_bytes > 16 ? "vpmovsxbd" : NULL;
    case FR_U8: return e->vector_bytes > 16 ? "vpmovzxbd" : NULL;
    case FR_I16: return e->vector_bytes > 16 ? "vpmovsxwd" : NULL;
    case FR_U16: return e->vector_bytes > 16 ? "vpmovzxwd" : NULL;
    default: return NULL;
    }
}

fr_dtype
fr_emit_widened(fr_dtype d)
{
    return d == FR_F16 ? FR_F32 : FR_I32;
}

/* Whether all that the stage does with an operand is to convert it to numbers of 32 bits or more. */
static bool
is_converted(const struct emit *e, int operand)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (e->runs[i] && in->kind == FR_INST_ACCUM && (int)in->operand == operand)
            return false;
        for (int k = 0; e->runs[i] && k < fr_nest_n_args(in); k++) {
            const struct fr_inst *arg = inst(e, in->a[k]);

            if (arg->kind == FR_INST_LOAD && arg->level == FR_LEVEL_FULL && (int)arg->operand == operand &&
                !(in->kind == FR_INST_OP && in->op == FR_OP_cast && fr_gcc_keeps_word(in->dtype)))
                return false;
        }
    }
    return true;
}

bool
fr_emit_is_wide_integer(const struct emit *e, int operand)
{
    fr_dtype d = operand_dtype(e, operand);

    return d != FR_F16 && widening(e, d) && access_step(e, operand) == 1 && is_converted(e, operand);
}

void
fr_emit_declare_wide(struct emit *e, struct source *s)
{
    fr_dtype d = operand_dtype(e, s->operand);

    if (e->block < words(e) || !(fr_emit_is_wide_integer(e, s->operand) || (d == FR_F16 && widening(e, d) && !s->step)))
        return;
    for (int u = 0; u < e->unroll; u++)
        s->wide[u] = fr_gcc_array(&e->c, e->c.memory[fr_emit_widened(d)], e->block);
}

void
fr_emit_declare_exact(struct emit *e, struct sink *k)
{
    k->rounds = false;
    for (int u = 0; u < e->unroll; u++)
        k->of[u].exact = e->c.has_f16c && k->dtype == FR_F16 && e->block >= words(e)
                             ? fr_gcc_array(&e->c, e->c.memory[FR_F32], e->block)
                             : NULL;
}

static void
widen_block(struct emit *e, const struct source *s, int u)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       d = operand_dtype(e, s->operand);
    gj_type       *vector = fr_emit_vector_of(e, c->memory[d], words(e));
    gj_type       *wide = fr_emit_vector_of(e, c->memory[fr_emit_widened(d)], words(e));

    for (int lane = 0; lane < e->block; lane += words(e)) {
        gj_rvalue *j = plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, first_of_block(e, u) + lane));
        gj_lvalue *at = fr_gcc_at(c, c->memory[d], row_of_block(e, s, u), j), *v = fr_gcc_var(c, wide);
        gj_rvalue *from = fr_gcc_get(c, fr_emit_vector_at(e, vector, fr_dtype_size(d), at));

        fr_gcc_convert_vector(c, widening(e, d), v, fr_gcc_keep(c, vector, from));
        fr_gcc_move(c, fr_emit_array_vector(e, wide, 4, s->wide[u], lane), v);
    }
}

void
fr_emit_widen_blocks(struct emit *e, int n)
{
    for (int s = 0; s < e->n_sources; s++)
        for (int u = 0; u < n && e->sources[s].wide[0]; u++)
            widen_block(e, &e->sources[s], u);
}

void
fr_emit_round(struct emit *e, gj_lvalue *exact, gj_lvalue *bits, gj_lvalue *wide)
{
    struct fr_gcc *c = &e->c;
    gj_type       *halves = fr_emit_vector_of(e, c->memory[FR_F16], words(e));
    gj_type       *floats = fr_emit_vector_of(e, c->memory[FR_F32], words(e));

    for (int lane = 0; lane < e->block; lane += words(e)) {
        gj_lvalue *from = fr_emit_array_vector(e, floats, 4, exact, lane), *half = fr_gcc_var(c, halves), *v;

        fr_gcc_convert_vector(c, "vcvtps2ph $0,", half, fr_gcc_keep(c, floats, fr_gcc_get(c, from)));
        fr_gcc_move(c, fr_emit_array_vector(e, halves, 2, bits, lane), half);
        if (!wide)
            continue;
        v = fr_gcc_var(c, floats);
        fr_gcc_convert_vector(c, "vcvtph2ps", v, fr_gcc_get(c, half));
        fr_gcc_move(c, fr_emit_array_vector(e, floats, 4, wide, lane), v);
    }
}
