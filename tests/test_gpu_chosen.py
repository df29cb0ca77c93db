"""What masks and indices choose of tensors on a GPU (csrc/backends/cuda/chosen.c, scatter.c): NumPy's bits and errors, by kernels
there, and the arrays stay. The driver is that of tests/cuda/, which needs no GPU. Each test is a process of its own."""
import pytest

from . import test_gpu

HEAD = test_gpu.HEAD + """
import gc, threading, warnings
gpu = frit.device("cuda")
DTYPES = "? i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
rng = np.random.default_rng(0)
wrong = []
def there(a): return frit.asarray(a).to_device("cuda")
def state(): return [gpu.memory()["n_copies_in"], gpu.memory()["n_copies_out"], fake_gpu.counts()["n_launches"]]
def data(shape, dtype):
    "Bits of any kind."
    n = np.dtype(dtype).itemsize * int(np.prod(shape))
    a = rng.integers(0, 256, n, "u1").view("u1" if dtype == "?" else dtype).reshape(shape)
    return a % 2 == 1 if dtype == "?" else a
def same(got, want, *what):
    got = np.asarray(got)
    if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.tobytes(): wrong.append(["bits", *map(str, what)])
def stays(f, most_out, *what, most_in=0):
    "What f gives, by kernels there; so many small copies came to the host, and none went."
    before = state()
    out = f()
    if isinstance(out, frit.Tensor): frit.eval(out)
    went, came, ran = [a - b for a, b in zip(state(), before)]
    if went > most_in or came > most_out or ran == 0: wrong.append(["moved", went, came, ran, *map(str, what)])
    return out
def put(t, key, v): t[key] = v
def at(op): return np.add.at if op == "+" else np.subtract.at
"""


def said(code, **env):
    return test_gpu.said(HEAD + code + "\nsay(wrong[:20])", **{"FRIT_DEVICE": "cpu", **env})


@pytest.mark.parametrize("dtypes", ["? i1 i2 i4 i8", "u1 u2 u4 u8 f2", "f4 f8 c8 c16"])
def test_elements(dtypes):
    """Read and written by a mask: none, some, all of them; windows that begin anywhere."""
    assert said(f"""
for dtype in {dtypes!r}.split():
    for n in (0, 1, 31, 33, 257, 2047, 2049, 5000):
        for p in (0, 0.03, 0.6, 1):
            for first in (0, 3):
                a, m = data(n + first, dtype), rng.random(n + first) < p
                b, k = a[first:].copy(), m[first:]
                v = data(np.count_nonzero(k), dtype)
                t, mask, value = there(a), there(m), there(v)
                same(stays(lambda: t[first:][mask[first:]], 1, dtype) if n else t[first:][mask[first:]], b[k], dtype, n, p, first)
                if n and k.any(): stays(lambda: put(t[first:], mask[first:], value), 1, dtype, n, p)
                else: t[first:][mask[first:]] = value
                b[k] = v
                same(t[first:], b, "put", dtype, n, p, first)
                same(t[:first], a[:first])
""") == []


def test_rows_and_axes():
    """A mask of one to three axes, and rows of any length."""
    assert said("""
for shape, n_axes in [((5, 7), 1), ((5, 7), 2), ((130, 3), 1), ((9, 5, 4), 1), ((9, 5, 4), 2), ((9, 5, 4), 3), ((70, 33), 1), ((3, 5, 0), 2), ((0, 4), 1)]:
    for dtype in ("u1", "i2", "f4", "c16"):
        for p in (0, 0.4, 1):
            a, m = data(shape, dtype), rng.random(shape[:n_axes]) < p
            t, mask, b = there(a), there(m), a.copy()
            same(t[mask], a[m], shape, n_axes, dtype)
            for v in (data(a[m].shape, dtype), data(a[m].shape[1:], dtype)):
                t[mask] = there(v)
                b[m] = v
                same(t, b, "put", shape, n_axes, dtype, v.shape)
            for got, want in zip(frit.nonzero(mask), np.nonzero(m)): same(got, want, "nonzero", shape)
        t, mask = there(data((40, 30), dtype)), there(rng.random((40, 30)) < 0.5)
        want = np.asarray(t)[np.asarray(mask)]
        same(t.T[mask.T], np.asarray(t).T[np.asarray(mask).T])
t, m = there(data((6, 50, 4), "f4")), rng.random(50) < 0.5
same(stays(lambda: t[:, there(m)], 3, most_in=1), np.asarray(t)[:, m])       # (a mask of a later axis is its places)
""") == []


