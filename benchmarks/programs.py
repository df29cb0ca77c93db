"""Small programs from many fields, which nothing here was tuned for: is any of them slower than with another library?

    python -m benchmarks.programs                                   one thread
    python -m benchmarks.programs --threads 2 --only life,grey
    python -m benchmarks.programs --libraries "numpy,frit,jax"

Each library has a process of its own; what it returns is held against NumPy's first. frit runs lazily, forced by
frit.eval, and through accelerate; JAX by jit. Medians in the steady state, in microseconds."""
import argparse
import os
import statistics
import subprocess
import sys

from benchmarks.program_list import PROGRAMS, normal, program, whole
from benchmarks.timing import timed, want_frit

LIBRARIES = ("numpy", "frit", "frit accelerate", "jax")
BEHIND = 1.1
N = 1_000_000


@program(normal((1024, 1024)))
def batch_norm(xp, x):
    m = x.mean(0)
    return (x - m) / xp.sqrt(((x - m) ** 2).mean(0) + 1e-5)


@program(normal((4096, 256)))
def mean_log_softmax(xp, x):
    m = x.max(1, keepdims=True)
    return (x - m - xp.log(xp.exp(x - m).sum(1, keepdims=True))).mean()


@program(normal((100_000, 10)))
def softmax_of_ten(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@program(normal((100_000, 10)))
def class_of_ten(xp, x):
    return x.argmax(1)


@program(whole(10, 100_000, "i8"))
def one_hot(xp, k):
    return (k[:, None] == xp.arange(10)).astype("f4")


@program(normal((64, 3, 128, 128)))
def norm_of_channels(xp, x):
    return (x - x.mean((0, 2, 3), keepdims=True)) / xp.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5)


@program(normal((8192, 64)))
def gelu_tanh(xp, x):
    return 0.5 * x * (1 + xp.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


@program(normal((2048, 512), (2048, 512)))
def adam_first_step(xp, p, g):
    return p - 0.01 * (0.1 * g / (xp.sqrt(0.001 * g * g) + 1e-8) + 0.01 * p)


@program(lambda r: [r.standard_normal(s).astype("f4") for s in ((2000, 8), (64, 8))])
def nearest_centre(xp, x, c):
    return ((x[:, None, :] - c[None, :, :]) ** 2).sum(-1).argmin(1)


@program(normal((1000, 3), dtype="f8"))
def attraction(xp, p):
    d = p[:, None, :] - p[None, :, :]
    square = (d * d).sum(-1) + 1e-3
    return (d * (1.0 / (square * xp.sqrt(square)))[:, :, None]).sum(1)


@program(normal((200, 200), dtype="f8"))
def distances(xp, x):
    return xp.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))


@program(normal((300_000, 3)))
def lengths(xp, p):
    return xp.sqrt((p * p).sum(1))


@program(normal((300_000, 3), dtype="f8"))
def unit_vectors(xp, p):
    return p / xp.sqrt((p * p).sum(1, keepdims=True))


@program(normal((300_000, 3), (300_000, 3), dtype="f8"))
def cross_product_z(xp, a, b):
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


@program(normal((300_000,), (300_000,), dtype="f8"))
def haversine(xp, a, b):
    h = xp.sin((b - a) / 2) ** 2 + xp.cos(a) * xp.cos(b) * xp.sin((b + a) / 2) ** 2
    return 2 * xp.arcsin(xp.sqrt(xp.clip(h, 0, 1)))


@program(lambda r: [(r.random((1024, 1024)) < 0.3).astype("u1")])
def life(xp, b):
    n = (b[:-2, :-2] + b[:-2, 1:-1] + b[:-2, 2:] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, :-2] + b[2:, 1:-1] + b[2:, 2:])
    return ((n == 3) | ((n == 2) & (b[1:-1, 1:-1] == 1))).astype("u1")


@program(whole(256, (1080, 1920, 3), "u1"))
def grey(xp, image):
    f = image.astype("f4") / 255.0
    return 0.299 * f[:, :, 0] + 0.587 * f[:, :, 1] + 0.114 * f[:, :, 2]


