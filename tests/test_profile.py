"""frit.profile and frit.scope: what is seen adds up, belongs to its lines and layers, and leaves the program alone."""
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import frit
from benchmarks import profiled
from frit import _core, _trace, energy
from frit._profile import Profile
from frit._rows import at_peak_of

from . import fake_gpu
from .check import has_gpu_compiler
from .common import ROOT
from .perfetto import Perfetto, why_not

pytestmark = pytest.mark.filterwarnings("ignore")


def runs(p):
    return sum(k.runs for k in p.kernels if k.is_kernel)


def lines_of(p):
    """{line's text without its file: runs} of the kernels."""
    found = {}
    for k in p.kernels:
        for where, _ in k.lines:
            found[where.rpartition("/")[2]] = found.get(where.rpartition("/")[2], 0) + k.runs
    return found


def line_here(offset=0):
    f = sys._getframe(1)
    return f"{os.path.basename(f.f_code.co_filename)}:{f.f_lineno + offset} in {f.f_code.co_qualname}"


class Dense:
    def __init__(self, n, m, seed):
        rng = np.random.default_rng(seed)
        self.w, self.b = rng.standard_normal((n, m)) / n, np.zeros(m)

    def forward(self, x):
        return np.tanh(x @ self.w + self.b)


@frit.accelerate
def step(layers, x):
    for i, layer in enumerate(layers):
        with frit.scope(f"layer{i}"):
            x = layer.forward(x)
    if x.sum() > 1e30:
        return x
    np.median(x)
    with frit.scope("softmax"):
        x = np.exp(x - x.max(axis=1, keepdims=True))
        return x / x.sum(axis=1, keepdims=True)


LAYERS, X = [Dense(40, 30, 0), Dense(30, 20, 1)], np.random.default_rng(2).standard_normal((50, 40))


# ---- sums ----

def test_the_parts_of_the_time_add_up_and_counts_are_those_of_stats():
    before = frit.stats()
    with frit.profile(name="steps") as p:
        for _ in range(20):
            step(LAYERS, X)
    after = frit.stats()
    assert sum(p.parts.values()) == pytest.approx(p.us) and all(us >= 0 for us in p.parts.values()), p.parts
    assert runs(p) == after["kernels"] - before["kernels"] > 0
    for name in ("bytes_read", "bytes_written"):
        planned = sum(k.runs * getattr(k, name) for k in p.kernels if k.kind != "node by itself")
        assert planned == after[name] - before[name]
    assert p.parts["kernels"] == pytest.approx(sum(k.us for k in p.kernels))
    assert p.parts["handed to NumPy"] == pytest.approx(sum(h.us for h in p.handed))
    assert [(h.name, h.calls, h.why) for h in p.handed] == [("median", 20, "frit has none of its own")]
    syncs = {e.why: 0 for e in p.evaluations}
    for e in p.evaluations:
        syncs[e.why] += e.times
    assert syncs["bool"] == 20 and syncs["end"] + syncs.get("again", 0) == 20
    assert p.counts["fallbacks"] == {"median": 20} and p.counts["syncs"]["bool"] == 20
    (call,) = p.calls
    assert (call.name, call.calls) == ("step", 20) and 0 < call.python_us < call.us <= p.us
    lines = {at.where: at.us for at in p.lines}
    assert sum(lines.values()) == pytest.approx(sum(x.us for x in (*p.kernels, *p.handed, *p.others)))
    assert p.bytes == sum(k.runs * (k.bytes_read + k.bytes_written) for k in p.kernels)


