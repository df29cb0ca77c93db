/* backends/meta/chosen.c -- see meta.h. Element by element, for what is known is small. */
#include "backends/meta/meta.h"

#include <string.h>

#include "backends/host.h"
#include "base/alloc.h"

/* Known bytes to be changed, which become known at the same place; NULL: they are not known, or there is no memory. */
static char *
begin_change(const void *at, size_t n_bytes)
{
    const void *bytes = fr_meta_known(at, n_bytes);
    char       *copy = bytes && n_bytes ? fr_malloc(n_bytes) : NULL;

    if (copy)
        memcpy(copy, bytes, n_bytes);
    return copy;
}

/* NULL: they are not known from here on. */
static fr_status
end_change(const void *at, size_t n_bytes, char *bytes, struct fr_err *err)
{
    fr_status st = FR_OK;

    if (bytes)
        st = fr_meta_know(at, bytes, n_bytes, true, err);
    else
        fr_meta_forget(at, n_bytes);
    fr_free(bytes);
    return st;
}

/* ---- masks ---- */

static fr_status
count(const struct fr_backend *self, struct fr_mask *m, struct fr_err *err)
{
    const uint8_t *mask = fr_meta_known(m->at, (size_t)m->n);

    (void)self, (void)err;
    m->count = mask ? 0 : m->n;
    for (int64_t i = 0; mask && i < m->n; i++)
        m->count += mask[i] != 0;
    return FR_OK;
}

/* The i64 along each axis of element i of a mask. */
static void
put_place(int64_t i, int ndim, const int64_t *dims, char *out)
{
    for (int k = ndim - 1; k >= 0; i /= dims[k--]) {
        const int64_t at = i % dims[k];

        memcpy(out + (size_t)k * sizeof at, &at, sizeof at);
    }
}

static fr_status
move(const struct fr_backend *self, enum fr_chosen what, const struct fr_mask *m, size_t row, int ndim, const int64_t *dims, const void *in,
     void *out, struct fr_err *err)
{
    const size_t   one = what == FR_CHOSEN_PLACES ? (size_t)ndim * sizeof(int64_t) : row;
    const size_t   n_out = one * (size_t)(what == FR_CHOSEN_PUT ? m->n : m->count), n_in = row * (size_t)(what == FR_CHOSEN_PUT ? m->count : m->n);
    const uint8_t *mask = fr_meta_known(m->at, (size_t)m->n);
    const char    *from = what == FR_CHOSEN_PLACES ? "" : fr_meta_known(in, n_in);
    char          *to = NULL;
    size_t         k = 0;

    (void)self;
    if (mask && from)
        to = what == FR_CHOSEN_PUT ? begin_change(out, n_out) : fr_malloc(n_out + 1);
    for (int64_t i = 0; to && i < m->n; i++) {
        if (!mask[i])
            continue;
        if (what == FR_CHOSEN_PLACES)
            put_place(i, ndim, dims, to + k * one);
        else if (what == FR_CHOSEN_GET)
            memcpy(to + k * row, from + (size_t)i * row, row);
        else
            memcpy(to + (size_t)i * row, from + k * row, row);
        k++;
    }
    return end_change(out, n_out, to, err);
}

/* ---- indices ---- */

static int64_t
n_looked(const struct fr_look *l)
{
    int64_t n = 1;

    for (int k = 0; k < l->n_axes; k++)
        n *= l->dims[k];
    return n;
}

/* Where its elements are known; NULL: they are not. */
static const char *
known_indices(const struct fr_look *l)
{
    const size_t size = (size_t)fr_dtype_size(l->dtype);
    int64_t      low = 0, high = 0;
    const char  *bytes;

    for (int k = 0; k < l->n_axes; k++)
        *(l->strides[k] < 0 ? &low : &high) += (l->dims[k] - 1) * l->strides[k];
    bytes = fr_meta_known((const char *)l->at + low, (size_t)(high - low) + size);
    return bytes ? bytes - low : NULL;
}

