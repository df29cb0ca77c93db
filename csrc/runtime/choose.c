/* Elements that masks and arrays of indices choose, read and written now: how many a mask chooses is a question of its
 * values, and so is where an index writes.  A take, which only reads, is lazy: call.c.  Tensors on a device stay there:
 * choose_there.c, which is asked first.
 *
 * What is written to is exported for as long as that takes (fr_tensor_export), as for anybody outside: whoever still
 * wants it as it was has been computed then or has a copy, and what others look at or have lent is written where it
 * lies. All that can fail comes before the first element is written. */
#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"
#include "base/fpe.h"
#include "runtime/choose.h"

fr_status
fr_choose_compute(const struct fr_tensor *const *t, int n, struct fr_err *err)
{
    bool      pending;
    fr_status st;

    do {
        st = fr_tensor_eval(t, n, err);
        pending = false;
        for (int i = 0; i < n; i++)
            pending |= fr_tensor_is_pending(t[i]);
    } while (st == FR_OK && pending);
    return st;
}

/* t becomes *own: the same window, which nobody else gives another shape while kernels run; or a copy, if it does not
 * lie in C order, or is a part of `apart` (NULL: of nothing). */
static fr_status
in_c_order(const struct fr_tensor **t, const struct fr_tensor *apart, struct fr_tensor *own, struct fr_err *err)
{
    fr_status st = FR_OK;

    if ((*t)->layout->c_contig && !(apart && (*t)->storage == apart->storage))
        fr_tensor_copy(*t, own);
    else
        st = fr_trace_cast(*t, (*t)->dtype, 'C', own, err);
    if (st == FR_OK)
        *t = own;
    return st;
}

/* ---- shapes ---- */

fr_status
fr_choose_shape(const struct fr_tensor **value, int ndim, const int64_t *dims, const struct fr_tensor *apart,
                struct fr_tensor *own, struct fr_err *err)
{
    const struct fr_layout *l = (*value)->layout;
    const int64_t          *d = fr_layout_dims(l);
    struct fr_tensor        short_one = {.storage = NULL}, wide = {.storage = NULL};
    int                     extra = l->ndim - ndim;
    fr_status               st;

    if (extra == 0 && !memcmp(d, dims, (size_t)ndim * sizeof *d))
        return in_c_order(value, apart, own, err);
    for (int k = 0; k < l->ndim; k++)
        if (d[k] != 1 && (k < extra || d[k] != dims[k - extra]))
            return FR_ENOTSUP;
    if (extra > 0) { /* an assignment drops axes of 1 in front */
        TRY(fr_tensor_window(*value, ndim, d + extra, fr_layout_strides(l) + extra, 0, &short_one, err));
        *value = &short_one;
    }
    TRY(fr_tensor_broadcast(*value, ndim, dims, &wide, err));
    TRY(fr_trace_cast(&wide, wide.dtype, 'C', own, err));
    *value = own;
out:
    fr_tensor_clear(&short_one);
    fr_tensor_clear(&wide);
    return st;
}

/* ---- masks ---- */

enum { FEW_WORDS = 512 };    /* of a mask that needs no memory: 32768 elements */

/* A mask as it was when it was read. */
struct bits {
    uint64_t *word, few[FEW_WORDS];
    size_t    n_words, count;
};

/* Of a mask in C order that is computed. */
static fr_status
read_mask(struct bits *b, const struct fr_tensor *mask, struct fr_err *err)
{
    void     *data;
    fr_status st = fr_tensor_data(mask, &data, err);

    if (st != FR_OK)
        return st;
    fr_looks_taken++; /* also where nothing is chosen: with other values the same call does something else */
    b->n_words = ((size_t)mask->layout->n_elems + FR_MASK_WORD - 1) / FR_MASK_WORD;
    b->word = b->n_words <= FEW_WORDS ? b->few : fr_malloc(b->n_words * sizeof *b->word);
    if (!b->word)
        return fr_no_memory(err, "a mask");
    b->count = fr_host_pack((size_t)mask->layout->n_elems, data, b->word);
    return FR_OK;
}

static void
forget_mask(struct bits *b)
{
    if (b->word != b->few)
        fr_free(b->word);
}

