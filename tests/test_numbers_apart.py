"""What NumPy shows as a number is not shared: views of it are of their own. Arrays without axes are shared."""
import warnings

import numpy as np
import pytest

import frit

from .common import assert_same
from .programs import COMPILED, assert_like_numpy

pytestmark = pytest.mark.core

PROGRAMS = """
s = a.sum(); v = s.ravel(); v -= 1; return s, v
s = a.sum(); v = s[...]; v -= 1; return s, v
s = a.sum(); v = s.reshape(()); v -= 1; return s, v
s = a.sum(); v = s.reshape(1); v[0] = 9; return s, v
s = a.sum(); v = s.reshape(1, -1); v += 1; w = v.T; w *= 2; return s, v, w
s = a.sum(); v = s.T; v -= 1; return s, v
s = a.sum(); v = s.squeeze(); v -= 1; return s, v
s = a.sum(); v = s.view(); v -= 1; return s, v
s = a.sum(); v = s.copy(); v -= 1; return s, v
s = a.sum(); v = s.transpose(); v -= 1; return s, v
s = a.sum(); v = s.flatten(); v -= 1; return s, v
s = a.sum(); v = s.conj(); v -= 1; return s, v
s = a.sum(); v = s.real; v += 1; return s, v
s = a.sum(); v = np.atleast_1d(s); v -= 1; return s, v
s = a.sum(); v = np.atleast_2d(s); v -= 1; return s, v
s = a.sum(); v = np.atleast_3d(s); v -= 1; return s, v
s = a.sum(); v, w = np.atleast_1d(s, a); v += 1; return s, v, w is a
s = a.sum(); v = s[...]; np.add(v, 1, out=v); return s, v
s = a.sum(); np.add(s, 1, out=s[...]); return s
s = a.sum(); np.add(s, 1, out=s)
s = a.sum(); v = np.ravel(s); v[:] = 0; return s, v
s = a.sum(); v = s[None]; v[:] = 0; return s, v
s = a.sum(); v = s[..., None]; v[:] = 0; return s, v
s = a.sum(); v = np.expand_dims(s, 0); v[:] = 0; return s, v
s = a.sum(); v = np.reshape(s, -1); v[:] = 0; return s, v
s = a.sum(); v = np.reshape(s, ()); v += 1; return s, v
s = a.sum(); v = np.transpose(s); v += 1; return s, v
s = a.sum(); v = np.asarray(s); v += 1; return s, v
s = a.sum(); v = np.array(s); v += 1; return s, v
s = a.sum(); v = np.squeeze(s); v += 1; return s, v
s = a.sum(); v = np.moveaxis(s, [], []); v += 1; return s, v
s = a.sum(); v = np.flip(s); v += 1; return s, v
s = a.sum(); v, w = np.broadcast_arrays(s, s); return s, v, w
s = a.sum(); v = np.broadcast_to(s, (2,)); return s, v
s = a.sum(); s.flat[0] = 5; return s
s = a[0]; v = s.ravel(); v -= 1; return s, v, a
s = a.max(); s += 1; t = s; t *= 2; return s, t
s = (a * 1j).sum(); v = s.real; v += 1; return s, v
s = (a * 1j).sum(); v = s[...]; v.real = 5; return s, v
s = (a * 1j).sum(); s.real = 5
s = a.sum(); s.fill(3); return s
s = a.sum(); s.put(0, 1); return s
s = a.sum(); s.sort()
s = a.sum(); s.shape = (1,)
s = a.sum(); s.setflags(write=False); return s, s.flags.writeable, s.base
s = a.sum(); return s.view('i8')
s = a.sum(); s.view('i8')[...] = 0
s = a.sum(); return s.repeat(2), s.take(0), s.compress([True]), s.clip(0, 1)
s = a.sum(); s.swapaxes(0, 0)
d = a[..., 0]; v = d.ravel(); v -= 1; return d, v, a
d = np.array(3.0); v = d.ravel(); v -= 1; return d, v
d = np.array(3.0); v = d[...]; v -= 1; return d, v
d = np.array(3.0); v = d.reshape(()); v -= 1; return d, v
d = np.array(3.0); v = d.T; v -= 1; return d, v
d = np.array(3.0); v = d.squeeze(); v -= 1; return d, v is d
d = np.array(3.0); return np.squeeze(d) is d, np.atleast_1d(d) is d, d.squeeze() is d, d.squeeze(()) is d, d.T is d
return np.squeeze(a) is a, np.atleast_1d(a) is a, a.squeeze() is a, np.broadcast_arrays(a, a)[0] is a
c = a.reshape(1, -1); return np.squeeze(c) is c, np.atleast_2d(c) is c, np.squeeze(c, ()) is c, np.atleast_3d(c) is c
c = a.reshape(1, -1); return c.squeeze().base is a, np.atleast_1d(a, c)[1] is c, np.squeeze(c, 0).base is a
c = a + 1; return [v.flags.owndata for v in (c, c[...], c.view(), c.ravel(), c[:], c[1:], np.rollaxis(c, 0), c.copy(), c.T)]
import sys; c = np.arange(1000.0) + a.size; return [sys.getsizeof(v) > 4000 for v in (c, c[...], c.view(), c.reshape(10, 100), c.copy())]
return float((a * 1j).sum())
return int((a + 1j).sum())
return complex((a * 1j).sum())
return float(np.array(1j))
return int(np.array(1j))
return np.maximum.accumulate(a.sum())
return np.maximum.accumulate(np.array(3.0))
return np.add.accumulate(a.sum())
return np.add.accumulate(a.sum(), axis=1)
return np.cumsum(a.sum()), np.maximum.accumulate(a)
""".strip().split("\n")


