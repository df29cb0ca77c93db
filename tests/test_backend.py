"""The seam between what evaluates and what runs kernels: csrc/backends/backend.h.

FRIT_BACKEND=apart is the CPU in memory of its own, which is mapped without access between its calls: whoever touches it
there ends the process. `make check` runs the core tests on it; here is that the wall is one, and what is copied when."""
import json
import os
import signal
import subprocess
import sys

import pytest


def child(code, backend="apart", **env):
    return subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True,
                          env={**os.environ, "FRIT_BACKEND": backend, **env})


HEAD = """
import ctypes, json, numpy as np, frit
from frit import _core
def copies(f):
    before = _core.stats()
    f()
    after = _core.stats()
    return [after[k] - before[k] for k in ("n_copies_in", "n_copies_out")]
"""


def said(code, backend="apart", **env):
    done = child(code, backend, **env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


WALL = """
y = frit.exp(frit.ones(1000))
frit.eval(y)
maps = [line.split() for line in open("/proc/self/maps")]
at = {length: low for low, high in (m[0].split("-") for m in maps if m[1][0] == "-") for length in [int(high, 16) - int(low, 16)]}
at = int(at[max(at)], 16) & -(1 << 21)
print(max(np.asarray(y)), flush=True)
"""


def test_memory_of_its_own_cannot_be_read():
    assert child(WALL + "print('unread')").stdout.split()[-1] == "unread"
    done = child(WALL + "ctypes.string_at(at + (1 << 21), 64); print('read')")
    # (The sanitizers report the signal and exit.)
    assert (done.returncode == -signal.SIGSEGV or "SEGV" in done.stderr) and "read" not in done.stdout


def test_what_is_computed_stays_there_until_somebody_looks():
    code = """
x = np.arange(1000.0)
t = frit.asarray(x)
out = []
a = frit.sqrt(t); out.append(copies(lambda: frit.eval(a)))            # the operand goes in
b = a * 2; out.append(copies(lambda: frit.eval(b)))                   # nothing
c = (b + a).sum(); out.append(copies(lambda: frit.eval(c)))           # nothing
out.append(copies(lambda: np.asarray(b)))                             # comes out,
out.append(copies(lambda: np.asarray(b)))                             # once
out.append(copies(lambda: float(c)))                                  # as few bytes as wanted
d = b + a; out.append(copies(lambda: frit.eval(d)))                   # who was looked at lives on the host
print(json.dumps([out, bool((np.asarray(d) == np.sqrt(x) * 2 + np.sqrt(x)).all())]))
"""
    assert said(code) == [[[1, 0], [0, 0], [0, 0], [0, 1], [0, 0], [0, 1], [1, 0]], True]
    assert said(code, "cpu") == [[[0, 0]] * 7, True]


def test_stores_reach_memory_of_others():
    code = """
x = np.arange(12.0).reshape(3, 4)
@frit.accelerate
def f(a):
    a[1] += 5
print(json.dumps([copies(lambda: f(x)), x.tolist()]))
"""
    values = [[0.0, 1, 2, 3], [9, 10, 11, 12], [8, 9, 10, 11]]
    assert said(code) == [[1, 1], values]
    assert said(code, "cpu") == [[0, 0], values]


def test_one_element_of_a_large_array_is_not_the_array():
    code = """
y = frit.ones((1000, 1000)) * 3
frit.eval(y)
before = _core.stats()["live_bytes"]
print(json.dumps([copies(lambda: float(y[7, 8])), float(y[1, 2]), before == _core.stats()["live_bytes"]]))
"""
    assert said(code) == [[0, 1], 3.0, True]


@pytest.mark.parametrize("backend", ["ref", "apart"])
def test_others_have_the_bits_of_the_cpu(backend):
    code = """
rng = np.random.default_rng(0)
@frit.accelerate
def step(x, w, y):
    h = np.tanh(x @ w)
    p = np.exp(h - h.max(1, keepdims=True)); p /= p.sum(1, keepdims=True)
    w -= 0.1 * (x.T @ (p - y))
    order = np.argsort(p[0])
    return p[:, order].cumsum(1), p[p > 0.5], w
x, w, y = rng.random((40, 9)), rng.random((9, 5)), rng.random((40, 5))
for _ in range(5): out = step(x, w, y)
print(json.dumps([np.asarray(o).tobytes().hex() for o in out]))
"""
    assert said(code, backend) == said(code, "cpu")


SIZES = """
import sys
def compiled(f, *arrays):
    for _ in range(3): frit.eval(f(*map(frit.asarray, arrays)))
    assert frit.wait_for_compiles(60)
    return frit.stats()["compiled"]
"""


def test_sizes_near_a_bound_take_the_code_that_there_is(tmp_path):
    tmp_path.chmod(0o700)
    code = SIZES + """
with frit.config(nontemporal_bytes=24_000, last_cache=1 << 30, num_threads=1):
    x = [np.arange(n / 4, dtype="f4") for n in (23_000, 25_000, 40_000, 100_000)]
    along = [compiled(lambda a, b: a * b + a, a, a[::-1].copy()) for a in x]
x = [np.arange(n * n, dtype="f4").reshape(n, n) for n in (60, 70, 80, 200)]
across = [compiled(lambda a: a.T * 3 - a, a) for a in x]
same = all((np.asarray(frit.asarray(a).T * 3 - frit.asarray(a)) == a.T * 3 - a).all() for a in x)
print(json.dumps([along, across, same]))
"""
    env = {"FRIT_JIT": "always", "FRIT_CACHE_DIR": str(tmp_path)}
    got = said(code, "cpu", **env)
    if not got[0][0]:
        pytest.skip("no compiler here")
    # The last of each is far beyond the bound: stored past the caches, and packed.
    assert got == [[1, 1, 1, 2], [3, 3, 3, 4], True]


def test_the_reference_may_be_had_at_any_time():
    code = """
x = np.sqrt(np.arange(3e5)).reshape(100, 3000)
f = lambda a: np.exp(a - a.max(0)).sum(1) + (a.T * 2).cumsum(1)[0].sum()
t = frit.asarray(x)
want = np.asarray(f(t))
with frit.config(backend="ref"):
    n = frit.stats()["ref"]
    got, ran = np.asarray(f(t)), frit.stats()["ref"] - n
    other = np.asarray(f(t[:50]))
again, same = np.asarray(f(t[:50])), np.asarray(f(t))
try:
    with frit.config(backend="apart"): refused = ""
except ValueError as e:
    refused = str(e)
print(json.dumps([ran > 0, bool((got == want).all() and (same == want).all() and (again == other).all()), refused]))
"""
    assert said(code, "cpu") == [True, True, "FRIT_BACKEND=apart has memory of its own: set it in the environment"]
