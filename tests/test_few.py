"""NumPy's functions where few elements are in it (csrc/bind/numpy/few.h): each gives NumPy's bits, type, dtype and layout,
or leaves the call to NumPy."""
import os
import subprocess
import sys
import warnings

import numpy as np
import numpy.random
import pytest

import frit
from frit import _core, _membrane, _namespace

rng = np.random.default_rng(3)
A, B, v, w, x = rng.normal(size=(3, 3)), rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=3), rng.normal(size=8)
ints, small, flags = np.array([3, 1, 2, 3, -1]), np.arange(6, dtype=np.float32).reshape(2, 3), x > 0
complex_, cube = v + 1j * w, rng.normal(size=(2, 3, 4))
positive = A @ A.T + np.eye(3)
nan, inf, minus_zero = np.array([1.0, np.nan, 2.0]), np.array([np.inf, 1.0, -np.inf]), np.array([-0.0, 0.0, -0.0])
huge, tiny = np.array([1e308, 1e308, -1e308]), np.array([1e-308, 1e-308, 3e-308])
empty, zero_d, large = np.zeros(0), np.array(1.5), rng.normal(size=2000)
strided, column, fortran = x[::2], A[:, 1], np.asfortranarray(B)
f8, i8, python = np.float64(0.5), np.int64(2), [1, 2.5, np.float64(3.0)]


class Sub(np.ndarray):
    pass


sub = v.view(Sub)

