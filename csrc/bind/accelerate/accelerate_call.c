/* bind/accelerate/accelerate_call.c -- a call of a closed function: ndarrays and numbers in, arrays and numbers out.
 *
 * python/frit/accelerate.py makes the copy that runs. Such a call should cost little more than what it computes: it is made
 * again as one before (replay.c), or its arguments, each an ndarray or a plain number, are lent; what is in containers goes
 * by enter.c. What is refused here crosses the membrane, as all calls of other functions do. */
#include "base/clock.h"
#include "base/ways.h"
#include "bind/accelerate/membrane.h"

#include <string.h>
#include <structmember.h>

#include "bind/numpy/npy.h"

/* ---- the function */

/* Whether a function has the code with which it was looked at, or has got one since that crosses: then that is noted. */
static bool
has_code(PyObject *seen, PyObject *code)
{
    PyObject *old = PyTuple_GET_ITEM(seen, 1);

    if (FR_LIKELY(code == old))
        return true;
    if (!fr_crossing_is_of(code, old))
        return false;
    PyTuple_SET_ITEM(seen, 1, Py_NewRef(code));
    Py_DECREF(old);
    return true;
}

/* Whether functions have the code and the defaults with which they were looked at. */
static bool
are_as_they_were(PyObject *functions)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(functions); i++) {
        PyObject               *seen = PyTuple_GET_ITEM(functions, i);
        const PyFunctionObject *f = (PyFunctionObject *)PyTuple_GET_ITEM(seen, 0);

        if (!has_code(seen, f->func_code) ||
            (f->func_defaults ? f->func_defaults : Py_None) != PyTuple_GET_ITEM(seen, 2) ||
            (f->func_kwdefaults ? f->func_kwdefaults : Py_None) != PyTuple_GET_ITEM(seen, 3))
            return false;
    }
    return true;
}

bool
fr_accelerate_is_current(PyObject *call)
{
    PyObject *watched = FR_CALLEE(call, watched), *replaced = FR_CALLEE(call, replaced);

    if (!are_as_they_were(FR_CALLEE(call, functions)))
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(watched); i++) {
        PyObject *w = PyTuple_GET_ITEM(watched, i);
        PyObject *v = PyDict_GetItemWithError(PyTuple_GET_ITEM(w, 0), PyTuple_GET_ITEM(w, 1));
        if ((v ? v : Py_None) != PyTuple_GET_ITEM(w, 2)) /* None: there was no such name */
            return false;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(replaced); i++) {
        PyObject *r = PyTuple_GET_ITEM(replaced, i);
        if (PyCell_GET(PyTuple_GET_ITEM(r, 0)) != PyTuple_GET_ITEM(r, 1))
            return false;
    }
    return true;
}

static bool
may_be_array(PyObject *v)
{
    return v && (fr_numpy_is_array(v) || fr_is_container(v));
}

/* Whether the function reads arrays that are not its arguments: they may be the same memory, and what it computes of them
 * is to be traced, also where it finds them in containers. */
static bool
sees_arrays(PyObject *call)
{
    for (Py_ssize_t i = 0; i < fr_callee_n_globals(call); i++)
        if (may_be_array(fr_callee_global(call, i)))
            return true;
    for (Py_ssize_t i = 0; i < fr_callee_n_cells(call); i++)
        if (may_be_array(fr_callee_cell(call, i)))
            return true;
    return false;
}

/* ---- one call */

enum {
    MAX_ARGS = 128,
    MAX_RESULTS = 128,
    NOTED_AFTER = 3,     /* calls: by then the next takes half of NumPy's time and can bear to be noted, */
    FEW_OPERATIONS = 2,  /* unless it is no more than these, of which a noted call saves a fraction of a microsecond: */
    FEW_NOTED_AFTER = 32, /* to note one costs as much as so many save */
    MOST_PARTS = 1024,   /* of arguments that are looked at for their elements, */
    LOOP_NODES = 2048,   /* which a call that is made again without running does not have, and */
    NODE_ELEMENTS = 8    /* of each node: with fewer the calls from Python count, and not the elements */
};

