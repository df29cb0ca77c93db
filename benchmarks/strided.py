"""What do other layouts cost?  Strided, transposed, broadcast and gathered operands, and reductions over each axis
of a 3-D array, against the same work on contiguous data: bytes moved per second, as a share of it.

    python -m benchmarks.strided [--threads 2]

A case and its contiguous one are timed by turns. A strided operand moves whole cache lines, of which it uses a part; the
last column says which share of the contiguous case's bandwidth is therefore the most that can be had."""
import argparse
import os
import statistics
import time

import numpy as np

CALLS, ROUNDS = 5, 9


def cases(n):
    """(name, names of inputs, function of (np or frit, *inputs), what it is compared with, bound)"""
    r = np.random.default_rng(0)
    a, b = (r.standard_normal((n, n)).astype("f4") for _ in range(2))
    c = r.standard_normal((n // 16, 16, n)).astype("f4")
    wide = r.standard_normal((n, 2 * n)).astype("f4")
    row, column = a[0].copy(), a[:, :1].copy()
    order = r.permutation(n)
    add = "a + b"
    d, e = a.astype("f8"), b.astype("f8")
    m = n * 125 // 128
    odd_a, odd_b = a[:m, :m].copy(), b[:m, :m].copy()
    tall, flat = a.reshape(n * 2, n // 2), b.reshape(n // 2, n * 2)
    k = 2 ** ((n * n).bit_length() // 3)
    x, y, z = (r.standard_normal((n * n // k // k, k, k)).astype("f4") for _ in range(3))
    x201, x210, x021 = (np.ascontiguousarray(x.transpose(np.argsort(p))) for p in ((2, 0, 1), (2, 1, 0), (0, 2, 1)))
    cube = "x + y, 3-D"
    return [
        (add, (a, b), lambda xp, x, y: x + y, None, 1),
        ("(a + b).sum(1)", (a, b), lambda xp, x, y: (x + y).sum(1), add, 1),
        ("a.T + b", (a, b), lambda xp, x, y: x.T + y, add, 1),
        ("a.T + b.T", (a, b), lambda xp, x, y: x.T + y.T, add, 1),
        ("(a.T * 2 + b) / 3", (a, b), lambda xp, x, y: (x.T * 2 + y) / 3, add, 1),
        ("(a.T + b).sum(1)", (a, b), lambda xp, x, y: (x.T + y).sum(1), "(a + b).sum(1)", 1),
        ("d + e, f64", (d, e), lambda xp, x, y: x + y, add, 1),
        ("d.T + e, f64", (d, e), lambda xp, x, y: x.T + y, "d + e, f64", 1),
        (f"a + b, {m} x {m}", (odd_a, odd_b), lambda xp, x, y: x + y, add, 1),
        (f"a.T + b, {m} x {m}", (odd_a, odd_b), lambda xp, x, y: x.T + y, f"a + b, {m} x {m}", 1),
        ("tall.T + flat", (tall, flat), lambda xp, x, y: x.T + y, add, 1),
        ("tall + flat.T", (tall, flat), lambda xp, x, y: x + y.T, add, 1),
        (cube, (x, y), lambda xp, x, y: x + y, add, 1),
        ("x.transpose(2, 0, 1) + y", (x201, y), lambda xp, x, y: x.transpose(2, 0, 1) + y, cube, 1),
        ("x.transpose(2, 1, 0) + y", (x210, y), lambda xp, x, y: x.transpose(2, 1, 0) + y, cube, 1),
        ("x.transpose(0, 2, 1) + y", (x021, y), lambda xp, x, y: x.transpose(0, 2, 1) + y, cube, 1),
        ("x + y + z, 3-D", (x, y, z), lambda xp, x, y, z: x + y + z, cube, 1),
        ("y + x(2, 0, 1) + x(0, 2, 1)", (y, x201, x021),
         lambda xp, y, u, v: y + u.transpose(2, 0, 1) + v.transpose(0, 2, 1), "x + y + z, 3-D", 1),
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


def timed(*functions):
    """The median time of a call of each, by turns."""
    times = [[] for _ in functions]
    for f in functions:
        for _ in range(3):
            f()
    for _ in range(ROUNDS):
        for f, found in zip(functions, times):
            f()     # what the one before has left in the caches is not its own
            start = time.perf_counter()
            for _ in range(CALLS):
                f()
            found.append((time.perf_counter() - start) / CALLS)
    return [statistics.median(found) for found in times]


def prepared(n):
    """{name: (bytes, NumPy's way, frit's way, name of the contiguous case, bound)}, compiled and compared"""
    import frit
    ways = {}
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
        read = sum(x.nbytes for x in inputs)
        if "wide" in name:
            read -= inputs[0].nbytes // 2
        ways[name] = read + want.nbytes, (lambda f=f, i=inputs: f(np, *i)), run, base, bound
    frit.wait_for_compiles(60)
    return ways


def main(arguments=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--size", type=int, default=2048)
    a = p.parse_args(arguments)
    os.environ.setdefault("FRIT_NUM_THREADS", str(a.threads))
    ways = prepared(a.size)
    print(f"{'layouts, f32, ' + str(a.size) + ' x ' + str(a.size):<36}{'frit':>10}{'x NumPy':>9}{'GB/s':>7}"
          f"{'of contiguous':>15}{'bound':>7}")
    for name, (n_bytes, theirs, ours, base, bound) in ways.items():
        other = ways[base][2] if base else ours
        slow, fast, reference = timed(theirs, ours, other)
        share = f"{n_bytes / fast / (ways[base][0] / reference):.0%}" if base else ""
        print(f"  {name:<34}{fast * 1e3:>7.2f} ms{slow / fast:>9.2f}{n_bytes / fast / 1e9:>7.1f}{share:>15}"
              f"{f'{bound:.0%}' if base else '':>7}", flush=True)


if __name__ == "__main__":
    main()
