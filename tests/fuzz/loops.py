"""Random loops over single elements: each is run by Python and, translated, by csrc/bind/hot/hot.h, on copies of the same
values. Results, types, arrays, exceptions and warnings are to be the same."""
import copy
import math
import random
import warnings

import numpy as np

import frit
from frit import _core

INTS, FLOATS = ("i", "j", "k", "n", "c"), ("x", "y", "s")
VECTORS, MATRICES = {"v": "f", "w": "f", "p": "i", "q": "i", "b": "b", "h": "f"}, {"A": "f", "B": "f", "M": "i", "G": "f"}
DEPTH = 3


def values(seed):
    """What a program begins with."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 9))
    return dict(
        n=size, k=int(rng.integers(-3, 9)), c=0, x=float(rng.normal()), y=float(rng.integers(-2, 3)), s=np.float64(rng.normal()),
        v=rng.normal(size=size), w=rng.normal(size=2 * size)[::2], p=rng.integers(-4, 9, size),
        q=rng.integers(0, size, size).astype(np.int32), b=rng.random(size) < 0.5, h=rng.normal(size=size).astype(np.float32),
        A=rng.normal(size=(size, size)), B=np.asfortranarray(rng.normal(size=(size, size))),
        M=rng.integers(-5, 6, (size, size)), G=rng.normal(size=(size, size)).astype(np.float32), u=rng.normal(size=size),
        z=rng.normal(size=3), log=[1.5], fs=rng.normal(size=size).tolist(), cs=rng.integers(-3, 9, size).tolist(),
        ls=rng.normal(size=(size, size)).tolist(), rs=list(rng.normal(size=(size, size))),
        rng=np.random.default_rng(seed), pr=random.Random(seed), d={"a": 1.5, "w": rng.normal(size=size)}, tp=(float(rng.normal()), 2))


class Drawer:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.lines, self.depth, self.counters = [], 0, 0
        self.with_rows = self.one(0, 0.2, 0.5, 0.8)

    def one(self, *what):
        return self.r.choice(what)

    def index(self):
        if self.r.random() < 0.95:
            return self.one("i % n", "j % n", "k % n", "c % n", "(i - 1) % n", "-1", "1", "q[i % n]", "i % n", "j % n")
        return self.one("i", "j", "k", "c % n", "i - 1", "j - 1", "(i + 1) % n", "0", "-1", "1", "i", "j", "k % n", "q[i]", "n - 1")

    def element(self, kinds="fib"):
        if self.r.random() < 0.5:
            name = self.one(*[a for a, kind in VECTORS.items() if kind in kinds])
            return f"{name}[{self.index()}]"
        name = self.one(*([a for a, kind in MATRICES.items() if kind in kinds] or ["A"]))
        return self.one(f"{name}[{self.index()}, {self.index()}]", f"{name}[{self.index()}][{self.index()}]")

    def whole(self, depth):
        if depth <= 0 or self.r.random() < 0.3:
            return self.one(*INTS, str(self.r.randint(-3, 12)), self.element("i"), "len(v)", "A.shape[0]", "p.size", "10 ** 3")
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        if self.r.random() < 0.9:       # nothing that Python raises or warns about
            return self.one(f"({a} + {b})", f"({a} - {b})", f"({a} * {b}) % 1009", f"{a} // (abs({b}) + 1)", f"{a} % (abs({b}) + 2)", f"-{a}",
                            f"abs({a})", f"max({a}, {b})", f"min({a}, {b})", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} << ({b} & 3))",
                            f"({a} >> ({b} & 7))", "np.random.randint(n)", f"np.random.randint(-2, abs({a}) % 9)", f"({a} if {self.truth(depth - 1)} else {b})", f"int(min(99.0, max(-99.0, {self.real(depth - 1)})))")
        return self.one(f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} // {b})", f"({a} % {b})", f"-{a}", f"abs({a})",
                        f"max({a}, {b})", f"min({a}, {b})", f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"({a} << {b})", f"({a} >> {b})",
                        f"({a} if {self.truth(depth - 1)} else {b})", f"int({self.real(depth - 1)})", f"({a} * 10 ** 9)")

    def real(self, depth):
        if depth <= 0 or self.r.random() < 0.3:
            return self.one(*FLOATS, f"{self.r.uniform(-3, 3):.3f}", self.element("f"), self.element("f"), *(["1e300"] if self.r.random() < 0.05 else []), "0.0")
        a, b = self.value(depth - 1), self.real(depth - 1)
        if self.r.random() < 0.9:
            return self.one(f"({a} + {b})", f"({b} - {a})", f"({a} * 0.25)", f"({a} / (abs({b}) + 0.5))", f"-{b}", f"abs({b})", f"float({a})",
                            f"max({a}, {b})", f"min({b}, {a})", f"math.sqrt(abs({b}))", f"np.sqrt(abs({b}))", f"math.exp(min({b}, 2.0))",
                            f"math.sin({a})", f"np.floor({b})", f"({b} if {self.truth(depth - 1)} else {a})", f"math.log(abs({b}) + 0.1)",
                            "np.random.rand()", "np.random.uniform(-1, n)", "np.random.random()", "np.dot(v[:j], w[:j])", "A[i % n, :j] @ B[:j, i % n]", "A[i % n] @ v", f"np.dot(A[:, j % n], v[{self.one(':', 'n - n:')}])")
        return self.one(f"({a} + {b})", f"({b} - {a})", f"({a} * {b})", f"({a} / {b})", f"({b} / {a})", f"-{b}", f"abs({b})", f"float({a})",
                        f"max({a}, {b})", f"min({b}, {a})", f"math.sqrt({b})", f"np.sqrt({b})", f"math.exp({b})", f"math.sin({a})",
                        f"np.floor({b})", f"({b} if {self.truth(depth - 1)} else {a})", f"({a}) ** 2.0", f"({b}) ** 2", f"math.log({b})",
                        "np.dot(v[:k], w[:k])", "A[i, :j] @ B[:j, i]", "A[i] @ v", f"np.dot(A[:, j], v[{self.one('1:', ':', 'j:')}])", f"({b} % {a})")

    def value(self, depth):
        return self.whole(depth) if self.r.random() < 0.5 else self.real(depth)

    def row(self, depth):
        """An array of n elements (or so)."""
        if depth <= 0 or self.r.random() < 0.3:
            return self.one("u", "v", "u", "v", "A[i % n]", "B[j % n]", "A[:, k % n]", "h", "p", "B.T[1]", "q", "G[j % n]", "M[i % n]", "b", "w[:n]")
        a, b = self.row(depth - 1), self.row(depth - 1)
        if self.r.random() < 0.85:
            return self.one(f"({a} + {b})", f"({a} - 0.5 * {b})", f"({a} * {self.real(0)})", f"({self.real(0)} - {a})", f"({a} / (abs({b}) + 1.5))",
                            f"-{a}" if a != "b" else "-u", f"abs({a})", f"np.abs({a})", f"np.maximum({a}, {b})", f"np.minimum({a}, {self.value(0)})",
                            f"np.sqrt(abs({a}))", f"np.where({a} > {b}, {a}, {b})", f"np.where({a} < 0, 0.0, {b})", f"(u ** 2 + {a})", f"np.sign({a})",
                            "(A @ u)", "A.dot(v)", "np.dot(v, B)", "(u @ A.T)", f"({a}).copy()", f"np.array({a})", f"np.square({a} * 0.5)",
                            f"np.zeros(n)", f"np.ones_like({a})", f"np.zeros_like({a})", "A.T[j % n]", f"(({a}) * 1.0)", f"np.floor({a})")
        return self.one(f"({a} + {b})", f"({a} / {b})", f"({a} // {b})", f"({a} % {b})", f"{a}[:k]", f"{a}[1:]", f"np.sqrt({a})", f"{a} ** {self.one(2, 3, 0.5)}",
                        f"({a} + A)", f"{a}[None]", f"({a}[:, None] * {b})[0]", f"({a} & {b})", "z", f"({a} @ {b})", f"np.outer({a}, {b})[0]",
                        f"np.array([{self.value(0)}, {self.value(0)}, {self.value(0)}])")

    def folded(self, depth):
        a = self.row(depth)
        return self.one(f"({a}).sum()", f"np.sum({a})", f"({a}).max()", f"np.min({a})", f"({a} * 1.0).mean()", f"np.argmax({a})", f"({a} > 0).any()",
                        f"np.all({a} < 1)", "np.linalg.norm(u)", "sum(u)", "np.dot(u, v)", "u @ v", f"({a})[0]", "A.sum()", "np.max(A * B)", "len(log)",
                        "np.mean(u)", f"float(({a}).sum())", "np.dot(u, 2)[1]", "z[0]", "A.T.sum()", "z.argmin()")

    def rows(self):
        """A statement with arrays."""
        a = self.row(2)
        self.add(self.one(
            f"u = {a}", f"u = {a}", f"u += {a}", f"u -= {self.real(1)} * {a}", f"v *= {self.real(0)}", f"v = {a}", f"A[i % n] = {a}", f"A[:, j % n] = {a}",
            f"A[i % n] += {a}", f"B[1:, j % n] -= u[1:] * {self.real(0)}", f"u[:] = {self.value(0)}", f"u[1:] = v[:-1]", "u[1:] = u[:-1]", f"v[:k] = {self.real(0)}",
            f"u = np.zeros(n)", "u = v", "v, u = u, v", f"x = {self.folded(1)}", f"s = {self.folded(1)}", f"y += {self.folded(1)}", f"log.append({self.one('x', 'u', 'c', 's', 'u[0]', 'A[0]', 'z')})",
            f"log.append({a})", f"z = np.array([{self.real(1)}, {self.value(1)}, {self.real(0)}])", f"z = z + np.array([x, y, 1.0])", "z[:] = x, y, 1",
            "z[1:] = [x, 2]", "A = A + np.outer(u, v) * 0.01", "B = A @ B * 0.1", "G[j % n] = u", f"p += {self.one('q', 'p', '1', 'c', 'u')}", f"b[:] = {a} > 0",
            "M = M * 1", "A *= 0.5", "A += u", "A += u[:, None]", "u = A[0] ", "A = A.T", f"h *= {self.real(0)}", f"h += {self.row(0)}", "u = (u * 0.5)[:]",
            "z = np.array([[x, y], [1.0, c]])[0]", f"if {self.folded(1)} > {self.value(0)}: c += 1", "z = np.dot(np.array([[x, 0.0, 1.0], [0, y, 0], [1, 2, 3.0]]), z) * 0.1",
            "u = np.vstack((u, v))[1]", "u = np.hstack([u, v])[:n]", "u = np.sort(v)", "p = np.argsort(v)", "u = np.roll(u, 1) * 1.0", "A = np.array([v] * 1)[:, :n] * np.eye(n)", "u = np.array([v, w[:n]])[i % 2]",
            "A = np.linalg.inv(A * 0.1 + np.eye(n))", f"u = np.clip({self.row(1)}, -1, {self.real(0)}) * 1", "x = np.clip(x, -2.0, 2.0)", "z = np.array([z[0], x, y])", "x = np.median(u)",
            "c = np.random.randint(low=0, high=n)", "u = np.arange(n) * x", "B = np.array([[x, y], [y, x]]) @ np.array([[1.0, 2], [3, 4]]) if n == 2 else B", "u = np.linalg.solve(A * 0.1 + np.eye(n), u)",
            "u = A.sum(axis=0)", "u = np.sum(A * u, axis=1)", "u = B.mean(axis=1)", "u = np.mean(A, axis=0) * 1", "u = np.max(B, axis=1)", "u = M.min(0) * 0.5", "p = M.sum(axis=1)",
            "u = p.astype(float)", "h = u.astype(np.float32)", "c = math.floor(min(max(x, -99.0), 99.0))", "c = round(min(max(y, -99.0), 99.0))", "c = [1, -1, 4, -4][c % 4]", "x = (x, 0.5)[i % 2]", "x = pair(y, 1.5)[0]", "x = (y - 1.0) ** 2 + x ** 3", "y = math.exp(-800.0 - c % 9)", "fs[i % n] = x", "x = fs[j % n]", "x += fs[-1]", "c = cs[k % n]", "cs[i % n] += 1", "cs[j % n] = c", "x = ls[i % n][j % n]", "ls[i % n][j % n] = y",
            "ls[i % n][j % n] += 0.5", "u = rs[i % n]", "rs[i % n] = u", "u = u + rs[j % n]", "rs[i % n] += 1", "row = ls[i % n]; row[0] = 1.0", "if len(fs) < 30: fs.append(x)", "more = []",
            "more = [x]; more.append(y); u[0] = more[1]", "more = [0] * 1 if n < 0 else [y, 2.0]", "x = np.max(fs)", "x = np.mean([x, y, 0.5])", "u = np.array(fs)[:n] * 1", "c = len(ls)",
            "p[i % n] = cs[i % n]", "x = fs[c]", "fs[k] = 1.0", "more = [u, v]; u = more[i % 2]", "x = sum(fs)", "ls[j % n] = [x, y, 1.0]", "t = cs", "cs[i % n] = x", "more = fs; more[0] = 2.5",
            "x, y = pair(y, x)", "u, v = pair(u, v)", "u, c = pair(c, u)", "t = pair(x, u)[1]", f"x, u = pair(({self.row(1)}), y)", "row, (x, y) = A[i % n], pair(x, y)",
            "x, y, s = z", "z = np.random.randn(3)", "u = np.random.rand(n)", "x = np.random.normal(0, 1.5)", "x = np.random.randn()", "y += np.random.standard_normal()",
            "k, c = np.random.randint(0, n, size=2)", "u += np.random.normal(0.0, 0.1, n)", "z = np.random.uniform(-1, 1, size=3)", "z = np.random.randint(1, 5, 3)",
            "A = A + np.random.randn(n, n) * 0.1", "x = math.hypot(x, y)", "x = math.sin(x) * math.pi", "u = np.zeros(n, dtype=float)", "z = np.array([1, c, 2], dtype=np.float64)",
            "p = np.ones(n, dtype=int)", f"x = g({self.real(0)})", f"x = g({self.value(0)}, c={self.real(0)})", f"u = g({self.row(1)}, {self.real(0)})", "x = math.atan2(y, x)",
            "x, y = z[:2]", "(x, y), c = (y, 1.5), c + 1", "u = np.random.random(n)", "x = math.pow(abs(x), 0.3)", "z = g(b=z, a=2.0)", "x = np.pi * y",
            f"M[i % n] = {self.one('p', 'q', 'u', 'c', 'b')}", "log.append(None)", "t = log.append(c)"))

    def asked(self):
        """A statement with what NumPy and Python are asked for."""
        self.add(self.one(
            "u = v[q]", "u[q] = x", "u[q] += 1.0", "x = u[u > 0.0].sum()", "u[v < 0] = 0.5", "A[q, q] = x", "x = A[q, q].sum()", "u = np.repeat(u, 2)[::2]",
            "u = u[::-1]", "A[::2] *= 0.5", "A[i % n, ::2] = y", "u[::-1] = v", "t, x = np.linalg.slogdet(A)", "u, more = np.linalg.eigh(A @ A.T)", "x = u.std()",
            "x = np.var(u)", "u = A.std(axis=0)", "u = np.cumsum(u) * 0.1", "u = u.cumsum()", "x = np.percentile(u, 30)", "c = len(np.unique(p))",
            "t = [i, 1] == [j, c]", "t = p.shape == q.shape", "if x in fs: c += 1", "c = cs.count(c)", "c = sorted(cs)[0]", "x = max(fs)", "x = sum(fs)", "c = max(cs)",
            "x = min(x, y, s)", "u = np.array(sorted(fs))[:n]", "fs = list(fs)", "u = np.take(v, q)", "k = int(np.searchsorted(np.sort(v), x))", "x = np.linalg.norm(A)",
            "u = np.linalg.norm(A, axis=1)", "A = np.tril(A)", "u = np.einsum('ij,j->i', A, u) * 0.01", "A = np.linalg.pinv(A * 0.1 + np.eye(n))", "x = np.trace(A)",
            "x = np.linalg.det(A)", "u = np.diag(A)", "u = A.ravel()[:n]", "A = A.reshape(-1).reshape(n, n)", "u = u.reshape(len(u), 1)[:, 0]", "x = u.item(0)",
            "fs = v.tolist()", "x = y % 0.7", "x = x // 0.3", "c = divmod(c, 3)[1]", "t = np.isnan(x)", "x = np.dot(A, v)[0]",
            "u = np.flip(u)", "u = np.insert(v, 0, x)[:n]", "u = np.append(v, x)[1:]", "x = np.interp(x, [0.0, 1.0], [2.0, 3.0])", "c = int(np.count_nonzero(b))",
            "c = list(range(n))[j % n]", "more = list(range(n)); more[j % n] = 7; c = more[1]", "u = np.concatenate([v[1:], v[:1]])", "u = np.concatenate((v, u), axis=0)[:n]",
            "M[i % n, q] = 3", "x = A[q][:, q].sum()", "u = A[np.arange(n), q]", "x = np.float64(y) / np.float64(c)", "u = u / x", "u[k:] = v[k:][::-1]",
            "u = v[np.argsort(w[:n])]", "x = np.where(v > x)[0].size * 1.0", "more = A[:, q]; A[:] = more", "b[q] = v > w[:n]", "u = np.asarray(v)", "u = np.ravel(v)", "more = [v, u]; A[:2] = more",
            "x, t = (x, 1.5) if np.array_equal(u, v) else (y, None)", "s = np.std(A)", "c = round(x, 2) if abs(x) < 99 else 0", "u = A.mean(axis=1, keepdims=True)[:, 0]", "log.append(u[::-1])",
            "fs = [x * 0.5 for x in v]", "x = sum(a * b for a, b in zip(v, w))", "fs = [a for a in fs if a > x] or [1.0]", "u = np.array([a * x for a in v])",
            "more = [[a, b] for a in fs for b in cs if a < b]", "x = max(abs(a - s) for a in fs)", "c = len([1 for a in cs if a == c])", "t = any(a > x for a in fs)",
            "if all(a < y for a in v): c += 1", "more = [i for i in range(n)]; c = more[-1]", "u = np.array([np.dot(row, v) for row in A])", "x = sum([a * a for a in u])",
            "ls = [[a * 0.5 for a in row] for row in ls]", "more = sorted(a % 5 for a in cs); c = more[0]", "x, c = min(a + y for a in fs), 3", "rs = [row * 0.5 for row in rs]",
            "more = [g(a, c=x) for a in fs]; x = more[0]", "more = [np.random.rand() for _ in range(3)]; x = more[2]", "u = np.array([fs[a % n] for a in q[:n]])",
            "x = sum(a for a in (x, y, 1.0))", "t = any([a for a in b])", "more = [A[k, k] for k in range(n)]", "more = [(a, x) for a in fs]",
            "x = rng.random()", "u = rng.normal(size=n)", "c = int(rng.integers(n))", "k = int(rng.choice(n))", "x = pr.random()", "c = pr.randint(0, 9)",
            "x = np.random.choice(v)", "k = np.random.choice(n)", "p = np.random.permutation(p)", "np.random.shuffle(u)", "random.shuffle(cs)", "rng.shuffle(u)", "np.random.shuffle(cs)", "c = np.random.binomial(9, 0.3)",
            "x = np.random.exponential(2.0)", "u = np.random.choice(v, n)", "x = random.random()", "c = random.randint(1, 6)", "y = random.uniform(-1.0, x)",
            "x = rng.standard_normal() + pr.uniform(0, 1)", "total += x", "total = total * 0.5 + c", "count = (count + 1) % 7", "x = total", "more = [1, x]; t, x = more",
            "more = rng.permutation(n); c = int(more[0])", "x = random.choice(fs)", "c = random.choice([1, 2, c])", "x, y = [y, 1.0]", "more = [u, 2]; row, t = more[0], more",
            "d['x'] = x", "x = d['a']", "d['w'] = u", "u = d['w'][:n] * 1", "d['c'] = d.get('c', 0) + 1", "c = len(d)", "d[j % n] = x; x = d[j % n]",
            "fs.pop(); fs.append(x)", "fs.insert(0, x); y = fs.pop()", "del cs[j % n]; cs.append(c)", "cs.sort()", "cs.reverse()", "fs.extend([x, y]); del fs[-2:]",
            "fs[1:3] = [y, x]", "t = 'a' in d", "x, c = tp", "x = tp[0]", "cs.remove(cs[0]); cs.append(4)", "more = d['w']; more[0] = y", "u = rs.pop(0); rs.append(u)",
            "d['a'] += 1.0", "d['w'][i % n] = x", "d['w'] *= 0.5", "more = d; more['a'] = y", "c = tp[1] + c", "k = cs.pop(); cs.append(3)", "fs.clear(); fs.extend(v.tolist())",
            "x = np.polyval([1.0, 2.0], x) * 0.1", "v[i % n] = w[q][j % n]", "u = np.ones((n,)) * x", "u = np.array(v, dtype=float, copy=True)"))

    def truth(self, depth):
        if depth <= 0 or self.r.random() < 0.5:
            return f"{self.value(depth - 1)} {self.one('<', '<=', '==', '!=', '>', '>=')} {self.value(depth - 1)}"
        a, b = self.truth(depth - 1), self.truth(depth - 1)
        return self.one(f"({a} and {b})", f"({a} or {b})", f"not {a}", self.element("b"), self.value(depth - 1), "t is None",
                        f"{self.value(depth - 1)} {self.one('in', 'not in')} {self.one('(1, 2)', '{0, 3, 5}', '(n, 2.5)', '[1, 0]')}")

    def add(self, line):
        self.lines.append("    " * (self.depth + 1) + line)

    def statement(self, loops):
        kind = self.r.random()
        if self.r.random() < self.with_rows:
            self.asked() if self.r.random() < 0.3 else self.rows()
        elif kind < 0.2:
            name, value = self.one("k", "c", "c", "c"), self.whole(2)
            self.add(f"{name} = {value}" if "*" not in value else f"{name} = ({value}) % (1 << 62)")     # not larger and larger
        elif kind < 0.4:
            self.add(f"{self.one(*FLOATS)} {self.one('=', '+=', '-=', '*=')} {self.real(2)}")
        elif kind < 0.62:
            self.add(f"{self.element('f')} {self.one('=', '+=', '-=', '*=', '/=')} {self.value(2)}")
        elif kind < 0.7:
            self.add(f"{self.element('ib')} = {self.whole(2)}")
        elif kind < 0.75:
            self.add(self.one("x, y = y, x", "row = A[i]; x = row[j]", "s, k = x, c", f"t = {self.one('None', '1', 'x')}", "c += 1", "i, j = j, i",
                              "row = A[i, 1:]; row[0] += 1.0", "rows, columns = M.shape; c += columns", "v, w = w, v"))
        elif kind < 0.85 or loops >= DEPTH:
            self.add(f"if {self.truth(2)}:")
            self.block(loops, self.r.randint(1, 2))
            if self.r.random() < 0.4:
                self.add("else:")
                self.block(loops, 1)
        else:
            self.loop(loops)

    def block(self, loops, n, more=()):
        self.depth += 1
        for _ in range(n):
            self.statement(loops)
        if loops and self.r.random() < 0.12:
            self.add(f"if {self.truth(1)}: {self.one('break', 'continue')}")
        for line in more:
            self.add(line)
        self.depth -= 1

    def loop(self, loops):
        if self.r.random() < 0.25:
            self.add(self.one("for x in v:", "for y in w[1:]:", "for row in A:", "for i, x in enumerate(v):", "for j, row in enumerate(B):",
                              "for c in p:", "for j, c in enumerate(q):", "for k, row in enumerate(M[i % n:]):", "for t in b:", "for s in h:", "for x, y in zip(v, w):", "for i, (x, row) in enumerate(zip(u, A)):",
                              "for c, s in zip(p, w[1:]):", "for k, (row, c, x) in enumerate(zip(B, q, u)):", "for row, other in zip(A, B):", "for x in fs:", "for c in cs:",
                              "for i, c in enumerate(cs):", "for x, c in zip(fs, cs):", "for u in rs:", "for x, row in zip(fs, A):", "for c in [1, 2, 3]:", "for y in (x, 0.5):",
                              "for row in ls:"))
            self.block(loops + 1, self.r.randint(1, 4))
        elif self.r.random() < 0.7:
            name = self.one("i", "j", "k")
            self.add(f"for {name} in range({self.one('n', '1, n', 'n - 1, -1, -1', '0, n, 2', 'i % 9', 'k % 9', '5', 'max(j, -5), n', 'len(v)', 'q[0]')}):")
            self.block(loops + 1, self.r.randint(1, 4))
        else:
            self.counters += 1
            self.add(f"t{self.counters} = 0")
            self.add(f"while {self.one('', f'{self.truth(1)} and ')}t{self.counters} < {self.r.randint(2, 6)}:")
            self.depth += 1
            self.add(f"t{self.counters} += 1")
            self.depth -= 1
            self.block(loops + 1, self.r.randint(1, 3))

    def program(self):
        self.add("global total, count")
        self.add("i = j = 0; t = None")
        for _ in range(self.r.randint(1, 3)):
            self.loop(0)
        self.add("return {**{k: v for k, v in locals().items()}, 'total': total, 'count': count}")
        return f"total = 0.0; count = 0\n\n\ndef g(a, b=2.0, c=1):\n    return a * b + c\n\n\ndef pair(a, b):\n    if a is None:\n        return a, 1\n    return b, a\n\n\ndef f({', '.join(values(0))}):\n" + "\n".join(self.lines) + "\n"


def draw(seed):
    return Drawer(seed).program()


def described(x):
    """A value's type and bits, but for those of NaNs, whose signs NumPy's own routines do not agree about."""
    if isinstance(x, (np.ndarray, np.floating)) and x.dtype.kind == "f" and np.isnan(x).any():
        plain = np.where(np.isnan(x), x.dtype.type(np.nan), x)
        return type(x), x.shape, x.dtype.str, getattr(x, "strides", 0), plain.tobytes()
    if isinstance(x, np.ndarray):
        return "array", x.dtype.str, x.shape, x.strides, x.base is None, x.flags.writeable, x.tobytes()
    if isinstance(x, (list, tuple)):
        return type(x), [described(y) for y in x]
    if isinstance(x, np.random.Generator):
        return repr(x.bit_generator.state)
    if isinstance(x, random.Random):
        return x.getstate()
    return type(x), x.tobytes() if isinstance(x, np.generic) else repr(x)


def shared(values):
    """Which arrays are the same, or in the same memory."""
    arrays = [(k, x) for k, x in values if isinstance(x, np.ndarray)]
    return [(k, m, x is y) for i, (k, x) in enumerate(arrays) for m, y in arrays[:i] if x is y or np.may_share_memory(x, y)]


def outcome(call, arguments):
    np.random.seed(7)
    random.seed(7)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = call(*arguments.values())
            result = {name: described(x) for name, x in found.items()}
            result["shared"] = shared([*found.items(), *enumerate(found["log"]), *(("given " + k, x) for k, x in arguments.items())])
        except Exception as e:
            at = e.__traceback__
            while at.tb_next and at.tb_frame.f_code.co_name not in ("f", "g", "pair"):
                at = at.tb_next
            result = type(e), str(e), at.tb_lineno
    return result, {k: described(x) for k, x in arguments.items()}, [
        (w.category, str(w.message), "reduce" in str(w.message) or w.lineno) for w in said] + [np.random.random(), random.random()]


def judge(source, seeds=(0, 1, 2)):
    """What is wrong with a program; None: nothing."""
    found = {}
    for name in ("ours", "theirs"):
        space = {"np": np, "math": math, "random": random}
        exec(compile(source, "<loops>", "exec"), space)
        found[name] = space["f"]
    for seed in seeds:
        given = values(seed)
        expected = outcome(found["theirs"], copy.deepcopy(given))
        got = outcome(lambda *args: _core.called_plain(found["ours"], *args), copy.deepcopy(given))
        for what, a, b in zip(("result", "arguments", "warnings"), expected, got):
            if a != b:
                different = [k for k in a if a[k] != b.get(k)] if isinstance(a, dict) and isinstance(b, dict) else [a, b]
                return f"{what} of values {seed}: {different}: {[(a[k], b.get(k)) for k in different] if isinstance(a, dict) and isinstance(b, dict) else ''}"
    return None


def main():
    import sys
    first, last = map(int, sys.argv[1].split(":"))
    failed = 0
    with frit.config(tune="hot_turns=1"):
        for seed in range(first, last):
            source = draw(seed)
            wrong = judge(source)
            if wrong:
                failed += 1
                print(f"seed {seed}: {wrong[:600]}\n{source}")
                if failed >= 3:
                    break
        print(f"{last - first} drawn, {failed} failed, {frit.stats()['hot']} runs without Python")


if __name__ == "__main__":
    main()
