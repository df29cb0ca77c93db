"""Small programs once more, for benchmarks/programs.py: losses and cells, markets, colours, meshes, lattices, hashes."""
from benchmarks.program_list import normal, program, whole


def uniform(*shapes, dtype="f4"):
    return lambda r: [r.random(s).astype(dtype) for s in shapes]


@program(normal((1024, 256), (1024, 256), (1024, 256), (1024, 256)))
def gru_cell(xp, z, r, n, h):
    z, r = 1 / (1 + xp.exp(-z)), 1 / (1 + xp.exp(-r))
    return (1 - z) * xp.tanh(n + r * h) + z * h


@program(normal((512, 1024), (512, 256)))
def lstm_cell(xp, gates, c):
    i, f, g, o = (gates[:, k * 256:(k + 1) * 256] for k in range(4))
    c = c / (1 + xp.exp(-f)) + xp.tanh(g) / (1 + xp.exp(-i))
    return xp.tanh(c) / (1 + xp.exp(-o))


@program(normal((500_000,)))
def mish(xp, x):
    return x * xp.tanh(xp.log1p(xp.exp(x)))


@program(lambda r: [r.standard_normal(200_000).astype("f4"), (r.random(200_000) < 0.3).astype("f4")])
def focal_loss(xp, x, y):
    p = 1 / (1 + xp.exp(-x))
    q = xp.where(y == 1, p, 1 - p)
    return (-((1 - q) ** 2) * xp.log(xp.maximum(q, 1e-7))).mean()


@program(normal((2048, 128), (2048, 128), (2048, 128)))
def triplet_loss(xp, a, p, n):
    return xp.maximum(((a - p) ** 2).sum(1) - ((a - n) ** 2).sum(1) + 0.2, 0).mean()


@program(lambda r: [r.standard_normal((8, 128, 128)).astype("f4"), r.random((128, 128)) < 0.5])
def masked_attention(xp, s, mask):
    s = xp.where(mask, s, xp.float32(-1e9))
    e = xp.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@program(normal((300_000,), (300_000,), (300_000,)))
def rms_prop(xp, p, g, v):
    v = 0.9 * v * v + 0.1 * g * g
    return p - 0.01 * g / (xp.sqrt(v) + 1e-8)


@program(normal((64, 32, 28, 28), (32,), (32,), (32,), (32,)))
def batch_norm_inference(xp, x, m, v, g, b):
    c = lambda t: t[None, :, None, None]        # noqa: E731
    return (x - c(m)) / xp.sqrt(c(v) ** 2 + 1e-5) * c(g) + c(b)


@program(normal((32, 64, 32, 32)))
def global_mean_pool(xp, x):
    return x.mean((2, 3))


@program(normal((16, 16, 64, 64)))
def max_pool_2(xp, x):
    return xp.maximum(xp.maximum(x[:, :, ::2, ::2], x[:, :, ::2, 1::2]), xp.maximum(x[:, :, 1::2, ::2], x[:, :, 1::2, 1::2]))


@program(normal((4096, 100)))
def label_smoothing(xp, x):
    l = x - xp.log(xp.exp(x).sum(1, keepdims=True))
    return -(0.9 * l[:, 0] + 0.1 * l.mean(1)).mean()


@program(normal((200, 300, 8)))
def group_norm(xp, x):
    return (x - x.mean((1, 2), keepdims=True)) / xp.sqrt(x.var((1, 2), keepdims=True) + 1e-5)


@program(normal((1000, 250), dtype="f8"))
def geometric_paths(xp, z):
    return xp.exp(xp.cumsum(0.0001 + 0.01 * z, 1))


@program(normal((252, 500), dtype="f8"))
def sharpe(xp, r):
    return r.mean(0) / r.std(0) * 252 ** 0.5


@program(uniform((1000, 250), dtype="f8"))
def max_draw(xp, p):
    return (p.max(1) - p.min(1)) / p.max(1)


