"""frit.explain: all that a call computes on its way, in order; what comes again once with a count; totals that are those of stats."""
import json
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import frit
from frit import _core, _explained

from .common import ROOT

RNG = np.random.default_rng(5)


def deltas(before, after):
    return {k: n - before.get(k, 0) for k, n in after.items() if n != before.get(k, 0)}


def flat(happened):
    """Each event so often as it happened."""
    for h in happened:
        if h["kind"] == "again":
            for _ in range(h["times"]):
                yield from flat(h["events"])
        else:
            yield h


# ---- programs

def solves(a, b):
    total = 0.0
    for i in range(30):
        y = b * 2 + i
        z = 1 / (1 + np.exp(-y))
        if z.sum() > 0:
            total += 1
        b = b + np.linalg.solve(a, z)
    return b * total


def chain(a, b):
    return np.exp(-(a - b)) / (1 + a * a)


def writes(a, b):
    a += b
    a[1:] = a[:-1] * 2
    return a.sum(axis=0)


def items(a, b):
    s = 0.0
    for i in range(5):
        s += float(a[i, i]) + b[i].item()
    return s


def converges(a, b):
    for _ in range(50):
        n = a / 2 + 1
        if np.abs(n - a).max() < 1e-3:
            break
        a = n
    return a, b


def chooses(a, b):
    return a[a > 0.5].sum() + b[np.argsort(b)][:3]


def nested(a, b):
    for _ in range(4):
        for _ in range(3):
            a = a * 1.5
            bool(a.sum() > 0)
        b = np.median(a, axis=0)
        print(b.max(), file=open(os.devnull, "w"))
    return b


def product(a, b):
    c = a
    for _ in range(3):
        c = a @ c
        c = c / np.linalg.norm(c)
    return c @ b


class Model:
    def __init__(self, w):
        self.w, self.losses = w, []

    def step(self, x):
        e = x @ self.w - 1
        self.losses.append((e * e).mean())
        self.w -= 0.01 * (x.T @ e) / len(x)

    def __call__(self, a, b):
        for _ in range(6):
            self.step(a)
        return self.w + b


PROGRAMS = {f.__name__: f for f in (solves, chain, writes, items, converges, chooses, nested, product)}


def arguments(n):
    return np.eye(n) * 2 + RNG.random((n, n)) / n, RNG.random(n)


@pytest.mark.parametrize("n, eager", [(7, 0), (8, 131072), (300, 0)])
@pytest.mark.parametrize("name", [*PROGRAMS, "model"])
def test_totals_are_those_of_stats(name, n, eager):
    with frit.config(eager_elems=eager):
        check_totals(name, n)


def check_totals(name, n):
    a, b = arguments(n)
    f = PROGRAMS[name] if name in PROGRAMS else Model(np.zeros(n))
    for _ in range(3):      # new, and with plans on their way
        before = _core.stats()
        e = frit.explain(f)(a.copy(), b.copy())
        after = _core.stats()
        d = e.as_dict()
        assert d["kernels"] == after["n_kernels"] - before["n_kernels"], e
        assert d["evaluations"] == after["n_evals"] - before["n_evals"], e
        assert d["bytes_read"] == after["bytes_read"] - before["bytes_read"]
        assert d["bytes_written"] == after["bytes_written"] - before["bytes_written"]
        assert d["fallbacks"] == deltas(before["fallbacks"], after["fallbacks"])
        syncs = deltas(before["syncs"], after["syncs"])
        assert d["syncs"] == syncs, e
        assert all(0 < p["least_bytes"] <= p["bytes_read"] + p["bytes_written"] for p in d["plans"]), e
        events = list(flat(d["happened"]))
        assert sum(h["kernels"] for h in events) == d["kernels"]
        for h in events:        # the kernels that are shown are those that ran
            if h["kind"] == "evaluation" and h["way"] == "plan":
                plan = d["plans"][h["plan"]]
                assert h["kernels"] == plan["kernels"] == sum(s["is_kernel"] for s in plan["steps"]) == len(re.findall("^kernel ", plan["text"], re.M))


