"""Takes: arrays of integers as indices are lazy nodes with NumPy's shapes, strides, values and errors."""
import ctypes
import os
import shutil

import numpy as np
import pytest

import frit
from benchmarks import dispatch_callgrind

from .common import SOAK, assert_same

pytestmark = pytest.mark.core


def source(rng):
    """An array of any layout, and the same as a tensor."""
    n = int(rng.integers(1, 5))
    dims = [int(v) for v in rng.choice([1, 2, 3, 4, 7], n)]
    perm, step = rng.permutation(n), rng.choice([1, 1, -1, 2], n)
    dtype = rng.choice(["?", "i1", "f2", "f4", "f8", "c8", "c16"])
    base = rng.integers(0, 100, [dims[i] * abs(int(step[i])) for i in perm]).astype(dtype)
    back = tuple(int(i) for i in np.argsort(perm))
    slices = tuple(slice(None, None, int(s)) for s in step)
    if rng.random() < 0.15:
        return (np.broadcast_to(base.transpose(back)[slices], (3, *dims)),
                frit.broadcast_to(frit.asarray(base).transpose(back)[slices], (3, *dims)))
    return base.transpose(back)[slices], frit.asarray(base).transpose(back)[slices]


def index_for(rng, size, shape):
    dtype = rng.choice(["i8", "i8", "i4", "u1", "i2"])
    i = rng.integers(0 if dtype[0] == "u" else -size, size, shape).astype(dtype)
    return i, [i, frit.asarray(i), i.tolist() if i.ndim and i.size else i][int(rng.integers(0, 3))]


@pytest.mark.parametrize("seed", range(6))
def test_one_array_among_slices(seed):
    rng, before = np.random.default_rng(seed), frit.stats()["fallbacks"]
    for _ in range(120):
        a, t = source(rng)
        axis = int(rng.integers(0, a.ndim))
        i, j = index_for(rng, a.shape[axis], [int(v) for v in rng.choice([1, 2, 5], int(rng.integers(1, 4)))])
        key, mine = [slice(None)] * axis + [i], [slice(None)] * axis + [j]
        for k in range(axis):
            if rng.random() < 0.3:
                key[k] = mine[k] = slice(None, None, int(rng.choice([-1, 2])))
        if rng.random() < 0.3:
            key.insert(0, None), mine.insert(0, None)
        if rng.random() < 0.3:
            key.append(Ellipsis), mine.append(Ellipsis)
        got = t[tuple(mine)]
        assert got._is_pending() or got.size == 0
        assert_same(got, a[tuple(key)], what=(a.shape, a.strides, key))
    assert frit.stats()["fallbacks"] == before


@pytest.mark.parametrize("seed", range(3))
def test_take(seed):
    rng, before = np.random.default_rng(seed), frit.stats()["fallbacks"]
    for _ in range(120):
        a, t = source(rng)
        axis = None if rng.random() < 0.3 else int(rng.integers(-a.ndim, a.ndim))
        shape = [int(v) for v in rng.choice([0, 1, 2, 5], int(rng.integers(0, 4)))]
        i, j = index_for(rng, a.size if axis is None else a.shape[axis], shape)
        for got in (np.take(t, j, axis), frit.take(t, j, axis=axis), t.take(j, axis)):
            want = np.take(a, i, axis)
            assert got.strides == want.strides or want.size == 0
            assert_same(got, want, what=(a.shape, axis, i))
            assert type(got._to_scalar()) is type(want)
    assert frit.stats()["fallbacks"] == before


@pytest.mark.parametrize("seed", range(4))
def test_several_arrays_and_integers(seed):
    rng, calls = np.random.default_rng(seed), 0
    for _ in range(150):
        a, t = source(rng)
        if a.ndim < 2:
            continue
        n = int(rng.integers(1, a.ndim + 1))
        first = int(rng.integers(0, a.ndim - n + 1))
        shape = [int(v) for v in rng.choice([1, 2, 5], int(rng.integers(1, 3)))]
        key, mine = [slice(None)] * first, [slice(None)] * first
        for k in range(first, first + n):
            i, j = index_for(rng, a.shape[k], [1 if rng.random() < 0.2 else s for s in shape])
            if rng.random() < 0.2:
                i = j = int(rng.integers(-a.shape[k], a.shape[k]))
            key.append(i), mine.append(j)
        before = sum(frit.stats()["fallbacks"].values())
        assert_same(t[tuple(mine)], a[tuple(key)], what=(a.shape, a.strides, key))
        calls += sum(frit.stats()["fallbacks"].values()) == before
    assert calls >= 40


