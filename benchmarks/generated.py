"""Is anything slower than NumPy?  Functions that nobody wrote by hand, from the very first call on.

    python -m benchmarks.generated                          200 functions, 1,000 and 30,000 elements
    python -m benchmarks.generated --seed 7 --count 50 --size 1000 --show 20

A generator draws functions of nine kinds: maps, reductions, stencils, broadcasts, mixed dtypes, strided and
transposed operands, half precision, integers and complex numbers.  NumPy, frit (lazily, forced by frit.eval) and
frit.accelerate each have a fresh process with an empty cache and take turns on each function: its first call, each of
the next calls, and the steady state after whatever the calls set going in the background has come to rest.  A first
call cannot be repeated, so the whole is: medians are taken over rounds of new processes.  A second NumPy beside the
first shows how far such numbers are to be trusted.  As the inputs are made by NumPy, its first call finds memory that has
just been in use and is in the caches; so frit has computed with as much just before (warm with warm)."""
import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.timing import want_frit

KINDS = "map reduction stencil broadcast mixed strided half integer complex".split()
CALLS = 12              # timed one by one
ROUNDS = 5
LIBRARIES = {"numpy": "numpy", "NumPy again": "numpy", "lazy": "lazy", "accelerate": "accelerate"}
FLOAT1 = ("np.sqrt(np.abs({0}))", "np.exp(-np.abs({0}))", "np.tanh({0})", "np.log1p(np.abs({0}))", "np.sin({0})",
          "np.abs({0})", "-{0}", "np.square({0})", "np.maximum({0}, 0)", "np.floor({0})", "np.clip({0}, -1, 1)")
FLOAT2 = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / (1 + {1} * {1})", "np.maximum({0}, {1})",
          "np.minimum({0}, {1})", "np.where({0} > {1}, {0}, {1} * 0.5)", "{0} * 0.75 + {1}", "np.hypot({0}, {1})")
INT1 = ("~{0}", "np.abs({0})", "{0} << 1", "{0} >> 2", "{0} & 15", "{0} % 17", "{0} // 7", "{0} * 3", "-{0}")
INT2 = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "np.maximum({0}, {1})",
        "np.where({0} > {1}, {0}, {1})")
COMPLEX1 = ("np.conj({0})", "-{0}", "{0} * (0.5 + 1j)", "{0} * {0}", "np.abs({0}) + 0j", "{0}.real + 1j")
COMPLEX2 = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / (2 + {1})")
HALF1 = ("np.abs({0})", "-{0}", "np.maximum({0}, 0)", "{0} * 0.5", "np.sqrt(np.abs({0}))")
REDUCTIONS = "sum mean max min var std".split()