@program(uniform((2000,), dtype="f8"))
def binomial_tree(xp, v):
    for _ in range(20):
        v = 0.99 * (0.55 * v[1:] + 0.45 * v[:-1])
    return v


@program(uniform((480, 640, 3)))
def sepia(xp, im):
    r, g, b = im[..., 0], im[..., 1], im[..., 2]
    return xp.stack([xp.minimum(0.393 * r + 0.769 * g + 0.189 * b, 1), xp.minimum(0.349 * r + 0.686 * g + 0.168 * b, 1),
                     xp.minimum(0.272 * r + 0.534 * g + 0.131 * b, 1)], -1)


@program(uniform((3, 480, 640)))
def luma_planes(xp, im):
    y = 0.299 * im[0] + 0.587 * im[1] + 0.114 * im[2]
    return xp.stack([y, 0.564 * (im[2] - y), 0.713 * (im[0] - y)])


@program(whole(256, (600, 800), "u1"))
def dilate(xp, a):
    m = xp.maximum(xp.maximum(a[:-2], a[1:-1]), a[2:])
    return xp.maximum(xp.maximum(m[:, :-2], m[:, 1:-1]), m[:, 2:])


@program(lambda r: [r.integers(0, 256, (600, 800)).astype("u1"), r.random(256).astype("f4")])
def tone_curve(xp, a, curve):
    return curve[a]


@program(uniform((512, 512), (512, 512), (512, 512)))
def over(xp, a, b, alpha):
    return xp.clip(a * alpha + b * (1 - alpha), 0, 1)


@program(uniform((512, 512)))
def quarter_size(xp, a):
    return a.reshape(128, 4, 128, 4).mean((1, 3))


@program(whole(256, (480, 640, 3), "u1"))
def invert(xp, a):
    return 255 - a


@program(whole(256, (480, 640, 3), "u1"))
def brightest(xp, a):
    return a.max(2)


@program(uniform((500, 500), dtype="f8"))
def burgers(xp, u):
    return u[1:-1, 1:-1] - 0.1 * u[1:-1, 1:-1] * (u[1:-1, 1:-1] - u[1:-1, :-2]) + 0.05 * (
        u[1:-1, 2:] - 2 * u[1:-1, 1:-1] + u[1:-1, :-2])


@program(normal((300, 3), dtype="f8"))
def lennard_jones(xp, p):
    d = p[:, None] - p[None]
    s = 1 / ((d * d).sum(-1) + 0.1)
    s = s * s * s
    return (s * s - s).sum()


@program(lambda r: [r.integers(0, 2, (500, 500)) * 2 - 1])
def ising_energy(xp, s):
    return -(s * (xp.roll(s, 1, 0) + xp.roll(s, 1, 1))).sum()


@program(normal((100_000, 3), (100_000, 3), (100_000, 3), dtype="f8"))
def triangle_areas(xp, a, b, c):
    u, v = b - a, c - a
    x = u[:, 1] * v[:, 2] - u[:, 2] * v[:, 1]
    y = u[:, 2] * v[:, 0] - u[:, 0] * v[:, 2]
    z = u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
    return 0.5 * xp.sqrt(x * x + y * y + z * z)


@program(normal((200_000, 3), (3, 3)))
def rotate_points(xp, p, m):
    return p @ m


@program(normal((200_000, 2), dtype="f8"))
def polar(xp, p):
    return xp.stack([xp.hypot(p[:, 0], p[:, 1]), xp.arctan2(p[:, 1], p[:, 0])], 1)


@program(lambda r: [r.integers(0, 2 ** 63, 300_000, dtype="u8")])
def splitmix(xp, x):
    x = (x ^ x >> 30) * xp.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> 27) * xp.uint64(0x94d049bb133111eb)
    return x ^ x >> 31


@program(lambda r: [r.integers(0, 2 ** 31, 1_000_000, dtype="i4")])
def gray_code(xp, x):
    return x ^ x >> 1


@program(lambda r: [r.integers(0, 2 ** 31, 500_000, dtype="i4")])
def buckets(xp, x):
    return x % 1009


