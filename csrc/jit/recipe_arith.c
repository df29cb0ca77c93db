/* jit/recipe_arith.c -- arithmetic, comparison, logic, bits, rounding and random numbers.
 * Straight lines of selects, so that a compiler can vectorise them; NumPy 2.4's bits. */
#include "jit/recipe_int.h"

#include <math.h>

/* Hands complex numbers to their own form. */
#define COMPLEX_ELSEWHERE(name)                                                                    \
    do {                                                                                           \
        if (fr_dtype_is_complex(in)) {                                                             \
            recipe_complex_##name(c, in, x, out);                                                  \
            return;                                                                                \
        }                                                                                          \
    } while (0)

static bool is_float(fr_dtype t) { return fr_dtype_kind(t) == 'f' || fr_dtype_kind(t) == 'c'; }
static fr_mval yes(code_t c) { return m_int(c, FR_BOOL, 1); }
static fr_mval no(code_t c) { return m_int(c, FR_BOOL, 0); }

/* The smallest number of a signed type. */
static fr_mval
m_min_int(code_t c, fr_dtype type)
{
    return m_int(c, type, INT64_MIN >> (64 - 8 * fr_dtype_size(type)));
}

fr_mval
m_copysign(code_t c, fr_mval magnitude, fr_mval sign)
{
    fr_dtype type = m_type(c, magnitude), u = m_uint_of(type);
    fr_mval  top = m_int(c, u, (int64_t)(1ull << (8 * fr_dtype_size(type) - 1)));
    fr_mval  mag = m_and(c, m_bitcast(c, u, magnitude), m_not(c, top));

    return m_bitcast(c, type, m_or(c, mag, m_and(c, m_bitcast(c, u, sign), top)));
}

/* The value that comparisons look at: half precision arrives here as its bits. */
static fr_mval comparable(code_t c, fr_dtype in, fr_mval v) { return in == FR_F16 ? fr_half_widen(c, v) : v; }

/* ---- signs ----------------------------------------------------------------------------------- */

RECIPE(positive) { *out = x[0]; }

RECIPE(negative)
{
    out->re = in == FR_F16 ? m_xor(c, x[0].re, m_int(c, FR_U16, 0x8000)) : m_neg(c, x[0].re);
    if (fr_dtype_is_complex(in))
        out->im = m_neg(c, x[0].im);
}

RECIPE(absolute)
{
    fr_mval v = x[0].re;

    COMPLEX_ELSEWHERE(absolute);
    if (in == FR_F16)
        v = m_and(c, v, m_int(c, FR_U16, 0x7fff));
    else if (is_float(in))
        v = m_abs(c, v);
    else if (is_signed(in))
        v = m_select(c, m_lt(c, v, m_int(c, in, 0)), m_neg(c, v), v);
    out->re = v;
}

/* Zero of either sign gives +0.0, a NaN itself: it has all bits that 1 has. */
static fr_mval
sign_of_float(code_t c, fr_mval v)
{
    fr_dtype type = m_type(c, v), u = m_uint_of(type);
    fr_mval  zero = m_num(c, type, 0), one = m_bitcast(c, u, m_num(c, type, 1)), stays;

    stays = m_select(c, m_isnan(c, v), m_int(c, u, -1), m_int(c, u, (int64_t)(1ull << (8 * fr_dtype_size(type) - 1))));
    return m_select(c, m_eq(c, v, zero), zero, m_bitcast(c, type, m_or(c, m_and(c, m_bitcast(c, u, v), stays), one)));
}

RECIPE(sign)
{
    fr_mval v = x[0].re, zero;

    COMPLEX_ELSEWHERE(sign);
    if (is_float(in)) {
        out->re = sign_of_float(c, v);
        return;
    }
    zero = m_num(c, in, 0);
    out->re = is_signed(in) ? m_select(c, m_lt(c, v, zero), m_num(c, in, -1), zero) : zero;
    out->re = m_select(c, m_lt(c, zero, v), m_num(c, in, 1), out->re);
}

RECIPE(conjugate)
{
    *out = x[0];
    if (fr_dtype_is_complex(in))
        out->im = m_neg(c, x[0].im);
}

RECIPE(copysign) { out->re = m_copysign(c, x[0].re, x[1].re); }

