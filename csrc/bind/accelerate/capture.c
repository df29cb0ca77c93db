/* bind/accelerate/capture.c -- notes an accelerated call, so that replay.c can make it again: before the function runs,
 * all values that it can reach; after the evaluation, where its results and what it stored into containers came from.
 *
 * A captured call holds no value that came from memory. The function sees every array that it can reach, by whatever name, as a
 * tensor (enter.c), so what it computes of one is in the graph, and a value that Python needed of one is counted. */
#include "bind/accelerate/replay.h"

#include <structmember.h>

#include "base/alloc.h"
#include "base/ways.h"

/* ---- before: what the function can reach */

static bool note(struct fr_watch *w, struct fr_look l, PyObject *o, bool outside);

/* An object of a class that has no other operations than those of every object. */
static bool
is_plain_type(const PyTypeObject *t)
{
    static const PyNumberMethods nothing;

    return PyType_HasFeature((PyTypeObject *)t, Py_TPFLAGS_HEAPTYPE) && t->tp_getattro == PyObject_GenericGetAttr &&
           t->tp_setattro == PyObject_GenericSetAttr &&
           !t->tp_call && !t->tp_iter && t->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
           !(t->tp_as_mapping && (t->tp_as_mapping->mp_subscript || t->tp_as_mapping->mp_length)) &&
           !(t->tp_as_sequence && (t->tp_as_sequence->sq_item || t->tp_as_sequence->sq_length)) &&
           (!t->tp_as_number || memcmp(t->tp_as_number, &nothing, sizeof nothing) == 0);
}

/* The attributes of an object that the function may read or store: the instance's own. */
static bool
note_attributes(struct fr_watch *w, int of, PyObject *o, bool outside)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(w->attributes); i++) {
        struct fr_look l = {.from = FROM_ATTR, .of = of, .key = PyTuple_GET_ITEM(w->attributes, i)};
        PyObject      *value = fr_look_attribute(o, l.key);
        PyObject      *class = _PyType_Lookup(Py_TYPE(o), l.key); /* borrowed */

        /* What the class has is found instead, or may stand before the instance's own. */
        if ((class && (!value || Py_TYPE(class)->tp_descr_set)) || !note(w, l, value, outside))
            return false;
    }
    return true;
}

static bool
note_items(struct fr_watch *w, int of, PyObject *o, bool outside)
{
    bool             is_tuple = PyTuple_CheckExact(o);
    PyObject *const *item = PySequence_Fast_ITEMS(o);

    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) {
        struct fr_look l = {.from = FROM_ITEM, .of = of, .at = i};

        if (!note(w, l, item[i], outside))
            return false;
    }
    return is_tuple || !(outside && w->stores);
}

static bool
note_values(struct fr_watch *w, int of, PyObject *o, bool outside)
{
    PyObject  *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(o, &at, &key, &value)) {
        struct fr_look l = {.from = FROM_KEY, .of = of, .key = key};

        if (!(PyUnicode_CheckExact(key) || PyLong_CheckExact(key)) || !note(w, l, value, outside))
            return false;
    }
    return !(outside && w->stores);
}

static bool
note_array(struct fr_watch *w, struct fr_look *l, PyObject *o, bool outside)
{
    PyArrayObject *a = fr_array(o);

    l->is = IS_ARRAY;
    l->ndim = PyArray_NDIM(a);
    l->descr = PyArray_DESCR(a);
    Py_INCREF(l->descr);
    if (!(l->lies = PyMem_Malloc((size_t)(2 * l->ndim + 1) * sizeof *l->lies)))
        return false;
    for (int k = 0; k < l->ndim; k++) {
        l->lies[k] = PyArray_DIM(a, k);
        l->lies[l->ndim + k] = PyArray_STRIDE(a, k);
    }
    w->sees_outside |= outside;
    return PyArray_ISALIGNED(a) && fr_numpy_array_dtype(o) != FR_N_DTYPES && (!outside || fr_callee_inside(w->call));
}

/* Adds what a look fetched, and all that can be reached from it. False: it is more than can be told to be the same
 * again. `outside`: it is not among the arguments. */
