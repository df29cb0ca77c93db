"""Is any single operation slower than NumPy's?  Every function of one and two arguments, the usual methods, ways to
index and casts, on every dtype.

    python -m benchmarks.operations                           30,000 elements, one thread
    python -m benchmarks.operations --size 1000000 --only "take,a % 7" --dtypes f8,i4 --above 0

Each operation is forced alone (frit.eval), in the steady state, and takes turns with NumPy.  A single operation is
where fusing gains nothing: what is left is the kernel itself and the way to it."""
import argparse
import os
import statistics
import time
import warnings

import numpy as np

DTYPES = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ? c16 c8".split()
ROW = 100
# Beside NumPy's ufuncs; r: rows of 100 elements, k: places, m: a mask.
MORE = """
a + 2; a * 0.5; a / 7; a // 7; a % 7; a ** 2; a ** 3; 2 ** a; -a; a > 5; ~a; abs(a)
xp.where(a > b, a, b); xp.clip(a, 1, 20); xp.round(a); a.real + b.imag; xp.isclose(a, b); xp.nan_to_num(a)
a.astype('f8'); a.astype('f4'); a.astype('f2'); a.astype('i8'); a.astype('i4'); a.astype('u1'); a.astype('?'); a.astype('c8')
a.sum(); a.mean(); a.std(); a.prod(); a.max(); a.argmax(); a.any(); a.all(); a.cumsum(); a.cumprod(); xp.ptp(a)
xp.count_nonzero(a); xp.diff(a); xp.nansum(a); xp.average(a)
r.sum(0); r.sum(1); r.mean(1); r.var(0); r.max(0); r.max(1); r.argmax(0); r.argmax(1); r.cumsum(0); r.cumsum(1); (r > 3).any(1)
a[::-1] + b; a[::2] + b[::2]; a[1:] - a[:-1]; r.T + r.T; r.T.copy(); r + r[0]; r * r[:, :1]; r[:, ::-1] + r
xp.concatenate([a, b]); xp.stack([a, b], 1); xp.roll(a, 5); xp.pad(a, 3); xp.repeat(a, 2); xp.tile(a, 2)
xp.take(a, k); a[k]; a[m]; r[k[:50] % len(r)]; xp.sort(a); xp.median(a); xp.dot(a, b); xp.outer(a[:100], b)
xp.ones_like(a); xp.interp(a, k[:50], k[50:100])
"""


def operations():
    """{text: function of (xp, names)}"""
    ufuncs = [f for f in vars(np).values() if isinstance(f, np.ufunc) and f.nin < 3 and f.nout == 1]
    texts = sorted({f"xp.{f.__name__}({', '.join('ab'[:f.nin])})" for f in ufuncs})
    texts += [t.strip() for line in MORE.strip().splitlines() for t in line.split(";")]
    return {t: compile(t, "<operation>", "eval") for t in texts}


def data(dtype, n, seed):
    r, dtype = np.random.default_rng(seed), np.dtype(dtype)
    if dtype.kind == "b":
        return r.random(n) > 0.5
    if dtype.kind in "iu":
        return r.integers(1, 100, n).astype(dtype)
    if dtype.kind == "c":
        return (r.random(n) + 1j * r.random(n) + seed).astype(dtype)
    return (r.random(n) * 0.9 + 0.05 + seed).astype(dtype)


def median(f, n):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(frit, code, dtype, n):
    """Seconds with NumPy and with frit, or None where NumPy has no such operation."""
    r = np.random.default_rng(0)
    names = {"a": data(dtype, n, 0), "b": data(dtype, n, 1), "k": r.integers(0, n, n), "m": r.random(n) > 0.5}
    names["r"] = names["a"].reshape(-1, ROW)
    ours = {"xp": frit, **{name: frit.asarray(x) for name, x in names.items()}}
    names["xp"] = np

    def with_numpy():
        return eval(code, names)

    def with_frit():
        out = eval(code, ours)
        if isinstance(out, frit.Tensor):
            frit.eval(out)
        return out

    try:
        want = np.asarray(with_numpy())
    except (TypeError, ValueError):
        return None
    got = np.asarray(with_frit())
    assert got.shape == want.shape and got.dtype == want.dtype, (got.dtype, want.dtype)
    for _ in range(3):
        with_frit()
    frit.wait_for_compiles(60)
    for _ in range(4):
        with_frit()
    turns = [(median(with_numpy, 5), median(with_frit, 5)) for _ in range(5)]
    return [statistics.median(t) for t in zip(*turns)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--size", type=int, default=30000)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--dtypes", default=",".join(DTYPES))
    p.add_argument("--only", help="operations whose text contains one of these")
    p.add_argument("--above", type=float, default=1.1, help="print those that take so many times NumPy's time")
    a = p.parse_args()
    os.environ["FRIT_NUM_THREADS"] = str(a.threads)
    import frit
    warnings.simplefilter("ignore")
    found = []
    for text, code in operations().items():
        if a.only and not any(o in text for o in a.only.split(",")):
            continue
        for dtype in a.dtypes.split(","):
            times = measure(frit, code, dtype, a.size // ROW * ROW)
            if times:
                found.append((times[1] / times[0], text, dtype, *times))
    print(f"{len(found)} operations on {a.size} elements, {a.threads} thread{'s' * (a.threads > 1)}: time over NumPy's "
          f"{statistics.median(f[0] for f in found):.2f} (median); over 1.1 in {sum(f[0] > 1.1 for f in found)}")
    for ratio, text, dtype, slow, fast in sorted(found, reverse=True):
        if ratio > a.above:
            print(f"  {ratio:6.2f}  {dtype:4}{text:28} NumPy {slow * 1e6:10.2f} us   frit {fast * 1e6:10.2f} us")


if __name__ == "__main__":
    main()