def test_events_add_up_to_the_sums_and_lie_within_each_other():
    with frit.profile() as p:
        for _ in range(10):
            step(LAYERS, X)
    assert p.n_lost == 0
    for kind, total in (("kernel", sum(k.us for k in p.kernels)), ("call", sum(c.us for c in p.calls)),
                        ("evaluation", sum(e.us for e in p.evaluations))):
        assert sum(e.us for e in p.events if e.kind == kind) == pytest.approx(total), kind
    open_, mine = [], [e for e in p.events if e.thread == 0]
    for e in sorted(mine, key=lambda e: (e.begin_us, -e.us)):
        while open_ and open_[-1] <= e.begin_us + 1e-3:
            open_.pop()
        assert not open_ or e.begin_us + e.us <= open_[-1] + 1e-3
        open_.append(e.begin_us + e.us)
    assert sum(e.kind == "kernel" for e in p.events) == sum(k.runs for k in p.kernels)
    assert {e.kind for e in p.events} >= {"kernel", "evaluation", "call", "handed", "scope"}


def test_events_that_do_not_fit_are_in_the_sums():
    with frit.profile(events=7) as p:
        for _ in range(10):
            step(LAYERS, X)
    assert len(p.events) == 7 and p.n_lost > 100 and sum(p.parts.values()) == pytest.approx(p.us)
    assert p.calls[0].calls == 10
    with frit.profile(events=0) as none:
        step(LAYERS, X)
    assert none.events == [] and none.n_lost > 0 and runs(none) > 0


# ---- lines and layers ----

@pytest.mark.planned
def test_what_one_plan_serves_belongs_to_the_line_of_each():
    """Both lines have the same structure, so one plan runs for them."""
    x = frit.asarray(np.ones(200_000))
    y = frit.asarray(np.ones(200_000))
    frit.eval(x, y)
    for _ in range(5):
        frit.eval(np.exp(x) + 1)
    with frit.profile() as p:
        for _ in range(3):
            frit.eval(np.exp(x) + 1)
            first = line_here(-1)
        for _ in range(5):
            frit.eval(np.exp(y) + 1)
            second = line_here(-1)
    assert lines_of(p) == {first: 3, second: 5}


@pytest.mark.planned
def test_a_call_made_again_has_the_lines_of_its_function():
    @frit.accelerate
    def f(a, b):
        c = np.exp(a) + b
        return c * c

    a, b = np.ones(5000), np.zeros(5000)
    for _ in range(30):
        f(a, b)
        frit.wait_for_compiles()
    before = frit.stats()["replayed"]
    with frit.profile() as p:
        for _ in range(10):
            f(a, b)
    assert frit.stats()["replayed"] - before == 10
    assert [(k.runs, k.operations) for k in p.kernels] == [(10, "exp add multiply")]
    assert {at.where.rpartition(":")[2] for at in p.lines} == {
        f"{f.__wrapped__.__code__.co_firstlineno + i} in {f.__qualname__}" for i in (2, 3)}
    assert [(c.name, c.calls) for c in p.calls] == [(f.__qualname__, 10)]
    assert [e.why for e in p.evaluations] == ["again"]


def test_the_line_that_costs_is_named():
    small, large = np.ones(100), np.random.default_rng(0).standard_normal((400, 400))

    @frit.accelerate
    def f(s, m):
        t = np.exp(s).sum()
        n = np.linalg.matrix_rank(m)        # an SVD: thousands of times all else
        return t, n

    with frit.profile() as p:
        for _ in range(3):
            f(small, large)
    assert p.lines[0].where.endswith(f"{f.__wrapped__.__code__.co_firstlineno + 3} in {f.__qualname__}"), p
    assert p.lines[0].us > 0.8 * sum(at.us for at in p.lines)
    assert max(p.parts, key=p.parts.get) == "handed to NumPy"


