"""An accelerated function is a function: to whoever looks at it, to picklers, and when something is assigned to it or to
what it calls."""
import asyncio
import doctest
import functools
import inspect
import os
import pickle
import pydoc
import subprocess
import sys
import tempfile
import textwrap
import types
import typing
from unittest import mock

import numpy as np
import pytest

import frit

from .common import assert_same

X = np.linspace(-1, 1, 50)


def plain(x: "np.ndarray", /, k: float = 2.0, *rest, flag: bool = False, **more) -> "np.ndarray":
    """Doubles.

    >>> plain(np.ones(2)).tolist()
    [2.0, 2.0]
    """
    return x * k


def outer():
    c = 3.0

    def inner(x):
        return x * c + 1
    return inner


async def coroutine(x):
    return x + 1


def generator(x, n=2):
    yield x * n


async def async_generator(x):
    yield x - 1


@types.coroutine
def of_types(x):
    yield x


class Model:
    def method(self, x, *, k=1.0):
        return x - k


FUNCTIONS = {f.__qualname__: f for f in (plain, outer(), coroutine, generator, async_generator, of_types, Model.method,
                                         lambda x, y=1: x + y)}
LOOKS = {q.__name__: q for q in (
    inspect.isfunction, inspect.isroutine, inspect.ismethod, inspect.isbuiltin, inspect.isclass, inspect.ismethoddescriptor,
    inspect.isdatadescriptor, inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction,
    inspect.isawaitable, inspect.isabstract, inspect.signature, inspect.getfullargspec, inspect.getsource,
    inspect.getsourcelines, inspect.getfile, inspect.getmodule, inspect.getdoc, inspect.getclosurevars,
    inspect.get_annotations, asyncio.iscoroutinefunction, typing.get_type_hints, pydoc.describe, callable)}
LOOKS["help"] = lambda f: pydoc.plain(pydoc.render_doc(f))
LOOKS["is a function"] = lambda f: isinstance(f, types.FunctionType)
LOOKS["class"] = lambda f: f.__class__
ATTRIBUTES = ("__code__ __defaults__ __kwdefaults__ __globals__ __closure__ __builtins__ __annotations__ __type_params__ "
              "__name__ __qualname__ __module__ __doc__").split()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whoever_looks_at_it_sees_the_function(name):
    f = FUNCTIONS[name]
    fast = frit.accelerate(f)
    for what, look in LOOKS.items():
        assert look(fast) == look(f), what
    for a in ATTRIBUTES:
        assert getattr(fast, a, None) == getattr(f, a, None), a
    assert set(dir(fast)) - set(dir(f)) == {"stats", "__wrapped__"} and fast.__wrapped__ is f
    assert not hasattr(fast, "__nothing__") and type(type(fast).__module__) is str
    on_top = functools.wraps(fast)(lambda *args: fast(*args))
    assert inspect.signature(on_top) == inspect.signature(f) and on_top.__name__ == f.__name__


def test_what_runs_later_runs_as_it_is():
    x = np.ones(3)

    async def both():
        return await frit.accelerate(coroutine)(x), [v async for v in frit.accelerate(async_generator)(x)]
    (a, (b,)), (c,), (d,) = asyncio.run(both()), frit.accelerate(generator)(x), frit.accelerate(of_types)(x)
    assert (a.tolist(), b.tolist(), c.tolist(), d.tolist()) == ([2] * 3, [0] * 3, [2] * 3, [1] * 3) and d is x


def test_mocks_and_doctests():
    fast = frit.accelerate(plain)
    spec = mock.create_autospec(fast)
    assert type(spec) is type(mock.create_autospec(plain))
    with pytest.raises(TypeError, match="missing"):
        spec()
    spec(X, k=3)
    spec.assert_called_once_with(X, k=3)
    assert asyncio.iscoroutinefunction(mock.create_autospec(frit.accelerate(coroutine)))

    class Fast:
        method = frit.accelerate(Model.method)
    mock.create_autospec(Fast)().method(X, k=2)
    with pytest.raises(TypeError, match="too many"):
        mock.create_autospec(Fast)().method(X, 2)
    tests = doctest.DocTestFinder().find(fast, "plain", globs={"plain": fast, "np": np})
    assert [doctest.DocTestRunner().run(t) for t in tests] == [(0, 1)]
    with mock.patch.object(Model, "method", fast):
        assert Model.method is fast


