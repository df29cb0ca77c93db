/* jit/emit_gcc_block.c -- a step of blocks of the loop over one stage (emit_gcc_stage.c): what is read, gathered where
 * it does not lie side by side, computed, and left to accumulators and results. */
#include "jit/emit_gcc_int.h"

#include <string.h>

/* What FULL instructions read of an operand for element b of block e->u, which is element j. */
static struct fr_gval
load_operand(struct emit *e, int operand, fr_dtype d, gj_rvalue *j, gj_rvalue *b)
{
    const struct source *s = &e->sources[e->source_of[operand]];
    gj_lvalue           *gathered = s->gathered[e->u];

    if (!gathered)
        return fr_emit_load_element(e, d, row_of_block(e, s, e->u), maybe(e, s->step), j);
    return fr_emit_load_element(e, d, fr_gcc_place(&e->c, gathered, 0), NULL, b);
}

/* Element b of the block being written, if the source is wide. */
static gj_rvalue *
load_wide(struct emit *e, int operand, gj_rvalue *b)
{
    gj_lvalue *wide = e->sources[e->source_of[operand]].wide[e->u];
    gj_type   *type = e->c.memory[fr_emit_widened(operand_dtype(e, operand))];

    return wide ? fr_gcc_keep(&e->c, type, fr_gcc_read(&e->c, wide, b)) : NULL;
}

static void emit_reads(struct emit *e, int i, gj_rvalue *j, gj_rvalue *b);

/* The arguments of `in` that an earlier stage left in row buffers, or an earlier pass of this one. */
static void
load_arguments(struct emit *e, const struct fr_inst *in, gj_rvalue *j, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;

    for (int k = 0; k < fr_nest_n_args(in); k++) {
        const struct fr_inst *arg = inst(e, in->a[k]);
        struct fr_gval       *v = fr_emit_value(e, in->a[k]);
        gj_rvalue            *from;

        if (arg->level != FR_LEVEL_FULL || v->re)
            continue;
        if (e->runs[in->a[k]]) {
            if (!fr_emit_load_crossing(e, in->a[k], b))
                emit_reads(e, in->a[k], j, b);
            continue;
        }
        from = fr_gcc_offset(c, e->scratch, fr_gcc_i64(c, (int64_t)fr_nest_rowbuf(e->nest, in->a[k])));
        *v = fr_emit_load_element(e, arg->dtype, from, NULL, j);
    }
}

static struct fr_gval
sink_value(struct emit *e, const struct sink *k)
{
    const struct fr_inst *in = inst(e, k->inst);
    struct fr_gval        v = *fr_emit_value(e, k->inst);

    if (in->kind == FR_INST_STORE)
        v = *fr_emit_value(e, in->a[0]);
    if (in->kind == FR_INST_REDUCE) {
        v = *fr_emit_value(e, in->a[0]);
        /* any and all take anything; f16 is summed in f32, and compared. */
        if (k->dtype == FR_F32 && v.wide)
            return (struct fr_gval){.re = v.wide};
        v = fr_gcc_convert(&e->c, inst(e, in->a[0])->dtype, k->dtype, v);
    }
    return v;
}

/* What ACCUM instruction i adds to: what is in memory, or of rows that go together what the one before has left. */
static struct fr_gval
accumulated(struct emit *e, int i, gj_rvalue *j, gj_rvalue *b)
{
    const struct fr_inst *in = inst(e, i);
    struct fr_gval        v;

    if (!e->together || e->u == 0) {
        v = load_operand(e, in->operand, in->dtype, j, b);
        v.wide = load_wide(e, in->operand, b);
        return v;
    }
    e->u--;
    if (!fr_emit_value(e, i)->re)
        fr_emit_load_crossing(e, i, b);
    v = *fr_emit_value(e, i);
    e->u++;
    return v;
}

