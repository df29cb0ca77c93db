"""A fixed budget of random programs; the long one is `python -m tests.fuzz`, run by `make soak`."""
import functools
import gc
import os
import re

import numpy as np
import pytest

import frit

from .common import SOAK
from .fuzz import functions, more, scripts, stage, worlds
from .fuzz.programs import draw
from .fuzz.run import compare, compare_accelerated, reference, run, unlike
from .fuzz.shrink import shrink
from .fuzz.shrink_script import shrink_script

pytestmark = pytest.mark.core

N = int(os.environ.get("FRIT_FUZZ", "20000" if SOAK else "600"))
CHUNK = 100


@pytest.mark.parametrize("first", range(0, N, CHUNK))
def test_programs(first):
    for seed in range(first, min(first + CHUNK, N)):
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


N_SCRIPTS = N * 2 // 100


def outcome_of(seed):
    try:
        return stage.judge(scripts.draw(seed), scripts.KNOWN)
    except ValueError:      # a name without a value
        return None


@few
def test_scripts():
    """Small programs of classes, closures, containers and generators, in all that their names lead to."""
    gc.collect()
    gc.freeze()     # what was there before is not looked through
    try:
        judged = [(seed, scripts.draw(seed), outcome_of(seed)) for seed in range(N_SCRIPTS)]
    finally:
        gc.unfreeze()
    for seed, lines, wrong in judged:
        assert wrong is None, f"seed {seed}: {': '.join(wrong)}\n" + stage.script(lines)


SCRIPT = """
log, kept, G = [], [], np.arange(3.0)
@accelerate
def run(x):
    log.append(repr(x))
    kept.append(x)
    if len(kept) > 1:
        raise ValueError('asked for')
    return {}
r = run(G)
r = run(G)
""".strip().splitlines()


def beside(change):
    """A decorator whose function does something beside what the function does."""
    def decorate(f):
        @functools.wraps(f)
        def g(x):
            names = f.__globals__
            try:
                return change(f(x), x, names)
            finally:
                change(None, x, names)
        return g
    return decorate


def again(error):
    raise error("asked for")


SEEN = {        # what goes wrong: what the function gives, and what the decorator makes of it
    "leak": ("x * 2", lambda r, x, names: r if r is None else frit.asarray(r)),
    "left": ("iter([x])", lambda r, x, names: iter([frit.asarray(x)]) if r is not None else r),
    "identity": ("x", lambda r, x, names: r if r is None else r.copy()),
    "value": ("x * 2", lambda r, x, names: r if r is None else r + 1),
    "type": ("x.sum()", lambda r, x, names: r if r is None else float(r)),
    "text": ("x", lambda r, x, names: (names["log"].__setitem__(-1, "no"), r)[1]),
    "read-only": ("x * 2", lambda r, x, names: r if r is None else np.broadcast_to(r, r.shape)),
    "sharing": ("x[1:]", lambda r, x, names: r if r is None else r.copy()),
    "exception": ("x", lambda r, x, names: r if len(names["kept"]) < 2 else again(KeyError)),
    "line": ("x", lambda r, x, names: r if len(names["kept"]) < 2 else again(ValueError)),
}


@pytest.mark.own        # it is about the judge
@pytest.mark.parametrize("kind", SEEN)
def test_the_judge_of_scripts_sees(kind):
    result, wrong = SEEN[kind]
    gc.collect()        # what other tests have left
    lines = [line.replace("{}", result) for line in SCRIPT]
    assert stage.judge(lines, accelerate=lambda f: f) is None
    assert stage.judge(lines, accelerate=beside(wrong))[0] == kind


def test_scripts_are_the_same_for_the_same_seed():
    assert scripts.draw(11) == scripts.draw(11) != scripts.draw(12)
    for seed in range(20):
        stage.segments(scripts.draw(seed))


def test_a_script_shrinks_to_what_matters():
    lines = scripts.draw(3) + ["if G0[0] > 9:", "    w = [1, G0.sum() + 2]", "r = run(G0, 2)"]
    assert shrink_script(lines, lambda c: "G0.sum()" in "".join(c), 5000) == ["w = G0.sum()"]


def test_shrinking_finds_the_line_that_matters():
    lines = draw(3).lines + ["w = 1"] + draw(4).lines
    assert shrink(lines, lambda c: "w = 1" in c) == ["w = 1"]


def test_programs_are_the_same_for_the_same_seed():
    assert draw(11).lines == draw(11).lines and draw(11).lines != draw(12).lines
