"""Compilation behind the first run: machine code against the reference executor, the cache, the
helper processes, the loader. Everything below the launcher, driven through tests/c/test_jit.c."""
import ctypes as ct
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest

import frit

from . import forked
from .common import APART, MICRO_CODE, REFERENCE, SOAK, in_csrc, objects, soak
from .launch_nests import DTYPES, Nest

ROOT = pathlib.Path(__file__).resolve().parent.parent

V2 = "-msse4.2 -mpopcnt"
V3 = "-mavx2 -mfma -mf16c -mbmi -mbmi2 -mlzcnt -mmovbe -mpopcnt"
V4 = "-mavx512f -mavx512vl -mavx512dq -mavx512bw -mavx512cd " + V3
FLAGS = set()
if os.path.exists("/proc/cpuinfo"):
    FLAGS = set(next((line for line in open("/proc/cpuinfo") if line.startswith("flags")), "").split())
LEVELS = {"v2": V2}
if "avx2" in FLAGS:
    LEVELS["v3"] = V3
if "avx512vl" in FLAGS:
    LEVELS["v4"] = V4
# Of what takes long, the narrowest registers wait for the soak.
SLOW_LEVELS = [*soak(*list(LEVELS)[:-1]), *list(LEVELS)[-1:]]
BEST = list(LEVELS.values())[-1] if FLAGS else ""


def build(directory):
    """The test library and a helper program of its own."""
    shared = objects(in_csrc(*MICRO_CODE), *APART)
    helper = objects(in_csrc("jit/cc/*.c", "jit/emit_gcc*.c"), *APART)
    parts = objects([*in_csrc(*(f"jit/{f}.c" for f in ("compile*", "helper", "cache", "exec", "export", "key", "load", "memo")), *REFERENCE),
                     ROOT / "tests/c/test_jit.c"], *APART)
    subprocess.run(["cc", "-o", f"{directory}/frit-cc", *helper, *shared, "-lm", "-lpthread", "-ldl"], check=True)
    subprocess.run(["cc", "-shared", "-o", f"{directory}/test_jit.so", *shared, *parts, "-lm", "-lpthread", "-ldl"], check=True)


class Jit:
    STATS = ["compiled", "failed", "hits", "misses", "bad", "helpers", "us", "pending", "objects", "loaded", "unloaded",
             "code_bytes", "code_maps"]

    def __init__(self, directory):
        self.helper = os.path.join(directory, "frit-cc")
        self.c = ct.CDLL(os.path.join(directory, "test_jit.so"))
        self.c.test_nest.restype = ct.c_void_p
        self.c.test_unavailable.restype = ct.c_char_p
        self.c.test_scratch.restype = ct.c_size_t
        self.c.test_fail_count.restype = self.c.test_live.restype = ct.c_long

    def configure(self, features=BEST, helper=None):
        self.c.test_configure((helper or self.helper).encode(), features.encode())

    def nest(self, nest):
        a = self.c.test_nest(nest.text().encode())
        assert a, nest.text()
        return ct.c_void_p(a)

    def want(self, nest, lookup_only=0):
        a = self.nest(nest)
        self.c.test_want(a, lookup_only)
        return a

    def wait(self, seconds=60):
        return bool(self.c.test_wait(ct.c_double(seconds)))

    def code(self, nest):
        """An answer with code, waited for."""
        a = self.want(nest)
        assert self.wait()
        assert self.c.test_answered(a) == 1
        assert self.c.test_has_code(a), (self.unavailable(), self.warnings())
        return a

    def stats(self):
        out = (ct.c_uint64 * len(self.STATS))()
        self.c.test_stats(out)
        return dict(zip(self.STATS, out))

    def unavailable(self):
        return self.c.test_unavailable()

    def warnings(self):
        buf = ct.create_string_buffer(10000)
        self.c.test_warnings(buf, len(buf))
        return buf.value.decode()


@pytest.fixture(scope="session")
def built():
    if os.environ.get("FRIT_TEST_JIT"):     # built before, for working on these tests
        yield os.environ["FRIT_TEST_JIT"]
        return
    with tempfile.TemporaryDirectory() as directory:
        build(directory)
        yield directory


@pytest.fixture(scope="session")
def library(built):
    return Jit(built)


@pytest.fixture
def jit(library, tmp_path, monkeypatch):
    monkeypatch.setenv("FRIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FRIT_QUIET", "1")
    library.configure()
    yield library
    library.c.test_stop()


needs_compiler = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libgccjit.so.0')"],
                   stderr=subprocess.DEVNULL).returncode != 0 or not shutil.which("as"),
    reason="no libgccjit, or no assembler")


# ---- running nests ------------------------------------------------------------------------------

def bind(nest, n_rows, n_inner, arrays, scalars):
    n = len(nest.operands)
    ptr = (ct.c_void_p * max(n, 1))()
    row, inner = ((ct.c_int64 * max(n, 1))() for _ in range(2))
    both = (ct.c_int64 * max(2 * n, 1))()
    for k in range(n):
        a = arrays[k]
        if isinstance(a, tuple):
            ptr[k], (row[k], inner[k]) = a[0] % 2**64, a[1]
        else:
            ptr[k] = a.ctypes.data
            row[k], inner[k] = (*a.strides, 0)[:2]
        both[2 * k], both[2 * k + 1] = row[k], inner[k]
    slots = np.zeros((max(len(scalars), 1), 16), np.uint8)
    for k, s in enumerate(scalars):
        b = np.asarray(s, DTYPES[nest.scalars[k]]).tobytes()
        slots[k, :len(b)] = np.frombuffer(b, np.uint8)
    return ptr, row, inner, both, slots


def run(jit, answer, nest, shape, arrays, scalars=(), ref=False):
    """arrays by operand: an array whose strides count (also 0), or (start, (row, inner)) of an iota."""
    ptr, row, inner, both, slots = bind(nest, *shape, arrays, scalars)
    n_rows, n_inner = map(ct.c_int64, shape)
    s = ct.c_void_p(slots.ctypes.data)
    if ref:
        assert jit.c.test_ref(answer, ptr, both, n_rows, n_inner, s) == 0
    else:
        jit.c.test_run(answer, ptr, row, inner, n_rows, n_inner, s)


def same(got, want, what=""):
    """Bit for bit, any NaN equal to any NaN."""
    assert got.dtype == want.dtype and got.shape == want.shape
    got, want = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if got.dtype.kind == "c":
        got, want = (x.view(x.real.dtype) for x in (got, want))
    bits = f"u{got.dtype.itemsize}"
    ok = got.view(bits) == want.view(bits)
    if got.dtype.kind == "f":
        ok |= np.isnan(got) & np.isnan(want)
    if not ok.all():
        i = np.argwhere(~ok)[0]
        raise AssertionError(f"{what}: at {i.tolist()} {got[tuple(i)]!r} instead of {want[tuple(i)]!r}, "
                             f"{(~ok).sum()} of {ok.size} differ")


