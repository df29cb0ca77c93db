/*
 * nest 1 stage
 * [0] f32 strided turned
 * [1] f32 unit
 * [2] c64 strided turned
 * [3] bool strided turned
 * [4] f64 zero
 * [5] f16 strided written turned
 * [6] c64 strided written turned
 * [7] f32 unit written
 * [8] i64 strided
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = load [2] c64 FULL stage 0
 * %3 = load [3] bool FULL stage 0
 * %4 = load [4] f64 ROW stage 0
 * %5 = iota [8] i64 FULL stage 0
 * %6 = add %0 %1 f32 FULL stage 0
 * %7 = cast %4 f32 ROW stage 0
 * %8 = multiply %6 %7 f32 FULL stage 0
 * %9 = cast %5 f32 FULL stage 0
 * %10 = where %3 %8 %9 f32 FULL stage 0
 * %11 = cast %10 f16 FULL stage 0
 * %12 = multiply %2 %2 c64 FULL stage 0
 * %13 = store [5] %11 f16 FULL stage 0
 * %14 = store [6] %12 c64 FULL stage 0
 * %15 = store [7] %10 f32 FULL stage 0
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

#define AT(type, p, bytes) ((type *)((const char *)(p) + (bytes)))

/* Operands as in jit/loop.h; strides count bytes. The first n_shared of the outer axes have so many indices in all,
 * the others are walked, and no accumulator moves along them. begun: those that have values in them. */
struct nest_args {
    char *ptr[9];
    int64_t row_stride[9], inner_stride[9], outer_stride[9][4];
    int64_t begun[9];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 704, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 9; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 9; k++)
            ptr[k] += at * g.outer_stride[k][a];
    }
}

#ifndef VEC /* elements that a thread takes at once, if all that lie side by side are aligned */
#define VEC 1
#endif
#ifndef TILED /* columns of a block's tiles; 0: it has none */
#define TILED 0
#endif
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec1 { float v[VEC * 1]; };
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec7 { float v[VEC * 1]; };

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
    const struct nest_args &g = m.all[low];
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
    char *ptr[9];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
