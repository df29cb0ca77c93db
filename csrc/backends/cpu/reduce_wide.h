/* backends/cpu/reduce_wide.h -- vectors as wide as the level has, for searches: extremes and places, where no
 * order of a sum is at stake. Part of reduce.inc.c.
 *
 * w<s> is a vector of WB bytes, w<s>_mem the same in memory, n<s> one of NB bytes.
 *
 *   wide_max_<s>(a, b)       a > b ? a : b lane by lane, so b where either is NaN or both are zeros; wide_min alike
 *   wide_equal_<s>(a, b)     WIDE_BITS(T) bits for each lane where they are equal, from the lowest
 *   wide_fold_max_<s>(a, b)  of floats, a from the left: the first NaN, else the greater, b of equals; wide_fold_min alike
 *   wide_nan_<s>(a, b)       not 0 if some lane of one of them is NaN; 0 for integers
 *   across_max_<s>(a)        the greatest lane; across_min alike */
#ifndef FR_BACKENDS_CPU_REDUCE_WIDE_H
#define FR_BACKENDS_CPU_REDUCE_WIDE_H

#include "backends/cpu/reduce_vec.h"

#if defined(__AVX512BW__) && defined(__AVX512DQ__)
#define WB 64
#define WIDE_BITS(T) 1
#else
#define WB VB
#define WIDE_BITS(T) (sizeof(T) == 2 ? 2 : 1) /* two bytes have no mask of their own */
#endif
#define NB (WB == 64 ? 16 : WB) /* of the vector that across_ ends with */
#define WIDE_LANES(T) (WB / sizeof(T))
/* What wide_equal says of a whole vector of equals. */
#define WIDE_ALL(T) (~(uint64_t)0 >> (64 - WIDE_LANES(T) * WIDE_BITS(T)))

#define WIDE_TYPE(s, T)                                                                            \
    typedef T w##s __attribute__((vector_size(WB)));                                               \
    typedef T w##s##_mem __attribute__((vector_size(WB), aligned(1), may_alias));                  \
    typedef T n##s __attribute__((vector_size(NB)));
EACH_INT(WIDE_TYPE)
WIDE_TYPE(f32, float)
WIDE_TYPE(f64, double)

#define WIDE_NO_NAN(s)                                                                             \
    INLINE uint64_t wide_nan_##s(w##s a, w##s b)                                                   \
    {                                                                                              \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        return 0;                                                                                  \
    }
WIDE_NO_NAN(i8)
WIDE_NO_NAN(i16)
WIDE_NO_NAN(i32)
WIDE_NO_NAN(i64)
WIDE_NO_NAN(u8)
WIDE_NO_NAN(u16)
WIDE_NO_NAN(u32)
WIDE_NO_NAN(u64)