RECIPE(signbit)
{
    fr_mval  v = x[0].re;
    fr_dtype s = in == FR_F16 ? FR_I16 : in == FR_F32 ? FR_I32 : FR_I64;

    out->re = m_lt(c, m_bitcast(c, s, v), m_int(c, s, 0));
}

RECIPE(real) { out->re = x[0].re; }
RECIPE(imag) { out->re = fr_dtype_is_complex(in) ? x[0].im : m_int(c, m_type(c, x[0].re), 0); }

RECIPE(with_real)
{
    *out = (struct fr_mnum){x[1].re, x[0].im};
}

RECIPE(with_imag)
{
    *out = (struct fr_mnum){x[0].re, x[1].re};
}

/* ---- classification -------------------------------------------------------------------------- */

/* isnan, isinf and isfinite compare the bits without the sign to those of infinity. */
enum against { ABOVE_INF, EQUAL_INF, BELOW_INF };

static fr_mval
classify(code_t c, fr_dtype in, fr_mval v, enum against how)
{
    fr_dtype u = m_uint_of(m_type(c, v));
    fr_mval  mag, inf;

    if (!is_float(in))
        return how == BELOW_INF ? yes(c) : no(c);
    if (u == FR_U16)
        inf = m_int(c, u, 0x7c00);
    else
        inf = u == FR_U32 ? m_int(c, u, 0x7f800000) : m_int(c, u, 0x7ffll << 52);
    mag = m_and(c, m_bitcast(c, u, v), m_int(c, u, INT64_MAX >> (64 - 8 * fr_dtype_size(u))));
    if (how == EQUAL_INF)
        return m_eq(c, mag, inf);
    return how == ABOVE_INF ? m_lt(c, inf, mag) : m_lt(c, mag, inf);
}

RECIPE(isnan)
{
    out->re = classify(c, in, x[0].re, ABOVE_INF);
    if (fr_dtype_is_complex(in))
        out->re = m_or(c, out->re, classify(c, in, x[0].im, ABOVE_INF));
}

RECIPE(isinf)
{
    out->re = classify(c, in, x[0].re, EQUAL_INF);
    if (fr_dtype_is_complex(in))
        out->re = m_or(c, out->re, classify(c, in, x[0].im, EQUAL_INF));
}

RECIPE(isfinite)
{
    out->re = classify(c, in, x[0].re, BELOW_INF);
    if (fr_dtype_is_complex(in))
        out->re = m_and(c, out->re, classify(c, in, x[0].im, BELOW_INF));
}

/* ---- rounding and scaling -------------------------------------------------------------------- */

RECIPE(floor) { out->re = is_float(in) ? m_floor(c, x[0].re) : x[0].re; }
RECIPE(ceil) { out->re = is_float(in) ? m_ceil(c, x[0].re) : x[0].re; }
RECIPE(trunc) { out->re = is_float(in) ? m_trunc(c, x[0].re) : x[0].re; }

RECIPE(rint)
{
    out->re = m_rint(c, x[0].re);
    if (fr_dtype_is_complex(in))
        out->im = m_rint(c, x[0].im);
}

/* The factor is a quotient in the dtype itself, as in NumPy. */
static fr_mval
times_ratio(code_t c, fr_dtype in, fr_mval v, double top, double bottom)
{
    double k = in == FR_F32 ? (double)((float)top / (float)bottom) : top / bottom;

    return m_mul(c, v, m_real(c, in, k));
}

RECIPE(deg2rad) { out->re = times_ratio(c, in, x[0].re, M_PI, 180.0); }
RECIPE(rad2deg) { out->re = times_ratio(c, in, x[0].re, 180.0, M_PI); }

/* 2^n for n in the range of normal numbers. */
static fr_mval
exp2_int(code_t c, fr_dtype type, fr_mval n)
{
    fr_dtype i = m_type(c, n);
    fr_mval  biased = m_add(c, n, m_int(c, i, type == FR_F32 ? 127 : 1023));

    return m_bitcast(c, type, m_shl(c, biased, m_int(c, i, type == FR_F32 ? 23 : 52)));
}

/* x = m 2^k with m in [1, 2), so the result is m 2^(k+e).  Both halves of that power are normal
 * numbers, the product with the first is exact, and only the last multiplication rounds. */
