/* backends/cpu/reduce.inc.c -- the folds and accumulations of reduce.h for one instruction-set level.
 *
 * Compiled once per level with -DFR_LEVEL=<level> and that level's -m options, at -O3: integer loops and
 * the row loops of accumulations are left to the vectoriser; pairwise sums and float extremes, where
 * the order or NaN stands in its way, are written with vector types.
 *
 * Vectors are 32 bytes from v3 on, 16 below. v4 gains nothing from 64 here: the pairwise tree of f32 has eight
 * lanes by definition, and the rest is bound by loads. */
#include <stdbool.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "backends/cpu/half.h"
#include "backends/cpu/reduce.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */

#if defined(__AVX2__)
#define VB 32
#else
#define VB 16
#endif

#define INLINE static inline __attribute__((always_inline))
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

/* Registers, and the same in memory: of any alignment and aliasing anything. */
typedef float    vf32 __attribute__((vector_size(VB)));
typedef double   vf64 __attribute__((vector_size(VB)));
typedef int32_t  vi32 __attribute__((vector_size(VB)));
typedef int64_t  vi64 __attribute__((vector_size(VB)));
typedef float    vf32_mem __attribute__((vector_size(VB), aligned(1), may_alias));
typedef double   vf64_mem __attribute__((vector_size(VB), aligned(1), may_alias));
typedef float    vf32x4 __attribute__((vector_size(16)));
typedef int32_t  vi32x4 __attribute__((vector_size(16)));

/* ---- primitives of one vector ----------------------------------------------------------------
 * higher(a, b): a > b ? a : b, so b where either is NaN or both are zeros; lower likewise.
 * pick(m, a, b): a where the mask is set. */
#if defined(__AVX2__)
INLINE vf32 higher_f32(vf32 a, vf32 b) { return (vf32)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf32 lower_f32(vf32 a, vf32 b) { return (vf32)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf64 higher_f64(vf64 a, vf64 b) { return (vf64)_mm256_max_pd((__m256d)a, (__m256d)b); }
INLINE vf64 lower_f64(vf64 a, vf64 b) { return (vf64)_mm256_min_pd((__m256d)a, (__m256d)b); }
INLINE vf32 pick_f32(vi32 m, vf32 a, vf32 b)
{
    return (vf32)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m);
}
INLINE vf64 pick_f64(vi64 m, vf64 a, vf64 b)
{
    return (vf64)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m);
}
#else
INLINE vf32 pick_f32(vi32 m, vf32 a, vf32 b) { return (vf32)(((vi32)a & m) | ((vi32)b & ~m)); }
INLINE vf64 pick_f64(vi64 m, vf64 a, vf64 b) { return (vf64)(((vi64)a & m) | ((vi64)b & ~m)); }
#if defined(__SSE2__)
INLINE vf32 higher_f32(vf32 a, vf32 b) { return (vf32)_mm_max_ps((__m128)a, (__m128)b); }
INLINE vf32 lower_f32(vf32 a, vf32 b) { return (vf32)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vf64 higher_f64(vf64 a, vf64 b) { return (vf64)_mm_max_pd((__m128d)a, (__m128d)b); }
INLINE vf64 lower_f64(vf64 a, vf64 b) { return (vf64)_mm_min_pd((__m128d)a, (__m128d)b); }
#else
INLINE vf32 higher_f32(vf32 a, vf32 b) { return pick_f32(a > b, a, b); }
INLINE vf32 lower_f32(vf32 a, vf32 b) { return pick_f32(a < b, a, b); }
INLINE vf64 higher_f64(vf64 a, vf64 b) { return pick_f64(a > b, a, b); }
INLINE vf64 lower_f64(vf64 a, vf64 b) { return pick_f64(a < b, a, b); }
#endif
#endif

INLINE bool
any_i32(vi32 m)
{
#if defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    int32_t r = 0;

    for (int k = 0; k < VB / 4; k++)
        r |= m[k];
    return r != 0;
#endif
}
INLINE bool any_i64(vi64 m) { return any_i32((vi32)m); }

/* Eight halves as floats. */
#if defined(__F16C__)
INLINE vf32 load_half8(const uint16_t *a)
{
    return (vf32)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)a));
}
INLINE void store_half8(uint16_t *a, vf32 v)
{
    _mm_storeu_si128((__m128i *)a, _mm256_cvtps_ph((__m256)v, 0));
}
#endif

/* ---- pairwise sums ---------------------------------------------------------------------------- */

enum { LEAF = 128 };  /* components */

/* ((0+1)+(2+3))+((4+5)+(6+7)) of eight accumulators in N_REGS registers; `add2` writes the sums of
 * even and of odd components instead. */
#define ACC_F32 (8 * 4 / VB)
#define ACC_F64 (8 * 8 / VB)

INLINE float
join_f32(const vf32 *acc)
{
    float r[8];

    memcpy(r, acc, sizeof r);
    {
        vf32x4 lo, hi, s;

        memcpy(&lo, r, sizeof lo);
        memcpy(&hi, r + 4, sizeof hi);
        s = __builtin_shuffle(lo, hi, (vi32x4){0, 2, 4, 6}) +
            __builtin_shuffle(lo, hi, (vi32x4){1, 3, 5, 7});
        return (s[0] + s[1]) + (s[2] + s[3]);
    }
}

