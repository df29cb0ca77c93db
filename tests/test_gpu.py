"""An NVIDIA GPU as a backend (csrc/backends/cuda/), without one: tests/cuda/ has a driver that runs NVRTC's PTX on the processor
and is stricter than a real one. Each test is a process of its own, with FRIT_DEVICE=cuda."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from . import fake_gpu, forked, gpu
from .common import SOAK

try:
    gpu.compiler()
except ValueError as e:
    pytest.skip(str(e), allow_module_level=True)
if not shutil.which(os.environ.get("CC", "cc")):
    pytest.skip("there is no C compiler to build the driver with", allow_module_level=True)

HEAD = """
import ctypes, gc, json, os, sys
import numpy as np, frit
from frit import _core
from tests import fake_gpu
def say(x): print(json.dumps(x))
def error(f, *args, **kwargs):
    try: f(*args, **kwargs)
    except BaseException as e: return [type(e).__name__, str(e)]
"""


def child(code, **env):
    return forked.run(HEAD + code, {**os.environ, "FRIT_BACKEND": "cpu", **fake_gpu.environment(), **env})


def said(code, **env):
    done = child(code, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def both(code):
    """What the device and the CPU say of the same program, the latter with the interpreter."""
    return said(code), said(code, FRIT_DEVICE="cpu")


TRAINING = """
rng = np.random.default_rng(0)
def draw(*shape): return rng.normal(size=shape).astype(TYPE)
@frit.accelerate
def step(x, w, b, y, m, v):
    h = np.maximum(x * w[0] + b, 0)
    z = h - h.mean(1, keepdims=True); z /= np.sqrt((z * z).mean(1, keepdims=True) + 1e-3)
    p = np.exp(z - z.max(1, keepdims=True)); p /= p.sum(1, keepdims=True)
    g = (p - y) * h
    db = g.sum(0)
    m[:] = 0.9 * m + 0.1 * db; v[:] = 0.99 * v + 0.01 * db * db
    b -= 0.1 * m / (np.sqrt(v) + 1e-8)
    return p.argmax(1), p.max(0), np.log(p).sum(), (p > 0.02).any(0), p[::-2, 1::3].copy(), np.cumsum(db)
x, w, b, y = draw(37, 70), draw(1, 70), draw(70), draw(37, 70)
m, v = np.zeros(70, TYPE), np.zeros(70, TYPE)
for _ in range(4): out = step(x, w, b, y, m, v)
say([np.asarray(o).tobytes().hex() for o in (*out, b, m, v)])
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_training_has_the_bits_of_the_cpu(dtype):
    device, cpu = both(f"TYPE = {dtype!r}\n" + TRAINING)
    assert device == cpu


def test_kernels_run_there():
    """What is computed is computed by kernels of the device, and stays there until somebody looks."""
    assert said("""
before = fake_gpu.counts()
a = frit.asarray(np.arange(1000.0)); b = frit.sqrt(a) * 2 + a; c = b.sum()
frit.eval(b, c)
now = fake_gpu.counts()
copies = _core.stats()
say([now["n_launches"] - before["n_launches"], now["n_lane_instructions"] > 0, copies["n_copies_in"], copies["n_copies_out"], float(c)])
""")[:4] == [1, False, 1, 0] or pytest.fail("kernels ran before anybody waited, or elsewhere")


def test_streams_are_waited_for_once():
    assert said("""
a = frit.asarray(np.arange(1000.0))
for _ in range(5): a = a * 1.5 + 1
frit.eval(a)
late = fake_gpu.counts()["n_instructions"]
np.asarray(a)
say([late, fake_gpu.counts()["n_instructions"] > 0])
""") == [0, True]


MODEL = """
rng = np.random.default_rng(0)
def softmax(x): e = frit.exp(x - x.max(1, keepdims=True)); return e / e.sum(1, keepdims=True)
def logsumexp(x): m = x.max(1, keepdims=True); return frit.log(frit.exp(x - m).sum(1)) + m[:, 0]
def norm(x): d = x - x.mean(1, keepdims=True); return d / frit.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
programs = {"chain": (lambda x, y: (x + y) * x - y * 2, 2), "softmax": (softmax, 1), "logsumexp": (logsumexp, 1), "norm": (norm, 1),
            "variance": (lambda x: x.var(1), 1), "sum": (lambda x: x.sum(1), 1), "columns": (lambda x: x.sum(0), 1),
            "largest of columns": (lambda x: x.max(0), 1), "a number to all": (lambda x: x * 3 + 1, 1)}
found = []
for n in (1000, 4096):
    for name, (f, k) in programs.items():
        arrays = [rng.normal(size=(64, n)).astype(TYPE) for _ in range(k)]
        out = f(*map(frit.asarray, arrays))
        before = fake_gpu.counts()
        frit.eval(out); frit.synchronize()
        c = {key: v - before[key] for key, v in fake_gpu.counts().items()}
        found.append([name, n, c["n_launches"], (c["load_bytes"] + c["store_bytes"]) / (sum(a.nbytes for a in arrays) + out.size * out.dtype.itemsize),
                      c["load_sectors"] / c["ideal_load_sectors"], c["store_sectors"] / c["ideal_store_sectors"], c["n_conflicts"],
                      c["n_lane_instructions"] / arrays[0].size])
say(found)
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_least_bytes_move(dtype):
    """What kernels of maps, rows and columns ask of memory, counted: one launch, the least bytes, whole sectors of 32 bytes, no two
    words in one bank. Instructions an element of f4: 16 for a chain of 4 operations (50 without vectors), 24 to 160 for rows."""
    for name, n, launches, n_bytes, loads, stores, conflicts, instructions in said(f"TYPE = {dtype!r}" + MODEL, FRIT_JIT="auto"):
        assert launches == 1 and n_bytes <= 1.05 and loads <= 1.05 and stores <= 1.05, (name, n, launches, n_bytes, loads, stores)
        assert conflicts <= 64 and instructions < (18 if (name, dtype) == ("chain", "f4") else 250), (name, n, conflicts, instructions)


def test_sums_of_integers_have_no_tree():
    """Threads take neighbours, and few instructions, whatever the size of an element: any order has the same bits."""
    for dtype, same, loads, instructions in said("""
rng, found = np.random.default_rng(0), []
for dtype in "i1", "u2", "i4", "u8":
    a = rng.integers(0, 100, (64, 4096)).astype(dtype)
    out = frit.asarray(a).sum(1)
    before = fake_gpu.counts()
    frit.eval(out); frit.synchronize()
    c = {key: v - before[key] for key, v in fake_gpu.counts().items()}
    found.append([dtype, np.asarray(out).tobytes() == a.sum(1).tobytes(), c["load_sectors"] / c["ideal_load_sectors"], c["n_lane_instructions"] / a.size])
