"""Nests as text and bytes, and the C and CUDA text printed from them.

The C text is compiled by the machine's compiler and compared with NumPy bit for bit (any NaN equals
any NaN); the CUDA text is run thread by thread on the processor, under sanitizers, and on a device
where there is one.
`python -m tests.test_text --bless` rewrites what tests/golden/text expects."""
import ctypes
import functools
import os
import pathlib
import platform
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import frit

from . import gpu
from .common import ASSERTED, MICRO_CODE, REFERENCE, block_kernels, in_csrc, objects

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = sorted((ROOT / "tests/golden/text").glob("*.nest"))
DIALECTS = {0: ".c", 1: ".cu"}
DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
          "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
SIZES = [0, 1, 3, 4, 7, 8, 9, 31, 64, 65, 127, 128, 129, 200, 255, 256, 1000, 1031, 5000]
FLAGS = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-lm"]


# ---- the C code under test, and what it prints --------------------------------------------------

class Err(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("text", ctypes.c_char * 480)]


class Text(ctypes.Structure):
    _fields_ = [("s", ctypes.c_char_p), ("n", ctypes.c_size_t), ("cap", ctypes.c_size_t),
                ("helpers", ctypes.c_uint32), ("st", ctypes.c_int)]


def build_lib(tmp):
    so = os.path.join(tmp, "text.so")
    made = objects(in_csrc(*(f"jit/emit_{part}.c" for part in ("text", "nest", "stage", "c", "cuda", "split", "tile", "source", "product", "scan", "take", "chosen")), *MICRO_CODE, *REFERENCE), *ASSERTED)
    subprocess.run(["cc", "-shared", *made, "-o", so, "-lm", "-lpthread"], check=True)
    lib = ctypes.CDLL(so)
    lib.fr_nest_pack.restype = lib.fr_nest_scratch.restype = ctypes.c_size_t
    lib.fr_alloc_live.restype = ctypes.c_long
    lib.fr_nest_pack.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    lib.fr_nest_unpack.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_void_p] * 2]
    lib.fr_nest_print.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    lib.fr_nest_parse.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.fr_nest_free.argtypes = [ctypes.c_void_p]
    lib.fr_nest_scratch.argtypes = [ctypes.c_void_p]
    lib.fr_nest_rowbuf.argtypes = [ctypes.c_void_p, ctypes.c_int]
    lib.fr_text_nest.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    lib.fr_cuda_row_bytes.restype = lib.fr_cuda_piece_bytes.restype = ctypes.c_size_t
    lib.fr_cuda_row_bytes.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    lib.fr_cuda_piece_bytes.argtypes = [ctypes.c_void_p]
    lib.fr_recipe_exists.restype = ctypes.c_bool
    lib.fr_nest_crosses.restype = ctypes.c_bool
    lib.fr_nest_crosses.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return lib


class Broken(Exception):
    pass


class Nest:
    """A nest of the C code, from its text or its bytes."""

    def __init__(self, lib, text=None, raw=None):
        self.lib, self.p, err = lib, ctypes.c_void_p(), Err()
        if text is not None:
            st = lib.fr_nest_parse(text.encode(), ctypes.byref(self.p), ctypes.byref(err))
        else:
            st = lib.fr_nest_unpack(raw, len(raw), ctypes.byref(self.p), ctypes.byref(err))
        if st:
            raise Broken(err.text.decode())

    def __del__(self):
        self.lib.fr_nest_free(self.p)

    def __str__(self):
        n = self.lib.fr_nest_print(self.p, None, 0)
        buf = ctypes.create_string_buffer(n + 1)
        self.lib.fr_nest_print(self.p, buf, n + 1)
        return buf.value.decode()

    def pack(self):
        n = self.lib.fr_nest_pack(self.p, None, 0)
        buf = ctypes.create_string_buffer(n)
        assert self.lib.fr_nest_pack(self.p, buf, n) == n
        return buf.raw

    def text(self, dialect):
        t, err = Text(), Err()
        st = self.lib.fr_text_nest(ctypes.byref(t), self.p, dialect, ctypes.byref(err))
        s = t.s.decode() if t.s else ""
        self.lib.fr_text_clear(ctypes.byref(t))
        if st:
            raise Broken(err.text.decode())
        return s

    def scratch(self):
        return self.lib.fr_nest_scratch(self.p)


@pytest.fixture(scope="module")
def tmp():
    with tempfile.TemporaryDirectory() as d:
        yield d


@pytest.fixture(scope="module")
def lib(tmp):
    return build_lib(tmp)


def without_comments(text):
    return "".join(line.strip() + "\n" for line in text.splitlines()
                   if line.strip() and not line.strip().startswith("#"))


# ---- bytes and text -----------------------------------------------------------------------------

@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_text_and_bytes_come_back(lib, path):
    nest = Nest(lib, path.read_text())
    assert str(nest) == without_comments(path.read_text())
    again = Nest(lib, raw=nest.pack())
    assert str(again) == str(nest) and again.pack() == nest.pack()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_golden(lib, path, dialect):
    text = Nest(lib, path.read_text()).text(dialect)
    if os.environ.get("FRIT_BLESS"):
        path.with_suffix(DIALECTS[dialect]).write_text(text)
    assert text == path.with_suffix(DIALECTS[dialect]).read_text(), "make bless"


def test_no_byte_string_does_harm(lib):
    """Cut, lengthened, changed and random bytes are refused or give a nest that is well formed."""
    rng = random.Random(5)
    raws = [Nest(lib, p.read_text()).pack() for p in GOLDEN]
    live, taken = lib.fr_alloc_live(), 0
    for i in range(20000):
        raw = bytearray(rng.choice(raws))
        for _ in range(rng.choice([0, 1, 1, 2, 5])):
            raw[rng.randrange(len(raw))] = rng.choice([0, 1, 2, 255, rng.randrange(256)])
        how = i % 8
        if how == 0:
            raw = raw[:rng.randrange(len(raw))]
        elif how == 1:
            raw += rng.randbytes(rng.randrange(20))
        elif how == 2:
            raw = raw[:4] + rng.randbytes(rng.randrange(80))
        elif how == 3:
            raw = raw[:16] + rng.randbytes(len(raw) - 16)
        try:
            nest = Nest(lib, raw=bytes(raw))
        except Broken:
            continue
        taken += 1
        assert nest.pack() == bytes(raw)
        if i % 16 < 8:
            try:
                nest.text(i % 2)
            except Broken:
                pass
        del nest
    assert 500 < taken < 15000
    assert lib.fr_alloc_live() == live


