/* jit/emit_gcc_prefetch.c -- memory that the next rows read is asked for in time.
 *
 * A row that is reduced and then gone through again comes from memory in its first stage and from the cache in the
 * later ones: memory waits for the processor, then the processor for memory. So the stage after the one that reads an
 * operand first asks for what the next row has of it, or, where rows are short, a later one. A sum in the order of its
 * tree keeps the processor too busy to run ahead by itself, so a stage that is alone asks as well. So does one that
 * accumulates rows: each thread goes down its piece of every row, and what comes next is in another page. Where rows are
 * so long that they would push each other out of the cache, and where they are one, it is what comes next in memory.
 *
 * In a nest that folds nothing the processor sees by itself what comes next, but for stencils (FR_SCHEDULE_PREFETCH), which
 * ask for what each row that they read has a row later.
 *
 * Nests that write rows ask for the second cache, as what comes into the first one too early pushes out what is needed.
 * Sums alone do where there is much to come; what is in the second cache already they ask for the first.
 *
 * The distance of each operand is an argument of the stage's function: frit_rows knows how far apart
 * rows are; pieces of a long row (frit_stages) are read in order. */
#include "jit/emit_gcc_int.h"

enum {
    LINE = 64,
    NEAR = 1024,       /* elements until memory has answered */
    FAR = 8192,        /* elements of a row too long to be held beside another */
    AHEAD = 1280,      /* bytes, where it is no row */
    AHEAD_FOLD = 3584, /* the same where rows are accumulated, or gone through again */
    LONG = 131072,     /* elements that do not come from the second cache */
    FIRST_CACHE = 3,   /* localities */
    SECOND_CACHE = 2,
};

/* What is written has lines of its own to bring, or to send off: what comes later had better wait a level below. */
static bool
writes_rows(const struct fr_nest *nest)
{
    for (uint32_t i = 0; i < nest->n_insts; i++)
        if (nest->insts[i].kind == FR_INST_STORE && nest->insts[i].level == FR_LEVEL_FULL)
            return true;
    return false;
}

static bool
folds(const struct fr_nest *nest)
{
    return nest->flags & FR_NEST_REDUCES || fr_nest_accumulates(nest);
}

/* Whether rows are gone through once, and not accumulated. */
static bool only_sums(const struct fr_nest *nest) { return nest->n_stages == 1 && !fr_nest_accumulates(nest); }

/* Whether which cache is asked depends on how much there is. */
static bool depends_on_size(const struct fr_nest *nest) { return only_sums(nest) && !writes_rows(nest); }

/* Whether the loop over stage `s` asks for what load `i` reads. */
static bool
asks(const struct emit *e, int i, int s)
{
    const struct fr_inst *in = inst(e, i);

    if (in->kind != FR_INST_LOAD || in->level != FR_LEVEL_FULL || e->nest->operands[in->operand].access != FR_ACCESS_UNIT)
        return false;
    return folds(e->nest) ? s == least(in->stage + 1, e->nest->n_stages - 1)
                          : (e->nest->operands[in->operand].schedule & (FR_SCHEDULE_PREFETCH | FR_SCHEDULE_PREFETCH_ROW)) != 0;
}

/* Behind the distances of operands: of how many elements they are. */
static gj_rvalue *
n_elems(struct emit *e)
{
    return fr_emit_table_entry(e, e->prefetch, e->c.t_i64, e->nest->n_operands);
}

void
fr_emit_find_asked(struct emit *e, int s)
{
    struct fr_gcc *c = &e->c;
    bool           known[FR_MAX_OPERANDS] = {false};

    e->n_asked = 0;
    for (int i = 0; i < (int)e->nest->n_insts; i++) {
        int k = inst(e, i)->operand;

        if (!asks(e, i, s) || known[k])
            continue;
        known[k] = true;
        e->asked[e->n_asked].size = fr_dtype_size(inst(e, i)->dtype);
        e->asked[e->n_asked++].from =
            fr_gcc_keep(c, c->t_bytes,
                        fr_gcc_offset(c, fr_emit_entry_bytes(e, k), fr_emit_table_entry(e, e->prefetch, c->t_i64, k)));
    }
    if (e->n_asked && depends_on_size(e->nest))
        e->comes_far = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_GT, n_elems(e), fr_gcc_i64(c, LONG)));
}

