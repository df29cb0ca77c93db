"""Functions that are handed over and write into their arguments: NumPy's results there, in what was computed of them before,
and in whatever sees the same memory."""
import warnings

import numpy as np
import pytest

import frit

from .common import same_parts

pytestmark = pytest.mark.core


def at(z):
    b, t = z.copy(), z.sum()
    np.add.at(z, [0, 0, 2], 1.0)
    return b, t


def at_overlapping(z):
    np.add.at(z, [0, 1], z[1:3])


def at_reversed(z):
    np.subtract.at(z[::-1], [0, 1, 1], z[1:4])
    return z * 2


def at_of_one_operand(z):
    y = z * 2
    lazily = y + 1
    np.negative.at(y, [0, 1])
    return y, lazily


def at_of_pending(z):
    h = np.zeros(4)
    kept = []
    for i in range(4):
        np.add.at(h, [i, 1], z[i])
        kept.append(h.copy())
    return kept


def at_of_rows(z):
    y = np.zeros((3, 2))
    before = y + z[0]
    np.maximum.at(y, ([0, 2], [1, 0]), z[1:3])
    return before, y


def put_overlapping(z):
    np.put(z, [0, 1], z[1:3])


def put_method(z):
    z.put([3, 0], z[:2])
    return z.sum()


def putmask_overlapping(z):
    np.putmask(z, z > 0, z[::-1])


def place_overlapping(z):
    s = z + 1
    np.place(z, z > 0, z[::-1])
    return s


def along_axis(z):
    np.put_along_axis(z, np.array([0, 1]), z[1:3], 0)


def copyto_overlapping(z):
    np.copyto(z[1:], z[:-1])


def diagonal(z):
    y = np.outer(z, z)
    kept = y - 1
    np.fill_diagonal(y, z[:2])
    return kept, y


def diagonal_of_view(z):
    y = np.zeros((4, 4))
    np.fill_diagonal(y[1:, 1:], 5)
    return y


def sorted_view(z):
    kept = z * 1
    z[::-1].sort()
    return kept


def partitioned(z):
    s = z[1:] + z[:-1]
    z.partition(2)
    return s, z[2]


def overwritten(z):
    y = z + 1
    kept = y * 2
    return np.median(y, overwrite_input=True), kept


def out_overlapping(z):
    return np.cumsum(z, out=z[::-1])


def out_by_place(z):
    y = np.empty(4)
    kept = y * 0
    np.nextafter(z, 1.0, y)
    return kept, y


def out_of_choose(z):
    kept = z + 0
    np.choose([0, 1, 0, 1], [z[::-1], z], out=z)
    return kept


def heaviside(z):
    return np.heaviside(z - 1, z[0], out=z)


def nan_to_num(z):
    z[1] = np.nan
    kept = z * 1
    np.nan_to_num(z, copy=False)
    return kept


def setfield(z):
    kept = z * 1
    z.setfield(7.0, np.float64)
    return kept


def byteswap(z):
    kept = z * 1
    z.byteswap(inplace=True)
    z.byteswap(inplace=True)
    return kept


def uniform(z):
    y = np.concatenate([z, z])
    np.random.default_rng(1).random(out=y[2:6])
    return y + 1


def normal_into_view(z):
    y = np.zeros((3, 4))
    y[1] = z
    kept = y.sum(0)
    np.random.default_rng(1).standard_normal(out=y[2])
    return kept, y


def exponential(z):
    y = z + 1
    kept = y * 2
    return np.random.default_rng(3).standard_exponential(out=y, method="inv"), kept, y


def shuffle_1d(z):
    kept = z * 2
    np.random.default_rng(0).shuffle(z)
    return kept


def shuffle_legacy(z):
    np.random.seed(4)
    np.random.shuffle(z)


def shuffle_state(z):
    y = np.stack([z, z + 1, z + 2])
    np.random.RandomState(3).shuffle(y)
    return y


def shuffle_view(z):
    y = np.stack([z, z + 1, z + 2, z * 0])
    kept = y + 0
    np.random.default_rng(5).shuffle(y[1:, 1])
    return kept, y


def permuted(z):
    np.random.default_rng(0).permuted(z, out=z)


