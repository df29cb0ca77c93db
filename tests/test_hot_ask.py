"""Loops without Python in which NumPy's and Python's functions are asked for what they give (csrc/bind/hot/hot_ask.c)."""
import random
import signal
import sys
import tracemalloc
import types
import warnings

import numpy as np
import pytest

import frit
from tests.fuzz import loops
from tests.test_hot import at_once, check, runs, written     # noqa: F401

STATEMENTS = [
    "u = v[q]", "v[q] = i", "v[q] += 1.0", "u = v[v > 0.0].sum()", "v[w < 0] = 0.5", "a[q, q] = i", "u = a[q, q]", "u = a[np.arange(4), q]",
    "u = v[::-1]", "v[::-1] = w", "v[::2] = i", "a[::2] *= 0.5", "a[i % 4, ::2] = v[:2]", "u = a[q][:, q]", "u = v[np.argsort(w)]",
    "t, u = np.linalg.slogdet(a)", "t, u = np.linalg.eigh(a @ a.T)", "t, _, u = np.linalg.svd(a)", "u = np.linalg.norm(a)",
    "u = np.linalg.norm(a, axis=1)", "u = np.linalg.pinv(a)", "u = np.linalg.cholesky(a @ a.T + np.eye(4))", "u = np.linalg.matrix_power(a, 2)",
    "u = np.std(v)", "u = np.var(a, axis=0)", "u = np.cumsum(v)", "u = v.cumsum()", "u = np.percentile(v, 30)", "u = len(np.unique(p))",
    "u = [i, 1] == [2, 1]", "u = v.shape == w.shape", "u = i in log", "u = i not in [1, 2, i + 1]", "u = log.count(1)", "u = sorted(log)[0]", "u = max(log)",
    "u = sum(log)", "u = min(i, 3, v[0])", "u = max(v[0], w[0], 0.5)", "u = list(log)", "u = np.take(v, q)", "u = int(np.searchsorted(np.sort(v), w[0]))",
    "u = np.tril(a)", "u = np.einsum('ij,j->i', a, v)", "u = np.diag(a)", "u = a.ravel()[:3]", "u = a.reshape(2, 8)", "u = v.item(0)", "u = v.tolist()",
    "u = v[0] % 0.7", "u = 7.5 // (i + 0.5)", "u = divmod(i, 3)[1]", "u = np.isnan(v[0])", "u = np.flip(v)", "u = np.insert(v, 0, 1.0)",
    "u = np.append(v, 2.0)", "u = np.interp(v[0], [0.0, 1.0], [2.0, 3.0])", "u = int(np.count_nonzero(v > 0))", "u = list(range(i + 1))[-1]",
    "u = list(range(4)); u[i % 4] = 7", "u = np.concatenate((v, w), axis=0)", "u = np.repeat(v, 2)", "u = np.where(v > 0)[0]",
    "u = np.array(v, dtype=float, copy=True)", "u = np.kron(v, w)", "u = v.std()", "u = a.var(axis=0)", "u = a.cumsum(1)", "u = round(v[0], 2)",
    "u = np.array_equal(v, w)", "u = np.bincount(q)", "u = np.histogram(v, 3)[0]", "u = np.stack([v, w])", "u = np.full(3, i)", "u = np.dot(v, 2)",
    "u = np.swapaxes(a, 0, 1)", "u = a.transpose()", "u = v.astype('f4')", "u = np.sum(log)", "u = np.delete(v, 0)", "u = (i, 1) < (2, 0)",
    "u = np.ptp(v)", "u = np.add(v, 1)", "u = np.hypot(v, w)", "u = np.logical_and(v > 0, w > 0)", "u = np.argmax(a, axis=1)", "u = np.empty_like(v); u[:] = 1",
]


COMPREHENSIONS = [
    "u = [x * 2 for x in v]", "u = [x - w[0] for x in log if x > 1]", "u = np.array([x * i for x in v])", "u = [np.dot(v, w) for _ in range(3)]",
    "u = [[x * y for x in v] for y in w]", "u = [x + y for x in v for y in w if x > y]", "u = sum([x * y for x, y in zip(v, w)])",
    "u = [row @ v for row in a]", "u = [a[k, k] for k in range(len(a))]", "t = [x for x in v]; x = 3; u = [x for k in w]", "u = [density(v, x, np.eye(4), w) for x in v]",
    "u = [i for i in range(3)]; u = i", "log = [x for x in log]", "u = [k * x for k, x in enumerate(v)]", "u = [np.random.rand() for _ in w]", "u = [v for _ in log]"]
