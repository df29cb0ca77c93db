#include "backends/cpu/call.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/copy.h"
#include "backends/cpu/index.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/product.h"
#include "backends/stack.h"
#include "base/alloc.h"

bool (*fr_call_product)(fr_dtype, char **ptr, const int64_t *dims, const int64_t *steps);

enum { POLL_WORK = 1 << 26 };    /* multiplications between two looks at Ctrl-C: a few milliseconds */

/* ---- products ----------------------------------------------------------------------------- */

/* A stack of products, one after the other; NumPy's routine goes along the last axis of the stack by itself. */
static fr_status
run_product(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    struct fr_stack s;
    int64_t         work = 0, n_last, n_most;
    fr_status       st;

    if (c->out->n_elems == 0)
        return FR_OK;
    if (!fr_call_product)
        return fr_fail(err, FR_ENOTSUP, "matmul: NumPy's routine was not found");
    fr_stack_begin(&s, c, ptr);
    n_last = s.dims[0];
    n_most = POLL_WORK / (s.dims[1] * s.dims[2] * s.dims[3] + 1) + 1;
    do {
        for (int64_t i = 0; i < n_last; i += s.dims[0]) {
            char *now[3];

            s.dims[0] = n_last - i < n_most ? n_last - i : n_most;
            for (int o = 0; o < 3; o++) /* an operand without elements has no address */
                now[o] = s.at[o] ? s.at[o] + i * s.steps[o] : NULL;
            st = fr_product_run(c->dtype, c->axis, now, s.dims, s.steps, err);
            if (st == FR_ENOTSUP && !fr_call_product(c->dtype, now, s.dims, s.steps))
                return fr_fail(err, FR_ENOMEM, "out of memory: matmul");
            if (st != FR_OK && st != FR_ENOTSUP)
                return st;
            if ((work += s.dims[0] * s.dims[1] * s.dims[2] * s.dims[3]) > POLL_WORK) {
                work = 0;
                if (fr_backend_interrupted && fr_backend_interrupted())
                    return fr_fail(err, FR_EINTR, "interrupted");
            }
        }
    } while (fr_stack_next(&s));
    return FR_OK;
}

/* ---- take --------------------------------------------------------------------------------- */

enum {
    LONGEST = 4096,         /* bytes that are copied at a time */
    INDEX_BLOCK = 512,      /* indices that are read at a time */
};

/* One axis of the result, as bytes; along the index's axis the source is where the index says. */
struct axis {
    int64_t n, from, to;
    bool    index;
};

struct take {
    struct axis    axis[FR_MAX_DIMS + 1];     /* outermost first, by what is written */
    int            n_axes, index_size;
    int            size;                      /* of an element, or of several side by side that go together */
    fr_index_fn   *wrap;                      /* of indices that are not i64; else NULL */
    const char    *index;
    uint64_t       last;                      /* that an index may be, */
    bool           by_bytes;                  /* of which all that there are are inside; or */
    bool           wary;                      /* which has to be looked at, */
    atomic_bool    outside;                   /* and one is not */
    const char    *src;
    char          *dst;
    int64_t        chunk;                     /* of the first axis, for one task */
};

/* Elements that lie side by side behind the index's axis, as the coordinates of a point or the colours of a pixel, are
 * one: what is copied at a time. */
static void
join_elements(struct take *t)
{
    const struct axis *last = &t->axis[t->n_axes - 1];

    if (t->n_axes < 2 || !last[-1].index || last->from != t->size || last->to != t->size || last->n * t->size > LONGEST)
        return;
    t->size *= (int)last->n;
    t->n_axes--;
}

