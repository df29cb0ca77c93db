"""Bad input, and input that only NumPy has: the exception or the result is NumPy's, with functions and operators on
tensors and inside accelerated functions, and nothing else changes."""
import decimal
import fractions
import itertools
import re
import traceback

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = [pytest.mark.core, pytest.mark.filterwarnings("ignore")]

A = np.arange(6.0).reshape(2, 3)
V = np.arange(3.0)
I = np.arange(3)    # noqa: E741
W = np.arange(4.0)

# a is float64 (2, 3), v float64 (3,), i int64 (3,), w float64 (4,); arr makes an array of a value.
EXPRESSIONS = [line.strip() for line in """
    a + w
    xp.add(a, w)
    a.__iadd__(arr(np.ones((5,2,3))))
    a + object()
    a + "x"
    a + np.array(["x","y","z"])
    xp.add(a, ["x","y","z"])
    xp.sin("x")
    xp.sin(["x"])
    xp.sin(object())
    xp.sin(None)
    xp.sin(np.array([1,None],dtype=object))
    xp.add(np.array([1,2,3],dtype=object), v)
    xp.asarray([[1,2],[3]])
    xp.add([[1,2],[3]], 1)
    i.astype("i1").__setitem__(1, i.sum() + 200)
    i.astype("u1").__setitem__(slice(0, 2), i.astype("f4").max() - 300)
    i.astype("i2").__setitem__(..., v.sum() / 0)
    i.astype("i4").__setitem__(0, (i + 2**40)[2])
    v + [[1,2],[3]]
    xp.array([[1,[2]],[3,4]])
    v + np.datetime64("2020-01-01")
    v + np.array(["2020-01-01"]*3, dtype="M8[D]")
    i + np.array([1,2,3], dtype="m8[D]")
    v + np.zeros(3, dtype=[("a","f8"),("b","i4")])
    v + V.astype(">f8")
    xp.sin(V.astype(">f8"))
    xp.sum(I.astype(">i4"))
    xp.asarray(V.astype(">f8"))
    xp.sum(a, axis=5)
    xp.sum(a, axis=-3)
    xp.sum(a, axis=(0,0))
    xp.sum(a, axis=1.0)
    xp.sum(a, axis="x")
    a.sum(axis=5)
    a.sum(axis="x")
    xp.mean(a, axis=2)
    xp.var(a, axis=2)
    xp.argmax(a, axis=2)
    xp.argmax(a, axis=(0,1))
    xp.cumsum(a, axis=2)
    xp.max(arr(np.zeros((0,))))
    xp.argmin(arr(np.zeros((0,))))
    xp.max(arr(np.zeros((0,3))), axis=0)
    xp.concatenate([a, v])
    xp.concatenate([a, arr(np.ones((2,4)))])
    xp.concatenate([a, a], axis=2)
    xp.concatenate([])
    xp.concatenate([arr(np.float64(1)), v])
    xp.stack([a, v])
    xp.stack([a, a], axis=4)
    xp.stack([])
    xp.reshape(a, (4,2))
    a.reshape(-1,-1)
    a.reshape("x")
    a.reshape(2.0, 3)
    a.reshape(-2, 3)
    a.transpose(0,0)
    xp.transpose(a, (0,1,2))
    xp.transpose(a, (0,5))
    xp.swapaxes(a, 0, 5)
    xp.moveaxis(a, 0, 5)
    xp.expand_dims(a, 9)
    xp.squeeze(a, axis=0)
    xp.flip(a, axis=7)
    xp.roll(a, 1, axis=7)
    xp.broadcast_to(a, (3,3))
    xp.broadcast_to(v, (-1,3))
    xp.broadcast_to(a, (3,))
    v[7]
    v[-7]
    v[0,0]
    v[1.5]
    v["a"]
    v[[0,7]]
    v[np.array([True,False])]
    a[..., ...]
    v[1.0:2]
    v[::0]
    v[None, "x"]
    arr(np.float64(1.0).reshape(()))[0]
    v.__setitem__(slice(None), arr(np.ones(2)))
    v.__setitem__(9, 1.0)
    v.__setitem__(0, "x")
    v.__setitem__(0, object())
    a.__setitem__(0, [1,[2],3])
    i.__setitem__(0, None)
    v.__setitem__(0, 1j)
    arr(np.zeros(2,"i1")).__setitem__(0, 300)
    i.__setitem__(0, float("nan"))
    xp.add(v, v, out=[1,2,3])
    xp.add(v, v, out="x")
    xp.add(v, v, out=arr(np.zeros(3,"i4")))
    xp.add(v, v, out=arr(np.zeros(2)))
    xp.add(a, v, out=arr(np.zeros(3)))
    xp.sum(a, axis=0, out=arr(np.zeros(2)))
    xp.sum(a, axis=0, out=arr(np.zeros(3,"i4")))
    xp.sum(a, axis=0, out=[0,0,0])
    xp.add(v, v, out=np.array(["a","b","c"]))
    i.__iadd__(1.5)
    i.__iadd__(v)
    i.__itruediv__(2)
    v.__ilshift__(1)
    v << 1
    v & v
    ~v
    xp.bitwise_and(v, 1)
    -arr(np.array([True]))
    arr(np.array([True])) - arr(np.array([True]))
    i ** -1
    arr(np.zeros(2,"u1")) + 300
    arr(np.zeros(2,"u1")) + (-1)
    i + 2**70
    v + 2**2000
    arr(np.ones(2,"c16")) % 2
    xp.floor(arr(np.ones(2,"c16")))
    arr(np.ones(2,"c16")) < 1
    v == "x"
    v == None
    a == w
    v < "x"
    v < None
    a < w
    xp.zeros((-1,))
    xp.zeros((1<<40, 1<<40))
    xp.zeros(1<<62)
    xp.zeros(1<<80)
    xp.zeros("x")
    xp.zeros(2.5)
    xp.zeros((1,)*70)
    xp.zeros(3, dtype="nope")
    xp.ones(2, dtype=object)
    xp.zeros(2, dtype="U3")
    xp.full((2,), [1,2,3])
    xp.full(2, "x", dtype="f8")
    xp.arange()
    xp.arange(0, 3, 0)
    xp.arange("x")
    xp.arange(0, 1e30)
    xp.linspace(0,1,-1)
    xp.linspace(0,1,2.5)
    xp.eye(-1)
    xp.eye("x")
    a.astype("nope")
    v.astype(object)
    v.astype("U4")
    i.astype("M8[D]")
    v.astype("i4", casting="safe")
    xp.array(["a","b"])
    xp.asarray(None)
    xp.asarray(object())
    xp.asarray(np.datetime64("2020-01-01"))
    xp.asarray(b"abc")
    xp.array([2**70])
    xp.array(["x"], dtype="f8")
    a @ a
    a @ 2
    xp.dot(a, w)
    xp.where(a > 1, w, 0)
    xp.where(a, a)
    xp.clip(a)
    xp.clip(a, w, 3)
    xp.take(v, 9)
    xp.take(a, 0, axis=4)
    xp.take(v, 1.5)
    xp.repeat(v, -1)
    xp.repeat(v, [1,2])
    xp.tile(v, "x")
    xp.pad(v, 1, mode="nope")
    xp.pad(v, -1)
    xp.split(v, 2)
    a.item()
    v.item(9)
    float(v)
    bool(v)
    int(a)
    [1,2,3][v]
    len(arr(np.float64(2).reshape(())))
    hash(v)
    v.nope
    xp.add(v)
    xp.add(v, v, v, v)
    xp.add(v, v, nope=1)
    xp.sum(v, nope=1)
    xp.add(v, v, dtype="i4")
    xp.add(v, v, dtype="nope")
    xp.add(v, v, dtype="U3")
    xp.sin(v, dtype="f4", casting="safe")
    xp.add(v, v, casting="nope")
    xp.add(v, v, where=np.array([True, False]))
    xp.add(v, v, where="x")
    xp.sum(v, dtype="nope")
    xp.sum(v, dtype="U3")
    xp.sum(v, where=np.array([True, False]))
    xp.sum(v, initial="x")
    xp.max(v, initial="x")
    xp.std(v, ddof="x")
    xp.round(v, "x")
    xp.ldexp(v, v)
    xp.outer(v, object())
    xp.sort(v, axis=3)
    xp.diff(v, axis=3)
    np.linalg.norm(v, "nope")
    np.linalg.solve(a, v)
    xp.einsum("ij,jk", a, v)
    xp.tensordot(a, a, axes=1)
    xp.broadcast_to(v,(2,3)).__setitem__(0, 1.0)
    xp.add(a, a, out=xp.broadcast_to(v,(2,3)))
    xp.broadcast_to(v,(2,3)).__iadd__(1.0)
    v.__setattr__("shape", (2, 2))
    [*arr(np.float64(2).reshape(()))]
    a.sum(axis=(0, 3))
    xp.minimum(a, None)
    xp.isnan(np.array(["x"]))
    xp.linalg.inv(a)
    xp.sqrt(np.array(["2020-01-01"], dtype="M8[D]"))
    xp.maximum(np.array([("x", 1)], dtype=[("n", "U1"), ("k", "i4")]), 1)
    arr(V[::-1])[5]
    a[2, 0]
    a[0, :, 0]
    a[[0, 1], [0, 1, 2]]
    a[np.array([0.5])]
    a[object()]
    a.__setitem__((0, 5), 1.0)
    a.__setitem__(slice(None), W)
    a.__setitem__((slice(None), [0, 9]), 1.0)
    v.__setitem__(slice(0, 2), [1, 2, 3])
    v.__iadd__(W)
    v.__isub__("x")
    v.__imul__(None)
    v + None
    v * [1, 2]
    [1, 2] * v
    "x" * v
    object() - v
    v % "x"
    v // None
    v ** "x"
    divmod(v, "x")
    v @ None
    v + fractions.Fraction(1, 2)
    v + decimal.Decimal(1)
    fractions.Fraction(1, 2) * v
    v == fractions.Fraction(1, 2)
    xp.where("x", v, 1)
    xp.concatenate([v, ["x"]])
    xp.stack([v, None])
    xp.full((1 << 60, 16), 1.0)
    xp.arange(1 << 70)
    xp.tile(v, -1)
    xp.broadcast_to(v, (1 << 62, 1 << 62, 3))
    xp.repeat(v, 1 << 62)
    xp.eye(1 << 40)
""".splitlines() if line.strip()]

