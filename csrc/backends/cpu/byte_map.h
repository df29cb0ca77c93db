/* backends/cpu/byte_map.h -- products of bytes.
 *
 * Included by the kernels that jit/gen/main.c writes. No processor multiplies vectors of bytes, and to widen them and
 * narrow the products takes more than those. So two neighbours are one number of 16 bits: its product with another has
 * the lower two's in its lower half, and the upper ones meet alone where the others are shifted out or masked away. */
#ifndef FR_BACKENDS_CPU_BYTE_MAP_H
#define FR_BACKENDS_CPU_BYTE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef uint16_t byte_pair __attribute__((aligned(1), may_alias));

static inline uint16_t
multiply_pair(uint16_t x, uint16_t y)
{
    return (uint16_t)((uint16_t)((uint32_t)x * y) & 0xff) | (uint16_t)((uint32_t)(x >> 8) * (y & 0xff00));
}

/* The contract of fr_map_fn; signs do not matter. */
static inline void
multiply_bytes(size_t n, uint8_t *out, const uint8_t *a, const uint8_t *b, unsigned once)
{
    const byte_pair *x = (const byte_pair *)a, *y = (const byte_pair *)b;
    const uint16_t   x_once = (uint16_t)(a[0] * 0x101), y_once = (uint16_t)(b[0] * 0x101);
    byte_pair       *r = (byte_pair *)out;
    const uint8_t    last_a = a[once & 1 ? 0 : n - 1], last_b = b[once & 2 ? 0 : n - 1];

#define PAIRS(X, Y) _Pragma("GCC ivdep") for (size_t i = 0; i < n / 2; i++) r[i] = multiply_pair(X, Y)
    switch (once & 3) {
    case 0: PAIRS(x[i], y[i]); break;
    case 1: PAIRS(x_once, y[i]); break;
    case 2: PAIRS(x[i], y_once); break;
    default: PAIRS(x_once, y_once);
    }
#undef PAIRS
    if (n % 2)
        out[n - 1] = (uint8_t)(last_a * last_b);
}

#endif