# (what is in softmax.nest, what stands there instead, what the message says)
BROKEN = [
    ("%0 = load [0] f32", "%0 = load [9] f32", "%0 (load): operand 9 of 2"),
    ("%0 = load [0] f32 FULL stage 0", "%0 = load [0] f64 FULL stage 0", "%0 (load): dtype f64"),
    ("%0 = load [0] f32 FULL stage 0", "%0 = load [0] f32 ROW stage 0", "%0 (load): level ROW"),
    ("%2 = subtract %0 %1", "%2 = subtract %2 %1", "%2 (op): argument %2 does not come before"),
    ("subtract %0 %1 f32 FULL stage 1", "subtract %0 %1 f32 FULL stage 0", "%2 (op): stage 0"),
    ("%2 = subtract %0 %1 f32", "%2 = subtract %0 %1 f64", "%2 (op): dtype f64, must be f32"),
    ("%2 = subtract %0 %1 f32 FULL", "%2 = subtract %0 %1 f32 ROW", "%2 (op): level ROW below"),
    ("%2 = subtract", "%2 = bitwise_and", "%2 (op): no bitwise_and of f32"),
    ("%1 = reduce max", "%1 = reduce add", "%1 (reduce): add is no reduction"),
    ("max %0 f32 ROW stage 1", "max %0 f32 ROW stage 0", "%1 (reduce): stage 0"),
    ("sum %3 f32 ROW stage 2", "sum %3 f32 ROW stage 4", "%4 (reduce): stage 4"),
    ("divide %3 %4 f32 FULL stage 2", "divide %3 %4 f32 FULL stage 3", "%5 (op): stage 3 of 3"),
    ("%6 = store [1]", "%6 = store [0]", "%6 (store): operand 0 is not marked as written"),
    ("[1] f32 unit written", "[1] f32 unit", "%6 (store): operand 1 is not marked as written"),
    ("[0] f32 unit", "[0] f32 unit written", "nothing writes operand 0"),
    ("[0] f32 unit", "[0] f32 unit stream", "operand 0 is streamed but not written"),
    ("[0] f32 unit", "[0] f32 unit turned", "operand 0 cannot be turned"),
    ("[0] f32 unit", "[0] f32 strided turned turned-deep", "operand 0 cannot be turned"),
    ("[0] f32 unit", "[0] f32 strided turned-deep", "%0 (load): operand 0 is turned, but no map's"),
    ("nest 3 stages rowbuf reduces", "nest 3 stages rowbuf", "a reduction, but flags"),
    ("nest 3 stages rowbuf reduces", "nest 0 stages rowbuf reduces", "0 stages"),
    ("%3 = multiply %2 %2", "%3 = multiply %2", "line 7 cannot be read"),
    ("%3 = multiply", "%4 = multiply", "line 7 cannot be read"),
    ("%3 = multiply", "%3 = multiplied", "line 7 cannot be read"),
]


@pytest.mark.parametrize("old,new,message", BROKEN, ids=lambda s: s[:30])
def test_rules_are_held(lib, old, new, message):
    text = without_comments((ROOT / "tests/golden/text/softmax.nest").read_text())
    assert old in text
    with pytest.raises(Broken) as e:
        Nest(lib, text.replace(old, new, 1))
    assert message in str(e.value)


def test_row_buffers(lib):
    """What is read again has none; those of the others follow one another."""
    nest = Nest(lib, (ROOT / "tests/golden/text/softmax.nest").read_text())
    assert [i for i in range(7) if lib.fr_nest_crosses(nest.p, i)] == [3]
    assert nest.scratch() == (8192 + 64) * 4
    nest = Nest(lib, (ROOT / "tests/golden/text/backward.nest").read_text())
    # %0 is read again with unit stride, but %3 has been written by then: it may be the same memory.
    assert [i for i in range(8) if lib.fr_nest_crosses(nest.p, i)] == [0, 1]
    assert nest.scratch() == 2 * (8192 + 64) * 8 and lib.fr_nest_rowbuf(nest.p, 1) == (8192 + 64) * 8
    assert Nest(lib, (ROOT / "tests/golden/text/layernorm.nest").read_text()).scratch() == 0


def test_no_allocation_is_missed(lib):
    """Whichever allocation fails, the call says so and nothing leaks."""
    lib.fr_alloc_fail_at.argtypes = [ctypes.c_long]
    text = (ROOT / "tests/golden/text/softmax.nest").read_text()
    raw, live = Nest(lib, text).pack(), lib.fr_alloc_live()

    def everything():
        nest = Nest(lib, raw=raw)
        nest.text(0)
        nest.text(1)
        Nest(lib, text)

    n = 1
    while True:
        lib.fr_alloc_fail_at(n)
        failed = False
        try:
            everything()
        except Broken:
            failed = True
        lib.fr_alloc_fail_at(0)
        assert lib.fr_alloc_live() == live
        if not failed:
            break
        n += 1
    assert n > 20


# ---- the C text against NumPy -------------------------------------------------------------------

class Kernel:
    """Compiled C text of a nest."""

    def __init__(self, lib, tmp, text, flags=("-O2",)):
        self.nest = nest = Nest(lib, text)
        self.n_insts = text.count("%0 =") and max(
            int(line.split()[0][1:]) for line in without_comments(text).splitlines()
            if line.startswith("%")) + 1
        self.n_stages = int(text[text.index("nest ") + 5:].split()[0])
        base = os.path.join(tmp, f"k{abs(hash((text, flags)))}")
        if not os.path.exists(base + ".so"):        # else another test has compiled it
            with open(base + ".c", "w") as f:
                f.write(nest.text(0))
            subprocess.run(["cc", "-std=c11", *flags, "-Wall", "-Wextra", "-Wno-unused-variable",
                            "-Wno-maybe-uninitialized", "-Werror", "-shared", "-fPIC",
                            base + ".c", "-o", base + ".so", *FLAGS], check=True)
        self.dll = ctypes.CDLL(base + ".so")

    def run(self, operands, n_rows, n_inner, scalars=()):
        """operands: arrays of (rows, inner), (rows,) or an iota's (start, row step, step)."""
        ptr, row, inner = pointers(operands)
        n = self.nest.scratch()
        scratch = ctypes.create_string_buffer(n + 64)
        at = (ctypes.addressof(scratch) + 63) & ~63
        self.dll.frit_rows(ptr, row, inner, ctypes.c_int64(n_rows), ctypes.c_int64(n_inner),
                           scalar_slots(scalars), ctypes.c_void_p(at))


def pointers(operands):
    ptr = (ctypes.c_void_p * len(operands))()
    row, inner = ((ctypes.c_int64 * len(operands))() for _ in range(2))
    for k, o in enumerate(operands):
        if isinstance(o, tuple):
            ptr[k], row[k], inner[k] = ctypes.c_void_p(o[0] & (2**64 - 1)), o[1], o[2]
            continue
        ptr[k] = o.ctypes.data
        row[k] = o.strides[0] if o.ndim else 0
        inner[k] = o.strides[1] if o.ndim > 1 else 0
    return ptr, row, inner


def scalar_slots(scalars):
    buf = ctypes.create_string_buffer(max(16 * len(scalars), 16))
    for k, s in enumerate(scalars):
        ctypes.memmove(ctypes.addressof(buf) + 16 * k, s.tobytes(), len(s.tobytes()))
    return buf


