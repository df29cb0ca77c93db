/* bind/numpy/few_make.c -- few.h: arrays of lists, of a shape and of one number. */
#include "bind/numpy/few.h"

#include <string.h>

#include "base/fpe.h"

static PyObject *
doubles(int ndim, npy_intp *dims)
{
    return PyArray_SimpleNew(ndim, dims, NPY_DOUBLE);
}

/* ---- np.array of lists */

enum kind { INTS, FLOATS, NEITHER };

static inline enum kind
read_number(PyObject *x, int64_t *i, double *f)
{
    return fr_few_float(x, f) ? FLOATS : fr_few_int(x, i) && *i <= INT64_C(1) << 53 && *i >= -(INT64_C(1) << 53) ? INTS : NEITHER;
}

/* What the items of a list are, after those of others were `kind`. */
static enum kind
kind_of(PyObject *list, enum kind kind)
{
    double  f;
    int64_t i;

    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(list) && kind != NEITHER; k++) {
        enum kind now = read_number(PySequence_Fast_GET_ITEM(list, k), &i, &f);

        kind = now == INTS ? kind : now;
    }
    return kind;
}

static void
fill(char **to, PyObject *list, enum kind kind)
{
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(list); k++, *to += 8) {
        double    f = 0;
        int64_t   i = 0;
        enum kind now = read_number(PySequence_Fast_GET_ITEM(list, k), &i, &f);

        if (kind == INTS)
            memcpy(*to, &i, 8);
        else
            memcpy(*to, now == INTS ? &(double){(double)i} : &f, 8);
    }
}

static bool
is_list(PyObject *o)
{
    return PyList_CheckExact(o) || PyTuple_CheckExact(o);
}

/* Of lists that are all as long. */
static PyObject *
of_lists(PyObject *list, enum kind kind)
{
    npy_intp  dims[2] = {PySequence_Fast_GET_SIZE(list), PySequence_Fast_GET_SIZE(PySequence_Fast_GET_ITEM(list, 0))};
    PyObject *array;
    char     *to;

    if (dims[1] == 0 || dims[0] * dims[1] > FR_FEW)
        return NULL;
    for (Py_ssize_t k = 0; k < dims[0]; k++) {
        PyObject *row = PySequence_Fast_GET_ITEM(list, k);

        if (!is_list(row) || PySequence_Fast_GET_SIZE(row) != dims[1] || (kind = kind_of(row, kind)) == NEITHER)
            return NULL;
    }
    if ((array = PyArray_SimpleNew(2, dims, kind == INTS ? NPY_INT64 : NPY_DOUBLE))) {
        to = PyArray_DATA(fr_array(array));
        for (Py_ssize_t k = 0; k < dims[0]; k++)
            fill(&to, PySequence_Fast_GET_ITEM(list, k), kind);
    }
    return array;
}

/* Of arrays that are all of one shape. */
static PyObject *
of_arrays(PyObject *list, bool as_doubles)
{
    PyArrayObject *first = fr_array(PySequence_Fast_GET_ITEM(list, 0));
    int            ndim = PyArray_NDIM(first), type = PyArray_TYPE(first);
    npy_intp       dims[FR_FEW_AXES], n = PySequence_Fast_GET_SIZE(list), size = PyArray_SIZE(first);
    PyObject      *array;

    if (ndim == 0 || ndim + 1 > FR_FEW_AXES || n * size > FR_FEW || (as_doubles && type != NPY_DOUBLE))
        return NULL;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *x = PySequence_Fast_GET_ITEM(list, k);

        if (!fr_few_is_array(x) || PyArray_TYPE(fr_array(x)) != type || !PyArray_SAMESHAPE(fr_array(x), first))
            return NULL;
    }
    dims[0] = n;
    memcpy(dims + 1, PyArray_DIMS(first), (size_t)ndim * sizeof *dims);
    if ((array = PyArray_SimpleNew(ndim + 1, dims, type)))
        for (Py_ssize_t k = 0; k < n; k++)
            memcpy((char *)PyArray_DATA(fr_array(array)) + k * PyArray_NBYTES(first),
                   PyArray_DATA(fr_array(PySequence_Fast_GET_ITEM(list, k))), (size_t)PyArray_NBYTES(first));
    return array;
}