def values(dtype, shape, rng, special=0.3):
    """Numbers of all sizes, with special ones in between."""
    d = np.dtype(DTYPES.get(dtype, dtype))
    n = int(np.prod(shape))
    if d.kind == "b":
        return rng.integers(0, 2, shape).astype(d)
    if d.kind in "iu":
        i = np.iinfo(d)
        edge = np.array([i.min, i.max, 0, 1, 2, 3, 7, 8, 31, 63, i.max - 1, i.min + 1], d)
        small = rng.integers(0 if d.kind == "u" else -9, 10, n).astype(d)
        bits = rng.integers(0, 256, n * d.itemsize, dtype=np.uint8).view(d)
        v = np.where(rng.random(n) < 0.5, small, bits)
        return np.where(rng.random(n) < special, rng.choice(edge, n), v).reshape(shape)
    if d.kind == "c":
        part = np.empty(n, d)
        part.real, part.imag = (values(part.real.dtype, n, rng, special) for _ in range(2))
        return part.reshape(shape)
    f = np.finfo(d)
    edge = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2.5, f.max, -f.max, f.smallest_normal,
                     f.smallest_subnormal, 1 / 3, 100.5])
    v = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3, n)
    with np.errstate(over="ignore"):
        return np.where(rng.random(n) < special, rng.choice(edge, n), v).astype(d).reshape(shape)


def neutral(op, dtype):
    """What the launcher fills an accumulator with."""
    d = np.dtype(DTYPES[dtype])
    if op in ("sum", "prod"):
        return d.type({"sum": 0, "prod": 1}[op])
    if d.kind in "fc":
        return d.type(-np.inf if d.kind == "f" else complex(-np.inf, -np.inf))
    return np.iinfo(d).min if d.kind in "iu" else False


def against_ref(jit, nest, shape, rng, answer=None, special=0.3, scalars=(), strided_by=3):
    """Random operands; every written operand must come out as the reference executor leaves it."""
    answer = answer or jit.code(nest)
    arrays, written = [], []
    for k, (dtype, access, flags) in enumerate(nest.operands):
        if dtype == "i64" and any(v.kind == "iota" and v.operand == k for v in nest.values):
            arrays.append((int(rng.integers(-5, 5)), (int(rng.integers(-3, 100)), int(rng.integers(-2, 3)))))
            continue
        rows, n = shape
        accum = any(v.kind == "accum" and v.operand == k for v in nest.values)
        if access == "zero":
            a = values(dtype, (rows, 2), rng, special)[:, 0]
        elif access == "strided":
            a = values(dtype, (rows, strided_by * n + 1), rng, special)[:, ::-strided_by][:, :n]
        elif access == "back":
            a = values(dtype, (rows, n + 3), rng, special)[:, ::-1][:, 2:n + 2]
        elif access in NEAR:
            by = NEAR[access]
            a = values(dtype, (rows, by * n + 1), rng, special)[:, ::by][:, :n]
        else:
            a = values(dtype, (rows, n + 3), rng, special)[:, :n]
        if accum:
            a = np.lib.stride_tricks.as_strided(a, strides=(0, a.strides[1]))
        arrays.append(a)
        if "written" in flags:
            written.append(k)
    def clone(a):
        if isinstance(a, tuple):
            return a
        base = a if a.base is None else a.base
        while base.base is not None and isinstance(base.base, np.ndarray):
            base = base.base
        copy = base.copy()
        offset = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        return np.ndarray(a.shape, a.dtype, copy, offset, a.strides), copy
    mine = [clone(a) for a in arrays]
    theirs = [clone(a) for a in arrays]
    for v in nest.values:
        if v.kind == "accum":
            mine[v.operand][0][...] = theirs[v.operand][0][...] = neutral(v.op, v.dtype)
    first = lambda c: [x if isinstance(x[0], int) else x[0] for x in c]  # noqa: E731
    run(jit, answer, nest, shape, first(mine), scalars)
    run(jit, answer, nest, shape, first(theirs), scalars, ref=True)
    for k in written:
        # The whole memory: nothing beside the operand may have changed either.
        same(mine[k][1], theirs[k][1], f"operand {k}, shape {shape}\n{nest.text()}")


# ---- machine code --------------------------------------------------------------------------------

SIZES = [0, 1, 2, 3, 5, 7, 8, 9, 13, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 136, 200,
         255, 256, 257, 300, 1000]


def axpy(dtype="f32", access="unit"):
    n = Nest()
    a, b, c = (n.load(dtype, access=access) for _ in range(3))
    n.store(n.op("add", n.op("multiply", a, b), c), access=stored(access))
    return n


NEAR = {"second": 2, "third": 3, "fourth": 4}


def stored(access):
    """Loads alone go back, or take every second element by an access of its own."""
    return "strided" if access == "back" or access in NEAR else access


def ways_of_loading(dtype):
    return ("unit", "strided") + (("back", *NEAR) if np.dtype(DTYPES[dtype]).itemsize >= 4 else ())


@needs_compiler
@pytest.mark.parametrize("level", SLOW_LEVELS)
def test_map_of_every_size(jit, level):
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(1)
    for k, dtype in enumerate(("f32", "f64", "i8", "i64", "c64", "u16")):
        for access in ways_of_loading(dtype):
            if not SOAK and k and access in NEAR and access != list(NEAR)[k % 3]:
                continue
            nest = axpy(dtype, access)
            code = jit.code(nest)
            for n in SIZES:
                against_ref(jit, nest, (3, n), rng, code)


@needs_compiler
def test_output_over_input(jit):
    nest = axpy()
    code = jit.code(nest)
    rng = np.random.default_rng(2)
    for n in SIZES:
        a, b, c = (rng.standard_normal((1, n)).astype("f4") for _ in range(3))
        want = a * b + c
        for k, over in enumerate((a.copy(), b.copy(), c.copy())):
            operands = [a, b, c]
            operands[k] = over
            run(jit, code, nest, (1, n), [*operands, over])
            same(over, want, f"operand {k} of {n}")


OPS = {r["name"]: r for r in frit._core.op_table() if r["class"] == "map" and r["rule"] != "random" and not r["inner"]}


def result_of(name, dtype):
    part = {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
    return {"truth": "bool", "count": "u8", "component": part}.get(OPS[name]["rule"], dtype)


def op_nest(dtype, names):
    """One nest with a store for each operation."""
    n = Nest()
    a, b, c, t, i = n.load(dtype), n.load(dtype), n.load(dtype), n.load("bool"), n.load("i64")
    for name in names:
        args = {"select": (t, a, b), "ldexp": (a, i)}.get(OPS[name]["rule"], (a, b, c)[:OPS[name]["arity"]])
        n.store(n.op(name, *args, dtype=result_of(name, dtype)))
    return n


# Every dtype on the best level of this machine; on the others those whose vectors differ.
LEVELS_AND_DTYPES = [(level, dtype) for level in LEVELS for dtype in DTYPES
                     if level == list(LEVELS)[-1] or dtype in ("i32", "u8", "f32", "f64", "c64")]


@needs_compiler
@pytest.mark.parametrize("level,dtype", LEVELS_AND_DTYPES)
def test_every_operation(jit, level, dtype):
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(3)
    kind = np.dtype(DTYPES[dtype]).kind
    names = [n for n in OPS if kind in OPS[n]["kinds"]]
    names = [n for n in names if jit.c.test_supported(op_nest(dtype, [n]).text().encode())]
    if not SOAK:    # a sixth of them; all by make soak, and of the best level some in test_operations.py
        names = names[LEVELS_AND_DTYPES.index((level, dtype)) % 6::6]
    for i in range(0, len(names), 6):
        nest = op_nest(dtype, names[i:i + 6])
        code = jit.code(nest)
        for n in (1, 19, 517):
            against_ref(jit, nest, (2, n), rng, code)


@needs_compiler
@pytest.mark.parametrize("source", DTYPES)
def test_casts(jit, source):
    rng = np.random.default_rng(4)
    for group in (["bool", "i8", "u16", "i32", "u64", "f32", "c64"], ["i16", "u8", "u32", "i64", "f16", "f64", "c128"]):
        nest = Nest()
        a = nest.load(source)
        for to in group:
            nest.store(nest.cast(a, to))
        against_ref(jit, nest, (2, 333), rng)


REDUCES = {"b": ["max", "min", "any", "all", "argmax", "argmin"],
           "c": ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]}


