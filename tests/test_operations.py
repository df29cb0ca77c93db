"""Every row of the operation table, without a word about each: all executors give the same bits, and NumPy's.

A row is sampled where its `domain` column says, at every pair of special numbers, and at random bits. What is computed
of approximated functions is near NumPy's (tests/accuracy.py measures it); everything else has its bits. A row that NumPy
has no function for states the truth in TRUTHS."""
import contextlib
import math
import warnings

import numpy as np
import pytest

import frit
from frit import _core

from .common import SOAK
from .test_jit_parts import needs_compiler
from .test_recipes import DTYPES, random_values, same_bits, show, special_values

WAYS = {"reference": {"backend": "ref", "jit": "interpret"}, "interpreter": {"jit": "interpret"}, "node by node": {"jit": "interpret", "eager_elems": 1 << 17},
        "machine code": {"jit": "always"}}
COUNTS = {"reference": "ref", "interpreter": "interpreted", "node by node": "eager", "machine code": "jitted"}
HERE = ["node by node", "reference", "interpreter"]   # in this order: once there is a plan, that is what runs

sigmoid = np.vectorize(lambda x: 1 / (1 + math.exp(-x)) if x > -700 else math.exp(x), "d")
TRUTHS = {"erf": np.vectorize(math.erf, "d"), "erfc": np.vectorize(math.erfc, "d"), "sigmoid": sigmoid,
          "softplus": lambda x: np.logaddexp(0, x.astype("f8"))}
# NumPy's functions of these are approximated, too, or it multiplies with fma or without, as its build has it.
NEAR_OF_COMPLEX = {"absolute", "sign", "sqrt", "prod", "cumprod"}
# Of zeros of both signs NumPy takes either, depending on the place in the array.
EITHER_ZERO = {"fmax", "fmin", "maximum", "minimum", "clip"}
TOLERANCE = {"f16": 2e-3, "f32": 1e-6, "f64": 4e-15, "c64": 4e-6, "c128": 1e-14}
TOGETHER = 6    # rows in one kernel
SIZES = [None, 3, 19]
COMPILED = DTYPES if SOAK else ["bool", "i32", "f16", "f64", "c64", "c128"]


def rows(*classes):
    return [r for r in _core.op_table() if r["class"] in classes and not r["inner"]]


# ---- where they are sampled


def inside(domain, dtype, n, rng):
    """n numbers of the domain."""
    d = np.dtype(dtype)
    if d.kind in "iu" and domain == "small":
        return rng.integers(0, 8 * d.itemsize, n).astype(d)
    if d.kind in "biu":
        v = random_values(d, n, rng)
        return v if domain == "any" else np.where(v > 0, v, d.type(1))
    v, size = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 3, n), np.exp(rng.standard_normal(n) * 3)
    v = {"pos": size, "nonneg": size - size.min(), "ge1": 1 + size, "gtm1": size - 1 + 1e-3, "unit": rng.uniform(-1, 1, n),
         "small": rng.integers(-20, 20, n)}.get(domain, v)
    return (v + 1j * rng.standard_normal(n) if d.kind == "c" else v).astype(d)


def argument_dtypes(row, dtype):
    types = [DTYPES[dtype]] * row["arity"]
    if row["rule"] == "select":
        types[0] = np.bool_
    if row["rule"] == "ldexp":
        types[1] = np.int64
    return [np.uint64] * 2 if row["rule"] == "random" else types


def samples(row, dtype):
    types, rng = argument_dtypes(row, dtype), np.random.default_rng(7)
    drawn = [[inside(row["domain"], d, 300, rng)] for d in types]
    if row["domain"] == "any" or np.dtype(types[0]).kind not in "iu":
        special = [special_values(d) for d in types]
        if math.prod(s.size for s in special) > 5000:
            special = [rng.choice(s, min(s.size, 40 if len(types) == 2 else 12), replace=False) for s in special]
        for v, s, d in zip(drawn, np.meshgrid(*special, indexing="ij"), types):
            v += [s.ravel(), random_values(d, 300, rng)]
    return [np.concatenate(v) for v in drawn]


