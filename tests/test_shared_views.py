"""Shapes that arguments are given, views of views, and what views are views of."""
import numpy as np
import pytest

import frit

from .programs import COMPILED, assert_like_numpy

pytestmark = pytest.mark.core

PROGRAMS = """
a.shape = (2, 2); return a
a.shape = 2, -1; a += 1; raise ValueError('a')
a.shape = 4, 1; return a.sum(0)
a.shape = (2, 2); a.shape = (4,); return a
a.shape = (2, 2); a.shape = (4, 1); return a * 2
a.shape = (3, 3)
a.shape = (2, 2); v = a.T; v[0, 1] = 9; return v, a
a.shape = (2, 2); b.shape = (1, 4); return a @ b.reshape(2, 2)
a.shape = (2, 2); return b, a
c = a[:2]; c.shape = (2, 1); return c, a
c = a * 2; c.shape = (2, 2); return c
a.shape = (1, 4); np.sort(a); return np.median(a)
a.shape = b.shape; return a
a.shape = (4, 1); return float(a[0, 0])
w = windows(a, 2, writeable=True); w[0] = 9; return w
w = windows(a, 2); return w, w.flags.writeable, w.base is not None
w = windows(a, 2); w[0] = 1
windows(a, 9)
w = windows(a, 2, axis=0, writeable=True); a[:] = 0; return w
w = windows(a, 2, writeable=True); w[1, 1] += 5; a *= 2; return w, w.sum(1)
w = windows(a.reshape(2, 2), (1, 2), writeable=True); w *= 2; return w, a
return windows(a, 2).mean(-1), windows(a, 3, writeable=True).sum()
w = strided(a, (3, 2), (8, 8)); w[1] = 7; return w, a
w = strided(a, (3, 2), (8, 8), writeable=False); return w, w.flags.writeable
w = strided(a, (3, 2), (8, 8), writeable=False); w[0] = 1
w = strided(a[1:], (2,), (16,)); w += 1; return a
w = strided(a, shape=(2, 2), strides=(16, 8)); a *= 2; return w
c = a * 2; v = c[1:]; return v.base is c, c.base is None, v[1:].base is c, c.T.base is c, c.reshape(2, 2).T.base is c
c = a * 2; v = c[1:]; return c.ravel().base is c, v.base is v.base, c[:].base is c, c.squeeze() is c, c[None].base is c
c = a * 2; v = c[1:]; b = v.base; b[1] = 100; return v, c, b
c = a * 2; v = c[1:]; del c; b = v.base; b[1] = 100; return v, b
c = a * 2; v = c[::-1]; w = v[1:]; w[0] = 5; return w.base, c
c = (a * 2).reshape(2, 2); return c[0].base is c.base, np.diagonal(c).base is c.base, c.swapaxes(0, 1).base is c.base
return np.arange(3.0).base, (a * 2).base, a.copy().base, a.sum().base
operator.concat(a, a)
operator.iconcat(a, a)
operator.concat(a, [1])
operator.concat(a, 1)
operator.concat(a.sum(), 1)
return a + a, operator.add(a, a), operator.iadd(a, a)
c = [1]; c += a; return c
return (1, 2, 3, 4) + a
""".strip().split("\n")
NAMES = {"windows": np.lib.stride_tricks.sliding_window_view, "strided": np.lib.stride_tricks.as_strided}


@pytest.mark.parametrize("source", PROGRAMS[::6] if COMPILED else PROGRAMS)
def test_programs(source):
    assert_like_numpy(source, (np.arange(4.0), np.arange(4.0) + 5), **NAMES)
    if "strided" not in source:
        assert_like_numpy(source, lambda: (np.arange(1.0, 11)[2:6], np.arange(4.0)), calls=2, **NAMES) if "base is" not in source else None


def test_a_base_among_arguments():
    f = frit.accelerate(lambda a, b: (a.base is None, a[1:].base is a, b.base is a, a.T[::2].base is a))
    for _ in range(8):
        x = np.arange(4.0)
        assert f(x, x[1:]) == (True, True, True, True)


class Holder:
    pass


def test_in_containers_and_attributes():
    def in_list(l):
        l[0].shape = (2, 2)
        l[0] += 1
        return l[0] * 2

    def in_attribute(o):
        o.x.shape = (2, 2)
        return o.x.sum(0)

    f, g = frit.accelerate(in_list), frit.accelerate(in_attribute)
    for _ in range(8):
        l, o = [np.arange(4.0)], Holder()
        o.x = np.arange(4.0)
        assert f(l).shape == l[0].shape == (2, 2) and l[0].sum() == 10
        assert g(o).tolist() == [2, 4] and o.x.shape == (2, 2)


def test_calls_that_are_made_again():
    """Such a call is never noted, nor one that stores into a component of what it is not given."""
    def reshaped(x):
        x.shape = (2, -1)
        return x * 2

    f = frit.accelerate(reshaped)
    outside = np.arange(6.0) + 0j
    g = frit.accelerate(lambda v: v + 1)

    def into(v):
        outside.real = v
        return outside.imag + 1

    g = frit.accelerate(into)
    for k in range(60):
        x = np.arange(4000.0)
        assert f(x).shape == x.shape == (2, 2000)
        g(np.arange(6.0) * k)
        assert (outside.real == np.arange(6.0) * k).all()
