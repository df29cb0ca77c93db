"""Warnings of arithmetic are NumPy's: category, text and line, under the same filters and numpy.errstate, wherever the
values are computed."""
import contextvars
import sys
import threading
import warnings

import numpy as np
import pytest

import frit

from .programs import COMPILED

pytestmark = pytest.mark.core

Z = np.array([1.0, 0.0, -1.0, 2.0])
N = np.array([0.0, 0.0, 1.0, np.nan])
HUGE = np.array([1e200, 1e308])
I, J = np.array([1, 2, 3, 4]), np.array([0, 1, 0, 2])
C = np.array([1 + 2j, 3j])
NONE = np.zeros((0, 3))
PROGRAMS = []


def program(*args):
    def add(f):
        PROGRAMS.append(pytest.param(f, args, id=f.__name__))
        return f
    return add


def heard(f, args, filter):
    """What a call says and comes to. Of a line inside NumPy, only that it is one: frit says the user's."""
    for m in (np._core._methods, np._core.fromnumeric, np.lib._nanfunctions_impl, sys.modules[__name__]):
        m.__dict__.pop("__warningregistry__", None)
    warnings.onceregistry.clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter(filter)
        try:
            result = f(*args)
        except (FloatingPointError, Warning) as e:
            result = type(e), str(e)
    return [(w.category, str(w.message), w.lineno if w.filename == __file__ else None) for w in said], result


def same(theirs, ours):
    """Whether two lists of warnings are equal; a line that is NumPy's own may be the user's."""
    return len(theirs) == len(ours) and all(a[:2] == b[:2] and (a[2] is None or a[2] == b[2])
                                            for a, b in zip(theirs, ours))


def check(f, args, filter, accelerated=None):
    mine, g = [np.copy(a) for a in args], accelerated or frit.accelerate(f)
    theirs = [np.copy(a) for a in args]
    want, result = heard(f, theirs, filter)
    got, ours = heard(g, mine, filter)
    assert same(want, got), (want, got)
    if isinstance(result, tuple) and not isinstance(result[0], type):
        for a, b in zip(result, ours):
            np.testing.assert_allclose(b, a, rtol=1e-6)
    elif isinstance(result, (list, tuple)):
        assert result == ours
    elif result is not None:
        np.testing.assert_allclose(ours, result, rtol=1e-6)
    for a, b in zip(theirs, mine):
        np.testing.assert_allclose(b, a, rtol=1e-6)
    return want


@program(Z, N)
def divide(a, b):
    return a / b


@program(Z)
def log(a):
    b = np.log(a)
    return b + 1


@program(Z)
def sqrt(a):
    return np.sqrt(a)


@program(Z * 1000)
def exp(a):
    return np.exp(a)


@program((Z * 1000).astype("f4"))
def exp_f4(a):
    return np.exp(a) * 2


@program((Z * 20).astype("f2"))
def half(a):
    return np.exp(a) / 0


@program(Z.astype("f2"))
def half_log(a):
    return np.log(a), np.sqrt(a)


@program(I, J)
def whole(a, b):
    return a // b


@program(I, J)
def whole_remainder(a, b):
    return a % b


@program(I.astype("u1"), J.astype("u1"))
def whole_bytes(a, b):
    c = a // b
    return c % b


@program(I.astype("i4"), J.astype("i4"))
def whole_fmod(a, b):
    return np.fmod(a, b)


@program(I)
def whole_by_number(a):
    return a // 0


@program(Z, N)
def remainder(a, b):
    return a % b


@program(Z, N)
def floor_divide(a, b):
    return a // b


@program(HUGE)
def multiply(a):
    return a * a


@program(HUGE)
def square(a):
    return a ** 2


@program(HUGE)
def cube(a):
    return a ** 3 + a ** 4


@program(HUGE)
def divided_by_a_power_of_two(a):
    return a / 0.5, a / 0.25


@program(Z)
def root_by_power(a):
    return a ** 0.5


@program(Z)
def power(a):
    return np.power(a, -1.5)


@program(Z)
def arcsin(a):
    return np.arcsin(a * 2)


@program(Z)
def arctanh(a):
    return np.arctanh(a)


@program(Z)
def arccosh(a):
    return np.arccosh(a - 3)


@program(Z - 1)
def log_many(a):
    b = np.log2(a)
    c = np.log10(a)
    return b + c + np.log1p(a - 1)


