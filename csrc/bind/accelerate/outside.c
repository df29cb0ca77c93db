/* bind/accelerate/outside.c -- callables of others, as an accelerated function sees them: they get real arrays and
 * numbers.
 *
 * python/frit/_rewrite.py loads an Outside instead of a global that belongs to somebody else, where it is called, by
 * itself or by its attributes: json.dumps(x), scipy.sparse.diags(x), jitted(x). On the way out every tensor among the
 * arguments becomes the ndarray over its memory, writable as the tensor is and exported, so that writes are seen on both
 * sides, or the NumPy scalar that it stands for. Lists, dicts and sets are changed in place, for they may be changed by
 * the function, too; afterwards tensors stand in them again. What comes back is as it is. */
#include <string.h>

#include "base/alloc.h"
#include "base/span.h"
#include "bind/accelerate/membrane.h"
#include "bind/tensor/tensor.h"

#include <structmember.h>

enum { MAX_DEPTH = 64,      /* of nested containers: deeper ones are passed as they are; */
       FEW_ITEMS = 16,      /* of those that are looked into for what may hold an array */
       MANAGED_DICT = 1 << 4,  /* Py_TPFLAGS_MANAGED_DICT, of 3.12 and later */
       AT_ONCE = 2 };       /* so deep, all that is pending is computed in one plan: containers may hold themselves */

/* ---- arguments out */

struct crossing {
    struct fr_guests guests;
    PyObject        *seen;     /* set of the addresses of containers, */
    PyObject        *changed;  /* and list of those in which ndarrays stand for tensors; NULL: none */
    int              depth;
};

static PyObject *
shown_tensor(struct crossing *c, PyObject *t)
{
    PyObject *lent = fr_membrane_is_active ? fr_lent_array(t) : NULL;

    for (size_t i = 0; i < c->guests.n; i++) /* twice the same is one array */
        if (c->guests.v[i].tensor == t)
            return Py_NewRef(c->guests.v[i].shown);
    if (lent)
        return fr_lent_open(t) ? fr_guests_add(&c->guests, t, Py_NewRef(lent)) : NULL;
    return fr_guests_add(&c->guests, t, fr_numpy_shown(t));
}

static PyObject *shown(void *crossing, PyObject *o);

static PyObject *
shown_tuple(struct crossing *c, PyObject *o)
{
    PyObject *list = fr_containers_changed(o, shown, c), *result;

    if (!list || list == o)
        return list;
    if (PyTuple_CheckExact(o)) {
        result = PyList_AsTuple(list);
    } else if (PyObject_HasAttrString(o, "_make")) { /* a named tuple */
        result = PyObject_CallMethod((PyObject *)Py_TYPE(o), "_make", "O", list);
    } else {
        result = Py_NewRef(o);
    }
    Py_DECREF(list);
    return result;
}

/* An item of the container `o` is another now. */
static int
note_changed(struct crossing *c, PyObject *o)
{
    Py_ssize_t n = c->changed ? PyList_GET_SIZE(c->changed) : 0;

    if (n && PyList_GET_ITEM(c->changed, n - 1) == o)
        return 0;
    if (!c->changed && !(c->changed = PyList_New(0)))
        return -1;
    return PyList_Append(c->changed, o);
}

