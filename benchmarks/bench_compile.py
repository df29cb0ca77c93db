"""Does the first call wait for the compiler, and are the kernels taken over when they are there?"""
import statistics

from . import first_call


def test_first_call_of_unseen_functions(benchmark):
    ratios, compiled, jitted = benchmark.pedantic(first_call.measure, rounds=1)
    benchmark.extra_info.update(median=statistics.median(ratios), worst=max(ratios), compiled=compiled,
                                jitted=jitted)
    print(f"\nmedian {statistics.median(ratios):.2f}, worst {max(ratios):.2f}, compiled {compiled}, "
          f"jitted {jitted}")
