/* jit/emit_gcc_stage.c -- the loop over one stage: the tail, the walk along a sum's tree (see emit_gcc.c);
 * what it does to a block is emit_gcc_block.c. */
#include "jit/emit_gcc_int.h"

#include <stdio.h>
#include <string.h>

enum { GATHERED = 4 }; /* bytes of an element; of smaller ones a vector has too many to be put together */

/* ---- what it reads and writes ----------------------------------------------------------------- */

static void
add_sink(struct emit *e, int i, enum how how)
{
    const struct fr_inst *in = inst(e, i);
    struct sink          *k = &e->sinks[e->n_sinks++];

    *k = (struct sink){.inst = (uint16_t)i, .how = how, .op = in->op, .dtype = in->dtype};
    if (in->kind == FR_INST_REDUCE) {
        k->dtype = inst(e, in->a[0])->dtype;
        if (fr_op_info[in->op].rule == FR_RULE_TRUTH)
            k->dtype = FR_BOOL;
        else if (k->dtype == FR_F16 && (how == HOW_TREE || how == HOW_SEQ || how == HOW_EXTREME))
            k->dtype = FR_F32;
    }
    k->parts = n_parts(k->dtype);
    k->in_lanes = how == HOW_LANES || how == HOW_PICK || how == HOW_EXTREME;
}

void
fr_emit_find_sinks(struct emit *e, bool stores)
{
    e->n_sinks = 0;
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        if (in->kind == FR_INST_REDUCE)
            add_sink(e, i, fr_emit_reduce_how(e, in));
        else if (stores && (fr_inst_writes(in) || fr_nest_crosses(e->nest, i)))
            add_sink(e, i, HOW_STORE);
    }
}

static void
declare_source(struct emit *e, int operand)
{
    struct fr_gcc *c = &e->c;
    struct source *s;
    fr_dtype       d = operand_dtype(e, operand);
    int            size = fr_dtype_size(fr_dtype_info[d].component);

    if (e->source_of[operand] >= 0)
        return;
    e->source_of[operand] = (int16_t)e->n_sources;
    s = &e->sources[e->n_sources++];
    *s = (struct source){.operand = (uint16_t)operand, .by = access_step(e, operand)};
    s->from_start = fr_emit_entry_bytes(e, operand);
    s->from = fr_emit_copied(e, c->t_bytes, s->from_start);
    for (int u = 0; u < e->unroll && e->together; u++)
        s->row[u] = u ? fr_gcc_keep(c, c->t_bytes,
                                    fr_gcc_offset(c, s->row[u - 1], fr_emit_table_entry(e, e->row_stride, c->t_i64, operand)))
                      : s->from_start;
    if (strided(e, operand)) {
        s->step_start = fr_emit_entry_step(e, operand);
        s->step = fr_emit_copied(e, c->t_i64, s->step_start);
    }
    for (int u = 0; u < e->unroll && s->by != 1 && size >= GATHERED; u++)
        s->gathered[u] = fr_gcc_array(c, c->memory[d], e->block * n_parts(d));
    fr_emit_declare_pad(e, s);
    fr_emit_declare_wide(e, s);
}

static void
declare_store(struct emit *e, struct sink *k)
{
    struct fr_gcc        *c = &e->c;
    const struct fr_inst *in = inst(e, k->inst);

    fr_emit_declare_t(e, k);
    fr_emit_declare_exact(e, k);
    if (!fr_inst_writes(in)) {
        gj_rvalue *at = fr_gcc_i64(c, (int64_t)fr_nest_rowbuf(e->nest, k->inst));

        k->to = fr_emit_copied(e, c->t_bytes, fr_gcc_offset(c, e->scratch, at));
        return;
    }
    k->to_start = fr_emit_entry_bytes(e, in->operand);
    k->to = fr_emit_copied(e, c->t_bytes, k->to_start);
    if (strided(e, in->operand)) {
        k->step_start = fr_emit_entry_step(e, in->operand);
        k->step = fr_emit_copied(e, c->t_i64, k->step_start);
    }
    k->pad = fr_gcc_array(c, c->memory[k->dtype], e->block * k->parts);
}

