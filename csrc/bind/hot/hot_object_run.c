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

void
fr_hot_draws_keep(struct fr_hot_run *run)
{
    memcpy(run->random_saved, run->random.draw->state, run->random.n_bytes);
    if (run->random.normal)
        run->normal_saved = *run->random.normal;
}

void
fr_hot_draws_undo(struct fr_hot_run *run)
{
    memcpy(run->random.draw->state, run->random_saved, run->random.n_bytes);
    if (run->random.normal)
        *run->random.normal = run->normal_saved;
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

/* ---- functions of few elements */

static PyObject *
argument(const struct fr_hot_run *run, const struct fr_hot_few *few, const struct fr_hot_value *v)
{
    PyObject *tuple;

    if (v->kind != FR_HOT_TUPLE && v->kind != FR_HOT_DISPLAY)
        return fr_hot_boxed(&run->reg[v->reg], &run->view[v->reg], v);
    tuple = PyTuple_New(v->ndim);
    for (int k = 0; tuple && k < v->ndim; k++) {
        const struct fr_hot_value *item = &few->item[v->items + k];
        PyObject                  *o = fr_hot_boxed(&run->reg[item->reg], &run->view[item->reg], item);

        if (!o)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, o);
    }
    return tuple;
}

bool
fr_hot_run_few(struct fr_hot_run *run, const struct fr_hot_few *few, int to)
{
    PyObject           *arg[FR_HOT_FEW_ARGS], *v = NULL;
    struct fr_hot_value type;
    int                 n = 0;
    bool                ok = fr_fpe_raw() == 0; /* (the function lowers what was raised) */

    for (; ok && n < few->n; n += ok)
        ok = (arg[n] = argument(run, few, &few->arg[n])) != NULL;
    if (ok)
        v = few->call(arg, n, NULL);
    while (n-- > 0)
        Py_DECREF(arg[n]);
    if (v)
        fr_hot_type(v, &type);
    PyErr_Clear();
    if (!v || type.kind != few->to.kind || type.dtype != few->to.dtype || type.ndim != few->to.ndim || (type.kind == FR_HOT_ARRAY && Py_REFCNT(v) > 1)) {
        Py_XDECREF(v);
        return false;
    }
    if (type.kind == FR_HOT_ARRAY)
        return fr_hot_give(run, v, to);
    fr_hot_read_value(v, &type, &run->reg[to], &run->view[to]);
    Py_DECREF(v);
    return true;
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
    bool      ok = o && fr_hot_log_add(log, (char *)list, FR_HOT_LISTED);

    if (ok && PyList_Append(list, o) < 0) {
        log->n--;
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
    if (!fr_hot_log_add(log, (char *)list, FR_HOT_REPLACED - (int32_t)i)) {
        Py_DECREF(o);
        return false;
    }
    log->v[log->n - 1].bits = (uint64_t)(uintptr_t)old; /* its reference goes there */
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
