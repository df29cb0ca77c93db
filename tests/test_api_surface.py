"""frit's module functions as NumPy's: names, signatures and dtypes; what the Array API asks for; and that `import frit as np`
carries a script."""
import copy
import enum
import inspect
import pickle
import re

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = pytest.mark.filterwarnings("ignore")      # what is computed here is computed everywhere
T = frit.asarray


def listed(text):
    """What is written between semicolons and line ends."""
    return [part.strip() for part in text.replace("\n", ";").split(";") if part.strip()]


def outcome(expression, xp, **names):
    """The value of an expression, or its exception."""
    try:
        return eval(expression, {"xp": xp, "np": np, **names})
    except Exception as e:
        return e


def assert_as_numpy(got, want, what=""):
    """The same values, dtypes, containers and exceptions. What is an array or a number in NumPy is a tensor or that."""
    if isinstance(want, Exception):
        assert isinstance(got, type(want)), f"{what}: {got!r} instead of {want!r}"
    elif isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want), f"{what}: {got!r} instead of {want!r}"
        for g, w in zip(got, want):
            assert_as_numpy(g, w, what)
    elif isinstance(want, (np.ndarray, np.generic)):
        g = np.asarray(got)
        assert not isinstance(got, Exception), f"{what}: {got!r}"
        assert g.dtype == want.dtype and g.shape == want.shape, f"{what}: {g.dtype}{g.shape} instead of {want!r}"
        if want.dtype.kind in "OSUVMm" or want.dtype.itemsize > 8 or want.dtype.byteorder == ">":
            assert g.tolist() == want.tolist(), what
        else:
            assert_same(g, np.asarray(want), strides=False, what=what)
    else:
        assert got is want or (type(got) is type(want) and got == want), f"{what}: {got!r} instead of {want!r}"


F4, F8, I8, I1 = np.arange(3, dtype="f4"), np.array([[2.0, 1], [1, 3]]), np.arange(4), np.arange(3, dtype="i1")
NAMES = {"f4": F4, "f8": F8, "i8": I8, "i1": I1, "b1": np.array([True, False]), "c8": F4 * 1j, "u1": F4.astype("u1")}


def both(expression):
    """NumPy's result of copies, and frit's of tensors of them."""
    want = outcome(expression, np, **{k: v.copy() for k, v in NAMES.items()})
    return outcome(expression, frit, **{k: T(v) for k, v in NAMES.items()}), want


# ---- joined, sorted, unique

@pytest.mark.parametrize("parts", [
    "[f4, 1.0]", "[f4, 1]", "[f4, 1j]", "[f4, True]", "[i1, 1.0]", "[i1, 7]", "[i1, 300]", "[u1, -1]", "[b1, 1]", "[b1, 2.5]",
    "[1, 2.0]", "[True, 1]", "[f4, np.float64(1)]", "[f4, np.float32(1)]", "[i1, [1]]", "[f4, 2**70]", "[2**63, 1]", "[c8, 1.5]",
    "[f4, f8]", "[f4, f8, 1.0]", "[1.0, f4]", "(1j, i1)", "[f4, 1.0], dtype='f8'", "[f4, 1.0], casting='no'", "[]"])
def test_numbers_are_weak_where_arrays_are_flattened(parts):
    got, want = both(f"xp.concatenate({parts}, axis=None)")
    assert_as_numpy(got, want, parts)


@pytest.mark.parametrize("x", [
    np.array([3.0, 1, 2, 3, 1, np.nan, 0, -0.0, np.nan]), np.arange(100)[::-1] % 37, np.array([], "i4"), np.array([True, False, True]),
    np.array([[3, 1], [1, 3]], "u1"), np.array(7), np.array([1 + 2j, 1j, 1 + 2j]), np.array([2, 1, 2], "f2"),
    np.array([2**63, 1, 2**63], "u8"), np.array(["b", "a", "b"]), np.array([-5, 5, -5], "i2")])
def test_unique_values_are_sorted(x):
    want = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    of = T(x)
    for got in (frit.unique_values(of), frit.unique_inverse(of).values, frit.unique_all(of).values):
        assert_as_numpy(got, want[0])
    everything = frit.unique_all(of)
    assert_as_numpy(tuple(everything), (want[0], want[1], want[2].reshape(x.shape), want[3]))
    assert_as_numpy(tuple(frit.unique_inverse(of)), (want[0], want[2].reshape(x.shape)))
    assert_as_numpy(tuple(frit.unique_counts(of)), tuple(np.unique_counts(x)))      # (of two zeros either, as its sort has them)


def test_unique_values_in_an_accelerated_function_are_numpys():
    x = np.arange(100)[::-1] % 37
    assert_as_numpy(frit.accelerate(lambda a: np.unique_values(a))(x), np.unique_values(x))


