/* bind/tensor/fill.c -- new tensors from nothing: filled with a number, counted, triangular. */
#include <math.h>
#include <string.h>

#include "bind/tensor/tensor.h"

/* ---- filled with one number */

/* A tensor without defined values; order 'C' or 'F', or the axes of `like`. */
static fr_status
make_empty(int ndim, const int64_t *dims, fr_dtype d, char order, const struct fr_layout *like,
           struct fr_tensor *out, struct fr_err *err)
{
    int64_t        strides[FR_MAX_DIMS], step = 1, n;
    fr_status      st = fr_dims_count(ndim, dims, fr_dtype_size(d), &n, err);

    if (st != FR_OK)
        return st;
    if (like) {
        fr_strides_copy_order(ndim, dims, fr_layout_strides(like), strides);
    } else {
        for (int k = 0; k < ndim; k++) {
            int i = order == 'F' ? k : ndim - 1 - k;
            strides[i] = step;
            step *= dims[i] ? dims[i] : 1;
        }
    }
    return fr_trace_empty(ndim, dims, strides, d, out, err);
}

static PyObject *
filled(int ndim, const int64_t *dims, fr_dtype d, char order, const struct fr_layout *like,
       const struct fr_number *n)
{
    struct fr_tensor t;
    struct fr_arg    arg = {.t = NULL};
    struct fr_err    err;
    fr_status        st;
    int64_t          count;

    FR_TRACE_HERE();
    st = fr_dims_count(ndim, dims, fr_dtype_size(d), &count, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    if (n && !like && (order == 'C' || ndim < 2)) {
        st = fr_trace_fill(ndim, dims, d, n, &t, &err);
        return fr_type_result(st, &t, &err);
    }
    st = make_empty(ndim, dims, d, order, like, &t, &err);
    if (st == FR_OK && n) {
        arg.n = *n;
        st = fr_trace_store(&t, &arg, &err);
        if (st != FR_OK)
            fr_tensor_clear(&t);
    }
    return fr_type_result(st, &t, &err);
}

static struct fr_signature new_signature = {
    "zeros", 1, 3, 5, {"shape", "dtype", "order", "device", "like"}, {NULL}};

/* dtype= of a creation function, an FR_VALUE_*. */
static int
wanted_dtype(PyObject *o, fr_dtype dflt, fr_dtype *d)
{
    int known = fr_numpy_to_dtype(o, dflt, d);

    return known > 0 ? FR_VALUE_OK : known < 0 ? FR_VALUE_ERROR : FR_VALUE_FALLBACK;
}

/* Whether a shape has more axes than a tensor, of which NumPy has twice as many. */
static bool
has_many_axes(PyObject *shape)
{
    return (PyTuple_Check(shape) || PyList_Check(shape)) && PySequence_Fast_GET_SIZE(shape) > FR_MAX_DIMS;
}

/* Whether no machine has that much memory: NumPy says so at once. */
static bool
is_beyond_memory(int ndim, const int64_t *dims, fr_dtype d)
{
    const int64_t most = (int64_t)1 << 47;
    int64_t       n;
    struct fr_err err;

    return fr_dims_count(ndim, dims, fr_dtype_size(d), &n, &err) == FR_OK && n > most / fr_dtype_size(d);
}

static PyObject *
new_filled(const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw, const struct fr_number *n)
{
    PyObject *s[5];
    int64_t   dims[FR_MAX_DIMS];
    int       ndim, st;
    fr_dtype  d;
    char      order;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    if (fr_args_parse(&new_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (has_many_axes(s[0]))
        return fr_fallback_name(name, args, nargs, kw);
    if (fr_args_dims(s[0], false, &ndim, dims) < 0 || (st = wanted_dtype(s[1], FR_F64, &d)) == FR_VALUE_ERROR ||
        fr_args_order(s[2], "CF", 'C', &order) < 0 || fr_args_on_device(s[3]) < 0 || fr_creation_like(s[4]) < 0)
        return NULL;
    if (st == FR_VALUE_FALLBACK || is_beyond_memory(ndim, dims, d))
        return fr_fallback_name(name, args, nargs, kw);
    return filled(ndim, dims, d, order, NULL, n);
}

static const struct fr_number zero = {.dtype = FR_I64, .weak = 'i', .v.i64 = 0};
static const struct fr_number one = {.dtype = FR_I64, .weak = 'i', .v.i64 = 1};

/* A new tensor with these values, an array's or a number's, cast to its dtype. */
static PyObject *
filled_with(int ndim, const int64_t *dims, fr_dtype d, char order, const struct fr_layout *like, PyObject *value)
{
    struct fr_number n;
    PyObject        *result, *array = NULL;

    /* An int must fit; other numbers are cast as arrays are. */
    if (PyLong_Check(value) || (PyFloat_CheckExact(value) && d >= FR_F16) ||
        (fr_numpy_is_scalar(value) && fr_numpy_scalar(value, &n) && n.dtype == d))
        return fr_value_store(value, d, &n) == FR_VALUE_OK ? filled(ndim, dims, d, order, like, &n) : NULL;
    if (!fr_is_tensor(value) && !(value = array = fr_numpy_from_any(value)))
        return NULL;
    if (fr_is_tensor(value) && fr_object(value)->scalar) {
        struct fr_tensor t;
        fr_tensor_copy(fr_of(value), &t);
        if (!(value = array = fr_type_take(&t)))
            return NULL;
    }
    result = filled(ndim, dims, d, order, like, NULL);
    if (result && fr_index_assign(fr_of(result), value) < 0)
        Py_CLEAR(result);
    Py_XDECREF(array);
    return result;
}

static struct fr_signature like_signature = {
    "zeros_like", 1, 5, 6, {"a", "dtype", "order", "subok", "shape", "device"}, {NULL}};

/* An FR_VALUE_*, and with OK the tensor in *result. */
static int
like_filled(PyObject *const *s, const struct fr_number *n, PyObject *value, PyObject **result)
{
    struct fr_value       x;
    const struct fr_tensor *t;
    const struct fr_layout *like = NULL;
    int64_t                 dims[FR_MAX_DIMS];
    int                     ndim, st;
    fr_dtype                d;
    char                    order;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    *result = NULL;
    if (fr_args_order(s[2], "CFAK", 'K', &order) < 0)
        return FR_VALUE_ERROR;
    st = fr_value_kept(s[0], &x);
    if (st != FR_VALUE_OK)
        return st;
    t = x.arg.t;
    fr_device_follow(t);
    st = fr_args_on_device(s[5]) < 0 ? FR_VALUE_ERROR : wanted_dtype(s[1], t->dtype, &d);
    if (st != FR_VALUE_OK)
        goto out;
    st = FR_VALUE_ERROR;
    ndim = t->layout->ndim;
    memcpy(dims, fr_layout_dims(t->layout), (size_t)ndim * sizeof *dims);
    if (!fr_args_none(s[4]) && fr_args_dims(s[4], false, &ndim, dims) < 0)
        goto out;
    if (order == 'A')
        order = t->layout->f_contig && !t->layout->c_contig ? 'F' : 'C';
    if (order == 'K' && ndim == t->layout->ndim && !t->layout->c_contig)
        like = t->layout;
    if (order == 'K')
        order = 'C';
    *result = value ? filled_with(ndim, dims, d, order, like, value) : filled(ndim, dims, d, order, like, n);
    st = *result ? FR_VALUE_OK : FR_VALUE_ERROR;
out:
    fr_value_clear(&x);
    return st;
}

#define NEW(name, number)                                                                          \
    static PyObject *new_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)    \
    {                                                                                              \
        (void)module;                                                                              \
        return new_filled(#name, args, nargs, kw, number);                                         \
    }                                                                                              \
    static PyObject *like_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)   \
    {                                                                                              \
        PyObject *s[6], *result;                                                                   \
        (void)module;                                                                              \
        if (fr_args_parse(&like_signature, args, nargs, kw, s) < 0)                                \
            return NULL;                                                                           \
        return like_filled(s, number, NULL, &result) == FR_VALUE_FALLBACK                          \
                   ? fr_fallback_name(#name "_like", args, nargs, kw) : result;                    \
    }
NEW(zeros, &zero)
NEW(ones, &one)
NEW(empty, NULL)
#undef NEW

static struct fr_signature full_signature = {
    "full", 2, 4, 6, {"shape", "fill_value", "dtype", "order", "device", "like"}, {NULL}};

static PyObject *
full(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject         *s[6], *result;
    struct fr_value x;
    int64_t           dims[FR_MAX_DIMS];
    int               ndim, st, wanted;
    fr_dtype          d;
    char              order;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    (void)module;
    if (fr_args_parse(&full_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (has_many_axes(s[0]))
        return fr_fallback_name("full", args, nargs, kw);
    if (fr_args_dims(s[0], false, &ndim, dims) < 0 ||
        fr_args_order(s[3], "CF", 'C', &order) < 0 || fr_args_on_device(s[4]) < 0)
        return NULL;
    st = fr_value_get(s[1], false, &x);
    if (st == FR_VALUE_ERROR)
        return NULL;
    d = st != FR_VALUE_OK ? FR_F64 : x.arg.t ? x.arg.t->dtype : x.arg.n.dtype;
    if (st == FR_VALUE_OK && !x.arg.t && x.arg.n.huge) { /* beyond int64: uint64, or an object */
        d = FR_U64;
        if (x.arg.n.negative || (PyLong_AsUnsignedLongLong(s[1]), PyErr_Occurred()))
            st = FR_VALUE_FALLBACK;
        PyErr_Clear();
    }
    wanted = wanted_dtype(s[2], d, &d);
    if (wanted == FR_VALUE_OK && st == FR_VALUE_FALLBACK && fr_args_none(s[2]))
        wanted = FR_VALUE_FALLBACK;
    if (wanted != FR_VALUE_OK) {
        result = wanted == FR_VALUE_FALLBACK ? fr_fallback_name("full", args, nargs, kw) : NULL;
    } else {
        result = filled_with(ndim, dims, d, order, NULL, s[1]);
    }
    if (st == FR_VALUE_OK)
        fr_value_clear(&x);
    return result;
}

static struct fr_signature full_like_signature = {
    "full_like", 2, 6, 7, {"a", "fill_value", "dtype", "order", "subok", "shape", "device"}, {NULL}};

static PyObject *
full_like(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[7], *result;

    (void)module;
    if (fr_args_parse(&full_like_signature, args, nargs, kw, s) < 0)
        return NULL;
    return like_filled((PyObject *[]){s[0], s[2], s[3], s[4], s[5], s[6]}, NULL, s[1], &result) == FR_VALUE_FALLBACK
               ? fr_fallback_name("full_like", args, nargs, kw)
               : result;
}

/* ---- counted */

/* start + step * iota, as NumPy fills it: the second element is start + step, and the rest follow
 * from the difference of the two. */
static PyObject *
count_floats(int64_t n, double start, double step, fr_dtype d)
{
    struct fr_tensor t;
    struct fr_arg    args[2];
    struct fr_err    err;
    fr_status        st;
    PyObject        *o, *scaled;
    double           second = start + step, delta;

    if (d == FR_F32) {
        float s = (float)start, s2 = (float)second, df = s2 - s;
        if (s + df != s2)
            return NULL;
        start = s;
        delta = df;
    } else {
        delta = second - start;
        if (start + delta != second)
            return NULL;
    }
    st = fr_trace_iota(1, &n, 0, d, &t, &err);
    o = fr_type_result(st, &t, &err);
    args[1] = (struct fr_arg){.n = {.dtype = FR_F64, .weak = 'f', .v.f64 = delta}};
    if (o && delta != 1) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_multiply, args, 2, 0);
        Py_SETREF(o, scaled);
    }
    args[1].n.v.f64 = start;
    if (o && start != 0) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_add, args, 2, 0);
        Py_SETREF(o, scaled);
    }
    return o;
}

static PyObject *
count_ints(int64_t n, int64_t start, int64_t step)
{
    struct fr_tensor t;
    struct fr_arg    args[2];
    struct fr_err    err;
    fr_status        st = fr_trace_iota(1, &n, 0, FR_I64, &t, &err);
    PyObject        *o = fr_type_result(st, &t, &err), *scaled;

    args[1] = (struct fr_arg){.n = {.dtype = FR_I64, .weak = 'i', .v.i64 = step}};
    if (o && step != 1) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_multiply, args, 2, 0);
        Py_SETREF(o, scaled);
    }
    args[1].n.v.i64 = start;
    if (o && start != 0) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_add, args, 2, 0);
        Py_SETREF(o, scaled);
    }
    return o;
}