say(found)
""", FRIT_JIT="auto"):
        assert same and loads <= 1.05 and instructions < 10, (dtype, same, loads, instructions)


ORDERS = """
rng = np.random.default_rng(0)
def draw(*shape): return rng.normal(size=shape).astype(TYPE)
def add_to(x, y): y += x.T; return y
def store(x, y): y[...] = x.T * 2; return y
def store_turned(x, y): y.T[...] = x * y.T; return y
programs = {"x.T + y": (lambda x, y: x.T + y, (256, 256), (256, 256)), "(0, 2, 1)": (lambda a, b: a.transpose(0, 2, 1) * b, (3, 128, 160), (3, 160, 128)),
            "copy": (lambda x: x.T.reshape(-1), (192, 256)), "y += x.T": (add_to, (256, 192), (192, 256)), "store": (store, (256, 192), (192, 256)),
            "store into a view": (store_turned, (256, 256), (256, 256)), "all alike": (lambda x, y: x.T + y.T, (192, 256), (192, 256)),
            "three orders": (lambda a, b, c: a + b.transpose(0, 2, 1) + c.transpose(1, 0, 2), (64, 64, 64), (64, 64, 64), (64, 64, 64)),
            "three axes": (lambda a, b, c: a + b.transpose(0, 2, 1) + c.transpose(2, 1, 0), (64, 64, 64), (64, 64, 64), (64, 64, 64)),
            "among four": (lambda a, b, c: a.transpose(1, 0, 2, 3) + b.transpose(1, 0, 3, 2) * c.transpose(1, 3, 2, 0), (32, 3, 16, 32), (32, 3, 32, 16), (32, 3, 16, 32)),
            "few columns": (lambda x, y: x.T + y, (8, 8192), (8192, 8)), "few rows": (lambda x, y: x.T + y, (8192, 8), (8, 8192)),
            "four axes": (lambda x, y: x.transpose(0, 3, 1, 2) * 2 + y, (4, 16, 32, 64), (4, 64, 16, 32))}
found = []
for name, (f, *shapes) in programs.items():
    arrays = [draw(*s) for s in shapes]
    there = [frit.asarray(a) + 0 for a in arrays]
    frit.eval(there); frit.synchronize()
    out = f(*there)
    before = fake_gpu.counts()
    frit.eval(out); frit.synchronize()
    c = {key: v - before[key] for key, v in fake_gpu.counts().items()}
    want = f(*arrays)
    n_bytes = sum(a.nbytes for a in arrays[:1 if name == "store" else None]) + want.nbytes
    same = np.asarray(out).tobytes() == want.tobytes()
    found.append([name, same, c["n_launches"], (c["load_bytes"] + c["store_bytes"]) / n_bytes, c["load_sectors"] / c["ideal_load_sectors"],
                  c["store_sectors"] / c["ideal_store_sectors"], c["n_conflicts"], c["n_lane_instructions"] / out.size])
say(found)
"""


@pytest.mark.parametrize("dtype", ["i1", "f2", "f4", "f8"])
def test_the_least_bytes_move_where_orders_differ(dtype):
    """Operands that lie crosswise are read and written sector by sector all the same, by way of shared memory. Of a tile with three axes
    eight elements lie side by side, which are less than a sector if they are small. Instructions an element of f4: 43 for x.T + y, 49 with
    outer axes, which are looked for once for all operands."""
    for name, same, launches, n_bytes, loads, stores, conflicts, instructions in said(f"TYPE = {dtype!r}" + ORDERS, FRIT_JIT="auto"):
        small = dtype in ("i1", "f2") and name in ("three axes", "among four")
        assert same and launches == 1 and n_bytes <= 1.05 and max(loads, stores) <= (4 if small else 1.05), (name, same, launches, n_bytes, loads, stores)
        assert conflicts == 0 or small, (name, conflicts)
        assert instructions < (55 if dtype == "f4" and name in ("x.T + y", "four axes") else 300), (name, instructions)


def test_orders_of_every_dtype_and_size():
    """Edges of tiles, negative strides, windows, results over operands that die, many at once: what the CPU has, bit by bit."""
    device, cpu = both(f"DTYPES = {'? i1 u1 i2 f2 u4 f4 i8 f8 c8 c16' if SOAK else '? u1 f4 c16'!r}" + """
import hashlib
rng = np.random.default_rng(0)
def draw(dtype, *shape):
    x = rng.integers(-50, 50, size=shape)
    return (x + 1j * x[::-1] if dtype[0] == "c" else x > 0 if dtype == "?" else x if dtype[0] in "iu" else x / 7).astype(dtype)
out, views = [], {"all": lambda a: a, "back": lambda a: a[::-1, ::-1], "window": lambda a: a[1:, :-1] if min(a.shape) > 1 else a, "far": lambda a: a[::2, 1:]}
for d in DTYPES.split():
    for s in (1, 1500), (31, 257), (33, 130), (257, 31), (1500, 3), (64, 96), (9, 300):
        x, y = frit.asarray(draw(d, *s)), draw(d, *s[::-1])
        for name, v in views.items():
            if d == "c16" and name == "far": continue
            a, b, z = x.T, frit.asarray(y), frit.asarray(y.copy())
            out.append(v(a) & v(b) if d == "?" else v(a) * 2 + v(b))
            v(z)[...] = v(a)
            w = frit.asarray(y.copy())
            w.T[...] = w.T | x if d == "?" else w.T - x if d != "u1" else w.T + x
            u = frit.asarray(y.copy()) | False if d == "?" else frit.asarray(y.copy()) * 1
            out += [z, w, (u if d == "?" else u * 3) + a]
            frit.eval(out[-4:])
many = [(frit.asarray(draw("f4", 70 + k, 65)), frit.asarray(draw("f4", 65, 70 + k))) for k in range(6)]
for _ in range(3):
    some = [x.T * 0.5 + y for x, y in many]; frit.eval(some); out += some
for dtype, sides in ("f4", (20, 20, 20)), ("i1", (33, 33, 33)), ("c8", (17, 17, 17)), ("f8", (31, 31, 31)), ("?", (40, 40, 40)), ("f2", (16, 16, 16)), ("c16", (19, 19, 19)):
  three = [frit.asarray(draw(dtype, *sides)) for _ in range(4)]
  for axes in (0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0):
    out += [three[0] + three[1].transpose(axes) * three[2].transpose(axes[::-1]), three[0].transpose(axes) * three[1][:, :1].transpose(axes)[..., :1]]
    some = three[3] * 1 if dtype != "?" else three[3] | False
    some.transpose(axes)[1:] = (three[0][1:] * three[1].transpose(2, 1, 0)[1:, :, ::-1])
    out.append(some)
    frit.eval(out[-3:])
big = [frit.asarray(draw("f8", 70, 70)) for _ in range(9)]
total = big[0] + big[1].T
for k in range(2, 9): total = total * 0.5 + (big[k].T if k % 3 else big[k])
i = frit.arange(4900).reshape(70, 70)
out += [total, frit.where(i.T % 3 == 0, big[0], big[1].T), (i.T + i).T * big[2].T, big[0].T + big[1][:, :1], big[0].T + big[1][:1]]
say([hashlib.sha256(np.asarray(o).tobytes()).hexdigest() for o in out])
""")
    assert len(device) > 500 and device == cpu, [k for k, (a, b) in enumerate(zip(device, cpu)) if a != b]


SPLIT = """
rng = np.random.default_rng(0)
def draw(*shape, dtype="f4"):
    if dtype[0] == "c": return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * (3 if dtype[0] in "iu" else 1)).astype(dtype)
def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
def launches(out):
    before = fake_gpu.counts()
    frit.eval(out); frit.synchronize()
    return fake_gpu.counts()["n_launches"] - before["n_launches"]
