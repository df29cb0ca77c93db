/* bind/accelerate/replay.c -- accelerated calls that are made again without running the function.
 *
 * A closed function (python/frit/_closed.py) looks at nothing but its arguments, globals and cells, and does nothing
 * but compute. If it did not look at a value either, then what it traced follows from how the arrays that it can
 * reach lie and from the numbers among them. The next call with the same of all that is the same evaluation over
 * other memory: neither is the function run nor an operation traced. capture.c notes what a call looked at. */
#include "bind/accelerate/replay.h"

#include "base/alloc.h"

enum { MAX_CALLS = 8,    /* of a function; the one that was used longest ago goes */
       MAX_MADE = 64 };    /* of which so many are tried if none is ever used: numbers that change with each call */

struct fr_replays {
    int               refs;    /* calls that are in one of them, and the function */
    int               n, n_tried;
    uint64_t          n_used;
    struct fr_captured_call *captured[MAX_CALLS];
};

void
fr_capture_free(struct fr_captured_call *r)
{
    if (!r)
        return;
    fr_captured_free(r->evaluation);
    for (int i = 0; i < r->n_looks; i++) {
        Py_XDECREF(r->look[i].key);
        Py_XDECREF(r->look[i].value);
        Py_XDECREF(r->look[i].descr);
        PyMem_Free(r->look[i].lies);
    }
    for (int i = 0; i < r->n_parts; i++)
        Py_XDECREF(r->part[i].value);
    for (int i = 0; i < r->n_effects; i++) {
        Py_XDECREF(r->effect[i].key);
        Py_XDECREF(r->effect[i].part.value);
    }
    Py_XDECREF(r->names);
    fr_free(r->look);
    PyMem_Free(r->part);
    PyMem_Free(r->effect);
    PyMem_Free(r);
}

void
fr_replays_drop(struct fr_replays *s)
{
    if (!s || --s->refs > 0)
        return;
    for (int i = 0; i < s->n; i++)
        fr_capture_free(s->captured[i]);
    PyMem_Free(s);
}

int
fr_replays_traverse(const struct fr_replays *s, visitproc visit, void *arg)
{
    for (int i = 0; s && i < s->n; i++)
        for (int k = 0; k < s->captured[i]->n_looks; k++)
            Py_VISIT(s->captured[i]->look[k].value); /* classes above all */
    return 0;
}

/* ---- the same again? */

/* Whether two numbers are of one type and the same to every operation. */
static bool
same_number(PyObject *a, PyObject *b)
{
    if (a == b)
        return true;
    if (Py_TYPE(a) != Py_TYPE(b))
        return false;
    if (PyFloat_CheckExact(a)) {
        double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
        return memcmp(&x, &y, sizeof x) == 0;
    }
    if (PyLong_CheckExact(a)) {
        int       overflow_a, overflow_b;
        long long x = PyLong_AsLongLongAndOverflow(a, &overflow_a), y = PyLong_AsLongLongAndOverflow(b, &overflow_b);
        return !overflow_a && !overflow_b && x == y;
    }
    return PyUnicode_CheckExact(a) && PyUnicode_Compare(a, b) == 0;
}

/* An instance's own attribute. */
PyObject *
fr_look_attribute(PyObject *o, PyObject *name)
{
    PyObject *names = PyObject_GenericGetDict(o, NULL), *value = NULL;

    if (names && PyDict_CheckExact(names))
        value = PyDict_GetItemWithError(names, name);
    else
        PyErr_Clear();
    Py_XDECREF(names); /* which the object keeps */
    return value;
}

PyObject *
fr_look_fetch(const struct fr_look *l, PyObject *call, fr_args args, PyObject *const *found)
{
    PyObject *from = l->from >= FROM_ITEM ? found[l->of] : NULL;

    switch (l->from) {
    case FROM_ARG: return args[l->at];
    case FROM_NAME: return fr_callee_global(call, l->at);
    case FROM_CELL: return fr_callee_cell(call, l->at);
    case FROM_ITEM: return PyTuple_CheckExact(from) ? PyTuple_GET_ITEM(from, l->at) : PyList_GET_ITEM(from, l->at);
    case FROM_KEY: return PyDict_GetItemWithError(from, l->key);
    default: return fr_look_attribute(from, l->key);
    }
}

static inline bool
lies_alike(const struct fr_look *l, PyObject *o)
{
    PyArrayObject *a = fr_array(o);

    if (!PyArray_CheckExact(o) || PyArray_DESCR(a) != l->descr || PyArray_NDIM(a) != l->ndim || !PyArray_ISALIGNED(a))
        return false;
    for (int k = 0; k < l->ndim; k++)
        if (PyArray_DIM(a, k) != l->lies[k] || PyArray_STRIDE(a, k) != l->lies[l->ndim + k])
            return false;
    return true;
}