static bool
note(struct fr_watch *w, struct fr_look new, PyObject *o, bool outside)
{
    struct fr_captured_call *r = w->captured;
    struct fr_look   *l;
    int               i = r->n_looks;

    if (i == FR_REPLAY_LOOKS || !FR_GROW(r->look, w->room, (size_t)i + 1))
        return false;
    l = &r->look[i];
    *l = new;
    l->same_as = -1;
    l->outside = outside;
    Py_XINCREF(l->key);
    w->found[r->n_looks++] = Py_XNewRef(o);
    if (!o)
        return true;
    if (fr_callee_is_number(o)) {
        l->is = IS_NUMBER;
        l->value = Py_NewRef(o);
        return true;
    }
    for (l->same_as = 0; w->found[l->same_as] != o;)
        l->same_as++;
    if (PyArray_CheckExact(o))
        return note_array(w, l, o, outside);
    if (l->same_as != i && !PyTuple_CheckExact(o))
        return false; /* one container in two places: what is stored into it is seen in both */
    l->size = PyTuple_CheckExact(o) || PyList_CheckExact(o) ? PySequence_Fast_GET_SIZE(o) : 0;
    if (PyTuple_CheckExact(o)) {
        l->same_as = -1;
        l->is = IS_TUPLE;
        return note_items(w, i, o, outside);
    }
    if (PyList_CheckExact(o)) {
        l->is = IS_LIST;
        return note_items(w, i, o, outside);
    }
    if (PyDict_CheckExact(o)) {
        l->is = IS_DICT;
        l->size = PyDict_GET_SIZE(o);
        return note_values(w, i, o, outside);
    }
    l->is = IS_OBJECT;
    l->value = Py_NewRef((PyObject *)Py_TYPE(o));
    return !outside && is_plain_type(Py_TYPE(o)) && note_attributes(w, i, o, outside);
}

static bool
note_all(struct fr_watch *w, PyObject *call, fr_args args, Py_ssize_t n_args)
{
    for (Py_ssize_t i = 0; i < n_args; i++)
        if (!note(w, (struct fr_look){.from = FROM_ARG, .at = i}, args[i], false))
            return false;
    for (Py_ssize_t i = 0; i < fr_callee_n_globals(call); i++)
        if (!note(w, (struct fr_look){.from = FROM_NAME, .at = i}, fr_callee_global(call, i), true))
            return false;
    for (Py_ssize_t i = 0; i < fr_callee_n_cells(call); i++)
        if (!note(w, (struct fr_look){.from = FROM_CELL, .at = i}, fr_callee_cell(call, i), true))
            return false;
    return true;
}

struct fr_watch *
fr_capture_watch(PyObject *call, fr_args args, Py_ssize_t n_args, PyObject *names)
{
    struct fr_watch  *w = PyMem_Malloc(sizeof *w);
    struct fr_captured_call *r = NULL;

    if (w) { /* what was found is as it is: looks fill it */
        w->captured = r = PyMem_Calloc(1, sizeof *r);
        w->room = 0;
        w->call = Py_NewRef(call);
        w->sees_outside = false;
        w->into = NULL;
    }
    if (!r || !fr_callee_closed(call, &w->stores, &w->attributes)) {
        fr_capture_end(w);
        return NULL;
    }
    r->n_args = n_args;
    r->names = Py_XNewRef(names);
    if (!note_all(w, call, args, n_args)) {
        fr_capture_end(w);
        return NULL;
    }
    return w;
}

void
fr_capture_begin(struct fr_watch *w)
{
    struct fr_captured_call *r = w->captured;

    r->looks = fr_looks_taken;
    r->takes = fr_takes_plain;
    r->fallbacks = fr_ways_taken[FR_WAY_handed];
}

void
fr_capture_ran(struct fr_watch *w)
{
    w->looked = fr_looks_taken != w->captured->looks;
}

void
fr_capture_end(struct fr_watch *w)
{
    struct fr_captured_call *r = w ? w->captured : NULL;

    if (!w)
        return;
    for (int i = 0; r && i < r->n_looks; i++)
        Py_XDECREF(w->found[i]);
    /* Meanwhile the function may have come to be another one. */
    if (!w->into || w->into->call != w->call || !fr_replays_add(&w->into->replays, r))
        fr_capture_free(r);
    Py_DECREF(w->call);
    PyMem_Free(w);
}

/* ---- after: where things came from */

