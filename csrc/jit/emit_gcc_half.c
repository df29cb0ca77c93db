/* jit/emit_gcc_half.c -- half precision to single and back, a register at a time (F16C).
 *
 * GCC makes vectors of what jit/recipe_half.c says, but not of the instructions that processors have
 * for it. So those stand around the loop over a block: its operands have been made floats before, and
 * what it leaves are floats, too. The bits are those of the recipes. Values in the midst of the loop
 * are rounded there (fr_recipe_round_half). */
#include "jit/emit_gcc_int.h"

static int
floats(const struct emit *e)
{
    return e->vector_bytes / 4;
}

void
fr_emit_declare_wide(struct emit *e, struct source *s)
{
    if (!e->c.has_f16c || operand_dtype(e, s->operand) != FR_F16 || s->step || e->block < floats(e))
        return;
    for (int u = 0; u < e->abreast; u++)
        s->wide[u] = fr_gcc_array(&e->c, e->c.memory[FR_F32], e->block);
}

void
fr_emit_declare_exact(struct emit *e, struct sink *k)
{
    k->rounds = false;
    for (int u = 0; u < e->abreast; u++)
        k->of[u].exact = e->c.has_f16c && k->dtype == FR_F16 && e->block >= floats(e)
                             ? fr_gcc_array(&e->c, e->c.memory[FR_F32], e->block)
                             : NULL;
}

void
fr_emit_widen_blocks(struct emit *e, int n)
{
    struct fr_gcc *c = &e->c;
    gj_type       *half = c->memory[FR_F16];
    gj_type       *vector = fr_emit_vector_of(e, half, floats(e));
    gj_type       *wide = fr_emit_vector_of(e, c->memory[FR_F32], floats(e));

    for (int s = 0; s < e->n_sources; s++)
        for (int lane = 0; lane < n * e->block && e->sources[s].wide[0]; lane += floats(e)) {
            const struct source *k = &e->sources[s];
            gj_rvalue *j = plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, lane));
            gj_lvalue *at = fr_gcc_at(c, half, fr_gcc_get(c, k->from), j), *v = fr_gcc_var(c, wide);
            gj_rvalue *from = fr_gcc_get(c, fr_emit_vector_at(e, vector, 2, at));

            fr_gcc_convert_halves(c, v, fr_gcc_keep(c, vector, from), true);
            at = fr_emit_array_vector(e, wide, 4, k->wide[lane / e->block], lane % e->block);
            fr_gcc_set(c, at, fr_gcc_get(c, v));
        }
}

void
fr_emit_round_block(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_type       *vector = fr_emit_vector_of(e, c->memory[FR_F16], floats(e));
    gj_type       *wide = fr_emit_vector_of(e, c->memory[FR_F32], floats(e));

    for (int lane = 0; lane < e->block; lane += floats(e)) {
        gj_lvalue *from = fr_emit_array_vector(e, wide, 4, k->of[e->u].exact, lane);
        gj_lvalue *v = fr_gcc_var(c, vector);

        fr_gcc_convert_halves(c, v, fr_gcc_keep(c, wide, fr_gcc_get(c, from)), false);
        fr_gcc_set(c, fr_emit_array_vector(e, vector, 2, k->of[e->u].t, lane), fr_gcc_get(c, v));
    }
}
