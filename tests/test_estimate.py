"""frit.estimate: memory to the byte, on programs that are also run; what it leaves alone; and what it says of what it cannot know."""
import collections
import copy
import functools
import json
import random
import subprocess
import sys
import threading
import types
from typing import ClassVar

import numpy as np
import pytest

import frit
from benchmarks.cases import CASES
from benchmarks.generated import Function
from frit import _core
from frit._shapes import RULES, Shape, drawn, result_of

from .common import SOAK, NotNow
from .estimates import NoCall, allocated, compare, quietly
from .fuzz import more, run as fuzz_run

S = frit.ShapeDtype
MOST_BYTES = 5_000_000      # of a case's inputs, in make check


# ---- memory, beside what the allocator has ----

def small_cases():
    for case in CASES:
        inputs = case.inputs()
        if sum(x.nbytes for x in inputs) <= (1 << 40 if SOAK else MOST_BYTES):
            yield pytest.param(case, inputs, id=case.name)


@pytest.mark.parametrize("case, inputs", list(small_cases()))
def test_the_memory_of_the_cases_is_as_estimated(case, inputs):
    c = compare(lambda *a: case.run(np, *a), inputs)
    assert c.is_exact and not c.is_unsafe and not c.stopped, c
    by_shapes = compare(lambda *a: case.run(np, *a), inputs, values="small", shapes=True)
    assert by_shapes.predicted == c.predicted, by_shapes


@pytest.mark.parametrize("size", [1000, 30_000])
def test_the_memory_of_generated_functions_is_as_estimated(size):
    n = 0
    for index in range((400 if SOAK else 36)):
        f = Function(3, index, size)
        names = {"np": np}
        exec(f.text, names)
        rng = np.random.default_rng(index)
        inputs = [rng.integers(0, 100, shape).astype(dtype) if np.dtype(dtype).kind in "iu" else
                  rng.standard_normal(shape).astype(dtype) for dtype, shape in f.inputs]
        c = compare(names["f"], inputs)
        assert c.is_exact and not c.is_unsafe and not c.handed, (f.text, c)
        n += c.planned > 0
    assert n == index + 1


def random_program(seed):
    """(function, its arrays) of the fuzzer's, or None: where errors of arithmetic are raised, others follow from values."""
    features = [f for f in more.FEATURES if f not in more.KNOWN]
    form = next(iter(fuzz_run.FORMS))
    try:
        lines = more.draw(seed, features, True).lines
        if any("errstate" in line or "caught('error')" in line for line in lines):
            return None
        want, _ = fuzz_run.run(lines, fuzz_run.reference, lambda *v: None)
        text, made = fuzz_run.as_function(lines, want, form)
        names = {"xp": np, "np": np, **fuzz_run.MODULES}
        exec(text, names)
        arrays = [eval(how, {"data": fuzz_run.data}) for how in made.values()]
        quietly(names["f"], *[a.copy(order="K") for a in arrays])
    except Exception:
        return None
    return names["f"], arrays


@pytest.mark.parametrize("seeds", [range(k, k + 20) for k in range(0, 2400 if SOAK else 60, 20)], ids=lambda r: f"{r.start}")
def test_the_memory_of_random_programs_is_as_estimated(seeds):
    n = n_exact = 0
    for program in filter(None, map(random_program, seeds)):
        try:
            c = compare(*program)
        except NoCall:
            continue
        assert not c.is_unsafe and not c.stopped, (seeds, c)
        n += 1
        n_exact += c.is_exact or c.handed > 0
    assert n > len(seeds) // 4 and n_exact >= n - 1     # (a mask of what was just stored into is looked at in a copy: above)


def test_by_shapes_alone_the_memory_of_random_programs_is_never_more_than_estimated():
    n = n_exact = 0
    for seed in range((600 if SOAK else 60)):
        program = random_program(seed)
        if program is None:
            continue
        try:
            c = compare(*program, values="small", shapes=True)
        except NoCall:
            continue
        except (IndexError, ValueError, TypeError) as error:    # what depends on values may be wrong with others
            assert "data" in str(error) or "index" in str(error) or "size" in str(error), (seed, error)
            continue
        if c.stopped or c.handed:
            continue
        assert not c.is_unsafe, (seed, c)
        n += 1
        n_exact += c.is_exact
    assert n >= 5 and n_exact >= n * 0.8


