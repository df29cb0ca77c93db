/* bind/accelerate/called.c -- what the user's functions call: a function of ours, what lets others see arrays (outside.c),
 * or the thing itself, called with what it may keep. */
#include "bind/accelerate/crossing.h"

#include <string.h>

#include "base/env.h"
#include "base/ways.h"
#include "bind/numpy/few.h"
#include "bind/tensor/tensor.h"

#include <structmember.h>

static PyObject *find_callable; /* of what is called: (what is called instead, the same in a plain call), or itself */
static PyObject *rounded;       /* frozenset: methods of arrays that round otherwise than NumPy's, or are sooner */
static struct fr_known known_callables[FR_N_KNOWN];

/* ---- what is called */

/* Calls something otherwise than it is called. */
struct keeper {
    PyObject_HEAD
    PyObject      *what;
    vectorcallfunc vectorcall;
    PyObject      *theirs;    /* of a function of ours in plain calls: NumPy's, if that has the same bits; of an asker: as others'; else NULL */
    fr_op          op;        /* what it is, if that can be done at once, */
    fr_few         few;       /* and what does it for few elements; NULL: nothing */
};
static PyTypeObject  *keeper_type;
static struct keeper *spare_keeper;

/* The call with each argument as `change` has it, and iterators as what is iterated. */
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

        in[i] = x && PyIter_Check(x) ? fr_crossing_iterated(x) : Py_XNewRef(x);
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
    return PyObject_Vectorcall(((struct keeper *)self)->what, args, nargsf, names);
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
        Py_SETREF(o, Py_REFCNT(o) > 1 ? fr_numpy_shown(o) : fr_numpy_given(o));
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

/* Of what only asks its arguments' classes: the user's answer themselves; else it is others' (theirs). */
static PyObject *
asker_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const struct keeper *k = (struct keeper *)self;
    bool                 users = true;

    for (Py_ssize_t i = 0; i < PyVectorcall_NARGS(nargsf) && users; i++) {
        PyTypeObject *type = Py_TYPE(args[i]);

        users = fr_is_tensor(args[i]) || fr_callee_is_number(args[i]);
        if (!users && PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
            int whose = fr_whose_class(type);

            if (whose < 0)
                return NULL;
            users = whose == FR_USERS || whose == FR_UNTOLD;
        }
    }
    return PyObject_Vectorcall(users ? k->what : k->theirs, args, nargsf, names);
}

enum { SHARED = 1024 }; /* elements of an array with more of which a tensor is made that sees it; others are copied */

/* A tensor over an array's memory, or an array itself whose dtype frit has not. */
static PyObject *
shared(PyObject *array)
{
    PyObject *t = fr_share(NULL, array);

    if (t || !PyErr_ExceptionMatches(PyExc_TypeError))
        return t;
    PyErr_Clear();
    return Py_NewRef(array);
}

/* A call of a function of frit's with arrays. */
static PyObject *
call_ours(PyObject *ours, PyObject *const *args, size_t nargsf, PyObject *names)
{
    PyObject  *in[4], *result = NULL;
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), i = 0;

    if (names || n > (Py_ssize_t)FR_LEN(in))
        return PyObject_Vectorcall(ours, args, nargsf, names);
    for (; i < n; i++) {
        PyObject *x = args[i];

        in[i] = PyArray_CheckExact(x) && PyArray_SIZE(fr_array(x)) > SHARED ? shared(x) : Py_NewRef(x);
        if (!in[i])
            break;
    }
    if (i == n)
        result = PyObject_Vectorcall(ours, in, (size_t)n, NULL);
    while (i-- > 0)
        Py_DECREF(in[i]);
    return result;
}

/* Of a function in a plain call: with NumPy's results. */
static PyObject *
plain_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const struct keeper *k = (struct keeper *)self;
    PyObject            *result = NULL;

    if (k->op != FR_N_OPS && !names && PyVectorcall_NARGS(nargsf) == fr_op_info[k->op].arity && !fr_env_waits_for_code())
        result = fr_functions_at_once(k->op, args);
    if (!result && k->few && !PyErr_Occurred() && !fr_is_off(FR_OFF_few) &&
        (result = k->few(args, PyVectorcall_NARGS(nargsf), names)))
        fr_count_way(FR_WAY_few);
    if (result || PyErr_Occurred())
        return result;
    if (k->theirs)
        return PyObject_Vectorcall(k->theirs, args, nargsf, names);
    return plain_result(call_ours(k->what, args, nargsf, names));
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
    k->op = FR_N_OPS;
    k->few = NULL;
    k->theirs = NULL;
    return (PyObject *)k;
}

static int
keeper_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct keeper *)self)->what);
    Py_VISIT(((struct keeper *)self)->theirs);
    return 0;
}

