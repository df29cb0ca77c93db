/* bind/tensor/take.c -- slices chosen by arrays of integers: take, and what index.c finds in t[...] and t[...] = v.
 *
 * A take is a lazy node, but its indices are looked at when it is traced, because NumPy's IndexError belongs to that
 * line: a pending index is computed then. Several arrays of indices become one over their axes merged. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/fpe.h"
#include "bind/tensor/tensor.h"

/* Merges n axes of t from `axis` on into one. FR_ENOTSUP if that is no window. */
static fr_status
merge_axes(const struct fr_tensor *t, int axis, int n, struct fr_tensor *out, struct fr_err *err)
{
    const int64_t *d = fr_layout_dims(t->layout), *s = fr_layout_strides(t->layout);
    int64_t        dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    int            ndim = 0;

    for (int k = 0; k < t->layout->ndim; k++) {
        if (k > axis && k < axis + n) {
            if (strides[axis] != s[k] * d[k])
                return FR_ENOTSUP;
            dims[axis] *= d[k];
            strides[axis] = s[k];
        } else {
            dims[ndim] = d[k];
            strides[ndim++] = s[k];
        }
    }
    return fr_tensor_window(t, ndim, dims, strides, 0, out, err);
}

/* t with the axes of n arrays of indices merged into one, and one array for that. FR_ENOTSUP: not possible. */
static fr_status
join(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis, struct fr_tensor *merged,
     struct fr_tensor *joint, struct fr_err *err)
{
    fr_status st = merge_axes(t, axis, n, merged, err);

    if (st == FR_OK)
        st = fr_trace_joint_index(index, fr_layout_dims(t->layout) + axis, n, axis, joint, err);
    return st;
}

int
fr_take_joint(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis,
              char order, PyObject **result)
{
    struct fr_tensor joint = {.storage = NULL}, merged = {.storage = NULL}, out;
    struct fr_err    err;
    fr_status        st;

    *result = NULL;
    for (int i = 0; i < n; i++)
        fr_info_sync(FR_SYNC_index, index[i]);
    FR_TRACE_HERE();
    if (n == 1)
        st = fr_trace_take(t, index[0], axis, order, &out, &err);
    else if ((st = join(t, index, n, axis, &merged, &joint, &err)) == FR_OK)
        st = fr_trace_take(&merged, &joint, axis, order, &out, &err);
    fr_tensor_clear(&joint);
    fr_tensor_clear(&merged);
    if (st == FR_ENOTSUP)
        return FR_VALUE_FALLBACK;
    *result = fr_type_result(st, &out, &err);
    return *result ? FR_VALUE_OK : FR_VALUE_ERROR;
}

/* Whether the elements of an array of indices lie in the order in which they are walked. */
static bool
is_in_order(const struct fr_layout *l)
{
    return l->c_contig || (l->ndim == 1 && fr_layout_strides(l)[0] > 0);
}

/* Whether values are written in the order in which the indices lie: NumPy walks along the memory of all arrays
 * together, and where an element is chosen twice, the last one stays. One axis is walked as the indices lie, whatever
 * the value is. */
static bool
goes_in_order(const struct fr_tensor *const *index, int n, const struct fr_tensor *value)
{
    for (int i = 0; i < n; i++)
        if (!is_in_order(index[i]->layout) || !fr_layout_same_dims(index[i]->layout, index[0]->layout))
            return false;
    return value->layout->c_contig || value->layout->ndim <= 1 || index[0]->layout->ndim == 1;
}

/* NumPy's warnings of what was raised. It says them itself, of numbers that raise the same. */
static int
warn(fr_op op, unsigned raised)
{
    static const struct {
        unsigned flag;
        double   a, b;
    } example[] = {{FR_FPE_OVER, DBL_MAX, DBL_MAX}, {FR_FPE_INVALID, HUGE_VAL, -HUGE_VAL}};

    for (size_t i = 0; i < FR_LEN(example); i++) {
        PyObject *f, *got = NULL;

        if (!(raised & example[i].flag))
            continue;
        if ((f = fr_numpy_attr(fr_op_info[op].name)))
            got = PyObject_CallFunction(f, "dd", example[i].a, op == FR_OP_subtract ? -example[i].b : example[i].b);
        Py_XDECREF(f);
        Py_XDECREF(got);
        if (!got)
            return -1;
    }
    return 0;
}

