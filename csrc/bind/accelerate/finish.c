/* bind/accelerate/finish.c -- how an accelerated call ends: everything is computed together, the arguments' memory is
 * theirs again, and arrays stand where tensors stood. */
#include "base/span.h"
#include "base/alloc.h"
#include "bind/accelerate/callee.h"
#include "bind/numpy/npy.h"

/* ---- loans: arrays, and the tensors that stand for them during a call */

bool
fr_loans_give_back(const struct fr_loan *loan, int n, bool keep)
{
    struct fr_err err;
    fr_status     st = FR_OK;

    for (int i = 0; i < n; i++) {
        if (FR_UNLIKELY(fr_object(loan[i].tensor)->locked))
            PyArray_CLEARFLAGS(fr_array(loan[i].array), NPY_ARRAY_WRITEABLE); /* as the tensor was made by its flags */
        if (!fr_share_is_idle(loan[i].tensor)) {
            fr_status s;

            fr_share_reshape(loan[i].array, loan[i].tensor);
            if (FR_UNLIKELY(fr_call_is_interrupted()))
                fr_storage_copy_for_readers(fr_of(loan[i].tensor)->storage);
            s = fr_share_give_back(loan[i].tensor, keep, st == FR_OK ? &err : NULL);
            st = st == FR_OK ? s : st;
        }
    }
    return fr_errors_check(st, &err) == 0;
}

static PyObject *
pairs_of(const struct fr_loan *loan, int n)
{
    PyObject *pairs = PyList_New(n);

    for (int i = 0; pairs && i < n; i++) {
        PyObject *pair = PyTuple_Pack(2, loan[i].array, loan[i].tensor);

        if (pair)
            PyList_SET_ITEM(pairs, i, pair);
        else
            Py_CLEAR(pairs);
    }
    return pairs;
}

bool
fr_loans_are_kept(const struct fr_loan *loan, int n)
{
    for (int i = 0; i < n; i++)
        if (Py_REFCNT(loan[i].tensor) > 1)
            return true;
    return fr_made_stay();
}

static PyObject *replace; /* of python/frit/_left.py */

bool
fr_loans_replace(const struct fr_loan *loan, int n, PyObject *function, PyObject *values)
{
    PyObject *pairs = pairs_of(loan, n), *done = NULL;

    if (pairs)
        done = PyObject_CallFunctionObjArgs(replace, pairs, function, values, NULL);
    Py_XDECREF(pairs);
    Py_XDECREF(done);
    return done != NULL;
}

void
fr_loans_end(const struct fr_loan *loan, int n)
{
    struct fr_err err;
    fr_status     st;

    while (n > 0) {
        PyObject *t = loan[--n].tensor;

        if (fr_share_rest(t))
            continue;
        st = fr_share_give_back(t, true, &err); /* somebody else has it, too */
        FR_ASSERT(st == FR_OK); /* it was idle, or is over */
        fr_object(t)->end = FR_END_NOTHING;
        if (Py_REFCNT(t) > 1)
            fr_made_leave(t); /* an array over the argument's memory */
        Py_DECREF(t);
    }
}

/* The array or tensor that owns the memory of `a`; NULL: it is neither's, and may be that of several. */
static PyObject *
owner_of(PyObject *a)
{
    PyObject *tensor, *root = fr_share_root(a, &tensor);

    return tensor ? tensor : PyArray_BASE(fr_array(root)) ? NULL : root;
}

bool
fr_loans_are_apart(PyObject *const *array, int n)
{
    PyObject *owner[FR_LOANS_MAX];

    for (int i = 0; i < n; i++) {
        owner[i] = owner_of(array[i]);
        for (int j = 0; j < i; j++) {
            if (!owner[i] || !owner[j])
                return false;
            if (owner[i] == owner[j] && PyArray_DESCR(fr_array(array[i])) != PyArray_DESCR(fr_array(array[j])) &&
                fr_share_dtype(array[i]) != fr_share_dtype(array[j]))
                return false;
        }
    }
    return true;
}

/* ---- computing */

static bool
is_pending(PyObject *x)
{
    return fr_is_tensor(x) && fr_tensor_is_pending(fr_of(x));
}

static size_t
n_results(PyObject *result)
{
    return PyTuple_CheckExact(result) ? (size_t)PyTuple_GET_SIZE(result) : 1;
}

/* The pending ones of one result, or of the items of a tuple. */
static size_t
add_results(PyObject *result, const struct fr_tensor **list)
{
    size_t n = 0;

    if (is_pending(result))
        list[n++] = fr_of(result);
    else if (PyTuple_CheckExact(result))
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++)
            if (is_pending(PyTuple_GET_ITEM(result, i)))
                list[n++] = fr_of(PyTuple_GET_ITEM(result, i));
    return n;
}

/* Handles that are to be computed together, and those that the call has left. */
struct roots {
    const struct fr_tensor *few[64], **list;
    size_t                  n;
};

/* Makes room for so many of the caller's own. */
static fr_status
begin_roots(struct roots *r, size_t n, struct fr_err *err)
{
    size_t room = n + fr_made_left(NULL);

    r->n = 0;
    r->list = r->few;
    if (room > FR_LEN(r->few) && !(r->list = fr_malloc(room * sizeof *r->list)))
        return fr_fail(err, FR_ENOMEM, "Unable to allocate a list of %zu tensors", room);
    return FR_OK;
}

