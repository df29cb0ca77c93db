"""How exact frit's transcendental functions are:  python tests/accuracy.py [--all] [--levels] ...

For each function and dtype: the largest error in units in the last place (ULP) that was seen,
where, and the share of results that are correctly rounded.  Truth is the C library in twice the
precision (see tests/c/math_truth.c); about the worst points MPFR is asked again, through gmpy2.
--all tries every float32 there is (about a minute per function and core). --levels also computes
them at each instruction-set level and compares all bits.  --keep FILE notes the results there, and
--table FILE prints what such a file knows as csrc/jit/ACCURACY.md (`make accuracy` does all of it).

Results are those of the installed `frit` package.  Without one, or with --loops LEVEL, they are
those of the recipes printed as C loops and compiled for that x86-64 level.
"""

import argparse
import ctypes
import functools
import hashlib
import json
import math
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh "
    "arccosh arctanh cbrt erf erfc sigmoid softplus"
).split()
BINARY = "arctan2 hypot power logaddexp logaddexp2".split()
FUNCTIONS = UNARY + BINARY
DTYPES = {"f32": np.float32, "f64": np.float64}
LEVELS = ("generic", "v2", "v3", "v4")
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-ffp-contract=off"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]


# ---- what is measured ----


def run(*args, **kwargs):
    return subprocess.run([str(a) for a in args], check=True, **kwargs)


def build(kind, level="v3"):
    """Builds (once per content) the library of the truth or of the loops; returns its path."""
    csrc, here = ROOT / "csrc", ROOT / "tests" / "c"
    cc = os.environ.get("CC", "gcc")
    # Threading jumps and PRE turn selections into branches before the vectoriser sees them.
    flags = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fno-thread-jumps"]
    flags += ["-fno-tree-pre", "-Wno-unused", "-shared", "-fPIC"]
    if platform.machine() == "x86_64" and kind == "loops":
        flags.append(f"-march=x86-64-{level}")
    sources = [here / f"math_{kind}.c"]
    if kind == "loops":
        jit = csrc / "jit"
        sources += sorted(jit.glob("recipe_math*.c")) + [jit / "micro.c"]
        sources += [csrc / "base" / f for f in ("alloc.c", "status.c", "log.c", "env.c", "tune.c")]
        parts = sources + sorted(jit.glob("recipe_math*.h")) + [jit / f for f in ("build.h", "micro.h", "recipe_int.h")]
    else:
        parts = sources
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in parts) + str(flags).encode())
    folder = ROOT / "build" / "accuracy"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{kind}-{level}-{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    fresh = target.with_suffix(f".{os.getpid()}.so")
    if kind == "loops":
        program, text = fresh.with_suffix(".exe"), target.with_suffix(".c")
        run(cc, *FLAGS, "-O1", f"-I{csrc}", *sources, "-o", program, "-lpthread")
        with open(text, "w") as f:
            run(program, stdout=f)
        program.unlink()
        sources = [text]
    run(cc, *FLAGS, *flags, *sources, "-o", fresh, "-lm")
    fresh.rename(target)
    return target


class Loops:
    """The recipes as C loops."""

    def __init__(self, level="v3"):
        self.lib = ctypes.CDLL(str(build("loops", level)))

    def __call__(self, name, *xs):
        xs = [np.ascontiguousarray(x) for x in xs]
        out = np.empty_like(xs[0])
        fn = self.lib[f"loop_{name}_f{8 * out.itemsize}"]
        fn(*[ctypes.c_void_p(a.ctypes.data) for a in (*xs, out)], ctypes.c_long(out.size))
        return out


class Package:
    """The functions of the installed package."""

    def __init__(self):
        import frit

        self.frit = frit

    def __call__(self, name, *xs):
        return np.asarray(getattr(self.frit, name)(*[self.frit.asarray(x) for x in xs]))


def evaluator(level=None):
    if level is None:
        try:
            return Package()
        except ImportError:
            level = "v3"
    return Loops(level)


# ---- the truth ----


class Report(ctypes.Structure):
    _fields_ = [
        ("max_ulp", ctypes.c_double),
        ("worst", ctypes.c_long),
        ("n_finite", ctypes.c_long),
        ("n_rounded", ctypes.c_long),
    ]


class Truth:
    def __init__(self):
        self.lib = ctypes.CDLL(str(build("truth", "any")))

    def __call__(self, name, xs, got):
        """The Report of one block of results."""
        xs = [np.ascontiguousarray(x) for x in xs]
        got = np.ascontiguousarray(got)
        r = Report(0, -1, 0, 0)
        y = ctypes.c_void_p(xs[1].ctypes.data) if len(xs) > 1 else None
        self.lib[f"judge_{name}_f{8 * got.itemsize}"](
            ctypes.c_void_p(xs[0].ctypes.data),
            y,
            ctypes.c_void_p(got.ctypes.data),
            ctypes.c_long(got.size),
            ctypes.byref(r),
        )
        return r


def mpfr_value(name, args):
    """The function's value in 300 bits."""
    import gmpy2
    from gmpy2 import mpfr

    with gmpy2.context(
        gmpy2.get_context(), precision=1400 if name in ("sin", "cos", "tan") else 300
    ):
        a = [mpfr(float(x)) for x in args]
        x, y = a[0], a[-1]
        special = {
            "arcsin": gmpy2.asin,
            "arccos": gmpy2.acos,
            "arctan": gmpy2.atan,
            "arcsinh": gmpy2.asinh,
            "arccosh": gmpy2.acosh,
            "arctanh": gmpy2.atanh,
            "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
            "softplus": lambda x: gmpy2.log1p(gmpy2.exp(x)),
            "arctan2": gmpy2.atan2,
            "power": lambda x, y: x**y,
            "logaddexp": lambda x, y: max(x, y) + gmpy2.log1p(gmpy2.exp(-abs(x - y))),
            "logaddexp2": lambda x, y: max(x, y)
            + gmpy2.log1p(gmpy2.exp2(-abs(x - y))) / gmpy2.const_log2(),
        }
        return special[name](*a) if name in special else getattr(gmpy2, name)(*a)


def mpfr_ulps(name, args, got):
    """The error of `got` in ULP against MPFR, for finite values."""
    import gmpy2

    truth = mpfr_value(name, args)
    digits, least, top = (24, -149, 128) if got.dtype == np.float32 else (53, -1074, 1024)
    with gmpy2.context(gmpy2.get_context(), precision=1400, emax=1 << 20, emin=-(1 << 20)):
        g = gmpy2.mpfr(float(got))
        if gmpy2.is_infinite(g) or abs(truth) >= gmpy2.exp2(top):
            limit = gmpy2.exp2(top)
            truth, g = min(abs(truth), limit), min(abs(g), limit)
        if truth == g:
            return 0.0
        size = truth
        if name.startswith("logaddexp"):  # see tests/c/math_truth.c
            big = gmpy2.mpfr(float(max(args)))
            size = max(abs(truth), abs(big), abs(truth - big))
        e = gmpy2.frexp(size)[0] if size else least
        return float(abs(g - truth) / gmpy2.exp2(max(min(e, top) - digits, least)))


# ---- where to look ----

SPECIALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    -3.0,
    1.5,
    np.inf,
    -np.inf,
    np.nan,
    10.0,
    100.0,
    1e-3,
]


