"""The third program of the demo: a network whose layers are classes, as people write them. Plain NumPy, no word of frit."""
# mypy: ignore-errors
import numpy as np


class Dense:
    def __init__(self, n_in, n_out):
        self.params = {"W": (np.random.randn(n_in, n_out) * np.sqrt(2 / n_in)).astype(np.float32),
                       "b": np.zeros(n_out, np.float32)}
        self.grads = {}

    def forward(self, x, training):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, grad):
        self.grads["W"] = self.x.T @ grad
        self.grads["b"] = grad.sum(axis=0)
        return grad @ self.params["W"].T


class LayerNorm:
    def __init__(self, n):
        self.params = {"scale": np.ones(n, np.float32), "shift": np.zeros(n, np.float32)}
        self.grads = {}

    def forward(self, x, training):
        centred = x - x.mean(axis=1, keepdims=True)
        self.deviation = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(1e-5))
        self.normed = centred / self.deviation
        return self.normed * self.params["scale"] + self.params["shift"]

    def backward(self, grad):
        self.grads["scale"] = (grad * self.normed).sum(axis=0)
        self.grads["shift"] = grad.sum(axis=0)
        g = grad * self.params["scale"]
        g = g - g.mean(axis=1, keepdims=True) - self.normed * (g * self.normed).mean(axis=1, keepdims=True)
        return g / self.deviation


class Swish:
    params, grads = {}, {}

    def forward(self, x, training):
        self.x = x
        self.gate = 1 / (1 + np.exp(-x))
        return x * self.gate

    def backward(self, grad):
        return grad * self.gate * (1 + self.x * (1 - self.gate))


class Dropout:
    params, grads = {}, {}

    def __init__(self, rate):
        self.rate = rate

    def forward(self, x, training):
        if not training:
            return x
        self.mask = ((np.random.rand(*x.shape) >= self.rate) / (1 - self.rate)).astype(np.float32)
        return x * self.mask

    def backward(self, grad):
        return grad * self.mask


class Adam:
    def __init__(self, rate=1e-3, beta1=0.9, beta2=0.999):
        self.rate, self.beta1, self.beta2 = rate, beta1, beta2
        self.t, self.m, self.v = 0, {}, {}

    def update(self, layers):
        self.t += 1
        rate = self.rate * np.sqrt(1 - self.beta2 ** self.t) / (1 - self.beta1 ** self.t)
        for i, layer in enumerate(layers):
            for name, grad in layer.grads.items():
                key = i, name
                if key not in self.m:
                    self.m[key], self.v[key] = np.zeros_like(grad), np.zeros_like(grad)
                self.m[key] += np.float32(1 - self.beta1) * (grad - self.m[key])
                self.v[key] += np.float32(1 - self.beta2) * (grad * grad - self.v[key])
                layer.params[name] -= np.float32(rate) * self.m[key] / (np.sqrt(self.v[key]) + np.float32(1e-8))


class Network:
    def __init__(self, sizes, dropout):
        self.layers = []
        for n, m in zip(sizes, sizes[1:]):
            self.layers += [LayerNorm(n), Swish(), Dropout(dropout)] if self.layers else []
            self.layers.append(Dense(n, m))
        self.optimizer, self.losses = Adam(), []

    def forward(self, x, training=False):
        for layer in self.layers:
            x = layer.forward(x, training)
        return x

    def train_epoch(self, images, labels, batch):
        """One pass over the images in a random order; the mean loss."""
        order, total = np.random.permutation(len(images)), 0.0
        for start in range(0, len(order), batch):
            rows = order[start:start + batch]
            x, y = images[rows], labels[rows]
            z = self.forward(x, training=True)
            e = np.exp(z - z.max(axis=1, keepdims=True))
            p = e / e.sum(axis=1, keepdims=True)
            total += -(y * np.log(p + np.float32(1e-9))).sum()
            grad = (p - y) / np.float32(len(rows))
            for layer in reversed(self.layers):
                grad = layer.backward(grad)
            self.optimizer.update(self.layers)
        self.losses.append(total / len(order))
        return self.losses[-1]

    def accuracy(self, images, labels):
        return (self.forward(images).argmax(axis=1) == labels.argmax(axis=1)).mean()
