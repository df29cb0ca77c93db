"""What recipes are made of: casts, half precision, random numbers, their length, the block kernels printed from them.
What they compute, test_operations.py compares with NumPy."""
import ctypes
import os
import pathlib
import subprocess
import tempfile

import numpy as np
import pytest

from .common import ASSERTED, MICRO_CODE, REFERENCE, generator, in_csrc, objects

ROOT = pathlib.Path(__file__).resolve().parent.parent
DTYPES = {"bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
          "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16,
          "f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}

@pytest.fixture(scope="session")
def lib():
    with tempfile.TemporaryDirectory() as tmp:
        so = os.path.join(tmp, "test_recipe.so")
        made = objects([ROOT / "tests/c/test_recipe.c", *in_csrc(*MICRO_CODE, *REFERENCE)], *ASSERTED)
        subprocess.run(["cc", "-shared", *made, "-o", so, "-lm", "-lpthread"], check=True)
        cdll = ctypes.CDLL(so)
        cdll.test_op_name.restype = ctypes.c_char_p
        yield cdll


def code_of(dtype):
    return next(code for code, t in DTYPES.items() if np.dtype(t) == dtype)


def number(lib, dtype):
    return lib.test_dtype(code_of(np.dtype(dtype)).encode())


def ops(lib):
    return [op for op in range(lib.test_n_ops()) if lib.test_op_is_map(op)]


def pointers(arrays):
    return (ctypes.c_void_p * 3)(*[a.ctypes.data for a in arrays])


def apply(lib, name, compute, *args):
    """The operation over equally long arrays that have their final dtypes already."""
    op = lib.test_op(name.encode())
    result = DTYPES[list(DTYPES)[lib.test_op_result(op, number(lib, compute))]]
    args = [np.ascontiguousarray(a) for a in args]
    out = np.empty(args[0].shape, result)
    types = (ctypes.c_int * 3)(*[number(lib, a.dtype) for a in args])
    st = lib.test_apply(op, number(lib, compute), types, ctypes.c_size_t(out.size), pointers(args),
                        ctypes.c_void_p(out.ctypes.data))
    assert st <= 0, f"{name} {compute}: status {st}"
    return out


def special_values(dtype):
    d = np.dtype(dtype)
    if d.kind == "b":
        return np.array([False, True])
    if d.kind in "iu":
        i = np.iinfo(d)
        v = [i.min, i.min + 1, i.max, i.max - 1, 0, 1, 2, 3, 5, 7, 8, 15, 16, 31, 32, 63, 64, 100]
        if d.kind == "i":
            v += [-1, -2, -3, -5, -8, -31, -100]
        return np.array([x for x in v if i.min <= x <= i.max], d)
    if d.kind == "f":
        f = np.finfo(d)
        tiny, sub, big, eps = f.smallest_normal, f.smallest_subnormal, f.max, f.eps
        one = d.type(1)
        v = [0.0, sub, 2 * sub, tiny - sub, tiny, tiny * (1 + eps), eps, 0.25, 0.5 - eps / 4, 0.5,
             0.75, one - eps / 2, 1, 1 + eps, 1.5, 2, 2.5, 3, 3.5, 7, 10, 100.5, 1 / eps / 2, 1 / eps,
             2 / eps, big / 2, big * (1 - eps), big, np.inf, np.nan, 1 / 3, 0.1]
        return np.array(v + [-x for x in v]).astype(d)
    part = np.array([0.0, 1.0, 0.5, 3.0, np.inf, np.nan, 1e-30, 1e30, 0.1])
    part = np.concatenate([part, -part]).astype(d.char.lower())
    re, im = (p.ravel() for p in np.meshgrid(part, part))
    out = np.empty(re.size, d)
    out.real, out.imag = re, im
    return out


def random_values(dtype, n, rng):
    d = np.dtype(dtype)
    if d.kind == "b":
        return rng.integers(0, 2, n).astype(d)
    bits = rng.integers(0, 256, n * d.itemsize, dtype=np.uint8).view(d)
    if d.kind in "iu":
        small = rng.integers(0 if d.kind == "u" else -9, 10, n).astype(d)
        return np.where(rng.random(n) < 0.5, bits, small)
    normal = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, n)
    if d.kind == "c":
        normal = normal + 1j * rng.standard_normal(n)
    return np.where(rng.random(n) < 0.5, bits, normal.astype(d))


def same_bits(got, want):
    """Where two arrays are equal bit for bit, any NaN equal to any NaN, part by part."""
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype)
    if got.dtype.kind not in "fc":
        return got == want
    part = got.dtype.char.lower()
    g = np.ascontiguousarray(got).view(part).reshape(got.size, -1)
    w = np.ascontiguousarray(want).view(part).reshape(got.size, -1)
    bits = f"u{g.dtype.itemsize}"
    return ((g.view(bits) == w.view(bits)) | (np.isnan(g) & np.isnan(w))).all(1).reshape(got.shape)


