/* bind/tensor/subscripts.h -- the subscripts of einsum: what they say of operands, as axes and windows.
 * Called by einsum.c. */
#ifndef FR_BIND_TENSOR_SUBSCRIPTS_H
#define FR_BIND_TENSOR_SUBSCRIPTS_H

#include "runtime/tensor.h"

enum { FR_EINSUM_OPERANDS = 3,      /* of one map */
       FR_EINSUM_LETTERS = 128 };

struct fr_einsum {
    int                     n, n_out, n_axes, n_dots;
    const struct fr_tensor *t[FR_EINSUM_OPERANDS];
    uint8_t                 label[FR_EINSUM_OPERANDS][FR_MAX_DIMS];  /* of each axis of an operand */
    uint8_t                 axis[FR_MAX_DIMS];                 /* the labels of the result, then those that are summed */
    int64_t                 dims[FR_MAX_DIMS];
    uint8_t                 count[FR_EINSUM_LETTERS + FR_MAX_DIMS];         /* how often a label occurs in operands */
    fr_dtype                dtype;
};

/* Reads the subscripts for the operands z->t[0 .. n-1]; the rest of *z is zero. False: something is wrong, or there is
 * nothing to compute. */
bool fr_einsum_parse(struct fr_einsum *z, const char *subscripts);
/* Operand i over all axes: what it repeats is a diagonal, what it lacks has one element. Sizes that are known by now are in
 * z->dims. False: they do not fit. */
bool fr_einsum_window(struct fr_einsum *z, int i, int64_t *dims, int64_t *strides);
/* Whether operand i has axis number a. */
bool fr_einsum_has(const struct fr_einsum *z, int i, int a);

#endif