wrong = []
"""


def test_long_rows_are_shared_by_blocks():
    """NumPy's bits in any number of pieces, of each reduction and dtype; a launch for the pieces and one for the rows."""
    assert said(SPLIT + """
names = {"f2": "sum max argmin mean", "f4": "sum max min argmax any all mean var std", "f8": "sum argmin mean var", "c8": "sum mean any", "c16": "sum",
         "i4": "sum prod max argmax", "u1": "sum min argmin any", "?": "any all sum argmax"}
for dtype, functions in names.items():
    for a in (draw(16384, dtype=dtype), draw(40007, dtype=dtype)[::-1], draw(2, 50000, dtype=dtype)[:, 1:49990], draw(3, 70000, dtype=dtype)[:, ::-2]):
        t = frit.asarray(a)
        for name in functions.split():
            got = getattr(t, name)(-1)
            n = launches(got)
            if not same(got, getattr(a, name)(-1)) or n != 2 and name not in ("var", "std") and (dtype, name) != ("f2", "mean"):
                wrong.append([dtype, a.shape, name, n])
a = draw(30, 40, 50); a[3, 4, 5] = np.nan
t = frit.asarray(a)
for f in (lambda a: a.sum(), lambda a: a.sum(keepdims=True), lambda a: a.max(), lambda a: a.reshape(-1, 50).sum(), lambda a: a.argmax(), lambda a: a[1:].min(),
          lambda a: a[::-1].sum(), lambda a: (a * a + 1).sum(), lambda a: a.astype("f8").sum()):
    if not np.array_equal(f(t), f(a), equal_nan=True): wrong.append([str(f(t)), str(f(a))])
short = [draw(n) for n in (0, 1, 7, 129, 16383)]
wrong += [[a.size] for a in short if not same(frit.asarray(a).sum(), a.sum()) or launches(frit.asarray(a).sum()) != 1]
say(wrong)
""", FRIT_EAGER_ELEMS="0") == []


def test_stages_of_long_rows_are_launches():
    """Each reads the row once, and what lies between is small; products of floats are one thread's, in order."""
    assert said(SPLIT + """
x = draw(2, 90000)
t = frit.asarray(x)
programs = {"softmax": lambda a, m: (lambda e: e / e.sum(1, keepdims=True))(m.exp(a - a.max(1, keepdims=True))),
            "logsumexp": lambda a, m: m.log(m.exp(a - a.max(1, keepdims=True)).sum(1)), "norm": lambda a, m: a - a.mean(1, keepdims=True)}
host = {}
for name, f in programs.items():
    out = f(t, frit)
    before = fake_gpu.counts()
    n = launches(out)
    c = fake_gpu.counts()
    loads, stores = ((c[k] - before[k]) / x.nbytes for k in ("load_bytes", "store_bytes"))
    if [n, round(loads, 1), round(stores, 1)] != {"softmax": [3, 3, 1], "logsumexp": [3, 2, 0], "norm": [2, 2, 1]}[name]: wrong.append([name, n, loads, stores])
    host[name] = np.asarray(out).tobytes().hex()
if not same(t.mean(1), x.mean(1)) or not same(t - t.mean(1, keepdims=True), x - x.mean(1, keepdims=True)): wrong.append("norm")
y = (1 + draw(20000) * 0.001).astype("f4")
if not same(frit.asarray(y).prod(), y.prod()) or launches(frit.asarray(y).prod()) != 1: wrong.append("prod")
z = frit.asarray(draw(50000)); w = np.asarray(z).copy()
z -= z.mean(); w -= w.mean()
if not same(z, w): wrong.append("in place")
say(wrong)
""", FRIT_EAGER_ELEMS="0") == []


MODEL_OF_COLUMNS = SPLIT + """
def lines(x, n, op):                            # line k takes rows k, k + n, ...
    out = x[:n].copy() if len(x) >= n else np.concatenate([x, np.full((n - len(x), x.shape[1]), op.identity, x.dtype)])
    if op is np.add: out = out + np.zeros(1, x.dtype)
    for k in range(n, len(x), n): out[:len(x[k:k + n])] = op(out[:len(x[k:k + n])], x[k:k + n])
    return out
def halves(x, op):                              # of lines [block, line, column]
    while x.shape[1] > 1: x = op(x[:, :x.shape[1] // 2], x[:, x.shape[1] // 2:])
    return x[:, 0]
def tree(x, op=np.add):
    wide = min(32, 1 << (x.shape[1] - 1).bit_length())
    high = 256 // wide
    blocks = max(1, min(len(x) // (16 * high), 1024 // -(-x.shape[1] // wide)))
    parts = halves(lines(x, blocks * high, op).reshape(blocks, high, -1), op)
    return parts[0] if blocks == 1 else halves(lines(parts, high, op)[None], op)[0]
"""


def test_few_columns_have_a_tree():
    """The one of csrc/NUMERICS.md, by shape alone: its bits against a model. Others have NumPy's."""
    assert said(MODEL_OF_COLUMNS + """
for dtype in "f2 f4 f8 c8 c16".split():
    for shape in (4096, 2), (5001, 4), (70000, 3), (4097, 40), (9000, 100):
        a = draw(*shape, dtype=dtype)
        if dtype == "f2": a = (a * 0.1).astype("f2")
        for b in (a, a[::-1]) if shape[1] == 4 else (a,):
            t = frit.asarray(b)
            got, before = np.asarray(t.sum(0)), _core.stats()
            if not same(got, tree(b)): wrong.append([dtype, shape, "sum"])
            wide = b.astype("c16" if dtype[0] == "c" else "f8")
            bound = abs(wide).sum(0) * np.finfo(dtype).eps * (shape[0] / 512 + 20)
            if (abs(got - wide.sum(0)) > bound).any(): wrong.append([dtype, shape, "bound"])
a = (1 + draw(6000, 5) * 0.01).astype("f8")
if not same(frit.asarray(a).prod(0), tree(a, np.multiply)): wrong.append("prod")
x, y = draw(5000, 6, dtype="f8"), draw(5000, 6, dtype="f8")
p = frit.asarray(x) * y
s, m = p.sum(0), p.max(0); del p
if launches([s, m]) != 3 or not same(s, tree(x * y)) or not same(m, (x * y).max(0)): wrong.append("two")
for shape in (4095, 4), (300, 50), (4096, 4096):                # NumPy's order
    a = draw(*shape)
    if not same(frit.asarray(a).sum(0), a.sum(0)): wrong.append(shape)
t = frit.asarray(x)
s = (t - t.mean(1, keepdims=True)).sum(0)       # rows with stages stream into the columns
if not same(s, tree(x - x.mean(1, keepdims=True))): wrong.append("stages")
a, b = draw(5000, 3, 4), draw(3, 1)
t = frit.asarray(a)
for s in t.sum(0), t.transpose(1, 0, 2).sum(1), frit.asarray(a.transpose(1, 0, 2).copy()).sum(1):
    if not same(s, tree(a.reshape(5000, 12)).reshape(3, 4)): wrong.append("kept axes")
p = t * b                                       # the same where kept axes do not merge, and where nothing is fused
s = p.sum(0)
frit.eval(p)
q = t * b; u = q.sum(0); del q
if not same(s, tree((a * b).reshape(5000, 12)).reshape(3, 4)) or not same(u, s): wrong.append("not merged")
a = draw(300, 40, 5)
if not same((frit.asarray(a) * draw(1)[0] * 0 + frit.asarray(a)).sum((0, 1)), tree(a.reshape(-1, 5))): wrong.append("walked")
say(wrong)
""", FRIT_EAGER_ELEMS="0") == []


@pytest.mark.soak
def test_rows_that_come_by_and_by_have_one_tree():
    """64 MB of rows with stages at a time, whose lines wait in memory for the next."""
    assert said(MODEL_OF_COLUMNS + """
x = draw(1400001, 3, dtype="c16")
t = frit.asarray(x)
s = (t - t.mean(1, keepdims=True)).sum(0)
say([launches(s), same(s, tree(x - x.mean(1, keepdims=True))), frit.stats()["device_trees"]])
""", FRIT_EAGER_ELEMS="0") == [5, True, 2]


