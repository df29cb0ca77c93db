/*
 * nest 3 stages reduces
 * [0] f64 unit
 * [1] f64 unit
 * [2] f64 strided
 * [3] f64 unit written
 * [4] f64 zero written
 * $0 f64
 * $1 f64
 * %0 = load [0] f64 FULL stage 0
 * %1 = load [1] f64 FULL stage 0
 * %2 = load [2] f64 FULL stage 0
 * %3 = scalar $0 f64 SCALAR stage 0
 * %4 = scalar $1 f64 SCALAR stage 0
 * %5 = reduce sum %0 f64 ROW stage 1
 * %6 = divide %5 %3 f64 ROW stage 1
 * %7 = subtract %0 %6 f64 FULL stage 1
 * %8 = multiply %7 %7 f64 FULL stage 1
 * %9 = reduce sum %8 f64 ROW stage 2
 * %10 = divide %9 %3 f64 ROW stage 2
 * %11 = add %10 %4 f64 ROW stage 2
 * %12 = sqrt %11 f64 ROW stage 2
 * %13 = divide %7 %12 f64 FULL stage 2
 * %14 = multiply %13 %1 f64 FULL stage 2
 * %15 = add %14 %2 f64 FULL stage 2
 * %16 = store [3] %15 f64 FULL stage 2
 * %17 = store [4] %12 f64 ROW stage 2
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
    struct __align__(16) { char bytes[16]; } scalars[2];
};
static_assert(sizeof(struct nest_args) == 464, "as jit/emit_cuda.h has it");

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
#define LAST (!SPLIT || g.phase == 3) /* whether values of whole rows are stored */

/* What the stages of one row share. */
struct row {
    const double *p0;
    const double *p1;
    char *p2;
    int64_t i2;
    double *p3;
    double *p4;
    double v6;
    double v12;
};

struct sums_0 {
    double v5;
};

/* Stage 0 at element j. */
static __device__ inline struct sums_0
element_0(const struct row *r, int64_t j)
{
    struct sums_0 t;
    const double v0 = r->p0[j];
    t.v5 = v0;
    return t;
}

static __device__ inline struct sums_0
zero_0(void)
{
    struct sums_0 t;

    t.v5 = -0.0;
    return t;
}

static __device__ inline struct sums_0
add_0(struct sums_0 a, struct sums_0 b)
{
    struct sums_0 t;

    const double n5 = a.v5 + b.v5;
    t.v5 = n5;
    return t;
}

static __device__ inline struct sums_0
shuffle_sums_0(struct sums_0 a, unsigned mask, int k)
{
    struct sums_0 t;

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
    double v9;
};

/* Stage 1 at element j. */
static __device__ inline struct sums_1
element_1(const struct row *r, int64_t j)
{
    struct sums_1 t;
    const double v0 = r->p0[j];
    const double v7 = v0 - r->v6;
    const double v8 = v7 * v7;
    t.v9 = v8;
    return t;
}

static __device__ inline struct sums_1
zero_1(void)
{
    struct sums_1 t;

    t.v9 = -0.0;
    return t;
}

static __device__ inline struct sums_1
add_1(struct sums_1 a, struct sums_1 b)
{
    struct sums_1 t;

    const double n9 = a.v9 + b.v9;
    t.v9 = n9;
    return t;
}

static __device__ inline struct sums_1
shuffle_sums_1(struct sums_1 a, unsigned mask, int k)
{
    struct sums_1 t;

    t.v9 = __shfl_xor_sync(mask, a.v9, k);
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

/* Stage 2 at element j. */
static __device__ inline void
element_2(const struct row *r, int64_t j)
{
    const double v0 = r->p0[j];
    const double v1 = r->p1[j];
    const double v2 = AT(const double, r->p2, j * r->i2)[0];
    const double v7 = v0 - r->v6;
    const double v13 = v7 / r->v12;
    const double v14 = v13 * v1;
    const double v15 = v14 + v2;
    r->p3[j] = v15;
}

#if SPLIT
/* How many elements a piece of n has, and the first: a node of the tree. */
static __device__ inline int64_t
piece_2(int64_t n, int64_t piece, int64_t n_pieces, int64_t *j)
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
#endif

extern "C" __global__ void __launch_bounds__(256, 4)
frit_nest(const __grid_constant__ struct nest_args g)
{
    const int64_t *const row_stride = g.row_stride, *const inner_stride = g.inner_stride;
    const void *const scalars = g.scalars;
    const int64_t n_inner = g.n_inner;
    char *ptr[5];
    (void)ptr;
    (void)row_stride;
    (void)inner_stride;
    (void)n_inner;
    struct row r;

    const double v3 = AT(const double, scalars, 0)[0];
    const double v4 = AT(const double, scalars, 16)[0];
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
        r.p0 = (const double *)(ptr[0] + row * row_stride[0]);
        r.p1 = (const double *)(ptr[1] + row * row_stride[1]);
        r.p2 = ptr[2] + row * row_stride[2];
        r.i2 = inner_stride[2];
        r.p3 = (double *)(ptr[3] + row * row_stride[3]);
        r.p4 = (double *)(ptr[4] + row * row_stride[4]);
#if SPLIT
        struct sums_0 *const st0 = (struct sums_0 *)(g.scratch + 0 * n_all * g.n_pieces) + i * g.n_pieces, t0;
        if (g.phase == 0) {
            int64_t j0;
            const int64_t n = piece_0(n_inner, piece, g.n_pieces, &j0);

            t0 = row_0(&r, j0, n);
            if (threadIdx.x == 0)
                st0[piece] = t0;
        } else {
            t0 = joined_0(st0, g.n_pieces);
        }
#else
        const struct sums_0 t0 = row_0(&r, 0, n_inner);
#endif
        SYNC();
        const double v5 = 0.0 + t0.v5;
#if SPLIT
        if (g.phase == 0)
            continue;
#endif
        const double v6 = v5 / v3;
        r.v6 = v6;
#if SPLIT
        struct sums_1 *const st1 = (struct sums_1 *)(g.scratch + 8 * n_all * g.n_pieces) + i * g.n_pieces, t1;
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
        const double v9 = 0.0 + t1.v9;
#if SPLIT
        if (g.phase == 1)
            continue;
#endif
        const double v10 = v9 / v3;
        const double v11 = v10 + v4;
        const double v12 = sqrt(v11);
        r.v12 = v12;
        SYNC();
        if (threadIdx.x == 0 && LAST) r.p4[0] = v12;
#if SPLIT
        if (g.phase == 2) {
            int64_t j0;
            const int64_t n = piece_2(n_inner, piece, g.n_pieces, &j0);

            for (int64_t j = j0 + threadIdx.x; j < j0 + n; j += ROW)
                element_2(&r, j);
        }
#else
        for (int64_t j = threadIdx.x; j < n_inner; j += ROW)
            element_2(&r, j);
#endif
        SYNC();
#if SPLIT
        if (g.phase == 2)
            continue;
#endif
        SYNC();
    }
}