/* Memory that instruction `i` reads for element j, which is b of its block; operations are for fr_emit_ops. */
static void
emit_reads(struct emit *e, int i, gj_rvalue *j, gj_rvalue *b)
{
    const struct fr_inst *in = inst(e, i);
    struct fr_gval       *v = fr_emit_value(e, i);

    load_arguments(e, in, j, b);
    switch (in->kind) {
    case FR_INST_LOAD:
        *v = load_operand(e, in->operand, in->dtype, j, b);
        v->wide = load_wide(e, in->operand, b);
        break;
    case FR_INST_IOTA:
        *v = fr_emit_iota(e, in, j);
        break;
    case FR_INST_ACCUM:
        *v = fr_emit_combine(e, in->op, in->dtype, accumulated(e, i, j, b), *fr_emit_value(e, in->a[0]));
        break;
    default:
        break;
    }
}

/* What becomes of the values of element b of the block being written. */
static void
emit_sinks(struct emit *e, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink   *k = &e->sinks[s];
        struct fr_gval v = sink_value(e, k);

        if (k->how == HOW_EXTREME)
            continue;
        if (k->in_lanes) {
            fr_emit_combine_lane(e, k, v, b);
            continue;
        }
        if (k->how == HOW_STORE && k->of[e->u].exact && v.exact) {
            k->rounds = true;
            fr_gcc_set(c, fr_gcc_elem(c, k->of[e->u].exact, b), v.exact);
            continue;
        }
        fr_gcc_set(c, fr_gcc_elem(c, k->of[e->u].part[0], b),
                   k->dtype == FR_BOOL ? fr_gcc_cast(c, v.re, c->memory[FR_BOOL]) : v.re);
        if (k->parts == 2)
            fr_gcc_set(c, fr_gcc_elem(c, k->of[e->u].part[1], b), v.im);
    }
}

/* The same for extremes, of `n` blocks at once. */
static void
emit_extremes(struct emit *e, int n, gj_rvalue *b)
{
    gj_rvalue *v[MAX_ABREAST];

    for (int s = 0; s < e->n_sinks; s++) {
        if (e->sinks[s].how != HOW_EXTREME)
            continue;
        for (e->u = 0; e->u < n; e->u++)
            v[e->u] = sink_value(e, &e->sinks[s]).re;
        e->u = 0;
        fr_emit_peak_lane(e, &e->sinks[s], n, v, b);
    }
}

/* Everything that the stage computes for element b of `n` blocks from j on, in one of the passes. */
static void
emit_elements(struct emit *e, int n, int pass, gj_rvalue *b)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *j[MAX_ABREAST];

    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->spread[i])
            e->val[0][i] = fr_gcc_load(c, FR_BOOL, fr_gcc_place(c, e->spread[i], 0), b);
    for (int u = 0; u < n; u++) {
        j[u] = plus(e, fr_gcc_get(c, e->j), b);
        if (first_of_block(e, u))
            j[u] = plus(e, j[u], fr_gcc_i64(c, first_of_block(e, u)));
        j[u] = fr_gcc_keep_i64(c, j[u]);
        for (int i = 0; i < (int)e->nest->n_insts; i++)
            if (inst(e, i)->level == FR_LEVEL_FULL)
                e->val[u][i] = (struct fr_gval){.re = NULL};
    }
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        if (!e->runs[i])
            continue;
        for (e->u = 0; e->u < n; e->u++)
            if (fr_emit_pass_of(e, i, e->u) == pass)
                emit_reads(e, i, j[e->u], b);
        e->u = 0;
        if (inst(e, i)->kind == FR_INST_OP && e->pass[i] == pass)
            fr_emit_ops(e, i, n);
    }
    for (e->u = 0; e->u < n && e->n_passes > 1; e->u++)
        fr_emit_leave_crossing(e, pass, b);
    for (e->u = e->together ? n - 1 : 0; e->u < n && pass == e->n_passes - 1; e->u++)
        emit_sinks(e, b);
    e->u = 0;
    if (pass == e->n_passes - 1)
        emit_extremes(e, n, b);
}

/* Complex numbers get their parts side by side only now.  Computed side by side, GCC 12 would turn
 * a multiplication followed by - in one part and + in the other into vfmsubadd, which rounds once,
 * in spite of -ffp-contract=off. */
