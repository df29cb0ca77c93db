/* bind/accelerate/crossing.c -- what the code of the user's functions has where values cross (membrane.h).
 *
 * COMES[value] stands behind each instruction that brings something in from elsewhere, MADE[value] behind calls, LEAVES[value] before each that
 * stores where others may look, CALLED[value] behind what is about to be called, SHOWN[value] before what is shown as
 * text. Outside of accelerated calls each gives its value back. A class whose object comes, and a function that does,
 * is prepared: if it is the user's, its code gets these, too. */
#include "bind/accelerate/membrane.h"

#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"

#include <structmember.h>

static PyObject *codes;         /* dict: id of code that crosses -> (it, the code that was written) */
static PyObject *prepare;       /* of a class or a function: its code becomes ours if it is the user's; says whose it is */
enum whose { USERS, OTHERS, UNTOLD }; /* UNTOLD: a class of callables, of which each may be anybody's */
static PyObject *find_callable; /* of what is called: what is called instead, or itself */
static PyObject *partial_type;

/* ---- what is known: tables from an address to what is held with it */

enum { N_KNOWN = 1024, UNKNOWN = -1 };
static struct known {
    PyObject *what;          /* a class, code, or something that is called; a reference */
    PyObject *instead;       /* of what is called; a reference */
    unsigned  version;       /* of a class */
    int       whose;
} known_types[N_KNOWN], known_codes[N_KNOWN], known_callables[N_KNOWN];

