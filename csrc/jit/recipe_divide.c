/* jit/recipe_divide.c -- division with remainder: floor_divide, remainder and fmod.
 *
 * Vectors divide floats, not integers, and no processor has fmod. So everything here rests on
 * quotients of floats that come near enough to the whole number that is meant; each function says
 * why they do. */
#include "jit/recipe_int.h"

struct divmod {
    fr_mval q, r;
};

/* ---- integers -------------------------------------------------------------------------------- */

/* What is asked for, by NumPy's names. */
enum wanted { FLOOR_DIVIDE, REMAINDER, FMOD };

/* Where NumPy warns, a flag of the processor is to be raised, by what is computed anyway. (Which flag it is says little.) A
 * divisor of 0 raises one when it is inverted, whatever comes of that quotient, which is 0 in the end. And the smallest
 * integer has no quotient with -1: it stands for it itself. */

/* What a number is multiplied by and what is added, so that the sum rounds to its quotient's floor:
 *
 *     floor(a / b) = floor((a + 1/2) / b) = round(a * (1 / b) + (1 / b - 1) / 2)    for b > 0
 *
 * and with (1 / |b| - 1) / 2 for all b, as a / b = -a / -b.  The exact sum is at least 1 / (2 |b|)
 * away from where rounding changes.  That is more than the floats are off, if they have 4 bits more
 * than a and b: inverse, product and sum each by 2^-4 / |b| at most, the rest by 2^-4 / |b|
 * together. */
struct inverse {
    fr_mval by, plus;
};

static struct inverse
invert(code_t c, fr_mval b)
{
    fr_dtype t = m_type(c, b);
    fr_mval  one = m_real(c, t, 1), by = m_div(c, one, b);

    return (struct inverse){by, m_mul(c, m_sub(c, m_abs(c, by), one), m_real(c, t, 0.5))};
}

/* Adding 1.5 * 2^52, or 2^23, rounds to an integer, which then stands in the lowest bits. */
static fr_mval magic(code_t c, fr_dtype t) { return m_real(c, t, t == FR_F32 ? 0x1.8p23 : 0x1.8p52); }
static fr_mval rounded(code_t c, fr_mval x) { return m_add(c, x, magic(c, m_type(c, x))); }

static fr_mval
integer_of(code_t c, fr_mval rounded_x)
{
    return m_sub(c, m_bitcast(c, FR_I64, rounded_x), m_bitcast(c, FR_I64, magic(c, FR_F64)));
}

static fr_mval
floor_rounded(code_t c, fr_mval a, struct inverse inverse)
{
    return rounded(c, m_add(c, m_mul(c, a, inverse.by), inverse.plus));
}

static fr_mval
is_min_by_minus_one(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_mval least = m_int(c, in, INT64_MIN >> (64 - 8 * fr_dtype_size(in)));

    return m_and(c, m_eq(c, a, least), m_eq(c, b, m_int(c, in, -1)));
}

/* Floats for integers of up to 32 bits. */
static fr_dtype wide_for(fr_dtype in) { return fr_dtype_size(in) <= 2 ? FR_F32 : FR_F64; }

static fr_mval
widened(code_t c, fr_dtype in, fr_mval x)
{
    return m_cvt(c, wide_for(in), m_cvt(c, in == FR_U32 ? FR_U32 : FR_I32, x));
}

/* Up to 16 bits by f32, 32 bits by f64. */
static struct divmod
floor_short(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_mval       sum = floor_rounded(c, widened(c, in, a), invert(c, widened(c, in, b)));
    struct divmod d;

    d.q = m_cvt(c, in, m_bitcast(c, m_uint_of(wide_for(in)), sum));
    d.r = m_sub(c, a, m_mul(c, d.q, b));
    return d;
}

/* The quotient of signed integers as
 *
 *     floor(a / b) = floor((a + 1/4) / b) for b > 0, floor((a - 1/4) / b) for b < 0
 *
 * because that is too large just where the quotient is: it is scaled so that what is too large raises a flag.
 *
 * Up to 16 bits are scaled to the range of i32, into which they are converted; what is too large becomes the smallest. The
 * conversion cuts off less than 1 of what lies 3/4 * 2^16 / 2^15 or more below the scaled whole number.
 *
 * 32 bits are scaled to the range of f64. They are rounded as above, but 2^31 further up: what is too large, an infinity,
 * has 0 in its lowest bits, as the smallest has. */