/* Numbers of arange that are counted lazily: small ints, floats. False: NumPy's arange does it. */
static bool
plain_range(PyObject *const *s, fr_dtype d, PyObject **result)
{
    PyObject *start = fr_args_none(s[1]) ? NULL : s[0], *stop = start ? s[1] : s[0];
    PyObject *all[3] = {start, stop, fr_args_none(s[2]) ? NULL : s[2]};
    int64_t   v[3] = {0, 0, 1};
    double    f[3] = {0, 0, 1}, count;
    bool      floats = false;

    *result = NULL;
    for (int i = 0; i < 3; i++) {
        if (!all[i])
            continue;
        if (PyFloat_CheckExact(all[i])) {
            floats = true;
            f[i] = PyFloat_AS_DOUBLE(all[i]);
        } else if (PyLong_CheckExact(all[i]) && fr_value_small_int(all[i], &v[i])) {
            f[i] = (double)v[i];
        } else {
            return false;
        }
    }
    if (f[2] == 0)
        return false;
    if (d == FR_N_DTYPES)
        d = floats ? FR_F64 : FR_I64;
    count = ceil((f[1] - f[0]) / f[2]);
    if (!(count < (double)((int64_t)1 << 53)))
        return false;
    FR_TRACE_HERE();
    if (!floats && d == FR_I64) {
        *result = count_ints(count > 0 ? (int64_t)count : 0, v[0], v[2]);
        return *result || PyErr_Occurred();
    }
    if (d != FR_F64 && d != FR_F32)
        return false;
    *result = count_floats(count > 0 ? (int64_t)count : 0, f[0], f[2], d);
    return *result || PyErr_Occurred();
}

