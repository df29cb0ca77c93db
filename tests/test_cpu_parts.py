"""The parts of backends/cpu that kernels are made of, against NumPy: folds, copies, scans, memory, threads.

They are compiled here, into one shared object of their own, and called through ctypes; neither the extension nor the
generated kernels are needed.
"""

import ctypes as C
import functools
import mmap
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from . import numpy_order
from .common import SOAK

ROOT = Path(__file__).parent.parent
CPU = ROOT / "csrc/backends/cpu"
FLAGS = "-std=gnu11 -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno -fno-trapping-math -fPIC".split()
X86 = platform.machine() in ("x86_64", "AMD64")
DTYPES = {
    "bool": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2", "u32": "u4",
    "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16",
}  # fmt: skip
REDUCES = ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]
SIZES = [*range(68), 127, 128, 129, 255, 256, 257, 300, 511, 1000, 1023, 1025, 4096, 5001, 20000]

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def built(source, level):
    """What setup.py made of a source for this level, if that is not older than what it is made of."""
    changed = max(f.stat().st_mtime for f in [source, *(ROOT / "csrc").rglob("*.h")])
    objects = ROOT.glob(f"build/temp.*/release/obj-{level}/backends/cpu/{source.name}.o")
    return next((str(o) for o in objects if o.stat().st_mtime >= changed), None)


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    out = tmp_path_factory.mktemp("cpu_parts")
    jobs, objects = [], []
    for level in ["generic", "v2", "v3", "v4", "v4_vbmi"] if X86 else ["generic"]:
        arch = [] if level == "generic" else [f"-march=x86-64-{level[:2]}"]
        if level == "v4_vbmi":
            arch.append("-mavx512vbmi")
        for source in sorted(CPU.glob("shuffle.inc.c" if level == "v4_vbmi" else "*.inc.c")):
            if found := built(source, level):
                objects.append(found)
                continue
            objects.append(str(out / f"{source.name}_{level}.o"))
            # fmt: off
            jobs.append(["cc", *FLAGS, "-O2", *arch, f"-DFR_LEVEL={level}", "-I", str(ROOT / "csrc"), "-c",
                         str(source), "-o", objects[-1]])
            # fmt: on
    parts = [CPU / f"{n}.c" for n in ("reduce", "isa", "memory", "runs", "mapping", "pool", "copy", "scan")]
    parts += [ROOT / "csrc/backends/hooks.c", *(ROOT / "csrc/base").glob("*.c"), ROOT / "csrc/core/dtype.c", ROOT / "csrc/ir/op.c"]
    for k in range(0, len(jobs), 2):
        running = [subprocess.Popen(j) for j in jobs[k : k + 2]]
        assert all(p.wait() == 0 for p in running)
    so = str(out / "cpu_parts.so")
    # fmt: off
    subprocess.run(["cc", *FLAGS, "-O2", "-ftree-vectorize", "-shared", "-I", str(ROOT / "csrc"), "-o", so,
                    str(ROOT / "tests/c/test_cpu.c"), *map(str, parts), *objects, "-lpthread", "-lm"], check=True)
    # fmt: on
    lib = C.CDLL(so)
    for name in ("t_isa",):
        getattr(lib, name).restype = C.c_char_p
    lib.fr_memory_alloc.restype = C.c_void_p
    lib.fr_tree_count.restype = C.c_int64
    lib.fr_alloc_live.restype = lib.fr_alloc_count.restype = C.c_long
    lib.fr_cpu_isa_all.restype = lib.fr_cpu_features.restype = C.POINTER(C.c_char_p)
    lib.fr_env_load()
    lib.t_isa(b"")
    yield lib
    lib.fr_pool_stop()


@pytest.fixture(params=["generic", "v2", "v3", "v4"])
def level(request, lib):
    if request.param not in strings(lib.fr_cpu_isa_all()):
        pytest.skip("this processor has no such level")
    return request.param.encode()


def strings(p):
    out = []
    while p[len(out)]:
        out.append(p[len(out)].decode())
    return out


def ptr(a, offset=0):
    return C.c_void_p(a.ctypes.data + offset)


def n_(x):
    return C.c_size_t(int(x))


def i_(x):
    return C.c_int64(int(x))


def code(lib, op, dtype):
    return lib.t_op(op.encode()), lib.t_dtype(dtype.encode())


def acc_dtype(op, d):
    if op in ("any", "all"):
        return np.dtype("?")
    if d == "bool" and op == "sum":
        return np.dtype("i8")
    if d == "f16" and op in ("sum", "prod"):
        return np.dtype("f4")
    return np.dtype(DTYPES[d])