# ---- what comes out


@contextlib.contextmanager
def running(way):
    """Everything is computed in one way."""
    with frit.config(**{"backend": "cpu", "eager_elems": 0, **WAYS[way]}):
        before = frit.stats()[COUNTS[way]]
        yield
        assert frit.stats()[COUNTS[way]] > before, f"nothing was computed: {way}"


def computed(way, calls):
    """The results of calls, some of them in one kernel."""
    out = []
    with running(way):
        for i in range(0, len(calls), TOGETHER):
            for _ in range(1 + (way == "machine code")):    # the first run of a kernel is interpreted
                results = frit.eval(*[call() for call in calls[i:i + TOGETHER]])
            out += [np.array(r) for r in (results if isinstance(results, tuple) else (results,))]
    return out


def parts(a):
    return [a.real, a.imag] if a.dtype.kind == "c" else [a]


def near(got, want, tolerance):
    """The same NaNs and infinities part by part, and finite numbers close in relation to their size
    (complex: to the larger part) or to the smallest normal number. The sign of one part of a complex
    number beside a NaN is nobody's business."""
    g, w = [np.array([x.astype("f8") for x in parts(a)]) for a in (got, want)]
    blur = np.isnan(w).any(0)
    g, w = [np.where(blur, np.abs(x), x) for x in (g, w)]
    size = np.maximum(np.abs(w).max(0), float(np.finfo(got.dtype).smallest_normal))
    finite = np.isfinite(g) & np.isfinite(w)
    return np.where(finite, np.abs(g - w) <= tolerance * np.where(np.isfinite(size), size, 1),
                    (g == w) | (np.isnan(g) & np.isnan(w))).all(0)


def meaningful(name, args):
    """Where NumPy's own function is right, and an angle has not lost its meaning."""
    keep, z = np.ones(args[0].shape, bool), args[0]
    if z.dtype.kind != "c":
        return keep
    if name == "expm1":
        keep &= np.isfinite(z)
    if name == "power":
        keep &= np.isfinite(args[0]) & np.isfinite(args[1]) & (np.abs(args[1]) < 20)
    if name == "log1p":     # the real number is far from the range where one rounding of it turns the angle
        keep &= ~(np.abs(z) < 0.1)
    for a in args:
        keep &= ~(np.isfinite(a) & ((np.abs(a) > 50) | ((np.abs(a) < 1e-3) & (a != 0))))
    return keep


def is_near(row, dtype):
    kind = np.dtype(DTYPES[dtype]).kind
    return kind in "fc" and (row["costly"] or (kind == "c" and row["name"] in NEAR_OF_COMPLEX))


def alike(row, dtype, args, got, want):
    """Where a result is the truth."""
    name = row["name"]
    if not is_near(row, dtype):
        ok = same_bits(got, want)
        return ok | ((got == 0) & (want == 0)) if name in EITHER_ZERO or row["picks"] else ok
    ok = near(got, want, TOLERANCE[dtype] * (30 if name in ("power", "exp2") and dtype[0] == "c" else 1))
    if name in ("logaddexp", "logaddexp2"):     # where the result crosses zero, its terms are the measure
        term = np.maximum(np.abs(args[0]), np.abs(args[1])).astype("f8")
        ok |= np.abs(got.astype("f8") - want) <= 4 * np.finfo(got.dtype).eps * np.maximum(term, 1)
    return ok | ~meaningful(name, args)


def truth(row, dtype, args):
    """NumPy's result, or what TRUTHS says; None for random numbers, of which test_recipes.py knows it."""
    name = row["name"]
    if row["rule"] == "random":
        return None
    if name in TRUTHS:
        return TRUTHS[name](*args).astype(DTYPES[dtype])
    return np.ascontiguousarray(getattr(np, name)(*args))


