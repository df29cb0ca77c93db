"""Programs over arrays that no cache near a core holds, for benchmarks/programs.py: what goes through them several
times, or along other axes than the last."""
from benchmarks.program_list import normal, program


@program(normal((32, 64, 56, 56)))
def batch_norm_images(xp, x):
    m = x.mean((0, 2, 3), keepdims=True)
    return (x - m) / xp.sqrt(((x - m) ** 2).mean((0, 2, 3), keepdims=True) + 1e-5)


@program(normal((32, 64, 56, 56)))
def instance_norm(xp, x):
    return (x - x.mean((2, 3), keepdims=True)) / xp.sqrt(x.var((2, 3), keepdims=True) + 1e-5)


@program(normal((16, 21, 128, 128)))
def softmax_of_classes(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@program(normal((16, 21, 128, 128)))
def log_softmax_of_classes(xp, x):
    s = x - x.max(1, keepdims=True)
    return s - xp.log(xp.exp(s).sum(1, keepdims=True))


@program(normal((8, 32, 128, 128)))
def layer_norm_of_channels(xp, x):
    m = x.mean(1, keepdims=True)
    return (x - m) / xp.sqrt(x.var(1, keepdims=True) + 1e-6)


@program(normal((8, 32, 128, 128)))
def unit_channels(xp, x):
    return x / xp.sqrt((x * x).sum(1, keepdims=True) + 1e-12)


@program(normal((32, 3, 256, 256)))
def grey_world(xp, x):
    return x * (x.mean((1, 2, 3), keepdims=True) / x.mean((2, 3), keepdims=True))


@program(normal((32, 3, 256, 256)))
def spread_of_channels(xp, x):
    return x.std(1)


@program(normal((4096, 2048)))
def standardised_columns(xp, x):
    return (x - x.mean(0)) / x.std(0)


@program(normal((2_000_000, 4), dtype="f8"))
def standardised_features(xp, x):
    return (x - x.mean(0)) / x.std(0)


@program(normal((4096, 2048)))
def softmax_columns(xp, x):
    e = xp.exp(x - x.max(0))
    return e / e.sum(0)


@program(normal((8_000_000,)))
def z_scores_long(xp, x):
    return (x - x.mean()) / x.std()


@program(normal((8_000_000,)))
def winsorized(xp, x):
    m, s = x.mean(), x.std()
    return xp.clip(x, m - 2 * s, m + 2 * s)


@program(normal((2048, 2048)))
def distance_rows(xp, x):
    n = (x * x).sum(1)
    return xp.sqrt(xp.maximum(n[:, None] + n[None, :] - 2 * x, 0))


@program(normal((128, 128, 128)))
def gradient_energy(xp, u):
    dx = u[1:, :-1, :-1] - u[:-1, :-1, :-1]
    dy = u[:-1, 1:, :-1] - u[:-1, :-1, :-1]
    dz = u[:-1, :-1, 1:] - u[:-1, :-1, :-1]
    return (dx * dx + dy * dy + dz * dz).sum()


@program(normal((160, 160, 160), dtype="f8"))
def diffusion_3d(xp, u):
    return u[1:-1, 1:-1, 1:-1] + 0.1 * (u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1] + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
                                        + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6 * u[1:-1, 1:-1, 1:-1])


