/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 unit written
 * [2] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = multiply %0 %0 f32 FULL stage 0
 * %2 = accum sum [1] %1 f32 FULL stage 0
 * %3 = accum max [2] %0 f32 FULL stage 0
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
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    const int64_t n_cols = n_inner > 0 ? n_inner : 1;
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t j = first; j < n_cols; j += step)
    for (int64_t row = 0; row < g.n_rows; row++) {
        const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
        float *const p1 = (float *)(ptr[1] + row * row_stride[1]);
        float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
        if (j < n_inner) {
            const float v0 = p0[j];
            const float v1 = v0 * v0;
            const float m2 = p1[j];
            const float n2 = m2 + v1;
            p1[j] = n2;
            const float m3 = p2[j];
            const bool n3_1 = v0 < m3;
            const bool n3_2 = m3 != m3;
            const bool n3_3 = n3_1 | n3_2;
            const float n3 = n3_3 ? m3 : v0;
            p2[j] = n3;
        }
    }
}