@program(np.array([np.nan, 1.0, 1e30]))
def cast_whole(a):
    return a.astype("i8")


@program(np.array([np.nan, 1.0, 1e300]))
def cast_short(a):
    return a.astype("f4"), a.astype("f2")


@program(np.array([np.nan, 1.0]), np.zeros(2, "i4"))
def cast_stored(a, b):
    b[:] = a


@program(np.array([1e308, 1e308]))
def total(a):
    return a.sum()


@program(np.array([1.0, -1.0]))
def numbers(a):
    return a.sum() / a.sum()


@program(np.array([1.0, -1.0]))
def elements(a):
    return a[0] / (a[1] + 1)


@program(np.array([1.0, -1.0]))
def python_numbers(a):
    return float(a[0] / (a[1] + 1))


@program(Z)
def loop(a):
    s = 0.0
    for k in range(4):
        s = s + np.log(a[k])
    return s


@program(Z, N)
def in_place(a, b):
    a /= b
    return a


@program(Z, N)
def in_place_all(a, b):
    a -= 1
    a /= b
    np.log(a, out=a)
    return a


@program(Z)
def into_part(a):
    a[1:] = np.log(a[1:])


@program(Z)
def chosen(a):
    return np.where(a > 0, np.log(a), 0)


@program(Z, Z > 0)
def told_where(a, m):
    return np.log(a, where=m, out=np.zeros(4))


@program(Z, Z >= 0)
def told_where_badly(a, m):
    out = np.zeros(4)
    np.log(a, where=m, out=out)
    return out


@program(Z, Z > 0)
def without_out(a, m):
    return np.add(a, 1, where=m)[0]


@program(Z, N)
def ignored(a, b):
    with np.errstate(divide="ignore", invalid="ignore"):
        c = a / b
    return c + np.log(a)


@program(Z, N)
def ignored_later(a, b):
    c = np.log(a)
    with np.errstate(all="ignore"):
        c = c + a / b
    return c


@program(Z, N)
def nested(a, b):
    with np.errstate(all="ignore"):
        c = a / b
        with np.errstate(divide="warn"):
            d = a / b
        e = np.log(a)
    return c + d + e


@program(Z, N)
def raising(a, b):
    c = np.log(a)
    with np.errstate(divide="raise"):
        c = a / b
    return c


@program(Z)
def raising_once_caught(a):
    try:
        with np.errstate(invalid="raise"):
            return np.sqrt(a)
    except FloatingPointError as e:
        b = str(e)
    return [b]


@program(Z)
def raising_in_place(a):
    with np.errstate(divide="raise"):
        a /= 0


@program(Z, N)
def called(a, b):
    found = []
    with np.errstate(all="call", call=lambda text, flag: found.append((text, flag))):
        c = a / b
        np.log(c)
    return found


@program(Z, N)
def logged(a, b):
    found = []

    class Log:
        def write(self, text):
            found.append(text)
    with np.errstate(all="log", call=Log()):
        c = a / b
        np.log(c)
    return found


@program(Z)
def set_for_good(a):
    before = np.seterr(divide="ignore", invalid="raise")
    try:
        b = np.log(a[:2])
        np.sqrt(a)
    except FloatingPointError as e:
        return [str(e), float(b[0])]
    finally:
        np.seterr(**before)


@program(Z)
def underflow(a):
    with np.errstate(under="warn"):
        return np.exp(a * -800) * 1e-300


@program(Z)
def quieter_filter(a):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        b = np.log(a)
    return b + a / 0


@program(Z)
def recorded_inside(a):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        np.log(a)
        n = len(said)
    return [n, *(str(w.message) for w in said)]


@program(NONE)
def mean_of_nothing(a):
    return a.mean(), np.mean(a)


@program(NONE)
def means_of_nothing(a):
    return a.mean(axis=0)


@program(np.ones((1, 2)))
def variance_of_one(a):
    return a.var(axis=0, ddof=1)


@program(np.ones(1))
def deviation_of_one(a):
    return np.std(a, ddof=1)


@program(C)
def imaginary(a):
    return a.astype("f8")


@program(C)
def imaginary_stored(a):
    b = np.zeros(2)
    b[:] = a
    return b


@program(C)
def complex_divide(a):
    return a / 0


