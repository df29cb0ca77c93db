/* backends/cuda/product.c -- products of matrices, by kernels of our own (jit/emit_product.c): one for each dtype. */
#include "backends/cuda/kernel.h"
#include "backends/stack.h"
#include "base/ways.h"
#include "jit/emit_text.h"

enum { MOST_Z = 65535 };

static struct fr_cuda_code codes[FR_N_DTYPES][FR_CUDA_DEVICES];

static fr_status
write(struct fr_text *out, const struct fr_cuda_source *of, struct fr_err *err)
{
    return fr_text_product(out, of->dtype, err);
}

/* Those along the last axis of the stack. */
static fr_status
launch_stack(const struct fr_stack *s, struct fr_cuda_device *d, fr_cuda_function f, struct fr_err *err)
{
    const unsigned x = (unsigned)((s->dims[3] + FR_CUDA_TILE - 1) / FR_CUDA_TILE), y = (unsigned)((s->dims[1] + FR_CUDA_TILE - 1) / FR_CUDA_TILE);
    fr_status      st = FR_OK;

    if (y > MOST_Z)
        return FR_ENOTSUP;
    for (int64_t i = 0; i < s->dims[0] && st == FR_OK; i += MOST_Z) {
        struct fr_cuda_product g = {
            .a = (uint64_t)(uintptr_t)s->at[0] + (uint64_t)(i * s->steps[0]), .b = (uint64_t)(uintptr_t)s->at[1] + (uint64_t)(i * s->steps[1]),
            .out = (uint64_t)(uintptr_t)s->at[2] + (uint64_t)(i * s->steps[2]),
            .a_next = s->steps[0], .b_next = s->steps[1], .out_next = s->steps[2], .m = s->dims[1], .k = s->dims[2], .n = s->dims[3],
            .a_m = s->steps[3], .a_k = s->steps[4], .b_k = s->steps[5], .b_n = s->steps[6], .out_m = s->steps[7], .out_n = s->steps[8]};
        void    *argument[] = {&g};
        unsigned z = (unsigned)(s->dims[0] - i < MOST_Z ? s->dims[0] - i : MOST_Z);

        st = fr_cuda_check(d->driver->launch(f, x, y, z, FR_CUDA_THREADS, 1, 1, 0, d->stream, argument, NULL), "a product's launch", err);
    }
    return st;
}

fr_status
fr_cuda_product(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    static const char *const    none[] = {NULL};
    const struct fr_cuda_source of = {"frit_product", write, none, FR_OP_matmul, c->dtype};
    struct fr_cuda_device      *d;
    fr_cuda_function            f;
    struct fr_stack             s;
    fr_status                   st;

    if (c->axis == FR_PRODUCT_IN_LANES || fr_is_off(FR_OFF_device_products))
        return FR_ENOTSUP;
    if (c->out->n_elems == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    TRY(fr_cuda_code_get(codes[c->dtype], &of, d, &f, err));
    fr_stack_begin(&s, c, ptr);
    do
        TRY(launch_stack(&s, d, f, err));
    while (fr_stack_next(&s));
    fr_count_way(FR_WAY_device_products);
out:
    fr_cuda_leave(d);
    return st;
}