/* The result's axes: those of the index as one (they lie in C order), neighbours that go on as one. */
static void
fill_axes(struct take *t, const struct fr_call *c)
{
    const struct fr_layout *in = c->in[0], *out = c->out;
    int                     n_index = c->in[1]->ndim, n = 0;

    for (int k = 0; k < in->ndim; k++) {
        int         o = k <= c->axis ? k : k + n_index - 1, i;
        struct axis a = {fr_layout_dims(in)[k], fr_layout_strides(in)[k] * t->size, 0, k == c->axis};

        if (a.index) {
            a.n = c->in[1]->n_elems;
            a.to = n_index ? fr_layout_strides(out)[o + n_index - 1] * t->size : 0;
        } else {
            a.to = fr_layout_strides(out)[o] * t->size;
        }
        if (a.n == 1 && !a.index)
            continue;
        for (i = n; i > 0 && t->axis[i - 1].to < a.to; i--)
            t->axis[i] = t->axis[i - 1];
        t->axis[i] = a;
        n++;
    }
    t->n_axes = 0;
    for (int k = 0; k < n; k++) {
        struct axis *last = t->n_axes ? &t->axis[t->n_axes - 1] : NULL, a = t->axis[k];

        if (last && !last->index && !a.index && last->from == a.from * a.n && last->to == a.to * a.n)
            *last = (struct axis){last->n * a.n, a.from, a.to, false};
        else
            t->axis[t->n_axes++] = a;
    }
    join_elements(t);
}

typedef struct { uint64_t half[2]; } wide;

/* dst[i] = src[index[i]]. Where elements lie side by side their size is known to the compiler; four at a time,
 * for what is stored could otherwise be an index. */
#define GATHER(name, T, BY, TO, I)                                                                 \
    static void name(size_t n, char *dst, ptrdiff_t to, const char *src, ptrdiff_t from,           \
                     const I *restrict index)                                                      \
    {                                                                                              \
        size_t i = 0;                                                                              \
                                                                                                   \
        (void)from, (void)to;                                                                      \
        for (; i + 4 <= n; i += 4, dst += 4 * TO) {                                                \
            T a = *(const T *)(src + index[i] * BY), b = *(const T *)(src + index[i + 1] * BY);    \
            T c = *(const T *)(src + index[i + 2] * BY);                                           \
            T d = *(const T *)(src + index[i + 3] * BY);                                           \
                                                                                                   \
            *(T *)dst = a;                                                                         \
            *(T *)(dst + TO) = b;                                                                  \
            *(T *)(dst + 2 * TO) = c;                                                              \
            *(T *)(dst + 3 * TO) = d;                                                              \
        }                                                                                          \
        for (; i < n; i++, dst += TO)                                                              \
            *(T *)dst = *(const T *)(src + index[i] * BY);                                         \
    }
