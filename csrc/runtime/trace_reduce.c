/* Tracing of reductions and scans: who can add up in NumPy's order, the layouts that NumPy gives results, and
 * what is made of several operations, mean and var. See csrc/README.md, "Numerics". */
#include "runtime/storage.h"

/* Axes of `l` in the order in which NumPy's iterator walks them, innermost first. */
static void
walk_order(const struct fr_layout *l, int *perm)
{
    const int64_t *strides = fr_layout_strides(l);

    fr_axes_inwards(l->ndim, fr_layout_dims(l), 1, &strides, perm);
}

/* The layout of a reduction's result without the axes in the mask. */
static struct fr_layout *
reduced_layout(const struct fr_layout *l, uint32_t axes, bool c_order)
{
    int64_t dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], full[FR_MAX_DIMS], step = 1;
    int     perm[FR_MAX_DIMS], n = 0;

    walk_order(l, perm);
    for (int i = 0; i < l->ndim; i++)
        if (!(axes >> perm[i] & 1)) {
            full[perm[i]] = step;
            step *= fr_layout_dims(l)[perm[i]];
        }
    for (int k = 0; k < l->ndim; k++)
        if (!(axes >> k & 1)) {
            dims[n] = fr_layout_dims(l)[k];
            strides[n++] = full[k];
        }
    return fr_layout_get(n, dims, c_order || step == 0 ? NULL : strides);
}

enum sum_order { ORDER_OURS, ORDER_COPY, ORDER_CHUNKS, ORDER_NUMPY };

enum { STEADY_COUNT = 64 };

/* Who can add up in NumPy's order: our kernels as it is, our kernels after a copy to dense memory, or chunk by chunk, as
 * NumPy's iterator cuts rows into buffers, or only NumPy (csrc/README.md, "Numerics"). */
static enum sum_order
sum_order(fr_op op, fr_dtype dtype, const struct fr_layout *l, uint32_t axes, bool cast)
{
    const int64_t *dims = fr_layout_dims(l), *strides = fr_layout_strides(l);
    int            perm[FR_MAX_DIMS], p = 0, i = 0, n_kept = 0;
    int64_t        first = 1, all = 1, size = 1, stride = 0;
    bool           more = false;

    if (l->n_elems == 0)
        return ORDER_OURS;
    walk_order(l, perm);
    for (; i < l->ndim; i++) {
        int ax = perm[i];

        if (dims[ax] == 1)
            continue;
        if (!(axes >> ax & 1))
            break;
        if (p == 0 || strides[ax] != size * stride) {
            p++;
            size = dims[ax];
            stride = strides[ax];
        } else {
            size *= dims[ax];
        }
        if (p == 1)
            first = size;
        all *= dims[ax];
    }
    if (p == 0)
        return ORDER_OURS;
    for (; i < l->ndim; i++) {
        more |= dims[perm[i]] != 1 && (axes >> perm[i] & 1);
        n_kept += dims[perm[i]] != 1;
    }
    /* Rows that are added up one after the other: a product goes on from row to row element by element,
     * and half precision is rounded once per row; the loop form says neither. */
    more |= p > 1 && first > FR_NUMPY_BUFFER / 2;
    if (more && (op == FR_OP_prod || dtype == FR_F16))
        return ORDER_NUMPY;
    if (p == 1 && !cast)
        return ORDER_OURS;
    if (cast && all > FR_NUMPY_BUFFER)
        return op == FR_OP_sum && dtype != FR_F16 && p == 1 && !more && n_kept <= 1 ? ORDER_CHUNKS : ORDER_NUMPY;
    if (cast)
        return ORDER_OURS;
    if (first > FR_NUMPY_BUFFER / 2)
        return ORDER_OURS;
    return all <= FR_NUMPY_BUFFER ? ORDER_COPY : ORDER_NUMPY;
}