INLINE double
join_f64(const vf64 *acc)
{
    double r[8];

    memcpy(r, acc, sizeof r);
    return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

/* One row of at most LEAF components (or fewer than 8). */
#define PAIRWISE_LEAF(s, T)                                                                        \
    INLINE T leaf_##s(size_t n, const T *a)                                                        \
    {                                                                                              \
        enum { REGS = 8 * sizeof(T) / VB, LANES = VB / sizeof(T) };                                \
        v##s   acc[REGS];                                                                          \
        size_t i;                                                                                  \
        T      r = (T)-0.0;                                                                        \
                                                                                                   \
        if (n < 8) {                                                                               \
            for (i = 0; i < n; i++)                                                                \
                r += a[i];                                                                         \
            return r;                                                                              \
        }                                                                                          \
        for (int k = 0; k < (int)REGS; k++)                                                        \
            acc[k] = *(const v##s##_mem *)(a + k * LANES);                                         \
        for (i = 8; i + 8 <= n; i += 8)                                                            \
            for (int k = 0; k < (int)REGS; k++)                                                    \
                acc[k] += *(const v##s##_mem *)(a + i + k * LANES);                                \
        r = join_##s(acc);                                                                         \
        for (; i < n; i++)                                                                         \
            r += a[i];                                                                             \
        return r;                                                                                  \
    }                                                                                              \
    static T tree_##s(size_t n, const T *a)                                                        \
    {                                                                                              \
        size_t h;                                                                                  \
                                                                                                   \
        if (n <= LEAF)                                                                             \
            return leaf_##s(n, a);                                                                 \
        h = n / 2 - n / 2 % 8;                                                                     \
        if (n - h <= LEAF) {                                                                       \
            T left = leaf_##s(h, a);                                                               \
                                                                                                   \
            return left + leaf_##s(n - h, a + h);                                                  \
        }                                                                                          \
        {                                                                                          \
            T left = tree_##s(h, a);                                                               \
                                                                                                   \
            return left + tree_##s(n - h, a + h);                                                  \
        }                                                                                          \
    }                                                                                              \
    static void fold_sum_##s(size_t n, const void *a, void *out, int64_t *index)                   \
    {                                                                                              \
        (void)index;                                                                               \
        *(T *)out = tree_##s(n, a);                                                                \
    }
PAIRWISE_LEAF(f32, float)
PAIRWISE_LEAF(f64, double)

/* Complex numbers: n counts components here, so that the tree is NumPy's. */
#define PAIRWISE_COMPLEX(c, s, T)                                                                  \
    static void tree_##c(size_t n, const T *a, T *out)                                             \
    {                                                                                              \
        enum { REGS = 8 * sizeof(T) / VB, LANES = VB / sizeof(T) };                                \
        v##s   acc[REGS];                                                                          \
        size_t i = 0;                                                                              \
        T      re = (T)-0.0, im = (T)-0.0;                                                         \
                                                                                                   \
        if (n > LEAF) {                                                                            \
            size_t h = n / 2 - n / 2 % 8;                                                          \
            T      right[2];                                                                       \
                                                                                                   \
            tree_##c(h, a, out);                                                                   \
            tree_##c(n - h, a + h, right);                                                         \
            out[0] += right[0];                                                                    \
            out[1] += right[1];                                                                    \
            return;                                                                                \
        }                                                                                          \
        if (n >= 8) {                                                                              \
            T r[8];                                                                                \
                                                                                                   \
            for (int k = 0; k < (int)REGS; k++)                                                    \
                acc[k] = *(const v##s##_mem *)(a + k * LANES);                                     \
            for (i = 8; i + 8 <= n; i += 8)                                                        \
                for (int k = 0; k < (int)REGS; k++)                                                \
                    acc[k] += *(const v##s##_mem *)(a + i + k * LANES);                            \
            memcpy(r, acc, sizeof r);                                                              \
            re = (r[0] + r[2]) + (r[4] + r[6]);                                                    \
            im = (r[1] + r[3]) + (r[5] + r[7]);                                                    \
        }                                                                                          \
        for (; i < n; i += 2) {                                                                    \
            re += a[i];                                                                            \
            im += a[i + 1];                                                                        \
        }                                                                                          \
        out[0] = re;                                                                               \
        out[1] = im;                                                                               \
    }                                                                                              \
    static void fold_sum_##c(size_t n, const void *a, void *out, int64_t *index)                   \
    {                                                                                              \
        (void)index;                                                                               \
        tree_##c(2 * n, a, out);                                                                   \
    }
PAIRWISE_COMPLEX(c64, f32, float)
PAIRWISE_COMPLEX(c128, f64, double)

static float
tree_f16(size_t n, const uint16_t *a)
{
    size_t i = 0;
    float  r = -0.0f;

    if (n > LEAF) {
        size_t h = n / 2 - n / 2 % 8;

        r = tree_f16(h, a);
        return r + tree_f16(n - h, a + h);
    }
    if (n >= 8) {
#if defined(__F16C__)
        vf32 acc = load_half8(a);

        for (i = 8; i + 8 <= n; i += 8)
            acc += load_half8(a + i);
        r = join_f32(&acc);
#else
        float acc[8];

        for (int k = 0; k < 8; k++)
            acc[k] = half_to_float(a[k]);
        for (i = 8; i + 8 <= n; i += 8)
            for (int k = 0; k < 8; k++)
                acc[k] += half_to_float(a[i + k]);
        r = ((acc[0] + acc[1]) + (acc[2] + acc[3])) + ((acc[4] + acc[5]) + (acc[6] + acc[7]));
#endif
    }
    for (; i < n; i++)
        r += half_to_float(a[i]);
    return r;
}

static void
fold_sum_f16(size_t n, const void *a, void *out, int64_t *index)
{
    (void)index;
    *(float *)out = tree_f16(n, a);
}

/* Four rows of the same length at once: the joins of their accumulators share shuffles. */
INLINE vf32x4
join4_f32(vf32 acc[4][ACC_F32])
{
#if VB == 32
    const vi32 even = {0, 2, 8, 10, 4, 6, 12, 14}, odd = {1, 3, 9, 11, 5, 7, 13, 15};
    vf32 p = __builtin_shuffle(acc[0][0], acc[1][0], even) +
             __builtin_shuffle(acc[0][0], acc[1][0], odd);
    vf32 q = __builtin_shuffle(acc[2][0], acc[3][0], even) +
             __builtin_shuffle(acc[2][0], acc[3][0], odd);
    vf32 s = __builtin_shuffle(p, q, even) + __builtin_shuffle(p, q, odd);

    return (vf32x4)_mm256_castps256_ps128((__m256)s) +
           (vf32x4)_mm256_extractf128_ps((__m256)s, 1);
#else
    const vi32 even = {0, 2, 4, 6}, odd = {1, 3, 5, 7};
    vf32       half[2];

    for (int k = 0; k < 2; k++) {
        vf32 p = __builtin_shuffle(acc[0][k], acc[1][k], even) +
                 __builtin_shuffle(acc[0][k], acc[1][k], odd);
        vf32 q = __builtin_shuffle(acc[2][k], acc[3][k], even) +
                 __builtin_shuffle(acc[2][k], acc[3][k], odd);

        half[k] = __builtin_shuffle(p, q, even) + __builtin_shuffle(p, q, odd);
    }
    return (vf32x4)(half[0] + half[1]);
#endif
}

INLINE void
rows_sum_f32_n(size_t n_rows, size_t n, const float *a, float *out)
{
    size_t t = 0;

    if (n >= 8)
        for (; t + 4 <= n_rows; t += 4, a += 4 * n) {
            vf32   acc[4][ACC_F32];
            vf32x4 r;
            size_t i;

            for (int q = 0; q < 4; q++)
                for (int k = 0; k < ACC_F32; k++)
                    acc[q][k] = *(const vf32_mem *)(a + q * n + k * (VB / 4));
            for (i = 8; i + 8 <= n; i += 8)
                for (int q = 0; q < 4; q++)
                    for (int k = 0; k < ACC_F32; k++)
                        acc[q][k] += *(const vf32_mem *)(a + q * n + i + k * (VB / 4));
            r = join4_f32(acc);
            for (; i < n; i++)
                r += (vf32x4){a[i], a[n + i], a[2 * n + i], a[3 * n + i]};
            memcpy(out + t, &r, sizeof r);
        }
    for (; t < n_rows; t++, a += n)
        out[t] = leaf_f32(n, a);
}

INLINE void
rows_sum_f64_n(size_t n_rows, size_t n, const double *a, double *out)
{
    for (size_t t = 0; t < n_rows; t++, a += n)
        out[t] = leaf_f64(n, a);
}

/* A row length that is known while compiling saves the loop for the shortest rows. */
#define ROWS_SUM(s, T)                                                                             \
    static void rows_sum_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index)    \
    {                                                                                              \
        (void)index;                                                                               \
        switch (n) {                                                                               \
        case 1: rows_sum_##s##_n(n_rows, 1, a, out); break;                                        \
        case 2: rows_sum_##s##_n(n_rows, 2, a, out); break;                                        \
        case 3: rows_sum_##s##_n(n_rows, 3, a, out); break;                                        \
        case 4: rows_sum_##s##_n(n_rows, 4, a, out); break;                                        \
        case 5: rows_sum_##s##_n(n_rows, 5, a, out); break;                                        \
        case 6: rows_sum_##s##_n(n_rows, 6, a, out); break;                                        \
        case 7: rows_sum_##s##_n(n_rows, 7, a, out); break;                                        \
        case 8: rows_sum_##s##_n(n_rows, 8, a, out); break;                                        \
        case 10: rows_sum_##s##_n(n_rows, 10, a, out); break;                                      \
        case 16: rows_sum_##s##_n(n_rows, 16, a, out); break;                                      \
        case 32: rows_sum_##s##_n(n_rows, 32, a, out); break;                                      \
        default:                                                                                   \
            if (n <= LEAF)                                                                         \
                rows_sum_##s##_n(n_rows, n, a, out);                                               \
            else                                                                                   \
                for (size_t t = 0; t < n_rows; t++)                                                \
                    ((T *)out)[t] = tree_##s(n, (const T *)a + t * n);                             \
        }                                                                                          \
    }
ROWS_SUM(f32, float)
ROWS_SUM(f64, double)

/* ---- float max and min: the first NaN, else the last of equals -------------------------------- */

#define EXTREME_FLOAT(op, s, T, I, pair, beats)                                                \
    INLINE T pair_##op##_##s(T m, T x) { return m != m ? m : m beats x ? m : x; }                  \
    static T extreme_##op##_##s(size_t n, const T *a)                                              \
    {                                                                                              \
        enum { L = VB / sizeof(T) };                                                               \
        T      m;                                                                                  \
        size_t i;                                                                                  \
                                                                                                   \
        if (n < L) {                                                                               \
            m = a[0];                                                                              \
            for (i = 1; i < n; i++)                                                                \
                m = pair_##op##_##s(m, a[i]);                                                      \
            return m;                                                                              \
        }                                                                                          \
        {                                                                                          \
            v##s     best[4], x = *(const v##s##_mem *)a, y = *(const v##s##_mem *)(a + n - L);    \
            v##I     nan = (x != x) | (y != y);                                                    \
                                                                                                   \
            best[0] = best[1] = best[2] = x;                                                       \
            best[3] = pair##_##s(y, x);                                                            \
            for (i = L; i + 4 * L <= n; i += 4 * L) {                                              \
                v##s p[4];                                                                         \
                                                                                                   \
                for (int k = 0; k < 4; k++) {                                                      \
                    p[k] = *(const v##s##_mem *)(a + i + k * L);                                   \
                    best[k] = pair##_##s(p[k], best[k]);                                           \
                    nan |= p[k] != p[k];                                                           \
                }                                                                                  \
            }                                                                                      \
            for (; i + L <= n; i += L) {                                                           \
                x = *(const v##s##_mem *)(a + i);                                                  \
                best[0] = pair##_##s(x, best[0]);                                                  \
                nan |= x != x;                                                                     \
            }                                                                                      \
            if (any_##I(nan)) {                                                                    \
                for (i = 0; a[i] == a[i]; i++)                                                     \
                    ;                                                                              \
                return a[i];                                                                       \
            }                                                                                      \
            best[0] = pair##_##s(pair##_##s(best[0], best[1]), pair##_##s(best[2], best[3]));      \
            m = best[0][0];                                                                        \
            for (int k = 1; k < (int)L; k++)                                                       \
                m = pair_##op##_##s(m, best[0][k]);                                                \
        }                                                                                          \
        if (m == 0) {                                                                              \
            for (i = n; a[--i] != 0;)                                                              \
                ;                                                                                  \
            m = a[i];                                                                              \
        }                                                                                          \
        return m;                                                                                  \
    }                                                                                              \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        *(T *)out = extreme_##op##_##s(n, a);                                                      \
    }                                                                                              \
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        (void)index;                                                                               \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            ((T *)out)[t] = extreme_##op##_##s(n, (const T *)a + t * n);                           \
    }                                                                                              \
    static void accum_##op##_##s(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        enum { L = VB / sizeof(T) };                                                               \
        T     *r = acc;                                                                            \
        size_t j = 0;                                                                              \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (; j + L <= n; j += L) {                                                               \
            v##s m = *(v##s##_mem *)(r + j);                                                       \
                                                                                                   \
            for (size_t t = 0; t < n_rows; t++) {                                                  \
                const char *row = (const char *)x + (ptrdiff_t)t * row_stride;                     \
                                                                                                   \
                m = pick_##s(m != m, m, pair##_##s(m, *(const v##s##_mem *)((const T *)row + j))); \
            }                                                                                      \
            *(v##s##_mem *)(r + j) = m;                                                            \
        }                                                                                          \
        for (; j < n; j++)                                                                         \
            for (size_t t = 0; t < n_rows; t++)                                                    \
                r[j] = pair_##op##_##s(                                                            \
                    r[j], ((const T *)((const char *)x + (ptrdiff_t)t * row_stride))[j]);          \
    }
EXTREME_FLOAT(max, f32, float, i32, higher, >)
EXTREME_FLOAT(min, f32, float, i32, lower, <)
EXTREME_FLOAT(max, f64, double, i64, higher, >)
EXTREME_FLOAT(min, f64, double, i64, lower, <)

/* ---- what the vectoriser does well: one macro per shape of loop --------------------------------
 * acc and x do not overlap; eight rows are taken at a time so that acc is read and written once for all. */
#define ACCUM(op, s, T, A, EXPR)                                                                   \
    static void accum_##op##_##s(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        A *restrict r = acc;                                                                       \
        const char *row = x;                                                                       \
        size_t      t = 0;                                                                         \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (; t + 8 <= n_rows; t += 8, row += 8 * row_stride) {                                   \
            const T *restrict x0 = (const T *)row, *restrict x1 = (const T *)(row + row_stride),   \
                    *restrict x2 = (const T *)(row + 2 * row_stride),                              \
                    *restrict x3 = (const T *)(row + 3 * row_stride),                              \
                    *restrict x4 = (const T *)(row + 4 * row_stride),                              \
                    *restrict x5 = (const T *)(row + 5 * row_stride),                              \
                    *restrict x6 = (const T *)(row + 6 * row_stride),                              \
                    *restrict x7 = (const T *)(row + 7 * row_stride);                              \
                                                                                                   \
            for (size_t j = 0; j < n; j++) {                                                       \
                A m = r[j];                                                                        \
                T v;                                                                               \
                                                                                                   \
                v = x0[j], m = EXPR;                                                               \
                v = x1[j], m = EXPR;                                                               \
                v = x2[j], m = EXPR;                                                               \
                v = x3[j], m = EXPR;                                                               \
                v = x4[j], m = EXPR;                                                               \
                v = x5[j], m = EXPR;                                                               \
                v = x6[j], m = EXPR;                                                               \
                v = x7[j], m = EXPR;                                                               \
                r[j] = m;                                                                          \
            }                                                                                      \
        }                                                                                          \
        for (; t < n_rows; t++, row += row_stride) {                                               \
            const T *restrict x0 = (const T *)row;                                                 \
                                                                                                   \
            for (size_t j = 0; j < n; j++) {                                                       \
                A m = r[j];                                                                        \
                T v = x0[j];                                                                       \
                                                                                                   \
                r[j] = EXPR;                                                                       \
            }                                                                                      \
        }                                                                                          \
    }

/* A left fold from `first`; elements i >= skip. */
#define FOLD(op, s, T, A, first, skip, EXPR)                                                       \
    INLINE A left_##op##_##s(size_t n, const T *a)                                                 \
    {                                                                                              \
        A m = first;                                                                               \
                                                                                                   \
        for (size_t i = skip; i < n; i++) {                                                        \
            T v = a[i];                                                                            \
                                                                                                   \
            m = EXPR;                                                                              \
        }                                                                                          \
        return m;                                                                                  \
    }                                                                                              \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        *(A *)out = left_##op##_##s(n, a);                                                         \
    }                                                                                              \
    ROWS(op, s, T, A)

#define ROWS(op, s, T, A)                                                                          \
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        (void)index;                                                                               \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            fold_##op##_##s(n, (const T *)a + t * n, (A *)out + t, NULL);                          \
    }