def test_names_and_attributes_are_its_own():
    def f(x):
        return x
    f.note = 1
    fast = frit.accelerate(f)
    fast.__name__, fast.__qualname__, fast.__doc__, fast.__module__ = "g", "a.g", "Other.", "m"
    fast.note, fast.more = 2, 3
    assert (f.__name__, f.__doc__, f.__module__, vars(f)) == ("f", None, __name__, {"note": 1})
    assert (fast.__name__, fast.__qualname__, fast.__doc__, fast.__module__) == ("g", "a.g", "Other.", "m")
    assert "a.g" in repr(fast) and fast.note == 2 and fast.more == 3
    del fast.__name__, fast.note
    assert fast.__name__ == "f" and not hasattr(fast, "note")
    for name, value in (("__name__", 3), ("__qualname__", b"f"), ("__code__", f), ("__defaults__", 3), ("__kwdefaults__", ())):
        for g in (f, fast):
            with pytest.raises(TypeError, match="must be set to a"):
                setattr(g, name, value)
    for name in ("__globals__", "__closure__", "__builtins__"):
        for g in (f, fast):
            with pytest.raises((AttributeError, TypeError), match="readonly|not writable"):
                setattr(g, name, {})
    del fast.__wrapped__
    assert inspect.signature(fast) == inspect.signature(f)


def test_what_is_no_function_stays_what_it_is():
    class Callable:
        """Calls."""

        def __call__(self, x):
            return np.add(x, x)
    c, s = frit.accelerate(Callable()), frit.accelerate(np.negative)
    assert c(X).tolist() == (X + X).tolist() and s(X).tolist() == (-X).tolist() and s.__name__ == "negative"
    for f in (c, s):
        assert not inspect.isfunction(f) and not hasattr(f, "__code__") and f.__class__ is type(f)
    with pytest.raises((AttributeError, pickle.PicklingError), match="local object"):
        pickle.dumps(c)
    assert c.__doc__ == "Calls." and not hasattr(c, "__name__") and pickle.loads(pickle.dumps(s))(X).tolist() == (-X).tolist()


# ---- what is assigned later

SOURCE = """
def helper(x, a=1.0, *, k=2.0):
    return np.add(x, a) * k

def f(x, y=1.0, *, z=3.0):
    return helper(x) * z + y

def g(xp, x):
    return xp.subtract(x, 1.0)

def h(x):
    return g(np, x) * 2

def other(x, a=5.0, *, k=0.5):
    return np.subtract(x, a) * k

def another(x, y=1.0, *, z=3.0):
    return helper(x, k=z) - y

def outside(xp, x):
    return xp.multiply(x, 3.0)

def later(x, y=1.0, *, z=3.0):
    yield x
"""
ASSIGNED = [line.strip() for line in """
    helper.__defaults__ = (2.0,)
    helper.__kwdefaults__ = {"k": 5.0}
    helper.__kwdefaults__["k"] = 7.0
    helper.__code__ = other.__code__
    helper.__defaults__, helper.__code__ = (0.5,), other.__code__
    f.__defaults__ = (9.0,)
    f.__kwdefaults__ = {"z": 9.0}
    f.__kwdefaults__["z"] = -1.0
    f.__code__ = another.__code__
    f.__defaults__ = np.arange(3.0),
    f.__defaults__ = None
    f.__kwdefaults__ = None
    del f.__defaults__
    del helper.__kwdefaults__
    g.__code__ = outside.__code__
    helper.__code__ = g.__code__
    f.__code__ = later.__code__
    """.strip().splitlines()]


def same_call(fast, slow, x):
    """A call of either gives the same, or raises the same."""
    try:
        want = slow(x)
    except (TypeError, AttributeError) as e:
        with pytest.raises(type(e)):
            fast(x)
        return
    got = fast(x)
    if isinstance(want, types.GeneratorType):
        assert inspect.isgenerator(got)
        want, got = next(want), next(got)
    assert_same(got, want)


@pytest.mark.core
@pytest.mark.parametrize("through", ["the function", "the wrapper"])
@pytest.mark.parametrize("statement", ASSIGNED)
def test_what_is_assigned_to_functions_later(statement, through):
    x, ours, theirs = np.array([1.0, -2.0, 4.0]), {"np": np}, {"np": np}
    for names in (ours, theirs):
        exec(SOURCE, names)
    names = "helper", "f", "g", "h"
    fast = {name: frit.accelerate(ours[name]) for name in names}
    if through == "the wrapper":
        ours.update(fast)
    for _ in range(2):
        for _ in range(50):
            for name in "f", "h":
                same_call(fast[name], theirs[name], x)
        was = [fast[name]._state.rewritten for name in "fh"]
        for name in "f", "h":
            same_call(fast[name], theirs[name], x)
        assert was == [fast[name]._state.rewritten for name in "fh"]
        exec(statement, ours)
        exec(statement, theirs)