def test_a_mask_of_itself_and_of_numpy():
    assert said("""
a = rng.random(300) < 0.5
t, b = there(a), a.copy()
v = rng.random(np.count_nonzero(a)) < 0.5
t[t] = there(v); b[b] = v
same(t, b)
x = data(300, "f8"); t = there(x)
same(stays(lambda: t[a], 1, most_in=1), x[a])
stays(lambda: put(t, a, np.arange(np.count_nonzero(a)) * 1.5), 1, most_in=2)
x[a] = np.arange(np.count_nonzero(a)) * 1.5
same(t, x)
t[t > 0] = t[t > 0] * 2; x[x > 0] *= 2
same(t, x)
m = there(np.ones(5, "?")); t = there(np.arange(5.0)); t[m] = there(np.float64(3))
same(t, np.full(5, 3.0))
for bad in (np.arange(4.0), np.ones((5, 1))):
    if error(put, t, m, there(bad))[0] not in ("ValueError", "TypeError"): wrong.append(["no error", bad.shape])
same(t, np.full(5, 3.0))
""") == []


@pytest.mark.parametrize("dtypes", ["? i1 i2 i4 i8 u1 u2", "u4 u8 f2 f4 f8 c8 c16"])
def test_the_last_of_several_values_stays(dtypes):
    """For one index array of any type, negative ones among them, before, between and behind other axes; for two of them."""
    assert said(f"""
for dtype in {dtypes!r}.split():
    for n, size in ((1, 1), (700, 9), (3000, 40), (50, 5000)):
        for kind in ("i8", "i4", "u1", "u8", "i2"):
            i = rng.integers(0 if kind[0] == "u" else -size, size, n)
            i = (i % min(size, 128)).astype(kind) if kind == "u1" else i.astype(kind)
            for row in ((), (3,), (2, 4)):
                a, v = data((size, *row), dtype), data((n, *row), dtype)
                t, index, value, b = there(a), there(i), there(v), a.copy()
                stays(lambda: put(t, index, value), 2, dtype, kind)
                b[i] = v
                same(t, b, dtype, n, size, kind, row)
    a, i, v = data((5, 30, 6), dtype), rng.integers(-30, 30, 90), data((5, 90, 6), dtype)
    t, b = there(a), a.copy()
    t[:, there(i)] = there(v); b[:, i] = v
    same(t, b, dtype, "between")
    i, j, v = rng.integers(-5, 5, 200), rng.integers(-30, 30, 200), data((200, 6), dtype)
    t, k, l, w = there(b), there(i), there(j.astype("i4")), there(v)
    stays(lambda: put(t, (k, l), w), 3, dtype, "two"); b[i, j] = v
    same(t, b, dtype, "two")
    i = rng.integers(-4, 4, (7, 11))
    t[1:, ::2][there(i)] = w[0]; b[1:, ::2][i] = v[0]
    same(t, b, dtype, "a window")
    t[there(i[:2])] = there(v[0, 0]); b[i[:2]] = v[0, 0]
    same(t, b, dtype, "one value")
""") == []


def test_places_that_are_far_more_than_indices():
    """They are sorted: by 3 bytes of the highest one."""
    assert said("""
for dtype in ("u1", "i4"):
    n, size = 700, (1 << 20) + 77
    a, v = np.zeros(size, dtype), data(n, dtype)
    i = rng.integers(0, size, n); i[::3] = i[5]; i[1::7] = size - 1; i[2::9] = -size
    t, j, w = there(a), there(i), there(v)
    stays(lambda: put(t, j, w), 2, dtype); a[i] = v
    same(t, a, dtype)
    same(t[j], a[i], dtype)
""") == []


