"""What runs on a GPU before NVRTC is done (csrc/runtime/unfused.c), with an NVRTC that has a gate (tests/cuda/nvrtc.c)."""
import pytest

from . import fake_gpu, gpu, test_gpu

HEAD = """
import atexit, time
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"])
rng = np.random.default_rng(0)
def draw(*shape): return rng.normal(size=shape).astype("f4")
def launches(): return fake_gpu.counts()["n_launches"]
def gate():
    out = (ctypes.c_uint64 * 2)(); lib.fake_nvrtc_counts(out); return list(out)
def shut(is_shut=True): lib.fake_nvrtc_shut(is_shut)
atexit.register(shut, False)
def waits_at_gate(n):
    while gate()[0] != n: time.sleep(0.01)
def settle():
    "Until nothing is compiled any more."
    last = None
    while gate() != last or last[0]: last = gate(); time.sleep(0.3)
"""


@pytest.fixture
def said(tmp_path):
    """Runs code in processes that share a cache on disk."""
    def run(code, **env):
        gated = {"FRIT_NVRTC_LIB": fake_gpu.library(), "FAKE_NVRTC_OF": gpu.compiler()._name}
        return test_gpu.said(HEAD + code, **{**gated, "FRIT_CACHE": "1", "FRIT_CACHE_DIR": str(tmp_path / "cache"), "FRIT_EAGER_ELEMS": "65536",
                                             **env})
    return run


SEEN = """
x, y = frit.asarray(draw(40, 30)), frit.asarray(draw(40, 30))
for e in x * y, frit.exp(x), x + y, x.sum(1): frit.eval(e)
settle()
"""

NEW = """
x, y = frit.asarray(draw(40, 30)), frit.asarray(draw(40, 30))
def f(): return (frit.exp(x * y) + x).sum(1)
"""


def test_what_is_new_runs_in_kernels_of_single_operations(said):
    """While the fused kernel is compiled, and never again after that; with the same bits."""
    said(SEEN + "say(0)")
    out, meanwhile, before, after, unfused = said(NEW + """
shut()
n = launches(); a = f(); frit.eval(a); frit.synchronize(); before = launches() - n
waits_at_gate(1)
b = f(); frit.eval(b)
meanwhile = [_core.stats()["n_unfused"], _core.stats()["n_compiled"]]
shut(False); settle()
n = launches(); c = f(); frit.eval(c); frit.synchronize(); after = launches() - n
say([[np.asarray(t).tobytes().hex() for t in (a, b, c)], meanwhile, before, after, _core.stats()["n_unfused"]])
""")
    assert len(set(out)) == 1 and meanwhile == [2, 0] and (before, after, unfused) == (4, 1, 2)
    assert said(NEW + "say(np.asarray(f()).tobytes().hex())", FRIT_EAGER_ELEMS="0") == out[0]


def test_a_machine_gets_kernels_of_single_operations_behind_what_is_wanted(said):
    """Where there are none yet, the fused one is waited for; they come afterwards, also if their plan is gone, for others to find."""
    first, later = said(NEW + """
a = f(); frit.eval(a); frit.synchronize()
first = [launches(), _core.stats()["n_unfused"], _core.stats()["n_compiled"]]
frit.eval(f()); settle()
say([first, _core.stats()["n_compiled"]])
""")
    assert first[:2] == [1, 0] and first[2] >= 1 and later == 5
    assert said(NEW + """
shut()
a = frit.exp(x) * y + y; b = (x + y).sum(1)
frit.eval(a); frit.eval(b); frit.synchronize()
say([launches(), _core.stats()["n_unfused"], _core.stats()["n_compiled"]])
shut(False)
""") == [5, 2, 0]


def test_what_was_asked_for_later_is_hurried_when_it_is_wanted(said):
    """A single operation that is compiled for others is one that somebody waits for now."""
    assert said("""
x, y = frit.asarray(draw(40, 30)), frit.asarray(draw(40, 30))
shut()
import threading
t = threading.Timer(1.0, lambda: shut(False)); t.start()
frit.eval(frit.exp(x * y) + x)       # asks for three, behind the fused one
out = np.asarray(x * y)
t.join(); settle()
say([_core.stats()["n_compiled"], bool((out == np.asarray(x) * np.asarray(y)).all())])
""") == [4, True]


@pytest.mark.parametrize("off", [{"FRIT_TUNE": "gpu_wait_us=0"}, {"FRIT_OFF": "unfused"}, {"FRIT_JIT": "always"}])
def test_what_takes_long_in_single_operations_waits_for_the_fused_kernel(said, off):
    said(SEEN + "say(0)")
    assert said(NEW + "frit.eval(f()); frit.synchronize(); say([launches(), _core.stats()['n_unfused']])", **off) == [1, 0]