/* Sums and products wrap, so signed types use the functions of the unsigned ones. */
#define INTEGER_RING(s, T)                                                                         \
    FOLD(sum, s, T, T, 0, 0, (T)(m + v))                                                           \
    FOLD(prod, s, T, T, 1, 0, (T)((T)1 * m * v))                                                   \
    ACCUM(sum, s, T, T, (T)(m + v))                                                                \
    ACCUM(prod, s, T, T, (T)((T)1 * m * v))
INTEGER_RING(u8, uint8_t)
INTEGER_RING(u32, uint32_t)
INTEGER_RING(u64, uint64_t)
/* uint16_t is multiplied as int, which may overflow. */
FOLD(sum, u16, uint16_t, uint16_t, 0, 0, (uint16_t)(m + v))
FOLD(prod, u16, uint16_t, uint16_t, 1, 0, (uint16_t)(1u * m * v))
ACCUM(sum, u16, uint16_t, uint16_t, (uint16_t)(m + v))
ACCUM(prod, u16, uint16_t, uint16_t, (uint16_t)(1u * m * v))

ACCUM(sum, f32, float, float, m + v)
ACCUM(sum, f64, double, double, m + v)
FOLD(prod, f32, float, float, 1, 0, m *v)
FOLD(prod, f64, double, double, 1, 0, m *v)
ACCUM(prod, f32, float, float, m *v)
ACCUM(prod, f64, double, double, m *v)
FOLD(prod, f16, uint16_t, float, 1, 0, m *half_to_float(v))
ACCUM(prod, f16, uint16_t, uint16_t, float_to_half(half_to_float(m) * half_to_float(v)))