@pytest.mark.parametrize("op", "+-")
def test_joins_go_in_the_order_of_the_indices(op):
    """Sums of floats round differently in any other order: the values are of many magnitudes."""
    assert said(f"op = {op!r}" + """
for dtype in ("f4", "f8", "i4", "i8", "u4", "u8"):
    for n, size, row in ((1, 1, ()), (3000, 1, ()), (3000, 3, ()), (4000, 70, ()), (2000, 3000, ()), (500, 7, (5,)), (300, 40, (2, 33)), (90, 2, (64,))):
        def draw(*shape): return data(shape, dtype) if dtype[0] in "iu" else (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 7, shape)).astype(dtype)
        a, v, i = draw(size, *row), draw(n, *row), rng.integers(-size, size, n)
        if size == 70: i[:1000] = 5
        t, j, w = there(a), there(i), there(v)
        b = a.copy()
        stays(lambda: at(op)(t, j, w), 2, dtype, n, size, row); at(op)(b, i, v)
        same(t, b, op, dtype, n, size, row)
        at(op)(t, j, w[0]); at(op)(b, i, v[0])
        same(t, b, op, dtype, n, size, row, "one row")
    a, i, v = draw(4, 30, 6), rng.integers(-30, 30, 200), draw(4, 200, 6)
    t, b = there(a), a.copy()
    at(op)(t, (slice(None), there(i)), there(v)); at(op)(b, (slice(None), i), v)
    same(t, b, op, dtype, "between")
    i, j = rng.integers(0, 4, 300), rng.integers(0, 30, 300)
    at(op)(t[:, :, 1], (there(i), there(j)), there(v[0, 0, :1])); at(op)(b[:, :, 1], (i, j), v[0, 0, :1])
    same(t, b, op, dtype, "two")
# more than one block of a sort
n, size = 40000, 300
a, v, i = rng.normal(size=size), rng.normal(size=n) * 10.0 ** rng.integers(-6, 7, n), rng.integers(0, size, n) ** 2 // size
t, b = there(a), a.copy()
at(op)(t, there(i), there(v)); at(op)(b, i, v)
same(t, b, "many")
""") == []


def test_out_of_bounds():
    """NumPy's error on that line, and nothing has been written, wherever the wrong one is."""
    out = said("""
a = data((40, 30), "f8")
t, b = there(a), a.copy()
errors = []
for n in (1, 300, 3000):
    for where in (0, n - 1, n // 2):
        for bad in (40, -41, 1 << 40):
            i = rng.integers(-40, 40, n); i[where] = bad
            for key in (there(i), (there(i), there(i * 0))):
                k = tuple(np.asarray(x) for x in key) if isinstance(key, tuple) else np.asarray(key)
                for f in (lambda x, k: x[k], lambda x, k: put(x, k, 1.5), lambda x, k: np.add.at(x, k, 2.5), lambda x, k: np.take(x, k if not isinstance(k, tuple) else k[0], 0)):
                    e, f = error(f, t, key), error(f, b, k)
                    if e is None or e[0] != "IndexError" or e != f: errors.append([n, where, bad, e, f])
same(t, a)
i = np.array([3, 200], "u1")
if error(lambda: t[there(i)])[1] != "index 200 is out of bounds for axis 0 with size 40": wrong.append("u1")
i = np.array([2**64 - 1, 5], "u8")
same(t[there(i)], b[i])
say(errors[:3]) if errors else None
""")
    assert out == []


def test_takes_look_there():
    """Indices are looked at where they are, once for as long as they stay; negative ones become others there."""
    assert said("""
a = data((300, 4), "f4"); t = there(a)
for kind in ("i8", "i4", "u1", "u2", "i1"):
    i = rng.integers(0, 100, 500).astype(kind); j = there(i)
    same(stays(lambda: t[j], 1, kind), a[i], kind)
    same(stays(lambda: t[j], 1 if kind[1] == "1" else 0, kind, "again"), a[i], kind)
    same(stays(lambda: frit.take(t, j.reshape(50, 10), 0), 1, kind), a.take(i.reshape(50, 10), 0), kind)
for kind in ("i8", "i4", "u8"):
    i = rng.integers(-300 if kind[0] == "i" else 0, 300, 500).astype(kind); j = there(i)
    same(stays(lambda: t[j], 2, kind), a[i], kind)
    same(stays(lambda: t[j[::3]], 2, kind, "a window"), a[i[::3]], kind)
    same(stays(lambda: t[j, j % 4], 3, kind, "two"), a[i, i % 4], kind)
    same(stays(lambda: t[j[:20, None] % 300, j[:3] % 4], 3, kind, "broadcast"), a[i[:20, None] % 300, i[:3] % 4], kind)
j = there(np.arange(5)); t[j]
j[2] = 299
same(t[j], a[np.asarray(j)])
j[there(np.array([0, 1]))] = there(np.array([1000, -1]))           # known before, and no longer
if error(lambda: t[j])[0] != "IndexError": wrong.append("known")
order = frit.argsort(t[:, 0]); frit.eval(order)
same(t[order], a[np.argsort(a[:, 0], kind="stable")]) if not np.isnan(a[:, 0]).any() else None
same(t[there(np.zeros(0, "i8"))], a[:0])
""") == []