static fr_mval
ldexp_any(code_t c, fr_dtype in, fr_mval v, fr_mval power)
{
    bool     f32 = in == FR_F32;
    fr_dtype i = f32 ? FR_I32 : FR_I64;
    int      mant = f32 ? 23 : 52, bias = f32 ? 127 : 1023;
    int64_t  field = 2 * bias + 1;
    fr_mval  mag = m_abs(c, v);
    fr_mval  tiny = m_lt(c, mag, m_real(c, in, f32 ? 0x1p-126 : 0x1p-1022));
    fr_mval  up = m_mul(c, v, m_real(c, in, 0x1p64));
    fr_mval  bits = m_bitcast(c, i, m_select(c, tiny, up, v));
    fr_mval  k, m, e, half, scaled, keep;

    k = m_and(c, m_shr(c, bits, m_int(c, i, mant)), m_int(c, i, field));
    k = m_sub(c, k, m_select(c, tiny, m_int(c, i, bias + 64), m_int(c, i, bias)));
    m = m_and(c, bits, m_int(c, i, ~(field << mant)));
    m = m_bitcast(c, in, m_or(c, m, m_int(c, i, (int64_t)bias << mant)));
    /* Beyond these ends everything is 0 or infinite; within, no sum below overflows. */
    e = m_cvt(c, i, m_clamp(c, power, -8 * bias, 8 * bias));
    e = m_clamp(c, m_add(c, k, e), -(bias + mant + 4), bias + 2);
    half = m_shr(c, e, m_int(c, i, 1));
    scaled = m_mul(c, m, exp2_int(c, in, half));
    scaled = m_mul(c, scaled, exp2_int(c, in, m_sub(c, e, half)));
    keep = m_or(c, m_eq(c, v, m_real(c, in, 0)), m_not(c, m_lt(c, mag, m_real(c, in, INFINITY))));
    return m_select(c, keep, v, scaled);
}

/* What is multiplied by a normal power of two is rounded once, whatever it is. */
RECIPE(ldexp)
{
    bool    f32 = in == FR_F32;
    int     bias = f32 ? 127 : 1023;
    fr_mval e = x[1].re, far, usual;

    far = m_le(c, m_int(c, FR_U64, 2 * bias), m_cvt(c, FR_U64, m_add(c, e, m_int(c, FR_I64, bias - 1))));
    usual = m_mul(c, x[0].re, exp2_int(c, in, m_cvt(c, f32 ? FR_I32 : FR_I64, e)));
    out->re = m_rare(c, far, ldexp_any(c, in, x[0].re, e), usual);
}

/* One step in the bits of x: away from zero when y lies on that side. */
RECIPE(nextafter)
{
    fr_mval  a = comparable(c, in, x[0].re), b = comparable(c, in, x[1].re);
    fr_mval  bits = x[0].re, zero = m_num(c, m_type(c, a), 0), away, step, one, from_zero, equal;
    fr_dtype u = m_uint_of(m_type(c, bits));
    int64_t  top = (int64_t)(1ull << (8 * fr_dtype_size(u) - 1));

    one = m_int(c, u, 1);
    bits = m_bitcast(c, u, bits);
    away = m_select(c, m_lt(c, zero, a), m_lt(c, a, b), m_lt(c, b, a));
    step = m_select(c, away, m_add(c, bits, one), m_sub(c, bits, one));
    from_zero = m_select(c, m_lt(c, b, zero), m_int(c, u, top + 1), one);
    step = m_select(c, m_eq(c, a, zero), from_zero, step);
    /* Equal numbers: C returns y (of two zeros, the second); NumPy's half precision returns x. */
    equal = in == FR_F16 ? x[0].re : m_bitcast(c, u, x[1].re);
    step = m_select(c, m_eq(c, a, b), equal, step);
    if (in == FR_F16) {
        fr_mval nan = m_or(c, m_isnan(c, a), m_isnan(c, b));

        out->re = m_select(c, nan, m_int(c, u, 0x7e00), step);
    } else {
        fr_mval sum = m_add(c, a, b); /* a NaN when one of them is */

        step = m_bitcast(c, in, step);
        out->re = m_select(c, m_or(c, m_isnan(c, a), m_isnan(c, b)), sum, step);
    }
}

