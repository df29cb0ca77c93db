/* bind/hot/hot_box.c -- hot.h: what objects are to translated loops, and their values as objects. */
#include "bind/hot/hot_int.h"

/* ---- what objects are to the translation */

fr_dtype
fr_hot_number_dtype(PyTypeObject *type)
{
    const struct {
        PyTypeObject *type;
        fr_dtype      dtype;
    } types[] = {{&PyDoubleArrType_Type, FR_F64}, {&PyLongArrType_Type, FR_I64}, {&PyBoolArrType_Type, FR_BOOL},
                 {&PyFloatArrType_Type, FR_F32}, {&PyIntArrType_Type, FR_I32}, {&PyByteArrType_Type, FR_I8},
                 {&PyUByteArrType_Type, FR_U8}, {&PyShortArrType_Type, FR_I16}, {&PyUShortArrType_Type, FR_U16},
                 {&PyUIntArrType_Type, FR_U32}};

    for (size_t k = 0; k < FR_LEN(types); k++)
        if (type == types[k].type)
            return types[k].dtype;
    return FR_N_DTYPES;
}

static bool
type_of_number(PyObject *o, struct fr_hot_value *v)
{
    fr_dtype d;

    if (PyFloat_CheckExact(o) || PyBool_Check(o)) {
        *v = number(FR_HOT_PYTHON, PyFloat_CheckExact(o) ? FR_F64 : FR_BOOL, 0);
        return true;
    }
    if (PyLong_CheckExact(o)) {
        int     over;
        int64_t i = PyLong_AsLongLongAndOverflow(o, &over);

        *v = number(FR_HOT_PYTHON, FR_I64, 0);
        return !over && (i != -1 || !PyErr_Occurred());
    }
    d = fr_hot_number_dtype(Py_TYPE(o));
    *v = number(FR_HOT_NUMPY, d, 0);
    return d != FR_N_DTYPES;
}

/* Whether elements of a dtype are read and written. */
bool
fr_hot_is_element(fr_dtype d)
{
    return d < FR_N_DTYPES && d != FR_U64 && d != FR_F16 && !fr_dtype_is_complex(d);
}

/* Its items seem to be what its first is: each is looked at when it is read. */
static void
type_of_list(PyObject *o, struct fr_hot_value *v)
{
    struct fr_hot_value item;

    *v = (struct fr_hot_value){.kind = FR_HOT_LIST};
    for (int k = 0; k < FR_HOT_PARTS && PyList_GET_SIZE(o) > 0; k++) {
        o = PyList_GET_ITEM(o, 0);
        if (PyList_CheckExact(o))
            item = (struct fr_hot_value){.kind = FR_HOT_LIST};
        else
            fr_hot_type(o, &item);
        if (item.kind == FR_HOT_OPAQUE)
            break;
        v->part[k].kind = item.kind;
        v->part[k].dtype = item.dtype;
        v->part[k].ndim = item.ndim;
        v->n_parts++;
        if (item.kind != FR_HOT_LIST)
            break;
    }
}

void
fr_hot_type(PyObject *o, struct fr_hot_value *v)
{
    *v = (struct fr_hot_value){.kind = FR_HOT_OPAQUE};
    if (!o) {
        v->kind = FR_HOT_UNBOUND;
    } else if (o == Py_None) {
        v->kind = FR_HOT_NONE;
    } else if (PyArray_CheckExact(o)) {
        PyArrayObject *a = fr_array(o);
        fr_dtype       d = fr_numpy_dtype_of(PyArray_DESCR(a));

        if (fr_hot_is_element(d) && PyArray_NDIM(a) >= 1 && PyArray_NDIM(a) <= FR_HOT_AXES && PyArray_ISALIGNED(a))
            *v = (struct fr_hot_value){.kind = FR_HOT_ARRAY, .dtype = (uint8_t)d, .ndim = (uint8_t)PyArray_NDIM(a)};
    } else if (PyList_CheckExact(o)) {
        type_of_list(o, v);
    } else if (!type_of_number(o, v)) {
        *v = (struct fr_hot_value){.kind = FR_HOT_OPAQUE};
    }
}

