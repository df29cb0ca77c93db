"""Division with remainder and whole powers against NumPy, bit by bit, where quotients are hard: all pairs
of 8-bit integers, dividends beside multiples of the divisor, quotients of every size."""
import numpy as np
import pytest

import frit
from tests.common import assert_same, specials

pytestmark = pytest.mark.core
OPERATIONS = ("floor_divide", "remainder", "fmod")
INTS = "i1 u1 i2 u2 i4 u4 i8 u8".split()
FLOATS = "f2 f4 f8".split()


def same(a, b, what=""):
    for name in OPERATIONS:
        with np.errstate(all="ignore"):
            want = getattr(np, name)(a, b)
        assert_same(getattr(frit, name)(frit.asarray(a), b), want, what=f"{name} {a.dtype} {what}")


def both_ways(a, b, n_numbers=12):
    """Arrays by arrays, and by some of their numbers; long enough for whole steps and a tail."""
    same(a, b)
    for k in np.linspace(0, b.size - 1, n_numbers).astype(int):
        same(a, b[k], f"by {b[k]!r}")


@pytest.mark.parametrize("dtype", ["i1", "u1"])
def test_every_pair_of_bytes(dtype):
    a = np.arange(256).astype("u1").view(dtype)
    same(np.repeat(a, 256), np.tile(a, 256))
    for b in a:
        same(a, b, f"by {b}")


def integers(dtype, n, rng):
    """Of every number of bits alike."""
    bits = 8 * np.dtype(dtype).itemsize
    a = rng.integers(0, 2**64, n, dtype=np.uint64) >> (64 - rng.integers(1, bits + 1, n)).astype(np.uint64)
    a = np.where(rng.random(n) < 0.5, a, -a.view("i8").astype("u8")) if dtype[0] == "i" else a
    return np.ascontiguousarray(a.astype(np.uint64).view("i8").astype(dtype))