@needs_compiler
@pytest.mark.parametrize("level,dtype", LEVELS_AND_DTYPES)
def test_reductions(jit, level, dtype):
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(5)
    kind = np.dtype(DTYPES[dtype]).kind
    wide = {"i": "i64", "u": "u64"}.get(kind, dtype)
    ways = list(ways_of_loading(dtype))
    if not SOAK:    # one of them for each, in turn
        ways = [ways[LEVELS_AND_DTYPES.index((level, dtype)) % len(ways)]]
    for access in ways:
        nest = Nest()
        a = nest.load(dtype, access=access)
        for name in REDUCES.get(kind, REDUCES["c"]):
            x = nest.cast(a, wide) if name in ("sum", "prod") and wide != dtype else a
            nest.store(nest.reduce(name, x))
        code = jit.code(nest)
        for n in SIZES[1:]:
            for special in (0.0, 0.05, 1.0):
                against_ref(jit, nest, (3, n), rng, code, special)


@needs_compiler
def test_sums_are_numpys(jit):
    rng = np.random.default_rng(6)
    for dtype in ("f16", "f32", "f64", "c64", "c128"):
        nest = Nest()
        nest.store(nest.reduce("sum", nest.load(dtype)))
        code = jit.code(nest)
        for n in SIZES + [4096, 10007, 100003]:
            x = rng.standard_normal((2, n))
            if dtype[0] == "c":
                x = x + 1j * rng.standard_normal((2, n))
            x = x.astype(DTYPES[dtype])
            out = np.empty(2, x.dtype)
            run(jit, code, nest, (2, n), [x, out])
            same(out, x.sum(1), f"{dtype} {n}")
        zero = np.full((1, 5), -0.0, DTYPES[dtype])
        out = np.empty(1, zero.dtype)
        run(jit, code, nest, (1, 5), [zero, out])
        same(out, zero.sum(1))


def long_chain(nest, x, terms, *shared):
    """Operations that wait for each other: such stages work on several blocks at once."""
    y = x
    for k in range(terms):
        y = nest.op("add", nest.op("multiply", y, x), shared[k % len(shared)])
    return y


@needs_compiler
@pytest.mark.parametrize("level", SLOW_LEVELS)
def test_long_chains(jit, level):
    """Several blocks at once, then one by one, then the tail, for all that a stage does with its values."""
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(9)
    sizes = [1, 7, 8, 31, 33, 63, 64, 65, 100, 127, 128, 129, 136, 255, 257, 300, 517, 1000]
    for dtype in ("f32", "f64", "c64", "i32"):
        for names, access in (("sum prod", "unit"), ("max argmin any", "unit"), ("sum argmax", "strided"), ("sum", "back"), ("sum argmax", "third")):
            nest = Nest()
            x, r, s = nest.load(dtype, access=access), nest.load(dtype, "ROW"), nest.scalar(dtype)
            y = long_chain(nest, x, 60, s, r)
            nest.store(y, access=stored(access))
            for name in names.split():
                wide = dtype == "i32" and name in ("sum", "prod")
                nest.store(nest.reduce(name, nest.cast(y, "i64") if wide else y))
            code = jit.code(nest)
            for n in sizes:
                against_ref(jit, nest, (3, n), rng, code, 0.01, (1,))
        nest = Nest()
        y = long_chain(nest, nest.load(dtype), 40, nest.scalar(dtype))
        if dtype != "i32":
            nest.accum("sum", y)
        nest.accum("max", y)
        code = jit.code(nest)
        for n in sizes:
            against_ref(jit, nest, (5, n), rng, code, 0.01, (1,))
    # Halves are widened at every step; of both widths of numbers a register holds different counts.
    nest = Nest(rowbuf=True)
    x, s, t = nest.load("f16"), nest.scalar("f16"), nest.scalar("f64")
    y = long_chain(nest, x, 12, s)
    z = long_chain(nest, nest.cast(y, "f64"), 30, t)
    m = nest.reduce("max", z)
    z = long_chain(nest, nest.op("subtract", z, m), 50, t, m)
    nest.store(y)
    nest.store(z)
    nest.store(nest.reduce("sum", z))
    code = jit.code(nest)
    for n in sizes:
        against_ref(jit, nest, (2, n), rng, code, 0.01, (1, 0.5))


@needs_compiler
@pytest.mark.parametrize("level", SLOW_LEVELS)
def test_rare_values(jit, level):
    """Steps are computed without them first, and once more where there are some; but for extremes."""
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(11)
    for dtype in ("f32", "f64"):
        for names, access in (("sum", "unit"), ("max sum", "strided"), ("", "unit"), ("", "strided"), ("", "back"), ("", "second")):
            nest = Nest()
            x = nest.load(dtype, access=access)
            y = nest.op("multiply", nest.op("cos", nest.op("add", x, nest.scalar(dtype))), nest.op("tan", x))
            nest.store(y, access=stored(access))
            nest.store(nest.op("sin", nest.cast(x, "f64")))
            for name in names.split():
                nest.store(nest.reduce(name, y))
            code = jit.code(nest)
            for special in (0, 0.005, 0.3):
                for n in (1, 7, 16, 17, 63, 128, 257):
                    against_ref(jit, nest, (3, n), rng, code, special, (1,))
    for dtype in ("f32", "f64", "i32", "i64", "u64", "c64", "c128"):
        nest = Nest()
        x, y, s = nest.load(dtype), nest.load(dtype), nest.scalar(dtype)
        for name in ("power",) if dtype[0] == "c" else ("floor_divide", "remainder", "fmod"):
            nest.store(nest.op(name, x, y))
            nest.store(nest.op(name, y, s))
        if dtype[0] in "iu":
            nest.store(nest.op("power", x, nest.op("bitwise_and", s, s)))
        code = jit.code(nest)
        for special in (0, 0.005, 0.3):
            for n in (1, 17, 63, 257):
                against_ref(jit, nest, (3, n), rng, code, special, (1,))


@needs_compiler
def test_long_chain_over_its_input(jit):
    nest = Nest()
    nest.store(long_chain(nest, nest.load("f32"), 100, nest.scalar("f32")))
    code = jit.code(nest)
    rng = np.random.default_rng(10)
    for n in SIZES:
        x = rng.uniform(-1, 1, (1, n)).astype("f4")
        want, over = np.empty_like(x), x.copy()
        run(jit, code, nest, (1, n), [x, want], (0.5,), ref=True)
        run(jit, code, nest, (1, n), [over, over], (0.5,))
        same(over, want, f"{n} elements")


def softmax(dtype="f32", rowbuf=True, access="unit"):
    n = Nest(rowbuf=rowbuf)
    x = n.load(dtype, access=access)
    e = n.op("exp", n.op("subtract", x, n.reduce("max", x)))
    n.store(n.op("divide", e, n.reduce("sum", e)), access=stored(access))
    return n