#if TILED
    enum { HIGH = 1024 / TILED, APART = 256 / TILED, TURNED_APART = 256 / HIGH };
    __shared__ float t0[1056];
    __shared__ float t2[2112];
    __shared__ uint8_t t3[1152];
    __shared__ uint16_t t5[1088];
    __shared__ float t6[2112];
    const unsigned thread = threadIdx.y * TILED + threadIdx.x;
    const int64_t j0 = (int64_t)block_x * TILED;
    const unsigned n_columns = n_inner - j0 < TILED ? n_inner - j0 : TILED;

    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {
        seek(g, ptr, o, 0);
        for (int64_t row0 = (int64_t)block_y * HIGH; row0 < g.n_rows; row0 += (int64_t)grid_y * HIGH) {
            const unsigned n_lines = g.n_rows - row0 < HIGH ? g.n_rows - row0 : HIGH;
            struct { float v[4]; } q0;
            struct { float v[8]; } q2;
            struct { uint8_t v[4]; } q3;

            {
                const unsigned line = thread % HIGH, column = thread / HIGH;

                char *const a0 = ptr[0] + (row0 + line) * row_stride[0] + (j0 + column) * inner_stride[0];
                char *const a2 = ptr[2] + (row0 + line) * row_stride[2] + (j0 + column) * inner_stride[2];
                char *const a3 = ptr[3] + (row0 + line) * row_stride[3] + (j0 + column) * inner_stride[3];
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * (HIGH > 32 ? HIGH + 4 : 36) + to_line;
                    const unsigned at2 = to_column * (HIGH > 32 ? HIGH + 4 : 34) + to_line;
                    const unsigned at4 = to_column * (HIGH > 32 ? HIGH + 4 : 33) + to_line;
                    const unsigned at8 = to_column * (HIGH > 32 ? HIGH + 2 : 33) + to_line;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    q0.v[1 * v + 0] = here ? AT(const float, a0, v * TURNED_APART * inner_stride[0])[0] : (float)0;
                    q2.v[2 * v + 0] = here ? AT(const float, a2, v * TURNED_APART * inner_stride[2])[0] : (float)0;
                    q2.v[2 * v + 1] = here ? AT(const float, a2, v * TURNED_APART * inner_stride[2])[1] : (float)0;
                    q3.v[1 * v + 0] = here ? AT(const uint8_t, a3, v * TURNED_APART * inner_stride[3])[0] : (uint8_t)0;
                }
            }
            {
                const unsigned line = thread % HIGH, column = thread / HIGH;

                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * (HIGH > 32 ? HIGH + 4 : 36) + to_line;
                    const unsigned at2 = to_column * (HIGH > 32 ? HIGH + 4 : 34) + to_line;
                    const unsigned at4 = to_column * (HIGH > 32 ? HIGH + 4 : 33) + to_line;
                    const unsigned at8 = to_column * (HIGH > 32 ? HIGH + 2 : 33) + to_line;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    t0[at4] = q0.v[1 * v + 0];
                    t2[at4] = q2.v[2 * v + 0];
                    t2[1056 + at4] = q2.v[2 * v + 1];
                    t3[at1] = q3.v[1 * v + 0];
                }
            }
            __syncthreads();
            {
                const unsigned line = threadIdx.y, column = threadIdx.x;

                #pragma unroll 1
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column, to_line = line + v * APART;
                    const bool here = to_line < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * (HIGH > 32 ? HIGH + 4 : 36) + to_line;
                    const unsigned at2 = to_column * (HIGH > 32 ? HIGH + 4 : 34) + to_line;
                    const unsigned at4 = to_column * (HIGH > 32 ? HIGH + 4 : 33) + to_line;
                    const unsigned at8 = to_column * (HIGH > 32 ? HIGH + 2 : 33) + to_line;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    if (here) {
                        const int64_t row = row0 + to_line, j = j0 + column;

                        (void)row, (void)j;
                        const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
                        const double *const p4 = (const double *)(ptr[4] + row * row_stride[4]);
                        const int64_t p8 = (int64_t)ptr[8] + row * row_stride[8];
                        const int64_t i8 = inner_stride[8];
                        float *const p7 = (float *)(ptr[7] + row * row_stride[7]);
                        const double v4 = p4[0];
                        const float v7 = (float)v4;
                        const float v0 = t0[at4];
                        const float v1 = p1[j];
                        const float v2r = t2[at4];
                        const float v2i = t2[1056 + at4];
                        const bool v3 = t3[at1] != 0;
                        const int64_t v5 = p8 + j * i8;
                        const float v6 = v0 + v1;
                        const float v8 = v6 * v7;
                        const float v9 = (float)v5;
                        const float v10 = v3 ? v8 : v9;
                        const uint32_t v11_1 = as_u32_f32(v10);
                        const uint32_t v11_2 = (uint32_t)(v11_1 >> 16u);
                        const uint32_t v11_3 = v11_2 & 0x8000u;
                        const float v11_4 = fabsf(v10);
                        const uint32_t v11_5 = as_u32_f32(v11_4);
                        const uint32_t v11_6 = (uint32_t)(v11_5 >> 13u);
                        const uint32_t v11_7 = v11_6 & 1u;
                        const uint32_t v11_8 = (uint32_t)((uint32_t)v11_7 + (uint32_t)4095u);
                        const uint32_t v11_9 = (uint32_t)((uint32_t)v11_5 - (uint32_t)0x38000000u);
                        const uint32_t v11_10 = (uint32_t)((uint32_t)v11_9 + (uint32_t)v11_8);
                        const uint32_t v11_11 = (uint32_t)(v11_10 >> 13u);
                        const bool v11_12 = v11_5 < 0x38800000u;
                        const float v11_13 = v11_12 ? v11_4 : 0.0f;
                        const float v11_14 = v11_13 * 0x1.555556p-113f;
                        const uint32_t v11_15 = as_u32_f32(0.5f);
                        const float v11_16 = v11_13 + v11_14;
                        const float v11_17 = v11_16 + 0.5f;
                        const uint32_t v11_18 = as_u32_f32(v11_17);
                        const uint32_t v11_19 = (uint32_t)((uint32_t)v11_18 - (uint32_t)v11_15);
                        const uint32_t v11_20 = v11_6 & 1023u;
                        const bool v11_21 = 0x7f800000u < v11_5;
                        const uint32_t v11_22 = v11_12 ? v11_19 : v11_11;
                        const bool v11_23 = 0x477ff000u <= v11_5;
                        const float v11_24 = v11_4 * 0x1.001002p+112f;
                        const uint32_t v11_25 = as_u32_f32(v11_24);
                        const uint32_t v11_26 = (uint32_t)(v11_25 >> 13u);
                        const uint32_t v11_27 = v11_26 & 0x7c00u;
                        const uint32_t v11_28 = v11_23 ? v11_27 : v11_22;
                        const uint32_t v11_29 = v11_20 | 0x7e00u;
                        const uint32_t v11_30 = v11_21 ? v11_29 : v11_28;
                        const uint32_t v11_31 = v11_30 | v11_3;
                        const uint16_t v11 = (uint16_t)v11_31;
                        const float v12_1 = v2i * v2i;
                        const float v12_2 = -(v12_1);
                        const float v12r = fmaf(v2r, v2r, v12_2);
                        const float v12_4 = v2i * v2r;
                        const float v12i = fmaf(v2r, v2i, v12_4);
                        t5[at2] = v11;
                        t6[at4] = v12r;
                        t6[1056 + at4] = v12i;
                        p7[j] = v10;
                    }
                }
            }
            __syncthreads();
            {
                const unsigned line = thread % HIGH, column = thread / HIGH;

                char *const a5 = ptr[5] + (row0 + line) * row_stride[5] + (j0 + column) * inner_stride[5];
                char *const a6 = ptr[6] + (row0 + line) * row_stride[6] + (j0 + column) * inner_stride[6];
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * (HIGH > 32 ? HIGH + 4 : 36) + to_line;
                    const unsigned at2 = to_column * (HIGH > 32 ? HIGH + 4 : 34) + to_line;
                    const unsigned at4 = to_column * (HIGH > 32 ? HIGH + 4 : 33) + to_line;
                    const unsigned at8 = to_column * (HIGH > 32 ? HIGH + 2 : 33) + to_line;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    if (here)
                        AT(uint16_t, a5, v * TURNED_APART * inner_stride[5])[0] = t5[at2];
                    if (here)
                        AT(float, a6, v * TURNED_APART * inner_stride[6])[0] = t6[at4];
                    if (here)
                        AT(float, a6, v * TURNED_APART * inner_stride[6])[1] = t6[1056 + at4];
                }
            }
            __syncthreads();
        }
    }
