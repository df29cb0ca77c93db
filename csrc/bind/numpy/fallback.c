/* bind/numpy/fallback.c -- what frit does not do itself is handed to NumPy: correctly, and counted.
 *
 * Every tensor among the arguments, at any depth of lists, tuples and dicts, becomes an ndarray over its evaluated memory,
 * or the number that it stands for.
 * What is written to, and whatever sees the same memory, is exported: what still wants to read it as it was is computed
 * first, then NumPy writes into the very memory. The targets are `out`, the object of a method that writes, the first
 * argument of the functions in `known`, and all arguments of a function that is not NumPy's. Everything else is
 * read-only, and when NumPy complains of that, the call is made again with all arguments as targets. Some functions that
 * only read their arguments make copies of read-only ones, or take a slower way: to those no array is.
 * What comes back is wrapped: an argument's own view as that tensor, a view of it as a window of it, a
 * new array as a tensor over its memory. An ndarray that somebody kept pins its storage. */
#include <string.h>

#include "backends/backend.h"
#include "base/alloc.h"
#include "base/span.h"
#include "base/ways.h"
#include "bind/numpy/few.h"

enum { FEW = 4 };              /* most calls write to fewer memories */
struct call {
    struct fr_guests         guests;      /* tensors among the arguments, and their ndarrays for this call */
    const struct fr_storage *target[FEW]; /* memory that is written to */
    int                      n_targets;
    enum fr_intent           intent;      /* on what is converted */
    bool                     of_tensors;  /* there was one among the arguments */
    bool                     writable;    /* all memory is written to; */
    bool                     seems_so;    /* or the function may believe so, for it will not write */
    int                      depth;
    fr_device         device;        /* of the tensors that are on one */
};

enum { MAX_DEPTH = 64 };       /* of nested containers: deeper ones are passed as they are */

/* ---- arguments in */

/* Everything that NumPy will look at, computed in one plan. */
static int
evaluate(fr_args args, Py_ssize_t n_args)
{
    struct fr_err err;

    FR_TRACE_HERE();
    if (fr_containers_eval(args, n_args, MAX_DEPTH, FR_SYNC_fallback) < 0)
        return -1;
    return fr_errors_check(fr_runtime_flush(&err), &err);
}

/* Notes the memory of the tensors in `o` as written to. */
static void
add_targets(struct call *c, PyObject *o, int depth)
{
    if (fr_is_tensor(o)) {
        if (c->n_targets < FEW)
            c->target[c->n_targets++] = fr_of(o)->storage;
        else
            c->writable = true;
    } else if (depth < MAX_DEPTH && (PyTuple_CheckExact(o) || PyList_CheckExact(o))) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            add_targets(c, PySequence_Fast_GET_ITEM(o, i), depth + 1);
    }
}

static bool
is_written(const struct call *c, const struct fr_storage *s)
{
    bool yes = c->writable;

    for (int i = 0; i < c->n_targets; i++)
        yes |= c->target[i] == s;
    return yes;
}

static PyObject *
convert_tensor(struct call *c, PyObject *o, enum fr_intent intent)
{
    const struct fr_tensor *t = fr_of(o);
    PyObject               *view;

    c->of_tensors = true;
    if (!fr_tensor_is_anywhere(t)) {
        fr_device device = fr_tensor_device(t);

        if (FR_UNLIKELY(c->device == FR_DEVICE_AUTO)) /* as fr_trace_together */
            device = FR_DEVICE_AUTO;
        if (FR_UNLIKELY(c->device && c->device != device && device != FR_DEVICE_AUTO))
            return PyErr_Format(PyExc_ValueError, "tensors on different devices, %s and %s: bring them together with to_device",
                                fr_device_name(c->device), fr_device_name(fr_tensor_device(t)));
        c->device = device;
    }
    if (fr_object(o)->scalar && (intent == FR_READS || intent == FR_TOUCHES))
        return fr_numpy_scalar_of(o); /* a number is handed over as one */
    if (FR_UNLIKELY(fr_tensor_is_away(t)) && (intent == FR_EXPORTS || is_written(c, t->storage)))
        return PyErr_Format(PyExc_ValueError, "NumPy cannot write into memory on %s that others see", fr_device_name(c->device));
    view = fr_numpy_view(o, intent == FR_EXPORTS || is_written(c, t->storage) ? FR_VIEW_EXPORT : FR_VIEW_READ);
    if (view && c->seems_so && !t->readonly)
        PyArray_ENABLEFLAGS(fr_array(view), NPY_ARRAY_WRITEABLE);
    return fr_guests_add(&c->guests, o, view);
}

