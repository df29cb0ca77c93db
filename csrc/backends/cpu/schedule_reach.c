/* backends/cpu/schedule_reach.c -- how operands are reached: what is stored past the caches, and what is asked for ahead. */
#include "backends/cpu/schedule_int.h"

#include <stdlib.h>

#include "backends/cpu/launch.h"
#include "base/env.h"
#include "base/processors.h"

enum {
    LITTLE = 1 << 20,   /* bytes: they fit into any last cache */
    PAST_PART = 8,      /* of all that a loop reads and writes, the least that is worth it */
    APART_BYTES = 1024, /* from one load to another of the same memory: they are in different rows */
    ROWS_BEHIND = 8,    /* at most, of one that is read again */
    MOST_SOURCES = 2,   /* beside which that is asked for */
    NONTEMPORAL_TRANSPOSED = 3,    /* of how much less a result goes past the caches in tiles, which wait for each line */
};

/* The elements of operand o that the whole loop reads or writes. */
static int64_t
operand_bytes(const struct scheduling *z, size_t o)
{
    int64_t bytes = z->source[o].node < 0 ? 0 : fr_dtype_size(z->form[o].dtype);

    for (int p = 0; p < z->n_axes; p++)
        bytes *= z->op[o].stride[p] ? z->dims[p] : 1;
    return bytes;
}

static bool
any_folds(const struct fr_inst *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (in[i].kind == FR_INST_REDUCE || in[i].kind == FR_INST_ACCUM)
            return true;
    return false;
}

static bool
folds(const struct scheduling *z)
{
    return any_folds(z->inst, z->n_inst);
}

/* Of so many bytes that a loop reads and writes, the last cache keeps them beside what others have there. One thread waits
 * for each line that a store brings in; several have more of them under way, and gain only what does not come from memory;
 * and so does a loop that folds. A little is in no need of the cache's size, which files tell at first. */
static int64_t
most_kept(int64_t bytes, bool folds)
{
    int64_t most = bytes < LITTLE && !fr_env.last_cache ? INT64_MAX : fr_last_cache();

    return folds ? most : fr_env.num_threads == 1 ? most / 3 * 2 : most / 8 * 7;
}

/* What the whole loop reads and writes, if that does not fit into the last cache, else 0; a stencil reads one array several
 * times. */
static int64_t
too_many_bytes(struct scheduling *z)
{
    int64_t sum = 0, least;

    for (size_t o = 0; o < z->n_op; o++)
        sum += operand_bytes(z, o);
    least = most_kept(sum, folds(z));
    if (sum < least / 2)
        return 0;
    for (size_t o = 0; o < z->n_op; o++)
        for (size_t k = 0; k < z->n_op; k++)
            if (z->source[k].node == z->source[o].node && k != o &&
                (operand_bytes(z, k) > operand_bytes(z, o) || (k < o && operand_bytes(z, k) == operand_bytes(z, o)))) {
                sum -= operand_bytes(z, o);
                break;
            }
    return fr_schedule_reaches(z, sum, least) ? sum : 0;
}

/* Of how many arrays rows are loaded, in all so many bytes or more of each. */
static int
n_sources(const struct scheduling *z, int64_t least)
{
    int n = 0;

    for (size_t o = 0; o < z->n_op; o++) {
        size_t k = 0;

        while (k < o && (z->op[k].load == FR_LOWER_NO_INST || z->source[k].node != z->source[o].node))
            k++;
        n += k == o && z->op[o].load != FR_LOWER_NO_INST && z->form[o].access == FR_ACCESS_UNIT &&
             operand_bytes(z, o) >= least;
    }
    return n;
}

/* Whether the loop waits for sums with hardly anything to read meanwhile: it has one array of some size, or accumulates
 * rows. */
static bool
waits_for_sums(const struct scheduling *z, int64_t least)
{
    for (size_t i = 0; i < z->n_inst; i++)
        if (z->inst[i].kind == FR_INST_ACCUM)
            return true;
    return folds(z) && n_sources(z, least) < 2;
}

/* Whether it stores whole rows, one element beside the other, of what nothing is said about but that it is written. */
static bool
may_be_nontemporal(const struct fr_inst *in, const struct fr_operand *o)
{
    return in->kind == FR_INST_STORE && in->level == FR_LEVEL_FULL && o->access == FR_ACCESS_UNIT &&
           o->flags == FR_OPERAND_WRITTEN && o->schedule == 0;
}

/* A store first brings the line that it writes into from memory, and keeps it. Where so much is stored that its
 * beginning has left the caches before its end comes, that is for nothing; so it is where all that is read and written
 * does not fit into the last cache, of which others have a part, unless the loop waits for sums between, or is
 * interpreted: a block at a time that is computed in L1 and then stored past takes longer. */