static int
show_list(struct crossing *c, PyObject *o)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(o); i++) {
        PyObject *item = Py_NewRef(PyList_GET_ITEM(o, i)), *got = shown(c, item);
        bool      same = got == item;

        Py_DECREF(item);
        if (!got)
            return -1;
        if (same || i >= PyList_GET_SIZE(o)) {
            Py_DECREF(got);
        } else if (PyList_SetItem(o, i, got) < 0 || note_changed(c, o) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Keys and elements of sets are numbers, which need not become tensors again. */
static bool
has_tensor_key(PyObject *o)
{
    PyObject  *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(o, &at, &key, &value))
        if (fr_is_tensor(key))
            return true;
    return false;
}

static int
show_dict(struct crossing *c, PyObject *o)
{
    bool       keys = has_tensor_key(o);
    PyObject  *copy = PyDict_Copy(o), *key, *value;
    Py_ssize_t at = 0;
    int        failed = !copy;

    if (keys && copy) { /* the order stays */
        PyObject *done = PyObject_CallMethod(o, "clear", NULL);
        failed = !done;
        Py_XDECREF(done);
    }
    while (!failed && PyDict_Next(copy, &at, &key, &value)) { /* nobody else changes the copy */
        PyObject *got = shown(c, value), *k = fr_is_tensor(key) ? shown_tensor(c, key) : Py_NewRef(key);

        failed = !got || !k || ((keys || got != value) && PyObject_SetItem(o, k, got) < 0) ||
                 (got != value && note_changed(c, o) < 0);
        Py_XDECREF(got);
        Py_XDECREF(k);
    }
    Py_XDECREF(copy);
    return failed ? -1 : 0;
}

/* A frozenset, or the elements of a set that is changed in place. */
static PyObject *
shown_set(struct crossing *c, PyObject *o)
{
    PyObject *elements = PySequence_Tuple(o), *result = NULL;
    PyObject *list = elements ? fr_containers_changed(elements, shown, c) : NULL;

    if (!list)
        goto out;
    if (list == elements) {
        result = Py_NewRef(o);
    } else if (PyFrozenSet_Check(o)) {
        result = PyFrozenSet_New(list);
    } else if (PySet_Clear(o) == 0) {
        PyObject *done = PyObject_CallMethod(o, "update", "O", list);
        result = done ? Py_NewRef(o) : NULL;
        Py_XDECREF(done);
    }
out:
    Py_XDECREF(elements);
    Py_XDECREF(list);
    return result;
}

/* Whether this container was met before in this call. */
static int
was_seen(struct crossing *c, PyObject *o)
{
    PyObject *address = PyLong_FromVoidPtr(o);
    int       yes = -1;

    if (address && (c->seen || (c->seen = PySet_New(NULL))) && (yes = PySet_Contains(c->seen, address)) == 0 &&
        PySet_Add(c->seen, address) < 0)
        yes = -1;
    Py_XDECREF(address);
    return yes;
}

/* A view of a dict as Python lays it out; its headers say so up to 3.12. */
struct view {
    PyObject_HEAD
    PyObject *dict;
};

static bool
is_dict_view(PyObject *o)
{
    return PyDictKeys_Check(o) || PyDictValues_Check(o) || PyDictItems_Check(o);
}

static bool
is_container(PyObject *o)
{
    return PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) || is_dict_view(o);
}

/* `o` as somebody else may have it. */
static PyObject *
shown(void *crossing, PyObject *o)
{
    struct crossing *c = crossing;
    PyObject        *result = NULL;
    int              seen;

    if (fr_is_tensor(o))
        return shown_tensor(c, o);
    if (!is_container(o) || c->depth == MAX_DEPTH)
        return Py_NewRef(o);
    c->depth++;
    if (PyTuple_Check(o))
        result = shown_tuple(c, o);
    else if (PyAnySet_Check(o))
        result = shown_set(c, o);
    else {
        PyObject *holder = is_dict_view(o) ? ((struct view *)o)->dict : o;

        seen = was_seen(c, holder);
        if (seen > 0 || (seen == 0 && (PyList_Check(holder) ? show_list(c, holder) : show_dict(c, holder)) == 0))
            result = Py_NewRef(o);
    }
    c->depth--;
    return result;
}

/* ---- and back */

/* The tensor that was shown as this array; borrowed. */
static PyObject *
tensor_of(const struct crossing *c, PyObject *o)
{
    for (size_t i = 0; fr_numpy_is_array(o) && i < c->guests.n; i++)
        if (c->guests.v[i].shown == o)
            return c->guests.v[i].tensor;
    return NULL;
}

static int
restore(const struct crossing *c, PyObject *o)
{
    PyObject  *key, *value, *t;
    Py_ssize_t at = 0;
    int        failed = 0;

    if (PyList_Check(o)) {
        for (; !failed && at < PyList_GET_SIZE(o); at++)
            if ((t = tensor_of(c, PyList_GET_ITEM(o, at))))
                failed = PyList_SetItem(o, at, Py_NewRef(t));
    } else {
        while (!failed && PyDict_Next(o, &at, &key, &value))
            if ((t = tensor_of(c, value)))
                failed = PyDict_SetItem(o, key, t);
    }
    return failed;
}

