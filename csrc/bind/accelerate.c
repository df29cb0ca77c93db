/* bind/accelerate.c -- the type of accelerated functions, as their callers see it. A call goes the short way
 * (accelerate_call.c) or, by python/frit/accelerate.py, the long one. */
#include "bind/bind.h"

#include <structmember.h>

struct accelerated {
    PyObject_HEAD
    PyObject *dict, *weak;
    PyObject *state; /* accelerate.py's: call(args, kwargs) is the long way */
    struct fr_callee callee; /* for the short way; without a call: always the long one */
    vectorcallfunc vectorcall;
};

static PyTypeObject *accelerated_type;

/* What is noted of a call that goes the long way: accelerate.py begins and keeps it, if it comes to that. */
struct noted {
    struct fr_watch *watch;
    PyObject        *accelerated;
};
#define NOTED "frit.accelerate.noted"

static void
free_noted(PyObject *capsule)
{
    struct noted *n = PyCapsule_GetPointer(capsule, NOTED);

    fr_record_end(n->watch);
    Py_DECREF(n->accelerated);
    PyMem_Free(n);
}

/* A capsule, or None where nothing is to be noted. */
static PyObject *
noted_call(struct accelerated *a, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
    struct fr_watch *w = a->callee.call ? fr_accelerate_watch(&a->callee, args, n_args, names) : NULL;
    struct noted    *n = w ? PyMem_Malloc(sizeof *n) : NULL;
    PyObject        *capsule;

    if (!n) {
        fr_record_end(w);
        Py_RETURN_NONE;
    }
    *n = (struct noted){w, Py_NewRef((PyObject *)a)};
    if (!(capsule = PyCapsule_New(n, NOTED, free_noted))) {
        Py_DECREF(n->accelerated);
            fr_record_end(w);
        PyMem_Free(n);
    }
    return capsule;
}

static PyObject *
begin_noted(PyObject *module, PyObject *capsule)
{
    struct noted *n = PyCapsule_GetPointer(capsule, NOTED);

    (void)module;
    if (!n)
        return NULL;
    fr_record_begin(n->watch);
    Py_RETURN_NONE;
}

/* _keep_noted(capsule, [(array, tensor), ...], result) */
static PyObject *
keep_noted(PyObject *module, PyObject *const *args, Py_ssize_t n_args)
{
    struct noted       *n = n_args == 3 ? PyCapsule_GetPointer(args[0], NOTED) : NULL;
    struct accelerated *a;
    struct fr_loan     *loan;
    Py_ssize_t          n_loans;

    (void)module;
    if (!n || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "_keep_noted() takes what call() was given, a list of pairs and a result");
        return NULL;
    }
    a = (struct accelerated *)n->accelerated;
    n_loans = PyList_GET_SIZE(args[1]);
    if (!(loan = PyMem_Malloc(((size_t)n_loans + 1) * sizeof *loan)))
        Py_RETURN_NONE;
    for (Py_ssize_t i = 0; i < n_loans; i++) {
        PyObject *pair = PyList_GET_ITEM(args[1], i);
        loan[i] = (struct fr_loan){PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1)};
    }
    fr_record_keep(n->watch, &a->callee, loan, (int)n_loans, args[2]);
    PyMem_Free(loan);
    Py_RETURN_NONE;
}

PyMethodDef fr_accelerate_noted_methods[] = {
    {"_begin_noted", begin_noted, METH_O,
     "_begin_noted(noted, /)\n--\n\nThe function of a call that is noted, to be made again, is about to run."},
    {"_keep_noted", (PyCFunction)(void (*)(void))keep_noted, METH_FASTCALL,
     "_keep_noted(noted, pairs, result, /)\n--\n\n"
     "It ran and all was computed; tensors stand for arrays still, as the pairs (array, tensor) say."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
call_long(struct accelerated *a, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
    PyObject  *list, *keys, *noted, *out = NULL;
    Py_ssize_t n_names = names ? PyTuple_GET_SIZE(names) : 0;

    n_args -= n_names;
    list = PyTuple_New(n_args);
    keys = PyDict_New();
    noted = noted_call(a, args, n_args + n_names, names);
    if (!list || !keys || !noted)
        goto out;
    for (Py_ssize_t i = 0; i < n_args; i++)
        PyTuple_SET_ITEM(list, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; i < n_names; i++)
        if (PyDict_SetItem(keys, PyTuple_GET_ITEM(names, i), args[n_args + i]) < 0)
            goto out;
    out = PyObject_CallMethod(a->state, "call", "OOO", list, keys, noted);
out:
    Py_XDECREF(noted);
    Py_XDECREF(list);
    Py_XDECREF(keys);
    return out;
}

static PyObject *
accelerated_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct accelerated *a = (struct accelerated *)self;
    Py_ssize_t          n_args = PyVectorcall_NARGS(nargsf);
    PyObject           *call, *result;

    if (names)
        n_args += PyTuple_GET_SIZE(names);
    if (!a->callee.call)
        return call_long(a, args, n_args, names);
    call = Py_NewRef(a->callee.call); /* a call may come to make another */
    result = fr_accelerate_call(&a->callee, args, n_args, names);
    if (result == call) {
        Py_DECREF(result);
        result = call_long(a, args, n_args, names);
    }
    Py_DECREF(call);
    return result;
}

static PyObject *
accelerated_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct accelerated *a;
    PyObject           *state;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Accelerated() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "O:Accelerated", &state))
        return NULL;
    a = (struct accelerated *)type->tp_alloc(type, 0);
    if (a) {
        a->state = Py_NewRef(state);
        a->vectorcall = accelerated_vectorcall;
    }
    return (PyObject *)a;
}