#define EXTREME_INT(s, T)                                                                          \
    FOLD(max, s, T, T, a[0], 1, v > m ? v : m)                                                     \
    FOLD(min, s, T, T, a[0], 1, v < m ? v : m)                                                     \
    ACCUM(max, s, T, T, v > m ? v : m)                                                             \
    ACCUM(min, s, T, T, v < m ? v : m)
EXTREME_INT(i8, int8_t)
EXTREME_INT(i16, int16_t)
EXTREME_INT(i32, int32_t)
EXTREME_INT(i64, int64_t)
EXTREME_INT(u8, uint8_t)
EXTREME_INT(u16, uint16_t)
EXTREME_INT(u32, uint32_t)
EXTREME_INT(u64, uint64_t)

/* ---- truth -------------------------------------------------------------------------------------
 * TRUTH(v): nonzero; on the bits, so that loops stay in integer registers. A block at a time, so that an
 * answer found early ends the walk. */
#define FOLD_TRUTH(s, T, TRUTH)                                                                    \
    static void fold_any_##s(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        T        r = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        for (size_t i = 0; i < n && !r;) {                                                         \
            size_t end = n - i > 512 ? i + 512 : n;                                                \
                                                                                                   \
            for (; i < end; i++)                                                                   \
                r |= TRUTH(a[i]);                                                                  \
        }                                                                                          \
        *(uint8_t *)out = r != 0;                                                                  \
    }                                                                                              \
    static void fold_all_##s(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        T        r = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        for (size_t i = 0; i < n && !r;) {                                                         \
            size_t end = n - i > 512 ? i + 512 : n;                                                \
                                                                                                   \
            for (; i < end; i++)                                                                   \
                r |= (T)(TRUTH(a[i]) == 0);                                                        \
        }                                                                                          \
        *(uint8_t *)out = r == 0;                                                                  \
    }                                                                                              \
    ROWS(any, s, T, uint8_t)                                                                       \
    ROWS(all, s, T, uint8_t)                                                                       \
    ACCUM(any, s, T, uint8_t, (uint8_t)(m | (TRUTH(v) != 0)))                                      \
    ACCUM(all, s, T, uint8_t, (uint8_t)(m & (TRUTH(v) != 0)))
