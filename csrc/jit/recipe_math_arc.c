/* jit/recipe_math_arc.c -- inverse trigonometric functions. */
#include "jit/recipe_math_core.h"

static const double *
half_pi(fr_dtype t)
{
    return t == FR_F32 ? HALF_PI_F32 : HALF_PI;
}

/* arctan a for a <= 1, and pi / 2 + arctan(-1 / a) beyond. */
fr_status
recipe_real_arctan(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    fr_mval x = in[0].re, a = ABS(x), big = LT(K(1), a);
    fr_mval top = SEL(big, K(-1), a), bottom = SEL(big, a, K(1)), u = DIV(top, bottom);
    fr_mval z = MUL(u, u), base = SEL(big, K(half_pi(t)[0]), K(0)), lo;
    struct two sum = sum_sorted(c, base, u);

    lo = FMA(MUL(u, z), t == FR_F32 ? POLY(z, ARCTAN_F32) : POLY(z, ARCTAN_F64), sum.lo);
    lo = ADD(lo, SEL(big, K(half_pi(t)[1]), K(0)));
    if (t == FR_F64) {
        /* What the quotient -1 / a left over, divided by a and times the derivative at u, roughly. */
        fr_mval rest = MUL(FMA(NEG(u), bottom, top), FMA(z, K(-0.5), K(1)));

        lo = FMA(rest, NEG(SEL(big, u, K(0))), lo);
    }
    out->re = with_sign(c, t, ADD(sum.hi, lo), x);
    return c->st;
}

/* arctan(min / max) of the sizes, turned into the octant of (x, y). */
static fr_mval
arctan2_real(code_t c, fr_mval y, fr_mval x, bool is_short)
{
    const fr_dtype t = FR_F64;
    fr_mval ax = ABS(x), ay = ABS(y), swap = LT(ax, ay);
    fr_mval left = m_lt(c, m_bitcast(c, FR_I64, x), m_int(c, FR_I64, 0));
    fr_mval top = SEL(swap, ax, ay), bottom = SEL(swap, ay, ax), q, u, z, base, base_lo, lo, turned;
    struct two sum;

    if (!is_short) {
        fr_mval tiny = LT(bottom, K(0x1p-700));

        top = SEL(tiny, MUL(top, K(0x1p600)), top);
        bottom = SEL(tiny, MUL(bottom, K(0x1p600)), bottom);
    }
    /* 0 / 0 is 0 here, and inf / inf is 1. */
    bottom = SEL(EQ(bottom, K(0)), K(1), bottom);
    q = SEL(EQ(top, K(INFINITY)), K(1), DIV(top, bottom));
    turned = m_xor(c, swap, left);
    u = SEL(turned, NEG(q), q);
    z = MUL(q, q);
    base = SEL(swap, K(HALF_PI[0]), SEL(left, K(2 * HALF_PI[0]), K(0)));
    if (is_short)
        return FMA(u, POLY(z, ARCTAN_SHORT), base);
    base_lo = SEL(swap, K(HALF_PI[1]), SEL(left, K(2 * HALF_PI[1]), K(0)));
    sum = sum_sorted(c, base, u);
    lo = ADD(FMA(MUL(u, z), POLY(z, ARCTAN_F64), sum.lo), base_lo);
    {
        fr_mval rest = DIV(FMA(NEG(q), bottom, top), bottom);

        rest = SEL(LT(bottom, K(INFINITY)), MUL(rest, FMA(z, K(-0.5), K(1))), K(0));
        lo = ADD(lo, SEL(turned, NEG(rest), rest));
    }
    return ADD(sum.hi, lo);
}

fr_status
recipe_real_arctan2(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    fr_mval y = in[0].re, x = in[1].re, r;

    if (t == FR_F32)
        r = narrow(c, arctan2_real(c, widen(c, y), widen(c, x), true));
    else
        r = arctan2_real(c, y, x, false);
    r = with_sign(c, t, r, y);
    /* A comparison with NaN selects the wrong octant at most, never a number. */
    out->re = SEL(m_eq(c, x, x), r, x);
    return c->st;
}

/* With a = |x|: below 1/2 a polynomial of a; beyond, of s = sqrt((1 - a) / 2), since
 * arcsin a = pi / 2 - 2 arcsin s. */
static fr_mval
arcsin_arccos(code_t c, fr_dtype t, fr_mval x, bool is_sin)
{
    const double *half = half_pi(t);
    fr_mval a = ABS(x), big = LT(K(0.5), a), z, u, base, base_lo, lo;
    fr_mval w = FMA(a, K(-0.5), K(0.5));
    struct two s = root(c, t, (struct two){w, K(0)}), sum;

    z = SEL(big, w, MUL(x, x));
    if (is_sin) {
        u = SEL(big, MUL(s.hi, K(-2)), a);
        base = SEL(big, K(half[0]), K(0));
        base_lo = SEL(big, FMA(s.lo, K(-2), K(half[1])), K(0));
    } else {
        fr_mval left = LT(x, K(0)), twice = SEL(left, K(-2), K(2));

        u = SEL(big, MUL(s.hi, twice), NEG(x));
        base = SEL(big, SEL(left, K(2 * half[0]), K(0)), K(half[0]));
        base_lo = SEL(big, FMA(s.lo, twice, SEL(left, K(2 * half[1]), K(0))), K(half[1]));
    }
    sum = sum_sorted(c, base, u);
    lo = FMA(MUL(u, z), t == FR_F32 ? POLY(z, ARCSIN_F32) : POLY(z, ARCSIN_F64),
             ADD(sum.lo, base_lo));
    lo = ADD(sum.hi, lo);
    return is_sin ? with_sign(c, t, lo, x) : lo;
}

fr_status
recipe_real_arcsin(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    out->re = arcsin_arccos(c, t, in[0].re, true);
    return c->st;
}

fr_status
recipe_real_arccos(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    out->re = arcsin_arccos(c, t, in[0].re, false);
    return c->st;
}
