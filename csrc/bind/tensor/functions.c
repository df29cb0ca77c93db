/* bind/tensor/functions.c -- the element-by-element functions: one per OP row of ir/ops.def, made from the
 * table, and those that are a few operations together (round, divmod, modf).
 *
 * The plain call f(x) or f(x, y) goes straight to the trace; keywords take the longer way. */
#include <math.h>
#include <string.h>

#include "backends/host.h"
#include "base/fpe.h"
#include "bind/base/errstate.h"
#include "bind/numpy/npy.h"
#include "bind/tensor/tensor.h"
#include "ir/node.h"
#include "runtime/judge.h"

/* What a ufunc may be told besides its operands. */
struct options {
    PyObject *out, *where, *dtype;    /* NULL: not given */
    bool      fallback;               /* something that only NumPy handles */
    bool      unsafe;                 /* casting */
    bool      array;                  /* out=...: an array, also where the result has no axes */
    uint32_t  how;                    /* for the operation's site */
};

static int
read_options(const char *name, fr_args values, PyObject *kwnames, struct options *o)
{
    Py_ssize_t n = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
        if (!key)
            return -1;
        if (!strcmp(key, "out")) {
            o->array = values[i] == Py_Ellipsis;
            o->out = values[i] == Py_None || o->array ? NULL : values[i];
        } else if (!strcmp(key, "where"))
            o->where = values[i] == Py_True || values[i] == fr_no_value ? NULL : values[i];
        else if (!strcmp(key, "dtype"))
            o->dtype = values[i] == Py_None ? NULL : values[i];
        else if (!strcmp(key, "casting"))
            o->fallback |= !fr_args_casting(values[i], &o->unsafe);
        else if (!strcmp(key, "order"))
            o->fallback |= !PyUnicode_Check(values[i]) ||
                       PyUnicode_CompareWithASCIIString(values[i], "K") != 0;
        else if (!strcmp(key, "signature") || !strcmp(key, "sig"))
            o->fallback = true;
        else if (strcmp(key, "subok") != 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%s'", name, key);
            return -1;
        }
    }
    if (o->out && PyTuple_CheckExact(o->out) && PyTuple_GET_SIZE(o->out) == 1)
        o->out = PyTuple_GET_ITEM(o->out, 0) == Py_None ? NULL : PyTuple_GET_ITEM(o->out, 0);
    if (o->out && !fr_is_tensor(o->out))
        o->fallback = true;
    return o->out ? fr_args_out(o->out) : 0;
}

/* Whether unsafe casting is none: a float, or a complex number, takes whatever the operands make together. */
static bool
is_safe(const struct fr_arg *args, int n, const struct fr_tensor *out)
{
    bool safe = out && out->dtype >= FR_F16;

    for (int i = 0; i < n; i++)
        safe &= fr_dtype_same_kind(args[i].t ? args[i].t->dtype : args[i].n.dtype, out ? out->dtype : FR_F64);
    return safe;
}

static bool
same_dims(const struct fr_layout *a, const struct fr_layout *b)
{
    return a->ndim == b->ndim &&
           !memcmp(fr_layout_dims(a), fr_layout_dims(b), a->ndim * sizeof(int64_t));
}

/* "dtype('float64')", as NumPy writes it in messages. */
static const char *
dtype_text(fr_dtype d, char *buf, size_t cap)
{
    static const char *const kinds[] = {['i'] = "int", ['u'] = "uint", ['f'] = "float",
                                        ['c'] = "complex"};

    if (d == FR_BOOL)
        return "dtype('bool')";
    snprintf(buf, cap, "dtype('%s%d')", kinds[(int)fr_dtype_kind(d)], 8 * fr_dtype_size(d));
    return buf;
}

/* dst = value where mask is true (everywhere if mask is NULL), with the checks of a ufunc's out=. */
static fr_status
store_result(const char *name, const struct fr_tensor *value, const struct fr_tensor *mask,
             const struct fr_tensor *dst, struct fr_err *err)
{
    struct fr_tensor cast = {.storage = NULL}, merged = {.storage = NULL};
    struct fr_arg    arg = {.t = value}, args[3] = {{.t = mask}, {.t = &cast}, {.t = dst}};
    fr_status        st = FR_OK;
    char             a[128], b[128];

    if (dst->readonly)
        return fr_fail(err, FR_EVALUE, "output array is read-only");
    if (!fr_dtype_same_kind(value->dtype, dst->dtype))
        return fr_fail(err, FR_EUFUNC, "Cannot cast ufunc '%s' output from %s to %s with casting "
                       "rule 'same_kind'", name, dtype_text(value->dtype, a, sizeof a),
                       dtype_text(dst->dtype, b, sizeof b));
    if (mask) {
        TRY(fr_trace_cast(value, dst->dtype, 'K', &cast, err));
        TRY(fr_trace_map(FR_OP_where, args, 3, &merged, err));
        arg.t = &merged;
    }
    if (!same_dims(arg.t->layout, dst->layout)) {
        const struct fr_layout *l = arg.t->layout, *d = dst->layout;
        int                     n;
        int64_t                 dims[FR_MAX_DIMS];
        /* A result of fewer elements is spread over out; one of more does not fit. */
        st = fr_dims_broadcast(l->ndim, fr_layout_dims(l), d->ndim, fr_layout_dims(d), &n, dims,
                               name, err);
        if (st != FR_OK || n != d->ndim ||
            memcmp(dims, fr_layout_dims(d), (size_t)n * sizeof *dims) != 0) {
            st = fr_fail(err, FR_EVALUE, "non-broadcastable output operand with shape %s doesn't "
                         "match the broadcast shape %s",
                         fr_dims_print(d->ndim, fr_layout_dims(d), a, sizeof a),
                         fr_dims_print(l->ndim, fr_layout_dims(l), b, sizeof b));
            goto out;
        }
    }
    TRY(fr_trace_store(dst, &arg, err));
out:
    if (cast.storage)
        fr_tensor_clear(&cast);
    if (merged.storage)
        fr_tensor_clear(&merged);
    return st;
}

