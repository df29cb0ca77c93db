/* jit/recipe_math_trig.c -- sine, cosine and tangent of any argument.
 *
 * The argument is taken in half or quarter turns, so that whole turns can be left out of the
 * product with 1 / pi: the leading bits of 1 / pi that give only whole turns with numbers of x's
 * size are never multiplied.  Which bits remain is selected by the size of x; the rest is the same
 * for all.  Nearly all numbers are small, and go a shorter way. */
#include "jit/recipe_math_core.h"

/* From here on tan of floats computes in doubles. */
#define TAN_FAR 0x1p10

/* ---- floats, in doubles ---- */

/* The two parts of 1 / pi (or 2 / pi) that matter for a float of that size. */
static struct two
select_parts(code_t c, fr_mval input, const double *parts)
{
    static const double from[] = {0x1p46, 0x1p67, 0x1p88, 0x1p109};
    const fr_dtype t = FR_F64;
    struct two first = {K(parts[0]), K(parts[1])}, p = first;
    fr_mval size = ABS(input), a = widen(c, size), large = LE(m_real(c, FR_F32, from[0]), size);

    for (size_t k = 0; k < FR_LEN(from); k++) {
        fr_mval big = LE(K(from[k]), a);

        p.hi = SEL(big, K(parts[2 * k + 2]), p.hi);
        p.lo = SEL(big, K(parts[2 * k + 3]), p.lo);
    }
    return (struct two){RARE(large, p.hi, first.hi), RARE(large, p.lo, first.lo)};
}

/* sin(pi f) with the sign bit in bit 0 of `turns`, for |f| <= 1/2. */
static fr_mval
sin_pi(code_t c, fr_mval f, fr_mval turns)
{
    const fr_dtype t = FR_F64;
    fr_mval y = MUL(f, POLY(MUL(f, f), SINPI_SHORT));

    return narrow(c, REAL(XOR(BITS(y), SHL(turns, 63))));
}

/* x / pi = n + f; x / pi - n is exact with the first part of 1 / pi. */
static fr_mval
sin_f32(code_t c, fr_mval input)
{
    const fr_dtype t = FR_F64;
    fr_mval x = widen(c, input);
    struct two p = select_parts(c, input, INVERSE_PI);
    fr_mval sum = FMA(x, p.hi, K(MAGIC)), n = SUB(sum, K(MAGIC));

    return sin_pi(c, FMA(x, p.lo, FMA(x, p.hi, NEG(n))), BITS(sum));
}

/* x / pi = n + 1/2 + f, and cos(pi (n + 1/2 + f)) = -(-1)^n sin(pi f). */
static fr_mval
cos_f32(code_t c, fr_mval input)
{
    const fr_dtype t = FR_F64;
    fr_mval x = widen(c, input);
    struct two p = select_parts(c, input, INVERSE_PI);
    fr_mval sum = ADD(FMA(x, p.hi, K(-0.5)), K(MAGIC + 1));
    fr_mval n = SUB(sum, K(MAGIC + 1)), half = ADD(n, K(0.5));

    return sin_pi(c, FMA(x, p.lo, FMA(x, p.hi, NEG(half))), BITS(sum));
}

/* In quarter turns: y = tan of the rest, -1 / y after an odd number. */
static fr_mval
tan_any_f32(code_t c, fr_mval input)
{
    const fr_dtype t = FR_F64;
    fr_mval x = widen(c, input);
    struct two p = select_parts(c, input, TWO_OVER_PI);
    fr_mval sum = FMA(x, p.hi, K(MAGIC)), n = SUB(sum, K(MAGIC));
    fr_mval f = FMA(x, p.lo, FMA(x, p.hi, NEG(n)));
    fr_mval y = MUL(f, POLY(MUL(f, f), TAN_SHORT));
    fr_mval odd = m_ne(c, AND(BITS(sum), U(1)), U(0));

    return narrow(c, DIV(SEL(odd, K(-1), y), SEL(odd, y, K(1))));
}

/* x - n pi/2 = hi + lo with n the nearest. The first step is exact, since its result is below 2 and a multiple of the
 * last digits' product; n times the second part is, and then so is what `hi` lost. The third part of a float is enough,
 * since no float below TAN_FAR is nearer than 2^-27 to a multiple of pi/2. The parts are positive, so that -0 stays. */