#if WB == 64
/* narrow_<op> is wide_<op> of vectors of NB bytes; narrowed_<op>(a) the extremes of a's lanes that are NB bytes apart. */
#define WIDE_EITHER(op, s, R, R2, R1, suffix)                                                      \
    INLINE w##s wide_##op##_##s(w##s a, w##s b)                                                    \
    {                                                                                              \
        return (w##s)_mm512_##op##_##suffix((R)a, (R)b);                                           \
    }                                                                                              \
    INLINE n##s narrow_##op##_##s(n##s a, n##s b)                                                  \
    {                                                                                              \
        return (n##s)_mm_##op##_##suffix((R1)a, (R1)b);                                            \
    }                                                                                              \
    INLINE n##s narrowed_##op##_##s(w##s a)                                                        \
    {                                                                                              \
        __m256i lo = _mm512_castsi512_si256((__m512i)a), m;                                        \
                                                                                                   \
        m = (__m256i)_mm256_##op##_##suffix((R2)lo, (R2)_mm512_extracti64x4_epi64((__m512i)a, 1)); \
        return narrow_##op##_##s((n##s)_mm256_castsi256_si128(m),                                  \
                                 (n##s)_mm256_extracti128_si256(m, 1));                            \
    }
#define WIDE_ORDER(s, R, R2, R1, suffix)                                                           \
    WIDE_EITHER(max, s, R, R2, R1, suffix)                                                         \
    WIDE_EITHER(min, s, R, R2, R1, suffix)
#define WIDE_INT(s, suffix, bits)                                                                  \
    WIDE_ORDER(s, __m512i, __m256i, __m128i, suffix)                                               \
    INLINE uint64_t wide_equal_##s(w##s a, w##s b)                                                 \
    {                                                                                              \
        return _mm512_cmpeq_epi##bits##_mask((__m512i)a, (__m512i)b);                              \
    }
#define WIDE_FLOAT(s, R, R2, R1, suffix)                                                           \
    WIDE_ORDER(s, R, R2, R1, suffix)                                                               \
    INLINE uint64_t wide_equal_##s(w##s a, w##s b)                                                 \
    {                                                                                              \
        return _mm512_cmp_##suffix##_mask((R)a, (R)b, _CMP_EQ_OQ);                                 \
    }                                                                                              \
    INLINE uint64_t wide_nan_##s(w##s a, w##s b)                                                   \
    {                                                                                              \
        return _mm512_cmp_##suffix##_mask((R)a, (R)b, _CMP_UNORD_Q);                               \
    }
WIDE_INT(i8, epi8, 8)
WIDE_INT(i16, epi16, 16)
WIDE_INT(i32, epi32, 32)
WIDE_INT(i64, epi64, 64)
WIDE_INT(u8, epu8, 8)
WIDE_INT(u16, epu16, 16)
WIDE_INT(u32, epu32, 32)
WIDE_INT(u64, epu64, 64)
WIDE_FLOAT(f32, __m512, __m256, __m128, ps)
WIDE_FLOAT(f64, __m512d, __m256d, __m128d, pd)
#else
#if defined(__AVX2__)
#define WIDE_REGISTER __m256i
#define WIDE_CALL(name) _mm256_##name
#elif defined(__SSE4_1__)
#define WIDE_REGISTER __m128i
#define WIDE_CALL(name) _mm_##name
#endif
ORDER_TO_32(wide, w, WIDE_CALL, WIDE_REGISTER)
BY_MASK(wide, w, i64, u64)
BY_MASK(wide, w, u64, u64)
INLINE wf32 wide_max_f32(wf32 a, wf32 b) { return (wf32)higher_f32((vf32)a, (vf32)b); }
INLINE wf32 wide_min_f32(wf32 a, wf32 b) { return (wf32)lower_f32((vf32)a, (vf32)b); }
INLINE wf64 wide_max_f64(wf64 a, wf64 b) { return (wf64)higher_f64((vf64)a, (vf64)b); }
INLINE wf64 wide_min_f64(wf64 a, wf64 b) { return (wf64)lower_f64((vf64)a, (vf64)b); }

#if defined(__AVX2__)
#define WIDE_MASK1(m) (uint32_t) _mm256_movemask_epi8((__m256i)(m))
#define WIDE_MASK4(m) (uint32_t) _mm256_movemask_ps((__m256)(m))
#define WIDE_MASK8(m) (uint32_t) _mm256_movemask_pd((__m256d)(m))
#elif defined(__SSE2__)
#define WIDE_MASK1(m) (uint32_t) _mm_movemask_epi8((__m128i)(m))
#define WIDE_MASK4(m) (uint32_t) _mm_movemask_ps((__m128)(m))
#define WIDE_MASK8(m) (uint32_t) _mm_movemask_pd((__m128d)(m))
#else
INLINE uint32_t
wide_mask(wu8 m, int size)
{
    uint32_t r = 0;

    for (int k = 0; k < WB / size; k++)
        r |= (uint32_t)(m[k * size] & 1) << k;
    return r;
}
#define WIDE_MASK1(m) wide_mask((wu8)(m), 1)
#define WIDE_MASK4(m) wide_mask((wu8)(m), 4)
#define WIDE_MASK8(m) wide_mask((wu8)(m), 8)
#endif
#define WIDE_EQUAL(s, size)                                                                        \
    INLINE uint64_t wide_equal_##s(w##s a, w##s b) { return WIDE_MASK##size(a == b); }
WIDE_EQUAL(i8, 1)
WIDE_EQUAL(i16, 1)
WIDE_EQUAL(i32, 4)
WIDE_EQUAL(i64, 8)
WIDE_EQUAL(u8, 1)
WIDE_EQUAL(u16, 1)
WIDE_EQUAL(u32, 4)
WIDE_EQUAL(u64, 8)
WIDE_EQUAL(f32, 4)
WIDE_EQUAL(f64, 8)
#if defined(__AVX2__)
INLINE uint64_t wide_nan_f32(wf32 a, wf32 b)
{
    return WIDE_MASK4(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_UNORD_Q));
}
INLINE uint64_t wide_nan_f64(wf64 a, wf64 b)
{
    return WIDE_MASK8(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_UNORD_Q));
}
#else
INLINE uint64_t wide_nan_f32(wf32 a, wf32 b) { return WIDE_MASK4((a != a) | (b != b)); }
INLINE uint64_t wide_nan_f64(wf64 a, wf64 b) { return WIDE_MASK8((a != a) | (b != b)); }
#endif
#endif

#if WB == 64
#define WIDE_FOLD(op, s, R, suffix)                                                                \
    INLINE w##s wide_fold_##op##_##s(w##s a, w##s b)                                               \
    {                                                                                              \
        return (w##s)_mm512_mask_##op##_##suffix(                                                  \
            (R)a, _mm512_cmp_##suffix##_mask((R)a, (R)a, _CMP_ORD_Q), (R)a, (R)b);                 \
    }
WIDE_FOLD(max, f32, __m512, ps)
WIDE_FOLD(min, f32, __m512, ps)
WIDE_FOLD(max, f64, __m512d, pd)
WIDE_FOLD(min, f64, __m512d, pd)
#else
INLINE wf32 wide_fold_max_f32(wf32 a, wf32 b) { return pick_f32(a != a, a, wide_max_f32(a, b)); }
INLINE wf32 wide_fold_min_f32(wf32 a, wf32 b) { return pick_f32(a != a, a, wide_min_f32(a, b)); }
INLINE wf64 wide_fold_max_f64(wf64 a, wf64 b) { return pick_f64(a != a, a, wide_max_f64(a, b)); }
INLINE wf64 wide_fold_min_f64(wf64 a, wf64 b) { return pick_f64(a != a, a, wide_min_f64(a, b)); }
#endif

/* ---- of whole vectors ------------------------------------------------------------------------ */

/* The same where the vectors are no wider than 32 bytes, and are not made narrower. */
#if WB == 32
#define NARROWED(op, s)                                                                            \
    INLINE w##s narrow_##op##_##s(w##s a, w##s b) { return wide_##op##_##s(a, b); }                \
    INLINE w##s narrowed_##op##_##s(w##s a)                                                        \
    {                                                                                              \
        return wide_##op##_##s(a, (w##s)__builtin_shuffle((wi64)a, (wi64){2, 3, 0, 1}));           \
    }
#elif WB == 16
#define NARROWED(op, s)                                                                            \
    INLINE w##s narrow_##op##_##s(w##s a, w##s b) { return wide_##op##_##s(a, b); }                \
    INLINE w##s narrowed_##op##_##s(w##s a) { return a; }
#else
#define NARROWED(op, s)
#endif
#if NB == 32
#define OTHER_HALF (ni64){1, 0, 3, 2}
#else
#define OTHER_HALF (ni64){1, 0}
#endif

#define WIDE_EXTREME(op, s, T)                                                                     \
    NARROWED(op, s)                                                                                \
    INLINE T across_##op##_##s(w##s a)                                                             \
    {                                                                                              \
        n##s m = narrowed_##op##_##s(a);                                                           \
                                                                                                   \
        m = narrow_##op##_##s(m, (n##s)__builtin_shuffle((ni64)m, OTHER_HALF));                    \
        for (size_t k = 4; k >= sizeof(T); k /= 2)                                                 \
            m = narrow_##op##_##s(m, (n##s)((nu64)m >> 8 * k));                                    \
        return m[0];                                                                               \
    }                                                                                              \
    /* The extreme of each lane of n >= WIDE_LANES elements; *nan becomes not 0 if one is NaN. */  \
    INLINE w##s peaks_##op##_##s(size_t n, const T *a, uint64_t *nan)                              \
    {                                                                                              \
        enum { L = WIDE_LANES(T) };                                                                \
        w##s     best[4], x[4];                                                                    \
        uint64_t found;                                                                            \
        size_t   i = 0;                                                                            \
                                                                                                   \
        x[0] = *(const w##s##_mem *)(a + n - L);                                                   \
        best[0] = best[1] = best[2] = best[3] = x[0];                                              \
        found = wide_nan_##s(x[0], x[0]);                                                          \
        for (; i + 4 * L <= n; i += 4 * L) {                                                       \
            for (int k = 0; k < 4; k++) {                                                          \
                x[k] = *(const w##s##_mem *)(a + i + k * L);                                       \
                best[k] = wide_##op##_##s(x[k], best[k]);                                          \
            }                                                                                      \
            found |= wide_nan_##s(x[0], x[1]) | wide_nan_##s(x[2], x[3]);                          \
        }                                                                                          \
        for (; i + L <= n; i += L) {                                                               \
            x[0] = *(const w##s##_mem *)(a + i);                                                   \
            best[0] = wide_##op##_##s(x[0], best[0]);                                              \
            found |= wide_nan_##s(x[0], x[0]);                                                     \
        }                                                                                          \
        *nan = found;                                                                              \
        return wide_##op##_##s(wide_##op##_##s(best[0], best[1]),                                  \
                               wide_##op##_##s(best[2], best[3]));                                 \
    }
#define WIDE_SEARCH(s, T)                                                                          \
    WIDE_EXTREME(max, s, T)                                                                        \
    WIDE_EXTREME(min, s, T)                                                                        \
    /* Where m, which is no NaN, is first among n >= WIDE_LANES elements; it is somewhere. */      \
    INLINE size_t find_##s(size_t n, const T *a, T m)                                              \
    {                                                                                              \
        enum {                                                                                     \
            L = WIDE_LANES(T),                                                                     \
            BITS = WIDE_BITS(T),                                                                   \
            MOST = 64 / (L * BITS),                                                                \
            GROUP = MOST < 8 ? MOST : 8,                                                           \
        };                                                                                         \
        const w##s x = (w##s){0} + m;                                                              \
        uint64_t   found = 0;                                                                      \
        size_t     i = 0, k;                                                                       \
                                                                                                   \
        for (; i + GROUP * L <= n; i += GROUP * L) {                                               \
            for (k = 0; k < GROUP; k++)                                                            \
                found |= wide_equal_##s(*(const w##s##_mem *)(a + i + k * L), x) << k * L * BITS;  \
            if (found)                                                                             \
                return i + (size_t)__builtin_ctzll(found) / BITS;                                  \
        }                                                                                          \
        /* The last vector lies over those before it. */                                           \
        for (k = 0; i + (k + 1) * L <= n; k++)                                                     \
            found |= wide_equal_##s(*(const w##s##_mem *)(a + i + k * L), x) << k * L * BITS;      \
        if (found)                                                                                 \
            return i + (size_t)__builtin_ctzll(found) / BITS;                                      \
        found = wide_equal_##s(*(const w##s##_mem *)(a + n - L), x);                               \
        return n - L + (size_t)__builtin_ctzll(found) / BITS;                                      \
    }
EACH_INT(WIDE_SEARCH)
WIDE_SEARCH(f32, float)
WIDE_SEARCH(f64, double)

#endif
