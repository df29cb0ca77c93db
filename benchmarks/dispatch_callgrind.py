"""How many instructions does dispatch take?  Counted by callgrind, so the answer does not depend on the
machine's mood: a statement runs n and 2n times, and the difference is divided by n. The loop around the
statement is counted on both sides.

    trace        one operation on 8 elements, Python call included
    number       the same beside a Python number
    chain        10 operations on 100 elements, traced anew and forced from a cached plan
    operations   the same for 1 .. 40 operations: one kernel each
    watched      as chain, while an array looks at the memory of another result
    kernels      1 .. 20 times y / y.sum(), which cannot be one kernel
    single       one operation on 100 elements, forced; show: and shown as an ndarray
    unseen       5 operations on a number of elements that never came before: one by one, as by default
    planned      the same, and a plan is made each time; it is for all others, too: then the counts do not depend on when
                 the thread that makes plans has its turns
    element      the value of an element beside a number, while something else is pending; elements: of two elements;
                 bounds: a slice between two elements; take: 20 elements, by an array of integers
    place        where the greatest of 100 elements is, while nothing else is pending; turned, turned 28: a copy of rows of 10,
                 of 28, that lie across memory; rows: sums of such rows of 16 and others
    accelerate   a decorated function of one operation on 100 elements, ndarrays in and out: arithmetic, whose
                 first calls are NumPy's; and a call, which becomes a kernel
"""
import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

SETUP = """
import sys
import numpy as np
n = int(sys.argv[1])
if sys.argv[2] == "frit":
    import frit
    array, ev, accelerate = lambda a: frit.asarray(a), frit.eval, frit.accelerate
    eager = lambda n: frit._core.config_set("eager_elems", n)
    ev([])
else:
    array, ev, accelerate, eager = lambda a: a, lambda a: a, lambda f: f, lambda n: None
x, y, z, w = array(np.ones(8)), array(np.ones(8)), array(np.ones(100)), array(np.full(100, 0.5))
"""


def chain(n):
    expression = "z"
    for i in range(n):
        expression = f"({expression} {('+ w', '* z', '- w')[i % 3]})"
    return expression


def forced(expression):
    """The statement for both sides: NumPy has nothing to force."""
    return f"ev({expression})", expression


def normalised(n):
    steps = "; ".join(["q = z"] + ["q = q / q.sum()"] * n)
    return f"{steps}; ev(q)", steps


UNSEEN = [f"i += 1; p = u[:i]; q = v[:i]; {s}" for s in forced("((p + q) * p - q) * p + q")]
# name: (statement for frit, statement for NumPy, more setup)
PROGRAMS = {
    "trace": ("x + y", "x + y", ""),
    "number": ("x * 2.0", "x * 2.0", ""),
    "single": (*forced("z + w"), ""),
    "show": ("np.asarray(z * w)", "z * w", ""),
    "chain": (*forced(chain(10)), ""),
    "unseen": (*UNSEEN, "eager(32768); i = 100; u = array(np.ones(9999)); v = array(np.ones(9999))"),
    "planned": (*UNSEEN, "eager(0); i = 100"),
    "accelerate": ("f(a, b)", "f(a, b)", "f = accelerate(lambda a, b: a * b); a = np.ones(100); b = np.ones(100)"),
    "accelerate call": ("g(a, b)", "g(a, b)", "g = accelerate(lambda a, b: np.maximum(a, b))"),
    **{f"operations {n}": (*forced(chain(n)), "") for n in (1, 5, 20, 40)},
    **{f"kernels {n}": (*normalised(n), "") for n in (1, 5, 20)},
    "element": ("bool(x[3] > 2.0)",) * 2 + ("eager(131072); wait = z * 2",),
    "elements": ("bool(x[3] > y[4])",) * 2 + ("",),
    "bounds": ("z[k[3]:k[5]]",) * 2 + ("k = array(np.arange(20))",),
    "take": ("z[k]",) * 2 + ("",),
    # Nothing else is pending from here on: else a plan takes over, and when depends on the thread that makes it.
    "place": (*forced("z.argmax()"), "ev(wait)"),
    "turned": (*forced("m.T.copy()"), "m = array(np.ones((10, 100)))"),
    "turned 28": (*forced("m.T.copy()"), "m = array(np.ones((28, 50)))"),
    "rows": (*forced("h + v.T"), "h, v = array(np.ones((62, 16))), array(np.ones((16, 62)))"),
    "watched": (*forced(chain(10)), "eager(0); ev(wait); look = np.asarray(z * 2)"),     # the last: what looks goes on looking
}
TESTED = ("trace", "number", "single", "show", "chain", "unseen", "planned", "accelerate", "accelerate call",
          "element", "elements", "bounds", "take", "place", "turned", "turned 28", "rows", "watched")


