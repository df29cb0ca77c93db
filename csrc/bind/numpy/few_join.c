/* bind/numpy/few_join.c -- few.h: arrays put together, and in other shapes. */
#include "bind/numpy/few.h"

#include <string.h>

/* ---- put together */

enum { PARTS = 32 };

/* A part: an array, or a double. */
struct part {
    npy_intp    dims[FR_FEW_AXES];
    int         ndim;
    const char *data;
    double      number;
};

enum as { AS_IT_IS, AS_ROWS, AS_COLUMNS, AT_LEAST_1D };

/* How a part is joined by functions that make rows or columns of what has one axis. */
static bool
shape_part(struct part *p, enum as as)
{
    if (as == AT_LEAST_1D && p->ndim == 0) {
        p->dims[0] = 1;
        p->ndim = 1;
    } else if (as == AS_ROWS && p->ndim == 1) {
        p->dims[1] = p->dims[0];
        p->dims[0] = 1;
        p->ndim = 2;
    } else if (as == AS_COLUMNS && p->ndim == 1) {
        p->dims[1] = 1;
        p->ndim = 2;
    }
    return p->ndim > 0;
}

/* Reads the items of a list, which are of one dtype: how many; 0: they are not. */
static int
read_parts(PyObject *list, enum as as, struct part part[PARTS], int *type)
{
    Py_ssize_t n = PyList_CheckExact(list) || PyTuple_CheckExact(list) ? PySequence_Fast_GET_SIZE(list) : 0;

    if (n == 0 || n > PARTS)
        return 0;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject    *x = PySequence_Fast_GET_ITEM(list, k);
        struct part *p = &part[k];
        int          t = NPY_DOUBLE;

        if (fr_few_is_array(x)) {
            p->ndim = PyArray_NDIM(fr_array(x));
            if (p->ndim >= FR_FEW_AXES)
                return 0;
            memcpy(p->dims, PyArray_DIMS(fr_array(x)), (size_t)p->ndim * sizeof *p->dims);
            p->data = PyArray_DATA(fr_array(x));
            t = PyArray_TYPE(fr_array(x));
        } else if (fr_few_float(x, &p->number)) {
            p->ndim = 0;
            p->data = (const char *)&p->number;
        } else {
            return 0;
        }
        *type = k == 0 ? t : *type;
        if (t != *type || !shape_part(p, as))
            return 0;
    }
    return (int)n;
}

static PyObject *
joined(const struct part *part, int n, int axis, int type)
{
    int       ndim = part[0].ndim;
    npy_intp  dims[FR_FEW_AXES], outer = 1;
    size_t    inner;
    PyObject *array;
    char     *to;

    if (axis < 0 || axis >= ndim)
        return NULL;
    memcpy(dims, part[0].dims, sizeof dims);
    for (int k = 1; k < n; k++) {
        for (int d = 0; d < ndim; d++)
            if (part[k].ndim != ndim || (d != axis && part[k].dims[d] != dims[d]))
                return NULL;
        dims[axis] += part[k].dims[axis];
    }
    if (!(array = PyArray_SimpleNew(ndim, dims, type)))
        return NULL;
    inner = (size_t)PyArray_ITEMSIZE(fr_array(array));
    for (int d = 0; d < axis; d++)
        outer *= dims[d];
    for (int d = axis + 1; d < ndim; d++)
        inner *= (size_t)dims[d];
    to = PyArray_DATA(fr_array(array));
    for (npy_intp i = 0; i < outer; i++)
        for (int k = 0; k < n; k++) {
            size_t bytes = inner * (size_t)part[k].dims[axis];

            memcpy(to, part[k].data + (size_t)i * bytes, bytes);
            to += bytes;
        }
    return array;
}

static PyObject *
join_list(PyObject *list, enum as as, int axis)
{
    struct part part[PARTS];
    int         type, n = read_parts(list, as, part, &type);

    return n ? joined(part, n, axis, type) : NULL;
}

PyObject *
fr_few_vstack(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names ? join_list(args[0], AS_ROWS, 0) : NULL;
}

PyObject *
fr_few_column_stack(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names ? join_list(args[0], AS_COLUMNS, 1) : NULL;
}

