"""`make bench`: frit against NumPy, numexpr, Numba, JAX and torch, on the same machine in one run.

    python -m benchmarks.table                              everything
    python -m benchmarks.table --rows softmax,gelu          rows whose names contain one of these
    python -m benchmarks.table --threads 2 --libraries frit,numba

Each library has a process of its own per number of threads, bound to as many processors; they take turns on
each row, so that a change of the machine's mood meets all of them, and each warms up again before its
turn.  The tables of different numbers of threads come one after the other; how frit does with more threads is
measured by itself, in turns.  Results are checked before anything is timed: a wrong result is no result.  The first call
(planning, compiling) is told apart from the warm ones.  Numbers are medians, and ratios of medians; "spread" is
the distance of the quartiles; "of copy" is the least traffic of the row over the time, as a share of
the bandwidth of the best copy of as many bytes (plain or non-temporal stores) measured in the same run. What stays
below that may be limited by the order in which NumPy adds, by divisions, or by reading twice: a loop in C with the same
bits (bounds.c) tells what can be had on one thread.

frit comes three times: lazily, traced anew at each call and forced by frit.eval; through frit.accelerate, from
NumPy arrays to NumPy arrays; and lazily without machine code, by the block interpreter alone."""
import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time

from .cases import CASES
from .timing import want_frit

LIBRARIES = {"numpy": "numpy", "frit": "frit", "frit accelerate": "frit", "frit interpreted": "frit", "numexpr": "numexpr", "numba": "numba",
             "jax": "jax", "torch": "torch", "torch compile": "torch"}
OURS = ("frit", "frit accelerate")
INTERPRETED = "frit interpreted"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLOSE = 1.05        # a row within so much of the best peer is not behind


