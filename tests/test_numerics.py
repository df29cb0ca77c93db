"""The numerics contract: NumPy's bits, dtypes, shapes and strides."""
import ctypes
import os
import platform
import subprocess
import sys
import warnings

import numpy as np
import pytest

import frit

from .common import ROOT, SLOW, SOAK, assert_same, difference, few, specials, ulp_distance

pytestmark = pytest.mark.core

REAL = ["f2", "f4", "f8"]
INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
COMPLEX = ["c8", "c16"]
ALL = ["?", *INTS, *REAL, *COMPLEX]


@pytest.mark.parametrize("dtype", REAL)
def test_ldexp_by_every_power(dtype):
    """Alone, where one loop does, and beside others that want the long way."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        x = np.array([1, 1.5, 1 + info.eps, 2 - info.eps, info.tiny, info.max, info.smallest_subnormal, info.tiny * 0.75, 0,
                      np.inf, np.nan], dtype)
        x = np.concatenate([x, -x])
        far = [-2**62, -5000, -2200, -1100, -300, 300, 1100, 2200, 5000, 2**62]
        powers = np.array([*far, *range(-1080, -1015), *range(-155, -120), *range(-30, 30), *range(120, 135), *range(1015, 1030)])
        assert_same(frit.ldexp(frit.asarray(np.tile(x, powers.size)), frit.asarray(np.repeat(powers, x.size))),
                    np.ldexp(np.tile(x, powers.size), np.repeat(powers, x.size)))
        for power in powers:
            assert_same(frit.ldexp(frit.asarray(x), power), np.ldexp(x, power), what=power)


# ---- reductions

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 128, 129, 130, 200, 255, 256,
         257, 300, 513, 1000, 1023, 1024, 1025, 2047, 4096, 4097, 8191, 8193, 20_000, 70_001]


def values(rng, shape, dtype, name):
    """Numbers whose sums and products depend on the order in which they are taken."""
    n = int(np.prod(shape))
    d = np.dtype(dtype)
    if d.kind == "b":
        return rng.integers(0, 2, n).astype(bool).reshape(shape)
    if d.kind in "iu":
        i = np.iinfo(d)
        return rng.integers(i.min, i.max, n, dtype=d, endpoint=True).reshape(shape)
    if name == "prod":
        a = 1 + rng.standard_normal(n) * 0.02
    else:
        a = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
        if d.itemsize == 2:
            a = rng.standard_normal(n)
        if rng.random() < 0.1:
            a[rng.integers(0, n)] = rng.choice([np.nan, np.inf, -np.inf, -0.0])
    if d.kind == "c":
        return (a + 1j * rng.standard_normal(n)).astype(d).reshape(shape)
    return a.astype(d).reshape(shape)


def layouts(rng, a):
    """One way to look at `a`, to be applied to the array and to the tensor alike."""
    kind = rng.integers(0, 6)
    if kind == 0 and a.ndim:
        axes = rng.permutation(a.ndim)
        return lambda x: x.transpose(tuple(int(i) for i in axes))
    if kind == 1 and a.ndim:
        steps = [int(rng.choice([1, 2, -1, 3, -2])) for _ in range(a.ndim)]
        key = tuple(slice(None, None, s) for s in steps)
        return lambda x: x[key]
    if kind == 2 and a.ndim:
        axis, k = int(rng.integers(0, a.ndim + 1)), int(rng.integers(1, 4))

        def broadcast(x):
            xp = np if isinstance(x, np.ndarray) else frit
            y = xp.expand_dims(x, axis)
            return xp.broadcast_to(y, y.shape[:axis] + (k,) + y.shape[axis + 1:])
        return broadcast
    if kind == 3 and a.ndim and min(a.shape) > 1:
        key = tuple(slice(1, None) for _ in a.shape)
        return lambda x: x[key]
    return lambda x: x


def random_reduction(seed):
    rng = np.random.default_rng(seed)
    name = str(rng.choice(["sum", "sum", "sum", "prod", "mean", "mean", "var", "std"]))
    # NumPy's complex products depend on where in a vector an element lies.
    dtype = str(rng.choice(["f4", "f8"] if rng.random() < 0.3 else REAL + INTS if name == "prod" else ALL))
    ndim = int(rng.choice([0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4]))
    shape = [int(rng.choice(SIZES)) if i == 0 else int(rng.choice([1, 2, 3, 5, 8, 17, 33, 65, 130]))
             for i in range(ndim)]
    while ndim and np.prod(shape) > 100_000:
        shape[shape.index(max(shape))] //= 3
    if ndim and rng.random() < 0.03:        # threads share only what takes longer than waking them
        shape[0] = int(rng.integers(300_000, 1_500_000)) // max(int(np.prod(shape[1:])), 1)
    rng.shuffle(shape)
    shape = [max(int(s), 1) for s in shape]
    if ndim and rng.random() < 0.03:
        shape[int(rng.integers(0, ndim))] = 0
    a = np.array(values(rng, shape, dtype, name), order=str(rng.choice(["C", "F"]))) \
        if np.prod(shape) else np.empty(shape, dtype)
    look = layouts(rng, a)
    nd = look(a).ndim
    axis = None
    if nd and rng.random() < 0.75:
        axes = tuple(int(i) for i in rng.permutation(nd)[: int(rng.integers(1, nd + 1))])
        axis = axes[0] if len(axes) == 1 else axes
    keepdims = bool(rng.random() < 0.3)
    before, after = int(rng.integers(0, 4)), int(rng.integers(0, 3))
    c = np.dtype(dtype).type(1.25 if dtype in REAL + COMPLEX else 1)

    def program(xp, x):
        x = look(x)
        if before == 1:
            x = x + c
        elif before == 2 and dtype != "?":
            x = x * c - x
            x = x + c
        elif before == 3 and dtype in REAL:
            x = xp.maximum(x, c) * x
        r = getattr(xp, name)(x, axis=axis, keepdims=keepdims)
        if after == 1:
            r = r * c + r if r.dtype.kind in "fc" else r + c
        elif after == 2 and keepdims:
            r = (x - r, r)
        return r

    return program, a, f"{name} {dtype}{tuple(shape)} axis={axis} before={before} after={after}"


def check_reductions(seeds, stop=20):
    """Compares with NumPy's bits what random_reduction makes of `seeds`, with as many threads as the process
    has and with another number of them."""
    wrong = []
    for seed in seeds:
        program, a, what = random_reduction(seed)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = program(np, a)
            got = program(frit, frit.asarray(a))
            with frit.config(num_threads=1 + seed % 4):
                other = program(frit, frit.asarray(a))
                frit.eval(other)
        wants, gots, others = (r if isinstance(r, tuple) else (r,) for r in (want, got, other))
        for w, *mine in zip(wants, gots, others, strict=True):
            for d in filter(None, (difference(g, w) for g in mine)):
                wrong.append(f"seed {seed}: {what}: {d}")
        assert len(wrong) < stop, "\n".join(wrong)
    assert not wrong, "\n".join(wrong)


def test_reductions_are_numpys_bits():
    check_reductions(range(int(os.environ.get("FRIT_REDUCTIONS", 1500))))


@pytest.mark.soak
@pytest.mark.parametrize("n, env", [
    (20_000, {}), (20_000, {"FRIT_JIT": "interpret"}), (3000, {"FRIT_JIT": "always"}),
    (3000, {"FRIT_BACKEND": "ref"}), (5000, {"FRIT_SKIP": "fuse"})], ids=str)
def test_many_reductions_are_numpys_bits(n, env):
    code = f"from tests.test_numerics import check_reductions; check_reductions(range({n}))"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **env}, cwd=ROOT, check=True)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 127, 128, 129, 255, 257, 1000, 4097, 100_003, 1_000_003])
def test_pairwise_sum_at_its_boundaries(n):
    for dtype in REAL:
        a = np.random.default_rng(n).standard_normal(n).astype(dtype)
        t = frit.asarray(a)
        with np.errstate(all="ignore"):
            assert_same(t.sum(), a.sum(), what=dtype)
            assert_same((t * t).sum(), (a * a).sum(), what=dtype)
            assert_same(t[::2].sum(), a[::2].sum(), what=dtype)


@pytest.mark.parametrize("dtype", ["i8", "f2", "c8", *few("u8", "i4", "f4")])
def test_sums_of_conversions_in_chunks(dtype):
    """More than NumPy's buffer has: cut as it cuts, and not handed over; along any one run of reduced axes."""
    rng = np.random.default_rng(11)
    before = sum(frit.stats()["fallbacks"].values())
    wide = "c16" if dtype == "c8" else "f8"
    for n in (8192, 8193, 16384, 20000, 100001):
        for shape, axes in (((n,), None), ((3, n), 1), ((5, 1, n), 2), ((100, n // 100 + 1), None), ((2, 70, n // 70 + 9), (1, 2)),
                            ((2 * n,), 0)):
            a = rng.standard_normal(shape) * 1000
            a = (a * 2**44).astype(dtype) if dtype[1] == "8" and dtype[0] in "iu" else np.abs(a).astype(dtype)
            t = frit.asarray(a)
            if axes == 0:
                a, t = a[::-2], t[::-2]
            with np.errstate(all="ignore"):
                for f in (lambda x: x.sum(axes, dtype=wide), lambda x: x.mean(axes), lambda x: x.mean(axes, keepdims=True),
                          lambda x: x.std(axes), lambda x: (x + x).sum(axes, dtype=wide)):
                    assert_same(f(t), f(a), what=(shape, axes))
    zeros = np.full(10000, -0.0, "f4")
    assert_same(frit.asarray(zeros).sum(dtype="f8"), zeros.sum(dtype="f8"))
    assert sum(frit.stats()["fallbacks"].values()) == before


def test_reductions_do_not_depend_on_threads():
    a = np.random.default_rng(1).standard_normal((700, 900)).astype("f4")
    results = []
    for threads in (1, 2, 3, 7):
        with frit.config(num_threads=threads):
            t = frit.asarray(a)
            e = frit.exp(t)
            r = [t.sum(), e.sum(axis=0), e.sum(axis=1), e.var(), (e / e.sum(axis=1, keepdims=True)).mean(0)]
            results.append([np.asarray(x).tobytes() for x in r])
    assert all(r == results[0] for r in results)


# ---- element by element

UNARY = ["positive", "negative", "absolute", "fabs", "sign", "conjugate", "square", "sqrt", "reciprocal",
         "deg2rad", "rad2deg", "floor", "ceil", "trunc", "rint", "isnan", "isinf", "isfinite", "signbit",
         "logical_not", "invert", "bitwise_count"]
BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum",
          "minimum", "fmax", "fmin", "copysign", "nextafter", "heaviside", "equal", "not_equal", "less",
          "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
          "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]
INEXACT = ["cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
           "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"]
INEXACT_2 = ["arctan2", "hypot", "logaddexp", "logaddexp2", "power"]
# NumPy's complex products and quotients depend on where in a vector an element lies.
COMPLEX_ULP = {"multiply": 4, "divide": 16, "square": 4, "reciprocal": 16, "absolute": 4, "sqrt": 16}


def outcome(f):
    """f()'s result, or the type of what it raised."""
    try:
        with np.errstate(all="ignore"):
            return f(), None
    except Exception as e:
        return None, type(e)


def agree(name, args, what, ulp=0):
    want, refused = outcome(lambda: getattr(np, name)(*args))
    got, mine = outcome(lambda: getattr(frit, name)(
        *(frit.asarray(a) if isinstance(a, np.ndarray) else a for a in args)))
    if refused:
        assert mine is refused, f"{what}: {mine} instead of {refused}"
        return
    assert mine is None, f"{what}: refused with {mine}"
    assert_same(got, want, ulp=ulp, what=what)


@pytest.mark.parametrize("name", UNARY)
def test_unary_bits(name):
    for dtype in ALL[UNARY.index(name) % 2::2] if SLOW else ALL:      # (compiled, of all dtypes: test_jit_parts.py, test_operations.py)
        a = specials(dtype)
        agree(name, [a], f"{name} {dtype}", COMPLEX_ULP.get(name, 0) if dtype in COMPLEX else 0)
        agree(name, [np.resize(a, 1003)], f"{name} {dtype}",
              COMPLEX_ULP.get(name, 0) if dtype in COMPLEX else 0)


@pytest.mark.parametrize("name", BINARY)
def test_binary_bits(name):
    for dtype in ALL:
        s = specials(dtype)
        x, y = (m.ravel() for m in np.meshgrid(s, s))
        ulp = COMPLEX_ULP.get(name, 0) if dtype in COMPLEX else 0
        agree(name, [x, y], f"{name} {dtype}", ulp)
        agree(name, [x, s[-1]], f"{name} {dtype} with a scalar", ulp)
        agree(name, [s[1], y], f"{name} scalar with {dtype}", ulp)


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "floor_divide", "remainder", "maximum",
                                  "less", "bitwise_and", "left_shift", "arctan2", "power"])
