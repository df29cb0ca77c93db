/* jit/recipe_math_log.c -- logarithms and what is made of them.
 *
 * x = 2^e (1 + r) with sqrt(1/2) <= 1 + r < sqrt(2), and a polynomial for log(1 + r). */
#include "jit/recipe_math_core.h"

/* The value of an integer in the low bits, n below 2^FRACTION, as a float; plus `offset`. */
static fr_mval
small_integer(code_t c, fr_dtype t, fr_mval n, double offset)
{
    double one = ldexp(1, FRACTION);

    return SUB(REAL(OR(n, U(t == FR_F32 ? 0x4b000000 : 0x4330000000000000))), K(one - offset));
}

/* x = 2^e (1 + r), exactly, for positive finite x. */
struct split {
    fr_mval e, r;
};

static struct split
split(code_t c, fr_dtype t, fr_mval x)
{
    /* The bits of sqrt(1/2), and what makes its exponent carry into that of 1. */
    uint64_t root = t == FR_F32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
    uint64_t one = t == FR_F32 ? 0x3f800000 : 0x3ff0000000000000;
    fr_mval tiny = LT(x, K(t == FR_F32 ? 0x1p-126 : 0x1p-1022));
    fr_mval lift = K(ldexp(1, FRACTION + 1));
    fr_mval bits = m_add(c, BITS(SEL(tiny, MUL(x, lift), x)), U(one - root));
    fr_mval m = REAL(m_add(c, AND(bits, U(((uint64_t)1 << FRACTION) - 1)), U(root)));
    fr_mval e = small_integer(c, t, SHR(bits, FRACTION), 0);

    return (struct split){SUB(e, SEL(tiny, K(BIAS + FRACTION + 1), K(BIAS))), SUB(m, K(1))};
}

/* y, but for x outside (0, inf) what a logarithm of x is. */
static fr_mval
log_specials(code_t c, fr_dtype t, fr_mval y, fr_mval x)
{
    fr_mval finite = SEL(LT(x, K(INFINITY)), y, x);

    return SEL(LT(K(0), x), finite, SEL(EQ(x, K(0)), K(-INFINITY), K(NAN)));
}

fr_status
recipe_real_log(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    struct split s = split(c, t, in[0].re);
    fr_mval q = t == FR_F32 ? POLY(s.r, LOG_F32) : POLY(s.r, LOG_F64);
    fr_mval big = MUL(s.e, K(ln2[0]));
    struct two sum = sum_sorted(c, big, s.r);
    fr_mval low = FMA(s.e, K(ln2[1]), FMA(MUL(s.r, s.r), q, sum.lo));

    out->re = log_specials(c, t, ADD(sum.hi, low), in[0].re);
    return c->st;
}
