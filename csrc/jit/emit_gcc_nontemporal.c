/* jit/emit_gcc_nontemporal.c -- where a stage stores past the caches. backends/cpu/schedule_reach.c says which results those are.
 *
 * A result that leaves the caches before its end comes is stored past them (nontemporally), so that the lines that it
 * fills are not read first. Such a store needs an address of whole registers: a row begins with as many elements as
 * there are up to one. A result that takes the memory of an operand is in the caches already, and the leaves of a sum
 * begin where its tree says: both have ordinary stores. */
#include "jit/emit_gcc_int.h"

/* Elements from j0 on, up to the first vector of sink `k` that is aligned. */
static gj_rvalue *
up_to_alignment(struct emit *e, const struct sink *k)
{
    struct fr_gcc *c = &e->c;
    int            size = fr_dtype_size(k->dtype);
    gj_rvalue     *at = fr_gcc_offset(c, k->to_start, times(e, e->j0, size));

    at = c->g->context_new_bitcast(c->ctxt, NULL, at, c->t_i64);
    at = rest_of(e, minus(e, fr_gcc_i64(c, 0), at), e->vector_bytes);
    return fr_gcc_keep_i64(c, fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, at, fr_gcc_i64(c, size)));
}

/* Blocks from element j0 + head on are aligned, and nothing is read where they are stored: that
 * would be in the caches already. */
static gj_rvalue *
is_nontemporal(struct emit *e, const struct sink *k, gj_rvalue *head)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *at = times(e, plus(e, e->j0, head), fr_dtype_size(k->dtype)), *yes;

    at = fr_gcc_offset(c, k->to_start, at);
    at = rest_of(e, c->g->context_new_bitcast(c->ctxt, NULL, at, c->t_i64), e->vector_bytes);
    yes = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_EQ, at, fr_gcc_i64(c, 0)));
    for (int s = 0; s < e->n_sources; s++) {
        gj_rvalue *other = fr_gcc_cmp(c, GJ_NE, e->sources[s].from_start, k->to_start);
        yes = fr_gcc_keep_bool(c, fr_gcc_and(c, yes, other));
    }
    return yes;
}

gj_rvalue *
fr_emit_find_nontemporal(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *head = NULL;
    bool           only_stores = true, trees = fr_emit_stage_has(e, HOW_TREE);

    for (int s = 0; s < e->n_sinks; s++)
        only_stores &= e->sinks[s].how == HOW_STORE;
    for (int s = 0; s < e->n_sinks && e->stores_nontemporal && !trees; s++) {
        struct sink          *k = &e->sinks[s];
        const struct fr_inst *in = inst(e, k->inst);

        if (!fr_inst_writes(in) || !(e->nest->operands[in->operand].schedule & FR_SCHEDULE_NONTEMPORAL_ANY))
            continue;
        if (!head && only_stores)
            head = up_to_alignment(e, k);
        k->nontemporal_start = is_nontemporal(e, k, head ? head : fr_gcc_i64(c, 0));
        k->nontemporal = fr_emit_copied(e, c->t_bool, k->nontemporal_start);
    }
    return head;
}