def layer_norm(rowbuf=True):
    n = Nest(rowbuf=rowbuf)
    x, w, b = n.load("f32"), n.load("f32"), n.load("f32")
    size, eps = n.scalar("f32"), n.scalar("f32")
    mean = n.op("divide", n.reduce("sum", x), size)
    d = n.op("subtract", x, mean)
    var = n.op("divide", n.reduce("sum", n.op("multiply", d, d)), size)
    y = n.op("divide", d, n.op("sqrt", n.op("add", var, eps)))
    n.store(n.op("add", n.op("multiply", y, w), b))
    n.store(mean)
    n.store(n.reduce("argmax", y))
    return n


@needs_compiler
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rowbuf", [True, False])
def test_stages(jit, level, rowbuf):
    jit.configure(LEVELS[level])
    rng = np.random.default_rng(7)
    cases = [(softmax("f32", rowbuf), ()), (softmax("f64", rowbuf, "strided"), ()), (softmax("f64", rowbuf, "back"), ()), (softmax("f64", rowbuf, "third"), ()), (softmax("f32", rowbuf, "second"), ()),
             (layer_norm(rowbuf), (37.0, 1e-5))]
    for nest, scalars in cases:
        code = jit.code(nest)
        assert bool(jit.c.test_has_stages(code)) != rowbuf
        for n in SIZES[1:]:
            against_ref(jit, nest, (4, n), rng, code, 0.02, scalars)


@needs_compiler
def test_accumulators_iota_and_rows(jit):
    rng = np.random.default_rng(8)
    for dtype in ("f16", "f32", "f64", "i64", "c64"):
        nest = Nest()
        x, r = nest.load(dtype), nest.load(dtype, "ROW")
        nest.accum("sum", nest.op("multiply", x, r))
        nest.accum("max", x)
        nest.accum("prod", x, access="strided")
        code = jit.code(nest)
        for n in (1, 7, 16, 33, 100):
            against_ref(jit, nest, (9, n), rng, code, 0.05)
    nest = Nest()
    i, k = nest.iota(), nest.iota("ROW")
    s = nest.scalar("i64")
    nest.store(nest.op("add", nest.op("multiply", i, s), k))
    nest.store(nest.cast(nest.op("less", i, k), "f64"))
    nest.store(nest.op("add", k, s))
    nest.store(nest.cast(s, "f32", "FULL"))
    code = jit.code(nest)
    for n in (1, 7, 16, 33, 100):
        against_ref(jit, nest, (5, n), rng, code, scalars=(3,))


class Slot(ct.Structure):
    _fields_ = [("v", ct.c_ubyte * 16), ("index", ct.c_int64), ("pad", ct.c_int64)]


@needs_compiler
def test_parts_of_a_row(jit):
    """The functions for long rows: a sum's subtree, and an index that counts from the row's beginning."""
    nest = Nest()
    x = nest.load("f32")
    m, s, at = nest.reduce("max", x), nest.reduce("sum", x), nest.reduce("argmax", x)
    nest.store(nest.op("subtract", x, m))
    nest.store(nest.op("add", s, m))
    nest.store(at)
    a = jit.code(nest)
    n = 10000
    data = np.random.default_rng(9).standard_normal((1, n)).astype("f4")
    out, row, index = np.zeros((1, n), "f4"), np.zeros(1, "f4"), np.zeros(1, "i8")
    ptr, _, inner, _, _ = bind(nest, 1, n, [data, out, row, index], ())
    order = nest.sorted()
    slots = (Slot * len(order))()
    part = (Slot * len(order))()

    def read(slot, dtype):
        return np.frombuffer(bytes(slot.v), dtype, 1)[0]

    for begin, end in ((0, n), (1000, 5000), (n - 7, n)):
        jit.c.test_stage(a, 0, ptr, inner, ct.c_int64(begin), ct.c_int64(end - begin), None, slots, part)
        piece = data[0, begin:end]
        assert read(part[order.index(m)], "f4") == piece.max()
        assert read(part[order.index(s)], "f4") == piece.sum()
        assert part[order.index(at)].index == begin + piece.argmax()
    jit.c.test_stage(a, 0, ptr, inner, ct.c_int64(0), ct.c_int64(n), None, slots, part)
    for v in (m, s, at):
        i = order.index(v)
        slots[i].v = part[i].v
    slots[order.index(at)].v = (ct.c_ubyte * 16)(*int(data.argmax()).to_bytes(8, "little"))
    jit.c.test_mid(a, 1, ptr, None, slots)
    jit.c.test_stage(a, 1, ptr, inner, ct.c_int64(0), ct.c_int64(n), None, slots, part)
    jit.c.test_mid(a, 2, ptr, None, slots)
    same(out, data - data.max())
    assert row[0] == data.sum() + data.max() and index[0] == data.argmax()


def random_nest(seed):
    """A nest of random operations over several stages."""
    r = random.Random(seed)
    nest = Nest(rowbuf=r.random() < 0.5)
    full, row, scalar = [], [], []
    types = r.sample(["f32", "f64", "i32", "i64", "u8", "f16", "c64", "c128", "bool"], 3)
    for _ in range(r.randint(1, 4)):
        dtype = r.choice(types)
        full.append(nest.load(dtype, access=r.choice(["unit", "unit", *ways_of_loading(dtype)[1:]])))
    for _ in range(r.randint(0, 2)):
        row.append(nest.load(r.choice(types), "ROW"))
    if r.random() < 0.5:
        scalar.append(nest.scalar(r.choice(types)))
    if r.random() < 0.3:
        full.append(nest.iota())

    def pick():
        return r.choice(r.choice([p for p in (full, full, full, row, scalar) if p]))

    def as_type(v, dtype):
        return v if v.dtype == dtype else nest.cast(v, dtype)

    def keep(v):
        if v.level == 2:
            full.append(v)
        elif v.level == 1:
            row.append(v)
        else:
            scalar.append(v)

    for _ in range(r.randint(2, 14)):
        a, b = pick(), pick()
        kind = np.dtype(DTYPES[a.dtype]).kind
        names = {"b": "logical_and logical_xor maximum", "c": "add multiply subtract absolute equal",
                 "f": "add multiply subtract divide maximum exp sqrt less floor_divide tanh",
                 "i": "add multiply subtract floor_divide bitwise_and less minimum",
                 "u": "add multiply remainder bitwise_or equal maximum"}[kind].split()
        name = r.choice(names)
        args = (a,) if OPS[name]["arity"] == 1 else (a, as_type(b, a.dtype))
        keep(nest.op(name, *args, dtype=result_of(name, a.dtype)))
        if r.random() < 0.25 and sum(v.kind == "reduce" for v in nest.values) < 4:
            x = r.choice(full)
            k = np.dtype(DTYPES[x.dtype]).kind
            name = r.choice("max min any all argmax argmin".split() if k == "b" else REDUCES["c"])
            if name in ("sum", "prod") and k in "iu":
                x = as_type(x, {"i": "i64", "u": "u64"}[k])
            keep(nest.reduce(name, x))
    last = max(v.stage for v in nest.values)
    late = [v for v in nest.values if v.level == 2]
    for v in r.sample(late, min(len(late), r.randint(1, 3))):
        nest.store(v, access=r.choice(["unit", "strided"]))
    if row and r.random() < 0.7:
        nest.store(r.choice(row))
    if late and r.random() < 0.3:
        v = r.choice(late)
        if v.dtype not in ("bool", "u8"):
            nest.accum("sum" if v.dtype in ("f32", "f64", "i64", "c64", "f16") else "max", v)
    # A stage needs something to do, and reductions whose stage would come last a reader.
    rows = [v for v in row if v.kind == "reduce" and v.stage == last]
    for v in rows[:1]:
        nest.store(v)
    return nest