/* A NumPy function whose new array becomes the tensor. */
static PyObject *
adopted_call(const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *func = fr_numpy_attr(name), *raw, *result;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    for (Py_ssize_t i = 0; kw && i < PyTuple_GET_SIZE(kw); i++) /* NumPy's is the host */
        if (!PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kw, i), "device") && fr_args_on_device(args[nargs + i]) < 0) {
            Py_XDECREF(func);
            return NULL;
        }
    for (Py_ssize_t i = 0; i < nargs + (kw ? PyTuple_GET_SIZE(kw) : 0); i++)
        if (fr_containers_hold_tensor(args[i], 0)) {
            Py_XDECREF(func);
            return fr_fallback_name(name, args, nargs, kw);
        }
    raw = func ? fr_args_call_on_host(func, args, nargs, kw) : NULL;
    Py_XDECREF(func);
    if (!raw)
        return NULL;
    result = PyTuple_Check(raw) || !fr_numpy_is_array(raw) ? Py_NewRef(raw) : fr_numpy_wrap(raw, NULL);
    Py_DECREF(raw);
    return fr_device_placed(result, FR_DEVICE_ANY);
}

static struct fr_signature arange_signature = {
    "arange", 1, 4, 6, {"start", "stop", "step", "dtype", "device", "like"}, {NULL}};