RECIPE(heaviside)
{
    fr_mval v = x[0].re, zero = m_real(c, in, 0.0), r;

    r = m_select(c, m_lt(c, zero, v), m_real(c, in, 1.0), v); /* a NaN is itself */
    r = m_select(c, m_lt(c, v, zero), zero, r);
    out->re = m_select(c, m_eq(c, v, zero), x[1].re, r);
}

/* ---- the four operations --------------------------------------------------------------------- */

RECIPE(add)
{
    out->re = in == FR_BOOL ? m_or(c, x[0].re, x[1].re) : m_add(c, x[0].re, x[1].re);
    if (fr_dtype_is_complex(in))
        out->im = m_add(c, x[0].im, x[1].im);
}

RECIPE(subtract)
{
    out->re = m_sub(c, x[0].re, x[1].re);
    if (fr_dtype_is_complex(in))
        out->im = m_sub(c, x[0].im, x[1].im);
}

RECIPE(multiply)
{
    COMPLEX_ELSEWHERE(multiply);
    out->re = in == FR_BOOL ? m_and(c, x[0].re, x[1].re) : m_mul(c, x[0].re, x[1].re);
}

RECIPE(square)
{
    COMPLEX_ELSEWHERE(square);
    out->re = m_mul(c, x[0].re, x[0].re);
}

RECIPE(divide)
{
    COMPLEX_ELSEWHERE(divide);
    out->re = m_div(c, x[0].re, x[1].re);
}

RECIPE(divide_whole) { out->re = m_divby(c, x[0].re, x[1].re, m_div(c, m_real(c, in, 1.0), x[1].re)); }
RECIPE(divide_few) { out->re = m_divfew(c, x[0].re, x[1].re, m_div(c, m_real(c, in, 1.0), x[1].re)); }

RECIPE(sqrt)
{
    COMPLEX_ELSEWHERE(sqrt);
    out->re = m_sqrt(c, x[0].re);
}

/* Integers: NumPy converts the double 1.0 / x back, so 1 / 0 is what infinity converts to. */
RECIPE(reciprocal)
{
    fr_mval v = x[0].re, r, inf;

    COMPLEX_ELSEWHERE(reciprocal);
    if (is_float(in)) {
        out->re = m_div(c, m_real(c, in, 1.0), v);
        return;
    }
    inf = in == FR_I32 || in == FR_I64 ? m_min_int(c, in) : m_int(c, in, 0);
    r = m_select(c, m_eq(c, v, m_int(c, in, 1)), v, m_int(c, in, 0));
    if (is_signed(in))
        r = m_select(c, m_eq(c, v, m_int(c, in, -1)), v, r);
    out->re = m_select(c, m_eq(c, v, m_int(c, in, 0)), inf, r);
}

/* ---- whole powers -----------------------------------------------------------------------------
 */

/* Integers by squaring; negative exponents have been refused, here they only must not harm.  The
 * sixteenth power of most numbers has more bits than there are, so that few exponents are larger.
 */
enum { FEW_BITS = 4 };

RECIPE(power)
{
    fr_mval base = x[0].re, e = x[1].re, r, few = 0, many;
    int     n_bits = 8 * fr_dtype_size(in) - is_signed(in);

    COMPLEX_ELSEWHERE(power);
    if (is_float(in)) {
        recipe_real_power(c, in, x, out);
        return;
    }
    r = m_int(c, in, 1);
    for (int k = 0; k < n_bits; k++) {
        fr_mval set = m_ne(c, m_and(c, e, m_int(c, in, (int64_t)(1ull << k))), m_int(c, in, 0));

        if (k == FEW_BITS)
            few = r;
        r = m_select(c, set, m_mul(c, r, base), r);
        base = m_mul(c, base, base);
    }
    many = m_ne(c, m_and(c, e, m_int(c, in, -(1ll << FEW_BITS))), m_int(c, in, 0));
    out->re = fr_dtype_size(in) < 4 ? r : m_rare(c, many, r, few);
}

/* ---- order ----------------------------------------------------------------------------------- */

enum order { LESS, LESS_EQUAL };

