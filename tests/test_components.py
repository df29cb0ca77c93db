"""Real and imaginary parts of complex arrays are views: what is written through one is seen through all others."""
import numpy as np
import pytest

import frit

from .common import SLOW, assert_same
from .programs import COMPILED, assert_like_numpy

pytestmark = pytest.mark.core

PROGRAMS = """
r = a.real; a *= 2; return r
a.imag[:] = 2; return a
a.real *= 2; return a.copy()
u = np.fft.ifft(a).real; u -= u.min(); return u
np.real(a)[0] = 1; return a
np.imag(a)[...] = 7; return a
a.real = a.imag; return a
a.real = a.imag[::-1]; return a
a.imag = 3; return a.imag
a.real = 1j * a; return a
a.real, a.imag = a.imag.copy(), a.real.copy(); return a
r, i = a.real, a.imag; r += i; i -= r; return r, i, a
w = a[1:4]; w.real[:] = a.real[2:5]; a.real[::2] += 1; return w, a.imag.sum()
y = a.reshape(2, -1); y.T.imag[1] = 7; return y, y.real.T, a
y = a.reshape(2, -1)[:, :2]; return y.real.sum(), y.imag.sum(axis=0), y.real[::-1].cumsum()
y = a.reshape(2, -1)[::-1, 1:]; return y.real.mean(), y.imag.T.sum(1), y.T.real.std(0)
r = a.real; r[2] = 9; a[3] = 1j; return r, r.strides, r.flags.owndata, r.flags.writeable, r.base is a
np.add(a.imag, 1, out=a.real); return a
np.multiply(a.real, a.imag, out=a.imag); return a
r = a.real; r.sort(); return a
a.real[a.real > 2] = 0; return a
a.real[[0, 1]] = a.imag[[2, 3]]; return a
a.imag[np.array([1, 1, 2])] += 5; return a
r = a[..., 0].real; r += 1; return a, r
x = np.zeros_like(a); x.real, x.imag = b, -b; return x
x = np.empty(b.shape, complex); x.real = b; x.imag = 0; return x * 1j
x = b + 0j; r = x.real; del x; r += 1; return r
x = b * 1j; i = x.imag; x[:2] = 5 + 5j; return i, x
s = a.sum(); r = s.real; r += 1; return s, r
d = np.array(1 + 2j); d.real = 5; d.imag[...] = 6; return d
r = a.real; r.fill(3); return a
np.copyto(a.real, b); np.copyto(a.imag, 5.0); return a
np.put(a.imag, [0, 1], [8, 9]); return a
r = a.real; r.shape = (2, -1); r[0] = 4; return r, a
a.real.T[:] = b; return a
v = a.real.view('i8'); v[0] = 0; return a, v
r = a.real[::-1]; r[1:] = r[:-1]; return a
r = a.real; r[1:] = r[:-1]; return a
i = a.imag; a.real[1:] = i[:-1]; i[1:] = a.real[:-1]; return a
a[:] = a.real[::-1]; return a
a[1:] = a.imag[:-1] + 1j * a.real[1:]; return a
return a.real.ravel().base is a, a.real.base is a, a.real is a.real
return np.shares_memory(a.real, a), np.shares_memory(a.real, a.imag), np.shares_memory(a.real[1:], a[:1])
return np.may_share_memory(a.imag, a[1:]), np.shares_memory(a.real[::2], a[1::2])
return b.real is b, b.imag
b.imag[0] = 1
b.imag = 1
a.real = np.ones(7)
a.real = 'x'
a.imag = None
del a.real
c = a * 1; c.flags.writeable = False; c.real[0] = 1
c = a * 1; c.flags.writeable = False; c.imag = 1
r = a.real; r.flags.writeable = False; a += 1; return r
r = a.real; r[0] = 1j
return np.median(a.real), a.imag.argsort(), a.imag.argmax()
return np.concatenate([a.real, a.imag]), np.stack([a.real, b]), np.where(a.real > 1, a.imag, b)
return a.real.take([0, 2]), a.real.copy(), a.imag.astype('f4'), a.real.tolist(), list(a.imag)
""".strip().split("\n") + [
    "t = 0.0\nfor k in range(len(a)): t = t + a.real[k] * a.imag[k]\nreturn t",
    "for k in range(1, len(a)): a.real[k] = a.real[k - 1] + a.imag[k]\nreturn a",
    "r = a.real\nfor k in range(3): r -= a.imag; a *= 1j\nreturn r, a"]


