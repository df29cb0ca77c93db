/* Tracing of what is no loop nest: matrix products, takes.  Shapes, dtypes and layouts as NumPy has them.
 *
 * Each is a node, a group and a step of its own; what follows element by element is one kernel over its result. A
 * product is made whole: in panels of rows BLAS may give other bits. A take is not fused with its readers: that would
 * need a load through an index in every executor. */
#include <string.h>

#include "backends/host.h"
#include "runtime/choose.h"

/* A new CALL node over two handles, or one (b NULL). The layout's reference moves in, also on failure. */
static fr_status
call_node(fr_op op, const struct fr_tensor *a, const struct fr_tensor *b, int axis,
          struct fr_layout *layout, struct fr_tensor *out, struct fr_err *err)
{
    fr_ref    made[2] = {FR_NO_NODE, FR_NO_NODE}, id;
    fr_status st = FR_OK;

    TRY(fr_tensor_node(a, &made[0], err));
    fr_node_ref(made[0]);
    if (b) {
        TRY(fr_tensor_node(b, &made[1], err));
        fr_node_ref(made[1]);
    }
    id = fr_trace_node(op, a->dtype, layout, err);
    layout = NULL;
    if (!id)
        TRY(FR_ENOMEM);
    fr_nodes[id].n_args = b ? 2 : 1;
    fr_nodes[id].u.axes = (uint32_t)axis;
    for (int k = 0; k < 2 && made[k]; k++)
        fr_node_set_arg(id, k, made[k]);
    st = fr_trace_finish(id, out, err);
out:
    for (int k = 0; k < 2; k++)
        if (made[k])
            fr_node_unref(made[k]);
    fr_layout_unref(layout);
    return st;
}

/* t itself, or its values in another dtype in *cast: in C order, as NumPy's iterator copies a matrix. */
static fr_status
converted(const struct fr_tensor **t, fr_dtype dtype, struct fr_tensor *cast, struct fr_err *err)
{
    fr_status st;

    if ((*t)->dtype == dtype)
        return FR_OK;
    if ((st = fr_trace_cast(*t, dtype, 'C', cast, err)) == FR_OK)
        *t = cast;
    return st;
}

/* Data and parameters: memory, slices taken from it, what has been updated in place. Not what was computed
 * on the way. */
static bool
is_given(const struct fr_tensor *t)
{
    const struct fr_node *n = &fr_nodes[t->storage->node];

    return n->op == FR_OP_leaf || n->op == FR_OP_store || n->op == FR_OP_take;
}

fr_status
fr_trace_product(const struct fr_tensor *a, const struct fr_tensor *b, struct fr_layout *like, int order,
                 struct fr_tensor *out, struct fr_err *err)
{
    fr_dtype          dtype = fr_dtype_promote(a->dtype, b->dtype);
    struct fr_tensor  as_a = {0}, as_b = {0};
    struct fr_layout *l;
    int64_t           inner;
    fr_status         st;

    if ((st = fr_build_product(a->layout, b->layout, &l, err)) != FR_OK)
        return st;
    if ((st = fr_trace_together("matmul", (const struct fr_tensor *[]){a, b}, 2, err)) != FR_OK) {
        fr_layout_unref(l);
        return st;
    }
    if (like) {
        fr_layout_unref(l);
        l = fr_layout_ref(like);
    }
    inner = fr_layout_dims(a->layout)[a->layout->ndim - 1];
    if (inner > 1) /* else it is a multiplication (passes/outer.c) */
        st = fr_guard_products(l->n_elems * inner, is_given(a) && is_given(b), err);
    if (st == FR_OK && (st = converted(&a, dtype, &as_a, err)) == FR_OK)
        st = converted(&b, dtype, &as_b, err);
    if (st == FR_OK)
        st = call_node(FR_OP_matmul, a, b, order, l, out, err);
    else
        fr_layout_unref(l);
    fr_tensor_clear(&as_a);
    fr_tensor_clear(&as_b);
    return st;
}

