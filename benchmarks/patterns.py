"""Twelve ways in which people write programs, small: what does each get, and what does the same arithmetic as one function of arrays?

    python -m benchmarks.patterns [--only layers,rows] [--runs 5]

Each pattern is a program in the way its name says, a step of which is decorated, and nothing else; and, where there is one,
a function of arrays that computes the same. Columns: NumPy's time to frit's, of the program and of the function, steady; the
program's with its first calls, from an empty cache; `of it`: the program's speed to the function's under frit, of which 0.8
is asked, or the program's to NumPy's where there is no such function; then the function's speed under Numba, JAX and
torch.compile over NumPy's program, where they are installed and take it. Every way runs in a process of its own."""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types

import numpy as np

from benchmarks import patterns_parts as parts

PATTERNS = {}
STEPS = 200
JAX_SINCE = (0, 12)


def pattern(make):
    """Lists a maker of (step, state, function, arguments): step() goes on, state() gives the arrays it changes, function maps
    these and arguments() to what they are next; function is None where no function of arrays does the same."""
    PATTERNS[make.__name__] = make
    return make


# ---- 1: layers as classes


class _Dense:
    def __init__(self, n_in, n_out, rng):
        self.w, self.b = rng.standard_normal((n_in, n_out)) * 0.1, np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.w + self.b

    def backward(self, dy):
        self.dw, self.db = self.x.T @ dy, dy.sum(axis=0)
        return dy @ self.w.T

    def update(self, rate):
        self.w -= rate * self.dw
        self.b -= rate * self.db


class _Tanh:
    def forward(self, x):
        self.y = np.tanh(x)
        return self.y

    def backward(self, dy):
        return dy * (1 - self.y * self.y)


class _Network:
    def __init__(self, rng):
        self.layers = [_Dense(20, 60, rng), _Tanh(), _Dense(60, 10, rng)]

    def train(self, x, t):
        for layer in self.layers:
            x = layer.forward(x)
        e = np.exp(x - x.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        d = (p - t) / len(t)
        for layer in reversed(self.layers):
            d = layer.backward(d)
        for layer in self.layers[::2]:
            layer.update(0.1)
        return -(t * np.log(p + 1e-9)).sum() / len(t)


def train_function(w1, b1, w2, b2, x, t):
    h = np.tanh(x @ w1 + b1)
    y = h @ w2 + b2
    e = np.exp(y - y.max(axis=1, keepdims=True))
    d = (e / e.sum(axis=1, keepdims=True) - t) / 100
    dh = (d @ w2.T) * (1 - h * h)
    return w1 - 0.1 * (x.T @ dh), b1 - 0.1 * dh.sum(axis=0), w2 - 0.1 * (h.T @ d), b2 - 0.1 * d.sum(axis=0)


@pattern
def layers():
    rng = np.random.default_rng(0)
    net, x, t = _Network(rng), rng.random((100, 20)), np.eye(10)[rng.integers(0, 10, 100)]
    first, last = net.layers[0], net.layers[2]
    return lambda: net.train(x, t), lambda: [first.w, first.b, last.w, last.b], train_function, lambda: (x, t)


# ---- 2: classes that inherit, of another module


def inherited_function(w, b, g, o, mw, mb, mg, mo, vw, vb, vg, vo, x, t, power1, power2):
    z = x @ w + b
    s = 1 / (1 + np.exp(-z))
    a = z * s
    centred = a - a.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)
    y = centred * scale
    d = 2 * (y * g + o - t) / 100
    dg, do = (d * y).sum(axis=0), d.sum(axis=0)
    dn = d * g
    da = scale * (dn - dn.mean(axis=1, keepdims=True) - y * (dn * y).mean(axis=1, keepdims=True))
    dz = da * (s + z * s * (1 - s))
    dw, db = x.T @ dz, dz.sum(axis=0)
    mw, mb, mg, mo = 0.9 * mw + 0.1 * dw, 0.9 * mb + 0.1 * db, 0.9 * mg + 0.1 * dg, 0.9 * mo + 0.1 * do
    vw, vb, vg, vo = 0.999 * vw + 0.001 * dw ** 2, 0.999 * vb + 0.001 * db ** 2, 0.999 * vg + 0.001 * dg ** 2, 0.999 * vo + 0.001 * do ** 2
    return (w - 1e-3 * (mw / power1) / (np.sqrt(vw / power2) + 1e-8), b - 1e-3 * (mb / power1) / (np.sqrt(vb / power2) + 1e-8),
            g - 1e-3 * (mg / power1) / (np.sqrt(vg / power2) + 1e-8), o - 1e-3 * (mo / power1) / (np.sqrt(vo / power2) + 1e-8),
            mw, mb, mg, mo, vw, vb, vg, vo)


