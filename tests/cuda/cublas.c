/* tests/cuda/cublas.c -- cuBLAS over the driver of driver.c: FRIT_CUBLAS_LIB names the library that both are in.
 *
 * It is stricter than a real one: without a stream of one's own, a workspace out of live memory or the mode that products are
 * promised in it does nothing. Products run in their stream, as late as they may, and write to the workspace. Sums go from the
 * last element to the first, so that nobody may count on an order.
 *
 * Calls of a function can be made to fail (fake_cublas_fail). FAKE_CUBLAS_MAJOR: its version. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { OK = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, ARCH_MISMATCH = 8, EXECUTION_FAILED = 13, INTERNAL_ERROR = 14,
       NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, C_32F = 4, C_64F = 5, COMPUTE_32F = 68, COMPUTE_64F = 70, PEDANTIC = 1 };
enum { MODE = 16, LEAST_WORKSPACE = 4 << 20 };

struct handle {
    struct stream *stream;
    uint64_t       workspace;       /* 0: none, or a new stream has taken it away */
    size_t         workspace_bytes;
    int            mode;
    struct handle *next;
};

struct matrix {
    uint64_t at;
    int      op;
    int64_t  ld, next;
};

struct gemm {
    struct matrix a, b, c;
    int64_t       m, n, k, count;
    int           type;
    uint64_t      workspace;
};

/* What is there, for tests. */
struct fake_cublas_counts {
    uint64_t n_calls, n_handles, n_gemms, n_batched, n_products;
};

static struct handle *handles;
static struct fake_cublas_counts counts;
static char     failing[40];        /* the function that fails, */
static int      fail_with;          /* with this status */

/* All calls of it do, until another one is named. */
EXPORT void
fake_cublas_fail(const char *function, int status)
{
    fake_begin();
    snprintf(failing, sizeof failing, "%s", function);
    fail_with = status;
    fake_end();
}

EXPORT void
fake_cublas_counts(struct fake_cublas_counts *out)
{
    fake_begin();
    *out = counts;
    fake_end();
}

/* What a call with this handle says before it does anything. */
static int
enter(struct handle *of, const char *function)
{
    struct handle *h = handles;
    int            said = fake_begin();

    counts.n_calls++;
    if (strcmp(function, failing) == 0)
        return fail_with;
    while (h && h != of)
        h = h->next;
    return of && !h ? NOT_INITIALIZED : said ? EXECUTION_FAILED : OK;
}

static int
leave(int status)
{
    fake_end();
    return status;
}

EXPORT int
cublasGetProperty(int which, int *value)
{
    const char *major = getenv("FAKE_CUBLAS_MAJOR");

    *value = which == 0 ? major ? atoi(major) : 13 : 0;
    return which < 0 || which > 2 ? INVALID_VALUE : OK;
}

EXPORT const char *
cublasGetStatusName(int status)
{
    switch (status) {
    case OK: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "unrecognized status";
    }
}

EXPORT int
cublasCreate_v2(struct handle **out)
{
    int            status = enter(NULL, __func__);
    struct handle *h = status ? NULL : calloc(1, sizeof *h);

    if (!h)
        return leave(status ? status : ALLOC_FAILED);
    h->next = handles;
    *out = handles = h;
    counts.n_handles++;
    return leave(OK);
}

EXPORT int
cublasDestroy_v2(struct handle *of)
{
    struct handle **link = &handles;

    if (fake_begin() == 201)        /* no current context; a lost one will do */
        return leave(NOT_INITIALIZED);
    while (*link && *link != of)
        link = &(*link)->next;
    if (!*link)
        return leave(NOT_INITIALIZED);
    *link = of->next;
    free(of);
    counts.n_handles--;
    return leave(OK);
}

EXPORT int
cublasSetStream_v2(struct handle *h, struct stream *s)
{
    int status = enter(h, __func__);

    if (status == OK) {
        h->stream = s;
        h->workspace = 0;
    }
    return leave(status);
}

