"""Rewriting changes no bit: what a whole expression gives equals what it gives operation by operation."""
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import frit

from .common import ROOT, assert_same, kernels_of, specials

pytestmark = pytest.mark.core

INTS, FLOATS, COMPLEX = ["i1", "u1", "i4", "u8"], ["f2", "f4", "f8"], ["c8", "c16"]
NUMBERS = INTS + FLOATS + COMPLEX


def exact_bits(a):
    """As bytes; of a NaN only the sign counts."""
    a = np.ascontiguousarray(a)
    if a.dtype.kind == "c":
        a = a.view(a.real.dtype)
    if a.dtype.kind == "f":
        nan = np.isnan(a)
        return nan.tobytes(), np.signbit(a).tobytes(), np.where(nan, 0, a).astype(a.dtype).tobytes()
    return a.tobytes()


def values(dtype):
    """Special values, a NaN of either sign among them."""
    v = specials(dtype)
    if v.dtype.kind == "f":
        v = np.concatenate([v, np.array([np.nan, -np.nan], v.dtype)])
    if v.dtype.kind == "c":
        part = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, -np.nan])
        v = np.concatenate([v, [complex(re, im) for re in part for im in part]]).astype(dtype)
    return v


class Steps:
    """Calls functions of frit and forces each result, so that nothing can be rewritten."""

    def __getattr__(self, name):
        f = getattr(frit, name)

        def forced(*args, **kw):
            r = f(*args, **kw)
            frit.eval(r)
            return r
        return forced


CASES = {
    "negative twice": (lambda xp, x: xp.negative(xp.negative(x)), NUMBERS),
    "invert twice": (lambda xp, x: xp.invert(xp.invert(x)), ["?", *INTS]),
    "not twice": (lambda xp, x: xp.logical_not(xp.logical_not(x)), ["?", *NUMBERS]),
    "not of invert": (lambda xp, x: xp.logical_not(xp.invert(x)), ["?", *INTS]),
    "invert of not": (lambda xp, x: xp.invert(xp.logical_not(x)), ["?", *NUMBERS]),
    "conjugate twice": (lambda xp, x: xp.conjugate(xp.conjugate(x)), NUMBERS),
    "positive": (lambda xp, x: xp.positive(x), NUMBERS),
    "real of conjugate": (lambda xp, x: xp.real(xp.conjugate(x)), COMPLEX),
    "absolute twice": (lambda xp, x: xp.absolute(xp.absolute(x)), NUMBERS),
    "absolute of fabs": (lambda xp, x: xp.absolute(xp.fabs(x)), FLOATS),
    "absolute of negative": (lambda xp, x: xp.absolute(xp.negative(x)), NUMBERS),
    "absolute of conjugate": (lambda xp, x: xp.absolute(xp.conjugate(x)), NUMBERS),
    "fabs of negative": (lambda xp, x: xp.fabs(xp.negative(x)), FLOATS),
    "copysign of negative": (lambda xp, x: xp.copysign(xp.negative(x), x), FLOATS),
    "copysign of absolute": (lambda xp, x: xp.copysign(xp.absolute(x), x), FLOATS),
    "absolute of absolute of negative": (
        lambda xp, x: xp.absolute(xp.absolute(xp.negative(x))), NUMBERS),
    "isnan of negative": (lambda xp, x: xp.isnan(xp.negative(x)), NUMBERS),
    "isinf of absolute": (lambda xp, x: xp.isinf(xp.absolute(x)), NUMBERS),
    "isfinite of absolute": (lambda xp, x: xp.isfinite(xp.absolute(x)), NUMBERS),
    "isnan of absolute": (lambda xp, x: xp.isnan(xp.absolute(x)), NUMBERS),
    "maximum": (lambda xp, x: xp.maximum(x, x), ["?", *NUMBERS]),
    "minimum": (lambda xp, x: xp.minimum(x, x), ["?", *NUMBERS]),
    "fmax": (lambda xp, x: xp.fmax(x, x), ["?", *NUMBERS]),
    "fmin": (lambda xp, x: xp.fmin(x, x), ["?", *NUMBERS]),
    "and": (lambda xp, x: xp.bitwise_and(x, x), ["?", *INTS]),
    "or": (lambda xp, x: xp.bitwise_or(x, x), ["?", *INTS]),
    "logical and": (lambda xp, x: xp.logical_and(x, x), ["?", *NUMBERS]),
    "logical or": (lambda xp, x: xp.logical_or(x, x), ["?", *NUMBERS]),
    "where of equals": (lambda xp, x: xp.where(xp.isnan(x), x, x), NUMBERS),
    "where of not": (lambda xp, x: xp.where(xp.logical_not(xp.isnan(x)), x, xp.negative(x)), NUMBERS),
    "where of invert": (lambda xp, x: xp.where(xp.invert(xp.isnan(x)), x, xp.negative(x)), NUMBERS),
}
for outer in "floor", "ceil", "trunc", "rint":
    CASES[f"{outer} of a number"] = (lambda xp, x, o=outer: getattr(xp, o)(x), ["?", *INTS, *FLOATS])
    for inner in "floor", "ceil", "trunc", "rint":
        CASES[f"{outer} of {inner}"] = (
            lambda xp, x, o=outer, i=inner: getattr(xp, o)(getattr(xp, i)(x)), FLOATS)
