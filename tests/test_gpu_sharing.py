"""Memory on a GPU that frit and another library share (tests/their_gpu.py): DLPack with streams and __cuda_array_interface__, both
ways, without copies; both streams run as late as they may, on the driver of tests/cuda/. Each test is a process of its own."""
from . import test_devices

OTHERS = """
from tests.their_gpu import Array, Described, Driver, Taken
driver = Driver()
"""


def said(code, **env):
    return test_devices.said(OTHERS + code, **env)


def test_their_memory_is_ours():
    """No copy; their stream comes first; the memory is let go when nothing reads it."""
    assert said("""
a = Array(driver, np.arange(6.0).reshape(2, 3))
before = copies()
t = frit.from_dlpack(a)
y = t * 2 + 1
frit.eval(y)
moved = [m - n for m, n in zip(copies(), before)]
out = [t.device, t.shape, moved, a.asked[0][0] == _core.device_stream("cuda"), list_of(y), a.n_deleted]
del t, y; gc.collect()
say(out + [a.n_deleted])
""") == ["cuda:0", [2, 3], [0, 0], True, [[1, 3, 5], [7, 9, 11]], 0, 1]


def test_stores_reach_their_memory():
    assert said("""
a = Array(driver, np.arange(6.0).reshape(2, 3))
t = frit.from_dlpack(a)
old = t + 0
t[0] = 7; t[:, 1] += 1; t *= 2
frit.synchronize()
r = frit.from_dlpack(Array(driver, [1.0], readonly=True))
def write(): r[0] = 1
say([a.read().tolist(), list_of(old), error(write)[0], t.device])
""") == [[[14, 16, 14], [6, 10, 10]], [[0, 1, 2], [3, 4, 5]], "ValueError", "cuda:0"]


def test_masks_and_indices_reach_their_memory():
    assert said("""
a = Array(driver, np.arange(6.0))
t = frit.from_dlpack(a)
before = copies()
t[frit.asarray([0, 2, 2], device="cuda")] = frit.asarray([7.0, 8.0, 9.0], device="cuda")
t[t == 4] = 40
t[frit.asarray([False, True, False, False, False, True], device="cuda")] = frit.asarray([-1.0, -2.0], device="cuda")
chosen = t[t > 8]
frit.synchronize()
say([a.read().tolist(), list_of(chosen), t.device])
""") == [[7, -1, 9, 3, 40, -2], [9, 40], "cuda:0"]


def test_what_they_write_is_seen():
    assert said("""
a = Array(driver, np.zeros(4))
t = frit.from_dlpack(a)
out = [float(t.sum())]
later = t + 1
driver.write(a.address, np.arange(4.0)); driver.do("cuStreamSynchronize", driver.stream)
say(out + [list_of(later), float(t.sum()), list_of(t), t.tolist(), t[2].item(), repr(t)])
""") == [0, [1, 1, 1, 1], 6, [0, 1, 2, 3], [0, 1, 2, 3], 2, "Tensor([0., 1., 2., 3.])"]


def test_numpy_gets_copies_of_it():
    """The host cannot see that memory: an array of it is a copy, and NumPy's functions that would write to it say so."""
    out = said("""
t = frit.from_dlpack(Array(driver, np.arange(4.0)))
n = np.array(t); n[0] = 9
def write(): np.asarray(t)[0] = 9
say([list_of(t), n.tolist(), frit.sort(t).tolist(), frit.sort(t).device, error(write), memoryview(t).readonly, t.to_device("cpu").device,
     error(lambda: frit.put(t, [0], [5.0])), list_of(t)])
""")
    assert out[:4] == [[0, 1, 2, 3], [9, 1, 2, 3], [0, 1, 2, 3], "cuda:0"] and out[5:7] == [True, "cpu"]
    assert out[4][0] == out[7][0] == "ValueError" and "read-only" in out[4][1] and "cuda:0" in out[7][1] and out[8] == [0, 1, 2, 3]


def test_our_memory_is_theirs():
    """What we have begun comes before what they begin; what they have begun comes before the memory is used again."""
    assert said("""
x = frit.asarray(np.arange(6.0).reshape(2, 3), device="cuda")
y = x * 2; frit.eval(y)
before = copies()
t = Taken(driver, y)
moved = [m - n for m, n in zip(copies(), before)]
out = [t.device, t.shape, t.strides, t.flags, moved, t.read().tolist()]
y += 1                                   # a store that they see
frit.synchronize()
out += [t.read().tolist(), list_of(y)]
driver.write(t.address, np.full(6, 5.0))   # begun, and not done
t.delete()
del t
z = y + 0                                # reads after it
out += [list_of(z)]
del y, z, x; gc.collect(); frit.synchronize()
say(out + [gpu.memory()["live_bytes"]])
""") == [[2, 0], [2, 3], [3, 1], 0, [0, 0], [[0, 2, 4], [6, 8, 10]], [[1, 3, 5], [7, 9, 11]], [[1, 3, 5], [7, 9, 11]], [[5] * 3] * 2, 0]


def test_windows_and_dtypes_of_ours():
    assert said("""
out = []
for d in ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"):
    x = frit.asarray(np.arange(12).reshape(3, 4).astype(d), device="cuda")
    t = Taken(driver, x)
    code, bits = t.tensor.dtype.code, t.tensor.dtype.bits
    out.append([t.read(d).tolist() == list_of(x) or d[0] == "c" and (t.read(d) == np.asarray(x.to_device("cpu"))).all().item(), code, bits])
    t.delete()
x = frit.asarray(np.arange(12.0).reshape(3, 4), device="cuda")
t = Taken(driver, x.T[1:3])
say([out, t.shape, t.strides, driver.read(t.address, 2).tolist()])
""") == [[[True, 6, 8], [True, 0, 8], [True, 1, 16], [True, 0, 32], [True, 1, 64], [True, 2, 16], [True, 2, 32], [True, 2, 64],
          [True, 5, 64], [True, 5, 128]], [2, 3], [1, 4], [1, 2]]


