/* jit/emit_gcc_tail.c -- what is left over after whole blocks: one more block, read and stored through pads,
 * of which only the first elements count. */
#include "jit/emit_gcc_int.h"

#include <stdio.h>

/* The address at which element 0 would be if element j were at the beginning of `pad`. */
static gj_rvalue *
pad_origin(struct emit *e, gj_lvalue *pad, fr_dtype d)
{
    struct fr_gcc *c = &e->c;
    gj_rvalue     *back = fr_gcc_bin(c, GJ_MULT, c->t_i64, fr_gcc_get(c, e->j), fr_gcc_i64(c, -fr_dtype_size(d)));

    return fr_gcc_offset(c, fr_gcc_place(c, pad, 0), back);
}

/* Elements of a source's pad, with those that lie between. */
static int
pad_elements(const struct emit *e, const struct source *k)
{
    return e->block * (k->by > 1 ? k->by : 1);
}

void
fr_emit_declare_pad(struct emit *e, struct source *k)
{
    fr_dtype d = operand_dtype(e, k->operand);

    k->pad = fr_gcc_array(&e->c, e->c.memory[d], pad_elements(e, k) * n_parts(d));
}

static void
clear_pad(struct emit *e, const struct source *k)
{
    struct fr_gcc *c = &e->c;
    fr_dtype       d = operand_dtype(e, k->operand);
    int            size = fr_dtype_size(fr_dtype_info[d].component);
    int            n = pad_elements(e, k) * n_parts(d), lanes = least(e->block * n_parts(d), e->vector_bytes / size);
    gj_rvalue     *zero = fr_gcc_bits(c, d == FR_BOOL ? FR_U8 : fr_machine_type(d), 0);
    gj_type       *vector = fr_emit_vector_of(e, c->memory[d], lanes);

    for (int lane = 0; lane < n; lane += lanes)
        fr_gcc_set(c, fr_emit_array_vector(e, vector, size, k->pad, lane), fr_emit_splat(e, vector, lanes, zero));
}

/* The first n_left elements between a pad and memory from element j on, in pieces of .. 4, 2, 1 elements. */
static void
copy_pieces(struct emit *e, fr_dtype d, gj_lvalue *pad, gj_rvalue *memory, gj_rvalue *n_left, bool to_pad)
{
    struct fr_gcc *c = &e->c;
    gj_type       *type = c->memory[d];
    int            parts = n_parts(d), size = fr_dtype_size(fr_dtype_info[d].component);

    for (int n = e->block / 2; n; n /= 2) {
        gj_block  *copy = fr_gcc_block(c), *next = fr_gcc_block(c);
        int        lanes = least(n * parts, e->vector_bytes / size);
        gj_type   *vector = fr_emit_vector_of(e, type, lanes);
        gj_rvalue *done = fr_gcc_bin(c, GJ_AND, c->t_i64, n_left, fr_gcc_i64(c, -2 * n)), *at;
        gj_rvalue *bit = fr_gcc_bin(c, GJ_AND, c->t_i64, n_left, fr_gcc_i64(c, n));

        fr_gcc_branch(c, fr_gcc_cmp(c, GJ_NE, bit, fr_gcc_i64(c, 0)), copy, next);
        c->at = copy;
        done = fr_gcc_keep_i64(c, times(e, done, parts));
        at = fr_gcc_keep_i64(c, plus(e, times(e, fr_gcc_get(c, e->j), parts), done));
        for (int i = 0; i < n * parts; i += lanes) {
            gj_lvalue *in_pad = fr_gcc_elem(c, pad, plus(e, done, fr_gcc_i64(c, i)));
            gj_lvalue *outside = fr_gcc_at(c, type, memory, plus(e, at, fr_gcc_i64(c, i)));

            fr_gcc_move(c, fr_emit_vector_at(e, vector, size, to_pad ? in_pad : outside), fr_emit_vector_at(e, vector, size, to_pad ? outside : in_pad));
        }
        fr_gcc_jump(c, next);
    }
}

static void
gather_strided(struct emit *e, const struct source *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    fr_dtype           d = operand_dtype(e, k->operand);
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_left, true);
    gj_rvalue         *i = fr_gcc_get(c, l.i), *j = plus(e, fr_gcc_get(c, e->j), i);
    struct fr_gval     v = fr_emit_load_element(e, d, fr_gcc_get(c, k->from), fr_gcc_get(c, k->step), j);

    fr_gcc_store(c, d, fr_gcc_place(c, k->pad, 0), times(e, i, n_parts(d)), v);
    fr_gcc_end_for(c, l);
}

/* Where they are expected: backwards the first of them last. */
static void
gather_apart(struct emit *e, struct source *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    fr_dtype           d = operand_dtype(e, k->operand);
    int                parts = n_parts(d), first = k->by < 0 ? (e->block - 1) * parts : 0, step = k->by * fr_dtype_size(d);
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_left, true);
    gj_rvalue         *i = fr_gcc_get(c, l.i), *j = plus(e, fr_gcc_get(c, e->j), i);
    struct fr_gval     v = fr_emit_load_element(e, d, fr_gcc_get(c, k->from), fr_gcc_i64(c, step), j);

    fr_gcc_store(c, d, fr_gcc_place(c, k->pad, 0), plus(e, fr_gcc_i64(c, first), times(e, i, k->by * parts)), v);
    fr_gcc_end_for(c, l);
    fr_gcc_set(c, k->from, fr_gcc_offset(c, fr_gcc_place(c, k->pad, first), times(e, fr_gcc_get(c, e->j), -step)));
}