class Worker:
    def __init__(self, library, threads, name=None):
        self.library, self.threads, self.name, self.p = library, threads, name or library, None
        self.start()

    def start(self):
        self.p = subprocess.Popen([sys.executable, "-m", "benchmarks.worker", self.library, str(self.threads)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, cwd=ROOT)

    def ask(self, **job):
        try:
            self.p.stdin.write(json.dumps(job) + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        self.close()
        code = self.p.returncode
        self.start()
        return {"skip": f"the process ended with {code}"}

    def close(self):
        try:
            self.p.stdin.close()
        except OSError:
            pass
        try:
            self.p.wait(10)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()
        self.p.stdout.close()


def seconds(t):
    if t >= 1:
        return f"{t:.2f} s"
    if t >= 1e-3:
        return f"{t * 1e3:.2f} ms"
    return f"{t * 1e6:.1f} us"


def measure(index, workers, rounds, budget):
    """{library: {"warm": [...], "cold": t, "bytes": n} or {"skip": why}}"""
    out = {w.name: w.ask(case=index, do="prepare") for w in workers}
    live = [w for w in workers if "skip" not in out[w.name]]
    for w in live:
        out[w.name]["warm"] = []
    for k in range(rounds):
        for w in live[k % len(live):] + live[:k % len(live)]:
            if "skip" in out[w.name]:
                continue
            answer = w.ask(case=index, do="time", seconds=budget)
            if "skip" in answer:
                out[w.name] = answer
            else:
                out[w.name]["warm"] += answer["times"]
                out[w.name]["shared"] = answer["shared"]
    for w in workers:
        w.ask(case=index, do="drop")
    return out


def show(case, results, copy):
    """Prints a row's block; {library: median}."""
    medians = {n: statistics.median(r["warm"]) for n, r in results.items() if "skip" not in r}
    n_bytes = next((r["bytes"] for r in results.values() if "bytes" in r), 0)
    base, rate = medians.get("numpy"), copy.get("rate")
    how = f", copy {rate / 1e9:.1f} GB/s, {copy['stores']} stores" if rate else ""
    how += f", C's loop {seconds(copy['loop'])}" if copy.get("loop") else ""
    print(f"\n{case.name}   ({n_bytes / 1e6:.3g} MB{how})")
    print(f"  {'':<16}{'warm':>10}  {'spread':>7}  {'x NumPy':>8}  {'of copy':>8}  {'first call':>11}")
    for name, r in results.items():
        if "skip" in r:
            print(f"  {name:<16}{'-':>10}  {r['skip']}")
            continue
        t = medians[name]
        q = statistics.quantiles(r["warm"], n=4)
        print(f"  {name:<16}{seconds(t):>10}  {(q[2] - q[0]) / t:>7.0%}  "
              f"{f'{base / t:.2f}' if base else '':>8}  {f'{n_bytes / t / rate:.0%}' if rate else '':>8}  "
              f"{seconds(r['cold']):>11}", flush=True)
    return medians


def behind_in(case, threads, medians):
    """A line for each of our ways in which a peer is ahead."""
    peers = {n: m for n, m in medians.items() if n not in OURS and n != INTERPRETED}
    if not peers:
        return []
    best = min(peers, key=peers.get)
    return [f"{case.name}, {threads} thread{'s' if threads > 1 else ''}: {name} {seconds(medians[name])}, "
            f"{best} {seconds(peers[best])} ({medians[name] / peers[best]:.2f} times)"
            for name in OURS if name in medians and medians[name] > peers[best] * CLOSE]


def show_bounds(saved):
    """What the rows that memory limits reach, alone and with more threads, compiled and interpreted."""
    names = [c.name for c in CASES if c.memory_bound]
    for t, table in saved["threads"].items():
        shares = {n: table[n]["bytes"] / table[n]["frit"] / table[n]["copy"] for n in names
                  if n in table and table[n].get("copy") and "frit" in table[n]}
        low = [f"{n} {s:.0%}" for n, s in shares.items() if s < 0.85]
        print(f"\n{t} thread{'s' * (t > 1)}: of {len(shares)} rows that memory limits, {len(shares) - len(low)} reach "
              f"85% of the copy's bandwidth" + (f"; not {', '.join(low)}" if low else ""))
        loops = {n: table[n]["loop"] / table[n]["frit"] for n, s in shares.items() if s < 0.85 and table[n].get("loop")}
        if loops:
            print("  there a loop in C with the same bits takes of frit's time "
                  + ", ".join(f"{n} {s:.0%}" for n, s in loops.items()))
        slow = [f"{n} {table[n][INTERPRETED] / table[n]['frit']:.1f}" for n in names if n in table
                and INTERPRETED in table[n] and "frit" in table[n] and table[n][INTERPRETED] > 2 * table[n]["frit"]]
        print("  the interpreter alone takes more than twice the time of machine code in"
              f" {len(slow)} of them{': ' * bool(slow)}{', '.join(slow)}")
        slow = [f"{n} {row[INTERPRETED] / row['numexpr']:.2f}" for n, row in table.items()
                if INTERPRETED in row and "numexpr" in row and row[INTERPRETED] > row["numexpr"]]
        print(f"  and is behind numexpr in {len(slow)} of all rows{': ' * bool(slow)}{', '.join(slow)}")


def arguments():
    p = argparse.ArgumentParser(prog="python -m benchmarks.table", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", default=None, help="comma-separated; default 1,2 as far as there are")
    p.add_argument("--rows", default="", help="rows whose names contain one of these, comma-separated")
    p.add_argument("--libraries", default=",".join(LIBRARIES))
    p.add_argument("--rounds", type=int, default=5, help="turns of each library on each row")
    p.add_argument("--budget", type=float, default=0.06, help="seconds of a turn")
    p.add_argument("--figure", action="store_true", help="draw docs/figures/bench.svg of some rows, too, as of all")
    p.add_argument("--list", action="store_true", help="print the rows' names, run nothing")
    return p.parse_args()


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout.strip()


def machine():
    """What the figures are of."""
    model = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), model)
    return {"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": model, "processors": len(os.sched_getaffinity(0)),
            "load": os.getloadavg()[0], "python": sys.version.split()[0]}


def versions(names):
    found = {}
    for module in {LIBRARIES[n] for n in names}:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[module] = importlib.metadata.version(module)
    return found


def main():
    args = arguments()
    rows = [(i, c) for i, c in enumerate(CASES)
            if not args.rows or any(r.strip() in c.name for r in args.rows.split(","))]
    if args.list:
        print(*(c.name for _, c in rows), sep="\n")
        return 0
    want_frit()
    if not rows:
        print("no row has such a name; --list prints them")
        return 1
    cpus = len(os.sched_getaffinity(0))
    threads = [int(t) for t in args.threads.split(",")] if args.threads else [t for t in (1, 2) if t <= cpus]
    names = args.libraries.split(",")
    missing = [n for n in names if importlib.util.find_spec(LIBRARIES[n]) is None]
    names = [n for n in names if n not in missing]
    if "numpy" not in names:
        names.insert(0, "numpy")
    of = commit()
    begun, behind, saved = time.monotonic(), [], {"commit": of, **machine(), "libraries": versions(names), "threads": {}}
    for t in threads:
        print(f"\n===== {t} thread{'s' if t > 1 else ''}, commit {of}")
        if missing:
            print("not installed:", ", ".join(missing))
        table = saved["threads"][t] = {}
        workers, copier = [Worker(n, t) for n in names], Worker("copy", t)
        try:
            for i, case in rows:
                results = measure(i, workers, args.rounds, args.budget)
                n_bytes = next((r["bytes"] for r in results.values() if "bytes" in r), 0)
                copy = copier.ask(copy=n_bytes, case=i)
                medians = show(case, results, copy)
                table[case.name] = {"copy": copy.get("rate"), "loop": copy.get("loop"), "bytes": n_bytes, **medians,
                                    "first": {n: r["cold"] for n, r in results.items() if "cold" in r}}
                behind += behind_in(case, t, medians)
        finally:
            for w in (*workers, copier):
                w.close()
    folder = os.path.join(ROOT, "benchmarks", "results")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{of or 'unknown'}.json")
    with open(path, "w") as f:
        json.dump(saved, f, indent=1)
    if not args.rows or args.figure:
        from . import figure
        figure.main([path])
    if not args.rows:
        from . import dispatch_callgrind, first_call, generated, growth, peak_memory, strided, warm_start
        print()
        first_call.main()
        warm_start.main()
        growth.main()
        for size in (1000, 30000):
            generated.report(1, 200, size, 1, 4)
        print()
        strided.main([])
        print()
        peak_memory.main()
        dispatch_callgrind.main()
    show_bounds(saved)
    if len(threads) > 1 and "frit" in names:
        from . import scaling
        print()
        scaling.summary(scaling.measure_rows(rows, threads, args.rounds, args.budget), threads)
    n = len(rows) * len(threads)
    print(f"\nfrit is behind the best peer in {len({b.split(': ')[0] for b in behind})} of {n} rows"
          f"{':' if behind else '.'}")
    for b in behind:
        print("  " + b)
    print(f"\n{time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
