#include "backends/cuda/cublas.h"

#include "backends/cuda/graph.h"
#include "base/alloc.h"
#include "base/env.h"
#include "base/library.h"
#include "base/log.h"
#include "jit/emit_cuda.h"

/* Statuses, modes and types of cuBLAS that are used here, by their names there. */
enum { OK = 0, ALLOC_FAILED = 3, ARCH_MISMATCH = 8, NOT_SUPPORTED = 15 };
enum { MAJOR_VERSION = 0, MINOR_VERSION = 1, PATCH_LEVEL = 2 };
enum { OP_N = 0, OP_T = 1 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, C_32F = 4, C_64F = 5 };
enum { COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69, COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71 };
enum { GEMM_DEFAULT = -1 };
/* No TF32, which keeps 10 bits of what it multiplies, and no sums in less than the type that is computed in: halves are added as
 * f32 and rounded once, as on the host. (PEDANTIC_MATH would keep tensor cores from halves.) */
enum { DEFAULT_MATH = 0, DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };

enum { MOST_COUNT = 65535 };        /* products of one call: its kernels have them along z */

static struct cublas {
#define CUBLAS(returns, field, name, arguments) returns (*field) arguments;
#include "backends/cuda/cublas.def"
} blas;

static const struct fr_symbol symbols[] = {
#define CUBLAS(returns, field, name, arguments) {name, offsetof(struct cublas, field)},
#include "backends/cuda/cublas.def"
};

static struct fr_library_files files;
static bool                    is_open, is_absent;
static int                     version[3];
static char                    path[FR_ENV_STR_LEN];

void
fr_cublas_configure(void)
{
    fr_library_files(&files, "cublas", fr_env.cublas_lib);
}

static fr_status
check(int result, const char *what, struct fr_err *err)
{
    if (FR_LIKELY(result == OK))
        return FR_OK;
    return fr_fail(err, result == ALLOC_FAILED ? FR_ENOMEM : FR_EDEVICE, "CUDA: %s: cuBLAS says %s", what, blas.status_name(result));
}

/* ---- the library ---- */

/* FR_EDEVICE: it is newer than what the driver runs. */
static fr_status
check_version(const struct fr_cuda_device *d, struct fr_err *err)
{
    int       of_driver = 0;
    fr_status st;

    for (int part = MAJOR_VERSION; part <= PATCH_LEVEL; part++)
        TRY(check(blas.property(part, &version[part]), "its version", err));
    TRY(fr_cuda_check(d->driver->version(&of_driver), "the driver's version", err));
    if (version[MAJOR_VERSION] > of_driver / 1000)
        TRY(fr_fail(err, FR_EDEVICE, "%s is for CUDA %d, and the driver for CUDA %d", path, version[MAJOR_VERSION], of_driver / 1000));
out:
    return st;
}

/* The first file that is one and suits the driver. Why none does: what was said of the first. */
static fr_status
open_library(const struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_err said;

    for (int i = 0; i < files.n; i++) {
        struct fr_err *to = i == 0 ? err : &said;

        if (fr_library_open("cuBLAS (pip install nvidia-cublas-cu12)", &files.file[i], 1, symbols, (int)FR_LEN(symbols), &blas, path, sizeof path, to) == FR_OK &&
            check_version(d, to) == FR_OK)
            return FR_OK;
    }
    return files.n ? FR_EDEVICE : fr_fail(err, FR_EDEVICE, "nobody knows where cuBLAS is");
}

/* ---- a handle ---- */

static fr_status
refuse(struct fr_cuda_device *d, const char *why)
{
    d->cublas.is_refused = true;
    if (fr_env.debug >= 1)
        fr_log(1, "products on cuda:%d are run by kernels of our own: %s", d->ordinal, why);
    return FR_ENOTSUP;
}

/* cuBLAS adds up in another order where it has less of it: it has ours, always as much as NVIDIA recommends, and one stream. */
static size_t
workspace_bytes(const struct fr_cuda_device *d)
{
    return (size_t)(d->arch >= 90 ? 32 : 4) << 20;
}

static fr_status
get_workspace(struct fr_cuda_device *d, struct fr_err *err)
{
    return fr_cuda_check(fr_cuda_alloc_there(d, workspace_bytes(d), &d->cublas.workspace), "a workspace for cuBLAS", err);
}

