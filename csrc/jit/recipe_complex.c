/* jit/recipe_complex.c -- recipes of the functions that exist for real and complex numbers.
 *
 * Real numbers go to recipe_math_*.c.  A complex function is made of real ones; where its formula
 * breaks down (infinities, NaNs, overflow on the way to a finite result), selects put in what C99,
 * annex G, says.  `t` is the dtype of one component throughout. */
#include "jit/recipe_int.h"

#include <math.h>

typedef struct fr_mnum cnum;

static fr_mval real(code_t c, fr_dtype t, double v) { return m_real(c, t, v); }
/* Constants that depend on the range or precision of the type. */
static fr_mval
by_type(code_t c, fr_dtype t, double f32, double f64)
{
    return m_real(c, t, t == FR_F32 ? f32 : f64);
}

static cnum swap(cnum z) { return (cnum){z.im, z.re}; }
static fr_mval m_square(code_t c, fr_mval v) { return m_mul(c, v, v); }
static fr_mval is_finite(code_t c, fr_dtype t, fr_mval v) { return m_lt(c, m_abs(c, v), real(c, t, INFINITY)); }
static fr_mval is_inf(code_t c, fr_dtype t, fr_mval v) { return m_eq(c, m_abs(c, v), real(c, t, INFINITY)); }
static fr_mval is_zero(code_t c, fr_dtype t, fr_mval v) { return m_eq(c, v, real(c, t, 0)); }

/* v with the sign of `of`; a NaN has none to give. */
static fr_mval
signed_as(code_t c, fr_mval v, fr_mval of)
{
    return m_select(c, m_isnan(c, of), v, m_copysign(c, v, of));
}

static cnum
pick(code_t c, fr_mval cond, cnum a, cnum b)
{
    return (cnum){m_select(c, cond, a.re, b.re), m_select(c, cond, a.im, b.im)};
}

/* a + b = sum + *error exactly, whichever is larger. */
static fr_mval
two_sum(code_t c, fr_mval a, fr_mval b, fr_mval *error)
{
    fr_mval sum = m_add(c, a, b), part = m_sub(c, sum, a);

    *error = m_add(c, m_sub(c, a, m_sub(c, sum, part)), m_sub(c, b, part));
    return sum;
}

