"""device="auto" (csrc/runtime/place.c): which groups go to a GPU, held against synthetic machines; and on the driver of tests/cuda/,
counts of what went. FRIT_TUNE says how fast the processor and the GPU are, so that no answer depends on where the tests run."""
import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from . import test_devices, test_gpu
from .common import ASSERTED, ROOT, in_csrc, objects

# ---- the choice by itself -------------------------------------------------------------------------------------------------------

MACHINES = {  # launch_us, GB/s, Gop/s of plain, slow and costly operations, copy_us, GB/s of copies
    "processor": (1, 10, 20, 7, 2, 0, 1), "workstation": (4, 40, 300, 100, 30, 0, 1),
    "small gpu": (8, 200, 2000, 700, 200, 15, 6), "large gpu": (8, 3000, 60000, 20000, 6000, 10, 50), "far gpu": (8, 3000, 60000, 20000, 6000, 10, 0.01),
}
HOST, GPU, BOTH = 1, 2, 3


@pytest.fixture(scope="module")
def choose(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("spread") / "spread.so")
    made = objects([*in_csrc("runtime/spread.c", "backends/estimate.c", "jit/work.c", "jit/loop.c", "jit/micro.c", "jit/recipe*.c", "ir/op.c",
                              "core/dtype.c", "core/layout.c", "core/number.c", "base/*.c"), os.path.join(ROOT, "tests/c/test_spread.c")], *ASSERTED)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", *made, "-o", path, "-lm", "-lpthread"], check=True)
    function = ctypes.CDLL(path).spread

    def spread(machines, loads, values, reads, together=False):
        """loads: bytes, plain and costly operations, who may; values: bytes, who makes it, where it is, whether it is shown."""
        flat = [np.array(list(a), float).ravel() for a in ([MACHINES[m] for m in machines], loads, values)]
        matrix = np.zeros((len(loads), len(values)), bool)
        for load, of in enumerate(reads):
            matrix[load, of] = True
        on, us = np.full(len(loads), -1, np.int32), np.zeros(len(machines) + 1)
        p = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
        function(len(machines), p(flat[0]), len(loads), p(flat[1]), len(values), p(flat[2]), p(matrix), together, p(on), p(us))
        return on.tolist(), us.tolist()
    return spread


def chain(n_groups, n, costly, at=HOST, may=BOTH, shown=False):
    """Groups over n numbers of 4 bytes, each of which reads what the one before has made."""
    loads = [(8 * n, n, costly * n, may)] * n_groups
    values = [(4 * n, -1, at, 0)] + [(4 * n, k, 0, shown and k == n_groups - 1) for k in range(n_groups)]
    return loads, values, [[k] for k in range(n_groups)]


M = 1 << 20
CASES = {  # machines, groups, where they run
    "small work": (["processor", "large gpu"], chain(3, 1000, 1), [0, 0, 0]),
    "small work on what is there": (["processor", "large gpu"], chain(1, 1000, 0, GPU), [1]),
    "a cheap group on the host's array": (["processor", "small gpu"], chain(1, M, 0, shown=True), [0]),
    "a cheap group whose result stays": (["processor", "large gpu"], chain(1, 16 * M, 0), [1]),
    "a heavy group on it": (["processor", "large gpu"], chain(1, M, 20, shown=True), [1]),
    "a heavy group and many threads": (["workstation", "small gpu"], chain(1, M, 2, shown=True), [0]),
    "large work on what is there": (["processor", "small gpu"], chain(4, M, 0, GPU), [1] * 4),
    "a copy that pays for all groups alone": (["workstation", "large gpu"], chain(30, M, 0), [1] * 30),
    "over a slow line": (["processor", "far gpu"], chain(1, M, 20), [0]),
    "what may not go": (["processor", "large gpu"], chain(3, M, 20, may=HOST), [0, 0, 0]),
    "the faster of two": (["processor", "small gpu", "large gpu"], chain(2, M, 20, may=7), [2, 2]),
    "the one that has it": (["processor", "small gpu", "large gpu"], chain(1, M, 0, at=2, may=7), [1]),
}