static void
keeper_dealloc(PyObject *self)
{
    struct keeper *k = (struct keeper *)self;
    PyTypeObject  *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    Py_CLEAR(k->what);
    Py_CLEAR(k->theirs);
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
asker(PyObject *module, PyObject *what)
{
    PyObject *k = keeper_of(what, asker_vectorcall);

    (void)module;
    if (k && !(((struct keeper *)k)->theirs = fr_outside_of(what)))
        Py_CLEAR(k);
    return k;
}

static PyObject *
plain(PyObject *module, PyObject *args)
{
    PyObject   *ours, *theirs, *k;
    const char *name;
    fr_few      few;
    fr_op       op;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOs:plain", &ours, &theirs, &name))
        return NULL;
    op = fr_functions_op(ours);
    few = fr_few_of(name);
    if (op == FR_N_OPS && !few && theirs != Py_None)
        return Py_NewRef(theirs);
    if ((k = keeper_of(ours, plain_vectorcall))) {
        ((struct keeper *)k)->op = op;
        ((struct keeper *)k)->few = few;
        ((struct keeper *)k)->theirs = theirs == Py_None ? NULL : Py_NewRef(theirs);
    }
    return k;
}

PyObject *
fr_called_instead(PyObject *x)
{
    struct fr_known *k = fr_known_at(known_callables, x);
    PyObject     *two;

    if (FR_UNLIKELY(k->what != x)) {
        if (!(two = PyObject_CallOneArg(find_callable, x)))
            return NULL;
        k = fr_known_at(known_callables, x);
        fr_known_put(k, x, PyTuple_GET_ITEM(two, 0), PyTuple_GET_ITEM(two, 1), 0, FR_UNTOLD);
        Py_DECREF(two);
    }
    return Py_NewRef(fr_membrane_is_plain ? k->plain : k->instead);
}

static PyObject *
called_function(PyObject *f, PyObject *x)
{
    int       others = fr_whose_function(f);
    PyObject *instead;

    if (others <= 0)
        return others < 0 ? NULL : Py_NewRef(x);
    instead = fr_called_instead(f);
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
    int whose = PyType_HasFeature(Py_TYPE(self), Py_TPFLAGS_HEAPTYPE) ? fr_whose_class(Py_TYPE(self)) : FR_OTHERS;

    if (whose < 0)
        return NULL;
    if (PyMethod_Check(x) && fr_is_accelerated(PyMethod_GET_FUNCTION(x)))
        return Py_NewRef(x);
    if (fr_membrane_is_plain && Py_REFCNT(x) > 1 && strcmp(Py_TYPE(self)->tp_name, "numpy.random.mtrand.RandomState") == 0)
        return fr_called_instead(x); /* of a module: numpy.random's */
    if (is_holder(self))
        return fr_membrane_is_plain ? Py_NewRef(x) : keeper_of(x, keeper_vectorcall);
    if (!fr_membrane_is_plain && whose == FR_OTHERS && fr_outside_is_strange(Py_TYPE(self)))
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
        others = PyType_HasFeature((PyTypeObject *)x, Py_TPFLAGS_HEAPTYPE) ? fr_whose_class((PyTypeObject *)x) : 1;
        return others < 0 ? NULL : others ? fr_called_instead(x) : Py_NewRef(x);
    }
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && !fr_is_accelerated(x) && !fr_is_outside(x) && type != keeper_type) {
        if (!PyModule_Check(x) && type->tp_call) {
            others = fr_crossing_is_partial(x) ? fr_whose_it_is(x) : fr_whose_class(type);
            if (others != FR_UNTOLD)
                return others < 0 ? NULL : others && !fr_membrane_is_plain ? fr_outside_of(x) : Py_NewRef(x);
        }
    }
    return fr_called_instead(x);
}

/* Of an array: what rounds otherwise, or is sooner, is frit's. */
static PyObject *
plain_method(PyObject *array, PyObject *name, bool rounds)
{
    PyObject *of = rounds ? shared(array) : Py_NewRef(array), *value = of ? PyObject_GetAttr(of, name) : NULL;

    if (value && of != array)
        Py_SETREF(value, keeper_of(value, plain_vectorcall));
    Py_XDECREF(of);
    return value;
}

static PyObject *
power_of(PyObject *a, PyObject *b, bool in_place)
{
    return in_place ? PyNumber_InPlacePower(a, b, Py_None) : PyNumber_Power(a, b, Py_None);
}

