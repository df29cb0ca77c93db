"""What the tests share: comparing a result with NumPy's, bit by bit or within a few ULP."""
import atexit
import functools
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest

import frit
from frit.testing import bits as bits_of, ulp_distance  # noqa: F401

SOAK = os.environ.get("FRIT_SOAK", "") not in ("", "0")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("FRIT_SHARED") or os.path.join(os.path.dirname(ROOT), "shared")  # programs, data
BOTH_WAYS = [pytest.param("always", marks=pytest.mark.own), "interpret"]     # of a setting "jit"; compiled once is enough


def soak(*values):
    """Parameters that `make check` leaves out, for others stand for them."""
    return [pytest.param(v, marks=pytest.mark.soak) for v in values]


COMPILED = os.environ.get("FRIT_JIT") == "always"       # each new kernel takes its time


# Kernels are compiled by a compiler, or for the GPU of tests/cuda/; that takes most of the time.
SLOW = not SOAK and (COMPILED or (os.environ.get("FRIT_DEVICE", "cpu") != "cpu" and "fake-gpu" in os.environ.get("FRIT_CUDA_LIB", "")))


def few(*values):
    """Parameters that `make check` leaves out where each kernel takes its time: elsewhere it has them, and here others stand for them."""
    return soak(*values) if SLOW else list(values)


_objects = {}