void
fr_emit_gather(struct emit *e, gj_rvalue *n_left)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sources; s++) {
        struct source *k = &e->sources[s];
        fr_dtype       d = operand_dtype(e, k->operand);

        clear_pad(e, k);
        if (!k->step && k->by != 1) {
            gather_apart(e, k, n_left);
            continue;
        }
        if (k->step)
            gather_strided(e, k, n_left);
        else
            copy_pieces(e, d, k->pad, fr_gcc_get(c, k->from), n_left, true);
        fr_gcc_set(c, k->from, pad_origin(e, k->pad, d));
        if (k->step)
            fr_gcc_set(c, k->step, fr_gcc_i64(c, fr_dtype_size(d)));
    }
}

/* ---- what lies behind the last element
 *
 * It may be anything, and whole numbers and addresses look like subnormal floats, for each of which
 * arithmetic takes a hundred cycles more. So it becomes zero, on the way through the pad. */

static bool
may_be_subnormal(const struct emit *e, const struct source *k)
{
    fr_dtype d = fr_dtype_info[operand_dtype(e, k->operand)].component;

    return k->by == 1 && (d == FR_F32 || d == FR_F64);
}

static int
block_bytes(const struct emit *e, const struct source *k)
{
    return e->block * fr_dtype_size(operand_dtype(e, k->operand));
}

static bool
computes_floats(const struct emit *e)
{
    for (int i = 0; i < (int)e->nest->n_insts; i++)
        if (e->runs[i] && inst(e, i)->kind == FR_INST_OP &&
            fr_dtype_is_float(fr_dtype_info[fr_nest_compute(e->nest, i)].component))
            return true;
    return false;
}

/* So many bytes of ones before as many zeros: what is read there from n bytes before the middle on
 * keeps n bytes of a block. The address of the middle. */
static gj_rvalue *
keeping_table(struct emit *e, int n_bytes)
{
    enum { MOST = 64 * 16 / 8 };    /* a block has as many elements as a vector has bytes, or fewer */
    struct fr_gcc *c = &e->c;
    int            n = n_bytes / 8;
    gj_type       *type = c->g->context_new_array_type(c->ctxt, NULL, c->t_i64, 2 * n);
    gj_rvalue     *entry[2 * MOST];
    gj_lvalue     *global;
    char           name[80];

    FR_ASSERT(n <= MOST);
    for (int i = 0; i < 2 * n; i++)
        entry[i] = fr_gcc_i64(c, i < n ? -1 : 0);
    snprintf(name, sizeof name, "keeping_%s_%d", e->name, e->n_tables++);
    global = c->g->context_new_global(c->ctxt, NULL, GJ_GLOBAL_INTERNAL, type, name);
    c->g->global_set_initializer_rvalue(
        global, c->g->context_new_array_constructor(c->ctxt, NULL, type, 2 * (size_t)n, entry));
    return fr_gcc_keep(c, c->t_bytes, fr_gcc_place(c, global, n));
}

/* The block from element j on to the pad of `k`, which is read instead, without what lies behind the
 * first n_left elements. */
static void
keep_first(struct emit *e, struct source *k, gj_rvalue *middle, gj_rvalue *n_left)
{
    struct fr_gcc *c = &e->c;
    gj_type       *byte = c->memory[FR_U8];
    fr_dtype       d = operand_dtype(e, k->operand);
    int            size = fr_dtype_size(fr_dtype_info[d].component);
    int            bytes = least(block_bytes(e, k), e->vector_bytes);
    gj_type       *vector = fr_emit_vector_of(e, c->t_i64, bytes / 8);
    gj_rvalue     *from = times(e, fr_gcc_get(c, e->j), fr_dtype_size(d));
    gj_rvalue     *back = minus(e, fr_gcc_i64(c, 0), times(e, n_left, fr_dtype_size(d)));

    for (int at = 0; at < block_bytes(e, k); at += bytes) {
        gj_lvalue *in = fr_gcc_at(c, byte, fr_gcc_get(c, k->from), plus(e, from, fr_gcc_i64(c, at)));
        gj_lvalue *keeps = fr_gcc_at(c, byte, middle, plus(e, back, fr_gcc_i64(c, at)));
        gj_lvalue *pad = fr_gcc_elem(c, k->pad, fr_gcc_i64(c, at / size));
        gj_rvalue *v = fr_gcc_get(c, fr_emit_vector_at(e, vector, size, in));
        gj_rvalue *mask = fr_gcc_get(c, fr_emit_vector_at(e, vector, size, keeps));

        fr_gcc_set(c, fr_emit_vector_at(e, vector, size, pad), fr_gcc_bin(c, GJ_AND, vector, v, mask));
    }
    fr_gcc_set(c, k->from, pad_origin(e, k->pad, d));
}

