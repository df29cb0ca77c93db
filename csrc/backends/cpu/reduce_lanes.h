/* backends/cpu/reduce_lanes.h -- places of extremes of rows of some vectors, in one pass: beside the extreme of each lane
 * stands the group of vectors that it was found in, of which only the first one's elements are looked at again. So no row
 * is gone through a second time, up to a place that no processor foresees. It takes masks in registers of their own, which
 * AVX-512 has. Part of reduce.inc.c.
 *
 *   goes_by_lanes_<s>(n)     whether that is the way for rows of n elements
 *   lanes_max_<s>(n, a)      the place of the first of the greatest, or of the first NaN; lanes_min alike
 *   find_nan_<s>(a)          the place of the first NaN, which there is */
#ifndef FR_BACKENDS_CPU_REDUCE_LANES_H
#define FR_BACKENDS_CPU_REDUCE_LANES_H

#include "backends/cpu/reduce_wide.h"

#define FIND_NAN(s, T)                                                                             \
    INLINE size_t find_nan_##s(const T *a)                                                         \
    {                                                                                              \
        size_t i = 0;                                                                              \
                                                                                                   \
        while (a[i] == a[i])                                                                       \
            i++;                                                                                   \
        return i;                                                                                  \
    }
EACH_INT(FIND_NAN)
FIND_NAN(f32, float)
FIND_NAN(f64, double)

enum { LANES_VECTORS = 4, LANES_MOST = 1 << 16 };
#define NO_LANES(s, T)                                                                             \
    INLINE bool   goes_by_lanes_##s(size_t n) { return (void)n, false; }                           \
    INLINE size_t lanes_max_##s(size_t n, const T *a) { return (void)n, (void)a, 0; }              \
    INLINE size_t lanes_min_##s(size_t n, const T *a) { return (void)n, (void)a, 0; }
NO_LANES(i8, int8_t)
NO_LANES(i16, int16_t)
NO_LANES(u8, uint8_t)
NO_LANES(u16, uint16_t)
#if WB == 64
#define PICKED(w, bits, mask, a, b) (w) _mm512_mask_mov_epi##bits((__m512i)(b), mask, (__m512i)(a))
/* The group of vectors at element i of the row, whose lanes of `here` are i. */
#define LANES_GROUP(op, s, I, bits, BEATS)                                                         \
    {                                                                                              \
        _Pragma("GCC unroll 4") for (int k = 0; k < V; k++)                                        \
            x[k] = *(const w##s##_mem *)(a + i + k * L);                                           \
        nan |= wide_nan_##s(x[0], x[1]) | wide_nan_##s(x[2], x[3]);                                \
        x[0] = wide_##op##_##s(wide_##op##_##s(x[0], x[1]), wide_##op##_##s(x[2], x[3]));          \
        at = PICKED(w##I, bits, BEATS(x[0], m), here, at);                                         \
        m = i ? wide_##op##_##s(x[0], m) : x[0];                                                   \
    }
#define LANES(op, s, T, I, bits, BEATS)                                                            \
    INLINE size_t lanes_##op##_##s(size_t n, const T *a)                                           \
    {                                                                                              \
        enum { L = WIDE_LANES(T), V = LANES_VECTORS };                                             \
        w##s     m = {0}, top, x[V];                                                               \
        w##I     at = {0}, here = {0};                                                             \
        uint64_t nan = 0, found = 0;                                                               \
        size_t   i = 0, group;                                                                     \
                                                                                                   \
        LANES_GROUP(op, s, I, bits, BEATS)                                                         \
        for (i = V * L; i + V * L <= n; i += V * L) {                                              \
            here += V * L; /* a broadcast for each would make a chain of what it takes */          \
            LANES_GROUP(op, s, I, bits, BEATS)                                                     \
        }                                                                                          \
        if (i < n) { /* the last group lies over what has been seen */                             \
            i = n - V * L;                                                                         \
            here = (w##I){0} + (__typeof__(here[0]))i;                                             \
            LANES_GROUP(op, s, I, bits, BEATS)                                                     \
        }                                                                                          \
        if (nan)                                                                                   \
            return find_nan_##s(a);                                                                \
        top = (w##s){0} + across_##op##_##s(m);                                                    \
        here = (w##I){0} + (__typeof__(here[0]))n;                                                 \
        group = (size_t)across_min_##I(PICKED(w##I, bits, wide_equal_##s(m, top), at, here));      \
        _Pragma("GCC unroll 4") for (int k = 0; k < V; k++)                                        \
            found |= (uint64_t)wide_equal_##s(*(const w##s##_mem *)(a + group + k * L), top) << k * L; \
        return group + (size_t)__builtin_ctzll(found);                                             \
    }
#define LANES_OF(s, T, I, bits, MORE_, LESS_)                                                      \
    INLINE bool goes_by_lanes_##s(size_t n)                                                        \
    {                                                                                              \
        return n >= LANES_VECTORS * WIDE_LANES(T) && n <= LANES_MOST;                              \
    }                                                                                              \
    LANES(max, s, T, I, bits, MORE_)                                                               \
    LANES(min, s, T, I, bits, LESS_)
#define MASK_OF(R, compare, a, b, ...) _mm512_##compare##_mask((R)(a), (R)(b), ##__VA_ARGS__)
#define MORE_I32(a, b) MASK_OF(__m512i, cmpgt_epi32, a, b)
#define LESS_I32(a, b) MASK_OF(__m512i, cmplt_epi32, a, b)
#define MORE_U32(a, b) MASK_OF(__m512i, cmpgt_epu32, a, b)
#define LESS_U32(a, b) MASK_OF(__m512i, cmplt_epu32, a, b)
#define MORE_I64(a, b) MASK_OF(__m512i, cmpgt_epi64, a, b)
#define LESS_I64(a, b) MASK_OF(__m512i, cmplt_epi64, a, b)
#define MORE_U64(a, b) MASK_OF(__m512i, cmpgt_epu64, a, b)
#define LESS_U64(a, b) MASK_OF(__m512i, cmplt_epu64, a, b)
#define MORE_F32(a, b) MASK_OF(__m512, cmp_ps, a, b, _CMP_GT_OQ)
#define LESS_F32(a, b) MASK_OF(__m512, cmp_ps, a, b, _CMP_LT_OQ)
#define MORE_F64(a, b) MASK_OF(__m512d, cmp_pd, a, b, _CMP_GT_OQ)
#define LESS_F64(a, b) MASK_OF(__m512d, cmp_pd, a, b, _CMP_LT_OQ)
LANES_OF(i32, int32_t, i32, 32, MORE_I32, LESS_I32)
LANES_OF(u32, uint32_t, i32, 32, MORE_U32, LESS_U32)
LANES_OF(f32, float, i32, 32, MORE_F32, LESS_F32)
LANES_OF(i64, int64_t, i64, 64, MORE_I64, LESS_I64)
LANES_OF(u64, uint64_t, i64, 64, MORE_U64, LESS_U64)
LANES_OF(f64, double, i64, 64, MORE_F64, LESS_F64)
#else
NO_LANES(i32, int32_t)
NO_LANES(u32, uint32_t)
NO_LANES(f32, float)
NO_LANES(i64, int64_t)
NO_LANES(u64, uint64_t)
NO_LANES(f64, double)
#endif

#endif
