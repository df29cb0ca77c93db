/* bind/tensor/mask.c -- elements that a mask chooses: t[mask] and t[mask] = v, as index.c finds them; nonzero.
 *
 * How many elements there are is known when the mask is, so both compute what they need. Only t[mask] = number, where
 * that does not matter, is lazy: t[...] = where(mask, number, t), for a mask of any axes that stand side by side. A mask
 * that is not of the first axes is otherwise as good as the indices of its elements, for which index.c asks here. */
#include <string.h>

#include "bind/tensor/tensor.h"

/* A key that holds a mask, beside whole slices. */
struct masked {
    PyObject *mask;            /* NULL: it is none such */
    int       before, after;   /* whole slices */
    bool      from_end;        /* an ellipsis is before the mask */
};

static bool
is_whole(PyObject *o)
{
    const PySliceObject *s = (const PySliceObject *)o;

    return PySlice_Check(o) && s->start == Py_None && s->stop == Py_None && s->step == Py_None;
}

static struct masked
parse_key(PyObject *key)
{
    struct masked m = {.mask = PyTuple_Check(key) ? NULL : key};
    bool          ellipsis = false;

    for (Py_ssize_t i = 0; PyTuple_Check(key) && i < PyTuple_GET_SIZE(key); i++) {
        PyObject *o = PyTuple_GET_ITEM(key, i);

        if (o == Py_Ellipsis && !ellipsis) {
            ellipsis = true;
            m.from_end = !m.mask;
        } else if (is_whole(o)) {
            m.before += !m.mask;
            m.after += !!m.mask;
        } else if (m.mask) {
            return (struct masked){.mask = NULL};
        } else {
            m.mask = o;
        }
    }
    return m;
}

/* The mask that the key is, of t's axes from *axis on. FR_VALUE_FALLBACK: the key is something else. */
static int
mask_of(const struct fr_tensor *t, PyObject *key, struct fr_value *x, int *axis)
{
    const struct fr_layout *m, *l = t->layout;
    struct masked           found = parse_key(key);
    int                     st;

    x->own.storage = NULL;
    key = found.mask;
    if (!key || (fr_is_tensor(key) ? fr_of(key)->dtype != FR_BOOL
                                   : !fr_numpy_is_array(key) || fr_numpy_array_dtype(key) != FR_BOOL))
        return FR_VALUE_FALLBACK;
    if ((st = fr_value_get(key, false, x)) != FR_VALUE_OK)
        return st;
    m = x->arg.t->layout;
    *axis = found.from_end ? l->ndim - m->ndim - found.after : found.before;
    if (m->ndim != 0 && *axis >= found.before && *axis + m->ndim + found.after <= l->ndim &&
        !memcmp(fr_layout_dims(m), fr_layout_dims(l) + *axis, m->ndim * sizeof(int64_t)))
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
    int              axis, st = mask_of(fr_of(self), key, &mask, &axis);

    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    if (axis == 0) {
        fr_chosen_sync((const struct fr_tensor *[]){mask.arg.t, fr_of(self)}, 2);
        st = result_of(fr_choose_get(fr_of(self), mask.arg.t, &out, &err), &err);
    } else {
        st = FR_VALUE_FALLBACK;
    }
    fr_value_clear(&mask);
    if (st == FR_VALUE_OK && !(*result = fr_type_take(&out)))
        st = FR_VALUE_ERROR;
    return st;
}

/* t[..., mask, ...] = number as t[...] = where(mask, number, t). */
static int
set_number(struct fr_tensor *t, const struct fr_tensor *m, int axis, PyObject *value)
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
    memset(strides, 0, sizeof strides);
    memcpy(strides + axis, fr_layout_strides(m->layout), m->layout->ndim * sizeof *strides);
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
    int             axis, st = mask_of(fr_of(self), key, &mask, &axis);

    if (st != FR_VALUE_OK)
        return st;
    st = set_number(fr_of(self), mask.arg.t, axis, value);
    if (st == FR_VALUE_FALLBACK && axis == 0 && !fr_chosen_meets(fr_of(self), mask.object))
        st = set_array(fr_of(self), mask.arg.t, value);
    fr_value_clear(&mask);
    return st;
}

/* ---- nonzero */

static fr_status
column_of(const struct fr_tensor *places, int64_t k, struct fr_tensor *out, struct fr_err *err)
{
    const int64_t *dims = fr_layout_dims(places->layout);

    return fr_tensor_window(places, 1, dims, &dims[1], dims[0] ? k : 0, out, err);
}

int
fr_mask_places(const struct fr_tensor *mask, struct fr_tensor *columns)
{
    struct fr_tensor places = {.storage = NULL};
    struct fr_err    err;
    fr_status        st;
    int              k = 0;

    FR_TRACE_HERE();
    fr_chosen_sync(&mask, 1);
    st = fr_choose_places(mask, &places, &err);
    while (st == FR_OK && k < mask->layout->ndim && (st = column_of(&places, k, &columns[k], &err)) == FR_OK)
        k++;
    while (st != FR_OK && k > 0)
        fr_tensor_clear(&columns[--k]);
    fr_tensor_clear(&places);
    return fr_errors_check(st, &err);
}

/* The columns of an array of indices, a tuple. Clears the handle. */
static PyObject *
columns_of(struct fr_tensor *places)
{
    int64_t       ndim = fr_layout_dims(places->layout)[1];
    PyObject     *out = PyTuple_New((Py_ssize_t)ndim);
    struct fr_err err;

    for (int64_t k = 0; out && k < ndim; k++) {
        struct fr_tensor t;
        fr_status        st = column_of(places, k, &t, &err);
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
