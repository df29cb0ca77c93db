#include "ir/build.h"

#include <string.h>

static fr_status
get(int ndim, const int64_t *dims, const int64_t *strides, struct fr_layout **out, struct fr_err *err)
{
    struct fr_layout *l = fr_layout_get(ndim, dims, strides);

    if (!l)
        return fr_fail(err, FR_ENOMEM, "out of memory: a layout");
    *out = l;
    return FR_OK;
}

/* ---- element by element ------------------------------------------------------------------- */

fr_status
fr_build_map(struct fr_layout *const *l, int n, const char *what, struct fr_layout **out, struct fr_err *err)
{
    int64_t        dims[FR_MAX_DIMS], strides[3][FR_MAX_DIMS], order[FR_MAX_DIMS], count;
    const int64_t *list[3];
    int            ndim = l[0]->ndim;
    fr_status      st;

    memcpy(dims, fr_layout_dims(l[0]), (size_t)ndim * sizeof *dims);
    for (int i = 1; i < n; i++) {
        int64_t joined[FR_MAX_DIMS];

        st = fr_dims_broadcast(ndim, dims, l[i]->ndim, fr_layout_dims(l[i]), &ndim, joined, what,
                               err);
        if (st != FR_OK)
            return st;
        memcpy(dims, joined, (size_t)ndim * sizeof *dims);
    }
    if ((st = fr_dims_count(ndim, dims, 16, &count, err)) != FR_OK)
        return st;
    for (int i = 0; i < n; i++) {
        fr_strides_broadcast(l[i], ndim, strides[i]);
        list[i] = strides[i];
    }
    fr_strides_keep_order(ndim, dims, n, list, order);
    return get(ndim, dims, order, out, err);
}

fr_status
fr_build_map_as(fr_op op, int n_args, fr_dtype dtype, fr_dtype *compute, struct fr_err *err)
{
    struct fr_op_type types[3];
    fr_status         st;

    for (int k = 0; k < n_args; k++)
        types[k] = (struct fr_op_type){.dtype = fr_op_arg(op, k, dtype)};
    if (fr_op_info[op].rule == FR_RULE_RANDOM)
        *compute = dtype; /* its inputs are counters whatever it computes */
    else if ((st = fr_op_resolve(op, types, compute, err)) != FR_OK)
        return st;
    if (*compute != dtype && fr_op_result(op, *compute) != dtype)
        return fr_fail(err, FR_EUFUNC, "no loop of '%s' computes in %s", fr_op_info[op].name,
                       fr_dtype_name(dtype));
    return FR_OK;
}

fr_status
fr_build_map_arg(fr_op op, int k, fr_dtype from, fr_dtype compute, struct fr_err *err)
{
    if (fr_dtype_same_kind(from, fr_op_arg(op, k, compute)))
        return FR_OK;
    return fr_fail(err, FR_EUFUNC,
                   "Cannot cast ufunc '%s' input %d from %s to %s with casting rule 'same_kind'",
                   fr_op_info[op].name, k, fr_dtype_name(from), fr_dtype_name(compute));
}

fr_status
fr_build_out_dtype(fr_op op, fr_dtype result, fr_dtype out, struct fr_err *err)
{
    if (fr_dtype_same_kind(result, out))
        return FR_OK;
    return fr_fail(err, FR_EUFUNC, "Cannot cast ufunc '%s' output from %s to %s with casting rule 'same_kind'",
                   fr_op_info[op].name, fr_dtype_name(result), fr_dtype_name(out));
}

/* True if dims broadcast to l's, of which they may lack leading axes. */
static bool
fits(const struct fr_layout *l, int ndim, const int64_t *dims)
{
    int extra = l->ndim - ndim;

    for (int k = 0; k < ndim; k++)
        if (dims[k] != 1 && (k + extra < 0 || dims[k] != fr_layout_dims(l)[k + extra]))
            return false;
    return true;
}

