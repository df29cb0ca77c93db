/* bind/hot/hot_object_run.c -- see hot_run.h: what is done with objects: lists, functions that take them, draws. */
#include "bind/hot/hot_run.h"

#include <string.h>

#include "base/fpe.h"

/* ---- values in two places */

bool
fr_hot_run_own(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = FR_HOT_ARRAY, .dtype = (uint8_t)in->c, .ndim = in->n};
    PyObject                 *array;

    if (!run->view[in->a].is_window)
        return true;
    if (!(array = fr_hot_boxed(NULL, &run->view[in->a], &type))) {
        PyErr_Clear();
        return false;
    }
    return fr_hot_give(run, array, in->a);
}

/* ---- draws, and calls of math */

bool
fr_hot_draws_begin(const struct fr_hot_program *p, const struct fr_hot_source *source, struct fr_hot_run *run)
{
    run->n_pieces = 0;
    run->has_lock = false;
    if (p->has_random) {
        if (!fr_few_generator_begin(&run->random))
            return false;
        run->has_lock = true;
        run->piece[run->n_pieces++] = (struct fr_few_piece){run->random.draw->state, run->random.n_bytes};
        if (run->random.normal)
            run->piece[run->n_pieces++] = (struct fr_few_piece){run->random.normal, sizeof *run->random.normal};
    }
    for (int k = 0; k < p->n_drawers; k++) {
        PyObject *o = p->drawer[k].object ? Py_NewRef(p->drawer[k].object) : fr_hot_object(p, source, p->drawer[k].var);
        int       n = o ? fr_few_state_of(o, run->piece + run->n_pieces) : 0;

        Py_XDECREF(o); /* (the variable, or the program, has it) */
        if (n == 0) {
            fr_hot_draws_end(run);
            return false;
        }
        run->n_pieces += n;
    }
    return true;
}

bool
fr_hot_draws_end(struct fr_hot_run *run)
{
    PyObject *type, *value, *trace;
    bool      ok;

    if (!run->has_lock)
        return true;
    run->has_lock = false;
    PyErr_Fetch(&type, &value, &trace);
    ok = fr_few_generator_end();
    if (type)
        PyErr_Restore(type, value, trace);
    return ok;
}

bool
fr_hot_run_draw(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const union fr_hot_cell *first = &run->reg[in->a], *second = &run->reg[in->b];
    struct fr_hot_view      *v = &run->view[in->to];
    bitgen_t                *draw = run->random.draw;
    int64_t                  n = 1;

    for (int k = 0; k < in->c; k++)
        n *= v->dim[k];
    if (in->n == FR_HOT_NORMALS && !run->random.normal)
        return false;
    if (in->n == FR_HOT_RANDINTS && (first->i < INT32_MIN || second->i > INT32_MAX || first->i >= second->i))
        return false;
    for (int64_t k = 0; k < n; k++)
        switch (in->n) {
        case FR_HOT_RANDOMS: ((double *)v->data)[k] = draw->next_double(draw->state); break;
        case FR_HOT_UNIFORMS: ((double *)v->data)[k] = first->f + second->f * draw->next_double(draw->state); break;
        case FR_HOT_NORMALS: ((double *)v->data)[k] = first->f + second->f * fr_few_draw_normal(run->random.normal); break;
        default: ((int64_t *)v->data)[k] = first->i + fr_few_below(draw, second->i - first->i); break;
        }
    return true;
}

bool
fr_hot_run_math(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *arg[2] = {NULL, NULL}, *v = NULL;
    bool      ok;

    arg[0] = PyFloat_FromDouble(run->reg[in->a].f);
    if (arg[0] && in->n == 2)
        arg[1] = PyFloat_FromDouble(run->reg[in->b].f);
    if (arg[in->n - 1])
        v = PyObject_Vectorcall(in->function, arg, in->n, NULL);
    ok = v && PyFloat_CheckExact(v);
    if (ok)
        run->reg[in->to].f = PyFloat_AS_DOUBLE(v);
    PyErr_Clear();
    Py_XDECREF(v);
    Py_XDECREF(arg[0]);
    Py_XDECREF(arg[1]);
    return ok;
}

/* ---- functions that Python has */

static PyObject *boxed_items(const struct fr_hot_run *run, const struct fr_hot_ask *ask, const struct fr_hot_value *v);

static PyObject *
boxed_shape(const struct fr_hot_view *view, int ndim)
{
    PyObject *shape = PyTuple_New(ndim);

    for (int k = 0; shape && k < ndim; k++) {
        PyObject *n = PyLong_FromLongLong(view->dim[k]);

        if (!n)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, k, n);
    }
    return shape;
}

/* Elements of an array that something is asked about: what takes long is not to be asked again while the loop is found out about, and
 * what is changed is copied first. */
