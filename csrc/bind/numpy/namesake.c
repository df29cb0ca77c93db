/* bind/numpy/namesake.c -- NumPy's function of the same name as an operation of ours: takes the call, or refuses it in
 * its own words. */
#include "bind/numpy/numpy.h"

bool
fr_namesake_exists(fr_op op)
{
    return !(fr_op_info[op].flags & (FR_OPF_OURS | FR_OPF_INNER));
}

/* The first argument that no tensor can be made of; says so in an exception. */
static bool
says_what_it_refuses(const char *name, fr_args args, Py_ssize_t n)
{
    for (Py_ssize_t i = 0; i < n; i++) {
        struct fr_value x;
        PyObject       *array, *dtype;
        int             st = fr_value_get(args[i], false, &x);

        if (st == FR_VALUE_OK)
            fr_value_clear(&x);
        if (st == FR_VALUE_ERROR || (st == FR_VALUE_OK && (x.arg.t || !x.arg.n.huge)))
            continue;
        array = fr_numpy_from_any(args[i]);
        dtype = array ? PyObject_GetAttrString(array, "dtype") : NULL;
        if (dtype)
            PyErr_Format(PyExc_TypeError, "%s() takes no %s of dtype %S", name, Py_TYPE(args[i])->tp_name, dtype);
        Py_XDECREF(array);
        Py_XDECREF(dtype);
        return true;
    }
    return false;
}

PyObject *
fr_namesake_call(fr_op op, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (fr_namesake_exists(op))
        return fr_fallback_name(fr_op_info[op].name, args, nargs, kwnames);
    if (!says_what_it_refuses(fr_op_info[op].name, args, nargs) && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s() does not take these arguments", fr_op_info[op].name);
    return NULL;
}

/* An operand of the dtype, or of the kind of Python number, that the argument has. */
static PyObject *
sample(const struct fr_tensor *t, const struct fr_number *n)
{
    PyObject *empty, *o = NULL;

    if (!t && n->weak)
        return n->weak == 'b'   ? Py_NewRef(Py_True)
               : n->weak == 'i' ? PyLong_FromLong(1)
               : n->weak == 'f' ? PyFloat_FromDouble(1)
                                : PyComplex_FromDoubles(1, 0);
    empty = fr_numpy_attr("empty");
    if (empty)
        o = PyObject_CallFunction(empty, "iO", 0, fr_numpy_dtype(t ? t->dtype : n->dtype));
    Py_XDECREF(empty);
    return o;
}

/* Lets NumPy refuse the call on empty arrays of the same dtypes; true if it raised. */
static bool
numpy_refuses(fr_op op, const struct fr_arg *args, int n, const struct fr_tensor *out,
              PyObject *dtype)
{
    PyObject *f = fr_numpy_attr(fr_op_info[op].name), *all = PyTuple_New(n), *kw = PyDict_New();
    PyObject *target = out ? sample(out, NULL) : NULL, *result = NULL;
    bool      ok = f && all && kw && (!out || target), asked = false;

    for (int k = 0; ok && k < n; k++) {
        PyObject *o = sample(args[k].t, &args[k].n);
        ok = o != NULL;
        if (o)
            PyTuple_SET_ITEM(all, k, o);
    }
    ok = ok && (!target || PyDict_SetItem(kw, fr_str_out, target) == 0) &&
         (!dtype || PyDict_SetItem(kw, fr_str_dtype, dtype) == 0);
    if (ok) {
        result = PyObject_Call(f, all, kw);
        asked = !result;
    }
    if (!asked)
        PyErr_Clear();
    Py_XDECREF(f);
    Py_XDECREF(all);
    Py_XDECREF(kw);
    Py_XDECREF(target);
    Py_XDECREF(result);
    return asked;
}

PyObject *
fr_namesake_refuse(fr_status st, const struct fr_err *err, fr_op op, const struct fr_arg *args, int n,
                   const struct fr_tensor *out, PyObject *dtype)
{
    /* The types of casting errors are private to NumPy, and their makers want objects of NumPy's. Of
     * a plain TypeError our words are better: they name the dtypes. */
    if (st != FR_EUFUNC || !numpy_refuses(op, args, n, out, dtype))
        return fr_errors_raise(st, err);
    if (PyErr_Occurred() != PyExc_TypeError)
        return NULL;
    PyErr_Clear();
    return fr_errors_raise(st, err);
}
