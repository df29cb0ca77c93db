/* backends/cpu/duel.h -- which executor is the faster one for a kernel: both have the same bits. Called by launch.c.
 *
 * Compiled code is faster for most kernels and up to ten times slower for some: where GCC finds no vectors for a
 * chain, or the interpreter has a loop of its own for what a block of values ends in. Which ones, only the clock
 * tells. So once there is code, the first runs of a kernel take turns, and later one in many looks whether it is
 * still so; rows of a few elements and of many, and short and long runs, are looked at apart. */
#ifndef FR_BACKENDS_CPU_DUEL_H
#define FR_BACKENDS_CPU_DUEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { FR_DUEL_INTERPRETED, FR_DUEL_COMPILED, FR_DUEL_CLASSES = 6 };

/* What is known of one kind of runs of a kernel. All zero: nothing. */
struct fr_duel_class {
    atomic_uint n_runs;
    atomic_uint rate[2]; /* time over time expected, in units of 1/1024; 0: never timed */
};

/* Of one kernel. */
struct fr_duel {
    struct fr_duel_class of[FR_DUEL_CLASSES];
};

/* One run. */
struct fr_duel_run {
    struct fr_duel_class *of; /* NULL: not timed */
    int                   executor;
    int64_t               ps, began_ns;
};

/* Before a run that is expected to take `ps` (more than 0) over rows of n_inner elements: which executor. */
int  fr_duel_begin(struct fr_duel_run *, struct fr_duel *, int64_t ps, int64_t n_inner);
/* After it, by so many threads. */
void fr_duel_end(const struct fr_duel_run *, int n_threads);

/* What fr_duel_end does with the clock's answer: the run took `times` as long as its ps says. */
void fr_duel_learn(const struct fr_duel_run *, double times);

#endif
