"""Machine code of reductions asks for memory that the next rows read, and the interpreter for what the next block loads
while it stores past the caches: which code does, and that it may be asked for wherever it would be, as there is no such
row after the last."""
import mmap
import os
import platform
import re

import numpy as np
import pytest

import frit

from .common import BOTH_WAYS, machine_code

pytestmark = pytest.mark.core

REF = os.environ.get("FRIT_BACKEND") == "ref"
FIRST_CACHE = re.compile(rb"\x0f\x18[\x08-\x0f\x48-\x4f\x88-\x8f]")     # prefetcht0
SECOND_CACHE = re.compile(rb"\x0f\x18[\x10-\x17\x50-\x57\x90-\x97]")    # prefetcht1


@pytest.mark.own
@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has other instructions")
@pytest.mark.parametrize("expression,first,second", [
    # Two of each operand: a step is four blocks of the eight numbers that a sum has in registers.
    ("(a * b).sum()", 4, 4),
    ("frit.exp(a - a.max(axis=1, keepdims=True))", 0, 1), ("a.var(axis=1)", 1, 0), ("a * b + a", 0, 0),
    # Accumulated alone, and eight rows (of both operands) together.
    ("(a * b).sum(axis=0)", 2, 8), ("(a * b).sum(axis=0) * 2, a.max(axis=0)", 2, 8), ("a[:, ::3].sum(axis=1)", 0, 0)])
def test_which_code_asks(tmp_path, expression, first, second):
    """How many lines a step asks the first and the second cache for, at least. Code of sums alone can ask either:
    it depends on how much there is."""
    setup = 'a, b = (frit.asarray(np.arange(5000, dtype="f4").reshape(50, 100) + k) for k in (0, 1))'
    kernels = machine_code(tmp_path, setup, expression)
    for instruction, lines in ((FIRST_CACHE, first), (SECOND_CACHE, second)):
        found = max(len(instruction.findall(code)) for code in kernels)
        assert found == 0 if lines == 0 else found >= lines


FIVE = "a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1]"


@pytest.mark.parametrize("expression,ahead,behind", [
    (FIVE, 1, 2), (f"np.sqrt({FIVE}) * b[1:-1, 1:-1]", 1, 2), (f"{FIVE} + b[1:-1, 1:-1] + c[1:-1, 1:-1]", 0, 0),
    ("a[2:, 1:] - a[:-2, 1:]", 1, 1),
    ("a[:, :300] * a[:, 300:]", 0, 0), ("a[1:] - a[:-1]", 0, 0), ("a[:30] * a[-30:]", 0, 0), (f"({FIVE}).sum(1)", 0, 0),
    ("a[1:-1, :40] + a[2:, :40] + a[:-2, :40]", 1, 2)])
def test_which_rows_are_asked_for(expression, ahead, behind):
    """Of stencils whose results are stored past the caches, the row that is read first and those behind it."""
    f = eval(f"lambda a, b, c: {expression}", {"np": np})
    for limit, n_rows, want in ((0, 60, (ahead, behind)), (1 << 30, 61, (0, 0))):
        args = [np.arange(600. * n_rows).reshape(n_rows, 600) + k for k in range(3)]
        with frit.config(nontemporal_bytes=limit):
            text = str(frit.explain(f, "loops")(*args))
        assert (text.count(" prefetch\n"), text.count(" prefetch-row")) == want


@pytest.mark.own
@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has other instructions")
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_stencils_ask(tmp_path, limit):
    setup = "a = frit.asarray(np.arange(60. * 600).reshape(60, 600))"
    kernels = machine_code(tmp_path, setup, FIVE, FRIT_NONTEMPORAL_BYTES=str(limit))
    first, second = (max(len(instruction.findall(code)) for code in kernels)
                     for instruction in (FIRST_CACHE, SECOND_CACHE))
    assert first == 0 and (second == 0 if limit else second >= 3)


@pytest.mark.parametrize("jit", BOTH_WAYS)
def test_rows_of_a_plan_that_lie_otherwise(jit):
    """Which row leads is what it was when the plan was made: others may follow that lead, or are not in order."""
    a = np.random.default_rng(5).standard_normal((80, 600))
    t = frit.asarray(a)
    with frit.config(nontemporal_bytes=0, jit=jit):
        for i, j, k in ((2, 1, 0), (0, 1, 2), (20, 0, 60), (5, 5, 5), (1, 60, 2), (2, 1, 0)):
            got = t[i:i + 20, 1:-1] * t[j:j + 20, :-2] + t[k:k + 20, 2:]
            want = a[i:i + 20, 1:-1] * a[j:j + 20, :-2] + a[k:k + 20, 2:]
            assert np.array_equal(np.asarray(got), want)


@pytest.mark.parametrize("shape", [(3, 7), (64, 64), (5, 1000), (2, 20000), (1, 70000), (300, 1), (1, 1), (4, 90000)])
@pytest.mark.parametrize("jit", BOTH_WAYS)
def test_to_the_end_of_memory(shape, jit):
    """The last row ends with the last page that there is."""
    n = 4 * shape[0] * shape[1]
    room = mmap.mmap(-1, (n + 8191) // 4096 * 4096)
    a = np.frombuffer(room, "f4", shape[0] * shape[1], len(room) - n).reshape(shape)
    a[...] = np.random.default_rng(3).standard_normal(shape)
    t = frit.asarray(a)
    with frit.config(jit=jit, nontemporal_bytes=0):
        for f in (lambda x: x * 2 + x, lambda x: x.sum(axis=1), lambda x: x.var(axis=1), lambda x: x[::-1].sum(axis=1),
                  lambda x: (x - x.mean(axis=1, keepdims=True)) * 2, lambda x: x[:, :5].sum(axis=1)):
            want = f(a)
            for _ in range(2):
                np.testing.assert_array_equal(np.asarray(f(t)), want)