def outcome(f, *args):
    try:
        result = f(*args)
    except Exception as e:
        return e
    if isinstance(result, frit.Tensor):
        return result._to_scalar() if result._is_scalar() else np.array(result)
    return result


def difference(got, want):
    if isinstance(want, Exception):
        kind = type(want)
        if kind.__name__.startswith(("_UFunc", "UFunc")):       # NumPy's private names
            kind = TypeError
        if isinstance(got, kind) and (type(got) is kind or kind is TypeError or issubclass(kind, ValueError)):
            return None
    elif isinstance(want, (np.ndarray, np.generic)) and not isinstance(got, Exception):
        g, w = np.asarray(got), np.asarray(want)
        if g.dtype == w.dtype and g.shape == w.shape and (w.dtype.kind in "OV" or g.tolist() == w.tolist()):
            return None
    elif isinstance(want, (tuple, list)) and type(got) is type(want) and len(got) == len(want):
        found = [difference(g, w) for g, w in zip(got, want)]
        return next((d for d in found if d), None)
    elif type(got) is type(want):
        return None
    return f"{type(got).__name__}: {got}\ninstead of {type(want).__name__}: {want}"


def plain(expression, xp, arr):
    code = compile(expression, "<bad input>", "eval")
    names = {"xp": xp, "np": np, "arr": arr, "fractions": fractions, "decimal": decimal, "V": V, "I": I, "W": W,
             "a": arr(A), "v": arr(V), "i": arr(I), "w": arr(W)}
    return outcome(eval, code, names), names


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_and_operators(expression):
    with np.errstate(all="ignore"):
        want, _ = plain(expression, np, np.array)
        got, names = plain(expression, frit, frit.asarray)
    wrong = difference(got, want)
    assert wrong is None, wrong
    if isinstance(want, Exception):         # and nothing has changed
        for k, x in zip("avw", (A, V, W)):
            assert_same(np.array(names[k]), x)
        if "__iadd__(v)" not in expression:
            assert_same(np.array(names["i"]), I)
    assert float(frit.asarray(V).sum()) == 3.0


