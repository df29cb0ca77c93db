/*
 * nest 2 stages rowbuf reduces
 * [0] f64 unit
 * [1] f64 strided
 * [2] f64 unit written
 * [3] f64 unit written
 * %0 = load [0] f64 FULL stage 0
 * %1 = load [1] f64 FULL stage 0
 * %2 = multiply %0 %1 f64 FULL stage 0
 * %3 = accum sum [3] %2 f64 FULL stage 0
 * %4 = reduce sum %2 f64 ROW stage 1
 * %5 = subtract %1 %4 f64 FULL stage 1
 * %6 = multiply %5 %0 f64 FULL stage 1
 * %7 = store [2] %6 f64 FULL stage 1
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
    char *ptr[4];
    int64_t row_stride[4], inner_stride[4], outer_stride[4][4];
    int64_t begun[4];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 384, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 4; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 4; k++)
            ptr[k] += at * g.outer_stride[k][a];
    }
}

#ifndef SPLIT /* whether many blocks share a row or a column; 2: lines of a block share columns */
#define SPLIT 0
#endif

#ifndef ROW /* threads of a row: 32 or all */
#define ROW 256
#endif
#ifndef SHARED /* whether rows are kept in shared memory */
#define SHARED 0
#endif
#define KEPT(j) ((j) + ((j) >> 7 << 3))
#define SYNC() (ROW == 32 ? __syncwarp(0xffffffffu) : __syncthreads())

/* What the stages of one row share. */
struct row {
    const double *p0;
    char *p1;
    int64_t i1;
    double *p2;
    double *p3;
    double *b0;
    double *b1;
    double v4;
    bool first;
    const int64_t *begun;
};

struct sums_0 {
    double v4;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0
element_0(const struct row *r, int64_t j)
{
    struct sums_0 t;
    const double v0 = r->p0[j];
    r->b0[KEPT(j)] = v0;
    const double v1 = AT(const double, r->p1, j * r->i1)[0];
    r->b1[KEPT(j)] = v1;
    const double v2 = v0 * v1;
    t.v4 = v2;
    const double m3 = r->first && !r->begun[3] ? 0.0 : r->p3[j];
    const double n3 = m3 + v2;
    r->p3[j] = n3;
    return t;
}

static __device__ inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v4 = -0.0;
    return t;
}

static __device__ inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const double n4 = a.v4 + b.v4;
    t.v4 = n4;
    return t;
}

static __device__ inline struct sums_0
shuffle_sums_0(struct sums_0 a, unsigned mask, int k)
{
    struct sums_0 t;

    t.v4 = __shfl_xor_sync(mask, a.v4, k);
    return t;
}

static __device__ inline int64_t
half_0(int64_t n)
{
    return n / 2 - n / 2 % 8;
}