def data(rng, d, n, kind=None):
    """Random elements; kind 1 has specials, kind 2 has only zeros of both signs."""
    t = np.dtype(DTYPES[d])
    kind = int(rng.integers(3)) if kind is None else kind
    if t.kind == "b":
        return rng.random(n) < rng.choice([0, 0.01, 0.5, 0.99, 1])
    if t.kind in "iu":
        x = rng.integers(np.iinfo(t).min, np.iinfo(t).max, n, dtype=t, endpoint=True)
        return (x % 3).astype(t) if kind == 2 else x
    x = rng.standard_normal(n) * np.exp(rng.uniform(-4, 4, n))
    if kind == 2:
        x = np.where(rng.random(n) < 0.5, 0.0, -0.0)
    elif t.kind == "c":
        x = x + 1j * rng.standard_normal(n)
    x = x.astype(t)
    if kind == 1 and n:
        v = x.view(x.real.dtype)
        for s in (np.nan, np.inf, -np.inf, -0.0, 0.0, -np.nan):
            if rng.random() < 0.3:
                v[rng.integers(len(v))] = s
    return x


def same(a, b):
    """Equal bits; any two NaNs are equal."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind not in "fc":
        return False
    a, b = (np.ascontiguousarray(v).reshape(-1).view(v.real.dtype) for v in (a, b))
    bits = f"u{a.itemsize}"
    return bool(((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all())


def fold_of(op, x):
    """What the fold of reduce.h is defined to be, by NumPy."""
    wide = x.astype("f4") if x.dtype == np.float16 else x
    if op == "sum" and x.dtype == bool:
        return np.count_nonzero(x)
    with np.errstate(all="ignore"):
        if op == "sum":
            if x.dtype == np.float16:
                return numpy_order.tree(wide)
            zero = {"f": -0.0, "c": complex(-0.0, -0.0)}.get(x.dtype.kind, 0)
            return np.sum(x, dtype=x.dtype, initial=x.dtype.type(zero))
        if op == "prod":
            return np.prod(wide, dtype=wide.dtype)
        if op == "max":
            return np.maximum.accumulate(x)[-1]
        if op == "min":
            return np.minimum.accumulate(x)[-1]
        if op in ("any", "all"):
            return getattr(np, op)(x)
        return x[getattr(np, op)(x)]


# ---- folds


@functools.cache
def folds(op):
    """Rows of every dtype and size with their fold, which is the same for each level."""
    rng, out = np.random.default_rng(1), []
    for d in DTYPES:
        for n in SIZES:
            if n == 0 and op in ("max", "min", "argmax", "argmin"):
                continue
            x = data(rng, d, n)
            out.append((d, x, None if d == "bool" and op == "prod" else np.asarray(fold_of(op, x)).astype(acc_dtype(op, d)),
                        getattr(np, op)(x) if op in ("argmax", "argmin") else None))
    return out


@pytest.mark.parametrize("op", REDUCES)
def test_folds(lib, level, op):
    for d, x, want, at in folds(op):
        out, index = np.zeros(1, acc_dtype(op, d)), np.zeros(1, "i8")
        there = lib.t_fold(level, *code(lib, op, d), n_(len(x)), ptr(x), ptr(out), ptr(index))
        assert bool(there) == (want is not None)
        if there:
            assert same(out[0], want), (d, len(x), x[:20], out)
            assert at is None or index[0] == at, (d, len(x))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_folds_of_products(lib, level, dtype):
    rng = np.random.default_rng(2)
    for n in SIZES:
        x, y = data(rng, dtype, n), data(rng, dtype, n)
        out = np.zeros(1, x.dtype)
        for a, b in ((x, y), (x, x)):
            lib.t_fold_products(level, dtype == "f64", n_(n), ptr(a), ptr(b), ptr(out))
            with np.errstate(all="ignore"):
                assert same(out[0], fold_of("sum", a * b)), n


@pytest.mark.parametrize("op", REDUCES)
def test_folds_by_pieces(lib, op):
    """Any cut along the tree gives the whole; one that is no cut of the tree would not."""
    rng = np.random.default_rng(2)
    for d in DTYPES:
        if (d == "bool" and op == "prod") or (op == "prod" and d[0] in "fc"):
            continue
        codes = code(lib, op, d)
        for n in [1, 7, 100, 129, 256, 257, 1000, 1023, 4096, 4097, 20000, 65536]:
            x = data(rng, d, n)
            whole, at = np.zeros(1, acc_dtype(op, d)), np.zeros(1, "i8")
            lib.t_fold(b"generic", *codes, n_(n), ptr(x), ptr(whole), ptr(at))
            for largest, inner in ((128, 0), (200, 0), (1000, 128), (5000, 300)):
                out, index = np.zeros(1, whole.dtype), np.zeros(1, "i8")
                lib.t_fold_tree(b"generic", *codes, i_(n), i_(largest), i_(inner), ptr(x), ptr(out), ptr(index))
                assert same(out, whole) and index[0] == at[0], (d, n, largest, inner)


@pytest.mark.parametrize("op", REDUCES)
def test_folds_of_rows(lib, level, op):
    rng = np.random.default_rng(3)
    for d in DTYPES:
        if d == "bool" and op == "prod":
            continue
        codes = code(lib, op, d)
        for n in [*range(1, 36), 64, 100, 128, 129, 300]:
            rows = int(rng.integers(0, 14))
            x = data(rng, d, n * rows)
            out, index = np.zeros(rows, acc_dtype(op, d)), np.zeros(rows, "i8")
            lib.t_fold_rows(level, *codes, n_(rows), n_(n), ptr(x), ptr(out), ptr(index))
            for t in range(rows):
                row = x[t * n : t * n + n]
                assert same(out[t], np.asarray(fold_of(op, row)).astype(out.dtype)), (d, n, t)
                if op in ("argmax", "argmin"):
                    assert index[t] == getattr(np, op)(row)


@pytest.mark.parametrize("op", REDUCES)
def test_accumulations(lib, level, op):
    pair = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or,
            "all": np.logical_and}  # fmt: skip
    rng = np.random.default_rng(4)
    for d in DTYPES:
        if d == "bool" and op in ("sum", "prod"):
            continue
        codes = code(lib, op, d)
        for n in [*range(20), 31, 32, 33, 64, 100, 257]:
            rows, pad = int(rng.integers(0, 600 if n in (2, 9) else 61)), int(rng.integers(0, 3))
            x = data(rng, d, (n + pad) * rows).reshape(rows, n + pad)
            acc = data(rng, "bool" if op in ("any", "all") else d, n, 0)
            index = np.full(n, -1, "i8")
            want, at = acc.copy(), index.copy()
            for t in range(rows):
                row = x[t, :n]
                with np.errstate(all="ignore"):
                    if op in pair:
                        want = pair[op](want, row).astype(acc.dtype)
                    else:
                        wins = getattr(np, op)(np.stack([want, row]), axis=0) == 1
                        want, at = np.where(wins, row, want), np.where(wins, 100 + t, at)
            stride = C.c_ssize_t((n + pad) * x.itemsize)
            lib.t_accum(level, *codes, n_(rows), n_(n), ptr(acc), ptr(x), stride, ptr(index), i_(100))
            assert same(acc, want), (d, n, rows)
            if op in ("argmax", "argmin"):
                assert (index == at).all()


def test_identities_and_results(lib):
    for op in REDUCES:
        for d in DTYPES:
            if d == "bool" and op in ("sum", "prod"):
                continue
            o, t = code(lib, op, d)
            rng = np.random.default_rng(5)
            acc_d = acc_dtype(op, d)
            names = {np.dtype(v): k for k, v in DTYPES.items()}
            one, index = np.zeros(3, acc_d), np.full(3, 9, "i8")
            lib.fr_reduce_identity(o, lib.t_dtype(names[acc_d].encode()), n_(3), ptr(one), ptr(index))
            assert (index == 0).all()
            x = data(rng, d, 1, 0)
            acc, at = np.zeros(1, acc_d), np.zeros(1, "i8")
            lib.t_fold(b"generic", o, t, n_(1), ptr(x), ptr(acc), ptr(at))
            seven = np.full(1, 7, "i8")
            lib.fr_reduce_combine(o, t, ptr(one), ptr(index), ptr(acc), ptr(seven))
            if op[:3] == "arg":
                assert index[0] == 7 or one[0] == one[1]
            assert same(one[0], acc[0])
    for d in ("f16", "f32", "f64", "c64", "c128"):
        o, t = code(lib, "sum", d)
        acc, out = np.array([-0.0], acc_dtype("sum", d)), np.ones(1, DTYPES[d])
        lib.fr_reduce_finish(o, t, ptr(acc), None, ptr(out))
        assert same(out, np.zeros(1, DTYPES[d]))
    o, t = code(lib, "argmax", "f32")
    out = np.zeros(1, "i8")
    lib.fr_reduce_finish(o, t, ptr(np.ones(1, "f4")), ptr(np.full(1, 5)), ptr(out))
    assert out[0] == 5


def test_tree_counts(lib):
    for n in (0, 1, 128, 129, 1000, 12345, 1 << 20):
        for largest in (128, 1000, 4096):
            pieces = lib.fr_tree_count(i_(n), i_(largest), False)
            assert max(1, n // largest) <= pieces <= max(1, 2.2 * n / largest + 1)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.3.0", reason="its iterator cuts rows otherwise")
def test_model_is_numpy():
    assert numpy_order.check(2000 if SOAK else 800, seed=11) == 0
    assert numpy_order.check_moments(500 if SOAK else 200, seed=12) == 0


# ---- copies


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_gather_scatter_fill(lib, level, size):
    lib.t_isa(level)
    rng = np.random.default_rng(6)
    t = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[size]
    for n in [0, 1, 2, 3, 5, 8, 17, 64, 100, 1000]:
        for step in [0, 1, 2, 3, 4, 5, 7, -1, -2, -3, 33]:
            for skew in (0, 1):  # unaligned too
                span = max(n - 1, 0) * abs(step) + 1
                raw = rng.integers(0, 256, (span + 1) * size + 1).astype("u1")
                src = raw[skew : skew + span * size].view(t)
                first = span - 1 if step < 0 else 0
                want = src[first + np.arange(n) * step] if n else src[:0]
                out = np.zeros(n * size + 1, "u1")
                lib.fr_copy_gather(n_(n), size, ptr(out, skew), ptr(src, first * size), C.c_ssize_t(step * size))
                assert out[skew : skew + n * size].tobytes() == want.tobytes()
                if step == 0:
                    lib.fr_copy_fill(n_(n), size, ptr(out, skew), ptr(src))
                    assert out[skew : skew + n * size].tobytes() == want.tobytes()
                    continue
                back, expect = np.zeros_like(raw), np.zeros_like(raw)
                v = expect[skew : skew + span * size].view(t)
                if n:
                    v[first + np.arange(n) * step] = want
                at = ptr(back, skew + first * size)
                lib.fr_copy_scatter(n_(n), size, at, C.c_ssize_t(step * size), ptr(out, skew))
                assert (back == expect).all()


@pytest.fixture
def one_page():
    """Random bytes between pages that nobody may read."""
    page = mmap.PAGESIZE
    raw = np.frombuffer(mmap.mmap(-1, 3 * page), "u1")
    raw[:] = np.random.default_rng(9).integers(0, 256, 3 * page)
    for at in (0, 2 * page):
        assert C.CDLL(None).mprotect(ptr(raw, at), C.c_size_t(page), 0) == 0
    yield raw[page : 2 * page]
    for at in (0, 2 * page):
        assert C.CDLL(None).mprotect(ptr(raw, at), C.c_size_t(page), 3) == 0


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_gather_reads_nothing_behind_the_last(lib, level, one_page, size):
    lib.t_isa(level)
    src = one_page.view(f"u{size}")
    for n in (1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129):
        for step in (-1, 2, 3, 4):
            if (n - 1) * abs(step) + 1 > len(src):
                continue
            first = n - 1 if step < 0 else len(src) - (n - 1) * step - 1
            want = src[first + np.arange(n) * step]
            out = np.zeros(n, src.dtype)
            lib.fr_copy_gather(n_(n), size, ptr(out), ptr(src, first * size), C.c_ssize_t(step * size))
            assert out.tobytes() == want.tobytes(), (n, step)


@pytest.mark.parametrize("d", ["i8", "u16", "i32", "f32", "f64"])
def test_rows_read_nothing_behind_the_last(lib, level, one_page, d):
    for op in ("max", "argmin"):
        for n in (1, 2, 3, 5, 7, 10, 15, 31, 33, 70):
            for rows in (1, 2, 7):
                x = one_page.view(DTYPES[d])[-n * rows :].reshape(rows, n)
                out, index = np.zeros(rows, x.dtype), np.zeros(rows, "i8")
                lib.t_fold_rows(level, *code(lib, op, d), n_(rows), n_(n), ptr(x), ptr(out), ptr(index))
                want = getattr(x, op)(1)
                assert (index == want).all() if op == "argmin" else same(out, want), (op, n, rows)


@pytest.mark.parametrize("d", ["i8", "u16", "i32", "f32", "f64"])
def test_columns_read_nothing_behind_the_last(lib, level, one_page, d):
    for n in (1, 2, 3, 5, 7, 10, 15, 31, 33, 70):
        for rows in (1, 9, 12, 20, 50):
            x = one_page.view(DTYPES[d])[-n * rows :]
            if len(x) < n * rows:
                continue
            x = x.reshape(rows, n)
            acc, index = x[0].copy(), np.zeros(n, "i8")
            lib.t_accum(level, *code(lib, "argmax", d), n_(rows), n_(n), ptr(acc), ptr(x), C.c_ssize_t(n * x.itemsize),
                        ptr(index), i_(0))
            assert (index == x.argmax(0)).all(), (n, rows)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_copy_2d(lib, size):
    rng = np.random.default_rng(7)
    t = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}[size]
    shapes = [(0, 5), (1, 1), (1, 9), (9, 1), (3, 4), (8, 8), (16, 24), (33, 65), (70, 31), (130, 67), (257, 9)]

    def window(rows, cols):
        """A view in some layout of memory that is all 0x5a."""
        memory = np.full((rows + 3) * (cols + 3) * 4 * size, 0x5A, "u1").view(t)
        step = int(rng.integers(1, 3))
        if rng.random() < 0.5:
            v = memory[: rows * (cols + 1) * 2].reshape(rows, (cols + 1) * 2)[:, ::step][:, :cols]
        else:
            v = memory[: cols * (rows + 1) * 2].reshape(cols, (rows + 1) * 2)[:, ::step][:, :rows].T
        if rng.random() < 0.3:
            v = v[::-1]
        if rng.random() < 0.3:
            v = v[:, ::-1]
        return v, memory

    for rows, cols in shapes:
        for _ in range(12):
            (src, _), (dst, memory) = window(rows, cols), window(rows, cols)
            src[...] = rng.integers(0, 256, rows * cols * size).astype("u1").view(t).reshape(rows, cols)
            if rng.random() < 0.2 and rows:
                src = np.broadcast_to(src[:1] if rng.random() < 0.5 else src[:, :1], (rows, cols))
            strides = map(C.c_ssize_t, dst.strides + src.strides)
            d_row, d_col, s_row, s_col = strides
            lib.fr_copy_2d(n_(rows), n_(cols), size, ptr(dst), d_row, d_col, ptr(src), s_row, s_col)
            assert dst.tobytes() == src.tobytes(), (rows, cols, dst.strides, src.strides)
            dst[...] = np.full(size, 0x5A, "u1").view(t)
            assert (memory.view("u1") == 0x5A).all()


# ---- scans

SHAPES = [(0,), (1,), (7,), (1000,), (3, 5), (5, 0), (4, 300), (300, 4), (70, 65), (9, 1, 130), (3, 4, 5, 6)]
SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def run_scan(lib, op, d, x, out, axis):
    rest = [k for k in range(x.ndim) if k != axis]
    outer, row = rest[:-1], rest[-1:]
    order = [*outer, *row, axis]
    strides = []
    for a in (x, out):
        s = [a.strides[k] for k in order]
        strides += s if row else [0, *s]
    dims = np.array([x.shape[k] for k in outer] + [0], "i8")
    return lib.t_scan(*code(lib, op, d), len(outer), ptr(dims), i_(x.shape[row[0]] if row else 1), i_(x.shape[axis]),
                      ptr(x), ptr(out), ptr(np.array(strides, "i8")))  # fmt: skip


@pytest.mark.parametrize("op", SCANS)
def test_scans(lib, op):
    rng = np.random.default_rng(8)
    for d in DTYPES:
        if d == "bool" and op in ("cumsum", "cumprod"):
            continue
        for shape in SHAPES:
            x = data(rng, d, int(np.prod(shape))).reshape(shape)
            if rng.random() < 0.5:
                x = x.transpose(rng.permutation(x.ndim))
            if rng.random() < 0.3:
                x = x[::-1]
            for axis in range(x.ndim):
                with np.errstate(all="ignore"):
                    want = SCANS[op].accumulate(x, axis=axis, dtype=x.dtype)
                out = np.empty(x.shape, x.dtype, order=rng.choice(["C", "F"]))
                assert run_scan(lib, op, d, x, out, axis) == 0
                assert same(np.ascontiguousarray(out), np.ascontiguousarray(want)), (d, x.shape, axis)
                if x.flags.writeable:
                    y = x.copy(order="K")
                    run_scan(lib, op, d, y, y, axis)
                    assert same(np.ascontiguousarray(y), np.ascontiguousarray(want)), ("in place", d, x.shape, axis)


# ---- levels


def test_levels(lib):
    try:
        levels = strings(lib.fr_cpu_isa_all())
        assert levels[0] == "generic" and lib.t_isa(b"").decode() == levels[-1]
        counts = []
        for name in levels:
            assert lib.t_isa(name.encode()).decode() == name
            counts.append(len(strings(lib.fr_cpu_features())))
        assert counts == sorted(counts) and counts[0] == 0
        assert lib.t_isa(b"v9").decode() == levels[-1]
        flags = Path("/proc/cpuinfo").read_text().split() if X86 else []
        assert ("avx2" in flags) == ("v3" in levels) and ("avx512vl" in flags) == ("v4" in levels)
    finally:
        lib.t_isa(b"")


def test_features_are_options_of_the_compiler(lib, tmp_path):
    (tmp_path / "a.c").write_text("int a;\n")
    cmd = ["cc", *strings(lib.fr_cpu_features()), "-c", str(tmp_path / "a.c"), "-o", str(tmp_path / "a.o")]
    assert subprocess.run(cmd).returncode == 0


# ---- memory


class Stats(C.Structure):
    _fields_ = [(n, C.c_uint64) for n in ("live_bytes", "peak_bytes", "pooled_bytes", "n_allocs", "n_system", "n_copies_in",
                                       "n_copies_out")]


def memory_stats(lib):
    s = Stats()
    lib.fr_memory_stats(C.byref(s))
    return s


def test_memory_reuses_and_counts(lib):
    lib.fr_memory_trim()
    base = memory_stats(lib)
    sizes = [0, 1, 63, 64, 65, 1000, 1024, 1025, 5000, 32768, 32769, 100000, (2 << 20) - 1, 2 << 20, 5 << 20, 40 << 20]
    blocks = [lib.fr_memory_alloc(n_(n)) for n in sizes]
    assert all(blocks) and len(set(blocks)) == len(blocks)
    for p, n in zip(blocks, sizes):
        assert p % 64 == 0 and (n < 2 << 20 or 64 < p % (2 << 20) < 4096)
        C.memset(p, 0xA5, -(-n // 64) * 64)  # padded to a multiple of 64
    s = memory_stats(lib)
    assert s.live_bytes - base.live_bytes == sum(sizes) and s.n_allocs - base.n_allocs == len(sizes)
    lib.fr_memory_reset_peak()
    for p, n in zip(blocks, sizes):
        lib.fr_memory_free(C.c_void_p(p), n_(n))
    t = memory_stats(lib)
    assert t.live_bytes == base.live_bytes and t.peak_bytes == s.live_bytes and t.pooled_bytes >= sum(sizes)
    again = [lib.fr_memory_alloc(n_(n)) for n in reversed(sizes)]
    assert sorted(again) == sorted(blocks)  # most recently used first
    assert memory_stats(lib).n_system == t.n_system
    for p, n in zip(again, reversed(sizes)):
        lib.fr_memory_free(C.c_void_p(p), n_(n))
    lib.fr_memory_trim()
    assert memory_stats(lib).pooled_bytes == base.pooled_bytes


def test_blocks_begin_at_other_places_of_a_page(lib):
    """So that what is stored into one has not the low bits of the address of what is loaded from the next."""
    lib.fr_memory_trim()
    blocks = [(lib.fr_memory_alloc(n_(n)), n) for n in [4 << 20] * 5 + [4096]]
    places = [p % 4096 for p, _ in blocks]
    assert all(512 <= abs(a - b) <= 4096 - 512 for i, a in enumerate(places) for b in [0, *places[:i]]), places
    for p, n in blocks:
        lib.fr_memory_free(C.c_void_p(p), n_(n))
    lib.fr_memory_trim()


def resident(addresses):
    """How many pages of the range are in memory."""
    lowest, highest = addresses
    n = (highest - lowest) // 4096
    pages = (C.c_ubyte * n)()
    libc = C.CDLL(None, use_errno=True)
    assert libc.mincore(C.c_void_p(lowest), C.c_size_t(highest - lowest), pages) == 0
    return sum(p & 1 for p in pages)


def test_small_blocks_of_all_sizes_share_few_huge_pages(lib):
    """A huge page is not ready at once, so that another size asked for first should rarely need one."""
    lib.fr_memory_trim()
    sizes = sorted({*range(64, 1025, 64), *range(1280, 8193, 256)})
    before = memory_stats(lib)
    blocks = {size: [lib.fr_memory_alloc(n_(size)) for _ in range(3)] for size in [*sizes, 12_000, 16_384, 32_768]}
    every = [p for of_one in blocks.values() for p in of_one]
    assert memory_stats(lib).n_system - before.n_system <= 1
    assert len({p >> 21 for p in every}) <= 3
    assert len({p >> 21 for size in sizes for p in blocks[size]}) <= 2
    taken = sorted((p, p + size) for size, of_one in blocks.items() for p in of_one)
    assert all(end <= start for (_, end), (start, _) in zip(taken, taken[1:]))
    for size, of_one in blocks.items():
        for p in of_one:
            C.memset(p, 0xA5, size)
            lib.fr_memory_free(C.c_void_p(p), n_(size))
    lib.fr_memory_trim()
    assert memory_stats(lib).pooled_bytes == before.pooled_bytes


def test_middle_blocks_share_regions_and_are_given_back(lib):
    lib.fr_memory_trim()
    size, n = 256 << 10, 64                         # three regions: 31 in each, as one page is the region's own
    before = memory_stats(lib)
    blocks = [lib.fr_memory_alloc(n_(size)) for _ in range(n)]
    assert memory_stats(lib).n_system - before.n_system <= 3
    for p in blocks:
        assert p % 4096 == 0
        C.memset(p, 0xA5, size)
    assert all(resident((p, p + size)) == 64 for p in blocks)
    held = [next(p for p in blocks if p >> 23 == region) for region in {p >> 23 for p in blocks}]
    for p in set(blocks) - set(held):
        lib.fr_memory_free(C.c_void_p(p), n_(size))
    lib.fr_memory_trim()                            # one block of each region is in use: the others lose their memory
    assert memory_stats(lib).pooled_bytes == before.pooled_bytes
    assert all(resident((p, p + size)) == (64 if p in held else 0) for p in blocks)
    asked = memory_stats(lib).n_system
    again = [lib.fr_memory_alloc(n_(size)) for _ in range(n - len(held))]
    assert sorted(again + held) == sorted(blocks) and memory_stats(lib).n_system == asked
    for p in again + held:
        C.memset(p, 0x5A, size)
        lib.fr_memory_free(C.c_void_p(p), n_(size))
    lib.fr_memory_trim()                            # and now the regions are gone
    assert memory_stats(lib).pooled_bytes == before.pooled_bytes


def test_middle_blocks_of_all_sizes_use_the_same_pages(lib):
    """What was freed last is in the caches, whatever size comes next."""
    lib.fr_memory_trim()
    sizes = [40_000, 1_000_000, 240_000, 120_000, 32_769, 500_000, 240_001, 1_500_000]
    first = lib.fr_memory_alloc(n_(sizes[0]))
    lib.fr_memory_free(C.c_void_p(first), n_(sizes[0]))
    asked = memory_stats(lib)
    highest = 0
    for size in sizes[1:] * 3:
        p = lib.fr_memory_alloc(n_(size))
        assert p == first
        C.memset(p, 1, size)
        highest = max(highest, size)
        lib.fr_memory_free(C.c_void_p(p), n_(size))
        assert memory_stats(lib).pooled_bytes - asked.pooled_bytes <= highest + 4096
    a, b, c = (lib.fr_memory_alloc(n_(200_000)) for _ in range(3))
    for p in (a, c, b):                             # the last one joins what is free on either side
        lib.fr_memory_free(C.c_void_p(p), n_(200_000))
    assert lib.fr_memory_alloc(n_(600_000)) == a
    lib.fr_memory_free(C.c_void_p(a), n_(600_000))
    assert memory_stats(lib).n_system == asked.n_system
    lib.fr_memory_trim()


def test_many_regions(lib):
    """Blocks of all sizes in a hundred regions, freed in any order, lie apart and come back."""
    lib.fr_memory_trim()
    base = memory_stats(lib)
    rng = np.random.default_rng(5)
    sizes = rng.integers(32_769, 1_790_000, 1_000).tolist()
    blocks = [lib.fr_memory_alloc(n_(size)) for size in sizes]
    assert memory_stats(lib).n_system - base.n_system < 1.25 * sum(sizes) / (8 << 20)
    live = dict(zip(blocks, sizes))
    for k in rng.permutation(1_000)[:600].tolist():
        lib.fr_memory_free(C.c_void_p(blocks[k]), n_(live.pop(blocks[k])))
    mapped = memory_stats(lib).n_system
    for size in rng.integers(32_769, 200_000, 1_500).tolist():
        live[lib.fr_memory_alloc(n_(size))] = size
    assert memory_stats(lib).n_system == mapped       # they fit between the others
    taken = sorted((p, p + size) for p, size in live.items())
    assert len(taken) == 1_900 and all(end <= start for (_, end), (start, _) in zip(taken, taken[1:]))
    for p, size in live.items():
        lib.fr_memory_free(C.c_void_p(p), n_(size))
    lib.fr_memory_trim()
    assert memory_stats(lib).pooled_bytes == base.pooled_bytes


def test_memory_pool_is_capped(lib):
    lib.fr_memory_trim()
    blocks = [lib.fr_memory_alloc(n_(100 << 20)) for _ in range(12)]
    for p in blocks:
        lib.fr_memory_free(C.c_void_p(p), n_(100 << 20))
    high = memory_stats(lib).pooled_bytes
    assert high <= 13 * (112 << 20)
    for _ in range(1200):  # nobody asks for so much again: it is given back
        p = lib.fr_memory_alloc(n_(100 << 20))
        lib.fr_memory_free(C.c_void_p(p), n_(100 << 20))
    assert memory_stats(lib).pooled_bytes <= 256 << 20
    lib.fr_memory_trim()


def test_memory_of_a_loop_stays(lib):
    """What was left by work before it goes first, and one block is taken while another of its size is still held."""
    lib.fr_memory_trim()
    left = [lib.fr_memory_alloc(n_(size << 20)) for size in (40, 40, 60, 60)]
    for p, size in zip(left, (40, 40, 60, 60)):
        lib.fr_memory_free(C.c_void_p(p), n_(size << 20))
    for size in (96, 130, 260, 520):
        held = lib.fr_memory_alloc(n_(size << 20))
        for turn in range(100):
            p = lib.fr_memory_alloc(n_(size << 20))
            lib.fr_memory_free(C.c_void_p(held), n_(size << 20))
            held = p
            if turn == 0:
                mapped = memory_stats(lib).n_system
        assert memory_stats(lib).n_system == mapped, f"{size} MB"
        lib.fr_memory_free(C.c_void_p(held), n_(size << 20))
    lib.fr_memory_trim()


def test_memory_failures(lib):
    lib.fr_memory_trim()
    for size in (100, 50000, 3 << 20):
        before = memory_stats(lib)
        lib.fr_alloc_fail_at(C.c_long(1))
        assert lib.fr_memory_alloc(n_(size)) is None
        lib.fr_alloc_fail_at(C.c_long(2))  # the system call
        first = lib.fr_memory_alloc(n_(size))
        lib.fr_alloc_fail_at(C.c_long(0))
        if first:
            lib.fr_memory_free(C.c_void_p(first), n_(size))
        assert memory_stats(lib).live_bytes == before.live_bytes
        p = lib.fr_memory_alloc(n_(size))
        assert p
        lib.fr_memory_free(C.c_void_p(p), n_(size))
    assert lib.fr_memory_alloc(n_(1 << 60)) is None
    assert lib.fr_memory_alloc(n_((1 << 64) - 1)) is None


def test_memory_from_many_threads(lib):
    before = memory_stats(lib).live_bytes
    assert lib.t_memory_churn(1, 5000) == 0
    assert lib.t_memory_churn(4, 5000) == 0
    assert memory_stats(lib).live_bytes == before
    assert lib.t_memory_fork(5) == 0


# ---- threads


@pytest.fixture
def pool(lib):
    old = lib.fr_pool_size()
    yield lib
    lib.fr_pool_set_size(old)


def test_every_task_runs_once(pool):
    for size in (1, 2, 3, 8):
        pool.fr_pool_set_size(size)
        assert pool.fr_pool_size() == size
        for n, spin in ((0, 0), (1, 10), (2, 10), (3, 1000), (100, 100), (20000, 0)):
            assert pool.t_pool_run(i_(n), spin, 0) == 0
        assert pool.t_pool_run(i_(300), 500, 3) == 0  # runs inside of tasks


def test_default_size_is_what_we_may_use(lib):
    cmd = "import ctypes, sys, os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" \
          "l = ctypes.CDLL(sys.argv[1]); l.fr_env_load(); print(l.fr_pool_size())"  # fmt: skip
    env = dict(os.environ)
    env.pop("FRIT_NUM_THREADS", None)
    out = subprocess.run([sys.executable, "-c", cmd, lib._name], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "1"
    env["FRIT_NUM_THREADS"] = "5"
    out = subprocess.run([sys.executable, "-c", cmd, lib._name], env=env, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "5"


def test_threads_are_quiet(pool):
    pool.fr_pool_stop()
    pool.fr_pool_set_size(3)
    before = set(os.listdir("/proc/self/task"))
    assert pool.t_pool_run(i_(1000), 1000, 0) == 0
    ours = set(os.listdir("/proc/self/task")) - before
    names = sorted(Path(f"/proc/self/task/{t}/comm").read_text().strip() for t in ours)
    assert names == ["frit-0", "frit-1"]
    for t in ours:
        status = Path(f"/proc/self/task/{t}/status").read_text()
        blocked = int(status.split("SigBlk:")[1].split()[0], 16)
        assert blocked & 0x3FFFF & ~(1 << 8 | 1 << 18) == 0x3FFFF & ~(1 << 8 | 1 << 18)  # all but KILL, STOP
    pool.fr_pool_stop()
    end = time.monotonic() + 60  # the kernel lists a thread until a moment after it was joined
    while ours & set(os.listdir("/proc/self/task")) and time.monotonic() < end:
        time.sleep(0.001)
    assert not ours & set(os.listdir("/proc/self/task"))
    assert pool.t_pool_run(i_(100), 100, 0) == 0  # and it starts again


def test_many_callers_and_changing_sizes(pool):
    pool.fr_pool_set_size(3)
    assert pool.t_pool_concurrent(4, 300) == 0


def test_fork(pool):
    pool.fr_pool_set_size(3)
    assert pool.t_pool_fork(20) == 0
    assert pool.t_pool_fork_inside(i_(3000), 20000) == 0


def test_cancel(pool):
    for size in (1, 3):
        pool.fr_pool_set_size(size)
        ran = -1 - pool.t_pool_cancel(i_(100000), 20000, 2)
        assert 0 < ran < 50000
        assert pool.t_pool_run(i_(100), 10, 0) == 0


def test_no_threads_to_be_had(pool):
    for fail_at in range(1, 5):
        pool.fr_pool_stop()
        pool.fr_pool_set_size(4)
        live = pool.fr_alloc_live()
        pool.fr_alloc_fail_at(C.c_long(fail_at))
        assert pool.t_pool_run(i_(100), 100, 0) == 0
        pool.fr_alloc_fail_at(C.c_long(0))
        assert pool.t_pool_run(i_(100), 100, 0) == 0
        pool.fr_pool_stop()
        assert pool.fr_alloc_live() <= live
