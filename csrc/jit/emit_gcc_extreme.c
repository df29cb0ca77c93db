/* jit/emit_gcc_extreme.c -- max and min of floats where neither a NaN nor zeros of both signs come.
 *
 * The left fold of `maximum` gives the first NaN and the last of equals (of halves the first), and the only equals with
 * different bits are the zeros. So a lane needs no place of what it holds: one instruction an element (the greater one,
 * and the later of equals, which is what the processor's own maximum gives), and beside it a note whether a NaN has
 * come. If one has, or lanes end with zeros of both signs, the stage runs again with places; therefore it stores nothing
 * but row buffers. Halves are compared as singles. Where there is much to do for an element, a place is the least of
 * it, and the code is not written twice. */
#include "jit/emit_gcc_int.h"

bool
fr_emit_may_use_extremes(struct emit *e)
{
    bool found = false;

    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        if (fr_inst_writes(in))
            return false;
        found |= in->kind == FR_INST_REDUCE && fr_emit_is_extreme(in->op, inst(e, in->a[0])->dtype);
    }
    return found && !fr_emit_is_long(e);
}

static gj_rvalue *
greater(struct emit *e, const struct sink *k, gj_rvalue *best, gj_rvalue *v)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *keeps = fr_gcc_cmp(c, k->op == FR_OP_max ? GJ_GT : GJ_LT, best, v);

    return fr_gcc_keep(c, k->lane, fr_gcc_select(c, k->dtype, fr_gcc_keep_bool(c, keeps), best, v));
}

static gj_rvalue *
element(struct emit *e, gj_type *type, gj_lvalue *array, gj_rvalue *i)
{
    return fr_gcc_keep(&e->c, type, fr_gcc_read(&e->c, array, i));
}

/* Of several blocks the greater ones first, two by two: each step then waits for one comparison with the last. */
void
fr_emit_peak_lane(struct emit *e, struct sink *k, int n, gj_rvalue **v, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *best = element(e, k->lane, k->lanes[0], b), *note = element(e, k->place_type, k->places, b);

    if (n == 1)
        v[0] = fr_emit_or_identity(e, k, v[0], b);
    for (int u = 0; u < n; u++) {
        gj_rvalue *is_nan = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_NE, v[u], v[u]));

        note = fr_gcc_bin(c, GJ_OR, k->place_type, note, fr_gcc_cast(c, is_nan, k->place_type));
    }
    for (; n > 1; n = (n + 1) / 2)
        for (int u = 0; u < (n + 1) / 2; u++)
            v[u] = 2 * u + 1 < n ? greater(e, k, v[2 * u], v[2 * u + 1]) : v[2 * u];
    fr_gcc_set(c, fr_gcc_elem(c, k->lanes[0], b), greater(e, k, best, v[0]));
    fr_gcc_set(c, fr_gcc_elem(c, k->places, b), note);
}

/* lanes[0], places[0] = those of all lanes: halves onto each other. */
static void
fold_lanes(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;

    for (int n = e->block / 2; n >= 1; n /= 2) {
        struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, n), false);
        gj_rvalue         *i = fr_gcc_get(c, l.i), *other = plus(e, i, fr_gcc_i64(c, n)), *v, *note;

        v = greater(e, k, element(e, k->lane, k->lanes[0], i), element(e, k->lane, k->lanes[0], other));
        note = fr_gcc_bin(c, GJ_OR, k->place_type, element(e, k->place_type, k->places, i),
                          element(e, k->place_type, k->places, other));
        fr_gcc_set(c, fr_gcc_elem(c, k->lanes[0], i), v);
        fr_gcc_set(c, fr_gcc_elem(c, k->places, i), note);
        fr_gcc_end_for(c, l);
    }
}

/* note = 1 if lanes of the registers hold zeros of both signs. */
static void
note_zeros(struct emit *e, struct sink *k, gj_lvalue *note)
{
    struct fr_gcc     *c = &e->c;
    gj_type           *bits = fr_gcc_int_type(c, k->lane_bytes);
    gj_lvalue         *seen = fr_emit_copied(e, c->t_i64, fr_gcc_i64(c, 0));
    struct fr_gcc_loop l;
    gj_rvalue         *v, *kind;

    fr_emit_spill_lanes(e, k);
    l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), true);
    v = element(e, k->lane, k->lanes[0], fr_gcc_get(c, l.i));
    kind = fr_gcc_cmp(c, GJ_LT, c->g->context_new_bitcast(c->ctxt, NULL, v, bits), fr_gcc_int(c, bits, 0));
    kind = plus(e, fr_gcc_i64(c, 1), fr_gcc_cast(c, fr_gcc_keep_bool(c, kind), c->t_i64));
    kind = fr_gcc_bin(c, GJ_MULT, c->t_i64, kind,
                      fr_gcc_cast(c,
                                  fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_EQ, v, fr_gcc_bits(c, k->dtype, 0))),
                                  c->t_i64));
    fr_gcc_set(c, seen, fr_gcc_bin(c, GJ_OR, c->t_i64, fr_gcc_get(c, seen), kind));
    fr_gcc_end_for(c, l);
    fr_gcc_set(c, note, fr_gcc_cast(c, fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, seen), fr_gcc_i64(c, 3)), c->t_i64));
}

gj_rvalue *
fr_emit_join_extremes(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    gj_lvalue     *odd = fr_emit_copied(e, c->t_i64, fr_gcc_i64(c, 0)), *mixed = fr_gcc_var(c, c->t_i64);

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];
        gj_block    *zero, *done;
        gj_rvalue   *v, *note;

        if (k->how != HOW_EXTREME)
            continue;
        zero = fr_gcc_block(c);
        done = fr_gcc_block(c);
        fr_emit_spill_lanes(e, k);
        fold_lanes(e, k);
        v = element(e, k->lane, k->lanes[0], fr_gcc_i64(c, 0));
        note = fr_gcc_cast(c, element(e, k->place_type, k->places, fr_gcc_i64(c, 0)), c->t_i64);
        fr_gcc_set(c, k->sum[0], v);
        fr_gcc_set(c, mixed, fr_gcc_i64(c, 0));
        fr_gcc_branch(c, fr_gcc_cmp(c, GJ_EQ, v, fr_gcc_bits(c, k->dtype, 0)), zero, done);
        c->at = zero;
        note_zeros(e, k, mixed);
        fr_gcc_jump(c, done);
        note = fr_gcc_bin(c, GJ_OR, c->t_i64, note, fr_gcc_get(c, mixed));
        fr_gcc_set(c, odd, fr_gcc_bin(c, GJ_OR, c->t_i64, fr_gcc_get(c, odd), note));
    }
    return fr_gcc_cmp(c, GJ_NE, fr_gcc_get(c, odd), fr_gcc_i64(c, 0));
}
