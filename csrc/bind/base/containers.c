/* bind/base/containers.c -- the tensors among objects, at any depth of lists, tuples and dicts: what is computed
 * together, and what stands for them in a call of others (fallback.c, outside.c). */
#include <string.h>

#include "base/alloc.h"
#include "bind/base/base.h"

static int
add(struct fr_handles *h, const struct fr_tensor *t)
{
    if (h->n == h->cap) {
        const struct fr_tensor **more = fr_malloc(2 * h->cap * sizeof *more);

        if (!more) {
            PyErr_NoMemory();
            return -1;
        }
        memcpy(more, h->v, h->n * sizeof *more);
        fr_containers_free(h);
        h->v = more;
        h->cap *= 2;
    }
    h->v[h->n++] = t;
    return 0;
}

static int
add_items(struct fr_handles *h, PyObject *o, int depth)
{
    int failed = 0;

    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; !failed && i < PySequence_Fast_GET_SIZE(o); i++)
            failed = fr_containers_add(h, PySequence_Fast_GET_ITEM(o, i), depth);
    } else if (PyDict_Check(o)) {
        PyObject  *key, *value;
        Py_ssize_t pos = 0;

        while (!failed && PyDict_Next(o, &pos, &key, &value))
            failed = fr_containers_add(h, value, depth);
    }
    return failed;
}

int
fr_containers_add(struct fr_handles *h, PyObject *o, int depth)
{
    int failed;

    if (fr_is_tensor(o))
        return add(h, fr_of(o));
    if (depth == 0 || !(PyTuple_Check(o) || PyList_Check(o) || PyDict_Check(o)))
        return 0;
    if (Py_EnterRecursiveCall(" while tensors were looked for"))
        return -1;
    failed = add_items(h, o, depth - 1);
    Py_LeaveRecursiveCall();
    return failed;
}

void
fr_containers_free(struct fr_handles *h)
{
    if (h->v != h->few)
        fr_free(h->v);
}

int
fr_containers_eval(fr_args args, Py_ssize_t n_args, int depth, enum fr_sync why)
{
    struct fr_handles h = FR_HANDLES(h);
    struct fr_err     err;
    fr_status         st = FR_OK;
    int               failed = 0;

    for (Py_ssize_t i = 0; !failed && i < n_args; i++)
        failed = fr_containers_add(&h, args[i], depth);
    for (size_t i = 0; !failed && i < h.n; i++)
        fr_info_sync(why, h.v[i]);
    if (!failed)
        st = fr_tensor_eval(h.v, (int)h.n, &err);
    fr_containers_free(&h);
    if (st != FR_OK)
        fr_errors_raise(st, &err);
    return failed || st != FR_OK ? -1 : 0;
}

PyObject *
fr_guests_add(struct fr_guests *g, PyObject *tensor, PyObject *shown)
{
    if (shown && g->n == g->cap) {
        struct fr_guest *more = fr_malloc(2 * g->cap * sizeof *more);

        if (!more) {
            Py_DECREF(shown);
            return PyErr_NoMemory();
        }
        memcpy(more, g->v, g->n * sizeof *more);
        if (g->v != g->few)
            fr_free(g->v);
        g->v = more;
        g->cap *= 2;
    }
    if (shown)
        g->v[g->n++] = (struct fr_guest){Py_NewRef(tensor), shown};
    return Py_XNewRef(shown);
}

void
fr_guests_free(struct fr_guests *g)
{
    for (size_t i = 0; i < g->n; i++) {
        Py_DECREF(g->v[i].shown);
        Py_DECREF(g->v[i].tensor);
    }
    if (g->v != g->few)
        fr_free(g->v);
    g->n = 0;
}

PyObject *
fr_containers_changed(PyObject *sequence, PyObject *(*change)(void *of, PyObject *), void *of)
{
    PyObject *list = NULL;

    /* While a tensor is computed, another thread may change the caller's list. */
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list ? list : sequence); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(list ? list : sequence, i)), *got = change(of, item);
        bool      same = got == item;

        Py_DECREF(item);
        if (got && !same && !list && (list = PySequence_List(sequence)) && i >= PyList_GET_SIZE(list)) {
            PyErr_SetString(PyExc_RuntimeError, "list changed size while it was read");
            Py_CLEAR(list);
        }
        if (!got || (!same && !list)) {
            Py_XDECREF(got);
            Py_XDECREF(list);
            return NULL;
        }
        if (list)
            PyList_SetItem(list, i, got); /* steals */
        else
            Py_DECREF(got);
    }
    return list ? list : Py_NewRef(sequence);
}

bool
fr_containers_hold_tensor(PyObject *o, int depth)
{
    if (fr_is_tensor(o))
        return true;
    if (depth > 8 || !(PyList_CheckExact(o) || PyTuple_CheckExact(o)))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (fr_containers_hold_tensor(PySequence_Fast_GET_ITEM(o, i), depth + 1))
            return true;
    return false;
}
