"""The PTX interpreter of tests/cuda/: instructions against Python's integers and fractions, faults, and NVRTC's PTX of nests
against the reference executor, bit for bit.  FRIT_SOAK=1 draws more of everything."""
import fractions
import itertools
import math
import os
import re
import shutil
import subprocess
import tempfile

import numpy as np
import pytest

from . import gpu, ptx, test_text as T
from .common import SOAK, soak

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGS = """.reg .pred %p<20>, %q; .reg .b16 %h<32>; .reg .b32 %r<64>, %i, %n; .reg .f32 %f<32>; .reg .b64 %d<40>, %at; .reg .f64 %g<16>;
"""


@pytest.fixture(scope="module")
def tmp():
    with tempfile.TemporaryDirectory() as d:
        yield d


@pytest.fixture(scope="module")
def interp(tmp):
    if not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("there is no C compiler")
    return ptx.build(tmp)


@pytest.fixture(scope="module")
def lib(tmp):
    return T.build_lib(tmp)


@pytest.fixture(scope="module")
def rtc():
    return T.nvrtc()


# ---- one element for each thread ----------------------------------------------------------------

def lanes_text(body, ins, outs, outside=""):
    """A kernel whose threads read %a, %b, %c, %e of arrays, do the body, and write %x, %y."""
    params = ", ".join([".param .u32 size", *(f".param .u64 p{k}" for k in range(len(ins) + len(outs)))])
    lines = [HEAD, outside, f".visible .entry k({params})", "{", REGS]
    for name, t in [*zip("abce", ins), *zip("xyzw", outs)]:
        lines.append(f".reg .b{max(16, 8 * t.itemsize)} %{name};")
    lines += ["mov.u32 %r60, %ctaid.x; mov.u32 %r61, %ntid.x; mov.u32 %r62, %tid.x; mad.lo.u32 %i, %r60, %r61, %r62;",
              "ld.param.u32 %n, [size]; setp.ge.u32 %q, %i, %n; @%q ret;"]
    for k, (name, t) in enumerate(zip("abce", ins)):
        kind = ("s" if t.kind == "i" else "u") if t.itemsize == 1 else "b"
        lines.append(f"ld.param.u64 %at, [p{k}]; mad.wide.u32 %at, %i, {t.itemsize}, %at; "
                     f"ld.global.{kind}{8 * t.itemsize} %{name}, [%at];")
    lines += [body]
    for k, (name, t) in enumerate(zip("xyzw", outs)):
        lines.append(f"ld.param.u64 %at, [p{len(ins) + k}]; mad.wide.u32 %at, %i, {t.itemsize}, %at; "
                     f"st.global.b{8 * t.itemsize} [%at], %{name};")
    return "\n".join([*lines, "ret;", "}"])