static fr_mval
tan_f32(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F32;
    const double  *part = HALF_PI_PARTS_F32;
    struct nearest k = nearest(c, t, x, 1 / HALF_PI[0], 0);
    fr_mval        first = FMA(k.n, K(-part[0]), x), hi = FMA(k.n, K(-part[1]), first), less, cubic, q, e, odd;
    struct two     z = product_exact(c, hi, hi), y;

    less = FMA(k.n, K(part[2]), FMA(k.n, K(part[1]), SUB(hi, first)));
    less = MUL(less, FMA(z.hi, K(1.55), K(1)));          /* the derivative, roughly */
    cubic = MUL(hi, POLY(z.hi, TAN_F32));
    y = sum_sorted(c, hi, FMA(cubic, z.hi, FMA(cubic, z.lo, NEG(less))));
    /* -1 / y with what the quotient left over. */
    q = DIV(K(-1), y.hi);
    e = FMA(q, y.lo, FMA(q, y.hi, K(1)));
    odd = m_ne(c, AND(k.biased, U(1)), U(0));
    return RARE(LE(K(TAN_FAR), ABS(x)), tan_any_f32(c, x), SEL(odd, FMA(q, e, q), y.hi));
}

/* ---- doubles ---- */

struct reduced {
    struct two r;            /* |r| <= pi / 4 */
    fr_mval    turns;        /* quarter turns, in the low bits of an integer */
};

/* x > 0 and the five digits of 2 / pi (base 2^53, with their weights) that matter for it: a number
 * from 2^(53 k + 54) on gives whole turns with the first k digits.  k is found bit by bit, and each
 * bit that is set moves the digits along.  Returns x; it and the weights are 2^848 smaller and
 * larger where the weights would underflow. */
static fr_mval
select_digits(code_t c, fr_mval x, fr_mval digit[5])
{
    enum { N_DIGITS = FR_LEN(TWO_OVER_PI_DIGITS) };
    const fr_dtype t = FR_F64;
    fr_mval d[N_DIGITS], big = LE(K(ldexp(1, 53 * 16 + 54)), x), size;

    x = SEL(big, MUL(x, K(0x1p-848)), x);
    for (int k = 0; k < 16 + 4; k++) {
        d[k] = K(ldexp(TWO_OVER_PI_DIGITS[k], -53 * k));
        if (k + 16 < N_DIGITS)
            d[k] = SEL(big, K(ldexp(TWO_OVER_PI_DIGITS[k + 16], -53 * k)), d[k]);
    }
    size = x;
    for (int step = 8; step; step >>= 1) {
        big = LE(K(ldexp(1, 53 * step + 54)), size);
        if (step > 1)
            size = SEL(big, MUL(size, K(ldexp(1, -53 * step))), size);
        for (int k = 0; k < step + 4; k++)
            d[k] = SEL(big, d[k + step], d[k]);
    }
    memcpy(digit, d, 5 * sizeof *d);
    return x;
}

/* v less a multiple of 4; |v| <= 2^53. */
static fr_mval
without_turns(code_t c, fr_mval v)
{
    const fr_dtype t = FR_F64;

    return SUB(v, SUB(ADD(v, K(0x1.8p54)), K(0x1.8p54)));
}

/* x in quarter turns, for any x >= 0. */
static struct reduced
reduce_any(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    fr_mval d[5], y = select_digits(c, x, d), p[5], e[4], turns, f, lo;
    struct two s, u, v, w, h;

    /* The products with the digits; exactly, but for the last. */
    for (int k = 0; k < 5; k++) {
        p[k] = MUL(y, d[k]);
        if (k < 4)
            e[k] = FMA(y, d[k], NEG(p[k]));
    }
    /* In the order of their size: p0; e0, p1; e1, p2; e2, p3; e3, p4.  The first three may be
     * large. */
    p[0] = FMA(m_rint(c, MUL(p[0], K(0.25))), K(-4), p[0]);
    h = sum_exact(c, without_turns(c, e[0]), without_turns(c, p[1]));
    s = sum_exact(c, p[0], h.hi);
    u = sum_exact(c, e[1], p[2]);
    v = sum_exact(c, e[2], p[3]);
    w = sum_exact(c, s.hi, u.hi);
    turns = ADD(w.hi, K(MAGIC));
    /* What is left of w.hi is not smaller than s.lo, unless 0; h.lo and w.lo are smaller than both,
     * or are multiples of 2^-105 like them, and all sums are exact. */
    s = sum_sorted(c, SUB(w.hi, SUB(turns, K(MAGIC))), s.lo);
    u = sum_sorted(c, s.hi, ADD(ADD(h.lo, w.lo), u.lo));
    w = sum_exact(c, u.hi, v.hi);
    lo = ADD(ADD(s.lo, u.lo), ADD(w.lo, ADD(v.lo, ADD(e[3], p[4]))));
    f = w.hi;
    /* From quarter turns to radians. */
    h.hi = MUL(f, K(HALF_PI[0]));
    h.lo = FMA(f, K(HALF_PI[0]), NEG(h.hi));
    h.lo = FMA(lo, K(HALF_PI[0]), FMA(f, K(HALF_PI[1]), h.lo));
    return (struct reduced){h, BITS(turns)};
}