@needs_compiler
@pytest.mark.parametrize("part", range(4))
def test_random_nests(jit, part):
    n_each = int(os.environ.get("FRIT_JIT_NESTS", "16"))
    rng = np.random.default_rng(10 + part)
    jit.configure(list(LEVELS.values())[part % len(LEVELS)])
    for seed in range(part * 100000, part * 100000 + n_each):
        nest = random_nest(seed)
        if not jit.c.test_supported(nest.text().encode()):
            continue
        answer = jit.want(nest)
        assert jit.wait()
        assert jit.c.test_has_code(answer), nest.text()
        scalars = [1 if d == "bool" else 3 for d in nest.scalars]
        for n in (1, 5, 16, 70, 300):
            against_ref(jit, nest, (3, n), rng, answer, 0.05, scalars)


# ---- digests, objects ------------------------------------------------------------------------------

def test_blake2b_is_hashlibs(library):
    rng = random.Random(1)
    for n in [*range(260), 5000]:
        for size, key in ((32, b""), (64, rng.randbytes(64)), (32, rng.randbytes(32)), (20, b"ab")):
            message, out = rng.randbytes(n), ct.create_string_buffer(size)
            library.c.test_blake2b(message, ct.c_size_t(n), key, ct.c_size_t(len(key)), ct.c_size_t(size), out)
            assert out.raw == hashlib.blake2b(message, digest_size=size, key=key).digest()


STATUSES = re.findall(r"^STATUS\((\w+)", (ROOT / "csrc/base/status.def").read_text(), re.M)
OK, EINDEX, EBUG = map(STATUSES.index, ("OK", "EINDEX", "EBUG"))


def check_object(jit, data):
    message = ct.create_string_buffer(500)
    return jit.c.test_load_check(data, ct.c_size_t(len(data)), message), message.value.decode()


@pytest.fixture(scope="session")
def shared_objects(tmp_path_factory):
    """Objects that must be refused, and one like ours."""
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    d = tmp_path_factory.mktemp("objects")
    (d / "a.c").write_text("void frit_rows(void) {}\n")
    (d / "init.c").write_text("int x; __attribute__((constructor)) void f(void) { x = 1; } void frit_rows(void) {}\n")
    (d / "tls.c").write_text("__thread int x = 3; int frit_rows(void) { return x; }\n")

    def make(name, source, *options):
        subprocess.run(["cc", "-shared", "-fPIC", "-nostartfiles", "-O1", *options, "-o", d / name, d / source],
                       check=True, stderr=subprocess.DEVNULL)
        return (d / name).read_bytes()

    return {"good": make("good.so", "a.c", "-nodefaultlibs", "-Wl,--hash-style=sysv"), "constructor": make("init.so", "init.c"),
            "stack": make("stack.so", "a.c", "-Wl,-z,execstack"),
            "library": make("lib.so", "a.c", "-Wl,--no-as-needed", "-lpthread", "-ldl", "-lstdc++", "-lgcc_s"),
            "rpath": make("rpath.so", "a.c", "-Wl,-rpath,/tmp"), "tls": make("tls.so", "tls.c"),
            "wx": make("wx.so", "a.c", "-nodefaultlibs", "-Wl,-N")}


def test_object_checks(library, shared_objects):
    def place(data):
        return library.c.test_load_place(data, ct.c_size_t(len(data)))

    for name, data in shared_objects.items():
        st, message = check_object(library, data)
        assert (st == OK) == (name == "good"), (name, st, message)
        assert (place(data) == OK) == (name == "good")
    good = shared_objects["good"]
    for n in range(0, len(good), 7):        # cut off anywhere: refused or whole, but never read past the end
        check_object(library, good[:n])
        place(good[:n])
    rng = random.Random(2)
    for _ in range(3000):
        broken = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(min(len(good), 2000))] = rng.randrange(256)
        check_object(library, bytes(broken))
        place(bytes(broken))


def test_objects_share_mappings_and_pages(built, tmp_path):
    """5,000 of them; what is unloaded makes room for others, but not where a child of fork may have it."""
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    (tmp_path / "a.c").write_text("int frit_rows_ab(void) { return 42; }\nvoid *const frit_stages_ab[] = {(void *)frit_rows_ab};\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-nostartfiles", "-nodefaultlibs", "-O1", "-Wl,-z,noseparate-code,-z,norelro,"
                    "-z,max-page-size=64,-z,common-page-size=64,--hash-style=sysv,-s", "-o", tmp_path / "a.so",
                    tmp_path / "a.c"], check=True)
    in_process(built, tmp_path, f"""
import ctypes as ct
c = jit.c
c.test_keep.restype = ct.c_void_p
code = open({str(tmp_path / "a.so")!r}, "rb").read()
def maps(): return len(open("/proc/self/maps").readlines())
def keep(i): return c.test_keep(code + str(i).encode(), ct.c_size_t(len(code) + len(str(i))))
def drop(o): c.test_drop(ct.c_void_p(o))
def call(o): return c.test_call(ct.c_void_p(o))
def usage(): s = jit.stats(); return s["code_bytes"], s["code_maps"]

assert usage() == (0, 0)
before = maps()
objects = [keep(i) for i in range(5000)]
n_bytes, n_maps = usage()
assert n_bytes <= 5000 * 1024 and n_maps <= 5000 // 100 and maps() - before <= n_maps + 4
assert [call(o) for o in objects[::77]] == [42] * len(objects[::77])
assert keep(7) == objects[7]                    # the same once more
drop(objects[7])
assert usage() == (n_bytes, n_maps) and call(objects[7]) == 42

for o in objects[::2]: drop(o)
assert usage() == (n_bytes // 2, n_maps)
objects[::2] = [keep(-i) for i in range(2500)]  # into the gaps
assert usage() == (n_bytes, n_maps) and all(call(o) == 42 for o in objects)

pid = os.fork()
if pid == 0:
    ok = all(call(o) == 42 for o in objects)
    for o in objects[1::2]: drop(o)
    inherited = usage()[1]
    more = [keep(f"child{{i}}") for i in range(100)]
    ok = ok and usage()[1] == inherited + 2 and all(call(o) == 42 for o in more + objects[::2])
    time.sleep(0.05)
    os._exit(0 if ok and all(call(o) == 42 for o in more + objects[::2]) else 1)
for o in objects[::2]: drop(o)                  # the child has these
objects[::2] = [keep(f"again{{i}}") for i in range(2500)]
assert usage()[1] > n_maps and all(call(o) == 42 for o in objects)
assert os.waitpid(pid, 0)[1] == 0

for o in objects: drop(o)
assert usage() == (0, 0) and maps() - before <= 4
for protection in [line.split()[1] for line in open("/proc/self/maps")]:
    assert "w" not in protection or "x" not in protection
""")


# ---- the disk cache --------------------------------------------------------------------------------

