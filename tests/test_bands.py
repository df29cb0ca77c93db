"""Steps that follow each other run band by band where they touch much memory (csrc/runtime/bands.c): the same bits, in
less memory, by one thread or several."""
import re

import numpy as np
import pytest

import frit
from frit import _core

from .common import assert_same
from .test_faults import every_allocation_may_fail

pytestmark = [pytest.mark.core, pytest.mark.planned]
RNG = np.random.default_rng(11)


def rand(*shape, dtype="f4"):
    return (RNG.standard_normal(shape) * 8).astype(dtype)


def softmax(x):
    """Of which the quotient alone is not exact: 2 ** n, not exp."""
    e = np.maximum(x - x.max(1, keepdims=True), -3)
    return e / (e.sum(1, keepdims=True) - 1)


def batch_norm(x):
    d = x - x.mean((0, 2, 3), keepdims=True)
    return d / np.sqrt((d * d).mean((0, 2, 3), keepdims=True) + 1)


def blur(x):
    n, m = x.shape[0] - 4, x.shape[1] - 4
    y = sum(x[i:n + i] * (i + 1) for i in range(5))
    return sum(y[:, i:m + i] * (i + 1) for i in range(5))


def corners(x):
    """Twice the neighbours in both directions, of three arrays at once."""
    a, b = x[1:-1, 2:] - x[1:-1, :-2], x[2:, 1:-1] - x[:-2, 1:-1]

    def box(p):
        s = p[:-2] + p[1:-1] + p[2:]
        return s[:, :-2] + s[:, 1:-1] + s[:, 2:]
    p, q, r = box(a * a), box(b * b), box(a * b)
    return p * q - r * r


def seen_twice(x):
    """The mean is a result as well."""
    m = x.mean(1)
    return m, (x - m[:, None]) * 2


def flat(x):
    """What follows knows no axes."""
    s = x.sum(1)
    return s, np.sqrt(np.abs(s).reshape(-1)) * 2, x - s[:, None]


def three_steps(x):
    y = x
    for _ in range(3):
        y = y[:-2] + y[2:] - y[1:-1] * y[1:-1]
        y = y[:, 1:] - y[:, :-1]
    return y


CASES = {
    "softmax of channels": (softmax, rand(7, 6, 20, 30)),
    "softmax of channels, f64": (softmax, rand(5, 6, 33, 17, dtype="f8")),
    "softmax of many channels": (softmax, rand(3, 50, 40)),
    "norm over images": (batch_norm, rand(9, 40, 5, 7)),
    "norm over images, f16": (batch_norm, (RNG.standard_normal((9, 40, 5, 7))).astype("f2")),
    "spread of channels": (lambda x: x.std(1), rand(40, 3, 16, 16)),
    "spread of short rows": (lambda x: x.std(1), rand(300, 5, 3)),
    "largest, then what is as large": (lambda x: (x == x.max(1, keepdims=True)).sum(1), rand(40, 9, 33, dtype="i4")),
    "blur": (blur, rand(200, 90)),
    "blur, f64": (blur, rand(131, 77, dtype="f8")),
    "corners": (corners, rand(120, 70)),
    "steps": (three_steps, rand(150, 40)),
    "a result on the way": (seen_twice, rand(60, 12, 20)),
    "results without axes": (flat, rand(60, 12, 20)),
    "running sums along rows": (lambda x: np.cumsum(x * x, 1)[:, 3:] - np.cumsum(x, 1)[:, :-3] * x[:, 3:], rand(60, 50)),
    "of one array, not of each other": (lambda x: (np.cumsum(x, 1)[:, ::2] * 2, np.cumsum(x * x + 1, 1)), rand(60, 50)),
    "transposed": (lambda x: (x.transpose(0, 2, 1) - x.mean(1)[:, :, None]) * 2, rand(50, 8, 20)),
    "every other one": (lambda x: (x[:-2:2] - x[:-2:2].mean(1, keepdims=True)) * x[2::2],
                        rand(120, 8, 20)),
}