/* Whether the argument after the first n is a dtype that says double. False: it is another, or there are more. */
static bool
dtype_of(fr_args args, Py_ssize_t at, Py_ssize_t n, PyObject *names, bool *is_double)
{
    Py_ssize_t n_names = names ? PyTuple_GET_SIZE(names) : 0;
    PyObject  *dtype;

    *is_double = false;
    if (n + n_names == at)
        return true;
    dtype = args[at];
    if (n + n_names != at + 1 || (n_names && (n != at || !fr_few_is_named(names, "dtype"))))
        return false;
    *is_double = dtype == (PyObject *)&PyFloat_Type || dtype == (PyObject *)&PyDoubleArrType_Type ||
                 dtype == (PyObject *)fr_numpy_descrs[FR_F64];
    return *is_double;
}

PyObject *
fr_few_array(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject *list, *array;
    enum kind kind;
    npy_intp  size;
    bool      is_double;
    char     *to;

    if (n < 1 || !is_list(args[0]) || !dtype_of(args, 1, n, names, &is_double))
        return NULL;
    list = args[0];
    size = PySequence_Fast_GET_SIZE(list);
    if (size == 0 || size > FR_FEW)
        return NULL;
    kind = is_double ? FLOATS : INTS;
    if (is_list(PySequence_Fast_GET_ITEM(list, 0)))
        return of_lists(list, kind);
    if (PyArray_CheckExact(PySequence_Fast_GET_ITEM(list, 0)))
        return of_arrays(list, is_double);
    if ((kind = kind_of(list, kind)) == NEITHER)
        return NULL;
    if ((array = PyArray_SimpleNew(1, &size, kind == INTS ? NPY_INT64 : NPY_DOUBLE))) {
        to = PyArray_DATA(fr_array(array));
        fill(&to, list, kind);
    }
    return array;
}

PyObject *
fr_few_copy(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && fr_few_is_array(args[0]) ? PyArray_NewCopy(fr_array(args[0]), NPY_KEEPORDER) : NULL;
}

/* ---- of a shape */

static PyObject *
filled(int ndim, npy_intp *dims, double v)
{
    PyObject *array = doubles(ndim, dims);

    for (npy_intp i = 0; array && i < PyArray_SIZE(fr_array(array)); i++)
        fr_few_doubles(array)[i] = v;
    return array;
}

static PyObject *
filled_int(int ndim, npy_intp *dims, int64_t v)
{
    PyObject *array = PyArray_SimpleNew(ndim, dims, NPY_INT64);

    for (npy_intp i = 0; array && i < PyArray_SIZE(fr_array(array)); i++)
        ((int64_t *)PyArray_DATA(fr_array(array)))[i] = v;
    return array;
}

PyObject *
fr_few_ones(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp dims[FR_FEW_AXES];
    int      ndim;
    bool     is_double;

    if (n < 1 || !dtype_of(args, 1, n, names, &is_double) || (ndim = fr_few_shape(args[0], dims)) < 0)
        return NULL;
    return filled(ndim, dims, 1);
}

PyObject *
fr_few_full(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp dims[FR_FEW_AXES];
    int      ndim;
    double   v;
    int64_t  i;

    if (n != 2 || names || (ndim = fr_few_shape(args[0], dims)) < 0)
        return NULL;
    if (fr_few_float(args[1], &v))
        return filled(ndim, dims, v);
    return fr_few_int(args[1], &i) ? filled_int(ndim, dims, i) : NULL;
}