def test_whoever_reads_the_old_values_has_them():
    """Pending operations, windows, copies; and what looks at the memory sees what is written."""
    assert said("""
a = rng.normal(size=500); m = a > 0; i = rng.integers(0, 500, 90); v = rng.normal(size=500)
def changes(f):
    x = there(a); b = a.copy(); mask, index, value = there(m), there(i), there(v)
    window, later, copy = x[100:200], x * 2 + 1, x.copy()
    old = x[:50] + 0
    f(x, mask, index, value); f(b, m, i, v)
    same(x, b, "new"); same(window, b[100:200], "window"); same(later, a * 2 + 1, "later"); same(copy, a, "copy"); same(old, a[:50], "old")
    x = there(a)                        # seen by an array
    seen = np.asarray(x)
    f(x, mask, index, value)
    same(seen, b, "seen"); same(x, b)
    x = there(a)
    y = x.reshape(50, 10)
    frit.eval(x * 1)
    f(y.reshape(500), mask, index, value)
    same(x, b, "by a view"); same(y, b.reshape(50, 10))
changes(lambda x, m, i, v: put(x, m, v[m]))
changes(lambda x, m, i, v: put(x, m, v[:int(m.sum())]))
changes(lambda x, m, i, v: put(x, i, v[:90]))
changes(lambda x, m, i, v: put(x, i, x[i] * 2))
changes(lambda x, m, i, v: put(x, i, x[:90]))
changes(lambda x, m, i, v: put(x, m, x[::-1][m]))
changes(lambda x, m, i, v: np.add.at(x, i, v[:90]))
changes(lambda x, m, i, v: np.add.at(x, i, x[90:180]))
x = there(a); hold = [x[k:k + 10] * 1 for k in range(0, 100, 10)]
for k in range(5): x[there(i)] = there(v[:90] + k)
b = a.copy(); b[i] = v[:90] + 4
same(x, b)
for k, h in enumerate(hold): same(h, a[10 * k:10 * k + 10])
""") == []


def test_memory_that_others_watch_stays_on_the_host():
    assert said("""
a = rng.normal(size=5000); m = rng.random(5000) < 0.1
with gpu:
    x = frit.asarray(a, copy=False)
    mask = frit.asarray(m, copy=False)
    before = state()
    got, places = x[mask], frit.nonzero(mask)[0]
    x[mask] = np.arange(m.sum()) * 1.0
    frit.eval(x)
    if state() != before: wrong.append(["moved", before, state()])
    same(places, np.nonzero(m)[0])
    same(a[m], np.arange(m.sum()) * 1.0)
    there(np.zeros(5000))[mask]
    same(there(a)[mask], a[m])
    a[0] = 7.0
    same(x[:1], np.full(1, 7.0))
""") == []


def test_arguments_of_accelerated_functions():
    """They go over once and come back once, whatever is done to them there."""
    assert said("""
a, v, i = rng.normal(size=(200, 9)), rng.normal(size=(200, 9)), rng.integers(-200, 200, 500)
def f(a, v, i, n):
    for _ in range(n):
        m = a[:, 0] > 0.1
        a[m] = v[m] * 2
        a[i] += 1
        a[i] = v[i] - a[i]
        np.add.at(a, i, v[i])
        a[a > 1.5] = a[a < -0.2][:1].sum()
    return a[a[:, 1] > 0].sum(0), np.nonzero(a > 1)[0]
fast = frit.accelerate(device="cuda")(f)
b = a.copy(); want = f(b, v, i, 3)
for k in range(4):
    c = a.copy()
    before = state()
    got = fast(c, v, i, 3)
    went = state()[0] - before[0]
    if went > 4: wrong.append(["went", went])
    same(c, b, "written")
    np.testing.assert_allclose(got[0], want[0]); same(got[1], want[1])
""") == []


