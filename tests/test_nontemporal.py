"""Results too large for the caches are stored past them: which those are, that machine code and the interpreter have such
stores, and NumPy's bits wherever a result begins and whatever it is made of."""
import os
import platform
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import frit
from benchmarks import dispatch_callgrind

from .common import ROOT, machine_code, soak

pytestmark = [pytest.mark.core, pytest.mark.own]

REF = os.environ.get("FRIT_BACKEND") == "ref"
FENCE = b"\x0f\xae\xf8"         # sfence, which ends a function with such stores and no other


def data(*shape, seed=0, dtype="f4"):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def marked(f):
    """In a call: what a comparison holds would be stored, too. Without machine code, for a choice that is close takes what
    other tests have compiled."""
    with frit.config(jit="interpret"):
        return str(frit.explain(f(), "loops")).count("nontemporal")


def test_which_results():
    with frit.config(nontemporal_bytes=1 << 16):
        a, b = frit.asarray(data(128, 128)), frit.asarray(data(128, 128, seed=1))
        assert marked(lambda: a + b) == 1
        assert marked(lambda: a.T + b) == 1
        assert marked(lambda: a[:64] + b[:64]) == 0     # half as much
        assert marked(lambda: (a + b).sum()) == 0
        assert marked(lambda: (a + b).sum(axis=0)) == 0
        wide = frit.asarray(data(128, 256))
        wide[:, ::2] = a + b                            # no line of it is whole
        assert marked(lambda: wide) == 0


