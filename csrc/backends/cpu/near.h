/* backends/cpu/near.h -- elements that lie a few apart, brought side by side by whole vectors; or one many times.
 *
 * Called by copy.c. near.inc.c is compiled once per instruction-set level, as reduce.inc.c is. */
#ifndef FR_BACKENDS_CPU_NEAR_H
#define FR_BACKENDS_CPU_NEAR_H

#include <stddef.h>

enum { FR_NEAR_STEP = 4 };   /* elements, at most */

/* out[i] = in[i * step] for as many i from 0 on as are returned, which leaves few; 0 for a step that is not -1 or
 * 2 .. FR_NEAR_STEP. No memory beyond in[(n - 1) * step] is read. */
typedef size_t fr_near_fn(size_t n, char *out, const char *in, ptrdiff_t step);

/* Row r of `out`, n_bytes long, becomes copies of the element at in + r * stride; for as many rows as are returned,
 * which leaves few. The rows lie side by side. */
typedef size_t fr_repeat_fn(size_t n_rows, size_t n_bytes, char *out, const char *in, ptrdiff_t stride);

/* By the size of an element: 1, 2, 4, 8 bytes. */
struct fr_near_kernels {
    fr_near_fn   *gather[9];
    fr_repeat_fn *repeat[9];
};
extern const struct fr_near_kernels fr_near_v2, fr_near_v3, fr_near_v4, fr_near_generic;
extern const struct fr_near_kernels *fr_near;        /* the level in use, as fr_reduce */

#endif