static void
declare_operands(struct emit *e)
{
    e->n_sources = 0;
    memset(e->source_of, -1, sizeof e->source_of);
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        const struct fr_inst *in = inst(e, i);

        if (!e->runs[i])
            continue;
        if (in->kind == FR_INST_LOAD || in->kind == FR_INST_ACCUM)
            declare_source(e, in->operand);
        if (in->kind == FR_INST_IOTA)
            fr_emit_declare_iota(e, in->operand);
    }
}

/* The lower-level values that the stage's loop reads. */
static void
load_outer_values(struct emit *e)
{
    memset(e->wanted, 0, sizeof e->wanted);
    memset(e->val, 0, sizeof e->val);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        for (int k = 0; e->runs[i] && k < fr_nest_n_args(inst(e, i)); k++)
            if (inst(e, inst(e, i)->a[k])->level != FR_LEVEL_FULL)
                e->wanted[inst(e, i)->a[k]] = 1;
    fr_emit_close_wanted(e);
    fr_emit_scalars(e);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->wanted[i] && inst(e, i)->level == FR_LEVEL_ROW)
            e->val[0][i] = fr_emit_load_slot(e, inst(e, i)->dtype, e->slots, (int64_t)sizeof(struct fr_slot) * i);
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->c.has_f16c && e->wanted[i] && inst(e, i)->dtype == FR_F16)
            e->val[0][i].wide = fr_gcc_convert(&e->c, FR_F16, FR_F32, e->val[0][i]).re;
}

/* Bools of lower levels among the elements of a block: of one that is the same for all, GCC 12 makes a mask of a
 * vector bit by bit, and anew for each block. */
static void
spread_bools(struct emit *e)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = c->memory[FR_BOOL];
    int            lanes = least(e->block, e->vector_bytes);

    memset(e->spread, 0, sizeof e->spread);
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        gj_type   *vector = fr_emit_vector_of(e, type, lanes);
        gj_rvalue *v;

        if (!e->wanted[i] || inst(e, i)->dtype != FR_BOOL)
            continue;
        v = fr_gcc_keep(c, type, fr_gcc_cast(c, e->val[0][i].re, type));
        e->spread[i] = fr_gcc_array(c, type, e->block);
        for (int first = 0; first < e->block; first += lanes)
            fr_gcc_set(c, fr_emit_array_vector(e, vector, 1, e->spread[i], first),
                       fr_emit_splat(e, vector, lanes, v));
    }
}

void
fr_emit_declare_loop(struct emit *e)
{
    load_outer_values(e);
    spread_bools(e);
    declare_operands(e);
    fr_emit_declare_crossing(e);
    for (int k = 0; k < e->n_sinks; k++)
        if (e->sinks[k].how == HOW_STORE)
            declare_store(e, &e->sinks[k]);
        else
            fr_emit_declare_reduction(e, &e->sinks[k]);
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* The loop over a range of the row. With sums it is walked leaf by leaf, left to right:
 *
 *     descend:  while m > leaf: push the right half, m = the left one
 *     leaf:     blocks, then what is left over
 *     climb:    while the top of the stack waits for this sum: add; then its right half is next
 *
 * Without sums there is one leaf; or two, of which the first is what fr_emit_find_nontemporal wants. */
struct walk {
    gj_block  *descend, *leaf, *head, *body, *after, *done, *climb, *finish;
    gj_lvalue *m, *leaf_end, *whole_end, *in_tail, *left_over;
    gj_lvalue *waits;           /* the last block, to be stored; NULL: what is left over is a tail (see `lies_over`) */
    gj_lvalue *depth, *todo, *joined;
    gj_rvalue *end;
};

static gj_rvalue *
at_depth(struct emit *e, struct walk *w, gj_lvalue *stack)
{
    return fr_gcc_read(&e->c, stack, fr_gcc_get(&e->c, w->depth));
}

static void
set_at_depth(struct emit *e, struct walk *w, gj_lvalue *stack, gj_rvalue *v)
{
    fr_gcc_set(&e->c, fr_gcc_elem(&e->c, stack, fr_gcc_get(&e->c, w->depth)), v);
}

static void
add_to(struct emit *e, gj_lvalue *v, int64_t n)
{
    fr_gcc_set(&e->c, v, plus(e, fr_gcc_get(&e->c, v), fr_gcc_i64(&e->c, n)));
}

static void
emit_descend(struct emit *e, struct walk *w, int parts)
{
    struct fr_gcc *c = &e->c;
    gj_block      *push = fr_gcc_block(c);
    gj_rvalue     *m = fr_gcc_get(c, w->m), *half;

    c->at = w->descend;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_GT, m, fr_gcc_i64(c, LEAF / parts)), push, w->leaf);
    c->at = push;
    half = fr_gcc_bin(c, GJ_RSHIFT, c->t_i64, m, fr_gcc_i64(c, 1));
    half = fr_gcc_keep_i64(c, half);
    half = minus(e, half, rest_of(e, half, 8 / parts));
    half = fr_gcc_keep_i64(c, half);
    set_at_depth(e, w, w->todo, minus(e, m, half));
    set_at_depth(e, w, w->joined, fr_gcc_i64(c, 0));
    add_to(e, w->depth, 1);
    fr_gcc_set(c, w->m, half);
    fr_gcc_end(c, w->descend);
}

