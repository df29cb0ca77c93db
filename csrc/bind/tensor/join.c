/* bind/tensor/join.c -- concatenate, stack, roll: a new tensor and stores into windows of
 * it, which the planner turns into index arithmetic of whoever reads it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bind/tensor/tensor.h"

/* The array-likes of a sequence as handles. */
struct list {
    struct fr_value *v;
    int                n;
    PyObject          *seq;     /* keeps the items alive */
};

static void
list_clear(struct list *l)
{
    for (int i = 0; i < l->n; i++)
        fr_value_clear(&l->v[i]);
    fr_free(l->v);
    Py_XDECREF(l->seq);
}

/* FR_VALUE_*; on anything but OK the list is clear. */
static int
list_get(PyObject *o, struct list *l)
{
    Py_ssize_t n;
    int        st = FR_VALUE_OK;

    l->v = NULL;
    l->n = 0;
    if (!PySequence_Check(o)) { /* an iterator */
        PyErr_SetString(PyExc_TypeError,
                        "arrays to stack must be passed as a \"sequence\" type such as list or tuple.");
        l->seq = NULL;
        return FR_VALUE_ERROR;
    }
    l->seq = PySequence_Fast(o, "arrays to join must be given as a sequence");
    if (!l->seq)
        return FR_VALUE_ERROR;
    n = PySequence_Fast_GET_SIZE(l->seq);
    if (n == 0) {
        PyErr_SetString(PyExc_ValueError, "need at least one array to concatenate");
        st = FR_VALUE_ERROR;
    } else if (n > 1 << 20 || !(l->v = fr_malloc((size_t)n * sizeof *l->v))) {
        PyErr_NoMemory();
        st = FR_VALUE_ERROR;
    }
    for (; st == FR_VALUE_OK && l->n < n; l->n += st == FR_VALUE_OK)
        st = fr_value_tensor(PySequence_Fast_GET_ITEM(l->seq, l->n), &l->v[l->n]);
    if (st != FR_VALUE_OK)
        list_clear(l);
    return st;
}

static const struct fr_layout *
layout_of(const struct list *l, int i)
{
    return l->v[i].arg.t->layout;
}

/* Replaces every handle by a window or reshaping of it. */
static int
list_replace(struct list *l, int i, fr_status st, struct fr_tensor *t, const struct fr_err *err)
{
    if (fr_errors_check(st, err) < 0)
        return -1;
    fr_value_clear(&l->v[i]);
    l->v[i].own = *t;
    l->v[i].arg.t = &l->v[i].own;
    return 0;
}

static int
list_flatten(struct list *l)
{
    for (int i = 0; i < l->n; i++) {
        struct fr_tensor t;
        struct fr_err    err;
        int64_t          n = layout_of(l, i)->n_elems;
        fr_status        st = fr_tensor_reshape(l->v[i].arg.t, 1, &n, &t, &err);
        if (list_replace(l, i, st, &t, &err) < 0)
            return -1;
    }
    return 0;
}

/* Each with one more axis of size 1. */
static int
list_expand(struct list *l, int axis)
{
    for (int i = 0; i < l->n; i++) {
        const struct fr_layout *m = layout_of(l, i);
        int64_t                 dims[FR_MAX_DIMS + 1], strides[FR_MAX_DIMS + 1];
        struct fr_tensor        t;
        struct fr_err           err;
        for (int k = 0, from = 0; k <= m->ndim; k++) {
            dims[k] = k == axis ? 1 : fr_layout_dims(m)[from];
            strides[k] = k == axis ? 0 : fr_layout_strides(m)[from];
            from += k != axis;
        }
        if (list_replace(l, i,
                         fr_tensor_window(l->v[i].arg.t, m->ndim + 1, dims, strides, 0, &t, &err),
                         &t, &err) < 0)
            return -1;
    }
    return 0;
}

/* ---- concatenate */

static int
check_joinable(const struct list *l, int axis)
{
    const struct fr_layout *a = layout_of(l, 0);

    for (int i = 1; i < l->n; i++) {
        const struct fr_layout *b = layout_of(l, i);
        if (a->ndim != b->ndim) {
            PyErr_Format(PyExc_ValueError,
                         "all the input arrays must have same number of dimensions, but the array "
                         "at index 0 has %d dimension(s) and the array at index %d has %d "
                         "dimension(s)", a->ndim, i, b->ndim);
            return -1;
        }
        for (int k = 0; k < a->ndim; k++)
            if (k != axis && fr_layout_dims(a)[k] != fr_layout_dims(b)[k]) {
                PyErr_Format(PyExc_ValueError,
                             "all the input array dimensions except for the concatenation axis "
                             "must match exactly, but along dimension %d, the array at index 0 "
                             "has size %lld and the array at index %d has size %lld", k,
                             (long long)fr_layout_dims(a)[k], i, (long long)fr_layout_dims(b)[k]);
                return -1;
            }
    }
    return 0;
}

