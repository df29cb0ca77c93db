/* backends/cuda/product.c -- products of matrices, by cuBLAS (cublas.c), or by kernels of our own
 * (jit/emit_product.c): one for each dtype. */
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
static struct fr_cuda_product
describe(const struct fr_stack *s)
{
    return (struct fr_cuda_product){
        .a = (uint64_t)(uintptr_t)s->at[0], .b = (uint64_t)(uintptr_t)s->at[1], .out = (uint64_t)(uintptr_t)s->at[2],
        .a_next = s->steps[0], .b_next = s->steps[1], .out_next = s->steps[2], .m = s->dims[1], .k = s->dims[2], .n = s->dims[3],
        .a_m = s->steps[3], .a_k = s->steps[4], .b_k = s->steps[5], .b_n = s->steps[6], .out_m = s->steps[7], .out_n = s->steps[8]};
}

static fr_status
launch(struct fr_cuda_device *d, fr_dtype dtype, struct fr_cuda_product g, int64_t count, struct fr_err *err)
{
    static const char *const    none[] = {NULL};
    const struct fr_cuda_source of = {"frit_product", write, none, FR_OP_matmul, dtype};
    const int64_t               x = (g.n + FR_CUDA_TILE - 1) / FR_CUDA_TILE, y = (g.m + FR_CUDA_TILE - 1) / FR_CUDA_TILE;
    fr_cuda_function            f;
    fr_status                   st = y > MOST_Z || x > INT32_MAX ? FR_ENOTSUP : fr_cuda_code_get(codes[dtype], &of, d, &f, err);

    for (int64_t i = 0; i < count && st == FR_OK; i += MOST_Z) {
        unsigned z = (unsigned)(count - i < MOST_Z ? count - i : MOST_Z);

        st = fr_cuda_start(d, f, &(struct fr_cuda_grid){(unsigned)x, (unsigned)y, z, FR_CUDA_THREADS, 1}, 0, &g, sizeof g,
                           "a product's launch", err);
        g.a += (uint64_t)(MOST_Z * g.a_next);
        g.b += (uint64_t)(MOST_Z * g.b_next);
        g.out += (uint64_t)(MOST_Z * g.out_next);
    }
    return st;
}

fr_status
fr_cuda_product(const struct fr_backend *self, const struct fr_call *c, char *const *ptr, struct fr_err *err)
{
    bool                   by_blas = c->axis == FR_PRODUCT_NUMPYS && !fr_is_off(FR_OFF_device_blas);
    struct fr_cuda_device *d;
    struct fr_stack        s;
    fr_status              st;

    if (c->axis == FR_PRODUCT_IN_LANES || fr_is_off(FR_OFF_device_products))
        return FR_ENOTSUP;
    if (c->out->n_elems == 0)
        return FR_OK;
    if ((st = fr_cuda_enter(self, &d, err)) != FR_OK)
        return st;
    fr_stack_begin(&s, c, ptr);
    do {
        const struct fr_cuda_product g = describe(&s);

        st = by_blas ? fr_cublas_run(d, c->dtype, &g, s.dims[0], err) : FR_ENOTSUP;
        by_blas = st != FR_ENOTSUP;
        if (!by_blas)
            st = launch(d, c->dtype, g, s.dims[0], err);
    } while (st == FR_OK && fr_stack_next(&s));
    if (st == FR_OK)
        fr_count_way(by_blas ? FR_WAY_device_blas : FR_WAY_device_products);
    fr_cuda_leave(d);
    return st;
}
