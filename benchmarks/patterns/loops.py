"""The other patterns: globals, products, letters and rows that change, SciPy, single elements, recursion."""
import numpy as np

from benchmarks.patterns.listed import pattern

# ---- 5: globals that are updated in place


U = V = None


def _laplacian(z):
    return z[:-2, 1:-1] + z[1:-1, :-2] - 4 * z[1:-1, 1:-1] + z[1:-1, 2:] + z[2:, 1:-1]


def globals_step():
    global U, V
    for _ in range(3):
        u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
        r = u * v * v
        du, dv = 0.16 * _laplacian(U) - r + 0.035 * (1 - u), 0.08 * _laplacian(V) + r - 0.095 * v
        u += du
        v += dv
    U += 0.0


def globals_function(u, v):
    u, v = u.copy(), v.copy()
    for _ in range(3):
        a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
        r = a * b * b
        la = u[:-2, 1:-1] + u[1:-1, :-2] - 4 * a + u[1:-1, 2:] + u[2:, 1:-1]
        lb = v[:-2, 1:-1] + v[1:-1, :-2] - 4 * b + v[1:-1, 2:] + v[2:, 1:-1]
        du, dv = 0.16 * la - r + 0.035 * (1 - a), 0.08 * lb + r - 0.095 * b
        u[1:-1, 1:-1] += du
        v[1:-1, 1:-1] += dv
    return u, v


@pattern
def globals_in_place():
    global U, V
    rng = np.random.default_rng(0)
    U, V = 1 - 0.1 * rng.random((200, 200)), 0.25 * rng.random((200, 200))
    return globals_step, lambda: [U, V], globals_function, lambda: ()


# ---- 6: columns by rows


@pattern
def columns_by_rows():
    rng = np.random.default_rng(0)
    d, total = np.zeros((200, 200)), np.zeros((30, 40))
    columns, h, g = rng.random((10, 200, 1)), rng.random((50, 30)), rng.random((50, 40))

    def step():
        nonlocal d, total
        for c in columns:
            d += np.dot(c, c.T)
        d *= 0.5
        total += np.matmul(h[:, :, None], g[:, None, :]).sum(0) + np.outer(h[0], g[0])
        total *= 0.5
    return step, lambda: [d, total], columns_function, lambda: (columns, h, g)


def columns_function(d, total, columns, h, g):
    for k in range(10):
        d = d + columns[k] * columns[k].reshape(1, 200)
    return d * 0.5, (total + (h[:, :, None] * g[:, None, :]).sum(axis=0) + h[0][:, None] * g[0][None, :]) * 0.5


# ---- 7: one-hot columns of changing letters, kept for the way back


class _Letters:
    def __init__(self, n, h):
        rng = np.random.RandomState(0)
        self.n, self.wx, self.wh, self.wy = n, rng.randn(h, n) * 0.05, rng.randn(h, h) * 0.05, rng.randn(n, h) * 0.05
        self.h = np.zeros((h, 1))

    def train(self, letters, targets):
        xs, hs, ps = {}, {-1: self.h}, {}
        for t, letter in enumerate(letters):
            xs[t] = np.zeros((self.n, 1))
            xs[t][letter] = 1
            hs[t] = np.tanh(np.dot(self.wx, xs[t]) + np.dot(self.wh, hs[t - 1]))
            e = np.exp(np.dot(self.wy, hs[t]))
            ps[t] = e / np.sum(e)
        dwx, dwh, dwy = np.zeros_like(self.wx), np.zeros_like(self.wh), np.zeros_like(self.wy)
        following = np.zeros_like(self.h)
        for t in reversed(range(len(letters))):
            dy = np.copy(ps[t])
            dy[targets[t]] -= 1
            dwy += np.dot(dy, hs[t].T)
            raw = (1 - hs[t] * hs[t]) * (np.dot(self.wy.T, dy) + following)
            dwx += np.dot(raw, xs[t].T)
            dwh += np.dot(raw, hs[t - 1].T)
            following = np.dot(self.wh.T, raw)
        for w, dw in zip((self.wx, self.wh, self.wy), (dwx, dwh, dwy)):
            w -= 0.01 * np.clip(dw, -5, 5)
        self.h = hs[len(letters) - 1]


