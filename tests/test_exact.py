"""Functions of exact operations run as they are, on NumPy, where they are loops over elements: which are exact, when they do,
and that the bits stay."""
import os
import types

import numpy as np
import pytest

import frit
from frit._exact import exact

from .common import assert_same

RNG = np.random.default_rng(5)
may_be_numpys = pytest.mark.skipif(os.environ.get("FRIT_JIT") == "always", reason="what waits for machine code is always traced")


@pytest.fixture(autouse=True)
def small_graphs_wait():
    with frit.config(eager_elems=131072):
        yield


def relaxed(a):
    """Element by element, each from the one before."""
    n = a.shape[0]
    for i in range(1, n - 1):
        a[i, 1:-1] += a[i - 1, :-2] + a[i + 1, 2:]
        for j in range(1, n - 1):
            a[i, j] += a[i, j - 1]
            a[i, j] /= 9.0


def longest(s):
    """Looks at each value before it goes on, and calls what no loop calls without Python."""
    t = np.zeros((len(s), len(s)), np.int32)
    for i in range(len(s) - 1, -1, -1):
        for j in range(i + 1, len(s)):
            t[i, j] = max(t[i, j - 1], t[i + 1, j] if i + 1 < len(s) else 0, t[i, j], key=int)
            if s[i] + s[j] == 3:
                t[i, j] += 1
    return t


def damped(a):
    for i in range(1, a.shape[0]):
        a[i, 0] = np.exp(-a[i - 1, 0]) + a[i, 0]
    return a


def runs(f, *args, calls=40):
    """The accelerated function after so many calls, each of which gave what NumPy does."""
    fast = frit.accelerate(f)
    for _ in range(calls):
        a, b = [x.copy() for x in args], [x.copy() for x in args]
        want, got = f(*a), fast(*b)
        if want is not None:
            assert_same(got, want)
        for x, y in zip(a, b):
            assert_same(y, x)
    return fast


@may_be_numpys
@pytest.mark.parametrize("f, arg, n_traced", [(relaxed, RNG.random((30, 30)), 0), (longest, RNG.integers(0, 4, 12), 1),
                                              (relaxed, RNG.random((30, 30)).astype("f4"), 0)])
def test_loops_over_elements_are_numpys_from_the_first_or_second_call_on(f, arg, n_traced):
    stats = runs(f, arg).stats
    assert stats.calls == 40 and stats.unchanged == 40 - n_traced


@may_be_numpys
def test_those_with_more_elements_are_looked_at_anew():
    fast = runs(longest, RNG.integers(0, 4, 12), calls=4)
    for n, unchanged in (12, 4), (8, 5), (13, 5), (13, 6), (10, 7):
        fast(RNG.integers(0, 4, n))
        assert fast.stats.unchanged == unchanged


@may_be_numpys
@pytest.mark.parametrize("f", [
    lambda a: np.maximum(a, 0.5) + np.minimum(a, 0.25) * a,                                     # will be replayed
    lambda a: a if np.maximum(a, 0.5)[0] < 0.1 else np.maximum(a, 0.5) + np.minimum(a, 0.25) * a])     # of many elements
def test_others_never_are(f):
    assert runs(f, np.linspace(0, 1, 1000)).stats.unchanged == 0


def never(f, *args):
    fast = frit.accelerate(f)
    for _ in range(20):
        fast(*[x.copy() for x in args])
    assert fast.stats.unchanged == 0


@may_be_numpys
def test_what_rounds_more_than_once_has_frits_bits_in_plain_calls():
    """They call frit's functions, and not NumPy's."""
    given = RNG.random((12, 2))
    with frit.config(eager_elems=0):
        expected = frit.accelerate(damped)(given.copy()).tobytes()
    fast = frit.accelerate(damped)
    assert {fast(given.copy()).tobytes() for _ in range(40)} == {expected} and fast.stats.unchanged > 0


def test_complex_numbers_never_do():
    never(relaxed, RNG.random((30, 30)) + 1j)


def test_nothing_does_where_plans_are_made_at_once():
    with frit.config(eager_elems=0):
        never(relaxed, RNG.random((30, 30)))


@may_be_numpys
def test_an_exception_is_the_functions_own():
    def f(a, fails):
        for i in range(1, a.shape[0]):
            if a[i] > a[i - 1]:
                a[i] += a[i - 1]
            if fails and i == 5:
                raise KeyError("five")

    fast = frit.accelerate(f)
    for k in range(30):
        a, b = np.arange(10.0), np.arange(10.0)
        for g, x in ((f, a), (fast, b)):
            with pytest.raises(KeyError, match="five"):
                g(x, True)
        assert_same(b, a)
    assert fast.stats.calls == 30 and fast.stats.unchanged >= 20


ONE, Z, TABLE, logarithm, sum_of = 1.0, 1j, {"e": np.exp}, np.log, (lambda a: a).__call__


class ThirdPower:
    def __call__(self, a):
        return a ** 3

    sum = __call__


