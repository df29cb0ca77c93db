#include "backends/cpu/product.h"

#include "backends/cpu/copy.h"
#include "backends/cpu/half.h"
#include "backends/cpu/pool.h"
#include "base/alloc.h"
#include "base/ways.h"
#include "ir/op.h"

enum {
    SMALL_WORK = 100,           /* multiplications: less is done by NumPy's loop before ours has begun */
    FEW_ROWS = 4,               /* of a, for which b is not worth copying */
    MOST_PADDING = 1 << 18,     /* elements that b grows by */
    TASK_WORK = 1 << 18,        /* multiplications that make waking a thread worth while */
};

struct product {
    fr_dtype               dtype;               /* of the kernel: halves are floats by then */
    int64_t                m, k, n;
    struct fr_product_rows rows;
    int64_t                chunk;               /* rows of a task */
};

static void
run_task(void *arg, int64_t i, int worker)
{
    const struct product *p = arg;
    int64_t               first = i * p->chunk, last = first + p->chunk;

    (void)worker;
    fr_product->rows[p->dtype](&p->rows, first, last < p->m ? last : p->m);
}

static fr_status
run_rows(struct product *p, struct fr_err *err)
{
    p->chunk = (TASK_WORK / (p->k * p->n) + 4) & ~INT64_C(3); /* whole tiles */
    if (p->chunk >= p->m)
        fr_product->rows[p->dtype](&p->rows, 0, p->m);
    else if (!fr_pool_run(run_task, p, (p->m + p->chunk - 1) / p->chunk))
        return fr_fail(err, FR_EINTR, "interrupted");
    return FR_OK;
}

static void
widen(int64_t n_rows, int64_t n, float *dst, int64_t dst_row, const char *src, int64_t row, int64_t step)
{
    for (int64_t i = 0; i < n_rows; i++)
        for (int64_t j = 0; j < n; j++)
            dst[i * dst_row + j] = half_to_float(*(const uint16_t *)(src + i * row + j * step));
}

/* Elements of a row of b as it is read: whole vectors, at least one. */
static int64_t
padded(int64_t n, int size)
{
    return n * size >= FR_PRODUCT_LANES ? n : FR_PRODUCT_LANES / size;
}

/* Halves, in the memory of `room`: both operands as floats, then the result. */
static fr_status
run_halves(struct product *p, char *const *at, const int64_t *steps, float *room, struct fr_err *err)
{
    int64_t   pad = padded(p->n, sizeof *room);
    float    *a = room, *b = a + p->m * p->k, *out = b + p->k * pad;
    fr_status st;

    widen(p->m, p->k, a, p->k, at[0], steps[3], steps[4]);
    widen(p->k, p->n, b, pad, at[1], steps[5], steps[6]);
    p->rows = (struct fr_product_rows){(char *)a, (char *)b, (char *)out, p->k * (int64_t)sizeof *a, sizeof *a,
                                       pad * (int64_t)sizeof *b, p->n * (int64_t)sizeof *out, p->k, p->n};
    if ((st = run_rows(p, err)) != FR_OK)
        return st;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++)
            *(uint16_t *)(at[2] + i * steps[7] + j * steps[8]) = float_to_half(out[i * p->n + j]);
    return FR_OK;
}

/* Rows by one vector, both contiguous along the inner axis. */
static void
run_dots(const struct product *p, int64_t n, const char *rows, int64_t row, const char *vector, char *out, int64_t step)
{
    for (int64_t i = 0; i < n; i++)
        fr_product->dot[p->dtype](p->k, rows + i * row, vector, out + i * step);
}

static void
run_lanes(const struct product *p, char *const *at, const int64_t *steps)
{
    for (int64_t i = 0; i < p->m; i++)
        fr_product->lanes[p->dtype](p->k, at[0] + i * steps[3], at[1], steps[6], p->n, at[2] + i * steps[7], steps[8]);
}

static bool
is_tiny(const int64_t *dims)
{
    for (int i = 1; i < 4; i++)
        if (dims[i] < 2 || dims[i] > FR_PRODUCT_TINY)
            return false;
    return true;
}

static fr_status
run(fr_dtype d, int order, char *const *ptr, const int64_t *dims, const int64_t *steps, struct fr_err *err)
{
    bool           own = order != FR_PRODUCT_NUMPYS;
    int            size = fr_dtype_size(d);
    bool           half = d == FR_F16, dots = false, packs = true;
    struct product p = {.dtype = half ? FR_F32 : d, .m = dims[1], .k = dims[2], .n = dims[3]};
    int64_t        pad = padded(p.n, half ? (int)sizeof(float) : size);
    char          *room = NULL, *packed = NULL;
    fr_status      st = FR_OK;

    if (!own && (d == FR_F32 || d == FR_F64))
        return is_tiny(dims) && fr_product_run_tiny(d, ptr, dims, steps) ? FR_OK : FR_ENOTSUP;
    if (!own && (!fr_product->rows[p.dtype] || (p.n > 1 && steps[8] != size)))
        return FR_ENOTSUP;
    if (!half) {
        dots = fr_product->dot[d] && steps[4] == size && steps[5] == size && (p.n == 1 || p.m == 1);
        packs = !dots && order != FR_PRODUCT_IN_LANES && (pad > p.n || steps[6] != size);
    }
    if (!own && !dots && (p.m * p.n * p.k < SMALL_WORK || (packs && (p.m < FEW_ROWS || p.k * (pad - p.n) > MOST_PADDING))))
        return FR_ENOTSUP;
    if (half)
        room = fr_malloc((size_t)(p.m * p.k + p.k * pad + p.m * p.n) * sizeof(float));
    else if (packs)
        room = fr_calloc((size_t)(p.k * pad), (size_t)size);
    if (!room && !dots && packs)
        return own ? fr_fail(err, FR_ENOMEM, "out of memory: a product") : FR_ENOTSUP;
    for (int64_t i = 0; i < dims[0] && st == FR_OK; i++) {
        char *at[3] = {ptr[0] + i * steps[0], ptr[1] + i * steps[1], ptr[2] + i * steps[2]};

        if (order == FR_PRODUCT_IN_LANES) {
            run_lanes(&p, at, steps);
        } else if (half) {
            st = run_halves(&p, at, steps, (float *)(void *)room, err);
        } else if (dots) {
            if (p.n == 1)
                run_dots(&p, p.m, at[0], steps[3], at[1], at[2], steps[7]);
            else
                run_dots(&p, p.n, at[1], steps[6], at[0], at[2], steps[8]);
        } else {
            if (packs && packed != at[1])
                fr_copy_2d((size_t)p.k, (size_t)p.n, size, room, pad * size, size, at[1], steps[5], steps[6]);
            packed = at[1];
            p.rows = (struct fr_product_rows){at[0], packs ? room : at[1], at[2], steps[3], steps[4],
                                              packs ? pad * size : steps[5], steps[7], p.k, p.n};
            st = run_rows(&p, err);
        }
    }
    fr_free(room);
    return st;
}

fr_status
fr_product_run(fr_dtype d, int order, char *const *ptr, const int64_t *dims, const int64_t *steps, struct fr_err *err)
{
    fr_status st;

    if (fr_is_off(FR_OFF_tiled) && order == FR_PRODUCT_NUMPYS)
        return FR_ENOTSUP;
    st = run(d, order, ptr, dims, steps, err);
    fr_count_ways(FR_WAY_tiled, st == FR_OK);
    return st;
}