def test_functions_of_others_are_named_at_their_lines():
    """What a random generator takes is not the line's that reads its numbers, nor Python's."""
    import json

    @frit.accelerate
    def run(rng, n):
        z = rng.standard_normal(n)
        y = z * 2 + 1
        try:
            json.loads("[")
        except ValueError:
            y = y + 1
        return sorted([y.sum(), 1.0], key=lambda v: -float(frit.eval(v + 1)))
    with frit.profile() as p:
        run(np.random.default_rng(1), 100_000)
    first = run.__wrapped__.__code__.co_firstlineno
    found = {o.name: (o.calls, o.where) for o in p.others}
    assert found["numpy.Generator.standard_normal"] == (1, f"{__file__}:{first + 2} in {run.__qualname__}")
    assert found["json.loads"] == (1, f"{__file__}:{first + 5} in {run.__qualname__}")
    assert p.parts["functions of others"] == pytest.approx(sum(o.us for o in p.others))
    assert sum(p.parts.values()) == pytest.approx(p.us) and all(us >= 0 for us in p.parts.values())
    assert {at.where for at in p.lines} >= {where for _, where in found.values()}
    assert sum(e.kind == "others" for e in p.events) == sum(o.calls for o in p.others)
    assert "numpy.Generator.standard_normal 1 time at" in str(p) and "Functions of others" in p.html()


def test_what_is_computed_later_belongs_to_the_scope_in_which_it_was_written():
    x = frit.asarray(np.arange(1000.0))
    with frit.profile() as p:
        kept = []
        for i in range(2):
            with frit.scope("outer"), frit.scope(f"part{i}"):
                kept.append(np.sin(x) + i)      # one line: the scopes tell which
        kept.append(x * 3)
        frit.eval(kept)
    tree = {layer.name: layer for layer in p.layers}
    outer = tree["outer"]
    assert {layer.name for layer in outer.children} == {"part0", "part1"}
    assert all(layer.us > 0 and layer.runs == 1 and layer.wall_us > 0 for layer in outer.children)
    assert outer.us == pytest.approx(sum(layer.us for layer in outer.children))
    assert sum(layer.us for layer in p.layers) == pytest.approx(sum(k.us for k in p.kernels))
    mine = tree["test_what_is_computed_later_belongs_to_the_scope_in_which_it_was_written"]
    assert mine.us > 0 and mine.wall_us is None


def test_layers_are_scopes_classes_and_functions():
    want = step(LAYERS, X)
    with frit.profile() as p:
        for _ in range(5):
            got = step(LAYERS, X)
    assert got.tobytes() == want.tobytes()
    tree = {layer.name: layer for layer in p.layers}
    assert set(tree) == {"layer0", "layer1", "softmax", "step"}
    for name in ("layer0", "layer1"):
        (dense,) = tree[name].children
        (forward,) = dense.children
        assert (dense.name, forward.name, tree[name].runs) == ("Dense", "forward", 5)
    e = frit.estimate(step)(LAYERS, X)
    assert {layer.name for layer in e.layers} >= {"layer0", "layer1"}


def test_scopes_are_functions_and_threads_and_end_when_one_raises():
    @frit.scope("named")
    def f(x):
        """Text."""
        return x * 2

    assert f.__name__ == "f" and f.__doc__ == "Text." and repr(frit.scope("a")) == "frit.scope('a')"
    x = frit.asarray(np.ones(10))
    again = frit.scope("again")

    def other():
        with frit.scope("thread"):
            frit.eval(x - 1)

    with frit.profile() as p:
        with pytest.raises(ZeroDivisionError), frit.scope("raises"):
            _ = 1 / 0
        with again, again:
            frit.eval(f(x))
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        frit.eval(x + 5)
    scopes = {scope for k in p.kernels for scope, _, _ in k.places}
    assert scopes == {"again/again/named", "thread", ""}
    assert {e.thread for e in p.events if e.kind == "scope"} == {0, 1}
    for wrong in (3, None, b"a"):
        with pytest.raises(TypeError, match="scope's name is a str, not"):
            frit.scope(wrong)


