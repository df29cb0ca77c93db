"""What an accelerated function leaves somewhere is NumPy's afterwards, wherever that is: the judge is the function as it is,
on copies of the same input."""
import collections
import contextvars
import dataclasses
import gc
import json
import pickle
import queue
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import frit

pytestmark = pytest.mark.core


class Slots:
    __slots__ = "a", "__weakref__"


@dataclasses.dataclass
class Data:
    a: object = None


class Plain:
    pass


class Reader:
    """Something with a way to leave a value in, and the way to see it."""

    def __init__(self, make, put, get):
        self.make, self.put, self.get = make, put, get


def _nested():
    return {"deep": [types.SimpleNamespace(more=[])]}


PLACES = {
    "list": Reader(list, lambda o, v: o.append(v), lambda o: o[-1]),
    "dict": Reader(dict, lambda o, v: o.__setitem__("k", v), lambda o: o["k"]),
    "defaultdict": Reader(lambda: collections.defaultdict(list), lambda o, v: o[3].append(v), lambda o: o[3][-1]),
    "deque": Reader(lambda: collections.deque(maxlen=3), lambda o, v: o.append(v), lambda o: o[-1]),
    "queue": Reader(queue.SimpleQueue, lambda o, v: o.put(v), lambda o: o.get()),
    "attribute": Reader(Plain, lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "namespace": Reader(types.SimpleNamespace, lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "slots": Reader(Slots, lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "data": Reader(Data, lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "class": Reader(lambda: type("C", (), {}), lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "function": Reader(lambda: (lambda: 0), lambda o, v: setattr(o, "a", v), lambda o: o.a),
    "closure": Reader(list, lambda o, v: o.append(lambda: v), lambda o: o[-1]()),
    "tuple": Reader(list, lambda o, v: o.append((1, v, v)), lambda o: o[-1][2]),
    "variable": Reader(lambda: contextvars.ContextVar("v"), lambda o, v: o.set(v) and None, lambda o: o.get()),
    "nested": Reader(_nested, lambda o, v: o["deep"][0].more.append({"x": (v,)}), lambda o: o["deep"][0].more[-1]["x"][0]),
    "bound": Reader(list, lambda o, v: o.append(types.MethodType(lambda self: self.v, types.SimpleNamespace(v=v))),
                    lambda o: o[-1]()),
}
VALUES = {
    "array": lambda a, r: a * 2 + 1, "view": lambda a, r: (a * 2)[1:], "transposed": lambda a, r: (a * 3).reshape(2, -1).T,
    "result": lambda a, r: r, "part of the result": lambda a, r: r[1:], "argument": lambda a, r: a, "part": lambda a, r: a[:2],
    "number": lambda a, r: a.mean(), "whole number": lambda a, r: a.argmax(), "bool": lambda a, r: (a > 1).all(),
    "half": lambda a, r: a.astype("f2").max(), "complex": lambda a, r: (a * 1j).sum(), "empty": lambda a, r: a[:0] + 1,
    "0-d": lambda a, r: np.asarray(a.sum()), "broadcast": lambda a, r: np.broadcast_to(a.sum(), (3,)),
    "handed over": lambda a, r: np.unwrap(a), "python": lambda a, r: float(a[0]),
}


def described(v, a, r):
    """What is asked of a value that was left: also of which objects it is, and whose memory."""
    array = isinstance(v, np.ndarray)
    return (type(v), getattr(v, "dtype", None), getattr(v, "shape", None), getattr(v, "strides", None),
            v.tobytes() if array else repr(v), v is a, v is r, v is np.True_, v is np.False_,
            array and np.shares_memory(v, a), array and np.shares_memory(v, r), array and v.flags.writeable)


@pytest.mark.parametrize("place", PLACES)
def test_is_numpys_wherever_it_is(place):
    p = PLACES[place]
    for name, value in VALUES.items():
        def make():
            o = p.make()

            def f(a):
                r = a + 1
                p.put(o, value(a, r))
                return r
            return f, o
        (f, fo), (g, go) = make(), make()
        g = frit.accelerate(g)
        for k in range(5):
            a, b = np.arange(6.0) + k, np.arange(6.0) + k
            r, s = f(a), g(b)
            want, got = described(p.get(fo), a, r), described(p.get(go), b, s)
            if place in ("queue", "variable") and name in ("argument", "bool"):    # nobody can look into it
                assert got[2:5] == want[2:5]
            else:
                assert got == want, (name, k)


def test_values_are_left_in_the_order_of_the_calls_and_computed_together():
    losses = []

    @frit.accelerate
    def step(w, x):
        losses.append((w * x).mean())
        losses.append((w - x).max())
        w += 0.5 * x
        return w
    w, x = np.zeros(1000), np.linspace(0, 1, 1000)
    v, want = np.zeros(1000), []
    for k in range(20):
        before = frit._core.stats()["n_evals"]
        assert step(w, x) is w
        assert frit._core.stats()["n_evals"] == before + 1
        want += [(v * x).mean(), (v - x).max()]
        v += 0.5 * x
    assert losses == want and {type(l) for l in losses} == {np.float64}
    assert json.dumps(losses) == json.dumps(want)
    assert step.stats.syncs == 0 and step.stats.fallbacks == 0


def test_what_is_left_keeps_its_identity():
    kept, seen = [], []

    @frit.accelerate
    def f(a):
        t = a * 2, a + 1
        kept.append(t)
        seen.append(t[0])
        return [t, {"t": t}, t[1]]
    for _ in range(50):
        r = f(np.arange(3.0))
        assert r[0] is kept[-1] is r[1]["t"] and r[0][0] is seen[-1] and r[2] is r[0][1]
    assert all(type(v) is np.ndarray for t in kept for v in t)


def test_an_exception_leaves_arrays():
    kept = []

    def f(a):
        b = a * 2
        kept.append((b, b.sum()))
        b += 1
        raise LookupError(b, a, a.max())
    g, a = frit.accelerate(f), np.arange(4.0)
    for _ in range(5):
        with pytest.raises(LookupError) as e:
            g(a)
        b, inside, greatest = e.value.args
        assert type(b) is type(inside) is np.ndarray and type(greatest) is np.float64
        assert kept[-1][0] is b and (b == a * 2 + 1).all() and kept[-1][1] == 12.0
        assert np.shares_memory(inside, a) and (inside == a).all()
        for frame, _ in [(t.frame, 0) for t in e.traceback]:
            assert not any(isinstance(v, frit.Tensor) for v in frame.f_locals.values())


def test_weak_references_and_memory():
    refs, died, kept = [], [], []

    @frit.accelerate
    def f(a):
        v = a + 1
        refs.append(weakref.ref(v, died.append))
        kept.append(v)
        kept.append(v.sum())

    def rounds(n):
        for _ in range(n):
            for _ in range(200):
                f(np.ones(100))
            assert [r() for r in refs] == kept[::2] and not died
            kept.clear()
            gc.collect()
            assert len(died) == len(refs) and not any(r() is not None for r in refs)
            refs.clear()
            died.clear()
    rounds(8)       # (Tensors that other tests have left in the pool become arrays, which takes them out of it)
    live, n_types = frit._core.stats()["live_bytes"], sys.getrefcount(frit.Tensor)
    rounds(3)
    assert frit._core.stats()["live_bytes"] <= live
    assert abs(sys.getrefcount(frit.Tensor) - n_types) < 100


def test_methods_that_were_kept():
    """They were a Tensor's, and answer for the array that it has become; those of a number no longer do."""
    kept = types.SimpleNamespace()

    @frit.accelerate
    def f(a):
        v = a + 1
        kept.v, kept.max, kept.neg, kept.get, kept.flags, kept.flat = v, v.max, v.__neg__, v.__getitem__, v.flags, v.flat
        s = v.sum()
        kept.s, kept.item = s, s.item
        return v
    v = f(np.arange(3.0))
    assert v is kept.v and float(kept.max()) == 3.0 and float(kept.get(1)) == 2.0
    np.testing.assert_array_equal(kept.neg(), -v)
    assert kept.flags.c_contiguous and list(kept.flat) == [1.0, 2.0, 3.0]
    assert type(kept.s) is np.float64
    with pytest.raises(TypeError, match="item"):
        kept.item()
    del kept.v
    v += 1
    assert float(kept.max()) == 4.0


def test_numpy_and_others_take_what_was_left():
    kept = {}

    @frit.accelerate
    def f(a):
        kept["v"], kept["s"], kept["i"] = np.sqrt(a)[::2], a.sum(), a.argmin()
        return None
    a = np.arange(9.0)
    f(a)
    v, s, i = kept["v"], kept["s"], kept["i"]
    assert pickle.loads(pickle.dumps(kept)).keys() == kept.keys() and json.dumps(s) == "36.0"
    assert (v @ v, v.base is not None, v.flags.owndata) == (20.0, True, False)
    v.sort()
    v.shape = 5, 1
    assert (np.linalg.norm(v), [10, 20][i], {s: 1}[36.0], isinstance(s, float)) == (np.sqrt(20.0), 10, 1, True)
    v.resize
    w = v[1:]
    del v, kept["v"]
    gc.collect()
    assert w.sum() == np.sqrt([2.0, 4.0, 6.0, 8.0]).sum()
    with pytest.raises(TypeError):
        weakref.ref(s)


def test_nested_calls_leave_things_when_the_outermost_ends():
    kept = []

    @frit.accelerate
    def inner(a):
        kept.append(a * 3)
        return a + 1

    @frit.accelerate
    def outer(a):
        b = inner(a)
        kept.append(b.sum())
        return inner(b * 2)
    for _ in range(5):
        kept.clear()
        r = outer(np.arange(3.0))
        assert [type(k) for k in kept] == [np.ndarray, np.float64, np.ndarray]
        np.testing.assert_array_equal(r, [3.0, 5.0, 7.0])
        np.testing.assert_array_equal(kept[2], [6.0, 12.0, 18.0])


def test_threads_leave_their_own():
    """Tensors that are made in no call stay Tensors, whatever calls end meanwhile in other threads."""
    failed, start = [], threading.Barrier(3)

    def in_calls():
        kept = []

        @frit.accelerate
        def f(a):
            for _ in range(20):
                kept.append(a + len(kept))
            return a
        start.wait()
        for k in range(40):
            f(np.arange(10.0))
            if any(type(v) is not np.ndarray for v in kept) or any((v != np.arange(10.0) + i).any()
                                                                   for i, v in enumerate(kept)):
                failed.append(k)
            kept.clear()

    def bare():
        start.wait()
        for k in range(400):
            made = [frit.ones(10) + i for i in range(20)]
            if any(type(v) is not frit.Tensor for v in made):
                failed.append("bare")
    threads = [threading.Thread(target=t) for t in (in_calls, in_calls, bare)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed


@pytest.mark.own
def test_without_memory_it_stays_a_tensor():
    """Then it is what it stands for when it is asked, and nothing is lost."""
    for at in range(1, 60):
        kept = []

        @frit.accelerate
        def f(a):
            kept.append(a * 2)
            kept.append((a + 1).sum())
            return a - 1
        a = np.arange(300.0)
        frit._core.alloc_fail_at(at)
        try:
            r = f(a)
        except MemoryError:
            pass
        else:
            np.testing.assert_array_equal(r, a - 1)
        finally:
            frit._core.alloc_fail_at(0)
        assert len(kept) < 1 or (np.asarray(kept[0]) == a * 2).all()
        assert len(kept) < 2 or float(kept[1]) == (a + 1).sum()
