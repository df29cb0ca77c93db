/* jit/recipe_math_log.c -- logarithms and what is made of them.
 *
 * x = 2^e (1 + r) with sqrt(1/2) <= 1 + r < sqrt(2), and a polynomial for log(1 + r). */
#include "jit/recipe_math_core.h"

/* y, but for x outside (0, inf) what a logarithm of x is. */
static fr_mval
log_specials(code_t c, fr_dtype t, fr_mval y, fr_mval x)
{
    fr_mval finite = SEL(LT(x, K(INFINITY)), y, x);

    return SEL(LT(K(0), x), finite, SEL(EQ(x, K(0)), NEG(raised_infinity(c, t, x)), raised_nan(c, t, m_not(c, LE(K(0), x)), x)));
}

/* log(1 + r) - r of doubles as s inner - half: half is r^2 / 2, and inner half + s^2 p(s^2) with s = r / (2 + r), so
 * that what s was rounded by counts little (as in fdlibm's e_log.c). Beside a polynomial a division costs next to
 * nothing, as it has a unit of its own, and of r alone 19 terms would be needed. `square` is r^2 rounded. */
struct bend {
    fr_mval s, inner, half;
};

static struct bend
log_bend(code_t c, fr_mval r, fr_mval square, const double *p, size_t n)
{
    const fr_dtype t = FR_F64;
    struct bend    b = {.s = DIV(r, ADD(r, K(2))), .half = MUL(square, K(0.5))};
    fr_mval        z = MUL(b.s, b.s);

    b.inner = FMA(z, poly(c, t, z, p, n), b.half);
    return b;
}

/* What a logarithm is made of: log x = step e + slope log(1 + r). */
struct base {
    const double *step;      /* log 2 in two parts; exponents times the first are exact */
    const double *slope;     /* in two parts */
    const double *p;         /* floats: slope (log(1 + r) - r) = r^2 p(r); doubles: of the bend */
    size_t        n;
    double        from;      /* r is from this, less 1, to twice as much */
};

/* slope log(1 + r) + rest, but for slope r, in which the first part of slope is meant. */
static fr_mval
log_rest(code_t c, fr_dtype t, const struct base *b, fr_mval r, fr_mval rest)
{
    struct two  square;
    struct bend bend;

    if (t == FR_F32)
        return FMA(r, FMA(r, poly(c, t, r, b->p, b->n), K(b->slope[1])), rest);
    square = product_exact(c, r, r);
    bend = log_bend(c, r, square.hi, b->p, b->n);
    rest = FMA(r, K(b->slope[1]), rest);
    if (b->slope[0] > 1) /* what the square lost is up to a fifth of an ULP */
        rest = FMA(square.lo, K(-0.5 * b->slope[0]), rest);
    return FMA(FMA(bend.s, bend.inner, NEG(bend.half)), K(b->slope[0]), rest);
}

static fr_mval
log_real(code_t c, fr_dtype t, const struct base *b, fr_mval x)
{
    struct any_split s = split_any(c, t, x, b->from);
    fr_mval r = SUB(s.m, K(1)), slope = K(b->slope[0]), y;

    if (b->step[0] == 1) {
        /* A fraction of at most half the exponent may be rounded once by itself. */
        y = FMA(s.e, K(s.unit), FMA(r, slope, log_rest(c, t, b, r, K(0))));
    } else {
        fr_mval big = MUL(s.e, K(b->step[0] * s.unit)), hi = FMA(r, slope, big);

        /* |r| is at most 0.34, and r times the slope half of `big`, so that the difference is exact. */
        y = FMA(s.e, K(b->step[1] * s.unit), FMA(r, slope, SUB(big, hi)));
        y = ADD(hi, log_rest(c, t, b, r, y));
    }
    return RARE(s.special, log_specials(c, t, y, x), y);
}

/* lo + log(1 + r) - r, with sqrt(1/2) <= 1 + r <= sqrt(2); `square` is r^2 rounded. */
static fr_mval
log_tail(code_t c, fr_dtype t, fr_mval r, fr_mval square, fr_mval lo)
{
    struct bend bend;

    if (t == FR_F32)
        return FMA(square, POLY(r, LOG_F32), lo);
    bend = log_bend(c, r, square, LOG_F64, FR_LEN(LOG_F64));
    return SUB(FMA(bend.s, bend.inner, lo), bend.half);
}