/* Ends the crossing; an exception that is set already stays. */
static int
come_back(struct crossing *c)
{
    PyObject *type, *value, *trace;
    int       failed = 0;

    PyErr_Fetch(&type, &value, &trace);
    for (Py_ssize_t i = 0; c->changed && i < PyList_GET_SIZE(c->changed); i++)
        failed |= restore(c, PyList_GET_ITEM(c->changed, i));
    fr_guests_free(&c->guests);
    Py_XDECREF(c->seen);
    Py_XDECREF(c->changed);
    if (type)
        PyErr_Restore(type, value, trace);
    return failed;
}

/* ---- whose */

/* Whether a class without a module is none of Python's: some that C makes say no name of one. */
static bool
is_nobodys(const PyTypeObject *type)
{
    PyObject   *builtins = PyImport_AddModule("builtins");  /* borrowed */
    const char *name = type->tp_name;
    size_t      n = strlen(name);

    return builtins && !PyDict_GetItemString(PyModule_GetDict(builtins), name) && strcmp(name, "generator") != 0 &&
           strcmp(name, "coroutine") != 0 && !(n > 9 && strcmp(name + n - 9, "_iterator") == 0) && strncmp(name, "dict_", 5) != 0;
}

bool
fr_outside_is_strange(PyTypeObject *type)
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
        yes |= strcmp(text, "builtins") == 0 && is_nobodys(type);
    }
    PyErr_Clear();
    Py_XDECREF(root);
    Py_XDECREF(module);
    return yes;
}

/* ---- the call */

/* Whether code of others may soon be asked for parts of this object by numbers of ours, or get them as parts. */
static bool
has_parts(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);

    return PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_as_mapping && type->tp_as_mapping->mp_subscript &&
           !is_container(o) && !PyUnicode_Check(o) && !PyBytes_Check(o) && !fr_is_tensor(o) && !fr_numpy_is_array(o) &&
           !fr_numpy_is_scalar(o);
}

void
fr_outside_met(PyObject *o)
{
    if (has_parts(o))
        fr_scalar_at_once(true);
}

static PyObject *
result_of(PyObject *o)
{
    if (o && fr_call_depth)
        fr_outside_met(o);
    return o;
}

/* Whether nothing that may hold an array is in it: numbers, text, tensors, and a few of these. */
static bool
holds_nothing(PyObject *o, int depth)
{
    bool is_list = PyTuple_CheckExact(o) || PyList_CheckExact(o);

    if (fr_is_tensor(o) || fr_callee_is_number(o) || PyType_Check(o))
        return true;
    if (!is_list || depth == AT_ONCE || PySequence_Fast_GET_SIZE(o) > FEW_ITEMS)
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (!holds_nothing(PySequence_Fast_GET_ITEM(o, i), depth + 1))
            return false;
    return true;
}

/* Whether others may find objects of the user's behind it, which hold what has been stored there. */
static bool
leads_on(PyObject *o)
{
    return PyFunction_Check(o) || PyMethod_Check(o) ||
           (PyType_HasFeature(Py_TYPE(o), Py_TPFLAGS_HEAPTYPE) && !fr_is_tensor(o) && !PyType_Check(o) && !PyModule_Check(o) &&
            !fr_numpy_is_array(o) && (Py_TYPE(o)->tp_dictoffset || PyType_HasFeature(Py_TYPE(o), MANAGED_DICT)));
}

static bool
starts_threads(PyTypeObject *type)
{
    static const char *const modules[] = {"threading", "concurrent", "multiprocessing", "asyncio"};
    PyObject                *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    const char              *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool                     is = false;

    for (size_t i = 0; name && i < FR_LEN(modules); i++)
        is |= strncmp(name, modules[i], strlen(modules[i])) == 0;
    PyErr_Clear();
    Py_XDECREF(module);
    return is;
}

