"""The reference executor: nests written as text, against NumPy bit for bit."""
import ctypes

import numpy as np
import pytest

from .test_recipes import DTYPES, lib, random_values, same_bits  # noqa: F401

FLOATS = ["f16", "f32", "f64"]
SIZES = [0, 1, 2, 3, 7, 8, 9, 15, 16, 63, 64, 65, 127, 128, 129, 130, 136, 137, 255, 256, 257, 300,
         1000, 1025]


def run(lib, text, operands, outer=(), n_rows=1, n_inner=1, scalars=()):
    """operands: (array or address, strides in bytes along the outer axes, rows and the inner one)."""
    message = ctypes.create_string_buffer(480)
    ptr = (ctypes.c_void_p * max(1, len(operands)))()
    strides = []
    for k, (a, s) in enumerate(operands):
        ptr[k] = a if isinstance(a, int) else a.ctypes.data
        assert len(s) == len(outer) + 2
        strides += s
    slots = np.zeros((max(1, len(scalars)), 16), np.uint8)
    for k, v in enumerate(scalars):
        b = np.frombuffer(v.tobytes(), np.uint8)
        slots[k, :b.size] = b
    st = lib.test_ref(text.encode(), len(outer), (ctypes.c_int64 * 32)(*outer),
                      ctypes.c_int64(n_rows), ctypes.c_int64(n_inner), ptr,
                      (ctypes.c_int64 * max(1, len(strides)))(*strides),
                      ctypes.c_void_p(slots.ctypes.data), message, ctypes.c_size_t(480))
    assert st == 0, f"status {st}: {message.value.decode()}\n{text}"


def rows_of(a):
    return (a, [a.strides[-2], a.strides[-1]])


def check(got, want, what=""):
    want = np.asarray(want)
    ok = same_bits(got.reshape(want.shape), want)
    assert np.all(ok), f"{what}: {got.ravel()[:8]} against {want.ravel()[:8]}"


def test_map_over_strides(lib):
    rng = np.random.default_rng(0)
    base = rng.standard_normal((4, 6, 10))
    a, b = base[::-1, ::2, ::-3], rng.standard_normal((3, 1))
    b = np.broadcast_to(b, a.shape)
    out = np.full((4, 3, 8), 7.0)
    dest = out[:, :, ::2]
    run(lib, """nest 1 stage
        [0] f64 strided
        [1] f64 zero
        [2] f64 strided written
        %0 = load [1] f64 ROW stage 0
        %1 = load [0] f64 FULL stage 0
        %2 = subtract %1 %0 f64 FULL stage 0
        %3 = multiply %2 %1 f64 FULL stage 0
        %4 = store [2] %3 f64 FULL stage 0""",
        [(a, list(a.strides)), (b, list(b.strides)), (dest, list(dest.strides))], (4,), 3, 4)
    check(np.ascontiguousarray(dest), (a - b) * a)
    assert (out[:, :, 1::2] == 7).all()


def test_scalars_iota_where_and_casts(lib):
    out = np.zeros((3, 5), np.float16)
    start, row, step = 4, 10, -1
    run(lib, """nest 1 stage
        [0] i64 strided
        [1] f16 unit written
        $0 f32
        $1 i64
        %0 = scalar $0 f32 SCALAR stage 0
        %1 = multiply %0 %0 f32 SCALAR stage 0
        %2 = scalar $1 i64 SCALAR stage 0
        %3 = iota [0] i64 FULL stage 0
        %4 = less %3 %2 bool FULL stage 0
        %5 = cast %3 f32 FULL stage 0
        %6 = where %4 %5 %1 f32 FULL stage 0
        %7 = cast %6 f16 FULL stage 0
        %8 = store [1] %7 f16 FULL stage 0""",
        [(start, [row, step]), rows_of(out)], (), 3, 5, [np.float32(1.5), np.int64(13)])
    i = start + row * np.arange(3)[:, None] + step * np.arange(5)
    check(out, np.where(i < 13, i, 2.25).astype(np.float16))


