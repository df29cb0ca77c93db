"""What kernels reach on a GPU: their share of the bandwidth of a copy, beside torch, JAX and CuPy where they are installed.

    FRIT_DEVICE=cuda python -m benchmarks.gpu [--mb 256] [--only softmax,chain] [--html page.html]

Each program runs over arrays of f32 that are on the device, `--mb` in all that it reads; a time is the median of rounds of several
runs, after which the device is waited for. Bytes are the least that have to move: operands once, results once. The copy is
frit's own kernel of x + 0, measured in the same run; so a share is of what the device gives, not of its data sheet. Libraries take
turns, program by program, in one process."""
import argparse
import html
import statistics
import time

import numpy as np

ROUNDS, RUNS = 7, 10


def softmax(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(xp, x):
    d = x - x.mean(1, keepdims=True)
    return d / xp.sqrt((d * d).mean(1, keepdims=True) + 1e-5)


def log_sum_exp(xp, x):
    m = x.max(1, keepdims=True)
    return xp.log(xp.exp(x - m).sum(1)) + m[:, 0]


def chain(n):
    def f(xp, x):
        y = x
        for k in range(n):
            y = y * 0.99 + x if k % 2 else y + 0.5
        return y
    return f


def variance(xp, x):
    d = x - x.mean(1, keepdims=True)
    return (d * d).mean(1)


# name: the program, and elements of its result to each of its operand's, of rows of n
PROGRAMS = {
    "copy": (lambda xp, x: x + 0, lambda n: 1), "chain of 2": (chain(2), lambda n: 1), "chain of 10": (chain(10), lambda n: 1),
    "chain of 50": (chain(50), lambda n: 1), "softmax": (softmax, lambda n: 1), "layer norm": (layer_norm, lambda n: 1),
    "log-sum-exp": (log_sum_exp, lambda n: 1 / n), "variance": (variance, lambda n: 1 / n),
    "sum of rows": (lambda xp, x: x.sum(1), lambda n: 1 / n), "sum of columns": (lambda xp, x: x.sum(0), lambda n: 0),
}


def libraries():
    """name: (its functions, an array there, a function made fast, wait)"""
    import frit
    out = {"frit": (frit, lambda a: frit.asarray(a) + 0, lambda f: lambda x: frit.eval(f(frit, x)), frit.synchronize)}
    try:
        import torch
        if torch.cuda.is_available():
            names = type("names", (), {"exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt})
            torch.Tensor.max, old = (lambda t, axis, keepdims=False: old(t, axis, keepdim=keepdims).values), torch.Tensor.max
            out["torch.compile"] = (names, lambda a: torch.from_numpy(a).cuda(), lambda f: torch.compile(lambda x: f(names, x)), torch.cuda.synchronize)
    except ImportError:
        pass
    try:
        import jax
        if jax.default_backend() == "gpu":
            out["jax"] = (jax.numpy, jax.device_put, lambda f: (lambda g: lambda x: g(x).block_until_ready())(jax.jit(lambda x: f(jax.numpy, x))), lambda: None)
    except ImportError:
        pass
    try:
        import cupy
        if cupy.cuda.is_available():
            out["cupy"] = (cupy, cupy.asarray, lambda f: lambda x: f(cupy, x), cupy.cuda.runtime.deviceSynchronize)
    except ImportError:
        pass
    return out


def seconds(f, x, wait):
    """The median of rounds, of one run."""
    f(x)
    wait()
    found = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for _ in range(RUNS):
            f(x)
        wait()
        found.append((time.perf_counter() - begin) / RUNS)
    return statistics.median(found)


def page(rows, names, what):
    """One table, with a bar for each share."""
    cells = "".join(
        f"<tr><th>{html.escape(program)}</th>" + "".join(
            f"<td><span style='width:{min(share, 1.2) * 100:.0f}px'></span>{share:.2f}</td>" if share else "<td></td>"
            for share in shares) + "</tr>" for program, shares in rows)
    head = "".join(f"<th>{html.escape(n)}</th>" for n in names)
    return ("<!doctype html><meta charset=utf-8><title>frit on a GPU</title><style>body{font:15px sans-serif;max-width:60em;margin:2em auto;"
            "color-scheme:light dark}td span{display:inline-block;height:.7em;background:#48c;margin-right:.5em}td,th{padding:.2em 1em;"
            f"text-align:left}}</style><h1>Share of a copy's bandwidth</h1><p>{html.escape(what)}</p><table><tr><th></th>{head}</tr>{cells}</table>")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mb", type=float, default=256)
    p.add_argument("--row", type=int, default=4096)
    p.add_argument("--only", default="")
    p.add_argument("--html")
    args = p.parse_args()
    x = np.random.default_rng(0).normal(size=(max(1, int(args.mb * 2 ** 18) // args.row), args.row)).astype("f4")
    found, rows = libraries(), []
    chosen = [n for n in PROGRAMS if n == "copy" or not args.only or n in args.only.split(",")]
    print(f"{'':16s}" + "".join(f"{n:>22s}" for n in found))
    copy = None
    for program in chosen:
        f, results = PROGRAMS[program]
        n_bytes, line, shares = x.nbytes * (1 + results(args.row)), f"{program:16s}", []
        for _, there, fast, wait in found.values():
            try:
                took = seconds(fast(f), there(x), wait)
            except Exception as e:      # a library that can not do it is no reason to lose the others' figures
                line += f"{type(e).__name__:>22s}"
                shares.append(0)
                continue
            copy = copy or n_bytes / took
            shares.append(n_bytes / took / copy)
            line += f"{took * 1e3:10.3f} ms {shares[-1]:5.2f}   "
        rows.append((program, shares))
        print(line, flush=True)
    what = f"{x.nbytes / 2 ** 20:.0f} MB of f32, rows of {args.row}; frit copies {copy / 1e9:.0f} GB/s"
    print(what)
    if args.html:
        with open(args.html, "w", encoding="utf8") as file:
            file.write(page(rows, list(found), what))


if __name__ == "__main__":
    main()