def test_more_axes_than_a_kernel_has():
    """Those that do not join: the launcher walks the shortest of them, wherever they are."""
    assert said("""
rng = np.random.default_rng(0); out = []
def run(a, *axes):
    t = frit.asarray(a); r = t.transpose(axes) * 2 + frit.asarray(a.transpose(axes).copy())
    before = fake_gpu.counts()["n_launches"]
    frit.eval(r); frit.synchronize()
    n = fake_gpu.counts()["n_launches"] - before
    return n, bool((np.asarray(r) == a.transpose(axes) * 2 + a.transpose(axes)).all())
for dims, axes in ((3, 4, 5, 2, 3, 6, 7), (6, 4, 2, 0, 5, 3, 1)), ((2, 7, 3, 5, 2, 4, 3, 4), (7, 5, 3, 1, 6, 4, 2, 0)), ((4, 5, 3, 4, 5, 2, 3), (0, 2, 1, 4, 3, 6, 5)):
    out.append(run(rng.integers(0, 99, dims).astype("f4"), *axes))
say(out)
""", FRIT_EAGER_ELEMS="0") == [[3, True], [6, True], [3, True]]


def test_few_columns_of_what_is_exact():
    """Extremes, truths and sums of integers have NumPy's bits in any order; so have all where the way is left out."""
    program = SPLIT + """
for dtype in "f2 f4 f8 c8 i4 u1 ?".split():
    for shape in (256, 1), (5001, 4), (300, 500), (20000, 3):
        a = draw(*shape, dtype=dtype)
        if dtype[0] == "f": a[17, 0] = np.nan
        t = frit.asarray(a)
        for name in "max min any all" .split() + ["sum", "prod"] * (dtype[0] in "iu?"):
            got = getattr(t, name)(0)
            n = launches(got)
            if not same(got, getattr(a, name)(0)) or n != (2 if shape[0] > 4096 else n): wrong.append([dtype, shape, name, n])
"""
    assert said(program + "say(wrong)", FRIT_EAGER_ELEMS="0") == []
    assert said(SPLIT + """
for shape in (5001, 4), (70000, 3), (4096, 40):
    a = draw(*shape)
    t = frit.asarray(a)
    if launches(t.sum(0)) != 1 or not same(t.sum(0), a.sum(0)) or not same(t.mean(0), a.mean(0)): wrong.append(shape)
say(wrong)
""", FRIT_EAGER_ELEMS="0", FRIT_OFF="device_trees") == []


def test_lines_share_columns_in_order():
    """NumPy's bits: one line of a block adds what the others have read. (Barriers prove that it ran so.)"""
    assert said(SPLIT + """
def barriers(out):
    before = fake_gpu.counts()["n_barriers"]
    n = launches(out)
    return n, fake_gpu.counts()["n_barriers"] - before > 0
for dtype in "f2 f4 f8 c8 c16".split():
    for shape in (64, 1), (65, 3), (300, 50), (4095, 2), (130, 5000), (2, 100, 7), (100, 2, 9), (3, 70, 4, 5):
        a = draw(*shape, dtype=dtype)
        for b in (a, a[::-1], a[..., ::-1]) if len(shape) > 2 or shape[0] < 100 else (a,):
            for axis in (0,) if b.ndim == 2 else (0, 1, (0, 1)):
                got = frit.asarray(b).sum(axis)
                n, shared = barriers(got)
                if not same(got, b.sum(axis)) or n != 1: wrong.append([dtype, shape, axis, n])
                if b.ndim == 2 and b.shape[1] > 1 and not shared: wrong.append([dtype, shape, "not shared"])
a, b = draw(500, 40, dtype="f8"), draw(500, dtype="f8")
p = frit.asarray(a) * frit.asarray(b)[:, None] + 1
out = [p.sum(0), p.prod(0), p]; del p
if barriers(out) != (1, True): wrong.append("several")
w = a * b[:, None] + 1
if not all(map(same, out, [w.sum(0), w.prod(0), w])): wrong.append("values")
a = draw(64, 64); a[5] = -0.0
if not same(frit.asarray(a[5:6].repeat(70, 0)).sum(0), a[5:6].repeat(70, 0).sum(0)): wrong.append("zeros")
if barriers(frit.asarray(draw(63, 40)).sum(0)) != (1, False) or barriers(frit.asarray(draw(70, 0)).sum(0))[0] > 1: wrong.append("short")
say(wrong)
""", FRIT_EAGER_ELEMS="0") == []


def test_the_least_bytes_move_where_outputs_are_few():
    """Many blocks, one more launch, and next to nothing between them."""
    assert said(SPLIT + """
x = draw(1 << 20)
t = frit.asarray(x)
for name, f in {"sum": lambda t: t.sum(), "max": lambda t: t.max(), "columns": lambda t: t.reshape(-1, 4).sum(0), "column": lambda t: t.reshape(-1, 1).max(0)}.items():
    out = f(t)
    before = fake_gpu.counts()
    n = launches(out)
    c = {key: v - before[key] for key, v in fake_gpu.counts().items()}
    if n != 2 or c["load_bytes"] + c["store_bytes"] > 1.01 * x.nbytes or c["load_sectors"] > 1.05 * c["ideal_load_sectors"] or c["n_lane_instructions"] > 40 * x.size:
        wrong.append([name, n, c])
say(wrong)
""", FRIT_JIT="auto") == []


def test_products_scans_and_takes_stay_there():
    """Kernels of our own, without a copy to the host on the way. A product's elements are added one after the other."""
    assert said("""
rng = np.random.default_rng(0)
def same(got, want):
    got = np.asarray(got)
    return got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()
def one_by_one(a, b):
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]): out = out + a[:, k:k + 1] * b[k]
    return out
wrong = []
for dtype in "f4 f8 c8 c16 i4 u1 ?".split():
    a, b = ((rng.normal(size=s) * 3).astype(dtype) for s in ((70, 33), (33, 130)))
    t, u = frit.asarray(a) | False if dtype == "?" else frit.asarray(a) + 0, frit.asarray(b)
    frit.eval(t)
    out = [t @ u, t.T[:5] @ t, frit.cumsum(t, axis=0), frit.take(t, np.array([3, -1, 0]), axis=0), frit.take(t, np.array([[2, 1]]), axis=1)]
    before = _core.stats()["n_copies_out"]
    frit.eval(out)
    copies = _core.stats()["n_copies_out"] - before
    if dtype[0] in "iu?":
        want = [a @ b, a.T[:5] @ a]
    else:
        want = [one_by_one(a, b), one_by_one(a.T[:5], a)] if dtype[0] == "f" else [None, None]
    want += [np.cumsum(a, axis=0), a[[3, -1, 0]], a[:, [[2, 1]]]]
    wrong += [[dtype, k, copies] for k, (o, w) in enumerate(zip(out, want)) if w is not None and not same(o, w)] + [[dtype, copies]] * (copies > 0)
    if dtype[0] == "c" and not np.allclose(np.asarray(out[0]), a @ b, rtol=1e-4, atol=1e-3): wrong.append([dtype, "product"])
say(wrong)
""", FRIT_OFF="device_blas") == []