@program(whole(255, (1000, 1000), "u1"))
def blur(xp, a):
    f = a.astype("i4")
    return ((f[:, :-2] + 2 * f[:, 1:-1] + f[:, 2:]) >> 2).astype("u1")


@program(whole(255, (1000, 1000), "u1", 2))
def difference_of_images(xp, a, b):
    return xp.where(a > b, a - b, b - a)


@program(lambda r: [r.random(N) < 0.5, r.random(N) < 0.5])
def overlap(xp, a, b):
    return (a & b).sum() / (a | b).sum()


@program(normal((256, 256, 16)))
def mean_pool(xp, x):
    return (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]) * 0.25


@program(normal((64, 64, 64)))
def laplacian(xp, u):
    c = u[1:-1, 1:-1, 1:-1]
    return (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 1:-1, 2:]
            + u[1:-1, 1:-1, :-2] - 6 * c)


@program(normal((512, 512), (512, 512)))
def mandelbrot(xp, a, b):
    x, y, k = a * 0, b * 0, a * 0
    for _ in range(12):
        x, y = x * x - y * y + a, 2 * x * y + b
        k = k + (x * x + y * y < 4)
    return k


@program(normal((N,), dtype="f8"))
def running_mean(xp, x):
    c = xp.cumsum(x)
    return (c[20:] - c[:-20]) / 20


@program(normal((N,)))
def standardise(xp, x):
    return (x - x.mean()) / x.std()


@program(normal((N,)))
def to_unit_range(xp, x):
    return (x - x.min()) / (x.max() - x.min())


@program(normal((2000, 500)))
def z_scores(xp, x):
    return (x - x.mean(0)) / x.std(0)


@program(normal((1000, 1000)))
def double_centred(xp, x):
    return x - x.mean(0) - x.mean(1, keepdims=True) + x.mean()


@program(normal((N,), (N,)))
def cosine(xp, a, b):
    return (a * b).sum() / (xp.sqrt((a * a).sum()) * xp.sqrt((b * b).sum()))


@program(normal((N,), (N,)))
def masked_mean(xp, x, y):
    return xp.where(x > 0, y, 0).sum() / (x > 0).sum()


@program(normal((500_000,), dtype="f8"))
def entropy(xp, x):
    p = xp.abs(x)
    p = p / p.sum()
    return -(p * xp.log(p)).sum()


@program(normal((N,)))
def huber(xp, r):
    a = xp.abs(r)
    return xp.where(a <= 1, 0.5 * r * r, a - 0.5).mean()


@program(normal((N,)))
def signed_log(xp, x):
    return xp.sign(x) * xp.log1p(xp.abs(x))


@program(normal((N,)))
def powers(xp, x):
    return x ** 2 + x ** 3 + 0.5 * x ** 4


@program(normal((N,), dtype="f8"))
def horner(xp, x):
    return ((((0.1 * x + 0.2) * x + 0.3) * x + 0.4) * x + 0.5) * x + 0.6


@program(normal((N,)))
def clipped(xp, x):
    return xp.clip(0.25 * x + 0.5, 0, 1) * 255


@program(normal((N,), dtype="f8"))
def slope_of_sigmoid(xp, x):
    s = 1 / (1 + xp.exp(-x))
    return s * (1 - s)


@program(normal((1000, 1000)))
def softplus_means(xp, x):
    return xp.logaddexp(0.0, x).mean(1)


@program(normal((1000, 1000), (1000, 1), (1, 1000)))
def outer_added(xp, m, a, b):
    return m + a * b


@program(normal((1000, 1000)))
def symmetric(xp, x):
    return 0.5 * (x + x.T)


@program(lambda r: [(r.standard_normal((500, 500)) + 1j * r.standard_normal((500, 500))).astype("c8")])
def power_spectrum(xp, z):
    return (z * xp.conj(z)).real.sum(1)


@program(whole(1 << 31, N, "i8"))
def xorshift(xp, s):
    s = s ^ (s << 13)
    s = s ^ (s >> 7)
    return (s ^ (s << 17)) & 1023