def test_rows_and_labels_of_a_loss():
    rng = np.random.default_rng(0)
    p, labels, rows = rng.random((50, 10), "f4"), rng.integers(0, 10, 50), rng.permutation(50)[:20]
    tp, tl = frit.asarray(p), frit.asarray(labels)
    frit.reset_stats()
    batch, y = tp[rows], tl[rows]
    got = -frit.log(batch[np.arange(20), y]).mean()
    want = -np.log(p[rows][np.arange(20), labels[rows]]).mean()
    np.testing.assert_allclose(float(got), want, rtol=1e-6)
    assert frit.stats()["fallbacks"] == {}


def test_errors_come_at_the_line_and_are_numpys():
    a = np.arange(24.0).reshape(4, 6)
    t = frit.asarray(a)
    cases = [lambda x: x[[0, 4]], lambda x: x[np.array([-5])], lambda x: x[:, [6]], lambda x: x[[0], [1], [2]],
             lambda x: np.take(x, [24]), lambda x: np.take(x, [1, 4], axis=0), lambda x: np.take(x, [1], axis=2),
             lambda x: x[[0, 1], [0, 1, 2]], lambda x: x[np.array([1 << 63], "u8")], lambda x: x[[0.5]],
             lambda x: x[[[0, 1], [2]]], lambda x: x[["a"]], lambda x: x[..., [0], ...], lambda x: x[4, [0]]]
    for f in cases:
        with pytest.raises(Exception) as want:
            f(a)
        with pytest.raises(want.type) as got:
            f(t)
        if want.type is IndexError and "out of bounds" in str(want.value):
            assert str(got.value).partition(" is out")[0] == str(want.value).partition(" is out")[0]


def test_what_is_numpys_still_works():
    a = np.arange(24.0).reshape(2, 3, 4)
    t = frit.asarray(a)
    for f in [lambda x: x[[]], lambda x: x[[0], :, [1]], lambda x: x[0, :, [1]], lambda x: x[[True, False]],
              lambda x: x[np.asfortranarray([[0, 1], [1, 0]])], lambda x: x[[[0, 1], [1, 0]]], lambda x: x[[0, 1], None],
              lambda x: x.transpose(2, 0, 1)[[0, 1], [1, 0]], lambda x: np.take(x, [5, 70], mode="wrap"),
              lambda x: np.take(x, 3), lambda x: x[a.astype(bool)[:, 0, 0]]]:
        assert_same(f(t), f(a))


def test_the_index_and_the_source_are_read_as_they_were():
    a, i = np.arange(10.0), np.array([3, -1, 0])
    t, j = frit.asarray(a), frit.asarray(i)
    got = t[j]
    j[0] = 9
    t[3] = 100
    assert np.asarray(got).tolist() == [3.0, 9.0, 0.0]
    assert np.asarray(t[j]).tolist() == [9.0, 9.0, 0.0]
    k = np.array([1, 2])
    got = t[k]
    k[:] = 10 ** 9
    assert np.asarray(got).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_indices_of_any_type_are_read_where_they_lie_and_as_they_were(dtype):
    rng = np.random.default_rng(3)
    for size, kind in ((100, "f4"), (256, "u1"), (300, "f8"), (256, "c16"), (70_000, "i2"), (65_536, "f4")):
        a = rng.integers(0, 100, size).astype(kind)
        high = min(size, int(np.iinfo(dtype).max) + 1)
        i = rng.integers(0 if dtype[0] == "u" else -high, high, (40, 50)).astype(dtype)
        t, j = frit.asarray(a), frit.asarray(i)
        got, rows = t[j], frit.asarray(np.stack([a, a]))[:, j]
        j[0] = 1
        t[:5] = 100
        assert_same(got, a[i], what=(size, kind))
        assert_same(rows, np.stack([a, a])[:, i], what=(size, kind))
        grid = frit.asarray(np.stack([a, a], 1))
        assert_same(grid[frit.asarray(i)], np.stack([a, a], 1)[i], what=(size, kind))
        assert_same(t[frit.asarray(i)[:, ::3]], np.asarray(t)[i[:, ::3]], what=(size, kind))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
def test_one_index_of_any_type_is_outside(dtype):
    t = frit.asarray(np.arange(100.0))
    for at in (0, 700, 1999):
        for wrong in (100, -101):
            if not np.iinfo(dtype).min <= wrong <= np.iinfo(dtype).max:
                continue
            i = np.full(2000, 99, dtype)
            i[at] = wrong
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 100"):
                t[frit.asarray(i)]


def test_the_same_bits_as_numbers_of_another_type_are_looked_at_again():
    t, i = frit.asarray(np.arange(100.0)), frit.asarray(np.array([-1, 3] * 1000, "i4"))
    assert_same(t[i], np.array([99.0, 3.0] * 1000))
    with pytest.raises(IndexError, match="index 4294967295 is out of bounds for axis 0 with size 100"):
        t[i.view("u4")]


