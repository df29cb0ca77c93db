/* bind/hot/hot_array_run.c -- see hot_run.h: operations on arrays of few elements. What lies apart is gathered first, so
 * that each is one call of a block kernel over elements side by side. */
#include "bind/hot/hot_run.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/call.h"
#include "base/alloc.h"
#include "base/fpe.h"
#include "runtime/judge.h"

/* ---- the log */

bool
fr_hot_log_add(struct fr_hot_log *log, char *at, int32_t size)
{
    struct fr_hot_old *o;

    if (FR_UNLIKELY(log->n >= log->cap) && (log->n >= FR_HOT_MOST_STORES || !FR_GROW(log->v, log->cap, log->n + 1)))
        return false;
    o = &log->v[log->n];
    *o = (struct fr_hot_old){.at = at, .size = size};
    if (size > (int32_t)sizeof o->bits) {
        if (log->n_bytes + (size_t)size > FR_HOT_MOST_BYTES || !FR_GROW(log->bytes, log->cap_bytes, log->n_bytes + (size_t)size))
            return false;
        memcpy(log->bytes + log->n_bytes, at, (size_t)size);
        o->bits = log->n_bytes;
        log->n_bytes += (size_t)size;
    } else if (size > 0) {
        memcpy(&o->bits, at, (size_t)size);
    }
    log->n++;
    return true;
}

void
fr_hot_log_undo(const struct fr_hot_log *log)
{
    for (size_t i = log->n; i-- > 0;) {
        const struct fr_hot_old *o = &log->v[i];

        if (o->size <= FR_HOT_REPLACED) {
            if (PyList_SetItem((PyObject *)o->at, FR_HOT_REPLACED - o->size, (PyObject *)(uintptr_t)o->bits) < 0)
                PyErr_Clear(); /* (others made it shorter) */
        } else if (o->size == FR_HOT_LISTED) {
            PyObject *list = (PyObject *)o->at;

            if (PyList_GET_SIZE(list) > 0 && PyList_SetSlice(list, PyList_GET_SIZE(list) - 1, PyList_GET_SIZE(list), NULL) < 0)
                PyErr_Clear(); /* (what is taken out is no user's object: nothing is called) */
        } else {
            memcpy(o->at, o->size > (int32_t)sizeof o->bits ? log->bytes + o->bits : (const char *)&o->bits, (size_t)o->size);
        }
    }
}

void
fr_hot_log_forget(const struct fr_hot_log *log)
{
    for (size_t i = 0; i < log->n; i++)
        if (log->v[i].size <= FR_HOT_REPLACED)
            Py_DECREF((PyObject *)(uintptr_t)log->v[i].bits);
}

void
fr_hot_log_free(struct fr_hot_log *log)
{
    fr_free(log->v);
    fr_free(log->bytes);
}

/* Remembers all of a window. */
static bool
log_view(struct fr_hot_log *log, const struct fr_hot_view *v, int ndim, int size)
{
    const int64_t *dim = v->dim, *stride = v->stride;

    if (ndim == 0)
        return fr_hot_log_add(log, v->data, size);
    if (ndim == 1 && stride[0] == size)
        return dim[0] == 0 || fr_hot_log_add(log, v->data, (int32_t)(dim[0] * size));
    for (int64_t i = 0; i < dim[0]; i++) {
        struct fr_hot_view part = {.data = v->data + i * stride[0]};

        for (int k = 1; k < ndim; k++) {
            part.dim[k - 1] = dim[k];
            part.stride[k - 1] = stride[k];
        }
        if (!log_view(log, &part, ndim - 1, size))
            return false;
    }
    return true;
}

/* ---- arrays that are made */

static bool
is_like(PyObject *array, fr_dtype d, int ndim, const int64_t *dims)
{
    PyArrayObject *a = fr_array(array);

    if (!PyArray_IS_C_CONTIGUOUS(a) || PyArray_NDIM(a) != ndim || PyArray_DESCR(a) != (PyArray_Descr *)fr_numpy_descrs[d])
        return false;
    for (int k = 0; k < ndim; k++)
        if (PyArray_DIM(a, k) != dims[k])
            return false;
    return true;
}