/* True when adding up `n` elements of dtype `from` in float64 never rounds. */
static bool
sum_is_exact(fr_dtype from, fr_dtype to, int64_t n)
{
    if (fr_dtype_is_int(to) || to == FR_BOOL)
        return true;
    return to == FR_F64 && from < FR_F16 && fr_dtype_size(from) <= 4 &&
           n < 1ll << (53 - 8 * fr_dtype_size(from));
}

/* Gives the reduced result back its axes of size 1. */
static fr_status
keep_dims(struct fr_tensor *t, const struct fr_layout *from, uint32_t axes, struct fr_err *err)
{
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor window;
    fr_status        st;
    int              j = 0;

    for (int k = 0; k < from->ndim; k++) {
        bool gone = axes >> k & 1;

        dims[k] = gone ? 1 : fr_layout_dims(t->layout)[j];
        strides[k] = gone ? 0 : fr_layout_strides(t->layout)[j++];
    }
    if ((st = fr_tensor_window(t, from->ndim, dims, strides, 0, &window, err)) == FR_OK) {
        fr_tensor_clear(t);
        *t = window;
    }
    return st;
}

static int64_t
reduced_count(const struct fr_tensor *t, uint32_t axes)
{
    int64_t n = 1;

    for (int k = 0; k < t->layout->ndim; k++)
        if (axes >> k & 1)
            n *= fr_layout_dims(t->layout)[k];
    return n;
}

/* A sum of converted elements, which NumPy adds up chunk by chunk, and the sums of the chunks one after the other. The
 * reduced axes follow each other in memory, and at most one is kept. */
static fr_status
sum_in_chunks(const struct fr_tensor *t, uint32_t axes, fr_dtype dtype, struct fr_tensor *out, struct fr_err *err)
{
    const int64_t   *own = fr_layout_dims(t->layout), *own_strides = fr_layout_strides(t->layout);
    int64_t          n = reduced_count(t, axes), n_chunks = n / FR_NUMPY_BUFFER, dims[3], strides[3], step = 0;
    int              perm[FR_MAX_DIMS], kept = 0;
    struct fr_tensor rows = {0}, sums = {0}, running = {0}, last = {0}, rest = {0}, tail = {0};
    fr_status        st;

    walk_order(t->layout, perm);
    for (int i = t->layout->ndim; i-- > 0;) /* from outermost in */
        if (!(axes >> perm[i] & 1) && own[perm[i]] != 1) {
            dims[0] = own[perm[i]];
            strides[0] = own_strides[perm[i]];
            kept = 1;
        } else if (own[perm[i]] != 1) {
            step = own_strides[perm[i]];
        }
    dims[kept] = n_chunks;
    strides[kept] = step * FR_NUMPY_BUFFER;
    dims[kept + 1] = FR_NUMPY_BUFFER;
    strides[kept + 1] = step;
    TRY(fr_tensor_window(t, kept + 2, dims, strides, 0, &rows, err));
    TRY(fr_trace_reduce(FR_OP_sum, &rows, 1u << (kept + 1), false, dtype, &sums, err));
    TRY(fr_trace_scan(FR_OP_cumsum, &sums, kept, dtype, &running, err));
    own_strides = fr_layout_strides(running.layout);
    strides[0] = own_strides[0];
    TRY(fr_tensor_window(&running, kept, dims, strides, (n_chunks - 1) * own_strides[kept], &last, err));
    if (n % FR_NUMPY_BUFFER == 0) {
        TRY(fr_trace_cast(&last, dtype, 'C', out, err));
        goto out;
    }
    own_strides = fr_layout_strides(rows.layout);
    strides[0] = own_strides[0];
    dims[kept] = n % FR_NUMPY_BUFFER;
    strides[kept] = step;
    TRY(fr_tensor_window(t, kept + 1, dims, strides, n_chunks * FR_NUMPY_BUFFER * step, &rest, err));
    TRY(fr_trace_reduce(FR_OP_sum, &rest, 1u << kept, false, dtype, &tail, err));
    TRY(fr_trace_map(FR_OP_add, (struct fr_arg[]){{.t = &last}, {.t = &tail}}, 2, out, err));
out:
    fr_tensor_clear(&rows);
    fr_tensor_clear(&sums);
    fr_tensor_clear(&running);
    fr_tensor_clear(&last);
    fr_tensor_clear(&rest);
    fr_tensor_clear(&tail);
    return st;
}

