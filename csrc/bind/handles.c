/* bind/handles.c -- the tensors among objects, at any depth of lists, tuples and dicts: what is computed together. */
#include <string.h>

#include "base/alloc.h"
#include "bind/bind.h"

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
        fr_handles_free(h);
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
            failed = fr_handles_add(h, PySequence_Fast_GET_ITEM(o, i), depth);
    } else if (PyDict_Check(o)) {
        PyObject  *key, *value;
        Py_ssize_t pos = 0;

        while (!failed && PyDict_Next(o, &pos, &key, &value))
            failed = fr_handles_add(h, value, depth);
    }
    return failed;
}

int
fr_handles_add(struct fr_handles *h, PyObject *o, int depth)
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
fr_handles_free(struct fr_handles *h)
{
    if (h->v != h->few)
        fr_free(h->v);
}

int
fr_handles_eval(fr_args args, Py_ssize_t n_args, int depth, enum fr_sync why)
{
    struct fr_handles h = FR_HANDLES(h);
    struct fr_err     err;
    fr_status         st = FR_OK;
    int               failed = 0;

    for (Py_ssize_t i = 0; !failed && i < n_args; i++)
        failed = fr_handles_add(&h, args[i], depth);
    for (size_t i = 0; !failed && i < h.n; i++)
        fr_info_sync(why, h.v[i]);
    if (!failed)
        st = fr_tensor_eval(h.v, (int)h.n, &err);
    fr_handles_free(&h);
    if (st != FR_OK)
        fr_errors_raise(st, &err);
    return failed || st != FR_OK ? -1 : 0;
}