@pytest.mark.parametrize("dtype", INTS)
def test_integers_beside_multiples(dtype):
    rng = np.random.default_rng(1)
    n = 20011
    b, q = integers(dtype, n, rng), integers(dtype, n, rng)
    with np.errstate(all="ignore"):
        a = (q * b + rng.integers(-1, 2, n).astype(dtype)).astype(dtype)
        small = (q // np.where(b == 0, 1, b) * b).astype(dtype)
    for x in (a, small, (small - np.ones((), dtype)).astype(dtype), q):
        both_ways(x, b)
    s = specials(dtype)
    both_ways(np.repeat(s, s.size), np.tile(s, s.size), s.size)


@pytest.mark.parametrize("dtype", ["i2", "u2", "i4", "u4"])
def test_integers_by_every_kind_of_number(dtype):
    """By a product with the inverse: beside powers of two and their halves, and few elements more than a vector."""
    rng = np.random.default_rng(9)
    bits = 8 * np.dtype(dtype).itemsize
    near = np.array([2**k + d for k in range(bits) for d in (-1, 0, 1)])
    for b in np.concatenate([near, rng.integers(0, 2**bits, 60), np.arange(300)]).astype("u8").astype(dtype):
        with np.errstate(all="ignore"):
            a = (integers(dtype, 77, rng) // np.where(b == 0, 1, b) * b).astype(dtype)
            a = np.concatenate([a, a - np.ones((), dtype), specials(dtype), near.astype("u8").astype(dtype)])
        same(a, b, f"by {b}")


def test_long_and_short_integers_in_one_array():
    """64-bit integers of few bits take a shorter way, but not beside others."""
    for dtype in ("i8", "u8"):
        edges = np.array([2**k + d for k in range(44, 55) for d in (-2, -1, 0, 1)])
        edges = np.concatenate([edges, -edges]).astype("i8").astype(dtype)
        for a in (edges, np.tile(edges, 8)[::3]):
            for b in (1, 2, 3, 7, 2**31 - 1, 2**48, 2**49 - 1, 2**49, 2**49 + 1, 2**62):
                same(a, np.dtype(dtype).type(b), f"by {b}")
        same(np.repeat(edges, edges.size), np.tile(edges, edges.size))


def of_any_size(dtype, n, rng):
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, n)
    with np.errstate(all="ignore"):
        x = np.ldexp(rng.random(n) + 1, exponents) * rng.choice([-1.0, 1.0], n)
        return x.astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_beside_multiples(dtype):
    rng = np.random.default_rng(2)
    n = 30011
    b = of_any_size(dtype, n, rng)
    bits = np.finfo(dtype).nmant + 3
    with np.errstate(all="ignore"):
        q = np.floor(np.exp2(rng.random(n) * bits)).astype(dtype) * rng.choice([-1, 1], n).astype(dtype)
        a = q * b
        a = np.concatenate([a, np.nextafter(a, a * 0), np.nextafter(a, a * 2), b + np.nextafter(b, b * 0)])
    same(a, np.tile(b, 4))
    for k in (0.1, 1, 3, 7, 1e-3, 60000):
        k = np.dtype(dtype).type(k)
        with np.errstate(all="ignore"):
            a = q * k
        for x in (a, np.nextafter(a, -k), np.nextafter(a, k), q + k, b):
            same(x, k, f"by {k!r}")
            same(x, -k, f"by {-k!r}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_every_size(dtype):
    rng = np.random.default_rng(3)
    a, b = of_any_size(dtype, 40013, rng), of_any_size(dtype, 40013, rng)
    same(a, b)
    same(a, np.roll(a, 1) * np.dtype(dtype).type(0.37))
    near = np.ldexp(b.astype("f8"), rng.integers(-3, 60, b.size))
    with np.errstate(all="ignore"):
        same(near.astype(dtype), b)
    s = np.concatenate([specials(dtype), of_any_size(dtype, 30, rng)])
    both_ways(np.repeat(s, s.size), np.tile(s, s.size), s.size)
    with np.errstate(all="ignore"):
        same(np.tile(s, 40), np.repeat(s[:40], s.size))


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_beside_the_largest(dtype):
    """A multiple of the divisor that is next to the dividend may be infinite."""
    rng = np.random.default_rng(6)
    d = np.dtype(dtype).type
    a = (rng.random(5003) * 0.01 + 0.99).astype(dtype) * np.finfo(dtype).max
    for q in (1.5, 2.5, 3, 6.6, 100.7, 30000.9):
        same(a, a / d(q) * rng.choice([-1, 1], a.size).astype(dtype), f"quotient {q}")
        same(a, np.finfo(dtype).max / d(q), f"quotient {q}")


@pytest.mark.parametrize("rare", [np.nan, np.inf, -0.0, 1e30])
def test_one_rare_quotient_among_usual_ones(rare):
    for dtype in ("f4", "f8"):
        for at in range(0, 300, 17):
            a, b = np.arange(1, 301).astype(dtype), np.full(300, 7, dtype)
            a[at] = rare
            same(a, b)
            same(b, a)


@pytest.mark.parametrize("dtype", INTS)
def test_whole_powers(dtype):
    a = np.concatenate([integers(dtype, 1009, np.random.default_rng(4)), specials(dtype)])
    for e in (0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 63, 64, 100):
        assert_same(frit.asarray(a) ** e, a ** e, what=f"{dtype} ** {e}")
        n = np.dtype(dtype).type(e)
        assert_same(frit.power(frit.asarray(a), n), np.power(a, n), what=f"power {dtype} {e}")
    if dtype[0] == "u":
        e = np.arange(a.size).astype(dtype) % np.dtype(dtype).type(70)
        assert_same(frit.power(frit.asarray(a), frit.asarray(e)), np.power(a, e), what=f"{dtype} ** array")


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_whole_powers(dtype):
    rng = np.random.default_rng(5)
    a = (rng.standard_normal(517) + 1j * rng.standard_normal(517)).astype(dtype)
    a[::50] = 0
    for e in (0, 1, 2.0, 3, 4, 5, 7, 15, 16, 31, 99, -1, -3):
        with np.errstate(all="ignore"):
            got = frit.asarray(a) ** e
            assert_same(got, a ** e, ulp=4 + 2 * abs(e), what=f"{dtype} ** {e}")
            # (The operator makes a reciprocal of ** -1, as NumPy's does.)
            assert_same(frit.power(frit.asarray(a), e), frit.asarray(a) ** frit.full(a.shape, e, dtype=dtype), what=f"{dtype} ** {e}, an array")


def test_complex_cubes_take_a_short_way():
    z = frit.asarray(np.arange(3) + 1j)
    for e, name in ((3, "cube"), (3.0, "cube"), (4, "fourth"), (5, "power")):
        assert name in frit.explain(z ** e, "graph")


def at_a_new_place(code, t, s):
    """What the code makes of t and s, at a place that has not divided by anything yet."""
    return eval(compile(code, "test", "eval"), {"t": t, "s": s})


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2"])
def test_short_numbers_by_a_few_digits(dtype):
    """By two products: divisors of all lengths at which that is allowed and is not."""
    x = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, 1 if dtype[1] == "1" else 7, dtype)
    t, rng = frit.asarray(x), np.random.default_rng(3)
    odd = [int(v) | 1 | 1 << bits - 1 for bits in range(2, 25) for v in rng.integers(0, 2**bits, 6)]
    scaled = [float(np.ldexp(v, (0, -9, 7, -40)[k % 4])) for k, v in enumerate(map(float, odd))]
    for s in (255.0, 127.5, 65535.0, 100.0, 2.0**21 - 1, 2.0**21 + 1, 0.1, -255.0, -3.0, *scaled):
        few = s > 0 and (np.frexp(s)[0] * 2**21).is_integer()
        for code in ("t / s", "t.astype('f4') / s", "t.astype('f8') / s"):
            got = at_a_new_place(code, t, s)
            assert ("divide_few" in frit.explain(got, "graph")) == few, s
            assert_same(got, eval(code, {"t": x, "s": s}), what=f"{code}, {dtype} / {s!r}")


@pytest.mark.parametrize("dtype", [*FLOATS, "i1", "i8"])
def test_division_by_powers_of_two(dtype):
    """Multiplied by the inverse instead, where that has full precision: the quotient's bits, subnormal ones too."""
    x, floats = specials(dtype), dtype in FLOATS
    t = frit.asarray(x)
    size = np.finfo(dtype if floats else "f8")
    for k in {*range(size.minexp - 3, size.minexp + 4), -2, -1, 0, 1, 2, *range(size.maxexp - 4, size.maxexp)}:
        for s in (2.0**k, -(2.0**k), 1.5 * 2.0 ** min(k, size.maxexp - 1)):
            with np.errstate(all="ignore"):
                assert_same(at_a_new_place("t / s", t, s), x / s, what=f"{dtype} / {s}")
                if floats:
                    typed = np.dtype(dtype).type(s)
                    assert_same(at_a_new_place("t / s", t, typed), x / typed)
    if floats:
        y = frit.array(x)
        y /= 4
        assert_same(y, x / np.dtype(dtype).type(4))
    else:
        with pytest.raises(TypeError, match="divide"):
            t /= 2
    for s, instead in ((2, True), (0.25, True), (-8.0, True), (3, False), (0.1, False), (0, False)):
        text = frit.explain(at_a_new_place("t / s", t, s), "graph")
        assert ("multiply" in text, "divide" in text) == (instead, not instead), (s, text)
    assert "divide" in frit.explain(2 / t, "graph")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i4", "?"])
def test_means_of_few(dtype):
    """Of a window of 2, 4, ... 64, multiplied by the inverse; along the first axis, of which batches vary, divided."""
    values = np.random.default_rng(3).standard_normal(6 * 64 * 4) * 100
    for n, instead in ((2, True), (4, True), (64, True), (3, False), (96, False), (128, False)):
        x = values.reshape(-1, n, 2).astype(dtype)
        t = frit.asarray(x)
        for what in ("t.mean(1)", "t.mean((1, 2))", "t.var(1)", "t.std(1)", "t.mean(0)", "t.mean()"):
            got = eval(what, {"t": t})
            if what == "t.mean(1)":
                assert ("divide" in frit.explain(got, "graph")) == (not instead or dtype == "c8")
            if what in ("t.mean(0)", "t.mean()"):
                assert "divide" in frit.explain(got, "graph")
            assert_same(got, eval(what, {"t": x}), what=f"{what}, {dtype}, {n}")


def hard_quotients(bits, rng, n=400):
    """Whole numbers and divisors of so many bits whose quotients are next to the middle of two floats: with m an odd
    number of one bit more, x * 2^k = m * s + e."""
    for s in (int(v) | 1 for v in rng.integers(2**(bits - 1), 2**bits, n)):
        for e in (-5, -3, -1, 1, 3, 5):
            k = bits + 1
            m = -e * pow(s, -1, 2**k) % 2**k
            if m >> bits:
                yield (m * s + e) >> k, s


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_hard_quotients_of_whole_numbers(dtype):
    pairs = list(hard_quotients(np.finfo(dtype).nmant + 1, np.random.default_rng(7)))
    assert len(pairs) > 1000
    x = np.array([p[0] for p in pairs])
    whole = frit.asarray(x)
    for k, (_, s) in enumerate(pairs[::7]):
        v = np.ldexp(float(s), (0, -40, 6, -83)[k % 4]) * (1, -1)[k // 4 % 2]
        got = whole.astype(dtype) / float(v)
        if k < 20:
            assert "divide_whole" in frit.explain(got, "graph")
        assert_same(got, x.astype(dtype) / np.dtype(dtype).type(v), what=f"{dtype} / {v!r}")
    for at, s in pairs[:200]:
        few = np.full(9, at)
        assert_same(frit.asarray(few).astype(dtype) / float(s), few.astype(dtype) / np.dtype(dtype).type(s))


@pytest.mark.parametrize("dtype", INTS)
def test_dividing_whole_numbers(dtype):
    """By a product with the inverse and what that leaves: far from the ends of the range, the quotient's bits."""
    rng = np.random.default_rng(8)
    x = np.concatenate([specials(dtype), integers(dtype, 3001, rng), np.arange(-128, 128).astype(dtype)])
    t, sizes = frit.asarray(x), np.exp2(rng.uniform(-60, 60, 40))
    outside = [0.0, -0.0, np.inf, np.nan, 5e-324, 2.0**-1022, 1e-300, 1e300, 1.7e308, 2.0**60 * 1.5, 2.0**-60 / 1.5]
    for s in (3, 255, -7, 0.1, 2.0**60, -(2.0**-60), 1 + 2.0**-52, 2 - 2.0**-52, *sizes, *-sizes, *outside):
        for wanted, got in ((lambda: x / s, lambda: t / s),
                            (lambda: x.astype("f4") / s, lambda: t.astype("f4") / s),
                            (lambda: x.astype("f2") / s, lambda: t.astype("f2") / s),
                            (lambda: x / np.float16(s), lambda: t / np.float16(s)),
                            (lambda: x.astype("f8") / np.float64(s), lambda: t.astype("f8") / np.float64(s))):
            with np.errstate(all="ignore"):
                want, got = wanted(), got()
            if s in (3, 255, 0.1, 1e-300, 1e300) and want.dtype != "f2":
                text = frit.explain(got, "graph")
                assert ("divide_whole" in text or "divide_few" in text) == (1e-300 < s < 1e300)
            assert_same(got, want, what=f"{dtype} / {s!r}")
    y = frit.array(t.astype("f4"))
    assert "divide_whole" not in frit.explain(y / 3, "graph")         # its values are there: any floats


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_by_powers_of_two(dtype):
    """Shifted and masked instead."""
    x = specials(dtype)
    t, bits = frit.asarray(x), 8 * x.itemsize
    for k in range(bits - 1 if dtype[0] == "i" else bits):
        for s in (2**k, np.dtype(dtype).type(2**k), 2**k - 1 or 3):
            with np.errstate(all="ignore"):
                assert_same(at_a_new_place("t // s", t, s), x // s, what=f"{dtype} // {s}")
                assert_same(at_a_new_place("t % s", t, s), x % s, what=f"{dtype} % {s}")
    y, z = frit.array(x), frit.array(x)
    y //= 4
    z %= 8
    assert_same(y, x // 4)
    assert_same(z, x % 8)
    assert "right_shift" in frit.explain(t // 4, "graph") and "bitwise_and" in frit.explain(t % 4, "graph")
    for s in (3, -2 if dtype[0] == "i" else 6, 0):
        assert "floor_divide" in frit.explain(at_a_new_place("t // s", t, s), "graph")
        assert "remainder" in frit.explain(at_a_new_place("t % s", t, s), "graph")


def test_divisors_that_vary():
    """One kernel is to serve them all: where two have come, there is nothing but division."""
    t, n = frit.asarray(np.ones(10)), frit.asarray(np.arange(10))
    divided = []
    for s in (2, 2, 3, 2, 4):
        divided.append(["divide" in frit.explain(v, "graph") or "remainder" in frit.explain(v, "graph")
                        for v in (t / s, n // s, n % s)])
    assert divided == [[False] * 3] * 2 + [[True] * 3] * 3
