/* backends/cuda/scan.c -- running results, by a kernel for each operation and dtype (jit/emit_scan.c). */
#include "backends/cuda/kernel.h"
#include "jit/emit_text.h"

enum { FIRST = FR_OP_cumsum, N_SCANS = FR_OP_cummin - FR_OP_cumsum + 1, BLOCKS_EACH = 8 };

static struct fr_cuda_code codes[N_SCANS][FR_N_DTYPES][FR_CUDA_DEVICES];

static fr_status
write(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    return fr_text_scan(out, of->op, of->dtype, err);
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
fr_cuda_scan_there(const struct fr_backend *self, fr_op op, fr_dtype dtype, const struct fr_instance *in, struct fr_err *err)
{
    struct fr_cuda_scan    g = {.in = (uint64_t)(uintptr_t)in->ptr[0], .out = (uint64_t)(uintptr_t)in->ptr[1]};
    struct fr_cuda_grid    grid = {1, 1, 1, FR_CUDA_THREADS, 1};
    static const char *const    none[] = {NULL};
    const struct fr_cuda_source of = {"frit_scan", write, none, op, dtype};
    struct fr_cuda_device *d;
    fr_cuda_function       f;
    fr_status              st;

    if (!fill_axes(&g, in))
        return FR_ENOTSUP;
    if (fr_instance_is_empty(in))
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    TRY(fr_cuda_code_get(codes[op - FIRST][dtype], &of, d, &f, err));
    grid.x = fr_cuda_blocks(g.n_lines, FR_CUDA_LINES, (int64_t)d->n_multiprocessors * BLOCKS_EACH);
    st = fr_cuda_start(d, f, &grid, 0, &g, sizeof g, "a scan's launch", err);
out:
    fr_cuda_leave(d);
    return st;
}