enum { MOST_ASKED = 4096 };

/* An argument, a new reference; NULL: it cannot be made (an exception may be set). */
static PyObject *
argument(const struct fr_hot_run *run, const struct fr_hot_ask *ask, const struct fr_hot_value *v)
{
    const union fr_hot_cell *cell = v->reg >= 0 ? &run->reg[v->reg] : NULL;

    switch (v->kind) {
    case FR_HOT_OBJECT: return Py_NewRef(v->object);
    case FR_HOT_OWNER: {
        PyObject *o = run->view[v->dtype].array;

        return !v->object || Py_IS_TYPE(o, (PyTypeObject *)v->object) ? Py_NewRef(o) : NULL;
    }
    case FR_HOT_TUPLE:
    case FR_HOT_DISPLAY:
    case FR_HOT_SLICE: return boxed_items(run, ask, v);
    case FR_HOT_SHAPE: return boxed_shape(&run->view[v->reg], v->ndim);
    case FR_HOT_RANGE:
        return PyObject_CallFunction((PyObject *)&PyRange_Type, "LLL", (long long)cell[0].i, (long long)(cell[0].i + cell[1].i * cell[2].i),
                                     (long long)cell[2].i);
    case FR_HOT_ARRAY: {
        int64_t n = 1;

        for (int k = 0; k < v->ndim; k++)
            n *= run->view[v->reg].dim[k];
        if (n == 0 || (n > MOST_ASKED && !ask->picks)) /* (NumPy warns of some results of none) */
            return NULL;
        return fr_hot_boxed(cell, &run->view[v->reg], v);
    }
    case FR_HOT_LIST: {
        PyObject           *list = run->view[v->reg].array;
        struct fr_hot_value item;

        for (Py_ssize_t k = 0; k < PyList_GET_SIZE(list) && !ask->moves; k++) { /* (none of theirs runs code of the user's) */
            fr_hot_type(PyList_GET_ITEM(list, k), &item);
            if (item.kind == FR_HOT_OPAQUE)
                return NULL;
        }
        return Py_NewRef(list);
    }
    default: return fr_hot_boxed(cell, v->reg >= 0 ? &run->view[v->reg] : NULL, v);
    }
}

static PyObject *
boxed_items(const struct fr_hot_run *run, const struct fr_hot_ask *ask, const struct fr_hot_value *v)
{
    PyObject *all = v->kind == FR_HOT_DISPLAY ? PyList_New(v->ndim) : PyTuple_New(v->ndim), *slice;

    for (int k = 0; all && k < v->ndim; k++) {
        PyObject *o = argument(run, ask, &ask->item[v->items + k]);

        if (!o)
            Py_CLEAR(all);
        else if (v->kind == FR_HOT_DISPLAY)
            PyList_SET_ITEM(all, k, o);
        else
            PyTuple_SET_ITEM(all, k, o);
    }
    if (!all || v->kind != FR_HOT_SLICE)
        return all;
    slice = PySlice_New(PyTuple_GET_ITEM(all, 0), PyTuple_GET_ITEM(all, 1), PyTuple_GET_ITEM(all, 2));
    Py_DECREF(all);
    return slice;
}

/* What a result is: a number, an array, None, a list of such, or a tuple of few. */
static void
type_of_result(PyObject *o, struct fr_hot_value *v)
{
    struct fr_hot_value part;
    Py_ssize_t          n = PyTuple_Check(o) ? PyTuple_GET_SIZE(o) : 0;

    if (n == 0 || n > FR_HOT_PARTS) {
        fr_hot_type(o, v);
        return;
    }
    *v = (struct fr_hot_value){.kind = FR_HOT_TUPLE, .ndim = (uint8_t)n, .n_parts = (uint8_t)n};
    for (int k = 0; k < n; k++) {
        fr_hot_type(PyTuple_GET_ITEM(o, k), &part);
        v->part[k].kind = part.kind;
        v->part[k].dtype = part.dtype;
        v->part[k].ndim = part.ndim;
        if (part.kind != FR_HOT_PYTHON && part.kind != FR_HOT_NUMPY && part.kind != FR_HOT_ARRAY)
            v->kind = FR_HOT_OPAQUE;
    }
}

/* Puts a result where its type has it; takes the reference. */
static bool
put_result(struct fr_hot_run *run, PyObject *o, const struct fr_hot_value *type, int to)
{
    bool ok = true;

    if (type->kind == FR_HOT_ARRAY || type->kind == FR_HOT_LIST)
        return fr_hot_give(run, o, to);
    if (type->kind == FR_HOT_TUPLE) {
        for (int k = 0; k < type->n_parts && ok; k++) {
            const struct fr_hot_value part = {.kind = type->part[k].kind, .dtype = type->part[k].dtype, .ndim = type->part[k].ndim};

            ok = put_result(run, Py_NewRef(PyTuple_GET_ITEM(o, k)), &part, to + k);
        }
    } else {
        fr_hot_read_value(o, type, &run->reg[to], &run->view[to]);
    }
    Py_DECREF(o);
    return ok;
}

