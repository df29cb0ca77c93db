"""Machine code over strided operands computes with whole registers: blocks are put together first."""
import mmap
import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import BOTH_WAYS, ROOT, assert_same, few

pytestmark = pytest.mark.core

REF = os.environ.get("FRIT_BACKEND") == "ref"
MULTIPLIES = {      # VEX without a second source in memory; the third bit of its second byte is the width
    "xmm": re.compile(rb"\xc5[\x81\x89\x91\x99\xa1\xa9\xb1\xb9\xc1\xc9\xd1\xd9\xe1\xe9\xf1\xf9]\x59"),
    "ymm": re.compile(rb"\xc5[\x85\x8d\x95\x9d\xa5\xad\xb5\xbd\xc5\xcd\xd5\xdd\xe5\xed\xf5\xfd]\x59"),
}


@pytest.mark.own
@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has other instructions")
@pytest.mark.parametrize("expression", ["a[::3] * b[::3] * 2", "a[::-1] * b[::5][:2000] * a[:2000]",
                                        "(a[::-1] * b[:2000]).reshape(40, 50) * 2"])
def test_products_of_strided_operands_take_whole_registers(tmp_path, expression):
    tmp_path.chmod(0o700)
    code = f"""
import numpy as np, frit
a, b = frit.asarray(np.arange(2000.0)), frit.asarray(np.arange(10000.0))
b = b[:2000] if "::3" in {expression!r} else b
for _ in range(3):
    frit.eval({expression})
print(frit.wait_for_compiles(60) and frit.stats()["compiled"])
"""
    env = {**os.environ, "FRIT_JIT": "always", "FRIT_CACHE_DIR": str(tmp_path), "FRIT_ISA": "v3"}
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, env=env,
                         stdout=subprocess.PIPE, text=True).stdout
    if out.strip() == "0":
        pytest.skip("no compiler here")
    found = b"".join(f.read_bytes() for f in tmp_path.glob("*.frit"))
    assert MULTIPLIES["ymm"].search(found) and not MULTIPLIES["xmm"].search(found)


@pytest.mark.own
@pytest.mark.parametrize("dtype", "i4 f4 u8 f8 c8 c16 f2 u1 ?".split())
@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 1000])
def test_blocks_and_what_is_left_over(dtype, n):
    r = np.random.default_rng(n)
    a, b = ((r.standard_normal(7 * n) * 9).astype(dtype) for _ in range(2))
    with frit.config(jit="always"):
        for f in (lambda x, y: x[::7] * y[::-7], lambda x, y: x[3::7] + y[:n] * y[1::7][::-1],
                  lambda x, y: (x[::7] * x[1::7] + x[2::7] * x[3::7] + y[:n]) * y[::7], lambda x, y: (x[::7] + y[::7]).sum()):
            want = f(a, b)
            for _ in range(2):
                got = np.asarray(f(frit.asarray(a), frit.asarray(b)))
                frit.wait_for_compiles(60)
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["?", "i4", "f2", "f8", "c8", *few("u1", "i8", "f4")])
def test_reductions_of_short_rows_and_of_blocks(dtype):
    """Neighbours abreast, columns of rows shorter than a register, axes that are one on both sides of a reduced one:
    NumPy's results, the first NaN among them; which zero an extreme is, NumPy's machine decides."""
    r = np.random.default_rng(11)
    a = r.integers(-9, 99, (6, 5, 4, 3, 2, 7)) if dtype[0] in "if" else r.integers(0, 99, (6, 5, 4, 3, 2, 7))
    a = (a % 2 == 0) if dtype == "?" else a.astype(dtype)
    if dtype[0] == "f":
        a.reshape(-1)[r.integers(0, a.size, 40)] = np.nan
        a.reshape(-1)[r.integers(0, a.size, 40)] = np.inf
    shapes = [(6, 5, 4, 3, 2, 7), (30, 12, 14), (2, 3, 5, 4, 6, 7), (420, 3, 4), (504, 2, 5), (5, 504, 2),
              (2, 2, 315, 4), (1, 84, 2, 30), (360, 14), (7, 2, 180, 2)]
    names = [n for n in ("sum", "prod", "max", "min", "any", "all", "argmax")
             if not (dtype == "c8" and n in ("max", "min", "argmax"))]
    for shape in shapes:
        b = a.reshape(shape)
        for x in (b, np.asfortranarray(b), b[::-1, ..., ::-1], b[1:]):
            t = frit.asarray(x)
            for axes in [(0,), (x.ndim - 1,), (1,), (0, 2), (1, 3), (0, x.ndim - 1), (0, 1), (1, 2, 4)]:
                if max(axes) >= x.ndim or x.size == 0:
                    continue
                for name in names:
                    if name == "argmax" and len(axes) > 1:
                        continue
                    axis = axes[0] if name == "argmax" else axes
                    with np.errstate(all="ignore"):
                        want = getattr(x, name)(axis)
                    assert_same(getattr(t, name)(axis), want, what=(name, shape, axes, x.strides))
                assert_same((t + t).max(axes) if dtype != "c8" else (t + t).sum(axes),
                            (x + x).max(axes) if dtype != "c8" else (x + x).sum(axes), what=(shape, axes))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f2", "f4", "f8", "c8"])
