"""The workloads, each stated once in NumPy's words and, where a peer has other words, in those.

A case has inputs() and run(xp, *inputs) for every library that speaks NumPy (NumPy itself, frit, JAX, torch
through an adapter), and optionally numexpr(ne, *inputs), numba(nb) -> function and jax(jnp, *inputs).
n_bytes() is the least that has to move between memory and processor: every input once, every output once.

Constants are Python numbers, which take the arrays' dtype, so one statement serves f32 and f64."""
import math

import numpy as np

F32, F64 = np.float32, np.float64
SHORT = {F32: "f32", F64: "f64"}


def rand(shape, dtype=F32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def count(n):
    """4096 -> 4 K, 1,000,000 -> 1 M"""
    for size, unit in ((1_000_000, " M"), (1 << 10, " K")):
        if n >= size and n % size == 0:
            return f"{n // size}{unit}"
    return str(n)


class Case:
    title = ""
    memory_bound = False    # whether the bandwidth of memory is what limits it
    rtol = {F32: 1e-4, F64: 1e-10}

    def __init__(self, n, dtype=F32):
        self.n, self.dtype = n, dtype
        size = "x".join(map(str, n)) if isinstance(n, tuple) else count(n)
        self.name = f"{self.title} {SHORT[dtype]} {size}"

    def inputs(self):
        return (rand(self.n, self.dtype),)

    def n_bytes(self, inputs, outputs):
        return sum(a.nbytes for a in (*inputs, *outputs))


class MulAdd(Case):
    title = "a*b+c"
    memory_bound = True

    def inputs(self):
        return tuple(rand(self.n, self.dtype, seed) for seed in range(3))

    @staticmethod
    def run(xp, a, b, c):
        return a * b + c

    @staticmethod
    def numexpr(ne, a, b, c):
        return ne.evaluate("a*b+c", {"a": a, "b": b, "c": c})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(a, b, c):
            out = np.empty_like(a)
            for i in nb.prange(a.size):
                out[i] = a[i] * b[i] + c[i]
            return out
        return f


class Ratio(Case):
    title = "(a-b)/(a+b)"
    memory_bound = True

    def inputs(self):
        r = np.random.default_rng(4)
        return tuple(r.uniform(1, 2, self.n).astype(self.dtype) for _ in range(2))

    @staticmethod
    def run(xp, a, b):
        return (a - b) / (a + b)

    @staticmethod
    def numexpr(ne, a, b):
        return ne.evaluate("(a-b)/(a+b)", {"a": a, "b": b})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(a, b):
            out = np.empty_like(a)
            for i in nb.prange(a.size):
                out[i] = (a[i] - b[i]) / (a[i] + b[i])
            return out
        return f


class Gelu(Case):
    title = "gelu"

    @staticmethod
    def run(xp, x):
        return 0.5 * x * (1.0 + xp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))

    @staticmethod
    def numexpr(ne, x):
        t = x.dtype.type
        return ne.evaluate("h*x*(u+tanh(k*(x+q*x*x*x)))",
                           {"x": x, "h": t(0.5), "u": t(1), "k": t(0.7978845608028654), "q": t(0.044715)})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            out = np.empty_like(x)
            h, u, k, q = (x.dtype.type(v) for v in (0.5, 1.0, 0.7978845608028654, 0.044715))
            for i in nb.prange(x.size):
                v = x[i]
                out[i] = h * v * (u + math.tanh(k * (v + q * v * v * v)))
            return out
        return f


NORMAL = (0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429)


def cumulative_normal(xp, x):
    a = xp.abs(x)
    k = 1.0 / (1.0 + 0.2316419 * a)
    p1, p2, p3, p4, p5 = NORMAL
    poly = k * (p1 + k * (p2 + k * (p3 + k * (p4 + k * p5))))
    tail = 0.3989422804014327 * xp.exp(-0.5 * a * a) * poly
    return xp.where(x >= 0, 1.0 - tail, tail)