/* v * v = high + *low exactly. */
static fr_mval
two_square(code_t c, fr_mval v, fr_mval *low)
{
    fr_mval high = m_mul(c, v, v);

    *low = m_fma(c, v, v, m_neg(c, high));
    return high;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* NumPy's vector loops fuse the first product into the sum wherever the machine has fma. */
static cnum
fused_product(code_t c, cnum a, cnum b)
{
    return (cnum){m_fma(c, a.re, b.re, m_neg(c, m_mul(c, a.im, b.im))),
                  m_fma(c, a.re, b.im, m_mul(c, a.im, b.re))};
}

static cnum
product(code_t c, cnum a, cnum b)
{
    return (cnum){m_sub(c, m_mul(c, a.re, b.re), m_mul(c, a.im, b.im)),
                  m_add(c, m_mul(c, a.re, b.im), m_mul(c, a.im, b.re))};
}

/* Smith's division: scaled by the larger part of the divisor. */
static cnum
quotient(code_t c, fr_dtype t, cnum a, cnum b)
{
    fr_mval one = real(c, t, 1), abs_re = m_abs(c, b.re), abs_im = m_abs(c, b.im);
    fr_mval by_re = m_le(c, abs_im, abs_re), ratio, scale;
    fr_mval zero = m_and(c, is_zero(c, t, abs_re), is_zero(c, t, abs_im));
    fr_mval large = m_select(c, by_re, b.re, b.im), small = m_select(c, by_re, b.im, b.re);
    cnum    r, over_zero = {m_div(c, a.re, abs_re), m_div(c, a.im, abs_re)};

    ratio = m_div(c, small, large);
    scale = m_div(c, one, m_add(c, large, m_mul(c, small, ratio)));
    r = pick(c, by_re,
             (cnum){m_add(c, a.re, m_mul(c, a.im, ratio)), m_sub(c, a.im, m_mul(c, a.re, ratio))},
             (cnum){m_add(c, m_mul(c, a.re, ratio), a.im), m_sub(c, m_mul(c, a.im, ratio), a.re)});
    r = (cnum){m_mul(c, r.re, scale), m_mul(c, r.im, scale)};
    return pick(c, zero, over_zero, r);
}

RECIPE(complex_multiply) { *out = fused_product(c, x[0], x[1]); }
RECIPE(multiply_apart) { *out = product(c, x[0], x[1]); }
RECIPE(complex_square) { *out = fused_product(c, x[0], x[0]); }
RECIPE(complex_divide) { *out = quotient(c, fr_dtype_info[in].component, x[0], x[1]); }

RECIPE(complex_reciprocal)
{
    fr_dtype t = fr_dtype_info[in].component;
    fr_mval  re = x[0].re, im = x[0].im, one = real(c, t, 1);
    fr_mval  by_re = m_le(c, m_abs(c, im), m_abs(c, re));
    fr_mval  large = m_select(c, by_re, re, im), small = m_select(c, by_re, im, re);
    fr_mval  ratio = m_div(c, small, large), d = m_add(c, large, m_mul(c, small, ratio));
    fr_mval  over = m_div(c, one, d), ratio_over = m_div(c, ratio, d);

    *out = pick(c, by_re, (cnum){over, m_neg(c, ratio_over)}, (cnum){ratio_over, m_neg(c, over)});
}

RECIPE(complex_absolute)
{
    out->re = m_call2(c, recipe_real_hypot, x[0].re, x[0].im);
    out->im = 0;
}

/* z / |z|; an infinite part outweighs a finite one, two of them have no direction. */
RECIPE(complex_sign)
{
    fr_dtype t = fr_dtype_info[in].component;
    fr_mval  re = x[0].re, im = x[0].im, zero = real(c, t, 0), one = real(c, t, 1);
    fr_mval  size = m_call2(c, recipe_real_hypot, re, im);
    fr_mval  inf_re = is_inf(c, t, re), inf_im = is_inf(c, t, im);
    cnum     nan = {real(c, t, NAN), real(c, t, NAN)}, r, inf;

    inf = pick(c, inf_re, (cnum){m_copysign(c, one, re), zero},
               (cnum){zero, m_copysign(c, one, im)});
    inf = pick(c, m_and(c, inf_re, inf_im), nan, inf);
    r = pick(c, is_zero(c, t, size), (cnum){zero, zero},
             (cnum){m_div(c, re, size), m_div(c, im, size)});
    r = pick(c, is_inf(c, t, size), inf, r);
    *out = pick(c, m_isnan(c, size), nan, r);
}

/* ---- square root ----------------------------------------------------------------------------- */

static cnum
square_root(code_t c, fr_dtype t, cnum z)
{
    fr_mval abs_re = m_abs(c, z.re), abs_im = m_abs(c, z.im), one = real(c, t, 1);
    fr_mval size = m_select(c, m_lt(c, abs_re, abs_im), abs_im, abs_re);
    fr_mval huge = m_le(c, by_type(c, t, 0x1p124, 0x1p1020), size);
    fr_mval tiny = m_lt(c, size, by_type(c, t, 0x1p-100, 0x1p-960));
    fr_mval down, back, root, other;
    cnum    r;

    /* Powers of four, so that their roots are exact. */
    down = m_select(c, tiny, by_type(c, t, 0x1p48, 0x1p108), one);
    down = m_select(c, huge, real(c, t, 0x1p-2), down);
    back = m_select(c, tiny, by_type(c, t, 0x1p-24, 0x1p-54), one);
    back = m_select(c, huge, real(c, t, 2), back);
    abs_re = m_mul(c, abs_re, down);
    abs_im = m_mul(c, abs_im, down);
    root = m_add(c, m_call2(c, recipe_real_hypot, abs_re, abs_im), abs_re);
    root = m_sqrt(c, m_mul(c, root, real(c, t, 0.5)));
    other = m_div(c, abs_im, m_add(c, root, root));
    other = m_select(c, is_zero(c, t, root), real(c, t, 0), other);
    root = m_mul(c, root, back);
    other = m_mul(c, other, back);
    r = pick(c, m_lt(c, z.re, real(c, t, 0)), (cnum){other, root}, (cnum){root, other});
    r = pick(c, is_inf(c, t, z.im), (cnum){m_abs(c, z.im), z.im}, r);
    /* The root of -inf + NaN i has an infinite part, whose sign C leaves open. */
    return (cnum){r.re, signed_as(c, r.im, z.im)};
}

RECIPE(complex_sqrt) { *out = square_root(c, fr_dtype_info[in].component, x[0]); }

/* ---- exponentials ---------------------------------------------------------------------------- */

/* f(re) (cos im + i sin im), where f is exp or exp2.  f may overflow while a small cosine makes the
 * product finite: then f takes `shift` less, and the product `factor` = f(shift) more. */
static cnum
polar(code_t c, fr_dtype t, fr_recipe_fn *f, fr_mval re, fr_mval im, fr_mval limit, fr_mval shift, fr_mval factor)
{
    fr_mval large = m_lt(c, limit, re), zero = real(c, t, 0);
    fr_mval size = m_call(c, f, m_select(c, large, m_sub(c, re, shift), re));
    fr_mval more = m_select(c, large, factor, real(c, t, 1)), odd, down, nothing;
    cnum    r;

    r.re = m_mul(c, m_mul(c, size, m_call(c, recipe_real_cos, im)), more);
    r.im = m_mul(c, m_mul(c, size, m_call(c, recipe_real_sin, im)), more);
    /* No angle: nothing is left of -inf, and +inf keeps a real part. */
    odd = m_and(c, is_inf(c, t, re), m_not(c, is_finite(c, t, im)));
    down = m_lt(c, re, zero);
    nothing = m_select(c, is_inf(c, t, im), m_copysign(c, zero, im), zero);
    r = pick(c, odd, (cnum){m_select(c, down, zero, re), m_select(c, down, nothing, r.im)}, r);
    return pick(c, is_zero(c, t, im), (cnum){m_mul(c, size, more), im}, r);
}

static cnum
complex_exp(code_t c, fr_dtype t, cnum z)
{
    return polar(c, t, recipe_real_exp, z.re, z.im, by_type(c, t, 88, 709), by_type(c, t, 64, 256),
                 by_type(c, t, 6.2351490808116168829e27, 1.5114276650041035425e111));
}

static cnum
complex_exp2(code_t c, fr_dtype t, cnum z)
{
    return polar(c, t, recipe_real_exp2, z.re, m_mul(c, z.im, real(c, t, M_LN2)),
                 by_type(c, t, 127, 1023), by_type(c, t, 64, 256), by_type(c, t, 0x1p64, 0x1p256));
}

/* expm1(re) cos im loses nothing against cos im - 1 = -2 sin(im/2)^2, as they are joined last. */
static cnum
complex_expm1(code_t c, fr_dtype t, cnum z)
{
    fr_mval half_sine = m_call(c, recipe_real_sin, m_mul(c, z.im, real(c, t, 0.5)));
    fr_mval grown = m_mul(c, m_call(c, recipe_real_expm1, z.re), m_call(c, recipe_real_cos, z.im));
    cnum    e = complex_exp(c, t, z);
    fr_mval large = m_lt(c, real(c, t, 45), z.re);
    cnum    r = {m_sub(c, grown, m_mul(c, real(c, t, 2), m_square(c, half_sine))), e.im};

    return pick(c, large, e, r);
}

/* ---- logarithms ------------------------------------------------------------------------------ */

/* log |re + i im|.  Near the unit circle the logarithm of 1 + small wants `small` accurately, so
 * re^2 + im^2 - 1 is summed with twice the precision. */
static fr_mval
log_abs(code_t c, fr_dtype t, fr_mval re, fr_mval im)
{
    fr_mval a = m_abs(c, re), b = m_abs(c, im), one = real(c, t, 1);
    fr_mval a_less = m_lt(c, a, b), hi = m_select(c, a_less, b, a), lo = m_select(c, a_less, a, b);
    fr_mval huge = m_le(c, by_type(c, t, 0x1p126, 0x1p1022), hi);
    fr_mval tiny = m_lt(c, hi, by_type(c, t, 0x1p-120, 0x1p-1000));
    fr_mval scale, more, far, near, is_near, hh, hl, gh, gl, error;

    scale = m_select(c, huge, real(c, t, 0x1p-4), one);
    scale = m_select(c, tiny, by_type(c, t, 0x1p32, 0x1p64), scale);
    more = m_select(c, huge, real(c, t, 4 * M_LN2), real(c, t, 0));
    more = m_select(c, tiny, by_type(c, t, -32 * M_LN2, -64 * M_LN2), more);
    far = m_call2(c, recipe_real_hypot, m_mul(c, a, scale), m_mul(c, b, scale));
    far = m_add(c, m_call(c, recipe_real_log, far), more);

    is_near = m_and(c, m_lt(c, real(c, t, 0.7), hi), m_lt(c, hi, real(c, t, 1.3)));
    hh = two_square(c, hi, &hl);
    gh = two_square(c, lo, &gl);
    near = two_sum(c, m_sub(c, hh, one), gh, &error);
    near = m_add(c, near, m_add(c, error, m_add(c, hl, gl)));
    near = m_select(c, is_near, near, real(c, t, 0));
    near = m_mul(c, m_call(c, recipe_real_log1p, near), real(c, t, 0.5));
    return m_select(c, is_near, near, far);
}

static fr_mval arg(code_t c, cnum z) { return m_call2(c, recipe_real_arctan2, z.im, z.re); }
static cnum complex_log(code_t c, fr_dtype t, cnum z) { return (cnum){log_abs(c, t, z.re, z.im), arg(c, z)}; }

static cnum
log_to_base(code_t c, fr_dtype t, cnum z, double log_of_e)
{
    cnum    r = complex_log(c, t, z);
    fr_mval k = real(c, t, log_of_e);

    return (cnum){m_mul(c, r.re, k), m_mul(c, r.im, k)};
}

static cnum complex_log2(code_t c, fr_dtype t, cnum z) { return log_to_base(c, t, z, M_LOG2E); }
static cnum complex_log10(code_t c, fr_dtype t, cnum z) { return log_to_base(c, t, z, M_LOG10E); }

/* |1 + z|^2 - 1 = 2 re + im^2 + re^2, where the first two may cancel. */
static cnum
complex_log1p(code_t c, fr_dtype t, cnum z)
{
    fr_mval half = real(c, t, 0.5), one = real(c, t, 1), hh, hl, gh, gl, e1, e2, sum, near;
    fr_mval is_near = m_and(c, m_lt(c, m_abs(c, z.re), half), m_lt(c, m_abs(c, z.im), half));
    cnum    next = {m_add(c, z.re, one), z.im};

    hh = two_square(c, z.re, &hl);
    gh = two_square(c, z.im, &gl);
    sum = two_sum(c, m_add(c, z.re, z.re), gh, &e1);
    sum = two_sum(c, sum, hh, &e2);
    sum = m_add(c, sum, m_add(c, m_add(c, e1, e2), m_add(c, hl, gl)));
    sum = m_select(c, is_near, sum, real(c, t, 0));
    near = m_mul(c, m_call(c, recipe_real_log1p, sum), half);
    return (cnum){m_select(c, is_near, near, log_abs(c, t, next.re, next.im)), arg(c, next)};
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* As NumPy: whole exponents below 100 by repeated squaring, others by exp(b log a).  The usual
 * ones, 0 to 15, need four of its seven steps. */
RECIPE(complex_power)
{
    fr_dtype t = fr_dtype_info[in].component;
    cnum     a = x[0], b = x[1], one = {real(c, t, 1), real(c, t, 0)}, r, power, p = a, sq;
    cnum     zero = {real(c, t, 0), real(c, t, 0)}, nan = {real(c, t, NAN), real(c, t, NAN)};
    cnum     few = one;
    fr_mval  real_b = is_zero(c, t, b.im), n, whole, zero_a, other;

    whole = m_and(c, real_b, m_lt(c, m_abs(c, b.re), real(c, t, 100)));
    whole = m_and(c, whole, m_eq(c, m_trunc(c, b.re), b.re));
    n = m_cvt(c, FR_I32, m_select(c, whole, m_abs(c, b.re), zero.re));
    power = one;
    sq = product(c, a, a);
    for (int k = 0; k < 7; k++) {
        fr_mval set = m_ne(c, m_and(c, n, m_int(c, FR_I32, 1 << k)), m_int(c, FR_I32, 0));

        if (k == 4)
            few = power;
        power = pick(c, set, product(c, power, p), power);
        p = k ? product(c, p, p) : sq;
    }
    power = pick(c, m_lt(c, b.re, zero.re), quotient(c, t, one, power), power);
    r = complex_exp(c, t, product(c, b, complex_log(c, t, a)));
    r = pick(c, whole, power, r);

    /* (-1 for all others, because RARE takes the result of one comparison) */
    other = m_select(c, m_and(c, whole, m_lt(c, b.re, real(c, t, 16))), b.re, real(c, t, -1));
    other = m_lt(c, other, zero.re);
    r = (cnum){m_rare(c, other, r.re, few.re), m_rare(c, other, r.im, few.im)};
    for (int k = 1; k <= 3; k++) {
        power = k == 1 ? a : k == 2 ? sq : product(c, a, sq);
        r = pick(c, m_and(c, real_b, m_eq(c, b.re, real(c, t, k))), power, r);
    }

    zero_a = m_and(c, is_zero(c, t, a.re), is_zero(c, t, a.im));
    r = pick(c, zero_a, pick(c, m_lt(c, zero.re, b.re), zero, nan), r);
    *out = pick(c, m_and(c, real_b, is_zero(c, t, b.re)), one, r);
}

/* z^3 and z^4, the short ways to what a power by 3 and 4 is. */
static cnum
whole_power(code_t c, fr_dtype t, cnum z, cnum power)
{
    cnum zero = {real(c, t, 0), real(c, t, 0)};

    return pick(c, m_and(c, is_zero(c, t, z.re), is_zero(c, t, z.im)), zero, power);
}

static cnum
complex_cube(code_t c, fr_dtype t, cnum z)
{
    return whole_power(c, t, z, product(c, z, product(c, z, z)));
}

static cnum
complex_fourth(code_t c, fr_dtype t, cnum z)
{
    cnum one = {real(c, t, 1), real(c, t, 0)}, square = product(c, z, z);

    return whole_power(c, t, z, product(c, one, product(c, square, square)));
}

/* ---- hyperbolic and circular functions ------------------------------------------------------- */

/* sinh and cosh of v, both to be multiplied by *factor at the very end: beyond the range of exp
 * they are half of exp(|v| - shift). */
static void
sinh_cosh(code_t c, fr_dtype t, fr_mval v, fr_mval *sinh, fr_mval *cosh, fr_mval *factor)
{
    fr_mval mag = m_abs(c, v), large = m_lt(c, by_type(c, t, 88, 709), mag);
    fr_mval safe = m_select(c, large, real(c, t, 0), v);
    fr_mval half = m_call(c, recipe_real_exp, m_sub(c, mag, by_type(c, t, 64, 256)));

    half = m_mul(c, half, real(c, t, 0.5));
    *sinh = m_select(c, large, m_copysign(c, half, v), m_call(c, recipe_real_sinh, safe));
    *cosh = m_select(c, large, half, m_call(c, recipe_real_cosh, safe));
    *factor = m_select(c, large, by_type(c, t, 6.2351490808116168829e27, 1.5114276650041035425e111), real(c, t, 1));
}

static cnum
complex_sinh(code_t c, fr_dtype t, cnum z)
{
    fr_mval sinh, cosh, factor, keep;
    cnum    r;

    sinh_cosh(c, t, z.re, &sinh, &cosh, &factor);
    r.re = m_mul(c, m_mul(c, sinh, m_call(c, recipe_real_cos, z.im)), factor);
    r.im = m_mul(c, m_mul(c, cosh, m_call(c, recipe_real_sin, z.im)), factor);
    keep = m_or(c, is_zero(c, t, z.re), is_inf(c, t, z.re));
    keep = m_and(c, keep, m_not(c, is_finite(c, t, z.im)));
    r.re = m_select(c, keep, z.re, r.re);
    return pick(c, is_zero(c, t, z.im), (cnum){m_mul(c, sinh, factor), z.im}, r);
}

static cnum
complex_cosh(code_t c, fr_dtype t, cnum z)
{
    fr_mval sinh, cosh, factor, no_angle = m_not(c, is_finite(c, t, z.im)), zero = real(c, t, 0);
    cnum    r;

    sinh_cosh(c, t, z.re, &sinh, &cosh, &factor);
    r.re = m_mul(c, m_mul(c, cosh, m_call(c, recipe_real_cos, z.im)), factor);
    r.im = m_mul(c, m_mul(c, sinh, m_call(c, recipe_real_sin, z.im)), factor);
    r.re = m_select(c, m_and(c, no_angle, is_inf(c, t, z.re)), m_abs(c, z.re), r.re);
    r.im = m_select(c, m_and(c, no_angle, is_zero(c, t, z.re)), zero, r.im);
    return pick(c, is_zero(c, t, z.im), (cnum){m_mul(c, cosh, factor), m_mul(c, signed_as(c, zero, z.re), z.im)}, r);
}

/* With u = tan im, s = sinh re and b = 1 + u^2 (Kahan):
 * tanh z = (b s sqrt(1 + s^2) + i u) / (1 + b s^2); far out it is 1 with a vanishing angle. */
static cnum
complex_tanh(code_t c, fr_dtype t, cnum z)
{
    fr_mval mag = m_abs(c, z.re), one = real(c, t, 1), zero = real(c, t, 0);
    fr_mval large = m_le(c, by_type(c, t, 11, 22), mag), s, u, b, d, vanish, none, nan;
    cnum    r, far;

    s = m_call(c, recipe_real_sinh, m_select(c, large, zero, z.re));
    u = m_call(c, recipe_real_tan, z.im);
    b = m_add(c, one, m_square(c, u));
    d = m_add(c, one, m_mul(c, b, m_square(c, s)));
    r.re = m_mul(c, m_mul(c, b, m_sqrt(c, m_add(c, one, m_square(c, s)))), s);
    r.re = m_div(c, r.re, d);
    r.im = m_div(c, u, d);
    vanish = m_call(c, recipe_real_exp, m_mul(c, mag, real(c, t, -2)));
    far.im = m_mul(c, m_call(c, recipe_real_sin, z.im), m_call(c, recipe_real_cos, z.im));
    far.im = m_mul(c, m_mul(c, far.im, real(c, t, 4)), vanish);
    far.im = m_select(c, is_finite(c, t, z.im), far.im, m_copysign(c, zero, z.im));
    far.re = m_copysign(c, one, z.re);
    r = pick(c, large, far, r);
    none = m_and(c, is_finite(c, t, z.re), m_not(c, is_finite(c, t, z.im)));
    nan = m_sub(c, z.im, z.im); /* of what is not finite */
    r = pick(c, none, (cnum){nan, nan}, r);
    r.re = m_select(c, is_zero(c, t, z.re), z.re, r.re);
    r.im = m_select(c, is_zero(c, t, z.im), z.im, r.im);
    return r;
}

/* sin z = -i sinh iz, and likewise tan: both parts change places going in and coming out. */
static cnum complex_sin(code_t c, fr_dtype t, cnum z) { return swap(complex_sinh(c, t, swap(z))); }
static cnum complex_tan(code_t c, fr_dtype t, cnum z) { return swap(complex_tanh(c, t, swap(z))); }
static cnum complex_cos(code_t c, fr_dtype t, cnum z) { return complex_cosh(c, t, (cnum){m_neg(c, z.im), z.re}); }

/* ---- their inverses -------------------------------------------------------------------------- */

/* arcsin and arccos after Kahan ("Branch cuts for complex elementary functions", 1987), in the
 * first quadrant: with p + iq and r + is the roots of 1 - z (conjugated) and 1 + z, the imaginary
 * part is arcsinh(p s + q r), and no sum cancels.  Far out it is log 2|z|, and real parts are
 * angles. */
struct roots {
    cnum    minus, plus;
    fr_mval im, far;
};

static struct roots
unit_roots(code_t c, fr_dtype t, cnum z)
{
    fr_mval      a = m_abs(c, z.re), b = m_abs(c, z.im), zero = real(c, t, 0), one = real(c, t, 1);
    fr_mval      limit = by_type(c, t, 0x1p13, 0x1p28), near, na, nb, im;
    struct roots r;

    near = m_and(c, m_lt(c, a, limit), m_lt(c, b, limit));
    na = m_select(c, near, a, zero);
    nb = m_select(c, near, b, zero);
    r.minus = square_root(c, t, (cnum){m_sub(c, one, na), nb});
    r.plus = square_root(c, t, (cnum){m_add(c, one, na), nb});
    im = m_add(c, m_mul(c, r.minus.re, r.plus.im), m_mul(c, r.minus.im, r.plus.re));
    im = m_call(c, recipe_real_arcsinh, im);
    r.far = m_not(c, near);
    r.im = m_select(c, r.far, m_add(c, log_abs(c, t, a, b), real(c, t, M_LN2)), im);
    return r;
}

static cnum
complex_arcsin(code_t c, fr_dtype t, cnum z)
{
    struct roots u = unit_roots(c, t, z);
    fr_mval      a = m_abs(c, z.re), b = m_abs(c, z.im), near;
    cnum         r;

    near = m_add(c, m_mul(c, u.minus.re, u.plus.re), m_mul(c, u.minus.im, u.plus.im));
    r.re = m_call2(c, recipe_real_arctan2, a, m_select(c, u.far, b, near));
    r.re = m_select(c, is_zero(c, t, a), a, r.re);
    return (cnum){m_copysign(c, r.re, z.re), m_copysign(c, u.im, z.im)};
}

static cnum
complex_arccos(code_t c, fr_dtype t, cnum z)
{
    struct roots u = unit_roots(c, t, z);
    fr_mval      zero = real(c, t, 0), left = m_lt(c, z.re, zero), top, side, angle;

    top = m_select(c, left, u.plus.re, u.minus.re);
    side = m_select(c, left, u.minus.re, u.plus.re);
    angle = m_call2(c, recipe_real_arctan2, m_select(c, u.far, m_abs(c, z.im), top), m_select(c, u.far, z.re, side));
    angle = m_select(c, u.far, angle, m_add(c, angle, angle));
    angle = m_select(c, is_zero(c, t, z.re), real(c, t, M_PI_2), angle);
    return (cnum){angle, m_copysign(c, u.im, m_neg(c, z.im))};
}

static cnum complex_arcsinh(code_t c, fr_dtype t, cnum z) { return swap(complex_arcsin(c, t, swap(z))); }

static cnum
complex_arccosh(code_t c, fr_dtype t, cnum z)
{
    cnum w = complex_arccos(c, t, z);

    return (cnum){m_abs(c, w.im), signed_as(c, w.re, z.im)};
}

/* re = log(1 + 4a / ((1-a)^2 + b^2)) / 4, im = half the sum of the angles of 1 - z and 1 + z. */
static cnum
complex_arctanh(code_t c, fr_dtype t, cnum z)
{
    fr_mval a = m_abs(c, z.re), b = m_abs(c, z.im), zero = real(c, t, 0), one = real(c, t, 1);
    fr_mval limit = by_type(c, t, 0x1p13, 0x1p28), minus = m_sub(c, one, a), d, h, na, nb;
    fr_mval is_near = m_and(c, m_lt(c, a, limit), m_lt(c, b, limit)), is_pole, endless;
    fr_mval near, pole, far;
    cnum    r;

    na = m_select(c, is_near, a, zero);
    nb = m_select(c, is_near, b, zero);
    d = m_add(c, m_square(c, m_sub(c, one, na)), m_square(c, nb));
    near = m_call(c, recipe_real_log1p, m_div(c, m_mul(c, real(c, t, 4), na), d));
    near = m_mul(c, near, real(c, t, 0.25));
    /* At a = 1 the square of b may vanish before b does. */
    is_pole = m_and(c, m_eq(c, a, one), m_lt(c, b, by_type(c, t, 0x1p-30, 0x1p-60)));
    pole = m_sub(c, real(c, t, M_LN2), m_call(c, recipe_real_log, b));
    pole = m_mul(c, pole, real(c, t, 0.5));
    h = m_call2(c, recipe_real_hypot, a, b);
    far = m_div(c, m_div(c, a, h), h);
    endless = m_or(c, is_inf(c, t, a), is_inf(c, t, b));
    far = m_select(c, endless, zero, far);
    r.re = m_select(c, is_near, m_select(c, is_pole, pole, near), far);
    r.re = m_select(c, is_zero(c, t, a), a, r.re);

    r.im = m_add(c, m_call2(c, recipe_real_arctan2, b, minus), m_call2(c, recipe_real_arctan2, b, m_add(c, one, a)));
    r.im = m_mul(c, r.im, real(c, t, 0.5));
    r.im = m_select(c, is_inf(c, t, b), real(c, t, M_PI_2), r.im);
    return (cnum){m_copysign(c, r.re, z.re), m_copysign(c, r.im, z.im)};
}

static cnum complex_arctan(code_t c, fr_dtype t, cnum z) { return swap(complex_arctanh(c, t, swap(z))); }

/* ---- the rows of the table ------------------------------------------------------------------- */

#define REAL_OR_COMPLEX(name)                                                                      \
    RECIPE(name)                                                                                   \
    {                                                                                              \
        if (fr_dtype_is_complex(in))                                                               \
            *out = complex_##name(c, fr_dtype_info[in].component, x[0]);                           \
        else                                                                                       \
            recipe_real_##name(c, in, x, out);                                                     \
    }
REAL_OR_COMPLEX(cube)
REAL_OR_COMPLEX(fourth)
REAL_OR_COMPLEX(exp)
REAL_OR_COMPLEX(exp2)
REAL_OR_COMPLEX(expm1)
REAL_OR_COMPLEX(log)
REAL_OR_COMPLEX(log2)
REAL_OR_COMPLEX(log10)
REAL_OR_COMPLEX(log1p)
REAL_OR_COMPLEX(sin)
REAL_OR_COMPLEX(cos)
REAL_OR_COMPLEX(tan)
REAL_OR_COMPLEX(arcsin)
REAL_OR_COMPLEX(arccos)
REAL_OR_COMPLEX(arctan)
REAL_OR_COMPLEX(sinh)
REAL_OR_COMPLEX(cosh)
REAL_OR_COMPLEX(tanh)
REAL_OR_COMPLEX(arcsinh)
REAL_OR_COMPLEX(arccosh)
REAL_OR_COMPLEX(arctanh)

#define REAL_ONLY(name)                                                                            \
    RECIPE(name)                                                                                   \
    {                                                                                              \
        recipe_real_##name(c, in, x, out);                                                         \
    }
REAL_ONLY(cbrt)
REAL_ONLY(erf)
REAL_ONLY(erfc)
REAL_ONLY(sigmoid)
REAL_ONLY(softplus)
REAL_ONLY(arctan2)
REAL_ONLY(hypot)
REAL_ONLY(logaddexp)
REAL_ONLY(logaddexp2)
