"""Matrix products: one lazy node with NumPy's shapes, dtypes, strides, bits and errors, and what follows
it element by element in one kernel over its memory."""
import threading
import warnings

import numpy as np
import pytest

import frit
from frit import _core

from .common import SLOW, assert_same, few

pytestmark = pytest.mark.core

DTYPES = ["?", "i1", "i4", "i8", "u2", "u8", "f2", "f4", "f8", "c8", "c16"]


def rand(*shape, dtype="f4", seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 9
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.abs(x).astype(dtype) if np.dtype(dtype).kind == "u" else x.astype(dtype)


def random_operand(rng, shape, dtype):
    """An array, and what makes a view of that shape of it: transposed, strided, turned round or as it is."""
    n, how = len(shape), rng.integers(0, 6)
    if how == 1:
        perm = rng.permutation(n)
        back = tuple(int(i) for i in np.argsort(perm))
        return rand(*(shape[i] for i in perm), dtype=dtype, seed=rng), lambda x: x.transpose(back)
    if how == 2:
        return rand(*shape[:-1], 2 * shape[-1], dtype=dtype, seed=rng), lambda x: x[..., ::2]
    if how == 3:
        return rand(*shape, dtype=dtype, seed=rng), lambda x: x[::-1]
    if how == 4 and n >= 2:
        return rand(*shape[:-2], shape[-1], shape[-2], dtype=dtype, seed=rng), lambda x: x.swapaxes(-1, -2)
    return rand(*shape, dtype=dtype, seed=rng), lambda x: x


def same(got, want):
    assert isinstance(got, frit.Tensor) and got.dtype == want.dtype and got.shape == want.shape
    if isinstance(want, np.ndarray) and want.size:
        assert got.strides == want.strides
    value = got._to_scalar()
    assert type(value) is type(want) and value.tobytes() == want.tobytes()


def sizes(rng, n):
    return [int(v) for v in rng.choice([0, 1, 1, 2, 3, 5, 17, 33, 64, 100], n)]


@pytest.mark.parametrize("seed", range(4))
def test_bits_shapes_and_strides_are_numpys(seed):
    rng, before = np.random.default_rng(seed), frit.stats()
    for _ in range(40 if SLOW else 150):
        da, db = rng.choice(DTYPES, 2)
        db = da if rng.random() < 0.7 else db
        m, k, n = sizes(rng, 3)
        stack_a, stack_b = (tuple(int(rng.choice([1, s])) for s in (2, 3)[2 - rng.integers(0, 3):]) for _ in "ab")
        a, view_a = random_operand(rng, (k,) if rng.random() < 0.15 else (*stack_a, m, k), da)
        b, view_b = random_operand(rng, (k,) if rng.random() < 0.15 else (*stack_b, k, n), db)
        same(view_a(frit.asarray(a)) @ view_b(frit.asarray(b)), view_a(a) @ view_b(b))
    after = frit.stats()
    assert after["products"] - before["products"] >= (20 if SLOW else 100) and after["fallbacks"] == before["fallbacks"]


SPECIAL = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 1e-200, -1e-200, 1e-30, -1e-30]


def special(rng, shape, dtype):
    """Zeros of both signs, infinities, NaN, and what multiplies to less than there is."""
    kind = np.dtype(dtype).kind
    if kind in "biu":
        return rand(*shape, dtype=dtype, seed=rng)
    parts = [np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), rng.standard_normal(shape)) for _ in "ri"]
    if kind == "f":
        return parts[0].astype(dtype)
    z = np.empty(shape, dtype)
    z.real, z.imag = parts
    return z


