/* bind/tensor/reductions.c -- the reductions as functions and as methods: a method is the function with self
 * as its first argument. */
#include <string.h>

#include "bind/tensor/reduce.h"

/* A function's signature, and which argument each parameter is: the order differs. */
struct reduction {
    struct fr_signature signature;
    uint8_t             field[FR_MAX_PARAMS];     /* index of the parameter in struct fr_request */
};

#define FIELD(name) (uint8_t)(offsetof(struct fr_request, name) / sizeof(PyObject *))

PyObject *fr_no_value;

static int
parse(struct reduction *r, fr_args args, Py_ssize_t nargs, PyObject *kw, struct fr_request *q)
{
    PyObject *s[FR_MAX_PARAMS], **fields = (PyObject **)q;

    memset(q, 0, sizeof *q);
    if (fr_args_parse(&r->signature, args, nargs, kw, s) < 0)
        return -1;
    for (int i = 0; i < r->signature.n; i++)
        fields[r->field[i]] = s[i] == fr_no_value ? NULL : s[i];
    return 0;
}

#define P_a FIELD(a)
#define P_axis FIELD(axis)
#define P_dtype FIELD(dtype)
#define P_out FIELD(out)
#define P_keepdims FIELD(keepdims)
#define P_initial FIELD(initial)
#define P_where FIELD(where)
#define P_ddof FIELD(ddof)
#define P_mean FIELD(mean)
#define P_correction FIELD(correction)

/* KIND_SIGNATURE: how many parameters are positional, and all; KIND_FIELDS: where they go. The kinds of the REDUCE rows
 * of ir/ops.def are their rules. */
#define SUM_SIGNATURE 7, 7, {"a", "axis", "dtype", "out", "keepdims", "initial", "where"}
#define SUM_FIELDS {P_a, P_axis, P_dtype, P_out, P_keepdims, P_initial, P_where}
#define SAME_SIGNATURE 6, 6, {"a", "axis", "out", "keepdims", "initial", "where"}
#define SAME_FIELDS {P_a, P_axis, P_out, P_keepdims, P_initial, P_where}
#define TRUTH_SIGNATURE 4, 5, {"a", "axis", "out", "keepdims", "where"}
#define TRUTH_FIELDS {P_a, P_axis, P_out, P_keepdims, P_where}
#define INDEX_SIGNATURE 3, 4, {"a", "axis", "out", "keepdims"}
#define INDEX_FIELDS {P_a, P_axis, P_out, P_keepdims}
#define PTP_SIGNATURE 4, 4, {"a", "axis", "out", "keepdims"}
#define PTP_FIELDS INDEX_FIELDS
#define MEAN_SIGNATURE 5, 6, {"a", "axis", "dtype", "out", "keepdims", "where"}
#define MEAN_FIELDS {P_a, P_axis, P_dtype, P_out, P_keepdims, P_where}
#define VAR_SIGNATURE 6, 9, {"a", "axis", "dtype", "out", "ddof", "keepdims", "where", "mean", "correction"}
#define VAR_FIELDS {P_a, P_axis, P_dtype, P_out, P_ddof, P_keepdims, P_where, P_mean, P_correction}
#define COUNT_SIGNATURE 2, 3, {"a", "axis", "keepdims"}
#define COUNT_FIELDS {P_a, P_axis, P_keepdims}
#define SCAN_SIGNATURE 4, 4, {"a", "axis", "dtype", "out"}
#define SCAN_FIELDS {P_a, P_axis, P_dtype, P_out}
#define ACCUMULATE_SIGNATURE 2, 4, {"a", "axis", "dtype", "out"}
#define ACCUMULATE_FIELDS SCAN_FIELDS

