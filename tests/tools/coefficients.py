"""Writes the polynomials of the math functions:

    python tests/tools/coefficients.py > csrc/jit/recipe_math_coef.h

Each row says which function a polynomial stands for, where, and what its error is measured against.
The comment over an array gives its largest weighted error in bits.
"""

import math
import sys

import gmpy2
from gmpy2 import mpfr

from minimax import denominator, fit, round_to

gmpy2.get_context().emin = -(1 << 30)

LN2 = gmpy2.const_log2()
PI = gmpy2.const_pi()
HALF_LN2 = LN2 / 2 * mpfr("1.0005")  # rounding to the nearest integer may miss by a little
SQRT_HALF = 1 / gmpy2.sqrt(mpfr(2))


def near0(f, value):
    """f, continued into 0."""
    return lambda x: f(x) if x else mpfr(value)


def hexadecimal(x):
    """x as a C literal without idle zeros."""
    digits, exponent = float(x).hex().split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}"


def show(name, why, coefs):
    lines, line = [], "   "
    for c in coefs:
        part = f" {hexadecimal(c)},"
        if len(line) + len(part) > 99:
            lines.append(line)
            line = "   "
        line += part
    body = "\n".join(lines + [line])
    print(f"/* {why} */\nstatic const double {name}[] = {{\n{body}\n}};\n")


def polynomial(name, what, f, lo, hi, n, weight=None, bits=53, powers=None):
    coefs, err = fit(f, lo, hi, powers or list(range(n)), weight, bits)
    show(name, f"{what}: 2^{math.log2(err):.1f}", coefs)
    return coefs


def rational(name, what, f, lo, hi, n, m, weight):
    """P and Q, in doubles: f is about P / Q."""
    q = [round_to(c, 53) for c in denominator(f, lo, hi, n, m, weight)]

    def below(x):
        return sum(c * x**k for k, c in enumerate(q))

    polynomial(
        f"{name}_P", f"{what}, P", lambda x: f(x) * below(x), lo, hi, n, lambda x: weight(x) / below(x)
    )
    show(f"{name}_Q", "Q", q)


def split_parts(value, *bits):
    """A constant as a sum of floats with the given numbers of bits."""
    out = []
    for b in bits:
        out.append(round_to(value, b))
        value = value - out[-1]
    return out


def parts(name, what, value, *bits):
    show(name, what, split_parts(value, *bits))


