/* bind/creation.c -- new tensors: from Python and NumPy objects, filled, counted, triangular. */
#include <math.h>
#include <string.h>

#include "bind/bind.h"

/* ---- from other objects */

static PyObject *
cast_of(const struct fr_tensor *t, fr_dtype d, char order)
{
    struct fr_tensor out, turned;
    struct fr_err    err;
    fr_status        st;
    PyObject        *o, *result;

    FR_TRACE_HERE();
    if (order == 'A')
        order = t->layout->f_contig && !t->layout->c_contig ? 'F' : 'C';
    if (order != 'F') {
        st = fr_trace_cast(t, d, order, &out, &err);
        return fr_type_result(st, &out, &err);
    }
    /* Column order: row order of the transpose. */
    o = fr_shape_transpose(t, NULL);
    if (!o)
        return NULL;
    st = fr_trace_cast(fr_of(o), d, 'C', &turned, &err);
    Py_DECREF(o);
    if (st != FR_OK)
        return fr_errors_raise(st, &err);
    result = fr_shape_transpose(&turned, NULL);
    fr_tensor_clear(&turned);
    return result;
}

PyObject *
fr_creation_astype(const struct fr_tensor *t, fr_dtype d, char order)
{
    return cast_of(t, d, order);
}

static PyObject *
no_copy(void)
{
    PyErr_SetString(PyExc_ValueError, "Unable to avoid copy while creating an array as requested.");
    return NULL;
}

static bool
has_order(const struct fr_layout *l, char order)
{
    return order == 'C' ? l->c_contig : order == 'F' ? l->f_contig : true;
}

/* copy: -1 as needed, 0 never, 1 always. */
static PyObject *
from_tensor(PyObject *o, fr_dtype d, char order, int copy)
{
    const struct fr_tensor *t = fr_of(o);

    if (d == FR_N_DTYPES)
        d = t->dtype;
    if (copy <= 0 && d == t->dtype && has_order(t->layout, order) && !fr_object(o)->scalar)
        return Py_NewRef(o);
    if (copy == 0)
        return no_copy();
    return cast_of(t, d, order);
}

/* The exception that is set says that only NumPy has the dtype: see `behind_numpy` below. */
static bool only_numpy;

static int
unknown_dtype(PyObject *dtype)
{
    only_numpy = true;
    PyErr_Format(PyExc_TypeError, "frit has no dtype %R", dtype);
    return -1;
}

/* Types without a tensor dtype are named in the message. */
static PyObject *
no_such_dtype(PyObject *array)
{
    PyObject *dtype = PyObject_GetAttrString(array, "dtype");

    only_numpy = true;
    PyErr_Format(PyExc_TypeError,
                 "frit has no dtype %R: bool, int8 to int64, uint8 to uint64, float16, float32, "
                 "float64, complex64 and complex128 in native byte order",
                 dtype ? dtype : Py_None);
    Py_XDECREF(dtype);
    return NULL;
}

static PyObject *
from_array(PyObject *array, fr_dtype d, char order, int copy, bool fresh)
{
    fr_dtype         from = fr_numpy_array_dtype(array);
    struct fr_tensor t;
    PyObject        *o, *cast;

    if (from == FR_N_DTYPES)
        return no_such_dtype(array);
    if (copy == 0) {
        if (d != FR_N_DTYPES && d != from)
            return no_copy();
        o = fr_share(NULL, array);
        if (o) { /* both sides may write at any time from now on */
            struct fr_err err;
            void         *data;
            fr_status     st = fr_tensor_export(fr_of(o), &data, &err);
            if (st != FR_OK) {
                Py_DECREF(o);
                return fr_errors_raise(st, &err);
            }
        }
        if (o && !has_order(fr_of(o)->layout, order)) {
            Py_DECREF(o);
            return no_copy();
        }
        return o;
    }
    o = NULL;
    if (fresh) { /* made by this call: its memory becomes the tensor's */
        o = fr_numpy_wrap(array);
        if (o && !fr_is_tensor(o))
            Py_CLEAR(o);
        if (PyErr_Occurred())
            return NULL;
    }
    if (!o) {
        int st = fr_numpy_copy(array, &t);
        if (st == FR_VALUE_HAND)
            return no_such_dtype(array);
        if (st != FR_VALUE_OK || !(o = fr_type_take(&t)))
            return NULL;
    }
    if ((d == FR_N_DTYPES || d == from) && has_order(fr_of(o)->layout, order))
        return o;
    cast = cast_of(fr_of(o), d == FR_N_DTYPES ? from : d, order);
    Py_DECREF(o);
    return cast;
}