static int
accelerated_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct accelerated *a = (struct accelerated *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(a->dict);
    Py_VISIT(a->state);
    Py_VISIT(a->callee.call);
    return fr_replays_traverse(a->callee.replays, visit, arg);
}

/* Calls that were recorded belong to the tuple. */
static void
set_call(struct accelerated *a, PyObject *call)
{
    struct fr_replays *replays = a->callee.replays;

    a->callee.replays = NULL;
    a->callee.gives_more = false;
    Py_XSETREF(a->callee.call, Py_XNewRef(call));
    fr_replays_drop(replays);
}

static int
accelerated_clear(PyObject *self)
{
    struct accelerated *a = (struct accelerated *)self;

    Py_CLEAR(a->dict);
    Py_CLEAR(a->state);
    set_call(a, NULL);
    return 0;
}

static void
accelerated_dealloc(PyObject *self)
{
    struct accelerated *a = (struct accelerated *)self;
    PyTypeObject       *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (a->weak)
        PyObject_ClearWeakRefs(self);
    accelerated_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* A function in a class is a method. */
static PyObject *
accelerated_get(PyObject *self, PyObject *instance, PyObject *owner)
{
    (void)owner;
    return instance && instance != Py_None ? PyMethod_New(self, instance) : Py_NewRef(self);
}

static PyObject *
accelerated_repr(PyObject *self)
{
    PyObject *name = PyObject_GetAttrString(self, "__qualname__"), *out;

    if (!name)
        PyErr_Clear();
    out = name ? PyUnicode_FromFormat("<accelerated function %S at %p>", name, self)
               : PyUnicode_FromFormat("<accelerated function at %p>", self);
    Py_XDECREF(name);
    return out;
}

/* Functions are pickled by name, and copies of one are the function itself. */
static PyObject *
accelerated_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyObject *
accelerated_same(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* _set_call(tuple or None): what the short way wants; None: always the long way. */
static PyObject *
accelerated_set_call(PyObject *self, PyObject *call)
{
    struct accelerated *a = (struct accelerated *)self;

    if (call != Py_None && !fr_accelerate_is_call(call)) {
        PyErr_SetString(PyExc_TypeError, "_set_call() takes what accelerate makes");
        return NULL;
    }
    set_call(a, call == Py_None ? NULL : call);
    Py_RETURN_NONE;
}

static PyMethodDef accelerated_methods[] = {
    {"__reduce__", accelerated_reduce, METH_NOARGS, NULL},
    {"__copy__", accelerated_same, METH_NOARGS, NULL},
    {"__deepcopy__", accelerated_same, METH_O, NULL},
    {"_set_call", accelerated_set_call, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef accelerated_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(struct accelerated, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct accelerated, weak), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct accelerated, vectorcall), READONLY, NULL},
    {"_state", T_OBJECT, offsetof(struct accelerated, state), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef accelerated_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot accelerated_slots[] = {
    {Py_tp_doc, "A function that accelerate() was applied to; `stats` tells about its last call."},
    {Py_tp_new, accelerated_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, accelerated_traverse},
    {Py_tp_clear, accelerated_clear},
    {Py_tp_dealloc, accelerated_dealloc},
    {Py_tp_descr_get, accelerated_get},
    {Py_tp_repr, accelerated_repr},
    {Py_tp_methods, accelerated_methods},
    {Py_tp_members, accelerated_members},
    {Py_tp_getset, accelerated_getset},
    {0, NULL},
};

static PyType_Spec accelerated_spec = {
    "frit.accelerate.Accelerated", sizeof(struct accelerated), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR,
    accelerated_slots};

int
fr_accelerate_init(PyObject *module)
{
    if (fr_accelerate_call_init(module) < 0)
        return -1;
    accelerated_type = (PyTypeObject *)PyType_FromSpec(&accelerated_spec);
    if (!accelerated_type)
        return -1;
    return PyModule_AddObjectRef(module, "Accelerated", (PyObject *)accelerated_type);
}
