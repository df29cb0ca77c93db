/*
 * nest 1 stage
 * [0] c64 strided
 * [1] c64 strided written
 * [2] i64 strided
 * [3] f16 strided
 * [4] bool unit written
 * [5] f64 zero
 * [6] f64 zero written
 * %0 = load [0] c64 FULL stage 0
 * %1 = load [5] f64 ROW stage 0
 * %2 = multiply %0 %0 c64 FULL stage 0
 * %3 = store [1] %2 c64 FULL stage 0
 * %4 = iota [2] i64 FULL stage 0
 * %5 = load [3] f16 FULL stage 0
 * %6 = cast %4 f16 FULL stage 0
 * %7 = less %5 %6 bool FULL stage 0
 * %8 = store [4] %7 bool FULL stage 0
 * %9 = negative %1 f64 ROW stage 0
 * %10 = store [6] %9 f64 ROW stage 0
 */
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;

static inline __device__ uint32_t
as_u32_f32(float x)
{
    uint32_t r;

    memcpy(&r, &x, sizeof r);
    return r;
}

static inline __device__ float
as_f32_u32(uint32_t x)
{
    float r;

    memcpy(&r, &x, sizeof r);
    return r;
}

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

/* Operands as in jit/loop.h; strides count bytes. The first n_shared of the outer axes have so many indices in all,
 * the others are walked, and no accumulator moves along them. begun: those that have values in them. */
struct nest_args {
    char *ptr[7];
    int64_t row_stride[7], inner_stride[7], outer_stride[7][4];
    int64_t begun[7];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 576, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 7; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 7; k++)
            ptr[k] += at * g.outer_stride[k][a];
    }
}