@pytest.mark.parametrize("name", CASES)
def test_where_groups_go(choose, name):
    machines, graph, want = CASES[name]
    on, us = choose(machines, *graph)
    assert on == want, us
    assert us[-1] <= min(us[:-1]) + 1e-9


def test_a_group_in_the_middle_does_not_bounce(choose):
    """It is cheap, and would be a little sooner on the host: two copies are not worth it."""
    loads, values, reads = chain(3, M, 20)
    loads[1] = (0, 0, 0, BOTH)
    assert choose(["processor", "large gpu"], loads, values, reads)[0] == [1, 1, 1]


def test_independent_groups_share_two_devices(choose):
    """One whose array is there, one whose array is not, and what joins both by a few elements."""
    loads = [(8 * M, M, 8 * M, BOTH), (64 * M, 16 * M, 0, BOTH), (100, 10, 0, BOTH)]
    values = [(4 * M, -1, GPU, 0), (64 * M, -1, HOST, 0), (40, 0, 0, 0), (40, 1, 0, 0), (40, 2, 0, 0)]
    on, us = choose(["processor", "far gpu"], loads, values, [[0], [1], [2, 3]])
    assert on[:2] == [1, 0] and us[-1] < min(us[:-1])
    assert choose(["processor", "far gpu"], loads, values, [[0], [1], [2, 3]], together=True)[0] in ([0] * 3, [1] * 3)


def test_together_means_together(choose):
    """A graph of one part with a group that may not go stays as a whole."""
    loads, values, reads = chain(3, M, 20, GPU)
    loads[2] = (*loads[2][:3], HOST)
    assert choose(["processor", "large gpu"], loads, values, reads)[0] == [1, 1, 0]
    assert choose(["processor", "large gpu"], loads, values, reads, together=True)[0] == [0, 0, 0]


def test_an_array_is_copied_once(choose):
    loads = [(8 * M, 0, 20 * M, BOTH)] * 5
    values = [(4 * M, -1, HOST, 0)] + [(4, k, 0, 0) for k in range(5)]
    on, us = choose(["processor", "large gpu"], loads, values, [[0]] * 5)
    launch, _, _, _, costly, copy_us, copy_gbs = MACHINES["large gpu"]
    assert on == [1] * 5
    assert us[1] == pytest.approx(copy_us + 4 * M / copy_gbs / 1000 + 5 * (launch + 20 * M / costly / 1000))


# ---- on the driver that needs no GPU --------------------------------------------------------------------------------------------

# An element of 8 bytes takes 1 ns to copy, 2 ns or more to be computed here and next to nothing there, where a kernel takes 8 us.
SLOW_HOST = "host_byte_ps=250, host_gbs=4, host_most_gbs=4, alone_below_ns=1000, gpu_launch_us=8, gpu_copy_us=15, gpu_copy_gbs=8, gpu_gbs=400, gpu_gops=4000"
ALL_GOES = "host_byte_ps=100000, gpu_launch_us=0, gpu_copy_us=0, gpu_copy_gbs=100000, gpu_gbs=1000000, gpu_gops=10000000"
# Neither is much faster, and copies cost something: graphs come apart.
TORN = "host_byte_ps=100, host_gbs=1, host_most_gbs=1, gpu_launch_us=1, gpu_copy_us=1, gpu_copy_gbs=1, gpu_gbs=100, gpu_gops=200"

HEAD = test_devices.HEAD + """
def copies(): return [frit.device("cuda").memory()[name] for name in ("n_copies_in", "n_copies_out")]
def ways(): s = frit.stats(); return {k: s[k] for k in ("placed", "parted", "weighed", "products", "plans", "replayed")}
class went:
    def __enter__(self): self.was = [*copies(), fake_gpu.counts()["n_launches"]]; return self
    def __exit__(self, *e): self.is_ = [n - m for n, m in zip([*copies(), fake_gpu.counts()["n_launches"]], self.was)]
def heavy(x, n=12):
    for _ in range(n): x = frit.exp(-x)
    return x
def host_heavy(x, n=12):
    with frit.device("cpu"): return np.asarray(heavy(frit.asarray(np.array(x)), n))
a = np.random.default_rng(0).normal(size=4096)
auto = frit.device("auto")
"""


