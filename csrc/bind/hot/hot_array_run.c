/* bind/hot/hot_array_run.c -- see hot_run.h: operations on arrays of few elements. What lies apart is gathered first, so
 * that each is one call of a block kernel over elements side by side. */
#include "bind/hot/hot_run.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/call.h"
#include "base/fpe.h"
#include "runtime/judge.h"

/* ---- operands */

static void
read_number(const char *from, fr_dtype d, union fr_hot_cell *to)
{
    union {
        int64_t  i64;
        int32_t  i32;
        int16_t  i16;
        int8_t   i8;
        uint32_t u32;
        uint16_t u16;
        uint8_t  u8;
        double   f64;
        float    f32;
    } v;

    memcpy(&v, from, (size_t)fr_dtype_size(d));
    switch (d) {
    case FR_F64: to->f = v.f64; break;
    case FR_F32: to->f = v.f32; break;
    case FR_I64: to->i = v.i64; break;
    case FR_I32: to->i = v.i32; break;
    case FR_I16: to->i = v.i16; break;
    case FR_I8: to->i = v.i8; break;
    case FR_U32: to->i = v.u32; break;
    case FR_U16: to->i = v.u16; break;
    default: to->i = v.u8; break;
    }
}

/* How many elements that is, in *n; false: too many. */
static bool
count(int ndim, const int64_t *dims, int64_t *n)
{
    *n = 1;
    for (int k = 0; k < ndim; k++)
        if (dims[k] < 0 || __builtin_mul_overflow(*n, dims[k], n))
            return false;
    return *n <= FR_HOT_ELEMENTS;
}

static bool
lies_together(const struct fr_hot_view *v, int ndim, int size)
{
    int64_t step = size;

    for (int k = ndim; k-- > 0; step *= v->dim[k])
        if (v->stride[k] != step && v->dim[k] != 1)
            return false;
    return true;
}

/* Whether NumPy would lay out a result as C does: the axes of its operands are in that order. */
static bool
is_in_order(const struct fr_hot_view *v, int ndim)
{
    int64_t last = INT64_MAX;

    for (int k = 0; k < ndim; k++) {
        if (v->dim[k] == 1)
            continue;
        if (v->stride[k] < 0 || v->stride[k] > last)
            return false;
        last = v->stride[k];
    }
    return true;
}

/* The elements of an array side by side, spread over dims: where they lie, or in `room`; NULL: they do not go there. */
static char *
gather(const struct fr_hot_view *v, int from, int ndim, const int64_t *dims, int size, char *room)
{
    int64_t to_stride[FR_HOT_AXES], stride[FR_HOT_AXES], step = size;
    bool    same = from == ndim;

    for (int k = ndim; k-- > 0; step *= dims[k]) {
        int axis = k - ndim + from;

        to_stride[k] = step;
        stride[k] = axis >= 0 && v->dim[axis] != 1 ? v->stride[axis] : 0;
        if (axis >= 0 && v->dim[axis] != dims[k]) {
            if (v->dim[axis] != 1)
                return NULL;
            same = false;
        }
    }
    if (from > ndim)
        return NULL;
    if (same && lies_together(v, ndim, size))
        return v->data;
    if (step > 0)
        fr_host_copy(size, ndim, dims, room, to_stride, v->data, stride);
    return room;
}

/* The dims of what operands are spread over; false: they do not go together, or are too many elements. */
static bool
spread(const struct fr_hot_run *run, const struct fr_hot_map *m, int64_t *dims, int64_t *n)
{
    for (int i = 0; i < m->ndim; i++)
        dims[i] = 1;
    for (int k = 0; k < m->n_args; k++) {
        const struct fr_hot_view *v = &run->view[m->arg[k].reg];

        for (int i = 0; i < m->arg[k].ndim; i++) {
            int64_t *d = &dims[m->ndim - m->arg[k].ndim + i];

            if (*d == 1)
                *d = v->dim[i];
            else if (v->dim[i] != 1 && v->dim[i] != *d)
                return false;
        }
        if (!is_in_order(v, m->arg[k].ndim))
            return false;
    }
    return count(m->ndim, dims, n);
}

/* Argument k as the operation takes it; NULL: it cannot be. */
static char *
operand(struct fr_hot_run *run, const struct fr_hot_map *m, int k, int ndim, const int64_t *dims, int64_t n, char number[8])
{
    fr_dtype d = m->arg[k].dtype, as = m->arg[k].as;
    char    *at;

    if (m->arg[k].ndim == 0) {
        fr_hot_write_number(&run->reg[m->arg[k].reg], as, number);
        return number;
    }
    at = gather(&run->view[m->arg[k].reg], m->arg[k].ndim, ndim, dims, fr_dtype_size(d), run->scratch[2 * k]);
    if (!at || d == as || n == 0)
        return at;
    return fr_host_map(FR_OP_cast, (size_t)n, &d, 1, &at, 0, as, run->scratch[2 * k + 1]) ? run->scratch[2 * k + 1] : NULL;
}

