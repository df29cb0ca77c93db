/* bind/tensor/index.c -- t[...] and t[...] = value.
 *
 * Integers, slices, ellipses and new axes make windows: no computation. Arrays of integers that stand side by side are
 * a lazy take, their values checked here, and where something is assigned, that is done here (take.c). So it is with a
 * mask beside whole slices (mask.c); only t[mask] = number is lazy. Any other mask is what it is to NumPy, too: the
 * indices of what is true in it. Everything else (arrays apart from each other) is NumPy's, on evaluated data. */
#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"

/* What an index comes to: a window relative to the tensor. */
struct window {
    int     ndim;
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], offset;
    bool    scalar;     /* integers only: NumPy copies the element out */
};
enum kind { KIND_ERROR = -1, KIND_WINDOW, KIND_ADVANCED };

static int
too_many(const struct fr_layout *l, int n)
{
    PyErr_Format(PyExc_IndexError,
                 "too many indices for array: array is %d-dimensional, but %d were indexed", l->ndim,
                 n);
    return KIND_ERROR;
}

static int
not_an_index(void)
{
    PyErr_SetString(PyExc_IndexError,
                    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and "
                    "integer or boolean arrays are valid indices");
    return KIND_ERROR;
}

static int
add_integer(struct window *w, const struct fr_layout *l, int axis, int64_t i)
{
    int64_t n = fr_layout_dims(l)[axis];

    if (i < -n || i >= n) {
        PyErr_Format(PyExc_IndexError, "index %lld is out of bounds for axis %d with size %lld",
                     (long long)i, axis, (long long)n);
        return KIND_ERROR;
    }
    w->offset += (i < 0 ? i + n : i) * fr_layout_strides(l)[axis];
    return KIND_WINDOW;
}

static int
add_axis(struct window *w, int64_t dim, int64_t stride)
{
    if (w->ndim == FR_MAX_DIMS) {
        PyErr_Format(PyExc_IndexError, "number of dimensions must be within [0, %d], indexing "
                     "result would have %d", FR_MAX_DIMS, w->ndim + 1);
        return KIND_ERROR;
    }
    w->dims[w->ndim] = dim;
    w->strides[w->ndim++] = stride;
    return KIND_WINDOW;
}

static int
add_slice(struct window *w, const struct fr_layout *l, int axis, PyObject *slice)
{
    Py_ssize_t start, stop, step, n;

    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return KIND_ERROR;
    n = PySlice_AdjustIndices(fr_layout_dims(l)[axis], &start, &stop, step);
    if (n > 0)
        w->offset += start * fr_layout_strides(l)[axis];
    return add_axis(w, n, fr_layout_strides(l)[axis] * step);
}

/* What one element of an index is. */
enum item { ITEM_INTEGER, ITEM_SLICE, ITEM_ELLIPSIS, ITEM_NEWAXIS, ITEM_OTHER, ITEM_BAD };

static enum item
classify(PyObject *o)
{
    if (PyLong_CheckExact(o))
        return ITEM_INTEGER;
    if (PySlice_Check(o))
        return ITEM_SLICE;
    if (o == Py_Ellipsis)
        return ITEM_ELLIPSIS;
    if (o == Py_None)
        return ITEM_NEWAXIS;
    if (fr_is_tensor(o)) /* an integer without axes counts as an integer, as NumPy's scalars do */
        return fr_of(o)->layout->ndim == 0 && fr_dtype_is_int(fr_of(o)->dtype) ? ITEM_INTEGER
                                                                              : ITEM_OTHER;
    if (fr_numpy_is_array(o) || PyList_Check(o) || PyTuple_Check(o) || PyBool_Check(o) || PyArray_IsScalar(o, Bool))
        return ITEM_OTHER;
    if (PyUnicode_Check(o) || PyBytes_Check(o) || PyFloat_Check(o))
        return ITEM_BAD;
    if (PyIndex_Check(o))
        return ITEM_INTEGER;
    return PySequence_Check(o) ? ITEM_OTHER : ITEM_BAD;
}

