"""Plans as CUDA graphs (csrc/backends/cuda/graph.c), and the scratch of their launches, on the driver of tests/cuda/."""
import pytest

from . import test_gpu

HEAD = """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"])
rng = np.random.default_rng(0)
def draw(*shape): return rng.normal(size=shape).astype("f4")
def hexed(*arrays): return [np.asarray(a).tobytes().hex() for a in arrays]
def graphs(): now = fake_gpu.counts(); return now["n_graph_launches"], now["n_executables"]
"""


def said(code, **env):
    return test_gpu.said(HEAD + code, **env)


CHAIN = """
x, w = frit.asarray(draw(60, 40)), frit.asarray(draw(40))
out, found = [], []
for i in range(8):
    e = frit.exp((x - x.max(1, keepdims=True)) * np.float32(0.5 + i)); p = e / e.sum(1, keepdims=True)
    s = p.sum(0) + w; t = frit.cumsum(s); u = t * np.float32(i) + x[3]
    before = fake_gpu.counts()
    frit.eval(p, s, u)
    now = fake_gpu.counts()
    found.append([now["n_launches"] - before["n_launches"], *graphs()])
    out += hexed(p, s, u)
"""


def test_what_runs_again_is_one_graph():
    """Numbers and, in this driver, all addresses change in each run: kernels get other arguments, and no other graph is made."""
    found, ways, out = said(CHAIN + 'say([found, _core.stats()["n_device_graphs"], out])')
    launches = found[0][0]
    assert launches >= 3 and all(f[0] == launches for f in found)
    assert [f[1:] for f in found] == [[max(i - 0, 0), min(i, 1)] for i in range(8)] and ways == 7
    off = said(CHAIN + 'say([found, _core.stats()["n_device_graphs"], out])', FRIT_OFF="device_graphs")
    assert off[2] == out and off[1] == 0 and {tuple(f[1:]) for f in off[0]} == {(0, 0)}
    assert said(CHAIN + "say(out)", FRIT_DEVICE="cpu", FRIT_CUDA_LIB=test_gpu.fake_gpu.library()) == out


TRAINING = """
x, y, w1, w2 = (frit.asarray(draw(*s)) for s in ((32, 20), (32, 5), (20, 16), (16, 5)))
out, found = [], []
for i in range(N):
    h = frit.maximum(x @ w1, 0); d = (h @ w2 - y) / 32
    g2 = h.T @ d; g1 = x.T @ ((d @ w2.T) * (h > 0))
    w1 = w1 - np.float32(0.1 / (i + 1)) * g1; w2 = w2 - np.float32(0.1) * g2
    calls = fake_gpu.products()["n_gemms"]
    frit.eval(w1, w2)
    found.append([fake_gpu.products()["n_gemms"] - calls, *graphs()])
    out += hexed(w1, w2)
"""


def test_a_training_step_with_products_is_one_graph():
    """Memory comes back after some turns; a graph is kept for each of its places, and cuBLAS is called no more."""
    code = "lib.fake_cuda_reuse(1); N = 16\n" + TRAINING
    found, out = said(code + "say([found, out])")
    assert [f[0] for f in found[:2]] == [5, 5] and [f[0] for f in found[-6:]] == [0] * 6
    assert found[-1][2] == found[-7][2] <= 4 and found[-1][1] - found[-7][1] == 6
    assert said(code + "say(out)", FRIT_OFF="device_graphs") == out


def test_products_whose_memory_never_comes_back():
    """Each run would have to be recorded anew, which is given up."""
    code = "N = 40\n" + TRAINING
    found, out = said(code + "say([found, out])")
    assert 10 < found[-1][1] < 30 and found[-1][1] == found[-8][1] and max(f[2] for f in found) <= 4
    assert said(code + "say(out)", FRIT_OFF="device_graphs") == out