def letters_function(wx, wh, wy, h, x, y):
    hs, ps = [h], []
    for t in range(12):
        hs.append(np.tanh(wx @ x[t] + wh @ hs[t]))
        e = np.exp(wy @ hs[t + 1])
        ps.append(e / np.sum(e))
    dwx, dwh, dwy, following = 0.0 * wx, 0.0 * wh, 0.0 * wy, 0.0 * h
    for t in range(11, -1, -1):
        dy = ps[t] - y[t]
        now = hs[t + 1]
        dwy = dwy + dy * now.T
        raw = (1 - now * now) * (wy.T @ dy + following)
        dwx = dwx + raw * x[t].T
        dwh = dwh + raw * hs[t].T
        following = wh.T @ raw
    return wx - 0.01 * np.clip(dwx, -5, 5), wh - 0.01 * np.clip(dwh, -5, 5), wy - 0.01 * np.clip(dwy, -5, 5), hs[12]


@pattern
def letters():
    model, text, hot, at = _Letters(50, 64), np.random.RandomState(1).randint(0, 50, 13 * 700), np.eye(50)[:, :, None], [0, 0]

    def following(which):
        at[which] += 12
        return text[at[which]:at[which] + 12].tolist(), text[at[which] + 1:at[which] + 13].tolist()

    def step():
        model.train(*following(0))
    return step, lambda: [model.wx, model.wh, model.wy, model.h], letters_function, lambda: tuple(hot[k] for k in following(1))


# ---- 8: rows that change


@pattern
def rows():
    rng = np.random.RandomState(0)
    e, f = rng.randn(500, 200) * 0.1, rng.randn(500, 200) * 0.1
    pairs, at = rng.permutation(500)[:, None] * [1, 7] % 500, [0, 0]

    def following(which):
        at[which] += 20
        return pairs[at[which] % 500:][:20]

    def step():
        for i, j in following(0).tolist():
            score = 1 / (1 + np.exp(-np.dot(e[i], f[j]))) - 1.0
            g = score * e[i]
            e[i] -= 0.025 * score * f[j]
            f[j] -= 0.025 * g
    return step, lambda: [e, f], rows_function, lambda: (following(1),)


def rows_function(e, f, pairs):
    i, j = pairs[:, 0], pairs[:, 1]
    a, b = e[i], f[j]
    score = (1 / (1 + np.exp(-(a * b).sum(axis=1))) - 1.0)[:, None]
    e, f = e.copy(), f.copy()
    e[i] = a - 0.025 * score * b
    f[j] = b - 0.025 * (score * a)
    return e, f


# ---- 9: ufunc.at, masks, what is done row by row


@pattern
def scattered():
    rng = np.random.RandomState(0)
    grid, place, velocity = np.zeros(512), rng.rand(20000) * 512, rng.randn(20000)

    def step():
        nonlocal place
        cell = place.astype(int)
        grid[:] = 0
        np.add.at(grid, cell, velocity * velocity)
        slow = np.abs(velocity) < 0.1
        velocity[slow] *= 1.5
        place = place + 0.1 * velocity
        place[place < 0] += 512
        place[place >= 512] -= 512
        grid[:] = np.cumsum(grid) / 512
    return step, lambda: [grid, place, velocity], scattered_function, lambda: ()


def scattered_function(grid, place, velocity):
    grid = np.bincount(place.astype(np.int64), velocity * velocity, 512)
    velocity = np.where(np.abs(velocity) < 0.1, velocity * 1.5, velocity)
    place = place + 0.1 * velocity
    place = np.where(place < 0, place + 512, place)
    place = np.where(place >= 512, place - 512, place)
    return np.cumsum(grid) / 512, place, velocity


