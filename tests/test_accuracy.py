"""Transcendental functions: at most 1 ULP from the truth, C99's special values, the same bits at
every ISA level."""

import math
import os
import pathlib
import subprocess
import sys
import textwrap
from fractions import Fraction

import numpy as np
import pytest

from . import accuracy
from .common import soak

pytest.importorskip("gmpy2")

INF, NAN = math.inf, math.nan
PI = math.pi


@pytest.fixture(scope="module")
def evaluate():
    return accuracy.evaluator()


@pytest.fixture(scope="module")
def truth():
    return accuracy.Truth()


@pytest.mark.parametrize("dtype", list(accuracy.DTYPES))
@pytest.mark.parametrize("name", accuracy.FUNCTIONS)
def test_error(name, dtype, evaluate, truth):
    result = accuracy.measure(name, accuracy.DTYPES[dtype], 150_000, evaluate, truth)
    assert result.max_ulp <= 1.0, f"{name}({result.at}) = {result.got}"


# fmt: off
# (arguments ..., result) as C99 annex F has them.
SPECIAL = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (-INF, 0.0), (INF, INF), (1e5, INF), (-1e5, 0.0)],
    "exp2": [(0.0, 1.0), (-0.0, 1.0), (-INF, 0.0), (INF, INF), (10.0, 1024.0), (-1.0, 0.5),
        (1e5, INF), (-1e5, 0.0)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1.0), (INF, INF), (1e5, INF), (-1e5, -1.0)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN),
        (8.0, 3.0), (0.25, -2.0)],
    "log10": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN),
        (1000.0, 3.0), (1e10, 10.0)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "arcsin": [(0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.5, NAN), (-INF, NAN),
        (INF, NAN)],
    "arccos": [(1.0, 0.0), (-1.0, PI), (0.0, PI / 2), (1.5, NAN), (-INF, NAN), (INF, NAN)],
    "arctan": [(0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (1.0, PI / 4),
        (-1.0, -PI / 4)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1e5, INF), (-1e5, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (1e5, INF), (-1e5, INF)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (1e5, 1.0), (-1e5, -1.0)],
    "arcsinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "arccosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-2.0, NAN), (-INF, NAN)],
    "arctanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN),
        (INF, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (27.0, 3.0), (-8.0, -2.0),
        (0.125, 0.5)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0)],
    "erfc": [(0.0, 1.0), (-0.0, 1.0), (INF, 0.0), (-INF, 2.0), (30.0, 0.0), (-30.0, 2.0)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (1e5, 1.0), (-1e5, 0.0)],
    "softplus": [(INF, INF), (-INF, 0.0), (1e5, 1e5), (-1e5, 0.0)],
}
SPECIAL2 = {
    "arctan2": [(0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, -0.0, PI), (-0.0, -0.0, -PI),
        (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, -1.0, PI), (-0.0, -1.0, -PI), (1.0, 0.0, PI / 2),
        (1.0, -0.0, PI / 2), (-1.0, 0.0, -PI / 2), (1.0, INF, 0.0), (-1.0, INF, -0.0),
        (1.0, -INF, PI), (-1.0, -INF, -PI), (INF, 1.0, PI / 2), (-INF, 1.0, -PI / 2),
        (INF, INF, PI / 4), (-INF, INF, -PI / 4), (INF, -INF, 3 * PI / 4),
        (-INF, -INF, -3 * PI / 4), (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, INF, NAN),
        (INF, NAN, NAN)],
    "hypot": [(0.0, 0.0, 0.0), (-0.0, 0.0, 0.0), (3.0, 4.0, 5.0), (-3.0, 4.0, 5.0),
        (INF, NAN, INF), (NAN, -INF, INF), (INF, 1.0, INF), (NAN, 1.0, NAN), (1.0, NAN, NAN),
        (0.0, -2.5, 2.5)],
    "power": [(0.0, 3.0, 0.0), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (0.0, -3.0, INF),
        (-0.0, -3.0, -INF), (-0.0, -2.0, INF), (0.0, 0.5, 0.0), (-0.0, 0.5, 0.0),
        (-0.0, -0.5, INF), (-1.0, INF, 1.0), (-1.0, -INF, 1.0), (1.0, NAN, 1.0), (1.0, INF, 1.0),
        (NAN, 0.0, 1.0), (NAN, -0.0, 1.0), (INF, 0.0, 1.0), (-2.0, 0.5, NAN), (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0), (-2.0, -1.0, -0.5), (0.5, INF, 0.0), (0.5, -INF, INF), (2.0, INF, INF),
        (2.0, -INF, 0.0), (-2.0, INF, INF), (-0.5, INF, 0.0), (INF, 2.0, INF), (INF, -2.0, 0.0),
        (-INF, 3.0, -INF), (-INF, 2.0, INF), (-INF, -3.0, -0.0), (-INF, -2.0, 0.0),
        (-INF, 0.5, INF), (NAN, 1.0, NAN), (2.0, NAN, NAN), (10.0, 3.0, 1000.0), (3.0, 4.0, 81.0),
        (1.5, 2.0, 2.25), (2.0, 1e6, INF), (2.0, -1e6, 0.0), (-2.0, 1000001.0, -INF),
        (0.0, INF, 0.0), (0.0, -INF, INF), (INF, INF, INF), (INF, -INF, 0.0),
        (2.0, -149.0, 2.0**-149), (-1.0, 7.0, -1.0), (-1.0, 0.5, NAN)],
    "logaddexp": [(INF, INF, INF), (-INF, -INF, -INF), (INF, -INF, INF), (-INF, 3.0, 3.0),
        (3.0, -INF, 3.0), (NAN, 1.0, NAN), (1.0, NAN, NAN), (0.0, 0.0, math.log(2)),
        (INF, 1.0, INF)],
    "logaddexp2": [(INF, INF, INF), (-INF, -INF, -INF), (INF, -INF, INF), (-INF, 3.0, 3.0),
        (3.0, -INF, 3.0), (NAN, 1.0, NAN), (1.0, NAN, NAN), (0.0, 0.0, 1.0), (5.0, 5.0, 6.0)],
}
# fmt: on
# Results that are no floats themselves may be off by one.
ROUNDED = [
    t(v) for t in (np.float32, np.float64) for v in (PI / 4, PI / 2, 3 * PI / 4, PI, math.log(2))
]
CASES = [(name, row) for name, rows in SPECIAL.items() for row in rows + [(NAN, NAN)]]
CASES += [(name, row) for name, rows in SPECIAL2.items() for row in rows]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*SPECIAL, *SPECIAL2])
def test_specials(name, dtype, evaluate):
    rows = [row for n, row in CASES if n == name]
    columns = [np.array(c).astype(dtype) for c in zip(*rows)]
    got = evaluate(name, *columns[:-1])
    for k, want in enumerate(columns[-1]):
        if np.isnan(want):
            same = np.isnan(got[k])
        else:
            same = got[k] == want and np.signbit(got[k]) == np.signbit(want)
            if abs(want) in ROUNDED:
                same = abs(got[k] - want) <= abs(np.spacing(want))
        assert same, f"{name}{tuple(c[k] for c in columns[:-1])} = {got[k]}, not {want}"