struct call {
    struct fr_loan loan[MAX_ARGS]; /* of different arrays; tensors are our references */
    int            n;
    PyObject      *in[MAX_ARGS];   /* what the function gets; borrowed */
};

/* 1: all arguments are lent; 0: they are not for the short way; -1: an exception that is no
 * Exception. */
static int
borrow_all(struct call *c, PyObject *const *args, Py_ssize_t n_args)
{
    PyObject *array[MAX_ARGS];
    int       n = 0;

    for (Py_ssize_t i = 0; i < n_args; i++) {
        PyObject *a = args[i];
        if (PyArray_CheckExact(a)) {
            array[n++] = a;
        } else if (!fr_callee_is_number(a)) {
            return 0;
        }
    }
    if (n > 1 && !fr_loans_are_apart(array, n))
        return 0;
    for (Py_ssize_t i = 0; i < n_args; i++) {
        PyObject *a = c->in[i] = args[i];
        int       k = 0;
        if (!PyArray_CheckExact(a))
            continue;
        while (k < c->n && c->loan[k].array != a)
            k++;
        if (k == c->n) {
            PyObject *t = fr_share_borrow(a);
            if (!t) {
                bool go_on = PyErr_ExceptionMatches(PyExc_Exception);
                if (go_on)
                    PyErr_Clear();
                fr_loans_give_back(c->loan, c->n, false);
                fr_loans_end(c->loan, c->n);
                return go_on ? 0 : -1;
            }
            c->loan[k].array = a;
            c->loan[k].tensor = t;
            c->n++;
        }
        c->in[i] = c->loan[k].tensor;
    }
    fr_guard_kept();
    return 1;
}

static bool
is_simple(PyObject *o)
{
    return fr_is_tensor(o) || fr_callee_is_number(o);
}

static bool
all_simple(PyObject *result)
{
    if (!PyTuple_CheckExact(result))
        return is_simple(result);
    if (PyTuple_GET_SIZE(result) > MAX_RESULTS)
        return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++)
        if (!is_simple(PyTuple_GET_ITEM(result, i)))
            return false;
    return true;
}

static Py_ssize_t
n_named(PyObject *names)
{
    return names ? PyTuple_GET_SIZE(names) : 0;
}

/* The call as NumPy's: what is exact has the same bits here and there. */
static PyObject *
run_unchanged(PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(call, stats);

    stats->kernels = stats->fallbacks = stats->syncs = 0;
    stats->calls++;
    stats->unchanged++;
    fr_count_way(FR_WAY_unchanged);
    return fr_membrane_call_plain(FR_CALLEE(call, exact), args, n_args, names);
}

/* True, with *result, if the call was made again as one before. */
static bool
replay(struct fr_callee *f, fr_args args, Py_ssize_t n_args, PyObject *names, PyObject **result)
{
    struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);
    uint64_t           n_kernels;
    bool               found;

    if (!f->replays || fr_call_depth > 0 || fr_callee_is_traced() || fr_is_off(FR_OFF_replayed))
        return false;
    FR_TRACE_HERE();
    if (FR_UNLIKELY(fr_trace_at_once)) /* each operation is to be seen by itself */
        return false;
    fr_call_depth++;
    found = fr_replays_call(f->replays, f->call, args, n_args, names, result, &n_kernels);
    fr_call_depth--;
    if (found) {
        stats->kernels = n_kernels;
        stats->fallbacks = stats->syncs = 0;
        stats->calls++;
    }
    return found;
}

/* Whether calls can be noted, as far as is known. */
static bool
may_be_noted(const struct fr_callee *f)
{
    const struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);

    return stats->syncs == 0 && !fr_call_keeps && !fr_is_off(FR_OFF_replayed) && fr_replays_wanted(f->replays);
}

static bool add_elements(PyObject *, int *n_left, int64_t *n);