@program(lambda r: [r.random((9, 400, 400)) + 0.5])
def lattice_boltzmann(xp, f):
    w = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4
    ex, ey = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
    rho = f.sum(0)
    ux = (f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / rho
    uy = (f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / rho
    sq = 1.5 * (ux * ux + uy * uy)
    out = []
    for i in range(9):
        eu = 3 * (ex[i] * ux + ey[i] * uy)
        out.append(f[i] - 1.2 * (f[i] - w[i] * rho * (1 + eu + 0.5 * eu * eu - sq)))
    return xp.stack(out)


@program(lambda r: [1 + r.random((4, 600, 600))])
def euler_flux(xp, q):
    rho, mx, my, e = q[0], q[1], q[2], q[3]
    u, v = mx / rho, my / rho
    p = 0.4 * (e - 0.5 * rho * (u * u + v * v))
    fx = xp.stack([mx, mx * u + p, my * u, (e + p) * u])
    c = xp.sqrt(1.4 * p / rho) + xp.abs(u)
    a = xp.maximum(c[:, 1:], c[:, :-1])
    return 0.5 * (fx[:, :, 1:] + fx[:, :, :-1]) - 0.5 * a * (q[:, :, 1:] - q[:, :, :-1])


@program(normal((1000, 3), dtype="f8"))
def n_body(xp, p):
    d = p[None, :, :] - p[:, None, :]
    r2 = (d * d).sum(-1) + 1e-3
    return (d * (r2 ** -1.5)[:, :, None]).sum(1)


@program(lambda r: [r.random((1080, 1920, 3)).astype("f4")])
def srgb_to_linear(xp, x):
    return xp.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


@program(lambda r: [r.integers(0, 256, (1080, 1920, 3)).astype("u1")])
def to_float_planes(xp, x):
    return ((x.astype("f4") / 255 - 0.45) / 0.225).transpose(2, 0, 1)


@program(lambda r: [r.random((1080, 1920)).astype("f4")])
def separable_blur(xp, x):
    k = [0.06, 0.24, 0.4, 0.24, 0.06]
    n, m = x.shape[0] - 4, x.shape[1] - 4
    y = sum(k[i] * x[i:n + i] for i in range(5))
    return sum(k[i] * y[:, i:m + i] for i in range(5))


@program(lambda r: [r.random((1080, 1920)).astype("f4")])
def harris(xp, x):
    gx, gy = (x[1:-1, 2:] - x[1:-1, :-2]) / 2, (x[2:, 1:-1] - x[:-2, 1:-1]) / 2

    def box(a):
        s = a[:-2] + a[1:-1] + a[2:]
        return s[:, :-2] + s[:, 1:-1] + s[:, 2:]
    a, b, c = box(gx * gx), box(gy * gy), box(gx * gy)
    return a * b - c * c - 0.05 * (a + b) ** 2


@program(lambda r: [r.random((1080, 1920, 3)).astype("f4")])
def rgb_to_hsv(xp, x):
    r, g, b = x[..., 0], x[..., 1], x[..., 2]
    high, low = x.max(-1), x.min(-1)
    d = high - low
    safe = xp.where(d == 0, 1, d)
    h = xp.where(high == r, (g - b) / safe % 6, xp.where(high == g, (b - r) / safe + 2, (r - g) / safe + 4))
    return xp.stack([h / 6, d / xp.maximum(high, 1e-9), high], -1)


@program(normal((64, 16, 128, 64), (128, 32), (128, 32)))
def rotary_heads(xp, q, c, s):
    a, b = q[..., :32], q[..., 32:]
    return xp.concatenate([a * c - b * s, a * s + b * c], -1)


@program(normal((8, 12, 256, 256)))
def causal_softmax(xp, s):
    n = s.shape[-1]
    keep = xp.arange(n)[:, None] >= xp.arange(n)
    s = xp.where(keep, s * 0.125, -1e9)
    e = xp.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@program(normal((64, 128, 256)))
def mean_of_tokens(xp, x):
    m = x.mean(1)
    return m / xp.sqrt((m * m).sum(-1, keepdims=True))


@program(normal((4096, 1000)))
def cross_entropy_gradient(xp, x):
    e = xp.exp(x - x.max(1, keepdims=True))
    p = e / e.sum(1, keepdims=True)
    return (p - (xp.arange(1000) == 7)) / x.shape[0]


@program(normal((2048, 1024), (2048, 1024), (1024,)))
def layer_norm_gradient(xp, g, x, w):
    m = x.mean(1, keepdims=True)
    r = 1 / xp.sqrt(x.var(1, keepdims=True) + 1e-5)
    h = (x - m) * r
    d = g * w
    return r * (d - d.mean(1, keepdims=True) - h * (d * h).mean(1, keepdims=True))


@program(normal((4, 2_000_000)))
def adamw(xp, a):
    p, g, m, v = a[0], a[1], a[2], a[3] * a[3]
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p * 0.9999 - 1e-3 * (m / 0.1) / (xp.sqrt(v / 0.001) + 1e-8)


@program(lambda r: [r.random(4_000_000), r.random(4_000_000)])
def box_muller(xp, u, v):
    return xp.sqrt(-2 * xp.log(u + 1e-300)) * xp.cos(6.283185307179586 * v)


@program(lambda r: [r.standard_normal((252, 20_000)) * 0.01])
def price_paths(xp, z):
    s = 100 * xp.exp(xp.cumsum(z - 5e-5, 0))
    return xp.maximum(s.mean(0) - 100, 0)


@program(lambda r: [r.standard_normal((500, 4000))])
def rolling_volatility(xp, x):
    n = 20
    s, q = xp.cumsum(x, 1), xp.cumsum(x * x, 1)
    m = (s[:, n:] - s[:, :-n]) / n
    return xp.sqrt(xp.maximum((q[:, n:] - q[:, :-n]) / n - m * m, 0))


@program(lambda r: [r.integers(0, 2, (2048, 2048)).astype("u1")])
def life_large(xp, g):
    n = sum(xp.roll(xp.roll(g, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
    return ((n == 3) | ((g == 1) & (n == 2))).astype("u1")


@program(lambda r: [r.choice([-1, 1], (1024, 1024)).astype("i1"), r.random((1024, 1024)).astype("f4")])
def ising_sweep(xp, s, u):
    n = xp.roll(s, 1, 0) + xp.roll(s, -1, 0) + xp.roll(s, 1, 1) + xp.roll(s, -1, 1)
    return xp.where(u < xp.exp(-0.8 * (s * n).astype("f4")), -s, s)


@program(lambda r: [r.standard_normal((512, 2048)) + 1j * r.standard_normal((512, 2048))])
def power_in_decibels(xp, z):
    p = z.real ** 2 + z.imag ** 2
    return 10 * xp.log10(p / p.max(1, keepdims=True) + 1e-12)


@program(lambda r: [r.random((300, 64)).astype("f4"), r.random((500, 64)).astype("f4")])
def manhattan(xp, a, b):
    return xp.abs(a[:, None] - b[None]).sum(-1)


@program(lambda r: [r.random((2000, 2)), r.random((2000, 2))])
def rbf_kernel(xp, a, b):
    return xp.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1))


@program(lambda r: [r.random((1000, 1000)) < 0.02, r.random((1000, 1000))])
def forest_fire(xp, burns, tree):
    near = xp.roll(burns, 1, 0) | xp.roll(burns, -1, 0) | xp.roll(burns, 1, 1) | xp.roll(burns, -1, 1)
    return xp.where(near & (tree > 0.4), 2, xp.where(burns, 0, 1)).astype("i1")


@program(lambda r: [r.random((3, 1_000_000)), r.random((3, 1_000_000))])
def boris_push(xp, v, e):
    v = v + 0.05 * e
    t = xp.array([0.0, 0.0, 0.1])[:, None] * xp.ones(1)
    c = xp.stack([v[1] * t[2] - v[2] * t[1], v[2] * t[0] - v[0] * t[2], v[0] * t[1] - v[1] * t[0]])
    w = v + c
    s = 2 * t / (1 + (t * t).sum(0))
    return v + xp.stack([w[1] * s[2] - w[2] * s[1], w[2] * s[0] - w[0] * s[2], w[0] * s[1] - w[1] * s[0]]) + 0.05 * e