@program(lambda r: [r.integers(0, 1000, (1000, 100))])
def share_of_even(xp, x):
    return (x % 2 == 0).mean(1)


@program(lambda r: [(r.standard_normal((300, 300)) + 1j * r.standard_normal((300, 300)))])
def julia(xp, z):
    for _ in range(4):
        z = z * z - 0.4 + 0.6j
    return xp.abs(z) < 2


@program(lambda r: [(r.standard_normal((256, 512)) + 1j * r.standard_normal((256, 512))).astype("c8")])
def decibel(xp, z):
    return 10 * xp.log10(z.real ** 2 + z.imag ** 2 + 1e-12)


@program(normal((100_000,), (64,)))
def fir(xp, x, h):
    y = h[0] * x[8:]
    for k in range(1, 8):
        y = y + h[k] * x[8 - k:-k]
    return y


@program(normal((1024, 512)))
def hann_frames(xp, x):
    w = 0.5 - 0.5 * xp.cos(2 * xp.pi * xp.arange(512) / 512)
    return (x * w.astype("f4"))


@program(normal((400_000,), dtype="f8"))
def autocorrelation(xp, x):
    x = x - x.mean()
    return xp.stack([(x[k:] * x[:x.shape[0] - k]).sum() for k in range(5)])


@program(normal((100_000,), (100_000,), dtype="f8"))
def correlation(xp, a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / xp.sqrt((a * a).sum() * (b * b).sum())


@program(lambda r: [r.random((5000, 40)) + 0.1, r.random((5000, 40)) + 0.1])
def kl_rows(xp, p, q):
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    return (p * xp.log(p / q)).sum(1)


@program(uniform((200_000,), dtype="f8"))
def means(xp, x):
    x = x + 0.5
    return xp.stack([x.mean(), xp.exp(xp.log(x).mean()), 1 / (1 / x).mean()])


@program(normal((300_000,), (300_000,), dtype="f8"))
def r_squared(xp, y, p):
    return 1 - ((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@program(normal((1000, 1000), dtype="f8"))
def columns_lse(xp, x):
    m = x.max(0)
    return m + xp.log(xp.exp(x - m).sum(0))


@program(normal((2000, 50), (2000,), dtype="f8"))
def weighted_variance(xp, x, w):
    w = xp.abs(w)[:, None] / xp.abs(w).sum()
    m = (w * x).sum(0)
    return (w * (x - m) ** 2).sum(0)


@program(normal((1000, 1000)))
def top_and_bottom(xp, x):
    return xp.stack([x.argmax(1), x.argmin(1)])


@program(normal((700, 700)))
def skew_part(xp, a):
    return (a - a.T) / 2


@program(lambda r: [r.standard_normal((1000, 200)), r.permutation(1000), r.permutation(1000)])
def edge_lengths(xp, p, i, j):
    return xp.sqrt(((p[i] - p[j]) ** 2).sum(1))


@program(normal((1_000_000,), dtype="f8"))
def wrap_angle(xp, x):
    return (x + 3.141592653589793) % 6.283185307179586 - 3.141592653589793


@program(normal((50,), dtype="f8"))
def tiny_newton(xp, x):
    for _ in range(5):
        x = x - (x * x * x - 2) / (3 * x * x + 1e-3)
    return x


@program(normal((100, 10), (10,), (100,), dtype="f8"))
def tiny_regression(xp, x, w, y):
    r = (x * w).sum(1) - y
    return (x * r[:, None]).mean(0)


@program(normal((1_000_000,)))
def soft_threshold(xp, x):
    return xp.sign(x) * xp.maximum(xp.abs(x) - 0.5, 0)


@program(normal((1_000_000,)))
def tukey(xp, x):
    u = (x / 4.685) ** 2
    return xp.where(u <= 1, (1 - (1 - u) ** 3), 1).sum()


@program(normal((512, 512), (512, 512)))
def rotate_pairs(xp, a, b):
    c, s = 0.8, 0.6
    return xp.concatenate([c * a - s * b, s * a + c * b], 1)
