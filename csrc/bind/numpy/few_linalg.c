/* bind/numpy/few_linalg.c -- few.h: products, differences and linear algebra. The functions of LAPACK are NumPy's own. */
#include "bind/numpy/few.h"

#include <math.h>

#include "base/fpe.h"

/* ---- products */

static bool
are_arrays(fr_args args, Py_ssize_t n, PyObject *names, Py_ssize_t wanted)
{
    bool are = n == wanted && !names;

    for (Py_ssize_t k = 0; k < wanted && are; k++)
        are = PyArray_CheckExact(args[k]);
    return are;
}

/* Two arrays of numbers of one type, for which a product means what it says. */
static bool
are_factors(fr_args args, Py_ssize_t n, PyObject *names)
{
    return are_arrays(args, n, names, 2) && PyTypeNum_ISNUMBER(PyArray_TYPE(fr_array(args[0]))) &&
           PyArray_TYPE(fr_array(args[0])) == PyArray_TYPE(fr_array(args[1]));
}

static PyObject *
number_of(PyObject *array)
{
    return array ? PyArray_Return(fr_array(array)) : NULL;
}

PyObject *
fr_few_dot(fr_args args, Py_ssize_t n, PyObject *names)
{
    return are_factors(args, n, names) ? number_of(PyArray_MatrixProduct2(args[0], args[1], NULL)) : NULL;
}

PyObject *
fr_few_inner(fr_args args, Py_ssize_t n, PyObject *names)
{
    return are_factors(args, n, names) ? number_of(PyArray_InnerProduct(args[0], args[1])) : NULL;
}

static __attribute__((noinline)) void
multiply_outer(double *to, const double *a, npy_intp n_a, const double *b, npy_intp n_b)
{
    for (npy_intp i = 0; i < n_a; i++)
        for (npy_intp k = 0; k < n_b; k++)
            *to++ = a[i] * b[k];
}

PyObject *
fr_few_outer(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp  dims[2];
    PyObject *array;

    if (n != 2 || names || !fr_few_is_of(args[0], NPY_DOUBLE, 1) || !fr_few_is_of(args[1], NPY_DOUBLE, 1))
        return NULL;
    for (int k = 0; k < 2; k++)
        dims[k] = PyArray_SIZE(fr_array(args[k]));
    if (dims[0] * dims[1] > FR_FEW || !(array = PyArray_SimpleNew(2, dims, NPY_DOUBLE)))
        return NULL;
    fr_fpe_begin();
    multiply_outer(fr_few_doubles(array), fr_few_doubles(args[0]), dims[0], fr_few_doubles(args[1]), dims[1]);
    if (fr_fpe_raised())
        Py_CLEAR(array);
    return array;
}

static __attribute__((noinline)) void
multiply_cross(double *to, const double *a, const double *b)
{
    for (int i = 0; i < 3; i++) {
        int k = (i + 1) % 3, l = (i + 2) % 3;

        to[i] = a[k] * b[l] - a[l] * b[k];
    }
}

PyObject *
fr_few_cross(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp  dims[1] = {3};
    PyObject *array;

    for (int k = 0; k < 2; k++)
        if (n != 2 || names || !fr_few_is_of(args[k], NPY_DOUBLE, 1) || PyArray_SIZE(fr_array(args[k])) != 3)
            return NULL;
    if (!(array = PyArray_SimpleNew(1, dims, NPY_DOUBLE)))
        return NULL;
    fr_fpe_begin();
    multiply_cross(fr_few_doubles(array), fr_few_doubles(args[0]), fr_few_doubles(args[1]));
    if (fr_fpe_raised())
        Py_CLEAR(array);
    return array;
}

/* ---- sums and differences of neighbours */

enum { IN_ORDER = 8 }; /* fewer elements than that NumPy adds one after the other */

