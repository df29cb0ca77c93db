/* backends/cpu/index.h -- arrays of indices as numbers from 0 on, in the range of an axis.
 *
 * Called by the tracing of takes (runtime/call.c) and by what writes (runtime/choose.c), a run of neighbours at a time. index.inc.c is compiled
 * once per instruction-set level, as reduce.inc.c is. */
#ifndef FR_BACKENDS_CPU_INDEX_H
#define FR_BACKENDS_CPU_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "backends/host.h"

/* out[i] = in[i], plus `size` if that is negative; returns FR_INDEX_* of all n together. Whatever is outside,
 * all of out is written. */
typedef unsigned fr_index_fn(size_t n, const void *in, int64_t size, int64_t *out);

/* out[i] = in[i], which is read once, or `last` if it is not in [0, last]; returns 0 if all are. */
typedef uint64_t fr_index_bound_fn(size_t n, const int64_t *in, uint64_t last, int64_t *out);

struct fr_index_kernels {
    fr_index_fn       *wrap[FR_N_DTYPES];    /* of whole numbers */
    fr_index_bound_fn *bound;
    fr_index_join_fn  *add[FR_N_DTYPES], *subtract[FR_N_DTYPES];     /* NULL: not of such elements */
};
extern const struct fr_index_kernels fr_index_v2, fr_index_v3, fr_index_v4, fr_index_generic;
extern const struct fr_index_kernels *fr_index;        /* the level in use, as fr_reduce */

#endif
