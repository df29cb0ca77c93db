/* backends/cuda/take.c -- takes, by a kernel for each size of element and dtype of the indices (jit/emit_take.c). */
#include <stdio.h>

#include "backends/cuda/chosen.h"
#include "jit/emit_text.h"

enum { N_SIZES = 5, BLOCKS_EACH = 16 };     /* 1, 2, 4, 8 and 16 bytes */

static struct fr_cuda_code codes[N_SIZES][FR_N_DTYPES][FR_CUDA_DEVICES];

static fr_status
write(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    (void)of;
    return fr_cuda_write_text(out, fr_cuda_take_text, err);
}

static fr_status
get_code(int size, fr_dtype index, struct fr_cuda_device *d, fr_cuda_function *out, struct fr_err *err)
{
    char                        element[48], indices[48];
    const char *const           defines[] = {element, indices, NULL};
    const struct fr_cuda_source of = {"frit_take", write, defines, FR_OP_take, index};

    if (!fr_cuda_index_type(index))
        return FR_ENOTSUP;
    snprintf(element, sizeof element, "-DELEMENT=%s", fr_cuda_unit_type(size));
    snprintf(indices, sizeof indices, "-DINDEX=%s", fr_cuda_index_type(index));
    return fr_cuda_code_get(codes[__builtin_ctz((unsigned)size)][index], &of, d, out, err);
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

/* Indices that others may have written to since they were looked at. */
static fr_status
look_again(const struct fr_backend *self, const struct fr_call *c, const void *index, struct fr_err *err)
{
    const struct fr_look l = {.at = index, .dtype = c->index, .is_strict = c->index == FR_I64, .size = fr_layout_dims(c->in[0])[c->axis],
                              .n_axes = 1, .dims = {c->in[1]->n_elems}, .strides = {fr_dtype_size(c->index)}};
    int64_t              wrong;
    int                  which;
    fr_status            st = fr_cuda_look_at(self, &l, 1, &which, &wrong, err);

    return st != FR_OK || wrong < 0 ? st : fr_fail(err, FR_EINDEX, "take: an index has changed, and is out of bounds for axis %d with size %lld",
                                                   c->axis, (long long)l.size);
}

fr_status
fr_cuda_take(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    struct fr_cuda_take    g = {.in = (uint64_t)(uintptr_t)ptr[0], .index = (uint64_t)(uintptr_t)ptr[1], .out = (uint64_t)(uintptr_t)ptr[2],
                                .n = c->out->n_elems, .size = fr_layout_dims(c->in[0])[c->axis]};
    struct fr_cuda_grid    grid = {1, 1, 1, FR_CUDA_THREADS, 1};
    struct fr_cuda_device *d;
    fr_cuda_function       f;
    fr_status              st;

    if (!fill_axes(&g, c))
        return FR_ENOTSUP;
    if (g.n == 0)
        return FR_OK;
    if (c->wary && (st = look_again(self, c, ptr[1], err)) != FR_OK)
        return st;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    TRY(get_code(fr_dtype_size(c->dtype), c->index, d, &f, err));
    grid.x = fr_cuda_blocks(g.n, FR_CUDA_THREADS, (int64_t)d->n_multiprocessors * BLOCKS_EACH);
    st = fr_cuda_start(d, f, &grid, 0, &g, sizeof g, "a take's launch", err);
out:
    fr_cuda_leave(d);
    return st;
}