def said(code, **env):
    return test_gpu.said(HEAD + code, **{"FRIT_DEVICE": "cpu", "FRIT_NUM_THREADS": "1", "FRIT_TUNE": SLOW_HOST, **env})


def test_names():
    out = said("""
x = frit.zeros(3, device="auto")
f = frit.accelerate(heavy, device="auto")
say([repr(auto), auto == "auto", x.device, frit.zeros(3).device, str(frit.device()), frit.devices(), error(frit.device, "automatic"), error(frit.zeros, 3, device="auto:0"),
     pickle.loads(pickle.dumps(frit.accelerate(len, device="auto")))._state.options["device"], frit.zeros(2).to_device("auto").device, list_of(x)])
""")
    assert out[:6] == ["frit.device('auto')", True, "auto", "cpu", "cpu", ["cpu", "cuda:0", "cuda:1"]]
    assert all(e[0] == "ValueError" and "Device not understood" in e[1] for e in out[6:8]) and out[8:] == ["auto", "cpu", [0, 0, 0]]
    assert said("say([str(frit.device()), (frit.zeros(3) + 1).device])", FRIT_DEVICE="auto") == ["auto", "auto"]


@pytest.mark.parametrize("env", [{}, {"FRIT_DEVICE": "auto"}], ids=["named", "FRIT_DEVICE"])
def test_without_a_gpu_it_is_the_processor(env):
    """No driver, or one whose device does not open: nothing is said, and nothing is as it would not be."""
    code = """
import warnings; warnings.simplefilter("error")
t = heavy(frit.asarray(a, device="auto"))
f = frit.accelerate(heavy, device="auto")
with auto: made = frit.zeros(3).device
say([str(auto), t.device, made, frit.asarray(a, device="auto").device, np.asarray(t).tobytes() == host_heavy(a).tobytes(),
     f(a).tobytes() == host_heavy(a).tobytes(), sum(ways()[k] for k in ("placed", "parted", "weighed")), frit.show_config(file=open(os.devnull, "w"))])
"""
    want = ["cpu", "cpu", "cpu", "cpu", True, True, 0, None]
    assert said(code.replace("def copies", "#"), FRIT_CUDA_LIB="/nowhere/libcuda.so", **env) == want
    closed = """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"]); lib.fake_cuda_fail.argtypes = [ctypes.c_uint64]
"""
    head = HEAD.replace('auto = frit.device("auto")', closed + 'lib.fake_cuda_fail(6); auto = frit.device("auto"); lib.fake_cuda_fail(0)')
    out = test_gpu.said(head + "say([str(auto)])", **{"FRIT_DEVICE": "cpu", "FRIT_TUNE": SLOW_HOST, **env})
    assert out in (["cpu"], ["auto"])      # (the second device may open)


def test_importing_opens_nothing():
    assert said("say(fake_gpu.counts()['n_contexts'])".replace("\n", ""), FRIT_DEVICE="auto") == 1     # HEAD has asked for it
    done = test_gpu.child("say([fake_gpu.counts()['n_calls'], float(frit.ones(5).sum()), fake_gpu.counts()['n_contexts']])", FRIT_DEVICE="auto")
    assert done.returncode == 0 and json.loads(done.stdout) == [0, 5.0, 0], done.stderr


