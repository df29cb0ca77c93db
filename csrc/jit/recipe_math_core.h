/* jit/recipe_math_core.h -- what the recipes of the math functions share: short spellings,
 * polynomials, numbers as unevaluated sums of two, powers of two made from bits.
 * Private to recipe_math_*.c.  The spellings expect `c` (the code) and `t` (F32 or F64) in scope.
 *
 * Everything is branch-free, and is written for loops that a compiler turns into SIMD code:
 * rounding to an integer adds a constant that pushes the fraction out (AVX2 converts no 64-bit
 * integers), powers of two are shifted into the exponent field, divisions are rare. */
#ifndef FR_JIT_RECIPE_MATH_CORE_H
#define FR_JIT_RECIPE_MATH_CORE_H

#include <math.h>

#include "jit/recipe_int.h"
#include "jit/recipe_math_coef.h"

#define K(v)         m_real(c, t, v)
#define ADD(x, y)    m_add(c, x, y)
#define SUB(x, y)    m_sub(c, x, y)
#define MUL(x, y)    m_mul(c, x, y)
#define DIV(x, y)    m_div(c, x, y)
#define FMA(x, y, z) m_fma(c, x, y, z)
#define NEG(x)       m_neg(c, x)
#define ABS(x)       m_abs(c, x)
#define SQRT(x)      m_sqrt(c, x)
#define LT(x, y)     m_lt(c, x, y)
#define LE(x, y)     m_le(c, x, y)
#define EQ(x, y)     m_eq(c, x, y)
#define SEL(b, x, y) m_select(c, b, x, y)
#define RARE(b, x, y) m_rare(c, b, x, y)
/* The integer of the same width that holds a float's bits, and back. */
#define UINT         (t == FR_F32 ? FR_U32 : FR_U64)
#define BITS(x)      m_bitcast(c, UINT, x)
#define REAL(u)      m_bitcast(c, t, u)
#define U(v)         m_int(c, UINT, (int64_t)(v))
#define SHL(x, n)    m_shl(c, x, U(n))
#define SHR(x, n)    m_shr(c, x, U(n))
#define AND(x, y)    m_and(c, x, y)
#define OR(x, y)     m_or(c, x, y)
#define XOR(x, y)    m_xor(c, x, y)

#define LN2          0x1.62e42fefa39efp-1
#define LN2_LOW      0x1.abc9e3b39803fp-56

enum { F32_DIGITS = 23, F64_DIGITS = 52 };          /* bits of the fraction field */
#define FRACTION     (t == FR_F32 ? F32_DIGITS : F64_DIGITS)
#define BIAS         (t == FR_F32 ? 127 : 1023)
#define SIGN_BIT     (t == FR_F32 ? 0x80000000u : 0x8000000000000000u)
/* Adding and subtracting 1.5 * 2^FRACTION rounds to an integer, which stays in the low bits. */
#define MAGIC        (t == FR_F32 ? 0x1.8p23 : 0x1.8p52)

#define POLY(x, coef) poly(c, t, x, coef, FR_LEN(coef))

/* coef[0] + coef[step] x + coef[2 step] x^2 + ... by Horner's rule. */
static inline fr_mval
horner(code_t c, fr_dtype t, fr_mval x, const double *coef, size_t n, size_t step)
{
    size_t  k = (n - 1) / step * step;
    fr_mval y = K(coef[k]);

    while (k) {
        k -= step;
        y = FMA(y, x, K(coef[k]));
    }
    return y;
}

enum { POLY_SPLIT = 12, POLY_KEEP = 3 };

/* coef[0] + coef[1] x + ...; of a long one the high powers as an even and an odd half: each step
 * waits for the one before, and a processor looks only so far ahead for other work.  The low powers
 * go one by one, so that the rounding errors of the halves count little. */