PRODUCTS = """
rng = np.random.default_rng(0)
def draw(*shape, dtype="f4"): return rng.integers(-4, 5, size=shape).astype(dtype)
def there(*arrays):
    out = [frit.asarray(a) | False if a.dtype == bool else frit.asarray(a) + 0 for a in arrays]
    frit.eval(*out)
    frit.synchronize()
    return out
def ways():
    s, p = _core.stats(), fake_gpu.products()
    return np.array([p["n_gemms"], p["n_batched"], p["n_products"], s["n_device_blas"], s["n_device_products"], s["n_copies_out"]])
def multiply(f, *arrays):
    # Whether it has the right values, and the way that it took.
    tensors = there(*arrays)
    before = ways()
    got = f(*tensors)
    frit.eval(got)
    way = ways() - before
    got, want = np.asarray(got), np.asarray(f(*arrays))
    return [bool(got.dtype == want.dtype and got.shape == want.shape and (got == want).all()), *way.tolist()]
"""

# How a and b lie: shapes, the product, calls of gemm, of batches, and products in these; NONE: kernels of our own.
NONE = None
LAYOUTS = {
    "as they are": ((7, 5), (5, 9), "a @ b", 1, 0, 1), "a transposed": ((5, 7), (5, 9), "a.T @ b", 1, 0, 1),
    "b transposed": ((7, 5), (9, 5), "a @ b.T", 1, 0, 1), "both transposed": ((5, 7), (9, 5), "a.T @ b.T", 1, 0, 1),
    "by itself": ((5, 7), (1,), "a.T @ a", 1, 0, 1), "parts": ((9, 8), (9, 9), "a[1:8, 2:7] @ b[3:8, 1:]", 1, 0, 1),
    "parts, transposed": ((9, 8), (9, 9), "a[1:6, 2:7].T @ b[3:8, 1:]", 1, 0, 1), "every other row": ((9, 8), (8, 9), "a[::2] @ b", 1, 0, 1),
    "every other column": ((9, 16), (8, 9), "a[:, ::2] @ b", *[NONE] * 3), "rows backwards": ((9, 8), (8, 9), "a[::-1] @ b", *[NONE] * 3),
    "one row as many": ((1, 8), (8, 9), "xp(a).broadcast_to(a, (4, 8)) @ b", *[NONE] * 3),
    "vector, matrix": ((8,), (8, 9), "a @ b", 1, 0, 1), "matrix, vector": ((9, 8), (8,), "a @ b", 1, 0, 1),
    "matrix, parts of a vector": ((9, 8), (24,), "a @ b[::3]", 1, 0, 1), "parts of a vector, matrix": ((24,), (8, 9), "a[1::3] @ b", 1, 0, 1),
    "vector backwards": ((9, 8), (8,), "a @ b[::-1]", *[NONE] * 3), "vectors": ((8,), (8,), "a @ b", 1, 0, 1),
    "one column": ((8, 3), (3, 1), "a @ b", 1, 0, 1), "one element": ((1, 3), (3, 1), "a @ b", 1, 0, 1),
    "stack, one matrix": ((4, 6, 5), (5, 3), "a @ b", 1, 0, 1), "stack, vector": ((4, 6, 5), (5,), "a @ b", 1, 0, 1),
    "vector, stack": ((6,), (4, 6, 5), "a @ b", 0, 1, 4), "one matrix, stack": ((6, 5), (4, 5, 3), "a @ b", 0, 1, 4),
    "stacks": ((4, 6, 5), (4, 5, 3), "a @ b", 0, 1, 4), "stacks of stacks": ((2, 3, 4, 6, 5), (2, 3, 4, 5, 3), "a @ b", 0, 1, 24),
    "stacks that are broadcast": ((2, 1, 4, 6, 5), (3, 1, 5, 3), "a @ b", 6, 0, 6), "both broadcast": ((3, 1, 6, 5), (2, 5, 4), "a @ b", 0, 3, 6),
    "stack transposed": ((4, 5, 6), (4, 5, 3), "a.swapaxes(1, 2) @ b", 0, 1, 4),
    "heads": ((4, 6, 2, 5), (4, 6, 2, 5), "a.swapaxes(1, 2) @ b.transpose(0, 2, 3, 1)", 0, 4, 8),
    "stack backwards": ((4, 6, 5), (4, 5, 3), "a[::-1] @ b", *[NONE] * 3), "rows of a stack": ((4, 1, 5), (5, 3), "a @ b", 1, 0, 1),
    "nothing to add": ((7, 0), (0, 9), "a @ b", *[NONE] * 3),
}


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_products_by_cublas(dtype):
    """However operands lie: those that BLAS takes go as they are, without a copy, and in as few calls as may be."""
    found = said(f"DTYPE, LAYOUTS = {dtype!r}, {[(a, b, f) for a, b, f, *_ in LAYOUTS.values()]}\n" + PRODUCTS + """
def xp(a): return frit if isinstance(a, frit.Tensor) else np
say([multiply(eval("lambda a, b: " + f), draw(*a, dtype=DTYPE), draw(*b, dtype=DTYPE)) for a, b, f in LAYOUTS])
""")
    for (name, (*_, gemms, batched, products)), got in zip(LAYOUTS.items(), found):
        assert got == [True, *([0, 0, 0, 0, 1] if gemms is NONE else [gemms, batched, products, 1, 0]), 0], name


def test_products_that_are_not_for_cublas():
    """Integers, bools, einsum's order, and what is left out, are kernels of our own; of nothing there is nothing to run."""
    code = PRODUCTS + """
i, j = draw(7, 5, dtype="i4"), draw(5, 9, dtype="i4")
f, g = draw(7, 5), draw(5, 9)
say([multiply(lambda a, b: a @ b, i, j), multiply(lambda a, b: a @ b, i > 0, j > 0), multiply(lambda a, b: a @ b, f, g),
     multiply(lambda a, b: (frit if isinstance(a, frit.Tensor) else np).einsum("ij,jk->ik", a, b), f, g),
     multiply(lambda a, b: a @ b, f[:0], g)])
"""
    ours, blas, nothing = [True, 0, 0, 0, 0, 1, 0], [True, 1, 0, 1, 1, 0, 0], [True, 0, 0, 0, 0, 0, 0]
    assert said(code) == [ours, ours, blas, ours, nothing]
    assert said(code, FRIT_OFF="device_blas") == [ours, ours, ours, ours, nothing]
    assert all(way[:6] == nothing[:6] for way in said(code, FRIT_OFF="device_products"))      # (the host's)


def test_any_views_of_products():
    """Drawn at random: NumPy's values, and nobody but cuBLAS's fake says what it does not take."""
    wrong, by_blas, others = said(PRODUCTS + """
def view(a):
    key = tuple(slice(int(rng.integers(0, 2)), n - int(rng.integers(0, 2)), int(rng.choice([1] * 7 + [2]))) for n in a.shape)
    back = tuple(slice(None, None, int(rng.choice([1] * 19 + [-1]))) for _ in a.shape)
    return lambda t: t[key][back]
def fit(f, g, swap):
    # A product of both, cut to a common size.
    def product(a, b):
        a, b = f(a), g(b)
        if swap[0] and a.ndim > 1: a = a.swapaxes(-1, -2)
        if swap[1] and b.ndim > 1: b = b.swapaxes(-1, -2)
        k = min(a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[-1])
        a, b = a[..., :k], b[..., :k, :] if b.ndim > 1 else b[:k]
        for axis in range(3, 1 + min(a.ndim, b.ndim)):
            n = min(a.shape[-axis], b.shape[-axis])
            a, b = (t[tuple([slice(None)] * (t.ndim - axis) + [slice(n)])] for t in (a, b))
        return a @ b
    return product
wrong, by_blas, others = [], 0, 0
for i in range(150):
    dtype = rng.choice(list("efdFD"))
    a, b = (draw(*rng.integers(4, 9, size=rng.integers(1, 5)), dtype=dtype) for _ in range(2))
    right, *way = multiply(fit(view(a), view(b), rng.integers(0, 2, size=2)), a, b)
    by_blas += way[3]
    others += way[4]
    if not right: wrong.append([i, str(dtype), a.shape, b.shape, way])
say([wrong, by_blas, others])
""")
    assert wrong == [] and by_blas > 50 and others > 20, (wrong, by_blas, others)


