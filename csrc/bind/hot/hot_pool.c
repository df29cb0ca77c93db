/* bind/hot/hot_pool.c -- see hot_run.h: what was stored since the last turn, and arrays and lists that runs hold. */
#include "bind/hot/hot_run.h"

#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"

enum { FEW_APART = 4 }; /* elements that lie apart: fewer are logged one by one */

/* ---- the log */

bool
fr_hot_log_add(struct fr_hot_log *log, char *at, int32_t size)
{
    struct fr_hot_old *o;

    if (FR_UNLIKELY(log->n >= log->cap) && (log->n >= FR_HOT_MOST_STORES || !FR_GROW(log->v, log->cap, log->n + 1)))
        return false;
    o = &log->v[log->n];
    *o = (struct fr_hot_old){.at = at, .size = size};
    if (size > (int32_t)sizeof o->bits) {
        if (log->n_bytes + (size_t)size > FR_HOT_MOST_BYTES || !FR_GROW(log->bytes, log->cap_bytes, log->n_bytes + (size_t)size))
            return false;
        memcpy(log->bytes + log->n_bytes, at, (size_t)size);
        o->bits = log->n_bytes;
        log->n_bytes += (size_t)size;
    } else if (size > 0) {
        memcpy(&o->bits, at, (size_t)size);
    }
    log->n++;
    return true;
}

/* Elements that lie apart. */
static bool
add_spread(struct fr_hot_log *log, char *at, int64_t n, int64_t stride, int size)
{
    const struct fr_hot_spread head = {n, stride};
    const size_t               n_bytes = sizeof head + (size_t)(n * size), begin = (log->n_bytes + 7) / 8 * 8;
    int64_t                    step = size;

    if (begin + n_bytes > FR_HOT_MOST_BYTES || !FR_GROW(log->bytes, log->cap_bytes, begin + n_bytes) || !fr_hot_log_add(log, at, 0))
        return false;
    memcpy(log->bytes + begin, &head, sizeof head);
    fr_host_copy(size, 1, &n, log->bytes + begin + sizeof head, &step, at, &stride);
    log->v[log->n - 1].what = FR_HOT_SPREAD;
    log->v[log->n - 1].size = size;
    log->v[log->n - 1].bits = begin;
    log->n_bytes = begin + n_bytes;
    return true;
}

static void
put_spread_back(const struct fr_hot_log *log, const struct fr_hot_old *o)
{
    struct fr_hot_spread head;
    int64_t              step = o->size;

    memcpy(&head, log->bytes + o->bits, sizeof head);
    fr_host_copy(o->size, 1, &head.n, o->at, &head.stride, log->bytes + o->bits + sizeof head, &step);
}

bool
fr_hot_log_note(struct fr_hot_log *log, enum fr_hot_stored what, PyObject *of, Py_ssize_t place, PyObject *object)
{
    if (!object || place > INT32_MAX || !fr_hot_log_add(log, (char *)of, 0)) {
        if (what != FR_HOT_APPENDED)
            Py_XDECREF(object);
        return false;
    }
    log->v[log->n - 1].what = (uint8_t)what;
    log->v[log->n - 1].size = (int32_t)place;
    log->v[log->n - 1].bits = (uint64_t)(uintptr_t)object;
    return true;
}

/* Takes the last that is that object out of a list: threads may have appended others. */
static int
take_out(PyObject *list, PyObject *o)
{
    Py_ssize_t k = PyList_GET_SIZE(list);

    while (k-- > 0 && PyList_GET_ITEM(list, k) != o)
        ;
    return k < 0 ? 0 : PyList_SetSlice(list, k, k + 1, NULL); /* (what is taken out is no user's object: nothing is called) */
}

static int
put_key_back(PyObject *dict, PyObject *kept)
{
    PyObject *key = PyTuple_GET_ITEM(kept, 0);

    return PyTuple_GET_SIZE(kept) == 2 ? PyDict_SetItem(dict, key, PyTuple_GET_ITEM(kept, 1)) : PyDict_DelItem(dict, key);
}