static void
emit_climb(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *up = fr_gcc_block(c), *join = fr_gcc_block(c), *right = fr_gcc_block(c);

    c->at = w->climb;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_EQ, fr_gcc_get(c, w->depth), fr_gcc_i64(c, 0)), w->finish, up);
    c->at = up;
    add_to(e, w->depth, -1);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, at_depth(e, w, w->joined), fr_gcc_i64(c, 0)), join, right);
    c->at = join;
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        for (int p = 0; p < k->parts && k->how == HOW_TREE; p++)
            fr_gcc_set(c, k->sum[p],
                       fr_gcc_bin(c, GJ_PLUS, k->lane, at_depth(e, w, k->left[p]),
                                  fr_gcc_get(c, k->sum[p])));
    }
    fr_gcc_end(c, w->climb);
    c->at = right;
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        for (int p = 0; p < k->parts && k->how == HOW_TREE; p++)
            set_at_depth(e, w, k->left[p], fr_gcc_get(c, k->sum[p]));
    }
    set_at_depth(e, w, w->joined, fr_gcc_i64(c, 1));
    fr_gcc_set(c, w->m, at_depth(e, w, w->todo));
    add_to(e, w->depth, 1);
    fr_gcc_end(c, w->descend);
}

/* Steps of several blocks, as long as they fit the leaf. */
static void
emit_wide_steps(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *head = fr_gcc_block(c), *body = fr_gcc_block(c), *done = fr_gcc_block(c);
    gj_rvalue     *last = fr_gcc_i64(c, (int64_t)e->unroll * e->block);

    last = fr_gcc_keep_i64(c, minus(e, fr_gcc_get(c, w->whole_end), last));
    fr_gcc_jump(c, head);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LE, fr_gcc_get(c, e->j), last), body, done);
    c->at = body;
    fr_emit_step(e, e->unroll);
    fr_gcc_end(c, head);
    c->at = done;
}

/* Whether the last elements can be computed as a whole block that lies over the one before it. All that is done is
 * reading and storing elements in a row; and as the block is computed before all others and stored after them, it
 * does not matter that they may be stored over what it reads. */
static bool
lies_over(const struct emit *e)
{
    for (int s = 0; s < e->n_sources; s++)
        if (e->sources[s].step)
            return false;
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how != HOW_STORE || inst(e, e->sinks[s].inst)->kind != FR_INST_STORE || e->sinks[s].step)
            return false;
    return true;
}