class BlackScholes(Case):
    title = "Black-Scholes"
    rtol = {F32: 1e-4, F64: 1e-9}

    def inputs(self):
        r = np.random.default_rng(3)
        limits = (10, 200), (10, 200), (0.1, 3), (0.1, 0.6)
        return tuple(r.uniform(lo, hi, self.n).astype(self.dtype) for lo, hi in limits)

    @staticmethod
    def run(xp, spot, strike, years, vol):
        dev = vol * xp.sqrt(years)
        d1 = (xp.log(spot / strike) + (0.03 + 0.5 * vol * vol) * years) / dev
        disc = strike * xp.exp(-0.03 * years)
        call = spot * cumulative_normal(xp, d1) - disc * cumulative_normal(xp, d1 - dev)
        return call, call - spot + disc

    @staticmethod
    def numexpr(ne, spot, strike, years, vol):
        t = spot.dtype.type
        d = {"s": spot, "k": strike, "t": years, "v": vol, "r": t(0.03), "h": t(0.5), "one": t(1)}
        d["dev"] = ne.evaluate("v*sqrt(t)", d)
        d["d1"] = ne.evaluate("(log(s/k)+(r+h*v*v)*t)/dev", d)
        d["disc"] = ne.evaluate("k*exp(-r*t)", d)
        d.update({f"p{i}": t(p) for i, p in enumerate(NORMAL, 1)}, z=t(0.2316419), w0=t(0.3989422804014327))
        for out, x in (("n1", "d1"), ("n2", "(d1-dev)")):
            d["x"] = ne.evaluate(x, d)
            d["q"] = ne.evaluate("one/(one+z*abs(x))", d)
            d["w"] = ne.evaluate("w0*exp(-h*x*x)*q*(p1+q*(p2+q*(p3+q*(p4+q*p5))))", d)
            d[out] = ne.evaluate("where(x >= 0, one-w, w)", d)
        d["call"] = ne.evaluate("s*n1-disc*n2", d)
        return d["call"], ne.evaluate("call-s+disc", d)

    def numba(self, nb):
        t = self.dtype
        zero, one, half, z, w0, rate = t(0), t(1), t(0.5), t(0.2316419), t(0.3989422804014327), t(0.03)
        p1, p2, p3, p4, p5 = map(t, NORMAL)

        @nb.njit
        def cnd(x):
            a = abs(x)
            k = one / (one + z * a)
            p = k * (p1 + k * (p2 + k * (p3 + k * (p4 + k * p5))))
            w = w0 * math.exp(-half * a * a) * p
            return one - w if x >= zero else w

        @nb.njit(parallel=True)
        def f(spot, strike, years, vol):
            call, put = np.empty_like(spot), np.empty_like(spot)
            for i in nb.prange(spot.size):
                dev = vol[i] * math.sqrt(years[i])
                d1 = (math.log(spot[i] / strike[i]) + (rate + half * vol[i] * vol[i]) * years[i]) / dev
                disc = strike[i] * math.exp(-rate * years[i])
                call[i] = spot[i] * cnd(d1) - disc * cnd(d1 - dev)
                put[i] = call[i] - spot[i] + disc
            return call, put
        return f


COEFFICIENTS = [math.cos(k) / (1 + k) for k in range(140)]


class Polynomial(Case):
    title = "polynomial of 140 terms"

    def inputs(self):
        return (np.random.default_rng(7).uniform(-1, 1, self.n).astype(self.dtype),)

    @staticmethod
    def run(xp, x):
        y = COEFFICIENTS[0] * x + COEFFICIENTS[1]
        for k in COEFFICIENTS[2:]:
            y = y * x + k
        return y

    @staticmethod
    def numexpr(ne, x):
        # Numbers in the text would make the result f64, and there may be some 30 arguments.
        y = np.zeros_like(x)
        for start in range(0, 140, 20):
            text, d = "y", {"x": x, "y": y}
            for i, k in enumerate(COEFFICIENTS[start:start + 20]):
                text = f"({text}*x+k{i})"
                d[f"k{i}"] = x.dtype.type(k)
            y = ne.evaluate(text, d)
        return y

    def numba(self, nb):
        k = np.array(COEFFICIENTS, self.dtype)

        @nb.njit(parallel=True)
        def f(x):
            out = np.empty_like(x)
            for i in nb.prange(x.size):
                v, y = x[i], k[0]
                for j in range(1, 140):
                    y = y * v + k[j]
                out[i] = y
            return out
        return f


class Operations40(Case):
    title = "40 operations"

    def inputs(self):
        return np.linspace(0.5, 1, self.n).astype(self.dtype), np.linspace(1, 1.5, self.n).astype(self.dtype)

    @staticmethod
    def run(xp, x, y):
        t = x
        for _ in range(10):
            t = (t + y) * x - y * 0.5
        return t

    @staticmethod
    def numexpr(ne, x, y):
        text = "x"
        for _ in range(10):
            text = f"(({text} + y) * x - y * h)"
        return ne.evaluate(text, {"x": x, "y": y, "h": x.dtype.type(0.5)})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x, y):
            out = np.empty_like(x)
            h = x.dtype.type(0.5)
            for i in nb.prange(x.size):
                t = x[i]
                for _ in range(10):
                    t = (t + y[i]) * x[i] - y[i] * h
                out[i] = t
            return out
        return f


class SumOfProducts(Case):
    title = "sum(a*b)"
    memory_bound = True
    rtol = {F32: 1e-3, F64: 1e-9}

    def inputs(self):
        r = np.random.default_rng(5)
        return tuple(r.uniform(0, 1, self.n).astype(self.dtype) for _ in range(2))

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
            return a.dtype.type(s)
        return f