void
fr_hot_log_undo(const struct fr_hot_log *log)
{
    PyObject *type, *value, *trace;
    int       st = 0;

    PyErr_Fetch(&type, &value, &trace);
    for (size_t i = log->n; i-- > 0;) {
        const struct fr_hot_old *o = &log->v[i];
        PyObject                *of = (PyObject *)o->at, *object = (PyObject *)(uintptr_t)o->bits;

        switch ((enum fr_hot_stored)o->what) {
        case FR_HOT_BYTES:
            memcpy(o->at, o->size > (int32_t)sizeof o->bits ? log->bytes + o->bits : (const char *)&o->bits, (size_t)o->size);
            break;
        case FR_HOT_SPREAD: put_spread_back(log, o); break;
        case FR_HOT_APPENDED: st |= take_out(of, object); break;
        case FR_HOT_REPLACED: st |= PyList_SetItem(of, o->size, object); break; /* (else others made it shorter) */
        case FR_HOT_TAKEN_OUT:
            st |= PyList_Insert(of, o->size, object);
            Py_DECREF(object);
            break;
        case FR_HOT_REORDERED:
            st |= PyList_SetSlice(of, 0, PyList_GET_SIZE(of), object);
            Py_DECREF(object);
            break;
        case FR_HOT_KEYED:
            st |= put_key_back(of, object);
            Py_DECREF(object);
            break;
        }
    }
    if (st < 0)
        PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

void
fr_hot_log_forget(const struct fr_hot_log *log)
{
    for (size_t i = 0; i < log->n; i++)
        if (log->v[i].what >= FR_HOT_REPLACED)
            Py_DECREF((PyObject *)(uintptr_t)log->v[i].bits);
}

void
fr_hot_log_free(struct fr_hot_log *log)
{
    fr_free(log->v);
    fr_free(log->bytes);
}

bool
fr_hot_log_view(struct fr_hot_log *log, const struct fr_hot_view *v, int ndim, int size)
{
    const int64_t *dim = v->dim, *stride = v->stride;

    if (ndim == 0)
        return fr_hot_log_add(log, v->data, size);
    if (ndim == 1 && stride[0] == size)
        return dim[0] == 0 || fr_hot_log_add(log, v->data, (int32_t)(dim[0] * size));
    if (ndim == 1 && dim[0] >= FEW_APART && stride[0] != 0)
        return add_spread(log, v->data, dim[0], stride[0], size);
    for (int64_t i = 0; i < dim[0]; i++) {
        struct fr_hot_view part = {.data = v->data + i * stride[0]};

        for (int k = 1; k < ndim; k++) {
            part.dim[k - 1] = dim[k];
            part.stride[k - 1] = stride[k];
        }
        if (!fr_hot_log_view(log, &part, ndim - 1, size))
            return false;
    }
    return true;
}

/* ---- arrays that are made */

static bool
is_like(PyObject *array, fr_dtype d, int ndim, const int64_t *dims)
{
    PyArrayObject *a = fr_array(array);

    if (!PyArray_IS_C_CONTIGUOUS(a) || PyArray_NDIM(a) != ndim || PyArray_DESCR(a) != (PyArray_Descr *)fr_numpy_descrs[d])
        return false;
    for (int k = 0; k < ndim; k++)
        if (PyArray_DIM(a, k) != dims[k])
            return false;
    return true;
}

int32_t
fr_hot_take(struct fr_hot_run *run, PyObject *o, bool is_held)
{
    struct fr_hot_pool *p = &run->pool;
    size_t              k = p->first;
    bool                is_new;

    while (k < p->n && p->v[k].array)
        k++;
    if (k == p->n && !FR_GROW(p->v, p->cap, p->n + 1)) {
        Py_DECREF(o);
        return 0;
    }
    p->n += k == p->n;
    p->first = k + 1;
    is_new = !is_held && (!PyArray_Check(o) || PyArray_CHKFLAGS(fr_array(o), NPY_ARRAY_OWNDATA));
    p->v[k] = (struct fr_hot_made){.array = o, .turn = is_new ? run->n_turns : -1, .is_held = is_held};
    p->n_taken++;
    return (int32_t)k + 1;
}

bool
fr_hot_give(struct fr_hot_run *run, PyObject *o, int to)
{
    int32_t made = fr_hot_take(run, o, Py_REFCNT(o) > 1);

    if (!made)
        return false;
    fr_hot_read_any(o, &run->view[to]);
    run->view[to].made = made;
    return true;
}

bool
fr_hot_make(struct fr_hot_run *run, fr_dtype d, int ndim, const int64_t *dims, int to)
{
    struct fr_hot_pool *p = &run->pool;
    npy_intp            sizes[FR_HOT_AXES];
    PyObject           *array;

    for (size_t k = 0; k < p->n; k++)
        if (p->v[k].is_free && is_like(p->v[k].array, d, ndim, dims)) {
            p->v[k].is_free = false;
            p->v[k].turn = run->n_turns;
            p->n_taken++;
            fr_hot_read_view(p->v[k].array, &run->view[to]);
            run->view[to].made = (int32_t)k + 1;
            return true;
        }
    for (int k = 0; k < ndim; k++)
        sizes[k] = (npy_intp)dims[k];
    array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(fr_numpy_descrs[d]), ndim, sizes, NULL, NULL, 0, NULL);
    if (!array) {
        PyErr_Clear();
        return false;
    }
    if (!fr_hot_give(run, array, to))
        return false;
    p->v[run->view[to].made - 1].is_ours = true;
    return true;
}