/* Takes a reference to an array or a list: its place, + 1; 0: memory is out, and it is let go of. */
static int32_t
take(struct fr_hot_run *run, PyObject *o, bool is_held)
{
    struct fr_hot_pool *p = &run->pool;
    size_t              k = p->first;

    while (k < p->n && p->v[k].array)
        k++;
    if (k == p->n && !FR_GROW(p->v, p->cap, p->n + 1)) {
        Py_DECREF(o);
        return 0;
    }
    p->n += k == p->n;
    p->first = k + 1;
    p->v[k].array = o;
    p->v[k].is_free = false;
    p->v[k].is_held = is_held;
    p->n_taken++;
    return (int32_t)k + 1;
}

/* view[to] becomes that array or list, whose reference is the run's from now on. */
static bool
give(struct fr_hot_run *run, PyObject *o, int to)
{
    int32_t made = take(run, o, false);

    if (!made)
        return false;
    fr_hot_read_any(o, &run->view[to]);
    run->view[to].made = made;
    return true;
}

static bool
make(struct fr_hot_run *run, fr_dtype d, int ndim, const int64_t *dims, int to)
{
    struct fr_hot_pool *p = &run->pool;
    npy_intp            sizes[FR_HOT_AXES];
    PyObject           *array;

    for (size_t k = 0; k < p->n; k++)
        if (p->v[k].is_free && is_like(p->v[k].array, d, ndim, dims)) {
            p->v[k].is_free = false;
            p->n_taken++;
            fr_hot_read_view(p->v[k].array, &run->view[to]);
            run->view[to].made = (int32_t)k + 1;
            return true;
        }
    for (int k = 0; k < ndim; k++)
        sizes[k] = (npy_intp)dims[k];
    array = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(fr_numpy_descrs[d]), ndim, sizes, NULL, NULL, 0, NULL);
    if (!array) {
        PyErr_Clear();
        return false;
    }
    return give(run, array, to);
}

void
fr_hot_pool_begin(const struct fr_hot_program *p, struct fr_hot_run *run)
{
    for (int i = 0; i < p->n_vars; i++)
        run->view[i].made = run->saved_view[i].made = 0;
    for (int i = FR_HOT_STACK_REGS; i < FR_HOT_TEMPORARY; i++)
        run->view[i].made = 0;
}

void
fr_hot_pool_look(const struct fr_hot_program *p, struct fr_hot_run *run, bool turns)
{
    struct fr_hot_pool *pool = &run->pool;

    for (size_t k = 0; k < pool->n; k++)
        pool->v[k].is_seen = false;
    for (int i = 0; i < p->n_vars; i++) {
        if (run->view[i].made)
            pool->v[run->view[i].made - 1].is_seen = true;
        if (!turns && run->saved_view[i].made)
            pool->v[run->saved_view[i].made - 1].is_seen = true;
    }
    for (int i = FR_HOT_STACK_REGS; i < FR_HOT_TEMPORARY; i++)
        if (run->view[i].made)
            pool->v[run->view[i].made - 1].is_seen = true;
    for (size_t k = 0; k < pool->n; k++) {
        if (!pool->v[k].array)
            continue;
        pool->v[k].is_free = !pool->v[k].is_seen && Py_REFCNT(pool->v[k].array) == 1 && PyArray_CheckExact(pool->v[k].array) &&
                             PyArray_CHKFLAGS(fr_array(pool->v[k].array), NPY_ARRAY_OWNDATA);
        /* Until a turn the log may lead to what was made; items of lists are held by these, or were replaced, and by the log. */
        if (!pool->v[k].is_seen && !pool->v[k].is_free && (turns || (pool->v[k].is_held && Py_REFCNT(pool->v[k].array) > 1)))
            Py_CLEAR(pool->v[k].array);
    }
    pool->n_taken = 0;
    pool->first = 0;
}

void
fr_hot_run_end(struct fr_hot_run *run)
{
    for (size_t k = 0; k < run->pool.n; k++)
        Py_XDECREF(run->pool.v[k].array);
    fr_free(run->pool.v);
    run->pool = (struct fr_hot_pool){.v = NULL};
}

/* ---- operands */