def show(name, dtype, got, want, ok, args):
    bad = np.flatnonzero(~ok)
    lines = [f"{name} {dtype}: {bad.size} of {ok.size} differ"]
    lines += [f"  {[repr(a[i]) for a in args]} -> {got[i]!r}, NumPy {want[i]!r}" for i in bad[:12]]
    return "\n".join(lines)


def arg_dtypes(name, dtype, arity):
    d = DTYPES[dtype]
    return {"where": [np.bool_, d, d], "ldexp": [d, np.int64]}.get(name, [d] * arity)


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_cast(lib, source, target):
    s, t = DTYPES[source], DTYPES[target]
    a = np.concatenate([special_values(s), random_values(s, 3000, np.random.default_rng(1))])
    if np.dtype(s).kind in "fc" and np.dtype(t).kind in "iu":
        edges = np.array([x + y for x in (0, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63, 2**64)
                          for y in (-1.5, -1, -0.5, 0, 0.5, 1, 1.5)])
        with np.errstate(all="ignore"):
            a = np.concatenate([a, edges.astype(s), -edges.astype(s)])
    if s == np.float64 and t == np.float16:
        # Just beside the middle between two half precision numbers: one rounding, not two.
        h = np.arange(0x7bff, dtype=np.uint16).view(np.float16).astype(np.float64)
        middle = (h[:-1] + h[1:]) / 2
        a = np.concatenate([a, middle, middle * (1 + 2.0**-50), middle * (1 - 2.0**-50), -middle])
    out = np.empty(a.shape, t)
    st = lib.test_cast(number(lib, s), number(lib, t), ctypes.c_size_t(a.size),
                       ctypes.c_void_p(a.ctypes.data), ctypes.c_void_p(out.ctypes.data))
    assert st <= 0
    with np.errstate(all="ignore"):
        # A longer array: out of range NumPy's vector and scalar loops differ for u32.
        want = np.concatenate([a, np.zeros(64, s)]).astype(t)[:a.size]
    ok = same_bits(out, want)
    assert ok.all(), show(f"cast {source}", t, out, want, ok, [a])


def test_every_half(lib):
    """All 65,536 half precision numbers, through F32 and back."""
    h = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(np.float16)
    for name in ("positive", "sqrt", "rint", "square", "negative", "floor", "sign"):
        got = apply(lib, name, np.float16, h)
        with np.errstate(all="ignore"):
            want = getattr(np, name)(h)
        ok = same_bits(got, want)
        assert ok.all(), show(name, np.float16, got, want, ok, [h])


def test_bits_move_unchanged(lib):
    """Operations that only move bits keep the payloads of NaNs."""
    rng = np.random.default_rng(5)
    for d in (np.float16, np.float32, np.float64):
        n = np.dtype(d).itemsize
        a, b = (rng.integers(0, 256, 4000 * n, dtype=np.uint8).view(d) for _ in range(2))
        mask = rng.random(a.size) < 0.5
        for name, args in (("where", (mask, a, b)), ("positive", (a,)), ("copysign", (a, b))):
            got = apply(lib, name, d, *args)
            want = getattr(np, name)(*args)
            assert (got.view(f"u{n}") == want.view(f"u{n}")).all(), (name, d)


def test_well_formed(lib):
    message = ctypes.create_string_buffer(200)
    for op in ops(lib):
        name = lib.test_op_name(op).decode()
        for code, d in DTYPES.items():
            if lib.test_exists(op, number(lib, d)):
                types = arg_dtypes(name, code, lib.test_op_arity(op))
                if name.startswith("random"):
                    types = [np.uint64, np.uint64]
                types = (ctypes.c_int * 3)(*[number(lib, t) for t in types])
                bad = lib.test_well_formed(op, number(lib, d), types, message, 200)
                assert not bad, f"{name} {code}: {message.value.decode()}"


# (operation, dtype, instructions at most, that many times fewer than with what is rare)
RARE = [*[(f, "f32", 30, 1.3) for f in ("sin", "cos")], ("tan", "f32", 40, 1.9),
        *[(f, "f32", 32, 1.3) for f in ("log", "log2", "log10")],
        *[(f, "f64", 42, 1.2) for f in ("log", "log2", "log10")], ("log1p", "f64", 50, 1.05), ("cbrt", "f32", 40, 1.1), ("arctan2", "f32", 60, 1.2),
        *[(f, "f64", 80, 2.5) for f in ("sin", "cos", "tan")],
        *[(f, d, 46, 1.7) for d in ("f32", "f64") for f in ("fmod", "floor_divide", "remainder")],
        *[(f, d, 40, 2) for d in ("i64", "u64") for f in ("fmod", "floor_divide", "remainder")],
        *[("power", d, 24, 5) for d in ("i32", "u32", "i64", "u64")], ("power", "c64", 130, 2.5),
        ("power", "c128", 130, 2.5)]