int
fr_take_assign(const struct fr_tensor *t, const struct fr_tensor *const *index, int n, int axis, PyObject *value,
               bool any_order, fr_op op)
{
    const struct fr_tensor *all[FR_MAX_DIMS + 2];
    struct fr_tensor        joint = {.storage = NULL}, merged = {.storage = NULL}, v;
    struct fr_err           err;
    fr_status               st;
    unsigned                raised = 0;
    int                     got;

    FR_TRACE_HERE();
    if ((got = fr_chosen_value(t, value, &v)) != FR_VALUE_OK)
        return got;
    memcpy(all, index, (size_t)n * sizeof *all);
    all[n] = &v;
    all[n + 1] = t;
    st = any_order || goes_in_order(index, n, &v) ? FR_OK : FR_ENOTSUP;
    if (st == FR_OK) {
        fr_chosen_sync(all, n + 2);
        st = fr_tensor_eval(all, n + 2, &err);
    }
    if (st == FR_OK)
        st = join(t, index, n, axis, &merged, &joint, &err);
    if (st == FR_OK)
        st = fr_choose_scatter(&merged, &joint, axis, &v, op, &raised, &err);
    fr_tensor_clear(&joint);
    fr_tensor_clear(&merged);
    fr_tensor_clear(&v);
    if (st == FR_ENOTSUP || st == FR_EINDEX) /* which error comes first is NumPy's to say */
        return FR_VALUE_FALLBACK;
    if (st == FR_OK && op != FR_OP_store && raised)
        return warn(op, raised);
    return fr_errors_check(st, &err);
}

static struct fr_signature take_signature = {
    "take", 2, 5, 5, {"a", "indices", "axis", "out", "mode"}, {NULL}};

static PyObject *
take(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject        *s[5], *flat = NULL, *result = NULL;
    struct fr_value  x, y;
    int              axis = 0, st;

    (void)module;
    if (fr_args_parse(&take_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_args_none(s[3]) ||
        (s[4] && !(PyUnicode_Check(s[4]) && PyUnicode_CompareWithASCIIString(s[4], "raise") == 0)) ||
        (st = fr_value_kept(s[0], &x)) == FR_VALUE_FALLBACK)
        return fr_fallback_name("take", args, nargs, kw);
    if (st == FR_VALUE_ERROR)
        return NULL;
    if (fr_args_none(s[2]))
        flat = fr_shape_ravel(x.arg.t, 'C', false);
    else if (x.arg.t->layout->ndim == 0)
        st = FR_VALUE_FALLBACK;
    else if (fr_args_axis(s[2], x.arg.t->layout->ndim, &axis) < 0)
        st = FR_VALUE_ERROR;
    if (fr_args_none(s[2]) && !flat)
        st = FR_VALUE_ERROR;
    if (st == FR_VALUE_OK && (st = fr_value_tensor(s[1], &y)) == FR_VALUE_OK) {
        const struct fr_tensor *list[1] = {y.arg.t};

        st = fr_take_joint(flat ? fr_of(flat) : x.arg.t, list, 1, axis, 'C', &result);
        fr_value_clear(&y);
    }
    Py_XDECREF(flat);
    fr_value_clear(&x);
    if (st == FR_VALUE_FALLBACK)
        return fr_fallback_name("take", args, nargs, kw);
    if (result) /* one element is a scalar */
        fr_type_set_scalar(result, fr_of(result)->layout->ndim == 0);
    return result;
}

static PyObject *
take_method(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    return fr_args_method(take, self, args, nargs, kw);
}

PyMethodDef fr_take_methods[] = {
    {"take", FR_FAST(take),
     "take(a, indices, axis=None, out=None, mode='raise')\n--\n\n"
     "The slices of a with these indices along an axis, or elements of a flattened: lazily, but the\n"
     "indices are looked at now. Of the dtype of a. IndexError when one is out of bounds, TypeError when they are no\n"
     "integers, AxisError beyond ndim; mode 'wrap' and 'clip' are NumPy's."},
    {NULL, NULL, 0, NULL},
};

PyMethodDef fr_take_tensor_methods[] = {
    {"take", FR_FAST(take_method),
     "take($self, indices, axis=None, out=None, mode='raise')\n--\n\nThe function frit.take of this tensor."},
    {NULL, NULL, 0, NULL},
};