/* True if a tensor stands somewhere in nested lists: then they are evaluated together. */
static bool
holds_tensor(PyObject *o, int depth)
{
    if (fr_is_tensor(o))
        return true;
    if (depth > 8 || !(PyList_CheckExact(o) || PyTuple_CheckExact(o)))
        return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++)
        if (holds_tensor(PySequence_Fast_GET_ITEM(o, i), depth + 1))
            return true;
    return false;
}

/* np.asarray(o, dtype) of something that is no array yet. */
static PyObject *
from_other(PyObject *o, PyObject *dtype, fr_dtype d, char order, int copy)
{
    PyObject *array, *result, *func;

    if (copy == 0 && !PyObject_CheckBuffer(o) && !PyObject_HasAttrString(o, "__array__"))
        return no_copy();
    if (holds_tensor(o, 0)) {
        PyObject *args[2] = {o, dtype ? dtype : Py_None};
        array = fr_hand_name("asarray", args, 2, NULL);
        if (!array || fr_is_tensor(array))
            return array;
    } else if (fr_args_none(dtype)) {
        array = fr_numpy_from_any(o);
    } else {
        func = fr_numpy_attr("asarray");
        array = func ? PyObject_CallFunctionObjArgs(func, o, dtype, NULL) : NULL;
        Py_XDECREF(func);
    }
    if (!array)
        return NULL;
    result = from_array(array, d, order, copy, true);
    Py_DECREF(array);
    return result;
}

static PyObject *
from_any(PyObject *o, PyObject *dtype, char order, int copy)
{
    fr_dtype d;
    int      known = fr_numpy_to_dtype(dtype, FR_N_DTYPES, &d);

    if (known < 0)
        return NULL;
    if (!known) {
        unknown_dtype(dtype);
        return NULL;
    }
    if (fr_is_tensor(o))
        return from_tensor(o, d, order, copy);
    if (!fr_numpy_is_array(o))
        return from_other(o, dtype, d, order, copy);
    if (fr_numpy_array_dtype(o) == FR_N_DTYPES && d != FR_N_DTYPES && copy != 0)
        return from_other(o, dtype, d, order, copy);
    return from_array(o, d, order, copy, false);
}

/* copy=None, True or False. */
static int
copy_of(PyObject *o, int dflt)
{
    return !o ? dflt : o == Py_None ? -1 : PyObject_IsTrue(o);
}

static int
no_like(PyObject *like)
{
    if (fr_args_none(like) || fr_is_tensor(like) || fr_numpy_is_array(like))
        return 0;
    PyErr_SetString(PyExc_TypeError, "The `like` argument must be a tensor or an ndarray");
    return -1;
}

static struct fr_signature asarray_signature = {
    "asarray", 1, 3, 6, {"a", "dtype", "order", "device", "copy", "like"}, {NULL}};

static PyObject *
asarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[6];
    char      order;

    (void)module;
    if (fr_args_parse(&asarray_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[2], "CFAK", 'K', &order) < 0 || fr_args_device(s[3]) < 0 ||
        no_like(s[5]) < 0)
        return NULL;
    return from_any(s[0], s[1], order, copy_of(s[4], -1));
}

static PyObject *
ascontiguous(fr_args args, Py_ssize_t nargs, PyObject *kw, char order)
{
    PyObject *s[6];

    PyObject *o;

    if (fr_args_parse(&asarray_signature, args, nargs, kw, s) < 0)
        return NULL;
    o = from_any(s[0], s[1], order, -1);
    if (o && fr_is_tensor(o) && fr_of(o)->layout->ndim == 0)
        Py_SETREF(o, fr_shape_expand(fr_of(o), 1, 1)); /* they promise at least one axis */
    return o;
}

static PyObject *
ascontiguousarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return ascontiguous(args, nargs, kw, 'C');
}

