/* backends/cpu/program_int.h -- what program.c and describe.c share. Nobody else includes it. */
#ifndef FR_BACKENDS_CPU_PROGRAM_INT_H
#define FR_BACKENDS_CPU_PROGRAM_INT_H

#include "backends/cpu/program.h"

/* Whether value `i` makes integers of bools only for sums, which count the bools themselves: no step makes it. */
bool fr_program_only_counts(const struct fr_nest *, uint16_t i);

/* Fills in what can be said of the nest as it is: costs, and how its work may be cut. The program's stages are there. */
void fr_program_describe(struct fr_program *);

#endif