def test_what_reuses_memory_and_what_runs_in_bands_is_as_estimated():
    def steps(x, n):
        for _ in range(n):
            x = np.tanh(x) * 0.5 + x.mean(axis=1, keepdims=True)
        return x

    def in_bands(x):
        c = np.cumsum(x, 1)
        return (c[:, 20:] - c[:, :-20]) / 20
    for f, args in ((steps, (np.ones((500, 400)), 4)), (in_bands, (np.ones((1000, 1000), "f4"),))):
        c = compare(f, args)
        assert c.is_exact and c.planned > 0, c


# ---- what is counted ----

def test_bytes_operations_kernels_and_lines():
    def f(x, y):
        z = np.exp(x - x.max(axis=1, keepdims=True)) * y
        return z.sum(axis=1)
    e = frit.estimate(f)(S((1000, 500)), S((1000, 500)))
    assert [k.operations for k in e.kernels] == ["max subtract exp multiply sum"] and e.kernels[0].runs == 1
    assert e.bytes == (2 * 500_000 + 1000) * 8 and e.ops == 5 * 500_000 and e.argument_bytes == 8_000_000
    assert e.peak_bytes == e.result_bytes == 8000 and e.total_bytes == 8_008_000 and e.us > 0
    assert [at.where.rpartition(":")[2] for at in e.lines] == [f"{f.__code__.co_firstlineno + k} in {f.__qualname__}" for k in (1, 2)]
    assert sum(at.us for at in e.lines) == pytest.approx(e.us) and sum(at.ops for at in e.lines) == pytest.approx(e.ops)
    assert json.loads(json.dumps(e.as_dict()))["kernels"][0]["shape"] == "(1000, 500)"
    assert "max subtract exp multiply sum" in str(e) and "peak 8 kB" in repr(e)


def test_a_loop_is_one_kernel_with_a_count():
    def f(x):
        for _ in range(5):
            x = np.sin(x)
            if x.shape[0] > 3:
                frit.eval(x)
        return x
    e = frit.estimate(f)(S(1000))
    assert [(k.operations, k.runs) for k in e.kernels] == [("sin", 5)] and len(e.lines) == 1


def test_a_product_counts_its_multiplications():
    e = frit.estimate(lambda a, b: a @ b)(S((30, 40)), S((40, 50)))
    assert e.ops == 2 * 30 * 40 * 50 and e.bytes == 8 * (30 * 40 + 40 * 50 + 30 * 50) and e.peak_bytes == 8 * 30 * 50


def test_nothing_is_computed_allocated_or_counted():
    x = np.ones((300, 300))
    frit.eval(frit.asarray(x) + 1)
    before, live = frit.stats(), _core.device_memory("meta")["live_bytes"]
    frit.estimate(lambda a: np.tanh(a @ a).sum())(x)
    e = frit.estimate(lambda a: np.tanh(a) + 1)(S((1 << 18, 1 << 18)))
    assert e.peak_bytes == 8 << 36      # no machine has it
    after = frit.stats()
    for what in ("kernels", "peak_bytes", "live_bytes", "evals", "bytes_read"):
        assert after[what] == before[what], what
    assert _core.device_memory("meta")["live_bytes"] == live


# ---- what is left alone ----

class Model:
    def __init__(self):
        self.w = np.ones((50, 50))
        self.history = []
        self.n = 0

    def step(self, x):
        self.w = self.w - 0.1 * (x.T @ x)
        self.w *= 2
        self.n += 1
        self.history.append(self.w.sum())
        return self.w


STATE = np.zeros(10)


def changes_its_module(x):
    global STATE, NEW
    STATE += 1
    STATE = STATE + x
    NEW = x
    return STATE