/* Whether an array of these dimensions broadcasts to the result's. */
static bool
covers(const struct fr_layout *mask, const struct fr_layout *result)
{
    int     n;
    int64_t dims[FR_MAX_DIMS];

    return fr_dims_broadcast(mask->ndim, fr_layout_dims(mask), result->ndim,
                             fr_layout_dims(result), &n, dims, "where", NULL) == FR_OK &&
           n == result->ndim && !memcmp(dims, fr_layout_dims(result), (size_t)n * sizeof *dims);
}

/* The operation with options, its operands ready. FALLBACK when NumPy has to do it. */
static int
trace_options(fr_op op, const struct fr_arg *args, int n, const struct options *o,
              PyObject **result)
{
    struct fr_value mask = {.own.storage = NULL};
    struct fr_tensor  t = {.storage = NULL};
    struct fr_err     err;
    fr_status         fst;
    fr_dtype          d = FR_N_DTYPES;
    bool              in_dtype = o->dtype != NULL;
    int               st = FR_VALUE_OK;

    *result = NULL;
    FR_TRACE_HERE();
    if ((o->where && !o->out) || ((o->where || o->dtype) && fr_trace_at_once))
        return FR_VALUE_FALLBACK; /* NumPy has a word for it, or for what is computed there only, or what it converts when */
    if (o->out && fr_of(o->out)->readonly) { /* before any word on dtypes, as NumPy has it */
        PyErr_SetString(PyExc_ValueError, "output array is read-only");
        return FR_VALUE_ERROR;
    }
    if (o->dtype) {
        st = fr_numpy_to_dtype(o->dtype, d, &d);
        if (st <= 0)
            return st < 0 ? FR_VALUE_ERROR : FR_VALUE_FALLBACK;
        /* dtype= means the result. Where it does not name the loop, only one is right. */
        switch (fr_op_info[op].rule) {
        case FR_RULE_TRUTH:
        case FR_RULE_COUNT:
            if (d != fr_op_result(op, FR_F64))
                return FR_VALUE_FALLBACK;
            in_dtype = false;
            break;
        case FR_RULE_COMPONENT:
        case FR_RULE_LDEXP: return FR_VALUE_FALLBACK;
        default: break;
        }
    }
    if (o->where) {
        st = fr_value_tensor(o->where, &mask);
        if (st == FR_VALUE_OK && mask.arg.t->dtype != FR_BOOL)
            st = FR_VALUE_FALLBACK; /* NumPy has the words for it */
        if (st != FR_VALUE_OK)
            goto out;
    } else {
        st = FR_VALUE_OK;
    }
    FR_TRACE_HERE();
    fr_trace_site |= o->how | (o->where ? FR_SITE_MASKED : 0);
    if (o->out && !o->where && !in_dtype) {
        fst = fr_trace_map_into(op, args, n, fr_of(o->out), &err);
    } else {
        fst = in_dtype ? fr_trace_map_dtype(op, args, n, d, &t, &err)
                       : fr_trace_map(op, args, n, &t, &err);
        if (fst == FR_OK && o->out)
            fst = store_result(fr_op_info[op].name, &t, o->where ? mask.arg.t : NULL,
                               fr_of(o->out), &err);
    }
    if (st == FR_VALUE_OK && fst != FR_OK) {
        fr_namesake_refuse(fst, &err, op, args, n, o->out ? fr_of(o->out) : NULL, o->dtype);
    } else if (st == FR_VALUE_OK && o->out) {
        *result = Py_NewRef(o->out);
    } else if (st == FR_VALUE_OK) {
        *result = o->array ? fr_type_result(fst, &t, &err) : fr_type_result_scalar(fst, &t, &err);
        t.storage = NULL;
    }
out:
    if (t.storage)
        fr_tensor_clear(&t);
    fr_value_clear(&mask);
    return st == FR_VALUE_OK && !*result ? FR_VALUE_ERROR : st;
}

