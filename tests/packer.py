"""The planner of temporaries (csrc/passes/memory.h) alone: compiled here and called through ctypes."""
import ctypes as C
import os
import pathlib
import shlex
import subprocess
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROBLEMS = ROOT / "tests/data/minimalloc"       # https://github.com/google/minimalloc, Apache-2.0


class Interval(C.Structure):
    _fields_ = [("first", C.c_int32), ("last", C.c_int32), ("n_bytes", C.c_int64), ("offset", C.c_int64)]


class Result(C.Structure):
    _fields_ = [(n, C.c_int64) for n in ("peak", "bound", "quick_peak", "steps")]


class Packing(NamedTuple):
    offsets: list
    peak: int
    bound: int
    quick_peak: int
    steps: int


class Packer:
    def __init__(self, folder):
        sources = [ROOT / "csrc/passes/memory.c", ROOT / "csrc/passes/memory_search.c",
                   *(ROOT / "csrc/base").glob("*.c")]
        out = os.path.join(folder, "packer.so")
        subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-D_GNU_SOURCE", "-O2",
                        "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-DFR_DEBUG", "-fPIC", "-shared",
                        f"-I{ROOT / 'csrc'}", "-o", out, *map(str, sources), "-lpthread"], check=True)
        self.lib = C.CDLL(out)
        self.lib.fr_alloc_live.restype = self.lib.fr_alloc_count.restype = C.c_long

    def pack(self, intervals, wanted=0, max_steps=0):
        """Places (first step, last step, bytes); None when memory is out."""
        v = (Interval * max(len(intervals), 1))(*((a, b, n, -1) for a, b, n in intervals))
        r = Result()
        if self.lib.fr_memory_pack(v, len(intervals), C.c_int64(wanted), C.c_int64(max_steps), C.byref(r), None):
            return None
        return Packing([v[i].offset for i in range(len(intervals))], r.peak, r.bound, r.quick_peak, r.steps)


def problem(name):
    """A minimalloc problem as (first step, last step, bytes), and the height that it is known to fit in.
    Their `upper` is the first step at which the memory is free again."""
    path, = PROBLEMS.glob(f"{name}.*.csv")
    rows = [line.split(",") for line in path.read_text().split()[1:]]
    return [(int(lower), int(upper) - 1, int(size)) for _, lower, upper, size in rows], int(path.name.split(".")[1])


PROBLEM_NAMES = sorted(p.name.split(".")[0] for p in PROBLEMS.glob("*.csv"))


def padded(n):
    return -(-n // 64) * 64


def check(intervals, packing):
    """That no two which live at the same time share a byte, and that the figures are right."""
    assert all(at >= 0 and at % 64 == 0 for at in packing.offsets)
    placed = sorted((at, at + padded(n), a, b) for (a, b, n), at in zip(intervals, packing.offsets) if n)
    for i, (low, top, a, b) in enumerate(placed):
        for low2, _, c, d in placed[i + 1:]:
            if low2 >= top:
                break
            assert b < c or d < a, (packing, intervals)
    assert packing.peak == max((top for _, top, _, _ in placed), default=0)
    alive = [sum(padded(n) for a, b, n in intervals if a <= s <= b) for s in {a for a, _, _ in intervals}]
    assert packing.bound == max(alive, default=0)
    assert packing.bound <= packing.peak <= packing.quick_peak
