"""Loops over rows and small arrays without Python (csrc/bind/hot/hot_array.c): samples one by one, steps of equations,
filters, lists that results are appended to."""
import gc
import math
import sys
import tracemalloc

import numpy as np
import pytest

import frit
from tests.fuzz import loops
from tests.test_hot import at_once, check, runs, written     # noqa: F401

RNG = np.random.default_rng(0)


def test_samples_one_by_one():
    def f(x, y, w):
        for i in range(len(x)):
            w += 0.01 * (y[i] - np.dot(x[i], w)) * x[i]
        return w
    w = np.zeros(8)
    before = w
    assert check(f, RNG.normal(size=(60, 8)), RNG.normal(size=60), w) is not before

    def g(x, y, w, b):
        for i, row in enumerate(x):
            if y[i] * (np.dot(row, w) - b) >= 1:
                w -= 0.001 * (0.02 * w)
            else:
                w -= 0.001 * (0.02 * w - np.dot(row, y[i]))
                b -= 0.001 * y[i]
        return w, b
    check(g, RNG.normal(size=(60, 5)), np.where(RNG.normal(size=60) > 0, 1, -1), np.zeros(5), 0)


def slope(y):
    a, b, c = y[0], y[1], y[2]
    return np.array([10 * (b - a), 28 * a - b - a * c, a * b - 2.667 * c])


def test_steps_of_an_equation():
    def f(n, h):
        y = np.empty((n + 1, 3))
        y[0] = (0.0, 1.0, 1.05)
        for i in range(n):
            k1 = slope(y[i])
            k2 = slope(y[i] + h / 2 * k1)
            y[i + 1] = y[i] + h * k2
        return y
    check(f, 40, 0.01)

    def g(y, n, h):
        out = []
        for _ in range(n):
            y = y + h * slope(y)
            out.append(y)
        return out
    out = check(g, np.array([1.0, 1.0, 1.0]), 40, 0.01)
    assert len({id(y) for y in out}) == 40


def test_a_filter():
    def f(z, dt):
        x, p, out = np.zeros(2), np.eye(2), []
        a, h = np.array([[1, dt], [0, 1.0]]), np.array([1.0, 0])
        for k in range(len(z)):
            x = a @ x
            p = a @ p @ a.T + np.array([[0.01, 0], [0, 0.01]])
            s = h @ p @ h + 0.5
            gain = p @ h / s
            x = x + gain * (z[k] - h.dot(x))
            p = p - np.outer(gain, h) @ p
            out.append(x[0])
        return out, x, p
    check(f, RNG.normal(size=50), 0.1)