@program(Z)
def running(a):
    return np.cumsum(a * 1e308)


@program(np.array([-np.inf, np.inf]))
def infinities(a):
    return a - a


@program(np.ones((3, 3)) * 1e200)
def product(a):
    return a @ a


@program(Z)
def by_a_helper(a):
    return helper(a) * 2


def helper(a):
    return np.log(a)


LEAST = {d: np.full(5, np.iinfo(d).min, d) for d in "bhil"}


def quotients(d):
    least, minus = LEAST[d], np.full(5, -1, d)

    def by_array(a, b):
        return a // b

    def by_minus_one(a, b):
        return a // -1

    def by_zero(a, b):
        return a // 0

    def in_place(a, b):
        a //= -1
        return a

    def remainder(a, b):
        return a % b

    for f in (by_array, by_minus_one, by_zero, in_place, remainder):
        PROGRAMS.append(pytest.param(f, (least, minus), id=f"{f.__name__}_{d}"))


for d in LEAST:
    quotients(d)


F, E = np.ones(3, "f4"), np.ones(3, "f2")


@program(F)
def number_too_large(a):
    return a + 1e300


@program(F)
def integer_too_large(a):
    return a * 10 ** 40


@program(E)
def number_too_large_for_half(a):
    return np.maximum(70000, a)


@program(F)
def compared_with_number_too_large(a):
    return a < -1e39


@program(F)
def infinite_number(a):
    return a + np.inf


@program(F)
def clipped_to_number_too_large(a):
    return np.clip(a, 0, 1e40)


@program(F.astype("c8"))
def complex_number_too_large(a):
    return a + 1e300j

@pytest.mark.parametrize("filter", ["default", "always", "error", "ignore", "once"])
@pytest.mark.parametrize("f, args", PROGRAMS)
def test_programs(f, args, filter):
    check(f, args, filter)
    check(f, args, filter)


def texts(f, *args):
    """What a call warns about, underflow too."""
    with warnings.catch_warnings(record=True) as said, np.errstate(all="warn"):
        warnings.simplefilter("always")
        result = f(*args)
        if isinstance(result, frit.Tensor):
            frit.eval(result)
    return sorted(str(w.message) for w in said)


OPERATIONS = {   # of two numbers, two arrays without axes, and what is between: NumPy's numbers have operators of their own
    "divide": lambda x, y: x / y, "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, "reversed": lambda x, y: 1 / x,
    "divmod": lambda x, y: divmod(x, y)[0] + divmod(x, y)[1], "np.divmod": lambda x, y: np.divmod(x, y)[0], "np.divide": lambda x, y: np.divide(x, y),
    "multiply": lambda x, y: (x + 1e300) * (y + 1e300), "np.multiply": lambda x, y: np.multiply(x + 1e300, y + 1e300),
    "power": lambda x, y: x ** (y - 1), "** 2": lambda x, y: (x + 1e300) ** 2, "** 2.0": lambda x, y: (x + 1e300) ** 2.0, "** 3": lambda x, y: (x + 1e300) ** 3,
    "** -1": lambda x, y: x ** -1, "** 0.5": lambda x, y: (x - 1) ** 0.5, "np.power": lambda x, y: np.power(x, -1), "square": lambda x, y: np.square(x + 1e300),
    "sqrt": lambda x, y: np.sqrt(x - 1), "log": lambda x, y: np.log(x), "mean": lambda x, y: (x - np.inf).mean() + np.mean(np.inf - x),
    "var": lambda x, y: np.var(np.atleast_1d(x + 1e300)), "cast": lambda x, y: (x + 1e300).astype("f4"), "np.sum": lambda x, y: np.sum(x - np.inf) + np.inf}
OPERANDS = {"arrays": (np.zeros(()), np.zeros(())), "array and number": (np.zeros(()), np.float64(0)), "number and array": (np.float64(0), np.zeros(())),
            "numbers": (np.float64(0), np.float64(0)), "axes": (np.array([0.0, 1, 1e300]), np.array([0.0, 1, 1e300])), "both": (np.array([0.0, 1]), np.zeros(()))}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_names_of_operations(operation):
    f = OPERATIONS[operation]
    for kind, (x, y) in list(OPERANDS.items())[::3 if COMPILED else 1]:
        want = texts(f, x, y)
        assert texts(frit.accelerate(f), x, y) == want, kind
        if isinstance(x, np.ndarray):
            assert texts(f, frit.asarray(x), frit.asarray(y) if isinstance(y, np.ndarray) else y) == want, kind