@pytest.mark.parametrize("axis", [-1, 0, 1, None])
@pytest.mark.parametrize("stable", [None, True, False])
def test_sort_and_argsort_descend(axis, stable):
    x = np.array([[3, 1, 3, 2, 3, 1], [0, 5, 5, 0, 5, 1]])
    assert_as_numpy(frit.sort(T(x), axis=axis, stable=stable), np.sort(x, axis=axis))
    assert_as_numpy(frit.argsort(T(x), axis=axis, stable=True), np.argsort(x, axis=axis, stable=True))
    assert_as_numpy(frit.sort(T(x), axis=axis, stable=stable, descending=True), -np.sort(-x, axis=axis))
    assert_as_numpy(frit.argsort(T(x), axis=axis, stable=True, descending=True), np.argsort(-x, axis=axis, stable=True))


def test_sort_keeps_numpys_signature():
    x = np.array([(2, 1.0), (1, 2.0), (1, 1.0)], [("a", int), ("b", float)])
    assert_as_numpy(frit.sort(x, order=["a", "b"]), np.sort(x, order=["a", "b"]))
    assert_as_numpy(frit.argsort(T(F4), 0, "mergesort"), np.argsort(F4, 0, "mergesort"))
    with pytest.raises(np.exceptions.AxisError):
        frit.sort(T(F4), axis=1, descending=True)
    with pytest.raises(ValueError):
        frit.argsort(T(F4), kind="no such sort")


# ---- what cannot be taken, and what NumPy takes

@pytest.mark.parametrize("call, says", [
    (lambda: frit.sigmoid([None]), "sigmoid.*list.*object"),
    (lambda: frit.erf(np.ones(3, np.longdouble)), "erf.*ndarray.*(float128|longdouble)"),
    (lambda: frit.erfc(np.ones(3, np.longdouble)), "erfc.*ndarray.*(float128|longdouble)"),
    (lambda: frit.softplus(object()), "softplus.*object"),
    (lambda: frit.sigmoid(np.array([1, None])), "sigmoid.*ndarray.*object"),
    (lambda: frit.softplus("a"), "softplus.*str"),
    (lambda: frit.erf(["a", "b"]), "erf.*list.*<U1"),
    (lambda: frit.sigmoid(2**70), "sigmoid.*int.*object"),
    (lambda: frit.erf(np.zeros(2, "M8[s]")), "erf.*datetime64"),
    (lambda: frit.softplus(np.zeros(2, [("a", "f8")])), "softplus.*'a'"),
    (lambda: frit.sigmoid(T(F4), out=np.zeros(3)), "sigmoid"),
    (lambda: frit.erf(np.longdouble(1)), "erf.*(float128|longdouble)"),
])
def test_functions_that_numpy_has_not_name_what_they_refuse(call, says):
    with pytest.raises(TypeError) as e:
        call()
    assert re.search(says, str(e.value)) and "numpy' has no" not in str(e.value), str(e.value)


DTYPES = ["O", "g", "G", "S3", "U4", "M8[s]", "m8[D]", ">f8", ">i4", ">c8", [("a", "f8"), ("b", "i4")], "V5"]
CALLS = listed("""
xp.asarray(x); xp.array(x); xp.array(x, copy=False); xp.array(x, ndmin=3); xp.asanyarray(x); xp.ascontiguousarray(x[:, ::2])
xp.asfortranarray(x); xp.copy(x); xp.zeros(2, x.dtype); xp.ones(2, x.dtype); xp.empty((0, 2), x.dtype); xp.full((2, 2), x[0, 0])
xp.full(2, x[0, 1], x.dtype); xp.full_like(x, x[0, 0]); xp.zeros_like(x); xp.ones_like(x); xp.empty_like(x[:0]); xp.eye(2, dtype=x.dtype)
xp.identity(2, x.dtype); xp.tri(2, dtype=x.dtype); xp.tril(x); xp.triu(x, 1); xp.arange(3, dtype=x.dtype)
xp.reshape(x, (3, 2)); xp.ravel(x); xp.transpose(x); xp.permute_dims(x, (1, 0)); xp.matrix_transpose(x); xp.diag(x); xp.diag(x[0])
xp.swapaxes(x, 0, 1); xp.moveaxis(x, 0, 1); xp.squeeze(x[:1]); xp.expand_dims(x, 1); xp.broadcast_to(x, (2, 2, 3)); xp.flip(x)
xp.broadcast_arrays(x, x[0]); xp.fliplr(x); xp.flipud(x); xp.diagonal(x); xp.atleast_1d(x); xp.atleast_2d(x[0], x); xp.atleast_3d(x)
xp.concatenate([x, x]); xp.stack([x, x]); xp.hstack([x, x]); xp.vstack([x, x]); xp.dstack([x, x]); xp.column_stack([x, x])
xp.where(x[0] == x[0], x, x); xp.take(x, [0, 1], axis=1); xp.roll(x, 1); xp.tile(x, 2); xp.repeat(x, 2); xp.rot90(x); xp.split(x[0], 3)
xp.sort(x); xp.argsort(x); xp.unique(x[0]); xp.nonzero(x); xp.count_nonzero(x); xp.add(x, x); xp.equal(x, x); xp.maximum(x, x)
xp.sum(x); xp.max(x, axis=0); xp.argmin(x); xp.cumsum(x); xp.mean(x); xp.any(x); xp.clip(x, x[0, 0], x[0, 1]); xp.negative(x)
xp.add.reduce(x); xp.equal.outer(x[0], x[0]); xp.copyto(x.copy(), x); xp.shape(x); xp.ndim(x); xp.size(x); xp.isfinite(x)
""")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_module_functions_take_the_dtypes_that_numpy_takes(dtype):
    x = np.zeros((2, 3), dtype) if isinstance(dtype, list) or dtype == "V5" else np.arange(6).reshape(2, 3).astype(dtype)
    for call in CALLS:
        assert_as_numpy(outcome(call, frit, x=x), outcome(call, np, x=x), f"{call} of {dtype}")