@program(whole(100, N, "i4"))
def counted(xp, k):
    return ((k % 7 == 0) & (k > 10)).sum()


@program(normal((N,), dtype="f2"))
def halves(xp, x):
    return (x * x + x).astype("f4").sum()


@program(normal((500, 500)))
def neighbours_of_padded(xp, x):
    p = xp.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


@program(normal((1000, 1000)))
def rolled(xp, x):
    return x - xp.roll(x, 1, 0) + xp.roll(x, -1, 1)


@program(normal((1000, 1000)))
def running_row_means(xp, x):
    return xp.cumsum(x, 1) / xp.arange(1, 1001)


@program(normal((300, 300), (300, 300)))
def largest_differences(xp, a, b):
    return xp.abs(a[:, None, :] - b[None, :, :]).max(-1)


@program(normal((N,)))
def elu(xp, x):
    return xp.where(x > 0, x, xp.exp(xp.minimum(x, 0)) - 1)


@program(normal((4096, 64), (64,)))
def rms_norm(xp, x, g):
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g


@program(normal((8, 128, 64), (8, 128, 64)))
def attention_weights(xp, q, k):
    s = q @ xp.swapaxes(k, 1, 2) * 0.125
    e = xp.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@program(whole(1000, N, "i8"))
def collatz(xp, n):
    return xp.where(n % 2 == 0, n // 2, 3 * n + 1)


@program(whole(256, (1000, 1000, 3), "u1"))
def gamma(xp, image):
    return (xp.sqrt(image.astype("f4") / 255) * 255).astype("u1")


@program(whole(256, (1000, 1000, 3), "u1"))
def bright(xp, image):
    return image.mean(2) > 127


@program(normal((N,), dtype="f8"))
def runge_kutta(xp, y):
    def slope(v):
        return -2 * v + 1

    a = slope(y)
    b = slope(y + 0.005 * a)
    c = slope(y + 0.005 * b)
    return y + 0.01 / 6 * (a + 2 * b + 2 * c + slope(y + 0.01 * c))


@program(normal((1000, 1000), dtype="f8"))
def size_of_gradient(xp, u):
    x, y = (u[2:, 1:-1] - u[:-2, 1:-1]) / 2, (u[1:-1, 2:] - u[1:-1, :-2]) / 2
    return xp.sqrt(x * x + y * y)


@program(normal((N,), dtype="f8"))
def skewness(xp, x):
    d = x - x.mean()
    return (d ** 3).mean() / (d * d).mean() ** 1.5


@program(normal((1000, 1000)))
def correlation_of_rows(xp, x):
    d = x - x.mean(1, keepdims=True)
    return (d[1:] * d[:-1]).sum(1) / xp.sqrt((d[1:] ** 2).sum(1) * (d[:-1] ** 2).sum(1))


@program(lambda r: [r.integers(0, 1000, N), r.standard_normal(1000).astype("f4")])
def looked_up(xp, i, table):
    return table[i] * 2


@program(normal((100, 100, 100)))
def turned(xp, x):
    return xp.transpose(x, (2, 0, 1)) * 2 + 1


@program(whole(2, (1000, 1000), "u1"))
def row_counts(xp, b):
    return b.sum(1)


@program(normal((50, 200, 200)))
def spread_of_frames(xp, x):
    return x.std(0)


@program(whole(1 << 30, N, "u4"))
def mixed_bits(xp, x):
    x = x ^ (x >> 16)
    x = x * xp.uint32(0x85EBCA6B)
    x = x ^ (x >> 13)
    return x * xp.uint32(0xC2B2AE35)


@program(normal((1000,), dtype="f8"))
def standardised_thousand(xp, x):
    return (x - x.mean()) / x.std()


@program(normal((3,), dtype="f8"))
def direction(xp, x):
    return x / xp.sqrt((x * x).sum())


@program(lambda r: [*whole(256, (720, 1280, 3), "u1", 2)(r), r.random((720, 1280, 1), "f4")])
def alpha_blend(xp, a, b, alpha):
    return a * alpha + b * (1 - alpha)


@program(lambda r: [r.integers(0, 256, (720, 1280, 3)).astype("u1"), r.random(3, "f4"), r.random(3, "f4") + 1])
def to_tensor(xp, image, mean, std):
    x = (image.astype("f4") / 255 - mean) / std
    return xp.transpose(x, (2, 0, 1)) * 1


@program(lambda r: [r.random((720, 1280, 3), "f4")])
def channel_means(xp, x):
    return x.mean((0, 1))


@program(lambda r: [r.random((720, 1280, 3), "f4")])
def value_and_saturation(xp, x):
    top, low = x.max(2), x.min(2)
    return xp.where(top > 0, (top - low) / xp.maximum(top, 1e-6), 0)


@program(normal((64, 128, 64)))
def layer_norm_64(xp, x):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / xp.sqrt(v + 1e-5)


@program(normal((64, 100, 80)))
def softmax_middle(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@program(normal((1000, 1000)))
def rolling_mean_cumsum(xp, x):
    c = xp.cumsum(x, 1)
    return (c[:, 20:] - c[:, :-20]) / 20


@program(lambda r: [r.random((9, 200, 300), "f4")])
def lattice_density(xp, f):
    rho = f.sum(0)
    ux = (f[1] - f[3] + f[5] - f[6] - f[7] + f[8]) / rho
    uy = (f[2] - f[4] + f[5] + f[6] - f[7] - f[8]) / rho
    return rho * (1 - 1.5 * (ux * ux + uy * uy))


@program(lambda r: [r.random((512, 512), "f4"), r.random((512, 512), "f4")])
def gray_scott(xp, u, v):
    c = u[1:-1, 1:-1]
    d = v[1:-1, 1:-1]
    lu = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * c
    lv = v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * d
    uvv = c * d * d
    return c + 0.16 * lu - uvv + 0.035 * (1 - c), d + 0.08 * lv + uvv - 0.095 * d


@program(lambda r: [r.random((512, 512), "f8"), r.random((512, 512), "f8")])
def wave(xp, u, old):
    lap = (xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4 * u)
    return 2 * u - old + 0.1 * lap


@program(lambda r: [r.standard_normal((20000, 20)), r.standard_normal(20), (r.random(20000) < 0.5).astype("f8")])
def logistic_gradient(xp, x, w, y):
    p = 1 / (1 + xp.exp(-(x @ w)))
    return x.T @ (p - y) / 20000


@program(lambda r: [r.standard_normal((5000, 100)).astype("f4"), r.integers(0, 100, 5000)])
def cross_entropy(xp, z, k):
    m = z.max(1)
    s = xp.log(xp.exp(z - m[:, None]).sum(1)) + m
    return (s - xp.take_along_axis(z, k[:, None], 1)[:, 0]).mean()


@program(lambda r: [r.standard_normal((20000, 10)).astype("f4"), r.integers(0, 10, 20000)])
def accuracy(xp, z, k):
    return (z.argmax(1) == k).mean()


@program(lambda r: [r.random((1024, 1024), "f4")])
def sobel(xp, a):
    gx = a[:-2, 2:] + 2 * a[1:-1, 2:] + a[2:, 2:] - a[:-2, :-2] - 2 * a[1:-1, :-2] - a[2:, :-2]
    gy = a[2:, :-2] + 2 * a[2:, 1:-1] + a[2:, 2:] - a[:-2, :-2] - 2 * a[:-2, 1:-1] - a[:-2, 2:]
    return xp.sqrt(gx * gx + gy * gy)


@program(lambda r: [r.integers(0, 256, (1024, 1024)).astype("u1")])
def box_filter(xp, a):
    f = a.astype("u2")
    r = f[:-2] + f[1:-1] + f[2:]
    return ((r[:, :-2] + r[:, 1:-1] + r[:, 2:]) // 9).astype("u1")


@program(whole(256, (3, 1024, 1024), "u1"))
def median_of_frames(xp, a):
    low, high = xp.minimum(a[0], a[1]), xp.maximum(a[0], a[1])
    return xp.maximum(low, xp.minimum(high, a[2]))


@program(normal((1024, 1024)))
def half_size(xp, a):
    return a.reshape(512, 2, 512, 2).mean((1, 3))


@program(normal((512, 512)))
def double_size(xp, a):
    return xp.repeat(xp.repeat(a, 2, 0), 2, 1)


@program(normal((1_000_000,)))
def mu_law(xp, x):
    y = xp.clip(x, -1, 1)
    return (xp.sign(y) * xp.log1p(255 * xp.abs(y)) / 5.545177 + 1) * 127.5


@program(lambda r: [r.random(1_000_000) + 1])
def drawdown(xp, p):
    top = xp.maximum.accumulate(p) if hasattr(xp.maximum, "accumulate") else xp.cummax(p)
    return ((top - p) / top).max()


@program(lambda r: [r.random((500, 2000)) + 1])
def log_returns(xp, p):
    r = xp.log(p[:, 1:] / p[:, :-1])
    return r.mean(1), r.std(1)


@program(whole(128, (2_000_000,), "u1"))
def letters(xp, a):
    lower = (a >= 97) & (a <= 122)
    return xp.where(lower, a - 32, a)


@program(normal((100_000, 3), (3, 3)))
def rotate(xp, p, m):
    return p @ m.T


@program(normal((100_000, 3), (100_000, 3)))
def cross(xp, a, b):
    x, y, z = a[:, 0], a[:, 1], a[:, 2]
    u, v, w = b[:, 0], b[:, 1], b[:, 2]
    return xp.stack([y * w - z * v, z * u - x * w, x * v - y * u], 1)


@program(normal((100_000, 4)))
def quaternion_norms(xp, q):
    return q / xp.sqrt((q * q).sum(1, keepdims=True))


@program(normal((200_000, 3)))
def box_of_points(xp, p):
    return (p - p.min(0)) / (p.max(0) - p.min(0))


@program(normal((1000, 1000), dtype="f8"))
def covariance(xp, x):
    d = x - x.mean(0)
    return d.T @ d / 999


@program(normal((2000, 500)))
def row_max_share(xp, x):
    a = xp.abs(x)
    return (a.max(1) / a.sum(1)).mean()


@program(normal((500, 2000)))
def column_std(xp, x):
    return x.std(0)


@program(normal((300, 300, 30)))
def last_axis_norm(xp, x):
    return xp.sqrt((x * x).sum(-1))


@program(normal((30, 300, 300)))
def first_axis_norm(xp, x):
    return xp.sqrt((x * x).sum(0))


@program(normal((100, 3, 3), (100, 3, 3)))
def small_products(xp, a, b):
    return (a[:, :, :, None] * b[:, None, :, :]).sum(2)


@program(normal((1_000_000,), dtype="f2"))
def half_gelu(xp, x):
    return x * 0.5 * (1 + xp.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


@program(lambda r: [(r.standard_normal(500_000) + 1j * r.standard_normal(500_000)).astype("c8")])
def phases(xp, z):
    return z / xp.abs(z)


@program(lambda r: [r.integers(-1000, 1000, 1_000_000).astype("i4"), r.integers(1, 50, 1_000_000).astype("i4")])
def quotients(xp, a, b):
    return a // b + a % b


@program(lambda r: [r.random(1_000_000), r.random(1_000_000)])
def inside_circle(xp, x, y):
    return 4 * (x * x + y * y <= 1).mean()


@program(lambda r: [r.random(100), r.random(100)])
def trapezoid(xp, x, y):
    return ((x[1:] - x[:-1]) * (y[1:] + y[:-1])).sum() / 2


@program(lambda r: [r.random((20, 20))])
def small_laplace(xp, u):
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


@program(normal((256, 784), (784, 128), (128,)))
def dense_relu(xp, x, w, b):
    return xp.maximum(x @ w + b, 0)


@program(normal((2000, 2000)))
def upper_part(xp, x):
    return xp.triu(x).sum(1)


@program(normal((1_000_000,)))
def sorted_gaps(xp, x):
    return xp.abs(x[1:] - x[:-1]).max()


@program(lambda r: [r.standard_normal((1000, 1000)).astype("f4"), r.random((1000, 1000)) < 0.3])
def filled(xp, x, bad):
    m = xp.where(bad, 0, x).sum(0) / xp.maximum((~bad).sum(0), 1)
    return xp.where(bad, m, x)


import benchmarks.programs_more  # noqa: E402, F401  more of them
import benchmarks.programs_third  # noqa: E402, F401  and once more
import benchmarks.programs_large  # noqa: E402, F401  of large arrays


def prepare(library, f, arrays):
    """A call without arguments, which returns the result."""
    import numpy as np
    if library == "numpy":
        return lambda: f(np, *arrays)
    if library == "jax":
        import jax
        given, jitted = [jax.numpy.asarray(a) for a in arrays], jax.jit(lambda *a: f(jax.numpy, *a))
        return lambda: jax.block_until_ready(jitted(*given))
    import frit
    if library == "frit":
        tensors = [frit.asarray(a) for a in arrays]
        frit.eval(tensors)

        def call():
            out = f(frit, *tensors)
            frit.eval(out)
            return out
    else:
        fast = frit.accelerate(lambda *a: f(np, *a))

        def call():
            return fast(*arrays)
    for _ in range(40):
        call()
    frit.wait_for_compiles(120)
    return call


def work(library, names):
    """In the library's process: a line for each program."""
    import numpy as np
    np.seterr(all="ignore")
    for name in names:
        f, make = PROGRAMS[name]
        arrays = make(np.random.default_rng(0))
        want = np.asarray(f(np, *arrays))
        call = prepare(library, f, arrays)
        got = np.asarray(call())
        tolerance = 1e-2 if arrays[0].dtype.itemsize < 4 else 1e-3 if want.dtype.itemsize <= 4 else 1e-6
        right = got.shape == want.shape and np.allclose(got, want, tolerance, tolerance, equal_nan=True)
        print(name, statistics.median(timed(call, 0.25)) * 1e6 if right else "wrong", flush=True)


def environment(threads):
    names = "OMP MKL OPENBLAS NUMEXPR NUMBA FRIT".split()
    return {**os.environ, **{f"{n}_NUM_THREADS": str(threads) for n in names}, "JAX_ENABLE_X64": "1",
            "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"}


def pinning(threads):
    """For a process to come: no more processors than threads, whatever its library does; None where that cannot be."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    processors = sorted(os.sched_getaffinity(0))[:threads]
    return lambda: os.sched_setaffinity(0, processors)


def run(library, names, threads):
    """{program: microseconds}, or None where there is no such library."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "benchmarks.programs", "--work", library, "--only",
                           ",".join(names)], env=environment(threads), text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=pinning(threads))
    if done.returncode and "ModuleNotFoundError" in done.stderr:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(line.split() for line in done.stdout.splitlines())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="names of programs")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(PROGRAMS)
    if args.work:
        work(args.work, names)
        return
    want_frit()
    results = {k: run(k, names, args.threads) for k in args.libraries.split(",")}
    results = {k: r for k, r in results.items() if r}
    print(f"{'us':<24}" + "".join(f"{k:>17}" for k in results))
    n_behind = 0
    for name in names:
        row = {k: r[name] for k, r in results.items()}
        peers = [float(v) for k, v in row.items() if not k.startswith("frit") and v != "wrong"]
        behind = any(v == "wrong" or (peers and float(v) > BEHIND * min(peers))
                     for k, v in row.items() if k.startswith("frit"))
        n_behind += behind
        print(f"{name:<24}" + "".join(f"{v if v == 'wrong' else format(float(v), '.1f'):>17}" for v in row.values())
              + ("   behind" if behind else ""))
    print(f"\nfrit takes more than {BEHIND} times the best of the others in {n_behind} of {len(names)}")


if __name__ == "__main__":
    main()