# name -> calls that are done by C, and calls that are left to NumPy, or that NumPy refuses
CALLS = {
    "arange": (["5", "2, 7", "i8", "0", "5, 2", "-3, 4"], ["5.0", "0, 5, 2", "5, dtype=float", "10**6", "True", "'a'"]),
    "array": (["[1.0, 2.0]", "[1, 2, 3]", "(1, 2.5)", "python", "[[1, 2], [3, 4]]", "[(1.0, 2), (3, 4)]", "[v, w]", "(A, A)",
               "[ints, ints]", "[1, 2], dtype=float", "[[1, 2]], np.float64", "[i8, 1]", "[small, small]", "[-0.0, 0]",
               "[flags, flags]", "[np.nan, np.inf]"],
              ["[]", "[True, 1]", "[[1, 2], [3]]", "[1, 'a']", "v", "[v, B]", "[1, 2], dtype=int", "[1, None]", "[10**30, 1]",
               "[[]]", "[v, 1]", "[v, small[0]]", "[np.float32(1), 2.0]", "[1j, 2]", "[[[1.0]]]", "[sub, sub]", "[x[::2], x[::2]]",
               "[1.0, 2.0], copy=False", "[v, v], ndmin=3", "1.5", "[2**53 + 1, 1.0]", "[zero_d, zero_d]"]),
    "copy": (["v", "A", "small", "flags", "complex_", "zero_d", "empty"], ["strided", "fortran", "[1.0]", "sub", "large", "v, 'F'"]),
    "diag": (["v", "ints", "flags", "empty"], ["A", "v, 1", "strided", "[1, 2]", "cube"]),
    "eye": (["3", "0", "i8"], ["3, 4", "3, k=1", "-1", "3.0", "3, dtype=int", "200"]),
    "full": (["3, 1.5", "(2, 3), 2", "(), 1.0", "[2, 2], f8", "0, 1"], ["3, True", "3, [1, 2, 3]", "3, 1.5, dtype=int", "-1, 2", "3, 1j"]),
    "identity": (["3"], ["3, int", "'a'"]),
    "linspace": (["0, 1, 5", "0, 1", "2.5, -1, 7", "1, 1, 4", "f8, i8, 3", "-1e-3, 1e5, 33"],
                 ["0, 1, 1", "0, 1, 0", "0, 1, endpoint=False", "v, w, 3", "0, np.inf, 3", "-1e308, 1e308, 3", "0, 1, 2.0", "0, 1, -1"]),
    "ones": (["3", "(2, 3)", "()", "[4]", "3, dtype=float"], ["3, int", "-1", "(2, -1)", "3.0", "10**5"]),
    "ones_like": (["v", "A", "ints", "empty"], ["flags", "small", "[1]", "sub", "v, dtype=int", "fortran"]),
    "zeros_like": (["v", "A", "ints", "flags", "small", "complex_"], ["[1]", "sub", "strided", "v, dtype=int", "fortran", "large"]),
    "append": (["v, 1.0", "v, w", "v, f8", "ints, ints", "empty, v"], ["v, 1", "A, v", "v, [1.0]", "[1], 2", "v, w, 0", "A, A, 0"]),
    "column_stack": (["(v, w)", "[A, v]", "(ints, ints)"], ["(v, x)", "[1.0, 2.0]", "(v, ints)", "[]"]),
    "concatenate": (["(v, w)", "[A, B]", "(A, A), 1", "(A, A), axis=-1", "(empty, v)", "[ints, ints]", "(cube, cube), axis=1",
                     "(small, small)", "(flags, flags)", "[A[:, :1].copy(), A], 1", "[v]"],
                    ["(v, A)", "(A, B), 1", "(v, ints)", "[]", "v", "(strided, v)", "(A, A), axis=None", "(A, A), 2", "(A, A.T)",
                     "(v, w), dtype=float", "(v, [1.0])", "[1.0, 2.0]", "(sub, v)"]),
    "expand_dims": (["v, 0", "v, axis=1", "A, -1", "strided, 0", "A.T, 1"], ["v, 2", "v, (0, 1)", "[1], 0", "sub, 0", "v"]),
    "hstack": (["(v, w)", "[A, A]", "[v, 1.0]", "[2.0, v, f8]", "[A, A[:, :1].copy()]", "(ints, ints)"],
               ["(v, A)", "(A, B)", "[v, 1]", "[]", "[ints, 1.0]", "v"]),
    "ravel": (["v", "A", "A.T", "strided", "small", "zero_d"], ["[1]", "A, 'F'", "sub"]),
    "reshape": (["A, 9", "A, (9,)", "x, (2, 4)", "x, (2, 2, 2)", "A.T, 9", "strided, (2, 2)", "zero_d, ()"],
                ["A, -1", "A, 8", "[1, 2], 2", "A, (3, -1)", "A, [9]", "A, 9, 'F'", "A, (2.0, 4)", "sub, 3"]),
    "roll": (["v, 1", "v, -7", "A, 1", "A, 1, 0", "A, -1, axis=1", "cube, 2, 1", "ints, 2", "empty, 1", "cube, 1, axis=None", "flags, i8"],
             ["v, (1, 2)", "[1, 2], 1", "A, 1, 2", "A, 1, (0, 1)", "strided, 1", "v, 1.0", "A, (1, 1), (0, 1)"]),
    "squeeze": (["A[:, :1]", "v", "cube[:1]"], ["A, 0", "[[1]]", "sub"]),
    "stack": (["(v, w)", "[A, A]", "(v, w), axis=1", "(v, w), -1", "(cube, cube), 2", "(v,)"],
              ["(v, x)", "[]", "(v, ints)", "(v, w), 2", "[1.0, 2.0]", "(v, w), axis=None"]),
    "tile": (["v, 2", "ints, 3", "v, i8"], ["v, 0", "A, 2", "v, (2, 2)", "v, -1", "[1], 2", "v, 2.0", "v, 10**6"]),
    "transpose": (["A", "v", "cube", "strided"], ["A, (1, 0)", "[1]", "sub"]),
    "vstack": (["(v, w)", "[A, B]", "[v, A]", "(ints, ints)", "[v]"], ["(v, x)", "[]", "(v, ints)", "[1.0, v]", "v"]),
    "allclose": (["v, w", "v, v + 1e-10", "v, 1.0", "1.0, 1", "A, A", "f8, 0.5", "x, x + 1e-5"],
                 ["v, x", "nan, nan", "inf, inf", "ints, ints", "v, w, 1e-3", "v, v, atol=1", "A, v", "[1.0], [1.0]", "huge, -huge"]),
    "argsort": (["v", "A", "ints", "flags", "nan", "small"], ["v, 0", "[2, 1]", "strided", "zero_d", "v, kind='stable'"]),
    "array_equal": (["v, v", "v, w", "v, A", "v, ints", "ints, ints", "nan, nan", "minus_zero, 0 * v", "empty, empty"],
                    ["v, small[0]", "[1], [1]", "complex_, complex_", "strided, strided", "nan, nan, True", "flags, flags"]),
    "isclose": (["v, w", "v, v + 1e-10", "v, 0", "1.0, 1.0 + 1e-9", "f8, 1", "2, f8", "A, A"], ["nan, nan", "v, x", "inf, inf", "v, v, 1e-3"]),
    "median": (["v", "x", "np.array([2.0])", "minus_zero"], ["nan", "A", "[1, 2]", "ints", "empty", "v, 0", "huge[:2]", "strided"]),
    "nonzero": (["v", "flags", "A", "ints", "nan"], ["[1, 0]", "strided"]),
    "sort": (["v", "A", "ints", "nan", "complex_", "minus_zero"], ["v, 0", "[2, 1]", "strided", "zero_d", "v, kind='stable'", "sub"]),
    "unique": (["ints", "np.array([1])", "np.zeros(0, int)"], ["v", "[2, 1, 2]", "ints, True", "A", "ints, return_counts=True"]),
    "where": (["flags, x, -x", "flags, 1, -1", "flags, 1.0, x", "flags, x, 0.0", "flags, np.arange(8), 0", "flags", "v", "flags, 1.0, 2.0"],
              ["flags, x, 0", "flags, v, w", "x, 1, 2", "True, 1, 2", "flags, x, small[0, 0]", "[True], 1, 2", "flags, True, False",
               "flags, x, f8", "flags, 1", "flags, x, 10**30", "flags, 1j, x"]),
    "cross": (["v, w", "w, v", "inf, 0 * v + 1"], ["v, v[:2]", "A, A", "[1, 2, 3], v", "huge, huge", "ints[:3], v", "inf, minus_zero"]),
    "diff": (["v", "x", "np.ones(1)", "inf"], ["ints", "A", "v, 2", "empty", "huge", "np.array([np.inf, np.inf])", "[1, 2]", "strided"]),
    "dot": (["v, w", "A, v", "A, A", "strided, strided", "ints, ints", "B, A", "small, small.T", "column, v", "complex_, complex_", "flags, flags"],
            ["v, x", "v, 2.0", "2, 3", "v, [1, 2, 3]", "v, ints[:3]", "A, sub"]),
    "inner": (["v, w", "A, v", "A, B", "ints, ints"], ["v, x", "2, 3", "v, ints[:3]"]),
    "linalg.cholesky": (["positive", "positive[:2, :2]", "np.asfortranarray(positive)"], ["-positive", "B", "small", "positive, upper=True"]),
    "linalg.det": (["A", "A.T", "np.zeros((2, 2))"], ["B", "v", "ints", "np.ones((2, 2, 2))", "[[1, 2], [3, 4]]"]),
    "linalg.inv": (["A", "A.T", "np.asfortranarray(A)", "positive[:2, :2]"],
                   ["B", "np.zeros((2, 2))", "v", "small", "np.ones((2, 2, 2))", "[[1, 2], [3, 4]]", "np.ones((3, 3), int)"]),
    "linalg.norm": (["v", "A", "x", "minus_zero", "large", "inf", "huge"], ["nan", "v, 1", "A, axis=1", "[1, 2]", "ints", "strided", "empty[:, None].T, 2"]),
    "linalg.solve": (["A, v", "A, A", "A.T, v", "A, A.T", "A, strided[:3]"], ["A, x", "np.zeros((3, 3)), v", "A, ints[:3]", "B, v", "A, 1.0"]),
    "outer": (["v, w", "x, v", "empty, v"], ["A, v", "v, [1, 2]", "v, 2.0", "huge, huge", "ints, ints", "inf, minus_zero", "strided, v"]),
    "trace": (["A", "B", "A[:2].copy()"], ["A, 1", "ints", "cube", "np.ones((9, 9))", "np.diag(huge)", "A.T"]),
    "random.choice": (["5", "[1, 2, 3]", "[0.5, 1.5]", "ints", "v", "5, p=[0.1, 0.2, 0.3, 0.1, 0.3]", "ints, p=np.full(5, 0.2)", "i8", "1", "small[0]",
                       "[3, 4], p=[1, 0]", "2**20"],
                      ["5, 3", "0", "[]", "['a', 'b']", "5, p=[0.5, 0.6]", "2, p=[1.5, -0.5]", "A", "3, replace=False", "2, p=[np.nan, 1]", "[True, False]",
                       "[1, 2.0]", "5, None, True, [0.2] * 5", "(1, 2)", "2.5", "large, p=np.full(2000, 1 / 2000)"]),
    "random.randint": (["5", "0, 10", "-3, 3", "i8", "1", "2**30 - 1", "1 - 2**30, 2**30 - 1", "np.int64(-2**31), np.int64(2**31 - 1)"],
                       ["5, 5", "0", "5, size=3", "0, 10, 4", "5.5", "2**40", "10, dtype=np.int8", "high=3", "True"]),
    "random.uniform": (["", "0, 1", "2.5, 7", "f8, i8", "-1, -1"], ["2", "0, 1, 3", "v, w", "1, 0", "low=1, high=2", "0, np.inf", "-1e308, 1e308"]),
}
NAMES = globals()