static PyObject *
asfortranarray(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return ascontiguous(args, nargs, kw, 'F');
}

static struct fr_signature array_signature = {
    "array", 1, 2, 7, {"object", "dtype", "copy", "order", "subok", "ndmin", "like"}, {NULL}};

static PyObject *
array(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[7], *o;
    char      order;
    long      ndmin = 0;

    (void)module;
    if (fr_args_parse(&array_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[3], "CFAK", 'K', &order) < 0 || no_like(s[6]) < 0)
        return NULL;
    if (s[5] && (ndmin = PyLong_AsLong(s[5])) == -1 && PyErr_Occurred())
        return NULL;
    o = from_any(s[0], s[1], order, copy_of(s[2], 1));
    if (o && fr_of(o)->layout->ndim < ndmin && ndmin <= FR_MAX_DIMS)
        Py_SETREF(o, fr_shape_expand(fr_of(o), (1u << (ndmin - fr_of(o)->layout->ndim)) - 1,
                                     (int)ndmin));
    return o;
}

static struct fr_signature copy_signature = {"copy", 1, 3, 3, {"a", "order", "subok"}, {NULL}};

static PyObject *
copy(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3];
    char      order;

    (void)module;
    if (fr_args_parse(&copy_signature, args, nargs, kw, s) < 0 ||
        fr_args_order(s[1], "CFAK", 'K', &order) < 0)
        return NULL;
    return from_any(s[0], NULL, order, 1);
}

/* ---- filled with one number */

/* A tensor without defined values; order 'C' or 'F', or the axes of `like`. */
static fr_status
make_empty(int ndim, const int64_t *dims, fr_dtype d, char order, const struct fr_layout *like,
           struct fr_tensor *out, struct fr_err *err)
{
    int64_t        strides[FR_MAX_DIMS], step = 1, n;
    const int64_t *from = like ? fr_layout_strides(like) : NULL;
    fr_status      st = fr_dims_count(ndim, dims, fr_dtype_size(d), &n, err);