static PyObject *
arange(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[6], *result, *all[4];
    fr_dtype  d;
    int       st;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    (void)module;
    if (nargs == 0) /* arange(stop=3) */
        return adopted_call("arange", args, nargs, kw);
    if (fr_args_parse(&arange_signature, args, nargs, kw, s) < 0 ||
        (st = wanted_dtype(s[3], FR_N_DTYPES, &d)) == FR_VALUE_ERROR || fr_args_on_device(s[4]) < 0 ||
        fr_creation_like(s[5]) < 0)
        return NULL;
    if (st == FR_VALUE_OK && plain_range(s, d, &result))
        return result;
    all[0] = s[0];
    for (int i = 1; i < 4; i++)
        all[i] = s[i] ? s[i] : Py_None;
    return adopted_call("arange", all, 4, NULL);
}

#define ADOPTED(name)                                                                              \
    static PyObject *name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)          \
    {                                                                                              \
        (void)module;                                                                              \
        return adopted_call(#name, args, nargs, kw);                                               \
    }
ADOPTED(linspace)
ADOPTED(logspace)
ADOPTED(geomspace)
ADOPTED(frombuffer)
ADOPTED(fromfile)
ADOPTED(fromiter)
ADOPTED(fromfunction)
ADOPTED(fromstring)
ADOPTED(indices)
ADOPTED(vander)
ADOPTED(loadtxt)
ADOPTED(hamming)
ADOPTED(hanning)
ADOPTED(bartlett)
ADOPTED(blackman)
ADOPTED(kaiser)
#undef ADOPTED

/* ---- eye and triangles: a comparison of row and column numbers */

/* row + k OP column over an array of these dims whose last two axes are rows and columns. */
static PyObject *
compare_indices(fr_op op, int64_t rows, int64_t columns, int64_t k)
{
    int64_t          dims[2] = {rows, columns};
    struct fr_tensor row, column, moved;
    struct fr_arg    args[2];
    struct fr_err    err;
    fr_status        st;

    FR_TRACE_HERE();
    st = fr_trace_iota(2, dims, 0, FR_I64, &row, &err);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    st = fr_trace_iota(2, dims, 1, FR_I64, &column, &err);
    if (st != FR_OK) {
        fr_tensor_clear(&row);
        return fr_errors_raise(st, &err);
    }
    args[0].t = &row;
    args[1] = (struct fr_arg){.n = {.dtype = FR_I64, .weak = 'i', .v.i64 = k}};
    if (k) {
        st = fr_trace_map(FR_OP_add, args, 2, &moved, &err);
        fr_tensor_clear(&row);
        if (st == FR_OK)
            row = moved;
    }
    if (st == FR_OK) {
        struct fr_tensor truth;
        args[1].t = &column;
        st = fr_trace_map(op, args, 2, &truth, &err);
        fr_tensor_clear(&row);
        if (st == FR_OK)
            row = truth;
    }
    fr_tensor_clear(&column);
    return fr_type_result(st, &row, &err);
}

static PyObject *
as_dtype(PyObject *o, fr_dtype d, char order)
{
    PyObject *cast;

    if (!o || (d == FR_BOOL && order == 'C'))
        return o;
    cast = fr_creation_astype(fr_of(o), d, order);
    Py_DECREF(o);
    return cast;
}

static int
size_of(PyObject *o, int64_t dflt, int64_t *n)
{
    int64_t dims[FR_MAX_DIMS];
    int     ndim;

    *n = dflt;
    if (fr_args_none(o))
        return 0;
    if (fr_args_dims(o, false, &ndim, dims) < 0 || ndim != 1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "a size is one integer");
        return -1;
    }
    *n = dims[0];
    return 0;
}

