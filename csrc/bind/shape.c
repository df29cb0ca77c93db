/* bind/shape.c -- windows with another shape: reshape, transpose, broadcast_to, flip, ... No values
 * move, except where reshape needs a copy.
 *
 * Each fr_shape_* function works on a handle and serves both the method and the module function. */
#include <string.h>

#include "bind/bind.h"

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

static PyObject *
moveaxis_of(const struct fr_tensor *t, PyObject *source, PyObject *destination)
{
    int from[FR_MAX_DIMS], to[FR_MAX_DIMS], axes[FR_MAX_DIMS], n = t->layout->ndim, n_from, n_to;
    uint64_t moved = 0, taken = 0;

    if (fr_args_axis_list(source, n, "source", &n_from, from) < 0 ||
        fr_args_axis_list(destination, n, "destination", &n_to, to) < 0)
        return NULL;
    if (n_from != n_to) {
        PyErr_SetString(PyExc_ValueError, "`source` and `destination` arguments must have the same "
                                          "number of elements");
        return NULL;
    }
    for (int i = 0; i < n_from; i++) {
        axes[to[i]] = from[i];
        moved |= (uint64_t)1 << from[i];
        taken |= (uint64_t)1 << to[i];
    }
    for (int i = 0, k = 0; i < n; i++) {
        if (taken >> i & 1)
            continue;
        while (moved >> k & 1)
            k++;
        axes[i] = k++;
    }
    return fr_shape_transpose(t, axes);
}

/* ---- axes of size 1 */

