"""What is traced again has the plan that it had: when it is the same, and only then."""
import gc

import numpy as np
import pytest

import frit

from .common import assert_same

pytestmark = [pytest.mark.core, pytest.mark.planned]


def hits():
    return frit.stats()["plan_hits"]


@pytest.fixture
def two():
    frit.eval([])
    a, b = np.linspace(1, 2, 40), np.linspace(3, 5, 40)
    return frit.asarray(a), frit.asarray(b), a, b


PROGRAMS = {
    "operations": lambda np, a, b, k: (a + b) * a - b,
    "numbers": lambda np, a, b, k: (a + k) * (k - b),
    "a sum": lambda np, a, b, k: (a * b).sum() / (a + k),
    "windows": lambda np, a, b, k: (a.reshape(5, 8) + 1).sum(1) + k,
    "three arguments": lambda np, a, b, k: np.where(a < k, a, b),
    "one leaf twice": lambda np, a, b, k: a * a + a,
    "casts": lambda np, a, b, k: a.astype("f4") + b,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_has_its_plan_again(two, name):
    x, y, a, b = two
    run = PROGRAMS[name]
    for i in range(8):
        before = hits()
        got = run(np, x * 1, y * 1, 1.5 + i)
        frit.eval(got)
        assert_same(np.asarray(got), np.asarray(run(np, a * 1, b * 1, 1.5 + i)))
        if i >= 3 and name != "windows":
            assert hits() == before + 1


def test_two_graphs_by_turns_have_theirs(two):
    x, y, a, b = two
    for i in range(8):
        before = hits()
        for run in (lambda a, b: a * 2 + b, lambda a, b: a - b / 3 + a):
            got = run(x, y)
            frit.eval(got)
            assert_same(np.asarray(got), run(a, b))
        if i >= 3:
            assert hits() == before + 2


def test_what_is_slightly_different_is_not_taken_for_the_same(two):
    """After each other in every order, what differs in one respect."""
    x, y, a, b = two
    z, c = frit.asarray(np.linspace(7, 8, 40)), np.linspace(7, 8, 40)
    h, g = frit.asarray(np.linspace(7, 8, 40).astype("f4")), np.linspace(7, 8, 40).astype("f4")
    kept = []

    def keep(v):
        kept.append(v)
        return v

    def dead(v):
        v * 3               # born, and gone
        return v

    variants = [
        lambda a, b, c, g: (a + b) * c, lambda a, b, c, g: (b + a) * c, lambda a, b, c, g: (a + b) * a,
        lambda a, b, c, g: (a + b) * b, lambda a, b, c, g: (a + a) * a, lambda a, b, c, g: (a + b) * g,
        lambda a, b, c, g: c * (a + b), lambda a, b, c, g: (a - b) * c, lambda a, b, c, g: keep(a + b) * c,
        lambda a, b, c, g: dead(a + b) * c, lambda a, b, c, g: (a + 2) * c, lambda a, b, c, g: (2 + a) * c,
        lambda a, b, c, g: (a + 2.5) * c, lambda a, b, c, g: (a + b) * c[::-1], lambda a, b, c, g: (a + b) * c[:1],
        lambda a, b, c, g: (a + b).sum() * c, lambda a, b, c, g: (a + b).max() * c,
        lambda a, b, c, g: (g + g) * g, lambda a, b, c, g: (a + b.astype("f4")) * c,
        lambda a, b, c, g: (a + (b + c)), lambda a, b, c, g: ((a + b) + c),
        lambda a, b, c, g: (a * b) + (a * b), lambda a, b, c, g: (a * b) + (b * c),
    ]
    rng = np.random.default_rng(0)
    before, n = hits(), 0
    for _ in range(400):
        run = variants[rng.integers(len(variants))]
        for _ in range(rng.integers(1, 4)):
            kept.clear()
            got, want = run(x, y, z, h), run(a, b, c, g)
            frit.eval(got)
            assert_same(np.asarray(got), want)
            if kept:
                assert_same(np.asarray(kept[0]), np.asarray(kept[1]))
            n += 1
    assert n / 8 < hits() - before <= n


def test_only_a_part_is_asked_for(two):
    """What nobody asked for stays pending."""
    x, y, a, b = two
    for i in range(6):
        one, other = x + y, x - y
        frit.eval(one if i % 2 else [one, other])
        assert frit.stats()["pending_nodes"] == i % 2
        assert_same(np.asarray(other), a - b)
        assert_same(np.asarray(one), a + b)


def test_memory_of_others_is_told_from_our_own(two):
    x, y, a, b = two
    lent = np.linspace(1, 2, 40)
    f = frit.accelerate(lambda t, u: np.exp(t) * u)
    for i in range(12):
        t = (x * 1) if i % 3 == 0 else frit.asarray(lent, copy=False) if i % 3 == 1 else frit.asarray(lent)
        frit.eval(t)
        got = np.exp(t) * y
        frit.eval(got)
        assert_same(np.asarray(got), np.asarray(f(lent if i % 3 else a, b)))


def test_steps_that_store_in_place(two):
    x, y, a, b = two
    x, a = x * 1, a * 1
    for i in range(8):
        x += y * 2
        a += b * 2
        x -= x.mean() * 0.5
        a -= a.mean() * 0.5
        frit.eval(x)
    np.testing.assert_allclose(np.asarray(x), a, rtol=1e-14)


def test_what_only_a_graph_held_is_freed(two):
    """Leaves, numbers and steps in between die with it at once; what is held outside lives on."""
    x, y, a, b = two

    def step(v, w, kept):
        t = v * 2.5 + w         # the caller's only reference to v dies with the call
        kept.append(t - 1)
        return (t * kept[-1] + v).sum() / (3 - t)

    for i in range(8):
        before, n = frit.stats(), hits()
        kept, expected = [], []
        for _ in range(5):
            got = step(x + 1, y, kept)
            frit.eval(got)
            want = step(a + 1, b, expected)
            assert frit.stats()["pending_nodes"] == 0
            assert_same(np.asarray(got), want)
            del got
        assert i < 3 or hits() == n + 5
        for k, e in zip(kept, expected):
            assert_same(np.asarray(k), e)
        del kept, k
        assert i < 1 or frit.stats()["live_bytes"] == before["live_bytes"]     # (x and y may have gone to where they are computed with)


def test_thousands_of_graphs_drop_those_that_were_wanted_longest_ago():
    """More plans than are kept: a graph that comes again and again stays known, one of the first does not, and what
    came after a plan that is gone is not taken for what has its place now."""
    a = np.linspace(1, 2, 3000)
    x = frit.asarray(a)
    frit.eval(x)

    def known(n):
        """Whether the graph over n elements had a plan."""
        before = frit.stats()
        got = x[:n] * 2 + 1
        frit.eval(got)
        assert_same(np.asarray(got), a[:n] * 2 + 1)
        after = frit.stats()
        return after["plan_hits"] - before["plan_hits"] == 1

    assert not known(1) and not known(2) and known(1) and known(2)
    for n in range(3, 2400):
        assert not known(n)
        if n % 100 == 0:
            assert known(1)
    assert known(1) and not known(2)
    assert all(known(n) for n in range(2300, 2400)) and not any(known(n) for n in range(3, 100))
    for _ in range(4):
        assert known(50) and known(2399)


def test_plans_go_when_they_take_too_much_memory(two):
    x, _, a, _ = two
    gc.collect()    # (functions of other tests hold the plans of their calls, and so their memory)

    def made(n):
        before, t, want = frit.stats()["plans"], x, a
        for k in range(n):
            t, want = t * 0.5 + k, want * 0.5 + k
        frit.eval(t)
        assert_same(np.asarray(t), want)
        return frit.stats()["plans"] - before

    with frit.config(plan_mb=1):
        assert all(made(n) for n in range(100, 150))
        assert made(149) == 0 and made(100) == 1 and made(100) == 0 and made(149) == 0
    with frit.config(plan_mb=0):
        assert made(120) == 1 and made(120) == 0 and made(121) == 1 and made(120) == 1
