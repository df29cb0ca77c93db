/* jit/work.h -- how much a nest does, counted from the micro code of its instructions.  Called by backends/estimate.c.
 *
 * What a processor does with an element depends neither on sizes nor on the machine: vector instructions of so many bytes by kind,
 * bytes to and from memory or a cache. What a value takes that is computed again in a later stage
 * counts each time. */
#ifndef FR_JIT_WORK_H
#define FR_JIT_WORK_H

#include "jit/loop.h"
#include "jit/micro.h"

/* Kinds of work: those of micro code, adding an element to a sum, folding it into another value or into the place of an extreme,
 * making a half of a float or a float of a half, and loading an element by itself, for those beside it lie elsewhere. */
enum { FR_WK_SUM = FR_N_MKINDS, FR_WK_FOLD, FR_WK_FIND, FR_WK_HALF, FR_WK_APART, FR_N_WORK_KINDS,
       FR_MOST_LOOPS = 4 /* over a row that are told apart: of more of them, the others are counted with the last */ };

struct fr_nest_work {
    struct fr_nest_share {
        double kind[FR_N_WORK_KINDS];  /* bytes of vector instructions that start: places for them (struct fr_mcost), times what each
                                          makes; of SCALAR, instructions; of HALF and APART, elements; of SUM,
                                          eighths of those that wait for each other, for eight sums are added to in turn */
        double loaded, stored;         /* bytes, also what is loaded again */
        double between;                /* bytes that the block interpreter stores for later instructions, and loads there */
        double latency;                /* cycles from an element to its result: instructions wait for each other, once a row */
    } loop[FR_MOST_LOOPS], row;  /* for each element of a row in each loop over it, and for each row */
    int n_loops;                 /* over the elements of a row */
    int n_folds;                 /* reductions of rows */
    int smallest;                /* bytes of the smallest number: a vector has as many elements as it holds of them */
};

void      fr_nest_share_add(struct fr_nest_share *to, const struct fr_nest_share *from, double times);
/* FR_ENOMEM */
fr_status fr_nest_count(const struct fr_nest *, struct fr_nest_work *out, struct fr_err *);

#endif
