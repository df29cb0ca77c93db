/* backends/cpu/reduce_vec.h -- vectors of one instruction-set level: types and the few operations
 * that plain C cannot say. Part of reduce.inc.c.
 *
 * Vectors are 32 bytes from v3 on, 16 below. Sums gain nothing from 64 on v4: the pairwise tree of f32 has
 * eight lanes by definition. Searches have their own (reduce_wide.h). */
#ifndef FR_BACKENDS_CPU_REDUCE_VEC_H
#define FR_BACKENDS_CPU_REDUCE_VEC_H

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

/* MACRO(suffix, type) for every integer. */
#define EACH_INT(MACRO)                                                                            \
    MACRO(i8, int8_t)                                                                              \
    MACRO(i16, int16_t)                                                                            \
    MACRO(i32, int32_t)                                                                            \
    MACRO(i64, int64_t)                                                                            \
    MACRO(u8, uint8_t)                                                                             \
    MACRO(u16, uint16_t)                                                                           \
    MACRO(u32, uint32_t)                                                                           \
    MACRO(u64, uint64_t)

/* Registers, and the same in memory: of any alignment and aliasing anything. */
typedef float    vf32 __attribute__((vector_size(VB)));
typedef double   vf64 __attribute__((vector_size(VB)));
typedef int32_t  vi32 __attribute__((vector_size(VB)));
typedef int64_t  vi64 __attribute__((vector_size(VB)));
typedef uint8_t  vu8 __attribute__((vector_size(VB)));
typedef uint8_t  vu8_mem __attribute__((vector_size(VB), aligned(1), may_alias));
typedef float    vf32_mem __attribute__((vector_size(VB), aligned(1), may_alias));
typedef double   vf64_mem __attribute__((vector_size(VB), aligned(1), may_alias));
typedef struct {
    float re, im;
} c64;
typedef struct {
    double re, im;
} c128;
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

/* <name>_max_<s>(a, b), the greater lane by lane, and <name>_min_<s> of vectors w<s>: by instructions on registers R,
 * or without. */
#define BY_CALL(name, w, s, CALL, R, suffix)                                                       \
    INLINE w##s name##_max_##s(w##s a, w##s b)                                                     \
    {                                                                                              \
        return (w##s)CALL(max_##suffix)((R)a, (R)b);                                               \
    }                                                                                              \
    INLINE w##s name##_min_##s(w##s a, w##s b)                                                     \
    {                                                                                              \
        return (w##s)CALL(min_##suffix)((R)a, (R)b);                                               \
    }
#define BY_MASK(name, w, s, u)                                                                     \
    INLINE w##s name##_max_##s(w##s a, w##s b)                                                     \
    {                                                                                              \
        w##u m = (w##u)(a > b);                                                                    \
                                                                                                   \
        return (w##s)(((w##u)a & m) | ((w##u)b & ~m));                                             \
    }                                                                                              \
    INLINE w##s name##_min_##s(w##s a, w##s b)                                                     \
    {                                                                                              \
        w##u m = (w##u)(a < b);                                                                    \
                                                                                                   \
        return (w##s)(((w##u)a & m) | ((w##u)b & ~m));                                             \
    }
/* Of integers up to 32 bits: every level that has the instructions has them for all. */
#if defined(__SSE4_1__)
#define ORDERED(name, w, s, u, CALL, R, suffix) BY_CALL(name, w, s, CALL, R, suffix)
#else
#define ORDERED(name, w, s, u, CALL, R, suffix) BY_MASK(name, w, s, u)
#endif
#define ORDER_TO_32(name, w, CALL, R)                                                              \
    ORDERED(name, w, i8, u8, CALL, R, epi8)                                                        \
    ORDERED(name, w, i16, u16, CALL, R, epi16)                                                     \
    ORDERED(name, w, i32, u32, CALL, R, epi32)                                                     \
    ORDERED(name, w, u8, u8, CALL, R, epu8)                                                        \
    ORDERED(name, w, u16, u16, CALL, R, epu16)                                                     \
    ORDERED(name, w, u32, u32, CALL, R, epu32)

/* Folds of many rows by the fold of one; A is the type of the result. */
#define ROWS(op, s, T, A)                                                                          \
    static void rows_##op##_##s(size_t n_rows, size_t n, const void *a, void *out, int64_t *index) \
    {                                                                                              \
        for (size_t t = 0; t < n_rows; t++)                                                        \
            fold_##op##_##s(n, (const T *)a + t * n, (A *)out + t, index ? index + t : NULL);      \
    }

#endif