@pytest.mark.planned
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_column_by_a_row_is_a_map(dtype):
    """Of matrices, vectors of one element and stacks, in what dot and matmul are computed by there."""
    rng, before = np.random.default_rng(7), frit.stats()
    for n in range(3 if SLOW else 60):
        m, p = (int(v) for v in rng.choice([1, 2, 3, 8, 17, 33, 60], 2))
        left, right = [((m, 1), (1, p)), ((m, 1), (1,)), ((1,), (1, p)), ((5, m, 1), (1, p)), ((m, 1), (4, 1, p)),
                       ((4, 1, m, 1), (3, 1, p))][n % 6]
        a, b = special(rng, left, dtype), special(rng, right, dtype)
        views = [lambda x: x, lambda x: x[::-1], lambda x: x[..., ::-1], lambda x: np.repeat(x, 2, -1)[..., ::2]]
        va, vb = rng.choice(views), rng.choice(views)
        x, y = frit.asarray(a), frit.asarray(b)
        with np.errstate(all="ignore"):
            assert_same(np.matmul(va(x), vb(y)), np.matmul(va(a), vb(b)), what=("matmul", left, right))
            # gemm of some processors keeps the sign of a product that is rounded to zero
            a = np.where(np.abs(a) < 1e-3, 0, a).astype(dtype)
            x = frit.asarray(a)
            column, turned = (va(v) if a.ndim == 2 else v.reshape(-1, 1) for v in (a, x))
            if dtype != "c8" and dtype != "c16" and column.size > 1:
                assert_same(np.dot(turned, turned.T), np.dot(column, column.T), what=("dot", left))
    after = frit.stats()
    assert after["products"] == before["products"] and after["fallbacks"] == before["fallbacks"]


@pytest.mark.planned
def test_a_column_by_a_row_fuses_with_what_is_around_it():
    h, d, c = rand(20, 8, dtype="f8"), rand(20, 6, dtype="f8", seed=1), rand(30, 1, dtype="f8", seed=2)
    x, y, z, total = frit.asarray(h), frit.asarray(d), frit.asarray(c), frit.zeros((30, 30))
    frit.eval(x, y, z, total)
    frit.reset_stats()
    got = np.matmul(x[:, :, None], y[:, None, :]).sum(0)
    frit.eval(got)
    s = frit.stats()
    assert (s["kernels"], s["products"]) == (1, 0)
    assert_same(got, np.matmul(h[:, :, None], d[:, None, :]).sum(0))
    for _ in range(3):
        total += np.dot(z, z.T) * 0.5
    assert total.explain().startswith("1 kernel;")
    want = np.zeros((30, 30))
    for _ in range(3):
        want += np.dot(c, c.T) * 0.5
    assert_same(total, want)