def exp_family():
    parts("LN2_F32", "ln 2; the first part times an exponent is exact", LN2, 15, 24)
    parts("LN2_F64", "ln 2; the first part times an exponent is exact", LN2, 42, 53)
    parts("LOG2E", "1 / ln 2", 1 / LN2, 53, 53)
    e1 = near0(lambda r: gmpy2.expm1(r) / r, 1)
    e2 = near0(lambda r: (gmpy2.expm1(r) - r) / r**2, 0.5)
    polynomial(
        "EXP_F32",
        "(e^r - 1) / r, |r| <= ln 2 / 2, error against e^r",
        e1,
        -HALF_LN2,
        HALF_LN2,
        6,
        lambda r: abs(r) / gmpy2.exp(r),
        24,
    )
    polynomial(
        "EXP_F32_TAIL",
        "(e^r - 1 - r) / r^2, error against e^r",
        e2,
        -HALF_LN2,
        HALF_LN2,
        5,
        lambda r: r * r / gmpy2.exp(r),
        24,
    )
    polynomial(
        "EXP_F64_TAIL",
        "(e^r - 1 - r) / r^2, error against e^r",
        e2,
        -HALF_LN2,
        HALF_LN2,
        10,
        lambda r: r * r / gmpy2.exp(r),
    )
    polynomial(
        "EXPM1_F32",
        "(e^r - 1 - r) / r^2, error against e^r - 1",
        e2,
        -HALF_LN2,
        HALF_LN2,
        6,
        lambda r: abs(r * r / gmpy2.expm1(r)) if r else mpfr(0),
        24,
    )
    e3 = near0(lambda r: (gmpy2.expm1(r) - r - r * r / 2) / r**3, mpfr(1) / 6)
    polynomial(
        "EXPM1_F64_TAIL",
        "(e^r - 1 - r - r^2 / 2) / r^3, error against e^r - 1",
        e3,
        -HALF_LN2,
        HALF_LN2,
        10,
        lambda r: abs(r**3 / gmpy2.expm1(r)) if r else mpfr(0),
    )
    polynomial(
        "EXP_SHORT",
        "(e^r - 1) / r in doubles, enough for floats, error against e^r - 1",
        e1,
        -HALF_LN2,
        HALF_LN2,
        7,
        lambda r: 1 / e1(r),
    )
    p1 = near0(lambda r: (gmpy2.exp2(r) - 1) / r, LN2)
    half = mpfr("0.50001")
    polynomial(
        "EXP2_F32",
        "(2^r - 1) / r, |r| <= 1/2, error against 2^r",
        p1,
        -half,
        half,
        6,
        lambda r: abs(r) / gmpy2.exp2(r),
        24,
    )
    polynomial(
        "EXP2_F64",
        "(2^r - 1) / r, error against 2^r",
        p1,
        -half,
        half,
        11,
        lambda r: abs(r) / gmpy2.exp2(r),
    )
    cosh1 = near0(lambda z: (gmpy2.cosh(gmpy2.sqrt(z)) - 1) / z, 0.5)
    sinh1 = near0(lambda z: (gmpy2.sinh(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(1) / 6)
    polynomial(
        "SINH_F32",
        "(sinh x / x - 1) / x^2 in x^2, |x| <= 1, error against sinh x",
        sinh1,
        0,
        mpfr("1.0001"),
        4,
        near0(lambda z: z * gmpy2.sqrt(z) / gmpy2.sinh(gmpy2.sqrt(z)), 0),
        24,
    )
    polynomial(
        "COSH_F64",
        "(cosh r - 1) / r^2 in r^2, error against cosh r",
        cosh1,
        0,
        HALF_LN2**2,
        5,
        lambda z: z,
    )
    polynomial(
        "SINH_F64",
        "(sinh r / r - 1) / r^2 in r^2, error against sinh r",
        sinh1,
        0,
        HALF_LN2**2,
        5,
        lambda z: z,
    )
    # tanh has poles at distance pi / 2; this quotient's are at tan y = y, at distance 4.49.
    cut = mpfr(0.8)

    def cubic(z):
        x = gmpy2.sqrt(z)
        return z * x / (gmpy2.tanh(x) - x)

    def tail(z):
        x = gmpy2.sqrt(z)
        return x * z / (cubic(z) ** 2 * gmpy2.tanh(x))

    what = "x^3 / (tanh x - x) in x^2, |x| <= CUT, error against tanh x"
    polynomial("TANH_F32", what, cubic, mpfr("1e-12"), cut**2, 4, tail, 24)
    polynomial("TANH_F64", what, cubic, mpfr("1e-12"), cut**2, 8, tail)


def log_family():
    l2 = near0(lambda r: (gmpy2.log1p(r) - r) / r**2, -0.5)
    lo, hi = SQRT_HALF - 1, gmpy2.sqrt(mpfr(2)) - 1
    w = near0(lambda r: r * r / abs(gmpy2.log1p(r)), 0)
    for name, base in (("LOG2", mpfr(2)), ("LOG10", mpfr(10))):
        k = gmpy2.log(base)
        for t, short, long in (("F32", 15, 24), ("F64", 42, 53)):
            parts(
                f"{name}_{t}_STEP",
                f"log{int(base)} 2; the first part times an exponent is exact",
                LN2 / k,
                short,
                long,
            )
            parts(f"{name}_{t}_SLOPE", f"1 / ln {int(base)}", 1 / k, long, long)
        if name == "LOG10":
            lo, hi = -mpfr("0.33"), mpfr("0.34")
        lb = near0(lambda r: (gmpy2.log1p(r) - r) / r**2 / k, -1 / k / 2)
        wb = near0(lambda r: r * r * k / abs(gmpy2.log1p(r)), 0)
        what = f"(log(1 + r) - r) / r^2 / ln {int(base)}, error against log"
        polynomial(f"{name}_F32", what, lb, lo, hi, 10 if name == "LOG2" else 9, wb, 24)
    lo, hi = SQRT_HALF - 1, gmpy2.sqrt(mpfr(2)) - 1
    lz = near0(lambda z: gmpy2.log1p(z) / z, 1)
    polynomial("LOG1P_SHORT", "log(1 + z) / z, 0 <= z <= 1, for floats", lz, 0, 1, 12)
    polynomial(
        "LOG_SHORT", "(log(1 + r) - r) / r^2, for floats, error against log", l2, lo, hi, 11, w
    )
    polynomial(
        "LOG_F32",
        "(log(1 + r) - r) / r^2, sqrt(1/2) <= 1 + r <= sqrt(2), error against log",
        l2,
        lo,
        hi,
        9,
        w,
        24,
    )
    # log(1 + r) = 2 arctanh s, s = r / (2 + r), is r - r^2 / 2 + s (r^2 / 2 + s^2 p(s^2)), since 2 s = r - s r.
    what = "(2 arctanh s / s - 2) / s^2 in s^2, error against log"
    pz = near0(lambda z: (2 * gmpy2.atanh(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 2) / z, mpfr(2) / 3)
    wz = near0(lambda z: z * gmpy2.sqrt(z) / (2 * gmpy2.atanh(gmpy2.sqrt(z))), 0)
    sure = mpfr("1.0001")
    polynomial("LOG_F64", what, pz, 0, sure * (hi / (2 + hi)) ** 2, 7, wz)
    polynomial("LOG10_F64", what, pz, 0, sure * (mpfr("0.33") / mpfr("1.67")) ** 2, 8, wz)


def erf_family():
    # log2 erfc(CUT) is very nearly a float and a double.
    cut = mpfr("0.77978515625")

    def small(z):
        x = gmpy2.sqrt(z)
        return gmpy2.erf(x) / x - 1

    def weight(z):
        x = gmpy2.sqrt(z)
        return x / gmpy2.erf(x)

    polynomial(
        "ERF_F32",
        "erf x / x - 1 in x^2, |x| <= CUT, error against erf x",
        small,
        mpfr("1e-12"),
        cut**2,
        6,
        weight,
        24,
    )
    what = "erf x / x - 1 in x^2, |x| <= CUT, error against erf x"
    rational("ERF_F64", f"P / Q is {what}", small, mpfr("1e-20"), cut**2, 7, 3, weight)

    def log2_erfc(u):
        return gmpy2.log2(gmpy2.erfc(cut + u))

    polynomial(
        "ERF_F32_TOP",
        "log2 erfc(CUT + u), CUT + u <= 3.95, error against erf x",
        log2_erfc,
        0,
        mpfr("3.18"),
        7,
        lambda u: gmpy2.erfc(cut + u),
        24,
    )
    first = round_to(log2_erfc(mpfr(0)), 53)
    show("ERF_F64_FIRST", "log2 erfc(CUT)", [first])
    what = "(log2 erfc(CUT + u) - the first) / u, CUT + u <= 5.95, error against erf x"
    rational(
        "ERF_F64_TOP",
        f"P / Q is {what}",
        lambda u: (log2_erfc(u) - first) / u,
        mpfr("1e-12"),
        mpfr("5.18"),
        8,
        5,
        lambda u: u * gmpy2.erfc(cut + u),
    )


def erfc_family():
    def erfcx(x):
        return gmpy2.erfc(x) * gmpy2.exp(x * x)

    def middle(u):
        x = mpfr("3.5") * (1 + u) / (1 - u)
        return erfcx(x) * (1 + 2 * x)

    polynomial(
        "ERFC_NEAR",
        "erf x / x - 1 in x^2, |x| <= 11/16",
        near0(lambda z: gmpy2.erf(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1, 2 / gmpy2.sqrt(PI) - 1),
        mpfr("1e-20"),
        mpfr("0.4727"),
        11,
        lambda z: mpfr(1),
    )
    lo, hi = mpfr("0.687"), mpfr("27.3")
    polynomial(
        "ERFC_FAR",
        "(1 + 2x) e^(x^2) erfc x in (x - 3.5) / (x + 3.5), 11/16 <= x <= 27.3",
        middle,
        (lo - 3.5) / (lo + 3.5),
        (hi - 3.5) / (hi + 3.5),
        22,
    )
    polynomial(
        "ERFC_SHORT",
        "(x + 2.5) e^(x^2) erfc x in 1 / (x + 2.5), 0 <= x <= 10.2, for floats",
        lambda v: erfcx(1 / v - mpfr("2.5")) / v,
        1 / mpfr("12.7"),
        mpfr("0.4"),
        13,
    )


def arc_family():
    at = near0(lambda z: (gmpy2.atan(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(-1) / 3)
    wt = near0(lambda z: z * gmpy2.sqrt(z) / gmpy2.atan(gmpy2.sqrt(z)), 0)
    sure = mpfr("1.00001")
    what = "(arctan t / t - 1) / t^2 + 1/4 in t^2, |t| <= 1, error against arctan t"

    def cubic(z):
        return at(z) + mpfr("0.25")

    polynomial("ARCTAN_F32", what, cubic, 0, sure, 9, wt, 24)
    rational("ARCTAN_F64", f"P / Q is {what}", cubic, 0, sure, 7, 5, wt)
    asn = near0(lambda z: (gmpy2.asin(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(1) / 6)
    ws = near0(lambda z: z * gmpy2.sqrt(z) / gmpy2.asin(gmpy2.sqrt(z)), 0)
    for t, n, bits in (("F32", 5, 24), ("F64", 12, 53)):
        polynomial(
            f"ARCSIN_{t}",
            "(arcsin s / s - 1) / s^2 in s^2, |s| <= 1/2, error against arcsin s",
            asn,
            0,
            mpfr("0.2501"),
            n,
            ws,
            bits,
        )
    parts("HALF_PI_F32", "pi / 2", PI / 2, 24, 24)


def power_family():
    top = mpfr("0.1022")
    for t, n, bits in (("F32", 3, 24), ("F64", 6, 53)):
        polynomial(
            f"CBRT_{t}",
            "((1 - h)^(-1/3) - 1) / h, |h| <= 0.1022, error against (1 - h)^(-1/3)",
            near0(lambda h: (1 / gmpy2.cbrt(1 - h) - 1) / h, mpfr(1) / 3),
            -top,
            top,
            n,
            lambda h: abs(h),
            bits,
        )
    lo, hi = SQRT_HALF, gmpy2.sqrt(mpfr(2))
    what = "m^(-1/3), sqrt(1/2) <= m <= sqrt(2), for half precision"
    polynomial("CBRT_HALF", what, lambda m: 1 / gmpy2.cbrt(m), lo, hi, 4, None, 24)
    parts("CBRT_2", "2^(1/3) and 2^(-1/3)", gmpy2.cbrt(mpfr(2)), 53)
    lo, hi = lo - 1, hi - 1
    polynomial(
        "LOG2_SHORT",
        "log2((1 + s) / (1 - s)) / s in s^2, for floats",
        near0(lambda z: 2 * gmpy2.atanh(gmpy2.sqrt(z)) / gmpy2.sqrt(z) / LN2, 2 / LN2),
        0,
        (hi / (2 + hi)) ** 2 * mpfr("1.0001"),
        5,
    )
    polynomial(
        "EXP2_SHORT",
        "(2^r - 1) / r, for floats, error against 2^r",
        near0(lambda r: (gmpy2.exp2(r) - 1) / r, LN2),
        -mpfr("0.50001"),
        mpfr("0.50001"),
        6,
        lambda r: abs(r) / gmpy2.exp2(r),
    )
    # log2 m = s (c0 + s^2 (c1 + s^2 q(s^2))) with s = (m - 1) / (m + 1)
    parts("POWER_C0", "2 / ln 2", 2 / LN2, 53, 53)
    parts("POWER_C1", "2 / 3 / ln 2", 2 / LN2 / 3, 53, 53)
    c0, c1 = 2 / LN2, 2 / LN2 / 3
    top = ((hi) / (hi + 2)) ** 2 * mpfr("1.0001")

    def rest(z):
        s = gmpy2.sqrt(z)
        return (gmpy2.log2((1 + s) / (1 - s)) / s - c0 - c1 * z) / z**2

    polynomial(
        "POWER_Q",
        "(log2 m - c0 s - c1 s^3) / s^5 in s^2, error against log2 m",
        near0(rest, 2 / LN2 / 5),
        0,
        top,
        8,
        lambda z: z * z / c0,
    )


# Exponents from which a float takes its own bits of 1 / pi: those that give only multiples of two
# half turns are left out.
F32_CLASSES = (None, 46, 67, 88, 109)


def trig_family():
    with gmpy2.context(gmpy2.get_context(), precision=1600):
        inverse = 1 / gmpy2.const_pi()
        for name, what, value in (
            ("INVERSE_PI", "1 / pi", inverse),
            ("TWO_OVER_PI", "2 / pi", 2 * inverse),
        ):
            pairs = []
            for e in F32_CLASSES:
                v = value
                if e is not None:
                    unit = gmpy2.exp2(24 - e)
                    v = v - unit * gmpy2.floor(v / unit)
                    v = v - unit if v > unit / 2 else v
                # Rounded down, so that both parts of 1 / pi are positive and -0 stays -0.
                head = round_to(v, 53)
                if head > v:
                    head = head - gmpy2.exp2(gmpy2.frexp(head)[0] - 53)
                pairs += [head, round_to(v - head, 53)]
            show(
                name,
                f"{what} in two parts, and less what gives multiples of 2 with floats from "
                f"2^{F32_CLASSES[1:]}",
                pairs,
            )
        digits, v = [], 2 * inverse
        for k in range(24):
            v = v * gmpy2.exp2(53)
            d = gmpy2.rint(v)
            digits.append(d / gmpy2.exp2(53))
            v = v - d
        show("TWO_OVER_PI_DIGITS", "2 / pi in digits of base 2^53, as fractions of it", digits)
    parts("HALF_PI", "pi / 2", PI / 2, 53, 53, 53)
    polynomial(
        "SINPI_SHORT",
        "sin(pi f) / f in f^2, |f| <= 1/2, for floats",
        near0(lambda z: gmpy2.sin(PI * gmpy2.sqrt(z)) / gmpy2.sqrt(z), PI),
        0,
        mpfr("0.2501"),
        6,
    )
    polynomial(
        "TAN_SHORT",
        "tan(pi f / 2) / f in f^2, |f| <= 1/2, for floats",
        near0(lambda z: gmpy2.tan(PI / 2 * gmpy2.sqrt(z)) / gmpy2.sqrt(z), PI / 2),
        0,
        mpfr("0.2501"),
        9,
    )
    rest, pieces = PI / 2, []
    for bits in (24, 14, 24):
        unit = gmpy2.exp2(gmpy2.frexp(rest)[0] - bits)
        pieces.append(gmpy2.floor(rest / unit) * unit)
        rest -= pieces[-1]
    show("HALF_PI_PARTS_F32", "pi / 2, each part rounded down", pieces)
    top = mpfr("0.8") ** 2
    polynomial(
        "TAN_F32",
        "(tan r / r - 1) / r^2 in r^2, |r| <= 0.8, error against tan r",
        near0(lambda z: (gmpy2.tan(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(1) / 3),
        0,
        top,
        8,
        near0(lambda z: z * gmpy2.sqrt(z) / gmpy2.tan(gmpy2.sqrt(z)), 0),
        24,
    )
    top = (PI / 4) ** 2 * mpfr("1.001")
    polynomial(
        "SIN_F64",
        "(sin r / r - 1) / r^2 in r^2, |r| <= pi / 4, error against sin r",
        near0(lambda z: (gmpy2.sin(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(-1) / 6),
        0,
        top,
        6,
        lambda z: z,
    )
    polynomial(
        "COS_F64",
        "(cos r - 1 + r^2 / 2) / r^4 in r^2, |r| <= pi / 4, error against cos r",
        near0(lambda z: (gmpy2.cos(gmpy2.sqrt(z)) - 1 + z / 2) / z**2, mpfr(1) / 24),
        0,
        top,
        6,
        lambda z: z * z,
    )


def half_family():
    """For half precision, in floats."""

    def short(name, what, f, at0, lo, hi, n, weight=None):
        polynomial(f"{name}_HALF", what + ", for half precision", near0(f, at0), lo, hi, n, weight, 24)

    lo, hi = SQRT_HALF - 1, gmpy2.sqrt(mpfr(2)) - 1
    for name, base in (("LOG", None), ("LOG2", mpfr(2)), ("LOG10", mpfr(10))):
        k = gmpy2.log(base) if base else mpfr(1)
        what = f"log{int(base) if base else ''}(1 + r) / r, error against it"
        short(
            name, what, lambda r: gmpy2.log1p(r) / r / k, 1 / k, lo, hi, 6,
            near0(lambda r: r * k / gmpy2.log1p(r), k),
        )
    parts("LOG10_2_HALF", "log10 2", LN2 / gmpy2.log(mpfr(10)), 24)
    half = mpfr("0.50001")
    short("EXP2", "2^r, error against it", gmpy2.exp2, 1, -half, half, 5, lambda r: 1 / gmpy2.exp2(r))
    e1 = near0(lambda r: gmpy2.expm1(r) / r, 1)
    short("EXPM1", "(e^r - 1) / r, error against it", e1, 1, -HALF_LN2, HALF_LN2, 4, lambda r: 1 / e1(r))
    top = HALF_LN2**2
    short("COSH", "cosh r in r^2", lambda z: gmpy2.cosh(gmpy2.sqrt(z)), 1, 0, top, 3)

    def over_root(f):
        return lambda z: f(gmpy2.sqrt(z)) / gmpy2.sqrt(z)

    short("SINH", "sinh r / r in r^2", over_root(gmpy2.sinh), 1, 0, top, 2)
    short("SIN", "sin r / r in r^2, |r| <= pi / 2", over_root(gmpy2.sin), 1, 0, (PI / 2) ** 2 * mpfr("1.001"), 4)
    short("TAN", "tan r / r in r^2, |r| <= pi / 4", over_root(gmpy2.tan), 1, 0, (PI / 4) ** 2 * mpfr("1.001"), 5)
    short("ARCTAN", "arctan t / t in t^2, |t| <= 1", over_root(gmpy2.atan), 1, 0, 1, 6)
    short("ARCSINH", "arcsinh a / a in a^2, a <= 1/2", over_root(gmpy2.asinh), 1, 0, mpfr("0.25"), 4)
    short("ARCTANH", "arctanh a / a in a^2, a <= 1/2", over_root(gmpy2.atanh), 1, 0, mpfr("0.25"), 4)
    for name, what, value in (("PI_HALF", "pi", PI), ("HALF_PI_HALF", "pi / 2", PI / 2)):
        unit = gmpy2.exp2(-22 if value > 2 else -23)
        first = gmpy2.floor(value / unit) * unit
        show(name, f"{what}, the first part rounded down", [first, round_to(value - first, 24)])


def main():
    print("""/* jit/recipe_math_coef.h -- polynomials and constants of the math functions.
 * Made by tests/tools/coefficients.py; not to be edited by hand.  The figure at the end of each
 * comment is the largest error of the polynomial with its rounded coefficients. */
#ifndef FR_JIT_RECIPE_MATH_COEF_H
#define FR_JIT_RECIPE_MATH_COEF_H
""")
    for family in (
        exp_family,
        log_family,
        erf_family,
        erfc_family,
        trig_family,
        arc_family,
        power_family,
        half_family,
    ):
        family()
    print("#endif")


if __name__ == "__main__":
    sys.exit(main())