ONE = """sqrt log log2 log10 log1p exp exp2 expm1 sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh cbrt square reciprocal
absolute negative sign floor rint deg2rad rad2deg spacing signbit nan_to_num modf frexp sum max min mean ptp median nansum argmax cumsum diff average""".split()
TWO = "add subtract multiply divide floor_divide remainder fmod power arctan2 hypot maximum fmin logaddexp logaddexp2 copysign less float_power divmod".split()
VALUES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, 0.5, 1e-3, 100.0, -1000.0]


@pytest.mark.parametrize("dtype, ends", [("f8", (1e308, 1e-308, 1e-311)), ("f4", (3e38, 1e-38, 1e-41))])
def test_what_each_function_says(dtype, ends):
    """Of each kind of value; where the result takes the operand's memory, too."""
    values = [np.full(3, v, dtype) for v in (*VALUES, *ends)]
    for name in ONE[::6] if COMPILED else ONE:
        f = getattr(np, name)
        for x in values:
            for g in (lambda x: f(x), lambda x: f(x * 1)):
                assert texts(frit.accelerate(g), x) == texts(g, x), (name, x[0])
    for name in TWO[::6] if COMPILED else TWO:
        f = getattr(np, name)
        for x in values[::2]:
            for y in values[1::2] if name != "hypot" else values[1:-2:2]:
                g = frit.accelerate(lambda x, y: f(x, y))
                # (That a difference of nearly the largest numbers overflows on the way is not ours.)
                assert name.startswith("logaddexp") or texts(g, x, y) == texts(f, x, y), (name, x[0], y[0])


def test_ldexp_into_memory_of_the_operand():
    for n in (3, 5000):
        for f in (lambda x: np.ldexp(x + 1, 2000), lambda x: np.ldexp(x + 1, 2000) * 3, lambda x: np.hypot(x + 1e308, x + 1.7e308), lambda x: np.rad2deg(x + 1e308)):
            assert check(f, (np.ones(n),), "default")


def overlapping(x):
    x[1:] *= x[:-1]


def turned(x):
    x += x[::-1]


def in_place(x):
    x *= 1e300


def through_out(x):
    np.multiply(x, 1e300, out=x)


def assigned(x):
    x[1:3] = x[2:4] * 1e308


@pytest.mark.parametrize("f", [overlapping, turned, in_place, through_out, assigned])
def test_what_is_written_before_it_is_refused(f):
    """The result is, but where NumPy has to compute it apart from what it reads."""
    for n in (6, 3000):
        x = np.arange(n) - 3.0
        x[[1, 2, -2]] = np.inf, 1e308, -np.inf
        theirs, mine, tensor = x.copy(), x.copy(), frit.asarray(x)

        def run(f, x):
            with np.errstate(all="raise"):
                try:
                    f(x)
                except FloatingPointError as e:
                    return str(e)
        want = run(f, theirs)
        assert run(frit.accelerate(f), mine) == want == run(f, tensor)
        np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(np.asarray(tensor), theirs)


def test_numbers_that_are_too_large_for_nothing():
    def f(x):
        x -= 1e300
        return x
    for n in (0, 2):
        assert texts(frit.accelerate(f), np.ones(n, "f4")) == texts(f, np.ones(n, "f4")) == ["overflow encountered in cast"]


CONVERSIONS = {
    "dtype": lambda x: np.add(x, 1, dtype="f4", casting="same_kind"), "spread": lambda x: np.add(x[:, None], x[None, :1], dtype="f4"), "out": lambda x: np.multiply(x, 1, out=np.zeros(x.shape, "f4"), casting="same_kind"),
    "sum": lambda x: np.sum(x.reshape(2, -1), axis=0, dtype="f4"), "cumsum": lambda x: np.cumsum(x, dtype="f4"), "in place": lambda x: np.zeros(x.shape, "f4").__iadd__(x),
    "mean": lambda x: np.mean(x.reshape(2, -1), axis=0, dtype="f4"), "store": lambda x: [y := np.zeros(x.shape, "f4"), y.__setitem__(slice(None), x)][0],
    "subtract": lambda x: np.subtract(x[::-1], x.T, out=np.zeros(x.shape, "f4")), "power": lambda x: np.ones(x.shape, "f4").__ipow__(x),
    "square": lambda x: np.full(x.shape, np.float32(1e30)).__ipow__(np.float64(2)), "sqrt": lambda x: np.sqrt(x, out=np.zeros(x.shape, "f2")),
    "complex": lambda x: np.divide(x, 3, out=np.zeros(x.shape, "c8")), "astype": lambda x: x.astype("f4") + 1}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_names_of_conversions(conversion):
    """Those that are part of a ufunc's call have its name."""
    f = CONVERSIONS[conversion]
    for n in (4, 40, 20000):
        x = np.full(n, 1e300)
        assert texts(frit.accelerate(f), x) == texts(f, x), n


