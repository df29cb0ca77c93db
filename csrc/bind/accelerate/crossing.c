/* bind/accelerate/crossing.c -- what the code of the user's functions has where values cross (membrane.h).
 *
 * COMES[value] stands behind each instruction that brings something in from elsewhere, MADE[value] behind calls, LEAVES[value] before each that
 * stores where others may look, CALLED[value] behind what is about to be called, SHOWN[value] before what is shown as
 * text, ITERATED[value] before a loop over it, POWER[a, b] instead of a ** b. Outside of accelerated calls each gives its value back. A class whose object comes, and a function that does,
 * is prepared: if it is the user's, its code gets these, too. */
#include "bind/accelerate/membrane.h"

#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"

#include <structmember.h>

static PyObject *codes;         /* dict: id of code that crosses -> (it, the code that was written, its enter or None) */
static PyObject *prepare;       /* of a class or a function: its code becomes ours if it is the user's; says whose it is */
enum whose { USERS, OTHERS, UNTOLD }; /* UNTOLD: a class of callables, of which each may be anybody's */
static PyObject *find_callable; /* of what is called: (what is called instead, the same in a plain call), or itself */
static PyObject *rounded;       /* frozenset: methods of arrays that round otherwise than NumPy's */
static PyObject *partial_type;

/* ---- what is known: tables from an address to what is held with it */

enum { N_KNOWN = 1024, UNKNOWN = -1 };
static struct known {
    PyObject *what;          /* a class, code, or something that is called; a reference */
    PyObject *instead;       /* of what is called, and the same in a plain call; references */
    PyObject *plain;
    unsigned  version;       /* of a class */
    int       whose;
} known_types[N_KNOWN], known_codes[N_KNOWN], known_callables[N_KNOWN];

static struct known *
place_of(struct known *known, const PyObject *what)
{
    return &known[((uintptr_t)what >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static void
know(struct known *k, PyObject *what, PyObject *instead, PyObject *plain, unsigned version, int whose)
{
    struct known old = *k;

    *k = (struct known){Py_NewRef(what), Py_XNewRef(instead), Py_XNewRef(plain), version, whose};
    Py_XDECREF(old.what);
    Py_XDECREF(old.instead);
    Py_XDECREF(old.plain);
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
        know(place_of(known_types, (PyObject *)type), (PyObject *)type, NULL, NULL, type->tp_version_tag, st);
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
        know(place_of(known_codes, PyFunction_GET_CODE(f)), PyFunction_GET_CODE(f), NULL, NULL, 0, st);
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

/* ---- where a function begins: the code that crosses, or what was written */

struct enter {
    PyObject_HEAD
    bool rounds; /* it calls what frit rounds otherwise than NumPy, as far as is known */
};

/* None: the code crosses. */
static PyObject *
enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(fr_membrane_is_active || (fr_membrane_is_plain && ((struct enter *)self)->rounds) ? Py_None : Py_True);
}

static PyObject *
enter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct enter *e;
    int           harmless;

    if (kwargs && PyDict_GET_SIZE(kwargs) > 0) {
        PyErr_SetString(PyExc_TypeError, "_Enter() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "p:_Enter", &harmless))
        return NULL;
    if ((e = (struct enter *)type->tp_alloc(type, 0)))
        e->rounds = !harmless;
    return (PyObject *)e;
}

static PyObject *
enter_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(O)", Py_TYPE(self), ((struct enter *)self)->rounds ? Py_False : Py_True);
}

/* The code that runs now has been handed a function that rounds, by another name than NumPy's. */
static void
note_rounding(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject  *code = frame ? PyFrame_GetCode(frame) : NULL;
    PyObject      *id = code ? PyLong_FromVoidPtr(code) : NULL, *found = id ? PyDict_GetItemWithError(codes, id) : NULL;

    if (found && PyTuple_GET_ITEM(found, 2) != Py_None)
        ((struct enter *)PyTuple_GET_ITEM(found, 2))->rounds = true;
    PyErr_Clear();
    Py_XDECREF(id);
    Py_XDECREF(code);
}

/* ---- what comes */

enum { LARGE = 4096,    /* elements: with more in an array */
       MANY = 1024 };   /* times a call is no plain one */

static PyObject *
come_plain(PyObject *array)
{
    PyObject *lent = fr_lent_array(array);

    if (lent)
        array = lent;
    if (PyArray_SIZE(fr_array(array)) > LARGE && ++fr_membrane_n_large % MANY == 0 && fr_lent_has_parted()) {
        fr_plain_resume();
        return fr_lent_come(array);
    }
    return Py_NewRef(array);
}

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

    if (FR_UNLIKELY(fr_nodes_made >= fr_plain_look_at) && fr_membrane_is_active && !fr_plain_look())
        return NULL;
    if (!fr_membrane_is_active && !fr_membrane_is_plain)
        return Py_NewRef(x);
    if (type == &PyArray_Type)
        return fr_membrane_is_plain ? come_plain(x) : fr_lent_come(x);
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
    if (fr_membrane_is_plain) {
        PyObject *array = fr_lent_array(x);

        return Py_NewRef(array ? array : x);
    }
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

/* ---- what is iterated: code of others, or of a generator that began outside, runs at each step */

struct steps {
    PyObject_HEAD
    PyObject *iterator;
};
static PyTypeObject *steps_type;

static bool
is_prepared_generator(PyObject *x)
{
    PyObject *code = PyObject_GetAttrString(x, "gi_code"), *id = code ? PyLong_FromVoidPtr(code) : NULL;
    bool      is = id && PyDict_GetItemWithError(codes, id);

    PyErr_Clear();
    Py_XDECREF(code);
    Py_XDECREF(id);
    return is;
}

static PyObject *
iterated(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    struct steps *s;
    int           whose = USERS;

    if (!fr_membrane_is_active)
        return Py_NewRef(x);
    if (PyGen_CheckExact(x))
        whose = is_prepared_generator(x) ? USERS : OTHERS;
    else if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_tensor(x))
        whose = prepare_class(type);
    if (whose != OTHERS)
        return whose < 0 ? NULL : Py_NewRef(x);
    if ((s = (struct steps *)steps_type->tp_alloc(steps_type, 0)) && !(s->iterator = PyObject_GetIter(x)))
        Py_CLEAR(s);
    return (PyObject *)s;
}

static PyObject *
steps_next(PyObject *self)
{
    return fr_membrane_is_active && !fr_lent_settle() ? NULL : PyIter_Next(((struct steps *)self)->iterator);
}

static int
steps_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct steps *)self)->iterator);
    return 0;
}

