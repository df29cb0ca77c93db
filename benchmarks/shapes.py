"""Is any operation slower than with another library, on arrays of any shape and dtype?

    python -m benchmarks.shapes                           2,180 combinations of an operation, a shape and a dtype; minutes
    python -m benchmarks.shapes --only "argmax,flip" --show 40

Short rows, small matrices, few long rows, cubes; what computes, what moves and what reduces. NumPy, frit (lazily, forced
by frit.eval) and JAX (by jit) each in a process of its own, on one processor, by turns; medians in microseconds, results
checked."""
import argparse
import json
import statistics
import subprocess
import sys
import time

from benchmarks.programs import environment, pinning
from benchmarks.timing import want_frit

LIBRARIES = ("numpy", "frit", "jax")
BEHIND = 1.15
TURNS = 4
SHAPES = [(30000, 3, 3), (60000, 4), (20000, 2, 2, 2), (3, 90000), (3, 3, 20000), (4000, 8, 8), (64, 64, 64), (500, 500),
          (300, 1000), (1000, 300), (100, 10, 10, 20), (200000,), (50000, 2), (10, 200, 100), (2, 3, 4, 5000), (60, 50)]
DTYPES = ("f4", "f8", "i4", "u1")
OPERATIONS = {      # of two arrays, and how many axes they have at least
    "a + b": (1, lambda np, a, b: a + b),
    "a * 2 - b": (1, lambda np, a, b: a * 2 - b),
    "clip": (1, lambda np, a, b: np.clip(a, 1, 50) + b),
    "a == b": (1, lambda np, a, b: a == b),
    "where": (1, lambda np, a, b: np.where(a > b[..., :1], a, b)),
    "as f4": (1, lambda np, a, b: a.astype("f4") * 2),
    "sum of products": (1, lambda np, a, b: (a * b).sum()),
    "mean": (1, lambda np, a, b: a.mean()),
    "std": (1, lambda np, a, b: a.std()),
    "roll": (1, lambda np, a, b: np.roll(a, 1, 0) - a),
    "repeat": (1, lambda np, a, b: np.repeat(a, 2, 0)),
    "repeat -1": (1, lambda np, a, b: np.repeat(a, 2, -1)),
    "every other": (1, lambda np, a, b: a[..., ::2] + b[..., ::2]),
    "flip": (1, lambda np, a, b: a[..., ::-1] + b),
    "differences": (1, lambda np, a, b: a[..., 1:] + a[..., :-1]),
    "concatenate": (1, lambda np, a, b: np.concatenate([a, b + b], -1)),
    "cumsum": (1, lambda np, a, b: np.cumsum(a, -1)),
    "argmax": (1, lambda np, a, b: a.argmax(-1)),
    "max": (1, lambda np, a, b: a.max(-1)),
    "transposed": (2, lambda np, a, b: a.T + b.T * 2),
    "swapped": (2, lambda np, a, b: np.swapaxes(a, -1, -2) * 2),
    "a row": (2, lambda np, a, b: a * b[0]),
    "a column": (2, lambda np, a, b: a * b[..., :1] + 1),
    "columns": (2, lambda np, a, b: a[..., 0] * b[..., -1] + a[..., -1] * b[..., 0]),
    "rows of products": (2, lambda np, a, b: (a * b).sum(-1)),
    "less the mean": (2, lambda np, a, b: a - a.mean(0)),
    "softmax": (2, lambda np, a, b: np.exp(a - a.max(-1, keepdims=True)) / a.sum(-1, keepdims=True)),
    "stack": (2, lambda np, a, b: np.stack([a[..., 0], b[..., 0] + 1], -1)),
    "cumsum 0": (2, lambda np, a, b: np.cumsum(a, 0)),
    "argmax 0": (2, lambda np, a, b: a.argmax(0)),
    "sum 0": (2, lambda np, a, b: a.sum(0)),
    "mean 1": (2, lambda np, a, b: a.mean(1)),
    "differences 0": (2, lambda np, a, b: a[1:] + a[:-1]),
    "moveaxis": (2, lambda np, a, b: np.moveaxis(a, 0, -1) + 1),
    "sum of two axes": (3, lambda np, a, b: (a * b).sum((-2, -1))),
    "sum of the outer": (3, lambda np, a, b: (a * b).sum((0, -1))),
}