static fr_dtype
common_dtype(const struct list *l)
{
    fr_dtype d = l->v[0].arg.t->dtype;

    for (int i = 1; i < l->n; i++)
        d = fr_dtype_promote(d, l->v[i].arg.t->dtype);
    return d;
}

/* The same of arrays that are flattened, beside which Python's numbers are weak. */
static fr_dtype
common_weak_dtype(const struct list *l)
{
    fr_dtype d = FR_N_DTYPES;

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < l->n; i++) {
            PyObject *o = l->v[i].object;
            char      weak = PyLong_CheckExact(o)      ? 'i'
                             : PyFloat_CheckExact(o)   ? 'f'
                             : PyComplex_CheckExact(o) ? 'c'
                                                       : 0;
            fr_dtype  mine = l->v[i].arg.t->dtype;

            if (pass == 0 && !weak)
                d = d == FR_N_DTYPES ? mine : fr_dtype_promote(d, mine);
            else if (pass == 1 && weak && d == FR_N_DTYPES)
                return common_dtype(l);
            else if (pass == 1 && weak)
                d = fr_dtype_promote_weak(d, weak);
        }
    return d;
}

/* The window [from, from + n) of dst along the axis. */
static fr_status
part_of(const struct fr_tensor *dst, int axis, int64_t from, int64_t n, struct fr_tensor *out,
        struct fr_err *err)
{
    const struct fr_layout *l = dst->layout;
    int64_t                 dims[FR_MAX_DIMS];

    memcpy(dims, fr_layout_dims(l), l->ndim * sizeof *dims);
    dims[axis] = n;
    return fr_tensor_window(dst, l->ndim, dims, fr_layout_strides(l),
                            from * fr_layout_strides(l)[axis], out, err);
}

static fr_status
store_part(const struct fr_tensor *dst, int axis, int64_t from, int64_t n,
           const struct fr_arg *value, struct fr_err *err)
{
    struct fr_tensor part;
    fr_status        st;

    if (n == 0)
        return FR_OK;
    st = part_of(dst, axis, from, n, &part, err);
    if (st == FR_OK) {
        st = fr_trace_store(&part, value, err);
        fr_tensor_clear(&part);
    }
    return st;
}

/* Whether axis a belongs before axis b, going by the inputs' strides: 1 yes, 0 no, -1 they do not tell. */
static int
goes_before(const struct list *l, int a, int b)
{
    int before = -1;

    for (int i = 0; i < l->n; i++) {
        const int64_t *dims = fr_layout_dims(layout_of(l, i));
        const int64_t *strides = fr_layout_strides(layout_of(l, i));
        if (dims[a] == 1 || dims[b] == 1)
            continue;
        if (llabs(strides[a]) <= llabs(strides[b]))
            before = 0; /* inputs that disagree give row order */
        else if (before < 0)
            before = 1;
    }
    return before;
}

/* NumPy lays the result out with its axes in the order of the inputs' strides. */
static fr_status
make_result(const struct list *l, const int64_t *dims, fr_dtype d, struct fr_tensor *out,
            struct fr_err *err)
{
    int64_t   strides[FR_MAX_DIMS], step = 1, count;
    int       axes[FR_MAX_DIMS], ndim = layout_of(l, 0)->ndim;
    fr_status st = fr_dims_count(ndim, dims, fr_dtype_size(d), &count, err);

    if (st != FR_OK)
        return st;
    for (int i = 0; i < ndim; i++) {
        int at = i;
        for (int k = i - 1; k >= 0; k--) {
            int before = goes_before(l, i, axes[k]);
            if (before == 0)
                break;
            if (before == 1)
                at = k;
        }
        memmove(&axes[at + 1], &axes[at], (size_t)(i - at) * sizeof *axes);
        axes[at] = i;
    }
    for (int k = ndim - 1; k >= 0; k--) {
        strides[axes[k]] = step;
        step *= dims[axes[k]] ? dims[axes[k]] : 1;
    }
    return fr_trace_empty(ndim, dims, strides, d, out, err);
}