@pytest.mark.parametrize("shape", [(2, 1), (3,), (2, 2, 2)])
@pytest.mark.parametrize("call", [np.matmul, np.dot, np.inner, np.vdot])
def test_products_warn_as_numpys_do(call, shape):
    c = np.full(shape, 1e200)
    for f, x in ((call, c), (frit.accelerate(lambda a, b: call(a, b)), c)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            f(x, x.T if call in (np.matmul, np.dot) else x)
        texts = [str(w.message) for w in said]
        if f is call:
            want = texts
        else:
            assert texts == want


@pytest.mark.parametrize("seed", range(3))
def test_dot_of_vectors_and_matrices(seed):
    rng, before = np.random.default_rng(seed), frit.stats()["products"]
    for _ in range(150):
        da, db = rng.choice(["i4", "f2", "f4", "f8", "c8", "c16"], 2)
        db = da if rng.random() < 0.8 else db
        m, k, n = sizes(rng, 3)
        a, view_a = random_operand(rng, (k,) if rng.random() < 0.3 else (m, k), da)
        b, view_b = random_operand(rng, (k,) if rng.random() < 0.3 else (k, n), db)
        got, want = np.dot(view_a(frit.asarray(a)), view_b(frit.asarray(b))), np.dot(view_a(a), view_b(b))
        if isinstance(got, frit.Tensor):
            same(got, want)
        else:
            assert type(got) is type(want) and got.tobytes() == want.tobytes()
        assert view_a(frit.asarray(a)).dot(view_b(frit.asarray(b))).shape == want.shape
    assert frit.stats()["products"] - before >= 50


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_whole_numbers_by_a_vector(dtype):
    """Modulo what they hold: of one vector, of rows wherever they lie, and of what is not side by side."""
    rng, info = np.random.default_rng(3), np.iinfo(dtype)
    a, v = (rng.integers(info.min, info.max, s, dtype, endpoint=True) for s in ((7, 5, 67), (67,)))
    for x in (a, a[::-1, 1:], a.transpose(1, 0, 2), a[0], a[:, 2, :], a[0, 0], a[0, 0, :1], a[0, :, ::2], a[0, :, :0]):
        for y in (v, v[::-1], np.repeat(v, 2)[::2]):
            y = y[:x.shape[-1]]
            assert_same(frit.asarray(x) @ frit.asarray(y), x @ y, what=(x.shape, x.strides, y.strides))
            assert_same(frit.dot(frit.asarray(x), frit.asarray(y)), np.dot(x, y), what=(x.shape, x.strides, y.strides))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2"])
def test_products_that_are_no_work_for_blas(dtype):
    """Of rows shorter and longer than vectors, wherever they lie, and of more than one thread's work."""
    rng = np.random.default_rng(4)

    def draw(*shape):
        if np.dtype(dtype).kind in "?b":
            return rng.random(shape) < 0.2
        if dtype == "f2":
            return special(rng, shape, dtype)
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)

    views = [lambda x: x, lambda x: x[..., ::-1], lambda x: x[..., ::-2, :], lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2),
             lambda x: np.repeat(x, 2, -1)[..., ::2]]
    before = frit.stats()["tiled"]
    shapes = [(m, k, n) for m in (1, 3, 4, 9) for k in (2, 30, 1)[:2 + (not SLOW)] for n in (1, 2, 15, 16, 17, 64, 65, 130)]
    for m, k, n in [*shapes, (130, 80, 70)]:
        a, b = draw(2, 2 * m, k), draw(2 * k, n)
        va, vb = rng.choice(views), rng.choice(views)
        for left, right in ((lambda x: va(x)[:, :m], lambda x: vb(x)[:k]), (lambda x: va(x)[1, :m], lambda x: vb(x)[:k]),
                            (lambda x: va(x)[1, 0], lambda x: vb(x)[:k])):
            with np.errstate(all="ignore"):
                assert_same(left(frit.asarray(a)) @ right(frit.asarray(b)), left(a) @ right(b), what=(m, k, n))
    assert frit.stats()["tiled"] - before > 50


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_tiny_matrices(dtype):
    """In stacks and one by one, as they lie and turned round, with zeros and what is rounded to zero, and of a matrix and
    itself."""
    rng, views = np.random.default_rng(2), [lambda x: x, lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2), lambda x: x[..., ::-1]]
    before = frit.stats()["tiled"]
    for m, k, n in np.ndindex(4, 4, 4):
        for stack in ((), (7,), (3, 1, 2)):
            a, b = special(rng, (*stack, m + 2, k + 2), dtype), special(rng, (*stack[1:], k + 2, n + 2), dtype)
            if n % 2:
                a, b = rand(*a.shape, dtype=dtype, seed=rng), rand(*b.shape, dtype=dtype, seed=rng)
            for va in views:
                for vb in views:
                    with np.errstate(all="ignore"):
                        assert_same(va(frit.asarray(a)) @ vb(frit.asarray(b)), va(a) @ vb(b), what=(m, k, n, stack))
    assert frit.stats()["tiled"] > before or _core.show_config()["isa"] not in ("v3", "v4")
    s = rand(9, 3, 3, dtype=dtype)
    for f in (lambda x: x @ x, lambda x: x @ x.swapaxes(1, 2), lambda x: x @ x[::-1].swapaxes(1, 2), lambda x: x[0] @ x[0].T):
        assert_same(f(frit.asarray(s)), f(s))


