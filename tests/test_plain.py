"""Plain calls: arrays come as they are, code runs in its second copy, and what is called is frit's where that is what rounds or
is sooner (csrc/bind/accelerate/plain.c)."""
import gc
import math
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import frit
from frit import _membrane


def in_second(function, offset):
    """Whether an offset is one of the second copy of a function's code."""
    code = (function.__wrapped__ if hasattr(function, "__wrapped__") else function).__code__
    return offset > _membrane._ours[id(code)][2]


def here():
    return sys._getframe(1).f_lasti


@pytest.fixture
def plain_soon():
    """Calls become plain by the counts of few operations."""
    with frit.config(tune="plain_nodes=16, needed_10ns=10000", eager_elems=4096, jit="interpret"):
        yield


@pytest.fixture
def as_usual():
    with frit.config(eager_elems=131072, jit="interpret"):
        yield


# ---- where code runs

def test_a_loop_goes_on_in_the_second_copy(plain_soon):
    seen = []

    def f(x):
        for i in range(400):
            x[i % 8] += math.sin(x[i % 8])
            if x[i % 8] > 1e9:
                break
            seen.append(here())
        return x.sum()
    g, x, y = frit.accelerate(f), np.arange(8.0), np.arange(8.0)
    total = g(x)
    n_first = sum(not in_second(g, at) for at in seen)
    assert not in_second(g, seen[0]) and in_second(g, seen[-1]) and 0 < n_first < 200
    for i in range(400):
        y[i % 8] += math.sin(y[i % 8])
    assert x.tobytes() == y.tobytes() and total == y.sum()
    del seen[:]
    g(x)        # plain from the beginning: now and then a turn is made in the first copy
    assert g.stats.unchanged == 1 and in_second(g, seen[0])
    assert 1 <= sum(not in_second(g, at) for at in seen) <= 400 // 16


def test_outside_of_calls_code_runs_in_the_second_copy():
    def helper(x):
        return here(), x + 1

    @frit.accelerate
    def f(x):
        return helper(x)
    assert not in_second(helper, f(np.ones(3))[0])
    assert in_second(helper, helper(np.ones(3))[0])


def test_large_arrays_end_it(plain_soon):
    """Not before each function that runs is in the copy where arrays are looked at."""
    places = []

    def inner(held):
        for _ in range(3000):
            held[0] = held[0] * 1.0
        places.append(here())

    def f(x, held):
        for i in range(400):
            x[i % 8] += math.sin(x[i % 8])
        for k in range(6):
            inner(held)
        return x
    g, x, held = frit.accelerate(f), np.arange(8.0), [np.ones(5000)]
    before = frit.stats()["nodes"]
    g(x, held)
    assert not in_second(inner, places[-1]) and 6000 < frit.stats()["nodes"] - before < 17_000
    assert type(held[0]) is np.ndarray and held[0].tolist() == [1.0] * 5000


# ---- what stays

def test_what_a_plain_part_of_a_call_stores_is_the_very_array(plain_soon):
    class Keeper:
        pass
    keeper, kept, x = Keeper(), [], np.arange(10.0)

    @frit.accelerate
    def f(x, keeper, kept):
        local = x
        for i in range(600):
            local[i % 10] += 1.0
            if local[i % 10] > 1e9:
                break
            if i == 590:
                keeper.x, keeper.part = local, local[2:5]
                kept.append(local)
    f(x, keeper, kept)
    assert keeper.x is x and kept[0] is x and np.shares_memory(keeper.part, x)
    assert x.tolist() == (np.arange(10.0) + 60).tolist()


class Thing:
    """Its property is reached where nobody sees it before calls are plain."""

    def __init__(self, x):
        self.x = x

    @property
    def grown(self):
        return np.exp(self.x)

    def __add__(self, other):
        return np.tanh(self.x) + other


SEEN = [0]
THINGS = [Thing(np.linspace(0.1, 1, 50)) for _ in range(3)]


def reach(n):
    found, x = None, np.arange(4.0)
    for i in range(n):
        x[i % 4] += 1
        if x[i % 4] > 1e9:
            break
        if i > n - 3:
            SEEN[0] = i
            thing = THINGS[i % 3]
            found = thing.grown + 0, thing + 1.0
    return found