/* out: a tensor of the right shape, or NULL. dtype FR_N_DTYPES: the common one. FALLBACK: NumPy's words. */
static int
join(struct list *l, int axis, PyObject *out, fr_dtype d, PyObject **result)
{
    int64_t          dims[FR_MAX_DIMS], at = 0;
    int              ndim = layout_of(l, 0)->ndim;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    if (check_joinable(l, axis) < 0)
        return FR_VALUE_ERROR;
    for (int i = 0; i < l->n; i++)
        fr_device_follow(l->v[i].arg.t);
    memcpy(dims, fr_layout_dims(layout_of(l, 0)), (size_t)ndim * sizeof *dims);
    for (int i = 1; i < l->n; i++)
        dims[axis] += fr_layout_dims(layout_of(l, i))[axis];
    if (d == FR_N_DTYPES)
        d = common_dtype(l);
    else
        for (int i = 0; i < l->n; i++)
            if (!fr_dtype_same_kind(l->v[i].arg.t->dtype, d))
                return FR_VALUE_FALLBACK;
    FR_TRACE_HERE();
    if (out) {
        const struct fr_layout *o = fr_of(out)->layout;
        if (o->ndim != ndim || memcmp(fr_layout_dims(o), dims, (size_t)ndim * sizeof *dims) != 0 ||
            !fr_dtype_same_kind(d, fr_of(out)->dtype))
            return FR_VALUE_FALLBACK;
        fr_tensor_copy(fr_of(out), &t);
        st = FR_OK;
    } else {
        st = make_result(l, dims, d, &t, &err);
    }
    if (st == FR_OK) {
        for (int i = 0; st == FR_OK && i < l->n; i++) {
            int64_t n = fr_layout_dims(layout_of(l, i))[axis];
            st = store_part(&t, axis, at, n, &l->v[i].arg, &err);
            at += n;
        }
        if (st != FR_OK)
            fr_tensor_clear(&t);
    }
    if (st == FR_OK && out) {
        fr_tensor_clear(&t);
        *result = Py_NewRef(out);
        return FR_VALUE_OK;
    }
    *result = fr_type_result(st, &t, &err);
    return *result ? FR_VALUE_OK : FR_VALUE_ERROR;
}

/* out, dtype and casting of the joining functions. */
static int
join_options(PyObject **out, PyObject *dtype, PyObject *casting, fr_dtype *d)
{
    int known = fr_numpy_to_dtype(dtype, FR_N_DTYPES, d);

    if (known < 0)
        return FR_VALUE_ERROR;
    if (*out == Py_None)
        *out = NULL;
    if (!known || (*out && (!fr_is_tensor(*out) || !fr_args_none(dtype))))
        return FR_VALUE_FALLBACK;
    if (casting && (!PyUnicode_Check(casting) ||
                    PyUnicode_CompareWithASCIIString(casting, "same_kind") != 0))
        return FR_VALUE_FALLBACK;
    return FR_VALUE_OK;
}

static struct fr_signature concatenate_signature = {
    "concatenate", 1, 3, 5, {"arrays", "axis", "out", "dtype", "casting"}, {NULL}};

static PyObject *
concatenate(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject   *s[5], *result = NULL;
    struct list l;
    fr_dtype    d;
    int         st, axis = 0;

    (void)module;
    if (fr_args_parse(&concatenate_signature, args, nargs, kw, s) < 0)
        return NULL;
    st = join_options(&s[2], s[3], s[4], &d);
    if (st == FR_VALUE_OK)
        st = list_get(s[0], &l);
    if (st == FR_VALUE_OK) {
        if (s[1] == Py_None) {
            if (d == FR_N_DTYPES)
                d = common_weak_dtype(&l);
            if (list_flatten(&l) < 0)
                st = FR_VALUE_ERROR;
        } else if (layout_of(&l, 0)->ndim == 0) {
            PyErr_SetString(PyExc_ValueError, "zero-dimensional arrays cannot be concatenated");
            st = FR_VALUE_ERROR;
        } else if (s[1] && fr_args_axis(s[1], layout_of(&l, 0)->ndim, &axis) < 0) {
            st = FR_VALUE_ERROR;
        }
        if (st == FR_VALUE_OK)
            st = join(&l, axis, s[2], d, &result);
        list_clear(&l);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("concatenate", args, nargs, kw) : result;
}

static int
same_shapes(const struct list *l)
{
    const struct fr_layout *a = layout_of(l, 0);

    for (int i = 1; i < l->n; i++)
        if (layout_of(l, i)->ndim != a->ndim ||
            memcmp(fr_layout_dims(layout_of(l, i)), fr_layout_dims(a),
                   a->ndim * sizeof(int64_t)) != 0) {
            PyErr_SetString(PyExc_ValueError, "all input arrays must have the same shape");
            return -1;
        }
    return 0;
}

static struct fr_signature stack_signature = {
    "stack", 1, 3, 5, {"arrays", "axis", "out", "dtype", "casting"}, {NULL}};

static PyObject *
stack(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject   *s[5], *result = NULL;
    struct list l;
    fr_dtype    d;
    int         st, axis = 0;

    (void)module;
    if (fr_args_parse(&stack_signature, args, nargs, kw, s) < 0)
        return NULL;
    st = join_options(&s[2], s[3], s[4], &d);
    if (st == FR_VALUE_OK) {
        st = list_get(s[0], &l);
        if (st == FR_VALUE_ERROR && PyErr_ExceptionMatches(PyExc_ValueError) &&
            PySequence_Size(s[0]) == 0) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "need at least one array to stack");
        }
    }
    if (st == FR_VALUE_OK) {
        int ndim = layout_of(&l, 0)->ndim + 1;
        if (same_shapes(&l) < 0 || (s[1] && fr_args_axis(s[1], ndim, &axis) < 0))
            st = FR_VALUE_ERROR;
        else if (ndim > FR_MAX_DIMS)
            st = FR_VALUE_FALLBACK;
        else
            st = list_expand(&l, axis) < 0 ? FR_VALUE_ERROR : join(&l, axis, s[2], d, &result);
        list_clear(&l);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name("stack", args, nargs, kw) : result;
}