@pattern
def inheritance():
    rng = np.random.default_rng(0)
    linear, swish, norm = parts.Linear(40, 80, rng), parts.Swish(), parts.Norm(80)
    optimizer = parts.Adam([linear, norm])
    x, t, count = rng.random((100, 40)), rng.random((100, 80)), 0

    def step():
        y = norm(swish(linear(x)))
        linear.backward(swish.backward(norm.backward(2 * (y - t) / 100)))
        optimizer.step()

    def arguments():
        nonlocal count
        count += 1
        return x, t, 1 - 0.9 ** count, 1 - 0.999 ** count
    return step, lambda: [d[k] for of in (lambda one, k: one.params, lambda one, k: optimizer.m[k], lambda one, k: optimizer.v[k])
                          for k, one in enumerate((linear, norm)) for d in [of(one, k)] for k in d], inherited_function, arguments


# ---- 3: arguments that are kept


class _Smoother:
    """Keeps the pictures it was given, and the one before."""

    def __init__(self, n):
        self.last, self.mean, self.square = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))

    def see(self, picture):
        self.before, self.last = self.last, picture
        self.mean += 0.1 * (self.last - self.mean)
        self.square += 0.1 * ((self.last - self.before) ** 2 - self.square)
        return np.abs(self.last - self.mean) > 2 * np.sqrt(self.square + 1e-3)


def smoother_function(last, mean, square, picture):
    mean = mean + 0.1 * (picture - mean)
    square = square + 0.1 * ((picture - last) ** 2 - square)
    return picture, mean, square


@pattern
def kept():
    pictures = np.random.default_rng(0).random((7, 200, 200))
    smoother, counts = _Smoother(200), [0, 0]

    def following(which):
        counts[which] += 1
        return pictures[counts[which] % 7]
    see = smoother.see
    return (lambda: see(following(0)), lambda: [smoother.last, smoother.mean, smoother.square], smoother_function, lambda: (following(1),))


# ---- 4: arrays that NumPy makes, and a large one that is borrowed


class _Walk:
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.a, self.x, self.rng = rng.randn(n, n) / np.sqrt(n), rng.randn(n), rng


@pattern
def adopted():
    walk = _Walk(900)
    noise = np.random.RandomState(7)

    def step():
        y = walk.a @ walk.x + 0.1 * walk.rng.standard_normal(900)
        q = np.linalg.norm(y)
        walk.x = np.tanh(y / q * 30) + 0.01 * np.abs(y)
    walk.rng = np.random.RandomState(7)
    return step, lambda: [walk.x], adopted_function, lambda: (walk.a, noise.standard_normal(900))


def adopted_function(x, a, noise):
    y = a @ x + 0.1 * noise
    q = np.sqrt((y * y).sum())
    return (np.tanh(y / q * 30) + 0.01 * np.abs(y),)


# ---- 5: globals that are updated in place


U = V = None


def _laplacian(z):
    return z[:-2, 1:-1] + z[1:-1, :-2] - 4 * z[1:-1, 1:-1] + z[1:-1, 2:] + z[2:, 1:-1]


def globals_step():
    global U, V
    for _ in range(3):
        u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
        r = u * v * v
        du, dv = 0.16 * _laplacian(U) - r + 0.035 * (1 - u), 0.08 * _laplacian(V) + r - 0.095 * v
        u += du
        v += dv
    U += 0.0


