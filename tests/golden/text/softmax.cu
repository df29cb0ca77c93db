/*
 * nest 3 stages rowbuf reduces
 * [0] f32 unit
 * [1] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = reduce max %0 f32 ROW stage 1
 * %2 = subtract %0 %1 f32 FULL stage 1
 * %3 = multiply %2 %2 f32 FULL stage 1
 * %4 = reduce sum %3 f32 ROW stage 2
 * %5 = divide %3 %4 f32 FULL stage 2
 * %6 = store [1] %5 f32 FULL stage 2
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
    char *ptr[2];
    int64_t row_stride[2], inner_stride[2], outer_stride[2][4];
    int64_t begun[2];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 256, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 2; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 2; k++)
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
    const float *p0;
    float *p1;
    float v1;
    float *b3;
    float v4;
};

struct accs_0 {
    float v1;
};

/* Stage 0 at element j. */
static __device__ inline void
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    const float v0 = r->p0[j];
    const bool n1_1 = v0 < a->v1;
    const bool n1_2 = a->v1 != a->v1;
    const bool n1_3 = n1_1 | n1_2;
    const float n1 = n1_3 ? a->v1 : v0;
    a->v1 = n1;
}

static __device__ inline struct accs_0
shuffle_accs_0(struct accs_0 a, unsigned mask, int k)
{
    struct accs_0 t;

    t.v1 = __shfl_xor_sync(mask, a.v1, k);
    return t;
}

static __device__ inline void
join_0(struct accs_0 *a, struct accs_0 b)
{
    const bool n1_1 = b.v1 < a->v1;
    const bool n1_2 = a->v1 != a->v1;
    const bool n1_3 = n1_1 | n1_2;
    const float n1 = n1_3 ? a->v1 : b.v1;
    a->v1 = n1;
}

static __device__ inline void
gather_0(struct accs_0 *a)
{
    __shared__ struct accs_0 all[256 / 32];
    const int first = threadIdx.y * (ROW / 32);

    for (int k = 1; k < 32; k *= 2)
        join_0(a, shuffle_accs_0(*a, 0xffffffffu, k));
    if (threadIdx.x % 32 == 0)
        all[first + threadIdx.x / 32] = *a;
    SYNC();
    *a = all[first];
    for (int k = 1; k < ROW / 32; k++)
        join_0(a, all[first + k]);
    SYNC();
}

struct sums_1 {
    float v4;
};

/* Stage 1 at element j. */
static __device__ inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const float v0 = r->p0[j];
    const float v2 = v0 - r->v1;
    const float v3 = v2 * v2;
    r->b3[KEPT(j)] = v3;
    t.v4 = v3;
    return t;
}

static __device__ inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v4 = -0.0f;
    return t;
}

static __device__ inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const float n4 = a.v4 + b.v4;
    t.v4 = n4;
    return t;
}

static __device__ inline struct sums_1
shuffle_sums_1(struct sums_1 a, unsigned mask, int k)
{
    struct sums_1 t;

    t.v4 = __shfl_xor_sync(mask, a.v4, k);
    return t;
}

static __device__ inline int64_t
half_1(int64_t n)
{
    return n / 2 - n / 2 % 8;
}