def test_what_is_assigned_to_again_and_again():
    names, want = {"np": np}, {"np": np}
    for n in names, want:
        exec(SOURCE, n)
    f = frit.accelerate(names["f"])
    for k in range(120):
        for n in names, want:
            n["helper"].__kwdefaults__ = {"k": float(k)}
        assert_same(f(X), want["f"](X))


@pytest.mark.planned
def test_what_was_assigned_to_runs_as_one_kernel_again():
    names = {"np": np}
    exec(SOURCE.replace("np.add(x, a)", "np.tanh(x)"), names)
    f, helper = frit.accelerate(names["f"]), names["helper"]
    for k in 2.0, 3.0, 4.0:
        helper.__kwdefaults__ = {"k": k}
        for _ in range(5):
            f(X)
            assert (f.stats.kernels, f.stats.fallbacks, f.stats.syncs) == (1, 0, 0)


# ---- reloading

def update(old, new):
    """What IPython's autoreload does to an object of a module that was loaded again."""
    if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
        for name in "__code__ __defaults__ __doc__ __closure__ __globals__ __dict__".split():
            try:
                setattr(old, name, getattr(new, name))
            except (AttributeError, TypeError):
                pass
    elif isinstance(old, type) and isinstance(new, type):
        for name in vars(old):
            if isinstance(getattr(old, name), types.FunctionType):
                update(getattr(old, name), getattr(new, name))


MODULE = """
def helper(x): return np.{0}(x, {1})
@{2}
def f(x, k={1}):
    "Of {1}."
    return helper(x) * k + {1}
class Model:
    @{2}
    def method(self, x): return helper(x) - {1}
    @staticmethod
    @{2}
    def static(x): return np.{0}(x, {1} + 1)
@{2}
def lazy(x):
    yield x * {1}
"""


@pytest.mark.core
@pytest.mark.parametrize("decorators", ["ooo", "o-o", "oo-o", "-oo"])
def test_reloading_a_module(decorators):
    names = {"np": np, "frit": frit, "same": lambda f: f, "__name__": "reloaded"}
    first = None
    for i, d in enumerate(decorators):
        code = MODULE.format(("add", "multiply")[i % 2], i + 2.0, "frit.accelerate" if d == "o" else "same")
        exec(code, names)
        want = {"np": np, "same": lambda f: f}
        exec(code.replace("frit.accelerate", "same"), want)
        if first is None:
            first = {name: names[name] for name in ("f", "Model", "lazy")}
            model = first["Model"]()
        else:
            for name in first:
                update(first[name], names[name])
        assert type(first["f"]) is (types.FunctionType if decorators[0] == "-" else type(frit.accelerate(plain)))
        for _ in range(12):
            assert_same(first["f"](X), want["f"](X))
            assert_same(model.method(X), want["Model"]().method(X))
            assert_same(model.static(X), want["Model"].static(X))
            assert_same(next(first["lazy"](X)), next(want["lazy"](X)))
        f = first["f"]
        assert (f.__name__, f.__qualname__, f.__module__, f.__doc__) == ("f", "f", "reloaded", want["f"].__doc__)


# ---- pickles

@frit.accelerate
def by_name(x, *, k=2.0):
    return helper_of_by_name(x) * k


def helper_of_by_name(x):
    return np.add(x, 1.0)


@frit.accelerate
def recursive(x, n=3):
    return x if n == 0 else np.multiply(recursive(x, n - 1), 2.0)


class Holder:
    @frit.accelerate
    def method(self, x):
        return np.add(x, 3.0)

    @staticmethod
    @frit.accelerate
    def static(x):
        return np.add(x, 4.0)


ACCELERATED_LATER = frit.accelerate(helper_of_by_name)


def closure(c=2.0):
    @frit.accelerate
    def f(x):
        return x * c + helper_of_by_name(x)
    f.note = "own"
    return f


def recursive_closure():
    @frit.accelerate
    def f(x, n=3):
        return x if n == 0 else np.add(f(x, n - 1), 2.0)
    return f