void
fr_emit_drop_behind(struct emit *e, gj_rvalue *n_left)
{
    int        most = 0;
    gj_rvalue *middle;

    for (int s = 0; s < e->n_sources && computes_floats(e); s++)
        if (may_be_subnormal(e, &e->sources[s]) && block_bytes(e, &e->sources[s]) > most)
            most = block_bytes(e, &e->sources[s]);
    if (!most)
        return;
    middle = keeping_table(e, most);
    for (int s = 0; s < e->n_sources; s++)
        if (may_be_subnormal(e, &e->sources[s]))
            keep_first(e, &e->sources[s], middle, n_left);
}

/* Whether a whole block from element j on cannot be read where it is: it may end in a page that
 * does not exist.  Within a page, what lies behind the last element is read and not used (as string
 * functions of the C library do). Strided operands are always copied. */
gj_rvalue *
fr_emit_may_not_read(struct emit *e)
{
    enum { PAGE = 4096 };
    struct fr_gcc *c = &e->c;
    gj_rvalue     *any = fr_gcc_bits(c, FR_BOOL, 0);

    for (int s = 0; s < e->n_sources; s++) {
        const struct source *k = &e->sources[s];
        fr_dtype             d = operand_dtype(e, k->operand);
        gj_rvalue           *at;

        if (k->by != 1)
            return fr_gcc_bits(c, FR_BOOL, 1);
        at = fr_gcc_offset(c, fr_gcc_get(c, k->from), times(e, fr_gcc_get(c, e->j), fr_dtype_size(d)));
        at = c->g->context_new_bitcast(c->ctxt, NULL, at, c->t_i64);
        at = fr_gcc_cmp(c, GJ_GT, rest_of(e, at, PAGE), fr_gcc_i64(c, PAGE - e->block * fr_dtype_size(d)));
        any = fr_gcc_keep_bool(c, fr_gcc_or(c, any, at));
    }
    return any;
}

void
fr_emit_stores_to_pads(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (!k->pad)
            continue;
        fr_gcc_set(c, k->to, pad_origin(e, k->pad, k->dtype));
        if (k->nontemporal)
            fr_gcc_set(c, k->nontemporal, fr_gcc_bits(c, FR_BOOL, 0));
        if (k->step)
            fr_gcc_set(c, k->step, fr_gcc_i64(c, fr_dtype_size(k->dtype)));
    }
}

void
fr_emit_restore_operands(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sources; s++) {
        fr_gcc_set(c, e->sources[s].from, e->sources[s].from_start);
        if (e->sources[s].step)
            fr_gcc_set(c, e->sources[s].step, e->sources[s].step_start);
    }
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (!k->pad)
            continue;
        fr_gcc_set(c, k->to, k->to_start);
        if (k->nontemporal)
            fr_gcc_set(c, k->nontemporal, k->nontemporal_start);
        if (k->step)
            fr_gcc_set(c, k->step, k->step_start);
    }
}

static void
scatter_strided(struct emit *e, struct sink *k, gj_rvalue *n_left)
{
    struct fr_gcc     *c = &e->c;
    struct fr_gcc_loop l = fr_gcc_for(c, fr_gcc_i64(c, 0), n_left, true);
    gj_rvalue         *i = fr_gcc_get(c, l.i);
    struct fr_gval     v;

    v = fr_gcc_load(c, k->dtype, fr_gcc_place(c, k->pad, 0), times(e, i, k->parts));
    fr_emit_store_element(e, k->dtype, fr_gcc_get(c, k->to), fr_gcc_get(c, k->step),
                          plus(e, fr_gcc_get(c, e->j), i), v);
    fr_gcc_end_for(c, l);
}

void
fr_emit_put_block(struct emit *e)
{
    struct fr_gcc *c = &e->c;

    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];
        gj_type     *type = c->memory[k->dtype];
        int          n = e->block * k->parts, size = fr_dtype_size(fr_dtype_info[k->dtype].component);
        int          lanes = least(n, e->vector_bytes / size);
        gj_type     *vector = fr_emit_vector_of(e, type, lanes);
        gj_rvalue   *at = times(e, fr_gcc_get(c, e->j), k->parts);

        for (int first = 0; first < n; first += lanes) {
            gj_lvalue *to = fr_gcc_at(c, type, fr_gcc_get(c, k->to), plus(e, at, fr_gcc_i64(c, first)));

            fr_gcc_move(c, fr_emit_vector_at(e, vector, size, to), fr_emit_array_vector(e, vector, size, k->pad, first));
        }
    }
}

void
fr_emit_scatter(struct emit *e, gj_rvalue *n_left)
{
    for (int s = 0; s < e->n_sinks; s++) {
        struct sink *k = &e->sinks[s];

        if (k->pad && k->step)
            scatter_strided(e, k, n_left);
        else if (k->pad)
            copy_pieces(e, k->dtype, k->pad, fr_gcc_get(&e->c, k->to), n_left, false);
    }
}