PyObject *
fr_few_hstack(fr_args args, Py_ssize_t n, PyObject *names)
{
    struct part part[PARTS];
    int         type, n_parts = n == 1 && !names ? read_parts(args[0], AT_LEAST_1D, part, &type) : 0;

    return n_parts ? joined(part, n_parts, part[0].ndim > 1, type) : NULL;
}

/* An axis as the second argument, by position or by its name; false: it is something else. */
static bool
read_axis(fr_args args, Py_ssize_t n, PyObject *names, int64_t dflt, int64_t *axis)
{
    Py_ssize_t n_names = names ? PyTuple_GET_SIZE(names) : 0;

    *axis = dflt;
    if (n + n_names == 1)
        return n == 1;
    return n + n_names == 2 && n >= 1 && (!n_names || fr_few_is_named(names, "axis")) &&
           fr_few_int(args[1], axis) && *axis >= -FR_FEW_AXES && *axis < FR_FEW_AXES;
}

PyObject *
fr_few_concatenate(fr_args args, Py_ssize_t n, PyObject *names)
{
    struct part part[PARTS];
    int         type, n_parts;
    int64_t     axis;

    if (!read_axis(args, n, names, 0, &axis) || !(n_parts = read_parts(args[0], AS_IT_IS, part, &type)))
        return NULL;
    return joined(part, n_parts, (int)(axis < 0 ? axis + part[0].ndim : axis), type);
}

PyObject *
fr_few_stack(fr_args args, Py_ssize_t n, PyObject *names)
{
    struct part part[PARTS];
    int         type, n_parts, ndim;
    int64_t     axis;

    if (!read_axis(args, n, names, 0, &axis) || !(n_parts = read_parts(args[0], AS_IT_IS, part, &type)))
        return NULL;
    ndim = part[0].ndim + 1;
    axis = axis < 0 ? axis + ndim : axis;
    if (axis < 0 || axis >= ndim || ndim > FR_FEW_AXES)
        return NULL;
    for (int k = 0; k < n_parts; k++) {
        struct part *p = &part[k];

        if (p->ndim != ndim - 1)
            return NULL;
        memmove(p->dims + axis + 1, p->dims + axis, (size_t)(p->ndim - axis) * sizeof *p->dims);
        p->dims[axis] = 1;
        p->ndim = ndim;
    }
    return joined(part, n_parts, (int)axis, type);
}

PyObject *
fr_few_append(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject   *two;
    struct part part[PARTS];
    int         type, n_parts;

    if (n != 2 || names || !PyArray_CheckExact(args[0]))
        return NULL;
    if (!(two = PyTuple_Pack(2, args[0], args[1])))
        return NULL;
    n_parts = read_parts(two, AT_LEAST_1D, part, &type);
    Py_DECREF(two);
    return n_parts && part[0].ndim == 1 && part[1].ndim == 1 ? joined(part, n_parts, 0, type) : NULL;
}

PyObject *
fr_few_tile(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a;
    PyObject      *array;
    npy_intp       size;
    int64_t        times;

    if (n != 2 || names || !fr_few_is_array(args[0]) || PyArray_NDIM(fr_array(args[0])) != 1 || !fr_few_int(args[1], &times))
        return NULL;
    a = fr_array(args[0]);
    if (times < 1 || times > FR_FEW || (size = times * PyArray_DIM(a, 0)) > FR_FEW)
        return NULL;
    if (!(array = PyArray_SimpleNew(1, &size, PyArray_TYPE(a))))
        return NULL;
    for (int64_t k = 0; k < times; k++)
        memcpy((char *)PyArray_DATA(fr_array(array)) + k * PyArray_NBYTES(a), PyArray_DATA(a), (size_t)PyArray_NBYTES(a));
    return array;
}