def test_many_short_rows_to_few_accumulators(dtype, threads):
    """More rows than a block has, one axis with the neighbours or not, that neighbours share or that lie far apart."""
    r = np.random.default_rng(5)
    for h, n, k in ((5003, 3, 3), (3001, 2, 5), (1500, 7, 2), (2500, 1, 4), (700, 40, 3), (300, 2, 50)):
        x, rows, columns = ((r.standard_normal(shape) * 9).astype(dtype) for shape in ((h, n, k), (h, 1, k), (n, 1)))
        with frit.config(num_threads=threads):
            for f in (lambda a, b, c: a.sum((0, 2)), lambda a, b, c: (a * b).sum((0, -1)), lambda a, b, c: (a * c).sum((0, 2)),
                      lambda a, b, c: (a[::-1, ::-1] + b).sum((0, 2)), lambda a, b, c: (a[:, :, ::-1] * a).max((0, 2)),
                      lambda a, b, c: (a[::2] * a[1::2, :1]).sum((0, 2)) if h % 2 == 0 else a[1:].mean((0, 2)),
                      lambda a, b, c: ((a * b).sum(2), (a * b).sum((0, 2)))):
                want, got = f(x, rows, columns), f(*map(frit.asarray, (x, rows, columns)))
                for g, w in zip(got, want) if isinstance(got, tuple) else [(got, want)]:
                    assert_same(g, w, what=(h, n, k))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_between_which_other_rows_lie(threads):
    """Rows that reach far, with those of other indices between them."""
    r = np.random.default_rng(9)
    with frit.config(num_threads=threads):
        for h, n, k in ((5003, 5, 5), (40001, 2, 3), (901, 12, 12), (9001, 3, 6)):
            for dtype in ("f4", "f8", "i2"):
                a, w = (r.standard_normal(shape) * 90 for shape in ((h, n, k), (h, 1, k)))
                a, w = a.astype(dtype), w.astype(dtype)
                for f in (lambda a, w: a * w, lambda a, w: a[::-1, :, ::-1] - w, lambda a, w: np.repeat(a, 2, 0),
                          lambda a, w: a.swapaxes(1, 2) + w.swapaxes(1, 2), lambda a, w: (a[:, ::-1] * w).max(2),
                          lambda a, w: np.repeat(a[:, 0], 5, 0) if threads > 1 else np.moveaxis(a, 0, 1) + 1):
                    assert_same(f(*map(frit.asarray, (a, w))), f(a, w), what=(h, n, k, dtype))


NEAR = {2: "second", 3: "third", 4: "fourth"}


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "i8", "c8", "c16"])
@pytest.mark.parametrize("jit", BOTH_WAYS)
def test_every_second_to_fourth_up_to_the_end_of_memory(jit, dtype, step):
    """Whole vectors are read, and none beyond the last element that counts: behind it there is no memory."""
    r = np.random.default_rng(step)
    for rows, n in ((1, 5), (3, 16), (2, 64), (7, 100), (1, 3001)):
        size = rows * n * step * np.dtype(dtype).itemsize
        room = mmap.mmap(-1, (size + 8191) // 4096 * 4096)
        room = np.frombuffer(room, dtype, rows * n * step, len(room) - size).reshape(rows, n, step)
        room[...] = r.integers(-50, 50, room.shape)
        t = frit.asarray(room)
        with frit.config(jit=jit):
            for f in (lambda x: x[..., -1] * 2, lambda x: x[..., -1] + x[..., 0] * x[..., 1], lambda x: x[..., -1].sum(axis=-1),
                      lambda x: (x[..., -1] * 2).max(axis=-1) if x.dtype.kind != "c" else x[..., 1] - 1):
                assert np.array_equal(np.asarray(f(t)), f(room)), (rows, n)
    if jit == "always":
        text = str(frit.explain(lambda x: x[..., -1] * 2 + 1, "loops")(room))
        assert len(re.findall(rf"\b{NEAR[step]}\b", text)) == 1, text


def test_what_has_other_steps_or_is_small_is_read_by_steps():
    for dtype, step in (("f4", 5), ("f8", 7), ("f4", -2)):
        a = np.arange(3000).astype(dtype)
        text = str(frit.explain(lambda x, step=step: x[::step] * 2, "loops")(a))
        assert text.count("strided") == 1 and not any(name in text for name in NEAR.values()), text