def test_streams_devices_and_copies():
    out = said("""
x = frit.asarray(np.arange(3.0), device="cuda"); h = frit.ones(3)
other = ctypes.c_void_p(); driver.do("cuStreamCreate", ctypes.byref(other), 0)
taken = [Taken(driver, x, stream=s) for s in (None, 1, 2, -1, other.value)]
frit.synchronize()
out = [[t.read().tolist() == [0, 1, 2] for t in taken], [error(x.__dlpack__, stream=s)[0] for s in (0, -2, "a")],
       error(h.__dlpack__, stream=1)[0]]
for t in taken: t.delete()
copy = Taken(driver, x, copy=True)
out += [copy.flags, copy.address != taken[0].address]
here = x.__dlpack__(dl_device=(1, 0), max_version=(1, 0))
out += [np.from_dlpack(type("A", (), {"__dlpack__": lambda s, **k: here, "__dlpack_device__": lambda s: (1, 0)})()).tolist()]
there = Taken(driver, h, dl_device=(2, 0))
out += [[there.tensor.device.type, there.tensor.device.id, there.flags], there.read().tolist(), error(x.__dlpack__, dl_device=(2, 7))[0],
        error(x.__dlpack__, dl_device=(10, 0))[0], error(x.__dlpack__, dl_device=(1, 0), copy=False)[0], x.__dlpack_device__(),
        h.__dlpack_device__(), frit.from_dlpack(x).device, frit.from_dlpack(h, device="cuda").device,
        frit.from_dlpack(Array(driver, [1.0, 2.0]), device="cpu").device]
say(out)
""")
    assert out[0] == [True] * 5 and out[1][:2] == ["ValueError"] * 2 and out[1][2] in ("TypeError", "ValueError") and out[2] == "RuntimeError"
    assert out[3:6] == [2, True, [0, 1, 2]] and out[6] == [2, 0, 2] and out[7] == [1, 1, 1]
    assert out[8:11] == ["BufferError", "BufferError", "BufferError"] and out[11:] == [[2, 0], [1, 0], "cuda:0", "cuda:0", "cpu"]


def test_shown_on_the_host_it_is_a_copy_there():
    assert said("""
x = frit.asarray(np.arange(3.0), device="cuda")
seen = np.asarray(x); seen[0] = 5       # the host's memory is the tensor's
t = Taken(driver, x)
say([t.flags, t.read().tolist(), list_of(x + 0), error(x.__dlpack__, copy=False)[0], error(lambda: x.__cuda_array_interface__)[0]])
""") == [2, [5, 1, 2], [5, 1, 2], "BufferError", "BufferError"]


def test_the_cuda_array_interface_of_ours():
    assert said("""
x = frit.asarray(np.arange(6.0, dtype="f4").reshape(2, 3), device="cuda")
y = (x + 1).T
c = y.__cuda_array_interface__
frit.synchronize()
h = frit.ones(3)
say([c["shape"], c["typestr"], c["strides"], c["version"], c["data"][1], c["stream"] == _core.device_stream("cuda"),
     driver.read(c["data"][0], 6, "f4").tolist(), hasattr(h, "__cuda_array_interface__"), frit.zeros(0, device="cuda").__cuda_array_interface__["data"][0]])
""") == [[3, 2], "<f4", [4, 12], 3, False, True, [1, 2, 3, 4, 5, 6], False, 0]


def test_the_cuda_array_interface_of_theirs():
    out = said("""
a = Array(driver, np.arange(6.0).reshape(2, 3))
d = Described(a)
before = copies()
copy, same = frit.asarray(d), frit.asarray(d, copy=False)
frit.eval(copy, same + 1)
moved = [m - n for m, n in zip(copies(), before)]
same[0] = 9; frit.synchronize()
refs = sys.getrefcount(d)
out = [copy.device, same.device, moved, list_of(copy), a.read().tolist()]
del same; gc.collect(); frit.synchronize()
bad = [dict(typestr=">f8"), dict(typestr="O"), dict(typestr=5), dict(shape=[2]), dict(shape=(-1,)), dict(data=(1,)), dict(strides=(8,)),
       dict(mask=5), dict(data=(12345, False)), dict(strides=(7, 3))]
say(out + [refs - sys.getrefcount(d), [error(frit.asarray, Described(a, **b)) for b in bad]])
""")
    assert out[:5] == ["cuda:0", "cuda:0", [0, 0], [[0, 1, 2], [3, 4, 5]], [[9, 9, 9], [3, 4, 5]]] and out[5] == 1
    assert all(e and e[0] in ("ValueError", "TypeError") for e in out[6]), out[6]


def test_a_producer_that_fails_leaves_nothing():
    assert said("""
class Broken(Array):
    def __dlpack_device__(self): return self.where
def made(where): a = Broken(driver, [1.0]); a.where = where; return a
class Raises(Array):
    def __dlpack_device__(self): raise KeyError("no")
class Silent(Array):
    def __dlpack__(self, **_): raise BufferError("not now")
say([error(frit.from_dlpack, made((2, 9)))[0], error(frit.from_dlpack, Raises(driver, [1.0]))[0], error(frit.from_dlpack, Silent(driver, [1.0]))])
""") == ["RuntimeError", "KeyError", ["BufferError", "not now"]]
