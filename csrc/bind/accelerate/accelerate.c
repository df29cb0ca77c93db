/* bind/accelerate/accelerate.c -- the type of accelerated functions, as their callers see it. A call goes the short way
 * (accelerate_call.c) or, by python/frit/accelerate.py, the long one.
 *
 * Whoever looks at one sees a function: isinstance() says so, and what a function has is there. What a call runs by
 * (`__code__`, `__defaults__`, ...) is the function's own, read and assigned; names and attributes are the wrapper's,
 * and the function's where the wrapper was given none. */
#include "bind/accelerate/callee.h"
#include "bind/tensor/tensor.h"

#include <structmember.h>

/* Names that a wrapper may have of its own. */
enum { NAME, QUALNAME, LAST_STRING = QUALNAME, DOC, MODULE, N_NAMES };

static const char *const name_of[N_NAMES] = {"__name__", "__qualname__", "__doc__", "__module__"};

struct accelerated {
    PyObject_HEAD
    PyObject *dict, *weak;
    PyObject *names[N_NAMES]; /* NULL: the function's */
    PyObject *state; /* accelerate.py's: call(args, kwargs) is the long way */
    struct fr_callee callee; /* for the short way; without a call: always the long one */
    vectorcallfunc vectorcall;
};

static PyObject *
call_long(struct accelerated *a, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
    PyObject  *list, *keys, *out = NULL;
    Py_ssize_t n_names = names ? PyTuple_GET_SIZE(names) : 0;

    n_args -= n_names;
    list = fr_args_tuple(args, n_args);
    keys = PyDict_New();
    if (!list || !keys)
        goto out;
    for (Py_ssize_t i = 0; i < n_names; i++)
        if (PyDict_SetItem(keys, PyTuple_GET_ITEM(names, i), args[n_args + i]) < 0)
            goto out;
    out = PyObject_CallMethod(a->state, "call", "OO", list, keys);
out:
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
    bool                at_once;

    if (names)
        n_args += PyTuple_GET_SIZE(names);
    call = Py_XNewRef(a->callee.call); /* a call may come to make another */
    at_once = fr_scalar_at_once(false);
    result = call ? fr_accelerate_call(&a->callee, args, n_args, names) : NULL;
    if (result == call) {
        Py_XDECREF(result);
        result = call_long(a, args, n_args, names);
    }
    fr_scalar_at_once(at_once);
    Py_XDECREF(call);
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
    for (int i = 0; i < N_NAMES; i++)
        Py_VISIT(a->names[i]);
    Py_VISIT(a->state);
    Py_VISIT(a->callee.call);
    return fr_replays_traverse(a->callee.replays, visit, arg);
}

/* Calls that were recorded belong to the callee. */
static void
set_callee(struct accelerated *a, struct fr_callee callee)
{
    struct fr_callee old = a->callee;

    a->callee = callee;
    Py_XDECREF(old.call);
    fr_replays_drop(old.replays);
}

static int
accelerated_clear(PyObject *self)
{
    struct accelerated *a = (struct accelerated *)self;

    Py_CLEAR(a->dict);
    for (int i = 0; i < N_NAMES; i++)
        Py_CLEAR(a->names[i]);
    Py_CLEAR(a->state);
    set_callee(a, (struct fr_callee){.call = NULL});
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

static PyObject *
of_state(PyObject *self, const char *name)
{
    PyObject *state = ((struct accelerated *)self)->state;

    if (state)
        return PyObject_GetAttrString(state, name);
    PyErr_SetString(PyExc_ReferenceError, "the accelerated function is being deleted");
    return NULL;
}

/* The function that was decorated. */
static PyObject *
function_of(PyObject *self)
{
    return of_state(self, "f");
}

/* A name that the wrapper was given, or the function's. */
static PyObject *
get_name(PyObject *self, void *i)
{
    PyObject *own = ((struct accelerated *)self)->names[(intptr_t)i], *f, *value;

    if (own)
        return Py_NewRef(own);
    if (!(f = function_of(self)))
        return NULL;
    value = PyObject_GetAttrString(f, name_of[(intptr_t)i]);
    Py_DECREF(f);
    return value;
}

static int
set_name(PyObject *self, PyObject *value, void *i)
{
    if (value && !PyUnicode_Check(value) && (intptr_t)i <= LAST_STRING) {
        PyErr_Format(PyExc_TypeError, "%s must be set to a string object", name_of[(intptr_t)i]);
        return -1;
    }
    Py_XSETREF(((struct accelerated *)self)->names[(intptr_t)i], Py_XNewRef(value));
    return 0;
}

/* The type has a `__module__` of its own, which is no descriptor. */
static bool
is_module(PyObject *name)
{
    return PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, name_of[MODULE]);
}