def test_operators_and_properties_that_nobody_saw_before_have_frits_bits():
    with frit.config(off="unchanged"):
        expected = frit.accelerate(reach)(600)
    assert any(a.tobytes() != b.tobytes() for a, b in zip(expected, (np.exp(THINGS[2].x) + 0, np.tanh(THINGS[2].x) + 1)))
    code = """
import numpy as np, frit, sys
from tests import test_plain as t
with frit.config(tune="plain_nodes=16, needed_10ns=10000", jit="interpret", eager_elems=4096):
    f = frit.accelerate(t.reach)
    f(200), f(200)
    assert f.stats.unchanged, f.stats
    print(*(a.tobytes().hex() for a in f(600)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    assert done.stdout.split() == [a.tobytes().hex() for a in expected], done.stderr


# ---- what is called

AT_ONCE = {
    "exp of a number": lambda x, y, n: np.exp(n),
    "exp of NumPy's": lambda x, y, n: np.exp(x[2]),
    "exp of a complex number": lambda x, y, n: np.exp(1j * n),
    "log of an array": lambda x, y, n: np.log(x),
    "tanh of a table": lambda x, y, n: np.tanh(x.reshape(5, 4)),
    "maximum of arrays": lambda x, y, n: np.maximum(x, y),
    "maximum with an int": lambda x, y, n: np.maximum(0, x),
    "minimum of numbers": lambda x, y, n: np.minimum(n, 0.5),
    "arctan2": lambda x, y, n: np.arctan2(y, x),
    "hypot with a number": lambda x, y, n: np.hypot(x, n),
    "square": lambda x, y, n: x ** 2,
    "sqrt": lambda x, y, n: np.sqrt(x),
}
OTHERWISE = {
    "nothing to be done at once": lambda x, y, n: (np.maximum(x, y[:3, None]), np.exp([n, 2.0]), np.maximum(1, 2), np.sqrt(4)),
    "other dtypes": lambda x, y, n: (np.exp(x.astype("f4")), np.maximum(x.astype(int), 3), np.negative(np.int8(-128))),
    "laid out otherwise": lambda x, y, n: (np.exp(x.reshape(4, 5).T), np.log(x[::2]), np.tanh(x.reshape(4, 5)[:, 1:3])),
    "out": lambda x, y, n: (np.exp(x, out=y), y.copy()),
    "out by its place": lambda x, y, n: (np.maximum(x, 0.3, y), y.copy()),
    "where": lambda x, y, n: np.exp(x, where=x > 0.5, out=np.zeros(20)),
    "without axes": lambda x, y, n: (np.exp(np.array(n)), np.maximum(np.array(1.0), n)),
    "large": lambda x, y, n: np.exp(np.linspace(0, 1, 5000)),
    "reductions": lambda x, y, n: (np.sum(x), np.mean(x), x.std(), x.max(), np.max(x.reshape(4, 5), axis=1), np.argmin(x)),
    "reductions of lists": lambda x, y, n: (np.sum([1, 2, 3]), np.mean([1.5, 2]), np.max([n, 2]), np.any([False, True])),
    "reductions with keywords": lambda x, y, n: (np.sum(x.reshape(4, 5), axis=0, keepdims=True), x.sum(dtype="f4"),
                                                 np.mean(x, where=x > 0.3), np.var(x, ddof=1)),
    "sums into an array": lambda x, y, n: (np.sum(x.reshape(4, 5), axis=1, out=y[:4]), y.copy()),
    "clip": lambda x, y, n: (np.clip(x, 0.2, n), x.clip(max=0.5), np.clip(n, 0, 1)),
}


def in_a_plain_call(f):
    """What f(x, y, n) gives in a call that is plain from its beginning, and how many operations were traced."""
    def run(x, y, n, often):
        out, many = None, x.copy()
        for i in range(often):
            many[i % 8] += 1
            if many[i % 8] > 1e9:
                break
        before = frit.stats()["nodes"]
        out = f(x, y, n)
        return out, frit.stats()["nodes"] - before
    g, x, y = frit.accelerate(run), np.linspace(0.1, 1, 20), np.linspace(1, 0.2, 20)
    for _ in range(2):
        g(x, y.copy(), 0.7, 200)
    found = g(x, y.copy(), 0.7, 1)
    assert g.stats.unchanged == 2, g.stats
    return found


def traced(f):
    with frit.config(off="unchanged"):
        return frit.accelerate(lambda x, y, n: f(x, y, n))(np.linspace(0.1, 1, 20), np.linspace(1, 0.2, 20), 0.7)


def same(a, b):
    if isinstance(a, tuple):
        return type(b) is tuple and len(a) == len(b) and all(map(same, a, b))
    return (type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
            and np.asarray(a).tobytes() == np.asarray(b).tobytes())


@pytest.mark.parametrize("name", AT_ONCE)
def test_numbers_and_small_arrays_are_done_at_once(plain_soon, name):
    found, n_nodes = in_a_plain_call(AT_ONCE[name])
    assert same(traced(AT_ONCE[name]), found) and n_nodes == 0


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_not_done_at_once_is_as_it_would_be(plain_soon, name):
    found, _ = in_a_plain_call(OTHERWISE[name])
    assert same(traced(OTHERWISE[name]), found), (found, traced(OTHERWISE[name]))


def test_warnings_are_said_by_what_is_done_at_once(plain_soon):
    def f(x, y, n):
        return np.log(x - x[0]), np.exp(2000 * n), np.sqrt(-n)
    with pytest.warns(RuntimeWarning) as said:
        in_a_plain_call(f)
    texts = {str(w.message) for w in said}
    assert {"divide by zero encountered in log", "overflow encountered in exp", "invalid value encountered in sqrt"} <= texts
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero encountered in log"):
        in_a_plain_call(f)


# ---- which code is made

class Part:
    def first(self, x):
        return self.second(x) * 2

    def second(self, x):
        return x + 1

    def never(self, x):
        return x - 1

    @property
    def size(self):
        return 3


class Worker(threading.Thread):
    """What Python's library calls by its name."""

    def __init__(self, x):
        super().__init__()
        self.x = x

    def run(self):
        self.x += np.float64(1)


