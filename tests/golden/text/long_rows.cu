/*
 * nest 2 stages reduces
 * [0] f32 unit
 * [1] c64 unit
 * [2] i32 strided
 * [3] f32 zero written
 * [4] c64 zero written
 * [5] i64 zero written
 * [6] i32 zero written
 * [7] f32 unit written
 * %0 = load [0] f32 FULL stage 0
 * %1 = load [1] c64 FULL stage 0
 * %2 = load [2] i32 FULL stage 0
 * %3 = reduce sum %0 f32 ROW stage 1
 * %4 = reduce sum %1 c64 ROW stage 1
 * %5 = reduce argmin %0 i64 ROW stage 1
 * %6 = reduce prod %2 i32 ROW stage 1
 * %7 = store [4] %4 c64 ROW stage 1
 * %8 = store [5] %5 i64 ROW stage 1
 * %9 = store [6] %6 i32 ROW stage 1
 * %10 = subtract %0 %3 f32 FULL stage 1
 * %11 = multiply %10 %10 f32 FULL stage 1
 * %12 = store [7] %10 f32 FULL stage 1
 * %13 = reduce sum %11 f32 ROW stage 2
 * %14 = store [3] %13 f32 ROW stage 2
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
    char *ptr[8];
    int64_t row_stride[8], inner_stride[8], outer_stride[8][4];
    int64_t begun[8];
    int64_t n_rows, n_inner, outer[4], n_shared, n_outer, n_shared_indices, n_walked_indices;
    char *scratch;
    int64_t n_pieces, phase, n_before;
    struct __align__(16) { char bytes[16]; } scalars[1];
};
static_assert(sizeof(struct nest_args) == 640, "as jit/emit_cuda.h has it");

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
    for (int k = 0; k < 8; k++)
        ptr[k] = g.ptr[k];
    #pragma unroll 1
    for (int a = OUTER ? (int)g.n_outer - 1 : -1; a >= 0; a--) {
        if (a + 1 == g.n_shared)
            i = shared;
        const bool first = a == 0 || a == g.n_shared;
        const int64_t left = first ? 0 : i / g.outer[a], at = i - left * g.outer[a];

        i = left;
        #pragma unroll
        for (int k = 0; k < 8; k++)
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
#define LAST (!SPLIT || g.phase == 2) /* whether values of whole rows are stored */

/* What the stages of one row share. */
struct row {
    const float *p0;
    const float *p1;
    char *p2;
    int64_t i2;
    float *p3;
    float *p4;
    int64_t *p5;
    int32_t *p6;
    float *p7;
    float v3;
};

