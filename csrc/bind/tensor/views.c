/* bind/tensor/views.c -- the module functions over shape.c: arguments read, array-likes made handles. */
#include <string.h>

#include "bind/tensor/tensor.h"

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

/* NumPy's expand_dims reshapes, and what has no elements has the strides of its new shape then. */
static PyObject *
expand_nothing(const struct fr_tensor *t, uint32_t mask, int ndim)
{
    int64_t          dims[FR_MAX_DIMS];
    struct fr_tensor out;
    struct fr_err    err;
    fr_status        st;

    for (int i = 0, k = 0; i < ndim; i++)
        dims[i] = mask >> i & 1 ? 1 : fr_layout_dims(t->layout)[k++];
    st = fr_tensor_reshape(t, ndim, dims, &out, &err);
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
    count = 1;
    if (n == 1 && !PyTuple_Check(axis) && !PyList_Check(axis) ? fr_args_axis(axis, ndim, axes) < 0
                                                              : fr_args_axis_list(axis, ndim, "axis", &count, axes) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        mask |= 1u << axes[i];
    return t->layout->n_elems ? fr_shape_expand(t, mask, ndim) : expand_nothing(t, mask, ndim);
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

/* ---- module functions: an array-like as a handle, then one of the above. Of dtypes that are not ours the answer is NumPy's. */

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
        switch (fr_value_kept(s[0], &x)) {                                                       \
        case FR_VALUE_FALLBACK: return fr_fallback_name(#function, args, nargs, kw);               \
        case FR_VALUE_OK:                                                                          \
            result = fr_type_view_of(s[0], function##_call(x.arg.t, s), false);                    \
            fr_value_clear(&x);                                                                    \
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

/* NumPy asks its numbers for these by method, and they give numbers; of Python's it makes arrays. */
static PyObject *
of_number(const char *name, PyObject *const *s)
{
    return fr_fallback_name(name, s, s[1] ? 2 : 1, NULL);
}

SHAPE_FUNCTION(transpose, 1, 2, "a", "axes")
{
    struct fr_number number;

    if (fr_numpy_scalar(s[0], &number))
        return of_number("transpose", s);
    return fr_shape_transpose_by(t, s[1]);
}

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

SHAPE_FUNCTION(diag, 1, 2, "v", "k")
{
    int64_t k = 0;

    if (t->layout->ndim != 2) /* the values become a diagonal, or it is refused */
        return fr_fallback_name("diag", s, s[1] ? 2 : 1, NULL);
    if (s[1] && (k = PyLong_AsLongLong(s[1])) == -1 && PyErr_Occurred())
        return NULL;
    return fr_shape_diagonal(t, k, 0, 1);
}

SHAPE_FUNCTION(swapaxes, 3, 3, "a", "axis1", "axis2") { return fr_shape_swapaxes(t, s[1], s[2]); }

SHAPE_FUNCTION(moveaxis, 3, 3, "a", "source", "destination") { return moveaxis_of(t, s[1], s[2]); }

SHAPE_FUNCTION(squeeze, 1, 2, "a", "axis")
{
    struct fr_number number;
    struct fr_tensor own;
    PyObject        *o, *result;

    if (fr_is_tensor(s[0]))
        return fr_shape_squeezed(s[0], s[1]);
    if (fr_numpy_scalar(s[0], &number))
        return of_number("squeeze", s);
    fr_tensor_copy(t, &own);
    o = fr_type_take(&own);
    result = o ? fr_shape_squeezed(o, s[1]) : NULL;
    Py_XDECREF(o);
    return result;
}

SHAPE_FUNCTION(expand_dims, 2, 2, "a", "axis") { return expand_of(t, s[1]); }

SHAPE_FUNCTION(broadcast_to, 2, 3, "array", "shape", "subok")
{
    int64_t dims[FR_MAX_DIMS];
    int     ndim;

    return fr_args_dims(s[1], false, &ndim, dims) < 0 ? NULL : fr_shape_broadcast(t, ndim, dims);
}

/* Called by python/frit/_composed.py, of a Tensor. */
static PyObject *
strided(PyObject *module, fr_args args, Py_ssize_t nargs)
{
    int64_t    by[2][FR_MAX_DIMS];
    Py_ssize_t ndim = 0;
    PyObject  *view;

    (void)module;
    if (nargs != 3 || !fr_is_tensor(args[0]) || !PyTuple_Check(args[1]) || !PyTuple_Check(args[2]) ||
        (ndim = PyTuple_GET_SIZE(args[1])) != PyTuple_GET_SIZE(args[2]) || ndim > FR_MAX_DIMS)
        Py_RETURN_NOTIMPLEMENTED;
    for (Py_ssize_t k = 0; k < 2 * ndim; k++) {
        by[k / ndim][k % ndim] = PyLong_AsLongLong(PyTuple_GET_ITEM(args[1 + k / ndim], k % ndim));
        if (PyErr_Occurred())
            return NULL;
    }
    view = fr_shape_strided(fr_of(args[0]), (int)ndim, by[0], by[1]);
    return view == Py_NotImplemented ? view : fr_type_view_of(args[0], view, false);
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
    switch (fr_value_kept(s[0], &x)) {
    case FR_VALUE_FALLBACK: return fr_fallback_name("diagonal", args, nargs, kw);
    case FR_VALUE_OK:
        if (read_diagonal(s, x.arg.t, &k, &a, &b) == 0)
            result = fr_type_view_of(s[0], fr_shape_diagonal(x.arg.t, k, a, b), false);
        fr_value_clear(&x);
    }
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
at_least_all(const char *name, fr_args args, Py_ssize_t nargs, int n)
{
    PyObject *result = PyTuple_New(nargs);

    for (Py_ssize_t i = 0; result && i < nargs; i++) {
        struct fr_value x;
        int             st = fr_value_kept(args[i], &x);
        PyObject       *o = NULL;

        if (st == FR_VALUE_OK) {
            o = x.arg.t->layout->ndim >= n && fr_is_tensor(args[i]) ? Py_NewRef(args[i])
                                                                    : fr_type_view_of(args[i], at_least(x.arg.t, n), true);
            fr_value_clear(&x);
        } else if (st == FR_VALUE_FALLBACK) {
            Py_DECREF(result);
            return fr_fallback_name(name, args, nargs, NULL);
        }
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
        return at_least_all("atleast_" #n "d", args, nargs, n);                                    \
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
    bool               fallback = false;

    (void)module; /* subok= makes no difference here */
    if (!x)
        return PyErr_NoMemory();
    for (; n < nargs; n++) {
        const struct fr_tensor *t;
        int                     got = fr_value_kept(args[n], &x[n]);
        fr_status               st;

        fallback = got == FR_VALUE_FALLBACK;
        if (got != FR_VALUE_OK)
            goto out;
        t = x[n].arg.t;
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
        const struct fr_layout *l = x[i].arg.t->layout;
        bool      same = l->ndim == ndim && !memcmp(fr_layout_dims(l), dims, (size_t)ndim * sizeof *dims);
        PyObject *o;

        if (same && fr_is_tensor(args[i]))
            o = fr_object(args[i])->scalar ? fr_type_view_of(args[i], at_least(x[i].arg.t, 0), true) : Py_NewRef(args[i]);
        else
            o = fr_type_view_of(args[i], fr_shape_broadcast(x[i].arg.t, ndim, dims), true);
        if (!o)
            Py_CLEAR(result);
        else
            PyTuple_SET_ITEM(result, i, o);
    }
out:
    while (n-- > 0)
        fr_value_clear(&x[n]);
    PyMem_Free(x);
    return fallback ? fr_fallback_name("broadcast_arrays", args, nargs, kw) : result;
}

/* The elements from the first to the last in memory, relative to the storage; false: there is none. */
static bool
extent(const struct fr_tensor *t, int64_t *first, int64_t *last)
{
    const struct fr_layout *l = t->layout;

    *first = *last = t->offset;
    for (int k = 0; k < l->ndim; k++) {
        int64_t step = fr_layout_strides(l)[k] * (fr_layout_dims(l)[k] - 1);
        *(step < 0 ? first : last) += step;
    }
    return l->n_elems > 0;
}

static PyObject *
shares(PyObject *const *args, Py_ssize_t n, PyObject *kw, const char *name, bool exact)
{
    if (n == 2 && !kw && fr_is_tensor(args[0]) && fr_is_tensor(args[1])) {
        const struct fr_tensor *a = fr_of(args[0]), *b = fr_of(args[1]);
        int64_t                 ends[4];
        bool                    near = a->storage == b->storage && a->dtype == b->dtype && extent(a, &ends[0], &ends[1]) &&
                     extent(b, &ends[2], &ends[3]) && ends[0] <= ends[3] && ends[2] <= ends[1];

        return PyBool_FromLong(exact || a->dtype != b->dtype ? fr_tensors_meet(a, b) : near);
    }
    return fr_fallback_name(name, args, n, kw);
}

static PyObject *
shares_memory(PyObject *module, fr_args args, Py_ssize_t n, PyObject *kw)
{
    (void)module;
    return shares(args, n, kw, "shares_memory", true);
}

static PyObject *
may_share_memory(PyObject *module, fr_args args, Py_ssize_t n, PyObject *kw)
{
    (void)module;
    return shares(args, n, kw, "may_share_memory", false);
}

#define PLAIN(f) (PyCFunction)(void (*)(void))(f), METH_FASTCALL
#define VIEW " A view: writing into it writes into the argument."

PyMethodDef fr_views_methods[] = {
    {"reshape", FR_FAST(reshape),
     "reshape(a, shape, order='C', copy=None)\n--\n\n"
     "The elements in another shape of the same size; one dimension may be -1. A view where NumPy\n"
     "gives one. order is 'C', 'F' or 'A'; copy=False raises ValueError if a copy is needed."},
    {"ravel", FR_FAST(ravel),
     "ravel(a, order='C')\n--\n\n"
     "All elements along one axis, as a view where NumPy gives one. order is 'C', 'F', 'A' or 'K', else ValueError."},
    {"transpose", FR_FAST(transpose),
     "transpose(a, axes=None)\n--\n\nThe axes in the given order, by default reversed." VIEW
     "\nRaises ValueError for a wrong number of axes or a repeated one, AxisError beyond ndim."},
    {"permute_dims", FR_FAST(transpose),
     "permute_dims(a, axes=None)\n--\n\nThe Array API's name of transpose."},
    {"matrix_transpose", FR_FAST(matrix_transpose),
     "matrix_transpose(x)\n--\n\nThe last two axes exchanged." VIEW},
    {"diag", FR_FAST(diag),
     "diag(v, k=0)\n--\n\nThe k-th diagonal of a matrix as a read-only view; of one axis, a matrix with it as\n"
     "its k-th diagonal. Raises ValueError for other numbers of axes."},
    {"swapaxes", FR_FAST(swapaxes),
     "swapaxes(a, axis1, axis2)\n--\n\nTwo axes exchanged." VIEW "\nRaises AxisError beyond ndim."},
    {"moveaxis", FR_FAST(moveaxis),
     "moveaxis(a, source, destination)\n--\n\nAxes moved to other places, the others in order." VIEW
     "\nRaises AxisError beyond ndim, ValueError for a repeated axis, or more of one kind than of the other."},
    {"squeeze", FR_FAST(squeeze),
     "squeeze(a, axis=None)\n--\n\nWithout the axes of size 1, or the given ones of them." VIEW
     "\nRaises ValueError where such an axis has another size."},
    {"expand_dims", FR_FAST(expand_dims),
     "expand_dims(a, axis)\n--\n\nWith new axes of size 1 at these places of the result." VIEW
     "\nRaises AxisError beyond the result's ndim."},
    {"broadcast_to", FR_FAST(broadcast_to),
     "broadcast_to(array, shape, subok=False)\n--\n\n"
     "A read-only view of another shape, repeating elements along axes of size 1 or new ones.\n"
     "Raises ValueError where the shapes do not allow it."},
    {"broadcast_arrays", FR_FAST(broadcast_arrays),
     "broadcast_arrays(*args, subok=False)\n--\n\n"
     "A tuple of the arguments as read-only views of one shape. ValueError where the shapes do not broadcast."},
    {"strided", (PyCFunction)(void (*)(void))strided, METH_FASTCALL,
     "strided(t, shape, strides, /)\n--\n\nA read-only view with these strides in bytes, or NotImplemented if it leaves t."},
    {"flip", FR_FAST(flip), "flip(m, axis=None)\n--\n\nBackwards along the axes, None: all." VIEW
     "\nRaises AxisError beyond ndim."},
    {"fliplr", FR_FAST(fliplr), "fliplr(m)\n--\n\nflip along axis 1." VIEW "\nRaises ValueError with fewer axes."},
    {"flipud", FR_FAST(flipud), "flipud(m)\n--\n\nflip along axis 0." VIEW "\nRaises ValueError without axes."},
    {"diagonal", FR_FAST(diagonal),
     "diagonal(a, offset=0, axis1=0, axis2=1)\n--\n\n"
     "The elements at equal places of two axes, as the last axis of a read-only view. Raises ValueError with fewer than two\n"
     "axes or for equal ones, AxisError beyond ndim."},
    {"atleast_1d", PLAIN(atleast_1d),
     "atleast_1d(*arrays)\n--\n\nEach argument with at least one axis." VIEW},
    {"atleast_2d", PLAIN(atleast_2d),
     "atleast_2d(*arrays)\n--\n\nEach argument with at least two axes." VIEW},
    {"atleast_3d", PLAIN(atleast_3d),
     "atleast_3d(*arrays)\n--\n\nEach argument with at least three axes." VIEW},
    {"shares_memory", FR_FAST(shares_memory),
     "shares_memory(a, b, /)\n--\n\nTrue if an element of both lies in the same place. Exact."},
    {"may_share_memory", FR_FAST(may_share_memory),
     "may_share_memory(a, b, /)\n--\n\nTrue if what lies between the first and the last of both has a place in common."},
    {NULL, NULL, 0, NULL},
};
