"""Twelve ways in which people write programs, small: what does each get, and what the same arithmetic as a function?

    python -m benchmarks.patterns [--only layers,rows] [--runs 5]

Each pattern is a program in the way its name says, a step of which is decorated, and nothing else; and, where there is one,
a function of arrays that computes the same. Columns: NumPy's time to frit's, of the program and of the function, steady; the
program's with its first calls, from an empty cache; `of it`: the program's speed to the function's under frit, of which 0.8
is asked, or the program's to NumPy's where there is no such function; then the function's speed under Numba, JAX and
torch.compile over NumPy's program, where they are installed and take it. Every way runs in a process of its own."""
import argparse
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types

import numpy as np

from benchmarks.patterns import classes, loops      # noqa: F401
from benchmarks.patterns.listed import PATTERNS

STEPS = 200
JAX_SINCE = (0, 12)
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}       # the thread's own time, where others use the machine too


def with_names(function, names):
    """The function with another library under the name np."""
    return types.FunctionType(function.__code__, {**function.__globals__, "np": names}, function.__name__)


def of_function(name, step_function):
    """The function form as (step, state)."""
    _, state, function, arguments = PATTERNS[name]()
    if function is None:
        raise SystemExit("no such function")
    now, f = [np.array(a) for a in state()], step_function(function)

    def step():
        now[:] = f(*now, *arguments())
    return step, lambda: now


def ways():
    """Each way as a function of a pattern's name to (step, state)."""
    def frit_program(name):
        import frit
        step, state, *_ = PATTERNS[name]()
        return frit.accelerate(step), state

    def frit_function(name):
        import frit
        loops.normal = lambda x: 0.5 * frit.erfc(x * -math.sqrt(0.5))       # what SciPy's function can become
        return of_function(name, frit.accelerate)

    def numba(name):
        import numba
        return loops.elements_numba(numba.njit) if name == "elements" else of_function(name, numba.njit)

    def jax(name):
        os.environ["JAX_ENABLE_X64"], os.environ["JAX_PLATFORMS"] = "1", "cpu"
        import jax
        if tuple(int(n) for n in jax.__version__.split(".")[:2]) < JAX_SINCE:
            raise SystemExit(f"jax {jax.__version__} is older than {JAX_SINCE}")

        def compiled(function):
            f = jax.jit(with_names(function, jax.numpy))
            return lambda *a: jax.block_until_ready(f(*a))
        return of_function(name, compiled)

    def torch(name):
        import torch
        torch.set_num_threads(1)

        def compiled(function):
            f = torch.compile(function)
            return lambda *a: f(*a)         # (torch traces NumPy's functions itself)
        return of_function(name, compiled)
    return {"numpy": lambda name: PATTERNS[name]()[:2], "function": lambda name: of_function(name, lambda f: f),
            "frit": frit_program, "frit function": frit_function, "numba": numba, "jax": jax, "torch": torch}


def run_one(name, way, out, now):
    np.random.seed(0)
    step, state = ways()[way](name)
    took = []
    for _ in range(STEPS):
        begin = now()
        step()
        took.append(now() - begin)
        if len(took) == 6:
            np.savez(out, *[np.array(a) for a in state()])
    stats = getattr(step, "stats", None)
    print(json.dumps({"steady": statistics.median(took[STEPS // 2:]), "total": sum(took),
                      "stats": str(stats or "").removeprefix("CallStats")}))


def run(name, way, clock):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "state.npz")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.patterns", "--one", name, "--way", way, "--out", out, "--clock", clock],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "FRIT_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "FRIT_NUM_THREADS": "1",
                 "OPENBLAS_NUM_THREADS": "1"})
        if done.returncode:
            return None, (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        with np.load(out) as arrays:
            return json.loads(done.stdout.strip().splitlines()[-1]), [arrays[k] for k in arrays.files]


def same(states, found):
    if len(states) != len(found) or any(x.shape != y.shape for x, y in zip(states, found)):
        return False
    return all(np.allclose(x, y, rtol=1e-6, atol=1e-9) for x, y in zip(states, found))


def measure(name, names, runs, clock):
    """{way: (steady, total)} by medians, the errors, and what frit says."""
    found = {way: [] for way in names}
    for _ in range(runs):
        for way in names:
            if not found[way] or found[way][0][0]:
                found[way].append(run(name, way, clock))
    want, times, says = found["numpy"][0][1], {}, {}
    for way, results in found.items():
        if results[0][0] is None:
            says[way] = results[0][1]
            continue
        if not same(want, results[0][1]):
            says[way] = "DIFFERENT"
        times[way] = tuple(statistics.median(r[0][k] for r in results) for k in ("steady", "total"))
    return times, says, found["frit"][0][0] and found["frit"][0][0]["stats"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--peers", default="numba,jax,torch")
    p.add_argument("--clock", choices=CLOCKS, default="wall")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--way", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        run_one(a.one, a.way, a.out, CLOCKS[a.clock])
        return
    peers = [n for n in a.peers.split(",") if n and not missing(n)]
    print(f"{'':18s}{'NumPy ms':>9s}{'program':>9s}{'function':>9s}{'total':>7s}{'of it':>7s}"
          + "".join(f"{n:>8s}" for n in peers))
    for name in a.only.split(",") if a.only else PATTERNS:
        times, says, stats = measure(name, ["numpy", "function", "frit", "frit function", *peers], a.runs, a.clock)
        base = times["numpy"]

        def speed(way, k=0, base=base, times=times):
            return base[k] / times[way][k] if way in times else math.nan
        of_it = times["frit function"][0] / times["frit"][0] if {"frit", "frit function"} <= set(times) else speed("frit")
        print(f"{name:18s}{1e3 * base[0]:9.2f}{speed('frit'):9.2f}{speed('frit function'):9.2f}{speed('frit', 1):7.2f}"
              + f"{of_it:7.2f}" + "".join(f"{speed(n):8.2f}" for n in peers).replace("nan", "  -") + f"  {stats or ''} "
              + "; ".join(f"{w}: {t}" for w, t in says.items() if t != "no such function"), flush=True)


def missing(name):
    return importlib.util.find_spec(name) is None


if __name__ == "__main__":
    main()