struct sums_0c {
    float v4r;
    float v4i;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0c
element_0c(const struct row *r, int64_t j)
{
    struct sums_0c t;
    const float v1r = r->p1[2 * j + 0];
    const float v1i = r->p1[2 * j + 1];
    t.v4r = v1r;
    t.v4i = v1i;
    return t;
}

static __device__ inline struct sums_0c
zero_0c(void)
{
    struct sums_0c t;

    t.v4r = -0.0f;
    t.v4i = -0.0f;
    return t;
}

static __device__ inline struct sums_0c
add_0c(struct sums_0c a, struct sums_0c b)
{
    struct sums_0c t;

    const float n4r = a.v4r + b.v4r;
    const float n4i = a.v4i + b.v4i;
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

#if SPLIT
/* How many elements a piece of n has, and the first: a node of the tree. */
static __device__ inline int64_t
piece_0c(int64_t n, int64_t piece, int64_t n_pieces, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int64_t bit = n_pieces / 2; bit > 0; bit /= 2) {
        const int64_t half = (n - n % 8) / 2;

        if (piece & bit) {
            *j += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return n;
}

/* Sums of a row from those of its n pieces, in the order of the tree: each thread gets them. */
static __device__ inline struct sums_0c
joined_0c(const struct sums_0c *part, int64_t n)
{
    __shared__ struct sums_0c all[8];
    const int64_t each = n > 256 ? n / 256 : 1, first = threadIdx.x * each;
    struct sums_0c t = zero_0c(), left[4], o;

    for (int k = 0; k < each && first < n; k++) {
        int depth = 0;

        t = part[first + k];
        for (; k >> depth & 1; depth++)
            t = add_0c(left[depth], t);
        left[depth] = t;
    }
    for (int k = 1; k < 32 && k < n; k *= 2) {
        o = shuffle_sums_0c(t, 0xffffffffu, k);
        t = threadIdx.x & k ? add_0c(o, t) : add_0c(t, o);
    }
    if (threadIdx.x % 32 == 0)
        all[threadIdx.x / 32] = t;
    SYNC();
    #pragma unroll 1
    for (int k = 1; k < 8 && 32 * k < n; k *= 2) {
        if (threadIdx.x % (64 * k) == 0)
            all[threadIdx.x / 32] = add_0c(all[threadIdx.x / 32], all[threadIdx.x / 32 + k]);
        SYNC();
    }
    t = all[0];
    SYNC();
    return t;
}
#endif

struct accs_0 {
    float m5;
    int64_t v5;
    int32_t v6;
};

struct sums_0 {
    float v3;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0
element_0(const struct row *r, int64_t j, struct accs_0 *a)
{
    struct sums_0 t;
    const float v0 = r->p0[j];
    const int32_t v2 = AT(const int32_t, r->p2, j * r->i2)[0];
    t.v3 = v0;
    const bool n5_wins = v0 < a->m5;
    const uint32_t n5_is_nan_1 = as_u32_f32(v0);
    const uint32_t n5_is_nan_2 = n5_is_nan_1 & 0x7fffffffu;
    const bool n5_is_nan = 0x7f800000u < n5_is_nan_2;
    const uint32_t n5_was_nan_1 = as_u32_f32(a->m5);
    const uint32_t n5_was_nan_2 = n5_was_nan_1 & 0x7fffffffu;
    const bool n5_was_nan = 0x7f800000u < n5_was_nan_2;
    const bool n5 = (n5_wins | n5_is_nan) & !n5_was_nan;
    if (n5 | (a->v5 < 0)) {
        a->m5 = v0;
        a->v5 = j;
    }
    const int32_t n6 = (int32_t)((uint32_t)a->v6 * (uint32_t)v2);
    a->v6 = n6;
    return t;
}

static __device__ inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v3 = -0.0f;
    return t;
}

static __device__ inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const float n3 = a.v3 + b.v3;
    t.v3 = n3;
    return t;
}

static __device__ inline struct sums_0
shuffle_sums_0(struct sums_0 a, unsigned mask, int k)
{
    struct sums_0 t;

    t.v3 = __shfl_xor_sync(mask, a.v3, k);
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

    t.m5 = __shfl_xor_sync(mask, a.m5, k);
    t.v5 = __shfl_xor_sync(mask, a.v5, k);
    t.v6 = __shfl_xor_sync(mask, a.v6, k);
    return t;
}

static __device__ inline void
join_0(struct accs_0 *a, struct accs_0 b)
{
    const bool n5_wins = b.m5 < a->m5;
    const uint32_t n5_is_nan_1 = as_u32_f32(b.m5);
    const uint32_t n5_is_nan_2 = n5_is_nan_1 & 0x7fffffffu;
    const bool n5_is_nan = 0x7f800000u < n5_is_nan_2;
    const uint32_t n5_was_nan_1 = as_u32_f32(a->m5);
    const uint32_t n5_was_nan_2 = n5_was_nan_1 & 0x7fffffffu;
    const bool n5_was_nan = 0x7f800000u < n5_was_nan_2;
    const bool n5 = (n5_wins | n5_is_nan) & !n5_was_nan;
    const bool k5_wins = a->m5 < b.m5;
    const uint32_t k5_is_nan_1 = as_u32_f32(a->m5);
    const uint32_t k5_is_nan_2 = k5_is_nan_1 & 0x7fffffffu;
    const bool k5_is_nan = 0x7f800000u < k5_is_nan_2;
    const uint32_t k5_was_nan_1 = as_u32_f32(b.m5);
    const uint32_t k5_was_nan_2 = k5_was_nan_1 & 0x7fffffffu;
    const bool k5_was_nan = 0x7f800000u < k5_was_nan_2;
    const bool k5 = (k5_wins | k5_is_nan) & !k5_was_nan;
    if (b.v5 >= 0 && (a->v5 < 0 || n5 || (!k5 && b.v5 < a->v5))) {
        a->m5 = b.m5;
        a->v5 = b.v5;
    }
    const int32_t n6 = (int32_t)((uint32_t)a->v6 * (uint32_t)b.v6);
    a->v6 = n6;
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

#if SPLIT
/* How many elements a piece of n has, and the first: a node of the tree. */
static __device__ inline int64_t
piece_0(int64_t n, int64_t piece, int64_t n_pieces, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int64_t bit = n_pieces / 2; bit > 0; bit /= 2) {
        const int64_t half = n / 2 - n / 2 % 8;

        if (piece & bit) {
            *j += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return n;
}

/* Sums of a row from those of its n pieces, in the order of the tree: each thread gets them. */
static __device__ inline struct sums_0
joined_0(const struct sums_0 *part, int64_t n)
{
    __shared__ struct sums_0 all[8];
    const int64_t each = n > 256 ? n / 256 : 1, first = threadIdx.x * each;
    struct sums_0 t = zero_0(), left[4], o;

    for (int k = 0; k < each && first < n; k++) {
        int depth = 0;

        t = part[first + k];
        for (; k >> depth & 1; depth++)
            t = add_0(left[depth], t);
        left[depth] = t;
    }
    for (int k = 1; k < 32 && k < n; k *= 2) {
        o = shuffle_sums_0(t, 0xffffffffu, k);
        t = threadIdx.x & k ? add_0(o, t) : add_0(t, o);
    }
    if (threadIdx.x % 32 == 0)
        all[threadIdx.x / 32] = t;
    SYNC();
    #pragma unroll 1
    for (int k = 1; k < 8 && 32 * k < n; k *= 2) {
        if (threadIdx.x % (64 * k) == 0)
            all[threadIdx.x / 32] = add_0(all[threadIdx.x / 32], all[threadIdx.x / 32 + k]);
        SYNC();
    }
    t = all[0];
    SYNC();
    return t;
}
#endif

struct sums_1 {
    float v13;
};

/* Stage 1 at element j. */
static __device__ inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const float v0 = r->p0[j];
    const float v10 = v0 - r->v3;
    const float v11 = v10 * v10;
    t.v13 = v11;
    r->p7[j] = v10;
    return t;
}

static __device__ inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v13 = -0.0f;
    return t;
}

static __device__ inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const float n13 = a.v13 + b.v13;
    t.v13 = n13;
    return t;
}

static __device__ inline struct sums_1
shuffle_sums_1(struct sums_1 a, unsigned mask, int k)
{
    struct sums_1 t;

    t.v13 = __shfl_xor_sync(mask, a.v13, k);
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

#if SPLIT
/* How many elements a piece of n has, and the first: a node of the tree. */
static __device__ inline int64_t
piece_1(int64_t n, int64_t piece, int64_t n_pieces, int64_t *j)
{
    *j = 0;
    #pragma unroll 1
    for (int64_t bit = n_pieces / 2; bit > 0; bit /= 2) {
        const int64_t half = n / 2 - n / 2 % 8;

        if (piece & bit) {
            *j += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return n;
}

/* Sums of a row from those of its n pieces, in the order of the tree: each thread gets them. */
static __device__ inline struct sums_1
joined_1(const struct sums_1 *part, int64_t n)
{
    __shared__ struct sums_1 all[8];
    const int64_t each = n > 256 ? n / 256 : 1, first = threadIdx.x * each;
    struct sums_1 t = zero_1(), left[4], o;

    for (int k = 0; k < each && first < n; k++) {
        int depth = 0;

        t = part[first + k];
        for (; k >> depth & 1; depth++)
            t = add_1(left[depth], t);
        left[depth] = t;
    }
    for (int k = 1; k < 32 && k < n; k *= 2) {
        o = shuffle_sums_1(t, 0xffffffffu, k);
        t = threadIdx.x & k ? add_1(o, t) : add_1(t, o);
    }
    if (threadIdx.x % 32 == 0)
        all[threadIdx.x / 32] = t;
    SYNC();
    #pragma unroll 1
    for (int k = 1; k < 8 && 32 * k < n; k *= 2) {
        if (threadIdx.x % (64 * k) == 0)
            all[threadIdx.x / 32] = add_1(all[threadIdx.x / 32], all[threadIdx.x / 32 + k]);
        SYNC();
    }
    t = all[0];
    SYNC();
    return t;
}
#endif

extern "C" __global__ void __launch_bounds__(256, 4)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[8];
    (void)scalars;
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    struct row r;

#if SPLIT
    const int64_t n_all = N_SHARED * g.n_rows;

    for (int64_t k = blockIdx.x; k < n_all * (LAST ? 1 : g.n_pieces); k += gridDim.x) {
        const int64_t i = k % n_all, piece = k / n_all;

#else
    for (int64_t i = (int64_t)blockIdx.x * (256 / ROW) + threadIdx.y; i < N_SHARED * g.n_rows;
         i += (int64_t)gridDim.x * (256 / ROW)) {
#endif
        const int64_t row = OUTER ? i % g.n_rows : i, o = OUTER ? i / g.n_rows : 0, walked = 0;

        seek(g, ptr, o, walked);
        r.p0 = (const float *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const float *)(ptr[1] + row * row_stride[1]);
        r.p2 = ptr[2] + row * row_stride[2];
        r.i2 = inner_stride[2];
        r.p4 = (float *)(ptr[4] + row * row_stride[4]);
        r.p5 = (int64_t *)(ptr[5] + row * row_stride[5]);
        r.p6 = (int32_t *)(ptr[6] + row * row_stride[6]);
        r.p7 = (float *)(ptr[7] + row * row_stride[7]);
        r.p3 = (float *)(ptr[3] + row * row_stride[3]);
#if SPLIT
        struct sums_0c *const st0c = (struct sums_0c *)(g.scratch + 0 * n_all * g.n_pieces) + i * g.n_pieces, t0c;
        if (g.phase == 0) {
            int64_t j0;
            const int64_t n = piece_0c(n_inner, piece, g.n_pieces, &j0);

            t0c = row_0c(&r, j0, n);
            if (threadIdx.x == 0)
                st0c[piece] = t0c;
        } else {
            t0c = joined_0c(st0c, g.n_pieces);
        }
#else
        const struct sums_0c t0c = row_0c(&r, 0, n_inner);
#endif
        SYNC();
        const float v4r = 0.0f + t0c.v4r;
        const float v4i = 0.0f + t0c.v4i;
        struct accs_0 a0;
        a0.m5 = 0.0f;
        a0.v5 = -1;
        a0.v6 = 1;
#if SPLIT
        struct sums_0 *const st0 = (struct sums_0 *)(g.scratch + 16 * n_all * g.n_pieces) + i * g.n_pieces, t0;
        struct accs_0 *const sa0 = (struct accs_0 *)(g.scratch + 24 * n_all * g.n_pieces) + i * g.n_pieces;
        if (g.phase == 0) {
            int64_t j0;
            const int64_t n = piece_0(n_inner, piece, g.n_pieces, &j0);

            t0 = row_0(&r, j0, n, &a0);
            gather_0(&a0);
            if (threadIdx.x == 0)
                st0[piece] = t0;
            if (threadIdx.x == 0)
                sa0[piece] = a0;
        } else {
            t0 = joined_0(st0, g.n_pieces);
            for (int64_t k = threadIdx.x; k < g.n_pieces; k += ROW)
                join_0(&a0, sa0[k]);
            gather_0(&a0);
        }
#else
        const struct sums_0 t0 = row_0(&r, 0, n_inner, &a0);
        gather_0(&a0);
#endif
        SYNC();
        const float v3 = 0.0f + t0.v3;
        r.v3 = v3;
        const int64_t v5 = a0.v5;
        const int32_t v6 = a0.v6;
#if SPLIT
        if (g.phase == 0)
            continue;
#endif
        SYNC();
        if (threadIdx.x == 0 && LAST) r.p4[0] = v4r;
        if (threadIdx.x == 0 && LAST) r.p4[1] = v4i;
        if (threadIdx.x == 0 && LAST) r.p5[0] = v5;
        if (threadIdx.x == 0 && LAST) r.p6[0] = v6;
#if SPLIT
        struct sums_1 *const st1 = (struct sums_1 *)(g.scratch + 48 * n_all * g.n_pieces) + i * g.n_pieces, t1;
        if (g.phase == 1) {
            int64_t j0;
            const int64_t n = piece_1(n_inner, piece, g.n_pieces, &j0);

            t1 = row_1(&r, j0, n);
            if (threadIdx.x == 0)
                st1[piece] = t1;
        } else {
            t1 = joined_1(st1, g.n_pieces);
        }
#else
        const struct sums_1 t1 = row_1(&r, 0, n_inner);
#endif
        SYNC();
        const float v13 = 0.0f + t1.v13;
#if SPLIT
        if (g.phase == 1)
            continue;
#endif
        SYNC();
        if (threadIdx.x == 0 && LAST) r.p3[0] = v13;
        SYNC();
    }
}