static fr_mval
floor_signed(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_dtype wide = wide_for(in);
    int      spare = 32 - 8 * fr_dtype_size(in);
    fr_mval  x = widened(c, in, a), y = widened(c, in, b);
    fr_mval  scale = m_real(c, wide, wide == FR_F32 ? (double)(1 << spare) : 0x1p993), q;

    q = m_mul(c, m_add(c, x, m_copysign(c, m_real(c, wide, 0.25), y)), m_div(c, scale, y));
    if (wide == FR_F32)
        return m_cvt(c, in, m_shr(c, m_cvt(c, FR_I32, q), m_int(c, FR_I32, spare)));
    q = m_sub(c, m_mul(c, q, m_real(c, wide, 0x1p-993)), m_real(c, wide, 0.5));
    q = m_bitcast(c, FR_U64, m_add(c, q, m_real(c, wide, 0x1.8p52 + 0x1p31)));
    return m_xor(c, m_cvt(c, in, q), m_int(c, in, INT32_MIN));
}

/* Truncates, if i32 has the quotient.  With an inverse that is too large by 2^-20 of itself (f64:
 * 2^-42), no product comes out below the whole number that it should be.  It is too large by less
 * than 2^16 / |b| * 2^-19 (2^32 / |b| * 2^-41), and a quotient that is not whole lies 1 / |b| or
 * more below the next whole number. */
static struct divmod
trunc_short(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_dtype      wide = wide_for(in);
    fr_mval       inverse;
    struct divmod d;

    b = in == FR_I32 ? m_select(c, is_min_by_minus_one(c, in, a, b), m_int(c, in, 1), b) : b;
    inverse = m_div(c, m_real(c, wide, wide == FR_F32 ? 1 + 0x1p-20 : 1 + 0x1p-42), widened(c, in, b));
    d.q = m_cvt(c, in, m_cvt(c, FR_I32, m_mul(c, widened(c, in, a), inverse)));
    d.r = m_sub(c, a, m_mul(c, d.q, b));
    return d;
}

/* 64-bit integers that have 50 bits with their sign, in f64.  The remainder is exact, too: no
 * product is beyond 2^50. */
enum { MIDDLE_BITS = 50 };

static fr_mval
middle_to_double(code_t c, fr_mval x)
{
    fr_mval whole = magic(c, FR_F64);

    x = m_add(c, m_cvt(c, FR_I64, x), m_bitcast(c, FR_I64, whole));
    return m_sub(c, m_bitcast(c, FR_F64, x), whole);
}

static struct divmod
floor_middle(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_mval x = middle_to_double(c, a), y = middle_to_double(c, b);
    fr_mval q = floor_rounded(c, x, invert(c, y));
    fr_mval r = m_sub(c, x, m_mul(c, m_sub(c, q, magic(c, FR_F64)), y));

    return (struct divmod){m_cvt(c, in, integer_of(c, q)),
                           m_cvt(c, in, integer_of(c, rounded(c, r)))};
}

/* Whether one of two 64-bit integers has more bits than that. */
static fr_mval
is_long(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    int64_t half = is_signed(in) ? 1ll << (MIDDLE_BITS - 1) : 0;
    int     bits = is_signed(in) ? MIDDLE_BITS : MIDDLE_BITS - 1;

    a = m_add(c, m_cvt(c, FR_I64, a), m_int(c, FR_I64, half));
    b = m_add(c, m_cvt(c, FR_I64, b), m_int(c, FR_I64, half));
    return m_ne(c, m_and(c, m_or(c, a, b), m_int(c, FR_I64, -(1ll << bits))), m_int(c, FR_I64, 0));
}

/* A 64-bit integer as a double, rounded once, without a conversion: most vector units have none.
 * Its halves become the low bits of doubles of the binades of 2^52 and 2^84. */
static fr_mval
long_to_double(code_t c, fr_mval x, bool sign)
{
    fr_mval u = m_cvt(c, FR_U64, x), low, high;

    low = m_or(c, m_and(c, u, m_int(c, FR_U64, 0xffffffff)), m_bits(c, FR_U64, 0x4330000000000000));
    high = m_xor(c, m_shr(c, u, m_int(c, FR_U64, 32)),
                 m_bits(c, FR_U64, sign ? 0x4530000080000000 : 0x4530000000000000));
    high = m_sub(c, m_bitcast(c, FR_F64, high),
                 m_real(c, FR_F64, sign ? 0x1p84 + 0x1p63 + 0x1p52 : 0x1p84 + 0x1p52));
    return m_add(c, high, m_bitcast(c, FR_F64, low));
}