struct ending {
    struct fr_watch        *w;
    const struct fr_loan   *loan;    /* the arrays and containers for which others stood */
    int                     n_loans, n_parts, n_made;
    const struct fr_tensor *result[FR_REPLAY_RESULTS];
    struct fr_part          part[FR_REPLAY_PARTS];
    PyObject               *made[FR_REPLAY_PARTS]; /* containers that the function made */
};

/* The value that was looked at and is this object, or for which this one stood; -1: none. */
static int
look_of(const struct ending *e, PyObject *o)
{
    for (int k = 0; k < e->n_loans; k++)
        if (e->loan[k].tensor == o) {
            o = e->loan[k].array;
            break;
        }
    for (int i = 0; i < e->w->captured->n_looks; i++)
        if (e->w->found[i] == o && (e->w->captured->look[i].same_as >= 0 || e->w->captured->look[i].is == IS_TUPLE))
            return i;
    return -1;
}

/* The part that is not a container. False: nobody knows where it came from. */
static bool
leaf_part(struct ending *e, PyObject *o, struct fr_part *p)
{
    struct fr_captured_call *r = e->w->captured;
    int               i = look_of(e, o);

    if (i >= 0) {
        *p = (struct fr_part){.from = PART_LOOK, .index = i};
        return true;
    }
    if (!fr_is_tensor(o)) {
        *p = (struct fr_part){.from = PART_VALUE, .value = Py_NewRef(o)};
        return fr_callee_is_number(o);
    }
    *p = (struct fr_part){.from = fr_object(o)->scalar ? PART_SCALAR : PART_RESULT};
    while (p->index < r->n_results && e->result[p->index] != fr_of(o))
        p->index++;
    if (p->index == r->n_results) {
        if (r->n_results == FR_REPLAY_RESULTS)
            return false;
        e->result[r->n_results++] = fr_of(o);
    }
    return p->from == PART_RESULT || fr_of(o)->layout->ndim == 0;
}

static bool
add_parts(struct ending *e, PyObject *o)
{
    struct fr_part p = {.from = PART_DICT};
    PyObject      *values = NULL;
    bool           ok = true;

    if (!fr_is_container(o) || look_of(e, o) >= 0) {
        if (e->n_parts == FR_REPLAY_PARTS)
            return false;
        return leaf_part(e, o, &e->part[e->n_parts++]);
    }
    for (int i = 0; i < e->n_made; i++)
        if (e->made[i] == o)
            return false; /* one container in two places */
    if (e->n_made == FR_REPLAY_PARTS)
        return false;
    e->made[e->n_made++] = o;
    if (PyDict_CheckExact(o)) {
        PyObject *keys = PyDict_Keys(o);

        p.value = keys ? PyList_AsTuple(keys) : NULL;
        Py_XDECREF(keys);
        o = values = p.value ? PyDict_Values(o) : NULL;
        for (Py_ssize_t i = 0; p.value && i < PyTuple_GET_SIZE(p.value); i++)
            ok &= fr_callee_is_number(PyTuple_GET_ITEM(p.value, i));
    } else {
        p.from = PyTuple_CheckExact(o) ? PART_TUPLE : PART_LIST;
    }
    ok &= o != NULL;
    for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(o); i++)
        ok = add_parts(e, PySequence_Fast_GET_ITEM(o, i));
    if (o)
        p.index = (int)PySequence_Fast_GET_SIZE(o);
    Py_XDECREF(values);
    if (!ok || e->n_parts == FR_REPLAY_PARTS) {
        Py_XDECREF(p.value);
        return false;
    }
    e->part[e->n_parts++] = p;
    return true;
}

/* Keeps the parts of the result, found or not. */
static bool
keep_parts(struct ending *e)
{
    struct fr_captured_call *r = e->w->captured;
    size_t            n = (size_t)e->n_parts;

    if (!(r->part = PyMem_Malloc((n + 1) * sizeof *r->part))) {
        while (n > 0)
            Py_XDECREF(e->part[--n].value);
        return false;
    }
    memcpy(r->part, e->part, n * sizeof *r->part);
    r->n_parts = e->n_parts;
    return true;
}

