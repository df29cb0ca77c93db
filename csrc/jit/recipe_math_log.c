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

/* What a logarithm is made of: log x = step e + slope r + r^2 p(r). */
struct base {
    const double *step;      /* the logarithm of 2 in two parts; an exponent times the first is exact */
    const double *slope;     /* in two parts */
    const double *p;
    size_t        n;
};

static fr_mval
log_real(code_t c, fr_dtype t, const struct base *b, fr_mval x)
{
    struct split s = split(c, t, x);
    fr_mval p = poly(c, t, s.r, b->p, b->n);
    fr_mval big = b->step[0] == 1 ? s.e : MUL(s.e, K(b->step[0]));
    struct two linear = product_exact(c, s.r, K(b->slope[0]));
    struct two sum = sum_sorted(c, big, linear.hi);
    fr_mval lo = ADD(FMA(s.r, K(b->slope[1]), linear.lo), sum.lo);

    lo = FMA(MUL(s.r, s.r), p, lo);
    if (b->step[1] != 0)
        lo = FMA(s.e, K(b->step[1]), lo);
    return log_specials(c, t, ADD(sum.hi, lo), x);
}

/* The natural logarithm has no linear term besides r itself. */
static fr_mval
log_natural(code_t c, fr_dtype t, fr_mval x)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    struct split s = split(c, t, x);
    fr_mval p = t == FR_F32 ? POLY(s.r, LOG_F32) : POLY(s.r, LOG_F64);
    struct two sum = sum_sorted(c, MUL(s.e, K(ln2[0])), s.r);
    fr_mval lo = FMA(s.e, K(ln2[1]), FMA(MUL(s.r, s.r), p, sum.lo));

    return log_specials(c, t, ADD(sum.hi, lo), x);
}

fr_status
recipe_real_log(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    out->re = log_natural(c, t, in[0].re);
    return c->st;
}

fr_status
recipe_real_log2(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    static const struct base f32 = {LOG2_F32_STEP, LOG2_F32_SLOPE, LOG2_F32, FR_LEN(LOG2_F32)};
    static const struct base f64 = {LOG2_F64_STEP, LOG2_F64_SLOPE, LOG2_F64, FR_LEN(LOG2_F64)};

    out->re = log_real(c, t, t == FR_F32 ? &f32 : &f64, in[0].re);
    return c->st;
}

fr_status
recipe_real_log10(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    static const struct base f32 = {LOG10_F32_STEP, LOG10_F32_SLOPE, LOG10_F32, FR_LEN(LOG10_F32)};
    static const struct base f64 = {LOG10_F64_STEP, LOG10_F64_SLOPE, LOG10_F64, FR_LEN(LOG10_F64)};

    out->re = log_real(c, t, t == FR_F32 ? &f32 : &f64, in[0].re);
    return c->st;
}

/* 1 + u = 2^e (1 + r), with r = u 2^-e + (2^-e - 1) as a sum of two, so that r is u where e is 0;
 * then log(1 + u + *tail) as a sum of two.  `tail` may be NULL. */
static struct two
log1p_parts(code_t c, fr_dtype t, fr_mval u, const fr_mval *tail)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    uint64_t root = t == FR_F32 ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;
    uint64_t one = t == FR_F32 ? 0x3f800000 : 0x3ff0000000000000;
    uint64_t exponents = (SIGN_BIT - 1) & ~(((uint64_t)1 << FRACTION) - 1);
    fr_mval bits = m_add(c, BITS(ADD(u, K(1))), U(one - root));
    fr_mval e = small_integer(c, t, SHR(bits, FRACTION), -BIAS);
    /* Of 2^-e, four times as much: the largest exponent leaves a subnormal 2^-e. */
    fr_mval four = REAL(m_sub(c, U((uint64_t)(2 * BIAS + 2) << FRACTION),
                              AND(bits, U(exponents))));
    fr_mval quarter = MUL(u, K(0.25)), rest = FMA(four, K(0.25), K(-1));
    fr_mval r = FMA(quarter, four, rest), rlo = FMA(quarter, four, SUB(rest, r));
    struct two sum = sum_sorted(c, MUL(e, K(ln2[0])), r);
    fr_mval p = t == FR_F32 ? POLY(r, LOG_F32) : POLY(r, LOG_F64), lo;

    if (tail)
        rlo = FMA(MUL(*tail, K(0.25)), four, rlo);
    lo = FMA(MUL(r, r), p, FMA(e, K(ln2[1]), sum.lo));
    /* The derivative 1 / (1 + r), roughly, is enough for the tail. */
    lo = FMA(rlo, FMA(r, K(-0.8), K(1)), lo);
    return (struct two){sum.hi, lo};
}

struct two
fr_math_log1p_parts(code_t c, fr_mval u, fr_mval tail)
{
    return log1p_parts(c, FR_F64, u, &tail);
}

fr_status
recipe_real_log1p(code_t c, fr_dtype t, const struct fr_mnum *in, struct fr_mnum *out)
{
    fr_mval u = in[0].re;
    struct two l = log1p_parts(c, t, u, NULL);
    fr_mval y = log_specials(c, t, ADD(l.hi, l.lo), ADD(u, K(1)));

    out->re = SEL(LT(ABS(u), K(ldexp(1, -FRACTION - 2))), u, y);
    return c->st;
}
