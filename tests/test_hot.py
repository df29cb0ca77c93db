"""Loops over single elements without Python (csrc/bind/hot/hot.h): what Python gives, to the bit, and that it was not
Python that made their turns."""
import gc
import math
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import frit
from frit import _core, _membrane
from tests.fuzz import loops

LIMIT, TABLE = 40, np.arange(6.0)


@pytest.fixture(autouse=True)
def at_once():
    with frit.config(tune="hot_turns=2"):
        yield


def runs(f, *args):
    """What a plain call gives, and in how many runs turns were made without Python."""
    before = frit.stats()["hot"]
    result = _core.called_plain(f, *args)
    return result, frit.stats()["hot"] - before


def written(f):
    """The function as it was written."""
    from types import FunctionType
    return FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)


def check(f, *args, hot=True):
    """A plain call of f against Python, on copies."""
    def copies():
        return [a.copy() if isinstance(a, (np.ndarray, list)) else a for a in args]
    theirs, ours = copies(), copies()
    expected = written(f)(*theirs)
    given, n = runs(f, *ours)
    assert [loops.described(x) for x in ours] == [loops.described(x) for x in theirs]
    as_tuple = (lambda x: x if isinstance(x, tuple) else (x,))
    assert [loops.described(x) for x in as_tuple(given)] == [loops.described(x) for x in as_tuple(expected)]
    assert (n > 0) == hot
    return given


def test_a_stencil():
    def f(a):
        for _ in range(3):
            for i in range(1, a.shape[0] - 1):
                for j in range(1, a.shape[1] - 1):
                    a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0
        return i, j
    for dtype in (np.float64, np.float32):
        check(f, np.random.default_rng(0).random((12, 9)).astype(dtype))
    check(f, np.asfortranarray(np.random.default_rng(0).random((12, 9))))


def test_a_table_of_costs():
    def f(x, y):
        d = np.zeros((len(x) + 1, len(y) + 1))
        for i in range(1, len(x) + 1):
            d[i, 0] = i
        for i in range(1, len(x) + 1):
            for j in range(1, len(y) + 1):
                cost = 0 if x[i - 1] == y[j - 1] else 1
                d[i][j] = min(d[i - 1][j] + 1, d[i, j - 1] + 1 if j > 1 else 3, ) if i % 2 else min(d[i - 1, j - 1] + cost, d[i, j - 1])
        return d, cost
    rng = np.random.default_rng(1)
    check(f, rng.integers(0, 3, 14), rng.integers(0, 3, 9))


def test_a_sum_that_begins_as_an_int():
    def f(a):
        out = []
        for i in range(a.shape[0]):
            total, most = 0, -math.inf
            for j in range(a.shape[1]):
                total += a[i, j]
                most = max(most, a[i, j])
            out.append((total, most))
        return total, most
    given = check(f, np.random.default_rng(2).random((6, 30)))
    assert type(given[0]) is np.float64


def test_while_break_and_continue():
    def f(n):
        found = steps = 0
        while True:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
            if steps % 3 == 0:
                continue
            found += n
            if n == 1:
                break
        return found, steps
    check(f, 97)

    def g(a, limit):
        i = 0
        while i < a.size and a[i] < limit:
            a[i] = -a[i]
            i += 1
        return i
    check(g, np.arange(50.0), 33.0)


def test_all_dtypes_are_read_and_written():
    def f(a, b):
        for i in range(a.size):
            b[i] = a[i]
            if a[i] > 1:
                b[i] = a[i] - 1
        return a[i]
    for dtype in (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.float32, np.float64):
        check(f, np.array([0, 1, 1, 0, 1, 1, 0, 1, 1]).astype(dtype) * dtype(1), np.zeros(9, dtype), hot=True)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32])