static PyObject *convert(void *call, PyObject *o);

/* A list or tuple of the same type with converted items; the object itself if nothing changed. */
static PyObject *
convert_sequence(struct call *c, PyObject *o)
{
    PyObject *list = fr_containers_changed(o, convert, c), *result;

    if (!list || list == o || PyList_Check(o))
        return list;
    result = PyList_AsTuple(list);
    Py_DECREF(list);
    return result;
}

static PyObject *
convert_dict(struct call *c, PyObject *o)
{
    PyObject  *copy = PyDict_Copy(o), *key, *value;
    Py_ssize_t pos = 0;

    while (copy && PyDict_Next(copy, &pos, &key, &value)) { /* nobody else changes the copy */
        PyObject *got = convert(c, value);
        if (!got || (got != value && PyDict_SetItem(copy, key, got) < 0))
            Py_CLEAR(copy);
        Py_XDECREF(got);
    }
    return copy;
}

static PyObject *
convert(void *call, PyObject *o)
{
    struct call   *c = call;
    enum fr_intent intent = c->intent;
    PyObject      *result;

    if (fr_is_tensor(o))
        return convert_tensor(c, o, intent);
    if (c->depth >= MAX_DEPTH)
        return Py_NewRef(o);
    c->depth++;
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        result = convert_sequence(c, o);
    } else if (PyDict_CheckExact(o)) {
        c->intent = FR_READS;
        result = convert_dict(c, o);
        c->intent = intent;
    } else {
        result = Py_NewRef(o);
    }
    c->depth--;
    return result;
}

/* ---- results out */

/* A result belongs where the call's tensors do. */
static PyObject *
settled(const struct call *c, PyObject *o)
{
    if (o && c->device && fr_is_tensor(o))
        fr_tensor_settle(fr_of(o), c->device);
    return o;
}

static PyObject *
wrap_array(struct call *c, PyObject *o, PyObject *tuple)
{
    for (size_t i = 0; i < c->guests.n; i++) {
        const struct fr_guest *g = &c->guests.v[i];
        PyObject              *window;

        if (o == g->shown)
            return Py_NewRef(g->tensor);
        window = fr_type_view_of(g->tensor, fr_numpy_window(o, g->shown, g->tensor), true);
        if (window || PyErr_Occurred())
            return window;
    }
    return settled(c, fr_numpy_wrap(o, tuple));
}

/* `tuple`: the one that it is an item of, or NULL. */
static PyObject *
wrap(struct call *c, PyObject *o, PyObject *tuple)
{
    PyObject *copy, *make;
    bool      same = true;

    if (fr_numpy_is_array(o))
        return wrap_array(c, o, tuple);
    /* What is computed of tensors is a tensor; where tensors stand for somebody's arrays, NumPy's number is it. */
    if (c->of_tensors && fr_numpy_is_scalar(o) && !fr_call_depth)
        return settled(c, fr_numpy_number(o));
    if (!PyTuple_Check(o) && !PyList_CheckExact(o))
        return Py_NewRef(o);
    copy = PyList_New(PySequence_Fast_GET_SIZE(o));
    for (Py_ssize_t i = 0; copy && i < PyList_GET_SIZE(copy); i++) {
        PyObject *item =
            wrap(c, PySequence_Fast_GET_ITEM(o, i), PyTuple_CheckExact(o) ? o : NULL);
        if (!item) {
            Py_CLEAR(copy);
        } else {
            same &= item == PySequence_Fast_GET_ITEM(o, i);
            PyList_SET_ITEM(copy, i, item);
        }
    }
    if (copy && same) {
        Py_DECREF(copy);
        return Py_NewRef(o);
    }
    if (!copy || PyList_Check(o))
        return copy;
    if (PyTuple_CheckExact(o)) {
        Py_SETREF(copy, PyList_AsTuple(copy));
        return copy;
    }
    /* A named tuple is made again from its items. */
    make = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "_make");
    if (!make)
        PyErr_Clear();
    Py_SETREF(copy, make ? PyObject_CallOneArg(make, copy) : Py_NewRef(o));
    Py_XDECREF(make);
    return copy;
}

