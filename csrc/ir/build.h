/* ir/build.h -- what a new node is: dtypes, shape, layout and axis order of an operation over given operands.
 *
 * Tracing (runtime/trace*.c, call.c) and nodes that passes add (ir/insert.c) both ask here, so that both come to the same
 * result: NumPy's. The answers follow from operations, dtypes and layouts alone, and nothing is made but layouts. ir/op.h
 * has the dtypes of element-wise operations. A layout that comes out is a new reference, and the caller's; on
 * failure *out is untouched. What NumPy refuses fails with NumPy's message; any of these may fail with FR_ENOMEM. */
#ifndef FR_IR_BUILD_H
#define FR_IR_BUILD_H

#include "core/layout.h"
#include "ir/op.h"

enum { FR_NUMPY_BUFFER = 8192 };    /* elements in the buffer of NumPy's iterator */

/* ---- element by element */

/* The layout of a result over n operands, 1 to 3: broadcast, its axes in the operands' order. `what` is for messages. */
fr_status fr_build_map(struct fr_layout *const *, int n, const char *what, struct fr_layout **out, struct fr_err *);
/* What `op` with dtype=`dtype` computes in. FR_EUFUNC: there is no such loop. */
fr_status fr_build_map_as(fr_op, int n_args, fr_dtype dtype, fr_dtype *compute, struct fr_err *);
/* Whether argument k, of dtype `from`, may be converted for that; FR_EUFUNC. */
fr_status fr_build_map_arg(fr_op, int k, fr_dtype from, fr_dtype compute, struct fr_err *);
/* Whether a result of this dtype, and then of this layout, may be written into an out= of those; FR_EUFUNC, FR_EVALUE. */
fr_status fr_build_out_dtype(fr_op, fr_dtype result, fr_dtype out, struct fr_err *);
fr_status fr_build_out_layout(const struct fr_layout *result, const struct fr_layout *out, struct fr_err *);
/* Whether a value of these dims may be assigned to a window; FR_EVALUE. */
fr_status fr_build_store(const struct fr_layout *window, int ndim, const int64_t *dims, struct fr_err *);
/* The layout of a copy in NumPy's `order`: C, K as the elements lie, or I as the iterator walks them. */
fr_status fr_build_copy_of(struct fr_layout *, char order, struct fr_layout **out, struct fr_err *);
/* The same; most are copied as they are. */
static inline fr_status
fr_build_copy(struct fr_layout *l, char order, struct fr_layout **out, struct fr_err *err)
{
    if ((order == 'C' ? !l->c_contig : !l->dense) || l->n_elems == 0)
        return fr_build_copy_of(l, order, out, err);
    *out = fr_layout_ref(l);
    return FR_OK;
}

/* ---- reductions and scans */

/* In which order NumPy adds up: ours as it is, or after a copy in order C or I (fr_build_copy); or in chunks of its
 * buffer; or in one that only NumPy has. See csrc/NUMERICS.md. */
enum fr_sum_order { FR_SUM_OURS, FR_SUM_COPY_C, FR_SUM_COPY_I, FR_SUM_CHUNKS, FR_SUM_NUMPY };
struct fr_reduction {
    fr_dtype          compute, result;    /* its operand becomes the first */
    enum fr_sum_order order;
    struct fr_layout *layout;             /* of the result, without the axes; also if the operand is copied first */
};
/* A reduction of an operand of dtype `from`, along the axes in the mask; dtype FR_N_DTYPES: as NumPy does without one.
 * FR_EVALUE: there is nothing to take the greatest of. */
fr_status fr_build_reduce(fr_op, fr_dtype from, const struct fr_layout *, uint32_t axes, fr_dtype dtype,
                          struct fr_reduction *out, struct fr_err *);
/* The result with axes of size 1 where they were, as a window of it. */
void      fr_build_keep_dims(const struct fr_layout *result, int ndim, uint32_t axes, int64_t *dims, int64_t *strides);
/* Elements that become one. */
int64_t   fr_build_reduced_count(const struct fr_layout *, uint32_t axes);
/* Axes in the order in which NumPy's iterator walks them, innermost first. */
void      fr_build_walk_order(const struct fr_layout *, int *perm);
/* The dtype of a scan, which its operand is converted to; its layout is fr_build_map's. */
fr_dtype  fr_build_scan(fr_op, fr_dtype from, fr_dtype dtype);

/* ---- calls */

/* The layout of a matrix product: matrices in C order, stacks of them as the operands' stacks lie. */
fr_status fr_build_product(const struct fr_layout *a, const struct fr_layout *b, struct fr_layout **out, struct fr_err *);
/* The layout of a take, where an axis gives way to those of the index; order C, or K: one slice after the other, each
 * as it lies, whatever the axis. FR_ENOTSUP: too many axes. */
fr_status fr_build_take(const struct fr_layout *, struct fr_layout *index, int axis, char order, struct fr_layout **out,
                        struct fr_err *);

#endif
