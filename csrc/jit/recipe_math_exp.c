/* jit/recipe_math_exp.c -- the exponential function and what is made of it.
 *
 * e^x = 2^n e^r with n the integer next to x / ln 2, |r| <= ln 2 / 2, and a polynomial for e^r. */
#include "jit/recipe_math_core.h"

#define TANH_CUT 0.8

REAL_RECIPE(exp)
{
    /* Above this everything overflows. */
    fr_mval x = or_nothing(c, t, at_most(c, t, in[0].re, t == FR_F32 ? 89 : 710), M_LN2);
    struct nearest k = nearest(c, t, x, LOG2E[0], 2 * BIAS);
    fr_mval r = minus_ln2(c, t, x, k.n), y;

    if (t == FR_F32) {
        y = FMA(r, POLY(r, EXP_F32), K(1));
    } else {
        struct two sum = sum_sorted(c, K(1), r);

        y = ADD(sum.hi, FMA(MUL(r, r), POLY(r, EXP_F64_TAIL), sum.lo));
    }
    out->re = scale(c, t, y, k.biased);
}

REAL_RECIPE(exp2)
{
    fr_mval x = or_nothing(c, t, at_most(c, t, in[0].re, t == FR_F32 ? 129 : 1025), 1);
    struct nearest k = nearest(c, t, x, 1, 2 * BIAS);
    fr_mval r = SUB(x, k.n);
    fr_mval p = t == FR_F32 ? POLY(r, EXP2_F32) : POLY(r, EXP2_F64);

    out->re = scale(c, t, FMA(r, p, K(1)), k.biased);
}

/* one * (e^x - 1) as a sum of two, for -50 < x and one * 2^n a normal number; `one` is a power of
 * two below 2, with exponent `shift`. */
static struct two
expm1_parts(code_t c, fr_mval x, int shift)
{
    const fr_dtype t = FR_F64;
    struct nearest k = nearest(c, t, x, LOG2E[0], BIAS + shift);
    struct two r = minus_ln2_two(c, t, x, k.n);
    /* Where 2^n and 1 nearly cancel, r^2 / 2 must be more exact than a product. */
    struct two square = product_exact(c, r.hi, r.hi);
    struct two p = sum_sorted(c, r.hi, MUL(square.hi, K(0.5)));
    fr_mval cube = MUL(square.hi, MUL(r.hi, POLY(r.hi, EXPM1_F64_TAIL)));
    fr_mval tail = ADD(p.lo, ADD(cube, FMA(square.lo, K(0.5), r.lo)));
    fr_mval one = K(ldexp(1, shift)), s = power_of_two(c, t, k.biased), s1 = SUB(s, one);
    /* What s - one left over; tanh needs no 2^n above 1. */
    fr_mval left = shift < 0 ? sum_exact(c, s, NEG(one)).lo : SUB(s, ADD(s1, one));
    struct two sum = sum_sorted(c, s1, MUL(s, p.hi));

    return (struct two){sum.hi, ADD(sum.lo, FMA(s, tail, left))};
}

/* Half of 2^n (e^r - 1) + (2^n - 1), twice: 2^128 is no float. */
static fr_mval
expm1_f32(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F32;
    fr_mval b = at_least(c, t, at_most(c, t, x, 89), -40);
    struct nearest k = nearest(c, t, b, LOG2E[0], BIAS - 1);
    struct two r = minus_ln2_two(c, t, b, k.n), sum;
    fr_mval s = power_of_two(c, t, k.biased), s1 = SUB(s, K(0.5));
    fr_mval left = SUB(SUB(s, s1), K(0.5)), tail, y;

    tail = FMA(MUL(r.hi, r.hi), POLY(r.hi, EXPM1_F32), r.lo);
    sum = sum_sorted(c, s1, MUL(s, r.hi));
    y = ADD(sum.hi, FMA(s, tail, ADD(sum.lo, left)));
    /* The sum has lost the sign of -0, and half of a subnormal number is none. */
    return SEL(LT(ABS(x), K(0x1p-25)), x, ADD(y, y));
}