def permutation(z):
    return np.random.default_rng(0).permutation(z), np.random.default_rng(2).choice(z, 3)


@pytest.mark.parametrize("f", [
    at, at_overlapping, at_reversed, at_of_one_operand, at_of_pending, at_of_rows, put_overlapping, put_method,
    putmask_overlapping, place_overlapping, along_axis, copyto_overlapping, diagonal, diagonal_of_view, sorted_view,
    partitioned, overwritten, out_overlapping, out_by_place, out_of_choose, heaviside, nan_to_num, setfield, byteswap,
    uniform, normal_into_view, exponential, shuffle_1d, shuffle_legacy, shuffle_state, shuffle_view,
    permuted, permutation], ids=lambda f: f.__name__)
def test_what_they_write(f):
    fast = frit.accelerate(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(6):
            theirs = np.random.default_rng(i).integers(-2, 3, 8) * 1.0
            ours = theirs.copy()
            parts = (slice(4), slice(None, None, -2), slice(4, 8))
            want, got = f(theirs[parts[i % 3]]), fast(ours[parts[i % 3]])
            np.testing.assert_array_equal(ours, theirs, strict=True)
            same_parts(got, want)


def matrix():
    return np.arange(8.0).reshape(4, 2)


@pytest.mark.parametrize("f", [
    lambda x: np.random.default_rng(0).shuffle(x), lambda x: np.random.default_rng(0).shuffle(x, axis=1),
    lambda x: np.random.shuffle(x), lambda x: np.random.RandomState(1).shuffle(x.T),
    lambda x: np.random.default_rng(0).permuted(x, axis=1, out=x), lambda x: np.random.default_rng(0).random(out=x),
    lambda x: np.random.default_rng(0).shuffle([x, x + 1]), lambda x: np.random.default_rng(0).shuffle(x[::2])])
def test_rows_are_shuffled(f):
    theirs, ours = matrix(), matrix()
    np.random.seed(7)
    want = f(theirs)
    np.random.seed(7)
    got = frit.accelerate(f)(ours)
    np.testing.assert_array_equal(ours, theirs)
    assert (want is theirs) == (got is ours) and (want is None) == (got is None)


def test_tensors_directly():
    t, a = frit.asarray(matrix()), matrix()
    kept = t * 2, t.sum()
    np.add.at(t, [0, 0], 1.0)
    np.add.at(a, [0, 0], 1.0)
    np.put(t, [3, 4], t[2:, 1])
    np.put(a, [3, 4], a[2:, 1])
    np.testing.assert_array_equal(t, a)
    np.testing.assert_array_equal(kept[0], matrix() * 2)
    assert float(kept[1]) == matrix().sum()
    before = sum(frit.stats()["fallbacks"].values())
    view = np.asarray(t)
    np.add.at(t, 0, 10)
    assert view[0, 0] == a[0, 0] + 10 and sum(frit.stats()["fallbacks"].values()) == before + 1


def test_functions_of_others_get_memory_that_they_may_write():
    def touches(x, listed, key):
        assert type(x) is type(listed[0]) is type(key) is np.ndarray and x.flags.writeable and key.flags.writeable
        x[0], listed[0][1], key[2] = 10, 11, 12
        return x
    t = frit.arange(4.0)
    other, pending = frit.zeros(4), t * 2
    assert _call(touches, (t, [other]), {"key": t[1:]}) is t
    np.testing.assert_array_equal(t, [10, 1, 2, 12])
    np.testing.assert_array_equal(other, [0, 11, 0, 0])
    np.testing.assert_array_equal(pending, [0, 2, 4, 6])
    with pytest.raises(AssertionError):
        _call(touches, (frit.broadcast_to(t, (2, 4)), [other]), {"key": t})


_call = frit._core.numpy_call


def test_what_only_reads_keeps_others_pending():
    x = frit.arange(100.0)
    later = x * 2
    np.sort(x[::-1]), np.i0(x), np.histogram(x)
    assert "pending" in repr(later)
    x.sort()
    assert "pending" not in repr(later)
    np.testing.assert_array_equal(later, np.arange(100.0) * 2)


# ---- resize

def resized(make, *shape, **keywords):
    y = make()
    kept = y * 1
    try:
        y.resize(*shape, **keywords)
    except (ValueError, TypeError, MemoryError) as e:
        return type(e), str(e), y
    return kept, y, y.strides, y.ndim == 0 or y.flags.c_contiguous, y + 1    # (NumPy forgets the flags of none)


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("shape", [
    (3,), ((3, 1),), (9,), ((9, 1),), (1, 9), (4, 4), (0,), ((),), (2, 2), (None,), (), ((2, 0, 3),), (-1,), ((-1, 3),),
    (5, 3), (2.5,), ("a",), (2**62, 4)])
def test_resize(order, shape):
    def make():
        return np.array(np.arange(9.0).reshape(3, 3), order=order)
    with np.errstate(all="ignore"):
        want = resized(make, *shape, refcheck=False)
    got = frit.accelerate(lambda: resized(make, *shape, refcheck=False))()
    if isinstance(want[0], type):
        assert got[0] is want[0] and (got[0] is MemoryError or got[1] == want[1])
        got, want = got[2:], want[2:]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w, strict=isinstance(w, np.ndarray))


