"""Compiled kernels: the bits of the interpreter and of NumPy. Complex numbers in every operation of the
table, with layouts, tails and special values, and signs of NaNs; which executor ran is counted."""
import contextlib
import os
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest

import frit
from benchmarks import dispatch_callgrind
from frit.testing import bits

from .common import ROOT, complex_distance, machine_code, soak, specials
from .fuzz.programs import COMPLEX_INEXACT, INEXACT_1
from .test_jit_parts import LEVELS, needs_compiler

DTYPES = ["c8", "c16"]
SIZES = [*range(1, 68), 127, 128, 129, 136, 200, 1000]
# Within a few ULP of NumPy; the others have its bits. (NumPy's log1p loses digits at |1 + z| = 1, and its
# power of c8 some more: what frit's own are worth is measured by tests/accuracy.py.)
NEAR = {*COMPLEX_INEXACT, *INEXACT_1}
ARITY = {"isnan": 1, "where": 3, "absolute": 1, "conjugate": 1}

pytestmark = needs_compiler


@contextlib.contextmanager
def executor(name):
    """Kernels run compiled ("always") or interpreted ("interpret"), and nothing else does."""
    other = "interpreted" if name == "always" else "jitted"
    with frit.config(jit=name):
        before = frit.stats()
        yield
        after = frit.stats()
        assert after[other] == before[other], f"a kernel was {other}"
        assert after["kernels"] > before["kernels"] and after["failed"] == before["failed"]


def evaluated(f, inputs):
    """The results of f over all inputs as arrays, copied out of frit."""
    out = []
    for args in inputs:
        # Shared, for a copy may have another layout, and the order of a sum follows it.
        r = f(*[frit.asarray(a, copy=False) if isinstance(a, np.ndarray) else a for a in args])
        r = r if isinstance(r, tuple) else (r,)
        frit.eval(*r)
        out.append([np.array(v) for v in r])
    return out


def equal(a, b, what):
    wrong = np.argwhere(bits(a) != bits(b))
    if len(wrong):
        at = tuple(wrong[0][:a.ndim])
        raise AssertionError(f"{what}: {a[at]!r} and {b[at]!r} at {at}, {len(wrong)} of {a.size}")


def check(f, inputs, near=None, ulp=16):
    """f over every tuple of inputs: compiled and interpreted alike, and like NumPy, bit by bit or, where
    near(number of the input) is true, within a few ULP."""
    with frit.config(jit="always"):
        evaluated(f, inputs)    # the first run of a kernel is interpreted
    with executor("always"):
        compiled = evaluated(f, inputs)
    with executor("interpret"):
        interpreted = evaluated(f, inputs)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i, args in enumerate(inputs):
            want = f(*args)
            want = want if isinstance(want, tuple) else (want,)
            what = f"input {i}: {[getattr(a, 'shape', a) for a in args]}"
            for c, t, w in zip(compiled[i], interpreted[i], map(np.asarray, want), strict=True):
                assert c.dtype == t.dtype == w.dtype and c.shape == t.shape == w.shape, what
                equal(c, t, f"compiled and interpreted, {what}")
                if near is None:
                    equal(c, w, f"compiled and NumPy, {what}")
                elif near(i):
                    wide = np.result_type(c.dtype, "c8")
                    assert complex_distance(c.astype(wide), w.astype(wide)).max() <= ulp, what


def numbers(dtype, n, seed, special):
    """n numbers, or n special ones in any order."""
    r = np.random.default_rng([n, seed, special])
    if special:
        return r.choice(specials(dtype), n)
    return (r.standard_normal(n) + 1j * r.standard_normal(n)).astype(dtype)


def steps(v, step):
    """The same numbers `step` elements apart."""
    wide = np.repeat(v, abs(step))
    return wide[::step] if step > 0 else wide[::step][:len(v)]


def arguments(name, dtype, n, special, step):
    args = [steps(numbers(dtype, n, k, special), step) for k in range(ARITY.get(name, 2))]
    if name == "where":
        args[0] = args[0].real > 0
    return tuple(args)


@pytest.mark.parametrize("step", [2, -3])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["multiply", "isnan", "where", "less", "absolute", "conjugate", "divide"])
def test_strided_maps(name, dtype, step):
    inputs = [arguments(name, dtype, n, special, step) for special in (True, False) for n in SIZES]
    near = None if name not in NEAR else lambda i: i >= len(SIZES)
    check(lambda *args: getattr(frit if isinstance(args[-1], frit.Tensor) else np, name)(*args), inputs, near)