def test_ints_that_do_not_fit_are_refused(dtype):
    """NumPy's own numbers, too."""
    def f(b, v):
        for i in range(20):
            b[i % 3] = v[i]
        return b
    v = np.arange(20) * 2
    check(f, np.zeros(3, dtype), v)
    v[13] = 1 << 40
    done = []
    for call in (written(f), lambda *args: runs(f, *args)):
        b = np.zeros(3, dtype)
        with pytest.raises(OverflowError) as raised:
            call(b, v)
        done.append((b.tolist(), str(raised.value)))
    assert done[0] == done[1] and done[0][0] == [24, 20, 22]


def test_rows_and_windows_are_views():
    def f(a):
        for i in range(a.shape[0]):
            row = a[i]
            part = a[1:, i]
            row[1] += part[0] * 2
            last = a[:, 0] @ row
        return row, part, last
    a = np.random.default_rng(3).random((7, 7))
    given, n = runs(f, a)
    assert n and np.shares_memory(given[0], a) and np.shares_memory(given[1], a)
    a[6, 3] = 5.0
    assert given[0][3] == 5.0 and given[0].shape == (7,) and given[1].strides == a[1:, 0].strides
    check(f, np.random.default_rng(3).random((7, 7)))


def test_an_array_that_is_not_changed_stays_the_very_array():
    def f(a, b):
        for i in range(10):
            a, b = b, a
            a[i] += 1.0
        return a, b
    a, b = np.zeros(10), np.zeros(10)
    (x, y), n = runs(f, a, b)
    assert n and x is a and y is b


def test_arrays_are_gone_over():
    def f(a):
        best, n = 0.0, 0
        for i, x in enumerate(a):
            if x > best:
                best = x
            if i in (3, 5, 7) or i not in {1, 2} and i < 4:
                n += 1
        for row in a.reshape(6, -1):
            for y in row:
                n += 1 if y > 0.5 else -1
        for r, row in enumerate(a.reshape(6, -1)):
            for c, z in enumerate(row):
                row[c] = z * 2 + r
        return best, n, i, x, y, z, r, c, row
    check(f, np.random.default_rng(5).random(60))


@pytest.mark.parametrize("draw", ["rand()", "random()", "uniform(-1, 4)", "randint(5)", "randint(-2, 1000)"])
def test_random_numbers_are_numpys_in_its_order(draw):
    """Also those of turns that Python makes again."""
    space = {"np": np}
    exec(f"def f(a):\n    for i in range(300):\n        x = np.random.{draw}\n        a[i % 7] += x * np.random.random()\n"
         "        if i == 250: a[9] = 1\n    return x", space)
    np.random.seed(11)
    theirs, ours = np.zeros(7), np.zeros(7)
    with pytest.raises(IndexError):
        written(space["f"])(theirs)
    then = np.random.random()
    np.random.seed(11)
    before = frit.stats()["hot"]
    with pytest.raises(IndexError):
        runs(space["f"], ours)
    assert ours.tobytes() == theirs.tobytes() and np.random.random() == then and frit.stats()["hot"] > before


def test_the_users_functions_are_part_of_it():
    space = {"np": np}
    exec("""
def wrapped(i, n):
    return i % n
def around(s, i, j):
    n = s.shape[0]
    total = 0
    for d in range(-1, 2, 2):
        total += s[wrapped(i + d, n), j] + s[i, wrapped(j + d, n)]
    return total
def clipped(x):
    if x > 3:
        return 3.0
    return x
def f(s):
    e = 0
    for i in range(s.shape[0]):
        for j in range(s.shape[1]):
            e -= s[i, j] * clipped(around(s, i, j))
    return e
""", space)
    s = np.random.default_rng(6).choice([-1, 1], (9, 9))
    expected = written(space["f"])(s)
    given, n = runs(space["f"], s)
    assert loops.described(given) == loops.described(expected) and n
    exec("def clipped(x):\n    return -x", space)
    expected = written(space["f"])(s)
    given, n = runs(space["f"], s)
    assert loops.described(given) == loops.described(expected) and n


# ---- what Python has to say

