"""The launcher and the block interpreter against NumPy and against the reference executor, in every shape.

The C files are built here into a library of their own (tests/c/test_launch.c); with FRIT_TEST_LAUNCH_LIB that library
is taken instead."""

import itertools
import os
import platform
import subprocess

import numpy as np
import pytest

from .common import APART, MICRO_CODE, REFERENCE, SOAK, block_kernels, in_csrc, objects
from .launch_nests import CODES, DTYPES, Bound, Launcher, Nest, evaluate

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LEVEL, MARCH = ("v3", ["-march=x86-64-v3"]) if platform.machine() == "x86_64" else ("generic", [])
CPU = ("program", "pairs", "describe", "interp", "interp_long", "space", "shape", "stream", "long_rows", "short_rows", "tiles",
       "cost", "duel", "launch", "reduce", "reduce_rows", "copy", "pool")


def link(out, *how):
    made = block_kernels(LEVEL, *APART, *MARCH)
    made += objects(in_csrc("backends/cpu/reduce.inc.c", "backends/cpu/shuffle.inc.c"), *APART, f"-DFR_LEVEL={LEVEL}", *MARCH)
    made += objects(in_csrc("backends/hooks.c", "backends/expect.c", "jit/emit_text.c", "jit/work.c", *MICRO_CODE, *REFERENCE, *(f"backends/cpu/{f}.c" for f in CPU)),
                    *APART)
    made += objects([os.path.join(ROOT, "tests/c/test_launch.c")], *APART, f"-DTEST_LEVEL={LEVEL}", *how)
    subprocess.run([os.environ.get("CC", "cc"), *how, "-o", out, *made, "-lm", "-lpthread"], check=True)


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    path = os.environ.get("FRIT_TEST_LAUNCH_LIB")
    if not path:
        path = str(tmp_path_factory.mktemp("launch") / "liblaunch.so")
        link(path, "-shared")
    return Launcher(path)


# ---- memory in all layouts


def place(rng, shape, dtype, layout):
    """An uninitialised array of `shape` whose last two axes (rows, inner) lie as `layout` says."""
    d = np.dtype(DTYPES[dtype])
    lead, (rows, inner) = shape[:-2], shape[-2:]
    if layout == "plain":
        return np.zeros(shape, d)
    if layout == "padded":
        return np.zeros((*lead, rows, inner + 3), d)[..., :inner]
    if layout == "step":
        return np.zeros((*lead, rows, 2 * inner), d)[..., ::2]
    if layout == "back":
        return np.zeros(shape, d)[..., ::-1]
    if layout == "column":
        return np.zeros((*lead, inner, rows), d).swapaxes(-1, -2)
    if layout == "rows_back":
        return np.zeros(shape, d)[..., ::-1, :]
    raise AssertionError(layout)


class Memory:
    """The elements that an array really has, writable also where it is broadcast."""

    def __init__(self, a):
        self.keep = a
        self.__array_interface__ = {
            "data": (a.__array_interface__["data"][0], False), "typestr": a.dtype.str, "version": 3,
            "shape": tuple(1 if s == 0 else n for n, s in zip(a.shape, a.strides)), "strides": a.strides}


def memory(a):
    return np.asarray(Memory(a))


def values(rng, shape, dtype):
    d = np.dtype(DTYPES[dtype])
    if d.kind == "b":
        return rng.random(shape) < 0.5
    if d.kind in "iu":
        return rng.integers(-20 if d.kind == "i" else 0, 20, shape).astype(d)
    x = rng.standard_normal(shape)
    if d.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(d)


UNIT = ["plain", "padded", "rows_back", "same_row"]
STRIDED = ["step", "back", "column", "same_element"]


def operand(rng, shape, spec):
    """(array, logical values) for one operand that is read or stored."""
    dtype, access, flags = spec
    if access == "zero":
        full = place(rng, (*shape[:-1], 1), dtype, rng.choice(["plain", "padded", "column"]))[..., 0]
        if not flags and rng.random() < 0.2:
            full = np.broadcast_to(full[..., :1], full.shape) if shape[-2] else full
    else:
        layout = str(rng.choice(UNIT if access == "unit" else STRIDED))
        if layout.startswith("same") and (flags or 0 in shape):
            layout = "plain" if access == "unit" else "step"
        if layout == "same_row":
            full = np.broadcast_to(place(rng, (*shape[:-2], 1, shape[-1]), dtype, "plain"), shape)
        elif layout == "same_element":
            full = np.broadcast_to(place(rng, (*shape[:-1], 1), dtype, "padded"), shape)
        else:
            full = place(rng, shape, dtype, layout)
    if full.size:
        base = memory(full)
        base[...] = values(rng, base.shape, dtype)
    return full


