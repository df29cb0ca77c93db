/* backends/cpu/reduce.h -- folds, accumulations and pairwise trees, the parts that reductions are
 * made of.
 *
 * Called by the block interpreter (interp.c) and the launcher. reduce.inc.c has the kernels; it
 * is compiled once per instruction-set level with -DFR_LEVEL=v2|v3|v4|generic. reduce.c has what
 * does not depend on the level: combining, identities, trees; reduce_rows.c reduces rows by them.
 *
 * The result of each is fixed by its definition here, so it is the same at every level and for
 * every cut into blocks and threads:
 *
 *   sum   of floats and complex numbers: NumPy's pairwise tree of exactly the n elements, without
 *         an identity in front (fr_reduce_finish adds NumPy's +0.0). f16 is summed in f32;
 *         integers wrap.
 *   prod  one element after the other, from the first. f16 in f32. Integers wrap.
 *   max   left fold of fr_op maximum: the first NaN if there is one; of equal elements (-0.0 and
 *         0.0) the last for f32 and f64, the first for f16 and complex, as NumPy's maximum does for
 *         a pair. min alike. (NumPy's own order within one row depends on its machine.)
 *   any, all   bool (0 or 1); a NaN is true.
 *   argmax, argmin   the first index of the extreme value, or of the first NaN.
 *
 * How NumPy (2.3 and 2.4) cuts a reduction into such rows, measured; tests/numpy_order.py is the
 * same as a program, and its proof. Whoever plans reductions must hand out exactly these rows:
 *
 *   1. Drop axes of size 1. Sort the others from inner to outer by |stride| (insertion sort from
 *      reversed C order; a pair in which a stride is 0 decides nothing). No axis is flipped.
 *   2. Merge neighbours of one kind (reduced or kept) where size * stride of the inner one is the
 *      stride of the outer one.
 *   3. Innermost axis kept: no tree, acc[j] = acc[j] + x[j] for the reduced indices in order.
 *   4. Else let m0, m1, .. be the leading reduced axes. A row is m0, of any length; but chunks of
 *      8192 of it when the elements are converted to another dtype on the way. And when there is an
 *      m1, and m0 <= 4096 (m0 < 8192 when converted): axes m0, m1, .. together, as many as it takes
 *      to reach 8192 elements, of the last of these floor(8192 / those inside) indices at a time.
 *   5. acc = +0.0 (or `initial`), then acc = acc + tree(row) for the rows in order; f16 is rounded
 *      after each row.
 *
 * The tree of n: n < 8 in order from -0.0; n <= 128 eight accumulators, joined ((0+1)+(2+3)) +
 * ((4+5)+(6+7)), then the rest in order; else two halves, the first n/2 - (n/2)%8. Complex numbers
 * count as two. prod: the same rows, in order; f16 rounded after each row. */
#ifndef FR_BACKENDS_CPU_REDUCE_H
#define FR_BACKENDS_CPU_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/kernels.h"

/* Rows of the tables below: the REDUCE rows of ir/ops.def. */
#define REDUCE(...) +1
enum { FR_N_REDUCES = 0
#include "ir/ops.def"
};
#undef REDUCE
#define FR_REDUCE_ROW(op) ((op) - FR_OP_sum)

/* The dtype of an accumulator for elements of `in`: F32 for sum and prod of F16, I64 for sum of BOOL, BOOL for any and
 * all, `in` for the others (also argmax: the value; its index travels beside it). */
fr_dtype fr_reduce_acc(fr_op op, fr_dtype in);

/* fold_rows: out[t] = fold of the n elements at a + t * n * size, for t < n_rows; meant for short
 * rows. index[t] for argmax and argmin (from 0 in each row), else NULL. */
typedef void fr_fold_rows_fn(size_t n_rows, size_t n, const void *a, void *out, int64_t *index);

/* out = the sum of a[i] * b[i] for i < n, each product rounded, as fold sums them when they lie in memory. */
typedef void fr_fold_products_fn(size_t n, const void *a, const void *b, void *out);

/* accum: acc[j] = combine(acc[j], x[r * row_stride + j]) for each row r in order: column
 * reductions. acc has the dtype of the *result* (f16 sums and products are rounded at every row,
 * as NumPy does when the inner axis is kept), is contiguous and does not overlap x; x's rows are
 * row_stride bytes apart, contiguous inside. index[j] (argmax, argmin; else NULL) becomes i0 + r
 * where row r wins. */
typedef void fr_accum_fn(size_t n_rows, size_t n, void *acc, const void *x, ptrdiff_t row_stride,
                         int64_t *index, int64_t i0);

