"""What is each way worth that is there for speed alone?  Every one of them is left out in turn (FRIT_OFF, csrc/base/ways.def).

    python -m benchmarks.ablate                                     small cases, and all programs
    python -m benchmarks.ablate --ways replayed,duel --only life,grey
    python -m benchmarks.ablate --cases small --call lazy

One process has all ways and one more for each lacks it. All of them take turns at each case, so that noise meets them alike,
and the medians of their turns are compared: how many times as long a call takes without the way, as the geometric mean over all
cases and for those that lose most. A way that is worth less than 1.2 everywhere may go."""
import argparse
import inspect
import math
import os
import statistics
import subprocess
import sys
import textwrap
import time

from benchmarks import programs, program_list
from benchmarks.timing import want_frit

TURN, WARM_UP = 0.01, 0.15      # seconds
WORTH = 1.2
small = {}          # as program_list.PROGRAMS


def case(make):
    def keep(f):
        small[f.__name__] = f, make
        return f
    return keep


normal = program_list.normal


@case(normal((100,), (100,), dtype="f8"))
def one_operation(xp, a, b):
    return a * b


@case(normal((100,), dtype="f8"))
def one_function(xp, a):
    return xp.maximum(a, 0.5)


@case(normal((100,), (100,), dtype="f8"))
def two_operations(xp, a, b):
    return (a + b) * a


@case(normal((100,), (100,), dtype="f8"))
def ten_operations(xp, a, b):
    return ((((a + b) * a - b) * a + b) * a - b) * a + b


@case(normal((1000,), dtype="f8"))
def mean_and_spread(xp, a):
    return a.mean(), a.std()


@case(normal((1000,), dtype="f8"))
def one_sum(xp, a):
    return a.sum()