def test_dtypes_of_numpys_are_its_own_arrays():
    x = np.array(["a", None], object)
    assert frit.asarray(x) is x and frit.asarray(x, copy=False) is x and frit.array(x) is not x
    assert type(frit.asarray(["a", "b"])) is np.ndarray
    assert type(frit.asarray([2**70])) is np.ndarray
    assert type(frit.asarray(np.ones(2, ">f8"), dtype="f8")) is frit.Tensor
    assert type(frit.asarray([T(F4)[0], "a"])) is np.ndarray
    with pytest.raises(TypeError):
        frit.zeros(2, "no such dtype")


# ---- tensors stay tensors

@pytest.mark.parametrize("call", listed("""
xp.linalg.det(f8); xp.linalg.slogdet(f8); xp.linalg.matrix_rank(f8); xp.median(f8); xp.median(f8, axis=0); (-1) ** i8; (-1) ** i8[2]
xp.linalg.cond(f8); xp.percentile(f8, 50); xp.quantile(f8, 0.25); xp.searchsorted(f4, 1.5); xp.trapezoid(f4); xp.linalg.norm(f8)
xp.linalg.eigvalsh(f8)[0]; xp.linalg.multi_dot([f8, f8]); xp.nanmedian(f8); xp.interp(f4[1], f4, f4); xp.vdot(f4, f4); xp.inner(f4, f4)
xp.add.reduce(f4); xp.gcd.reduce(i8); xp.trace(f8); xp.correlate(f4, f4); xp.count_nonzero(f8, axis=0); xp.linalg.inv(f8)
"""))
def test_what_is_computed_of_tensors_is_a_tensor(call):
    got, want = both(call)

    def check(got, want):
        if isinstance(want, tuple):
            assert type(got) is type(want)
            for g, w in zip(got, want):
                check(g, w)
        else:
            assert isinstance(got, frit.Tensor), f"{got!r} of {call}"
            assert_same(got, want, ulp=4, strides=False)
    check(got, want)


def test_elements_of_a_tensor_are_tensors_outside_of_accelerated_functions():
    a, = T(np.arange(1.0))
    b, c = T(np.array([1, 2], "i2"))
    assert all(isinstance(x, frit.Tensor) and x.shape == () for x in (a, b, c))
    assert c.dtype == "i2" and [int(x) for x in T(I8)] == [0, 1, 2, 3] and {b: 1}[1] == 1
    assert [x.shape for x in T(F8)] == [(2,), (2,)]
    x = T(np.zeros(3))
    seen = []
    for i, v in enumerate(x):
        if i < 2:
            x[i + 1] = i + 1
        seen.append(float(v))
    assert seen == [0, 1, 2]            # later writes are seen, as with NumPy's iterator
    assert frit.accelerate(lambda a: [type(v) for v in a])(np.arange(2.0)) == [np.float64] * 2
    assert type(frit.accelerate(lambda a: np.median(a))(np.arange(3.0))) is np.float64


# ---- storing and shapes

@pytest.mark.parametrize("statement", listed("""
t[()] = 3; t[...] = 3; t[()] = np.array(2); t[...] = np.array([[4.0]]); t[()] = np.array([4.0]); t[()] = "a"; t[()] = [1]; t[()] = xp.asarray(5)
t[True] = 3; t[None] = [6]; t[0] = 1; b[0] = np.array([True]); b[0] = xp.asarray(np.array([True])); b[1] = np.array([[1]]); b[0] = np.array([1, 2])
b[0] = xp.asarray(np.array([1, 2])); b[0] = []; b[0] = [3]; v[0] = np.array([True]); v[0] = xp.asarray(np.array([1.0])); v[0] = xp.asarray(2.5)
v[1] = b[0]; i[0] = np.array([1]); i[0] = xp.asarray(np.array([1])); e.shape = (-1, 1); e.shape = (0, 5, 2); e.shape = (3, -1); e.shape = -1
v.shape = (3, 1); v.shape = (-1, 1); v.shape = (2, 2); v.shape = (); b.shape = (0, -1)
"""))
def test_stores_and_shapes(statement):
    def run(xp):
        make = np.array if xp is np else T
        names = {"xp": xp, "np": np, "t": make(np.array(1.0)), "b": make(np.zeros(3, bool)), "v": make(np.zeros(3)),
                 "i": make(np.zeros(3, int)), "e": make(np.zeros(0))}
        try:
            exec(statement, names)
        except Exception as e:
            return e
        return [names[k] for k in "tbvie"]
    assert_as_numpy(run(frit), run(np), statement)