THIRD = ThirdPower()


def imported(a):
    from numpy import exp
    return exp(a)


def root_of_two(a):
    try:
        return [np.sqrt(x) for x in a if x == 2]
    finally:
        a[0] = 0


def helper(a):
    return a * a


def root_of_e(a):
    return np.exp(a)


OTHER = types.ModuleType("other")
exec("""
import numpy as np
def rounded(xp, a): return xp.exp(a)
def scaled(xp, a, by=2): return xp.add(a, 1) * by
def deeper(xp, a): return rounded(xp, a)
def cubed(xp, a, n=3): return a ** n
def of_its_own(xp, a): return np.exp(a)
def by_a_constant(xp, a, z=1j): return xp.add(a, z)
""", vars(OTHER))
globals().update({name: f for name, f in vars(OTHER).items() if type(f) is types.FunctionType})


@may_be_numpys
@pytest.mark.parametrize("f", [
    lambda a: rounded(np, a) + 1, lambda a, xp=np: rounded(xp, a) + 1, lambda a: deeper(np, a), lambda a: cubed(np, a),
    lambda a: of_its_own(np, a), lambda a: by_a_constant(np, a)])
def test_functions_of_other_modules_that_are_handed_numpy_are_looked_at(f):
    """They run as they are, with what stands for NumPy: of ours or NumPy's, by the way that the call takes."""
    fast = frit.accelerate(f)
    a = RNG.random(500) * 20
    first = fast(a)
    assert not exact(fast._state.rewritten)
    for _ in range(20):
        np.testing.assert_array_equal(fast(a), first)


def test_which_functions_are_exact():
    def is_exact(f):
        return exact(frit.accelerate(f)._state.rewritten)

    for f in (relaxed, longest, lambda a: a @ a + np.dot(a, a), lambda a: np.sqrt(a) * 2, lambda a: helper(a) + ONE,
              lambda a: scaled(np, a), lambda a: scaled(np, a, ONE),
              lambda a: [np.sum(a[i]) for i in range(3)], lambda a: np.zeros(3, dtype="f4") + a.mean(0),
              lambda a: a.astype(np.float32).reshape(-1)[::2], lambda a: np.linalg.solve(a, a[0]) + np.interp(a[0], a[1], a[1]),
              lambda a: np.add.at(a, 1, np.bincount(a.argsort())), root_of_two,
              lambda a: np.packbits(np.take_along_axis(a, a.argsort(), 0)), lambda a: np.cross(a, np.ediff1d(a))):
        assert is_exact(f), f
    e = np.exp
    for f in (damped, lambda a: a ** 2, lambda a: a ** 3, lambda a, n: a ** n, lambda a: np.max(a), lambda a: a.max(), lambda a: a * 1j,
              lambda a: a * Z, lambda a: root_of_e(a), lambda a: e(a), lambda a: a.astype(complex),
              lambda a: np.zeros(3, dtype="c16") * a, lambda a: np.zeros(3, np.complex64), lambda a, f=np.exp: f(a),
              lambda a: (lambda x: np.sin(x))(a), lambda a: TABLE["e"](a), lambda a: getattr(np, "exp")(a), lambda a: pow(a, 3),
              lambda a: logarithm(a), lambda a: ThirdPower()(a), lambda a: THIRD.sum(a), lambda a: imported(a), lambda a: sum_of(a), lambda a: np.power(a, 2), lambda a: np.linalg.norm(a)):
        assert not is_exact(f), f


def squared(a):
    for i in range(a.shape[0]):
        a[i] = a[i] ** 2


def square_of_one(a):
    return a[0] ** 2


@may_be_numpys
@pytest.mark.parametrize("f", [squared, square_of_one])
def test_squares_of_elements_are_the_same_in_every_call(f):
    """NumPy's own, of a number, is C's pow, which differs from the product about once in a thousand times."""
    a = RNG.random(3000)
    a = np.array([x for x in a if x ** 2 != x * x][:1] + list(a[:99]))
    fast, b = frit.accelerate(f), a.copy()
    first = fast(b)
    for _ in range(100):
        c = a.copy()
        assert fast(c) == first
        assert_same(c, b)


def distance(a, b, costs):
    """Levenshtein's."""
    d = np.zeros((len(a) + 1, len(b) + 1), int)
    d[:, 0], d[0] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + costs["gap"], d[i, j - 1] + costs["gap"],
                          d[i - 1, j - 1] + (a[i - 1] != b[j - 1]) * costs["other"])
    return d


@may_be_numpys
def test_so_are_those_over_lists_and_dicts_and_named_arguments():
    fast, given = frit.accelerate(distance), (list("sitting there"), list("kitten"))
    for _ in range(40):
        assert_same(fast(*given, costs={"gap": 1, "other": 1}), distance(*given, {"gap": 1, "other": 1}))
    assert fast.stats.calls == 40 and fast.stats.unchanged == 39
