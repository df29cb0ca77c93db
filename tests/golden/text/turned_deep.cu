/*
 * nest 1 stage
 * [0] f32 unit
 * [1] f32 strided turned
 * [2] f64 strided turned-deep
 * [3] f64 unit written
 * [4] f32 strided written turned-deep
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] f32 FULL stage 0
 * %2 = load [2] f64 FULL stage 0
 * %3 = add %0 %1 f32 FULL stage 0
 * %4 = cast %3 f64 FULL stage 0
 * %5 = add %4 %2 f64 FULL stage 0
 * %6 = store [3] %5 f64 FULL stage 0
 * %7 = store [4] %3 f32 FULL stage 0
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
    char *ptr[5];
    int64_t row_stride[5], inner_stride[5], outer_stride[5][4];
    int64_t begun[5];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 448, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 5; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 5; k++)
            ptr[k] += at * g.outer_stride[k][a];
    }
}

#ifndef VEC /* elements that a thread takes at once, if all that lie side by side are aligned */
#define VEC 1
#endif
#ifndef TILED /* columns of a block's tiles; 0: it has none */
#define TILED 0
#endif
struct __align__(VEC * 4 < 16 ? VEC * 4 : 16) vec0 { float v[VEC * 1]; };
struct __align__(VEC * 8 < 16 ? VEC * 8 : 16) vec3 { double v[VEC * 1]; };

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
    char *ptr[5];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