/* Sums of elements [j, j + n), a leaf of the tree, by 8 threads; the first has the result. */
static __device__ inline struct sums_1
leaf_1(const struct row *r, int64_t j, int64_t n)
{
    const int lane = threadIdx.x % 8;
    const unsigned mask = 0xffu << (threadIdx.x % 32 - lane);
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_1 t = zero_1(), o;

    for (int64_t i = lane; i < whole; i += 8)
        t = add_1(t, element_1(r, j + i));
    for (int k = 1; k < 8; k *= 2) {
        o = shuffle_sums_1(t, mask, k);
        t = lane & k ? add_1(o, t) : add_1(t, o);
    }
    if (lane == 0)
        for (int64_t i = whole; i < n; i++)
            t = add_1(t, element_1(r, j + i));
    __syncwarp(mask);
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order, by the same threads. */
static __device__ struct sums_1
tree_1(const struct row *r, int64_t j, int64_t n)
{
    struct sums_1 left[48], t;
    int64_t right[48];
    uint64_t summed = 0;
    int depth = 0;

    if (n <= 128)
        return leaf_1(r, j, n);
    for (;;) {
        for (; n > 128; n = half_1(n))
            right[depth++] = n - half_1(n);
        t = leaf_1(r, j, n);
        j += n;
        for (; depth > 0 && summed >> (depth - 1) & 1; summed ^= (uint64_t)1 << depth)
            t = add_1(left[--depth], t);
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
find_1(int64_t n, int node, int width, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int bit = ROW / 16; bit >= width && n > 128; bit /= 2) {
        const int64_t half = half_1(n);

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
static __device__ inline struct sums_1
row_1(const struct row *r, int64_t first, int64_t n)
{
    __shared__ struct sums_1 parts[256 / ROW][ROW / 8];
    struct sums_1 *const part = parts[threadIdx.y];
    const int node = threadIdx.x / 8;
    const bool leader = threadIdx.x % 8 == 0;
    struct sums_1 t;
    const bool deep = SPLIT && n > (int64_t)144 * ROW / 16; /* no leaf lies above the bottom */
    int64_t j, m, above;
    bool mine = true;

    /* A leaf above the bottom belongs to the first node below it. */
    m = find_1(n, node, 1, &j);
    #pragma unroll 1
    for (int width = 2; !deep && width <= ROW / 8; width *= 2)
        if (node & (width - 1) && find_1(n, node, width, &above) <= 128)
            mine = false;
    if (mine) {
        t = tree_1(r, first + j, m);
        if (leader)
            part[node] = t;
    }
    SYNC();
    #pragma unroll 1
    for (int width = 1; width < ROW / 8; width *= 2) {
        if (leader && node % (2 * width) == 0 && (deep || find_1(n, node, 2 * width, &above) > 128))
            part[node] = add_1(part[node], part[node + width]);
        SYNC();
    }
    t = part[0];
    SYNC();
    return t;
}

/* Stage 2 at element j. */
static __device__ inline void
element_2(const struct row *r, int64_t j)
{
    const float v3 = r->b3[KEPT(j)];
    const float v5 = v3 / r->v4;
    r->p1[j] = v5;
}

extern "C" __global__ void __launch_bounds__(256, 4)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[2];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    struct row r;

    const int64_t n_kept = (n_inner + (n_inner >> 7 << 3) + 23) / 16 * 16;
#if SHARED
    extern __shared__ __align__(16) char buffers[];
    char *const kept = buffers + threadIdx.y * (unsigned)(n_kept * 4);
#else
    char *const kept = g.scratch + ((int64_t)blockIdx.x * (256 / ROW) + threadIdx.y) * (n_kept * 4);
#endif
    r.b3 = (float *)(kept + n_kept * 0);
    for (int64_t i = (int64_t)blockIdx.x * (256 / ROW) + threadIdx.y; i < N_SHARED * g.n_rows;
         i += (int64_t)gridDim.x * (256 / ROW)) {
        const int64_t row = OUTER ? i % g.n_rows : i, o = OUTER ? i / g.n_rows : 0, walked = 0;

        seek(g, ptr, o, walked);
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (float *)(ptr[1] + row * row_stride[1]);
        struct accs_0 a0;
        a0.v1 = as_f32_u32(0xff800000u);
        for (int64_t j = threadIdx.x; j < n_inner; j += ROW)
            element_0(&r, j, &a0);
        gather_0(&a0);
        SYNC();
        const float v1 = a0.v1;
        r.v1 = v1;
        const struct sums_1 t1 = row_1(&r, 0, n_inner);
        SYNC();
        const float v4 = 0.0f + t1.v4;
        r.v4 = v4;
        for (int64_t j = threadIdx.x; j < n_inner; j += ROW)
            element_2(&r, j);
        SYNC();
        SYNC();
    }
}