def into(e):
    def f(x):
        x = x.copy()
        x **= e
        return x
    return f


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_names_of_powers(dtype):
    for value in (0.0, -1.0, 1e30 if dtype == "f4" else 1e200)[:1 if COMPILED else 3]:
        for x in (np.full(3, value, dtype), np.full((), value, dtype)):
            for e in (2, 2.0, -1, -1.0, 0.5, 3, np.float64(0.5), np.int64(-1) if dtype != "f4" else -1):
                for f in (lambda x: x ** e, lambda x: np.power(x, e), into(e) if dtype != "f4" else abs):
                    want = texts(f, x)
                    assert texts(frit.accelerate(f), x) == want and texts(f, frit.asarray(x)) == want, (value, e)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("value", [1e-30, 1e-40, 3e-8, 1e-6, 2.0 ** -24, 6.2e-5, 1.0, 65519, 65520])
def test_conversions_to_half(dtype, value):
    for n in (1, 40):
        x = np.full(n, value, dtype)
        for f in (lambda x: x.astype("f2"), lambda x: np.zeros(n, "f2") + x.astype("f2"), lambda x: (x + 0).astype("f2")):
            want = texts(f, x)
            # (What has few digits is exact, which underflows nowhere.)
            assert texts(frit.accelerate(f), x) == want and texts(f, frit.asarray(x)) == want


def test_names_of_products():
    for f in (lambda x: np.dot(x, x), lambda x: x @ x, lambda x: np.inner(x, x), lambda x: x.dot(x), lambda x: np.tensordot(x, x, 1), np.linalg.norm,
              lambda x: np.dot(x[None], x[:, None]), lambda x: np.matmul(x[None], x), lambda x: np.dot(x + 0, x + 0) + 1):
        x = np.full(3, 1e300)
        assert texts(frit.accelerate(f), x) == texts(f, x) != []


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2"])
def test_conversions_to_integers(dtype):
    """Of what no integer is, which vectors convert without a flag where the result is not taken."""
    for to in ("i8", "i4", "u1", "u8", "u4", "i2")[::3 if COMPILED else 1]:
        for n in (3, 8, 17, 70):
            for bad in (np.inf, np.nan, -np.inf, 1.0):
                x = np.ones(n, dtype)
                x[0] = bad
                for f in (lambda x: x.astype(to), lambda x: (x + 1).astype(to)):
                    assert texts(frit.accelerate(f), x) == texts(f, x), (to, n, bad)


def test_integers_that_fit_are_converted_quietly():
    before = judged()
    for to in ("i8", "i4", "u8", "u4", "u1"):
        for dtype in ("f8", "f4"):
            x = np.array([0.0, 1, 2, 100, 127] * 9, dtype)
            for f in (lambda x: x.astype(to), lambda x: (x + 1).astype(to)):
                frit.accelerate(f)(x)
    top = np.full(40, 2.0 ** 63 + 2.0 ** 40)
    assert frit.accelerate(lambda x: x.astype("u8"))(top).tolist() == top.astype("u8").tolist()
    assert judged() == before


def judged():
    return frit.stats()["judged"]


def divided(a, b):
    c = a - 1
    return np.exp(-b) + c / b


def test_a_quiet_program_is_computed_once():
    f, x = frit.accelerate(divided), np.arange(1.0, 40)
    before = judged()
    for n in range(60):
        f(x, x)
        frit.eval(frit.asarray(x) / 3 + np.float64(n))
        f(np.arange(1.0, 5000), np.arange(1.0, 5000))
    assert judged() == before