static PyObject *
map_options(fr_op op, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int               n = fr_op_info[op].arity, st, n_args = n;
    struct fr_value x[3];
    struct fr_arg     a[3];
    struct options    o = {.how = FR_SITE_UFUNC};
    PyObject         *result = NULL;
    fr_op             as = op;

    if (nargs < n || nargs > n + 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes from %d to %d positional arguments but %zd %s given",
                     fr_op_info[op].name, n, n + 1, nargs, nargs == 1 ? "was" : "were");
        return NULL;
    }
    if (read_options(fr_op_info[op].name, args + nargs, kwnames, &o) < 0)
        return NULL;
    if (nargs > n && args[n] != Py_None) {
        if (o.out) {
            PyErr_SetString(PyExc_TypeError,
                            "cannot specify 'out' as both a positional and keyword argument");
            return NULL;
        }
        o.out = args[n];
        o.fallback |= !fr_is_tensor(o.out);
        if (fr_args_out(o.out) < 0)
            return NULL;
    }
    if (o.fallback)
        return fr_namesake_call(op, args, nargs, kwnames);
    st = fr_value_all(op, args, n, false, x, a);
    if (st == FR_VALUE_OK) {
        if (o.unsafe && !is_safe(a, n, o.out ? fr_of(o.out) : NULL))
            st = FR_VALUE_FALLBACK;
        if (st == FR_VALUE_OK && op == FR_OP_power) {
            st = fr_power_check(&a[0], &a[1]);
            if (!o.dtype)
                as = fr_power_op(&a[0], &a[1], false, &o.how);
            n_args = fr_op_info[as].arity;
        }
        if (st == FR_VALUE_OK)
            st = trace_options(as, a, n_args, &o, &result);
        for (int i = 0; i < n; i++)
            fr_value_clear(&x[i]);
    }
    return st == FR_VALUE_FALLBACK ? fr_namesake_call(op, args, nargs, kwnames) : result;
}

PyObject *
fr_functions_map(fr_op op, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    int           n = fr_op_info[op].arity;
    struct fr_arg a[3];

    if (FR_LIKELY(!kwnames && nargs == n)) {
        if (FR_UNLIKELY(op == FR_OP_power))
            return fr_type_number(fr_power(args[0], args[1], NULL, false));
        for (int i = 0; i < n; i++)
            if (!fr_value_fast(args[i], &a[i])) {
                if (!fr_namesake_exists(op) && PyUnicode_Check(args[i]))
                    return fr_namesake_call(op, args, nargs, NULL);
                return fr_type_number(fr_number_map(op, args, n, false));
            }
        return fr_type_number(fr_number_trace(op, a, n, FR_SITE_UFUNC));
    }
    return map_options(op, args, nargs, kwnames);
}

/* ---- at once, without a tensor */

enum { FEW = 1024, /* elements of an array that is done so */
       LARGE_INT = 1 << 30 };

fr_op
fr_functions_op(PyObject *function)
{
    const char *name = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml->ml_name : "";
    fr_op       op = fr_op_find(name, (int)strlen(name));

    if (op == FR_N_OPS || fr_op_info[op].class_ != FR_CLASS_MAP || fr_op_info[op].arity > 2 || op == FR_OP_power)
        return FR_N_OPS;
    switch (fr_op_info[op].rule) {
    case FR_RULE_FLOAT:
    case FR_RULE_TRUEDIV:
    case FR_RULE_SAME: return op;
    default: return FR_N_OPS;
    }
}

/* A number, or the elements of an array of few doubles that lie as NumPy would lay out the result. */
struct operand {
    fr_dtype        dtype;  /* FR_N_DTYPES: it is neither */
    PyArrayObject  *array;  /* NULL: a number */
    _Alignas(16) char number[16];
};

static void
read_operand(PyObject *x, bool may_be_int, struct operand *o)
{
    int64_t v;

    o->array = NULL;
    o->dtype = FR_F64;
    if (PyFloat_CheckExact(x) || Py_IS_TYPE(x, &PyDoubleArrType_Type)) {
        *(double *)o->number = PyFloat_AS_DOUBLE(x);
    } else if (PyArray_CheckExact(x)) {
        PyArrayObject *a = fr_array(x);

        o->array = a;
        if (PyArray_TYPE(a) != NPY_DOUBLE || !PyArray_ISCARRAY_RO(a) || PyArray_NDIM(a) == 0 || PyArray_SIZE(a) > FEW)
            o->dtype = FR_N_DTYPES;
    } else if (PyComplex_CheckExact(x) || Py_IS_TYPE(x, &PyCDoubleArrType_Type)) {
        *(Py_complex *)o->number = ((PyComplexObject *)x)->cval;
        o->dtype = FR_C128;
    } else if (may_be_int && PyLong_CheckExact(x) && fr_value_small_int(x, &v) && v <= LARGE_INT && v >= -LARGE_INT) {
        *(double *)o->number = (double)v;
    } else {
        o->dtype = FR_N_DTYPES;
    }
}