static inline bool
fits(const struct fr_look *l, PyObject *o)
{
    if (!o)
        return l->is == IS_NOTHING;
    switch (l->is) {
    case IS_NUMBER: return same_number(l->value, o);
    case IS_ARRAY: return (!l->value || l->value == o) && lies_alike(l, o);
    case IS_TUPLE: return PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == l->size;
    case IS_LIST: return PyList_CheckExact(o) && PyList_GET_SIZE(o) == l->size;
    case IS_DICT: return PyDict_CheckExact(o) && PyDict_GET_SIZE(o) == l->size;
    case IS_OBJECT: return (PyObject *)Py_TYPE(o) == l->value;
    default: return false;
    }
}

/* Whether arrays, lists and dicts are the same objects just where they were. */
static bool
same_twins(const struct fr_captured_call *r, PyObject *const *found)
{
    for (int i = 0; i < r->n_looks; i++) {
        int k = 0;

        if (r->look[i].same_as < 0)
            continue;
        while (found[k] != found[i] || r->look[k].same_as < 0)
            k++;
        if (k != r->look[i].same_as)
            return false;
    }
    return true;
}

/* Whether what will be written may be, and is apart from all other arrays. */
static bool
may_write(const struct fr_captured_call *r, PyObject *const *found)
{
    for (int i = 0; i < r->n_looks; i++) {
        if (!r->look[i].written)
            continue;
        if (!PyArray_ISWRITEABLE(fr_array(found[i])))
            return false;
        for (int k = 0; k < r->n_looks; k++)
            if (r->look[k].is == IS_ARRAY && r->look[k].same_as != i && fr_share_meet(found[i], found[k]))
                return false;
    }
    return true;
}

static bool
same_names(PyObject *a, PyObject *b)
{
    Py_ssize_t n = a ? PyTuple_GET_SIZE(a) : 0;

    if (n != (b ? PyTuple_GET_SIZE(b) : 0))
        return false;
    for (Py_ssize_t i = 0; i < n; i++) /* interned, as a rule */
        if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i))
            return false;
    return true;
}

static bool
is_same_call(const struct fr_captured_call *r, PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names,
             PyObject **found)
{
    if (r->n_args != n_args || !same_names(r->names, names))
        return false;
    for (int i = 0; i < r->n_looks; i++)
        if (!fits(&r->look[i], found[i] = fr_look_fetch(&r->look[i], call, args, found)))
            return false;
    return same_twins(r, found) && (!r->writes || may_write(r, found));
}

/* ---- a call */

static PyObject *
dict_of(PyObject *keys, PyObject *const *values)
{
    PyObject *dict = PyDict_New();

    for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(keys); i++)
        if (PyDict_SetItem(dict, PyTuple_GET_ITEM(keys, i), values[i]) < 0)
            Py_CLEAR(dict);
    return dict;
}

/* A container of n values, whose references move in. */
static PyObject *
container_of(const struct fr_part *p, PyObject **values)
{
    PyObject *out;

    if (p->from == PART_DICT) {
        out = dict_of(p->value, values);
        for (int i = 0; i < p->index; i++)
            Py_DECREF(values[i]);
        return out;
    }
    out = p->from == PART_TUPLE ? PyTuple_New(p->index) : PyList_New(p->index);
    for (int i = 0; i < p->index; i++)
        if (!out)
            Py_DECREF(values[i]);
        else if (p->from == PART_TUPLE)
            PyTuple_SET_ITEM(out, i, values[i]);
        else
            PyList_SET_ITEM(out, i, values[i]);
    return out;
}

static PyObject *
leaf_of(const struct fr_part *p, PyObject *const *found, PyObject *const *shown)
{
    switch (p->from) {
    case PART_LOOK: return Py_NewRef(found[p->index]);
    case PART_VALUE: return Py_NewRef(p->value);
    default: return Py_NewRef(shown[p->index]);
    }
}

static PyObject *
put_together(const struct fr_captured_call *r, PyObject *const *found, PyObject *const *shown)
{
    PyObject *stack[FR_REPLAY_PARTS];
    int       n = 0;

    for (int i = 0; i < r->n_parts; i++) {
        const struct fr_part *p = &r->part[i];

        if (p->from < PART_TUPLE) {
            stack[n++] = leaf_of(p, found, shown);
            continue;
        }
        n -= p->index;
        if (!(stack[n] = container_of(p, stack + n))) {
            while (n > 0)
                Py_DECREF(stack[--n]);
            return NULL;
        }
        n++;
    }
    return stack[0];
}

/* Stores what the function stored into the containers that it was given. */
static bool
store_effects(const struct fr_captured_call *r, PyObject *const *found, PyObject *const *shown)
{
    for (int i = 0; i < r->n_effects; i++) {
        const struct fr_effect *e = &r->effect[i];
        PyObject               *into = found[e->into], *value = leaf_of(&e->part, found, shown);
        int                     st;

        if (r->look[e->into].is == IS_LIST) {
            st = PyList_SetItem(into, e->at, Py_NewRef(value)); /* another thread may have made it shorter */
        } else {
            st = r->look[e->into].is == IS_DICT ? PyDict_SetItem(into, e->key, value)
                                                : PyObject_SetAttr(into, e->key, value);
        }
        Py_DECREF(value);
        if (st < 0)
            return false;
    }
    return true;
}