    if (st != FR_OK)
        return st;
    if (like) {
        fr_strides_keep_order(ndim, dims, 1, &from, strides);
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

/* dtype= of a creation function. */
static int
wanted_dtype(PyObject *o, fr_dtype dflt, fr_dtype *d)
{
    int known = fr_numpy_to_dtype(o, dflt, d);

    return known > 0 ? 0 : known < 0 ? -1 : unknown_dtype(o);
}

static PyObject *
new_filled(fr_args args, Py_ssize_t nargs, PyObject *kw, const struct fr_number *n)
{
    PyObject *s[5];
    int64_t   dims[FR_MAX_DIMS];
    int       ndim;
    fr_dtype  d;
    char      order;

    if (fr_args_parse(&new_signature, args, nargs, kw, s) < 0 ||
        fr_args_dims(s[0], false, &ndim, dims) < 0 || wanted_dtype(s[1], FR_F64, &d) < 0 ||
        fr_args_order(s[2], "CF", 'C', &order) < 0 || fr_args_device(s[3]) < 0 || no_like(s[4]) < 0)
        return NULL;
    return filled(ndim, dims, d, order, NULL, n);
}

static const struct fr_number zero = {.dtype = FR_I64, .weak = 'i', .v.i64 = 0};
static const struct fr_number one = {.dtype = FR_I64, .weak = 'i', .v.i64 = 1};

static struct fr_signature like_signature = {
    "zeros_like", 1, 5, 6, {"a", "dtype", "order", "subok", "shape", "device"}, {NULL}};

static PyObject *
like_filled(PyObject *const *s, const struct fr_number *n, PyObject *value)
{
    struct fr_value       x;
    const struct fr_tensor *t;
    const struct fr_layout *like = NULL;
    int64_t                 dims[FR_MAX_DIMS];
    int                     ndim, st;
    fr_dtype                d;
    char                    order;
    struct fr_number        number;
    PyObject               *result = NULL;

    if (fr_args_order(s[2], "CFAK", 'K', &order) < 0 || fr_args_device(s[5]) < 0)
        return NULL;
    st = fr_value_tensor(s[0], &x);
    if (st == FR_VALUE_HAND)
        unknown_dtype(s[0]);
    if (st != FR_VALUE_OK)
        return NULL;
    t = x.arg.t;
    if (wanted_dtype(s[1], t->dtype, &d) < 0)
        goto out;
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
    if (value) {
        if (fr_is_tensor(value) || fr_numpy_is_array(value) || PyList_Check(value) ||
            PyTuple_Check(value)) {
            result = filled(ndim, dims, d, order, like, NULL);
            if (result && fr_index_assign(fr_of(result), value) < 0)
                Py_CLEAR(result);
            goto out;
        }
        if (fr_value_store(value, d, &number) != FR_VALUE_OK)
            goto out;
        n = &number;
    }
    result = filled(ndim, dims, d, order, like, n);
out:
    fr_value_clear(&x);
    return result;
}

#define NEW(name, number)                                                                          \
    static PyObject *new_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)    \
    {                                                                                              \
        (void)module;                                                                              \
        return new_filled(args, nargs, kw, number);                                                \
    }                                                                                              \
    static PyObject *like_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)   \
    {                                                                                              \
        PyObject *s[6];                                                                            \
        (void)module;                                                                              \
        return fr_args_parse(&like_signature, args, nargs, kw, s) < 0 ? NULL                       \
                                                                      : like_filled(s, number,     \
                                                                                    NULL);         \
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
    int               ndim, st;
    fr_dtype          d;
    char              order;
    struct fr_number  n;

    (void)module;
    if (fr_args_parse(&full_signature, args, nargs, kw, s) < 0 ||
        fr_args_dims(s[0], false, &ndim, dims) < 0 ||
        fr_args_order(s[3], "CF", 'C', &order) < 0 || fr_args_device(s[4]) < 0)
        return NULL;
    st = fr_value_get(s[1], false, &x);
    if (st == FR_VALUE_ERROR)
        return NULL;
    d = st != FR_VALUE_OK ? FR_F64 : x.arg.t ? x.arg.t->dtype : x.arg.n.dtype;
    if (st == FR_VALUE_OK && !x.arg.t && x.arg.n.huge) { /* beyond int64: uint64, or an object */
        d = FR_U64;
        if (x.arg.n.negative || (PyLong_AsUnsignedLongLong(s[1]), PyErr_Occurred()))
            st = FR_VALUE_HAND;
        PyErr_Clear();
    }
    if (wanted_dtype(s[2], d, &d) < 0) {
        result = NULL;
    } else if (st == FR_VALUE_HAND && fr_args_none(s[2])) {
        only_numpy = true;
        PyErr_SetString(PyExc_TypeError, "full() takes numbers and arrays of numbers");
        result = NULL;
    } else if (st == FR_VALUE_OK && x.arg.t) {
        result = filled(ndim, dims, d, order, NULL, NULL);
        if (result && fr_index_assign(fr_of(result), s[1]) < 0)
            Py_CLEAR(result);
    } else {
        result = fr_value_store(s[1], d, &n) == FR_VALUE_OK
                     ? filled(ndim, dims, d, order, NULL, &n)
                     : NULL;
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
    PyObject *s[7];

    (void)module;
    if (fr_args_parse(&full_like_signature, args, nargs, kw, s) < 0)
        return NULL;
    return like_filled((PyObject *[]){s[0], s[2], s[3], s[4], s[5], s[6]}, NULL, s[1]);
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
        scaled = fr_number_trace(FR_OP_multiply, args, 2);
        Py_SETREF(o, scaled);
    }
    args[1].n.v.f64 = start;
    if (o && start != 0) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_add, args, 2);
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
        scaled = fr_number_trace(FR_OP_multiply, args, 2);
        Py_SETREF(o, scaled);
    }
    args[1].n.v.i64 = start;
    if (o && start != 0) {
        args[0].t = fr_of(o);
        scaled = fr_number_trace(FR_OP_add, args, 2);
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

    for (Py_ssize_t i = 0; i < nargs + (kw ? PyTuple_GET_SIZE(kw) : 0); i++)
        if (holds_tensor(args[i], 0)) {
            Py_XDECREF(func);
            return fr_hand_name(name, args, nargs, kw);
        }
    raw = func ? PyObject_Vectorcall(func, args, (size_t)nargs, kw) : NULL;
    Py_XDECREF(func);
    if (!raw)
        return NULL;
    result = PyTuple_Check(raw) || !fr_numpy_is_array(raw) ? Py_NewRef(raw) : fr_numpy_wrap(raw);
    Py_DECREF(raw);
    return result;
}