def test_methods_get_their_code_when_they_are_called():
    part, worker, x = Part(), Worker(np.zeros(3)), np.ones(3)

    @frit.accelerate
    def f(part, worker, x):
        x = x * part.size
        worker.start()
        worker.join()
        return part.first(x) + worker.x
    assert f(part, worker, x).tolist() == [9.0] * 3
    prepared = {f: id(f.__code__) in _membrane._ours for f in (Part.first, Part.second, Part.never, Worker.run)}
    assert list(prepared.values()) == [True, True, False, True]
    assert id(Part.size.fget.__code__) in _membrane._ours


class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __mul__(self, by):
        return Vector(self.x * by, self.y * by)

    def __abs__(self):
        return np.sqrt(self.x * self.x + self.y * self.y)

    def __round__(self, digits=0):
        return np.round(self.x, digits)


def test_builtins_that_ask_their_argument_compute_nothing_else():
    @frit.accelerate
    def f(v):
        total = 0.0
        for _ in range(20):
            v = v * 1.01
            total = total + abs(v) + round(v, 3)
        return total
    v = Vector(np.linspace(0, 1, 100), np.linspace(1, 2, 100))
    f(v)
    before = frit.stats()["evals"]
    f(v)
    assert frit.stats()["evals"] - before <= 2 and f.stats.syncs == 0


class Powered:
    """What has a power in place, and one that is none."""
    way = None

    def __pow__(self, other):
        self.way = "new"
        return self

    def __ipow__(self, other):
        self.way = "in place"
        return self


def test_a_power_in_place_of_an_object_is_its_own(plain_soon):
    def f(x, p):
        for i in range(400):
            x[i % 8] += math.sin(x[i % 8])
        p **= x
        return in_second(f, here()), p.way
    g = frit.accelerate(f)
    g(np.arange(8.0), Powered())
    assert g(np.arange(8.0), Powered()) == (True, "in place")


def test_what_a_script_has_dies_with_it(plain_soon):
    names = {"math": math, "here": here, "held": threading.Event()}
    exec("def f(x):\n for i in range(400):\n  x[i % 8] += math.sin(x[i % 8])\n return here()", names)
    assert in_second(names["f"], frit.accelerate(names["f"])(np.arange(8.0)))
    held = weakref.ref(names["held"])
    del names
    exec("t + 1\n" * 9000, {"t": frit.asarray(np.ones(2))})     # (lines that operations were traced at, for warnings: 8192 of them)
    gc.collect()
    assert held() is None


# ---- when

def calls_that_sleep(in_plain, n=14):
    """How many of n calls were plain of a function that sleeps longer in these, or in the others."""
    def f(x):
        y = x
        for _ in range(40):
            y = y * 1.5 + x
        time.sleep(0.004 if in_second(f, here()) == in_plain else 0.0004)
        return y
    g = frit.accelerate(f)
    given = [g(np.ones(4)).tolist() for _ in range(n)]
    assert all(y == given[0] for y in given)
    return g.stats.unchanged


def test_where_counts_leave_it_open_calls_are_timed(as_usual):
    assert calls_that_sleep(in_plain=False) >= 7
    assert calls_that_sleep(in_plain=True) <= 2


def test_a_recursion_without_repeats_is_not_traced_to_its_end(as_usual):
    def product(a, b):
        """Strassen's, to the last element."""
        n = len(a) // 2
        SEEN[0] = n
        if n == 0:
            return a * b
        p, q, r, s = a[:n, :n], a[:n, n:], a[n:, :n], a[n:, n:]
        t, u, v, w = b[:n, :n], b[:n, n:], b[n:, :n], b[n:, n:]
        x, y, z = product(p + s, t + w), product(r + s, t), product(p, u - w)
        f, g, h, i = product(s, v - t), product(p + q, w), product(r - p, t + u), product(q - s, v + w)
        c = np.zeros(a.shape)
        c[:n, :n], c[:n, n:], c[n:, :n], c[n:, n:] = x + f - g + i, z + g, y + f, x - y + z + h
        return c
    g, (a, b) = frit.accelerate(product), np.random.default_rng(0).random((2, 32, 32))
    before = frit.stats()["nodes"]
    mine = g(a, b)
    assert 10_000 < frit.stats()["nodes"] - before < 60_000     # of 158,061
    assert mine.tolist() == product(a, b).tolist()
