/* jit/recipe_math_power.c -- powers and roots of real numbers. */
#include "jit/recipe_math_core.h"

/* Makes the largest |h| below the smallest, 0.1021. */
#define CBRT_START -0.068

/* With a = |x|: a third of its bits, taken from a constant, are those of r = a^(-1/3) to 3.4 percent. A series in
 * h = 1 - a r^3 refines it, and y = a r^2 is corrected with what y^3 lacks to a. Only numbers so small that this
 * would underflow take another way; 0 does not. */
REAL_RECIPE(cbrt)
{
    /* Bits become a number in the fraction of 2^FRACTION, where there is no place for the last ones. */
    int      spare = t == FR_F32 ? 9 : 12;
    double   tiny = t == FR_F32 ? 0x1p-100 : 0x1p-900, lift = t == FR_F32 ? 0x1p90 : 0x1p300;
    double   top = ldexp(1, FRACTION), start = ldexp(BIAS * 4.0 / 3 + CBRT_START, FRACTION - spare);
    fr_mval  x = in[0].re, a = ABS(x), low = LT(a, K(tiny)), rare, r, h, s, y;

    rare = m_lt(c, m_sub(c, BITS(a), U(1)), U(bits_of(t, tiny) - 1));
    a = RARE(rare, SEL(low, MUL(a, K(lift)), a), a);
    r = FMA(REAL(OR(SHR(BITS(a), spare), U(bits_of(t, top)))), K(-1.0 / 3), K(top + start + top / 3));
    r = REAL(SHL(BITS(r), spare));
    h = FMA(NEG(MUL(r, r)), MUL(a, r), K(1));
    r = FMA(MUL(r, h), t == FR_F32 ? POLY(h, CBRT_F32) : POLY(h, CBRT_F64), r);
    s = MUL(r, r);
    y = MUL(a, s);
    h = FMA(NEG(MUL(y, y)), y, a);
    y = FMA(h, MUL(s, K(1.0 / 3)), y);
    y = RARE(rare, SEL(low, MUL(y, K(t == FR_F32 ? 0x1p-30 : 0x1p-100)), y), y);
    out->re = with_sign(c, t, SEL(LT(a, K(INFINITY)), y, a), x);
}

/* sqrt(a^2 + b^2) of numbers without signs, scaled so that the larger is in [2, 4), with what squares and sum lost
 * and, of doubles, the root. A correctly rounded sum alone gives floats to 0.86 ULP: the root halves its error. */
static fr_mval
hypot_scaled(code_t c, fr_dtype t, fr_mval a, fr_mval b)
{
    uint64_t fractions = ((uint64_t)1 << FRACTION) - 1;
    fr_mval  swap = LT(a, b);
    fr_mval  big = SEL(swap, b, a), small = SEL(swap, a, b);
    fr_mval  exponent = AND(BITS(at_least(c, t, big, ldexp(1, 1 - BIAS))), U((SIGN_BIT - 1) & ~fractions));
    fr_mval  s = REAL(m_sub(c, U((uint64_t)(2 * BIAS + 1) << FRACTION), exponent)), size;
    struct two xx, yy, sum, r;

    big = MUL(big, s);
    small = MUL(small, s);
    xx = product_exact(c, big, big);
    yy = product_exact(c, small, small);
    sum = sum_sorted(c, xx.hi, yy.hi);
    sum.lo = ADD(sum.lo, ADD(xx.lo, yy.lo));
    if (t == FR_F32) {
        size = SQRT(ADD(sum.hi, sum.lo));
    } else {
        r = root(c, t, sum);
        size = ADD(r.hi, r.lo);
    }
    return MUL(MUL(size, K(0.5)), REAL(exponent));
}

/* The same for floats of any sign whose squares are far from the ends of their range, or 0; `rare`: they are not. */
static fr_mval
hypot_usual_f32(code_t c, fr_mval x, fr_mval y, fr_mval *rare)
{
    const fr_dtype t = FR_F32;
    uint64_t   low = bits_of(t, 0x1p-90), high = bits_of(t, 0x1p120);
    fr_mval    zero = EQ(OR(BITS(ABS(x)), BITS(ABS(y))), U(0));
    struct two xx = product_exact(c, x, x), yy = product_exact(c, y, y), sum = sum_exact(c, xx.hi, yy.hi);

    *rare = LE(U(high - low), m_sub(c, BITS(SEL(zero, K(1), sum.hi)), U(low)));
    return SQRT(ADD(sum.hi, ADD(sum.lo, ADD(xx.lo, yy.lo))));
}