def test_where_work_goes():
    """Small work and cheap work on the host's arrays stay, heavy work goes, and what is there is worked on there."""
    out = said("""
def run(f):
    with went() as w: t = f(); t.eval()
    return [*w.is_, t.device]
with auto:
    t = frit.asarray(np.array(a)); small = frit.asarray(np.ones(10)); shown = heavy(frit.asarray(np.array(a)))
    pending = heavy(t)
    out = {"pending": pending.device, "small": run(lambda: heavy(small)), "cheap and shown": None, "heavy": run(lambda: pending),
           "cheap on what is there": run(lambda: t + 1), "of a result": run(lambda: pending * 2 - 1), "a sum": run(lambda: pending.sum()),
           "small again": run(lambda: small + 1)}
    u = frit.asarray(np.array(a))
    with went() as w: v = np.asarray(u + 1)
    out["cheap and shown"] = w.is_
    assert v.tobytes() == (a + 1).tobytes() and np.asarray(pending).tobytes() == host_heavy(a).tobytes()
say(out)
""")
    assert out == {"pending": "auto", "small": [0, 0, 0, "cpu"], "cheap and shown": [0, 0, 0], "heavy": [1, 0, 1, "cuda:0"],
                   "cheap on what is there": [0, 0, 1, "cuda:0"], "of a result": [0, 0, 1, "cuda:0"], "a sum": [0, 0, out["a sum"][2], "cuda:0"],
                   "small again": [0, 0, 0, "cpu"]} and out["a sum"][2] >= 1


def test_a_graph_is_weighed_once():
    out = said("""
with auto:
    out = []
    for k in range(5):
        t = frit.asarray(np.array(a))
        with went() as w: heavy(t).eval()
        out.append([w.is_, ways()["weighed"], ways()["plans"]])
    t.eval(); heavy(t).eval()
    out.append([ways()["weighed"], ways()["placed"]])
say(out)
""")
    assert out == [[[1, 0, 1], 1, 1]] * 5 + [[2, 6]]     # (once more where the leaf is there)


def test_a_chain_does_not_bounce():
    """Between groups that go nothing comes back, whatever is between them."""
    out = said("""
with auto:
    t = frit.asarray(np.array(a).reshape(64, 64))
    x = heavy(t)
    x = x - x.max(1, keepdims=True)
    for _ in range(3): x = heavy(x / frit.cumsum(x, 1).max(0), 4)
    with went() as w: x.eval()
say([w.is_[:2], w.is_[2] > 3, x.device, ways()["parted"]])
""")
    assert out == [[1, 0], True, "cuda:0", 0]


def test_parts():
    """A product of floats has BLAS's bits on the host: what is heavy before and behind it goes, in parts of one evaluation."""
    out = said("""
b = a.reshape(64, 64)
def f(t): return heavy(heavy(t) @ t.T)
with auto:
    results = []
    for k in range(3):
        with went() as w: t = f(frit.asarray(np.array(b))); t.eval()
        results.append([w.is_, t.device, np.asarray(t).tobytes() == np.asarray(f(frit.asarray(b, device="cpu"))).tobytes()])
    text = str(f(frit.asarray(b)).explain())
say([results, ways(), text])
""")
    assert out[0] == [[[2, 2, 2], "cuda:0", True]] * 3, out     # (t goes, and comes back for the product with what is computed of it)
    assert out[1]["parted"] == 3 and out[1]["placed"] == 6 and out[1]["products"] == 6 and out[1]["weighed"] == 1, out
    assert "on cuda:0: negative exp" in out[2] and "on cpu: matmul" in out[2] and "whose bits it has" in out[2] and "in these 3 parts" in out[2]


def test_bits_do_not_depend_on_estimates():
    """What a GPU sums as a tree, and its products, stay on the host; with FRIT_OFF=device_trees such sums may go."""
    code = """
b = np.random.default_rng(1).normal(size=(6000, 3))
out = []
with auto:
    t = heavy(frit.asarray(b)); t.eval()
    here = frit.asarray(np.array(t), device="cpu")
    for f in (lambda t: t.sum(0), lambda t: heavy(t).prod(0), lambda t: t.mean(0), lambda t: t.sum(), lambda t: t.sum(1), lambda t: t.max(0), lambda t: t.argmin(0),
              lambda t: (t.astype("i8") * 3).sum(0), lambda t: (t * 2 + 1).T.sum(1), lambda t: heavy(t).T @ t, lambda t: frit.einsum("ij,ik->jk", t, t),
              lambda t: t.reshape(1000, 6, 3).sum((0, 1)), lambda t: t.reshape(1000, 6, 3).sum((0, 2)), lambda t: t.astype("c16").sum(0), lambda t: t.var(0)):
        g = f(t); g.eval()
        out.append([np.asarray(g).tobytes() == np.asarray(f(here)).tobytes()])
s = frit.stats()
say([all(ok for ok, in out), s["device_trees"], s["device_blas"], s["device_products"], s["placed"] > 5, t.device])
"""
    want = [True, 0, 0, 0, True]
    assert said(code, FRIT_TUNE=ALL_GOES)[:5] == want
    assert said(code, FRIT_TUNE=ALL_GOES, FRIT_OFF="device_trees")[:5] == want


