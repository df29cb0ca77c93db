"""What the pytest-benchmark files share: check the result, tell cold from warm, then time.

    pytest benchmarks/                      everything
    pytest benchmarks/bench_softmax.py      one question"""
import subprocess
import time

import numpy as np

import frit

COMMIT = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL, text=True).stdout.strip()


def assert_close(got, want, rtol):
    got = got if isinstance(got, (tuple, list)) else (got,)
    want = want if isinstance(want, (tuple, list)) else (want,)
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * max(float(np.abs(w).max()), 1e-30))


def time_warm(benchmark, work, cold=None, iterations=None, **info):
    """15 rounds of as many calls as can be read off the clock."""
    benchmark.extra_info.update(commit=COMMIT, **info)
    if cold is not None:
        benchmark.extra_info["cold_s"] = cold
    if iterations is None:
        start = time.perf_counter()
        work()
        iterations = max(1, min(1000, int(1e-3 / (time.perf_counter() - start))))
    benchmark.pedantic(work, rounds=15, iterations=iterations, warmup_rounds=2)


def run_case(benchmark, case, library):
    """Times a case of cases.py with NumPy or frit; the group puts the two side by side."""
    benchmark.group = case.name
    inputs = case.inputs()
    want = case.run(np, *inputs)
    if library == "numpy":
        time_warm(benchmark, lambda: case.run(np, *inputs))
        return
    tensors = [frit.asarray(a) for a in inputs]
    frit.eval(*tensors)

    def work():
        out = case.run(frit, *tensors)
        frit.eval(out)
        return out

    start = time.perf_counter()
    got = work()
    cold = time.perf_counter() - start
    assert_close(got, want, case.rtol[case.dtype])
    work(), work()
    frit.wait_for_compiles(60)
    before = frit.stats()["kernels"]
    work()
    kernels = frit.stats()["kernels"] - before
    time_warm(benchmark, work, cold, kernels=kernels)


def case_named(*texts):
    """The cases whose names contain one of these; a question about nothing would pass unseen."""
    from .cases import CASES
    found = [c for c in CASES if any(t in c.name for t in texts)]
    assert found, texts
    return found