def numbers(n=6, dtype="c16"):
    rng = np.random.default_rng(n)
    a = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(dtype)
    return a, rng.standard_normal(n).astype(a.real.dtype)


@pytest.mark.parametrize("source", PROGRAMS[::8] if COMPILED else PROGRAMS)
def test_programs(source):
    assert_like_numpy(source, numbers())


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_large_ones(dtype):
    for source in PROGRAMS[:3] if COMPILED else PROGRAMS[:22]:
        assert_like_numpy(source, numbers(3000, dtype), calls=5)


# ---- arguments that are components, and what they are components of

SHARED = """
a *= 2; return b + 0
b *= 2; return a + 0
a.real[:] = b[::-1]; return a, b
b[:] = a.imag[:len(b)]; a += 1; return b, a.real
a[0] = 9; b[1] = 8; return a.imag, b * 2
return b, a.real is b, a.real.base is a.imag.base
b += a.imag[:len(b)]; return a
raise ValueError(str(a[0]) + str(b[0]))
b -= 1; raise ValueError(str(a[0]) + str(b[0]))
""".strip().split("\n")
PARTS = [lambda z: (z, z.real), lambda z: (z, z.imag), lambda z: (z, z.imag[::-1]), lambda z: (z, z[1:5].real),
         lambda z: (z[::2], z.imag[1:5:2]), lambda z: (z.reshape(2, 3)[:, :2], z.reshape(2, 3).real[:, 1:]),
         lambda z: (z[1:], z.view("f8")[2:10:2]), lambda z: (z, z.view("f8")[::3][:3])]


@pytest.mark.parametrize("part", range(2 if COMPILED else len(PARTS)))
def test_arguments(part):
    for source in SHARED[::4] if COMPILED else SHARED:
        for n in (6, 6000):
            def arguments():
                z = numbers(n)[0][:n] if n == 6 else numbers(n)[0].reshape(1000, 6)[0]
                return PARTS[part](z)
            if n == 6 or part != 6:
                assert_like_numpy(source, arguments, calls=5)


def test_components_alone():
    for source in ("a += 1; return a", "a[:] = b[::-1]; return b * 2", "a[1:] = a[:-1]; b += a; return a, b", "return a, b"):
        for parts in (lambda z: (z.real, z.imag), lambda z: (z.imag[1:4], z.real[2:5]), lambda z: (z.real[::2], z.real[1::2])):
            assert_like_numpy(source, lambda: parts(numbers()[0]))


def test_a_call_that_is_made_again_does_not_touch_what_lies_around():
    """Other arrays may lie like a component and have no complex numbers around them."""
    h = frit.accelerate(lambda a: np.add(a, 1, out=a) * 2)
    for k in range(60):
        z = np.full(4000, 1 + 5j)
        h(z.imag)
        assert (z == 1 + 6j).all()
    alone = np.arange(8001.0)[::2]
    want = np.arange(8001.0)
    want[::2] += 1
    h(alone)
    assert (alone.base == want).all()


# ---- memory that others see

def test_memory_is_complex():
    t = frit.asarray(numbers()[0])
    want = numbers()[0]
    for mine, theirs in ((np.asarray(t.real), want.real), (np.from_dlpack(t.imag), want.imag),
                         (np.asarray(memoryview(t[1:].real)), want[1:].real), (np.asarray(t.reshape(2, 3).T.imag), want.reshape(2, 3).T.imag)):
        assert_same(mine, theirs)
        mine[...] += 1
        theirs[...] += 1
        assert_same(np.asarray(t), want)
        t *= 2
        want *= 2
        assert_same(mine, theirs)
    t.real[1] = 77
    want.real[1] = 77
    assert_same(np.asarray(t.real), want.real)


def test_an_ndarrays_component():
    z = numbers()[0]
    s, q = frit.asarray(z.real, copy=False), frit.asarray(z, copy=False)
    q *= 2
    assert_same(np.asarray(s), z.real)
    z.real[0] = 100
    assert float(s[0]) == 100 and complex(q[0]).real == 100
    s += 1
    assert complex(z[0]).real == 101 and np.shares_memory(s, q)


