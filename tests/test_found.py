"""What random functions found (tests/fuzz): each case once more, with its relatives, judged by NumPy."""
import numpy as np
import pytest

import frit

from .common import assert_same
from .fuzz import worlds

NUMBERS = [3, 2.5, -1, 0, True, 2**40, -0.0, 300]


@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "i8", "f2", "f4", "f8", "?"])
def test_clip_of_a_number(dtype):
    """NumPy makes an array of the number first, whose dtype then counts; of the bounds numbers give way."""
    a = np.array([1, 0, 5], dtype)
    for x in NUMBERS:
        for form in (lambda a: np.clip(x, 0, a), lambda a: np.clip(x, a, 9), lambda a: np.clip(x, a, a), lambda a: np.clip(x, None, a),
                     lambda a: np.clip(x, max=a)):
            want = form(a)
            got = frit.accelerate(form)(a.copy())
            assert type(got) is type(want)
            assert_same(got, want, what=f"{x!r} {dtype}")
            assert_same(np.asarray(frit.clip(x, 0, frit.asarray(a))), np.clip(x, 0, a))


DEFAULTS = ["(W, 1)", "(W, W)", "(np.array([1.0, 2.0]),)", "(np.empty(0), 'out')", "('out', W)", "(1, (W, 2))", "(np.array('out'), W)",
            "(W[:0],)", "('out', 1)", "((), W)", "[W, 1]", "{'out': W}", "(None, W.T)"]


@pytest.mark.parametrize("default", DEFAULTS)
def test_defaults_that_hold_arrays(default):
    """They are looked through when the function is decorated, and not compared with anything."""
    case = ["m: W = data('f8', (3,), 1)", f"m: D0 = {default}", "a: a0 = data('f8', (3,), 2)", "d: d0 = D0",
            "s: return a0 + 1, d0", *["t: CALL"] * 5, "t: a0[...] = 2", "t: CALL"]
    assert worlds.judge(case) is None


@pytest.mark.parametrize("form", ["np.flip(a)", "np.flip(a, ())", "np.flip(a, None)", "np.flip(a + 1)", "np.flip(a) * 2", "[np.flip(a), a]", "np.flip(m=a)",
                                  "np.flip(a[None])", "np.flip(a.sum())", "np.flip(a, 0)", "np.flip(a[...])"])
@pytest.mark.parametrize("dtype", ["f8", "i1", "c16"])
def test_flip_of_an_array_without_axes(form, dtype):
    """It is a number of its own: what is written into it, or into the array afterwards, does not reach the other."""
    for after in ("v0 += 1", "a0[...] = 1", "pass"):
        case = [f"a: a0 = data({dtype!r}, (), 2)", "s: a = a0", f"s: v0 = {form}", f"s: {after}", "s: return v0", *["t: CALL"] * 3, "t: a0[...] = 0", "t: CALL"]
        assert worlds.judge(case) is None
