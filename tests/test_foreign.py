"""Callables of others get real arrays and numbers from accelerated functions, whatever they do with them; the judge is the
function as it is, on copies of the same input."""
import array
import base64
import collections.abc
import csv
import ctypes
import functools
import hashlib
import io
import json
import pickle
import struct
import statistics
import sys
import threading
import types
import zlib

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.sparse
import scipy.special
from scipy.ndimage import gaussian_filter

import frit
from frit import _outside

from .test_numbers import outcome, raised

pytestmark = pytest.mark.core

X, N, M = np.array([3.0, 1.5, 2.25]), np.array([3, 1, 2]), np.arange(12.0).reshape(3, 4)
MATRIX = np.asmatrix([[1.0, 2.0, 3.0]])


class Theirs:
    """Stands for what was installed: a module whose functions ask what C would ask."""

    def __init__(self):
        self.module = types.ModuleType("frit_test_theirs")
        self.kept = []

        def exact(*args, **kwargs):
            return [type(v).__name__ for v in (*args, *kwargs.values())]

        def inner(x):
            return [type(v).__name__ for v in x]

        def twice(x):
            x *= 2

        def keep(x):
            self.kept.append(x)

        def fail(x):
            raise KeyError(type(x[0]).__name__)

        def reverse(x):
            x.reverse()

        class Row:
            def __init__(self, *values):
                self.types = [type(v).__name__ for v in values]

            def __getitem__(self, key):
                return type(key).__name__

            def __setitem__(self, key, value):
                self.types += [type(key).__name__, type(value).__name__]
        made = (exact, inner, twice, keep, fail, reverse, Row)
        for f in made:
            f.__module__ = "xml.theirs"       # of Python's library, as far as its name tells
        self.module.__name__ = "xml.theirs"
        self.module.__dict__.update({f.__name__: f for f in made}, same=lambda x: x, sub=types.ModuleType("xml.theirs.sub"),
                                    constant=3.0)
        self.module.sub.exact = exact


T = Theirs()
theirs = T.module
exact, partial_exact = theirs.exact, functools.partial(theirs.exact, 1)
ROW = theirs.Row()


def in_cell():
    inner = theirs.exact
    return lambda x, n, m: inner(x, x.mean())


def writes(x, n, m):
    y = x + 1
    z, total = y * 2, y.sum()
    theirs.twice(y)
    theirs.twice(x)
    theirs.twice(m[1:, ::2])
    return y, z, total, x, m


def in_place(x, n, m):
    held = [x, m, x.sum()]
    theirs.reverse(held)
    d = {"x": x, "l": held}
    return theirs.inner(held), len(held), held[2] is x, d["l"] is held, theirs.inner(d.values()), theirs.inner(d["l"])


def fails(x, n, m):
    held = [x * 2]
    y = held[0]
    try:
        theirs.fail(held)
    except KeyError as e:
        return e.args, held[0] is y


def loop(x, n, m):
    held = []
    held += [held, held, x]
    return theirs.exact(held), theirs.inner(held), raised(json.dumps, held)


def threads(x, n, m):
    out = []
    t = threading.Thread(target=lambda a: out.append(type(a).__name__), args=(x * 2,))
    t.start()
    t.join()
    return out


def minimum(x, n, m):
    r = scipy.optimize.minimize(lambda p: ((p - x) ** 2).sum(), x * 0)
    return np.round(r.x, 3), round(scipy.optimize.brentq(lambda t: t - x[1], x[0] * 0, x.sum()), 9)


def written(x, n, m):
    f = io.StringIO()
    csv.writer(f).writerow([x[0], x.mean(), x.argmax()])
    g = io.BytesIO()
    np.save(g, x * 2)
    g.seek(0)
    return f.getvalue(), np.load(g)


def parts(x, n, m):
    row = theirs.Row(x.mean(), x)
    kinds = [row[x.argmax()], row[x.sum()], ROW[n[0]]]
    row[n[0]] = x.max()
    return kinds, row.types, ROW[x.argmin()]


def interpolated(x, n, m):
    y = x * 2
    f = scipy.interpolate.interp1d(np.sort(x), y)
    y += 1
    return f(x), f(x.mean()), y