/* Index i of it in C order; false: it is out of bounds. */
static bool
index_at(const struct fr_look *l, const char *known, int64_t i, int64_t *out)
{
    unsigned is;

    for (int k = l->n_axes - 1; k >= 0; i /= l->dims[k--])
        known += i % l->dims[k] * l->strides[k];
    is = fr_host_index_wrap(l->dtype, 1, known, l->size, out);
    return !(is & FR_INDEX_OUTSIDE) && !(l->is_strict && (is & FR_INDEX_BELOW));
}

static fr_status
look(const struct fr_backend *self, const struct fr_look *l, int n, int *which, int64_t *wrong, struct fr_err *err)
{
    const int64_t n_elems = n ? n_looked(l) : 0;
    int64_t      *out = NULL, at;
    bool          all_known = true;
    fr_status     st;

    (void)self;
    *which = -1;
    *wrong = -1;
    if (n_elems == 0)
        return FR_OK;
    for (int k = 0; k < n; k++)
        all_known &= known_indices(&l[k]) != NULL;
    if (l->out && all_known && !(out = fr_calloc((size_t)n_elems, sizeof *out)))
        return fr_no_memory(err, "known indices");
    for (int k = 0; k < n && *wrong < 0; k++) {
        const char *known = known_indices(&l[k]);

        if (!known && l[k].is_strict) { /* it may have a negative one: who asked makes a copy without */
            *which = k;
            *wrong = 0;
        }
        for (int64_t i = 0; known && i < n_elems && *wrong < 0; i++) {
            if (!index_at(&l[k], known, i, &at)) {
                *which = k;
                *wrong = i;
            } else if (out) {
                out[i] = (l[k].adds ? out[i] : 0) + at * l[k].scale;
            }
        }
    }
    st = out && *wrong < 0 ? fr_meta_know(l->out, out, (size_t)n_elems * sizeof *out, true, err) : FR_OK;
    fr_free(out);
    return st;
}

/* Rows of the value into the memory `to`, as struct fr_scatter says. */
static void
put_rows(const struct fr_scatter *s, const int64_t *index, const char *value, char *to, fr_index_join_fn *join)
{
    const size_t n_joined = s->row / (size_t)fr_dtype_size(s->dtype);
    int64_t      at[FR_MAX_DIMS] = {0}, bound;
    int          k;

    do {
        for (int64_t i = 0; i < s->n; i++, value += s->same ? 0 : s->row) {
            fr_host_index_bound(1, index + i, (uint64_t)s->last, &bound);
            if (join)
                join(1, n_joined, to, s->step, &bound, value, 0);
            else
                fr_host_scatter(1, s->row, to, s->step, &bound, value, 0);
        }
        for (k = s->n_outer - 1; k >= 0; k--) {
            to += s->outer[k];
            if (++at[k] < s->dims[k])
                break;
            to -= s->outer[k] * s->dims[k];
            at[k] = 0;
        }
    } while (k >= 0);
}

static fr_status
scatter(const struct fr_backend *self, const struct fr_scatter *s, struct fr_err *err)
{
    fr_index_join_fn *join = s->op == FR_OP_store ? NULL : fr_host_join(s->op, s->dtype);
    int64_t           low = 0, high = (int64_t)s->row, n_rows = s->n;
    const int64_t    *index = fr_meta_known(s->index, (size_t)s->n * sizeof *index);
    const char       *value;
    char             *bytes = NULL;

    (void)self;
    *(s->step < 0 ? &low : &high) += s->last * s->step;
    for (int k = 0; k < s->n_outer; k++) {
        *(s->outer[k] < 0 ? &low : &high) += (s->dims[k] - 1) * s->outer[k];
        n_rows *= s->dims[k];
    }
    value = fr_meta_known(s->value, s->same ? s->row : (size_t)n_rows * s->row);
    if (index && value)
        bytes = begin_change(s->to + low, (size_t)(high - low));
    if (bytes)
        put_rows(s, index, value, bytes - low, join);
    return end_change(s->to + low, (size_t)(high - low), bytes, err);
}

const struct fr_chooser fr_meta_chooser = {.count = count, .move = move, .look = look, .scatter = scatter};
