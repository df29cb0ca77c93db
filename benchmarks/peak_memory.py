"""How much memory does a computation need at most, beside its inputs?  For each workload of cases.py: the most that
NumPy has allocated while it runs (tracemalloc), the most that frit has, and what frit's plan predicted.

    python -m benchmarks.peak_memory

frit computes on tensors over the inputs' own memory. The first time it may have no plan and go node by node, which must
not take more than NumPy either; with a plan the prediction has to hold to the byte."""
import tracemalloc

import numpy as np

from .cases import CASES


def numpys(case, inputs):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    out = case.run(np, *inputs)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del out
    return peak


def ours(case, inputs):
    """(measured, predicted, measured at the first call)"""
    import frit
    tensors = [frit.asarray(x) for x in inputs]

    def peak():
        frit.reset_stats()
        before = frit.stats()["live_bytes"]
        frit.eval(case.run(frit, *tensors))
        return frit.stats()["peak_bytes"] - before

    first = peak()
    with frit.config(eager_elems=0):
        for _ in range(2):
            peak()
        return peak(), frit.stats()["peak_planned_bytes"], first


def main():
    print(f"{'peak memory':<40}{'NumPy':>12}{'frit':>12}{'predicted':>12}{'first':>12}{'ratio':>8}")
    more = wrong = 0
    for case in CASES:
        inputs = case.inputs()
        theirs, (mine, planned, first) = numpys(case, inputs), ours(case, inputs)
        more += max(mine, first) > theirs
        wrong += mine != planned
        print(f"  {case.name:<38}{theirs:>12,}{mine:>12,}{planned:>12,}{first:>12,}{mine / theirs:>8.2f}", flush=True)
    print(f"  more than NumPy in {more}, not as predicted in {wrong} of {len(CASES)}")


if __name__ == "__main__":
    main()
