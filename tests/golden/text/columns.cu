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

#ifndef SPLIT /* whether many blocks share a row or a column; 2: lines of a block share columns */
#define SPLIT 0
#endif
#define BEGUN(k) (SPLIT != 1 && g.begun[k] && j < n_inner)

extern "C" __global__ void __launch_bounds__(256)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[3];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
#if SPLIT
    const int64_t n_all = N_SHARED * n_inner, n_lines = (OUTER ? g.n_walked_indices : 1) * g.n_rows;

    for (int64_t first = (int64_t)blockIdx.x * blockDim.x; first < n_all; first += (int64_t)gridDim.x * blockDim.x) {
        const int64_t column = first + threadIdx.x, o = OUTER && column < n_all ? column / n_inner : 0;
        const int64_t j = column < n_all ? column - o * n_inner : n_inner;
        int64_t walked = 0;

#else
    const int64_t n_cols = n_inner;
    for (int64_t o = OUTER ? blockIdx.z : 0; o < N_SHARED; o += OUTER ? gridDim.z : 1)
    for (int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; j < n_cols; j += (int64_t)gridDim.x * blockDim.x) {
#endif
        seek(g, ptr, o, 0);
        float c2 = BEGUN(1) ? AT(float, ptr[1], j * inner_stride[1])[0] : 0.0f;
        float c3 = BEGUN(2) ? AT(float, ptr[2], j * inner_stride[2])[0] : as_f32_u32(0xff800000u);
#if SPLIT == 1
        const int64_t lines = (int64_t)gridDim.y * blockDim.y, mine = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
        const int64_t start = g.phase ? (mine + lines - g.n_before % lines) % lines : mine;
        char *to = g.scratch;

        if (g.phase & 1 && column < n_all) {
            c2 = ((float *)to)[1 * (mine * n_all + column) + 0];
            to += (lines * n_all * 4 + 15) / 16 * 16 + (gridDim.y * n_all * 4 + 15) / 16 * 16;
            c3 = ((float *)to)[1 * (mine * n_all + column) + 0];
            to += (lines * n_all * 4 + 15) / 16 * 16 + (gridDim.y * n_all * 4 + 15) / 16 * 16;
        }
        to = g.scratch;
#endif
#if SPLIT == 2
        __shared__ __align__(16) char tiles[2][16384];
        const int64_t n_tile = (int64_t)(blockDim.y - 1) * 8;

        for (int64_t tile = 0, turn = 0; tile < n_lines + n_tile; tile += n_tile, turn ^= 1) {
            char *const from = tiles[turn ^ 1], *const to = tiles[turn];
            float *const s2 = (float *)((threadIdx.y ? to : from) + 0);
            float *const s3 = (float *)((threadIdx.y ? to : from) + 8192);
            const int64_t left = n_lines - tile - threadIdx.y + blockDim.y - 1, most = left / (blockDim.y - 1);
            const int n_mine = threadIdx.y == 0 || j >= n_inner || most < 0 ? 0 : most < 8 ? (int)most : 8;

            #pragma unroll 8
            for (int k = 0; k < n_mine; k++) {
            const unsigned line = k * (blockDim.y - 1) + threadIdx.y - 1, at = line * blockDim.x + threadIdx.x;
            const int64_t i = tile + line;

#elif SPLIT
        const int64_t n_mine = j >= n_inner || start >= n_lines ? 0 : (n_lines - start - 1) / lines + 1;

        #pragma unroll 8
        for (int64_t k = 0; k < n_mine; k++) {
            const int64_t i = start + k * lines;
#endif
#if SPLIT
            const int64_t row = OUTER ? i % g.n_rows : i;

            if (OUTER && i / g.n_rows != walked) {
                walked = i / g.n_rows;
                seek(g, ptr, o, walked);
            }
            {
#else
        for (int64_t i = 0; i < (OUTER ? g.n_walked_indices : 1); i++) {
            if (OUTER && i) {
                seek(g, ptr, o, i);
            }
            for (int64_t row = 0; row < g.n_rows; row++) {
#endif
                const float *const p0 = (const float *)(ptr[0] + row * row_stride[0]);
                float *const p1 = (float *)(ptr[1] + row * row_stride[1]);
                float *const p2 = (float *)(ptr[2] + row * row_stride[2]);
                {
                    const float v0 = p0[j];
                    const float v1 = v0 * v0;
#if SPLIT == 2
                    s2[at] = v1;
#else
                    const float n2 = c2 + v1;
                    c2 = n2;
#endif
#if SPLIT == 2
                    s3[at] = v0;
#else
                    const bool n3_1 = v0 < c3;
                    const bool n3_2 = c3 != c3;
                    const bool n3_3 = n3_1 | n3_2;
                    const float n3 = n3_3 ? c3 : v0;
                    c3 = n3;
#endif
                }
            }
        }
#if SPLIT == 2
            if (threadIdx.y == 0 && tile > 0) {
                const int n = (int)(n_lines - (tile - n_tile) < n_tile ? n_lines - (tile - n_tile) : n_tile);

                #pragma unroll 8
                for (int k = 0; k < n; k++) {
                    const unsigned at = k * blockDim.x + threadIdx.x;

                    const float o2 = s2[at];
                    const float n2 = c2 + o2;
                    c2 = n2;
                    const float o3 = s3[at];
                    const bool n3_1 = o3 < c3;
                    const bool n3_2 = c3 != c3;
                    const bool n3_3 = n3_1 | n3_2;
                    const float n3 = n3_3 ? c3 : o3;
                    c3 = n3;
                }
            }
            __syncthreads();
        }
#endif
#if SPLIT == 1
        __shared__ __align__(16) char parts[16 * 256];

        if (g.phase) {
            if (g.phase & 2 && column < n_all) {
                ((float *)to)[1 * (mine * n_all + column) + 0] = c2;
            }
            to += (lines * n_all * 4 + 15) / 16 * 16;
        }
        if (!(g.phase & 2)) {
            float *const part = (float *)parts + 1 * (threadIdx.y * blockDim.x + threadIdx.x);

            for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
                part[0] = c2;
                __syncthreads();
                if (threadIdx.y < half) {
                    const float o2 = part[1 * half * blockDim.x + 0];
                    const float n2 = c2 + o2;
                    c2 = n2;
                }
                __syncthreads();
            }
            if (gridDim.y > 1 && threadIdx.y == 0 && j < n_inner) {
                ((float *)to)[1 * (blockIdx.y * n_all + column) + 0] = c2;
            } else if (threadIdx.y == 0 && j < n_inner) {
                float *const p = AT(float, ptr[1], j * inner_stride[1]);

                if (g.begun[1]) {
                    const float o2 = p[0];
                    const float n2 = o2 + c2;
                    c2 = n2;
                }
                p[0] = c2;
            }
        }
        to += (gridDim.y * n_all * 4 + 15) / 16 * 16;
        if (g.phase) {
            if (g.phase & 2 && column < n_all) {
                ((float *)to)[1 * (mine * n_all + column) + 0] = c3;
            }
            to += (lines * n_all * 4 + 15) / 16 * 16;
        }
        if (!(g.phase & 2)) {
            float *const part = (float *)parts + 1 * (threadIdx.y * blockDim.x + threadIdx.x);

            for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
                part[0] = c3;
                __syncthreads();
                if (threadIdx.y < half) {
                    const float o3 = part[1 * half * blockDim.x + 0];
                    const bool n3_1 = o3 < c3;
                    const bool n3_2 = c3 != c3;
                    const bool n3_3 = n3_1 | n3_2;
                    const float n3 = n3_3 ? c3 : o3;
                    c3 = n3;
                }
                __syncthreads();
            }
            if (gridDim.y > 1 && threadIdx.y == 0 && j < n_inner) {
                ((float *)to)[1 * (blockIdx.y * n_all + column) + 0] = c3;
            } else if (threadIdx.y == 0 && j < n_inner) {
                float *const p = AT(float, ptr[2], j * inner_stride[2]);

                if (g.begun[2]) {
                    const float o3 = p[0];
                    const bool n3_1 = c3 < o3;
                    const bool n3_2 = o3 != o3;
                    const bool n3_3 = n3_1 | n3_2;
                    const float n3 = n3_3 ? o3 : c3;
                    c3 = n3;
                }
                p[0] = c3;
            }
        }
        to += (gridDim.y * n_all * 4 + 15) / 16 * 16;
#else
        if (j < n_inner && (SPLIT == 0 || threadIdx.y == 0)) {
            AT(float, ptr[1], j * inner_stride[1])[0] = c2;
            AT(float, ptr[2], j * inner_stride[2])[0] = c3;
        }
#endif
    }
}