def test_specials_in_every_lane(evaluate):
    """A special value is the same in the SIMD part of a loop and in its tail."""
    for dtype in (np.float32, np.float64):
        for name, rows in SPECIAL.items():
            x = rows[-1][0]
            want = evaluate(name, np.full(1, x, dtype))[0]
            for n in (1, 7, 8, 9, 16, 17, 33):
                for at in {0, n // 2, n - 1}:
                    xs = np.full(n, 0.75, dtype)
                    xs[at] = x
                    got = evaluate(name, xs)
                    plain = evaluate(name, np.full(1, 0.75, dtype))[0]
                    keep = np.arange(n) != at
                    assert np.array_equal(got[keep], np.full(n - 1, plain), equal_nan=True), (
                        name,
                        n,
                        at,
                    )
                    assert np.array_equal(got[at], want, equal_nan=True), (name, n, at, got[at])


def test_overflow_boundaries(evaluate):
    """The last argument with a finite (nonzero) result, and the first without."""
    for dtype in (np.float32, np.float64):
        info = np.finfo(dtype)
        for name, inverse in (
            ("exp", accuracy.mpfr_value("log", [info.max])),
            ("exp2", dtype(info.maxexp)),
        ):
            x = np.array([inverse], dtype=dtype)
            around = np.array([x[0], np.nextafter(x[0], dtype(0)), np.nextafter(x[0], dtype(INF))])
            got = evaluate(name, around)
            for a, g in zip(around, got):
                assert accuracy.mpfr_ulps(name, [a], dtype(g)) <= 1, (name, a, g)
        small = -103.2 if dtype == np.float32 else -744.5
        got = evaluate("exp", np.array([small, small - 2], dtype))
        assert got[0] > 0 and got[1] == 0


def test_exact_powers(evaluate):
    """Small integer powers that are representable come out exactly."""
    for dtype, digits in ((np.float32, 24), (np.float64, 53)):
        pairs = [
            (x, n) for x in range(-60, 61) for n in range(0, 40) if x and abs(x) ** n < 2**digits
        ]
        x, n = (np.array(c, dtype=dtype) for c in zip(*pairs))
        want = np.array([float(a**b) for a, b in pairs]).astype(dtype)
        assert np.array_equal(evaluate("power", x, n), want)
        k = np.arange(-20, 21)
        assert np.array_equal(evaluate("cbrt", (k**3).astype(dtype)), k.astype(dtype))
        assert np.array_equal(
            evaluate("log2", np.ldexp(dtype(1), k).astype(dtype)), k.astype(dtype)
        )
        assert np.array_equal(
            evaluate("exp2", k.astype(dtype)), np.ldexp(dtype(1), k).astype(dtype)
        )


def test_hard_reductions(evaluate):
    """Arguments next to multiples of pi / 2, of every size."""
    x64 = np.array(
        [
            6381956970095103 * 2.0**797,
            1e22,
            1.7976931348623157e308,
            5.319372648326541e255,
            2.0**1023,
            1e300,
            22.0,
            355.0,
            103993.0,
            245850922.0,
            3.0626416547e16,
        ]
    )
    x32 = np.array(
        [
            5.6414932e13,
            6.7738807e13,
            6.4191885e13,
            1.5950553e23,
            3.4028235e38,
            16367173.0 * 2.0**72,
            22.0,
            355.0,
            103993.0,
        ],
        np.float32,
    )
    for name in ("sin", "cos", "tan"):
        for x in (x64, -x64, x32, -x32):
            got = evaluate(name, x)
            for a, g in zip(x, got):
                assert accuracy.mpfr_ulps(name, [a], g) <= 1, (name, a, g)


def test_same_bits_at_every_level():
    flags = (
        pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
    )
    levels = (
        ["v2"]
        + ["v3"] * (" avx2 " in flags and " fma " in flags)
        + ["v4"] * (" avx512dq " in flags)
    )
    loops = [accuracy.Loops(level) for level in levels]
    for name in accuracy.FUNCTIONS:
        for dtype in (np.float32, np.float64):
            xs = accuracy.samples(name, dtype, 4000, seed=5)
            first = loops[0](name, *xs)
            for other in loops[1:]:
                got = other(name, *xs)
                # The sign and payload of a NaN are nobody's promise.
                same = (got.view(f"u{got.itemsize}") == first.view(f"u{got.itemsize}")) | (
                    np.isnan(got) & np.isnan(first)
                )
                assert same.all(), (name, dtype, [x[~same][0] for x in xs])


# What a function leaves out where hardly any element wants it (RARE).
RARE = {"log": -1.0, "log2": 0.0, "log10": 1e-310, "log1p": -2.0, "sin": 1e30, "cos": 1e30, "tan": 1e30, "cbrt": 1e-310,
        "arcsinh": 1e300, "arctanh": 2.0, "hypot": 1e-300, "arctan2": 0.0, "power": -1.5}


@pytest.mark.core
@pytest.mark.skipif(os.environ.get("FRIT_JIT") == "always", reason="block kernels")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", accuracy.FUNCTIONS)
def test_bits_of_an_element_are_its_own(name, dtype):
    """Kernels take pieces of rows, several elements at once, and rare ones apart: wherever an element stands, and whatever
    stands beside it, it has the same bits."""
    import frit

    rng = np.random.default_rng(31)
    f, n_args = getattr(frit, name), 2 if name in accuracy.BINARY else 1
    rows = [rng.uniform(0.05, 0.95, 1400).astype(dtype) for _ in range(n_args)]
    if name == "arccosh":
        rows[0] += 1
    rows[0][[3, 130, 701, 702, 1337]] = np.array(RARE.get(name, np.nan)).astype(dtype)
    rows[0][1100:1300:7] = np.inf

    def bits(*args):
        out = f(*[frit.asarray(a) for a in args])
        frit.eval(out)
        return np.asarray(out).view(f"u{out.itemsize}")

    alone = np.concatenate([bits(*[r[i : i + 1] for r in rows]) for i in range(1400)])
    starts, lengths = (0, 1, 20), (2, 15, 16, 31, 63, 64, 65, 100, 128, 129, 511, 512, 513, 640, 1024, 1090, 1379)
    with frit.config(eager_elems=1 << 20):
        for start in starts:
            for n in lengths:
                part = slice(start, start + n)
                assert (bits(*[r[part] for r in rows]) == alone[part]).all(), (start, n)
        in_place = frit.asarray(rows[0]) * 1  # nobody else reads it, so that the result takes its memory
        out = f(in_place, *map(frit.asarray, rows[1:]))
        del in_place
        frit.eval(out)
        assert (np.asarray(out).view(f"u{out.itemsize}") == alone).all()


@pytest.mark.parametrize("jit", ["interpret", *soak("always")])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [3, 4])
def test_whole_powers(n, dtype, jit):
    """x ** 3 and x ** 4 have recipes of their own: nearly the nearest number, and C99's specials."""
    name = {3: "cube", 4: "fourth"}[n]
    code = f"""
        import sys
        import numpy as np
        import frit
        x = np.frombuffer(sys.stdin.buffer.read(), {dtype!r})
        sys.stdout.buffer.write(np.asarray(frit.asarray(x) ** {n}).tobytes())
        assert frit.explain(frit.asarray(x) ** {n}, "graph").count({name!r}) == 1
    """
    rng = np.random.default_rng(n)
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        x = np.concatenate([accuracy.edges(np.dtype(dtype).type), rng.uniform(-4, 4, 4000), rng.standard_normal(4000),
                            np.exp2(rng.uniform(info.minexp / n - 9, info.maxexp / n + 1, 4000))]).astype(dtype)
        env = {**os.environ, "FRIT_JIT": jit, "FRIT_CACHE": "0"}
        got = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], input=x.tobytes(), env=env, check=True,
                             stdout=subprocess.PIPE).stdout
        got = np.frombuffer(got, dtype)
        special = np.power(x, n)
    assert np.array_equal(np.isnan(got), np.isnan(x))
    assert np.array_equal(np.signbit(got)[~np.isnan(x)], (np.signbit(x) & (n == 3))[~np.isnan(x)])
    worst = {True: 0, False: 0}
    for a, r, s in zip(x.tolist(), got.tolist(), special.tolist()):
        if not math.isfinite(a) or not math.isfinite(s):
            assert math.isnan(a) or r == s, (a, r, s)
            continue
        truth = Fraction(a) ** n
        unit = Fraction(np.spacing(np.dtype(dtype).type(abs(s))).item())
        small = abs(s) < float(info.smallest_normal) / float(info.eps)
        worst[small] = max(worst[small], abs(Fraction(r) - truth) / unit)
    assert worst[False] <= 0.5001 and worst[True] <= 1, worst
