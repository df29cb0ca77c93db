"""frit.warmup(f)(*args): after it a call plans and compiles nothing; it computes nothing itself and leaves things alone; waits
for the compiler tell how they go, and end with Ctrl-C."""
import io
import sys
import threading

import numpy as np
import pytest

import frit
from frit import _progress

from . import fake_gpu, gpu
from .common import assert_same
from .test_guest import compiler, run  # noqa: F401

pytestmark = pytest.mark.own
S = frit.ShapeDtype


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def train(w, x, y, rate=0.1):
    for _ in range(3):
        p = 1 / (1 + np.exp(-(x @ w)))
        w -= rate * (x.T @ (p - y)) / len(y)
    return np.mean((p - y) ** 2)


def two_parts(x):
    y = x * 2 + 1
    if y.sum() > 0:
        return np.sqrt(y) + np.tanh(y)
    return y


class Layer:
    def __init__(self):
        self.w, self.n, self.log = np.linspace(-1, 1, 32 * 16).reshape(32, 16), 0, []

    def step(self, x):
        h = np.tanh(x @ self.w)
        self.w -= 0.01 * (x.T @ (h * (1 - h * h)))
        self.n += 1
        self.log.append(float(h.mean()))
        return h


@pytest.fixture
def compiles(compiler):  # noqa: F811
    with frit.config(jit="auto"):
        yield


def assert_ready(f, *args):
    """A call makes no plan, asks for no compilation, and gives NumPy's bits by kernels with machine code."""
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    before = frit.stats()
    got = frit.accelerate(f)(*args)
    frit.wait_for_compiles()
    after = frit.stats()
    assert {k: after[k] - before[k] for k in ("plans", "compiled", "disk_hits", "disk_misses")} == dict.fromkeys(
        ("plans", "compiled", "disk_hits", "disk_misses"), 0)
    assert after["kernels"] > before["kernels"] and after["plan_hits"] > before["plan_hits"]
    tiers = {s["tier"] for p in frit.explain(f)(*copies).as_dict()["plans"] for s in p["steps"] if s["kind"] == "launch"}
    assert tiers == {"compiled"}, tiers
    return got


def test_a_call_finds_all_ready(compiles):
    x = np.random.default_rng(0).random((300, 70))
    w = frit.warmup(softmax)(x)
    assert w.kernels == w.compiled + w.from_disk + w.ready == 1 and w.plans == 1 and w.interpreted == 0
    assert w.stopped is None and w.why is None and w.seconds > 0 and w.name == "softmax"
    got = assert_ready(softmax, x)
    assert np.abs(got - softmax(x)).max() < 1e-15
    again = frit.warmup(softmax)(x)
    assert (again.kernels, again.ready, again.compiled, again.from_disk, again.plans) == (1, 1, 0, 0, 0)
    assert str(again).startswith("softmax: 1 kernel in ") and str(again).endswith(": 1 in memory")
    assert repr(again) == f"<frit.Warmup of {again}>"


def test_shapes_stand_for_arrays(compiles):
    w = frit.warmup(softmax)(S((64, 48), "f4"))
    assert w.kernels == 1 and w.interpreted == 0
    assert_ready(softmax, np.random.default_rng(1).random((64, 48), "f4"))


def test_what_a_call_writes_is_as_it_was(compiles):
    rng = np.random.default_rng(2)
    w, x, y = rng.random((20, 3)), rng.random((50, 20)), rng.random((50, 3))
    kept = [a.copy() for a in (w, x, y)]
    evals, kernels = frit.stats()["evals"], frit.stats()["kernels"]
    assert frit.warmup(train)(w, x, y).kernels > 1
    assert frit.stats()["evals"] == evals and frit.stats()["kernels"] == kernels
    for a, b in zip((w, x, y), kept):
        assert_same(a, b)
    assert_ready(train, w, x, y)
    assert not np.array_equal(w, kept[0])


def test_methods_and_their_objects(compiles):
    layer, x = Layer(), np.linspace(0, 1, 40 * 32).reshape(40, 32)
    w = frit.warmup(layer.step)(x)
    assert layer.n == 0 and layer.log == [] and w.kernels >= 2 and w.name == "Layer.step"
    assert_same(layer.w, Layer().w)
    assert_ready(layer.step, x)


def test_values_that_python_needs(compiles):
    x = np.random.default_rng(3).random(300_000)       # more than is computed without being asked for
    w = frit.warmup(two_parts)(x)
    assert w.kernels == 2 and w.stopped is None
    assert_ready(two_parts, x)
    early = frit.warmup(two_parts)(S(x.shape))
    assert early.kernels == 1 and "test_warmup.py" in early.stopped and "ends early" in str(early)
    assert frit.warmup(two_parts, unknown=1.0)(S(x.shape)).stopped is None
    assert "test_warmup.py" in frit.warmup(two_parts, values="small")(x).stopped


def test_an_accelerated_function_is_its_own(compiles):
    f = frit.accelerate(softmax)
    x = np.random.default_rng(4).random((30, 20))
    assert frit.warmup(f)(x).kernels == 1 and f.stats.calls == 0
    assert_ready(softmax, x)


def test_without_machine_code_it_says_why():
    with frit.config(jit="interpret"):
        w = frit.warmup(lambda x: np.arctan(x) * 3 + np.cosh(x))(np.ones(1000))
    assert w.kernels == w.interpreted == 1 and w.compiled == w.from_disk == 0 and w.why == "FRIT_JIT=interpret"
    assert str(w).endswith(": 1 interpreted (FRIT_JIT=interpret)")


