/* backends/cpu/program_int.h -- what program.c and describe.c share. Nobody else includes it. */
#ifndef FR_BACKENDS_CPU_PROGRAM_INT_H
#define FR_BACKENDS_CPU_PROGRAM_INT_H

#include "backends/cpu/program.h"

/* Whether value `i` makes integers of bools only for sums, which count the bools themselves: no step makes it. */
bool fr_program_only_counts(const struct fr_nest *, uint16_t i);

/* Fills in what can be said of the nest as it is: how its work may be cut. The program's stages are there. */
void fr_program_describe(struct fr_program *);

/* How many places `st` reads, of its three. */
static inline int
fr_step_args(const struct fr_program_step *st)
{
    static const uint8_t n_args[] = {
        [FR_PROGRAM_OP] = 3,    [FR_PROGRAM_OP_STORE] = 3,  [FR_PROGRAM_ROW_OP] = 3, [FR_PROGRAM_ONE_OP] = 3,
        [FR_PROGRAM_STORE] = 1, [FR_PROGRAM_ROW_STORE] = 1, [FR_PROGRAM_EXPAND] = 1, [FR_PROGRAM_REDUCE] = 1,
        [FR_PROGRAM_ACCUM] = 1, [FR_PROGRAM_SCALAR] = 0,    [FR_PROGRAM_SUM_PRODUCTS] = 2,
    };

    return n_args[st->kind];
}

static inline bool
fr_step_reduces(const struct fr_program_step *st)
{
    return st->kind == FR_PROGRAM_REDUCE || st->kind == FR_PROGRAM_SUM_PRODUCTS;
}

static inline bool
fr_step_writes(const struct fr_program_step *st)
{
    return st->kind == FR_PROGRAM_STORE || st->kind == FR_PROGRAM_OP_STORE || st->kind == FR_PROGRAM_ROW_STORE ||
           st->kind == FR_PROGRAM_ACCUM;
}

/* Joins operations of the list in pairs, and returns where it ends then. uses and maker: room for as many places as
 * there may be, 2 * n_insts. */
uint32_t fr_pairs_join(const struct fr_nest *, const struct fr_kernels *, struct fr_program_step *, struct fr_program_steps,
                       uint16_t *uses, uint32_t *maker);

#endif
