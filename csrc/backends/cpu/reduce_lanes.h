/* backends/cpu/reduce_lanes.h -- places of extremes of rows of some vectors, in one pass: beside the extreme of each lane
 * stands where it was found. So no row is gone through a second time, up to a place that no processor foresees. It takes
 * masks in registers of their own, which AVX-512 has. Part of reduce.inc.c.
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
#define LANES(op, s, T, I, bits, BEATS)                                                            \
    INLINE size_t lanes_##op##_##s(size_t n, const T *a)                                           \
    {                                                                                              \
        enum { L = WIDE_LANES(T), V = LANES_VECTORS };                                             \
        w##s     m[V], top, x[V];                                                                  \
        w##I     at[V], lane, here, first;                                                         \
        uint64_t nan;                                                                              \
                                                                                                   \
        for (int k = 0; k < (int)L; k++)                                                           \
            lane[k] = k;                                                                           \
        for (int k = 0; k < V; k++) {                                                              \
            m[k] = *(const w##s##_mem *)(a + k * L);                                               \
            at[k] = (w##I){0};                                                                     \
        }                                                                                          \
        nan = wide_nan_##s(m[0], m[1]) | wide_nan_##s(m[2], m[3]);                                 \
        for (size_t i = V * L; i + V * L <= n; i += V * L) {                                       \
            here = (w##I){0} + (__typeof__(lane[0]))i;                                             \
            for (int k = 0; k < V; k++) {                                                          \
                x[k] = *(const w##s##_mem *)(a + i + k * L);                                       \
                at[k] = PICKED(w##I, bits, BEATS(x[k], m[k]), here, at[k]);                        \
                m[k] = wide_##op##_##s(x[k], m[k]);                                                \
            }                                                                                      \
            nan |= wide_nan_##s(x[0], x[1]) | wide_nan_##s(x[2], x[3]);                            \
        }                                                                                          \
        for (size_t i = n / (V * L) * (V * L), to; i < n; i = to) {                                \
            to = i + L; /* the last vector lies over what has been seen */                         \
            i = to <= n ? i : n - L;                                                               \
            here = (w##I){0} + (__typeof__(lane[0]))i;                                             \
            x[0] = *(const w##s##_mem *)(a + i);                                                   \
            at[0] = PICKED(w##I, bits, BEATS(x[0], m[0]), here, at[0]);                            \
            m[0] = wide_##op##_##s(x[0], m[0]);                                                    \
            nan |= wide_nan_##s(x[0], x[0]);                                                       \
        }                                                                                          \
        if (nan)                                                                                   \
            return find_nan_##s(a);                                                                \
        top = wide_##op##_##s(wide_##op##_##s(m[0], m[1]), wide_##op##_##s(m[2], m[3]));           \
        top = (w##s){0} + across_##op##_##s(top);                                                  \
        first = (w##I){0} + (__typeof__(lane[0]))n;                                                \
        for (int k = 0; k < V; k++) {                                                              \
            here = at[k] + lane + (__typeof__(lane[0]))(k * L);                                    \
            here = PICKED(w##I, bits, wide_equal_##s(m[k], top), here, first);                     \
            first = wide_min_##I(first, here);                                                     \
        }                                                                                          \
        return (size_t)across_min_##I(first);                                                      \
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
