/* bind/accelerate/method.c -- methods of other packages' objects, called with tensors.
 *
 * What is written in C against NumPy's arrays looks into their memory or asks for their type, and NumPy's protocols do
 * not reach it: rng.shuffle(x) exchanges rows that are views of each other. So the copy of an accelerated function
 * (python/frit/_rewrite.py) loads methods with names that arrays do not have through a Method, `Method("shuffle")[rng]`,
 * and where that is such a function, it gets real arrays (outside.c).
 *
 * In the second copy of code that crosses, where arrays come as they are, `Receiver("shuffle")[rng]` is rng, so that Python
 * loads the method as it does otherwise; where that is not what is to be called, it is an object that has what is. */
#include "bind/accelerate/crossing.h"

#include "bind/numpy/npy.h"

struct method {
    PyObject_HEAD
    PyObject     *name;
    bool          rounds;  /* a method of arrays that rounds otherwise than NumPy's */
    PyTypeObject *of;      /* a type, with its version, of which it is known that the method is its functions' */
    unsigned      version;
};

/* What gives `value` for any attribute. */
struct bound {
    PyObject_HEAD
    PyObject *value;
};
static PyTypeObject *bound_type;

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
    const struct method *m = (struct method *)self;
    PyObject            *value, *of;

    if (fr_membrane_is_active || fr_membrane_is_plain)
        return fr_crossing_method(o, m->name, m->rounds);
    value = PyObject_GetAttr(o, m->name);
    of = value ? self_of(value) : NULL;
    if (of && !PyModule_Check(of) && fr_outside_is_strange(Py_TYPE(of)))
        Py_SETREF(value, fr_outside_of(value));
    return value;
}

/* ---- the object of a method that the next instruction loads */

/* Whether the type's own functions are what it finds, which have their code by now. */
static bool
is_known(struct method *m, PyTypeObject *type)
{
    PyObject *found;

    if (FR_LIKELY(m->of == type && m->version == type->tp_version_tag && m->version))
        return true;
    if (fr_whose_class(type) < 0)
        return false;
    found = _PyType_Lookup(type, m->name);
    if (!found || !(PyFunction_Check(found) ? fr_whose_function(found) >= 0 : Py_IS_TYPE(found, &PyMethodDescr_Type)))
        return false;
    m->of = type; /* told apart from what comes later in its place by the version */
    m->version = type->tp_version_tag;
    return true;
}

static PyObject *
receiver_of(PyObject *self, PyObject *o)
{
    struct method *m = (struct method *)self;
    PyTypeObject  *type = Py_TYPE(o);
    struct bound  *b;
    PyObject      *value;

    if (!fr_membrane_is_active) {
        if (type == &PyArray_Type ? !m->rounds : !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type != &PyModule_Type)
            return Py_NewRef(o);
        if (!fr_membrane_is_plain || is_known(m, type))
            return Py_NewRef(o);
        if (PyErr_Occurred())
            return NULL;
    }
    if (!(value = method_of(self, o)))
        return NULL;
    if (!(b = (struct bound *)bound_type->tp_alloc(bound_type, 0))) {
        Py_DECREF(value);
        return NULL;
    }
    b->value = value;
    return (PyObject *)b;
}

static PyObject *
bound_getattr(PyObject *self, PyObject *name)
{
    (void)name;
    return Py_NewRef(((struct bound *)self)->value);
}

static int
bound_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct bound *)self)->value);
    return 0;
}

static void
bound_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct bound *)self)->value);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct method *m;
    PyObject      *name;
    int            rounds;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "a name is all that is taken");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "U", &name) || (rounds = fr_called_rounds(name)) < 0)
        return NULL;
    if ((m = (struct method *)type->tp_alloc(type, 0))) {
        m->name = Py_NewRef(name);
        PyUnicode_InternInPlace(&m->name);
        m->rounds = rounds;
    }
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

static PyType_Slot method_slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_doc, "_Method(name)[object] is object.name, which gets arrays for tensors if it is another package's."},
    {Py_tp_new, method_new},
    {Py_tp_dealloc, method_dealloc},
    {Py_mp_subscript, method_of},
    {0, NULL},
};

static PyType_Slot receiver_slots[] = {
    {Py_tp_methods, methods},
    {Py_tp_doc, "_Receiver(name)[object] is object, or in a plain call what has the method that is called for it."},
    {Py_tp_new, method_new},
    {Py_tp_dealloc, method_dealloc},
    {Py_mp_subscript, receiver_of},
    {0, NULL},
};

static PyType_Slot bound_slots[] = {
    {Py_tp_getattro, bound_getattr},
    {Py_tp_traverse, bound_traverse},
    {Py_tp_dealloc, bound_dealloc},
    {0, NULL},
};

static PyType_Spec method_spec = {"frit._core._Method", sizeof(struct method), 0, Py_TPFLAGS_DEFAULT, method_slots},
                   receiver_spec = {"frit._core._Receiver", sizeof(struct method), 0, Py_TPFLAGS_DEFAULT, receiver_slots},
                   bound_spec = {"frit._core._Bound", sizeof(struct bound), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, bound_slots};

int
fr_method_init(PyObject *module)
{
    PyObject *method = PyType_FromSpec(&method_spec), *receiver = method ? PyType_FromSpec(&receiver_spec) : NULL;
    int       st = receiver ? PyModule_AddObjectRef(module, "_Method", method) : -1;

    st = st == 0 ? PyModule_AddObjectRef(module, "_Receiver", receiver) : -1;
    Py_XDECREF(method);
    Py_XDECREF(receiver);
    bound_type = (PyTypeObject *)PyType_FromSpec(&bound_spec);
    return bound_type ? st : -1;
}