def test_more_scopes_than_are_told_apart():
    """They belong to the one around them."""
    code = """
import frit, numpy as np
from frit import _core
for i in range(40_000):
    _core.scope_leave(*_core.scope_enter(f"s{i}"))
x = frit.asarray(np.ones(3))
with frit.profile() as p, frit.scope("s5"), frit.scope("new"):
    frit.eval(x + 1)
print({scope for k in p.kernels for scope, _, _ in k.places})
"""
    out = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout
    assert out == "{'s5'}\n"


# ---- memory ----

def test_the_memory_curve_has_the_allocator_peak_and_what_lives_there():
    x = frit.asarray(np.ones(100_000))
    frit.eval(x)
    _core.memory_trim()
    with frit.profile() as p:
        y = x + 1
        frit.eval(y)
        z = y * 2
        frit.eval(z)
        line = line_here(-2)
        del y
        frit.eval(z + 3)
    peak = max(n for _, n in p.memory)
    assert p.peak_bytes == peak >= 3 * 800_000
    assert [at for at, _ in p.memory] == sorted(at for at, _ in p.memory)
    at_peak = [(a.where.rpartition("/")[2], a.shape, a.dtype, a.bytes) for a in p.at_peak[:3]]
    assert (line, (100_000,), "float64", 800_000) in at_peak, at_peak
    assert json.loads(json.dumps(p.as_dict()))["peak_bytes"] == peak


def test_a_long_curve_keeps_its_peak_in_bounded_memory():
    x = frit.asarray(np.ones(10))
    with frit.profile(events=0) as p:
        for i in range(6000):
            if i == 3000:
                frit.eval(frit.asarray(np.ones(50_000)) + 1)
            frit.eval(x + 1)
    assert 1000 < len(p.memory) <= 4096 and max(n for _, n in p.memory) == p.peak_bytes > 400_000


COMPILED = """
import numpy as np
import frit
with frit.profile() as p:
    x = frit.asarray(np.ones(300_000))
    for k in range(300):
        frit.eval(np.exp(x) * 2 + 1)
        frit.wait_for_compiles()
        if frit.stats()["jitted"]:
            break
print(p.compiles[0][:2], frit.stats()["compiled"], frit.stats()["disk_hits"], sorted({k.tier for k in p.kernels}))
"""


def test_kernels_that_come_meanwhile_are_counted(tmp_path):
    """And one that runs by another executor from there on is told apart."""
    if _core.show_config()["compile_unavailable"]:
        pytest.skip("no compiler")
    env = {**os.environ, "FRIT_CACHE_DIR": str(tmp_path / "cache"), "FRIT_JIT": "auto"}
    first, second = (subprocess.run([sys.executable, "-c", COMPILED], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
                                    env=env).stdout for _ in range(2))
    assert first == "('compiled', 1) 1 0 ['compiled', 'interpreted']\n"
    assert second.startswith("('from disk', 1) 0 1 ['") and "compiled" in second


# ---- begin and end ----

def test_a_decorated_function_has_the_profile_of_its_last_call():
    @frit.profile(name="squares")
    def f(n):
        """Text."""
        return f(n - 1) if n else frit.eval(frit.asarray(np.ones(5)) * 2)

    assert f.profile is None and f.__doc__ == "Text."
    f(3)        # the calls within are a part of it
    first = f.profile
    f(0)
    assert first is not f.profile and first.name == "squares" and runs(first) == runs(f.profile) == 1

    @frit.profile
    def g():
        raise KeyError("k")

    with pytest.raises(KeyError):
        g()
    assert g.profile.us > 0 and g.profile.name.endswith("g")
    with frit.profile() as p:
        f(0)
    assert runs(p) == 1