static bool
are_finite(const char *at, int64_t n, fr_dtype d)
{
    if (d == FR_F64) {
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(((const double *)at)[i]))
                return false;
    } else if (d == FR_F32) {
        for (int64_t i = 0; i < n; i++)
            if (!isfinite(((const float *)at)[i]))
                return false;
    }
    return true;
}

bool
fr_hot_run_map(struct fr_hot_run *run, const struct fr_hot_map *m, int to)
{
    int64_t  dims[FR_HOT_AXES], n;
    char     number[FR_HOST_ARGS][8], *at[FR_HOST_ARGS], result[16], *out = result;
    fr_dtype dtype[FR_HOST_ARGS];
    unsigned once = 0, raised = fr_fpe_raw();
    bool     is_costly = fr_op_info[m->op].flags & FR_OPF_COSTLY;

    if (!spread(run, m, dims, &n) || (is_costly && fr_judge_unseen))
        return false;
    for (int k = 0; k < m->n_args; k++) {
        if (!(at[k] = operand(run, m, k, m->ndim, dims, n, number[k])))
            return false;
        dtype[k] = m->arg[k].as;
        once |= (unsigned)(m->ndim > 0 && m->arg[k].ndim == 0) << k;
    }
    if (m->ndim > 0) { /* (an operand's register may be that of the result) */
        if (!fr_hot_make(run, m->to, m->ndim, dims, to))
            return false;
        out = run->view[to].data;
    }
    if (m->op == FR_OP_cast && dtype[0] == m->to && !once)
        memcpy(out, at[0], (size_t)n * (size_t)fr_dtype_size(m->to));
    else if (n > 0 && !fr_host_map(m->op, (size_t)n, dtype, m->n_args, at, once, m->to, out))
        return false;
    if (is_costly && FR_UNLIKELY(fr_fpe_raw() != raised) && raised == 0 && are_finite(out, n, m->to))
        fr_fpe_lower(); /* a polynomial's: NumPy warns where a result is none */
    if (m->ndim == 0)
        read_number(result, m->to, &run->reg[to]);
    return true;
}

bool
fr_hot_run_fold(struct fr_hot_run *run, const struct fr_hot_map *m, int to)
{
    const struct fr_hot_view *v = &run->view[m->arg[0].reg];
    int                       ndim = m->arg[0].ndim, size = fr_dtype_size(m->arg[0].dtype);
    int64_t                   n;
    char                      result[16], *at;

    if (!count(ndim, v->dim, &n) || n == 0 || !is_in_order(v, ndim) || (ndim > 1 && !lies_together(v, ndim, size)))
        return false;
    at = gather(v, ndim, ndim, v->dim, size, run->scratch[0]);
    if (!fr_host_fold(m->op, (size_t)n, m->arg[0].dtype, at, result))
        return false;
    read_number(result, m->to, &run->reg[to]);
    return true;
}

bool
fr_hot_run_fold_axis(struct fr_hot_run *run, const struct fr_hot_map *m, int axis, int to)
{
    const struct fr_hot_view v = run->view[m->arg[0].reg];
    fr_dtype                 d = m->arg[0].dtype, both[2] = {d, d};
    int                      size = fr_dtype_size(d);
    int64_t                  rows = v.dim[0], columns = v.dim[1], n;
    char                    *out, *at[2];

    /* (One column NumPy adds up as a row.) */
    if (rows == 0 || columns < 2 || !count(2, v.dim, &n) || !lies_together(&v, 2, size) || !fr_hot_make(run, m->to, 1, &v.dim[1 - axis], to))
        return false;
    out = run->view[to].data;
    if (axis == 1) {
        for (int64_t i = 0; i < rows; i++)
            if (!fr_host_fold(m->op, (size_t)columns, d, v.data + i * columns * size, out + i * size))
                return false;
        return true;
    }
    memcpy(out, v.data, (size_t)(columns * size));
    at[0] = out;
    for (int64_t i = 1; i < rows; i++) {
        at[1] = v.data + i * columns * size;
        if (!fr_host_map(fr_op_info[m->op].combine, (size_t)columns, both, 2, at, 0, d, out))
            return false;
    }
    return true;
}