STATEMENTS = [
    "u = v + w", "u = v * 2 - w / 3", "w += v", "w -= 0.5 * v", "w *= a[i % 4]", "u = -abs(v)", "u = np.sqrt(np.abs(v))",
    "u = np.maximum(v, w)", "u = np.where(v > w, v, w)", "u = v ** 2", "u = np.minimum(v, 0.25)", "u = (v > 0) & (w > 0)",
    "u = p // 2", "u = p % 3 + q", "p += q", "p *= 2", "u = h * 2", "h += 1", "h += v", "u = v.copy()", "u = np.array(v)",
    "u = np.zeros(4)", "u = np.ones((2, 3))", "u = np.zeros_like(h)", "u = np.ones_like(p)", "u = a @ v", "u = v @ a",
    "u = a @ a", "u = a.dot(v)", "u = np.dot(a, a.T)", "u = v @ w", "u = np.dot(v, w)", "u = np.outer(v, w)",
    "u = np.dot(v, p[i % 4])", "u = v.sum()", "u = np.sum(p)", "u = v.max() - v.min()", "u = np.mean(v)", "u = np.argmax(v)",
    "u = (v > 5).any()", "u = np.all(v < 9)", "u = sum(v)", "u = np.linalg.norm(v - w)", "u = a.T[1] + v", "u = v[:, None] * w",
    "u = v[None, :] + a", "u = a[1:, :2] * 2", "a[i % 4] = v", "a[:, i % 4] = w", "a[1:3, 0] = 7", "a[i % 4] += v * 0.5",
    "a[:] = a * 0.5", "v[1:] = v[:-1]", "v[:2] = w[2:]", "v[:] = i", "v[1:] = [1.5, i, 0]", "p[:] = q", "h[:] = v",
    "a[i % 4] = 1, 2, i, 0.5", "u = np.array([i, 1.5, v[0]])", "u = np.array([[i, 1], [2, 3]])", "u = np.array([1, 2, 3])",
    "u = np.array([[1.5, 0.0], [0.0, 2.5]]) @ v[:2]", "log.append(i)", "log.append(v[0])", "log.append(v + w)",
    "log.append(a[0])", "log.append(None); u = len(log)", "u = [v[0], w[0]]; u = u[1]", "u = [i, 2]; u.append(i); u = len(u)",
    "u = []; u.append(v[0]); u = np.max(u)", "u = [[1.5, i], [v[0], 2]]", "u = log[0] + i", "log[0] = v[i % 4]; u = log[-1]",
    "for u in [1, i]: log.append(u)", "for k, u in enumerate((0.5, 1.5)): v[k] += u", "u = [v, w]; v = u[i % 2]; w = u[1]",
    "log[0] += 1", "for x, y in zip(v, p): u = x * y", "for k, (x, y, z) in enumerate(zip(v, a, w)): u = k * x + y * z",
    "x, y, z, u = v", "(x, y), u = w[:2], 1", "u = np.random.randn()", "u = np.random.normal(1, 2.5)",
    "u = np.random.standard_normal()", "u = np.random.randn(3)", "u = np.random.rand(2, 3)",
    "u = np.random.normal(0, 1, size=(2, 2))", "u, t = np.random.randint(0, 9, size=2)", "u = np.random.uniform(-1, 1, 4)",
    "u = np.random.randint(5, size=3)", "u = math.hypot(v[0], 2) + math.pi * np.e", "u = np.zeros(3, dtype=int)",
    "u = np.array([1, i], dtype=np.float32)", "u = helper(v)", "u = helper(v, 3.0)", "u = helper(i, c=v[0])",
    "u = helper(b=2, a=w)", "u = np.ones(4, dtype=bool)", "u = math.pow(2.0, i) if i else 0.0", "u = np.vstack((v, w))",
    "u = np.vstack([a, a]) @ v", "u = np.hstack((v, w)).sum()", "u = np.concatenate([v, w])", "u = np.eye(3) * 2",
    "u = np.arange(4) * v", "u = np.arange(i, 9)", "u = np.linspace(0, 1, 5) * 2", "u = np.cross(v[:3], w[:3]) + 1",
    "u = np.linalg.inv(a) @ v", "u = np.linalg.solve(a, v)", "u = np.linalg.det(a) * 2", "u = np.diff(v)",
    "u = np.roll(v, 1) - v", "u = np.sort(v)", "u = np.argsort(v)", "u = np.median(v)", "u = np.trace(a) + 1",
    "u = 1 if np.allclose(v, w) else 2", "u = np.array([v, w])", "u = np.array([a[:, i % 4]]).T",
    "u = np.array([v, w, v * 2]) @ w", "u = np.clip(v, -0.5, 0.5)", "u = v.clip(-1, i)", "u = np.clip(v[0], 0, 1)",
    "u = np.random.randint(low=0, high=7)", "u = np.random.uniform(low=0.5, high=1.5, size=3)",
    "u = np.random.normal(loc=1.0, scale=0.1)", "u = a.sum(axis=0)", "u = np.sum(a * v, axis=1)", "u = a.mean(axis=1)",
    "u = np.mean(a, axis=0)", "u = np.max(a, axis=1)", "u = a.min(0)", "u = np.sum(a ** 2, 1)",
    "u = np.sqrt(np.sum((a - v) ** 2, axis=-1))", "u = p.astype(float)", "u = v.astype(np.float32)",
    "u = math.floor(v[0]) + math.ceil(w[1])", "u = round(v[i % 4])", "u = np.prod(a, axis=0)", "u, t = swapped(v, i)",
    "u, (t, _) = 1, swapped(i, v[0])", "v, w = swapped(v, w)", "u = np.sign(v); u[0] = 5", "u = v; v = w; w = u",
    "u = a[2]; u += 1", "if np.linalg.norm(v) > 1: v *= 0.5", "u = np.float64(i) ** 3", "u = v[1] ** 2",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(statement):
    space = {"np": np, "math": math}
    exec(f"def helper(a, b=2.5, c=1):\n    return a * b + c\ndef swapped(a, b):\n    return b, a\ndef f(a, v, w, p, q, h, log):\n    np.random.seed(3)\n    u = t = None\n    for i in range(12):\n        {statement}\n    return a, v, w, p, q, h, log, u, t\n", space)
    f = space["f"]
    check(f, *values())
    drawn = np.random.random()
    written(f)(*values())
    assert np.random.random() == drawn


def values():
    rng = np.random.default_rng(1)
    return (rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4), rng.integers(-5, 6, 4), rng.integers(1, 6, 4),
            rng.normal(size=4).astype(np.float32), [1])