def test_errors_are_the_functions_and_leave_it_usable():
    with pytest.raises(ValueError, match="broadcast"):
        frit.warmup(lambda x: x + np.ones(3))(np.ones(4))
    with pytest.raises(TypeError, match="arguments cannot be copied"):
        frit.warmup(lambda x, y: x)(np.ones(4), {1: threading.Lock()})
    with pytest.raises(ValueError, match="'small', 'all' or None, not 'some'"):
        frit.warmup(softmax, values="some")
    with pytest.raises(TypeError, match="a function, not 3"):
        frit.warmup(3)
    with pytest.raises(ValueError, match="for the processor or a GPU, not for 'meta'"):
        frit._core.warmup_begin("meta")
    frit._core.warmup_begin("cpu")
    with pytest.raises(RuntimeError, match="one warmup at a time"):
        frit.warmup(softmax)(S((3, 3)))
    assert frit._core.warmup_end() == (0, 0, 0, 0)
    assert frit.warmup(softmax)(np.ones((3, 3))).kernels == 1


def test_from_disk_in_another_process(compiler, tmp_path):  # noqa: F811
    tmp_path.chmod(0o700)
    code = """
        def f(x):
            return np.exp(x) * 2 + np.tanh(x)
        w = frit.warmup(f)(frit.ShapeDtype(1000))
        print(w.compiled, w.from_disk, w.ready, w.interpreted, w.kernels)
    """
    env = {"FRIT_CACHE_DIR": tmp_path, "FRIT_JIT": None, "FRIT_CACHE": None}
    assert [run(code, **env).stdout.split() for _ in range(2)] == [["1", "0", "0", "0", "1"], ["0", "1", "0", "0", "1"]]


def test_on_a_gpu():
    """One that is not there (tests/cuda/)."""
    try:
        gpu.compiler()
    except ValueError as e:
        pytest.skip(str(e))
    code = """
        def f(x):
            return np.exp(x) * 2 + np.tanh(x)
        x = np.linspace(-1, 1, 300, dtype="f4")
        for device in "cuda", "auto":
            on_it = frit.accelerate(f, device=device)
            w = frit.warmup(on_it)(frit.ShapeDtype(300, "f4"))
            assert w.kernels == w.compiled + w.from_disk + w.ready, w
            before = frit.stats()
            assert np.abs(on_it(x) - f(x)).max() < 1e-5
            after = frit.stats()
            assert all(after[k] == before[k] for k in ("plans", "compiled", "disk_hits")), (before, after)
            print(w.kernels, w.compiled)
    """
    done = run(code, **{**fake_gpu.environment(), "FRIT_JIT": None, "FRIT_CACHE": 0})
    assert done.stdout.split() == ["1", "1", "2", "1"]


# ---- Ctrl-C

MANY = """
def many(x):
    for i in range(150):            # which takes the compiler many seconds
        x = np.sin(x) * 0.5 + i
        if i % 3 == 0:
            x = x / x.sum()
    return x
def interrupt_soon():
    def wait_and_send():
        while frit.stats()["pending"] == 0:
            time.sleep(0.01)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=wait_and_send).start()
"""


def test_ctrl_c_ends_a_warmup(compiler):  # noqa: F811
    run(MANY + """
interrupt_soon()
try:
    frit.warmup(many)(np.ones(5000))
except KeyboardInterrupt:
    assert frit.stats()["pending"] > 0      # it has not waited for the end
else:
    raise AssertionError("not interrupted")
work()
x = np.ones(100)
y = x * 3
assert (frit.accelerate(lambda x: x * 3)(x) == y).all()
os._exit(0)
    """, FRIT_CACHE=0, FRIT_JIT=None, FRIT_TUNE=None)


def test_ctrl_c_ends_a_wait(compiler):  # noqa: F811
    run(MANY + """
f = frit.accelerate(many)
x = np.ones(200_000)
f(x), f(x)
assert frit.stats()["pending"] > 0
interrupt_soon()
try:
    frit.wait_for_compiles()
except KeyboardInterrupt:
    assert frit.stats()["pending"] > 0
else:
    raise AssertionError("not interrupted")
assert frit.wait_for_compiles(0.05) is False
work()
os._exit(0)
    """, FRIT_CACHE=0, FRIT_JIT=None, FRIT_TUNE=None)


# ---- the line

class Terminal(io.StringIO):
    def isatty(self):
        return True


def counting(n):
    """A wait for so many kernels, one at a time."""
    left = [n]

    def step(seconds):
        left[0] -= 1
        return max(0, left[0])
    return step


def test_a_line_in_a_terminal_goes_away(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    assert _progress.wait(counting(4)) is True
    lines = out.getvalue().split("\r")
    assert lines[1:4] == ["frit: 3 kernels left to compile", "frit: 2 kernels left to compile", "frit: 1 kernel left to compile "]
    assert lines[4].strip() == "" and len(lines[4]) >= len(lines[3].rstrip()) and lines[5] == ""


def test_a_short_wait_and_a_pipe_have_no_line(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    assert _progress.wait(counting(1)) is True and out.getvalue() == ""
    pipe = io.StringIO()
    for stream in (pipe, None):
        monkeypatch.setattr(sys, "stderr", stream)
        assert _progress.wait(counting(4)) is True
    assert pipe.getvalue() == ""


def test_a_wait_that_is_too_long(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(_progress, "_SOON_S", 0.0)
    assert _progress.wait(lambda seconds: 5, 0.01) is False
    assert out.getvalue().endswith("\r")
    asked = []
    assert _progress.wait(lambda seconds: asked.append(seconds) or 1, 0.0) is False and asked == [0.0]


def test_a_line_ends_when_the_wait_is_interrupted(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    answers = iter([2, 1])

    def step(seconds):
        for n in answers:
            return n
        raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        _progress.wait(step)
    assert "left to compile" in out.getvalue() and out.getvalue().endswith("\r")