def reduce_text(op, dtype, result):
    return f"""nest 1 stage reduces
        [0] {dtype} strided
        [1] {result} zero written
        %0 = load [0] {dtype} FULL stage 0
        %1 = reduce {op} %0 {result} ROW stage 1
        %2 = store [1] %1 {result} ROW stage 1"""


def reduce_rows(lib, op, a, result):
    out = np.zeros(a.shape[0], DTYPES[result])
    code = next(c for c, t in DTYPES.items() if np.dtype(t) == a.dtype)
    run(lib, reduce_text(op, code, result), [rows_of(a), (out, [out.itemsize, 0])], (), *a.shape)
    return out


def samples(dtype, shape, seed):
    """Numbers whose sums round, among them zeros of both signs."""
    rng = np.random.default_rng(seed)
    t = np.dtype(DTYPES[dtype])
    if t.kind in "biu":
        return random_values(t, int(np.prod(shape)), rng).reshape(shape)
    x = rng.standard_normal(shape)
    if t.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.where(rng.random(shape) < 0.05, -0.0, x).astype(t)


@pytest.mark.parametrize("dtype", ["i64", "u64", *FLOATS, "c64", "c128"])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_ordered_reductions(lib, op, dtype):
    for n in SIZES:
        a = samples(dtype, (2, n), n)
        if op == "prod" and a.dtype.kind in "fc":
            a = a + a.dtype.type(0.5)
        got = reduce_rows(lib, op, a, dtype)
        with np.errstate(all="ignore"):
            want = [getattr(np, op)(row, dtype=a.dtype) for row in a]
        check(got, np.array(want, a.dtype), f"{op} {dtype} {n}")
    if dtype[0] == "c":
        a = np.array([[complex(np.inf, 1), 1, 2], [complex(1, np.inf), 3j, 1]], DTYPES[dtype])
        with np.errstate(all="ignore"):
            check(reduce_rows(lib, op, a, dtype), [getattr(np, op)(row) for row in a], op)
    zeros = np.full((2, 20), -0.0).astype(DTYPES[dtype])
    check(reduce_rows(lib, op, zeros, dtype), [getattr(np, op)(z) for z in zeros], op)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["max", "min", "any", "all", "argmax", "argmin"])