def test_one_at_a_time_and_errors_of_use():
    with frit.profile() as p:
        with pytest.raises(RuntimeError, match="records already"), frit.profile():
            pass
        with pytest.raises(RuntimeError, match="records already"):
            frit.estimate(lambda x: x + 1)(np.ones(3))
        frit.eval(frit.asarray(np.ones(3)) + 1)
    assert runs(p) == 1
    with pytest.raises(RuntimeError, match="has not begun"):
        p.end()
    with pytest.raises(ValueError, match="events is how many"):
        frit.profile(events=-1)
    with pytest.raises(TypeError, match=r"takes a function, not 'epoch'; its name is profile\(name=\.\.\.\)"):
        frit.profile("epoch")
    with pytest.raises(TypeError, match="takes another Profile, not 3"):
        p.diff(3)
    with pytest.raises(ValueError, match=r"saved as \.json or \.html"):
        p.save("x.txt")
    with pytest.raises(ZeroDivisionError), frit.profile() as broken:
        step(LAYERS, X)
        raise ZeroDivisionError
    assert runs(broken) > 0 and not _core.stats().get("recording")
    assert repr(p).startswith("<frit.Profile of what ran: ")


def test_arrays_of_one_kind_at_the_peak_are_one_row():
    def arrays(n):
        return [frit.eval(frit.ones((100, 100)) * i) for i in range(n)]
    with frit.profile() as p:
        kept = [arrays(5), frit.eval(frit.ones(90_000) + 1)]
    rows = at_peak_of(p.as_dict())
    assert [n for n, _, _ in rows] == sorted((n for n, _, _ in rows), reverse=True) and kept
    assert sum(n for n, _, _ in rows) == sum(a.bytes for a in p.at_peak) + p.temporary_bytes
    assert any(n == 400_000 and what == "5 arrays float64 (100, 100)" for n, what, _ in rows), rows
    assert "5 arrays float64 (100, 100) of " in str(p) and "5 arrays float64 (100, 100)" in p.html()


def test_a_line_that_nobody_knows_has_no_at():
    p = Profile()
    p._sum([("evaluation", "others", 0, None, 0, 0, 2, 10, 10), ("handed", "sort", 0, "f.py:1 in f", 0, 0, 1, 10, 10)], 1.0)
    text = str(p)
    assert "other code, which may see the memory 2 times\n" in text + "\n" and "sort 1 time at f.py:1 in f: " in text


def test_nothing_is_recorded_while_nobody_profiles():
    with frit.profile() as p:
        pass
    assert p.kernels == [] and p.events == [] and p.parts == {"Python": p.us}
    step(LAYERS, X)
    with frit.profile() as p:
        pass
    assert p.kernels == [] and p.events == []


def test_memory_that_is_out_ends_the_profile_and_not_the_program():
    x = frit.asarray(np.ones(100))
    frit.eval(x + 1)
    done = 0
    for n in range(1, 60):
        _core.alloc_fail_at(n)
        try:
            with frit.profile() as p:
                got = frit.eval(x + 1)
            done += runs(p) == 1
        except MemoryError:
            got = None
        finally:
            _core.alloc_fail_at(0)
        assert got is None or np.array_equal(np.asarray(got), np.full(100, 2.0))
        with frit.profile() as p:       # nothing is left behind
            frit.eval(x + 1)
        assert runs(p) == 1
    assert done > 0


