"""What does Python pay per operation: to trace one, to force one, to replay a small plan?"""
import numpy as np
import pytest

import frit

from .common import time_warm

N = 100


def arrays(library, n):
    x, y = np.linspace(0, 1, n), np.linspace(1, 2, n)
    return (x, y) if library == "numpy" else (frit.asarray(x), frit.asarray(y))


@pytest.mark.parametrize("library", ["numpy", "frit"])
def test_trace_one_operation_on_8_elements(benchmark, library):
    benchmark.group = "one operation on 8 elements, 100 times, not forced"
    x, y = arrays(library, 8)

    def work():
        for _ in range(N):
            x + y
    time_warm(benchmark, work, iterations=20)


@pytest.mark.parametrize("library", ["numpy", "frit"])
def test_chain_of_10_on_100_elements_traced_and_forced(benchmark, library):
    benchmark.group = "10 operations on 100 elements, traced anew and forced"
    x, y = arrays(library, 100)
    force = frit.eval if library == "frit" else (lambda t: t)

    def work():
        force((((((x + y) * x - y) * x + y) * x - y) * x + y) * x)
    work()
    time_warm(benchmark, work, iterations=500)


def test_force_one_operation(benchmark):
    benchmark.group = "one operation on 100 elements, forced"
    x, _ = arrays("frit", 100)

    def work():
        frit.eval(x + 1.0)
    time_warm(benchmark, work, iterations=500)


def test_accelerated_call_that_does_nothing(benchmark):
    benchmark.group = "an accelerated function that returns its argument"
    f = frit.accelerate(lambda x: x)
    x = np.ones(8)
    time_warm(benchmark, lambda: f(x), iterations=500)