/* Complex numbers are ordered by their real parts, then by their imaginary parts; a NaN is in no
 * order, but equal real parts hide no NaN. */
static fr_mval
in_order(code_t c, fr_dtype in, struct fr_mnum a, struct fr_mnum b, enum order how)
{
    fr_mval first, second;

    if (!fr_dtype_is_complex(in))
        return how == LESS ? m_lt(c, a.re, b.re) : m_le(c, a.re, b.re);
    first = m_lt(c, a.re, b.re);
    first = m_and(c, first, m_not(c, m_or(c, m_isnan(c, a.im), m_isnan(c, b.im))));
    second = how == LESS ? m_lt(c, a.im, b.im) : m_le(c, a.im, b.im);
    return m_or(c, first, m_and(c, m_eq(c, a.re, b.re), second));
}

/* NumPy's scalars look at the imaginary parts only where the real ones are equal. */
static fr_mval
in_order_apart(code_t c, struct fr_mnum a, struct fr_mnum b, enum order how)
{
    fr_mval second = how == LESS ? m_lt(c, a.im, b.im) : m_le(c, a.im, b.im);

    return m_or(c, m_lt(c, a.re, b.re), m_and(c, m_eq(c, a.re, b.re), second));
}

RECIPE(less_apart) { out->re = in_order_apart(c, x[0], x[1], LESS); }
RECIPE(less_equal_apart) { out->re = in_order_apart(c, x[0], x[1], LESS_EQUAL); }
RECIPE(less) { out->re = in_order(c, in, x[0], x[1], LESS); }
RECIPE(less_equal) { out->re = in_order(c, in, x[0], x[1], LESS_EQUAL); }
RECIPE(greater) { out->re = in_order(c, in, x[1], x[0], LESS); }
RECIPE(greater_equal) { out->re = in_order(c, in, x[1], x[0], LESS_EQUAL); }

RECIPE(equal)
{
    out->re = m_eq(c, x[0].re, x[1].re);
    if (fr_dtype_is_complex(in))
        out->re = m_and(c, out->re, m_eq(c, x[0].im, x[1].im));
}

RECIPE(not_equal)
{
    out->re = m_ne(c, x[0].re, x[1].re);
    if (fr_dtype_is_complex(in))
        out->re = m_or(c, out->re, m_ne(c, x[0].im, x[1].im));
}

static struct fr_mnum
pick(code_t c, fr_dtype in, fr_mval cond, struct fr_mnum a, struct fr_mnum b)
{
    struct fr_mnum r = {m_select(c, cond, a.re, b.re), 0};

    if (fr_dtype_is_complex(in))
        r.im = m_select(c, cond, a.im, b.im);
    return r;
}

static fr_mval
is_nan(code_t c, fr_dtype in, struct fr_mnum a)
{
    fr_mval nan = m_isnan(c, comparable(c, in, a.re));

    return fr_dtype_is_complex(in) ? m_or(c, nan, m_isnan(c, a.im)) : nan;
}

enum extreme { LARGEST, SMALLEST };
enum nans { NAN_WINS, NAN_LOSES };

/* Of two zeros that compare equal NumPy's vector loops of f32 and f64 return the second, its loops
 * of f16 and complex numbers the first. (fmax and fmin of f32 and f64 return the one or the other
 * as the position in the vector has it; there ours is the second.) */
static enum order equals_order(fr_dtype in) { return in == FR_F32 || in == FR_F64 ? LESS : LESS_EQUAL; }

/* The place of half precision's 16 bits among all numbers; both zeros have one, and NaNs the highest or the lowest. */
static fr_mval
half_rank(code_t c, fr_mval bits, bool nans_are_highest)
{
    fr_mval v = m_bitcast(c, FR_I16, bits), size = m_and(c, v, m_int(c, FR_I16, 0x7fff));
    fr_mval sign = m_shr(c, v, m_int(c, FR_I16, 15)), rank = m_sub(c, m_xor(c, size, sign), sign);

    return m_select(c, m_lt(c, m_int(c, FR_I16, 0x7c00), size), m_int(c, FR_I16, nans_are_highest ? INT16_MAX : INT16_MIN), rank);
}