@functools.cache
def object_folder():
    folder = tempfile.mkdtemp(prefix="frit-objects-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def in_csrc(*patterns):
    return [f for p in patterns for f in sorted(glob.glob(os.path.join(ROOT, "csrc", p)))]


def objects(sources, *flags):
    """The object files of C sources, each compiled once with these flags for all tests of this process."""
    keys, running = [(str(s), flags) for s in sources], []
    for key in keys:
        if key in _objects:
            continue
        _objects[key] = os.path.join(object_folder(), f"{len(_objects)}.o")
        if len(running) == 2:
            assert running.pop(0).wait() == 0
        running.append(subprocess.Popen([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE=", f"-I{ROOT}/csrc", *flags,
                                         "-c", key[0], "-o", _objects[key]]))
    assert all([r.wait() == 0 for r in running])
    return [_objects[key] for key in keys]


# How parts of csrc are compiled apart, and with its assertions.
APART = ("-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
ASSERTED = (*APART, "-DFR_DEBUG")
MICRO_CODE = ("jit/loop.c", "jit/micro.c", "jit/recipe*.c", "ir/op.c", "core/dtype.c", "base/*.c")
REFERENCE = ("backends/ref/ref.c", "backends/ref/micro_eval.c")


def newest(*files):
    return max(os.stat(f).st_mtime for f in files)


def generator():
    """The program that prints the block kernels: setup.py's, or one compiled here if that is older than its sources."""
    sources = in_csrc("jit/gen/*.[ch]", "jit/emit_text*", "jit/*.h", "ir/op*", "core/dtype*", "base/*", *MICRO_CODE)
    for program in glob.glob(os.path.join(ROOT, "build/temp.*/release/gen")):
        if newest(program) >= newest(*sources):
            return program
    made = objects(in_csrc("jit/gen/*.c", "jit/emit_text.c", *MICRO_CODE), *APART)
    subprocess.run([os.environ.get("CC", "cc"), "-o", object_folder() + "/gen", *made, "-lm", "-lpthread"], check=True)
    return object_folder() + "/gen"


def block_kernels(level, *flags):
    """Objects of the block kernels of a level: setup.py's, or compiled here with these flags."""
    program = generator()
    folder, made = os.path.dirname(program), glob.glob(os.path.join(os.path.dirname(program), f"obj-{level}/kernels/*.o"))
    if made and newest(folder + "/kernels", *glob.glob(folder + "/kernels/*"), *in_csrc("backends/cpu/*.h")) <= min(map(newest, made)):
        return made
    folder = tempfile.mkdtemp(dir=object_folder())
    subprocess.run([program, folder, "4"], check=True)
    return objects(sorted(glob.glob(folder + "/kernels_*.c")), "-fPIC", f"-DFR_LEVEL={level}", *flags)


def machine_code(folder, setup, expression, **settings):
    """The kernels into which an evaluation of the expression is compiled, as files of the cache; skips without a compiler."""
    folder.chmod(0o700)
    code = f"""
import numpy as np, frit
{setup}
for _ in range(3):
    frit.eval({expression})
print(frit.wait_for_compiles(60) and frit.stats()["compiled"])
"""
    env = {**os.environ, "FRIT_JIT": "always", "FRIT_CACHE_DIR": str(folder), **settings}
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, env=env,
                         stdout=subprocess.PIPE, text=True).stdout
    if out.strip() == "0":
        pytest.skip("no compiler here")
    return [f.read_bytes() for f in folder.glob("*.frit")]


def complex_distance(a, b):
    """Distance of complex numbers in units of the larger modulus' last place; specials part by part."""
    a, b = np.asarray(a), np.asarray(b)
    part = np.float32 if a.dtype.itemsize == 8 else np.float64
    with np.errstate(all="ignore"):
        scale = np.maximum(np.maximum(np.abs(a.real), np.abs(a.imag)).astype(part),
                           np.finfo(part).tiny)
        d = np.maximum(np.abs(a.real - b.real), np.abs(a.imag - b.imag)) / np.spacing(scale)
        finite = np.isfinite(a) & np.isfinite(b)
        # Which infinity or NaN a part becomes is a matter of taste in C99's annex G as well.
        return np.where(finite, d, np.where(np.isfinite(a) == np.isfinite(b), 0.0, np.inf))


def explain_difference(got, want, bad):
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return (f"{int(np.count_nonzero(bad))} of {bad.size} elements differ; at {at}: "
            f"{got[at]!r} instead of {want[at]!r}")


def difference(got, want, ulp=0, strides=True):
    """What is different between a result of frit and NumPy's, as a sentence; None if nothing is."""
    dtype, shape = got.dtype, got.shape
    if dtype != want.dtype:
        return f"dtype {dtype} instead of {want.dtype}"
    if shape != want.shape:
        return f"shape {shape} instead of {want.shape}"
    if strides and isinstance(want, np.ndarray) and want.size > 0:
        mine = got.strides
        if any(m != t and n > 1 for m, t, n in zip(mine, want.strides, shape)):
            return f"strides {mine} instead of {want.strides} (shape {shape})"
    a, b = np.asarray(got), np.asarray(want)
    if ulp and dtype.kind == "c":
        bad = complex_distance(a, b) > ulp
    elif ulp and dtype.kind == "f":
        bad = ulp_distance(a, b) > ulp
    else:
        bad = bits_of(a) != bits_of(b)
        if bad.ndim > a.ndim:
            bad = bad.any(-1)
    return explain_difference(a, b, bad) if bad.any() else None


def assert_same(got, want, ulp=0, strides=True, what=""):
    wrong = difference(got, want, ulp, strides)
    assert wrong is None, f"{what}: {wrong}" if what else wrong


def same_parts(got, want):
    """The same types, and the same values and dtypes, of lists and tuples part by part."""
    assert type(got) is type(want)
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            same_parts(g, w)
    elif want is not None:
        np.testing.assert_array_equal(got, want, strict=True)


def specials(dtype):
    """Values at which operations go wrong, as an array."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        i = np.iinfo(dtype)
        v = [0, 1, 2, 3, 5, 7, 10, 63, i.max, i.max - 1, i.max // 2, i.min, i.min + 1]
        if dtype.kind == "i":
            v += [-1, -2, -3, -7, -10, i.min // 2]
        return np.array(sorted(set(v)), dtype)
    if dtype.kind == "f":
        f = np.finfo(dtype)
        v = [0.0, 1.0, 1.5, 2.0, 3.0, 0.1, 0.5, 10.0, 1e3, f.max, f.max / 2, f.tiny, f.tiny / 2,
             f.smallest_subnormal, f.eps, 1 + f.eps, 1 - f.epsneg, np.inf, np.nan, np.pi, 7.0]
        v = np.array(v, dtype)
        return np.concatenate([v, -v])
    part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
    v = np.array([0.0, -0.0, 1.0, -2.0, 0.5, np.inf, -np.inf, np.nan, 3.0], part)
    re, im = np.meshgrid(v, v)
    out = np.empty(re.size, dtype)
    out.real, out.imag = re.ravel(), im.ravel()
    return out


def kernels_of(work):
    """Dispatches that work() needs when the plans are known; work() evaluates what it makes."""
    work()
    before = frit.stats()["kernels"]
    work()
    return frit.stats()["kernels"] - before


class NotNow:
    """Stands for something that is not there, as a web framework's request does outside of one."""

    @property
    def __class__(self):
        raise RuntimeError("asked")

    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")
