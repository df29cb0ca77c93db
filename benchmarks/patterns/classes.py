"""The patterns with objects that hold the arrays: layers, inheritance, arguments that are kept, what NumPy makes."""
import numpy as np

from benchmarks.patterns import parts
from benchmarks.patterns.listed import pattern

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
        self.layers, self.loss = [_Dense(20, 60, rng), _Tanh(), _Dense(60, 10, rng)], 0.0

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
        self.loss = -(t * np.log(p + 1e-9)).sum() / len(t)


def train_function(w1, b1, w2, b2, loss, x, t):
    h = np.tanh(x @ w1 + b1)
    y = h @ w2 + b2
    e = np.exp(y - y.max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    d = (p - t) / 100
    dh = (d @ w2.T) * (1 - h * h)
    return (w1 - 0.1 * (x.T @ dh), b1 - 0.1 * dh.sum(axis=0), w2 - 0.1 * (h.T @ d), b2 - 0.1 * d.sum(axis=0),
            -(t * np.log(p + 1e-9)).sum() / 100)


@pattern
def layers():
    rng = np.random.default_rng(0)
    net, x, t = _Network(rng), rng.random((100, 20)), np.eye(10)[rng.integers(0, 10, 100)]
    first, last = net.layers[0], net.layers[2]
    return lambda: net.train(x, t), lambda: [first.w, first.b, last.w, last.b, net.loss], train_function, lambda: (x, t)


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
    vw, vb = 0.999 * vw + 0.001 * dw ** 2, 0.999 * vb + 0.001 * db ** 2
    vg, vo = 0.999 * vg + 0.001 * dg ** 2, 0.999 * vo + 0.001 * do ** 2
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
        self.moves = np.zeros((n, n), bool)

    def see(self, picture):
        self.before, self.last = self.last, picture
        self.mean += 0.1 * (self.last - self.mean)
        self.square += 0.1 * ((self.last - self.before) ** 2 - self.square)
        self.moves = np.abs(self.last - self.mean) > 2 * np.sqrt(self.square + 1e-3)


def smoother_function(last, mean, square, moves, picture):
    mean = mean + 0.1 * (picture - mean)
    square = square + 0.1 * ((picture - last) ** 2 - square)
    return picture, mean, square, np.abs(picture - mean) > 2 * np.sqrt(square + 1e-3)


@pattern
def kept():
    pictures = np.random.default_rng(0).random((7, 200, 200))
    smoother, counts = _Smoother(200), [0, 0]

    def following(which):
        counts[which] += 1
        return pictures[counts[which] % 7]
    see = smoother.see
    return (lambda: see(following(0)), lambda: [smoother.last, smoother.mean, smoother.square, smoother.moves],
            smoother_function, lambda: (following(1),))


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