/* The object whose method a function is; NULL: it is none. */
static PyObject *
object_of(PyObject *func)
{
    return PyCFunction_Check(func) ? PyCFunction_GET_SELF(func) : PyMethod_Check(func) ? PyMethod_GET_SELF(func) : NULL;
}

/* Whether it is a method of one of numpy.random's generators. */
static bool
draws(PyObject *func)
{
    PyObject *of = object_of(func);

    return of && strncmp(Py_TYPE(of)->tp_name, "numpy.random", 12) == 0;
}

/* Before others are called who may get at what is lent otherwise than by a tensor among the arguments: by an object that is
 * one of them, or has the method. */
static bool
settle(PyObject *func, fr_args args, Py_ssize_t n)
{
    PyObject     *of = object_of(func);
    bool          is_free = !of || PyModule_Check(of) || draws(func), leads;
    struct fr_err err;

    if (!fr_membrane_is_active)
        return true;
    for (Py_ssize_t i = 0; i < n && is_free; i++)
        is_free = holds_nothing(args[i], 0);
    if (is_free)
        return true;
    if (!fr_lent_settle())
        return false;
    leads = of && starts_threads(Py_TYPE(of));
    for (Py_ssize_t i = 0; i < n && !leads; i++)
        leads = leads_on(args[i]);
    if (!leads)
        return true;
    /* What has been stored where others may look, all in one plan. */
    if (fr_errors_check(fr_loans_eval(NULL, 0, NULL, false, &err), &err) < 0)
        return false;
    fr_made_leave_all(fr_lent_note);
    return true;
}

/* References to arrays that are lent, among what is shown: with more of them after a call, it has kept one. */
static Py_ssize_t
refs_of_arrays(const struct crossing *c)
{
    Py_ssize_t n = 0;

    for (size_t i = 0; i < c->guests.n; i++)
        if (fr_numpy_is_array(c->guests.v[i].shown) && fr_is_tensor(c->guests.v[i].tensor) &&
            fr_lent_array(c->guests.v[i].tensor) == c->guests.v[i].shown)
            n += Py_REFCNT(c->guests.v[i].shown);
    return n;
}

static bool
be_loud(const struct crossing *c)
{
    for (size_t i = 0; i < c->guests.n; i++)
        if (fr_is_tensor(c->guests.v[i].tensor) && fr_lent_array(c->guests.v[i].tensor) == c->guests.v[i].shown &&
            !fr_lent_keep_loud(c->guests.v[i].shown))
            return false;
    return true;
}

static PyObject *
call_shown(PyObject *func, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    struct crossing c = {.guests = FR_HANDLES(c.guests)};
    Py_ssize_t      n_all = n + (names ? PyTuple_GET_SIZE(names) : 0), i = 0, kept;
    PyObject       *small[12], **list = small, *result = NULL, *t;
    struct fr_err   err;
    fr_status       st;

    FR_TRACE_HERE();
    if (fr_containers_eval(args, n_all, AT_ONCE, FR_SYNC_numpy) < 0)
        return NULL;
    if ((st = fr_runtime_flush(&err)) != FR_OK)
        return fr_errors_raise(st, &err);
    if (!settle(func, args, n_all))
        return NULL;
    if (n_all > (Py_ssize_t)FR_LEN(small) && !(list = fr_malloc((size_t)n_all * sizeof *list)))
        return PyErr_NoMemory();
    while (i < n_all && (list[i] = shown(&c, args[i])))
        i++;
    kept = refs_of_arrays(&c);
    if (i == n_all)
        result = PyObject_Vectorcall(func, list, (size_t)n, names);
    if (result && fr_membrane_is_active && refs_of_arrays(&c) != kept && !be_loud(&c))
        Py_CLEAR(result);
    if (result && (t = tensor_of(&c, result)))
        Py_SETREF(result, Py_NewRef(t));
    if (come_back(&c) < 0)
        Py_CLEAR(result);
    while (i-- > 0)
        Py_DECREF(list[i]);
    if (list != small)
        fr_free(list);
    return result;
}

/* ---- the object */

