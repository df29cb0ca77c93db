/* backends/cpu/interp_long.c -- the block interpreter's long rows: those of reductions that no register holds.
 *
 * Called by interp.c for rows as a whole, and by long_rows.c for stages of one that several tasks share. */
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/interp_int.h"

static void
values_in_slots(struct fr_frame *f, struct fr_slot *slots)
{
    f->slots = slots;
    for (uint32_t i = 0; i < f->p->n_row_values; i++)
        f->at[f->p->row_values[i]] = (char *)&slots[f->p->row_values[i]].v;
}

/* ROW steps of the long form write their values into slots. */
static void
run_mid(struct fr_frame *f, const struct fr_program_steps l)
{
    const struct fr_program_step *st = f->p->steps + l.first, *stop = f->p->steps + l.end;

    f->n_rows = 1;
    f->j0 = 0;
    for (; st < stop; st++) {
        char *out = (char *)&f->slots[st->dst].v;
        switch (st->kind) {
        case FR_PROGRAM_ROW_OP:
            st->fn.map(1, out, f->at[st->a[0]], f->at[st->a[1]], f->at[st->a[2]], 0);
            break;
        case FR_PROGRAM_ROW_LOAD:
            memcpy(out, fr_frame_address(f, st->operand, false), st->size);
            break;
        case FR_PROGRAM_ROW_STORE:
            fr_frame_run(f, (uint32_t)(st - f->p->steps), (uint32_t)(st - f->p->steps) + 1);
            break;
        default: { /* FR_PROGRAM_ROW_IOTA */
            int64_t v = (int64_t)fr_frame_address(f, st->operand, false);
            memcpy(out, &v, sizeof v);
        }
        }
    }
}

static bool
is_wide(const struct fr_program_step *st)
{
    return fr_step_reduce_op(st) == FR_OP_sum && fr_dtype_is_complex(st->in);
}

/* Products of floats are taken in order, so the next piece goes on where the last one ended: what
 * has been multiplied so far is put in front of it. */
static void
multiply_on(struct fr_frame *f, const struct fr_program_step *st, struct fr_tree_stack *stack, int64_t n)
{
    const char *from = f->at[st->a[0]];
    fr_dtype    acc = fr_reduce_acc(FR_OP_prod, st->in);
    int         size = fr_dtype_size(acc);

    if (stack->top) {
        memcpy(f->temp, stack->value[0].bytes, (size_t)size);
        if (st->in == acc)
            memcpy(f->temp + size, from, (size_t)(n * size));
        else
            f->p->kernels->cast[st->in][acc]((size_t)n, f->temp + size, from, from, from, 0);
        f->p->reduce->fold[st->op_row][acc]((size_t)n + 1, f->temp, stack->value[0].bytes, NULL);
        return;
    }
    f->p->reduce->fold[st->op_row][st->in]((size_t)n, from, stack->value[0].bytes, NULL);
    stack->top = 1;
}

static void
fold_piece(struct fr_frame *f, const struct fr_program_step *st, struct fr_tree_stack *stack,
           const struct fr_tree *t, int64_t j0)
{
    _Alignas(16) char acc[16];
    int64_t           index = 0;
    fr_op             op = fr_step_reduce_op(st);

    if (op == FR_OP_prod && st->in >= FR_F16) {
        multiply_on(f, st, stack, t->n);
        return;
    }
    if (st->kind == FR_PROGRAM_SUM_PRODUCTS)
        f->p->reduce->fold_products[st->in == FR_F64]((size_t)t->n, f->at[st->a[0]], f->at[st->a[1]], acc);
    else
        f->p->reduce->fold[st->op_row][st->in]((size_t)t->n, f->at[st->a[0]], acc, &index);
    index += j0 + t->start;
    fr_tree_push(stack, t, op, st->in, acc,
                 fr_op_finds_index(op) ? &index : NULL);
}

/* Whether the stage only folds what lies in memory as folds want it: one call each does for any length, and may
 * end early. (It has no stores, which might overwrite what it reads.) Of several arrays that are read, one fold: with
 * more, each would bring all of them into the cache again. */
static bool
folds_memory(const struct fr_frame *f, const struct fr_long_stage *stage)
{
    uint32_t n_loads = stage->first_reduce - stage->full.first, n_folds = stage->full.end - stage->first_reduce;

    if (n_loads != 1 && (n_loads == 0 || n_folds != 1))
        return false;
    for (uint32_t i = stage->full.first; i < stage->first_reduce; i++) {
        const struct fr_program_step *st = &f->p->steps[i];

        if (st->kind != FR_PROGRAM_LOAD || f->inner_stride[st->operand] != st->size)
            return false;
    }
    return true;
}

