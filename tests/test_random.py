"""frit.random: the published vectors of Philox4x32-10, and streams that depend on nothing else."""
import operator
import os

import numpy as np
import pytest

import frit

from .common import SHARED, assert_same

pytestmark = pytest.mark.core


def philox4x32(counter, key, rounds=10):
    """The algorithm of Salmon et al. in plain Python integers."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(rounds):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def test_model_gives_the_published_vectors():
    path = os.path.join(SHARED, "data", "random123", "kat_vectors")
    if not os.path.exists(path):
        pytest.skip(f"{path} is not there")
    n = 0
    with open(path) as f:
        for line in f:
            if line.startswith("philox4x32 10 "):
                words = [int(w, 16) for w in line.split()[2:]]
                assert philox4x32(words[:4], words[4:6]) == words[6:]
                n += 1
    assert n >= 3


@pytest.mark.parametrize("key", [0, 1, 0x123456789ABCDEF0, (1 << 64) - 1])
def test_bits_are_philox(key):
    got = np.asarray(frit.random.philox(key).bits(50))
    for i in range(50):
        w = philox4x32([i, 0, 0, 0], [key & 0xFFFFFFFF, key >> 32])
        assert int(got[i]) == w[0] | w[1] << 32


def test_uniform_numbers_are_the_bits():
    w = np.asarray(frit.random.philox(7).bits(100))
    u = np.asarray(frit.random.philox(7).random(100))
    assert (u == (w >> np.uint64(11)).astype(float) * 2.0 ** -53).all()
    f = np.asarray(frit.random.philox(7).random(100, dtype=np.float32))
    assert f.dtype == np.float32 and ((f >= 0) & (f < 1)).all()


def test_stream_does_not_depend_on_how_it_is_drawn():
    whole = np.asarray(frit.random.default_rng(5).standard_normal(1000))
    rng = frit.random.default_rng(5)
    parts = [rng.standard_normal(n) for n in (1, 99, 400, 500)]
    assert_same(frit.concatenate(parts), whole)
    for threads in (1, 2):
        with frit.config(num_threads=threads):
            assert_same(frit.random.default_rng(5).standard_normal((10, 100)), whole.reshape(10, 100))


def test_moments():
    rng = frit.random.default_rng(1)
    n = 200_000
    u, z = np.asarray(rng.random(n)), np.asarray(rng.normal(2.0, 3.0, n))
    assert abs(u.mean() - 0.5) < 0.005 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean() - 2) < 0.05 and abs(z.std() - 3) < 0.05
    assert abs((((z - 2) / 3) ** 4).mean() - 3) < 0.15
    k = np.asarray(rng.integers(3, 13, n))
    counts = np.bincount(k - 3, minlength=10)
    assert k.min() == 3 and k.max() == 12 and abs(counts / n - 0.1).max() < 0.005


def test_single_numbers_and_state():
    rng = frit.random.default_rng(9)
    state = rng.state
    a = rng.random()
    assert isinstance(a, float) and isinstance(rng.integers(5), int)
    rng.state = state
    assert rng.random() == a
    assert repr(rng).startswith("frit.random.Generator(key=")


def test_permutations():
    rng = frit.random.default_rng(5)
    assert sorted(rng.permutation(100).tolist()) == list(range(100)) and rng.permutation(100).tolist() != list(range(100))
    a = np.arange(60.0).reshape(10, 6)
    for axis in (0, 1, -1):
        got = np.asarray(frit.random.default_rng(1).permutation(a, axis))
        assert not np.array_equal(got, a)
        np.testing.assert_array_equal(np.sort(got, axis), a)
        for x in (a.copy(), frit.asarray(a)):
            frit.random.default_rng(1).shuffle(x, axis)
            np.testing.assert_array_equal(x, got)
    for axis in (2, -3):
        with pytest.raises(np.exceptions.AxisError):
            rng.permutation(a, axis)
    assert rng.permutation(0).shape == (0,) and rng.permutation(np.empty((0, 3))).shape == (0, 3)


IN_PLACE = {
    "shuffle": lambda x: np.random.default_rng(0).shuffle(x), "axis": lambda x: np.random.default_rng(0).shuffle(x, axis=1),
    "legacy": lambda x: np.random.RandomState(0).shuffle(x), "global": lambda x: np.random.shuffle(x),
    "state": lambda x: frit.random.RandomState(1).shuffle(x), "permuted": lambda x: np.random.default_rng(0).permuted(x, out=x),
    "random": lambda x: np.random.default_rng(0).random(out=x), "normal": lambda x: np.random.default_rng(0).standard_normal(out=x),
    "exponential": lambda x: np.random.default_rng(0).standard_exponential(out=x),
    "gamma": lambda x: np.random.default_rng(0).standard_gamma(2.0, out=x)}


@pytest.mark.filterwarnings("ignore:you are shuffling")
@pytest.mark.parametrize("shape", [(8,), (8, 3), (5, 2, 2), (1, 3), (0, 3)])
@pytest.mark.parametrize("name", IN_PLACE)
def test_numpys_generators_never_lose_rows(name, shape):
    """NumPy's generators take no Tensor for an ndarray: they do as with an ndarray, or raise and change nothing."""
    a = np.arange(float(np.prod(shape))).reshape(shape)
    t, want = frit.asarray(a), a.copy()
    try:
        IN_PLACE[name](t)
    except (TypeError, ValueError, NotImplementedError):
        want = a
    else:
        if len(shape) == 1 and name in ("global", "state"):
            want, t = np.sort(want), np.sort(t)
        else:
            IN_PLACE[name](want)
    np.testing.assert_array_equal(t, want)
    assert name in ("global", "legacy", "shuffle", "state") or want is a
    IN_PLACE[name](np.asarray(t)) if shape != (8,) or name != "axis" else None       # which is the same memory
    IN_PLACE[name](want) if name != "global" and (shape != (8,) or name != "axis") else None
    assert name == "global" or np.array_equal(t, want)


def test_rows_are_views_where_nobody_exchanges_them():
    """What Python's own code stores is what NumPy makes of it, by whatever way it takes rows and stores them."""
    def swap(x):
        x[0], x[2] = x[2], x[0]
        return x

    def by_functions(x):
        operator.setitem(x, 0, operator.getitem(x, 1))
        x.__setitem__(2, x.__getitem__(3))
        kept = [operator.getitem(x, i) for i in range(4)]
        operator.setitem(x, 3, kept[0])
        list(map(operator.setitem, [x, x], [0, 1], map(operator.getitem, [x, x], [2, 0])))
        return x, kept
    for f in (swap, by_functions):
        a = np.arange(12.0).reshape(4, 3)
        np.testing.assert_array_equal(f(frit.asarray(a)), f(a))
