"""device="auto" (csrc/runtime/place.c): which groups go to a GPU, held against synthetic machines; and on the driver of tests/cuda/,
counts of what went. FRIT_TUNE says how fast the processor and the GPU are, so that no answer depends on where the tests run."""
import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from . import test_devices, test_gpu
from .common import ASSERTED, MICRO_CODE, ROOT, in_csrc, objects

# ---- the choice by itself -------------------------------------------------------------------------------------------------------

MACHINES = {  # launch_us, GB/s, Gop/s of plain, slow and costly operations, copy_us, GB/s of copies
    "processor": (1, 10, 20, 7, 2, 0, 1), "workstation": (4, 40, 300, 100, 30, 0, 1),
    "small gpu": (8, 200, 2000, 700, 200, 15, 6), "large gpu": (8, 3000, 60000, 20000, 6000, 10, 50), "far gpu": (8, 3000, 60000, 20000, 6000, 10, 0.01),
}
HOST, GPU, BOTH = 1, 2, 3


@pytest.fixture(scope="module")
def choose(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("spread") / "spread.so")
    made = objects([*in_csrc("runtime/spread.c", "backends/estimate.c", *MICRO_CODE), os.path.join(ROOT, "tests/c/test_spread.c")], *ASSERTED)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", *made, "-o", path, "-lm", "-lpthread"], check=True)
    function = ctypes.CDLL(path).spread

    def spread(machines, loads, values, reads, together=False):
        """loads: bytes, plain and costly operations, who may; values: bytes, who makes it, where it is, whether it is shown."""
        flat = [np.array(list(a), float).ravel() for a in ([MACHINES[m] for m in machines], loads, values)]
        matrix = np.zeros((len(loads), len(values)), bool)
        for load, of in enumerate(reads):
            matrix[load, of] = True
        on, us = np.full(len(loads), -1, np.int32), np.zeros(len(machines) + 1)
        p = lambda a: a.ctypes.data_as(ctypes.c_void_p)  # noqa: E731
        function(len(machines), p(flat[0]), len(loads), p(flat[1]), len(values), p(flat[2]), p(matrix), together, p(on), p(us))
        return on.tolist(), us.tolist()
    return spread


def chain(n_groups, n, costly, at=HOST, may=BOTH, shown=False):
    """Groups over n numbers of 4 bytes, each of which reads what the one before has made."""
    loads = [(8 * n, n, costly * n, may)] * n_groups
    values = [(4 * n, -1, at, 0)] + [(4 * n, k, 0, shown and k == n_groups - 1) for k in range(n_groups)]
    return loads, values, [[k] for k in range(n_groups)]


M = 1 << 20
CASES = {  # machines, groups, where they run
    "small work": (["processor", "large gpu"], chain(3, 1000, 1), [0, 0, 0]),
    "small work on what is there": (["processor", "large gpu"], chain(1, 1000, 0, GPU), [1]),
    "a cheap group on the host's array": (["processor", "small gpu"], chain(1, M, 0, shown=True), [0]),
    "a cheap group whose result stays": (["processor", "large gpu"], chain(1, 16 * M, 0), [1]),
    "a heavy group on it": (["processor", "large gpu"], chain(1, M, 20, shown=True), [1]),
    "a heavy group and many threads": (["workstation", "small gpu"], chain(1, M, 2, shown=True), [0]),
    "large work on what is there": (["processor", "small gpu"], chain(4, M, 0, GPU), [1] * 4),
    "a copy that pays for all groups alone": (["workstation", "large gpu"], chain(30, M, 0), [1] * 30),
    "over a slow line": (["processor", "far gpu"], chain(1, M, 20), [0]),
    "what may not go": (["processor", "large gpu"], chain(3, M, 20, may=HOST), [0, 0, 0]),
    "the faster of two": (["processor", "small gpu", "large gpu"], chain(2, M, 20, may=7), [2, 2]),
    "the one that has it": (["processor", "small gpu", "large gpu"], chain(1, M, 0, at=2, may=7), [1]),
}


@pytest.mark.parametrize("name", CASES)
def test_where_groups_go(choose, name):
    machines, graph, want = CASES[name]
    on, us = choose(machines, *graph)
    assert on == want, us
    assert us[-1] <= min(us[:-1]) + 1e-9


def test_a_group_in_the_middle_does_not_bounce(choose):
    """It is cheap, and would be a little sooner on the host: two copies are not worth it."""
    loads, values, reads = chain(3, M, 20)
    loads[1] = (0, 0, 0, BOTH)
    assert choose(["processor", "large gpu"], loads, values, reads)[0] == [1, 1, 1]


def test_independent_groups_share_two_devices(choose):
    """One whose array is there, one whose array is not, and what joins both by a few elements."""
    loads = [(8 * M, M, 8 * M, BOTH), (64 * M, 16 * M, 0, BOTH), (100, 10, 0, BOTH)]
    values = [(4 * M, -1, GPU, 0), (64 * M, -1, HOST, 0), (40, 0, 0, 0), (40, 1, 0, 0), (40, 2, 0, 0)]
    on, us = choose(["processor", "far gpu"], loads, values, [[0], [1], [2, 3]])
    assert on[:2] == [1, 0] and us[-1] < min(us[:-1])
    assert choose(["processor", "far gpu"], loads, values, [[0], [1], [2, 3]], together=True)[0] in ([0] * 3, [1] * 3)


def test_together_means_together(choose):
    """A graph of one part with a group that may not go stays as a whole."""
    loads, values, reads = chain(3, M, 20, GPU)
    loads[2] = (*loads[2][:3], HOST)
    assert choose(["processor", "large gpu"], loads, values, reads)[0] == [1, 1, 0]
    assert choose(["processor", "large gpu"], loads, values, reads, together=True)[0] == [0, 0, 0]


def test_an_array_is_copied_once(choose):
    loads = [(8 * M, 0, 20 * M, BOTH)] * 5
    values = [(4 * M, -1, HOST, 0)] + [(4, k, 0, 0) for k in range(5)]
    on, us = choose(["processor", "large gpu"], loads, values, [[0]] * 5)
    launch, _, _, _, costly, copy_us, copy_gbs = MACHINES["large gpu"]
    assert on == [1] * 5
    assert us[1] == pytest.approx(copy_us + 4 * M / copy_gbs / 1000 + 5 * (launch + 20 * M / costly / 1000))