static void
steps_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_XDECREF(((struct steps *)self)->iterator);
    type->tp_free(self);
    Py_DECREF(type);
}

/* ---- what is called */

/* Calls something otherwise than it is called. */
struct keeper {
    PyObject_HEAD
    PyObject      *what;
    vectorcallfunc vectorcall;
};
static PyTypeObject  *keeper_type;
static struct keeper *spare_keeper;

/* The call with each argument as `change` has it, and as what is iterated. */
static PyObject *
call_changed(PyObject *self, PyObject *(*change)(PyObject *), PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject  *what = Py_NewRef(((struct keeper *)self)->what), *few[8], **in = few, *result = NULL;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_all = n + (names ? PyTuple_GET_SIZE(names) : 0), i = 0;

    if (n_all > (Py_ssize_t)FR_LEN(few) && !(in = PyMem_Malloc((size_t)n_all * sizeof *in))) {
        Py_DECREF(what);
        return PyErr_NoMemory();
    }
    for (; i < n_all; i++) {
        PyObject *x = change ? change(args[i]) : Py_NewRef(args[i]);

        in[i] = x ? iterated(x) : NULL;
        Py_XDECREF(x);
        if (!in[i])
            break;
    }
    if (i == n_all)
        result = PyObject_Vectorcall(what, in, (size_t)n, names);
    while (i-- > 0)
        Py_DECREF(in[i]);
    if (in != few)
        PyMem_Free(in);
    Py_DECREF(what);
    return result;
}

/* Whether a method looks at nothing that is in its arguments. */
static bool
only_keeps(PyObject *method)
{
    static const char *const names[] = {"append", "appendleft", "insert", "add", "setdefault", "send"};
    const char              *name = ((PyCFunctionObject *)method)->m_ml->ml_name;
    bool                     is = false;

    for (size_t i = 0; i < FR_LEN(names); i++)
        is |= strcmp(name, names[i]) == 0;
    return is;
}

