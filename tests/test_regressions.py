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