MIXED = {
    "real and complex": lambda xp, z, x: (z + x, x - z, xp.where(x > 0, z, x)),
    "half the width": lambda xp, z, x: (z.astype("c8") + x.astype("f2"), z + x.astype("f4"), z.astype("c16")),
    "parts": lambda xp, z, x: (z.real + x, z.imag - z.real, xp.conjugate(z).imag + x),
    "truths": lambda xp, z, x: (xp.isnan(z) | xp.isinf(-z), (z == x) & xp.isfinite(z), z.real < x,
                                xp.logical_or(z, x)),
    "narrow": lambda xp, z, x: (xp.isnan(z).astype("i1"), (z != x).astype("u2") + np.uint16(1), z - x),
    "numbers": lambda xp, z, x: (z + 2.5, 1j - z, xp.maximum(z, 0), x + 1j),
    "chain": lambda xp, z, x: (((z + x) - (z - 1j)) + xp.conjugate(-z),),
}


@pytest.mark.parametrize("dtype", [DTYPES[0], *soak(*DTYPES[1:])])
@pytest.mark.parametrize("case", MIXED)
def test_mixed_with_other_dtypes(case, dtype):
    inputs = []
    for special in True, False:
        for n in SIZES:
            z, x = numbers(dtype, n, 1, special), numbers(dtype, n, 2, special).real.copy()
            inputs.append((z, x))
    check(lambda z, x: MIXED[case](frit if isinstance(z, frit.Tensor) else np, z, x), inputs)


def rows_of(dtype, special, order, n_rows=3):
    """Matrices of every width; C order, transposed, strided, or one row for all."""
    for n in SIZES:
        m = numbers(dtype, n_rows * n, 5, special).reshape(n_rows, n)
        if order == "strided":
            m = np.repeat(m, 2, 1)[:, ::2]
        elif order == "transposed":
            m = np.ascontiguousarray(m.T).T
        elif order == "broadcast":
            m = np.broadcast_to(m[0], (n_rows, n))
        yield m


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", DTYPES)
def test_maps_around_reductions(dtype, axis):
    def f(m):
        xp = frit if isinstance(m, frit.Tensor) else np
        d = m - xp.sum(m + 1j, axis=axis, keepdims=True)
        return d, xp.sum(d - m, axis=axis), xp.isnan(d).any(axis=axis), xp.mean(m, axis=axis)

    check(f, [(m,) for special in (True, False) for m in rows_of(dtype, special, "C")])


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_real_and_complex_sums_of_one_row(dtype, rows):
    """Leaves of both trees: 64 complex numbers and 128 real ones."""
    def f(m):
        xp = frit if isinstance(m, frit.Tensor) else np
        return xp.sum(m, axis=1), xp.sum(m.real + m.imag, axis=1), xp.sum(xp.isfinite(m), axis=1), xp.max(m, axis=1)

    check(f, [(m,) for special in (True, False) for m in rows_of(dtype, special, "C", rows)])


def folds(name, m):
    """Extremes of rows as the left fold gives them: the first NaN, the last of equals."""
    out = []
    for row in m:
        best = row[0]
        for v in row[1:]:
            beyond = v >= best if name == "max" else v <= best
            best = v if best == best and (beyond or v != v) else best
        out.append(best)
    return np.array(out, m.dtype)


@pytest.mark.parametrize("steps", [1, 220])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_whose_bits_depend_on_the_order(dtype, name, steps):
    """NaNs with bits of their own and zeros of both signs, anywhere among other numbers; first and last, alone and several."""
    r = np.random.default_rng(1)
    nans = np.array([np.nan, -np.nan] * 2, dtype)
    nans.view(f"u{nans.itemsize}")[2:] += 5
    inputs = []
    for n in [*range(1, 36), 63, 64, 65, 100, 127, 128, 129, 200, 1000]:
        m = -np.abs(r.standard_normal((12, n))).astype(dtype) - 1
        for row, special in zip(m, ([], nans[:1], nans, [0.0], [-0.0], [0.0, -0.0], [-0.0, 0.0, -0.0], [-np.inf], [np.inf, nans[3]],
                                    [0.0, nans[1]], [-0.0, nans[2], np.inf], nans[::-1])):
            at = np.sort(r.choice(n, min(n, len(special)), replace=False))
            row[at] = special[:len(at)]
        m[11] = np.where(r.random(n) < .5, 0.0, -0.0)
        inputs.append((m if name == "max" else -m,))
    minus_zero = np.array(-0.0, dtype)[()]

    def f(m):
        xp = frit if isinstance(m, frit.Tensor) else np
        y = m
        for _ in range(steps):
            y = y + minus_zero
        best = getattr(xp, name)(y, axis=1, keepdims=True)
        return best[:, 0], xp.sum(m - best, axis=1)

    with frit.config(jit="always"):
        evaluated(f, inputs)
    with executor("always"):
        compiled = evaluated(f, inputs)
    with executor("interpret"):
        interpreted = evaluated(f, inputs)
    for (m,), c, t in zip(inputs, compiled, interpreted):
        equal(c[0], folds(name, m), f"compiled, {m.shape}")
        for k in range(2):
            equal(c[k], t[k], f"compiled and interpreted, {m.shape}")