PyObject *
fr_functions_at_once(fr_op op, fr_args args)
{
    int            n = fr_op_info[op].arity;
    struct operand x[2];
    fr_dtype       dtype[2];
    char          *at[2], number[16] __attribute__((aligned(16)));
    PyArrayObject *like = NULL;
    PyObject      *array = NULL;
    unsigned       once = 0;

    if ((fr_op_info[op].flags & FR_OPF_COSTLY) && fr_judge_unseen)
        return NULL;
    for (int k = 0; k < n; k++) {
        read_operand(args[k], n == 2 && PyLong_CheckExact(args[0]) + PyLong_CheckExact(args[1]) < 2, &x[k]);
        if (x[k].dtype == FR_N_DTYPES || x[k].dtype != x[0].dtype)
            return NULL;
        if (x[k].array && like && !PyArray_SAMESHAPE(like, x[k].array))
            return NULL;
        like = x[k].array ? x[k].array : like;
        dtype[k] = x[k].dtype;
        at[k] = x[k].array ? PyArray_DATA(x[k].array) : x[k].number;
    }
    if (!fr_op_takes(op, dtype[0]) || fr_op_result(op, dtype[0]) != dtype[0])
        return NULL;
    for (int k = 0; like && k < n; k++)
        once |= x[k].array ? 0 : 1u << k;
    if (like && !(array = PyArray_SimpleNew(PyArray_NDIM(like), PyArray_DIMS(like), NPY_DOUBLE)))
        return NULL;
    fr_fpe_begin();
    if (!fr_host_map(op, like ? (size_t)PyArray_SIZE(like) : 1, dtype, n, at, once, dtype[0],
                     array ? PyArray_DATA(fr_array(array)) : number) ||
        fr_fpe_raised() != 0) {
        Py_XDECREF(array);
        return NULL;
    }
    return array ? array : fr_numpy_scalar_from(dtype[0], number);
}

/* ---- functions with signatures of their own */

/* The condition as bool: anything else is compared with zero, as np.where does. */
static fr_status
as_condition(struct fr_value *x, struct fr_tensor *cast, struct fr_err *err)
{
    struct fr_number *n = &x->arg.n;

    if (!x->arg.t) {
        bool yes = n->huge || (fr_dtype_is_float(n->dtype) ? n->v.f64 != 0
                               : fr_dtype_is_complex(n->dtype)
                                   ? n->v.c128[0] != 0 || n->v.c128[1] != 0
                                   : n->v.i64 != 0);
        *n = (struct fr_number){.dtype = FR_BOOL, .v.i64 = yes};
        return FR_OK;
    }
    if (x->arg.t->dtype == FR_BOOL)
        return FR_OK;
    fr_status st = fr_trace_cast(x->arg.t, FR_BOOL, 'K', cast, err);
    if (st == FR_OK)
        x->arg.t = cast;
    return st;
}

static PyObject *
where(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct fr_value x[3];
    struct fr_arg     a[3];
    struct fr_tensor  cast = {.storage = NULL};
    struct fr_err     err;
    fr_status         fst;
    PyObject         *result = NULL;

    (void)module;
    if (nargs == 1)
        return fr_mask_nonzero("where", args, nargs, kwnames);
    if (kwnames && PyTuple_GET_SIZE(kwnames))
        return fr_fallback_name("where", args, nargs, kwnames);
    if (nargs != 3) {
        PyErr_SetString(PyExc_ValueError, "either both or neither of x and y should be given");
        return NULL;
    }
    switch (fr_value_all(FR_OP_where, args, 3, false, x, a)) {
    case FR_VALUE_ERROR: return NULL;
    case FR_VALUE_FALLBACK: return fr_fallback_name("where", args, nargs, NULL);
    default: break;
    }
    FR_TRACE_HERE();
    fst = as_condition(&x[0], &cast, &err);
    a[0] = x[0].arg;
    if (fst == FR_OK)
        result = fr_number_trace(FR_OP_where, a, 3, FR_SITE_UFUNC);
    else
        fr_errors_raise(fst, &err);
    if (result)
        fr_type_set_scalar(result, false); /* np.where always gives an array */
    if (cast.storage)
        fr_tensor_clear(&cast);
    for (int i = 0; i < 3; i++)
        fr_value_clear(&x[i]);
    return result;
}

static struct fr_signature copyto_signature = {
    "copyto", 2, 4, 4, {"dst", "src", "casting", "where"}, {NULL}};