static void
interleave(struct emit *e, struct sink *k)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);
    gj_rvalue         *b = fr_gcc_get(c, l.i), *at = times(e, b, 2);

    fr_gcc_move(c, fr_gcc_elem(c, k->of[e->u].t, at), fr_gcc_elem(c, k->of[e->u].part[0], b));
    fr_gcc_move(c, fr_gcc_elem(c, k->of[e->u].t, plus(e, at, fr_gcc_i64(c, 1))), fr_gcc_elem(c, k->of[e->u].part[1], b));
    fr_gcc_end_for(c, l);
}

/* Block e->u of t to elements that lie side by side. */
static void
store_vectors(struct emit *e, struct sink *k, bool nontemporal)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = c->memory[k->dtype], *vector;
    gj_rvalue     *j = times(e, fr_gcc_get(c, e->j), k->parts), *to = fr_gcc_get(c, k->to);
    int            n = e->block * k->parts, size = fr_dtype_size(fr_dtype_info[k->dtype].component);
    int            lanes = least(n, e->vector_bytes / size);

    if (k->rounds) /* as they have come, half a register each */
        lanes = least(n, e->vector_bytes / 4);
    vector = fr_emit_vector_of(e, type, lanes);
    for (int lane = 0; lane < n; lane += lanes) {
        gj_lvalue *at = fr_emit_vector_at(e, vector, size, fr_gcc_at(c, type, to, plus(e, j, fr_gcc_i64(c, lane))));
        gj_rvalue *v = fr_gcc_get(c, fr_emit_array_vector(e, vector, size, k->of[e->u].t, lane));

        if (nontemporal)
            fr_gcc_set_nontemporal(c, lanes * size, at, v);
        else
            fr_gcc_set(c, at, v);
    }
}

/* Whole blocks of t to memory: as vectors where elements lie side by side. */
static void
store_block(struct emit *e, struct sink *k)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *j = fr_gcc_get(c, e->j), *to = fr_gcc_get(c, k->to);

    if (k->step) {
        gj_rvalue *t = fr_gcc_place(c, k->of[e->u].t, 0);
        gj_rvalue *step = fr_gcc_get(c, k->step);
        fr_dtype   d = k->dtype == FR_BOOL ? FR_U8 : k->dtype; /* as they are */

        to = fr_gcc_offset(c, to, fr_gcc_bin(c, GJ_MULT, c->t_i64, j, step));
        for (int b = 0; b < e->block; b++) {
            struct fr_gval v = fr_gcc_load(c, d, t, fr_gcc_i64(c, b * k->parts));

            to = fr_gcc_keep(c, c->t_bytes, to);
            fr_gcc_store(c, d, to, fr_gcc_i64(c, 0), v);
            to = fr_gcc_offset(c, to, step);
        }
        return;
    }
    if (k->nontemporal) {
        gj_block *nontemporal = fr_gcc_block(c), *cached = fr_gcc_block(c), *done = fr_gcc_block(c);

        fr_gcc_branch(c, fr_gcc_get(c, k->nontemporal), nontemporal, cached);
        c->at = nontemporal;
        store_vectors(e, k, true);
        fr_gcc_end(c, done);
        c->at = cached;
        store_vectors(e, k, false);
        fr_gcc_jump(c, done);
        return;
    }
    store_vectors(e, k, false);
}