/* a ** b, or in place, in a plain call: of arrays it is frit's. */
static PyObject *
plain_power(PyObject *a, PyObject *b, bool in_place)
{
    PyObject *of = PyArray_CheckExact(a) ? a : PyArray_CheckExact(b) ? b : NULL;
    PyObject *by, *result;
    int64_t   v;

    if (of == a && !in_place && PyLong_CheckExact(b) && fr_value_small_int(b, &v) && v == 2 && !fr_env_waits_for_code()) {
        result = fr_functions_at_once(FR_OP_square, &a);
        if (result || PyErr_Occurred())
            return result;
    }
    if (!of)
        return plain_result(power_of(a, b, in_place));
    if (!(by = shared(of)))
        return NULL;
    result = of == a ? power_of(by, b, in_place) : power_of(a, by, in_place);
    if (result == by && in_place)
        Py_SETREF(result, Py_NewRef(of));
    Py_DECREF(by);
    return plain_result(result);
}

static PyObject *
power(PyObject *a, PyObject *b, bool in_place)
{
    return fr_membrane_is_plain ? plain_power(a, b, in_place) : power_of(a, b, in_place);
}

PyObject *
fr_called_power(PyObject *two, bool in_place)
{
    if (!PyTuple_CheckExact(two) || PyTuple_GET_SIZE(two) != 2) {
        PyErr_SetString(PyExc_TypeError, "a pair is wanted");
        return NULL;
    }
    return power(PyTuple_GET_ITEM(two, 0), PyTuple_GET_ITEM(two, 1), in_place);
}

/* ---- powers with an exponent that stands in the code: `To(2)[x]` is x ** 2 */

struct to {
    PyObject_HEAD
    PyObject *exponent;
};

static PyObject *
to_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct to *t = (struct to *)type->tp_alloc(type, 0);

    if (t && ((kwargs && PyDict_GET_SIZE(kwargs)) || !PyArg_ParseTuple(args, "O:_To", &t->exponent)))
        Py_CLEAR(t);
    if (t)
        Py_INCREF(t->exponent);
    return (PyObject *)t;
}

static PyObject *
to_item(PyObject *self, PyObject *x)
{
    return power(x, ((struct to *)self)->exponent, false);
}

static PyObject *
to_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("O(O)", Py_TYPE(self), ((struct to *)self)->exponent);
}

static void
to_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct to *)self)->exponent);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef to_methods[] = {{"__reduce__", to_reduce, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static PyType_Slot to_slots[] = {{Py_tp_new, to_new}, {Py_mp_subscript, to_item}, {Py_tp_methods, to_methods},
                                 {Py_tp_dealloc, to_dealloc}, {0, NULL}};
static PyType_Spec to_spec = {"frit._core._To", sizeof(struct to), 0, Py_TPFLAGS_DEFAULT, to_slots};

int
fr_called_rounds(PyObject *name)
{
    return rounded ? PySet_Contains(rounded, name) : 0;
}

PyObject *
fr_crossing_method(PyObject *o, PyObject *name, bool rounds)
{
    PyObject *value, *tensor = NULL;

    if (PyArray_CheckExact(o)) {
        if (fr_membrane_is_plain)
            return plain_method(o, name, rounds);
        if (!(o = tensor = fr_lent_come(o)))
            return NULL;
    }
    if (fr_is_tensor(o)) {
        value = PyObject_GetAttr(o, name);
    } else if (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && fr_whose_class(Py_TYPE(o)) < 0) {
        value = NULL;
    } else if ((value = PyObject_GetAttr(o, name))) {
        Py_SETREF(value, fr_crossing_called(value));
    }
    Py_XDECREF(tensor);
    return value;
}

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
few_names(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return fr_few_names();
}

PyMethodDef fr_called_methods[] = {
    {"keeper", keeper, METH_O, "keeper(what, /)\n--\n\nCalls it with arrays for loans."},
    {"reader", reader, METH_O, "reader(what, /)\n--\n\nCalls it when what is stored into lent memory is there."},
    {"looper", looper, METH_O, "looper(what, /)\n--\n\nCalls it with iterators of others that it may go over later."},
    {"asker", asker, METH_O, "asker(what, /)\n--\n\nCalls it as others' unless the arguments are the user's objects."},
    {"plain", plain, METH_VARARGS,
     "plain(ours, theirs, name, /)\n--\n\nCalls a function of frit's and gives arrays and numbers; with NumPy's function, which has the\n"
     "same bits, only where that can be done at once. `name` is NumPy's, or empty."},
    {"few_names", few_names, METH_NOARGS, "few_names()\n--\n\nThe functions of NumPy's that csrc/bind/numpy/few.h has."},
    {NULL, NULL, 0, NULL},
};

void
fr_called_set(PyObject *find, PyObject *names)
{
    Py_XSETREF(find_callable, Py_NewRef(find));
    Py_XSETREF(rounded, Py_NewRef(names));
}

int
fr_called_init(PyObject *module)
{
    PyObject *to = PyType_FromSpec(&to_spec);
    int       st = to ? PyModule_AddObjectRef(module, "_To", to) : -1;

    Py_XDECREF(to);
    keeper_type = (PyTypeObject *)PyType_FromSpec(&keeper_spec);
    return keeper_type ? st : -1;
}