def test_a_number_that_is_stored_into_is_an_array():
    for make in (lambda x: x.sum(), lambda x: x[1], lambda x: x.mean(), lambda x: frit.linalg.det(T(F8)), lambda x: next(iter(x))):
        x = T(np.arange(3.0))
        s = make(x)
        s[()] = 7
        assert float(s) == 7 and s.shape == () and np.asarray(x).tolist() == [0, 1, 2]
        for key in (0, None, True, slice(None)):
            with pytest.raises(TypeError):
                make(x)[key] = 7
    a = np.asarray(T(F4).sum())
    a += 1                              # np.asarray of a number is its caller's
    assert a == 4


@pytest.mark.parametrize("call", listed("""
xp.moveaxis(xp.ones((2, 3, 4)), range(2), [1, 2]); xp.moveaxis(xp.ones((2, 3, 4)), np.array([0, 1]), (2, 0)); xp.moveaxis(f8, 0, 1.0)
xp.moveaxis(xp.ones((2, 3, 4)), iter([0, 1]), {1: 0, 2: 0}); xp.moveaxis(f8, range(3), range(3)); xp.moveaxis(f8, [0, 0], [0, 1]); xp.moveaxis(f8, "a", 0)
xp.flip(f8, [0, 1]); xp.flip(f8, range(2)); xp.flip(f8, (0, 0)); xp.flip(f8, 2); xp.flip(f8, np.int8(1)); xp.flip(f8, ()); xp.flip(xp.asarray(1), 0)
xp.expand_dims(f8, range(2)); xp.expand_dims(f8, [0, 1]); xp.expand_dims(f8, (0, 0)); xp.expand_dims(f8, np.int64(1)); xp.expand_dims(f8, 1.0)
xp.meshgrid(i8, xp.asarray([])); xp.meshgrid(xp.asarray([]), xp.asarray([])); xp.meshgrid(i8, np.array([]), indexing="ij", sparse=True)
xp.meshgrid(); xp.meshgrid(xp.asarray([]), i8, f4, copy=False); xp.array([[1, 2], [3, 4]], ndmax=1); xp.array([[1, 2], [3, 4]], ndmax=2)
xp.array([[1, 2], [3]], dtype=object, ndmax=1); xp.array([1, 2], ndmax=0); xp.array([1, 2], ndmin=2, ndmax=1); xp.array([1, 2], ndmax=99)
xp.array(f8, ndmax=1); xp.array(f8, ndmax=2)
"""))
def test_axes_grids_and_ndmax(call):
    if ("ndmax" not in call or "ndmax" in np.array.__doc__):
        got, want = both(call)
        assert_as_numpy(got, want, call)


# ---- arrays of other classes

class Sub(np.ndarray):
    pass


M, MASKED, SUB = np.asmatrix([[1.0, 2], [3, 4]]), np.ma.masked_array([1.0, 2, 3], [0, 1, 0]), np.arange(3.0).view(Sub)
OF_CLASSES = listed("""
np.exp(MASKED); np.add(MASKED, 1); np.sum(MASKED); np.mean(MASKED); np.cumsum(MASKED); np.clip(MASKED, 1, 2); np.maximum(MASKED, 2)
np.std(MASKED); np.argmax(MASKED); np.sort(MASKED); np.reshape(MASKED, (3, 1)); np.moveaxis(MASKED, 0, 0); np.take(MASKED, [1, 2])
np.sum(M, axis=0); np.multiply(M, M); np.dot(M, M); np.matmul(M, M); np.concatenate([M, M]); np.where(M > 1, M, 0); np.tile(M, 2)
np.transpose(M); np.ravel(M); np.zeros_like(M); np.asarray(M); np.asanyarray(M); np.array(M, subok=True); np.copy(M, subok=True); np.copy(M)
np.vstack([M, M]); np.broadcast_to(M, (2, 2)); np.expand_dims(MASKED, 1); np.add(SUB, 1); np.sum(SUB); np.sqrt(SUB, out=SUB.copy())
np.ones_like(SUB); np.full_like(M, 3); np.equal(SUB, SUB); np.abs(SUB); np.add.outer(SUB, [1, 2]); np.stack([SUB, SUB]); np.array(SUB)
""")