def edges(dtype):
    """Special values, every power of two and its neighbours, integers and half-integers."""
    info = np.finfo(dtype)
    two = np.ldexp(dtype(1), np.arange(info.minexp - info.nmant, info.maxexp)).astype(dtype)
    k = np.arange(0, 1101, dtype=dtype)
    v = np.concatenate(
        [
            np.array(SPECIALS, dtype),
            two,
            k,
            k + dtype(0.5),
            k / dtype(8),
            np.pi * k / 4,
            [info.max, info.tiny, info.smallest_subnormal],
        ]
    ).astype(dtype)
    with np.errstate(all="ignore"):
        v = np.concatenate([v, np.nextafter(v, dtype(np.inf)), np.nextafter(v, dtype(-np.inf))])
    return np.concatenate([v, -v])


@functools.cache
def near_quarter_turns(dtype):
    """For every exponent the numbers closest to multiples of pi / 2: denominators in the continued
    fraction of 2^e * 2 / pi."""
    import gmpy2

    info = np.finfo(dtype)
    found = []
    with gmpy2.context(gmpy2.get_context(), precision=2400):
        turn = 2 / gmpy2.const_pi()
        for e in range(-info.nmant, info.maxexp - info.nmant):
            x = turn * gmpy2.exp2(e)
            x -= gmpy2.floor(x)
            q0, q1 = 0, 1
            while q1 < 1 << info.nmant + 1:
                found.append(math.ldexp(float(q1), e))
                x = 1 / x
                digit = int(gmpy2.floor(x))
                x -= digit
                q0, q1 = q1, digit * q1 + q0
    v = np.array(found)
    return v[np.isfinite(v) & (v <= info.max)].astype(dtype)


