/* passes/memory.h -- where temporaries lie in one shared block.  Called by runtime/plan.c. */
#ifndef FR_PASSES_MEMORY_H
#define FR_PASSES_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A temporary: written first in step `from`, read last in step `to` (both included). */
struct fr_interval {
    int32_t from, to;
    int64_t n_bytes;
    int64_t offset;      /* out: a multiple of 64 */
};

/* Gives every interval an offset so that no two that live in a common step share a byte. Tries the
 * placement by size and the one by start and takes the smaller. *peak is the block's size; *bound
 * what no placement can go below (the most bytes alive in one step). */
fr_status fr_memory_pack(struct fr_interval *, int n, int64_t *peak, int64_t *bound, struct fr_err *);

#endif
