/* bind/enter.c -- an accelerated call of a closed function whose arguments hold arrays in lists, dicts and objects.
 *
 * record.c has noted all that the function can reach. While it runs, tensors stand in the place of arrays there too,
 * in the caller's own containers, so that whatever else holds them sees what it would have seen; at the end all is
 * computed together and arrays are put back. What is not an argument stays as it is. */
#include "base/alloc.h"
#include "bind/replay.h"

struct entered {
    const struct fr_watch *w;
    struct fr_loan         loan[FR_LOANS_MAX];
    int                    n_loans;
    PyObject              *inside[FR_REPLAY_LOOKS]; /* what stands for a value; NULL: itself */
    PyObject              *shown;                   /* dict: address of a tensor -> what is shown of it */
    const struct fr_tensor **pending;
    size_t                 n_pending, cap_pending;
};

static const struct fr_look *
look_at(const struct entered *e, int i)
{
    return &e->w->record->look[i];
}

static int
n_looks(const struct entered *e)
{
    return e->w->record->n_looks;
}

static bool
is_mutable(const struct fr_look *l)
{
    return !l->outside && (l->is == IS_LIST || l->is == IS_DICT || l->is == IS_OBJECT);
}

/* ---- in */

/* Whether the arrays may be lent: no two types over one memory, and nothing outside that looks at it. */
static bool
may_lend(const struct entered *e)
{
    PyObject *array[FR_LOANS_MAX];
    int       n = 0;

    for (int i = 0; i < n_looks(e); i++)
        if (look_at(e, i)->is == IS_ARRAY && !look_at(e, i)->outside && look_at(e, i)->same_as == i)
            array[n++] = e->w->found[i];
    for (int i = 0; i < n_looks(e); i++)
        for (int k = 0; look_at(e, i)->is == IS_ARRAY && look_at(e, i)->outside && k < n; k++)
            if (fr_share_meet(e->w->found[i], array[k]))
                return false;
    return fr_loans_are_apart(array, n);
}

static bool
borrow_all(struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);

        if (l->is != IS_ARRAY || l->outside)
            continue;
        if (l->same_as == i) {
            PyObject *t = fr_share_borrow(e->w->found[i]);

            if (!t)
                return false;
            e->loan[e->n_loans++] = (struct fr_loan){e->w->found[i], t};
            e->inside[i] = Py_NewRef(t);
        } else {
            e->inside[i] = Py_XNewRef(e->inside[l->same_as]);
        }
    }
    return true;
}

/* A tuple with tensors for the arrays in it. Containers come before what is in them, so this goes backwards. */
static bool
enter_tuples(struct entered *e)
{
    for (int i = n_looks(e); i-- > 0;) {
        PyObject *tuple = NULL;

        if (look_at(e, i)->is != IS_TUPLE || look_at(e, i)->outside)
            continue;
        for (int k = i + 1; k < n_looks(e); k++) {
            const struct fr_look *l = look_at(e, k);

            if (l->from != FROM_ITEM || l->of != i || !e->inside[k])
                continue;
            if (!tuple && !(tuple = PyTuple_New(look_at(e, i)->size)))
                return false;
            PyTuple_SET_ITEM(tuple, l->at, Py_NewRef(e->inside[k]));
        }
        for (Py_ssize_t k = 0; tuple && k < look_at(e, i)->size; k++)
            if (!PyTuple_GET_ITEM(tuple, k))
                PyTuple_SET_ITEM(tuple, k, Py_NewRef(PyTuple_GET_ITEM(e->w->found[i], k)));
        e->inside[i] = tuple;
    }
    return true;
}

/* Puts a value into a container; its reference stays the caller's. */
static int
put(PyObject *into, const struct fr_look *l, PyObject *value)
{
    PyObject *names;
    int       st;

    if (l->from == FROM_ITEM)
        return PyList_SetItem(into, l->at, Py_NewRef(value));
    if (l->from == FROM_KEY)
        return PyDict_SetItem(into, l->key, value);
    if (!(names = PyObject_GenericGetDict(into, NULL)))
        return -1;
    st = PyDict_SetItem(names, l->key, value);
    Py_DECREF(names);
    return st;
}

static bool
enter_containers(struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);

        if (l->from >= FROM_ITEM && e->inside[i] && is_mutable(look_at(e, l->of)) &&
            put(e->w->found[l->of], l, e->inside[i]) < 0)
            return false;
    }
    return true;
}

/* ---- out */

static PyObject *show(struct entered *e, PyObject *x);