static struct known *
place_of(struct known *known, const PyObject *what)
{
    return &known[((uintptr_t)what >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static void
know(struct known *k, PyObject *what, PyObject *instead, unsigned version, int whose)
{
    struct known old = *k;

    *k = (struct known){Py_NewRef(what), Py_XNewRef(instead), version, whose};
    Py_XDECREF(old.what);
    Py_XDECREF(old.instead);
}

/* Whose it is; -1: an exception. */
static int
prepare_it(PyObject *what)
{
    PyObject *done = PyObject_CallOneArg(prepare, what);
    int       st = done ? (int)PyLong_AsLong(done) : -1;

    Py_XDECREF(done);
    return st;
}

static int
prepare_class(PyTypeObject *type)
{
    struct known *k = place_of(known_types, (PyObject *)type);
    int           st;

    if (FR_LIKELY(k->what == (PyObject *)type && k->version == type->tp_version_tag))
        return k->whose;
    if ((st = prepare_it((PyObject *)type)) >= 0)
        know(place_of(known_types, (PyObject *)type), (PyObject *)type, NULL, type->tp_version_tag, st);
    return st;
}

static int
prepare_function(PyObject *f)
{
    struct known *k = place_of(known_codes, PyFunction_GET_CODE(f));
    int           st;

    if (FR_LIKELY(k->what == PyFunction_GET_CODE(f)))
        return k->whose;
    if ((st = prepare_it(f)) >= 0)
        know(place_of(known_codes, PyFunction_GET_CODE(f)), PyFunction_GET_CODE(f), NULL, 0, st);
    return st;
}

bool
fr_crossing_is_of(PyObject *code, PyObject *written)
{
    PyObject *id = PyLong_FromVoidPtr(code), *two = id && codes ? PyDict_GetItemWithError(codes, id) : NULL;

    Py_XDECREF(id);
    PyErr_Clear();
    return two && PyTuple_GET_ITEM(two, 1) == written;
}

/* ---- what comes */

static bool
is_partial(PyObject *x)
{
    return Py_TYPE(x) == (PyTypeObject *)partial_type;
}

PyObject *
fr_crossing_comes(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    int           st = 0;

    if (!fr_membrane_is_active)
        return Py_NewRef(x);
    if (type == &PyArray_Type)
        return fr_lent_come(x);
    if (type == &PyFunction_Type)
        st = prepare_function(x);
    else if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_tensor(x))
        st = prepare_class(type);
    else if (PyType_Check(x) && PyType_HasFeature((PyTypeObject *)x, Py_TPFLAGS_HEAPTYPE))
        st = prepare_class((PyTypeObject *)x);
    else if (type == &PyMethod_Type && PyFunction_Check(PyMethod_GET_FUNCTION(x)))
        st = prepare_function(PyMethod_GET_FUNCTION(x));
    if (FR_UNLIKELY(is_partial(x)) && st >= 0)
        st = prepare_it(x);
    if (FR_UNLIKELY(st == OTHERS))
        fr_outside_met(x);
    return st < 0 ? NULL : Py_NewRef(x);
}

/* What a call has given: an array that nobody else has is taken over. */
static PyObject *
made(PyObject *x)
{
    PyObject *tensor;

    if (Py_TYPE(x) != &PyArray_Type || Py_REFCNT(x) > 1 || !fr_membrane_is_active)
        return fr_crossing_comes(x);
    if ((tensor = fr_numpy_wrap(x, NULL)) && !fr_is_tensor(tensor)) {
        Py_DECREF(tensor);
        return fr_lent_come(x);
    }
    return tensor;
}

/* ---- what leaves */

enum { STORED_ITEMS = 256 };    /* of containers that are stored: what is beyond is found at the end of the call */

/* What others get for a tensor: the array of a loan; NumPy's bool, of which there are but two; or the tensor, which
 * becomes what it stands for at the end of the call. */
static PyObject *
leave_tensor(PyObject *t)
{
    PyObject *array = fr_lent_array(t);

    if (array)
        return Py_NewRef(array);
    if (fr_object(t)->scalar && fr_of(t)->dtype == FR_BOOL)
        return fr_scalar_value(t);
    return Py_NewRef(t);
}

static int
leave_item(PyObject *o, PyObject **into, int *n_left)
{
    PyObject *x = *into;
    int       st = 0;

    if (fr_is_tensor(x)) {
        PyObject *left = leave_tensor(x);

        if (!left)
            return -1;
        Py_SETREF(*into, left);
    } else if (x != o && fr_is_container(x) && *n_left > 0) {
        st = *n_left = fr_crossing_leave_items(x, *n_left);
    }
    return st < 0 ? -1 : 0;
}

static int
leave_values(PyObject *dict, int *n_left)
{
    PyObject  *key, *value;
    Py_ssize_t at = 0;

    while (--*n_left >= 0 && PyDict_Next(dict, &at, &key, &value)) {
        PyObject *now = Py_NewRef(value);
        int       st = leave_item(dict, &now, n_left);

        if (st == 0 && now != value)
            st = PyDict_SetItem(dict, key, now); /* of a key that is there: the dict stays as it is */
        Py_DECREF(now);
        if (st < 0)
            return -1;
    }
    return 0;
}

/* Returns how many more are to be looked at. */
int
fr_crossing_leave_items(PyObject *o, int n_left)
{
    int st = 0;

    if (Py_EnterRecursiveCall(" in what an accelerated function stores"))
        return -1;
    if (PyDict_CheckExact(o)) {
        st = leave_values(o, &n_left);
    } else if (PyTuple_Check(o) || PyList_CheckExact(o)) {
        for (Py_ssize_t i = 0; st == 0 && i < PySequence_Fast_GET_SIZE(o) && --n_left >= 0; i++)
            st = leave_item(o, &PySequence_Fast_ITEMS(o)[i], &n_left);
    }
    Py_LeaveRecursiveCall();
    return st < 0 ? -1 : n_left > 0 ? n_left : 0;
}

PyObject *
fr_crossing_leaves(PyObject *x)
{
    if (!fr_membrane_is_active)
        return Py_NewRef(x);
    if (fr_is_tensor(x))
        return leave_tensor(x);
    if ((PyTuple_Check(x) || PyList_CheckExact(x) || PyDict_CheckExact(x)) && fr_crossing_leave_items(x, STORED_ITEMS) < 0)
        return NULL;
    return Py_NewRef(x);
}

/* ---- what is shown as text, which asks all that is in it */

static PyObject *
shown_as_text(PyObject *x)
{
    struct fr_err err;

    if (fr_membrane_is_active && !fr_is_tensor(x) && !fr_callee_is_number(x) &&
        fr_errors_check(fr_runtime_flush(&err), &err) < 0)
        return NULL;
    return Py_NewRef(x);
}

/* ---- what is called */

/* Calls something that keeps its arguments, or asks whether they are the same: with arrays for loans. */
struct keeper {
    PyObject_HEAD
    PyObject      *what;
    vectorcallfunc vectorcall;
};
static PyTypeObject  *keeper_type;
static struct keeper *spare_keeper;

static PyObject *
keeper_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject  *what = Py_NewRef(((struct keeper *)self)->what), *few[8], **in = few, *result = NULL;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_all = n + (names ? PyTuple_GET_SIZE(names) : 0), i = 0;

    if (n_all > (Py_ssize_t)FR_LEN(few) && !(in = PyMem_Malloc((size_t)n_all * sizeof *in)))
        return PyErr_NoMemory();
    while (i < n_all && (in[i] = fr_crossing_leaves(args[i])))
        i++;
    if (i == n_all)
        result = PyObject_Vectorcall(what, in, (size_t)n, names);
    while (i-- > 0)
        Py_DECREF(in[i]);
    if (in != few)
        PyMem_Free(in);
    Py_DECREF(what);
    return result;
}

static PyObject *
keeper_of(PyObject *what)
{
    struct keeper *k = spare_keeper;

    if (k) {
        spare_keeper = NULL;
        Py_SET_REFCNT((PyObject *)k, 1);
        PyObject_GC_Track((PyObject *)k);
    } else if (!(k = (struct keeper *)keeper_type->tp_alloc(keeper_type, 0))) {
        return NULL;
    }
    k->what = Py_NewRef(what);
    k->vectorcall = keeper_vectorcall;
    return (PyObject *)k;
}

static int
keeper_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct keeper *)self)->what);
    return 0;
}

