/* bind/numpy/few_order.c -- few.h: what compares, chooses and sorts. */
#include "bind/numpy/few.h"

#include <math.h>
#include <string.h>

#include "base/fpe.h"

/* ---- comparison */

PyObject *
fr_few_array_equal(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a, *b;
    bool           equal = true;

    if (n != 2 || names || !fr_few_is_array(args[0]) || !fr_few_is_array(args[1]))
        return NULL;
    a = fr_array(args[0]);
    b = fr_array(args[1]);
    if (!PyArray_SAMESHAPE(a, b))
        Py_RETURN_FALSE;
    if (PyArray_TYPE(a) != PyArray_TYPE(b) || PyTypeNum_ISCOMPLEX(PyArray_TYPE(a)))
        return NULL;
    if (PyArray_TYPE(a) == NPY_DOUBLE) {
        for (npy_intp i = 0; i < PyArray_SIZE(a) && equal; i++)
            equal = ((double *)PyArray_DATA(a))[i] == ((double *)PyArray_DATA(b))[i];
    } else if (PyTypeNum_ISINTEGER(PyArray_TYPE(a))) {
        equal = memcmp(PyArray_DATA(a), PyArray_DATA(b), (size_t)PyArray_NBYTES(a)) == 0;
    } else {
        return NULL;
    }
    return PyBool_FromLong(equal);
}

/* An array of doubles, or a number. */
struct operand {
    PyArrayObject *array;
    const double  *v;
    double         number;
    npy_intp       step;
};

static bool
read_operand(PyObject *x, struct operand *o)
{
    *o = (struct operand){.array = NULL};
    if (PyArray_CheckExact(x)) {
        if (!fr_few_is_array(x) || PyArray_TYPE(fr_array(x)) != NPY_DOUBLE || PyArray_NDIM(fr_array(x)) == 0)
            return false;
        o->array = fr_array(x);
        o->v = PyArray_DATA(o->array);
        o->step = 1;
        return true;
    }
    o->v = &o->number;
    return fr_few_number(x, &o->number);
}

/* Whether elements are close as numpy.isclose says; false: one of them is no finite number, or a flag was raised. */
static __attribute__((noinline)) bool
compare_close(const struct operand *a, const struct operand *b, npy_intp n, bool *close)
{
    bool finite = true;

    for (npy_intp i = 0; i < n; i++) {
        double x = a->v[i * a->step], y = b->v[i * b->step];

        finite &= isfinite(x) && isfinite(y) && isfinite(x - y);
        close[i] = fabs(x - y) <= 1e-8 + 1e-5 * fabs(y);
    }
    return finite;
}

/* The elements' answers, how many, and the array whose shape they have (NULL: both are numbers); -1: another call. */
static npy_intp
are_close(fr_args args, Py_ssize_t n, PyObject *names, bool close[FR_FEW], PyArrayObject **like)
{
    struct operand a, b;
    npy_intp       size;

    if (n != 2 || names || !read_operand(args[0], &a) || !read_operand(args[1], &b) ||
        (a.array && b.array && !PyArray_SAMESHAPE(a.array, b.array)))
        return -1;
    *like = a.array ? a.array : b.array;
    size = *like ? PyArray_SIZE(*like) : 1;
    fr_fpe_begin();
    return compare_close(&a, &b, size, close) && !fr_fpe_raised() ? size : -1;
}

PyObject *
fr_few_allclose(fr_args args, Py_ssize_t n, PyObject *names)
{
    bool           close[FR_FEW], all = true;
    PyArrayObject *like;
    npy_intp       size = are_close(args, n, names, close, &like);

    if (size < 0)
        return NULL;
    for (npy_intp i = 0; i < size; i++)
        all &= close[i];
    return PyBool_FromLong(all);
}

PyObject *
fr_few_isclose(fr_args args, Py_ssize_t n, PyObject *names)
{
    bool           close[FR_FEW];
    PyArrayObject *like;
    npy_intp       size = are_close(args, n, names, close, &like);
    PyObject      *array;

    if (size < 0)
        return NULL;
    if (!like)
        return Py_NewRef(close[0] ? PyArrayScalar_True : PyArrayScalar_False);
    if ((array = PyArray_SimpleNew(PyArray_NDIM(like), PyArray_DIMS(like), NPY_BOOL)))
        memcpy(PyArray_DATA(fr_array(array)), close, (size_t)size);
    return array;
}

/* ---- choice */

PyObject *
fr_few_nonzero(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && fr_few_is_array(args[0]) && PyArray_NDIM(fr_array(args[0])) > 0
               ? PyArray_Nonzero(fr_array(args[0])) : NULL;
}