class Function:
    """One drawn function: its text, and the shapes and dtypes of what it takes."""

    def __init__(self, seed, index, size):
        self.random = random.Random(f"{seed} {index}")
        self.kind = KINDS[index % len(KINDS)]
        self.size, self.lines, self.names, self.inputs, self.n = size, [], [], [], 0
        getattr(self, self.kind)()
        self.text = f"def f({', '.join(f'x{i}' for i in range(len(self.inputs)))}):\n" + "".join(
            f"    {line}\n" for line in self.lines)

    # ---- parts

    def take(self, dtype, shape):
        self.inputs.append((dtype, shape))
        self.names.append(f"x{len(self.inputs) - 1}")
        return self.names[-1]

    def let(self, text):
        self.names.append(f"t{self.n}")
        self.n += 1
        self.lines.append(f"{self.names[-1]} = {text}")
        return self.names[-1]

    def chain(self, unary, binary, length, names=None):
        """`length` steps, each of the last value and an earlier one."""
        names, choose = list(names or self.names), self.random.choice
        last = choose(names)
        for _ in range(length):
            if self.random.random() < 0.4:
                last = self.let(choose(unary).format(last))
            else:
                last = self.let(choose(binary).format(last, choose(names)))
            names.append(last)
        return last

    def give(self, text):
        self.lines.append(f"return {text}")

    def matrix(self):
        columns = self.random.choice((10, 32, 50, 100))
        return self.size // columns, columns

    def floats(self):
        return self.random.choice(("f4", "f8"))

    # ---- kinds

    def map(self):
        dtype = self.floats()
        for _ in range(self.random.randint(1, 3)):
            self.take(dtype, (self.size,))
        last = self.chain(FLOAT1, FLOAT2, self.random.randint(1, 14))
        self.give(f"{last}, {self.names[-2]}" if self.random.random() < 0.2 else last)

    def reduction(self):
        self.take(self.floats(), self.matrix())
        last = self.chain(FLOAT1, FLOAT2, self.random.randint(0, 5))
        axis, name = self.random.choice((None, 0, 1)), self.random.choice(REDUCTIONS)
        if self.random.random() < 0.4:
            reduced = self.let(f"{last}.{name}(axis={axis}, keepdims=True)")
            last = self.let(self.random.choice(FLOAT2).format(last, reduced))
            name, axis = self.random.choice(REDUCTIONS), self.random.choice((0, 1))
        self.give(f"{last}.{name}(axis={axis})")

    def stencil(self):
        if self.random.random() < 0.5:
            self.take(self.floats(), (self.size,))
            self.lines.append("y = np.zeros_like(x0)")
            self.lines.append("y[1:-1] = 0.25 * x0[:-2] + 0.5 * x0[1:-1] + 0.25 * x0[2:]")
        else:
            self.take(self.floats(), self.matrix())
            self.lines.append("y = x0.copy()")
            self.lines.append("y[1:-1, 1:-1] = (x0[:-2, 1:-1] + x0[2:, 1:-1] + x0[1:-1, :-2] + x0[1:-1, 2:]) * 0.25")
        for _ in range(self.random.randint(0, 3)):
            self.lines.append(self.random.choice(("y[1:] += y[:-1] * 0.5", "y *= 0.9", "y[::2] = np.abs(y[::2])",
                                                  "y = y - y.mean()", "y[0] = 1")))
        self.give("y")

    def broadcast(self):
        dtype, (n, m) = self.floats(), self.matrix()
        self.take(dtype, (n, m))
        self.take(dtype, self.random.choice(((m,), (n, 1), (1, m))))
        self.take(dtype, self.random.choice(((m,), (n, 1), ())))
        last = self.chain(FLOAT1, FLOAT2, self.random.randint(1, 6))
        self.give(f"x0 * {last} + x1")

    def mixed(self):
        dtypes = self.random.sample(("f4", "f8", "i4", "i8", "u1", "i2", "?"), 3)
        for dtype in sorted(dtypes, key="?".__ne__):        # booleans, which cannot be subtracted, first
            self.take(dtype, (self.size,))
        first = self.let("x0 + x1 * 1.5")
        last = self.chain(FLOAT1[:4], FLOAT2[:6], self.random.randint(1, 6), [first, "x2"])
        self.give(f"np.where(x1 > 0, {last}, x2).astype('{self.floats()}')")

    def strided(self):
        if self.random.random() < 0.5:
            self.take(self.floats(), (2 * self.size,))
            views = self.random.sample(("x0[::2]", "x0[1::2]", "x0[::-2]", f"x0[:{self.size}]", f"x0[{self.size}:]"), 2)
        else:
            n = int(self.size ** 0.5)
            self.take(self.floats(), (n, n))
            views = ["x0.T", self.random.choice(("x0", "x0[::-1]", "x0[:, ::-1]"))]
        names = [self.let(v) for v in views]
        self.give(self.chain(FLOAT1, FLOAT2, self.random.randint(1, 5), names) + self.random.choice(("", ".sum(0)")))

    def half(self):
        for _ in range(2):
            self.take("f2", (self.size,))
        self.give(self.chain(HALF1, FLOAT2[:3], self.random.randint(1, 6)) + self.random.choice(("", ".max()")))

    def integer(self):
        dtype = self.random.choice(("i1", "u1", "i2", "i4", "i8"))
        for _ in range(2):
            self.take(dtype, (self.size,))
        self.give(self.chain(INT1 if dtype != "u1" else INT1[:-1], INT2, self.random.randint(1, 7))
                  + self.random.choice(("", "", ".sum()", ".max()")))

    def complex(self):
        dtype = self.random.choice(("c8", "c16"))
        for _ in range(2):
            self.take(dtype, (self.size,))
        self.give(self.chain(COMPLEX1, COMPLEX2, self.random.randint(1, 5)) + self.random.choice(("", ".sum()")))

    # ---- use

    def arrays(self, np):
        r = np.random.default_rng(self.size)
        out = []
        for dtype, shape in self.inputs:
            dtype = np.dtype(dtype)
            if dtype.kind in "iu":
                out.append(r.integers(1, 100, shape).astype(dtype))
            elif dtype.kind == "b":
                out.append(r.random(shape) > 0.5)
            elif dtype.kind == "c":
                out.append((r.standard_normal(shape) + 1j * r.standard_normal(shape)).astype(dtype))
            else:
                out.append(np.asarray(r.standard_normal(shape)).astype(dtype))
        return out