def same(got, want):
    """Equal bits, or NaN in both."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    if got.dtype.kind == "c":
        part = got.real.dtype
        got, want = (np.ascontiguousarray(x).reshape(-1).view(part) for x in (got, want))
    if not got.size:
        return
    bits = np.ascontiguousarray(got).view(np.uint8).reshape(got.size, -1) == \
        np.ascontiguousarray(want).view(np.uint8).reshape(got.size, -1)
    ok = bits.all(axis=1)
    if got.dtype.kind == "f":
        ok |= (np.isnan(got) & np.isnan(want)).reshape(-1)
    bad = np.flatnonzero(~ok)
    assert not bad.size, (bad[:5], got.reshape(-1)[bad[:5]], want.reshape(-1)[bad[:5]])


def golden(name):
    return (ROOT / f"tests/golden/text/{name}.nest").read_text()


def samples(code, shape, seed=0, special=True):
    rng = np.random.default_rng(seed)
    t = np.dtype(DTYPES[code])
    if t.kind == "b":
        return rng.random(shape) < 0.5
    if t.kind in "iu":
        info = np.iinfo(t)
        x = rng.integers(info.min, info.max, shape, dtype=t, endpoint=True)
        return np.where(rng.random(shape) < 0.3, rng.integers(0, 9, shape).astype(t), x)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3, shape)
    if t.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    x = x.astype(t)
    if special and x.size:
        flat = x.reshape(-1)
        for v in (np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 3.0):
            flat[rng.integers(0, flat.size)] = v
    return x


UNDEFINED = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover",
             "-fno-sanitize=float-cast-overflow,float-divide-by-zero")


@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-march=native"), UNDEFINED])
def test_chain(lib, tmp, flags):
    k = Kernel(lib, tmp, golden("chain"), flags)
    for n in SIZES[:12]:
        a, b = samples("f32", (3, n), n), samples("f32", (3, n), n + 1)
        out, s = np.empty((3, n), np.float32), np.float32(0.7)
        k.run([a, b, out], 3, n, [s])
        with np.errstate(all="ignore"):
            t = a * b + s
        same(out, np.where(t < a, t, a))


def test_strides(lib, tmp):
    k = Kernel(lib, tmp, golden("strides"))
    a = samples("c64", (40, 4), 1, special=False).T[:, ::-2]
    out, h = np.zeros((20, 4), np.complex64).T, samples("f16", (4, 40), 2)[::-1, ::2]
    w, less, neg = samples("f64", (4,)), np.empty((4, 20), bool), np.empty(4)
    k.run([a, out, (-5, 7, 2), h, less, w, neg], 4, 20)
    same(out, a * a)
    iota = -5 + 7 * np.arange(4)[:, None] + 2 * np.arange(20)
    same(less, h < iota.astype(np.float16))
    same(neg, -w)


@pytest.mark.parametrize("stages", [False, True])
def test_softmax(lib, tmp, stages):
    k = Kernel(lib, tmp, golden("softmax"))
    for n in SIZES[1:]:
        a = samples("f32", (3, n), n, special=False)
        out = np.empty_like(a)
        if stages:
            Long(k).run([a, out], 3, n)
        else:
            k.run([a, out], 3, n)
        t = a - a.max(axis=1, keepdims=True)
        t *= t
        same(out, t / t.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("stages", [False, True])
def test_layernorm(lib, tmp, stages):
    k = Kernel(lib, tmp, golden("layernorm"))
    for n in SIZES[1:]:
        x, w = samples("f64", (3, n), n, special=False), samples("f64", (n,), 1, special=False)
        b2 = samples("f64", (2 * n,), 1, special=False)
        out, sd = np.empty_like(x), np.empty(3)
        rows = [np.broadcast_to(v, (3, n)) for v in (w, b2[::2])]
        args = ([x, *rows, out, sd], 3, n, [np.float64(n), np.float64(1e-5)])
        (Long(k) if stages else k).run(*args)
        mean = x.sum(axis=1) / n
        t = x - mean[:, None]
        want = np.sqrt((t * t).sum(axis=1) / n + 1e-5)
        same(sd, want)
        same(out, t / want[:, None] * w + b2[::2])


@pytest.mark.parametrize("stages", [False, True])
@pytest.mark.parametrize("special", [False, True])
def test_reductions(lib, tmp, stages, special):
    k = Kernel(lib, tmp, golden("reductions"))
    for n in SIZES[1:]:
        a, h = samples("f32", (3, n), n, special), samples("f16", (3, n), n + 2, special)
        c = samples("c128", (3, n), n + 1, special)
        a[1] = 1 + a[1] / 1000
        if n > 8:
            a[2, 5] = a[2, 7] = a[2].max() + 1 if not special else np.nan
        outs = [np.empty(3, DTYPES[t])
                for t in "f32 c128 f16 f32 f32 i64 i64 bool bool f32".split()]
        (Long(k) if stages else k).run([a, c, h, *outs], 3, n)
        with np.errstate(all="ignore"):
            wants = [a.sum(1), c.sum(1), h.sum(1), a.max(1), a.prod(1), a.argmax(1), h.argmin(1),
                     c.any(1), a.all(1), a.min(1)]
        for got, want in zip(outs, wants):
            same(got, want)


def reduction(op, code, result):
    return f"""nest 1 stage reduces
        [0] {code} strided
        [1] {result} zero written
        %0 = load [0] {code} FULL stage 0
        %1 = reduce {op} %0 {result} ROW stage 1
        %2 = store [1] %1 {result} ROW stage 1"""


@pytest.mark.parametrize("code", DTYPES)
def test_every_reduction(lib, tmp, code):
    for op in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        result = {"any": "bool", "all": "bool", "argmax": "i64", "argmin": "i64"}.get(op, code)
        a = samples(code, (4, 300), 7)
        if op in ("sum", "prod") and a.dtype.kind in "biu" and code not in ("i64", "u64"):
            continue
        if op in ("sum", "prod") and a.dtype.kind in "fc":
            a = samples(code, (4, 300), 7, special=False)
            a = (a / abs(a) + a / 1000).astype(a.dtype)
        if op in ("any", "all"):
            a[0], a[1] = 0, 1
        k = Kernel(lib, tmp, reduction(op, code, result), ("-O1",))
        for x in (a, a[:, ::-1], a[:, ::3]):
            out, long = np.empty(4, DTYPES[result]), np.empty(4, DTYPES[result])
            k.run([x, out], 4, x.shape[1])
            Long(k).run([x, long], 4, x.shape[1])
            same(long, out)
            with np.errstate(all="ignore"):
                same(out, np.array([getattr(r.copy(), op)() for r in x], DTYPES[result]))


def test_columns(lib, tmp):
    k = Kernel(lib, tmp, golden("columns"))
    a = samples("f32", (50, 33), 3, special=False)
    total, top = np.zeros(33, np.float32), np.full(33, -np.inf, np.float32)
    k.run([a, *(np.broadcast_to(x, (50, 33)) for x in (total, top))], 50, 33)
    same(total, (a * a).sum(axis=0))
    same(top, a.max(axis=0))


def test_in_place_backward(lib, tmp):
    k = Kernel(lib, tmp, golden("backward"))
    x, g = samples("f64", (20, 200), 1, special=False), samples("f64", (20, 400), 2, special=False)
    g, want, total = g[:, ::2], x.copy(), np.zeros(200)
    k.run([x, g, x, np.broadcast_to(total, (20, 200))], 20, 200)
    p = want * g
    same(total, p.sum(axis=0))
    same(x, (g - p.sum(axis=1, keepdims=True)) * want)


class Slot(ctypes.Structure):
    _fields_ = [("v", ctypes.c_char * 16), ("index", ctypes.c_int64), ("pad", ctypes.c_int64)]


class Long:
    """Runs rows through frit_stages, cut in four as the trees of sums are, as a launcher does."""

    def __init__(self, kernel):
        self.k = kernel
        self.table = (ctypes.c_void_p * (2 * kernel.n_stages + 1)).in_dll(kernel.dll, "frit_stages")
        self.lines = [line.split() for line in str(kernel.nest).splitlines() if line[0] == "%"]

    def get(self, slots, i, dtype):
        return np.frombuffer(bytes(slots[i]), dtype, 1)[0]

    def put(self, slots, i, value):
        ctypes.memmove(ctypes.addressof(slots[i]), value.tobytes(), value.nbytes)

    def run(self, operands, n_rows, n_inner, scalars=()):
        values = scalar_slots(scalars)
        for r in range(n_rows):
            slots = (Slot * self.k.n_insts)()
            ptr, row, inner = pointers(operands)
            for k, o in enumerate(operands):
                ptr[k] = ctypes.c_void_p((ptr[k] or 0) + r * row[k])
            for s in range(self.k.n_stages):
                self.call(self.k.n_stages + s, ptr, values, slots)
                self.stage(s, ptr, inner, n_inner, values, slots)
            self.call(2 * self.k.n_stages, ptr, values, slots)

    def call(self, entry, *args):
        ctypes.CFUNCTYPE(None)(self.table[entry])
        fn = ctypes.cast(self.table[entry], ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3))
        fn(*(ctypes.cast(a, ctypes.c_void_p) for a in args))

    def stage(self, s, ptr, inner, n, values, slots):
        reduces = [(i, w) for i, w in enumerate(self.lines)
                   if w[2] == "reduce" and int(w[-1]) == s + 1]
        is_complex = [w[5][0] == "c" for i, w in reduces if w[3] == "sum"]
        # Real and complex trees part in different places: with both, or with a product, one range.
        cut = len(set(is_complex)) < 2 and all(w[3] != "prod" for _, w in reduces)
        parts = self.ranges(s, ptr, inner, 0, n, values, slots, 2 if cut else 0, any(is_complex))
        for i, w in reduces:
            self.finish(slots, i, w, parts)

    def ranges(self, s, ptr, inner, j, n, values, slots, depth, is_complex):
        leaf = 64 if is_complex else 128
        if depth and n > leaf:
            half = (n - n % 8) // 2 if is_complex else n // 2 - n // 2 % 8
            return [self.ranges(s, ptr, inner, at, m, values, slots, depth - 1, is_complex)
                    for at, m in ((j, half), (j + half, n - half))]
        out = (Slot * self.k.n_insts)()
        proto = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2,
                                 *[ctypes.c_void_p] * 4)
        scratch = ctypes.create_string_buffer(64)
        ctypes.cast(self.table[s], proto)(
            ctypes.cast(ptr, ctypes.c_void_p), ctypes.cast(inner, ctypes.c_void_p), j, n,
            ctypes.cast(values, ctypes.c_void_p), ctypes.cast(slots, ctypes.c_void_p),
            ctypes.cast(out, ctypes.c_void_p), ctypes.cast(scratch, ctypes.c_void_p))
        return out

    def finish(self, slots, i, words, parts):
        op, result = words[3], DTYPES[words[5]]
        source = DTYPES[self.lines[int(words[4][1:])][-4]]
        acc = source if op.startswith("arg") else result
        if op in ("sum", "prod") and words[5] == "f16":
            acc = np.float32

        def leaves(p):
            return leaves(p[0]) + leaves(p[1]) if isinstance(p, list) else [p]

        def tree(p):
            return tree(p[0]) + tree(p[1]) if isinstance(p, list) else self.get(p, i, acc)

        flat = leaves(parts)
        got = [self.get(p, i, acc) for p in flat]
        with np.errstate(all="ignore"):
            if op == "sum":
                value = acc(0) + tree(parts)
            elif op == "prod":
                value, = got
            elif op.startswith("arg"):
                value = np.int64(flat[getattr(np.array(got), op)()][i].index)
            elif op in ("max", "min") and np.dtype(acc).kind == "f":
                # Of zeros that compare equal the last one counts, as in the recipe.
                value = got[0]
                for v in got[1:]:
                    keep = np.isnan(value) or (v < value if op == "max" else value < v)
                    value = value if keep else v
            else:
                value = getattr(np.array(got), op)()
        self.put(slots, i, np.asarray(value).astype(result))


# ---- every recipe -------------------------------------------------------------------------------

OPS = [r for r in frit._core.op_table() if r["class"] == "map"]


def all_ops_nest(lib, code):
    """One nest that stores every operation of compute dtype `code`; and the names it stores."""
    lib.fr_op_find.restype = ctypes.c_uint16
    index = list(DTYPES).index(code)
    names, body, operands = [], [], []
    loads = {}

    def load(k, dtype):
        if (k, dtype) not in loads:
            loads[k, dtype] = len(body)
            body.append(f"load [{len(operands)}] {dtype} FULL stage 0")
            operands.append(f"{dtype} unit")
        return loads[k, dtype]

    for name, arity in ((r["name"], r["arity"]) for r in OPS):
        op = lib.fr_op_find(name.encode(), len(name))
        if not lib.fr_recipe_exists(op, index):
            continue
        dtypes = [list(DTYPES)[lib.fr_op_arg(op, k, index)] for k in range(arity)]
        args = [load(k, d) for k, d in enumerate(dtypes)]
        names.append((name, args, list(DTYPES)[lib.fr_op_result(op, index)]))
    for name, args, result in names:
        body.append(f"{name} {' '.join(f'%{a}' for a in args)} {result} FULL stage 0")
        operands.append(f"{result} unit written")
        body.append(f"store [{len(operands) - 1}] %{len(body) - 1} {result} FULL stage 0")
    text = "nest 1 stage\n" + "".join(f"[{k}] {o}\n" for k, o in enumerate(operands))
    return text + "".join(f"%{i} = {line}\n" for i, line in enumerate(body)), names, sorted(
        (at, k, d) for (k, d), at in loads.items())


EXACT = {r["name"] for r in OPS if hasattr(np, r["name"]) and not r["costly"]}


@pytest.mark.parametrize("code", DTYPES)
def test_every_operation_in_c(lib, tmp, code):
    text, names, loads = all_ops_nest(lib, code)
    k = Kernel(lib, tmp, text, ("-O1",))
    n = 400
    inputs = {at: samples(d, (1, n), at + 1) for at, _, d in loads}
    outs = [np.empty((1, n), DTYPES[result]) for _, _, result in names]
    k.run([*(inputs[at] for at, _, _ in loads), *outs], 1, n)
    with np.errstate(all="ignore"):
        for (name, args, _), got in zip(names, outs):
            if name in EXACT and not (code[0] == "c" and name in ("absolute", "sign", "sqrt")):
                ufunc = getattr(np, name)
                same(got, np.asarray(ufunc(*(inputs[a] for a in args))).astype(got.dtype))


def filled(inputs, loads, once):
    """The inputs with the first element of each argument in `once` in all places."""
    return {at: np.full_like(inputs[at], inputs[at][0, 0]) if once >> k & 1 else inputs[at]
            for at, k, _ in loads}


# ---- the block kernels that csrc/jit/gen writes -------------------------------------------------

def isa_level():
    flags = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    if platform.machine() != "x86_64":
        return "generic", []
    for level, needs in (("v4", "avx512vl avx512bw avx512dq"), ("v3", "avx2 fma bmi2"), ("v2", "")):
        if all(f" {f} " in flags + " " for f in needs.split()):
            return level, [f"-march=x86-64-{level}"]


@pytest.fixture(scope="module")
def kernels(tmp):
    """The generator's output, compiled for this machine: pointers of maps and casts by name."""
    level, march = isa_level()
    made = block_kernels(level, "-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-Wall", "-Wextra", "-Werror", *march,
                         *FLAGS[:-1])
    # (what setup.py compiles is hidden from other libraries)
    code = f'extern const char fr_kernels_{level}; const void *kernels(void) {{ return &fr_kernels_{level}; }}'
    subprocess.run(["cc", "-shared", "-fPIC", *made, "-x", "c", "-", "-o", os.path.join(tmp, "k.so"), "-lm"], input=code,
                   text=True, check=True)
    dll = ctypes.CDLL(os.path.join(tmp, "k.so"))
    n_ops = len(frit._core.op_table())
    n = len(DTYPES)
    dll.kernels.restype = ctypes.c_void_p
    table = (ctypes.c_void_p * (1 + n_ops * n + n * n)).from_address(dll.kernels())
    return dll, table, 1, 1 + n_ops * n