/* Of what keeps its arguments, or asks whether they are the same: with arrays for loans, also of what an iterator gives. */
static PyObject *
keeper_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject  *what = ((struct keeper *)self)->what, *holder = PyCFunction_Check(what) ? PyCFunction_GET_SELF(what) : NULL, *result;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    bool       iterates = false;

    for (Py_ssize_t i = 0; holder && i < n; i++) {
        iterates |= PyIter_Check(args[i]);
        if (fr_membrane_is_active && fr_is_tensor(args[i]) && !only_keeps(what) && fr_lent_array(args[i]) && !fr_lent_open(args[i]))
            return NULL;
    }
    Py_XINCREF(holder);
    result = call_changed(self, fr_crossing_leaves, args, nargsf, names);
    if (result && iterates && fr_membrane_is_active && fr_crossing_leave_items(holder, INT_MAX) < 0)
        Py_CLEAR(result);
    Py_XDECREF(holder);
    return result;
}

/* Of what may look into containers and objects: what is stored into lent memory is there. */
static PyObject *
reader_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Py_ssize_t    n_all = PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0);
    struct fr_err err;
    bool          may_look = false;

    for (Py_ssize_t i = 0; i < n_all; i++)
        may_look |= !fr_is_tensor(args[i]) && !fr_callee_is_number(args[i]) && !PyCallable_Check(args[i]);
    if (may_look && fr_membrane_is_active && fr_errors_check(fr_runtime_flush(&err), &err) < 0)
        return NULL;
    return call_changed(self, NULL, args, nargsf, names);
}

/* Of what goes over its arguments later. */
static PyObject *
looper_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    return call_changed(self, NULL, args, nargsf, names);
}

static PyObject *
plain_result(PyObject *o)
{
    if (o && fr_is_tensor(o))
        Py_SETREF(o, fr_numpy_shown(o));
    for (Py_ssize_t i = 0; o && PyTuple_CheckExact(o) && i < PyTuple_GET_SIZE(o); i++)
        if (fr_is_tensor(PyTuple_GET_ITEM(o, i))) {
            PyObject *old = PyTuple_GET_ITEM(o, i), *new = fr_numpy_shown(old);

            if (new)
                PyTuple_SET_ITEM(o, i, new);
            Py_DECREF(new ? old : o);
            o = new ? o : NULL;
        }
    return o;
}

/* Of a function of frit's: with NumPy's results. */
static PyObject *
plain_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    return plain_result(PyObject_Vectorcall(((struct keeper *)self)->what, args, nargsf, names));
}

static PyObject *
keeper_of(PyObject *what, vectorcallfunc vectorcall)
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
    k->vectorcall = vectorcall;
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
    return keeper_of(what, keeper_vectorcall);
}

static PyObject *
reader(PyObject *module, PyObject *what)
{
    (void)module;
    return keeper_of(what, reader_vectorcall);
}

static PyObject *
looper(PyObject *module, PyObject *what)
{
    (void)module;
    return keeper_of(what, looper_vectorcall);
}

static PyObject *
plain(PyObject *module, PyObject *what)
{
    (void)module;
    return keeper_of(what, plain_vectorcall);
}

/* What is called instead of a callable that is no method, as Python has found it once: a new reference. */
static PyObject *
instead_of(PyObject *x)
{
    struct known *k = place_of(known_callables, x);
    PyObject     *two;

    if (FR_UNLIKELY(k->what != x)) {
        if (!(two = PyObject_CallOneArg(find_callable, x)))
            return NULL;
        k = place_of(known_callables, x);
        know(k, x, PyTuple_GET_ITEM(two, 0), PyTuple_GET_ITEM(two, 1), 0, UNTOLD);
        Py_DECREF(two);
    }
    return Py_NewRef(fr_membrane_is_plain ? k->plain : k->instead);
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
    FR_ASSERT(!fr_membrane_is_plain || instead == f); /* no method is frit's */
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
    return PyGen_CheckExact(o) || PyList_Check(o) || PyDict_Check(o) || PyTuple_Check(o) || PyAnySet_Check(o) ||
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
    int whose = PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE) ? prepare_class(Py_TYPE(self)) : OTHERS;

    if (whose < 0)
        return NULL;
    if (PyMethod_Check(x) && fr_is_accelerated(PyMethod_GET_FUNCTION(x)))
        return Py_NewRef(x);
    if (is_holder(self))
        return fr_membrane_is_plain ? Py_NewRef(x) : keeper_of(x, keeper_vectorcall);
    if (!fr_membrane_is_plain && whose == OTHERS && fr_outside_is_strange(Py_TYPE(self)))
        return fr_outside_of(x);
    return Py_NewRef(x);
}