# ---- 10: prices by SciPy's functions


class _Book:
    def __init__(self, n):
        rng = np.random.RandomState(0)
        self.spot, self.strike = 80 + 40 * rng.rand(n), 80 + 40 * rng.rand(n)
        self.years, self.volatility = rng.rand(n) + 0.1, 0.1 + 0.3 * rng.rand(n)
        self.call = self.put = np.zeros(n)

    def price(self):
        from scipy.special import ndtr
        root = self.volatility * np.sqrt(self.years)
        d1 = (np.log(self.spot / self.strike) + (0.02 + 0.5 * self.volatility ** 2) * self.years) / root
        now = self.strike * np.exp(-0.02 * self.years)
        self.call = self.spot * ndtr(d1) - now * ndtr(d1 - root)
        self.put = self.call - self.spot + now
        self.spot += 0.01


def price_function(spot, call, put, strike, years, volatility):
    root = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (0.02 + 0.5 * volatility ** 2) * years) / root
    now = strike * np.exp(-0.02 * years)
    call = spot * normal(d1) - now * normal(d1 - root)
    return spot + 0.01, call, call - spot + now


def normal(x):
    from scipy.special import ndtr
    return ndtr(x)


@pattern
def pricing():
    book = _Book(20000)
    return (book.price, lambda: [book.spot, book.call, book.put], price_function,      # (with frit's own erfc)
            lambda: (book.strike, book.years, book.volatility))


# ---- 11: loops over single elements, with branches


def metropolis(spins, places, chances, beta):
    n = spins.shape[0]
    for k in range(len(places)):
        i, j = places[k, 0], places[k, 1]
        change = 2 * spins[i, j] * (spins[(i + 1) % n, j] + spins[i - 1, j] + spins[i, (j + 1) % n] + spins[i, j - 1])
        if change <= 0 or chances[k] < np.exp(-beta * change):
            spins[i, j] = -spins[i, j]


def value_iteration(value, reward):
    n = len(value)
    for i in range(n):
        best = -1e9
        for to in (i - 1, i, (i + 1) % n):
            here = reward[to] + 0.9 * value[to]
            if here > best:
                best = here
        value[i] = best


@pattern
def elements():
    rng = np.random.RandomState(0)
    spins, value, reward = 2 * rng.randint(0, 2, (24, 24)) - 1, np.zeros(200), rng.rand(200)

    def step():
        metropolis(spins, rng.randint(0, 24, (600, 2)), rng.rand(600), 0.4)
        value_iteration(value, reward)
    return step, lambda: [spins, value], None, None


def elements_numba(compile):
    """The same loops compiled, with the same numbers by chance."""
    rng = np.random.RandomState(0)
    spins, value, reward = 2 * rng.randint(0, 2, (24, 24)) - 1, np.zeros(200), rng.rand(200)
    one, other = compile(metropolis), compile(value_iteration)

    def step():
        one(spins, rng.randint(0, 24, (600, 2)), rng.rand(600), 0.4)
        other(value, reward)
    return step, lambda: [spins, value]


# ---- 12: small programs that call themselves


def _transform(x):
    n = len(x)
    if n == 1:
        return x
    even, odd = _transform(x[::2]), _transform(x[1::2])
    turn = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + turn, even - turn])


def _sorted(x):
    if len(x) <= 1:
        return x
    middle = x[len(x) // 2]
    return np.concatenate([_sorted(x[x < middle]), x[x == middle], _sorted(x[x > middle])])


@pattern
def recursive():
    rng = np.random.RandomState(0)
    x, y = rng.rand(256) + 0j, rng.rand(300)
    given = [np.zeros(256) + 0j, np.zeros(300)]

    def step():
        given[:] = _transform(x), _sorted(y)
    return step, lambda: given, None, None