static void
keeper_dealloc(PyObject *self)
{
    struct keeper *k = (struct keeper *)self;
    PyTypeObject  *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_CLEAR(k->what);
    if (!spare_keeper) {
        spare_keeper = k; /* with its reference to the type */
        return;
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
keeper(PyObject *module, PyObject *what)
{
    (void)module;
    return keeper_of(what);
}

/* What is called instead of a callable that is no method, as Python has found it once: a new reference. */
static PyObject *
instead_of(PyObject *x)
{
    struct known *k = place_of(known_callables, x);
    PyObject     *instead;

    if (FR_LIKELY(k->what == x))
        return Py_NewRef(k->instead);
    if ((instead = PyObject_CallOneArg(find_callable, x)))
        know(place_of(known_callables, x), x, instead, 0, UNTOLD);
    return instead;
}

static PyObject *
called_function(PyObject *f, PyObject *x)
{
    int       others = prepare_function(f);
    PyObject *instead;

    if (others <= 0)
        return others < 0 ? NULL : Py_NewRef(x);
    instead = instead_of(f);
    if (!instead || f == x)
        return instead;
    if (instead != f)
        Py_SETREF(instead, fr_outside_of(x));
    else
        Py_SETREF(instead, Py_NewRef(x));
    return instead;
}

/* Whether it holds what it is given. */
static bool
is_holder(PyObject *o)
{
    return PyList_Check(o) || PyDict_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o) ||
           strcmp(Py_TYPE(o)->tp_name, "collections.deque") == 0;
}

/* The object to which a function that is written in C is bound; NULL: x is none, or one of ours. */
static PyObject *
object_of(PyObject *x)
{
    PyObject *self = PyMethod_Check(x) ? PyMethod_GET_SELF(x) : PyCFunction_Check(x) ? PyCFunction_GET_SELF(x) : NULL;

    return self && !PyModule_Check(self) && !fr_is_tensor(self) ? self : NULL;
}

static PyObject *
called_method(PyObject *x, PyObject *self)
{
    if (is_holder(self))
        return keeper_of(x);
    if (fr_outside_is_strange(Py_TYPE(self)))
        return fr_outside_of(x);
    return Py_NewRef(x);
}

PyObject *
fr_crossing_called(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    PyObject     *self;
    int           others;

    if (!fr_membrane_is_active || fr_is_tensor(x))
        return Py_NewRef(x);
    if (type == &PyFunction_Type)
        return called_function(x, x);
    if (type == &PyMethod_Type && PyFunction_Check(PyMethod_GET_FUNCTION(x)))
        return called_function(PyMethod_GET_FUNCTION(x), x);
    if ((self = object_of(x)))
        return called_method(x, self);
    if (PyType_Check(x)) {
        others = PyType_HasFeature((PyTypeObject *)x, Py_TPFLAGS_HEAPTYPE) ? prepare_class((PyTypeObject *)x) : 1;
        return others < 0 ? NULL : others ? instead_of(x) : Py_NewRef(x);
    }
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_accelerated(x) && !fr_is_outside(x) && type != keeper_type) {
        if (!PyModule_Check(x) && type->tp_call) {
            others = is_partial(x) ? prepare_it(x) : prepare_class(type);
            if (others != UNTOLD)
                return others < 0 ? NULL : others ? fr_outside_of(x) : Py_NewRef(x);
        }
    }
    return instead_of(x);
}