@pytest.mark.parametrize("n", [8, 3000])
def test_calls_that_are_made_again_warn(n):
    f, x = frit.accelerate(divided), np.arange(1.0, n)
    g, y = frit.accelerate(stores), np.arange(1.0, n)
    check(divided, (x, x), "default", f)
    for _ in range(60):
        f(x, x)
        g(y.copy(), x)
    x[3] = 0
    assert len(check(divided, (x, x), "default", f)) == 1
    assert len(check(divided, (x, x), "default", f)) == 1
    assert len(check(divided, (x, x), "error", f)) == 0
    assert len(check(stores, (y, x), "default", g)) == 1
    assert len(check(stores, (y, x), "always", g)) == 1
    x[3] = 1
    assert not check(divided, (x, x), "always", f)


def stores(a, b):
    a -= 1
    a /= b
    a += 1


def test_a_line_that_has_warned_is_not_asked_about_each_time():
    f, x = frit.accelerate(divided), np.zeros(50)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        before = judged()
        for _ in range(200):
            f(x, x)
    assert len(said) == 1
    assert judged() - before < 25


def test_two_lines_of_one_structure_warn_both():
    def f(a):
        return a / 0

    def g(a):
        return a / 0
    for h in (f, g):
        assert check(h, (Z,), "default")
        assert check(h, (Z,), "default")


def test_states_of_the_caller():
    f, x = frit.accelerate(divided), np.arange(5.0)
    with np.errstate(divide="ignore"):
        assert not heard(f, (x, x), "default")[0]
    assert len(heard(f, (x, x), "default")[0]) == 1
    for _ in range(60):
        with np.errstate(all="ignore"):
            f(x, x)
    with np.errstate(divide="raise"):
        with pytest.raises(FloatingPointError, match="divide by zero encountered in divide"):
            f(x, x)
    assert len(heard(f, (x, x), "default")[0]) == 1


def test_printed(capfd):
    def f(a):
        with np.errstate(divide="print"):
            return a / 0
    f(Z[:1])
    frit.accelerate(f)(Z[:1])
    assert capfd.readouterr().err == 2 * "Warning: divide by zero encountered in divide\n"


def test_raised_at_the_line_and_nothing_after_it():
    done = []

    def f(a):
        with np.errstate(divide="raise"):
            done.append(1)
            b = a / 0
            done.append(2)
        return b
    with pytest.raises(FloatingPointError) as e:
        frit.accelerate(f)(Z)
    assert done == [1]
    assert e.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 3


def test_tensors():
    t = frit.asarray(Z)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        u = t / 0
        assert [str(w.message) for w in said] == ["divide by zero encountered in divide",
                                                  "invalid value encountered in divide"]
        with np.errstate(all="ignore"):
            u = t / 0
        assert len(said) == 2
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        frit.log(t)
    with np.errstate(all="ignore"):
        u = u + frit.log(t)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        frit.eval(u)        # traced where it was ignored
    assert not said
    assert judged() > 0


def test_states_of_other_threads():
    def inside():
        with np.errstate(all="raise"):
            gate.wait()
            with pytest.raises(FloatingPointError):
                f(Z)
            gate.wait()
            gate.wait()
            with pytest.raises(FloatingPointError):
                f(Z)
        done.append(1)
    f, gate, done = frit.accelerate(lambda a: a / 0), threading.Barrier(2), []
    thread = threading.Thread(target=inside)
    thread.start()
    gate.wait()
    gate.wait()
    assert len(heard(f, (Z,), "default")[0]) == 2
    gate.wait()
    thread.join()
    assert done


def test_states_that_threads_leave():
    """What a thread sets is not hidden by what another one goes back to meanwhile; contexts have their own."""
    def other():
        with np.errstate(all="ignore"):
            gate.wait()
            gate.wait()
        gate.wait()
    t, gate = frit.asarray(Z), threading.Barrier(2)
    frit.eval(t + 1)                    # the state is read
    thread = threading.Thread(target=other)
    thread.start()
    gate.wait()
    with np.errstate(divide="raise"):
        gate.wait()
        gate.wait()
        with pytest.raises(FloatingPointError):
            t / 0
    thread.join()
    with np.errstate(all="ignore"):
        apart = contextvars.copy_context()
        assert t / 0 is not None
    with np.errstate(all="raise"):
        assert apart.run(lambda: t / 0) is not None
        with pytest.raises(FloatingPointError):
            t / 0