def test_halves_are_added_as_f32():
    """Sums that halves can not hold on the way, rounded once at the end."""
    assert said(PRODUCTS + """
a = np.array([[1000, 30000, 2049, 1, -30000, -30000] * 3], "e"); b = np.array([[1, 2, 1, 1, 1, 1] * 3], "e").T
say(multiply(lambda a, b: a @ b, a, b))
""") == [True, 1, 0, 1, 1, 0, 0]


def test_products_wait_in_the_stream():
    """They run when somebody waits, behind what they read and before what reads them."""
    assert said(PRODUCTS + """
a, b = draw(30, 20), draw(20, 10)
t, u = frit.asarray(a), frit.asarray(b)
c = ((t * 2) @ u + 1) @ (u.T - 1)
frit.eval(c)
late = fake_gpu.counts()["n_instructions"]
say([late, fake_gpu.products()["n_gemms"], bool((np.asarray(c) == (a * 2 @ b + 1) @ (b.T - 1)).all())])
""") == [0, 2, True]


def test_one_handle_and_one_workspace():
    """When the first product wants them; of a fixed size; not memory of arrays; gone at the end."""
    before, after, left = said(PRODUCTS + """
def state(): return [fake_gpu.products()["n_handles"], fake_gpu.counts()["bytes_live"], _core.stats()["live_bytes"]]
t, u = there(draw(64, 64), draw(64, 64))
before = state()
for _ in range(5): frit.eval(t @ u)
frit.synchronize()
gc.collect()
after = state()
_core._stop()
c = fake_gpu.counts()
say([before, after, [fake_gpu.products()["n_handles"], *(c[k] for k in ("n_streams", "n_pools", "n_contexts"))]])
""")
    assert before[0] == 0 and after == [1, before[1] + (32 << 20), before[2]] and left == [0, 0, 0, 0]


@pytest.mark.parametrize("why, env", [
    ("there is no cuBLAS", {"FRIT_CUBLAS_LIB": "/nowhere/libcublas.so"}), ("is for CUDA 99, and the driver for CUDA 13", {"FAKE_CUBLAS_MAJOR": "99"}),
    ("it has no cublasGetProperty", {"FRIT_CUBLAS_LIB": "libm.so.6"})])
