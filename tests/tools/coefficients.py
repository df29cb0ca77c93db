"""Writes csrc/jit/recipe_math_coef.h: python tests/tools/coefficients.py > csrc/jit/recipe_math_coef.h

Each row says which function a polynomial stands for, where, and what its error is measured against.
The comment over an array gives its largest weighted error in bits.
"""
import math
import sys

import gmpy2
from gmpy2 import mpfr

from minimax import fit, round_to

LN2 = gmpy2.const_log2()
PI = gmpy2.const_pi()
HALF_LN2 = LN2 / 2 * mpfr("1.0005")       # rounding to the nearest integer may miss by a little
SQRT_HALF = 1 / gmpy2.sqrt(mpfr(2))


def near0(f, value):
    """f, continued into 0."""
    return lambda x: f(x) if x else mpfr(value)


def show(name, why, coefs):
    body = ", ".join(float(c).hex() if c == float(c) else "?" for c in coefs)
    lines, line = [], "   "
    for part in body.split(", "):
        part = part.replace("0000000000p", "p") if part.count("0000000000p") else part
        if len(line) + len(part) + 2 > 100:
            lines.append(line)
            line = "   "
        line += f" {part},"
    lines.append(line)
    print(f"/* {why} */\nstatic const double {name}[] = {{\n" + "\n".join(lines) + "\n};\n")


def polynomial(name, what, f, lo, hi, n, weight=None, bits=53, powers=None):
    coefs, err = fit(f, lo, hi, powers or list(range(n)), weight, bits)
    show(name, f"{what}: 2^{math.log2(err):.1f}", coefs)
    return coefs


def parts(name, what, value, *bits):
    """A constant as a sum of floats with the given numbers of bits."""
    out = []
    for b in bits:
        out.append(round_to(value, b))
        value = value - out[-1]
    show(name, what, out)


def exp_family():
    parts("LN2_F32", "ln 2; the first part times an exponent is exact", LN2, 15, 24)
    parts("LN2_F64", "ln 2; the first part times an exponent is exact", LN2, 42, 53)
    parts("LOG2E", "1 / ln 2", 1 / LN2, 53, 53)
    e1 = near0(lambda r: gmpy2.expm1(r) / r, 1)
    e2 = near0(lambda r: (gmpy2.expm1(r) - r) / r**2, 0.5)
    polynomial("EXP_F32", "(e^r - 1) / r, |r| <= ln 2 / 2, error against e^r", e1, -HALF_LN2, HALF_LN2, 6,
               lambda r: abs(r) / gmpy2.exp(r), 24)
    polynomial("EXP_F32_TAIL", "(e^r - 1 - r) / r^2, error against e^r", e2, -HALF_LN2, HALF_LN2, 5,
               lambda r: r * r / gmpy2.exp(r), 24)
    polynomial("EXP_F64_TAIL", "(e^r - 1 - r) / r^2, error against e^r", e2, -HALF_LN2, HALF_LN2, 10,
               lambda r: r * r / gmpy2.exp(r))
    polynomial("EXPM1_F64_TAIL", "(e^r - 1 - r) / r^2, error against e^r - 1", e2, -HALF_LN2, HALF_LN2, 11,
               lambda r: r * r / abs(gmpy2.expm1(r)))
    polynomial("EXP_SHORT", "(e^r - 1) / r in doubles, enough for floats, error against e^r - 1", e1,
               -HALF_LN2, HALF_LN2, 7, lambda r: 1 / e1(r))
    p1 = near0(lambda r: (gmpy2.exp2(r) - 1) / r, LN2)
    half = mpfr("0.50001")
    polynomial("EXP2_F32", "(2^r - 1) / r, |r| <= 1/2, error against 2^r", p1, -half, half, 6,
               lambda r: abs(r) / gmpy2.exp2(r), 24)
    polynomial("EXP2_F64", "(2^r - 1) / r, error against 2^r", p1, -half, half, 12,
               lambda r: abs(r) / gmpy2.exp2(r))
    t1 = near0(lambda z: (gmpy2.tanh(gmpy2.sqrt(z)) / gmpy2.sqrt(z) - 1) / z, mpfr(-1) / 3)
    polynomial("TANH_F32", "(tanh x / x - 1) / x^2 in x^2, |x| <= 1, error against tanh x", t1, mpfr("1e-9"), 1, 7,
               lambda z: z**1.5 / gmpy2.tanh(gmpy2.sqrt(z)), 24)
    polynomial("RECIPROCAL", "1 / d in 1 <= d <= 2, a start for Newton's method", lambda d: 1 / d, 1, 2, 3)


def log_family():
    l2 = near0(lambda r: (gmpy2.log1p(r) - r) / r**2, -0.5)
    lo, hi = SQRT_HALF - 1, gmpy2.sqrt(mpfr(2)) - 1
    w = near0(lambda r: r * r / abs(gmpy2.log1p(r)), 0)
    polynomial("LOG_F32", "(log(1 + r) - r) / r^2, sqrt(1/2) <= 1 + r <= sqrt(2), error against log", l2, lo, hi, 9,
               w, 24)
    polynomial("LOG_F64", "(log(1 + r) - r) / r^2, error against log", l2, lo, hi, 20, w)


def erf_family():

    cut = mpfr(13) / 16

    def small(z):
        x = gmpy2.sqrt(z)
        return gmpy2.erf(x) / x - 1

    def weight(z):
        x = gmpy2.sqrt(z)
        return x / gmpy2.erf(x)

    polynomial("ERF_F32", "erf x / x - 1 in x^2, |x| <= 13/16, error against erf x", small, mpfr("1e-12"), cut**2, 6, weight, 24)
    polynomial("ERF_F64", "erf x / x - 1 in x^2, |x| <= 13/16, error against erf x", small, mpfr("1e-20"), cut**2, 13, weight)

    def log2_erfc(u):
        return gmpy2.log2(gmpy2.erfc(cut + u))

    polynomial("ERF_F32_TOP", "log2 erfc(13/16 + u), 13/16 + u <= 3.95, error against erf x", log2_erfc, 0, mpfr("3.15"), 7,
               lambda u: gmpy2.erfc(cut + u), 24)
    polynomial("ERF_F64_TOP", "log2 erfc(13/16 + u), 13/16 + u <= 5.95, error against erf x", log2_erfc, 0, mpfr("5.15"), 20,
               lambda u: gmpy2.erfc(cut + u))


def main():
    print("""/* jit/recipe_math_coef.h -- polynomials and constants of the math functions.
 * Made by tests/tools/coefficients.py; not to be edited by hand.  The figure at the end of each
 * comment is the largest error of the polynomial with its rounded coefficients. */
#ifndef FR_JIT_RECIPE_MATH_COEF_H
#define FR_JIT_RECIPE_MATH_COEF_H
""")
    for family in (exp_family, log_family, erf_family):
        family()
    print("#endif")


if __name__ == "__main__":
    sys.exit(main())