#else
    const int64_t first = (int64_t)block_x * blockDim.x + threadIdx.x;
    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {
        seek(g, ptr, o, 0);
        #pragma unroll 1
        for (int64_t row = block_y * blockDim.y + threadIdx.y; row < g.n_rows; row += grid_y * blockDim.y) {
            char *const p0 = ptr[0] + row * row_stride[0];
            const int64_t i0 = inner_stride[0];
            const float *const p1 = (const float *)(ptr[1] + row * row_stride[1]);
            char *const p2 = ptr[2] + row * row_stride[2];
            const int64_t i2 = inner_stride[2];
            char *const p3 = ptr[3] + row * row_stride[3];
            const int64_t i3 = inner_stride[3];
            const double *const p4 = (const double *)(ptr[4] + row * row_stride[4]);
            const int64_t p8 = (int64_t)ptr[8] + row * row_stride[8];
            const int64_t i8 = inner_stride[8];
            char *const p5 = ptr[5] + row * row_stride[5];
            const int64_t i5 = inner_stride[5];
            char *const p6 = ptr[6] + row * row_stride[6];
            const int64_t i6 = inner_stride[6];
            float *const p7 = (float *)(ptr[7] + row * row_stride[7]);
            const double v4 = p4[0];
            const float v7 = (float)v4;
#if VEC > 1
            const int64_t j0 = first * VEC;

            if (j0 < n_inner) {
                const struct vec1 q1 = *(const struct vec1 *)(p1 + 1 * j0);
                struct vec7 q7;
                #pragma unroll
                for (int v = 0; v < VEC; v++) {
                    const int64_t j = j0 + v;
                    (void)j;
                    const float v0 = AT(const float, p0, j * i0)[0];
                    const float v1 = q1.v[v];
                    const float v2r = AT(const float, p2, j * i2)[0];
                    const float v2i = AT(const float, p2, j * i2)[1];
                    const bool v3 = AT(const uint8_t, p3, j * i3)[0] != 0;
                    const int64_t v5 = p8 + j * i8;
                    const float v6 = v0 + v1;
                    const float v8 = v6 * v7;
                    const float v9 = (float)v5;
                    const float v10 = v3 ? v8 : v9;
                    const uint32_t v11_1 = as_u32_f32(v10);
                    const uint32_t v11_2 = (uint32_t)(v11_1 >> 16u);
                    const uint32_t v11_3 = v11_2 & 0x8000u;
                    const float v11_4 = fabsf(v10);
                    const uint32_t v11_5 = as_u32_f32(v11_4);
                    const uint32_t v11_6 = (uint32_t)(v11_5 >> 13u);
                    const uint32_t v11_7 = v11_6 & 1u;
                    const uint32_t v11_8 = (uint32_t)((uint32_t)v11_7 + (uint32_t)4095u);
                    const uint32_t v11_9 = (uint32_t)((uint32_t)v11_5 - (uint32_t)0x38000000u);
                    const uint32_t v11_10 = (uint32_t)((uint32_t)v11_9 + (uint32_t)v11_8);
                    const uint32_t v11_11 = (uint32_t)(v11_10 >> 13u);
                    const bool v11_12 = v11_5 < 0x38800000u;
                    const float v11_13 = v11_12 ? v11_4 : 0.0f;
                    const float v11_14 = v11_13 * 0x1.555556p-113f;
                    const uint32_t v11_15 = as_u32_f32(0.5f);
                    const float v11_16 = v11_13 + v11_14;
                    const float v11_17 = v11_16 + 0.5f;
                    const uint32_t v11_18 = as_u32_f32(v11_17);
                    const uint32_t v11_19 = (uint32_t)((uint32_t)v11_18 - (uint32_t)v11_15);
                    const uint32_t v11_20 = v11_6 & 1023u;
                    const bool v11_21 = 0x7f800000u < v11_5;
                    const uint32_t v11_22 = v11_12 ? v11_19 : v11_11;
                    const bool v11_23 = 0x477ff000u <= v11_5;
                    const float v11_24 = v11_4 * 0x1.001002p+112f;
                    const uint32_t v11_25 = as_u32_f32(v11_24);
                    const uint32_t v11_26 = (uint32_t)(v11_25 >> 13u);
                    const uint32_t v11_27 = v11_26 & 0x7c00u;
                    const uint32_t v11_28 = v11_23 ? v11_27 : v11_22;
                    const uint32_t v11_29 = v11_20 | 0x7e00u;
                    const uint32_t v11_30 = v11_21 ? v11_29 : v11_28;
                    const uint32_t v11_31 = v11_30 | v11_3;
                    const uint16_t v11 = (uint16_t)v11_31;
                    const float v12_1 = v2i * v2i;
                    const float v12_2 = -(v12_1);
                    const float v12r = fmaf(v2r, v2r, v12_2);
                    const float v12_4 = v2i * v2r;
                    const float v12i = fmaf(v2r, v2i, v12_4);
                    AT(uint16_t, p5, j * i5)[0] = v11;
                    AT(float, p6, j * i6)[0] = v12r;
                    AT(float, p6, j * i6)[1] = v12i;
                    q7.v[v] = v10;
                }
                *(struct vec7 *)(p7 + 1 * j0) = q7;
            }
#else
            const int64_t j = first;

            if (j < n_inner) {
                const float v0 = AT(const float, p0, j * i0)[0];
                const float v1 = p1[j];
                const float v2r = AT(const float, p2, j * i2)[0];
                const float v2i = AT(const float, p2, j * i2)[1];
                const bool v3 = AT(const uint8_t, p3, j * i3)[0] != 0;
                const int64_t v5 = p8 + j * i8;
                const float v6 = v0 + v1;
                const float v8 = v6 * v7;
                const float v9 = (float)v5;
                const float v10 = v3 ? v8 : v9;
                const uint32_t v11_1 = as_u32_f32(v10);
                const uint32_t v11_2 = (uint32_t)(v11_1 >> 16u);
                const uint32_t v11_3 = v11_2 & 0x8000u;
                const float v11_4 = fabsf(v10);
                const uint32_t v11_5 = as_u32_f32(v11_4);
                const uint32_t v11_6 = (uint32_t)(v11_5 >> 13u);
                const uint32_t v11_7 = v11_6 & 1u;
                const uint32_t v11_8 = (uint32_t)((uint32_t)v11_7 + (uint32_t)4095u);
                const uint32_t v11_9 = (uint32_t)((uint32_t)v11_5 - (uint32_t)0x38000000u);
                const uint32_t v11_10 = (uint32_t)((uint32_t)v11_9 + (uint32_t)v11_8);
                const uint32_t v11_11 = (uint32_t)(v11_10 >> 13u);
                const bool v11_12 = v11_5 < 0x38800000u;
                const float v11_13 = v11_12 ? v11_4 : 0.0f;
                const float v11_14 = v11_13 * 0x1.555556p-113f;
                const uint32_t v11_15 = as_u32_f32(0.5f);
                const float v11_16 = v11_13 + v11_14;
                const float v11_17 = v11_16 + 0.5f;
                const uint32_t v11_18 = as_u32_f32(v11_17);
                const uint32_t v11_19 = (uint32_t)((uint32_t)v11_18 - (uint32_t)v11_15);
                const uint32_t v11_20 = v11_6 & 1023u;
                const bool v11_21 = 0x7f800000u < v11_5;
                const uint32_t v11_22 = v11_12 ? v11_19 : v11_11;
                const bool v11_23 = 0x477ff000u <= v11_5;
                const float v11_24 = v11_4 * 0x1.001002p+112f;
                const uint32_t v11_25 = as_u32_f32(v11_24);
                const uint32_t v11_26 = (uint32_t)(v11_25 >> 13u);
                const uint32_t v11_27 = v11_26 & 0x7c00u;
                const uint32_t v11_28 = v11_23 ? v11_27 : v11_22;
                const uint32_t v11_29 = v11_20 | 0x7e00u;
                const uint32_t v11_30 = v11_21 ? v11_29 : v11_28;
                const uint32_t v11_31 = v11_30 | v11_3;
                const uint16_t v11 = (uint16_t)v11_31;
                const float v12_1 = v2i * v2i;
                const float v12_2 = -(v12_1);
                const float v12r = fmaf(v2r, v2r, v12_2);
                const float v12_4 = v2i * v2r;
                const float v12i = fmaf(v2r, v2i, v12_4);
                AT(uint16_t, p5, j * i5)[0] = v11;
                AT(float, p6, j * i6)[0] = v12r;
                AT(float, p6, j * i6)[1] = v12i;
                p7[j] = v10;
            }
#endif
        }
    }
#endif
}
