"""Machine code of reductions asks for memory that the next rows read, and the interpreter for what the next block loads
while it stores past the caches: which code does, and that it may be asked for wherever it would be, as there is no such
row after the last."""
import mmap
import os
import platform
import re
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT

pytestmark = pytest.mark.core

REF = os.environ.get("FRIT_BACKEND") == "ref"
PREFETCH = re.compile(rb"\x0f\x18[\x08-\x0f\x48-\x4f\x88-\x8f]")


@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has other instructions")
@pytest.mark.parametrize("expression,lines", [
    ("(a * b).sum()", 4),   # two of each operand: a step is four blocks of the eight numbers that a sum has in registers
    ("frit.exp(a - a.max(axis=1, keepdims=True))", 1), ("a.var(axis=1)", 1), ("a * b + a", 0), ("(a * b).sum(axis=0)", 2),
    ("a[:, ::3].sum(axis=1)", 0)])
def test_which_code_asks(tmp_path, expression, lines):
    """How many lines a step asks for, at least."""
    tmp_path.chmod(0o700)
    code = f"""
import numpy as np, frit
a, b = (frit.asarray(np.arange(5000, dtype="f4").reshape(50, 100) + k) for k in (0, 1))
for _ in range(3):
    frit.eval({expression})
print(frit.wait_for_compiles(60) and frit.stats()["compiled"])
"""
    env = {**os.environ, "FRIT_JIT": "always", "FRIT_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, env=env,
                         stdout=subprocess.PIPE, text=True).stdout
    if out.strip() == "0":
        pytest.skip("no compiler here")
    found = max(len(PREFETCH.findall(f.read_bytes())) for f in tmp_path.glob("*.frit"))
    assert found == 0 if lines == 0 else found >= lines


@pytest.mark.parametrize("shape", [(3, 7), (64, 64), (5, 1000), (2, 20000), (1, 70000), (300, 1), (1, 1), (4, 90000)])
@pytest.mark.parametrize("jit", ["always", "interpret"])
def test_to_the_end_of_memory(shape, jit):
    """The last row ends with the last page that there is."""
    n = 4 * shape[0] * shape[1]
    room = mmap.mmap(-1, (n + 8191) // 4096 * 4096)
    a = np.frombuffer(room, "f4", shape[0] * shape[1], len(room) - n).reshape(shape)
    a[...] = np.random.default_rng(3).standard_normal(shape)
    t = frit.asarray(a)
    with frit.config(jit=jit, past_bytes=0):
        for f in (lambda x: x * 2 + x, lambda x: x.sum(axis=1), lambda x: x.var(axis=1), lambda x: x[::-1].sum(axis=1),
                  lambda x: (x - x.mean(axis=1, keepdims=True)) * 2, lambda x: x[:, :5].sum(axis=1)):
            want = f(a)
            for _ in range(2):
                got = np.asarray(f(t))
                frit.wait_for_compiles(60)
                np.testing.assert_array_equal(got, want)
