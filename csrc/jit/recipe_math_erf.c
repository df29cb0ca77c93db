/* jit/recipe_math_erf.c -- the error function and its complement. */
#include "jit/recipe_math_core.h"

/* Where log2 erfc is very nearly a float and a double (tests/tools/coefficients.py). */
#define ERF_CUT 0.77978515625

/* erf x = x + x p(x^2) for |x| < ERF_CUT; beyond, 1 - 2^q(|x|) with a polynomial for log2 erfc in |x| - ERF_CUT. */
fr_status
recipe_real_erf(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    fr_mval x = in[0].re, a = ABS(x), z = MUL(x, x);
    fr_mval near = FMA(a, t == FR_F32 ? POLY(z, ERF_F32) : POLY(z, ERF_F64), a);
    fr_mval b = SUB(at_most(c, t, a, t == FR_F32 ? 3.95 : 5.95), K(ERF_CUT));
    fr_mval q = t == FR_F32 ? POLY(b, ERF_F32_TOP) : POLY(b, ERF_F64_TOP);
    struct nearest k = nearest(c, t, q, 1, BIAS);
    fr_mval r = SUB(q, k.n), s = power_of_two(c, t, k.biased);
    fr_mval p = MUL(r, t == FR_F32 ? POLY(r, EXP2_F32) : POLY(r, EXP2_F64));
    fr_mval far = FMA(p, NEG(s), SUB(K(1), s));

    out->re = with_sign(c, t, SEL(LT(a, K(ERF_CUT)), near, far), x);
    return c->st;
}