# Most instructions an element, on registers of 32 bytes; with the place of each extreme it is 2.5 and 4.7, with tails
# instead of a last block that lies over the one before it 5.4; where the vector of
# each number by which it shifts is made in the loop, 4.6.
COSTS = {"(f + f).max()": 1.5, "(d + d).min()": 2.8, "rows[:, 1:] + rows[:, :-1]": 3.5, "bits_set(u)": 4.0}
SETUP = """
import os
import numpy as np
import frit
d = frit.asarray(np.random.default_rng(0).random(30000) - 0.5)
f = d.astype("f4")
rows = frit.asarray(np.ones((1500, 16), "f4"))
u = frit.asarray(np.arange(30000, dtype="u4"))
def bits_set(x):
    x = x - (x >> 1 & 0x55555555)
    x = (x & 0x33333333) + (x >> 2 & 0x33333333)
    return ((x + (x >> 4) & 0x0f0f0f0f) * 0x01010101) >> 24
"""


@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="valgrind runs no sanitizer")
@pytest.mark.skipif(os.environ.get("FRIT_ISA") in ("generic", "v2"), reason="the bounds are for registers of 32 bytes")
def test_instructions_an_element():
    parts = [SETUP]
    for statement in COSTS:
        parts += [f"for _ in range(3): frit.eval({statement}); frit.wait_for_compiles(60)", "before = frit.stats()",
                  "os.getppid()", f"for _ in range(4): frit.eval({statement})", "os.getppid()",
                  "assert frit.stats()['jitted'] == before['jitted'] + 4"]
    counts = dispatch_callgrind.dumps(2 * len(COSTS), "\n".join(parts), jit="always")
    cost = {s: counts[2 * i + 1] / 4 / 30000 for i, s in enumerate(COSTS)}
    assert all(cost[s] <= COSTS[s] for s in COSTS), cost