static void
write_number(const union fr_hot_cell *cell, fr_dtype d, char *to)
{
    float f = d == FR_F32 ? (float)cell->f : 0;

    memcpy(to, d == FR_F32 ? (const void *)&f : (const void *)cell, (size_t)fr_dtype_size(d)); /* (the machine is little-endian) */
}

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
        if (!is_in_order(v, m->arg[k].ndim) && m->arg[k].ndim > 0)
            return false;
    }
    *n = 1;
    for (int i = 0; i < m->ndim; i++)
        if (__builtin_mul_overflow(*n, dims[i], n))
            return false;
    return *n <= FR_HOT_ELEMENTS;
}

/* Argument k as the operation takes it; NULL: it cannot be. */
static char *
operand(struct fr_hot_run *run, const struct fr_hot_map *m, int k, int ndim, const int64_t *dims, int64_t n, char number[8])
{
    fr_dtype d = m->arg[k].dtype, as = m->arg[k].as;
    char    *at;

    if (m->arg[k].ndim == 0) {
        write_number(&run->reg[m->arg[k].reg], as, number);
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
        if (!make(run, m->to, m->ndim, dims, to))
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
    int64_t                   n = 1;
    char                      result[16], *at;

    for (int k = 0; k < ndim; k++)
        if (__builtin_mul_overflow(n, v->dim[k], &n))
            return false;
    if (n == 0 || n > FR_HOT_ELEMENTS || !is_in_order(v, ndim) || (ndim > 1 && !lies_together(v, ndim, size)))
        return false;
    at = gather(v, ndim, ndim, v->dim, size, run->scratch[0]);
    if (!fr_host_fold(m->op, (size_t)n, m->arg[0].dtype, at, result))
        return false;
    read_number(result, m->to, &run->reg[to]);
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
    int64_t                   n = 1, stride[FR_HOT_AXES], step;
    int                       size = fr_dtype_size(m->to), ndim = m->ndim;
    char                      number[8], *at;

    for (int k = 0; k < ndim; k++)
        if (__builtin_mul_overflow(n, v->dim[k], &n))
            return false;
    if (m->arg[0].ndim > 0 && (v->stride[0] < 0 || run->view[m->arg[0].reg].stride[0] < 0 ||
                               runs_into(v, &run->view[m->arg[0].reg], ndim, m->arg[0].ndim, fr_dtype_size(m->arg[0].dtype))))
        return false;
    if (n > FR_HOT_ELEMENTS || !v->writable || !(at = operand(run, m, 0, ndim, v->dim, n, number)) || !log_view(log, v, ndim, size))
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
    int64_t  dims[FR_HOT_AXES] = {0}, n = 1;
    fr_dtype d = (fr_dtype)in->c;
    int      size = fr_dtype_size(d);

    for (int k = 0; k < in->n; k++) {
        dims[k] = run->reg[in->b + k].i;
        if (dims[k] < 0 || __builtin_mul_overflow(n, dims[k], &n))
            return false;
    }
    if (n > FR_HOT_ELEMENTS || !make(run, d, in->n, dims, in->to))
        return false;
    for (int64_t i = 0; i < n; i++) /* a number's bits, in each element */
        memcpy(run->view[in->to].data + i * size, &in->i, (size_t)size);
    return true;
}

void
fr_hot_run_put(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    fr_dtype d = (fr_dtype)in->n;

    write_number(&run->reg[in->to], d, run->view[in->a].data + in->i * fr_dtype_size(d));
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
    if (!make(run, d, na + nb - 2, out, in->to))
        return false;
    steps[7] = na == 2 ? (nb == 2 ? n : 1) * size : 0;
    steps[8] = nb == 2 ? size : 0;
    ptr[0] = a.data;
    ptr[1] = b.data;
    ptr[2] = run->view[in->to].data;
    return fr_call_product(d, ptr, dims, steps);
}

bool
fr_hot_run_append(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = (uint8_t)(in->i & 0xff), .dtype = (uint8_t)(in->i >> 8 & 0xff), .ndim = in->n};
    PyObject                 *list = run->view[in->to].array, *o = fr_hot_boxed(&run->reg[in->a], &run->view[in->a], &type);
    bool                      ok = o && fr_hot_log_add(log, (char *)list, FR_HOT_LISTED);

    if (ok && PyList_Append(list, o) < 0) {
        log->n--;
        ok = false;
    }
    PyErr_Clear();
    Py_XDECREF(o);
    return ok;
}

