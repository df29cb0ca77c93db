/* bind/tensor/pad.c -- pad: an array with a border.
 *
 * The array is stored into the middle of a new one. Then the border comes axis by axis, as in NumPy
 * (numpy/lib/_arraypad_impl.py): of the axes before, whose borders are there, all of it; of those behind, the middle. But
 * for a constant it is a window of what is there by then. */
#include <string.h>

#include "bind/tensor/tensor.h"

/* pad_width: n, (before, after), or a pair per axis. False: NumPy has a look. */
static bool
pad_widths(PyObject *o, int ndim, int64_t (*w)[2])
{
    int64_t flat[2 * FR_MAX_DIMS];
    int     n;

    if (PyLong_CheckExact(o)) {
        if (fr_args_dims(o, false, &n, flat) < 0)
            goto odd;
        for (int i = 0; i < ndim; i++)
            w[i][0] = w[i][1] = flat[0];
        return true;
    }
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o))
        return false;
    Py_ssize_t len = PySequence_Fast_GET_SIZE(o);
    if (len == 2 && PyLong_CheckExact(PySequence_Fast_GET_ITEM(o, 0)) &&
        PyLong_CheckExact(PySequence_Fast_GET_ITEM(o, 1))) {
        if (fr_args_dims(o, false, &n, flat) < 0)
            goto odd;
        for (int i = 0; i < ndim; i++)
            memcpy(w[i], flat, sizeof w[i]);
        return true;
    }
    if (len != ndim && len != 1)
        return false;
    for (int i = 0; i < ndim; i++) {
        PyObject *pair = PySequence_Fast_GET_ITEM(o, len == 1 ? 0 : i);
        if (!PyTuple_CheckExact(pair) && !PyList_CheckExact(pair))
            return false;
        if (fr_args_dims(pair, false, &n, flat) < 0 || n != 2)
            goto odd;
        memcpy(w[i], flat, sizeof w[i]);
    }
    return true;
odd:
    PyErr_Clear();
    return false;
}

enum mode { CONSTANT, EDGE, WRAP, REFLECT, SYMMETRIC, N_MODES };
static const char *const mode_names[] = {"constant", "edge", "wrap", "reflect", "symmetric"};

/* What is made: its axes, the array's place in it, and the border. */
struct padded {
    struct fr_tensor out;
    enum mode        mode;
    struct fr_arg    value;         /* of a constant border */
    int              ndim;
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], inner[FR_MAX_DIMS], w[FR_MAX_DIMS][2];
};

/* N_MODES: NumPy's. */
static enum mode
mode_of(PyObject *o)
{
    enum mode m = CONSTANT;

    if (!o)
        return m;
    if (!PyUnicode_Check(o))
        return N_MODES;
    while (m < N_MODES && PyUnicode_CompareWithASCIIString(o, mode_names[m]) != 0)
        m++;
    return m;
}

/* Whether each border is a part of the array, once: wider ones are NumPy's. */
static bool
is_narrow(const struct padded *p)
{
    for (int k = 0; k < p->ndim; k++) {
        int64_t n = p->inner[k], most = p->w[k][0] > p->w[k][1] ? p->w[k][0] : p->w[k][1];

        if (most && (n == 0 || ((p->mode == WRAP || p->mode == SYMMETRIC) && most > n) ||
                     (p->mode == REFLECT && most > n - 1)))
            return false;
    }
    return true;
}

/* A window of the new array: of axis `axis` n elements from `first` on, `step` apart; of others what the border of that
 * axis has of them. */
static fr_status
window(const struct padded *p, int axis, int64_t first, int64_t n, int64_t step, struct fr_tensor *out, struct fr_err *err)
{
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], offset = 0;

    for (int k = 0; k < p->ndim; k++) {
        dims[k] = k < axis ? p->dims[k] : p->inner[k];
        strides[k] = p->strides[k];
        offset += k < axis ? 0 : p->w[k][0] * p->strides[k];
    }
    if (axis >= 0) {
        dims[axis] = n;
        strides[axis] = step * p->strides[axis];
        offset += (first - p->w[axis][0]) * p->strides[axis];
    }
    return fr_tensor_window(&p->out, p->ndim, dims, strides, offset, out, err);
}

/* The border on one side of an axis. */
static fr_status
store_border(const struct padded *p, int axis, int side, struct fr_err *err)
{
    int64_t          n = p->w[axis][side], before = p->w[axis][0], size = p->inner[axis];
    int64_t          end = before + size, from = 0, step = p->mode == EDGE ? 0 : p->mode == WRAP ? 1 : -1;
    struct fr_tensor to, there = {0};
    struct fr_arg    arg = p->value;
    fr_status        st;

    switch (p->mode) {
    case EDGE: from = side ? end - 1 : before; break;
    case WRAP: from = side ? before : size; break;
    case REFLECT: from = side ? end - 2 : 2 * before; break;
    default: from = side ? end - 1 : 2 * before - 1; break;
    }
    if ((st = window(p, axis, side ? end : 0, n, 1, &to, err)) != FR_OK)
        return st;
    if (p->mode != CONSTANT) {
        st = window(p, axis, from, n, step, &there, err);
        arg = (struct fr_arg){.t = &there};
    }
    if (st == FR_OK)
        st = fr_trace_store(&to, &arg, err);
    fr_tensor_clear(&to);
    if (there.storage)
        fr_tensor_clear(&there);
    return st;
}