static void
ask(struct emit *e, int n_blocks, int cache)
{
    for (int k = 0; k < e->n_asked; k++) {
        int        size = e->asked[k].size;
        gj_rvalue *at = times(e, fr_gcc_get(&e->c, e->j), size);

        at = fr_gcc_offset(&e->c, e->asked[k].from, at);
        for (int byte = 0; byte < n_blocks * e->block * size; byte += LINE)
            fr_gcc_prefetch(&e->c, fr_gcc_offset(&e->c, at, fr_gcc_i64(&e->c, byte)), cache);
    }
}

void
fr_emit_prefetch(struct emit *e, int n_blocks)
{
    struct fr_gcc *c = &e->c;
    gj_block      *far, *near, *done;

    if (e->n_asked == 0)
        return;
    if (e->together) { /* a block of each row */
        ask(e, 1, SECOND_CACHE);
        return;
    }
    if (!depends_on_size(e->nest)) {
        ask(e, n_blocks, writes_rows(e->nest) ? SECOND_CACHE : FIRST_CACHE);
        return;
    }
    far = fr_gcc_block(c);
    near = fr_gcc_block(c);
    done = fr_gcc_block(c);
    fr_gcc_branch(c, e->comes_far, far, near);
    c->at = far;
    ask(e, n_blocks, SECOND_CACHE);
    fr_gcc_jump(c, done);
    c->at = near;
    ask(e, n_blocks, FIRST_CACHE);
    fr_gcc_jump(c, done);
    c->at = done;
}

static void
set_entry(struct emit *e, gj_lvalue *ahead, int k, gj_rvalue *v)
{
    struct fr_gcc *c = &e->c;

    fr_gcc_set(c, fr_gcc_elem(c, ahead, fr_gcc_i64(c, k)), v);
}

static gj_rvalue *in_row(struct emit *e) { return fr_gcc_i64(&e->c, only_sums(e->nest) ? AHEAD : AHEAD_FOLD); }

/* rows * row_stride; `n` elements are a row. */
gj_lvalue *
fr_emit_ahead_of_rows(struct emit *e, gj_rvalue *row_stride, gj_rvalue *n_rows, gj_rvalue *n)
{
    struct fr_gcc *c = &e->c;
    int            n_operands = e->nest->n_operands;
    gj_lvalue     *ahead = fr_gcc_array(c, c->t_i64, n_operands + 1);
    gj_rvalue     *rows, *is_far, *is_in_row;

    set_entry(e, ahead, n_operands, fr_gcc_bin(c, GJ_MULT, c->t_i64, n_rows, n));
    if (!folds(e->nest)) {
        for (int k = 0; k < n_operands; k++)
            set_entry(e, ahead, k, fr_emit_table_entry(e, row_stride, c->t_i64, k));
        return ahead;
    }
    rows = fr_gcc_bin(c, GJ_DIVIDE, c->t_i64, fr_gcc_i64(c, NEAR), plus(e, n, fr_gcc_i64(c, 1)));
    rows = fr_gcc_keep_i64(c, plus(e, rows, fr_gcc_i64(c, 1)));
    is_far = fr_gcc_keep_bool(c, fr_gcc_cmp(c, GJ_GT, n, fr_gcc_i64(c, FAR)));
    for (int k = 0; k < n_operands; k++) {
        gj_rvalue *step = fr_emit_table_entry(e, row_stride, c->t_i64, k);

        is_in_row = is_far;
        if (e->nest->n_stages == 1) { /* rows without gaps are as one */
            gj_rvalue *bytes = times(e, n, fr_dtype_size(e->nest->operands[k].dtype));
            is_in_row = fr_gcc_or(c, is_in_row, fr_gcc_cmp(c, GJ_EQ, step, bytes));
        }
        step = fr_gcc_keep_i64(c, fr_gcc_bin(c, GJ_MULT, c->t_i64, step, rows));
        set_entry(e, ahead, k, fr_gcc_select(c, FR_I64, is_in_row, in_row(e), step));
    }
    return ahead;
}

gj_lvalue *
fr_emit_ahead_in_row(struct emit *e, gj_rvalue *n)
{
    struct fr_gcc *c = &e->c;
    int            n_operands = e->nest->n_operands;
    gj_lvalue     *ahead = fr_gcc_array(c, c->t_i64, n_operands + 1);

    for (int k = 0; k < n_operands; k++)
        set_entry(e, ahead, k, in_row(e));
    set_entry(e, ahead, n_operands, n);
    return ahead;
}
