"""Accelerated calls that are made again without running the function: where they are the same, and only there."""
import gc
import os
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = [pytest.mark.core, pytest.mark.planned]

SCALE = 2.0
TABLE = np.arange(4.0)
MATRICES = {"m": np.arange(12.0).reshape(3, 4).T, "unused": [1, 2]}
LIMITS = (0.5, 2.5)


@pytest.fixture(autouse=True)
def never_plain():
    """Calls that take long may be tried as plain ones, which are none that are made again."""
    with frit.config(off="unchanged"):
        yield


def replayed():
    return frit.stats()["replayed"]


def rand(*shape, seed=0, dtype="f8"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def twin(a):
    """The same values in other memory, where they lie alike."""
    if not isinstance(a, np.ndarray):
        return a
    low, high = np.lib.array_utils.byte_bounds(a)
    b = np.ndarray(a.shape, a.dtype, np.empty(high - low, "u1"), a.ctypes.data - low if a.size else 0, a.strides)
    b[...] = a
    return b


def replays(f, *args):
    """Calls f and tells whether the function was not run; the result is NumPy's."""
    before, copies = replayed(), [twin(a) for a in args]
    got, want = f(*args), f.__wrapped__(*copies)
    for g, w in zip(got if type(got) is tuple else (got,), want if type(want) is tuple else (want,), strict=True):
        assert type(g) is type(w)
        if g is not None:
            assert np.asarray(g).dtype == np.asarray(w).dtype
            tol = 1e-5 if any(isinstance(a, np.ndarray) and a.itemsize < 8 for a in args) else 1e-12
            np.testing.assert_allclose(g, w, rtol=tol, atol=tol)
    for a, b in zip(args, copies):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-12)
    return replayed() - before


def recorded(f, *args):
    """f accelerated, and called with copies of these arguments until its calls are replayed."""
    f = frit.accelerate(f)
    for _ in range(50):
        if replays(f, *map(twin, args)):
            return f
    return None


# ---- what is replayed

def test_numpy_is_an_argument_like_a_number():
    def f(xp, x, lib=np):
        return xp.arange(7.0) * x + lib.pi
    fast = recorded(f, np, rand(5, 7))
    assert fast and replays(fast, np, rand(5, 7, seed=1)) and not replays(fast, np, rand(5, 7, seed=2), np)
    fast = recorded(lambda x, xp: xp.hypot(x, 1), rand(9), np)
    before = replayed()
    np.testing.assert_array_equal(fast(xp=np, x=np.arange(9.0)), np.hypot(np.arange(9.0), 1))
    assert fast(np.arange(9.0), types.SimpleNamespace(hypot=lambda a, b: "another")) == "another"
    assert replayed() == before


def chain(a, b):
    x = np.exp(a) * b
    for _ in range(3):
        x = x * 0.5 + a
    return x


def branches(a, axis=None, keep=False):
    if axis is None:
        return np.tanh(a).sum()
    if a.ndim > 1 and not keep:
        return np.tanh(a).sum(axis=axis) / a.shape[axis]
    return np.tanh(a).sum(axis=axis, keepdims=True)


def helper(x):
    return np.sqrt(np.abs(x) + SCALE)


def calls_helper(a):
    return helper(a) - helper(-a).mean()


def several(a, b):
    y = np.sin(a) @ b
    return y, y, a, 3, y.max(), (y.T * 2)[1:], None


def stencil(a):
    y = np.zeros_like(a)
    y[1:-1] = 0.25 * a[:-2] + 0.5 * a[1:-1] + 0.25 * a[2:]
    y[0] += np.pi
    return y


def through_containers(params, batch, *, rate=0.5):
    x, y = batch
    h = np.tanh(x @ params["w"][0] + params["b"])
    loss = ((h - y) ** 2).mean()
    grads = [2 * (h - y) / len(params), h.sum(axis=0)]
    params["b"] = params["b"] - rate * grads[1]
    params["w"][0] *= 1 - rate
    return {"loss": loss, "grads": grads}, params["b"]


def uses_outer_arrays(a):
    return (np.exp(a) + TABLE) @ MATRICES["m"] - LIMITS[1]