fr_status
fr_build_out_layout(const struct fr_layout *result, const struct fr_layout *out, struct fr_err *err)
{
    char from[200], to[200];

    /* Unlike an assignment, out= never drops leading axes. */
    if (result->ndim <= out->ndim && fits(out, result->ndim, fr_layout_dims(result)))
        return FR_OK;
    return fr_fail(err, FR_EVALUE,
                   "non-broadcastable output operand with shape %s doesn't match the broadcast shape %s",
                   fr_dims_print(out->ndim, fr_layout_dims(out), to, sizeof to),
                   fr_dims_print(result->ndim, fr_layout_dims(result), from, sizeof from));
}

fr_status
fr_build_store(const struct fr_layout *window, int ndim, const int64_t *dims, struct fr_err *err)
{
    char from[200], to[200];

    if (fits(window, ndim, dims))
        return FR_OK;
    return fr_fail(err, FR_EVALUE, "could not broadcast input array from shape %s into shape %s",
                   fr_dims_print(ndim, dims, from, sizeof from),
                   fr_dims_print(window->ndim, fr_layout_dims(window), to, sizeof to));
}

fr_status
fr_build_copy_of(struct fr_layout *l, char order, struct fr_layout **out, struct fr_err *err)
{
    int64_t strides[FR_MAX_DIMS];

    if (order == 'C' || l->n_elems == 0)
        return get(l->ndim, fr_layout_dims(l), NULL, out, err);
    if (order == 'I')
        return fr_build_map(&l, 1, "cast", out, err);
    fr_strides_copy_order(l->ndim, fr_layout_dims(l), fr_layout_strides(l), strides);
    return get(l->ndim, fr_layout_dims(l), strides, out, err);
}

/* ---- reductions and scans ----------------------------------------------------------------- */

void
fr_build_walk_order(const struct fr_layout *l, int *perm)
{
    const int64_t *strides = fr_layout_strides(l);

    fr_axes_inwards(l->ndim, fr_layout_dims(l), 1, &strides, perm);
}

/* The layout of a reduction's result without the axes in the mask, the others as they are walked; perm NULL: in C order. */
static struct fr_layout *
reduced_layout(const struct fr_layout *l, uint32_t axes, const int *perm)
{
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], full[FR_MAX_DIMS], step = 1;
    int     n = 0;

    for (int i = 0; perm && i < l->ndim; i++)
        if (!(axes >> perm[i] & 1)) {
            full[perm[i]] = step;
            step *= fr_layout_dims(l)[perm[i]];
        }
    for (int k = 0; k < l->ndim; k++)
        if (!(axes >> k & 1)) {
            dims[n] = fr_layout_dims(l)[k];
            strides[n++] = perm ? full[k] : 0;
        }
    return fr_layout_get(n, dims, !perm || step == 0 ? NULL : strides);
}

void
fr_build_keep_dims(const struct fr_layout *result, int ndim, uint32_t axes, int64_t *dims, int64_t *strides)
{
    int j = 0;

    for (int k = 0; k < ndim; k++) {
        bool gone = axes >> k & 1;

        dims[k] = gone ? 1 : fr_layout_dims(result)[j];
        strides[k] = gone ? 0 : fr_layout_strides(result)[j++];
    }
}

int64_t
fr_build_reduced_count(const struct fr_layout *l, uint32_t axes)
{
    int64_t n = 1;

    for (int k = 0; k < l->ndim; k++)
        if (axes >> k & 1)
            n *= fr_layout_dims(l)[k];
    return n;
}

/* Who can add up in NumPy's order: our kernels as it is, our kernels after a copy to dense memory, or chunk by chunk, as
 * NumPy's iterator cuts rows into buffers, or only NumPy (csrc/NUMERICS.md). */