#define SIZE(T) (ptrdiff_t)sizeof(T)
#define GATHERS(S, T)                                                                              \
    GATHER(gather_near_##S, T, SIZE(T), SIZE(T), int64_t)                                          \
    GATHER(gather_far_##S, T, from, to, int64_t)                                                   \
    GATHER(gather_bytes_##S, T, SIZE(T), SIZE(T), uint8_t)
GATHERS(1, uint8_t)
GATHERS(2, uint16_t)
GATHERS(4, uint32_t)
GATHERS(8, uint64_t)
GATHERS(16, wide)

/* An element of any size: by moves of `by` bytes, of which the last lies over the one before it; 0: as the compiler or
 * the C library has it. */
static inline __attribute__((always_inline)) void
copy_element(char *restrict dst, const char *restrict src, size_t size, size_t by)
{
    size_t i = 0;

    if (by == 0) {
        memcpy(dst, src, size);
        return;
    }
    for (; i + by < size; i += by)
        memcpy(dst + i, src + i, by);
    memcpy(dst + size - by, src + size - by, by);
}

/* Rows that are common are of a constant size, which makes each one or two moves. */
#define GATHER_ALL(BY, I)                                                                          \
    for (size_t i = 0; i < n; i++, dst += to)                                                      \
        copy_element(dst, src + ((const I *)index)[i] * from, size, BY)

#define GATHER_ANY(name, I)                                                                        \
    static void name(size_t n, size_t size, char *dst, ptrdiff_t to, const char *src, ptrdiff_t from, const void *index) \
    {                                                                                              \
        switch (size < 8 || size == 12 || size == 24 ? size : size <= 16 ? 8 : size <= 64 ? 16 : size <= 512 ? 64 : 512) { \
        case 3: size = 3; GATHER_ALL(0, I); break;                                                 \
        case 12: size = 12; GATHER_ALL(0, I); break;                                               \
        case 24: size = 24; GATHER_ALL(0, I); break;                                               \
        case 8: GATHER_ALL(8, I); break;                                                           \
        case 16: GATHER_ALL(16, I); break;                                                         \
        case 64: GATHER_ALL(64, I); break;                                                         \
        case 512: GATHER_ALL(0, I); break;                                                         \
        default: GATHER_ALL(4, I);                                                                 \
        }                                                                                          \
    }
GATHER_ANY(gather_any, int64_t)
GATHER_ANY(gather_any_by_bytes, uint8_t)

static void
gather(size_t n, int size, char *dst, ptrdiff_t to, const char *src, ptrdiff_t from, const int64_t *index)
{
#define CASE(S)                                                                                    \
    case S: (from == S && to == S ? gather_near_##S : gather_far_##S)(n, dst, to, src, from, index); break;
    switch (size) {
        CASE(1) CASE(2) CASE(4) CASE(8) CASE(16)
    default: gather_any(n, (size_t)size, dst, to, src, from, index);
    }
#undef CASE
}

/* The same by bytes, from as many elements side by side as there are bytes. */
static void
gather_by_bytes(size_t n, int size, char *dst, const char *src, const uint8_t *index)
{
#define CASE(S)                                                                                    \
    case S: gather_bytes_##S(n, dst, S, src, S, index); break;
    switch (size) {
        CASE(1) CASE(2) CASE(4) CASE(8) CASE(16)
    default: gather_any_by_bytes(n, (size_t)size, dst, size, src, size, index);
    }
#undef CASE
}

/* n indices from number `first` on as numbers from 0 to `last`, whatever they are; returns 0 if all are inside. */
static uint64_t
read_indices(const struct take *t, int64_t first, size_t n, int64_t *out)
{
    const void *from = t->index + first * t->index_size;

    if (!t->wrap)
        return fr_index->bound(n, from, t->last, out);
    if (!(t->wrap(n, from, (int64_t)t->last + 1, out) & FR_INDEX_OUTSIDE))
        return 0;
    memset(out, 0, n * sizeof *out);
    return 1;
}

/* The same with indices of another type, or that somebody may be writing to: they are read once, and looked at in L1. */
static uint64_t
gather_warily(const struct take *t, const struct axis *a, size_t n, char *dst, const char *src, int64_t first)
{
    int64_t  block[INDEX_BLOCK];
    uint64_t outside = 0;

    for (size_t i = 0, m; i < n; i += m) {
        m = n - i < INDEX_BLOCK ? n - i : INDEX_BLOCK;
        outside |= read_indices(t, first + (int64_t)i, m, block);
        gather(m, t->size, dst + (int64_t)i * a->to, a->to, src, a->from, block);
    }
    return outside;
}

/* Elements first .. last - 1 of the innermost axis. Both return 0 if all indices were inside. */
static uint64_t
take_row(const struct take *t, const struct axis *a, const char *src, char *dst, int64_t first,
         int64_t last)
{
    if (a->index && t->by_bytes && a->from == t->size && a->to == t->size) {
        gather_by_bytes((size_t)(last - first), t->size, dst + first * t->size, src, (const uint8_t *)t->index + first);
        return 0;
    }
    if (a->index && (t->wary || t->wrap))
        return gather_warily(t, a, (size_t)(last - first), dst + first * a->to, src, first);
    if (a->index) {
        gather((size_t)(last - first), t->size, dst + first * a->to, a->to, src, a->from,
               (const int64_t *)(const void *)t->index + first);
    } else if (a->from == t->size && a->to == t->size) {
        memcpy(dst + first * a->to, src + first * a->from, (size_t)((last - first) * t->size));
    } else if (a->to == t->size) {
        fr_copy_gather((size_t)(last - first), t->size, dst + first * a->to, src + first * a->from,
                       a->from);
    } else {
        fr_copy_2d(1, (size_t)(last - first), t->size, dst + first * a->to, 0, a->to,
                   src + first * a->from, 0, a->from);
    }
    return 0;
}

static uint64_t take_axes(const struct take *t, int k, const char *src, char *dst, int64_t first, int64_t last);

/* The same of axis k, which is the index's, and of those behind it. */
static uint64_t
take_indexed(const struct take *t, int k, const char *src, char *dst, int64_t first, int64_t last)
{
    const struct axis *a = &t->axis[k];
    int64_t            block[INDEX_BLOCK];
    uint64_t           outside = 0;

    for (int64_t n; first < last; first += n) {
        n = last - first < INDEX_BLOCK ? last - first : INDEX_BLOCK;
        outside |= read_indices(t, first, (size_t)n, block);
        for (int64_t i = 0; i < n; i++)
            outside |= take_axes(t, k + 1, src + block[i] * a->from, dst + (first + i) * a->to, 0, t->axis[k + 1].n);
    }
    return outside;
}

static uint64_t
take_axes(const struct take *t, int k, const char *src, char *dst, int64_t first, int64_t last)
{
    const struct axis *a = &t->axis[k];
    uint64_t           outside = 0;

    if (k == t->n_axes - 1)
        return take_row(t, a, src, dst, first, last);
    if (a->index)
        return take_indexed(t, k, src, dst, first, last);
    for (int64_t i = first; i < last; i++)
        outside |= take_axes(t, k + 1, src + i * a->from, dst + i * a->to, 0, t->axis[k + 1].n);
    return outside;
}

static void
take_task(void *arg, int64_t i, int worker)
{
    struct take *t = arg;
    int64_t      first = i * t->chunk, last = first + t->chunk;

    (void)worker;
    if (FR_UNLIKELY(take_axes(t, 0, t->src, t->dst, first, last < t->axis[0].n ? last : t->axis[0].n)))
        atomic_store_explicit(&t->outside, true, memory_order_relaxed);
}

enum { TASK_BYTES = 1 << 16 };     /* as much as makes waking a thread worth while */

/* Indices that are used anew for each row of what comes before are read once for all; returns them, or NULL. */
static int64_t *
keep_indices(struct take *t, const struct fr_call *c)
{
    int64_t  n = c->in[1]->n_elems;
    int64_t *kept = NULL;

    if ((t->wary || t->wrap) && !t->by_bytes && !t->axis[0].index && t->axis[0].n > 1)
        kept = fr_malloc((size_t)n * sizeof *kept);
    if (!kept)
        return NULL;
    t->outside = read_indices(t, 0, (size_t)n, kept) != 0;
    t->index = (const char *)kept;
    t->index_size = sizeof *kept;
    t->wary = false;
    t->wrap = NULL;
    return kept;
}

static fr_status
run_take(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    struct take t = {.size = fr_dtype_size(c->dtype), .wary = c->wary, .src = ptr[0],
                     .wrap = c->index == FR_I64 ? NULL : fr_index->wrap[c->index], .index = ptr[1],
                     .index_size = fr_dtype_size(c->index), .dst = ptr[2]};
    int64_t    *kept, n_tasks;
    bool        finished = true;

    if (c->out->n_elems == 0)
        return FR_OK;
    t.last = (uint64_t)fr_layout_dims(c->in[0])[c->axis] - 1;
    t.by_bytes = c->index == FR_U8 && t.last >= UINT8_MAX;
    fill_axes(&t, c);
    t.chunk = t.axis[0].n * TASK_BYTES / (c->out->n_elems * fr_dtype_size(c->dtype));
    t.chunk = t.chunk < 1 ? 1 : t.chunk > t.axis[0].n ? t.axis[0].n : t.chunk;
    n_tasks = (t.axis[0].n + t.chunk - 1) / t.chunk;
    kept = keep_indices(&t, c);
    if (!t.outside)
        finished = fr_pool_run(take_task, &t, n_tasks);
    fr_free(kept);
    if (!finished)
        return fr_fail(err, FR_EINTR, "interrupted");
    return t.outside ? fr_fail(err, FR_EINDEX, "take: an index has changed, and is out of bounds for axis %d with size %lld",
                               c->axis, (long long)t.last + 1)
                     : FR_OK;
}

static void
run_number_power(const struct fr_call *c, char *const *ptr)
{
    float exponent;

    memcpy(&exponent, &c->axis, sizeof exponent);
    if (c->dtype == FR_F32)
        *(float *)ptr[1] = powf(*(const float *)ptr[0], exponent);
    else
        *(double *)ptr[1] = pow(*(const double *)ptr[0], exponent);
}

fr_status
fr_call_run(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    if (c->op == FR_OP_number_power) {
        run_number_power(c, ptr);
        return FR_OK;
    }
    return c->op == FR_OP_take ? run_take(c, ptr, err) : run_product(c, ptr, err);
}