static bool
add_dict(PyObject *dict, int *n_left, int64_t *n)
{
    PyObject  *k, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &k, &value))
        if (!PyUnicode_CheckExact(k) || !add_elements(value, n_left, n))
            return false;
    return true;
}

/* Adds the elements of an array, of a number, and of lists and dicts of a few of them. False: there is something else, or
 * a complex number. */
static bool
add_elements(PyObject *o, int *n_left, int64_t *n)
{
    if (--*n_left < 0)
        return false;
    if (PyArray_CheckExact(o)) {
        *n += PyArray_SIZE(fr_array(o));
        return !PyArray_ISCOMPLEX(fr_array(o));
    }
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
            if (!add_elements(PySequence_Fast_GET_ITEM(o, i), n_left, n))
                return false;
        return true;
    }
    if (PyDict_CheckExact(o))
        return add_dict(o, n_left, n);
    ++*n;
    return fr_callee_is_number(o) && !PyModule_CheckExact(o) && !PyComplex_Check(o);
}

/* The elements of all arguments; -1: some are not for a function that is exact for real numbers. */
static int64_t
n_elements_of(fr_args args, Py_ssize_t n_args)
{
    int64_t n = 0;
    int     n_left = MOST_PARTS;

    for (Py_ssize_t i = 0; i < n_args; i++)
        if (!add_elements(args[i], &n_left, &n))
            return -1;
    return n;
}

/* Whether the function itself may be called instead of its copy: all that it does has one right result
 * (python/frit/_exact.py), so the bits are the same. */
static bool
may_be_numpys(const struct fr_callee *f)
{
    return FR_CALLEE(f->call, exact) != Py_None && fr_call_depth == 0 && fr_plain_is_allowed();
}

/* Whether it is to be: a loop over elements, or one that looks at each value before it goes on, is nothing but calls from
 * Python, which NumPy's scalars answer sooner than a graph is traced. */
static bool
is_numpys(const struct fr_callee *f, fr_args args, Py_ssize_t n_args)
{
    int64_t n;

    if (FR_LIKELY(f->n_loop == 0) || !may_be_numpys(f))
        return false;
    n = n_elements_of(args, n_args);
    return n >= 0 && n <= f->n_loop;
}

/* Whether it is to be called once, to see whether that is sooner. */
static bool
is_tried(const struct fr_callee *f, fr_args args, Py_ssize_t n_args)
{
    return FR_UNLIKELY(fr_plain_is_tried(&f->habit)) && may_be_numpys(f) && n_elements_of(args, n_args) >= 0;
}

/* Notes whether a call that was traced and counted this since `began` was such a loop, or may be one, which the next calls
 * that run are. */
static void
note_loop(struct fr_callee *f, fr_args args, Py_ssize_t n_args, const struct fr_call_counters *before,
          const struct fr_call_counters *after, int64_t began)
{
    const struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);
    uint64_t                    n_nodes = after->n_nodes - before->n_nodes;
    int64_t                     n;

    if (!may_be_numpys(f) || !(stats->syncs || n_nodes > LOOP_NODES))
        return;
    if (after->n_elems - before->n_elems > n_nodes * NODE_ELEMENTS && !fr_plain_is_less(before, after)) {
        fr_plain_note_other(&f->habit, fr_now_ns() - began);
        return;
    }
    n = n_elements_of(args, n_args);
    if (n > f->n_loop)
        f->n_loop = n;
}

/* Calls it, for that. */
static PyObject *
try_unchanged(struct fr_callee *f, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    int64_t   n = n_elements_of(args, n_args), began = fr_now_ns();
    PyObject *result = run_unchanged(f->call, args, n_args, names);

    if (result && fr_plain_is_sooner(&f->habit, fr_now_ns() - began))
        f->n_loop = n;
    return result;
}

/* Whether the first call is to be, since the function looks like one of loops over single elements. */
static bool
begins_unchanged(const struct fr_callee *f, fr_args args, Py_ssize_t n_args)
{
    const struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);

    return FR_UNLIKELY(stats->calls == 0) && FR_CALLEE(f->call, elements) == Py_True && may_be_numpys(f) &&
           n_elements_of(args, n_args) >= 0;
}