for name in "equal", "not_equal", "less", "less_equal", "greater", "greater_equal":
    CASES[f"not {name}"] = (
        lambda xp, x, n=name: xp.logical_not(getattr(xp, n)(x, x[::-1])), ["?", *NUMBERS])
    CASES[f"invert {name}"] = (
        lambda xp, x, n=name: xp.invert(getattr(xp, n)(x, x[::-1])), ["?", *NUMBERS])


@pytest.mark.parametrize("case", CASES)
def test_rule_is_exact(case):
    f, dtypes = CASES[case]
    for dtype in dtypes:
        x = frit.asarray(values(dtype))
        whole, steps = f(frit, x), f(Steps(), x)
        then = frit.copysign(whole, x) if x.dtype.kind == "f" and whole.dtype == x.dtype else whole
        assert whole.dtype == steps.dtype
        assert exact_bits(np.asarray(whole)) == exact_bits(np.asarray(steps)), dtype
        assert exact_bits(np.asarray(then)) == exact_bits(
            np.asarray(frit.copysign(steps, x) if then is not whole else steps)), dtype


@pytest.mark.parametrize("first", ["?", *NUMBERS])
def test_casts_are_exact(first):
    """Every way of two casts, from every dtype over every dtype."""
    x = frit.asarray(values(first))
    for second in ["?", *NUMBERS, "i2", "u2", "u4", "i8"]:
        step = x.astype(second)
        frit.eval(step)
        for third in ["?", *NUMBERS]:
            if np.dtype(first).kind in "fc" and np.dtype(second).kind in "iu":
                continue    # out of range it is undefined already
            if np.dtype(second).kind in "fc" and np.dtype(third).kind in "iu":
                continue
            got = x.astype(second).astype(third) * 1
            want = step.astype(third) * 1
            assert exact_bits(np.asarray(got)) == exact_bits(np.asarray(want)), (first, second, third)


def test_equal_reductions_are_made_once():
    x = np.random.default_rng(0).standard_normal((50, 60)).astype("f4")
    t = frit.asarray(x)
    frit.eval(t)

    def f(xp, x):
        return (x - x.mean(axis=1, keepdims=True)) / xp.sqrt(x.var(axis=1, keepdims=True))

    y = f(frit, t)
    assert frit.explain(y, "graph").count("= sum") == 2     # of x, and of the squares
    assert_same(y, f(np, x))


def test_copies_do_not_see_later_stores():
    def f(xp, x):
        c, d = x.copy(), xp.negative(xp.negative(x))
        x[1:4] = 7
        y = c + d
        x[...] = xp.negative(xp.negative(x))[::-1].copy()
        return y + x, c * 1, d * 1, x
    a = np.arange(8.0)
    t = frit.asarray(a)
    for g, w in zip(f(frit, t), f(np, a)):
        assert_same(g, w)


def test_results_are_arrays_of_their_own():
    a = np.arange(8.0)
    x = frit.asarray(a)
    p, q, e, f = +x, -(-x), frit.exp(x), frit.exp(x)
    frit.eval(p, q, e, f)
    p[0] = 1
    q[1] = 2
    e[2] = 3
    assert_same(x, a)
    assert_same(f, np.asarray(frit.exp(frit.asarray(a))))
    assert float(p[0]) == 1 and float(q[1]) == 2 and float(e[2]) == 3 and float(f[2]) != 3


@pytest.mark.planned
def test_equal_results_stay_one_kernel():
    x = frit.asarray(np.linspace(0, 1, 1000))

    def work():
        frit.eval(frit.exp(x), frit.exp(x) + 1, -(-x), +x)
    assert kernels_of(work) == 1


@pytest.mark.skipif(os.environ.get("FRIT_JIT", "always") != "always", reason="done by the interpreter where nothing else is said")
@pytest.mark.parametrize("skip", ["forward", "split", "fold", "fuse", "outer,forward,split,fold,fuse,once"])
def test_random_programs_without_a_pass(skip):
    """NumPy's bits come out whichever pass is left out, so fused and unfused are the same."""
    code = textwrap.dedent("""
        import os
        from tests.fuzz.programs import draw
        from tests.fuzz.run import compare
        for seed in range(15 if os.environ.get("FRIT_JIT") == "always" else 100):
            wrong = compare(draw(seed).lines)
            assert not wrong, (seed, wrong)
    """)
    env = dict(os.environ, FRIT_SKIP=skip, FRIT_VERIFY="1", FRIT_JIT=os.environ.get("FRIT_JIT", "interpret"), PYTHONPATH=os.pathsep.join([
        ROOT, os.path.dirname(os.path.dirname(frit.__file__)), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    assert done.returncode == 0, done.stdout