int
fr_choose_dims(const struct fr_tensor *t, const struct fr_tensor *mask, int64_t count, int64_t *dims)
{
    int n = mask->layout->ndim, ndim = t->layout->ndim;

    dims[0] = count;
    memcpy(dims + 1, fr_layout_dims(t->layout) + n, (size_t)(ndim - n) * sizeof *dims);
    return ndim - n + 1;
}

/* Bytes of what one element of the mask stands for. */
static size_t
row_bytes(const struct fr_tensor *t, int n_axes)
{
    size_t n = (size_t)fr_dtype_size(t->dtype);

    for (int k = n_axes; k < t->layout->ndim; k++)
        n *= (size_t)fr_layout_dims(t->layout)[k];
    return n;
}

fr_status
fr_choose_get(const struct fr_tensor *t, const struct fr_tensor *mask, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_backend *by = fr_there((const struct fr_tensor *[]){t, mask}, 2);
    struct fr_tensor  own_t = {.storage = NULL}, own_mask = {.storage = NULL};
    struct bits       b = {.word = b.few};
    struct fr_layout *l = NULL;
    struct fr_buffer *to = NULL;
    int64_t           dims[FR_MAX_DIMS];
    size_t            row = row_bytes(t, mask->layout->ndim);
    void             *data;
    fr_status         st;

    TRY(fr_trace_together("indexing by a mask", (const struct fr_tensor *[]){t, mask}, 2, err));
    if (mask->layout->ndim < t->layout->ndim && !t->layout->c_contig)
        return FR_ENOTSUP; /* NumPy lays the rows out as they lie in t */
    TRY(in_c_order(&t, NULL, &own_t, err));
    TRY(in_c_order(&mask, NULL, &own_mask, err));
    if (by && (st = fr_there_get(by, t, mask, row, out, err)) != FR_ENOTSUP)
        goto out;
    TRY(fr_choose_compute((const struct fr_tensor *[]){mask, t}, 2, err));
    TRY(read_mask(&b, mask, err));
    if (!(l = fr_layout_get(fr_choose_dims(t, mask, (int64_t)b.count, dims), dims, NULL))) {
        st = fr_no_memory(err, "a layout");
        goto out;
    }
    TRY(fr_tensor_data(t, &data, err));
    if (!(to = fr_buffer_new_host(b.count * row, err)))
        TRY(FR_ENOMEM);
    if (b.count && row)
        fr_host_compress(b.n_words, b.word, b.count, row, data, to->mem);
    st = fr_tensor_from_buffer(to, fr_storage_device(t->storage), t->dtype, l, out, err);
out:
    forget_mask(&b);
    fr_layout_unref(l);
    fr_tensor_clear(&own_t);
    fr_tensor_clear(&own_mask);
    return st;
}

/* For each bit that is set, its index along each of the axes of these dims; the bits are in C order. */
static void
write_places(const struct bits *b, int ndim, const int64_t *dims, int64_t *to)
{
    int64_t at[FR_MAX_DIMS] = {0}, row = 0, n = dims[ndim - 1];    /* the row that begins at bit `row` */

    for (size_t w = 0; w < b->n_words; w++)
        for (uint64_t bits = b->word[w]; bits; bits &= bits - 1, to += ndim) {
            int64_t i = (int64_t)w * FR_MASK_WORD + __builtin_ctzll(bits);

            for (; ndim > 1 && i - row >= n; row += n)
                for (int k = ndim - 2; k >= 0 && ++at[k] == dims[k]; k--)
                    at[k] = 0;
            for (int k = 0; k < ndim - 1; k++)
                to[k] = at[k];
            to[ndim - 1] = i - row;
        }
}

fr_status
fr_choose_places(const struct fr_tensor *mask, struct fr_tensor *out, struct fr_err *err)
{
    const struct fr_backend *by = fr_there(&mask, 1);
    struct fr_tensor  own = {.storage = NULL};
    struct bits       b = {.word = b.few};
    struct fr_layout *l = NULL;
    struct fr_buffer *to = NULL;
    int64_t           dims[2];
    fr_status         st;

    TRY(in_c_order(&mask, NULL, &own, err));
    if (by && (st = fr_there_places(by, mask, out, err)) != FR_ENOTSUP)
        goto out;
    TRY(fr_choose_compute((const struct fr_tensor *[]){mask}, 1, err));
    TRY(read_mask(&b, mask, err));
    dims[0] = (int64_t)b.count;
    dims[1] = mask->layout->ndim;
    if (!(l = fr_layout_get(2, dims, NULL))) {
        st = fr_no_memory(err, "a layout");
        goto out;
    }
    if (!(to = fr_buffer_new_host((size_t)l->n_elems * sizeof(int64_t), err)))
        TRY(FR_ENOMEM);
    if (b.count)
        write_places(&b, mask->layout->ndim, fr_layout_dims(mask->layout), to->mem);
    st = fr_tensor_from_buffer(to, fr_storage_device(mask->storage), FR_I64, l, out, err);
out:
    forget_mask(&b);
    fr_layout_unref(l);
    fr_tensor_clear(&own);
    return st;
}

