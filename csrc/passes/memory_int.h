/* passes/memory_int.h -- what memory.c and memory_search.c share.
 *
 * Time is counted in sections: a new one begins with each step in which some temporary begins. Two
 * temporaries live in a common step if and only if they live in a common section, and the most is
 * alive in one of them. */
#ifndef FR_PASSES_MEMORY_INT_H
#define FR_PASSES_MEMORY_INT_H

#include "passes/memory.h"

/* A temporary to be placed, or one that is. */
struct fr_piece {
    int32_t from, to;      /* sections, both included */
    int32_t index;         /* the caller's */
    int64_t n_bytes, size; /* size: a multiple of FR_MEMORY_ALIGN, not 0 */
    int64_t at;            /* -1: not placed */
};

/* Looks for a placement in [0, target) of all `piece`, which are sorted by `from`. What is placed
 * so already is left where it is, if nothing else that it meets, directly or through others, is
 * placed higher. On success *found is true and every `at` is set, else none is changed. *steps, how
 * many may be taken, is lowered by those taken. */
fr_status fr_memory_search(struct fr_piece *piece, int n, int n_sections, int64_t target,
                           int64_t *steps, bool *found, struct fr_err *);

#endif