static int
integer_of(PyObject *o, int64_t *v)
{
    PyObject *i;

    if (PyLong_CheckExact(o) && fr_value_small_int(o, v))
        return 0;
    i = PyNumber_Index(o);
    if (!i)
        return -1;
    *v = PyLong_AsSsize_t(i);
    Py_DECREF(i);
    if (*v == -1 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Clear();
            not_an_index();
        }
        return -1;
    }
    return 0;
}

static int
parse_tuple(const struct fr_layout *l, PyObject *const *items, int n, struct window *w)
{
    int n_axes = 0, ellipsis = -1, axis = 0;

    for (int i = 0; i < n; i++) {
        switch (classify(items[i])) {
        case ITEM_OTHER: return KIND_ADVANCED;
        case ITEM_BAD: return not_an_index();
        case ITEM_INTEGER:
        case ITEM_SLICE: n_axes++; break;
        case ITEM_ELLIPSIS:
            if (ellipsis >= 0) {
                PyErr_SetString(PyExc_IndexError,
                                "an index can only have a single ellipsis ('...')");
                return KIND_ERROR;
            }
            ellipsis = i;
            break;
        case ITEM_NEWAXIS: break;
        }
    }
    if (n_axes > l->ndim)
        return too_many(l, n_axes);
    w->scalar = ellipsis < 0;
    for (int i = 0; i < n; i++) {
        int     st = KIND_WINDOW;
        int64_t v;

        switch (classify(items[i])) {
        case ITEM_INTEGER:
            if (integer_of(items[i], &v) < 0)
                return KIND_ERROR;
            st = add_integer(w, l, axis++, v);
            break;
        case ITEM_SLICE: st = add_slice(w, l, axis++, items[i]); break;
        case ITEM_NEWAXIS: st = add_axis(w, 1, 0); break;
        default:
            for (int k = l->ndim - n_axes; st == KIND_WINDOW && k > 0; k--, axis++)
                st = add_axis(w, fr_layout_dims(l)[axis], fr_layout_strides(l)[axis]);
        }
        if (st != KIND_WINDOW)
            return st;
    }
    for (; axis < l->ndim; axis++)
        if (add_axis(w, fr_layout_dims(l)[axis], fr_layout_strides(l)[axis]) != KIND_WINDOW)
            return KIND_ERROR;
    w->scalar = w->scalar && w->ndim == 0;
    return KIND_WINDOW;
}

static int
parse(const struct fr_tensor *t, PyObject *key, struct window *w)
{
    w->ndim = 0;
    w->offset = 0;
    if (PyTuple_Check(key)) {
        if (PyTuple_GET_SIZE(key) > 2 * FR_MAX_DIMS)
            return too_many(t->layout, (int)PyTuple_GET_SIZE(key));
        return parse_tuple(t->layout, &PyTuple_GET_ITEM(key, 0), (int)PyTuple_GET_SIZE(key), w);
    }
    return parse_tuple(t->layout, &key, 1, w);
}

static PyObject *
window_of(const struct fr_tensor *t, const struct window *w)
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

/* ---- arrays of integers */

enum { MAX_ARRAYS = 8 };

/* Arrays of integers side by side, as a key has them: `index` along `axis` of `t` and those after it. One that a mask
 * became has no value, but a `place`. */
struct arrays {
    struct fr_value         value[MAX_ARRAYS];
    struct fr_tensor        place[MAX_ARRAYS];
    const struct fr_tensor *index[MAX_ARRAYS];
    int                     n, axis;
    struct fr_tensor        t;         /* self, or a window where slices and integers choose first */
};

static void
clear_arrays(struct arrays *a)
{
    for (int i = 0; i < a->n; i++) {
        fr_value_clear(&a->value[i]);
        fr_tensor_clear(&a->place[i]);
    }
    fr_tensor_clear(&a->t);
}

/* Of the array that is indexed, how many axes an item of a key is for. A list of lists counts as one. */
static int
n_axes_of(PyObject *o)
{
    if (o == Py_None || o == Py_Ellipsis)
        return 0;
    if (fr_is_tensor(o))
        return fr_of(o)->dtype == FR_BOOL ? fr_of(o)->layout->ndim : 1;
    return fr_numpy_is_array(o) && fr_numpy_array_dtype(o) == FR_BOOL ? PyArray_NDIM(fr_array(o)) : 1;
}

/* Puts the places of the mask a->value[a->n], which is cleared, among the arrays, if it is one of the axes of `l` from
 * `axis` on; of all axes it is mask.c's. Returns an FR_VALUE_*. */