/* x - k pi/2 for 0 <= x < 2^26: the first step is exact, since its result is less than 1 and a
 * multiple of 2^-53. */
static struct reduced
reduce_small(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct nearest k = nearest(c, t, x, 1 / HALF_PI[0], 0);
    struct two p = product_exact(c, k.n, K(HALF_PI[1]));
    struct two r = sum_exact(c, FMA(k.n, K(-HALF_PI[0]), x), NEG(p.hi));

    r.lo = FMA(k.n, K(-HALF_PI[2]), SUB(r.lo, p.lo));
    return (struct reduced){r, k.biased};
}

static struct reduced
reduce(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct reduced any = reduce_any(c, x), small = reduce_small(c, x);
    fr_mval big = LE(K(0x1p26), x);

    small.r.hi = RARE(big, any.r.hi, small.r.hi);
    small.r.lo = RARE(big, any.r.lo, small.r.lo);
    small.turns = RARE(big, any.turns, small.turns);
    return small;
}

/* sin r and cos r as sums of two. */
static void
sin_cos(code_t c, struct two r, struct two *sine, struct two *cosine)
{
    const fr_dtype t = FR_F64;
    struct two z = product_exact(c, r.hi, r.hi);
    fr_mval half = MUL(z.hi, K(-0.5)), w = ADD(K(1), half);
    fr_mval wlo = SUB(half, SUB(w, K(1)));

    sine->hi = r.hi;
    sine->lo = FMA(MUL(r.hi, z.hi), POLY(z.hi, SIN_F64), MUL(r.lo, w));
    cosine->hi = w;
    cosine->lo = FMA(z.lo, K(-0.5), FMA(MUL(z.hi, z.hi), POLY(z.hi, COS_F64), wlo));
    cosine->lo = FMA(NEG(r.hi), r.lo, cosine->lo);
}

static fr_mval
sin_cos_f64(code_t c, fr_mval x, bool is_sin)
{
    const fr_dtype t = FR_F64;
    fr_mval a = ABS(x), turns, odd, y, sign;
    struct reduced q = reduce(c, a);
    struct two sine, cosine;

    turns = is_sin ? q.turns : m_add(c, q.turns, U(1));
    sin_cos(c, q.r, &sine, &cosine);
    odd = m_ne(c, AND(turns, U(1)), U(0));
    y = ADD(SEL(odd, cosine.hi, sine.hi), SEL(odd, cosine.lo, sine.lo));
    sign = SHL(turns, 62);
    if (!is_sin)
        return REAL(XOR(BITS(y), AND(sign, U(SIGN_BIT))));
    return REAL(XOR(BITS(y), AND(XOR(sign, BITS(x)), U(SIGN_BIT))));
}

static fr_mval
tan_f64(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    fr_mval a = ABS(x), odd, inverse, q, rest;
    struct reduced turn = reduce(c, a);
    struct two sine, cosine, top, bottom;

    sin_cos(c, turn.r, &sine, &cosine);
    sine = sum_sorted(c, sine.hi, sine.lo);
    cosine = sum_sorted(c, cosine.hi, cosine.lo);
    odd = m_ne(c, AND(turn.turns, U(1)), U(0));
    top.hi = SEL(odd, cosine.hi, sine.hi);
    top.lo = SEL(odd, cosine.lo, sine.lo);
    bottom.hi = SEL(odd, sine.hi, cosine.hi);
    bottom.lo = SEL(odd, sine.lo, cosine.lo);
    inverse = DIV(K(1), bottom.hi);
    q = MUL(top.hi, inverse);
    rest = FMA(NEG(q), bottom.hi, top.hi);
    rest = FMA(NEG(q), bottom.lo, ADD(rest, top.lo));
    q = FMA(rest, inverse, q);
    return REAL(XOR(BITS(q), AND(XOR(SHL(turn.turns, 63), BITS(x)), U(SIGN_BIT))));
}

REAL_RECIPE(sin) { out->re = t == FR_F32 ? sin_f32(c, in[0].re) : sin_cos_f64(c, in[0].re, true); }
REAL_RECIPE(cos) { out->re = t == FR_F32 ? cos_f32(c, in[0].re) : sin_cos_f64(c, in[0].re, false); }
REAL_RECIPE(tan) { out->re = t == FR_F32 ? tan_f32(c, in[0].re) : tan_f64(c, in[0].re); }
