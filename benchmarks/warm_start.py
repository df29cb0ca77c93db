"""Does a second process start warm?  How long does a burst of new kernels take?  Does a changing batch compile?

    python -m benchmarks.warm_start

Processes that only interpret, that fill an empty cache and that find it filled take turns on 20 functions of 12
operations on 100,000 elements: the time of the first call, and the call from which machine code runs. Then 100
different kernels are wanted at once, with one helper and with two: the time until all are compiled, the processor
time of it, and the objects, for kernels that wait share one. Then a step over 1,000 batch sizes."""
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

FUNCTIONS = """
import json, random, resource, sys, time
import numpy as np
import frit

def function(seed, length):
    '''Operations in an order that no other seed has.'''
    steps = random.Random(seed).choices(range(8), k=length)
    def f(x, y):
        t = x
        for s in steps:
            if s == 0: t = t + y
            elif s == 1: t = t * x
            elif s == 2: t = frit.maximum(t, y)
            elif s == 3: t = t - x
            elif s == 4: t = abs(t)
            elif s == 5: t = t * 0.5 + y
            elif s == 6: t = frit.sqrt(abs(t))
            else: t = frit.minimum(t, 3.0)
        return t
    return f
"""

CALLS = FUNCTIONS + """
a, b = (frit.asarray(np.random.default_rng(0).standard_normal(100_000)) for _ in range(2))
frit.eval(a[:10] + 1)       # starts the engine: threads, memory
found = []
for seed in range(20):
    f, times, compiled = function(seed, 12), [], None
    before = frit.stats()["jitted"]
    while compiled is None and len(times) < int(sys.argv[1]):
        start = time.perf_counter()
        frit.eval(f(a, b))
        times.append(time.perf_counter() - start)
        if frit.stats()["jitted"] > before:
            compiled = len(times), sum(times)
    frit.wait_for_compiles(60)
    found.append((times[0], compiled))
s = frit.stats()
print(json.dumps([found, s["compiled"], s["disk_hits"]]))
"""

BURST = FUNCTIONS + """
a, b = frit.asarray(np.ones(64)), frit.asarray(np.full(64, 2.0))
frit.eval(a, b)
functions = [function(seed, 8 + seed % 9) for seed in range(100)]
start = time.perf_counter()
for f in functions:
    for _ in range(40):
        frit.eval(f(a, b))
frit.wait_for_compiles(300)
took, own, s = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF), frit.stats()
print(json.dumps([took, own.ru_utime + own.ru_stime, s["compiled"], s["objects"], s["helpers_started"], s["disk_hits"]]))
"""

SIZES = FUNCTIONS + """
def step(n, lr):
    x = frit.asarray(np.ones((n, 20), "f4"))
    y = (x * lr + 1) / (1.0 + lr)
    frit.eval(y - y.max(axis=1, keepdims=True), y.sum(axis=0))

def kernels():
    frit.wait_for_compiles(60)
    s = frit.stats()
    return s["compiled"] + s["disk_hits"]

for _ in range(3):
    for n in range(2, 60):
        step(n, 0.5)
    before = kernels()
for n in range(1000):
    step(n + 2, 0.01 * n)
print(json.dumps([before, kernels() - before]))
"""


def run(code, cache, *args, **settings):
    # What is compiled are the kernels of plans: they are made at once.
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), FRIT_CACHE_DIR=cache, FRIT_EAGER_ELEMS="0", **settings)
    return json.loads(subprocess.run([sys.executable, "-W", "ignore", "-c", code, *map(str, args)], env=env,
                                     stdout=subprocess.PIPE, text=True, check=True).stdout)


def fresh_cache():
    return tempfile.TemporaryDirectory(prefix="frit-cache-")     # made for its owner only


def first_calls(rounds=3):
    """{process: [first calls, calls until compiled, seconds until compiled, kernels compiled, found on disk]}"""
    found = {name: [[], [], [], 0, 0] for name in ("interpreter", "empty cache", "filled cache")}
    for _ in range(rounds):
        with fresh_cache() as cache:
            for name, f in found.items():
                how = {"FRIT_JIT": "interpret"} if name == "interpreter" else {}
                calls, f[3], f[4] = run(CALLS, cache, 3 if how else 5000, **how)
                f[0] += [first for first, _ in calls]
                f[1] += [c[0] for _, c in calls if c]
                f[2] += [c[1] for _, c in calls if c]
    return found


def burst(helpers):
    """(seconds until 100 kernels are compiled, processor seconds of helpers, compiled, objects, helpers started)"""
    def used():
        r = resource.getrusage(resource.RUSAGE_CHILDREN)
        return r.ru_utime + r.ru_stime

    start = used()
    with fresh_cache() as cache:
        took, own, compiled, objects, started, _ = run(BURST, cache, FRIT_HELPERS=str(helpers))
    return took, used() - start - own, compiled, objects, started


def main():
    print("20 functions on 100,000 elements: median of the first call; the call from which machine code runs")
    for name, (first, calls, seconds, compiled, hits) in first_calls().items():
        later = (f"; machine code from call {statistics.median(calls):.0f} on, after "
                 f"{statistics.median(seconds) * 1e3:.1f} ms" if calls else "")
        print(f"  {name:<14}{statistics.median(first) * 1e3:7.2f} ms, worst {max(first) * 1e3:.2f}{later}; "
              f"{compiled} compiled, {hits} found on disk", flush=True)
    for helpers in (1, 2):
        took, used, compiled, objects, started = burst(helpers)
        print(f"burst of 100 kernels, {started} of {helpers} helpers: {took:.2f} s, {used / max(compiled, 1) * 1e3:.0f} "
              f"ms of processor time each; {compiled} compiled in {objects} objects", flush=True)
    with fresh_cache() as cache:
        before, more = run(SIZES, cache)
    print(f"1,000 batch sizes: {more} kernels more than the {before} of the first sizes")


if __name__ == "__main__":
    main()