def in_place(p, g, m):
    m *= 0.9
    m += g * g
    p -= 0.1 * g / (np.sqrt(m) + 1e-8)


def comprehensions(a, b):
    if a.ndim != b.ndim:
        raise ValueError(f"{a.ndim} and {b.ndim} axes")
    rows = [x * 2 + b[i] for i, x in enumerate((a, b))]
    names = {k: v.sum() for k, v in zip("xy", rows)}
    square = lambda v: v * v + a     # noqa: E731
    return [square(r) for r in rows], names


@pytest.mark.parametrize("f, args", [
    (chain, (rand(100), rand(100, seed=1))), (chain, (rand(7, 9, dtype="f4"), rand(9, seed=1, dtype="f4"))),
    (chain, (rand(6, 5).T, rand(5, 12)[:, ::2])), (chain, (rand(0), rand(1))),
    (chain, (np.array(1.5), rand(3))),
    (branches, (rand(5, 6),)), (branches, (rand(5, 6), 1)), (branches, (rand(5, 6), 0, True)),
    (calls_helper, (rand(50),)), (several, (rand(8, 8), rand(8, 8, seed=2))), (stencil, (rand(33),)),
    (in_place, (rand(40), rand(40, seed=1), np.abs(rand(40, seed=2)))),
    (in_place, (rand(80)[::2], rand(40, seed=1), np.abs(rand(50, seed=2))[5:45])),
    (lambda a: a.astype("i4") // 3, (rand(20) * 100,)), (lambda a, b: a if b is None else a + b, (rand(9), rand(9))),
    (lambda z: z.conj() * z + 1j, (rand(5) + 1j * rand(5),)), (lambda a: (np.exp(a) > 1).any(), (rand(5),)),
])
def test_the_same_call_again(f, args):
    f = recorded(f, *args)
    assert f
    for seed in range(3):
        others = [twin(a) for a in args]
        for a in others:
            if isinstance(a, np.ndarray):
                a *= seed + 1
        assert replays(f, *others) == 1
        assert f.stats.kernels > 0 or args[0].size == 0
        assert f.stats.fallbacks == f.stats.syncs == 0


def test_results_are_new_arrays():
    f = recorded(lambda a: (np.exp(a), np.exp(a).sum()), rand(10))
    a = rand(10)
    (x, s), (y, _) = f(a), f(a)
    assert x is not y and not np.shares_memory(x, y) and type(s) is np.float64
    x[:] = 0
    assert np.array_equal(f(a)[0], y) and y[0] != 0
    assert x.flags.writeable and x.flags.aligned
    z = f(x)[0]         # a result goes in like any array
    assert (z == 1).all()
    x += 1
    assert (f(x)[0] == np.exp(1.0)).all() and (z == 1).all()


def test_what_a_call_costs_in_nodes_and_kernels():
    f, a = recorded(chain, rand(100), rand(100)), rand(100)
    before = frit.stats()
    for _ in range(10):
        f(a, a.copy())
    after = frit.stats()
    assert after["replayed"] - before["replayed"] == after["kernels"] - before["kernels"] == 10
    assert after["nodes"] - before["nodes"] == 10       # the result's
    assert after["plans"] == before["plans"] and after["plan_hits"] == before["plan_hits"]


class Model:
    rate = 0.25     # not an instance's own

    def __init__(self, seed=0):
        self.w, self.b, self.eps, self.steps = rand(6, 3, seed=seed), rand(3, seed=seed), 1e-3, [rand(3)]

    @property
    def twice(self):
        return self.b * 2

    def forward(self, x):
        return np.tanh(x @ self.w + self.b) * self.eps

    def update(self, x, y):
        d = np.tanh(x @ self.w + self.b) - y if self.eps > 0 else -y
        self.w -= 0.1 * (x.T @ d)
        self.b = self.b * 0.9 - 0.1 * d.sum(axis=0)
        self.last = d
        return (d * d).mean()

    def step_of(self, x):
        return x * self.rate + self.b

    def through_property(self, x):
        return x * 2 + self.twice


def twice_by_turns(method, n, *args):
    """The same calls of an accelerated and of a plain method, on equal objects, and how many were replayed."""
    a, b, before = Model(), Model(), replayed()
    fast = frit.accelerate(method)
    for i in range(n):
        got, want = fast(a, *(x * (i + 1) for x in args)), method(b, *(x * (i + 1) for x in args))
        np.testing.assert_allclose(got, want, rtol=1e-9)
    for name, value in vars(b).items():
        assert type(vars(a)[name]) is type(value)
        np.testing.assert_allclose(vars(a)[name], value, rtol=1e-9)
    return replayed() - before


def test_methods_read_and_store_attributes():
    assert twice_by_turns(Model.forward, 8, rand(5, 6)) == 4
    assert twice_by_turns(Model.update, 9, rand(5, 6), rand(5, 3)) >= 4
    assert twice_by_turns(Model.step_of, 5, rand(2, 3)) == 0                # a class may change
    assert twice_by_turns(Model.through_property, 5, rand(2, 3)) == 0


def test_attributes_are_looked_at_each_time():
    fast, m, x = frit.accelerate(Model.forward), Model(), rand(5, 6)
    for _ in range(5):
        fast(m, x)
    before = replayed()
    fast(m, x)
    assert replayed() == before + 1
    for name, value in (("eps", 2.0), ("b", rand(3, seed=5)), ("b", rand(1)), ("w", rand(6, 3, dtype="f4"))):
        setattr(m, name, value)
        np.testing.assert_allclose(fast(m, x), m.forward(x), rtol=1e-6)
    m.b += 1
    np.testing.assert_allclose(fast(m, x), m.forward(x), rtol=1e-6)


def containers(seed):
    return {"w": [rand(4, 3, seed=seed)], "b": rand(3, seed=seed)}, (rand(5, 4, seed=seed), rand(5, 3, seed=seed))


def test_comprehensions_and_checks():
    f, before = frit.accelerate(comprehensions), replayed()
    for i in range(6):
        a, b = rand(6, seed=i), rand(6, seed=i + 1)
        got, want = f(a, b), comprehensions(a, b)
        assert list(got[1]) == ["x", "y"]
        for g, w in zip((*got[0], *got[1].values()), (*want[0], *want[1].values()), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)
        with pytest.raises(ValueError, match="1 and 2 axes"):
            f(a, b[None])
    assert replayed() == before + 3


def test_lists_dicts_and_names():
    f, before = frit.accelerate(through_containers), replayed()
    for i in range(8):
        (p, batch), (q, other) = containers(i), containers(i)
        w, n = p["w"], len(p)
        got, want = f(p, batch, rate=0.5), through_containers(q, other, rate=0.5)
        assert list(got[0]) == list(want[0]) and type(got[0]["grads"]) is list and type(got[0]["loss"]) is np.float64
        assert got[1] is p["b"] and w is p["w"] and len(p) == n and type(w[0]) is np.ndarray
        for g, v in zip((got[0]["loss"], *got[0]["grads"], p["b"], w[0]), (want[0]["loss"], *want[0]["grads"], q["b"], q["w"][0]),
                        strict=True):
            np.testing.assert_allclose(g, v, rtol=1e-12)
    assert replayed() == before + 4
    for change in (dict(rate=0.25), {}):
        p, batch = containers(9)
        q, other = containers(9)
        np.testing.assert_allclose(f(p, batch, **change)[1], through_containers(q, other, **change)[1], rtol=1e-12)
    p, batch = containers(3)
    p["more"] = 1
    f(p, batch, rate=0.5)
    assert replayed() == before + 4


def test_arrays_from_outside_are_read_anew():
    global TABLE
    f, before = recorded(uses_outer_arrays, rand(4)), TABLE
    try:
        TABLE += 1
        assert replays(f, rand(4)) == 1
        TABLE = TABLE * 2
        assert replays(f, rand(4)) == 1
        MATRICES["m"][0] = 7
        assert replays(f, rand(4)) == 1
        TABLE = TABLE[::-1]
        assert replays(f, rand(4)) == 0
    finally:
        TABLE = before


def test_arrays_from_outside_that_are_written():
    def f(a):
        TABLE[0] = 5
        return np.exp(a) + 1

    def g(a):
        t = TABLE
        t += 1
        return np.exp(a) + 1

    for h in (f, g):
        h = frit.accelerate(h)
        for i in range(4):
            TABLE[:] = i
            h(rand(4))
            assert TABLE[0] == (5 if h.__wrapped__ is f else i + 1)


def test_what_is_copied_may_be_no_more_when_the_call_is_noted():
    """(A sanitizer sees whether it is looked at.)"""
    for f in (lambda a: a + [1.0, 2.0, 3.0], lambda a: a * 2 + np.array([0.5, 1.5, 2.5])):
        f = frit.accelerate(f)
        for k in range(30):
            replays(f, rand(3, seed=k))


def test_one_container_in_two_places():
    def f(a, b):
        a[0] = a[0] + 1
        return np.exp(b[0])

    f = frit.accelerate(f)
    for _ in range(4):
        a, b = [rand(3)], [rand(3)]
        np.testing.assert_allclose(f(a, b), np.exp(rand(3)), rtol=1e-12)
        np.testing.assert_allclose(f(a, a), np.exp(rand(3) + 2), rtol=1e-12)


# ---- what is another call

@pytest.mark.parametrize("other", [
    (rand(101), rand(101)), (rand(100, dtype="f4"), rand(100)), (rand(200)[::2], rand(100)),
    (rand(100), rand(1)), (rand(100)[::-1], rand(100)), (rand(100), 2.0), (rand(2, 100), rand(100)), (rand(100).astype(">f8"), rand(100)),
])
def test_arrays_that_lie_otherwise(other):
    f = recorded(chain, rand(100), rand(100))
    assert replays(f, *other) == 0
    assert replays(f, rand(100), rand(100)) == 1


def test_unaligned_arrays_and_subclasses():
    f = recorded(chain, rand(10), rand(10))
    odd = np.zeros(81, "u1")[1:].view("f8")
    odd[:] = rand(10)
    assert not odd.flags.aligned and replays(f, odd, rand(10)) == 0
    before = replayed()
    assert type(f(np.ma.masked_array(rand(10)), rand(10))) is np.ma.MaskedArray and replayed() == before


@pytest.mark.parametrize("first, other", [(0.0, -0.0), (1, 1.0), (1, True), (2, 3), (0.5, 0.25), (1j, -1j), ("f4", "f8"),
                                          (None, 0), (np.nan, 1.0)])
def test_other_numbers(first, other):
    def f(a, n):
        if n is None:
            return a * 2 + a
        return a.astype(n) + a if isinstance(n, str) else np.copysign(1.0, n) * a if type(n) is float else a * n + a

    def same(a, b):
        return type(a) is type(b) and repr(a) == repr(b)

    f = frit.accelerate(f)
    for n in (first, first, first, other, first, other, other, first):
        for _ in range(3):
            a = rand(30)
            got, want = f(a, n), f.__wrapped__(a, n)
            assert got.dtype == want.dtype and got.tobytes() == want.tobytes()


def test_globals_and_cells():
    global SCALE
    scale = 3.0

    def f(a):
        return np.exp(a) * SCALE + scale

    f = recorded(f, rand(10))
    assert f
    try:
        SCALE = 5.0
        assert replays(f, rand(10)) == 0
        scale = 4.0
        assert replays(f, rand(10)) == 0
        SCALE = np.arange(10.0)
        assert replays(f, rand(10)) == 0
    finally:
        SCALE = 2.0


def test_functions_inside_functions():
    import numpy
    from numpy import tanh as squash

    def twice(x):
        return x * 2

    def f(a):
        return squash(twice(numpy.exp(a)))

    f = recorded(f, rand(10))
    assert f and replays(f, rand(10, seed=3)) == 1


def test_the_same_array_twice():
    def f(a, b):
        return np.exp(a - b) if a is None else np.exp(a) - b

    f, a = recorded(f, rand(10), rand(10, seed=1)), rand(10)
    assert replays(f, a, a) == 0
    assert replays(f, a, a) == 1 and replays(f, a, a.copy()) == 1


def test_what_is_written_is_apart_and_writeable():
    def f(a, b):
        a += np.sqrt(b)
        a *= 2

    f, a = recorded(f, rand(10), np.abs(rand(10))), np.abs(rand(20))
    assert replays(f, a[:10], a[10:]) == 1
    b, before = a.copy(), replayed()
    f(a[:10], a[5:15])
    f.__wrapped__(b[:10], b[5:15])
    np.testing.assert_allclose(a, b, rtol=1e-12)
    assert replayed() == before     # they meet: the function runs
    b = a[:10].copy()
    b.flags.writeable = False
    before = b.copy()
    with pytest.raises(ValueError, match="read-only"):
        f(b, a[10:])
    np.testing.assert_array_equal(b, before)
    assert replays(f, a[10:], b) == 1


# ---- functions that are not closed

def prints(a):
    print(end="")
    return np.exp(a) * 2


def reads_an_array(a):
    return np.exp(a) + TABLE


def random_numbers(a):
    return np.exp(a) + np.random.random(4)


def remembers(a, seen=[]):
    seen.append(len(seen))
    return np.exp(a) + len(seen)


def looks(a):
    return np.exp(a) if a[0] > 0 else np.exp(-a)


def looks_at_a_result(a):
    y = np.exp(a)
    return y * float(y.sum())


def random_number(a):
    return np.exp(a) * np.random.power(2.0)


def flags(a):
    return np.exp(a) * 2 if a.flags.writeable else np.exp(a)


def writes_a_file(a):
    np.exp(a).tofile("/dev/null")
    return np.exp(a) * 2


@pytest.mark.parametrize("f", [prints, looks, looks_at_a_result, flags, writes_a_file])
def test_functions_that_run_each_time(f):
    assert recorded(f, rand(4)) is None


def test_functions_with_a_memory_run_each_time():
    f, before = frit.accelerate(remembers), replayed()
    assert [float(f(np.zeros(4))[0]) for _ in range(4)] == [2, 3, 4, 5]
    for g in map(frit.accelerate, (random_numbers, random_number)):
        assert len({float(g(np.zeros(4))[0]) for _ in range(4)}) == 4
    assert replayed() == before


def test_results_that_look_at_arguments_are_not_recorded():
    f = frit.accelerate(lambda a: (np.exp(a), a[1:]))
    a = rand(10)
    for _ in range(4):
        assert np.shares_memory(f(a)[1], a)
    assert recorded(lambda a: (np.exp(a), a[1:]), rand(10)) is None


def test_what_raises_is_not_recorded():
    def f(a, b):
        y = np.exp(a)
        return y + b

    f = frit.accelerate(f)
    for _ in range(3):
        with pytest.raises(ValueError, match="broadcast"):
            f(rand(3), rand(4))
    assert replays(f, rand(3), rand(3)) == 0


def test_somebody_who_follows_the_lines_sees_them():
    f, lines = recorded(chain, rand(10), rand(10)), []

    def trace(frame, event, arg):
        lines.append(frame.f_code.co_name)
        return trace

    before, old = replayed(), sys.gettrace()
    sys.settrace(trace)
    try:
        f(rand(10), rand(10))
    finally:
        sys.settrace(old)
    assert "chain" in lines and replayed() == before


def test_calls_from_accelerated_functions_run():
    inner = recorded(chain, rand(10), rand(10))
    outer = frit.accelerate(lambda a: inner(a, a) + 1)
    for _ in range(4):
        a = rand(10)
        np.testing.assert_allclose(outer(a), chain(a, a) + 1, rtol=1e-12)


# ---- how many, and how long they live

def test_few_are_kept():
    f = frit.accelerate(chain)
    for n in range(3, 40):
        for _ in range(5):
            replays(f, rand(n), rand(n))
    assert replays(f, rand(39), rand(39)) == 1
    assert replays(f, rand(3), rand(3)) == 0


def test_numbers_that_always_change_stop_being_recorded():
    def f(a, t):
        return np.exp(a) * t

    f, a = frit.accelerate(f), rand(8)
    for i in range(200):
        np.testing.assert_allclose(f(a, float(i)), np.exp(a) * float(i), rtol=1e-12)
    before = replayed()
    assert np.array_equal(f(a, 199.0), f(a, 199.0)) and replayed() == before


def test_calls_that_cannot_be_noted_are_not_tried_for_ever():
    class Odd:
        def __len__(self):
            return 3

    f = frit.accelerate(lambda a, o: np.exp(a) * len(o))
    f(rand(3), [1, 2])
    for _ in range(100):
        f(rand(3), Odd())
    before = replayed()
    for _ in range(5):
        f(rand(3), [1, 2])      # could be, but is not tried any more
    assert replayed() == before


def test_classes_are_let_go():
    class Local(Model):
        go = frit.accelerate(Model.forward)

    m = Local()
    for _ in range(5):
        m.go(rand(5, 6))
    before = replayed()
    m.go(rand(5, 6))
    assert replayed() == before + 1
    gone = weakref.ref(Local)
    del m, Local
    gc.collect()
    assert gone() is None


def test_plans_and_arrays_are_let_go():
    def made():
        f = recorded(chain, rand(50), rand(50))
        return f(rand(50), rand(50)).sum()

    def count():
        frit.wait_for_compiles(60)
        gc.collect()
        return frit.stats()["live_bytes"], frit._core.alloc_live()

    for _ in range(40):         # until its kernels have been compiled
        made()
        frit.wait_for_compiles(60)
    first = count()
    for _ in range(5):
        made()
    bytes_, live = count()
    assert bytes_ == first[0] and live <= first[1]


def test_more_plans_than_are_kept():
    f, a = recorded(chain, rand(11), rand(11)), rand(11)
    for n in range(2500):
        frit.eval(frit.asarray(np.ones(3)) * 2.0 + frit.asarray(np.ones((n, 1))))
    assert replays(f, a, a.copy()) == 1


def test_several_threads():
    f, failed = recorded(chain, rand(20000), rand(20000)), []
    a, b = rand(20000), rand(20000)
    want = f(a, b).tobytes()

    def work():
        for _ in range(30):
            if f(a.copy(), b.copy()).tobytes() != want:
                failed.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


# ---- plans that are made in the background

def ways(run):
    """How a call was evaluated: node by node, by a plan, or as one made again without running the function."""
    before = frit.stats()
    run()
    after = frit.stats()
    plans = after["plans"] + after["plan_hits"] - before["plans"] - before["plan_hits"]
    return {"nodes": after["eager"] - before["eager"], "plan": plans, "again": after["replayed"] - before["replayed"]}


SEEN = {"w": np.arange(6.0), "l": [np.ones(6)]}


def of_contents(a):
    return a * SEEN["w"] + SEEN["w"].max(), SEEN["l"][0] * 2 + a[0]


def stores(a, b):
    b[1:] += a[:-1]
    c = a * b.mean()
    a[...] = c - 1
    return c, b, (c * 2).sum()


LATE = {"chain": (chain, (20,), (20,)), "several": (several, (5, 4), (4, 6)), "stencil": (stencil, (30,)), "helper": (calls_helper, (7, 3)),
        "outer": (uses_outer_arrays, (5, 4)), "in place": (in_place, (8, 3), (8, 3), (8, 3)), "contents": (of_contents, (6,)),
        "stores": (stores, (25,), (25,))}


@pytest.mark.skipif(os.environ.get("FRIT_JIT") == "always", reason="what waits for machine code waits for a plan")
@pytest.mark.parametrize("name", LATE)
def test_calls_are_made_again_once_a_late_plan_is_there(name):
    """Until then they run node by node and nothing is noted of them; each has its own arguments and contents."""
    f, *shapes = LATE[name]
    fast, parts = frit.accelerate(f), lambda x: x if type(x) is tuple else (x,)

    def call(i, grown=0):
        arrays = [abs(rand(*shape, seed=(i, k))) + 0.5 for k, shape in enumerate(shapes)]
        if grown:
            arrays = [np.concatenate([a] * (1 + grown)) for a in arrays]
        copies = [a.copy() for a in arrays]
        SEEN["w"][:], SEEN["l"][0][:] = rand(6, seed=i), i
        want, got = f(*copies), fast(*arrays)
        for g, w in zip([*parts(got), *arrays], [*parts(want), *copies], strict=True):
            assert type(g) is type(w) and (g is None or np.asarray(g).dtype == np.asarray(w).dtype)
            assert g is w is None or np.testing.assert_allclose(g, w, rtol=1e-12) is None

    def others(i):      # of another size, with a plan of their own, where the function takes any
        if name in ("chain", "stencil", "in place", "stores"):
            call(i, 1)

    frit.eval([])
    with frit.config(eager_elems=131072):
        met = [ways(lambda: call(0))]
        assert met[0] == {"nodes": 1, "plan": 0, "again": 0}
        for i in range(1, 6):
            met.append(ways(lambda: call(i)))
            others(i)
        assert frit.wait_for_compiles(60)
        met += [ways(lambda: call(i)) for i in range(6, 14)]
        planned = next(i for i, way in enumerate(met) if way["plan"])
        assert not any(way["again"] for way in met[:planned]) and all(way["nodes"] for way in met[:planned])
        assert [sum(way.values()) for way in met] == [1] * len(met)
        assert [way["again"] for way in met[-4:]] == [1] * 4
        for i in range(14, 20):         # and nothing is mistaken for the other
            others(i)
            assert ways(lambda: call(i))["again"] == 1


# ---- numbers that are alike

def poly(x, a, b, c):
    return (x * a + 1) * (x * b + 1) - (x * c + 1)


@pytest.mark.planned
def test_equal_numbers_make_equal_nodes():
    x = frit.asarray(np.arange(12.0).reshape(3, 4))
    y = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    text = frit._core.explain_text([y], "loops")
    assert text.count("= subtract") == 1 and text.count("= reduce sum") == 2
    want = np.asarray(x)
    assert_same(np.asarray(y), (want - want.mean(1, keepdims=True)) / want.std(1, keepdims=True))


@pytest.mark.planned
def test_numbers_that_cease_to_be_equal_have_another_plan():
    x = np.arange(500.0)
    t = frit.asarray(x)

    def plans_for(*numbers):
        before = frit.stats()["plans"]
        for n in numbers:
            got = poly(t, *n)
            assert_same(np.asarray(got), poly(x, *n))
        return frit.stats()["plans"] - before

    assert plans_for((2.0, 2.0, 3.0)) == 1
    assert plans_for((3.0, 3.0, 5.0), (4.0, 4.0, 4.0), (7.0, 7.0, 1.0)) == 0    # what is alike still is
    assert plans_for((2.0, 3.0, 3.0)) == 1
    assert plans_for((2.0, 3.0, 5.0)) == 1                                      # nothing is
    assert plans_for((2.0, 3.0, 5.0), (5.0, 5.0, 4.0), (3.0, 5.0, 5.0), (0.0, -0.0, 0.0), (np.nan, np.nan, 1.0)) == 0


@pytest.mark.planned
def test_a_structure_has_few_plans_whatever_numbers_come():
    x = np.arange(300.0)
    t, rng = frit.asarray(x), np.random.default_rng(3)

    def terms(x, numbers):
        y = x - 1
        for n in numbers:
            y = y + x * n
        return y

    before = frit.stats()["plans"]
    for _ in range(60):
        numbers = [float(k) for k in rng.integers(2, 5, 8)]
        assert_same(np.asarray(terms(t, numbers)), terms(x, numbers))
    assert frit.stats()["plans"] - before <= 4


def test_numbers_in_calls_that_are_made_again():
    f, x = frit.accelerate(poly), np.arange(700.0)
    for k in range(60):
        n = (2.0, 2.0, 3.0) if k % 7 else (2.0, float(k), 2.0)
        assert_same(f(x, *n), poly(x, *n))
        if k % 20 == 10:
            frit.wait_for_compiles()


# ---- calls that looked at values

def zeroed(c):
    for v in c[:3]:
        v -= v          # a row of a matrix, and a number of a vector
    return v


def test_a_call_that_looked_at_values_and_left_nothing_to_compute_is_not_kept():
    """Its evaluation would be the one before it, another call's."""
    f = frit.accelerate(zeroed)
    matrix, vector = np.ones((1, 2)), np.array([2.5])
    for _ in range(4):
        f(matrix)
        assert not matrix.any()
        matrix[:] = 1
    for _ in range(60):
        assert f(vector) == 0.0 and vector[0] == 2.5