def raised(f, *args):
    with pytest.raises(Exception) as e:
        f(*args)
    at = [entry for entry in e.traceback if entry.name == f.__name__ or entry.name == "f"]
    return type(e.value), str(e.value), at[-1].lineno if at else None


@pytest.mark.parametrize("stop", [5, 17, 29])
def test_errors_are_raised_where_they_are_with_what_was_done_before(stop):
    def f(a, p, stop):
        for i in range(40):
            a[i % 8] += i
            for j in range(3):
                a[j] *= 0.5
                p[0] += 12 // (stop - i)
        return a
    theirs, ours = [np.arange(8.0), np.zeros(1, int)], [np.arange(8.0), np.zeros(1, int)]
    expected = raised(written(f), *theirs, stop)
    before = frit.stats()["hot"]
    given = raised(lambda *args: _core.called_plain(f, *args), *ours, stop)
    assert given[:2] == expected[:2] == (ZeroDivisionError, "integer division or modulo by zero") and frit.stats()["hot"] > before
    assert [x.tolist() for x in ours] == [x.tolist() for x in theirs]

    def g(a, n):
        for i in range(n):
            a[i] = 2 * a[i]
    a, b = np.arange(9.0), np.arange(9.0)
    assert raised(lambda *args: _core.called_plain(g, *args), a, 20)[:2] == raised(written(g), b, 20)[:2]
    assert a.tolist() == b.tolist()


def test_unbound_variables_and_arrays_that_are_read_only():
    def f(n):
        for i in range(n):
            if i > 30:
                y = i
            x = y
        return x
    assert raised(lambda n: _core.called_plain(f, n), 40)[0] is UnboundLocalError

    def g(a):
        for i in range(a.size):
            a[i] = 0
    a = np.arange(20.0)
    a.flags.writeable = False
    assert "read-only" in raised(lambda a: _core.called_plain(g, a), a)[1] and a[0] == 0 and a[1] == 1


def test_ints_that_grow_are_pythons():
    def f(n):
        x = 1
        for i in range(n):
            x = x * 7 + i
        return x
    assert check(f, 60) > 2 ** 64


def test_numpys_warnings_are_given():
    def f(a):
        for i in range(a.size - 1):
            a[i + 1] = a[i] * a[i + 1]
        return a
    with pytest.warns(RuntimeWarning, match="overflow encountered in scalar multiply") as said:
        runs(f, np.full(20, 1e40))
    with pytest.warns(RuntimeWarning) as expected:
        written(f)(np.full(20, 1e40))
    assert [str(w.message) for w in said] == [str(w.message) for w in expected]
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        runs(f, np.full(20, 1e40))


# ---- globals

def uses_globals(n):
    total = 0.0
    for i in range(n):
        total += TABLE[i % 6] * LIMIT + np.sqrt(float(i)) + math.sin(i)
    return total


def test_globals_are_what_they_are_at_each_run():
    global LIMIT, TABLE
    check(uses_globals, 50)
    LIMIT = 41
    check(uses_globals, 50)
    LIMIT = 2.5
    check(uses_globals, 50)     # of another type: it is translated anew
    LIMIT, TABLE = 40, TABLE * 2
    check(uses_globals, 50)


def test_functions_that_are_exchanged_are_called():
    space = {"math": math}
    exec("def f(n):\n    t = 0.0\n    for i in range(n):\n        t += abs(i - 3) + float(i)\n    return t", space)
    f = space["f"]
    assert runs(f, 30)[1] > 0
    space["abs"] = lambda x: 100
    given, n = runs(f, 30)
    assert n > 0 and given == 30 * 100 + 29 * 15


# ---- a guest in somebody's process