fr_status
fr_trace_number_power(const struct fr_tensor *t, fr_dtype dtype, float exponent, struct fr_tensor *out, struct fr_err *err)
{
    struct fr_tensor cast = {0};
    int              bits;
    fr_status        st;

    memcpy(&bits, &exponent, sizeof bits);
    if ((st = converted(&t, dtype, &cast, err)) == FR_OK)
        st = call_node(FR_OP_number_power, t, NULL, bits, fr_layout_ref(t->layout), out, err);
    fr_tensor_clear(&cast);
    return st;
}

/* ---- take --------------------------------------------------------------------------------- */

/* An index array as it is read: runs along its last axis, in C order over the shape that it is broadcast to.
 * The run is the whole array where that has one stride. */
struct walk {
    const char *at;                    /* of the run */
    int         n_outer;
    int64_t     n, step;               /* of the run: elements, and bytes from one to the next */
    int64_t     dims[FR_MAX_DIMS], strides[FR_MAX_DIMS], index[FR_MAX_DIMS];     /* of the other axes */
};

static void
walk_begin(struct walk *w, const struct fr_tensor *t, const void *data, const struct fr_layout *over)
{
    int     size = fr_dtype_size(t->dtype), n = 0;
    int64_t strides[FR_MAX_DIMS];

    w->at = data;
    w->n = 1;
    w->step = size;
    fr_strides_broadcast(t->layout, over->ndim, strides);
    for (int k = 0; k < over->ndim; k++) {
        int64_t d = fr_layout_dims(over)[k], by = strides[k] * size;

        if (d == 1)
            continue;
        if (n && w->strides[n - 1] == by * d) {
            w->dims[n - 1] *= d;
            w->strides[n - 1] = by;
        } else {
            w->dims[n] = d;
            w->strides[n] = by;
            w->index[n++] = 0;
        }
    }
    w->n_outer = n ? n - 1 : 0;
    if (n) {
        w->n = w->dims[n - 1];
        w->step = w->strides[n - 1];
    }
}

static void
walk_on(struct walk *w)
{
    for (int k = w->n_outer; k-- > 0;) {
        w->at += w->strides[k];
        if (++w->index[k] < w->dims[k])
            return;
        w->at -= w->strides[k] * w->index[k];
        w->index[k] = 0;
    }
}

fr_status
fr_index_bad(const int64_t *wrapped, int64_t n, int axis, struct fr_err *err)
{
    while (*wrapped >= 0 && *wrapped < n)
        wrapped++;
    return fr_fail(err, FR_EINDEX, "index %lld is out of bounds for axis %d with size %lld",
                   (long long)(*wrapped < 0 ? *wrapped - n : *wrapped), axis, (long long)n);
}

enum { READ_BLOCK = 512 };     /* indices at a time: they stay in L1 until they are added */

/* What one index array says over the shape `over`, from 0 on, times `scale`: put into `to`, or added to what is
 * there. */
static fr_status
read_index(const struct fr_tensor *t, const struct fr_layout *over, int64_t n, int axis, int64_t scale,
           bool add, int64_t *to, struct fr_err *err)
{
    int64_t     size = fr_dtype_size(t->dtype);
    int64_t     strided[READ_BLOCK], block[READ_BLOCK];
    struct walk w;
    void       *data;
    fr_status   st;

    if ((st = fr_tensor_data(t, &data, err)) != FR_OK)
        return st;
    walk_begin(&w, t, data, over);
    for (int64_t done = 0; done < over->n_elems; walk_on(&w))
        for (int64_t i = 0, m; i < w.n; i += m, done += m, to += m) {
            const void *from = w.at + i * w.step;
            int64_t    *out = add || scale != 1 ? block : to;

            m = w.n - i < READ_BLOCK ? w.n - i : READ_BLOCK;
            if (w.step != size) {
                fr_host_copy((int)size, 1, &m, (char *)strided, &size, from, &w.step);
                from = strided;
            }
            if (FR_UNLIKELY(fr_host_index_wrap(t->dtype, (size_t)m, from, n, out) & FR_INDEX_OUTSIDE))
                return fr_index_bad(out, n, axis, err);
            for (int64_t k = 0; out == block && k < m; k++)
                to[k] = (add ? to[k] : 0) + block[k] * scale;
        }
    return FR_OK;
}