@pytest.mark.parametrize("call", OF_CLASSES)
def test_arrays_of_other_classes_are_numpys(call):
    names = {"M": M, "MASKED": MASKED, "SUB": SUB}
    want = eval(call, {**names, "np": np})
    inside = frit.accelerate(eval(f"lambda x: {call}", {**names, "np": np}))(np.ones(2))
    for got in (inside, eval(call, {**names, "np": frit})):
        if type(want) in (np.ndarray, np.float64, np.int64):
            assert type(got) in (type(want), frit.Tensor)
        else:
            assert type(got) is type(want)
        assert np.shape(got) == np.shape(want) and str(np.ma.asarray(got).tolist()) == str(np.ma.asarray(want).tolist())


@pytest.mark.parametrize("operator", ["x + s", "s + x", "x == s", "s < x", "x @ s", "x * m", "m - x", "x ** s"])
def test_operators_with_arrays_of_other_classes(operator):
    x, s, m = np.arange(3.0), SUB + 1, MASKED
    want = eval(operator, {"x": x, "s": s, "m": m})
    for got in (eval(operator, {"x": T(x), "s": s, "m": m}), frit.accelerate(eval(f"lambda x, s, m: {operator}"))(x, s, m)):
        assert type(got) is type(want) or np.ndim(want) == 0
        assert str(np.ma.asarray(got).tolist()) == str(np.ma.asarray(want).tolist())


# ---- small things of NumPy's own tests

@pytest.mark.parametrize("call", listed("""
xp.array(1, copy="never"); xp.array(1, copy=np._CopyMode.IF_NEEDED); xp.array(1, copy=False); xp.array([1], copy=np._CopyMode.NEVER)
xp.asarray(np.float64(1), copy=False); xp.array(np.int8(1), dtype="u1", copy=False); xp.array(i8, copy=np._CopyMode.ALWAYS)
xp.sum(f8, axis=True); xp.sum(f8, axis=(True,)); xp.reshape(i8, (True, -1)); xp.zeros(True); xp.zeros((True, 2)); xp.full(True, 1)
xp.broadcast_to(f4, (True, 3)); xp.expand_dims(f4, True); xp.flip(f8, True); xp.swapaxes(f8, False, True); xp.mean(f8, axis=True)
xp.clip(f4, 1); xp.clip(f4, a_max=1); xp.clip(f4, 0, 1, min=1); xp.clip(f4, 0, 1, max=None); xp.clip(f4, min=1); xp.clip(f4, max=1); xp.clip(f4)
xp.clip(f4, None, None); xp.vstack(x for x in [f4]); xp.stack(iter([f4])); xp.dstack(x for x in [f4]); xp.reshape()
xp.astype(np.int64(10), "f4"); xp.astype(3, "f4"); xp.astype(f4, "i4"); xp.may_share_memory(i8[::2], i8[1::2]); xp.shares_memory(i8[::2], i8[1::2])
xp.may_share_memory(i8[:2], i8[2:]); xp.may_share_memory(f8[:, 0], f8[:, 1]); xp.may_share_memory(i8[:0], i8); xp.may_share_memory(i8[::-1], i8)
i8[np.True_]; i8[np.False_]; f8[0, np.True_]; f8[np.bool_(1), 0]; i8[np.float64(1)]; f8.flags == np.ones((2, 2)).flags; f8.T.flags == f8.flags
f8.flags["CONTIGUOUS"]; f8.flags["FORTRAN"]; f8.flags.num & 3; i8.sum().astype("O"); f8.to_device("cpu"); f8.to_device("gpu"); f8.to_device(None)
f8.__delattr__("flat"); f8.__delattr__("shape"); xp.diff([1, 2], n=0); xp.empty(3, device="gpu"); i8[Pair([1], )]; f8[Pair(([1], [0]))]; f8[Pair((0, 1))]
xp.hypot(1); xp.add(1, 2, 3, 4); xp.maximum.reduce(i8[0]); xp.bitwise_count(2**64 - 1); xp.add(2**63, 1); xp.sin(2**70); xp.negative(2**63)
xp.full_like(i1, np.int64(1000)); xp.full_like(i1, 1000); xp.full(2, np.int64(1000), "i1"); xp.full(2, np.float64(1.5), "i2"); xp.full(2, 1.5, "i2")
xp.full((2, 2), [1, 2], "f4"); xp.full(2, i1[1]); xp.full(2, np.float32(1.5)); xp.full_like(f4, 2**70); xp.full(2, 1j, "f8"); xp.full_like(f8, f8[0])
xp.require(f8, None, ["C"]); xp.require(f8, "f4", ["F", "W"]); xp.require(f8.T, None, "C"); xp.require(f8, None, ["C", "F"])
"""))
def test_small_things(call):
    class Pair(tuple):
        pass

    want = outcome(call, np, Pair=Pair, **{k: v.copy() for k, v in NAMES.items()})
    assert_as_numpy(outcome(call, frit, Pair=Pair, **{k: T(v) for k, v in NAMES.items()}), want, call)


def test_require_gives_the_tensor_that_has_it():
    x = T(F8)
    assert frit.require(x, None, ["C", "W"]) is x and frit.require(x, None, "F") is not x


