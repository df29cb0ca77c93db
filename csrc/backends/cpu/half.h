/* backends/cpu/half.h -- half precision to single and back, in integer arithmetic.
 *
 * For the scalar ends of loops and for machines without F16C; rounds to nearest even, as the
 * instructions do. Private to the kernels of this folder. */
#ifndef FR_BACKENDS_CPU_HALF_H
#define FR_BACKENDS_CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline float
half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, body = (uint32_t)(h & 0x7fff) << 13, u;
    float    f;

    if (body >= 0x0f800000u) { /* infinity or NaN: a quiet one, as the instruction makes it */
        u = body + (112u << 23) + (112u << 23);
        if (body > 0x0f800000u)
            u |= 0x00400000u;
        u |= sign;
        memcpy(&f, &u, sizeof f);
        return f;
    }
    if (body < 0x00800000u) { /* zero or subnormal: exact in single precision */
        f = (float)(h & 0x7fff) * 0x1p-24f;
        memcpy(&u, &f, sizeof u);
        u |= sign;
        memcpy(&f, &u, sizeof f);
        return f;
    }
    u = sign | (body + (112u << 23));
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint16_t
float_to_half(float f)
{
    uint32_t u, sign, body;
    uint16_t h;

    memcpy(&u, &f, sizeof u);
    sign = u >> 16 & 0x8000;
    body = u & 0x7fffffff;
    if (body > 0x7f800000u)
        h = (uint16_t)(0x7e00 | (body >> 13 & 0x03ff));
    else if (body >= 0x477ff000u) { /* rounds to 2^16 or above: infinity, by an overflow, which raises the processor's flag */
        f *= 0x1p120f;
        memcpy(&u, &f, sizeof u);
        h = (uint16_t)(u >> 13 & 0x7c00);
    } else if (body < 0x38800000u) { /* below 2^-14: adding 1/2 rounds at 2^-24 */
        float    r;
        uint32_t bits;

        memcpy(&r, &body, sizeof r);
        r += 0.5f;
        memcpy(&bits, &r, sizeof bits);
        h = (uint16_t)(bits - 0x3f000000u);
    } else {
        h = (uint16_t)((body - (112u << 23) + 0xfff + (body >> 13 & 1)) >> 13);
    }
    return (uint16_t)(sign | h);
}

#endif