class Variance(Case):
    title = "variance"
    memory_bound = True
    rtol = {F32: 1e-3, F64: 1e-9}

    @staticmethod
    def run(xp, x):
        return xp.var(x)

    @staticmethod
    def numexpr(ne, x):
        m = x.dtype.type(ne.evaluate("sum(x)", {"x": x}) / x.size)
        return x.dtype.type(ne.evaluate("sum((x-m)*(x-m))", {"x": x, "m": m}) / x.size)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            s = 0.0
            for i in nb.prange(x.size):
                s += x[i]
            m = s / x.size
            v = 0.0
            for i in nb.prange(x.size):
                v += (x[i] - m) * (x[i] - m)
            return x.dtype.type(v / x.size)
        return f


class LogSumExp(Case):
    title = "log-sum-exp"

    @staticmethod
    def run(xp, x):
        m = xp.max(x)
        return m + xp.log(xp.sum(xp.exp(x - m)))

    @staticmethod
    def numexpr(ne, x):
        m = x.dtype.type(ne.evaluate("max(x)", {"x": x}))
        return m + np.log(ne.evaluate("sum(exp(x-m))", {"x": x, "m": m}))

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            m = np.max(x)
            s = 0.0
            for i in nb.prange(x.size):
                s += math.exp(x[i] - m)
            return x.dtype.type(m + math.log(s))
        return f


class Softmax(Case):
    title = "softmax of rows"

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
                s = x.dtype.type(0)
                for j in range(x.shape[1]):
                    out[i, j] = math.exp(x[i, j] - m)
                    s += out[i, j]
                for j in range(x.shape[1]):
                    out[i, j] /= s
            return out
        return f


class LayerNorm(Case):
    title = "layer norm forward"
    memory_bound = True
    rtol = {F32: 1e-3}

    def inputs(self):
        return rand(self.n), rand(self.n[1], seed=1), rand(self.n[1], seed=2)

    @staticmethod
    def run(xp, x, g, b):
        d = x - xp.mean(x, axis=-1, keepdims=True)
        return d / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g + b

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
    title = "layer norm backward"
    rtol = {F32: 5e-3}

    def inputs(self):
        return rand(self.n), rand(self.n[1], seed=1), rand(self.n, seed=2)

    @staticmethod
    def run(xp, x, g, dy):
        n = float(x.shape[-1])
        d = x - xp.mean(x, axis=-1, keepdims=True)
        rstd = 1.0 / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + 1e-5)
        xhat = d * rstd
        dxhat = dy * g
        dx = (dxhat - xp.sum(dxhat, axis=-1, keepdims=True) / n
              - xhat * (xp.sum(dxhat * xhat, axis=-1, keepdims=True) / n)) * rstd
        return dx, xp.sum(dy * xhat, axis=0), xp.sum(dy, axis=0)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x, g, dy):
            rows, n = x.shape
            dx = np.empty_like(x)
            n_parts = nb.get_num_threads()
            dg, db = np.zeros((n_parts, n), np.float32), np.zeros((n_parts, n), np.float32)
            for part in nb.prange(n_parts):
                for i in range(rows * part // n_parts, rows * (part + 1) // n_parts):
                    s = F32(0)
                    for j in range(n):
                        s += x[i, j]
                    mu = s / F32(n)
                    v = F32(0)
                    for j in range(n):
                        v += (x[i, j] - mu) * (x[i, j] - mu)
                    r = F32(1) / F32(math.sqrt(v / F32(n) + F32(1e-5)))
                    a, b = F32(0), F32(0)
                    for j in range(n):
                        xhat, d = (x[i, j] - mu) * r, dy[i, j] * g[j]
                        a += d
                        b += d * xhat
                    a /= F32(n)
                    b /= F32(n)
                    for j in range(n):
                        xhat = (x[i, j] - mu) * r
                        dx[i, j] = (dy[i, j] * g[j] - a - xhat * b) * r
                        dg[part, j] += dy[i, j] * xhat
                        db[part, j] += dy[i, j]
            return dx, dg.sum(0), db.sum(0)
        return f


class ExpColumns(Case):
    title = "exp(x).sum(0)"
    rtol = {F32: 1e-3}

    @staticmethod
    def run(xp, x):
        return xp.sum(xp.exp(x), axis=0)

    @staticmethod
    def numexpr(ne, x):
        return ne.evaluate("sum(exp(x), axis=0)", {"x": x})

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(x):
            out = np.zeros(x.shape[1], x.dtype)
            k = 64
            for c in nb.prange(x.shape[1] // k):
                for i in range(x.shape[0]):
                    for j in range(c * k, c * k + k):
                        out[j] += math.exp(x[i, j])
            return out
        return f


class Stencil(Case):
    """Into a slice of an array that is there."""
    title = "5-point stencil"
    memory_bound = True

    def inputs(self):
        return rand(self.n, self.dtype), np.zeros(self.n, self.dtype)

    def n_bytes(self, inputs, outputs):
        return inputs[0].nbytes + outputs[0].nbytes

    @staticmethod
    def run(xp, u, out):
        out[1:-1, 1:-1] = 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])
        return out

    @staticmethod
    def jax(jnp, u, out):
        return out.at[1:-1, 1:-1].set(
            0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1]))

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def f(u, out):
            fifth = u.dtype.type(0.2)
            for i in nb.prange(1, u.shape[0] - 1):
                for j in range(1, u.shape[1] - 1):
                    out[i, j] = fifth * (u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j])
            return out
        return f