@pytest.mark.parametrize("statement", listed("""
r = x.flat[i]; r = x.flat[m]; r = x.flat[:]; r = x.flat[1]; r = x.flat[[0, 2]]; r = x.flat[v[:1]]; r = x.flat[2:].sum(); r = list(x.flat)[2]; r = x.flat[9]
x.flat[i] = 9; x.flat[m] = v[:2]; x.flat[m] = 0; x.flat[1:] = v; x.flat[0] = v[1]; x.flat = v; x.flat[i] = i; x.flat[m] = [1, 2]; x.flat["a"] = 1
r = x.flat == v; r = x.flat < 2; r = np.sum(x.flat); r = np.array(x.flat, dtype="f4"); r = len(x.flat); r = x.flat.copy(); r = next(x.flat)
r = x.flat.index, x.flat.coords; r = [float(e) for e in x.T.flat]; r = np.asarray(x.T.flat); r = x.flat.no_such; del x.flat[0]; r = np.add(x.flat, 1)
"""))
def test_flat(statement):
    def run(x, i, m, v):
        names = {"x": x, "i": i, "m": m, "v": v, "np": np, "r": None}
        try:
            exec(statement, names)
        except Exception as e:
            return e
        return [names["r"], x]
    arrays = [np.arange(4.0).reshape(2, 2), np.array([2, 0]), np.array([True, False, True, False]), np.array([5.0, 6, 7])]
    want = run(*(a.copy() for a in arrays))
    assert_as_numpy(run(*map(T, arrays)), want, statement)
    if not isinstance(want, Exception):
        inside = frit.accelerate(eval("lambda x, i, m, v: run(x, i, m, v)", {"run": run}))(*(a.copy() for a in arrays))
        assert_as_numpy(inside, want, statement)


def test_flat_is_of_its_tensor():
    x = T(np.arange(4.0).reshape(2, 2))
    assert x.flat.base is x and isinstance(x.flat[1:], frit.Tensor)
    x.flat[(x > 2).ravel()] = 0
    assert x.flat[:].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("call", listed("""
f4.clip(1); f4.clip(1, 2); f4.clip(max=1); f4.clip(0, max=1); f4.clip(None, 1); f4.clip(); f4.clip(1, 2, out=f4); f4.clip(0, 1, dtype="f8")
f4.clip(1, 2, 3, 4); f4.clip(a_min=1); f4.clip(2, 1, None); i8.clip(1.5); i8[2].clip(0, 1); f4.clip(1, where=np.array([True, False, True]), out=f4)
xp.zeros((1,) * 40); xp.ones([1] * 64); xp.full((1,) * 33, 2.0).ndim; xp.zeros((1,) * 65); xp.add(xp.ones((1,) * 40), 1); xp.zeros(2**60); xp.ones(2**63 - 1, "u1"); xp.empty((2**40, 2**30)); xp.zeros(2**63); xp.empty((0,) * 34, "i4")
"""))
def test_methods_and_many_axes(call):
    got, want = both(call)
    assert_as_numpy(got, want, call)


def test_sizes_of_objects():
    import sys
    x = frit.ones(1000)
    assert sys.getsizeof(x) >= 8000 > sys.getsizeof(x[1:])


# ---- numbers of classes of their own

class Colour(enum.IntEnum):
    RED = 2


class Whole(int):
    pass


@pytest.mark.parametrize("call", listed("""
f4 * k; k * f4; f4 + k; f4 / k; f4 ** k; i1 + k; u1 * k; f8 // k; f4 < k; i8 << k; xp.add(f4, k); xp.where(b1, k, i1[:2]); f4[1] * k
f4 - big; i1 + big; i8 * huge; xp.maximum(i1, k); xp.full(2, k); xp.asarray(k); f4[k]; xp.clip(i1, 0, k); f4.__imul__(k); xp.power(i1, k)
xp.concatenate([f4, k], axis=None)
"""))
@pytest.mark.parametrize("number", [Colour.RED, Whole(2)])
def test_ints_of_classes_of_their_own_are_int64(call, number):
    extra = {"k": number, "big": Whole(300), "huge": Whole(2**70)}
    want = outcome(call, np, **{k: v.copy() for k, v in NAMES.items()}, **extra)
    got = outcome(call, frit, **{k: T(v) for k, v in NAMES.items()}, **extra)
    assert_as_numpy(got, want, call)


# ---- the Array API's inspection