def test_the_host_does_the_same():
    code = """
a, v = (rng.normal(size=(300, 5)).astype("f4") for _ in range(2)); m = rng.random(300) < 0.4; i = rng.integers(-300, 300, 900)
t = there(a)
out = [t[there(m)], t[there(i)]]
t[there(m)] = there(v[m]); t[there(i)] = there(v[i] * 0 + 1)
np.add.at(t, there(i), there(v[i]))
print(json.dumps([np.asarray(o).tobytes().hex() for o in (*out, t)]), _core.stats()["n_device_chosen"])
"""
    ran = [test_gpu.child(HEAD + code, **{"FRIT_DEVICE": "cpu", **env}).stdout.rsplit(" ", 1) for env in ({}, {"FRIT_OFF": "device_chosen"})]
    assert ran[0][0] == ran[1][0] and len(ran[0][0]) > 1000 and int(ran[0][1]) > 5 and int(ran[1][1]) == 0, [r[1:] for r in ran]


def test_two_devices_and_threads():
    assert said("""
far = frit.device("cuda:1")
a = rng.normal(size=3000); m = a > 0
x, y = frit.asarray(a, device="cuda:1"), there(a)
same(x[frit.asarray(m, device="cuda:1")], a[m])
if "different devices" not in error(lambda: x[there(m)])[1]: wrong.append("mixed")
ts = [threading.Thread(target=lambda k=k: [put(y, there(np.arange(k, 3000, 6)), there(np.full(500, k * 1.5 + r))) for r in range(5)]) for k in range(6)]
for t in ts: t.start()
for t in ts: t.join()
same(y, np.arange(3000) % 6 * 1.5 + 4)
""") == []


FAILING = """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"])
lib.fake_cuda_fail.argtypes = [ctypes.c_uint64]
a, v, i = np.arange(200.0).reshape(50, 4), np.arange(1200.0).reshape(300, 4), np.random.default_rng(1).integers(-50, 50, 300)
def work():
    t, w, j = there(a), there(v), there(i)
    m = t[:, 0] > 30
    b = t[m]
    t[m] = b * 2
    t[j] = w
    np.add.at(t, j, w)
    return np.asarray(b).copy(), np.asarray(t).copy(), np.asarray(frit.nonzero(m)[0]).copy()
want = work()
"""


def test_the_nth_call_of_the_driver_fails():
    n, left = test_gpu.said(HEAD + FAILING + """
n = 0
while True:
    n += 1
    before = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try: got = work()
    except RuntimeError as e:
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if any(g.tobytes() != w.tobytes() for g, w in zip(got, want)): wrong.append([n, "bits"])
        if fake_gpu.counts()["n_calls"] - before < n: break
lib.fake_cuda_fail(0)
gc.collect()
frit.synchronize()
assert not wrong, wrong
say([n, fake_gpu.counts()["n_blocks_live"]])
""", FRIT_DEVICE="cpu")
    assert n > 60 and left <= 2, (n, left)     # (a failing call may have been the one that frees)


def test_the_nth_allocation_fails():
    """A MemoryError and arrays as they were, or the right values; nothing is left."""
    assert said(FAILING + """
for n in range(1, 400):
    try:
        with frit.config(fail_alloc=n): got = work()
    except MemoryError: continue
    if any(g.tobytes() != w.tobytes() for g, w in zip(got, want)): wrong.append([n, "bits"])
    break
else: wrong.append("never done")
t, w, j, m = there(a), there(v), there(i), there(a[:, 0] > 30)
for store in (lambda: put(t, m, w[:42]), lambda: put(t, j, w), lambda: np.add.at(t, j, w)):
    for n in range(1, 40):
        e = None
        with frit.config(fail_alloc=n): e = error(store)
        if e is None: break
        if e[0] != "MemoryError": wrong.append(e)
        same(t, a, n)
    t = there(a)
del t, w, j, m, got
gc.collect()
frit.synchronize()
if fake_gpu.counts()["n_blocks_live"]: wrong.append(["left", fake_gpu.counts()["n_blocks_live"]])
""") == []


@pytest.mark.parametrize("launch", [1, 2])
def test_the_device_is_lost(launch):
    """In a count, or in what follows it: all that is asked of it says so from then on."""
    assert said(FAILING + f"""
t, w, j, m = there(a), there(v), there(i), there(a[:, 0] > 30)
half = there(v[:42])
frit.synchronize()
lib.fake_cuda_lose.argtypes = [ctypes.c_uint64]
lib.fake_cuda_lose({launch})
error(lambda: put(t, m, half))
for f in (lambda: t[m], lambda: frit.nonzero(m), lambda: put(t, m, half), lambda: t[j], lambda: put(t, j, w), lambda: np.add.at(t, j, w), lambda: np.asarray(t)):
    e = error(f)
    if e is None or e[0] != "RuntimeError" or "CUDA" not in e[1]: wrong.append(e)
""") == []
