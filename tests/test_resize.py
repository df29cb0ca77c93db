"""What an array that resizes itself is: an owner of its memory or a view, a number, the base of views. And components of
arrays that no argument leads to."""
import gc

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
