"""What Python pays per operation, in instructions, which do not depend on the machine's mood; and that
the first call of an unseen function does not wait for the compiler, which then takes it over."""
import shutil

import numpy as np
import pytest

import frit
from benchmarks import dispatch_callgrind, first_call


@pytest.fixture(scope="module")
def ratio():
    """Instructions against NumPy's for the same statement, the loop around it included."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind is not installed")

    def of(name, n=400):
        ours, theirs = (dispatch_callgrind.per_call(name, side, n) for side in ("frit", "numpy"))
        return ours / theirs
    return of


def test_tracing_an_operation(ratio):
    """Measured 1,046 of 4,224."""
    assert ratio("trace") <= 0.25


def test_tracing_an_operation_with_a_number(ratio):
    """Measured 0.15."""
    assert ratio("number") <= 0.25


def test_chain_of_10_traced_anew_and_forced(ratio):
    """Measured 0.31 for 100 elements."""
    assert ratio("chain") <= 0.5


def test_forcing_one_operation(ratio):
    """Measured 0.9 for 100 elements."""
    assert ratio("single") <= 1


def test_showing_one_operation(ratio):
    """Measured 1.9 for 100 elements, of which NumPy takes more than half to wrap the memory."""
    assert ratio("show") <= 2.2


def test_showing_an_array_computes_what_reads_it_and_nothing_else():
    x, y = frit.asarray(np.arange(5.0)), frit.asarray(np.ones(5))
    frit.eval([x, y])
    other, shown, read = y * 3, x + 1, x * 5
    before = frit.stats()["pending_nodes"]
    np.asarray(shown)
    assert frit.stats()["pending_nodes"] == before - 1
    reader = read + read        # still pending when the memory that it reads becomes NumPy's to write
    np.asarray(read)[:] = -1
    assert np.array_equal(np.asarray(reader), [0, 10, 20, 30, 40])
    assert np.array_equal(np.asarray(other), [3] * 5)


def test_memory_whose_end_runs_python_code():
    """The code makes so many nodes that their slab moves while one of them is being freed."""
    made = []

    class Memory(bytearray):
        def __del__(self):
            made.extend(frit.asarray(np.ones(2)) for _ in range(5000))

    t = frit._core.share(np.frombuffer(Memory(800)))
    del t
    assert len(made) == 5000
    assert all(np.array_equal(np.asarray(m + 1), [2, 2]) for m in made[::500])


def test_first_call_does_not_wait():
    _, at_once, compiled, jitted = first_call.measure()
    if not compiled:
        pytest.skip("no compiler on this machine")
    assert at_once == 40        # the interpreter answered
    assert compiled >= 40
    assert jitted == 40         # and every one of them runs compiled code in the end