/* ---- vstack hstack dstack column_stack: concatenate after atleast_*d */

static int
list_at_least(struct list *l, int n)
{
    for (int i = 0; i < l->n; i++) {
        int      have = layout_of(l, i)->ndim;
        uint32_t mask;
        PyObject *o;
        if (have >= n)
            continue;
        mask = have == 0 || n == 1 ? (1u << n) - 1 : n == 2 ? 1u : have == 1 ? 5u : 4u;
        o = fr_shape_expand(l->v[i].arg.t, mask, n);
        if (!o)
            return -1;
        struct fr_tensor t = *fr_of(o);
        fr_of(o)->storage = NULL; /* the list owns the handle now */
        Py_DECREF(o);
        if (list_replace(l, i, FR_OK, &t, NULL) < 0)
            return -1;
    }
    return 0;
}

static struct fr_signature tup_signature = {"vstack", 1, 1, 3, {"tup", "dtype", "casting"}, {NULL}};

enum stacking { VSTACK, HSTACK, DSTACK, COLUMN_STACK };

static PyObject *
stack_by(fr_args args, Py_ssize_t nargs, PyObject *kw, const char *name, enum stacking how)
{
    PyObject   *s[3], *result = NULL, *none = NULL;
    struct list l;
    fr_dtype    d;
    int         st, axis = 0;

    if (fr_args_parse(&tup_signature, args, nargs, kw, s) < 0)
        return NULL;
    st = join_options(&none, s[1], s[2], &d);
    if (st == FR_VALUE_OK)
        st = list_get(s[0], &l);
    if (st == FR_VALUE_OK) {
        int failed = 0;
        if (how == COLUMN_STACK) { /* a vector is a column */
            failed = list_at_least(&l, 1);
            for (int i = 0; !failed && i < l.n; i++)
                if (layout_of(&l, i)->ndim == 1) {
                    int64_t dims[2] = {layout_of(&l, i)->n_elems, 1};
                    int64_t strides[2] = {fr_layout_strides(layout_of(&l, i))[0], 1};
                    struct fr_tensor t;
                    struct fr_err    err;
                    failed = list_replace(
                        &l, i, fr_tensor_window(l.v[i].arg.t, 2, dims, strides, 0, &t, &err), &t,
                        &err);
                }
            axis = 1;
        } else {
            failed = list_at_least(&l, how == HSTACK ? 1 : how == VSTACK ? 2 : 3);
            axis = how == VSTACK ? 0 : how == DSTACK ? 2 : layout_of(&l, 0)->ndim == 1 ? 0 : 1;
        }
        st = failed ? FR_VALUE_ERROR : join(&l, axis, NULL, d, &result);
        list_clear(&l);
    }
    return st == FR_VALUE_FALLBACK ? fr_fallback_name(name, args, nargs, kw) : result;
}

