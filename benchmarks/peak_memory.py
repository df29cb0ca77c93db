"""How much memory does a computation need at most, beside its inputs?  For each workload of cases.py, and each small program of
program_list.py: the most that NumPy has allocated while it runs (tracemalloc) and would have by frit.estimate, the most that frit
has with plans and in the first call, and what frit.estimate foretold of both.

    python -m benchmarks.peak_memory
    python -m benchmarks.peak_memory --npbench FOLDER --preset S    npbench's programs, from a fetched clone
    python -m benchmarks.peak_memory --growth                       what a process grows by, in one of its own for each large case

frit computes on tensors over the inputs' own memory. The first time it may have no plan and go node by node, which must
not take more than NumPy either; with a plan the prediction has to hold to the byte."""
import argparse
import importlib
import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np

from benchmarks.cases import CASES
from benchmarks.npbench import npbench
from benchmarks.program_list import PROGRAMS

LARGE = 30_000_000      # bytes of inputs, below which a process has as much from before
CODE = """
import sys
import numpy as np
import frit
from benchmarks.cases import CASES
case = CASES[int(sys.argv[1])]
inputs = case.inputs()
fast = frit.accelerate(lambda *a: case.run(np, *a))
small = [x[:max(1, len(x) // 64)] for x in inputs]
try:
    for _ in range(3): fast(*small); frit.wait_for_compiles(20)
except Exception: pass
for x in inputs: x += 0
e = frit.estimate(lambda *a: case.run(np, *a))(*inputs)
def high():
    with open("/proc/self/status") as f: return [int(l.split()[1]) * 1024 for l in f if l.startswith("VmHWM")][0]
open("/proc/self/clear_refs", "w").write("5")
before = high()
result = fast(*inputs)
print(e.peak_bytes, high() - before)
"""


def numpys(run, inputs):
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    out = run(*inputs)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del out
    return peak


def tasks(folder, preset):
    if folder:
        for file in sorted(os.listdir(os.path.join(folder, "npbench", "bench_info"))):
            kernel, args, _ = npbench(file[:-5], preset, folder)
            yield file[:-5], kernel, args
        return
    for case in CASES:
        yield case.name, lambda *a, case=case: case.run(np, *a), list(case.inputs())
    for module in ("programs", "programs_more", "programs_third", "programs_large"):
        importlib.import_module("benchmarks." + module)
    for name, (function, make) in PROGRAMS.items():
        yield name, lambda *a, function=function: function(np, *a), make(np.random.default_rng(0))


def growth():
    print(f"{'growth of a process':44}{'predicted':>14}{'measured':>14}{'ratio':>8}")
    for i, case in enumerate(CASES):
        if sum(x.nbytes for x in case.inputs()) < LARGE:
            continue
        done = subprocess.run([sys.executable, "-c", CODE, str(i)], capture_output=True, text=True, check=True)
        predicted, measured = map(int, done.stdout.split())
        print(f"{case.name:44}{predicted:>14,}{measured:>14,}{measured / predicted if predicted else 1:>8.3f}", flush=True)


def main(arguments=()):
    from tests.estimates import compare, quietly
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--npbench")
    p.add_argument("--preset", default="S")
    p.add_argument("--growth", action="store_true")
    p.add_argument("--json")
    a = p.parse_args(arguments)
    if a.growth:
        growth()
        return
    print(f"{'peak memory':<32}{'NumPy':>12}{'by estimate':>12}{'frit':>12}{'predicted':>12}{'first':>12}{'at most':>12}{'ratio':>7}")
    found = {}
    for name, run, inputs in tasks(a.npbench and os.path.abspath(a.npbench), a.preset):
        c = compare(run, inputs)
        theirs = quietly(numpys, run, inputs)
        found[name] = c._asdict()
        how = "unsafe" if c.is_unsafe else "" if c.is_exact else "above"
        print(f"  {name:<30}{theirs:>12,}{c.numpys:>12,}{c.planned:>12,}{c.predicted:>12,}{max(c.first, c.later):>12,}{c.bound:>12,}"
              f"{c.planned / theirs if theirs else 1:>7.2f} {how}{' handed ' + str(c.handed) if c.handed else ''}", flush=True)
    n = {k: sum(f(c) for c in found.values()) for k, f in (
        ("equal", lambda c: c["predicted"] == c["planned"]), ("above", lambda c: c["predicted"] > c["planned"]),
        ("below", lambda c: c["predicted"] < c["planned"] or max(c["first"], c["later"]) > c["bound"]))}
    print(f"  of {len(found)}: {n}")
    if a.json:
        with open(a.json, "w", encoding="utf8") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
