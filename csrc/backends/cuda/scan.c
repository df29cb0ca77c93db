/* backends/cuda/scan.c -- running results, by a kernel for each operation and dtype (jit/emit_scan.c). */
#include <pthread.h>

#include "backends/cuda/kernel.h"
#include "jit/emit_text.h"

enum { FIRST = FR_OP_cumsum, N_SCANS = FR_OP_cummin - FR_OP_cumsum + 1, BLOCKS_EACH = 8 };

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_cuda_code codes[N_SCANS][FR_N_DTYPES];

static fr_status
get_code(fr_op op, fr_dtype dtype, struct fr_cuda_device *d, fr_cuda_function *out, struct fr_err *err)
{
    static const char *const none[] = {NULL};
    struct fr_cuda_code *code = &codes[op - FIRST][dtype];
    struct fr_text       text = {0};
    fr_status            st = FR_OK;

    pthread_mutex_lock(&lock);
    if (!code->function) {
        TRY(fr_text_scan(&text, op, dtype, err));
        TRY(fr_cuda_code_make(text.s, "frit_scan", none, d, code, err));
    }
out:
    *out = code->function;
    pthread_mutex_unlock(&lock);
    fr_text_clear(&text);
    return st;
}

void
fr_cuda_scan_kernels_free(void)
{
    for (int i = 0; i < N_SCANS; i++)
        for (int d = 0; d < FR_N_DTYPES; d++)
            fr_cuda_code_free(&codes[i][d]);
}

/* The axes of the lines are all but the last; those of one index say nothing. False: they are too many. */
static bool
fill_axes(struct fr_cuda_scan *g, const struct fr_instance *in)
{
    const int64_t *from = in->stride, *to = in->stride + in->n_outer + 2;

    g->n_lines = 1;
    for (int a = 0; a <= in->n_outer; a++) {
        const int64_t n = fr_instance_dim(in, a);

        g->n_lines *= n;
        if (n == 1)
            continue;
        if (g->n_axes == FR_CUDA_SCAN_AXES)
            return false;
        g->dims[g->n_axes] = n;
        g->in_stride[g->n_axes] = from[a];
        g->out_stride[g->n_axes++] = to[a];
    }
    g->length = in->n_inner;
    g->in_step = from[in->n_outer + 1];
    g->out_step = to[in->n_outer + 1];
    return true;
}

fr_status
fr_cuda_scan_there(fr_op op, fr_dtype dtype, const struct fr_instance *in, struct fr_err *err)
{
    struct fr_cuda_scan    g = {.in = (uint64_t)(uintptr_t)in->ptr[0], .out = (uint64_t)(uintptr_t)in->ptr[1]};
    void                  *argument[] = {&g};
    struct fr_cuda_device *d;
    fr_cuda_function       f;
    int64_t                n_blocks;
    fr_status              st;

    if (!fill_axes(&g, in))
        return FR_ENOTSUP;
    if (fr_instance_is_empty(in))
        return FR_OK;
    if ((st = fr_cuda_enter(&d, err)) != FR_OK)
        return st;
    TRY(get_code(op, dtype, d, &f, err));
    n_blocks = (g.n_lines + FR_CUDA_LINES - 1) / FR_CUDA_LINES;
    if (n_blocks > (int64_t)d->n_multiprocessors * BLOCKS_EACH)
        n_blocks = (int64_t)d->n_multiprocessors * BLOCKS_EACH;
    st = fr_cuda_check(d->driver->launch(f, (unsigned)n_blocks, 1, 1, FR_CUDA_THREADS, 1, 1, 0, d->stream, argument, NULL),
                       "a scan's launch", err);
out:
    fr_cuda_leave(d);
    return st;
}