def test_signals_arrive_and_what_was_done_stays():
    """The handler raises in a loop that would run for hours."""
    code = """
import signal, numpy as np, frit
from frit import _core
def f(a):
    for i in range(10 ** 4):
        for j in range(10 ** 9):
            a[0] += 1
def stop(*_):
    raise TimeoutError("now")
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.3)
a = np.zeros(1, int)
try:
    _core.called_plain(f, a)
except TimeoutError as e:
    print(e, a[0] >= 0, frit.stats()["hot"])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert out.stdout.startswith("now True"), out


def test_other_threads_run():
    def f(a):
        for i in range(3000):
            for j in range(400):
                a[j] += i
        return a
    results = []
    threads = [threading.Thread(target=lambda: results.append(runs(f, np.zeros(400, int))[0].tolist())) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [[3000 * 2999 // 2] * 400] * 3


def test_nothing_is_held():
    def f(a, n):
        for i in range(n):
            b = a[i % 3]
            a[0, 0] += b[1]
        return float(a[0, 0])
    a = np.ones((3, 3))
    runs(f, a, 50)
    gc.collect()
    before = sys.getrefcount(a)
    for _ in range(5):
        assert runs(f, a, 50)[1]
    assert sys.getrefcount(a) == before


@pytest.mark.parametrize("name", ["helper", "Held", "held.append", "held_by.method"])
def test_what_a_loop_calls_is_not_held(name):
    """Neither a function of the user's, nor what a method is bound to, nor a script's names."""
    space = {"np": np}
    exec(f"""
class Held(list):
    def __init__(self, x=0):
        pass
    def method(self, x):
        return x
def helper(x):
    return x + 1
held, held_by = Held(), Held()
called = {name}
def f(n):
    t = 0
    for i in range(n):
        t += 1
        if i % 50 == 49:
            called(i)
    return t
""", space)
    for _ in range(3):
        assert runs(space["f"], 300)[0] == 300
    alive = [weakref.ref(space[x]) for x in ("helper", "held", "held_by", "f")]
    space.clear()
    gc.collect()
    assert [ref() for ref in alive] == [None] * 4


def test_a_debugger_sees_each_turn():
    def f(n):
        total = 0
        for i in range(n):
            total += i
        return total
    lines = []
    sys.settrace(lambda frame, event, arg: (lambda *_: lines.append(1)) if frame.f_code.co_name == "f" else None)
    try:
        given, n = runs(f, 60)
    finally:
        sys.settrace(None)
    assert given == 1770 and n == 0 and len(lines) > 100


def test_a_script_of_module_level_loops():
    code = """
import numpy as np
grid, total = np.arange(400.0).reshape(20, 20), 0
for step in range(30):
    for i in range(1, 19):
        for j in range(1, 19):
            grid[i, j] = (grid[i - 1, j] + grid[i + 1, j]) / 2
            total += grid[i, j] > 100
print(grid.sum(), total, step, i, j, type(total).__name__)
"""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "script.py")
        with open(path, "w") as f:
            f.write(code)
        plain = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout
        ours = subprocess.run([sys.executable, "-m", "frit", path], capture_output=True, text=True, check=True).stdout
    assert ours == plain


def test_functions_read_what_a_script_has_assigned():
    """Also in the turns that are made without Python."""
    code = """
total, seen = 0, np.zeros(3)
def more(x):
    return x + total
for i in range(300):
    total = (total + more(i)) % 1009
    seen[i % 3] += more(1)
