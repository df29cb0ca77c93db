/* backends/host.h -- what the host does by itself with memory that it may touch: single rows, copies, and what
 * masks and indices choose. The CPU backend has the functions (backends/cpu/host.c, chosen.c), whichever backend runs kernels. */
#ifndef FR_BACKENDS_HOST_H
#define FR_BACKENDS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "ir/op.h"

/* ---- one row ----
 *
 * n elements side by side, on the calling thread, with the bits of a launch. False: there is no block kernel for it. */

enum { FR_HOST_ARGS = 3 };

/* out = op(arg[0], ..), a MAP operation or a cast; bit k of `once`: that argument is one element for all. */
bool fr_host_map(fr_op, size_t n, const fr_dtype *dtype, int n_args, char *const *arg, unsigned once, fr_dtype to, void *out);
/* out, one element, = the row, of n >= 1, reduced by op. */
bool fr_host_fold(fr_op, size_t n, fr_dtype, const void *in, void *out);

/* ---- memory, as a backend has it ---- */

void *fr_host_alloc(size_t n_bytes);
void  fr_host_free(void *, size_t n_bytes);

/* ---- copies ---- */

/* Copies `ndim` axes of elements of `size` bytes; strides in bytes, any sign. They do not overlap. */
void fr_host_copy(int size, int ndim, const int64_t *dims, char *to, const int64_t *to_strides, const char *from,
                  const int64_t *from_strides);

/* ---- masks ---- */

enum { FR_MASK_WORD = 64 };      /* elements in a word of bits; the first is the lowest bit */

/* Bit i is set where mask[i] is not 0; those of the last word that are beyond n are not. Returns how many are set. */
size_t fr_host_pack(size_t n, const void *mask, uint64_t *bits);
/* out becomes the rows of `in` whose bits are set, `count` of them. */
void   fr_host_compress(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out);
/* The rows of out whose bits are set become those of `in`. */
void   fr_host_expand(size_t n_words, const uint64_t *bits, size_t count, size_t row, const char *in, char *out);

/* ---- indices ---- */

enum { FR_INDEX_BELOW = 1, FR_INDEX_OUTSIDE = 2 };   /* some index is negative; is not in [-size, size) */

/* out[i] = in[i] of an integer dtype, plus `size` if that is negative; returns FR_INDEX_* of all n together. */
unsigned fr_host_index_wrap(fr_dtype, size_t n, const void *in, int64_t size, int64_t *out);
/* out[i] = in[i], which is read once, or `last` if it is not in [0, last]. */
void     fr_host_index_bound(size_t n, const int64_t *in, uint64_t last, int64_t *out);
/* The row at out + index[i] * step becomes the one at in + i * from (0: they are all the same), for i from 0 to n - 1. */
void     fr_host_scatter(size_t n, size_t row, char *out, ptrdiff_t step, const int64_t *index, const char *in,
                           ptrdiff_t from);
/* The same, where the row is joined with what is there, element by element in the order of the indices. row: elements. */
typedef void fr_index_join_fn(size_t n, size_t row, char *out, ptrdiff_t step, const int64_t *index, const char *in,
                              ptrdiff_t from);
/* For an operation that joins elements of such a dtype; NULL: there is none. */
fr_index_join_fn *fr_host_join(fr_op, fr_dtype);

#endif
