/* bind/accelerate/accelerate.c -- the type of accelerated functions, as their callers see it. A call goes the way of closed
 * functions (accelerate_call.c) or crosses the membrane.
 *
 * Whoever looks at one sees a function: isinstance() says so, and what a function has is there. What a call runs by
 * (`__code__`, `__defaults__`, ...) is the function's own, read and assigned; names and attributes are the wrapper's,
 * and the function's where the wrapper was given none. */
#include "base/span.h"
#include "bind/accelerate/membrane.h"
#include "bind/tensor/tensor.h"

#include <structmember.h>

/* Names that a wrapper may have of its own. */
enum { NAME, QUALNAME, LAST_STRING = QUALNAME, DOC, MODULE, N_NAMES };

static const char *const name_of[N_NAMES] = {"__name__", "__qualname__", "__doc__", "__module__"};

struct accelerated {
    PyObject_HEAD
    PyObject *dict, *weak;
    PyObject *names[N_NAMES]; /* NULL: the function's */
    PyObject *state;    /* accelerate.py's: find() says how calls go */
    PyObject *function; /* that was decorated */
    PyObject *reason;   /* a str: calls run as they are, with NumPy; NULL: they do not */
    struct fr_call_stats *stats;
    fr_device        device;   /* on which calls compute; ANY: on that of who calls */
    fr_device        last;     /* of the last call */
    bool             keeps;    /* what calls give and leave stays tensors */
    bool             is_found; /* how calls go, */
    struct fr_callee callee;   /* for closed functions; without a call: by the membrane */
    vectorcallfunc vectorcall;
    struct fr_span_known span;
};

/* Has the state find how calls go from now on: it calls _set_call(). */
static int
find(struct accelerated *a)
{
    PyObject *done = PyObject_CallMethod(a->state, "find", NULL);

    Py_XDECREF(done);
    return done ? 0 : -1;
}

static PyObject *
call(struct accelerated *a, PyObject *const *args, Py_ssize_t n_args, PyObject *names)
{
    PyObject *f = a->function, *call, *result;

    if (FR_UNLIKELY(!a->is_found || (a->callee.call && !fr_accelerate_is_current(a->callee.call))) && find(a) < 0)
        return NULL;
    if (FR_UNLIKELY(a->reason != NULL)) {
        if (fr_callee_ran_as_numpy(a->stats, f, a->reason) < 0)
            return NULL;
        return PyObject_Vectorcall(f, args, (size_t)(n_args - (names ? PyTuple_GET_SIZE(names) : 0)), names);
    }
    if (a->callee.call && !fr_membrane_is_active && !fr_membrane_is_plain && !fr_accelerate_is_plain(&a->callee, args, n_args)) {
        call = Py_NewRef(a->callee.call); /* a call may come to make another */
        result = fr_accelerate_call(&a->callee, args, n_args, names);
        Py_DECREF(call);
        if (result != call)
            return result;
        Py_DECREF(call);
    }
    return fr_membrane_call(f, a->stats, &a->callee.habit, args, n_args, names, false);
}

/* The call has ended. */
static FR_COLD void
end_span(const struct fr_span_mark *mark, struct accelerated *a)
{
    if (!fr_span_knows(&a->span)) {
        PyObject   *type, *value, *trace, *name;
        const char *text;

        PyErr_Fetch(&type, &value, &trace);
        name = PyObject_GetAttrString(a->function, "__qualname__");
        text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        fr_span_know(&a->span, text ? text : "a function");
        Py_XDECREF(name);
        PyErr_Restore(type, value, trace);
    }
    fr_span_end(mark, FR_SPAN_call, a->span.name, FR_SITE_LINE(fr_site_here()), 0);
}

static PyObject *
accelerated_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct accelerated    *a = (struct accelerated *)self;
    FR_ON_DEVICE fr_device before = fr_device_chosen();
    bool                   at_once = fr_scalar_at_once(false), kept = fr_call_keeps;
    const struct fr_span_mark mark = fr_span_begin();
    PyObject              *result;

    if (FR_UNLIKELY(a->device != FR_DEVICE_ANY))
        fr_device_choose(a->device);
    if (FR_UNLIKELY(a->last != fr_device_now())) { /* what is known of calls holds on one device */
        a->last = fr_device_now();
        a->is_found = false;
    }
    if (fr_call_depth == 0)
        fr_call_keeps = a->keeps;
    Py_INCREF(self); /* it may be deleted while it runs */
    result = call(a, args, PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0), names);
    if (FR_UNLIKELY(mark.begin != 0))
        end_span(&mark, a);
    Py_DECREF(self);
    fr_call_keeps = kept;
    fr_scalar_at_once(at_once);
    return result;
}

static PyObject *
accelerated_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct accelerated *a;
    PyObject           *state, *function, *stats;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "Accelerated() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOO!:Accelerated", &state, &function, fr_callee_stats_type, &stats))
        return NULL;
    a = (struct accelerated *)type->tp_alloc(type, 0);
    if (a) {
        a->state = Py_NewRef(state);
        a->function = Py_NewRef(function);
        a->stats = (struct fr_call_stats *)Py_NewRef(stats);
        a->last = fr_device_usual;
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
    Py_VISIT(a->function);
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
    Py_CLEAR(a->function);
    Py_CLEAR(a->reason);
    Py_CLEAR(a->stats);
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

/* The function that was decorated. */
static PyObject *
function_of(PyObject *self)
{
    PyObject *f = ((struct accelerated *)self)->function;

    if (f)
        return Py_NewRef(f);
    PyErr_SetString(PyExc_ReferenceError, "the accelerated function is being deleted");
    return NULL;
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

/* As it was written, or assigned. */
static PyObject *
get_code(PyObject *self, void *name)
{
    PyObject *code = get_from_function(self, name), *written = NULL;

    if (code)
        written = PyObject_CallMethod(((struct accelerated *)self)->state, "written", "O", code);
    Py_XDECREF(code);
    return written;
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
    return Py_XNewRef(((struct accelerated *)self)->stats);
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

/* _set_call(how): a _Call, of a closed function; None: by the membrane; a str: as they are, and why. */
static PyObject *
accelerated_set_call(PyObject *self, PyObject *how)
{
    struct accelerated *a = (struct accelerated *)self;
    struct fr_callee    callee = {.call = NULL};

    if (how != Py_None && !PyUnicode_Check(how) && !fr_callee_set(&callee, how)) {
        PyErr_SetString(PyExc_TypeError, "_set_call() takes what accelerate makes");
        return NULL;
    }
    set_callee(a, callee);
    Py_XSETREF(a->reason, PyUnicode_Check(how) ? Py_NewRef(how) : NULL);
    a->is_found = true;
    Py_RETURN_NONE;
}

/* _set_device(name): where calls compute. */
static PyObject *
accelerated_set_device(PyObject *self, PyObject *name)
{
    return fr_args_device(name, &((struct accelerated *)self)->device) < 0 ? NULL : Py_NewRef(Py_None);
}

/* _set_keeps(bool): whether results stay tensors. */
static PyObject *
accelerated_set_keeps(PyObject *self, PyObject *keeps)
{
    ((struct accelerated *)self)->keeps = keeps == Py_True;
    Py_RETURN_NONE;
}

static PyMethodDef accelerated_methods[] = {
    {"_set_keeps", accelerated_set_keeps, METH_O, NULL},
    {"_set_device", accelerated_set_device, METH_O, NULL},
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
    {"__code__", get_code, set_of_function, NULL, "__code__"},
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