/* If there is a whole block, but not only such: the last one, to the pads, before all others. */
static void
emit_last_block(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *long_enough = fr_gcc_block(c), *now = fr_gcc_block(c), *start = fr_gcc_block(c);
    gj_rvalue     *end = fr_gcc_get(c, w->leaf_end), *m = fr_gcc_get(c, w->m);

    fr_gcc_set(c, w->waits, fr_gcc_bits(c, FR_BOOL, 0));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, w->whole_end), end), long_enough, start);
    c->at = long_enough;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_GT, m, fr_gcc_i64(c, e->block)), now, start);
    c->at = now;
    fr_gcc_set(c, w->waits, fr_gcc_bits(c, FR_BOOL, 1));
    fr_gcc_set(c, e->j, minus(e, end, fr_gcc_i64(c, e->block)));
    fr_emit_stores_to_pads(e);
    fr_emit_step(e, 1);
    fr_emit_restore_operands(e);
    fr_gcc_set(c, e->j, minus(e, end, m));
    fr_gcc_jump(c, start);
}

/* After all others: to where it belongs. */
static void
put_last_block(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *put = fr_gcc_block(c), *tail = fr_gcc_block(c);

    fr_gcc_branch(c, fr_gcc_get(c, w->waits), put, tail);
    c->at = put;
    fr_gcc_set(c, e->j, minus(e, fr_gcc_get(c, w->leaf_end), fr_gcc_i64(c, e->block)));
    fr_emit_put_block(e);
    fr_gcc_move(c, e->j, w->leaf_end);
    fr_gcc_end(c, w->done);
    c->at = tail;
}

static void
emit_leaf(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *whole;

    c->at = w->leaf;
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            fr_emit_reset_accumulator(e, &e->sinks[s]);
    fr_gcc_set(c, w->leaf_end, plus(e, fr_gcc_get(c, e->j), fr_gcc_get(c, w->m)));
    whole = rest_of(e, fr_gcc_get(c, w->m), e->block);
    fr_gcc_set(c, w->whole_end, minus(e, fr_gcc_get(c, w->leaf_end), whole));
    fr_gcc_set(c, w->in_tail, fr_gcc_i64(c, 0));
    fr_gcc_set(c, w->left_over, fr_gcc_i64(c, 0));
    fr_gcc_set(c, e->live, fr_gcc_i64(c, e->block));
    if (w->waits)
        emit_last_block(e, w);
    if (e->unroll > 1)
        emit_wide_steps(e, w);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), fr_gcc_get(c, w->whole_end)), w->head, w->after);
    /* A tight loop around the block; the way back from the tail enters it from outside. */
    c->at = w->head;
    fr_gcc_jump(c, w->body);
    fr_emit_step(e, 1);
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, fr_gcc_get(c, e->j), fr_gcc_get(c, w->whole_end)), w->body, w->after);
}

/* After whole blocks: the tail if there is one, and after the tail its clearing up. */
static void
emit_after(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block      *fix = fr_gcc_block(c), *check = fr_gcc_block(c), *tail = fr_gcc_block(c),
             *near_end = fr_gcc_block(c), *pads = fr_gcc_block(c), *readable = fr_gcc_block(c);
    gj_rvalue *left = fr_gcc_get(c, w->left_over);

    c->at = w->after;
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, fr_gcc_get(c, w->in_tail), fr_gcc_i64(c, 0)), fix, check);
    c->at = check;
    fr_gcc_set(c, w->left_over, minus(e, fr_gcc_get(c, w->leaf_end), fr_gcc_get(c, e->j)));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_EQ, left, fr_gcc_i64(c, 0)), w->done, tail);

    c->at = tail;
    if (w->waits)
        put_last_block(e, w);
    for (int s = 0; s < e->n_sinks; s++)
        for (int r = 0; r < e->sinks[s].n_chunks && e->sinks[s].how == HOW_TREE; r++)
            fr_gcc_move(c, e->sinks[s].saved[r], e->sinks[s].acc[0][r]);
    fr_gcc_set(c, w->in_tail, fr_gcc_i64(c, 1));
    fr_gcc_set(c, e->live, left);
    fr_gcc_set(c, w->whole_end, plus(e, fr_gcc_get(c, e->j), fr_gcc_i64(c, e->block)));
    fr_emit_stores_to_pads(e);
    /* In the middle of a range the elements after the leaf are there to be read. */
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LE, fr_gcc_get(c, w->whole_end), w->end), w->head, near_end);
    c->at = near_end;
    fr_gcc_branch(c, fr_emit_may_not_read(e), pads, readable);
    c->at = readable;
    fr_emit_drop_behind(e, left);
    fr_gcc_end(c, w->head);
    c->at = pads;
    fr_emit_gather(e, left);
    fr_gcc_end(c, w->head);

    c->at = fix;
    add_to(e, e->j, -e->block);
    fr_emit_restore_operands(e);
    fr_emit_scatter(e, left);
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            fr_emit_add_left_over(e, &e->sinks[s], left);
    fr_gcc_move(c, e->j, w->leaf_end);
    fr_gcc_end(c, w->done);
}