def test_without_cublas(why, env):
    """Products are kernels of our own, and those who debug are told once."""
    done = child(PRODUCTS.replace("fake_gpu.products()", "dict.fromkeys(['n_gemms', 'n_batched', 'n_products'], 0)") + """
a, b = draw(7, 5), draw(5, 9)
say([multiply(lambda a, b: a @ b, a, b) for _ in range(2)])
""", FRIT_DEBUG="1", **env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [[True, 0, 0, 0, 0, 1, 0]] * 2
    assert [why in line for line in done.stderr.splitlines() if "products on" in line] == [True], done.stderr


FAILING_PRODUCT = PRODUCTS + """
lib = ctypes.CDLL(os.environ["FRIT_CUBLAS_LIB"])
def fail(function, status=0): lib.fake_cublas_fail(function.encode(), status)
lib.fake_cuda_fail.argtypes = lib.fake_cuda_lose.argtypes = [ctypes.c_uint64]
x, y = draw(4, 30, 20), draw(4, 20, 10)
def work(): return np.asarray(frit.asarray(x) @ frit.asarray(y)).copy()
want = x @ y
"""


@pytest.mark.parametrize("function", ["cublasSetStream_v2", "cublasSetWorkspace_v2", "cublasSetMathMode", "gemm"])
@pytest.mark.parametrize("status, kind, name", [(14, "RuntimeError", "INTERNAL_ERROR"), (3, "MemoryError", "ALLOC_FAILED")])
def test_a_call_of_cublas_fails(function, status, kind, name):
    """An error of the right type that says cuBLAS's name of it; the next product is well, and nothing is left behind."""
    first, again, left = said(FAILING_PRODUCT + f"""
fail({function!r}, {status})
first = error(work)
fail("")
again = [bool((work() == want).all()), _core.stats()["n_device_products"]]
gc.collect()
_core._stop()
say([first, again, [fake_gpu.counts()["n_blocks_live"], fake_gpu.products()["n_handles"]]])
""")
    assert first[0] == kind and f"CUBLAS_STATUS_{name}" in first[1] and again == [True, 0] and left == [0, 0], (first, again, left)


def test_a_handle_can_not_be_made():
    """Kernels of our own do without; where there was no memory for it this is an error, for their bits are others."""
    code = FAILING_PRODUCT + """
fail("cublasCreate_v2", STATUS)
first = error(work)
fail("")
right = bool((work() == want).all())
say([first, right, _core.stats()["n_device_blas"], fake_gpu.products()["n_handles"]])
"""
    assert said("STATUS = 1\n" + code) == [None, True, 0, 0]
    first, *rest = said("STATUS = 3\n" + code)
    assert first[0] == "MemoryError" and "CUBLAS_STATUS_ALLOC_FAILED" in first[1] and rest == [True, 1, 1]


def test_what_a_device_has_no_kernel_for():
    """cuBLAS says so when it is called: kernels of our own run that product, and the next one asks again."""
    assert said(FAILING_PRODUCT + """
fail("gemm", 15)
right = [bool((work() == want).all())]
fail("")
right += [bool((work() == want).all())]
s = _core.stats()
say([right, s["n_device_blas"], s["n_device_products"]])
""") == [[True, True], 1, 1]


def test_the_nth_call_of_the_driver_fails_below_a_product():
    wrong, n, handles, left = said(FAILING_PRODUCT + """
n, wrong = 0, []
while True:
    n += 1
    before = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try:
        got = work()
    except RuntimeError as e:
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if not (got == want).all(): wrong.append([n, "values"])
        if fake_gpu.counts()["n_calls"] - before < n: break
lib.fake_cuda_fail(0)
gc.collect()
_core._stop()
say([wrong, n, fake_gpu.products()["n_handles"], fake_gpu.counts()["n_blocks_live"]])
""")
    assert wrong == [] and n > 10 and handles == 0 and left <= 2, (wrong, n, handles, left)


def test_an_allocation_of_the_first_product_fails():
    """A MemoryError, or the right values at a second try; the next one is well, and nothing is left."""
    for n in range(1, 7):
        first, right, left = said(FAILING_PRODUCT + f"""
t, u = there(x, y)
with frit.config(fail_alloc={n}): first = error(lambda: frit.eval(t @ u))
right = bool((np.asarray(t @ u) == want).all())
del t, u
gc.collect()
_core._stop()
say([first, right, [fake_gpu.products()["n_handles"], fake_gpu.counts()["n_blocks_live"]]])
""")
        assert first is None or first[0] == "MemoryError", (n, first)
        assert right and left == [0, 0], (n, right, left)


def test_the_handle_goes_before_the_process():
    done = subprocess.run([sys.executable, "-c", "import atexit\natexit.register(lambda: say([fake_gpu.products()['n_handles'],"
                           " fake_gpu.counts()['n_contexts']]))\n" + HEAD + FAILING_PRODUCT + "work()\n"], capture_output=True, text=True,
                          env={**os.environ, "FRIT_BACKEND": "cpu", **fake_gpu.environment()})
    assert done.returncode == 0 and json.loads(done.stdout) == [0, 0], (done.stdout, done.stderr)


def test_no_memory_for_a_workspace():
    kind, text, right = said(FAILING_PRODUCT + """
e = error(work)
say([*e, bool((np.asarray(frit.asarray(x) + 1) == x + 1).all())])
""", FAKE_CUDA_MB="16")
    assert kind == "MemoryError" and right


def test_a_product_on_a_lost_device():
    kind, text = said(FAILING_PRODUCT + """
work()
lib.fake_cuda_lose(1)
error(lambda: np.asarray(frit.asarray(x) + 1))
say(error(work))
""")
    assert kind == "RuntimeError" and "CUDA" in text


def test_importing_opens_nothing():
    assert said("""
maps = open("/proc/self/maps").read()
say([os.environ["FRIT_CUDA_LIB"] in maps, "nvrtc" in maps])
""") == [False, False]


def test_without_a_driver():
    kind, text = said("say(error(lambda: frit.eval(frit.ones(3) + 1)))", FRIT_CUDA_LIB="/nowhere/libcuda.so.1")
    assert kind == "RuntimeError" and "no CUDA driver" in text and "/nowhere/libcuda.so.1" in text
    kind, text = said("say(error(lambda: frit.eval(frit.ones(3) + 1)))", FRIT_CUDA_LIB=gpu.compiler()._name)
    assert kind == "RuntimeError" and "CUDA driver" in text and "cuInit" in text


def test_a_device_that_is_not_there():
    kind, text = said("say(error(lambda: frit.eval(frit.ones(3) + 1)))", FRIT_DEVICE="cuda:5")
    assert kind == "RuntimeError" and "no device cuda:5" in text and "cuda:1" in text
    assert said("say(np.asarray(frit.ones(3) + 1).tolist())", FRIT_DEVICE="cuda:1") == [2, 2, 2]


def test_without_a_compiler():
    kind, text = said("say(error(lambda: frit.eval(frit.ones(3) + 1)))", FRIT_NVRTC_LIB="/nowhere/libnvrtc.so")
    assert kind == "RuntimeError" and "NVRTC" in text and "/nowhere/libnvrtc.so" in text


MANY = """
sizes = [(98, 64), (256,), (64, 128), (128,), (128, 10), (10,), (3, 3, 16, 32), (1000, 7), (4097,), (16387,), (1,), (0, 3)] * 5
rng = np.random.default_rng(0)
def draw(): return [frit.asarray(rng.normal(size=s).astype("f4")) for s in sizes]
w, g, m, v = draw(), draw(), draw(), draw()
v = [x * x for x in v]; frit.eval(v)
n = []
for t in range(1, 5):
    before = fake_gpu.counts()["n_launches"] if "FRIT_CUDA_LIB" in os.environ and frit.device() != "cpu" else 0
    for i in range(len(w)):
        m[i] = 0.9 * m[i] + 0.1 * g[i]
        v[i] = 0.999 * v[i] + 0.001 * (g[i] * g[i])
        w[i] = w[i] - 0.001 * (m[i] / (1 - 0.9 ** t)) / (frit.sqrt(v[i] / (1 - 0.999 ** t)) + 1e-8)
    frit.eval(w, m, v)
    n.append(fake_gpu.counts()["n_launches"] - before if before else 0)
say([n, [np.asarray(x).tobytes().hex() for x in (*w, *m, *v)]])
"""


def test_many_tensors_are_few_launches():
    """An optimizer's step over sixty tensors: their arguments are a table, and numbers change from step to step."""
    device, cpu = both(MANY)
    assert device[1] == cpu[1]
    assert 0 < max(device[0]) <= 4, device[0]


def test_many_with_windows_rows_and_other_dtypes():
    """Instances that lie in other ways, and whose vectors are aligned in some calls and not in others."""
    device, cpu = both("""
out = []
for d in ("f8", "i2", "c8", "?"):
    base = [frit.asarray((np.arange(40 * (k + 3)) % 7).reshape(-1, 8).astype(d)) for k in range(9)]
    frit.eval(base)
    for shift in (0, 1, 0):
        parts = [b[shift:, shift:] for b in base] + [b.T for b in base] + [b[::2] for b in base]
        r = [p + p for p in parts]
        frit.eval(r)
        out += [np.asarray(x).tobytes().hex() for x in r]
flat = [frit.asarray(np.arange(200.0 + k)) for k in range(8)]
for shift in (0, 1, 2, 0):
    r = [f[shift:] * 2 for f in flat]; frit.eval(r); out += [np.asarray(x).tobytes().hex() for x in r]
say(out)
""")
    assert device == cpu


def test_what_runs_again_is_prepared():
    """The same launches in each run of a plan, with other memory and numbers: and with the same bits."""
    device, cpu = both("""
x = frit.asarray(np.arange(3000.0).reshape(30, 100))
out = []
for k in range(6):
    y = (x[k:k + 20] * float(k) + 1); z = y - y.max(1, keepdims=True); s = frit.exp(z / 1000).sum(1); c = y.sum(0); q = frit.cumsum(s)
    frit.eval(y, s, c, q)
    out += [np.asarray(t).tobytes().hex() for t in (y, s, c, q)]
say(out)
""")
    assert device == cpu


SCALED = """
def scaled(factors):                            # with their sums, so that none of it can be computed chunk by chunk
    some = [t * float(k) for k in factors]
    return some + [s.sum() for s in some]
"""


def test_memory_runs_out():
    """A typed error, and everything that was there is as it was; smaller things go on."""
    out = said(SCALED + """
x = np.arange(1 << 17, dtype="f8")
t = frit.asarray(x)
kept = t * 2
frit.eval(kept)
e = error(lambda: frit.eval(scaled(range(2, 9))))
say([e, bool((np.asarray(kept) == 2 * x).all()), np.asarray(t + 1)[5], x[5], 0])
""", FAKE_CUDA_MB="4")
    assert out[0][0] == "MemoryError" and "nable to allocate" in out[0][1] and out[1:4] == [True, 6, 5]


def test_fifty_times_out_of_memory_leaves_nothing_behind():
    assert said(SCALED + """
x = np.arange(1 << 17, dtype="f8")
t = frit.asarray(x)
n = 0
for k in range(50): n += error(lambda: frit.eval(scaled(range(2 + k, 9 + k))))[0] == "MemoryError"
gc.collect()
r = np.asarray(t + 1)[7]
del t
frit.synchronize()
say([n, r, fake_gpu.counts()["n_blocks_live"]])
""", FAKE_CUDA_MB="4") == [50, 8, 0]


FAILING = """
lib = ctypes.CDLL(os.environ["FRIT_CUDA_LIB"])
lib.fake_cuda_fail.argtypes = lib.fake_cuda_lose.argtypes = [ctypes.c_uint64]
x = np.arange(200.0).reshape(10, 20)
y = np.arange(20000.0)
def work():
    t = frit.asarray(x)
    a = frit.exp(t - t.max(1, keepdims=True))
    b = a / a.sum(1, keepdims=True)
    c = (b * t).sum(0)
    u = frit.asarray(y)                                                     # (blocks share these)
    return np.asarray(b).copy(), np.asarray(c).copy(), np.asarray(frit.cumsum(c)), np.asarray(u - u.mean()), np.asarray(u.reshape(-1, 4).sum(0))
want = work()
"""


def test_the_nth_call_of_the_driver_fails():
    """Each one in turn, until all is well: an error that names CUDA, or the right result; host data is whole, nothing is left."""
    n, wrong, left = said(FAILING + """
n, wrong = 0, []
while True:
    n += 1
    before = fake_gpu.counts()["n_calls"]
    lib.fake_cuda_fail(n)
    try:
        got = work()
    except RuntimeError as e:
        if "CUDA" not in str(e): wrong.append([n, str(e)])
    else:
        if any(g.tobytes() != w.tobytes() for g, w in zip(got, want)): wrong.append([n, "bits"])
        if fake_gpu.counts()["n_calls"] - before < n: break
    if x.tolist() != np.arange(200.0).reshape(10, 20).tolist(): wrong.append([n, "host"])
lib.fake_cuda_fail(0)
gc.collect()
frit.synchronize()
say([n, wrong, fake_gpu.counts()["n_blocks_live"]])
""")
    assert n > 40 and wrong == [] and left <= 2, (n, wrong, left)     # (a failing call may have been the one that frees)


def test_the_device_is_lost():
    out = said(FAILING + """
kept = frit.asarray(x) * 2
frit.eval(kept)
lib.fake_cuda_lose(2)
first = error(work)
again = error(work)
say([first, again, error(lambda: np.asarray(kept)), bool((x == np.arange(200.0).reshape(10, 20)).all())])
""")
    assert out[3] is True and [e[0] for e in out[:3]] == ["RuntimeError"] * 3 and all("CUDA" in e[1] for e in out[:3]), out


def test_a_child_says_that_it_has_no_device():
    out = said("""
a = frit.asarray(np.arange(5.0)) + 1
frit.eval(a)
read, write = os.pipe()
if not (pid := os.fork()):
    os.write(write, json.dumps([error(lambda: frit.eval(frit.ones(3) + 2)), error(lambda: np.asarray(a))]).encode())
    os._exit(0)
os.waitpid(pid, 0)
say([json.loads(os.read(read, 5000)), np.asarray(a).tolist()])
""")
    assert out[1] == [1, 2, 3, 4, 5]
    assert all(kind == "RuntimeError" and "forked" in text for kind, text in out[0]), out


def test_many_axes_and_operands():
    """More outer axes than a kernel has, arguments that are more than a launch takes."""
    device, cpu = both("""
rng = np.random.default_rng(1)
x = rng.normal(size=(2, 3, 2, 3, 2, 3, 2, 5))
t = frit.asarray(x)
axes = [(0, 2, 4, 6), (1, 3, 5), (0, 7), (0, 1, 2, 3, 4, 5, 6), (2, 5, 7)]
out = [frit.asarray(x.transpose(7, 1, 3, 5, 0, 6, 2, 4)[..., ::-1]) * 2 + 1, *(t.sum(a) for a in axes), *(t[:, ::2, :, 1:].max(a) for a in axes)]
many = [frit.asarray(rng.normal(size=9)) for _ in range(90)]
total = many[0] * 1.0
first = total
for k, v in enumerate(many[1:]): total = total + v * (k + 0.5)
say([np.asarray(o).tobytes().hex() for o in (*out, total, first)])
""")
    assert device == cpu


def test_nothing_is_left_at_the_end():
    """Contexts, streams, pools, modules and memory, when the engine has stopped."""
    assert said(FAILING + """
gc.collect()
_core._stop()
c = fake_gpu.counts()
say([c[k] for k in ("n_blocks_live", "n_streams", "n_pools", "n_contexts")])
""") == [0, 0, 0, 0]


def test_code_is_kept_on_disk(tmp_path):
    """A second process compiles nothing; an entry that somebody has changed is made again."""
    code = """
a = frit.asarray(np.arange(100.0))
r = np.asarray(frit.exp(a * 0.01).sum())
s = _core.stats()
say([float(r), s["n_compiled"], s["n_disk_hits"], s["n_disk_misses"]])
"""
    env = {"FRIT_CACHE_DIR": str(tmp_path / "cache"), "FRIT_CACHE": "1"}
    first, second = (said(code, **env) for _ in range(2))
    assert first[1:] == [1, 0, 1] and second == [first[0], 0, 1, 0]
    for entry in (tmp_path / "cache").rglob("*"):
        if entry.is_file() and entry.stat().st_size > 2000:
            entry.write_bytes(entry.read_bytes()[:-100] + bytes(100))
    assert said(code, **env) == [first[0], 1, 0, 1]


def test_kernels_are_compiled_before_they_are_wanted():
    """Those of a plan by threads of our own, as soon as it is made; nothing is compiled twice, and what nobody launches goes."""
    n, compiled, more, live = said("""
x = frit.asarray(np.arange(4000.0).reshape(40, 100))
def f(x):
    a = frit.cumsum(x * 2 + 1, axis=0)
    b = frit.cumsum(frit.exp(a * 1e-6), axis=1)
    return b - b.mean(1, keepdims=True)
frit.eval(f(x))
frit.synchronize()
first = _core.stats()
frit.eval(f(x))
again = _core.stats()
say([first["n_kernels"], first["n_compiled"], again["n_compiled"] - first["n_compiled"], 0])
""", FRIT_CACHE="0")
    assert n == 5 and compiled == 4 and more == 0, (n, compiled, more)      # (both scans are one kernel)


def test_forms_for_few_outputs_are_the_ones_that_are_compiled():
    """What is asked for while a plan is made is what is launched, folds included: nothing is compiled for nobody."""
    assert said("""
out = []
for shape, f in ((50000,), lambda t: t.sum()), ((5000, 4), lambda t: t.sum(0)), ((500, 40), lambda t: t.sum(0)), ((5000, 6), lambda t: (t - t.mean(1, keepdims=True)).sum(0)):
    t = frit.asarray(np.ones(shape))
    before = fake_gpu.counts()["n_modules"], _core.stats()["n_compiled"]
    frit.eval(f(t)); frit.synchronize()
    out.append([fake_gpu.counts()["n_modules"] - before[0], _core.stats()["n_compiled"] - before[1]])
say(out)
""", FRIT_CACHE="0", FRIT_EAGER_ELEMS="0") == [[1, 1], [2, 2], [1, 1], [1, 1]]


def test_the_page_of_what_a_gpu_reaches(tmp_path):
    """benchmarks/gpu.py runs to its end, here over little and once: all programs, a step, plans, and no memory."""
    page = tmp_path / "gpu.html"
    done = subprocess.run([sys.executable, "-m", "benchmarks.gpu", "--mb", "0.02", "--row", "64", "--rounds", "1", "--runs", "1", "--memory-mb", "16",
                           "--memory-times", "3",
                           "--network", "8,20,16,16,10", "--plans", "4", "--html", page], capture_output=True, text=True,
                          env={**os.environ, "FRIT_BACKEND": "cpu", **fake_gpu.environment(FAKE_CUDA_MB="64")})
    assert done.returncode == 0, done.stderr
    assert "out of memory 3 times; after it all goes on" in done.stdout and "Error" not in done.stdout, done.stdout
    text = page.read_text()
    assert all(f"<th>{name}</th>" in text for name in ("copy", "chain of 50", "layer norm back", "adam of 100", "frit")) and text.count("<svg") == 1
