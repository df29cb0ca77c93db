/* bind/tensor/spread.c -- tile, repeat: more elements than there were, by a window and a copy. */
#include <string.h>

#include "bind/tensor/tensor.h"

/* ---- tile, repeat: an axis of stride 0 beside each axis, and a reshape that copies */

static PyObject *
spread(const struct fr_tensor *t, int ndim, const int64_t *dims, const int64_t *strides,
       int out_ndim, int64_t *out_dims)
{
    struct fr_tensor wide, copy;
    struct fr_err    err;
    fr_status        st;
    PyObject        *o;

    FR_TRACE_HERE();
    st = fr_tensor_window(t, ndim, dims, strides, 0, &wide, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    st = fr_trace_cast(&wide, wide.dtype, 'C', &copy, &err);
    fr_tensor_clear(&wide);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    o = fr_shape_reshape(&copy, out_ndim, out_dims, 'C', -1);
    fr_tensor_clear(&copy);
    return o;
}

/* A copy in the order of t's own memory, under leading axes of length 1. */
static PyObject *
copy_under(const struct fr_tensor *t, int ndim)
{
    PyObject *copy = fr_creation_astype(t, t->dtype, 'K');
    int       n_new = ndim - t->layout->ndim;

    if (copy && n_new > 0)
        Py_SETREF(copy, fr_shape_expand(fr_of(copy), (uint32_t)((1ull << n_new) - 1), ndim));
    return copy;
}

static struct fr_signature tile_signature = {"tile", 2, 2, 2, {"A", "reps"}, {NULL}};

static PyObject *
tile(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[2];
    int64_t   reps[FR_MAX_DIMS], dims[2 * FR_MAX_DIMS], strides[2 * FR_MAX_DIMS];
    int64_t   out[FR_MAX_DIMS];
    int       n_reps, ndim;

    (void)module;
    if (fr_args_parse(&tile_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_is_tensor(s[0]) || fr_args_dims(s[1], false, &n_reps, reps) < 0) {
        PyErr_Clear();
        return fr_fallback_name("tile", args, nargs, kw);
    }
    const struct fr_layout *l = fr_of(s[0])->layout;
    bool once = true;
    for (int i = 0; i < n_reps; i++)
        once = once && reps[i] == 1;
    ndim = l->ndim > n_reps ? l->ndim : n_reps;
    if (once)
        return copy_under(fr_of(s[0]), ndim);
    if (2 * ndim > FR_MAX_DIMS)
        return fr_fallback_name("tile", args, nargs, kw);
    for (int i = 0; i < ndim; i++) {
        int     k = i - (ndim - l->ndim), r = i - (ndim - n_reps);
        int64_t n = k < 0 ? 1 : fr_layout_dims(l)[k], times = r < 0 ? 1 : reps[r];
        dims[2 * i] = times;
        strides[2 * i] = 0;
        dims[2 * i + 1] = n;
        strides[2 * i + 1] = k < 0 ? 0 : fr_layout_strides(l)[k];
        if (__builtin_mul_overflow(times, n, &out[i]))
            return fr_fallback_name("tile", args, nargs, kw);
    }
    if (l->n_elems == 0) /* nothing to repeat: a window of it, as in NumPy, read-only if it is */
        return fr_shape_reshape(fr_of(s[0]), ndim, out, 'C', -1);
    return spread(fr_of(s[0]), 2 * ndim, dims, strides, ndim, out);
}

static struct fr_signature repeat_signature = {
    "repeat", 2, 3, 3, {"a", "repeats", "axis"}, {NULL}};

PyObject *
fr_spread_repeat(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3], *flat, *result;
    int64_t   times, dims[FR_MAX_DIMS + 1], strides[FR_MAX_DIMS + 1], out[FR_MAX_DIMS];
    int       axis = 0;

    (void)module;
    if (fr_args_parse(&repeat_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_is_tensor(s[0]) || !PyLong_CheckExact(s[1]) || !fr_value_small_int(s[1], &times) ||
        times < 0 || fr_of(s[0])->layout->ndim >= FR_MAX_DIMS ||
        (fr_of(s[0])->layout->ndim == 0 && !fr_args_none(s[2])))
        return fr_fallback_name("repeat", args, nargs, kw);
    if (fr_args_none(s[2])) {
        flat = fr_shape_ravel(fr_of(s[0]), 'C', false);
    } else {
        if (fr_args_axis(s[2], fr_of(s[0])->layout->ndim, &axis) < 0)
            return NULL;
        flat = Py_NewRef(s[0]);
    }
    if (!flat)
        return NULL;
    const struct fr_layout *l = fr_of(flat)->layout;
    for (int i = 0, k = 0; i < l->ndim; i++) {
        dims[k] = out[i] = fr_layout_dims(l)[i];
        strides[k++] = fr_layout_strides(l)[i];
        if (i == axis) {
            dims[k] = times;
            strides[k++] = 0;
            if (__builtin_mul_overflow(out[i], times, &out[i])) {
                Py_DECREF(flat);
                return fr_fallback_name("repeat", args, nargs, kw);
            }
        }
    }
    if (l->n_elems == 0 || times == 0) { /* new memory, where a reshape would keep its strides */
        struct fr_tensor none;
        struct fr_err    err;
        FR_ON_DEVICE fr_device before = fr_device_chosen();
        fr_device_follow(fr_of(flat));
        fr_status        st = fr_trace_empty(l->ndim, out, NULL, fr_of(flat)->dtype, &none, &err);
        result = fr_type_result(st, &none, &err);
    } else {
        result = spread(fr_of(flat), l->ndim + 1, dims, strides, l->ndim, out);
    }
    Py_DECREF(flat);
    return result;
}

PyMethodDef fr_spread_methods[] = {
    {"tile", FR_FAST(tile),
     "tile(A, reps)\n--\n\nThe array repeated as a block, reps[i] times along axis i, of the same dtype."},
    {"repeat", FR_FAST(fr_spread_repeat),
     "repeat(a, repeats, axis=None)\n--\n\n"
     "Each element repeated, along an axis or flattened, of the same dtype. A repeat per element is NumPy's. ValueError for\n"
     "less than 0 times, AxisError beyond ndim."},
    {NULL, NULL, 0, NULL},
};