@pytest.mark.parametrize("name,code,most,factor", RARE)
def test_rare_values_cost_the_others_little(lib, name, code, most, factor):
    op = next(i for i in ops(lib) if lib.test_op_name(i).decode() == name)
    usual, whole = (lib.test_instructions(op, number(lib, DTYPES[code]), k) for k in (1, 0))
    assert usual <= most and usual * factor < whole, (usual, whole)


@pytest.mark.parametrize("name,code,most", [("arctan", "f64", 52), ("arctan2", "f64", 64), ("power", "f32", 52)])
def test_a_division_stands_for_many_terms(lib, name, code, most):
    """Quotients of polynomials, and polynomials in quotients, are short: polynomials alone would take 5 to 8 more."""
    op = next(i for i in ops(lib) if lib.test_op_name(i).decode() == name)
    assert lib.test_instructions(op, number(lib, DTYPES[code]), 1) <= most


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The block kernels as the generator prints them, by name."""
    out = tmp_path_factory.mktemp("gen")
    subprocess.run([generator(), str(out), "1"], check=True)
    parts = (out / "kernels_0.c").read_text().split("#define SELF K(")[1:]
    return {part[:part.index(")")]: part for part in parts}


def test_long_kernels_work_on_elements_abreast(printed):
    lanes = {name: text.count(" * h] = r0_") for name, text in printed.items()}
    for name in ("power", "exp", "log", "exp2", "tanh", "sigmoid", "erf", "logaddexp"):
        for code in ("f32", "f64"):
            assert lanes[f"{name}_{code}"] == 4, name
    for name in ("add_f32", "sqrt_f64", "maximum_f32", "fmod_f64", "floor_divide_i32", "multiply_c128"):
        assert lanes[name] == 0, name


# ---- random numbers


def philox(counter, key, rounds=10):
    c, k = list(counter), list(key)
    for _ in range(rounds):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def streams(n, seed=0):
    rng = np.random.default_rng(seed)
    counter = rng.integers(0, 2**64, n, dtype=np.uint64)
    key = rng.integers(0, 2**64, n, dtype=np.uint64)
    counter[:4] = [0, 1, 2**64 - 1, 2**32]
    key[:4] = [0, 0, 2**64 - 1, 2**32]
    words = [philox([int(c) & 0xFFFFFFFF, int(c) >> 32, 0, 0], [int(k) & 0xFFFFFFFF, int(k) >> 32])
             for c, k in zip(counter, key)]
    return counter, key, np.array(words, np.uint64)


def test_philox_vectors():
    """The published answers, to which test_random_bits ties the recipe."""
    seen = 0
    for line in (ROOT / "tests/data/philox_kat_vectors.txt").read_text().splitlines():
        f = line.split()
        if f and f[0] == "philox4x32":
            v = [int(x, 16) for x in f[2:]]
            assert philox(v[:4], v[4:6], int(f[1])) == v[6:]
            seen += 1
    assert seen == 6


def test_random_bits(lib):
    counter, key, w = streams(300)
    got = apply(lib, "random_bits", np.uint64, counter, key)
    assert (got == w[:, 0] | w[:, 1] << np.uint64(32)).all()
    assert got[0] == 0x6627E8D5 | 0xE169C58D << 32


def test_random_uniform(lib):
    counter, key, w = streams(300, 1)
    got = apply(lib, "random_uniform", np.float32, counter, key)
    assert (got == ((w[:, 0] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24))).all()
    joined = (w[:, 0] | w[:, 1] << np.uint64(32)) >> np.uint64(11)
    got = apply(lib, "random_uniform", np.float64, counter, key)
    assert (got == joined.astype(np.float64) * 2.0**-53).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_normal(lib, dtype):
    n = 40000
    counter = np.arange(n, dtype=np.uint64)
    got = apply(lib, "random_normal", dtype, counter, np.full(n, 7, np.uint64)).astype(np.float64)
    assert abs(got.mean()) < 5 / np.sqrt(n) and abs(got.var() - 1) < 0.05
    assert abs((got**3).mean()) < 0.1 and abs((got**4).mean() - 3) < 0.3
    assert 3.5 < np.abs(got).max() < 7