#if TILED
    enum { HIGH = 1024 / TILED, APART = 256 / TILED, TURNED_APART = 256 / HIGH };
    enum { LOW = 8, DEEP = 16 };
    __shared__ float t1[1312];
    __shared__ double t2[1168];
    __shared__ float t4[1312];
    const unsigned thread = threadIdx.y * TILED + threadIdx.x;
    const int64_t j0 = (int64_t)block_x * TILED;
    const unsigned n_columns = n_inner - j0 < TILED ? n_inner - j0 : TILED;

    for (int64_t o = OUTER ? block_z : 0; o < N_SHARED; o += OUTER ? grid_z : 1) {
        seek(g, ptr, o, 0);
        const int64_t all_deep = g.outer[g.n_outer];
        const unsigned n_across = (unsigned)((g.n_rows + LOW - 1) / LOW);
        const unsigned n_tiles = n_across * (unsigned)((all_deep + DEEP - 1) / DEEP);

        for (unsigned tile = block_y; tile < n_tiles; tile += grid_y) {
            const int64_t row0 = (int64_t)(tile % n_across) * LOW, deep0 = (int64_t)(tile / n_across) * DEEP;
            const unsigned n_low = g.n_rows - row0 < LOW ? g.n_rows - row0 : LOW;
            const unsigned n_lines = all_deep - deep0 < DEEP ? all_deep - deep0 : DEEP;
            struct { float v[4]; } q1;
            struct { double v[4]; } q2;

            {
                const unsigned line = thread % DEEP * LOW + thread % HIGH / DEEP, column = thread / HIGH;

                char *const a2 = ptr[2] + (row0 + line % LOW) * row_stride[2] + (deep0 + line / LOW) * g.outer_stride[2][g.n_outer] + (j0 + column) * inner_stride[2];
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    q2.v[1 * v + 0] = here ? AT(const double, a2, v * TURNED_APART * inner_stride[2])[0] : (double)0;
                }
            }
            {
                const unsigned line = thread % HIGH, column = thread / HIGH;

                char *const a1 = ptr[1] + (row0 + line % LOW) * row_stride[1] + (deep0 + line / LOW) * g.outer_stride[1][g.n_outer] + (j0 + column) * inner_stride[1];
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    q1.v[1 * v + 0] = here ? AT(const float, a1, v * TURNED_APART * inner_stride[1])[0] : (float)0;
                }
            }
            {
                const unsigned line = thread % DEEP * LOW + thread % HIGH / DEEP, column = thread / HIGH;

                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    t2[at8] = q2.v[1 * v + 0];
                }
            }
            {
                const unsigned line = thread % HIGH, column = thread / HIGH;

                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    t1[at4] = q1.v[1 * v + 0];
                }
            }
            __syncthreads();
            {
                const unsigned line = threadIdx.y, column = threadIdx.x;

                #pragma unroll 1
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column, to_line = line + v * APART;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    if (here) {
                        const int64_t row = row0 + to_line % LOW, deep = deep0 + to_line / LOW, j = j0 + column;

                        (void)row, (void)deep, (void)j;
                        const float *const p0 = (const float *)(ptr[0] + row * row_stride[0] + deep * g.outer_stride[0][g.n_outer]);
                        double *const p3 = (double *)(ptr[3] + row * row_stride[3] + deep * g.outer_stride[3][g.n_outer]);
                        const float v0 = p0[j];
                        const float v1 = t1[at4];
                        const double v2 = t2[at8];
                        const float v3 = v0 + v1;
                        const double v4 = (double)v3;
                        const double v5 = v4 + v2;
                        p3[j] = v5;
                        t4[at4] = v3;
                    }
                }
            }
            __syncthreads();
            {
                const unsigned line = thread % DEEP * LOW + thread % HIGH / DEEP, column = thread / HIGH;

                char *const a4 = ptr[4] + (row0 + line % LOW) * row_stride[4] + (deep0 + line / LOW) * g.outer_stride[4][g.n_outer] + (j0 + column) * inner_stride[4];
                #pragma unroll
                for (int v = 0; v < 4; v++) {
                    const unsigned to_column = column + v * TURNED_APART, to_line = line;
                    const bool here = to_line % LOW < n_low && to_line / LOW < n_lines && to_column < n_columns;
                    const unsigned at1 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at2 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at4 = to_column * 164 + to_line + to_line / 32 * 2;
                    const unsigned at8 = to_column * 146 + to_line + to_line / 16;
                    (void)here, (void)at1, (void)at2, (void)at4, (void)at8;
                    if (here)
                        AT(float, a4, v * TURNED_APART * inner_stride[4])[0] = t4[at4];
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
            const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
            char *const p1 = ptr[1] + row * row_stride[1];
            const int64_t i1 = inner_stride[1];
            char *const p2 = ptr[2] + row * row_stride[2];
            const int64_t i2 = inner_stride[2];
            double *const p3 = (double *)(ptr[3] + row * row_stride[3]);
            char *const p4 = ptr[4] + row * row_stride[4];
            const int64_t i4 = inner_stride[4];
#if VEC > 1
            const int64_t j0 = first * VEC;

            if (j0 < n_inner) {
                const struct vec0 q0 = *(const struct vec0 *)(p0 + 1 * j0);
                struct vec3 q3;
                #pragma unroll
                for (int v = 0; v < VEC; v++) {
                    const int64_t j = j0 + v;
                    (void)j;
                    const float v0 = q0.v[v];
                    const float v1 = AT(const float, p1, j * i1)[0];
                    const double v2 = AT(const double, p2, j * i2)[0];
                    const float v3 = v0 + v1;
                    const double v4 = (double)v3;
                    const double v5 = v4 + v2;
                    q3.v[v] = v5;
                    AT(float, p4, j * i4)[0] = v3;
                }
                *(struct vec3 *)(p3 + 1 * j0) = q3;
            }
#else
            const int64_t j = first;

            if (j < n_inner) {
                const float v0 = p0[j];
                const float v1 = AT(const float, p1, j * i1)[0];
                const double v2 = AT(const double, p2, j * i2)[0];
                const float v3 = v0 + v1;
                const double v4 = (double)v3;
                const double v5 = v4 + v2;
                p3[j] = v5;
                AT(float, p4, j * i4)[0] = v3;
            }
#endif
        }
    }
#endif
}