static int
add_mask(struct arrays *a, const struct fr_layout *l, int axis)
{
    const struct fr_tensor *mask = a->value[a->n].arg.t;
    int                     n = mask->layout->ndim, st = FR_VALUE_FALLBACK;

    if (axis + n <= l->ndim && n < l->ndim && a->n + n <= MAX_ARRAYS &&
        !memcmp(fr_layout_dims(mask->layout), fr_layout_dims(l) + axis, (size_t)n * sizeof(int64_t)))
        st = fr_mask_places(mask, &a->place[a->n]) < 0 ? FR_VALUE_ERROR : FR_VALUE_OK;
    fr_value_clear(&a->value[a->n]);
    for (int k = 0; st == FR_VALUE_OK && k < n; k++) {
        memset(&a->value[a->n], 0, sizeof *a->value);
        a->index[a->n] = &a->place[a->n];
        a->n++;
    }
    return st;
}

/* Adds an item of a key, which is of the axes of self from *axis on, as arrays. Returns an FR_VALUE_*. */
static int
add_arrays(PyObject *self, PyObject *item, struct arrays *a, int *axis)
{
    const struct fr_tensor *index;
    int                     st, n = a->n;

    if (a->n == MAX_ARRAYS || PyBool_Check(item))
        return FR_VALUE_FALLBACK;
    if ((st = fr_value_tensor(item, &a->value[n])) != FR_VALUE_OK)
        return st;
    index = a->value[n].arg.t;
    if (index->layout->ndim != 0 && fr_dtype_is_int(index->dtype)) {
        a->place[n].storage = NULL;
        a->index[n] = index;
        a->n++;
        ++*axis;
        return FR_VALUE_OK;
    }
    if (index->layout->ndim == 0 || index->dtype != FR_BOOL || n_axes_of(item) != index->layout->ndim) {
        fr_value_clear(&a->value[n]);
        return FR_VALUE_FALLBACK;
    }
    st = add_mask(a, fr_of(self)->layout, *axis);
    *axis += a->n - n;
    return st;
}

/* The key as arrays of integers side by side, beside slices; integers among them choose first. Returns an FR_VALUE_*;
 * the caller clears the arrays in any case. */
static int
parse_arrays(PyObject *self, PyObject *key, struct arrays *a)
{
    PyObject     *single[1] = {key}, **items = single, *plain[3 * FR_MAX_DIMS] = {NULL}, *whole;
    struct fr_err err;
    struct window w = {.ndim = 0};
    int           n = 1, n_plain = 0, last = -1, st = FR_VALUE_FALLBACK, at = 0, axis = 0;
    bool          ellipsis = false;

    a->n = 0;
    a->axis = -1;
    a->t.storage = NULL;
    if (PyTuple_Check(key)) {
        n = (int)PyTuple_GET_SIZE(key);
        items = &PyTuple_GET_ITEM(key, 0);
    }
    if (!(whole = PySlice_New(NULL, NULL, NULL)))
        return FR_VALUE_ERROR;
    for (int i = 0; i < n; i++) {
        enum item kind = classify(items[i]);

        if (kind == ITEM_OTHER) {
            int first = a->n;

            if ((st = add_arrays(self, items[i], a, &axis)) != FR_VALUE_OK)
                goto out;
            st = FR_VALUE_FALLBACK;
            if (a->axis < 0)
                a->axis = at;
            at += a->n - first;
            for (int k = first; k < a->n; k++)
                plain[n_plain++] = whole;
        } else {
            plain[n_plain++] = items[i];
            at += kind == ITEM_SLICE || kind == ITEM_NEWAXIS;
            axis += n_axes_of(items[i]);
        }
        if (kind == ITEM_ELLIPSIS) {
            int skipped = fr_of(self)->layout->ndim;

            for (int k = 0; k < n; k++)
                skipped -= n_axes_of(items[k]);
            if (ellipsis || skipped < 0)
                goto out;
            ellipsis = true;
            axis += skipped;
            at += skipped;
        }
        /* Integers count as arrays: they must stand with the others. */
        if (kind == ITEM_OTHER || kind == ITEM_INTEGER) {
            if (last >= 0 && last != i - 1)
                goto out;
            last = i;
        }
    }
    switch (parse_tuple(fr_of(self)->layout, plain, n_plain, &w)) {
    case KIND_ERROR: st = FR_VALUE_ERROR; goto out;
    case KIND_WINDOW: break;
    default: goto out;
    }
    st = FR_VALUE_OK;
    if (fr_tensor_window(fr_of(self), w.ndim, w.dims, w.strides, w.offset, &a->t, &err) != FR_OK) {
        PyErr_NoMemory();
        st = FR_VALUE_ERROR;
    }
out:
    Py_DECREF(whole);
    return st;
}

