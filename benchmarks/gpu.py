"""What frit reaches on a GPU, beside torch (eager and compiled), JAX and CuPy where they are installed, as one page.

    FRIT_DEVICE=cuda python -m benchmarks.gpu [--mb 256] [--only softmax,chain] [--html page.html]

Programs over arrays of f32 on the device, `--mb` in all that they read; a time is the median of rounds of several runs, after which
the device is waited for. Bytes are the least that have to move: operands once, results once. The copy is frit's own kernel of x + 0,
measured in the same run; so a share is of what the device gives, not of its data sheet. Libraries take turns, program by program, in
one process. Then a training step of a small network, what the processor takes to begin plans of several kernels, and fifty times
more memory than there is."""
import argparse
import html
import importlib
import statistics
import time

import numpy as np

TENSORS, KERNELS = 100, (1, 10, 50)

# ---- the programs: xp has exp, log, sqrt and maximum


def softmax(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def layer_norm(xp, x):
    d = x - x.mean(1, keepdims=True)
    return d / xp.sqrt((d * d).mean(1, keepdims=True) + 1e-5)


def layer_norm_back(xp, x, g):
    d = x - x.mean(1, keepdims=True)
    r = 1 / xp.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    h = d * r
    return (g - g.mean(1, keepdims=True) - h * (g * h).mean(1, keepdims=True)) * r, (g * h).sum(0), g.sum(0)


def log_sum_exp(xp, x):
    m = x.max(1, keepdims=True)
    return xp.log(xp.exp(x - m).sum(1)) + m[:, 0]


def variance(xp, x):
    d = x - x.mean(1, keepdims=True)
    return (d * d).mean(1)


def chain(n):
    def f(xp, x):
        y = x
        for k in range(n):
            y = y * 0.99 + x if k % 2 else y + 0.5
        return y
    return f


def adam(xp, *tensors):
    out = []
    for k in range(0, len(tensors), 4):
        p, m, v, g = tensors[k:k + 4]
        m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
        out += [p - 1e-3 * m / (xp.sqrt(v) + 1e-8), m, v]
    return tuple(out)


def step(xp, x, y, *layers):
    """Forwards, backwards and the new weights of a network of dense layers with a squared loss."""
    kept, w, b = [x], layers[::2], layers[1::2]
    for k in range(len(w)):
        h = kept[-1] @ w[k] + b[k]
        kept.append(xp.maximum(h, 0) if k + 1 < len(w) else h)
    d = (kept[-1] - y) * (2 / y.shape[0])
    out = []
    for k in reversed(range(len(w))):
        g = w[k] - 1e-3 * (kept[k].T @ d), b[k] - 1e-3 * d.sum(0)
        if k:
            d = (d @ w[k].T) * (kept[k] > 0)
        out[:0] = g
    return ((kept[-1] - y) * (kept[-1] - y)).mean(), *out


def rows(n):
    def arrays(mb, row):
        r = np.random.default_rng(0)
        return [r.normal(size=(max(1, int(mb * 2 ** 18 / n) // row), row)).astype("f4") for _ in range(n)]
    return arrays


def tensors(mb, row):
    """Of many sizes, as a network's are."""
    r, each = np.random.default_rng(0), mb * 2 ** 18 / 4 / TENSORS
    return [r.random(max(1, int(each * (0.2 + 1.6 * k / (TENSORS - 1))))).astype("f4") for k in range(TENSORS) for _ in range(4)]


# name: the program, its arrays, and bytes of its results to each of its operands'
PROGRAMS = {
    "copy": (lambda xp, x: x + 0, rows(1), 1), **{f"chain of {n}": (chain(n), rows(1), 1) for n in (1, 2, 10, 50)},
    "softmax": (softmax, rows(1), 1), "layer norm": (layer_norm, rows(1), 1), "layer norm back": (layer_norm_back, rows(2), 0.5),
    "log-sum-exp": (log_sum_exp, rows(1), 0), "variance": (variance, rows(1), 0), "sum of rows": (lambda xp, x: x.sum(1), rows(1), 0),
    "sum of columns": (lambda xp, x: x.sum(0), rows(1), 0), f"adam of {TENSORS}": (adam, tensors, 0.75),
}


# ---- the libraries


def _frit():
    import frit
    listed = lambda r: r if isinstance(r, tuple) else (r,)      # noqa: E731
    return {"frit": (lambda a: frit.asarray(a) + 0, lambda f: lambda *a: frit.eval(*listed(f(frit, *a))), frit.synchronize)}


def _torch():
    import torch
    if not torch.cuda.is_available():
        return {}
    # (with NumPy's keywords, which torch has but for that of max)
    torch.Tensor.max = lambda t, axis, keepdims=False: t.amax(axis, keepdim=keepdims)
    torch.backends.cuda.matmul.allow_tf32 = False
    names = type("names", (), {"exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt,
                               "maximum": staticmethod(lambda x, least: x.clamp(min=least))})
    ways = {"torch": lambda f: f, "torch.compile": torch.compile, "torch, graphs": lambda f: torch.compile(f, mode="reduce-overhead")}
    return {name: (lambda a: torch.from_numpy(a).cuda(), lambda f, fast=fast: fast(lambda *a: f(names, *a)), torch.cuda.synchronize)
            for name, fast in ways.items()}


def _jax():
    import jax
    if jax.default_backend() != "gpu":
        return {}
    jax.config.update("jax_default_matmul_precision", "highest")
    last = []

    def fast(f):
        g = jax.jit(lambda *a: f(jax.numpy, *a))
        return lambda *a: last.__setitem__(slice(None), [g(*a)])
    return {"jax": (jax.device_put, fast, lambda: jax.block_until_ready(last))}


def _cupy():
    import cupy
    if not cupy.cuda.is_available():
        return {}
    return {"cupy": (cupy.asarray, lambda f: lambda *a: f(cupy, *a), cupy.cuda.runtime.deviceSynchronize)}


def libraries():
    """name: (an array there, a function made fast, wait)"""
    found = {}
    for name, of in (("frit", _frit), ("torch", _torch), ("jax", _jax), ("cupy", _cupy)):
        try:
            importlib.import_module(name)
            found.update(of())
        except ImportError:
            pass
    return found


# ---- what is measured


def seconds(f, args, wait, rounds, runs):
    """The median of rounds, of one run."""
    for _ in range(3):
        f(*args)
    wait()
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(runs):
            f(*args)
        wait()
        found.append((time.perf_counter() - begin) / runs)
    return statistics.median(found)


def measure(program, arrays, libs, rounds, runs):
    """Seconds by library; None where it can not do it, which is no reason to lose the others' figures."""
    found = {}
    for name, (there, fast, wait) in libs.items():
        try:
            found[name] = seconds(fast(program), [there(a) for a in arrays], wait, rounds, runs)
        except Exception as e:
            print(f"    {name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
            found[name] = None
    return found


def begin_plans(n_plans):
    """Microseconds of the processor for a plan of so many kernels, as the caller sees them: nodes are traced, all is begun."""
    import frit
    found = {}
    for n in KERNELS:
        x = frit.asarray(np.ones((64, 33), "f4")) + 0

        def run():
            y = x
            for _ in range(n):
                y = frit.cumsum(y, axis=0)      # one kernel each
            frit.eval(y)
        for _ in range(min(20, n_plans)):
            run()
        frit.synchronize()
        begin = time.perf_counter()
        for _ in range(n_plans):
            run()
        found[n] = (time.perf_counter() - begin) / n_plans * 1e6
        frit.synchronize()
    return found


def run_out_of_memory(mb, times):
    """How often memory ran out, and whether all goes on after it."""
    import frit
    seen = 0
    for _ in range(times):
        held = []
        try:
            while len(held) < 100000:
                # (What is not added up goes chunk by chunk, and to the host, when the device is full.)
                held.append((frit.zeros((2, mb * 2 ** 18), "f4") + len(held)).sum(0))
                frit.eval(held[-1])
        except MemoryError:
            seen += 1
        del held
    x = frit.asarray(np.arange(1000.0))
    return seen, bool((np.asarray(x * 2 + 1) == np.arange(1000.0) * 2 + 1).all())


# ---- the page

STYLE = """body{font:15px sans-serif;max-width:72em;margin:2em auto;padding:0 1em;color-scheme:light dark}
td span{display:inline-block;height:.7em;background:#48c;margin-right:.5em}td,th{padding:.2em 1em;text-align:left}
svg{max-width:100%}svg text{font:12px sans-serif;fill:currentColor}"""
COLOURS = ["#48c", "#c64", "#4a6", "#a5c", "#888", "#b93"]


def plot(shares, names):
    """Shares of chains by their length, a line for each library."""
    chains = [(int(p.split()[-1]), s) for p, s in shares if p.startswith("chain of")]
    if len(chains) < 2:
        return ""
    left, high, wide, tall = 60, 20, 560, 240
    x = [left + wide * k / (len(chains) - 1) for k in range(len(chains))]
    out = [f"<svg viewBox='0 0 820 {tall + 60}' role='img' aria-label='Share of a copy by the length of a chain'>"]
    for mark in (0, 0.25, 0.5, 0.75, 1):
        y = high + tall * (1 - mark / 1.1)
        out.append(f"<line x1={left} x2={left + wide} y1={y:.0f} y2={y:.0f} stroke='currentColor' opacity=.2 /><text x=20 y={y + 4:.0f}>{mark}</text>")
    for k, (n, _) in enumerate(chains):
        out.append(f"<text x={x[k]:.0f} y={high + tall + 20}>{n}</text>")
    for i, name in enumerate(names):
        at = [(x[k], high + tall * (1 - min(s[name], 1.1) / 1.1)) for k, (_, s) in enumerate(chains) if s.get(name)]
        line = " ".join(f"{a:.0f},{b:.0f}" for a, b in at)
        colour = COLOURS[i % len(COLOURS)]
        out.append(f"<polyline points='{line}' fill=none stroke='{colour}' stroke-width=2 /><text x=640 y={high + 18 * i + 10} style='fill:{colour}'>{html.escape(name)}</text>")
    return "<h2>Chains of operations</h2>" + "".join(out) + "</svg>"


def table(head, lines):
    return ("<table><tr>" + "".join(f"<th>{html.escape(h)}</th>" for h in head) + "</tr>" +
            "".join(f"<tr><th>{html.escape(str(line[0]))}</th>" + "".join(f"<td>{c}</td>" for c in line[1:]) + "</tr>" for line in lines) + "</table>")


def bar(share):
    return f"<span style='width:{min(share, 1.2) * 100:.0f}px'></span>{share:.2f}" if share else ""


def page(what, names, shares, network, steps, begun, memory):
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>frit on a GPU</title><style>{STYLE}</style><h1>frit on a GPU</h1><p>{html.escape(what)}</p>"
            "<h2>Share of a copy's bandwidth</h2>" + table(["", *names], [[p, *(bar(s.get(n)) for n in names)] for p, s in shares]) + plot(shares, names) +
            f"<h2>A training step, {network}</h2>" +
            table(["", "ms"], [[n, f"{t * 1e3:.3f}" if t else ""] for n, t in steps.items()]) +
            "<h2>What the processor takes to begin a plan</h2>" + table(["kernels", "us"], [[n, f"{us:.1f}"] for n, us in begun.items()]) +
            f"<h2>Out of memory</h2><p>{memory[0]} times; after it all goes {'on' if memory[1] else 'wrong'}.</p></html>")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--mb", type=float, default=256)
    p.add_argument("--row", type=int, default=4096)
    p.add_argument("--only", default="", help="names of programs, with commas")
    p.add_argument("--network", default="128,784,512,512,10", help="its batch, and its layers")
    p.add_argument("--plans", type=int, default=200, help="plans that are begun")
    p.add_argument("--memory-mb", type=int, default=1024, help="of an array, of which there come to be too many")
    p.add_argument("--memory-times", type=int, default=50)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--runs", type=int, default=10, help="of a round")
    p.add_argument("--html")
    args = p.parse_args()
    libs, shares, copy = libraries(), [], None
    print(f"{'':18s}" + "".join(f"{n:>24s}" for n in libs))
    for name, (program, arrays, results) in PROGRAMS.items():
        if name != "copy" and args.only and not any(name.startswith(o) for o in args.only.split(",")):
            continue
        operands = arrays(args.mb, args.row)
        n_bytes = sum(a.nbytes for a in operands) * (1 + results)
        took = measure(program, operands, libs, args.rounds, args.runs)
        copy = copy or n_bytes / took["frit"]
        shares.append((name, {n: n_bytes / t / copy for n, t in took.items() if t}))
        print(f"{name:18s}" + "".join(f"{t * 1e3:12.3f} ms {n_bytes / t / copy:8.2f}" if t else f"{'':24s}" for t in took.values()), flush=True)
    r = np.random.default_rng(0)
    batch, *sizes = map(int, args.network.split(","))
    layers = [(r.normal(size=s) * 0.05).astype("f4") for a, b in zip(sizes, sizes[1:]) for s in ((a, b), (b,))]
    steps = measure(step, [r.normal(size=(batch, n)).astype("f4") for n in (sizes[0], sizes[-1])] + layers, libs, args.rounds, args.runs)
    print(f"{'a training step':18s}" + "".join(f"{t * 1e3:12.3f} ms{'':9s}" if t else f"{'':24s}" for t in steps.values()))
    begun = begin_plans(args.plans)
    print("plans of " + ", ".join(f"{n} kernels: {us:.1f} us" for n, us in begun.items()))
    memory = run_out_of_memory(args.memory_mb, args.memory_times)
    print(f"out of memory {memory[0]} times; after it all goes {'on' if memory[1] else 'wrong'}")
    what = f"{args.mb:.0f} MB of f32, rows of {args.row}; frit copies {copy / 1e9:.0f} GB/s"
    print(what)
    if args.html:
        with open(args.html, "w", encoding="utf8") as file:
            file.write(page(what, list(libs), shares, f"batch {batch}, layers {sizes}", steps, begun, memory))


if __name__ == "__main__":
    main()