static __attribute__((noinline)) double
sum_diagonal(const double *v, npy_intp n, npy_intp step)
{
    double sum = -0.0;

    for (npy_intp i = 0; i < n; i++)
        sum += v[i * step];
    return sum;
}

PyObject *
fr_few_trace(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp n_rows, n_columns, size;
    double   sum;

    if (n != 1 || names || !fr_few_is_of(args[0], NPY_DOUBLE, 2))
        return NULL;
    n_rows = PyArray_DIM(fr_array(args[0]), 0);
    n_columns = PyArray_DIM(fr_array(args[0]), 1);
    size = n_rows < n_columns ? n_rows : n_columns;
    if (size == 0 || size >= IN_ORDER)
        return NULL;
    fr_fpe_begin();
    sum = sum_diagonal(fr_few_doubles(args[0]), size, n_columns + 1);
    return fr_fpe_raised() ? NULL : fr_few_scalar(sum);
}

static __attribute__((noinline)) void
subtract_neighbours(double *to, const double *v, npy_intp n)
{
    for (npy_intp i = 0; i < n; i++)
        to[i] = v[i + 1] - v[i];
}

PyObject *
fr_few_diff(fr_args args, Py_ssize_t n, PyObject *names)
{
    npy_intp  size;
    PyObject *array;

    if (n != 1 || names || !fr_few_is_of(args[0], NPY_DOUBLE, 1) || (size = PyArray_SIZE(fr_array(args[0])) - 1) < 0 ||
        !(array = PyArray_SimpleNew(1, &size, NPY_DOUBLE)))
        return NULL;
    fr_fpe_begin();
    subtract_neighbours(fr_few_doubles(array), fr_few_doubles(args[0]), size);
    if (fr_fpe_raised())
        Py_CLEAR(array);
    return array;
}

PyObject *
fr_few_norm(fr_args args, Py_ssize_t n, PyObject *names)
{
    PyObject *flat, *square;
    double    v = -1;

    if (n != 1 || names || !PyArray_CheckExact(args[0]) || PyArray_TYPE(fr_array(args[0])) != NPY_DOUBLE ||
        !PyArray_ISCARRAY_RO(fr_array(args[0])) || PyArray_NDIM(fr_array(args[0])) == 0)
        return NULL;
    flat = PyArray_NDIM(fr_array(args[0])) == 1 ? Py_NewRef(args[0]) : PyArray_Ravel(fr_array(args[0]), NPY_KEEPORDER);
    square = flat ? PyArray_MatrixProduct2(flat, flat, NULL) : NULL;
    if (square && PyArray_Check(square))
        v = *fr_few_doubles(square);
    else if (square)
        v = PyFloat_AsDouble(square);
    Py_XDECREF(flat);
    if (!square)
        return NULL;
    Py_DECREF(square);
    return v >= 0 ? fr_few_scalar(sqrt(v)) : NULL; /* a root of NaN is NumPy's */
}

/* ---- LAPACK: NumPy's generalized functions, called in the state in which numpy.linalg calls them. */

static struct lapack {
    PyObject *inv, *solve, *solve1, *det, *cholesky;
    PyObject *variable; /* the context variable that has that state */
    PyObject *singular, *not_positive; /* states in which a failure raises LinAlgError */
    bool      is_looked_for;
} lapack;

static PyObject *
find_state(PyObject *umath, const char *handler)
{
    PyObject *name = PyUnicode_FromFormat("linalg._linalg.%s", handler), *call = name ? fr_numpy_attr(PyUnicode_AsUTF8(name)) : NULL;
    PyObject *make = call ? PyObject_GetAttrString(umath, "_make_extobj") : NULL;
    PyObject *none = make ? PyTuple_New(0) : NULL;
    PyObject *how = none ? Py_BuildValue("{sOssssssss}", "call", call, "invalid", "call", "over", "ignore", "divide", "ignore", "under", "ignore")
                         : NULL;
    PyObject *state = how ? PyObject_Call(make, none, how) : NULL;

    Py_XDECREF(name);
    Py_XDECREF(call);
    Py_XDECREF(make);
    Py_XDECREF(none);
    Py_XDECREF(how);
    return state;
}