@pytest.mark.parametrize("name", [*PROGRAMS, "model"])
def test_totals_are_those_of_an_accelerated_call(name):
    """Whose evaluations are so large that each has its plan."""
    n = 300
    f = PROGRAMS[name] if name in PROGRAMS else Model(np.zeros(n)).__call__.__func__
    a, b = arguments(n)
    first = (a.copy(), b.copy()) if name in PROGRAMS else (Model(np.zeros(n)), a.copy(), b.copy())
    again = (a.copy(), b.copy()) if name in PROGRAMS else (Model(np.zeros(n)), a.copy(), b.copy())
    fast = frit.accelerate(f)
    want = fast(*first)
    d = frit.explain(f)(*again).as_dict()
    assert (d["kernels"], sum(d["syncs"].values()), sum(d["fallbacks"].values())) == \
        (fast.stats.kernels, fast.stats.syncs, fast.stats.fallbacks)
    for x, y in zip(first, again, strict=True):     # and it has written what a call writes
        if isinstance(x, np.ndarray):
            assert np.array_equal(x, y)
    assert want is not None


# ---- what is told

def test_no_more_is_needed_than_is_touched():
    def f(x, y):
        y[3:5] = x[:, 0] * 2
    (plan,) = frit.explain(f)(RNG.random((200, 300)), RNG.random((50, 200))).as_dict()["plans"]
    assert plan["least_bytes"] == 200 * 8 + 2 * 200 * 8 == plan["bytes_read"] + plan["bytes_written"]


@pytest.mark.parametrize("f, n", [
    (lambda x: x[:50] + x[50:], 100), (lambda x: x[1:] - x[:-1], 99), (lambda x: x[::2] * x[::-2], 50), (lambda x: x[:10] + x[80:90], 20),
    (lambda x: x[:10] + x[5:15] + x[70:80], 20), (lambda x: np.broadcast_to(x[3], 40) * 2, 1), (lambda x: x[::-1] * x, 100)])
def test_what_windows_show_is_what_must_be_read(f, n):
    """The largest of those that lie across each other."""
    x = RNG.random(100)
    (plan,) = frit.explain(f)(x).as_dict()["plans"]
    assert plan["least_bytes"] == 8 * n + 8 * f(x).size <= plan["bytes_read"] + plan["bytes_written"]


def test_operations_that_come_again_are_written_once():
    def f(x):
        for _ in range(20):
            x = np.sin(x) * 1.5
        return np.exp(x)
    e = frit.explain(f)(RNG.random(1000))
    assert "map over (1000,): (sin multiply) 20 times exp\n" in e


def test_what_comes_unasked_has_its_line_and_reason():
    def f(x, ys):
        z = np.exp(x) + 1
        t = sum(y.sum() for y in ys)
        return z * t
    x = RNG.random((300, 300))
    e = frit.explain(f)(x, [x + 1, x + 2])
    (event,) = (h for h in e.as_dict()["happened"] if h.get("why") == "others")
    assert event["line"] == f"{__file__}:{f.__code__.co_firstlineno + 2} in {f.__qualname__}" and "other code, which may see" in e

    def g(x):
        with np.errstate(all="raise"):
            return np.exp(x) + 1
    events = [h for h in flat(frit.explain(g)(x).as_dict()["happened"]) if h["kind"] == "evaluation"]
    assert [h["why"] for h in events] == ["at once"] * 2 and all(f":{g.__code__.co_firstlineno + 2} in" in h["line"] for h in events)


def test_what_never_began_is_said():
    def f(x):
        yield x * 2
    assert "nothing of it runs" in frit.explain(f)(RNG.random(5))

def test_a_loop_is_told_once_with_a_count():
    e = frit.explain(solves)(*arguments(6))
    d = e.as_dict()
    assert "30 syncs, 30 calls of NumPy" in e and d["syncs"] == {"bool": 30} and d["fallbacks"] == {"linalg.solve": 30}
    again = [h for h in d["happened"] if h["kind"] == "again"]
    assert [h["times"] for h in again] == [28] and [x["kind"] for x in again[0]["events"]] == ["handed", "evaluation"], e
    assert re.search(r"^28 times:\n  linalg.solve is NumPy's, at .*test_explain.py:\d+ in solves: frit has none of its own\n"
                     r"  computed for a truth value, at .*test_explain.py:\d+ in solves:\n    1 kernel; ", e, re.M), e
    assert e.count("\n") < 60 and "computed at the end" in e


def test_what_goes_node_by_node_has_its_plan_told():
    with frit.config(eager_elems=131072):
        e = frit.explain(chain)(*arguments(9))
    (event,) = (h for h in e.as_dict()["happened"] if h["kind"] == "evaluation")
    assert event["way"] == "nodes" and event["kernels"] == 6 and e.as_dict()["plans"][0]["kernels"] == 1
    assert "computed at the end: 6 kernels, one for each operation" in e and "\n  1 kernel; " in e