FN = ctypes.CFUNCTYPE(None, ctypes.c_size_t, *[ctypes.c_void_p] * 4, ctypes.c_uint)


def check_kernel(pointer, args, once, want):
    """One kernel for several lengths, beside guard bytes, and in place where that is allowed."""
    fn = FN(pointer)
    for n in (0, 1, 5, 67, want.shape[1]):
        out = np.zeros(n * want.itemsize + 64, np.uint8)
        ptr = [a.ctypes.data for a in args] + [None] * (3 - len(args))
        fn(n, out.ctypes.data, *ptr, once)
        assert not out[n * want.itemsize:].any()
        same(out[:n * want.itemsize].view(want.dtype), want[0, :n])
    for k, a in enumerate(args):
        if a.itemsize == want.itemsize and not once >> k & 1:
            place = a.copy()
            ptr[k] = place.ctypes.data
            fn(n, ptr[k], *ptr, once)
            same(place.view(want.dtype), want)
            ptr[k] = a.ctypes.data


OF_WHOLE_NUMBERS = "divide_whole", "divide_few"     # and what they divide by is no array: test_division.py


@pytest.mark.parametrize("code", DTYPES)
def test_block_kernels(lib, tmp, kernels, code):
    """Each kernel and mask gives the bits that the C text gives, which scalar code computes."""
    _, table, maps, _ = kernels
    text, names, loads = all_ops_nest(lib, code)
    k, n, index = Kernel(lib, tmp, text, ("-O1",)), 400, list(DTYPES).index(code)
    inputs = {at: samples(d, (1, n), at + 1) for at, _, d in loads}
    for once in range(8):
        outs = [np.empty((1, n), DTYPES[result]) for _, _, result in names]
        full = filled(inputs, loads, once)
        k.run([*(full[at] for at, _, _ in loads), *outs], 1, n)
        for (name, args, _), want in zip(names, outs):
            if once >> len(args) or name in OF_WHOLE_NUMBERS:
                continue
            op = lib.fr_op_find(name.encode(), len(name))
            pointer = table[maps + op * len(DTYPES) + index]
            assert pointer, name
            check_kernel(pointer, [inputs[a] for a in args], once, want)


