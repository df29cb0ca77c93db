"""One test for each bug that random programs have found.  NumPy is the judge."""
import numpy as np
import pytest

import frit

from .common import assert_same

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