static inline fr_mval
poly(code_t c, fr_dtype t, fr_mval x, const double *coef, size_t n)
{
    fr_mval square, y;

    if (n < POLY_SPLIT)
        return horner(c, t, x, coef, n, 1);
    square = MUL(x, x);
    coef += POLY_KEEP;
    n -= POLY_KEEP;
    y = FMA(horner(c, t, square, coef + 1, n - 1, 2), x, horner(c, t, square, coef, n, 2));
    for (int k = 0; k < POLY_KEEP; k++)
        y = FMA(y, x, K(*--coef));
    return y;
}

/* The smaller of x and a constant, and the larger; a NaN stays. */
static inline fr_mval
at_most(code_t c, fr_dtype t, fr_mval x, double limit)
{
    return SEL(LT(K(limit), x), K(limit), x);
}

static inline fr_mval
at_least(code_t c, fr_dtype t, fr_mval x, double limit)
{
    return SEL(LT(x, K(limit)), K(limit), x);
}

/* |y| with the sign of x. */
static inline fr_mval
with_sign(code_t c, fr_dtype t, fr_mval y, fr_mval x)
{
    return REAL(OR(AND(BITS(y), U(SIGN_BIT - 1)), AND(BITS(x), U(SIGN_BIT))));
}

/* A number as the sum of two floats, the second small against the first. */
struct two {
    fr_mval hi, lo;
};

/* x + y exactly, if |x| >= |y| or x is 0. */
static inline struct two
sum_sorted(code_t c, fr_mval x, fr_mval y)
{
    fr_mval s = ADD(x, y);

    return (struct two){s, SUB(y, SUB(s, x))};
}

/* x + y exactly. */
static inline struct two
sum_exact(code_t c, fr_mval x, fr_mval y)
{
    fr_mval s = ADD(x, y), yy = SUB(s, x), xx = SUB(s, yy);

    return (struct two){s, ADD(SUB(x, xx), SUB(y, yy))};
}

/* x * y exactly. */
static inline struct two
product_exact(code_t c, fr_mval x, fr_mval y)
{
    fr_mval p = MUL(x, y);

    return (struct two){p, FMA(x, y, NEG(p))};
}

/* 2^n, where `biased` holds n + BIAS in its low bits (1 <= n + BIAS < 2 BIAS + 1). */
static inline fr_mval power_of_two(code_t c, fr_dtype t, fr_mval biased) { return REAL(SHL(biased, FRACTION)); }

/* 2^n as a product of two, since alone it may be no normal number; `biased` holds n + 2 BIAS in its
 * low bits. */
static inline struct two
power_of_two_factors(code_t c, fr_dtype t, fr_mval biased)
{
    fr_mval half = SHL(SHR(biased, 1), FRACTION);

    return (struct two){REAL(half), REAL(m_sub(c, SHL(biased, FRACTION), half))};
}

/* y * 2^n for any n that may come up, rounded once. */
static inline fr_mval
scale(code_t c, fr_dtype t, fr_mval y, fr_mval biased)
{
    struct two s = power_of_two_factors(c, t, biased);

    return MUL(MUL(y, s.hi), s.lo);
}

/* x; where 2^(x / unit) rounds to 0, an x of which both factors of 2^n are 0. A product that underflows takes a hundred
 * cycles on many processors, and where parts of rows are masked by -1e9 or infinity each vector has one. */
static inline fr_mval
or_nothing(code_t c, fr_dtype t, fr_mval x, double unit)
{
    double least = t == FR_F32 ? -150.03 : -1075.03;

    return SEL(LT(x, K(least * unit)), K(-2 * BIAS * unit), x);
}

/* The same in doubles with 2^n as one factor, for a result that becomes a float. */
static inline fr_mval
or_nothing_short(code_t c, fr_mval x, double unit)
{
    const fr_dtype t = FR_F64;

    return SEL(LT(x, K(-150.03 * unit)), K(-BIAS * unit), x);
}

/* The nearest integer n: as a number, and n + bias in the low bits of an integer. */
struct nearest {
    fr_mval n, biased;
};

/* The integer next to x * factor. */
static inline struct nearest
nearest(code_t c, fr_dtype t, fr_mval x, double factor, double bias)
{
    fr_mval sum = FMA(x, K(factor), K(MAGIC + bias));

    return (struct nearest){SUB(sum, K(MAGIC + bias)), BITS(sum)};
}