/* The value as the destination has it. FALLBACK where NumPy has the words for what is wrong. */
static int
to_copy(PyObject *src, const struct fr_tensor *dst, bool unsafe, struct fr_value *x)
{
    fr_dtype d = dst->dtype;
    int      st = fr_value_get(src, false, x);

    if (st != FR_VALUE_OK)
        return st;
    if (x->arg.t)
        return fr_dtype_same_kind(x->arg.t->dtype, d) ||
                       (unsafe && (fr_dtype_is_complex(d) || !fr_dtype_is_complex(x->arg.t->dtype)))
                   ? FR_VALUE_OK
                   : FR_VALUE_FALLBACK;
    if (x->arg.n.huge || !fr_dtype_same_kind(x->arg.n.dtype, d) ||
        (fr_dtype_is_int(d) && PyLong_CheckExact(src) && !fr_value_int_fits(src, d)))
        return FR_VALUE_FALLBACK;
    return fr_value_store(src, d, &x->arg.n);
}

static PyObject *
copyto(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct fr_value  x = {.own.storage = NULL}, mask = {.own.storage = NULL};
    struct fr_tensor chosen = {.storage = NULL};
    struct fr_tensor *dst;
    PyObject        *s[4];
    struct fr_err    err;
    fr_status        fst;
    bool             unsafe = false;
    int              st = FR_VALUE_FALLBACK;

    (void)module;
    if (fr_args_parse(&copyto_signature, args, nargs, kwnames, s) < 0)
        return NULL;
    if (!fr_is_tensor(s[0]) || fr_object(s[0])->scalar || fr_of(s[0])->readonly || (s[2] && !fr_args_casting(s[2], &unsafe)))
        return fr_fallback_name("copyto", args, nargs, kwnames);
    dst = fr_of(s[0]);
    st = to_copy(s[1], dst, unsafe, &x);
    if (st == FR_VALUE_OK && x.arg.t && !covers(x.arg.t->layout, dst->layout))
        st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK && s[3] && s[3] != Py_True) {
        st = fr_value_tensor(s[3], &mask);
        if (st == FR_VALUE_OK && (mask.arg.t->dtype != FR_BOOL || !covers(mask.arg.t->layout, dst->layout)))
            st = FR_VALUE_FALLBACK;
    }
    if (st == FR_VALUE_OK) {
        FR_TRACE_HERE();
        fst = FR_OK;
        if (mask.arg.t) {
            struct fr_tensor cast = {.storage = NULL};
            struct fr_arg    three[3] = {{.t = mask.arg.t}, x.arg, {.t = dst}};

            if (x.arg.t) {
                fst = fr_trace_cast(x.arg.t, dst->dtype, 'K', &cast, &err);
                three[1].t = &cast;
            }
            if (fst == FR_OK)
                fst = fr_trace_map(FR_OP_where, three, 3, &chosen, &err);
            x.arg = (struct fr_arg){.t = &chosen};
            if (cast.storage)
                fr_tensor_clear(&cast);
        }
        if (fst == FR_OK)
            fst = fr_trace_store(dst, &x.arg, &err);
        if (fr_errors_check(fst, &err) < 0)
            st = FR_VALUE_ERROR;
    }
    if (chosen.storage)
        fr_tensor_clear(&chosen);
    fr_value_clear(&mask);
    fr_value_clear(&x);
    if (st == FR_VALUE_FALLBACK)
        return fr_fallback_name("copyto", args, nargs, kwnames);
    return st == FR_VALUE_OK ? Py_NewRef(Py_None) : NULL;
}

static struct fr_signature clip_signature = {
    "clip", 1, 4, 6, {"a", "a_min", "a_max", "out", "min", "max"}, {NULL}};

/* Whether np.clip leaves a bound of integers out: a Python int at or beyond the end of their range. */
static bool
bounds_nothing(PyObject *bound, fr_dtype d, bool lower)
{
    int       bits = 8 * fr_dtype_size(d), beyond;
    long long v;

    if (!bound || !PyLong_CheckExact(bound) || !fr_dtype_is_int(d))
        return false;
    v = PyLong_AsLongLongAndOverflow(bound, &beyond);
    if (lower)
        return beyond ? beyond < 0 : v <= (fr_dtype_kind(d) == 'u' ? 0 : -1 - (long long)(UINT64_MAX >> (65 - bits)));
    if (d == FR_U64 && beyond > 0) {
        unsigned long long large = PyLong_AsUnsignedLongLong(bound);

        PyErr_Clear(); /* of one that is larger yet: the result is the maximum, too */
        return large == UINT64_MAX;
    }
    if (beyond || d == FR_U64)
        return beyond > 0;
    return v >= (long long)(UINT64_MAX >> (fr_dtype_kind(d) == 'u' ? 64 - bits : 65 - bits));
}