"""
    from types import FunctionType
    theirs, ours = {"np": np, "__name__": "script"}, {"np": np, "__name__": "script"}
    exec(code, theirs)
    before = frit.stats()["hot"]
    _core.called_plain(FunctionType(_membrane.crossing(compile(code, "script", "exec"), ours), ours))
    assert (ours["total"], ours["seen"].tolist()) == (theirs["total"], theirs["seen"].tolist()) and frit.stats()["hot"] > before


def test_accelerated_functions_take_it():
    @frit.accelerate
    def f(a):
        for i in range(1, a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += a[i - 1, j] * 0.5 if a[i - 1, j] > 0 else 1.0
        return a
    a, b = np.random.default_rng(4).normal(size=(40, 30)), np.random.default_rng(4).normal(size=(40, 30))
    with frit.config(eager_elems=131072, jit="interpret", tune="hot_turns=2"):
        before = frit.stats()["hot"]
        for _ in range(4):
            f(a)
            written(f.__wrapped__)(b)
    assert a.tobytes() == b.tobytes() and frit.stats()["hot"] > before


def test_first_calls_do_not_wait():
    """A function that looks like one of loops over elements is not traced first."""
    @frit.accelerate
    def f(a):
        for i in range(1, a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += a[i - 1, j]
        return a

    @frit.accelerate
    def g(n):
        total = 0
        for i in range(n):
            total = (total * 31 + i) % 1009
        return total

    @frit.accelerate
    def rows(a):
        for i in range(1, a.shape[0]):
            a[i, 1:] += a[i - 1, :-1]
        return a
    with frit.config(eager_elems=131072, jit="interpret", tune="hot_turns=2"):
        for h, args in (f, [np.ones((20, 20))]), (g, [300]):
            nodes, hot = frit.stats()["nodes"], frit.stats()["hot"]
            h(*args)
            assert frit.stats()["nodes"] == nodes and frit.stats()["hot"] > hot and h.stats.unchanged == 1
        rows(np.ones((20, 20)))
    assert rows.stats.unchanged == 0


def test_it_can_be_left_out():
    code = ("import numpy as np, frit\nfrom frit import _core\ndef f(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n"
            "assert _core.called_plain(f, 1000) == 499500 and frit.stats()['hot'] == 0")
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ, FRIT_OFF="hot"))


def test_random_loops():
    before = frit.stats()["hot"]
    with frit.config(tune="hot_turns=1"):
        for seed in range(500_000, 500_150):
            source = loops.draw(seed)
            assert loops.judge(source) is None, source
    assert frit.stats()["hot"] - before > 500


# ---- attributes

class Grid:
    count = 7

    def __init__(self, n):
        self.cells, self.n, self.total, self.rate = np.arange(float(n * n)).reshape(n, n), n, 0, 0.5

    def relax(self):
        for i in range(1, self.n - 1):
            for j in range(1, self.n - 1):
                self.cells[i, j] += self.rate * (self.cells[i - 1, j] - self.cells[i, j]) if j % 2 else 1.0
                self.total += 1
                if self.cells[i, j] > 100:
                    self.last = i, j
        return self

    def sums(self, other):
        for i in range(self.n):
            self.total += other.total
            other.rate = i
        return self.total


class Slots:
    __slots__ = ("v", "k")

    def run(self):
        for i in range(30):
            self.v[i % 3] += self.k
            self.k = self.v[0] - i
        return self.v.tolist(), self.k


class Watched(Grid):
    seen = 0

    @property
    def rate(self):
        Watched.seen += 1
        return 0.5

    @rate.setter
    def rate(self, value):
        pass


def test_attributes_are_variables():
    a, b = Grid(12), Grid(12)
    for _ in range(3):
        written(Grid.relax)(a)
        _, n = runs(Grid.relax, b)
    assert a.cells.tobytes() == b.cells.tobytes() and a.total == b.total == 300 and type(b.total) is int
    s = Slots()
    s.v, s.k = np.zeros(3), 1
    t = Slots()
    t.v, t.k = np.zeros(3), 1
    expected = written(Slots.run)(t)
    given, n = runs(Slots.run, s)
    assert given == expected and n and type(s.k) is np.float64


def test_attributes_with_code_behind_them_are_asked():
    a = Watched(9)
    Watched.seen = 0
    runs(Grid.relax, a)
    assert Watched.seen == 25 + 3      # (columns 1, 3, 5, 7 of 7 rows)


def test_two_names_of_one_object():
    a, b = Grid(20), Grid(20)
    a.total = b.total = 1
    assert written(Grid.sums)(a, a) == runs(Grid.sums, b, b)[0] == 2 ** 20 and a.rate == b.rate == 19
