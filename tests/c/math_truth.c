/* Judges results of the real math functions: tests/accuracy.py loads this as a shared library.
 *
 * The truth for f32 is the C library's double, for f64 its long double (error below 1/1000 of an
 * ULP in either case).  tests/accuracy.py asks MPFR again about the worst that is found here. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef long double ldouble;

#define LN2 0.693147180559945309417232121458176568L

static ldouble
sigmoid(ldouble x)
{
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static ldouble
softplus(ldouble x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

/* max(x, y) + log(1 + e^-|x - y|), or the same with 2 in e's place; `base` is ln of that. */
static ldouble
log_add(ldouble x, ldouble y, ldouble base)
{
    ldouble big = x > y ? x : y, small = x > y ? y : x, d = small - big, part = d - small, z;

    if (isnan(x) || isnan(y) || isinf(big))
        return isnan(x) || isnan(y) ? NAN : big;
    if (isinf(small))
        return big + 0; /* the logarithm of 1, which makes a zero positive */
    z = base == 1 ? expl(d) : exp2l(d);
    /* What the difference has lost. */
    z += z * base * ((small - (d - part)) - (big + part));
    return big + log1pl(z) / base;
}

/* The larger of the two terms whose sum is logaddexp(x, y). */
static ldouble
larger(ldouble x, ldouble y, ldouble sum)
{
    ldouble big = x > y ? x : y, term = fabsl(sum - big);

    return term < fabsl(big) ? fabsl(big) : term;
}

/* T(name, double, long double, size of the terms) of arguments x, y */
#define TRUTHS(T)                                                                                  \
    T(exp, exp(x), expl(x), 0) T(exp2, exp2(x), exp2l(x), 0) T(expm1, expm1(x), expm1l(x), 0)      \
    T(log, log(x), logl(x), 0) T(log2, log2(x), log2l(x), 0) T(log10, log10(x), log10l(x), 0)      \
    T(log1p, log1p(x), log1pl(x), 0) T(sin, sin(x), sinl(x), 0) T(cos, cos(x), cosl(x), 0)         \
    T(tan, tan(x), tanl(x), 0) T(arcsin, asin(x), asinl(x), 0) T(arccos, acos(x), acosl(x), 0)     \
    T(arctan, atan(x), atanl(x), 0) T(sinh, sinh(x), sinhl(x), 0) T(cosh, cosh(x), coshl(x), 0)    \
    T(tanh, tanh(x), tanhl(x), 0) T(arcsinh, asinh(x), asinhl(x), 0)                               \
    T(arccosh, acosh(x), acoshl(x), 0) T(arctanh, atanh(x), atanhl(x), 0)                          \
    T(cbrt, cbrt(x), cbrtl(x), 0) T(erf, erf(x), erfl(x), 0) T(erfc, erfc(x), erfcl(x), 0)         \
    T(sigmoid, sigmoid(x), sigmoid(x), 0) T(softplus, softplus(x), softplus(x), 0)                 \
    T(arctan2, atan2(x, y), atan2l(x, y), 0) T(hypot, hypot(x, y), hypotl(x, y), 0)                \
    T(power, pow(x, y), powl(x, y), 0)                                                             \
    T(logaddexp, log_add(x, y, 1), log_add(x, y, 1), larger(x, y, truth))                          \
    T(logaddexp2, log_add(x, y, LN2), log_add(x, y, LN2), larger(x, y, truth))

struct report {
    double max_ulp;        /* largest error; infinity where a special value is wrong */
    long   worst;          /* its index; -1 if nothing was compared */
    long   n_finite;       /* results compared by distance */
    long   n_rounded;      /* of these, correctly rounded */
};

/* Distance of `got` from the truth in units in the last place of a format with `digits` bits and
 * exponents [min_exp, max_exp] (as in float.h).  The unit is that of `size` where this is larger
 * than the truth: a sum that cancels can be as exact as its terms, no more. */
static inline double
ulps(ldouble got, ldouble truth, ldouble size, int digits, int min_exp, int max_exp)
{
    ldouble limit = ldexpl(1, max_exp), ulp;
    int e;

    if (isnan(truth) || isnan(got))
        return isnan(truth) && isnan(got) ? 0 : INFINITY;
    if (truth == got)
        return signbit(truth) == signbit(got) || size > 0 ? 0 : INFINITY;
    if (isinf(got) && isinf(truth))
        return INFINITY;
    if (fabsl(truth) > limit)
        truth = copysignl(limit, truth);
    if (isinf(got))
        got = copysignl(limit, got);
    if (signbit(got) != signbit(truth) && !(size > 0))
        return INFINITY;
    frexpl(fabsl(truth) < size && size < limit ? size : truth, &e);
    if (e > max_exp)
        e = max_exp;
    ulp = ldexpl(1, (e < min_exp ? min_exp : e) - digits);
    return (double)(fabsl(got - truth) / ulp);
}

static inline void
note(struct report *r, long i, double err, int finite, int rounded)
{
    if (err > r->max_ulp || r->worst < 0) {
        r->max_ulp = err;
        r->worst = i;
    }
    r->n_finite += finite;
    r->n_rounded += finite && rounded;
}

static inline double
ulps_f32(float got, double truth, double size)
{
    uint64_t bits;
    double ulp, err;
    int e;

    /* The plain case, quickly: a normal, finite float and a truth of the same size. */
    memcpy(&bits, &truth, sizeof bits);
    e = (int)(bits >> 52 & 2047) - 1023;
    if (e < -126 || e > 126 || size > 0)
        return ulps(got, truth, size, FLT_MANT_DIG, FLT_MIN_EXP, FLT_MAX_EXP);
    bits = (uint64_t)(e - 23 + 1023) << 52;
    memcpy(&ulp, &bits, sizeof ulp);
    err = fabs(got - truth) / ulp;
    return err < 4 ? err : ulps(got, truth, size, FLT_MANT_DIG, FLT_MIN_EXP, FLT_MAX_EXP);
}

#define JUDGE(name, narrow, wide, size)                                                            \
    void judge_##name##_f32(const float *xs, const float *ys, const float *got, long n,            \
                            struct report *r)                                                      \
    {                                                                                              \
        for (long i = 0; i < n; i++) {                                                             \
            double x = xs[i], y = ys ? ys[i] : 0, truth = narrow, scale = size;                    \
                                                                                                   \
            (void)y;                                                                               \
            note(r, i, ulps_f32(got[i], truth, scale), isfinite(truth), (float)truth == got[i]);   \
        }                                                                                          \
    }                                                                                              \
    void judge_##name##_f64(const double *xs, const double *ys, const double *got, long n,         \
                            struct report *r)                                                      \
    {                                                                                              \
        for (long i = 0; i < n; i++) {                                                             \
            ldouble x = xs[i], y = ys ? ys[i] : 0, truth = wide, scale = size;                     \
                                                                                                   \
            (void)y;                                                                               \
            note(r, i, ulps(got[i], truth, scale, DBL_MANT_DIG, DBL_MIN_EXP, DBL_MAX_EXP),         \
                 isfinite(truth), (double)truth == got[i]);                                        \
        }                                                                                          \
    }
TRUTHS(JUDGE)