PROGRAMS = [
    lambda x, n, m: theirs.exact(x, x.mean(), n[0], x > 2, (x > 2).any(), 1, None, k=x * 2, l=n.sum()),
    lambda x, n, m: exact(x, x[0]),
    lambda x, n, m: partial_exact(x, x[0]),
    lambda x, n, m: theirs.sub.exact(x + 1, k=x.max()),
    lambda x, n, m: theirs.inner([x, x.mean(), 2]) + theirs.inner((x, n[0])) + theirs.inner({"a": x.sum(), 1: x}.values()),
    lambda x, n, m: theirs.inner({x.argmax(), x.argmin()}) + theirs.inner({x.max(): 1}) + theirs.inner(frozenset([x.min()])),
    lambda x, n, m: [theirs.exact(x if n[0] > 1 else m), theirs.exact(*[v * 2 for v in x]), theirs.exact(**{"a": x})],
    lambda x, n, m: [theirs.same(x) is x, theirs.constant, theirs.Row(x, n[0]).types],
    in_cell(), writes, in_place, fails, loop, threads, minimum, written, parts, interpolated,
    lambda x, n, m: [json.dumps({"loss": x.mean(), "l": [x[0], x[1]]}), raised(json.dumps, {"x": x}), json.dumps({x.mean(): 1})],
    lambda x, n, m: [struct.pack("3d", *x), struct.pack("i2q", n[0], n[1], n.sum())],
    lambda x, n, m: [statistics.mean(x), statistics.stdev([x[0], x[1]])],
    lambda x, n, m: [base64.b64encode(x), hashlib.md5(x).hexdigest(), zlib.crc32(x), bytes(x[:1])],
    lambda x, n, m: [array.array("d", x).tolist(), ctypes.c_double(x[0]).value, (ctypes.c_double * 3)(*x)[1]],
    lambda x, n, m: [pickle.loads(pickle.dumps({"x": x * 2, "m": x.mean(), "l": [x]}))],
    lambda x, n, m: [scipy.sparse.diags(x).toarray(), scipy.sparse.diags([x, x[:2]], [0, 1]).toarray()],
    lambda x, n, m: [scipy.sparse.csr_matrix(m) @ m.T, scipy.sparse.csr_matrix(m).sum(), scipy.sparse.eye(n[0]).toarray()],
    lambda x, n, m: [gaussian_filter(m, 1.0), scipy.ndimage.zoom(m, 2.0), scipy.linalg.norm(m), scipy.linalg.toeplitz(x)],
    lambda x, n, m: [scipy.special.gammaln(x * 2) - scipy.special.gammaln(x * 2), scipy.special.comb(n[0], n[1])],
    lambda x, n, m: [np.random.default_rng(x.argmax()).random(2), np.random.RandomState(n[0]).normal(x.mean(), x.std(), size=3)],
    lambda x, n, m: [np.random.seed(n[0]), np.random.shuffle(m), m, np.random.choice(x, n[0]), np.random.permutation(x)],
    lambda x, n, m: [MATRIX * x[:, None], (x[None, :] * 2) @ MATRIX.T, MATRIX @ x, np.dot(x, MATRIX.T), np.matmul(x[None], MATRIX.T),
                     x * MATRIX, np.add(x, MATRIX), np.asmatrix(x).T],
    lambda x, n, m: [np.add(x, np.ma.masked_array(x, [0, 1, 0])).tolist(), type(np.multiply(x, np.ma.masked_array(x))).__name__],
    lambda x, n, m: [(x * 2).__array_interface__["shape"], m.T.__array_interface__["strides"], x.__array_interface__["typestr"],
                     x.__array_interface__["data"][1], raised(lambda: x.__cuda_array_interface__)],
    lambda x, n, m: [{x.max(): 1, "l": {x.argmin()}}, {n[0], 7}, frozenset([x.mean()]), {n[0]: {n[1]: x * 2}}],
]


@pytest.mark.parametrize("f", PROGRAMS, ids=range(len(PROGRAMS)))
def test_in_accelerated_functions(f):
    args, T.kept = (X, N, M), []
    want = outcome(f, *(a.copy() for a in args))
    fast = frit.accelerate(f)
    for _ in range(2):
        mine = [a.copy() for a in args]
        assert outcome(fast, *mine) == want


def test_what_is_kept_sees_later_writes():
    def f(x):
        y = x * 2
        theirs.keep(y)
        theirs.keep(x)
        y[0] = 7
        x[1] = 8
        return y
    for call in (f, frit.accelerate(f)):
        T.kept, x = [], X.copy()
        y = call(x)
        assert type(T.kept[0]) is type(T.kept[1]) is np.ndarray
        y[2] = 9
        x[2] = 10
        assert T.kept[0].tolist() == [7, 3, 9] and T.kept[1].tolist() == [3, 8, 10]


def test_own_code_and_numpys_are_called_as_before():
    """What the function computes with them stays in one graph."""
    def helper(x):
        return hasattr(x, "_is_pending"), x.sum()

    def f(x):
        ours, s = other.helper(x * 2)
        return ours, s, np.linalg.norm(x)
    other = types.ModuleType("users_module")
    other.helper = types.FunctionType(helper.__code__, {})
    fast = frit.accelerate(f)
    assert fast(X)[0] is True and fast.stats.syncs == 0