/* Sums of elements [j, j + n), a leaf of the tree, by 8 threads; the first has the result. */
static __device__ inline struct sums_0
leaf_0(const struct row *r, int64_t j, int64_t n)
{
    const int lane = threadIdx.x % 8;
    const unsigned mask = 0xffu << (threadIdx.x % 32 - lane);
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_0 t = zero_0(), o;

    for (int64_t i = lane; i < whole; i += 8)
        t = add_0(t, element_0(r, j + i));
    for (int k = 1; k < 8; k *= 2) {
        o = shuffle_sums_0(t, mask, k);
        t = lane & k ? add_0(o, t) : add_0(t, o);
    }
    if (lane == 0)
        for (int64_t i = whole; i < n; i++)
            t = add_0(t, element_0(r, j + i));
    __syncwarp(mask);
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order, by the same threads. */
static __device__ struct sums_0
tree_0(const struct row *r, int64_t j, int64_t n)
{
    struct sums_0 left[48], t;
    int64_t right[48];
    uint64_t summed = 0;
    int depth = 0;

    if (n <= 128)
        return leaf_0(r, j, n);
    for (;;) {
        for (; n > 128; n = half_0(n))
            right[depth++] = n - half_0(n);
        t = leaf_0(r, j, n);
        j += n;
        for (; depth > 0 && summed >> (depth - 1) & 1; summed ^= (uint64_t)1 << depth)
            t = add_0(left[--depth], t);
        if (depth == 0)
            return t;
        left[depth - 1] = t;
        summed |= (uint64_t)1 << (depth - 1);
        n = right[depth - 1];
    }
}

/* Walks from the root towards `node`, a path of all nodes at the bottom, and ends above `width`
 * of them or at a leaf: how many elements there are, and the first. */
static __device__ inline int64_t
find_0(int64_t n, int node, int width, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int bit = ROW / 16; bit >= width && n > 128; bit /= 2) {
        const int64_t half = half_0(n);

        if (node & bit) {
            *j += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return n;
}

/* Sums of elements [first, first + n) by the threads of the row: each gets them. */
static __device__ inline struct sums_0
row_0(const struct row *r, int64_t first, int64_t n)
{
    __shared__ struct sums_0 parts[256 / ROW][ROW / 8];
    struct sums_0 *const part = parts[threadIdx.y];
    const int node = threadIdx.x / 8;
    const bool leader = threadIdx.x % 8 == 0;
    struct sums_0 t;
    const bool deep = SPLIT && n > (int64_t)144 * ROW / 16; /* no leaf lies above the bottom */
    int64_t j, m, above;
    bool mine = true;

    /* A leaf above the bottom belongs to the first node below it. */
    m = find_0(n, node, 1, &j);
    #pragma unroll 1
    for (int width = 2; !deep && width <= ROW / 8; width *= 2)
        if (node & (width - 1) && find_0(n, node, width, &above) <= 128)
            mine = false;
    if (mine) {
        t = tree_0(r, first + j, m);
        if (leader)
            part[node] = t;
    }
    SYNC();
    #pragma unroll 1
    for (int width = 1; width < ROW / 8; width *= 2) {
        if (leader && node % (2 * width) == 0 && (deep || find_0(n, node, 2 * width, &above) > 128))
            part[node] = add_0(part[node], part[node + width]);
        SYNC();
    }
    t = part[0];
    SYNC();
    return t;
}

/* Stage 1 at element j. */
static __device__ inline void
element_1(const struct row *r, int64_t j)
{
    const double v0 = r->b0[KEPT(j)];
    const double v1 = r->b1[KEPT(j)];
    const double v5 = v1 - r->v4;
    const double v6 = v5 * v0;
    r->p2[j] = v6;
}

extern "C" __global__ void __launch_bounds__(256, 4)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[4];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    struct row r;

    const int64_t n_kept = (n_inner + (n_inner >> 7 << 3) + 23) / 16 * 16;
#if SHARED
    extern __shared__ __align__(16) char buffers[];
    char *const kept = buffers + threadIdx.y * (unsigned)(n_kept * 16);
#else
    char *const kept = g.scratch + ((int64_t)blockIdx.x * (256 / ROW) + threadIdx.y) * (n_kept * 16);
#endif
    r.b0 = (double *)(kept + n_kept * 0);
    r.b1 = (double *)(kept + n_kept * 8);
    r.begun = g.begun;
    for (int64_t o = blockIdx.x; o < N_SHARED; o += gridDim.x)
    for (int64_t i = 0; i < g.n_walked_indices * g.n_rows; i++) {
        const int64_t row = i % g.n_rows, walked = i / g.n_rows;

        r.first = i == 0;
        seek(g, ptr, o, walked);
        r.p0 = (const double *)(ptr[0] + row * row_stride[0]);
        r.p1 = ptr[1] + row * row_stride[1];
        r.i1 = inner_stride[1];
        r.p3 = (double *)(ptr[3] + row * row_stride[3]);
        r.p2 = (double *)(ptr[2] + row * row_stride[2]);
        const struct sums_0 t0 = row_0(&r, 0, n_inner);
        SYNC();
        const double v4 = 0.0 + t0.v4;
        r.v4 = v4;
        for (int64_t j = threadIdx.x; j < n_inner; j += ROW)
            element_1(&r, j);
        SYNC();
        SYNC();
    }
}
