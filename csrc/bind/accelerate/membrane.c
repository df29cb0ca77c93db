/* bind/accelerate/membrane.c -- see membrane.h: the call, and how the outermost one ends. */
#include "bind/accelerate/crossing.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/ways.h"
#include "runtime/explain.h"

/* ---- the end of the outermost call */

static PyObject *
shown(PyObject *result)
{
    PyObject *array = fr_is_tensor(result) ? fr_lent_array(result) : NULL;

    if (array)
        return Py_NewRef(array);
    if (fr_is_tensor(result))
        return fr_shown_last(result);
    return fr_crossing_leave_items(result, INT_MAX) < 0 ? NULL : Py_NewRef(result);
}

/* Somebody has kept tensors of loans, or what cannot become what it is. */
static bool
replace_kept(const struct fr_loan *loan, int n, PyObject *function, PyObject *args, PyObject *result)
{
    PyObject *values = PyTuple_Pack(2, args, result);
    bool      done = values && fr_loans_replace(loan, n, function, values);

    Py_XDECREF(values);
    return done;
}

/* The same for what tensors have become in a call that became plain. */
static bool
replace_twins(PyObject *function, PyObject *args, PyObject *result)
{
    int                   n;
    const struct fr_loan *twin = fr_lent_twins(&n);
    bool                  kept = false;

    for (int i = 0; i < n; i++)
        kept |= Py_REFCNT(twin[i].tensor) > 1;
    return !kept || replace_kept(twin, n, function, args, result);
}

/* Computes all that is pending and returns the result (stolen; NULL: an exception is set, which stays) as arrays. */
static PyObject *
finish(PyObject *function, PyObject *args, PyObject *result, const struct fr_lent *another)
{
    PyObject             *type, *value, *trace, *out = NULL;
    struct fr_err         err;
    fr_status             st;
    int                   n;
    const struct fr_loan *loan = fr_lent_loans(&n);
    bool                  raised = !result;

    PyErr_Fetch(&type, &value, &trace);
    fr_call_raised(type);
    if (raised)
        result = Py_NewRef(Py_None);
    st = fr_loans_eval(loan, n, result, false, &err);
    fr_membrane_is_active = false; /* others may run from here on */
    if (st != FR_OK)
        fr_errors_raise(st, &err);
    /* A warning that has become an exception does not undo what was computed. */
    if (fr_loans_give_back(loan, n, st == FR_OK || st == FR_ERAISED) && st == FR_OK)
        out = shown(result);
    Py_DECREF(result);
    if (out && FR_UNLIKELY(fr_loans_are_kept(loan, n)) && !replace_kept(loan, n, function, args, out))
        Py_CLEAR(out);
    if (out && !replace_twins(function, args, out))
        Py_CLEAR(out);
    fr_lent_end(n, another);
    if (!raised)
        return out;
    if (out)
        PyErr_Restore(type, value, trace);
    else
        fr_errors_add_context(type, value, trace);
    Py_XDECREF(out);
    return NULL;
}

/* ---- the call */

static PyObject *
run(PyObject *function, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    PyObject  *few[16], **in = few, *callee, *result = NULL;
    Py_ssize_t i = 0;

    if (n_args > (Py_ssize_t)FR_LEN(few) && !(in = fr_malloc((size_t)n_args * sizeof *in)))
        return PyErr_NoMemory();
    while (i < n_args && (in[i] = fr_crossing_comes(args[i])))
        i++;
    fr_guard_kept();
    callee = i == n_args ? fr_crossing_called(function) : NULL;
    if (callee)
        result = PyObject_Vectorcall(callee, in, (size_t)(n_args - (names ? PyTuple_GET_SIZE(names) : 0)), names);
    Py_XDECREF(callee);
    while (i-- > 0)
        Py_DECREF(in[i]);
    if (in != few)
        fr_free(in);
    return result;
}

PyObject *
fr_membrane_call_plain(PyObject *function, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    bool      outermost = !fr_membrane_is_plain;
    PyObject *callee, *result;

    if (outermost && !fr_whose_search())
        return NULL;
    fr_membrane_is_plain = true;
    if ((callee = fr_crossing_called(function)))
        result = PyObject_Vectorcall(callee, args, (size_t)(n_args - (names ? PyTuple_GET_SIZE(names) : 0)), names);
    else
        result = NULL;
    Py_XDECREF(callee);
    fr_membrane_is_plain = !outermost;
    return result;
}

/* With arrays as they are. */
static PyObject *
run_plain(PyObject *function, struct fr_call_stats *stats, struct fr_habit *habit, fr_args args, Py_ssize_t n_args,
          PyObject *names)
{
    bool      is_timed = !fr_membrane_is_plain && fr_plain_is_timed(habit, true);
    int64_t   began = is_timed ? fr_now_ns() : 0;
    uint64_t  before = fr_membrane_n_large, n_hot = fr_way_taken(FR_WAY_hot);
    PyObject *result = fr_membrane_call_plain(function, args, n_args, names);

    if (habit->begins)
        fr_plain_note_first(habit, result && fr_way_taken(FR_WAY_hot) != n_hot, fr_now_ns() - began);
    else if (is_timed && result)
        fr_plain_time(habit, true, fr_now_ns() - began);
    if (fr_membrane_n_large != before)
        fr_plain_met_large(habit);
    fr_count_way(FR_WAY_unchanged);
    stats->kernels = stats->fallbacks = stats->syncs = 0;
    stats->calls++;
    stats->unchanged++;
    return result;
}