_numbers = itertools.count()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_inside_accelerated_functions(expression):
    source = "def f(a, v, i, w):\n    arr = np.array\n    return " + re.sub(r"\bxp\b", "np", expression)
    names = {"np": np, "fractions": fractions, "decimal": decimal, "V": V, "I": I, "W": W}
    name = f"<bad input {next(_numbers)}>"
    exec(compile(source, name, "exec"), names)
    f = names["f"]
    inputs = [[A.copy(), V.copy(), I.copy(), W.copy()] for _ in range(2)]
    with np.errstate(all="ignore"):
        want, got = outcome(f, *inputs[0]), outcome(frit.accelerate(f), *inputs[1])
    wrong = difference(got, want)
    assert wrong is None, wrong
    for g, w in zip(inputs[1], inputs[0]):
        assert_same(g, w)
    if isinstance(got, Exception):
        assert (name, 3) in [(s.filename, s.lineno) for s in traceback.extract_tb(got.__traceback__)]
    assert float(frit.asarray(V).sum()) == 3.0


@pytest.mark.parametrize("expression, parts", [
    ("a + w", ["(2, 3)", "(4,)", "add"]),
    ("xp.where(a > 1, w, 0)", ["(2, 3)", "(4,)", "where"]),
    ("xp.add(v, v, out=arr(np.zeros(3, 'i4')))", ["add", "float64", "int32"]),
    ("v << 1", ["left_shift", "float64", "int64"]),
    ("v.__setitem__(slice(None), w)", ["(4,)", "(3,)"]),
    ("a.reshape(4, 2)", ["6", "(4,2)"]),
    ("a.sum(axis=5)", ["5", "2"]),
    ("xp.concatenate([a, v])", ["2", "1"]),
])
def test_messages_name_operation_shapes_and_dtypes(expression, parts):
    got, _ = plain(expression, frit, frit.asarray)
    assert isinstance(got, Exception)
    for part in parts:
        assert part in str(got), str(got)


def test_an_int_that_does_not_fit_comes_first():
    x = np.ones(3)
    for xp in (np, frit):
        with pytest.raises(OverflowError, match="-7"):
            xp.bitwise_or(xp.asarray(x), -7, dtype="u8")