fr_dtype
fr_hot_dtype_of(PyObject *type)
{
    fr_dtype d;

    if (type == (PyObject *)&PyFloat_Type)
        return FR_F64;
    if (type == (PyObject *)&PyLong_Type)
        return FR_I64;
    if (type == (PyObject *)&PyBool_Type)
        return FR_BOOL;
    d = fr_hot_number_dtype((PyTypeObject *)type);
    return d;
}

/* ---- what variables have */

PyObject *
fr_hot_global(const struct fr_hot_source *source, PyObject *name)
{
    PyObject *v = PyDict_GetItemWithError(source->globals, name);

    if (!v && !PyErr_Occurred() && PyDict_Check(source->builtins))
        v = PyDict_GetItemWithError(source->builtins, name);
    PyErr_Clear();
    return v;
}

PyObject *
fr_hot_global_of(const struct fr_hot_source *source, PyObject *module, PyObject *name)
{
    PyObject *v = PyDict_GetItemWithError(PyModule_GetDict(module), name);

    if (!v && !PyErr_Occurred() && PyDict_Check(source->builtins))
        v = PyDict_GetItemWithError(source->builtins, name);
    PyErr_Clear();
    return v;
}

/* Whether an attribute is read and written without anybody's code: a new reference; NULL: it is not, or is not there. */
static PyObject *
plain_attribute(PyObject *o, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject     *found = _PyType_Lookup(type, name), *v;

    if (type->tp_getattro != PyObject_GenericGetAttr || type->tp_setattro != PyObject_GenericSetAttr ||
        (found && !Py_IS_TYPE(found, &PyMemberDescr_Type)))
        return NULL;
    v = PyObject_GenericGetAttr(o, name);
    PyErr_Clear();
    return v;
}

PyObject *
fr_hot_object(const struct fr_hot_program *p, const struct fr_hot_source *source, int var)
{
    PyObject *o, *v;

    if (p->is_global[var])
        return Py_XNewRef(fr_hot_global(source, p->name[var]));
    if (p->is_stored_global[var])
        return Py_XNewRef(PyDict_GetItem(source->globals, p->name[var]));
    if (!p->owner[var]) {
        v = PyObject_GetItem(source->locals, p->name[var]);
        PyErr_Clear();
        return v;
    }
    o = fr_hot_object(p, source, p->owner[var] - 1);
    v = o ? plain_attribute(o, p->name[var]) : NULL;
    Py_XDECREF(o);
    return v;
}

PyObject *
fr_hot_method(PyObject *o, PyObject *name)
{
    PyObject *found = o ? _PyType_Lookup(Py_TYPE(o), name) : NULL, *bound;
    bool      is;

    if (!found || !PyFunction_Check(found) || Py_TYPE(o)->tp_getattro != PyObject_GenericGetAttr)
        return NULL;
    bound = PyObject_GenericGetAttr(o, name); /* (the object's own attribute comes first) */
    is = bound && PyMethod_Check(bound) && PyMethod_GET_FUNCTION(bound) == found;
    PyErr_Clear();
    Py_XDECREF(bound);
    return is ? found : NULL;
}

/* ---- values as objects */

void
fr_hot_read_view(PyObject *o, struct fr_hot_view *v)
{
    PyArrayObject *a = fr_array(o);

    *v = (struct fr_hot_view){.data = PyArray_DATA(a), .array = o, .writable = PyArray_ISWRITEABLE(a)};
    for (int k = 0; k < PyArray_NDIM(a); k++) {
        v->dim[k] = PyArray_DIM(a, k);
        v->stride[k] = PyArray_STRIDE(a, k);
    }
}

void
fr_hot_read_any(PyObject *o, struct fr_hot_view *v)
{
    if (PyArray_Check(o))
        fr_hot_read_view(o, v);
    else
        *v = (struct fr_hot_view){.array = o};
}

