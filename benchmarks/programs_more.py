"""More small programs for benchmarks/programs.py: networks, geometry, images, signals, statistics, finance."""
from benchmarks.program_list import normal, program, whole


def with_nans(r):
    x = r.standard_normal((1000, 300))
    x[r.random(x.shape) < 0.1] = float("nan")
    return x


@program(normal((512, 512)))
def rms_norm_rows(xp, x):
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


@program(normal((4096, 128), (4096, 128)))
def cosine_rows(xp, a, b):
    return (a * b).sum(1) / (xp.sqrt((a * a).sum(1)) * xp.sqrt((b * b).sum(1)))


@program(normal((1000, 3)))
def pair_distances(xp, p):
    d = p[:, None, :] - p[None, :, :]
    return xp.sqrt((d * d).sum(-1))


@program(normal((2000, 2), dtype="f8"))
def gravity(xp, p):
    d = p[:500, None] - p[None, :500]
    r2 = (d ** 2).sum(2) + 0.01
    return (d / (r2 * xp.sqrt(r2))[:, :, None]).sum(1)


@program(normal((5000, 16), (10, 16)))
def nearest_center(xp, x, c):
    return ((x[:, None, :] - c[None]) ** 2).sum(-1).argmin(1)


@program(lambda r: [r.random((480, 640, 3)).astype("f4")])
def rgb_value(xp, im):
    mx = im.max(-1)
    mn = im.min(-1)
    return xp.where(mx > 0, (mx - mn) / xp.maximum(mx, 1e-6), 0)


@program(lambda r: [r.random((480, 640)).astype("f4")])
def sobel_magnitude(xp, u):
    gx = u[:-2, 2:] + 2 * u[1:-1, 2:] + u[2:, 2:] - (u[:-2, :-2] + 2 * u[1:-1, :-2] + u[2:, :-2])
    gy = u[2:, :-2] + 2 * u[2:, 1:-1] + u[2:, 2:] - (u[:-2, :-2] + 2 * u[:-2, 1:-1] + u[:-2, 2:])
    return xp.sqrt(gx * gx + gy * gy)


@program(lambda r: [r.random((256, 256)).astype("f8")])
def max_pool(xp, u):
    return u.reshape(128, 2, 128, 2).max((1, 3))


@program(normal((200000,), dtype="f8"))
def rolling_mean(xp, x):
    c = xp.cumsum(x)
    return (c[20:] - c[:-20]) / 20


@program(normal((200000,), dtype="f8"))
def z_score(xp, x):
    return (x - x.mean()) / x.std()


@program(normal((1000, 1000), dtype="f8"))
def col_stats(xp, x):
    return xp.stack([x.mean(0), x.std(0), x.min(0), x.max(0)])


@program(normal((1000, 200), dtype="f8"))
def covariance_matrix(xp, x):
    c = x - x.mean(0)
    return c.T @ c / (len(x) - 1)


@program(normal((64, 128, 64)))
def last_two_sums(xp, x):
    return x.sum((1, 2))


