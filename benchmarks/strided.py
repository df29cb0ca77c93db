"""What do other layouts cost?  Strided, transposed, broadcast and gathered operands, and reductions over each axis
of a 3-D array, against the same work on contiguous data: bytes moved per second, as a share of it.

    python -m benchmarks.strided [--threads 2]

A strided operand moves whole cache lines, of which it uses a part; the last column says which share of the contiguous
case's bandwidth is therefore the most that can be had."""
import argparse
import os
import statistics
import time

import numpy as np

CALLS, ROUNDS = 5, 7


def cases(n):
    """(name, names of inputs, function of (np or frit, *inputs), what it is compared with, bound)"""
    r = np.random.default_rng(0)
    a, b = (r.standard_normal((n, n)).astype("f4") for _ in range(2))
    c = r.standard_normal((n // 16, 16, n)).astype("f4")
    wide = r.standard_normal((n, 2 * n)).astype("f4")
    row, column = a[0].copy(), a[:, :1].copy()
    order = r.permutation(n)
    add = "a + b"
    return [
        (add, (a, b), lambda xp, x, y: x + y, None, 1),
        ("a.T + b", (a, b), lambda xp, x, y: x.T + y, add, 1),
        ("a.T + b.T", (a, b), lambda xp, x, y: x.T + y.T, add, 1),
        ("(a.T * 2 + b) / 3", (a, b), lambda xp, x, y: (x.T * 2 + y) / 3, add, 1),
        ("a[::-1, ::-1] + b", (a, b), lambda xp, x, y: x[::-1, ::-1] + y, add, 1),
        ("a[:, ::2] + b, of a twice as wide", (wide, b), lambda xp, x, y: x[:, ::2] + y, add, 3 / 4),
        ("a + row", (a, row), lambda xp, x, y: x + y, add, 1),
        ("a + column", (a, column), lambda xp, x, y: x + y, add, 1),
        ("a[order] + b", (a, b, order), lambda xp, x, y, i: x[i] + y, add, 3 / 5),
        ("a[1:] - a[:-1]", (a,), lambda xp, x: x[1:] - x[:-1], add, 1),
        ("c.sum(2)", (c,), lambda xp, x: x.sum(2), None, 1),
        ("c.sum(1)", (c,), lambda xp, x: x.sum(1), "c.sum(2)", 1),
        ("c.sum(0)", (c,), lambda xp, x: x.sum(0), "c.sum(2)", 1),
        ("c.max(0)", (c,), lambda xp, x: x.max(0), "c.sum(2)", 1),
        ("c.sum((0, 2))", (c,), lambda xp, x: x.sum((0, 2)), "c.sum(2)", 1),
        ("c.sum()", (c,), lambda xp, x: x.sum(), "c.sum(2)", 1),
        ("c.transpose(2, 0, 1).sum(0)", (c,), lambda xp, x: x.transpose(2, 0, 1).sum(0), "c.sum(2)", 1),
        ("(c * c).mean(1)", (c,), lambda xp, x: (x * x).mean(1), "c.sum(2)", 1),
    ]


def timed(f):
    for _ in range(3):
        f()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            f()
        times.append((time.perf_counter() - start) / CALLS)
    return statistics.median(times)


def measure(n):
    """[(name, bytes, NumPy's time, frit's time, name of the contiguous case, bound)]"""
    import frit
    found = []
    for name, inputs, f, base, bound in cases(n):
        tensors = [frit.asarray(x) for x in inputs]

        def run(f=f, tensors=tensors):
            out = f(frit, *tensors)
            frit.eval(out)
            return out
        want, got = f(np, *inputs), run()
        np.testing.assert_array_equal(np.asarray(got), want)
        for _ in range(6):
            run()
        frit.wait_for_compiles(60)
        read = sum(x.nbytes for x in inputs)
        if "wide" in name:
            read -= inputs[0].nbytes // 2
        del got
        found.append((name, read + want.nbytes, timed(lambda f=f, i=inputs: f(np, *i)), timed(run), base, bound))
    return found


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--size", type=int, default=2048)
    a = p.parse_args(arguments)
    os.environ.setdefault("FRIT_NUM_THREADS", str(a.threads))
    found = measure(a.size)
    rate = {name: n_bytes / t for name, n_bytes, _, t, _, _ in found}
    print(f"{'layouts, f32, ' + str(a.size) + ' x ' + str(a.size):<36}{'frit':>10}{'x NumPy':>9}{'GB/s':>7}"
          f"{'of contiguous':>15}{'bound':>7}")
    for name, n_bytes, theirs, ours, base, bound in found:
        share = f"{rate[name] / rate[base]:.0%}" if base else ""
        print(f"  {name:<34}{ours * 1e3:>7.2f} ms{theirs / ours:>9.2f}{rate[name] / 1e9:>7.1f}{share:>15}"
              f"{f'{bound:.0%}' if base else '':>7}", flush=True)


if __name__ == "__main__":
    main()
