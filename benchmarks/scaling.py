"""frit with more threads against frit with one: python -m benchmarks.scaling --threads 1,2,4,8,16

Each number of threads has a process of its own, bound to as many processors; they take turns on each row, so that a
change of the machine's mood meets all of them.  "of copy" is, on rows that memory limits, the share of what a copy of
as many bytes by as many threads reaches.  Work that is too small for more threads is to keep the time of one: the mark '
says that one thread ran it, though there were more."""
import argparse
import os
import statistics

from .cases import CASES
from .table import Worker, measure, seconds
from .timing import want_frit

SLOWER = 0.95       # of the speed with fewer threads: not slower
APART = "'"         # one thread ran it


def measure_rows(rows, threads, rounds, budget):
    """{name: {threads: what measure() gives}}"""
    workers = [Worker("frit", t, t) for t in threads]
    try:
        found = {case.name: measure(i, workers, rounds, budget) for i, case in rows}
    finally:
        for w in workers:
            w.close()
    return {n: {t: {**r, "median": statistics.median(r["warm"])} for t, r in results.items() if "skip" not in r}
            for n, results in found.items()}


def shares(rows, found, threads):
    """{name: {threads: share of the copy}} of the rows that memory limits"""
    out = {case.name: {} for _, case in rows if case.memory_bound}
    for t in threads:
        copier = Worker("copy", t)
        for i, case in rows:
            r = found[case.name].get(t)
            if case.memory_bound and r:
                rate = copier.ask(copy=r["bytes"], case=i).get("rate")
                if rate:
                    out[case.name][t] = r["bytes"] / r["median"] / rate
        copier.close()
    return out


def gains(results, threads):
    """{threads: how many times as fast as with the first number of them}"""
    one = results.get(threads[0])
    return {t: one["median"] / results[t]["median"] for t in threads[1:] if one and t in results}


def summary(found, threads):
    """A line for each number of threads above the first: how much faster, and which rows are slower."""
    for t in threads[1:]:
        times = {n: gains(r, threads)[t] for n, r in found.items() if t in gains(r, threads)}
        slower = [f"{n} {s:.2f}{'' if found[n][t]['shared'] else ' (by one)'}" for n, s in times.items() if s < SLOWER]
        print(f"{t} threads against {threads[0]}: median {statistics.median(times.values()):.2f} times as fast; slower "
              f"in {len(slower)} of {len(times)} rows{': ' * bool(slower)}{', '.join(slower)}")


def show(name, results, threads, of_copy):
    """A row's line."""
    line = f"{name:<34}"
    for t in threads:
        r = results.get(t)
        line += f"{seconds(r['median']) if r else '-':>10}{APART if r and t > 1 and not r['shared'] else ' '}"
    line += "   " + " ".join(f"{s:.2f}" for s in gains(results, threads).values())
    print(line + "; " * bool(of_copy) + " ".join(f"{s:.0%}" for s in of_copy.values()))


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
    found = measure_rows(rows, threads, args.rounds, args.budget)
    of_copy = shares(rows, found, threads)
    print(f"{'':<34}" + "".join(f"{f'{t} thr.':>10} " for t in threads) + "   times as fast; of copy")
    for name, results in found.items():
        show(name, results, threads, of_copy.get(name, {}))
    summary(found, threads)


if __name__ == "__main__":
    main()
