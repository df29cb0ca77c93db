/* jit/recipe_math_half.c -- the math functions of half precision, in floats: short polynomials are enough.
 *
 * Arguments are half precision numbers as F32: none but 0 is below 2^-24, and none but infinity above 65504. What is
 * computed is right to some 2^-17, so that a result is within 0.55 ULP once it is rounded; all 2^16 arguments are
 * tried by tests/test_half.py. Special values are C99's. */
#include "jit/recipe_math_core.h"

/* What every function here begins with. */
#define HALF(name) RECIPE(half_##name)
#define BEGIN                                                                                      \
    const fr_dtype t = FR_F32;                                                                     \
    fr_mval        v = x[0].re

/* (logarithm of m 2^e to some base) = e step + r p(r), r = m - 1, for positive numbers. */
static fr_mval
half_log_of(code_t c, fr_mval v, double step, const double *p, size_t n)
{
    const fr_dtype t = FR_F32;
    struct split s = split(c, t, v, SQRT_HALF, false);
    fr_mval r = SUB(s.m, K(1)), big = step == 1 ? s.e : MUL(s.e, K(step));

    return FMA(r, horner(c, t, r, p, n, 1), big);
}

static fr_mval
half_log(code_t c, fr_mval v, double step, const double *p, size_t n)
{
    const fr_dtype t = FR_F32;
    fr_mval y = SEL(LT(v, K(INFINITY)), half_log_of(c, v, step, p, n), v);

    return RARE(not_positive(c, t, v), SEL(LT(K(0), v), y, SEL(EQ(v, K(0)), NEG(raised_infinity(c, t, v)), raised_nan(c, t, m_not(c, LE(K(0), v)), v))), y);
}

HALF(log) { out->re = half_log(c, x[0].re, LN2, LOG_HALF, FR_LEN(LOG_HALF)); }
HALF(log2) { out->re = half_log(c, x[0].re, 1, LOG2_HALF, FR_LEN(LOG2_HALF)); }
HALF(log10) { out->re = half_log(c, x[0].re, LOG10_2_HALF[0], LOG10_HALF, FR_LEN(LOG10_HALF)); }

/* 2^(n + r) */
static fr_mval
half_exp(code_t c, fr_mval v, double factor)
{
    const fr_dtype t = FR_F32;
    fr_mval b = at_least(c, t, at_most(c, t, v, 20), -30);
    struct nearest k = nearest(c, t, b, factor, BIAS);
    fr_mval r = factor == 1 ? SUB(b, k.n) : FMA(b, K(factor), NEG(k.n));

    return MUL(POLY(r, EXP2_HALF), power_of_two(c, t, k.biased));
}

HALF(exp) { out->re = half_exp(c, x[0].re, LOG2E[0]); }
HALF(exp2) { out->re = half_exp(c, x[0].re, 1); }

/* 2^n (e^r - 1) + (2^n - 1); the sum has lost the sign of -0. */
HALF(expm1)
{
    BEGIN;
    fr_mval b = at_least(c, t, at_most(c, t, v, 20), -20);
    struct nearest k = nearest(c, t, b, LOG2E[0], BIAS);
    fr_mval r = FMA(k.n, K(-LN2), b), s = power_of_two(c, t, k.biased);

    out->re = with_sign(c, t, FMA(s, MUL(r, POLY(r, EXPM1_HALF)), SUB(s, K(1))), v);
}

/* As hyperbolic_f64 in recipe_math_exp.c. */
static fr_mval
half_hyperbolic(code_t c, fr_mval v, bool is_sinh)
{
    const fr_dtype t = FR_F32;
    fr_mval a = at_most(c, t, ABS(v), 20);
    struct nearest k = nearest(c, t, a, LOG2E[0], BIAS - 1);
    fr_mval r = FMA(k.n, K(-LN2), a), z = MUL(r, r);
    fr_mval even = POLY(z, COSH_HALF), odd = MUL(r, POLY(z, SINH_HALF));
    fr_mval p = SHL(k.biased, FRACTION);
    fr_mval m = REAL(m_sub(c, U((uint64_t)(2 * BIAS - 2) << FRACTION), p));
    fr_mval diff = SUB(REAL(p), m), sum = ADD(REAL(p), m);

    if (!is_sinh)
        return FMA(sum, even, MUL(diff, odd));
    return with_sign(c, t, FMA(diff, even, MUL(sum, odd)), v);
}

HALF(sinh) { out->re = half_hyperbolic(c, x[0].re, true); }
HALF(cosh) { out->re = half_hyperbolic(c, x[0].re, false); }

/* v - n part for a multiple n of 1/2 below 2^16: the first step is exact, since its result is below 2 and a multiple
 * of the last digits' product. Both parts are positive, so that -0 stays. */