VECTORS = {"as it is": lambda x: x, "column": lambda x: x.reshape(-1, 2)[:, 1], "every third": lambda x: x[::3],
           "backwards": lambda x: x[::-1], "every other backwards": lambda x: x[::-2], "flipped": lambda x: np.flip(x[5:]),
           "one number": lambda x: np.broadcast_to(x[3], 9)}


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f8", "c8", *few("i8", "f4", "c16")])
def test_vectors_that_are_strided_or_run_backwards(dtype):
    """dot copies an operand that BLAS does not read where it lies, vdot none; the bits tell."""
    before = frit.stats()
    for n in (*range(1, 40), 64, 100, 257, 300):
        a, b = (rand((3 * n + 9) // 2 * 2, dtype=dtype, seed=n + k) for k in (0, 1))
        x, y = frit.asarray(a), frit.asarray(b)
        for one in VECTORS.values():
            for other in VECTORS.values():
                k = min(len(one(a)), len(other(b)), n)
                if k == 1 and a.dtype.kind == "c":
                    continue
                p, q, r, s = one(a)[:k], other(b)[:k], one(x)[:k], other(y)[:k]
                same(np.dot(r, s), np.dot(p, q))
                same(r.dot(s), p.dot(q))
                same(np.inner(r, s), np.inner(p, q))
                if a.dtype.kind != "c":
                    same(np.vdot(r, s), np.vdot(p, q))
    after = frit.stats()
    assert after["fallbacks"] == before["fallbacks"] and after["products"] - before["products"] > 5000


MATRICES = {"as it is": lambda x: x[:40].reshape(5, 8), "transposed": lambda x: x[:40].reshape(8, 5).T,
            "part": lambda x: x[:110].reshape(10, 11)[2:7, 1:9],
            "part of its transpose": lambda x: x[:110].reshape(11, 10).T[2:7, 1:9],
            "rows backwards": lambda x: x[:40].reshape(5, 8)[::-1], "columns backwards": lambda x: x[:40].reshape(5, 8)[:, ::-1],
            "every other of both": lambda x: x[:160].reshape(10, 16)[::2, ::2],
            "a row": lambda x: x[:16].reshape(1, 16)[:, ::2],
            "a row again": lambda x: np.broadcast_to(x[:8], (5, 8)),
            "a number again": lambda x: np.broadcast_to(x[:5, None], (5, 8)),
            "a column": lambda x: x[:15].reshape(5, 3)[:, 1:2]}


@pytest.mark.parametrize("dtype", ["i4", "f2", "f4", "f8", "c8", "c16"])
def test_dot_of_matrices_that_blas_does_not_read_where_they_lie(dtype):
    a, b = rand(200, dtype=dtype), rand(400, dtype=dtype, seed=1)
    x, y, before = frit.asarray(a), frit.asarray(b), frit.stats()
    for one in MATRICES.values():
        p, r = one(a), one(x)
        for way in ("as it is", "every third", "backwards"):
            q, s = VECTORS[way](b), VECTORS[way](y)
            if p.shape[1] > 1:
                same(np.dot(r, s[:p.shape[1]]), np.dot(p, q[:p.shape[1]]))
            if p.shape[0] > 1:
                same(np.dot(s[:p.shape[0]], r), np.dot(q[:p.shape[0]], p))
        for other in MATRICES.values():
            q, s = other(b), other(y)
            if p.shape[1] == q.shape[1] and 1 not in (*p.shape, *q.shape):
                same(np.dot(r, s.T), np.dot(p, q.T))
                same(np.inner(r, s), np.inner(p, q))
    after = frit.stats()
    assert after["fallbacks"] == before["fallbacks"] and after["products"] - before["products"] > 200


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f4", "c8", *few("f8")])
def test_dot_inner_and_vdot_of_stacks(dtype):
    """Vector by vector, also of one element, wherever they lie; the results lie in C order."""
    rng, before = np.random.default_rng(8), frit.stats()["fallbacks"]
    views = [lambda x: x, lambda x: x[..., ::-1], lambda x: np.repeat(x, 2, -1)[..., ::2], lambda x: x.T.copy().T]
    for n in range(15 if SLOW else 150):
        other = dtype if rng.random() < 0.8 else "f8"
        k, vectors = int(rng.choice([1, 2, 3, 8, 17, 40])), rng.random() < 0.3
        a = rand(*rng.choice([1, 2, 3, 5], rng.integers(2, 4)), k, dtype=dtype, seed=rng)
        b = rand(*rng.choice([1, 2, 3, 5], rng.integers(0, 3)), k, dtype=other, seed=rng)
        va, vb = rng.choice(views), rng.choice(views)
        turn = (lambda x: x.swapaxes(-1, -2)) if b.ndim > 1 and not vectors else lambda x: x
        p, q, r, s = va(a), vb(b), va(frit.asarray(a)), vb(frit.asarray(b))
        same(np.inner(r, s), np.inner(p, q))
        same(np.inner(s, r), np.inner(q, p))
        if turn(q).ndim == 1 or turn(q).shape[-2] == k:
            same(np.dot(r, turn(s)), np.dot(p, turn(q)))
        if "c" not in dtype:
            same(np.vdot(r, r[::-1]), np.vdot(p, p[::-1]))
    assert frit.stats()["fallbacks"] == before
    with pytest.raises(ValueError) as theirs:
        np.dot(np.ones((2, 3, 4)), np.ones((2, 3, 4)))
    with pytest.raises(ValueError) as ours:
        np.dot(frit.ones((2, 3, 4)), frit.ones((2, 3, 4)))
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("dtype", ["i4", "f2", "f4", "f8"])
def test_one_number_by_another_keeps_its_sign(dtype):
    before = frit.stats()["fallbacks"]
    for u in (0.0, -0.0, 3.0, -2.0):
        for v in (0.0, -0.0, 3.0, np.inf):
            a, b = np.array([u], dtype), np.array([0 if dtype == "i4" else v], dtype)
            for f in (np.dot, np.inner, np.vdot):
                with np.errstate(all="ignore"):
                    same(f(frit.asarray(a), frit.asarray(b)), f(a, b))
            same(np.dot(frit.asarray(a)[None], frit.asarray(b)[None]), np.dot(a[None], b[None]))
    assert frit.stats()["fallbacks"] == before


@pytest.mark.parametrize("f", [np.inner, np.vdot])
def test_vectors_that_do_not_fit_have_numpys_words(f):
    for a, b in ((np.ones(3), np.ones(4)), (np.ones((2, 3)), np.ones(4)), (np.ones((2, 3)), np.ones((2, 4)))):
        with pytest.raises(ValueError) as theirs:
            f(a, b)
        with pytest.raises(ValueError) as ours:
            f(frit.asarray(a), frit.asarray(b))
        assert str(ours.value) == str(theirs.value)


def test_every_way_to_say_it_is_lazy():
    a, b = rand(4, 5), rand(5, 6, seed=1)
    ta, tb = frit.asarray(a), frit.asarray(b)
    for f in [lambda: ta @ tb, lambda: ta @ b, lambda: a @ tb, lambda: np.matmul(ta, tb), lambda: np.matmul(a, tb),
              lambda: frit.matmul(ta, tb), lambda: np.dot(ta, tb), lambda: ta.dot(tb), lambda: frit.dot(a, b),
              lambda: ta @ frit.asarray(b.tolist(), "f4")]:
        frit.reset_stats()
        r = f()
        assert r._is_pending() and frit.stats()["products"] == 0
        same(r, a @ b)
        s = frit.stats()
        assert (s["products"], s["kernels"], s["fallbacks"]) == (1, 0, {})


@pytest.mark.parametrize("f", [lambda x, y: x @ y, lambda x, y: np.matmul(x, y), lambda x, y: np.dot(x, y)])
@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((5,), (4,)), ((), (5, 4)), ((4, 5), ()), ((2, 4, 5), (3, 5, 6)),
                                    ((0, 3), (2, 0))])