def theirs(name):
    f = np
    for part in name.split("."):
        f = getattr(f, part)
    return f


def plain(name):
    """What is called in a plain call."""
    f = theirs(name)
    return _membrane._plain(f, _namespace.functions.get(id(f), f))


def called(f, text):
    """What a call gives, or raises, with its warnings and where the generator stands after it."""
    np.random.seed(5)
    fresh = {k: value.copy() if isinstance(value, np.ndarray) and type(value) is np.ndarray and value.flags.c_contiguous else value
             for k, value in NAMES.items() if not k.startswith("__")}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = eval(f"f({text})", {**fresh, "f": f, "np": np})
        except Exception as e:
            result = e
    return result, [(w.category, str(w.message)) for w in said], np.random.random()


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, Exception):
        assert str(a) == str(b)
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for one, other in zip(a, b):
            same(one, other)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype and a.shape == b.shape, (a, b)
        assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), (a, b)
        if isinstance(a, np.ndarray):
            assert a.strides == b.strides and a.flags.writeable == b.flags.writeable      # (some of NumPy's own no memory)
    else:
        assert a == b or a != a


@pytest.mark.parametrize("by_c", [True, False], ids=["usual", "others"])
@pytest.mark.parametrize("name", CALLS)
def test_calls(name, by_c):
    for text in CALLS[name][not by_c]:
        expected, warned, then = called(theirs(name), text)
        before = frit.stats()["few"]
        given, said, now = called(plain(name), text)
        assert frit.stats()["few"] == before + by_c, text
        same(given, expected)
        assert said == warned and now == then, text