def settings(n_threads, x):
    return frit.config(band_bytes=x.nbytes // 20, num_threads=n_threads)


def evaluated(f, *arrays):
    made = f(*arrays)
    made = made if isinstance(made, tuple) else (made,)
    frit.eval(made)
    return made


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_bands_have_the_same_bits(name, n_threads):
    f, x = CASES[name]
    x = np.concatenate([x, x])[:len(x) + n_threads]     # shapes, and so plans, of their own
    want = f(x)
    with settings(n_threads, x):
        t = frit.asarray(x)
        frit.eval(t)
        n = frit.stats()["banded"]
        got = evaluated(f, t)
        assert frit.stats()["banded"] >= n + 2
    for g, w in zip(got, want if isinstance(want, tuple) else (want,)):
        assert_same(g, w)


def temporaries(text):
    return int(re.search(r"(\d+) temporaries", text).group(1))


def test_the_second_result_is_as_the_first():
    f, x = CASES["softmax of channels"][0], rand(11, 6, 20, 30)
    with settings(2, x):
        fast = frit.accelerate(f)
        for _ in range(6):
            assert_same(fast(x), f(x))
        n = frit.stats()["banded"]
        assert_same(fast(x), f(x))
        assert frit.stats()["banded"] == n + 3 and fast.stats.kernels == 3


def test_a_temporary_is_what_one_band_needs_of_it():
    """And a plan's peak is what is allocated."""
    x, other = frit.asarray(rand(64, 6, 16, 16)), frit.asarray(rand(65, 6, 16, 16))
    frit.eval(x, other)
    y = softmax(x)
    with frit.config(band_bytes=0):
        text = frit.explain(softmax(other))
        whole = temporaries(text)
    assert " bands" not in text
    with frit.config(band_bytes=8192, num_threads=2):
        text = frit.explain(y)
        assert re.search(r"in \d+ bands with the next 3", text) and text.count("in the same bands") == 3
        assert 0 < temporaries(text) < whole / 8
        _core.stats_reset()
        before = frit.stats()["live_bytes"]
        frit.eval(y)
        s = frit.stats()
        peak = int(re.search(r"peak (\d+)", text).group(1))
        assert s["peak_bytes"] - before == s["peak_planned_bytes"] == peak


@pytest.mark.parametrize("f, shape", [
    (lambda x: x - x.mean(), (400, 30)),                          # needs all of it
    (lambda x: x - x.mean(0), (400, 30)),                         # cut into parts of rows of three elements
    (lambda x: (x[::-1] + 1) * x.mean(1, keepdims=True), (8, 6)), # too little
    (lambda x: (x * 2).sum(1), (400, 30)),                        # one kernel
], ids=["whole", "columns", "little", "one"])
def test_what_has_no_bands(f, shape):
    x = rand(*shape)
    with settings(1, x):
        n = frit.stats()["banded"]
        got, = evaluated(f, frit.asarray(x))
        assert frit.stats()["banded"] == n
    assert_same(got, f(x))


def test_machine_code_runs_in_bands():
    f, x = CASES["blur"][0], rand(230, 100)
    with settings(2, x), frit.config(jit="always"):
        t = frit.asarray(x)
        frit.eval(t)
        n = frit.stats()
        got, = evaluated(f, t)
        s = frit.stats()
        assert s["banded"] == n["banded"] + 2
        if not s["compiled"] and not s["disk_hits"]:
            pytest.skip("no compiler here")
        assert s["jitted"] == n["jitted"] + 2
    assert_same(got, f(x))


def test_results_take_no_memory_that_other_bands_still_read():
    """The operand is not wanted any more, but by a step whose bands come later."""
    x = rand(40, 8, 30)
    with settings(1, x):
        t = frit.asarray(x) * 1
        frit.eval(t)
        n = frit.stats()["banded"]
        t = (t - t[::-1].mean(1, keepdims=True)) * 2
        frit.eval(t)
        assert frit.stats()["banded"] == n + 2
    assert_same(t, (x - x[::-1].mean(1, keepdims=True)) * 2)


def banded(xp, a, v):
    x = xp.concatenate([a, a * v])[:, :, None] + xp.zeros((1, 1, 6), a.dtype)
    return x - x.mean(1, keepdims=True), x.std(1)


def test_allocations_of_bands_may_fail():
    from .test_faults import A, V
    with settings(2, A):
        every_allocation_may_fail(banded, [np.array(w) for w in banded(np, A, V)])