def test_handed_over_functions_see_the_memory():
    for name, call in {"ix": lambda x: np.fill_diagonal(x, 9.0), "frexp": lambda x: np.frexp(x, out=(x, None)),
                       "modf": lambda x: np.modf(x, out=(None, x)), "shift": lambda x: np.put_along_axis(x, np.array([[0]]), 5, 1)}.items():
        t, z = frit.asarray(np.arange(9.0).reshape(3, 3) * (1 + 1j)), np.arange(9.0).reshape(3, 3) * (1 + 1j)
        call(t.imag)
        call(z.imag)
        assert_same(np.asarray(t), z, what=name)


# ---- sums, whose order depends on how the window lies; and that one kernel does it

def test_order_of_sums():
    z = numbers(3500)[0].reshape(70, 50)
    t = frit.asarray(z)
    windows = (np.s_[:, :7], np.s_[::-1], np.s_[:], np.s_[::3, 5:], np.s_[:, ::-1], np.s_[3], np.s_[:, 3], np.s_[5:6], np.s_[..., None])
    for window in windows[:1] if COMPILED else windows:
        for part in ("real", "imag"):
            x, y = getattr(z[window], part), getattr(t[window], part)
            for axis in (None, *range(x.ndim)):
                assert_same(y.sum(axis), x.sum(axis), what=(window, axis))
                assert_same(y.T.mean(axis), x.T.mean(axis), what=(window, axis))
            assert_same(y * 2, x * 2), assert_same(y.copy(), x.copy()), assert_same(y + y[::-1], x + x[::-1])


def test_reads_and_stores_are_one_kernel():
    t = frit.asarray(numbers(5000)[0]).eval()
    y = t.real * t.real + t.imag * t.imag
    assert frit.explain(y, "graph").count("group ") == 1
    v = frit.asarray(np.arange(5000.0)).eval()
    t.real = v
    t.imag += v
    y = t * 2
    assert frit.explain(y, "graph").count("group ") == 1


def test_storing_a_component_into_itself_is_nothing():
    t = frit.asarray(numbers(50)[0]).eval()
    t.real = t.real
    t.imag[2:] = t.imag[2:]
    assert not t._is_pending()


# ---- programs at random

def random_program(rng):
    """Statements over two complex arrays, their components and windows of all these."""
    names, lines = ["a", "c"], ["c = a * 2"]
    for k in range(int(rng.integers(3, 9))):
        x, y = rng.choice(names, 2)
        part, other = rng.choice(["", ".real", ".imag", "[1:]", "[:-1]", "[::-1]", ".real[1:]", ".imag[:-1]", "[2:].real[::-1]", "[::-1].imag"], 2)
        target = f"{x}{part}"
        value = str(rng.choice([f"{y}{other}", f"{y}{other} + 1", f"{x}{other} * 2", f"{y}{other}.copy()", "3", "b[0]"]))
        kind = rng.integers(0, 5)
        if kind == 0:
            names.append(f"v{k}")
            lines.append(f"v{k} = {target}")
        elif kind == 1:
            lines.append(f"{target}[0] = {value.replace('.copy()', '')}{'[1]' if value[0] in 'acv' and ' ' not in value and '.copy' not in value else ''}"
                         if " " not in value and "copy" not in value else f"{target}[0] = 4")
        elif kind == 2:
            lines.append(f"n = min(len({target}), len(np.atleast_1d({value})))")
            lines.append(f"{target}[:n] = np.atleast_1d({value})[:n] if len(np.atleast_1d({value})) > 1 else {value}")
        elif kind == 3:
            lines.append(f"{target}[:] *= 2" if rng.random() < 0.5 else f"w = {target}; w += 1")
        elif rng.random() < 0.5:
            lines.append(f"s{k} = {target}.sum() + {y}{other}.max()")
        else:
            lines.append(f"{x}.{rng.choice(['real', 'imag'])} = {rng.integers(0, 9)}")
    lines.append("return " + ", ".join(n for n in names) + ", a + c")
    return "\n".join(line for text in lines for line in text.split("; "))


@pytest.mark.parametrize("seed", range(1 if COMPILED else 3 if SLOW else 8))
def test_random_programs(seed):
    rng = np.random.default_rng(seed)
    for _ in range(2 if COMPILED else 6):
        source = random_program(rng)
        a, b = np.round(numbers(int(rng.choice([5, 40])), rng.choice(["c8", "c16"])), 1)
        assert_like_numpy(source, (a, b.real.copy()), calls=4)