def lanes(interp, body, ins, outs, block=64, outside="", **options):
    ins, outs = [np.ascontiguousarray(a) for a in ins], [np.dtype(t) for t in outs]
    n, memory = len(ins[0]), ptx.Arrays()
    results = [np.zeros(n, t) for t in outs]
    params = [np.uint32(n), *(np.uint64(memory.add(a, False)) for a in ins), *(np.uint64(memory.add(a)) for a in results)]
    module = ptx.Module(interp, lanes_text(body, [a.dtype for a in ins], outs, outside))
    module.run("k", params, -(-n // block), block, memory, **options)
    return results if len(results) > 1 else results[0]


def ints(t, n=12 if SOAK else 4, seed=0):
    """Corners of a type, and a few numbers between."""
    info = np.iinfo(t)
    rng = np.random.default_rng(seed + info.bits)
    corners = [0, 1, 2, 3, 7, 31, 32, 63, 64, info.max, info.max - 1, info.min, info.min + 1, info.max // 2, info.max // 2 + 1]
    if info.min < 0:
        corners += [-1, -2, -7]
    return np.array([*(c for c in corners if info.min <= c <= info.max), *rng.integers(info.min, info.max, n, t, endpoint=True)], t)


def pairs(*arrays):
    rows = list(itertools.product(*arrays))
    return [np.array([r[k] for r in rows], a.dtype) for k, a in enumerate(arrays)]


def wrap(values, t):
    mask = (1 << 8 * np.dtype(t).itemsize) - 1
    return np.array([int(v) & mask for v in values], f"u{np.dtype(t).itemsize}").view(t)


def check_ints(interp, mnemonic, ins, out, expected):
    names = ", ".join(f"%{n}" for n in "abce"[:len(ins)])
    got = lanes(interp, f"{mnemonic} %x, {names};", ins, [out])
    want = wrap([expected(*(int(v) for v in row)) for row in zip(*ins)], out)
    bad = np.flatnonzero(got != want)
    assert not bad.size, (mnemonic, [a[bad[0]] for a in ins], got[bad[0]], want[bad[0]])


def c_div(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


@pytest.mark.parametrize("sign", "us")
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_whole_numbers(interp, bits, sign):
    t = np.dtype(f"{'i' if sign == 's' else 'u'}{bits // 8}")
    wide = np.dtype(f"{t.kind}{bits // 4}") if bits < 64 else None
    a, b = pairs(ints(t), ints(t, seed=1))
    c = np.resize(ints(t, seed=2), a.size)
    s = f"{sign}{bits}"
    two = {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul.lo": lambda x, y: x * y, "mul.hi": lambda x, y: x * y >> bits,
           "min": min, "max": max,
           "div": lambda x, y: c_div(x, y) if y else -1, "rem": lambda x, y: x - c_div(x, y) * y if y else x}
    for name, f in two.items():
        check_ints(interp, f"{name}.{s}", [a, b], t, f)
    check_ints(interp, f"mad.lo.{s}", [a, b, c], t, lambda x, y, z: x * y + z)
    check_ints(interp, f"mad.hi.{s}", [a, b, c], t, lambda x, y, z: (x * y >> bits) + z)
    check_ints(interp, f"sad.{s}", [a, b, c], t, lambda x, y, z: abs(x - y) + z)
    if wide:
        check_ints(interp, f"mul.wide.{s}", [a, b], wide, lambda x, y: x * y)
        z = np.resize(ints(wide, seed=2), a.size)
        check_ints(interp, f"mad.wide.{s}", [a, b, z], wide, lambda x, y, z: x * y + z)
    if sign == "s":
        check_ints(interp, f"abs.{s}", [a], t, abs)
        check_ints(interp, f"neg.{s}", [a], t, lambda x: -x)
    if s == "s32":
        def clamp(v):
            return max(-2**31, min(2**31 - 1, v))
        check_ints(interp, "add.sat.s32", [a, b], t, lambda x, y: clamp(x + y))
        check_ints(interp, "sub.sat.s32", [a, b], t, lambda x, y: clamp(x - y))
        check_ints(interp, "mad.hi.sat.s32", [a, b, c], t, lambda x, y, z: clamp((x * y >> 32) + z))
    if bits == 32:
        def low(x):
            x &= 0xffffff
            return x - (x >> 23 << 24) if sign == "s" else x
        check_ints(interp, f"mul24.lo.{s}", [a, b], t, lambda x, y: low(x) * low(y))
    count = np.resize(np.array([0, 1, 5, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1], np.uint32), a.size)
    check_ints(interp, f"shr.{s}", [a, count], t, lambda x, y: x >> min(y, bits))
    check_ints(interp, f"shl.b{bits}", [a, count], t, lambda x, y: x << y if y < bits else 0)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_bits(interp, bits):
    t = np.dtype(f"u{bits // 8}")
    a, b = pairs(ints(t), ints(t, seed=1))
    ones = (1 << bits) - 1
    for name, f in {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}.items():
        check_ints(interp, f"{name}.b{bits}", [a, b], t, f)
    check_ints(interp, f"not.b{bits}", [a], t, lambda x: ~x)
    check_ints(interp, f"cnot.b{bits}", [a], t, lambda x: x == 0)
    if bits == 16:
        return
    x, w = ints(t, 40), f"b{bits}"
    check_ints(interp, f"popc.{w}", [x], np.uint32, lambda v: bin(v).count("1"))
    check_ints(interp, f"clz.{w}", [x], np.uint32, lambda v: bits - v.bit_length())
    check_ints(interp, f"brev.{w}", [x], t, lambda v: int(f"{v:0{bits}b}"[::-1], 2))
    for sign in "us":
        def find(v, shiftamt=False):
            v = v if sign == "u" or v >> (bits - 1) == 0 else ~v & ones
            at = v.bit_length() - 1
            return -1 if at < 0 else bits - 1 - at if shiftamt else at
        check_ints(interp, f"bfind.{sign}{bits}", [x], np.uint32, find)
        check_ints(interp, f"bfind.shiftamt.{sign}{bits}", [x], np.uint32, lambda v: find(v, True))
    places = np.array([0, 1, 3, 15, 31, 32, 33, 60, 63, 64, 65, 200, 255, 256, 257], np.uint32)
    x, at, n = pairs(ints(t, 4), places, places)
    for sign in "us":
        def bfe(v, pos, length):                # the ISA's words, bit by bit
            pos, length = pos & 255, length & 255
            top = 0 if sign == "u" or length == 0 else v >> min(pos + length - 1, bits - 1) & 1
            return sum((v >> pos + k & 1 if k < length and pos + k < bits else top) << k for k in range(bits))
        check_ints(interp, f"bfe.{sign}{bits}", [x, at, n], t, bfe)
    into = np.resize(ints(t, seed=3), x.size)

    def bfi(v, r, pos, length):
        pos, length = pos & 255, length & 255
        for k in range(length):
            if pos + k < bits:
                r = r & ~(1 << pos + k) | (v >> k & 1) << pos + k
        return r
    check_ints(interp, f"bfi.b{bits}", [x, into, at, n], t, bfi)


def test_words(interp):
    """What there is for 32 bits only."""
    t, m = np.uint32, 2**32 - 1
    a, b, c = pairs(ints(t, 3), ints(t, 3, 1), np.array([0, 1, 5, 31, 32, 33, 63, 64, 2**31], t))
    check_ints(interp, "shf.l.clamp.b32", [a, b, c], t, lambda x, y, z: (y << 32 | x) << min(z, 32) >> 32)
    check_ints(interp, "shf.l.wrap.b32", [a, b, c], t, lambda x, y, z: (y << 32 | x) << (z & 31) >> 32)
    check_ints(interp, "shf.r.clamp.b32", [a, b, c], t, lambda x, y, z: (y << 32 | x) >> min(z, 32))
    check_ints(interp, "shf.r.wrap.b32", [a, b, c], t, lambda x, y, z: (y << 32 | x) >> (z & 31))
    check_ints(interp, "bmsk.clamp.b32", [a, c], t, lambda x, y: ((1 << min(y, 32)) - 1) << min(x, 32))
    check_ints(interp, "szext.clamp.u32", [a, c], t, lambda x, y: x & (1 << min(y, 32)) - 1)
    for table in (0x80, 0xfe, 0x96, 0x1b, 0xca, 0, 255):
        got = lanes(interp, f"lop3.b32 %x, %a, %b, %c, {table};", [a, b, c], [t])
        want = 0 * a
        for k in range(8):
            want |= np.where(table >> k & 1, m, 0).astype(t) & (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
        assert (got == want).all()
    how = np.resize(np.array([0x3210, 0x7654, 0x0123, 0xfedc, 0x89ab, 0x4, 0xffff8888, 3], t), a.size)

    def byte(x, y, s):
        v = (y << 32 | x) >> 8 * (s & 7) & 255
        return (255 if v & 128 else 0) if s & 8 else v
    check_ints(interp, "prmt.b32", [a, b, how], t, lambda x, y, z: sum(byte(x, y, z >> 4 * k & 15) << 8 * k for k in range(4)))
    modes = {"f4e": [(k, k + 1, k + 2, k + 3) for k in range(4)], "b4e": [(k, k + 7 & 7, k + 6 & 7, k + 5 & 7) for k in range(4)],
             "rc8": [(k,) * 4 for k in range(4)], "ecl": [tuple(max(k, j) for j in range(4)) for k in range(4)],
             "ecr": [tuple(min(k, j) for j in range(4)) for k in range(4)],
             "rc16": [tuple(2 * (k & 1) + (j & 1) for j in range(4)) for k in range(4)]}
    for mode, rows in modes.items():
        check_ints(interp, f"prmt.b32.{mode}", [a, b, how], t,
                   lambda x, y, z: sum(byte(x, y, s) << 8 * k for k, s in enumerate(rows[z & 3])))


def test_carries(interp):
    """Sums, differences and products of 128 bits, from words of 32 and of 64."""
    a, b, c, e = (np.resize(ints(np.uint64, 30, k)[::1 - 2 * (k & 1)], 300 + k)[:300] for k in range(4))
    x, y = lanes(interp, "add.cc.u64 %x, %a, %c; addc.u64 %y, %b, %e;", [a, b, c, e], [np.uint64] * 2)
    u, v = lanes(interp, "sub.cc.u64 %x, %a, %c; subc.u64 %y, %b, %e;", [a, b, c, e], [np.uint64] * 2)
    p, q = lanes(interp, """mul.lo.u64 %x, %a, %c; mul.hi.u64 %y, %a, %c; mad.lo.cc.u64 %x, %a, %e, %x; madc.hi.u64 %y, %a, %e, %y;""",
                 [a, b, c, e], [np.uint64] * 2)
    for k in range(300):
        low, high, m, n = (int(w[k]) for w in (a, b, c, e))
        assert int(x[k]) | int(y[k]) << 64 == (low + (high << 64) + m + (n << 64)) % 2**128
        assert int(u[k]) | int(v[k]) << 64 == (low + (high << 64) - m - (n << 64)) % 2**128
        assert int(p[k]) | int(q[k]) << 64 == (low * m + low * n) % 2**128


# ---- floating point: exact fractions, rounded once ----------------------------------------------

class Format:
    def __init__(self, dtype, p, least, most, nan):
        self.dtype, self.p, self.least, self.most, self.nan = np.dtype(dtype), p, least, most, nan
        self.bits = 8 * self.dtype.itemsize
        self.word = np.dtype(f"u{self.dtype.itemsize}")

    def inf(self, negative):
        return ((1 << self.bits - self.p) - 1 << self.p - 1) | int(negative) << self.bits - 1

    def round(self, x, mode, negative_zero=False):
        """The bits of a fraction: mode n(earest), z(ero), m(inus), p(lus)."""
        sign = x < 0 or (x == 0 and negative_zero)
        if x == 0:
            return int(sign) << self.bits - 1
        x = abs(x)
        e = max(math.floor(math.log2(x)) if x < 2**1000 and x > fractions.Fraction(1, 2**1000) else
                x.numerator.bit_length() - x.denominator.bit_length(), self.least)
        while x >= fractions.Fraction(2) ** (e + 1):
            e += 1
        while e > self.least and x < fractions.Fraction(2) ** e:
            e -= 1
        unit = fractions.Fraction(2) ** (e - self.p + 1)
        q, rest = divmod(x, unit)
        up = {"z": False, "m": sign and rest > 0, "p": not sign and rest > 0,
              "n": rest * 2 > unit or (rest * 2 == unit and q & 1)}[mode]
        q = int(q) + int(up)
        r = q + (e - self.least << self.p - 1)
        if r >= self.inf(False):
            r = self.inf(False) - (mode == "z" or (mode == "m" and not sign) or (mode == "p" and sign))
        return r | int(sign) << self.bits - 1

    def value(self, bits):
        """A fraction, or a float that is no number or infinite."""
        f = float(np.array([bits], self.word).view(self.dtype)[0])
        return fractions.Fraction(f) if math.isfinite(f) else f

    def samples(self, n=30, seed=0):
        one = self.most << self.p - 1
        rng = np.random.default_rng(seed + self.p)
        top = self.inf(False)
        corners = [0, 1, 2, (1 << self.p - 1) - 1, 1 << self.p - 1, top - 1, one, one + 1, one - 1, one | 1 << self.p - 2, top,
                   top | 1 << self.p - 2, one + (1 << self.p - 1)]
        near = [int(v) for v in one + rng.integers(-(8 << self.p - 1), 8 << self.p - 1, n)]
        bits = [*corners, *near, *(int(v) for v in rng.integers(0, top, n))]
        return np.array([b | (k & 1) << self.bits - 1 for k, b in enumerate(bits)] + corners, self.word).view(self.dtype)


F16, F32, F64 = (Format(np.float16, 11, -14, 15, 0x7fff), Format(np.float32, 24, -126, 127, 0x7fffffff),
                 Format(np.float64, 53, -1022, 1023, None))
FORMATS = {"f16": F16, "f32": F32, "f64": F64}


def signed(f, bits):
    return bits >> f.bits - 1


def is_zero(f, bits):
    return bits << 1 & (1 << f.bits) - 1 == 0


def check_float(f, got, want, what):
    """want: bits, or None for a NaN."""
    for k, (g, w) in enumerate(zip(got.view(f.word), want)):
        g = int(g)
        if w is None:
            assert g == f.nan if f.nan else np.isnan(got[k]), (what(k), hex(g))
        else:
            assert g == w, (what(k), hex(g), hex(w))


def exact(f, op, x, y, z, mode):
    """The bits of an operation of the bits x, y, z; None for a NaN."""
    vx, vy, vz = (f.value(v) for v in (x, y, z))
    special = [v for v in ((vx, vy, vz) if op == "fma" else (vx, vy) if op not in ("sqrt", "rcp") else (vx,)) if isinstance(v, float)]
    if any(math.isnan(v) for v in special):
        return None
    if special or (op in ("div", "rcp") and (is_zero(f, x if op == "rcp" else y))) or (op == "sqrt" and vx < 0):
        one = np.array([x, y, z], f.word).view(f.dtype).astype(np.float64 if f is not F64 else np.longdouble)
        with np.errstate(all="ignore"):         # infinities and zeros: the same in every format
            r = {"add": lambda a, b, c: a + b, "sub": lambda a, b, c: a - b, "mul": lambda a, b, c: a * b, "div": lambda a, b, c: a / b,
                 "fma": lambda a, b, c: a * b + c, "rcp": lambda a, b, c: 1 / a, "sqrt": lambda a, b, c: np.sqrt(a)}[op](*one)
        if np.isnan(r):
            return None
        if np.isinf(r):
            return f.inf(r < 0)
        assert r == 0
        return int(np.signbit(r)) << f.bits - 1
    if op == "sqrt":
        if vx == 0:
            return x
        scale = 2 * f.p + 2 * f.bits + 2000     # more bits than matter; the last one sticks
        n = vx.numerator << 2 * scale
        root = math.isqrt(n // vx.denominator)
        exactly = root * root * vx.denominator == n
        return f.round(fractions.Fraction(2 * root + (not exactly), 2) / 2**scale, mode)
    sx, sy, sz = (signed(f, v) for v in (x, y, z))
    if op == "sub":
        vy, sy, op = -vy, 1 - sy, "add"
    r = {"add": lambda: vx + vy, "mul": lambda: vx * vy, "div": lambda: vx / vy, "rcp": lambda: 1 / vx, "fma": lambda: vx * vy + vz}[op]()
    if op == "add":
        zero = sx if sx == sy and vx == 0 == vy else mode == "m"
    elif op == "fma":
        zero = sz if sz == sx ^ sy and vz == 0 else mode == "m"
    else:
        zero = sx ^ sy
    return f.round(r, mode, zero)


@pytest.mark.parametrize("name", FORMATS)
def test_arithmetic(interp, name):
    f = FORMATS[name]
    n = 25 if SOAK else 8
    a, b = pairs(f.samples(n), f.samples(n, 1))
    c = np.resize(f.samples(n, 2), a.size)
    ops = {"add": 2, "sub": 2, "mul": 2, "fma": 3, **({} if f is F16 else {"div": 2, "rcp": 1, "sqrt": 1})}
    for op, arity in ops.items():
        for mode in "n" if f is F16 else "nzmp":
            ins = [a, b, c][:arity]
            if arity == 1:
                ins = [np.concatenate([f.samples(200, 9), np.abs(f.samples(200, 10))])]
                if op == "sqrt":
                    ins = [ins[0][::4]]
            elif mode != "n":
                ins = [v[::3] for v in ins]
            names = ", ".join(f"%{v}" for v in "abc"[:arity])
            got = lanes(interp, f"{op}.r{mode}.{name} %x, {names};", ins, [f.dtype])
            rows = [[int(w) for w in v.view(f.word)] for v in ins]
            rows += [[0] * len(rows[0])] * (3 - arity)
            check_float(f, got, [exact(f, op, *row, mode) for row in zip(*rows)],
                        lambda k: (op, mode, [hex(r[k]) for r in rows]))


def test_flushed_and_saturated(interp):
    f = F32
    a, b = pairs(f.samples(6), f.samples(6, 1))
    c = np.resize(f.samples(8, 2), a.size)

    def flush(v):
        v = v.copy()
        v.view(np.uint32)[np.abs(v.view(np.uint32) << 1) < 2**24] &= np.uint32(2**31)
        return v

    def text(op, arity):
        return f"{op}.f32 %x, {', '.join(f'%{n}' for n in 'abc'[:arity])};"
    for op, arity in (("add.rn", 2), ("mul.rn", 2), ("fma.rn", 3), ("div.rn", 2), ("rcp.rn", 1), ("sqrt.rn", 1), ("sub.rz", 2)):
        ins = [a, b, c][:arity]
        plain = lanes(interp, text(op, arity), [flush(v) for v in ins], [f.dtype])
        got = lanes(interp, text(op + ".ftz", arity), ins, [f.dtype])
        assert (got.view(np.uint32) == flush(plain).view(np.uint32)).all(), op
    for op, arity in (("add.rn", 2), ("mul.rn", 2), ("fma.rn", 3)):
        ins = [a, b, c][:arity]
        with np.errstate(invalid="ignore"):
            plain = lanes(interp, text(op, arity), ins, [f.dtype])
            want = np.where(np.isnan(plain) | (plain <= 0), np.float32(0), np.minimum(plain, np.float32(1)))
        assert (lanes(interp, text(op + ".sat", arity), ins, [f.dtype]).view(np.uint32) == want.view(np.uint32)).all()
    less = lanes(interp, "setp.lt.ftz.f32 %p1, %a, %b; selp.b32 %x, 1, 0, %p1;", [a, b], [np.uint32])
    with np.errstate(invalid="ignore"):
        assert (less == (flush(a) < flush(b))).all()


@pytest.mark.parametrize("name", FORMATS)
def test_selection_and_signs(interp, name):
    f = FORMATS[name]
    a, b = pairs(f.samples(8), f.samples(8, 1))
    x, y = ([int(w) for w in v.view(f.word)] for v in (a, b))
    top = 1 << f.bits - 1

    def pick(least, nan):
        want = []
        for p, q in zip(x, y):
            u, v = f.value(p), f.value(q)
            nans = [isinstance(w, float) and math.isnan(w) for w in (u, v)]
            if any(nans):
                want.append(None if nan or all(nans) else q if nans[0] else p)
            elif u == v:
                want.append(p if (signed(f, p) == 1) == least else q)
            else:
                want.append(p if (u < v) == least else q)
        return want
    for op, least in (("min", True), ("max", False)):
        check_float(f, lanes(interp, f"{op}.{name} %x, %a, %b;", [a, b], [f.dtype]), pick(least, False), lambda k: (op, x[k], y[k]))
        if f is not F64:
            check_float(f, lanes(interp, f"{op}.NaN.{name} %x, %a, %b;", [a, b], [f.dtype]), pick(least, True), lambda k: (op, x[k], y[k]))
    assert list(lanes(interp, f"neg.{name} %x, %a;", [a], [f.word])) == [v ^ top for v in x]
    assert list(lanes(interp, f"abs.{name} %x, %a;", [a], [f.word])) == [v & ~top for v in x]
    if f is F16:
        return
    assert list(lanes(interp, f"copysign.{name} %x, %a, %b;", [a, b], [f.word])) == [p & top | q & ~top for p, q in zip(x, y)]
    tiny = np.finfo(f.dtype).tiny
    for op, want in {"finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
                     "normal": np.isfinite(a) & (abs(a) >= tiny), "subnormal": (abs(a) < tiny) & (a != 0)}.items():
        got = lanes(interp, f"testp.{op}.{name} %p1, %a; selp.b32 %x, 1, 0, %p1;", [a], [np.uint32])
        assert (got == want).all(), op


ORDERED = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
           "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}


@pytest.mark.parametrize("code", ["u16", "s16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "b16", "b32", "b64"])
def test_compares(interp, code):
    if code[0] == "f":
        f = FORMATS[code]
        a, b = pairs(f.samples(4), f.samples(4, 1))
        nan = np.isnan(a) | np.isnan(b)
        wants = {op: ORDERED[op](a, b) & ~nan for op in ORDERED}
        wants |= {op + "u": ORDERED[op](a, b) | nan for op in ORDERED} | {"num": ~nan, "nan": nan}
    else:
        t = np.dtype(f"{'i' if code[0] == 's' else 'u'}{int(code[1:]) // 8}")
        a, b = pairs(ints(t, 4), ints(t, 4, 1))
        wants = {op: ORDERED[op](a, b) for op in (ORDERED if code[0] != "b" else ("eq", "ne"))}
        if code[0] == "u":
            wants |= {"lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b}
    for op, want in wants.items():
        x, y = lanes(interp, f"""setp.{op}.{code} %p1|%p2, %a, %b; selp.b32 %x, 1, 0, %p1; selp.u32 %y, 1, 0, %p2;""", [a, b],
                     [np.uint32] * 2)
        assert (x == want).all() and (y == ~want).all(), op
    op, want = next(iter(wants.items()))
    for join, f in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        odd = np.arange(a.size) % 2 == 1
        for sign, c in (("", odd), ("!", ~odd)):
            x, y = lanes(interp, f"""and.b32 %r1, %i, 1; setp.eq.s32 %p3, %r1, 1; setp.{op}.{join}.{code} %p1|%p2, %a, %b, {sign}%p3;
                selp.b32 %x, 1, 0, %p1; selp.b32 %y, 1, 0, %p2;""", [a, b], [np.uint32] * 2)
            assert (x == f(want, c)).all() and (y == f(~want, c)).all()
            if code[0] != "b":
                x, y = lanes(interp, f"""and.b32 %r1, %i, 1; setp.eq.s32 %p3, %r1, 1; set.{op}.{join}.u32.{code} %x, %a, %b, {sign}%p3;
                    set.{op}.f32.{code} %y, %a, %b;""", [a, b], [np.uint32, np.float32])
                assert (x == np.where(f(want, c), 2**32 - 1, 0)).all() and (y == want).all()


def test_choices(interp):
    c = np.array([0.0, -0.0, 1, -1, np.nan, np.inf, -np.inf, 1e-45, -1e-45], np.float32)
    n = np.arange(9, dtype=np.uint64)
    x, y = lanes(interp, "slct.b64.f32 %x, %b, 99, %a; slct.f32.s32 %y, 0f3F800000, 0fBF800000, %a;", [c, n], [np.uint64, np.float32])
    assert (x == np.where(c >= 0, n, 99)).all()
    assert (y == np.where(c.view(np.int32) >= 0, 1, -1)).all()
    p, q = lanes(interp, """setp.gt.u64 %p1, %b, 3; setp.gt.u64 %p2, %b, 6; and.pred %p3, %p1, %p2; xor.pred %p4, %p1, %p2; or.pred %p5, %p1, %p2;
        not.pred %p6, %p4; mov.pred %p7, %p6; selp.b32 %x, 1, 0, %p3; selp.b32 %r1, 2, 0, %p5; or.b32 %x, %x, %r1;
        selp.b32 %y, 7, 8, %p7;""", [c, n], [np.uint32] * 2)
    assert (p == (n > 6) + 2 * (n > 3)).all() and (q == np.where((n > 3) ^ (n > 6), 8, 7)).all()


# ---- conversions ---------------------------------------------------------------------------------

WHOLE = {f"{s}{b}": np.dtype(f"{'i' if s == 's' else 'u'}{b // 8}") for s in "us" for b in (8, 16, 32, 64)}


def whole_samples(t):
    f = [v for v in ints(t, 20)]
    return np.array(f, t)


def round_whole(x, mode):
    low = math.floor(x)
    return {"m": low, "p": math.ceil(x), "z": math.trunc(x), "n": round(x)}[mode]


@pytest.mark.parametrize("source", [*WHOLE, *FORMATS])
def test_conversions(interp, source):
    for to in [*WHOLE, *FORMATS]:
        if source in WHOLE:
            t = WHOLE[source]
            a = whole_samples(t)
            if to in WHOLE:
                o = np.iinfo(WHOLE[to])
                for sat in ("", ".sat"):
                    got = lanes(interp, f"cvt{sat}.{to}.{source} %x, %a;", [a], [WHOLE[to]])
                    want = [max(o.min, min(o.max, int(v))) if sat else int(v) for v in a]
                    assert (got == wrap(want, WHOLE[to])).all(), (to, sat)
            else:
                f = FORMATS[to]
                for mode in "nzmp" if to != "f16" else "n":
                    got = lanes(interp, f"cvt.r{mode}.{to}.{source} %x, %a;", [a], [f.dtype])
                    check_float(f, got, [f.round(fractions.Fraction(int(v)), mode) for v in a], lambda k: (to, mode, a[k]))
            continue
        f = FORMATS[source]
        a = f.samples(40)
        bits = [int(v) for v in a.view(f.word)]
        if to in WHOLE:
            o = np.iinfo(WHOLE[to])
            edge = [v for e in (o.min, o.max) for v in (e - 1, e - 0.5, e, e + 0.5, e + 1)]
            with np.errstate(over="ignore"):
                a = np.concatenate([a, np.array(edge, f.dtype), np.arange(-3, 3, 0.5).astype(f.dtype)])
            for mode in "nzmp":
                got = lanes(interp, f"cvt.r{mode}i.{to}.{source} %x, %a;", [a], [WHOLE[to]])
                for v, g in zip(a, got):
                    if np.isnan(v):
                        want = 0 if source != "f64" and o.bits < 64 else (1 << o.bits - 1) - (1 << o.bits if o.min < 0 else 0)
                    elif np.isinf(v):
                        want = o.max if v > 0 else o.min
                    else:
                        want = max(o.min, min(o.max, round_whole(fractions.Fraction(float(v)), mode)))
                    assert int(g) == want, (to, mode, v, g, want)
            continue
        g = FORMATS[to]
        if g.p < f.p:
            modes = [f".r{m}" for m in ("nzmp" if to != "f16" else "nz")]
        else:
            modes = ["", ".rni", ".rzi", ".rmi", ".rpi"] if to == source and to != "f16" else [""]
        for mode in modes:
            got = lanes(interp, f"cvt{mode}.{to}.{source} %x, %a;", [a], [g.dtype])
            want = []
            for v, w in zip(a, bits):
                if np.isnan(v):
                    want.append(None if g.nan else "nan")
                elif np.isinf(v):
                    want.append(g.inf(v < 0))
                else:
                    x = fractions.Fraction(float(v))
                    if mode.endswith("i"):
                        x = fractions.Fraction(round_whole(x, mode[2]))
                    want.append(g.round(x, mode[2] if mode and not mode.endswith("i") else "n", signed(f, w)))
            if mode == "" and to == source:     # a copy
                continue
            check_float(g, got, [None if w == "nan" else w for w in want], lambda k: (to, mode, a[k]))


def test_narrow_sources_in_wide_registers(interp):
    a = ints(np.uint32, 40)
    x, y = lanes(interp, "cvt.s32.s8 %x, %a; cvt.u64.u16 %y, %a;", [a], [np.int32, np.uint64])
    assert (x == a.astype(np.int8)).all() and (y == a.astype(np.uint16)).all()
    x, y = lanes(interp, "cvt.s16.s8 %h1, %a; cvt.s32.s16 %x, %h1; cvt.rn.f32.u8 %y, %a;", [a], [np.int32, np.float32])
    assert (x == a.astype(np.int8)).all() and (y == a.astype(np.uint8)).all()
    f = np.array([0.5, -1, 2, np.nan, 1e-40, 0.25], np.float32)
    x, y = lanes(interp, "cvt.sat.f32.f32 %x, %a; cvt.ftz.f32.f32 %y, %a;", [f], [np.float32] * 2)
    assert (x == np.array([0.5, 0, 1, 0, 1e-40, 0.25], np.float32)).all() and y[4] == 0
    x = lanes(interp, "cvt.rn.f16x2.f32 %x, %a, %b;", [f, f[::-1]], [np.uint32])
    with np.errstate(all="ignore"):
        half = f.astype(np.float16).view(np.uint16).astype(np.uint32)
    half[3] = 0x7fff
    assert (x == half << 16 | half[::-1]).all()


def test_half_pairs(interp):
    a, b = pairs(F16.samples(8), F16.samples(8, 1))
    x, y = (v.view(np.uint16).astype(np.uint32) for v in (a, b))
    one = lanes(interp, "fma.rn.f16 %x, %a, %b, %b;", [a, b], [np.uint16])
    two = lanes(interp, "fma.rn.f16x2 %x, %a, %b, %b;", [x | y << 16, y | x << 16], [np.uint32])
    other = lanes(interp, "fma.rn.f16 %x, %b, %a, %a;", [a, b], [np.uint16])
    assert (two == (one | other.astype(np.uint32) << 16)).all()


# ---- moves and memory ----------------------------------------------------------------------------

def test_vectors_of_registers(interp):
    a = ints(np.uint64, 40)
    x, y = lanes(interp, """mov.b64 {%r1, %r2}, %a; mov.b64 %x, {%r2, %r1}; mov.b64 {%h1, %h2, %h3, %h4}, %a; mov.b32 %y, {%h4, %h1};
        mov.b64 {_, %r2}, %a;""", [a], [np.uint64, np.uint32])
    assert (x == (a >> 32 | a << 32)).all() and (y == (a >> 48 | (a & 0xffff) << 16)).all()


def test_loads_and_stores(interp):
    """Every width and sign, vectors, and registers wider than what is loaded."""
    raw = np.random.default_rng(3).integers(0, 256, 64 * 16, np.uint8)
    memory, out = ptx.Arrays(), np.zeros(64 * 8, np.uint64)
    body = """.reg .b64 %a, %b, %x<9>; .reg .b32 %r<9>, %t; .reg .b16 %h<9>;
        ld.param.u64 %a, [p]; ld.param.u64 %b, [q]; mov.u32 %t, %tid.x; mad.wide.u32 %a, %t, 16, %a; mad.wide.u32 %b, %t, 64, %b;
        ld.global.nc.L1::no_allocate.v2.u32 {%r1, %r2}, [%a]; ld.global.v4.u16 {%h1, _, %h3, %h4}, [%a+8]; ld.global.v4.u8 {%h5, %h6, %h7, %h8}, [%a+4];
        ld.global.s8 %x1, [%a+3]; ld.global.u8 %x2, [%a+3]; ld.global.s16 %x3, [%a+2]; ld.global.s32 %x4, [%a+4]; ld.global.u32 %x5, [%a+4];
        ld.global.ca.s8 %r3, [%a+15]; ld.volatile.global.b64 %x6, [%a+8];
        st.global.v2.b64 [%b], {%x1, %x2}; st.global.v2.u64 [%b+16], {%x3, %x4}; st.global.u64 [%b+32], %x5;
        st.global.v2.u32 [%b+40], {%r1, %r2}; st.global.v4.u16 [%b+48], {%h1, 7, %h3, %h4}; st.global.u8 [%b+56], %x6; st.global.u8 [%b+57], %r3;
        st.global.u16 [%b+58], %x6; st.global.v4.u8 [%b+60], {%h5, %h6, %h7, %h8}; ret;"""
    m = ptx.Module(interp, HEAD + ".entry k(.param .u64 p, .param .u64 q) {" + body + "}")
    m.run("k", [np.uint64(memory.add(raw, False)), np.uint64(memory.add(out))], 1, 64, memory)
    for t in range(64):
        b = raw[16 * t:16 * t + 16].tobytes()
        got = out[8 * t:8 * t + 8].tobytes()

        def at(k, n, signed=False):
            return int.from_bytes(b[k:k + n], "little", signed=signed)

        def word(v):
            return (v & 2**64 - 1).to_bytes(8, "little")
        want = word(at(3, 1, True)) + word(at(3, 1)) + word(at(2, 2, True)) + word(at(4, 4, True)) + word(at(4, 4)) + b[:8] + \
            b[8:10] + b"\7\0" + b[12:16] + b[8:9] + b[15:16] + b[8:10] + b[4:8]
        assert got == want


def test_spaces(interp):
    """Shared, local, constant, global and parameters, by name, by address and by generic address; all in one warp at last."""
    text = HEAD + """
.const .align 4 .b32 table[4] = {10, 0x14, 30, -1};
.global .align 8 .f64 number = 2.5;
.global .align 4 .f32 list[3] = {0f3F800000, 2.0, 3};
.visible .global .align 8 .u64 where = list;
.global .align 8 .u64 self[2] = {generic(number), 5};
.shared .align 4 .b8 module_level[8];
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .align 8 .b8 s[24], .param .u64 out)
{
    .reg .b32 %r<30>; .reg .b64 %d<30>; .reg .pred %p<9>; .reg .f32 %f<4>; .reg .f64 %g<4>;
    .shared .align 4 .b32 mine[32];
    .local .align 4 .b32 own[8];
    mov.u32 %r1, %tid.x; ld.param.u64 %d1, [out]; mad.wide.u32 %d1, %r1, 128, %d1;
    and.b32 %r2, %r1, 3; mul.wide.u32 %d2, %r2, 4; mov.u64 %d3, table; add.s64 %d3, %d3, %d2; ld.const.u32 %r3, [%d3]; st.global.u32 [%d1], %r3;
    ld.const.u32 %r3, [table+4]; st.global.u32 [%d1+4], %r3;
    ld.global.f64 %g1, [number]; cvt.rn.f32.f64 %f1, %g1; st.global.f32 [%d1+8], %f1;
    ld.global.u64 %d4, [where]; ld.f32 %f1, [%d4+8]; st.global.f32 [%d1+12], %f1;
    ld.param.u32 %r4, [s+16]; st.global.u32 [%d1+16], %r4;
    mov.b64 %d5, s; cvta.param.u64 %d5, %d5; mul.wide.u32 %d6, %r2, 4; add.s64 %d6, %d5, %d6; ld.u32 %r4, [%d6]; st.global.u32 [%d1+20], %r4;
    ld.param.u32 %r4, [%d6+4]; st.global.u32 [%d1+24], %r4;
    mov.u32 %r5, mine; shl.b32 %r6, %r1, 2; add.u32 %r6, %r5, %r6; mul.lo.u32 %r7, %r1, 3; st.shared.u32 [%r6], %r7; bar.sync 0;
    xor.b32 %r8, %r6, 4; ld.shared.u32 %r9, [%r8]; st.global.u32 [%d1+28], %r9;
    ld.shared.u32 %r9, [mine+8]; st.global.u32 [%d1+32], %r9;
    mov.u64 %d7, own; mul.wide.u32 %d8, %r2, 4; add.s64 %d8, %d7, %d8; st.local.u32 [%d8], %r1; st.local.u32 [own+28], %r7; ld.local.u32 %r10, [%d8];
    st.global.u32 [%d1+36], %r10; ld.local.u32 %r10, [%d7+28]; st.global.u32 [%d1+40], %r10;
    cvta.local.u64 %d9, %d8; ld.u32 %r11, [%d9]; st.global.u32 [%d1+44], %r11;
    isspacep.local %p1, %d9; selp.b32 %r11, 1, 0, %p1; isspacep.shared %p1, %d9; selp.b32 %r12, 2, 0, %p1; or.b32 %r11, %r11, %r12; isspacep.global %p1, %d9; selp.b32 %r12, 4, 0, %p1;
    or.b32 %r11, %r11, %r12; isspacep.global %p1, %d1; selp.b32 %r12, 8, 0, %p1; or.b32 %r11, %r11, %r12; st.global.u32 [%d1+48], %r11;
    mov.u64 %d10, dynamic; mad.wide.u32 %d11, %r1, 4, %d10; st.shared.u32 [%d11+4], %r1; bar.sync 0; ld.shared.u32 %r13, [dynamic+8]; st.global.u32 [%d1+52], %r13;
    cvta.shared.u64 %d12, %d11; cvta.global.u64 %d13, %d1; setp.eq.u32 %p1, %r2, 1; setp.eq.u32 %p2, %r2, 2; selp.b64 %d14, %d12, %d13, %p1; selp.b64 %d14, %d9, %d14, %p2;
    bar.sync 0; st.u32 [%d14+4], 4242; ld.u32 %r14, [%d14+4]; st.global.u32 [%d1+56], %r14; cvta.to.local.u64 %d15, %d9; cvta.to.shared.u64 %d16, %d12;
    @%p2 ld.local.u32 %r14, [%d15+4]; @%p1 ld.shared.u32 %r14, [%d16+4]; st.global.u32 [%d1+60], %r14; ld.global.u32 %r15, [%d1+4]; st.global.u32 [%d1+64], %r15;
    ld.global.u64 %d17, [self]; ld.f64 %g2, [%d17]; st.global.f64 [%d1+72], %g2; ld.global.u64 %d18, [self+8]; st.global.u64 [%d1+80], %d18; ret;
}"""
    m, memory, out = ptx.Module(interp, text), ptx.Arrays(), np.zeros((32, 32), np.uint32)
    struct = np.arange(6, dtype=np.uint32) + 100
    m.run("k", [struct, np.uint64(memory.add(out))], 1, 32, memory, shared=256)
    for t in range(32):
        k = t & 3
        f = out[t].view(np.float32)
        assert list(out[t][:2]) == [[10, 20, 30, 2**32 - 1][k], 4242 if k in (0, 3) else 20]
        assert list(f[2:4]) == [2.5, 3] and list(out[t][4:7]) == [104, 100 + k, 101 + k]
        assert list(out[t][7:9]) == [3 * (t ^ 1), 6] and list(out[t][9:12]) == [t, 3 * t, t] and out[t][12] == 1 + 8
        assert list(out[t][13:16]) == [1, 4242, 4242] and out[t][16] == (4242 if k in (0, 3) else 20)
        assert out[t][18:20].copy().view(np.float64)[0] == 2.5 and out[t][20] == 5
    assert m.facts("k").shared_bytes == 8 + 128 and m.facts("k").all_params_bytes == 32
    address, n = m.variable("list")
    assert n == 12 and address % 4 == 0


def test_copies_to_shared(interp):
    text = HEAD + """.entry k(.param .u64 p, .param .u64 q) { .reg .b32 %r<9>; .reg .b64 %d<9>; .shared .align 16 .b8 s[1024];
        mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p]; mad.wide.u32 %d1, %r1, 16, %d1; mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 16, %r2;
        cp.async.cg.shared.global [%r3], [%d1], 16; cp.async.ca.shared.global [%r3+512], [%d1], 8, 4; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
        xor.b32 %r4, %r1, 1; mad.lo.u32 %r4, %r4, 16, %r2; ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4]; ld.param.u64 %d2, [q]; mad.wide.u32 %d2, %r1, 16, %d2;
        ld.shared.u32 %r7, [%r4+512]; ld.shared.u32 %r8, [%r4+516]; st.global.v4.u32 [%d2], {%r5, %r6, %r7, %r8}; ret; }"""
    memory, a, out = ptx.Arrays(), np.arange(128, dtype=np.uint32).reshape(32, 4), np.zeros((32, 4), np.uint32)
    ptx.Module(interp, text).run("k", [np.uint64(memory.add(a, False)), np.uint64(memory.add(out))], 1, 32, memory)
    there = a[np.arange(32) ^ 1]
    assert (out[:, :3] == there[:, [0, 1, 0]]).all() and not out[:, 3].any()


@pytest.mark.parametrize("space", ["global", "shared", ""])
@pytest.mark.parametrize("code", ["u32", "s32", "u64", "s64"])
def test_atomics(interp, code, space):
    """One thread after the other, in some order: the end does not depend on it, and what was there before fits."""
    t = np.dtype(f"{'i' if code[0] == 's' else 'u'}{int(code[1:]) // 8}")
    values = np.resize(ints(t, 30), 96)
    b, n = code[1:], t.itemsize
    for op, f in {"add": lambda x, y: x + y, "min": min, "max": max, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
                  "xor": lambda x, y: x ^ y, "exch": None, "inc": None, "dec": None}.items():
        if op in ("inc", "dec") and code != "u32" or op == "add" and code == "s64":
            continue
        kind = "b" + b if op in ("and", "or", "xor", "exch") else code
        begin = {"add": 5, "min": np.iinfo(t).max, "max": np.iinfo(t).min, "and": -1}.get(op, 3)
        total, olds = wrap([begin], t), np.zeros(96, t)
        value = wrap([7] * 96, t) if op in ("inc", "dec") else values
        dot = f".{space}" if space else ""
        text = HEAD + f""".entry k(.param .u64 p, .param .u64 v, .param .u64 o) {{ .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .b{b} %x, %y; .reg .pred %p;
            .shared .align 8 .b{b} s; mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p]; ld.param.u64 %d2, [v]; mad.wide.u32 %d2, %r1, {n}, %d2;
            ld.param.u64 %d3, [o]; mad.wide.u32 %d3, %r1, {n}, %d3; ld.global.b{b} %x, [%d2]; mov.u64 %d4, {'s' if space == 'shared' else '%d1'};
            setp.eq.u32 %p, %r1, 0; @%p ld.global.b{b} %y, [%d1]; @%p st.shared.b{b} [s], %y; bar.sync 0;
            atom{dot}.{op}.{kind} %y, [%d4], %x; st.global.b{b} [%d3], %y; bar.sync 0; ld{dot}.b{b} %y, [%d4]; @%p st.global.b{b} [%d1], %y; ret; }}"""
        memory = ptx.Arrays()
        ptx.Module(interp, text).run("k", [np.uint64(memory.add(a)) for a in (total, value, olds)], 1, 96, memory)
        before = int(wrap([begin], t)[0])
        seen = np.zeros(96, t)
        for k in [*range(64, 96), *range(64)]:  # the warp that comes to the barrier last goes on first
            v, seen[k] = value[k], before
            if op in ("inc", "dec"):
                before = (0 if before >= 7 else before + 1) if op == "inc" else (7 if before == 0 or before > 7 else before - 1)
            else:
                before = int(wrap([int(v) if op == "exch" else f(before, int(v))], t)[0])
        assert int(total[0]) == before and list(olds) == list(seen), op


def test_atomics_of_floats_and_swaps(interp):
    text = HEAD + """.entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .f32 %f<4>; .reg .f64 %g<4>; .reg .b16 %h<4>; .reg .pred %p;
        ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f1, %r1; red.global.add.f32 [%d1], %f1; cvt.f64.f32 %g1, %f1;
        atom.global.gpu.relaxed.add.f64 %g2, [%d1+8], %g1; mov.b16 %h1, 0x3c00; atom.global.add.noftz.f16 %h2, [%d1+16], %h1;
    again: ld.global.u32 %r2, [%d1+4]; add.u32 %r3, %r2, %r1; atom.global.cas.b32 %r4, [%d1+4], %r2, %r3; setp.ne.u32 %p, %r4, %r2; @%p bra again; ret; }"""
    memory, a = ptx.Arrays(), np.zeros(24, np.uint8)
    ptx.Module(interp, text).run("k", [np.uint64(memory.add(a))], 3, 64, memory, n_threads=3)
    assert a[:4].view(np.float32)[0] == a[8:16].view(np.float64)[0] == a[4:8].view(np.uint32)[0] == 3 * 2016
    assert a[16:18].view(np.float16)[0] == 192


# ---- control -------------------------------------------------------------------------------------

def collatz(n):
    steps = 0
    while n != 1:
        n, steps = n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1
    return steps


def test_loops_that_part(interp):
    a = np.arange(1, 200, dtype=np.uint32)
    body = """mov.u32 %x, 0; mov.u32 %y, 0;
    loop: setp.eq.u32 %p1, %a, 1; @%p1 bra done; add.u32 %x, %x, 1; and.b32 %r1, %a, 1; setp.eq.u32 %p2, %r1, 0; @%p2 bra even;
          mad.lo.u32 %a, %a, 3, 1; bra.uni loop;
    even: shr.u32 %a, %a, 1; bra loop;
    done: activemask.b32 %y;"""
    x, y = lanes(interp, body, [a], [np.uint32] * 2)
    assert list(x) == [collatz(int(v)) for v in a]
    assert (y[:192] == 2**32 - 1).all() and (y[192:] == 127).all() # they have come together again


def test_tables_of_branches(interp):
    a = np.arange(100, dtype=np.uint32) % 5
    body = """ts: .branchtargets zero, one, two, one, four;
        mov.u32 %x, 0; @!%q brx.idx %a, ts;
        zero: add.u32 %x, %x, 100; bra end;
        one: add.u32 %x, %x, 1;
        two: add.u32 %x, %x, 2; bra end;
        four: { .reg .b32 %r1; mov.u32 %r1, 4000; add.u32 %x, %x, %r1; bra end; end: bra out; }
        end: add.u32 %x, %x, 10000;
        out: """
    want = [{0: 10100, 1: 10003, 2: 10002, 3: 10003, 4: 4000}[int(v)] for v in a]
    assert list(lanes(interp, body, [a], [np.uint32])) == want


FIB = """
.func (.param .b32 r) fib (.param .b32 n)
{
    .reg .b32 %n, %a, %b; .reg .pred %p; .local .align 4 .b32 kept[2]; .reg .b64 %d;
    ld.param.u32 %n, [n]; setp.lt.u32 %p, %n, 2; @%p bra leaf; st.local.u32 [kept+4], %n;
    { .param .b32 p0; .param .b32 r0; sub.u32 %a, %n, 1; st.param.b32 [p0+0], %a; call (r0), fib, (p0); ld.param.b32 %a, [r0+0]; }
    ld.local.u32 %n, [kept+4];
    { .param .b32 p0; .param .b32 r0; sub.u32 %b, %n, 2; st.param.b32 [p0+0], %b; call (r0), fib, (p0); ld.param.b32 %b, [r0+0]; }
    add.u32 %n, %a, %b;
leaf: st.param.b32 [r+0], %n; ret;
}
.func (.reg .u32 %z) twice (.reg .u32 %v) { shl.b32 %z, %v, 1; ret; }
.func (.reg .u32 %z) plus (.reg .u32 %v) { add.u32 %z, %v, 1000; ret; }
"""


def test_calls(interp):
    """Recursion as deep as each lane wants, registers as parameters, and functions by address."""
    a = np.arange(70, dtype=np.uint32) % 13
    body = """{ .param .b32 p0; .param .b32 r0; st.param.b32 [p0], %a; call (r0), fib, (p0); ld.param.b32 %x, [r0]; }
        and.b32 %r1, %a, 1; setp.eq.u32 %p1, %r1, 0; @%p1 call (%x), twice, (%x);
        mov.u64 %d1, twice; mov.u64 %d2, plus; selp.b64 %d3, %d1, %d2, %p1; mov.u32 %y, %a;
        call (%y), %d3, (%y), proto; proto: .callprototype (.reg .u32 _) _ (.reg .u32 _);"""
    x, y = lanes(interp, body, [a], [np.uint32] * 2, outside=FIB)
    fib = [0, 1]
    while len(fib) < 13:
        fib.append(fib[-1] + fib[-2])
    assert list(x) == [fib[v] * (2 - v % 2) for v in a] and list(y) == [2 * v if v % 2 == 0 else v + 1000 for v in a]


def shuffled(mode, a, b, c):
    """The ISA's words."""
    out, ok = [], []
    for lane in range(32):
        bv, cv, mask = b[lane] & 31, c[lane] & 31, c[lane] >> 8 & 31
        most, least = lane & mask | cv & ~mask, lane & mask
        j, p = {"up": (lane - bv, lane - bv >= most), "down": (lane + bv, lane + bv <= most),
                "bfly": (lane ^ bv, lane ^ bv <= most), "idx": (least | bv & ~mask, least | bv & ~mask <= most)}[mode]
        if mode == "bfly":
            p = (lane ^ bv) <= most
        if mode == "idx":
            p = (least | bv & ~mask) <= most
        out.append(a[j if p else lane])
        ok.append(p)
    return out, ok


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles(interp, mode):
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**32, 32, np.uint32)
    for width in (32, 16, 8, 4, 1):
        for b in (0, 1, 3, 7, 16, 31, None):
            c = (32 - width) << 8 | (0 if mode == "up" else 31)
            bs = rng.integers(0, 64, 32).astype(np.uint32) if b is None else np.full(32, b, np.uint32)
            x, y = lanes(interp, f"shfl.sync.{mode}.b32 %x|%p1, %a, %b, {c}, -1; selp.b32 %y, 1, 0, %p1;", [a, bs], [np.uint32] * 2, 32)
            out, ok = shuffled(mode, a, [int(v) for v in bs], [c] * 32)
            assert list(x) == out and list(y) == ok, (width, b)


def test_together(interp):
    """Votes, matches and reductions of the lanes that a mask names; the masks cut the warp in three."""
    a = np.arange(32, dtype=np.uint32) * 7 % 5
    masks = np.array([0xff if k < 8 else 0xffff00 if k < 24 else 0xff000000 for k in range(32)], np.uint32)
    groups = [[j for j in range(32) if masks[k] >> j & 1] for k in range(32)]
    vote = """setp.lt.u32 %p1, %a, 3; vote.sync.all.pred %p2, %p1, %b; vote.sync.any.pred %p3, !%p1, %b; vote.sync.uni.pred %p4, %p1, %b;
        vote.sync.ballot.b32 %x, %p1, %b; selp.b32 %y, 1, 0, %p2; selp.b32 %r1, 2, 0, %p3; or.b32 %y, %y, %r1; selp.b32 %r1, 4, 0, %p4; or.b32 %y, %y, %r1;"""
    x, y = lanes(interp, vote, [a, masks], [np.uint32] * 2, 32)
    for k, group in enumerate(groups):
        votes = [a[j] < 3 for j in group]
        assert x[k] == sum(1 << j for j in group if a[j] < 3)
        assert y[k] == all(votes) + 2 * (not all(votes)) + 4 * (all(votes) or not any(votes))
    x, y = lanes(interp, """match.any.sync.b32 %x, %a, %b; shr.u32 %r2, %a, 3; match.all.sync.b32 %r1|%p1, %r2, %b; selp.b32 %y, %r1, 9, %p1;""",
                 [a, masks], [np.uint32] * 2, 32)
    assert list(x) == [sum(1 << j for j in g if a[j] == a[k]) for k, g in enumerate(groups)] and (y == masks).all()
    s = a.astype(np.int32) - 2
    for op, f in {"add.u32": sum, "min.s32": min, "max.s32": max, "and.b32": lambda v: np.bitwise_and.reduce(list(v)),
                  "or.b32": lambda v: np.bitwise_or.reduce(list(v)), "xor.b32": lambda v: np.bitwise_xor.reduce(list(v))}.items():
        x = lanes(interp, f"redux.sync.{op} %x, %a, %b;", [s, masks], [np.int32], 32)
        assert list(x) == [f([s[j] for j in g]) for g in groups], op
    x, y = lanes(interp, "elect.sync %x|%p1, %b; selp.b32 %y, 1, 0, %p1;", [a, masks], [np.uint32] * 2, 32)
    assert list(x) == [g[0] for g in groups] and list(y) == [k == g[0] for k, g in enumerate(groups)]


def test_lanes_meet_from_different_places(interp):
    """Halves of a warp wait for each other: in two calls of one function, and at two bar.warp.sync."""
    function = """.func (.param .b32 r) swap (.param .b32 v) { .reg .b32 %a; ld.param.u32 %a, [v]; shfl.sync.bfly.b32 %a, %a, 16, 31, -1;
        st.param.b32 [r], %a; ret; }"""
    a = np.arange(32, dtype=np.uint32)
    body = """setp.lt.u32 %p1, %a, 16; @%p1 bra low;
        { .param .b32 p0; .param .b32 r0; add.u32 %r1, %a, 100; st.param.b32 [p0], %r1; call (r0), swap, (p0); ld.param.b32 %x, [r0]; } bar.warp.sync -1; bra end;
        low: { .param .b32 p0; .param .b32 r0; add.u32 %r1, %a, 200; st.param.b32 [p0], %r1; call (r0), swap, (p0); ld.param.b32 %x, [r0]; } bar.warp.sync -1;
        end: mov.u32 %y, %laneid;"""
    x, y = lanes(interp, body, [a], [np.uint32] * 2, 32, outside=function)
    assert list(x) == [k + 116 if k < 16 else k + 184 for k in range(32)] and list(y) == list(range(32))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("block", [1, 31, 32, 33, 128, 1000])
def test_barriers_in_loops(interp, block, backwards):
    """A sum in shared memory, two by two."""
    text = HEAD + """.entry k(.param .u64 p, .param .u64 q) { .reg .b32 %r<12>; .reg .b64 %d<9>; .reg .pred %p<4>; .extern .shared .align 4 .b8 s[];
        mov.u32 %r1, %tid.x; mov.u32 %r2, %ntid.x; mov.u32 %r8, %ctaid.x; ld.param.u64 %d1, [p]; mad.lo.u32 %r9, %r8, %r2, %r1; mad.wide.u32 %d1, %r9, 4, %d1; ld.global.u32 %r3, [%d1];
        mov.u64 %d2, s; mad.wide.u32 %d2, %r1, 4, %d2; st.shared.u32 [%d2], %r3; mov.u32 %r4, 1;
    loop: setp.ge.u32 %p1, %r4, %r2; @%p1 bra end; bar.sync 0; shl.b32 %r5, %r4, 1; sub.u32 %r6, %r5, 1; and.b32 %r6, %r6, %r1; setp.ne.u32 %p2, %r6, 0; @%p2 bra next;
        add.u32 %r7, %r1, %r4; setp.ge.u32 %p2, %r7, %r2; @%p2 bra next; mad.wide.u32 %d3, %r4, 4, %d2; ld.shared.u32 %r3, [%d3]; ld.shared.u32 %r7, [%d2]; add.u32 %r3, %r3, %r7; st.shared.u32 [%d2], %r3;
    next: mov.u32 %r4, %r5; bra loop;
    end: setp.ne.u32 %p1, %r1, 0; @%p1 ret; ld.param.u64 %d1, [q]; mad.wide.u32 %d1, %r8, 4, %d1; ld.shared.u32 %r3, [%d2]; st.global.u32 [%d1], %r3; ret; }"""
    memory, a, out = ptx.Arrays(), np.arange(5 * block, dtype=np.uint32), np.zeros(5, np.uint32)
    counts = ptx.Module(interp, text).run("k", [np.uint64(memory.add(a, False)), np.uint64(memory.add(out))], 5, block, memory,
                                          shared=4 * block, backwards=backwards)
    assert list(out) == list(a.reshape(5, block).sum(1)) and counts.n_barriers == 5 * (block - 1).bit_length()


def test_named_barriers(interp):
    """Two warps fill for two others, by bar.arrive and bar.sync with 128 threads; then all vote."""
    text = HEAD + """.entry k(.param .u64 q) { .reg .b32 %r<12>; .reg .b64 %d<9>; .reg .pred %p<4>; .shared .align 4 .b32 s[64];
        mov.u32 %r1, %tid.x; ld.param.u64 %d1, [q]; mad.wide.u32 %d1, %r1, 8, %d1; setp.lt.u32 %p1, %r1, 64; and.b32 %r2, %r1, 63; mov.u32 %r3, s; mad.lo.u32 %r3, %r2, 4, %r3;
        @%p1 bra fill; bar.sync 3, 128; xor.b32 %r3, %r3, 252; ld.shared.u32 %r4, [%r3]; st.global.u32 [%d1], %r4; bra end;
        fill: st.shared.u32 [%r3], %r1; bar.arrive 3, 128; st.global.u32 [%d1], 77;
        end: setp.lt.u32 %p2, %r1, 10; bar.red.popc.u32 %r5, 0, %p2; bar.red.and.pred %p3, 0, !%p2; selp.b32 %r6, 1, 0, %p3; bar.red.or.pred %p3, 1, 128, %p2; selp.b32 %r7, 2, 0, %p3;
        or.b32 %r6, %r6, %r7; shl.b32 %r5, %r5, 4; or.b32 %r5, %r5, %r6; st.global.u32 [%d1+4], %r5; ret; }"""
    memory, out = ptx.Arrays(), np.zeros((128, 2), np.uint32)
    ptx.Module(interp, text).run("k", [np.uint64(memory.add(out))], 1, 128, memory)
    assert (out[:64, 0] == 77).all() and (out[64:, 0] == 63 - np.arange(64)).all() and (out[:, 1] == 162).all()


def test_places_in_the_grid(interp):
    text = HEAD + """.entry k(.param .u64 q) { .reg .b32 %r<20>; .reg .b64 %d<9>;
        mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y; mov.u32 %r6, %ntid.z;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %ctaid.z; mov.u32 %r10, %nctaid.x; mov.u32 %r11, %nctaid.y; mov.u32 %r15, %nctaid.z;
        mad.lo.u32 %r12, %r9, %r11, %r8; mad.lo.u32 %r12, %r12, %r10, %r7; mad.lo.u32 %r12, %r12, %r6, %r3; mad.lo.u32 %r12, %r12, %r5, %r2; mad.lo.u32 %r12, %r12, %r4, %r1;
        ld.param.u64 %d1, [q]; mad.wide.u32 %d1, %r12, 4, %d1; mov.u32 %r13, %laneid; mov.u32 %r14, %warpid; mad.lo.u32 %r13, %r14, 32, %r13; st.global.u32 [%d1], %r13; ret; }"""
    memory, out = ptx.Arrays(), np.full((2 * 3 * 2, 5 * 4 * 3), 999, np.uint32)
    counts = ptx.Module(interp, text).run("k", [np.uint64(memory.add(out))], (2, 3, 2), (5, 4, 3), memory, n_threads=4)
    assert (out == np.arange(60)).all() and counts.n_blocks == 12 and counts.n_threads == 720


# ---- what is counted -----------------------------------------------------------------------------

def access(interp, index, size=4, n=32):
    """The counts of a warp whose lanes load u32 at index * 4 + offset, an expression of %r1."""
    text = HEAD + f""".entry k(.param .u64 p) {{ .reg .b32 %r<20>; .reg .b64 %d<9>; .reg .pred %p; mov.u32 %r1, %tid.x; {index} ld.param.u64 %d1, [p]; cvt.u64.u32 %d2, %r2;
        add.s64 %d1, %d1, %d2; setp.lt.u32 %p, %r1, {n};
        @%p ld.global.u{8 * size} %{'d3' if size == 8 else 'r3'}, [%d1]; ret; }}"""
    memory = ptx.Arrays()
    return ptx.Module(interp, text).run("k", [np.uint64(memory.add(np.zeros(1 << 16, np.uint8)))], 1, 32, memory)


@pytest.mark.parametrize("index,size,sectors,ideal", [
    ("mul.lo.u32 %r2, %r1, 4;", 4, 4, 4), ("mad.lo.u32 %r2, %r1, 4, 4;", 4, 5, 4), ("mov.u32 %r2, 64;", 4, 1, 1),
    ("mul.lo.u32 %r2, %r1, 32;", 4, 32, 4), ("mul.lo.u32 %r2, %r1, 8;", 4, 8, 4), ("mul.lo.u32 %r2, %r1, 8;", 8, 8, 8),
    ("xor.b32 %r2, %r1, 21; mul.lo.u32 %r2, %r2, 4;", 4, 4, 4), ("mul.lo.u32 %r2, %r1, 1;", 1, 1, 1),
    ("and.b32 %r2, %r1, 3; mul.lo.u32 %r2, %r2, 512;", 4, 4, 1)])
def test_sectors(interp, index, size, sectors, ideal):
    c = access(interp, index, size)
    assert (c.load_bytes, c.load_sectors, c.ideal_load_sectors, c.store_bytes) == (32 * size, sectors, ideal, 0)
    assert c.n_sites == 1 and (c.sites[0].n_accesses, c.sites[0].n_sectors, c.sites[0].n_ideal) == (1, sectors, ideal)
    assert access(interp, index, size, 1).load_sectors == 1


@pytest.mark.parametrize("words,bytes_,conflicts", [(1, 4, 0), (2, 4, 1), (32, 4, 31), (33, 4, 0), (0, 4, 0), (2, 8, 0), (4, 8, 2), (4, 16, 0), (32, 8, 30)])
def test_banks(interp, words, bytes_, conflicts):
    kind = {4: "u32 %r3", 8: "u64 %d1", 16: "v2.u64 {%d1, %d2}"}[bytes_]
    text = HEAD + f""".entry k() {{ .reg .b32 %r<20>; .reg .b64 %d<9>; .shared .align 16 .b8 s[8192]; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
        mad.lo.u32 %r2, %r1, {4 * words}, %r2; ld.shared.{kind}, [%r2]; ret; }}"""
    assert ptx.Module(interp, text).run("k", []).n_conflicts == conflicts


def test_counts_of_instructions(interp):
    text = HEAD + """.entry k() { .reg .b32 %r<20>; .reg .pred %p; mov.u32 %r1, %tid.x; setp.lt.u32 %p, %r1, 8; @%p bra low; add.u32 %r1, %r1, 1; low: ret; }"""
    c = ptx.Module(interp, text).run("k", [], 3, 32)
    assert (c.n_instructions, c.n_lane_instructions, c.n_divergent) == (15, 3 * (32 + 32 + 8 + 24 + 32), 3)


def test_facts(interp):
    text = HEAD + FIB + """.visible .entry k(.param .u8 a, .param .align 8 .b8 b[12], .param .u16 c, .param .f64 d)
        .maxntid 64, 2, 1 .minnctapersm 2
        { .reg .b32 %r<9>; .reg .b64 %d<7>; .reg .pred %p<3>; .reg .b16 %h<2>; .reg .f32 %f<4>; .local .align 8 .b8 x[20]; .shared .b8 s[3]; .shared .align 8 .b8 t[8];
        { .param .b32 p0; .param .b32 r0; call (r0), fib, (p0); } ld.param.u64 %d1, [b]; add.s64 %d2, %d1, %d1; mul.f32 %f1, %f2, %f3; ret; }
        .entry other() { .shared .b8 z[1000]; ret; }"""
    m = ptx.Module(interp, text)
    f, g = m.facts("k"), m.facts("other")
    assert [f.param_offset[k] for k in range(4)] == [0, 8, 20, 24] and [f.param_bytes[k] for k in range(4)] == [1, 12, 2, 8]
    assert (f.all_params_bytes, f.shared_bytes, f.max_threads, list(f.max_block), f.recursive) == (32, 16, 128, [64, 2, 1], True)
    assert (f.n_pred, f.n_b16, f.n_b32, f.n_b64) == (3, 2, 13, 7) and 0 < f.n_registers < 12 and f.local_bytes == 32 + 16 and f.target == 80
    assert text.splitlines()[f.contracts_at - 1].count("mul.f32") and (g.shared_bytes, g.recursive, g.contracts_at) == (1000, False, 0)


# ---- faults --------------------------------------------------------------------------------------

def run_body(interp, body, n_bytes=4096, block=64, grid=1, regs=REGS, **options):
    memory, a = ptx.Arrays(), np.zeros(n_bytes, np.uint8)
    text = HEAD + ".visible .entry k(.param .u64 p)\n{\n" + regs + "mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p];\n" + body + "\nret;\n}"
    return ptx.Module(interp, text).run("k", [np.uint64(memory.add(a))], grid, block, memory, **options)


def line_of(body, mark):
    """The line that run_body gives to the first line of the body with this mark."""
    before = (HEAD + ".visible .entry k(.param .u64 p)\n{\n" + REGS + "x\n").count("\n")
    return before + 1 + next(k for k, line in enumerate(body.split("\n")) if mark in line)


FAULTS = [
    ("a store beyond the end", "mad.wide.u32 %d2, %r1, 64, %d1;\nst.global.u64 [%d2+72], %d1;", "st.global.u64", "(63,0,0)", "out of bounds"),
    ("a load before the beginning", "mad.wide.u32 %d2, %r1, 64, %d1;\nld.global.u32 %r2, [%d2+-4];", "ld.global", "(0,0,0)", "0x6fffffffc are out of bounds"),
    ("a null pointer", "mov.u64 %d2, 0;\nld.global.u8 %h1, [%d2];", "ld.global", "(0,0,0)", "1 bytes at address 0x0"),
    ("one lane of a warp", "setp.eq.u32 %p1, %r1, 41;\nmov.u64 %d2, 5000;\n@%p1 add.s64 %d1, %d1, %d2;\nld.global.u8 %h1, [%d1];", "ld.global", "(41,0,0)", "out of bounds"),
    ("a vector that is not aligned", "mad.wide.u32 %d2, %r1, 4, %d1;\nld.global.v2.u32 {%r2, %r3}, [%d2];", "ld.global", "(1,0,0)", "misaligned for 8 bytes"),
    ("a word that is not aligned", "mad.wide.u32 %d2, %r1, 4, %d1;\nst.global.u32 [%d2+2], %r1;", "st.global", "(0,0,0)", "misaligned"),
    ("beyond shared memory", ".shared .b32 s[63];\nmov.u32 %r2, s; mad.lo.u32 %r2, %r1, 4, %r2;\nst.shared.u32 [%r2], %r1;", "st.shared", "(63,0,0)", "of shared memory"),
    ("beyond local memory", ".local .align 4 .b32 s[4];\nmov.u64 %d2, s; mad.wide.u32 %d2, %r1, 65536, %d2;\nst.local.u32 [%d2], %r1;", "st.local", "(2,0,0)", "of local memory"),
    ("a race of a warp", ".shared .b32 s[64];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;\nst.shared.u32 [%r3], %r1;\nxor.b32 %r3, %r3, 4;\nld.shared.u32 %r4, [%r3];",
     "ld.shared", "(0,0,0)", "race: reads byte 4 of shared memory, which thread 1 has written"),
    ("a race of two warps", ".shared .b32 s[64];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;\nst.shared.u32 [%r3], %r1;\nbar.warp.sync -1;\nxor.b32 %r3, %r3, 128;\nld.shared.u32 %r4, [%r3];",
     "st.shared", "(32,0,0)", "race: writes byte 128 of shared memory, which thread 0 has read"),
    ("two write one byte", ".shared .b32 s;\nst.shared.u32 [s], %r1;", "st.shared", "(1,0,0)", "race: writes byte 0 of shared memory, which thread 0 has written"),
    ("a write after a read", ".shared .b32 s[65];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2;\nld.shared.u32 %r4, [%r3+4];\nst.shared.u32 [%r3], %r1;", "st.shared", "(1,0,0)",
     "race: writes byte 4 of shared memory, which thread 0 has read"),
    ("a race of bytes", ".shared .b8 s[128];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 2, %r2;\nst.shared.u8 [%r3], %r1;\nsetp.eq.u32 %p1, %r1, 40;\n@%p1 ld.shared.u16 %h1, [%r3+2];",
     "ld.shared", "(40,0,0)", "race: reads byte 82 of shared memory, which thread 41"),
    ("an atomic and a plain read", ".shared .b32 s;\natom.shared.add.u32 %r2, [s], 1;\nld.shared.u32 %r3, [s];", "ld.shared", "(0,0,0)", "race"),
    ("lanes part before a barrier", "setp.lt.u32 %p1, %r1, 40;\n@%p1 bra low;\nbar.sync 0;\nbra end;\nlow: bar.sync 0;\nend:", "low:", "(32,0,0)", "divergent barrier"),
    ("a barrier that some do not reach", "setp.lt.u32 %p1, %r1, 40;\nlow: @%p1 bra low;\nbar.sync 0;", "@%p1 bra", "", "runaway"),
    ("two barriers", "setp.lt.u32 %p1, %r1, 32;\n@%p1 bra low;\nbar.sync 1;\nbra end;\nlow: bar.sync 2;\nend:", "low:", "(0,0,0)", "divergent barrier (deadlock): waits at barrier 2"),
    ("a shuffle for absent lanes", "setp.lt.u32 %p1, %r1, 8;\n@%p1 shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\nbar.sync 0;", "shfl", "(0,0,0)", "deadlock: waits for lanes of its mask (0xffffffff)"),
    ("a mask without the lane", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xfffffffe;", "shfl", "(0,0,0)", "does not name the lane itself"),
    ("a loop without end", "again:\nadd.u32 %r2, %r2, 1;\nbra again;", "bra", "", "runaway: more than 100000 instructions"),
    ("a trap", "setp.eq.u32 %p1, %r1, 33;\n@%p1 trap;", "trap", "(33,0,0)", "trap"),
    ("no function", "mov.u64 %d2, 12;\ncall %d2, (), proto;\nproto: .callprototype _ ();", "call", "(0,0,0)", "0xc is no function"),
    ("a parameter written", "mov.b64 %d2, p;\ncvta.param.u64 %d2, %d2;\nst.u64 [%d2], %d1;", "st.u64", "(0,0,0)", "not to be written"),
    ("no barrier 16", "bar.sync 16;", "bar", "(0,0,0)", "no barrier 16"),
]


@pytest.mark.parametrize("what,body,mark,thread,message", FAULTS, ids=[f[0] for f in FAULTS])
def test_faults(interp, what, body, mark, thread, message):
    with pytest.raises(ptx.Fault) as e:
        run_body(interp, body, max_instructions=100000)
    said = str(e.value)
    assert message in said and said.startswith(f"k, line {line_of(body, mark)} (") and thread in said, said


GOOD = [
    ("a barrier between", ".shared .b32 s[64];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; bar.sync 0; xor.b32 %r3, %r3, 132; ld.shared.u32 %r4, [%r3];"
     "bar.sync 0; st.shared.u32 [%r3], %r1;"),
    ("bar.warp.sync of a warp", ".shared .b32 s[64];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; bar.warp.sync -1; xor.b32 %r3, %r3, 4; ld.shared.u32 %r4, [%r3];"),
    ("a shuffle of eight", ".shared .b32 s[64];\nmov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; and.b32 %r5, %r1, 24; shl.b32 %r5, 255, %r5; setp.lt.u32 %p1, %r1, 8; @%p1 bra low;"
     "low: st.shared.u32 [%r3], %r1; shfl.sync.idx.b32 %r6, %r1, 0, 31, %r5; xor.b32 %r3, %r3, 28; ld.shared.u32 %r4, [%r3];"),
    ("atomics", ".shared .b32 s;\natom.shared.add.u32 %r2, [s], 1; red.shared.max.u32 [s], 1; bar.sync 0; ld.shared.u32 %r3, [s];"),
    ("all read", ".shared .b32 s;\nsetp.eq.u32 %p1, %r1, 5; @%p1 st.shared.u32 [s], %r1; bar.sync 0; ld.shared.u32 %r3, [s]; bar.sync 0; @%p1 st.shared.u32 [s], %r1;"),
    ("threads that have left", "setp.lt.u32 %p1, %r1, 40; @%p1 ret; bar.sync 0;"),
    ("a race that is not looked for", ".shared .b32 s;\nst.shared.u32 [s], %r1;"),
]


@pytest.mark.parametrize("what,body", GOOD, ids=[g[0] for g in GOOD])
def test_no_faults(interp, what, body):
    run_body(interp, body, allows_races="not looked" in what)
    run_body(interp, body, allows_races="not looked" in what, backwards=True)


REFUSED = [
    ("frob.u32 %r1, %r2;", "unsupported instruction frob.u32"), ("ex2.approx.f32 %f1, %f2;", "unsupported instruction ex2.approx.f32: what approximations"),
    ("sqrt.approx.f32 %f1, %f2;", "unsupported"), ("div.f32 %f1, %f2, %f3;", "no rounding"), ("add.u32 %r1, %r2;", "2 operands"),
    ("add.u32 %r1, %r2, %d3;", "third operand has 8 bytes, 4 are wanted"), ("add.u32 %r1, %r2, %zz;", "unsupported: %zz"), ("bra nowhere;", "no label nowhere"),
    ("wgmma.fence.sync.aligned;", "unsupported instruction wgmma"), ("ld.global.u32 %h1, [%d1];", "register of 2 bytes, at least 4"), ("ld.shared.u32 %r1, [p];", "another space"),
    ("mov.u32 %r1, 0f3F800000", "';' is wanted"), ("st.param.u32 [p], %r1;", "unsupported"), ("call nothing, ();", "no function nothing"), ("cvt.s32.f32 %r1, %f1;", "without a rounding"),
    ("shfl.bfly.b32 %r1, %r2, 1, 31;", "without .sync"), ("ld.global.frob.u32 %r1, [%d1];", "unsupported: .frob"), ("@%r1 bra out;", "a predicate is wanted"), ("lop3.b32 %r1, %r2, %r3, %r4, %r5;", "no number"),
    (".reg .v4 .f32 %v;", "unsupported"), ("add.rn.f32 %f1, %f2, 0x10000000000000000;", "more than 64 bits"), ("add.u32 %r1, %r2, 1.5;", "whole number"),
]


@pytest.mark.parametrize("line,message", REFUSED, ids=[r[0][:20] for r in REFUSED])
def test_refused(interp, line, message):
    text = HEAD + ".visible .entry k(.param .u64 p)\n{\n" + REGS + "\n" + line + "\nret;\n}"
    with pytest.raises(ptx.Fault) as e:
        ptx.Module(interp, text)
    assert message in str(e.value) and re.match(r"line [89]: ", str(e.value)), str(e.value)


def test_bad_launches(interp):
    m = ptx.Module(interp, HEAD + ".entry k() .maxntid 64 { ret; }")
    for grid, block, message in ((0, 32, "grid 0"), (1, 65, "at most 64"), (1, (8, 9), "at most 64"), ((1, 70000), 1, "grid 1,70000")):
        with pytest.raises(ptx.Fault) as e:
            m.run("k", [], grid, block)
        assert message in str(e.value)


def test_no_text_does_harm(interp):
    """Cut and changed texts are refused or read; nothing is run."""
    rng = np.random.default_rng(2)
    texts = [lanes_text("fma.rn.f32 %x, %a, %b, %c; shfl.sync.idx.b32 %x|%p1, %x, 1, 31, -1;", [np.dtype("f4")] * 3, [np.dtype("f4")], FIB)]
    taken = 0
    for k in range(20000 if SOAK else 1500):
        raw = bytearray(texts[0].encode())
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, len(raw)))
            if k % 3 == 0:
                del raw[at:at + int(rng.integers(1, 12))]
            elif k % 3 == 1:
                raw[at] = int(rng.choice(list(b".,;[]{}()%@!0x9 \n-+|_<>")))
            else:
                raw = raw[:at] + raw[int(rng.integers(0, len(raw))):][:40] + raw[at:]
        try:
            ptx.Module(interp, raw.replace(b"\0", b" ").decode())
            taken += 1
        except ptx.Fault as e:
            assert str(e).startswith("line ")
    assert taken > 10


# ---- NVRTC's PTX ---------------------------------------------------------------------------------

CUDA = r'''
typedef unsigned u32; typedef unsigned long long u64;
__constant__ int weights[4] = {1, -2, 3, 5};
__device__ u32 counter;
__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }
__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int minus(int x) { return -x; }
__device__ __noinline__ int square(int x) { return x * x; }
struct pair { int a; long long b; char c; };
__device__ __noinline__ struct pair swap(struct pair p) { struct pair q = {(int)p.b, p.a, (char)(p.c + 1)}; return q; }
extern "C" __global__ void kernel(const int *in, long long *out, int n)
{
    __shared__ int tile[128]; extern __shared__ int more[];
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i < n ? in[i] : 0;
    long long *to = out + 16 * i;
    tile[threadIdx.x] = x; __syncthreads();
    int left = tile[(threadIdx.x + 127) % 128];
    if (i >= n) return;
    to[0] = left; to[1] = ackermann(2, x & 3);
    int (*f[3])(int) = {twice, minus, square};
    to[2] = f[(unsigned)x % 3](x);
    switch (x & 7) { case 0: x += 5; break; case 1: x *= 7; break; case 2: x ^= 99; break; case 3: x -= 8; break; case 4: x = ~x; break; case 5: x <<= 2; break; case 6: x >>= 1; break; default: x = 1; }
    to[3] = x; struct pair p = {x, in[i], 3}; p = swap(swap(swap(p))); to[4] = p.a * 1000ll + p.b + p.c;
    to[5] = (long long)((unsigned __int128)(u64)(long long)in[i] * 0x123456789abcdefull >> 64);
    to[6] = __popc(in[i]) + 100 * __clz(in[i]) + 10000 * __ffs(in[i]); to[7] = __brev(in[i]); to[8] = __funnelshift_l(in[i], x, 5);
    to[9] = __byte_perm(in[i], x, 0x5170); to[10] = weights[i & 3]; atomicAdd(&counter, 1u);
    int a[9]; for (int k = 0; k < 9; k++) a[k] = k * in[i]; to[11] = a[(u32)in[i] % 9]; to[12] = __mulhi(in[i], x); to[13] = in[i] % 7; to[14] = __float2int_rz(in[i] * 0.37f);
    double d = in[i] / 3.0; to[15] = *(long long *)&d;
}'''


def signed32(x):
    return (x + 2**31) % 2**32 - 2**31


def cuda_wants(v, left):
    x = v
    x = [lambda: x + 5, lambda: x * 7, lambda: x ^ 99, lambda: x - 8, lambda: ~x, lambda: x << 2, lambda: x >> 1, lambda: 1][x & 7]()
    x = signed32(x)
    u = v % 2**32
    p = (x, v, 3)
    for _ in range(3):
        p = (signed32(p[1]), p[0], p[2] + 1)
    perm = [(x % 2**32 << 32 | u) >> 8 * s & 255 for s in (0, 7, 1, 5)]
    return [left, 2 * (v & 3) + 3, [2 * v, -v, v * v][u % 3], x, p[0] * 1000 + p[1] + p[2], (v % 2**64) * 0x123456789abcdef >> 64,
            bin(u).count("1") + 100 * (32 - u.bit_length()) + 10000 * ((u & -u).bit_length()), int(f"{u:032b}"[::-1], 2),
            ((x % 2**32 << 32 | u) << 5 >> 32) % 2**32, sum(b << 8 * k for k, b in enumerate(perm)), None, u % 9 * v, v * x >> 32, int(math.fmod(v, 7)),
            int(np.float32(v) * np.float32(0.37)), int(np.float64(v / 3.0).view(np.int64))]


@pytest.mark.parametrize("arch", ["compute_80", "compute_90", "compute_120"])
def test_cuda_text(interp, rtc, arch):
    """Calls, recursion, tables of functions, switches, structs, arrays: what NVRTC makes of them."""
    m, memory, n = ptx.Module(interp, ptx.compile_ptx(rtc, CUDA, arch, b"--device-int128")), ptx.Arrays(), 300
    rng = np.random.default_rng(4)
    a = np.concatenate([rng.integers(-40, 40, 200), rng.integers(-20000, 20000, 100)]).astype(np.int32)
    out = np.zeros((n, 16), np.int64)
    counts = m.run("kernel", [np.uint64(memory.add(a, False)), np.uint64(memory.add(out)), np.int32(n)], 3, 128, memory, shared=64)
    assert counts.deepest_call > 5 and m.facts("kernel").recursive
    padded = np.zeros(384, np.int32)
    padded[:n] = a
    for i in range(n):
        want = cuda_wants(int(a[i]), int(padded[i // 128 * 128 + (i % 128 + 127) % 128]))
        want[10] = [1, -2, 3, 5][i & 3]
        for k in (6, 7, 8, 9):                  # 32 bits, signed or not, in a long long
            want[k] = want[k] % 2**32
            out[i, k] %= 2**32
        assert [int(v) for v in out[i]] == want, (i, a[i])


def nests(interp, nest, rtc, grid, **options):
    return ptx.Nests(interp, nest, T.pointers, T.scalar_slots, rtc, grid, **options)


@pytest.mark.parametrize("arch", ["compute_80", "compute_90", *soak("compute_120")])
@pytest.mark.parametrize("path", T.GOLDEN, ids=lambda p: p.stem)
def test_golden_nests(interp, lib, rtc, path, arch):
    text = path.read_text()
    nest = T.Nest(lib, text)
    k = nests(interp, nest, rtc, 3, arch=arch, backwards=arch == "compute_90")
    assert k.module.facts("frit_nest").contracts_at == 0
    for n in (1, 3, 9, 127, 128, 129, 300, 1031):
        a, b = (T.begun(text, T.make_operands(nest, 4, n)) for _ in range(2))
        scalars = [np.float64(n), np.float64(0.25)] if "$1" in text else [np.float32(0.3)]
        k.run(a, 4, n, scalars)
        T.run_reference(lib, nest, b, 4, n, scalars)
        for x, y in zip(a, b):
            if not isinstance(x, tuple):
                T.same(x, y)


@pytest.mark.parametrize("form", T.FORMS)
@pytest.mark.parametrize("path", T.GOLDEN, ids=lambda p: p.stem)
def test_forms_of_golden_nests(interp, lib, rtc, path, form):
    """Forms of a kernel, which are chosen when it is launched, have the same bits (csrc/backends/cuda/launch.c)."""
    text = path.read_text()
    nest = T.Nest(lib, text)
    words, block = T.FORMS[form]
    if not T.runs_alone(nest.text(1), words):
        pytest.skip("it has no such form")
    k = nests(interp, nest, rtc, 2, form=[f"-D{word}".encode() for word in words], block=block)
    for rows, n in T.sizes_of_form(words):
        a, b = (T.begun(text, T.make_operands(nest, rows, n)) for _ in range(2))
        k.grid = -(-n // block[0]) if rows == 70 else 2
        scalars = [np.float64(n), np.float64(0.25)] if "$1" in text else [np.float32(0.3)]
        k.run(a, rows, n, scalars)
        T.run_reference(lib, nest, b, rows, n, scalars)
        for x, y in zip(a, b):
            if not isinstance(x, tuple):
                T.same(x, y)


@pytest.mark.parametrize("code", T.DTYPES)
def test_every_operation(interp, lib, rtc, code):
    text, names, loads = T.all_ops_nest(lib, code)
    nest = T.Nest(lib, text)
    k = nests(interp, nest, rtc, 2)
    for n, options in ((1031, {}), (300, {"blurs": True}), (65, {"backwards": True}), (1, {})):
        inputs = {at: T.samples(d, (1, n), at + 1) for at, _, d in loads}
        results = [[np.empty((1, n), T.DTYPES[result]) for _, _, result in names] for _ in range(2)]
        k.options = options
        k.run([*(inputs[at] for at, _, _ in loads), *results[0]], 1, n)
        T.run_reference(lib, nest, [*(inputs[at] for at, _, _ in loads), *results[1]], 1, n, ())
        wrong = []
        for (name, _, _), got, want in zip(names, *results):
            try:
                if name not in T.OF_WHOLE_NUMBERS:
                    T.same(got, want)
            except AssertionError as e:
                wrong.append(f"{name}: {e}")
        assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("code", T.DTYPES)
def test_every_reduction(interp, lib, rtc, code):
    for op in ("sum", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        result = {"any": "bool", "all": "bool", "argmax": "i64", "argmin": "i64"}.get(op, code)
        a = T.samples(code, (3, 300), 7, special=op not in ("sum", "prod"))
        if op in ("sum", "prod") and a.dtype.kind in "biu" and code not in ("i64", "u64"):
            continue
        nest = T.Nest(lib, T.reduction(op, code, result))
        k = nests(interp, nest, rtc, 2)
        for x in (a, a[:, ::-1], a[:, ::3], a[:, :1]):
            outs = [np.empty(3, T.DTYPES[result]) for _ in range(2)]
            k.run([x, outs[0]], 3, x.shape[1])
            T.run_reference(lib, nest, [x, outs[1]], 3, x.shape[1], ())
            T.same(outs[0], outs[1])


# NVRTC 12.9 for compute_100 and later takes (c & x) | (!c & d) for c where d is the same comparison of floats as c. These nests
# choose so between bools; the text is another one since (csrc/jit/emit_text.c).
CHOOSE = 435, 630, 1061, 1078, 1320, 1323, 1943


def random_nest(interp, lib, rtc, seed):
    text = T.Writer(seed).text()
    nest = T.Nest(lib, text)
    arch = ("compute_80", "compute_90", "compute_120")[2 if seed in CHOOSE else seed % 3]
    k = nests(interp, nest, rtc, 2, backwards=seed % 2 == 1, arch=arch)
    for n in (1, 8, 133, 517):
        sets = [T.begun(text, T.make_operands(nest, 3, n, seed)) for _ in range(2)]
        k.run(sets[0], 3, n, T.scalars_of(text))
        T.run_reference(lib, nest, sets[1], 3, n, T.scalars_of(text))
        for a, b in zip(*sets):
            if not isinstance(a, tuple):
                T.same(a, b)


@pytest.mark.parametrize("arch", ["compute_90", pytest.param("compute_120", marks=pytest.mark.xfail(reason="NVRTC 12.9"))])
def test_choice_of_bools(interp, rtc, arch):
    """What the seeds above have in common, at its smallest."""
    text = """extern "C" __global__ void k(const float *a, const float *b, bool *o) {
        const float v = a[threadIdx.x]; const bool x = b[threadIdx.x] != 0.0f, d = v != 0.0f, c = v != 0.0f;
        o[threadIdx.x] = (c & x) | (!c & d); }"""
    a, b, memory, out = np.float32([0, 0, 1, 1]), np.float32([0, 1, 0, 1]), ptx.Arrays(), np.zeros(4, bool)
    ptx.Module(interp, ptx.compile_ptx(rtc, text, arch)).run("k", [np.uint64(memory.add(v)) for v in (a, b, out)], 1, 4, memory)
    assert list(out) == [False, False, False, True]


@pytest.mark.parametrize("seed", [*range(40), *CHOOSE])
def test_random_nests(interp, lib, rtc, seed):
    random_nest(interp, lib, rtc, seed)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(40, 2000, 196))
def test_many_random_nests(interp, lib, rtc, first):
    for seed in range(first, first + 196):
        random_nest(interp, lib, rtc, seed)


@pytest.mark.soak
def test_sanitized(lib, rtc):
    """The interpreter itself does nothing undefined, over all golden nests."""
    with tempfile.TemporaryDirectory() as d:
        sanitized = ptx.build(d, ["-std=gnu11", "-O1", "-g", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-fsanitize=undefined",
                                  "-fno-sanitize-recover", "-fno-sanitize=float-cast-overflow,float-divide-by-zero"])
        for path in T.GOLDEN:
            test_golden_nests(sanitized, lib, rtc, path, "compute_80")
        test_cuda_text(sanitized, rtc, "compute_80")


# ---- machine code -------------------------------------------------------------------------------

ARCHS = "sm_80", "sm_90", "sm_100", "sm_120"
USUAL = [], ["OUTER=0"], ["OUTER=0", "VEC=4"], ["TILED=32"]
COMPILED = [*USUAL, ["OUTER=0", "ROW=32", "SHARED=1"], ["OUTER=0", "SPLIT=1"], ["OUTER=0", "SPLIT=2"], ["OUTER=0", "VEC=4", "MANY=1"],
            ["OUTER=0", "TILED=32"], ["OUTER=0", "TILED=8", "MANY=1"]]
# Five and ten reductions in one kernel, and outer axes.
SPILLS = {"long_rows": 48, "reductions": 112}


@pytest.mark.parametrize("arch", [*soak(ARCHS[0]), ARCHS[1], *soak(*ARCHS[2:])])
def test_registers(rtc, arch):
    """What NVRTC makes of golden kernels: at most 64 registers, so that a multiprocessor has four blocks at least, and none of them in
    memory, as ptxas -v says it, too. For other architectures than sm_90 some have a few more, or one or two in a frame of 16 bytes."""
    most, spills, found, n = 64 if arch in ("sm_80", "sm_90") else 80, 0 if arch == "sm_90" else 16, {}, 0
    for path in T.GOLDEN:
        text = path.with_suffix(".cu").read_text()
        for form in COMPILED if arch == "sm_90" or SOAK else USUAL:
            if not T.has_form(text, form) or ("TILED" in text and not any("TILED" in word for word in form)):
                continue                        # (what goes by tiles does so in every launch)
            cubin, made = gpu.compiled(rtc, text, arch, *(f"-D{word}".encode() for word in form))
            registers, frame = gpu.resources(cubin, "frit_nest")
            spilled = frame - sum(int(v) for v in re.findall(r"\.local .*\[(\d+)\];", made))     # beyond arrays of its own
            if registers > most or spilled > SPILLS.get(path.stem, spills):
                found[path.stem, *form] = registers, spilled
            n += 1
    assert not found and n >= 20


@pytest.mark.parametrize("arch", [*soak(*ARCHS[:-1]), ARCHS[-1]])
def test_kernels_without_nests_compile(lib, rtc, arch):
    """Threads of products have their part of a tile in registers."""
    for name, text, defines in T.cuda_without_nests(lib):
        cubin, _ = gpu.compiled(rtc, text, arch, *(f"-D{word}".encode() for word in defines))
        registers, frame = gpu.resources(cubin, "frit_" + name)
        assert registers <= (176 if name == "product" else 64) and frame <= 16, (name, defines, registers, frame)
