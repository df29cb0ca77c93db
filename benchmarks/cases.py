"""The workloads, each stated once in NumPy's words and, where a peer has other words, in those.

A case has inputs(), run(xp, *inputs) for every library that speaks NumPy (NumPy itself, frit, JAX, torch
through an adapter), optionally numexpr(ne, *inputs) and numba(nb) -> function.  `bytes` is the least
that has to move between memory and processor: every input once, every output once."""
import math

import numpy as np

F32, F64 = np.float32, np.float64


def rand(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


class Case:
    name = ""
    rtol = 1e-4
    small = False       # too small for bandwidth to mean anything

    def inputs(self):
        raise NotImplementedError

    def n_bytes(self):
        out = self.run(np, *self.inputs())
        out = out if isinstance(out, tuple) else (out,)
        return sum(a.nbytes for a in (*self.inputs(), *out) if hasattr(a, "nbytes"))


class Chain(Case):
    """Ten cheap operations."""
    n = 4_000_000

    def __init__(self, n, name):
        self.n, self.name = n, name
        self.small = n < 100_000

    def inputs(self):
        return rand(self.n), rand(self.n, seed=1), rand(self.n, seed=2)

    @staticmethod
    def run(xp, a, b, c):
        t = a * b + c
        t = xp.maximum(t, F32(0.1)) - b
        t = t * t + a
        t = xp.minimum(t, F32(5)) / (c * c + F32(1))
        return t

    @staticmethod
    def numexpr(ne, a, b, c):
        t = "where(a*b+c > 0.1, a*b+c, 0.1) - b"
        d = {"a": a, "b": b, "c": c}
        t = ne.evaluate(t, d)
        return ne.evaluate("where(t*t+a < 5, t*t+a, 5) / (c*c+1)", {**d, "t": t})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(a, b, c):
            out = np.empty_like(a)
            for i in nb.prange(a.size):
                t = max(a[i] * b[i] + c[i], F32(0.1)) - b[i]
                t = t * t + a[i]
                out[i] = min(t, F32(5)) / (c[i] * c[i] + F32(1))
            return out
        return f


class Gelu(Case):
    name = "gelu f32, 4 M"
    rtol = 1e-3

    def inputs(self):
        return (rand(4_000_000),)

    @staticmethod
    def run(xp, x):
        return F32(0.5) * x * (F32(1) + xp.tanh(F32(math.sqrt(2 / math.pi)) * (x + F32(0.044715) * x * x * x)))

    @staticmethod
    def numexpr(ne, x):
        return ne.evaluate("0.5*x*(1+tanh(k*(x+0.044715*x*x*x)))", {"x": x, "k": F32(math.sqrt(2 / math.pi))})

    @staticmethod
    def numba(nb):
        k = F32(math.sqrt(2 / math.pi))

        @nb.njit(parallel=True)
        def f(x):
            out = np.empty_like(x)
            for i in nb.prange(x.size):
                v = x[i]
                out[i] = F32(0.5) * v * (F32(1) + math.tanh(k * (v + F32(0.044715) * v * v * v)))
            return out
        return f


def cumulative_normal(xp, x):
    a = xp.abs(x)
    k = 1.0 / (1.0 + 0.2316419 * a)
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * xp.exp(-0.5 * a * a) * poly
    return xp.where(x >= 0, 1.0 - tail, tail)


class BlackScholes(Case):
    name = "Black-Scholes f64, 1 M"
    rtol = 1e-9

    def inputs(self):
        r = np.random.default_rng(3)
        n = 1_000_000
        return r.uniform(10, 200, n), r.uniform(10, 200, n), r.uniform(0.1, 3, n), r.uniform(0.1, 0.6, n)

    @staticmethod
    def run(xp, spot, strike, years, vol):
        dev = vol * xp.sqrt(years)
        d1 = (xp.log(spot / strike) + (0.03 + 0.5 * vol * vol) * years) / dev
        disc = strike * xp.exp(-0.03 * years)
        call = spot * cumulative_normal(xp, d1) - disc * cumulative_normal(xp, d1 - dev)
        return call, call - spot + disc

    @staticmethod
    def numexpr(ne, spot, strike, years, vol):
        d = {"s": spot, "k": strike, "t": years, "v": vol}
        d["dev"] = ne.evaluate("v*sqrt(t)", d)
        d["d1"] = ne.evaluate("(log(s/k)+(0.03+0.5*v*v)*t)/dev", d)
        d["disc"] = ne.evaluate("k*exp(-0.03*t)", d)
        for out, x in (("n1", "d1"), ("n2", "(d1-dev)")):
            d["x"] = ne.evaluate(x, d)
            d["q"] = ne.evaluate("1/(1+0.2316419*abs(x))", d)
            d["w"] = ne.evaluate(
                "0.3989422804014327*exp(-0.5*x*x)*q*(0.319381530+q*(-0.356563782+q*(1.781477937+"
                "q*(-1.821255978+q*1.330274429))))", d)
            d[out] = ne.evaluate("where(x >= 0, 1-w, w)", d)
        d["call"] = ne.evaluate("s*n1-disc*n2", d)
        return d["call"], ne.evaluate("call-s+disc", d)

    @staticmethod
    def numba(nb):
        @nb.njit
        def cnd(x):
            a = abs(x)
            k = 1.0 / (1.0 + 0.2316419 * a)
            p = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
            w = 0.3989422804014327 * math.exp(-0.5 * a * a) * p
            return 1.0 - w if x >= 0 else w

        @nb.njit(parallel=True)
        def f(spot, strike, years, vol):
            call, put = np.empty_like(spot), np.empty_like(spot)
            for i in nb.prange(spot.size):
                dev = vol[i] * math.sqrt(years[i])
                d1 = (math.log(spot[i] / strike[i]) + (0.03 + 0.5 * vol[i] * vol[i]) * years[i]) / dev
                disc = strike[i] * math.exp(-0.03 * years[i])
                call[i] = spot[i] * cnd(d1) - disc * cnd(d1 - dev)
                put[i] = call[i] - spot[i] + disc
            return call, put
        return f


class Softmax(Case):
    def __init__(self, rows, columns, name):
        self.shape, self.name = (rows, columns), name

    def inputs(self):
        return (rand(self.shape),)

    @staticmethod
    def run(xp, x):
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            out = np.empty_like(x)
            for i in nb.prange(x.shape[0]):
                m = x[i, 0]
                for j in range(x.shape[1]):
                    m = max(m, x[i, j])
                s = F32(0)
                for j in range(x.shape[1]):
                    out[i, j] = math.exp(x[i, j] - m)
                    s += out[i, j]
                for j in range(x.shape[1]):
                    out[i, j] /= s
            return out
        return f


class LayerNorm(Case):
    name = "layer norm forward f32, 4096x1024"
    rtol = 1e-3

    def inputs(self):
        return rand((4096, 1024)), rand(1024, seed=1), rand(1024, seed=2)

    @staticmethod
    def run(xp, x, g, b):
        d = x - xp.mean(x, axis=-1, keepdims=True)
        return d / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + F32(1e-5)) * g + b

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x, g, b):
            out = np.empty_like(x)
            n = x.shape[1]
            for i in nb.prange(x.shape[0]):
                s = F32(0)
                for j in range(n):
                    s += x[i, j]
                mu = s / F32(n)
                v = F32(0)
                for j in range(n):
                    v += (x[i, j] - mu) * (x[i, j] - mu)
                r = F32(1) / F32(math.sqrt(v / F32(n) + F32(1e-5)))
                for j in range(n):
                    out[i, j] = (x[i, j] - mu) * r * g[j] + b[j]
            return out
        return f


