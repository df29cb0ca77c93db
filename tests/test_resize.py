"""What an array that resizes itself is: an owner of its memory or a view, a number, the base of views. And components of
arrays that no argument leads to."""
import gc
import weakref

import numpy as np
import pytest

import frit

pytestmark = pytest.mark.core

OWNERS = {
    "keepdims": lambda x: x.sum(axis=0, keepdims=True), "repeat": lambda x: x.repeat(2), "flatten": lambda x: x.flatten(),
    "maximum": lambda x: np.maximum(x, x), "sort": np.sort, "copy": lambda x: x.copy(), "times": lambda x: x * 2,
    "joined": lambda x: np.concatenate([x, x]), "cumsum": lambda x: x.cumsum(), "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "mask": lambda x: x[x > 1], "fancy": lambda x: x[[0]], "cast": lambda x: x.astype("f4"), "np.repeat": lambda x: np.repeat(x, 2),
    "max": lambda x: np.max(x, axis=0, keepdims=True), "where": lambda x: np.where(x > 1, x, 0)}


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 3), (3, 1), (0, 2)])
@pytest.mark.parametrize("name", OWNERS)
def test_owners_resize(name, shape):
    make = OWNERS[name]
    for new in (7, (2, 2), 0, 3):
        def f(x):
            y = make(x)
            y.resize(new, refcheck=False)
            return y
        x = np.arange(float(np.prod(shape))).reshape(shape)
        try:
            want = f(x)
        except (IndexError, ValueError) as e:
            with pytest.raises(type(e)):
                frit.accelerate(f)(x)
            continue
        np.testing.assert_array_equal(frit.accelerate(f)(x), want, strict=True)


@pytest.mark.parametrize("reshaped", [(6,), (3, 2), (1, 6), (6, 1)])
def test_what_reshapes_itself_owns_its_memory(reshaped):
    def f():
        y = np.arange(6.0) * 1
        y.shape = reshaped
        y.resize(8)
        return y
    np.testing.assert_array_equal(frit.accelerate(f)(), f(), strict=True)


@pytest.mark.parametrize("make", [
    lambda x: np.maximum(x, x), lambda x: x * 2, lambda x: x.sum(), lambda x: x.ravel()[0], lambda x: x.max(), lambda x: x.ravel() @ x.ravel()])
@pytest.mark.parametrize("new", [7, 0, (2, 2), ()])
def test_numbers_do_not_resize(make, new):
    def f(x):
        y = make(x)
        try:
            y.resize(new, refcheck=False)
        except ValueError as e:
            return str(e)
        return y
    x = np.array(3.0)
    got, want = frit.accelerate(f)(x), f(x)
    assert type(got) is type(want) and got == want


ARRAYS = {
    "own": lambda: np.arange(6.0) * 1, "columns": lambda: np.arange(6.0).reshape(2, 3).copy("F"), "rows": lambda: np.arange(6.0).reshape(2, 3).copy(),
    "f4": lambda: np.arange(6, dtype="f4"), "0d": lambda: np.array(3.0), "none": lambda: np.empty((0, 3)), "one": lambda: np.ones((1,)),
    "whole": lambda: np.arange(6.0)[:], "reshaped": lambda: np.arange(6.0).reshape(2, 3), "part": lambda: np.arange(9.0)[1:],
    "strided": lambda: np.arange(12.0)[::2], "buffer": lambda: np.frombuffer(bytearray(48)), "bool": lambda: np.array([True, False])}


def resize_alone(y, new):
    y.resize(new, refcheck=False)


def resize_between(y, new):
    z = y * 2
    y += 1
    y.resize(new, refcheck=False)
    y += 1
    return z, y, y.sum(), z.sum()


def resize_reshaped(y, new):
    y.shape = -1
    y.resize(new, refcheck=False)
    return y.shape, y * 2


def resize_twice(y, new):
    y.resize(new, refcheck=False)
    y.resize(9, refcheck=False)
    y[-1:] = 1
    return y


def resize_and_raise(y, new):
    y.resize(new, refcheck=False)
    y[...] = 3
    raise KeyError(y.shape)


def resize_held(y, new):
    r = weakref.ref(y)
    try:
        y.resize(new, refcheck=False)
    except ValueError as e:
        y *= 2
        return str(e), r() is y


def resize_checked(y, new):
    y.resize(new)


@pytest.mark.parametrize("f", [resize_alone, resize_between, resize_reshaped, resize_twice, resize_and_raise, resize_held,
                               resize_checked])
@pytest.mark.parametrize("key", ARRAYS)
def test_arguments_resize(key, f):
    accelerated = frit.accelerate(f)
    for new in (7, (2, 2), 0, (3, 4), 6, -1, 100000):
        results = []
        for g in (f, accelerated):
            y = ARRAYS[key]()
            try:
                out = g(y, new)
                out = out, out is y or type(out) is tuple and any(o is y for o in out)
            except Exception as e:
                out = type(e), str(e)
            results.append((out, y))
        (want, y), (got, x) = results
        np.testing.assert_array_equal(x, y, strict=True)
        assert x.flags.owndata == y.flags.owndata and x.flags.c_contiguous == y.flags.c_contiguous
        np.testing.assert_equal(got, want)