@pytest.mark.planned
@pytest.mark.parametrize("dtype", ["u1", "i2", "i4", "i8"])
def test_calls_made_again_look_at_indices_of_any_type(dtype):
    a, i = np.arange(100.0), np.arange(60).astype(dtype)
    fast = accelerated(lambda a, i: a[i] * 2, a, i)
    i[7] = 99
    assert_same(fast(a, i), a[i] * 2)
    i[7] = 100
    with pytest.raises(IndexError):
        fast(a, i)
    i[7] = 0
    assert_same(fast(a, i), a[i] * 2)


def test_an_index_that_is_pending_is_computed_and_checked():
    t = frit.asarray(np.arange(10.0))
    j = frit.asarray(np.array([1, 2])) * 3
    before = frit.stats()["syncs"].get("index", 0)
    got = t[j]
    assert frit.stats()["syncs"]["index"] == before + 1 and got._is_pending()
    assert np.asarray(got).tolist() == [3.0, 6.0]
    with pytest.raises(IndexError):
        t[j * 2]


@pytest.mark.planned
def test_a_take_is_one_step_and_what_follows_runs_over_its_memory():
    t = frit.asarray(np.random.default_rng(0).random((1000, 64), "f4"))
    rows = np.random.default_rng(1).permutation(1000)[:300]
    frit.eval(t)
    y = t[rows] * 2 + 1
    plan = y.explain()
    assert plan.startswith("2 kernels;") and "take" in plan and "0 temporaries" in plan
    frit.reset_stats()
    assert_same(y, np.asarray(t)[rows] * 2 + 1)
    assert frit.stats()["kernels"] == 2
    frit.reset_stats()
    i = frit.asarray(rows)
    frit.eval(t[i] + t[i])
    assert frit.stats()["kernels"] == 2        # equal takes are one


@pytest.mark.parametrize("shape, axis", [((3000, 50), 0), ((50, 3000), 1), ((20, 300, 40), 1), ((200000,), 0)])
def test_large(shape, axis):
    a = np.random.default_rng(0).random(shape)
    i = np.random.default_rng(1).integers(0, shape[axis], 2500)
    t = frit.asarray(a)
    assert_same(t[(slice(None),) * axis + (i,)], a[(slice(None),) * axis + (i,)])
    assert_same(np.take(t, i, axis), np.take(a, i, axis))


def accelerated(f, *args):
    """The function, accelerated and called until its calls are made again without it."""
    fast = frit.accelerate(f)
    for _ in range(40):
        assert_same(fast(*args), f(*args))
    before = frit.stats()["replayed"]
    fast(*args)
    assert frit.stats()["replayed"] == before + 1
    return fast