@pytest.mark.parametrize("d", "bhilBHIL")
def test_one_quotient_of_many_that_there_is_not(d):
    """Wherever it is among the elements; where each has one, nobody is asked."""
    functions = (lambda a, b: a // b), (lambda a, b: a % b), (lambda a, b: np.fmod(a, b))
    least, a, b = np.iinfo(d).min, np.arange(1001).astype(d), np.full(1001, 3, d)
    a[0], b[0], a[1], b[1] = least, 1, np.iinfo(d).max, -1 if least else 1
    for f in functions:
        before = judged()
        assert not check(f, (a, b), "always") and judged() == before
        for at in (0, 500, 1000):
            x, y = a.copy(), b.copy()
            y[at] = 0
            assert check(f, (x, y), "always")
            if least:
                x[at], y[at] = least, -1
                assert bool(check(f, (x, y), "always")) == (f is functions[0])


@pytest.mark.parametrize("d", "bBhHiIqQ")
@pytest.mark.parametrize("f", [np.floor_divide, np.remainder, np.fmod], ids=lambda f: f.__name__)
def test_quotients_of_few(d, f):
    """What is left over when vectors are full divides by 0 as well, though nobody takes the result."""
    least = np.iinfo(d).min
    for n in (1, 2, 3, 7, 15, 21, 31, 63, 65, 100):
        for x, y in ((1, 0), (least, -1)) if least else ((1, 0),):
            a, b = np.full(n, 7, d), np.full(n, 3, d)
            for at in {0, n - 1}:
                mine = a.copy(), b.copy()
                mine[0][at], mine[1][at] = x, y
                want, got = (heard(lambda a, b: m(a, b), args, "always")
                             for m, args in ((f, mine), (getattr(frit, f.__name__), [frit.asarray(v) for v in mine])))
                got = [w[:2] for w in got[0]], np.asarray(got[1]).tolist()
                assert got == ([w[:2] for w in want[0]], want[1].tolist()), (n, at, x)


@pytest.mark.parametrize("d", "bhi")
def test_quotients_over_memory_that_is_gone(d):
    """What was divided cannot be asked about again: the flags are believed, and are NumPy's."""
    n = (1 << 20) // np.dtype(d).itemsize + 100
    a, by_zero, by_minus_one = np.full(n, np.iinfo(d).min, d), np.full(n, 3, d), np.full(n, -1, d)
    by_zero[5] = 0

    def f(a, b):
        a //= b
        return a
    g = frit.accelerate(f)
    for b in (by_zero, by_minus_one) * 3:
        assert len(check(f, (a, b), "always", g)) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    def f(a):
        return np.sqrt(a) + 1
    x = np.ones(1 << 17)
    x[-1] = -1
    with frit.config(num_threads=threads):
        assert check(f, (x,), "default")
        assert not check(f, (x[:-1],), "default")


@pytest.mark.parametrize("filter", ["always", "error"])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("f", [
    lambda x, o: np.multiply(x, 2.0, out=o), lambda x, o: np.maximum(x, 1, out=o), lambda x, o: np.clip(x, 0, x[0], out=o),
    lambda x, o: x.clip(0, 1e305, out=o), lambda x, o: x.clip(None, 1e305, out=o), lambda x, o: np.positive(x, out=o[::-1]),
    lambda x, o: np.power(x / 1e200, 3, out=o), lambda x, o: np.add(x[:5], x[:1], out=o[:5]), lambda x, o: np.divide(x, x[::-1], out=o),
    lambda x, o: np.abs(x, o), lambda x, o: (o.__iadd__(x), o[3:].__imul__(x[3:]))[0], lambda x, o: np.copyto(o, x),
    lambda x, o: o.__setitem__(slice(1, None), x[1:] * 2), lambda x, o: np.sqrt(x, out=o)])
def test_what_an_operation_casts_is_said_of_it(f, dtype, filter):
    """Where out= has another dtype the operation makes it; where its result is assigned, the assignment does."""
    x = np.linspace(1e290, 1e300, 300)

    def g(x, o):
        f(x, o)
        return o
    accelerated = frit.accelerate(g)
    for _ in range(3):
        check(g, (x, np.zeros(300, dtype)), filter, accelerated)
