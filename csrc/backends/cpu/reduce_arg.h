/* backends/cpu/reduce_arg.h -- argmax and argmin, and what is found by place: the extremes of half
 * precision and complex numbers. Part of reduce.inc.c, which has defined the integer extremes. */
#ifndef FR_BACKENDS_CPU_REDUCE_ARG_H
#define FR_BACKENDS_CPU_REDUCE_ARG_H

#include "backends/cpu/reduce_extreme.h"
#include "backends/cpu/reduce_lanes.h"

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

/* The extreme of the real parts first, of which vectors of both parts take no other notice than whether there
 * is a NaN; then the extreme of the imaginary parts beside it. */
#define EXTREME_COMPLEX(op, c, s, I, T, pair, beats)                                                           \
    INLINE bool wins_##op##_##c(const T *x, const T *m)                                            \
    {                                                                                              \
        if (m[0] != m[0] || m[1] != m[1])                                                          \
            return false;                                                                          \
        return x[0] beats m[0] || (x[0] == m[0] && x[1] beats m[1]) || x[0] != x[0] ||             \
               x[1] != x[1];                                                                       \
    }                                                                                              \
    static size_t place_##op##_##c(size_t n, const T *a)                                           \
    {                                                                                              \
        enum { L = VB / sizeof(T), GROUP = 8 };                                                    \
        size_t at = 0, i = 0, k;                                                                   \
        T      m;                                                                                  \
                                                                                                   \
        if (2 * n < 4 * L) {                                                                       \
            for (i = 1; i < n; i++)                                                                \
                at = wins_##op##_##c(a + 2 * i, a + 2 * at) ? i : at;                              \
            return at;                                                                             \
        }                                                                                          \
        {                                                                                          \
            v##s best[4], x;                                                                       \
            v##I nan = {0};                                                                        \
                                                                                                   \
            x = best[0] = best[1] = best[2] = best[3] = *(const v##s##_mem *)(a + 2 * n - L);      \
            nan |= x != x;                                                                         \
            for (; i + 4 * L <= 2 * n; i += 4 * L)                                                 \
                for (k = 0; k < 4; k++) {                                                          \
                    x = *(const v##s##_mem *)(a + i + k * L);                                      \
                    best[k] = pair##_##s(x, best[k]);                                              \
                    nan |= x != x;                                                                 \
                }                                                                                  \
            for (; i + L <= 2 * n; i += L) {                                                       \
                x = *(const v##s##_mem *)(a + i);                                                  \
                best[0] = pair##_##s(x, best[0]);                                                  \
                nan |= x != x;                                                                     \
            }                                                                                      \
            if (any_##I(nan)) {                                                                    \
                while (a[2 * at] == a[2 * at] && a[2 * at + 1] == a[2 * at + 1])                   \
                    at++;                                                                          \
                return at;                                                                         \
            }                                                                                      \
            x = pair##_##s(pair##_##s(best[0], best[1]), pair##_##s(best[2], best[3]));            \
            m = x[0];                                                                              \
            for (k = 2; k < L; k += 2)                                                             \
                m = x[k] beats m ? x[k] : m;                                                       \
        }                                                                                          \
        for (i = 0, at = n; i < n; i += k) {                                                       \
            unsigned found = i + GROUP > n;                                                        \
                                                                                                   \
            for (k = 0; k < GROUP && i + GROUP <= n; k++)                                          \
                found |= a[2 * (i + k)] == m;                                                      \
            for (k = 0; found && k < GROUP && i + k < n; k++)                                      \
                if (a[2 * (i + k)] == m &&                                                         \
                    (at == n || a[2 * (i + k) + 1] beats a[2 * at + 1]))                           \
                    at = i + k;                                                                    \
            k = GROUP;                                                                             \
        }                                                                                          \
        return at;                                                                                 \
    }
EXTREME_COMPLEX(max, c64, f32, i32, float, higher, >)
EXTREME_COMPLEX(min, c64, f32, i32, float, lower, <)
EXTREME_COMPLEX(max, c128, f64, i64, double, higher, >)
EXTREME_COMPLEX(min, c128, f64, i64, double, lower, <)

/* Folds from place_. */
#define FROM_PLACE(op, s, T)                                                                       \
    static void fold_##op##_##s(size_t n, const void *a, void *out, int64_t *index)                \
    {                                                                                              \
        (void)index;                                                                               \
        *(T *)out = ((const T *)a)[place_##op##_##s(n, a)];                                        \
    }                                                                                              \
    ROWS(op, s, T, T)
FROM_PLACE(max, f16, uint16_t)
FROM_PLACE(min, f16, uint16_t)
FROM_PLACE(max, c64, c64)
FROM_PLACE(min, c64, c64)
FROM_PLACE(max, c128, c128)
FROM_PLACE(min, c128, c128)

#define ACCUM_EXTREME_HALF(op, s, T)                                                               \
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
            for (size_t j = 0; j < n; j++)                                                         \
                if (wins_##op##_##s(row + j, r + j))                                               \
                    r[j] = row[j];                                                                 \
        }                                                                                          \
    }
ACCUM_EXTREME_HALF(max, f16, uint16_t)
ACCUM_EXTREME_HALF(min, f16, uint16_t)

/* What holds for the real and for the imaginary parts of a vector of both, in both their lanes. */
#if VB == 32
#define REAL_f32 (vi32){0, 0, 2, 2, 4, 4, 6, 6}
#define IMAG_f32 (vi32){1, 1, 3, 3, 5, 5, 7, 7}
#define REAL_f64 (vi64){0, 0, 2, 2}
#define IMAG_f64 (vi64){1, 1, 3, 3}
#else
#define REAL_f32 (vi32){0, 0, 2, 2}
#define IMAG_f32 (vi32){1, 1, 3, 3}
#define REAL_f64 (vi64){0, 0}
#define IMAG_f64 (vi64){1, 1}
#endif
#define ACCUM_EXTREME_COMPLEX(op, c, s, I, T, beats)                                               \
    INLINE v##I real_##op##_##c(v##I a) { return __builtin_shuffle(a, REAL_##s); }                 \
    INLINE v##I imag_##op##_##c(v##I a) { return __builtin_shuffle(a, IMAG_##s); }                 \
    static void accum_##op##_##c(size_t n_rows, size_t n, void *acc, const void *x,                \
                                 ptrdiff_t row_stride, int64_t *index, int64_t i0)                 \
    {                                                                                              \
        enum { L = VB / sizeof(T) };                                                               \
        T     *r = acc;                                                                            \
        size_t j = 0;                                                                              \
                                                                                                   \
        (void)index;                                                                               \
        (void)i0;                                                                                  \
        for (; j + L <= 2 * n; j += L) {                                                           \
            v##s m = *(v##s##_mem *)(r + j);                                                       \
                                                                                                   \
            for (size_t t = 0; t < n_rows; t++) {                                                  \
                const T *row = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);           \
                v##s     v = *(const v##s##_mem *)(row + j);                                       \
                v##I     more = v beats m, nan = v != v, was = m != m, wins;                       \
                                                                                                   \
                wins = real_##op##_##c(more) |                                                     \
                       (real_##op##_##c(v == m) & imag_##op##_##c(more)) |                         \
                       real_##op##_##c(nan) | imag_##op##_##c(nan);                                \
                m = pick_##s(wins & ~(real_##op##_##c(was) | imag_##op##_##c(was)), v, m);         \
            }                                                                                      \
            *(v##s##_mem *)(r + j) = m;                                                            \
        }                                                                                          \
        for (; j < 2 * n; j += 2)                                                                  \
            for (size_t t = 0; t < n_rows; t++) {                                                  \
                const T *row = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);           \
                                                                                                   \
                if (wins_##op##_##c(row + j, r + j))                                               \
                    memcpy(r + j, row + j, 2 * sizeof(T));                                         \
            }                                                                                      \
    }
ACCUM_EXTREME_COMPLEX(max, c64, f32, i32, float, >)
ACCUM_EXTREME_COMPLEX(min, c64, f32, i32, float, <)
ACCUM_EXTREME_COMPLEX(max, c128, f64, i64, double, >)
ACCUM_EXTREME_COMPLEX(min, c128, f64, i64, double, <)

/* ---- argmax and argmin --------------------------------------------------------------------------
 * The extreme of a chunk that fits L1 first, lane by lane; where a lane beats what there was, the chunk holds
 * the extreme so far. Then, once, where it is. Of rows the extremes first, several rows abreast. Where the level has masks,
 * rows of some vectors are gone through once (reduce_lanes.h). */
enum { ARG_CHUNK_BYTES = 8192 };

/* Where m is first; of a NaN the first NaN. */
#define FIND(s, T)                                                                                 \
    INLINE size_t find_or_nan_##s(size_t n, const T *a, T m)                                       \
    {                                                                                              \
        return m == m ? find_##s(n, a, m) : find_nan_##s(a);                                       \
    }
EACH_INT(FIND)
FIND(f32, float)
FIND(f64, double)

/* Numbers in whose order a NaN beats all others, and zeros are equal. */
#define KEY_INT(s, T)                                                                              \
    typedef T key_##s;                                                                             \
    INLINE T  key_max_##s(T v) { return v; }                                                       \
    INLINE T  key_min_##s(T v) { return v; }
#define KEY_FLOAT(s, T, I, MAX, INFINITE)                                                          \
    typedef I key_##s;                                                                             \
    INLINE I  key_of_##s(T v, I nan)                                                               \
    {                                                                                              \
        I bits, size;                                                                              \
                                                                                                   \
        memcpy(&bits, &v, sizeof v);                                                               \
        size = bits & MAX;                                                                         \
        bits = bits < 0 ? -size : size;                                                            \
        return size > INFINITE ? nan : bits;                                                       \
    }                                                                                              \
    INLINE I key_max_##s(T v) { return key_of_##s(v, MAX); }                                     \
    INLINE I key_min_##s(T v) { return key_of_##s(v, -MAX); }
EACH_INT(KEY_INT)
KEY_FLOAT(f32, float, int32_t, INT32_MAX, 0x7f800000)
KEY_FLOAT(f64, double, int64_t, INT64_MAX, 0x7ff0000000000000)

#define PLACE(op, s, T, beats)                                                                     \
    INLINE bool wins_##op##_##s(const T *x, const T *m)                                            \
    {                                                                                              \
        return *x beats *m || (*x != *x && *m == *m);                                              \
    }                                                                                              \
    /* Of few, without a branch. */                                                                \
    INLINE size_t first_##op##_##s(size_t n, const T *a)                                           \
    {                                                                                              \
        size_t  at = 0;                                                                            \
        key_##s m = key_##op##_##s(a[0]);                                                          \
                                                                                                   \
        for (size_t i = 1; i < n; i++) {                                                           \
            key_##s v = key_##op##_##s(a[i]);                                                      \
                                                                                                   \
            at = v beats m ? i : at;                                                               \
            m = v beats m ? v : m;                                                                 \
        }                                                                                          \
        return at;                                                                                 \
    }                                                                                              \
    /* The same of rows that are shorter than a vector, which is read beyond a row's end and never the last one's. \
     * Returns how many rows are done. */                                                          \
    INLINE size_t firsts_##op##_##s(size_t n_rows, size_t n, const T *a, T *out, int64_t *index)   \
    {                                                                                              \
        w##s   place;                                                                              \
        size_t t = 0;                                                                              \
                                                                                                   \
        for (size_t k = 0; k < WIDE_LANES(T); k++)                                                 \
            place[k] = (T)k;                                                                       \
        for (; (n_rows - t) * n >= WIDE_LANES(T); t++, a += n) {                                   \
            __typeof__(place < place) in = place < (w##s){0} + (T)n, row, first;                   \
            w##s                      x;                                                           \
            uint64_t                  nan, at;                                                     \
                                                                                                   \
            row = (__typeof__(in)) * (const w##s##_mem *)a;                                        \
            first = (__typeof__(in))(a[0] - (w##s){0});                                            \
            x = (w##s)((row & in) | (first & ~in));                                                \
            nan = wide_nan_##s(x, x);                                                              \
            at = wide_equal_##s(x, across_##op##_##s(x) - (w##s){0});                              \
            at = (uint64_t)__builtin_ctzll(nan ? nan : at) / WIDE_BITS(T);                         \
            out[t] = a[at];                                                                        \
            index[t] = (int64_t)at;                                                                \
        }                                                                                          \
        return t;                                                                                  \
    }                                                                                              \
    static size_t place_##op##_##s(size_t n, const T *a)                                           \
    {                                                                                              \
        enum { L = WIDE_LANES(T), CHUNK = ARG_CHUNK_BYTES / sizeof(T) };                           \
        T      best = a[0];                                                                        \
        size_t from = 0;                                                                           \
                                                                                                   \
        if (goes_by_lanes_##s(n))                                                                  \
            return lanes_##op##_##s(n, a);                                                         \
        if (n < L)                                                                                 \
            return first_##op##_##s(n, a);                                                         \
        for (size_t i = 0; i < n; i += CHUNK) {                                                    \
            size_t   at = i + L <= n ? i : n - L; /* what has been seen does not win again */      \
            uint64_t nan;                                                                          \
            w##s     top = (w##s){0} + best, m;                                                    \
                                                                                                   \
            m = peaks_##op##_##s(n - at < CHUNK ? n - at : CHUNK, a + at, &nan);                   \
            if (nan)                                                                               \
                return at + find_nan_##s(a + at);                                                  \
            if (wide_equal_##s(wide_##op##_##s(m, top), top) != WIDE_ALL(T)) {                     \
                best = across_##op##_##s(m);                                                       \
                from = at;                                                                         \
            }                                                                                      \
        }                                                                                          \
        return from + find_##s(n - from, a + from, best);                                          \
    }                                                                                              \
    static void rows_arg##op##_##s(size_t n_rows, size_t n, const void *ap, void *outp,            \
                                   int64_t *index)                                                 \
    {                                                                                              \
        const T *a = ap;                                                                           \
        T       *out = outp;                                                                       \
        size_t   t = 0;                                                                            \
                                                                                                   \
        if (goes_by_lanes_##s(n)) {                                                                \
            for (; t < n_rows; t++, a += n) {                                                      \
                index[t] = (int64_t)lanes_##op##_##s(n, a);                                        \
                out[t] = a[index[t]];                                                              \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        if (n < WIDE_LANES(T)) {                                                                   \
            t = firsts_##op##_##s(n_rows, n, a, out, index);                                       \
            for (a += t * n; t < n_rows; t++, a += n) {                                            \
                index[t] = (int64_t)first_##op##_##s(n, a);                                        \
                out[t] = a[index[t]];                                                              \
            }                                                                                      \
        } else {                                                                                   \
            rows_##op##_##s(n_rows, n, a, out, NULL);                                              \
        }                                                                                          \
        for (; t < n_rows; t++, a += n) {                                                          \
            size_t at = find_or_nan_##s(n, a, out[t]);                                             \
                                                                                                   \
            out[t] = a[at]; /* of two zeros the first */                                           \
            index[t] = (int64_t)at;                                                                \
        }                                                                                          \
    }
#define PLACE_INT(s, T)                                                                            \
    PLACE(max, s, T, >)                                                                            \
    PLACE(min, s, T, <)
EACH_INT(PLACE_INT)
PLACE(max, f32, float, >)
PLACE(min, f32, float, <)
PLACE(max, f64, double, >)
PLACE(min, f64, double, <)

#define ARG(arg, op, s, T)                                                                         \
    static void fold_##arg##_##s(size_t n, const void *a, void *out, int64_t *index)               \
    {                                                                                              \
        *index = (int64_t)place_##op##_##s(n, a);                                                  \
        *(T *)out = ((const T *)a)[*index];                                                        \
    }
/* Of rows, one after the other. */
#define ARG_ACCUM(name, arg, op, s, T)                                                             \
    static void name##_##arg##_##s(size_t n_rows, size_t n, void *acc, const void *x,              \
                                  ptrdiff_t row_stride, int64_t *index, int64_t i0)                \
    {                                                                                              \
        T *r = acc;                                                                                \
                                                                                                   \
        for (size_t t = 0; t < n_rows; t++) {                                                      \
            const T *row = (const T *)((const char *)x + (ptrdiff_t)t * row_stride);               \
                                                                                                   \
            for (size_t j = 0; j < n; j++)                                                         \
                if (wins_##op##_##s((const void *)(row + j), (const void *)(r + j))) {             \
                    r[j] = row[j];                                                                 \
                    index[j] = i0 + (int64_t)t;                                                    \
                }                                                                                  \
        }                                                                                          \
    }

/* Of columns, a few vectors of them at a time: their extremes, and beside each the number of the row where it was found,
 * of as many bits, from 1 on. Of bytes that is as far as 255 rows. */
enum {
    ARG_VECTORS = 4,
    ARG_FEW_ROWS = 8, /* from how many on fewer columns than a vector has are worth one */
};
/* How many of the rows, of n_bytes each, can be read as vectors without reading behind the last one. */
INLINE size_t
rows_of_vectors(size_t n_rows, size_t n_bytes, ptrdiff_t row_stride)
{
    size_t last;

    if (!n_bytes || row_stride < (ptrdiff_t)n_bytes)
        return 0;
    last = (VB - n_bytes + (size_t)row_stride - 1) / (size_t)row_stride;
    return n_rows > last ? n_rows - last : 0;
}
#define MORE(v, m) ((v) > (m))
#define LESS(v, m) ((v) < (m))
#define MORE_OR_NAN(v, m) (~((v) <= (m)) & ((m) == (m)))
#define LESS_OR_NAN(v, m) (~((v) >= (m)) & ((m) == (m)))
#define ARG_COLUMNS(arg, op, s, T, U, BEATS)                                                       \
    INLINE void columns_##arg##_##s(size_t n_rows, size_t n_vectors, T *r, const char *x, ptrdiff_t row_stride, \
                                    int64_t *index, int64_t i0)                                    \
    {                                                                                              \
        typedef arg_mask_##s mask;                                                                 \
        enum { L = VB / sizeof(T) };                                                               \
        arg_##s m[ARG_VECTORS];                                                                       \
        mask at[ARG_VECTORS];                                                                      \
        U    found[ARG_VECTORS * L];                                                               \
                                                                                                   \
        for (size_t k = 0; k < n_vectors; k++) {                                                   \
            m[k] = (arg_##s) * (const arg_##s##_mem *)(r + k * L);                                       \
            at[k] = (mask){0};                                                                     \
        }                                                                                          \
        for (size_t t = 1; t <= n_rows; t++, x += row_stride) {                                    \
            const mask here = (mask){0} + (__typeof__(at[0][0]))t;                                 \
                                                                                                   \
            for (size_t k = 0; k < n_vectors; k++) {                                               \
                arg_##s v = (arg_##s) * (const arg_##s##_mem *)(x + k * VB);                                \
                mask beats = (mask)BEATS(v, m[k]);                                                       \
                                                                                                   \
                at[k] = (here & beats) | (at[k] & ~beats);                                         \
                m[k] = (arg_##s)(((mask)v & beats) | ((mask)m[k] & ~beats));                          \
            }                                                                                      \
        }                                                                                          \
        for (size_t k = 0; k < n_vectors; k++)                                                     \
            *(arg_##s##_mem *)(r + k * L) = m[k];                                                     \
        for (size_t k = 0; k < n_vectors && sizeof(T) == sizeof *index; k++) {                     \
            arg_mask_##s##_mem *to = (arg_mask_##s##_mem *)(void *)(index + k * L);                \
            mask                is = (mask)(at[k] != 0), was = (mask)*to;                          \
                                                                                                   \
            *to = ((at[k] + (__typeof__(at[0][0]))(i0 - 1)) & is) | (was & ~is);                   \
        }                                                                                          \
        memcpy(found, at, n_vectors * VB);                                                         \
        for (size_t j = 0; j < n_vectors * L && sizeof(T) < sizeof *index; j++)                    \
            index[j] = found[j] ? i0 + (int64_t)found[j] - 1 : index[j];                           \
    }                                                                                              \
    static void accum_##arg##_##s(size_t n_rows, size_t n, void *acc, const void *x,               \
                                  ptrdiff_t row_stride, int64_t *index, int64_t i0)                \
    {                                                                                              \
        enum { L = VB / sizeof(T) };                                                               \
        const size_t most = sizeof(T) == 1 ? UINT8_MAX : sizeof(T) == 2 ? UINT16_MAX : INT32_MAX;  \
        const size_t whole = n < L ? rows_of_vectors(n_rows, n * sizeof(T), row_stride) : 0;       \
        const char  *row = x;                                                                      \
        T           *r = acc;                                                                      \
                                                                                                   \
        if (whole >= ARG_FEW_ROWS) { /* with what lies behind them */                              \
            T       best[L] = {0};                                                                 \
            int64_t at[L] = {0};                                                                   \
                                                                                                   \
            memcpy(best, r, n * sizeof(T));                                                        \
            memcpy(at, index, n * sizeof *at);                                                     \
            accum_##arg##_##s(whole, L, best, row, row_stride, at, i0);                            \
            memcpy(r, best, n * sizeof(T));                                                        \
            memcpy(index, at, n * sizeof *at);                                                     \
            n_rows -= whole;                                                                       \
            i0 += (int64_t)whole;                                                                  \
            row += (ptrdiff_t)whole * row_stride;                                                  \
        }                                                                                          \
        for (size_t rows; n_rows; n_rows -= rows, i0 += (int64_t)rows, row += (ptrdiff_t)rows * row_stride) { \
            size_t j = 0;                                                                          \
                                                                                                   \
            rows = n_rows < most ? n_rows : most;                                                  \
            for (; j + ARG_VECTORS * L <= n; j += ARG_VECTORS * L)                                 \
                columns_##arg##_##s(rows, ARG_VECTORS, r + j, row + j * sizeof(T), row_stride, index + j, i0); \
            for (; j + L <= n; j += L)                                                             \
                columns_##arg##_##s(rows, 1, r + j, row + j * sizeof(T), row_stride, index + j, i0); \
            if (j < n && n >= L) /* columns that have been looked at are beaten by nothing */      \
                columns_##arg##_##s(rows, 1, r + n - L, row + (n - L) * sizeof(T), row_stride, index + n - L, i0); \
            else                                                                                   \
                one_by_one_##arg##_##s(rows, n - j, r + j, row + j * sizeof(T), row_stride, index + j, i0); \
        }                                                                                          \
    }
#define ARG_VECTOR(s, T, I)                                                                        \
    typedef I arg_mask_##s __attribute__((vector_size(VB)));                                       \
    typedef I arg_mask_##s##_mem __attribute__((vector_size(VB), aligned(1), may_alias));          \
    typedef T arg_##s __attribute__((vector_size(VB)));                                            \
    typedef T arg_##s##_mem __attribute__((vector_size(VB), aligned(1), may_alias));
#define ARG_COLUMNS_OF(s, T, I, U, MORE_, LESS_)                                                   \
    ARG_VECTOR(s, T, I)                                                                            \
    ARG_ACCUM(one_by_one, argmax, max, s, T)                                                       \
    ARG_ACCUM(one_by_one, argmin, min, s, T)                                                       \
    ARG_COLUMNS(argmax, max, s, T, U, MORE_)                                                       \
    ARG_COLUMNS(argmin, min, s, T, U, LESS_)
ARG_COLUMNS_OF(i8, int8_t, int8_t, uint8_t, MORE, LESS)
ARG_COLUMNS_OF(i16, int16_t, int16_t, uint16_t, MORE, LESS)
ARG_COLUMNS_OF(i32, int32_t, int32_t, uint32_t, MORE, LESS)
ARG_COLUMNS_OF(i64, int64_t, int64_t, uint64_t, MORE, LESS)
ARG_COLUMNS_OF(u8, uint8_t, int8_t, uint8_t, MORE, LESS)
ARG_COLUMNS_OF(u16, uint16_t, int16_t, uint16_t, MORE, LESS)
ARG_COLUMNS_OF(u32, uint32_t, int32_t, uint32_t, MORE, LESS)
ARG_COLUMNS_OF(u64, uint64_t, int64_t, uint64_t, MORE, LESS)
ARG_COLUMNS_OF(f32, float, int32_t, uint32_t, MORE_OR_NAN, LESS_OR_NAN)
ARG_COLUMNS_OF(f64, double, int64_t, uint64_t, MORE_OR_NAN, LESS_OR_NAN)
/* Row by row, for those that have no fold of rows abreast. */
#define ARGS_ROWS(s, T)                                                                            \
    ARG_ACCUM(accum, argmax, max, s, T)                                                            \
    ARG_ACCUM(accum, argmin, min, s, T)                                                            \
    ROWS(argmax, s, T, T)                                                                          \
    ROWS(argmin, s, T, T)
#define ARGS(s, T)                                                                                 \
    ARG(argmax, max, s, T)                                                                         \
    ARG(argmin, min, s, T)
EACH_INT(ARGS)
ARGS(f16, uint16_t)
ARGS(f32, float)
ARGS(f64, double)
ARGS(c64, c64)
ARGS(c128, c128)
ARGS_ROWS(f16, uint16_t)
ARGS_ROWS(c64, c64)
ARGS_ROWS(c128, c128)

/* Of bools the first that is true, or is not: nothing has to be compared. */
INLINE size_t
first_true(size_t n, const uint8_t *a)
{
    const wu8 none = {0};
    uint64_t  found;
    size_t    i = 0;

    for (; i + WB <= n; i += WB)
        if ((found = wide_equal_u8(*(const wu8_mem *)(a + i), none) ^ WIDE_ALL(uint8_t)))
            return i + (size_t)__builtin_ctzll(found);
    while (i < n && !a[i])
        i++;
    return i < n ? i : 0;
}
INLINE size_t
first_false(size_t n, const uint8_t *a)
{
    const uint8_t *at = memchr(a, 0, n);

    return at ? (size_t)(at - a) : 0;
}
static size_t place_max_b8(size_t n, const uint8_t *a) { return first_true(n, a); }
static size_t place_min_b8(size_t n, const uint8_t *a) { return first_false(n, a); }
INLINE bool wins_max_b8(const uint8_t *x, const uint8_t *m) { return *x > *m; }
INLINE bool wins_min_b8(const uint8_t *x, const uint8_t *m) { return *x < *m; }
ARGS(b8, uint8_t)
ARGS_ROWS(b8, uint8_t)

#endif
