/* bind/base/errors.c -- fr_status to Python exceptions, by the last column of base/status.def. */
#include "bind/base/base.h"

static PyObject *axis_error, *no_data_error;

int
fr_errors_init(PyObject *frit)
{
    PyObject *module = PyImport_ImportModule("numpy.exceptions");

    if (!module)
        return -1;
    axis_error = PyObject_GetAttrString(module, "AxisError");
    Py_DECREF(module);
    no_data_error = PyErr_NewExceptionWithDoc("frit.NoDataError",
                                              "The value of an array without data is wanted: of one on the device \"meta\", as in frit.estimate.",
                                              PyExc_RuntimeError, NULL);
    return axis_error && no_data_error ? PyModule_AddObjectRef(frit, "NoDataError", no_data_error) : -1;
}

static PyObject *
axis_error_type(void)
{
    return axis_error;
}

/* Exceptions of frit.cache, which has been imported by whoever calls what raises them. */
static PyObject *
export_error_type(const char *name)
{
    PyObject *module = PyImport_ImportModule("frit.cache"), *type = module ? PyObject_GetAttrString(module, name) : NULL;

    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(type); /* its module has it */
    return type;
}

static PyObject *
no_data_error_type(void)
{
    return no_data_error;
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
    PyObject *type;

    /* The handler of a signal has raised already, in fr_hooks.interrupted, or a filter of warnings has: once is enough. */
    if (PyErr_Occurred())
        return NULL;
    type = type_of(st);
    if (!type)
        type = PyExc_SystemError;
    if (err && err->code == st && err->text[0])
        PyErr_SetString(type, err->text);
    else
        PyErr_SetString(type, fr_status_text(st));
    return NULL;
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
