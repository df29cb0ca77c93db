/* Tracing of reductions and scans, and of what is made of several operations, mean and var. ir/build.c knows who can
 * add up in NumPy's order. See csrc/NUMERICS.md. */
#include "runtime/storage.h"

enum { STEADY_COUNT = 64 };

/* Gives the reduced result back its axes of size 1. */
static fr_status
keep_dims(struct fr_tensor *t, const struct fr_layout *from, uint32_t axes, struct fr_err *err)
{
    int64_t          dims[FR_MAX_DIMS], strides[FR_MAX_DIMS];
    struct fr_tensor window;
    fr_status        st;

    fr_build_keep_dims(t->layout, from->ndim, axes, dims, strides);
    if ((st = fr_tensor_window(t, from->ndim, dims, strides, 0, &window, err)) == FR_OK) {
        fr_tensor_clear(t);
        *t = window;
    }
    return st;
}

/* A sum of converted elements, which NumPy adds up chunk by chunk, and the sums of the chunks one after the other. The
 * reduced axes follow each other in memory, and at most one is kept. */
static fr_status
sum_in_chunks(const struct fr_tensor *t, uint32_t axes, fr_dtype dtype, struct fr_tensor *out, struct fr_err *err)
{
    const int64_t   *own = fr_layout_dims(t->layout), *own_strides = fr_layout_strides(t->layout);
    int64_t          n = fr_build_reduced_count(t->layout, axes), n_chunks = n / FR_NUMPY_BUFFER;
    int64_t          dims[3], strides[3], step = 0;
    int              perm[FR_MAX_DIMS], kept = 0;
    struct fr_tensor rows = {0}, sums = {0}, running = {0}, last = {0}, rest = {0}, tail = {0};
    fr_status        st;

    fr_build_walk_order(t->layout, perm);
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
reduce_in_chunks(const struct fr_tensor *t, uint32_t axes, bool keepdims, const struct fr_reduction *r,
                 struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_layout *l = r->layout;
    struct fr_tensor        flat = {0}, got;
    fr_status               st;

    TRY(sum_in_chunks(t, axes, r->compute, &flat, err));
    TRY(fr_tensor_reshape(&flat, l->ndim, fr_layout_dims(l), &got, err));
    if (keepdims && (st = keep_dims(&got, t->layout, axes, err)) != FR_OK)
        fr_tensor_clear(&got);
    else
        *out = got;
out:
    fr_tensor_clear(&flat);
    return st;
}

/* The node of a reduction that reads t as it lies. */
static fr_status
reduce_node(fr_op op, const struct fr_tensor *t, uint32_t axes, bool keepdims, const struct fr_reduction *r,
            struct fr_tensor *out, struct fr_err *err)
{
    struct fr_tensor got;
    fr_ref           arg, id;
    fr_status        st;

    if ((st = fr_trace_arg(t, r->compute, op, &arg, err)) != FR_OK)
        return st;
    fr_nodes[arg].refs++;
    id = fr_trace_node(op, r->result, fr_layout_ref(r->layout), err);
    fr_elems_made += (uint64_t)t->layout->n_elems;
    fr_arrays_made += t->layout->ndim > 0 && r->layout->ndim == 0; /* an operation on an array */
    if (!id) {
        fr_node_unref(arg);
        return FR_ENOMEM;
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

fr_status
fr_trace_reduce(fr_op op, const struct fr_tensor *t, uint32_t axes, bool keepdims, fr_dtype dtype,
                struct fr_tensor *out, struct fr_err *err)
{
    struct fr_reduction r;
    struct fr_tensor    copy;
    fr_status           st;

    if ((st = fr_build_reduce(op, t->dtype, t->layout, axes, dtype, &r, err)) != FR_OK)
        return st;
    switch (r.order) {
    case FR_SUM_OURS: st = reduce_node(op, t, axes, keepdims, &r, out, err); break;
    case FR_SUM_CHUNKS: st = reduce_in_chunks(t, axes, keepdims, &r, out, err); break;
    case FR_SUM_NUMPY:
        st = fr_fail(err, FR_ENOTSUP, "%s in the order of NumPy's buffered iterator", fr_op_info[op].name);
        break;
    default:
        if ((st = fr_trace_cast(t, t->dtype, r.order == FR_SUM_COPY_C ? 'C' : 'I', &copy, err)) != FR_OK)
            break;
        st = fr_trace_reduce(op, &copy, axes, keepdims, dtype, out, err);
        fr_tensor_clear(&copy);
    }
    fr_layout_unref(r.layout);
    return st;
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
    return !(axes & 1) && fr_build_reduced_count(t->layout, axes) <= STEADY_COUNT;
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
    TRY(divide_by(&s, (double)fr_build_reduced_count(t->layout, axes), few_and_steady(t, axes),
                  sum < FR_F16 ? FR_F64 : sum, err));
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
    double           n = (double)fr_build_reduced_count(t->layout, axes), free_n = n - ddof > 0 ? n - ddof : 0;
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
    fr_dtype          result = fr_build_scan(op, t->dtype, dtype);
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
