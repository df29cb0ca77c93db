/* backends/cpu/pairs.c -- joins two steps of a program into one: an operation and the only one that takes its result.
 *
 * A step reads its arguments from blocks in L1 and writes one. Of a*b + c, joined, the product is never written: the
 * step has three loads, one store and two operations where two steps have four loads and two stores. A step of Adam
 * over 1.1 M f32 has 8 steps instead of 14. Which operations can be joined is in jit/pairs.h; products, with their sum,
 * too. */
#include <string.h>

#include "backends/cpu/program_int.h"

/* The row for an inner operation, or -1. A square is the product of an argument with itself. */
static int
row_of(fr_op op)
{
    if (op == FR_OP_square)
        op = FR_OP_multiply;
    for (int i = 0; i < FR_PAIR_N_INNER; i++)
        if (fr_pair_inner[i] == op)
            return i;
    return -1;
}

/* The column for an outer operation whose argument `at` is the inner one's result, or -1. */
static int
column_of(fr_op op, int at)
{
    if (fr_op_info[op].flags & FR_OPF_COMM)
        at = 0;
    for (int i = 0; i < FR_PAIR_N_OUTER; i++)
        if (fr_pair_outer[i].op == op && fr_pair_outer[i].at == at)
            return i;
    return -1;
}

static bool
is_operation(const struct fr_program_step *st)
{
    return st->kind == FR_PROGRAM_OP || st->kind == FR_PROGRAM_OP_STORE;
}

/* Two bits exchanged. */
static uint8_t
swapped(uint8_t bits)
{
    return (uint8_t)((bits & 1) << 1 | bits >> 1);
}

/* Makes `st` compute what `inner`, its argument `at`, computes, too. */
static void
take_over(const struct fr_nest *nest, struct fr_program_step *st, const struct fr_program_step *inner, int at, int row, fr_map_fn *fn)
{
    bool           square = nest->insts[inner->dst].op == FR_OP_square;
    bool           of_two = fr_nest_n_args(&nest->insts[st->dst]) == 2;
    struct fr_program_step made = *st;

    made.fn.map = fn;
    made.a[0] = inner->a[0];
    made.a[1] = inner->a[square ? 0 : 1];
    made.a[2] = of_two ? st->a[!at] : inner->a[0];
    made.once = square ? 3 * (inner->once & 1) : inner->once & 3;
    made.row_args = square ? 3 * (inner->row_args & 1) : inner->row_args & 3;
    if ((fr_op_info[fr_pair_inner[row]].flags & FR_OPF_COMM) &&
        ((made.once | made.row_args) & 3) == 1) { /* the single element comes second */
        made.a[0] = made.a[1];
        made.a[1] = inner->a[0];
        made.once = swapped(made.once);
        made.row_args = swapped(made.row_args);
    }
    if (of_two) {
        made.once |= (uint8_t)((st->once >> !at & 1) << 2);
        made.row_args |= (uint8_t)((st->row_args >> !at & 1) << 2);
    }
    *st = made;
}

/* The number of the operation of `d` that makes a place and may be taken over by its only reader, or UINT32_MAX. maker:
 * by place, where it may be; steps before `written` come before a store, over what they read perhaps, and stay there. */
static uint32_t
find_inner(const struct fr_nest *nest, uint16_t place, fr_dtype d, uint32_t written, const uint16_t *uses,
           const uint32_t *maker)
{
    uint32_t k = maker[place]; /* so the place is an instruction's */

    return k == UINT32_MAX || k < written || uses[place] != 1 || fr_nest_compute(nest, place) != d ? UINT32_MAX : k;
}

static bool
join(const struct fr_nest *nest, const struct fr_kernels *kernels, struct fr_program_step *steps, struct fr_program_step *st,
     uint32_t written, const uint16_t *uses, const uint32_t *maker)
{
    fr_dtype d = fr_nest_compute(nest, st->dst);
    int      n_args = fr_nest_n_args(&nest->insts[st->dst]);

    if (d != FR_F32 && d != FR_F64)
        return false;
    for (int at = 0; at < n_args; at++) {
        uint16_t from = st->a[at];
        uint32_t k = find_inner(nest, from, d, written, uses, maker);
        int      row, column;

        if (k == UINT32_MAX)
            continue;
        row = row_of(nest->insts[from].op);
        column = column_of(nest->insts[st->dst].op, at);
        if (row < 0 || column < 0)
            continue;
        take_over(nest, st, &steps[k], at, row, kernels->pair[row][column][d == FR_F64]);
        steps[k].fn.map = NULL;
        return true;
    }
    return false;
}

/* The same for a sum and the products that are summed. */
static void
join_sum(const struct fr_nest *nest, struct fr_program_step *steps, struct fr_program_step *st, uint32_t written, const uint16_t *uses,
         const uint32_t *maker)
{
    const uint32_t  k = find_inner(nest, st->a[0], st->in, written, uses, maker);
    struct fr_program_step *inner;
    fr_op           op;

    if (k == UINT32_MAX || st->op_row != FR_REDUCE_ROW(FR_OP_sum) || (st->in != FR_F32 && st->in != FR_F64))
        return;
    inner = &steps[k];
    op = nest->insts[inner->dst].op;
    if ((op != FR_OP_multiply && op != FR_OP_square) || inner->once || inner->row_args)
        return;
    st->kind = FR_PROGRAM_SUM_PRODUCTS;
    st->a[0] = inner->a[0];
    st->a[1] = st->a[2] = inner->a[op == FR_OP_multiply];
    inner->fn.map = NULL;
}

uint32_t
fr_pairs_join(const struct fr_nest *nest, const struct fr_kernels *kernels, struct fr_program_step *steps, struct fr_program_steps l,
              uint16_t *uses, uint32_t *maker)
{
    uint32_t written = l.first, end = l.first;

    memset(uses, 0, 2 * nest->n_insts * sizeof *uses);
    memset(maker, 0xff, 2 * nest->n_insts * sizeof *maker);
    for (uint32_t i = l.first; i < l.end; i++) {
        const struct fr_program_step *st = &steps[i];
        int                   n = is_operation(st) ? fr_nest_n_args(&nest->insts[st->dst]) : fr_step_args(st);

        for (int k = 0; k < n; k++)
            uses[st->a[k]] += uses[st->a[k]] < 2;
    }
    for (uint32_t i = l.first; i < l.end; i++) {
        struct fr_program_step *st = &steps[i];

        if (st->kind == FR_PROGRAM_REDUCE)
            join_sum(nest, steps, st, written, uses, maker);
        if (is_operation(st) && !join(nest, kernels, steps, st, written, uses, maker) && st->kind == FR_PROGRAM_OP)
            maker[st->dst] = i;
        if (fr_step_writes(st))
            written = i + 1;
    }
    for (uint32_t i = l.first; i < l.end; i++)
        if (!is_operation(&steps[i]) || steps[i].fn.map)
            steps[end++] = steps[i];
    return end;
}
