/* jit/pairs.h -- which two operations of f32 or f64 have a block kernel in common, so that what is between them stays in
 * a register of the processor: for the generator of the kernels (jit/gen/main.c) and for backends/cpu/pairs.c.
 *
 * Row i and column j of the table are outer(inner(a, b), c) where the column says 0, outer(c, inner(a, b)) where it says
 * 1; an outer operation of one argument has no c. Both are rounded, as apart. The single element of an inner sum or
 * product is b. */
#ifndef FR_JIT_PAIRS_H
#define FR_JIT_PAIRS_H

#include "ir/op.h"

enum { FR_PAIR_N_INNER = 4, FR_PAIR_N_OUTER = 8 };

static const fr_op fr_pair_inner[FR_PAIR_N_INNER] = {FR_OP_add, FR_OP_subtract, FR_OP_multiply, FR_OP_divide};

static const struct {
    fr_op op;
    int   at; /* which argument of it the inner result is */
} fr_pair_outer[FR_PAIR_N_OUTER] = {
    {FR_OP_add, 0},    {FR_OP_subtract, 0}, {FR_OP_subtract, 1}, {FR_OP_multiply, 0},
    {FR_OP_divide, 0}, {FR_OP_divide, 1},   {FR_OP_square, 0},   {FR_OP_sqrt, 0}};

#endif
