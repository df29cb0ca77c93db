/* bind/tensor/reduce.c -- reductions and scans, from arguments to traces.
 *
 * NumPy's order of floating-point sums under where= and initial= is its own: those go to NumPy.
 * Where the order does not matter (integers, max, min, any, all) they are traced. */
#include <string.h>

#include "bind/tensor/reduce.h"
#include "ir/node.h"

/* ---- the operation itself */

/* What is reduced, with its axes: one more axis of size 1 where nothing is, so that the engine always
 * has one to reduce. */
struct subject {
    const struct fr_tensor *t;
    uint32_t                axes;
    bool                    keepdims;
    struct fr_value       x;
    struct fr_tensor        window;
    int                     ndim;        /* of the argument */
};

static void
subject_clear(struct subject *s)
{
    fr_value_clear(&s->x);
    if (s->window.storage)
        fr_tensor_clear(&s->window);
}

static int
add_axis(struct subject *s)
{
    const struct fr_layout *l = s->t->layout;
    int64_t                 dims[FR_MAX_DIMS + 1], strides[FR_MAX_DIMS + 1];
    struct fr_err           err;

    if (l->ndim == FR_MAX_DIMS)
        return FR_VALUE_FALLBACK;
    memcpy(dims, fr_layout_dims(l), l->ndim * sizeof *dims);
    memcpy(strides, fr_layout_strides(l), l->ndim * sizeof *strides);
    dims[l->ndim] = strides[l->ndim] = 1;
    if (fr_errors_check(fr_tensor_window(s->t, l->ndim + 1, dims, strides, 0, &s->window, &err), &err) < 0)
        return FR_VALUE_ERROR;
    s->axes = 1u << l->ndim;
    s->keepdims = false;
    s->t = &s->window;
    return FR_VALUE_OK;
}

static int
subject_get(struct subject *s, const struct fr_request *q)
{
    int st;

    s->window.storage = NULL;
    st = fr_value_tensor(q->a, &s->x);
    if (st != FR_VALUE_OK)
        return st;
    s->t = s->x.arg.t;
    s->ndim = s->t->layout->ndim;
    if (fr_args_axes(q->axis, s->ndim, &s->axes) < 0 ||
        fr_args_bool(q->keepdims, false, &s->keepdims) < 0)
        st = FR_VALUE_ERROR;
    else if (!s->axes)
        st = add_axis(s);
    if (st != FR_VALUE_OK)
        subject_clear(s);
    return st;
}

/* out= itself, where it is the only one of a tuple. */
static PyObject *
sole(PyObject *out)
{
    return out && PyTuple_CheckExact(out) && PyTuple_GET_SIZE(out) == 1 ? PyTuple_GET_ITEM(out, 0) : out;
}

/* Whether NumPy walks the axes in another order because of how out= lies, at which its iterator looks first. */
static bool
out_turns(const struct subject *s, PyObject *out)
{
    const struct fr_layout *l = s->t->layout, *o;
    int64_t                 strides[FR_MAX_DIMS];
    const int64_t          *both[2] = {strides, fr_layout_strides(l)};
    int                     alone[FR_MAX_DIMS], together[FR_MAX_DIMS], n = 0;

    out = sole(out);
    if (fr_args_none(out) || !fr_is_tensor(out))
        return false;
    o = fr_of(out)->layout;
    for (int k = 0; k < l->ndim; k++) {
        bool reduced = s->axes >> k & 1;

        if (!reduced && n == o->ndim)
            return false; /* it does not fit */
        strides[k] = reduced ? 0 : fr_layout_strides(o)[n];
        n += !reduced || s->keepdims;
    }
    fr_axes_inwards(l->ndim, fr_layout_dims(l), 1, both + 1, alone);
    fr_axes_inwards(l->ndim, fr_layout_dims(l), 2, both, together);
    return memcmp(alone, together, (size_t)l->ndim * sizeof *alone) != 0;
}

/* Stores into out= what was computed, or hands the call to NumPy where the dtypes or shapes are not
 * simply equal. Takes over the handle. */