def test_errors_are_numpys_at_the_line(f, shapes):
    a, b = (np.ones(s, "f4") for s in shapes)
    try:
        want = f(a, b)
    except ValueError as e:
        with pytest.raises(ValueError) as got:
            f(frit.asarray(a), frit.asarray(b))
        text = str(e).partition(";")[0]
        if "remapped" not in text:
            assert str(got.value).replace(" ", "").startswith(text.replace(" ", ""))
    else:
        assert np.array_equal(np.asarray(f(frit.asarray(a), frit.asarray(b))), want)


def test_what_numpy_refuses():
    x, y = frit.ones((2, 2)), np.ones((2, 2))
    for other in ("a", None, object(), 3.0):
        with pytest.raises((TypeError, ValueError)) as theirs:
            y @ other
        with pytest.raises(theirs.type):
            x @ other


def test_an_epilogue_is_one_kernel_over_the_products_memory():
    x, w, b = (frit.asarray(v) for v in (rand(64, 32), rand(32, 48, seed=1), rand(48, seed=2)))
    frit.eval(x, w, b)
    y = frit.maximum(x @ w + b, 0) * 2
    plan = y.explain()
    assert plan.startswith("1 kernel and 1 matrix product;")
    assert f"peak {64 * 48 * 4} bytes ({64 * 48 * 4} results, 0 temporaries" in plan
    frit.reset_stats()
    frit.eval(y)
    s = frit.stats()
    assert (s["kernels"], s["products"]) == (1, 1)
    want = np.maximum(np.asarray(x) @ np.asarray(w) + np.asarray(b), 0) * 2
    assert np.asarray(y).tobytes() == want.tobytes()