def test_a_loop_of_accelerated_calls_stays_there():
    """Whose results are tensors: each call is one graph, and nothing is copied."""
    found, same = said("""
class Net:
    def __init__(self): self.w, self.m = [draw(20, 16) * np.float32(0.1), draw(16, 4) * np.float32(0.1)], [np.zeros((20, 16), "f4"), np.zeros((16, 4), "f4")]
    def step(self, x, y, lr):
        h = np.maximum(x @ self.w[0], 0); d = (h @ self.w[1] - y) / np.float32(len(x))
        g = [x.T @ ((d @ self.w[1].T) * (h > 0)), h.T @ d]
        for k in range(2):
            self.m[k] = np.float32(0.9) * self.m[k] + g[k]; self.w[k] = self.w[k] - lr * self.m[k]
        return (d * d).sum()
class There(Net): step = frit.accelerate(device="cuda", results="tensors")(Net.step)
lib.fake_cuda_reuse(1)
host, there = Net(), There()
there.w = [w.copy() for w in host.w]
x, y = draw(64, 20), draw(64, 4); tx, ty = frit.asarray(x, device="cuda"), frit.asarray(y, device="cuda"); found = []
for i in range(10):
    before = _core.stats(), graphs()[0]
    loss = there.step(tx, ty, np.float32(0.1)); now = _core.stats()
    want = host.step(x, y, np.float32(0.1))
    found.append([now[k] - before[0][k] for k in ("n_copies_in", "n_copies_out")] + [graphs()[0] - before[1]])
say([found[-4:], bool(np.allclose(np.asarray(there.w[0]), host.w[0], rtol=1e-4)) and bool(np.allclose(loss, want, rtol=1e-4))])
""")
    assert found == [[0, 0, 1]] * 4 and same


def test_a_short_plan_is_begun_as_it_is():
    assert said("""
x = frit.asarray(draw(100))
for _ in range(5): frit.eval(x * 2 + 1)
say(graphs())
""") == [0, 0]


def test_many_tensors_and_large_arguments():
    """Tables of arguments that lie on the device stay there, and are filled anew where they have changed."""
    code = """
shapes = [(3, 5), (40,), (7, 11), (128,), (1000,), (2, 2, 9)]
p, m = [[frit.asarray(draw(*s)) for s in shapes] for _ in range(2)]
rows = frit.asarray(draw(30, 50)); x = [frit.asarray(draw(400)) for _ in range(60)]
def step(i):
    for k in range(len(p)):
        m[k] = m[k] * np.float32(0.9) + p[k] * np.float32(0.1 / (i + 1)); p[k] = p[k] - m[k] * np.float32(0.01)
    s = x[0]
    for k in range(1, 60): s = s * np.float32(1 + i / 7) + x[k]
    q = rows - rows.mean(1, keepdims=True)
    return [*p, *m, s, q, (q * q).sum(0)]
out = []
for i in range(6):
    before = fake_gpu.counts(); r = step(i); frit.eval(*r)
    out += hexed(*r)
launches = fake_gpu.counts()["n_launches"] - before["n_launches"]
"""
    launches, found, out = said(code + "say([launches, graphs(), out])")
    assert launches <= 6 and found == [5, 1]
    assert said(code + "say(out)", FRIT_OFF="device_graphs") == out


def test_addresses_that_want_another_form():
    """Vectors are not aligned any more: another kernel, and another graph."""
    code = """
big = frit.asarray(draw(4099)); out = []
for i in [0, 0, 0, 1, 0, 2, 4, 4, 8, 1, 1]:
    x = big[i:i + 4000].copy() if i == 99 else big[i:i + 4000]
    a = frit.sqrt(frit.abs(x)); s = a.sum(); b = frit.cumsum(a - s); c = b * 2 + x
    frit.eval(a, b, c); out += hexed(a, b, c)
"""
    assert said(code + "say([graphs()[0] > 3, out])") == [True, said(code + "say(out)", FRIT_OFF="device_graphs")]


def test_what_waits_for_the_host_is_not_recorded():
    code = """
import scipy.linalg
x = frit.asarray(draw(6, 6)); out = []
i = np.array([0, 2, 5]); j = np.array([1, -1, 3])
for k in range(5):
    a = x * np.float32(k) + 1; b = a.sum(0); c = frit.cumsum(b)
    d = frit.take(a, frit.asarray(i) if k % 2 else i, axis=0); e = d - c
    t = (a > 1)[None].astype("i8") @ np.ones((6, 2), "i8")
    frit.eval(e, t); out += hexed(e, t)
"""
    assert said(code + "say(out)") == said(code + "say(out)", FRIT_DEVICE="cpu")