/* The same with the axes, and in the layout, that the reduction's result has. */
static fr_status
reduce_in_chunks(const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype, struct fr_tensor *out,
                 struct fr_err *err)
{
    struct fr_tensor  flat = {0}, got;
    struct fr_layout *l = reduced_layout(t->layout, axes, false);
    fr_status         st;

    if (!l)
        return fr_no_memory(err, "a reduction");
    TRY(sum_in_chunks(t, axes, dtype, &flat, err));
    TRY(fr_tensor_reshape(&flat, l->ndim, fr_layout_dims(l), &got, err));
    if (keepdims && (st = keep_dims(&got, t->layout, axes, err)) != FR_OK)
        fr_tensor_clear(&got);
    else
        *out = got;
out:
    fr_layout_unref(l);
    fr_tensor_clear(&flat);
    return st;
}

fr_status
fr_trace_reduce(fr_op op, const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype,
                struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_op_info *info = &fr_op_info[op];
    fr_dtype                 result, compute = t->dtype;
    struct fr_layout        *l;
    struct fr_tensor         got;
    fr_ref                   arg, id;
    fr_status                st;
    char                     copy_order = 0;

    result = fr_op_result(op, t->dtype);
    if (info->rule == FR_RULE_SUM) {
        if (dtype != FR_N_DTYPES)
            result = dtype;
        compute = result; /* the loop form wants its operand in the accumulator's dtype */
    } else if (dtype != FR_N_DTYPES && info->rule == FR_RULE_SAME) {
        compute = result = dtype;
    } else if (info->rule == FR_RULE_TRUTH) {
        compute = FR_BOOL; /* anything but zero, NaN included, is true */
    }
    if (info->rule == FR_RULE_SAME && !fr_op_takes(op, compute)) /* the others compute in what they take */
        return fr_fail(err, FR_EUFUNC, "'%s' not supported for elements of %s", info->name, fr_dtype_name(t->dtype));
    if (fr_op_picks(op)) {
        for (int k = 0; k < t->layout->ndim; k++)
            if ((axes >> k & 1) && fr_layout_dims(t->layout)[k] == 0)
                return info->rule == FR_RULE_SAME
                           ? fr_fail(err, FR_EVALUE,
                                     "zero-size array to reduction operation %s which has no "
                                     "identity",
                                     fr_op_info[info->combine].name)
                           : fr_fail(err, FR_EVALUE,
                                     "attempt to get %s of an empty sequence", info->name);
    }
    if (info->rule == FR_RULE_INDEX && __builtin_popcount(axes) > 1 && !t->layout->c_contig)
        copy_order = 'C'; /* NumPy walks a flattened argmax in C order. */
    if (info->rule == FR_RULE_SUM && !sum_is_exact(t->dtype, compute, reduced_count(t, axes))) {
        switch (sum_order(op, compute, t->layout, axes, compute != t->dtype)) {
        case ORDER_OURS: break;
        case ORDER_COPY: copy_order = 'I'; break;
        case ORDER_CHUNKS: return reduce_in_chunks(t, axes, keepdims, compute, out, err);
        case ORDER_NUMPY:
            return fr_fail(err, FR_ENOTSUP, "%s in the order of NumPy's buffered iterator",
                           info->name);
        }
    }
    if (copy_order) {
        struct fr_tensor copy;

        if ((st = fr_trace_cast(t, t->dtype, copy_order, &copy, err)) != FR_OK)
            return st;
        st = fr_trace_reduce(op, &copy, axes, keepdims, dtype, out, err);
        fr_tensor_clear(&copy);
        return st;
    }
    if ((st = fr_trace_arg(t, compute, op, &arg, err)) != FR_OK)
        return st;
    fr_nodes[arg].refs++;
    l = reduced_layout(t->layout, axes, info->rule == FR_RULE_INDEX);
    id = l ? fr_trace_node(op, result, l, err) : FR_NO_NODE;
    if (!id) {
        fr_node_unref(arg);
        return fr_no_memory(err, "a reduction");
    }
    fr_nodes[id].n_args = 1;
    fr_nodes[id].u.axes = axes;
    fr_node_set_arg(id, 0, arg);
    fr_node_unref(arg);
    if ((st = fr_trace_finish(id, &got, err)) != FR_OK)
        return st;
    if (keepdims && (st = keep_dims(&got, t->layout, axes, err)) != FR_OK) {
        fr_tensor_clear(&got);
        return st;
    }
    *out = got;
    return FR_OK;
}

