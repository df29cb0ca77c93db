"""One test for each bug that random programs have found.  NumPy is the judge."""
import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT, SLOW, assert_same, few

pytestmark = pytest.mark.core


def both(program):
    """program(xp, force) gives the same with NumPy and with frit, planned anew and from the plan."""
    with np.errstate(all="ignore"):
        want = program(np, lambda *a: None)
        for _ in range(2):
            got = program(frit, frit.eval)
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                assert_same(g, w, what=f"result {i}")


def test_merge_of_groups_made_a_cycle():
    def program(xp, force):
        v0 = xp.asarray(np.linspace(-3, 3, 4).reshape(1, 4))
        v3 = xp.square(v0) == 9
        v9 = xp.where(v3, v0[:1], True).astype("u4")
        v10 = xp.rad2deg(v9)
        v11 = v9 & 3
        force(v11)
        v9[::2] = v11
        v15 = v11.argmax(axis=None) * 5
        v16 = xp.arcsinh(v10)
        return v9, v11, xp.where(v3, v16, v15)
    both(program)


def test_kernel_ran_over_no_elements():
    def program(xp, force):
        v0 = xp.asarray(np.ones((1, 2, 0)))
        v1 = v0 != v0
        v2 = v1[v1]
        return xp.logical_and(v0, v2), v2 + 1.0, v2.sum(), (v2 * xp.ones(0)).sum()
    both(program)


def test_order_of_a_reduction_of_no_elements():
    def program(xp, force):
        v = xp.asarray(np.ones((2, 3, 0)))
        return xp.any(v.T, axis=0), xp.sum(v.transpose(1, 0, 2), axis=2), xp.sum(v, axis=2)
    both(program)


def test_order_of_a_copy_of_a_broadcast_array():
    def program(xp, force):
        v = xp.asarray(np.arange(3.0).reshape(1, 1, 3))
        w = xp.broadcast_to(v, (3, 7, 5, 3))
        t = xp.asarray(np.arange(24.0).reshape(2, 3, 4)).transpose(1, 2, 0)[:, ::-1]
        return w.astype("f8"), w.astype("f4"), w.T.astype("i4"), t.astype("f4"), t[:, :1].astype("f4")
    both(program)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_zeros_at_the_bounds_of_clip(dtype):
    """Between numbers NumPy keeps the element, with an array among the bounds it takes the bound."""
    values = np.array([-0.0, 0.0, np.nan, 1.0, -1.0, 3.0, 5.0, np.inf, -np.inf], dtype)

    def program(xp, force):
        x, out = xp.asarray(values), []
        for lo in values:
            for hi in values:
                low, high = np.full_like(values, lo), np.full_like(values, hi)
                for bounds in ((lo, hi), (float(lo), float(hi)), (xp.asarray(lo), hi), (low, high),
                               (low, hi), (lo, high)):
                    out.append(xp.clip(x, *bounds))
        return out
    both(program)


def test_logarithm_of_a_clipped_zero():
    def program(xp, force):
        v = xp.clip(xp.asarray(np.array([-0.0, -2.0, 0.0, 5.0])), 0, 3).astype("c16")
        return (xp.log(v).imag > 3,)
    both(program)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("n", [1, 7, 64, 65, 129, 1000])
def test_sum_of_a_computed_and_broadcast_row(n, dtype):
    x = np.random.default_rng(n).standard_normal((n, 2)) @ [1, 1j if dtype[0] == "c" else 1]

    def program(xp, force):
        v = xp.asarray(x.astype(dtype)) + 1
        out = []
        for k in (1, 2, 3, 40):
            w = xp.broadcast_to(v, (k, n))
            out += [xp.sum(w, axis=(0, 1)), xp.sum(w), xp.sum(w, axis=0), xp.sum(w.T, axis=(0, 1))]
        return out
    both(program)