def test_placed_tensors_stay_and_mix():
    out = said("""
there, here = frit.asarray(np.array(a), device="cuda"), frit.asarray(np.array(a), device="cpu")
pending = there * 2 + 1
mixed = heavy(frit.asarray(np.array(a), device="auto")) + pending + here
y = frit.zeros(4096, device="cpu"); z = frit.zeros((2, 4096), device="cuda:1")
y += mixed; z[1] = mixed; frit.add(mixed, 1, out=z[0])
want = host_heavy(a) + (a * 2 + 1) + a
same = [np.asarray(t).tobytes() == w.tobytes() for t, w in ((mixed, want), (y, want), (z[1], want), (z[0], want + 1), (pending, a * 2 + 1))]
say([same, [t.device for t in (there, here, pending, y, z)], (here + there.to_device("auto")).device, error(lambda: here + there)[0],
     frit.concatenate([frit.asarray(a, device="auto"), there]).shape, frit.where(mixed > 0, there, here).shape,
     there.to_device("auto").device, frit.asarray(there, device="auto").device, mixed.to_device("cuda:1").device])
""")
    assert out == [[True] * 5, ["cuda:0", "cpu", "cuda:0", "cpu", "cuda:1"], "auto", "ValueError", [8192], [4096], "cuda:0", "cuda:0", "cuda:1"]


def test_what_lies_on_another_gpu_is_computed_there():
    out = said("""
x = frit.asarray(np.array(a), device="cuda:1") * 1
x.eval()
x = x.to_device("auto")
y, z = heavy(x), frit.asarray(np.array(a), device="auto") + 1
where = [x.device]
y.eval()
with went() as w: heavy(y + z).eval()
say([where, y.device, np.asarray(y).tobytes() == host_heavy(a).tobytes(), w.is_])
""")
    assert out == [["cuda:1"], "cuda:1", True, [0, 0, 1]]


def test_a_machine_that_estimates_use_places_nothing():
    out = said("""
from frit import _machine
n = 1 << 20
def texts():
    with auto: return [str(heavy(frit.asarray(np.zeros(k)), 2).explain()) for k in (n, 100)]
before = texts()
assert "us on cuda:0" in before[0]
_machine.use({"levels": [1e6] * 4, "all_levels": [1e6] * 4, "kind_ps": [1e-9] * 12, "call_us": [0, 0, 0], "figures": [0] * 8 + [1, 0],
              "product_gops": [1e6] * 2, "all_product_gops": [1e6] * 2})
say([before == texts()])
""")
    assert out == [True]


def test_figures_are_the_drivers():
    """Four multiprocessors at 1 GHz, memory of 4096 bits at 1 GHz and an f64 for two f32, unless FRIT_TUNE says otherwise."""
    code = """
import re
n = 1 << 20
with auto:
    texts = [str(t.explain()) for t in (frit.asarray(np.zeros(n, "f4")) + 1, heavy(frit.asarray(np.zeros(n, "f4"))), heavy(frit.asarray(np.zeros(n))))]
say([float(re.search("([0-9.]+) us on cuda:0", t)[1]) for t in texts])
"""
    def us(bytes_, exps, plain, wide, gbs=1024, gops=512):
        return 8 + max(bytes_ / gbs, wide * (exps * 10 + plain) / gops) / 1000
    n = 1 << 20
    tune = SLOW_HOST.replace(", gpu_gbs=400, gpu_gops=4000", "")
    assert said(code, FRIT_TUNE=tune) == pytest.approx([us(8 * n, 0, n, 1), us(8 * n, 12 * n, 12 * n, 1), us(16 * n, 12 * n, 12 * n, 2)], abs=0.06)
    assert said(code)[0] == pytest.approx(us(8 * n, 0, n, 1, 400, 4000), abs=0.06)


