/* backends/cpu/divide_map.h -- integers divided by one number.
 *
 * Included by the kernels that jit/gen/main.c writes. With W bits, and 2^l the least power of two that is not below the
 * divisor d, the quotient is (Granlund and Montgomery, Division by Invariant Integers using Multiplication)
 *
 *     m = 2^W (2^l - d) / d + 1,    t = x m / 2^W,    x / d = (t + (x - t) / 2) / 2^(l - 1)    for d > 1
 *
 * each time without what a division leaves: vectors have the upper half of a product, and no quotients. Of bytes the
 * product with 2^16 / d + 1 has them by itself. A quotient's floor of x < 0 is ~(~x / d) for d > 0. */
#ifndef FR_BACKENDS_CPU_DIVIDE_MAP_H
#define FR_BACKENDS_CPU_DIVIDE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

struct divisor {
    uint32_t m;
    int      shift; /* l - 1 */
};

static inline struct divisor
divisor_of(uint32_t d, int bits)
{
    int l = 32 - __builtin_clz(d - 1);

    return (struct divisor){(uint32_t)(((((uint64_t)1 << l) - d) << bits) / d) + 1, l - 1};
}

static inline uint16_t
upper_half(uint16_t x, uint16_t y)
{
    return (uint16_t)(((uint32_t)x * y) >> 16);
}

static inline uint8_t
quotient_8(uint8_t u, uint16_t m)
{
    return (uint8_t)upper_half(u, m);
}

/* The last division is a product as well, as vectors of 16 bits are shifted only by what the compiler knows. */
static inline uint16_t
quotient_16(uint16_t u, uint16_t m, uint16_t by)
{
    const uint16_t t = upper_half(u, m);

    return upper_half((uint16_t)(t + ((uint16_t)(u - t) >> 1)), by);
}

#define EACH _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)

static inline void
divide_8(size_t n, uint8_t *r, const uint8_t *x, uint8_t d, bool sign)
{
    const uint16_t m = (uint16_t)(0x10000 / d + 1);

    if (sign)
        EACH {
            const uint8_t below = (uint8_t)((int8_t)x[i] >> 7);

            r[i] = quotient_8(x[i] ^ below, m) ^ below;
        }
    else
        EACH r[i] = quotient_8(x[i], m);
}

/* Both arguments have to come as 16 bits, or they are multiplied as 32. */
static __attribute__((noipa, unused)) void
divide_16_by(size_t n, uint16_t *r, const uint16_t *x, uint16_t m, uint16_t by, bool sign)
{
    if (sign)
        EACH {
            const uint16_t below = (uint16_t)((int16_t)x[i] >> 15);

            r[i] = quotient_16(x[i] ^ below, m, by) ^ below;
        }
    else
        EACH r[i] = quotient_16(x[i], m, by);
}

static inline void
divide_16(size_t n, uint16_t *r, const uint16_t *x, uint16_t d, bool sign)
{
    const struct divisor divisor = divisor_of(d, 16);

    if (d > 2)
        divide_16_by(n, r, x, (uint16_t)divisor.m, (uint16_t)(0x10000 >> divisor.shift), sign);
    else if (sign)
        EACH r[i] = (uint16_t)((int16_t)x[i] >> 1);
    else
        EACH r[i] = x[i] >> 1;
}

#undef EACH

/* A vector multiplies every second number of 32 bits; compilers would take more instructions for that. */
#if defined(__AVX512F__)
enum { DIVIDE_TOGETHER = 16 };

static inline void
divide_some(uint32_t *r, const uint32_t *x, struct divisor by, bool sign)
{
    const __m512i m = _mm512_set1_epi64(by.m), v = _mm512_loadu_si512(x);
    const __m512i below = sign ? _mm512_srai_epi32(v, 31) : _mm512_setzero_si512(), u = _mm512_xor_si512(v, below);
    const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(u, m), 32), odd = _mm512_mul_epu32(_mm512_srli_epi64(u, 32), m);
    const __m512i t = _mm512_mask_blend_epi32(0xaaaa, even, odd);
    const __m512i sum = _mm512_add_epi32(t, _mm512_srli_epi32(_mm512_sub_epi32(u, t), 1));

    _mm512_storeu_si512(r, _mm512_xor_si512(_mm512_srl_epi32(sum, _mm_cvtsi32_si128(by.shift)), below));
}
#elif defined(__AVX2__)
enum { DIVIDE_TOGETHER = 8 };

static inline void
divide_some(uint32_t *r, const uint32_t *x, struct divisor by, bool sign)
{
    const __m256i m = _mm256_set1_epi64x(by.m), v = _mm256_loadu_si256((const __m256i *)(const void *)x);
    const __m256i below = sign ? _mm256_srai_epi32(v, 31) : _mm256_setzero_si256(), u = _mm256_xor_si256(v, below);
    const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(u, m), 32), odd = _mm256_mul_epu32(_mm256_srli_epi64(u, 32), m);
    const __m256i t = _mm256_blend_epi32(even, odd, 0xaa);
    const __m256i sum = _mm256_add_epi32(t, _mm256_srli_epi32(_mm256_sub_epi32(u, t), 1));

    _mm256_storeu_si256((__m256i *)(void *)r, _mm256_xor_si256(_mm256_srl_epi32(sum, _mm_cvtsi32_si128(by.shift)), below));
}
#else
enum { DIVIDE_TOGETHER = 1 };

static inline void
divide_some(uint32_t *r, const uint32_t *x, struct divisor by, bool sign)
{
    const uint32_t below = sign ? (uint32_t)((int32_t)*x >> 31) : 0, u = *x ^ below;
    const uint32_t t = (uint32_t)(((uint64_t)u * by.m) >> 32);

    *r = ((t + ((u - t) >> 1)) >> by.shift) ^ below;
}
#endif

static inline void
divide_32(size_t n, uint32_t *r, const uint32_t *x, uint32_t d, bool sign)
{
    const struct divisor by = divisor_of(d, 32);
    size_t               i = 0;
    uint32_t             last[DIVIDE_TOGETHER] = {0};

    if (sign)
        for (; i + DIVIDE_TOGETHER <= n; i += DIVIDE_TOGETHER)
            divide_some(r + i, x + i, by, true);
    else
        for (; i + DIVIDE_TOGETHER <= n; i += DIVIDE_TOGETHER)
            divide_some(r + i, x + i, by, false);
    if (i < n) {
        memcpy(last, x + i, (n - i) * sizeof *x);
        divide_some(last, last, by, sign);
        memcpy(r + i, last, (n - i) * sizeof *x);
    }
}

/* Elements of `size` bytes. By 0 is 0, and raises the processor's flag. */
static inline void
divide_whole(size_t n, void *r, const void *x, uint32_t d, size_t size, bool sign)
{
    volatile float zero = 0;

    if (d == 0) {
        zero = 1 / zero;
        memset(r, 0, n * size);
    } else if (d == 1) {
        memmove(r, x, n * size);
    } else if (size == 1) {
        divide_8(n, r, x, (uint8_t)d, sign);
    } else if (size == 2) {
        divide_16(n, r, x, (uint16_t)d, sign);
    } else {
        divide_32(n, r, x, d, sign);
    }
}

#endif