def test_a_name_that_becomes_another():
    names = {"json": json, "__name__": "users_module"}
    exec("def f(x): return json.dumps([x[0]])", names)
    fast = frit.accelerate(names["f"])
    assert fast(X) == "[3.0]"
    names["json"] = types.SimpleNamespace(dumps=len)
    assert fast(X) == 1


def test_an_attribute_that_becomes_another(monkeypatch):
    def f(x):
        return json.dumps(x[0])
    fast = frit.accelerate(f)
    assert fast(X) == "3.0"
    monkeypatch.setattr(json, "dumps", lambda x: type(x))
    assert fast(X) is np.float64


def test_numbers_are_numpys_at_once_only_while_such_objects_are_at_hand():
    def f(x):
        theirs.Row(x)
        return hasattr(x.sum(), "_is_pending")

    def outer(x):
        return hasattr(x.sum(), "_is_pending"), f(x), hasattr(x.sum(), "_is_pending")
    fast = frit.accelerate(outer)
    assert fast(X) == fast(X) == (True, False, False)
    assert hasattr(frit.asarray(X).sum(), "_is_pending")


def test_pandas():
    pd = pytest.importorskip("pandas")
    s, d = pd.Series([10.0, 20.0, 30.0]), pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": [4.0, 5.0, 6.0]})

    def stored(x):
        e = d.copy()
        e["c"], e["d"] = x * 2, x.mean()
        e.loc[x > 2, "a"] = x.max()
        return str(e.dtypes.tolist()), e.to_numpy()
    for f in (lambda x: [s[x > 2].tolist(), s.loc[x > 2].tolist(), s.iloc[x > 2].tolist(), s[(x > 2) | (x < 1.6)].tolist()],
              lambda x: [d.iloc[x.argmax(), 1], d.loc[x.argmax(), "b"], s.iloc[x.argmax()], s[x.argmin()]],
              lambda x: [s.groupby(x).sum().to_dict(), d.groupby(x > 2)["a"].sum().to_dict()],
              lambda x: [pd.unique(x), *pd.factorize(x), pd.isna(x), pd.isna(x.mean()), pd.to_numeric(x)],
              lambda x: [str(pd.DataFrame([{"m": x.mean()}]).dtypes.m), pd.DataFrame({"x": x}).x.tolist(), pd.Series(x * 2).mean()],
              lambda x: [str(pd.Timedelta(days=x[0])), (s * x).tolist(), (x * s).tolist(), s.map(lambda v: v + x[0]).tolist()], stored):
        assert outcome(frit.accelerate(f), X.copy()) == outcome(f, X.copy())
    def parts(v):
        return type(v).__name__, list(v.index), getattr(v, "name", None), np.asarray(v).tolist()

    def grouped(x):
        e = d.copy()
        e["c"] = x[:3] * 2
        e["k"] = np.exp(e["a"])
        e["z"] = (x - x.mean())[:3]
        y = e["z"].to_numpy() * 2
        e.loc[:, "z"] = y
        return parts(e.groupby("b").agg({"z": ["mean", "std"]})["z"]["mean"]), parts(e.groupby("b")["c"].mean()), parts(e.groupby("b")["k"].sum()), parts(e["c"].rolling(2).mean().fillna(0))
    for f in (lambda x: parts(np.exp(s)), lambda x: parts(np.add(s, x[:3])), lambda x: parts(np.maximum(x[:3], s)),
              lambda x: parts(np.sqrt(d)), lambda x: parts(np.exp(s) * x[:3] + np.log1p(s)), grouped):
        assert outcome(frit.accelerate(f), X.copy()) == outcome(f, X.copy())
    for f in (lambda s, x: s.iloc[x.argmax()], lambda s, x: s.to_numpy()[x.argmax()] + s[x > 2].sum()):
        assert outcome(frit.accelerate(f), s, X.copy()) == outcome(f, s, X.copy())


class Labelled:
    """An array that answers ufuncs itself, as those of pandas and xarray do."""

    def __init__(self, values, label):
        self.values, self.label = values, label

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        inputs = [i.values if isinstance(i, Labelled) else i for i in inputs]
        return Labelled(getattr(ufunc, method)(*inputs, **kwargs), f"{ufunc.__name__}({self.label})")


@pytest.mark.parametrize("f", [lambda a, x: np.exp(a), lambda a, x: np.add(a, x), lambda a, x: np.subtract(x, a), lambda a, x: np.power(a, 2),
                               lambda a, x: np.maximum(1, a), lambda a, x: np.sqrt(np.exp(a))])
