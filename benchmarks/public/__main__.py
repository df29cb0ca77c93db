"""Public programs as their authors wrote them, fetched and run in place: what do people get who only add the decorator?

    python -m benchmarks.public                         every program, one thread
    python -m benchmarks.public --only two_layer,boids --threads 2
    python -m benchmarks.public --runs 1 --check        only whether each gives what NumPy gives

Nothing of them is in this repository. `--at` names the folder of checkouts, one for each repository, by its name alone;
a program whose checkout is not there is left out. Each is run by NumPy and by frit in processes of their own, which take turns
step by step, one standing still while the other goes: what else the machine does meets both. A program is a function that makes
a step, which is called again and again, and what the steps gave, which is compared. The ratio is NumPy's time to frit's:
steady, the median over the later steps; total, all of them from the first, with the kernel cache empty. `=` is NumPy's bits, `~` values that are close, as where exp or a product of matrices is in it; a state that is of
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
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
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
    """Makes a step each time a line comes in, and writes how long it took; at the end, what is to be said."""
    program, now = PROGRAMS[name], CLOCKS[clock]
    home = os.path.join(at, program.repository)
    sys.path[:0] = [os.path.join(home, f) for f in program.folders]
    as_older()
    says, turns, told = {}, sys.stdin, sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        step, state = program.make(home)
        if library == "frit":
            begin = time.perf_counter()
            import frit
            says["import"] = time.perf_counter() - begin
            step = frit.accelerate(step)
        print("ready", file=told, flush=True)
        for k in range(program.steps):
            turns.readline()
            begin = now()
            step()
            print(now() - begin, file=told, flush=True)
            if k + 1 == program.compared:
                arrays, says["types"] = compared(state())
                np.savez(out, *arrays)
    if library == "frit":
        says["tensors"] = tensors_outside()
        says["stats"] = str(getattr(step, "stats", None)).removeprefix("CallStats")
    print(json.dumps(says), flush=True)


class Failed(Exception):
    """What a process said when it ended, or that it took too long."""


class Process:
    """A program in a process of its own, which stands still unless it is its turn: its threads, too."""

    def __init__(self, name, library, a, folder, perf=None):
        self.library, self.out, n = library, os.path.join(folder, f"{library}.npz"), str(a.threads)
        home = os.path.join(folder, library)        # (programs write files)
        os.mkdir(home)
        self.errors = open(os.path.join(folder, f"{library}.errors"), "w+", encoding="utf8")
        self.process = subprocess.Popen(
            (perf or []) + [sys.executable, "-m", "benchmarks.public", "--one", name, "--library", library, "--at", a.at,
                            "--out", self.out, "--clock", a.clock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, cwd=home,
            env={**os.environ, "FRIT_CACHE_DIR": os.path.join(folder, "cache"), "OMP_NUM_THREADS": n, "FRIT_NUM_THREADS": n,
                 "OPENBLAS_NUM_THREADS": n, "PYTHONHASHSEED": "0", "NUMBA_DISABLE_JIT": "1",
                 "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])})
        self.timer = threading.Timer(TOO_LONG, self.process.kill)
        self.timer.start()
        self.took = []

    def line(self):
        """The next line that it writes: the first says that it is ready."""
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.errors.seek(0)
            said = (self.errors.read().strip().splitlines() or ["nothing said"])[-1]
            raise Failed(f"took more than {TOO_LONG} s" if code == -signal.SIGKILL else f"{self.library} {code}: {said}")
        return line

    def turn(self, alone=False):
        """One step. It stands still afterwards, if it is not alone."""
        self.process.send_signal(signal.SIGCONT)
        print(file=self.process.stdin, flush=True)
        self.took.append(float(self.line()))
        if not alone:
            self.process.send_signal(signal.SIGSTOP)

    def end(self):
        """What it says at the end, with the arrays that are compared."""
        self.process.send_signal(signal.SIGCONT)
        says = json.loads(self.line())
        self.process.wait()
        with np.load(self.out) as arrays:
            return says, [arrays[k] for k in arrays.files]

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()
        self.errors.close()


def blas_share(name, a):
    """The share of the steps' time that NumPy spends in BLAS, by perf's samples; None where there is no perf."""
    hertz = 2000
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        try:
            with Process(name, "numpy", a, folder, ["perf", "record", "-q", "-F", str(hertz), "-e", "cpu-clock", "-o", data, "--"]) as one:
                one.line()
                for _ in range(PROGRAMS[name].steps):
                    one.turn(alone=True)
                one.end()
            report = subprocess.run(["perf", "report", "-i", data, "--sort", "dso", "-n", "--stdio", "-q"],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        except (OSError, Failed):
            return None
    samples = sum(int(line.split()[1]) for line in report.splitlines() if "openblas" in line)
    return min(1.0, samples / hertz / sum(one.took))


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


def run(name, a):
    """One run of a program: steps of NumPy's and of frit's in turn, and what they say at the end, with the arrays."""
    with tempfile.TemporaryDirectory() as folder, Process(name, "numpy", a, folder) as numpy, Process(name, "frit", a, folder) as frit:
        for one in numpy, frit:
            one.line()
        for k in range(PROGRAMS[name].steps):
            for one in (numpy, frit) if k % 2 else (frit, numpy):
                one.turn()
        return numpy.took, frit.took, numpy.end(), frit.end()


def measure(name, a):
    """The line of one program, and its two ratios, or None."""
    program = PROGRAMS[name]
    try:
        runs = [run(name, a) for _ in range(a.runs)]
    except Failed as failed:
        return f"{name:24s} {failed}", None
    later = program.steps // 2
    steady = statistics.median(n / f for numpy, frit, *_ in runs for n, f in zip(numpy[later:], frit[later:]))
    total = statistics.median(sum(numpy) / sum(frit) for numpy, frit, *_ in runs)
    numpy, _, theirs, ours = runs[0]
    share = None if a.check else blas_share(name, a)
    blas = "" if share is None else f"{100 * share:.0f}%"
    step, said = 1e3 * statistics.median(numpy[later:]), verdict(theirs, ours)
    return (f"{name:24s}{step:9.2f}{1e3 * sum(numpy):9.0f}{steady:8.2f}{total:7.2f}{blas:>6s}  "
            f"{said:3s} {ours[0]['stats']}  {program.repository}, {program.author}, {program.licence}"), {
                "repository": program.repository, "author": program.author, "step_ms": step, "steady": steady, "total": total, "bits": said}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--at", default=os.environ.get("FRIT_PUBLIC", "."))
    p.add_argument("--only", default="")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--check", action="store_true")
    p.add_argument("--clock", choices=CLOCKS, default="wall")
    p.add_argument("--json", metavar="FILE", help="write the figures, for `python -m benchmarks.figure --programs FILE`")
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
    if a.json:
        from benchmarks.table import commit, machine
        with open(a.json, "w", encoding="utf8") as file:
            json.dump({"commit": commit(), **machine(), "threads": a.threads, "clock": a.clock, "programs": ratios}, file, indent=1)
    ratios = {name: (r["steady"], r["total"]) for name, r in ratios.items()}
    if ratios:
        steady, total = zip(*ratios.values())
        print(f"{len(ratios)} of {len(names)} programs in {len({PROGRAMS[n].repository for n in ratios})} repositories; median "
              f"{statistics.median(steady):.2f} steady, {statistics.median(total):.2f} total; "
              f"{sum(r >= 1.3 for r in steady)} at 1.3 and more")
        print("steady below 0.97:", ", ".join(f"{n} {s:.2f}" for n, (s, _) in ratios.items() if s < 0.97) or "none")
        print("total below 0.9:", ", ".join(f"{n} {t:.2f}" for n, (_, t) in ratios.items() if t < 0.9) or "none")


if __name__ == "__main__":
    main()