class Adam(Case):
    """A step of the optimizer over 20 tensors of all sizes."""
    title = "Adam step, 20 tensors"
    memory_bound = True
    rtol = {F32: 1e-3}
    shapes = [(512, 256), (256,), (256, 256), (256,), (256, 64)] * 4

    def __init__(self):
        self.dtype, self.name = F32, self.title + " f32 1.1 M"

    def inputs(self):
        parts = [[rand(s, seed=20 * k + i) for i, s in enumerate(self.shapes)] for k in range(4)]
        return (*parts[0], *parts[1], *parts[2], *map(np.abs, parts[3]))

    @staticmethod
    def run(xp, *t):
        n = len(t) // 4
        out = []
        for p, g, m, v in zip(t[:n], t[n:2 * n], t[2 * n:3 * n], t[3 * n:]):
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * (g * g)
            out += [p - 0.001 * (m * 1.2) / (xp.sqrt(v * 1.1) + 1e-8), m, v]
        return tuple(out)

    @staticmethod
    def numexpr(ne, *t):
        k = {f"k{i}": F32(x) for i, x in enumerate((0.9, 0.1, 0.999, 0.001, 1.2, 1.1, 1e-8))}
        n = len(t) // 4
        out = []
        for p, g, m, v in zip(t[:n], t[n:2 * n], t[2 * n:3 * n], t[3 * n:]):
            m = ne.evaluate("k0*m+k1*g", {**k, "m": m, "g": g})
            v = ne.evaluate("k2*v+k3*(g*g)", {**k, "v": v, "g": g})
            out += [ne.evaluate("p-k3*(m*k4)/(sqrt(v*k5)+k6)", {**k, "p": p, "m": m, "v": v}), m, v]
        return tuple(out)

    @staticmethod
    def numba(nb):
        @nb.njit(parallel=True)
        def one(p, g, m, v):
            a, b, c = np.empty_like(p), np.empty_like(p), np.empty_like(p)
            for i in nb.prange(p.size):
                b[i] = F32(0.9) * m[i] + F32(0.1) * g[i]
                c[i] = F32(0.999) * v[i] + F32(0.001) * (g[i] * g[i])
                a[i] = p[i] - F32(0.001) * (b[i] * F32(1.2)) / (F32(math.sqrt(c[i] * F32(1.1))) + F32(1e-8))
            return a, b, c

        def f(*t):
            n = len(t) // 4
            out = []
            for p, g, m, v in zip(t[:n], t[n:2 * n], t[2 * n:3 * n], t[3 * n:]):
                out += [a.reshape(p.shape) for a in one(p.ravel(), g.ravel(), m.ravel(), v.ravel())]
            return tuple(out)
        return f


K, M = 1 << 10, 1_000_000

CASES = [
    *(MulAdd(n) for n in (4 * K, 64 * K, M, 16 * M)),
    *(Ratio(M, d) for d in (F32, F64)),
    *(Gelu(n) for n in (4 * K, 64 * K, M)), Gelu(M, F64),
    *(BlackScholes(n, d) for n, d in ((4 * K, F64), (64 * K, F64), (M, F32), (M, F64))),
    *(Polynomial(n, d) for n in (100, M) for d in (F32, F64)),
    Operations40(100, F64),
    *(SumOfProducts(n) for n in (4 * K, 64 * K, M, 16 * M)),
    *(Variance(n, d) for n, d in ((64 * K, F32), (M, F32), (M, F64))),
    LogSumExp(M),
    *(Softmax(n) for n in ((4, 1024), (64, 1024), (4096, 1024), (1000, 10))),
    *(LayerNorm(n) for n in ((64, 1024), (4096, 1024))),
    *(LayerNormBackward(n) for n in ((64, 1024), (4096, 1024))),
    ExpColumns((4096, 1024)),
    Stencil((2000, 2000), F64),
    Adam(),
]