static int
finish(struct fr_tensor *t, PyObject *out, PyObject **result)
{
    struct fr_arg arg = {.t = t};
    struct fr_err err;
    fr_status     st;

    if (fr_args_none(out)) {
        *result = fr_type_result_scalar(FR_OK, t, NULL);
        return *result ? FR_VALUE_OK : FR_VALUE_ERROR;
    }
    out = sole(out);
    if (fr_args_out(out) < 0) {
        fr_tensor_clear(t);
        return FR_VALUE_ERROR;
    }
    if (!fr_is_tensor(out) || fr_of(out)->dtype != t->dtype ||
        fr_of(out)->layout->ndim != t->layout->ndim ||
        memcmp(fr_layout_dims(fr_of(out)->layout), fr_layout_dims(t->layout),
               t->layout->ndim * sizeof(int64_t)) != 0) {
        fr_tensor_clear(t);
        return FR_VALUE_FALLBACK;
    }
    st = fr_of(out)->readonly ? fr_fail(&err, FR_EVALUE, "output array is read-only")
                              : fr_trace_store(fr_of(out), &arg, &err);
    fr_tensor_clear(t);
    if (fr_errors_check(st, &err) < 0)
        return FR_VALUE_ERROR;
    *result = Py_NewRef(out);
    return FR_VALUE_OK;
}

/* What the engine does not do, NumPy does. FR_N_STATUS stands for an exception that is set already. */
static int
failed(fr_status st, const struct fr_err *err)
{
    if (st == FR_ENOTSUP)
        return FR_VALUE_FALLBACK;
    if (st != FR_N_STATUS)
        fr_errors_raise(st, err);
    return FR_VALUE_ERROR;
}

static int
dtype_of_request(const struct fr_request *q, fr_dtype *d)
{
    int st = fr_trace_at_once && !fr_args_none(q->dtype) ? 0 /* how often it warns depends on NumPy's buffers */
                                                         : fr_numpy_to_dtype(q->dtype, FR_N_DTYPES, d);

    return st > 0 ? FR_VALUE_OK : st < 0 ? FR_VALUE_ERROR : FR_VALUE_FALLBACK;
}

/* ---- where= and initial= */

/* initial= as a number of the dtype d that NumPy takes without a word; FALLBACK otherwise. */
static int
initial_of(PyObject *o, fr_dtype d, struct fr_arg *arg)
{
    struct fr_value x[2];
    struct fr_tensor  like = {.dtype = d};
    int               st;

    if (!PyLong_CheckExact(o) && !PyFloat_CheckExact(o))
        return FR_VALUE_FALLBACK;
    st = fr_value_get(o, false, &x[1]);
    if (st != FR_VALUE_OK || fr_dtype_promote_weak(d, x[1].arg.n.weak) != d)
        return FR_VALUE_FALLBACK;
    x[0].arg.t = &like;
    st = fr_value_fit(FR_OP_maximum, x, 2);
    *arg = x[1].arg;
    if (st == FR_VALUE_ERROR)
        PyErr_Clear(); /* NumPy finds its own words */
    return st == FR_VALUE_OK ? st : FR_VALUE_FALLBACK;
}

/* The masked elements replaced by what does not matter to the reduction, traced. */
static int
apply_where(struct subject *s, PyObject *where, const struct fr_arg *neutral)
{
    struct fr_value mask;
    struct fr_tensor  t;
    struct fr_arg     args[3];
    struct fr_err     err;
    fr_status         fst;
    int               st = fr_value_tensor(where, &mask);

    if (st != FR_VALUE_OK)
        return st;
    if (mask.arg.t->dtype != FR_BOOL || mask.arg.t->layout->ndim > s->ndim) {
        fr_value_clear(&mask);
        return FR_VALUE_FALLBACK;
    }
    args[0] = mask.arg;
    args[1].t = s->t;
    args[2] = *neutral;
    fst = fr_trace_map(FR_OP_where, args, 3, &t, &err);
    fr_value_clear(&mask);
    if (fr_errors_check(fst, &err) < 0)
        return FR_VALUE_ERROR;
    /* A mask that makes the array larger is NumPy's. */
    if (t.layout->n_elems != s->t->layout->n_elems || t.layout->ndim != s->t->layout->ndim) {
        fr_tensor_clear(&t);
        return FR_VALUE_FALLBACK;
    }
    if (t.layout->n_elems == 0) { /* nothing to mask, and what is made anew forgets the order of the axes */
        fr_tensor_clear(&t);
        return FR_VALUE_OK;
    }
    if (s->window.storage)
        fr_tensor_clear(&s->window);
    s->window = t;
    s->t = &s->window;
    return FR_VALUE_OK;
}