# Where a function does something: intervals sampled evenly, besides the sampling over exponents.
BUSY = {
    "exp": [(-88, 89), (-104, -87), (-746, -700), (-709, 710), (-1, 1)],
    "exp2": [(-150, 128), (-1075, 1024), (-1, 1)],
    "expm1": [(-40, 90), (-1, 1), (-40, 710)],
    "log": [(0.5, 2), (0.9, 1.1), (0, 100)],
    "log2": [(0.5, 2), (0.9, 1.1), (0, 100)],
    "log10": [(0.5, 2), (0.9, 1.1), (0, 1000)],
    "log1p": [(-1, 2), (-0.1, 0.1)],
    "sin": [(-10, 10), (-1e5, 1e5), (-1, 1)],
    "cos": [(-10, 10), (-1e5, 1e5)],
    "tan": [(-10, 10), (-1e5, 1e5), (-1, 1)],
    "arcsin": [(-1, 1), (-0.6, 0.6)],
    "arccos": [(-1, 1), (0.9, 1), (-0.6, 0.6)],
    "arctan": [(-10, 10), (-1, 1)],
    "sinh": [(-2, 2), (-90, 90), (-711, 711)],
    "cosh": [(-2, 2), (-90, 90), (-711, 711)],
    "tanh": [(-1, 1), (-10, 10), (-20, 20)],
    "arcsinh": [(-3, 3), (-100, 100)],
    "arccosh": [(1, 2), (1, 100)],
    "arctanh": [(-1, 1), (-0.3, 0.3)],
    "cbrt": [(-8, 8)],
    "erf": [(-1.2, 1.2), (-4, 4), (-6, 6)],
    "erfc": [(-2, 2), (-6, 10.1), (-6, 28)],
    "sigmoid": [(-20, 20), (-110, 90), (-750, 40)],
    "softplus": [(-20, 20), (-110, 90), (-750, 40)],
}