def test_result_dtypes_of_all_pairs(name):
    for a in ALL:
        for b in ALL:
            x, y = np.ones(3, a), np.ones(3, b)
            agree(name, [x, y], f"{name}({a}, {b})", ulp=4)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "floor_divide", "power",
                                  "maximum", "greater", "bitwise_or"])
def test_result_dtypes_with_python_numbers(name):
    """NEP 50: a Python number takes the array's dtype; a NumPy scalar keeps its own."""
    numbers = [True, 3, -1, 300, 2 ** 40, 2 ** 63, -2 ** 70, 0.5, 1e300, 2j, np.float32(2), np.float64(2),
               np.int8(3), np.uint64(3), np.float16(2), np.complex64(1)]
    for dtype in ALL:
        for number in numbers:
            x = np.ones(3, dtype)
            agree(name, [x, number], f"{name}({dtype}, {number!r})", ulp=4)
            agree(name, [number, x], f"{name}({number!r}, {dtype})", ulp=4)


def test_casts_of_all_pairs():
    for i, a in enumerate(ALL):
        for b in ALL[i % 3::3] if SLOW else ALL:                      # (compiled, all: test_jit_parts.py)
            x = specials(a)
            if a in REAL + COMPLEX and b in INTS:
                continue        # below, with numbers that fit
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                want = x.astype(b)
            assert_same(frit.asarray(x).astype(b), want, what=f"{a} -> {b}")
    for a in REAL:
        x = np.array([0.0, -0.0, 0.5, 1.5, 2.9, 99.99, 127, 3.999], a)
        for b in INTS:
            assert_same(frit.asarray(x).astype(b), x.astype(b), what=f"{a} -> {b}")
            if b[0] == "i":
                assert_same(frit.asarray(-x).astype(b), (-x).astype(b), what=f"{a} -> {b}")