@pytest.mark.parametrize("statement", ["u = np.exp(v)", "u = np.exp(-v[0])", "u = np.tanh(w); u += 1", "u = np.exp(v * 300 - 700)"])
def test_functions_that_are_not_exact_are_frits(statement):
    """As they are outside of loops."""
    space = {"np": np}
    exec(f"def f(v, w, n):\n    for i in range(n):\n        {statement}\n    return u\n", space)
    _, v, w, *_ = values()
    with frit.config(tune="hot_turns=1000"):
        expected, none = runs(space["f"], v, w, 1)
    given, n = runs(space["f"], v, w, 30)
    assert n and not none and loops.described(given) == loops.described(expected)


@pytest.mark.parametrize("wrong", ["v[:3] + w", "a @ v[:2]", "v[9]", "1 // (i - 30)", "np.zeros(30 - i - 1).max()", "np.array([v, 1])"])
def test_errors_leave_what_was_done_before(wrong):
    space = {"np": np}
    exec(f"def f(a, v, w, log):\n    for i in range(60):\n        log.append(i)\n        v += w\n        a[0] = v\n        u = v * 2\n"
         f"        if i == 30: {wrong}\n", space)
    f, done = space["f"], []
    for call in (written(f), lambda *args: runs(f, *args)):
        a, v, w, _, _, _, log = values()
        with pytest.raises(Exception) as raised:
            call(a, v, w, log)
        done.append((type(raised.value), str(raised.value), raised.traceback[-1].lineno, a.tobytes(), v.tobytes(), log))
    assert done[0] == done[1] and done[0][-1] == [1, *range(31)]


def test_numpys_warnings_come_once():
    def f(v, log):
        for i in range(40):
            log.append(v / (30 - i))
        return log
    with pytest.warns(RuntimeWarning) as theirs:
        expected = written(f)(np.ones(4), [])
    with pytest.warns(RuntimeWarning) as ours:
        given, n = runs(f, np.ones(4), [])
    assert n and [str(w.message) for w in ours] == [str(w.message) for w in theirs]
    assert [loops.described(x) for x in given] == [loops.described(x) for x in expected]


def test_windows_that_are_in_two_places_are_one_object():
    def f(a):
        rows, one = [], None
        for i in range(20):
            row = a[i % 4]
            one = row
            rows.append(row)
            row[0] += 1
        return rows, one, row
    rows, one, row = runs(f, np.zeros((4, 3)))[0]
    assert rows[-1] is one is row and rows[0] is not rows[4] and rows[0].base is rows[4].base and rows[0][0] == 5


def test_memory_of_its_own_is_used_again():
    def f(v, n):
        x = v
        for _ in range(n):
            x = x * 0.5 + v
        return x
    few, n = runs(f, np.ones(100), 20)
    assert n
    gc.collect()
    blocks = sys.getallocatedblocks()
    tracemalloc.start()     # (of which NumPy tells)
    try:
        runs(f, np.ones(100), 20000)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sys.getallocatedblocks() - blocks < 200 and most < 1 << 17       # 20,000 arrays are 16 MB
    v = np.ones(100)
    held = sys.getrefcount(v)
    runs(f, v, 50)
    assert sys.getrefcount(v) == held


def test_rows_of_all_lengths_do_not_pile_up():
    """Those of earlier lengths were kept, and gone through for each new array: a triangle of 150 rows was 4 times slower."""
    def f(c, a):
        for i in range(len(c)):
            for j in range(4):
                c[i, :i + 1] += 0.5 * a[i, j] * a[:i + 1, j]
        return c
    check(f, np.zeros((40, 40)), RNG.normal(size=(40, 4)))
    c, a = np.zeros((800, 800)), RNG.normal(size=(800, 4))
    runs(f, c, a)
    tracemalloc.start()
    try:
        assert runs(f, c, a)[1]
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 19       # all lengths of two intermediates are 5 MB


def test_columns_are_put_back():
    """A turn that Python has to make again finds elements that lie apart as they were."""
    def f(c, v, w):
        for i in range(len(v)):
            c[:, i] += v[i]
            c[1::2, 0] = c[::2, i]
            c[1:, 1] *= 2
            w[i] = v[i] / (i - 70)      # a warning in the turn that divides by 0
        return c
    with pytest.warns(RuntimeWarning):
        check(f, RNG.normal(size=(12, 90)), RNG.normal(size=90), np.zeros(90))


def test_large_arrays_are_left_to_others():
    def f(v):
        for _ in range(20):
            v = v * 0.5 + 1
        return v
    check(f, np.ones(100_000), hot=False)