def test_arguments_objects_and_the_module_are_as_before():
    m, x = Model(), np.ones((100, 50))
    e = frit.estimate(m.step)(x)
    assert not e.stopped and e.name == "Model.step" and e.argument_bytes == x.nbytes + m.w.nbytes
    assert type(m.w) is np.ndarray and (m.w == 1).all() and m.history == [] and m.n == 0

    def writes(a, items, table):
        a += 1
        items[0] *= 2
        items.append(a)
        table["b"] = a * 2
    a, items, table = np.ones(5), [np.ones(3)], {"a": np.ones(2)}
    assert not frit.estimate(writes)(a, items, table).stopped
    assert (a == 1).all() and len(items) == 1 and (items[0] == 1).all() and list(table) == ["a"]

    state = STATE
    assert not frit.estimate(changes_its_module)(np.ones(10)).stopped
    assert STATE is state and (STATE == 0).all() and "NEW" not in globals()
    assert (frit.accelerate(changes_its_module)(np.ones(10)) == 2).all()    # and all goes on as ever


class Layer:
    __slots__ = ("weights", "kept")

    def __init__(self, weights):
        self.weights = weights


class Random:
    def __init__(self, weights):
        self.layers, self.rng = {"first": Layer(weights)}, np.random.default_rng(5)

    def step(self, x):
        layer = self.layers["first"]
        layer.kept = self.rng.random(x.shape) < 0.5
        layer.weights -= 0.1 * (x * layer.kept).sum(axis=0)
        return layer.weights.sum()


def test_what_objects_hold_is_computed_and_belongs_to_no_other_estimate():
    """In-place and attributes of attributes: when the call ends, it is there."""
    real, shapes = Random(np.ones(1000)), Random(S(1000))
    x = np.ones((300, 1000))
    first = [frit.estimate(m.step)(x) for m in (real, shapes)]
    assert first[0].peak_bytes == first[1].peak_bytes > 0 and first[0].total_bytes == first[1].total_bytes
    assert sum(k.runs for k in first[0].kernels) == sum(k.runs for k in first[1].kernels)
    again = [frit.estimate(m.step)(x) for m in (shapes, real)]
    for e in again:
        assert e.as_dict() == first[1].as_dict()
    partial = functools.partial(Random.step, shapes)
    assert frit.estimate(partial)(x).peak_bytes == first[0].peak_bytes
    plain = frit.estimate(lambda x: x + 1)(S(10))
    assert plain.peak_bytes == 80 and len(plain.kernels) == 1
    assert shapes.layers["first"].weights == S(1000) and not hasattr(shapes.layers["first"], "kept")
    most, _ = allocated(frit.accelerate(Random.step), (real, x))
    assert most == first[0].peak_bytes


class Slotted:
    __slots__ = ("__hidden", "count")
    shared: ClassVar[dict] = {}
    last = None

    def __init__(self, hidden):
        self.__hidden = hidden

    def run(self, x):
        self.__hidden = self.__hidden + x
        self.count = x.sum()
        type(self).last = self.shared[len(self.shared)] = self.__hidden
        return self.__hidden

    def hidden(self):
        return self.__hidden


@functools.lru_cache
def cached(n):
    return np.arange(float(n))


class Reached:
    """What a function reaches without an argument: every way in which a program keeps something."""

    def __init__(self):
        self.weights, self.history, self.queue, self.seen = np.ones(100), [], collections.deque(maxlen=3), set()
        self.table, self.ordered, self.by = {"a": np.zeros(3)}, collections.OrderedDict(a=1), collections.defaultdict(list)
        self.slotted, self.counts, self.pair = Slotted(np.ones(100)), collections.Counter("ab"), (Slotted(np.zeros(100)), [1])
        self.objects, self.bytes, self.tell = np.array([[1], None], dtype=object), bytearray(b"ab"), self.history.append

    def step(self, x):
        self.weights = self.weights - x.mean()
        self.tell(self.weights)
        self.queue.append(x * 2)
        self.seen.add(len(self.seen))
        self.table["a"] = self.table["b"] = x
        self.ordered.move_to_end("a")
        self.ordered["b"] = x
        self.by["x"].append(x)
        self.counts["b"] += 3
        self.bytes += b"c"
        self.objects[0].append(x)
        self.pair[0].run(x)
        self.pair[1].append(x)
        self.new = self.slotted.run(x) + cached(100)
        step.calls += 1
        return self.new

    def found(self):
        slots = [self.slotted.hidden(), hasattr(self.slotted, "count"), self.pair[0].hidden(), len(self.pair[1])]
        return [self.weights, len(self.history), len(self.queue), len(self.seen), list(self.table), self.table["a"], list(self.ordered),
                dict(self.by), self.counts["b"], bytes(self.bytes), self.objects.tolist(), hasattr(self, "new"), Slotted.last,
                dict(Slotted.shared), step.calls, *slots]


