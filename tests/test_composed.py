"""Functions that NumPy writes in Python of others: on tensors they stay in the graph, with NumPy's bits."""
import sys
import warnings

import numpy as np
import pytest

import frit
from frit import _composed, _core
from tests.common import assert_same

R = np.random.default_rng(5)
X, Y, V = R.standard_normal((6, 8)), R.standard_normal((6, 8)), R.standard_normal(8)
N = np.where(R.random((6, 8)) < 0.3, np.nan, X)
N[:, 2] = np.nan
S = np.where(np.arange(8) == np.arange(6)[:, None], np.nan, X)
B, Z, I = X > 0, X + 1j * Y, R.integers(-50, 50, (6, 8))
K = np.argsort(X, 1)

# name: calls, each (arguments, keywords)
CALLS = {
    "ndim": [((X,), {})],
    "shape": [((X,), {})],
    "size": [((X,), {}), ((X, 1), {})],
    "diff": [((X,), {}), ((X, 2), {"axis": 0}), ((B,), {}), ((I.astype("u1"), 3), {}), ((V,), {"prepend": 1.5})],
    "outer": [((V, X), {}), ((I, V.astype("f4")), {})],
    "meshgrid": [((V, V[:3]), {}), ((V, V[:3]), {"indexing": "ij", "sparse": True})],
    "ptp": [((X,), {}), ((I, 0), {}), ((X, 1), {"keepdims": True})],
    "average": [((X, 0), {}), ((X,), {"axis": 1, "weights": V}), ((I,), {"returned": True})],
    "cross": [((X[:, :3], Y[:, :3]), {}), ((X[:, :2], Y[:, :2]), {}), ((X[:, 0:2], Y[:, :3]), {}),
              ((V[:3], X[0, :3]), {}), ((V[:3], X[:, :3]), {}), ((I[0, :3], I[1, :3]), {}), ((Z[0, :3], Z[1, :3]), {})],
    "rot90": [((X,), {}), ((X, 2), {}), ((X, -1, (1, 0)), {})],
    "gradient": [((V,), {}), ((X, 0.5), {}), ((X,), {"axis": 1, "edge_order": 2})],
    "trapezoid": [((X,), {}), ((X, V), {}), ((X,), {"dx": 0.1, "axis": 0})],
    "select": [(([X > 1, X < 0], [X, Y]), {}), (([B, ~B], [X, 0]), {"default": 2})],
    "ix_": [((K[0], K[1, :3]), {}), ((B[0], K[0]), {}), ((B[0],), {})],
    "extract": [((B, X), {}), ((I, X), {}), ((B[0], V), {})],
    "piecewise": [((X, [X < 0, X > 1], [lambda x: -x, lambda x: x * x, 0.5]), {}), ((X, [B, ~B], [1, -1]), {}),
                  ((X, [B], [lambda x, k: x + k, lambda x, k: x - k], 3), {}), ((V, V < 0, [lambda x: x, 7]), {})],
    "sinc": [((X,), {}), ((np.zeros(3),), {})],
    "angle": [((Z,), {}), ((X,), {"deg": True})],
    "isclose": [((X, Y), {}), ((N, N), {"equal_nan": True}), ((X, X + 1e-9), {})],
    "allclose": [((X, X), {}), ((X, Y), {})],
    "array_equal": [((X, X), {}), ((X, V), {}), ((N, N), {"equal_nan": True})],
    "array_split": [((V, 3), {}), ((X, 3), {"axis": 1})],
    "split": [((X, 2), {}), ((X, [1, 3]), {})],
    "hsplit": [((X, 2), {})],
    "vsplit": [((X, 2), {})],
    "dsplit": [((X.reshape(2, 3, 8), 2), {})],
    "kron": [((V, V), {}), ((X, np.eye(2)), {})],
    "roll": [((X, (1, 2)), {"axis": (0, 1)})],
    "tensordot": [((X, Y), {"axes": ([1], [1])})],
    "append": [((V, V), {}), ((X, Y), {"axis": 0})],
    "take_along_axis": [((X, K, 1), {})],
    "cov": [((X,), {}), ((X, Y), {"ddof": 0})],
    "corrcoef": [((X,), {})],
    "polyval": [(([1.5, 2, 3], X), {})],
    "nan_to_num": [((N,), {}), ((N,), {"nan": 7.0}), ((I,), {}), ((np.array([np.inf, -np.inf, np.nan], "f4"),), {})],
    "isposinf": [((N / 0,), {})],
    "isneginf": [((N / 0,), {})],
    **{name: [((N,), {}), ((N,), {"axis": 0}), ((X, 1), {"keepdims": True}), ((N.astype("f4"), 1), {}), ((I, 0), {})]
       for name in ("nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin")},
    "nanargmax": [((X, 1), {}), ((S, 1), {}), ((S,), {})],
    "nanargmin": [((X, 1), {}), ((S, 1), {}), ((S,), {})],
    "nancumsum": [((N,), {}), ((N, 1), {})],
    "nancumprod": [((N, 0), {})],
    "pad": [((X, 2), {"mode": m}) for m in ("edge", "reflect", "wrap", "symmetric")] + [((X, ((1, 0), (2, 3))), {})],
    "apply_over_axes": [((np.sum, X, [0, 1]), {})],
    "unwrap": [((V * 5,), {}), ((X * 5,), {"axis": 0})],
    "require": [((X,), {}), ((X, "f4", ["C", "W"]), {}), ((X.T, None, "F"), {})],
    "linalg.norm": [((X,), {}), ((X,), {"axis": 1}), ((X, 1), {}), ((X, np.inf), {"axis": 0}), ((Z,), {}),
                    ((V, 3), {})],
    "linalg.vector_norm": [((X,), {}), ((X,), {"axis": 0, "ord": 1})],
    "linalg.matrix_norm": [((X,), {}), ((X,), {"ord": 1})],
    "linalg.outer": [((V, V), {})],
    "linalg.cross": [((X[:, :3], Y[:, :3]), {})],
    "linalg.diagonal": [((X,), {}), ((X,), {"offset": 2})],
    "linalg.trace": [((X,), {})],
    "linalg.matmul": [((X, Y.T), {})],
    "linalg.matrix_power": [((X[:, :6].copy(), n), {}) for n in (0, 1, 2, 3, 7)] + [((I[:, :6], 5), {})],
    "linalg.multi_dot": [(([X, Y.T],), {}), (([V, X.T, Y],), {})],
    "linalg.tensordot": [((X, Y), {}), ((X, Y), {"axes": ([0], [0])})],
}
# Whose steps are frit's own functions with their own last bits, or matrix products.
NOT_EXACT = {"sinc", "angle", "unwrap", "linalg.norm"}
# Among whose steps is one that is NumPy's.
HANDED = {"array_equal", "piecewise"}


