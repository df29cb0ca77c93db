/* backends/cpu/reduce_short.h -- the greatest and least integers of short rows, four rows at a time: the extremes of
 * each lane are brought beside those of the other rows, not one row's lanes beside each other. Part of reduce.inc.c.
 *
 * q<s> is a vector of 16 bytes, q<s>_mem the same in memory. */
#ifndef FR_BACKENDS_CPU_REDUCE_SHORT_H
#define FR_BACKENDS_CPU_REDUCE_SHORT_H

#include "backends/cpu/reduce_vec.h"

enum {
    SHORT_BYTES = 16,
    SHORT_LEAST = 8,  /* bytes of a row */
    SHORT_MOST = 256, /* from here on a row is better taken by itself, in wider vectors */
};

#define SHORT_TYPE(s, T)                                                                           \
    typedef T q##s __attribute__((vector_size(SHORT_BYTES)));                                      \
    typedef T q##s##_mem __attribute__((vector_size(SHORT_BYTES), aligned(1), may_alias));
EACH_INT(SHORT_TYPE)

/* either_max_<s>(a, b): the greater, lane by lane; either_min alike. */
#define SHORT_CALL(name) _mm_##name
ORDER_TO_32(either, q, SHORT_CALL, __m128i)
#if defined(__AVX512VL__)
BY_CALL(either, q, i64, SHORT_CALL, __m128i, epi64)
BY_CALL(either, q, u64, SHORT_CALL, __m128i, epu64)
#else
BY_MASK(either, q, i64, u64)
BY_MASK(either, q, u64, u64)
#endif

#define SHORT_ENDS(s, T)                                                                           \
    /* All elements of a row of less than a vector: its first half and its last. */                \
    INLINE q##s ends_##s(size_t n, const T *a)                                                     \
    {                                                                                              \
        int64_t first, last;                                                                       \
                                                                                                   \
        memcpy(&first, a, SHORT_LEAST);                                                            \
        memcpy(&last, (const char *)(a + n) - SHORT_LEAST, SHORT_LEAST);                           \
        return (q##s)(qi64){first, last};                                                          \
    }
EACH_INT(SHORT_ENDS)

/* Half as many lanes of each of two vectors, in turns, which have the same extremes. */
#define LOW_8 {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}
#define HIGH_8 {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}
#define LOW_16 {0, 8, 1, 9, 2, 10, 3, 11}
#define HIGH_16 {4, 12, 5, 13, 6, 14, 7, 15}
#define LOW_32 {0, 4, 1, 5}
#define HIGH_32 {2, 6, 3, 7}
#define LOW_64 {0, 2}
#define HIGH_64 {1, 3}
#define SHORT_HALVES(op, s, bits)                                                                  \
    INLINE q##s halves_##op##_##s(q##s a, q##s b)                                                  \
    {                                                                                              \
        const qi##bits low = LOW_##bits, high = HIGH_##bits;                                       \
                                                                                                   \
        return either_##op##_##s(__builtin_shuffle(a, b, low), __builtin_shuffle(a, b, high));     \
    }
#define SHORT_EXTREME(op, s, T, bits)                                                              \
    SHORT_HALVES(op, s, bits)                                                                      \
    /* The extremes of the lanes of four vectors. */                                               \
    INLINE void across4_##op##_##s(const q##s *m, T *out)                                          \
    {                                                                                              \
        q##s p, q;                                                                                 \
                                                                                                   \
        if (sizeof(T) == 8) {                                                                      \
            p = halves_##op##_##s(m[0], m[1]);                                                     \
            q = halves_##op##_##s(m[2], m[3]);                                                     \
            memcpy(out, &p, sizeof p);                                                             \
            memcpy(out + 2, &q, sizeof q);                                                         \
            return;                                                                                \
        }                                                                                          \
        p = halves_##op##_##s(m[0], m[2]);                                                         \
        q = halves_##op##_##s(m[1], m[3]);                                                         \
        p = halves_##op##_##s(p, q);                                                               \
        for (size_t k = 8; k >= 4 * sizeof(T); k /= 2)                                             \
            p = either_##op##_##s(p, k == 8 ? (q##s)__builtin_shuffle((qi64)p, (qi64){1, 0})       \
                                            : (q##s)((qu64)p >> 32));                              \
        memcpy(out, &p, 4 * sizeof(T));                                                            \
    }                                                                                              \
    /* out[t] of row t, for as many rows as it returns. */                                         \
    INLINE size_t short_##op##_##s(size_t n_rows, size_t n, const T *a, T *out)                    \
    {                                                                                              \
        enum { L = SHORT_BYTES / sizeof(T) };                                                      \
        size_t t = 0;                                                                              \
                                                                                                   \
        if (n * sizeof(T) < SHORT_LEAST || n * sizeof(T) >= SHORT_MOST)                            \
            return 0;                                                                              \
        for (; t + 4 <= n_rows; t += 4, a += 4 * n) {                                              \
            q##s m[4];                                                                             \
                                                                                                   \
            for (int q = 0; q < 4; q++)                                                            \
                m[q] = n < L ? ends_##s(n, a + q * n) : (q##s) * (const q##s##_mem *)(a + q * n + n - L); \
            for (size_t i = 0; i + L < n; i += L)                                                  \
                for (int q = 0; q < 4; q++)                                                        \
                    m[q] = either_##op##_##s(m[q], *(const q##s##_mem *)(a + q * n + i));          \
            across4_##op##_##s(m, out + t);                                                        \
        }                                                                                          \
        return t;                                                                                  \
    }
#define SHORT_EXTREMES(s, T, bits)                                                                 \
    SHORT_EXTREME(max, s, T, bits)                                                                 \
    SHORT_EXTREME(min, s, T, bits)
SHORT_EXTREMES(i8, int8_t, 8)
SHORT_EXTREMES(i16, int16_t, 16)
SHORT_EXTREMES(i32, int32_t, 32)
SHORT_EXTREMES(i64, int64_t, 64)
SHORT_EXTREMES(u8, uint8_t, 8)
SHORT_EXTREMES(u16, uint16_t, 16)
SHORT_EXTREMES(u32, uint32_t, 32)
SHORT_EXTREMES(u64, uint64_t, 64)

#endif