REACHED = Reached()


def step(x):
    return REACHED.step(x)


step.calls = 0


@pytest.mark.parametrize("how", ["global", "cell", "partial"])
def test_what_a_function_reaches_is_as_before_and_goes_on(how):
    """Programs whose functions have no arguments: their objects kept arrays without data, and the next step failed."""
    own = REACHED
    call = {"global": step, "cell": lambda x: own.step(x), "partial": functools.partial(lambda o, x: o().step(x), lambda: own)}[how]
    before = own.found()
    e = frit.estimate(call)(S(100))
    assert not e.stopped and e.kernels
    after = own.found()
    assert str(after) == str(before)
    assert all(isinstance(x, np.ndarray) for x in (own.weights, own.table["a"], own.slotted.hidden()))
    x = np.random.default_rng(0).random(100)
    want = own.slotted.hidden() + x + np.arange(100.0)
    assert np.array_equal(frit.accelerate(call)(x), want) and own.history[-1] is own.weights and step.calls == before[14] + 1
    assert not frit.estimate(call)(S(100)).stopped


def test_what_does_not_begin_leaves_all_as_it_is():
    """While somebody profiled, shapes in objects were left replaced, and the estimate was of another machine from then on."""
    model = types.SimpleNamespace(weights=S(10))
    sheet = {"Mem_Bw": 1000, "Num_Sm": 100, "Freq": 1500, "SingleFLOPs": 10000, "L2Cache": 40}
    before = frit.estimate(lambda x: x + model.weights)(S(10)).us
    with frit.profile(), pytest.raises(RuntimeError, match="one estimate or profile at a time"):
        frit.estimate(lambda x: x + model.weights, machine=frit.machine.gpu(sheet))(S(10))
    assert model.weights == S(10) and frit.estimate(lambda x: x + model.weights)(S(10)).us == before


def test_what_a_function_reaches_is_not_asked_what_it_is():
    proxy, log = NotNow(), []

    def looks(x):
        log.append(proxy)
        return x + 1
    assert frit.estimate(looks)(S(10)).peak_bytes == 80 and log == []


def test_shapes_and_tensors_that_a_function_reaches_stand_for_arrays_without_data():
    model = types.SimpleNamespace(weights=S((1000, 1000)), more=[S(1000)], mine=frit.asarray(np.ones(1000)))
    own = Slotted([S(1000)])

    def run(x):
        y = x @ model.weights + model.more[0] * model.mine
        return y + own.hidden()[0]
    pending = frit.asarray(np.ones(1000)) * 3
    e = frit.estimate(lambda x: run(x) + pending)(S((10, 1000)))
    assert not e.stopped and e.result_bytes == 8 * 10 * 1000 and e.ops > 2e7
    assert model.weights == S((1000, 1000)) and model.more == [S(1000)] and own.hidden() == [S(1000)] and model.mine.device == "cpu"
    assert float(model.mine.sum()) == 1000 and repr(pending).endswith("pending>") and float(pending.sum()) == 3000


RNG, PYTHONS = np.random.default_rng(1), random.Random(2)


def test_generators_give_what_they_would_have_given():
    legacy, bits, own = np.random.RandomState(3), np.random.Philox(4), Random(np.ones(4))

    def draws(x, seed=np.random.SeedSequence(6)):
        return x + RNG.random(3) + PYTHONS.random() + legacy.rand(3) + np.random.rand(3) + random.random() + bits.random_raw()

    def numbers():
        return (RNG.random(), PYTHONS.random(), legacy.rand(), np.random.rand(), random.random(), bits.random_raw(), own.rng.random())
    np.random.seed(7)
    random.seed(8)
    states = [copy.deepcopy(g) for g in (RNG, PYTHONS, legacy, bits, own.rng)]
    frit.estimate(draws)(S(3))
    frit.estimate(own.step)(S((2, 4)))
    frit.estimate(lambda x, g: x + g.random(3))(S(3), own.rng)
    got = numbers()
    np.random.seed(7)
    random.seed(8)
    assert got == (states[0].random(), states[1].random(), states[2].rand(), np.random.rand(), random.random(), states[3].random_raw(),
                   states[4].random())