def find(module, name):
    for part in name.split("."):
        module = getattr(module, part)
    return module


def tensors(x):
    if isinstance(x, np.ndarray):
        return frit.asarray(x)
    return type(x)(map(tensors, x)) if type(x) in (list, tuple) else x


def same(got, want, name):
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w, name)
    elif isinstance(want, (int, np.bool)):
        assert type(got) is type(want) and got == want
    elif name in NOT_EXACT:
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-13, atol=1e-13)
        assert np.asarray(got).dtype == np.asarray(want).dtype
    else:
        assert_same(got, want)


def test_each_is_called():
    """Of what NumPy has in this version."""
    assert CALLS.keys() == set(_composed.named("composed"))


@pytest.mark.parametrize("name", CALLS)
def test_numpys_bits_from_the_graph(name):
    for args, kwargs in CALLS[name]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = find(np, name)(*args, **kwargs)
            before = sum(frit.stats()["fallbacks"].values())
            given = [tensors(a) for a in args], {k: tensors(v) for k, v in kwargs.items()}
            got, by_protocol = find(frit, name)(*given[0], **given[1]), find(np, name)(*given[0], **given[1])
            handed = sum(frit.stats()["fallbacks"].values()) - before
        same(got, want, name)
        same(by_protocol, want, name)
        assert name in HANDED or not handed, (args, kwargs, frit.stats()["fallbacks"])


VIEWS = [lambda a: a, lambda a: a.T, lambda a: a[::2, 1:], lambda a: a[0], lambda a: a[:, :0], lambda a: a[::-1]]


def both(f, *arrays):
    """What f gives for arrays and for tensors, an exception's type and text among it, and what has become of the first."""
    found = []
    for given in ([np.array(a) if isinstance(a, np.ndarray) else a for a in arrays], [tensors(a) for a in arrays]):
        try:
            found.append((f(*given), given[0]))
        except Exception as e:
            found.append(((type(e), str(e)), given[0]))
    (want, a), (got, t) = found
    if isinstance(want, tuple) or want is None:
        assert got == want, arrays
    else:
        assert_same(got, want, what=arrays)
        assert [s for s, n in zip(got.strides, want.shape) if n > 1] == [s for s, n in zip(want.strides, want.shape) if n > 1]
        assert got.flags.writeable == want.flags.writeable
    assert_same(t, a)


@pytest.fixture
def alone():
    before = frit.stats()["fallbacks"]
    yield
    assert frit.stats()["fallbacks"] == before