static void
set_nontemporal(struct scheduling *z)
{
    int64_t limit = fr_env.nontemporal_bytes, part = INT64_MAX, all = too_many_bytes(z);

    for (size_t o = 0; o < z->n_op; o++)
        if (z->op[o].turned)
            limit = fr_env.nontemporal_bytes / NONTEMPORAL_TRANSPOSED;
    if (all && !waits_for_sums(z, all / PAST_PART))
        part = all / PAST_PART;
    for (size_t i = 0; i < z->n_inst; i++) {
        const struct fr_inst *in = &z->inst[i];
        struct fr_operand    *o = &z->form[in->operand];

        if (may_be_nontemporal(in, o))
            o->schedule |= fr_schedule_reaches(z, operand_bytes(z, in->operand), limit) ? FR_SCHEDULE_NONTEMPORAL
                           : operand_bytes(z, in->operand) >= part                      ? FR_SCHEDULE_NONTEMPORAL_CODE
                                                                                        : 0;
    }
}

bool
fr_cpu_schedule_dispatch(struct fr_nest *nest, int64_t bytes)
{
    bool any = false;

    if (bytes < most_kept(bytes, false) || nest->n_operands > PAST_PART || any_folds(nest->insts, nest->n_insts))
        return false;
    for (uint32_t i = 0; i < nest->n_insts; i++) {
        const struct fr_inst *in = &nest->insts[i];
        struct fr_operand    *o = &nest->operands[in->operand];

        if (may_be_nontemporal(in, o)) {
            o->schedule |= FR_SCHEDULE_NONTEMPORAL_CODE;
            any = true;
        }
    }
    return any;
}

bool
fr_cpu_schedule_near(struct fr_nest *nest, int operand)
{
    bool changed = nest->operands[operand].schedule != 0;

    nest->operands[operand].schedule = 0;
    return changed;
}

/* Whether the operand is loaded along rows, and *at, where it begins now. A plan runs wherever its windows lie, and is as
 * fast if they lie as they do now. */
static bool
begins(const struct scheduling *z, size_t o, int64_t *at)
{
    *at = z->l->begins[o];
    return z->op[o].load != FR_LOWER_NO_INST && !z->op[o].packed && z->form[o].access == FR_ACCESS_UNIT &&
           *at != FR_BEGINS_ANYWHERE;
}

/* Bytes from operand k to operand o where both are loads of rows of the same memory, else 0. */
static int64_t
distance(const struct scheduling *z, size_t k, size_t o)
{
    int64_t from, to;

    return z->source[k].node == z->source[o].node && begins(z, k, &from) && begins(z, o, &to) ? to - from : 0;
}

/* Whether what operand o reads is read again, so many bytes behind it, some rows later. */
static bool
comes_again(const struct scheduling *z, size_t o, int64_t by)
{
    int     last = z->n_axes - 1, size = fr_dtype_size(z->form[o].dtype);
    int64_t row = last >= 0 ? z->dims[last] * size : 0;

    for (int p = 0; p < last; p++) {
        int64_t step = llabs(z->op[o].stride[p]) * size;

        if (step >= row && step >= APART_BYTES && by > step - row && by < ROWS_BEHIND * step + row &&
            (by + row) % step < 2 * row)
            return true;
    }
    return false;
}

/* Whether nothing is loaded of operand o's memory before operand o is, and something rows behind it. */
static bool
leads(const struct scheduling *z, size_t o)
{
    bool again = false;

    for (size_t k = 0; k < z->n_op; k++) {
        int64_t by = distance(z, k, o);

        if (by < 0)
            return false;
        again |= comes_again(z, o, by);
    }
    return again;
}

/* Marks one operand of each row behind the one that leads. */
static void
set_prefetch_rows(struct scheduling *z, size_t lead)
{
    for (size_t o = 0; o < z->n_op; o++) {
        bool apart = distance(z, o, lead) >= APART_BYTES;

        for (size_t k = 0; apart && k < o; k++)
            apart = z->form[k].schedule != FR_SCHEDULE_PREFETCH_ROW || !distance(z, k, o) ||
                    llabs(distance(z, k, o)) >= APART_BYTES;
        if (apart)
            z->form[o].schedule = FR_SCHEDULE_PREFETCH_ROW;
    }
}

/* A stencil reads its rows several times: as the other times are between, the processor does not see that the first goes
 * on through memory, and rows that have been read are no longer in the nearest cache, where loads that are in two lines are
 * cheap. What the caches hold, and other arrays beside it, come better without being asked for. */
static void
set_prefetch(struct scheduling *z)
{
    bool nontemporal = false;

    for (size_t o = 0; o < z->n_op; o++)
        nontemporal |= (z->form[o].schedule & FR_SCHEDULE_NONTEMPORAL_ANY) != 0;
    if (!nontemporal || folds(z) || n_sources(z, 0) > MOST_SOURCES)
        return;
    for (size_t o = 0; o < z->n_op; o++)
        if (z->form[o].flags == 0 && z->form[o].schedule == 0 && leads(z, o)) {
            z->form[o].schedule = FR_SCHEDULE_PREFETCH;
            set_prefetch_rows(z, o);
        }
}

void
fr_schedule_reach(struct scheduling *z)
{
    set_nontemporal(z);
    set_prefetch(z);
}
