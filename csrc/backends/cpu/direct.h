/* backends/cpu/direct.h -- one operation without a nest, straight from the tables of block kernels.
 *
 * For what is so small that to find a kernel, or to make one, would take as long as to compute. All runs on the calling
 * thread. The bits are those of fr_launch. Each function returns false, and does nothing, where that is asked to do it:
 * FRIT_BACKEND=ref, or there is no block kernel, or the launcher has a better way. */
#ifndef FR_BACKENDS_CPU_DIRECT_H
#define FR_BACKENDS_CPU_DIRECT_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/op.h"

enum { FR_DIRECT_ARGS = 3 };

/* An operand's first element, and bytes from one row, and from one element, to the next. */
struct fr_direct {
    char     *mem;
    ptrdiff_t row, step;
    fr_dtype  dtype;
};

/* out = op(arg[0], ..), a MAP operation or a cast, for n_rows rows of n elements. An argument of step 0 is one element for
 * the whole row. out may be the memory of an argument that lies like it and whose elements have its size. */
bool fr_direct_map(fr_op, const struct fr_direct *out, const struct fr_direct *arg, int n_args, size_t n_rows, size_t n);
/* out, one element for each row, = the row of n >= 1 elements reduced by op. Rows side by side. */
bool fr_direct_reduce(fr_op, const struct fr_direct *out, const struct fr_direct *in, size_t n_rows, size_t n);
/* out, one row side by side, = all rows reduced by op, column by column. */
bool fr_direct_columns(fr_op, const struct fr_direct *out, const struct fr_direct *in, size_t n_rows, size_t n);

#endif