PyObject *
fr_functions_clip(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *s[6], *objects[4], *lo, *hi;
    int       n = 0;
    fr_op     op;

    (void)module;
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); i++) {
        const char *key = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, i));
        if (key && (!strcmp(key, "dtype") || !strcmp(key, "where") || !strcmp(key, "casting") ||
                    !strcmp(key, "order") || !strcmp(key, "subok") || !strcmp(key, "signature")))
            return fr_fallback_name("clip", args, nargs, kwnames);
    }
    if (fr_args_parse(&clip_signature, args, nargs, kwnames, s) < 0)
        return NULL;
    if (!s[1] != !s[2]) {
        PyErr_Format(PyExc_TypeError, "clip() missing 1 required positional argument: '%s'", s[1] ? "a_max" : "a_min");
        return NULL;
    }
    if (s[1] && (s[4] || s[5])) {
        PyErr_SetString(PyExc_ValueError, "Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided "
                                          "is forbidden.");
        return NULL;
    }
    lo = s[1] ? s[1] : s[4];
    hi = s[2] ? s[2] : s[5];
    lo = lo == Py_None || (fr_is_tensor(s[0]) && bounds_nothing(lo, fr_of(s[0])->dtype, true)) ? NULL : lo;
    hi = hi == Py_None || (fr_is_tensor(s[0]) && bounds_nothing(hi, fr_of(s[0])->dtype, false)) ? NULL : hi;
    op = lo && hi ? FR_OP_clip : lo ? FR_OP_maximum : hi ? FR_OP_minimum : FR_OP_positive;
    objects[n++] = s[0];
    if (lo)
        objects[n++] = lo;
    if (hi)
        objects[n++] = hi;
    /* NumPy makes an array of a number first, whose type then counts. */
    if (PyLong_CheckExact(s[0]) || PyFloat_CheckExact(s[0]) || PyComplex_CheckExact(s[0]))
        return fr_fallback_name("clip", args, nargs, kwnames);
    /* Of what is no tensor, and for an int on the wrong side of the range, NumPy knows what to do. */
    for (int i = 1; i < n; i++) {
        fr_dtype      d = fr_is_tensor(s[0]) ? fr_of(s[0])->dtype : FR_BOOL;
        struct fr_arg a;

        if (PyLong_CheckExact(objects[i]) && !fr_value_fast(objects[i], &a) && d < FR_F16 &&
            !(fr_dtype_is_int(d) && fr_value_int_fits(objects[i], d)))
            return fr_fallback_name("clip", args, nargs, kwnames);
    }
    objects[n] = s[3];
    return fr_functions_map(op, objects, n + (s[3] ? 1 : 0), NULL);
}

/* Rounding to decimals: x * 10^d, rint, / 10^d, which is how NumPy defines it. */
static PyObject *
round_decimals(PyObject *a, long decimals)
{
    PyObject *power, *scaled = NULL, *whole = NULL, *result = NULL;
    bool      up = decimals >= 0;

    power = PyFloat_FromDouble(pow(10, (double)(up ? decimals : -decimals)));
    if (power)
        scaled = up ? PyNumber_Multiply(a, power) : PyNumber_TrueDivide(a, power);
    if (scaled)
        whole = fr_number_map(FR_OP_rint, &scaled, 1, false);
    if (whole)
        result = up ? PyNumber_TrueDivide(whole, power) : PyNumber_Multiply(whole, power);
    Py_XDECREF(power);
    Py_XDECREF(scaled);
    Py_XDECREF(whole);
    return result;
}

static struct fr_signature round_signature = {
    "round", 1, 3, 3, {"a", "decimals", "out"}, {NULL}};

PyObject *
fr_functions_round(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject        *s[3], *whole, *result;
    long             decimals = 0;
    fr_dtype         d;
    struct fr_tensor copy;
    struct fr_err    err;
    fr_status        st;

    (void)module;
    if (fr_args_parse(&round_signature, args, nargs, kwnames, s) < 0)
        return NULL;
    if (s[1]) {
        decimals = PyLong_AsLong(s[1]);
        if (decimals == -1 && PyErr_Occurred())
            return NULL;
    }
    if (!fr_is_tensor(s[0]) || !fr_args_none(s[2]) || decimals > 300 || decimals < -300)
        return fr_fallback_name("round", args, nargs, kwnames);
    d = fr_of(s[0])->dtype;
    if (fr_dtype_is_complex(d) ? decimals == 0 && !fr_of(s[0])->layout->dense
                               : fr_dtype_is_int(d) && decimals >= 0) { /* laid out as NumPy's copies are */
        FR_TRACE_HERE();
        st = fr_trace_cast(fr_of(s[0]), d, 'K', &copy, &err);
        whole = fr_type_result_scalar(st, &copy, &err);
        if (!whole || fr_dtype_is_int(d))
            return whole;
        result = fr_number_map(FR_OP_rint, &whole, 1, false);
        Py_DECREF(whole);
        return result;
    }
    if (d < FR_F16 || (decimals && fr_dtype_is_complex(d)))
        return fr_fallback_name("round", args, nargs, kwnames);
    return decimals ? round_decimals(s[0], decimals) : fr_number_map(FR_OP_rint, s, 1, false);
}

static PyObject *
divmod(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *q, *r;

    (void)module;
    if (nargs != 2 || kwnames)
        return fr_fallback_name("divmod", args, nargs, kwnames);
    fr_errstate_bits |= FR_SITE_INSTEAD;
    q = fr_functions_map(FR_OP_floor_divide, args, 2, NULL);
    r = q ? fr_functions_map(FR_OP_remainder, args, 2, NULL) : NULL;
    fr_errstate_bits &= ~FR_SITE_INSTEAD;
    if (r)
        return Py_BuildValue("NN", q, r);
    Py_XDECREF(q);
    return NULL;
}