def test_tensors_are_as_before():
    t = frit.asarray(np.ones(100))

    def writes(t):
        t += 1
        return t.sum()
    assert not frit.estimate(writes)(t).stopped
    assert frit.estimate(writes)(t).argument_bytes == 800
    assert t.device == "cpu" and float(t.sum()) == 100 and float(frit.asarray(t).max()) == 1


@pytest.mark.parametrize("dtype", [object, "S5", "U3", "M8[s]", "g", ">f8", [("a", "f4")]])
def test_others_dtypes_have_no_arrays_without_data(dtype):
    """There was no size to divide by, and the process ended."""
    with pytest.raises(TypeError, match="are NumPy's: there are none without data"):
        frit.ShapeDtype(3, dtype)


def test_typical_mistakes_are_said():
    assert frit.ShapeDtype(np.int64(3)).shape == frit.ShapeDtype([np.int64(3)]).shape == (3,)
    for shape in (3.0, "f4", (2, 1.5), None):
        with pytest.raises(TypeError, match="a shape is an int or a tuple of ints, not"):
            frit.ShapeDtype(shape)
    for name in ("estimate", "max_batch"):
        with pytest.raises(TypeError, match=f"{name}\\(\\) takes a function, not array"):
            getattr(frit, name)(np.ones(3))
    e = frit.estimate(np.tanh)(frit.ShapeDtype(100_000))
    with pytest.raises(TypeError, match="takes another Estimate, not 3"):
        e.diff(3)
    text = str(frit.estimate(lambda x: x if x.sum() > 0 else -x)(frit.ShapeDtype(100_000)))
    assert "a value is needed, and the array has no data" in text and "unknown=1.0" in text
    assert "800,000" in str(e.diff(e)) and "e+" not in str(e.diff(e))


def test_what_the_function_raises_is_raised_and_all_is_as_before():
    before = frit.stats()["peak_bytes"]

    def f(x):
        x += 1
        raise KeyError("mine")
    x = np.ones(5)
    with pytest.raises(KeyError, match="mine"):
        frit.estimate(f)(x)
    with pytest.raises(ValueError, match="could not be broadcast"):
        frit.estimate(lambda a, b: a + b)(S(3), S(4))
    assert (x == 1).all() and frit.stats()["peak_bytes"] == before
    assert frit.estimate(lambda a: a + 1)(x).peak_bytes == 40


@pytest.mark.parametrize("make", [
    lambda f: f, frit.accelerate, lambda f: functools.partial(f, b=np.ones(8)), lambda f: frit.accelerate(device="cpu")(f)])
def test_functions_of_every_kind(make):
    def f(a, b=2.0):
        return np.exp(a) * b
    assert frit.estimate(make(f))(S(8)).peak_bytes == 64


def test_one_at_a_time():
    def nested(x):
        return frit.estimate(np.sin)(S(3))
    with pytest.raises(RuntimeError, match="one estimate or profile at a time"):
        frit.estimate(nested)(S(3))
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append(
        (n, frit.estimate(lambda a: np.tanh(a) + 1)(S(n)).peak_bytes))) for n in range(100, 120)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(found) == [(n, 8 * n) for n in range(100, 120)]


# ---- values ----

def converges(x):
    n = 0
    while (x * x).sum() > 1 and n < 50:
        x = x * 0.5
        n += 1
    return x


def test_small_values_that_are_there_are_known():
    e = frit.estimate(converges)(np.full(100, 2.0))
    assert not e.stopped and e.syncs["bool"] == 6
    sizes = np.array([3, 4, 5])

    def f(x):
        return [np.ones(int(n)) + x for n in sizes * 2] + [x] * int(np.ceil(sizes.mean()))
    assert len([k for k in frit.estimate(f)(S(1)).kernels]) and not frit.estimate(f)(S(1)).stopped


def test_a_value_that_is_not_known_ends_the_estimate_at_its_line():
    e = frit.estimate(converges)(S(100))
    line = converges.__code__.co_firstlineno + 2
    assert e.stopped.endswith(f"test_estimate.py:{line} in converges") and len(e.kernels) == 1
    large = frit.estimate(converges)(np.full(1_000_000, 2.0))
    assert large.stopped
    assert not frit.estimate(converges, values="all")(np.full(1_000_000, 2.0)).stopped