def test_threads_are_told_apart_and_the_parts_are_of_the_one_that_began():
    x = frit.asarray(np.ones(5000))

    def work():
        for _ in range(50):
            frit.eval(np.exp(x) + 1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    with frit.profile() as p:
        for t in threads:
            t.start()
        work()
        for t in threads:
            t.join()
    assert sum(p.parts.values()) == pytest.approx(p.us)
    assert len({e.thread for e in p.events if e.kind == "evaluation"}) == 4
    assert sum(e.times for e in p.evaluations) == 200


def test_a_profile_begins_and_ends_while_another_thread_computes():
    """Which does so without Python's lock."""
    x = frit.asarray(np.ones(400_000))
    frit.eval(x)
    done, want = threading.Event(), np.exp(np.float64(1)) + 1

    def work():
        while not done.is_set():
            got = np.exp(x) + 1
            frit.eval(got)
            assert abs(np.asarray(got)[5] - want) < 1e-12

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for i in range(150):
            with frit.profile(events=i % 3) as p:
                pass
            assert all(k.runs > 0 for k in p.kernels)
    finally:
        done.set()
        thread.join()


# ---- shown ----

def test_what_is_printed_says_it_all():
    with frit.profile(name="steps") as p:
        for _ in range(4):
            step(LAYERS, X)
    text = str(p)
    for want in ("steps: ", "kernels, ", "handed to NumPy", "median 4 times at ", "frit has none of its own", "computed for", "a truth value 4 times",
                 "layer0 (4 times, ", "Dense", "largest arrays of the ", "matmul"):
        assert want in text, (want, text)
    assert max(map(len, text.splitlines())) < 260


def test_a_trace_is_what_perfetto_opens():
    """The format's own rules; tests/perfetto.py asks Perfetto itself (make soak)."""
    with frit.profile(name="steps") as p:
        for _ in range(4):
            step(LAYERS, X)
    trace = json.loads(json.dumps(p.trace()))
    complete = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert all({"name", "cat", "ts", "dur", "pid", "tid"} <= set(e) and e["ts"] >= 0 and e["dur"] >= 0 for e in complete)
    assert {e["ph"] for e in trace["traceEvents"]} == {"X", "M", "C"}
    for kind in {e.kind for e in p.events}:
        assert sum(e["dur"] for e in complete if e["cat"] == kind) == pytest.approx(sum(e.us for e in p.events if e.kind == kind))
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert {"steps", "Python"} <= names
    assert max(e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C") == p.peak_bytes
    assert trace["otherData"]["us"] == p.us


@pytest.mark.soak
def test_perfetto_opens_the_trace_and_has_the_same_totals():
    if why_not():
        pytest.skip(why_not())
    with frit.profile(name="steps") as p:
        for _ in range(20):
            step(LAYERS, X)
        thread = threading.Thread(target=lambda: step(LAYERS, X))
        thread.start()
        thread.join()
    opened = Perfetto(json.dumps(p.trace()).encode())
    try:
        rows = opened.query("select category as kind, count(*) as n, sum(dur) / 1000.0 as us from slice group by kind")
        assert {r["kind"]: r["n"] for r in rows} == {kind: sum(e.kind == kind for e in p.events) for kind in {e.kind for e in p.events}}
        for r in rows:      # nanoseconds, rounded
            assert r["us"] == pytest.approx(sum(e.us for e in p.events if e.kind == r["kind"]), abs=0.002 * r["n"]), r
        assert opened.query("select max(value) as n from counter") == [{"n": p.peak_bytes}]
        assert opened.query("select count(*) as n from stats where severity = 'error' and value > 0") == [{"n": 0}]
        names = {r["name"] for r in opened.query("select distinct name from thread")}
        assert {"Python", "thread 1"} <= names or len({e.thread for e in p.events}) < 2, names
        within = opened.query("select count(*) as n from slice s join slice p on s.parent_id = p.id "
                              "where s.category = 'kernel' and p.category = 'evaluation'")
        assert within[0]["n"] == sum(e.kind == "kernel" for e in p.events)
    finally:
        opened.close()


def test_files_appear_whole(tmp_path):
    with frit.profile() as p:
        step(LAYERS, X)
    p.save(str(tmp_path / "p.json"))
    assert json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    p.save(str(tmp_path / "p.html"))
    assert (tmp_path / "p.html").read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(FileNotFoundError) as missing:
        p.save(str(tmp_path / "no" / "p.json"))
    assert missing.value.filename == str(tmp_path / "no" / "p.json"), "what the caller has named"
    assert sorted(os.listdir(tmp_path)) == ["p.html", "p.json"]


def test_a_page_has_what_is_printed():
    """tests/test_pages.py looks at what pages are made of."""
    with frit.profile(name="steps <1>") as p:
        for _ in range(3):
            step(LAYERS, X)
    page = p.html()
    for want in ("Profile of steps &lt;1&gt;", "handed to NumPy", "frit has none of its own", "a truth value", "layer0", "Dense", "forward",
                 "peak of memory", "3 times", "By layer", "What ran when", "Kernels below the machine"):
        assert want in page, want
    assert len(p._repr_html_()) < len(page)


def test_two_profiles_are_compared():
    profiles = []
    for n in (2, 4):
        with frit.profile(name="steps") as p:
            for _ in range(n):
                step(LAYERS, X)
        profiles.append(p)
    before, after = profiles
    rows = {what: (a, b) for what, a, b in after.diff(before).rows}
    assert rows["kernels"] == (runs(before), runs(after)) and rows["fallbacks"] == (2, 4) and rows["syncs"] == (2, 4)
    assert rows["bytes"] == (before.bytes, after.bytes)
    with pytest.raises(AssertionError, match="steps takes more than before: bytes from"):
        after.diff(before).check(bytes=0.5)
    assert "before and after" in after.diff(before).html()


SCRIPT = """
import sys
import numpy as np
class Model:
    def run(self, x):
        return np.tanh(x) + 1
m = Model()
for i in range(int(sys.argv[1])):
    y = m.run(np.ones(50_000))
print(y[0])
raise SystemExit(3)
"""


def test_a_script_is_profiled_from_the_command_line(tmp_path):
    (tmp_path / "s.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "-m", "frit.profile", "--trace", "t.json", "--html", "t.html", "s.py", "4"], cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": ROOT + "/python"})
    assert done.returncode == 3 and done.stdout == "1.7615941559557649\n", done
    assert done.stderr.startswith("s.py: ") and "s.py:6 in Model.run" in done.stderr and "Model" in done.stderr
    assert json.loads((tmp_path / "t.json").read_text())["otherData"]["name"] == "s.py"
    assert "Profile of s.py" in (tmp_path / "t.html").read_text()


PROCESSES = """
import multiprocessing, subprocess, sys
import numpy as np
import frit

@frit.accelerate
def work(x):
    return np.exp(x) + 1

def child(n):
    for _ in range(n):
        work(np.ones(1000))

if __name__ == "__main__":
    with frit.profile(name="all", processes=True) as p:
        work(np.ones(1000))
        for way in ("fork", "spawn"):
            c = multiprocessing.get_context(way).Process(target=child, args=(3,))
            c.start()
            c.join()
            assert c.exitcode == 0
        subprocess.run([sys.executable, "-c", "import numpy as np, frit; frit.eval(frit.asarray(np.ones(5)) * 2)"], check=True)
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    import json, os
    print(json.dumps([[c["name"], sum(k["runs"] for k in c["kernels"]), c["pid"] != os.getpid()] for c in p.processes]))
    pids = {e["pid"] for e in p.trace()["traceEvents"]}
    spans = [e for e in p.trace()["traceEvents"] if e["ph"] == "X"]
    print(len(pids), "FRIT_TRACE" in os.environ, all(0 <= e["ts"] <= p.us for e in spans), len([c for c in p.calls]))
"""


def test_processes_are_in_one_trace(tmp_path):
    (tmp_path / "p.py").write_text(PROCESSES)
    env = {**os.environ, "PYTHONPATH": ROOT + "/python", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "p.py"], cwd=tmp_path, text=True, stdout=subprocess.PIPE, check=True, env=env).stdout.splitlines()
    children = json.loads(done[0])
    assert [n for _, n, _ in children] == [3, 3, 1] and all(other for _, _, other in children), done
    assert done[1] == "4 False True 1"
    assert [name for name in os.listdir(tmp_path) if name.startswith("frit-trace-")] == []


