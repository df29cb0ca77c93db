/* bind/tensor/mask.c -- elements that a mask chooses: t[mask] and t[mask] = v, as index.c finds them; nonzero.
 *
 * How many elements there are is known when the mask is, so both compute what they need. Only t[mask] = number, where
 * that does not matter, is lazy: t[...] = where(mask, number, t). */
#include <string.h>

#include "bind/tensor/tensor.h"

/* The mask that the key is, of t's first axes. FR_VALUE_FALLBACK: the key is something else. */
static int
mask_of(const struct fr_tensor *t, PyObject *key, struct fr_value *x)
{
    const struct fr_layout *m, *l = t->layout;
    int                     st;

    x->own.storage = NULL;
    if (PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 1)
        key = PyTuple_GET_ITEM(key, 0);
    if (fr_is_tensor(key) ? fr_of(key)->dtype != FR_BOOL
                          : !fr_numpy_is_array(key) || fr_numpy_array_dtype(key) != FR_BOOL)
        return FR_VALUE_FALLBACK;
    if ((st = fr_value_get(key, false, x)) != FR_VALUE_OK)
        return st;
    m = x->arg.t->layout;
    if (m->ndim != 0 && m->ndim <= l->ndim && !memcmp(fr_layout_dims(m), fr_layout_dims(l), m->ndim * sizeof(int64_t)))
        return FR_VALUE_OK;
    fr_value_clear(x);
    return FR_VALUE_FALLBACK;
}

static int
result_of(fr_status st, const struct fr_err *err)
{
    return st == FR_ENOTSUP ? FR_VALUE_FALLBACK : fr_errors_check(st, err);
}

int
fr_mask_get(PyObject *self, PyObject *key, PyObject **result)
{
    struct fr_tensor out;
    struct fr_value  mask;
    struct fr_err    err;
    int              st = mask_of(fr_of(self), key, &mask);

    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    fr_chosen_sync((const struct fr_tensor *[]){mask.arg.t, fr_of(self)}, 2);
    st = result_of(fr_choose_get(fr_of(self), mask.arg.t, &out, &err), &err);
    fr_value_clear(&mask);
    if (st == FR_VALUE_OK && !(*result = fr_type_take(&out)))
        st = FR_VALUE_ERROR;
    return st;
}

/* t[mask] = number as t[...] = where(mask, number, t). */
static int
set_number(struct fr_tensor *t, const struct fr_tensor *m, PyObject *value)
{
    struct fr_tensor        mask = {.storage = NULL}, merged = {.storage = NULL}, cast = {.storage = NULL};
    const struct fr_layout *l = t->layout;
    int64_t                 strides[FR_MAX_DIMS];
    struct fr_arg           args[3] = {{.t = &mask}, {.t = NULL}, {.t = t}}, arg = {.t = &merged};
    struct fr_err           err;
    fr_status               st;

    if (fr_is_tensor(value)) {
        if (fr_of(value)->layout->ndim != 0)
            return FR_VALUE_FALLBACK;
        args[1].t = fr_of(value);
    } else if (fr_numpy_is_scalar(value) && fr_numpy_scalar(value, &args[1].n) &&
               args[1].n.dtype != t->dtype) {
        return FR_VALUE_FALLBACK; /* under a mask, NumPy casts it like an array, without a look at its range */
    } else {
        int got = fr_value_element(value, t->dtype, &args[1].n);
        if (got != FR_VALUE_OK)
            return got;
    }
    FR_TRACE_HERE();
    for (int i = 0; i < l->ndim; i++)
        strides[i] = i < m->layout->ndim ? fr_layout_strides(m->layout)[i] : 0;
    st = fr_tensor_window(m, l->ndim, fr_layout_dims(l), strides, 0, &mask, &err);
    /* A value of another dtype is cast as an assignment casts, before it meets t's values. */
    if (st == FR_OK && args[1].t && args[1].t->dtype != t->dtype) {
        st = fr_trace_cast(args[1].t, t->dtype, 'K', &cast, &err);
        args[1].t = &cast;
    }
    if (st == FR_OK)
        st = fr_trace_map(FR_OP_where, args, 3, &merged, &err);
    if (st == FR_OK)
        st = fr_trace_store(t, &arg, &err);
    fr_tensor_clear(&cast);
    fr_tensor_clear(&mask);
    fr_tensor_clear(&merged);
    return result_of(st, &err);
}