FLOAT_OPS = ["arctan2", "hypot", "copysign", "nextafter", "logaddexp", "logaddexp2", "heaviside",
             "add", "multiply", "divide", "floor_divide", "remainder", "power", "maximum", "fmod"]


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_dtype_of_every_pair(name):
    dtypes = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
    for a in dtypes:
        for b in dtypes:
            try:
                want = getattr(np, name).resolve_dtypes((np.dtype(a), np.dtype(b), None))[2]
            except TypeError:
                want = None
            try:
                got = getattr(frit, name)(frit.ones(1, dtype=a), frit.ones(1, dtype=b)).dtype
            except TypeError:
                got = None
            assert got == want, (a, b)


@pytest.mark.parametrize("dtype, bound", [("f2", "f2"), ("f8", "f8"), ("f4", "f8"), ("f4", "?")]
                         + [("f4", "f4"), ("f8", "f4"), ("f8", "i4")] * (not SLOW))
def test_zeros_of_clip(dtype, bound):
    # Not bounds that are rows or columns: whether NumPy's iterator spreads them out in a buffer, where they
    # are arrays, or hands them over as they are, where they are numbers, depends on sizes and strides.
    shapes = [(), (1,), (5,), (1, 1), (1, 5), (5, 1), (4, 5), (4, 1), (2, 1, 1)]
    for shape in shapes:
        for lo_shape in shapes:
            for hi_shape in shapes + [None]:
                if any(np.prod(s or ()) > 1 and s != shape for s in (lo_shape, hi_shape)):
                    continue
                for zero in 0.0, -0.0:
                    x, lo = np.full(shape, zero, dtype), np.full(lo_shape, -zero).astype(bound)
                    hi = 3.0 if hi_shape is None else np.full(hi_shape, 3, dtype)
                    try:
                        want = np.clip(x, lo, hi), np.clip(x, -3, lo), np.clip(x, None, lo)
                    except ValueError:
                        continue
                    x, lo, hi = (frit.asarray(a) if isinstance(a, np.ndarray) else a for a in (x, lo, hi))
                    got = frit.clip(x, lo, hi), frit.clip(x, -3, lo), frit.clip(x, None, lo)
                    for g, w in zip(got, want):
                        assert_same(g, w, what=f"{shape} {lo_shape} {hi_shape} {zero}")


@pytest.mark.parametrize("dtype", "b B h H i I l L".split())
def test_clip_of_integers_stays_in_the_graph(dtype):
    """Whatever the bounds, as long as they are in the range; NumPy is asked where it raises."""
    x = np.arange(-100, 100).astype(dtype)
    before = frit.stats()["fallbacks"].get("clip", 0)
    for lo, hi in ((-5, 5), (3, 126), (-128, 100), (0, 255), (None, -7), (-40000, 3), (-3, 40000), (-2**40, 2**40)):
        try:
            want = np.clip(x, lo, hi)
        except OverflowError:
            continue
        assert_same(frit.clip(frit.asarray(x), lo, hi), want, what=f"{lo} {hi}")
    assert frit.stats()["fallbacks"].get("clip", 0) == before


@pytest.mark.parametrize("dtype", ["b", "H", "i", "L", *few(*"BhIl")])
def test_bounds_of_clip_at_the_ends_of_the_range(dtype):
    info = np.iinfo(dtype)
    x, top = np.array([[info.min], [0], [info.max]], dtype), np.full((1, 1), -0.0)
    ints = [b + d for b in (info.min, 0, info.max, -2**63, 2**63, 2**64) for d in (-1, 0, 1)]
    for lo, hi in itertools.product([None, top, *ints], repeat=2):
        for a in x, x[1:2]:
            def clipped(xp):
                try:
                    return xp.clip(*(xp.asarray(v) if isinstance(v, np.ndarray) else v for v in (a, lo, hi)))
                except OverflowError:
                    return None
            got, want = clipped(frit), clipped(np)
            assert (got is None) == (want is None), (lo, hi)
            if want is not None:
                assert_same(got, want, what=f"{lo} {hi}")


def test_zeros_of_a_number_as_bound():
    def program(xp, force):
        v = xp.asarray(np.array([0.0, -0.0, 1.0, -5.0, np.nan] * 9))
        return [1 / xp.clip(v.astype(d), lo, hi)
                for d in ("f2", "f4", "f8") for lo, hi in [(0, 3), (-0.0, 3), (None, 0), (-1, -0.0)]]
    both(program)