static void
declare_walk(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;
    gj_block     **blocks[] = {&w->descend, &w->leaf, &w->head,  &w->body,
                               &w->after,   &w->done, &w->climb, &w->finish};
    gj_lvalue    **vars[] = {&e->j,         &e->live,    &e->n_blocks,  &w->m,    &w->leaf_end,
                             &w->whole_end, &w->in_tail, &w->left_over, &w->depth};

    for (size_t i = 0; i < FR_LEN(vars); i++)
        *vars[i] = fr_gcc_var(c, c->t_i64);
    for (size_t i = 0; i < FR_LEN(blocks); i++)
        *blocks[i] = fr_gcc_block(c);
    w->todo = fr_gcc_array(c, c->t_i64, TREE_DEPTH);
    w->joined = fr_gcc_array(c, c->t_i64, TREE_DEPTH);
    w->end = fr_gcc_keep_i64(c, plus(e, e->j0, e->n));
}

/* After the head the rest. */
static void
emit_second_leaf(struct emit *e, struct walk *w)
{
    struct fr_gcc *c = &e->c;

    c->at = w->climb;
    fr_gcc_set(c, w->m, minus(e, w->end, fr_gcc_get(c, e->j)));
    fr_gcc_branch(c, fr_gcc_cmp(c, GJ_GT, fr_gcc_get(c, w->m), fr_gcc_i64(c, 0)), w->leaf, w->finish);
}

static void
emit_walk(struct emit *e, int tree_parts, gj_rvalue *head)
{
    struct fr_gcc *c = &e->c;
    struct walk    w;

    declare_walk(e, &w);
    w.waits = !tree_parts && !head && lies_over(e) && !fr_emit_is_long(e) ? fr_gcc_var(c, c->t_bool) : NULL;
    for (int s = 0; s < e->n_sinks; s++)
        fr_emit_reset_accumulator(e, &e->sinks[s]);
    fr_gcc_set(c, e->j, e->j0);
    fr_gcc_set(c, e->n_blocks, fr_gcc_i64(c, 0));
    fr_gcc_set(c, w.m, e->n);
    if (head) {
        gj_block *cut = fr_gcc_block(c), *whole = fr_gcc_block(c);

        fr_gcc_branch(c, fr_gcc_cmp(c, GJ_LT, head, e->n), cut, whole);
        c->at = cut;
        fr_gcc_set(c, w.m, head);
        fr_gcc_jump(c, whole);
    }
    fr_gcc_set(c, w.depth, fr_gcc_i64(c, 0));
    fr_gcc_end(c, w.descend);
    if (tree_parts) {
        emit_descend(e, &w, tree_parts);
    } else {
        c->at = w.descend;
        fr_gcc_end(c, w.leaf);
    }
    emit_leaf(e, &w);
    emit_after(e, &w);
    c->at = w.done;
    for (int s = 0; s < e->n_sinks; s++)
        if (e->sinks[s].how == HOW_TREE)
            fr_emit_finish_leaf(e, &e->sinks[s], fr_gcc_get(c, w.left_over));
    fr_gcc_end(c, w.climb);
    if (tree_parts) {
        emit_climb(e, &w);
    } else if (head) {
        emit_second_leaf(e, &w);
    } else {
        c->at = w.climb;
        fr_gcc_end(c, w.finish);
    }
    c->at = w.finish;
}

static bool
is_complex_tree(const struct emit *e, int i)
{
    const struct fr_inst *in = inst(e, i);

    return in->kind == FR_INST_REDUCE && fr_dtype_is_complex(in->dtype) &&
           fr_emit_reduce_how(e, in) == HOW_TREE;
}