def test_resize_looks_for_others():
    @frit.accelerate
    def alone():
        y = np.arange(9.0)
        y.resize(3)
        y.resize(2, 2)
        return y
    np.testing.assert_array_equal(alone(), [[0, 1], [2, 0]])

    def seen():
        y = np.arange(9.0)
        v = y[1:]
        y.resize(3)
        return v

    def of_window():
        y = np.arange(9.0)[1:]
        y.resize(3)

    def of_columns():
        y = np.ones((3, 3))[:, :2]
        y.resize(3)

    def of_argument(y):
        y.resize(3)
    x = np.arange(9.0)
    for f, args in ((seen, ()), (of_window, ()), (of_columns, ()), (of_argument, (x,))):
        with pytest.raises(ValueError) as want:
            f(*args)
        with pytest.raises(ValueError) as got:
            frit.accelerate(f)(*args)
        assert str(got.value) == str(want.value)
    with pytest.raises(TypeError, match="'foo' is an invalid keyword"):
        frit.zeros(3).resize(2, foo=1)


# ---- how methods come by arrays

class Layer:
    def __init__(self):
        self.seen = []

    def forward(self, x, scale=1):
        self.seen.append(type(x))
        return x * scale

    def __getattr__(self, name):
        if name == "missing":
            raise AttributeError("it is missing here")
        return lambda *args: (name, args)


def test_methods_of_users_classes_are_called_as_ever():
    layer, rng = Layer(), np.random.default_rng(0)

    @frit.accelerate
    def f(x, i):
        y = layer.forward(x, scale=2) + layer.forward(x)
        name, args = layer.whatever(i)
        return y, name, args[0], rng.bit_generator.state["bit_generator"], rng.uniform(size=2).shape, rng.normal(x).shape
    got = f(np.ones(3), 5)
    np.testing.assert_array_equal(got[0], [3, 3, 3])
    assert got[1:] == ("whatever", 5, "PCG64", (2,), (3,)) and layer.seen[0] is np.ndarray

    @frit.accelerate
    def g(x):
        return layer.missing(x)
    with pytest.raises(AttributeError, match="it is missing here"):
        g(np.ones(3))

    @frit.accelerate
    def h(x):
        return x.shuffle()
    with pytest.raises(AttributeError, match="shuffle"):
        h(np.ones(3))


def test_methods_with_many_constants():
    source = "def f(rng, x):\n    y = 0.0\n" + "".join(f"    y = y + {i}.5\n" for i in range(300))
    names = {}
    exec(source + "    rng.shuffle(x)\n    return [rng.shuffle(x) for _ in range(3)], y", names)
    theirs, ours = matrix(), matrix()
    want, got = names["f"](np.random.default_rng(2), theirs), frit.accelerate(names["f"])(np.random.default_rng(2), ours)
    assert got == want
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("check", ["hi", 1.5, None, [], 0, True])
def test_resize_takes_a_number_for_refcheck(check):
    def f():
        a = np.zeros(3)
        try:
            a.resize(refcheck=check)
        except TypeError as e:
            return str(e)

    assert frit.accelerate(f)() == f()