GENERATORS = [
    "u = sum(x * y for x, y in zip(v, w))", "u = max(abs(x - i) for x in v)", "u = min(x for x in v if x > -9)", "u = sorted(x % 3 for x in p)", "u = list(x + i for x in v)",
    "u = any(x > i for x in v)", "u = all(x > -9 for x in v)", "u = 1 if any(x > 99 for x in v) and all(x < 3 for x in v) else 2", "u = sum(sum(x for x in row) for row in a)",
    "u = any(np.random.rand() > 0.5 for x in v)", "if all(x < y for x, y in zip(v, w)): v += 1"]


@pytest.mark.parametrize("statement", ["u = {x: 1 for x in v}", "u = sum({x for x in p})", "u = (x for x in v)", "u = list(map(float, v))", "u = sorted(log, key=abs)"])
def test_others_stay_in_python(statement):
    space = {"np": np}
    exec(f"def f(v, p, log):\n    for i in range(30):\n        {statement}\n    return i\n", space)
    check(space["f"], np.arange(4.0), np.arange(3), [1, 2], hot=False)


def test_functions_of_other_modules(tmp_path, monkeypatch):
    (tmp_path / "apart_one.py").write_text("import numpy as np\nfrom apart_two import more\nRATE = 0.5\ndef step(x, w):\n"
                                           "    return w - RATE * np.dot(x, w) * x + more(x) * len(x)\n")
    (tmp_path / "apart_two.py").write_text("import math\nSIZE = 2\ndef more(x):\n    return math.sqrt(SIZE) * abs(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    space = {"np": np}
    exec("import apart_one\nfrom apart_two import more\ndef f(x, w):\n    for row in x:\n        w = apart_one.step(row, w) - more(row)\n    return w\n", space)
    f, x = space["f"], np.random.default_rng(0).normal(size=(30, 3)) * 0.1
    first = check(f, x, np.ones(3))
    sys.modules["apart_one"].RATE = 0.25        # is seen, and so is another function
    second = check(f, x, np.ones(3))
    sys.modules["apart_one"].len = lambda x: 7
    third = check(f, x, np.ones(3))
    sys.modules["apart_one"].more = lambda x: x * 0
    assert len({tuple(first), tuple(second), tuple(third), tuple(check(f, x, np.ones(3)))}) == 4
    for name in ("apart_one", "apart_two"):
        del sys.modules[name]


def test_functions_of_scipy():
    pytest.importorskip("scipy.special")
    space = {}
    exec("import scipy.special as special\ndef f(x):\n    out = []\n    for row in x:\n"
         "        out.append(special.logsumexp(row) + special.gammaln(3.5 + row[0]))\n    return out\n", space)
    check(space["f"], np.random.default_rng(0).normal(size=(30, 3)))


@pytest.mark.parametrize("statement", STATEMENTS + COMPREHENSIONS + GENERATORS)
def test_statements(statement):
    space = {"np": np, "density": density}
    exec(f"def f(a, v, w, p, q, log):\n    np.random.seed(5)\n    u = t = None\n    for i in range(12):\n        {statement}\n    return u, t, a, v, w, p, log\n", space)
    rng = np.random.default_rng(1)
    check(space["f"], rng.normal(size=(4, 4)), rng.normal(size=4), rng.normal(size=4), rng.integers(-5, 6, 4), np.array([0, 2, 3, 1]), [1, 3])


def density(x, weight, spread, middle):
    _, b = np.linalg.slogdet(spread)
    y = np.linalg.solve(spread, x - middle)
    return -0.5 * (2 * 1.8378770664093453 + b + np.dot(x - middle, y)) + weight


def test_a_mixture_of_normal_distributions():
    def f(x, weights, spreads, middles, out):
        for i in range(len(x)):
            for k in range(3):
                out[i, k] = density(x[i], weights[k], spreads[k], middles[k])
            out[i] -= np.max(out[i])
        return out
    rng = np.random.default_rng(2)
    check(f, rng.normal(size=(30, 2)), np.log(np.full(3, 1 / 3)), np.stack([np.eye(2) * (k + 1) for k in range(3)]), rng.normal(size=(3, 2)), np.zeros((30, 3)))


def test_results_whose_types_change():
    def f(a, n):
        out = []
        for i in range(n):
            out.append(np.squeeze(a[:i % 3 + 1]).sum(axis=0))
            u = np.squeeze(a[:i % 2 + 1])
            out.append(u[0] * 2)
        return out
    check(f, np.arange(12.0).reshape(3, 4), 30, hot=False)      # now this, now that: Python does it


def test_warnings_are_of_the_line_that_gives_them():
    def f(v, n, log):
        for i in range(n):
            log.append(np.divide(v, 40 - i))
            log.append(np.cumsum(v) / (20 - i))
        return log
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        expected = written(f)(np.ones(4), 60, [])
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        given, n = runs(f, np.ones(4), 60, [])
    assert n and [(str(w.message), w.filename, w.lineno) for w in ours] == [(str(w.message), w.filename, w.lineno) for w in theirs] != []
    assert [loops.described(x) for x in given] == [loops.described(x) for x in expected]
    with np.errstate(divide="ignore", invalid="ignore"):
        given, n = runs(f, np.ones(4), 60, [])
        assert n and np.geterr()["divide"] == "ignore"


@pytest.mark.parametrize("wrong", ["v[q + 9]", "np.linalg.inv(a * 0)", "np.take(v, 99)", "v[q] = v[:3]", "np.percentile(v, 300)", "sorted(log)[99]"])
def test_errors_leave_what_was_done_before(wrong):
    space = {"np": np}
    exec(f"def f(a, v, q, log):\n    for i in range(60):\n        log.append(i)\n        v[q] += 1.5\n        u = np.cumsum(v)\n"
         f"        if u[0] > 40: {wrong}\n", space)
    done = []
    for call in (written(space["f"]), lambda *args: runs(space["f"], *args)):
        a, v, q, log = np.eye(4), np.zeros(4), np.array([1, 0, 3, 2]), []
        with pytest.raises(Exception) as raised:
            call(a, v, q, log)
        done.append((type(raised.value), str(raised.value), raised.traceback[-1].lineno, v.tobytes(), log))
    assert done[0] == done[1] and len(done[0][-1]) == 27


def test_memory_that_is_only_read_is_not_written():
    def f(v, q, n):
        for i in range(n):
            v[q] = i
    v = np.zeros(4)
    v.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        runs(f, v, np.array([0, 2]), 40)


@pytest.mark.parametrize("asked", ["np.percentile(v, 30)", "np.linalg.svd(v[:, None] * v)[1][0]", "sum(np.dot(v, v) + np.sort(v)[0] for _ in range(10**6))"])
def test_interrupts_are_not_lost(asked):
    space = {"np": np}
    exec(f"def f(v, n):\n    x = 0.0\n    for _ in range(n):\n        x += {asked}\n    return x\n", space)

    def stop(number, frame):
        raise KeyboardInterrupt
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                runs(space["f"], np.arange(9.0), 10**7)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_random_loops():
    with frit.config(tune="hot_turns=1"):
        for seed in range(40_000, 40_150):
            source = loops.draw(seed)
            assert loops.judge(source) is None, source


# ---- random numbers, and what is changed outside of the function

DRAWS = [
    "u = np.random.choice(4)", "u = np.random.choice(v)", "u = np.random.choice(v, size=2, replace=False)", "u = np.random.permutation(4)", "np.random.shuffle(v)",
    "u = np.random.binomial(9, 0.5)", "u = np.random.exponential(2.0)", "u = np.random.poisson(3.0, 4)", "u = rng.random()", "u = rng.normal(size=3)",
    "u = rng.integers(0, 9)", "u = rng.choice(v)", "u = rng.permutation(4)", "u = random.random()", "u = random.randint(1, 6)", "u = random.uniform(-1.0, 1.0)",
    "random.shuffle(log); log.append(i)", "np.random.shuffle(log); log.append(i)", "rng.shuffle(v)", "own.shuffle(log); log.append(1)", "u = random.choice([1, 2, i])", "u = own.random() + own.randrange(9)", "u = rng.random() + np.random.rand() + random.random()", "u = np.random.choice(v, p=[0.25] * 4)"]


@pytest.mark.parametrize("statement", DRAWS)
def test_draws_go_on_where_python_would(statement):
    """Also after a turn that was put back: the last draws of one, and then Python does it."""
    found = []
    for ours in (False, True):
        space = {"np": np, "random": random}
        exec(f"def f(v, rng, own, log):\n    u = None\n    for i in range(40):\n        {statement}\n        if i % 13 == 12: log.append({{}})\n    return u, v\n", space)
        np.random.seed(3)
        random.seed(3)
        given = np.arange(4.0), np.random.default_rng(5), random.Random(5), []
        with frit.config(tune="hot_turns=1"):
            result, n = runs(space["f"], *given) if ours else (space["f"](*given), 0)
        found.append([repr(given[3]), *(loops.described(x) for x in (*result, *given[:3], np.random.random(), random.random()))])
    assert found[0] == found[1] and n > 0


def test_other_generators_are_pythons():
    def f(rng, n):
        x = 0.0
        for _ in range(n):
            x += rng.random()
        return x
    for make in (lambda: np.random.Generator(np.random.Philox(3)), lambda: np.random.RandomState(3)):
        expected, (given, n) = f(make(), 30), runs(f, make(), 30)
        assert given == expected and n == 0


class Part:
    def __init__(self):
        self.gain, self.w = 0.5, np.ones(3)


class Whole:
    """Has a part whose attributes are read and written, and a generator."""

    def __init__(self):
        self.part, self.rng, self.n = Part(), np.random.default_rng(2), 0

    def step(self, x):
        self.part.w = self.part.w * self.part.gain + x
        self.n += 1
        return self.part.w[0] + self.rng.random()


def test_attributes_of_attributes_and_of_globals():
    def f(whole, n):
        s = 0.0
        for i in range(n):
            s += whole.step(float(i)) + whole.part.gain
            whole.part.gain *= 0.99
        return s
    space = {"Whole": Whole}
    exec("whole = Whole()\ntotal = 0.0\ndef g(n):\n    global total\n    for i in range(n):\n        total += whole.step(float(i)) + whole.part.gain\n        whole.part.gain *= 0.99\n"
         "    return total\n", space)
    one, two = Whole(), Whole()
    expected = f(one, 40)
    given, n = runs(f, two, 40)
    assert n > 0 and given == expected
    assert (one.part.gain, one.n, one.part.w.tobytes()) == (two.part.gain, two.n, two.part.w.tobytes())
    space["whole"], space["total"] = Whole(), 0.0
    given, n = runs(space["g"], 40)
    assert n > 0 and given == space["total"] == expected and space["whole"].n == 40
    assert space["whole"].part.w.tobytes() == one.part.w.tobytes()


def test_globals_that_are_assigned_are_seen_by_others():
    module = sys.modules["apart_three"] = types.ModuleType("apart_three")
    exec("import apart_three\ncount = 0.0\ndef f(n):\n    global count\n    s = 0\n    for i in range(n):\n        count += 2.0\n        s += apart_three.count\n"
         "    return s\n", module.__dict__)
    assert runs(module.f, 50)[0] == sum(2.0 * (i + 1) for i in range(50))
    del sys.modules["apart_three"]
    space = {}
    exec("count = 0\ndef more(x):\n    return x + count\ndef f(n):\n    global count\n    s = 0\n    for i in range(n):\n        count += 2\n        s += more(i)\n"
         "        if i == n - 1: print(end='')\n    return s\n", space)
    given, n = runs(space["f"], 50)
    assert n > 0 and space["count"] == 100 and given == sum(i + 2 * (i + 1) for i in range(50))


CONTAINERS = [
    "u = d['w'] * i", "d['x'] = v + i", "d[i] = i * 2.0; s += d[i]", "d['c'] = d.get('c', 0) + 1", "u = D['a'] + T[i % 3]", "u = i in S", "u = looked_up(s)",
    "x, y = t; s += x * y", "u = len(d)", "u = 'w' in d", "d['w'] += 1.0", "d['w'][0] = i", "u = fs.pop(); fs.append(u + 1)", "order.insert(0, i); u = order.pop()",
    "del order[i % 3]; order.append(i)", "order.sort(); order.reverse(); order.append(5)", "fs.extend([1.0, i]); u = len(fs)", "order[1:3] = [i]; order.append(2)",
    "order.remove(order[1]); order.append(i)", "d['n'] = i; del order[0]; order.append(d['n'])"]


@pytest.mark.parametrize("statement", CONTAINERS)
def test_dictionaries_and_lists_that_change(statement):
    """Also where a turn is put back: the last of all, and one that Python makes in between."""
    found = []
    for ours in (False, True):
        space = {"np": np, "D": {"a": 1.5, 3: 2.0}, "T": (1.0, 2.0, 3.5), "S": {1, 5}}
        exec("def looked_up(x):\n    return D['a'] * x + T[1]\n"
             f"def f(v, fs, d, log):\n    u = None; s = 2.0; t = (1, 2.5); order = list(range(9))\n    for i in range(40):\n        {statement}\n"
             "        if i % 13 == 12: log.append({})\n    return u, s, order\n", space)
        given = np.arange(4.0), [1.0, -1.0, 3.5], {"w": np.ones(3)}, []
        result, n = runs(space["f"], *given) if ours else (space["f"](*given), 0)
        found.append(repr((result, given)))
    assert found[0] == found[1] and n > 0


def test_dictionaries_of_others_are_asked_by_python():
    class Counted(dict):
        def __missing__(self, key):
            return 7

    class Hashed:
        def __getitem__(self, i):
            seen.append(i)
            return float(i)

    def f(d, n):
        s = 0.0
        for i in range(n):
            s += d[i]
        return s
    seen = []
    assert runs(f, Counted({0: 1.0}), 30) == (1.0 + 29 * 7, 0)
    assert runs(f, Hashed(), 30) == (sum(range(30)), 0) and seen == list(range(30))
    with pytest.raises(KeyError, match="20"):
        runs(f, {i: float(i) for i in range(20)}, 30)


def test_large_arrays_are_asked_about_by_python():
    def f(a, q, n):
        s = 0.0
        for i in range(n):
            s += np.sort(a)[0]
        return s

    def g(a, q, n):
        for i in range(n):
            a[q] += 1.0

    def h(a, q, n):
        s = 0.0
        for i in range(n):
            s += a[q][i % 3]
        return s
    q = np.array([1, 5, 7])
    check(f, np.arange(10_000.0)[::-1], q, 40, hot=False)
    check(g, np.arange(10_000.0), q, 40, hot=False)
    check(h, np.arange(10_000.0), q, 40)        # which elements are picked is what counts


def test_a_stack_may_be_deep():
    """What is taken out is put back; no copy is made of what stays."""
    def f(stack, log, n):
        s = 0
        for i in range(n):
            x = stack.pop()
            s += x
            if x % 7 == 0:
                stack.append(i)
            y = stack.pop(i % 5)
            del stack[-2]
            s -= y
            if i % 50 == 49: log.append({})
        return s
    one, two = list(range(100_000)), list(range(100_000))
    expected, (given, n) = f(one, [], 1000), runs(f, two, [], 1000)
    assert given == expected and one == two and n > 0
    tracemalloc.start()
    runs(f, two, [], 1000)
    assert tracemalloc.get_traced_memory()[1] < 500_000     # (a copy of the list is 800,000)
    tracemalloc.stop()
    with pytest.raises(IndexError, match="pop from empty list"):
        runs(f, [1, 2, 3, 4, 5] * 20, [], 1000)


def test_lists_within_a_turn_are_let_go():
    """A list for each element of a large table, all in one turn of the outer loop."""
    def f(n):
        s = 0
        for i in range(2):
            for j in range(n):
                p, q = [j, i]
                s += max([p, q, 1])
        return s
    given, n = runs(f, 300)
    assert n > 0 and given == sum(max(j, i, 1) for i in range(2) for j in range(300))
    tracemalloc.start()
    runs(f, 20_000)
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()