def test_loops_in_loops():
    e = frit.explain(nested)(*arguments(40))
    assert max(h["times"] for h in e.as_dict()["happened"] if h["kind"] == "again") >= 2
    assert sum(h["kind"] == "handed" for h in flat(e.as_dict()["happened"])) == 4
    assert "    computed for a truth value" in e        # one in the other


@pytest.mark.parametrize("order", [[], [1], [1, 1], [1, 2, 1, 2], [1, 2, 3] * 5 + [4], [1, 1, 1, 2] * 3, ([1, 1, 2] * 3 + [3]) * 4,
                                   list(range(500)), [1, 2, 1, 3, 1, 2, 1, 3, 1], [int(x) for x in RNG.integers(0, 3, 2000)]])
def test_folding_keeps_what_happened(order):
    def unfold(items):
        for i in items:
            if isinstance(i, int):
                yield i
            else:
                for _ in range(i[0]):
                    yield from unfold(i[1])
    folded = _explained.folded(order)
    assert list(unfold(folded)) == order
    if order == ([1, 1, 2] * 3 + [3]) * 4:
        assert folded == [(4, ((3, ((2, (1,)), 2)), 3))]


@pytest.mark.parametrize("names, text", [
    ("a b", "a b"), ("a a a a a", "a a a a a"), ("a " * 6, "(a) 6 times"), ("x " + "a b " * 3 + "y", "x (a b) 3 times y"), ("a b a b", "a b a b"),
    (("a b " * 4 + "c ") * 3, "((a b) 4 times c) 3 times")])
def test_names_of_operations_are_folded(names, text):
    assert _explained.operations_text(names.split()) == text


def test_a_long_loop_is_folded_in_time_that_grows_with_it():
    assert _explained.folded([1, 2, 3] * 40000) == [(40000, (1, 2, 3))]


def test_lines_are_those_of_this_call():
    """Also where the plan was made for others."""
    x = RNG.random(100_000)

    def one(x):
        return x * 3 + 1

    def other(x):

        return x * 3 + 1
    for f in (one, other, one):
        d = frit.explain(f)(x).as_dict()
        at = f"{__file__}:{f.__code__.co_firstlineno + 1 + (f is other)} in {f.__qualname__}"
        assert {n["line"] for n in d["plans"][0]["nodes"] if n["operation"] in ("multiply", "add")} == {at}
        assert at in frit.explain(f)(x)


def test_plans_hang_together():
    d = frit.explain(chain)(*arguments(300)).as_dict()
    assert json.loads(json.dumps(d)) == d
    (plan,) = d["plans"]
    nodes = {n["node"]: n for n in plan["nodes"]}
    assert [n for g in plan["groups"] for n in g["nodes"]] == [k for k, n in nodes.items() if n["operation"] != "leaf"]
    for n in nodes.values():
        assert all(a["node"] in nodes and a["node"] < n["node"] for a in n["arguments"] if "node" in a)
    assert {g for s in plan["steps"] for g in s["groups"]} == {g["group"] for g in plan["groups"]}
    assert plan["bytes_read"] + plan["bytes_written"] == sum(s["bytes_read"] + s["bytes_written"] for s in plan["steps"])
    memory = {m["node"]: m for m in plan["memory"]}
    assert [m["bytes"] for m in memory.values() if m["kind"] == "result"] == [300 * 300 * 8] and plan["peak_bytes"] == 300 * 300 * 8
    assert all(0 <= m["first_step"] <= m["last_step"] < len(plan["steps"]) for m in memory.values() if "first_step" in m)


def test_temporaries_have_places_and_lives():
    def f(x):
        a = np.cumsum(x, axis=0)
        b = np.cumsum(a[::-1], axis=0)
        return np.cumsum(b[::-1], axis=0)
    (plan,) = frit.explain(f)(RNG.random((400, 300))).as_dict()["plans"]
    temporary = [m for m in plan["memory"] if m["kind"] == "temporary"]
    assert temporary and plan["temporary_bytes"] >= max(m["offset"] + m["bytes"] for m in temporary)
    for a in temporary:         # who lives together lies apart
        for b in temporary:
            if a is not b and a["first_step"] <= b["last_step"] and b["first_step"] <= a["last_step"]:
                assert a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]