class Cache:
    def __init__(self, jit, directory):
        self.c, self.dir = jit.c, directory

    def put(self, name, data):
        message = ct.create_string_buffer(500)
        st = self.c.test_cache_put(name.encode(), data, ct.c_size_t(len(data)), message)
        return st

    def get(self, name):
        out, n = ct.create_string_buffer(1 << 20), ct.c_size_t()
        st = self.c.test_cache_get(name.encode(), out, ct.c_size_t(len(out)), ct.byref(n))
        return st, out.raw[:n.value] if st == OK else None

    def files(self):
        return sorted(self.dir.glob("*.frit")) if self.dir.exists() else []

    def info(self):
        name, n, size = ct.create_string_buffer(4096), ct.c_uint64(), ct.c_uint64()
        self.c.test_cache_info(name, len(name), ct.byref(n), ct.byref(size))
        return name.value.decode(), n.value, size.value


@pytest.fixture
def cache(jit, tmp_path):
    return Cache(jit, tmp_path / "cache")


def test_cache_keeps_and_clears(jit, cache):
    assert cache.get("a") == (EINDEX, None)
    for name, data in (("a", b"x" * 1000), ("b", b""), ("c", os.urandom(100000))):
        assert cache.put(name, data) == OK
        assert cache.get(name) == (OK, data)
    assert cache.put("a", b"other") == OK and cache.get("a") == (OK, b"other")
    where, n, size = cache.info()
    assert where == str(cache.dir.resolve()) and n == 3 and size == sum(f.stat().st_size for f in cache.files())
    assert cache.dir.stat().st_mode & 0o777 == 0o700
    for f in cache.dir.iterdir():
        assert f.stat().st_mode & 0o777 == 0o600 and not f.name.startswith(".tmp")
    jit.configure()                         # as in a new process
    assert cache.get("a") == (OK, b"other")
    assert jit.c.test_cache_clear() == OK
    assert cache.files() == [] and cache.get("a") == (EINDEX, None)


def test_flipped_bits_never_come_back(jit, cache):
    data = os.urandom(3000)
    cache.put("kernel", data)
    [path] = cache.files()
    whole = path.read_bytes()
    rng = random.Random(3)
    bits = {rng.randrange(len(whole) * 8) for _ in range(2000)} | set(range(0, 100 * 8, 3))
    for bit in bits:
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        assert cache.get("kernel") == (EBUG, None), bit
        assert not path.exists()
    for n in [*range(0, 200), *range(200, len(whole), 97)]:
        path.write_bytes(whole[:n])
        assert cache.get("kernel") == (EBUG, None), n
    path.write_bytes(whole + b"\0")
    assert cache.get("kernel") == (EBUG, None)
    path.write_bytes(whole)
    path.chmod(0o600)
    assert cache.get("kernel") == (OK, data)


def test_entries_cannot_be_swapped(cache):
    cache.put("a", b"code of a")
    [a] = cache.files()
    cache.put("b", b"code of b")
    [b] = set(cache.files()) - {a}
    b.write_bytes(a.read_bytes())
    assert cache.get("b") == (EBUG, None)
    assert cache.get("a") == (OK, b"code of a")


def test_another_users_seal_is_not_ours(jit, cache):
    cache.put("a", b"code")
    (cache.dir / "key").write_bytes(os.urandom(32))
    assert cache.get("a") == (OK, b"code")  # the key was read before
    jit.configure()
    assert cache.get("a") == (EBUG, None)


def memory_only(jit, cache):
    jit.configure()
    assert cache.put("z", b"code") != OK
    assert cache.get("z")[0] == EINDEX
    assert cache.info()[0] == ""


def test_homes_are_not_made(jit, cache, monkeypatch, tmp_path):
    home = tmp_path / "home"
    monkeypatch.delenv("FRIT_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for name, value in (("HOME", home), ("HOME", "/"), ("HOME", "//"), ("HOME", "/proc/.."), ("HOME", tmp_path / "a" / "b"),
                        ("XDG_CACHE_HOME", home / ".cache"), ("XDG_CACHE_HOME", "/"), ("XDG_CACHE_HOME", "/frit-no-such"),
                        ("XDG_CACHE_HOME", home / ".cache/")):
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv(name, str(value))
        memory_only(jit, cache)
        assert not home.exists() and not os.path.exists("/.cache") and not os.path.exists("/frit-no-such")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    home.mkdir()
    for name, value, where in (("HOME", home, home / ".cache/frit"), ("XDG_CACHE_HOME", home / "x", home / "x/frit"),
                               ("XDG_CACHE_HOME", f"{home / 'y'}/", home / "y/frit")):
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv(name, str(value))
        jit.configure()
        assert cache.put("a", b"code") == OK and cache.get("a") == (OK, b"code")
        assert where.stat().st_mode & 0o777 == 0o700


def test_entries_with_other_names_are_not_used(jit, cache, tmp_path):
    cache.put("a", b"code")
    [entry] = cache.files()
    os.link(entry, tmp_path / "other")
    assert cache.get("a") == (EBUG, None) and not entry.exists()
    assert cache.put("a", b"code") == OK and cache.get("a") == (OK, b"code")
    assert (tmp_path / "other").exists()


def test_odd_places_are_not_used(jit, cache, monkeypatch, tmp_path):
    cache.put("a", b"code")
    [entry] = cache.files()
    entry.chmod(0o622)
    assert cache.get("a") == (EBUG, None)
    cache.put("a", b"code")
    entry.rename(cache.dir / "elsewhere")
    entry.symlink_to("elsewhere")
    assert cache.get("a") == (EBUG, None)
    entry.mkdir()
    assert cache.get("a")[0] == EBUG
    entry.rmdir()
    cache.dir.chmod(0o755)
    assert cache.put("a", b"code") != OK    # also when it changes while we run
    memory_only(jit, cache)
    cache.dir.chmod(0o700)
    (cache.dir / "key").chmod(0o644)
    memory_only(jit, cache)
    (cache.dir / "key").chmod(0o600)
    (cache.dir / "key").write_bytes(b"short")
    memory_only(jit, cache)
    monkeypatch.setenv("FRIT_CACHE_DIR", "relative/path")
    memory_only(jit, cache)
    monkeypatch.setenv("FRIT_CACHE_DIR", "/proc/nowhere/frit")
    memory_only(jit, cache)
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("FRIT_CACHE_DIR", str(open_to_all / "frit"))
    memory_only(jit, cache)
    monkeypatch.setenv("FRIT_CACHE", "0")
    memory_only(jit, cache)
    assert "compiled kernels are kept in memory only" in jit.warnings()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give files away")
def test_files_of_others_are_not_used(jit, cache):
    cache.put("a", b"code")
    [entry] = cache.files()
    os.chown(entry, 12345, 12345)
    assert cache.get("a") == (EBUG, None)
    os.chown(cache.dir / "key", 12345, 12345)
    memory_only(jit, cache)
    os.chown(cache.dir / "key", 0, 0)
    os.chown(cache.dir, 12345, 12345)
    memory_only(jit, cache)