@pytest.mark.parametrize("reuse", [0, 1])
def test_the_nth_call_of_the_driver_fails(reuse):
    """While plans are run for the first time, recorded, replayed, recorded again: it is done in another way, or it is an error; then
    all goes on with the right bits, and nothing is left. Each n has a plan of its own."""
    n, wrong, errors, replays, left = said(f"lib.fake_cuda_reuse({reuse})\n" + """
w = [frit.asarray(draw(*s)) for s in ((6, 4), (4, 5))]
def work(m):
    x = frit.asarray(xs[m]); out = []
    for turn in range(4):
        h = frit.maximum(x @ w[0], 0) * np.float32(turn + 1); d = h @ w[1]; g = h.T @ d; b = frit.cumsum(d.sum(0)); c = (h - 1).sum(1)
        frit.eval(g, b, c)
        out.append((g, b, c))
    return hexed(*(a for o in out for a in o))
xs = {m: draw(m, 6) for m in range(3, 420)}
work(3); frit.synchronize()
n, wrong, errors = 0, [], 0
while n < 400:
    n += 1
    first = fake_gpu.counts()
    lib.fake_cuda_fail(n)
    try: got = work(n + 3)
    except RuntimeError as e:
        errors += 1
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if fake_gpu.counts()["n_calls"] - first["n_calls"] < n: break
        lib.fake_cuda_fail(0)
        if got != work(n + 3): wrong.append([n, "bits"])
    lib.fake_cuda_fail(0)
lib.fake_cuda_fail(0)
gc.collect(); frit.synchronize()
replays = graphs()[0]
_core._stop()
c = fake_gpu.counts()
say([n, wrong, errors, replays, [c[k] for k in ("n_blocks_live", "n_streams", "n_pools", "n_contexts", "n_graphs", "n_executables")]])
""")
    assert 60 < n < 400 and errors > 30 and wrong == [] and replays > n, (n, errors, wrong, replays)
    assert left[0] <= 2 and left[1:] == [0] * 5, left


def test_the_device_is_lost_in_a_graph():
    name, text, host = said("""
x = frit.asarray(draw(30, 30)); host = draw(30); kept = host.copy()
def f(k): a = x * np.float32(k); b = a.sum(0) + host; c = frit.cumsum(b); d = c - a.sum(1); frit.eval(a, b, c, d); return d
for k in range(4): r = f(k)
np.asarray(r)
lib.fake_cuda_lose(ctypes.c_uint64(2))
def g():
    for k in range(3): np.asarray(f(k))
say([*error(g), bool((host == kept).all())])
""")
    assert name == "RuntimeError" and "CUDA" in text and host


def test_nothing_is_left_at_the_end():
    """Graphs end with the engine; their memory and their stream are given back."""
    assert said("""
x = frit.asarray(draw(300, 30)); w = frit.asarray(draw(30, 4)); m = [frit.asarray(draw(k, 3)) for k in range(1, 9)]
for k in range(5):
    a = x * np.float32(k); b = a.sum(0); c = frit.cumsum(b); d = (a @ w).sum(1); e = [t * 2 + 1 for t in m]; frit.eval(a, b, c, d, *e)
before = graphs()
del x, w, a, b, c, d, e, m
_core._stop()
c = fake_gpu.counts()
say([before[0], *(c[k] for k in ("n_blocks_live", "n_streams", "n_pools", "n_contexts", "n_graphs", "n_executables"))])
""") == [4, 0, 0, 0, 0, 0, 0]


def test_scratch_is_a_part_of_the_plan():
    """One allocation for all temporaries, scratch included, and one for each result; the planned peak is what the device has."""
    n_allocs, n_results, planned, peak, held, ways = said("""
x, y = frit.asarray(draw(3, 60000)), frit.asarray(draw(20000, 6))
def f():
    rows = (x - x.mean(1, keepdims=True)) * x.max(1, keepdims=True)      # of which shared memory does not keep all
    return rows, y.sum(), (y * y).sum(0)
for k in range(3): r = f(); frit.eval(*r); frit.synchronize()
del r
gc.collect(); frit.synchronize()
r = f()
device = frit.device("cuda"); _core.stats_reset()
before, held = _core.stats(), device.memory()
frit.eval(*r)
now, peak = _core.stats(), device.memory()
say([now["n_allocs"] - before["n_allocs"], len(r), now["peak_planned_bytes"], peak, held, now["n_device_graphs"]])
""", FRIT_EAGER_ELEMS="0")
    assert n_allocs == n_results + 1 and ways == 1, (n_allocs, ways)
    more = peak["peak_bytes"] - held["live_bytes"] - planned
    assert 0 <= more < 64 * n_results, (planned, peak, held)      # (each is rounded up to 64 bytes)