@pytest.mark.parametrize("source", PROGRAMS[::8] if COMPILED else PROGRAMS)
def test_programs(source):
    for n in (4, 7000):
        assert_like_numpy(source, (np.arange(1.0, n + 1), None), warns=True, calls=4)


def test_tensors_themselves():
    s = frit.arange(4.0).sum()
    for view in (s.ravel(), s[...], s[None], s.reshape(1, 1), frit.ravel(s), frit.atleast_1d(s), frit.expand_dims(s, 0)):
        view -= 1
        assert float(view.ravel()[0]) == 5 and float(s) == 6
    s.eval()
    view = s.ravel()
    view[:] = 3
    assert float(s) == 6 and view.tolist() == [3]
    d = frit.asarray(3.0)
    assert frit.squeeze(d) is d and frit.atleast_1d(frit.ones(3)).shape == (3,)


def test_byte_order_of_what_is_made_alike():
    for dtype in (">f8", ">i4", ">c8", "<f8", "<u2"):
        for name in ("zeros_like", "ones_like", "empty_like"):
            f = frit.accelerate(lambda a, name=name: getattr(np, name)(a))
            assert f(np.ones(3, dtype)).dtype == np.dtype(dtype)
        f = frit.accelerate(lambda a: (np.zeros_like(a), np.full_like(a, 2), np.zeros_like(a, dtype="f4")))
        assert [x.dtype for x in f(np.ones(3, dtype))] == [np.dtype(dtype), np.dtype(dtype), np.dtype("f4")]


# ---- powers

EXPONENTS = [0.5, 2.0, -1.0, 1.0, 2, np.float64(0.5), np.float32(0.5), np.float16(0.5), np.float64(2), np.float64(-1), np.int64(2), np.float32(2)]


@pytest.mark.parametrize("dtype", "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8".split()[::4 if COMPILED else 1])
def test_short_cuts_of_powers(dtype):
    for e in EXPONENTS[::3] if COMPILED else EXPONENTS:
        for a in (np.arange(1, 2000).astype(dtype), np.arange(1, 50).astype(dtype)[::-2], np.array(37).astype(dtype)):
            assert_like_numpy("return a ** e, np.power(a, e)", (a, None), calls=2, e=e)


def test_powers_in_place():
    for source in ("a **= 0.5; return a", "a = a * 1.0; a **= 2; a **= 0.5; return a", "a = a.astype('f4'); a **= np.float64(0.5); return a",
                   "np.power(a, 0.5, out=a)", "c = np.empty(4); np.power(a, 0.5, out=c); return c"):
        assert_like_numpy(source, (np.arange(4), None), calls=2)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 1.5, 3, 7])


@pytest.mark.parametrize("dtype", "f2 f4 f8 c8 c16 i8 u1 ?".split())
def test_forms_of_powers(dtype):
    """An array's power of Python's 2, -1 and 0.5 is a square, a reciprocal and a root; of other numbers, and by the function,
    it is the loop's."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = {"c": np.array([complex(a, b) for a in SPECIAL for b in SPECIAL]), "f": SPECIAL}.get(dtype[0], np.arange(2 if dtype == "?" else 7)).astype(dtype)
        for e in (2, 2.0, -1, -1.0, 0.5, 3, 1, -2, True, np.float64(0.5), np.float64(-1), np.float32(0.5), np.int64(2), np.int64(-1)):
            for f in (lambda x: x ** e, lambda x: np.power(x, e), lambda x: x.__ipow__(e)):
                for a in (x, x[3 % x.size:][:1].reshape(())):
                    try:
                        want = f(a.copy())
                    except Exception as error:
                        with pytest.raises(type(error)):
                            frit.accelerate(f)(a.copy())
                        with pytest.raises(type(error)):
                            f(frit.asarray(a))
                        continue
                    for got in (frit.accelerate(f)(a.copy()), f(frit.asarray(a))):
                        assert_same(np.asarray(got), np.asarray(want), ulp=64 if dtype[0] == "c" else 1, what=f"{dtype} {e!r}")


def test_powers_of_numbers():
    """A power of a NumPy number is C's, which is not always a square or a root rounded once."""
    rng = np.random.default_rng(0)
    for dtype in ("f8", "f4", "i4"):
        for e in (0.5, 2, 2.0, -1.0, 3, 4, np.float64(0.5), np.float32(2), np.int64(2)):
            for _ in range(5 if COMPILED else 60):
                x = (rng.random(3) * 90 + 1).astype(dtype)
                t = frit.asarray(x)
                both = [(t.sum() ** e, x.sum() ** e), (t[0] ** e, x[0] ** e)]
                if e < 3:       # the function's are as of arrays: other powers are ours
                    both.append((np.power(t.sum(), e), np.power(x.sum(), e)))
                for mine, theirs in both:
                    assert type(mine._to_scalar()) is type(theirs) and mine._to_scalar().tobytes() == theirs.tobytes(), (dtype, e)
