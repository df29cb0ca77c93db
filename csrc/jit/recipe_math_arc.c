/* jit/recipe_math_arc.c -- inverse trigonometric functions. */
#include "jit/recipe_math_core.h"

static const double *half_pi(fr_dtype t) { return t == FR_F32 ? HALF_PI_F32 : HALF_PI; }

/* base + arctan(u + tail) for |u| <= 1 and |base| >= |u| or base 0. */
static fr_mval
arctan_sum(code_t c, fr_dtype t, struct two base, fr_mval u, fr_mval tail)
{
    struct two z = product_exact(c, u, u), cube = product_exact(c, u, z.hi);
    /* (A polynomial for doubles would have 20 terms.) */
    fr_mval p = t == FR_F32 ? POLY(z.hi, ARCTAN_F32) : DIV(POLY(z.hi, ARCTAN_F64_P), POLY(z.hi, ARCTAN_F64_Q));
    fr_mval lo;
    struct two sum = sum_sorted(c, base.hi, u);

    /* The derivative 1 / (1 + u^2), roughly, is enough for the tail. */
    lo = FMA(tail, FMA(z.hi, K(-0.5), K(1)), ADD(sum.lo, base.lo));
    lo = FMA(FMA(u, z.lo, cube.lo), K(-0.25), lo);
    /* -1/4 is exact, so that only the smaller part of the cube has a rounded factor. */
    lo = FMA(cube.hi, K(-0.25), FMA(p, cube.hi, lo));
    return ADD(sum.hi, lo);
}

/* arctan a for a <= 1, and pi / 2 + arctan(-1 / a) beyond. */
REAL_RECIPE(arctan)
{
    fr_mval x = in[0].re, a = ABS(x), big = LT(K(1), a);
    fr_mval top = SEL(big, K(-1), a), bottom = SEL(big, at_most(c, t, a, 0x1p100), K(1));
    fr_mval u = DIV(top, bottom);
    struct two base = {SEL(big, K(half_pi(t)[0]), K(0)), SEL(big, K(half_pi(t)[1]), K(0))};
    /* What the quotient left over; it is nothing where a was divided by 1. */
    fr_mval rest = FMA(NEG(u), bottom, top);

    out->re = with_sign(c, t, arctan_sum(c, t, base, u, MUL(rest, ABS(u))), x);
}

/* arctan(min / max) of the sizes, turned into the octant of (x, y). */
REAL_RECIPE(arctan2)
{
    const fr_dtype word = t == FR_F32 ? FR_I32 : FR_I64;
    const double   least = t == FR_F32 ? 0x1p-80 : 0x1p-700, most = t == FR_F32 ? 0x1p120 : 0x1p1000;
    const double  *half = half_pi(t);
    fr_mval        y = in[0].re, x = in[1].re, ax = ABS(x), ay = ABS(y), swap = LT(ax, ay), q, rest, r;
    fr_mval        left = m_lt(c, m_bitcast(c, word, x), m_int(c, word, 0));
    fr_mval        top = SEL(swap, ax, ay), bottom = SEL(swap, ay, ax);
    fr_mval        special, infinite, factor, scaled;
    struct two     base = {SEL(swap, K(half[0]), SEL(left, K(2 * half[0]), K(0))),
                           SEL(swap, K(half[1]), SEL(left, K(2 * half[1]), K(0)))};

    special = LE(U(bits_of(t, most) - bits_of(t, least)), m_sub(c, BITS(bottom), U(bits_of(t, least))));
    /* inf / inf is 1 here, 0 / 0 and what is divided by infinity is 0. */
    infinite = EQ(bottom, K(INFINITY));
    factor = SEL(LT(bottom, K(1)), K(1 / least), K(t == FR_F32 ? 0x1p-40 : 0x1p-100));
    scaled = SEL(infinite, SEL(EQ(top, bottom), K(1), SUB(top, top)), MUL(top, factor));
    top = RARE(special, scaled, top);
    scaled = SEL(m_or(c, infinite, EQ(bottom, K(0))), K(1), MUL(bottom, factor));
    bottom = RARE(special, scaled, bottom);
    bottom = SEL(m_xor(c, swap, left), NEG(bottom), bottom);
    q = DIV(top, bottom);
    rest = MUL(FMA(NEG(q), bottom, top), inverse_about(c, t, bottom));
    r = with_sign(c, t, arctan_sum(c, t, base, q, rest), y);
    /* A comparison with NaN selects the wrong octant at most, never a number. */
    out->re = RARE(special, SEL(EQ(x, x), r, x), r);
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

REAL_RECIPE(arcsin) { out->re = arcsin_arccos(c, t, in[0].re, true); }
REAL_RECIPE(arccos) { out->re = arcsin_arccos(c, t, in[0].re, false); }