def program(names, side, n):
    """Runs each statement n and 2n times; callgrind writes its counts down at every os.getppid()."""
    parts = [SETUP, "import os"]
    for name in names:
        statement = PROGRAMS[name][side == "numpy"]
        parts += [PROGRAMS[name][2], f"for _ in range(200): {statement}"]
        for loops in ("n", "2 * n"):
            parts += ["os.getppid()", f"for _ in range({loops}): {statement}"]
        parts.append("os.getppid()")
    return "\n".join(parts)


def environment(jit="interpret"):
    """Of what is to take the same way each time."""
    return dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), FRIT_NUM_THREADS="1", FRIT_JIT=jit,
                FRIT_EAGER_ELEMS="0", FRIT_CACHE="0", PYTHONHASHSEED="0", OPENBLAS_NUM_THREADS="1")


# What comes before the first os.getppid() is not counted, and so runs several times faster.
COUNT_FROM_NOW_ON = """
import ctypes, os
def first_getppid(really=os.getppid):
    os.getppid = really
    ctypes.CDLL({!r}).count_from_now_on()
    return really()
os.getppid = first_getppid
"""


@functools.cache
def counter():
    """A library by which a program says to callgrind that it shall begin to count; None without a compiler or valgrind's headers."""
    folder = tempfile.mkdtemp(prefix="frit-callgrind-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "counter.so")
    text = "#include <valgrind/callgrind.h>\nvoid count_from_now_on(void) { CALLGRIND_START_INSTRUMENTATION; }\n"
    try:
        done = subprocess.run([os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-xc", "-", "-o", path], input=text, text=True,
                              stderr=subprocess.DEVNULL)
    except OSError:
        return None
    return path if done.returncode == 0 else None


def dumps(n, code, *arguments, jit="interpret"):
    """The instructions up to each of the first n calls of os.getppid() in a program, from the one before it; up to the first one
    it may be 0. Those of the first thread: how often others look for work depends on the time."""
    late = counter()
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        done = subprocess.run(["valgrind", "--tool=callgrind", "--dump-before=getppid", "--separate-threads=yes",
                               f"--callgrind-out-file={out}", *(["--instr-atstart=no"] if late else []),
                               sys.executable, "-W", "ignore", "-c", (COUNT_FROM_NOW_ON.format(late) if late else "") + code, *arguments],
                              env=environment(jit), stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        counts = []
        for i in range(n):
            with open(f"{out}.{i + 1}-01") as f:
                counts.append(int(re.search(r"^(?:totals|summary): (\d+)", f.read(), re.M)[1]))
    return counts


def per_call(names, side="frit", n=1000):
    """Instructions of one statement each."""
    counts = dumps(3 * len(names), program(names, side, n), str(n), side)
    # A dump counts what came since the one before it: of each name the 2nd and 3rd are its loops.
    return [(counts[3 * i + 2] - counts[3 * i + 1]) / n for i in range(len(names))]


def main():
    if not shutil.which("valgrind"):
        print("instruction counts of dispatch: valgrind is not installed")
        return
    print(f"{'instructions of dispatch':<26}{'frit':>10}{'NumPy':>10}{'ratio':>8}")
    for name, ours, theirs in zip(PROGRAMS, per_call(list(PROGRAMS), "frit", 300),
                                  per_call(list(PROGRAMS), "numpy", 300)):
        print(f"  {name:<24}{ours:>10.0f}{theirs:>10.0f}{ours / theirs:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