@pytest.mark.parametrize("tune", [ALL_GOES, TORN], ids=["all goes", "torn"])
@pytest.mark.parametrize("eager", ["0", "16384"])
def test_functions_have_the_same_bits(tune, eager):
    out = said(test_devices.FUNCTIONS + """
warnings.simplefilter("ignore")
a = np.random.default_rng(0).normal(size=(4, 4))
first = lambda r: r[0] if isinstance(r, (list, tuple)) else r
wrong = {}
for name, f in functions.items():
    here, there = first(f(frit.asarray(a))), first(f(frit.asarray(a, device="auto")))
    c, g = np.asarray(here), np.asarray(there)
    if c.dtype != g.dtype or c.shape != g.shape or c.tobytes() != g.tobytes(): wrong[name] = there.device
say([wrong, ways()["placed"]])
""", FRIT_TUNE=tune, FRIT_EAGER_ELEMS=eager)
    assert out[0] == {} and (out[1] > 20 or tune is TORN), out


def test_accelerated_functions():
    """What they are given and give is NumPy's: heavy calls go and come back, light ones stay, and repeats are replays of either."""
    out = said("""
@frit.accelerate(device="auto")
def large(x):
    for _ in range(12): x = np.exp(-x)
    return x
@frit.accelerate(device="auto")
def light(x): return x * 2 + 1
@frit.accelerate(device="auto")
def stores(x, y):
    for _ in range(12): y[:] = np.exp(-y)
    return (x + y).sum()
@frit.accelerate(device="auto")
def loop(x):
    s = 0.0
    for i in range(len(x)): s = s * 0.5 + x[i]
    return s
out = []
for k in range(8):
    with went() as w: r = large(a)
    with went() as v: q = light(a)
    y = a.copy()
    with went() as u: s = stores(a, y)
    want = host_heavy(a)
    out.append([type(r) is np.ndarray and r.tobytes() == want.tobytes(), q.tobytes() == (a * 2 + 1).tobytes(), y.tobytes() == want.tobytes(), bool(s == (a + want).sum()),
                w.is_, v.is_, u.is_[2] > 0])
s = 0.0
for v in a: s = s * 0.5 + v
say([out, ways()["replayed"] > 4, bool(loop(a) == s)])
""")
    assert out == [[[True, True, True, True, [1, 1, 1], [0, 0, 0], True]] * 8, True, True]


def test_stores_into_memory_of_others():
    """A graph that writes what NumPy sees is one part, wherever that runs; who reads it as it was is computed before."""
    for tune in (SLOW_HOST, ALL_GOES, TORN):
        assert said("""
b = np.array(a)
with auto:
    t = frit.asarray(b, copy=False)
    old = heavy(t)
    new = heavy(t * 2)
    t[:2048] = new[:2048]
    product = t.reshape(64, 64) @ t.reshape(64, 64)
    t += 1
frit.eval(t, product, old)
want = a.copy(); want[:2048] = host_heavy(a * 2)[:2048]
ok = np.asarray(product).tobytes() == (want.reshape(64, 64) @ want.reshape(64, 64)).tobytes()
say([np.asarray(old).tobytes() == host_heavy(a).tobytes(), ok, b.tobytes() == (want + 1).tobytes()])
""", FRIT_TUNE=tune) == [True] * 3


def test_errors_of_arithmetic_are_raised():
    """A GPU raises none: where one is an error, the host computes."""
    assert said("""
with auto, np.errstate(all="raise"):
    e = error(lambda: heavy(frit.asarray(a), 12) / 0)
    with went() as w: heavy(frit.asarray(a), 12).eval()
say([e[0], w.is_])
""", FRIT_TUNE=ALL_GOES) == ["FloatingPointError", [0, 0, 0]]