def test_a_product_that_is_wanted_keeps_its_memory():
    x, w = frit.asarray(rand(30, 30)), frit.asarray(rand(30, 30, seed=1))
    p = x @ w
    y = frit.exp(p)
    frit.eval(y)
    assert not p._is_pending()
    assert np.asarray(p).tobytes() == (np.asarray(x) @ np.asarray(w)).tobytes()
    np.testing.assert_allclose(np.asarray(y), np.exp(np.asarray(p)), rtol=1e-6)


@pytest.mark.planned
def test_dead_products_are_not_computed_and_equal_ones_once():
    x, w = frit.asarray(rand(20, 20)), frit.asarray(rand(20, 20, seed=1))
    frit.eval(x, w)
    frit.reset_stats()
    dead = x @ w
    del dead
    frit.eval(x + 1)
    assert frit.stats()["products"] == 0
    y = x @ w + x @ w
    frit.eval(y)
    assert frit.stats()["products"] == 1
    assert np.array_equal(np.asarray(y), 2 * (np.asarray(x) @ np.asarray(w)))


def test_transposed_operands_are_not_copied():
    x, d = frit.asarray(rand(96, 64)), frit.asarray(rand(96, 32, seed=1))
    frit.eval(x, d)
    frit.reset_stats()
    y = x.T @ d
    frit.eval(y)
    s = frit.stats()
    assert (s["kernels"], s["products"], s["fallbacks"]) == (0, 1, {})
    assert np.asarray(y).tobytes() == (np.asarray(x).T @ np.asarray(d)).tobytes()


def test_out_and_in_place():
    a, b = rand(6, 6), rand(6, 6, seed=1)
    x, y = frit.asarray(a), frit.asarray(b)
    out = frit.zeros((6, 6), "f4")
    window = out[:3]
    frit.reset_stats()
    assert np.matmul(x, y, out=out) is out and np.asarray(out).tobytes() == (a @ b).tobytes()
    assert np.asarray(window).tobytes() == (a @ b)[:3].tobytes()
    assert np.dot(y, x, out=out) is out and np.asarray(out).tobytes() == np.dot(b, a).tobytes()
    assert np.matmul(x, y, out=x) is x and np.asarray(x).tobytes() == (a @ b).tobytes()
    y @= y
    assert np.asarray(y).tobytes() == (b @ b).tobytes()
    assert frit.stats()["fallbacks"] == {}
    wide = frit.zeros((6, 6), "f8")
    np.matmul(y, y, out=wide)
    assert np.asarray(wide).tobytes() == ((b @ b) @ (b @ b)).astype("f8").tobytes()
    for wrong in (frit.zeros((5, 6), "f4"), frit.zeros((6, 6), "i4")):
        with pytest.raises((ValueError, TypeError)):
            np.matmul(y, y, out=wrong)
        with pytest.raises(ValueError):
            np.dot(y, y, out=wrong)
    with pytest.raises(ValueError):
        z = frit.ones((2, 3))
        z @= frit.ones((3, 4))


def test_the_operands_are_read_as_they_were():
    x, w = frit.asarray(rand(8, 8)), frit.asarray(rand(8, 8, seed=1))
    a, b = np.array(x), np.array(w)
    p = x @ w
    x[2:5] = 0
    w *= 2
    q = x @ w
    wrong = np.array(a)
    wrong[2:5] = 0
    assert np.asarray(p).tobytes() == (a @ b).tobytes()
    assert np.asarray(q).tobytes() == (wrong @ (b * 2)).tobytes()


