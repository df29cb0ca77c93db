"""Public programs as their authors wrote them, fetched and run in place: what do people get who only add the decorator?

    python -m benchmarks.public                         every program, one thread
    python -m benchmarks.public --only two_layer,boids --threads 2
    python -m benchmarks.public --runs 1 --check        only whether each gives what NumPy gives

Nothing of them is in this repository. `--at` names the folder of checkouts, one for each repository, by its name alone;
a program whose checkout is not there is left out. Each is run by NumPy and by frit in processes of their own, alternately; a
program is a function that makes a step, which is called again and again, and what the steps gave, which is compared.
Steady: the median of the later steps; total: all of them from the first, with the kernel cache empty. The ratio is NumPy's
time to frit's. `=` is NumPy's bits, `~` values that are close, as where exp or a product of matrices is in it; a state that is of
other types than NumPy's is said. BLAS, where `perf` is there: the share of NumPy's steps that products of matrices take."""
import argparse
import builtins
import collections
import compileall
import contextlib
import gc
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import abc

import numpy as np

from . import learning, networks, sequences, simulations, small     # noqa: F401
from .tools import PROGRAMS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOO_LONG = 300      # seconds after which a process is ended
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}       # the thread's own time, where others use the machine too


def as_older():
    """What older Pythons and NumPys had, and seeds where a program takes them from the machine."""
    collections.Hashable, collections.Iterable, builtins.xrange = abc.Hashable, abc.Iterable, range
    np.float, np.int, np.object = float, int, object
    np.random.seed(1)
    random.seed(1)
    fresh = np.random.default_rng
    np.random.default_rng = lambda seed=None: fresh(0 if seed is None else seed)


def compared(found):
    """Arrays of numbers of what a program has, in order, and what types they were of."""
    values = list(found.values() if isinstance(found, dict) else found)
    return [np.array(v, dtype=float) for v in values], [f"{type(v).__name__}:{getattr(v, 'dtype', '')}" for v in values]


def tensors_outside():
    """How many tensors the collector knows of: none is to be left when a call is over."""
    import frit
    return sum(type(o) is frit.Tensor for o in gc.get_objects())


