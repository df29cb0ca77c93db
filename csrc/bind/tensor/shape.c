/* bind/tensor/shape.c -- windows with another shape: reshape, transpose, broadcast_to, flip, ... No values
 * move, except where reshape needs a copy.
 *
 * Each function works on a handle and serves both the method (methods.c) and the module function
 * (views.c). */
#include <stdlib.h>
#include <string.h>

#include "bind/tensor/tensor.h"

/* ---- reshape */

/* NumPy's spelling of a shape in this message: "(2,3)", "(3,)", "(2,newaxis)". */
static void
print_dims(int ndim, const int64_t *dims, char *buf, size_t cap)
{
    size_t n = 0;
    int    i = 0;

    while (i < ndim && dims[i] < 0)
        i++;
    n += (size_t)snprintf(buf, cap, "(");
    for (int first = i; i < ndim && n < cap; i++)
        n += dims[i] < 0 ? (size_t)snprintf(buf + n, cap - n, "%snewaxis", i > first ? "," : "")
                         : (size_t)snprintf(buf + n, cap - n, "%s%lld", i > first ? "," : "",
                                            (long long)dims[i]);
    if (n < cap)
        snprintf(buf + n, cap - n, ndim == 1 ? ",)" : ")");
}

static int
cannot_reshape(const struct fr_tensor *t, int ndim, const int64_t *dims)
{
    char text[400];

    print_dims(ndim, dims, text, sizeof text);
    PyErr_Format(PyExc_ValueError, "cannot reshape array of size %lld into shape %s",
                 (long long)t->layout->n_elems, text);
    return -1;
}

static int
fill_unknown(const struct fr_tensor *t, int ndim, int64_t *dims)
{
    int64_t known = 1, n = t->layout->n_elems;
    int     unknown = -1;

    for (int i = 0; i < ndim; i++) {
        if (dims[i] >= 0) {
            if (__builtin_mul_overflow(known, dims[i], &known))
                return cannot_reshape(t, ndim, dims);
        } else if (unknown >= 0) {
            PyErr_SetString(PyExc_ValueError, "can only specify one unknown dimension");
            return -1;
        } else {
            unknown = i;
        }
    }
    if (unknown < 0)
        return known == n ? 0 : cannot_reshape(t, ndim, dims);
    if (known == 0 || n % known)
        return cannot_reshape(t, ndim, dims);
    dims[unknown] = n / known;
    return 0;
}

int
fr_shape_resolve(const struct fr_tensor *t, PyObject *o, int *ndim, int64_t *dims)
{
    if (fr_args_dims(o, true, ndim, dims) < 0)
        return -1;
    return fill_unknown(t, *ndim, dims);
}

static void
reversed(int n, const int64_t *from, int64_t *to)
{
    for (int i = 0; i < n; i++)
        to[i] = from[n - 1 - i];
}

static fr_status
transposed(const struct fr_tensor *t, const int *axes, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];

    for (int i = 0; i < l->ndim; i++) {
        int k = axes ? axes[i] : l->ndim - 1 - i;
        dims[i] = fr_layout_dims(l)[k];
        strides[i] = fr_layout_strides(l)[k];
    }
    return fr_tensor_window(t, l->ndim, dims, strides, 0, out, err);
}