PyObject *
fr_crossing_called(PyObject *x)
{
    PyTypeObject *type = Py_TYPE(x);
    PyObject     *self;
    int           others;

    if ((!fr_membrane_is_active && !fr_membrane_is_plain) || fr_is_tensor(x))
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
                return others < 0 ? NULL : others && !fr_membrane_is_plain ? fr_outside_of(x) : Py_NewRef(x);
        }
    }
    return instead_of(x);
}

/* Of an array: what rounds otherwise is frit's. */
static PyObject *
plain_method(PyObject *array, PyObject *name)
{
    int       rounds = PySet_Contains(rounded, name);
    PyObject *t = rounds > 0 ? fr_share(NULL, array) : NULL, *value;

    if (rounds < 0 || (rounds && !t && !PyErr_ExceptionMatches(PyExc_TypeError)))
        return NULL;
    PyErr_Clear();
    value = PyObject_GetAttr(t ? t : array, name);
    if (t && value)
        Py_SETREF(value, keeper_of(value, plain_vectorcall));
    Py_XDECREF(t);
    return value;
}

/* a ** b, or in place, in a plain call: of arrays it is frit's. */
static PyObject *
plain_power(PyObject *a, PyObject *b, bool in_place)
{
    PyObject *of = PyArray_CheckExact(a) ? a : PyArray_CheckExact(b) ? b : NULL;
    PyObject *t = of ? fr_share(NULL, of) : NULL, *result;

    if (of && !t && !PyErr_ExceptionMatches(PyExc_TypeError))
        return NULL;
    PyErr_Clear();
    if (t && of == a)
        result = in_place ? PyNumber_InPlacePower(t, b, Py_None) : PyNumber_Power(t, b, Py_None);
    else if (t)
        result = PyNumber_Power(a, t, Py_None);
    else
        result = in_place ? PyNumber_InPlacePower(a, b, Py_None) : PyNumber_Power(a, b, Py_None);
    if (result && result == t && in_place)
        Py_SETREF(result, Py_NewRef(a));
    Py_XDECREF(t);
    return plain_result(result);
}

static PyObject *
power(PyObject *two, bool in_place)
{
    PyObject *a, *b;

    if (!PyTuple_CheckExact(two) || PyTuple_GET_SIZE(two) != 2) {
        PyErr_SetString(PyExc_TypeError, "a pair is wanted");
        return NULL;
    }
    a = PyTuple_GET_ITEM(two, 0);
    b = PyTuple_GET_ITEM(two, 1);
    if (fr_membrane_is_plain)
        return plain_power(a, b, in_place);
    return in_place ? PyNumber_InPlacePower(a, b, Py_None) : PyNumber_Power(a, b, Py_None);
}

/* `x` was not found by a name in a module. */
static PyObject *
called_by_value(PyObject *x)
{
    const struct known *k = place_of(known_callables, x);

    if (fr_membrane_is_active && k->what == x && k->plain != x && k->plain != k->instead)
        note_rounding();
    return fr_crossing_called(x);
}

