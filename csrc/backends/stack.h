/* backends/stack.h -- a stack of matrix products: the call of a matmul, cut along all axes of the stack but the last and those
 * that continue it.
 *
 * dims {how many, m, k, n}; steps in bytes {a, b and out from one to the next, a along m and k, b along k and n, out along m
 * and n}; 0 along an axis of size 1, or one that an operand has not. */
#ifndef FR_BACKENDS_STACK_H
#define FR_BACKENDS_STACK_H

#include "backends/backend.h"

struct fr_stack {
    int64_t dims[4], steps[9];
    char   *at[3];                      /* a, b and out of the first of these; NULL: an operand without elements */
    /* of stack.c: */
    const struct fr_layout *layout[3];
    int     core[3], n_outer, n_walked, size;   /* axes of the stack; those outside the first `at` */
    int64_t index[FR_MAX_DIMS];
};

/* The first ones. The result has elements. */
void fr_stack_begin(struct fr_stack *, const struct fr_call *, char *const *ptr);
/* The next ones; false: those were all. */
bool fr_stack_next(struct fr_stack *);

#endif