def test_other_reductions(lib, op, dtype):
    result = {"any": "bool", "all": "bool", "argmax": "i64", "argmin": "i64"}.get(op, dtype)
    rng = np.random.default_rng(3)
    for n in SIZES[1:]:
        a = samples(dtype, (4, n), n)
        a[1:3] = np.where(rng.random((2, n)) < 0.9, a[1:3], 0) if op in ("any", "all") else a[1:3]
        a[0] = a[0, 0]
        a[1] = 0
        if a.dtype.kind in "fc":
            a[2, n // 2:] = np.nan
        got = reduce_rows(lib, op, a, result)
        want = np.array([getattr(np, op)(row) for row in a], DTYPES[result])
        ok = same_bits(got, want) | ((got == 0) & (want == 0))
        assert ok.all(), (op, dtype, n, got, want)


ACCUM = """nest 1 stage
    [0] {0} strided
    [1] {1} strided written
    %0 = load [0] {0} FULL stage 0
    %1 = cast %0 {1} FULL stage 0
    %2 = accum {2} [1] %1 {1} FULL stage 0"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", ["sum", "prod", "max", "min", "any", "all"])
def test_accumulators(lib, op, dtype):
    """Columns, over the rows and over an outer axis that is reduced too."""
    result = "bool" if op in ("any", "all") else dtype
    if op in ("sum", "prod") and np.dtype(DTYPES[dtype]).kind in "biu":
        result = "u64" if dtype[0] == "u" else "i64"
    for shape in ((1, 3), (9, 4), (40, 2), (3, 5, 2, 4)):
        a = samples(dtype, shape, 1)
        t = DTYPES[result]
        axis = 0 if len(shape) == 2 else (0, 2)
        kept = shape[-1:] if len(shape) == 2 else (shape[1], shape[3])
        out = np.full(kept, 9).astype(t)
        inner = [*out.strides] if len(shape) == 2 else [0, out.strides[0], 0, out.strides[1]]
        inner = [0, *inner] if len(shape) == 2 else inner
        run(lib, ACCUM.format(dtype, result, op), [(a, list(a.strides)), (out, inner)],
            shape[:-2], *shape[-2:])
        if op in ("sum", "prod"):
            want = np.full(kept, op == "prod").astype(t)
            f = np.add if op == "sum" else np.multiply
            with np.errstate(all="ignore"):
                if len(shape) == 2:
                    for row in a:
                        want = f(want, row)
                else:
                    for i in range(shape[0]):
                        for j in range(shape[2]):
                            want = f(want, a[i, :, j])
                if len(shape) == 2:
                    check(out, getattr(np, op)(a, axis=0, dtype=t), f"{op} {dtype} NumPy")
        else:
            want = getattr(np, op)(a, axis=axis)
        ok = same_bits(out, want) | ((out == 0) & (want == 0))
        assert ok.all(), (op, dtype, out, want)


def test_accumulators_of_nothing(lib):
    for op, value in (("sum", 0.0), ("prod", 1.0)):
        out = np.full(3, 9.0)
        run(lib, ACCUM.format("f64", "f64", op), [(out, [8, 8]), (out, [0, 8])], (), 0, 3)
        check(out, np.full(3, value))


def test_streams(lib):
    """Row sums added up in order, as NumPy does when the reduced axes do not merge."""
    a = samples("f32", (5, 7, 40), 1)[:, :, ::2]
    out = np.full(5, 9, np.float32)
    run(lib, """nest 1 stage reduces
        [0] f32 strided
        [1] f32 zero written stream
        %0 = load [0] f32 FULL stage 0
        %1 = reduce sum %0 f32 ROW stage 1
        %2 = store sum [1] %1 f32 ROW stage 1""",
        [(a, list(a.strides)), (out, [4, 0, 0])], (5,), 7, 20)
    want = np.zeros(5, np.float32)
    for j in range(7):
        want = want + np.array([np.ascontiguousarray(a[i, j]).sum() for i in range(5)])
    check(out, want)


def test_stages(lib):
    """x -> (x - max)^2 / sum((x - max)^2), and the column sums of it, in one nest of three stages."""
    a = samples("f64", (6, 50), 1)
    out, col = np.zeros_like(a), np.full(50, 9.0)
    text = """nest 3 stages{} reduces
        [0] f64 unit
        [1] f64 unit written
        [2] f64 unit written
        %0 = load [0] f64 FULL stage 0
        %1 = reduce max %0 f64 ROW stage 1
        %2 = subtract %0 %1 f64 FULL stage 1
        %3 = square %2 f64 FULL stage 1
        %4 = reduce sum %3 f64 ROW stage 2
        %5 = divide %3 %4 f64 FULL stage 2
        %6 = store [1] %5 f64 FULL stage 2
        %7 = accum sum [2] %5 f64 FULL stage 2"""
    d = np.square(a - a.max(1, keepdims=True))
    want = d / d.sum(1, keepdims=True)
    for rowbuf in ("", " rowbuf"):
        out[:] = col[:] = 9
        run(lib, text.format(rowbuf), [rows_of(a), rows_of(out), (col, [0, 8])], (), 6, 50)
        check(out, want)
        check(col, want.sum(0))
    b = a.copy()
    run(lib, text.format(""), [rows_of(b), rows_of(b), (col, [0, 8])], (), 6, 50)
    check(b, want, "in place")


def test_out_of_memory(lib):
    a = samples("f32", (2, 9), 1)
    out = np.zeros(2, np.float32)
    before = lib.test_live()
    for n in range(1, 2000):
        lib.test_fail_at(n)
        try:
            run(lib, reduce_text("sum", "f32", "f32"), [rows_of(a), (out, [4, 0])], (), 2, 9)
        except AssertionError as e:
            assert "status 1" in str(e)
        else:
            break
        finally:
            lib.test_fail_at(0)
            assert lib.test_live() == before
    assert 5 < n < 1999
    check(out, [r.sum() for r in a])
