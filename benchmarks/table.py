"""`make bench`: frit against NumPy, numexpr, Numba, JAX and torch, on the same machine in one run.

Each library has a process of its own per number of threads; they take turns on each case, so that
a change of the machine's mood meets all of them.  Results are checked before anything is timed; the
first call (planning, compiling) is told apart from the warm ones.  Numbers are medians, and ratios of
medians; "of copy" is the least traffic of the case over the time, as a share of the bandwidth of a
plain copy measured in the same run."""
import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

from .cases import CASES

LIBRARIES = {"numpy": "numpy", "frit": "frit", "numexpr": "numexpr", "numba": "numba", "jax": "jax",
             "torch": "torch", "torch compile": "torch"}
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Worker:
    def __init__(self, library, threads):
        self.name = library
        self.log = open(os.devnull, "w")
        self.p = subprocess.Popen([sys.executable, "-m", "benchmarks.worker", library, str(threads)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                  cwd=ROOT)

    def ask(self, **job):
        try:
            self.p.stdin.write(json.dumps(job) + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"skip": "the process died"}

    def close(self):
        try:
            self.p.stdin.close()
            self.p.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.p.kill()
        self.log.close()


def copy_bandwidth(threads):
    """Bytes per second of copying memory, read and written counted, by `threads` threads."""
    n = 16_000_000
    a = [np.ones(n, np.float32) for _ in range(threads)]
    b = [np.zeros(n, np.float32) for _ in range(threads)]
    times = []
    for _ in range(9):
        team = [threading.Thread(target=np.copyto, args=(y, x)) for x, y in zip(a, b)]
        start = time.perf_counter()
        for t in team:
            t.start()
        for t in team:
            t.join()
        times.append(time.perf_counter() - start)
    return 8 * n * threads / statistics.median(times)


def seconds(t):
    if t >= 1:
        return f"{t:.2f} s"
    if t >= 1e-3:
        return f"{t * 1e3:.2f} ms"
    return f"{t * 1e6:.1f} us"


def measure(index, case, workers, rounds, budget):
    """{library: {"warm": [...], "cold": t} or {"skip": why}}"""
    out = {w.name: w.ask(case=index, do="prepare") for w in workers}
    live = [w for w in workers if "skip" not in out[w.name]]
    inner = 200 if case.small else 1
    for w in live:
        out[w.name]["warm"] = []
    for k in range(rounds):
        for w in live[k % len(live):] + live[:k % len(live)]:
            answer = w.ask(case=index, do="time", seconds=budget, inner=inner)
            if "skip" in answer:
                out[w.name] = answer
                live.remove(w)
                break
            out[w.name]["warm"] += answer["times"]
    for w in workers:
        w.ask(case=index, do="drop")
    return out


def show(case, results, bandwidth):
    n_bytes = case.n_bytes()
    base = results["numpy"].get("warm")
    base = statistics.median(base) if base else None
    print(f"\n{case.name}")
    print(f"  {'':<14}{'warm':>10}  {'spread':>7}  {'x NumPy':>8}  {'of copy':>8}  {'first call':>11}")
    for name, r in results.items():
        if "skip" in r:
            print(f"  {name:<14}{'-':>10}  {r['skip']}")
            continue
        t = statistics.median(r["warm"])
        q = statistics.quantiles(r["warm"], n=4)
        copy = f"{n_bytes / t / bandwidth:.0%}" if not case.small else ""
        print(f"  {name:<14}{seconds(t):>10}  {(q[2] - q[0]) / t:>7.0%}  {base / t if base else 0:>8.2f}  "
              f"{copy:>8}  {seconds(r['cold']):>11}", flush=True)
    return {n: statistics.median(r["warm"]) for n, r in results.items() if "warm" in r and r["warm"]}


def main():
    p = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__)
    p.add_argument("--threads", default=None, help="comma-separated; default 1,2 as far as there are")
    p.add_argument("--only", default="", help="cases whose name contains this")
    p.add_argument("--libraries", default=",".join(LIBRARIES))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--budget", type=float, default=0.25, help="seconds per library, case and round")
    args = p.parse_args()
    cpus = len(os.sched_getaffinity(0))
    threads = [int(t) for t in args.threads.split(",")] if args.threads else [t for t in (1, 2) if t <= cpus]
    names = [n for n in args.libraries.split(",")]
    missing = [n for n in names if importlib.util.find_spec(LIBRARIES[n]) is None]
    names = [n for n in names if n not in missing]
    if "numpy" not in names:
        names.insert(0, "numpy")
    if missing:
        print("not installed:", ", ".join(missing))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True).stdout.strip()
    behind, saved = [], {"commit": commit, "threads": {}}
    for t in threads:
        bandwidth = copy_bandwidth(t)
        print(f"\n===== {t} thread{'s' if t > 1 else ''}; copy {bandwidth / 1e9:.1f} GB/s; commit {commit}")
        workers = [Worker(n, t) for n in names]
        saved["threads"][t] = {"copy": bandwidth, "cases": {}}
        try:
            for i, case in enumerate(CASES):
                if args.only not in case.name:
                    continue
                medians = show(case, measure(i, case, workers, args.rounds, args.budget), bandwidth)
                saved["threads"][t]["cases"][case.name] = medians
                mine = medians.get("frit")
                for other, m in medians.items():
                    if mine and other != "frit" and m < mine / 1.05:
                        behind.append(f"{case.name}, {t} thread(s): {mine / m:.2f} times {other}'s time")
        finally:
            for w in workers:
                w.close()
    folder = os.path.join(ROOT, "benchmarks", "results")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{commit or 'unknown'}.json"), "w") as f:
        json.dump(saved, f, indent=1)
    print("\nfrit is behind in:" if behind else "\nfrit is behind nowhere.")
    for b in behind:
        print("  " + b)
    from . import dispatch_callgrind, first_call
    print()
    first_call.main()
    dispatch_callgrind.main()


if __name__ == "__main__":
    main()