/* The same of one that is not exact: frit's functions are called in it, and not NumPy's. */
bool
fr_accelerate_is_plain(struct fr_callee *f, fr_args args, Py_ssize_t n_args)
{
    const struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);

    if (f->habit.is_plain || FR_CALLEE(f->call, exact) != Py_None)
        return f->habit.is_plain;
    if (FR_UNLIKELY(stats->calls == 0) && FR_CALLEE(f->call, elements) == Py_True)
        f->habit.begins = fr_plain_is_allowed();
    return FR_UNLIKELY(f->habit.begins || fr_plain_is_tried(&f->habit)) && fr_plain_is(&f->habit, args, n_args);
}

/* Makes it; all others are, too, if loops have left Python. */
static PyObject *
begin_unchanged(struct fr_callee *f, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    unsigned long long before = fr_way_taken(FR_WAY_hot);
    PyObject          *result = run_unchanged(f->call, args, n_args, names);

    if (fr_way_taken(FR_WAY_hot) != before)
        f->n_loop = INT64_MAX;
    return result;
}

/* Whether a traced call is: whoever may be plain for its time alone always is. */
static bool
is_timed(const struct fr_callee *f)
{
    return FR_CALLEE(f->call, exact) != Py_None || fr_plain_is_timed(&f->habit, false);
}

/* Whether this one is to be, to be made again, once it has a plan. */
static bool
is_repeated(const struct fr_callee *f)
{
    const struct fr_call_stats *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);

    return fr_call_depth == 0 && stats->calls >= (f->n_operations <= FEW_OPERATIONS ? FEW_NOTED_AFTER : NOTED_AFTER) &&
           may_be_noted(f);
}

static void
note_stats(struct fr_callee *f, fr_args args, Py_ssize_t n_args, const struct fr_call_counters *before,
           const struct fr_call_counters *body, bool raised, int64_t began)
{
    struct fr_call_stats      *stats = (struct fr_call_stats *)FR_CALLEE(f->call, stats);
    struct fr_call_counters after;

    fr_info_call_counters(&after);
    stats->kernels = fr_info_since(after.n_kernels, before->n_kernels);
    stats->fallbacks = fr_info_since(after.n_fallbacks, before->n_fallbacks);
    stats->syncs = fr_info_since(raised ? after.n_syncs : body->n_syncs, before->n_syncs); /* the one at the end is none */
    stats->calls++;
    f->is_planned = fr_eval_had_plan();
    if (after.n_nodes - before->n_nodes > f->n_operations)
        f->n_operations = after.n_nodes - before->n_nodes;
    if (fr_call_depth == 0 && FR_CALLEE(f->call, exact) == Py_None) {
        if (!raised && began)
            fr_plain_time(&f->habit, false, fr_now_ns() - began);
        fr_plain_judge(&f->habit, before, &after, false);
    }
    note_loop(f, args, n_args, before, &after, began);
}

/* A call of a closed function with more than arrays and numbers. Gives `call` back where it is not for this way. */
static PyObject *
enter(struct fr_callee *f, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    PyObject               *call = f->call, *result;
    struct fr_call_counters before, body;
    struct fr_watch        *watch;
    bool                    refused, repeated = is_repeated(f);
    int64_t                 began;

    if (fr_call_depth > 0)
        return Py_NewRef(call);
    if (!(watch = fr_capture_watch(call, args, n_args, names))) {
        if (repeated && f->is_planned)
            fr_replays_add(&f->replays, NULL);
        return Py_NewRef(call);
    }
    began = is_timed(f) ? fr_now_ns() : 0;
    fr_info_call_counters(&before);
    fr_call_begin();
    result = fr_enter_call(f, watch, n_args, names, repeated, &refused, &body);
    fr_call_end();
    fr_capture_end(watch);
    if (refused)
        return Py_NewRef(call);
    note_stats(f, args, n_args, &before, &body, !result, began);
    return result;
}

