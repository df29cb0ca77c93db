/* bind/tensor/window.c -- keys of integers, slices, ellipses and new axes as windows. */
#include "bind/numpy/npy.h"
#include "bind/tensor/index.h"

int
fr_window_too_many(const struct fr_layout *l, int n)
{
    PyErr_Format(PyExc_IndexError,
                 "too many indices for array: array is %d-dimensional, but %d were indexed", l->ndim,
                 n);
    return FR_KIND_ERROR;
}

static int
not_an_index(void)
{
    PyErr_SetString(PyExc_IndexError,
                    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
                    "integer or boolean arrays are valid indices");
    return FR_KIND_ERROR;
}

int
fr_window_add_integer(struct fr_window *w, const struct fr_layout *l, int axis, int64_t i)
{
    int64_t n = fr_layout_dims(l)[axis];

    if (i < -n || i >= n) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for axis %d with size %lld",
                     (long long)i, axis, (long long)n);
        return FR_KIND_ERROR;
    }
    w->offset += (i < 0 ? i + n : i) * fr_layout_strides(l)[axis];
    return FR_KIND_WINDOW;
}

int
fr_window_add_axis(struct fr_window *w, int64_t dim, int64_t stride)
{
    if (w->ndim == FR_MAX_DIMS) {
        PyErr_Format(PyExc_IndexError, "number of dimensions must be within [0, %d], indexing "
                     "result would have %d", FR_MAX_DIMS, w->ndim + 1);
        return FR_KIND_ERROR;
    }
    w->dims[w->ndim] = dim;
    w->strides[w->ndim++] = stride;
    return FR_KIND_WINDOW;
}

static int
add_slice(struct fr_window *w, const struct fr_layout *l, int axis, PyObject *slice)
{
    Py_ssize_t start, stop, step, n;

    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return FR_KIND_ERROR;
    n = PySlice_AdjustIndices(fr_layout_dims(l)[axis], &start, &stop, step);
    if (n > 0)
        w->offset += start * fr_layout_strides(l)[axis];
    return fr_window_add_axis(w, n, fr_layout_strides(l)[axis] * step);
}

enum fr_item
fr_window_classify(PyObject *o)
{
    if (PyLong_CheckExact(o))
        return FR_ITEM_INTEGER;
    if (PySlice_Check(o))
        return FR_ITEM_SLICE;
    if (o == Py_Ellipsis)
        return FR_ITEM_ELLIPSIS;
    if (o == Py_None)
        return FR_ITEM_NEWAXIS;
    if (fr_is_tensor(o)) /* an integer without axes counts as an integer, as NumPy's scalars do */
        return fr_of(o)->layout->ndim == 0 && fr_dtype_is_int(fr_of(o)->dtype) ? FR_ITEM_INTEGER
                                                                              : FR_ITEM_OTHER;
    if (fr_numpy_is_array(o) || PyList_Check(o) || PyTuple_Check(o) || PyBool_Check(o) || PyArray_IsScalar(o, Bool))
        return FR_ITEM_OTHER;
    if (PyUnicode_Check(o) || PyBytes_Check(o) || PyFloat_Check(o))
        return FR_ITEM_BAD;
    if (PyIndex_Check(o))
        return FR_ITEM_INTEGER;
    return PySequence_Check(o) ? FR_ITEM_OTHER : FR_ITEM_BAD;
}

static int
integer_of(PyObject *o, int64_t *v)
{
    PyObject *i;

    if (PyLong_CheckExact(o) && fr_value_small_int(o, v))
        return 0;
    i = PyNumber_Index(o);
    if (!i)
        return -1;
    *v = PyLong_AsSsize_t(i);
    Py_DECREF(i);
    if (*v == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            not_an_index();
        }
        return -1;
    }
    return 0;
}

int
fr_window_parse(const struct fr_layout *l, PyObject *const *items, int n, struct fr_window *w)
{
    int n_axes = 0, ellipsis = -1, axis = 0;

    for (int i = 0; i < n; i++) {
        switch (fr_window_classify(items[i])) {
        case FR_ITEM_OTHER: return FR_KIND_ADVANCED;
        case FR_ITEM_BAD: return not_an_index();
        case FR_ITEM_INTEGER:
        case FR_ITEM_SLICE: n_axes++; break;
        case FR_ITEM_ELLIPSIS:
            if (ellipsis >= 0) {
                PyErr_SetString(PyExc_IndexError,
                                "an index can only have a single ellipsis ('...')");
                return FR_KIND_ERROR;
            }
            ellipsis = i;
            break;
        case FR_ITEM_NEWAXIS: break;
        }
    }
    if (n_axes > l->ndim)
        return fr_window_too_many(l, n_axes);
    w->scalar = ellipsis < 0;
    for (int i = 0; i < n; i++) {
        int     st = FR_KIND_WINDOW;
        int64_t v;

        switch (fr_window_classify(items[i])) {
        case FR_ITEM_INTEGER:
            if (integer_of(items[i], &v) < 0)
                return FR_KIND_ERROR;
            st = fr_window_add_integer(w, l, axis++, v);
            break;
        case FR_ITEM_SLICE: st = add_slice(w, l, axis++, items[i]); break;
        case FR_ITEM_NEWAXIS: st = fr_window_add_axis(w, 1, 0); break;
        default:
            for (int k = l->ndim - n_axes; st == FR_KIND_WINDOW && k > 0; k--, axis++)
                st = fr_window_add_axis(w, fr_layout_dims(l)[axis], fr_layout_strides(l)[axis]);
        }
        if (st != FR_KIND_WINDOW)
            return st;
    }
    for (; axis < l->ndim; axis++)
        if (fr_window_add_axis(w, fr_layout_dims(l)[axis], fr_layout_strides(l)[axis]) != FR_KIND_WINDOW)
            return FR_KIND_ERROR;
    w->scalar = w->scalar && w->ndim == 0;
    return FR_KIND_WINDOW;
}

int
fr_window_of_key(const struct fr_tensor *t, PyObject *key, struct fr_window *w)
{
    w->ndim = 0;
    w->offset = 0;
    if (PyTuple_Check(key)) {
        if (PyTuple_GET_SIZE(key) > 2 * FR_MAX_DIMS)
            return fr_window_too_many(t->layout, (int)PyTuple_GET_SIZE(key));
        return fr_window_parse(t->layout, &PyTuple_GET_ITEM(key, 0), (int)PyTuple_GET_SIZE(key), w);
    }
    return fr_window_parse(t->layout, &key, 1, w);
}
