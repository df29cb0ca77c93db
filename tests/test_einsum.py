"""einsum: views, maps, sums and products as NumPy's einsum has them, to the bit; what rounds otherwise is NumPy's."""
import warnings

import numpy as np
import pytest

import frit

from .common import COMPILED, difference

pytestmark = pytest.mark.core

LETTERS = "ijkl"
SPECIAL = [0.0, -0.0, np.inf, np.nan, 1e-200, -1e-200, 1.5]


def draw(rng, shape, dtype):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype) - np.asarray(50 * (kind == "i"), dtype)
    x = rng.standard_normal(shape)
    if rng.random() < 0.3:
        x = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), x)
    return (x + 1j * rng.standard_normal(shape) if kind == "c" else x).astype(dtype)


def lying(rng, x):
    """An array, and what makes a view of x's shape of it."""
    how, n = rng.integers(0, 7), x.ndim
    if how == 1 and n > 1:
        order = rng.permutation(n)
        return np.ascontiguousarray(x.transpose(order)), lambda a: a.transpose(np.argsort(order))
    if how == 2 and n:
        return np.repeat(x, 2, -1), lambda a: a[..., ::2]
    if how == 3 and n:
        return x[::-1].copy(), lambda a: a[::-1]
    if how == 4 and n:
        return np.repeat(x, 2, 0), lambda a: a[::2]
    return x, lambda a: a


def random_call(rng):
    """Subscripts, and for each operand an array with what makes a view of it."""
    letters = LETTERS[:rng.integers(1, 5)]
    size = {c: int(rng.choice([1, 2, 3, 5, 8, 9, 17])) for c in letters}
    dots, extra = rng.random() < 0.15, [int(v) for v in rng.choice([1, 2, 3], 2)]
    dtypes = rng.choice(["?", "i4", "i8", "u1", "f2", "f4", "f8", "f8", "f4", "c16"], 3)
    same = rng.random() < 0.8
    subscripts, operands = [], []

    def with_dots(labels, shape=None):
        at = rng.integers(0, len(labels) + 1)
        if shape is not None:
            shape[at:at] = extra[rng.integers(0, 3):]
        return labels[:at] + "..." + labels[at:]

    for dtype in dtypes[:rng.choice([1, 2, 2, 2, 3])]:
        labels = "".join(rng.choice(list(letters), rng.integers(0, len(letters) + 1), replace=rng.random() < 0.15))
        shape = [1 if rng.random() < 0.03 and labels.count(c) == 1 else size[c] for c in labels]
        subscripts.append(with_dots(labels, shape) if dots else labels)
        operands.append(lying(rng, draw(rng, tuple(shape), dtypes[0] if same else dtype)))
    text = ",".join(subscripts)
    if rng.random() < 0.8:
        result = "".join(c for c in rng.permutation(list(letters)) if c in text and rng.random() < 0.6)
        text += "->" + (with_dots(result) if dots else result)
    return text, operands


def attempt(f, *args, **kw):
    try:
        return f(*args, **kw)
    except Exception as e:
        return type(e), str(e)


@pytest.mark.parametrize("seed", range(3))
def test_what_it_gives_is_numpys(seed):
    rng, before = np.random.default_rng(seed), frit.stats()["fallbacks"].get("einsum", 0)
    for n in range(15 if COMPILED else 400):
        text, operands = random_call(rng)
        kw = {"optimize": True} if n % 8 == 0 else {}
        with np.errstate(all="ignore"):
            want = attempt(np.einsum, text, *[view(a) for a, view in operands], **kw)
            got = attempt(np.einsum, text, *[view(frit.asarray(a)) for a, view in operands], **kw)
        if isinstance(want, tuple):
            assert got == want, text
        else:
            wrong = difference(got, np.asarray(want), strides=want.size > 0)
            assert not wrong, (text, [(a.shape, a.dtype, view(a).strides) for a, view in operands], kw, wrong)
    assert frit.stats()["fallbacks"].get("einsum", 0) - before < 220


X, Y, B, C = (np.random.default_rng(9).standard_normal(s) for s in ((6, 8), (8, 5), (4, 6, 8), (4, 8, 5)))
N = (np.abs(X) * 9).astype("i4")
LAZY = {"ij->ji": (X,), "ij": (X,), "ji": (X,), "ii->i": (X[:, :6].copy(),), "...ij->...ji": (B,), "i,j->ij": (X[0], Y[0]), "ij,ij->ij": (X, X),
        "i,ij->ij": (X[:, 0], X), "bi,bj->bij": (X, X), "i,j,k->ijk": (X[0], X[1], Y[0]), ",ij": (2.0, X), "ij->j": (X,), "bij->j": (B,),
        "ij,jk": (X, Y), "ij,jk->ik": (X, Y), "bij,bjk->bik": (B, C), "...ij,...jk->...ik": (B, Y), "bi,bj->ij": (X, X),
        "ij,ij,i->j": (X, X, X[:, 0]), "ij,kj->ik": (X, X), "ij,j->i": (X, X[0]), "i,i->": (X[0], X[0]),
        "bij,bkj->bik": (B, B), "ij,ij->": (X, X), "ij->": (N,), "ij,ij->i": (N, N), "jk,ik->ij": (N, N), "ii": (N[:, :6],), "i,i": (N[0] > 3, N[1] > 3)}