/* One of the two that are chosen from: doubles, or ints. */
struct chosen {
    const char *v;
    npy_intp    step;
    int         type;
    int64_t     number;
    double      real;
};

static bool
read_chosen(PyObject *x, PyArrayObject *condition, struct chosen *c)
{
    if (PyArray_CheckExact(x)) {
        c->type = PyArray_TYPE(fr_array(x));
        c->v = PyArray_DATA(fr_array(x));
        c->step = 8;
        return (c->type == NPY_DOUBLE || c->type == NPY_INT64) && PyArray_ISCARRAY_RO(fr_array(x)) &&
               PyArray_SAMESHAPE(fr_array(x), condition);
    }
    c->step = 0;
    if (PyFloat_CheckExact(x)) {
        c->type = NPY_DOUBLE;
        c->real = PyFloat_AS_DOUBLE(x);
        c->v = (const char *)&c->real;
        return true;
    }
    c->type = NPY_INT64;
    c->v = (const char *)&c->number;
    return PyLong_CheckExact(x) && fr_value_small_int(x, &c->number);
}

PyObject *
fr_few_where(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyArrayObject *condition;
    PyObject      *array;
    struct chosen  yes, no;
    const bool    *c;
    char          *to;

    if (n == 1)
        return fr_few_nonzero(args, n, names);
    if (n != 3 || names || !PyArray_CheckExact(args[0]))
        return NULL;
    condition = fr_array(args[0]);
    if (!PyArray_ISBOOL(condition) || !PyArray_ISCARRAY_RO(condition) || PyArray_SIZE(condition) > FR_FEW ||
        !read_chosen(args[1], condition, &yes) || !read_chosen(args[2], condition, &no) || yes.type != no.type)
        return NULL;
    if (!(array = PyArray_SimpleNew(PyArray_NDIM(condition), PyArray_DIMS(condition), yes.type)))
        return NULL;
    c = PyArray_DATA(condition);
    to = PyArray_DATA(fr_array(array));
    for (npy_intp i = 0; i < PyArray_SIZE(condition); i++)
        memcpy(to + 8 * i, c[i] ? yes.v + i * yes.step : no.v + i * no.step, 8);
    return array;
}

/* ---- order */

PyObject *
fr_few_sort(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject *array;

    if (n != 1 || names || !fr_few_is_array(args[0]) || PyArray_NDIM(fr_array(args[0])) == 0)
        return NULL;
    if ((array = PyArray_NewCopy(fr_array(args[0]), NPY_KEEPORDER)) && PyArray_Sort(fr_array(array), -1, NPY_QUICKSORT) < 0)
        Py_CLEAR(array);
    return array;
}

PyObject *
fr_few_argsort(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && fr_few_is_array(args[0]) && PyArray_NDIM(fr_array(args[0])) > 0
               ? PyArray_ArgSort(fr_array(args[0]), -1, NPY_QUICKSORT) : NULL;
}

PyObject *
fr_few_median(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject *sorted;
    double   *v, middle;
    npy_intp  size;

    if (n != 1 || names || !fr_few_is_of(args[0], NPY_DOUBLE, 1) || (size = PyArray_SIZE(fr_array(args[0]))) == 0)
        return NULL;
    if (!(sorted = fr_few_sort(args, n, names)))
        return NULL;
    v = fr_few_doubles(sorted);
    middle = size % 2 ? v[size / 2] : (v[size / 2 - 1] + v[size / 2]) / 2;
    if (!isfinite(middle) || isnan(v[size - 1])) {
        Py_DECREF(sorted);
        return NULL;
    }
    Py_DECREF(sorted);
    return fr_few_scalar(middle);
}

PyObject *
fr_few_unique(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject *sorted, *array;
    int64_t  *v;
    npy_intp  size, kept = 0;

    if (n != 1 || names || !fr_few_is_of(args[0], NPY_INT64, 1) || !(sorted = fr_few_sort(args, n, names)))
        return NULL;
    v = PyArray_DATA(fr_array(sorted));
    size = PyArray_SIZE(fr_array(sorted));
    for (npy_intp i = 0; i < size; i++)
        if (i == 0 || v[i] != v[kept - 1])
            v[kept++] = v[i];
    if ((array = PyArray_SimpleNew(1, &kept, NPY_INT64)))
        memcpy(PyArray_DATA(fr_array(array)), v, (size_t)kept * sizeof *v);
    Py_DECREF(sorted);
    return array;
}