REAL_RECIPE(hypot)
{
    /* (of two NaNs either may be kept: without signs there is one result) */
    fr_mval x = ABS(in[0].re), y = ABS(in[1].re), r = hypot_scaled(c, t, x, y), infinite, usual, rare;

    r = SEL(m_and(c, EQ(x, x), EQ(y, y)), r, ADD(x, y));
    infinite = m_or(c, EQ(x, K(INFINITY)), EQ(y, K(INFINITY)));
    r = SEL(infinite, K(INFINITY), r);
    if (t == FR_F32) {
        usual = hypot_usual_f32(c, in[0].re, in[1].re, &rare);
        r = RARE(rare, r, usual);
    }
    out->re = r;
}

/* x^y where `size` is |x|^y, if |x| is none of 0, 1 and infinity and y no NaN. */
static fr_mval
power_specials(code_t c, fr_dtype t, fr_mval x, fr_mval y, fr_mval size)
{
    fr_mval a = ABS(x), zero = EQ(a, K(0)), infinite = EQ(a, K(INFINITY));
    fr_mval half = MUL(y, K(0.5)), whole = EQ(m_rint(c, y), y);
    fr_mval odd = m_and(c, whole, m_ne(c, m_rint(c, half), half)), z, bad;
    fr_dtype word = t == FR_F32 ? FR_I32 : FR_I64;
    fr_mval negative = m_lt(c, m_bitcast(c, word, x), m_int(c, word, 0));

    z = SEL(m_xor(c, LT(y, K(0)), zero), K(0), K(INFINITY));
    z = SEL(m_or(c, zero, infinite), z, SEL(EQ(a, K(1)), K(1), size));
    z = SEL(m_and(c, odd, negative), NEG(z), z);
    bad = m_and(c, LT(x, K(0)), m_not(c, m_or(c, whole, infinite)));
    z = SEL(bad, SQRT(SEL(bad, x, K(1))), z);   /* the processor's NaN and flag, as C has them */
    /* A NaN in either stays one, but for the two cases below. */
    z = SEL(m_and(c, m_eq(c, x, x), m_eq(c, y, y)), z, ADD(x, y));
    return SEL(m_or(c, EQ(y, K(0)), EQ(x, K(1))), K(1), z);
}

/* 2^(y log2 |x|) in doubles. */
static fr_mval
power_f32(code_t c, fr_mval x, fr_mval y)
{
    const fr_dtype t = FR_F64;
    fr_mval a = widen(c, m_abs(c, x));
    struct split s = split(c, t, a, SQRT_HALF, false);
    fr_mval r = SUB(s.m, K(1)), e = SEL(EQ(a, K(0)), K(-0x1p300), s.e), l, p;
    fr_mval u = DIV(r, ADD(r, K(2)));
    struct nearest k;

    l = MUL(widen(c, y), FMA(u, POLY(MUL(u, u), LOG2_SHORT), e));
    l = or_nothing_short(c, at_most(c, t, l, 200), 1);
    k = nearest(c, t, l, 1, BIAS);
    r = SUB(l, k.n);
    p = FMA(r, POLY(r, EXP2_SHORT), K(1));
    return narrow(c, MUL(p, power_of_two(c, t, k.biased)));
}

/* log2 m = s (c0 + s^2 (c1 + s^2 q(s^2))), s = (m - 1) / (m + 1), all but q in sums of two: the
 * exponent has 11 bits, which the logarithm must have more than a double. Of 0, the first part is minus infinity. */