struct outside {
    PyObject_HEAD
    PyObject      *what;
    PyObject      *parts;      /* dict: name -> the Outside of that attribute; NULL: none yet */
    vectorcallfunc vectorcall;
    struct fr_span_known span; /* its name, while somebody profiles */
};

static PyTypeObject *outside_type;
static PyObject     *ufunc_type;

/* Whether it is print(), while arrays have no data: it says so of each. */
static bool
prints_without_data(PyObject *func)
{
    PyObject *builtins = FR_UNLIKELY(fr_fallback_instead != NULL) ? PyImport_AddModule("builtins") : NULL;

    return builtins && func == PyDict_GetItemString(PyModule_GetDict(builtins), "print");
}

/* Ends the span of a call, under a name such as "pandas.DataFrame.groupby". An exception that is set stays. */
static FR_COLD void
end_span(const struct fr_span_mark *mark, struct outside *o)
{
    PyObject   *type, *value, *trace, *module, *name;
    const char *of, *text;
    char        whole[160];

    PyErr_Fetch(&type, &value, &trace);
    if (!fr_span_knows(&o->span)) {
        if (!(name = PyObject_GetAttrString(o->what, "__qualname__"))) {
            PyErr_Clear();
            name = PyObject_GetAttrString((PyObject *)Py_TYPE(o->what), "__qualname__");
        }
        if (!(module = PyObject_GetAttrString(o->what, "__module__")))
            PyErr_Clear();
        text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
        of = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
        if (!of || strcmp(of, "builtins") == 0)
            of = "";
        snprintf(whole, sizeof whole, "%.*s%s%s", (int)strcspn(of, "."), of, *of ? "." : "", text ? text : "a call");
        fr_span_know(&o->span, whole);
        Py_XDECREF(name);
        Py_XDECREF(module);
    }
    fr_span_end(mark, FR_SPAN_others, o->span.name, FR_SITE_LINE(fr_site_here()), 0);
    PyErr_Restore(type, value, trace);
}

static PyObject *
call_outside(PyObject *func, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Py_ssize_t n_all = n + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject  *result;

    if (fr_fallback_composed(func, args, n, names, &result))
        return result;
    if (prints_without_data(func))
        return PyObject_Vectorcall(func, args, (size_t)n, names);
    if (FR_UNLIKELY(fr_fallback_instead != NULL) && draws(func) &&
        ((result = fr_fallback_ask(func, NULL, args, n, names)) || PyErr_Occurred()))
        return result;      /* (arrays of many random numbers are not made where nothing is computed) */
    for (Py_ssize_t i = 0; i < n_all; i++)
        if (fr_is_tensor(args[i]) || is_container(args[i]))
            return result_of(call_shown(func, args, n, names));
    return settle(func, args, n_all) ? result_of(PyObject_Vectorcall(func, args, (size_t)n, names)) : NULL;
}

static PyObject *
outside_vectorcall(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    struct outside           *o = (struct outside *)self;
    const struct fr_span_mark mark = fr_span_begin();
    PyObject                 *result;

    if (FR_LIKELY(mark.begin == 0))
        return call_outside(o->what, args, PyVectorcall_NARGS(nargsf), names);
    Py_INCREF(self);    /* it may be gone when the call ends */
    result = call_outside(o->what, args, PyVectorcall_NARGS(nargsf), names);
    end_span(&mark, o);
    Py_DECREF(self);
    return result;
}

bool
fr_is_outside(PyObject *o)
{
    return Py_IS_TYPE(o, outside_type);
}

PyObject *
fr_outside_of(PyObject *what)
{
    struct outside *o = (struct outside *)outside_type->tp_alloc(outside_type, 0);

    if (o) {
        o->what = Py_NewRef(what);
        o->vectorcall = outside_vectorcall;
    }
    return (PyObject *)o;
}

/* Whether the attribute `o` may take arguments of ours. Ufuncs and accelerated functions know tensors. */
static bool
is_taking(PyObject *o)
{
    return PyModule_Check(o) || (PyCallable_Check(o) && !PyObject_TypeCheck(o, (PyTypeObject *)ufunc_type) &&
                                 !fr_is_accelerated(o) && !Py_IS_TYPE(o, outside_type));
}