bool
fr_hot_set_part(struct fr_hot_value *walk, int k, const struct fr_hot_value *over)
{
    if (over->kind == FR_HOT_LIST && over->n_parts > 0 && over->part[0].kind != FR_HOT_LIST) {
        walk->part[k].kind = over->part[0].kind;
        walk->part[k].dtype = over->part[0].dtype;
        walk->part[k].ndim = over->part[0].ndim;
        walk->lists |= (uint8_t)(1 << k);
        return true;
    }
    walk->part[k].kind = FR_HOT_ARRAY;
    walk->part[k].dtype = over->dtype;
    walk->part[k].ndim = over->ndim;
    return over->kind == FR_HOT_ARRAY;
}

void
fr_hot_read_value(PyObject *o, const struct fr_hot_value *type, union fr_hot_cell *cell, struct fr_hot_view *view)
{
    if (type->kind == FR_HOT_ARRAY) {
        fr_hot_read_view(o, view);
    } else if (type->kind == FR_HOT_LIST) {
        fr_hot_read_any(o, view);
    } else if (type->kind == FR_HOT_PYTHON) {
        if (type->dtype == FR_F64)
            cell->f = PyFloat_AS_DOUBLE(o);
        else
            cell->i = PyLong_AsLongLong(o);
    } else if (type->kind == FR_HOT_NUMPY) {
        switch (type->dtype) {
        case FR_F64: cell->f = PyArrayScalar_VAL(o, Double); break;
        case FR_F32: cell->f = PyArrayScalar_VAL(o, Float); break;
        case FR_I64: cell->i = PyArrayScalar_VAL(o, Long); break;
        case FR_I32: cell->i = PyArrayScalar_VAL(o, Int); break;
        case FR_I16: cell->i = PyArrayScalar_VAL(o, Short); break;
        case FR_I8: cell->i = PyArrayScalar_VAL(o, Byte); break;
        case FR_U32: cell->i = PyArrayScalar_VAL(o, UInt); break;
        case FR_U16: cell->i = PyArrayScalar_VAL(o, UShort); break;
        case FR_U8: cell->i = PyArrayScalar_VAL(o, UByte); break;
        default: cell->i = PyArrayScalar_VAL(o, Bool); break;
        }
    }
}

/* A window as an array: a new one over the same memory. */
static PyObject *
window_of(const struct fr_hot_view *v, const struct fr_hot_value *type)
{
    npy_intp  dims[FR_HOT_AXES], strides[FR_HOT_AXES];
    PyObject *array;

    if (!v->is_window)
        return Py_NewRef(v->array);
    for (int k = 0; k < type->ndim; k++) {
        dims[k] = v->dim[k];
        strides[k] = v->stride[k];
    }
    array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(fr_numpy_descrs[type->dtype]), type->ndim, dims, strides, v->data,
                                 v->writable ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (array && PyArray_SetBaseObject(fr_array(array), Py_NewRef(v->array)) < 0)
        Py_CLEAR(array);
    return array;
}

PyObject *
fr_hot_boxed(const union fr_hot_cell *cell, const struct fr_hot_view *view, const struct fr_hot_value *type)
{
    union {
        double f;
        float  f32;
    } number = {.f = cell ? cell->f : 0};

    switch (type->kind) {
    case FR_HOT_NONE: return Py_NewRef(Py_None);
    case FR_HOT_ARRAY: return window_of(view, type);
    case FR_HOT_LIST: return Py_NewRef(view->array);
    case FR_HOT_PYTHON:
        return type->dtype == FR_F64 ? PyFloat_FromDouble(cell->f) : type->dtype == FR_BOOL ? PyBool_FromLong(cell->i != 0)
                                                                                            : PyLong_FromLongLong(cell->i);
    default: /* (integers lie first in their cell: the machine is little-endian) */
        if (type->dtype == FR_BOOL)
            return Py_NewRef(cell->i ? PyArrayScalar_True : PyArrayScalar_False);
        if (type->dtype == FR_F32)
            number.f32 = (float)cell->f;
        return fr_numpy_scalar_from(type->dtype, &number);
    }
}
