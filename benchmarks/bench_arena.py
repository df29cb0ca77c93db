"""How low can temporaries be packed?  The planner's quick placements and its search, on the hard problems of
minimalloc (tests/data/minimalloc) with much time for the search, and on plans of programs with what a plan
may spend.

    pytest benchmarks/bench_arena.py        times, with the figures beside them
    python -m benchmarks.bench_arena        the figures alone, a line each"""
import random
import tempfile
import time

import numpy as np
import pytest

from tests.packer import PROBLEM_NAMES, Packer, check, problem

MUCH = 400_000_000          # steps: some seconds
FEW = 150_000               # what a plan may spend: FR_MEMORY_PLAN_STEPS


def size_of(r):
    return r.choice([64, 4096, 100_000, 64 * r.randrange(1, 1000)])


def chain(n):
    r = random.Random(n)
    return [(i, i + 1, size_of(r)) for i in range(n)]


def wide(n):
    r = random.Random(n)
    return [(i, n + 1, size_of(r)) for i in range(n)]


def training(n):
    """What the forward pass keeps until the backward pass, and what lives shortly in both."""
    r = random.Random(n)
    steps = 2 * n // 3
    return [(a, b, size_of(r)) for i in range(n // 3)
            for a, b in ((i, steps - i), (i, i + 1), (steps - i, steps - i + 1))]


SHAPES = [(shape, n) for shape in (chain, wide, training) for n in (10, 100, 1000, 5000, 20_000)]


@pytest.fixture(scope="module")
def packer(tmp_path_factory):
    return Packer(tmp_path_factory.mktemp("packer"))


def figures(packer, intervals, wanted, max_steps):
    start = time.perf_counter()
    p = packer.pack(intervals, wanted, max_steps)
    return p, time.perf_counter() - start


@pytest.mark.parametrize("name", PROBLEM_NAMES)
def test_problem_of_minimalloc(benchmark, packer, name):
    benchmark.group = "problems of minimalloc"
    intervals, capacity = problem(name)
    p = benchmark.pedantic(packer.pack, (intervals, capacity, MUCH), rounds=3)
    check(intervals, p)
    assert p.peak <= capacity
    benchmark.extra_info.update(quick_peak=p.quick_peak, peak=p.peak, bound=p.bound, capacity=capacity,
                                steps=p.steps)


@pytest.mark.parametrize("shape,n", SHAPES, ids=[f"{s.__name__}-{n}" for s, n in SHAPES])
def test_many_temporaries(benchmark, packer, shape, n):
    benchmark.group = "many temporaries"
    intervals = shape(n)
    p = benchmark.pedantic(packer.pack, (intervals, 0, FEW), rounds=5, warmup_rounds=1)
    benchmark.extra_info.update(peak=p.peak, bound=p.bound, steps=p.steps)


def recorded_plans(n):
    """For each of n programs: temporaries' bytes in the plan over their bound, where there are any."""
    from tests.test_memory import planned, recorded
    ratios, counts = [], []
    with np.errstate(all="ignore"):
        for seed in range(n):
            _, _, temporaries, n_arrays, bound = planned(*recorded(seed))
            if bound:
                ratios.append(temporaries / bound)
                counts.append(n_arrays)
    return ratios, counts


def main():
    packer = Packer(tempfile.mkdtemp(prefix="frit-packer-"))
    print(f"{'problem':<10}{'pieces':>8}{'quick':>10}{'search':>10}{'bound':>10}{'capacity':>10}{'steps':>12}"
          f"{'time':>12}")
    for name in PROBLEM_NAMES:
        intervals, capacity = problem(name)
        p, took = figures(packer, intervals, capacity, MUCH)
        check(intervals, p)
        print(f"{name:<10}{len(intervals):>8}{p.quick_peak:>10}{p.peak:>10}{p.bound:>10}{capacity:>10}"
              f"{p.steps:>12}{took * 1e3:>9.1f} ms{'' if p.peak <= capacity else '   not packed'}")
    print(f"\n{'shape':<10}{'pieces':>8}{'quick':>16}{'search':>16}{'bound':>16}{'steps':>10}{'time':>12}")
    for shape, n in SHAPES:
        intervals = shape(n)
        p, took = min((figures(packer, intervals, 0, FEW) for _ in range(3)), key=lambda f: f[1])
        print(f"{shape.__name__:<10}{n:>8}{p.quick_peak:>16}{p.peak:>16}{p.bound:>16}{p.steps:>10}"
              f"{took * 1e3:>9.2f} ms")
    ratios, counts = recorded_plans(1000)
    print(f"\n1000 recorded programs: {len(ratios)} have temporaries, {sum(c >= 3 for c in counts)} at least 3, "
          f"at most {max(counts)}; their block is {max(ratios):.3f} of the bound at most, "
          f"{sum(r == 1 for r in ratios)} are at the bound")


if __name__ == "__main__":
    main()