@pytest.mark.parametrize("dtype", ["f8", "i4", "?", "c8"])
def test_windows_that_slide(dtype, alone):
    swv = np.lib.stride_tricks.sliding_window_view
    for view in VIEWS:
        for shape, axis in ((3, None), ((2, 3), None), (2, 0), ((2, 2), (0, 0)), ((1, 2), (1, 0)), (1, -1), (9, 0), ((), ()), (-1, 0)):
            both(lambda a: swv(view(a), shape, axis), X.astype(dtype))
            both(lambda a: swv(view(a + a), shape, axis).sum(-1), X.astype(dtype))
    t = frit.asarray(X)
    w = swv(t, (2, 2))
    t[0, 1] = 5
    assert w[0, 0, 0, 1] == 5 and w[0, 1, 0, 0] == 5
    with pytest.raises(ValueError):
        w[0] = 1


def test_windows_that_slide_fuse():
    def f(x):
        return np.lib.stride_tricks.sliding_window_view(x * 1.5 + 1, (3, 3)).max(axis=(2, 3)) * 2
    g, x = frit.accelerate(f), R.standard_normal((60, 70))
    for _ in range(6):
        assert_same(g(x), f(x))
    assert g.stats.fallbacks == 0 and g.stats.syncs == 0 and g.stats.calls == 6


def test_compress(alone):
    for axis in (None, 0, 1, -1):
        n = 48 if axis is None else X.shape[axis]
        for m in (np.arange(n) % 3 == 0, np.zeros(n, bool), np.ones(n - 1, bool)):
            for a in (X, I, B, Z, X.T.copy().T):
                both(lambda x, c: np.compress(c, x, axis), a, m)


def test_what_is_put_by_masks(alone):
    for a in (X, X.astype("f4"), Z):
        for v in (1.5, [2.5], 3, [4]):
            both(np.place, a, B, v)
            both(np.putmask, a, B, v) if type(v) is not list else None
        both(np.putmask, a, B, (Y * 2).astype(a.dtype))
        both(lambda x: np.putmask(x[::2], x[::2] > x[1::2], x[1::2]), a)
    both(np.place, I, B, 3)
    both(np.putmask, I, B, I * 2)
    both(np.putmask, B, B, ~B)


def test_what_is_put_by_numpy():
    for v in ([1.0, 2.0], [], np.arange(3.0), 1e300, True, "x", None, 2j, np.ones((6, 8), "f4"), np.ones(9)):
        for f in (np.place, np.putmask):
            both(f, X, B, v)
            both(f, I, B, v)
            both(f, X, B[0], v)
    both(np.place, X, B.astype(int), 2.0)


def test_choose():
    k = I % 3
    before = frit.stats()["fallbacks"]
    for a in (X, X.astype("f4"), I, B, Z):
        both(np.choose, k, [a, a + a, a * a])
        both(np.choose, k % 2, (a, ~a if a.dtype == bool else -a))
        both(np.choose, k * 0, [a])
    assert frit.stats()["fallbacks"] == before
    for choices in ([X, Y], [X, 1, 2], [X, I, Y], [X.T.copy().T, Y, X], [V, X, Y], []):
        both(np.choose, k, choices)
    both(np.choose, -k, [X, Y, X])
    both(lambda j: np.choose(j, [X, Y], mode="wrap"), k)


def test_what_is_numpys_after_all():
    before = frit.stats()["fallbacks"].get("nan_to_num", 0)
    assert_same(frit.nan_to_num(frit.asarray(N * 1j)), np.nan_to_num(N * 1j))
    assert frit.stats()["fallbacks"]["nan_to_num"] == before + 1
    wide = np.broadcast_to(V, (2, 4, 8))
    assert_same(frit.nanmax(frit.broadcast_to(frit.asarray(V), (2, 4, 8)), axis=1), np.nanmax(wide, axis=1))
    assert_same(frit.cross(frit.asarray(V[:3]), frit.asarray(Y[0, :3])), np.cross(V[:3], Y[0, :3]))


def test_an_array_instead_of_a_scalar():
    t = frit.asarray(V).sum()
    assert t._is_scalar() and (t + 1)._is_scalar() and not frit.add(t, 1, out=...)._is_scalar()


def test_errors_are_numpys():
    for name, args in (("diff", (X, -1)), ("cross", (X, Y)), ("split", (X, 5)), ("rot90", (V,)), ("gradient", (V[:1],)),
                       ("nanargmax", (N, 0)), ("average", (X, None, V[:3]))):
        with pytest.raises(Exception) as theirs:
            find(np, name)(*args)
        with pytest.raises(theirs.type) as ours:
            find(frit, name)(*map(tensors, args))
        assert str(ours.value) == str(theirs.value)


def test_warnings_are_numpys():
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        frit.nanmean(frit.asarray(N), 0)


NANS = np.full((3, 4), np.nan)
WARNED = [(NANS,), (NANS * 1j,), (np.zeros((3, 4)),), (np.empty((0, 4)),), (np.array([[1.0, np.inf, -np.inf, np.nan]] * 3),),
          (np.ones((1, 4)), np.ones((1, 4))), (np.full((3, 4), 1e308), 2)]