@pytest.mark.planned
@pytest.mark.parametrize("shape, axis", [((1000,), 0), ((50, 40), 1), ((40, 3), 0)])
def test_calls_with_takes_are_made_again_and_their_indices_looked_at(shape, axis):
    rng = np.random.default_rng(0)
    x, n = rng.standard_normal(shape), shape[axis]
    i = rng.integers(0, n, 700)

    def f(x, i):
        return x.take(i, axis) * 2
    fast = accelerated(f, x, i)
    for bad in (n, -n - 1, 2**62, -2**63):
        j = i.copy()
        j[len(i) // 2] = bad
        with pytest.raises(IndexError, match=f"index {bad} is out of bounds for axis {axis} with size {n}"):
            fast(x, j)
    assert_same(fast(x, -1 - i), f(x, -1 - i))      # with negative ones it is not the same call
    assert_same(fast(x, i), f(x, i))


@pytest.mark.planned
def test_indices_are_looked_at_before_anything_is_written():
    x, i, y = np.arange(50.0), np.arange(10), np.ones(10)

    def f(x, i, y):
        y *= 0.5
        y += x[i]
    fast = frit.accelerate(f)
    for _ in range(30):
        fast(x, i, y)
    frit.reset_stats()
    fast(x, i, y)
    assert frit.stats()["replayed"] == 1
    before, bad = y.copy(), np.where(i == 7, 50, i)
    with pytest.raises(IndexError):
        fast(x, bad, y)
    assert np.array_equal(y, before * 0.5)      # what came before that line, once
    fast(x, i, y)
    assert np.array_equal(y, before * 0.25 + x[i])


@pytest.mark.planned
def test_an_index_whose_values_nobody_needs_is_looked_at_all_the_same():
    x, i = np.arange(50.0), np.arange(10)

    def f(x, i):
        x[i]
        return x + 1
    fast = frit.accelerate(f)
    for _ in range(30):
        fast(x, i)
    with pytest.raises(IndexError):
        fast(x, i + 45)


@pytest.mark.planned
def test_an_index_that_changes_after_it_was_looked_at_is_an_error():
    """By who goes round Python: nothing is read where the table is not."""
    x, i = np.arange(5000.0), np.arange(3000)

    def f(x, i, at):
        y = x[i] + 1
        if at is not None:
            ctypes.c_int64.from_address(at + 8 * 2000).value = 2**40
        return y
    fast = frit.accelerate(f)
    assert_same(fast(x, i, None), f(x, i, None))
    with pytest.raises(IndexError, match="an index has changed"):
        fast(x, i, i.ctypes.data)
    assert i[2000] == 2**40


@pytest.mark.planned
def test_what_is_known_of_an_index_is_not_taken_for_another():
    rng = np.random.default_rng(0)
    for n in (100, 50, 200):
        x = frit.asarray(rng.standard_normal(n))
        for _ in range(200):        # nodes are used again
            i = rng.integers(0, 100, 20)
            j = frit.asarray(i)
            k = j[5:]
            for index, mine in ((i, j), (i[5:], k), (i, j)):
                if index.max() < n:
                    assert_same(x[mine], np.asarray(x)[index])
                else:
                    with pytest.raises(IndexError):
                        x[mine]
            j[3] = 99
            i[3] = 99
            if i.max() < n:
                assert_same(x[j], np.asarray(x)[i])
            else:
                with pytest.raises(IndexError):
                    x[j]
            frit.eval(x[j * 0])
    for hold in (True, False):      # somebody else may write to it, or has
        x, j = frit.asarray(np.arange(50.0)), frit.asarray(np.arange(20))
        frit.eval(x[j])
        a = np.asarray(j)
        a[:] = 1000
        if not hold:
            del a
        with pytest.raises(IndexError):
            x[j]


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "c16"])
def test_rows_of_every_length(dtype):
    """Each is copied at once: by moves that lie over each other, or several and a last one."""
    rng = np.random.default_rng(7)
    for n in [*range(1, 36), 63, 64, 65, 100, 255, 256, 257, 511, 512, 513, 600, 4096, 4097]:
        table = (rng.random((256, n)) * 100).astype(dtype)
        planes = np.stack([table[:9], table[9:18]])
        for index in ("i8", "i4", "u1") if SOAK else (("i8", "i4", "u1")[n % 3],):
            i = rng.integers(0, 256, int(rng.integers(1, 700))).astype(index)
            assert_same(frit.asarray(table)[frit.asarray(i)], table[i], what=(dtype, n, index))
            assert_same(frit.asarray(planes)[:, frit.asarray(i % 9)], planes[:, i % 9], what=(dtype, n, index))
            assert_same(frit.take(frit.asarray(planes), i % 9, 1), np.take(planes, i % 9, 1), what=(dtype, n, index))


@pytest.mark.parametrize("index", ["i8", "i4", "u1"])
def test_indices_that_change_between_calls(index):
    """Also those that are read once for all rows of what they take."""
    fast = frit.accelerate(lambda t, i: (t[:, i] + 1, t[0][i] * 2, np.take(t, i, 1)))
    table, i = np.arange(4 * 200 * 3.0).reshape(4, 200, 3), np.arange(100).astype(index)
    for k in range(30):
        i[k] = 199 - k
        for got, want in zip(fast(table, i), (table[:, i] + 1, table[0][i] * 2, np.take(table, i, 1))):
            assert_same(got, want)
    i[50] = 120 if index == "i8" else 201
    if index == "i8":
        i[50] = -201
    with pytest.raises(IndexError):
        fast(table, i)
    i[50] = 7
    assert_same(fast(table, i)[0], table[:, i] + 1)


@pytest.mark.own
def test_an_index_is_looked_at_once():
    """Tracing a take of 100,000 elements, and how many instructions taking a row is; frit's own memory does not change."""
    code = """
import os
import numpy as np
import frit
x, i = frit.asarray(np.arange(1000.0)), frit.asarray(np.arange(100_000) % 1000)
for _ in range(3): frit.eval(x[:5][i[:4] * 0])
os.getppid(); x[i]; os.getppid(); x[i]; os.getppid()
points = frit.asarray(np.ones((1000, 3)))
for _ in range(3): frit.eval(points[i])
os.getppid(); frit.eval(points[i]); os.getppid()
"""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("valgrind runs no sanitizer")
    _, first, again, _, rows = dispatch_callgrind.dumps(5, code)
    assert again < 20_000 < first
    assert rows < 100_000 * 20