fr_status
recipe_real_expm1(code_t c, fr_dtype in_type, const struct fr_mnum *in, struct fr_mnum *out)
{
    const fr_dtype t = FR_F64;
    fr_mval x = in[0].re;

    if (in_type == FR_F32) {
        out->re = expm1_f32(c, x);
    } else {
        struct two e = expm1_parts(c, at_least(c, t, at_most(c, t, x, 710), -45), -1);
        fr_mval y = ADD(e.hi, e.lo);

        out->re = SEL(LT(ABS(x), K(0x1p-60)), x, ADD(y, y));
    }
    return c->st;
}

struct exp_parts
fr_math_exp_parts(code_t c, fr_dtype t, fr_mval x, fr_mval tail, double bias)
{
    struct nearest k = nearest(c, t, x, LOG2E[0], bias);
    struct two r = minus_ln2_two(c, t, x, k.n), sum = sum_sorted(c, K(1), r.hi);
    fr_mval p = t == FR_F32 ? POLY(r.hi, EXP_F32_TAIL) : POLY(r.hi, EXP_F64_TAIL);
    fr_mval square = FMA(MUL(r.hi, r.hi), p, sum.lo);

    square = FMA(ADD(r.lo, tail), ADD(sum.hi, square), square);
    return (struct exp_parts){sum_sorted(c, sum.hi, square), k.biased};
}

/* With z = e^-|x|: 1 / (1 + z), and for negative x z / (1 + z). */
REAL_RECIPE(sigmoid)
{
    fr_mval x = in[0].re, a = or_nothing(c, t, NEG(ABS(x)), M_LN2);
    struct exp_parts z = fr_math_exp_parts(c, t, a, K(0), 2 * BIAS);
    struct two s = power_of_two_factors(c, t, z.biased);
    struct two d = sum_sorted(c, K(1), MUL(MUL(z.e.hi, s.hi), s.lo));
    fr_mval inverse = DIV(K(1), d.hi), negative = LT(x, K(0)), q, rest, y;

    d.lo = ADD(d.lo, MUL(MUL(z.e.lo, s.hi), s.lo));
    z.e.hi = SEL(negative, z.e.hi, K(1));
    z.e.lo = SEL(negative, z.e.lo, K(0));
    q = MUL(z.e.hi, inverse);
    rest = FMA(NEG(q), d.lo, FMA(NEG(q), d.hi, z.e.hi));
    y = FMA(ADD(rest, z.e.lo), inverse, q);
    out->re = MUL(MUL(y, SEL(negative, s.hi, K(1))), SEL(negative, s.lo, K(1)));
}

/* sinh x, or cosh x, of a = |x| as e^a / 2 -+ 1 / (2 e^a), a quarter of it against overflow; for a below 1 sinh is a
 * polynomial. */
static fr_mval
hyperbolic_f32(code_t c, fr_mval x, bool is_sinh)
{
    const fr_dtype t = FR_F32;
    fr_mval a = ABS(x), b = at_most(c, t, a, 90);
    struct nearest k = nearest(c, t, b, LOG2E[0], BIAS - 3);
    struct two r = minus_ln2_two(c, t, b, k.n), sum;
    fr_mval s = power_of_two(c, t, k.biased), sr = MUL(s, r.hi), tail, inverse, y, z;

    sum = sum_sorted(c, s, sr);
    tail = FMA(MUL(sr, r.hi), POLY(r.hi, EXP_F32_TAIL), FMA(s, r.lo, sum.lo));
    inverse = DIV(K(1.0 / 64), ADD(sum.hi, tail));
    y = MUL(ADD(sum.hi, is_sinh ? SUB(tail, inverse) : ADD(tail, inverse)), K(4));
    if (!is_sinh)
        return y;
    z = MUL(x, x);
    return SEL(LT(a, K(1)), FMA(MUL(x, z), POLY(z, SINH_F32), x), with_sign(c, t, y, x));
}

