"""Devices (frit.device, `device=`, to_device, accelerate(device=)), two of them beside the processor: of the driver of
tests/cuda/, which needs no GPU. Each test is a process of its own."""
import json
import os
import subprocess
import sys

from . import test_gpu

HEAD = test_gpu.HEAD + """
import copy, gc, pickle, threading, warnings
def list_of(t): return np.asarray(t).tolist()
"""
GPU = """
gpu = frit.device("cuda")
def copies(): return [gpu.memory()[name] for name in ("n_copies_in", "n_copies_out")]
"""


def said(code, **env):
    return test_gpu.said(HEAD + GPU + code, **{"FRIT_DEVICE": "cpu", **env})


def test_there_are_devices():
    assert said("""
say([frit.devices(), gpu, gpu == "cuda:0", repr(frit.device("cuda:1")), str(frit.device()), frit.zeros(2).device,
     frit.__array_namespace_info__().devices(), frit.__array_namespace_info__().default_device()])
""") == [["cpu", "cuda:0", "cuda:1"], "cuda:0", True, "frit.device('cuda:1')", "cpu", "cpu", ["cpu", "cuda:0", "cuda:1"], "cpu"]
    assert said('say([str(frit.device()), frit.zeros(2).device, frit.__array_namespace_info__().default_device()])',
                FRIT_DEVICE="cuda:1") == ["cuda:1"] * 3


def test_bad_names_and_devices_that_are_not_there():
    out = said("""
x = frit.ones(3)
say([error(frit.device, "gpu"), error(frit.device, "cuda:99"), error(frit.device, "cuda:1x"), error(frit.device, 7),
     error(frit.device, "cuda:2"), error(frit.zeros, 3, device="cuda:7"), error(x.to_device, None), error(x.to_device, "tpu"),
     error(frit.accelerate, lambda x: x, device="cuda:9"), error(frit.zeros_like, x, device="gpu"), list_of(x)])
""")
    assert [e[0] for e in out[:4]] == ["ValueError"] * 4 and all("Device not understood" in e[1] for e in out[:4])
    assert [e[0] for e in out[4:6]] == ["RuntimeError"] * 2 and "there is no device cuda:2; the last one is cuda:1" in out[4][1]
    assert out[6][0] == "TypeError" and out[7][0] == out[9][0] == "ValueError" and out[8][0] == "RuntimeError"
    assert out[10] == [1, 1, 1]


def test_without_a_driver():
    code = HEAD + """
say([frit.devices(), error(frit.device, "cuda"), error(frit.ones, 3, device="cuda"), error(frit.ones(3).to_device, "cuda"),
     error(frit.accelerate, abs, device="cuda"), list_of(frit.ones(2) + 1)])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "FRIT_DEVICE": "cpu", "FRIT_CUDA_LIB": "/nowhere/libcuda.so"})
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out[0] == ["cpu"] and out[5] == [2, 2]
    assert all(e[0] == "RuntimeError" and "no CUDA driver" in e[1] for e in out[1:5])


def test_import_opens_nothing():
    assert said("""