#define BITS(v) (v)
#define BITS16(v) ((uint16_t)((v) & 0x7fff))
#define BITS32(v) ((v) & 0x7fffffffu)
#define BITS64(v) ((v) & 0x7fffffffffffffffu)
FOLD_TRUTH(u8, uint8_t, BITS)
FOLD_TRUTH(u16, uint16_t, BITS)
FOLD_TRUTH(u32, uint32_t, BITS)
FOLD_TRUTH(u64, uint64_t, BITS)
FOLD_TRUTH(f16, uint16_t, BITS16)
FOLD_TRUTH(f32, uint32_t, BITS32)
FOLD_TRUTH(f64, uint64_t, BITS64)

#define COMPLEX_TRUTH(c, T)                                                                        \
    static void fold_any_##c(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        size_t   i = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        while (i < 2 * n && a[i] == 0)                                                             \
            i++;                                                                                   \
        *(uint8_t *)out = i < 2 * n;                                                               \
    }                                                                                              \
    static void fold_all_##c(size_t n, const void *ap, void *out, int64_t *index)                  \
    {                                                                                              \
        const T *a = ap;                                                                           \
        size_t   i = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        while (i < n && (a[2 * i] != 0 || a[2 * i + 1] != 0))                                      \
            i++;                                                                                   \
        *(uint8_t *)out = i == n;                                                                  \
    }