static bool
order_is_free(fr_op op, fr_dtype d)
{
    return !(fr_op_info[op].flags & FR_OPF_ORDERED) || d < FR_F16;
}

/* Prepares where= and initial=; *initial is set where it has to be joined to the result. */
static int
prepare(struct subject *s, fr_op op, const struct fr_request *q, struct fr_arg *initial, bool *joined)
{
    fr_dtype      d = s->t->dtype, result = fr_op_result(op, d);
    struct fr_arg neutral = {.t = NULL, .n = {.dtype = FR_I64, .weak = 'i'}};
    int           st;

    *joined = false;
    if (!q->initial && (!q->where || q->where == Py_True))
        return FR_VALUE_OK;
    if (q->initial == Py_None || !order_is_free(op, d) || s->ndim != s->t->layout->ndim)
        return FR_VALUE_FALLBACK;
    if (q->initial) {
        st = initial_of(q->initial, result, initial);
        if (st != FR_VALUE_OK)
            return st;
        *joined = true;
    }
    if (!q->where || q->where == Py_True)
        return FR_VALUE_OK;
    if (fr_op_picks(op)) {
        if (!q->initial)
            return FR_VALUE_FALLBACK;
        neutral = *initial;
    } else {
        neutral.n.v.i64 = fr_op_info[op].identity == FR_IDENTITY_one;
    }
    if ((d == FR_BOOL || fr_op_info[op].rule == FR_RULE_TRUTH) && neutral.n.weak != 'b') {
        neutral.n.dtype = FR_BOOL;
        neutral.n.weak = 'b';
        neutral.n.v.i64 = neutral.n.v.i64 != 0;
    }
    return apply_where(s, q->where, &neutral);
}

static fr_status
join_initial(fr_op op, struct fr_tensor *t, const struct fr_arg *initial, struct fr_err *err)
{
    struct fr_tensor joined;
    struct fr_arg    args[2] = {*initial, {.t = t}};   /* it comes first: of equals, the first is taken */
    fr_status        st = fr_trace_map(fr_op_info[op].combine, args, 2, &joined, err);

    fr_tensor_clear(t);
    if (st == FR_OK)
        *t = joined;
    return st;
}

/* ---- sum prod max min any all */

int
fr_reduce_trace_reduce(fr_op op, const struct fr_request *q, PyObject **result)
{
    struct subject   s;
    struct fr_arg    initial;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        fst;
    fr_dtype         d;
    bool             joined = false;
    int              st = dtype_of_request(q, &d);

    if (st == FR_VALUE_OK)
        st = subject_get(&s, q);
    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    /* A sum in bool is a logical or. */
    if (((q->initial || q->where) && d != FR_N_DTYPES) || d == FR_BOOL)
        st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK)
        st = prepare(&s, op, q, &initial, &joined);
    if (st == FR_VALUE_OK && !order_is_free(op, d == FR_N_DTYPES ? s.t->dtype : d) && out_turns(&s, q->out))
        st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK && joined && fr_op_picks(op) && s.t->layout->n_elems == 0)
        st = FR_VALUE_FALLBACK; /* nothing but the initial value */
    if (st == FR_VALUE_OK) {
        fst = fr_trace_reduce(op, s.t, s.axes, s.keepdims, d, &t, &err);
        if (fst == FR_OK && joined)
            fst = join_initial(op, &t, &initial, &err);
        st = fst == FR_OK ? finish(&t, q->out, result) : failed(fst, &err);
    }
    subject_clear(&s);
    return st;
}

/* ---- argmax argmin */

/* The one axis that is asked for. None is all elements in C order, which *a, unless it has one axis, becomes as *flat. */
static fr_status
one_axis(const struct fr_request *q, const struct fr_tensor **a, struct fr_tensor *flat, int *axis, struct fr_err *err)
{
    const struct fr_tensor *whole = *a;
    int                     ndim = whole->layout->ndim;
    int64_t                 n = whole->layout->n_elems;
    bool                    all = fr_args_none(q->axis);

    *axis = 0;
    if (!all && fr_args_axis(q->axis, ndim ? ndim : 1, axis) < 0)
        return FR_N_STATUS;
    if (ndim == 1 || (ndim > 1 && !all))
        return FR_OK;
    *a = flat;
    return fr_tensor_reshape(whole, 1, &n, flat, err);
}