/* x = 2^e m with `from` <= m < 2 `from`, exactly, for positive finite x; `from` is between 1/2 and 1. */
struct split {
    fr_mval e, m;
};

#define SQRT_HALF 0x1.6a09e667f3bcdp-1

/* The bits of a constant. */
static inline uint64_t
bits_of(fr_dtype t, double v)
{
    uint64_t bits = 0;
    float    f = (float)v;

    memcpy(&bits, t == FR_F32 ? (void *)&f : (void *)&v, t == FR_F32 ? sizeof f : sizeof v);
    return bits;
}

/* True unless 0 < x < infinity; a comparison, as RARE wants it. */
static inline fr_mval
not_positive(code_t c, fr_dtype t, fr_mval x)
{
    return LE(U(bits_of(t, INFINITY) - 1), m_sub(c, BITS(x), U(1)));
}

/* NaN where `bad`, of x below 0, and 1 elsewhere; infinity where x is 0, and 1 elsewhere: by operations that raise the
 * processor's flags, as NumPy's functions do, so that somebody asks which warning is due. */
static inline fr_mval
raised_nan(code_t c, fr_dtype t, fr_mval bad, fr_mval x)
{
    return ABS(SQRT(SEL(bad, x, K(1))));
}

static inline fr_mval
raised_infinity(code_t c, fr_dtype t, fr_mval x)
{
    return DIV(K(1), ABS(SEL(EQ(x, K(0)), x, K(1))));
}

enum { LIFT = 54 };      /* subnormals are multiplied by 2^LIFT first */

static inline struct split
split(code_t c, fr_dtype t, fr_mval x, double from, bool subnormals)
{
    /* What makes the exponent of `from` carry into that of 1. */
    uint64_t least = bits_of(t, from), one = bits_of(t, 1);
    double   top = ldexp(1, FRACTION);
    fr_mval  offset = K(top + BIAS), bits, m, e;

    if (subnormals) {
        fr_mval tiny = LT(x, K(ldexp(1, 1 - BIAS)));

        x = SEL(tiny, MUL(x, K(ldexp(1, LIFT))), x);
        offset = SEL(tiny, K(top + BIAS + LIFT), offset);
    }
    bits = m_add(c, BITS(x), U(one - least));
    m = REAL(m_add(c, AND(bits, U(((uint64_t)1 << FRACTION) - 1)), U(least)));
    /* An integer n below 2^FRACTION, in the fraction of that number, makes it 2^FRACTION + n. */
    e = SUB(REAL(OR(SHR(bits, FRACTION), U(bits_of(t, top)))), offset);
    return (struct split){e, m};
}

/* The same with the exponent as e * `unit`; `field` is the exponent where a number has it, and `bias` more. */
struct any_split {
    fr_mval  e, m, field, special;
    uint64_t bias;
    double   unit;
};

static inline struct any_split
split_normal(code_t c, fr_dtype t, fr_mval x, double from)
{
    struct any_split s = {.unit = 1, .bias = bits_of(t, 1)};
    uint64_t         fractions = ((uint64_t)1 << FRACTION) - 1;
    struct split     p;

    if (t == FR_F32) {
        /* A conversion makes a number of the field where it stands. */
        s.bias = 0;
        s.unit = ldexp(1, -FRACTION);
        s.field = AND(m_sub(c, BITS(x), U(bits_of(t, from))), U(~fractions));
        s.e = m_cvt(c, t, m_bitcast(c, FR_I32, s.field));
        s.m = REAL(m_sub(c, BITS(x), s.field));
    } else {
        p = split(c, t, x, from, false);
        s.field = AND(m_add(c, BITS(x), U(bits_of(t, 1) - bits_of(t, from))), U(~fractions));
        s.e = p.e;
        s.m = p.m;
    }
    return s;
}

/* For any x. What is neither subnormal nor negative, 0, infinite or NaN takes the shorter way; `special` (a comparison,
 * as RARE wants it) is true for the others, and subnormals are right. */