/* The natural logarithm has no linear term besides r itself. */
static fr_mval
log_natural(code_t c, fr_dtype t, fr_mval x)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    struct any_split s = split_any(c, t, x, SQRT_HALF);
    fr_mval r = SUB(s.m, K(1)), step = K(ln2[0] * s.unit), hi = FMA(s.e, step, r);
    fr_mval lo = ADD(FMA(s.e, step, NEG(hi)), r), y;

    lo = log_tail(c, t, r, MUL(r, r), FMA(s.e, K(ln2[1] * s.unit), lo));
    y = ADD(hi, lo);
    return RARE(s.special, log_specials(c, t, y, x), y);
}

REAL_RECIPE(log) { out->re = log_natural(c, t, in[0].re); }

REAL_RECIPE(log2)
{
    static const struct base f32 = {LOG2_F32_STEP, LOG2_F32_SLOPE, LOG2_F32, FR_LEN(LOG2_F32), SQRT_HALF};
    static const struct base f64 = {LOG2_F64_STEP, LOG2_F64_SLOPE, LOG_F64, FR_LEN(LOG_F64), SQRT_HALF};

    out->re = log_real(c, t, t == FR_F32 ? &f32 : &f64, in[0].re);
}

REAL_RECIPE(log10)
{
    static const struct base f32 = {LOG10_F32_STEP, LOG10_F32_SLOPE, LOG10_F32, FR_LEN(LOG10_F32), 0.67};
    static const struct base f64 = {LOG10_F64_STEP, LOG10_F64_SLOPE, LOG10_F64, FR_LEN(LOG10_F64), 0.67};

    out->re = log_real(c, t, t == FR_F32 ? &f32 : &f64, in[0].re);
}

/* 1 + u = 2^e (1 + r), with r = u 2^-e + (2^-e - 1) as a sum of two, so that r is u where e is 0;
 * then the logarithm of 2^-*fewer (1 + u + *tail) as a sum of two.  `tail` and `fewer` may be NULL.  `fine`: its
 * error is some 2^-56 of it rather than 2^-54, for what goes on computing with both parts (f64 only). */
static struct two
log1p_parts(code_t c, fr_dtype t, fr_mval u, const fr_mval *tail, const fr_mval *fewer, bool fine)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    struct any_split whole = split_normal(c, t, ADD(u, K(1)), SQRT_HALF);
    /* Of 2^-e, four times as much: the largest exponent leaves a subnormal 2^-e. */
    fr_mval four = REAL(m_sub(c, U(bits_of(t, 4) + whole.bias), whole.field));
    fr_mval quarter = MUL(u, K(0.25)), rest = FMA(four, K(0.25), K(-1));
    fr_mval r = FMA(quarter, four, rest), rlo = FMA(quarter, four, SUB(rest, r));
    fr_mval e = whole.e, step = K(ln2[0] * whole.unit), slope, lo;
    struct two sum, square;

    if (fewer)
        e = SUB(e, MUL(*fewer, K(1 / whole.unit)));
    sum.hi = FMA(e, step, r);
    sum.lo = ADD(FMA(e, step, NEG(sum.hi)), r);
    if (tail)
        rlo = FMA(MUL(*tail, K(0.25)), four, rlo);
    square = product_exact(c, r, r);
    lo = FMA(e, K(ln2[1] * whole.unit), sum.lo);
    if (fine) { /* half is as large as the rest of it by far */
        struct bend bend = log_bend(c, r, square.hi, LOG_F64, FR_LEN(LOG_F64));

        sum = sum_exact(c, sum.hi, NEG(bend.half));
        lo = ADD(FMA(bend.s, bend.inner, lo), sum.lo);
    } else {
        lo = log_tail(c, t, r, square.hi, lo);
    }
    /* The derivative 1 / (1 + r), roughly, is enough for the tail. */
    slope = FMA(r, K(-0.8), K(1));
    if (tail) {
        rlo = FMA(square.lo, K(-0.5), rlo);
        slope = FMA(square.hi, K(0.9), SUB(K(1), r));
    }
    lo = FMA(rlo, slope, lo);
    return (struct two){sum.hi, lo};
}

REAL_RECIPE(log1p)
{
    fr_mval u = in[0].re, whole = ADD(u, K(1));
    struct two l = log1p_parts(c, t, u, NULL, NULL, false);
    fr_mval y = ADD(l.hi, l.lo);

    y = RARE(not_positive(c, t, whole), log_specials(c, t, y, whole), y);
    out->re = RARE(LT(ABS(u), K(ldexp(1, -FRACTION - 2))), u, y);
}

/* ---- inverse hyperbolic functions ---- */