@pytest.mark.parametrize("code", DTYPES)
def test_cast_kernels(lib, tmp, kernels, code):
    _, table, _, casts = kernels
    lines = ["nest 1 stage", f"[0] {code} unit",
             *(f"[{i + 1}] {d} unit written" for i, d in enumerate(DTYPES)),
             f"%0 = load [0] {code} FULL stage 0"]
    for i, d in enumerate(DTYPES):
        lines += [f"%{2 * i + 1} = cast %0 {d} FULL stage 0",
                  f"%{2 * i + 2} = store [{i + 1}] %{2 * i + 1} {d} FULL stage 0"]
    a, outs = samples(code, (1, 400), 3), [np.empty((1, 400), t) for t in DTYPES.values()]
    Kernel(lib, tmp, "\n".join(lines) + "\n", ("-O1",)).run([a, *outs], 1, 400)
    for i, want in enumerate(outs):
        for once in (0, 1):
            expect = want if not once else np.full_like(want, want[0, 0])
            pointer = table[casts + list(DTYPES).index(code) * len(DTYPES) + i]
            check_kernel(pointer, [a], once, expect)


# ---- CUDA ---------------------------------------------------------------------------------------

def nvrtc():
    try:
        return gpu.compiler()
    except ValueError as e:
        pytest.skip(str(e))


def cuda_without_nests(lib):
    """(name, text, defines) of the kernels of calls and scans; of products and scans some dtypes, of the others each kind."""
    def constant(name):
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(lib, f"fr_cuda_{name}_text"))).decode()

    def written(write, *what):
        t, err = Text(), Err()
        assert write(ctypes.byref(t), *what, ctypes.byref(err)) == 0, err.text
        s = t.s.decode()
        lib.fr_text_clear(ctypes.byref(t))
        return s

    lib.fr_op_find.restype = ctypes.c_uint16
    for d in ("f16", "f32", "c128", "i64"):
        d = list(DTYPES).index(d)
        yield "product", written(lib.fr_text_product, d), []
        yield "scan", written(lib.fr_text_scan, lib.fr_op_find(b"cumsum", 6), d), []
    yield "take", constant("take"), ["ELEMENT=uint4", "INDEX=long long"]
    yield "look", constant("look"), ["INDEX=short"]
    yield from (("chosen", constant("chosen"), ["ELEMENT=unsigned", f"KIND={k}"]) for k in range(6))
    yield from (("scatter", constant("scatter"), ["ELEMENT=float", "KEY=unsigned", f"KIND={k}"]) for k in range(12))


@pytest.mark.parametrize("code", ["bool", "i8", "u32", "i64", "f16", "f32", "c128"])
def test_every_operation_in_cuda(lib, code):
    rtc = nvrtc()
    gpu.compile_text(rtc, Nest(lib, all_ops_nest(lib, code)[0]).text(1), "sm_90")


@functools.cache
def sanitizers():
    """What C++ is compiled with so that memory beside an array, and what is undefined, ends the program; or nothing."""
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-sanitize=float-cast-overflow,float-divide-by-zero"]
    with tempfile.TemporaryDirectory() as d:
        done = subprocess.run(["c++", "-x", "c++", "-", *flags, "-o", d + "/a"], input="int main() {}", text=True, capture_output=True)
    return flags if done.returncode == 0 else []