/* modf(x) = (copysign(x - trunc(x), x), trunc(x)); infinities have the fraction 0. */
static PyObject *
modf_of(PyObject *x)
{
    PyObject *whole = NULL, *rest = NULL, *inf = NULL, *fraction = NULL, *zero = NULL, *finite = NULL, *part = NULL;

    /* (An infinity less itself would be a warning.) */
    if ((whole = fr_number_map(FR_OP_trunc, &x, 1, false)) && (inf = fr_number_map(FR_OP_isinf, &x, 1, false)) &&
        (zero = PyFloat_FromDouble(0)) && (finite = fr_number_map(FR_OP_where, (PyObject *[]){inf, zero, x}, 3, false)) &&
        (part = fr_number_map(FR_OP_trunc, &finite, 1, false)))
        rest = PyNumber_Subtract(finite, part);
    if (rest)
        fraction = fr_number_map(FR_OP_copysign, (PyObject *[]){rest, x}, 2, false);
    Py_XDECREF(rest);
    Py_XDECREF(part);
    Py_XDECREF(finite);
    Py_XDECREF(inf);
    Py_XDECREF(zero);
    if (!fraction) {
        Py_XDECREF(whole);
        return NULL;
    }
    return Py_BuildValue("NN", fraction, whole);
}

static PyObject *
modf_function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    if (nargs != 1 || kwnames || !fr_is_tensor(args[0]) ||
        !fr_dtype_is_float(fr_of(args[0])->dtype))
        return fr_fallback_name("modf", args, nargs, kwnames);
    return modf_of(args[0]);
}

static PyObject *
frexp_function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return fr_fallback_name("frexp", args, nargs, kwnames);
}

/* val.real, val.imag of anything; of a tensor they are views of what NumPy has views of. */
static PyObject *
component_of(struct fr_signature *signature, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject        *val, *tensor, *result;
    struct fr_tensor t;

    if (fr_args_parse(signature, args, nargs, kwnames, &val) < 0)
        return NULL;
    if (fr_is_tensor(val))
        return PyObject_GetAttrString(val, signature->name);
    if (fr_numpy_is_array(val))
        switch (fr_numpy_copy_operand(val, &t)) {
        case FR_VALUE_ERROR: return NULL;
        case FR_VALUE_OK:
            if (!(tensor = fr_type_take(&t)))
                return NULL;
            result = PyObject_GetAttrString(tensor, signature->name);
            Py_DECREF(tensor);
            return result;
        default: break;
        }
    return fr_fallback_name(signature->name, &val, 1, NULL);
}

static struct fr_signature real_signature = {"real", 1, 1, 1, {"val"}, {NULL}};
static struct fr_signature imag_signature = {"imag", 1, 1, 1, {"val"}, {NULL}};

static PyObject *
real_function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return component_of(&real_signature, args, nargs, kwnames);
}

static PyObject *
imag_function(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kwnames)
{
    (void)module;
    return component_of(&imag_signature, args, nargs, kwnames);
}

/* ---- the table */

