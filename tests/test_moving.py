"""Where windows begin is no part of a plan's key: few plans serve whatever integers come, and the results stay NumPy's."""
import numpy as np
import pytest

import frit

from .common import assert_same, kernels_of

pytestmark = [pytest.mark.core, pytest.mark.planned]

M = np.random.default_rng(0).integers(-8, 9, (40, 12)) / 4     # sums of a few of these round nowhere
MANY = 700


def one_hot(xp, m, i, j):
    x = xp.zeros((12, 1))
    x[i % 12] = 1
    return m @ x


def counts_down(xp, m, i, j):
    p = m[5] * 0.5
    p[i % 12] -= 1
    return p * p


def row_of_a_result(xp, m, i, j):
    return (abs(m) + 1)[i % len(m)] * 2


def update(xp, m, i, j):
    e = m * 1
    e[i % 40] -= 0.5 * e[j % 40]
    return e


def updates(xp, m, i, j):
    """Which of these meet changes from call to call."""
    e = m * 1
    for k in (i, j, i * j, i + j):
        e[k % 40] += m[j % 40] * 0.5
    return e


def time_step(xp, m, i, j):
    u = m * 1
    t = i % 37
    u[t + 2, 1:-1] = u[t + 1, 2:] - u[t + 1, :-2] + u[t, 1:-1] * 0.5
    u[t + 3, 1:-1] = u[t + 2, 2:] - u[t + 2, :-2] + u[t + 1, 1:-1] * 0.5
    return u


def ring(xp, m, i, j):
    b = m * 1
    for k in range(4):
        b[(i + k + 1) % 40] = b[(i + k) % 40] * 0.5 + m[k]
    return b


def block(xp, m, i, j):
    e = m * 2
    e[i % 30:i % 30 + 5, j % 7:j % 7 + 4] += e[i % 30 + 4:i % 30 + 9, j % 7 + 1:j % 7 + 5]
    return e.sum(axis=0)


def component(xp, m, i, j):
    c = m * (1 + 2j)
    c.real[i % 40] = c.imag[j % 40]
    return c


def casts(xp, m, i, j):
    return (m.astype("f4") * 2)[i % 40, j % 6:j % 6 + 5] + m.astype("f4")[j % 40, :5]


def numbers(xp, m, i, j):
    """Which of these are alike changes, too."""
    e = m * 1
    e[i % 40] += i % 3
    e[j % 40] -= j % 3
    return e * (i % 2) + (j % 2)


PROGRAMS = [one_hot, counts_down, row_of_a_result, update, updates, time_step, ring, block, component, casts, numbers]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_few_plans_serve_all_integers(program):
    m, rng = frit.asarray(M), np.random.default_rng(1)
    before, late = frit.stats()["plans"], 0
    for n in range(MANY):
        i, j = (int(k) for k in rng.integers(0, 4000, 2))
        got = program(frit, m, i, j)
        frit.eval(got)
        assert_same(np.asarray(got), program(np, M, i, j), what=f"{i} {j}")
        if n == MANY // 2:
            late = frit.stats()["plans"]
    assert frit.stats()["plans"] == late <= before + 12


@pytest.mark.parametrize("program", [row_of_a_result, time_step, one_hot, counts_down], ids=lambda f: f.__name__)
def test_what_moves_runs_in_as_few_kernels_as_what_stands_still(program):
    m = frit.asarray(M)

    def run(i):
        return kernels_of(lambda: frit.eval(program(frit, m, i, 0)))

    still = [run(3) for _ in range(3)]
    moves = [run(i) for i in range(12)]
    assert set(still) == {moves[-1]} == {moves[-2]}


def test_what_stands_still_goes_on_as_it_was():
    """Another integer in between makes a plan of its own, and the first one stays the first choice."""
    m = frit.asarray(M[:30])

    def plan_of(i):
        got, before = row_of_a_result(frit, m, i, 0), frit.stats()["plans"]
        text = frit.explain(got, kind="graph")
        frit.eval(got)
        return text, frit.stats()["plans"] - before

    still = plan_of(7)
    moving = plan_of(8)
    assert still[1] == moving[1] == 1 and still[0] != moving[0]
    assert plan_of(9) == (moving[0], 0) and plan_of(7) == (still[0], 0)


def test_windows_that_meet_only_sometimes():
    """Every relation that two stores, and what they read, can have."""
    m = frit.asarray(M)
    at = [0, 1, 4, 11, 12, 13, 24, 30]
    for i in at:
        for j in at:
            t, a = m * 1, M * 1
            for x in (t.reshape(-1), a.reshape(-1)):
                x[i:i + 12] = x[j:j + 12] + 1
                x[j + 6:j + 18] -= x[i + 3:i + 15] * 0.5
                x[i + j] = 3
            assert_same(np.asarray(t), a, what=f"{i} {j}")


def test_a_plan_that_is_made_in_the_background_knows_what_moves():
    m = frit.asarray(M)
    with frit.config(eager_elems=1 << 20):
        def run(i):
            got, before = updates(frit, m, i, 2 * i), frit.stats()["plans"]
            frit.eval(got)
            assert_same(np.asarray(got), updates(np, M, i, 2 * i))
            frit.wait_for_compiles()
            return frit.stats()["plans"] - before

        made = [run(i) for i in range(1, 30)]
    assert sum(made) <= 3 and sum(made[6:]) == 0


def test_an_accelerated_function_is_called_with_changing_integers():
    def step(h, x, letters, dw):
        for k, i in enumerate(letters):
            x[:] = 0
            x[i] = 1
            h[k + 1] = h[k] * 0.5 + x
        for k, i in reversed(list(enumerate(letters))):
            dw[i] -= h[k + 1]
        return h.sum()

    fast, rng = frit.accelerate(step), np.random.default_rng(2)
    for n in range(60):
        letters = [int(i) for i in rng.integers(0, 12, 6)]
        got, want = [[np.zeros((7, 12)), np.zeros(12), M * 1] for _ in range(2)]
        before = frit.stats()["plans"]
        assert_same(fast(*got[:2], letters, got[2]), step(*want[:2], letters, want[2]))
        for a, b in zip(got, want):
            assert_same(a, b)
        if n >= 20:
            assert frit.stats()["plans"] == before


def test_a_graph_with_more_windows_than_are_looked_through():
    """Those that move with one far back move by themselves."""
    big = np.random.default_rng(3).integers(-8, 9, (400, 3)) / 4
    m, rng = frit.asarray(big), np.random.default_rng(4)
    plans = []
    for _ in range(14):
        rows, before = [int(i) for i in rng.integers(0, 400, 90)], frit.stats()["plans"]
        t, a = m * 1, big * 1
        for x in (t, a):
            for n, i in enumerate(rows):
                x[i] += 0.25 * x[rows[n // 2]]
        assert_same(np.asarray(t), a)
        plans.append(frit.stats()["plans"] - before)
    assert sum(plans) <= 24 and plans[-1] == 0
