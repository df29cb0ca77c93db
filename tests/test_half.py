"""Half precision goes through single precision a register at a time where the processor converts it (F16C): the
code has those instructions, and the bits are those of the levels that have none."""
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT

pytestmark = pytest.mark.core

REF = os.environ.get("FRIT_BACKEND") == "ref"
# Without the registers they name: vcvtph2ps and vcvtps2ph, for registers of 64 bytes (EVEX) and of 32 (VEX).
CODES = {"v4": (b"\x7d\x48\x13", b"\x7d\x48\x1d"), "v3": (b"\x7d\x13", b"\x7d\x1d")}


def run(code, **env):
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, **env}).stdout.split()


COMPILED = """
import numpy as np, frit
a, b = (frit.asarray(np.arange(5000).astype("f2") + np.float16(k)) for k in (0, 1))
for _ in range(3):
    frit.eval(a * b + a)
print(frit._core.show_config()["isa"], frit.wait_for_compiles(60) and frit.stats()["compiled"])
"""


@pytest.mark.own
@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has no such instructions")
@pytest.mark.parametrize("level", ["v4", "v3", "v2"])
def test_compiled_code_has_the_instructions(tmp_path, level):
    tmp_path.chmod(0o700)
    isa, compiled = run(COMPILED, FRIT_JIT="always", FRIT_ISA=level, FRIT_CACHE_DIR=str(tmp_path))
    if compiled == "0" or isa != level:
        pytest.skip("no compiler here, or no such processor")
    code = b"".join(f.read_bytes() for f in tmp_path.glob("*.frit"))
    for instruction in CODES["v4" if level == "v2" else level]:
        assert (instruction in code) == (level != "v2")


EVERYTHING = """
import hashlib
import numpy as np, frit

def bits(y):
    y = np.array(y)
    y[np.isnan(y)] = np.nan                 # a NaN's sign and payload are nobody's promise
    return hashlib.sha256(y.tobytes()).hexdigest()

x = np.arange(1 << 16, dtype="u2").view("f2")
a, b = frit.asarray(x), frit.asarray(np.random.default_rng(1).permutation(x))
# (single precision, near ties of half precision too)
f = np.arange(1 << 16, dtype="u4") * 0x8000 + np.arange(1 << 16, dtype="u4") % 5 * 0xfff
f = frit.asarray(f.astype("u4").view("f4"))
with np.errstate(all="ignore"):
    for t in (a * b, frit.sqrt(a), frit.exp(a * b + a) - b * 2, a[1:1001] * b[:1000] + a[::2][:1000], f.astype("f2"),
              a * np.float16(1.5) + b, frit.maximum(a, b) + 1, frit.floor(a) % 3, (a[:20000] * 0.01).sum(), a < b + 1,
              (a[:30000] * 0.5).reshape(300, 100).mean(axis=1), frit.ldexp(a, frit.arange(1 << 16) % 9)):
        print(bits(t))
"""


@pytest.mark.own
@pytest.mark.skipif(REF, reason="has one level")
@pytest.mark.parametrize("jit", ["always", "interpret"])
def test_the_same_bits_without_the_instructions(jit):
    want = run(EVERYTHING, FRIT_BACKEND="ref")
    for level in ("v4", "v3", "v2", "generic"):
        assert run(EVERYTHING, FRIT_JIT=jit, FRIT_ISA=level) == want


# Functions with short forms for half precision (recipe_math_half.c), and some without.
FUNCTIONS = ("log log2 log10 exp exp2 expm1 sinh cosh sin cos tan arctan arcsinh arctanh cbrt log1p tanh arcsin "
             "arccos arccosh").split()
TOP = 2.0**16


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument(name):
    x = np.arange(1 << 16, dtype="u2").view("f2")
    got = np.asarray(getattr(frit, name)(frit.asarray(x))).astype("f8")
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype("f8"))
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(got), nan)
    got, want = got[~nan], want[~nan]
    assert np.array_equal(np.signbit(got), np.signbit(want))
    exact = (want == 0) | np.isinf(want)
    assert np.array_equal(got[exact], want[exact])
    unit = np.ldexp(1.0, np.clip(np.frexp(want)[1] - 1, -14, 15) - 10)
    error = np.abs(np.clip(got, -TOP, TOP) - np.clip(want, -TOP, TOP)) / unit
    assert error.max() <= 0.55