/* The integer nearest to a double of any size, modulo 2^64: both halves as above. */
static fr_mval
double_to_long(code_t c, fr_mval x)
{
    fr_mval high = rounded(c, m_mul(c, x, m_real(c, FR_F64, 0x1p-32)));
    fr_mval whole = m_mul(c, m_sub(c, high, m_real(c, FR_F64, 0x1.8p52)), m_real(c, FR_F64, 0x1p32));
    fr_mval low = integer_of(c, rounded(c, m_sub(c, x, whole)));

    return m_add(c, m_shl(c, m_bitcast(c, FR_I64, high), m_int(c, FR_I64, 32)), low);
}

/* 64 bits by two roundings of doubles.  The first quotient is off by at most 2^63 * 2^-51 = 2^12,
 * and by less than 1 where b is so large that 2^12 b would not fit; so the rest fits, in wrapping
 * arithmetic.  The second quotient is below 2^13, and what it leaves is at most half of b, up to
 * its rounding: only the sign may still have to be made a's. */
static struct divmod
divide_long(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    const bool    sign = is_signed(in);
    fr_mval       zero = m_int(c, FR_I64, 0), one = m_int(c, FR_I64, 1), big = zero, by = b;
    fr_mval       x, inverse, second, off, step;
    struct divmod d;

    if (!sign) { /* the rest would not fit where b has the highest bit; its quotient is 0 or 1 */
        big = m_lt(c, m_cvt(c, FR_I64, b), zero);
        by = m_select(c, big, m_int(c, in, 1), b);
    }
    inverse = m_div(c, m_real(c, FR_F64, 1.0), long_to_double(c, by, sign));
    d.q = double_to_long(c, m_mul(c, long_to_double(c, a, sign), inverse));
    x = m_cvt(c, FR_I64, a);
    by = m_cvt(c, FR_I64, by);
    d.r = m_sub(c, x, m_mul(c, d.q, by));
    second = integer_of(c, rounded(c, m_mul(c, long_to_double(c, d.r, true), inverse)));
    d.q = m_add(c, d.q, second);
    d.r = m_sub(c, d.r, m_mul(c, second, by));

    if (sign) {
        off = m_and(c, m_ne(c, d.r, zero), m_lt(c, m_xor(c, d.r, x), zero));
        step = m_select(c, m_lt(c, m_xor(c, x, by), zero), m_int(c, FR_I64, -1), one);
    } else {
        off = m_lt(c, d.r, zero);
        step = one;
    }
    d.q = m_cvt(c, in, m_select(c, off, m_sub(c, d.q, step), d.q));
    d.r = m_cvt(c, in, m_select(c, off, m_add(c, d.r, m_mul(c, step, by)), d.r));
    if (!sign) {
        fr_mval over = m_le(c, b, a);

        d.q = m_select(c, big, m_cvt(c, in, over), d.q);
        d.r = m_select(c, big, m_select(c, over, m_sub(c, a, b), a), d.r);
    }
    return d;
}

/* The remainder of the other sign, where there is one: from truncation to floor and back. */
static fr_mval
wrong_sign(code_t c, fr_mval r, fr_mval like)
{
    fr_mval zero = m_int(c, m_type(c, r), 0);

    return m_and(c, m_ne(c, r, zero), m_lt(c, m_xor(c, r, like), zero));
}

/* All 64 bits. For the sake of a quotient that there is not, 0 is divided by; a remainder there is, as with 1. */
static struct divmod
floor_long(code_t c, fr_dtype in, fr_mval a, fr_mval b, enum wanted wanted)
{
    fr_mval       none, off, by;
    struct divmod d;

    if (!is_signed(in))
        return divide_long(c, in, a, b);
    none = is_min_by_minus_one(c, in, a, b);
    by = m_select(c, none, m_int(c, in, wanted != FLOOR_DIVIDE), b);
    d = divide_long(c, in, a, by);
    off = wrong_sign(c, d.r, by);
    d.q = m_select(c, off, m_sub(c, d.q, m_int(c, in, 1)), d.q);
    d.q = m_select(c, none, a, d.q);
    d.r = m_select(c, off, m_add(c, d.r, by), d.r);
    return d;
}