/* t[key] with one array of integers and nothing else, as it mostly is. */
static bool
is_one_array(PyObject *self, PyObject *key)
{
    return fr_is_tensor(key) && fr_of(key)->layout->ndim > 0 && fr_dtype_is_int(fr_of(key)->dtype) &&
           fr_of(self)->layout->ndim > 0;
}

static int
get_taken(PyObject *self, PyObject *key, PyObject **result)
{
    struct arrays a;
    int           st;

    if (is_one_array(self, key))
        return fr_take_joint(fr_of(self), &(const struct fr_tensor *){fr_of(key)}, 1, 0, 'K', result);
    st = parse_arrays(self, key, &a);
    if (st == FR_VALUE_OK)
        st = fr_take_joint(&a.t, a.index, a.n, a.axis, 'K', result);
    clear_arrays(&a);
    return st;
}

/* A number, which may be written in any order. */
static bool
is_number(PyObject *o)
{
    return fr_is_tensor(o) ? fr_of(o)->layout->ndim == 0 : PyFloat_Check(o) || PyLong_Check(o) || fr_numpy_is_scalar(o);
}

static int
set_taken(PyObject *self, PyObject *key, PyObject *value)
{
    struct arrays a;
    int           st = parse_arrays(self, key, &a);
    bool          any_order = true;

    /* NumPy writes in the order in which arrays lie, which our copies of them may have another one of. Places of a mask
     * are each another one. */
    for (int i = 0; i < a.n; i++)
        any_order &= !a.value[i].object;
    any_order |= is_number(value);
    for (int i = 0; i < a.n && st == FR_VALUE_OK; i++) {
        PyObject *o = a.value[i].object;

        if (o && ((fr_numpy_is_array(o) && !PyArray_IS_C_CONTIGUOUS(fr_array(o)) && !any_order) || fr_chosen_meets(&a.t, o)))
            st = FR_VALUE_FALLBACK;
    }
    if (st == FR_VALUE_OK)
        st = fr_take_assign(&a.t, a.index, a.n, a.axis, value, any_order);
    clear_arrays(&a);
    return st;
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
    struct window w;
    PyObject     *result;
    int           st;

    switch (parse(fr_of(self), key, &w)) {
    case KIND_ERROR: return NULL;
    case KIND_WINDOW:
        if (w.scalar)
            return window_of(fr_of(self), &w);
        if (PyLong_CheckExact(key))
            note_row();
        return fr_type_view_of(self, window_of(fr_of(self), &w), true);
    default:
        st = fr_mask_get(self, key, &result);
        if (st == FR_VALUE_FALLBACK)
            st = get_taken(self, key, &result);
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
    struct window           w = {.scalar = l->ndim == 1};

    if (l->ndim == 0) {
        too_many(l, 1);
        return NULL;
    }
    if (add_integer(&w, l, 0, i) != KIND_WINDOW)
        return NULL;
    for (int k = 1; k < l->ndim; k++)
        add_axis(&w, fr_layout_dims(l)[k], fr_layout_strides(l)[k]);
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
    struct window    w;
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
    switch (parse(fr_of(self), key, &w)) {
    case KIND_ERROR: return -1;
    case KIND_WINDOW:
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
        st = set_taken(self, key, value);
    if (st != FR_VALUE_FALLBACK)
        return st == FR_VALUE_OK ? 0 : -1;
    fr_info_sync(FR_SYNC_index, fr_of(self));
    done = fr_fallback_method("__setitem__", FR_WRITES, (PyObject *[]){self, key, value}, 3, NULL);
    Py_XDECREF(done);
    return done ? 0 : -1;
}
