/* bind/tensor/resize.c -- the method resize, the only one that changes how many elements an array has. The checks are
 * NumPy's and come in its order. */
#include "bind/tensor/tensor.h"

#include <string.h>

#include "bind/numpy/npy.h"

static bool
is_one_segment(const struct fr_layout *l)
{
    return l->c_contig || l->f_contig;
}

/* Elements of one axis after the other, in the order in which the array has them. */
static void
fill_strides(const struct fr_layout *l, int ndim, const int64_t *dims, int64_t *strides)
{
    int64_t step = 1;
    bool    columns = l->f_contig && !l->c_contig;

    for (int i = 0; i < ndim; i++) {
        int k = columns ? i : ndim - 1 - i;

        strides[k] = step;
        step *= dims[k] > 0 ? dims[k] : 1;
    }
}

/* Whether somebody else has this Tensor, or another Tensor or array sees its memory. Weak references count always. */
static bool
is_referenced(PyObject *self, bool check)
{
    return fr_object(self)->weakrefs || (check && (Py_REFCNT(self) > 2 || !fr_tensor_has_storage_alone(fr_of(self))));
}

/* An argument of an accelerated function, whose array is resized. */
static bool
is_argument(PyObject *self)
{
    return fr_object(self)->end == FR_END_LOAN || fr_object(self)->end == FR_END_LOAN_RESHAPED;
}

/* A Tensor over memory of its own that begins with the elements of `t` in the order in which they lie; the rest is zero. */
static PyObject *
longer_or_shorter(PyObject *self, int ndim, const int64_t *dims)
{
    const struct fr_tensor *t = fr_of(self);
    bool                    columns = t->layout->f_contig && !t->layout->c_contig;
    npy_intp                n[FR_MAX_DIMS], n_bytes;
    int64_t                 strides[FR_MAX_DIMS];
    struct fr_tensor        same;
    struct fr_err           err;
    fr_status               st;
    PyObject               *view, *array, *result = NULL;

    for (int k = 0; k < ndim; k++)
        n[k] = dims[k];
    FR_TRACE_HERE();
    fill_strides(t->layout, ndim, dims, strides);
    if (!(view = fr_numpy_view(self, FR_VIEW_READ)))
        return NULL;
    Py_INCREF(PyArray_DESCR(fr_array(view)));
    array = PyArray_Zeros(ndim, n, PyArray_DESCR(fr_array(view)), columns);
    if (array) {
        n_bytes = PyArray_NBYTES(fr_array(view)) < PyArray_NBYTES(fr_array(array)) ? PyArray_NBYTES(fr_array(view))
                                                                                  : PyArray_NBYTES(fr_array(array));
        if (n_bytes > 0)
            memcpy(PyArray_DATA(fr_array(array)), PyArray_DATA(fr_array(view)), (size_t)n_bytes);
        result = fr_numpy_wrap(array, NULL);
        Py_DECREF(array);
    }
    Py_DECREF(view);
    /* An array without elements has strides, too. */
    if (!result || fr_of(result)->layout->n_elems)
        return result;
    if ((st = fr_tensor_window(fr_of(result), ndim, dims, strides, 0, &same, &err)) != FR_OK) {
        Py_CLEAR(result);
        fr_errors_raise(st, &err);
    } else {
        fr_tensor_clear(fr_of(result));
        *fr_of(result) = same;
    }
    return result;
}

static PyObject *
refuse(const char *why)
{
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

static PyObject *
resize(PyObject *self, int ndim, const int64_t *dims, bool check)
{
    const struct fr_tensor *t = fr_of(self);
    int64_t                 strides[FR_MAX_DIMS], n = 1;
    struct fr_tensor        same, old;
    struct fr_err           err;
    fr_status               st;
    PyObject               *other;

    if (!is_one_segment(t->layout))
        return refuse("resize only works on single-segment arrays");
    for (int k = 0; k < ndim; k++)
        if (dims[k] < 0)
            return refuse("negative dimensions not allowed");
        else if (__builtin_mul_overflow(n, dims[k], &n))
            return PyErr_NoMemory();
    if (n == t->layout->n_elems) {
        fill_strides(t->layout, ndim, dims, strides);
        if ((st = fr_tensor_window(t, ndim, dims, strides, 0, &same, &err)) != FR_OK)
            return fr_errors_raise(st, &err);
        fr_tensor_clear(fr_of(self));
        *fr_of(self) = same;
        if (fr_object(self)->end == FR_END_LOAN)
            fr_object(self)->end = FR_END_LOAN_RESHAPED;
        Py_RETURN_NONE;
    }
    if (is_argument(self) ? !fr_object(self)->token : !fr_tensor_owns(t, self))
        return refuse("cannot resize this array: it does not own its data");
    if (is_referenced(self, check))
        return refuse("cannot resize an array that references or is referenced\nby another object in this way.\n"
                      "Use the np.resize function to get a new resized copy or\n set refcheck=False to disable this check");
    if (is_argument(self))
        return fr_share_resize(self, ndim, dims) < 0 ? NULL : Py_NewRef(Py_None);
    if (!(other = longer_or_shorter(self, ndim, dims)))
        return NULL;
    fr_type_be_no_base(self);
    old = *fr_of(self);
    *fr_of(self) = *fr_of(other);
    *fr_of(other) = old;
    Py_DECREF(other);
    Py_RETURN_NONE;
}

/* What numbers of NumPy's resize is an array of their own. */
static PyObject *
resize_number(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *number = fr_numpy_scalar_of(self), *method = number ? PyObject_GetAttrString(number, "resize") : NULL;
    PyObject *result = method ? PyObject_Vectorcall(method, args, (size_t)nargs, kw) : NULL;

    Py_XDECREF(number);
    Py_XDECREF(method);
    return result;
}

PyObject *
fr_resize_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *check = NULL, *shape;
    int64_t   dims[FR_MAX_DIMS];
    int       ndim = 0, checked = 1;

    if (fr_object(self)->scalar)
        return resize_number(self, args, nargs, kw);
    for (Py_ssize_t k = 0; kw && k < PyTuple_GET_SIZE(kw); k++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, k), "refcheck") != 0)
            return PyErr_Format(PyExc_TypeError, "'%U' is an invalid keyword argument for this function",
                                PyTuple_GET_ITEM(kw, k));
        check = args[nargs + k];
    }
    if (check && !PyArg_Parse(check, "i", &checked))
        return NULL;
    shape = nargs == 1 ? args[0] : NULL;
    if (nargs == 0 || shape == Py_None)
        Py_RETURN_NONE;
    if (fr_args_dims_packed(args, nargs, true, &ndim, dims) < 0)
        return NULL;
    return resize(self, ndim, dims, checked);
}