FURTHER = [{}, {"axis": 0}, {"axis": 1}, {"axis": 0, "ddof": 9}, {"axis": 1, "keepdims": True}, {"axis": 0, "out": np.empty(4)},
           {"initial": 1.0}, {"ddof": 5}]


def said(call, args, kwargs):
    """What is said, and where. Of a line inside NumPy at which arithmetic warns, frit says the user's instead."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            np.asarray(call(*args, **kwargs))
        except Exception:
            return None
    return [(w.category, str(w.message), "encountered in" in str(w.message) or (w.filename, w.lineno)) for w in said]


@pytest.mark.parametrize("name", CALLS)
def test_whoever_calls_them_is_warned(name):
    """The first time as later: nothing of ours stands between the caller and what NumPy has written."""
    def call(*args, **kwargs):
        return find(np, name)(*args, **kwargs)
    accelerated = frit.accelerate(call)
    for args in WARNED:
        for kwargs in FURTHER:
            if (want := said(call, args, kwargs)) is None:
                continue
            for f, given, more in [(call, [tensors(a) for a in args], {k: tensors(v) for k, v in kwargs.items()}),
                                   (accelerated, args, kwargs)]:
                _composed.table.update(_composed._table())
                assert said(f, given, more) == said(f, given, more) == want, (args, kwargs)


def test_composed_functions_fuse():
    def f(x):
        return np.diff(x, axis=0) * 2 + np.outer(x[0, 1:200], x[0])
    g, x = frit.accelerate(f), R.standard_normal((200, 300))
    for _ in range(6):
        assert_same(g(x), f(x))
    assert g.stats.fallbacks == 0 and g.stats.kernels == 1 and g.stats.calls == 6


def test_composed_functions_are_the_line_that_called_them():
    def f(x):
        return np.diff(x)
    assert "test_composed.py" in (text := frit.explain(f)(X)) and "numpy" not in text


@pytest.mark.parametrize("name, written", [("ptp", []), ("diff", ["diff", "convert"]), ("nan_to_num", ["nan_to_num"]),
                                           ("outer", ["outer", "convert", "convert"])])
def test_from_the_second_call_on_nothing_stands_between(name, written):
    """And what is NumPy's own for the same: the functions in Python that are called, by name."""
    args, calls = [frit.asarray(V)] * (1 + (name == "outer")), []
    getattr(frit, name)(*args)
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        getattr(frit, name)(*args)
    finally:
        sys.setprofile(None)
    assert calls == written


def test_what_is_chosen_before_it_is_called_is_ours():
    frit.diff(frit.asarray(V))
    constants = _composed.table[np.diff].__code__.co_consts
    assert _core.subtract in constants and _core.not_equal in constants


@pytest.mark.parametrize("dtype", "? i1 i4 u8 f2 f4 f8".split())
def test_nan_to_num_chooses(dtype):
    a = (R.standard_normal((5, 6, 7)) * 50).astype(dtype)
    if dtype[0] == "f":
        a[::2, 1], a[1, ::3], a[:, 4, ::2], a[0, 0], a[4, 3] = np.nan, np.inf, -np.inf, -0.0, -np.float64(np.nan)
    before = sum(frit.stats()["fallbacks"].values())
    for view in (lambda x: x, lambda x: x.T, lambda x: x[::-1, ::2], lambda x: x.transpose(1, 0, 2)[:, :, 3:], lambda x: x[:0],
                 lambda x: np.broadcast_to(x[:, :1], (5, 6, 7)), lambda x: x[2, 1, :1], lambda x: x[1, 1, 1:2].reshape(())):
        x, t = view(a), view(frit.asarray(a))
        got, want = frit.nan_to_num(t), np.nan_to_num(x)
        assert_same(got, want)
        assert got.strides == want.strides and not np.shares_memory(np.asarray(got), np.asarray(t))
        kernels = frit.stats()["kernels"]
        with frit.config(eager_elems=0):
            frit.eval(frit.nan_to_num(t))
        assert frit.stats()["kernels"] - kernels <= 1
        for given in ({"nan": 7.0}, {"posinf": 3}, {"neginf": -2.5, "nan": 1}, {"copy": False}):
            assert_same(frit.nan_to_num(frit.asarray(x.copy()), **given), np.nan_to_num(x.copy(), **given))
    assert sum(frit.stats()["fallbacks"].values()) == before