def samples(name, dtype, n, seed=0):
    """About n points (tuples of arguments) for `name`, from a fixed seed."""
    rng = np.random.default_rng([seed, FUNCTIONS.index(name), np.dtype(dtype).itemsize])
    bits = np.uint32 if dtype == np.float32 else np.uint64

    def any_float(n):
        return rng.integers(0, 1 << 8 * np.dtype(dtype).itemsize, n, dtype=bits).view(dtype)

    def even(lo, hi, n):
        return rng.uniform(lo, hi, n).astype(dtype)

    if name in UNARY:
        parts = [edges(dtype), any_float(n // 3)]
        busy = BUSY[name]
        for lo, hi in busy:
            parts.append(even(lo, hi, n // 2 // len(busy)))
        # Around 1 and around 0, evenly in the exponent of the distance.
        tiny = np.ldexp(rng.uniform(0.5, 1, n // 6), rng.integers(-60, 6, n // 6))
        parts += [
            tiny.astype(dtype),
            -tiny.astype(dtype),
            (1 + tiny).astype(dtype),
            (1 - tiny).astype(dtype),
        ]
        if name in ("sin", "cos", "tan"):
            k = rng.integers(1, 1 << 52, n // 8) >> rng.integers(0, 52, n // 8)
            near = k * (np.pi / 2)
            hard = near_quarter_turns(dtype)
            parts += [hard, -hard, near.astype(dtype), np.nextafter(near.astype(dtype), dtype(0))]
        return [np.concatenate(parts)]
    e = edges(dtype)
    m = n // 4
    x, y = rng.choice(e, m), rng.choice(e, m)
    parts = [(x, y), (any_float(m), any_float(m))]
    if name == "power":
        base = np.abs(any_float(m))
        with np.errstate(all="ignore"):
            top = even(-150, 128, m) if dtype == np.float32 else even(-1075, 1024, m)
            parts.append((base, (top / np.log2(base)).astype(dtype)))
            near = (1 + np.ldexp(rng.uniform(-1, 1, m), rng.integers(-50, 0, m))).astype(dtype)
            parts.append((near, (top / np.log2(near.astype(float))).astype(dtype)))
        parts.append((even(-20, 20, m), rng.integers(-20, 21, m).astype(dtype)))
        parts.append(
            (rng.integers(-40, 40, m).astype(dtype), rng.integers(-9, 15, m).astype(dtype))
        )
    elif name in ("hypot", "arctan2"):
        x = any_float(m)
        with np.errstate(all="ignore"):
            parts.append(
                (x, (x * np.ldexp(rng.uniform(-1, 1, m), rng.integers(-30, 30, m))).astype(dtype))
            )
        parts.append((even(-1, 1, m), even(-1, 1, m)))
        k = rng.integers(1, 5000, m)
        parts.append(((k * 3).astype(dtype), (k * 4).astype(dtype)))
    else:
        parts.append((even(-10, 10, m), even(-10, 10, m)))
        x = even(-800, 800, m)
        parts.append((x, (x + even(-50, 50, m)).astype(dtype)))
        parts.append((x, (x + even(-1, 1, m)).astype(dtype)))
    return [np.concatenate([p[k] for p in parts]) for k in (0, 1)]


class Result:
    """What is known of one function and dtype so far."""

    def __init__(self, name, dtype):
        self.name, self.dtype = name, dtype
        self.max_ulp, self.at, self.got = -1.0, None, None
        self.n = self.n_finite = self.n_rounded = 0
        self.seconds = 0.0

    def add(self, evaluate, truth, xs):
        t = time.perf_counter()
        got = evaluate(self.name, *xs)
        self.seconds += time.perf_counter() - t
        r = truth(self.name, xs, got)
        self.n += got.size
        self.n_finite += r.n_finite
        self.n_rounded += r.n_rounded
        if r.worst >= 0 and r.max_ulp > self.max_ulp:
            self.max_ulp, self.at, self.got = r.max_ulp, [x[r.worst] for x in xs], got[r.worst]

    def confirm(self):
        """MPFR's word on the worst point."""
        if self.at is not None and np.isfinite(self.max_ulp) and all(np.isfinite(self.at)):
            try:
                self.max_ulp = mpfr_ulps(self.name, self.at, self.got)
            except ImportError:
                pass
        return self

    @property
    def share(self):
        return 100.0 * self.n_rounded / max(self.n_finite, 1)


def points(name, dtype, n, everything=False, seed=0):
    """The arguments on which a function is measured, block by block."""
    if everything and dtype == np.float32 and name in UNARY:
        block = np.arange(1 << 20, dtype=np.uint32)
        for start in range(0, 1 << 32, block.size):
            yield [(block + np.uint32(start)).view(np.float32)]
        return
    k = 0
    while n > 0:
        xs = samples(name, dtype, min(n, 1 << 20), seed + k)
        yield xs
        n -= max(xs[0].size, 1)
        k += 1


def measure(name, dtype, n, evaluate, truth, everything=False, seed=0):
    result = Result(name, dtype)
    for xs in points(name, dtype, n, everything, seed):
        result.add(evaluate, truth, xs)
    return result.confirm()


def digest(name, dtype, n, evaluate, everything=False, seed=0):
    """Of all bits of all results, but for the payloads of NaN."""
    sum_ = hashlib.sha256()
    for xs in points(name, dtype, n, everything, seed):
        got = evaluate(name, *xs)
        got[np.isnan(got)] = np.nan
        sum_.update(got)
    return sum_.hexdigest()


def levels_agree(name, code, args):
    """Whether the package gives the same bits at each level that this processor has; their names."""
    given = {}
    for level in LEVELS:
        options = ["--functions", name, "--dtype", code, "--samples", min(args.samples, 3e6), "--seed", args.seed]
        done = run(sys.executable, __file__, "--digest", *options, *["--all"] * args.all, stdout=subprocess.PIPE,
                   text=True, env={**os.environ, "FRIT_ISA": level})
        used, sum_ = done.stdout.split()
        given[used] = sum_
    return len(set(given.values())) == 1, " ".join(given)


DOCUMENT = """# How exact the functions are

Made by `make accuracy`, which measures the installed package: errors in units in the last place (ULP) against the C
library in twice the precision, the worst point of each once more against MPFR. f32: every one of the 2^32 inputs;
functions of two arguments, and f64: {samples} points each (fewer where the row says so), evenly over exponents, over
the intervals where the function does something, around 0, 1 and special values, and for sin, cos, tan at the numbers
next to multiples of pi/2. logaddexp is measured in ULP of the larger of result and arguments. "rounded" is the share
of results that are correctly rounded. The levels of x86-64 in a row gave the same bits there (f32: all inputs;
otherwise on 3*10^6 points). Special values are C99's (annex F): `tests/test_accuracy.py` holds them.
"""


def table(known):
    """The text of csrc/jit/ACCURACY.md."""
    lines = ["| function | dtype | points | max ULP | at | rounded | same bits at |", "|" + " --- |" * 7]
    for name in FUNCTIONS:
        for code in DTYPES:
            r = known.get(f"{name} {code}")
            if r:
                lines.append(f"| {name} | {code} | {r['points']:.3g} | {r['max_ulp']:.4f} | {', '.join(r['at'])} | "
                             f"{r['rounded']:.2f} % | {r.get('levels', '')} |")
    return DOCUMENT.format(samples="10^8") + "\n" + "\n".join(lines)


def speed(name, dtype, evaluate, n=4096, repeat=7):
    """Nanoseconds per element on n elements in cache."""
    lo, hi = {"arccosh": (1, 50), "arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-1, 1)}.get(
        name, (0.01, 10)
    )
    rng = np.random.default_rng(1)
    xs = [
        np.ascontiguousarray(rng.uniform(lo, hi, n).astype(dtype))
        for _ in range(2 if name in BINARY else 1)
    ]
    if isinstance(evaluate, Loops):
        out = np.empty_like(xs[0])
        fn = evaluate.lib[f"loop_{name}_f{8 * out.itemsize}"]
        args = [ctypes.c_void_p(a.ctypes.data) for a in (*xs, out)] + [ctypes.c_long(n)]

        def call():
            fn(*args)

    else:

        def call():
            evaluate(name, *xs)

    call()
    best, loops = 1e9, 50
    for _ in range(repeat):
        t = time.perf_counter()
        for _ in range(loops):
            call()
        best = min(best, (time.perf_counter() - t) / loops)
    return best / n * 1e9


def note(path, key, found):
    try:
        with open(path) as f:
            known = json.load(f)
    except FileNotFoundError:
        known = {}
    known[key] = found
    with open(path, "w") as f:
        json.dump(known, f, indent=1)


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--functions", default=",".join(FUNCTIONS))
    ap.add_argument("--dtype", choices=list(DTYPES), action="append")
    ap.add_argument("--samples", type=float, default=1e6)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--all", action="store_true", help="every float32 instead of samples")
    ap.add_argument("--levels", action="store_true", help="compare the bits of all levels")
    ap.add_argument("--keep", metavar="FILE", help="add the results to this file")
    ap.add_argument("--table", metavar="FILE", help="print what that file knows, and measure nothing")
    ap.add_argument("--digest", action="store_true", help=argparse.SUPPRESS)
    ap.add_argument(
        "--loops", metavar="LEVEL", choices=["v2", "v3", "v4"], help="measure the C loops"
    )
    ap.add_argument("--speed", action="store_true", help="also time 4096 elements")
    args = ap.parse_args(argv)
    if args.table:
        with open(args.table) as f:
            print(table(json.load(f)))
        return 0
    evaluate = evaluator(args.loops)
    if args.digest:
        used = evaluate.frit._core.show_config()["isa"] if isinstance(evaluate, Package) else args.loops
        print(used, digest(args.functions, DTYPES[args.dtype[0]], int(args.samples), evaluate, args.all, args.seed))
        return 0
    truth = Truth()
    print("{:<12}{:<7}{:>9}{:>11}{:>12}  {}".format("function", "dtype", "max ULP", "rounded %", "points", "worst at"))
    bad = 0
    for name in args.functions.split(","):
        for code in args.dtype or DTYPES:
            r = measure(name, DTYPES[code], int(args.samples), evaluate, truth, args.all, args.seed)
            at = [float(v).hex() for v in r.at]
            row = f"{name:<12}{code:<7}{r.max_ulp:>9.4f}{r.share:>11.2f}{r.n:>12.3g}  {', '.join(at)}"
            found = {"max_ulp": r.max_ulp, "rounded": r.share, "points": r.n, "at": at}
            if args.levels:
                same, found["levels"] = levels_agree(name, code, args)
                row += f"  {'the same at' if same else 'NOT THE SAME at'} {found['levels']}"
                bad += not same
            if args.speed:
                row += f"  {speed(name, DTYPES[code], evaluate):.3f} ns"
            bad += not r.max_ulp <= 1.0
            print(row, flush=True)
            if args.keep:
                note(args.keep, f"{name} {code}", found)
    if bad:
        print(f"{bad} above 1 ULP or of other bits", file=sys.stderr)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