static struct fr_signature arange_signature = {
    "arange", 1, 4, 6, {"start", "stop", "step", "dtype", "device", "like"}, {NULL}};

static PyObject *
arange(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[6], *result, *all[4];
    fr_dtype  d;

    (void)module;
    if (nargs == 0) /* arange(stop=3) */
        return adopted_call("arange", args, nargs, kw);
    if (fr_args_parse(&arange_signature, args, nargs, kw, s) < 0 ||
        wanted_dtype(s[3], FR_N_DTYPES, &d) < 0 || fr_args_device(s[4]) < 0 || no_like(s[5]) < 0)
        return NULL;
    if (plain_range(s, d, &result))
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
    cast = cast_of(fr_of(o), d, order);
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

static struct fr_signature eye_signature = {
    "eye", 1, 4, 7, {"N", "M", "k", "dtype", "order", "device", "like"}, {NULL}};

static PyObject *
triangle(fr_op op, struct fr_signature *signature, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[7];
    int64_t   rows, columns, k = 0;
    fr_dtype  d;
    char      order;

    if (fr_args_parse(signature, args, nargs, kw, s) < 0)
        return NULL;
    if (s[2] && (k = PyLong_AsLongLong(s[2])) == -1 && PyErr_Occurred())
        return NULL;
    if (size_of(s[0], 0, &rows) < 0 || size_of(s[1], rows, &columns) < 0 ||
        wanted_dtype(s[3], FR_F64, &d) < 0 || fr_args_order(s[4], "CF", 'C', &order) < 0 ||
        fr_args_device(s[5]) < 0)
        return NULL;
    return as_dtype(compare_indices(op, rows, columns, k), d, order);
}

static PyObject *
eye(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return triangle(FR_OP_equal, &eye_signature, args, nargs, kw);
}

static PyObject *
tri(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return triangle(FR_OP_greater_equal, &eye_signature, args, nargs, kw);
}

static struct fr_signature identity_signature = {
    "identity", 1, 2, 3, {"n", "dtype", "like"}, {NULL}};

static PyObject *
identity(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[3];
    int64_t   n;
    fr_dtype  d;

    (void)module;
    if (fr_args_parse(&identity_signature, args, nargs, kw, s) < 0 || size_of(s[0], 0, &n) < 0 ||
        wanted_dtype(s[1], FR_F64, &d) < 0)
        return NULL;
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
    int64_t           k = 0;
    int               st;

    if (fr_args_parse(&tril_signature, args, nargs, kw, s) < 0 ||
        (s[1] && (k = PyLong_AsLongLong(s[1])) == -1 && PyErr_Occurred()))
        return NULL;
    st = fr_value_tensor(s[0], &x);
    if (st == FR_VALUE_ERROR)
        return NULL;
    if (st == FR_VALUE_HAND || x.arg.t->layout->ndim < 2) {
        if (st == FR_VALUE_OK)
            fr_value_clear(&x);
        return fr_hand_name(lower ? "tril" : "triu", args, nargs, kw);
    }
    const struct fr_layout *l = x.arg.t->layout;
    const int64_t          *dims = fr_layout_dims(l);
    mask = compare_indices(lower ? FR_OP_greater_equal : FR_OP_less_equal, dims[l->ndim - 2],
                           dims[l->ndim - 1], k);
    if (mask) {
        a[0].t = fr_of(mask);
        a[1].t = x.arg.t;
        a[2] = (struct fr_arg){.n = {.dtype = x.arg.t->dtype}};
        result = fr_number_trace(FR_OP_where, a, 3);
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

/* ---- behind NumPy's names. Where somebody wrote np.array(["a"]), the answer is NumPy's array, whereas
 * frit.array(["a"]) is a TypeError. Each of these functions is a pair (name, the strict one). */

static PyObject *
behind_numpy(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *result;

    only_numpy = false;
    result = PyObject_Vectorcall(PyTuple_GET_ITEM(self, 1), args, (size_t)nargs, kw);
    if (result || !only_numpy || !PyErr_ExceptionMatches(PyExc_TypeError))
        return result;
    PyErr_Clear();
    return fr_hand_name(PyUnicode_AsUTF8(PyTuple_GET_ITEM(self, 0)), args, nargs, kw);
}

static PyMethodDef behind_numpy_method = {"behind_numpy", FR_FAST(behind_numpy), NULL};

PyObject *
fr_creation_behind_numpy(PyObject *module)
{
    PyObject *dict = PyDict_New();

    for (const PyMethodDef *m = fr_creation_methods; dict && m->ml_name; m++) {
        PyObject *strict, *pair = NULL, *f = NULL;
        if (m->ml_name[0] == '_')
            continue;
        strict = PyObject_GetAttrString(module, m->ml_name);
        pair = strict ? Py_BuildValue("sN", m->ml_name, strict) : NULL;
        f = pair ? PyCFunction_NewEx(&behind_numpy_method, pair, NULL) : NULL;
        Py_XDECREF(pair);
        if (!f || PyDict_SetItemString(dict, m->ml_name, f) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(f);
    }
    return dict;
}

/* Pickles and copies come back through here. */
static PyObject *
restore(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *o;

    (void)module;
    if (nargs != 2 || !fr_numpy_is_array(args[0])) {
        PyErr_SetString(PyExc_TypeError, "_restore() takes an ndarray and a bool");
        return NULL;
    }
    o = from_array(args[0], FR_N_DTYPES, 'K', 1, false);
    if (o)
        fr_object(o)->scalar = args[1] == Py_True;
    return o;
}

#define BY_NUMPY(name, text) {#name, FR_FAST(name), #name "(...)\n--\n\n" text " As numpy." #name "."}

PyMethodDef fr_creation_methods[] = {
    {"asarray", FR_FAST(asarray),
     "asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None)\n--\n\n"
     "A tensor of an ndarray, a number, nested lists or anything with __array__ or a buffer. An\n"
     "ndarray is copied, or with copy=False its memory is shared: writes go both ways. A tensor of\n"
     "the dtype wanted is returned itself.\n"
     "Raises TypeError for dtypes that frit does not have (objects, strings, foreign byte order),\n"
     "ValueError for copy=False where a copy is needed and for ragged lists."},
    {"asanyarray", FR_FAST(asarray), "asanyarray(a, dtype=None, ...)\n--\n\nAs asarray."},
    {"ascontiguousarray", FR_FAST(ascontiguousarray),
     "ascontiguousarray(a, dtype=None)\n--\n\nasarray in row order."},
    {"asfortranarray", FR_FAST(asfortranarray),
     "asfortranarray(a, dtype=None)\n--\n\nasarray in column order."},
    {"array", FR_FAST(array),
     "array(object, dtype=None, *, copy=True, order='K', subok=False, ndmin=0, like=None)\n--\n\n"
     "A new tensor with the object's values; see asarray."},
    {"copy", FR_FAST(copy),
     "copy(a, order='K', subok=False)\n--\n\nA new tensor with the same values."},
    {"zeros", FR_FAST(new_zeros),
     "zeros(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\n"
     "Zeros of a shape. ValueError for negative or too large sizes."},
    {"ones", FR_FAST(new_ones),
     "ones(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\nOnes of a shape."},
    {"empty", FR_FAST(new_empty),
     "empty(shape, dtype=float64, order='C', *, device=None, like=None)\n--\n\n"
     "A tensor whose values are not defined until they are assigned."},
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
     "A shape filled with a number, or with an array that broadcasts to it."},
    {"full_like", FR_FAST(full_like),
     "full_like(a, fill_value, dtype=None, order='K', subok=True, shape=None, *, device=None)\n"
     "--\n\nfull with the shape, dtype and axis order of a."},
    {"arange", FR_FAST(arange),
     "arange(start, stop=None, step=1, dtype=None, *, device=None, like=None)\n--\n\n"
     "Numbers from start to before stop; int64 for integers, else float64."},
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
    {"_restore", (PyCFunction)(void (*)(void))restore, METH_FASTCALL,
     "_restore(array, scalar, /)\n--\n\nA Tensor from its pickle."},
    {NULL, NULL, 0, NULL},
};