def check(np, fn, got, want):
    """A wrong result is no result."""
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    dtypes = {dtype for dtype, _ in fn.inputs} | {"f4" if np.asarray(w).dtype == np.float32 else "" for w in want}
    # Of the least exact on the way: functions of short integers are computed in short floats.
    rtol = 1e-2 if dtypes & {"f2", "u1", "i1", "?"} else 1e-4 if dtypes & {"f4", "c8", "i2"} else 1e-9
    for g, w in zip(got, want, strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert g.dtype == w.dtype and g.shape == w.shape, (fn.text, g.dtype, g.shape, w.dtype, w.shape)
        # (Inputs are near 1: what is much less is what is left of a sum, whose terms are as exact as they are.)
        scale = float(np.nanmax(np.abs(np.where(np.isfinite(w), w, 0)), initial=1))
        close = np.isclose(g, w, rtol=rtol, atol=rtol * scale, equal_nan=True)
        # A step whose argument is not exact may be taken by the one and not by the other.
        assert close.all() or "floor" in fn.text and close.mean() > 0.99, fn.text


# ---- a library in a process ------------------------------------------------------------------------------------------

def compile_text(text, names):
    import linecache
    file = f"<generated {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)
    return names["f"]


def work(library, seed):
    """Answers lines [index, size, "calls"] with the times of the first calls, [.., "steady"] with a median."""
    import numpy as np
    np.seterr(all="ignore")
    if library != "numpy":
        import frit
        frit.eval(frit.asarray(np.ones(10)) + 1)     # starts the engine: threads, memory
    gc.disable()        # the collector's turns are nobody's time
    cases = {}
    for line in sys.stdin:
        index, size, what = json.loads(line)
        if (index, size) not in cases:
            fn = Function(seed, index, size)
            arrays = fn.arrays(np)
            if library == "lazy":
                tensors = [frit.asarray(a) for a in arrays]
                frit.eval(*tensors)
                g = compile_text(fn.text, {"np": frit})

                def run(g=g, tensors=tensors):
                    out = g(*tensors)
                    frit.eval(out)
                    return out
            else:
                g = compile_text(fn.text, {"np": np})
                g = frit.accelerate(g) if library == "accelerate" else g

                def run(g=g, arrays=arrays):
                    return g(*arrays)
            cases[index, size] = run
        run, times = cases[index, size], []
        if what == "calls":
            if library != "numpy":
                frit.eval(*[frit.asarray(np.ones(size)) + k for k in range(3)])
            for _ in range(CALLS):
                start = time.perf_counter()
                out = run()
                times.append(time.perf_counter() - start)
                if len(times) == 1:
                    first = out     # which the others find in use
                del out
            if library != "numpy":
                fn = Function(seed, index, size)
                check(np, fn, first, compile_text(fn.text, {"np": np})(*fn.arrays(np)))
            del first
            answer = times
        elif what == "rest":
            if library != "numpy":
                frit.wait_for_compiles(60)
            answer = 0
        else:
            for _ in range(3):
                run()
            end = time.perf_counter() + 0.03
            while len(times) < 5 or (time.perf_counter() < end and len(times) < 2000):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
            answer = statistics.median(times)
        print(json.dumps(answer), flush=True)


class Worker:
    def __init__(self, library, seed, threads, cache):
        env = dict(os.environ, FRIT_CACHE_DIR=cache, FRIT_NUM_THREADS=str(threads),
                   PYTHONPATH=os.pathsep.join(sys.path))
        self.p = subprocess.Popen([sys.executable, "-W", "ignore", "-m", "benchmarks.generated", "--work", library,
                                   "--seed", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=env)

    def ask(self, *job):
        self.p.stdin.write(json.dumps(job) + "\n")
        self.p.stdin.flush()
        return json.loads(self.p.stdout.readline())

    def close(self):
        self.p.stdin.close()
        self.p.wait()
        self.p.stdout.close()


def measure(seed, count, size, threads):
    """{index: {library: times of the first calls, and steady}} of one round."""
    with tempfile.TemporaryDirectory() as cache:
        os.chmod(cache, 0o700)
        workers = {name: Worker(library, seed, threads, cache) for name, library in LIBRARIES.items()}
        found = {i: {name: w.ask(i, size, "calls") for name, w in workers.items()} for i in range(count)}
        for w in workers.values():
            w.ask(0, size, "rest")
        for i in range(count):
            for name, w in workers.items():
                found[i][name].append(w.ask(i, size, "steady"))
        for w in workers.values():
            w.close()
    return found


def medians(rounds):
    """The same of several rounds."""
    return {i: {name: [statistics.median(times) for times in zip(*(r[i][name] for r in rounds))]
                for name in rounds[0][i]} for i in rounds[0]}


def describe(ratios):
    over = sum(r > 1.1 for r in ratios)
    return f"median {statistics.median(ratios):6.2f}   worst {max(ratios):7.2f}   over 1.1: {over:3d} of {len(ratios)}"


def report(seed, count, size, threads, show, n_rounds=ROUNDS, calls=False):
    found = medians([measure(seed, count, size, threads) for _ in range(n_rounds)])
    print(f"\n{count} functions of seed {seed}, {size} elements, {threads} thread{'s' * (threads > 1)}, medians of "
          f"{n_rounds} rounds: time over NumPy's")
    for name in list(LIBRARIES)[1:]:
        print(f"  {name}")
        for call in range(CALLS + 1):
            # Against NumPy's call of the same number: its first ones find cold caches and fresh memory, too.
            ratios = {i: f[name][call] / f["numpy"][call] for i, f in found.items()}
            print(f"    {'steady ' if call == CALLS else f'call {call + 1:2d}'}   {describe(list(ratios.values()))}")
            slow = sorted(ratios, key=ratios.get)[-show:][::-1]
            for i in slow:
                if ratios[i] > 1.1 and name != "NumPy again" and (calls or call == CALLS):
                    fn = Function(seed, i, size)
                    print(f"      {ratios[i]:5.2f} ({found[i]['numpy'][call] * 1e6:.1f} us)  {fn.inputs}  "
                          + "; ".join(fn.lines))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=200)
    p.add_argument("--size", type=int, nargs="*", default=[1000, 30000])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--show", type=int, default=8, help="list so many of the slowest")
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--calls", action="store_true", help="of the first calls, too")
    p.add_argument("--work", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.work:
        work(a.work, a.seed)
        return
    want_frit()
    for size in a.size:
        report(a.seed, a.count, size, a.threads, a.show, a.rounds, a.calls)


if __name__ == "__main__":
    main()