static fr_mval
half_reduced(code_t c, fr_mval v, fr_mval n, const double *part)
{
    const fr_dtype t = FR_F32;

    return FMA(n, K(-part[1]), FMA(n, K(-part[0]), v));
}

/* sin r with the sign bit in bit 0 of `turns`, |r| <= pi / 2. */
static fr_mval
half_sin_of(code_t c, fr_mval r, fr_mval turns)
{
    const fr_dtype t = FR_F32;
    fr_mval y = MUL(r, POLY(MUL(r, r), SIN_HALF));

    return REAL(XOR(BITS(y), SHL(turns, 31)));
}

HALF(sin)
{
    BEGIN;
    struct nearest k = nearest(c, t, v, 0.5 / HALF_PI[0], 0);

    out->re = half_sin_of(c, half_reduced(c, v, k.n, PI_HALF), k.biased);
}

/* cos(pi (n + 1/2) + r) = -(-1)^n sin r */
HALF(cos)
{
    BEGIN;
    fr_mval sum = ADD(FMA(v, K(0.5 / HALF_PI[0]), K(-0.5)), K(MAGIC + 1));
    fr_mval n = ADD(SUB(sum, K(MAGIC + 1)), K(0.5));

    out->re = half_sin_of(c, half_reduced(c, v, n, PI_HALF), BITS(sum));
}

HALF(tan)
{
    BEGIN;
    struct nearest k = nearest(c, t, v, 1 / HALF_PI[0], 0);
    fr_mval r = half_reduced(c, v, k.n, HALF_PI_HALF);
    fr_mval y = MUL(r, POLY(MUL(r, r), TAN_HALF));
    fr_mval odd = m_ne(c, AND(k.biased, U(1)), U(0));

    out->re = DIV(SEL(odd, K(-1), y), SEL(odd, y, K(1)));
}

/* arctan a for a <= 1, and pi / 2 - arctan(1 / a) beyond. */
HALF(arctan)
{
    BEGIN;
    fr_mval a = ABS(v), big = LT(K(1), a), u = DIV(SEL(big, K(-1), a), SEL(big, a, K(1)));
    fr_mval base = SEL(big, K(HALF_PI[0]), K(0));

    out->re = with_sign(c, t, FMA(u, POLY(MUL(u, u), ARCTAN_HALF), base), v);
}

/* log(a + sqrt(1 + a^2)); for a < 1/2 a polynomial. */
HALF(arcsinh)
{
    BEGIN;
    fr_mval a = ABS(v), z = MUL(a, a), far = ADD(a, SQRT(ADD(z, K(1))));

    far = SEL(LT(a, K(INFINITY)), half_log_of(c, far, LN2, LOG_HALF, FR_LEN(LOG_HALF)), a);
    out->re = with_sign(c, t, SEL(LT(a, K(0.5)), MUL(a, POLY(z, ARCSINH_HALF)), far), v);
}

/* log((1 + a) / (1 - a)) / 2; for a < 1/2 a polynomial. */
HALF(arctanh)
{
    BEGIN;
    fr_mval a = ABS(v), z = MUL(a, a), far = DIV(ADD(K(1), a), SUB(K(1), a));
    fr_mval edge = SEL(EQ(a, K(1)), raised_infinity(c, t, SUB(K(1), a)), raised_nan(c, t, m_not(c, LE(a, K(1))), SUB(K(1), a)));

    far = MUL(half_log_of(c, far, LN2, LOG_HALF, FR_LEN(LOG_HALF)), K(0.5));
    far = RARE(LE(U(bits_of(t, 1)), BITS(a)), SEL(LT(a, K(1)), far, edge), far); /* of NaN, too */
    out->re = with_sign(c, t, SEL(LT(a, K(0.5)), MUL(a, POLY(z, ARCTANH_HALF)), far), v);
}

/* As in recipe_math_power.c, without what makes more digits right. */
HALF(cbrt)
{
    BEGIN;
    fr_mval a = ABS(v);
    struct split part = split(c, t, a, SQRT_HALF, false);
    struct nearest third = nearest(c, t, part.e, 1.0 / 3, BIAS);
    fr_mval j = FMA(third.n, K(-3), part.e), low = LT(j, K(0)), high = LT(K(0), j); /* -1, 0 or 1 */
    fr_mval m = part.m, r = POLY(m, CBRT_HALF), y, rest;

    y = MUL(MUL(m, r), r);
    rest = FMA(NEG(MUL(y, y)), y, m);
    y = FMA(MUL(rest, MUL(r, r)), K(1.0 / 3), y);
    y = MUL(y, SEL(low, K(1 / CBRT_2[0]), SEL(high, K(CBRT_2[0]), K(1))));
    y = with_sign(c, t, MUL(y, power_of_two(c, t, third.biased)), v);
    out->re = SEL(m_and(c, LT(K(0), a), LT(a, K(INFINITY))), y, ADD(v, v));
}