PyObject *
fr_shape_squeeze(const struct fr_tensor *t, PyObject *axis)
{
    const struct fr_layout *l = t->layout;
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
    st = fr_tensor_window(t, n, dims, strides, 0, &out, &err);
    return fr_type_result(st, &out, &err);
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

static PyObject *
expand_of(const struct fr_tensor *t, PyObject *axis)
{
    int      n = PyTuple_Check(axis) || PyList_Check(axis) ? (int)PySequence_Size(axis) : 1;
    int      ndim = t->layout->ndim + n, axes[FR_MAX_DIMS], count;
    uint32_t mask = 0;

    if (ndim > FR_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "number of dimensions must be within [0, %d]", FR_MAX_DIMS);
        return NULL;
    }
    if (fr_args_axis_list(axis, ndim, "axis", &count, axes) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        mask |= 1u << axes[i];
    return fr_shape_expand(t, mask, ndim);
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
    uint32_t                mask;
    struct fr_tensor        out;
    struct fr_err           err;
    fr_status               st;

    if (l->ndim == 0 && !fr_args_none(axis)) {
        int k;
        if (fr_args_axis(axis, 0, &k) < 0)
            return NULL;
    }
    if (fr_args_axes(axis, l->ndim, &mask) < 0)
        return NULL;
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

static struct fr_signature diagonal_signature = {
    "diagonal", 1, 4, 4, {"a", "offset", "axis1", "axis2"}, {NULL}};

/* Arguments of diagonal and trace. */
static int
read_diagonal(PyObject *const *s, const struct fr_tensor *t, int64_t *k, int *axis1, int *axis2)
{
    int n = t->layout->ndim;

    *k = 0;
    *axis1 = 0;
    *axis2 = 1;
    if (s[1] && (*k = PyLong_AsLongLong(s[1])) == -1 && PyErr_Occurred())
        return -1;
    if (n < 2) {
        PyErr_SetString(PyExc_ValueError, "diag requires an array of at least two dimensions");
        return -1;
    }
    if ((s[2] && fr_args_axis_named(s[2], n, "axis1", axis1) < 0) ||
        (s[3] && fr_args_axis_named(s[3], n, "axis2", axis2) < 0))
        return -1;
    if (*axis1 == *axis2) {
        PyErr_SetString(PyExc_ValueError, "axis1 and axis2 cannot be the same");
        return -1;
    }
    return 0;
}

/* ---- module functions: an array-like as a handle, then one of the above */

/* The operand, or NumPy's answer in *result when the dtype is not ours. */
static const struct fr_tensor *
handle_of(PyObject *o, struct fr_value *x)
{
    int st = fr_value_tensor(o, x);

    if (st == FR_VALUE_OK)
        return x->arg.t;
    if (st == FR_VALUE_HAND)
        PyErr_Format(PyExc_TypeError, "frit has no arrays of the dtype of this %s",
                     Py_TYPE(o)->tp_name);
    return NULL;
}

#define SHAPE_FUNCTION(function, n_required, n, ...)                                               \
    static struct fr_signature function##_signature = {                                            \
        #function, n_required, n, n, {__VA_ARGS__}, {NULL}};                                       \
    static PyObject *function##_call(const struct fr_tensor *t, PyObject *const *s);               \
    static PyObject *function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)      \
    {                                                                                              \
        PyObject         *s[n], *result = NULL;                                                    \
        struct fr_value x;                                                                       \
        (void)module;                                                                              \
        if (fr_args_parse(&function##_signature, args, nargs, kw, s) < 0)                          \
            return NULL;                                                                           \
        const struct fr_tensor *t = handle_of(s[0], &x);                                           \
        if (t) {                                                                                   \
            result = function##_call(t, s);                                                        \
            fr_value_clear(&x);                                                                  \
        }                                                                                          \
        return result;                                                                             \
    }                                                                                              \
    static PyObject *function##_call(const struct fr_tensor *t, PyObject *const *s)

/* copy=: None 0 copies only where needed is -1, False 0, True 1. */
static int
copy_flag(PyObject *o)
{
    return fr_args_none(o) ? -1 : PyObject_IsTrue(o) > 0;
}

SHAPE_FUNCTION(reshape, 2, 4, "a", "shape", "order", "copy")
{
    int64_t dims[FR_MAX_DIMS];
    int     ndim;
    char    order;

    if (fr_args_dims(s[1], true, &ndim, dims) < 0 || fr_args_order(s[2], "CFA", 'C', &order) < 0)
        return NULL;
    return fr_shape_reshape(t, ndim, dims, order, copy_flag(s[3]));
}

SHAPE_FUNCTION(ravel, 1, 2, "a", "order")
{
    char order;

    return fr_args_order(s[1], "CFAK", 'C', &order) < 0 ? NULL : fr_shape_ravel(t, order, false);
}

SHAPE_FUNCTION(transpose, 1, 2, "a", "axes") { return fr_shape_transpose_by(t, s[1]); }

SHAPE_FUNCTION(matrix_transpose, 1, 1, "x")
{
    int axes[FR_MAX_DIMS], n = t->layout->ndim;

    (void)s;
    if (n < 2) {
        PyErr_Format(PyExc_ValueError,
                     "Input array must be at least 2-dimensional, but it is %d", n);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        axes[i] = i < n - 2 ? i : 2 * n - 3 - i;
    return fr_shape_transpose(t, axes);
}

SHAPE_FUNCTION(swapaxes, 3, 3, "a", "axis1", "axis2") { return fr_shape_swapaxes(t, s[1], s[2]); }

SHAPE_FUNCTION(moveaxis, 3, 3, "a", "source", "destination") { return moveaxis_of(t, s[1], s[2]); }

SHAPE_FUNCTION(squeeze, 1, 2, "a", "axis") { return fr_shape_squeeze(t, s[1]); }

SHAPE_FUNCTION(expand_dims, 2, 2, "a", "axis") { return expand_of(t, s[1]); }

SHAPE_FUNCTION(broadcast_to, 2, 3, "array", "shape", "subok")
{
    int64_t dims[FR_MAX_DIMS];
    int     ndim;

    return fr_args_dims(s[1], false, &ndim, dims) < 0 ? NULL : fr_shape_broadcast(t, ndim, dims);
}

SHAPE_FUNCTION(flip, 1, 2, "m", "axis") { return fr_shape_flip(t, s[1]); }

static PyObject *
flip_axis(const struct fr_tensor *t, int axis, const char *what)
{
    PyObject *o, *result;

    if (t->layout->ndim <= axis) {
        PyErr_Format(PyExc_ValueError, "Input must be >= %d-d.", axis + 1);
        return NULL;
    }
    (void)what;
    o = PyLong_FromLong(axis);
    result = o ? fr_shape_flip(t, o) : NULL;
    Py_XDECREF(o);
    return result;
}

SHAPE_FUNCTION(fliplr, 1, 1, "m")
{
    (void)s;
    return flip_axis(t, 1, "fliplr");
}

SHAPE_FUNCTION(flipud, 1, 1, "m")
{
    (void)s;
    return flip_axis(t, 0, "flipud");
}

static PyObject *
diagonal(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject         *s[4], *result = NULL;
    struct fr_value x;
    int64_t           k;
    int               a, b;

    (void)module;
    if (fr_args_parse(&diagonal_signature, args, nargs, kw, s) < 0)
        return NULL;
    const struct fr_tensor *t = handle_of(s[0], &x);
    if (!t)
        return NULL;
    if (read_diagonal(s, t, &k, &a, &b) == 0)
        result = fr_shape_diagonal(t, k, a, b);
    fr_value_clear(&x);
    return result;
}

/* At least n axes, where NumPy puts them: (n,) is (1, n) and (1, n, 1). */
static PyObject *
at_least(const struct fr_tensor *t, int n)
{
    int      have = t->layout->ndim;
    uint32_t mask = 0;

    if (have >= n) {
        struct fr_tensor out;
        fr_tensor_copy(t, &out);
        return fr_type_take(&out);
    }
    if (n == 1 || have == 0)
        mask = (1u << n) - 1;
    else if (n == 2)
        mask = 1;
    else
        mask = have == 1 ? 5 : 4;
    return fr_shape_expand(t, mask, n);
}

static PyObject *
at_least_all(fr_args args, Py_ssize_t nargs, int n)
{
    PyObject *result = PyTuple_New(nargs);

    for (Py_ssize_t i = 0; result && i < nargs; i++) {
        struct fr_value       x;
        const struct fr_tensor *t = handle_of(args[i], &x);
        PyObject               *o = t ? at_least(t, n) : NULL;
        if (t)
            fr_value_clear(&x);
        if (!o)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, i, o);
    }
    if (result && nargs == 1)
        Py_SETREF(result, Py_NewRef(PyTuple_GET_ITEM(result, 0)));
    return result;
}

#define AT_LEAST(n)                                                                                \
    static PyObject *atleast_##n##d(PyObject *module, PyObject *const *args, Py_ssize_t nargs)     \
    {                                                                                              \
        (void)module;                                                                              \
        return at_least_all(args, nargs, n);                                                       \
    }
AT_LEAST(1)
AT_LEAST(2)
AT_LEAST(3)
#undef AT_LEAST

static PyObject *
broadcast_arrays(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_value *x = PyMem_Calloc((size_t)nargs + 1, sizeof *x);
    int64_t            dims[FR_MAX_DIMS];
    int                ndim = 0;
    Py_ssize_t         n = 0;
    struct fr_err      err;
    PyObject          *result = NULL;

    (void)module, (void)kw; /* subok= makes no difference here */
    if (!x)
        return PyErr_NoMemory();
    for (; n < nargs; n++) {
        const struct fr_tensor *t = handle_of(args[n], &x[n]);
        fr_status               st;
        if (!t)
            goto out;
        st = fr_dims_broadcast(ndim, dims, t->layout->ndim, fr_layout_dims(t->layout), &ndim, dims,
                               "broadcast_arrays", &err);
        if (st != FR_OK) {
            fr_value_clear(&x[n]);
            fr_errors_raise(st, &err);
            goto out;
        }
    }
    result = PyTuple_New(nargs);
    for (Py_ssize_t i = 0; result && i < nargs; i++) {
        PyObject *o = fr_shape_broadcast(x[i].arg.t, ndim, dims);
        if (!o)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, i, o);
    }
out:
    while (n-- > 0)
        fr_value_clear(&x[n]);
    PyMem_Free(x);
    return result;
}

static PyObject *
shares(PyObject *const *args, Py_ssize_t n, PyObject *kw, const char *name)
{
    if (n == 2 && !kw && fr_is_tensor(args[0]) && fr_is_tensor(args[1])) {
        const struct fr_tensor *a = fr_of(args[0]), *b = fr_of(args[1]);
        return PyBool_FromLong(a->storage == b->storage &&
                               fr_overlap(a->layout, a->offset, b->layout, b->offset));
    }
    return fr_hand_name(name, args, n, kw);
}

static PyObject *
shares_memory(PyObject *module, fr_args args, Py_ssize_t n, PyObject *kw)
{
    (void)module;
    return shares(args, n, kw, "shares_memory");
}

static PyObject *
may_share_memory(PyObject *module, fr_args args, Py_ssize_t n, PyObject *kw)
{
    (void)module;
    return shares(args, n, kw, "may_share_memory");
}

#define PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
#define VIEW " A view: writing into it writes into the argument."

PyMethodDef fr_shape_methods[] = {
    {"reshape", FR_FAST(reshape),
     "reshape(a, shape, order='C', copy=None)\n--\n\n"
     "The elements in another shape of the same size; one dimension may be -1. A view where NumPy\n"
     "gives one. order is 'C', 'F' or 'A'; copy=False raises ValueError if a copy is needed."},
    {"ravel", FR_FAST(ravel),
     "ravel(a, order='C')\n--\n\nAll elements along one axis, as a view where that is possible."},
    {"transpose", FR_FAST(transpose),
     "transpose(a, axes=None)\n--\n\nThe axes in the given order, by default reversed." VIEW
     "\nRaises ValueError for a wrong number of axes or a repeated one, AxisError beyond ndim."},
    {"permute_dims", FR_FAST(transpose),
     "permute_dims(a, axes=None)\n--\n\nThe Array API's name of transpose."},
    {"matrix_transpose", FR_FAST(matrix_transpose),
     "matrix_transpose(x)\n--\n\nThe last two axes exchanged." VIEW},
    {"swapaxes", FR_FAST(swapaxes), "swapaxes(a, axis1, axis2)\n--\n\nTwo axes exchanged." VIEW},
    {"moveaxis", FR_FAST(moveaxis),
     "moveaxis(a, source, destination)\n--\n\nAxes moved to other places, the others in order." VIEW},
    {"squeeze", FR_FAST(squeeze),
     "squeeze(a, axis=None)\n--\n\nWithout the axes of size 1, or the given ones of them." VIEW
     "\nRaises ValueError where such an axis has another size."},
    {"expand_dims", FR_FAST(expand_dims),
     "expand_dims(a, axis)\n--\n\nWith new axes of size 1 at these places of the result." VIEW},
    {"broadcast_to", FR_FAST(broadcast_to),
     "broadcast_to(array, shape, subok=False)\n--\n\n"
     "A read-only view of another shape, repeating elements along axes of size 1 or new ones.\n"
     "Raises ValueError where the shapes do not allow it."},
    {"broadcast_arrays", FR_FAST(broadcast_arrays),
     "broadcast_arrays(*args, subok=False)\n--\n\nThe arguments as read-only views of one shape."},
    {"flip", FR_FAST(flip), "flip(m, axis=None)\n--\n\nBackwards along the axes." VIEW},
    {"fliplr", FR_FAST(fliplr), "fliplr(m)\n--\n\nflip along axis 1." VIEW},
    {"flipud", FR_FAST(flipud), "flipud(m)\n--\n\nflip along axis 0." VIEW},
    {"diagonal", FR_FAST(diagonal),
     "diagonal(a, offset=0, axis1=0, axis2=1)\n--\n\n"
     "The elements at equal places of two axes, as the last axis of a read-only view."},
    {"atleast_1d", PLAIN(atleast_1d),
     "atleast_1d(*arrays)\n--\n\nEach argument with at least one axis." VIEW},
    {"atleast_2d", PLAIN(atleast_2d),
     "atleast_2d(*arrays)\n--\n\nEach argument with at least two axes." VIEW},
    {"atleast_3d", PLAIN(atleast_3d),
     "atleast_3d(*arrays)\n--\n\nEach argument with at least three axes." VIEW},
    {"shares_memory", FR_FAST(shares_memory),
     "shares_memory(a, b, /)\n--\n\nTrue if an element of both lies in the same place. Exact."},
    {"may_share_memory", FR_FAST(may_share_memory),
     "may_share_memory(a, b, /)\n--\n\nAs shares_memory."},
    {NULL, NULL, 0, NULL},
};