static enum fr_sum_order
sum_order(fr_op op, fr_dtype dtype, const struct fr_layout *l, uint32_t axes, const int *perm, bool cast)
{
    const int64_t *dims = fr_layout_dims(l), *strides = fr_layout_strides(l);
    int            p = 0, i = 0, n_kept = 0;
    int64_t        first = 1, all = 1, size = 1, stride = 0;
    bool           more = false;

    if (l->n_elems == 0)
        return FR_SUM_OURS;
    for (; i < l->ndim; i++) {
        int ax = perm[i];

        if (dims[ax] == 1)
            continue;
        if (!(axes >> ax & 1))
            break;
        if (p == 0 || strides[ax] != size * stride) {
            p++;
            size = dims[ax];
            stride = strides[ax];
        } else {
            size *= dims[ax];
        }
        if (p == 1)
            first = size;
        all *= dims[ax];
    }
    if (p == 0)
        return FR_SUM_OURS;
    for (; i < l->ndim; i++) {
        more |= dims[perm[i]] != 1 && (axes >> perm[i] & 1);
        n_kept += dims[perm[i]] != 1;
    }
    /* Rows that are added up one after the other: a product goes on from row to row element by element,
     * and half precision is rounded once per row; the loop form says neither. */
    more |= p > 1 && first > FR_NUMPY_BUFFER / 2;
    if (more && (op == FR_OP_prod || dtype == FR_F16))
        return FR_SUM_NUMPY;
    if (p == 1 && !cast)
        return FR_SUM_OURS;
    if (cast && all > FR_NUMPY_BUFFER)
        return op == FR_OP_sum && dtype != FR_F16 && p == 1 && !more && n_kept <= 1 ? FR_SUM_CHUNKS : FR_SUM_NUMPY;
    if (cast)
        return FR_SUM_OURS;
    if (first > FR_NUMPY_BUFFER / 2)
        return FR_SUM_OURS;
    return all <= FR_NUMPY_BUFFER ? FR_SUM_COPY_I : FR_SUM_NUMPY;
}

/* True when adding up `n` elements of dtype `from` in float64 never rounds. */
static bool
sum_is_exact(fr_dtype from, fr_dtype to, int64_t n)
{
    if (fr_dtype_is_int(to) || to == FR_BOOL)
        return true;
    return to == FR_F64 && from < FR_F16 && fr_dtype_size(from) <= 4 &&
           n < 1ll << (53 - 8 * fr_dtype_size(from));
}

fr_status
fr_build_reduce(fr_op op, fr_dtype from, const struct fr_layout *l, uint32_t axes, fr_dtype dtype,
                struct fr_reduction *out, struct fr_err *err)
{
    const struct fr_op_info *info = &fr_op_info[op];
    fr_dtype                 result = fr_op_result(op, from), compute = from;
    enum fr_sum_order        order = FR_SUM_OURS;
    int                      perm[FR_MAX_DIMS];
    struct fr_layout        *layout;

    if (info->rule == FR_RULE_SUM) {
        if (dtype != FR_N_DTYPES)
            result = dtype;
        compute = result; /* the loop form wants its operand in the accumulator's dtype */
    } else if (dtype != FR_N_DTYPES && info->rule == FR_RULE_SAME) {
        compute = result = dtype;
    } else if (info->rule == FR_RULE_TRUTH) {
        compute = FR_BOOL; /* anything but zero, NaN included, is true */
    }
    if (info->rule == FR_RULE_SAME && !fr_op_takes(op, compute)) /* the others compute in what they take */
        return fr_fail(err, FR_EUFUNC, "'%s' not supported for elements of %s", info->name, fr_dtype_name(from));
    if (fr_op_picks(op)) {
        for (int k = 0; k < l->ndim; k++)
            if ((axes >> k & 1) && fr_layout_dims(l)[k] == 0)
                return info->rule == FR_RULE_SAME
                           ? fr_fail(err, FR_EVALUE,
                                     "zero-size array to reduction operation %s which has no "
                                     "identity",
                                     fr_op_info[info->combine].name)
                           : fr_fail(err, FR_EVALUE,
                                     "attempt to get %s of an empty sequence", info->name);
    }
    if (info->rule == FR_RULE_INDEX && __builtin_popcount(axes) > 1 && !l->c_contig)
        order = FR_SUM_COPY_C; /* NumPy walks a flattened argmax in C order. */
    if (info->rule != FR_RULE_INDEX)
        fr_build_walk_order(l, perm);
    if (info->rule == FR_RULE_SUM && !sum_is_exact(from, compute, fr_build_reduced_count(l, axes)))
        order = sum_order(op, compute, l, axes, perm, compute != from);
    if (!(layout = reduced_layout(l, axes, info->rule == FR_RULE_INDEX ? NULL : perm)))
        return fr_fail(err, FR_ENOMEM, "out of memory: a reduction");
    *out = (struct fr_reduction){compute, result, order, layout};
    return FR_OK;
}