/* arcsinh x = sign(x) log(1 + u), u = a + (sqrt(1 + a^2) - 1), a = |x|. */
REAL_RECIPE(arcsinh)
{
    fr_mval x = in[0].re, a = ABS(x), far = LE(K(t == FR_F32 ? 0x1p25 : 0x1p54), a);
    fr_mval v = FMA(a, a, K(1)), s = SQRT(v), lost = FMA(a, a, SUB(K(1), v)), tail, fewer, y;
    struct two u = sum_sorted(c, a, SUB(s, K(1))), l;

    tail = ADD(u.lo, DIV(ADD(FMA(NEG(s), s, v), lost), ADD(s, s)));
    /* Far away the root is a, and 1 + u is 2 a. */
    u.hi = RARE(far, a, u.hi);
    tail = RARE(far, K(0), tail);
    fewer = RARE(far, K(-1), K(0));
    l = log1p_parts(c, t, u.hi, &tail, &fewer, false);
    y = ADD(l.hi, l.lo);
    y = RARE(far, SEL(LT(a, K(INFINITY)), y, a), y);
    out->re = SEL(LT(a, K(t == FR_F32 ? 0x1p-14 : 0x1p-28)), x, with_sign(c, t, y, x));
}

/* y, but for x below 1 NaN. */
static fr_mval
below_1(code_t c, fr_dtype t, fr_mval x, fr_mval y)
{
    fr_mval bad = LT(x, K(1));

    return SEL(bad, raised_nan(c, t, bad, SUB(x, K(1))), y);
}

/* arccosh x = log(1 + u), u = d + sqrt(2 d + d^2), d = x - 1. */
fr_status
recipe_real_arccosh(code_t c, fr_dtype in_type, const struct fr_mnum *in, struct fr_mnum *out)
{
    const fr_dtype t = FR_F64;
    fr_mval x = in[0].re;

    if (in_type == FR_F32) {
        fr_mval w = widen(c, x);
        fr_mval y = log_short(c, ADD(w, SQRT(FMA(w, w, K(-1)))));

        y = SEL(LT(w, K(INFINITY)), y, w);
        out->re = narrow(c, RARE(LT(w, K(1)), below_1(c, t, w, y), y));
    } else {
        fr_mval big = LE(K(0x1p54), x), d = SUB(x, K(1)), s, lo, fewer, y;
        struct two z = product_exact(c, d, d), v = sum_exact(c, ADD(d, d), z.hi), u, l;

        v.lo = ADD(v.lo, z.lo);
        s = SQRT(v.hi);
        /* The constant keeps 0 / 0 away. */
        lo = DIV(ADD(FMA(NEG(s), s, v.hi), v.lo), ADD(ADD(s, s), K(0x1p-1000)));
        u = sum_sorted(c, s, d);
        lo = SEL(big, K(0), ADD(u.lo, lo));
        fewer = SEL(big, K(-1), K(0));
        l = log1p_parts(c, t, SEL(big, x, u.hi), &lo, &fewer, false);
        y = SEL(LT(x, K(INFINITY)), ADD(l.hi, l.lo), x);
        out->re = RARE(LT(x, K(1)), below_1(c, t, x, y), y);
    }
    return c->st;
}

/* arctanh x = sign(x) / 2 log(1 + u), u = 2 a / (1 - a), a = |x|. */
REAL_RECIPE(arctanh)
{
    fr_mval x = in[0].re, a = ABS(x), top = ADD(a, a), inverse, q, tail, y;
    struct two d = sum_sorted(c, K(1), NEG(a)), l;

    inverse = DIV(K(1), d.hi);
    q = MUL(top, inverse);
    tail = MUL(FMA(NEG(q), d.lo, FMA(NEG(q), d.hi, top)), inverse);
    l = log1p_parts(c, t, q, &tail, NULL, false);
    y = MUL(ADD(l.hi, l.lo), K(0.5));
    y = RARE(LE(K(1), a), SEL(EQ(a, K(1)), raised_infinity(c, t, SUB(K(1), a)), raised_nan(c, t, LT(K(1), a), SUB(K(1), a))), y);
    out->re = SEL(LT(a, K(t == FR_F32 ? 0x1p-14 : 0x1p-28)), x, with_sign(c, t, y, x));
}

/* ---- sums of powers ---- */