/* Which diagonal is meant; beyond all that arrays have it is all the same. */
static int
diagonal_of(PyObject *o, int64_t *k)
{
    const int64_t farthest = INT64_C(1) << 61;
    int           beyond = 0;

    *k = 0;
    if (o && (*k = PyLong_AsLongLongAndOverflow(o, &beyond)) == -1 && PyErr_Occurred())
        return -1;
    if (beyond > 0 || *k > farthest)
        *k = farthest;
    else if (beyond < 0 || *k < -farthest)
        *k = -farthest;
    return 0;
}

static struct fr_signature eye_signature = {
    "eye", 1, 4, 7, {"N", "M", "k", "dtype", "order", "device", "like"}, {NULL}};

static PyObject *
triangle(fr_op op, const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[7];
    int64_t   rows, columns, k;
    fr_dtype  d;
    char      order;
    int       st;
    FR_ON_DEVICE fr_device before = fr_device_chosen();

    if (fr_args_parse(&eye_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (diagonal_of(s[2], &k) < 0)
        return NULL;
    if (size_of(s[0], 0, &rows) < 0 || size_of(s[1], rows, &columns) < 0 ||
        (st = wanted_dtype(s[3], FR_F64, &d)) == FR_VALUE_ERROR ||
        fr_args_order(s[4], "CF", 'C', &order) < 0 || fr_args_on_device(s[5]) < 0)
        return NULL;
    if (st == FR_VALUE_FALLBACK)
        return fr_fallback_name(name, args, nargs, kw);
    return as_dtype(compare_indices(op, rows, columns, k), d, order);
}

static PyObject *
eye(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return triangle(FR_OP_equal, "eye", args, nargs, kw);
}

static PyObject *
tri(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return triangle(FR_OP_greater_equal, "tri", args, nargs, kw);
}

static struct fr_signature identity_signature = {
    "identity", 1, 2, 3, {"n", "dtype", "like"}, {NULL}};

static PyObject *
identity(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3];
    int64_t   n;
    fr_dtype  d;
    int       st;

    (void)module;
    if (fr_args_parse(&identity_signature, args, nargs, kw, s) < 0 || size_of(s[0], 0, &n) < 0 ||
        (st = wanted_dtype(s[1], FR_F64, &d)) == FR_VALUE_ERROR)
        return NULL;
    if (st == FR_VALUE_FALLBACK)
        return fr_fallback_name("identity", args, nargs, kw);
    return as_dtype(compare_indices(FR_OP_equal, n, n, 0), d, 'C');
}

static struct fr_signature tril_signature = {"tril", 1, 2, 2, {"m", "k"}, {NULL}};

/* The elements on one side of a diagonal of the last two axes, zero elsewhere. */
static PyObject *
half(fr_args args, Py_ssize_t nargs, PyObject *kw, bool lower)
{
    PyObject         *s[2], *mask, *result = NULL;
    struct fr_value x;
    struct fr_arg     a[3];
    int64_t           k;
    int               st;

    if (fr_args_parse(&tril_signature, args, nargs, kw, s) < 0 || diagonal_of(s[1], &k) < 0)
        return NULL;
    st = fr_value_tensor(s[0], &x);
    if (st == FR_VALUE_ERROR)
        return NULL;
    if (st == FR_VALUE_FALLBACK || x.arg.t->layout->ndim < 2) {
        if (st == FR_VALUE_OK)
            fr_value_clear(&x);
        return fr_fallback_name(lower ? "tril" : "triu", args, nargs, kw);
    }
    const struct fr_layout *l = x.arg.t->layout;
    const int64_t          *dims = fr_layout_dims(l);
    FR_ON_DEVICE fr_device  before = fr_device_chosen();
    fr_device_follow(x.arg.t);
    mask = compare_indices(lower ? FR_OP_greater_equal : FR_OP_less_equal, dims[l->ndim - 2],
                           dims[l->ndim - 1], k);
    if (mask) {
        a[0].t = fr_of(mask);
        a[1].t = x.arg.t;
        a[2] = (struct fr_arg){.n = {.dtype = x.arg.t->dtype}};
        result = fr_number_trace(FR_OP_where, a, 3, 0);
        Py_DECREF(mask);
    }
    fr_value_clear(&x);
    return result;
}

static PyObject *
tril(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return half(args, nargs, kw, true);
}

static PyObject *
triu(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return half(args, nargs, kw, false);
}

#define BY_NUMPY(name, text) {#name, FR_FAST(name), #name "(...)\n--\n\n" text " As numpy." #name "."}

PyMethodDef fr_fill_methods[] = {
    {"zeros", FR_FAST(new_zeros),
     "zeros(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\n"
     "Zeros of a shape, an int or a tuple of them. ValueError for negative or too large sizes, TypeError for a dtype or\n"
     "shape that is none. A dtype that tensors do not have gives NumPy's array. device: where it is made."},
    {"ones", FR_FAST(new_ones),
     "ones(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\nOnes of a shape; see zeros."},
    {"empty", FR_FAST(new_empty),
     "empty(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\n"
     "A tensor of a shape whose values are not defined until they are assigned; see zeros."},
    {"zeros_like", FR_FAST(like_zeros),
     "zeros_like(a, dtype=None, order='K', subok=True, shape=None, *, device=None)\n--\n\n"
     "Zeros with the shape, dtype and axis order of a."},
    {"ones_like", FR_FAST(like_ones),
     "ones_like(a, dtype=None, order='K', subok=True, shape=None, *, device=None)\n--\n\n"
     "Ones with the shape, dtype and axis order of a."},
    {"empty_like", FR_FAST(like_empty),
     "empty_like(a, dtype=None, order='K', subok=True, shape=None, *, device=None)\n--\n\n"
     "A tensor without defined values, with the shape, dtype and axis order of a."},
    {"full", FR_FAST(full),
     "full(shape, fill_value, dtype=None, order='C', *, device=None, like=None)\n--\n\n"
     "A shape filled with a number, or with an array that broadcasts to it (ValueError where it does not). dtype:\n"
     "that of fill_value."},
    {"full_like", FR_FAST(full_like),
     "full_like(a, fill_value, dtype=None, order='K', subok=True, shape=None, *, device=None)\n"
     "--\n\nfull with the shape, dtype and axis order of a."},
    {"arange", FR_FAST(arange),
     "arange(start, stop=None, step=1, dtype=None, *, device=None, like=None)\n--\n\n"
     "Numbers from start to before stop on one axis, NumPy's bits; int64 for integers, else float64.\n"
     "ZeroDivisionError for a step of 0, ValueError for too many numbers."},
    {"eye", FR_FAST(eye),
     "eye(N, M=None, k=0, dtype=float64, order='C', *, device=None, like=None)\n--\n\n"
     "N rows and M columns with ones on the k-th diagonal."},
    {"tri", FR_FAST(tri),
     "tri(N, M=None, k=0, dtype=float64, *, like=None)\n--\n\nOnes at and below the k-th diagonal."},
    {"identity", FR_FAST(identity),
     "identity(n, dtype=float64, *, like=None)\n--\n\nThe square eye."},
    {"tril", FR_FAST(tril),
     "tril(m, k=0)\n--\n\nThe last two axes with zeros above the k-th diagonal."},
    {"triu", FR_FAST(triu),
     "triu(m, k=0)\n--\n\nThe last two axes with zeros below the k-th diagonal."},
    BY_NUMPY(linspace, "Evenly spaced numbers over an interval."),
    BY_NUMPY(logspace, "Numbers evenly spaced on a logarithmic scale."),
    BY_NUMPY(geomspace, "A geometric progression."),
    BY_NUMPY(frombuffer, "A buffer's bytes as an array."),
    BY_NUMPY(fromfile, "An array read from a file."),
    BY_NUMPY(fromiter, "An array of what an iterable gives."),
    BY_NUMPY(fromfunction, "A function called over index arrays."),
    BY_NUMPY(fromstring, "An array parsed from text."),
    BY_NUMPY(indices, "The index of each element, per axis."),
    BY_NUMPY(vander, "A Vandermonde matrix."),
    BY_NUMPY(loadtxt, "An array read from a text file."),
    BY_NUMPY(hamming, "The Hamming window."),
    BY_NUMPY(hanning, "The Hann window."),
    BY_NUMPY(bartlett, "The Bartlett window."),
    BY_NUMPY(blackman, "The Blackman window."),
    BY_NUMPY(kaiser, "The Kaiser window."),
    {NULL, NULL, 0, NULL},
};