/* Along an axis, or -1: all elements one after the other. */
static void
roll(char *to, const PyArrayObject *a, int64_t by, int axis)
{
    npy_intp    outer = 1, n = axis < 0 ? PyArray_SIZE((PyArrayObject *)a) : PyArray_DIM(a, axis);
    size_t      inner = (size_t)PyArray_ITEMSIZE(a), head;
    const char *from = PyArray_DATA((PyArrayObject *)a);

    for (int d = 0; d < axis; d++)
        outer *= PyArray_DIM(a, d);
    for (int d = axis + 1; axis >= 0 && d < PyArray_NDIM(a); d++)
        inner *= (size_t)PyArray_DIM(a, d);
    if (n == 0)
        return;
    by = (by % n + n) % n;
    head = (size_t)by * inner;
    for (npy_intp i = 0; i < outer; i++, to += (size_t)n * inner, from += (size_t)n * inner) {
        memcpy(to + head, from, (size_t)n * inner - head);
        memcpy(to, from + (size_t)n * inner - head, head);
    }
}

PyObject *
fr_few_roll(fr_args args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t     n_all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyArrayObject *a;
    PyObject      *array;
    int64_t        by, axis = -1;

    if (n < 2 || n_all > 3 || (names && !fr_few_is_named(names, "axis")) || !fr_few_is_array(args[0]) ||
        !fr_few_int(args[1], &by))
        return NULL;
    a = fr_array(args[0]);
    if (n_all == 3 && args[2] != Py_None) {
        if (!fr_few_int(args[2], &axis))
            return NULL;
        axis = axis < 0 ? axis + PyArray_NDIM(a) : axis;
        if (axis < 0 || axis >= PyArray_NDIM(a))
            return NULL;
    }
    if ((array = PyArray_SimpleNew(PyArray_NDIM(a), PyArray_DIMS(a), PyArray_TYPE(a))))
        roll(PyArray_DATA(fr_array(array)), a, by, (int)axis);
    return array;
}

/* ---- views in other shapes */

static PyObject *
reshaped(PyObject *array, int ndim, npy_intp *dims)
{
    PyArray_Dims to = {dims, ndim};

    return PyArray_Newshape(fr_array(array), &to, NPY_CORDER);
}

PyObject *
fr_few_reshape(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp dims[FR_FEW_AXES], size = 1;
    int64_t  v;
    int      ndim = 0;

    if (n != 2 || names || !PyArray_CheckExact(args[0]))
        return NULL;
    if (fr_few_int(args[1], &v)) {
        dims[ndim++] = v;
    } else if (PyTuple_CheckExact(args[1]) && PyTuple_GET_SIZE(args[1]) <= FR_FEW_AXES) {
        for (; ndim < PyTuple_GET_SIZE(args[1]); ndim++) {
            if (!fr_few_int(PyTuple_GET_ITEM(args[1], ndim), &v))
                return NULL;
            dims[ndim] = v;
        }
    } else {
        return NULL;
    }
    for (int d = 0; d < ndim; d++) /* a length that is to be found is NumPy's, and so is what does not fit */
        if (dims[d] < 0 || dims[d] > INT32_MAX || (size *= dims[d]) > INT32_MAX)
            return NULL;
    return size == PyArray_SIZE(fr_array(args[0])) ? reshaped(args[0], ndim, dims) : NULL;
}

PyObject *
fr_few_expand_dims(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a;
    npy_intp       dims[FR_FEW_AXES];
    int64_t        axis;
    int            ndim;

    if (!read_axis(args, n, names, 0, &axis) || n + (names ? 1 : 0) != 2 || !PyArray_CheckExact(args[0]))
        return NULL;
    a = fr_array(args[0]);
    ndim = PyArray_NDIM(a) + 1;
    axis = axis < 0 ? axis + ndim : axis;
    if (ndim > FR_FEW_AXES || axis < 0 || axis >= ndim)
        return NULL;
    for (int d = 0; d < ndim; d++)
        dims[d] = d == axis ? 1 : PyArray_DIM(a, d - (d > axis));
    return reshaped(args[0], ndim, dims);
}

static PyArrayObject *
only_array(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && PyArray_CheckExact(args[0]) ? fr_array(args[0]) : NULL;
}

PyObject *
fr_few_ravel(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = only_array(args, n, names);

    return a ? PyArray_Ravel(a, NPY_CORDER) : NULL;
}

PyObject *
fr_few_squeeze(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = only_array(args, n, names);

    return a ? PyArray_Squeeze(a) : NULL;
}

PyObject *
fr_few_transpose(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = only_array(args, n, names);

    return a ? PyArray_Transpose(a, NULL) : NULL;
}