@pytest.mark.parametrize("work", [
    "v |= v", "v -= True", "v **= 0.5", "xp.add(v, v, out=v, dtype='f4')", "xp.invert(v, out=v)",
    "xp.add(v, v, out=v, where=v > 0)"])
def test_read_only_comes_before_dtypes(work):
    def refused(xp):
        env = {"xp": xp, "v": xp.broadcast_to(xp.asarray(np.ones(3)), (2, 3))}
        with pytest.raises(Exception) as e:
            exec(work, env)
        return e.type
    assert refused(frit) is refused(np) is ValueError


def test_order_of_what_is_made_like_a_broadcast_array():
    def program(xp, force):
        v = xp.broadcast_to(xp.asarray(np.ones(3)), (2, 3))
        w = xp.broadcast_to(xp.asarray(np.arange(6.0).reshape(3, 1, 2)), (5, 3, 4, 2))
        return [f(a) for f in (xp.zeros_like, xp.ones_like, lambda a: xp.full_like(a, 3),
                               lambda a: xp.roll(a, 1, 0), lambda a: xp.zeros_like(a, dtype="f4"))
                for a in (v, w, w.T, w[:, ::-1])]
    both(program)


def test_exceptions_have_the_types_of_numpy():
    dtypes = np.typecodes["AllInteger"].replace("q", "").replace("Q", "") + "?efdFD"

    def refused(f, *args, **kw):
        try:
            f(*args, **kw)
        except Exception as e:
            return type(e)

    for name in dir(np):
        theirs, mine = getattr(np, name), getattr(frit, name, None)
        if not isinstance(theirs, np.ufunc) or theirs.nin > 2 or theirs.nout > 1 or mine is None:
            continue
        for a in dtypes:
            for b in dtypes:
                args = [np.ones(3, a), np.ones(3, b)][:theirs.nin]
                kw = {"out": np.ones(3, b)} if theirs.nin == 1 or a == b else {}
                ours = {k: frit.asarray(v) for k, v in kw.items()}
                with np.errstate(all="ignore"):
                    want = refused(theirs, *args, **kw)
                    assert refused(mine, *map(frit.asarray, args), **ours) is want, (name, a, b)


@pytest.mark.parametrize("dtype", ["f8", "i4", "?", "f2", "c8"])
def test_order_of_truth_of_a_broadcast_array(dtype):
    def program(xp, force):
        results = []
        for small, large in ((3,), (2, 3)), ((1, 1, 65), (2, 3, 5, 1, 65)), ((4, 1), (2, 4, 3)):
            v = xp.broadcast_to(xp.asarray(np.ones(small, dtype)), large)
            results += [f(a, axis=k) for a in (v, v.T) for k in range(v.ndim)
                        for f in (xp.any, xp.all, xp.count_nonzero, xp.sum, xp.max, xp.argmax)]
        return results
    both(program)


def test_index_along_one_of_several_reduced_axes():
    def program(xp, force):
        v = xp.asarray(np.arange(1.0, 5).reshape(2, 2))
        w = xp.asarray(np.arange(60.0).reshape(3, 4, 5))
        return (xp.std(xp.tril(v), axis=(0, 1)), xp.sum(xp.triu(v) * v), xp.var(xp.tril(w)),
                (xp.tril(w) - xp.tril(w).mean()).sum(axis=(1, 2)), xp.tril(v.T).max() - v)
    both(program)


