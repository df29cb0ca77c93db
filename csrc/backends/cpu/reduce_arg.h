/* backends/cpu/reduce_arg.h -- argmax and argmin, and what is found by place: the extremes of half
 * precision and complex numbers. Part of reduce.inc.c, which has defined the integer extremes. */
#ifndef FR_BACKENDS_CPU_REDUCE_ARG_H
#define FR_BACKENDS_CPU_REDUCE_ARG_H

#include "backends/cpu/reduce_extreme.h"

/* ---- half precision and complex extremes: the first NaN, else the first of equals ----------- */

/* Halves as unsigned integers in the order of their values; both zeros are 0x8000. NaNs are
 * apart. */
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

#endif
