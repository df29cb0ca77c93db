"""Does the first call wait?  40 functions of 12 operations that frit has not seen, on 200,000 elements, in
a fresh process with an empty cache: the first call's time against NumPy's steady time."""
import os
import statistics
import subprocess
import sys
import tempfile

CODE = r"""
import time, statistics, json, random
import numpy as np
import frit

def function(seed):
    '''Twelve operations in an order that no other seed has.'''
    steps = random.Random(seed).choices(range(8), k=12)
    def f(xp, x, y):
        t = x
        for k, s in enumerate(steps):
            if s == 0: t = t + y
            elif s == 1: t = t * x
            elif s == 2: t = xp.maximum(t, y)
            elif s == 3: t = t - x
            elif s == 4: t = xp.absolute(t)
            elif s == 5: t = t * 0.5 + y
            elif s == 6: t = xp.sqrt(xp.absolute(t))
            else: t = xp.minimum(t, 3.0)
        return t
    return f

rng = np.random.default_rng(0)
x, y = rng.standard_normal(200_000), rng.standard_normal(200_000)
frit.eval(frit.asarray(x[:10]) + 1)      # starts the engine: threads, memory
a, b = frit.asarray(x), frit.asarray(y)
ratios, at_once = [], 0
for seed in range(40):
    f = function(seed)
    times = []
    for _ in range(7):
        start = time.perf_counter(); want = f(np, x, y); times.append(time.perf_counter() - start)
    interpreted = frit.stats()["interpreted"]
    start = time.perf_counter()
    got = f(frit, a, b)
    frit.eval(got)
    took = time.perf_counter() - start
    assert np.array_equal(np.asarray(got), want, equal_nan=True)
    ratios.append(took / statistics.median(times))
    at_once += frit.stats()["interpreted"] - interpreted
    for _ in range(3):
        frit.eval(f(frit, a, b))
frit.wait_for_compiles(120)
s = frit.stats()
before = s["jitted"]
for seed in range(40):
    frit.eval(function(seed)(frit, a, b))
print(json.dumps([ratios, at_once, s["compiled"], frit.stats()["jitted"] - before]))
"""


def measure():
    """(ratios of first call to NumPy's steady time, first calls that ran interpreted, kernels compiled, calls
    that then ran compiled code)"""
    import json
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        env = dict(os.environ, FRIT_CACHE_DIR=cache, PYTHONPATH=os.pathsep.join(sys.path))
        out = subprocess.run([sys.executable, "-c", CODE], env=env, stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return json.loads(out)


def main():
    ratios, at_once, compiled, jitted = measure()
    print(f"first call of 40 unseen functions on 200,000 elements, against NumPy's steady time: median "
          f"{statistics.median(ratios):.2f}, worst {max(ratios):.2f}; {at_once} of 40 interpreted, "
          f"{compiled} kernels compiled, {jitted} of 40 calls then run compiled code")


if __name__ == "__main__":
    main()