static bool
is_real_tree(const struct emit *e, int i)
{
    const struct fr_inst *in = inst(e, i);

    return in->kind == FR_INST_REDUCE && !fr_dtype_is_complex(in->dtype) &&
           fr_emit_reduce_how(e, in) == HOW_TREE;
}

/* Leaves e->runs only what complex sums need, or what everything else needs. */
static void
keep_roots(struct emit *e, bool complex_trees)
{
    uint8_t all[FR_MAX_INSTS];

    memcpy(all, e->runs, sizeof all);
    memset(e->runs, 0, sizeof e->runs);
    for (int i = (int)e->nest->n_insts; i-- > 0;) {
        const struct fr_inst *in = inst(e, i);
        bool                  other = fr_inst_writes(in) || fr_nest_crosses(e->nest, i) ||
                     (in->kind == FR_INST_REDUCE && !is_complex_tree(e, i));

        if (all[i] && (complex_trees ? is_complex_tree(e, i) : other))
            e->runs[i] = 1;
        for (int k = 0; e->runs[i] && k < fr_nest_n_args(in); k++)
            e->runs[in->a[k]] |= all[in->a[k]];
    }
}

/* The loop over what e->runs says; `tree_parts` is 0 without sums in it. */
static void
emit_loop(struct emit *e, bool stores, int tree_parts)
{
    gj_rvalue *head;

    fr_emit_find_sinks(e, stores);
    if (!e->n_sinks)
        return;
    fr_emit_choose_blocks(e);
    fr_emit_declare_loop(e);
    head = fr_emit_find_nontemporal(e);
    emit_walk(e, tree_parts, head);
}

/* The same and its results; extremes without places first, if they may be. */
static void
emit_reductions(struct emit *e, bool stores, int tree_parts)
{
    struct fr_gcc *c = &e->c;
    gj_block      *done = fr_gcc_block(c);

    e->extremes = fr_emit_may_use_extremes(e);
    if (e->extremes) {
        gj_block *again = fr_gcc_block(c), *known = fr_gcc_block(c);

        emit_loop(e, stores, tree_parts);
        fr_gcc_branch(c, fr_emit_join_extremes(e), again, known);
        c->at = known;
        fr_emit_write_partial_results(e);
        fr_gcc_end(c, done);
        c->at = again;
        e->extremes = false;
    }
    emit_loop(e, stores, tree_parts);
    fr_emit_write_partial_results(e);
    fr_gcc_jump(c, done);
}

/* Returns the loop over stage `s`: an fr_stage_fn that is also told how far ahead memory is asked
 * for. */
gj_function *
fr_emit_stage(struct emit *e, int s)
{
    struct fr_gcc *c = &e->c;
    gj_function   *fn;
    char           name[24];
    uint8_t        runs[FR_MAX_INSTS];
    bool           complex_trees = false, real_trees = false;

    snprintf(name, sizeof name, "stage_%d", s);
    fn = fr_emit_new_function(e, GJ_FUNCTION_INTERNAL, name, "BIiibbbbI", &e->ptr, &e->stride, &e->j0, &e->n, &e->scalars,
                              &e->slots, &e->slots_out, &e->scratch, &e->prefetch);
    fr_emit_find_asked(e, s);
    fr_nest_stage_runs(e->nest, s, true, e->runs);
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        complex_trees |= e->runs[i] && is_complex_tree(e, i);
        real_trees |= e->runs[i] && is_real_tree(e, i);
    }
    if (complex_trees && real_trees) {
        /* Their leaves have different lengths and begin at different elements, so complex sums have
         * a loop of their own: before the other one, which may store over what both read. */
        memcpy(runs, e->runs, sizeof runs);
        keep_roots(e, true);
        emit_reductions(e, false, 2);
        memcpy(e->runs, runs, sizeof runs);
        keep_roots(e, false);
        emit_reductions(e, true, 1);
    } else {
        emit_reductions(e, true, complex_trees ? 2 : real_trees);
    }
    fr_gcc_return(c);
    return fn;
}