/* Everything into the new array. */
static fr_status
store_all(const struct padded *p, const struct fr_tensor *t, struct fr_err *err)
{
    enum { MUCH = 1 << 15 };    /* bytes that take longer to fill than the sides of a border to come to */
    const bool       fills = p->mode == CONSTANT && p->out.layout->n_elems * fr_dtype_size(t->dtype) < MUCH;
    struct fr_arg    arg = {.t = t};
    struct fr_tensor inner;
    fr_status        st = fills ? fr_trace_store(&p->out, &p->value, err) : FR_OK;

    if (st == FR_OK && t->layout->n_elems && (st = window(p, -1, 0, 0, 0, &inner, err)) == FR_OK) {
        st = fr_trace_store(&inner, &arg, err);
        fr_tensor_clear(&inner);
    }
    for (int k = 0; st == FR_OK && !fills && k < p->ndim; k++)
        for (int side = 0; st == FR_OK && side < 2; side++)
            if (p->w[k][side])
                st = store_border(p, k, side, err);
    return st;
}

static struct fr_signature pad_signature = {
    "pad", 2, 3, 4, {"array", "pad_width", "mode", "constant_values"}, {NULL}};

static PyObject *
pad(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject               *s[4], *result = NULL;
    const struct fr_tensor *t;
    struct padded           p = {.value = {.n = {.dtype = FR_I64, .weak = 'i'}}};
    struct fr_err           err;
    fr_status               st;
    int64_t                 step = 1, count;
    FR_ON_DEVICE fr_device  before = fr_device_chosen();

    (void)module;
    if (fr_args_parse(&pad_signature, args, nargs, kw, s) < 0) {
        PyErr_Clear(); /* stat_length, end_values, reflect_type */
        return fr_fallback_name("pad", args, nargs, kw);
    }
    if (!fr_is_tensor(s[0]) || fr_of(s[0])->layout->ndim == 0 || (p.mode = mode_of(s[2])) == N_MODES ||
        (s[3] && p.mode != CONSTANT))
        return fr_fallback_name("pad", args, nargs, kw);
    t = fr_of(s[0]);
    p.ndim = t->layout->ndim;
    memcpy(p.inner, fr_layout_dims(t->layout), (size_t)p.ndim * sizeof *p.inner);
    if (!pad_widths(s[1], p.ndim, p.w) || (p.mode != CONSTANT && !is_narrow(&p)))
        return fr_fallback_name("pad", args, nargs, kw);
    if (s[3]) {
        if (!PyLong_CheckExact(s[3]) && !PyFloat_CheckExact(s[3]))
            return fr_fallback_name("pad", args, nargs, kw);
        if (fr_value_store(s[3], t->dtype, &p.value.n) != FR_VALUE_OK)
            return NULL;
    }
    for (int k = 0; k < p.ndim; k++) {
        bool columns = t->layout->f_contig && !t->layout->c_contig;
        int  i = columns ? k : p.ndim - 1 - k;

        p.dims[i] = p.inner[i] + p.w[i][0] + p.w[i][1];
        p.strides[i] = step;
        if (__builtin_mul_overflow(step, p.dims[i] ? p.dims[i] : 1, &step))
            return fr_fallback_name("pad", args, nargs, kw);
    }
    FR_TRACE_HERE();
    fr_device_follow(t);
    st = fr_dims_count(p.ndim, p.dims, fr_dtype_size(t->dtype), &count, &err);
    if (st == FR_OK)
        st = fr_trace_empty(p.ndim, p.dims, p.strides, t->dtype, &p.out, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    if ((st = store_all(&p, t, &err)) == FR_OK)
        result = fr_type_take(&p.out);
    else
        fr_tensor_clear(&p.out);
    return result ? result : PyErr_Occurred() ? NULL : fr_errors_raise(st, &err);
}

PyMethodDef fr_pad_methods[] = {
    {"pad", FR_FAST(pad),
     "pad(array, pad_width, mode='constant', *, constant_values=0)\n--\n\n"
     "The array with a border, of the same dtype. pad_width is n, (before, after) or a pair per axis. mode: 'constant', 'edge',\n"
     "'wrap', 'reflect' or 'symmetric'; others, and borders wider than the array, are NumPy's.\n"
     "ValueError for a border below 0 or another mode."},
    {NULL, NULL, 0, NULL},
};