@pytest.mark.parametrize("dtype", REAL)
def test_inexact_functions_are_close_and_have_the_same_specials(dtype):
    rng = np.random.default_rng(5)
    x = np.concatenate([specials(dtype), rng.standard_normal(2000).astype(dtype),
                        (rng.standard_normal(2000) * 50).astype(dtype), rng.random(500).astype(dtype)])
    y = np.resize(np.roll(x, 7), x.shape)
    limit = {"f2": 1, "f4": 5, "f8": 5}[dtype]
    for name in INEXACT + INEXACT_2:
        args = [x, y] if name in INEXACT_2 else [x]
        with np.errstate(all="ignore"):
            want = getattr(np, name)(*args)
        got = getattr(frit, name)(*(frit.asarray(a) for a in args))
        assert got.dtype == want.dtype
        d = ulp_distance(np.asarray(got), want)
        if name.startswith("logaddexp"):
            # Where the result crosses zero NumPy's has lost its digits: the terms' ULP count.
            with np.errstate(all="ignore"):
                scale = np.maximum(np.abs(x), np.abs(y))
                d = np.where(np.abs(np.asarray(got) - want) <= limit * np.spacing(scale), 0, d)
        at = int(np.argmax(d))
        assert d[at] <= limit, f"{name}({', '.join(repr(a[at]) for a in args)}) = " \
                               f"{np.asarray(got)[at]!r}, NumPy {want[at]!r}"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="knows the flags of x86-64")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", ["exp", "exp2", "sigmoid", "softplus", "power", "logaddexp"])