def test_a_child_of_fork_does_not_have_what_its_parent_records():
    with frit.profile() as p:
        step(LAYERS, X)
        pid = os.fork()
        if pid == 0:
            try:
                step(LAYERS, X)
                with frit.profile() as own:
                    step(LAYERS, X)
                os._exit(0 if 0 < runs(own) <= 6 else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(pid, 0)[1] == 0
        step(LAYERS, X)
    assert [c.calls for c in p.calls] == [1, 1]


ON_A_GPU = """
import numpy as np
import frit
x = frit.asarray(np.ones((100, 200)))
with frit.profile() as p:
    for _ in range(3):
        frit.eval(np.exp(x) * 2 + x.sum(axis=1, keepdims=True))
assert abs(sum(p.parts.values()) - p.us) < 1e-6 * p.us
print(sum(k.runs for k in p.kernels), {k.device for k in p.kernels}, all(k.us > 0 for k in p.kernels), p.peak_bytes > 160_000)
"""


def test_what_a_gpu_runs_is_waited_for_and_has_its_time():
    if not has_gpu_compiler():
        pytest.skip("no NVRTC")
    done = subprocess.run([sys.executable, "-c", ON_A_GPU], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
                          env={**os.environ, **fake_gpu.environment()})
    assert done.stdout == "3 {'cuda:0'} True True\n"


def test_joules_are_said_to_be_modelled_and_are_parted_among_kernels(monkeypatch):
    assert "joules_source" in Profile().as_dict() and Profile().joules is None
    monkeypatch.setattr(energy, "counters", dict)
    monkeypatch.setattr(energy, "_machines_power", lambda: energy.Power(10.0, 50.0, 0.3, 1.0))
    with frit.profile() as p:
        for _ in range(20):
            step(LAYERS, X)
    assert p.joules_source == "modelled" and 0 < p.joules < 61e-6 * p.us
    parts = [p.joules_of(k) for k in p.kernels]
    assert all(x > 0 for x in parts) and sum(parts) < p.joules and "J, modelled" in str(p)
    assert [k["joules"] for k in p.as_dict()["kernels"]] == parts


def test_joules_are_measured_where_counters_are(monkeypatch, tmp_path):
    folder = tmp_path / "intel-rapl:0"
    folder.mkdir()
    (folder / "energy_uj").write_text("1000000")
    (folder / "max_energy_range_uj").write_text("9000000")
    monkeypatch.setattr(energy, "_DOMAINS", str(tmp_path / "intel-rapl:[0-9]*"))
    with frit.profile() as p:
        (folder / "energy_uj").write_text("3500000")
    assert (p.joules, p.joules_source) == (2.5, "measured")


# ---- what it costs ----

@pytest.mark.parametrize("name", ["life", pytest.param("runge_kutta", marks=pytest.mark.soak),
                                  *(pytest.param(n, marks=pytest.mark.soak) for n in profiled.PROGRAMS if n not in ("life", "runge_kutta"))])
def test_less_than_one_instruction_in_a_hundred_is_for_the_profile(name):
    """Measured 0.006 to 0.14 % (python -m benchmarks.profiled)."""
    if not profiled.dispatch_callgrind.shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    alone, seen = profiled.overhead(name)
    assert seen < 1.01 * alone


def test_as_dict_is_made_of_plain_things_and_traces_of_that():
    with frit.profile() as p:
        step(LAYERS, X)
    d = json.loads(json.dumps(p.as_dict()))
    assert isinstance(p, Profile) and _trace.trace(d)["traceEvents"]
    assert {"kernels", "lines", "layers", "parts", "calls", "evaluations", "handed", "others", "memory", "at_peak", "events"} <= set(d)
    for k in d["kernels"]:
        assert k["us"] > 0 and k["runs"] > 0 and (k["share_of_limit"] is None or 0 < k["share_of_limit"] <= 1)
        assert sum(share for _, _, share in k["places"]) == pytest.approx(1) or not k["places"]