/* ---- half precision and complex extremes: the first NaN, else the first of equals -------------- */

/* Halves as unsigned integers in the order of their values; both zeros are 0x8000. NaNs are apart. */
INLINE uint16_t
half_key(uint16_t h)
{
    uint16_t sign = (uint16_t)-(h >> 15);

    return (uint16_t)((h & 0x7fff) ^ sign) + (uint16_t)(0x8000 + (h >> 15));
}

INLINE bool half_is_nan(uint16_t h) { return (h & 0x7fff) > 0x7c00; }

/* The index of the extreme; a fold takes the element there. */
#define EXTREME_HALF(op, beats, worst)                                                        \
    static size_t place_##op##_f16(size_t n, const uint16_t *a)                                    \
    {                                                                                              \
        uint16_t m = worst, nan = 0;                                                               \
        size_t   i;                                                                                \
                                                                                                   \
        for (i = 0; i < n; i++) {                                                                  \
            uint16_t k = half_key(a[i]), b = a[i] & 0x7fff;                                        \
                                                                                                   \
            m = k beats m ? k : m;                                                                 \
            nan = b > nan ? b : nan;                                                               \
        }                                                                                          \
        if (nan > 0x7c00) {                                                                        \
            for (i = 0; !half_is_nan(a[i]); i++)                                                   \
                ;                                                                                  \
            return i;                                                                              \
        }                                                                                          \
        for (i = 0; half_key(a[i]) != m; i++)                                                      \
            ;                                                                                      \
        return i;                                                                                  \
    }                                                                                              \
    INLINE bool wins_##op##_f16(const uint16_t *x, const uint16_t *m)                              \
    {                                                                                              \
        if (half_is_nan(*m))                                                                       \
            return false;                                                                          \
        return half_is_nan(*x) || half_key(*x) beats half_key(*m);                                 \
    }
EXTREME_HALF(max, >, 0)
EXTREME_HALF(min, <, 0xffff)

#define EXTREME_COMPLEX(op, c, T, beats)                                                           \
    INLINE bool wins_##op##_##c(const T *x, const T *m)                                            \
    {                                                                                              \
        if (m[0] != m[0] || m[1] != m[1])                                                          \
            return false;                                                                          \
        return x[0] beats m[0] || (x[0] == m[0] && x[1] beats m[1]) || x[0] != x[0] ||             \
               x[1] != x[1];                                                                       \
    }                                                                                              \
    static size_t place_##op##_##c(size_t n, const T *a)                                           \
    {                                                                                              \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (size_t i = 1; i < n; i++)                                                             \
            at = wins_##op##_##c(a + 2 * i, a + 2 * at) ? i : at;                                  \
        return at;                                                                                 \
    }
EXTREME_COMPLEX(max, c64, float, >)
EXTREME_COMPLEX(min, c64, float, <)
EXTREME_COMPLEX(max, c128, double, >)
EXTREME_COMPLEX(min, c128, double, <)

/* Folds and accumulations from place_ and wins_; W components to an element. */
#define FROM_PLACE(op, s, T, W)                                                                    \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        memcpy(out, (const T *)a + W * place_##op##_##s(n, a), W * sizeof(T));                     \
    }                                                                                              \
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        (void)index;                                                                               \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            fold_##op##_##s(n, (const T *)a + W * t * n, (T *)out + W * t, NULL);                  \
    }                                                                                              \
    static void accum_##op##_##s(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        T *r = acc;                                                                                \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *row = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);               \
                                                                                                   \
            for (size_t j = 0; j < W * n; j += W)                                                  \
                if (wins_##op##_##s(row + j, r + j))                                               \
                    memcpy(r + j, row + j, W * sizeof(T));                                         \
        }                                                                                          \
    }
FROM_PLACE(max, f16, uint16_t, 1)
FROM_PLACE(min, f16, uint16_t, 1)
FROM_PLACE(max, c64, float, 2)
FROM_PLACE(min, c64, float, 2)
FROM_PLACE(max, c128, double, 2)
FROM_PLACE(min, c128, double, 2)

/* ---- argmax and argmin --------------------------------------------------------------------------
 * The extreme of a chunk that fits L1 first, which runs at full speed; then, once, where it is. */
enum { ARG_CHUNK = 1024 };

#define PLACE(op, s, T, EXTREME, beats)                                                            \
    static size_t place_##op##_##s(size_t n, const T *a)                                           \
    {                                                                                              \
        T      best = a[0];                                                                        \
        size_t from = 0, i;                                                                        \
                                                                                                   \
        for (i = 0; i < n; i += ARG_CHUNK) {                                                       \
            T m = EXTREME(n - i < ARG_CHUNK ? n - i : ARG_CHUNK, a + i);                           \
                                                                                                   \
            if (m beats best) {                                                                    \
                best = m;                                                                          \
                from = i;                                                                          \
            } else if (m != m) { /* a NaN, and the first */                                        \
                for (; a[i] == a[i]; i++)                                                          \
                    ;                                                                              \
                return i;                                                                          \
            }                                                                                      \
        }                                                                                          \
        while (a[from] != best)                                                                    \
            from++;                                                                                \
        return from;                                                                               \
    }                                                                                              \
    INLINE bool wins_##op##_##s(const T *x, const T *m)                                            \
    {                                                                                              \
        return *x beats *m || (*x != *x && *m == *m);                                              \
    }