/* Narrow copies of `live` and of the place of this block, for comparing lane by lane. */
static void
narrow_counters(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    bool           tree = fr_emit_stage_has(e, HOW_TREE);

    memset(e->live_as, 0, sizeof e->live_as);
    memset(e->place_as, 0, sizeof e->place_as);
    e->place_step = tree ? e->block : 1;
    for (int s = 0; s < e->n_sinks; s++) {
        const struct sink *k = &e->sinks[s];
        gj_rvalue *place = tree ? minus(e, fr_gcc_get(c, e->j), e->j0) : fr_gcc_get(c, e->n_blocks);
        int        n = k->lane_bytes, m = k->place_bytes;

        if (!k->in_lanes)
            continue;
        if (!e->live_as[n])
            e->live_as[n] =
                fr_gcc_keep(c, fr_gcc_int_type(c, n), fr_gcc_cast(c, fr_gcc_get(c, e->live), fr_gcc_int_type(c, n)));
        if (k->how == HOW_PICK && !e->place_as[m])
            e->place_as[m] = fr_gcc_keep(c, k->place_type, fr_gcc_cast(c, place, k->place_type));
    }
}

/* What the loop has left of block e->u, which begins at element j, goes where it belongs. */
static void
finish_block(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (!k->in_lanes && k->parts == 2)
            interleave(e, k);
        if (k->rounds)
            fr_emit_round(e, k->of[e->u].exact, k->of[e->u].t, NULL);
        if (k->how == HOW_STORE)
            store_block(e, k);
        if (k->how == HOW_SEQ)
            fr_emit_multiply_block(e, k);
        for (int first = 0; first < e->block * k->parts && k->how == HOW_TREE; first += 8)
            fr_emit_add_group(e, k, k->acc[0], fr_gcc_i64(c, first));
    }
    fr_gcc_set(c, e->j, plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, e->block)));
    fr_gcc_set(c, e->n_blocks, plus(e, fr_gcc_get(c, e->n_blocks), fr_gcc_i64(c, 1)));
}

/* Components [first, first + lanes) of a block of which element 0 is at `at`, and which takes every second to fourth
 * element: the whole vectors in which they lie, none beyond the last of them, and a shuffle for each after the first. */
static gj_rvalue *
gather_near(struct emit *e, const struct source *k, gj_rvalue *at, int first, int lanes, gj_type *vector)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       d = operand_dtype(e, k->operand);
    gj_type       *type = c->memory[d];
    int            parts = n_parts(d), size = fr_dtype_size(d) / parts, done = 0, last;
    int            from[MAX_BLOCK], to[MAX_BLOCK]; /* where a component is in memory, and where among those put together */
    gj_lvalue     *together = NULL;
    gj_rvalue     *all, *lane[MAX_BLOCK];

    for (int i = 0; i < lanes; i++)
        from[i] = (first + i) / parts * k->by * parts + (first + i) % parts;
    last = from[lanes - 1];
    for (;;) {
        int        begin = least(from[done], last - lanes + 1), next = done;
        gj_lvalue *here = fr_emit_vector_at(e, vector, size, fr_gcc_at(c, type, at, fr_gcc_i64(c, begin))), *v;

        v = fr_gcc_opaque(c, vector, fr_gcc_get(c, here));
        for (; next < lanes && from[next] < begin + lanes; next++)
            lane[next] = fr_gcc_lane(c, type, v, from[next] - begin);
        for (int i = 0; i < next && !together; i++)
            to[i] = from[i] - begin;
        if (together) {
            for (int i = 0; i < done; i++)
                lane[i] = fr_gcc_lane(c, type, together, to[i]);
            for (int i = next; i < lanes; i++)
                lane[i] = lane[done];
            for (int i = 0; i < next; i++)
                to[i] = i;
            all = c->g->context_new_rvalue_from_vector(c->ctxt, NULL, vector, (size_t)lanes, lane);
            if (next == lanes)
                return all;
            v = fr_gcc_opaque(c, vector, all);
        }
        together = v;
        done = next;
    }
}

/* Block u of a strided operand, put together in registers. Left to the loop over the block, GCC would compute with
 * two lanes at a time, and what they leave in memory piece by piece is late when it is read as a whole. Of elements one
 * before the other GCC makes one load and one shuffle for each vector. */
