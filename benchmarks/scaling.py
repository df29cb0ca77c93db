"""frit with more threads against frit with one: python -m benchmarks.scaling --threads 1,2,4,8,16

Each number of threads has a process of its own, bound to as many processors; they take turns on each row, so that a
change of the machine's mood meets all of them.  "of copy" is, on rows that memory limits, the share of what a copy of
as many bytes by as many threads reaches.  Work that is too small for more threads is to keep the time of one: the mark '
says that one thread ran it, though there were more."""
import argparse
import os
import statistics

import numpy as np

from .cases import CASES
from .table import Worker, measure, seconds
from .timing import want_frit

SLOWER = 0.95       # of the speed with fewer threads: not slower
APART = "'"         # one thread ran it


def listed(out):
    return out if isinstance(out, (tuple, list)) else [out]


def times(rows, threads, rounds, budget):
    """{name: {threads: median}}, and the (name, threads) of what several threads ran"""
    workers, found, shared = [Worker("frit", t, t) for t in threads], {}, set()
    try:
        for i, case in rows:
            results = measure(i, workers, rounds, budget)
            found[case.name] = {t: statistics.median(r["warm"]) for t, r in results.items() if "skip" not in r}
            shared |= {(case.name, t) for t, r in results.items() if r.get("shared")}
    finally:
        for w in workers:
            w.close()
    return found, shared


def shares(rows, found, threads):
    """{name: {threads: share of the copy}} of the rows that memory limits"""
    out = {case.name: {} for _, case in rows if case.memory_bound}
    for t in threads:
        copier = Worker("copy", t)
        for i, case in rows:
            if case.memory_bound and t in found[case.name]:
                inputs = case.inputs()
                n_bytes = case.n_bytes(inputs, listed(case.run(np, *inputs)))
                rate = copier.ask(copy=n_bytes, case=i).get("rate")
                if rate:
                    out[case.name][t] = n_bytes / found[case.name][t] / rate
        copier.close()
    return out


def summary(found, shared, threads):
    """A line for each number of threads above the first: how much faster, and which rows are slower."""
    for t in threads[1:]:
        times = {n: f[threads[0]] / f[t] for n, f in found.items() if threads[0] in f and t in f}
        slower = [f"{n} {s:.2f}{'' if (n, t) in shared else ' (by one)'}" for n, s in times.items() if s < SLOWER]
        print(f"{t} threads against {threads[0]}: median {statistics.median(times.values()):.2f} times as fast; slower "
              f"in {len(slower)} of {len(times)} rows{': ' * bool(slower)}{', '.join(slower)}")


def main():
    cpus = len(os.sched_getaffinity(0))
    p = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", default=",".join(str(t) for t in (1, 2, 4, 8, 16, 32, 64) if t <= cpus))
    p.add_argument("--rows", default="", help="rows whose names contain one of these, comma-separated")
    p.add_argument("--rounds", type=int, default=5, help="turns of each number of threads on each row")
    p.add_argument("--budget", type=float, default=0.04, help="seconds of a turn")
    args = p.parse_args()
    want_frit()
    threads = [int(t) for t in args.threads.split(",")]
    rows = [(i, c) for i, c in enumerate(CASES) if any(r.strip() in c.name for r in args.rows.split(","))]
    found, shared = times(rows, threads, args.rounds, args.budget)
    of_copy = shares(rows, found, threads)
    print(f"{'':<34}" + "".join(f"{f'{t} thr.':>11}" for t in threads) + "   times as fast; of copy")
    for name, f in found.items():
        one = f.get(threads[0])
        print(f"{name:<34}" + "".join(f"{seconds(f[t]) if t in f else '-':>10}{' ' if t == 1 or (name, t) in shared else APART}" for t in threads) + "   "
              + (" ".join(f"{one / f[t]:.2f}" for t in threads[1:] if t in f) if one else "")
              + ("; " + " ".join(f"{s:.0%}" for s in of_copy[name].values()) if of_copy.get(name) else ""))
    summary(found, shared, threads)


if __name__ == "__main__":
    main()