/* False: this NumPy has them elsewhere, and answers itself. */
static bool
find_lapack(void)
{
    PyObject *umath;

    if (FR_LIKELY(lapack.is_looked_for))
        return lapack.variable != NULL;
    lapack.is_looked_for = true;
    if ((umath = PyImport_ImportModule("numpy._core.umath")) && (lapack.inv = fr_numpy_attr("linalg._umath_linalg.inv")) &&
        (lapack.solve = fr_numpy_attr("linalg._umath_linalg.solve")) && (lapack.solve1 = fr_numpy_attr("linalg._umath_linalg.solve1")) &&
        (lapack.det = fr_numpy_attr("linalg._umath_linalg.det")) &&
        (lapack.cholesky = fr_numpy_attr("linalg._umath_linalg.cholesky_lo")) &&
        (lapack.singular = find_state(umath, "_raise_linalgerror_singular")) &&
        (lapack.not_positive = find_state(umath, "_raise_linalgerror_nonposdef")))
        lapack.variable = PyObject_GetAttrString(umath, "_extobj_contextvar");
    if (lapack.variable && !PyContextVar_CheckExact(lapack.variable))
        Py_CLEAR(lapack.variable);
    Py_XDECREF(umath);
    PyErr_Clear();
    return lapack.variable != NULL;
}

static PyObject *
call_lapack(PyObject *function, PyObject *state, fr_args args, Py_ssize_t n)
{
    PyObject *token = PyContextVar_Set(lapack.variable, state), *result, *type, *value, *trace;

    if (!token)
        return NULL;
    result = PyObject_Vectorcall(function, args, (size_t)n, NULL);
    PyErr_Fetch(&type, &value, &trace);
    if (PyContextVar_Reset(lapack.variable, token) < 0)
        Py_CLEAR(result);
    else
        PyErr_Restore(type, value, trace);
    Py_DECREF(token);
    return result;
}

static bool
is_square(PyObject *x)
{
    return PyArray_CheckExact(x) && PyArray_TYPE(fr_array(x)) == NPY_DOUBLE && PyArray_NDIM(fr_array(x)) == 2 &&
           PyArray_ISBEHAVED_RO(fr_array(x)) && PyArray_DIM(fr_array(x), 0) == PyArray_DIM(fr_array(x), 1);
}

PyObject *
fr_few_inv(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && is_square(args[0]) && find_lapack() ? call_lapack(lapack.inv, lapack.singular, args, n) : NULL;
}

PyObject *
fr_few_cholesky(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && is_square(args[0]) && find_lapack() ? call_lapack(lapack.cholesky, lapack.not_positive, args, n) : NULL;
}

PyObject *
fr_few_det(fr_args args, Py_ssize_t n, PyObject *names)
{
    return n == 1 && !names && is_square(args[0]) && find_lapack() ? PyObject_Vectorcall(lapack.det, args, 1, NULL) : NULL;
}

PyObject *
fr_few_solve(fr_args args, Py_ssize_t n, PyObject *names)
{
    int ndim;

    if (n != 2 || names || !is_square(args[0]) || !PyArray_CheckExact(args[1]) || PyArray_TYPE(fr_array(args[1])) != NPY_DOUBLE ||
        !PyArray_ISBEHAVED_RO(fr_array(args[1])) || !find_lapack())
        return NULL;
    ndim = PyArray_NDIM(fr_array(args[1]));
    if (ndim < 1 || ndim > 2 || PyArray_DIM(fr_array(args[0]), 0) != PyArray_DIM(fr_array(args[1]), 0))
        return NULL;
    return call_lapack(ndim == 1 ? lapack.solve1 : lapack.solve, lapack.singular, args, n);
}
