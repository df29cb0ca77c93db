"""frit.random: the published vectors of Philox4x32-10, and streams that depend on nothing else."""
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