@pytest.mark.planned
@pytest.mark.parametrize("text", LAZY)
def test_these_stay_in_the_graph(text):
    arrays = LAZY[text]
    tensors = [frit.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
    frit.reset_stats()
    got = np.einsum(text, *tensors)
    assert frit.stats()["fallbacks"] == {} and frit.stats()["plans"] == 0
    if len(arrays) == 2:
        after = got * 2 if got.ndim else got
        assert after.explain().startswith(("1 kernel;", "0 kernels and 1", "1 kernel and 1"))
    assert difference(got, np.asarray(np.einsum(text, *arrays))) is None


PRODUCTS = ("ij,jk->ik ij,kj->ik ij,ij->i ij,j->i i,i-> bhqd,bhkd->bhqk bhqk,bhkd->bhqd bij,bjk->bik bij,bkj->bik ijkl,klm->ijm "
            "ji,kj->ki bi,bi->b abcd,dcbe->ae ij,ij-> ijk,ijk->k nhwc,c->nhw bji,bjk->bki aij,bij->ab").split()


@pytest.mark.parametrize("text", PRODUCTS)
def test_products_of_floats_add_up_as_numpys_loops_do(text):
    """One by one, or in lanes, of rows shorter and longer than vectors, and longer than NumPy's buffers."""
    rng, before = np.random.default_rng(len(text)), frit.stats()["products"]
    labels = sorted(set(text) - set(",->"))
    for n in range(6 if COMPILED else 30):
        some = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 70] if len(labels) <= 3 else [1, 2, 3, 5, 8, 17]
        size = {c: int(rng.choice(some)) for c in labels}
        if text == "i,i->" and n % 3 == 0:
            size["i"] = int(rng.choice([8191, 8192, 8193, 20000]))
        dtype = "f4" if n % 2 else "f8"
        operands = [lying(rng, rng.standard_normal([size[c] for c in part]).astype(dtype)) for part in text.partition("->")[0].split(",")]
        want = np.einsum(text, *[view(a) for a, view in operands])
        got = np.einsum(text, *[view(frit.asarray(a)) for a, view in operands])
        wrong = difference(got, np.asarray(want), strides=np.size(want) > 0)
        assert not wrong, (size, [view(a).strides for a, view in operands], wrong)
    assert COMPILED or text == "ijk,ijk->k" or frit.stats()["products"] > before


def test_a_view_is_written_through():
    a = frit.asarray(X[:, :6].copy())
    np.einsum("ii->i", a)[...] = 7
    np.einsum("ij->ji", a)[0, 3] = 9
    want = X[:, :6].copy()
    np.einsum("ii->i", want)[...] = 7
    np.einsum("ij->ji", want)[0, 3] = 9
    assert difference(a, want) is None


@pytest.mark.parametrize("args", [("ij,jk", X), ("ij", X, X), ("i", X), ("ijk", X), ("ij->ijk", X), ("ij->ii", X), ("ij-ji", X),
                                  ("i.j", X), ("ij,jk", X, X), ("ii", X), ("i...->i", X), ("1j", X), ("",), (X,), (3, X), ("ij->", None)])
def test_errors_are_numpys(args):
    want = attempt(np.einsum, *args)
    got = attempt(frit.einsum, *[frit.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
    assert isinstance(want, tuple) and got == want


def test_it_warns_of_nothing_and_takes_its_keywords():
    big = np.full((3, 3), 1e200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.asarray(np.einsum("ij,jk->ik", frit.asarray(big), frit.asarray(big)))
        with np.errstate(all="raise"):
            np.asarray(np.einsum("i,j->ij", frit.asarray(big[0]), frit.asarray(big[0])))
    out = np.zeros((6, 5))
    for kw in ({"out": out}, {"dtype": "f8"}, {"order": "F"}, {"casting": "no"}, {"optimize": "greedy", "out": out}):
        got = np.einsum("ij,jk->ik", frit.asarray(X), Y, **kw)
        assert difference(frit.asarray(np.asarray(got)), np.asarray(np.einsum("ij,jk->ik", X, Y, **kw))) is None
    for call in (lambda x, y: np.einsum(x, [0, 1], y, [1, 2]), lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0], optimize=True),
                 lambda x, y: np.einsum("ij,jk", x, y, optimize=["einsum_path", (0, 1)]), lambda x, y: np.einsum_path("ij,jk", x, y)[0]):
        assert np.array_equal(np.asarray(call(frit.asarray(X), frit.asarray(Y))[:1]), np.asarray(call(X, Y)[:1]))


def test_an_order_of_products_is_found_by_shapes():
    a, b, c = (frit.asarray(draw(np.random.default_rng(k), s, "f8")) for k, s in enumerate([(9, 7), (7, 8), (8, 3)]))
    frit.reset_stats()
    got = np.einsum("ij,jk,kl->il", a, b, c, optimize=True)
    assert frit.stats()["fallbacks"] == {} and frit.stats()["plans"] == 0
    assert difference(got, np.einsum("ij,jk,kl->il", *map(np.asarray, (a, b, c)), optimize=True)) is None
    assert frit.stats()["products"] == 2
