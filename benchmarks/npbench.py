"""npbench's 54 NumPy programs and pyhpc-benchmarks' three, from fetched clones, unchanged but for the decorator.

    python -m benchmarks.npbench --at FOLDER                    presets S and M, one thread
    python -m benchmarks.npbench --only jacobi_2d,tke --presets S --runs 5

FOLDER holds the clones `npbench` and `pyhpc-benchmarks`; nothing of them is in this repository. One process for each program
and preset calls NumPy, an identity decorator and frit's in turn on copies of the same input, so that what the identity
differs from NumPy by is the noise. The result is validated as npbench does, by closeness; `=` is NumPy's bits.
Ratios are times to NumPy's: less than 1 is faster."""
import argparse
import copy
import functools
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

PYHPC = {"isoneutral": "isoneutral_mixing", "eos": "equation_of_state", "tke": "turbulent_kinetic_energy"}
SIZES = {"S": 4096, "M": 262144}        # elements in pyhpc's programs
TOO_LONG = 900
ENOUGH = 1.5        # seconds of rounds, at least three of them
CLOCKS = {"wall": time.perf_counter, "cpu": time.thread_time}       # the thread's own time, where others use the machine too


def identity(function):
    """A decorator that does nothing: its function is called through one more."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)
    return call


def npbench(name, preset, at):
    """The kernel, its input arguments and the positions of those that are results."""
    home = os.path.join(at, "npbench")
    sys.path.insert(0, home)
    with open(os.path.join(home, "bench_info", name + ".json"), encoding="utf8") as file:
        info = json.load(file)["benchmark"]
    package = "npbench.benchmarks." + info["relative_path"].replace("/", ".") + "." + info["module_name"]
    data = dict(info["parameters"][preset])
    if info.get("init"):
        make = getattr(importlib.import_module(package), info["init"]["func_name"])
        found = make(*(data[k] for k in info["init"]["input_args"]))
        names = info["init"]["output_args"]
        data.update(zip(names, found if len(names) > 1 else [found]))
    kernel = getattr(importlib.import_module(package + "_numpy"), info["func_name"])
    return kernel, [data[k] for k in info["input_args"]], info.get("norm_error", 1e-5)


def pyhpc(name, preset, at):
    sys.path.insert(0, os.path.join(at, "pyhpc-benchmarks"))
    package = importlib.import_module("benchmarks." + PYHPC[name])
    module = importlib.import_module(f"benchmarks.{PYHPC[name]}.{name}_numpy")
    return module.run, list(package.generate_inputs(SIZES[preset])), 1e-5


def arrays_of(out, args):
    """All arrays and numbers of a result and of the arguments, which may have been written."""
    if out is None:
        out = ()
    out = out if isinstance(out, (tuple, list)) else (out,)
    return [np.asarray(x) for part in (out, args) for x in part if isinstance(x, (np.ndarray, np.generic, int, float, complex))]


def verdict(want, got, norm_error):
    """npbench's rule: close by elements, or else by norm."""
    if len(want) != len(got) or any(w.shape != g.shape or w.dtype != g.dtype for w, g in zip(want, got)):
        return "INVALID"
    if all(np.array_equal(w, g, equal_nan=w.dtype.kind in "fc") for w, g in zip(want, got)):
        return "="
    for w, g in zip(want, got):
        close = np.allclose(w, g, rtol=1e-5, atol=1e-8, equal_nan=True)
        if not close and not np.linalg.norm(w - g) < norm_error * np.linalg.norm(w):
            return "INVALID"
    return "~"


def run_one(name, preset, at, now):
    kernel, args, norm_error = (pyhpc if name in PYHPC else npbench)(name, preset, at)
    import frit
    fast = frit.accelerate(kernel)
    ways = {"numpy": kernel, "identity": identity(kernel), "frit": fast}
    took, results = {w: [] for w in ways}, {}
    for w, f in ways.items():
        mine = copy.deepcopy(args)
        begin = now()
        out = f(*mine)
        took[w].append(now() - begin)
        results[w] = arrays_of(out, mine)
    first = took["frit"][0]
    frit.wait_for_compiles(60)
    begin, rounds = time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - begin < ENOUGH and rounds < 200:
        for w in (list(ways), list(ways)[::-1])[rounds % 2]:
            mine = copy.deepcopy(args)
            start = now()
            out = ways[w](*mine)
            took[w].append(now() - start)
            del out
        rounds += 1
    middle = {w: statistics.median(t[1:]) for w, t in took.items()}
    print(json.dumps({**middle, "first": first, "verdict": verdict(results["numpy"], results["frit"], norm_error),
                      "stats": str(fast.stats).removeprefix("CallStats")}))


def run(name, preset, a):
    with tempfile.TemporaryDirectory() as folder:
        n = str(a.threads)
        try:
            done = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "--one", name, "--presets", preset, "--at", a.at, "--clock", a.clock],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TOO_LONG, cwd=folder,
                env={**os.environ, "FRIT_CACHE_DIR": os.path.join(folder, "cache"), "OMP_NUM_THREADS": n, "FRIT_NUM_THREADS": n,
                     "OPENBLAS_NUM_THREADS": n})
        except subprocess.TimeoutExpired:
            return f"took more than {TOO_LONG} s"
    if done.returncode:
        return f"{done.returncode}: {(done.stderr.strip().splitlines() or ['nothing said'])[-1]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--at", default=os.environ.get("FRIT_PUBLIC", "."))
    p.add_argument("--only", default="")
    p.add_argument("--presets", default="S,M")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--runs", type=int, default=1)
    p.add_argument("--clock", choices=CLOCKS, default="wall")
    p.add_argument("--one", help=argparse.SUPPRESS)
    a = p.parse_args()
    a.at = os.path.abspath(a.at)
    if a.one:
        run_one(a.one, a.presets, a.at, CLOCKS[a.clock])
        return
    info = os.path.join(a.at, "npbench", "bench_info")
    names = a.only.split(",") if a.only else [f[:-5] for f in sorted(os.listdir(info))] + list(PYHPC)
    print(f"{'':26s}{'NumPy ms':>10s}{'identity':>9s}{'frit':>7s}{'first':>7s}")
    ratios, slower = [], []
    for preset in a.presets.split(","):
        for name in names:
            found = [run(name, preset, a) for _ in range(a.runs)]
            bad = [f for f in found if isinstance(f, str)]
            if bad:
                print(f"{name:24s} {preset} {bad[0]}", flush=True)
                continue
            ratio, noise, first = (statistics.median(f[k] / f["numpy"] for f in found) for k in ("frit", "identity", "first"))
            ratios.append(ratio)
            if ratio > 1.03 * max(1.0, noise):
                slower.append(f"{name} {preset} {ratio:.2f}")
            print(f"{name:24s} {preset}{1e3 * found[0]['numpy']:10.2f}{noise:9.2f}{ratio:7.2f}{first:7.2f} "
                  f"{found[0]['verdict']:3s}{found[0]['stats']}", flush=True)
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.3f} of {len(ratios)}; slower: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