static bool
add_pending(struct entered *e, PyObject *x)
{
    Py_ssize_t at = 0;
    PyObject  *value;
    bool       ok = true;

    if (fr_is_tensor(x)) {
        if (!FR_GROW(e->pending, e->cap_pending, e->n_pending + 1))
            return false;
        e->pending[e->n_pending++] = fr_of(x);
        return true;
    }
    if (!fr_is_container(x))
        return true;
    if (Py_EnterRecursiveCall(" in what an accelerated function gave"))
        return false;
    if (PyDict_CheckExact(x))
        while (ok && PyDict_Next(x, &at, NULL, &value))
            ok = add_pending(e, value);
    else
        for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(x); i++)
            ok = add_pending(e, PySequence_Fast_GET_ITEM(x, i));
    Py_LeaveRecursiveCall();
    return ok;
}

/* What is in the containers now. */
static bool
add_all_pending(struct entered *e, PyObject *result)
{
    bool ok = add_pending(e, result);

    for (int i = 0; ok && i < e->n_loans; i++)
        if (fr_tensor_is_pending(fr_of(e->loan[i].tensor)))
            ok = add_pending(e, e->loan[i].tensor);
    for (int i = 0; ok && i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);
        PyObject             *now;

        if (is_mutable(l) && l->is != IS_OBJECT)
            ok = add_pending(e, e->w->found[i]);
        else if (l->from == FROM_ATTR && !l->outside && (now = fr_look_attribute(e->w->found[l->of], l->key)))
            ok = add_pending(e, now);
    }
    return ok;
}

static PyObject *
show_tensor(struct entered *e, PyObject *x)
{
    PyObject *key = PyLong_FromVoidPtr(x), *array = key ? PyDict_GetItemWithError(e->shown, key) : NULL;

    if (!key || array) {
        Py_XDECREF(key);
        return Py_XNewRef(array);
    }
    for (int i = 0; i < e->n_loans && !array; i++)
        if (e->loan[i].tensor == x)
            array = Py_NewRef(e->loan[i].array);
    if (!array && !PyErr_Occurred())
        array = fr_object(x)->scalar ? fr_numpy_scalar_of(x) : fr_numpy_view(x, FR_VIEW_EXPORT);
    if (array && PyDict_SetItem(e->shown, key, array) < 0) /* a tensor in two places is one array in two places */
        Py_CLEAR(array);
    Py_DECREF(key);
    return array;
}

static bool
show_items(struct entered *e, PyObject *list)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *old = PyList_GET_ITEM(list, i), *new = show(e, old);

        if (!new)
            return false;
        if (new != old)
            PyList_SetItem(list, i, new);
        else
            Py_DECREF(new);
    }
    return true;
}

static bool
show_values(struct entered *e, PyObject *dict)
{
    PyObject  *key, *old;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &key, &old)) {
        PyObject *new = show(e, old);
        int       st = 0;

        if (!new)
            return false;
        if (new != old)
            st = PyDict_SetItem(dict, key, new); /* of a key that is there: the dict stays in order */
        Py_DECREF(new);
        if (st < 0)
            return false;
    }
    return true;
}

static PyObject *
show_tuple(struct entered *e, PyObject *x)
{
    PyObject *out = PyTuple_New(PyTuple_GET_SIZE(x));
    bool      changed = false;

    for (Py_ssize_t i = 0; out && i < PyTuple_GET_SIZE(x); i++) {
        PyObject *new = show(e, PyTuple_GET_ITEM(x, i));

        changed |= new != PyTuple_GET_ITEM(x, i);
        if (new)
            PyTuple_SET_ITEM(out, i, new);
        else
            Py_CLEAR(out);
    }
    if (!out || changed)
        return out;
    Py_DECREF(out);
    return Py_NewRef(x);
}

/* `x` with arrays for tensors, a new reference; lists and dicts are changed in place. */
static PyObject *
show(struct entered *e, PyObject *x)
{
    PyObject *out = NULL;

    if (fr_is_tensor(x))
        return show_tensor(e, x);
    if (!fr_is_container(x))
        return Py_NewRef(x);
    if (Py_EnterRecursiveCall(" in what an accelerated function gave"))
        return NULL;
    if (PyTuple_CheckExact(x))
        out = show_tuple(e, x);
    else if (PyList_CheckExact(x) ? show_items(e, x) : show_values(e, x))
        out = Py_NewRef(x);
    Py_LeaveRecursiveCall();
    return out;
}

/* The attribute behind a look, as show() has it. */
static bool
show_attribute(struct entered *e, const struct fr_look *l)
{
    PyObject *object = e->w->found[l->of], *now = fr_look_attribute(object, l->key), *new;
    bool      ok;

    if (!now)
        return true;
    Py_INCREF(now);
    new = show(e, now);
    ok = new && (new == now || put(object, l, new) == 0);
    Py_DECREF(now);
    Py_XDECREF(new);
    return ok;
}