def globals_function(u, v):
    u, v = u.copy(), v.copy()
    for _ in range(3):
        a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
        r = a * b * b
        la = u[:-2, 1:-1] + u[1:-1, :-2] - 4 * a + u[1:-1, 2:] + u[2:, 1:-1]
        lb = v[:-2, 1:-1] + v[1:-1, :-2] - 4 * b + v[1:-1, 2:] + v[2:, 1:-1]
        du, dv = 0.16 * la - r + 0.035 * (1 - a), 0.08 * lb + r - 0.095 * b
        u[1:-1, 1:-1] += du
        v[1:-1, 1:-1] += dv
    return u, v


@pattern
def globals_in_place():
    global U, V
    rng = np.random.default_rng(0)
    U, V = 1 - 0.1 * rng.random((200, 200)), 0.25 * rng.random((200, 200))
    return globals_step, lambda: [U, V], globals_function, lambda: ()


# ---- 6: columns by rows


@pattern
def columns_by_rows():
    rng = np.random.default_rng(0)
    d, total = np.zeros((200, 200)), np.zeros((30, 40))
    columns, h, g = rng.random((10, 200, 1)), rng.random((50, 30)), rng.random((50, 40))

    def step():
        nonlocal d, total
        for c in columns:
            d += np.dot(c, c.T)
        d *= 0.5
        total += np.matmul(h[:, :, None], g[:, None, :]).sum(0) + np.outer(h[0], g[0])
        total *= 0.5
    return step, lambda: [d, total], columns_function, lambda: (columns, h, g)


def columns_function(d, total, columns, h, g):
    for k in range(10):
        d = d + columns[k] * columns[k].reshape(1, 200)
    return d * 0.5, (total + (h[:, :, None] * g[:, None, :]).sum(axis=0) + h[0][:, None] * g[0][None, :]) * 0.5


# ---- 7: one-hot columns of changing letters, kept for the way back


class _Letters:
    def __init__(self, n, h):
        rng = np.random.RandomState(0)
        self.n, self.wx, self.wh, self.wy = n, rng.randn(h, n) * 0.05, rng.randn(h, h) * 0.05, rng.randn(n, h) * 0.05
        self.h = np.zeros((h, 1))

    def train(self, letters, targets):
        xs, hs, ps = {}, {-1: self.h}, {}
        for t, letter in enumerate(letters):
            xs[t] = np.zeros((self.n, 1))
            xs[t][letter] = 1
            hs[t] = np.tanh(np.dot(self.wx, xs[t]) + np.dot(self.wh, hs[t - 1]))
            e = np.exp(np.dot(self.wy, hs[t]))
            ps[t] = e / np.sum(e)
        dwx, dwh, dwy = np.zeros_like(self.wx), np.zeros_like(self.wh), np.zeros_like(self.wy)
        following = np.zeros_like(self.h)
        for t in reversed(range(len(letters))):
            dy = np.copy(ps[t])
            dy[targets[t]] -= 1
            dwy += np.dot(dy, hs[t].T)
            raw = (1 - hs[t] * hs[t]) * (np.dot(self.wy.T, dy) + following)
            dwx += np.dot(raw, xs[t].T)
            dwh += np.dot(raw, hs[t - 1].T)
            following = np.dot(self.wh.T, raw)
        for w, dw in zip((self.wx, self.wh, self.wy), (dwx, dwh, dwy)):
            w -= 0.01 * np.clip(dw, -5, 5)
        self.h = hs[len(letters) - 1]