@pytest.mark.parametrize("dtype", "i1 u1 i4 i8 f2 f4 f8 c8 c16 ?".split())
def test_peak_to_peak(dtype):
    a = (R.standard_normal((4, 5, 6)) * 90).astype(dtype)
    b = a.copy()
    if dtype[0] in "fc":
        b[1, 2], b[3, :, 2] = np.nan, np.inf
    for x in (a, b, a[:, ::2], b.T, a[:0], a[1, 2, 3:4].reshape(())):
        for given in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": ()}, {"axis": 5}, {"keepdims": True}):
            found = []
            for v in (x, frit.asarray(x)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        found.append(np.ptp(v, **given))
                    except Exception as e:
                        found.append(e)
            want, got = found
            if isinstance(want, Exception):
                assert type(want) is type(got) and (dtype == "?" or str(want) == str(got))
            else:
                assert_same(got, want)
                assert got._is_scalar() == (not isinstance(want, np.ndarray))
    if dtype != "?":
        out, want = frit.zeros((5, 6), dtype=dtype), np.zeros((5, 6), dtype)
        assert frit.ptp(frit.asarray(a), 0, out) is out
        assert_same(out, np.ptp(a, 0, want))


def test_what_only_counts_as_a_dtype_is_not_computed():
    t = frit.asarray(X) + 1
    evals = frit.stats()["evals"]
    assert np.result_type(t, np.int8) == np.float64 and not np.iscomplexobj(t) and np.isrealobj(t)
    assert frit.stats()["evals"] == evals


# ---- copyto

@pytest.mark.parametrize("dst", ["f4", "f8", "i4", "u1", "?", "c16"])
def test_copyto(dst):
    sources = [1, 1.5, 300, -1, True, 2j, np.float64(1.25), np.int64(300), X, V, I, B, Z, X[:, :1], X[0, :3], np.nan]
    masks = [True, B, B[0], B[:, :1], np.True_, 1, np.ones((2, 6, 8), bool)]
    for casting in ("same_kind", "unsafe", "no"):
        for src in sources:
            for mask in masks:
                def run(xp, convert):
                    x = convert(X.astype(dst) if dst != "c16" else Z.copy())
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        try:
                            assert xp.copyto(x, convert(src), casting=casting, where=convert(mask)) is None
                        except Exception as e:
                            return type(e), str(e)
                    return np.array(x)
                want = run(np, lambda a: a)
                got = run(frit, lambda a: frit.asarray(a) if isinstance(a, np.ndarray) and a.ndim else a)
                assert type(want) is type(got) and (want == got if isinstance(want, tuple) else
                                                    np.array_equal(want, got, equal_nan=dst not in "i4u1?")), (src, mask)


def test_copyto_of_overlapping_windows():
    a, t = V.copy(), frit.asarray(V)
    np.copyto(a[1:], a[:-1], where=B[0, 1:])
    frit.copyto(t[1:], t[:-1], where=frit.asarray(B[0, 1:]))
    assert_same(t, a)


@pytest.mark.parametrize("name", ["add", "multiply", "divide", "floor_divide"])
def test_unsafe_casting_into_what_takes_it_anyway(name):
    for a, b, out in (("f8", "f4", "f8"), ("f4", "i4", "f8"), ("i4", "i4", "f8"), ("f8", "f8", "f4"), ("f8", "f8", "i4"),
                      ("i8", "i8", "i4")):
        x, y = (np.abs(X) * 9 + 1).astype(a), (np.abs(Y) * 9 + 1).astype(b)
        want, got = np.zeros(X.shape, out), frit.zeros(X.shape, dtype=out)
        before = frit.stats()["fallbacks"].get(name, 0)
        getattr(np, name)(x, y, out=want, casting="unsafe")
        getattr(frit, name)(frit.asarray(x), frit.asarray(y), out=got, casting="unsafe")
        assert_same(got, want)
        assert frit.stats()["fallbacks"].get(name, 0) == before + (out[0] == "i")


@pytest.mark.parametrize("name", ["nanmax", "nanmin"])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "?"])
def test_extremes_of_what_is_no_nan(name, dtype):
    """Slices of nothing but NaNs, of infinities, with a first value, of some of the elements; and the warnings."""
    x = (np.random.default_rng(1).standard_normal((6, 7, 4)) * 3).astype(dtype)
    if dtype[0] == "f":
        x[x > 2], x[2], x[3, 1], x[3, 2] = np.nan, np.nan, -np.inf, np.inf
        x[4, 1, 1:], x[5, 2, :3] = np.nan, -np.inf
    for axis in (None, 0, 1, 2, (0, 2)):
        for given in ({}, {"keepdims": True}, {"initial": 0}, {"initial": 1, "where": x > 0}):
            found = []
            for a in (x, frit.asarray(x)):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    r = getattr(np, name)(a, axis=axis, **given)
                found.append((r, [(str(w.message), w.category, w.filename, w.lineno) for w in told]))
            assert_same(found[1][0], found[0][0], what=(name, dtype, axis, given))
            assert found[1][1] == found[0][1]