NAMED = {"function": by_name, "recursive": recursive, "method": Holder.method, "static": Holder.static}
ANY = {**NAMED, "accelerated later": ACCELERATED_LATER, "closure": closure(), "recursive closure": recursive_closure(),
       "lambda": frit.accelerate(lambda x: x - 1), "renamed": frit.accelerate(plain)}
ANY["renamed"].__name__ = ANY["renamed"].__qualname__ = "other"


def arguments_of(f):
    return (Holder(), X) if f is Holder.method else (X,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_by_name(protocol):
    for f in NAMED.values():
        assert pickle.loads(pickle.dumps(f, protocol)) is f
        assert pickle.loads(pickle._dumps(f, protocol)) is f
    method = pickle.loads(pickle.dumps(Holder().method, protocol))
    assert_same(method(X), X + 3)
    later = pickle.loads(pickle.dumps(ACCELERATED_LATER, protocol))
    assert type(later) is type(by_name) and later.__wrapped__ is helper_of_by_name
    later = pickle.loads(pickle.dumps(functools.partial(by_name, k=3.0), protocol))
    assert later.func is by_name and later.keywords == {"k": 3.0}
    for name in "closure", "lambda":
        with pytest.raises((AttributeError, pickle.PicklingError), match="local|lambda"):
            pickle.dumps(ANY[name], protocol)


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize("name", ANY)
def test_taken_apart_by_cloudpickle(name, by_value):
    cloudpickle = pytest.importorskip("cloudpickle")
    f, module = ANY[name], sys.modules[__name__]
    if by_value:
        cloudpickle.register_pickle_by_value(module)
    try:
        text = cloudpickle.dumps(f)
    finally:
        if by_value:
            cloudpickle.unregister_pickle_by_value(module)
    new = pickle.loads(text)
    assert (new is f) == (name in NAMED and not by_value) and type(new) is type(f)
    assert (new.__name__, new.__qualname__, new.__module__) == (f.__name__, f.__qualname__, __name__)
    assert getattr(new, "note", None) == getattr(f, "note", None) and inspect.signature(new) == inspect.signature(f)
    assert new.__wrapped__.__qualname__ == f.__wrapped__.__qualname__
    for _ in range(12):
        assert_same(new(*arguments_of(f)), f.__wrapped__(*arguments_of(f)))
    assert new.stats.calls >= 12
    if new.__wrapped__ is not f.__wrapped__:
        new.__defaults__, was = (0,), f.__defaults__
        assert f.__defaults__ == was


PROCESSES = """
    import multiprocessing, pickle, sys
    from concurrent.futures import ProcessPoolExecutor
    import numpy as np, frit

    def helper(x):
        return np.add(x, 1.0)

    @frit.accelerate
    def f(x, k=2.0):
        return helper(x) * k

    class Model:
        @frit.accelerate
        def method(self, x):
            return helper(x) * 3

    def make(c):
        return frit.accelerate(lambda x: helper(x) * c)

    def kind(f, x):
        return type(f).__name__, f(x).tolist(), f.stats.calls

    if __name__ == "__main__":
        x = np.ones(3)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            print(pool.submit(kind, f, x).result(), pool.submit(Model().method, x).result().tolist(), file=sys.stderr)
        import cloudpickle
        cloudpickle.dump(([(kind, g, x) for g in (f, make(4.0))], Model().method), sys.stdout.buffer)
"""
WORKER = """
import pickle, sys
calls, method = pickle.load(sys.stdin.buffer)
print(*(kind(g, x) for kind, g, x in calls), method(calls[0][2]).tolist(), hasattr(sys.modules["__main__"], "f"))
"""


def test_other_processes():
    """Functions of a script, whose __main__ a spawned process imports, and a worker that is another program does not."""
    pytest.importorskip("cloudpickle")
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(textwrap.dedent(PROCESSES))
        script.flush()
        run = functools.partial(subprocess.run, capture_output=True, timeout=60, check=True,
                                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "FRIT_CACHE": "0"})
        done = run([sys.executable, script.name])
        assert done.stderr.decode() == "('Accelerated', [4.0, 4.0, 4.0], 1) [6.0, 6.0, 6.0]\n"
        done = run([sys.executable, "-c", WORKER], input=done.stdout)
        assert done.stdout.decode() == ("('Accelerated', [4.0, 4.0, 4.0], 1) ('Accelerated', [8.0, 8.0, 8.0], 1) "
                                        "[6.0, 6.0, 6.0] False\n")
