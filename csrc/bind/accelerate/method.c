/* bind/accelerate/method.c -- methods of other packages' objects, called with tensors.
 *
 * What is written in C against NumPy's arrays looks into their memory or asks for their type, and NumPy's protocols do
 * not reach it: rng.shuffle(x) exchanges rows that are views of each other. So the copy of an accelerated function
 * (python/frit/_rewrite.py) loads methods with names that arrays do not have through a Method, `Method("shuffle")[rng]`,
 * and where that is such a function, it gets real arrays (outside.c). */
#include "bind/accelerate/membrane.h"

struct method {
    PyObject_HEAD
    PyObject *name;
};

/* The object of a method that is written in C; NULL: it is another callable. */
static PyObject *
self_of(PyObject *value)
{
    if (PyMethod_Check(value))
        return PyFunction_Check(PyMethod_GET_FUNCTION(value)) ? NULL : PyMethod_GET_SELF(value);
    return PyCFunction_Check(value) ? PyCFunction_GET_SELF(value) : NULL;
}

static PyObject *
method_of(PyObject *self, PyObject *o)
{
    PyObject *value, *of;

    if (fr_membrane_is_active || fr_membrane_is_plain)
        return fr_crossing_method(o, ((struct method *)self)->name);
    value = PyObject_GetAttr(o, ((struct method *)self)->name);
    of = value ? self_of(value) : NULL;
    if (of && !PyModule_Check(of) && fr_outside_is_strange(Py_TYPE(of)))
        Py_SETREF(value, fr_outside_of(value));
    return value;
}

static PyObject *
method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct method *m;
    PyObject      *name;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "_Method() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "U:_Method", &name))
        return NULL;
    if ((m = (struct method *)type->tp_alloc(type, 0)))
        m->name = Py_NewRef(name);
    return (PyObject *)m;
}

static PyObject *
method_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(O)", Py_TYPE(self), ((struct method *)self)->name);
}

static void
method_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct method *)self)->name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {{"__reduce__", method_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_doc, "_Method(name)[object] is object.name, which gets arrays for tensors if it is another package's."},
    {Py_tp_new, method_new},
    {Py_tp_dealloc, method_dealloc},
    {Py_mp_subscript, method_of},
    {0, NULL},
};

static PyType_Spec spec = {"frit._core._Method", sizeof(struct method), 0, Py_TPFLAGS_DEFAULT, slots};

int
fr_method_init(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&spec);
    int       st = type ? PyModule_AddObjectRef(module, "_Method", type) : -1;

    Py_XDECREF(type);
    return st;
}