uint64_t fr_takes_plain;

/* An axis has as many as the dtype has numbers. */
static bool
all_fit(fr_dtype dtype, int64_t n)
{
    const int size = fr_dtype_size(dtype);

    return size < 4 && n >> 8 * size;
}

bool
fr_index_fits(fr_dtype dtype, const void *index, int64_t n_elems, int64_t n)
{
    const unsigned wrong = dtype == FR_I64 ? FR_INDEX_BELOW | FR_INDEX_OUTSIDE : FR_INDEX_OUTSIDE;
    const int      size = fr_dtype_size(dtype);
    int64_t        block[READ_BLOCK];

    if (all_fit(dtype, n))
        return true;
    for (int64_t i = 0; i < n_elems; i += READ_BLOCK) {
        int64_t m = n_elems - i < READ_BLOCK ? n_elems - i : READ_BLOCK;

        if (fr_host_index_wrap(dtype, (size_t)m, (const char *)index + i * size, n, block) & wrong)
            return false;
    }
    return true;
}

/* Index arrays that were looked at. What frit's own memory holds does not change as long as its node lives, unless it is
 * shown to somebody, who may write to it. */
enum { KNOWN = 64 };
static struct known {
    fr_ref   node;
    uint32_t seq;
    fr_dtype dtype;
    int64_t  offset, n_elems, n;       /* so many numbers, all of which fit an axis of n (fr_index_fits) */
} known[KNOWN];

void
fr_index_forget(fr_ref node)
{
    struct known *k = &known[node % KNOWN];

    if (k->node == node)
        k->node = FR_NO_NODE;
}

void
fr_index_know(const struct fr_tensor *t, int64_t n)
{
    fr_ref node = t->storage->node;

    known[node % KNOWN] = (struct known){node, fr_nodes[node].seq, t->dtype, t->offset, t->layout->n_elems, n};
}

/* Whether an index array can be used as it is: whole numbers in C order that fit. What does not is told by who reads it
 * number by number. */
static fr_status
is_plain(const struct fr_tensor *t, const struct fr_layout *over, int64_t n, bool *plain, struct fr_err *err)
{
    const struct fr_node *node;
    struct known         *k;
    void                 *data = NULL;
    bool                  there = fr_index_is_there(t);
    fr_status             st;

    *plain = t->dtype != FR_U64 && t->layout->c_contig && t->layout == over;
    if (!*plain)
        return FR_OK;
    if ((st = there ? fr_choose_compute(&t, 1, err) : fr_tensor_data(t, &data, err)) != FR_OK)
        return st;
    fr_looks_taken += there;
    node = &fr_nodes[t->storage->node];
    k = &known[t->storage->node % KNOWN];
    if (k->node == t->storage->node && k->seq == node->seq && k->dtype == t->dtype && k->offset == t->offset &&
        k->n_elems == over->n_elems && k->n <= n && !fr_storage_pinned(t->storage))
        return FR_OK;
    if (there && (st = all_fit(t->dtype, n) ? FR_OK : fr_there_fits(t, n, plain, err)) == FR_ENOTSUP) {
        there = false;
        st = fr_tensor_data(t, &data, err);
    }
    if (st != FR_OK || !(*plain = there ? *plain : fr_index_fits(t->dtype, data, over->n_elems, n)))
        return st;
    if (!fr_storage_pinned(t->storage)) /* the version that was looked at, for which this thread may have waited */
        fr_index_know(t, n);
    return FR_OK;
}