/* The function reduce_<name>, which traces by `call`, or falls back by `fallback`; without a module it is the method. */
#define REDUCTION(name, kind, call, fallback)                                                      \
    static struct reduction name##_reduction = {{#name, 1, kind##_SIGNATURE, {NULL}}, kind##_FIELDS}; \
    static PyObject *reduce_##name(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw) \
    {                                                                                              \
        struct fr_request q;                                                                       \
        PyObject         *result = NULL;                                                           \
        if (parse(&name##_reduction, args, nargs, kw, &q) < 0)                                     \
            return NULL;                                                                           \
        if ((call) != FR_VALUE_FALLBACK)                                                           \
            return result;                                                                         \
        return module ? fallback : fr_fallback_method(#name, FR_READS, args, nargs, kw);           \
    }
#define REDUCE(name, rule, ...)                                                                    \
    REDUCTION(name, rule,                                                                          \
              fr_op_finds_index(FR_OP_##name) ? fr_reduce_trace_arg(FR_OP_##name, &q, &result)     \
                                              : fr_reduce_trace_reduce(FR_OP_##name, &q, &result), \
              fr_namesake_call(FR_OP_##name, args, nargs, kw))
#include "ir/ops.def"
#define FALLBACK(name) fr_fallback_name(name, args, nargs, kw)
REDUCTION(mean, MEAN, fr_reduce_trace_moment(FR_MEAN, &q, &result), FALLBACK("mean"))
REDUCTION(var, VAR, fr_reduce_trace_moment(FR_VAR, &q, &result), FALLBACK("var"))
REDUCTION(std, VAR, fr_reduce_trace_moment(FR_STD, &q, &result), FALLBACK("std"))
REDUCTION(ptp, PTP, fr_reduce_trace_ptp(&q, &result), FALLBACK("ptp"))
REDUCTION(count_nonzero, COUNT, fr_reduce_trace_count(&q, &result), FALLBACK("count_nonzero"))
REDUCTION(cumsum, SCAN, fr_reduce_trace_scan(FR_OP_cumsum, &q, &result), FALLBACK("cumsum"))
REDUCTION(cumprod, SCAN, fr_reduce_trace_scan(FR_OP_cumprod, &q, &result), FALLBACK("cumprod"))
REDUCTION(cummax, ACCUMULATE, fr_reduce_trace_scan(FR_OP_cummax, &q, &result), FALLBACK("maximum.accumulate"))
REDUCTION(cummin, ACCUMULATE, fr_reduce_trace_scan(FR_OP_cummin, &q, &result), FALLBACK("minimum.accumulate"))

/* cumulative_sum and cumulative_prod of the Array API: an axis must be named where there are several. */
static struct fr_signature cumulative_signature = {
    "cumulative_sum", 1, 1, 5, {"x", "axis", "dtype", "out", "include_initial"}, {NULL}};

static PyObject *
cumulative(fr_op op, const char *name, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject *s[5], *result = NULL;

    if (fr_args_parse(&cumulative_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (fr_is_tensor(s[0]) && (!s[4] || s[4] == Py_False) && fr_of(s[0])->layout->ndim &&
        (!fr_args_none(s[1]) || fr_of(s[0])->layout->ndim == 1)) {
        struct fr_request q = {.a = s[0], .axis = s[1], .dtype = s[2], .out = s[3]};
        if (fr_reduce_trace_scan(op, &q, &result) != FR_VALUE_FALLBACK)
            return result;
    }
    return fr_fallback_name(name, args, nargs, kw);
}

static PyObject *
cumulative_sum(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return cumulative(FR_OP_cumsum, "cumulative_sum", args, nargs, kw);
}

static PyObject *
cumulative_prod(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    (void)module;
    return cumulative(FR_OP_cumprod, "cumulative_prod", args, nargs, kw);
}

/* trace(a) is the sum of a diagonal. */
static struct fr_signature trace_signature = {
    "trace", 1, 6, 6, {"a", "offset", "axis1", "axis2", "dtype", "out"}, {NULL}};

PyObject *
fr_reductions_trace(PyObject *module, fr_args args, Py_ssize_t nargs, PyObject *kw)
{
    PyObject         *s[6], *diagonal, *result;
    struct fr_value x;
    int               axis1 = 0, axis2 = 1, n;
    int64_t           k = 0;

    (void)module;
    if (fr_args_parse(&trace_signature, args, nargs, kw, s) < 0)
        return NULL;
    if (!fr_is_tensor(s[0]) || fr_of(s[0])->layout->ndim < 2)
        return fr_fallback_name("trace", args, nargs, kw);
    x.arg.t = fr_of(s[0]);
    n = x.arg.t->layout->ndim;
    if ((s[1] && (k = PyLong_AsLongLong(s[1])) == -1 && PyErr_Occurred()) ||
        (s[2] && fr_args_axis(s[2], n, &axis1) < 0) || (s[3] && fr_args_axis(s[3], n, &axis2) < 0))
        return NULL;
    if (axis1 == axis2) {
        PyErr_SetString(PyExc_ValueError, "axis1 and axis2 cannot be the same");
        return NULL;
    }
    diagonal = fr_shape_diagonal(x.arg.t, k, axis1, axis2);
    if (!diagonal)
        return NULL;
    PyObject *minus_one = PyLong_FromLong(-1);
    PyObject *all[4] = {diagonal, minus_one, s[4] ? s[4] : Py_None, s[5] ? s[5] : Py_None};
    result = minus_one ? reduce_sum(NULL, all, 4, NULL) : NULL;
    Py_XDECREF(minus_one);
    Py_DECREF(diagonal);
    return result;
}

/* ---- methods */

#define METHOD(name)                                                                               \
    PyObject *fr_reductions_##name(PyObject *self, fr_args args, Py_ssize_t nargs, PyObject *kw)       \
    {                                                                                              \
        return fr_args_method(reduce_##name, self, args, nargs, kw);                                   \
    }
FR_REDUCTIONS_METHODS(METHOD)
#undef METHOD

int
fr_reductions_init(void)
{
    fr_no_value = fr_numpy_attr("_NoValue");
    return fr_no_value ? 0 : -1;
}

#define AXES                                                                                       \
    "axis is an int, a tuple of them or None (all); keepdims leaves axes of size 1; out= stores\n" \
    "into a tensor. Raises AxisError beyond ndim, ValueError for a repeated axis."

PyMethodDef fr_reductions_methods[] = {
#define INITIAL_zero "0"
#define INITIAL_one "1"
#define EMPTY_zero ""
#define EMPTY_one ""
#define EMPTY_lowest " NaN if there is one; ValueError if there is no element."
#define EMPTY_highest EMPTY_lowest
#define TEXT_SUM(name, combine, identity)                                                          \
    name "(a, axis=None, dtype=None, out=None, keepdims=False, initial=" INITIAL_##identity        \
         ", where=True)\n--\n\nThe elements joined by " combine ", in NumPy's order: the same bits. " \
         "bool and integers become 64 bits wide.\n" AXES
#define TEXT_SAME(name, combine, identity)                                                         \
    name "(a, axis=None, out=None, keepdims=False, initial=None, where=True)\n--\n\n"              \
         "The elements joined by " combine "." EMPTY_##identity "\n" AXES
#define TEXT_TRUTH(name, combine, identity)                                                        \
    name "(a, axis=None, out=None, keepdims=False, *, where=True)\n--\n\n"                         \
         "The elements joined by " combine "; bool. What is not zero is true.\n" AXES
#define TEXT_INDEX(name, combine, identity)                                                        \
    name "(a, axis=None, out=None, *, keepdims=False)\n--\n\n"                                     \
         "Index of the first " combine " along one axis, or in C order for None; int64.\n"          \
         "ValueError if there is no element, AxisError beyond ndim."
#define REDUCE(name, rule, kinds, combine, identity, ...)                                          \
    {#name, FR_FAST(reduce_##name), TEXT_##rule(#name, #combine, identity)},
#include "ir/ops.def"
    {"amax", FR_FAST(reduce_max), "amax(a, axis=None, out=None, ...)\n--\n\nAs max."},
    {"amin", FR_FAST(reduce_min), "amin(a, axis=None, out=None, ...)\n--\n\nAs min."},
    {"mean", FR_FAST(reduce_mean),
     "mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True)\n--\n\n"
     "Arithmetic mean, NumPy's bits; integers are averaged in float64.\n" AXES},
    {"var", FR_FAST(reduce_var),
     "var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,\n"
     "correction=0)\n--\n\n"
     "Variance: sum of squared deviations from the mean over n - ddof. NumPy's bits.\n" AXES},
    {"std", FR_FAST(reduce_std),
     "std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, mean=None,\n"
     "correction=0)\n--\n\nSquare root of var.\n" AXES},
    {"ptp", FR_FAST(reduce_ptp),
     "ptp(a, axis=None, out=None, keepdims=False)\n--\n\nThe greatest element less the least.\n" AXES},
    {"count_nonzero", FR_FAST(reduce_count_nonzero),
     "count_nonzero(a, axis=None, *, keepdims=False)\n--\n\nElements that are not zero; int64.\n" AXES},
    {"cumsum", FR_FAST(reduce_cumsum),
     "cumsum(a, axis=None, dtype=None, out=None)\n--\n\n"
     "Running sums along an axis, element after element, with NumPy's bits; None runs over all in C order. bool and\n"
     "integers become 64 bits wide. Raises AxisError beyond ndim."},
    {"cumprod", FR_FAST(reduce_cumprod),
     "cumprod(a, axis=None, dtype=None, out=None)\n--\n\n"
     "Running products along an axis, with NumPy's bits; None runs over all elements in C order. bool and integers\n"
     "become 64 bits wide. Raises AxisError beyond ndim."},
    {"cumulative_sum", FR_FAST(cumulative_sum),
     "cumulative_sum(x, /, *, axis=None, dtype=None, out=None, include_initial=False)\n--\n\n"
     "cumsum; the axis may only be left out of a vector (ValueError)."},
    {"cumulative_prod", FR_FAST(cumulative_prod),
     "cumulative_prod(x, /, *, axis=None, dtype=None, out=None, include_initial=False)\n--\n\n"
     "cumprod; the axis may only be left out of a vector (ValueError)."},
    {"cummax", FR_FAST(reduce_cummax),
     "cummax(a, axis=None)\n--\n\n"
     "Largest element so far along an axis, of the dtype and shape of a; None runs over all in C order. NaN stays. In NumPy\n"
     "it is maximum.accumulate. Raises AxisError beyond ndim."},
    {"cummin", FR_FAST(reduce_cummin),
     "cummin(a, axis=None)\n--\n\nSmallest element so far; see cummax. In NumPy it is minimum.accumulate."},
    {"trace", FR_FAST(fr_reductions_trace),
     "trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None)\n--\n\n"
     "Sum of a diagonal of two axes, NumPy's bits; bool and integers become 64 bits wide. Raises ValueError with fewer than two\n"
     "axes or for equal ones, AxisError beyond ndim."},
    {NULL, NULL, 0, NULL},
};