def test_functions_that_copy_read_only_arrays_get_others(monkeypatch):
    """And nobody can write into a tensor that somebody keeps such an array of."""
    kept, correlate = [], np._core.numeric.multiarray.correlate

    def spy(a, v, mode):
        kept.append((a, a.flags.writeable))
        return correlate(a, v, mode)
    monkeypatch.setattr(np._core.numeric.multiarray, "correlate", spy)
    t = frit.asarray(np.arange(100.0))
    assert_same(np.convolve(t, np.ones(5)), np.convolve(np.arange(100.0), np.ones(5)))
    assert kept[0][1] and not kept[0][0].flags.writeable
    assert_same(np.bincount(frit.asarray(np.arange(10))), np.ones(10, "i8"))


# ---- SciPy's functions that are written in Python

def wide_range(shape, dtype):
    a = (np.random.default_rng(2).standard_normal(shape) * 8).astype(dtype)
    a[0, 0], a[1, :3], a[2], a[3, 1] = np.inf, -np.inf, -np.inf, np.nan
    a[4] = a[4, 0]
    return a


def compared(f, args, ulp, composed=True):
    """f as it is and accelerated: the same, warnings among it, and nothing is handed over the second time."""
    fast, found = frit.accelerate(f), []
    for g in (f, fast, fast):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                result = g(*args)
            except Exception as e:
                result = type(e)
        found.append((result, {(w.category, str(w.message)) for w in heard}))
    for got, said_by_ours in found[1:]:
        want, said_by_theirs = found[0]
        assert type(got) is type(want)
        if isinstance(want, type):
            assert got is want
            continue
        for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
            if isinstance(w, (np.ndarray, np.generic)) and w.dtype != object:
                assert_same(g, w, ulp=ulp)
            else:
                assert np.array_equal(g, w) if isinstance(w, np.ndarray) else g == w
        assert said_by_ours == said_by_theirs
        assert isinstance(want, tuple) or np.asarray(got).flags.c_contiguous == np.asarray(want).flags.c_contiguous
    assert not composed or fast.stats.fallbacks == 0 == fast.stats.syncs


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_softmax_of_scipy(name):
    special = pytest.importorskip("scipy.special")
    called = getattr(special, name)
    for dtype, ulp in (("f8", 64), ("f4", 64)):       # of differences of the logarithms of sums
        a = wide_range((7, 9), dtype)
        b = a[5:] * 0.25
        for x, given in ((a, {"axis": 1}), (a, {"axis": -1}), (b, {"axis": 0}), (b, {}), (b.T, {"axis": 1}), (b[0], {"axis": 0}),
                         (b[:, ::2], {"axis": (0, 1)}), (np.zeros((3, 4), dtype), {"axis": 1}), (b * 100, {"axis": 1})):
            compared(lambda x, given: called(x, **given) + 0, (x, given), ulp)
            compared(lambda x, given: called(x * 0.5, **given) * 2, (x, given), ulp)
    for x, given in ((I, {"axis": 1}), (X[:0], {"axis": 0}), (X, {"axis": 5}), (Z, {"axis": 1}), ([1.0, 2.0], {}), (X.tolist(), {"axis": 1})):
        compared(lambda x, given: called(x, **given), (x, given), 4, composed=False)
    compared(lambda x: special.softmax(x * 2, axis=0) * special.log_softmax(x, 1) + special.logsumexp(x), (X,), 16)
    if name == "logsumexp":
        compared(lambda x: called(x * 0.5, axis=1, keepdims=True) + 1, (X,), 8)
        compared(lambda x: called(x * 0.5, axis=1, b=x), (X,), 8, composed=False)
        compared(lambda x: called(x * 0.5, return_sign=True)[0], (X,), 8, composed=False)


def test_normal_distribution_of_scipy():
    norm = pytest.importorskip("scipy.stats").norm
    a = wide_range((7, 9), "f8")
    q = np.concatenate([np.linspace(0, 1, 21), [-0.5, 1.5, np.nan, np.inf, 1e-300, 1 - 1e-16]])
    for x in (a, a.astype("f4"), a[0], -a):
        for more in ((), (1,), (0.5, 2.5)):
            compared(lambda x, more: norm.pdf(x * 1.5, *more) + 0, (x, more), 8)
            compared(lambda x, more: norm.logpdf(x, *more) + 0, (x, more), 0)
            compared(lambda x, more: norm.cdf(x * 1.5, *more) * 2, (x, more), 0, composed=False)
    compared(lambda q: norm.ppf(q * 1, loc=2, scale=3) + 0, (q,), 0, composed=False)
    compared(lambda q: norm.ppf(q * 1) + 0, (q,), 0, composed=False)
    for given in ({"scale": 0}, {"scale": -1.0}, {"scale": np.arange(9.0)}, {"loc": np.nan}, {"nothing": 1}):
        for f in (norm.pdf, norm.cdf, norm.logpdf):
            compared(lambda x, given: f(x * 1.5, **given), (a, given), 8, composed=False)
    compared(lambda x: norm.pdf(x.sum()), (X,), 8, composed=False)
    compared(lambda x: norm(1, 2).pdf(x * 2), (X,), 8, composed=False)
    before = frit.stats()["fallbacks"].get("ndtr", 0)
    g = frit.accelerate(lambda x: norm.cdf(x * 1.5, 1, 2) * 2)
    for _ in range(3):
        g(X)
    assert g.stats.fallbacks == 1 and frit.stats()["fallbacks"]["ndtr"] == before + 3


