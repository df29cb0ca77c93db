/* bind/tensor/key.c -- arrays of integers in t[...], its assignment, and np.add.at(t, ..., v).
 *
 * Arrays of integers that stand side by side are a lazy take, their values checked here, and where something is assigned,
 * that is done here (take.c). A mask among them is what it is to NumPy, too: the indices of what is true in it. */
#include <string.h>

#include "bind/numpy/npy.h"
#include "bind/tensor/index.h"

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
    struct fr_window w = {.ndim = 0};
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
        enum fr_item kind = fr_window_classify(items[i]);

        if (kind == FR_ITEM_OTHER) {
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
            at += kind == FR_ITEM_SLICE || kind == FR_ITEM_NEWAXIS;
            axis += n_axes_of(items[i]);
        }
        if (kind == FR_ITEM_ELLIPSIS) {
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
        if (kind == FR_ITEM_OTHER || kind == FR_ITEM_INTEGER) {
            if (last >= 0 && last != i - 1)
                goto out;
            last = i;
        }
    }
    switch (fr_window_parse(fr_of(self)->layout, plain, n_plain, &w)) {
    case FR_KIND_ERROR: st = FR_VALUE_ERROR; goto out;
    case FR_KIND_WINDOW: break;
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

int
fr_key_get(PyObject *self, PyObject *key, PyObject **result)
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

int
fr_key_set(PyObject *self, PyObject *key, PyObject *value)
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
        st = fr_take_assign(&a.t, a.index, a.n, a.axis, value, any_order, FR_OP_store);
    clear_arrays(&a);
    return st;
}

/* Whether value and elements of t are joined in t's dtype: to a ufunc's `at` numbers are arrays. */
static bool
joins(const struct fr_tensor *t, PyObject *value)
{
    struct fr_number n = {.dtype = t->dtype};
    int64_t          v;

    if (PyFloat_CheckExact(value))
        return t->dtype == FR_F64;
    if (PyLong_CheckExact(value))
        return fr_value_small_int(value, &v) && v == (int32_t)v && (t->dtype == FR_F64 || t->dtype == FR_I64);
    if (fr_is_tensor(value))
        n.dtype = fr_of(value)->dtype;
    else if (fr_numpy_is_array(value))
        n.dtype = fr_numpy_array_dtype(value);
    else if (!fr_numpy_is_scalar(value) || !fr_numpy_scalar(value, &n))
        return false;
    return n.dtype < FR_N_DTYPES && fr_dtype_promote(n.dtype, t->dtype) == t->dtype;
}

int
fr_key_join(PyObject *self, PyObject *key, PyObject *value, fr_op op)
{
    const struct fr_tensor *t = fr_of(self);
    struct arrays           a;
    int                     st;

    if (t->readonly || fr_object(self)->scalar || t->dtype == FR_BOOL || !joins(t, value))
        return FR_VALUE_FALLBACK;
    if ((st = parse_arrays(self, key, &a)) == FR_VALUE_ERROR) { /* which error comes first is NumPy's to say */
        PyErr_Clear();
        st = FR_VALUE_FALLBACK;
    }
    if (a.n == 0)
        st = FR_VALUE_FALLBACK;
    for (int i = 0; i < a.n && st == FR_VALUE_OK; i++)
        if (a.value[i].object && fr_chosen_meets(&a.t, a.value[i].object))
            st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK)
        st = fr_take_assign(&a.t, a.index, a.n, a.axis, value, true, op);
    clear_arrays(&a);
    return st;
}