def test_what_others_append_to_is_seen():
    log = []

    def f(n):
        for i in range(n):
            log.append(np.float64(i) * 0.5)
        return len(log)
    given, n = runs(f, 30)
    assert given == 30 and n and [type(x) for x in log] == [np.float64] * 30


class Learner:
    def __init__(self):
        self.w, self.losses, self.rate = np.zeros(4), [], 0.1

    def fit(self, x, y):
        for i in range(len(x)):
            e = y[i] - x[i] @ self.w
            self.w += self.rate * e * x[i]
            self.losses.append(e ** 2)


def test_attributes():
    x, y, both = RNG.normal(size=(50, 4)), RNG.normal(size=50), []
    for call in (written(Learner.fit), lambda *args: runs(Learner.fit, *args)):
        learner = Learner()
        w = learner.w
        call(learner, x, y)
        assert learner.w is w
        both.append((w.tobytes(), [(type(e), float(e)) for e in learner.losses]))
    assert both[0] == both[1]
    assert runs(Learner.fit, Learner(), x, y)[1] == 1


def test_random_loops_with_arrays():
    done = 0
    for seed in range(2_000_000, 2_000_250):
        source = loops.draw(seed)
        before = frit.stats()["hot"]
        assert loops.judge(source, (seed,)) is None, source
        done += frit.stats()["hot"] - before
    assert done > 300


def test_defaults_that_change_are_seen():
    space = {}
    exec("def g(x, by=2.0):\n    return x * by\ndef f(n):\n    t = 0.0\n    for i in range(n):\n        t += g(i)\n    return t\n", space)
    f, g = space["f"], space["g"]
    assert runs(f, 30) == (870.0, 1)
    g.__defaults__ = (3.0,)
    assert runs(f, 30)[0] == 1305.0


def test_normal_numbers_that_were_kept_are_put_back():
    """A turn that ends with an error has drawn nothing, as far as the next one sees: Python draws again."""
    def f(n):
        out = []
        for i in range(n):
            out.append(np.random.randn())
            if i == 20:
                out.append(1 // (i - 20))
        return out
    for seed in range(4):
        states = []
        for call in (written(f), lambda n: runs(f, n)):
            np.random.seed(seed)
            np.random.randn(seed)
            with pytest.raises(ZeroDivisionError):
                call(30)
            states.append((np.random.get_state()[2:], np.random.random(), np.random.randn()))
        assert states[0] == states[1]


class Walker:
    def __init__(self, n):
        self.x, self.steps, self.far, self.path = np.zeros(2), 0, 0.0, []
        self.pull = 0.1

    def force(self, x, by=1.0):
        return -self.pull * by * x

    def note(self, x):
        self.steps += 1
        d = np.linalg.norm(x)
        if d > self.far:
            self.far = d
        return d

    def move(self, dx):
        self.x = self.x + self.force(self.x, by=2.0) + dx
        return self.note(self.x)

    def run(self, n):
        for _ in range(n):
            d = self.move(np.random.normal(0, 1, size=2))
            self.path.append(d)
        return self.steps


class Strong(Walker):
    def force(self, x, by=1.0):
        return -x


def described_walker(w):
    return [loops.described(v) for v in (w.x, w.steps, w.far, w.path, w.pull)]


def test_methods_are_part_of_it():
    for kind in (Walker, Strong, Walker):
        both = []
        for call in (written(Walker.run), lambda *args: runs(Walker.run, *args)[0]):
            np.random.seed(2)
            w = kind(3)
            assert call(w, 40) == 40
            both.append(described_walker(w))
        assert both[0] == both[1]
    assert runs(Walker.run, Walker(3), 40)[1] == 1


def test_methods_that_are_exchanged_are_called():
    w = Walker(3)
    assert runs(Walker.run, w, 40)[1]
    w.move = lambda dx: 7
    assert runs(Walker.run, w, 40)[0] == 40 and w.path[-1] == 7
    before, Walker.force = Walker.force, lambda self, x, by=1.0: x * 0
    try:
        np.random.seed(2)
        w = Walker(3)
        runs(Walker.run, w, 3)
        np.random.seed(2)
        assert w.x.tobytes() == (np.zeros(2) + np.random.normal(0, 1, size=2) + np.random.normal(0, 1, size=2)
                                 + np.random.normal(0, 1, size=2)).tobytes()
    finally:
        Walker.force = before


class Counts:
    @property
    def rate(self):
        self.asked = getattr(self, "asked", 0) + 1
        return 0.5

    def step(self):
        return self.rate

    def run(self, n):
        t = 0.0
        for _ in range(n):
            t += self.step()
        return t


def test_properties_in_methods_are_asked():
    c = Counts()
    assert runs(Counts.run, c, 30)[0] == 15.0 and c.asked == 30
