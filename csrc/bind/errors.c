/* bind/errors.c -- fr_status to Python exceptions, by the last column of base/status.def. */
#include "bind/bind.h"

static PyObject *axis_error;

int
fr_errors_init(void)
{
    PyObject *module = PyImport_ImportModule("numpy.exceptions");

    if (!module)
        return -1;
    axis_error = PyObject_GetAttrString(module, "AxisError");
    Py_DECREF(module);
    return axis_error ? 0 : -1;
}

static PyObject *
axis_error_type(void)
{
    return axis_error;
}

static PyObject *
type_of(fr_status st)
{
    switch (st) {
#define STATUS(code, text, exc)                                                                    \
    case FR_##code: return exc;
#include "base/status.def"
    default: return PyExc_SystemError;
    }
}

PyObject *
fr_errors_raise(fr_status st, const struct fr_err *err)
{
    PyObject *type = type_of(st);

    /* The handler of a signal has raised already, in fr_hooks.interrupted, or a filter of warnings has: once is enough. */
    if (PyErr_Occurred())
        return NULL;
    if (!type)
        type = PyExc_SystemError;
    if (err && err->code == st && err->text[0])
        PyErr_SetString(type, err->text);
    else
        PyErr_SetString(type, fr_status_text(st));
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
fr_errors_raise_map(fr_status st, const struct fr_err *err, fr_op op, const struct fr_arg *args,
                    int n, const struct fr_tensor *out, PyObject *dtype)
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

void
fr_errors_add_context(PyObject *type, PyObject *value, PyObject *trace)
{
    PyObject *type2, *value2, *trace2;

    PyErr_Fetch(&type2, &value2, &trace2);
    PyErr_NormalizeException(&type2, &value2, &trace2);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value2 && value)
        PyException_SetContext(value2, Py_NewRef(value));
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Restore(type2, value2, trace2);
}

PyObject *
fr_errors_axis(long axis, int ndim, const char *name)
{
    PyObject *exc = PyObject_CallFunction(axis_error, "liz", axis, ndim, name);

    if (exc) {
        PyErr_SetObject(axis_error, exc);
        Py_DECREF(exc);
    }
    return NULL;
}
