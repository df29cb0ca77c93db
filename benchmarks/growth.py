"""Does an operation cost the same in a large computation as in a small one?  Chains, wide and mixed graphs of small
arrays, numbers that change at every step; run by the block interpreter.

    python -m benchmarks.growth                     time of an operation at each size; a plot in results/growth.svg
    python -m benchmarks.growth --count             instructions, counted by callgrind, at two sizes
    python -m benchmarks.growth --only tree,stores  some of the programs

trace: Python to nodes, and what is evaluated on the way, because a chain is cut where it is 400 nodes high.
plan: the first evaluation of a structure that has not been seen. replay: the same structure again."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

from .dispatch_callgrind import dumps, environment

# name: what it does with n operations or a few times as many. `c` is another number at each run.
PROGRAMS = {
    "chain": """
        t = x
        for i in range(n // 2):
            t = (t + y) * (c + i % 7)
        return [t]""",
    "width": """
        return [x * (c + i) for i in range(n)]""",
    "tree": """
        return pairwise([x * (c + i) for i in range(n)])""",
    "leaves": """
        return pairwise(list(vectors[:n]))""",
    "updates": """
        p = [v * 1.0 for v in vectors[:n]]
        frit.eval(p)
        return [p.pop() - y * (c + i) for i in range(n)]""",
    "views": """
        b = frit.arange(n + 8.0) * c
        return [b[i:i + 8] * 2.0 for i in range(n)]""",
    "overlapping stores": """
        z = frit.zeros(n + 4)
        for i in range(n):
            z[i:i + 4] += y[:4] * c
        return [z]""",
    "stores": """
        r = []
        for i in range(n):
            z = frit.zeros(8)
            z[2:6] = x[:4] * (c + i)
            r.append(z)
        return r""",
    "stores into copies": """
        t, r = x * c, []
        for i in range(n):
            r.append(t.copy())
            r[-1][i % 4:i % 4 + 2] = y[:2]
        return r""",
    "sums": """
        return [(x * (c + i)).sum() for i in range(n)]""",
    "sums and consumers": """
        return [x / (x * (c + i)).sum() for i in range(n)]""",
    "steps with sums": """
        t = x
        for i in range(n // 3):
            t = t - t.sum() * c
        return [t]""",
    "scans": """
        return [frit.cumsum(x * (c + i)) for i in range(n)]""",
    "products": """
        return [m @ v for v in matrices[:n]]""",
    "products and maps": """
        w = x * c
        return [(m @ v) * w for v in matrices[:n]]""",
    "chain of products": """
        t = m
        for i in range(n):
            t = t @ m
        return [t]""",
}
LONG = ("chain", "overlapping stores", "steps with sums", "chain of products")   # cut on the way, so any length
SIZES = (10, 100, 1000, 5000)
LONG_SIZES = (10, 100, 1000, 10_000, 100_000)
PHASES = ("trace", "plan", "replay")
ROUNDS = 3

SETUP = """
import gc, json, os, sys, textwrap, time
import numpy as np
import frit

def pairwise(t):
    while len(t) > 1:
        t = [a + b for a, b in zip(t[::2], t[1::2])] + ([t[-1]] if len(t) % 2 else [])
    return t

x, y, m = frit.asarray(np.arange(8.0)), frit.asarray(np.ones(8)), frit.asarray(np.eye(8))
vectors, matrices, c = [], [], 0.5
frit.eval(x, y, m)
programs, jobs = json.loads(sys.argv[1])
for name, text in programs.items():
    exec(f"def program(n):{text}", globals())
    programs[name] = program
most = max(n for _, n in jobs if n <= 10_000)
for _ in range(most + 3):
    vectors.append(frit.asarray(np.ones(8)))
    if any("product" in name for name, _ in jobs):
        matrices.append(frit.asarray(np.eye(8)))
frit.eval(vectors, matrices)
gc.disable()
"""

TIMES = SETUP + f"""
def run(f, n):
    global c
    c += 0.125
    start = time.perf_counter()
    out = f(n)
    traced = time.perf_counter()
    frit.eval(out)
    return (traced - start) / n, (time.perf_counter() - traced) / n

for name, n in jobs:
    f, times = programs[name], []
    for k in range({ROUNDS}):       # three structures, each first unseen, then known
        first = run(f, n + k)
        again = min((run(f, n + k) for _ in range(3)), key=sum)
        times.append((again[0], first[1], again[1]))
        gc.collect()
    print(json.dumps([name, n, times]), flush=True)
"""

# callgrind writes its counts down at every os.getppid().
COUNTS = SETUP + """
for name, n in jobs:
    f = programs[name]
    for k in range(2):
        c += 0.125
        os.getppid()
        out = f(n)
        os.getppid()
        frit.eval(out)
        os.getppid()
        del out
"""


def argument(names, jobs):
    return json.dumps([{name: PROGRAMS[name] for name in names}, jobs])


def measure(names=tuple(PROGRAMS)):
    """{program: {size: [seconds of an operation: trace, plan, replay]}}, each the median of three."""
    found = {name: {} for name in names}
    for name in names:
        jobs = [(name, n) for n in (LONG_SIZES if name in LONG else SIZES)]
        out = subprocess.run([sys.executable, "-W", "ignore", "-c", TIMES, argument([name], jobs)], check=True,
                             env=environment(), stdout=subprocess.PIPE, text=True).stdout
        for line in out.splitlines():
            _, n, times = json.loads(line)
            found[name][n] = [statistics.median(t) for t in zip(*times)]
    return found


def count(names, small=400, large=4000):
    """{program: {phase: (instructions of an operation at `small`, at `large`)}}; of a program of LONG, which is
    evaluated while it is traced, `plan` and `replay` hold both."""
    jobs = [(name, n) for name in names for n in (small, large)]
    counts = dumps(6 * len(jobs), COUNTS, argument(names, jobs))
    found = {}
    for i, (name, n) in enumerate(jobs):
        _, first, plan, _, trace, replay = (k / n for k in counts[6 * i:6 * i + 6])
        if name in LONG:
            phases = {"plan": first + plan, "replay": trace + replay}
        else:
            phases = {"trace": trace, "plan": plan, "replay": replay}
        for phase, k in phases.items():
            found.setdefault(name, {}).setdefault(phase, []).append(k)
    return found


def plot(found, path):
    """Time of an operation against size, both logarithmic: a row for each phase, a line for each program."""
    from math import log10
    colours = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#000000")
    width, height, left, top = 560, 200, 60, 30
    out = []

    def text(px, py, s, anchor="start", colour="#000"):
        out.append(f'<text x="{px:.0f}" y="{py:.0f}" text-anchor="{anchor}" fill="{colour}">{s}</text>')

    for row, phase in enumerate(PHASES):
        y0 = top + row * (height + 50)
        times = [t[row] for sizes in found.values() for t in sizes.values()]
        low, high = int(log10(min(times)) - 1), int(log10(max(times)))

        def at(n, t, y0=y0, low=low, high=high):
            return left + (log10(n) - 1) / 4 * width, y0 + height - (log10(t) - low) / (high - low) * height

        out.append(f'<rect x="{left}" y="{y0}" width="{width}" height="{height}" fill="none" stroke="#999"/>')
        text(left, y0 - 8, f"{phase}: seconds of an operation, against the number of operations")
        for e in range(low, high + 1):
            text(left - 5, at(10, 10.0 ** e)[1] + 4, f"1e{e}", "end")
        for e in range(1, 6):
            text(at(10 ** e, 10.0 ** low)[0], y0 + height + 15, f"{10 ** e:,}", "middle")
        for i, (name, sizes) in enumerate(found.items()):
            points = " ".join("{:.1f},{:.1f}".format(*at(n, t[row])) for n, t in sizes.items())
            dash = ' stroke-dasharray="5 3"' if i >= len(colours) else ""
            out.append(f'<polyline points="{points}" fill="none" stroke="{colours[i % len(colours)]}"{dash}/>')
            if row == 0:
                text(left + width + 12, top + 14 + 16 * i, ("- - " if dash else "") + name,
                     colour=colours[i % len(colours)])
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 180}" height="{top + 3 * (height + 50)}"'
                f' font-family="sans-serif" font-size="12" style="background:#fff">{"".join(out)}</svg>\n')


def main(names=tuple(PROGRAMS)):
    found = measure(names)
    print("nanoseconds of an operation, by the number of operations: trace, plan of an unseen structure, replay")
    for name, sizes in found.items():
        print(f"  {name:<20}" + "".join(f"{n:>8,}:{t * 1e9:6.0f} {p * 1e9:7.0f} {r * 1e9:6.0f}"
                                        for n, (t, p, r) in sizes.items()), flush=True)
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "results")
    os.makedirs(folder, exist_ok=True)
    plot(found, os.path.join(folder, "growth.svg"))


def main_count(names):
    if not shutil.which("valgrind"):
        print("instruction counts of growing work: valgrind is not installed")
        return
    print(f"{'instructions of an operation':<32}{'400':>10}{'4,000':>10}{'ratio':>8}")
    for name, phases in count(names).items():
        for phase, (small, large) in phases.items():
            print(f"  {name + ', ' + phase:<30}{small:>10.0f}{large:>10.0f}{large / small:>8.2f}", flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", action="store_true", help="instructions instead of time")
    p.add_argument("--only", default=",".join(PROGRAMS), help="programs, comma-separated")
    a = p.parse_args()
    (main_count if a.count else main)(a.only.split(","))