@pytest.mark.parametrize("f,n_arrays", [
    (lambda a, b, c, n: a[1:] + b[1:], 3), (lambda a, b, c, n: a + 1, 2), (lambda a, b, c, n: (a - b) / (a + b), 3),
    (lambda a, b, c, n: a[1:] - a[:-1], 2), (lambda a, b, c, n: a * b + c, 4), (lambda a, b, c, n: a + c[:1], 2),
    (lambda a, b, c, n: a[:n // 2] * b[n // 2:], 1.5), (lambda a, b, c, n: a + np.arange(n, dtype="f4")[:, None], 2)])
def test_what_does_not_fit_into_the_last_cache(f, n_arrays):
    """Two thirds of it for one thread, as others have their part, and 7/8 for several: operands and results of a loop, each
    array once."""
    for n, threads, cache, want in ((200, 1, 1.45, 1), (208, 1, 1.55, 0), (216, 2, 1.1, 1), (224, 2, 1.2, 0)):
        arrays = [frit.asarray(data(n, 128, seed=k)) for k in range(3)]     # other rows: a plan is kept as it was made
        with frit.config(last_cache=int(n_arrays * arrays[0].nbytes * cache), num_threads=threads):
            assert marked(lambda: f(*arrays, n)) == want


@pytest.mark.parametrize("threads", [1, 2])
def test_what_several_arrays_of_one_dispatch_come_to(threads):
    """Each of them would fit, all together do not: eight sums of 300 KB in all, of which the cache keeps 2/3 and 7/8."""
    for n, cache, want in ((25, 1.4, 1), (26, 1.6, 0)) if threads == 1 else ((27, 1.1, 1), (28, 1.2, 0)):
        pairs = [[frit.asarray(data(n, 128, seed=k)) for k in (i, i + 8)] for i in range(8)]
        with frit.config(last_cache=int(24 * pairs[0][0].nbytes * cache), num_threads=threads):
            results = [a + b for a, b in pairs]
            text = frit._core.explain_text(results, "loops")
            assert text.count("nest") == 1 and text.count("nontemporal-code") == want
            for (a, b), got in zip(pairs, results):
                assert np.array_equal(np.asarray(got), np.asarray(a) + np.asarray(b))


def test_what_folds_takes_the_whole_of_it():
    def f(a, b):
        return a * (b - (a * b).sum(axis=1, keepdims=True))
    for n, threads, cache, want in ((200, 1, 0.99, 1), (208, 1, 1.01, 0), (216, 2, 0.99, 1), (224, 2, 1.01, 0)):
        a, b = (frit.asarray(data(n, 128, seed=k)) for k in (0, 1))
        with frit.config(last_cache=int(3 * a.nbytes * cache), num_threads=threads):
            assert marked(lambda: f(a, b)) == want


def test_what_waits_for_sums_or_is_little_does_not_go_past():
    with frit.config(last_cache=1 << 10):
        a = frit.asarray(data(300, 128))
        assert marked(lambda: a * 2) == 1
        assert marked(lambda: a - a.sum(axis=1, keepdims=True)) == 0
        d = frit.asarray(data(300, 128, seed=3))
        assert marked(lambda: a * (d - (a * d).sum(axis=1, keepdims=True))) == 1    # there is something else to read
        assert marked(lambda: a * a[0] - (a * a[0]).sum(axis=1, keepdims=True)) == 0
        b, c = (frit.asarray(data(300, 16, 8, seed=k)) for k in (1, 2))
        assert marked(lambda: (b + c) * 2) == 1
        assert marked(lambda: (b + c).sum(axis=0)) == 0


@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has no such stores")
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_the_code_has_such_stores(tmp_path, limit):
    setup = 'a, b = (frit.asarray(np.arange(5000, dtype="f4") + k) for k in (0, 1))'
    kernels = machine_code(tmp_path, setup, "a * b + a", FRIT_NONTEMPORAL_BYTES=str(limit))
    assert any(FENCE in code for code in kernels) == (limit == 0)


@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="compiles nothing; or has other instructions")
def test_long_loops_with_such_stores_are_vectors(tmp_path):
    """None multiplies one by one, however many arrays there are that a store could be thought to change."""
    setup = 'a, b, c, d, e, f = (frit.asarray(np.arange(5000, dtype="f4") + k) for k in range(6))'
    results = ", ".join(f"frit.exp(a * b + {k} * c) * (d - e * {k}) * f" for k in (2, 3, 4))
    kernels = machine_code(tmp_path, setup, results, FRIT_NONTEMPORAL_BYTES="0")
    one = re.compile(rb"\xc5[\x82\x8a\x92\x9a\xa2\xaa\xb2\xba\xc2\xca\xd2\xda\xe2\xea\xf2\xfa]\x59")     # vmulss
    assert any(FENCE in code for code in kernels) and not any(one.search(code) for code in kernels)


WHEREVER = """
import itertools
import numpy as np, frit

def check(f, *arrays):
    want = f(np, *[x.copy() for x in arrays])
    tensors = [frit.asarray(x) for x in arrays]
    for _ in range(2):
        got = f(frit, *[t.copy() for t in tensors])
        np.testing.assert_array_equal(np.asarray(got), want)

def into(xp, y, a):     # a slice: a line is shared with what is beside it
    y[first:first + n] = a[:n] * 2 + 1
    return y

def in_place(xp, y, a):
    y += a
    return y

def window(xp, y, a):
    y[1:-1, 1:-1] = a[1:-1, :-2] + a[1:-1, 2:]
    return y

def shifted(xp, y, a):
    y[1:] = y[:-1] + a[1:]
    return y

r = np.random.default_rng(0)
for dtype in "bhildDF":
    a, y = (r.integers(0, 50, 300).astype(dtype) for _ in range(2))
    for first, n in itertools.product((0, 1, 3, 15, 16), (1, 5, 15, 16, 17, 64, 65, 200)):
        check(into, y, a)
    check(in_place, y, a)
    check(shifted, y, a)
    check(lambda xp, y, a: y > a if dtype not in "DF" else y + a, y, a)
for h, w in ((33, 70), (5, 17), (64, 64)):
    a, y = (r.standard_normal((h, w)).astype("f4") for _ in range(2))
    check(window, y, a)
    check(lambda xp, y, a: y - xp.max(y, axis=1, keepdims=True) * a, y, a)
    check(lambda xp, y, a: y / xp.sum(a, axis=1, keepdims=True), y, a)
    check(lambda xp, y, a: xp.sum(y * a) + (y * a), y, a)
    check(lambda xp, y, a: xp.max(y * a) + (y * a), y, a)
    check(lambda xp, y, a: (y + a)[::-1, ::2] * 3, y, a)
a, y = (r.standard_normal((80, 90)).astype("f4") for _ in range(2))
check(lambda xp, y, a: y.T * 2 + a.T[::-1], y, a)
check(lambda xp, y, a: xp.ascontiguousarray(y.T) + a.reshape(90, 80), y, a)
assert frit.wait_for_compiles(60)
"""


@pytest.mark.parametrize("env", [{}, *soak({"FRIT_ISA": "v2"}, {"FRIT_ISA": "v3"}), {"FRIT_NUM_THREADS": "2"}], ids=str)
def test_bits_wherever_a_result_begins(env):
    subprocess.run([sys.executable, "-W", "ignore", "-c", WHEREVER], cwd=ROOT, check=True,
                   env={**os.environ, **env, "FRIT_JIT": "always", "FRIT_NONTEMPORAL_BYTES": "0"})


INTERPRETED = """
for dtype in ("i1", "f4", "f8", "c16"):
    a, y = (r.integers(0, 50, 9000).astype(dtype) for _ in range(2))
    for first, n in ((0, 9000), (1, 5000), (3, 4097), (7, 1100), (16, 8191)):
        check(into, y, a)
    check(in_place, y, a)
    check(shifted, y, a)
    check(lambda xp, y, a: y * a + a, y, a)
"""


@pytest.mark.parametrize("env", [{}, {"FRIT_NUM_THREADS": "2"}], ids=str)
def test_bits_of_whole_blocks_that_the_interpreter_stores(env):
    subprocess.run([sys.executable, "-W", "ignore", "-c", WHEREVER.replace("assert frit.wait", INTERPRETED + "assert frit.wait")],
                   cwd=ROOT, check=True, env={**os.environ, **env, "FRIT_JIT": "interpret", "FRIT_NONTEMPORAL_BYTES": "0"})


@pytest.mark.soak
@pytest.mark.skipif(REF or platform.machine() != "x86_64", reason="interprets nothing; or has no such stores")
@pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="valgrind runs no sanitizer")
def test_the_interpreter_has_such_stores(monkeypatch):
    """By what they cost: they go from a register in memory to the result, which otherwise is computed where it is."""
    count = []
    for limit in (0, 1 << 30):
        monkeypatch.setenv("FRIT_NONTEMPORAL_BYTES", str(limit))
        count.append(dispatch_callgrind.dumps(2, """
import os, numpy as np, frit
a, b = (frit.asarray(np.arange(100_000, dtype="f4") + k) for k in (0, 1))
for _ in range(3):
    frit.eval(a * b + a)
os.getppid()
frit.eval(a * b + a)
os.getppid()
""")[1])
    lines = 400_000 / 64
    assert 10 * lines < count[0] - count[1] < 60 * lines, count


@pytest.mark.parametrize("env", [*soak({"FRIT_JIT": "always"}), {"FRIT_JIT": "interpret"}], ids=str)
def test_random_programs(env):
    code = f"""
from tests.fuzz.programs import draw
from tests.fuzz.run import compare
for seed in range({20 if "always" in env.values() else 100}):
    wrong = compare(draw(seed).lines)
    assert not wrong, (seed, wrong)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True,
                   env={**os.environ, **env, "FRIT_NONTEMPORAL_BYTES": "0"})