def same(a, b):
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    bits = f"u{a.dtype.itemsize if a.dtype.kind == 'f' else a.dtype.itemsize // 2}"
    real = a.dtype if a.dtype.kind == "f" else a.real.dtype
    x, y = a.reshape(-1).view(real), b.reshape(-1).view(real)
    return bool(np.all((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))))


@np.errstate(all="ignore")
def accumulated(op, v, kept, identity):
    """v's axes that are not kept are combined in order, outermost first."""
    nd = v.ndim
    seq = [k for k in range(nd) if not kept[k]]
    keep = [k for k in range(nd) if kept[k]]
    t = np.ascontiguousarray(v.transpose(seq + keep)).reshape(
        [int(np.prod([v.shape[k] for k in seq], dtype=int))] + [v.shape[k] for k in keep])
    acc = np.full(t.shape[1:], identity, t.dtype)
    for x in t:
        acc = op(acc, x).astype(t.dtype)
    return acc


COMBINE = {"sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, None), "min": (np.minimum, None)}


def identity(op, dtype):
    d = np.dtype(DTYPES[dtype])
    if op in ("sum", "prod"):
        return COMBINE[op][1]
    low, high = (-np.inf, np.inf) if d.kind in "fc" else (np.iinfo(d).min, np.iinfo(d).max)
    return low if op == "max" else high


class Case:
    """One nest over random memory: what is expected of it, and a way to run it again."""

    def __init__(self, rng, nest, shape, reduced=(), in_place=None):
        self.nest, self.shape = nest, shape
        reduced_by = reduced if isinstance(reduced, dict) else {}
        self.stores = {v.operand: v for v in nest.values if v.kind in ("store", "accum")}
        self.scalars = [values(rng, (), d) for d in nest.scalars]
        self.arrays, logical = [], []
        for k, spec in enumerate(nest.operands):
            v = next(v for v in nest.values if v.operand == k and v.kind != "scalar")
            if v.kind == "iota":
                strides = [int(x) for x in rng.integers(-5, 100, len(shape))]
                if v.level == 1:
                    strides[-1] = 0
                start = int(rng.integers(-1000, 1000))
                self.arrays.append((start, strides))
                index = np.indices(shape if v.level == 2 else shape[:-1], np.int64)
                logical.append(start + sum(s * g for s, g in zip(strides, index)))
            elif v.kind == "accum" or "stream" in spec[2]:
                reduced = reduced_by.get(k, reduced)
                dims = [n if k not in reduced else 1 for k, n in enumerate(shape[:-1] if v.level == 1 else shape)]
                layout = "plain" if spec[1] != "strided" else "step"
                a = place(rng, tuple(dims), spec[0], layout) if len(dims) > 1 else np.zeros(dims, DTYPES[spec[0]])
                a[...] = 7
                full = shape[:-1] if v.level == 1 else shape
                self.arrays.append(np.broadcast_to(a, full))
                logical.append(None)
            else:
                alone = " written" if in_place and k in in_place.values() else spec[2]
                a = operand(rng, shape, (spec[0], spec[1], alone))
                if "written" in spec[2]:
                    a[...] = 7
                self.arrays.append(a)
                logical.append(np.array(a))
        if in_place:
            for out, inp in in_place.items():
                self.arrays[out] = self.arrays[inp]
        self.initial = [a if isinstance(a, tuple) else np.array(a) for a in self.arrays]
        self.want = {}
        for k, w in evaluate(nest, shape, logical, self.scalars).items():
            v = self.stores[k]
            if v.kind == "accum" or "stream" in nest.operands[k][2]:
                reduced = reduced_by.get(k, reduced)
                op = v.op or "sum"
                if op in COMBINE:
                    kept = [d not in reduced for d in range(w.ndim)]
                    w = accumulated(COMBINE[op][0], w, kept, identity(op, v.dtype))
                else:
                    w = getattr(np, op)(w.astype(bool), axis=tuple(d for d in reduced if d < w.ndim))
                w = np.broadcast_to(w.reshape([1 if d in reduced else n for d, n in enumerate(
                    shape[:-1] if v.level == 1 else shape)]), shape[:-1] if v.level == 1 else shape)
            self.want[k] = np.array(w)

    def reset(self):
        for a, i in zip(self.arrays, self.initial):
            if not isinstance(a, tuple) and a.size:
                base = memory(a)
                base[...] = i[tuple(slice(n) for n in base.shape)]

    def bound(self):
        return Bound(self.nest, self.shape, self.arrays, self.scalars)

    def check(self, why):
        # Which zero NumPy takes for the greatest of -0.0 and 0.0 depends on the machine.
        any_zero = any(v.op in ("max", "min") for v in self.nest.values)
        for k, w in self.want.items():
            got = np.array(self.arrays[k])
            first = self.__dict__.setdefault("first", {}).setdefault(k, got)
            assert same(got, first), (why, "differs from the first way", self.shape, f"operand {k}", self.nest.text())
            if any_zero and w.dtype.kind in "fc":
                got, w = got + 0, w + 0
            assert same(got, w), (why, self.shape, f"operand {k}", self.nest.text())


WAYS = [("interpreted", 0, 1), ("reference", 1, 1), ("two threads", 0, 2), ("as code", 2, 2)]


def run_all(launcher, case, ways=WAYS):
    k = launcher.new(case.nest)
    for why, how, threads in ways:
        case.reset()
        launcher.run(k, [case.bound()], how, threads)
        case.check(why)
    launcher.free(k)


# ---- nests


def random_nest(rng, reduces):
    """Float and integer arithmetic that NumPy computes with the same bits, one to four stages."""
    n = Nest()
    f, i = [], []
    access = lambda: str(rng.choice(["unit", "unit", "strided"]))  # noqa: E731
    kind = str(rng.choice(["f32", "f64"]))
    for _ in range(rng.integers(1, 4)):
        f.append(n.load(kind, access=access()))
    if rng.random() < 0.4:
        f.append(n.load(kind, "ROW"))
    if rng.random() < 0.4:
        f.append(n.scalar(kind))
    if rng.random() < 0.3:
        i.append(n.load(str(rng.choice(["i32", "i8", "i64"])), access=access()))
    if rng.random() < 0.2:
        i.append(n.iota(str(rng.choice(["FULL", "ROW"]))))
    for v in i:
        f.append(n.cast(v, kind) if v.dtype == "i64" or kind == "f64" else n.cast(n.cast(v, "i16"), kind))
    pick = lambda: f[int(rng.integers(len(f)))]  # noqa: E731
    for _ in range(rng.integers(1, 9)):
        what = rng.integers(10)
        a, b = pick(), pick()
        if what < 4:
            f.append(n.op(str(rng.choice(["add", "subtract", "multiply", "divide"])), a, b))
        elif what == 4:
            f.append(n.op("sqrt", n.op("absolute", a)))
        elif what == 5:
            f.append(n.op("where", n.op("less", a, b), b, pick()))
        elif what == 6:
            other = "f32" if kind == "f64" else "f64"
            f.append(n.cast(n.op("negative", n.cast(a, other)), kind))
        elif reduces and what < 9:
            full = [v for v in f if v.level == 2]
            f.append(n.reduce(str(rng.choice(["sum", "sum", "max", "min"])), full[int(rng.integers(len(full)))]))
    stored = {v for v in f[-3:] if v.kind == "op" or v.kind == "reduce"} or {n.op("negative", f[0])}
    for v in sorted(stored, key=f.index if all(v in f for v in stored) else id):
        if v.level == 0 or (v.level == 1 and rng.random() < 0.3):
            n.store(v, "FULL", access())
        else:
            n.store(v, None, access())
    return n


def random_shape(rng, big):
    if big:
        return [(1, 4096), (2, 4097), (3, 8192), (1, 8193), (2, 9000), (1, 20001), (5, 2049), (700, 13), (2, 3, 5000),
                (3000, 1), (2, 1, 16500), (1, 70000)][int(rng.integers(12))]
    lead = [()] * 3 + [(2,), (3, 2), (0,)]
    return (*lead[int(rng.integers(6))], int(rng.integers(0, 6)), int(rng.integers(0, 68)))


@pytest.mark.parametrize("reduces", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_random_small(launcher, reduces, seed):
    rng = np.random.default_rng([seed, reduces])
    for _ in range(30 if SOAK else 15):
        nest = random_nest(rng, reduces)
        shape = random_shape(rng, False)
        if any(v.op in ("max", "min") for v in nest.values) and shape[-1] == 0:
            continue
        run_all(launcher, Case(rng, nest, shape))


@pytest.mark.parametrize("reduces", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_big(launcher, reduces, seed):
    rng = np.random.default_rng([100 + seed, reduces])
    for _ in range(8):
        run_all(launcher, Case(rng, random_nest(rng, reduces), random_shape(rng, True)))


def softmax(kind="f32", rowbuf=False):
    """Softmax with 1 / (1 + x * x) for exp: NumPy has the same bits."""
    n = Nest(rowbuf)
    x = n.load(kind)
    one = n.scalar(kind)
    d = n.op("subtract", x, n.reduce("max", x))
    e = n.op("divide", one, n.op("add", one, n.op("multiply", d, d)))
    n.store(n.op("divide", e, n.reduce("sum", e)))
    return n


@pytest.mark.parametrize("rowbuf", [False, True])
def test_softmax_every_length(launcher, rowbuf):
    rng = np.random.default_rng(1)
    for inner in [*range(1, 68), 127, 128, 129, 511, 512, 513, 1023, 1025, 2048, 2049, 4097, 8191, 8192]:
        run_all(launcher, Case(rng, softmax("f32", rowbuf), (3, inner)))
    if not rowbuf:
        for inner in (8193, 16384, 16385, 40000, 43648, 43649, 65536, 65537, 100000):
            run_all(launcher, Case(rng, softmax(), (2, inner)))


def test_softmax_in_place(launcher):
    rng = np.random.default_rng(2)
    for shape in [(3, 5), (40, 67), (2, 3000), (2, 8192)]:
        run_all(launcher, Case(rng, softmax(rowbuf=True), shape, in_place={1: 0}))


def test_store_over_a_load_that_is_used_again(launcher):
    rng = np.random.default_rng(3)
    for shape in [(1, 10), (4, 67), (1, 9000), (300, 3)]:
        n = Nest()
        x, y = n.load("f64"), n.load("f64")
        a = n.op("add", x, y)
        n.store(a)
        n.store(n.op("multiply", a, x))
        n.store(n.op("subtract", y, x))
        run_all(launcher, Case(rng, n, shape, in_place={2: 0}))
        run_all(launcher, Case(rng, n, shape, in_place={2: 1, 3: 0}))


def test_one_value_to_several_places(launcher):
    rng = np.random.default_rng(4)
    n = Nest()
    x = n.load("f32", access="strided")
    s = n.op("square", x)
    n.store(s)
    n.store(s, access="strided")
    n.store(x)
    n.store(s)
    for shape in [(1, 1), (5, 64), (3, 5000), (7, 3, 4)]:
        run_all(launcher, Case(rng, n, shape))


INNER = ["add", "subtract", "multiply", "divide", "square"]
OUTER = ["add", "subtract", "multiply", "divide", "square", "sqrt"]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("outer", OUTER)
def test_pairs(launcher, kind, inner, outer):
    """An operation and the only reader of its result are one step, whichever operands are single elements."""
    rng = np.random.default_rng(6)
    n_inner, n_outer = 1 + (inner != "square"), 1 + (outer not in ("square", "sqrt"))
    for levels in itertools.product(["FULL", "ROW", "SCALAR"], repeat=n_inner + n_outer - 1):
        if "FULL" not in levels[:n_inner]:
            continue
        for at in range(n_outer):
            n = Nest()
            args = [n.scalar(kind) if level == "SCALAR" else n.load(kind, level) for level in levels]
            outer_args = [n.op(inner, *args[:n_inner]), *args[n_inner:]]
            n.store(n.op(outer, *(outer_args[::-1] if at else outer_args)))
            k = launcher.new(n)
            assert launcher.lib.test_operations(k) == 1, (levels, at)
            launcher.free(k)
            for shape in [(1, 70), (9, 13), (2, 4100)]:
                run_all(launcher, Case(rng, n, shape))


def test_maps_of_what_lies_side_by_side_have_small_tiles(launcher):
    """So small that loads of the next one begin while this one is computed; but one operation does not stop."""
    def widest(n_ops, *shapes, every=1):
        n = Nest()
        x, y = n.load("f64", access="unit" if every == 1 else "strided"), n.load("f64")
        for _ in range(n_ops):
            x = n.op("maximum", x, y)
        n.store(x)
        k = launcher.new(n)
        arrays = [np.ones(s)[:, :4096] for s in shapes]
        arrays[0] = np.repeat(arrays[0], every, 1)[:, ::every] if every > 1 else arrays[0]
        got = launcher.lib.test_widest(k, Bound(n, (20, 4096), arrays).c)
        launcher.free(k)
        return got

    flat, gaps = (20, 4096), (20, 4100)
    few, many = widest(2, flat, flat, flat), widest(9, flat, flat, flat)
    assert 128 <= many <= few <= 7168 // 24
    assert widest(1, flat, flat, flat) > 1000
    assert widest(2, flat, gaps, flat) == widest(2, flat, flat, gaps) <= 2 * 7168 // 24
    assert widest(2, flat, flat, flat, every=2) > 500       # what is gathered first


def test_pairs_leave_what_others_read(launcher):
    """A result with two readers is made once, and what is read after a store over it is read before."""
    rng = np.random.default_rng(7)
    for stored in (False, True):
        n = Nest()
        x, y = n.load("f32"), n.load("f32")
        product = n.op("multiply", x, y)
        if stored:
            n.store(n.op("negative", x))
        n.store(n.op("add", product, x))
        n.store(n.op("sqrt", product) if not stored else x)
        k = launcher.new(n)
        assert launcher.lib.test_operations(k) == 3
        launcher.free(k)
        for shape in [(1, 70), (9, 13), (2, 4100)]:
            run_all(launcher, Case(rng, n, shape, in_place={2: 0}))


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("how", ["product", "square", "by a row", "by one", "read twice", "max"])
def test_products_are_summed_as_they_are_made(launcher, kind, how):
    """Of two factors of all elements that nobody else wants; in rows of all lengths, and where another is summed, too."""
    rng = np.random.default_rng(8)
    n = Nest()
    x = n.load(kind)
    y = n.scalar(kind) if how == "by one" else n.load(kind, "ROW" if how == "by a row" else "FULL")
    product = n.op("square", x) if how == "square" else n.op("multiply", x, y)
    n.store(n.reduce("max" if how == "max" else "sum", product))
    if how == "read twice":
        n.store(n.reduce("max", product))
    n.store(n.reduce("sum", y if how == "product" else x))
    k = launcher.new(n)
    assert launcher.lib.test_operations(k) == (how not in ("product", "square"))
    launcher.free(k)
    for shape in [(1, 0), (1, 1), (9, 1), (300, 7), (9, 13), (40, 63), (40, 64), (3, 200), (1, 1000), (2, 4100), (1, 70000)]:
        if how != "max" and how != "read twice" or shape[1]:
            run_all(launcher, Case(rng, n, shape))


def test_row_values_once_per_row(launcher):
    """r += 1 for each row, while the row itself is long enough to run in pieces."""
    rng = np.random.default_rng(5)
    n = Nest()
    r = n.load("f32", "ROW")
    one = n.scalar("f32")
    n.store(n.op("add", r, one))
    n.store(n.op("multiply", n.load("f32"), r))
    for shape in [(3, 20000), (5, 9), (2, 4100)]:
        run_all(launcher, Case(rng, n, shape, in_place={1: 0}))


@pytest.mark.parametrize("dtype", ["bool", "i8", "u16", "i64", "f16", "f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
def test_reductions(launcher, dtype, op):
    if dtype == "bool" and op in ("sum", "prod"):
        pytest.skip("the loop form converts it first")
    rng = np.random.default_rng(6)
    wide = {"i": "i64", "u": "u64"}.get(DTYPES[dtype][0]) if op in ("sum", "prod") else None
    for shape in [(3, 0), (4, 1), (300, 3), (5, 67), (3, 129), (2, 1000), (2, 8192), (2, 9001), (1, 70000), (1, 300000)]:
        if shape[1] == 0 and op not in ("sum", "prod", "any", "all"):
            continue
        n = Nest()
        x = n.load(dtype)
        v = n.reduce(op, n.cast(x, wide) if wide and wide != dtype else x)
        n.store(v)
        case = Case(rng, n, shape)
        if op == "prod" and DTYPES[dtype][0] in "fc":
            # NumPy's product of complex numbers begins with 1 * x, which is x for finite numbers.
            x = memory(case.arrays[0])
            x[...] = 1 + x / np.asarray(100, x.real.dtype)
            case = again(case)
        run_all(launcher, case)


def again(case):
    """The same case after its inputs were changed."""
    for k, a in enumerate(case.arrays):
        case.initial[k] = a if isinstance(a, tuple) else np.array(a)
    logical = list(case.arrays)
    case.want = {k: np.array(w) for k, w in evaluate(case.nest, case.shape, logical, case.scalars).items()}
    return case


def test_sums_of_real_and_complex_numbers_in_one_stage(launcher):
    rng = np.random.default_rng(7)
    n = Nest()
    z, x = n.load("c64"), n.load("f32")
    a, b = n.reduce("sum", z), n.reduce("sum", x)
    n.store(a)
    n.store(b)
    n.store(n.op("multiply", x, b))
    n.store(n.op("negative", z))
    for shape in [(2, 100), (1, 9000), (3, 20000), (1, 200000)]:
        run_all(launcher, Case(rng, n, shape))


def test_argmax_of_specials(launcher):
    n = Nest()
    x = n.load("f32")
    n.store(n.reduce("argmax", x))
    n.store(n.reduce("argmin", x))
    k = launcher.new(n)
    for size in (7, 64, 5000, 20000, 500000):
        for at in (0, 1, size // 2, size - 1):
            for special in (np.nan, np.inf, -np.inf):
                x = np.zeros((1, size), "f4")
                x[0, at:] = special
                out, low = np.full((1,), -1), np.full((1,), -1)
                for how, threads in ((0, 1), (0, 2), (1, 1)):
                    launcher.run(k, [Bound(n, x.shape, [x, out, low])], how, threads)
                    assert out[0] == x.argmax() and low[0] == x.argmin()
    launcher.free(k)


def test_operands_along_the_columns(launcher):
    """Tiles of several rows and a part of each: row values, rows that are all the same, accumulators."""
    rng = np.random.default_rng(15)
    for reduces in (False, True):
        for shape in [(100, 300), (33, 65), (2, 40), (40, 2000), (3, 70, 129)]:
            n = Nest()
            x, row, bias = n.load("f64", access="strided"), n.load("f64", "ROW"), n.load("f64")
            v = n.op("add", n.op("multiply", x, row), bias)
            if reduces:
                v = n.op("subtract", v, n.reduce("sum", v))
            n.store(v)
            n.accum("sum", v)
            n.store(n.op("square", row))
            case = Case(rng, n, shape, {len(shape) - 2})
            case.arrays[0] = np.zeros((*shape[:-2], shape[-1], shape[-2])).swapaxes(-1, -2)
            case.arrays[2] = np.broadcast_to(values(rng, (*shape[:-2], 1, shape[-1]), "f64"), shape)
            case.arrays[0][...] = case.initial[0]
            case.initial[2] = np.array(case.arrays[2])
            want = evaluate(n, shape, case.initial, [])
            case.want = {3: np.array(want[3]), 5: np.array(want[5])}
            kept = [d != len(shape) - 2 for d in range(len(shape))]
            total = accumulated(np.add, want[4], kept, 0).reshape([1 if not k else d for k, d in zip(kept, shape)])
            case.want[4] = np.broadcast_to(total, shape)
            run_all(launcher, case)


# ---- accumulators


@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "f16", "c64", "c128"])
def test_accum(launcher, op, dtype):
    if dtype[0] == "c" and op in ("max", "min"):
        pytest.skip("NumPy has no identity to begin with")
    rng = np.random.default_rng(8)
    for shape, reduced in [((5, 7), {0}), ((0, 7), {0}), ((300, 1), {0}), ((3, 20000), {0}), ((9, 5000), {0}),
                           ((4, 5, 6), {1}), ((4, 5, 6), {0, 1}), ((3, 2, 5, 66), {0, 2}), ((2, 3, 4, 5), {1, 2}),
                           ((40, 3000), {0}), ((0, 3, 5), {0, 1}), ((2, 70, 900), {1})]:
        n = Nest()
        x, y = n.load(dtype), n.load(dtype, access="strided")
        v = n.op("add", x, y)
        n.accum(op, n.cast(v, "bool") if op in ("any", "all") else v, access=str(rng.choice(["unit", "strided"])))
        n.store(v)
        run_all(launcher, Case(rng, n, shape, reduced))


def test_accumulators_of_different_axes(launcher):
    rng = np.random.default_rng(9)
    n = Nest()
    x = n.load("f32")
    n.accum("sum", x)
    n.accum("max", n.op("square", x))
    n.store(n.reduce("sum", x))
    for shape in [(2, 30, 66), (4, 1000, 40), (1, 5, 9000)]:
        run_all(launcher, Case(rng, n, shape, {1}))
    for shape in [(2, 3, 30, 66), (4, 2, 100, 40), (1, 5, 2, 9000)]:
        run_all(launcher, Case(rng, n, shape, {1: {2}, 2: {0, 2}}))
        run_all(launcher, Case(rng, n, shape, {1: {1, 2}, 2: {0, 2}}))


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_streams(launcher, dtype):
    """A row stage, then sums over the rows of what it makes: layer norm backward."""
    rng = np.random.default_rng(10)
    for shape, reduced in [((5, 7), {0}), ((1, 1), {0}), ((0, 3), {0}), ((300, 33), {0}), ((1000, 700), {0}),
                           ((3, 40, 65), {1}), ((3, 40, 65), {0, 1}), ((70, 9000), {0}), ((2, 3, 9, 5), {0, 2}),
                           ((4000, 3), {0})]:
        n = Nest()
        x, g = n.load(dtype), n.load(dtype)
        s = n.reduce("sum", n.op("multiply", x, g))
        d = n.op("subtract", x, s)
        n.store(d)
        n.store(n.op("multiply", d, g), stream=True, access=str(rng.choice(["unit", "strided"])))
        n.store(s, stream=True)
        run_all(launcher, Case(rng, n, shape, reduced))


def test_streams_in_turn(launcher):
    """Blocks of rows are shared out and added in the order of the rows: the same bits by any number of threads."""
    rng = np.random.default_rng(16)
    n = Nest()
    x = n.load("f32")
    s = n.reduce("sum", x)
    d = n.op("subtract", x, s)
    n.store(d)
    n.store(n.op("multiply", d, x), stream=True, access="strided")
    n.store(s, stream=True)
    for shape, blocks in [((1000, 700), {2: 8, 3: 12, 7: 28}), ((20000, 300), {2: 46, 3: 46, 16: 64}),
                          ((40, 9000), {2: 8, 3: 10})]:
        case = Case(rng, n, shape, {0})
        run_all(launcher, case, [(f"{t} threads", how, t) for t in (1, *blocks) for how in (0, 2)])
        for threads, want in blocks.items():
            assert tasks(launcher, n, shape, threads, case.arrays) == want, (shape, threads)


# ---- many instances, threads, cuts


def test_many_instances(launcher):
    rng = np.random.default_rng(11)
    n = Nest()
    p, g, m = n.load("f32"), n.load("f32"), n.load("f32")
    lr, beta = n.scalar("f32"), n.scalar("f32")
    m2 = n.op("add", n.op("multiply", m, beta), g)
    n.store(m2)
    n.store(n.op("subtract", p, n.op("multiply", lr, m2)))
    k = launcher.new(n)
    shapes = [(1, int(s)) for s in rng.integers(0, 300, 900)] + [(1, 200000), (64, 1000), (1, 70001), (3, 5, 7)]
    rng.shuffle(shapes)
    cases = [Case(rng, n, tuple(int(d) for d in s), in_place={3: 2, 4: 0}) for s in shapes]
    for why, how, threads in WAYS:
        for c in cases:
            c.reset()
        launcher.run(k, [c.bound() for c in cases], how, threads)
        for c in cases:
            c.check(why)
    launcher.free(k)


def test_many_instances_that_reduce(launcher):
    rng = np.random.default_rng(12)
    nest = softmax()
    k = launcher.new(nest)
    cases = [Case(rng, nest, s) for s in [(3, 5), (1, 100000), (500, 30), (0, 5), (2, 20000), (1, 1)]]
    for why, how, threads in WAYS:
        for c in cases:
            c.reset()
        launcher.run(k, [c.bound() for c in cases], how, threads)
        for c in cases:
            c.check(why)
    launcher.free(k)


def test_threads_and_cuts_do_not_change_bits(launcher):
    """Two nests with everything in them, over shapes that are cut in every way, for 1 to 5 threads."""
    rng = np.random.default_rng(13)
    for shape in [(1, 1000000), (3, 300000), (2000, 300), (100000, 4), (40, 30, 500)]:
        for nest in (softmax("f64"), random_nest(rng, False)):
            run_all(launcher, Case(rng, nest, shape), [(f"{t} threads", how, t) for t in (1, 2, 3, 5) for how in (0, 2)])


# ---- what is cut, and into how many tasks


def tasks(launcher, nest, shape, threads, arrays, know=None):
    k = launcher.new(nest)
    if know:
        launcher.lib.test_know(k, *know)
    launcher.lib.test_tasks()
    launcher.run(k, [Bound(nest, shape, arrays)], Launcher.INTERPRET, threads)
    launcher.free(k)
    return launcher.lib.test_tasks()


def test_pieces_of_accumulators(launcher):
    """No smaller than 1 KB of a row, unless threads would have none; sums down the columns are the same."""
    n = Nest()
    n.accum("sum", n.load("f32"))
    rng = np.random.default_rng(15)
    for columns, threads, want in [(1024, 2, 4), (4096, 2, 8), (128, 2, 2), (512, 2, 2), (1024, 3, 4), (1024, 8, 8),
                                   (1024, 1, 0), (32, 8, 0)]:
        x, out = rng.standard_normal((4000, columns)).astype("f4"), np.empty(columns, "f4")
        to = np.lib.stride_tricks.as_strided(out, (4000, columns), (0, 4))
        assert tasks(launcher, n, x.shape, threads, [x, to]) == want, (columns, threads)
        assert np.array_equal(out, x.sum(0)), (columns, threads)


def test_threads_where_they_pay(launcher):
    pays = launcher.lib.test_pays
    assert [bool(pays(us, 2, 0)) for us in (1, 15, 30, 60, 1000)] == [False, False, False, True, True]
    assert [bool(pays(us, 2, 1)) for us in (1, 15, 30, 60, 1000)] == [False, False, True, True, True]
    assert not pays(1000, 1, 1)
    assert not pays(35, 2, 0) and pays(35, 8, 0)  # four have 8 us each


def test_time_decides_not_the_estimate(launcher):
    """x + x over 16 K to 1 M elements is thought to take 4 to 260 us."""
    n = Nest()
    x = n.load("f32")
    n.store(n.op("add", x, x))
    a, b = np.ones((1, 1 << 20), "f4"), np.empty((1, 1 << 20), "f4")
    for size, know, want in [(1 << 14, None, 0), (1 << 14, (1, 0), 0), (1 << 14, (40, 0), 8), (1 << 14, (40, 2), 0),
                             (1 << 20, None, 8), (1 << 20, (1, 0), 8), (1 << 20, (0.05, 0), 0), (1 << 20, (1, 2), 0)]:
        assert tasks(launcher, n, (1, size), 2, [a[:, :size], b[:, :size]], know) == want, (size, know)


def test_what_runs_teach(launcher):
    def shared(us, alone, shared, *rest, cold=None, n_bad=0):
        return launcher.lib.test_shared(us, alone, shared if cold is None else cold, shared, n_bad, *rest)

    assert shared(5, 1, 0.5, 2, 200) == 0
    assert shared(90, 1, 0.5, 2, 200) == 200 - 200 // 64       # one in 64 by one thread: is it still so?
    assert shared(90, 0.1, 0.05, 2, 200) == 0                  # a tenth of what was expected
    assert shared(5, 40, 20, 2, 200) == 200                    # 40 times
    for us in (90, 900, 5000):                                 # busy processors: tried again, at little cost
        for slower in (1.05, 1.2, 1.5, 3):
            assert 0 < shared(us, 1, slower, 2, 20000) * (slower - 1) < 20000 * 0.03, (us, slower)
        assert shared(us, 1, 3, 2, 2000) < 30
    assert shared(90, 1, 1.2, 2, 20000) < 800
    assert shared(3000, 1, 0.6, 2, 4000, n_bad=16) > 2000      # and used when others have left
    assert shared(50000, 1, 2, 2, 200) == 200                  # 50 ms: always
    assert 0 < shared(100, 0.5, 0.7, 2, 400) < 50              # 50 us, but 70 by two
    assert 0 < shared(90, 1, 0.98, 2, 2000) < 400              # what is short must be worth two processors;
    assert shared(5000, 1, 0.98, 2, 2000) > 1500               # what is long may wait for memory, and not for long
    assert shared(5000, 1, 0.6, 2, 2000, cold=1.2, n_bad=6) > 1500    # not given up for the first run after others


def test_the_faster_executor_is_found(launcher):
    def compiled(interpreted, code, us=10, n_inner=1000, n=10000, then=None):
        then = then or (interpreted, code)
        return launcher.lib.test_duel(us, n_inner, interpreted, code, *then, n)

    assert compiled(1, 0.1) >= 10000 - 5 - 10000 // 4096 - 1       # in turns ten times, then seldom looked at again
    assert compiled(0.1, 1) <= 5 + 10000 // 4096 + 1
    assert compiled(1, 0.9) >= 10000 - 5 - 10000 // 256 - 1        # so close that it is looked at more often
    assert compiled(1, 1) > 9900                                   # of equals the code
    assert compiled(0.9, 1) < 100
    assert 4000 < compiled(1, 0.9, then=(1, 1.3)) < 6000           # it has become slower, and that is noticed
    assert 4000 < compiled(0.9, 1, then=(1.3, 1)) < 6000
    for us, n_inner in [(1, 10), (1, 100), (1, 10**6), (1000, 10), (1000, 100), (1000, 10**6)]:
        assert compiled(1, 0.1, us, n_inner) > 9900


def test_what_an_operation_takes_is_found_once(launcher):
    """Its micro code is made for that, which takes longer than all else of a small plan."""
    n = Nest()
    x = n.load("f64")
    n.store(n.op("exp", n.op("multiply", x, x)))
    k = launcher.new(n)
    assert launcher.lib.test_expected_again(k) == 1, "the list of what runs; micro code has more"
    launcher.free(k)


def test_code_is_called(launcher):
    rng = np.random.default_rng(14)
    case = Case(rng, softmax(), (1, 500000))
    k = launcher.new(case.nest)
    launcher.lib.test_calls_of_code()
    launcher.run(k, [case.bound()], Launcher.CODE, 2)
    assert launcher.lib.test_calls_of_code() > 3
    launcher.run(k, [case.bound()], Launcher.INTERPRET, 2)
    assert launcher.lib.test_calls_of_code() == 0
    launcher.free(k)


def test_c_program(tmp_path):
    """Failing allocations, launches from several threads, cancelling."""
    if os.environ.get("FRIT_TEST_LAUNCH_LIB"):
        pytest.skip("belongs to the build")
    link(str(tmp_path / "program"), "-DTEST_MAIN")
    subprocess.run([tmp_path / "program"], check=True)


def test_missing_kernels_are_refused(launcher):
    n = Nest()
    x = n.load("bool")
    n.store(n.op("negative", x, dtype="bool"))
    with pytest.raises(ValueError):
        launcher.new(n)
    assert CODES[np.dtype("f4")] == "f32"