def assembly(tmp_path, setup, expression, **settings):
    """The one kernel that evaluates the expression, as objdump shows it."""
    kernels = machine_code(tmp_path, setup, expression, **settings)
    kernel, = [k for k in (code.partition(b"\x7fELF") for code in kernels) if k[1]]
    code = tmp_path / "code"
    code.write_bytes(kernel[1] + kernel[2])
    return subprocess.run(["objdump", "-d", str(code)], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.skipif(not shutil.which("objdump") or "v4" not in LEVELS, reason="needs objdump and AVX-512")
def test_what_is_used_twice_is_loaded_once(tmp_path):
    """Each load of a vector as long as a cache line is two where the array does not begin with a line."""
    setup = "a, b = (frit.asarray(np.arange(5000.) + k) for k in (1, 2))"
    text = assembly(tmp_path, setup, "(a - b) / (a + b)", FRIT_ISA="v4")
    wide = re.findall(r"v(?:add|sub)pd .*zmm.*", text)
    assert wide and not [line for line in wide if "(" in line]


@pytest.mark.skipif(not shutil.which("objdump") or "v4" not in LEVELS, reason="needs objdump and AVX-512")
def test_operations_that_wait_for_each_other_stand_beside_others(tmp_path):
    """A multiplication of each of several blocks, then the next of each; what limits nothing stays short."""
    setup = "x, y = (frit.asarray(np.arange(5000.) + k) for k in (1, 2))"
    texts = []
    for name, expression in (("several", "((((x * 0.9 + y) * 0.8 - y) * 0.7 + y) * 0.6 - y) * 0.5 + y"), ("one", "x * 0.9 + y")):
        folder = tmp_path / name
        folder.mkdir()
        texts.append(assembly(folder, setup, expression, FRIT_ISA="v4"))
    several, one = (len(re.findall(r"vmulpd .*zmm", text)) for text in texts)
    assert several >= 5 * 4 and one <= 2


@pytest.mark.skipif(not shutil.which("objdump") or "v3" not in LEVELS, reason="needs objdump and AVX2")
@pytest.mark.parametrize("level", [level for level in ("v3", "v4") if level in LEVELS])
@pytest.mark.parametrize("expression, n", [
    ("((x * y + x) * y - x) * y", 5), ("(x * x + x).astype('f4').sum()", 2), ("np.where(x > y, x * y, x + y)", 3),
    ("np.maximum(x * y + 0.5, 0)", 3), ("-(x * y) + abs(x - y)", 3), ("np.clip(x * y, -1, 1) * x", 2), ("(x * y + 1).max()", 2), ("(x * y).sum()", 1),
    ("(x.reshape(50, 100) * y.reshape(50, 100) + 1).sum(0)", 3)])
def test_halves_are_rounded_by_the_processor(tmp_path, level, expression, n):
    """Also in the midst of a loop. The other way has the least and the greatest exponent of a half."""
    setup = "x, y = (frit.asarray((np.arange(5000) % 7 + k).astype('f2')) for k in (1, 2))"
    text = assembly(tmp_path, setup, expression, FRIT_ISA=level)
    assert len(re.findall("vcvtps2ph", text)) >= n and len(re.findall(r"vp(?:min|max)sd .*[yz]mm", text)) < 2


@pytest.mark.skipif(not shutil.which("objdump") or "v3" not in LEVELS, reason="needs objdump and AVX2")
@pytest.mark.parametrize("dtype, wide", [("u1", "vpmovzxbd"), ("i1", "vpmovsxbd"), ("u2", "vpmovzxwd"), ("i2", "vpmovsxwd")])
@pytest.mark.parametrize("expression", ["((a.astype('i4') * 3 + b) >> 2).astype(a.dtype)", "(a * x).sum()", "a * 0.5 + b * x"])
def test_small_integers_are_read_as_wide_ones(tmp_path, dtype, wide, expression):
    """Not by whole vectors that are taken apart, step by step."""
    setup = f"a, b, x = (frit.asarray(np.arange(5000).astype(t)) for t in ('{dtype}', '{dtype}', 'f4'))"
    text = assembly(tmp_path, setup, expression, FRIT_ISA="v3")
    converted = set(re.findall(r"\b(?:vpmov[sz]x|vpunpck)\w+", text))
    assert converted == {wide}


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "f8", "c8"])
def test_last_block_of_short_rows(dtype):
    """It lies over the one before it, of what is stored over in place as well."""
    def f(m):
        xp = frit if isinstance(m, frit.Tensor) else np
        first, second = xp.array(m), xp.array(m)
        first[:, 1:-1] *= m[:, 2:]
        first[:, 1:-1] += first[:, 1:-1]
        second[:, 1:] = second[:, 1:] + m[:, :-1] * m[:, 1:]
        return first, second, m[:, 2:] + m[:, :-2] * m[:, 1:-1]

    r = np.random.default_rng(1)
    inputs = [((r.random((9, n)) * 5).astype(dtype),) for n in [*range(4, 70), 99, 131]]
    with executor("always"):
        compiled = evaluated(f, inputs)
    for (m,), c in zip(inputs, compiled):
        for got, want in zip(c, f(m)):
            equal(got, want, f"{m.shape}")


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", *soak("u1", "i2")])
def test_small_integers_in_all_widths(dtype):
    """Converted from what they are as wide ones, where nothing else is done with them, and from themselves."""
    def f(a, b, x):
        xp = frit if isinstance(a, frit.Tensor) else np
        wide = [a.astype(t) * xp.asarray(3).astype(t) + b.astype(t) for t in ("i4", "u4", "i8", "u8", "f4", "f8", "c8")]
        narrow = (wide[0] >> 1).astype(dtype), a + b, (a.astype("i2") + b).astype("i1"), a.astype("f2") + b
        return *wide, *narrow, (a * x).sum(), a.sum(), (a.astype("i4") > 100).any(), xp.where(a > b, a.astype("f4"), x)

    r = np.random.default_rng(2)
    inputs = [(r.integers(0, 256, n).astype(dtype), r.integers(0, 256, n).astype(dtype), r.random(n, "f4"))
              for n in [*range(1, 40), 63, 64, 65, 127, 129, 200, 1000]]
    with executor("always"):
        compiled = evaluated(f, inputs)
    for arrays, c in zip(inputs, compiled):
        for k, (got, want) in enumerate(zip(c, f(*arrays))):
            equal(got, want, f"result {k} of {arrays[0].shape}")