#define PLACE_INT(s, T)                                                                            \
    PLACE(max, s, T, left_max_##s, >)                                                              \
    PLACE(min, s, T, left_min_##s, <)
PLACE_INT(i8, int8_t)
PLACE_INT(i16, int16_t)
PLACE_INT(i32, int32_t)
PLACE_INT(i64, int64_t)
PLACE_INT(u8, uint8_t)
PLACE_INT(u16, uint16_t)
PLACE_INT(u32, uint32_t)
PLACE_INT(u64, uint64_t)
PLACE(max, f32, float, extreme_max_f32, >)
PLACE(min, f32, float, extreme_min_f32, <)
PLACE(max, f64, double, extreme_max_f64, >)
PLACE(min, f64, double, extreme_min_f64, <)

#define ARG(arg, op, s, T, W)                                                                      \
    static void fold_##arg##_##s(size_t n, const void *a, void *out, int64_t *index)               \
    {                                                                                              \
        size_t at = place_##op##_##s(n, a);                                                        \
                                                                                                   \
        memcpy(out, (const T *)a + W * at, W * sizeof(T));                                         \
        *index = (int64_t)at;                                                                      \
    }                                                                                              \
    static void rows_##arg##_##s(size_t n_rows, size_t n, const void *a, void *out,                \
                                 int64_t *index)                                                   \
    {                                                                                              \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            fold_##arg##_##s(n, (const T *)a + W * t * n, (T *)out + W * t, index + t);            \
    }                                                                                              \
    static void accum_##arg##_##s(size_t n_rows, size_t n, void *acc, const void *x,               \
                                  ptrdiff_t row_stride, int64_t *index, int64_t i0)                \
    {                                                                                              \
        T *r = acc;                                                                                \
                                                                                                   \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *row = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);               \
                                                                                                   \
            for (size_t j = 0; j < n; j++)                                                         \
                if (wins_##op##_##s(row + W * j, r + W * j)) {                                     \
                    memcpy(r + W * j, row + W * j, W * sizeof(T));                                 \
                    index[j] = i0 + (int64_t)t;                                                    \
                }                                                                                  \
        }                                                                                          \
    }
#define ARGS(s, T, W)                                                                              \
    ARG(argmax, max, s, T, W)                                                                      \
    ARG(argmin, min, s, T, W)
ARGS(i8, int8_t, 1)
ARGS(i16, int16_t, 1)
ARGS(i32, int32_t, 1)
ARGS(i64, int64_t, 1)
ARGS(u8, uint8_t, 1)
ARGS(u16, uint16_t, 1)
ARGS(u32, uint32_t, 1)
ARGS(u64, uint64_t, 1)
ARGS(f16, uint16_t, 1)
ARGS(f32, float, 1)
ARGS(f64, double, 1)
ARGS(c64, float, 2)
ARGS(c128, double, 2)

/* ---- complex and half rows ---------------------------------------------------------------------- */

#define COMPLEX_ROWS(op, c, T, WA)                                                                 \
    static void rows_##op##_##c(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        (void)index;                                                                               \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            fold_##op##_##c(n, (const T *)a + 2 * t * n, (char *)out + WA * t, NULL);              \
    }
/* The product of a row is NumPy's scalar loop, plain; a product of two arrays (recipe `multiply`) fuses one
 * multiplication of each part, as NumPy's vector loop does. */
#define COMPLEX(c, s, T, FMA)                                                                      \
    COMPLEX_TRUTH(c, T)                                                                            \
    static void fold_prod_##c(size_t n, const void *ap, void *out, int64_t *index)                 \
    {                                                                                              \
        const T *a = ap;                                                                           \
        T        re = 1, im = 0, t;                                                                \
                                                                                                   \
        (void)index;                                                                               \
        for (size_t i = 0; i < 2 * n; i += 2) {                                                    \
            t = re * a[i] - im * a[i + 1];                                                         \
            im = re * a[i + 1] + im * a[i];                                                        \
            re = t;                                                                                \
        }                                                                                          \
        ((T *)out)[0] = re;                                                                        \
        ((T *)out)[1] = im;                                                                        \
    }                                                                                              \
    static void accum_prod_##c(size_t n_rows, size_t n, void *acc, const void *x,                  \
                               ptrdiff_t row_stride, int64_t *index, int64_t i0)                   \
    {                                                                                              \
        T *restrict r = acc;                                                                       \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *restrict a = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);        \
                                                                                                   \
            for (size_t j = 0; j < 2 * n; j += 2) {                                                \
                T re = FMA(r[j], a[j], -(r[j + 1] * a[j + 1]));                                    \
                                                                                                   \
                r[j + 1] = FMA(r[j], a[j + 1], r[j + 1] * a[j]);                                   \
                r[j] = re;                                                                         \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void accum_sum_##c(size_t n_rows, size_t n, void *acc, const void *x,                   \
                              ptrdiff_t row_stride, int64_t *index, int64_t i0)                    \
    {                                                                                              \
        accum_sum_##s(n_rows, 2 * n, acc, x, row_stride, index, i0);                               \
    }                                                                                              \
    static void accum_any_##c(size_t n_rows, size_t n, void *acc, const void *x,                   \
                              ptrdiff_t row_stride, int64_t *index, int64_t i0)                    \
    {                                                                                              \
        uint8_t *r = acc;                                                                          \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *a = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);                 \
                                                                                                   \
            for (size_t j = 0; j < n; j++)                                                         \
                r[j] |= a[2 * j] != 0 || a[2 * j + 1] != 0;                                        \
        }                                                                                          \
    }                                                                                              \
    static void accum_all_##c(size_t n_rows, size_t n, void *acc, const void *x,                   \
                              ptrdiff_t row_stride, int64_t *index, int64_t i0)                    \
    {                                                                                              \
        uint8_t *r = acc;                                                                          \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *a = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);                 \
                                                                                                   \
            for (size_t j = 0; j < n; j++)                                                         \
                r[j] &= a[2 * j] != 0 || a[2 * j + 1] != 0;                                        \
        }                                                                                          \
    }                                                                                              \
    COMPLEX_ROWS(sum, c, T, 2 * sizeof(T))                                                         \
    COMPLEX_ROWS(prod, c, T, 2 * sizeof(T))                                                        \
    COMPLEX_ROWS(any, c, T, 1)                                                                     \
    COMPLEX_ROWS(all, c, T, 1)