fr_dtype
fr_build_scan(fr_op op, fr_dtype from, fr_dtype dtype)
{
    return dtype != FR_N_DTYPES ? dtype : fr_op_result(op, from);
}

/* ---- calls -------------------------------------------------------------------------------- */

fr_status
fr_build_product(const struct fr_layout *a, const struct fr_layout *b, struct fr_layout **out, struct fr_err *err)
{
    const struct fr_layout *in[2] = {a, b};
    int64_t                 dims[FR_MAX_DIMS], strides[2][FR_MAX_DIMS] = {{0}}, order[FR_MAX_DIMS], n;
    const int64_t          *list[2] = {strides[0], strides[1]};
    int                     ndim, n_outer;
    fr_status               st;

    if ((st = fr_dims_product(a->ndim, fr_layout_dims(a), b->ndim, fr_layout_dims(b), &ndim, dims,
                              err)) != FR_OK ||
        (st = fr_dims_count(ndim, dims, 16, &n, err)) != FR_OK)
        return st;
    n_outer = ndim - (a->ndim > 1) - (b->ndim > 1);
    for (int i = 0; i < 2; i++) {
        int own = in[i]->ndim - (in[i]->ndim > 1 ? 2 : 1);

        for (int k = 0; k < own; k++)
            if (fr_layout_dims(in[i])[k] != 1)
                strides[i][n_outer - own + k] = fr_layout_strides(in[i])[k];
    }
    fr_strides_keep_order(ndim, dims, 2, list, order);
    return get(ndim, dims, order, out, err);
}

fr_status
fr_build_take(const struct fr_layout *t, struct fr_layout *index, int axis, char order, struct fr_layout **out,
              struct fr_err *err)
{
    int64_t   dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], slice[FR_MAX_DIMS] = {0};
    int64_t   from[FR_MAX_DIMS] = {0}, inside[FR_MAX_DIMS], count, step = 1;
    int       ndim = t->ndim + index->ndim - 1, n = 0;
    fr_status st;

    if (ndim > FR_MAX_DIMS)
        return fr_fail(err, FR_ENOTSUP, "an index with too many axes");
    if (t->ndim == 1) { /* an index that is read lies in C order, and so do the elements */
        *out = fr_layout_ref(index);
        return FR_OK;
    }
    for (int k = 0; k < t->ndim; k++)
        if (k != axis) {
            dims[k < axis ? k : k + index->ndim - 1] = slice[n] = fr_layout_dims(t)[k];
            from[n++] = fr_layout_strides(t)[k];
        }
    for (int k = 0; k < index->ndim; k++)
        dims[axis + k] = fr_layout_dims(index)[k];
    if ((st = fr_dims_count(ndim, dims, 16, &count, err)) != FR_OK)
        return st;
    fr_strides_copy_order(n, slice, from, inside);
    for (int k = 0; k < n; k++) {
        strides[k < axis ? k : k + index->ndim] = inside[k];
        step *= slice[k];
    }
    for (int k = index->ndim; k-- > 0; step *= dims[axis + k])
        strides[axis + k] = step;
    return get(ndim, dims, order == 'C' || count == 0 ? NULL : strides, out, err);
}
