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

fr_status
fr_handles_eval(const struct fr_handles *h, enum fr_sync why, struct fr_err *err)
{
    for (size_t i = 0; i < h->n; i++)
        fr_info_sync(why, h->v[i]);
    return fr_tensor_eval(h->v, (int)h->n, err);
}