def letters_function(wx, wh, wy, h, x, y):
    hs, ps = [h], []
    for t in range(12):
        hs.append(np.tanh(wx @ x[t] + wh @ hs[t]))
        e = np.exp(wy @ hs[t + 1])
        ps.append(e / np.sum(e))
    dwx, dwh, dwy, following = 0.0 * wx, 0.0 * wh, 0.0 * wy, 0.0 * h
    for t in range(11, -1, -1):
        dy = ps[t] - y[t]
        now = hs[t + 1]
        dwy = dwy + dy * now.T
        raw = (1 - now * now) * (wy.T @ dy + following)
        dwx = dwx + raw * x[t].T
        dwh = dwh + raw * hs[t].T
        following = wh.T @ raw
    return wx - 0.01 * np.clip(dwx, -5, 5), wh - 0.01 * np.clip(dwh, -5, 5), wy - 0.01 * np.clip(dwy, -5, 5), hs[12]


@pattern
def letters():
    model, text, hot, at = _Letters(50, 64), np.random.RandomState(1).randint(0, 50, 13 * 700), np.eye(50)[:, :, None], [0, 0]

    def following(which):
        at[which] += 12
        return text[at[which]:at[which] + 12].tolist(), text[at[which] + 1:at[which] + 13].tolist()

    def step():
        model.train(*following(0))
    return step, lambda: [model.wx, model.wh, model.wy, model.h], letters_function, lambda: tuple(hot[k] for k in following(1))


# ---- 8: rows that change


@pattern
def rows():
    rng = np.random.RandomState(0)
    e, f = rng.randn(500, 200) * 0.1, rng.randn(500, 200) * 0.1
    pairs = rng.permutation(500)[:, None] * [1, 7] % 500

    def step():
        for i, j in pairs[:20].tolist():
            score = 1 / (1 + np.exp(-np.dot(e[i], f[j]))) - 1.0
            g = score * e[i]
            e[i] -= 0.025 * score * f[j]
            f[j] -= 0.025 * g
        pairs[:] = np.roll(pairs, 20, axis=0)
    return step, lambda: [e, f], rows_function, lambda: (np.roll(pairs, 20, axis=0)[:20],)


def rows_function(e, f, pairs):
    i, j = pairs[:, 0], pairs[:, 1]
    a, b = e[i], f[j]
    score = (1 / (1 + np.exp(-(a * b).sum(axis=1))) - 1.0)[:, None]
    e, f = e.copy(), f.copy()
    e[i] = a - 0.025 * score * b
    f[j] = b - 0.025 * (score * a)
    return e, f


# ---- 9: ufunc.at, masks, what is done row by row


@pattern
def scattered():
    rng = np.random.RandomState(0)
    grid, place, velocity = np.zeros(512), rng.rand(20000) * 512, rng.randn(20000)

    def step():
        nonlocal place
        cell = place.astype(int)
        grid[:] = 0
        np.add.at(grid, cell, velocity * velocity)
        slow = np.abs(velocity) < 0.1
        velocity[slow] *= 1.5
        place = place + 0.1 * velocity
        place[place < 0] += 512
        place[place >= 512] -= 512
        grid[:] = np.cumsum(grid) / 512
    return step, lambda: [grid, place, velocity], scattered_function, lambda: ()


def scattered_function(grid, place, velocity):
    grid = np.bincount(place.astype(np.int64), velocity * velocity, 512)
    velocity = np.where(np.abs(velocity) < 0.1, velocity * 1.5, velocity)
    place = place + 0.1 * velocity
    place = np.where(place < 0, place + 512, place)
    place = np.where(place >= 512, place - 512, place)
    return np.cumsum(grid) / 512, place, velocity


# ---- 10: prices by SciPy's functions


class _Book:
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.spot, self.strike, self.years, self.volatility = 80 + 40 * rng.rand(n), 80 + 40 * rng.rand(n), rng.rand(n) + 0.1, 0.1 + 0.3 * rng.rand(n)
        self.call = self.put = np.zeros(n)

    def price(self):
        from scipy.special import ndtr
        root = self.volatility * np.sqrt(self.years)
        d1 = (np.log(self.spot / self.strike) + (0.02 + 0.5 * self.volatility ** 2) * self.years) / root
        now = self.strike * np.exp(-0.02 * self.years)
        self.call = self.spot * ndtr(d1) - now * ndtr(d1 - root)
        self.put = self.call - self.spot + now
        self.spot += 0.01


