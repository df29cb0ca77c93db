"""What a function computes from an array that it sees by a global name, in a cell, an attribute or a container follows the
contents of that array at every call, also where calls are made again without running the function."""
import threading

import numpy as np
import pytest

import frit

pytestmark = pytest.mark.core

# What a function may compute of the array W: a number, most of them.
VALUES = """W[0] | W[-1] * 2 | W.max() | W.mean() | float(W.sum()) | int(W[0]) | W.argmax() | W @ W | np.dot(W, W) | Z[()] | Z |
float(Z) | W[1:].sum() | abs(W[0]) | max(W) | sum(W) | W.tolist()[0] | round(float(W[1]), 1) | len(W) * W[0] |
np.max(W) | -W[2] | W[0] > 1 | bool(W[0] > 1) | L[0][0] | L[0].max() | D["w"][1] | T[0][2] | T[1].sum() | reads(0) | reads(1) |
[w for w in W][1] | W.copy()[0] | W.reshape(-1)[1] | W.T[0] | W.astype("i8")[0] | np.linalg.norm(W) | W.item(0) |
(W + W)[0] | (W * W).sum() | np.add.reduce(W) | np.sort(W)[0] | list(W)[0] | W.dot(W) | (W[0], W[1])[1]""".split("|")
USES = ("a * ({})", "np.where(a < ({}), 0, 2)", "a + 1 if ({}) > 1 else a - 1", "np.full(3, ({}), 'f8') - a")
SOURCE = """
def reads(i):
    return W[i] + K
def f(a):
    return {}
"""
CELLS = """
def make(np, W, Z, L, D, T, K):
    def reads(i):
        return W[i] + K
    def f(a):
        return {}
    return f
"""


def world():
    w = np.array([3.0, 1.0, 2.0])
    return {"np": np, "W": w, "Z": np.array(2.5), "L": [w], "D": {"w": w}, "T": (w, w * 2), "K": 1}


def change(names, i):
    w = names["W"]
    w[:] = np.random.default_rng(i).integers(-3, 4, 3) + (0.5 if i % 2 else 0)
    names["Z"][...] = i - 20
    names["T"][1][i % 3] = i


def in_globals(expression):
    names = world()
    exec(SOURCE.format(expression), names)
    return names["f"], names


def in_cells(expression):
    names, space = world(), {}
    exec(CELLS.format(expression), space)
    return space["make"](**names), names


@pytest.mark.parametrize("make", (in_globals, in_cells))
@pytest.mark.parametrize("use", USES)
def test_values_follow_contents(make, use):
    a = np.arange(3.0)
    for value in map(str.strip, VALUES):
        f, names = make(use.format(value))
        fast = frit.accelerate(f)
        for i in range(48):
            if i % 9 == 8 or i > 44:
                change(names, i)
            got, want = fast(a), f(a)
            assert type(got) is type(want), (use, value, i)
            np.testing.assert_array_equal(got, want, err_msg=f"{use} {value} {i}", strict=True)


@pytest.mark.planned
def test_what_is_computed_of_them_is_made_again():
    W, L, scale = np.arange(4.0), [np.ones(4)], np.array(2.0)

    def f(a):
        return np.where(a < W.max(), a * W[1], W.sum()) + L[0] * scale
    fast = frit.accelerate(f)
    for i in range(50):
        W[:], L[0][1], scale[...] = np.arange(4.0) + i, i, -i
        before = frit.stats()["replayed"]
        np.testing.assert_array_equal(fast(np.full(4, i + 1.5)), f(np.full(4, i + 1.5)))
    assert frit.stats()["replayed"] == before + 1


def test_a_fit_that_updates_a_global_in_place():
    names = {"np": np}
    exec("""
def predict(x):
    return x * p[0] + p[1]
def step(x, y):
    d = predict(x) - y
    p[0] -= 0.1 * (d * x).mean()
    p[1] -= 0.1 * d.mean()
""", names)
    names["p"] = np.zeros(2)
    names["predict"] = frit.accelerate(names["predict"])
    step = names["step"] = frit.accelerate(names["step"])
    x = np.linspace(-1, 2, 50)
    for _ in range(1000):
        step(x, 3 * x - 1)
    np.testing.assert_allclose(names["p"], [3, -1], atol=1e-4)
    np.testing.assert_array_equal(names["predict"](x), x * names["p"][0] + names["p"][1])