/* The first of equal numbers if `how` is LESS_EQUAL, else the second. */
static struct fr_mnum
extreme(code_t c, fr_dtype in, struct fr_mnum a, struct fr_mnum b, enum extreme which, enum nans nans, enum order how)
{
    struct fr_mnum wa = a, wb = b;
    fr_mval        first;

    if (in == FR_F16) {
        wa.re = half_rank(c, a.re, (which == LARGEST) == (nans == NAN_WINS));
        wb.re = half_rank(c, b.re, (which == LARGEST) == (nans == NAN_WINS));
        first = which == LARGEST ? m_le(c, wb.re, wa.re) : m_le(c, wa.re, wb.re);
        return pick(c, in, first, a, b);
    }
    if (in == FR_BOOL) {
        struct fr_mnum r = {which == LARGEST ? m_or(c, a.re, b.re) : m_and(c, a.re, b.re), 0};

        return r;
    }
    first = which == LARGEST ? in_order(c, in, wb, wa, how) : in_order(c, in, wa, wb, how);
    if (is_float(in))
        first = m_or(c, first, is_nan(c, in, nans == NAN_WINS ? a : b));
    return pick(c, in, first, a, b);
}

RECIPE(maximum) { *out = extreme(c, in, x[0], x[1], LARGEST, NAN_WINS, equals_order(in)); }
RECIPE(minimum) { *out = extreme(c, in, x[0], x[1], SMALLEST, NAN_WINS, equals_order(in)); }
RECIPE(fmax) { *out = extreme(c, in, x[0], x[1], LARGEST, NAN_LOSES, equals_order(in)); }
RECIPE(fmin) { *out = extreme(c, in, x[0], x[1], SMALLEST, NAN_LOSES, equals_order(in)); }