def test_what_is_masked_costs_no_underflow(name, dtype):
    """A product that underflows takes a hundred cycles on many processors, and of masked logits each vector has some."""
    underflow, libm = 0x10, ctypes.CDLL("libm.so.6")
    x = np.linspace(-20, 20, 999).astype(dtype)
    x[::3], x[1::7], x[2::11], x[3::13] = -np.inf, -1e9, -104.5 if dtype == "f4" and name != "exp2" else -1100, -3e4
    args = (3.0, frit.asarray(x)) if name == "power" else (frit.asarray(x), 0.0)[:1 + (name == "logaddexp")]
    libm.feclearexcept(underflow)
    got = getattr(frit, name)(*args)
    frit.eval(got)
    assert not libm.fetestexcept(underflow)
    assert np.isfinite(np.asarray(got)).all() and (np.asarray(got)[::3] == 0).all()
    libm.feclearexcept(underflow)
    tiny = frit.asarray(np.full(999, np.finfo(dtype).tiny * 1.5, dtype))
    frit.eval(tiny * tiny)
    assert libm.fetestexcept(underflow)     # or nobody would see it


def test_inexact_results_do_not_depend_on_place():
    """One source for SIMD, tail, block and scalar: the same bits wherever an element lies."""
    x = np.random.default_rng(2).standard_normal(67).astype("f4")
    for name in ("exp", "log1p", "sin", "tanh", "cbrt"):
        f = getattr(frit, name)
        whole = np.asarray(f(frit.asarray(x)))
        for i in (0, 1, 15, 16, 33, 66):
            assert_same(f(frit.asarray(x[i:i + 1])), whole[i:i + 1])
            assert_same(f(frit.asarray(x[i:])), whole[i:])