/* Stage over elements [j0, j0 + n) of the row at row0; partial results are left in the stacks. */
static void
run_stage(struct fr_frame *f, const struct fr_long_stage *stage, int64_t j0, int64_t n)
{
    const struct fr_program_step *reduces = f->p->steps + stage->first_reduce;
    uint32_t              n_reduces = stage->full.end - stage->first_reduce;
    int64_t               most = folds_memory(f, stage) ? n : f->p->block_cap;

    f->n_rows = 1;
    fr_frame_begin_list(f, stage->first_hazard, stage->end_hazard);
    if (!n_reduces) {
        int64_t piece = fr_even_piece(n, f->p->block_cap);
        for (int64_t j = 0; j < n; j += piece) {
            f->j0 = j0 + j;
            f->n = n - j < piece ? n - j : piece;
            fr_frame_run(f, stage->full.first, stage->full.end);
        }
        return;
    }
    for (uint32_t k = 0; k < n_reduces; k++)
        f->stacks[k].top = 0;
    /* Sums of complex numbers have a tree of their own; with others beside them the stage runs
     * twice and stores in the second run. */
    for (int wide = 1; wide >= 0; wide--) {
        struct fr_tree t;
        if (!(wide ? stage->wide : stage->narrow))
            continue;
        f->quiet = wide && stage->narrow;
        fr_tree_begin(&t, n, most, wide);
        while (fr_tree_next(&t)) {
            f->j0 = j0 + t.start;
            f->n = t.n;
            fr_frame_run(f, stage->full.first, stage->first_reduce);
            for (uint32_t k = 0; k < n_reduces; k++)
                if (is_wide(&reduces[k]) == wide)
                    fold_piece(f, &reduces[k], &f->stacks[k], &t, j0);
        }
        f->quiet = false;
    }
}

void
fr_frame_run_long(struct fr_frame *f, int64_t n_rows, int64_t n_inner)
{
    const struct fr_program *p = f->p;
    int                      n_stages = p->nest->n_stages;

    values_in_slots(f, f->slots);
    for (int64_t r = 0; r < n_rows; r++) {
        f->row0 = r;
        for (int s = 0; s < n_stages; s++) {
            const struct fr_long_stage *stage = &p->stages[s];
            run_mid(f, stage->rows);
            run_stage(f, stage, 0, n_inner);
            for (uint32_t k = stage->first_reduce; k < stage->full.end; k++) {
                const struct fr_program_step       *st = &p->steps[k];
                const struct fr_tree_stack *stack = &f->stacks[k - stage->first_reduce];
                fr_reduce_finish(fr_step_reduce_op(st), st->in, stack->value[0].bytes, &stack->index[0],
                                 &f->slots[st->inst].v);
            }
        }
        run_mid(f, p->stages[n_stages].rows);
    }
}

/* ---- the entries of stages -------------------------------------------------------------------- */

void
fr_interp_stage(const struct fr_program *p, int stage, char *const *ptr,
                const int64_t *inner_stride, int64_t j0, int64_t n, const void *scalars,
                const struct fr_slot *slots, struct fr_slot *slots_out, void *scratch)
{
    struct fr_frame               *f = fr_frame_begin(p, ptr, NULL, inner_stride, scalars, scratch);
    const struct fr_long_stage *s = &p->stages[stage];

    fr_frame_run(f, p->once.first, p->once.end);
    values_in_slots(f, (struct fr_slot *)slots); /* FULL steps only read them */
    run_stage(f, s, j0, n);
    for (uint32_t k = s->first_reduce; k < s->full.end; k++) {
        const struct fr_tree_stack *stack = &f->stacks[k - s->first_reduce];
        struct fr_slot             *to = &slots_out[p->steps[k].inst];
        memcpy(to->v.bytes, stack->value[0].bytes, sizeof to->v.bytes);
        to->index = stack->index[0];
    }
    if (p->stores_nontemporal)
        fr_copy_settle();
}

void
fr_interp_mid(const struct fr_program *p, int stage, char *const *ptr, const void *scalars,
              struct fr_slot *slots, void *scratch)
{
    struct fr_frame *f = fr_frame_begin(p, ptr, NULL, NULL, scalars, scratch);

    fr_frame_run(f, p->once.first, p->once.end);
    values_in_slots(f, slots);
    run_mid(f, p->stages[stage].rows);
}