/* The results as arrays and NumPy scalars. The handles are cleared. */
static bool
show_results(const struct fr_captured_call *r, struct fr_tensor *t, PyObject **shown, const bool *scalar)
{
    bool ok = true;

    for (int i = 0; i < r->n_results; i++) {
        shown[i] = scalar[i] ? fr_numpy_scalar_at(&t[i]) : fr_numpy_view_of(&t[i], FR_VIEW_OWN);
        ok &= shown[i] != NULL;
        fr_tensor_clear(&t[i]);
    }
    return ok;
}

static void
note_scalars(const struct fr_part *p, int n, bool *scalar)
{
    for (int i = 0; i < n; i++)
        if (p[i].from == PART_SCALAR)
            scalar[p[i].index] = true;
}

/* The evaluation. FR_EINDEX: an array of indices holds what it must not hold; nothing is changed. */
static fr_status
compute(const struct fr_captured_call *r, PyObject *const *found, struct fr_tensor *results, struct fr_err *err)
{
    char *memory[FR_REPLAY_LOOKS];
    int   n = 0;

    for (int i = 0; i < r->n_looks; i++)
        if (r->look[i].is == IS_ARRAY && r->look[i].same_as == i)
            memory[n++] = PyArray_BYTES(fr_array(found[i]));
    return fr_captured_fits(r->evaluation, memory) ? fr_replay(r->evaluation, memory, results, err) : FR_EINDEX;
}

/* *refused: it is not the same again after all. */
static PyObject *
replay(const struct fr_captured_call *r, PyObject *const *found, bool *refused)
{
    struct fr_tensor t[FR_REPLAY_RESULTS];
    PyObject        *shown[FR_REPLAY_RESULTS], *out = NULL;
    bool             scalar[FR_REPLAY_RESULTS];
    struct fr_err    err;
    fr_status        st;

    if (FR_UNLIKELY((st = compute(r, found, t, &err)) != FR_OK)) {
        *refused = st == FR_EINDEX || st == FR_EASKED; /* whoever made it knows how to say so */
        return *refused ? NULL : fr_errors_raise(st, &err);
    }
    memset(shown, 0, (size_t)r->n_results * sizeof *shown);
    memset(scalar, 0, (size_t)r->n_results * sizeof *scalar);
    note_scalars(r->part, r->n_parts, scalar);
    for (int i = 0; i < r->n_effects; i++)
        note_scalars(&r->effect[i].part, 1, scalar);
    if (show_results(r, t, shown, scalar) && store_effects(r, found, shown))
        out = put_together(r, found, shown);
    for (int i = 0; i < r->n_results; i++)
        Py_XDECREF(shown[i]);
    return out;
}

bool
fr_replays_call(struct fr_replays *s, PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names,
                PyObject **result, uint64_t *n_kernels)
{
    PyObject *found[FR_REPLAY_LOOKS];
    bool      refused = false;

    for (int i = 0; i < s->n; i++) {
        struct fr_captured_call *r = s->captured[i];

        if (!is_same_call(r, call, args, n_args, names, found))
            continue;
        for (int k = 0; k < r->n_looks; k++)
            Py_XINCREF(found[k]); /* another thread may let go of them while kernels run, */
        s->refs++;                /* or of the captured calls */
        r->used = ++s->n_used;
        *n_kernels = (uint64_t)fr_captured_kernels(r->evaluation);
        *result = replay(r, found, &refused);
        for (int k = 0; k < r->n_looks; k++)
            Py_XDECREF(found[k]);
        fr_replays_drop(s);
        return !refused;
    }
    return false;
}

/* ---- which are kept */

bool
fr_replays_wanted(const struct fr_replays *s)
{
    return !s || s->n_tried < MAX_MADE || s->n_used > 4 * (uint64_t)s->n_tried;
}

bool
fr_replays_add(struct fr_replays **replays, struct fr_captured_call *r)
{
    struct fr_replays *s = *replays;
    int                oldest = 0;

    if (!s) {
        if (!(s = *replays = PyMem_Calloc(1, sizeof *s)))
            return false;
        s->refs = 1;
    }
    s->n_tried++;
    if (!r || s->refs > 1) /* another thread is in one of them */
        return false;
    r->used = ++s->n_used;
    if (s->n < MAX_CALLS) {
        s->captured[s->n++] = r;
        return true;
    }
    for (int i = 1; i < s->n; i++)
        if (s->captured[i]->used < s->captured[oldest]->used)
            oldest = i;
    fr_capture_free(s->captured[oldest]);
    s->captured[oldest] = r;
    return true;
}