int
fr_reduce_trace_arg(fr_op op, const struct fr_request *q, PyObject **result)
{
    struct fr_value x;
    struct fr_tensor  flat = {.storage = NULL}, t;
    struct fr_err     err;
    fr_status         fst;
    bool              keepdims;
    int               axis, st = fr_value_tensor(q->a, &x);

    if (st != FR_VALUE_OK)
        return st;
    const struct fr_tensor *a = x.arg.t;
    int                     ndim = a->layout->ndim;
    int64_t                 ones[FR_MAX_DIMS];
    st = FR_VALUE_ERROR;
    if (fr_args_bool(q->keepdims, false, &keepdims) < 0)
        goto out;
    FR_TRACE_HERE();
    fst = one_axis(q, &a, &flat, &axis, &err);
    if (fst == FR_N_STATUS)
        goto out;
    if (fst == FR_OK)
        fst = fr_trace_reduce(op, a, 1u << axis, keepdims && a != &flat, FR_N_DTYPES, &t, &err);
    if (fr_errors_check(fst, &err) < 0)
        goto out;
    if (keepdims && a == &flat) {
        struct fr_tensor kept;
        for (int i = 0; i < ndim; i++)
            ones[i] = 1;
        fst = fr_tensor_reshape(&t, ndim, ones, &kept, &err);
        fr_tensor_clear(&t);
        if (fr_errors_check(fst, &err) < 0)
            goto out;
        t = kept;
    }
    st = finish(&t, q->out, result);
out:
    if (flat.storage)
        fr_tensor_clear(&flat);
    fr_value_clear(&x);
    return st;
}

/* ---- mean var std */

/* Whether there are too few elements for a mean (or a variance of fewer degrees of freedom) of them: NumPy has the words
 * for it. */
static bool
too_few(const struct subject *s, double ddof)
{
    int64_t n = 1;

    for (int k = 0; k < s->t->layout->ndim; k++)
        n *= s->axes >> k & 1 ? fr_layout_dims(s->t->layout)[k] : 1;
    return (double)n <= ddof;
}

/* Unlike the others, these want an axis to be there, also for a single element. */
static int
subject_get_strict(struct subject *s, const struct fr_request *q)
{
    int st = subject_get(s, q), axis;

    if (st != FR_VALUE_OK || s->ndim || fr_args_none(q->axis) || PyTuple_Check(q->axis))
        return st;
    fr_args_axis(q->axis, 0, &axis); /* raises */
    subject_clear(s);
    return FR_VALUE_ERROR;
}