static fr_status
eval_roots(struct roots *r, bool again, bool stays, struct fr_err *err)
{
    static struct fr_span_known end_of_call;
    fr_status st;

    r->n += fr_made_left(r->list + r->n);
    if (FR_UNLIKELY(fr_spans_on()))
        fr_span_why = (struct fr_span_why){fr_span_name_of(&end_of_call, "end"), fr_site_here()};
    st = (again ? fr_tensor_eval_again : stays ? fr_tensor_eval : fr_tensor_eval_shown)(r->list, (int)r->n, err);
    if (r->list != r->few)
        fr_free(r->list);
    return st;
}

fr_status
fr_loans_eval(const struct fr_loan *loan, int n_loans, PyObject *result, bool again, struct fr_err *err)
{
    bool         within = result && fr_call_depth > 1, stays;
    struct roots r;
    fr_status    st;

    if ((st = begin_roots(&r, (size_t)n_loans + (within ? n_results(result) : 0), err)) != FR_OK)
        return st;
    for (int i = 0; i < n_loans; i++)
        if (is_pending(loan[i].tensor))
            r.list[r.n++] = fr_of(loan[i].tensor);
    stays = fr_call_keeps && r.n == 0;      /* else some goes to arguments on the host */
    r.n += within ? add_results(result, r.list + r.n) : 0;
    return eval_roots(&r, again, stays, err);
}

/* ---- the end of a call the short way */

/* What the caller gets for one result. */
static PyObject *
shown(const struct fr_loan *loan, int n, PyObject *x)
{
    if (!fr_is_tensor(x))
        return Py_NewRef(x);
    for (int i = 0; i < n; i++)
        if (loan[i].tensor == x)
            return Py_NewRef(loan[i].array);
    return fr_shown_last(x);
}

/* The result with arrays for tensors; what is in containers becomes what it stands for, or is replaced. */
static PyObject *
all_shown(const struct fr_loan *loan, int n, PyObject *result)
{
    if (!PyTuple_CheckExact(result))
        return shown(loan, n, result);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); i++) {
        PyObject *x = PyTuple_GET_ITEM(result, i), *o = shown(loan, n, x);

        if (!o)
            return NULL;
        PyTuple_SET_ITEM(result, i, o); /* whoever has the tuple was to see arrays in it */
        Py_DECREF(x);
    }
    return Py_NewRef(result);
}

PyObject *
fr_finish(struct fr_callee *f, const struct fr_loan *loan, int n, PyObject *result, struct fr_watch *watch, bool repeated)
{
    struct fr_err err;
    fr_status     st;
    PyObject     *out = NULL;

    if (watch)
        fr_capture_ran(watch);
    st = fr_loans_eval(loan, n, result, repeated, &err);
    if (st != FR_OK)
        fr_errors_raise(st, &err);
    else if (watch)
        fr_capture_keep(watch, f, loan, n, result);
    /* A warning that has become an exception does not undo what was computed. */
    if (fr_loans_give_back(loan, n, st == FR_OK || st == FR_ERAISED) && st == FR_OK)
        out = all_shown(loan, n, result);
    Py_DECREF(result);
    if (out && FR_UNLIKELY(fr_loans_are_kept(loan, n)) && !fr_loans_replace(loan, n, FR_CALLEE(f->call, copy), out))
        Py_CLEAR(out);
    fr_loans_end(loan, n);
    return out;
}

void
fr_finish_raised(PyObject *call, const struct fr_loan *loan, int n)
{
    PyObject     *type, *value, *trace;
    struct fr_err err;
    fr_status     st;

    PyErr_Fetch(&type, &value, &trace);
    fr_call_raised(type);
    for (int i = 0; i < n; i++)
        fr_info_sync(FR_SYNC_eval, fr_of(loan[i].tensor)); /* a call that raises is not made again without running */
    if ((st = fr_loans_eval(loan, n, NULL, false, &err)) != FR_OK)
        fr_errors_raise(st, &err);
    if (fr_loans_give_back(loan, n, st == FR_OK || st == FR_ERAISED) && st == FR_OK && fr_loans_are_kept(loan, n))
        fr_loans_replace(loan, n, FR_CALLEE(call, copy), Py_None);
    if (PyErr_Occurred()) /* what went wrong at the end, with the function's own exception behind it */
        fr_errors_add_context(type, value, trace);
    else
        PyErr_Restore(type, value, trace);
    fr_loans_end(loan, n);
}

static PyObject *
set_replace(PyObject *module, PyObject *f)
{
    (void)module;
    Py_XSETREF(replace, Py_NewRef(f));
    Py_RETURN_NONE;
}

static PyObject *
shown_method(PyObject *module, PyObject *tensor)
{
    (void)module;
    return fr_is_tensor(tensor) ? fr_shown(tensor) : Py_NewRef(tensor);
}

static PyObject *
set_items(PyObject *module, PyObject *args)
{
    PyObject *tuple, *items;

    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &tuple, &PyList_Type, &items))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple) && i < PyList_GET_SIZE(items); i++) {
        PyObject *old = PyTuple_GET_ITEM(tuple, i);

        PyTuple_SET_ITEM(tuple, i, Py_NewRef(PyList_GET_ITEM(items, i)));
        Py_DECREF(old);
    }
    Py_RETURN_NONE;
}

PyMethodDef fr_finish_methods[] = {
    {"set_replace", set_replace, METH_O,
     "set_replace(f, /)\n--\n\nf(pairs, *values) puts arrays where the values lead to tensors that stand for them."},
    {"shown", shown_method, METH_O,
     "shown(tensor, /)\n--\n\nThe array or number that it stands for: itself, changed, where that can be."},
    {"set_items", set_items, METH_VARARGS,
     "set_items(tuple, items, /)\n--\n\nExchanges the items of a tuple, in which others were to see these."},
    {NULL, NULL, 0, NULL},
};