static struct two
log2_two(code_t c, fr_mval a)
{
    const fr_dtype t = FR_F64;
    struct split part = split(c, t, a, SQRT_HALF, true);
    fr_mval r = SUB(part.m, K(1)), inverse, q;
    struct two d = sum_sorted(c, K(2), r), s, z, v, p, l, sum;

    inverse = DIV(K(1), d.hi);
    s.hi = MUL(r, inverse);
    s.lo = MUL(FMA(NEG(s.hi), d.lo, FMA(NEG(s.hi), d.hi, r)), inverse);
    z = product_exact(c, s.hi, s.hi);
    z.lo = FMA(ADD(s.hi, s.hi), s.lo, z.lo);
    q = POLY(z.hi, POWER_Q);
    v.hi = FMA(z.hi, q, K(POWER_C1[0]));
    v.lo = FMA(z.hi, q, SUB(K(POWER_C1[0]), v.hi));
    v.lo = ADD(v.lo, K(POWER_C1[1]));
    p = product_exact(c, z.hi, v.hi);
    p.lo = FMA(z.hi, v.lo, FMA(z.lo, v.hi, p.lo));
    v = sum_sorted(c, K(POWER_C0[0]), p.hi);
    v.lo = ADD(v.lo, ADD(p.lo, K(POWER_C0[1])));
    l = product_exact(c, s.hi, v.hi);
    l.lo = FMA(s.hi, v.lo, FMA(s.lo, v.hi, l.lo));
    sum = sum_sorted(c, SEL(EQ(a, K(0)), K(-INFINITY), part.e), l.hi);
    return (struct two){sum.hi, ADD(sum.lo, l.lo)};
}

static fr_mval
power_f64(code_t c, fr_mval x, fr_mval y)
{
    const fr_dtype t = FR_F64;
    struct two l = log2_two(c, ABS(x)), p, r, sum;
    struct nearest k;
    fr_mval rest, q;

    p = product_exact(c, y, l.hi);
    p.lo = FMA(y, l.lo, p.lo);
    p.lo = SEL(LT(ABS(p.hi), K(1100)), p.lo, K(0));
    p.hi = or_nothing(c, t, at_most(c, t, p.hi, 1100), 1);
    k = nearest(c, t, p.hi, 1, 2 * BIAS);
    rest = SUB(p.hi, k.n);
    r = product_exact(c, rest, K(LN2));
    r.lo = FMA(p.lo, K(LN2), FMA(rest, K(LN2_LOW), r.lo));
    sum = sum_sorted(c, K(1), r.hi);
    q = FMA(MUL(r.hi, r.hi), POLY(r.hi, EXP_F64_TAIL), sum.lo);
    return scale(c, t, ADD(sum.hi, FMA(r.lo, ADD(sum.hi, q), q)), k.biased);
}

/* Nearly always the base is 0 or positive, the exponent not 0, and both are finite. (That the power is, too, would take a
 * logarithm to see.) */
REAL_RECIPE(power)
{
    fr_mval x = in[0].re, y = in[1].re;
    fr_mval size = t == FR_F32 ? power_f32(c, x, y) : power_f64(c, x, y), base, exponent, special;

    base = LE(U(bits_of(t, INFINITY)), BITS(x));
    exponent = not_positive(c, t, ABS(y));
    special = power_specials(c, t, x, y, size);
    out->re = RARE(base, special, RARE(exponent, special, size));
}

/* x^3 and x^4, which are neither general powers nor what two roundings would make of them: a product with the square,
 * and what the square lost of it, rounded together. The square is exact where it matters at all: where it is too
 * small for that, the power is 0. Where it is at least `large`, the power is infinite. */
static fr_mval
whole_power(code_t c, fr_dtype t, fr_mval x, bool fourth, double large)
{
    struct two square = product_exact(c, x, x);
    fr_mval    lost = fourth ? MUL(ADD(square.lo, square.lo), square.hi) : MUL(square.lo, x);

    return FMA(square.hi, fourth ? square.hi : x, SEL(LT(square.hi, K(large)), lost, K(0)));
}

REAL_RECIPE(cube) { out->re = whole_power(c, t, in[0].re, false, t == FR_F32 ? 0x1p90 : 0x1p700); }
REAL_RECIPE(fourth) { out->re = whole_power(c, t, in[0].re, true, t == FR_F32 ? 0x1p66 : 0x1p520); }