def test_what_is_stored_by_a_global_name_is_there_at_the_next_call():
    def both(make):
        out = []
        for wrap in (lambda f: f, frit.accelerate):
            names = world()
            exec(SOURCE.format("store(a)") + make, names)
            names["f"] = wrap(names["f"])
            out.append((names["f"], names))
        return out
    for body in ("W[:] = W * 0.5 + a; return W.sum()", "W[0] += a[1]; return W", "W[1:] += W[:-1]; return W[0] * a",
                 "np.multiply(W, a, out=W); return W.max()", "W[:2] -= a[0]; return W @ W",
                 "Z[...] = Z + a[0]; return Z * a", "L[0][1] = a.sum(); return W", "D['w'][:] = a; return W * 1",
                 "b = W; b += a; return W", "W.sort(); return W - a", "W.fill(a[0]); return W[1]"):
        (plain, theirs), (fast, ours) = both(f"\ndef store(a):\n    {body}\n")
        for i in range(50):
            a = np.random.default_rng(i).integers(0, 3, 3) / 2
            want, got = plain(a.copy()), fast(a.copy())
            np.testing.assert_array_equal(got, want, err_msg=body, strict=True)
            assert (got is ours["W"]) == (want is theirs["W"]), body
            for name in ("W", "Z"):
                np.testing.assert_array_equal(ours[name], theirs[name], err_msg=body)


def test_arguments_that_are_also_seen_by_name():
    W = np.arange(6.0)

    def f(a):
        a[:] = a + 1
        return W[0] * 10 + W
    fast = frit.accelerate(f)
    for i in range(50):
        for view in (W, W[::-1], W[:], np.arange(6.0)):
            w, mine = W.copy(), view.copy()
            got = fast(view)
            after = W.copy()
            W[:] = w
            if not np.shares_memory(view, W):
                view[:] = mine
            np.testing.assert_array_equal(got, f(view))
            np.testing.assert_array_equal(after, W)


def test_results_are_the_very_objects():
    W, L, T = np.arange(3.0), [np.ones(3)], (np.ones(3), 2)

    @frit.accelerate
    def f(a, t):
        return W, L, T, t, L[0], W[1:], a
    a, t = np.zeros(3), (np.ones(2), 1)
    for _ in range(50):
        got = f(a, t)
        assert got[0] is W and got[1] is L and got[2] is T and got[3] is t and got[4] is L[0] and got[6] is a
        assert np.shares_memory(got[5], W) and type(L[0]) is type(T[0]) is type(t[0]) is np.ndarray


def test_other_names_for_other_things_later():
    names = world()
    exec(SOURCE.format("a * W[0] + reads(1)"), names)
    f = names["f"]
    fast, a = frit.accelerate(f), np.arange(3.0)
    for i in range(60):
        if i % 10 == 5:
            names["W"] = [np.arange(3.0) + i, np.arange(5) + i, [1.5, 2, i], (i, i + 1.0), np.float32([i, 1])][i // 10 % 5]
        names["K"] = i // 15
        got, want = fast(a), f(a)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
    del names["W"]
    with pytest.raises(NameError, match="'W'"):
        fast(a)
    names["W"] = np.ones(3)
    np.testing.assert_array_equal(fast(a), f(a))


def test_functions_that_outlive_the_call():
    W, G = np.arange(3.0), np.ones(3)

    @frit.accelerate
    def f(a):
        return (lambda b: b * W[1] + a[0] * G), [w * a for w in W]
    for i in range(50):
        g, listed = f(np.full(3, 2.0))
        W[:] = W + 1
        np.testing.assert_array_equal(g(np.ones(3)), W[1] + 2.0 * G)
        np.testing.assert_array_equal(listed[0], (W[0] - 1) * np.full(3, 2.0))


def test_nothing_is_kept_alive():
    import gc
    import weakref

    names = {"np": np, "W": np.arange(1000.0), "L": [np.ones(3)]}
    exec("def f(a):\n    return a * W.max() + L[0]", names)
    fast = frit.accelerate(names["f"])
    for _ in range(50):
        fast(np.ones(3))
    gone = weakref.ref(names["W"]), weakref.ref(names["L"][0])
    del names["W"], names["L"]
    gc.collect()
    assert gone[0]() is None and gone[1]() is None


def test_threads_in_one_function():
    W = np.arange(1000.0)

    def f(a):
        b = a * 2
        for _ in range(5):
            b = b + W[3] * W
        return b.sum() + W.max()
    fast, failed = frit.accelerate(f), []

    def work():
        for i in range(60):
            if fast(np.full(1000, float(i))) != f(np.full(1000, float(i))):
                failed.append(i)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_exceptions_leave_everything_as_it_was():
    W = np.arange(3.0)

    def f(a):
        W[0] += 1
        return W.reshape(2) if a[0] > 1 else W + a
    fast = frit.accelerate(f)
    for i in range(50):
        before = W.copy()
        if i % 7 == 6:
            with pytest.raises(ValueError):
                fast(np.full(3, 2.0))
        else:
            np.testing.assert_array_equal(fast(np.ones(3)), before + [2, 1, 1])
        assert W[0] == before[0] + 1 and type(W) is np.ndarray
