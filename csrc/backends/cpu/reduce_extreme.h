/* backends/cpu/reduce_extreme.h -- max and min of f32 and f64. Part of reduce.inc.c.
 *
 * The first NaN, else the last of equals: lanes keep neither order, so a NaN or a zero that comes
 * out (equal numbers with different bits are only the zeros) is looked for again. */
#ifndef FR_BACKENDS_CPU_REDUCE_EXTREME_H
#define FR_BACKENDS_CPU_REDUCE_EXTREME_H

#include "backends/cpu/reduce_wide.h"

/* ---- float max and min: the first NaN, else the last of equals ------------------------------ */

/* The extremes of the lanes of four vectors, to out; a mask that is set somewhere if one of them
 * is a zero (then its sign is not known yet). */
#if VB == 32
#define EVEN_F32 {0, 2, 8, 10, 4, 6, 12, 14}
#define ODD_F32 {1, 3, 9, 11, 5, 7, 13, 15}
#define EVEN_F64 {0, 4, 2, 6}
#define ODD_F64 {1, 5, 3, 7}
#define ACROSS4(op, pair)                                                                          \
    INLINE vi32 across4_##op##_f32(const vf32 *m, float *out)                                      \
    {                                                                                              \
        const vi32 even = EVEN_F32, odd = ODD_F32, halves = {4, 5, 6, 7, 0, 1, 2, 3};              \
        vf32       p, q;                                                                           \
                                                                                                   \
        p = pair##_f32(__builtin_shuffle(m[0], m[1], even), __builtin_shuffle(m[0], m[1], odd));   \
        q = pair##_f32(__builtin_shuffle(m[2], m[3], even), __builtin_shuffle(m[2], m[3], odd));   \
        p = pair##_f32(__builtin_shuffle(p, q, even), __builtin_shuffle(p, q, odd));               \
        p = pair##_f32(p, __builtin_shuffle(p, halves));                                           \
        memcpy(out, &p, 4 * sizeof *out);                                                          \
        return p == 0;                                                                             \
    }                                                                                              \
    INLINE vi64 across4_##op##_f64(const vf64 *m, double *out)                                     \
    {                                                                                              \
        const vi64 even = EVEN_F64, odd = ODD_F64, low = {0, 1, 4, 5}, high = {2, 3, 6, 7};        \
        vf64       p, q;                                                                           \
                                                                                                   \
        p = pair##_f64(__builtin_shuffle(m[0], m[1], even), __builtin_shuffle(m[0], m[1], odd));   \
        q = pair##_f64(__builtin_shuffle(m[2], m[3], even), __builtin_shuffle(m[2], m[3], odd));   \
        p = pair##_f64(__builtin_shuffle(p, q, low), __builtin_shuffle(p, q, high));               \
        memcpy(out, &p, sizeof p);                                                                 \
        return p == 0;                                                                             \
    }
#else
#define ACROSS4(op, pair)                                                                          \
    INLINE vi32 across4_##op##_f32(const vf32 *m, float *out)                                      \
    {                                                                                              \
        const vi32 even = {0, 2, 4, 6}, odd = {1, 3, 5, 7};                                        \
        vf32       p, q;                                                                           \
                                                                                                   \
        p = pair##_f32(__builtin_shuffle(m[0], m[1], even), __builtin_shuffle(m[0], m[1], odd));   \
        q = pair##_f32(__builtin_shuffle(m[2], m[3], even), __builtin_shuffle(m[2], m[3], odd));   \
        p = pair##_f32(__builtin_shuffle(p, q, even), __builtin_shuffle(p, q, odd));               \
        memcpy(out, &p, sizeof p);                                                                 \
        return p == 0;                                                                             \
    }                                                                                              \
    INLINE vi64 across4_##op##_f64(const vf64 *m, double *out)                                     \
    {                                                                                              \
        const vi64 even = {0, 2}, odd = {1, 3};                                                    \
        vf64       p, q;                                                                           \
                                                                                                   \
        p = pair##_f64(__builtin_shuffle(m[0], m[1], even), __builtin_shuffle(m[0], m[1], odd));   \
        q = pair##_f64(__builtin_shuffle(m[2], m[3], even), __builtin_shuffle(m[2], m[3], odd));   \
        memcpy(out, &p, sizeof p);                                                                 \
        memcpy(out + 2, &q, sizeof q);                                                             \
        return (p == 0) | (q == 0);                                                                \
    }
#endif
ACROSS4(max, higher)
ACROSS4(min, lower)