PyObject *
fr_crossing_method(PyObject *o, PyObject *name)
{
    PyObject *value, *tensor = NULL;

    if (PyArray_CheckExact(o) && !(o = tensor = fr_lent_come(o)))
        return NULL;
    if (fr_is_tensor(o)) {
        value = PyObject_GetAttr(o, name);
    } else if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && prepare_class(Py_TYPE(o)) < 0) {
        value = NULL;
    } else if ((value = PyObject_GetAttr(o, name))) {
        Py_SETREF(value, fr_crossing_called(value));
    }
    Py_XDECREF(tensor);
    return value;
}

/* ---- the objects */

#define CROSSING(name, expression)                                                                                      \
    static PyObject *name(PyObject *self, PyObject *x)                                                                  \
    {                                                                                                                   \
        (void)self;                                                                                                     \
        return expression;                                                                                              \
    }
CROSSING(COMES, fr_crossing_comes(x))
CROSSING(MADE, made(x))
CROSSING(LEAVES, fr_crossing_leaves(x))
CROSSING(CALLED, fr_crossing_called(x))
CROSSING(SHOWN, shown_as_text(x))
#undef CROSSING

/* By name: code that has them is pickled by some. */
#define CROSSING(name)                                                                                                  \
    static PyObject *reduce_##name(PyObject *self, PyObject *unused)                                                    \
    {                                                                                                                   \
        (void)self, (void)unused;                                                                                       \
        return PyUnicode_FromString(#name);                                                                             \
    }                                                                                                                   \
    static PyMethodDef name##_methods[] = {{"__reduce__", reduce_##name, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};    \
    static PyType_Slot name##_slots[] = {{Py_mp_subscript, name}, {Py_tp_methods, name##_methods}, {0, NULL}};          \
    static PyType_Spec name##_spec = {"frit._core._" #name, sizeof(PyObject), 0,                                        \
                                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, name##_slots};
CROSSING(COMES)
CROSSING(MADE)
CROSSING(LEAVES)
CROSSING(CALLED)
CROSSING(SHOWN)
#undef CROSSING

static PyMemberDef keeper_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct keeper, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot keeper_slots[] = {
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, keeper_traverse},
    {Py_tp_dealloc, keeper_dealloc},
    {Py_tp_members, keeper_members},
    {0, NULL},
};

static PyType_Spec keeper_spec = {
    "frit._core._Keeper", sizeof(struct keeper), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, keeper_slots};

static PyObject *
set_crossing(PyObject *module, PyObject *args)
{
    PyObject *d, *p, *c;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO:set_crossing", &PyDict_Type, &d, &p, &c))
        return NULL;
    Py_XSETREF(codes, Py_NewRef(d));
    Py_XSETREF(prepare, Py_NewRef(p));
    Py_XSETREF(find_callable, Py_NewRef(c));
    Py_RETURN_NONE;
}

PyMethodDef fr_crossing_methods[] = {
    {"set_crossing", set_crossing, METH_VARARGS, "set_crossing(codes, prepare, find_callable, /)\n--\n\nWhat _membrane.py knows."},
    {"keeper", keeper, METH_O, "keeper(what, /)\n--\n\nCalls it with arrays for loans."},
    {NULL, NULL, 0, NULL},
};

int
fr_crossing_init(PyObject *module)
{
    struct {
        const char  *name;
        PyType_Spec *spec;
    } all[] = {{"COMES", &COMES_spec}, {"MADE", &MADE_spec}, {"LEAVES", &LEAVES_spec}, {"CALLED", &CALLED_spec}, {"SHOWN", &SHOWN_spec}};
    PyObject *functools = PyImport_ImportModule("functools");

    partial_type = functools ? PyObject_GetAttrString(functools, "partial") : NULL;
    Py_XDECREF(functools);
    keeper_type = (PyTypeObject *)PyType_FromSpec(&keeper_spec);
    if (!partial_type || !keeper_type)
        return -1;
    for (size_t i = 0; i < FR_LEN(all); i++) {
        PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(all[i].spec);
        PyObject     *one = type ? type->tp_alloc(type, 0) : NULL;
        int           st = one ? PyModule_AddObjectRef(module, all[i].name, one) : -1;

        Py_XDECREF(type);
        Py_XDECREF(one);
        if (st < 0)
            return -1;
    }
    return 0;
}