def test_what_answers_ufuncs_itself_does_so(f):
    a = Labelled(np.linspace(0, 2, len(X)), "a")
    def parts(r):
        return type(r), r.label, np.asarray(r).tolist()
    def g(x):
        return f(a, x * 2)
    assert outcome(lambda x: parts(frit.accelerate(g)(x)), X.copy()) == outcome(lambda x: parts(g(x)), X.copy())


def test_items_of_others_containers_are_arrays(tmp_path, monkeypatch):
    """As a DataFrame has them, whose code hands them to C. A package of others is one that is installed."""
    (tmp_path / "theirs.py").write_text(
        "kinds = []\nclass Frame:\n    def __init__(self):\n        self.columns = {}\n    def __setitem__(self, name, value):\n"
        "        kinds.append((name, type(value).__name__, isinstance(value, __import__('frit').Tensor)))\n"
        "        self.columns[name] = value\n    def total(self, name):\n        return sum(memoryview(self.columns[name]).tolist())\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(_outside._known, "theirs", True)
    import theirs
    frame = theirs.Frame()

    def f(x):
        frame["new"] = y = x * 2
        frame["given"] = x
        own = {}
        own["new"] = x + 1
        y += 1
        return frame.total("new"), frame.total("given"), own
    got = frit.accelerate(f)(X.copy())
    assert theirs.kinds == [("new", "ndarray", False), ("given", "ndarray", False)]
    assert outcome(lambda x: got, X) == outcome(f, X.copy())


def test_what_answers_no_ufuncs_is_refused():
    class No:
        __array_ufunc__ = None
    for f in (lambda x: np.exp(No()), lambda x: np.add(x, No())):
        assert outcome(frit.accelerate(f), X.copy()) == outcome(f, X.copy()) == ("raises", "TypeError")


def test_numba():
    numba = pytest.importorskip("numba")
    total = numba.njit(lambda x: x.sum())

    @numba.njit
    def twice(x):
        for i in range(x.shape[0]):
            x[i] *= 2

    def f(x):
        y = x + 1
        z = y * 2
        twice(y)
        return total(x), total(x * 2), total(x[1:]), y, z
    assert outcome(frit.accelerate(f), X.copy()) == outcome(f, X.copy())
    assert frit.accelerate(total)(X) == total(X)


def test_pillow():
    image = pytest.importorskip("PIL.Image")

    def f(m):
        return np.asarray(image.fromarray((m * 20).astype("uint8"))), image.fromarray(m.astype("f4")).size
    assert outcome(frit.accelerate(f), M.copy()) == outcome(f, M.copy())


def test_torch():
    torch = pytest.importorskip("torch")

    def f(x):
        y = x * 2
        t = torch.from_numpy(y)
        t += 1
        return y, torch.sum(torch.tensor(x)).item(), t.numpy()
    assert outcome(frit.accelerate(f), X.copy()) == outcome(f, X.copy())


def test_jax():
    jnp = pytest.importorskip("jax.numpy")

    def f(x):
        return np.asarray(jnp.sin(x)), np.asarray(jnp.asarray(x * 2) + x.mean())
    assert outcome(frit.accelerate(f), X.astype("f4")) == outcome(f, X.astype("f4"))


def test_calls_without_tensors_are_calls():
    """As they are, with as many references to what they get and give."""
    o = object()

    def f(x):
        return theirs.same(o)
    fast = frit.accelerate(f)
    before = sys.getrefcount(o)
    for _ in range(100):
        fast(X)
    assert sys.getrefcount(o) <= before + 1


class Mapping(collections.abc.Mapping):
    __module__ = "tempfile"

    def __init__(self, **given):
        self.given = given

    def __getitem__(self, key):
        return self.given[key]

    def __iter__(self):
        return iter(self.given)

    def __len__(self):
        return len(self.given)


class Stored(io.BytesIO):
    """A file, which is an iterator, of a class that somebody wrote."""

    __module__ = "tempfile"


def test_what_others_can_go_over_is_handed_on_as_it_is():
    def f(x):
        stored, found, all_of = Stored(), {}, []
        np.save(stored, x * 2)
        stored.seek(0)
        found.update(Mapping(a=x, b=x + 1))
        all_of.extend(Mapping(c=1, d=2))
        all_of += list(zip(iter([x[0], x[1]]), Mapping(e=1, f=2)))
        return np.load(stored), found, all_of, np.median(np.ma.masked_array([1.0, 3.0, 9.0], [0, 0, 1]))
    x = np.arange(3.0)
    for _ in range(3):
        a, b = f(x), frit.accelerate(f)(x)
        assert a[0].tolist() == b[0].tolist() and list(b[1]) == ["a", "b"] and b[1]["b"].tolist() == a[1]["b"].tolist()
        assert a[2] == b[2] and a[3] == b[3]
