"""What one process has compiled, the next one finds; kernels that wait are compiled together; sizes compile nothing."""
import pytest

from benchmarks import warm_start


def test_a_burst_of_kernels_and_a_second_process():
    with warm_start.fresh_cache() as cache:
        _, _, compiled, objects, helpers, hits = warm_start.run(warm_start.BURST, cache, FRIT_HELPERS="2")
        if not compiled:
            pytest.skip("no compiler on this machine")
        assert (compiled, helpers, hits) == (100, 2, 0)
        assert objects <= 40        # measured 15
        _, _, compiled, objects, helpers, hits = warm_start.run(warm_start.BURST, cache, FRIT_HELPERS="2")
        assert (compiled, objects, helpers, hits) == (0, 0, 0, 100)


def test_a_batch_of_another_size_compiles_nothing():
    with warm_start.fresh_cache() as cache:
        before, more = warm_start.run(warm_start.SIZES, cache)
    if not before:
        pytest.skip("no compiler on this machine")
    assert more == 0