PyObject *
fr_few_zeros_like(fr_args args, Py_ssize_t n, PyObject *names)
{
    if (n != 1 || names || !fr_few_is_array(args[0]))
        return NULL;
    return PyArray_ZEROS(PyArray_NDIM(fr_array(args[0])), PyArray_DIMS(fr_array(args[0])), PyArray_TYPE(fr_array(args[0])), 0);
}

PyObject *
fr_few_ones_like(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a;

    if (n != 1 || names || !fr_few_is_array(args[0]))
        return NULL;
    a = fr_array(args[0]);
    if (PyArray_TYPE(a) == NPY_DOUBLE)
        return filled(PyArray_NDIM(a), PyArray_DIMS(a), 1);
    return PyArray_TYPE(a) == NPY_INT64 ? filled_int(PyArray_NDIM(a), PyArray_DIMS(a), 1) : NULL;
}

PyObject *
fr_few_eye(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp  dims[2];
    int64_t   size;
    PyObject *array;

    if (n != 1 || names || !fr_few_int(args[0], &size) || size < 0 || size * size > FR_FEW)
        return NULL;
    dims[0] = dims[1] = size;
    array = PyArray_ZEROS(2, dims, NPY_DOUBLE, 0);
    for (int64_t i = 0; array && i < size; i++)
        fr_few_doubles(array)[i * (size + 1)] = 1;
    return array;
}

PyObject *
fr_few_diag(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp       dims[2], size;
    size_t         bytes;
    PyArrayObject *a;
    PyObject      *array;

    if (n != 1 || names || !fr_few_is_array(args[0]) || PyArray_NDIM(fr_array(args[0])) != 1)
        return NULL;
    a = fr_array(args[0]);
    size = dims[0] = dims[1] = PyArray_DIM(a, 0);
    bytes = (size_t)PyArray_ITEMSIZE(a);
    if (size * size > FR_FEW || !(array = PyArray_ZEROS(2, dims, PyArray_TYPE(a), 0)))
        return NULL;
    for (npy_intp i = 0; i < size; i++)
        memcpy((char *)PyArray_DATA(fr_array(array)) + (size_t)(i * (size + 1)) * bytes, (char *)PyArray_DATA(a) + (size_t)i * bytes,
               bytes);
    return array;
}

/* ---- ranges */

PyObject *
fr_few_arange(fr_args args, Py_ssize_t n, PyObject *names)
{
    int64_t   from = 0, to;
    npy_intp  size;
    PyObject *array;

    if (n < 1 || n > 2 || names || !fr_few_int(args[n - 1], &to) || (n == 2 && !fr_few_int(args[0], &from)) || to < INT32_MIN ||
        to > INT32_MAX || from < INT32_MIN || from > INT32_MAX || to - from > FR_FEW)
        return NULL;
    size = to > from ? to - from : 0;
    array = PyArray_SimpleNew(1, &size, NPY_INT64);
    for (npy_intp i = 0; array && i < size; i++)
        ((int64_t *)PyArray_DATA(fr_array(array)))[i] = from + i;
    return array;
}

static __attribute__((noinline)) void
fill_linspace(double *v, npy_intp size, double start, double stop)
{
    double last = (double)(size - 1), delta = stop - start, step = delta / last;

    for (npy_intp i = 0; i < size; i++)
        v[i] = (step == 0 ? (double)i / last * delta : (double)i * step) + start;
    v[size - 1] = stop;
}

PyObject *
fr_few_linspace(fr_args args, Py_ssize_t n, PyObject *names)
{
    double    start, stop;
    int64_t   count = 50;
    npy_intp  size;
    PyObject *array;

    if (n < 2 || n > 3 || names || !fr_few_number(args[0], &start) || !fr_few_number(args[1], &stop) ||
        (n == 3 && !fr_few_int(args[2], &count)) || count < 2 || count > FR_FEW)
        return NULL;
    size = count;
    if (!(array = doubles(1, &size)))
        return NULL;
    fr_fpe_begin();
    fill_linspace(fr_few_doubles(array), size, start, stop);
    if (fr_fpe_raised())
        Py_CLEAR(array);
    return array;
}