fr_status
fr_choose_put(const struct fr_tensor *t, const struct fr_tensor *mask, const struct fr_tensor *value,
              struct fr_err *err)
{
    const struct fr_backend *by = fr_there((const struct fr_tensor *[]){t, mask, value}, 3);
    struct fr_tensor own_t = {.storage = NULL}, own_mask = {.storage = NULL};
    struct fr_tensor own = {.storage = NULL}, fitted = {.storage = NULL};
    struct bits      b = {.word = b.few};
    int64_t          dims[FR_MAX_DIMS];
    size_t           row = row_bytes(t, mask->layout->ndim);
    uint32_t         look;
    void            *to, *from;
    int              ndim;
    fr_status        st;

    TRY(fr_trace_together("an assignment by a mask", (const struct fr_tensor *[]){t, mask, value}, 3, err));
    if (!t->layout->c_contig || (mask->layout->ndim == t->layout->ndim && value->layout->ndim > 1))
        return FR_ENOTSUP;
    TRY(in_c_order(&t, NULL, &own_t, err));
    TRY(in_c_order(&mask, by ? t : NULL, &own_mask, err)); /* (the host has read it before it writes) */
    TRY(in_c_order(&value, t, &own, err));
    if (by && (st = fr_there_put(by, t, mask, row, value, err)) != FR_ENOTSUP)
        goto out;
    TRY(fr_choose_compute((const struct fr_tensor *[]){mask, value, t}, 3, err));
    TRY(read_mask(&b, mask, err));
    ndim = fr_choose_dims(t, mask, (int64_t)b.count, dims);
    TRY(fr_choose_shape(&value, ndim, dims, t, &fitted, err));
    TRY(fr_choose_compute((const struct fr_tensor *[]){value}, 1, err));
    if (!b.count || !row)
        goto out;
    TRY(fr_tensor_export(t, true, &to, &look, err));
    if ((st = fr_choose_compute((const struct fr_tensor *[]){value}, 1, err)) == FR_OK &&
        (st = fr_tensor_data(value, &from, err)) == FR_OK)
        fr_host_expand(b.n_words, b.word, b.count, row, from, to);
    fr_storage_unlook(t->storage, look);
out:
    forget_mask(&b);
    fr_tensor_clear(&own_t);
    fr_tensor_clear(&own_mask);
    fr_tensor_clear(&own);
    fr_tensor_clear(&fitted);
    return st;
}

/* ---- indices ---- */

/* What is put into t: rows that lie side by side, for each index of the axes before that of the indices. */
struct rows {
    int       n_outer;
    size_t    row;                     /* bytes */
    ptrdiff_t step;                    /* from one row of the axis to the next */
    ptrdiff_t outer[FR_MAX_DIMS];      /* from one index of an axis before it to the next */
    int64_t   dims[FR_MAX_DIMS];       /* of these axes */
    uint64_t  last;                    /* that an index may be */
};

/* False: what an index stands for does not lie side by side. */
static bool
set_rows(struct rows *r, const struct fr_tensor *t, int axis)
{
    const int64_t *d = fr_layout_dims(t->layout), *s = fr_layout_strides(t->layout);
    int64_t        size = fr_dtype_size(t->dtype), n = 1;

    for (int k = t->layout->ndim; --k > axis; n *= d[k])
        if (d[k] != 1 && s[k] != n)
            return false;
    *r = (struct rows){.n_outer = axis, .row = (size_t)(n * size), .step = s[axis] * size, .last = (uint64_t)d[axis] - 1};
    for (int k = 0; k < axis; k++) {
        r->dims[k] = d[k];
        r->outer[k] = s[k] * size;
    }
    return true;
}