#define STACK(name, how)                                                                           \
    static PyObject *name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)          \
    {                                                                                              \
        (void)module;                                                                              \
        return stack_by(args, nargs, kw, #name, how);                                              \
    }
STACK(vstack, VSTACK)
STACK(hstack, HSTACK)
STACK(dstack, DSTACK)
STACK(column_stack, COLUMN_STACK)
#undef STACK

/* ---- roll */

static fr_status
roll_axis(const struct fr_tensor *t, int axis, int64_t shift, struct fr_tensor *out,
          struct fr_err *err)
{
    const struct fr_layout *l = t->layout;
    int64_t                 strides[FR_MAX_DIMS], n = fr_layout_dims(l)[axis];
    struct fr_tensor        part;
    struct fr_arg           arg = {.t = &part};
    fr_status               st;
    FR_ON_DEVICE fr_device  before = fr_device_chosen();

    fr_device_follow(t);
    fr_strides_copy_order(l->ndim, fr_layout_dims(l), fr_layout_strides(l), strides);
    st = fr_trace_empty(l->ndim, fr_layout_dims(l), strides, t->dtype, out, err);
    if (st != FR_OK || l->n_elems == 0)
        return st;
    shift = ((shift % n) + n) % n;
    /* The end comes to the front, the rest follows. */
    for (int half = 0; st == FR_OK && half < 2; half++) {
        int64_t count = half ? n - shift : shift, src = half ? 0 : n - shift, dst = half ? shift : 0;
        if (count == 0)
            continue;
        st = part_of(t, axis, src, count, &part, err);
        if (st == FR_OK) {
            st = store_part(out, axis, dst, count, &arg, err);
            fr_tensor_clear(&part);
        }
    }
    if (st != FR_OK)
        fr_tensor_clear(out);
    return st;
}

static struct fr_signature roll_signature = {"roll", 2, 3, 3, {"a", "shift", "axis"}, {NULL}};

static PyObject *
roll(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject        *s[3], *flat, *result;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        st;
    int64_t          shift;
    int              axis = 0;

    (void)module;
    if (fr_args_parse(&roll_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_is_tensor(s[0]) || !PyLong_CheckExact(s[1]) || !fr_value_small_int(s[1], &shift) ||
        (!fr_args_none(s[2]) && !PyLong_CheckExact(s[2])))
        return fr_fallback_name("roll", args, nargs, kw);
    if (!fr_args_none(s[2])) {
        if (fr_args_axis(s[2], fr_of(s[0])->layout->ndim, &axis) < 0)
            return NULL;
        FR_TRACE_HERE();
        st = roll_axis(fr_of(s[0]), axis, shift, &t, &err);
        return fr_type_result(st, &t, &err);
    }
    const struct fr_layout *l = fr_of(s[0])->layout;
    int64_t                 dims[FR_MAX_DIMS];
    memcpy(dims, fr_layout_dims(l), l->ndim * sizeof *dims);
    flat = fr_shape_ravel(fr_of(s[0]), 'C', false);
    if (!flat)
        return NULL;
    FR_TRACE_HERE();
    st = roll_axis(fr_of(flat), 0, shift, &t, &err);
    Py_DECREF(flat);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    result = fr_shape_reshape(&t, l->ndim, dims, 'C', -1);
    fr_tensor_clear(&t);
    return result;
}

PyMethodDef fr_join_methods[] = {
    {"concatenate", FR_FAST(concatenate),
     "concatenate(arrays, axis=0, out=None, *, dtype=None, casting='same_kind')\n--\n\n"
     "Arrays one after the other along an axis; None joins them flattened. The other sizes must be\n"
     "equal and dtypes promote. ValueError where they are not, AxisError beyond ndim."},
    {"concat", FR_FAST(concatenate),
     "concat(arrays, axis=0, ...)\n--\n\nThe Array API's name of concatenate."},
    {"stack", FR_FAST(stack),
     "stack(arrays, axis=0, out=None, *, dtype=None, casting='same_kind')\n--\n\n"
     "Arrays of one shape along a new axis; dtypes promote. ValueError where shapes differ or there is none, AxisError beyond\n"
     "the result's ndim."},
    {"vstack", FR_FAST(vstack),
     "vstack(tup, *, dtype=None, casting='same_kind')\n--\n\nConcatenates rows; a vector is a row. See concatenate."},
    {"hstack", FR_FAST(hstack),
     "hstack(tup, *, dtype=None, casting='same_kind')\n--\n\nConcatenates columns, or vectors. See concatenate."},
    {"dstack", FR_FAST(dstack), "dstack(tup)\n--\n\nConcatenates along the third axis. See concatenate."},
    {"column_stack", FR_FAST(column_stack),
     "column_stack(tup)\n--\n\nConcatenates columns; a vector is a column. See concatenate."},
    {"roll", FR_FAST(roll),
     "roll(a, shift, axis=None)\n--\n\n"
     "Elements moved along an axis, those at the end to the front, in an array of the same shape and dtype; None moves them\n"
     "flattened. Raises AxisError beyond ndim."},
    {NULL, NULL, 0, NULL},
};