def has(row, dtype):
    return np.dtype(DTYPES[dtype]).kind in row["kinds"] and (row["rule"] != "random" or dtype in ("u64", "f32", "f64"))


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def check_maps(dtype, ways, names=None):
    table = [r for r in rows("map") if has(r, dtype) and (names is None or r["name"] in names)]
    args = [samples(r, dtype) for r in table]
    keyword = [{"dtype": DTYPES[dtype]} if r["rule"] == "random" else {} for r in table]
    with quiet():
        results = {}
        for n in SIZES:
            tensors = [[frit.asarray(x[:n]) for x in a] for a in args]
            calls = [lambda f=getattr(_core, r["name"]), a=a, k=k: f(*a, **k) for r, a, k in zip(table, tensors, keyword)]
            results.update({(way, n): computed(way, calls) for way in ways})
        for i, row in enumerate(table):
            first, want = results[ways[0], None][i], truth(row, dtype, args[i])
            for (way, n), got in results.items():
                ok = same_bits(got[i], first[:n])
                assert ok.all(), f"{way}, not {ways[0]}: " + show(row["name"], dtype, got[i], first, ok, args[i])
            if want is not None:
                ok = alike(row, dtype, args[i], first, want)
                assert ok.all(), show(row["name"], dtype, first, want, ok, args[i])


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
def test_maps(dtype):
    check_maps(dtype, HERE)


@needs_compiler
@pytest.mark.parametrize("dtype", COMPILED)
def test_maps_in_machine_code(dtype):
    every = [r["name"] for r in rows("map") if has(r, dtype)]
    # (A third of them; all by make soak, and some of each dtype in test_jit_parts.py.)
    check_maps(dtype, ["interpreter", "machine code"], every if SOAK else every[COMPILED.index(dtype) % 3::3])


# ---- reductions and scans


def numpys(row):
    """NumPy's function, or the ufunc's method that joins elements as the row does."""
    if hasattr(np, row["name"]):
        return getattr(np, row["name"])
    ufunc = getattr(np, row["combine"])
    if row["class"] == "reduce":
        return ufunc.reduce
    return lambda x, axis: ufunc.accumulate(x.ravel() if axis is None else x, axis=axis or 0)


VIEWS = [lambda v: v, lambda v: v[:, ::2], lambda v: v.T, lambda v: v[::-1, 1:]]


def check_reductions(dtype, ways, views=VIEWS, names=None):
    rng = np.random.default_rng(8)
    table = [r for r in rows("reduce", "scan") if has(r, dtype) and (names is None or r["name"] in names)]
    x = inside("any", DTYPES[dtype], 7 * 40, rng).reshape(7, 40)
    x[5:, ::3] = rng.choice(special_values(x.dtype), x[5:, ::3].shape)
    cases = [(r, view(x), view(frit.asarray(x)), axis) for view in views for axis in (None, 0, 1) for r in table]
    calls = [lambda f=getattr(_core, r["name"]), t=t, axis=axis: f(t, axis=axis) for r, _, t, axis in cases]
    with quiet():
        results = {way: computed(way, calls) for way in ways}
        for i, (row, v, _, axis) in enumerate(cases):
            want = np.asarray(numpys(row)(v, axis=axis))
            for way in ways:
                got, what = results[way][i], f"{row['name']} of {dtype} along {axis}, {way}, view {v.strides}"
                assert got.dtype == want.dtype and got.shape == want.shape, what
                assert alike(row, dtype, [got], got, want).all(), f"{what}: {got} instead of {want}"


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    check_reductions(dtype, HERE)


@needs_compiler
@pytest.mark.parametrize("dtype", COMPILED)
def test_reductions_in_machine_code(dtype):
    check_reductions(dtype, ["machine code"], VIEWS if SOAK else VIEWS[:1])
