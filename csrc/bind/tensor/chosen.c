/* bind/tensor/chosen.c -- what assignments to chosen elements have in common: t[mask] = v (mask.c) and t[indices] = v
 * (take.c). */
#include "bind/tensor/tensor.h"

bool
fr_chosen_meets(const struct fr_tensor *t, PyObject *o)
{
    char         *low, *high, *data;
    void         *first;
    struct fr_err err;

    if (fr_is_tensor(o))
        return fr_tensors_meet(fr_of(o), t);
    if (!fr_numpy_is_array(o) || !fr_storage_pinned(t->storage))
        return false;
    fr_info_sync(FR_SYNC_index, t);
    if (fr_tensor_data(t, &first, &err) != FR_OK)
        return true;
    data = first;
    fr_share_bounds(o, &low, &high);
    return !t->layout->c_contig || (low < data + t->layout->n_elems * fr_dtype_size(t->dtype) && data < high);
}

/* A list or tuple of numbers, which NumPy converts each by itself: one of a kind or range that t has not is its to refuse. */
static int
of_items(const struct fr_tensor *t, PyObject *value, struct fr_value *x)
{
    PyObject *items;
    int       got = FR_VALUE_FALLBACK;

    if ((!PyList_Check(value) && !PyTuple_Check(value)) || fr_containers_hold_tensor(value, 0))
        return FR_VALUE_FALLBACK;
    if ((items = fr_numpy_from_items(value, t->dtype)) && (got = fr_value_tensor(items, x)) == FR_VALUE_OK &&
        x->arg.t->layout->ndim > t->layout->ndim) {
        fr_value_clear(x);
        got = FR_VALUE_FALLBACK;
    }
    Py_XDECREF(items);
    return got;
}

int
fr_chosen_value(const struct fr_tensor *t, PyObject *value, struct fr_tensor *out)
{
    struct fr_arg    arg = {.t = NULL};
    struct fr_value  x = {.own.storage = NULL};
    struct fr_err    err;
    int              got = FR_VALUE_FALLBACK;

    if (fr_chosen_meets(t, value))
        return FR_VALUE_FALLBACK;
    /* Beside indices and masks, NumPy casts its own numbers as it casts arrays. */
    if (!fr_numpy_is_scalar(value) && (got = fr_value_element(value, t->dtype, &arg.n)) == FR_VALUE_OK) {
        if (fr_errors_check(fr_trace_fill(0, NULL, t->dtype, &arg.n, out, &err), &err) < 0)
            return FR_VALUE_ERROR;
        fr_tensor_set_anywhere(out);
        return FR_VALUE_OK;
    }
    if (got == FR_VALUE_FALLBACK && (fr_is_tensor(value) || fr_numpy_is_array(value) || fr_numpy_is_scalar(value)))
        got = fr_value_tensor(value, &x);
    else if (got == FR_VALUE_FALLBACK)
        got = of_items(t, value, &x);
    if (got != FR_VALUE_OK) { /* an error is NumPy's to raise, or one that comes before it */
        PyErr_Clear();
        return FR_VALUE_FALLBACK;
    }
    if (!fr_dtype_same_kind(x.arg.t->dtype, t->dtype))
        got = FR_VALUE_FALLBACK;
    else if (x.arg.t->dtype == t->dtype)
        fr_tensor_copy(x.arg.t, out);
    else
        got = fr_errors_check(fr_trace_cast(x.arg.t, t->dtype, 'C', out, &err), &err);
    fr_value_clear(&x);
    return got;
}

void
fr_chosen_sync(const struct fr_tensor *const *t, int n)
{
    int i = 0;

    while (i < n - 1 && !fr_tensor_is_pending(t[i]))
        i++;
    fr_info_sync(FR_SYNC_index, t[i]);
}