def test_a_few_bins():
    x = np.random.default_rng(9).standard_normal((70, 80))
    x[0, :9], x[1, :9], x[2, :4] = [0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1, -1, -np.nan], 0.5, 1
    bins = [np.array([-1, 0, 0.5, 0.5, 1]), [0.5], [-0.0], np.linspace(-2, 2, 24), (-1.0, 1.0)]
    before = frit.stats()["fallbacks"]
    for b in bins:
        for y in (x, x.ravel(), x[:60]):
            compared(lambda y: np.digitize(y * 1, b) * 2, (y,), 0)
            compared(lambda y: np.digitize(y * 1, b, right=True) * 2, (y,), 0)
            compared(lambda y: np.searchsorted(b, y * 1) + 0, (y,), 0)
            compared(lambda y: np.searchsorted(b, y * 1, side="right") + 0, (y,), 0)
    assert frit.stats()["fallbacks"] == before
    for b in ([1.0, 0, -1], [np.nan], [0, np.nan], [0, 1], np.arange(30.0), [], [[1.0]], [0.0, 2, 1], 0.5, np.array([0.0, 1], "f4"), ["a"]):
        for y in (x, x.T, x[:3], x.astype("f4"), x > 0):
            for right in (True, False, 1):
                compared(lambda y: np.digitize(y * 1, b, right), (y,), 0, composed=False)
            for side in ("left", "right", "no"):
                compared(lambda y: np.searchsorted(b, y * 1, side), (y,), 0, composed=False)
    compared(lambda y: np.digitize(y * 1, np.linspace(y.min(), y.max(), 5)), (np.abs(x[3:]),), 0, composed=False)


def test_a_few_lines():
    x = np.random.default_rng(9).standard_normal((70, 80))
    x[0, :9], x[1, :9], x[2, :4] = [0, -0.0, np.nan, np.inf, -np.inf, 0.5, 1, -1, -np.nan], 0.5, 1
    lines = [([-1.0, 0, 0.5, 1], [0.5, 2, -3, 1e3]), (np.linspace(-2, 2, 24), np.random.default_rng(1).standard_normal(24)),
             (np.array([-0.0, 1]), np.array([0.0, 0])), ((-1e-300, 1.0), (1.0, 1e-300)), ([0.0, 1e-310], [0.0, 1e-310])]
    before = frit.stats()["fallbacks"]
    for xp, fp in lines:
        for y in (x, x.ravel(), x[:60]):
            compared(lambda y: np.interp(y * 1, xp, fp) * 2, (y,), 0)
            compared(lambda y: np.interp(y * 1, xp, fp, left=-7.0, right=0.25) * 2, (y,), 0)
            compared(lambda y: np.interp(y * 1, xp, fp, -0.0), (y,), 0)
    assert frit.stats()["fallbacks"] == before
    for xp, fp in (([0.0, 1], [-0.0, 1]), ([1.0, 0], [1.0, 2]), ([0.0, 0], [1.0, 2]), ([0.0, np.inf], [0.0, 1]), ([0.0, 1], [0.0, np.nan]),
                   ([0.0, 1], [0.0, np.inf]), ([0.0, 1, 2], [0.0, 1]), ([0, 1], [0, 1]), ([0.5], [2.0]), ([], []), ([0.0, 1], [1j, 2]),
                   ([0.0, 1e-320], [0.0, 1e300]), (np.arange(40.0), np.arange(40.0)), ([[0.0, 1]], [[0.0, 1]])):
        for y in (x, x.T, x[:3], x.astype("f4")):
            compared(lambda y: np.interp(y * 1, xp, fp), (y,), 0, composed=False)
            compared(lambda y: np.interp(y * 1, xp, fp, left=1, period=2.5), (y,), 0, composed=False)


# ---- np.c_ and np.r_

def test_what_is_put_together_by_items(alone):
    one, two = np.ones(6), np.arange(6, dtype="i4")
    for x in (V[:6], X, X.T[:6], X.astype("f4"), I, B[:, 0], Z):
        compared(lambda x: (np.c_[x, x + x] + 0, np.c_[one[:len(x)], x * x] * 1, np.c_[x]), (x,), 0)
        compared(lambda x: np.c_[two, x[:6], one] + 0, (x,), 0)
        compared(lambda x: np.r_[x, x + x] + 0, (x,), 0)
    for x in (V, V.astype("f4"), I[0], B[0], Z[0]):
        compared(lambda x: np.r_[x, 0, 1.5, x * x, True] + 0, (x,), 0)
        compared(lambda x: np.r_[0, x] + 0, (x,), 0)
        compared(lambda x: np.r_[x[-1:], x, x[:1], [1, 2]] * 2, (x,), 0)
        compared(lambda x: np.r_[x.sum(), x] + np.r_[x, np.float32(2)], (x,), 0)
        compared(lambda x: np.c_[x[None], 5] + 0, (x,), 0)


