/* bind/numpy/few.c -- see few.h: the table, and what its functions share. */
#include "bind/numpy/few.h"

#include <string.h>

static struct row {
    const char *name;
    fr_few      function;
    PyObject   *theirs;
} rows[] = {
#define FEW(name, function) {name, function, NULL},
#include "bind/numpy/few.def"
};

fr_few
fr_few_of(const char *name)
{
    for (size_t i = 0; i < FR_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return rows[i].function;
    return NULL;
}

fr_few
fr_few_function(PyObject *function)
{
    for (size_t i = 0; i < FR_LEN(rows); i++) {
        if (!rows[i].theirs && strncmp(rows[i].name, "random.", 7) != 0 && !(rows[i].theirs = fr_numpy_attr(rows[i].name)))
            PyErr_Clear();
        if (rows[i].theirs == function)
            return rows[i].function;
    }
    return NULL;
}

PyObject *
fr_few_names(void)
{
    PyObject *names = PyTuple_New(FR_LEN(rows));

    for (size_t i = 0; names && i < FR_LEN(rows); i++) {
        PyObject *name = PyUnicode_InternFromString(rows[i].name);

        if (!name) {
            Py_DECREF(names);
            return NULL;
        }
        PyTuple_SET_ITEM(names, i, name);
    }
    return names;
}

int
fr_few_shape(PyObject *o, npy_intp dims[FR_FEW_AXES])
{
    Py_ssize_t n = PyTuple_CheckExact(o) || PyList_CheckExact(o) ? PySequence_Fast_GET_SIZE(o) : -1;
    int64_t    v, size = 1;

    if (n < 0) {
        if (!fr_few_int(o, &v) || v < 0 || v > FR_FEW)
            return -1;
        dims[0] = v;
        return 1;
    }
    if (n > FR_FEW_AXES)
        return -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!fr_few_int(PySequence_Fast_GET_ITEM(o, i), &v) || v < 0 || v > FR_FEW || (size *= v) > FR_FEW)
            return -1;
        dims[i] = v;
    }
    return (int)n;
}

PyObject *
fr_few_scalar(double v)
{
    return fr_numpy_scalar_from(FR_F64, &v);
}