#define INNER(...)
#define OP(name, n, rule, ...)                                            \
    static PyObject *map_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)    \
    {                                                                                              \
        (void)module;                                                                              \
        return fr_functions_map(FR_OP_##name, args, nargs, kw);                                    \
    }
#include "ir/ops.def"

#define ARGS_1 "x"
#define ARGS_2 "x1, x2"
#define ARGS_3 "x1, x2, x3"
#define TEXT_SAME "The result has the dtype to which the arguments promote."
#define TEXT_FLOAT "The result is a float; integers are converted to the smallest float that fits."
#define TEXT_TRUEDIV "The result is a float; integers are converted to float64."
#define TEXT_TRUTH "The result is bool."
#define TEXT_COMPONENT "A complex argument gives a result of its components' dtype."
#define TEXT_SELECT "The result has the dtype to which the second and third argument promote."
#define TEXT_LDEXP "x1 is a float, x2 an integer; the result has the dtype of x1."
#define TEXT_COUNT "The result is uint8."
#define TEXT_RANDOM "x1 counts, x2 is the stream's key; both are uint64."

PyMethodDef fr_functions_methods[] = {
#define INNER(...)
#define OP(name, n, rule, ...)                                            \
    {#name, FR_FAST(map_##name),                                                                      \
     #name "(" ARGS_##n ", /, out=None, *, where=True, casting='same_kind', order='K', "           \
     "dtype=None, subok=True)\n--\n\n"                                                             \
     #name ", element by element. Arguments are tensors, ndarrays, numbers or nested lists;\n"     \
     "their shapes broadcast. " TEXT_##rule "\n"                                                   \
     "dtype= computes in that dtype, out= stores into a tensor, where= only there.\n"              \
     "Raises TypeError where there is no such operation for the dtypes, ValueError where the\n"    \
     "shapes do not broadcast, OverflowError for a Python int beyond an integer dtype."},
#include "ir/ops.def"
    {"round", FR_FAST(fr_functions_round),
     "round(a, decimals=0, out=None)\n--\n\n"
     "Rounds to the nearest even at the given decimal, as numpy.round: the same bits, shape and dtype. Integers are\n"
     "copied."},
    {"copyto", FR_FAST(copyto),
     "copyto(dst, src, casting='same_kind', where=True)\n--\n\n"
     "Stores src into the tensor dst, where the condition holds; src and where broadcast to dst's shape.\n"
     "Raises TypeError where the dtypes do not fit, ValueError where the shapes do not broadcast."},
    {"divmod", FR_FAST(divmod),
     "divmod(x1, x2, /)\n--\n\n(floor_divide(x1, x2), remainder(x1, x2)); shapes broadcast, dtypes promote. The bits are\n"
     "NumPy's."},
    {"modf", FR_FAST(modf_function),
     "modf(x, /)\n--\n\n"
     "Fraction and whole part of floats, both with the sign, shape and dtype of x; of others by NumPy."},
    {"frexp", FR_FAST(frexp_function),
     "frexp(x, /)\n--\n\nMantissa and exponent: x = mantissa * 2**exponent. Computed by NumPy."},
    {NULL, NULL, 0, NULL},
};

/* Rows whose NumPy function has a signature of its own. */
static const struct {
    const char *name;
    PyMethodDef def;
} instead[] = {
    {"where", {"where", FR_FAST(where),
     "where(condition, x=None, y=None, /)\n--\n\n"
     "x where the condition holds, else y; the three broadcast, x and y promote. The condition may\n"
     "have any dtype. With the condition alone: the indices of its true elements, by NumPy."}},
    {"clip", {"clip", FR_FAST(fr_functions_clip),
     "clip(a, min=None, max=None, out=None, *, a_min=None, a_max=None)\n--\n\n"
     "minimum(maximum(a, a_min), a_max); a bound of None is left out. Shapes broadcast and dtypes\n"
     "promote as in numpy.clip."}},
    {"real", {"real", FR_FAST(real_function),
     "real(val)\n--\n\n"
     "The real part: of complex tensors a view, in their components' dtype; of others val itself."}},
    {"imag", {"imag", FR_FAST(imag_function),
     "imag(val)\n--\n\n"
     "The imaginary part: of complex tensors a view, in their components' dtype; zeros for others."}},
};

/* What a row does not say of its function: units, and what it is where NumPy has none of that name. */
#define NEW "Not of complex numbers (TypeError); NumPy has none of that name."
#define OWN_BITS "\nfrit's own, at most 1 ULP from the truth (csrc/jit/ACCURACY.md)."
static const struct {
    const char *name, *text;
} more[] = {
    {"sin", "x is in radians." OWN_BITS},
    {"cos", "x is in radians." OWN_BITS},
    {"tan", "x is in radians." OWN_BITS},
    {"arcsin", "The result is in radians, from -pi/2 to pi/2; NaN outside of [-1, 1]." OWN_BITS},
    {"arccos", "The result is in radians, from 0 to pi; NaN outside of [-1, 1]." OWN_BITS},
    {"arctan", "The result is in radians, from -pi/2 to pi/2." OWN_BITS},
    {"arctan2", "The angle of the point (x2, x1) in radians, from -pi to pi." OWN_BITS},
    {"deg2rad", "x is in degrees, the result in radians."},
    {"rad2deg", "x is in radians, the result in degrees."},
    {"erf", "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. " NEW OWN_BITS},
    {"erfc", "1 - erf(x), without its cancellation. " NEW OWN_BITS},
    {"sigmoid", "1 / (1 + exp(-x)), without overflow. " NEW OWN_BITS},
    {"softplus", "log(1 + exp(x)), without overflow. " NEW OWN_BITS},
    {"random_bits", "64 random bits by Philox4x32-10 (Salmon and others, 2011), which frit.random draws."},
    {"random_uniform", "Uniform in [0, 1) by Philox4x32-10, which frit.random draws; dtype is float64 or float32."},
    {"random_normal", "Normal with mean 0 and deviation 1, by Philox4x32-10 and Box and Muller; dtype is float64 or float32."},
};
static char more_texts[FR_LEN(more)][900];

void
fr_functions_init(void)
{
    for (PyMethodDef *d = fr_functions_methods; d->ml_name; d++) {
        for (size_t i = 0; i < FR_LEN(instead); i++)
            if (!strcmp(d->ml_name, instead[i].name))
                *d = instead[i].def;
        for (size_t i = 0; i < FR_LEN(more); i++)
            if (!strcmp(d->ml_name, more[i].name)) {
                snprintf(more_texts[i], sizeof more_texts[i], "%s\n%s", d->ml_doc, more[i].text);
                d->ml_doc = more_texts[i];
            }
    }
}