PyObject *
fr_shape_reshape(const struct fr_tensor *t, int ndim, int64_t *dims, char order, int copy)
{
    struct fr_tensor out, turned, t2;
    int64_t          back[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_err    err;
    fr_status        st;

    if (fill_unknown(t, ndim, dims) < 0)
        return NULL;
    if (order == 'A')
        order = t->layout->f_contig && !t->layout->c_contig ? 'F' : 'C';
    FR_TRACE_HERE();
    if (order != 'F') {
        if (copy == 0 && t->layout->n_elems && !fr_layout_reshape(t->layout, ndim, dims, strides)) {
            PyErr_SetString(PyExc_ValueError,
                            "Unable to avoid creating a copy while reshaping.");
            return NULL;
        }
        if (copy <= 0) {
            st = fr_tensor_reshape(t, ndim, dims, &out, &err);
            return fr_type_result(st, &out, &err);
        }
        st = fr_trace_cast(t, t->dtype, 'C', &t2, &err);
        if (st == FR_OK) {
            st = fr_tensor_reshape(&t2, ndim, dims, &out, &err);
            fr_tensor_clear(&t2);
        }
        return fr_type_result(st, &out, &err);
    }
    /* Column order is row order seen from the other side. */
    st = transposed(t, NULL, &turned, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    reversed(ndim, dims, back);
    PyObject *o = fr_shape_reshape(&turned, ndim, back, 'C', copy), *result = NULL;
    fr_tensor_clear(&turned);
    if (o)
        result = fr_shape_transpose(fr_of(o), NULL);
    Py_XDECREF(o);
    return result;
}

PyObject *
fr_shape_ravel(const struct fr_tensor *t, char order, bool copy)
{
    int64_t n = t->layout->n_elems;
    int     axes[FR_MAX_DIMS], k = t->layout->ndim;

    if (order == 'A' || order == 'K')
        order = t->layout->c_contig                         ? 'C'
                : t->layout->f_contig                       ? 'F'
                : order == 'A' || !t->layout->dense         ? 'C'
                                                            : 'K';
    /* Unlike a reshape, ravel promises contiguous memory. */
    if (order == 'C' || order == 'F') {
        copy = copy || !(order == 'C' ? t->layout->c_contig : t->layout->f_contig);
        return fr_shape_reshape(t, 1, &n, order, copy ? 1 : -1);
    }
    /* Elements as they lie in memory: axes by stride, largest first. */
    for (int i = 0; i < k; i++) {
        int j = i;
        for (; j > 0 && fr_layout_strides(t->layout)[axes[j - 1]] <
                            fr_layout_strides(t->layout)[i]; j--)
            axes[j] = axes[j - 1];
        axes[j] = i;
    }
    struct fr_tensor turned;
    struct fr_err    err;
    fr_status        st = transposed(t, axes, &turned, &err);
    PyObject        *o;
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    o = fr_shape_reshape(&turned, 1, &n, 'C', copy ? 1 : -1);
    fr_tensor_clear(&turned);
    return o;
}

/* ---- axes in another order */

PyObject *
fr_shape_transpose(const struct fr_tensor *t, const int *axes)
{
    struct fr_tensor out;
    struct fr_err    err;
    fr_status        st = transposed(t, axes, &out, &err);

    return fr_type_result(st, &out, &err);
}

/* axes= of transpose: None, or one number per axis. */
PyObject *
fr_shape_transpose_by(const struct fr_tensor *t, PyObject *order)
{
    int      axes[FR_MAX_DIMS], n = t->layout->ndim;
    PyObject *seq;
    uint64_t seen = 0;

    if (fr_args_none(order))
        return fr_shape_transpose(t, NULL);
    seq = PySequence_Fast(order, "axes must be a sequence of integers");
    if (!seq)
        return NULL;
    if (PySequence_Fast_GET_SIZE(seq) != n) {
        PyErr_SetString(PyExc_ValueError, "axes don't match array");
        goto fail;
    }
    for (int i = 0; i < n; i++) {
        if (fr_args_axis(PySequence_Fast_GET_ITEM(seq, i), n, &axes[i]) < 0)
            goto fail;
        if (seen >> axes[i] & 1) {
            PyErr_SetString(PyExc_ValueError, "repeated axis in transpose");
            goto fail;
        }
        seen |= (uint64_t)1 << axes[i];
    }
    Py_DECREF(seq);
    return fr_shape_transpose(t, axes);
fail:
    Py_DECREF(seq);
    return NULL;
}

PyObject *
fr_shape_swapaxes(const struct fr_tensor *t, PyObject *a, PyObject *b)
{
    int axes[FR_MAX_DIMS], n = t->layout->ndim, i, j;

    if (fr_args_axis_named(a, n, "axis1", &i) < 0 || fr_args_axis_named(b, n, "axis2", &j) < 0)
        return NULL;
    for (int k = 0; k < n; k++)
        axes[k] = k == i ? j : k == j ? i : k;
    return fr_shape_transpose(t, axes);
}

/* ---- axes of size 1 */

PyObject *
fr_shape_squeezed(PyObject *tensor, PyObject *axis)
{
    const struct fr_layout *l = fr_of(tensor)->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    uint32_t                mask = 0;
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;
    int                     n = 0;

    if (!fr_args_none(axis) && fr_args_axes(axis, l->ndim, &mask) < 0)
        return NULL;
    for (int i = 0; i < l->ndim; i++) {
        bool drop = fr_args_none(axis) ? fr_layout_dims(l)[i] == 1 : mask >> i & 1;
        if (drop && fr_layout_dims(l)[i] != 1) {
            PyErr_SetString(PyExc_ValueError,
                            "cannot select an axis to squeeze out which has size not equal to one");
            return NULL;
        }
        if (!drop) {
            dims[n] = fr_layout_dims(l)[i];
            strides[n++] = fr_layout_strides(l)[i];
        }
    }
    if (n == l->ndim)
        return Py_NewRef(tensor);
    st = fr_tensor_window(fr_of(tensor), n, dims, strides, 0, &out, &err);
    return fr_type_view_of(tensor, fr_type_result(st, &out, &err), false);
}

PyObject *
fr_shape_expand(const struct fr_tensor *t, uint32_t mask, int ndim)
{
    const struct fr_layout *l = t->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;

    for (int i = 0, k = 0; i < ndim; i++) {
        bool fresh = mask >> i & 1;
        dims[i] = fresh ? 1 : fr_layout_dims(l)[k];
        /* NumPy gives the new axis the stride that keeps the array contiguous. */
        strides[i] = fresh ? (k < l->ndim ? fr_layout_strides(l)[k] * fr_layout_dims(l)[k] : 1)
                           : fr_layout_strides(l)[k];
        k += !fresh;
    }
    st = fr_tensor_window(t, ndim, dims, strides, 0, &out, &err);
    return fr_type_result(st, &out, &err);
}

/* ---- the same elements again, or backwards */

PyObject *
fr_shape_broadcast(const struct fr_tensor *t, int ndim, const int64_t *dims)
{
    struct fr_tensor out;
    struct fr_err    err;
    fr_status        st;

    if (t->layout->ndim > ndim) {
        PyErr_SetString(PyExc_ValueError,
                        ndim ? "input operand has more dimensions than allowed by the axis remapping"
                             : "cannot broadcast a non-scalar to a scalar array");
        return NULL;
    }
    st = fr_tensor_broadcast(t, ndim, dims, &out, &err);

    if (st == FR_OK)
        out.readonly = true; /* one element stands in many places */
    return fr_type_result(st, &out, &err);
}

PyObject *
fr_shape_flip(const struct fr_tensor *t, PyObject *axis)
{
    const struct fr_layout *l = t->layout;
    int64_t                 strides[FR_MAX_DIMS], offset = 0;
    uint32_t                mask = fr_args_none(axis) ? UINT32_MAX : 0;
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;
    int                     n = 0, axes[FR_MAX_DIMS];

    if (!mask && fr_args_axis_list(axis, l->ndim, "axis", &n, axes) < 0)
        return NULL;
    while (n-- > 0)
        mask |= 1u << axes[n];
    if (l->ndim == 0) { /* NumPy's index is then the empty one, which copies a number out */
        FR_TRACE_HERE();
        st = fr_trace_cast(t, t->dtype, 'K', &out, &err);
        return fr_type_result_scalar(st, &out, &err);
    }
    for (int i = 0; i < l->ndim; i++) {
        strides[i] = fr_layout_strides(l)[i];
        if (mask >> i & 1) {
            if (l->n_elems)
                offset += strides[i] * (fr_layout_dims(l)[i] - 1);
            strides[i] = -strides[i];
        }
    }
    st = fr_tensor_window(t, l->ndim, fr_layout_dims(l), strides, offset, &out, &err);
    return fr_type_result(st, &out, &err);
}

PyObject *
fr_shape_diagonal(const struct fr_tensor *t, int64_t k, int axis1, int axis2)
{
    const struct fr_layout *l = t->layout;
    int64_t                 dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], offset, n;
    int64_t                 n1 = fr_layout_dims(l)[axis1], n2 = fr_layout_dims(l)[axis2];
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;
    int                     d = 0;

    for (int i = 0; i < l->ndim; i++)
        if (i != axis1 && i != axis2) {
            dims[d] = fr_layout_dims(l)[i];
            strides[d++] = fr_layout_strides(l)[i];
        }
    n = k >= 0 ? (n2 - k < n1 ? n2 - k : n1) : (n1 + k < n2 ? n1 + k : n2);
    n = n < 0 ? 0 : n;
    offset = n == 0   ? 0
             : k >= 0 ? k * fr_layout_strides(l)[axis2]
                      : -k * fr_layout_strides(l)[axis1];
    dims[d] = n;
    strides[d++] = fr_layout_strides(l)[axis1] + fr_layout_strides(l)[axis2];
    st = fr_tensor_window(t, d, dims, strides, offset, &out, &err);
    if (st == FR_OK)
        out.readonly = true; /* as NumPy's */
    return fr_type_result(st, &out, &err);
}

/* The first and last element of a window that is not empty, from its own offset. */
static void
bounds_of(int ndim, const int64_t *dims, const int64_t *strides, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int k = 0; k < ndim; k++)
        *(strides[k] < 0 ? low : high) += strides[k] * (dims[k] - 1);
}

PyObject *
fr_shape_strided(const struct fr_tensor *t, int ndim, const int64_t *dims, const int64_t *byte_strides)
{
    const struct fr_layout *l = t->layout;
    int64_t                 strides[FR_MAX_DIMS], size = fr_dtype_size(t->dtype), low, high, first, last, n = 1;
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;
    bool                    fits = l->n_elems != 0;

    for (int k = 0; k < ndim; k++) {
        strides[k] = byte_strides[k] / size;
        fits &= byte_strides[k] % size == 0 && dims[k] != 0 && llabs(strides[k]) < INT32_MAX && dims[k] < INT32_MAX / n;
        n = fits ? n * dims[k] : 1;
    }
    if (fits) {
        bounds_of(l->ndim, fr_layout_dims(l), fr_layout_strides(l), &low, &high);
        bounds_of(ndim, dims, strides, &first, &last);
        fits = first >= low && last <= high;
    }
    if (!fits)
        Py_RETURN_NOTIMPLEMENTED;
    st = fr_tensor_window(t, ndim, dims, strides, 0, &out, &err);
    if (st == FR_OK)
        out.readonly = true; /* one element may stand in many places */
    return fr_type_result(st, &out, &err);
}