EXPORT int
cublasSetWorkspace_v2(struct handle *h, void *workspace, size_t n)
{
    int            status = enter(h, __func__);
    const uint64_t at = (uint64_t)(uintptr_t)workspace;

    if (status != OK)
        return leave(status);
    if (n < LEAST_WORKSPACE || at % 256 || !fake_memory(at, n))
        return leave(INVALID_VALUE);
    h->workspace = at;
    h->workspace_bytes = n;
    return leave(OK);
}

EXPORT int
cublasSetMathMode(struct handle *h, int mode)
{
    int status = enter(h, __func__);

    if (status == OK)
        h->mode = mode;
    return leave(status);
}

/* ---- products ---- */

static size_t
type_size(int type)
{
    return type == R_16F ? 2 : type == R_32F ? 4 : type == R_64F || type == C_32F ? 8 : 16;
}

/* From the first element of the first of them to the last of the last. */
static char *
find(const struct matrix *x, int64_t rows, int64_t columns, int64_t count, size_t size)
{
    int64_t r = x->op ? columns : rows, c = x->op ? rows : columns;

    return fake_memory(x->at, (size_t)((count - 1) * x->next + (c - 1) * x->ld + r) * size);
}

/* Element (i, j), or where it is. */
#define AT(x, i, j) (((x).op ? (i) * (x).ld + (j) : (i) + (j) * (x).ld) * parts)
#define MULTIPLY(name, T, SUM, PARTS)                                                              \
    static void name(const struct gemm *g, const T *a, const T *b, T *c)                           \
    {                                                                                              \
        enum { parts = PARTS };                                                                    \
                                                                                                   \
        for (int64_t i = 0; i < g->m; i++)                                                         \
            for (int64_t j = 0; j < g->n; j++) {                                                   \
                SUM re = 0, im = 0;                                                                \
                                                                                                   \
                for (int64_t k = g->k - 1; k >= 0; k--) {                                          \
                    const T *x = a + AT(g->a, i, k), *y = b + AT(g->b, k, j);                      \
                                                                                                   \
                    re += (SUM)x[0] * (SUM)y[0];                                                   \
                    if (parts == 2) {                                                              \
                        re -= (SUM)x[1] * (SUM)y[1];                                               \
                        im += (SUM)x[0] * (SUM)y[1] + (SUM)x[1] * (SUM)y[0];                       \
                    }                                                                              \
                }                                                                                  \
                c[AT(g->c, i, j)] = (T)re;                                                         \
                if (parts == 2)                                                                    \
                    c[AT(g->c, i, j) + 1] = (T)im;                                                 \
            }                                                                                      \
    }
/* (The second component is read of complex numbers alone.) */
#pragma GCC diagnostic ignored "-Warray-bounds"
MULTIPLY(multiply_f16, _Float16, float, 1)
MULTIPLY(multiply_f32, float, float, 1)
MULTIPLY(multiply_f64, double, double, 1)
MULTIPLY(multiply_c64, float, float, 2)
MULTIPLY(multiply_c128, double, double, 2)

static const char *
run(void *arg)
{
    const struct gemm *g = arg;
    const size_t       size = type_size(g->type);
    char              *a = find(&g->a, g->m, g->k, g->count, size), *b = find(&g->b, g->k, g->n, g->count, size);
    char              *c = find(&g->c, g->m, g->n, g->count, size), *workspace = fake_memory(g->workspace, LEAST_WORKSPACE);

    if (!a || !b || !c || !workspace)
        return "a product of memory that is not allocated";
    memset(workspace, 0x5a, 4096);
    for (int64_t i = 0; i < g->count; i++) {
        void *x = a + (size_t)(i * g->a.next) * size, *y = b + (size_t)(i * g->b.next) * size, *z = c + (size_t)(i * g->c.next) * size;

        switch (g->type) {
        case R_16F: multiply_f16(g, x, y, z); break;
        case R_32F: multiply_f32(g, x, y, z); break;
        case R_64F: multiply_f64(g, x, y, z); break;
        case C_32F: multiply_c64(g, x, y, z); break;
        default: multiply_c128(g, x, y, z);
        }
    }
    return NULL;
}

