/* bind/scalar.c -- the type of what stands for a NumPy scalar: an element, or a reduction over everything.
 *
 * It is a Tensor whose value is not known yet. What Python can ask of a number it answers as NumPy's would: it has no
 * length, is no iterable, rounds to a number, repeats a list. What Tensor has no name for, the number itself is asked.
 *
 * Where objects of others are at hand that are asked for their parts, pandas' above all, numbers go to code that nothing
 * of ours stands before: series.iloc[x.argmax()]. There, numbers are computed at once and are NumPy's. */
#include <string.h>

#include "bind/bind.h"

static PyObject *
value_of(PyObject *self)
{
    fr_info_sync(FR_SYNC_number, fr_of(self));
    return fr_numpy_scalar_of(self);
}

static PyTypeObject *
class_of(PyObject *self)
{
    return fr_numpy_scalar_type(fr_of(self)->dtype);
}

PyObject *
fr_scalar_class(PyObject *tensor)
{
    return Py_NewRef(fr_object(tensor)->scalar ? class_of(tensor) : fr_numpy_array_type());
}

bool
fr_scalar_repeats(PyObject *tensor, PyObject *sequence)
{
    const PyTypeObject *type = Py_TYPE(sequence);

    return fr_object(tensor)->scalar && type->tp_as_sequence && type->tp_as_sequence->sq_repeat &&
           !(type->tp_as_number && type->tp_as_number->nb_multiply) && !fr_numpy_is_scalar(sequence);
}

/* ---- real numbers */

static FR_THREAD_LOCAL bool at_once;
int fr_scalar_n_at_once;

bool
fr_scalar_set_at_once(bool on)
{
    bool before = at_once;

    fr_scalar_n_at_once += on - before;
    at_once = on;
    return before;
}

PyObject *
fr_scalar_real(PyObject *o)
{
    PyObject *number;

    if (!o || !at_once || !fr_is_tensor(o) || !fr_object(o)->scalar)
        return o;
    number = value_of(o);
    Py_DECREF(o);
    return number;
}

static PyObject *
numbers_at_once(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    if (fr_call_depth) /* whose end ends it */
        fr_scalar_at_once(true);
    Py_RETURN_NONE;
}

bool
fr_scalar_is_stored(PyObject *tensor)
{
    return fr_object(tensor)->scalar && fr_site_stores_plainly();
}

/* What NumPy stores for it into an array of this dtype, if it is in range. */
PyObject *
fr_scalar_as_stored(PyObject *tensor, PyObject *dtype)
{
    PyObject *value = value_of(tensor), *empty = value ? fr_numpy_attr("empty") : NULL, *shape = PyTuple_New(0);
    PyObject *array = empty && shape ? PyObject_CallFunctionObjArgs(empty, shape, dtype, NULL) : NULL;

    if (array && PyObject_SetItem(array, Py_Ellipsis, value) < 0)
        Py_CLEAR(array);
    Py_XDECREF(shape);
    Py_XDECREF(empty);
    Py_XDECREF(value);
    return array;
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
    if ((value = value_of(self))) {
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
    if (!(value = value_of(self)))
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
scalar_repr(PyObject *self)
{
    PyObject *value = value_of(self), *text = value ? PyObject_Repr(value) : NULL;

    Py_XDECREF(value);
    return text;
}

static Py_hash_t
scalar_hash(PyObject *self)
{
    PyObject *value = value_of(self);
    Py_hash_t h = value ? PyObject_Hash(value) : -1;

    Py_XDECREF(value);
    return h;
}

/* type(x) in an accelerated function: of the array or number that a tensor stands for. */
static PyObject *
type_of(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    (void)module;
    if (n == 1)
        return fr_is_tensor(args[0]) ? fr_scalar_class(args[0]) : Py_NewRef((PyObject *)Py_TYPE(args[0]));
    return PyObject_Vectorcall((PyObject *)&PyType_Type, args, (size_t)n, NULL);
}

PyMethodDef fr_scalar_functions[] = {
    {"numbers_at_once", numbers_at_once, METH_NOARGS,
     "numbers_at_once()\n--\n\nNumbers are NumPy's for the rest of the accelerated call."},
    {"type_of", (PyCFunction)(void (*)(void))type_of, METH_FASTCALL,
     "type_of(x, /)\n--\n\ntype(x), or that of what a tensor stands for."},
    {NULL, NULL, 0, NULL},
};

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
fr_scalar_init(PyObject *module)
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
