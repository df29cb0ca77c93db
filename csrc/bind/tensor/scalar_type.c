/* bind/tensor/scalar_type.c -- the type of what stands for a NumPy scalar: an element, or a reduction over everything.
 *
 * It is a Tensor whose value is not known yet. What Python can ask of a number it answers as NumPy's would: it has no
 * length, is no iterable, rounds to a number, repeats a list. What Tensor has no name for, the number itself is asked. */
#include <string.h>

#include "bind/tensor/tensor.h"

static PyTypeObject *
class_of(PyObject *self)
{
    return fr_numpy_scalar_type(fr_of(self)->dtype);
}

/* ---- attributes */

/* Special names by which NumPy and others find what a tensor can do, which numbers need not have. */
static bool
is_of_arrays(const char *name)
{
    return !strncmp(name, "__array_", 8) || !strncmp(name, "__dlpack_", 9);
}

static bool
shows_memory(const char *name)
{
    return !strcmp(name, "__array_struct__") || !strcmp(name, "__array_interface__");
}

static PyObject *
getattro(PyObject *self, PyObject *name)
{
    const char *s = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    PyObject   *theirs = (PyObject *)class_of(self), *type, *value, *trace, *o, *descr;

    if (s && !strncmp(s, "__", 2) &&
        (is_of_arrays(s) ? shows_memory(s) && fr_scalar_is_stored(self) : !PyObject_HasAttr(theirs, name)))
        return PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", class_of(self)->tp_name, name);
    descr = _PyType_Lookup(Py_TYPE(self), name);
    if (descr && (Py_IS_TYPE(descr, &PyMethodDescr_Type) || Py_IS_TYPE(descr, &PyWrapperDescr_Type)))
        return PyMethod_New(descr, self); /* it asks for the type when it is called: the object may become a number (become.c) */
    o = PyObject_GenericGetAttr(self, name);
    if (o || !s || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return o;
    PyErr_Fetch(&type, &value, &trace);
    if (!PyObject_HasAttr(theirs, name) || is_of_arrays(s)) {
        PyErr_Restore(type, value, trace);
        return NULL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    if ((value = fr_scalar_value(self))) {
        o = PyObject_GetAttr(value, name);
        Py_DECREF(value);
    }
    return o;
}

/* ---- protocols that are looked up in the type */

/* The number's own method. */
static PyObject *
by_value(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t n)
{
    PyObject *value, *method, *result;

    if (!PyObject_HasAttrString((PyObject *)class_of(self), name))
        return PyErr_Format(PyExc_TypeError, "type %s doesn't define %s method", class_of(self)->tp_name, name);
    if (!(value = fr_scalar_value(self)))
        return NULL;
    method = PyObject_GetAttrString(value, name);
    Py_DECREF(value);
    result = method ? PyObject_Vectorcall(method, args, (size_t)n, NULL) : NULL;
    Py_XDECREF(method);
    return result;
}

static PyObject *
scalar_round(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return by_value(self, "__round__", args, n);
}

static PyObject *
scalar_trunc(PyObject *self, PyObject *unused)
{
    (void)unused;
    return by_value(self, "__trunc__", NULL, 0);
}

static PyObject *
scalar_subscript(PyObject *self, PyObject *key)
{
    PyObject *o = fr_index_get(self, key);

    if (!o && PyErr_ExceptionMatches(PyExc_IndexError))
        PyErr_SetString(PyExc_IndexError, "invalid index to scalar variable.");
    return o;
}

static PyObject *
text_of(PyObject *self, reprfunc of_value)
{
    PyObject *text = fr_text_without_data(self), *value;

    if (text || PyErr_Occurred() || !(value = fr_scalar_value(self)))
        return text;
    text = of_value(value);
    Py_DECREF(value);
    return text;
}

static PyObject *
scalar_repr(PyObject *self)
{
    return text_of(self, PyObject_Repr);
}

static PyObject *
scalar_str(PyObject *self)
{
    return text_of(self, PyObject_Str);
}

static Py_hash_t
scalar_hash(PyObject *self)
{
    PyObject *value = fr_scalar_value(self);
    Py_hash_t h = value ? PyObject_Hash(value) : -1;

    Py_XDECREF(value);
    return h;
}

static PyMethodDef methods[] = {
    {"__round__", (PyCFunction)(void (*)(void))scalar_round, METH_FASTCALL, "round() of the number."},
    {"__trunc__", scalar_trunc, METH_NOARGS, "math.trunc() of the number."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "A Tensor that stands for a NumPy scalar."},
    {Py_tp_dealloc, fr_type_dealloc},
    {Py_tp_getattro, getattro},
    {Py_tp_repr, scalar_repr},
    {Py_tp_str, scalar_str},
    {Py_tp_hash, scalar_hash},
    {Py_tp_richcompare, fr_number_richcompare},
    {Py_mp_subscript, scalar_subscript},
    {Py_mp_ass_subscript, fr_index_set},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "frit.Number",
    .basicsize = sizeof(struct fr_tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

int
fr_scalar_type_init(PyObject *module)
{
    /* What collections.abc asks for by name, and numbers have not. */
    static const char *const absent[] = {"__len__", "__iter__", "__contains__"};

    fr_tensor_type->tp_flags |= Py_TPFLAGS_BASETYPE; /* for this one type */
    fr_number_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, (PyObject *)fr_tensor_type);
    fr_tensor_type->tp_flags &= ~Py_TPFLAGS_BASETYPE;
    if (!fr_number_type)
        return -1;
    fr_number_type->tp_iter = NULL;
    fr_number_type->tp_weaklistoffset = 0; /* numbers take no weak references */
    fr_number_type->tp_as_sequence->sq_length = fr_number_type->tp_as_mapping->mp_length = NULL;
    fr_number_type->tp_as_sequence->sq_item = NULL;
    fr_number_type->tp_as_sequence->sq_contains = NULL;
    for (size_t i = 0; i < FR_LEN(absent); i++)
        if (PyDict_SetItemString(fr_number_type->tp_dict, absent[i], Py_None) < 0)
            return -1;
    PyType_Modified(fr_number_type);
    return 0;
}