def test_dtype_of_functions_whose_loop_it_does_not_name():
    def result(f, *args, **kw):
        try:
            return f(*args, **kw).dtype
        except Exception as e:
            return type(e)

    for name in ("less", "logical_and", "isnan", "signbit", "bitwise_count", "absolute", "ldexp", "add",
                 "minimum"):
        for dtype in "?bBhilLefdFD":
            for d in "f4", "i2", "?", "F", "u4":
                for other in np.ones(3, d), 1, 3, 1.5:
                    args = [np.ones(3, d), other][:getattr(np, name).nin]
                    mine = [frit.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
                    want = result(getattr(np, name), *args, dtype=dtype)
                    assert result(getattr(frit, name), *mine, dtype=dtype) == want, (name, dtype, d, other)


def test_exponents_are_integers_of_any_size():
    def program(xp, force):
        return [xp.ldexp(xp.asarray(np.ones(3, d)), k) for d in "?BbuIfe" if d != "u" for k in (-1, 3, 300)]
    both(program)


def test_negative_power_of_no_integers():
    def program(xp, force):
        v = xp.asarray(np.ones((2, 0), int))
        return v ** -1, xp.power(v, -1), v
    both(program)


def test_index_among_the_values_of_rows():
    def program(xp, force):
        results = []
        for order in "CF":
            v = xp.asarray(np.array(np.arange(24.0).reshape(2, 1, 12), order=order))
            w = xp.asarray(np.array(np.arange(60.0).reshape(3, 4, 5), order=order))
            results += [xp.tril(v), xp.std(xp.sqrt(v), axis=-3), xp.std(v, axis=1), xp.sum(w, axis=0) * xp.tri(4, 5),
                        xp.sum(w, axis=2) + xp.tri(3, 4), xp.sum(w, axis=1) - xp.arange(5.0)]
        return results
    both(program)


@pytest.mark.parametrize("work", [
    "xp.subtract(v[21:], v[21:], out=v[21:])", "v.fill(0)", "v[3:5] = v[:2]", "v += 1", "v[:] = 2",
    "v[::2] *= v[1::2]"])
def test_memory_that_numpy_looks_at_stays_where_it_is(work):
    def program(xp, force):
        v = xp.asarray(np.arange(1.0, 23))
        seen, product = np.asarray(v), xp.prod(v)
        exec(work, {"xp": xp, "v": v})
        return xp.asarray(seen), v, product
    both(program)


def test_numpy_writes_after_tensors_have_read():
    def program(xp, force):
        v = xp.asarray(np.arange(5.0))
        np.asarray(v)[0] = 7
        w = v + 1
        np.asarray(v)[...] = 3
        return v, w
    both(program)


def test_results_that_are_parts_of_one_array_are_tensors():
    """The arrays of nonzero() lie in one; one that stayed an ndarray was copied by what would show it."""
    x = np.array([[0.0, 1, 2], [3, 0, 4]])
    want, got = np.nonzero(x), frit.nonzero(frit.asarray(x))
    assert all(type(g) is frit.Tensor and np.asarray(g).strides == w.strides for g, w in zip(got, want, strict=True))

    def run(np, x):
        rows, columns = np.nonzero(x)
        turned = np.flip(rows)
        turned -= 1
        columns *= 2
        return rows, columns, turned
    for r in (run(frit, frit.asarray(x)), frit.accelerate(lambda x: run(np, x))(x)):
        assert [np.asarray(v).tolist() for v in r] == [v.tolist() for v in run(np, x)]


def test_results_in_the_memory_of_an_operand_that_is_read_later():
    """The reference stored one result of a kernel over an operand before another result was computed from it."""
    def run(xp):
        a = xp.asarray(np.linspace(-2, 1, 12).reshape(4, 3))
        b = xp.clip(a, 0, 3)
        xp.subtract(a, b, out=b)
        c = a * 1
        c[3:4] = 100
        c %= b
        return np.asarray(b), np.asarray(c)
    with np.errstate(all="ignore"):
        for got, want in zip(run(frit), run(np), strict=True):
            np.testing.assert_array_equal(got, want)


def test_rounded_integers_are_laid_out_as_copies():
    x = np.broadcast_to(np.arange(4, dtype="i2"), (3, 5, 4))
    for a in (x, x.T, np.arange(12).reshape(3, 4)[:, ::-1]):
        got, want = np.asarray(frit.round(frit.asarray(a))), np.round(a)
        assert got.strides == want.strides and got.tolist() == want.tolist()


@pytest.mark.parametrize("order", "CFA")
def test_arrays_without_elements_are_reshaped_as_views(order):
    for empty in (np.zeros((0,)), np.zeros((3, 0)), np.zeros((0, 2)).T):
        t = frit.broadcast_to(frit.asarray(empty), (2, *empty.shape))
        want = np.broadcast_to(empty, (2, *empty.shape))
        for got, like in ((frit.ravel(t, order), np.ravel(want, order)),
                          (frit.reshape(t, (0, 5), order=order), np.reshape(want, (0, 5), order=order))):
            assert got.shape == like.shape and not like.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                got += 1


def test_rounded_complex_numbers_are_laid_out_as_copies():
    x = np.broadcast_to(np.arange(3) + 0.5j, (2, 3, 2, 3)).transpose(3, 1, 0, 2)
    want, got = np.round(x), frit.round(frit.asarray(x, copy=False))
    assert got.strides == want.strides
    np.testing.assert_array_equal(np.asarray(got), want)


def test_arrays_without_elements_have_no_strides():
    x = np.ones((1, 2, 3, 1), order="F")[..., ::-1, :-1, 63:63]
    t = frit.cumsum(frit.asarray(x), axis=3)
    want = np.cumsum(x, axis=3).sum(axis=3, initial=0)
    assert t.sum(axis=3, initial=0).strides == want.strides


def test_windows_without_elements_keep_their_strides():
    x = np.ones((2, 2, 3, 2, 3, 3))
    want, got = (a.transpose(5, 4, 3, 2, 1, 0)[0:0, :, -1] for a in (x, frit.asarray(x)))
    assert got.strides == want.strides
    assert got.sum(axis=(0, 2), initial=-2.5).strides == want.sum(axis=(0, 2), initial=-2.5).strides


def test_rows_without_elements_are_not_packed():
    with frit.config(pack_bytes=0):
        for shape in ((4, 0), (0, 4), (0, 0)):
            x = np.ones(shape)
            t = frit.asarray(x)
            for f in (lambda a: a[:, ::-1] + 1, lambda a: (a[:, ::-1] + 1).sum(axis=1), lambda a: a.T[::-1] + a.T):
                np.testing.assert_array_equal(np.asarray(f(t)), f(x))


@pytest.mark.parametrize("n", [8133, 8156, 8171, 8188, 8191])
def test_the_last_vector_of_a_row_buffer_has_room(n):
    """A sum's leaves begin at multiples of 8, so a row of nearly 8192 elements was written past its buffer."""
    a = np.random.default_rng(n).standard_normal(n) + 1
    for _ in range(4):
        t = frit.asarray(a)
        got = [(t > 0).var(), t.var(), (np.exp(t) - np.exp(t).mean()).std()]
        frit.eval(got)
        assert float(got[0]) == (a > 0).var() and float(got[1]) == a.var()
        frit.wait_for_compiles(60)


def test_a_store_after_an_older_version_was_read_reaches_the_array():
    """The older version was wanted by what was still pending, and the store over it went into a copy."""
    def program(a):
        a += 1
        older = a * 3
        a[1] = 2.5
        first = float(a[0, 0])
        a[2] += first
        return older, a + 0

    x, y = np.arange(24.0).reshape(3, 8), np.arange(24.0).reshape(3, 8)
    want, got = program(x), frit.accelerate(program)(y)
    np.testing.assert_array_equal(y, x)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("dtype", ["i1", "i8", *few("i2", "i4")])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_unsigned_numbers_beside_signed_ones_are_compared_exactly(name, dtype):
    """As floats, their common dtype, 2**63 is 2**63 - 1. Arrays, single numbers on either side, and into an array."""
    u = np.array([0, 1, 7, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 3, 2**64 - 1], "u8")
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    s = np.array([0, 1, 7, -1, -3, low, low + 1, high, high - 1], dtype)
    columns = u[:, None], s[:, None]

    def program(xp, force):
        f = getattr(xp, name)
        a, b, c, d = [xp.asarray(v) for v in (u, s, *columns)]
        out = xp.zeros((9, 9), bool)
        f(d, a, out=out)
        return [f(c, b), f(b, c), out, *(f(a, v) for v in s), *(f(v, a) for v in s), *(f(b, v) for v in u), *(f(v, b) for v in u)]

    both(program)


@pytest.mark.parametrize("function", [
    lambda x: x.sum(0), lambda x: (x + 1).sum(0), lambda x: x[..., ::-1].max(-1), lambda x: x.var(0, keepdims=True),
    lambda x: x * 2, lambda x: x.astype("f4"), lambda x: x.copy(), lambda x: x.reshape(x.shape), lambda x: x.reshape(0, 7),
    lambda x: x.reshape(*x.shape[::-1]), lambda x: x.ravel(), lambda x: x[None, ::-1], lambda x: x @ x.swapaxes(-1, -2)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("empty", [0, 1, 2])
def test_strides_where_there_are_no_elements(empty, order, function):
    """Fresh memory has strides of 0 then, as NumPy's has; windows of an array keep theirs, and reductions their order."""
    shape = [3, 4, 5]
    shape[order.index(empty)] = 6
    base = np.zeros(shape).transpose(order)
    window = base[tuple(slice(6, None) if k == empty else slice(None) for k in range(3))]
    for x in (window, np.zeros(window.shape).transpose(order)):
        try:
            want = function(x)
        except ValueError as e:
            with pytest.raises(type(e)):
                frit.eval(function(frit.asarray(x)))
            continue
        got = frit.accelerate(function)(x)
        assert_same(got, want)
        assert_same(function(frit.asarray(x)), function(x.copy()))


SHARED = """
v0 = xp.asarray(data('f8', (), 291554101, 'C'))
v1 = v0 * v0
v2 = xp.asarray(data('f8', (), 291554102))
v3 = v2 > v0
v4 = xp.isneginf(v2)
v2 += v2
v5 = v4 % False
v6 = xp.logical_and(v0, v3)
v7 = xp.std(v6, axis=None, keepdims=True)
v8 = xp.where(v3, v3, v7)
v9 = xp.asarray(data('f2', (), 291554103))
v10 = v9.min(axis=None)
v11 = xp.asarray(data('f8', (), 291554104))
v9 /= v11
v12 = v10 <= v10
xp.multiply(v11, v11, out=v2)
v0 -= -1.0
v11 -= v0
raises('v13 = xp.sign(v12)')
v15 = xp.nansum(v11, axis=None)
v11 -= v15
v16 = xp.prod(v7, axis=None, keepdims=True)
v17 = xp.atleast_1d(v9)
v18 = xp.asarray(data('c16', (), 291554105))
force(v16)
"""


def test_readers_of_shared_arrays_by_turns():
    """Stores over memory that others look at take what reads the old values along, which stores over other such memory,
    and so on: each round must keep what the rounds before it have found, or they follow each other forever."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--child", "--runs", "6", "--accelerate"]
    done = subprocess.run(command, input=json.dumps({"lines": SHARED.strip().split("\n")}) + "\n", cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, timeout=100, check=True)
    assert json.loads(done.stdout) is None


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1, 4), (2, 0, 3)])
def test_axis_order_of_a_masked_truth(shape):
    """all and any under where= order the result's axes by the strides of the numbers and of the mask: neither a copy to
    bool nor the masked copy of no elements may come between."""
    masks = [np.arange(shape[-1]) % 2 == 0, np.ones(shape, bool), np.asfortranarray(np.ones(shape, bool))]
    for perm, wide, mask in itertools.product(itertools.permutations(range(3)), range(4), masks):
        less = [1 if k == wide else n for k, n in enumerate(shape)]
        x = np.random.default_rng(1).standard_normal([less[p] for p in perm])

        def program(xp, force):
            a = xp.broadcast_to(xp.transpose(xp.asarray(x.copy()), tuple(int(i) for i in np.argsort(perm))), shape)
            where = xp.asarray(mask.copy(order="K"))
            return [f(a, axis=axes, where=where) for f in (xp.all, xp.any)
                    for n in (1, 2) for axes in itertools.combinations(range(3), n)]
        both(program)


def test_new_memory_for_nothing_has_no_strides():
    """... which a result with elements, reduced from it, shows."""
    def program(xp, force):
        a = xp.asarray(np.zeros((4, 3, 2)))[:, 1:1, ::-1]
        made = [xp.concatenate([a, a]), xp.roll(a, 1, axis=0), xp.repeat(a, 2, axis=0), xp.stack([a, a])[0]]
        return [xp.sum(m, axis=1) for m in made] + [xp.any(m.transpose(2, 1, 0), axis=1) for m in made]
    both(program)


def test_new_axes_of_nothing():
    """expand_dims reshapes, so that what has no elements gets the strides of its new shape; None only adds an axis."""
    a = np.ones((2, 2, 3, 1, 2)).astype("f2", order="F")[..., ::-1, 1:, 2:]
    t = frit.asarray(np.ones((2, 2, 3, 1, 2))).astype("f2", order="F")[..., ::-1, 1:, 2:]
    for axis in (0, 2, -1, (0, 3)):
        assert frit.expand_dims(t, axis).strides == np.expand_dims(a, axis).strides, axis
        assert_same(frit.expand_dims(t, axis).sum((-1, -2), keepdims=True), np.expand_dims(a, axis).sum((-1, -2), keepdims=True))
    assert t[:, None].shape == a[:, None].shape


def test_broadcast_axes_of_one_element_stand_still():
    for shape, to in (((1, 1), (2, 31, 1)), ((3, 1), (3, 1)), ((1, 3), (1, 1, 3)), ((4, 1, 3), (2, 4, 1, 3)), ((0, 1), (2, 0, 1)), ((), (1, 1))):
        a = np.ones(shape)
        t, w = frit.broadcast_to(frit.asarray(a), to), np.broadcast_to(a, to)
        assert t.strides == w.strides, (shape, to)
        assert_same(t + 1, w + 1)


@pytest.mark.parametrize("dtype", ["f2", "c8", "i4", *few("f4", "f8")])
def test_the_order_of_a_sum_follows_where_the_result_goes(dtype):
    """NumPy's iterator walks the axes as out= lies, where that and the operand differ."""
    rng, n_handed = np.random.default_rng(0), 0
    for shape in ((20, 30, 12), (3, 100, 7), (2, 3, 1, 12)):
        for perm in itertools.permutations(range(len(shape))):
            a = (rng.standard_normal([shape[p] for p in perm]) * 30).astype(dtype).transpose(np.argsort(perm))
            t = frit.asarray(a, copy=False)
            for axes, order in itertools.product([0, 1, 2, (1, 2)], "CF"):
                for name in ("sum", "std") if dtype != "i4" else ("sum", "mean", "max"):
                    like = getattr(np, name)(a, axis=axes)
                    want = np.zeros(like.shape, like.dtype, order)
                    got = frit.asarray(want.copy("K"), copy=False)
                    before = sum(frit.stats()["fallbacks"].values())
                    getattr(np, name)(a, axis=axes, out=want)
                    getattr(frit, name)(t, axis=axes, out=got)
                    n_handed += sum(frit.stats()["fallbacks"].values()) - before
                    assert_same(got, want, what=(name, shape, perm, axes, order))
    assert n_handed < 180       # of 288; where out= agrees with the operand, it is ours


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_the_sign_of_a_nan_decides_nothing(dtype):
    """The root of -inf + NaN i is NaN + inf i, whichever sign the NaN has: that is nobody's business."""
    a = np.zeros(9, dtype)
    a.real = -np.inf
    a.imag = np.where(np.arange(9) % 2, np.nan, np.copysign(np.nan, -1))
    root = np.asarray(frit.sqrt(frit.asarray(a)))
    assert np.isnan(root.real).all() and (root.imag == np.inf).all()


@pytest.mark.parametrize("dtype", ["F", "D"])
@pytest.mark.parametrize("name", ["cos", "cosh", "arccosh"])
def test_zeros_and_angles_do_not_follow_the_sign_of_a_nan(name, dtype):
    pairs = list(itertools.product([np.nan, np.copysign(np.nan, -1)], [0.0, -0.0]))
    a = np.zeros((8, 9), dtype)     # vectors of each, and a rest
    a.real, a.imag = np.array(pairs + [p[::-1] for p in pairs]).T[:, :, None]
    got, want = np.asarray(getattr(frit, name)(frit.asarray(a))), getattr(np, name)(a)
    for g, w in (got.real, want.real), (got.imag, want.imag):
        assert (np.isnan(g) == np.isnan(w)).all()
        assert (g[~np.isnan(g)].view(f"u{g.itemsize}") == w[~np.isnan(w)].view(f"u{w.itemsize}")).all()


@pytest.mark.parametrize("shape", [[2, 3], [6], [3, -1]])
def test_a_tensor_of_whole_numbers_is_a_shape(shape):
    """It was taken for one number: gradient over coordinates, which reshapes by an array, raised a TypeError."""
    x = np.arange(6.0)
    for s in (np.array(shape), frit.asarray(np.array(shape))):
        assert_same(np.asarray(frit.asarray(x).reshape(s)), x.reshape(shape))
        if min(shape) > 0:
            assert frit.zeros(s).shape == np.zeros(shape).shape
            assert_same(np.asarray(frit.broadcast_to(frit.asarray(x[:1]), s)), np.broadcast_to(x[:1], shape))
    with pytest.raises(TypeError):
        frit.asarray(x).reshape(frit.asarray(np.array([2.0, 3.0])))


@pytest.mark.parametrize("axis", [0, 1])
def test_a_gradient_over_coordinates(axis):
    at, y = np.array([0.0, 0.5, 0.75, 2.0, 3.5]), np.arange(25.0).reshape(5, 5) ** 2
    assert_same(frit.accelerate(lambda y, at: np.gradient(y, at, axis=axis))(y, at), np.gradient(y, at, axis=axis))


def test_rows_with_others_between_them_are_added_in_order():
    """Beside four operands that lie in Fortran's order, rows were run in tiles, each for all indices of the next axis, and
    a sum over both took them in that order."""
    rng = np.random.default_rng(1)
    a = np.asfortranarray(rng.integers(0, 1 << 60, (6, 28, 12, 4)).astype("u8"))
    b = rng.integers(1, 1 << 60, (6, 28, 12, 4)).astype("u8")

    def f(xp, a, b):
        root, less = xp.sqrt(a), xp.negative(a)
        quotient, rest = divmod(less, b)
        return xp.clip(root, -9, 9), root, less, quotient, rest, rest.sum(axis=(0, 1, 2), dtype=np.float64)

    got = f(frit, frit.asarray(a), frit.asarray(b))
    frit.eval(*got)
    for g, w in zip(got[2:], f(np, a, b)[2:]):
        assert_same(np.asarray(g), w)


@pytest.mark.parametrize("component", ["real", "imag"])
@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_components_of_repeated_rows_lie_as_numpys(component, dtype):
    """They were copied with the repeated axis innermost, and all that was made of them lay like that."""
    rows = np.broadcast_to(np.arange(5).astype(dtype), (3, 5))
    want, got = getattr(np, component)(rows) + 0, np.asarray(getattr(frit, component)(rows) + 0)
    assert got.strides == want.strides and np.array_equal(got, want)


def test_what_is_empty_lies_as_it_lay():
    """Among arrays of NumPy, too, which are copied: the result of a concatenation is laid out as its operands are."""
    v = np.asfortranarray(np.ones((2, 3, 2)))

    def f():
        a = v.astype("f2", order="A")
        np.random.default_rng(7).shuffle(np.zeros(3))
        return np.concatenate([a[:0], a]), np.concatenate([a, a[:0]]), np.concatenate([a[:, :0], a], axis=1), np.stack([a[:0], a[:0]])
    for got, want in zip(frit.accelerate(f)(), f()):
        assert_same(got, want, strides=True)


@pytest.mark.parametrize("f", [np.negative, lambda x: x * 2.0, lambda x: 2.0 - x, lambda x: x + x, lambda x: -np.sqrt(x)])
@pytest.mark.parametrize("x", [np.frombuffer(b"", "f8"), np.zeros((3, 0)), np.zeros((0, 3)).T, np.zeros((3, 4))[:, 4:],
                               np.lib.stride_tricks.as_strided(np.zeros((3, 4)), (2, 0), (64, 16))])
def test_results_without_elements_have_strides_of_0(x, f):
    """Whatever the strides of the argument are."""
    fast = frit.accelerate(f)
    for _ in range(3):
        got = fast(x)
        assert_same(got, f(x))
        assert got.strides == f(x).strides