class LayerNormBackward(Case):
    name = "layer norm backward f32, 4096x1024"
    rtol = 5e-3

    def inputs(self):
        return rand((4096, 1024)), rand(1024, seed=1), rand((4096, 1024), seed=2)

    @staticmethod
    def run(xp, x, g, dy):
        n = F32(x.shape[-1])
        d = x - xp.mean(x, axis=-1, keepdims=True)
        rstd = F32(1) / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + F32(1e-5))
        xhat = d * rstd
        dxhat = dy * g
        dx = (dxhat - xp.sum(dxhat, axis=-1, keepdims=True) / n
              - xhat * (xp.sum(dxhat * xhat, axis=-1, keepdims=True) / n)) * rstd
        return dx, xp.sum(dy * xhat, axis=0), xp.sum(dy, axis=0)


class SumOfProducts(Case):
    name = "sum(a*b) f32, 16 M"

    def inputs(self):
        return rand(16_000_000), rand(16_000_000, seed=1)

    @staticmethod
    def run(xp, a, b):
        return xp.sum(a * b)

    @staticmethod
    def numexpr(ne, a, b):
        return ne.evaluate("sum(a*b)", {"a": a, "b": b})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(a, b):
            s = 0.0
            for i in nb.prange(a.size):
                s += a[i] * b[i]
            return F32(s)
        return f