/* [FR_REDUCE_ROW(op)][dtype of the elements]; NULL where there is no such reduction (of bool: prod,
 * and sum by rows; the loop form converts it to an integer first, even for the sums that are here). */
struct fr_reduce_kernels {
    const char      *level;
    fr_fold_fn      *fold[FR_N_REDUCES][FR_N_DTYPES];   /* n >= 1 for max, min, argmax, argmin */
    fr_fold_rows_fn *fold_rows[FR_N_REDUCES][FR_N_DTYPES];
    fr_accum_fn     *accum[FR_N_REDUCES][FR_N_DTYPES];
    fr_fold_products_fn *fold_products[2]; /* [is f64] */
};
extern const struct fr_reduce_kernels fr_reduce_v2, fr_reduce_v3, fr_reduce_v4, fr_reduce_generic;
extern const struct fr_reduce_kernels *fr_reduce;        /* the level in use, as fr_kernels */

/* acc = combine(acc, other): the folds of two neighbouring ranges, acc's on the left. The indices
 * (argmax, argmin; else NULL) must count from the same origin. Accumulators of fr_reduce_acc's
 * dtype. */
void fr_reduce_combine(fr_op op, fr_dtype in, void *acc, int64_t *acc_index, const void *other,
                       const int64_t *other_index);
/* Fills n accumulators of dtype `acc` with what an accumulation begins with: sum 0 (NumPy's
 * +0.0), prod 1, max the lowest value, min the highest, any 0, all 1. index (may be NULL) is
 * filled with 0. */
void fr_reduce_identity(fr_op op, fr_dtype acc, size_t n, void *out, int64_t *index);
/* The result of a whole row at `out` (i64 for argmax and argmin, bool for any and all, else
 * `in`): sum adds NumPy's +0.0 (so that a row of -0.0 gives 0.0), f16 is rounded, argmax and
 * argmin store the index. */
void fr_reduce_finish(fr_op op, fr_dtype in, const void *acc, const int64_t *index, void *out);

/* The results of n_rows rows of n elements each, side by side, by the kernels of the level in use: to[t] as
 * fr_reduce_finish stores it. `room` is FR_REDUCE_ROOM bytes to work in, aligned to 16. */
enum { FR_REDUCE_ROOM = 4096 };
void fr_reduce_rows(fr_op op, fr_dtype in, size_t n_rows, size_t n, const char *from, char *to, char *room);
/* The same for sums of the products of two arrays of f32 or f64, a row of each side by side. */
void fr_reduce_products(fr_dtype in, size_t n_rows, size_t n, const char *a, const char *b, char *to, char *room);

/* ---- the pairwise tree in pieces ---------------------------------------------------------------
 * Walks the subtrees of at most `max` elements (max >= 128) from left to right:
 *
 *     fr_tree_begin(&t, n, max, wide);
 *     while (fr_tree_next(&t)) {
 *         fold(t.n, x + t.start, stack[top++]);
 *         for (int k = 0; k < t.n_joins; k++, top--)
 *             combine(stack[top - 2], stack[top - 1]);
 *     }                                              the result is in stack[0]
 *
 * The stack needs FR_TREE_DEPTH entries. A piece may itself be walked with a smaller max. n == 0
 * has one empty piece. `wide` trees are of complex numbers: NumPy counts their components, so
 * leaves are half as long. */
enum { FR_TREE_DEPTH = 64 };
struct fr_tree {
    int64_t start, n;       /* the piece */
    int     n_joins;        /* how often to combine after it */
    int     depth;
    bool    wide;
    int64_t max;
    int64_t todo[FR_TREE_DEPTH];       /* lengths of the right halves not yet walked, */
    int     joins[FR_TREE_DEPTH];      /* and the joins that end with them */
};
void    fr_tree_begin(struct fr_tree *, int64_t n, int64_t max, bool wide);
bool    fr_tree_next(struct fr_tree *);
/* How many pieces there are. */
int64_t fr_tree_count(int64_t n, int64_t max, bool wide);

/* The same as a fold: what interp.c and launch.c use to join the results of pieces as they come. */
struct fr_tree_stack {
    int     top;
    int64_t index[FR_TREE_DEPTH];
    struct { _Alignas(16) unsigned char bytes[16]; } value[FR_TREE_DEPTH];
};
/* Pushes the piece's accumulator, then joins as t->n_joins says. After the last piece value[0],
 * index[0] are the whole. */
void    fr_tree_push(struct fr_tree_stack *, const struct fr_tree *t, fr_op op, fr_dtype in,
                     const void *acc, const int64_t *index);

#endif