static int
ddof_of(const struct fr_request *q, double *ddof)
{
    PyObject *o = q->ddof ? q->ddof : q->correction;

    *ddof = 0;
    if (q->correction && q->ddof && !PyLong_CheckExact(q->ddof)) {
        PyErr_SetString(PyExc_ValueError, "ddof and correction can't be provided simultaneously.");
        return -1;
    }
    if (q->correction && q->ddof) {
        if (PyLong_AsLong(q->ddof) != 0) {
            PyErr_SetString(PyExc_ValueError,
                            "ddof and correction can't be provided simultaneously.");
            return -1;
        }
        o = q->correction;
    }
    if (o) {
        *ddof = PyFloat_AsDouble(o);
        if (*ddof == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

int
fr_reduce_trace_moment(enum fr_moment moment, const struct fr_request *q, PyObject **result)
{
    bool             is_mean = moment == FR_MEAN;
    struct subject   s;
    struct fr_tensor t;
    struct fr_err    err;
    fr_status        fst;
    fr_dtype         d;
    double           ddof;
    int              st = dtype_of_request(q, &d);

    if (st == FR_VALUE_OK && ((q->where && q->where != Py_True) || q->mean || d == FR_BOOL ||
                              (!is_mean && d != FR_N_DTYPES && fr_dtype_is_complex(d))))
        st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK && ddof_of(q, &ddof) < 0)
        st = FR_VALUE_ERROR;
    if (st == FR_VALUE_OK)
        st = subject_get_strict(&s, q);
    if (st != FR_VALUE_OK)
        return st;
    /* NumPy sums in another order then, or the mean in half precision. */
    if (out_turns(&s, q->out) || too_few(&s, ddof) || (is_mean && s.t->dtype == FR_F16 && !fr_args_none(q->out))) {
        subject_clear(&s);
        return FR_VALUE_FALLBACK;
    }
    FR_TRACE_HERE();
    fst = is_mean ? fr_trace_mean(s.t, s.axes, s.keepdims, d, &t, &err)
                  : fr_trace_var(s.t, s.axes, s.keepdims, d, ddof, moment == FR_STD, &t, &err);
    st = fst == FR_OK ? finish(&t, q->out, result) : failed(fst, &err);
    subject_clear(&s);
    return st;
}

/* ---- ptp, count_nonzero, scans */

int
fr_reduce_trace_ptp(const struct fr_request *q, PyObject **result)
{
    struct subject   s;
    struct fr_tensor most = {.storage = NULL}, least = {.storage = NULL}, t;
    struct fr_arg    args[2] = {{.t = &most}, {.t = &least}};
    struct fr_err    err;
    fr_status        fst;
    int              st = fr_args_none(q->out) ? subject_get(&s, q) : FR_VALUE_FALLBACK;

    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    fst = fr_trace_reduce(FR_OP_max, s.t, s.axes, s.keepdims, FR_N_DTYPES, &most, &err);
    if (fst == FR_OK)
        fst = fr_trace_reduce(FR_OP_min, s.t, s.axes, s.keepdims, FR_N_DTYPES, &least, &err);
    fr_trace_site |= FR_SITE_UFUNC;
    if (fst == FR_OK)
        fst = fr_trace_map(FR_OP_subtract, args, 2, &t, &err);
    st = fst == FR_OK ? finish(&t, NULL, result) : failed(fst, &err);
    if (most.storage)
        fr_tensor_clear(&most);
    if (least.storage)
        fr_tensor_clear(&least);
    subject_clear(&s);
    return st;
}

int
fr_reduce_trace_count(const struct fr_request *q, PyObject **result)
{
    struct subject   s;
    struct fr_tensor truth = {.storage = NULL}, t;
    struct fr_err    err;
    fr_status        fst;
    int              st = subject_get(&s, q);
    bool             casts;

    if (st != FR_VALUE_OK)
        return st;
    FR_TRACE_HERE();
    casts = s.t->dtype != FR_BOOL; /* laid out like a copy then, as NumPy counts */
    fst = casts ? fr_trace_cast(s.t, FR_BOOL, 'K', &truth, &err) : FR_OK;
    if (fst == FR_OK)
        fst = fr_trace_reduce(FR_OP_sum, casts ? &truth : s.t, s.axes, s.keepdims, FR_I64, &t, &err);
    fr_tensor_clear(&truth);
    st = fst == FR_OK ? finish(&t, NULL, result) : failed(fst, &err);
    subject_clear(&s);
    return st;
}

int
fr_reduce_trace_scan(fr_op op, const struct fr_request *q, PyObject **result)
{
    struct fr_value x;
    struct fr_tensor  flat = {.storage = NULL}, t;
    struct fr_err     err;
    fr_status         fst;
    fr_dtype          d;
    int               axis, st = dtype_of_request(q, &d);

    if (st == FR_VALUE_OK && d == FR_BOOL)
        st = FR_VALUE_FALLBACK;
    if (st == FR_VALUE_OK)
        st = fr_value_tensor(q->a, &x);
    if (st != FR_VALUE_OK)
        return st;
    const struct fr_tensor *a = x.arg.t;
    FR_TRACE_HERE();
    fst = one_axis(q, &a, &flat, &axis, &err);
    if (fst == FR_OK)
        fst = fr_trace_scan(op, a, axis, d, &t, &err);
    st = fst == FR_OK ? finish(&t, q->out, result) : failed(fst, &err);
    if (flat.storage)
        fr_tensor_clear(&flat);
    fr_value_clear(&x);
    return st;
}