/* Ends the call's views; an exception that is set already stays. */
static int
release_guests(struct call *c)
{
    PyObject *type, *value, *trace;
    int       st = 0;

    PyErr_Fetch(&type, &value, &trace);
    for (size_t i = 0; i < c->guests.n; i++) {
        PyObject *view = c->guests.v[i].shown;

        if (Py_REFCNT(view) > 1) {
            if (c->seems_so)
                PyArray_CLEARFLAGS(fr_array(view), NPY_ARRAY_WRITEABLE);
            st |= fr_numpy_keep(view); /* somebody still holds it */
        }
    }
    fr_guests_free(&c->guests);
    if (type)
        PyErr_Restore(type, value, trace);
    return st;
}

/* ---- the call */

/* True, and the exception is gone, if NumPy refused to write into a read-only array. */
static bool
was_read_only(void)
{
    PyObject *type, *value, *trace, *text;
    bool      yes = false;

    if (!PyErr_ExceptionMatches(PyExc_ValueError))
        return false;
    PyErr_Fetch(&type, &value, &trace);
    text = value ? PyObject_Str(value) : NULL;
    if (text && PyUnicode_AsUTF8(text)) {
        const char *s = PyUnicode_AsUTF8(text);
        yes = strstr(s, "read-only") || strstr(s, "readonly");
    }
    Py_XDECREF(text);
    if (!yes) {
        PyErr_Restore(type, value, trace);
        return false;
    }
    PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return true;
}

/* NumPy's functions of which more is to be known than that they read their arguments: python/frit/_numpy.py has them. */
enum { WRITES_FIRST = 1, SEEMS_WRITABLE };
static struct {
    const char *name;
    int         is;        /* SEEMS_WRITABLE: it asks for an array that lies well and takes a read-only one for one that
                              does not */
    PyObject   *function;
} known[] = {
#define KNOWN(name, is) {#name, is, NULL},
#include "numpy_names.def"
};

static bool
is_ufunc(PyObject *o)
{
    static PyTypeObject *ufunc;
    PyObject            *add;

    if (!ufunc && (add = fr_numpy_attr("add"))) {
        ufunc = (PyTypeObject *)Py_NewRef(Py_TYPE(add));
        Py_DECREF(add);
    }
    PyErr_Clear();
    return o && Py_IS_TYPE(o, ufunc);
}

/* Whether it is the method `at` of a ufunc, which writes into read-only arrays without a word. */
static bool
is_ufunc_at(PyObject *func)
{
    return PyCFunction_Check(func) && is_ufunc(PyCFunction_GET_SELF(func)) &&
           strcmp(((PyCFunctionObject *)func)->m_ml->ml_name, "at") == 0;
}

static int
what_is_known(PyObject *func)
{
    for (size_t i = 0; i < FR_LEN(known); i++) {
        if (!known[i].function && !(known[i].function = fr_numpy_attr(known[i].name)))
            PyErr_Clear();
        if (known[i].function == func)
            return known[i].is;
    }
    return is_ufunc_at(func) ? WRITES_FIRST : 0;
}

/* By C where few elements are in it. */
static PyObject *
call_function(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames)
{
    fr_few    few = fr_is_off(FR_OFF_few) ? NULL : fr_few_function(func);
    PyObject *result = few ? few(args, n, kwnames) : NULL;

    if (result)
        fr_count_way(FR_WAY_few);
    return result || PyErr_Occurred() ? result : PyObject_Vectorcall(func, args, (size_t)n, kwnames);
}

/* One attempt. func is called with the converted args; func NULL: the method `name` of args[0]. */
static PyObject *
attempt(PyObject *func, PyObject *name, fr_args args, Py_ssize_t n, PyObject *kwnames,
        enum fr_intent first, bool writable, bool *retry)
{
    Py_ssize_t  n_kw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, n_all = n + n_kw, i;
    PyObject   *small[12], **list = small, *raw = NULL, *result = NULL;
    int         is = func ? what_is_known(func) : 0;
    struct call c = {.guests = FR_HANDLES(c.guests), .writable = writable || first == FR_TOUCHES,
                     .seems_so = is == SEEMS_WRITABLE};
    bool        any_read = false;

