"""An argument that a function also reaches by another name, wherever that leads: the judge is the function as it is, on
copies of the same input. What it does there NumPy does at once, so nothing of the argument may be pending then."""
import collections
import functools
import types

import numpy as np
import pytest

import frit

from .common import same_parts

pytestmark = pytest.mark.core


class Box:
    def __init__(self, value):
        self.value = value

    def get(self):
        return self.value


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def deep(value):
    return {"layers": [Box({"w": (0, value)})]}


# What holds the array, and how the function gets at it.
HOLDERS = {
    "dict": (lambda v: {"w": v, "k": 1}, lambda o: o["w"]), "list": (lambda v: [0, v], lambda o: o[1]),
    "tuple": (lambda v: (v, 1.0), lambda o: o[0]), "object": (Box, lambda o: o.value), "slots": (Slots, lambda o: o.value),
    "namespace": (lambda v: types.SimpleNamespace(w=v), lambda o: o.w),
    "deque": (lambda v: collections.deque([v]), lambda o: o[0]), "method": (lambda v: Box(v).get, lambda o: o()),
    "closure": (lambda v: lambda: v, lambda o: o()), "partial": (lambda v: functools.partial(max, v), lambda o: o.args[0]),
    "deep": (deep, lambda o: o["layers"][0].value["w"][1]),
    "defaults": (lambda v: lambda x=v: x, lambda o: o()),
}
HELD = None


def by_global(get):
    def f(a):
        a += 1
        b = a * 2
        w = get(HELD)
        seen = float(w[0]), [float(v) for v in w[:2]]
        np.add.at(w, [0, 1], 10.0)
        return b, seen, a.sum()
    return f


def by_cell(get):
    def make(held):
        def f(a):
            b = a + 1
            get(held)[...] = 7
            a *= 2
            return b, a[0], get(held).max()
        return f
    return lambda: make(HELD)


def by_default(get):
    def make(held):
        def f(a, d=held):
            b = a - 1
            get(d).sort()
            a[0] = 99
            return b, get(d)[0], a.copy()
        return f
    return lambda: make(HELD)


@pytest.mark.parametrize("way", [by_global, by_cell, by_default])
@pytest.mark.parametrize("holder", HOLDERS)
def test_it_is_as_numpy_has_it(holder, way):
    global HELD
    make, get = HOLDERS[holder]
    for part in (lambda x: x, lambda x: x[1:], lambda x: x[::-1], lambda x: x.reshape(2, -1)[0]):
        outcomes = []
        for wrap in (lambda f: f, frit.accelerate):
            x = np.array([5.0, 3.0, 8.0, 1.0])
            HELD = make(x)
            f = way(get)
            f = wrap(f if way is by_global else f())
            outcomes.append([[f(part(x)), x.copy()] for _ in range(4)])
        same_parts(outcomes[1], outcomes[0])


def test_what_leads_to_no_argument_is_no_reason_to_run_as_it_is():
    config, others, model = {"rate": 0.5, "names": ["a"] * 50}, [np.ones(9)], Box(np.ones(9))
    unknown = str.upper     # so that the function is not closed

    @frit.accelerate
    def f(a, b):
        unknown("x")
        return (a * config["rate"] + b) * len(others) + len(model.__dict__)
    a, b = np.arange(9.0), np.ones(9)
    for _ in range(3):
        np.testing.assert_array_equal(f(a, b), a * 0.5 + 2)
        assert f.stats.kernels > 0 and f.stats.fallbacks == 0
    others[0] = a           # nor is what does
    np.testing.assert_array_equal(f(a, b), a * 0.5 + 2)
    assert f.stats.calls == 4 and not f.stats.as_numpy


def test_circles_and_large_containers_come_to_an_end():
    ring, many = [], [[i] for i in range(5000)]
    ring.append(ring)
    unknown = str.upper

    @frit.accelerate
    def f(a):
        unknown("x")
        return a * len(ring) + len(many)
    np.testing.assert_array_equal(f(np.ones(3)), np.full(3, 5001.0))
    assert f.stats.kernels > 0