/* Whether `now` stands where look i was fetched: the same value, or what the call put in its place. */
static bool
is_unchanged(const struct ending *e, int i, PyObject *now)
{
    const struct fr_captured_call *r = e->w->captured;

    if (now == e->w->found[i] || (r->look[i].is == IS_ARRAY && look_of(e, now) == r->look[i].same_as))
        return true;
    if (r->look[i].is != IS_TUPLE || !PyTuple_CheckExact(now) || PyTuple_GET_SIZE(now) != r->look[i].size)
        return false;
    for (int k = i + 1; k < r->n_looks; k++)
        if (r->look[k].of == i && r->look[k].from == FROM_ITEM &&
            !is_unchanged(e, k, PyTuple_GET_ITEM(now, r->look[k].at)))
            return false;
    return true;
}

/* Notes what was stored in the place of a look. */
static bool
add_effect(struct ending *e, int i)
{
    struct fr_captured_call *r = e->w->captured;
    struct fr_look   *l = &r->look[i];
    PyObject         *into = e->w->found[l->of], *now;
    struct fr_effect *x;

    if (l->from == FROM_ATTR)
        now = fr_look_attribute(into, l->key);
    else if (l->from == FROM_ITEM)
        now = PyList_GET_SIZE(into) == r->look[l->of].size ? PyList_GET_ITEM(into, l->at) : NULL;
    else
        now = PyDict_GET_SIZE(into) == r->look[l->of].size ? PyDict_GetItemWithError(into, l->key) : NULL;
    if (!now)
        return l->is == IS_NOTHING;
    if (is_unchanged(e, i, now))
        return true;
    if (!r->effect && !(r->effect = PyMem_Malloc((size_t)r->n_looks * sizeof *r->effect)))
        return false;
    x = &r->effect[r->n_effects];
    *x = (struct fr_effect){.into = l->of, .at = l->at, .key = Py_XNewRef(l->key)};
    r->n_effects++;
    return leaf_part(e, now, &x->part);
}

static bool
add_effects(struct ending *e)
{
    struct fr_captured_call *r = e->w->captured;

    for (int i = 0; i < r->n_looks; i++) {
        struct fr_look *l = &r->look[i];

        if (l->from < FROM_ITEM)
            continue;
        if (r->look[l->of].is != IS_TUPLE && !add_effect(e, i))
            return false;
    }
    return true;
}

/* Binds the evaluation to the arrays. */
static bool
capture_evaluation(struct ending *e)
{
    struct fr_captured_call *r = e->w->captured;
    struct fr_reach   reach[FR_REPLAY_LOOKS];
    bool              writes[FR_REPLAY_LOOKS] = {false};
    int               index[FR_REPLAY_LOOKS], n = 0;

    for (int i = 0; i < r->n_looks; i++)
        if (r->look[i].is == IS_ARRAY && r->look[i].same_as == i) {
            fr_share_bounds(e->w->found[i], &reach[n].low, &reach[n].high);
            reach[n].first = PyArray_BYTES(fr_array(e->w->found[i]));
            reach[n].dtype = fr_numpy_array_dtype(e->w->found[i]);
            index[i] = n++;
        }
    if (!(r->evaluation = fr_capture(reach, n, writes, e->result, r->n_results, fr_takes_plain - r->takes)))
        return false;
    for (int i = 0; i < r->n_looks; i++)
        if (r->look[i].is == IS_ARRAY && r->look[i].same_as == i)
            r->writes |= r->look[i].written = writes[index[i]];
    return true;
}

void
fr_capture_keep(struct fr_watch *w, struct fr_callee *into, const struct fr_loan *loan, int n_loans, PyObject *result)
{
    struct fr_captured_call *r = w->captured;
    struct ending     e; /* kilobytes, of which a few are touched */

    if (!fr_eval_had_plan()) /* it will be noted when it has one */
        return;
    if (!w->looked && fr_looks_taken == r->looks + 1 && fr_ways_taken[FR_WAY_handed] == r->fallbacks) {
        bool ok = true;

        for (int i = 0; i < n_loans; i++)
            ok &= !fr_is_tensor(loan[i].tensor) || fr_object(loan[i].tensor)->end == FR_END_LOAN; /* else the array gets another shape, too */
        e.w = w;
        e.loan = loan;
        e.n_loans = n_loans;
        e.n_parts = e.n_made = 0;
        ok = add_parts(&e, result) && ok;
        ok = keep_parts(&e) && ok && add_effects(&e) && capture_evaluation(&e);
        if (ok)
            w->into = into;
    }
    PyErr_Clear();
    if (!w->into)
        fr_replays_add(&into->replays, NULL);
}
