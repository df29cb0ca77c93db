"""A fixed budget of random programs; the long one is `python -m tests.fuzz`, run by `make soak`."""
import os
import re

import numpy as np
import pytest

import frit

from .common import SOAK
from .fuzz import functions, more, worlds
from .fuzz.programs import draw
from .fuzz.run import compare, compare_accelerated, reference, run, unlike
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


HOLD = [f for f in more.FEATURES if f not in more.KNOWN]
few = pytest.mark.skipif(N < 100, reason="where everything is compiled, a program takes seconds")


@few
def test_programs_with_more():
    for seed in range(N // 10):
        lines = more.draw(seed, HOLD).lines
        wrong = compare(lines)
        assert wrong is None, f"seed {seed}: {wrong}\n" + "\n".join(lines)


@few
def test_programs_with_more_as_accelerated_functions():
    n, total = 0, N // 20
    for seed in range(total):
        lines = more.draw(seed, HOLD, accelerated=True).lines
        try:
            wrong = compare_accelerated(lines)
        except ValueError:      # depends on what frit cannot be
            continue
        n += 1
        assert wrong is None, f"seed {seed}: {wrong}\n" + "\n".join(lines)
    assert n >= total * 9 // 10


@pytest.mark.parametrize("feature", more.FEATURES)
def test_programs_with_more_have_it(feature):
    """And mean the same when NumPy runs them once more."""
    marks = {"at": r"\.at\(|put|place", "shuffle": "random", "resize": "resize", "components": "real|imag",
             "errstate": "caught|errstate", "scalars": r"^n\d+ = |raises"}
    drawn = [more.draw(seed, [feature], accelerated=seed % 2).lines for seed in range(5)]
    assert sum(bool(re.search(marks[feature], "\n".join(lines), re.M)) for lines in drawn) > 1
    for lines in drawn:
        once, again = (run(lines, reference, lambda *v: None) for _ in range(2))
        assert once[1] == again[1] and not any(unlike(again[0][k], v) for k, v in once[0].items())


N_FUNCTIONS = N * 3 // 10 if N >= 100 else N // 10      # where everything is compiled, that takes a second each


@pytest.mark.parametrize("first", range(0, N_FUNCTIONS, CHUNK))
def test_functions(first):
    """What functions do that are called again and again, with other things in reach."""
    for seed in range(first, min(first + CHUNK, N_FUNCTIONS)):
        lines = functions.draw(seed)
        wrong = worlds.judge(lines)
        assert wrong is None, f"seed {seed}: {': '.join(wrong)}\n" + worlds.script(lines)


@pytest.mark.own
@pytest.mark.planned
def test_functions_are_recorded():
    """Of those that only compute, many calls are made again without running them."""
    before = frit.stats()["replayed"]
    for seed in range(60):
        worlds.judge(functions.draw(seed))
    assert frit.stats()["replayed"] - before >= 30


def after(change):
    """A decorator whose function changes what the function gives."""
    return lambda f: lambda *args: change(f(*args), *args)


def refused(x, a):
    raise ValueError


JUDGED = {      # what goes wrong: what the function gives, and what the decorator makes of it
    "value": ("a0 * 2", after(lambda x, a: x + 1)),
    "type": ("a0.sum()", after(lambda x, a: float(x))),
    "dtype": ("a0 * 2", after(lambda x, a: x.astype("f4"))),
    "shape": ("a0 * 2", after(lambda x, a: x[None])),
    "strides": ("np.ones((2, 3))", after(lambda x, a: np.asfortranarray(x))),
    "identity": ("[a0, W[0]]", after(lambda x, a: [a.copy(), x[1]])),
    "sharing": ("[a0, a0[1:]]", after(lambda x, a: [x[0], x[1].copy()])),
    "exception": ("a0", after(refused)),
    "writeable": ("a0 + 1", after(lambda x, a: np.broadcast_to(x, x.shape))),
}


@pytest.mark.parametrize("kind", JUDGED)
def test_the_judge_of_functions_sees(kind):
    result, wrong = JUDGED[kind]
    case = ["m: W = [data('f8', (3,), 1)]", "a: a0 = data('f8', (3,), 2)", f"s: return {result}", "t: CALL", "t: W[0] = a0", "t: CALL"]
    assert worlds.judge(case, accelerate=lambda f: f) is None
    assert worlds.judge(case, accelerate=wrong)[0] == kind


def test_the_judge_of_functions_sees_what_is_left_behind():
    """In arguments, globals, and the results of earlier calls."""
    case = ["m: W = [data('f8', (3,), 1)]", "a: a0 = data('f8', (3,), 2)", "s: return a0 + 1", "t: CALL", "t: a0 = r", "t: CALL"]

    def leaves(find):
        def decorate(f):
            def g(a):
                x = find(a, f.__globals__)
                x += 1
                return f(a.copy())
            return g
        return decorate

    found = {"argument": lambda a, names: a, "global": lambda a, names: names["W"][0],
             "kept": lambda a, names: [np.ones(3), *names["kept"]][-1]}
    assert worlds.judge(case) is None
    for name, find in found.items():
        wrong = worlds.judge(case, accelerate=leaves(find))
        assert wrong and wrong[0] == "value", name


def test_functions_are_the_same_for_the_same_seed():
    assert functions.draw(11) == functions.draw(11) != functions.draw(12)
    assert worlds.script(functions.draw(11)) == worlds.script(functions.draw(11))


def test_shrinking_finds_the_line_that_matters():
    lines = draw(3).lines + ["w = 1"] + draw(4).lines
    assert shrink(lines, lambda c: "w = 1" in c) == ["w = 1"]


def test_programs_are_the_same_for_the_same_seed():
    assert draw(11).lines == draw(11).lines and draw(11).lines != draw(12).lines
