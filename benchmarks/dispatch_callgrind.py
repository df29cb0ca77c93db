"""How many instructions does dispatch take?  Counted by callgrind, so the answer does not depend on the
machine's mood: a program runs n and 2n times, and the difference is divided by n.

    trace       one operation on 8 elements, Python call included, against NumPy's same operation
    replay      a chain of 10 operations on 100 elements, traced anew and forced from a cached plan
    force       forcing one pending operation on 100 elements
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SETUP = """
import sys
import numpy as np
if "frit" in sys.argv[2]:
    import frit
n = int(sys.argv[1])
"""

PROGRAMS = {
    # frit: the chain is forced every 10 operations at a cost of its own, so it is dropped instead.
    "trace frit": ("x = frit.asarray(np.ones(8)); y = frit.asarray(np.ones(8)); frit.eval(x, y)", "x + y", 1),
    "trace numpy": ("x = np.ones(8); y = np.ones(8)", "x + y", 1),
    "replay frit": ("x = frit.asarray(np.ones(100)); y = frit.asarray(np.ones(100)); ev = frit._core.eval",
                    "ev((((((x + y) * x - y) * x + y) * x - y) * x + y) * x)", 1),
    "replay numpy": ("x = np.ones(100); y = np.ones(100)",
                     "(((((x + y) * x - y) * x + y) * x - y) * x + y) * x", 1),
    "force frit": ("x = frit.asarray(np.ones(100)); ev = frit._core.eval", "ev(x + 1.0)", 1),
}


def instructions(name, n):
    setup, statement, _ = PROGRAMS[name]
    code = f"{SETUP}{setup}\nfor _ in range(200): {statement}\nfor _ in range(n): {statement}\n"
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), FRIT_NUM_THREADS="1", FRIT_JIT="interpret",
                   FRIT_CACHE="0", PYTHONHASHSEED="0", OPENBLAS_NUM_THREADS="1")
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", sys.executable,
                               "-c", code, str(n), name], env=env, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
    return int(re.search(r"Collected\s*:\s*(\d+)", done.stderr)[1])


def per_call(name, n=1000):
    return (instructions(name, 2 * n) - instructions(name, n)) / n


def main():
    if not shutil.which("valgrind"):
        print("instruction counts of dispatch: valgrind is not installed")
        return
    counts = {name: per_call(name) for name in PROGRAMS}
    print("instructions of dispatch (callgrind):")
    for name, c in counts.items():
        print(f"  {name:<14}{c:>10.0f}")
    print(f"  trace: {counts['trace frit'] / counts['trace numpy']:.2f} of NumPy's; "
          f"chain of 10 on 100 elements: {counts['replay frit'] / counts['replay numpy']:.2f} of NumPy's")


if __name__ == "__main__":
    main()
