"""Memory that others look at: NumPy's rule is that an operation sees the values of its own time.  Whatever
may be written behind our back is read at once, and laziness is back when nobody looks any more."""
import ctypes
import gc
import weakref

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = pytest.mark.core


def pending(t):
    return "pending" in repr(t)


LOOKS = {
    "np.asarray": np.asarray,
    "numpy()": lambda t: t.numpy(),
    "memoryview": lambda t: np.asarray(memoryview(t)),
    "dlpack": np.from_dlpack,
    "data": lambda t: np.asarray(t.data),
    "view of a view": lambda t: np.asarray(t)[::-1][::-1],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_reads_see_the_values_of_their_time(look):
    t = frit.asarray(np.arange(6.0))
    seen = look(t)
    a, b, c = t + 1, t[::2] * 2, t.reshape(2, 3).sum(axis=0)
    d = frit.concatenate([t, t])
    e = t.astype("f4")
    f = frit.where(t > 2, t, 0)
    kept = frit.zeros(6)
    kept[1:] = t[:-1]
    if seen.flags.writeable:
        seen[:] = -1
        assert_same(np.array(t), np.full(6, -1.0))
    x = np.arange(6.0)
    assert_same(np.array(a), x + 1)
    assert_same(np.array(b), x[::2] * 2)
    assert_same(np.array(c), x.reshape(2, 3).sum(axis=0))
    assert_same(np.array(d), np.concatenate([x, x]))
    assert_same(np.array(e), x.astype("f4"))
    assert_same(np.array(f), np.where(x > 2, x, 0))
    assert_same(np.array(kept), np.array([0, *x[:-1]]))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_what_was_pending_keeps_its_values(look):
    t = frit.asarray(np.arange(6.0))
    a = t + 1
    b = a * t
    assert pending(b)
    seen = look(t)
    if seen.flags.writeable:
        seen[:] = -1
    assert_same(np.array(b), np.arange(6.0) * np.arange(1.0, 7.0))


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
def test_laziness_is_back_when_nobody_looks(look):
    t = frit.asarray(np.arange(6.0))
    seen = look(t)
    assert not pending(t + 1) or not seen.flags.writeable
    del seen
    gc.collect()
    assert pending(t + 1)
    t += 1
    assert pending(t)
    assert_same(np.array(t), np.arange(1.0, 7.0))


def test_stores_are_seen_at_once():
    t = frit.asarray(np.arange(6.0))
    seen = np.asarray(t)
    t[1:] = t[:-1]
    assert_same(seen, np.array([0.0, 0, 1, 2, 3, 4]))
    t *= 2
    assert_same(seen, np.array([0.0, 0, 2, 4, 6, 8]))
    t[...] = 5
    assert_same(seen, np.full(6, 5.0))


def test_an_iterator_sees_stores_and_costs_no_laziness():
    t = frit.asarray(np.arange(4.0))
    values = []
    for v in t:
        values.append(float(v))
        assert pending(t * 2)
        t += 10
    assert values == [0.0, 11.0, 22.0, 33.0]


def reshaped_while_it_runs(x, shape):
    seen = []
    for v in x:
        seen.append(v)
        x.shape = shape
    return seen


def hints(x):
    it = iter(x)
    return it.__length_hint__(), next(it), it.__length_hint__(), list(it), it.__length_hint__(), next(it, None)


@pytest.mark.parametrize("f, args", [(reshaped_while_it_runs, [(1, -1)]), (reshaped_while_it_runs, [(-1, 1)]),
                                     (reshaped_while_it_runs, [(2, 2)]), (reshaped_while_it_runs, [(4,)]), (hints, [])])
def test_an_iterator_follows_the_shape(f, args):
    g = frit.accelerate(f)
    for _ in range(3):
        assert repr(g(np.arange(4.0), *args)) == repr(f(np.arange(4.0), *args))


def test_memory_of_others():
    for share in (lambda a: frit.asarray(a, copy=False), lambda a: frit.from_dlpack(a)):
        a = np.arange(6.0)
        t = share(a)
        u = t + 1
        a[:] = -1
        assert_same(np.array(u), np.arange(1.0, 7.0))
        assert_same(np.array(t), np.full(6, -1.0))
    a = np.arange(6.0)
    t = frit.asarray(a, copy=False)
    t += 1
    assert_same(a, np.arange(1.0, 7.0))


def test_an_address_that_was_taken_stays():
    t = frit.asarray(np.arange(6.0))
    address = t.ctypes.data
    for k in range(20):
        t[...] = float(k)
        junk = [frit.asarray(np.ones(6)) + 1 for _ in range(5)]
        frit.eval(junk)
        assert list((ctypes.c_double * 6).from_address(address)) == [float(k)] * 6


@pytest.mark.planned
def test_accelerated_functions_are_lazy_on_shown_memory():
    @frit.accelerate
    def step(w, g):
        w -= 0.1 * g
        w *= 2
        return w + 1, w[1:]

    w = g = np.ones(50)
    g = g.copy()
    for _ in range(3):      # results of one call are arguments of the next
        want = (w - 0.1 * g) * 2
        r, part = step(w, g)
        assert step.stats.kernels == 1
        assert_same(w, want)
        assert_same(r, want + 1)
        part[0] = 7.0
        assert w[1] == 7.0
        w = r


def test_an_accelerated_function_that_shows_its_arguments():
    def f(w):
        y = w + 1
        seen = helper(w)        # not rewritten: a plain ndarray
        seen[0] = 50.0
        z = w * 2
        seen[0] = 60.0
        return y, z, w + 0

    got_w, want_w = np.arange(5.0), np.arange(5.0)
    got, want = frit.accelerate(f)(got_w), f(want_w)
    for g, w in zip(got, want):
        assert_same(g, w)
    assert_same(got_w, want_w)


helper = np.asanyarray      # a name of NumPy's that has no twin


def test_an_accelerated_function_with_a_callback_that_writes():
    def f(x, change):
        y = x + 1
        change()
        return y, y + x

    def run(f):
        x = np.zeros(4)

        def change():
            x[0] += 1
        return f(x, change)

    for g, w in zip(run(frit.accelerate(f)), run(f)):
        assert_same(g, w)


def test_values_read_by_numpy_stay_while_it_runs():
    """A callback of a NumPy function stores into the array that NumPy is reading."""
    x = frit.asarray(np.arange(600_000.0).reshape(2, -1))

    def change(row):
        x[...] = -1.0
        frit.eval([frit.asarray(np.full(600_000, 2.0)) * 2 for _ in range(4)])
        return row[-1]

    got = np.apply_along_axis(change, 1, x)
    assert got[0] == 299_999.0 and got[1] in (599_999.0, -1.0)
    assert_same(np.array(x), np.full((2, 300_000), -1.0))


def test_code_that_runs_when_memory_is_let_go():
    """A finalizer that traces and evaluates, called when the last reader of foreign memory is computed."""
    hits = []

    def note():
        y = frit.asarray(np.ones(3))
        for i in range(3000):       # enough to make every table grow
            y = y + 1.0
        hits.append(float(y.sum()))

    for k in range(5):
        base = np.full(1000, float(k))
        weakref.finalize(base, note)
        t = frit.asarray(base, copy=False)
        pack = [t]
        del base, t
        u = frit.asarray(np.ones(1000))
        u[...] = pack[0]
        u = u + pack.pop()
        gc.collect()
        assert_same(np.array(u), np.full(1000, 2.0 * k))
        assert len(hits) == k + 1
    assert hits == [9003.0] * 5


def test_an_array_is_not_read_only_because_the_one_before_was():
    """What stands for an array rests when the call ends, and stands for the next one like it."""
    held = [None]

    @frit.accelerate
    def off(k):
        held[0].flags.writeable = False

    @frit.accelerate
    def total(x):
        return x.sum()

    for _ in range(3):
        held[0] = np.ones(2)
        off(1)
        held[0] = None
        x = np.ones(2)
        assert total(x) == 2 and x.flags.writeable