def test_each_is_here():
    assert sorted(CALLS) == sorted(_core.few_names())


def test_results_of_views_see_the_memory():
    for name, text in [("reshape", "m, 9"), ("expand_dims", "m, 0"), ("ravel", "m"), ("squeeze", "m"), ("transpose", "m")]:
        m = A.copy()
        view = eval(f"f({text})", {"f": plain(name), "m": m})
        m[1, 2] = 77.0
        assert np.shares_memory(view, m) and 77.0 in view


def test_another_bit_generator_is_found():
    was = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(np.random.PCG64(7))
        given = [plain("random.randint")(100), plain("random.uniform")(0, 1), plain("random.choice")([1.0, 2.0, 4.0])]
        np.random.set_bit_generator(np.random.PCG64(7))
        assert given == [np.random.randint(100), np.random.uniform(0, 1), np.random.choice([1.0, 2.0, 4.0])]
    finally:
        np.random.set_bit_generator(was)


def test_the_state_of_the_user_is_asked():
    with np.errstate(all="raise"):
        for name, text in [("outer", "huge, huge"), ("outer", "tiny, tiny"), ("cross", "tiny, tiny"), ("diff", "huge"), ("linalg.inv", "A")]:
            same(called(plain(name), text)[0], called(theirs(name), text)[0])


def test_it_is_used_in_plain_calls():
    def f(x, n):
        total = 0.0
        for _ in range(n):
            i = np.random.randint(0, 3)
            p = np.vstack((x, np.linalg.inv(np.eye(3) * (1 + i))[0]))
            total += np.linalg.norm(p) + np.random.choice([1.0, 2.0]) + x[i]
        return total
    g = frit.accelerate(f)
    with frit.config(tune="plain_nodes=16, needed_10ns=10000", eager_elems=4096, jit="interpret"):
        np.random.seed(1)
        expected = [f(v, 60) for _ in range(3)]
        np.random.seed(1)
        given = [g(v, 60) for _ in range(2)]
        before = frit.stats()["few"]
        given.append(g(v, 60))
    assert given == expected and frit.stats()["few"] - before == 6 * 60 and g.stats.unchanged >= 1


def test_what_is_handed_over_is_done_by_c():
    f = frit.accelerate(lambda a, b: np.linalg.solve(a * 2.0, b + 1.0) + np.linalg.det(a - 1.0))
    before = frit.stats()["few"], frit.stats()["handed"]
    given = f(A, v)
    assert (frit.stats()["few"] - before[0], frit.stats()["handed"] - before[1]) == (2, 2)
    same(given, f.__wrapped__(A, v))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        f(np.zeros((3, 3)), v)


def test_it_can_be_left_out():
    code = ("import numpy as np, frit\nfrom frit import _membrane as m\nf = m._plain(np.eye, m._namespace.functions[id(np.eye)])\n"
            "assert f(3).tolist() == np.eye(3).tolist() and frit.stats()['few'] == 0")
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ, FRIT_OFF="few"))
