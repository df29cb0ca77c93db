/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 unit
 * [2] f32 unit written
 * $0 f32
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = scalar $0 f32 SCALAR stage 0
 * %3 = multiply %0 %1 f32 FULL stage 0
 * %4 = add %3 %2 f32 FULL stage 0
 * %5 = less %4 %0 bool FULL stage 0
 * %6 = where %5 %4 %0 f32 FULL stage 0
 * %7 = store [2] %6 f32 FULL stage 0
 */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

/* Operands as in jit/loop.h; strides count bytes. */
struct nest_args {
    char *ptr[3];
    int64_t row_stride[3], inner_stride[3];
    int64_t n_rows, n_inner;
    const void *scalars;
    char *scratch;
};

extern "C" __global__ void __launch_bounds__(256)
frit_nest(const struct nest_args g)
{
    char *const *const ptr = g.ptr;
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    const float v2 = AT(const float, scalars, 0)[0];
    const int64_t n_cols = n_inner > 0 ? n_inner : 1;
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = first; i < g.n_rows * n_cols; i += step) {
        const int64_t row = i / n_cols, j = i % n_cols;
        const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
        const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
        float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
        if (j < n_inner) {
            const float v0 = p0[j];
            const float v1 = p1[j];
            const float v3 = v0 * v1;
            const float v4 = v3 + v2;
            const bool v5 = v4 < v0;
            const float v6 = v5 ? v4 : v0;
            p2[j] = v6;
        }
    }
}