def test_others_take_its_memory():
    """DLPack and NumPy's interface find it where it is."""
    assert said("""
with auto: t, u = heavy(frit.asarray(np.array(a))), frit.ones(3) + 1
say([t.__dlpack_device__(), hasattr(t, "__cuda_array_interface__"), u.__dlpack_device__(), hasattr(u, "__cuda_array_interface__"),
     np.from_dlpack(u).tolist(), np.asarray(t).tobytes() == host_heavy(a).tobytes(), t.device, t.__dlpack_device__()])
""") == [[2, 0], True, [1, 0], False, [2, 2, 2], True, "cuda:0", [2, 0]]


def test_threads():
    """Blocks are of their thread, and a tensor is used by several while it is computed."""
    assert said("""
import threading
with auto: shared = heavy(frit.asarray(np.array(a)))
wrong = []
def work(k):
    for i in range(6):
        with frit.device(("auto", "cpu", "cuda")[(k + i) % 3]): x = frit.asarray(np.array(a)) * (k + i + 1) + shared
        if np.asarray(heavy(x)).tobytes() != host_heavy(a * (k + i + 1) + want).tobytes(): wrong.append((k, i))
want = host_heavy(a)
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
say(wrong)
""") == []


# ---- what fails -----------------------------------------------------------------------------------------------------------------

def test_memory_of_the_gpu_runs_out():
    """Then the host computes; other things go on there."""
    assert said("""
with auto:
    x = frit.asarray(np.arange(1 << 17) / 1e6)
    large = [heavy(x * float(k), 2) for k in range(1, 9)]
    frit.eval(large)
    small = heavy(frit.asarray(np.array(a))); small.eval()
want = np.asarray(heavy(frit.asarray(np.arange(1 << 17) / 1e6, device="cpu") * 3.0, 2))
say([np.asarray(large[2]).tobytes() == want.tobytes(), set(t.device for t in large) <= set(["cpu", "cuda:0"]), np.asarray(small).tobytes() == host_heavy(a).tobytes()])
""", FAKE_CUDA_MB="4") == [True] * 3


def test_the_nth_call_of_the_driver_fails():
    """Each one in turn, in a process that has not used it: the host does what the GPU can not, or an error names CUDA where bytes are
    lost there; what is the host's is whole."""
    out = test_gpu.said(HEAD.replace('auto = frit.device("auto")', "") + """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"]); lib.fake_cuda_fail.argtypes = [ctypes.c_uint64]
b = a.reshape(64, 64)
def work():
    kept = np.array(b)
    with frit.device("auto"):
        t = frit.asarray(kept, copy=False)
        x = heavy(heavy(t) @ t.T)
        r = np.asarray(x).copy()
    return r, kept
with frit.device("cpu"): want = np.asarray(heavy(heavy(frit.asarray(b)) @ frit.asarray(b).T)).copy()
def child(n):
    read, write = os.pipe()
    if not (pid := os.fork()):
        try:
            sys.stderr = open(os.devnull, "w"); os.dup2(sys.stderr.fileno(), 2)
            before = fake_gpu.counts()["n_calls"]
            lib.fake_cuda_fail(n)
            try: r, kept = work(); answer = ["ok" if r.tobytes() == want.tobytes() and kept.tobytes() == b.tobytes() else "bits"]
            except Exception as e: answer = [type(e).__name__, str(e)]
            lib.fake_cuda_fail(0)
            r, kept = work()
            answer += [r.tobytes() == want.tobytes(), fake_gpu.counts()["n_calls"] - before]
            os.write(write, json.dumps(answer).encode())
        finally: os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(os.read(read, 5000))
n, found = 0, []
while True:
    n += 1
    found.append(child(n))
    if found[-1][-1] < n or n > 400: break
say(found)
""", FRIT_DEVICE="cpu", FRIT_NUM_THREADS="1", FRIT_TUNE=SLOW_HOST)
    assert 40 < len(found := out) < 400
    for k, (kind, *rest) in enumerate(found):
        assert kind in ("ok", "RuntimeError") and rest[-2] is True and (kind == "ok" or "CUDA" in rest[0]), (k, kind, rest)
    assert sum(kind == "ok" for kind, *_ in found) > 0.8 * len(found)


