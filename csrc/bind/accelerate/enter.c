/* bind/accelerate/enter.c -- an accelerated call of a closed function whose arguments hold arrays in lists, dicts and
 * objects, or that sees arrays by global names and in cells.
 *
 * capture.c has noted all that the function can reach. While it runs, tensors stand in the place of arrays there too: in
 * the caller's own containers among the arguments, so that whatever else holds them sees what it would have seen, and for
 * what the function sees by other names in globals and cells of its own copy (python/frit/_inside.py). At the end all is
 * computed together and arrays are put back. */
#include "base/alloc.h"
#include "bind/accelerate/replay.h"

struct entered {
    const struct fr_watch *w;
    struct fr_loan         loan[FR_LOANS_MAX];      /* first tensors for arrays, then copies of containers */
    int                    n_loans, n_stand_ins;    /* the former, and all; of copies the references are `inside`'s */
    PyObject              *inside[FR_REPLAY_LOOKS]; /* what stands for a value; NULL: itself */
};

static const struct fr_look *
look_at(const struct entered *e, int i)
{
    return &e->w->captured->look[i];
}

static int
n_looks(const struct entered *e)
{
    return e->w->captured->n_looks;
}

static bool
is_mutable(const struct fr_look *l)
{
    return !l->outside && (l->is == IS_LIST || l->is == IS_DICT || l->is == IS_OBJECT);
}

/* ---- in */

/* Whether the arrays may be lent: no two types over one memory. */
static bool
may_lend(const struct entered *e)
{
    PyObject *array[FR_LOANS_MAX];
    int       n = 0;

    for (int i = 0; i < n_looks(e); i++)
        if (look_at(e, i)->is == IS_ARRAY && look_at(e, i)->same_as == i)
            array[n++] = e->w->found[i];
    return n <= 1 || fr_loans_are_apart(array, n);
}

static bool
borrow_all(struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);

        if (l->is != IS_ARRAY)
            continue;
        if (l->same_as == i) {
            PyObject *t = fr_share_borrow(e->w->found[i]);

            if (!t)
                return false;
            e->loan[e->n_loans++] = (struct fr_loan){e->w->found[i], t};
            e->n_stand_ins = e->n_loans;
            e->inside[i] = Py_NewRef(t);
        } else {
            e->inside[i] = Py_XNewRef(e->inside[l->same_as]);
        }
    }
    fr_guard_kept();
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

static PyObject *
copy_of(PyObject *container)
{
    PyObject *tuple;

    if (PyDict_CheckExact(container))
        return PyDict_Copy(container);
    if (PyList_CheckExact(container))
        return PySequence_List(container);
    tuple = PyTuple_New(PyTuple_GET_SIZE(container));
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(container); i++)
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(PyTuple_GET_ITEM(container, i)));
    return tuple;
}

/* Copies of containers with tensors for the arrays in them: of tuples, and of those that are not among the arguments,
 * which the function only reads. Containers come before what is in them, so this goes backwards. */
static bool
enter_copies(struct entered *e)
{
    for (int i = n_looks(e); i-- > 0;) {
        PyObject *copy = NULL, *container = e->w->found[i];

        if (!container || !fr_is_container(container) || is_mutable(look_at(e, i)))
            continue;
        for (int k = i + 1; k < n_looks(e); k++) {
            const struct fr_look *l = look_at(e, k);

            if (l->from < FROM_ITEM || l->of != i || !e->inside[k])
                continue;
            if (!copy) {
                if (!(copy = e->inside[i] = copy_of(container)))
                    return false;
                e->loan[e->n_stand_ins++] = (struct fr_loan){container, copy};
            }
            if ((PyTuple_CheckExact(copy) ? PyTuple_SetItem(copy, l->at, Py_NewRef(e->inside[k]))
                                          : put(copy, l, e->inside[k])) < 0)
                return false;
        }
    }
    return true;
}

/* Puts what the function sees by global names and in cells where its copy looks for it. */
static bool
enter_names(struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);
        PyObject             *value = e->inside[i] ? e->inside[i] : e->w->found[i];

        if ((l->from == FROM_NAME && !fr_callee_put_global(e->w->call, l->at, value)) ||
            (l->from == FROM_CELL && !fr_callee_put_cell(e->w->call, l->at, value)))
            return false;
    }
    return true;
}

/* Lets go of it, but for numbers. */
static void
leave_names(const struct entered *e)
{
    for (int i = 0; i < n_looks(e); i++) {
        const struct fr_look *l = look_at(e, i);

        if (l->is == IS_NUMBER || l->is == IS_NOTHING)
            continue;
        if ((l->from == FROM_NAME && !fr_callee_put_global(e->w->call, l->at, Py_None)) ||
            (l->from == FROM_CELL && !fr_callee_put_cell(e->w->call, l->at, Py_None)))
            PyErr_Clear(); /* the next call puts something else there */
    }
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

static PyObject *
show_tensor(const struct entered *e, PyObject *x)
{
    for (int i = 0; i < e->n_loans; i++)
        if (e->loan[i].tensor == x)
            return Py_NewRef(e->loan[i].array);
    return fr_shown(x);
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

/* Whoever else has the tuple was to see arrays in it, too. */
static bool
show_tuple(struct entered *e, PyObject *x)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(x); i++) {
        PyObject *old = PyTuple_GET_ITEM(x, i), *new = show(e, old);

        if (!new)
            return false;
        PyTuple_SET_ITEM(x, i, new);
        Py_DECREF(old);
    }
    return true;
}

