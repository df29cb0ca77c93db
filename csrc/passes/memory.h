/* passes/memory.h -- where temporaries lie in one shared block.  Called by runtime/plan.c. */
#ifndef FR_PASSES_MEMORY_H
#define FR_PASSES_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FR_MEMORY_ALIGN 64
/* What a plan, which is made while somebody waits, may spend on the search: about a millisecond.
 * Counted, not timed: the same plan comes out everywhere. */
#define FR_MEMORY_PLAN_STEPS 150000

/* A temporary: written first in step `from`, read last in step `to` (both included). It takes
 * n_bytes rounded up to FR_MEMORY_ALIGN. */
struct fr_interval {
    int32_t from, to;
    int64_t n_bytes;
    int64_t offset;      /* out: a multiple of FR_MEMORY_ALIGN */
};

struct fr_packing {
    int64_t peak;        /* the block's size */
    int64_t bound;       /* what no placement can go below: the most bytes alive in one step */
    int64_t quick_peak;  /* the peak before the search; `peak` where there was none */
    int64_t steps;       /* of the search: pieces and sections looked at */
};

/* Gives every interval an offset so that no two that live in a common step share a byte.
 * Several orders of placing are tried until the peak is no more than `wanted` or the bound,
 * whichever is larger; if none does, a search of at most `max_steps` steps goes on from the
 * best. It leaves alone what is too much for it: more intervals that hang together than the
 * root of its steps.
 *
 * Where at most 2^16 pairs of intervals meet, all orders fill gaps, at the cost of these
 * pairs. Where more do, n log n placements without gaps come first; the order of time, with
 * gaps and a look at what is alive for each interval, comes last, unless they are within 1/64
 * of what is wanted. */
fr_status fr_memory_pack(struct fr_interval *, int n, int64_t wanted, int64_t max_steps,
                         struct fr_packing *out, struct fr_err *);

#endif
