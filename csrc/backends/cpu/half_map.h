/* backends/cpu/half_map.h -- block kernels of half precision by those of single precision.
 *
 * Included by the kernels that jit/gen/main.c writes, once per level, after the names of that level: where the
 * processor converts by itself (F16C), a block goes through floats a register at a time. */
#ifndef FR_BACKENDS_CPU_HALF_MAP_H
#define FR_BACKENDS_CPU_HALF_MAP_H

#include <stdint.h>
#include <string.h>

#include "backends/cpu/kernels.h"

#if defined __F16C__
#include <immintrin.h>

#if defined __AVX512F__
enum { HALF_LANES = 16 };
#define WIDEN_HALVES(to, from)                                                                     \
    _mm512_storeu_ps(to, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from))))
#define ROUND_HALVES(to, from)                                                                     \
    _mm256_storeu_si256((__m256i *)(to), _mm512_cvtps_ph(_mm512_loadu_ps(from), 0))
#else
enum { HALF_LANES = 8 };
#define WIDEN_HALVES(to, from)                                                                     \
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#define ROUND_HALVES(to, from)                                                                     \
    _mm_storeu_si128((__m128i *)(to), _mm256_cvtps_ph(_mm256_loadu_ps(from), 0))
#endif

/* Registers first, then what is left over by way of a whole one. */
#define CONVERT(name, to_type, from_type, CONVERT_LANES)                                           \
    static inline void name(size_t n, to_type *to, const from_type *from)                          \
    {                                                                                              \
        from_type last[HALF_LANES] = {0};                                                          \
        to_type   done[HALF_LANES];                                                                \
        size_t    i;                                                                               \
                                                                                                   \
        for (i = 0; i + HALF_LANES <= n; i += HALF_LANES)                                          \
            CONVERT_LANES(to + i, from + i);                                                       \
        if (i < n) {                                                                               \
            memcpy(last, from + i, (n - i) * sizeof *from);                                        \
            CONVERT_LANES(done, last);                                                             \
            memcpy(to + i, done, (n - i) * sizeof *to);                                            \
        }                                                                                          \
    }
CONVERT(widen_halves, float, uint16_t, WIDEN_HALVES)
CONVERT(round_halves, uint16_t, float, ROUND_HALVES)
#undef CONVERT
#else
fr_map_fn K(cast_f16_f32), K(cast_f32_f16);

static inline void
widen_halves(size_t n, float *to, const uint16_t *from)
{
    K(cast_f16_f32)(n, to, from, NULL, NULL, 0);
}

static inline void
round_halves(size_t n, uint16_t *to, const float *from)
{
    K(cast_f32_f16)(n, to, from, NULL, NULL, 0);
}
#endif

/* `f` is the same operation in single precision; arguments of two bytes are half precision, others
 * are its own. */
static __attribute__((noinline, unused)) void
half_map(fr_map_fn *f, size_t n, const void *const *args, unsigned once, uint16_t *out,
         const size_t *size, int n_args)
{
    enum { HALVES = 512 };
    _Alignas(64) float wide[4][HALVES];
    const void        *a[3] = {NULL, NULL, NULL};

    for (size_t i = 0, m; i < n; i += m) {
        m = n - i < HALVES ? n - i : HALVES;
        for (int k = 0; k < n_args; k++) {
            size_t      at = once >> k & 1 ? 0 : i, count = once >> k & 1 ? 1 : m;
            const char *from = (const char *)args[k] + at * size[k];

            a[k] = size[k] == sizeof(uint16_t) ? (const void *)wide[k] : from;
            if (size[k] == sizeof(uint16_t))
                widen_halves(count, wide[k], (const uint16_t *)(const void *)from);
        }
        f(m, wide[3], a[0], a[1], a[2], once);
        round_halves(m, out + i, wide[3]);
    }
}

#endif