def test_scalar_power_takes_numpys_short_ways():
    for dtype in ("f4", "f8"):
        x = np.abs(specials(dtype))
        for p in (2, 1, 0.5, -1, 2.0, 0):
            with np.errstate(all="ignore"):
                want = x ** p
            assert_same(frit.asarray(x) ** p, want, what=f"{dtype} ** {p}", ulp=1 if p == 0.5 else 0)


# ---- scans, positions, counts

@pytest.mark.parametrize("dtype", ALL)
def test_scans_and_positions(dtype):
    rng = np.random.default_rng(3)
    for shape in [(1,), (7,), (1000,), (30, 40), (3, 4, 5)]:
        a = values(rng, shape, dtype, "sum")
        t = frit.asarray(a)
        with np.errstate(all="ignore"):
            for axis in range(a.ndim):
                assert_same(frit.cumsum(t, axis=axis), np.cumsum(a, axis=axis))
                for name in ("argmax", "argmin", "max", "min", "any", "all", "count_nonzero"):
                    assert_same(getattr(frit, name)(t, axis=axis), getattr(np, name)(a, axis=axis),
                                what=name)
            assert_same(frit.argmax(t), np.argmax(a))


def test_layouts_of_results_are_numpys():
    rng = np.random.default_rng(4)
    for seed in range(300 if not SOAK else 5000):
        r = np.random.default_rng(seed)
        ndim = int(r.integers(1, 5))
        shape = [int(k) for k in r.integers(1, 6, ndim)]
        a = np.array(rng.standard_normal(shape), order=str(r.choice(["C", "F"])))
        b = np.array(rng.standard_normal(shape), order=str(r.choice(["C", "F"])))
        look = layouts(r, a)
        x, y = look(a), look(b)
        t, u = look(frit.asarray(a)), look(frit.asarray(b))
        assert_same(t + 1, x + 1, what=f"seed {seed}")
        assert_same(t + u, x + y, what=f"seed {seed}")
        assert_same(t.T * u.T, x.T * y.T, what=f"seed {seed}")
        assert_same((t + u).sum(axis=0), (x + y).sum(axis=0), what=f"seed {seed}")
        assert_same(frit.exp(t).astype("f4"), np.exp(x).astype("f4"), ulp=5, what=f"seed {seed}")


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_division_of_64_bit_integers(dtype):
    """Every size of both operands, neighbours of multiples, and the ends: quotients are made of doubles."""
    rng = np.random.default_rng(64)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    ends = [low, low + 1, high, high - 1, high // 2, high // 2 + 1, 0, 1, 2, 3, 2**31, 2**32 - 1, 2**32,
            2**51, 2**52 + 1, 2**53 - 1, 2**53, 2**53 + 1, 2**62 + 1]
    ends += [-1, -2, -3, -2**31, -2**53 - 1, -2**62] if dtype == "i8" else [2**63 + 1, 2**64 - 1025]
    ends = np.array([int(e) for e in ends], object).astype(dtype)
    n = 20_000
    a, b = (rng.integers(low, high, n, dtype, endpoint=True) >> rng.integers(0, 64, n).astype(dtype)
            for _ in range(2))
    near = b * rng.integers(0, 2**20, n).astype(dtype) + rng.integers(0, 3, n).astype(dtype) - np.array(1, dtype)
    a = np.concatenate([np.repeat(ends, ends.size), a, near])
    b = np.concatenate([np.tile(ends, ends.size), b, b])
    with np.errstate(all="ignore"):
        for name in ("floor_divide", "remainder", "fmod"):
            want = getattr(np, name)(a, b)
            got = np.asarray(getattr(frit, name)(frit.asarray(a), frit.asarray(b)))
            assert_same(got, want)
        for divisor in (7, 3, 1, 1000, high):
            assert_same(np.asarray(frit.asarray(a) % divisor), a % np.array(divisor, dtype))