/* The first exception of several. */
struct failure {
    PyObject *type, *value, *trace;
};

static void
keep_first(struct failure *f)
{
    if (f->type)
        PyErr_Clear();
    else
        PyErr_Fetch(&f->type, &f->value, &f->trace);
}

/* Puts arrays back into what the caller holds. What cannot be shown stays a tensor, and the first failure is raised
 * when all the rest is done. */
static void
show_containers(struct entered *e)
{
    struct failure failure = {NULL, NULL, NULL};

    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);
        bool                  ok = true;

        if (is_mutable(l) && l->is != IS_OBJECT)
            ok = l->is == IS_LIST ? show_items(e, e->w->found[i]) : show_values(e, e->w->found[i]);
        if (ok && l->from == FROM_ATTR && !l->outside)
            ok = show_attribute(e, l);
        if (!ok)
            keep_first(&failure);
    }
    if (failure.type)
        PyErr_Restore(failure.type, failure.value, failure.trace);
}

/* ---- the call */

static PyObject *
run(struct entered *e, PyObject *function, Py_ssize_t n_args, PyObject *names)
{
    PyObject *args[FR_REPLAY_LOOKS];

    for (int i = 0; i < n_looks(e); i++)
        if (look_at(e, i)->from == FROM_ARG)
            args[look_at(e, i)->at] = e->inside[i] ? e->inside[i] : e->w->found[i];
    return PyObject_Vectorcall(function, args, (size_t)(n_args - (names ? PyTuple_GET_SIZE(names) : 0)), names);
}

/* Computes what is pending, puts arrays back and returns the result as arrays. Steals it; NULL: the exception stays,
 * unless something else goes wrong here, whose context it is then. `into`: where the call is kept, or NULL. */
static PyObject *
finish(struct entered *e, struct fr_watch *watch, PyObject *result, bool again, struct fr_callee *into)
{
    PyObject      *type, *value, *trace, *out = NULL;
    struct failure failure = {NULL, NULL, NULL};
    struct fr_err  err;
    fr_status      st;
    bool           raised = !result, ok;

    PyErr_Fetch(&type, &value, &trace);
    if (raised)
        result = Py_NewRef(Py_None);
    ok = add_all_pending(e, result);
    if (!ok && !PyErr_Occurred())
        PyErr_NoMemory();
    if (ok) {
        st = (again ? fr_tensor_eval_again : fr_tensor_eval)(e->pending, (int)e->n_pending, &err);
        if (!(ok = st == FR_OK))
            fr_errors_raise(st, &err);
    }
    if (ok && !raised && into)
        fr_record_keep(watch, into, e->loan, e->n_loans, result);
    /* An exception waits until all is put back. */
    keep_first(&failure);
    fr_loans_give_back(e->loan, e->n_loans, ok);
    keep_first(&failure);
    show_containers(e);
    keep_first(&failure);
    if (!failure.type)
        out = show(e, result);
    else
        PyErr_Restore(failure.type, failure.value, failure.trace);
    Py_DECREF(result);
    if (!raised)
        return out;
    Py_XDECREF(out);
    if (out)
        PyErr_Restore(type, value, trace);
    else
        fr_errors_add_context(type, value, trace);
    return NULL;
}

static void
leave(struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++)
        Py_CLEAR(e->inside[i]);
    fr_loans_end(e->loan, e->n_loans);
    Py_XDECREF(e->shown);
    fr_free(e->pending);
    PyMem_Free(e);
}

PyObject *
fr_enter_call(struct fr_watch *watch, PyObject *function, Py_ssize_t n_args, PyObject *names, struct fr_callee *again,
              bool *refused, struct fr_call_counters *body)
{
    struct fr_callee *into = again && again->is_planned ? again : NULL;
    struct entered   *e = PyMem_Calloc(1, sizeof *e);
    PyObject         *result;

    *refused = false;
    if (!e || !(e->shown = PyDict_New())) {
        PyMem_Free(e);
        return PyErr_NoMemory();
    }
    e->w = watch;
    if (!may_lend(e) || !borrow_all(e) || !enter_tuples(e)) {
        /* An exception that is none of Exception's is the caller's. */
        *refused = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception);
        if (*refused)
            PyErr_Clear();
        for (int i = 0; i < n_looks(e); i++)
            Py_CLEAR(e->inside[i]);
        fr_loans_give_back(e->loan, e->n_loans, false);
        leave(e);
        return NULL;
    }
    result = NULL;
    if (enter_containers(e)) {
        if (into)
            fr_record_begin(watch);
        else
            fr_element_loops_begin(false);
        result = run(e, function, n_args, names);
    }
    fr_info_call_counters(body);
    result = finish(e, watch, result, again, into);
    leave(e);
    return result;
}
