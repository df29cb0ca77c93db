"""One library in one process: python -m benchmarks.worker LIBRARY THREADS, driven over pipes.

Commands are JSON lines: {"case": i, "do": "prepare"} checks the result and answers with the first
call's time; {"case": i, "do": "time", "seconds": s} answers with a list of times."""
import json
import os
import sys
import time

LIBRARY, THREADS = sys.argv[1], int(sys.argv[2])
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
             "NUMBA_NUM_THREADS", "FRIT_NUM_THREADS"):
    os.environ[name] = str(THREADS)
# Idle workers must not spin while another library is timed.
os.environ.update(OMP_WAIT_POLICY="passive", KMP_BLOCKTIME="0", GOMP_SPINCOUNT="0", JAX_ENABLE_X64="1",
                  JAX_PLATFORMS="cpu", XLA_FLAGS=f"--xla_cpu_multi_thread_eigen={str(THREADS > 1).lower()}")
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])

import numpy as np  # noqa: E402

from benchmarks.cases import CASES  # noqa: E402


class TorchNames:
    """torch by NumPy's names."""

    def __init__(self, torch):
        for n in ("exp", "log", "sqrt", "tanh", "maximum", "minimum", "where", "abs"):
            setattr(self, n, getattr(torch, n))
        self.torch = torch
        self.sum = lambda x, axis=None, keepdims=False: (
            torch.sum(x) if axis is None else torch.sum(x, dim=axis, keepdim=keepdims))
        self.mean = lambda x, axis=None, keepdims=False: (
            torch.mean(x) if axis is None else torch.mean(x, dim=axis, keepdim=keepdims))
        self.max = lambda x, axis, keepdims=False: torch.amax(x, dim=axis, keepdim=keepdims)
        self.maximum = lambda x, y: torch.clamp(x, min=float(y))
        self.minimum = lambda x, y: torch.clamp(x, max=float(y))


def make(case):
    """A function without arguments that computes the case with this library, or None."""
    inputs = case.inputs()
    if LIBRARY == "numpy":
        return lambda: case.run(np, *inputs)
    if LIBRARY == "frit":
        import frit
        tensors = [frit.asarray(a) for a in inputs]
        frit.eval(*tensors)

        def f():
            out = case.run(frit, *tensors)
            frit.eval(out)
            return out
        return f
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
    if LIBRARY == "jax":
        import jax
        import jax.numpy as jnp
        arrays = [jnp.asarray(a) for a in inputs]
        jitted = jax.jit(lambda *a: case.run(jnp, *a))
        return lambda: jax.block_until_ready(jitted(*arrays))
    import torch
    torch.set_num_threads(THREADS)
    names = TorchNames(torch)
    arrays = [torch.from_numpy(a) for a in inputs]

    def eager(*a):
        return case.run(names, *a)
    run = torch.compile(eager) if LIBRARY == "torch compile" else eager

    def g():
        with torch.no_grad():
            return run(*arrays)
    return g


def check(case, got):
    want = case.run(np, *case.inputs())
    want = want if isinstance(want, tuple) else (want,)
    got = got if isinstance(got, (tuple, list)) else (got,)
    for g, w in zip(got, want, strict=True):
        g = np.asarray(g)
        scale = max(float(np.abs(w).max()), 1e-30)
        if g.shape != np.shape(w) or not np.allclose(g, w, rtol=case.rtol, atol=case.rtol * scale):
            return f"wrong result: off by {float(np.abs(g - w).max()):.2g}"
    return None


def main():
    # Answers go to the real stdout; whatever a library prints goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ready = {}
    for line in sys.stdin:
        job = json.loads(line)
        case = CASES[job["case"]]
        answer = {}
        try:
            if job["do"] == "prepare":
                f = make(case)
                if f is None:
                    answer = {"skip": "not stated for it"}
                else:
                    start = time.perf_counter()
                    result = f()
                    answer["cold"] = time.perf_counter() - start
                    wrong = check(case, result)
                    if wrong:
                        answer = {"skip": wrong}
                    else:
                        del result
                        for _ in range(3):
                            f()
                        if LIBRARY.startswith("frit"):
                            import frit
                            frit.wait_for_compiles(60)
                            f()
                        ready[job["case"]] = f
            elif job["do"] == "drop":
                ready.pop(job["case"], None)
            else:
                f, times, end = ready[job["case"]], [], time.perf_counter() + job["seconds"]
                inner = job.get("inner", 1)
                while time.perf_counter() < end or len(times) < 3:
                    start = time.perf_counter()
                    for _ in range(inner):
                        f()
                    times.append((time.perf_counter() - start) / inner)
                answer["times"] = times
        except Exception as e:
            answer = {"skip": f"{type(e).__name__}: {str(e)[:80]}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
