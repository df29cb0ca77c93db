/* backends/cpu/call.h -- the steps of a plan that are no loop nests: CALL rows of ir/ops.def.
 *
 * A matrix product is NumPy's: the very routine that numpy.matmul would end
 * in, over the same strides, so that it makes the same choices (BLAS or not, transposed or not) and
 * gives the same bits. It touches no Python object and needs no GIL. A take copies slices along one axis
 * in the order of an array of indices, which are in bounds (runtime/call.c has looked), unless they have changed since.
 * A power of a number is C's, which NumPy's numbers have: not that of arrays. */
#ifndef FR_BACKENDS_CPU_CALL_H
#define FR_BACKENDS_CPU_CALL_H

#include "backends/backend.h"

/* ptr: the operands' first elements, then the result's, which overlaps none of them. FR_ENOMEM, FR_EINTR; FR_EINDEX: an
 * index is out of bounds, the result is not what it should be. */
fr_status fr_call_run(const struct fr_call *, char *const *ptr, struct fr_err *);

/* Matrix products out = a b, one after the other, set by bind: dims {how many, m, k, n}; steps in bytes {a, b and out from
 * one to the next, a along m and k, b along k and n, out along m and n}. ptr may be changed. False: out of memory. */
extern bool (*fr_call_product)(fr_dtype, char **ptr, const int64_t *dims, const int64_t *steps);

#endif