COMPLEX(c64, f32, float, __builtin_fmaf)
COMPLEX(c128, f64, double, __builtin_fma)

ROWS(sum, f16, uint16_t, float)

static void
accum_sum_f16(size_t n_rows, size_t n, void *acc, const void *x, ptrdiff_t row_stride,
              int64_t *index, int64_t i0)
{
    uint16_t *r = acc;
    size_t    j = 0;

    (void)index;
    (void)i0;
#if defined(__F16C__)
    for (; j + 8 <= n; j += 8) {
        vf32 m = load_half8(r + j);

        for (size_t t = 0; t < n_rows; t++) {
            const char *row = (const char *)x + (ptrdiff_t)t * row_stride;
            __m128i     h;

            /* Rounded at every row: NumPy keeps the running sum in half precision. */
            m += load_half8((const uint16_t *)row + j);
            h = _mm256_cvtps_ph((__m256)m, 0);
            m = (vf32)_mm256_cvtph_ps(h);
        }
        store_half8(r + j, m);
    }
#endif
    for (; j < n; j++) {
        uint16_t m = r[j];

        for (size_t t = 0; t < n_rows; t++) {
            const char *row = (const char *)x + (ptrdiff_t)t * row_stride;

            m = float_to_half(half_to_float(m) + half_to_float(((const uint16_t *)row)[j]));
        }
        r[j] = m;
    }
}

/* ---- the table ---------------------------------------------------------------------------------- */

#define ROW(kind, op, u8, i8, i16, i32, i64, u16, u32, u64)                                        \
    [FR_I8] = kind##_##op##_##i8, [FR_I16] = kind##_##op##_##i16,                                  \
    [FR_I32] = kind##_##op##_##i32, [FR_I64] = kind##_##op##_##i64, [FR_U8] = kind##_##op##_##u8,  \
    [FR_U16] = kind##_##op##_##u16, [FR_U32] = kind##_##op##_##u32,                                \
    [FR_U64] = kind##_##op##_##u64, [FR_F16] = kind##_##op##_f16, [FR_F32] = kind##_##op##_f32,    \
    [FR_F64] = kind##_##op##_f64, [FR_C64] = kind##_##op##_c64, [FR_C128] = kind##_##op##_c128
#define ROW_RING(kind, op) ROW(kind, op, u8, u8, u16, u32, u64, u16, u32, u64)
#define ROW_ORDER(kind, op)                                                                        \
    [FR_BOOL] = kind##_##op##_u8, ROW(kind, op, u8, i8, i16, i32, i64, u16, u32, u64)
#define ROW_TRUTH(kind, op)                                                                        \
    [FR_BOOL] = kind##_##op##_u8, ROW(kind, op, u8, u8, u16, u32, u64, u16, u32, u64)
#define TABLE(kind)                                                                                \
    {                                                                                              \
        [FR_REDUCE_ROW(FR_OP_sum)] = {ROW_RING(kind, sum)},                                        \
        [FR_REDUCE_ROW(FR_OP_prod)] = {ROW_RING(kind, prod)},                                      \
        [FR_REDUCE_ROW(FR_OP_max)] = {ROW_ORDER(kind, max)},                                       \
        [FR_REDUCE_ROW(FR_OP_min)] = {ROW_ORDER(kind, min)},                                       \
        [FR_REDUCE_ROW(FR_OP_any)] = {ROW_TRUTH(kind, any)},                                       \
        [FR_REDUCE_ROW(FR_OP_all)] = {ROW_TRUTH(kind, all)},                                       \
        [FR_REDUCE_ROW(FR_OP_argmax)] = {ROW_ORDER(kind, argmax)},                                 \
        [FR_REDUCE_ROW(FR_OP_argmin)] = {ROW_ORDER(kind, argmin)},                                 \
    }

const struct fr_reduce_kernels PASTE(fr_reduce_, FR_LEVEL) = {
    .level = TEXT(FR_LEVEL),
    .fold = TABLE(fold),
    .fold_rows = TABLE(rows),
    .accum = TABLE(accum),
};
