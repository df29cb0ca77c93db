"""A fixed budget of random programs; the long one is `python -m tests.fuzz`, run by `make soak`."""
import os

import pytest

import frit

from .common import SOAK
from .fuzz.programs import draw
from .fuzz.run import compare, compare_accelerated
from .fuzz.shrink import shrink

pytestmark = pytest.mark.core

N = int(os.environ.get("FRIT_FUZZ", "20000" if SOAK else "1000"))
CHUNK = 100


@pytest.mark.parametrize("first", range(0, N, CHUNK))
def test_programs(first):
    for seed in range(first, first + CHUNK):
        lines = draw(seed).lines
        wrong = compare(lines)
        if wrong:
            def fails(candidate):
                try:
                    return compare(candidate) is not None
                except ValueError:
                    return False
            small = shrink(lines, fails, max_tries=300)
            pytest.fail(f"seed {seed}: {wrong}\n" + "\n".join(small))


@pytest.mark.planned
def test_programs_as_accelerated_functions():
    """Of those that are functions of NumPy's names and look at no value, the later calls are replayed."""
    n, before = 0, frit.stats()["replayed"]
    for seed in range(N // 5):
        lines = draw(seed).lines
        try:
            wrong = compare_accelerated(lines)
        except ValueError:      # uses what only frit has
            continue
        n += 1
        assert wrong is None, f"seed {seed}: {wrong}\n" + "\n".join(lines)
    assert n >= N // 10
    # (A sixth of the programs are replayed, three times each; of a dozen it may be none.)
    assert n < 30 or frit.stats()["replayed"] - before >= n // 4


def test_shrinking_finds_the_line_that_matters():
    lines = draw(3).lines + ["w = 1"] + draw(4).lines
    assert shrink(lines, lambda c: "w = 1" in c) == ["w = 1"]


def test_programs_are_the_same_for_the_same_seed():
    assert draw(11).lines == draw(11).lines and draw(11).lines != draw(12).lines