/* The stream goes first, for that takes the workspace away. */
static fr_status
set_stream(struct fr_cuda_device *d, fr_cuda_stream stream, struct fr_err *err)
{
    struct fr_cublas *c = &d->cublas;
    fr_status         st;

    if (c->stream == stream)
        return FR_OK;
    c->stream = NULL;
    TRY(check(blas.set_stream(c->handle, stream), "a stream for products", err));
    TRY(check(blas.set_workspace(c->handle, (void *)(uintptr_t)c->workspace, workspace_bytes(d)), "a workspace for products", err));
    c->stream = stream;
out:
    return st;
}

static fr_status
prepare(struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_cublas *c = &d->cublas;
    fr_status         st;

    TRY(get_workspace(d, err));
    TRY(check(blas.set_math(c->handle, DEFAULT_MATH | DISALLOW_REDUCED_PRECISION_REDUCTION), "how products are rounded", err));
out:
    return st;
}

/* cuBLAS has memory of its own on the device, beside the pool, which may have taken it all. */
static int
create(struct fr_cuda_device *d)
{
    int result = blas.create(&d->cublas.handle);

    if (result != OK && d->driver->stream_wait(d->stream) == FR_CUDA_OK) {
        d->driver->pool_trim(d->pool, 0);
        result = blas.create(&d->cublas.handle);
    }
    if (result != OK)
        d->cublas.handle = NULL;
    return result;
}

static fr_status
begin(struct fr_cuda_device *d, struct fr_err *err)
{
    struct fr_err why;
    fr_status     st;
    int           result;

    if (d->cublas.is_refused || is_absent)
        return FR_ENOTSUP;
    if (!is_open && open_library(d, &why) != FR_OK) {
        is_absent = true;
        return refuse(d, why.text);
    }
    is_open = true;
    if ((result = create(d)) == ALLOC_FAILED)
        return check(result, "a handle for products", err);
    if (result != OK)
        return refuse(d, blas.status_name(result));
    if ((st = prepare(d, err)) != FR_OK)
        fr_cublas_close(d);
    else if (fr_env.debug >= 1)
        fr_log(1, "products on cuda:%d are run by cuBLAS %d.%d.%d; %s", d->ordinal, version[MAJOR_VERSION], version[MINOR_VERSION],
               version[PATCH_LEVEL], path);
    return st;
}

void
fr_cublas_close(struct fr_cuda_device *d)
{
    struct fr_cublas *c = &d->cublas;

    if (c->handle)
        blas.destroy(c->handle);
    if (c->workspace)
        d->driver->free(c->workspace, d->stream);
    *c = (struct fr_cublas){.is_refused = c->is_refused};
}

/* ---- products ---- */

/* Pedantic: a complex product is four real ones. Of three, as cuBLAS may do otherwise, numbers without an imaginary part get one. */
static const struct { int type, compute; } types[FR_N_DTYPES] = {
    [FR_F16] = {R_16F, COMPUTE_32F}, [FR_F32] = {R_32F, COMPUTE_32F}, [FR_F64] = {R_64F, COMPUTE_64F},
    [FR_C64] = {C_32F, COMPUTE_32F_PEDANTIC}, [FR_C128] = {C_64F, COMPUTE_64F_PEDANTIC},
};

/* A matrix as cuBLAS is told of it, which walks down columns and therefore sees the transpose of ours. */
struct operand {
    uint64_t  at;
    int       op;               /* OP_T: it is to transpose what it sees */
    int64_t   ld;               /* elements from one of its columns to the next, */
    long long next;             /* and from one matrix to the next */
};

/* rows x columns elements, so many bytes apart. False: neither those of a row nor those of a column are neighbours, or they
 * overlap, lie backwards or askew. */
static bool
lies_well(struct operand *o, uint64_t at, int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t next, int64_t size)
{
    const bool    along = columns == 1 || column == size;
    const int64_t n = along ? columns : rows, others = along ? rows : columns, step = along ? row : column;

    *o = (struct operand){at, along ? OP_N : OP_T, others == 1 ? n : step / size, next / size};
    return (along || rows == 1 || row == size) && o->ld >= n && (others == 1 || step % size == 0) && next >= 0 && next % size == 0 &&
           at % (uint64_t)size == 0;
}

/* The transposed product, which has the same elements. */
static void
turn(struct fr_cuda_product *g)
{
    *g = (struct fr_cuda_product){
        .a = g->b, .b = g->a, .out = g->out, .a_next = g->b_next, .b_next = g->a_next, .out_next = g->out_next, .m = g->n, .k = g->k, .n = g->m,
        .a_m = g->b_n, .a_k = g->b_k, .b_k = g->a_k, .b_n = g->a_m, .out_m = g->out_n, .out_n = g->out_m};
}

