"""Loops over single elements: what they read and store is what NumPy has."""
import gc
import random

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = pytest.mark.own
SHAPE = (6, 6)
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def node_by_node():
    gc.collect()        # what other tests have left behind is pending no more
    with frit.config(eager_elems=131072):
        yield


def test_what_was_read_before_stays():
    t = frit.asarray(np.arange(5.0))
    for _ in range(100):
        t[0] = 1.0
    frit.eval(t)
    old, copy, later = t[1], t.copy(), t * 2
    t[1] = 7.0
    assert float(old) == 1 and float(copy[1]) == 1 and float(later[1]) == 2 and float(t[1]) == 7
    frit.eval(t)
    old = t[2]
    t[2] = old * 10         # the value reads the element, as `old` does
    t[3] = t[2] + old
    assert float(old) == 2 and float(t[2]) == 20 and float(t[3]) == 22


def test_an_index_is_looked_at_again():
    t, k = frit.asarray(np.arange(5.0)), frit.asarray(np.arange(3))
    for i in range(100):
        k[0] = i % 5
        assert float(t[k][0]) == i % 5
    k[0] = 9
    with pytest.raises(IndexError):
        frit.eval(t[k])


def test_a_long_loop_of_an_accelerated_function():
    def f(a):
        for i in range(1, 3000):
            a[i] = a[i - 1] * 0.5 + a[i]
        return a.sum()

    g, x = frit.accelerate(f), np.random.default_rng(2).random(3000)
    a, b = x.copy(), x.copy()
    for _ in range(6):
        assert f(a) == g(b)
        assert_same(a, b)


def spline(x, y):
    h, n = np.diff(x), x.shape[0]
    c, d = np.zeros(n), np.zeros(n)
    for k in range(1, n - 1):
        m = h[k - 1] / (2 * (h[k - 1] + h[k]) - h[k - 1] * c[k - 1])
        c[k] = m + y[k]
        d[k] = (y[k + 1] - y[k]) / h[k] - m * d[k - 1]
    return c, d


def damped(x, y):
    for i in range(1, x.shape[0]):
        x[i] = np.exp(-x[i]) * x[i - 1] + np.hypot(y[i], 0.5)
    return x


def seams(x, y):
    for i in range(2, x.shape[0]):
        k = np.argmin(x[i - 2:i])
        y[i] = k
        x[i] += x[i - 2 + k]
    return np.max(x), y


@pytest.mark.parametrize("loop", [spline, damped, seams])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_node_by_node_and_planned_have_the_same_bits(loop, dtype):
    given = [RNG.random(400).astype(dtype) + 1 for _ in range(2)]
    with frit.config(eager_elems=0):
        traced = [a.copy() for a in given]
        want = frit.accelerate(loop)(*traced)
    fast = frit.accelerate(loop)
    for _ in range(2):
        found = [a.copy() for a in given]
        got = fast(*found)
        for a, b in zip([*got, *found], [*want, *traced]):
            assert_same(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("dtype", ["c16", "f8"])
def test_nor_do_those_of_complex_numbers_and_powers_differ(dtype):
    def complex_numbers(a):
        for i in range(1, 300):
            a[i] = a[i] / a[i - 1]

    def powers(a):
        for i in range(1, 300):
            a[i] = a[i] ** 2 + a[i - 1] ** 3

    for f in (complex_numbers, powers)[dtype == "f8":]:
        a = (RNG.random(300) + 1).astype(dtype)
        b, c = a.copy(), a.copy()
        with frit.config(eager_elems=0):
            frit.accelerate(f)(b)
        frit.accelerate(f)(c)
        assert_same(c, b)


def program(r, rounds):
    names, lines = [], []

    def value():
        x, y = r.choice("AB"), r.choice("AB")
        i, j, k, m = (r.randrange(6) for _ in range(4))
        return r.choice([f"{x}[{i}, {j}]", f"{x}[{i}, {j}] + 1", f"{x}[{i}, {j}] * {y}[{k}, {m}]",
                         f"max({x}[{i}, {j}], {y}[{k}, {m}])", f"{x}[{i}, {j}] - {y}[{k}, {m}]", "2", "0.5", "True",
                         *names[-3:]])

    for n in range(r.randrange(10, 60)):
        x, y = r.choice("AB"), r.choice("AB")
        i, j, k = (r.randrange(6) for _ in range(3))
        kind = r.choice([*["store"] * 6, *["add"] * 2, "name", "row", "copy", "window", "map", "sum", "if", "take", "turned"])
        lines.append({
            "store": f"{x}[{i}, {j}] = {value()}", "add": f"{x}[{i}, {j}] += {value()}", "name": f"v{n} = {value()}",
            "row": f"{x}[{i}] = {y}[{k}]", "copy": f"out.append({x}.copy())", "window": f"W = {x}[{i}]; W[{j}] = {value()}",
            "map": f"out.append({x} * 2 + {y})", "sum": f"out.append({x}[{i}].sum())",
            "if": f"if {x}[{i}, {j}] > {y}[{k}, {j}]: {x}[{j}, {i}] = {value()}",
            "take": f"K[{i}] = {k}; out.append({x}[K])", "turned": f"W = {x}.T; W[{i}, {j}] = {value()}"}[kind])
        if kind == "name":
            names.append(f"v{n}")
    text = f"def f(A, B, K):\n    out = []\n    for _ in range({rounds}):\n        " + "\n        ".join(lines)
    text += f"\n    return [*out, {', '.join(names)}]\n"
    found = {}
    exec(text, found)
    return found["f"]


@pytest.mark.parametrize("accelerated", [False, True])
def test_random_programs(accelerated):
    for seed in range(150):
        r, g = random.Random(seed), np.random.default_rng(seed)
        f = program(r, 6 if accelerated else 1)     # they are counted anew for each call
        given = [(g.random(SHAPE) * 20).astype(r.choice(["f8", "f4", "i8", "i4", "u1", "c16", "f2"])),
                 (g.random(SHAPE) * 20).astype(r.choice(["f8", "f4", "i8"])), g.integers(0, 6, 6)]
        ours = [a.copy() for a in given]
        with np.errstate(all="ignore"):
            try:
                want = f(*given)
            except (OverflowError, TypeError):
                continue    # not for complex numbers
            if accelerated:
                got = frit.accelerate(f)(*ours)
            else:
                tensors = [frit.asarray(a) for a in ours]
                got = f(*tensors)
                frit.eval(tensors)
        for a, b in zip(got, want, strict=True):
            assert_same(np.asarray(a), np.asarray(b))
        for a, b in zip(ours if accelerated else tensors, given):
            assert_same(np.asarray(a), b)