@pytest.mark.skipif(not hasattr(np, "__array_namespace_info__"), reason="NumPy 2.1 is the first to have it")
def test_array_namespace_info():
    ours, theirs = frit.__array_namespace_info__(), np.__array_namespace_info__()
    assert ours.capabilities() == {**theirs.capabilities(), "max dimensions": 32}
    assert frit.zeros((1,) * 32).ndim == 32
    assert re.fullmatch(r"20\d\d\.12", frit.__array_api_version__) and frit.zeros(1).__array_namespace__() is frit
    assert ours.default_device() == "cpu" == frit.zeros(1).device and ours.devices() == ("cpu",)
    assert ours.default_dtypes() == ours.default_dtypes(device="cpu") == theirs.default_dtypes()
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric", None,
             ("bool", "integral"), ("real floating", "complex floating"), ()]
    for kind in kinds:
        assert ours.dtypes(kind=kind) == ours.dtypes(kind=kind, device="cpu") == theirs.dtypes(kind=kind), kind
    for d in ours.dtypes().values():
        assert frit.zeros(1, d).dtype == d
    for bad in (lambda: ours.dtypes(kind="real"), lambda: ours.dtypes(device="gpu"), lambda: ours.default_dtypes(device="gpu")):
        with pytest.raises(ValueError):
            bad()


# ---- import frit as np

@pytest.mark.parametrize("name", [n for n in dir(np) if isinstance(getattr(np, n), np.ufunc)])
def test_ufuncs_have_their_methods_and_attributes(name):
    ours, theirs = getattr(frit, name), getattr(np, name)
    for attribute in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature"):
        assert getattr(ours, attribute) == getattr(theirs, attribute)
    assert ours.__name__ and ours.__doc__ and ours.__module__ == "frit" and "frit" in repr(ours)
    assert pickle.loads(pickle.dumps(ours)) is ours and copy.deepcopy(ours) is ours
    for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
        assert callable(getattr(ours, method))


@pytest.mark.parametrize("pair", ["abs absolute", "conj conjugate", "mod remainder", "pow power", "acos arccos", "true_divide divide"])
def test_aliases_of_ufuncs_are_the_same(pair):
    a, b = pair.split()
    assert getattr(frit, a) is getattr(frit, b)
    assert "where" in inspect.signature(getattr(frit, a)).parameters


@pytest.mark.parametrize("call", listed("""
xp.add.reduce(f4); xp.add.reduce(f8, axis=1); xp.add.reduce(f8, axis=None, keepdims=True); xp.multiply.reduce(i1); xp.maximum.reduce(f8)
xp.logical_or.reduce(b1); xp.add.accumulate(f4); xp.multiply.accumulate(f8, 1); xp.subtract.accumulate(f4); xp.add.outer(f4, i1)
xp.multiply.outer(f8, f4); xp.add.reduceat(f4, [0, 1]); xp.minimum.reduceat(f8, [0, 1], axis=1); xp.sin.reduce(f4); xp.divide.outer(f4, 2)
xp.bitwise_and.reduce(i1); xp.gcd.reduce(i8[1:]); xp.hypot.reduce(f4); xp.add.reduce([f4, f4]); xp.add.reduce(f4, initial=10, where=f4 > 0)
xp.add.reduce(f4, axis=3); xp.logaddexp.reduce(f8[0]); xp.divmod.outer(i8, 2); xp.less.outer(f4, f4); xp.add.reduce([])
"""))
def test_methods_of_ufuncs(call):
    got, want = both(call)
    if isinstance(want, (np.ndarray, np.generic)):
        assert_same(got, want, ulp=2, strides=False)
    else:
        assert_as_numpy(got, want, call)


def test_ufunc_at_writes_into_arrays():
    x = np.zeros(3)
    frit.add.at(x, [0, 0, 2], 1.0)
    assert x.tolist() == [2, 0, 1]


@pytest.mark.parametrize("call", listed("""
rand(3); rand(); randn(2, 2); random(3); random_sample(2); uniform(1, 2, 3); normal(size=3); randint(0, 9, 4); choice(5, 3); permutation(4)
permutation(xp.arange(4)); choice(xp.arange(4.0), 2); exponential(size=2); beta(1, 2, 3); multivariate_normal([0, 0], [[1, 0], [0, 1]]); bytes(3)
standard_normal((2, 2)); poisson(3, 4); dirichlet([1, 2]); ranf(2); rand(-1); randint(5, 1); choice([]); no_such_name(1); get_state()[0]
"""))
def test_random_has_numpys_names_with_its_streams(call):
    results = []
    for xp in (frit, np):
        xp.random.seed(5)
        results.append(outcome("xp.random." + call, xp))
    assert_as_numpy(*results, call)


def test_random_classes_and_bad_sizes():
    assert frit.random.RandomState is np.random.RandomState
    assert_as_numpy(frit.random.RandomState(3).rand(2), np.random.RandomState(3).rand(2))
    assert frit.random.Generator is not np.random.Generator and frit.random.PCG64 is np.random.PCG64
    assert {"rand", "seed", "philox", "default_rng"} <= set(dir(frit.random))
    rng = frit.random.default_rng(0)
    for draw in (rng.normal, rng.uniform, rng.standard_normal, rng.random, rng.bits, lambda size: rng.integers(5, size=size)):
        for size in (-1, (2, -1), [-3], np.int64(-1)):
            with pytest.raises(ValueError, match="negative"):
                draw(size=size)
        assert draw(size=(0, 2)).shape == (0, 2)


