"""What loops in C take for the rows of the table that memory is said to limit (bounds.c).

A row that stays below the bandwidth of a copy may be limited by something else: by the order in which NumPy adds, by
divisions, by reading twice what does not stay in the cache. A loop in C that does the same, with the same bits and
nothing else, tells how much of that can be had."""
import ctypes
import os
import time

import numpy as np

from .bandwidth import aligned, load
from .timing import timed


def lines(a):
    """The array, beginning with a cache line."""
    b = aligned(a.nbytes).view(a.dtype).reshape(a.shape)
    b[...] = a
    return b


def loop_of(case):
    """(the name of the loop, the arrays that it writes, those that it reads, sizes) of a case, or None."""
    inputs, s = case.inputs(), {np.float32: "f32", np.float64: "f64"}[case.dtype]
    kind = type(case).__name__
    if kind in ("MulAdd", "Ratio"):
        out = np.empty_like(inputs[0])
        return {"MulAdd": "mul_add_", "Ratio": "ratio_"}[kind] + s, [out], inputs, (case.n,)
    if kind in ("SumOfProducts", "Variance"):
        return ({"SumOfProducts": "sum_products_", "Variance": "variance_"}[kind] + s, [np.empty((), case.dtype)], inputs,
                (case.n,))
    if kind == "LayerNorm":
        return "layer_norm_f32", [np.empty_like(inputs[0])], inputs, case.n
    if kind == "Stencil":
        return "stencil_f64", [inputs[1]], inputs[:1], case.n[:1]
    if kind == "Adam":
        quarter = len(inputs) // 4
        parts = [np.concatenate([a.ravel() for a in inputs[k:k + quarter]]) for k in range(0, len(inputs), quarter)]
        return "adam_f32", [np.empty_like(parts[0]) for _ in range(3)], parts, (parts[0].size,)
    return None


def is_right(case, outs):
    want = case.run(np, *case.inputs())
    want = [w for k in range(len(outs)) for w in want[k::len(outs)]] if isinstance(want, tuple) else (want,)
    return np.array_equal(np.concatenate([a.ravel() for a in outs]), np.concatenate([np.ravel(a) for a in want]))


class Bounds:
    def __init__(self):
        self.lib = load("bounds.c", "-ffp-contract=off")

    def best(self, case):
        """Seconds that the loop takes with the better stores; None where there is none. Its bits are NumPy's, or it is
        none."""
        found = loop_of(case) if self.lib else None
        if not found:
            return None
        name, outs, ins, sizes = found
        f, outs, ins = getattr(self.lib, name), [*map(lines, outs)], [*map(lines, ins)]
        best = None
        for past in (0, 1):
            call = [ctypes.c_void_p(a.ctypes.data) for a in (*outs, *ins)] + [ctypes.c_size_t(n) for n in sizes]
            f(*call, ctypes.c_size_t(1), ctypes.c_int(past))
            if not is_right(case, outs):
                return None
            start = time.perf_counter()
            f(*call, ctypes.c_size_t(1), ctypes.c_int(past))
            repeats = max(int(2e-4 / (time.perf_counter() - start)), 1)
            took = sorted(timed(lambda: f(*call, ctypes.c_size_t(repeats), ctypes.c_int(past)), 0.1))
            took = took[len(took) // 2] / repeats
            best = took if best is None else min(best, took)
        return best


if __name__ == "__main__":
    from .cases import CASES
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    bounds = Bounds()
    for case in CASES:
        took = bounds.best(case)
        if took:
            print(f"{case.name:36} {took * 1e6:9.2f} us")