#ifndef VEC /* elements that a thread takes at once, if all that lie side by side are aligned */
#define VEC 1
#endif
struct __align__(VEC * 1 < 16 ? VEC * 1 : 16) vec4 { uint8_t v[VEC * 1]; };

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
    char *ptr[7];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    const int64_t first = (int64_t)block_x * blockDim.x + threadIdx.x;
    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {
        seek(g, ptr, o, 0);
        #pragma unroll 1
        for (int64_t row = block_y * blockDim.y + threadIdx.y; row < g.n_rows; row += grid_y * blockDim.y) {
            char *const p0 = ptr[0] + row * row_stride[0];
            const int64_t i0 = inner_stride[0];
            const double *const p5 = (const double *)(ptr[5] + row * row_stride[5]);
            char *const p1 = ptr[1] + row * row_stride[1];
            const int64_t i1 = inner_stride[1];
            const int64_t p2 = (int64_t)ptr[2] + row * row_stride[2];
            const int64_t i2 = inner_stride[2];
            char *const p3 = ptr[3] + row * row_stride[3];
            const int64_t i3 = inner_stride[3];
            uint8_t *const p4 = (uint8_t *)(ptr[4] + row * row_stride[4]);
            double *const p6 = (double *)(ptr[6] + row * row_stride[6]);
            const double v1 = p5[0];
            const double v9 = -(v1);
            if (first == 0) p6[0] = v9;
#if VEC > 1
            const int64_t j0 = first * VEC;

            if (j0 < n_inner) {
                struct vec4 q4;
                #pragma unroll
                for (int v = 0; v < VEC; v++) {
                    const int64_t j = j0 + v;
                    (void)j;
                    const float v0r = AT(const float, p0, j * i0)[0];
                    const float v0i = AT(const float, p0, j * i0)[1];
                    const float v2_1 = v0i * v0i;
                    const float v2_2 = -(v2_1);
                    const float v2r = fmaf(v0r, v0r, v2_2);
                    const float v2_4 = v0i * v0r;
                    const float v2i = fmaf(v0r, v0i, v2_4);
                    const int64_t v4 = p2 + j * i2;
                    const uint16_t v5 = AT(const uint16_t, p3, j * i3)[0];
                    const bool v6_1 = 70000ll < v4;
                    const int64_t v6_2 = v6_1 ? 70000ll : v4;
                    const bool v6_3 = v6_2 < -70000ll;
                    const int64_t v6_4 = v6_3 ? -70000ll : v6_2;
                    const int32_t v6_5 = (int32_t)v6_4;
                    const float v6_6 = (float)v6_5;
                    const uint32_t v6_7 = as_u32_f32(v6_6);
                    const uint32_t v6_8 = (uint32_t)(v6_7 >> 16u);
                    const uint32_t v6_9 = v6_8 & 0x8000u;
                    const float v6_10 = fabsf(v6_6);
                    const uint32_t v6_11 = as_u32_f32(v6_10);
                    const uint32_t v6_12 = (uint32_t)(v6_11 >> 13u);
                    const uint32_t v6_13 = v6_12 & 1u;
                    const uint32_t v6_14 = (uint32_t)((uint32_t)v6_13 + (uint32_t)4095u);
                    const uint32_t v6_15 = (uint32_t)((uint32_t)v6_11 - (uint32_t)0x38000000u);
                    const uint32_t v6_16 = (uint32_t)((uint32_t)v6_15 + (uint32_t)v6_14);
                    const uint32_t v6_17 = (uint32_t)(v6_16 >> 13u);
                    const bool v6_18 = v6_11 < 0x38800000u;
                    const float v6_19 = v6_18 ? v6_10 : 0.0f;
                    const float v6_20 = v6_19 * 0x1.555556p-113f;
                    const uint32_t v6_21 = as_u32_f32(0.5f);
                    const float v6_22 = v6_19 + v6_20;
                    const float v6_23 = v6_22 + 0.5f;
                    const uint32_t v6_24 = as_u32_f32(v6_23);
                    const uint32_t v6_25 = (uint32_t)((uint32_t)v6_24 - (uint32_t)v6_21);
                    const uint32_t v6_26 = v6_12 & 1023u;
                    const bool v6_27 = 0x7f800000u < v6_11;
                    const uint32_t v6_28 = v6_18 ? v6_25 : v6_17;
                    const bool v6_29 = 0x477ff000u <= v6_11;
                    const float v6_30 = v6_10 * 0x1.001002p+112f;
                    const uint32_t v6_31 = as_u32_f32(v6_30);
                    const uint32_t v6_32 = (uint32_t)(v6_31 >> 13u);
                    const uint32_t v6_33 = v6_32 & 0x7c00u;
                    const uint32_t v6_34 = v6_29 ? v6_33 : v6_28;
                    const uint32_t v6_35 = v6_26 | 0x7e00u;
                    const uint32_t v6_36 = v6_27 ? v6_35 : v6_34;
                    const uint32_t v6_37 = v6_36 | v6_9;
                    const uint16_t v6 = (uint16_t)v6_37;
                    const uint32_t v7_1 = (uint32_t)v5;
                    const uint32_t v7_2 = v7_1 & 0x8000u;
                    const uint32_t v7_3 = (uint32_t)((uint32_t)v7_2 << 16u);
                    const uint32_t v7_4 = v7_1 & 0x7fffu;
                    const uint32_t v7_5 = (uint32_t)((uint32_t)v7_4 << 13u);
                    const uint32_t v7_6 = (uint32_t)((uint32_t)v7_5 + (uint32_t)0x38000000u);
                    const bool v7_7 = 0x7c00u <= v7_4;
                    const bool v7_8 = v7_4 < 1024u;
                    const int32_t v7_9 = (int32_t)(v7_4);
                    const float v7_10 = (float)v7_9;
                    const float v7_11 = v7_10 * 0x1.0p-24f;
                    const uint32_t v7_12 = (uint32_t)((uint32_t)v7_6 + (uint32_t)0x38000000u);
                    const uint32_t v7_13 = v7_7 ? v7_12 : v7_6;
                    const uint32_t v7_14 = as_u32_f32(v7_11);
                    const uint32_t v7_15 = v7_8 ? v7_14 : v7_13;
                    const uint32_t v7_16 = v7_15 | v7_3;
                    const float v7_17 = as_f32_u32(v7_16);
                    const uint32_t v7_18 = (uint32_t)v6;
                    const uint32_t v7_19 = v7_18 & 0x8000u;
                    const uint32_t v7_20 = (uint32_t)((uint32_t)v7_19 << 16u);
                    const uint32_t v7_21 = v7_18 & 0x7fffu;
                    const uint32_t v7_22 = (uint32_t)((uint32_t)v7_21 << 13u);
                    const uint32_t v7_23 = (uint32_t)((uint32_t)v7_22 + (uint32_t)0x38000000u);
                    const bool v7_24 = 0x7c00u <= v7_21;
                    const bool v7_25 = v7_21 < 1024u;
                    const int32_t v7_26 = (int32_t)(v7_21);
                    const float v7_27 = (float)v7_26;
                    const float v7_28 = v7_27 * 0x1.0p-24f;
                    const uint32_t v7_29 = (uint32_t)((uint32_t)v7_23 + (uint32_t)0x38000000u);
                    const uint32_t v7_30 = v7_24 ? v7_29 : v7_23;
                    const uint32_t v7_31 = as_u32_f32(v7_28);
                    const uint32_t v7_32 = v7_25 ? v7_31 : v7_30;
                    const uint32_t v7_33 = v7_32 | v7_20;
                    const float v7_34 = as_f32_u32(v7_33);
                    const bool v7 = v7_17 < v7_34;
                    AT(float, p1, j * i1)[0] = v2r;
                    AT(float, p1, j * i1)[1] = v2i;
                    q4.v[v] = v7;
                }
                *(struct vec4 *)(p4 + 1 * j0) = q4;
            }
#else
            #pragma unroll 1
            for (int64_t j = first; j < n_inner; j += (int64_t)grid_x * blockDim.x) {
                const float v0r = AT(const float, p0, j * i0)[0];
                const float v0i = AT(const float, p0, j * i0)[1];
                const float v2_1 = v0i * v0i;
                const float v2_2 = -(v2_1);
                const float v2r = fmaf(v0r, v0r, v2_2);
                const float v2_4 = v0i * v0r;
                const float v2i = fmaf(v0r, v0i, v2_4);
                const int64_t v4 = p2 + j * i2;
                const uint16_t v5 = AT(const uint16_t, p3, j * i3)[0];
                const bool v6_1 = 70000ll < v4;
                const int64_t v6_2 = v6_1 ? 70000ll : v4;
                const bool v6_3 = v6_2 < -70000ll;
                const int64_t v6_4 = v6_3 ? -70000ll : v6_2;
                const int32_t v6_5 = (int32_t)v6_4;
                const float v6_6 = (float)v6_5;
                const uint32_t v6_7 = as_u32_f32(v6_6);
                const uint32_t v6_8 = (uint32_t)(v6_7 >> 16u);
                const uint32_t v6_9 = v6_8 & 0x8000u;
                const float v6_10 = fabsf(v6_6);
                const uint32_t v6_11 = as_u32_f32(v6_10);
                const uint32_t v6_12 = (uint32_t)(v6_11 >> 13u);
                const uint32_t v6_13 = v6_12 & 1u;
                const uint32_t v6_14 = (uint32_t)((uint32_t)v6_13 + (uint32_t)4095u);
                const uint32_t v6_15 = (uint32_t)((uint32_t)v6_11 - (uint32_t)0x38000000u);
                const uint32_t v6_16 = (uint32_t)((uint32_t)v6_15 + (uint32_t)v6_14);
                const uint32_t v6_17 = (uint32_t)(v6_16 >> 13u);
                const bool v6_18 = v6_11 < 0x38800000u;
                const float v6_19 = v6_18 ? v6_10 : 0.0f;
                const float v6_20 = v6_19 * 0x1.555556p-113f;
                const uint32_t v6_21 = as_u32_f32(0.5f);
                const float v6_22 = v6_19 + v6_20;
                const float v6_23 = v6_22 + 0.5f;
                const uint32_t v6_24 = as_u32_f32(v6_23);
                const uint32_t v6_25 = (uint32_t)((uint32_t)v6_24 - (uint32_t)v6_21);
                const uint32_t v6_26 = v6_12 & 1023u;
                const bool v6_27 = 0x7f800000u < v6_11;
                const uint32_t v6_28 = v6_18 ? v6_25 : v6_17;
                const bool v6_29 = 0x477ff000u <= v6_11;
                const float v6_30 = v6_10 * 0x1.001002p+112f;
                const uint32_t v6_31 = as_u32_f32(v6_30);
                const uint32_t v6_32 = (uint32_t)(v6_31 >> 13u);
                const uint32_t v6_33 = v6_32 & 0x7c00u;
                const uint32_t v6_34 = v6_29 ? v6_33 : v6_28;
                const uint32_t v6_35 = v6_26 | 0x7e00u;
                const uint32_t v6_36 = v6_27 ? v6_35 : v6_34;
                const uint32_t v6_37 = v6_36 | v6_9;
                const uint16_t v6 = (uint16_t)v6_37;
                const uint32_t v7_1 = (uint32_t)v5;
                const uint32_t v7_2 = v7_1 & 0x8000u;
                const uint32_t v7_3 = (uint32_t)((uint32_t)v7_2 << 16u);
                const uint32_t v7_4 = v7_1 & 0x7fffu;
                const uint32_t v7_5 = (uint32_t)((uint32_t)v7_4 << 13u);
                const uint32_t v7_6 = (uint32_t)((uint32_t)v7_5 + (uint32_t)0x38000000u);
                const bool v7_7 = 0x7c00u <= v7_4;
                const bool v7_8 = v7_4 < 1024u;
                const int32_t v7_9 = (int32_t)(v7_4);
                const float v7_10 = (float)v7_9;
                const float v7_11 = v7_10 * 0x1.0p-24f;
                const uint32_t v7_12 = (uint32_t)((uint32_t)v7_6 + (uint32_t)0x38000000u);
                const uint32_t v7_13 = v7_7 ? v7_12 : v7_6;
                const uint32_t v7_14 = as_u32_f32(v7_11);
                const uint32_t v7_15 = v7_8 ? v7_14 : v7_13;
                const uint32_t v7_16 = v7_15 | v7_3;
                const float v7_17 = as_f32_u32(v7_16);
                const uint32_t v7_18 = (uint32_t)v6;
                const uint32_t v7_19 = v7_18 & 0x8000u;
                const uint32_t v7_20 = (uint32_t)((uint32_t)v7_19 << 16u);
                const uint32_t v7_21 = v7_18 & 0x7fffu;
                const uint32_t v7_22 = (uint32_t)((uint32_t)v7_21 << 13u);
                const uint32_t v7_23 = (uint32_t)((uint32_t)v7_22 + (uint32_t)0x38000000u);
                const bool v7_24 = 0x7c00u <= v7_21;
                const bool v7_25 = v7_21 < 1024u;
                const int32_t v7_26 = (int32_t)(v7_21);
                const float v7_27 = (float)v7_26;
                const float v7_28 = v7_27 * 0x1.0p-24f;
                const uint32_t v7_29 = (uint32_t)((uint32_t)v7_23 + (uint32_t)0x38000000u);
                const uint32_t v7_30 = v7_24 ? v7_29 : v7_23;
                const uint32_t v7_31 = as_u32_f32(v7_28);
                const uint32_t v7_32 = v7_25 ? v7_31 : v7_30;
                const uint32_t v7_33 = v7_32 | v7_20;
                const float v7_34 = as_f32_u32(v7_33);
                const bool v7 = v7_17 < v7_34;
                AT(float, p1, j * i1)[0] = v2r;
                AT(float, p1, j * i1)[1] = v2i;
                p4[j] = v7;
            }
#endif
        }
    }
}