static void
gather_block(struct emit *e, const struct source *k, int u)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       d = operand_dtype(e, k->operand);
    gj_type       *type = c->memory[d], *vector;
    int            parts = n_parts(d), n = e->block * parts, size = fr_dtype_size(d) / parts;
    int            lanes = least(n, e->vector_bytes / size);
    gj_rvalue     *step = k->by ? fr_gcc_i64(c, k->by * fr_dtype_size(d)) : fr_gcc_get(c, k->step), *at, *lane[MAX_BLOCK];
    bool           back = k->by < 0;

    vector = fr_emit_vector_of(e, type, lanes);
    at = plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, first_of_block(e, u)));
    at = fr_gcc_offset(c, row_of_block(e, k, u), fr_gcc_bin(c, GJ_MULT, c->t_i64, at, step));
    for (int first = 0; first < n; first += lanes) {
        if (k->by > 1 && lanes > parts) {
            at = fr_gcc_keep(c, c->t_bytes, at);
            fr_gcc_set(c, fr_emit_array_vector(e, vector, size, k->gathered[u], first), gather_near(e, k, at, first, lanes, vector));
            continue;
        }
        for (int i = 0; i < lanes; i++) {
            int64_t off = back ? i % parts - (first + i) / parts * parts : i % parts;

            if (!back || !(first + i))
                at = fr_gcc_keep(c, c->t_bytes, at);
            lane[i] = fr_gcc_get(c, fr_gcc_at(c, type, at, fr_gcc_i64(c, off)));
            if (!back && i % parts == parts - 1)
                at = fr_gcc_offset(c, at, step);
        }
        fr_gcc_set(c, fr_emit_array_vector(e, vector, size, k->gathered[u], first),
                   lanes == 1 ? lane[0]
                              : c->g->context_new_rvalue_from_vector(c->ctxt, NULL, vector, (size_t)lanes, lane));
    }
}

static void
emit_blocks(struct emit *e, int n)
{
    struct fr_gcc *c = &e->c;

    for (int pass = 0; pass < e->n_passes; pass++) {
        struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), fr_gcc_i64(c, e->block), false);

        emit_elements(e, n, pass, fr_gcc_get(c, l.i));
        fr_gcc_end_for(c, l);
        fr_emit_round_between(e, pass, n);
    }
}

/* The blocks with the usual sides of RARE values, and all of it once more if an element wants the
 * other side. Nothing has been stored by then but local copies of the results. */
static void
emit_usual_blocks(struct emit *e, int n)
{
    struct fr_gcc *c = &e->c;
    gj_block      *again = fr_gcc_block(c), *done = fr_gcc_block(c);
    gj_rvalue     *any;

    for (int size = 1; size <= 8; size *= 2) {
        c->rare[size] = fr_gcc_var(c, fr_gcc_int_type(c, size));
        fr_gcc_set(c, c->rare[size], fr_gcc_int(c, fr_gcc_int_type(c, size), 0));
    }
    c->usual = true;
    emit_blocks(e, n);
    c->usual = false;
    any = fr_gcc_get(c, c->rare[8]);
    for (int size = 1; size <= 4; size *= 2)
        any = fr_gcc_bin(c, GJ_OR, c->t_i64, any, fr_gcc_cast(c, fr_gcc_get(c, c->rare[size]), c->t_i64));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, any, fr_gcc_i64(c, 0)), again, done);
    c->at = again;
    emit_blocks(e, n);
    fr_gcc_jump(c, done);
}

void
fr_emit_step(struct emit *e, int n)
{
    if (n == e->unroll)
        fr_emit_prefetch(e, n);
    fr_emit_widen_blocks(e, n);
    narrow_counters(e);
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].in_lanes)
            fr_emit_spill_lanes(e, &e->sinks[s]);
    for (int s = 0; s < e->n_sources; s++)
        for (int u = 0; u < n && e->sources[s].gathered[u]; u++)
            gather_block(e, &e->sources[s], u);
    if (e->has_rare)
        emit_usual_blocks(e, n);
    else
        emit_blocks(e, n);
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].in_lanes)
            fr_emit_fill_lanes(e, &e->sinks[s]);
    for (e->u = e->together ? n - 1 : 0; e->u < n; e->u++)
        finish_block(e);
    e->u = 0;
}