    if (n_all > (Py_ssize_t)FR_LEN(small) && !(list = fr_malloc((size_t)n_all * sizeof *list)))
        return PyErr_NoMemory();
    if (n > 0 && (first == FR_WRITES || is == WRITES_FIRST))
        add_targets(&c, args[0], 0);
    for (i = n; i < n_all; i++)
        if (PyUnicode_Compare(PyTuple_GET_ITEM(kwnames, i - n), fr_str_out) == 0)
            add_targets(&c, args[i], 0);
    for (i = 0; i < n_all; i++) {
        c.intent = i == 0 ? first : FR_READS;
        list[i] = convert(&c, args[i]);
        if (!list[i])
            goto out;
    }
    for (size_t k = 0; k < c.guests.n; k++)
        any_read |= !fr_of(c.guests.v[k].tensor)->readonly && !PyArray_ISWRITEABLE(fr_array(c.guests.v[k].shown));
    raw = func ? call_function(func, list, n, kwnames) : PyObject_VectorcallMethod(name, list, (size_t)n, kwnames);
    if (!raw)
        *retry = !writable && any_read && was_read_only();
out:
    while (i-- > 0)
        Py_DECREF(list[i]);
    if (list != small)
        fr_free(list);
    if (raw) {
        result = wrap(&c, raw, NULL);
        Py_DECREF(raw);
    }
    if (release_guests(&c) < 0)
        Py_CLEAR(result);
    return result;
}

/* Whether a function is NumPy's, which do to their arguments what is known above. */
static bool
is_numpys(PyObject *func)
{
    PyObject   *module = is_ufunc(func) ? NULL : PyObject_GetAttrString(func, "__module__");
    const char *text = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    bool        yes = is_ufunc(func) || (PyCFunction_Check(func) && is_ufunc(PyCFunction_GET_SELF(func))) ||
               (text && strncmp(text, "numpy", 5) == 0 && (text[5] == '\0' || text[5] == '.'));

    PyErr_Clear();
    Py_XDECREF(module);
    return yes;
}

PyObject *fr_fallback_instead;

PyObject *
fr_fallback_ask(PyObject *func, PyObject *name, fr_args args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *plain = fr_args_tuple(args, n), *named = PyDict_New(), *result = NULL;
    int       st = plain && named ? 0 : -1;

    for (Py_ssize_t i = 0; st == 0 && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        st = PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[n + i]);
    if (st == 0)
        result = PyObject_CallFunctionObjArgs(fr_fallback_instead, func ? func : name, plain, named, NULL);
    Py_XDECREF(plain);
    Py_XDECREF(named);
    if (result == Py_NotImplemented)
        Py_CLEAR(result);
    return result;
}

static PyObject *
call(PyObject *func, PyObject *name, fr_args args, Py_ssize_t n, PyObject *kwnames,
     enum fr_intent first)
{
    const uint32_t            span = fr_fallback_span;
    const struct fr_span_mark mark = fr_span_begin();
    bool                      retry = false;
    PyObject                 *result = NULL;

    if (FR_UNLIKELY(fr_fallback_instead != NULL) &&
        ((result = fr_fallback_ask(func, name, args, n, kwnames)) || PyErr_Occurred()))
        return result;
    if (evaluate(args, n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0)) == 0)
        result = attempt(func, name, args, n, kwnames, first, false, &retry);
    if (retry)
        result = attempt(func, name, args, n, kwnames, first, true, &retry);
    if (FR_UNLIKELY(mark.begin != 0))
        fr_span_end(&mark, FR_SPAN_handed, span, FR_SITE_LINE(fr_site_here()), 0);
    return result;
}

/* ---- functions that NumPy makes of others */

/* What stands for it is a function, or what gives one for these arguments. Either may refuse. */
bool
fr_fallback_composed(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames, PyObject **result)
{
    static PyObject *table;
    Py_ssize_t       n_all = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0), i = 0;
    PyObject        *module, *found;
    bool             refused;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    *result = NULL;
    if (!table) {
        if (!(module = PyImport_ImportModule("frit._composed")))
            return true;
        table = PyObject_GetAttrString(module, "table");
        Py_DECREF(module);
        if (!table)
            return true;
    }
    found = PyDict_GetItemWithError(table, func);
    if (!found)
        PyErr_Clear(); /* not hashable: not a function of NumPy's */
    while (found && i < n_all && !fr_containers_hold_tensor(args[i], 0))
        i++;
    if (!found || i == n_all)
        return false;
    for (i = 0; i < n_all; i++) /* what it makes beside them is where they are */
        if (fr_is_tensor(args[i]))
            fr_device_follow(fr_of(args[i]));
    found = PyFunction_Check(found) ? Py_NewRef(found) : PyObject_Vectorcall(found, args, (size_t)n, kwnames);
    if (found && found != Py_NotImplemented)
        *result = PyObject_Vectorcall(found, args, (size_t)n, kwnames);
    if (*result == Py_NotImplemented)
        Py_CLEAR(*result);
    refused = found == Py_NotImplemented || (!*result && !PyErr_Occurred());
    Py_XDECREF(found);
    return !refused;
}