import subprocess
code = "import frit; frit.ones(3).eval(); print([l for l in open('/proc/self/maps') if 'cuda' in l or 'nvrtc' in l])"
say(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
""") == "[]"


MADE = """
made = {
    "zeros": lambda **k: frit.zeros((2, 3), **k), "ones": lambda **k: frit.ones((2, 3), **k), "empty": lambda **k: frit.empty((2, 3), **k),
    "full": lambda **k: frit.full((2, 3), 7.0, **k), "full of an array": lambda **k: frit.full((2, 3), [1, 2, 3], **k),
    "arange": lambda **k: frit.arange(5, **k), "arange of others": lambda **k: frit.arange(0.5, 5, 0.25, "f4", **k),
    "eye": lambda **k: frit.eye(3, **k), "linspace": lambda **k: frit.linspace(0, 1, 5, **k),
    "asarray of an array": lambda **k: frit.asarray(np.arange(4.0), **k), "asarray of a list": lambda **k: frit.asarray([[1, 2], [3, 4]], **k),
    "asarray of a number": lambda **k: frit.asarray(2.5, **k), "asarray of a tensor": lambda **k: frit.asarray(frit.arange(3) + 1, **k),
    "asarray with an order": lambda **k: frit.asarray(np.arange(6.0).reshape(2, 3), order="F", **k),
    "zeros_like": lambda **k: frit.zeros_like(np.ones(3), **k), "full_like": lambda **k: frit.full_like([1, 2], 3, **k),
    "astype": lambda **k: frit.arange(5).astype("f4", **k), "astype of the same": lambda **k: frit.arange(5).astype("i8", copy=False, **k),
    "random": lambda **k: drawn(**k), "concatenated": lambda **k: frit.concatenate([frit.ones(2, **k), np.ones(2)]),
    "padded": lambda **k: frit.pad(frit.ones(2, **k), 3), "rolled": lambda **k: frit.roll(frit.arange(4, **k), 1),
    "a triangle": lambda **k: frit.tril(frit.ones((3, 3), **k)), "repeated": lambda **k: frit.repeat(frit.arange(2, **k), 0),
    "frequencies": lambda **k: frit.fft.fftfreq(5, **k),
}
def drawn(device=None):
    with frit.device(device): return frit.random.philox(1).uniform(size=3)
"""


def test_where_things_are_made():
    """By `device=`, by the block, and by neither; with the same values."""
    out = said(MADE + """
out = {}
for name, make in made.items():
    here, there = make(), make(device="cuda:1")
    with gpu: block = make()
    same = name == "empty" or list_of(here) == list_of(there) == list_of(block)
    out[name] = [here.device, there.device, block.device, same and here.dtype == there.dtype and here.strides == there.strides]
say(out)
""")
    for name, (here, there, block, same) in out.items():
        assert (here, there, same) == ("cpu", "cuda:1", True), name
        assert block == "cuda:0", name


def test_results_are_where_their_operands_are():
    """NumPy's arrays and numbers go wherever tensors are; of nothing but those, the block says."""
    assert said("""
x = frit.asarray(np.arange(6.0).reshape(2, 3), device="cuda")
y, a, l = frit.ones((2, 3)), np.ones((2, 3)), [1.0, 2.0, 3.0]
out = [(x + 1).device, (2 - x).device, (1 / x).device, (x + a).device, (a + x).device, (x * l).device, frit.exp(x).device, x.sum().device, x[0].device, x.T.device,
       (x > 2).device, frit.concatenate([x, a]).device, (x @ a.T).device, frit.where(x > 1, x, a).device, frit.zeros_like(x).device,
       x.astype("f4").device, x.copy().device, frit.cumsum(x, 1).device, x[x > 2].device, x[:, [0, 2]].device, x.reshape(6).device,
       frit.sort(x).device, (y + a).device, frit.add(a, a).device]
with gpu: out += [frit.add(a, a).device, (y + a).device, frit.sum(a).device]
say(out)
""") == ["cuda:0"] * 21 + ["cuda:0", "cpu", "cpu", "cuda:0", "cpu", "cuda:0"]


FUNCTIONS = r"""
functions = {
    "linalg.inv": lambda x: frit.linalg.inv(x@x.T+3*frit.eye(4, device=x.device)), "svd": lambda x: frit.linalg.svd(x)[1],
    "sort": lambda x: frit.sort(x,0), "argsort": lambda x: frit.argsort(x,1), "median": lambda x: frit.median(x,0),
    "percentile": lambda x: frit.percentile(x,30), "unique": lambda x: frit.unique(frit.round(x)),
    "where1": lambda x: frit.where(x>0)[0], "nonzero": lambda x: frit.nonzero(x>0)[1], "cumsum": lambda x: frit.cumsum(x,0),
    "fft": lambda x: frit.fft.fft(x), "einsum": lambda x: frit.einsum("ij,kj->ik",x,x),
    "tensordot": lambda x: frit.tensordot(x,x.T,1), "outer": lambda x: frit.outer(x[0],x[1]),
    "kron": lambda x: frit.kron(x[:2,:2],x[:2,:2]), "concat": lambda x: frit.concatenate([x,x],1),
    "stack": lambda x: frit.stack([x,x*2]), "split": lambda x: frit.split(x,2)[1], "pad": lambda x: frit.pad(x,1),
    "roll": lambda x: frit.roll(x,1,1), "tile": lambda x: frit.tile(x,(2,1)), "clip": lambda x: frit.clip(x,-1,1),
    "take": lambda x: frit.take(x,[0,2],1), "takealong": lambda x: frit.take_along_axis(x, frit.argsort(x,1),1),
    "diff": lambda x: frit.diff(x), "gradient": lambda x: frit.gradient(x[0]),
    "interp": lambda x: frit.interp(x[0], np.arange(3.), np.arange(3.)), "histogram": lambda x: frit.histogram(x,5)[0],
    "searchsorted": lambda x: frit.searchsorted(frit.sort(x[0]), x[1]), "trace": lambda x: frit.trace(x),
    "det": lambda x: frit.linalg.det(x), "norm": lambda x: frit.linalg.norm(x), "var": lambda x: x.var(0),
    "std": lambda x: x.std(), "mean": lambda x: x.mean(1), "prod": lambda x: x.prod(0), "any": lambda x: (x>1).any(0),
    "argmax": lambda x: x.argmax(1), "ptp": lambda x: frit.ptp(x,0), "mod": lambda x: x % 0.7, "floordiv": lambda x: x//0.3,
    "pow": lambda x: abs(x)**1.5, "ipow": lambda x: x**2, "complex": lambda x: (x+1j*x).conj(),
    "angle": lambda x: frit.angle(x+1j), "bool": lambda x: (x>0)&(x<1), "astype": lambda x: x.astype("i4"),
    "reshape": lambda x: x.reshape(2,-1), "T": lambda x: x.T.copy(), "fancy": lambda x: x[[0,1],[1,2]],
    "fancyset": lambda x: (lambda y: (y.__setitem__(([0,1],[1,2]), 5.0), y)[1])(x.copy()),
    "maskset": lambda x: (lambda y: (y.__setitem__(y>0, 0.0), y)[1])(x.copy()),
    "iadd": lambda x: (lambda y: (y.__iadd__(1), y)[1])(x.copy()),
    "sliceset": lambda x: (lambda y: (y.__setitem__((slice(1),), y[1]), y)[1])(x.copy()), "deepcopy": lambda x: copy.deepcopy(x),
    "nan_to_num": lambda x: frit.nan_to_num(x/0*0), "logsumexp": lambda x: frit.log(frit.exp(x).sum(1)),
    "cov": lambda x: frit.cov(x), "corr": lambda x: frit.corrcoef(x), "meshgrid": lambda x: frit.meshgrid(x[0],x[1])[0],
    "vander": lambda x: frit.vander(x[0]), "apply": lambda x: frit.apply_along_axis(sorted,0,x), "sinc": lambda x: frit.sinc(x),
    "heaviside": lambda x: frit.heaviside(x,0.5), "isclose": lambda x: frit.isclose(x,x),
    "repeat": lambda x: frit.repeat(x,[1,2,3,1],1), "delete": lambda x: frit.delete(x,1,0),
    "insert": lambda x: frit.insert(x,1,0.,0), "flip": lambda x: frit.flip(x,1), "tri": lambda x: frit.tril(x),
    "diag": lambda x: frit.diag(x), "cross": lambda x: frit.cross(x[:, :3],x[:, 1:]),
    "convolve": lambda x: frit.convolve(x[0],x[1]), "add.reduce": lambda x: frit.add.reduce(x,0),
    "max.accumulate": lambda x: frit.maximum.accumulate(x,0),
    "add.at": lambda x: (lambda y: (frit.add.at(y,[0,0],1.0), y)[1])(x.copy()),
    "out": lambda x: (lambda y: frit.exp(x,out=y))(frit.empty_like(x)),
}
"""


def test_functions_answer_there():
    """Ours, composed ones and NumPy's: the values of the processor, on the device of their operand."""
    assert said(FUNCTIONS + """
warnings.simplefilter("ignore")
a = np.random.default_rng(0).normal(size=(4, 4))
first = lambda r: r[0] if isinstance(r, (list, tuple)) else r
wrong = {}
for name, f in functions.items():
    here, there = first(f(frit.asarray(a))), first(f(frit.asarray(a, device="cuda:1")))
    c, g = np.asarray(here), np.asarray(there)
    if there.device != "cuda:1" or c.dtype != g.dtype or c.shape != g.shape or not np.allclose(c, g, rtol=1e-12, equal_nan=True):
        wrong[name] = there.device
say([wrong, len(functions) > 70])
""") == [{}, True]


def test_devices_do_not_mix():
    out = said("""
x, y, z = frit.ones((2, 2), device="cuda"), frit.ones((2, 2)), frit.ones((2, 2), device="cuda:1")
i = frit.asarray([0, 1])
def store(t, v): t[0] = v[0]
def put(t, m): t[m > 0] = 1
def into(t, v): t += v
cases = [lambda: x + y, lambda: y + x, lambda: z - x, lambda: x @ y, lambda: frit.where(x > 0, y, x), lambda: store(x, y), lambda: store(y, x),
         lambda: x[i], lambda: put(x, y), lambda: x[y > 0], lambda: into(x, y), lambda: frit.add(x, x, out=y), lambda: frit.concatenate([x, y]),
         lambda: frit.clip(x, y, z), lambda: frit.maximum(x.astype("f4"), z.astype("i4")), lambda: frit.stack([x, z])]
say([[error(c) for c in cases], list_of(x), list_of(y), list_of(z)])
""")
    for e in out[0]:
        assert e[0] == "ValueError" and "different devices" in e[1] and "cuda:" in e[1], out[0]
    assert "add of tensors on different devices, cuda:0 and cpu" in out[0][0][1]
    assert out[1:] == [[[1, 1], [1, 1]]] * 3


def test_tensors_go_from_one_to_another():
    assert said("""
x = frit.asarray(np.arange(6.0).reshape(2, 3))
there = (x + 1).to_device("cuda")
far = there.T[1:].to_device("cuda:1")
back = (far * 2).to_device("cpu")
complex_ = frit.asarray([1 + 2j, 3 - 1j], device="cuda")
say([there.device, far.device, back.device, list_of(back), back.strides == np.asarray(back).strides, there.to_device("cuda:0") is there,
     x.to_device("cpu") is x, list_of(x), list_of(complex_.imag.to_device("cpu")), list_of(complex_.imag),
     frit.zeros((0, 3)).to_device("cuda").shape, frit.asarray(2.0).to_device("cuda").item(), error(x.to_device, "cuda", stream=1)[0]])
""") == ["cuda:0", "cuda:1", "cpu", [[4, 10], [6, 12]], True, True, True, [[0, 1, 2], [3, 4, 5]], [2, -1], [2, -1], [0, 3], 2.0, "ValueError"]


def test_blocks_are_of_their_thread_and_end():
    assert said("""
seen = []
def work():
    seen.append(frit.zeros(1).device)
    with frit.device("cuda:1"): seen.append(frit.zeros(1).device)
with gpu:
    t = threading.Thread(target=work); t.start(); t.join()
    with frit.device("cpu"): seen.append(frit.zeros(1).device)
    seen.append(frit.zeros(1).device)
    try:
        with frit.device("cuda:1"): 1 / 0
    except ZeroDivisionError: seen.append(frit.zeros(1).device)
seen.append(frit.zeros(1).device)
say([seen, error(_core.device_leave)])
""") == [["cpu", "cuda:1", "cpu", "cuda:0", "cuda:0", "cpu"], ["RuntimeError", "no device was chosen by a block of this thread"]]


def test_evaluations_of_several_devices():
    """What is asked for together is computed where each of it is, and stores reach whoever still reads the old values there."""
    assert said("""
a = np.arange(4.0)
x, y, z = frit.ones(4) * 2, frit.ones(4, device="cuda") * 3, frit.ones(4, device="cuda:1") * 4
frit.eval([x, (y, {"z": z})])
text = frit.asarray([1.0]).to_device("cuda") + 1
shared = frit.asarray(a, copy=False)
old_here, old_there = shared + frit.zeros(4), shared + frit.zeros(4, device="cuda")
shared += 10
say([list_of(x), list_of(y), list_of(z), list_of(old_here), list_of(old_there), a.tolist(), "kernel" in str(text.explain())])
""") == [[2] * 4, [3] * 4, [4] * 4, [0, 1, 2, 3], [0, 1, 2, 3], [10, 11, 12, 13], True]


TRAIN = """
def step(x, y, w, b, n):
    for _ in range(n):
        h = np.maximum(x @ w + b, 0)
        d = (h - y) / len(x)
        w -= 0.1 * (x.T @ d)
        b -= 0.1 * d.sum(0)
    return ((h - y) ** 2).mean(), w * 2
rng = np.random.default_rng(0)
x, y, w, b = rng.normal(size=(64, 40)), rng.normal(size=(64, 30)), rng.normal(size=(40, 30)) / 6, np.zeros(30)
"""


def test_an_accelerated_function_goes_there():
    """Its arguments go over once in a call, and what it writes into comes back once, at its end."""
    out = said(TRAIN + """
fast = frit.accelerate(device="cuda")(step)
want_w, want_b = w.copy(), b.copy()
want = step(x, y, want_w, want_b, 12)
out = []
for k in range(3):
    w1, b1 = w.copy(), b.copy()
    before = copies()
    got = fast(x, y, w1, b1, 12)
    out.append([n - m for n, m in zip(copies(), before)])
    assert type(got[0]) is np.float64 and type(got[1]) is np.ndarray
    for g, v in zip((*got, w1, b1), (*want, want_w, want_b)): np.testing.assert_allclose(g, v, rtol=1e-9, atol=1e-12)
say([out, fast.stats.kernels > 12, gpu.memory()["live_bytes"]])
""")
    counts, kernels, live = out
    assert kernels and live == 0
    for went, came in counts:
        assert went <= 6 and came <= 6, counts      # four arguments; two written, two results, and no more for twelve steps


def test_what_a_function_is_on_one_device_it_need_not_be_on_another():
    assert said("""
@frit.accelerate
def f(x):
    return np.exp(x) * 2 + x.sum()
x = np.arange(2000.0)
out = []
for name in ("cpu", "cuda", "cpu", "cuda:1", "cuda") * 3:
    with frit.device(name):
        m = frit.device(name).memory()["n_allocs"]
        r = f(x / 1000)
        out.append([np.allclose(r, np.exp(x / 1000) * 2 + (x / 1000).sum())])
say([out, pickle.loads(pickle.dumps(frit.accelerate(len, device="cuda")))._state.options["device"]])
""") == [[[True]] * 15, "cuda"]


def test_tensors_stay_where_they_are_computed_with():
    """A tensor over memory of frit's own goes once; one that others see goes each time."""
    out = said("""
x = frit.asarray(np.arange(1000.0), device="cuda")
n = []
for k in range(5):
    before = copies()
    float((x * k).sum())
    n.append([a - b for a, b in zip(copies(), before)])
a = np.arange(1000.0)
seen = frit.asarray(a, copy=False)
for k in range(3):
    before = copies(); a[0] = k
    with gpu: got = float((seen * 2)[0])
    n.append([a - b for a, b in zip(copies(), before)] + [got])
say(n)
""")
    assert all(went == 0 and came == 1 for went, came in out[1:5]), out
    assert [got for *_, got in out[5:]] == [0, 2, 4] and all(went == 1 for went, *_ in out[5:]), out


def test_nothing_is_left_there():
    assert said("""
def use():
    x = frit.ones((100, 100), device="cuda"); y = (x @ x).sum(0); z = y.to_device("cuda:1") + 1
    w = np.asarray(z); h = x[::2].to_device("cpu"); x[3] = 7
    return float(x.sum()), w.sum(), float(h.sum())
out = [use() for _ in range(3)]
gc.collect(); frit.synchronize()
say([out[0] == out[2], gpu.memory()["live_bytes"], frit.device("cuda:1").memory()["live_bytes"], fake_gpu.counts()["n_blocks_live"]])
""", FRIT_OFF="device_blas") == [True, 0, 0, 0]


def test_memory_of_a_device_runs_out():
    """The other devices go on, and what is there is whole."""
    out = said("""
x = frit.ones(1 << 16, device="cuda"); kept = x * 2; frit.eval(kept)
a = frit.arange(1 << 20, device="cuda") * 2
e = [error(lambda: frit.eval(a, a.sum())), error(lambda: frit.ones(1 << 20).to_device("cuda"))]
say([e, float(kept.sum()), float(frit.ones(1 << 20).sum())])
""", FAKE_CUDA_MB="4")
    assert [e[0] for e in out[0]] == ["MemoryError"] * 2 and out[1:] == [1 << 17, 1 << 20]


def test_what_is_stored_is_seen_by_code_that_began_outside():
    """Also where two arrays that are lent are of one memory, of which one has nothing to give back."""
    device, cpu = test_gpu.both("""
whole = np.arange(9.0).reshape(3, 3) - 0.5; row = whole[0]; box = {"row": row}
def looks():
    while True: yield row.tolist(), whole.sum()
it = looks()
@frit.accelerate
def run(k):
    global whole
    for p in box.values(): pass
    whole += k
    first = next(it)
    whole[:] = whole * 2
    return first, next(it)
say([run(3), run(1), whole.tolist()])
""")
    assert device == cpu and device[0][0] == [[2.5, 3.5, 4.5], 58.5]
