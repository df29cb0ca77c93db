"""Large copies to and from a GPU, by way of pinned memory, on the driver of tests/cuda/: its copies read and write
pinned memory as late as they may. Each test is a process of its own."""
import pytest

from . import test_gpu

KB = 1 << 10
HEAD = """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"])
lib.fake_cuda_fail.argtypes = lib.fake_cuda_lose.argtypes = [ctypes.c_uint64]
rng = np.random.default_rng(0)
def counted(f):
    frit.synchronize()
    before = fake_gpu.counts()
    out = f()
    now = fake_gpu.counts()
    return out, {k: now[k] - before[k] if k != "pinned_peak" else now[k] for k in now}
def left(names="n_blocks_live n_pinned_live n_streams n_pools n_contexts"):
    gc.collect()
    _core._stop()
    c = fake_gpu.counts()
    return [c[k] for k in names.split()]
"""
SMALL = {"FRIT_TUNE": "helper_nice=0, staged_kb=16, staging_kb=8"}     # kernels are interpreted: so are large arrays small


def said(code, **env):
    return test_gpu.said(HEAD + code, **{"FRIT_DEVICE": "cpu", **SMALL, **env})


@pytest.mark.parametrize("n_bytes", [16 * KB, 16 * KB + 1, 24 * KB - 1, 80 * KB, 81 * KB + 3])
def test_large_copies_are_staged(n_bytes):
    """Chunk by chunk, as many as there are, in both directions; the two buffers are all that is pinned."""
    assert said(f"""
x = rng.integers(0, 255, {n_bytes}, dtype="u1")
t, into = counted(lambda: frit.asarray(x).to_device("cuda"))
y, out = counted(lambda: np.asarray(t).copy())
say([bool((x == y).all()), into["n_pinned_copies"], out["n_pinned_copies"], out["pinned_peak"], left()])
""") == [True, -(-n_bytes // (8 * KB)), -(-n_bytes // (8 * KB)), 16 * KB, [0] * 5]


def test_small_copies_are_the_drivers():
    assert said("""
x = rng.integers(0, 255, (16 << 10) - 1, dtype="u1")
t, into = counted(lambda: frit.asarray(x).to_device("cuda"))
say([bool((np.asarray(t) == x).all()), fake_gpu.counts()["n_pinned_copies"], fake_gpu.counts()["pinned_peak"], left()])
""") == [True, 0, 0, [0] * 5]


def test_as_it_is_by_default():
    """From 1 MiB on, by way of 2 times 4."""
    assert said("""
x = rng.integers(0, 255, (9 << 20) + 5, dtype="u1")
t, into = counted(lambda: frit.asarray(x).to_device("cuda"))
same = bool((np.asarray(t) == x).all())
small, none = counted(lambda: frit.asarray(x[:(1 << 20) - 1]).to_device("cuda"))
del t, small
say([same, into["n_pinned_copies"], none["n_pinned_copies"], fake_gpu.counts()["pinned_peak"] >> 20, left()])
""", FRIT_TUNE="") == [True, 3, 0, 8, [0] * 5]


def test_the_host_may_write_on():
    """What was copied is what there was, although the device reads pinned memory later: many copies, one after the other."""
    assert said("""
x = np.zeros(5000)
wrong, sums = 0, []
for k in range(12):
    x[:] = np.arange(5000) + k
    t = frit.asarray(x).to_device("cuda")
    frit.eval(y := t * 2)
    x[:] = -1
    sums.append((y, t))
for k, (y, t) in enumerate(sums):
    wrong += int((np.asarray(y) != 2 * (np.arange(5000.0) + k)).any()) + int((np.asarray(t) != np.arange(5000.0) + k).any())
say([wrong, fake_gpu.counts()["n_pinned_copies"] >= 12 * 5 * 3])
""") == [0, True]


def test_kernels_wait_for_what_comes_in_and_copies_for_kernels():
    """Nothing has run when the copy out begins; it finds all in order, and memory that was freed meanwhile is had by others."""
    assert said("""
x = rng.normal(size=(40, 100))
wrong = []
for k in range(8):
    t = frit.asarray(x + k).to_device("cuda")
    u = frit.asarray(x - k).to_device("cuda")
    y = t * u + k; z = y.sum(1)
    frit.eval(y, z)
    del t, u
    more = frit.asarray(x * k).to_device("cuda") + 1
    frit.eval(more)
    if not (np.asarray(y) == (x + k) * (x - k) + k).all() or not (np.asarray(more) == x * k + 1).all(): wrong.append(k)
say([wrong, fake_gpu.counts()["n_pinned_live"]])
""") == [[], 2]


def test_without_pinned_memory():
    """Where there is none, the driver copies; when there is some again, it is taken."""
    assert said("""
x = rng.normal(size=5000)
def there_and_back(): return bool((np.asarray(frit.asarray(x).to_device("cuda")) == x).all())
without, n = counted(there_and_back)
os.environ.pop("FAKE_CUDA_PINNED_MB"); ctypes.CDLL(None).unsetenv(b"FAKE_CUDA_PINNED_MB")
again, m = counted(there_and_back)
say([without, n["n_pinned_copies"], n["n_pinned_live"], again, m["n_pinned_copies"], m["n_pinned_live"], left()])
""", FAKE_CUDA_PINNED_MB="0") == [True, 0, 0, True, 10, 2, [0] * 5]
    assert said("""
x = rng.normal(size=5000)
say([bool((np.asarray(frit.asarray(x).to_device("cuda")) == x).all()), fake_gpu.counts()["n_pinned_copies"], left()])
""", FRIT_TUNE="staging_kb=0, staged_kb=16") == [True, 0, [0] * 5]


def test_trimming_gives_it_back():
    assert said("""
x = rng.normal(size=5000)
t = frit.asarray(x).to_device("cuda")
y = t * 2
frit.eval(y)
had = fake_gpu.counts()["n_pinned_live"]
_core.memory_trim()
trimmed = fake_gpu.counts()["n_pinned_live"]
same = bool((np.asarray(y) == 2 * x).all())
del t, y
say([had, trimmed, same, fake_gpu.counts()["n_pinned_live"], left()])
""") == [2, 0, True, 2, [0] * 5]


@pytest.mark.parametrize("backend, threads", [("ref", "1"), ("cpu", "1"), ("cpu", "3")])
def test_whoever_the_host_has(backend, threads):
    """The host's part is done by its threads, or by the one that asks."""
    assert said("""
x = rng.integers(0, 255, (3 << 20) + 5, dtype="u1")
say(bool((np.asarray(frit.asarray(x).to_device("cuda")) == x).all()))
""", FRIT_TUNE="", FRIT_BACKEND=backend, FRIT_NUM_THREADS=threads) is True


FAILING = """
x = rng.normal(size=5000)
kept = x.copy()
def work():
    t = frit.asarray(x).to_device("cuda")
    y = t * 3
    return np.asarray(y).copy()
"""


def test_the_nth_call_of_the_driver_fails():
    """An error that names CUDA, or the right values; the host's data is whole, and nothing is left behind: no pinned memory either."""
    n, wrong, rest = said(FAILING + """
n, wrong = 0, []
while True:
    n += 1
    _core.memory_trim()
    before = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try:
        got = work()
    except RuntimeError as e:
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if not (got == kept * 3).all(): wrong.append([n, "bits"])
        if fake_gpu.counts()["n_calls"] - before < n: break
    if not (x == kept).all(): wrong.append([n, "host"])
lib.fake_cuda_fail(0)
say([n, wrong, left()])
""", FRIT_EAGER_ELEMS="0")
    assert n > 50 and wrong == [] and rest[0] <= 2 and rest[1:] == [0] * 4, (n, wrong, rest)


def test_the_device_is_lost():
    first, again, whole = said(FAILING + """
work()
lib.fake_cuda_lose(1)
say([error(work), error(work), bool((x == kept).all())])
""")
    assert whole and first[0] == again[0] == "RuntimeError" and "CUDA" in first[1], (first, again)


# ---- data larger than the device -----------------------------------------------------------------

CHUNKS = """
def arrays(*shapes, dtype="f4"):
    return [(rng.integers(-50, 50, size=s) / (7 if dtype[0] == "f" else 1)).astype(dtype) for s in shapes]
def same(a, b):
    a, b = ([x] if not isinstance(x, (tuple, list)) else x for x in (a, b))
    return len(a) == len(b) and all(np.asarray(x).dtype == np.asarray(y).dtype and np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(a, b))
def run(f, *args):
    '''Whether it has the CPU's bits, arguments included; chunks; whether memory stayed below the limit.'''
    there, here = [a.copy() for a in args], [a.copy() for a in args]
    want = frit.accelerate(lambda *a: f(*a), device="cpu")(*here)
    _core.stats_reset()
    before = _core.stats()["n_chunked"]
    got = frit.accelerate(lambda *a: f(*a), device="cuda")(*there)
    peak, limit = frit.device("cuda").memory()["peak_bytes"], int(os.environ.get("FRIT_DEVICE_MB", "4096")) << 20
    return [same(got, want) and same(there, here), _core.stats()["n_chunked"] - before, peak <= limit]
"""
ONE_MB = {"FRIT_DEVICE_MB": "1", "FRIT_EAGER_ELEMS": "0"}


def in_chunks(code, **env):
    return said(CHUNKS + code, **{**ONE_MB, **env})


def test_a_memory_map_that_is_larger_than_the_device(tmp_path):
    """64 MiB through 4: the CPU's bits, each byte copied once, and while a chunk is computed others are copied."""
    assert in_chunks(f"""
x = np.memmap({str(tmp_path / "map")!r}, "f4", "w+", shape=(1 << 16, 256))
for i in range(0, len(x), 4096): x[i:i + 4096] = rng.integers(-50, 50, size=(4096, 256)) / 7
y, n = counted(lambda: frit.accelerate(lambda x: x * 2 + 1, device="cuda")(np.asarray(x)))
memory, chunks = frit.device("cuda").memory(), _core.stats()["n_chunked"]
copies = [memory["n_copies_in"], memory["n_copies_out"]]
say([bool((y == x * 2 + 1).all()), memory["peak_bytes"] < 4 << 20, chunks == copies[0] == copies[1] == n["n_launches"], 64 < chunks < 100,
     n["load_bytes"] == n["store_bytes"] == x.nbytes, n["n_overlapped"] > chunks, memory["live_bytes"], left()])
""", FRIT_DEVICE_MB="4", FRIT_TUNE="helper_nice=0", FRIT_JIT="auto") == [True] * 6 + [0, [0] * 5]


PROGRAMS = """
x, y, row, column = arrays((3001, 100), (3001, 100), (100,), (3001, 1))
three = arrays((1009, 3, 100))[0]
def softmax(x): e = np.exp(x - x.max(1, keepdims=True)); return e / e.sum(1, keepdims=True)
def norm(x, row): d = x - x.mean(1, keepdims=True); return d / np.sqrt((d * d).mean(1, keepdims=True) + 1) * row
def several(x, y): z = x + y; return z * 2, z.sum(1), z.argmax(1), np.cumsum(z, axis=1)
def store(x, y): x[...] = x * 2 + y
def windows(x, y): x[:, 1:-1] *= y[:, 2:]; x[:, ::3] += 1
def into(x, y): np.multiply(x, y, out=y); return x[:, 0] + y[:, -1]
def small_too(x, row): row *= 2; return x + row, row.sum()
programs = {
    "chain": (lambda x, y: (x + y) * x - y * 2, x, y), "row": (lambda x, r, c: x * r + c, x, row, column), "softmax": (softmax, x), "norm": (norm, x, row),
    "several": (several, x, y), "store": (store, x, y), "windows": (windows, x, y), "into": (into, x, y), "small": (lambda x, r: x * (r - r.max()), x, row),
    "back": (lambda x: x[::-1] * 2, x), "stencil": (lambda x: x[2:] - 2 * x[1:-1] + x[:-2], x), "flat": (lambda x: x.ravel()[7:-3] * 2, x),
    "columns": (lambda x: x[:, 10:20] + 1, x), "turned": (lambda x: x.T * 2, x), "scan": (lambda x: np.cumsum(x * 2, axis=1), x), "joined": (lambda x, y: np.hstack([x, y * 2]), x, y),
    "middle": (lambda x: x.max(1) + x.min(1), three), "bytes": (lambda x: (x > 0) & (x < 3), x), "wider": (lambda x: x.astype("f8") * 2, x),
    "iota": (lambda x: x + np.arange(3001)[:, None], x)}
"""


def test_programs_in_chunks():
    """Views, broadcast operands, rows, scans, stores, several results: the CPU's bits, chunk by chunk, below the limit."""
    found = in_chunks(PROGRAMS + "say({name: run(*p) for name, p in programs.items()})")
    assert len(found) == 20 and {name: f for name, f in found.items() if not f[0] or f[1] < 3 or not f[2]} == {}


def test_chunks_without_pinned_memory():
    """The driver copies, and nothing goes on beside anything."""
    assert in_chunks(PROGRAMS + """
found = {name: run(*p)[0] for name, p in programs.items() if name in ("chain", "several", "store", "row")}
say([found, _core.stats()["n_chunked"] > 3, fake_gpu.counts()["n_pinned_copies"], left()])
""", FAKE_CUDA_PINNED_MB="0") == [dict.fromkeys(("chain", "row", "several", "store"), True), True, 0, [0] * 5]


def test_products_and_takes_in_chunks():
    """Along the rows of the left matrix, or matrices of a stack; along indices, or an axis that they do not choose from."""
    found = in_chunks("""
a, w, v, stack, more = arrays((3001, 20), (20, 30), (20,), (501, 20, 6), (501, 6, 7), dtype="i8")
f, g, table = arrays((3001, 20), (20, 30), (100, 10))
rows, columns = rng.integers(0, 100, 3001), rng.integers(-20, 20, (9, 2))
programs = {
    "rows": (lambda a, w: a @ w + 1, a, w), "vector": (lambda a, v: a @ v, a, v), "stacks": (lambda s, m: s @ m * 2, stack, more), "stack": (lambda s, m: s @ m, stack, more[0]),
    "left": (lambda w, s: w @ s, w.T.copy(), stack), "two": (lambda a, w: np.maximum((a @ w) @ w.T, 0), a, w), "weights": (lambda a, w: a @ (w * 2 - w.max(0)), a, w),
    "floats": (lambda f, g: np.maximum(f.round() @ g.round(), 0).sum(1), f, g), "take": (lambda t, i: t[i] * 2, table, rows),
    "columns": (lambda a, i: np.take(a, i, axis=1) + 1, a, columns)}
say({name: run(*p) for name, p in programs.items()})
""", FRIT_DEVICE_MB="0", FAKE_CUDA_TOTAL_KB="64")
    assert len(found) == 10 and {name: f for name, f in found.items() if not f[0] or f[1] < 3} == {}


def test_few_rows_of_large_memory():
    """Only what is touched goes there, whatever is done with it: one chunk."""
    found = in_chunks("""
x, y = arrays((3001, 100), (100,))
def store(x, y): x[7:9] -= x[5:25].sum(0); x[20] = y
found = [run(f, *a) for f, *a in ((lambda x: x[5:25].sum(0), x), (lambda x: x[:50].round().T @ x[50:100].round(), x), (lambda x: x[:20, ::-1].sum(), x))]
say([found, len(found), run(store, x, y), frit.device("cuda").memory()["peak_bytes"]])
""")
    assert found[0] == [[True, 1, True]] * 3 and found[2][:2] == [True, 1] and found[3] < 50000, found


@pytest.mark.parametrize("dtype", ["u1", "i2", "f8", "c16", "?"])
def test_dtypes_and_odd_sizes_in_chunks(dtype):
    """The last chunk is short; chunks begin anywhere in a line of memory."""
    found = in_chunks(f"""
def f(x, y): z = x {"&" if dtype == "?" else "+"} y; return z, z.any(1), x[:, 3:] == y[:, :-3]
def store(x, y): x[1:, 1:] = y[1:, :-1]
say([run(g, *arrays((n, m), (n, m), dtype={dtype!r})) for n, m in ((1501, 13), (3001, 7), (333, 101)) for g in (f, store)])
""", FRIT_DEVICE_MB="0", FAKE_CUDA_TOTAL_KB="16")
    assert [f[0] for f in found] == [True] * 6 and [f[1] >= 2 for f in found] == [True] * 6, found


def test_tensors_in_chunks():
    """What does not fit stays on the host, and so do results; what is on the device is not copied."""
    assert in_chunks("""
x, y, small = arrays((3001, 100), (3001, 100), (3001, 10))
with frit.device("cuda"):
    a, b = frit.asarray(x), frit.asarray(small)
    frit.eval(b := b * 2)
    at = frit.device("cuda").memory()
    c = a + b[:, :1]
    frit.eval(c)
    now = frit.device("cuda").memory()
    d = c * 2; d += 1; d[:, 1:] *= b[:, 1:2]
    right = [bool((np.asarray(c) == x + (small * 2)[:, :1]).all())]
e = (x + (small * 2)[:, :1]) * 2 + 1; e[:, 1:] *= (small * 2)[:, 1:2]
right.append(bool((np.asarray(d) == e).all()))
chunks = _core.stats()["n_chunked"]
say([c.device, d.device, right, chunks > 10, now["live_bytes"] == at["live_bytes"], now["peak_bytes"] <= 1 << 20])
""") == ["cuda:0", "cuda:0", [True, True], True, True, True]


def test_calls_that_come_again_in_chunks():
    """A call that is replayed runs in chunks, too."""
    assert in_chunks("""
def f(x, y): x += 1; return x * y + 1, x.sum(1)
call, replays, wrong = frit.accelerate(f, device="cuda"), 0, []
for k in range(60):
    x, y = arrays((301, 10), (301, 10))
    want = f(u := x.copy(), y)
    before = _core.stats()
    got = call(x, y)
    now = _core.stats()
    if not same(got, want) or not same(x, u) or now["n_chunked"] - before["n_chunked"] < 3: wrong.append(k)
    replays += now["n_replayed"] - before["n_replayed"]
say([replays > 5, wrong])
""", FRIT_DEVICE_MB="0", FAKE_CUDA_TOTAL_KB="16") == [True, []]


def test_what_can_not_be_cut():
    """Sums along the axis, products, what lies crosswise: an error as ever that names the plan's bytes, and the arguments are whole."""
    found = in_chunks("""
x, y = arrays((3001, 100), (3001, 100))
kept = x.copy()
def total(x): z = x * 2; return z, z.sum()
def store(x): x -= x.sum(0)
def empty(x): return x * 2, x[:0].sum(0)
found = [error(frit.accelerate(f, device="cuda"), *a) for f, *a in
         ((total, x), (store, x), (empty, x), (lambda x, y: x.T @ y, x, y), (lambda x, y: x + y, x, np.asfortranarray(y)), (lambda x: x.sum(0), x))]
say([found, bool((x == kept).all()), _core.stats()["n_chunked"], frit.device("cuda").memory()["live_bytes"], left()])
""")
    assert [e and e[0] for e in found[0]] == ["MemoryError"] * 6 and all("Unable to allocate" in e[1] for e in found[0]), found
    assert found[1:] == [True, 0, 0, [0] * 5]


def test_memory_that_others_have():
    """It was thought to fit, and does not: it is run in chunks before anything has been written over."""
    assert in_chunks("""
x, y = arrays((3001, 100), (3001, 100))
def f(x, y): z = np.cumsum(x, axis=1); return z * y
def store(x): x *= 2
kept, got = x.copy(), []
first = error(lambda: got.append(frit.accelerate(f, device="cuda")(x, y)))
chunks = _core.stats()["n_chunked"]
right = same(got, f(x, y))
second = error(frit.accelerate(store, device="cuda"), x)
say([first, right, chunks > 3, second, bool((x == kept * 2).all()), _core.stats()["n_chunked"] - chunks > 1, left()])
""", FRIT_DEVICE_MB="0", FAKE_CUDA_TOTAL_KB="65536", FAKE_CUDA_MB="1") == [None, True, True, None, True, True, [0] * 5]


CHUNKS_FAILING = """
x, y = arrays((600, 100), (600, 100))
def f(x, y): z = x + y; return z * 2, z.max(1)
def store(x, y): x[:, 1:] += y[:, 1:]
"""


@pytest.mark.parametrize("name", ["f", "store"])
def test_the_nth_call_of_the_driver_fails_in_chunks(name):
    """An error that names CUDA, or the right values. What is only read is whole; what is written over may be so in part, chunk by chunk."""
    n, wrong, rest = in_chunks(CHUNKS_FAILING + f"""
g = {name}
n, wrong = 0, []
want_x = x.copy()
want = g(want_x, y)
kept = y.copy()
def work():
    a = x.copy()
    try: return frit.accelerate(g, device="cuda")(a, y), a
    finally:
        if not ((a == x) | (a == want_x)).all() or not (y == kept).all(): wrong.append([n, "host"])
while True:
    n += 1
    _core.memory_trim()
    before = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try:
        got, a = work()
    except RuntimeError as e:
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if not (a == want_x).all() or (want and not same(got, want)): wrong.append([n, "bits"])
        if fake_gpu.counts()["n_calls"] - before < n: break
lib.fake_cuda_fail(0)
say([n, wrong[:9], left()])
""", FRIT_DEVICE_MB="0", FAKE_CUDA_TOTAL_KB="250")
    assert n > 150 and wrong == [] and rest[0] <= 3 and rest[1:] == [0] * 4, (n, wrong, rest)


def test_an_interrupt_between_chunks():
    """Ctrl-C ends what only reads, at the next chunk; what writes over its arguments goes on to its end."""
    first, n, second, whole, rest = in_chunks("""
def interrupted(f, *args):
    before = _core.stats()["n_chunked"]
    lib.fake_cuda_interrupt(ctypes.c_uint64(100))      # (in the fourth chunk or so)
    e = error(frit.accelerate(f, device="cuda"), *args)
    return e and e[0], _core.stats()["n_chunked"] - before
def store(x): x *= 2
x, = arrays((30001, 100))
kept = x.copy()
first, n = interrupted(lambda x: x * 2 + 1, x)
second, m = interrupted(store, x)
say([first, n, second, m > 20 and bool((x == kept * 2).all()), left("n_blocks_live n_pinned_live")])
""")
    assert first == "KeyboardInterrupt" and n < 20 and second in (None, "KeyboardInterrupt") and whole and rest == [0, 0], (first, n, second, whole, rest)