static struct fr_number
weak_float(double v)
{
    return (struct fr_number){.dtype = FR_F64, .weak = 'f', .v.f64 = v};
}

static fr_status
recast(struct fr_tensor *t, fr_dtype dtype, struct fr_err *err)
{
    struct fr_tensor got;
    fr_status        st;

    if (t->dtype == dtype)
        return FR_OK;
    if ((st = fr_trace_cast(t, dtype, 'K', &got, err)) == FR_OK) {
        fr_tensor_clear(t);
        *t = got;
    }
    return st;
}

/* Whether so many numbers along these axes of t are a window or channels, as they are at each call. A kernel
 * serves all counts, and another where they vary, as a batch along the first axis does, would be one more to
 * compile; and of many numbers the one division is little. */
static bool
few_and_steady(const struct fr_tensor *t, uint32_t axes)
{
    return !(axes & 1) && reduced_count(t, axes) <= STEADY_COUNT;
}

/* t becomes t / n of dtype `dtype`. NumPy divides by a typed count: in float64 (complex128), rounded
 * afterwards. Up to 2^24 a float32 holds the count, and dividing in float32 rounds to the same. So does the
 * product with the inverse of a power of two, if `may_invert`. */
static fr_status
divide_by(struct fr_tensor *t, double n, bool may_invert, fr_dtype dtype, struct fr_err *err)
{
    fr_dtype         wide = fr_dtype_is_complex(dtype) ? FR_C128 : FR_F64;
    bool             inverted;
    struct fr_arg    args[2] = {{.t = t}};
    struct fr_tensor q;
    fr_status        st;

    if (!(dtype == FR_F32 && n <= 1 << 24))
        if ((st = recast(t, wide, err)) != FR_OK)
            return st;
    inverted = may_invert && fr_number_invert(t->dtype, &n);
    args[1].n = weak_float(n);
    fr_trace_site |= dtype == FR_C64 ? FR_SITE_UFUNC : 0; /* of a number, too: the count is of no kind that its operators know */
    st = fr_trace_map(inverted ? FR_OP_multiply : FR_OP_divide, args, 2, &q, err);
    fr_trace_site &= ~FR_SITE_UFUNC;
    if (st != FR_OK)
        return st;
    fr_tensor_clear(t);
    *t = q;
    return recast(t, dtype, err);
}

fr_status
fr_trace_mean(const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype,
              struct fr_tensor *out, struct fr_err *err)
{
    fr_dtype         sum = dtype, result = dtype;
    struct fr_tensor s = {0};
    fr_status        st;

    /* As numpy.mean: integers in float64, half precision through float32. */
    if (dtype == FR_N_DTYPES) {
        result = t->dtype < FR_F16 ? FR_F64 : t->dtype;
        sum = t->dtype == FR_F16 ? FR_F32 : result;
    }
    TRY(fr_trace_reduce(FR_OP_sum, t, axes, keepdims, sum, &s, err));
    TRY(divide_by(&s, (double)reduced_count(t, axes), few_and_steady(t, axes), sum < FR_F16 ? FR_F64 : sum, err));
    TRY(recast(&s, result, err));
    *out = s;
    s.storage = NULL;
out:
    fr_tensor_clear(&s);
    return st;
}

