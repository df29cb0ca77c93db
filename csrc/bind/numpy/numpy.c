/* bind/numpy/numpy.c -- NumPy's dtypes, numbers and names.  The only file that imports NumPy's C interface. */
#include "bind/numpy/numpy.h"
#define FR_NUMPY_IMPORTS
#include "bind/numpy/npy.h"

#include <string.h>

PyArray_Descr   *fr_numpy_descrs[FR_N_DTYPES];
fr_dtype         fr_numpy_by_typenum[NPY_NTYPES_LEGACY];
static PyObject *numpy, *attrs;

static const int typenums[FR_N_DTYPES] = {
    [FR_BOOL] = NPY_BOOL,   [FR_I8] = NPY_INT8,       [FR_I16] = NPY_INT16,
    [FR_I32] = NPY_INT32,   [FR_I64] = NPY_INT64,     [FR_U8] = NPY_UINT8,
    [FR_U16] = NPY_UINT16,  [FR_U32] = NPY_UINT32,    [FR_U64] = NPY_UINT64,
    [FR_F16] = NPY_FLOAT16, [FR_F32] = NPY_FLOAT32,   [FR_F64] = NPY_FLOAT64,
    [FR_C64] = NPY_COMPLEX64, [FR_C128] = NPY_COMPLEX128,
};

/* C has more integer types than sizes: each NumPy number finds its dtype by kind and size. */
static void
fill_typenums(void)
{
    for (int i = 0; i < NPY_NTYPES_LEGACY; i++)
        fr_numpy_by_typenum[i] = FR_N_DTYPES;
    for (int d = 0; d < FR_N_DTYPES; d++)
        fr_numpy_by_typenum[typenums[d]] = (fr_dtype)d;
    fr_numpy_by_typenum[NPY_LONGLONG] = FR_I64;
    fr_numpy_by_typenum[NPY_ULONGLONG] = FR_U64;
    fr_numpy_by_typenum[NPY_LONG] = sizeof(long) == 8 ? FR_I64 : FR_I32;
    fr_numpy_by_typenum[NPY_ULONG] = sizeof(long) == 8 ? FR_U64 : FR_U32;
    fr_numpy_by_typenum[NPY_INT] = FR_I32;
    fr_numpy_by_typenum[NPY_UINT] = FR_U32;
}

int
fr_numpy_init(void)
{
    import_array1(-1);
    fill_typenums();
    for (int d = 0; d < FR_N_DTYPES; d++)
        if (!(fr_numpy_descrs[d] = PyArray_DescrFromType(typenums[d])))
            return -1;
    numpy = PyImport_ImportModule("numpy");
    attrs = PyDict_New();
    return numpy && attrs ? 0 : -1;
}

/* ---- dtypes */

PyObject *
fr_numpy_dtype(fr_dtype d)
{
    return (PyObject *)fr_numpy_descrs[d];
}

int
fr_numpy_to_dtype(PyObject *o, fr_dtype dflt, fr_dtype *out)
{
    PyArray_Descr *descr = NULL;

    *out = dflt;
    if (fr_args_none(o))
        return 1;
    if (Py_TYPE(o) == Py_TYPE(fr_numpy_descrs[FR_F64])) {
        *out = fr_numpy_dtype_of((PyArray_Descr *)o);
        if (*out != FR_N_DTYPES)
            return 1;
    }
    if (!PyArray_DescrConverter(o, &descr))
        return -1;
    *out = fr_numpy_dtype_of(descr);
    Py_DECREF(descr);
    return *out != FR_N_DTYPES;
}

/* ---- arrays and numbers */

bool
fr_numpy_is_array(PyObject *o)
{
    return PyArray_Check(o);
}

bool
fr_numpy_is_scalar(PyObject *o)
{
    return PyArray_IsScalar(o, Generic);
}

bool
fr_numpy_scalar(PyObject *o, struct fr_number *n)
{
    PyArray_Descr *descr = PyArray_DescrFromScalar(o);
    fr_dtype       d = descr ? fr_numpy_dtype_of(descr) : FR_N_DTYPES;
    char           bytes[16] __attribute__((aligned(16)));

    Py_XDECREF(descr);
    if (d == FR_N_DTYPES) {
        PyErr_Clear();
        return false;
    }
    PyArray_ScalarAsCtype(o, bytes);
    fr_element_number(d, bytes, n);
    return true;
}

fr_dtype
fr_numpy_array_dtype(PyObject *array)
{
    return fr_numpy_dtype_of(PyArray_DESCR(fr_array(array)));
}

bool
fr_numpy_is_subclass(PyObject *array)
{
    static PyObject *memmap;

    if (FR_LIKELY(PyArray_CheckExact(array)))
        return false;
    if (!memmap && !(memmap = fr_numpy_attr("memmap")))
        PyErr_Clear();
    return (PyObject *)Py_TYPE(array) != memmap; /* what is computed of memory maps are plain arrays */
}

bool
fr_numpy_defers(PyObject *o)
{
    return PyArray_Check(o) ? fr_numpy_is_subclass(o) : PyArray_GetPriority(o, NPY_SCALAR_PRIORITY) > 0;
}

/* Before NumPy reads arrays that may see memory of tensors: what is stored there is there. */
static bool
flush(void)
{
    struct fr_err err;

    return fr_errors_check(fr_runtime_flush(&err), &err) == 0;
}

PyObject *
fr_numpy_from_any(PyObject *o)
{
    return !flush() ? NULL : PyArray_FromAny(o, NULL, 0, 0, 0, NULL);
}

PyObject *
fr_numpy_from_items(PyObject *list, fr_dtype d)
{
    if (!flush())
        return NULL;
    Py_INCREF(fr_numpy_descrs[d]);
    return PyArray_FromAny(list, fr_numpy_descrs[d], 0, 0, NPY_ARRAY_FORCECAST, NULL);
}

int
fr_numpy_pack(fr_dtype d, void *bytes, PyObject *value)
{
    if (PyArray_Check(value) && !flush())
        return FR_VALUE_ERROR;
    memset(bytes, 0, 16);
    return PyArray_Pack(fr_numpy_descrs[d], bytes, value) < 0 ? FR_VALUE_ERROR : FR_VALUE_OK;
}

PyObject *
fr_numpy_scalar_from(fr_dtype d, const void *element)
{
    return PyArray_Scalar((void *)element, fr_numpy_descrs[d], NULL);
}

PyTypeObject *
fr_numpy_scalar_type(fr_dtype d)
{
    return fr_numpy_descrs[d]->typeobj;
}

PyTypeObject *
fr_numpy_array_type(void)
{
    return &PyArray_Type;
}

/* ---- names */

PyObject *
fr_numpy_attr(const char *name)
{
    PyObject   *found = PyDict_GetItemString(attrs, name), *next, *part;
    const char *dot;

    if (found)
        return Py_NewRef(found);
    found = Py_NewRef(numpy);
    for (const char *p = name; p; p = dot ? dot + 1 : NULL) {
        dot = strchr(p, '.');
        part = PyUnicode_FromStringAndSize(p, dot ? dot - p : (Py_ssize_t)strlen(p));
        next = part ? PyObject_GetAttr(found, part) : NULL;
        Py_XDECREF(part);
        Py_DECREF(found);
        if (!(found = next))
            return NULL;
    }
    if (PyDict_SetItemString(attrs, name, found) < 0) {
        Py_DECREF(found);
        return NULL;
    }
    return found;
}
