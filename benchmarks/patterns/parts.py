"""A user's module of layers and an optimizer, for the patterns that use classes of another module."""
import numpy as np


class Module:
    """What the layers inherit: parameters by name, a call, gradients."""

    def __init__(self):
        self.params, self.grads = {}, {}

    def __call__(self, x):
        return self.forward(x)

    @property
    def size(self):
        return sum(p.size for p in self.params.values())


class Linear(Module):
    def __init__(self, n_in, n_out, rng):
        super().__init__()
        self.params["w"], self.params["b"] = rng.standard_normal((n_in, n_out)) * 0.1, np.zeros(n_out)

    def forward(self, x):
        self.x = x
        return x @ self.params["w"] + self.params["b"]

    def backward(self, dy):
        self.grads["w"], self.grads["b"] = self.x.T @ dy, dy.sum(axis=0)
        return dy @ self.params["w"].T


class Swish(Module):
    def forward(self, x):
        self.x, self.s = x, 1 / (1 + np.exp(-x))
        return x * self.s

    def backward(self, dy):
        return dy * (self.s + self.x * self.s * (1 - self.s))


class Norm(Module):
    def __init__(self, n):
        super().__init__()
        self.params["g"], self.params["o"] = np.ones(n), np.zeros(n)

    def forward(self, x):
        centred = x - x.mean(axis=1, keepdims=True)
        self.scale = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)
        self.y = centred * self.scale
        return self.y * self.params["g"] + self.params["o"]

    def backward(self, dy):
        self.grads["g"], self.grads["o"] = (dy * self.y).sum(axis=0), dy.sum(axis=0)
        dn = dy * self.params["g"]
        return self.scale * (dn - dn.mean(axis=1, keepdims=True) - self.y * (dn * self.y).mean(axis=1, keepdims=True))


class Adam:
    def __init__(self, modules, rate=1e-3):
        self.modules, self.rate, self.t = modules, rate, 0
        self.m = [{k: np.zeros_like(p) for k, p in one.params.items()} for one in modules]
        self.v = [{k: np.zeros_like(p) for k, p in one.params.items()} for one in modules]

    def step(self):
        self.t += 1
        for one, m, v in zip(self.modules, self.m, self.v):
            for k, p in one.params.items():
                m[k] = 0.9 * m[k] + 0.1 * one.grads[k]
                v[k] = 0.999 * v[k] + 0.001 * one.grads[k] ** 2
                p -= self.rate * (m[k] / (1 - 0.9 ** self.t)) / (np.sqrt(v[k] / (1 - 0.999 ** self.t)) + 1e-8)