fr_status
fr_trace_var(const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype, double ddof,
             bool take_sqrt, struct fr_tensor *out, struct fr_err *err)
{
    double           n = (double)reduced_count(t, axes), free_n = n - ddof > 0 ? n - ddof : 0;
    struct fr_tensor mean = {0}, dev = {0}, sq = {0}, var = {0};
    fr_dtype         work = dtype != FR_N_DTYPES ? dtype : t->dtype < FR_F16 ? FR_F64 : t->dtype;
    fr_dtype         real = fr_dtype_info[work].component;
    fr_status        st;

    if (work < FR_F16)
        return fr_fail(err, FR_ENOTSUP, "var with an integer dtype");
    TRY(fr_trace_reduce(FR_OP_sum, t, axes, true, work, &mean, err));
    TRY(divide_by(&mean, n, few_and_steady(t, axes), work, err));
    TRY(fr_trace_map(FR_OP_subtract, (struct fr_arg[]){{.t = t}, {.t = &mean}}, 2, &dev, err));
    if (fr_dtype_is_complex(dev.dtype)) {
        struct fr_tensor part = {0}, squares[2] = {{0}};

        /* |dev|^2 as NumPy adds it up: real part squared, then the imaginary part's square. */
        for (int k = 0; k < 2 && st == FR_OK; k++) {
            st = fr_trace_map(k ? FR_OP_imag : FR_OP_real, (struct fr_arg[]){{.t = &dev}}, 1, &part, err);
            if (st == FR_OK)
                st = fr_trace_map(FR_OP_multiply, (struct fr_arg[]){{.t = &part}, {.t = &part}}, 2, &squares[k], err);
            fr_tensor_clear(&part);
        }
        if (st == FR_OK)
            st = fr_trace_map(FR_OP_add, (struct fr_arg[]){{.t = &squares[0]}, {.t = &squares[1]}}, 2, &sq, err);
        fr_tensor_clear(&squares[0]);
        fr_tensor_clear(&squares[1]);
        TRY(st);
    } else {
        fr_trace_site |= FR_SITE_INSTEAD;
        st = fr_trace_map(FR_OP_multiply, (struct fr_arg[]){{.t = &dev}, {.t = &dev}}, 2, &sq, err);
        fr_trace_site &= ~FR_SITE_INSTEAD;
        TRY(st);
    }
    TRY(fr_trace_reduce(FR_OP_sum, &sq, axes, keepdims, real, &var, err));
    TRY(divide_by(&var, free_n, few_and_steady(t, axes), real, err));
    if (take_sqrt)
        TRY(fr_trace_map(FR_OP_sqrt, (struct fr_arg[]){{.t = &var}}, 1, out, err));
    else
        fr_tensor_copy(&var, out);
out:
    fr_tensor_clear(&mean);
    fr_tensor_clear(&dev);
    fr_tensor_clear(&sq);
    fr_tensor_clear(&var);
    return st;
}

fr_status
fr_trace_scan(fr_op op, const struct fr_tensor *t, int axis, fr_dtype dtype, struct fr_tensor *out,
              struct fr_err *err)
{
    fr_dtype          result = dtype != FR_N_DTYPES ? dtype : fr_op_result(op, t->dtype);
    struct fr_layout *l, *const list[1] = {t->layout};
    fr_ref            arg, id;
    fr_status         st;

    if ((st = fr_trace_arg(t, result, FR_OP_cast, &arg, err)) != FR_OK)
        return st;
    fr_nodes[arg].refs++;
    st = fr_trace_layout(list, 1, "scan", &l, err);
    id = st == FR_OK ? fr_trace_node(op, result, l, err) : FR_NO_NODE;
    if (id) {
        fr_nodes[id].n_args = 1;
        fr_nodes[id].u.axes = (uint32_t)axis;
        fr_node_set_arg(id, 0, arg);
    }
    fr_node_unref(arg);
    return id ? fr_trace_finish(id, out, err) : st != FR_OK ? st : FR_ENOMEM;
}