def test_the_oldest_entries_go(jit, cache, monkeypatch):
    monkeypatch.setenv("FRIT_CACHE_MB", "1")
    jit.configure()
    for i in range(40):
        cache.put(f"k{i}", os.urandom(20000))
        for f in cache.files():             # a second older each time
            os.utime(f, (f.stat().st_atime, f.stat().st_mtime - 1))
    before = {f.name for f in cache.files()}
    assert len(before) == 40
    old = time.time() - 5000
    for i in range(0, 40, 2):               # a use makes an entry young again
        assert cache.get(f"k{i}")[0] == OK
    for f in cache.files():
        if time.time() - f.stat().st_mtime > 5:
            os.utime(f, (old, old))
    for i in range(3):
        cache.get(f"k{i}")                  # k0, k1, k2 are noted as used just now
    for i in range(40, 60):
        cache.put(f"k{i}", os.urandom(20000))
    total = sum(f.stat().st_size for f in cache.files())
    assert total <= 17 / 16 * 2**20 + 20100
    assert all(cache.get(f"k{i}")[0] == OK for i in (0, 1, 2, 57, 58, 59))


# ---- the manager and its helpers --------------------------------------------------------------------

def chain(k):
    """Nests that differ in k."""
    n = Nest()
    a = n.load("f32")
    x = a
    for i in range(8):
        x = n.op("add" if k >> i & 1 else "multiply", x, a)
    n.store(x)
    return n


