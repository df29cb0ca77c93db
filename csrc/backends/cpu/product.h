/* backends/cpu/product.h -- matrix products that are no work for BLAS: of integers, bools, halves and tiny matrices, and
 * einsum's of floats.
 *
 * Called by backends/cpu/call.c. NumPy adds up such a product element by element, wherever its operands lie. Integers and
 * bools have the same sum in any order; halves are added in single precision along the inner axis, and rounded once.
 * Floats are added in one of einsum's two orders (fr_product_order). product.inc.c is compiled once per instruction-set
 * level, as reduce.inc.c is. */
#ifndef FR_BACKENDS_CPU_PRODUCT_H
#define FR_BACKENDS_CPU_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "core/dtype.h"

enum { FR_PRODUCT_LANES = 64 };         /* bytes of the longest vector */

/* One product, in bytes from one to the next. Rows of b and of the result are contiguous; those of b can be read as far as
 * a multiple of FR_PRODUCT_LANES where they are shorter than that. */
struct fr_product_rows {
    const char *a, *b;
    char       *out;
    int64_t     a_row, a_k, b_k, out_row;
    int64_t     k, n;
};

/* Rows `first` to `last` of the result. */
typedef void fr_product_rows_fn(const struct fr_product_rows *, int64_t first, int64_t last);
/* The sum of the products of n neighbours. */
typedef void fr_product_dot_fn(int64_t n, const void *a, const void *b, void *out);
/* The same in lanes, of one a and `count` b, and as many results, so many bytes from one to the next. */
typedef void fr_product_lanes_fn(int64_t n, const void *a, const char *b, int64_t b_step, int64_t count, char *out,
                                 int64_t out_step);

/* Products of matrices with at least 2 and at most FR_PRODUCT_TINY rows and columns each, as fr_call_product has them. */
typedef void fr_product_tiny_fn(char *const *ptr, const int64_t *dims, const int64_t *steps);
enum { FR_PRODUCT_TINY = 4 };
/* How such a product adds up, one by one from +0.0: a product is rounded, or is not, before it is added; and what comes out
 * is added to +0.0, or is not, which matters where products that are not 0 are rounded to -0.0. */
enum fr_product_way { FR_PRODUCT_AT_ONCE, FR_PRODUCT_AT_ONCE_TO_ZERO, FR_PRODUCT_APART, FR_PRODUCT_APART_TO_ZERO, FR_PRODUCT_WAYS };

struct fr_product_kernels {
    fr_product_rows_fn  *rows[FR_N_DTYPES];     /* of bools, integers and floats */
    fr_product_dot_fn   *dot[FR_N_DTYPES];      /* of integers */
    fr_product_lanes_fn *lanes[FR_N_DTYPES];    /* of floats */
    fr_product_tiny_fn  *tiny[FR_PRODUCT_WAYS][FR_N_DTYPES];    /* NULL: the level has no such instruction */
};
extern const struct fr_product_kernels fr_product_v2, fr_product_v3, fr_product_v4, fr_product_generic;
extern const struct fr_product_kernels *fr_product;    /* the level in use, as fr_reduce */

/* Tiny products of floats with BLAS's bits. False: they are BLAS's. */
bool      fr_product_run_tiny(fr_dtype, char *const *ptr, const int64_t *dims, const int64_t *steps);
/* Products one after the other, with dims and steps as fr_call_product has them, in an fr_product_order. FR_ENOTSUP: NumPy's
 * routine is as good, and nothing was written; not in einsum's orders, which want rows of the result to be contiguous, and
 * in lanes what is multiplied, too. FR_EINTR, FR_ENOMEM. */
fr_status fr_product_run(fr_dtype, int order, char *const *ptr, const int64_t *dims, const int64_t *steps, struct fr_err *);

#endif
