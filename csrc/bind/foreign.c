/* bind/foreign.c -- methods of other packages' objects, called with tensors.
 *
 * What is written in C against NumPy's arrays looks into their memory or asks for their type, and NumPy's protocols do
 * not reach it: rng.shuffle(x) exchanges rows that are views of each other. So the copy of an accelerated function
 * (python/frit/_rewrite.py) loads methods with names that arrays do not have through a Method, `Method("shuffle")[rng]`,
 * and where that is such a function, tensors among its arguments become arrays over their own memory (hand.c). */
#include "bind/bind.h"

#include <string.h>

#include <structmember.h>

/* ---- a function that gets arrays */

struct foreign {
    PyObject_HEAD
    PyObject      *function;
    vectorcallfunc vectorcall;
};

static PyTypeObject *foreign_type, *method_type;

static PyObject *
foreign_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject  *function = ((struct foreign *)self)->function;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_all = n + (names ? PyTuple_GET_SIZE(names) : 0);

    for (Py_ssize_t i = 0; i < n_all; i++)
        if (fr_creation_holds_tensor(args[i], 0))
            return fr_hand_call(function, args, n, names);
    return PyObject_Vectorcall(function, args, (size_t)n, names);
}

/* Both types hold one reference, behind the head. */
static int
one_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct foreign *)self)->function);
    return 0;
}

static void
one_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_CLEAR(((struct foreign *)self)->function);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
foreign_getattr(PyObject *self, PyObject *name)
{
    return PyObject_GetAttr(((struct foreign *)self)->function, name);
}

static PyMemberDef foreign_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct foreign, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot foreign_slots[] = {
    {Py_tp_call, PyVectorcall_Call}, {Py_tp_getattro, foreign_getattr}, {Py_tp_traverse, one_traverse},
    {Py_tp_dealloc, one_dealloc},    {Py_tp_members, foreign_members},  {0, NULL},
};

static PyType_Spec foreign_spec = {
    "frit._core._Foreign", sizeof(struct foreign), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    foreign_slots};

static PyObject *
with_arrays(PyObject *function)
{
    struct foreign *f = PyObject_GC_New(struct foreign, foreign_type);

    if (!f)
        return NULL;
    f->function = Py_NewRef(function);
    f->vectorcall = foreign_vectorcall;
    PyObject_GC_Track((PyObject *)f);
    return (PyObject *)f;
}

/* ---- which functions these are */

/* The object of a method that is written in C; NULL: it is another callable. */
static PyObject *
self_of(PyObject *value)
{
    if (PyMethod_Check(value))
        return PyFunction_Check(PyMethod_GET_FUNCTION(value)) ? NULL : PyMethod_GET_SELF(value);
    return PyCFunction_Check(value) ? PyCFunction_GET_SELF(value) : NULL;
}

/* Whether a class belongs to neither Python nor frit; of NumPy's those with the protocols are no strangers. */
static bool
is_strange(PyTypeObject *type)
{
    static PyObject *known; /* names of the modules that come with Python */
    PyObject        *module = PyObject_GetAttrString((PyObject *)type, "__module__"), *root = NULL;
    const char      *text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool             yes = false;

    if (!known)
        known = Py_XNewRef(PySys_GetObject("stdlib_module_names"));
    if (text && known && strcmp(text, "numpy") != 0) {
        root = PyUnicode_FromStringAndSize(text, (Py_ssize_t)strcspn(text, "."));
        yes = root && PyUnicode_CompareWithASCIIString(root, "frit") != 0 &&
              PyUnicode_CompareWithASCIIString(root, "__main__") != 0 && PySequence_Contains(known, root) == 0;
    }
    PyErr_Clear();
    Py_XDECREF(root);
    Py_XDECREF(module);
    return yes;
}

static PyObject *
method_of(PyObject *self, PyObject *o)
{
    PyObject *value = PyObject_GetAttr(o, ((struct foreign *)self)->function), *of = value ? self_of(value) : NULL;

    if (!of || PyModule_Check(of) || !is_strange(Py_TYPE(of)))
        return value;
    Py_SETREF(value, with_arrays(value));
    return value;
}

static PyObject *
method_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct foreign *m;
    PyObject       *name;

    if ((kwargs && PyDict_GET_SIZE(kwargs) > 0) || !PyArg_ParseTuple(args, "U:Method", &name)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "Method() takes no keyword arguments");
        return NULL;
    }
    if ((m = (struct foreign *)type->tp_alloc(type, 0)))
        m->function = Py_NewRef(name);
    return (PyObject *)m;
}

static PyType_Slot method_slots[] = {
    {Py_tp_doc, "Method(name)[object] is object.name, which gets arrays for tensors if it is another package's."},
    {Py_tp_new, method_new},         {Py_tp_traverse, one_traverse}, {Py_tp_dealloc, one_dealloc},
    {Py_mp_subscript, method_of},    {0, NULL},
};

static PyType_Spec method_spec = {"frit._core._Method", sizeof(struct foreign), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, method_slots};

int
fr_foreign_init(PyObject *module)
{
    foreign_type = (PyTypeObject *)PyType_FromSpec(&foreign_spec);
    method_type = (PyTypeObject *)PyType_FromSpec(&method_spec);
    if (!foreign_type || !method_type)
        return -1;
    return PyModule_AddObjectRef(module, "_Method", (PyObject *)method_type);
}
