"""What moves elements and computes nothing: transposed copies, repeats, takes; and what searches them for an extreme. NumPy's
values for every size of element and every layout; and instructions an element, counted, which tell whole vectors and tight
loops from element by element."""
import os
import shutil
import sys

import numpy as np
import pytest

import frit
from benchmarks import dispatch_callgrind

from .common import assert_same, few
from .test_jit_parts import needs_compiler

pytestmark = pytest.mark.core

REF = os.environ.get("FRIT_BACKEND") == "ref"
SIZES = ["u1", "i2", "f4", "f8", "c16"]


def data(shape, dtype, seed=0):
    r = np.random.default_rng([seed, *shape])
    return (r.random(shape) * 200).astype(dtype)


@pytest.mark.parametrize("dtype", SIZES)
def test_transposed_copies(dtype):
    """Turned over into their place, but for rows that are a multiple of a page apart."""
    for shape in [(300, 100), (100, 300), (257, 129), (65, 1030), (512, 256), (4096, 40), (40, 4096), (1024, 64)]:
        a = data(shape, dtype)
        t = frit.asarray(a)
        for f in (lambda x: x.T.copy(), lambda x: x[::-1].T.copy(), lambda x: x[:, ::-1].T.copy(),
                  lambda x: x[3:, 1:].T.copy(), lambda x: x[:, ::2].copy(), lambda x: x[:, ::-1].copy()):
            assert_same(f(t), f(a), what=(shape, dtype))
    for shape in [(20, 64, 70), (70, 20, 64), (64, 70, 20)]:
        a = data(shape, dtype)
        t = frit.asarray(a)
        for axes in [(0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
            assert_same(t.transpose(axes).copy(), np.ascontiguousarray(a.transpose(axes)), what=(shape, axes, dtype))


@pytest.mark.parametrize("dtype", SIZES)
def test_transposed_stores_into_windows(dtype):
    for h, w in [(300, 100), (129, 257), (512, 512)]:
        a, out = data((w, h), dtype), data((h + 3, w + 5), dtype, 1)
        t, u = frit.asarray(a), frit.asarray(out.copy())
        u[1:h + 1, 2:w + 2] = t.T
        out[1:h + 1, 2:w + 2] = a.T
        assert_same(u, out, what=(h, w))
        square = data((h, h), dtype, 2)
        u = frit.asarray(square.copy())
        u[...] = u.T
        square[...] = square.T.copy()
        assert_same(u, square, what=(h, dtype))


@pytest.mark.parametrize("dtype", SIZES)
def test_repeats(dtype):
    for n in [1, 2, 15, 16, 17, 100, 1031]:
        a = data((n,), dtype)
        b = data((n, 6), dtype)
        t, u = frit.asarray(a), frit.asarray(b)
        for times in [0, 1, 2, 3, 4, 5, 16, 17, 40]:
            assert_same(frit.repeat(t, times), np.repeat(a, times), what=(n, times))
            assert_same(frit.repeat(t[::-1], times), np.repeat(a[::-1], times), what=(n, times))
            assert_same(frit.repeat(t[::2], times), np.repeat(a[::2], times), what=(n, times))
            for axis in (0, 1):
                assert_same(frit.repeat(u, times, axis), np.repeat(b, times, axis), what=(n, times, axis))


def test_tiles_as_numpy_lays_them_out():
    """Of nothing, a window, read-only if that is; once under more axes, a copy in the order of the memory."""
    empty = np.zeros((0, 3))
    closed = empty.copy()
    closed.flags.writeable = False
    moved = data((2, 3, 4), "f8").transpose(2, 0, 1)
    for a in (empty, closed, data((3, 4), "f8").T, moved, np.float64(3.0).reshape(())):
        for reps in (2, (2, 3), (1, 1), (1, 1, 1), (1, 1, 1, 1), (0, 1), (2, 1, 1, 1)):
            want = np.tile(a, reps)
            got = frit.accelerate(lambda x, reps=reps: np.tile(x, reps))(a)
            assert_same(got, want, what=(a.shape, reps))
            for flag in ("writeable", "c_contiguous", "f_contiguous"):
                assert getattr(got.flags, flag) == getattr(want.flags, flag), (a.shape, a.strides, reps, flag)
    one = np.float64(3.0).reshape(())       # as many axes as there may be, all of them new
    assert_same(frit.tile(frit.asarray(one), (1,) * 32), np.tile(one, (1,) * 32))
    assert_same(frit.array(frit.asarray(one), ndmin=32), np.array(one, ndmin=32))


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", *few("u1", "i2", "u4", "i8")])
def test_indices_of_any_kind(dtype):
    """More than are read at a time, in any layout, of numpy and of frit; the first that is out of bounds is named."""
    r = np.random.default_rng(5)
    for size in [1, 5, 100]:
        for source in SIZES:
            a = data((size, 3), source)
            low = -size if dtype[0] == "i" else 0
            for shape in [(0,), (1,), (7,), (513,), (1500,), (40, 41), (3, 1, 600)]:
                i = r.integers(low, size, shape).astype(dtype)
                wide = np.broadcast_to(i[..., :1], shape)
                for index in (i, i[::-1].copy(), i[..., ::-1], wide) if i.ndim == 1 else (i,):
                    for j in (index, frit.asarray(index)):
                        assert_same(frit.asarray(a)[j], a[index])
                        assert_same(frit.take(frit.asarray(a[:, 1]), j), np.take(a[:, 1], index))
                        assert_same(frit.asarray(a)[j, j % 3], a[index, index % 3])
                for bad in (size, size + 20, *((-size - 1, -128) if low else ())):
                    if i.size == 0:
                        continue
                    at = int(r.integers(0, i.size))
                    wrong = i.copy()
                    wrong.flat[at] = bad
                    wrong.flat[-1] = wrong.flat[-1] if r.random() < 0.5 else 127
                    for j in (wrong, frit.asarray(wrong)):
                        with pytest.raises(IndexError) as want:
                            a[wrong]
                        with pytest.raises(IndexError) as got:
                            frit.asarray(a)[j]
                        assert str(got.value) == str(want.value)


@pytest.mark.parametrize("value", [np.iinfo("i8").min, np.iinfo("i8").max, np.iinfo("i8").min + 5, -11, 10])
def test_indices_far_outside(value):
    a = np.arange(10.0)
    for n in (1, 600):
        i = np.zeros(n, "i8")
        i[-1] = value
        for j in (i, frit.asarray(i)):
            with pytest.raises(IndexError, match=f"index {value} is out of bounds for axis 0 with size 10"):
                frit.asarray(a)[j]


@pytest.mark.parametrize("dtype", ["?", "B", "h", "f4", "f8", "c8", "c16"])
def test_a_number_for_each_row(dtype):
    """Repeated along its row: shorter than a vector, a little longer, long. Nothing is written behind the last."""
    r = np.random.default_rng(9)
    for n in [*range(1, 36), 63, 64, 65, 127, 129, 300, 2000]:
        for m in (1, 2, 3, 17, 1000 if n < 100 else 9):
            rows, a = r.integers(0, 99, (2 * m, 1)).astype(dtype), r.integers(0, 9, (m, n)).astype(dtype)
            t, u = frit.asarray(rows), frit.asarray(a)
            assert_same(frit.broadcast_to(t[:m], (m, n)).copy(), np.repeat(rows[:m], n, 1), what=(n, m))
            assert_same(t[:m] * u, rows[:m] * a, what=(n, m))
            assert_same(t[::2] * u, rows[::2] * a, what=(n, m))
            assert_same(u * u.max(1, keepdims=True), a * a.max(1, keepdims=True), what=(n, m))
            canvas = np.zeros(m * n + 99, dtype)
            into, whole = frit.array(canvas), canvas.copy()
            into[:m * n].reshape(m, n)[...] = t[-m:]
            whole[:m * n].reshape(m, n)[...] = rows[-m:]
            assert_same(into, whole, what=(n, m))


@pytest.mark.parametrize("dtype", ["?", "b", "H", "l", "f2", "f8", "c8", *few(*"BhiIL", "f4", "c16")])
def test_places_of_extremes(dtype):
    """The first of equals, of both zeros, the first NaN: in chunks, in rows abreast, and in what is left over."""
    r = np.random.default_rng(3)
    for n in [1, 3, 31, 33, 64, 100, 1000, 1025, 4096, 8195, 20000]:
        for values in (2, 100):     # so that there are many equals, or some
            x = r.integers(0, values, n)
            a = (x - values // 2 if dtype[0] in "bhilfc" else x).astype(dtype)
            if dtype[0] == "c":
                a = (a + 1j * r.integers(0, 3, n)).astype(dtype)
            cases = [a, np.zeros_like(a), np.ones_like(a)]
            if dtype[0] in "fc":
                zeros = np.where(r.random(n) < 0.5, a.dtype.type(-0.0), a.dtype.type(0))
                holes = a.copy()
                holes[r.integers(0, n, 2)] = np.nan
                cases += [zeros, holes]
            if dtype[0] == "c":
                holes = a.copy()
                holes[r.integers(0, n)] = complex(1, np.nan)
                cases += [holes]
            for b in cases:
                rows = b[:n - n % 3].reshape(-1, n // 3) if n > 2 else b[:, None]
                t, u = frit.asarray(b), frit.asarray(rows)
                for name in ("argmax", "argmin"):
                    assert int(getattr(t, name)()) == getattr(b, name)(), (n, name)
                    assert_same(getattr(u, name)(1), getattr(rows, name)(1), what=(n, name))
                    assert_same(getattr(u, name)(0), getattr(rows, name)(0), what=(n, name))
                for name in ("max", "min"):
                    want = getattr(b, name)()
                    got = np.asarray(getattr(t, name)())
                    assert np.array_equal(got, want, equal_nan=dtype[0] in "fc"), (n, name)


@pytest.mark.parametrize("dtype", ["?", *"bBhHiIlL", "f2", "f4", "f8", "c8", "c16"])
def test_places_of_extremes_in_short_rows(dtype):
    r = np.random.default_rng(5)
    kind = np.dtype(dtype).kind
    for n in [*range(1, 19), 31, 33, 65]:
        a = r.integers(0, 2 if kind == "b" else 7, (200, n))
        a = (a - 3 if kind in "ifc" else a).astype(dtype)
        if kind in "fc":
            for value in (-0.0, np.nan, -np.nan, np.inf, -np.inf):
                a.reshape(-1)[r.integers(0, a.size, 15 * n)] = value
        t = frit.asarray(a)
        for name in ("argmax", "argmin"):
            assert_same(getattr(t, name)(1), getattr(a, name)(1), what=(n, name))
            assert_same(getattr(t[0], name)(), np.asarray(getattr(a[0], name)()), what=(n, name))


@pytest.mark.parametrize("dtype", ["?", *"bBhHiIlL", "f2", "f4", "f8", "c8", "c16"])
def test_places_of_extremes_in_columns(dtype):
    """Of any number of rows and columns, of equals the first, a NaN before all others; and more rows than a byte counts."""
    r = np.random.default_rng(3)
    for shape in [(2, 8), (2, 9), (3, 40), (4, 1000), (300, 17), (700, 5), (1000, 33), (3, 5, 100), (5, 300, 11), (20, 2, 300)]:
        for values in (3, 100):
            a = (r.integers(0, values, shape) - values // 2).astype(dtype)
            if a.dtype.kind in "fc":
                a[r.random(shape) < 0.02] = np.nan
                a[r.random(shape) < 0.1] = -0.0
            t = frit.asarray(a)
            for axis in range(a.ndim):
                for f in (lambda x: x.argmax(axis), lambda x: x.argmin(axis), lambda x: x[::-1].argmax(axis)):
                    assert_same(f(t), f(a), what=(shape, axis))


@pytest.mark.parametrize("dtype", ["?", "B", "h", "L", "f2", "f4", "c16", *few(*"bHiIl", "f8", "c8")])
def test_one_that_decides(dtype):
    """Truth and extremes where one element is unlike all others, in whole vectors and in what is left over."""
    r = np.random.default_rng(4)
    for n in [1, 2, 15, 16, 17, 63, 64, 65, 130, 511, 512, 513, 1000, 8193, 70001]:
        for common, other in [(0, 1), (1, 0), (3, 120), (120, 3)] + ([(1, -1), (1, np.nan), (-0.0, 0)] if dtype[0] in "fc" else []):
            a = np.full(n, common, dtype)
            a[r.integers(0, n)] = other
            rows = np.tile(a[:1000], (5, 1))
            for name in ("any", "all", "max", "min"):
                for b, axis in ((a, None), (rows, 1), (rows, 0)):
                    want, got = getattr(b, name)(axis), np.asarray(getattr(frit.asarray(b), name)(axis))
                    assert np.array_equal(got, want, equal_nan=dtype[0] in "fc"), (n, name, common, other, axis)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_extremes_of_complex_columns(dtype):
    r = np.random.default_rng(5)
    for shape in [(1, 1), (7, 1), (9, 3), (33, 4), (20, 17), (5, 1030)]:
        a = (r.integers(0, 3, shape) + 1j * r.integers(0, 3, shape)).astype(dtype)
        holes = a.copy()
        holes.real[r.random(shape) < 0.1] = np.nan
        holes.imag[r.random(shape) < 0.1] = np.nan
        for b in (a, holes):
            for name in ("max", "min"):
                got, want = np.asarray(getattr(frit.asarray(b), name)(0)), getattr(b, name)(0)
                assert np.array_equal(got, want, equal_nan=True), (shape, name)
                assert np.array_equal(np.isnan(got.real), np.isnan(want.real)), (shape, name)


def test_bools_of_a_row():
    """One bool for all elements of a row, or for all there are: compiled code has a vector of it."""
    r = np.random.default_rng(6)
    m, a, b = r.random((40, 130)) < 0.5, r.random((40, 130)), r.random((40, 130)).astype("f4")
    t, u, v = frit.asarray(m), frit.asarray(a), frit.asarray(b)
    for f in (lambda xp, m, a, b: m * m[:, :1], lambda xp, m, a, b: m | m[:, 1:2] & (a > 0.5),
              lambda xp, m, a, b: xp.where(m[:, :1], a, b), lambda xp, m, a, b: xp.where(m[:, :1], b, m),
              lambda xp, m, a, b: (a > a.mean(1, keepdims=True)) ^ m.any(1, keepdims=True),
              lambda xp, m, a, b: xp.where(m[0, 0], a, -a), lambda xp, m, a, b: (m != m[3, 3]) & m[:, 5:6]):
        for _ in range(3):
            assert_same(f(frit, t, u, v), f(np, m, a, b))
            frit.wait_for_compiles(60)


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f4", *few("i1", "u4", "f8")])
def test_counts(dtype):
    """Bools are counted as they are, in vectors of bytes; not where their integers are wanted, too."""
    for n in [1, 15, 31, 33, 100, 8193, 20000, 100003]:
        a = data((n,), dtype) if dtype == "?" else (data((n,), "f8") % 3).astype(dtype)
        for b in (a, np.ones_like(a), np.zeros_like(a)):
            rows = b[:n - n % 3].reshape(-1, n // 3) if n > 2 else b[:, None]
            t, u = frit.asarray(b), frit.asarray(rows)
            assert int(frit.count_nonzero(t)) == np.count_nonzero(b)
            assert int((t != 0).sum()) == np.count_nonzero(b)
            assert float((t == 1).mean()) == (b == 1).mean()
            for axis in (0, 1):
                assert_same((u != 0).sum(axis), (rows != 0).sum(axis), what=(n, axis))
            wide = (u != 0).astype("i8")
            total = wide.sum(1, keepdims=True)
            assert_same(wide * 3 - total, (rows != 0) * 3 - np.count_nonzero(rows, axis=1, keepdims=True))


@pytest.mark.skipif(os.environ.get("FRIT_JIT", "auto") != "auto" or REF, reason="asks which of two runs")
@pytest.mark.parametrize("function, code", [
    (lambda x: x.argmax(), False), (lambda x: x.max(), False), (frit.count_nonzero, False), (lambda x: x.imag.copy() * 1.5 + 1, True),
    (lambda x: x.reshape(100, 300).sum(0), False), (lambda x: (x * 2).reshape(100, 300).sum(0), True),
    (lambda x: x.copy(), False), (lambda x: frit.stack([x, x], 1), True), (lambda x: x[::-3].copy(), False),
    (lambda x: x.astype("f4"), False), (lambda x: (x * 2).astype("f4"), True), (lambda x: (x * x).argmax(), True)])
@needs_compiler
def test_a_better_loop_is_kept(function, code):
    """Where there is a loop that compiled code does not reach, what has been compiled is left alone; else it is tried."""
    t = frit.asarray(data((30000,), "c16"))
    before = frit.stats()
    for _ in range(40):
        frit.eval(function(t))
        frit.wait_for_compiles(60)
    assert (frit.stats()["jitted"] > before["jitted"]) == code


@pytest.mark.parametrize("ahead", [0, 1, 3, 4, 16, 63, 64, 255, 256, 257])
def test_copies_to_a_little_further_on_in_a_page(ahead):
    for n in (1, 63, 1000, 1023, 1024, 1025, 1087, 4096, 5001, 70_000):
        x = np.random.default_rng(n).integers(0, 256, n).astype("u1")
        want = np.full(n + 300, 7, "u1")
        got = frit.asarray(want)
        want[ahead:ahead + n] = x
        got[ahead:ahead + n] = frit.asarray(x)
        assert_same(got, want)


# Statement: most instructions an element that it may take, from v3 on; one by one it is 50 to 100 for those of
# indices, 60 for repeats, 13 for the copy by way of a tile, and 32 for complex extremes.
COSTS = {
    "d[1:-1, 1:-1] + d[1:-1, 2:] + d[1:-1, :-2] + d[2:, 1:-1] + d[:-2, 1:-1]": 8,  # rows beside gaps: not copied first
    "frit.take(a, index)": 20,
    "a[index]": 20,
    "a[narrow]": 20,
    "frit.repeat(byte, 2)": 5,
    "frit.repeat(pair, 2)": 20,
    "byte4[:, 1].copy()": 2,
    "byte3[:, 1] + byte": 2,
    "pairs2[:, 1] + pairs2[:, 0]": 4.8,
    "paged.T.copy()": 9,
    "a.argmax()": 1.7,
    "f.argmax()": 1.05,
    "byte.argmax()": 0.48,
    "mask.argmax()": 0.65,
    "half.any()": 1,
    "half.max()": 1,
    "half.all()": 1,
    "mask.any()": 0.45,
    "byte.max()": 0.42,
    "a.max()": 1.45,
    "f.prod()": 5.5,
    "matrix.T.copy()": 8,
    "pairs.max(0)": 15,
    "pair.argmax()": 12,
    "pair.max()": 12,
    "matrix.argmax(1)": 3.9,
    "sevens.argmin(1)": 7,
    "sevens + seventh": 3.3,        # a number for each row, repeated by whole vectors; the rows run as one
    "sevens - sevens.max(1, keepdims=True)": 11,
    "f.reshape(75, 2, 100, 2).sum((1, 3))": 13,    # neighbouring accumulators abreast
    "f.reshape(75, 2, 100, 2).max((1, 3))": 16,
    "f.reshape(1500, 2, 2, 5).sum(1)": 6.5,         # what is one axis on both sides of the rows
    "small.sum((0, 2))": 5,                         # all rows of a block in one call,
    "(small * third).max((0, 2))": 14,              # or those of one neighbour after those of the other
    "f.reshape(-1, 3).max(1)": 3,                   # a column at a time
    "byte.reshape(-1, 4).any(1)": 3,
    "frit.count_nonzero(byte)": 1,
    "frit.power(a, a)": 42,       # without the special cases of a power; four at once, which take more but sooner
    "frit.ldexp(a, byte)": 6.8,                       # a product with a power of two, but for very large ones
    "frit.dot(word, word)": 7.5,                      # NumPy's own loop: 9.8
    "byte * byte": 0.82,                              # two at a time
    "byte >> 2": 0.9,
    "byte // 7": 0.8,                                 # by products with the inverse,
    "word // 7": 2.5,
    "wide // 7": 5.8,                                 # which is computed once
    "mask.sum()": 0.6,
    "a.reshape(-1, 15).sum(1)": 4.05,                  # as many rows together as a vector has numbers,
    "f.reshape(-1, 15).sum(1)": 2.25,                  # and what they have beyond eights a square at a time
    "frit.cumsum(f.reshape(-1, 100), 1)": 3.3,            # squares of eight lines are turned over
    "matrix.argmax(0)": 3.5,                          # places of columns, in vectors
    "f.reshape(3, 10000).argmin(0)": 4,
    "f.reshape(-1, 2).argmax(1)": 11,
    "f.reshape(-1, 100).argmax(1)": 2,                # all rows are one tile
    "f.reshape(-1, 500).max(1)": 1,
    "frit.repeat(f.reshape(60, 500), 2, 0)": 3.2,               # rows, each copied whole
    "long.max(0)": 7,
    "long.sum(0)": 5,
    "f.reshape(3, 10000).sum(0)": 1.6,
    "f.reshape(-1, 2)[:, ::-1] * 2": 4.5,           # rows in another order, by shuffles
    "small + small.swapaxes(1, 2)": 6,
    "small.swapaxes(1, 2).copy()": 2.4,                       # to its place, not by way of L1
    "f.reshape(-1, 2)[:, ::-1].copy()": 2,
    "f.reshape(3, 10000).T.copy()": 4.5,                        # a few planes, a tile of one after that of the other
    "f.reshape(3, 10000).T + f.reshape(10000, 3)": 6.2,
    "byte3.reshape(2, 15000, 3).transpose(0, 2, 1).copy()": 3.5,    # 90,000: channels to planes, by shuffles
    "eight.swapaxes(1, 2).copy()": 6,                           # one by one, by a table
    "eight + eight.swapaxes(1, 2)": 7.5,
    "paired.swapaxes(1, 2).copy()": 7.5,
    "four[:, :, :, None] * four[:, None]": 7.5,             # rows of three axes, by shuffles
    "(four[:, :, :, None] * four[:, None]).sum(2)": 20,
    "(small[:, :, :, None] * small[:, None]).sum(2)": 40,
    "(six[:, :, :, None] * six[:, None]).sum(2)": 41,       # the longest axis is next to what is accumulated
    "small * small[:, :1]": 6,
    "(small * third).sum(-1)": 9,                 # the longest axis is the rows
    "f.reshape(100, 300) - f.reshape(100, 300).max(1, keepdims=True)": 3.6,    # the last rows of a repeat by vectors
    "word.reshape(-1, 8).max(1)": 2.1,            # rows of integers, four at a time
    "word.reshape(-1, 30).min(1)": 1.4,
    "wide.reshape(-1, 5).max(1)": 6,
    "byte.reshape(-1, 10).min(1)": 1.4,
    "byte.reshape(-1, 10).argmax(0)": 2.1,          # fewer columns than a vector has, with what lies behind them
    "f.reshape(-1, 6).argmin(0)": 3.2,
    "frit.cumsum(f.reshape(-1, 2), 0)": 6,
    "frit.cumsum(f.reshape(-1, 3), 1)": 16,
}
SETUP = """
import os, sys
import numpy as np
import frit
n = 30000
r = np.random.default_rng(0)
a, f, byte = frit.asarray(r.random(n)), frit.asarray(r.random(n).astype("f4")), frit.asarray(np.arange(n).astype("u1"))
word, wide = frit.asarray(np.arange(n).astype("i4")), frit.asarray(np.arange(n))
index = r.integers(0, n, n)
narrow = index.astype("i4")
mask = frit.asarray(np.arange(n) == n - 1)
byte3, byte4 = (frit.asarray(np.arange(k * n).astype("u1").reshape(n, k)) for k in (3, 4))
pairs2 = frit.asarray(np.arange(2 * n).astype("i2").reshape(n, 2))
half = frit.asarray(np.arange(100 * n) % 2 == 1)        # the answer is in the first two
sevens = frit.asarray(r.random((4286, 7), "f4"))        # in one register
seventh = frit.asarray(r.random((4286, 1), "f4"))
small, third = frit.asarray(r.random((3333, 3, 3), "f4")), frit.asarray(r.random((3333, 1, 3), "f4"))
eight, paired = frit.asarray(r.random((469, 8, 8), "f4")), frit.asarray(r.random((3333, 3, 3)) + 0j)
four, six = frit.asarray(r.random((469, 4, 4))), frit.asarray(r.random((140, 6, 6)))
pair, matrix = frit.asarray(r.random(n) + 0j), frit.asarray(r.random((300, 100)))
pairs = frit.asarray((r.random((300, 100)) + 0j))
long = frit.asarray(r.random((16, 16384), "f4"))     # eight rows at a time
few = frit.asarray(r.integers(0, 9, (80, 100)))
d = frit.asarray(r.random((102, 300)))
paged = frit.asarray(r.random((60, 512)))       # wide elements are turned over where lines of a row collide
"""


# The same of single operations on so few elements that they never have a plan.
COSTS_ALONE = {
    "few.sum(1)": 2.8,                  # rows side by side are reduced together
    "few.max(1)": 3.2,
    "few.reshape(-1, 4).sum(1)": 8.4,
}


def needs_callgrind():
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("valgrind runs no sanitizer")
    if os.environ.get("FRIT_ISA") in ("generic", "v2"):
        pytest.skip("the bounds are for registers of 32 bytes")


@pytest.fixture(scope="module")
def cost():
    needs_callgrind()
    parts = [SETUP]
    for statement in {**COSTS, **COSTS_ALONE}:
        if statement in COSTS_ALONE:
            parts.append("frit._core.config_set('eager_elems', 32768)")
        parts += [f"for _ in range(3): frit.eval({statement})", "os.getppid()",
                  f"for _ in range(4): frit.eval({statement})", "os.getppid()"]
    counts = dispatch_callgrind.dumps(2 * len(COSTS | COSTS_ALONE), "\n".join(parts))
    return {s: counts[2 * i + 1] / 4 / (30000 if s in COSTS else 8000) for i, s in enumerate(COSTS | COSTS_ALONE)}


@pytest.mark.own
@pytest.mark.parametrize("statement", COSTS | COSTS_ALONE)
def test_instructions_an_element(cost, statement):
    assert cost[statement] <= (COSTS | COSTS_ALONE)[statement], cost


@pytest.mark.parametrize("mode", ["constant", "edge", "wrap", "reflect", "symmetric"])
def test_pad(mode):
    """Borders of all widths that NumPy has, as its own; those that are parts of the array without its code."""
    rng = np.random.default_rng(0)
    for shape in ((5,), (4, 6), (3, 4, 5), (1, 3), (100, 120), (0, 3), (2, 0)):
        for order in "CF":
            a = np.array(rng.standard_normal(shape).astype("f4"), order=order)
            for width in (0, 1, 2, (1, 2), ((1, 2),), [(0, 1)] * len(shape), [(2, 0)] * len(shape), 3, 5, -1):
                try:
                    want = np.pad(a, width, mode)
                except ValueError:
                    with pytest.raises(ValueError):
                        frit.pad(frit.asarray(a, copy=False), width, mode)
                    continue
                assert_same(frit.pad(frit.asarray(a, copy=False), width, mode), want, what=(shape, order, width))
    a = np.array(rng.standard_normal((30, 400)))
    t = frit.asarray(a)
    frit.eval(t)
    called = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    got = frit.pad(t, ((1, 2), (3, 0)), mode)
    sys.setprofile(None)
    assert not called       # nothing of NumPy's Python
    want = np.pad(a, ((1, 2), (3, 0)), mode)
    t[0] = 7            # what is read is as it was
    assert_same(got, want)