bool
fr_hot_run_object(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = FR_HOT_ARRAY, .dtype = (uint8_t)in->c, .ndim = in->n};
    PyObject                 *array;

    if (!run->view[in->a].is_window)
        return true;
    if (!(array = fr_hot_boxed(NULL, &run->view[in->a], &type))) {
        PyErr_Clear();
        return false;
    }
    return give(run, array, in->a);
}

/* ---- draws, and calls of math */

void
fr_hot_draws_keep(struct fr_hot_run *run)
{
    memcpy(run->random_saved, run->random.draw->state, run->random.n_bytes);
    if (run->random.normal)
        run->normal_saved = *run->random.normal;
}

void
fr_hot_draws_undo(struct fr_hot_run *run)
{
    memcpy(run->random.draw->state, run->random_saved, run->random.n_bytes);
    if (run->random.normal)
        *run->random.normal = run->normal_saved;
}

bool
fr_hot_run_draw(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const union fr_hot_cell *first = &run->reg[in->a], *second = &run->reg[in->b];
    struct fr_hot_view      *v = &run->view[in->to];
    bitgen_t                *draw = run->random.draw;
    int64_t                  n = 1;

    for (int k = 0; k < in->c; k++)
        n *= v->dim[k];
    if (in->n == FR_HOT_NORMALS && !run->random.normal)
        return false;
    if (in->n == FR_HOT_RANDINTS && (first->i < INT32_MIN || second->i > INT32_MAX || first->i >= second->i))
        return false;
    for (int64_t k = 0; k < n; k++)
        switch (in->n) {
        case FR_HOT_RANDOMS: ((double *)v->data)[k] = draw->next_double(draw->state); break;
        case FR_HOT_UNIFORMS: ((double *)v->data)[k] = first->f + second->f * draw->next_double(draw->state); break;
        case FR_HOT_NORMALS: ((double *)v->data)[k] = first->f + second->f * fr_few_draw_normal(run->random.normal); break;
        default: ((int64_t *)v->data)[k] = first->i + fr_few_below(draw, second->i - first->i); break;
        }
    return true;
}

bool
fr_hot_run_math(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *arg[2] = {NULL, NULL}, *v = NULL;
    bool      ok;

    arg[0] = PyFloat_FromDouble(run->reg[in->a].f);
    if (arg[0] && in->n == 2)
        arg[1] = PyFloat_FromDouble(run->reg[in->b].f);
    if (arg[in->n - 1])
        v = PyObject_Vectorcall(in->function, arg, in->n, NULL);
    ok = v && PyFloat_CheckExact(v);
    if (ok)
        run->reg[in->to].f = PyFloat_AS_DOUBLE(v);
    PyErr_Clear();
    Py_XDECREF(v);
    Py_XDECREF(arg[0]);
    Py_XDECREF(arg[1]);
    return ok;
}

/* ---- functions of few elements */

static PyObject *
argument(const struct fr_hot_run *run, const struct fr_hot_few *few, const struct fr_hot_value *v)
{
    PyObject *tuple;

    if (v->kind != FR_HOT_TUPLE && v->kind != FR_HOT_DISPLAY)
        return fr_hot_boxed(&run->reg[v->reg], &run->view[v->reg], v);
    tuple = PyTuple_New(v->ndim);
    for (int k = 0; tuple && k < v->ndim; k++) {
        const struct fr_hot_value *item = &few->item[v->items + k];
        PyObject                  *o = fr_hot_boxed(&run->reg[item->reg], &run->view[item->reg], item);

        if (!o)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, k, o);
    }
    return tuple;
}

bool
fr_hot_run_few(struct fr_hot_run *run, const struct fr_hot_few *few, int to)
{
    PyObject           *arg[FR_HOT_FEW_ARGS], *v = NULL;
    struct fr_hot_value type;
    int                 n = 0;
    bool                ok = fr_fpe_raw() == 0; /* (the function lowers what was raised) */

    for (; ok && n < few->n; n += ok)
        ok = (arg[n] = argument(run, few, &few->arg[n])) != NULL;
    if (ok)
        v = few->call(arg, n, NULL);
    while (n-- > 0)
        Py_DECREF(arg[n]);
    if (v)
        fr_hot_type(v, &type);
    PyErr_Clear();
    if (!v || type.kind != few->to.kind || type.dtype != few->to.dtype || type.ndim != few->to.ndim || (type.kind == FR_HOT_ARRAY && Py_REFCNT(v) > 1)) {
        Py_XDECREF(v);
        return false;
    }
    if (type.kind == FR_HOT_ARRAY)
        return give(run, v, to);
    fr_hot_read_value(v, &type, &run->reg[to], &run->view[to]);
    Py_DECREF(v);
    return true;
}