/* Takes the generator's lock again; false: an exception may be set, or others have put another in its place: nothing is put back. */
static bool
take_again(struct fr_hot_run *run)
{
    PyObject            *type, *value, *trace;
    const bitgen_t      *was = run->random.draw;
    bool                 is;

    PyErr_Fetch(&type, &value, &trace);
    run->has_lock = fr_few_generator_begin(&run->random);
    is = run->has_lock && run->random.draw == was;
    if (type) {
        PyErr_Clear();
        PyErr_Restore(type, value, trace);
    }
    run->n_pieces = is ? run->n_pieces : 0;
    return is;
}

/* What the function gives; NULL: Python is to say it. */
static PyObject *
answer(struct fr_hot_run *run, const struct fr_hot_ask *ask)
{
    PyObject  *all[FR_HOT_ASK_ARGS + 1], **arg = all + 1, *v = NULL;
    bool       unlocked = false;
    Py_ssize_t n = 0, n_names = ask->names ? PyTuple_GET_SIZE(ask->names) : 0;

    for (; n < ask->n; n++)
        if (!(arg[n] = argument(run, ask, &ask->arg[n])))
            break;
    if (n == ask->n && (!ask->draws || fr_hot_draws_end(run))) { /* (it takes the lock itself) */
        unlocked = ask->draws;
        v = PyObject_Vectorcall(ask->function, arg, (size_t)(n - n_names) | PY_VECTORCALL_ARGUMENTS_OFFSET, ask->names);
    }
    while (n-- > 0)
        Py_DECREF(arg[n]);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) /* (no KeyboardInterrupt) */
        PyErr_Clear();
    fr_fpe_lower(); /* (NumPy has looked) */
    if (unlocked && !take_again(run))
        Py_CLEAR(v);
    return v;
}

enum { MOST_REORDERED = 256 }; /* items of a list that is copied before it is changed */

static bool
log_list(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ask *ask, PyObject *list)
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    int64_t    i;

    if (!ask->takes_out)
        return n <= MOST_REORDERED && fr_hot_log_note(log, FR_HOT_REORDERED, list, 0, PyList_GetSlice(list, 0, n));
    i = ask->n > ask->changes ? run->reg[ask->arg[ask->changes].reg].i : -1;
    i += i < 0 ? n : 0;
    return i >= 0 && i < n && fr_hot_log_note(log, FR_HOT_TAKEN_OUT, list, (Py_ssize_t)i, Py_NewRef(PyList_GET_ITEM(list, i)));
}

/* Remembers what an argument was, which is about to change; false: that is too much. */
static bool
log_change(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ask *ask)
{
    const struct fr_hot_value *of = &ask->arg[ask->changes - 1];
    struct fr_hot_view        *v = &run->view[of->kind == FR_HOT_OWNER ? of->dtype : of->reg];
    PyObject                  *key, *old;

    if (of->kind == FR_HOT_ARRAY)
        return v->writable && (fr_hot_is_new(run, v) || fr_hot_log_view(log, v, of->ndim, fr_dtype_size((fr_dtype)of->dtype)));
    if (of->kind == FR_HOT_LIST)
        return fr_hot_is_new(run, v) || log_list(run, log, ask, v->array);
    if (!PyDict_CheckExact(v->array) || !(key = argument(run, ask, &ask->arg[ask->changes])))
        return false;
    old = PyDict_GetItemWithError(v->array, key);
    key = PyErr_Occurred() ? NULL : old ? Py_BuildValue("(NO)", key, old) : Py_BuildValue("(N)", key);
    return fr_hot_log_note(log, FR_HOT_KEYED, v->array, 0, key);
}

bool
fr_hot_run_ask(struct fr_hot_program *p, struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ask *ask, int to)
{
    struct fr_hot_guess *guess = &p->guess[ask->guess];
    struct fr_hot_value  type;
    PyObject            *v;

    if (fr_fpe_raw() != 0 || (ask->draws && !run->random.normal)) /* (it may keep a normal number) */
        return false;
    if (ask->changes && !log_change(run, log, ask))
        return false;
    if (!(v = answer(run, ask)))
        return false;
    type_of_result(v, &type);
    if (fr_hot_same_value(&type, &guess->to))
        return put_result(run, v, &type, to);
    Py_DECREF(v);
    if (guess->to.kind != FR_HOT_OPAQUE) {
        guess->to = type;
        if (++guess->n_changes > FR_HOT_MOST_GUESSES)
            guess->to.kind = FR_HOT_OPAQUE;
        p->is_outdated = true;
    }
    return false;
}