#define EXTREME_FLOAT(op, s, T, I, pair, beats)                                                \
    INLINE T pair_##op##_##s(T m, T x) { return m != m ? m : m beats x ? m : x; }                  \
    static T extreme_##op##_##s(size_t n, const T *a)                                              \
    {                                                                                              \
        uint64_t nan;                                                                              \
        size_t   i;                                                                                \
        T        m;                                                                                \
                                                                                                   \
        if (n < WIDE_LANES(T)) {                                                                   \
            m = a[0];                                                                              \
            for (i = 1; i < n; i++)                                                                \
                m = pair_##op##_##s(m, a[i]);                                                      \
            return m;                                                                              \
        }                                                                                          \
        m = across_##op##_##s(peaks_##op##_##s(n, a, &nan));                                       \
        if (nan) {                                                                                 \
            for (i = 0; a[i] == a[i]; i++)                                                         \
                ;                                                                                  \
            return a[i];                                                                           \
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
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *ap, void *outp,               \
                                int64_t *index)                                                    \
    {                                                                                              \
        enum { L = VB / sizeof(T) };                                                               \
        const T *a = ap;                                                                           \
        T       *out = outp;                                                                       \
        size_t   t = 0;                                                                            \
                                                                                                   \
        (void)index;                                                                               \
        if (n >= L && (WB == VB || n < 8 * L)) /* longer rows are sooner done one by one, in wider vectors */ \
            for (; t + 4 <= n_rows; t += 4, a += 4 * n) {                                          \
                v##s m[4];                                                                         \
                v##I nan = {0};                                                                    \
                                                                                                   \
                for (int q = 0; q < 4; q++) {                                                      \
                    v##s x = *(const v##s##_mem *)(a + q * n + n - L);                             \
                                                                                                   \
                    m[q] = x;                                                                      \
                    nan |= x != x;                                                                 \
                }                                                                                  \
                for (size_t i = 0; i + L < n; i += L)                                              \
                    for (int q = 0; q < 4; q++) {                                                  \
                        v##s x = *(const v##s##_mem *)(a + q * n + i);                             \
                                                                                                   \
                        m[q] = pair##_##s(x, m[q]);                                                \
                        nan |= x != x;                                                             \
                    }                                                                              \
                nan |= across4_##op##_##s(m, out + t);                                             \
                if (any_##I(nan))                                                                  \
                    for (int q = 0; q < 4; q++)                                                    \
                        out[t + q] = extreme_##op##_##s(n, a + q * n);                             \
            }                                                                                      \
        for (; t < n_rows; t++, a += n)                                                            \
            out[t] = extreme_##op##_##s(n, a);                                                     \
    }                                                                                              \
    /* k rows, a constant that unrolls the loop; a vector waits for the row before, so it is two. */ \
    INLINE void descend_##op##_##s(size_t k, size_t n, T *r, const char *x, ptrdiff_t row_stride)  \
    {                                                                                              \
        enum { L = WIDE_LANES(T) };                                                                \
        size_t j = 0;                                                                              \
                                                                                                   \
        for (; j + 2 * L <= n; j += 2 * L) {                                                       \
            w##s m0 = *(w##s##_mem *)(r + j), m1 = *(w##s##_mem *)(r + j + L);                     \
                                                                                                   \
            for (size_t t = 0; t < k; t++) {                                                       \
                const T *row = (const T *)(x + (ptrdiff_t)t * row_stride) + j;                     \
                                                                                                   \
                m0 = wide_fold_##op##_##s(m0, *(const w##s##_mem *)row);                           \
                m1 = wide_fold_##op##_##s(m1, *(const w##s##_mem *)(row + L));                     \
            }                                                                                      \
            *(w##s##_mem *)(r + j) = m0;                                                           \
            *(w##s##_mem *)(r + j + L) = m1;                                                       \
        }                                                                                          \
        /* One of a vector that was there before changes nothing when it comes again. */           \
        for (; j < n && n >= L; j = j + L <= n ? j + L : n) {                                      \
            size_t at = j + L <= n ? j : n - L;                                                    \
            w##s   m = *(w##s##_mem *)(r + at);                                                    \
                                                                                                   \
            for (size_t t = 0; t < k; t++) {                                                       \
                const T *row = (const T *)(x + (ptrdiff_t)t * row_stride) + at;                    \
                                                                                                   \
                m = wide_fold_##op##_##s(m, *(const w##s##_mem *)row);                             \
            }                                                                                      \
            *(w##s##_mem *)(r + at) = m;                                                           \
        }                                                                                          \
        for (; j < n; j++)                                                                         \
            for (size_t t = 0; t < k; t++)                                                         \
                r[j] = pair_##op##_##s(r[j], ((const T *)(x + (ptrdiff_t)t * row_stride))[j]);     \
    }                                                                                              \
    static void accum_##op##_##s(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        const char *row = x;                                                                       \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (; n_rows >= 8; n_rows -= 8, row += 8 * row_stride)                                    \
            descend_##op##_##s(8, n, acc, row, row_stride);                                        \
        if (n_rows)                                                                                \
            descend_##op##_##s(n_rows, n, acc, row, row_stride);                                   \
    }
EXTREME_FLOAT(max, f32, float, i32, higher, >)
EXTREME_FLOAT(min, f32, float, i32, lower, <)
EXTREME_FLOAT(max, f64, double, i64, higher, >)
EXTREME_FLOAT(min, f64, double, i64, lower, <)

#endif