void
fr_hot_pool_begin(const struct fr_hot_program *p, struct fr_hot_run *run)
{
    for (int i = 0; i < p->n_vars; i++)
        run->view[i].made = run->saved_view[i].made = 0;
    for (int i = FR_HOT_STACK_REGS; i < FR_HOT_TEMPORARY; i++)
        run->view[i].made = 0;
}

void
fr_hot_pool_look(const struct fr_hot_program *p, struct fr_hot_run *run, bool turns)
{
    struct fr_hot_pool *pool = &run->pool;

    for (size_t k = 0; k < pool->n; k++)
        pool->v[k].is_seen = false;
    for (int i = 0; i < p->n_vars; i++) {
        if (run->view[i].made)
            pool->v[run->view[i].made - 1].is_seen = true;
        if (!turns && run->saved_view[i].made)
            pool->v[run->saved_view[i].made - 1].is_seen = true;
    }
    for (int i = FR_HOT_STACK_REGS; i < FR_HOT_TEMPORARY; i++)
        if (run->view[i].made)
            pool->v[run->view[i].made - 1].is_seen = true;
    for (size_t k = 0; k < pool->n; k++) {
        struct fr_hot_made *m = &pool->v[k];
        bool                is_alone;

        if (!m->array || m->is_seen) {
            m->is_free = false;
            continue;
        }
        /* Nobody has wanted one like it since the last look: rows of other lengths come, and all are searched. */
        if (m->is_free) {
            Py_CLEAR(m->array);
            m->is_free = false;
            continue;
        }
        is_alone = Py_REFCNT(m->array) == 1;
        m->is_free = m->is_ours && is_alone && PyArray_CHKFLAGS(fr_array(m->array), NPY_ARRAY_OWNDATA);
        /* Until a turn the log may lead to what was there before; items of lists are held by these, or were replaced, and by the log. */
        if (!m->is_free && (turns || (is_alone && m->turn == run->n_turns) || (m->is_held && !is_alone)))
            Py_CLEAR(m->array);
    }
    while (pool->n > 0 && !pool->v[pool->n - 1].array)
        pool->n--;
    pool->n_taken = 0;
    pool->first = 0;
}

void
fr_hot_run_end(struct fr_hot_run *run)
{
    for (size_t k = 0; k < run->pool.n; k++)
        Py_XDECREF(run->pool.v[k].array);
    fr_free(run->pool.v);
    run->pool = (struct fr_hot_pool){.v = NULL};
}