@pytest.mark.parametrize("n", [100, 256, 300])
@pytest.mark.parametrize("text", [
    "a.T * 2 + b", "b + a.T * 2", "b - a.T * 2", "a.T * 2 - b", "(b * 3) * (a.T * 2)", "(a.T + 0) / (b + 1)",
    "b / (a.T + 1)", "(a.T * b) * a.T", "(a.T * 1) // (b + 1)", "(a.T * 2) % b", "np.add(a.T * 2, b)", "abs(a.T) + b",
    "(a.T + 1).T + b.T", "(a.T * 2) + b[0]", "(a.T * 2) > b", "(a.T * 2 + b).sum(0)", "(a.T * 2 + b).mean()",
    "(a.T * 1.5).astype('f8') + b", "b + (a.T * 1.5).astype('f8')", "(a.T * 2) + b.astype('f8')"])
def test_large_temporaries_are_computed_into(text, n):
    """NumPy computes an operator into an operand of 256 KB and more that nobody else has, so that the result has its
    layout, and sums of it their order."""
    r = np.random.default_rng(7)
    a, b = (r.standard_normal((n, n)).astype("f4") for _ in range(2))
    large = np.ones((512, 512), "f4")
    if (large.T * 2 + large).flags.c_contiguous:
        pytest.skip("NumPy does not know temporaries here: a sanitizer, or no backtrace()")
    run = eval(f"lambda np, a, b: {text}")
    want = run(np, a, b)
    for got in (np.asarray(run(frit, frit.asarray(a), frit.asarray(b))),
                frit.accelerate(eval(f"lambda a, b: {text}", {"np": np}))(a, b)):
        assert got.strides == want.strides and got.tobytes() == want.tobytes()