@case(normal((100, 10)))
def small_softmax(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@case(normal((10_000,), dtype="f8"))
def divided(xp, a):
    return a / 4 + a / 3


@case(lambda r: [r.integers(0, 1000, 10_000), r.integers(0, 256, 10_000).astype("u1")])
def whole_numbers_divided(xp, a, b):
    return a // 8 + a % 16 + b / 255


@case(normal((50,), dtype="f8"))
def looks_at_a_value(xp, a):
    return a * 2 if (a * a).sum() > 1 else a


@case(normal((40, 16), (16, 40)))
def turned(xp, a, b):
    return a + b.T


@case(normal((625, 16), (16, 625)))
def turned_long(xp, a, b):
    return a + b.T


@case(normal((30, 3)))
def few_directions(xp, p):
    return p / xp.sqrt((p * p).sum(1, keepdims=True))


@case(normal((16, 5)))
def few_classes(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@case(normal((10, 3, 3)))
def few_means(xp, x):
    return (x - x.mean(2, keepdims=True)).max(2)


@case(normal((10_000, 3), (3,)))
def points(xp, p, by):
    return p * by + 1


@case(normal((16, 16), dtype="f8"))
def relaxed(xp, a):
    a = a.copy()
    for i in range(1, 15):
        for j in range(1, 15):
            a[i, j] = (a[i, j - 1] + a[i - 1, j] + a[i, j]) / 3
    return a


@case(lambda r: [r.random(500)])
def damped(xp, a):
    a = a.copy()
    for i in range(1, 500):
        a[i] = xp.exp(-a[i - 1]) + a[i]
    return a


@case(lambda r: [r.integers(0, 4, 20)])
def longest_palindrome(xp, s):
    n = s.shape[0]
    t = xp.zeros((n, n), dtype="i8")
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            t[i, j] = max(t[i, j - 1], t[i + 1, j] if i + 1 < n else 0)
            if s[i] + s[j] == 3:
                t[i, j] += 1
    return t


@case(normal((100,), dtype="f8"))
def short_steps(xp, a):
    for _ in range(20):
        a = a + (xp.roll(a, 1) - 2 * a + xp.roll(a, -1)) * 0.1
    return a


@case(normal((200, 20), dtype="f8"))
def loop_over_rows(xp, a):
    total = a[0] * 0
    for i in range(200):
        total = total + a[i] * a[i]
    return total


def cases_of(which):
    chosen = {}
    if which in ("all", "small"):
        chosen.update(small)
    if which in ("all", "programs"):
        chosen.update(programs.PROGRAMS)
    return chosen


def accelerated(run):
    """As a user has it, over the NumPy of its module."""
    import frit
    import numpy as np

    text = textwrap.dedent(inspect.getsource(run))
    names = dict(vars(inspect.getmodule(run)), xp=np)
    exec(compile(text[text.index("def "):].replace("(xp, ", "(", 1), inspect.getsourcefile(run), "exec"), names)
    return frit.accelerate(names[run.__name__])


def prepare(call, run, arrays):
    """A call without arguments, in its steady state."""
    import frit

    if call == "lazy":
        arrays = [frit.asarray(a) for a in arrays]

        def f():
            frit.eval(run(frit, *arrays))
    else:
        fast = accelerated(run)

        def f():
            return fast(*arrays)
    for _ in range(2):
        n, end = 0, time.perf_counter() + WARM_UP
        while n < 6 or (n < 400 and time.perf_counter() < end):
            f()
            n += 1
        frit.wait_for_compiles(120)
    return f


def serve(call):
    """Names of cases come in, a line for each; a turn's time per call, in seconds, goes out for each empty line after it."""
    import numpy as np

    np.seterr(all="ignore")
    known, f = cases_of("all"), None
    for line in sys.stdin:
        if line.strip():
            run, make = known[line.strip()]
            f = prepare(call, run, make(np.random.default_rng(0)))
            start = time.perf_counter()
            f()
            n = max(1, int(TURN / (time.perf_counter() - start)))
            f()
            print("ready", flush=True)
            continue
        start = time.perf_counter()
        for _ in range(n):
            f()
        print((time.perf_counter() - start) / n, flush=True)


class Worker:
    def __init__(self, off, call):
        env = {**programs.environment(1), "FRIT_OFF": off.replace("+", ",")}
        self.process = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "benchmarks.ablate", "--serve", call], env=env,
                                        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ask(self, text=""):
        print(text, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(self.process.stderr.read()[-2000:])
        return answer

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ways():
    import frit
    return next(s["allowed"] for s in frit.config.settings() if s["name"] == "off").removeprefix("some of ").split(", ")


def measure(names, off, call, rounds):
    """{way: {case: how many times as long a call takes without it}}"""
    workers = {way: Worker(way, call) for way in ("", *off)}
    found = {way: {} for way in off}
    try:
        for name in names:
            for w in workers.values():
                w.ask(name)
            times = {way: [] for way in workers}
            for _ in range(rounds):
                for way, w in workers.items():
                    times[way].append(float(w.ask()))
            medians = {way: statistics.median(t) for way, t in times.items()}
            for way in off:
                found[way][name] = medians[way] / medians[""]
    finally:
        for w in workers.values():
            w.end()
    return found


def confirm(found, call, rounds):
    """Measures again, in new processes, the cases that lost much, for chance makes some: the least that is found counts."""
    for way, ratios in found.items():
        most = [name for name, ratio in ratios.items() if ratio >= WORTH]
        for name, ratio in (measure(most, [way], call, rounds)[way] if most else {}).items():
            ratios[name] = min(ratio, ratios[name])


def report(found, title):
    print(f"{title:<22}{'mean':>6}   loses most")
    for way, ratios in found.items():
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        most = sorted(ratios, key=ratios.get, reverse=True)[:4]
        print(f"  {way:<20}{mean:>6.3f}   " + ", ".join(f"{name} {ratios[name]:.2f}" for name in most)
              + ("" if ratios[most[0]] >= WORTH else f"   below {WORTH}"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", help="names of ways; joined by +: all at once")
    parser.add_argument("--cases", default="all", choices=("all", "small", "programs"))
    parser.add_argument("--only", help="names of cases")
    parser.add_argument("--call", default="accelerate", choices=("accelerate", "lazy"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.serve)
        return
    want_frit()
    off = args.ways.split(",") if args.ways else ways()
    for kind in ("small", "programs") if args.cases == "all" else (args.cases,):
        names = [n for n in cases_of(kind) if not args.only or n in args.only.split(",")]
        if names:
            found = measure(names, off, args.call, args.rounds)
            confirm(found, args.call, 3 * args.rounds)
            report(found, f"{kind}: {len(names)} cases")


if __name__ == "__main__":
    main()
