/* backends/cpu/kernels.h -- the precompiled block kernels, one table per instruction-set level.
 *
 * The map kernels are written at build time by the generator (csrc/jit/gen/main.c), which prints the recipe
 * of each (operation, dtype) as a C loop through jit/emit_text.c; the folds are in reduce.inc.c. Both are
 * compiled once per level. */
#ifndef FR_BACKENDS_CPU_KERNELS_H
#define FR_BACKENDS_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "ir/op.h"
#include "jit/pairs.h"

/* out[i] = op(a[i], b[i], c[i]) for i < n over contiguous blocks. Bit k of `once` set: argument k is
 * one element, the same for every i. out may be the same memory as an argument of equal element
 * size, not overlap it otherwise. */
typedef void fr_map_fn(size_t n, void *out, const void *a, const void *b, const void *c,
                       unsigned once);

/* The combination of a contiguous block in the order of the loop form (jit/loop.h): the pairwise sum
 * of exactly these n elements as NumPy computes it, and so on. Writes one accumulator at `out`
 * (REDUCE's result dtype; sums of f16 have an f32 accumulator) and for argmax, argmin *index. */
typedef void fr_fold_fn(size_t n, const void *a, void *out, int64_t *index);

struct fr_kernels {
    const char *level;                                    /* "v3" */
    fr_map_fn  *map[FR_N_OPS][FR_N_DTYPES];               /* [op][compute dtype]; NULL: no such op */
    fr_map_fn  *cast[FR_N_DTYPES][FR_N_DTYPES];           /* [from][to] */
    fr_map_fn  *pair[FR_PAIR_N_INNER][FR_PAIR_N_OUTER][2]; /* [is f64] */
};

extern const struct fr_kernels fr_kernels_v2, fr_kernels_v3, fr_kernels_v4, fr_kernels_generic;
extern const struct fr_kernels *fr_kernels;               /* the level in use */

#endif
