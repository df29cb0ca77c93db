"""Operands that lie crosswise are packed, tile by tile: NumPy's bits for every dtype, form and direction, however the
tiles are cut; and the counter and the text that say that they were."""
import itertools
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT, assert_same, soak

pytestmark = [pytest.mark.core, pytest.mark.own]

DTYPES = "?bBhHiIlLefdFD"
SHAPES = [(300, 257), (129, 515), (2000, 17), (16, 4100), (333, 100), (64, 2048), (1025, 33), (31, 1000)]
REF = os.environ.get("FRIT_BACKEND") == "ref"     # reads every operand where it lies


def data(shape, dtype, seed=0):
    r = np.random.default_rng([seed, *shape])
    x = r.standard_normal(shape) * 50
    if dtype in "FD":
        x = x + 1j * r.standard_normal(shape)
    return x.astype("i8").astype(dtype) if dtype in "?bBhHiIlL" else x.astype(dtype)


def n_packed():
    return frit.stats()["packed"]


def forms(dtype):
    """Those whose transposition is worth packing: its steps are cache lines."""
    size = np.dtype(dtype).itemsize
    return [(h, w) for h, w in SHAPES if h * size >= 64 and h * w * size >= 1 << 14]


def check(f, *arrays, packed=True, what=""):
    """f(*arrays) has NumPy's bits, and operands were packed, or not. Elements of 8 bytes and more are only where lines
    push each other out of the cache; packed=True lets them be either."""
    wide = any(x.itemsize >= 8 for x in arrays)
    with np.errstate(all="ignore"):
        want = f(*arrays)
    for _ in range(2):      # made, and replayed
        tensors = [frit.asarray(x) for x in arrays]
        before = n_packed()
        got = f(*tensors)
        frit.eval(got)
        if not (packed is True and wide):
            assert (n_packed() > before) == (bool(packed) and not REF), what
        assert_same(got, want, what=what)


@pytest.mark.parametrize("dtype", DTYPES)
def test_maps(dtype):
    for h, w in forms(dtype):
        a, b = data((w, h), dtype), data((h, w), dtype, 1)
        big = data((w + 5, h + 3), dtype, 2)
        what = f"{dtype} {h}x{w}"
        check(lambda x, y: x.T + y, a, b, what=what)
        check(lambda x, y: x.T[::-1] + y, a, b, what=what)
        check(lambda x, y: x.T[:, ::-1] + y, a, b, what=what)
        check(lambda x, y: y + x.T[::-1, ::-1], a, b, what=what)
        check(lambda x, y: x[3:3 + w, 2:2 + h].T + y, big, b, what=what)
        check(lambda x, y: x.T + (y + x[::-1].T), a, b, what=what)


@pytest.mark.parametrize("dtype", "?BhHiIlefdFD")
def test_reductions_of_rows(dtype):
    for h, w in forms(dtype):
        if 16 * w * np.dtype(dtype).itemsize > 1 << 21:
            continue
        a, b = data((w, h), dtype), data((h, w), dtype, 1)
        what = f"{dtype} {h}x{w}"

        def total(x, y):
            s = x.T + y
            return s.sum(axis=1)

        def softer(x, y):
            s = x.T + y
            top = s.max(axis=1, keepdims=True)
            d = s - top
            return (d * d).sum(axis=1)
        check(total, a, b, what=what)
        if dtype in "fdil":
            check(softer, a, b, what=what)