PyObject *
fr_crossing_method(PyObject *o, PyObject *name)
{
    PyObject *value, *tensor = NULL;

    if (PyArray_CheckExact(o)) {
        if (fr_membrane_is_plain)
            return plain_method(o, name);
        if (!(o = tensor = fr_lent_come(o)))
            return NULL;
    }
    if (fr_is_tensor(o)) {
        value = PyObject_GetAttr(o, name);
    } else if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && prepare_class(Py_TYPE(o)) < 0) {
        value = NULL;
    } else if ((value = PyObject_GetAttr(o, name))) {
        Py_SETREF(value, PyModule_Check(o) ? fr_crossing_called(value) : called_by_value(value));
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
CROSSING(CALLED, called_by_value(x))
CROSSING(NAMED, fr_crossing_called(x))
CROSSING(SHOWN, shown_as_text(x))
CROSSING(ITERATED, iterated(x))
CROSSING(POWER, power(x, false))
CROSSING(POWERED, power(x, true))
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
CROSSING(NAMED)
CROSSING(SHOWN)
CROSSING(ITERATED)
CROSSING(POWER)
CROSSING(POWERED)
#undef CROSSING

static PyMemberDef keeper_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct keeper, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef enter_methods[] = {{"__reduce__", enter_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

static PyType_Slot enter_slots[] = {
    {Py_tp_new, enter_new},
    {Py_tp_methods, enter_methods},
    {Py_mp_subscript, enter},
    {0, NULL},
};

static PyType_Spec enter_spec = {"frit._core._Enter", sizeof(struct enter), 0, Py_TPFLAGS_DEFAULT, enter_slots};

static PyType_Slot keeper_slots[] = {
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_traverse, keeper_traverse},
    {Py_tp_dealloc, keeper_dealloc},
    {Py_tp_members, keeper_members},
    {0, NULL},
};

static PyType_Slot steps_slots[] = {
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, steps_next},
    {Py_tp_traverse, steps_traverse},
    {Py_tp_dealloc, steps_dealloc},
    {0, NULL},
};

static PyType_Spec steps_spec = {"frit._core._Steps", sizeof(struct steps), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, steps_slots};

static PyType_Spec keeper_spec = {
    "frit._core._Keeper", sizeof(struct keeper), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, keeper_slots};

static PyObject *
set_crossing(PyObject *module, PyObject *args)
{
    PyObject *d, *p, *c, *r;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOO!:set_crossing", &PyDict_Type, &d, &p, &c, &PyFrozenSet_Type, &r))
        return NULL;
    Py_XSETREF(codes, Py_NewRef(d));
    Py_XSETREF(rounded, Py_NewRef(r));
    Py_XSETREF(prepare, Py_NewRef(p));
    Py_XSETREF(find_callable, Py_NewRef(c));
    Py_RETURN_NONE;
}

PyMethodDef fr_crossing_methods[] = {
    {"set_crossing", set_crossing, METH_VARARGS, "set_crossing(codes, prepare, find_callable, rounded, /)\n--\n\nWhat _membrane.py knows."},
    {"keeper", keeper, METH_O, "keeper(what, /)\n--\n\nCalls it with arrays for loans."},
    {"reader", reader, METH_O, "reader(what, /)\n--\n\nCalls it when what is stored into lent memory is there."},
    {"looper", looper, METH_O, "looper(what, /)\n--\n\nCalls it with iterators of others that it may go over later."},
    {"plain", plain, METH_O, "plain(what, /)\n--\n\nCalls it and gives arrays and numbers."},
    {NULL, NULL, 0, NULL},
};

int
fr_crossing_init(PyObject *module)
{
    struct {
        const char  *name;
        PyType_Spec *spec;
    } all[] = {{"COMES", &COMES_spec}, {"MADE", &MADE_spec}, {"LEAVES", &LEAVES_spec}, {"CALLED", &CALLED_spec}, {"NAMED", &NAMED_spec},
             {"SHOWN", &SHOWN_spec}, {"ITERATED", &ITERATED_spec},
             {"POWER", &POWER_spec},
             {"POWERED", &POWERED_spec}};
    PyObject *functools = PyImport_ImportModule("functools"), *enter_type;

    partial_type = functools ? PyObject_GetAttrString(functools, "partial") : NULL;
    Py_XDECREF(functools);
    keeper_type = (PyTypeObject *)PyType_FromSpec(&keeper_spec);
    steps_type = (PyTypeObject *)PyType_FromSpec(&steps_spec);
    if (!partial_type || !keeper_type || !steps_type)
        return -1;
    enter_type = PyType_FromSpec(&enter_spec);
    if (!enter_type || PyModule_AddObjectRef(module, "_Enter", enter_type) < 0) {
        Py_XDECREF(enter_type);
        return -1;
    }
    Py_DECREF(enter_type);
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