class Cuda:
    """The CUDA text of a nest, a program that runs it thread by thread under sanitizers (tests/c/cuda_block.h). Each operand has memory
    of its own, from its first byte to its last."""

    N_PIECES = 4            # of a row, where many blocks share it

    def __init__(self, lib, tmp, text, grid, form=(), block=(gpu.THREADS, 1)):
        if not shutil.which("c++"):
            pytest.skip("there is no C++ compiler to run CUDA text with")
        self.lib, self.nest, self.grid, self.block, self.form = lib, Nest(lib, text), grid, block, form
        self.text = made = self.nest.text(1)
        many, by_address = "MANY=1" in form, "*const args" in made
        self.n_phases = int(str(self.nest).split()[1]) + 1 if "SPLIT=1" in form and "#define LAST" in made else 1
        argument = "{&args, &of, 1}" if many else "&args" if by_address else "args"
        fd, self.program = tempfile.mkstemp(dir=tmp)
        os.close(fd)
        source = f"""#include "cuda_block.h"
{made.replace("extern __shared__ __align__(16) char buffers[];", "extern char *buffers;")}
static struct nest_args args;
static void entry(void)
{{
    {"const struct many of = {0, gridDim.x, gridDim.y, gridDim.z};" if many else ""}
    frit_nest({argument});
}}
int main(int n, char **path) {{ return n == 2 ? run_file(path[1], &args, sizeof args, entry) : 1; }}
"""
        subprocess.run(["c++", "-std=c++17", "-O1", "-g", f"-I{ROOT}/tests/c", *sanitizers(), *(f"-D{word}" for word in form), "-x", "c++",
                        "-", "-o", self.program, "-ffp-contract=off"], input=source, text=True, check=True)

    def scratch(self, n_rows, n_inner):
        """Exactly what the launcher gives (csrc/backends/cuda/): bytes of shared memory, and of scratch."""
        kept = self.lib.fr_cuda_row_bytes(self.nest.p, n_inner) * self.block[1]
        if self.n_phases > 1:
            return 0, self.lib.fr_cuda_piece_bytes(self.nest.p) * n_rows * self.N_PIECES
        return (kept, 0) if "SHARED=1" in self.form else (0, kept * self.grid)

    def run(self, operands, n_rows, n_inner, scalars=()):
        ptr, row, inner = pointers(operands)
        ends, number = {}, []
        for o in operands:
            if not isinstance(o, tuple):
                low, high = np.lib.array_utils.byte_bounds(o)
                was = ends.get(id(gpu.owner(o)), (low, high))
                ends[id(gpu.owner(o))] = min(low, was[0]), max(high, was[1])
        shared, n_scratch = self.scratch(n_rows, n_inner)
        words = gpu.arguments(ptr, row, inner, n_rows, n_inner, scalar_slots(scalars), 0, self.N_PIECES)
        array_of, at_scratch = np.zeros_like(words), max(len(operands), 1) * (4 + gpu.OUTER) + 10
        for k, o in enumerate(operands):
            if not isinstance(o, tuple):
                words[k] -= ends[id(gpu.owner(o))][0]
                array_of[k] = list(ends).index(id(gpu.owner(o))) + 1
        array_of[at_scratch] = len(ends) + 1
        head = [gpu.blocks(self.text, n_inner, self.block[0], self.grid), 1, 1, *self.block, shared, self.n_phases, at_scratch + 2, len(words), len(ends) + 1]
        arrays = [ctypes.string_at(low, high - low) for low, high in ends.values()] + [b"\xcd" * n_scratch]
        with tempfile.NamedTemporaryFile() as file:
            file.write(np.array(head, np.int64).tobytes() + words.tobytes() + array_of.tobytes())
            at = file.tell()
            file.write(b"".join(len(a).to_bytes(8, "little") + a for a in arrays))
            file.flush()
            done = subprocess.run([self.program, file.name], capture_output=True, text=True, env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
            assert done.returncode == 0, done.stderr
            file.seek(at)
            for (low, high), a in zip(ends.values(), arrays):
                ctypes.memmove(low, file.read(8 + len(a))[8:], len(a))


class Gpu:
    """The CUDA text of a nest, run on the device."""

    device = None

    def __init__(self, lib, tmp, text, grid):
        try:
            Gpu.device = Gpu.device or gpu.Device()
        except ValueError as e:
            pytest.skip(str(e))
        self.nest, self.grid = Nest(lib, text), grid
        self.module, self.kernel = self.device.load(
            gpu.compile_text(nvrtc(), self.nest.text(1), self.device.arch))

    def run(self, operands, n_rows, n_inner, scalars=()):
        ptr, row, inner = pointers(operands)
        owners = {id(gpu.owner(a)): gpu.owner(a) for a in operands if not isinstance(a, tuple)}
        there = {k: self.device.alloc(a.nbytes) for k, a in owners.items()}
        for k, a in owners.items():
            self.device.to_device(there[k], a.ctypes.data, a.nbytes)
        for k, a in enumerate(operands):
            if not isinstance(a, tuple):
                ptr[k] += there[id(gpu.owner(a))] - gpu.owner(a).ctypes.data
        scratch = self.device.alloc(self.nest.scratch() * self.grid)
        self.device.launch(self.kernel, gpu.blocks(self.nest.text(1), n_inner, gpu.THREADS, self.grid),
                           gpu.arguments(ptr, row, inner, n_rows, n_inner, scalar_slots(scalars), scratch))
        for k, a in owners.items():
            self.device.to_host(a.ctypes.data, there[k], a.nbytes)
        for p in (*there.values(), scratch):
            self.device.free(p)

    def __del__(self):
        if hasattr(self, "module"):
            self.device.unload(self.module)


@pytest.mark.parametrize("code", DTYPES)
def test_every_operation_on_a_device(lib, tmp, code):
    text, names, loads = all_ops_nest(lib, code)
    runs, n, found = [Gpu(lib, tmp, text, 1), Kernel(lib, tmp, text, ("-O1",))], 4000, []
    inputs = {at: samples(d, (1, n), at + 1) for at, _, d in loads}
    for k in runs:
        found.append([np.empty((1, n), DTYPES[result]) for _, _, result in names])
        k.run([*(inputs[at] for at, _, _ in loads), *found[-1]], 1, n)
    wrong = []
    for (name, _, _), got, want in zip(names, *found):
        try:
            if name not in OF_WHOLE_NUMBERS:
                same(got, want)
        except AssertionError as e:
            wrong.append(f"{name}: {e}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(60))
def test_random_nests_on_a_device(lib, tmp, seed):
    text = Writer(seed).text()
    device, k = Gpu(lib, tmp, text, 2), Nest(lib, text)
    scalars = scalars_of(text)
    for n in (1, 8, 133, 517, 4000):
        sets = [begun(text, make_operands(k, 3, n, seed)) for _ in range(2)]
        device.run(sets[0], 3, n, scalars)
        run_reference(lib, k, sets[1], 3, n, scalars)
        for a, b in zip(*sets):
            if not isinstance(a, tuple):
                same(a, b)


# What is compiled with which words, and the threads of a block.
FORMS = {"a warp's rows": (["ROW=32"], (32, 8)), "a warp's rows, kept": (["ROW=32", "SHARED=1"], (32, 8)), "kept rows": (["SHARED=1"], (256, 1)),
         "no outer axes": (["OUTER=0"], (256, 1)), "vectors": (["VEC=4"], (32, 8)), "wide vectors": (["VEC=16", "OUTER=0"], (16, 16)),
         "shared by blocks": (["SPLIT=1"], (256, 1)), "tiles": (["TILED=32"], (32, 8)), "high tiles": (["TILED=8", "OUTER=0"], (8, 32)),
         "lines of columns": (["SPLIT=2"], (32, 8)), "long lines": (["SPLIT=2", "OUTER=0"], (4, 64))}


def has_form(text, words):
    names = {word.partition("=")[0] for word in words}
    return all(f"#ifndef {name} " in text for name in names) and not any((
        "SHARED" in names and "extern __shared__" not in text, "SPLIT=1" in words and "#define LAST" not in text,
        "SPLIT=2" in words and "SPLIT == 2" not in text, "ROW" in names and "r.begun" in text))   # (accumulators of rows with stages are a block's)


def runs_alone(text, words):
    """Whether launches without outer axes take it: some tiles have one (test_gpu.py)."""
    return has_form(text, words) and not (any("TILED" in word for word in words) and "DEEP" in text)


def sizes_of_form(words):
    """(rows, elements of a row)"""
    if "SPLIT=2" in words:
        return [(130, n) for n in (600, 1031, 2500)]
    if "SPLIT=1" in words:
        return [(5, n) for n in (600, 1031, 2500, 20000)]
    if any("VEC" in word for word in words):
        return [(5, n) for n in (16, 128, 304, 1024)]
    return [(70 if any("TILED" in word for word in words) else 5, n) for n in (1, 9, 128, 129, 300, 1031)]


def check_in_cpp(lib, tmp, text, words, block):
    cuda, nest = Cuda(lib, tmp, text, 2, words, block), Nest(lib, text)
    for rows, n in sizes_of_form(words):
        a, b = (begun(text, make_operands(nest, rows, n)) for _ in range(2))
        cuda.grid = -(-n // block[0]) if rows == 70 else 2
        scalars = [np.float64(n), np.float64(0.25)] if "$1" in text else [np.float32(0.3)]
        cuda.run(a, rows, n, scalars)
        run_reference(lib, nest, b, rows, n, scalars)
        for x, y in zip(a, b):
            if not isinstance(x, tuple):
                same(x, y)


# (Golden kernels without words: test_cuda_gives_the_bits_of_c.)
IN_CPP = {**FORMS, "several": (["OUTER=0", "VEC=4", "MANY=1"], (32, 8)), "several, by tiles": (["OUTER=0", "TILED=32", "MANY=1"], (32, 8))}
SAMPLE = {"a warp's rows": "reductions", "a warp's rows, kept": "softmax", "kept rows": "backward", "vectors": "chain", "wide vectors": "strides",
          "shared by blocks": "long_rows", "high tiles": "turned", "lines of columns": "columns", "several": "chain"}


@pytest.mark.parametrize("form", SAMPLE)
def test_forms_in_cpp(lib, tmp, form):
    """No form touches a byte beside an operand, of shared memory, or of scratch; nor does anything that is undefined."""
    check_in_cpp(lib, tmp, golden(SAMPLE[form]), *IN_CPP[form])


@pytest.mark.soak
@pytest.mark.parametrize("form", IN_CPP)
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_all_forms_in_cpp(lib, tmp, path, form):
    words, block = IN_CPP[form]
    if not runs_alone(Nest(lib, path.read_text()).text(1), words):
        pytest.skip("it has no such form")
    check_in_cpp(lib, tmp, path.read_text(), words, block)


@pytest.mark.parametrize("where", ["an operand", "scratch"])
def test_a_byte_too_far_is_seen(lib, tmp, where):
    if not sanitizers():
        pytest.skip("the C++ compiler has no sanitizers")
    cuda = Cuda(lib, tmp, golden("softmax" if where == "scratch" else "chain"), 2)
    operands, n = make_operands(cuda.nest, 3, 100), 100
    cuda.run(operands, 3, n, [np.float32(1)])
    if where == "scratch":
        cuda.scratch = lambda rows, n: (0, lib.fr_cuda_row_bytes(cuda.nest.p, n) * 2 - 64)     # (a row ends with a gap)
    else:
        n += 1
    with pytest.raises(AssertionError, match="heap-buffer-overflow"):
        cuda.run(operands, 3, n, [np.float32(1)])


@pytest.mark.parametrize("where", [Cuda, Gpu])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: p.stem)
def test_cuda_gives_the_bits_of_c(lib, tmp, path, where):
    """Trees, shuffles and joins of a block against the C text, which was compared with NumPy."""
    text = path.read_text()
    c, cuda = Kernel(lib, tmp, text), where(lib, tmp, text, 3)
    for n in (1, 3, 9, 127, 128, 129, 300, 1031, 5000):
        rows = 4
        a, b = (begun(text, make_operands(c.nest, rows, n)) for _ in range(2))
        scalars = [np.float64(n), np.float64(0.25)] if "$1" in text else [np.float32(0.3)]
        c.run(a, rows, n, scalars)
        cuda.run(b, rows, n, scalars)
        for x, y in zip(a, b):
            if not isinstance(x, tuple):
                same(y, x)


def make_operands(nest, rows, n, seed=0):
    """Arrays for every operand of a nest: written ones are zero, accumulators too."""
    lines = [line.split() for line in str(nest).splitlines()]
    iotas = {w[3] for w in lines if w[2:3] == ["iota"]}
    accums = {w[4] for w in lines if w[2:3] == ["accum"]}
    out = []
    for w in lines:
        if not w[0].startswith("["):
            continue
        k = len(out)
        if w[0] in iotas:
            out.append((-3, 5, 2))
        elif w[0] in accums:
            out.append(np.broadcast_to(np.zeros(n, DTYPES[w[1]]), (rows, n)))
        elif "written" in w:
            shape = (rows,) if w[2] == "zero" else (rows, n * 2 if w[2] == "strided" else n)
            out.append(np.zeros(shape, DTYPES[w[1]]))
        elif w[2] == "zero":
            out.append(samples(w[1], (rows,), seed + k, special=False))
        elif w[2] == "strided":
            out.append(samples(w[1], (rows, 2 * n), seed + k, special=False)[:, ::-2])
        elif w[2] == "back":
            out.append(samples(w[1], (rows, n), seed + k, special=False)[:, ::-1])
        else:
            out.append(samples(w[1], (rows, n), seed + k, special=False))
        if w[2] == "strided" and "written" in w:
            out[-1] = out[-1][:, ::2]
    return out


# ---- random nests: the C text against the reference executor ------------------------------------

class Instance(ctypes.Structure):
    _fields_ = [("n_outer", ctypes.c_int32), ("outer", ctypes.c_int64 * 32),
                ("n_rows", ctypes.c_int64), ("n_inner", ctypes.c_int64), ("ptr", ctypes.c_void_p),
                ("stride", ctypes.c_void_p), ("scalars", ctypes.c_void_p), ("joined", ctypes.c_bool)]


def run_reference(lib, nest, operands, n_rows, n_inner, scalars):
    ptr, row, inner = pointers(operands)
    strides = np.array([list(row), list(inner)], np.int64).T.copy()
    values, err = scalar_slots(scalars), Err()
    inst = Instance(0, (ctypes.c_int64 * 32)(), n_rows, n_inner, ctypes.addressof(ptr),
                    strides.ctypes.data, ctypes.addressof(values))
    assert lib.fr_ref_launch(nest.p, ctypes.byref(inst), ctypes.byref(err)) == 0, err.text


class Writer:
    """Draws a nest: values of several levels and stages, reductions, stores, accumulators."""

    FULL, ROW, SCALAR = "FULL", "ROW", "SCALAR"
    UNARY = ["negative", "square", "positive", "absolute"]
    BINARY = ["add", "multiply", "subtract", "maximum", "minimum"]
    TRUTH = ["less", "equal", "greater_equal"]

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.operands, self.scalars, self.insts = [], [], []
        self.rowbuf = self.rng.random() < 0.5
        r = self.rng
        for _ in range(r.randint(1, 3)):
            d = r.choice(["f32", "f64", "f32", "i32", "f16", "c64", "bool", "u8"])
            self.load(d, r.choice(["unit", "strided", "back"][:3 - (d in ("f16", "bool", "u8"))]))
        if r.random() < 0.5:
            self.load(r.choice(["f32", "f64"]), "zero")
        if r.random() < 0.5:
            d = r.choice(["f32", "f64", "i64"])
            self.scalars.append(d)
            self.add(f"scalar ${len(self.scalars) - 1}", d, self.SCALAR, 0)
        if r.random() < 0.3:
            self.operands.append("i64 strided")
            self.add(f"iota [{len(self.operands) - 1}]", "i64", self.FULL, 0)
        for stage in range(r.randint(1, 3)):
            for _ in range(r.randint(1, 4)):
                self.op()
            for _ in range(r.randint(0, 3)):
                self.reduce()
        for _ in range(r.randint(1, 3)):
            self.store()

    def add(self, what, dtype, level, stage, args=()):
        self.insts.append((what, args, dtype, level, stage))
        return len(self.insts) - 1

    def load(self, dtype, access):
        self.operands.append(f"{dtype} {access}")
        level = self.ROW if access == "zero" else self.FULL
        self.add(f"load [{len(self.operands) - 1}]", dtype, level, 0)

    def level(self, *args):
        order = [self.SCALAR, self.ROW, self.FULL]
        return max((self.insts[a][3] for a in args), key=order.index)

    def stage(self, *args):
        return max(self.insts[a][4] for a in args)

    def values(self, test=lambda i: True):
        return [k for k, i in enumerate(self.insts)
                if i[0].split()[0] not in ("store", "accum") and test(i)]

    def cast(self, a, dtype):
        if self.insts[a][2] == dtype:
            return a
        return self.add("cast", dtype, self.level(a), self.stage(a), (a,))

    def op(self):
        a, b = (self.rng.choice(self.values()) for _ in range(2))
        kind = self.rng.random()
        d = self.insts[a][2]
        if d in ("bool", "u8", "i32", "f16") and kind < 0.7:
            a, d = self.cast(a, "f32"), "f32"
        if kind < 0.2 and d != "bool":
            op = self.rng.choice(self.UNARY if d[0] != "c" else self.UNARY[:3])
            self.add(op, d, self.level(a), self.stage(a), (a,))
            return
        b = self.cast(b, d)
        if kind < 0.7 and d != "bool":
            self.add(self.rng.choice(self.BINARY), d, self.level(a, b), self.stage(a, b), (a, b))
        elif kind < 0.85:
            op = self.rng.choice(self.TRUTH)
            self.add(op, "bool", self.level(a, b), self.stage(a, b), (a, b))
        else:
            c = self.cast(self.rng.choice(self.values()), "bool")
            self.add("where", d, self.level(a, b, c), self.stage(a, b, c), (c, a, b))

    def reduce(self):
        full = self.values(lambda i: i[3] == self.FULL and i[4] < 4)
        a = self.rng.choice(full)
        op = self.rng.choice(["sum", "sum", "sum", "max", "min", "any", "argmax", "prod"])
        if op in ("sum", "prod") and self.insts[a][2] == "bool":
            a = self.cast(a, "i64")
        result = {"any": "bool", "argmax": "i64"}.get(op, self.insts[a][2])
        self.add(f"reduce {op}", result, self.ROW, self.stage(a) + 1, (a,))

    def store(self):
        a = self.rng.choice(self.values(lambda i: i[3] != self.SCALAR)[-6:])
        d, level = self.insts[a][2:4]
        if level == self.FULL and d in ("f32", "f64") and self.rng.random() < 0.3:
            self.operands.append(f"{d} unit written")
            op = self.rng.choice(["sum", "max"])
            self.add(f"accum {op} [{len(self.operands) - 1}]", d, level, self.stage(a), (a,))
            return
        access = self.rng.choice(["unit", "strided"]) if level == self.FULL else "zero"
        self.operands.append(f"{d} {access} written")
        self.add(f"store [{len(self.operands) - 1}]", d, level, self.stage(a), (a,))

    def text(self):
        live = {k for k, i in enumerate(self.insts) if i[0].split()[0] in ("store", "accum")}
        for k in reversed(range(len(self.insts))):
            if k in live:
                live |= set(self.insts[k][1])
        order = sorted(live, key=lambda k: (self.insts[k][4], k))
        number = {k: n for n, k in enumerate(order)}
        n_stages = max(1, *(self.insts[k][4] + (self.insts[k][3] == self.FULL) for k in order))
        reduces = any(self.insts[k][0].startswith("reduce") for k in order)
        lines = [f"nest {n_stages} stages{' rowbuf' * self.rowbuf}{' reduces' * reduces}"]
        lines += [f"[{k}] {o}" for k, o in enumerate(self.operands)]
        lines += [f"${k} {d}" for k, d in enumerate(self.scalars)]
        for k in order:
            what, args, dtype, level, stage = self.insts[k]
            words = " ".join([what, *(f"%{number[a]}" for a in args), dtype, level])
            lines.append(f"%{number[k]} = {words} stage {stage}")
        return "\n".join(lines) + "\n"


def scalars_of(text):
    return [DTYPES[line.split()[1]](3) for line in text.splitlines() if line.startswith("$")]


def begun(text, operands):
    """The operands of a random nest, its accumulators set to what they begin with."""
    for line in text.splitlines():
        w = line.split()
        if w[2:3] == ["accum"]:
            operands[int(w[4][1:-1])].base[...] = 0.0 if w[3] == "sum" else -np.inf
    return operands


@pytest.mark.parametrize("seed", range(40))
def test_random_nests(lib, tmp, seed):
    text = Writer(seed).text()
    k = Kernel(lib, tmp, text, ("-O1",))
    cuda = Cuda(lib, tmp, text, 2) if seed % 8 == 0 and shutil.which("c++") else None
    scalars = scalars_of(text)
    for n in (1, 8, 133, 517):
        sets = [begun(text, make_operands(k.nest, 3, n, seed)) for _ in range(4 if cuda else 3)]
        k.run(sets[0], 3, n, scalars)
        run_reference(lib, k.nest, sets[1], 3, n, scalars)
        for a, b in zip(*sets[:2]):
            if not isinstance(a, tuple):
                same(a, b)
        if " reduces" in text and "accum" not in text:
            Long(k).run(sets[2], 3, n, scalars)
            for a, b in zip(sets[2], sets[1]):
                if not isinstance(a, tuple):
                    same(a, b)
        if cuda:
            cuda.run(sets[3], 3, n, scalars)
            for a, b in zip(sets[3], sets[1]):
                if not isinstance(a, tuple):
                    same(a, b)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(40, 240, 20))
def test_many_random_nests_in_cpp(lib, tmp, first):
    for seed in range(first, first + 20):
        text = Writer(seed).text()
        cuda = Cuda(lib, tmp, text, 2)
        for n in (1, 133, 517):
            sets = [begun(text, make_operands(cuda.nest, 3, n, seed)) for _ in range(2)]
            cuda.run(sets[0], 3, n, scalars_of(text))
            run_reference(lib, cuda.nest, sets[1], 3, n, scalars_of(text))
            for a, b in zip(*sets):
                if not isinstance(a, tuple):
                    same(a, b)


def bless():
    with tempfile.TemporaryDirectory() as d:
        code = build_lib(d)
        for path in GOLDEN:
            for dialect, suffix in DIALECTS.items():
                path.with_suffix(suffix).write_text(Nest(code, path.read_text()).text(dialect))


if __name__ == "__main__":
    if sys.argv[1:] != ["--bless"]:
        sys.exit("usage: python -m tests.test_text --bless")
    bless()
