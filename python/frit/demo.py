"""`make demo`: three NumPy programs as they are, once on NumPy and once under @frit.accelerate.

1. A multilayer perceptron learns scikit-learn's handwritten digits by momentum SGD, once with gelu and
   once with ReLU; the backward pass is written by hand.
2. Black-Scholes prices of a million options: a long chain of element-wise operations.
3. The digits again, by a network whose layers are classes, with Adam and with dropout by np.random (demo_layers.py).
"""
import statistics
import sys
import time
import tracemalloc

import numpy as np

import frit

from .demo_layers import Network

LAYERS = (64, 256, 128, 10)
BATCH, EPOCHS, LEARNING_RATE, MOMENTUM, DECAY = 96, 60, np.float32(0.05), np.float32(0.9), np.float32(1e-4)
HALF, ONE, THREE = np.float32(0.5), np.float32(1), np.float32(3)
SCALE, CUBIC = np.float32(0.7978845608), np.float32(0.044715)      # gelu's sqrt(2 / pi) and cubic term
N_OPTIONS = 1_000_000


# ---- plain NumPy, no word of frit

def softmax(z):
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def gelu(z):
    return HALF * z * (ONE + np.tanh(SCALE * (z + CUBIC * z * z * z)))


def gelu_slope(z):
    t = np.tanh(SCALE * (z + CUBIC * z * z * z))
    return HALF * (ONE + t) + HALF * z * (ONE - t * t) * SCALE * (ONE + THREE * CUBIC * z * z)


def relu(z):
    return np.maximum(z, np.float32(0))


def relu_slope(z):
    return (z > 0).astype(np.float32)


def forward(x, params, activation=gelu):
    """What goes into every layer, and what comes out before its activation."""
    inputs, outputs = [], []
    for w, b in params:
        inputs.append(activation(outputs[-1]) if outputs else x)
        outputs.append(inputs[-1] @ w + b)
    return inputs, outputs


def train_epoch(images, labels, params, velocity, order, activation=gelu, slope=gelu_slope):
    """One pass over the images in the given order; params and velocity are changed in place."""
    loss = 0.0
    for start in range(0, len(order), BATCH):
        rows = order[start:start + BATCH]
        x, y = images[rows], labels[rows]
        inputs, outputs = forward(x, params, activation)
        p = softmax(outputs[-1])
        loss += -np.sum(y * np.log(p + np.float32(1e-9)))
        delta = (p - y) / np.float32(len(rows))
        for i in range(len(params) - 1, -1, -1):
            w, b = params[i]
            dw, db = inputs[i].T @ delta, np.sum(delta, axis=0)
            if i:
                delta = (delta @ w.T) * slope(outputs[i - 1])
            vw, vb = velocity[i]
            vw *= MOMENTUM
            vw -= LEARNING_RATE * (dw + DECAY * w)
            vb *= MOMENTUM
            vb -= LEARNING_RATE * db
            w += vw
            b += vb
    return loss / len(order)


def accuracy(images, labels, params, activation):
    outputs = forward(images, params, activation)[1]
    return np.mean(np.argmax(outputs[-1], axis=1) == np.argmax(labels, axis=1))


def cumulative_normal(x):
    """Abramowitz and Stegun 26.2.17; the error is below 7.5e-8."""
    a = np.abs(x)
    k = 1.0 / (1.0 + 0.2316419 * a)
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * np.exp(-0.5 * a * a) * poly
    return np.where(x >= 0, 1.0 - tail, tail)


def black_scholes(spot, strike, years, rate, volatility):
    """Prices of calls and puts."""
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
    d2 = d1 - deviation
    discounted = strike * np.exp(-rate * years)
    call = spot * cumulative_normal(d1) - discounted * cumulative_normal(d2)
    return call, call - spot + discounted


# ---- the comparison

class Result:
    def __init__(self, name):
        self.name = name
        self.first = self.total = self.peak = 0.0
        self.kernels = self.fallbacks = self.value = None


def digits():
    from sklearn.datasets import load_digits
    images, target = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[target]
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1440], order[1440:]
    return images[train], labels[train], images[test], labels[test]


def initial_state(seed):
    rng = np.random.default_rng(seed)
    params = [[(rng.standard_normal((n, m)) * np.sqrt(2 / n)).astype(np.float32),
               np.zeros(m, np.float32)] for n, m in zip(LAYERS, LAYERS[1:])]
    return params, [[np.zeros_like(w), np.zeros_like(b)] for w, b in params]


def measured_peak(work):
    """Peak bytes of arrays while work() runs: NumPy's as tracemalloc sees them, and frit's own."""
    frit.reset_stats()
    before = frit.stats()["live_bytes"]
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak + max(frit.stats()["peak_bytes"] - before, 0)


def train(name, epoch, activation, slope):
    images, labels, test_images, test_labels = digits()
    params, velocity = initial_state(1)
    rng = np.random.default_rng(2)
    r = Result(name)
    for i in range(EPOCHS):
        order = rng.permutation(len(images))
        start = time.perf_counter()
        loss = epoch(images, labels, params, velocity, order, activation, slope)
        took = time.perf_counter() - start
        r.total += took
        if i == 0:
            r.first = took
        if i % 20 == 19 or i == 0:
            print(f"  {name:<16} epoch {i + 1:3d}/{EPOCHS}   loss {float(loss):.4f}   "
                  f"{took * 1e3:7.1f} ms", flush=True)
    r.value = float(accuracy(test_images, test_labels, params, activation))
    p, v = initial_state(1)
    r.peak = measured_peak(lambda: epoch(images, labels, p, v, order, activation, slope))
    stats = getattr(epoch, "stats", None)
    if stats is not None:
        r.kernels, r.fallbacks = stats.kernels, stats.fallbacks
    return r, params