def test_a_large_stack_and_huge_shapes():
    a, b = rand(200, 3, 4), rand(200, 4, 5, seed=1)
    same(frit.asarray(a) @ frit.asarray(b), a @ b)
    with pytest.raises(ValueError):
        frit.broadcast_to(frit.ones((1, 1)), (1 << 40, 1)) @ frit.broadcast_to(frit.ones((1, 1)), (1, 1 << 40))


def test_matrices_that_numpy_copies_for_blas():
    """Strided in both axes; in the epilogue of what is computed without the GIL."""
    a, b = rand(300, 600), rand(600, 500, seed=1)
    got = frit.asarray(a)[::2, ::2] @ frit.asarray(b)[::2, ::-3] + np.float32(1)
    assert np.asarray(got).tobytes() == (a[::2, ::2] @ b[::2, ::-3] + np.float32(1)).tobytes()


def test_a_training_loop_finds_its_plans():
    """Nothing in the loop asks for a value; what is pending is computed at the same place of each step."""
    x, t = frit.asarray(rand(256, 256)), frit.asarray(rand(256, 64, seed=1))
    w, v = frit.asarray(rand(256, 256, seed=2)), frit.asarray(rand(256, 64, seed=3))
    scale = np.float32(1e-9)

    def step():
        nonlocal w, v
        h = frit.maximum(x @ w, 0)
        d = h @ v - t
        dv = h.T @ d
        dh = (d @ v.T) * (h > 0)
        v = v - scale * dv
        w = w - scale * (x.T @ dh)

    for _ in range(10):
        step()
    before = frit.stats()
    for _ in range(40):
        step()
    after = frit.stats()
    assert after["plans"] == before["plans"] and after["plan_hits"] - before["plan_hits"] >= 20
    assert after["pending_nodes"] < 200
    frit.eval(w, v)


def test_products_from_several_threads():
    a, wrong = rand(120, 120), []

    def work(seed):
        b = rand(120, 120, seed=seed)
        want = np.tanh(a @ b)
        for _ in range(20):
            got = frit.tanh(frit.asarray(a) @ frit.asarray(b))
            if not np.allclose(np.asarray(got), want, rtol=1e-5):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_accelerated_training_step_has_no_fallback():
    def step(x, t, w, b):
        z = np.dot(x, w) + b
        d = np.maximum(z, 0) - t
        w -= np.float32(1e-3) * (x.T @ (d * (z > 0)))
        b -= np.float32(1e-3) * d.sum(axis=0)
        return (d * d).sum()

    fast = frit.accelerate(step)
    args = [rand(32, 20), rand(32, 8, seed=1), rand(20, 8, seed=2), rand(8, seed=3)]
    plain, ours = [v.copy() for v in args], [v.copy() for v in args]
    for _ in range(3):
        want, got = step(*plain), fast(*ours)
    assert fast.stats.fallbacks == 0 and fast.stats.syncs == 0
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for p, q in zip(plain, ours):
        np.testing.assert_allclose(q, p, rtol=1e-5, atol=1e-6)


def test_accelerated_loops_over_columns_and_turned_vectors_have_no_fallback():
    def orthonormal(a):
        q = np.empty_like(a)
        for k in range(a.shape[1]):
            v = a[:, k].copy()
            for j in range(k):
                v -= np.dot(q[:, j], v) * q[:, j]
            q[:, k] = v / np.sqrt(v.dot(v))
        return q

    def durbin(r):
        y, alpha, beta = np.zeros(len(r)), -r[0], 1.0
        y[0] = -r[0]
        for k in range(1, len(r)):
            beta = (1 - alpha * alpha) * beta
            alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
            y[:k] += alpha * np.flip(y[:k])
            y[k] = alpha
        return y

    for f, x in ((orthonormal, rand(40, 6, dtype="f8")), (durbin, 0.5 ** np.arange(1, 20) + 0.01 * rand(19, dtype="f8"))):
        fast = frit.accelerate(f)
        for _ in range(3):
            assert fast(x).tobytes() == f(x).tobytes()
        assert fast.stats.fallbacks == 0 and fast.stats.syncs == 0