def combinations(only):
    for shape in SHAPES:
        for dtype in DTYPES:
            for name, (ndim, f) in OPERATIONS.items():
                if len(shape) >= ndim and (not only or any(o in name for o in only)):
                    yield shape, dtype, name, f


def prepare(library, f, a, b):
    """A call without arguments."""
    import numpy as np
    if library == "numpy":
        return lambda: f(np, a, b)
    if library == "jax":
        import jax
        jitted, given = jax.jit(lambda x, y: f(jax.numpy, x, y)), [jax.numpy.asarray(x) for x in (a, b)]
        return lambda: jax.block_until_ready(jitted(*given))
    import frit
    x, y = frit.asarray(a), frit.asarray(b)

    def call():
        out = f(frit, x, y)
        frit.eval(out)
        return out
    got, want = np.asarray(call()), f(np, a, b)
    assert got.shape == want.shape and np.allclose(got, want, 1e-3, 1e-3, equal_nan=True), (f, a.shape, a.dtype)
    for _ in range(40):
        call()
    frit.wait_for_compiles(60)
    for _ in range(30):      # machine code and the interpreter take turns until one of them is chosen
        call()
    return call


def work(library, only):
    """In the library's process: each line that it is sent is answered, first with the name of a combination, then TURNS
    times with how long its calls took."""
    import numpy as np
    np.seterr(all="ignore")
    for shape, dtype, name, f in combinations(only):
        input()
        r = np.random.default_rng(0)
        call = prepare(library, f, *((r.random(shape) * 100).astype(dtype) for _ in range(2)))
        print(json.dumps(f"{name} {dtype} {shape}"), flush=True)
        for _ in range(TURNS):
            input()
            call()
            times, end = [], time.perf_counter() + 0.01
            while len(times) < 3 or (time.perf_counter() < end and len(times) < 150):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            print(json.dumps(times), flush=True)


class Worker:
    def __init__(self, library, only):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.shapes", "--work", library, "--only", only],
            env=environment(1), preexec_fn=pinning(1), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def ask(self):
        """What it answers; None where there is no such library."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        error = self.process.stderr.read()
        if "ModuleNotFoundError" in error:
            return None
        raise RuntimeError(error[-2000:])


def measure(only):
    """{library: {combination: microseconds}}: the libraries take turns at each combination."""
    workers = {k: Worker(k, only) for k in LIBRARIES}
    results = {k: {} for k in LIBRARIES}
    for _ in combinations([o for o in only.split(",") if o]):
        for k in list(workers):
            if (name := workers[k].ask()) is None:
                del workers[k], results[k]
        times = {k: [] for k in workers}
        for _ in range(TURNS):
            for k, w in workers.items():
                times[k] += w.ask()
        for k in workers:
            results[k][name] = statistics.median(times[k]) * 1e6
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="parts of names of operations")
    parser.add_argument("--show", type=int, default=60, help="list so many")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, [o for o in args.only.split(",") if o])
        return
    want_frit()
    results = measure(args.only)
    ours = results.pop("frit")
    over = {k: v / min(r[k] for r in results.values()) for k, v in ours.items()}
    behind = sorted((k for k in over if over[k] > BEHIND), key=over.get, reverse=True)
    print(f"{'us':<40}{'frit':>10}" + "".join(f"{k:>10}" for k in results))
    for k in behind[:args.show]:
        print(f"{k:<40}{ours[k]:>10.1f}" + "".join(f"{r[k]:>10.1f}" for r in results.values()) + f"   {over[k]:.2f}")
    slower = sum(v > BEHIND * results["numpy"][k] for k, v in ours.items())
    print(f"\nfrit takes more than {BEHIND} times the best of the others in {len(behind)} of {len(ours)}, "
          f"{BEHIND} times NumPy's in {slower}")


if __name__ == "__main__":
    main()
