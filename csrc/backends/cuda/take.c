/* backends/cuda/take.c -- takes, by a kernel for each size of element and dtype of the indices (jit/emit_take.c). */
#include <pthread.h>
#include <stdio.h>

#include "backends/cuda/kernel.h"

enum { N_SIZES = 5, BLOCKS_EACH = 16 };     /* 1, 2, 4, 8 and 16 bytes */

static pthread_mutex_t     lock = PTHREAD_MUTEX_INITIALIZER;
static struct fr_cuda_code codes[N_SIZES][FR_N_DTYPES];

static fr_status
get_code(int size, fr_dtype index, struct fr_cuda_device *d, fr_cuda_function *out, struct fr_err *err)
{
    static const char *const types[N_SIZES] = {"unsigned char", "unsigned short", "unsigned", "unsigned long long", "ulonglong2"};
    static const char *const of_index[FR_N_DTYPES] = {
        [FR_I8] = "signed char", [FR_I16] = "short", [FR_I32] = "int", [FR_I64] = "long long",
        [FR_U8] = "unsigned char", [FR_U16] = "unsigned short", [FR_U32] = "unsigned", [FR_U64] = "unsigned long long"};
    const int            k = __builtin_ctz((unsigned)size);
    struct fr_cuda_code *code = &codes[k][index];
    char                 element[48], indices[48];
    const char *const    defines[] = {element, indices, NULL};
    fr_status            st = FR_OK;

    if (!of_index[index])
        return FR_ENOTSUP;
    snprintf(element, sizeof element, "-DELEMENT=%s", types[k]);
    snprintf(indices, sizeof indices, "-DINDEX=%s", of_index[index]);
    pthread_mutex_lock(&lock);
    if (!code->function)
        st = fr_cuda_code_make(fr_cuda_take_text, "frit_take", defines, d, code, err);
    *out = code->function;
    pthread_mutex_unlock(&lock);
    return st;
}

void
fr_cuda_take_kernels_free(void)
{
    for (int k = 0; k < N_SIZES; k++)
        for (int d = 0; d < FR_N_DTYPES; d++)
            fr_cuda_code_free(&codes[k][d]);
}

/* Appends an axis, or lengthens the one before it, of which it is the inner part. False: they are too many. */
static bool
add_axis(struct fr_cuda_take *g, int64_t n, int64_t in_stride, int64_t out_stride, bool is_index)
{
    const int64_t last = g->n_axes - 1;

    if (n == 1 && !is_index)
        return true;
    if (last >= 0 && last != g->index_axis && !is_index && g->in_stride[last] == n * in_stride && g->out_stride[last] == n * out_stride) {
        g->dims[last] *= n;
        g->in_stride[last] = in_stride;
        g->out_stride[last] = out_stride;
        return true;
    }
    if (g->n_axes == FR_CUDA_TAKE_AXES)
        return false;
    if (is_index)
        g->index_axis = g->n_axes;
    g->dims[g->n_axes] = n;
    g->in_stride[g->n_axes] = in_stride;
    g->out_stride[g->n_axes++] = out_stride;
    return true;
}

/* The index's axes, which lie in C order in the result, are one. */
static bool
fill_axes(struct fr_cuda_take *g, const struct fr_call *c)
{
    const struct fr_layout *in = c->in[0], *out = c->out;
    const int64_t          *from = fr_layout_strides(in), *to = fr_layout_strides(out), size = fr_dtype_size(c->dtype);
    const int               n_index = c->in[1]->ndim;

    g->index_axis = -1;
    for (int k = 0; k < in->ndim; k++) {
        const int  o = k < c->axis ? k : k + n_index - 1;
        const bool is_index = k == c->axis;

        if (!add_axis(g, is_index ? c->in[1]->n_elems : fr_layout_dims(in)[k], from[k] * size,
                      is_index && n_index == 0 ? 0 : to[o] * size, is_index))
            return false;
    }
    return true;
}

fr_status
fr_cuda_take(const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    struct fr_cuda_take    g = {.in = (uint64_t)(uintptr_t)ptr[0], .index = (uint64_t)(uintptr_t)ptr[1], .out = (uint64_t)(uintptr_t)ptr[2],
                                .n = c->out->n_elems, .size = fr_layout_dims(c->in[0])[c->axis]};
    void                  *argument[] = {&g};
    struct fr_cuda_device *d;
    fr_cuda_function       f;
    int64_t                n_blocks = (g.n + FR_CUDA_THREADS - 1) / FR_CUDA_THREADS;
    fr_status              st;

    if (c->wary || !fill_axes(&g, c))
        return FR_ENOTSUP;
    if (g.n == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(&d, err)) != FR_OK)
        return st;
    TRY(get_code(fr_dtype_size(c->dtype), c->index, d, &f, err));
    if (n_blocks > (int64_t)d->n_multiprocessors * BLOCKS_EACH)
        n_blocks = (int64_t)d->n_multiprocessors * BLOCKS_EACH;
    st = fr_cuda_check(d->driver->launch(f, (unsigned)n_blocks, 1, 1, FR_CUDA_THREADS, 1, 1, 0, d->stream, argument, NULL),
                       "a take's launch", err);
out:
    fr_cuda_leave(d);
    return st;
}