/* ---- lists */

static bool
is_of_type(PyObject *o, int kind, int dtype, int ndim)
{
    struct fr_hot_value type;

    if (kind == FR_HOT_PYTHON && dtype == FR_F64)
        return PyFloat_CheckExact(o);
    if (kind == FR_HOT_LIST)
        return PyList_CheckExact(o);
    fr_hot_type(o, &type);
    return type.kind == kind && type.dtype == dtype && type.ndim == ndim;
}

/* The place of an index in a list; -1: it has none. */
static Py_ssize_t
place_of(PyObject *list, int64_t i)
{
    Py_ssize_t n = PyList_GET_SIZE(list);

    i += i < 0 ? n : 0;
    return i >= 0 && i < n ? (Py_ssize_t)i : -1;
}

bool
fr_hot_run_list_item(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = in->n, .dtype = (uint8_t)in->c, .ndim = (uint8_t)in->i};
    PyObject                 *list = run->view[in->a].array, *o;
    Py_ssize_t                i = place_of(list, run->reg[in->b].i);

    if (i < 0 || !is_of_type(o = PyList_GET_ITEM(list, i), type.kind, type.dtype, type.ndim))
        return false;
    fr_hot_read_value(o, &type, &run->reg[in->to], &run->view[in->to]);
    return true;
}

bool
fr_hot_run_hold(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    struct fr_hot_view *v = &run->view[in->a];
    int32_t             made = v->made ? v->made : take(run, Py_NewRef(v->array), true);

    v->made = made;
    return made != 0;
}

bool
fr_hot_run_list_store(struct fr_hot_run *run, struct fr_hot_log *log, const struct fr_hot_ins *in)
{
    const struct fr_hot_value type = {.kind = (uint8_t)(in->i & 0xff), .dtype = (uint8_t)(in->i >> 8 & 0xff), .ndim = in->n};
    PyObject                 *list = run->view[in->a].array, *old, *o;
    Py_ssize_t                i = place_of(list, run->reg[in->b].i);
    struct fr_hot_value       was;

    if (i < 0 || i >= INT32_MAX)
        return false;
    old = PyList_GET_ITEM(list, i);
    fr_hot_type(old, &was);
    if (was.kind == FR_HOT_OPAQUE || !(o = fr_hot_boxed(&run->reg[in->to], &run->view[in->to], &type))) { /* (else somebody's code may run) */
        PyErr_Clear();
        return false;
    }
    if (!fr_hot_log_add(log, (char *)list, FR_HOT_REPLACED - (int32_t)i)) {
        Py_DECREF(o);
        return false;
    }
    log->v[log->n - 1].bits = (uint64_t)(uintptr_t)old; /* its reference goes there */
    PyList_SET_ITEM(list, i, o);
    return true;
}

bool
fr_hot_run_new_list(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *list = PyList_New(0);

    if (list)
        return give(run, list, in->to);
    PyErr_Clear();
    return false;
}

bool
fr_hot_run_list_array(struct fr_hot_run *run, const struct fr_hot_ins *in)
{
    PyObject *list = run->view[in->a].array;
    int64_t   n = PyList_GET_SIZE(list);
    fr_dtype  d = (fr_dtype)in->c;

    if (n == 0 || n > FR_HOT_ELEMENTS || !make(run, d, 1, &n, in->to))
        return false;
    for (int64_t i = 0; i < n; i++) {
        PyObject            *o = PyList_GET_ITEM(list, i);
        struct fr_hot_value  type;
        union fr_hot_cell    cell;

        fr_hot_type(o, &type);
        if ((type.kind != FR_HOT_PYTHON && type.kind != FR_HOT_NUMPY) || type.dtype != d)
            return false;
        fr_hot_read_value(o, &type, &cell, NULL);
        write_number(&cell, d, run->view[in->to].data + i * fr_dtype_size(d));
    }
    return true;
}