@pytest.mark.parametrize("dtype", "ldFD")
def test_wide_elements_are_read_where_they_lie_unless_lines_collide(dtype):
    size = np.dtype(dtype).itemsize
    for h, w, packed in [(300, 200, 0), (310, 380, 0), (310, 400, 1), (2048 // size, 200, 1), (4096 // size, 20, 1),
                         (1024 // size, 22, 0), (1024 // size, 30, 1)]:
        a, b = data((w, h), dtype), data((h, w), dtype, 1)
        if a.nbytes >= 1 << 14:
            check(lambda x, y: x.T + y, a, b, packed=packed, what=f"{h}x{w}")
            check(lambda x, y: x.T[::-1, ::-1] * y, a, b, packed=packed, what=f"{h}x{w}")
    a, b = data((9000,), dtype), data((4500,), dtype, 1)
    check(lambda x, y: x[::2] + y[::-1], a, b, packed=0)


@pytest.mark.parametrize("dtype", "behifdFD")
def test_backwards_rows_are_read_where_they_lie_but_for_small_elements(dtype):
    small = np.dtype(dtype).itemsize < 4
    a, b = data((40, 1000), dtype), data((40, 1000), dtype, 1)
    for f in (lambda x, y: x[:, ::-1] * y, lambda x, y: y + x[::-1, ::-1], lambda x, y: x[::-1, ::-1] + y[:, ::-1] * y,
              lambda x, y: (x[:, ::-1] * y).max(1)):
        check(f, a, b, packed=small)


@pytest.mark.parametrize("dtype, shape", [("b", (3001, 2903)), ("e", (2050, 2111)), ("f", (2000, 1493)), ("d", (1027, 1111)),
                                          ("f", (2048, 1033)), ("F", (1024, 1040))])
def test_what_comes_from_memory(dtype, shape):
    """8 MB and more: tiles go down the rows, and each asks for the next one."""
    h, w = shape
    a, b, big = data((w, h), dtype), data((h, w), dtype, 1), data((w + 5, h + 3), dtype, 2)
    assert a.nbytes >= 8 << 20
    check(lambda x, y: x.T + y, a, b)
    check(lambda x, y: x.T[::-1, ::-1] * y, a, b)
    check(lambda x, y: x[3:3 + w, 2:2 + h].T + y * x[5:, 3:].T[::-1], big, b)
    check(lambda x: x.T.copy(), a)
    if dtype in "fd":
        check(lambda x, y: (x.T - y).max(axis=1, keepdims=True) + y, a, b)


@pytest.mark.parametrize("dtype, shape", [("f", (133, 130, 135)), ("h", (37, 301, 401)), ("d", (64, 128, 130))])
def test_three_axes_from_memory(dtype, shape):
    c = data(shape, dtype)
    for p in ((2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 2, 0)):
        x = data(tuple(shape[i] for i in np.argsort(p)), dtype, 1)
        check(lambda c, x: c + x.transpose(p), c, x, what=str(p))
    x, y = data((shape[1], shape[2], shape[0]), dtype, 1), data((shape[0], shape[2], shape[1]), dtype, 2)
    check(lambda c, x, y: c + x.transpose(2, 0, 1) * y[:, ::-1].transpose(0, 2, 1), c, x, y)


def test_rows_too_long_for_a_tile_are_read_where_they_lie():
    a, b = data((40000, 40), "f"), data((40, 40000), "f", 1)

    def total(x, y):
        s = x.T + y
        return s.sum(axis=1)
    check(total, a, b, packed=False)
    check(lambda x, y: x.T + y, a, b)


def test_sums_of_columns_are_read_where_they_lie():
    a, b = data((300, 200), "d"), data((200, 300), "d", 1)

    def total(x, y):
        s = x.T + y
        return s.sum(axis=0)
    check(total, a, b, packed=False)


@pytest.mark.parametrize("dtype, shape", [("f", (33, 70, 65)), ("d", (16, 17, 300)), ("D", (20, 18, 22)),
                                          ("i", (100, 31, 29)), ("B", (70, 66, 90))])
def test_three_axes(dtype, shape):
    c = data(shape, dtype)
    for p, q in itertools.product(itertools.permutations(range(3)), repeat=2):
        x = data(tuple(shape[i] for i in np.argsort(p)), dtype, 1)
        y = data(tuple(shape[i] for i in np.argsort(q)), dtype, 2)

        def two(c, x, y):
            s = c + x.transpose(p)
            t = s + y.transpose(q)
            return t
        crosswise = p[2] != 2 or q[2] != 2
        check(two, c, x, y, packed=crosswise, what=f"{dtype} {shape} {p} {q}")


def test_broadcast_and_crosswise():
    x, rows = data((40, 30, 50), "f"), data((50, 30), "f", 1)
    check(lambda x, r: x - r.T.reshape(1, 30, 50), x, rows, packed=False)       # 6000 bytes
    rows = data((250, 130), "f", 1)
    x = data((7, 130, 250), "f")
    check(lambda x, r: x - r.T, x, rows)
    column = data((7, 130, 1), "f", 2)
    check(lambda x, r, c: (x - r.T) * c, x, rows, column)


def test_many_operands():
    sets = [data((200, 190), "f", i) for i in range(12)]

    def add(*xs):
        s = xs[0]
        for x in xs[1:]:
            s = s + x.T[:190, :190] if x is not None else s
        return s
    check(add, data((190, 190), "f"), *sets)


def test_stores_of_what_is_read_crosswise():
    a = data((200, 200), "d")
    want, t = a.copy(), frit.asarray(a.copy())
    want += want.T.copy()
    t += t.T
    assert_same(t, want)
    want[:] = want.T.copy() * 2
    t[:] = t.T * 2
    assert_same(t, want)
    want[10:150, 3:180] -= a[3:180, 10:150].T
    t[10:150, 3:180] -= frit.asarray(a)[3:180, 10:150].T
    assert_same(t, want)


def test_small_and_flat_operands_are_read_where_they_lie():
    for shape in [(8, 8), (40, 40), (15, 4000)]:
        a, b = data(shape[::-1], "f"), data(shape, "f", 1)
        check(lambda x, y: x.T + y, a, b, packed=False, what=shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_backwards_and_every_other(dtype):
    n = (1 << 14) // np.dtype(dtype).itemsize + 77
    a, b = data((2 * n,), dtype), data((n,), dtype, 1)
    small = np.dtype(dtype).itemsize < 4      # others are read where they lie
    check(lambda x, y: x[::2] + y, a, b, packed=small, what=dtype)
    check(lambda x, y: x[n - 1::-1] + y, a, b, packed=small, what=dtype)
    check(lambda x, y: (x[1::2] + y) + y[::-1], a, b, packed=small, what=dtype)
    c, d = data((70, 700), dtype, 2), data((70, 350), dtype, 3)
    check(lambda x, y: x[::-1, ::2] + y, c, d, packed=small, what=dtype)
    check(lambda x, y: x[:, ::2] + y[::-1, ::-1], c, d, packed=small, what=dtype)
    rows = data((700,), dtype, 4)
    check(lambda x, y: x[:, ::-1] + y[::-1], c, rows, packed=small, what=dtype)
    tall = data((350, 70), dtype, 5)
    check(lambda x, y, z: x[:, ::2] + y[:, ::-1] + z.T, c, d, tall, what=dtype)     # a crosswise one beside them


@pytest.mark.parametrize("step", [3, 4])
@pytest.mark.parametrize("dtype", "?bBhHefi")
def test_every_third_and_fourth(dtype, step):
    """Several of them lie in eight bytes, or they are read where they lie."""
    packed = np.dtype(dtype).itemsize < 4
    for n in (16_500, 40_001):
        x, y = data((n, step), dtype), data((n,), dtype, 1)
        for k in range(step):
            check(lambda x, y: x[:, k] + y, x, y, packed=packed, what=(n, k))
    x, y = data((300, 200, step), dtype, 2), data((300, 200), dtype, 3)
    check(lambda x, y: x[..., 0] + x[..., step - 1] + y, x, y, packed=packed)     # rows without an end join
    check(lambda x, y: x[::2, 5:, 1] + y[::2, 5:], x, y, packed=packed)           # and do not


def test_images_of_bytes_are_packed_whatever_their_size():
    """Every fourth byte of 5 MB and every other one: memory brings them sooner than they are read one by one."""
    x = data((5 << 20, 4), "B")
    check(lambda x: x[:, 1] + x[:, 3], x)
    check(lambda x: x.reshape(-1)[::2] + x.reshape(-1)[1::2], x)


@pytest.mark.parametrize("dtype", "hf")
def test_backwards_in_rows_that_stay_whole(dtype):
    a, b = data((300, 900), dtype), data((300, 900), dtype, 1)

    def total(x, y):
        s = x[:, ::-1] + y
        return s.sum(axis=1)

    def scaled(x, y):
        s = x[:, ::-1] * y
        return s / s.max(axis=1, keepdims=True)
    check(total, a, b, packed=dtype == "h")
    check(scaled, a, b, packed=dtype == "h")


def test_other_steps_are_read_where_they_lie():
    a, b = data((300000,), "f"), data((100000,), "f", 1)
    check(lambda x, y: x[::3] + y, a, b, packed=False)
    check(lambda x, y: x[:200000][::-2] + y, a, b, packed=False)
    a, b = data((5, 2000, 40), "f"), data((5, 2000, 40), "f", 1)
    check(lambda x, y: x[:, :, ::-1] + y, a, b, packed=False)       # short rows


def test_threads_change_nothing():
    a, b = data((700, 901), "f"), data((901, 700), "f", 1)
    results = set()
    for threads in (1, 2, 3, 5):
        with frit.config(num_threads=threads):
            x, y = frit.asarray(a), frit.asarray(b)
            s = x.T * 2 + y
            results.add((np.asarray(s).tobytes(), np.asarray(s.sum(axis=1)).tobytes()))
    assert len(results) == 1


def test_the_plan_and_the_loops_say_so():
    a, b = frit.asarray(data((300, 300), "f")), frit.asarray(data((300, 300), "f", 1))
    text = str(frit.explain(a.T + b))
    assert ", 1 packed" in text
    assert "packed" not in str(frit.explain(a + b))
    assert str(frit.explain(a.T + b, "loops")) == str(frit.explain(a + b, "loops"))     # one kernel for both


@pytest.mark.skipif(REF, reason="the reference packs nothing")
@pytest.mark.parametrize("env", [{}, *soak({"FRIT_JIT": "always"}), {"FRIT_JIT": "off", "FRIT_NUM_THREADS": "2"}], ids=str)
def test_random_programs_with_everything_packed(env):
    code = """
from tests.fuzz.programs import draw
from tests.fuzz.run import compare
import frit
for seed in range(N):
    wrong = compare(draw(seed).lines)
    assert not wrong, (seed, wrong)
assert frit.stats()["packed"] > N / 10, frit.stats()["packed"]
"""
    code = f"N = {20 if 'always' in env.values() else 250}\n" + code
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True,
                   env={**os.environ, **env, "FRIT_PACK_BYTES": "0"})


# ---- short rows, run as one


def joined(f, *arrays, what=""):
    """f has NumPy's bits, and its plan says that short rows were run as one."""
    check(f, *arrays, what=what)
    assert "short rows, run as one" in str(frit.explain(f(*map(frit.asarray, arrays)))), what


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_rows(dtype):
    """A number for each row, a row for all, both, of rows from pairs to three quarters of a cache line."""
    size = np.dtype(dtype).itemsize
    for n in (2, 3, 4, 5, 7, 12):
        if n * size > 48:
            continue
        for h in (12000 // n, 9001):
            if h * n * size < 1 << 14:
                continue
            a, column, row = data((h, n), dtype), data((h, 1), dtype, 1), data((n,), dtype, 2)
            joined(lambda x, c: x * c + x, a, column, what=(dtype, n))
            joined(lambda x, r: x * r, a, row, what=(dtype, n))
            joined(lambda x, c, r: (x + r) * c, a, column, row, what=(dtype, n))
            joined(lambda c, r: c * r, column, row, what=(dtype, n))


def test_short_rows_of_images():
    image, other = data((90, 110, 4), "B"), data((90, 110, 3), "f")
    alpha, mean = data((90, 110, 1), "f", 1), data((3,), "f", 2)
    joined(lambda x, y, a: x[:, :, :3] * a + y * (1 - a), image, other, alpha)
    joined(lambda x: x[:, :, :3] * x[:, :, 3:] // 3, image)
    joined(lambda x, m: (x[..., :3] / 255 - m).transpose(2, 0, 1) * 2, image, mean)
    joined(lambda x, y, a: x[..., ::-1][..., 1:] * a + y, image, other, alpha)
    joined(lambda x, y, a: y * a + x[:, ::-1, 0][..., None], image, other, alpha)


def test_short_rows_within_outer_axes():
    a, c, r = data((5, 7, 700, 3), "f"), data((5, 1, 700, 1), "f", 1), data((1, 7, 1, 3), "f", 2)
    joined(lambda x, c, r: x * c - r, a, c, r)
    joined(lambda x, c, r: x * c - r, a, c[:, :, ::-1], r[..., ::-1])
    joined(lambda x, c: x[::2] * c[::2], a, c)


@pytest.mark.parametrize("dtype", DTYPES)
def test_few_planes_and_small_matrices(dtype):
    """Elements that are brought to rows one by one, where they are as they will be or something is computed of them."""
    def both(x, y):
        scaled = x * 3      # named: no temporary that NumPy could compute into
        return scaled + y

    for n in (2, 3, 5, 8, 15, 16):
        h = 20000 // n
        planes, y = data((n, h), dtype), data((h, n), dtype, 1)
        check(lambda x: x.T.copy(), planes, what=(dtype, n))
        check(lambda x, y: x.T + y, planes, y, what=(dtype, n))
        check(lambda x, y: both(x[::-1].T, y[:, ::-1]), planes, y, what=(dtype, n))
    for n, m in ((3, 3), (5, 2), (6, 6), (7, 9), (8, 8), (4, 20), (12, 12), (17, 17), (31, 33)):
        h = 1 + 20000 // (n * m)
        if h < 64:
            h = 70
        a, b = data((h, n, m), dtype), data((h, m, n), dtype, 1)
        check(lambda x: x.swapaxes(1, 2).copy(), a, packed=True, what=(dtype, n, m))
        right(lambda x, y: x.swapaxes(1, 2) + y, a, b, what=(dtype, n, m))
        right(lambda x, y: both(x[:, ::-1].swapaxes(1, 2), y[:, :, ::-1]), a, b, what=(dtype, n, m))
        right(lambda x: x[:, ::-1, ::-1].copy(), a, what=(dtype, n, m))
        right(lambda x: x[::2].swapaxes(1, 2).copy(), a, what=(dtype, n, m))
    image = data((4, 50, 60, 3), dtype)
    check(lambda x: x.transpose(0, 3, 1, 2).copy(), image, packed=True, what=dtype)
    check(lambda x: x.transpose(0, 3, 1, 2).copy()[:, ::-1].transpose(0, 2, 3, 1).copy(), image, what=dtype)
    check(lambda x: x.reshape(4, 3, 50, 60).transpose(0, 2, 3, 1).copy(), image, what=dtype)


def right(f, *arrays, what=""):
    with np.errstate(all="ignore"):
        assert_same(f(*map(frit.asarray, arrays)), f(*arrays), what=what)


def rows_in_another_order():
    """Backwards, every other element, with gaps; of each size of element."""
    for dtype in DTYPES:
        for n in (2, 3, 4, 5, 8, 13):
            for h in (9001, 12007):
                a, b = data((h, n), dtype), data((h, n), dtype, 1)
                run = joined if n * a.itemsize <= 128 and h * n * a.itemsize >= 1 << 14 else right
                run(lambda x, y: x[:, ::-1] + y, a, b, what=(dtype, n))
                run(lambda x, y: x[::-1, ::-1] + y[:, ::-1], a, b, what=(dtype, n))
                right(lambda x, y: x[:, 1:] + x[:, :-1], a, b, what=(dtype, n))
                right(lambda x, y: x[:, ::2] + y[:, ::2], a, b, what=(dtype, n))
                right(lambda x, y: x[:, ::-2] + y[1::3, ::2][:1], a, b, what=(dtype, n))


def small_matrices():
    """Rows of two and three axes: transposed, repeated along either, backwards, with gaps."""
    for dtype in DTYPES:
        for shape in ((2, 2), (3, 3), (2, 3), (4, 4), (2, 2, 2), (1, 5), (3, 1, 2)):
            h, n = 5003, int(np.prod(shape))
            a, b, one = data((h, *shape), dtype), data((h, *shape[::-1]), dtype, 1), data(shape, dtype, 2)
            last = tuple(range(1, len(shape) + 1))
            run = joined if n * a.itemsize <= 128 and h * n * a.itemsize >= 1 << 14 and min(shape) > 1 else right
            run(lambda x, y: x + y.transpose(0, *last[::-1]), a, b, what=(dtype, shape))
            run(lambda x, y: x[..., :1] + y, a, a, what=(dtype, shape))
            run(lambda x, y: x[:, :1] + y, a, a, what=(dtype, shape))
            run(lambda x, y: x[:, ::-1] + y[..., ::-1], a, a, what=(dtype, shape))
            right(lambda x, y: x + y + x, a, one, what=(dtype, shape))
            right(lambda x, y: x[::2, :1] + y, a, one, what=(dtype, shape))


def small_products():
    """Rows of three axes, up to 512 bytes, of which each operand lacks one."""
    for dtype in DTYPES:
        for i, k, j in ((2, 2, 2), (3, 3, 3), (2, 3, 4), (4, 4, 4), (5, 5, 5), (1, 3, 2), (6, 6, 6)):
            a, b = data((2503, i, k), dtype), data((2503, k, j), dtype, 1)
            size = a.itemsize
            fits = i * k * j <= min(128, 512 // size) and max(i * k, k * j) * size <= 128 and j * size <= 48 and i > 1
            run = joined if fits else right
            run(lambda x, y: x[..., None] * y[:, None], a, b, what=(dtype, i, k, j))
            right(lambda x, y: (x[..., None] * y[:, None]).sum(2), a, b, what=(dtype, i, k, j))
            right(lambda x, y: (x[:, ::-1, :, None] * y[:, None]).max(2), a, b, what=(dtype, i, k, j))


@pytest.mark.parametrize("level", [*soak(*frit.isa_levels()[:-1]), frit.isa_levels()[-1]])
@pytest.mark.parametrize("what", [rows_in_another_order, small_matrices, small_products])
def test_short_rows_by_shuffles(what, level):
    """On each level of instructions: its vectors, and what they cannot do."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", f"from tests.test_tiles import *; {what.__name__}()"],
                   cwd=ROOT, check=True, env={**os.environ, "FRIT_ISA": level})


def test_joined_rows_at_the_end_of_memory():
    """What is shuffled is read a vector at a time, but not beyond the last element: the page behind it is not there."""
    code = """
import ctypes, mmap, numpy as np, frit
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.PAGESIZE
for dtype in "B", "H", "f", "d":
    for n in 2, 3, 5, 9:
        m = mmap.mmap(-1, 17 * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(m))
        assert libc.mprotect(ctypes.c_void_p(address + 16 * page), page, 0) == 0
        rows = 16 * page // (n * np.dtype(dtype).itemsize)
        size = rows * n * np.dtype(dtype).itemsize
        x = np.frombuffer(m, dtype, rows * n, 16 * page - size).reshape(rows, n)
        x[:] = np.arange(rows * n).reshape(rows, n) % 100
        f = frit.accelerate(lambda x, y: x[:, ::-1] + y)
        y = np.ones((rows, n), dtype)
        for _ in range(4):
            assert (f(x, y) == x[:, ::-1] + y).all()
            assert (frit.accelerate(lambda x, y: x[::-1, ::-1] + y)(x, y) == x[::-1, ::-1] + y).all()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_short_rows_are_stored_into_what_is_read():
    a, c = data((8000, 3), "f"), data((8000, 1), "f", 1)
    def f(x, c):
        x = x * 1
        x *= c
        x[100:-50] -= c[100:-50] * 2
        return x
    check(f, a, c)
    def g(x):
        x = x * 1
        x /= x[:, 1:2]         # what is read is overwritten
        return x
    with np.errstate(all="ignore"):
        assert_same(g(frit.asarray(a)), g(a))


def test_rows_that_are_not_joined():
    """Few; longer ones; long enough with gaps only; far from each other; and where what is stored has gaps."""
    h = data((40, 3), "f"), data((40, 1), "f", 1)
    check(lambda x, c: x * c, *h, packed=False)
    check(lambda x, c: x * c, data((3000, 13), "f"), data((3000, 1), "f", 1), packed=False)
    check(lambda x: x[:, :5] * 2, data((9000, 6), "f"), packed=False)
    check(lambda x, c: x[:, 1:] * x[:, :-1], data((9000, 6), "f"), data((1,), "f"), packed=False)
    def store(x, c):
        y = x * 1
        y[:, 1:3] = x[:, 1:3] * c
        return y
    check(store, data((9000, 4), "f"), data((9000, 1), "f", 1), packed=False)


def test_threads_join_the_same_rows():
    a, c, r = data((200000, 3), "f"), data((200000, 1), "f", 1), data((3,), "f", 2)
    results = set()
    for threads in (1, 2, 3, 5):
        with frit.config(num_threads=threads):
            x, y, z = map(frit.asarray, (a, c, r))
            results.add(np.asarray((x - z) / y).tobytes())
    assert len(results) == 1


@pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")
def test_what_lies_beside_a_packed_operand_is_asked_for():
    """GCC takes a function that only prefetches for one that does nothing, and leaves its calls out."""
    code = subprocess.run(["objdump", "-d", frit._core.__file__], check=True, stdout=subprocess.PIPE, text=True).stdout
    if "prefetcht0" not in code:
        pytest.skip("not the instructions of this processor")
    assert "prefetcht1" in code
