/* backends/cpu/reduce_sum.h -- pairwise sums of floats, complex numbers. Part of reduce.inc.c. */
#ifndef FR_BACKENDS_CPU_REDUCE_SUM_H
#define FR_BACKENDS_CPU_REDUCE_SUM_H

#include "backends/cpu/reduce_vec.h"
#include "backends/cpu/transpose.h"

/* ---- pairwise sums -------------------------------------------------------------------------- */

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

/* One row of at most LEAF components (or fewer than 8), and of more. OF: the parameters, AT(h): these from element h on;
 * ELEMENT(i) and VECTOR(s, i): what is summed. */
#define PAIRWISE(name, s, T, OF, AT, ELEMENT, VECTOR)                                              \
    INLINE T leaf_##name(size_t n, OF(T))                                                          \
    {                                                                                              \
        enum { REGS = 8 * sizeof(T) / VB, LANES = VB / sizeof(T) };                                \
        v##s   acc[REGS];                                                                          \
        size_t i;                                                                                  \
        T      r = (T)-0.0;                                                                        \
                                                                                                   \
        if (n < 8) {                                                                               \
            for (i = 0; i < n; i++)                                                                \
                r += ELEMENT(i);                                                                   \
            return r;                                                                              \
        }                                                                                          \
        for (int k = 0; k < (int)REGS; k++)                                                        \
            acc[k] = VECTOR(s, (size_t)k * LANES);                                                 \
        for (i = 8; i + 8 <= n; i += 8)                                                            \
            for (int k = 0; k < (int)REGS; k++)                                                    \
                acc[k] += VECTOR(s, i + (size_t)k * LANES);                                        \
        r = join_##s(acc);                                                                         \
        for (; i < n; i++)                                                                         \
            r += ELEMENT(i);                                                                       \
        return r;                                                                                  \
    }                                                                                              \
    static T tree_##name(size_t n, OF(T))                                                          \
    {                                                                                              \
        size_t h;                                                                                  \
                                                                                                   \
        if (n <= LEAF)                                                                             \
            return leaf_##name(n, AT(0));                                                          \
        h = n / 2 - n / 2 % 8;                                                                     \
        if (n - h <= LEAF) {                                                                       \
            T left = leaf_##name(h, AT(0));                                                        \
                                                                                                   \
            return left + leaf_##name(n - h, AT(h));                                               \
        }                                                                                          \
        {                                                                                          \
            T left = tree_##name(h, AT(0));                                                        \
                                                                                                   \
            return left + tree_##name(n - h, AT(h));                                               \
        }                                                                                          \
    }

#define OF_ONE(T) const T *a
#define AT_ONE(h) a + (h)
#define ELEMENT_ONE(i) a[i]
#define VECTOR_ONE(s, i) (*(const v##s##_mem *)(a + (i)))
PAIRWISE(f32, f32, float, OF_ONE, AT_ONE, ELEMENT_ONE, VECTOR_ONE)
PAIRWISE(f64, f64, double, OF_ONE, AT_ONE, ELEMENT_ONE, VECTOR_ONE)

#define OF_TWO(T) const T *a, const T *b
#define AT_TWO(h) a + (h), b + (h)
#define ELEMENT_TWO(i) a[i] * b[i]
#define VECTOR_TWO(s, i) (*(const v##s##_mem *)(a + (i)) * *(const v##s##_mem *)(b + (i)))
PAIRWISE(products_f32, f32, float, OF_TWO, AT_TWO, ELEMENT_TWO, VECTOR_TWO)
PAIRWISE(products_f64, f64, double, OF_TWO, AT_TWO, ELEMENT_TWO, VECTOR_TWO)

#define FOLD_SUM(s, T)                                                                             \
    static void fold_sum_##s(size_t n, const void *a, void *out, int64_t *index)                   \
    {                                                                                              \
        (void)index;                                                                               \
        *(T *)out = tree_##s(n, a);                                                                \
    }                                                                                              \
    static void fold_products_##s(size_t n, const void *a, const void *b, void *out)               \
    {                                                                                              \
        *(T *)out = tree_products_##s(n, a, b);                                                    \
    }
FOLD_SUM(f32, float)
FOLD_SUM(f64, double)

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

/* Rows of the same length at once, four of f32, of f64 as many as a vector has lanes: the joins of their accumulators
 * share shuffles. */
INLINE vf32x4
join_rows_f32(vf32 acc[4][ACC_F32])
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