def test_memory_that_there_is_not_waits_for_the_fused_kernel(said):
    """Three temporaries of 4 MiB do not go into 8; the fused kernel needs none of them."""
    program = """
x = frit.asarray(np.ones((1024, 1024), "f4"))
def f(): return ((x + x) * x + (x * x - x)).sum(1)
"""
    single_operations(said, program + "frit.eval(f()); say(0)")
    run = program + "frit.eval(f()); frit.synchronize(); say([launches(), _core.stats()['n_unfused'], _core.stats()['n_chunked'], float(f()[0])])"
    assert said(run) == [6, 1, 0, 2048.0]
    assert said(run, FRIT_DEVICE_MB="8") == [1, 0, 0, 2048.0]


def test_an_accelerated_call_is_noted_when_it_has_its_own_kernels(said):
    said(SEEN + "say(0)")
    assert said("""
x, y = draw(40, 30), draw(40, 30)
@frit.accelerate
def f(x, y): return (np.exp(x * y) + x).sum(1)
want = (np.exp(x * y) + x).sum(1)
shut()
out, ways = [f(x, y) for _ in range(4)], [_core.stats()["n_unfused"], _core.stats()["n_replayed"]]
shut(False); settle()
out += [f(x, y) for _ in range(4)]; s = _core.stats()
say([len({np.asarray(o).tobytes() for o in out}), ways, s["n_unfused"], s["n_replayed"] > 0])
""") == [1, [4, 0], 4, True]


def single_operations(said, code):
    """Has the kernels of what a program does one by one in the cache, and nothing else."""
    said(code, FRIT_EAGER_ELEMS="0", FRIT_SKIP="fuse")


def test_windows_numbers_and_stores(said):
    """Whatever changes from run to run of one plan changes in what serves meanwhile."""
    program = """
x = frit.asarray(draw(64, 30)); out = []
for i in range(6):
    w = x[i:i + 8] * np.float32(i) + x[2 * i:2 * i + 8]
    z = frit.exp(w) - w; z[:, ::2] = w[:, ::2] + np.float32(i // 2); x[i] = z[0] * np.float32(0.5)
    frit.eval(z, x); out.append([np.asarray(z).tobytes().hex(), np.asarray(x).tobytes().hex()])
shut(False); say([out, _core.stats()["n_unfused"], _core.stats()["n_compiled"]])
"""
    want = said(program, FRIT_CACHE="0", FRIT_EAGER_ELEMS="0")
    single_operations(said, program)
    out, unfused, compiled = said("shut()\n" + program)
    assert want[1] == 0 and (out, unfused, compiled) == (want[0], 6, 0)


def test_training_while_nothing_is_compiled(said):
    """A step with products, accumulators and arguments that are written over."""
    program = "TYPE = 'f4'\n" + test_gpu.TRAINING.replace("say(", "shut(False); say([_core.stats()['n_unfused'], _core.stats()['n_compiled']] + ")
    want = said(program, FRIT_CACHE="0", FRIT_EAGER_ELEMS="0")
    single_operations(said, program)
    got = said("shut()\n" + program)
    assert got[2:] == want[2:] and got[0] >= 4 and got[1] == 0 == want[0]


def test_calls_that_fail_meanwhile(said):
    """Each call of the driver in turn: an error or the right bits, and nothing is left. Each n has a structure of its own, of the same
    single operations; what can not be done in these waits for its own kernel."""
    program = """
def f(n, xp=frit):
    x = xp.asarray(start[n]); y = x
    for bit in range(8): y = y * x if n >> bit & 1 else y + x
    y[::2] = y[::2] * np.float32(2)
    return (xp.cumsum(y, axis=1) - x).sum(0)
start = [draw(7, 6) for _ in range(400)]
frit.eval(f(5)); frit.eval(f(255)); frit.eval(f(0)); frit.synchronize()
"""
    single_operations(said, program + "say(0)")
    n, errors, wrong, unfused, left = said("shut(2)\n" + program + """
n, errors, wrong = 0, 0, []
while n < 200:
    n += 1
    first = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try: r = f(n); frit.eval(r); r = np.asarray(r)
    except RuntimeError as e:
        errors += 1
        if "CUDA" not in str(e): wrong.append(str(e))
    else:
        done = fake_gpu.counts()["n_calls"] - first < n
        lib.fake_cuda_fail(0)
        if not np.allclose(r, f(n, np), rtol=1e-3, atol=1e-4): wrong.append(n)
        if done: break
    lib.fake_cuda_fail(0)
r = None; gc.collect()
unfused = _core.stats()["n_unfused"]
shut(False); _core._stop(); c = fake_gpu.counts()
say([n, errors, wrong, unfused, [c[k] for k in ("n_blocks_live", "n_streams", "n_pools", "n_contexts")]])
""")
    assert 20 < n < 200 and errors > n / 2 and not wrong and unfused >= n / 2 and left == [0, 0, 0, 0], (n, errors, wrong, unfused)
