/*
 * nest 1 stage reduces
 * [0] f32 unit
 * [1] c128 unit
 * [2] f16 unit
 * [3] f32 zero written
 * [4] c128 zero written
 * [5] f16 zero written
 * [6] f32 zero written
 * [7] f32 zero written
 * [8] i64 zero written
 * [9] i64 zero written
 * [10] bool zero written
 * [11] bool zero written
 * [12] f32 zero written
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] c128 FULL stage 0
 * %2 = load [2] f16 FULL stage 0
 * %3 = reduce sum %0 f32 ROW stage 1
 * %4 = reduce sum %1 c128 ROW stage 1
 * %5 = reduce sum %2 f16 ROW stage 1
 * %6 = reduce max %0 f32 ROW stage 1
 * %7 = reduce prod %0 f32 ROW stage 1
 * %8 = reduce argmax %0 i64 ROW stage 1
 * %9 = reduce argmin %2 i64 ROW stage 1
 * %10 = reduce any %1 bool ROW stage 1
 * %11 = reduce all %0 bool ROW stage 1
 * %12 = reduce min %0 f32 ROW stage 1
 * %13 = store [3] %3 f32 ROW stage 1
 * %14 = store [4] %4 c128 ROW stage 1
 * %15 = store [5] %5 f16 ROW stage 1
 * %16 = store [6] %6 f32 ROW stage 1
 * %17 = store [7] %7 f32 ROW stage 1
 * %18 = store [8] %8 i64 ROW stage 1
 * %19 = store [9] %9 i64 ROW stage 1
 * %20 = store [10] %10 bool ROW stage 1
 * %21 = store [11] %11 bool ROW stage 1
 * %22 = store [12] %12 f32 ROW stage 1
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
    char *ptr[13];
    int64_t row_stride[13], inner_stride[13], outer_stride[13][4];
    int64_t begun[13];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 960, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 13; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 13; k++)
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
    const double *p1;
    const uint16_t *p2;
    float *p3;
    double *p4;
    uint16_t *p5;
    float *p6;
    float *p7;
    int64_t *p8;
    int64_t *p9;
    uint8_t *p10;
    uint8_t *p11;
    float *p12;
};

struct sums_0c {
    double v4r;
    double v4i;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0c
element_0c(const struct row *r, int64_t j)
{
    struct sums_0c t;
    const double v1r = r->p1[2 * j + 0];
    const double v1i = r->p1[2 * j + 1];
    t.v4r = v1r;
    t.v4i = v1i;
    return t;
}

static __device__ inline struct sums_0c
zero_0c(void)
{
    struct sums_0c t;

    t.v4r = -0.0;
    t.v4i = -0.0;
    return t;
}

static __device__ inline struct sums_0c
add_0c(struct sums_0c a, struct sums_0c b)
{
    struct sums_0c t;

    const double n4r = a.v4r + b.v4r;
    const double n4i = a.v4i + b.v4i;
    t.v4r = n4r;
    t.v4i = n4i;
    return t;
}

static __device__ inline struct sums_0c
shuffle_sums_0c(struct sums_0c a, unsigned mask, int k)
{
    struct sums_0c t;

    t.v4r = __shfl_xor_sync(mask, a.v4r, k);
    t.v4i = __shfl_xor_sync(mask, a.v4i, k);
    return t;
}

static __device__ inline int64_t
half_0c(int64_t n)
{
    return (n - n % 8) / 2;
}

/* Sums of elements [j, j + n), a leaf of the tree, by 4 threads; the first has the result. */
static __device__ inline struct sums_0c
leaf_0c(const struct row *r, int64_t j, int64_t n)
{
    const int lane = threadIdx.x % 4;
    const unsigned mask = 0xfu << (threadIdx.x % 32 - lane);
    const int64_t whole = n < 4 ? 0 : n - n % 4;
    struct sums_0c t = zero_0c(), o;

    for (int64_t i = lane; i < whole; i += 4)
        t = add_0c(t, element_0c(r, j + i));
    for (int k = 1; k < 4; k *= 2) {
        o = shuffle_sums_0c(t, mask, k);
        t = lane & k ? add_0c(o, t) : add_0c(t, o);
    }
    if (lane == 0)
        for (int64_t i = whole; i < n; i++)
            t = add_0c(t, element_0c(r, j + i));
    __syncwarp(mask);
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order, by the same threads. */
static __device__ struct sums_0c
tree_0c(const struct row *r, int64_t j, int64_t n)
{
    struct sums_0c left[48], t;
    int64_t right[48];
    uint64_t summed = 0;
    int depth = 0;

    if (n <= 64)
        return leaf_0c(r, j, n);
    for (;;) {
        for (; n > 64; n = half_0c(n))
            right[depth++] = n - half_0c(n);
        t = leaf_0c(r, j, n);
        j += n;
        for (; depth > 0 && summed >> (depth - 1) & 1; summed ^= (uint64_t)1 << depth)
            t = add_0c(left[--depth], t);
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
find_0c(int64_t n, int node, int width, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int bit = ROW / 8; bit >= width && n > 64; bit /= 2) {
        const int64_t half = half_0c(n);

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
static __device__ inline struct sums_0c
row_0c(const struct row *r, int64_t first, int64_t n)
{
    __shared__ struct sums_0c parts[256 / ROW][ROW / 4];
    struct sums_0c *const part = parts[threadIdx.y];
    const int node = threadIdx.x / 4;
    const bool leader = threadIdx.x % 4 == 0;
    struct sums_0c t;
    const bool deep = SPLIT && n > (int64_t)80 * ROW / 8; /* no leaf lies above the bottom */
    int64_t j, m, above;
    bool mine = true;

    /* A leaf above the bottom belongs to the first node below it. */
    m = find_0c(n, node, 1, &j);
    #pragma unroll 1
    for (int width = 2; !deep && width <= ROW / 4; width *= 2)
        if (node & (width - 1) && find_0c(n, node, width, &above) <= 64)
            mine = false;
    if (mine) {
        t = tree_0c(r, first + j, m);
        if (leader)
            part[node] = t;
    }
    SYNC();
    #pragma unroll 1
    for (int width = 1; width < ROW / 4; width *= 2) {
        if (leader && node % (2 * width) == 0 && (deep || find_0c(n, node, 2 * width, &above) > 64))
            part[node] = add_0c(part[node], part[node + width]);
        SYNC();
    }
    t = part[0];
    SYNC();
    return t;
}

struct accs_0p {
    float v7;
};

/* Stage 0 at element j. */
static __device__ inline void
element_0p(const struct row *r, int64_t j, struct accs_0p *a)
{
    const float v0 = r->p0[j];
    const float n7 = a->v7 * v0;
    a->v7 = n7;
}

static __device__ inline void
gather_0p(struct accs_0p *a)
{
    __shared__ struct accs_0p all[256 / ROW];

    if (threadIdx.x == 0)
        all[threadIdx.y] = *a;
    SYNC();
    *a = all[threadIdx.y];
    SYNC();
}

struct accs_0 {
    float v6;
    float m8;
    int64_t v8;
    uint16_t m9;
    int64_t v9;
    bool v10;
    bool v11;
    float v12;
};

struct sums_0 {
    float v3;
    float v5;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    struct sums_0 t;
    const float v0 = r->p0[j];
    const double v1r = r->p1[2 * j + 0];
    const double v1i = r->p1[2 * j + 1];
    const uint16_t v2 = r->p2[j];
    t.v3 = v0;
    const uint32_t x5_1 = (uint32_t)v2;
    const uint32_t x5_2 = x5_1 & 0x8000u;
    const uint32_t x5_3 = (uint32_t)((uint32_t)x5_2 << 16u);
    const uint32_t x5_4 = x5_1 & 0x7fffu;
    const uint32_t x5_5 = (uint32_t)((uint32_t)x5_4 << 13u);
    const uint32_t x5_6 = (uint32_t)((uint32_t)x5_5 + (uint32_t)0x38000000u);
    const bool x5_7 = 0x7c00u <= x5_4;
    const bool x5_8 = x5_4 < 1024u;
    const int32_t x5_9 = (int32_t)(x5_4);
    const float x5_10 = (float)x5_9;
    const float x5_11 = x5_10 * 0x1.0p-24f;
    const uint32_t x5_12 = (uint32_t)((uint32_t)x5_6 + (uint32_t)0x38000000u);
    const uint32_t x5_13 = x5_7 ? x5_12 : x5_6;
    const uint32_t x5_14 = as_u32_f32(x5_11);
    const uint32_t x5_15 = x5_8 ? x5_14 : x5_13;
    const uint32_t x5_16 = x5_15 | x5_3;
    const float x5 = as_f32_u32(x5_16);
    t.v5 = x5;
    const bool n6_1 = v0 < a->v6;
    const bool n6_2 = a->v6 != a->v6;
    const bool n6_3 = n6_1 | n6_2;
    const float n6 = n6_3 ? a->v6 : v0;
    a->v6 = n6;
    const bool n8_wins = a->m8 < v0;
    const uint32_t n8_is_nan_1 = as_u32_f32(v0);
    const uint32_t n8_is_nan_2 = n8_is_nan_1 & 0x7fffffffu;
    const bool n8_is_nan = 0x7f800000u < n8_is_nan_2;
    const uint32_t n8_was_nan_1 = as_u32_f32(a->m8);
    const uint32_t n8_was_nan_2 = n8_was_nan_1 & 0x7fffffffu;
    const bool n8_was_nan = 0x7f800000u < n8_was_nan_2;
    const bool n8 = (n8_wins | n8_is_nan) & !n8_was_nan;
    if (n8 | (a->v8 < 0)) {
        a->m8 = v0;
        a->v8 = j;
    }
    const uint32_t n9_wins_1 = (uint32_t)v2;
    const uint32_t n9_wins_2 = n9_wins_1 & 0x8000u;
    const uint32_t n9_wins_3 = (uint32_t)((uint32_t)n9_wins_2 << 16u);
    const uint32_t n9_wins_4 = n9_wins_1 & 0x7fffu;
    const uint32_t n9_wins_5 = (uint32_t)((uint32_t)n9_wins_4 << 13u);
    const uint32_t n9_wins_6 = (uint32_t)((uint32_t)n9_wins_5 + (uint32_t)0x38000000u);
    const bool n9_wins_7 = 0x7c00u <= n9_wins_4;
    const bool n9_wins_8 = n9_wins_4 < 1024u;
    const int32_t n9_wins_9 = (int32_t)(n9_wins_4);
    const float n9_wins_10 = (float)n9_wins_9;
    const float n9_wins_11 = n9_wins_10 * 0x1.0p-24f;
    const uint32_t n9_wins_12 = (uint32_t)((uint32_t)n9_wins_6 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_13 = n9_wins_7 ? n9_wins_12 : n9_wins_6;
    const uint32_t n9_wins_14 = as_u32_f32(n9_wins_11);
    const uint32_t n9_wins_15 = n9_wins_8 ? n9_wins_14 : n9_wins_13;
    const uint32_t n9_wins_16 = n9_wins_15 | n9_wins_3;
    const float n9_wins_17 = as_f32_u32(n9_wins_16);
    const uint32_t n9_wins_18 = (uint32_t)a->m9;
    const uint32_t n9_wins_19 = n9_wins_18 & 0x8000u;
    const uint32_t n9_wins_20 = (uint32_t)((uint32_t)n9_wins_19 << 16u);
    const uint32_t n9_wins_21 = n9_wins_18 & 0x7fffu;
    const uint32_t n9_wins_22 = (uint32_t)((uint32_t)n9_wins_21 << 13u);
    const uint32_t n9_wins_23 = (uint32_t)((uint32_t)n9_wins_22 + (uint32_t)0x38000000u);
    const bool n9_wins_24 = 0x7c00u <= n9_wins_21;
    const bool n9_wins_25 = n9_wins_21 < 1024u;
    const int32_t n9_wins_26 = (int32_t)(n9_wins_21);
    const float n9_wins_27 = (float)n9_wins_26;
    const float n9_wins_28 = n9_wins_27 * 0x1.0p-24f;
    const uint32_t n9_wins_29 = (uint32_t)((uint32_t)n9_wins_23 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_30 = n9_wins_24 ? n9_wins_29 : n9_wins_23;
    const uint32_t n9_wins_31 = as_u32_f32(n9_wins_28);
    const uint32_t n9_wins_32 = n9_wins_25 ? n9_wins_31 : n9_wins_30;
    const uint32_t n9_wins_33 = n9_wins_32 | n9_wins_20;
    const float n9_wins_34 = as_f32_u32(n9_wins_33);
    const bool n9_wins = n9_wins_17 < n9_wins_34;
    const uint16_t n9_is_nan_1 = v2 & 32767;
    const bool n9_is_nan = 31744 < n9_is_nan_1;
    const uint16_t n9_was_nan_1 = a->m9 & 32767;
    const bool n9_was_nan = 31744 < n9_was_nan_1;
    const bool n9 = (n9_wins | n9_is_nan) & !n9_was_nan;
    if (n9 | (a->v9 < 0)) {
        a->m9 = v2;
        a->v9 = j;
    }
    const bool x10_1 = v1r != 0.0;
    const bool x10_2 = v1i != 0.0;
    const bool x10 = x10_1 | x10_2;
    const bool n10 = a->v10 | x10;
    a->v10 = n10;
    const bool x11 = v0 != 0.0f;
    const bool n11 = a->v11 & x11;
    a->v11 = n11;
    const bool n12_1 = a->v12 < v0;
    const bool n12_2 = a->v12 != a->v12;
    const bool n12_3 = n12_1 | n12_2;
    const float n12 = n12_3 ? a->v12 : v0;
    a->v12 = n12;
    return t;
}

static __device__ inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v3 = -0.0f;
    t.v5 = -0.0f;
    return t;
}

static __device__ inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const float n3 = a.v3 + b.v3;
    t.v3 = n3;
    const float n5 = a.v5 + b.v5;
    t.v5 = n5;
    return t;
}

static __device__ inline struct sums_0
shuffle_sums_0(struct sums_0 a, unsigned mask, int k)
{
    struct sums_0 t;

    t.v3 = __shfl_xor_sync(mask, a.v3, k);
    t.v5 = __shfl_xor_sync(mask, a.v5, k);
    return t;
}

static __device__ inline int64_t
half_0(int64_t n)
{
    return n / 2 - n / 2 % 8;
}

/* Sums of elements [j, j + n), a leaf of the tree, by 8 threads; the first has the result. */
static __device__ inline struct sums_0
leaf_0(const struct row *r, int64_t j, int64_t n, struct accs_0 *a)
{
    const int lane = threadIdx.x % 8;
    const unsigned mask = 0xffu << (threadIdx.x % 32 - lane);
    const int64_t whole = n < 8 ? 0 : n - n % 8;
    struct sums_0 t = zero_0(), o;

    for (int64_t i = lane; i < whole; i += 8)
        t = add_0(t, element_0(r, j + i, a));
    for (int k = 1; k < 8; k *= 2) {
        o = shuffle_sums_0(t, mask, k);
        t = lane & k ? add_0(o, t) : add_0(t, o);
    }
    if (lane == 0)
        for (int64_t i = whole; i < n; i++)
            t = add_0(t, element_0(r, j + i, a));
    __syncwarp(mask);
    return t;
}

/* Sums of elements [j, j + n) in NumPy's order, by the same threads. */
static __device__ struct sums_0
tree_0(const struct row *r, int64_t j, int64_t n, struct accs_0 *a)
{
    struct sums_0 left[48], t;
    int64_t right[48];
    uint64_t summed = 0;
    int depth = 0;

    if (n <= 128)
        return leaf_0(r, j, n, a);
    for (;;) {
        for (; n > 128; n = half_0(n))
            right[depth++] = n - half_0(n);
        t = leaf_0(r, j, n, a);
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
row_0(const struct row *r, int64_t first, int64_t n, struct accs_0 *a)
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
        t = tree_0(r, first + j, m, a);
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

static __device__ inline struct accs_0
shuffle_accs_0(struct accs_0 a, unsigned mask, int k)
{
    struct accs_0 t;

    t.v6 = __shfl_xor_sync(mask, a.v6, k);
    t.m8 = __shfl_xor_sync(mask, a.m8, k);
    t.v8 = __shfl_xor_sync(mask, a.v8, k);
    t.m9 = __shfl_xor_sync(mask, a.m9, k);
    t.v9 = __shfl_xor_sync(mask, a.v9, k);
    t.v10 = __shfl_xor_sync(mask, a.v10, k);
    t.v11 = __shfl_xor_sync(mask, a.v11, k);
    t.v12 = __shfl_xor_sync(mask, a.v12, k);
    return t;
}

static __device__ inline void
join_0(struct accs_0 *a, struct accs_0 b)
{
    const bool n6_1 = b.v6 < a->v6;
    const bool n6_2 = a->v6 != a->v6;
    const bool n6_3 = n6_1 | n6_2;
    const float n6 = n6_3 ? a->v6 : b.v6;
    a->v6 = n6;
    const bool n8_wins = a->m8 < b.m8;
    const uint32_t n8_is_nan_1 = as_u32_f32(b.m8);
    const uint32_t n8_is_nan_2 = n8_is_nan_1 & 0x7fffffffu;
    const bool n8_is_nan = 0x7f800000u < n8_is_nan_2;
    const uint32_t n8_was_nan_1 = as_u32_f32(a->m8);
    const uint32_t n8_was_nan_2 = n8_was_nan_1 & 0x7fffffffu;
    const bool n8_was_nan = 0x7f800000u < n8_was_nan_2;
    const bool n8 = (n8_wins | n8_is_nan) & !n8_was_nan;
    const bool k8_wins = b.m8 < a->m8;
    const uint32_t k8_is_nan_1 = as_u32_f32(a->m8);
    const uint32_t k8_is_nan_2 = k8_is_nan_1 & 0x7fffffffu;
    const bool k8_is_nan = 0x7f800000u < k8_is_nan_2;
    const uint32_t k8_was_nan_1 = as_u32_f32(b.m8);
    const uint32_t k8_was_nan_2 = k8_was_nan_1 & 0x7fffffffu;
    const bool k8_was_nan = 0x7f800000u < k8_was_nan_2;
    const bool k8 = (k8_wins | k8_is_nan) & !k8_was_nan;
    if (b.v8 >= 0 && (a->v8 < 0 || n8 || (!k8 && b.v8 < a->v8))) {
        a->m8 = b.m8;
        a->v8 = b.v8;
    }
    const uint32_t n9_wins_1 = (uint32_t)b.m9;
    const uint32_t n9_wins_2 = n9_wins_1 & 0x8000u;
    const uint32_t n9_wins_3 = (uint32_t)((uint32_t)n9_wins_2 << 16u);
    const uint32_t n9_wins_4 = n9_wins_1 & 0x7fffu;
    const uint32_t n9_wins_5 = (uint32_t)((uint32_t)n9_wins_4 << 13u);
    const uint32_t n9_wins_6 = (uint32_t)((uint32_t)n9_wins_5 + (uint32_t)0x38000000u);
    const bool n9_wins_7 = 0x7c00u <= n9_wins_4;
    const bool n9_wins_8 = n9_wins_4 < 1024u;
    const int32_t n9_wins_9 = (int32_t)(n9_wins_4);
    const float n9_wins_10 = (float)n9_wins_9;
    const float n9_wins_11 = n9_wins_10 * 0x1.0p-24f;
    const uint32_t n9_wins_12 = (uint32_t)((uint32_t)n9_wins_6 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_13 = n9_wins_7 ? n9_wins_12 : n9_wins_6;
    const uint32_t n9_wins_14 = as_u32_f32(n9_wins_11);
    const uint32_t n9_wins_15 = n9_wins_8 ? n9_wins_14 : n9_wins_13;
    const uint32_t n9_wins_16 = n9_wins_15 | n9_wins_3;
    const float n9_wins_17 = as_f32_u32(n9_wins_16);
    const uint32_t n9_wins_18 = (uint32_t)a->m9;
    const uint32_t n9_wins_19 = n9_wins_18 & 0x8000u;
    const uint32_t n9_wins_20 = (uint32_t)((uint32_t)n9_wins_19 << 16u);
    const uint32_t n9_wins_21 = n9_wins_18 & 0x7fffu;
    const uint32_t n9_wins_22 = (uint32_t)((uint32_t)n9_wins_21 << 13u);
    const uint32_t n9_wins_23 = (uint32_t)((uint32_t)n9_wins_22 + (uint32_t)0x38000000u);
    const bool n9_wins_24 = 0x7c00u <= n9_wins_21;
    const bool n9_wins_25 = n9_wins_21 < 1024u;
    const int32_t n9_wins_26 = (int32_t)(n9_wins_21);
    const float n9_wins_27 = (float)n9_wins_26;
    const float n9_wins_28 = n9_wins_27 * 0x1.0p-24f;
    const uint32_t n9_wins_29 = (uint32_t)((uint32_t)n9_wins_23 + (uint32_t)0x38000000u);
    const uint32_t n9_wins_30 = n9_wins_24 ? n9_wins_29 : n9_wins_23;
    const uint32_t n9_wins_31 = as_u32_f32(n9_wins_28);
    const uint32_t n9_wins_32 = n9_wins_25 ? n9_wins_31 : n9_wins_30;
    const uint32_t n9_wins_33 = n9_wins_32 | n9_wins_20;
    const float n9_wins_34 = as_f32_u32(n9_wins_33);
    const bool n9_wins = n9_wins_17 < n9_wins_34;
    const uint16_t n9_is_nan_1 = b.m9 & 32767;
    const bool n9_is_nan = 31744 < n9_is_nan_1;
    const uint16_t n9_was_nan_1 = a->m9 & 32767;
    const bool n9_was_nan = 31744 < n9_was_nan_1;
    const bool n9 = (n9_wins | n9_is_nan) & !n9_was_nan;
    const uint32_t k9_wins_1 = (uint32_t)a->m9;
    const uint32_t k9_wins_2 = k9_wins_1 & 0x8000u;
    const uint32_t k9_wins_3 = (uint32_t)((uint32_t)k9_wins_2 << 16u);
    const uint32_t k9_wins_4 = k9_wins_1 & 0x7fffu;
    const uint32_t k9_wins_5 = (uint32_t)((uint32_t)k9_wins_4 << 13u);
    const uint32_t k9_wins_6 = (uint32_t)((uint32_t)k9_wins_5 + (uint32_t)0x38000000u);
    const bool k9_wins_7 = 0x7c00u <= k9_wins_4;
    const bool k9_wins_8 = k9_wins_4 < 1024u;
    const int32_t k9_wins_9 = (int32_t)(k9_wins_4);
    const float k9_wins_10 = (float)k9_wins_9;
    const float k9_wins_11 = k9_wins_10 * 0x1.0p-24f;
    const uint32_t k9_wins_12 = (uint32_t)((uint32_t)k9_wins_6 + (uint32_t)0x38000000u);
    const uint32_t k9_wins_13 = k9_wins_7 ? k9_wins_12 : k9_wins_6;
    const uint32_t k9_wins_14 = as_u32_f32(k9_wins_11);
    const uint32_t k9_wins_15 = k9_wins_8 ? k9_wins_14 : k9_wins_13;
    const uint32_t k9_wins_16 = k9_wins_15 | k9_wins_3;
    const float k9_wins_17 = as_f32_u32(k9_wins_16);
    const uint32_t k9_wins_18 = (uint32_t)b.m9;
    const uint32_t k9_wins_19 = k9_wins_18 & 0x8000u;
    const uint32_t k9_wins_20 = (uint32_t)((uint32_t)k9_wins_19 << 16u);
    const uint32_t k9_wins_21 = k9_wins_18 & 0x7fffu;
    const uint32_t k9_wins_22 = (uint32_t)((uint32_t)k9_wins_21 << 13u);
    const uint32_t k9_wins_23 = (uint32_t)((uint32_t)k9_wins_22 + (uint32_t)0x38000000u);
    const bool k9_wins_24 = 0x7c00u <= k9_wins_21;
    const bool k9_wins_25 = k9_wins_21 < 1024u;
    const int32_t k9_wins_26 = (int32_t)(k9_wins_21);
    const float k9_wins_27 = (float)k9_wins_26;
    const float k9_wins_28 = k9_wins_27 * 0x1.0p-24f;
    const uint32_t k9_wins_29 = (uint32_t)((uint32_t)k9_wins_23 + (uint32_t)0x38000000u);
    const uint32_t k9_wins_30 = k9_wins_24 ? k9_wins_29 : k9_wins_23;
    const uint32_t k9_wins_31 = as_u32_f32(k9_wins_28);
    const uint32_t k9_wins_32 = k9_wins_25 ? k9_wins_31 : k9_wins_30;
    const uint32_t k9_wins_33 = k9_wins_32 | k9_wins_20;
    const float k9_wins_34 = as_f32_u32(k9_wins_33);
    const bool k9_wins = k9_wins_17 < k9_wins_34;
    const uint16_t k9_is_nan_1 = a->m9 & 32767;
    const bool k9_is_nan = 31744 < k9_is_nan_1;
    const uint16_t k9_was_nan_1 = b.m9 & 32767;
    const bool k9_was_nan = 31744 < k9_was_nan_1;
    const bool k9 = (k9_wins | k9_is_nan) & !k9_was_nan;
    if (b.v9 >= 0 && (a->v9 < 0 || n9 || (!k9 && b.v9 < a->v9))) {
        a->m9 = b.m9;
        a->v9 = b.v9;
    }
    const bool n10 = a->v10 | b.v10;
    a->v10 = n10;
    const bool n11 = a->v11 & b.v11;
    a->v11 = n11;
    const bool n12_1 = a->v12 < b.v12;
    const bool n12_2 = a->v12 != a->v12;
    const bool n12_3 = n12_1 | n12_2;
    const float n12 = n12_3 ? a->v12 : b.v12;
    a->v12 = n12;
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

extern "C" __global__ void __launch_bounds__(256, 4)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[13];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    struct row r;

    for (int64_t i = (int64_t)blockIdx.x * (256 / ROW) + threadIdx.y; i < N_SHARED * g.n_rows;
         i += (int64_t)gridDim.x * (256 / ROW)) {
        const int64_t row = OUTER ? i % g.n_rows : i, o = OUTER ? i / g.n_rows : 0, walked = 0;

        seek(g, ptr, o, walked);
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const double *)(ptr[1] + row * row_stride[1]);
        r.p2 = (const uint16_t *)(ptr[2] + row * row_stride[2]);
        r.p3 = (float *)(ptr[3] + row * row_stride[3]);
        r.p4 = (double *)(ptr[4] + row * row_stride[4]);
        r.p5 = (uint16_t *)(ptr[5] + row * row_stride[5]);
        r.p6 = (float *)(ptr[6] + row * row_stride[6]);
        r.p7 = (float *)(ptr[7] + row * row_stride[7]);
        r.p8 = (int64_t *)(ptr[8] + row * row_stride[8]);
        r.p9 = (int64_t *)(ptr[9] + row * row_stride[9]);
        r.p10 = (uint8_t *)(ptr[10] + row * row_stride[10]);
        r.p11 = (uint8_t *)(ptr[11] + row * row_stride[11]);
        r.p12 = (float *)(ptr[12] + row * row_stride[12]);
        const struct sums_0c t0c = row_0c(&r, 0, n_inner);
        SYNC();
        const double v4r = 0.0 + t0c.v4r;
        const double v4i = 0.0 + t0c.v4i;
        struct accs_0p a0p;
        a0p.v7 = 1.0f;
        for (int64_t j = 0; threadIdx.x == 0 && j < n_inner; j++)
            element_0p(&r, j, &a0p);
        gather_0p(&a0p);
        SYNC();
        const float v7 = a0p.v7;
        struct accs_0 a0;
        a0.v6 = as_f32_u32(0xff800000u);
        a0.m8 = 0.0f;
        a0.v8 = -1;
        a0.m9 = 0;
        a0.v9 = -1;
        a0.v10 = false;
        a0.v11 = true;
        a0.v12 = as_f32_u32(0x7f800000u);
        const struct sums_0 t0 = row_0(&r, 0, n_inner, &a0);
        gather_0(&a0);
        SYNC();
        const float v3 = 0.0f + t0.v3;
        const float x5 = 0.0f + t0.v5;
        const uint32_t v5_1 = as_u32_f32(x5);
        const uint32_t v5_2 = (uint32_t)(v5_1 >> 16u);
        const uint32_t v5_3 = v5_2 & 0x8000u;
        const float v5_4 = fabsf(x5);
        const uint32_t v5_5 = as_u32_f32(v5_4);
        const uint32_t v5_6 = (uint32_t)(v5_5 >> 13u);
        const uint32_t v5_7 = v5_6 & 1u;
        const uint32_t v5_8 = (uint32_t)((uint32_t)v5_7 + (uint32_t)4095u);
        const uint32_t v5_9 = (uint32_t)((uint32_t)v5_5 - (uint32_t)0x38000000u);
        const uint32_t v5_10 = (uint32_t)((uint32_t)v5_9 + (uint32_t)v5_8);
        const uint32_t v5_11 = (uint32_t)(v5_10 >> 13u);
        const bool v5_12 = v5_5 < 0x38800000u;
        const float v5_13 = v5_12 ? v5_4 : 0.0f;
        const float v5_14 = v5_13 * 0x1.555556p-113f;
        const uint32_t v5_15 = as_u32_f32(0.5f);
        const float v5_16 = v5_13 + v5_14;
        const float v5_17 = v5_16 + 0.5f;
        const uint32_t v5_18 = as_u32_f32(v5_17);
        const uint32_t v5_19 = (uint32_t)((uint32_t)v5_18 - (uint32_t)v5_15);
        const uint32_t v5_20 = v5_6 & 1023u;
        const bool v5_21 = 0x7f800000u < v5_5;
        const uint32_t v5_22 = v5_12 ? v5_19 : v5_11;
        const bool v5_23 = 0x477ff000u <= v5_5;
        const float v5_24 = v5_4 * 0x1.001002p+112f;
        const uint32_t v5_25 = as_u32_f32(v5_24);
        const uint32_t v5_26 = (uint32_t)(v5_25 >> 13u);
        const uint32_t v5_27 = v5_26 & 0x7c00u;
        const uint32_t v5_28 = v5_23 ? v5_27 : v5_22;
        const uint32_t v5_29 = v5_20 | 0x7e00u;
        const uint32_t v5_30 = v5_21 ? v5_29 : v5_28;
        const uint32_t v5_31 = v5_30 | v5_3;
        const uint16_t v5 = (uint16_t)v5_31;
        const float v6 = a0.v6;
        const int64_t v8 = a0.v8;
        const int64_t v9 = a0.v9;
        const bool v10 = a0.v10;
        const bool v11 = a0.v11;
        const float v12 = a0.v12;
        SYNC();
        if (threadIdx.x == 0) r.p3[0] = v3;
        if (threadIdx.x == 0) r.p4[0] = v4r;
        if (threadIdx.x == 0) r.p4[1] = v4i;
        if (threadIdx.x == 0) r.p5[0] = v5;
        if (threadIdx.x == 0) r.p6[0] = v6;
        if (threadIdx.x == 0) r.p7[0] = v7;
        if (threadIdx.x == 0) r.p8[0] = v8;
        if (threadIdx.x == 0) r.p9[0] = v9;
        if (threadIdx.x == 0) r.p10[0] = v10;
        if (threadIdx.x == 0) r.p11[0] = v11;
        if (threadIdx.x == 0) r.p12[0] = v12;
        SYNC();
    }
}
