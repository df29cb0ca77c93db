"""What Python pays per operation, in instructions, which do not depend on the machine's mood; and that
the first call of an unseen function does not wait for the compiler."""
import shutil
import statistics

import pytest

from benchmarks import dispatch_callgrind, first_call


@pytest.fixture(scope="module")
def counts():
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")
    return {name: dispatch_callgrind.per_call(name, 500) for name in dispatch_callgrind.PROGRAMS}


def test_tracing_an_operation(counts):
    """Measured 1,360; NumPy's addition of 8 elements takes 4,220."""
    assert counts["trace frit"] <= 1450
    assert counts["trace frit"] <= 0.35 * counts["trace numpy"]


def test_chain_of_10_traced_anew_and_forced(counts):
    """Measured 16,600 for 100 elements; NumPy takes 38,500."""
    assert counts["replay frit"] <= 0.5 * counts["replay numpy"]


def test_forcing_one_operation(counts):
    assert counts["force frit"] <= 6000


def test_first_call_does_not_wait():
    ratios, compiled, jitted = first_call.measure()
    # `make bench` prints the exact figures; here a machine that does other things must pass as well.
    assert statistics.median(ratios) <= 1.5 and max(ratios) <= 6, sorted(ratios)
    if compiled:
        assert jitted >= compiled // 2