/* Whether argument i, of which the last are named, may be the stand-in. */
static bool
takes_module(PyObject *call, Py_ssize_t i, Py_ssize_t n_args, PyObject *names)
{
    PyObject  *takes = FR_CALLEE(call, takes_module);
    Py_ssize_t n_plain = n_args - n_named(names);

    if (i < n_plain)
        return i < PyTuple_GET_SIZE(takes) && PyTuple_GET_ITEM(takes, i) != Py_None;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(takes); k++)
        if (PyTuple_GET_ITEM(takes, k) != Py_None &&
            PyUnicode_Compare(PyTuple_GET_ITEM(takes, k), PyTuple_GET_ITEM(names, i - n_plain)) == 0)
            return true;
    return false;
}

/* The arguments with the stand-in for NumPy where it may be; those in `own` if it is among them. */
static fr_args
with_stand_in(PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names, PyObject **own)
{
    bool changed = false;

    for (Py_ssize_t i = 0; i < n_args && n_args <= MAX_ARGS; i++)
        if (args[i] == fr_callee_numpy && takes_module(call, i, n_args, names)) {
            if (!changed)
                memcpy(own, args, (size_t)n_args * sizeof *own);
            own[i] = fr_callee_stand_in;
            changed = true;
        }
    return changed ? own : args;
}

PyObject *
fr_accelerate_call(struct fr_callee *f, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    PyObject               *call = f->call, *result, *own[MAX_ARGS];
    struct call             c;
    struct fr_call_counters before, body;
    struct fr_watch        *watch = NULL;
    bool                    raised, repeated;
    int64_t                 began;

    args = with_stand_in(call, args, n_args, names, own);
    if (replay(f, args, n_args, names, &result))
        return result;
    if (is_numpys(f, args, n_args))
        return run_unchanged(call, args, n_args, names);
    if (begins_unchanged(f, args, n_args))
        return begin_unchanged(f, args, n_args, names);
    if (is_tried(f, args, n_args))
        return try_unchanged(f, args, n_args, names);
    if (n_args > MAX_ARGS || n_named(names) > 0 || sees_arrays(call) || f->gives_more)
        return enter(f, args, n_args, names);
    c.n = 0;
    switch (borrow_all(&c, args, n_args)) {
    case 0: return enter(f, args, n_args, names);
    case -1: return NULL;
    default: break;
    }
    /* Arrays that are arguments themselves stay where they are: they can be noted when they are lent. */
    repeated = is_repeated(f);
    if (repeated && f->is_planned && !(watch = fr_capture_watch(call, args, n_args, NULL)))
        fr_replays_add(&f->replays, NULL);
    began = is_timed(f) ? fr_now_ns() : 0;
    fr_info_call_counters(&before);
    if (watch)
        fr_capture_begin(watch);
    fr_call_begin();
    result = PyObject_Vectorcall(FR_CALLEE(call, copy), c.in, (size_t)n_args, NULL);
    raised = !result;
    fr_info_call_counters(&body);
    if (raised) {
        fr_finish_raised(call, c.loan, c.n);
    } else {
        f->gives_more |= !all_simple(result);
        result = fr_finish(f, c.loan, c.n, result, watch, repeated);
    }
    fr_call_end();
    fr_capture_end(watch);
    note_stats(f, args, n_args, &before, &body, raised, began);
    return result;
}

static PyObject *
name_modules(PyObject *module, PyObject *args)
{
    PyObject *theirs, *ours;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyModule_Type, &theirs, &PyModule_Type, &ours))
        return NULL;
    Py_XSETREF(fr_callee_numpy, Py_NewRef(theirs));
    Py_XSETREF(fr_callee_stand_in, Py_NewRef(ours));
    Py_RETURN_NONE;
}

PyMethodDef fr_accelerate_methods[] = {
    {"name_modules", name_modules, METH_VARARGS,
     "name_modules(numpy, stand_in, /)\n--\n\nThe modules that are arguments like numbers are."},
    {NULL, NULL, 0, NULL},
};
