/* jit/recipe_half.c -- half precision in integer micro code: widening to F32 and rounding back.
 * Nothing here needs hardware that knows the format, and a compiler can vectorise all of it. */
#include <math.h>

#include "jit/recipe_int.h"

enum { HALF_MANT = 10, HALF_BIAS = 15 };

/*  f16  s eeeee mmmmmmmmmm      A normal number moves 13 bits to the left and its exponent grows
 *  f32  s eeeeeeee mmmmmmm...   by 112; infinities and NaNs need 112 more; a subnormal number
 *                               is its mantissa, as an integer, times 2^-24. */
fr_mval
fr_half_widen(code_t c, fr_mval bits)
{
    fr_mval h = m_cvt(c, FR_U32, bits);
    fr_mval sign = m_shl(c, m_and(c, h, m_int(c, FR_U32, 0x8000)), m_int(c, FR_U32, 16));
    fr_mval mag = m_and(c, h, m_int(c, FR_U32, 0x7fff));
    fr_mval up = m_shl(c, mag, m_int(c, FR_U32, 13));
    fr_mval grown = m_add(c, up, m_int(c, FR_U32, 112 << 23));
    fr_mval special = m_le(c, m_int(c, FR_U32, 0x7c00), mag);
    fr_mval tiny = m_lt(c, mag, m_int(c, FR_U32, 1 << HALF_MANT));
    fr_mval sub = m_mul(c, m_cvt(c, FR_F32, m_bitcast(c, FR_I32, mag)), m_real(c, FR_F32, 0x1p-24));
    fr_mval r;

    r = m_select(c, special, m_add(c, grown, m_int(c, FR_U32, 112 << 23)), grown);
    r = m_select(c, tiny, m_bitcast(c, FR_U32, sub), r);
    return m_bitcast(c, FR_F32, m_or(c, r, sign));
}

/* Works on the bits of F32 and F64 alike, so a double is rounded once and not through F32. */
fr_mval
fr_half_narrow(code_t c, fr_mval v)
{
    fr_dtype type = m_type(c, v), u = m_uint_of(type);
    int      width = 8 * fr_dtype_size(type), mant = type == FR_F32 ? 23 : 52;
    int64_t  bias = type == FR_F32 ? 127 : 1023, drop = mant - HALF_MANT;
    fr_mval  bits = m_bitcast(c, u, v);
    fr_mval  sign = m_and(c, m_shr(c, bits, m_int(c, u, width - 16)), m_int(c, u, 0x8000));
    fr_mval  mag = m_bitcast(c, u, m_abs(c, v));
    fr_mval  even = m_and(c, m_shr(c, mag, m_int(c, u, drop)), m_int(c, u, 1));
    /* Rounding may carry into the exponent, up to the one of infinity: that is as it should be. */
    fr_mval  near = m_add(c, m_sub(c, mag, m_int(c, u, (bias - HALF_BIAS) << mant)),
                          m_add(c, even, m_int(c, u, (1ll << (drop - 1)) - 1)));
    fr_mval  normal = m_shr(c, near, m_int(c, u, drop));
    /* Below the normal range the distance of f16 numbers is 2^-24.  It is also the distance of the
     * numbers just above 2^(mant - 24), so adding that rounds to a multiple of it.  Of the numbers there
     * a product is added that is too small to change anything, but raises the processor's flag of underflow. */
    fr_mval  magic = m_real(c, type, type == FR_F32 ? 0.5 : 0x1p28);
    fr_mval  below = m_lt(c, mag, m_int(c, u, (bias - HALF_BIAS + 1) << mant));
    fr_mval  small = m_select(c, below, m_abs(c, v), m_real(c, type, 0.0));
    fr_mval  traces = m_mul(c, small, m_real(c, type, type == FR_F32 ? 0x1.555556p-113 : 0x1.5555555555555p-1009));
    fr_mval  sub = m_sub(c, m_bitcast(c, u, m_add(c, m_add(c, small, traces), magic)), m_bitcast(c, u, magic));
    fr_mval  payload = m_and(c, m_shr(c, mag, m_int(c, u, drop)), m_int(c, u, 0x3ff));
    fr_mval  is_nan = m_lt(c, m_int(c, u, ((2 * bias + 1) << mant)), mag);
    fr_mval  huge, infinite, r;

    r = m_select(c, below, sub, normal);
    huge = m_le(c, m_int(c, u, ((bias + HALF_BIAS) << mant) + (0x7ffll << (mant - 11))), mag);
    /* Infinity, which is what 65520 and more become, is that of a product that overflows and raises the processor's flag. */
    infinite = m_bitcast(c, u, m_mul(c, m_abs(c, v), m_real(c, type, type == FR_F32 ? 0x1.001002p112 : 0x1.001001001002p1008)));
    infinite = m_and(c, m_shr(c, infinite, m_int(c, u, drop)), m_int(c, u, 0x7c00));
    r = m_select(c, huge, infinite, r);
    r = m_select(c, is_nan, m_or(c, payload, m_int(c, u, 0x7e00)), r);
    return m_cvt(c, FR_U16, m_or(c, r, sign));
}

/* Adding 1.5 * 2^13 times the power of two below a number, and taking it away again, rounds it to the eleven bits that
 * a half has: they are what is left of it in the sum. Below the normal range the distance of halves stays, and so
 * does what is added. From 2^16 on, where what is added need not grow, all is infinite: so far up do two factors
 * push it. Of a sum that is nothing the sign is put back. */
fr_mval
fr_recipe_round_half(code_t c, fr_mval v)
{
    enum { LOWEST = 113 << 23, HIGHEST = 143 << 23, GROWN = (13 << 23) + (1 << 22) };
    fr_mval bits = m_bitcast(c, FR_I32, v), magic, r;
    fr_mval power = m_clamp(c, m_and(c, bits, m_int(c, FR_I32, 0x7f800000)), LOWEST, HIGHEST);

    magic = m_bitcast(c, FR_F32, m_add(c, power, m_int(c, FR_I32, GROWN)));
    r = m_sub(c, m_add(c, v, magic), magic);
    r = m_mul(c, m_mul(c, r, m_real(c, FR_F32, 0x1p112)), m_real(c, FR_F32, 0x1p-112));
    return m_bitcast(c, FR_F32, m_or(c, m_bitcast(c, FR_I32, r), m_and(c, bits, m_int(c, FR_I32, INT32_MIN))));
}