@pytest.mark.parametrize("f", [resize_alone, resize_between])
def test_an_array_with_weak_references_keeps_its_size(f):
    for g in (f, frit.accelerate(f)):
        y = np.arange(6.0) * 1
        r = weakref.ref(y)
        with pytest.raises(ValueError, match="references or is referenced"):
            g(y, 8)
        assert r().shape == (6,) and y.sum() == (15 if f is resize_alone else 21)


BOX = [np.arange(4.0) * 1]


def test_arrays_that_no_argument_is_resize():
    @frit.accelerate
    def f(a):
        BOX[0].resize(a.size + 3, refcheck=False)
        BOX[0][-1] = a[0]
    f(np.full(3, 5.0))
    np.testing.assert_array_equal(BOX[0], [0.0, 1, 2, 3, 0, 5], strict=True)


def test_views_of_what_was_resized_stay_in_memory():
    """NumPy's own are over memory that is free."""
    @frit.accelerate
    def f(y):
        v, w = y[1:4], np.asarray(y[2:]).copy()
        y += 1
        y.resize(1000000, refcheck=False)
        v *= 2
        return v, v + 0, w, y[:4]
    y = np.arange(5.0) * 1
    v, sums, w, part = f(y)
    np.testing.assert_array_equal(v, [4.0, 6, 8], strict=True)
    np.testing.assert_array_equal(sums, v, strict=True)
    np.testing.assert_array_equal(w, [2.0, 3, 4], strict=True)
    np.testing.assert_array_equal(part, [1.0, 2, 3, 4], strict=True)
    assert y.shape == (1000000,) and y.sum() == 15 and np.shares_memory(part, y) and not np.shares_memory(v, y)


def test_calls_that_resize_are_made_by_themselves():
    """What was noted of a call holds the memory of its arguments."""
    @frit.accelerate
    def f(y):
        y *= 2
        if y.size < 60:
            y.resize(60, refcheck=False)
        return y + 1
    for i in range(40):
        n = 50 + i % 3 * 5
        y = np.arange(float(n)) * 1
        got = f(y)
        want = np.zeros(60)
        want[:n] = np.arange(float(n)) * 2
        np.testing.assert_array_equal(y, want, strict=True)
        np.testing.assert_array_equal(got, want + 1, strict=True)


def test_the_base_of_views_gets_other_memory():
    y = frit.arange(9.0)
    v = y[1:]
    y.resize(20, refcheck=False)
    del y
    gc.collect()
    others = [frit.zeros(3) for _ in range(5)]
    assert not any(v.base is o for o in others)
    np.testing.assert_array_equal(v.base, np.arange(9.0))
    np.testing.assert_array_equal(v, np.arange(1.0, 9.0))


HELD = {"w": np.arange(6).reshape(2, 3) + 1j, "c8": np.arange(8, dtype="c8")[::-1], "0d": np.array(2 + 3j), "real": np.arange(4.0)}


@pytest.mark.parametrize("part", [np.real, np.imag])
@pytest.mark.parametrize("key", HELD)
def test_components_of_what_no_argument_leads_to(part, key):
    def f(a):
        b = np.square(a)
        b[...] = b
        return part(HELD[key])
    got, want = frit.accelerate(f)(np.ones(2)), f(np.ones(2))
    assert type(got) is type(want) and got.strides == want.strides and (got is HELD[key]) == (want is HELD[key])
    assert np.shares_memory(got, HELD[key]) == np.shares_memory(want, HELD[key])
    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize("steps", [[(), 5], [(1, 1), 5], [(2, 2), 5], [(4, 1), (2, 2), 3], [(), (1, 1), 2]])
def test_what_views_were_made_of_resizes_in_steps(steps):
    """It still owns its memory when it has become of another shape; a view of all of it does not."""
    def f(n):
        y = np.arange(float(n)) * 1
        v, w, told = y[:0], y[...], []
        for new in steps:
            try:
                w.resize(n + 3, refcheck=False)
            except ValueError as e:
                told.append(str(e))
            y.resize(new, refcheck=False)
        return y, v, told
    n = int(np.prod(steps[0]))
    for g in (f, frit.accelerate(f)):
        y, v, told = g(n)
        assert v.shape == (0,) and len(told) == len(steps)
        np.testing.assert_array_equal(y, f(n)[0], strict=True)


def test_components_of_nothing_are_shared():
    z = frit.asarray(np.ones((3, 2), "c8"))
    for part in (np.imag(z[2:2]), z[:, 2:].real, np.imag(frit.sign(z)[3:])):
        a = np.asarray(part)
        assert frit.asarray(a, copy=False).shape == a.shape and (frit.asarray(a, copy=False) + 1).dtype == a.dtype