static int
set_array(struct fr_tensor *t, const struct fr_tensor *mask, PyObject *value)
{
    struct fr_tensor v;
    struct fr_err    err;
    int              st = fr_chosen_value(t, value, &v);

    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    fr_chosen_sync((const struct fr_tensor *[]){mask, &v, t}, 3);
    st = result_of(fr_choose_put(t, mask, &v, &err), &err);
    fr_tensor_clear(&v);
    return st;
}

int
fr_mask_set(PyObject *self, PyObject *key, PyObject *value)
{
    struct fr_value mask;
    int             st = mask_of(fr_of(self), key, &mask);

    if (st != FR_VALUE_OK)
        return st;
    st = set_number(fr_of(self), mask.arg.t, value);
    if (st == FR_VALUE_FALLBACK && !fr_chosen_meets(fr_of(self), mask.object))
        st = set_array(fr_of(self), mask.arg.t, value);
    fr_value_clear(&mask);
    return st;
}

/* ---- nonzero */

/* The columns of an array of indices, a tuple. Clears the handle. */
static PyObject *
columns_of(struct fr_tensor *places)
{
    int64_t       count = fr_layout_dims(places->layout)[0], ndim = fr_layout_dims(places->layout)[1];
    PyObject     *out = PyTuple_New((Py_ssize_t)ndim);
    struct fr_err err;

    for (int64_t k = 0; out && k < ndim; k++) {
        struct fr_tensor t;
        fr_status        st = fr_tensor_window(places, 1, &count, &ndim, count ? k : 0, &t, &err);
        PyObject        *o = fr_type_result(st, &t, &err);

        if (o)
            PyTuple_SET_ITEM(out, (Py_ssize_t)k, o);
        else
            Py_CLEAR(out);
    }
    fr_tensor_clear(places);
    return out;
}

PyObject *
fr_mask_nonzero(const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    struct fr_tensor        mask = {.storage = NULL}, places;
    const struct fr_tensor *t;
    struct fr_value         x;
    struct fr_err           err;
    fr_status               st = FR_OK;
    int                     got = FR_VALUE_FALLBACK;

    if (nargs == 1 && !(kw && PyTuple_GET_SIZE(kw)) && (got = fr_value_tensor(args[0], &x)) == FR_VALUE_ERROR)
        return NULL;
    if (got == FR_VALUE_OK && x.arg.t->layout->ndim == 0) {
        fr_value_clear(&x);
        got = FR_VALUE_FALLBACK;
    }
    if (got == FR_VALUE_FALLBACK)
        return fr_fallback_name(name, args, nargs, kw);
    t = x.arg.t;
    FR_TRACE_HERE();
    if (t->dtype != FR_BOOL) {
        st = fr_trace_map(FR_OP_not_equal, (struct fr_arg[]){{.t = t}, {.n = {.dtype = FR_I64, .weak = 'i'}}}, 2, &mask, &err);
        t = &mask;
    }
    if (st == FR_OK) {
        fr_chosen_sync(&t, 1);
        st = fr_choose_places(t, &places, &err);
    }
    fr_tensor_clear(&mask);
    fr_value_clear(&x);
    return st == FR_OK ? columns_of(&places) : fr_errors_raise(st, &err);
}

static PyObject *
nonzero(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return fr_mask_nonzero("nonzero", args, nargs, kw);
}

static PyObject *
nonzero_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return fr_args_method(nonzero, self, args, nargs, kw);
}

PyMethodDef fr_mask_methods[] = {
    {"nonzero", FR_FAST(nonzero),
     "nonzero(a)\n--\n\n"
     "The indices of the elements that are not 0, an array for each axis. They are looked at now."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef fr_mask_tensor_methods[] = {
    {"nonzero", FR_FAST(nonzero_method), "nonzero($self)\n--\n\nThe function frit.nonzero of this tensor."},
    {NULL, NULL, 0, NULL},
};
