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