def test_what_is_put_together_as_numpy_does():
    for f in (lambda x: np.r_[x, 1:4, 0:1:3j], lambda x: np.r_["-1", x, x], lambda x: np.r_["0,2", x, x], lambda x: np.c_[x, x[:3]],
              lambda x: np.r_[x, x[None]], lambda x: np.r_[x.astype("i1"), 300], lambda x: np.r_[[x, x]], lambda x: np.c_[[x, x]],
              lambda x: np.r_[x, "a"], lambda x: np.r_[x, 2**70], lambda x: np.r_[x, [2**70]], lambda x: np.r_[1:5] + np.r_[x[:4]],
              lambda x: np.r_[x, np.matrix([1.0, 2.0])], lambda x: np.r_[x, None], lambda x: (len(np.c_), np.r_.axis, np.r_.__class__)):
        compared(lambda x, f: f(x * 1), (V, f), 0, composed=False)
    compared(lambda x: np.r_[x.astype("i1"), 300], (V,), 0, composed=False)
    compared(lambda x: np.c_[x, x[:3]], (V,), 0, composed=False)
    compared(lambda x: np.r_[x, 1:4, 0:1:3j] + 0, (V,), 0, composed=False)
    compared(lambda x: np.r_[[x, x]] + 0, (V,), 0, composed=False)
    compared(lambda x: np.r_[x, 2**70], (V,), 0, composed=False)
    compared(lambda x: np.r_[x, None], (V,), 0, composed=False)


# ---- np.mgrid and np.ogrid

GRIDS = [lambda: np.mgrid[0:3, 0:4], lambda: np.mgrid[-1.5:2:0.25, 5:1:-1, :3], lambda: np.mgrid[-1:1:5j, 0:1:4j],
         lambda: np.mgrid[0:5:1j, 0:3], lambda: np.mgrid[3:3, 0:2], lambda: np.mgrid[0:3,], lambda: np.mgrid[0:7:2, 1:9:3] * 2,
         lambda: np.mgrid[0:0.3:0.1, 0:2**53], lambda: np.ogrid[0:3, 0:4], lambda: np.ogrid[-1.5:2:0.25, 5:1:-1, :3],
         lambda: np.ogrid[-1:1:5j, 0:1:4j], lambda: np.ogrid[0:5:1j, 0:3], lambda: np.ogrid[0:3,], lambda: np.ogrid[3:3, 0:2]]
THEIR_GRIDS = [lambda: np.mgrid[5:3, 0:2], lambda: np.mgrid[0:3:0, 0:2], lambda: np.mgrid[0:3], lambda: np.mgrid[0:"a", 0:2],
               lambda: np.mgrid[1, 2], lambda: np.mgrid[0:np.float32(2), 0:np.int8(3)], lambda: np.mgrid[0:2**60:2**59, 0:2],
               lambda: np.mgrid[:, 0:2], lambda: np.mgrid[0:1j, 0:2], lambda: np.ogrid[5:3, 0:2], lambda: np.ogrid[0:3],
               lambda: np.ogrid[0:True, 0:2], lambda: np.ogrid[0:3:-1, 0:2], lambda: np.ogrid[()], lambda: np.mgrid.sparse]


@pytest.mark.parametrize("f", [*GRIDS, *THEIR_GRIDS])
def test_grids(f):
    for g in (f, frit.accelerate(f), frit.accelerate(lambda: f())):
        found = []
        for h in (f, g):
            try:
                found.append(h())
            except Exception as e:
                found.append((type(e), str(e)))
        want, got = found
        assert type(got) is type(want)
        if isinstance(want, tuple) and want and isinstance(want[0], np.ndarray):
            for w, x in zip(want, got, strict=True):
                assert_same(x, w)
                assert x.flags.writeable and [p for p, n in zip(x.strides, x.shape) if n > 1] == [p for p, n in zip(w.strides, w.shape) if n > 1]
        elif isinstance(want, np.ndarray):
            assert_same(got, want)
            assert got.flags.writeable and got.strides == want.strides
        else:
            assert got == want


def test_grids_are_in_the_graph():
    def f(n, x):
        j, i = np.ogrid[0:n, 0:n]
        v, u = np.mgrid[-1:1:n * 1j, 0:n]
        return (i - 3)**2 + (j - 5)**2 * x + u * v
    g, x = frit.accelerate(f), R.standard_normal((30, 30))
    for _ in range(4):
        assert_same(g(30, x), f(30, x))
    assert g.stats.fallbacks == 0 == g.stats.syncs