def test_a_value_that_is_assumed():
    assert frit.estimate(converges, unknown=2.0)(S(100)).kernels[-1].runs + 2 >= 50
    assert sum(k.runs for k in frit.estimate(converges, unknown=0)(S(100)).kernels) == 1
    with pytest.raises(TypeError, match="unknown is a number"):
        frit.estimate(converges, unknown="many")(S(100))
    with pytest.raises(ValueError, match="'small' or 'all'"):
        frit.estimate(converges, values="some")(S(100))


def test_many_random_numbers_are_not_drawn():
    """A mask of dropout took the memory of its numbers, and the time; a TB of them ended the estimate."""
    rng, n = np.random.default_rng(0), 10**11
    state = copy.deepcopy(rng.bit_generator.state)

    def dropout(x):
        return x * (rng.random(x.shape, dtype="f4") < 0.5)
    e = frit.estimate(dropout)(S((n // 10, 10), "f4"))
    assert not e.stopped and e.result_bytes >= 4 * n and e.total_bytes >= 3 * 4 * n
    assert [(h.name, h.calls, h.result_bytes) for h in e.handed] == [("random.random", 1, 4 * n)]
    assert str(rng.bit_generator.state) == str(state)

    def known(x):
        return x[: int(rng.integers(3, 4))] + np.random.rand(3)     # few are
    assert frit.estimate(known)(S(n)).result_bytes == 24

    def order(x):
        rng.shuffle(x)
        return x[rng.permutation(len(x))[:10]]
    assert not frit.estimate(order)(S(n)).stopped


@pytest.mark.parametrize("draw", [
    lambda r: r.random(5), lambda r: r.standard_normal((2, 3), "f4"), lambda r: r.normal([0.0, 1.0], 1.0), lambda r: r.uniform(size=4),
    lambda r: r.integers(3, size=(2, 2)), lambda r: r.integers(0, 9, 7, dtype="u1"), lambda r: r.poisson(2.0, 3), lambda r: r.choice(9, 4),
    lambda r: r.choice(np.ones((5, 2), "f4"), (3,)), lambda r: r.permutation(6), lambda r: r.permutation(np.ones((4, 2))),
    lambda r: r.gamma(np.ones((3, 1)), 2.0), lambda r: r.triangular(0, 1, 2, size=3), lambda r: r.beta(1.0, np.ones(3)),
    lambda r: r.hypergeometric(5, 5, 5, 4), lambda r: r.exponential(scale=np.ones(4)), lambda r: r.normal(loc=1.0, size=(2,))])
def test_what_is_drawn_is_known_by_shapes(draw):
    class Recorded:
        def __getattr__(self, name):
            def call(*args, **kwargs):
                self.got = drawn(name, args, kwargs)
                return getattr(np.random.default_rng(0), name)(*args, **kwargs)
            return call
    r = Recorded()
    want = draw(r)
    assert (r.got.shape, r.got.dtype) == (want.shape, want.dtype)


def test_what_is_assumed_of_one_value_is_not_made_of_all():
    """What was left at the end was filled with the value that is assumed: as much memory as the call would need."""
    large = S(10**12)
    for function in (lambda x: x, lambda x: x * 2, lambda x: x / x.max() if x.max() > 1 else x):
        e = frit.estimate(function, unknown=2.0)(large)
        assert not e.stopped and e.peak_bytes in (0, 8 * 10**12)


@pytest.mark.parametrize("look", [float, bool, int, complex, np.asarray, lambda x: x.tolist(), lambda x: x.item(), memoryview,
                                  lambda x: x.tobytes(), lambda x: 1 if x > 0 else 2, lambda x: [1][x.astype(int)],
                                  lambda x: x.to_device("cpu"), lambda x: list(x[None]), lambda x: x.__dlpack__()], ids=str)
def test_whoever_looks_at_what_has_no_data_is_told(look):
    t = frit.zeros((), device="meta") + S(1)._tensor()[0]
    with pytest.raises((frit.NoDataError, BufferError), match="no data"):
        look(t)
    assert str(t) == repr(t) == f"{t:.3f}" == "<frit.Tensor float64 () without data>"


def test_what_is_printed_is_no_reason_to_stop(capsys):
    def f(x):
        losses = []
        for k in range(3):
            x = x * 0.5
            losses.append(x.mean())
            print("epoch", k, losses[-1], f"{np.mean(losses):.4f}", losses)
        return x
    e = frit.estimate(f)(S(1000))
    assert not e.stopped and capsys.readouterr().out.count("without data") == 2 * 3 + 1 + 2 + 3
    assert frit.estimate(lambda x: print(x.sum()))(np.ones(3)).stopped is None and capsys.readouterr().out == "3.0\n"


def test_masks_are_taken_to_choose_all_and_indices_to_be_right():
    def f(x, i):
        y = x[x > 0]
        z = x[i]
        x[i] = 0
        x[x > 1] = 2
        return y.sum(), z, np.nonzero(x)[0]
    e = frit.estimate(f)(S(1000), S(10, "i8"))
    assert not e.stopped and e.peak_bytes >= 8000 + 80 + 8000
    c = compare(f, [np.linspace(-1, 1, 1000), np.arange(10)])
    assert c.is_exact and c.predicted < e.peak_bytes
    with pytest.raises(IndexError):
        frit.estimate(f)(np.ones(5), np.array([7]))


# ---- what NumPy is asked for ----

EXAMPLES = {
    "searchsorted": lambda a: (np.sort(a.ravel()), a), "digitize": lambda a: (a, np.arange(4.0)), "interp": lambda a: (a, np.arange(9.0), np.arange(9.0)),
    "convolve": lambda a: (a[0], a[1][:3]), "correlate": lambda a: (a[0], a[1][:3]), "partition": lambda a: (a, 2), "argpartition": lambda a: (a, 2),
    "quantile": lambda a: (a, [0.1, 0.5]), "percentile": lambda a: (a, 30, 1), "nanquantile": lambda a: (a, 0.5), "nanpercentile": lambda a: (a, [30], 0),
    "linalg.solve": lambda a: (a[:, :4] + np.eye(4), a), "linalg.lstsq": lambda a: (a, np.ones(4)), "linalg.matrix_power": lambda a: (a[:, :4], 3),
    "linalg.cholesky": lambda a: (a[:, :4] @ a[:, :4].T + np.eye(4),), "linalg.svd": lambda a: (a, False), "nan_to_num": lambda a: (a,)}


@pytest.mark.parametrize("name", RULES)
def test_what_numpy_makes_is_known_by_shapes(name):
    function = functools.reduce(getattr, name.split("."), np)
    for dtype in ("f8", "f4"):
        a = np.random.default_rng(1).random((4, 6)).astype(dtype)
        args = EXAMPLES.get(name, lambda a: (a[:, :4],) if name.startswith("linalg") and name[7:] not in ("norm", "qr", "pinv") else (a,))(a)
        got = result_of(function, tuple(Shape(x.shape, x.dtype) if isinstance(x, np.ndarray) else x for x in args), {})
        want = function(*args)
        got, want = (x if type(x) is tuple or not hasattr(x, "shape") else (x,) for x in (got, want))
        assert len(got) == len(want)
        for g, w in zip(got, want):
            w = np.asarray(w)
            assert g.dtype == w.dtype, name
            assert g.shape == w.shape or (g.most and all(m >= n for m, n in zip(g.shape, w.shape))), name


@pytest.mark.parametrize("args", [((8, 3), (-2, -1)), ((8, -1), (1, 0)), ((5,), (0,)), (None, (0,))])
def test_lengths_of_transforms_over_several_axes(args):
    a = np.ones((4, 6))
    want = np.fft.fftn(a, *args)
    assert result_of(np.fft.fftn, (Shape(a.shape, a.dtype), *args), {}) == Shape(want.shape, want.dtype)


def test_calls_of_numpy_are_listed():
    e = frit.estimate(lambda x: np.sort(x, axis=0)[::2] + 1)(S((100, 100)))
    assert [(h.name, h.calls, h.result_bytes) for h in e.handed] == [("sort", 1, 80_000)] and e.fallbacks == {"sort": 1}
    assert e.total_bytes == 80_000 + 80_000 + 40_000
    e = frit.estimate(lambda x: np.apply_along_axis(sum, 0, x))(S((100, 100)))
    assert "handed to NumPy" in e.stopped or "data" in e.stopped
    assert not frit.estimate(lambda x: np.linalg.solve(x, np.ones(3)).sum())(np.eye(3)).stopped


# ---- how large it may be ----

def layer(x, w):
    return np.tanh(x @ w).sum(axis=1)


@pytest.mark.parametrize("memory, axis", [("20 MB", 0), ("1 GiB", 0), (3_000_000, 0), ("16 GB", -2)])
def test_max_batch_is_the_largest_that_fits(memory, axis):
    w = S((128, 256), "f4")
    n = frit.max_batch(layer, axis, memory)(S((32, 128), "f4"), w)
    most = frit._limits.bytes_of(memory)
    assert frit.estimate(layer)(S((n, 128), "f4"), w).total_bytes <= most < frit.estimate(layer)(S((n + 1, 128), "f4"), w).total_bytes


def test_max_batch_says_what_is_wrong():
    with pytest.raises(MemoryError, match="one element along axis 0 needs"):
        frit.max_batch(layer, memory=1000)(S((32, 128)), S((128, 256)))
    with pytest.raises(ValueError, match="no array with an axis 2"):
        frit.max_batch(layer, 2)(S((32, 128)), S((128, 256)))
    with pytest.raises(ValueError, match="does not grow"):
        frit.max_batch(lambda x: 1.0)(S((3, 0)))
    with pytest.raises(ValueError, match="no data"):
        frit.max_batch(converges, memory="1 GB")(S(100))
    with pytest.raises(ValueError, match="16 GB"):
        frit.max_batch(layer, memory="much")(S((32, 128)), S((128, 256)))


def test_what_does_not_fit_is_said_with_what_does():
    e = frit.estimate(layer)(S((1 << 30, 128)), S((128, 256)))
    n = frit.max_batch(layer, memory="8 GB")(S((1 << 30, 128)), S((128, 256)))
    with pytest.raises(MemoryError, match=f"there are 8 GB: {n:,} elements along axis 0 of \\(1073741824, 128\\) would fit"):
        e.check("8 GB")
    with pytest.raises(MemoryError):
        e.check()
    frit.estimate(layer)(S((10, 128)), S((128, 256))).check()
    with pytest.raises(ValueError, match="too big"):
        S((1 << 40, 1 << 40))


def test_two_estimates_are_a_gate():
    small, large = (frit.estimate(layer)(S((n, 128)), S((128, 256))) for n in (100, 200))
    d = large.diff(small)
    assert ("peak_bytes", small.peak_bytes, large.peak_bytes) in d.rows and "2.000" in str(d)
    small.diff(large).check(peak_bytes=0, ops=0)
    large.diff(small).check(peak_bytes=1.01)
    with pytest.raises(AssertionError, match="ops from"):
        d.check(ops=0.5)
    with pytest.raises(ValueError, match="check\\(\\) knows"):
        d.check(speed=1)


# ---- python -m frit.estimate ----

def test_a_script_is_estimated(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nimport numpy as np\nw = np.ones(5)\ndef step(w, n):\n    return np.sin(w) * n\n"
                      "for i in range(int(sys.argv[1])):\n    w = w.sum() + step(np.ones(100_000), i)\nif w.sum() > 1:\n    print('more')\n")

    def run(*args):
        return subprocess.run([sys.executable, "-m", "frit.estimate", *map(str, args)], capture_output=True, text=True)
    first = run("--json", tmp_path / "e.json", script, 3)
    assert first.returncode == 0 and "ends early" in first.stdout and "script.py:8" in first.stdout and not first.stderr
    same = run("--against", tmp_path / "e.json", script, 3)
    assert same.returncode == 0 and "1.000" in same.stdout
    more = run("--unknown", 1, "--against", tmp_path / "e.json", script, 4)
    assert more.returncode == 1 and "takes more than before" in more.stderr and "more" in more.stdout
    assert run("--memory", "1kB", script, 3).returncode == 1
    (tmp_path / "bad.json").write_text("{}")
    bad = run("--against", tmp_path / "bad.json", script, 3)
    assert bad.returncode == 1 and "it is no estimate" in bad.stderr and "Traceback" not in bad.stderr
    assert run().returncode == 2 and run(tmp_path / "none.py").returncode != 0
    import frit.estimate
    assert frit.estimate is sys.modules["frit.estimate"] and callable(frit.estimate)