SIGNS = {
    "sum with a negative": lambda xp, x, y: (-x + y, y + -x, -x - y, x - -y),
    "product of negatives": lambda xp, x, y: (-x * -y, -x * y, -(x * y)),
    "quotient of negatives": lambda xp, x, y: (-x / -y, -x / y, -(x / y)),
    "square of a magnitude": lambda xp, x, y: (abs(x) * abs(x), abs(x) * y, abs(x) / abs(x)),
    "negative difference": lambda xp, x, y: (-(x - y), -(x + y), xp.sqrt(abs(x))),
    "steps": lambda xp, x, y: (-(-x + y) * -y, xp.copysign(y, -x - -y)),
}


@pytest.mark.parametrize("dtype", ["f2", "f4", *soak("f8")])
@pytest.mark.parametrize("case", SIGNS)
def test_sign_of_a_nan(case, dtype):
    """Of operations with one NaN among the operands."""
    nans = np.array([np.nan, -np.nan, 1.0, -2.0, 0.0, -0.0] * 7, dtype)
    others = np.array([1.0, 2.0, -3.0, 4.0, -5.0, 6.0] * 7, dtype)

    def f(x, y):
        xp = frit if isinstance(x, frit.Tensor) else np
        return tuple(xp.signbit(v) for v in SIGNS[case](xp, x, y))

    check(f, [(a[:n], b[:n]) for a, b in ((nans, others), (others, nans)) for n in (1, 7, 16, 42)])


@pytest.mark.parametrize("dtype", DTYPES)
def test_sign_of_a_nan_in_a_complex_number(dtype):
    """What is done to a part's sign before its magnitude is taken."""
    part = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, -np.nan])
    z = np.array([complex(re, im) for re in part for im in part if re == re or im == im], dtype)

    def f(xp, z):
        return [xp.signbit(xp.absolute(v)) for v in (-z, xp.conjugate(z))]

    def steps(z):
        # Forced one by one, so that no kernel has more than one operation.
        out = []
        for v in (-z, frit.conjugate(z)):
            frit.eval(v)
            size = frit.absolute(v)
            frit.eval(size)
            out.append(np.asarray(frit.signbit(size)))
        return out

    for name in "interpret", "always", "always":
        with frit.config(jit=name):
            whole = [np.asarray(v) for v in f(frit, frit.asarray(z))]
            for got, want in zip(whole, steps(frit.asarray(z))):
                assert got.tolist() == want.tolist(), name


@pytest.mark.parametrize("dtype", ["f4", "i1", "c16", *soak("f2", "f8", "i4", "u8", "c8", "?")])
def test_rows_that_are_accumulated_together(dtype):
    """Some at a time where rows are whole blocks, and the rest one by one: the same bits as the interpreter's."""
    rng = np.random.default_rng(2)
    for n_rows, n in (1, 64), (7, 128), (8, 64), (9, 64), (23, 192), (16, 100), (5, 16), (3, 20000), (19, 8256):
        a, b = (rng.standard_normal((2, n_rows, n)) * 20 * (1 + 1j if dtype[0] == "c" else 1)).astype(dtype, casting="unsafe")
        row = a[0].copy()
        for f in (lambda a, b, r: (a * b).sum(0), lambda a, b, r: (a * b - a).max(0) if dtype not in "?" else (a & b).max(0),
                  lambda a, b, r: ((a == r).sum(0), (a * a).sum(0)), lambda a, b, r: (a * b).prod(0), lambda a, b, r: (a != r).any(0),
                  lambda a, b, r: (a.reshape(1, *a.shape) * r).sum(1), lambda a, b, r: (a[:, ::2] * b[:, ::2]).sum(0)):
            got = []
            for jit in "always", "interpret":
                with frit.config(jit=jit), np.errstate(all="ignore"):
                    out = f(frit.asarray(a), frit.asarray(b), frit.asarray(row))
                    got.append([np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))])
            for x, y in zip(*got, strict=True):
                assert x.dtype == y.dtype and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4"])
def test_sums_into_narrow_integers_are_compiled(dtype):
    """What they take is as narrow, not NumPy's int64."""
    x = np.arange(-300, 300).reshape(12, 50)

    def f(x):
        y = x > 7
        return y.sum(axis=1, dtype=dtype), (x * 3).sum(axis=0, dtype=dtype), y.prod(axis=1, dtype=dtype), x.sum(dtype=dtype)

    with executor("always"):
        got = evaluated(f, [(x,)])[0]
    for a, b in zip(got, f(x)):
        assert a.dtype == b.dtype and (a == b).all()