/* `x` with arrays for tensors, a new reference; containers are changed in place. */
static PyObject *
show(struct entered *e, PyObject *x)
{
    PyObject *out = NULL;

    if (fr_is_tensor(x))
        return show_tensor(e, x);
    if (!fr_is_container(x))
        return Py_NewRef(x);
    for (int k = e->n_loans; k < e->n_stand_ins; k++)
        if (e->loan[k].tensor == x)
            return Py_NewRef(e->loan[k].array);
    if (Py_EnterRecursiveCall(" in what an accelerated function gave"))
        return NULL;
    if (PyTuple_CheckExact(x) ? show_tuple(e, x) : PyList_CheckExact(x) ? show_items(e, x) : show_values(e, x))
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
run(struct entered *e, struct fr_callee *f, Py_ssize_t n_args, PyObject *names)
{
    PyObject  *args[FR_REPLAY_LOOKS], *result = NULL, *type, *value, *trace;
    Py_ssize_t n_plain = n_args - (names ? PyTuple_GET_SIZE(names) : 0);

    for (int i = 0; i < n_looks(e); i++)
        if (look_at(e, i)->from == FROM_ARG)
            args[look_at(e, i)->at] = e->inside[i] ? e->inside[i] : e->w->found[i];
    if (!e->w->sees_outside)
        return PyObject_Vectorcall(FR_CALLEE(e->w->call, copy), args, (size_t)n_plain, names);
    f->is_inside = true;
    if (enter_names(e))
        result = PyObject_Vectorcall(fr_callee_inside(e->w->call), args, (size_t)n_plain, names);
    PyErr_Fetch(&type, &value, &trace);
    leave_names(e);
    PyErr_Restore(type, value, trace);
    f->is_inside = false;
    return result;
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
    fr_capture_ran(watch);
    st = fr_loans_eval(e->loan, e->n_loans, NULL, again, &err);
    if (!(ok = st == FR_OK))
        fr_errors_raise(st, &err);
    if (ok && !raised && into)
        fr_capture_keep(watch, into, e->loan, e->n_stand_ins, result);
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

/* The containers and objects that the call was given, and its result. */
static PyObject *
all_left(const struct entered *e, PyObject *result)
{
    PyObject *list = PyList_New(0);
    int       st = list ? PyList_Append(list, result) : -1;

    for (int i = 0; st == 0 && i < n_looks(e); i++)
        if (is_mutable(look_at(e, i)))
            st = PyList_Append(list, e->w->found[i]);
    if (st < 0)
        Py_CLEAR(list);
    return list;
}

static bool
replace_left(const struct entered *e, PyObject *result)
{
    PyObject *all = all_left(e, result);
    bool      done = all && fr_loans_replace(e->loan, e->n_loans, FR_CALLEE(e->w->call, copy), all);

    Py_XDECREF(all);
    return done;
}

static void
leave(struct entered *e, PyObject **result)
{
    for (int i = 0; i < n_looks(e); i++)
        Py_CLEAR(e->inside[i]);
    if (*result && fr_loans_are_kept(e->loan, e->n_loans) && !replace_left(e, *result))
        Py_CLEAR(*result);
    fr_loans_end(e->loan, e->n_loans);
    PyMem_Free(e);
}

PyObject *
fr_enter_call(struct fr_callee *f, struct fr_watch *watch, Py_ssize_t n_args, PyObject *names, bool again,
              bool *refused, struct fr_call_counters *body)
{
    struct fr_callee *into = again && f->is_planned ? f : NULL;
    struct entered   *e = PyMem_Calloc(1, sizeof *e);
    PyObject         *result = NULL;

    *refused = false;
    if (!e)
        return PyErr_NoMemory();
    e->w = watch;
    if ((watch->sees_outside && f->is_inside) || !may_lend(e) || !borrow_all(e) || !enter_copies(e)) {
        /* An exception that is none of Exception's is the caller's. */
        *refused = !PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception);
        if (*refused)
            PyErr_Clear();
        fr_loans_give_back(e->loan, e->n_loans, false);
        leave(e, &result);
        return NULL;
    }
    if (enter_containers(e)) {
        if (into)
            fr_capture_begin(watch);
        result = run(e, f, n_args, names);
    }
    fr_info_call_counters(body);
    result = finish(e, watch, result, again, into);
    leave(e, &result);
    return result;
}
