"""How many instructions more does a program take while it is profiled?  Counted by callgrind, of the first thread, for calls of an
accelerated function that have found their way: python -m benchmarks.profiled [NAME...]

The programs are of benchmarks/programs.py and of benchmarks/dispatch_callgrind.py; a profile takes the same for each kernel, so a
call of small kernels shows most."""
import sys

from . import dispatch_callgrind

PROGRAMS = ("batch_norm", "mean_log_softmax", "gelu_tanh", "adam_first_step", "attraction", "haversine", "life", "blur",
            "attention_weights", "runge_kutta")

CODE = """
import os, sys
import numpy as np
import frit
from benchmarks import programs, program_list
name, n = sys.argv[1], int(sys.argv[2])
function, make = program_list.PROGRAMS[name]
arrays = make(np.random.default_rng(0))
f = frit.accelerate(function)
def calls(n):
    for _ in range(n):
        f(np, *arrays)
calls(30)
frit.wait_for_compiles(60)
calls(5)
os.getppid()
calls(n)
os.getppid()
with frit.profile() as p:
    calls(5)
    os.getppid()
    calls(n)
    os.getppid()
assert sum(k.runs for k in p.kernels) >= n
"""


def overhead(name, n=4):
    """(instructions of a call, of one that is profiled)"""
    counts = dispatch_callgrind.dumps(4, CODE, name, str(n))
    return counts[1] / n, counts[3] / n


def main():
    print(f"{'instructions of a call':<26}{'alone':>12}{'profiled':>12}{'more':>9}")
    for name in sys.argv[1:] or PROGRAMS:
        alone, profiled = overhead(name)
        print(f"  {name:<24}{alone:>12.0f}{profiled:>12.0f}{profiled / alone - 1:>9.3%}", flush=True)


if __name__ == "__main__":
    main()