def helper_pids():
    out = []
    for p in os.listdir("/proc"):
        try:
            if p.isdigit() and int(open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                if "frit-cc" in open(f"/proc/{p}/comm").read():
                    out.append(int(p))
        except OSError:
            pass
    return out


def leftovers(base=None):
    return [f for f in os.listdir(base or tempfile.gettempdir()) if f.startswith(f"frit-cc-{os.getpid()}-")]


@needs_compiler
def test_memory_and_disk(jit, tmp_path):
    start = jit.stats()
    answers = [jit.want(chain(k)) for k in (1, 2, 3, 1, 2, 3)]
    assert jit.wait()
    assert all(jit.c.test_answered(a) == 1 and jit.c.test_has_code(a) for a in answers)
    now = jit.stats()
    assert now["compiled"] - start["compiled"] == 3 and now["pending"] == 0
    jit.code(chain(1))
    assert jit.stats()["compiled"] == now["compiled"]
    files = sorted((tmp_path / "cache").glob("*.frit"))
    assert len(files) == 4                  # three kernels and which compiler made them
    assert "gccjit" not in open("/proc/self/maps").read()


def child(built, tmp_path, code, env):
    """Runs `code` in a process of its own, which knows this module as T and has `jit` configured."""
    prelude = f"""
import os, sys, time, signal, subprocess
jit = T.Jit({str(built)!r})
jit.configure()
"""
    env = {**os.environ, "FRIT_CACHE_DIR": str(tmp_path / "cache"), **env}
    return forked.run(prelude + code, env, "from tests import test_jit_parts as T", seconds=120)


def in_process(built, tmp_path, code, env={}):
    done = child(built, tmp_path, code, env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


@needs_compiler
def test_second_process_needs_no_helper(built, tmp_path):
    code = "[jit.code(T.chain(k)) for k in range(3)]; print(jit.stats()); jit.c.test_stop()"
    first = eval(in_process(built, tmp_path, code)[0])
    second = eval(in_process(built, tmp_path, code)[0])
    assert first["compiled"] == 3 and first["helpers"] >= 1
    assert second["hits"] == 3 and second["compiled"] == second["helpers"] == 0
    for f in (tmp_path / "cache").glob("*.frit"):
        b = bytearray(f.read_bytes())
        b[len(b) // 2] ^= 1
        f.write_bytes(b)
    third = eval(in_process(built, tmp_path, code)[0])
    assert third["compiled"] == 3 and third["hits"] == 0
    look = "a = jit.want(T.chain(77), 1); assert jit.wait(); print(jit.c.test_has_code(a), jit.stats()['helpers'])"
    assert in_process(built, tmp_path, look)[0].split() == ["0", "0"]


# ---- several kernels in one object

@needs_compiler
def test_kernels_that_wait_share_an_object(built, tmp_path):
    """And each has it as its own entry: the second process, which wants them in another order, compiles nothing."""
    code = """
import numpy as np
wanted = [T.chain(k) for k in {order}] + [T.softmax(), T.chain(1)]
answers = [jit.want(n) for n in wanted]
assert jit.wait()
for nest, a in zip(wanted, answers):
    assert jit.c.test_answered(a) == 1 and jit.c.test_has_code(a)
    T.against_ref(jit, nest, (3, 100), np.random.default_rng(2), a)
print(jit.stats()); jit.c.test_stop()
"""
    for helpers in ("1", "2"):
        env = {"FRIT_HELPERS": helpers, "FRIT_CACHE_DIR": str(tmp_path / helpers)}
        first = eval(in_process(built, tmp_path, code.format(order="range(30)"), env)[0])
        assert first["compiled"] == 31 and first["failed"] == 0
        assert 31 / 8 <= first["objects"] <= 15
        assert first["helpers"] == int(helpers)
        second = eval(in_process(built, tmp_path, code.format(order="reversed(range(30))"), env)[0])
        assert second["hits"] == 31 and second["compiled"] == second["helpers"] == second["bad"] == 0


PROXY = """#!{python} -IS
# Stands between the process and the real helper, and lets no object of several kernels come into being.
import os, socket, struct, subprocess, sys
parent = socket.socket(fileno=0)
ours, theirs = socket.socketpair()
helper = subprocess.Popen([{helper!r}, str(os.getpid()), sys.argv[2]], stdin=theirs)
theirs.close()

def read(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            os._exit(0)
        data += more
    return data

def frame(s):
    head = read(s, 16)
    return head, read(s, struct.unpack("=IIQ", head)[2])

parent.sendall(b"".join(frame(ours)))           # hello
while True:
    head, body = frame(parent)
    at = 4
    for _ in range(struct.unpack_from("=I", body)[0]):
        at = body.index(bytes(1), at) + 1
    if struct.unpack_from("=I", body, at)[0] > 1:
        {do}
    else:
        ours.sendall(head + body)
        parent.sendall(b"".join(frame(ours)))
"""
FAIL = 'parent.sendall(struct.pack("=IIQ", *struct.unpack_from("=I", head), 4, 4) + b"oops")'


@needs_compiler
@pytest.mark.parametrize("do", [FAIL, "os._exit(1)"], ids=["fails", "dies"])
def test_a_batch_that_fails_is_compiled_one_by_one(built, tmp_path, do):
    proxy = tmp_path / "proxy"
    proxy.write_text(PROXY.format(python=sys.executable, helper=os.path.join(built, "frit-cc"), do=do))
    proxy.chmod(0o700)
    out, _ = in_process(built, tmp_path, f"""
jit.configure(helper={str(proxy)!r})
answers = [jit.want(T.chain(k)) for k in range(12)]
assert jit.wait()
assert all(jit.c.test_answered(a) == 1 and jit.c.test_has_code(a) for a in answers), jit.stats()
print(jit.stats()); jit.c.test_stop()
""", {"FRIT_HELPERS": "1"})
    stats = eval(out)
    assert stats["compiled"] == stats["objects"] == 12 and stats["failed"] == 0


@needs_compiler
def test_helpers_are_isolated(built, tmp_path):
    """In a process of its own, which has no other helpers."""
    in_process(built, tmp_path, """
import tempfile
f = open(os.path.join(tempfile.gettempdir(), "secret"), "w")
os.set_inheritable(f.fileno(), True)
before = {s: signal.getsignal(s) for s in signal.valid_signals()}
jit.code(T.chain(5))
[pid] = T.helper_pids()
opened = {os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
assert not any("secret" in o for o in opened) and len(opened) == 3, opened
env = open(f"/proc/{pid}/environ").read().split("\\0")
assert "LC_ALL=C" in env and any(e.startswith("TMPDIR=") and "frit-cc-" in e for e in env)
assert not any(e.startswith("FRIT_") or e.startswith("PYTHON") for e in env)
[folder] = T.leftovers()
assert oct(os.stat(os.path.join(tempfile.gettempdir(), folder)).st_mode)[-3:] == "700"
assert os.getpgid(pid) == pid != os.getpgid(0)
jit.c.test_stop()
assert T.helper_pids() == [] and T.leftovers() == []
assert {s: signal.getsignal(s) for s in signal.valid_signals()} == before
""")


@needs_compiler
def test_a_killed_helper_costs_one_warning(jit):
    a = [jit.want(chain(k + 100)) for k in range(6)]
    deadline = time.time() + 20
    while not helper_pids() and time.time() < deadline:
        time.sleep(0.001)
    for pid in helper_pids():
        os.kill(pid, signal.SIGKILL)
    assert jit.wait()
    assert all(jit.c.test_answered(x) == 1 for x in a)
    assert all(jit.c.test_has_code(x) for x in a)
    assert jit.warnings().count("a compiler helper") <= 1


@needs_compiler
@pytest.mark.parametrize("later", [0, 0.003, 0.01, 0.03, 0.1])  # settling, loading, greeting, compiling, assembling
def test_the_parent_dies(built, tmp_path, later):
    code = f"""
jit.want(T.layer_norm())
while not T.helper_pids(): time.sleep(0.0005)
time.sleep({later})
print(*T.helper_pids(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = child(built, tmp_path, code, {"TMPDIR": str(tmp_path)})
    pids = list(map(int, done.stdout.split()))
    assert pids, done.stderr
    deadline = time.time() + 10
    while any(os.path.exists(f"/proc/{p}") for p in pids) and time.time() < deadline:
        time.sleep(0.01)
    assert not any(os.path.exists(f"/proc/{p}") for p in pids)
    while list(tmp_path.glob("frit-cc-*")) and time.time() < deadline:
        time.sleep(0.01)
    assert list(tmp_path.glob("frit-cc-*")) == []


@needs_compiler
def test_fork(built, tmp_path):
    in_process(built, tmp_path, """
done = [jit.code(T.chain(k)) for k in range(2)]
busy = [jit.want(T.chain(k)) for k in range(20, 26)]
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        ok = jit.wait(60)                       # what was under way is done here, too
        ok = ok and all(jit.c.test_has_code(a) for a in busy)
        ok = ok and jit.c.test_has_code(jit.code(T.chain(50)))
        jit.c.test_stop()
        os._exit(0 if ok and not T.leftovers() else 1)
    assert os.waitpid(pid, 0)[1] == 0
assert jit.wait()
assert all(jit.c.test_answered(a) == 1 and jit.c.test_has_code(a) for a in busy)
jit.code(T.chain(51))
jit.c.test_stop()
assert not T.leftovers() and not T.helper_pids()
""")


@needs_compiler
def test_children_ignored_by_the_process(built, tmp_path):
    in_process(built, tmp_path, """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
jit.code(T.chain(1)); jit.c.test_stop()
assert not T.helper_pids() and not T.leftovers()
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
jit.code(T.chain(2))
for pid in T.helper_pids(): os.kill(pid, 9)
try:
    os.waitpid(-1, 0)                           # somebody else takes our child's status
except ChildProcessError:
    pass
jit.code(T.chain(3)); jit.c.test_stop()
assert not T.leftovers()
""")


@needs_compiler
def test_exit_in_the_middle(built, tmp_path):
    for how in ("sys.exit(0)", "os._exit(0)", "jit.c.test_stop()"):
        in_process(built, tmp_path, f"a = [jit.want(T.chain(k + 60)) for k in range(8)]; time.sleep(0.05); {how}")


@needs_compiler
def test_descriptors_closed_behind_our_back(built, tmp_path):
    in_process(built, tmp_path, """
jit.code(T.chain(1))
os.closerange(3, 256)                           # as daemons do
jit.code(T.chain(2)); jit.code(T.chain(3))
jit.c.test_stop()
""")


def test_no_compiler(built, tmp_path):
    code = """
a, b = jit.want(T.chain(1)), jit.want(T.softmax())
assert jit.wait() and jit.c.test_answered(a) == 1 and not jit.c.test_has_code(a) and not jit.c.test_has_code(b)
c = jit.want(T.chain(2)); assert jit.wait() and not jit.c.test_has_code(c)
print(jit.unavailable().decode()); print(jit.stats()["helpers"])
jit.c.test_stop(); assert not T.leftovers()
"""
    out, err = in_process(built, tmp_path, "jit.configure(helper='/nowhere/frit-cc')\n" + code)
    assert "/nowhere/frit-cc" in out and err.count("kernels are interpreted") == 1
    out, err = in_process(built, tmp_path, "jit.configure(helper='/bin/true')\n" + code)
    assert "does not start" in out
    fake = tmp_path / "libgccjit.so.0"
    fake.write_text("not a library")
    for path in (str(fake), "/nowhere/libgccjit.so.0"):
        out, err = in_process(built, tmp_path, code, {"FRIT_GCCJIT": path})
        assert path in out and err.count("kernels are interpreted") == 1, (out, err)


@needs_compiler
def test_no_assembler(built, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    code = f"os.environ['PATH'] = {str(empty)!r}; os.environ['COMPILER_PATH'] = {str(empty)!r}; jit.configure()\n" + """
a = jit.want(T.chain(1)); assert jit.wait(); has = jit.c.test_has_code(a)
print(has, jit.unavailable())
b = jit.want(T.chain(2)); assert jit.wait(); assert jit.c.test_has_code(b) == has
jit.c.test_stop(); assert not T.leftovers()
"""
    out, err = in_process(built, tmp_path, code)
    assert out.startswith("1 None") or "`as`" in out, (out, err)


def test_failing_calls(built, tmp_path):
    """Every allocation and system call of a compilation fails once: an answer always comes, nothing leaks."""
    out, err = in_process(built, tmp_path, """
import shutil
jit.wait()
have = jit.unavailable() is None
outcomes = []
for n in range(1, 400):
    shutil.rmtree(os.environ["FRIT_CACHE_DIR"], ignore_errors=True)
    jit.configure()
    nest = T.chain(n % 256)
    nest.store(nest.load("f64"))                # not one that is in memory
    for _ in range(n // 256): nest.store(nest.load("f64"))
    a = jit.nest(nest)
    live = jit.c.test_live()
    jit.c.test_fail_at(n)
    jit.c.test_want(a, 0)
    assert jit.wait(), n
    calls = jit.c.test_fail_count()
    jit.c.test_fail_at(0)
    assert jit.c.test_answered(a) == 1, n
    jit.c.test_stop()
    assert not T.leftovers() and not T.helper_pids(), n
    outcomes.append(jit.c.test_has_code(a))
    # What is kept of a kernel lives on: what is known of it, its object, where that is; for the first a region, and a list.
    assert jit.c.test_live() - live <= 5, (n, jit.c.test_live() - live)
    if calls < n: break
print(n, sum(outcomes))
""", {"FRIT_QUIET": "1"})
    n, good = map(int, out.split())
    assert n > 10 and n < 399
