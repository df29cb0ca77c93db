"""One library in one process: python -m benchmarks.worker LIBRARY THREADS, driven over pipes.

Commands are JSON lines: {"case": i, "do": "prepare"} checks the result and answers with the first call's
time; {"case": i, "do": "time", "seconds": s} answers with a list of times, and for frit with whether several threads
ran it; {"copy": n_bytes, "case": i}, to the worker "copy", answers with the bandwidth of copying so many bytes, and
with what a loop in C takes for the case."""
import inspect
import json
import os
import sys
import textwrap
import time

LIBRARY, THREADS = sys.argv[1], int(sys.argv[2])
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
             "NUMEXPR_MAX_THREADS", "NUMBA_NUM_THREADS", "FRIT_NUM_THREADS"):
    os.environ[name] = str(THREADS)
# Idle workers must not spin while another library is timed.
os.environ.update(OMP_WAIT_POLICY="passive", KMP_BLOCKTIME="0", GOMP_SPINCOUNT="0", JAX_ENABLE_X64="1",
                  JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_cpu_multi_thread_eigen={str(THREADS > 1).lower()}",
                  TORCHINDUCTOR_COMPILE_THREADS="1")
if LIBRARY == "frit interpreted":
    os.environ["FRIT_JIT"] = "interpret"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import numpy as np  # noqa: E402

from benchmarks.cases import CASES  # noqa: E402
from benchmarks.timing import timed  # noqa: E402


class TorchNames:
    """torch by NumPy's names."""

    def __init__(self, torch):
        for n in ("exp", "log", "sqrt", "tanh", "where", "abs"):
            setattr(self, n, getattr(torch, n))
        self.sum = lambda x, axis=None, keepdims=False: (
            torch.sum(x) if axis is None else torch.sum(x, dim=axis, keepdim=keepdims))
        self.mean = lambda x, axis=None, keepdims=False: (
            torch.mean(x) if axis is None else torch.mean(x, dim=axis, keepdim=keepdims))
        self.max = lambda x, axis=None, keepdims=False: (
            torch.max(x) if axis is None else torch.amax(x, dim=axis, keepdim=keepdims))
        self.var = lambda x: torch.var(x, unbiased=False)


def make_frit(case, inputs):
    """Lazily: what a notebook does, traced anew at every call."""
    import frit
    tensors = [frit.asarray(a) for a in inputs]
    frit.eval(*tensors)

    def f():
        out = case.run(frit, *tensors)
        frit.eval(out)
        return out
    return f


def make_accelerated(case, inputs):
    """NumPy arrays in, NumPy arrays out: the function as a user has it, over the NumPy of its module."""
    import frit
    text = textwrap.dedent(inspect.getsource(case.run)).replace("@staticmethod\n", "").replace("(xp, ", "(", 1)
    names = dict(vars(inspect.getmodule(case.run)), xp=np)
    exec(compile(text, inspect.getsourcefile(case.run), "exec"), names)
    g = frit.accelerate(names["run"])
    return lambda: g(*inputs)


def make_jax(case, inputs):
    import jax
    import jax.numpy as jnp
    arrays = [jnp.asarray(a) for a in inputs]
    run = getattr(case, "jax", case.run)
    jitted = jax.jit(lambda *a: run(jnp, *a))
    return lambda: jax.block_until_ready(jitted(*arrays))


def make_torch(case, inputs):
    import torch
    torch.set_num_threads(THREADS)
    names = TorchNames(torch)
    arrays = [torch.from_numpy(a) for a in inputs]

    def run(*a):
        return case.run(names, *a)
    if LIBRARY == "torch compile":
        # All cases share the code object of run(), and a few recompilations of one are all torch makes.
        torch._dynamo.reset()
        run = torch.compile(run, dynamic=False)

    def g():
        with torch.no_grad():
            return run(*arrays)
    return g


def make(case, inputs):
    """A function without arguments that computes the case with this library, or None."""
    if LIBRARY == "numpy":
        return lambda: case.run(np, *inputs)
    if LIBRARY == "numexpr":
        if not hasattr(case, "numexpr"):
            return None
        import numexpr
        numexpr.set_num_threads(THREADS)
        return lambda: case.numexpr(numexpr, *inputs)
    if LIBRARY == "numba":
        if not hasattr(case, "numba"):
            return None
        import numba
        numba.set_num_threads(THREADS)
        g = case.numba(numba)
        return lambda: g(*inputs)
    return {"frit": make_frit, "frit interpreted": make_frit, "frit accelerate": make_accelerated, "jax": make_jax, "torch": make_torch,
            "torch compile": make_torch}[LIBRARY](case, inputs)


def listed(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def check(case, got, want):
    """What is wrong with a result, or None."""
    for g, w in zip(listed(got), want, strict=True):
        g = np.asarray(g)
        scale = max(float(np.abs(w).max()), 1e-30)
        rtol = case.rtol[case.dtype]
        if g.shape != np.shape(w):
            return f"wrong result: shape {g.shape}"
        if g.ndim and g.dtype != w.dtype:
            return f"wrong result: dtype {g.dtype}"
        if not np.allclose(g, w, rtol=rtol, atol=rtol * scale):
            return f"wrong result: off by {float(np.abs(g - w).max()):.2g}"
    return None


def prepare(case):
    """(function to time, answer); no function without a right result."""
    want = listed(case.run(np, *case.inputs()))
    inputs = case.inputs()
    answer = {"bytes": case.n_bytes(inputs, want)}
    f = make(case, inputs)
    if f is None:
        return None, {**answer, "skip": "not stated for it"}
    calls, start = 0, time.perf_counter()
    result = f()
    answer["cold"] = time.perf_counter() - start
    wrong = check(case, result, want)
    del result
    end = time.perf_counter() + 0.05
    while calls < 3 or time.perf_counter() < end:       # until it is worth compiling, and has been asked for
        f()
        calls += 1
    if LIBRARY.startswith("frit"):
        import frit
        frit.wait_for_compiles(60)
    wrong = wrong or check(case, f(), want)     # now by the code that is timed
    return (None, {**answer, "skip": wrong}) if wrong else (f, answer)


def dispatches():
    """frit's so far, and those of them by several threads"""
    if not LIBRARY.startswith("frit"):
        return 0, 0
    import frit
    stats = frit.stats()
    return stats["kernels"], stats["shared"]


def is_shared(before, after):
    """Whether more than the odd trial was by several threads"""
    return (after[1] - before[1]) * 10 > after[0] - before[0]


def main():
    # Answers go to the real stdout; whatever a library prints goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ready, copies, bounds = {}, None, None
    for line in sys.stdin:
        job = json.loads(line)
        answer = {}
        try:
            if "copy" in job:
                if copies is None:
                    from benchmarks.bandwidth import Copies
                    from benchmarks.bounds import Bounds
                    copies, bounds = Copies(THREADS), Bounds()
                if copies.lib:
                    answer["rate"], answer["stores"] = copies.best(job["copy"])
                if THREADS == 1 and CASES[job["case"]].memory_bound:
                    answer["loop"] = bounds.best(CASES[job["case"]])
            elif job["do"] == "prepare":
                f, answer = prepare(CASES[job["case"]])
                if f:
                    ready[job["case"]] = f
            elif job["do"] == "drop":
                ready.pop(job["case"], None)
            else:
                before = dispatches()
                answer["times"] = timed(ready[job["case"]], job["seconds"])
                answer["shared"] = is_shared(before, dispatches())
        except Exception as e:
            answer = {"skip": f"{type(e).__name__}: {str(e)[:80]}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