static PyObject *
outside_getattro(PyObject *self, PyObject *name)
{
    struct outside *o = (struct outside *)self;
    PyObject       *value = PyObject_GetAttr(o->what, name), *part;

    if (!value || !is_taking(value))
        return value;
    part = o->parts ? PyDict_GetItemWithError(o->parts, name) : NULL;
    if (part && ((struct outside *)part)->what == value) {
        Py_DECREF(value);
        return Py_NewRef(part);
    }
    part = PyErr_Occurred() ? NULL : fr_outside_of(value);
    /* Methods of objects are new each time. */
    if (part && (PyModule_Check(o->what) || PyType_Check(o->what)) &&
        ((!o->parts && !(o->parts = PyDict_New())) || PyDict_SetItem(o->parts, name, part) < 0))
        Py_CLEAR(part);
    Py_DECREF(value);
    return part;
}

/* What is not called after all, but an operand of what is, is what it was: (ctypes.c_double * 3)(*x). */
static PyObject *
inside(PyObject *o)
{
    return Py_IS_TYPE(o, outside_type) ? ((struct outside *)o)->what : o;
}

static PyObject *
outside_subscript(PyObject *self, PyObject *key)
{
    return PyObject_GetItem(inside(self), key);
}

static PyObject *
outside_richcompare(PyObject *a, PyObject *b, int op)
{
    return PyObject_RichCompare(inside(a), inside(b), op);
}

static int
outside_bool(PyObject *self)
{
    return PyObject_IsTrue(inside(self));
}

static Py_hash_t
outside_hash(PyObject *self)
{
    return PyObject_Hash(inside(self));
}

#define OPERATORS(OP)                                                                                                   \
    OP(add, Add) OP(subtract, Subtract) OP(multiply, Multiply) OP(remainder, Remainder) OP(true_divide, TrueDivide)     \
    OP(floor_divide, FloorDivide) OP(lshift, Lshift) OP(rshift, Rshift) OP(and, And) OP(xor, Xor) OP(or, Or)            \
    OP(matrix_multiply, MatrixMultiply)
#define OPERATOR(name, Name)                                                                                            \
    static PyObject *outside_##name(PyObject *a, PyObject *b) { return PyNumber_##Name(inside(a), inside(b)); }
OPERATORS(OPERATOR)
#undef OPERATOR

static int
outside_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct outside *o = (struct outside *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(o->what);
    Py_VISIT(o->parts);
    return 0;
}

static int
outside_clear(PyObject *self)
{
    Py_CLEAR(((struct outside *)self)->what);
    Py_CLEAR(((struct outside *)self)->parts);
    return 0;
}

static void
outside_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    outside_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct outside, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Somebody else's callable, which gets arrays and numbers for tensors."},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_getattro, outside_getattro},
    {Py_mp_subscript, outside_subscript},
    {Py_tp_richcompare, outside_richcompare},
    {Py_tp_hash, outside_hash},
    {Py_nb_bool, outside_bool},
#define OPERATOR(name, Name) {Py_nb_##name, outside_##name},
    OPERATORS(OPERATOR)
#undef OPERATOR
    {Py_tp_traverse, outside_traverse},
    {Py_tp_clear, outside_clear},
    {Py_tp_dealloc, outside_dealloc},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    "frit.accelerate.Outside", sizeof(struct outside), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

static PyObject *
outside(PyObject *module, PyObject *what)
{
    (void)module;
    return is_taking(what) || !PyCallable_Check(what) ? fr_outside_of(what) : Py_NewRef(what);
}

PyMethodDef fr_outside_methods[] = {
    {"outside", outside, METH_O,
     "outside(what, /)\n--\n\nWhat is loaded instead of a module or callable of others."},
    {NULL, NULL, 0, NULL},
};

int
fr_outside_init(void)
{
    outside_type = (PyTypeObject *)PyType_FromSpec(&spec);
    ufunc_type = fr_numpy_attr("ufunc");
    return outside_type && ufunc_type ? 0 : -1;
}