/* The same with e^r and e^-r from the even and the odd part of one expansion: with P = 2^(n-1) and M = 2^(-n-1),
 * sinh x = (P - M) cosh r + (P + M) sinh r, and cosh x with the signs of M turned. */
static fr_mval
hyperbolic_f64(code_t c, fr_mval x, bool is_sinh)
{
    const fr_dtype t = FR_F64;
    fr_mval a = at_most(c, t, ABS(x), 711);
    struct nearest k = nearest(c, t, a, LOG2E[0], BIAS - 3);     /* a quarter, against overflow */
    struct two r = minus_ln2_two(c, t, a, k.n);
    fr_mval z = MUL(r.hi, r.hi);
    fr_mval even = MUL(z, POLY(z, COSH_F64));
    fr_mval odd = FMA(MUL(r.hi, z), POLY(z, SINH_F64), r.lo);
    fr_mval p = SHL(k.biased, FRACTION);
    fr_mval m = REAL(m_sub(c, U((uint64_t)(2 * BIAS - 6) << FRACTION), p));
    fr_mval big = REAL(p), y;
    struct two diff, sum, first, second, lead;

    m = SEL(LT(k.n, K(100)), m, K(0));
    diff = sum_sorted(c, big, NEG(m));
    sum = sum_sorted(c, big, m);
    first = is_sinh ? diff : sum;
    second = is_sinh ? sum : diff;
    lead.hi = FMA(second.hi, r.hi, first.hi);
    lead.lo = FMA(second.hi, r.hi, SUB(first.hi, lead.hi));
    lead.lo = ADD(lead.lo, FMA(second.lo, r.hi, first.lo));
    y = ADD(lead.hi, FMA(first.hi, even, FMA(second.hi, odd, lead.lo)));
    y = MUL(y, K(4));
    return is_sinh ? SEL(LT(ABS(x), K(0x1p-40)), x, with_sign(c, t, y, x)) : y;
}

REAL_RECIPE(sinh) { out->re = t == FR_F32 ? hyperbolic_f32(c, in[0].re, true) : hyperbolic_f64(c, in[0].re, true); }

REAL_RECIPE(cosh)
{
    out->re = t == FR_F32 ? hyperbolic_f32(c, in[0].re, false) : hyperbolic_f64(c, in[0].re, false);
}

/* tanh x = 1 - 2 / d with d = 1 + e^2x, as 3/4 + (d / 4 - 2) / d, and x + x^3 / q(x^2) for
 * |x| < TANH_CUT: one division serves both, and no quotient is more than a third of the result, so
 * that the errors of its parts count little.  q has its poles at tan y = y, 4.5 away; those of tanh
 * are at pi / 2. */
REAL_RECIPE(tanh)
{
    fr_mval x = in[0].re, a = ABS(x), z = MUL(x, x), near = LT(a, K(TANH_CUT));
    fr_mval b = at_most(c, t, a, t == FR_F32 ? 9.5 : 20);
    struct nearest k = nearest(c, t, b, 2 * LOG2E[0], BIAS);
    fr_mval r = FMA(b, K(2 * LOG2E[0]), NEG(k.n)), s = power_of_two(c, t, k.biased);
    fr_mval p = t == FR_F32 ? POLY(r, EXP2_F32) : POLY(r, EXP2_F64);
    fr_mval q = t == FR_F32 ? POLY(z, TANH_F32) : POLY(z, TANH_F64);
    fr_mval d = FMA(p, MUL(r, s), ADD(s, K(1)));
    fr_mval top = SEL(near, MUL(a, z), FMA(d, K(0.25), K(-2)));
    fr_mval quotient = DIV(top, SEL(near, q, d));

    out->re = with_sign(c, t, ADD(SEL(near, a, K(0.75)), quotient), x);
}
