/* bind/errors.c -- fr_status to Python exceptions, by the last column of base/status.def. */
#include "bind/bind.h"

static PyObject *axis_error, *ufunc_error;

/* NumPy's UFuncTypeError wants the ufunc as its argument; a subclass that takes a message is still
 * caught by those who expect NumPy's. */
static PyObject *
make_ufunc_error(void)
{
    PyObject *module = PyImport_ImportModule("numpy._core._exceptions");
    PyObject *base = module ? PyObject_GetAttrString(module, "UFuncTypeError") : NULL;
    PyObject *init = PyObject_GetAttrString(PyExc_TypeError, "__init__");
    PyObject *str = PyObject_GetAttrString(PyExc_TypeError, "__str__");
    PyObject *type = NULL;

    Py_XDECREF(module);
    if (!base) { /* a private name of NumPy: it may go */
        PyErr_Clear();
        base = Py_NewRef(PyExc_TypeError);
    }
    if (init && str)
        type = PyObject_CallFunction((PyObject *)&PyType_Type, "s(O){sOsOss}", "UFuncTypeError",
                                     base, "__init__", init, "__str__", str, "__module__", "frit");
    Py_DECREF(base);
    Py_XDECREF(init);
    Py_XDECREF(str);
    return type;
}

int
fr_errors_init(void)
{
    PyObject *module = PyImport_ImportModule("numpy.exceptions");

    if (!module)
        return -1;
    axis_error = PyObject_GetAttrString(module, "AxisError");
    Py_DECREF(module);
    if (!axis_error)
        return -1;
    ufunc_error = make_ufunc_error();
    return ufunc_error ? 0 : -1;
}

static PyObject *
axis_error_type(void)
{
    return axis_error;
}

static PyObject *
ufunc_no_loop_type(void)
{
    return ufunc_error;
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

    /* The handler of a signal has raised already, in fr_hooks.interrupted: once is enough. */
    if (st == FR_EINTR && PyErr_Occurred())
        return NULL;
    if (!type)
        type = PyExc_SystemError;
    if (err && err->code == st && err->text[0])
        PyErr_SetString(type, err->text);
    else
        PyErr_SetString(type, fr_status_text(st));
    return NULL;
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