static PyObject *
accelerated_getattro(PyObject *self, PyObject *name)
{
    return is_module(name) ? get_name(self, (void *)MODULE) : PyObject_GenericGetAttr(self, name);
}

static int
accelerated_setattro(PyObject *self, PyObject *name, PyObject *value)
{
    return is_module(name) ? set_name(self, value, (void *)MODULE) : PyObject_GenericSetAttr(self, name, value);
}

static PyObject *
get_from_function(PyObject *self, void *name)
{
    PyObject *f = function_of(self), *value = f ? PyObject_GetAttrString(f, name) : NULL;

    Py_XDECREF(f);
    return value;
}

static int
set_of_function(PyObject *self, PyObject *value, void *name)
{
    PyObject *f = function_of(self);
    int       r = !f ? -1 : value ? PyObject_SetAttrString(f, name, value) : PyObject_DelAttrString(f, name);

    Py_XDECREF(f);
    return r;
}

/* True inside the method of a pickler that is asked first, which takes functions apart (cloudpickle). */
static bool
is_being_pickled(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject  *code = frame ? PyFrame_GetCode(frame) : NULL;
    bool           is = code && !PyUnicode_CompareWithASCIIString(code->co_name, "reducer_override");

    Py_XDECREF(code);
    return is;
}

/* What isinstance() believes. A pickler gets the truth: it then asks for __reduce_ex__(), and what arrives elsewhere is
 * accelerated, too. */
static PyObject *
get_class(PyObject *self, void *unused)
{
    PyObject *f = function_of(self);
    bool      is_function = f && PyFunction_Check(f) && !is_being_pickled();

    (void)unused;
    if (!f)
        PyErr_Clear();
    Py_XDECREF(f);
    return Py_NewRef(is_function ? (PyObject *)&PyFunction_Type : (PyObject *)Py_TYPE(self));
}

static PyObject *
get_stats(PyObject *self, void *unused)
{
    (void)unused;
    return of_state(self, "stats");
}

static PyObject *
accelerated_reduce(PyObject *self, PyObject *protocol)
{
    return PyObject_CallMethod(((struct accelerated *)self)->state, "reduce", "OO", self, protocol);
}

/* Copies of a function are the function itself. */
static PyObject *
accelerated_same(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* _set_call(_Call or None): what the short way wants; None: always the long way. */
static PyObject *
accelerated_set_call(PyObject *self, PyObject *call)
{
    struct fr_callee callee = {.call = NULL};

    if (call != Py_None && !fr_callee_set(&callee, call)) {
        PyErr_SetString(PyExc_TypeError, "_set_call() takes what accelerate makes");
        return NULL;
    }
    set_callee((struct accelerated *)self, callee);
    Py_RETURN_NONE;
}

static PyMethodDef accelerated_methods[] = {
    {"__reduce_ex__", accelerated_reduce, METH_O, NULL},
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

#define OF_FUNCTION(name) {name, get_from_function, set_of_function, NULL, name}

static PyGetSetDef accelerated_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__class__", get_class, NULL, NULL, NULL},
    {"stats", get_stats, NULL, "What the last call did.", NULL},
    {"__name__", get_name, set_name, NULL, (void *)NAME},
    {"__qualname__", get_name, set_name, NULL, (void *)QUALNAME},
    {"__doc__", get_name, set_name, NULL, (void *)DOC},
    OF_FUNCTION("__code__"),
    OF_FUNCTION("__defaults__"),
    OF_FUNCTION("__kwdefaults__"),
    OF_FUNCTION("__globals__"),
    OF_FUNCTION("__closure__"),
    OF_FUNCTION("__builtins__"),
    OF_FUNCTION("__annotations__"),
    OF_FUNCTION("__annotate__"),
    OF_FUNCTION("__type_params__"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot accelerated_slots[] = {
    {Py_tp_new, accelerated_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, accelerated_traverse},
    {Py_tp_clear, accelerated_clear},
    {Py_tp_dealloc, accelerated_dealloc},
    {Py_tp_descr_get, accelerated_get},
    {Py_tp_getattro, accelerated_getattro},
    {Py_tp_setattro, accelerated_setattro},
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
    if (fr_callee_init(module) < 0)
        return -1;
    fr_accelerated_type = (PyTypeObject *)PyType_FromSpec(&accelerated_spec);
    if (!fr_accelerated_type)
        return -1;
    return PyModule_AddObjectRef(module, "Accelerated", (PyObject *)fr_accelerated_type);
}
