/* bind/tensor/index.c -- t[...] and t[...] = value.
 *
 * Integers, slices, ellipses and new axes make windows: no computation. Masks (mask.c) and arrays of integers (key.c) are
 * looked at now. Everything else (arrays apart from each other) is NumPy's, on evaluated data. */
#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/index.h"

static PyObject *
window_of(const struct fr_tensor *t, const struct fr_window *w)
{
    struct fr_tensor out, copy;
    struct fr_err    err;
    fr_status        st;
    PyObject        *o;

    st = fr_tensor_window(t, w->ndim, w->dims, w->strides, w->offset, &out, &err);
    if (st != FR_OK || !w->scalar)
        return fr_type_result(st, &out, &err);
    /* t[3] is a number of its own: a later t[3] = 0 does not change it. */
    FR_TRACE_HERE();
    st = fr_trace_cast(&out, out.dtype, 'K', &copy, &err);
    fr_tensor_clear(&out);
    o = fr_type_result(st, &copy, &err);
    if (o)
        fr_type_set_scalar(o, true);
    return fr_scalar_result(o);
}

/* ---- reading */

/* C code that exchanges x[i] and x[j], as NumPy's shuffles do with what is no ndarray, takes both rows and then stores
 * them. Rows are views: one of them would be there twice. In Python these are several instructions, which mean that. */
static struct {
    uintptr_t instruction;     /* that took rows, */
    int       n;               /* and how many since something was stored */
} rows;

static void
note_row(void)
{
    uintptr_t here = fr_site_instruction();

    rows.n = rows.instruction == here ? rows.n + 1 : 1;
    rows.instruction = here;
}

/* True, with an exception, if such code stores a row into the array that it is of. */
static bool
is_exchange(PyObject *self, PyObject *value)
{
    int n = rows.n;

    rows.n = 0;
    if (n < 2 || !fr_is_tensor(value) || fr_of(value)->storage != fr_of(self)->storage ||
        rows.instruction != fr_site_instruction())
        return false;
    PyErr_SetString(PyExc_TypeError, "the rows of a frit.Tensor are views, which cannot be exchanged in place: "
                                     "shuffle numpy.asarray(tensor), which shares its memory, or use permutation()");
    return true;
}

PyObject *
fr_index_get(PyObject *self, PyObject *key)
{
    struct fr_window w;
    PyObject     *result;
    int           st;

    switch (fr_window_of_key(fr_of(self), key, &w)) {
    case FR_KIND_ERROR: return NULL;
    case FR_KIND_WINDOW:
        if (w.scalar)
            return window_of(fr_of(self), &w);
        if (PyLong_CheckExact(key))
            note_row();
        return fr_type_view_of(self, window_of(fr_of(self), &w), true);
    default:
        st = fr_mask_get(self, key, &result);
        if (st == FR_VALUE_FALLBACK)
            st = fr_key_get(self, key, &result);
        if (st != FR_VALUE_FALLBACK)
            return st == FR_VALUE_OK ? result : NULL;
        fr_info_sync(FR_SYNC_index, fr_of(self));
        return fr_fallback_method("__getitem__", FR_READS, (PyObject *[]){self, key}, 2, NULL);
    }
}

PyObject *
fr_index_item(PyObject *self, Py_ssize_t i)
{
    const struct fr_layout *l = fr_of(self)->layout;
    struct fr_window w = {.scalar = l->ndim == 1};

    if (l->ndim == 0) {
        fr_window_too_many(l, 1);
        return NULL;
    }
    if (fr_window_add_integer(&w, l, 0, i) != FR_KIND_WINDOW)
        return NULL;
    for (int k = 1; k < l->ndim; k++)
        fr_window_add_axis(&w, fr_layout_dims(l)[k], fr_layout_strides(l)[k]);
    return w.scalar ? window_of(fr_of(self), &w) : fr_type_view_of(self, window_of(fr_of(self), &w), true);
}

Py_ssize_t
fr_index_length(PyObject *self)
{
    const struct fr_layout *l = fr_of(self)->layout;

    if (l->ndim == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of unsized object");
        return -1;
    }
    return fr_layout_dims(l)[0];
}

int
fr_index_contains(PyObject *self, PyObject *value)
{
    PyObject *view = fr_numpy_view(self, FR_VIEW_READ), *v;
    int       st = -1;

    v = fr_is_tensor(value) ? fr_numpy_view(value, FR_VIEW_READ) : Py_NewRef(value);
    if (view && v)
        st = PySequence_Contains(view, v);
    Py_XDECREF(view);
    Py_XDECREF(v);
    return st;
}

/* ---- writing */

static int
read_only(void)
{
    PyErr_SetString(PyExc_ValueError, "assignment destination is read-only");
    return -1;
}

/* One element (or each of them) becomes `value`, which must be one number. */
int
fr_index_assign_number(struct fr_tensor *dst, PyObject *value)
{
    struct fr_arg arg = {.t = NULL};
    struct fr_err err;

    if (fr_is_tensor(value) && fr_of(value)->layout->ndim == 0)
        return fr_index_assign(dst, value);
    if (dst->readonly)
        return read_only();
    if (fr_is_tensor(value)) { /* NumPy tells of which arrays it makes one number */
        PyObject *view = fr_numpy_view(value, FR_VIEW_READ);
        int       st = view ? fr_index_assign_number(dst, view) : -1;

        Py_XDECREF(view);
        return st;
    }
    if (fr_value_store(value, dst->dtype, &arg.n) != FR_VALUE_OK)
        return -1;
    FR_TRACE_HERE();
    return fr_errors_check(fr_trace_store(dst, &arg, &err), &err);
}