/* Whether NumPy copies element by element what it is about to overwrite: with another step than that with which it writes. */
static bool
runs_into(const struct fr_hot_view *to, const struct fr_hot_view *from, int ndim, int from_ndim, int size)
{
    const char *a = to->data, *b = from->data;
    int64_t     n = to->dim[0];

    if (ndim != 1 || from_ndim != 1 || from->dim[0] != n || n < 2 || to->stride[0] == from->stride[0])
        return false;
    return a < b + (n - 1) * from->stride[0] + size && b < a + (n - 1) * to->stride[0] + size;
}

bool
fr_hot_run_copy(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_map *m, int to)
{
    const struct fr_hot_view *v = &run->view[to];
    int64_t                   n, stride[FR_HOT_AXES], step;
    int                       size = fr_dtype_size(m->to), ndim = m->ndim;
    char                      number[8], *at;

    if (m->arg[0].ndim > 0 && (v->stride[0] < 0 || run->view[m->arg[0].reg].stride[0] < 0 ||
                               runs_into(v, &run->view[m->arg[0].reg], ndim, m->arg[0].ndim, fr_dtype_size(m->arg[0].dtype))))
        return false;
    if (!count(ndim, v->dim, &n) || !v->writable || !(at = operand(run, m, 0, ndim, v->dim, n, number)) ||
        (!fr_hot_is_new(run, v) && !fr_hot_log_view(log, v, ndim, size)))
        return false;
    step = m->arg[0].ndim == 0 ? 0 : size;
    for (int k = ndim; k-- > 0; step *= v->dim[k])
        stride[k] = step;
    if (n == 0 || (at == v->data && lies_together(v, ndim, size)))
        return true;
    if (m->arg[0].ndim > 0 && at == run->view[m->arg[0].reg].data) /* it may lie in what is written */
        at = memcpy(run->scratch[0], at, (size_t)(n * size));
    fr_host_copy(size, ndim, v->dim, v->data, v->stride, at, stride);
    return true;
}

bool
fr_hot_run_make(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    int64_t  dims[FR_HOT_AXES] = {0}, n;
    fr_dtype d = (fr_dtype)in->c;
    int      size = fr_dtype_size(d);

    for (int k = 0; k < in->n; k++)
        dims[k] = run->reg[in->b + k].i;
    if (!count(in->n, dims, &n) || !fr_hot_make(run, d, in->n, dims, in->to))
        return false;
    for (int64_t i = 0; i < n; i++) /* a number's bits, in each element */
        memcpy(run->view[in->to].data + i * size, &in->i, (size_t)size);
    return true;
}

void
fr_hot_run_put(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    fr_dtype d = (fr_dtype)in->n;

    fr_hot_write_number(&run->reg[in->to], d, run->view[in->a].data + in->i * fr_dtype_size(d));
}

/* Whether numpy.dot hands BLAS an operand where it lies. */
static bool
is_read_there(const struct fr_hot_view *v, int ndim, int size)
{
    struct fr_hot_view turned = {.dim = {v->dim[1], v->dim[0]}, .stride = {v->stride[1], v->stride[0]}};

    if (ndim == 2 && v->dim[0] > 1 && v->dim[1] > 1)
        return lies_together(v, ndim, size) || lies_together(&turned, ndim, size);
    for (int k = 0; k < ndim; k++)
        if (v->dim[k] > 1 && v->stride[k] <= 0)
            return false;
    return true;
}

/* Of dot (c), which copies what BLAS cannot read where it lies, or of matmul. */
bool
fr_hot_run_product(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    struct fr_hot_view a = run->view[in->a], b = run->view[in->b];
    fr_dtype           d = (fr_dtype)(in->i & 0xff);
    int                na = in->n & 3, nb = in->n >> 2, size = fr_dtype_size(d);
    int64_t            m = na == 2 ? a.dim[0] : 1, k = a.dim[na - 1], n = nb == 2 ? b.dim[1] : 1, out[2], dims[4] = {1, m, k, n};
    int64_t            steps[9] = {0, 0, 0, na == 2 ? a.stride[0] : 0, a.stride[na - 1], b.stride[0], nb == 2 ? b.stride[1] : 0};
    bool               is_dot = in->c;
    char              *ptr[3];

    if (b.dim[0] != k || m * n > FR_HOT_ELEMENTS || m <= 0 || n <= 0 || k <= 0 || !fr_call_product)
        return false;
    if (is_dot && (k == 1 || !is_read_there(&a, na, size) || !is_read_there(&b, nb, size)))
        return false;
    out[0] = na == 2 ? m : n;
    out[1] = n;
    if (!fr_hot_make(run, d, na + nb - 2, out, in->to))
        return false;
    steps[7] = na == 2 ? (nb == 2 ? n : 1) * size : 0;
    steps[8] = nb == 2 ? size : 0;
    ptr[0] = a.data;
    ptr[1] = b.data;
    ptr[2] = run->view[in->to].data;
    return fr_call_product(d, ptr, dims, steps);
}