def test_a_child_computes_on_the_host():
    assert said("""
with auto: x = heavy(frit.asarray(np.array(a))); x.eval(); kept = heavy(frit.asarray(np.array(a)))
read, write = os.pipe()
if not (pid := os.fork()):
    with auto: t = heavy(frit.asarray(np.array(a)))
    os.write(write, json.dumps([np.asarray(t).tobytes() == host_heavy(a).tobytes(), t.device, error(np.asarray, x)[0],
                                np.asarray(kept).tobytes() == host_heavy(a).tobytes()]).encode())
    os._exit(0)
os.waitpid(pid, 0)
say([json.loads(os.read(read, 5000)), x.device])
""") == [[True, "cpu", "RuntimeError", True], "cuda:0"]


def test_without_a_compiler_the_host_computes():
    """Said once; from then on it is not tried."""
    done = test_gpu.child(HEAD + """
with auto: same = [np.asarray(heavy(frit.asarray(np.array(a)))).tobytes() == host_heavy(a).tobytes() for _ in range(3)]
say([same, str(frit.device("auto")), fake_gpu.counts()["n_launches"]])
""", FRIT_DEVICE="cpu", FRIT_NUM_THREADS="1", FRIT_TUNE=SLOW_HOST, FRIT_NVRTC_LIB="/nowhere/libnvrtc.so", FRIT_CACHE="0")
    assert done.returncode == 0 and json.loads(done.stdout) == [[True] * 3, "cpu", 0], done.stderr
    assert done.stderr.count("is the processor from here on") == 1


def test_nothing_is_left():
    assert said("""
def use():
    with auto:
        t = frit.asarray(np.array(a).reshape(64, 64))
        x = heavy(heavy(t) @ t.T)
        return float(x.sum()), float(heavy(t + 1)[3, 4])
use(); live = _core.alloc_live()
out = [use() for _ in range(4)]
gc.collect(); frit.synchronize()
say([out[0] == out[3], frit.device("cuda").memory()["live_bytes"], fake_gpu.counts()["n_blocks_live"], _core.alloc_live() <= live + 40])
""") == [True, 0, 0, True]


# ---- random programs ------------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("tune", [ALL_GOES, TORN], ids=["all goes", "torn"])
def test_random_programs(tune):
    from . import fake_gpu
    env = {**os.environ, **fake_gpu.environment(), "FRIT_DEVICE": "auto", "FRIT_TUNE": tune, "FRIT_NUM_THREADS": "1", "FRIT_VERIFY": "1", "FRIT_EAGER_ELEMS": "0"}
    for more in (["--seeds", "0:12"], ["--functions", "--seeds", "0:25"]):
        done = subprocess.run([sys.executable, "-m", "tests.fuzz", "--no-shrink", *more], env=env, capture_output=True, text=True)
        assert done.returncode == 0 and " 0 failed" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]


def test_a_call_is_explained_where_it_computes():
    """By device= of the function that is explained, and by what was weighed, with the totals of stats."""
    out = said("""
def f(x):
    if heavy(x).sum() > 0: x = heavy(x)
    return x + 1
def explained(device):
    b, e = frit.stats(), frit.explain(frit.accelerate(f, device=device))(a)
    d, n = e.as_dict(), frit.stats()
    return [str(e), [p["device"] for p in d["plans"]], d["kernels"] == n["kernels"] - b["kernels"], sum(d["syncs"].values())]
say([explained("cuda"), explained("auto"), explained("cpu")])
""")
    for (text, devices, same, syncs), want in zip(out, ({"cuda:0"}, {"cuda:0"}, {"cpu"}), strict=True):
        assert set(devices) == want and same and syncs == 1, text
    assert "us on cuda:0" in out[1][0] and "us on cuda:0" not in out[0][0]
