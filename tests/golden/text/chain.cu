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

/* Operands as in jit/loop.h; strides count bytes. The first n_shared of the outer axes have so many indices in all,
 * the others are walked, and no accumulator moves along them. begun: those that have values in them. */
struct nest_args {
    char *ptr[3];
    int64_t row_stride[3], inner_stride[3], outer_stride[3][4];
    int64_t begun[3];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 320, "as jit/emit_cuda.h has it");

#ifndef OUTER /* whether there are outer axes */
#define OUTER 1
#endif
#define N_SHARED (OUTER ? g.n_shared_indices : 1)

/* Puts ptr[] where operands are at one index of all shared axes and one of all others. The axis that comes first
 * of its kind has what is left of the index; others divide it, once for all operands. */
static __device__ inline void
seek(const struct nest_args &g, char **ptr, int64_t shared, int64_t walked)
{
    int64_t i = walked;

    #pragma unroll
    for (int k = 0; k < 3; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 3; k++)
            ptr[k] += at * g.outer_stride[k][a];
    }
}

#ifndef VEC /* elements that a thread takes at once, if all that lie side by side are aligned */
#define VEC 1
#endif
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec0 { float v[VEC * 1]; };
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec1 { float v[VEC * 1]; };
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec2 { float v[VEC * 1]; };

#ifndef MANY /* whether a launch is of several instances, each of which has some of the blocks */
#define MANY 0
#endif
struct many { unsigned first, x, y, z; };
struct of_many { const struct nest_args *all; const struct many *of; unsigned n; };

extern "C" __global__ void __launch_bounds__(256)
#if MANY
frit_nest(const __grid_constant__ struct of_many m)
{
    const struct many *const of = m.of;
    unsigned low = 0, high = m.n;

    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;

        if (of[middle].first <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    const struct nest_args g = m.all[low];
    const unsigned b = blockIdx.x - of[low].first, grid_x = of[low].x, grid_y = of[low].y, grid_z = of[low].z;
    const unsigned block_x = b % grid_x, block_y = b / grid_x % grid_y, block_z = b / grid_x / grid_y;
#else
frit_nest(const __grid_constant__ struct nest_args g)
{
    const unsigned grid_x = gridDim.x, grid_y = gridDim.y, grid_z = gridDim.z;
    const unsigned block_x = blockIdx.x, block_y = blockIdx.y, block_z = blockIdx.z;
#endif
    (void)grid_x;
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[3];
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    const float v2 = AT(const float, scalars, 0)[0];
    const int64_t first = (int64_t)block_x * blockDim.x + threadIdx.x;
    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {
        seek(g, ptr, o, 0);
        #pragma unroll 1
        for (int64_t row = block_y * blockDim.y + threadIdx.y; row < g.n_rows; row += grid_y * blockDim.y) {
            const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
            const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
            float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
#if VEC > 1
            const int64_t j0 = first * VEC;

            if (j0 < n_inner) {
                const struct vec0 q0 = *(const struct vec0 *)(p0 + 1 * j0);
                const struct vec1 q1 = *(const struct vec1 *)(p1 + 1 * j0);
                struct vec2 q2;
                #pragma unroll
                for (int v = 0; v < VEC; v++) {
                    const int64_t j = j0 + v;
                    (void)j;
                    const float v0 = q0.v[v];
                    const float v1 = q1.v[v];
                    const float v3 = v0 * v1;
                    const float v4 = v3 + v2;
                    const bool v5 = v4 < v0;
                    const float v6 = v5 ? v4 : v0;
                    q2.v[v] = v6;
                }
                *(struct vec2 *)(p2 + 1 * j0) = q2;
            }
#else
            const int64_t j = first;

            if (j < n_inner) {
                const float v0 = p0[j];
                const float v1 = p1[j];
                const float v3 = v0 * v1;
                const float v4 = v3 + v2;
                const bool v5 = v4 < v0;
                const float v6 = v5 ? v4 : v0;
                p2[j] = v6;
            }
#endif
        }
    }
}