def price_function(spot, call, put, strike, years, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.5 * volatility ** 2) * years) / root
    now = strike * np.exp(-0.02 * years)
    call = spot * normal(d1) - now * normal(d1 - root)
    return spot + 0.01, call, call - spot + now


def normal(x):
    from scipy.special import ndtr
    return ndtr(x)


@pattern
def pricing():
    book = _Book(20000)
    return (book.price, lambda: [book.spot, book.call, book.put], price_function,
            lambda: (book.strike, book.years, book.volatility))


# ---- 11: loops over single elements, with branches


def metropolis(spins, places, chances, beta):
    n = spins.shape[0]
    for k in range(len(places)):
        i, j = places[k, 0], places[k, 1]
        change = 2 * spins[i, j] * (spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1])
        if change <= 0 or chances[k] < np.exp(-beta * change):
            spins[i, j] = -spins[i, j]


def value_iteration(value, reward):
    n = len(value)
    for i in range(n):
        best = -1e9
        for to in (i - 1, i, (i + 1) % n):
            here = reward[to] + 0.9 * value[to]
            if here > best:
                best = here
        value[i] = best


@pattern
def elements():
    rng = np.random.RandomState(0)
    spins, value, reward = 2 * rng.randint(0, 2, (24, 24)) - 1, np.zeros(200), rng.rand(200)

    def step():
        metropolis(spins, rng.randint(0, 24, (600, 2)), rng.rand(600), 0.4)
        value_iteration(value, reward)
    return step, lambda: [spins, value], None, None


def elements_numba(compile):
    """The same loops compiled, with the same numbers by chance."""
    rng = np.random.RandomState(0)
    spins, value, reward = 2 * rng.randint(0, 2, (24, 24)) - 1, np.zeros(200), rng.rand(200)
    one, other = compile(metropolis), compile(value_iteration)

    def step():
        one(spins, rng.randint(0, 24, (600, 2)), rng.rand(600), 0.4)
        other(value, reward)
    return step, lambda: [spins, value]


# ---- 12: small programs that call themselves


def _transform(x):
    n = len(x)
    if n == 1:
        return x
    even, odd = _transform(x[::2]), _transform(x[1::2])
    turn = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + turn, even - turn])