/* 64 bits; rarely all of them. */
static struct divmod
floor_whole(code_t c, fr_dtype in, fr_mval a, fr_mval b, enum wanted wanted)
{
    fr_mval       big = is_long(c, in, a, b);
    struct divmod any = floor_long(c, in, a, b, wanted), d = floor_middle(c, in, a, b);

    return (struct divmod){m_rare(c, big, any.q, d.q), m_rare(c, big, any.r, d.r)};
}

/* Where the divisor is not 0. */
static fr_mval
divide_any(code_t c, fr_dtype in, fr_mval a, fr_mval b, enum wanted wanted)
{
    struct divmod d;

    if (fr_dtype_size(in) == 8)
        d = floor_whole(c, in, a, b, wanted);
    else if (is_signed(in) ? wanted == FMOD : wide_for(in) == FR_F32)
        return wanted == FLOOR_DIVIDE ? trunc_short(c, in, a, b).q : trunc_short(c, in, a, b).r;
    else if (is_signed(in) && wanted == FLOOR_DIVIDE)
        return floor_signed(c, in, a, b);
    else
        d = floor_short(c, in, a, b);
    if (wanted == FMOD && is_signed(in))
        return m_select(c, wrong_sign(c, d.r, a), m_sub(c, d.r, b), d.r);
    return wanted == FLOOR_DIVIDE ? d.q : d.r;
}

static fr_mval
divide_ints(code_t c, fr_dtype in, fr_mval a, fr_mval b, enum wanted wanted)
{
    fr_mval zero = m_int(c, in, 0);

    /* A mask: a selection may become a branch, which leaves the division out, and with it the flag. */
    return m_and(c, m_sub(c, zero, m_cvt(c, in, m_ne(c, b, zero))), divide_any(c, in, a, b, wanted));
}

/* ---- floats ---------------------------------------------------------------------------------- */

static fr_mval
leading_half(code_t c, fr_mval x)
{
    fr_dtype t = m_type(c, x), word = m_uint_of(t);
    fr_mval  mask = m_int(c, word, -(1ll << (t == FR_F32 ? 12 : 27)));

    return m_bitcast(c, t, m_and(c, m_bitcast(c, word, x), mask));
}

/* a - q b, where it is no larger than b / 2 and q a whole number below 2^21 (f64: 2^50).  The
 * products of halves are floats, and so is each difference: it is less than its first operand, or
 * no more than b's last half times q, or q's times b, and a multiple of the last place of one of
 * those products.  (FMA would do it at once, but is a call where the processor has none.) */
static fr_mval
subtract_product(code_t c, fr_mval a, fr_mval q, fr_mval b)
{
    fr_mval qh = leading_half(c, q), ql = m_sub(c, q, qh), bh = leading_half(c, b);
    fr_mval bl = m_sub(c, b, bh);

    a = m_sub(c, m_sub(c, a, m_mul(c, qh, bh)), m_mul(c, qh, bl));
    return m_sub(c, m_sub(c, a, m_mul(c, ql, bh)), m_mul(c, ql, bl));
}

/* a / b of numbers without signs: the whole number next to the quotient, and what it leaves, which
 * may be negative.
 *
 * Where the rounded quotient is below 2^50 (f32: 2^21), the whole number q next to it is floor(a /
 * b) or 1 more.  So a - q b is b / 2 at most, and a multiple of the last place of a or b: it is a
 * float.  If q is 0, it is a, also for infinite b.
 *
 * What reaches the limit, as NaN, infinite dividends and divisors of 0 all do, is `large`, and so
 * is what has a q b that overflows: its rest is infinite or NaN. */
struct rest {
    fr_mval q, r, large;
};

static struct rest
divide_sizes(code_t c, fr_mval a, fr_mval b)
{
    const fr_dtype t = m_type(c, a);
    fr_mval        zero = m_real(c, t, 0), ratio = m_div(c, a, b), below;
    struct rest    d;

    d.q = m_sub(c, rounded(c, ratio), magic(c, t));
    d.r = m_select(c, m_eq(c, d.q, zero), a, subtract_product(c, a, d.q, b));
    below = m_lt(c, ratio, m_real(c, t, t == FR_F32 ? 0x1p21 : 0x1p50));
    d.large = m_ne(c, m_select(c, below, m_mul(c, d.r, zero), m_real(c, t, 1)), zero);
    return d;
}