/* A stack of matrices times one matrix is one product of all their rows, if these lie alike from one matrix to the next. */
static void
join(struct fr_cuda_product *g, int64_t *count)
{
    if (*count == 1 || g->b_next != 0 || g->a_next == 0 || (g->m > 1 && (g->a_next != g->m * g->a_m || g->out_next != g->m * g->out_m)))
        return;
    if (g->m == 1) {
        g->a_m = g->a_next;
        g->out_m = g->out_next;
    }
    g->m *= *count;
    *count = 1;
}

static int
multiply(fr_cublas_handle handle, fr_dtype dtype, const struct fr_cuda_product *g, const struct operand o[3], int64_t count)
{
    static const float  one_f32[2] = {1}, zero_f32[2];      /* (also of a complex number) */
    static const double one_f64[2] = {1}, zero_f64[2];
    const int           type = types[dtype].type, compute = types[dtype].compute;
    const bool          wide = compute >= COMPUTE_64F;
    const void *const   alpha = wide ? (const void *)one_f64 : one_f32, *const beta = wide ? (const void *)zero_f64 : zero_f32;
    const void *const   a = (const void *)(uintptr_t)o[0].at, *const b = (const void *)(uintptr_t)o[1].at;
    void *const         out = (void *)(uintptr_t)o[2].at;

    /* (The transpose of a product is that of the second matrix by that of the first.) */
    if (count == 1)
        return blas.gemm(handle, o[1].op, o[0].op, g->n, g->m, g->k, alpha, b, type, o[1].ld, a, type, o[0].ld, beta, out, type, o[2].ld,
                         compute, GEMM_DEFAULT);
    return blas.gemms(handle, o[1].op, o[0].op, g->n, g->m, g->k, alpha, b, type, o[1].ld, o[1].next, a, type, o[0].ld, o[0].next, beta, out,
                      type, o[2].ld, o[2].next, count, compute, GEMM_DEFAULT);
}

/* What a recording knows of products. */
struct description {
    struct fr_cuda_product of;
    int64_t                count, dtype;
};

fr_status
fr_cublas_run(struct fr_cuda_device *d, fr_dtype dtype, const struct fr_cuda_product *of, int64_t count, struct fr_err *err)
{
    const int64_t          size = fr_dtype_size(dtype);
    struct fr_cuda_product g = *of;
    struct operand         o[3];
    struct description     described = {.of = *of, .count = count, .dtype = dtype};
    fr_cuda_stream         stream;
    int                    result = OK;
    fr_status              st;

    if (!types[dtype].compute || g.k == 0)
        return FR_ENOTSUP;
    join(&g, &count);
    /* A column is turned into a row, for which cuBLAS has kernels of matrices by vectors. */
    if ((g.out_n != size && g.n > 1) || (g.n == 1 && g.m > 1 && g.out_m == size))
        turn(&g);
    if (!lies_well(&o[0], g.a, g.m, g.k, g.a_m, g.a_k, g.a_next, size) || !lies_well(&o[1], g.b, g.k, g.n, g.b_k, g.b_n, g.b_next, size) ||
        !lies_well(&o[2], g.out, g.m, g.n, g.out_m, g.out_n, g.out_next, size) || o[2].op != OP_N)
        return FR_ENOTSUP;
    if (FR_UNLIKELY(!d->cublas.handle) && ((st = fr_cuda_needs_host(d, err)) != FR_OK || (st = begin(d, err)) != FR_OK))
        return st;
    if (!fr_cuda_start_other(d, &described, sizeof described, &stream))
        return FR_OK;
    if ((st = set_stream(d, stream, err)) != FR_OK)
        return st;
    for (int64_t i = 0; i < count && result == OK; i += MOST_COUNT) {
        result = multiply(d->cublas.handle, dtype, &g, o, count - i < MOST_COUNT ? count - i : MOST_COUNT);
        for (int k = 0; k < 3; k++)
            o[k].at += (uint64_t)(MOST_COUNT * o[k].next * size);
    }
    /* It has no kernel for this type on this device. (If the first call had one, so has the second.) */
    if (result == NOT_SUPPORTED || result == ARCH_MISMATCH)
        return FR_ENOTSUP;
    return check(result, "a product", err);
}