PyObject *
fr_fallback_call(PyObject *func, fr_args args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *result;

    if (fr_fallback_composed(func, args, n, kwnames, &result))
        return result;
    fr_fallback_names_count_function(func);
    return call(func, NULL, args, n, kwnames, is_numpys(func) ? FR_READS : FR_TOUCHES);
}

PyObject *
fr_fallback_name(const char *name, fr_args args, Py_ssize_t n, PyObject *kwnames)
{
    struct fr_name *e = fr_fallback_names_get(name, false);
    PyObject       *result;

    if (!e || fr_fallback_composed(e->object, args, n, kwnames, &result))
        return e ? result : NULL;
    fr_fallback_names_count(e);
    return call(e->object, NULL, args, n, kwnames, FR_READS);
}

/* A method of NumPy's number: what it may write to is its own. */
static PyObject *
call_of_number(PyObject *name, fr_args args, Py_ssize_t n, PyObject *kwnames)
{
    Py_ssize_t n_all = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    PyObject **own = fr_malloc((size_t)n_all * sizeof *own), *result = NULL;

    if (!own)
        return PyErr_NoMemory();
    memcpy(own, args, (size_t)n_all * sizeof *own);
    fr_info_sync(FR_SYNC_fallback, fr_of(args[0]));
    if ((own[0] = fr_numpy_scalar_of(args[0]))) {
        result = call(NULL, name, own, n, kwnames, FR_READS);
        Py_DECREF(own[0]);
    }
    fr_free(own);
    return result;
}

PyObject *
fr_fallback_method(const char *name, enum fr_intent first, fr_args args, Py_ssize_t n,
                   PyObject *kwnames)
{
    struct fr_name *e = fr_fallback_names_get(name, true);

    if (!e)
        return NULL;
    fr_fallback_names_count(e);
    if (n && fr_is_tensor(args[0]) && fr_object(args[0])->scalar)
        return call_of_number(e->object, args, n, kwnames);
    return call(NULL, e->object, args, n, kwnames, first);
}

PyObject *
fr_fallback_dict(PyObject *func, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args), n_kw = kwargs ? PyDict_GET_SIZE(kwargs) : 0, i = 0;
    PyObject **list = fr_malloc((size_t)(n + n_kw) * sizeof *list), *kwnames = NULL, *key, *value;
    PyObject  *result = NULL;
    Py_ssize_t pos = 0;

    if (!list)
        return PyErr_NoMemory();
    if (n_kw && !(kwnames = PyTuple_New(n_kw)))
        goto out;
    for (Py_ssize_t k = 0; k < n; k++)
        list[k] = PyTuple_GET_ITEM(args, k);
    while (n_kw && PyDict_Next(kwargs, &pos, &key, &value)) {
        PyTuple_SET_ITEM(kwnames, i, Py_NewRef(key));
        list[n + i++] = value;
    }
    result = fr_fallback_call(func, list, n, kwnames);
out:
    Py_XDECREF(kwnames);
    fr_free(list);
    return result;
}

/* ---- module functions */

static PyObject *
numpy_call(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    PyObject *kwargs = n == 3 && args[2] != Py_None ? args[2] : NULL;

    (void)module;
    if (n < 2 || n > 3 || !PyTuple_Check(args[1]) || (kwargs && !PyDict_Check(kwargs))) {
        PyErr_SetString(PyExc_TypeError,
                        "numpy_call() takes a function, a tuple and optionally a dict");
        return NULL;
    }
    return fr_fallback_dict(args[0], args[1], kwargs);
}

PyMethodDef fr_fallback_methods[] = {
    {"numpy_call", (PyCFunction)(void (*)(void))numpy_call, METH_FASTCALL,
     "numpy_call(func, args, kwargs=None, /)\n--\n\n"
     "func(*args, **kwargs) with every Tensor in them, at any depth of lists, tuples and dicts, as\n"
     "an ndarray over its evaluated memory. New ndarrays among the results become Tensors\n"
     "without a copy; views of a Tensor become views of it. Counted in stats()[\"fallbacks\"]."},
    {NULL, NULL, 0, NULL},
};