@pytest.mark.parametrize("kind, has", [("graph", "group 0 = {"), ("loops", "nest"), ("c", "frit_rows"), ("cuda", "frit_nest")])
def test_other_kinds_have_all_evaluations(kind, has):
    def f(x):
        if (x * 2).sum() > 0:
            return np.exp(x)
        return x
    text = frit.explain(f, kind)(RNG.random((300, 300)))
    assert text.count(has) >= 2, text
    comment = "//" if kind in ("c", "cuda") else "#"
    assert f"{comment} computed for a truth value" in text and f"{comment} computed at the end" in text


def test_what_raises_raises_with_a_note():
    def f(x):
        if (x * 2).sum() > 0:
            raise LookupError("gone")
    with pytest.raises(LookupError, match="gone") as e:
        frit.explain(f)(RNG.random(50_000))
    assert "until then frit had computed" in e.value.__notes__[0] and "for a truth value" in e.value.__notes__[0]
    assert frit.explain(chain)(*arguments(5))       # nothing is left


def test_a_tensor_is_explained_itself_and_stays_pending():
    t = frit.asarray(RNG.random(50)) * 2 + 1
    before = _core.stats()["n_evals"]
    e = frit.explain(t)
    d = e.as_dict()
    assert e.startswith("1 kernel;") and e == t.explain() and t.explain().as_dict()["plans"] == d["plans"] and repr(e) == e and d["kernels"] == 1 and d["plans"][0]["kernels"] == 1
    assert _core.stats()["n_evals"] == before
    t.eval()
    assert frit.explain(t) == "nothing is pending: no kernel would run\n" and frit.explain(t).as_dict()["plans"] == []


def test_accelerated_functions_say_how_their_calls_go():
    @frit.accelerate
    def loop(x):
        s = 0.0
        for i in range(len(x)):
            s += x[i]
        return s
    x = RNG.random(50)
    for _ in range(3):
        loop(x)
    if loop.stats.unchanged:
        assert "ran as NumPy's" in frit.explain(loop)(x)
    assert frit.explain(loop)(x).as_dict()["name"].endswith("loop")


def test_within_an_accelerated_call():
    seen = []

    def outer(x):
        seen.append(frit.explain(chain)(x, x).as_dict())
        return x * 2
    x = RNG.random((50, 50))
    outer(x)
    frit.accelerate(outer)(x)
    assert [(d["kernels"], d["evaluations"], d["syncs"]) for d in seen] == [(1, 1, {})] * 2


def test_results_of_all_kinds():
    def f(x):
        items = [x + 1, {"a": (x * 2, "text", None)}]
        items.append(items)
        return items
    d = frit.explain(f)(RNG.random(1000)).as_dict()
    assert d["kernels"] == 1 and d["plans"][0]["result_bytes"] == 2 * 8000


def test_one_at_a_time():
    def f(x):
        with pytest.raises(RuntimeError, match="one at a time"):
            frit.explain(chain)(x, x)
        return x + 1
    assert "1 kernel" in frit.explain(f)(np.ones(5))


def test_other_threads_are_not_told():
    def f(x):
        t = threading.Thread(target=lambda: (frit.asarray(np.ones(9)) * 3).eval())
        t.start()
        t.join()
        return x + 1
    assert frit.explain(f)(RNG.random(50_000)).as_dict()["kernels"] == 1


def test_wrong_use():
    with pytest.raises(ValueError, match="explain knows graph, loops, c, cuda and plan, not 'plans'"):
        frit.explain(chain, "plans")
    with pytest.raises(TypeError, match="takes a function or a Tensor, not 3"):
        frit.explain(3)
    with pytest.raises(RuntimeError, match="explain_begin"):
        _core.explain_end()


def test_memory_that_is_out():
    """Each allocation of an explained call fails once: a MemoryError, and the next call is explained."""
    a, b = arguments(12)
    want = frit.explain(chain)(a, b).as_dict()["kernels"]
    for n in range(1, 400, 7):
        _core.alloc_fail_at(n)
        try:
            frit.explain(chain)(a, b)
        except MemoryError:
            pass
        finally:
            _core.alloc_fail_at(0)
    assert frit.explain(chain)(a, b).as_dict()["plans"][0]["kernels"] == 1 and want


def test_nothing_is_left_of_it():
    a, b = arguments(11)
    for n in (30, 60):
        before = _core.alloc_live()
        for _ in range(n):
            frit.explain(converges)(a, b)
            frit.explain(frit.asarray(a) + 1)
    assert _core.alloc_live() - before < 30


def test_nothing_is_imported_for_it_before():
    code = "import sys, frit; print(sorted(m for m in sys.modules if m.startswith('frit._') and ('expl' in m or 'page' in m)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