/* The shape of index arrays together; all must be whole numbers, in C order as far as they have an order. */
static fr_status
index_layout(const struct fr_tensor *const *index, int n, struct fr_layout **out, struct fr_err *err)
{
    int64_t   dims[FR_MAX_DIMS], joined[FR_MAX_DIMS], count;
    int       ndim = 0;
    fr_status st;

    for (int i = 0; i < n; i++) {
        const struct fr_layout *l = index[i]->layout;

        if (!fr_dtype_is_int(index[i]->dtype) || (l->ndim > 1 && !l->c_contig))
            return fr_fail(err, FR_ENOTSUP, "an index that NumPy knows what to do with");
        if (fr_dims_broadcast(ndim, dims, l->ndim, fr_layout_dims(l), &ndim, joined, "index", NULL) !=
            FR_OK)
            return fr_fail(err, FR_ENOTSUP, "index arrays that do not fit each other");
        memcpy(dims, joined, (size_t)ndim * sizeof *dims);
    }
    if ((st = fr_dims_count(ndim, dims, 8, &count, err)) != FR_OK)
        return st;
    *out = fr_layout_get(ndim, dims, NULL);
    return *out ? FR_OK : fr_no_memory(err, "a layout");
}

/* One array of indices for several, as fr_trace_joint_index gives it; `any`: it may be of another type than i64. */
static fr_status
joint_index(const struct fr_tensor *const *index, const int64_t *dims, int n, int first, bool any, struct fr_tensor *out,
            struct fr_err *err)
{
    struct fr_layout *l = NULL;
    struct fr_buffer *b = NULL;
    int64_t           scale = 1;
    bool              plain, there = false;
    fr_status         st;

    TRY(index_layout(index, n, &l, err));
    /* One array that is fine as it is needs no other; looking costs less than copying. A recording looks again. */
    if (n == 1 && (any || index[0]->dtype == FR_I64)) {
        TRY(is_plain(index[0], l, dims[0], &plain, err));
        if (plain) {
            fr_looks_taken--;
            fr_takes_plain++;
            fr_tensor_copy(index[0], out);
            goto out;
        }
    }
    for (int i = 0; i < n; i++)
        there |= fr_index_is_there(index[i]);
    if (there && (st = fr_there_joint_index(index, dims, n, first, l, out, err)) != FR_ENOTSUP)
        goto out;
    if (!(b = fr_buffer_new_host((size_t)l->n_elems * sizeof(int64_t), err)))
        TRY(FR_ENOMEM);
    for (int i = n; i-- > 0; scale *= dims[i])
        TRY(read_index(index[i], l, dims[i], first + i, scale, i < n - 1, b->mem, err));
    st = fr_tensor_from_buffer(b, FR_DEVICE_ANY, FR_I64, l, out, err);
    b = NULL;
out:
    if (b)
        fr_buffer_unref(b);
    fr_layout_unref(l);
    return st;
}

fr_status
fr_trace_joint_index(const struct fr_tensor *const *index, const int64_t *dims, int n, int first,
                     struct fr_tensor *out, struct fr_err *err)
{
    return joint_index(index, dims, n, first, false, out, err);
}

fr_status
fr_trace_take(const struct fr_tensor *t, const struct fr_tensor *index, int axis, char order,
              struct fr_tensor *out, struct fr_err *err)
{
    int64_t           n = fr_layout_dims(t->layout)[axis];
    struct fr_tensor  plain = {0};
    struct fr_layout *l;
    fr_status         st;

    TRY(fr_trace_together("indexing", (const struct fr_tensor *[]){t, index}, 2, err));
    TRY(joint_index(&index, &n, 1, axis, true, &plain, err));
    TRY(fr_build_take(t->layout, plain.layout, axis, order, &l, err));
    TRY(call_node(FR_OP_take, t, &plain, axis, l, out, err));
out:
    fr_tensor_clear(&plain);
    return st;
}