#define HALF_EXTREME(name, which, nans)                                                            \
    RECIPE(half_##name)                                                                            \
    {                                                                                              \
        *out = extreme(c, FR_F32, x[0], x[1], which, nans, equals_order(FR_F16));                  \
    }
HALF_EXTREME(maximum, LARGEST, NAN_WINS)
HALF_EXTREME(minimum, SMALLEST, NAN_WINS)
HALF_EXTREME(fmax, LARGEST, NAN_LOSES)
HALF_EXTREME(fmin, SMALLEST, NAN_LOSES)
#undef HALF_EXTREME

/* NumPy's clip has its own order of complex numbers, where an imaginary NaN matters only between
 * equal real parts. */
static struct fr_mnum
clip_complex(code_t c, fr_dtype in, struct fr_mnum a, struct fr_mnum b, enum extreme which)
{
    struct fr_mnum lo = which == LARGEST ? b : a, hi = which == LARGEST ? a : b;
    fr_mval        equal = m_eq(c, lo.re, hi.re), less;

    less = m_and(c, equal, m_lt(c, lo.im, hi.im));
    less = m_or(c, less, m_lt(c, lo.re, hi.re));
    return pick(c, in, m_or(c, less, is_nan(c, in, a)), a, b);
}

/* Of a number and a bound that are equal, the number: so NumPy's loop over constant bounds. Bounds
 * that are arrays do not come here (runtime/trace.c: clip_node). */
RECIPE(clip)
{
    struct fr_mnum bound = x[2], lo = {comparable(c, in, x[1].re), 0}, hi = {comparable(c, in, x[2].re), 0};

    if (fr_dtype_is_complex(in)) {
        *out = clip_complex(c, in, x[0], x[1], LARGEST);
        *out = clip_complex(c, in, *out, x[2], SMALLEST);
        return;
    }
    /* The processor's own extremes; a NaN passes. */
    *out = pick(c, in, m_lt(c, comparable(c, in, x[0].re), lo.re), x[1], x[0]);
    *out = pick(c, in, m_lt(c, hi.re, comparable(c, in, out->re)), x[2], *out);
    if (is_float(in)) { /* a bound that is a NaN, the first if both are; a truth of constants GCC does not make a mask of */
        bound = pick(c, in, m_eq(c, lo.re, lo.re), x[2], x[1]);
        *out = pick(c, in, m_eq(c, comparable(c, in, bound.re), comparable(c, in, bound.re)), *out, bound);
    }
}

RECIPE(where) { *out = pick(c, in, x[0].re, x[1], x[2]); }

/* ---- logic and bits -------------------------------------------------------------------------- */

static fr_mval
truth(code_t c, fr_dtype in, struct fr_mnum a)
{
    fr_mval zero, t;

    if (in == FR_BOOL)
        return a.re;
    zero = m_num(c, m_type(c, a.re), 0);
    t = m_ne(c, a.re, zero);
    return fr_dtype_is_complex(in) ? m_or(c, t, m_ne(c, a.im, zero)) : t;
}

RECIPE(logical_not) { out->re = m_not(c, truth(c, in, x[0])); }
RECIPE(logical_and) { out->re = m_and(c, truth(c, in, x[0]), truth(c, in, x[1])); }
RECIPE(logical_or) { out->re = m_or(c, truth(c, in, x[0]), truth(c, in, x[1])); }
RECIPE(logical_xor) { out->re = m_xor(c, truth(c, in, x[0]), truth(c, in, x[1])); }
RECIPE(invert) { out->re = m_not(c, x[0].re); }
RECIPE(bitwise_and) { out->re = m_and(c, x[0].re, x[1].re); }
RECIPE(bitwise_or) { out->re = m_or(c, x[0].re, x[1].re); }
RECIPE(bitwise_xor) { out->re = m_xor(c, x[0].re, x[1].re); }

/* Bits of the magnitude, summed in pairs, fours and eights within the word. */
RECIPE(bitwise_count)
{
    fr_dtype u = m_uint_of(in);
    int      width = 8 * fr_dtype_size(in);
    fr_mval  v, mag;

    recipe_absolute(c, in, x, out);
    mag = v = m_bitcast(c, u, out->re);
    v = m_and(c, m_shr(c, mag, m_int(c, u, 1)), m_int(c, u, 0x5555555555555555));
    v = m_sub(c, mag, v);
    v = m_add(c, m_and(c, v, m_int(c, u, 0x3333333333333333)),
              m_and(c, m_shr(c, v, m_int(c, u, 2)), m_int(c, u, 0x3333333333333333)));
    v = m_and(c, m_add(c, v, m_shr(c, v, m_int(c, u, 4))), m_int(c, u, 0x0f0f0f0f0f0f0f0f));
    for (int by = 8; by < width; by *= 2)
        v = m_add(c, v, m_shr(c, v, m_int(c, u, by)));
    out->re = m_cvt(c, FR_U8, v);
}

/* r if `fits`, else 0. Vectors of bytes are shifted in twice the width, where a mask costs GCC less than a choice. */
static fr_mval
shifted(code_t c, fr_dtype in, fr_mval fits, fr_mval r)
{
    if (fr_dtype_size(in) == 1)
        return m_and(c, r, m_select(c, fits, m_int(c, in, -1), m_int(c, in, 0)));
    return m_select(c, fits, r, m_int(c, in, 0));
}

/* A negative or too large count leaves 0, or the sign of a signed number. */
RECIPE(left_shift)
{
    fr_dtype u = m_uint_of(in);
    fr_mval  fits = m_lt(c, m_bitcast(c, u, x[1].re), m_int(c, u, 8 * fr_dtype_size(in)));
    fr_mval  by = m_select(c, fits, x[1].re, m_int(c, in, 0));

    out->re = shifted(c, in, fits, m_shl(c, x[0].re, by));
}

RECIPE(right_shift)
{
    fr_dtype u = m_uint_of(in);
    int      width = 8 * fr_dtype_size(in);
    fr_mval  fits = m_lt(c, m_bitcast(c, u, x[1].re), m_int(c, u, width));
    fr_mval  by = m_select(c, fits, x[1].re, m_int(c, in, is_signed(in) ? width - 1 : 0));
    fr_mval  r = m_shr(c, x[0].re, by);

    out->re = is_signed(in) ? r : shifted(c, in, fits, r);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): ten rounds
 * of two wide multiplications over four words, with a key that grows by a constant each round. */
static void
philox(code_t c, fr_mval counter, fr_mval key, fr_mval w[4])
{
    fr_mval m0 = m_int(c, FR_U32, 0xD2511F53), m1 = m_int(c, FR_U32, 0xCD9E8D57);
    fr_mval k0 = m_cvt(c, FR_U32, key), k1;
    fr_mval half = m_int(c, FR_U64, 32);

    k1 = m_cvt(c, FR_U32, m_shr(c, key, half));
    w[0] = m_cvt(c, FR_U32, counter);
    w[1] = m_cvt(c, FR_U32, m_shr(c, counter, half));
    w[2] = w[3] = m_int(c, FR_U32, 0);
    for (int round = 0; round < 10; round++) {
        fr_mval hi0 = m_mulhi(c, w[0], m0), lo0 = m_mul(c, w[0], m0);
        fr_mval hi1 = m_mulhi(c, w[2], m1), lo1 = m_mul(c, w[2], m1);

        w[0] = m_xor(c, m_xor(c, hi1, w[1]), k0);
        w[2] = m_xor(c, m_xor(c, hi0, w[3]), k1);
        w[1] = lo1;
        w[3] = lo0;
        k0 = m_add(c, k0, m_int(c, FR_U32, 0x9E3779B9));
        k1 = m_add(c, k1, m_int(c, FR_U32, 0xBB67AE85));
    }
}

/* Two words as one number, the first below. */
static fr_mval
join_words(code_t c, fr_mval lo, fr_mval hi)
{
    hi = m_shl(c, m_cvt(c, FR_U64, hi), m_int(c, FR_U64, 32));
    return m_or(c, m_cvt(c, FR_U64, lo), hi);
}

static fr_mval bits_of(code_t c, double v) { return m_bitcast(c, FR_U64, m_real(c, FR_F64, v)); }

/* The top bits of one (F32: 24) or two (F64: 53) words as a number in [0, 1). */
static fr_mval
uniform(code_t c, fr_dtype type, fr_mval lo, fr_mval hi)
{
    fr_mval v;

    if (type == FR_F32) {
        v = m_bitcast(c, FR_I32, m_shr(c, lo, m_int(c, FR_U32, 8)));
        return m_mul(c, m_cvt(c, type, v), m_real(c, type, 0x1p-24));
    }
    /* The 53 bits as two doubles, each set into the mantissa of a power of two that is taken away
     * again: vectors do this where they cannot convert i64. */
    v = m_shr(c, join_words(c, lo, hi), m_int(c, FR_U64, 11));
    lo = m_or(c, m_and(c, v, m_int(c, FR_U64, UINT32_MAX)), bits_of(c, 0x1p52));
    hi = m_or(c, m_shr(c, v, m_int(c, FR_U64, 32)), bits_of(c, 0x1p84));
    hi = m_sub(c, m_bitcast(c, type, hi), m_real(c, type, 0x1p84 + 0x1p52));
    return m_mul(c, m_add(c, hi, m_bitcast(c, type, lo)), m_real(c, type, 0x1p-53));
}

RECIPE(random_bits)
{
    fr_mval w[4];

    philox(c, x[0].re, x[1].re, w);
    out->re = join_words(c, w[0], w[1]);
}

RECIPE(random_uniform)
{
    fr_mval w[4];

    philox(c, x[0].re, x[1].re, w);
    out->re = uniform(c, in, w[0], w[1]);
}

/* Box and Muller: a radius from the first two words, an angle from the others.  The radius takes a
 * number in (0, 1]: F32 spends 31 bits on it, or there would be nothing beyond 5.8 deviations. */
RECIPE(random_normal)
{
    fr_mval w[4], u, radius, angle;

    philox(c, x[0].re, x[1].re, w);
    if (in == FR_F32) {
        u = m_cvt(c, in, m_bitcast(c, FR_I32, m_shr(c, w[0], m_int(c, FR_U32, 1))));
        u = m_mul(c, m_add(c, u, m_real(c, in, 1.0)), m_real(c, in, 0x1p-31));
    } else {
        u = m_add(c, uniform(c, in, w[0], w[1]), m_real(c, in, 0x1p-53));
    }
    radius = m_sqrt(c, m_mul(c, m_call(c, recipe_real_log, u), m_real(c, in, -2.0)));
    angle = m_mul(c, uniform(c, in, w[2], w[3]), m_real(c, in, 2 * M_PI));
    out->re = m_mul(c, radius, m_call(c, recipe_real_cos, angle));
}