/* ---- lists */

static bool
is_of_type(PyObject *o, int kind, int dtype, int ndim)
{
    struct fr_hot_value type;

    if (kind == FR_HOT_PYTHON && dtype == FR_F64)
        return PyFloat_CheckExact(o);
    if (kind == FR_HOT_LIST)
        return PyList_CheckExact(o);
    fr_hot_type(o, &type);
    return type.kind == kind && type.dtype == dtype && type.ndim == ndim;
}

/* The object of the value that an instruction puts into a list. */
static PyObject *
item_of(const struct fr_hot_run *run, const struct fr_hot_ins *in, int reg)
{
    const struct fr_hot_value type = {.kind = (uint8_t)(in->i & 0xff), .dtype = (uint8_t)(in->i >> 8 & 0xff), .ndim = in->n};

    return fr_hot_boxed(&run->reg[reg], &run->view[reg], &type);
}

bool
fr_hot_run_append(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ins *in)
{
    PyObject *list = run->view[in->to].array, *o = item_of(run, in, in->a);
    bool      is_new = fr_hot_is_new(run, &run->view[in->to]), ok = o && (is_new || fr_hot_log_note(log, FR_HOT_APPENDED, list, 0, o));

    if (ok && PyList_Append(list, o) < 0) {
        log->n -= !is_new;
        ok = false;
    }
    PyErr_Clear();
    Py_XDECREF(o);
    return ok;
}

/* The place of an index in a list; -1: it has none. */
static Py_ssize_t
place_of(PyObject *list, int64_t i)
{
    Py_ssize_t n = PyList_GET_SIZE(list);

    i += i < 0 ? n : 0;
    return i >= 0 && i < n ? (Py_ssize_t)i : -1;
}

bool
fr_hot_run_list_item(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = in->n, .dtype = (uint8_t)in->c, .ndim = (uint8_t)in->i};
    PyObject                 *list = run->view[in->a].array, *o;
    Py_ssize_t                i = place_of(list, run->reg[in->b].i);

    if (i < 0 || !is_of_type(o = PyList_GET_ITEM(list, i), type.kind, type.dtype, type.ndim))
        return false;
    fr_hot_read_value(o, &type, &run->reg[in->to], &run->view[in->to]);
    return true;
}

bool
fr_hot_run_hold(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    struct fr_hot_view *v = &run->view[in->a];
    int32_t             made = v->made ? v->made : fr_hot_take(run, Py_NewRef(v->array), true);

    v->made = made;
    return made != 0;
}

bool
fr_hot_run_list_store(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ins *in)
{
    PyObject           *list = run->view[in->a].array, *old, *o;
    Py_ssize_t          i = place_of(list, run->reg[in->b].i);
    struct fr_hot_value was;

    if (i < 0 || i >= INT32_MAX)
        return false;
    old = PyList_GET_ITEM(list, i);
    fr_hot_type(old, &was);
    if (was.kind == FR_HOT_OPAQUE || !(o = item_of(run, in, in->to))) { /* (else somebody's code may run) */
        PyErr_Clear();
        return false;
    }
    if (!fr_hot_log_note(log, FR_HOT_REPLACED, list, i, Py_NewRef(old))) {
        Py_DECREF(o);
        return false;
    }
    Py_DECREF(old); /* (the log has it) */
    if (run->view[in->a].made)
        run->pool.v[run->view[in->a].made - 1].turn = -1;
    PyList_SET_ITEM(list, i, o);
    return true;
}

bool
fr_hot_run_new_list(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *list = PyList_New(0);

    if (list)
        return fr_hot_give(run, list, in->to);
    PyErr_Clear();
    return false;
}

bool
fr_hot_run_list_array(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *list = run->view[in->a].array;
    int64_t   n = PyList_GET_SIZE(list);
    fr_dtype  d = (fr_dtype)in->c;

    if (n == 0 || n > FR_HOT_ELEMENTS || !fr_hot_make(run, d, 1, &n, in->to))
        return false;
    for (int64_t i = 0; i < n; i++) {
        PyObject            *o = PyList_GET_ITEM(list, i);
        struct fr_hot_value  type;
        union fr_hot_cell    cell;

        fr_hot_type(o, &type);
        if ((type.kind != FR_HOT_PYTHON && type.kind != FR_HOT_NUMPY) || type.dtype != d)
            return false;
        fr_hot_read_value(o, &type, &cell, NULL);
        fr_hot_write_number(&cell, d, run->view[in->to].data + i * fr_dtype_size(d));
    }
    return true;
}