class Variance(Case):
    name = "var of the whole array f64, 4 M"
    rtol = 1e-9

    def inputs(self):
        return (rand(4_000_000, F64),)

    @staticmethod
    def run(xp, x):
        d = x - xp.mean(x)
        return xp.mean(d * d)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            m = x.sum() / x.size
            v = 0.0
            for i in nb.prange(x.size):
                v += (x[i] - m) * (x[i] - m)
            return v / x.size
        return f


class ColumnSums(Case):
    name = "sum of columns of a*b f32, 4096x1024"

    def inputs(self):
        return rand((4096, 1024)), rand((4096, 1024), seed=1)

    @staticmethod
    def run(xp, a, b):
        return xp.sum(a * b, axis=0)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(a, b):
            out = np.zeros(a.shape[1], np.float32)
            k = 64
            for c in nb.prange(a.shape[1] // k):
                for i in range(a.shape[0]):
                    for j in range(c * k, c * k + k):
                        out[j] += a[i, j] * b[i, j]
            return out
        return f


class Stencil(Case):
    name = "5-point stencil f64, 2000x2000"
    rtol = 1e-9

    def inputs(self):
        return (rand((2000, 2000), F64),)

    @staticmethod
    def run(xp, u):
        return 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(u):
            out = np.empty((u.shape[0] - 2, u.shape[1] - 2))
            for i in nb.prange(out.shape[0]):
                for j in range(out.shape[1]):
                    out[i, j] = 0.2 * (u[i + 1, j + 1] + u[i + 1, j] + u[i + 1, j + 2] + u[i + 2, j + 1]
                                       + u[i, j + 1])
            return out
        return f


class Adam(Case):
    name = "Adam step, 20 tensors, 1.1 M f32"
    rtol = 1e-3
    shapes = [(512, 256), (256,), (256, 256), (256,), (256, 64)] * 4

    def inputs(self):
        out = []
        for k in range(4):
            out += [rand(s, seed=20 * k + i) for i, s in enumerate(self.shapes)]
        return tuple(np.abs(a) if i >= 60 else a for i, a in enumerate(out))

    @staticmethod
    def run(xp, *t):
        n = len(t) // 4
        out = []
        for p, g, m, v in zip(t[:n], t[n:2 * n], t[2 * n:3 * n], t[3 * n:]):
            m = F32(0.9) * m + F32(0.1) * g
            v = F32(0.999) * v + F32(0.001) * (g * g)
            out += [p - F32(0.001) * (m * F32(1.2)) / (xp.sqrt(v * F32(1.1)) + F32(1e-8)), m, v]
        return tuple(out)


CASES = [Chain(4_000_000, "10 operations f32, 4 M"), Chain(100_000, "10 operations f32, 100 K"),
         Chain(100, "10 operations f32, 100"), Gelu(), BlackScholes(),
         Softmax(4096, 1024, "softmax rows f32, 4096x1024"), Softmax(20000, 10, "softmax rows f32, 20000x10"),
         LayerNorm(), LayerNormBackward(), SumOfProducts(), Variance(), ColumnSums(), Stencil(), Adam()]