/* Indices are read once, and looked at where they are then: memory of others may change at any time. from: bytes from
 * one row of the value to the next, or 0. join: NULL, or how a row and what is there become one, of n_joined elements. */
static void
put_rows(const struct rows *r, size_t n, const int64_t *index, char *to, const char *value, ptrdiff_t from,
         fr_index_join_fn *join, size_t n_joined)
{
    enum { BLOCK = 512 };
    int64_t at[FR_MAX_DIMS] = {0}, block[BLOCK];
    int     k;

    do {
        for (size_t i = 0, m; i < n; i += m, value += (ptrdiff_t)m * from) {
            m = n - i < BLOCK ? n - i : BLOCK;
            fr_host_index_bound(m, index + i, r->last, block);
            if (join)
                join(m, n_joined, to, r->step, block, value, from);
            else
                fr_host_scatter(m, r->row, to, r->step, block, value, from);
        }
        for (k = r->n_outer - 1; k >= 0; k--) {
            to += r->outer[k];
            if (++at[k] < r->dims[k])
                break;
            to -= r->outer[k] * r->dims[k];
            at[k] = 0;
        }
    } while (k >= 0);
}

fr_status
fr_choose_scatter(const struct fr_tensor *t, const struct fr_tensor *index, int axis, const struct fr_tensor *value,
                  fr_op op, unsigned *raised, struct fr_err *err)
{
    const struct fr_backend *by = fr_there((const struct fr_tensor *[]){t, index, value}, 3);
    const struct fr_layout *l = t->layout, *li = index->layout;
    struct fr_tensor        own_index = {.storage = NULL}, own = {.storage = NULL};
    int64_t                 dims[FR_MAX_DIMS], n = 1;
    int                     ndim = l->ndim + li->ndim - 1, n_after = l->ndim - axis - 1;
    bool                    same = value->layout->ndim == 0;
    fr_index_join_fn       *join = op == FR_OP_store ? NULL : fr_host_join(op, t->dtype);
    struct rows             r;
    uint32_t                look;
    void                   *to, *from, *indices;
    fr_status               st;

    *raised = 0;
    TRY(fr_trace_together("an assignment by indices", (const struct fr_tensor *[]){t, index, value}, 3, err));
    if (ndim > FR_MAX_DIMS || !set_rows(&r, t, axis) || (op != FR_OP_store && !join))
        return FR_ENOTSUP;
    memcpy(dims, fr_layout_dims(l), (size_t)axis * sizeof *dims);
    memcpy(dims + axis, fr_layout_dims(li), (size_t)li->ndim * sizeof *dims);
    memcpy(dims + axis + li->ndim, fr_layout_dims(l) + axis + 1, (size_t)n_after * sizeof *dims);
    for (int k = 0; k < ndim; k++)
        n *= dims[k];
    same = same && r.row == (size_t)fr_dtype_size(t->dtype);
    TRY(in_c_order(&index, t, &own_index, err));
    if (same)
        TRY(in_c_order(&value, t, &own, err));
    else
        TRY(fr_choose_shape(&value, ndim, dims, t, &own, err));
    if (by && n != 0) {
        struct fr_scatter s = {.n = li->n_elems, .last = (int64_t)r.last, .dtype = t->dtype, .row = r.row, .step = r.step, .same = same,
                               .op = op, .n_outer = r.n_outer, .dims = r.dims, .outer = r.outer};

        if ((st = fr_there_scatter(by, t, index, value, &s, err)) != FR_ENOTSUP)
            goto out;
    }
    TRY(fr_choose_compute((const struct fr_tensor *[]){index, value, t}, 3, err));
    if (n == 0)
        goto out;
    TRY(fr_tensor_export(t, true, &to, &look, err));
    if ((st = fr_choose_compute((const struct fr_tensor *[]){index, value}, 2, err)) == FR_OK &&
        (st = fr_tensor_data(value, &from, err)) == FR_OK && (st = fr_tensor_data(index, &indices, err)) == FR_OK) {
        fr_fpe_begin();
        put_rows(&r, (size_t)li->n_elems, indices, to, from, same ? 0 : (ptrdiff_t)r.row, join,
                 r.row / (size_t)fr_dtype_size(t->dtype));
        *raised = fr_fpe_raised();
    }
    fr_storage_unlook(t->storage, look);
out:
    fr_tensor_clear(&own_index);
    fr_tensor_clear(&own);
    return st;
}