/* Whether a matrix that is rows x columns once its op has been done is told of as it must be. */
static bool
is_right(const struct matrix *x, int64_t rows, int64_t columns, int64_t count, size_t size)
{
    const int64_t least = x->op ? columns : rows;

    return (x->op == 0 || x->op == 1) && x->ld >= (least > 1 ? least : 1) && x->at && x->at % size == 0 && (count == 1 || x->next >= 0);
}

static int
gemm(struct handle *h, struct gemm g, const void *alpha, const void *beta, const int types[3], int compute, int algorithm)
{
    int          status = enter(h, __func__);
    const int    type = types[0];
    const bool   wide = type == R_64F || type == C_64F;
    const size_t size = type_size(type);
    struct gemm *kept;

    if (status != OK)
        return leave(status);
    if (!h->stream || !h->workspace || !fake_memory(h->workspace, h->workspace_bytes) || h->mode != MODE)
        return leave(NOT_INITIALIZED);
    if ((type != R_16F && type != R_32F && type != R_64F && type != C_32F && type != C_64F) || types[1] != type || types[2] != type ||
        compute != (wide ? COMPUTE_64F : COMPUTE_32F) + (type == C_32F || type == C_64F ? PEDANTIC : 0) || algorithm != -1)
        return leave(NOT_SUPPORTED);
    if (g.m <= 0 || g.n <= 0 || g.k <= 0 || g.count <= 0 || g.count > 65535)
        return leave(INVALID_VALUE);
    if (!is_right(&g.a, g.m, g.k, g.count, size) || !is_right(&g.b, g.k, g.n, g.count, size) || !is_right(&g.c, g.m, g.n, g.count, size))
        return leave(INVALID_VALUE);
    if (g.count > 1 && g.c.next == 0)
        return leave(INVALID_VALUE);
    if (wide ? *(const double *)alpha != 1 || *(const double *)beta != 0 : *(const float *)alpha != 1 || *(const float *)beta != 0)
        return leave(INVALID_VALUE);
    if (!(kept = malloc(sizeof *kept)))
        return leave(ALLOC_FAILED);
    *kept = g;
    kept->type = type;
    kept->workspace = h->workspace;
    if (!fake_later(h->stream, run, kept, sizeof *kept)) {
        free(kept);
        return leave(ALLOC_FAILED);
    }
    counts.n_products += (uint64_t)g.count;
    return leave(OK);
}

EXPORT int
cublasGemmEx_64(struct handle *h, int a_op, int b_op, int64_t m, int64_t n, int64_t k, const void *alpha, const void *a, int a_type,
                int64_t lda, const void *b, int b_type, int64_t ldb, const void *beta, void *c, int c_type, int64_t ldc, int compute,
                int algorithm)
{
    counts.n_gemms++;
    return gemm(h, (struct gemm){.a = {(uintptr_t)a, a_op, lda, 0}, .b = {(uintptr_t)b, b_op, ldb, 0}, .c = {(uintptr_t)c, 0, ldc, 0},
                                 .m = m, .n = n, .k = k, .count = 1},
                alpha, beta, (int[]){a_type, b_type, c_type}, compute, algorithm);
}

EXPORT int
cublasGemmStridedBatchedEx_64(struct handle *h, int a_op, int b_op, int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                              int a_type, int64_t lda, long long a_next, const void *b, int b_type, int64_t ldb, long long b_next,
                              const void *beta, void *c, int c_type, int64_t ldc, long long c_next, int64_t count, int compute,
                              int algorithm)
{
    counts.n_batched++;
    return gemm(h, (struct gemm){.a = {(uintptr_t)a, a_op, lda, a_next}, .b = {(uintptr_t)b, b_op, ldb, b_next},
                                 .c = {(uintptr_t)c, 0, ldc, c_next}, .m = m, .n = n, .k = k, .count = count},
                alpha, beta, (int[]){a_type, b_type, c_type}, compute, algorithm);
}