/* max(x, 0) + log(1 + e^-|x|) */
fr_status
recipe_real_softplus(code_t c, fr_dtype in_type, const struct fr_mnum *in, struct fr_mnum *out)
{
    const fr_dtype t = FR_F64;
    fr_mval x = in[0].re;

    if (in_type == FR_F32) {
        fr_mval w = widen(c, x);
        fr_mval z = exp_short(c, or_nothing_short(c, NEG(ABS(w)), M_LN2));

        out->re = narrow(c, FMA(z, POLY(z, LOG1P_SHORT), at_least(c, t, w, 0)));
    } else {
        fr_mval a = or_nothing(c, t, NEG(ABS(x)), M_LN2);
        struct exp_parts z = fr_math_exp_parts(c, t, a, K(0), 2 * BIAS);
        fr_mval whole = scale(c, t, z.e.hi, z.biased), tail = scale(c, t, z.e.lo, z.biased);
        struct two l = log1p_parts(c, t, whole, &tail, NULL, false);
        struct two sum = sum_exact(c, at_least(c, t, x, 0), l.hi);
        fr_mval y = SEL(LT(x, K(-40)), whole, ADD(sum.hi, ADD(sum.lo, l.lo)));

        out->re = SEL(LT(x, K(INFINITY)), y, x);
    }
    return c->st;
}

/* big + log(1 + e^d), d = small - big, in base 2 if `two`. */
static fr_mval
log_add_f32(code_t c, fr_mval x, fr_mval y, bool two)
{
    const fr_dtype t = FR_F64;
    fr_mval big = SEL(LT(x, y), y, x), d = SUB(SEL(LT(x, y), x, y), big), e, small;

    /* As or_nothing_short says; log2(1 + 2^d) is up to 1.45 times 2^d. */
    fr_mval near = SEL(LT(d, K(two ? -151 : -104)), K(two ? -BIAS : -BIAS * M_LN2), d), sum;

    e = exp_short(c, two ? MUL(near, K(LN2)) : near);
    small = MUL(e, POLY(e, LOG1P_SHORT));
    sum = two ? FMA(small, K(1 / LN2), big) : ADD(small, big);
    /* Equal infinities and NaN have no difference, but a sum. */
    return SEL(EQ(d, d), sum, ADD(x, y));
}

static struct two
times_log2e(code_t c, struct two x)
{
    const fr_dtype t = FR_F64;
    struct two p = product_exact(c, x.hi, K(LOG2E[0]));

    return (struct two){p.hi, FMA(x.lo, K(LOG2E[0]), FMA(x.hi, K(LOG2E[1]), p.lo))};
}

static fr_mval
log_add_f64(code_t c, fr_mval x, fr_mval y, bool two)
{
    const fr_dtype t = FR_F64;
    fr_mval less = LT(x, y), big = SEL(less, y, x), far;
    struct two d = sum_exact(c, SEL(less, x, y), NEG(big)), small, l, sum;
    fr_mval near = LT(K(two ? -1080 : -750), d.hi), number = EQ(d.hi, d.hi);
    struct exp_parts z;

    d.hi = SEL(near, d.hi, K(two ? -2 * BIAS : -2 * BIAS * M_LN2)); /* as or_nothing says */
    d.lo = SEL(near, d.lo, K(0));
    if (two) {
        struct two p = product_exact(c, d.hi, K(LN2));

        d.lo = FMA(d.lo, K(LN2), FMA(d.hi, K(LN2_LOW), p.lo));
        d.hi = p.hi;
    }
    z = fr_math_exp_parts(c, t, d.hi, d.lo, 2 * BIAS);
    small.hi = scale(c, t, z.e.hi, z.biased);
    small.lo = scale(c, t, z.e.lo, z.biased);
    l = log1p_parts(c, t, small.hi, &small.lo, NULL, true);
    if (two) {
        /* e^d may be subnormal: the factor comes before the scale. */
        z.e = times_log2e(c, z.e);
        small.hi = scale(c, t, z.e.hi, z.biased);
        small.lo = scale(c, t, z.e.lo, z.biased);
        l = times_log2e(c, l);
    }
    /* Small exponentials are their own logarithm of 1 + e^d; that of subnormals is not exact. */
    far = LT(d.hi, K(-40));
    l.hi = SEL(far, small.hi, l.hi);
    l.lo = SEL(far, small.lo, l.lo);
    sum = sum_exact(c, big, l.hi);
    far = ADD(sum.hi, ADD(sum.lo, l.lo));
    far = SEL(LT(ABS(sum.hi), K(INFINITY)), far, sum.hi);
    /* Equal infinities and NaN have no difference, but a sum. */
    return SEL(number, far, ADD(x, y));
}

static fr_mval
log_add(code_t c, fr_dtype in, fr_mval x, fr_mval y, bool two)
{
    return in == FR_F32 ? narrow(c, log_add_f32(c, widen(c, x), widen(c, y), two))
                        : log_add_f64(c, x, y, two);
}

REAL_RECIPE(logaddexp) { out->re = log_add(c, t, in[0].re, in[1].re, false); }
REAL_RECIPE(logaddexp2) { out->re = log_add(c, t, in[0].re, in[1].re, true); }