def _sorted(x):
    if len(x) <= 1:
        return x
    middle = x[len(x) // 2]
    return np.concatenate([_sorted(x[x < middle]), x[x == middle], _sorted(x[x > middle])])


@pattern
def recursive():
    rng = np.random.RandomState(0)
    x, y = rng.rand(256) + 0j, rng.rand(300)
    given = [np.zeros(256) + 0j, np.zeros(300)]

    def step():
        given[:] = _transform(x), _sorted(y)
    return step, lambda: given, None, None


# ---- running them


def with_names(function, names):
    """The function with another library under the name np."""
    return types.FunctionType(function.__code__, {**function.__globals__, "np": names}, function.__name__)


def of_function(name, step_function):
    """The function form as (step, state)."""
    _, state, function, arguments = PATTERNS[name]()
    if function is None:
        raise SystemExit("no such function")
    now, f = [np.array(a) for a in state()], step_function(function)

    def step():
        now[:] = f(*now, *arguments())
    return step, lambda: now


def ways():
    """Each way as a function of a pattern's name to (step, state)."""
    def frit_program(name):
        import frit
        step, state, *_ = PATTERNS[name]()
        return frit.accelerate(step), state

    def frit_function(name):
        import frit
        return of_function(name, frit.accelerate)

    def numba(name):
        import numba
        return elements_numba(numba.njit) if name == "elements" else of_function(name, numba.njit)

    def jax(name):
        os.environ["JAX_ENABLE_X64"], os.environ["JAX_PLATFORMS"] = "1", "cpu"
        import jax
        if tuple(int(n) for n in jax.__version__.split(".")[:2]) < JAX_SINCE:
            raise SystemExit(f"jax {jax.__version__} is older than {JAX_SINCE}")

        def compiled(function):
            f = jax.jit(with_names(function, jax.numpy))
            return lambda *a: jax.block_until_ready(f(*a))
        return of_function(name, compiled)

    def torch(name):
        import torch
        torch.set_num_threads(1)

        def compiled(function):
            f = torch.compile(function)
            return lambda *a: f(*a)         # (torch traces NumPy's functions itself)
        return of_function(name, compiled)
    return {"numpy": lambda name: PATTERNS[name]()[:2], "function": lambda name: of_function(name, lambda f: f),
            "frit": frit_program, "frit function": frit_function, "numba": numba, "jax": jax, "torch": torch}


def run_one(name, way, out):
    np.random.seed(0)
    step, state = ways()[way](name)
    took = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        took.append(time.perf_counter() - begin)
        if len(took) == 6:
            np.savez(out, *[np.array(a) for a in state()])
    stats = getattr(step, "stats", None)
    print(json.dumps({"steady": statistics.median(took[STEPS // 2:]), "total": sum(took), "stats": str(stats or "").removeprefix("CallStats")}))


def run(name, way):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "state.npz")
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.patterns", "--one", name, "--way", way, "--out", out],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "FRIT_CACHE_DIR": folder, "OMP_NUM_THREADS": "1", "FRIT_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
        if done.returncode:
            return None, (done.stderr.strip().splitlines() or ["nothing said"])[-1]
        with np.load(out) as arrays:
            return json.loads(done.stdout.strip().splitlines()[-1]), [arrays[k] for k in arrays.files]


def same(states, found):
    if len(states) != len(found) or any(x.shape != y.shape for x, y in zip(states, found)):
        return False
    return all(np.allclose(x, y, rtol=1e-6, atol=1e-9) for x, y in zip(states, found))


def measure(name, names, runs):
    """{way: (steady, total)} by medians, the errors, and what frit says."""
    found = {way: [] for way in names}
    for _ in range(runs):
        for way in names:
            if not found[way] or found[way][0][0]:
                found[way].append(run(name, way))
    want, times, says = found["numpy"][0][1], {}, {}
    for way, results in found.items():
        if results[0][0] is None:
            says[way] = results[0][1]
            continue
        if not same(want, results[0][1]):
            says[way] = "DIFFERENT"
        times[way] = tuple(statistics.median(r[0][k] for r in results) for k in ("steady", "total"))
    return times, says, found["frit"][0][0] and found["frit"][0][0]["stats"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--peers", default="numba,jax,torch")
    p.add_argument("--one", help=argparse.SUPPRESS)
    p.add_argument("--way", help=argparse.SUPPRESS)
    p.add_argument("--out", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        run_one(a.one, a.way, a.out)
        return
    peers = [n for n in a.peers.split(",") if n and not missing(n)]
    print(f"{'':18s}{'NumPy ms':>9s}{'program':>9s}{'function':>9s}{'total':>7s}{'of it':>7s}" + "".join(f"{n:>8s}" for n in peers))
    for name in a.only.split(",") if a.only else PATTERNS:
        times, says, stats = measure(name, ["numpy", "function", "frit", "frit function", *peers], a.runs)
        base = times["numpy"]

        def speed(way, k=0, base=base, times=times):
            return base[k] / times[way][k] if way in times else math.nan
        of_it = times["frit function"][0] / times["frit"][0] if {"frit", "frit function"} <= set(times) else speed("frit")
        print(f"{name:18s}{1e3 * base[0]:9.2f}{speed('frit'):9.2f}{speed('frit function'):9.2f}{speed('frit', 1):7.2f}{of_it:7.2f}"
              + "".join(f"{speed(n):8.2f}" for n in peers).replace("nan", "  -") + f"  {stats or ''} "
              + "; ".join(f"{w}: {t}" for w, t in says.items() if t != "no such function"), flush=True)


def missing(name):
    import importlib.util
    return importlib.util.find_spec(name) is None


if __name__ == "__main__":
    main()