def options(n):
    rng = np.random.default_rng(3)
    return (rng.uniform(10, 200, n), rng.uniform(10, 200, n), rng.uniform(0.1, 3, n),
            np.float64(0.03), rng.uniform(0.1, 0.6, n))


def price(name, f, repeat=15):
    args = options(N_OPTIONS)
    r, times = Result(name), []
    for i in range(repeat):
        start = time.perf_counter()
        out = f(*args)
        times.append(time.perf_counter() - start)
        if i in (0, repeat - 1):
            print(f"  {name:<16} call {i + 1:3d}/{repeat}   {times[-1] * 1e3:7.1f} ms", flush=True)
    r.first, r.total, r.value = times[0], statistics.median(times[1:]), out
    r.peak = measured_peak(lambda: f(*args))
    stats = getattr(f, "stats", None)
    if stats is not None:
        r.kernels, r.fallbacks = stats.kernels, stats.fallbacks
    return r


def train_layers(name, accelerate):
    """The network of layers; `accelerate` is put around its method that trains."""
    images, labels, test_images, test_labels = digits()
    np.random.seed(4)
    network, r = Network(LAYERS, 0.2), Result(name)
    epoch = accelerate(network.train_epoch)
    for i in range(EPOCHS):
        start = time.perf_counter()
        loss = epoch(images, labels, BATCH)
        took = time.perf_counter() - start
        r.total += took
        if i == 0:
            r.first = took
        if i % 20 == 19 or i == 0:
            print(f"  {name:<16} epoch {i + 1:3d}/{EPOCHS}   loss {float(loss):.4f}   {took * 1e3:7.1f} ms", flush=True)
    stats = getattr(epoch, "stats", None)
    if stats is not None:
        r.kernels, r.fallbacks = stats.kernels, stats.fallbacks
    r.value = float(network.accuracy(test_images, test_labels))
    r.peak = measured_peak(lambda: epoch(images, labels, BATCH))
    return r


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for k, row in enumerate(rows):
        print("  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))))
        if k == 0:
            print("  ".join("-" * w for w in widths))


def main():
    threads = frit.config.threads()
    print(f"frit {frit.__version__}, NumPy {np.__version__}, {threads} threads\n")
    runs = []
    for title, activation, slope in (("gelu", gelu, gelu_slope), ("ReLU", relu, relu_slope)):
        print(f"Handwritten digits: {'-'.join(map(str, LAYERS))} {title} perceptron, batches of {BATCH}, momentum SGD")
        plain, plain_params = train("NumPy", train_epoch, activation, slope)
        fast, fast_params = train("frit.accelerate", frit.accelerate(train_epoch), activation, slope)
        apart = max(float(np.abs(a - b).max()) for p, q in zip(plain_params, fast_params) for a, b in zip(p, q))
        runs.append((title, plain, fast, apart))
        print()
    print(f"Black-Scholes: {N_OPTIONS:,} options, float64")
    plain_bs = price("NumPy", black_scholes)
    fast_bs = price("frit.accelerate", frit.accelerate(black_scholes))
    error = max(float(np.max(np.abs(a - b) / np.maximum(np.abs(a), 1)))
                for a, b in zip(plain_bs.value, fast_bs.value))
    print(f"\nHandwritten digits: {'-'.join(map(str, LAYERS))}, layers as classes, LayerNorm, Swish, dropout by np.random, Adam")
    layers = ("layers", train_layers("NumPy", lambda f: f), train_layers("frit.accelerate", frit.accelerate))

    def row(title, r, base, quality, unit, scale, digits):
        return [title, f"{r.total * scale:.{digits}f} {unit}", f"{base.total / r.total:.2f}x",
                f"{r.first * 1e3:.1f} ms", quality, "-" if r.kernels is None else str(r.kernels),
                "-" if r.fallbacks is None else str(r.fallbacks), f"{r.peak / 2**20:.1f} MB"]

    print()
    table([["", "time", "speed", "first call", "result", "kernels", "fallbacks", "peak memory"],
           *(row(f"{title}, {who}", r, plain, f"{r.value:.2%} right", "s", 1, 2)
             for title, plain, fast in (*(run[:3] for run in runs), layers) for who, r in (("NumPy", plain), ("frit", fast))),
           row("options, NumPy", plain_bs, plain_bs, "reference", "ms", 1e3, 1),
           row("options, frit", fast_bs, plain_bs, f"{error:.0e} apart", "ms", 1e3, 1)])
    print(f"\ngelu, ReLU, layers: {EPOCHS} epochs over the digits, the same seed; parameters of the first two end at most "
          f"{max(r[3] for r in runs):.1e} apart.\nkernels and fallbacks are of one call: an epoch (beside its 120 "
          "matrix products), and one pricing.")
    ok = error < 1e-9 and all(abs(plain.value - fast.value) < 0.02 for _, plain, fast in (*(run[:3] for run in runs), layers))
    if not ok:
        print("the results do not agree", file=sys.stderr)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