/* Whether `value` stands for a scalar that may be out of range in dtype d, of which NumPy complains. */
static bool
may_overflow(PyObject *value, fr_dtype d)
{
    return fr_is_tensor(value) && fr_object(value)->scalar && fr_dtype_is_int(d) &&
           fr_dtype_promote(fr_of(value)->dtype, d) != d;
}

/* What is assigned, as fr_value_get has it. NumPy converts the items of a list each by itself: a number that is out of
 * range is one that it complains of, and so is a list that is deeper than the array. */
static int
assigned(const struct fr_tensor *dst, PyObject *value, struct fr_value *x)
{
    bool      list = PyList_Check(value) || PyTuple_Check(value), of_tensors = list && fr_containers_hold_tensor(value, 0);
    PyObject *items = NULL;
    int       st;

    if (of_tensors && fr_dtype_is_int(dst->dtype))
        return FR_VALUE_FALLBACK;
    if (list && !of_tensors && !(items = fr_numpy_from_items(value, dst->dtype))) {
        PyErr_Clear();
        return FR_VALUE_FALLBACK;
    }
    st = fr_value_get(items ? items : value, false, x);
    Py_XDECREF(items);
    if (st == FR_VALUE_OK && list && x->arg.t && x->arg.t->layout->ndim > dst->layout->ndim)
        st = FR_VALUE_FALLBACK;
    return st;
}

int
fr_index_assign(struct fr_tensor *dst, PyObject *value)
{
    struct fr_value x = {.own.storage = NULL};
    struct fr_arg     arg = {.t = NULL};
    struct fr_err     err;
    int               st;

    if (dst->readonly)
        return read_only();
    if (may_overflow(value, dst->dtype)) {
        fr_info_sync(FR_SYNC_number, fr_of(value));
        if (!(value = fr_numpy_scalar_of(value)))
            return -1;
        st = fr_index_assign(dst, value);
        Py_DECREF(value);
        return st;
    }
    st = fr_value_element(value, dst->dtype, &arg.n);
    if (st == FR_VALUE_FALLBACK) {
        st = assigned(dst, value, &x);
        if (st == FR_VALUE_OK)
            arg = x.arg;
    }
    if (st == FR_VALUE_FALLBACK) { /* strings, objects, numbers in lists: NumPy converts them one by one */
        PyObject *n;
        struct fr_tensor t;
        fr_tensor_copy(dst, &t);
        n = fr_type_take(&t);
        PyObject *done = n ? fr_fallback_method("__setitem__", FR_WRITES,
                                                (PyObject *[]){n, Py_Ellipsis, value}, 3, NULL)
                           : NULL;
        Py_XDECREF(n);
        Py_XDECREF(done);
        return done ? 0 : -1;
    }
    if (st == FR_VALUE_OK) {
        FR_TRACE_HERE();
        st = fr_errors_check(fr_trace_store(dst, &arg, &err), &err);
    }
    fr_value_clear(&x);
    return st == FR_VALUE_OK ? 0 : -1;
}

/* t[()] or t[...] */
static bool
is_whole_key(PyObject *key)
{
    return key == Py_Ellipsis || (PyTuple_Check(key) && PyTuple_GET_SIZE(key) == 0);
}

int
fr_index_set(PyObject *self, PyObject *key, PyObject *value)
{
    struct fr_tensor t;
    struct fr_window w;
    struct fr_err    err;
    PyObject        *done;
    int              st;

    if (!value) {
        PyErr_SetString(PyExc_ValueError, "cannot delete array elements");
        return -1;
    }
    if (fr_object(self)->scalar && (fr_call_depth || !is_whole_key(key))) {
        PyErr_SetString(PyExc_TypeError,
                        "a tensor that stands for a scalar does not support item assignment");
        return -1;
    }
    if (fr_of(self)->readonly)
        return read_only();
    switch (fr_window_of_key(fr_of(self), key, &w)) {
    case FR_KIND_ERROR: return -1;
    case FR_KIND_WINDOW:
        if (rows.n && is_exchange(self, value))
            return -1;
        if (fr_errors_check(fr_tensor_window(fr_of(self), w.ndim, w.dims, w.strides, w.offset, &t, &err), &err) < 0)
            return -1;
        st = w.scalar ? fr_index_assign_number(&t, value) : fr_index_assign(&t, value);
        fr_tensor_clear(&t);
        if (st >= 0 && fr_object(self)->scalar)
            fr_type_set_scalar(self, false); /* a number that is stored into is an array from now on */
        return st;
    default: break;
    }
    st = fr_mask_set(self, key, value);
    if (st == FR_VALUE_FALLBACK)
        st = fr_key_set(self, key, value);
    if (st != FR_VALUE_FALLBACK)
        return st == FR_VALUE_OK ? 0 : -1;
    fr_info_sync(FR_SYNC_index, fr_of(self));
    done = fr_fallback_method("__setitem__", FR_WRITES, (PyObject *[]){self, key, value}, 3, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