PyObject *
fr_membrane_call(PyObject *function, struct fr_call_stats *stats, struct fr_habit *habit, fr_args args, Py_ssize_t n_args,
                 PyObject *names, bool explained)
{
    bool                    outermost = !fr_membrane_is_active, became_plain = false;
    struct fr_call_counters before, body, after;
    struct fr_lent          another;             /* of a call that ends: somebody's __del__ calls */
    PyObject               *result, *all;
    int64_t                 began;

    if (fr_membrane_is_plain || (outermost && !explained && fr_plain_is(habit, args, n_args)))
        return run_plain(function, stats, habit, args, n_args, names);
    all = outermost ? fr_args_tuple(args, n_args) : NULL;
    if (outermost && !all)
        return NULL;
    began = outermost && fr_plain_is_timed(habit, false) ? fr_now_ns() : 0;
    FR_TRACE_HERE();
    fr_count_way(FR_WAY_crossed);
    fr_info_call_counters(&before);
    fr_call_begin();
    if (outermost) {
        fr_lent_begin(&another);
        fr_plain_begin(habit, !explained && fr_call_depth == 1);
    }
    fr_membrane_is_active = true;
    result = run(function, args, n_args, names);
    fr_info_call_counters(&body);
    if (explained)
        fr_explain_over();
    if (outermost) {
        bool raised = !result;

        became_plain = fr_membrane_is_plain;
        fr_membrane_is_plain = false;
        result = finish(function, all, result, &another);
        if (raised)
            fr_info_call_counters(&body);
    }
    fr_call_end();
    Py_XDECREF(all);
    fr_info_call_counters(&after);
    stats->kernels = fr_info_since(after.n_kernels, before.n_kernels);
    stats->fallbacks = fr_info_since(after.n_fallbacks, before.n_fallbacks);
    stats->syncs = fr_info_since(body.n_syncs, before.n_syncs); /* the one at the end is none */
    stats->calls++;
    if (outermost && fr_call_depth == 0) {
        if (began && result && !became_plain)
            fr_plain_time(habit, false, fr_now_ns() - began);
        fr_plain_judge(habit, &before, &after, became_plain);
    }
    return result;
}

static PyObject *
crossed(PyObject *module, PyObject *args)
{
    PyObject             *f, *plain, *keys, *key, *value, *names, *out, **list;
    struct fr_call_stats *stats;
    struct fr_habit       habit = {.n_turns = 0};
    Py_ssize_t            at = 0, n, k = 0;
    const bool            kept = fr_call_keeps;
    int                   explained;

    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!pO!:crossed", &f, &PyTuple_Type, &plain, &PyDict_Type, &keys, &explained,
                          fr_callee_stats_type, &stats))
        return NULL;
    n = PyTuple_GET_SIZE(plain);
    names = PyTuple_New(PyDict_GET_SIZE(keys));
    if (!names || !(list = fr_malloc((size_t)(n + PyDict_GET_SIZE(keys) + 1) * sizeof *list)))
        return PyErr_NoMemory();
    if (n)
        memcpy(list, PySequence_Fast_ITEMS(plain), (size_t)n * sizeof *list);
    for (; PyDict_Next(keys, &at, &key, &value); k++) {
        PyTuple_SET_ITEM(names, k, Py_NewRef(key));
        list[n + k] = value;
    }
    fr_call_keeps |= fr_device_now() == FR_DEVICE_META; /* nobody has a number for what has no data */
    out = fr_membrane_call(f, stats, &habit, list, n + k, names, explained);
    fr_call_keeps = kept;
    fr_free(list);
    Py_DECREF(names);
    return out;
}

static PyObject *
called_plain(PyObject *module, PyObject *args)
{
    (void)module;
    if (PyTuple_GET_SIZE(args) == 0) {
        PyErr_SetString(PyExc_TypeError, "a function is wanted");
        return NULL;
    }
    return fr_membrane_call_plain(PyTuple_GET_ITEM(args, 0), PySequence_Fast_ITEMS(args) + 1, PyTuple_GET_SIZE(args) - 1, NULL);
}

PyMethodDef fr_membrane_methods[] = {
    {"called_plain", called_plain, METH_VARARGS, "called_plain(function, /, *args)\n--\n\nA plain call, for tests."},
    {"crossed", crossed, METH_VARARGS,
     "crossed(function, args, kwargs, explained, stats, /)\n--\n\nThe call of a function in which values cross; explained: it does so however it is called\n"
     "otherwise, and explain_begin() has been called."},
    {NULL, NULL, 0, NULL},
};
