#include "core/number.h"

#include <math.h>
#include <string.h>

uint16_t
fr_half_from_double(double v)
{
    uint64_t b, mant;
    uint16_t sign;
    int      e;

    memcpy(&b, &v, sizeof b);
    sign = (uint16_t)(b >> 48 & 0x8000);
    e = (int)(b >> 52 & 0x7ff);
    mant = b & 0xfffffffffffffu;
    if (e == 0x7ff)
        return sign | 0x7c00 | (mant ? 0x200 | (uint16_t)(mant >> 42) : 0);
    e -= 1023 - 15;
    if (e >= 31)
        return sign | 0x7c00;
    if (e <= 0) {                      /* subnormal: shift the implicit bit in as well */
        int      shift = 43 - e;
        uint64_t full = mant | 1ull << 52, half, rest;

        if (shift > 54)
            return sign;
        half = full >> shift;
        rest = full & ((1ull << shift) - 1);
        if (rest > 1ull << (shift - 1) || (rest == 1ull << (shift - 1) && (half & 1)))
            half++;
        return sign | (uint16_t)half;
    }
    {
        uint64_t half = (uint64_t)e << 10 | mant >> 42, rest = mant & ((1ull << 42) - 1);

        if (rest > 1ull << 41 || (rest == 1ull << 41 && (half & 1)))
            half++;                    /* may carry into the exponent, up to infinity: right */
        return sign | (uint16_t)half;
    }
}

double
fr_half_to_double(uint16_t h)
{
    int    e = h >> 10 & 31, m = h & 1023;
    double v = e == 31 ? (m ? NAN : INFINITY)
               : e == 0 ? ldexp(m, -24) : ldexp(m + 1024, e - 25);

    return h & 0x8000 ? -v : v;
}

static double
as_double(const struct fr_number *n)
{
    char k = n->weak ? n->weak : fr_dtype_kind(n->dtype);

    switch (k) {
    case 'f': return n->v.f64;
    case 'c': return n->v.c128[0];
    case 'u': return (double)n->v.u64;
    default:
        if (n->huge)
            return n->negative ? -INFINITY : (double)n->v.u64;
        return (double)n->v.i64;
    }
}

static fr_status
int_bits(const struct fr_number *n, fr_dtype to, uint64_t *bits, struct fr_err *err)
{
    int     width = fr_dtype_size(to) * 8;
    bool    is_signed = fr_dtype_kind(to) == 'i';
    int64_t v = n->v.i64;
    bool    fits;

    if (n->huge) {
        fits = to == FR_U64 && !n->negative;
    } else if (is_signed) {
        fits = width == 64 || (v >= -(1ll << (width - 1)) && v < 1ll << (width - 1));
    } else {
        fits = v >= 0 && (width == 64 || v < 1ll << width);
    }
    if (n->weak && !fits) {
        if (n->huge)
            return fr_fail(err, FR_EOVERFLOW, "Python integer out of bounds for %sint%d",
                           is_signed ? "" : "u", width);
        return fr_fail(err, FR_EOVERFLOW, "Python integer %lld out of bounds for %sint%d",
                       (long long)v, is_signed ? "" : "u", width);
    }
    *bits = n->v.u64;
    return FR_OK;
}

fr_status
fr_number_bits(const struct fr_number *n, fr_dtype to, uint64_t bits[2], struct fr_err *err)
{
    char     k = n->weak ? n->weak : fr_dtype_kind(n->dtype);
    double   re, im;
    float    f;

    bits[0] = bits[1] = 0;
    switch (fr_dtype_kind(to)) {
    case 'b':
        if (k == 'c')
            bits[0] = n->v.c128[0] != 0 || n->v.c128[1] != 0;
        else
            bits[0] = k == 'f' ? n->v.f64 != 0 : n->v.u64 != 0 || n->huge;
        return FR_OK;
    case 'i':
    case 'u':
        if (k == 'f' || k == 'c') {
            re = as_double(n);
            /* As a C cast on x86-64: through int64, or uint64 for the largest type. */
            bits[0] = to == FR_U64 && re >= 9223372036854775808.0 ? (uint64_t)re
                      : re >= -9223372036854775808.0 && re < 9223372036854775808.0
                          ? (uint64_t)(int64_t)re
                          : 1ull << 63;
        } else {
            fr_status st = int_bits(n, to, &bits[0], err);

            if (st != FR_OK)
                return st;
        }
        if (fr_dtype_size(to) < 8)
            bits[0] &= (1ull << 8 * fr_dtype_size(to)) - 1;
        return FR_OK;
    default:
        re = as_double(n);
        im = k == 'c' ? n->v.c128[1] : 0.0;
        switch (to) {
        case FR_F16: bits[0] = fr_half_from_double(re); break;
        case FR_F32:
            f = (float)re;
            memcpy(&bits[0], &f, sizeof f);
            break;
        case FR_F64: memcpy(&bits[0], &re, sizeof re); break;
        case FR_C64:
            f = (float)re;
            memcpy(&bits[0], &f, sizeof f);
            f = (float)im;
            memcpy((char *)&bits[0] + 4, &f, sizeof f);
            break;
        default:
            memcpy(&bits[0], &re, sizeof re);
            memcpy(&bits[1], &im, sizeof im);
        }
        return FR_OK;
    }
}

bool
fr_number_narrowed(const struct fr_number *n, fr_dtype to, const uint64_t bits[2])
{
    float part[2] = {0};

    if (to == FR_F16)
        return (bits[0] & 0x7fff) == 0x7c00 && isfinite(as_double(n));
    memcpy(part, bits, (size_t)fr_dtype_size(to));
    return (isinf(part[0]) && isfinite(as_double(n))) || (isinf(part[1]) && isfinite(n->v.c128[1]));
}

bool
fr_number_invert(fr_dtype d, double *v)
{
    int      largest = d == FR_F16 ? 14 : d == FR_F32 ? 126 : 1022, exponent;
    uint64_t bits;

    memcpy(&bits, v, sizeof bits);
    exponent = (int)(bits >> 52 & 2047) - 1023;
    if (bits << 12 || exponent > largest || exponent < -largest || fr_dtype_is_complex(d))
        return false;
    *v = 1 / *v;
    return true;
}