@pytest.mark.parametrize("name", "char ctypeslib dtypes emath exceptions lib ma polynomial rec strings typing".split())
def test_modules_of_numpys(name):
    assert getattr(frit, name) is getattr(np, name) and name in dir(frit)


@pytest.mark.parametrize("name", "linalg.det linalg.svd fft.fft fft.fftshift isdtype random.rand random.permutation linalg.trace gcd".split())
def test_functions_that_are_handed_over_are_known_by_name_and_signature(name):
    ours, theirs = frit, np
    for part in name.split("."):
        ours, theirs = getattr(ours, part), getattr(theirs, part)
    assert pickle.loads(pickle.dumps(ours)) is ours and ours.__name__ == name.rpartition(".")[2] and ours.__doc__
    try:
        want = inspect.signature(theirs)
    except ValueError:
        return
    assert isinstance(theirs, np.ufunc) or inspect.signature(ours) == want


def test_names_that_nobody_has():
    for module in (frit, frit.random, frit.testing, frit.linalg, frit.fft):
        with pytest.raises(AttributeError, match=module.__name__):
            module.no_such_name
    for name in ("os", "sys", "warnings", "_core_", "math"):
        with pytest.raises(AttributeError):
            getattr(frit, name)
    frit.testing.assert_allclose(T(F4), F4)
    with pytest.raises(AssertionError):
        frit.testing.assert_array_equal(T(F4), F4 + 1)


SCRIPT = """
np.random.seed(0)
x = np.random.rand(50, 3)
y = x @ np.array([1.0, -2.0, 0.5]) + 0.1 * np.random.randn(50)
p = np.random.permutation(50)
x, y = x[p], y[p]
centred = x - x.mean(axis=0)
lags = np.lib.stride_tricks.sliding_window_view(y, 5).mean(axis=1)
line = np.polynomial.polynomial.polyfit(np.arange(50.0), np.asarray(y), 1)
masked = np.ma.masked_less(np.asarray(y), 0).mean()
words = np.char.upper(np.array(["a", "b"]))
counts = np.zeros(3)
np.add.at(counts, [0, 0, 2], 1)
table = np.multiply.outer(np.arange(3), np.arange(4))
total = np.add.reduce(table, axis=1), np.add.accumulate(np.arange(5)), np.maximum.reduce(y)
scale = np.finfo(np.float32).eps, np.iinfo("i4").max, np.pi, np.float32(2)
w = np.linalg.lstsq(np.asarray(x), np.asarray(y), rcond=None)[0]
grid = np.mgrid[0:3, 0:2], np.r_[1, 2, 3], np.c_[x[:2], y[:2]]
picked = np.where(y > 0, np.sqrt(np.abs(y)), 0.0)
result = [x, y, lags, line, masked, words, counts, table, *total, *scale, w, grid[0], grid[1], grid[2], picked, centred.std()]
"""


def test_import_frit_as_np_carries_a_script():
    results = []
    for xp in (frit, np):
        names = {"np": xp}
        exec(SCRIPT, names)
        results.append(names["result"])
    for got, want in zip(*results):
        g, w = np.asarray(got), np.asarray(want)
        assert g.dtype == w.dtype and g.shape == w.shape
        assert (g == w).all() if w.dtype.kind in "OSU" else np.allclose(g, w, rtol=1e-12, atol=0)


def test_what_the_standard_calls_functions_with():
    """Signatures that can be asked for, and names that NumPy has not."""
    wanted = {"diff": "axis n prepend append", "isin": "invert", "meshgrid": "indexing", "searchsorted": "side sorter", "unstack": "axis",
              "take_along_axis": "axis", "tensordot": "axes", "vecdot": "axis", "clip": "min max"}
    for name, parameters in wanted.items():
        assert set(parameters.split()) <= set(inspect.signature(getattr(frit, name)).parameters), name
    for f, theirs in (frit.fft.fftfreq, np.fft.fftfreq), (frit.fft.rfftfreq, np.fft.rfftfreq):
        assert f(5, 0.5).tolist() == theirs(5, 0.5).tolist() and f(5, dtype="float32").dtype == np.float32


@pytest.mark.parametrize("k", [2 ** 61, -2 ** 61, 2 ** 63 - 1, -2 ** 63, 2 ** 70, -2 ** 70, 2, -1])
def test_diagonals_beyond_all_that_arrays_have(k):
    x = np.arange(6.0).reshape(2, 3)
    assert frit.eye(2, 3, k=k).tolist() == [[float(j - i == k) for j in range(3)] for i in range(2)]
    assert frit.tril(frit.asarray(x), k).tolist() == [[x[i, j] if j - i <= k else 0 for j in range(3)] for i in range(2)]
    assert frit.triu(frit.asarray(x), k).tolist() == [[x[i, j] if j - i >= k else 0 for j in range(3)] for i in range(2)]
