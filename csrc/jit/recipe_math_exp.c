/* jit/recipe_math_exp.c -- the exponential function and what is made of it.
 *
 * e^x = 2^n e^r with n the integer next to x / ln 2, |r| <= ln 2 / 2, and a polynomial for e^r. */
#include "jit/recipe_math_core.h"

/* x - n ln 2, the first step exact. */
static fr_mval
minus_ln2(code_t c, fr_dtype t, fr_mval x, fr_mval n)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;

    return FMA(n, K(-ln2[1]), FMA(n, K(-ln2[0]), x));
}

fr_status
recipe_real_exp(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    /* Beyond these everything overflows, or rounds to 0. */
    fr_mval x = at_least(c, t, at_most(c, t, in[0].re, t == FR_F32 ? 89 : 710),
                         t == FR_F32 ? -105 : -746);
    struct nearest k = nearest(c, t, x, LOG2E[0], 2 * BIAS);
    fr_mval r = minus_ln2(c, t, x, k.n), y;

    if (t == FR_F32) {
        y = FMA(r, POLY(r, EXP_F32), K(1));
    } else {
        struct two sum = sum_sorted(c, K(1), r);

        y = ADD(sum.hi, FMA(MUL(r, r), POLY(r, EXP_F64_TAIL), sum.lo));
    }
    out->re = scale(c, t, y, k.biased);
    return c->st;
}

/* tanh x = 1 - 2 / (1 + e^2x), and an odd polynomial for |x| < 1. */
static fr_mval
tanh_f32(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F32;
    fr_mval a = ABS(x), z = MUL(x, x);
    fr_mval near = FMA(MUL(a, z), POLY(z, TANH_F32), a);
    fr_mval b = at_most(c, t, a, 9.5);
    struct nearest k = nearest(c, t, b, 2 * LOG2E[0], BIAS);
    fr_mval r = minus_ln2(c, t, ADD(b, b), k.n);
    fr_mval e = FMA(r, POLY(r, EXP_F32), K(1));
    fr_mval far = SUB(K(1), DIV(K(2), FMA(e, power_of_two(c, t, k.biased), K(1))));

    return with_sign(c, t, SEL(LT(a, K(1)), near, far), x);
}

/* e^x - 1 for |x| so small that 2^n is a normal number, as a sum of two. */
static struct two
expm1_two(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct nearest k = nearest(c, t, x, LOG2E[0], BIAS);
    fr_mval a = FMA(k.n, K(-LN2_F64[0]), x), nlo = K(-LN2_F64[1]);
    fr_mval r = FMA(k.n, nlo, a);
    fr_mval tail = FMA(k.n, nlo, SUB(a, r));
    struct two p = sum_sorted(c, r, FMA(MUL(r, r), POLY(r, EXPM1_F64_TAIL), tail));
    fr_mval s = power_of_two(c, t, k.biased), s1 = SUB(s, K(1));
    fr_mval hi = FMA(s, p.hi, s1), lo = FMA(s, p.lo, SUB(s, ADD(s1, K(1))));

    return (struct two){hi, ADD(lo, FMA(s, p.hi, SUB(s1, hi)))};
}

/* tanh x = -e / (2 + e) with e = e^-2x - 1. */
static fr_mval
tanh_f64(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct two e = expm1_two(c, MUL(at_most(c, t, ABS(x), 22), K(-2)));
    struct two d = sum_sorted(c, K(2), e.hi);
    fr_mval inverse = DIV(K(-1), d.hi), q = MUL(e.hi, inverse);
    /* What the quotient left over. */
    fr_mval rest = FMA(q, ADD(d.lo, e.lo), FMA(q, d.hi, e.hi));

    rest = ADD(rest, e.lo);
    return with_sign(c, t, ABS(FMA(rest, inverse, q)), x);
}

fr_status
recipe_real_tanh(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    out->re = t == FR_F32 ? tanh_f32(c, in[0].re) : tanh_f64(c, in[0].re);
    return c->st;
}