static inline struct any_split
split_any(code_t c, fr_dtype t, fr_mval x, double from)
{
    uint64_t normal = (uint64_t)1 << FRACTION, usual = (uint64_t)(2 * BIAS) << FRACTION;
    fr_mval  special = LE(U(usual), m_sub(c, BITS(x), U(normal))), tiny = LT(x, K(ldexp(1, 1 - BIAS)));
    struct any_split s;

    x = RARE(special, SEL(tiny, MUL(x, K(ldexp(1, LIFT))), x), x);
    s = split_normal(c, t, x, from);
    s.e = SUB(s.e, RARE(special, SEL(tiny, K(LIFT / s.unit), K(0)), K(0)));
    s.special = special;
    return s;
}

/* x - n ln 2, the first step exact. */
static inline fr_mval
minus_ln2(code_t c, fr_dtype t, fr_mval x, fr_mval n)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;

    return FMA(n, K(-ln2[1]), FMA(n, K(-ln2[0]), x));
}

/* The same with the rounding error as the second part. */
static inline struct two
minus_ln2_two(code_t c, fr_dtype t, fr_mval x, fr_mval n)
{
    const double *ln2 = t == FR_F32 ? LN2_F32 : LN2_F64;
    fr_mval a = FMA(n, K(-ln2[0]), x), lo = K(-ln2[1]);
    fr_mval r = FMA(n, lo, a);

    return (struct two){r, FMA(n, lo, SUB(a, r))};
}

/* ---- doubles that are exact enough for floats (2^-32) ---- */

static inline fr_mval widen(code_t c, fr_mval x) { return m_cvt(c, FR_F64, x); }
static inline fr_mval narrow(code_t c, fr_mval x) { return m_cvt(c, FR_F32, x); }

/* e^x for |x| < 700. */
static inline fr_mval
exp_short(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct nearest k = nearest(c, t, x, LOG2E[0], BIAS);
    fr_mval r = FMA(k.n, K(-LN2), x), s = power_of_two(c, t, k.biased);

    return MUL(FMA(r, POLY(r, EXP_SHORT), K(1)), s);
}

/* log x for positive normal doubles; relative error where x is near 1 only as exact as x is. */
static inline fr_mval
log_short(code_t c, fr_mval x)
{
    const fr_dtype t = FR_F64;
    struct split s = split(c, t, x, SQRT_HALF, false);
    fr_mval r = SUB(s.m, K(1));

    return FMA(s.e, K(LN2), FMA(MUL(r, r), POLY(r, LOG_SHORT), r));
}

/* About 1 / sqrt x to 3.5 percent, for x > 0; something finite for 0. */
static inline fr_mval
inverse_root(code_t c, fr_dtype t, fr_mval x)
{
    return REAL(m_sub(c, U(t == FR_F32 ? 0x5f375a86 : 0x5fe6eb50c7b537a9), SHR(BITS(x), 1)));
}

/* About 1 / x to 12 percent, for normal x of normal inverse. */
static inline fr_mval
inverse_about(code_t c, fr_dtype t, fr_mval x)
{
    return REAL(m_sub(c, U(t == FR_F32 ? 0x7ef311c7 : 0x7fde623822fc16e6), BITS(x)));
}

/* sqrt(x.hi + x.lo) as a sum of two; the second part to 3.5 percent. */
static inline struct two
root(code_t c, fr_dtype t, struct two x)
{
    fr_mval s = SQRT(x.hi), rest = ADD(FMA(NEG(s), s, x.hi), x.lo);

    return (struct two){s, MUL(rest, MUL(inverse_root(c, t, x.hi), K(0.5)))};
}

/* ---- whole functions that others are made of ---- */

/* e^(x + tail) = 2^n (hi + lo), to 2^-56 or better; `biased` holds n + bias in its low bits. */
struct exp_parts {
    struct two e;
    fr_mval biased;
};
struct exp_parts fr_math_exp_parts(code_t c, fr_dtype t, fr_mval x, fr_mval tail, double bias);

#endif