def run_one(name, library, at, out, clock):
    program, now = PROGRAMS[name], CLOCKS[clock]
    home = os.path.join(at, program.repository)
    sys.path[:0] = [os.path.join(home, f) for f in program.folders]
    as_older()
    took, says = [], {}
    with contextlib.redirect_stdout(io.StringIO()):
        step, state = program.make(home)
        if library == "frit":
            begin = time.perf_counter()
            import frit
            says["import"] = time.perf_counter() - begin
            step = frit.accelerate(step)
        for k in range(program.steps):
            begin = now()
            step()
            took.append(now() - begin)
            if k + 1 == program.compared:
                arrays, says["types"] = compared(state())
                np.savez(out, *arrays)
    if library == "frit":
        says["tensors"] = tensors_outside()
        stats = getattr(step, "stats", None)
        says["stats"] = str(stats).removeprefix("CallStats")
    print(json.dumps({"steady": statistics.median(took[len(took) // 2:]), "total": sum(took), **says}))


def run(name, library, a, perf=None):
    with tempfile.TemporaryDirectory() as folder:
        out, n = os.path.join(folder, "state.npz"), str(a.threads)
        command = [sys.executable, "-m", "benchmarks.public", "--one", name, "--library", library, "--at", a.at, "--out", out,
                   "--clock", a.clock]
        try:
            done = subprocess.run(
                (perf or []) + command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, timeout=TOO_LONG,
                env={**os.environ, "FRIT_CACHE_DIR": os.path.join(folder, "cache"), "OMP_NUM_THREADS": n, "FRIT_NUM_THREADS": n,
                     "OPENBLAS_NUM_THREADS": n, "PYTHONHASHSEED": "0", "NUMBA_DISABLE_JIT": "1",
                     "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])})
        except subprocess.TimeoutExpired:
            return None, f"took more than {TOO_LONG} s"
        if done.returncode:
            return None, f"{library} {done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}"
        with np.load(out) as arrays:
            return json.loads(done.stdout.strip().splitlines()[-1]), [arrays[k] for k in arrays.files]


def blas_share(name, a):
    """The share of the steps' time that NumPy spends in BLAS, by perf's samples; None where there is no perf."""
    hertz = 2000
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        try:
            told, _ = run(name, "numpy", a, ["perf", "record", "-q", "-F", str(hertz), "-e", "cpu-clock", "-o", data, "--"])
            report = subprocess.run(["perf", "report", "-i", data, "--sort", "dso", "-n", "--stdio", "-q"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        except OSError:
            return None
    if told is None:
        return None
    samples = sum(int(line.split()[1]) for line in report.splitlines() if "openblas" in line)
    return min(1.0, samples / hertz / told["total"])


def verdict(numpy, frit):
    """How frit's states compare with NumPy's: = bits, ~ close, else a word."""
    (theirs, states), (ours, found) = numpy, frit
    if len(states) != len(found) or any(x.shape != y.shape for x, y in zip(states, found)):
        return "DIFFERENT"
    if theirs["types"] != ours["types"]:
        return "TYPES " + ", ".join(f"{a}>{b}" for a, b in zip(theirs["types"], ours["types"]) if a != b)[:60]
    if ours["tensors"]:
        return f"{ours['tensors']} TENSORS"
    if all(np.array_equal(x, y, equal_nan=True) for x, y in zip(states, found)):
        return "="
    same = all(np.allclose(x, y, rtol=1e-4, atol=1e-7, equal_nan=True) for x, y in zip(states, found))
    return "~" if same else "DIFFERENT"


def measure(name, a):
    """The line of one program, and its two ratios, or None."""
    program, results = PROGRAMS[name], {"numpy": [], "frit": []}
    for _ in range(a.runs):
        for library, found in results.items():
            found.append(run(name, library, a))
            if found[-1][0] is None:
                return f"{name:24s} {found[-1][1]}", None
    (theirs, _), (ours, _) = results["numpy"][0], results["frit"][0]
    steady, total = (statistics.median(r[0][k] for r in results["numpy"]) / statistics.median(r[0][k] for r in results["frit"])
                     for k in ("steady", "total"))
    share = None if a.check else blas_share(name, a)
    blas = "" if share is None else f"{100 * share:.0f}%"
    return (f"{name:24s}{1e3 * theirs['steady']:9.2f}{1e3 * theirs['total']:9.0f}{steady:8.2f}{total:7.2f}{blas:>6s}  "
            f"{verdict(results['numpy'][0], results['frit'][0]):3s} {ours['stats']}  {program.repository}, {program.author}, "
            f"{program.licence}"), (steady, total)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--at", default=os.environ.get("FRIT_PUBLIC", "."))
    p.add_argument("--only", default="")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--check", action="store_true")
    p.add_argument("--clock", choices=CLOCKS, default="wall")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--library", default="numpy", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.at = os.path.abspath(a.at)
    if a.one:
        run_one(a.one, a.library, a.at, a.out, a.clock)
        return
    compileall.compile_dir(os.path.join(ROOT, "python", "frit"), quiet=1)      # as pip does
    names = a.only.split(",") if a.only else [n for n, q in PROGRAMS.items() if os.path.isdir(os.path.join(a.at, q.repository))]
    ratios = {}
    print(f"{'':24s}{'step ms':>9s}{'all ms':>9s}{'steady':>8s}{'total':>7s}{'BLAS':>6s}")
    for name in names:
        line, found = measure(name, a)
        print(line, flush=True)
        if found:
            ratios[name] = found
    if ratios:
        steady, total = zip(*ratios.values())
        print(f"{len(ratios)} of {len(names)} programs in {len({PROGRAMS[n].repository for n in ratios})} repositories; median "
              f"{statistics.median(steady):.2f} steady, {statistics.median(total):.2f} total; "
              f"{sum(r >= 1.3 for r in steady)} at 1.3 and more")
        print("steady below 0.97:", ", ".join(f"{n} {s:.2f}" for n, (s, _) in ratios.items() if s < 0.97) or "none")
        print("total below 0.9:", ", ".join(f"{n} {t:.2f}" for n, (_, t) in ratios.items() if t < 0.9) or "none")


if __name__ == "__main__":
    main()