@program(normal((64, 128, 64)))
def middle_softmax(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@program(normal((8, 64, 64), (8, 64, 64), (8, 64, 64)))
def attention(xp, q, k, v):
    s = q @ k.transpose(0, 2, 1) / 8.0
    e = xp.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


@program(normal((512, 8, 64), (512, 1, 32), (512, 1, 32)))
def rotary(xp, x, c, s):
    a, b = (x[..., :32], x[..., 32:])
    return xp.concatenate([a * c - b * s, a * s + b * c], -1)


@program(normal((2048, 512), (2048, 512)))
def swiglu(xp, a, b):
    return a / (1 + xp.exp(-a)) * b


@program(normal((300000,), (300000,)))
def huber_mean(xp, a, b):
    d = xp.abs(a - b)
    return xp.where(d < 1, 0.5 * d * d, d - 0.5).mean()


@program(normal((1000, 100)))
def kl(xp, x):
    p = xp.exp(x) / xp.exp(x).sum(1, keepdims=True)
    return (p * (xp.log(p) + 4.6)).sum(1).mean()


@program(lambda r: [r.integers(0, 2 ** 32, 500000, dtype="u4")])
def xorshift_32(xp, x):
    x = x ^ x << 13
    x = x ^ x >> 17
    return x ^ x << 5


@program(lambda r: [r.integers(0, 2 ** 32, 500000, dtype="u4")])
def popcount(xp, x):
    x = x - (x >> 1 & 1431655765)
    x = (x & 858993459) + (x >> 2 & 858993459)
    x = x + (x >> 4) & 252645135
    return x * 16843009 >> 24


@program(whole(256, (720, 1280), "u1", 2))
def blend_bytes(xp, a, b):
    return (a.astype("u2") + b >> 1).astype("u1")


@program(lambda r: [r.integers(-20000, 20000, 400000).astype("i2") for _ in range(2)])
def mix_audio(xp, a, b):
    return xp.clip(a.astype("i4") + b, -32768, 32767).astype("i2")


@program(whole(256, (720, 1280), "u1"))
def threshold(xp, im):
    return xp.where(im > 127, 255, 0).astype("u1")


@program(whole(256, (480, 640), "u1"))
def gamma_table(xp, im):
    return ((im / 255.0) ** 2.2 * 255).astype("u1")


@program(lambda r: [(r.random((300, 300)) * 3 - 2).astype("f8"), (r.random((300, 300)) * 3 - 1.5).astype("f8")])
def mandelbrot_steps(xp, a, b):
    c = a + 1j * b
    z = c * 0
    n = xp.zeros(c.shape, dtype="i4")
    for _ in range(10):
        z = xp.where(xp.abs(z) < 2, z * z + c, z)
        n = n + (xp.abs(z) < 2)
    return n


@program(normal((3, 500, 500), dtype="f8"))
def curl_z(xp, f):
    return (f[1, :, 2:] - f[1, :, :-2])[1:-1] * 0.5 - (f[0, 2:] - f[0, :-2])[:, 1:-1] * 0.5


@program(lambda r: [r.random((64, 64, 64))])
def laplace3(xp, u):
    return (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
            + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * u[1:-1, 1:-1, 1:-1])


@program(lambda r: [r.random((128, 256))])
def heat_steps(xp, u):
    for _ in range(5):
        u = u + 0.1 * (xp.roll(u, 1, 0) + xp.roll(u, -1, 0) + xp.roll(u, 1, 1) + xp.roll(u, -1, 1) - 4 * u)
    return u


@program(normal((400, 500), dtype="f8"))
def central_differences(xp, u):
    d = (u[:, 2:] - u[:, :-2]) / 2
    e = (u[2:] - u[:-2]) / 2
    return (d[1:-1] ** 2 + e[:, 1:-1] ** 2).sum()


@program(normal((100000,), dtype="f8"))
def diff_sign_changes(xp, x):
    return (xp.sign(x[1:]) != xp.sign(x[:-1])).sum()


@program(lambda r: [with_nans(r)])
def nan_mean(xp, x):
    return xp.nanmean(x, 0)


@program(lambda r: [with_nans(r)])
def nan_fill(xp, x):
    return xp.where(xp.isnan(x), 0.0, x).sum(1) / (~xp.isnan(x)).sum(1)


@program(normal((500, 500)))
def sym_part(xp, a):
    return (a + a.T) / 2


@program(normal((500, 500), dtype="f8"))
def trace_free(xp, a):
    return a - xp.eye(500) * (xp.trace(a) / 500)


@program(normal((100000, 4)))
def quaternion_norm(xp, q):
    return q / xp.sqrt((q * q).sum(1))[:, None]


@program(normal((100000, 4), (100000, 4)))
def quaternion_product(xp, a, b):
    w, x, y, z = (a[:, 0], a[:, 1], a[:, 2], a[:, 3])
    p, q, r, s = (b[:, 0], b[:, 1], b[:, 2], b[:, 3])
    return xp.stack([w * p - x * q - y * r - z * s, w * q + x * p + y * s - z * r,
                     w * r - x * s + y * p + z * q, w * s + x * r - y * q + z * p], 1)


@program(normal((50000, 3), (3, 3), (3,)))
def affine_points(xp, p, m, t):
    return (p[:, None, :] * m[None]).sum(-1) + t


@program(lambda r: [r.random(200000) * 3.14 for _ in range(4)])
def haversine_distance(xp, la, lo, lb, ob):
    a = xp.sin((lb - la) / 2) ** 2 + xp.cos(la) * xp.cos(lb) * xp.sin((ob - lo) / 2) ** 2
    return 12742 * xp.arcsin(xp.sqrt(a))


@program(lambda r: [r.random(200000).astype("f4")])
def fresnel(xp, c):
    g = xp.sqrt(1.2 + c * c)
    a = (g - c) / (g + c)
    b = (c * (g + c) - 1) / (c * (g - c) + 1)
    return 0.5 * a * a * (1 + b * b)


@program(lambda r: [r.random((1000, 50)), r.random(50)])
def portfolio(xp, ret, w):
    v = xp.cumprod(1 + 0.01 * (ret @ w))
    return v / v.max() - 1


@program(lambda r: [r.random(100000) + 0.5])
def log_return_volatility(xp, p):
    r = xp.log(p[1:] / p[:-1])
    return xp.sqrt((r ** 2).mean() * 252)


@program(lambda r: [r.random((40, 50, 60))])
def moveaxis_sum(xp, a):
    return (xp.moveaxis(a, 0, 2) * 2 + 1).sum(0)


@program(lambda r: [r.random((300, 400)), r.random((300, 400))])
def flip_average(xp, a, b):
    return (a[::-1] + b[:, ::-1]) / 2


@program(lambda r: [r.random((256, 256)).astype("f4")])
def upsample(xp, a):
    return xp.repeat(xp.repeat(a, 2, 0), 2, 1) * 0.5


@program(lambda r: [r.random((100, 100)).astype("f4")])
def tiles(xp, a):
    return xp.tile(a, (3, 3)) + 1


@program(lambda r: [r.random((1024, 256)).astype("f4")])
def pad_edge(xp, a):
    return xp.pad(a, 1)[1:, 1:] - xp.pad(a, 1)[:-1, :-1]


@program(lambda r: [r.random((300, 1000)), r.integers(0, 1000, 300)])
def pick_labels(xp, x, k):
    return -xp.log(x[xp.arange(300), k]).mean()


@program(lambda r: [r.random((1000, 64)).astype("f4"), r.integers(0, 1000, 5000)])
def embedding_sum(xp, w, k):
    return w[k].reshape(500, 10, 64).sum(1)


@program(lambda r: [r.random(256).astype("f4"), r.integers(0, 256, (300, 300))])
def palette(xp, t, k):
    return t[k] * 255


@program(lambda r: [r.random((2000,)), r.integers(0, 2000, 20000), r.integers(0, 2000, 20000)])
def edge_weights(xp, v, a, b):
    return xp.abs(v[a] - v[b]).sum()


@program(lambda r: [r.random((500, 500)).astype("f4")])
def checkerboard(xp, u):
    i = xp.arange(500)[:, None] + xp.arange(500)[None]
    return xp.where(i % 2 == 0, u, -u)


@program(lambda r: [r.random(1)])
def gauss_kernel(xp, sigma):
    g = xp.linspace(-3, 3, 201)
    k = xp.exp(-(g[:, None] ** 2 + g[None] ** 2) / sigma)
    return k / k.sum()


@program(lambda r: [r.random((60, 60))])
def small_jacobi(xp, u):
    for _ in range(10):
        u = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return u


@program(lambda r: [r.random(1000), r.random(1000)])
def lotka(xp, x, y):
    for _ in range(20):
        dx = x * (1.1 - 0.4 * y)
        dy = y * (0.1 * x - 0.4)
        x, y = (x + 0.01 * dx, y + 0.01 * dy)
    return x + y


@program(normal((64, 64), dtype="f8"))
def power_iteration(xp, a):
    v = xp.ones(64)
    for _ in range(10):
        v = a @ v
        v = v / xp.sqrt((v * v).sum())
    return v


@program(normal((1000, 20), (20,), (1000,), dtype="f8"))
def ridge_step(xp, x, w, y):
    g = x.T @ (x @ w - y) / 1000 + 0.1 * w
    return w - 0.01 * g


@program(lambda r: [r.standard_normal(100000) + 1j * r.standard_normal(100000)])
def spectrum_db(xp, z):
    return 10 * xp.log10(z.real ** 2 + z.imag ** 2 + 1e-12)


@program(lambda r: [(r.standard_normal((200, 300)) + 1j * r.standard_normal((200, 300))).astype("c8")])
def coherent_mean(xp, z):
    return xp.abs((z * xp.conj(z[:, :1])).mean(0))


@program(normal((1000000,)))
def leaky(xp, x):
    return xp.where(x > 0, x, 0.01 * x)


@program(normal((1000000,)))
def sigmoid_bce(xp, x):
    return (xp.maximum(x, 0) - x * 0.3 + xp.log1p(xp.exp(-xp.abs(x)))).mean()


@program(normal((32, 1000)))
def top_one(xp, x):
    return xp.exp(x.max(1) - xp.log(xp.exp(x).sum(1)))


@program(normal((100,)))
def tiny_softmax(xp, x):
    e = xp.exp(x - x.max())
    return e / e.sum()


@program(normal((3,), (3,), dtype="f8"))
def tiny_cross(xp, a, b):
    return xp.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@program(normal((4, 4), dtype="f8"))
def tiny_matrix(xp, a):
    return a @ a.T + xp.eye(4)


@program(lambda r: [r.random((500, 300)) < 0.5])
def any_all(xp, m):
    return m.any(0).sum() + m.all(1).sum()


@program(lambda r: [r.integers(0, 1000, (500, 300))])
def int_stats(xp, a):
    return a.sum(0) * 2 - a.max(0) + a.min(0)


@program(lambda r: [r.integers(0, 100, 200000).astype("i4")])
def even_squares(xp, a):
    return xp.where(a % 2 == 0, a * a, 0).sum()


@program(lambda r: [r.random((100, 100, 3)).astype("f4"), r.random((3, 3)).astype("f4")])
def color_matrix(xp, im, m):
    return xp.clip((im[..., None, :] * m).sum(-1), 0, 1)


@program(lambda r: [r.random((256, 256)).astype("f4")])
def unsharp(xp, u):
    b = (u[:-2] + u[1:-1] + u[2:]) / 3
    b = (b[:, :-2] + b[:, 1:-1] + b[:, 2:]) / 3
    return xp.clip(u[1:-1, 1:-1] * 2 - b, 0, 1)


@program(lambda r: [r.random((2000, 100)).astype("f4")])
def min_max_columns(xp, x):
    return (x - x.min(0)) / (x.max(0) - x.min(0))


@program(lambda r: [r.random((2000, 100)).astype("f4")])
def rank_one(xp, x):
    return x - x.mean(0) - x.mean(1)[:, None] + x.mean()


@program(lambda r: [r.random(100000).astype("f8")])
def entropy_of_weights(xp, p):
    q = p / p.sum()
    return -(q * xp.log(q)).sum()


@program(normal((1000, 1000)))
def f16_scale(xp, x):
    return (x.astype("f2") * 2 + 1).astype("f4")


@program(lambda r: [r.random((200, 200, 4)).astype("f4")])
def premultiply(xp, im):
    return xp.concatenate([im[..., :3] * im[..., 3:], im[..., 3:]], -1)


@program(lambda r: [r.random((512, 512)).astype("f4")])
def haar(xp, u):
    a = (u[::2] + u[1::2]) * 0.5
    d = (u[::2] - u[1::2]) * 0.5
    return xp.stack([a[:, ::2] + a[:, 1::2], a[:, ::2] - a[:, 1::2], d[:, ::2] + d[:, 1::2], d[:, ::2] - d[:, 1::2]])