INLINE vf64
join_rows_f64(vf64 acc[][ACC_F64])
{
#if VB == 32
    const vi64 even = {0, 4, 2, 6}, odd = {1, 5, 3, 7}, low = {0, 1, 4, 5}, high = {2, 3, 6, 7};
    vf64       half[2];

    for (int k = 0; k < 2; k++) {
        vf64 p = __builtin_shuffle(acc[0][k], acc[1][k], even) + __builtin_shuffle(acc[0][k], acc[1][k], odd);
        vf64 q = __builtin_shuffle(acc[2][k], acc[3][k], even) + __builtin_shuffle(acc[2][k], acc[3][k], odd);

        half[k] = __builtin_shuffle(p, q, low) + __builtin_shuffle(p, q, high);
    }
    return half[0] + half[1];
#else
    const vi64 even = {0, 2}, odd = {1, 3};
    vf64       two[4];

    for (int k = 0; k < 4; k++)
        two[k] = __builtin_shuffle(acc[0][k], acc[1][k], even) + __builtin_shuffle(acc[0][k], acc[1][k], odd);
    return (two[0] + two[1]) + (two[2] + two[3]);
#endif
}

/* Rows become columns. */
INLINE void
turn_f32(vf32x4 *v)
{
    FR_TURN_4(v)
}

INLINE void
turn_f64(vf64 *v)
{
#if VB == 32
    const vi64 even = {0, 4, 2, 6}, odd = {1, 5, 3, 7}, low = {0, 1, 4, 5}, high = {2, 3, 6, 7};
    vf64       p = __builtin_shuffle(v[0], v[1], even), q = __builtin_shuffle(v[2], v[3], even);
    vf64       s = __builtin_shuffle(v[0], v[1], odd), t = __builtin_shuffle(v[2], v[3], odd);

    v[0] = __builtin_shuffle(p, q, low);
    v[1] = __builtin_shuffle(s, t, low);
    v[2] = __builtin_shuffle(p, q, high);
    v[3] = __builtin_shuffle(s, t, high);
#else
    FR_TURN_8(v)
#endif
}

/* R rows at once, R being the lanes of V: what a row has beyond whole eights comes in squares, whose columns are added in
 * order; the last square ends with the row, and begins with columns that have been added. */
#define ROWS_TOGETHER(s, T, V)                                                                     \
    INLINE void rows_sum_##s##_n(size_t n_rows, size_t n, const T *a, T *out)                      \
    {                                                                                              \
        enum { R = sizeof(V) / sizeof(T), REGS = 8 * sizeof(T) / VB, LANES = VB / sizeof(T) };     \
        size_t t = 0;                                                                              \
                                                                                                   \
        for (; n > R && t + R <= n_rows; t += R, a += R * n) {                                     \
            v##s   acc[R][REGS];                                                                   \
            V      r, square[R];                                                                   \
            size_t i = 0;                                                                          \
                                                                                                   \
            if (n < 8) {                                                                           \
                for (int q = 0; q < (int)R; q++)                                                   \
                    r[q] = (T)-0.0;                                                                \
            } else {                                                                               \
                for (int q = 0; q < (int)R; q++)                                                   \
                    for (int k = 0; k < (int)REGS; k++)                                            \
                        acc[q][k] = *(const v##s##_mem *)(a + q * n + k * LANES);                  \
                for (i = 8; i + 8 <= n; i += 8)                                                    \
                    for (int q = 0; q < (int)R; q++)                                               \
                        for (int k = 0; k < (int)REGS; k++)                                        \
                            acc[q][k] += *(const v##s##_mem *)(a + q * n + i + k * LANES);         \
                r = join_rows_##s(acc);                                                                \
            }                                                                                      \
            for (; i + R <= n; i += R) {                                                           \
                for (int q = 0; q < (int)R; q++)                                                   \
                    memcpy(&square[q], a + q * n + i, sizeof(V));                                  \
                turn_##s(square);                                                                  \
                for (int q = 0; q < (int)R; q++)                                                   \
                    r += square[q];                                                                \
            }                                                                                      \
            if (i < n) {                                                                           \
                for (int q = 0; q < (int)R; q++)                                                   \
                    memcpy(&square[q], a + (q + 1) * n - R, sizeof(V));                            \
                turn_##s(square);                                                                  \
                for (int q = 1; q < (int)R; q++)                                                   \
                    if (i + R <= n + (size_t)q)                                                    \
                        r += square[q];                                                            \
            }                                                                                      \
            memcpy(out + t, &r, sizeof r);                                                         \
        }                                                                                          \
        for (; t < n_rows; t++, a += n)                                                            \
            out[t] = leaf_##s(n, a);                                                               \
    }
ROWS_TOGETHER(f32, float, vf32x4)
ROWS_TOGETHER(f64, double, vf64)

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

/* ---- half precision ------------------------------------------------------------------------- */

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

#endif
