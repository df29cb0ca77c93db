/* jit/recipe_math_erf.c -- the error function and its complement. */
#include "jit/recipe_math_core.h"

/* Where log2 erfc is very nearly a float and a double (tests/tools/coefficients.py). */
#define ERF_CUT 0.77978515625

/* What erf is made of: x + x p(x^2) near 0, and q(u) = log2 erfc |x| with u = |x| - ERF_CUT. Polynomials for floats;
 * for doubles p and (q(u) - q(0)) / u are quotients of polynomials, by one division. */
static void
erf_parts(code_t c, fr_dtype t, fr_mval is_near, fr_mval a, fr_mval u, fr_mval *near, fr_mval *q)
{
    fr_mval z = MUL(a, a), quotient;

    if (t == FR_F32) {
        *near = FMA(a, POLY(z, ERF_F32), a);
        *q = POLY(u, ERF_F32_TOP);
        return;
    }
    quotient = DIV(SEL(is_near, POLY(z, ERF_F64_P), POLY(u, ERF_F64_TOP_P)),
                   SEL(is_near, POLY(z, ERF_F64_Q), POLY(u, ERF_F64_TOP_Q)));
    *near = FMA(a, quotient, a);
    *q = FMA(u, quotient, K(ERF_F64_FIRST[0]));
}

/* From ERF_CUT on 1 - 2^q. */
REAL_RECIPE(erf)
{
    fr_mval x = in[0].re, a = ABS(x), is_near = LT(a, K(ERF_CUT)), near, q, r, s, p, far;
    fr_mval u = SUB(at_most(c, t, a, t == FR_F32 ? 3.95 : 5.95), K(ERF_CUT));
    struct nearest k;

    erf_parts(c, t, is_near, a, u, &near, &q);
    k = nearest(c, t, q, 1, BIAS);
    r = SUB(q, k.n);
    s = power_of_two(c, t, k.biased);
    p = t == FR_F32 ? POLY(r, EXP2_F32) : POLY(r, EXP2_F64);
    far = FMA(NEG(p), MUL(r, s), SUB(K(1), s));
    out->re = with_sign(c, t, SEL(is_near, near, far), x);
}

/* e^-x^2 f(x) / (1 + 2 x), where f varies little; 1 - erf x for |x| < 11/16; 2 - erfc |x| for
 * x < 0. */
static fr_mval
erfc_f64(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    fr_mval a = at_most(c, t, ABS(x), 27.5), z = MUL(x, x), near, far, f, g, w, q;
    struct two one_minus = sum_sorted(c, K(1), NEG(x)), d = sum_sorted(c, ADD(a, a), K(1)), v, p;
    struct two square = product_exact(c, a, a), y;
    struct exp_parts e = fr_math_exp_parts(c, t, NEG(square.hi), NEG(square.lo), 2 * BIAS);
    fr_mval other = ADD(a, K(3.5)), inverse = DIV(K(1), MUL(d.hi, other));

    near = ADD(one_minus.hi, FMA(NEG(x), POLY(z, ERFC_NEAR), one_minus.lo));

    /* One division serves both quotients. */
    g = MUL(d.hi, inverse);
    w = MUL(SUB(a, K(3.5)), g);
    w = FMA(FMA(NEG(w), other, SUB(a, K(3.5))), g, w);
    v.hi = MUL(other, inverse);
    v.lo = MUL(FMA(NEG(v.hi), d.lo, FMA(NEG(v.hi), d.hi, K(1))), v.hi);
    f = poly(c, t, w, ERFC_FAR + 1, FR_LEN(ERFC_FAR) - 1);
    q = MUL(w, f);
    p = sum_sorted(c, K(ERFC_FAR[0]), q);
    y = product_exact(c, v.hi, p.hi);
    y.lo = FMA(v.lo, p.hi, FMA(v.hi, p.lo, y.lo));
    v = product_exact(c, e.e.hi, y.hi);
    v.lo = FMA(e.e.lo, y.hi, FMA(e.e.hi, y.lo, v.lo));
    far = scale(c, t, ADD(v.hi, v.lo), e.biased);
    far = SEL(LT(x, K(0)), SUB(K(2), far), far);
    return SEL(LT(a, K(0.6875)), near, far);
}

fr_status
recipe_real_erfc(code_t c, fr_dtype in_type, const struct fr_mnum *in, struct fr_mnum *out)
{
    const fr_dtype t = FR_F64;

    if (in_type == FR_F32) {
        fr_mval x = widen(c, in[0].re), a = at_most(c, t, ABS(x), 10.2);
        fr_mval v = DIV(K(1), ADD(a, K(2.5)));
        fr_mval y = MUL(MUL(exp_short(c, MUL(NEG(a), a)), v), POLY(v, ERFC_SHORT));

        out->re = narrow(c, SEL(LT(x, K(0)), SUB(K(2), y), y));
    } else {
        out->re = erfc_f64(c, in[0].re);
    }
    return c->st;
}