/* NumPy's division of floats: the exact remainder first, moved to the sign of the divisor, then the
 * quotient that belongs to it, snapped to an integer. */
static struct divmod
floor_any(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_mval       zero = m_real(c, in, 0.0), one = m_real(c, in, 1.0);
    fr_mval       mod = m_fmod(c, a, b), ratio = m_div(c, a, b);
    fr_mval       div = m_div(c, m_sub(c, a, mod), b);
    fr_mval       some = m_ne(c, mod, zero), move, whole, above, by_zero = m_eq(c, b, zero);
    struct divmod d;

    move = m_and(c, some, m_xor(c, m_lt(c, b, zero), m_lt(c, mod, zero)));
    d.r = m_select(c, move, m_add(c, mod, b), mod);
    div = m_select(c, move, m_sub(c, div, one), div);
    d.r = m_select(c, some, d.r, m_copysign(c, zero, b));

    whole = m_floor(c, div);
    above = m_lt(c, m_real(c, in, 0.5), m_sub(c, div, whole));
    whole = m_select(c, above, m_add(c, whole, one), whole);
    d.q = m_select(c, m_eq(c, div, zero), m_copysign(c, zero, ratio), whole);

    d.q = m_select(c, by_zero, ratio, d.q);
    d.r = m_select(c, by_zero, mod, d.r);
    return d;
}

/* The same from the quotient of sizes.  The rest takes the sign of a / b, the remainder that of b.
 * A rest that is negative then moves up by |b|: if the signs are equal, because q is above the
 * quotient (the sum is exact), if they differ, because NumPy moves fmod's result there, with the
 * same rounding.  Where both is the case, moving there and back leaves what it is: both are exact.
 *
 * NumPy's quotient, (a - fmod) / b and perhaps 1 less, is rounded three times.  Below 2^50 (f32:
 * 2^21) it is off by less than 1/2 and snaps to the whole number that it is here.  A zero has the
 * sign of a / b. */
static struct divmod
floor_floats(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    const fr_dtype word = m_uint_of(in);
    fr_mval        top = m_int(c, word, (int64_t)(1ull << (8 * fr_dtype_size(in) - 1)));
    fr_mval        size = m_abs(c, b), sign, off;
    struct rest    rest = divide_sizes(c, m_abs(c, a), size);
    struct divmod  any = floor_any(c, in, a, b), d;

    sign = m_and(c, m_xor(c, m_bitcast(c, word, a), m_bitcast(c, word, b)), top);
    d.q = m_bitcast(c, in, m_xor(c, m_bitcast(c, word, rest.q), sign));
    d.r = m_bitcast(c, in, m_xor(c, m_bitcast(c, word, rest.r), sign));
    off = m_lt(c, d.r, m_real(c, in, 0));
    d.q = m_select(c, off, m_sub(c, d.q, m_real(c, in, 1)), d.q);
    d.r = m_copysign(c, m_select(c, off, m_add(c, d.r, size), d.r), b);
    d.q = m_rare(c, rest.large, any.q, d.q);
    d.r = m_rare(c, rest.large, any.r, d.r);
    return d;
}

static fr_mval
fmod_floats(code_t c, fr_dtype in, fr_mval a, fr_mval b)
{
    fr_mval     size = m_abs(c, b), r;
    struct rest rest = divide_sizes(c, m_abs(c, a), size);

    r = m_select(c, m_lt(c, rest.r, m_real(c, in, 0)), m_add(c, rest.r, size), rest.r);
    return m_rare(c, rest.large, m_fmod(c, a, b), m_copysign(c, r, a));
}

/* ---- recipes --------------------------------------------------------------------------------- */

RECIPE(floor_divide)
{
    fr_mval a = x[0].re, b = x[1].re;

    out->re = fr_dtype_is_float(in) ? floor_floats(c, in, a, b).q : divide_ints(c, in, a, b, FLOOR_DIVIDE);
}

RECIPE(remainder)
{
    fr_mval a = x[0].re, b = x[1].re;

    out->re = fr_dtype_is_float(in) ? floor_floats(c, in, a, b).r : divide_ints(c, in, a, b, REMAINDER);
}

RECIPE(fmod)
{
    fr_mval a = x[0].re, b = x[1].re;

    out->re = fr_dtype_is_float(in) ? fmod_floats(c, in, a, b) : divide_ints(c, in, a, b, FMOD);
}
