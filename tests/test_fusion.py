"""What becomes one kernel, from plain NumPy expressions, counted."""
import math

import numpy as np
import pytest

import frit

from .common import assert_same, kernels_of

pytestmark = [pytest.mark.core, pytest.mark.planned]


def rand(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(f, *arrays, kernels=1, rtol=2e-5):
    """f(xp, ...) is `kernels` dispatches and its results are NumPy's."""
    tensors = [frit.asarray(a) for a in arrays]
    frit.eval(*tensors)
    made = []

    def work():
        r = f(frit, *tensors)
        made[:] = r if isinstance(r, tuple) else (r,)
        frit.eval(*made)

    n = kernels_of(work)
    want = f(np, *arrays)
    for g, w in zip(made, want if isinstance(want, tuple) else (want,)):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(np.asarray(g), w, rtol=rtol, atol=1e-6)
    assert n == kernels, frit.explain(f)(frit, *tensors) if n != kernels else ""


def softmax(xp, x):
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


@pytest.mark.parametrize("shape", [(64, 128), (1000, 10), (5, 8192), (2, 3, 4, 33)])
def test_softmax_over_rows(shape):
    check(softmax, rand(*shape))


def channels(xp, image):
    f = image.astype("f4") / xp.asarray(255, "f4")
    return 0.5 * f[..., 0] + 0.25 * f[..., 1] - f[..., 2]


def scaled_transpose(xp, a, b):
    return (2 * a - 1).T + b


def reshaped(xp, a):
    return xp.exp(a + 1).reshape(16, -1)[::-1] * 2


def neighbours(xp, a):
    f = a.astype("f8")
    return f[:-2] + f[1:-1] + f[2:]


def window_of_rows(xp, a):
    return ((a - a.mean(1, keepdims=True)) * 2)[:, ::4]


def blended(xp, a, b, alpha):
    return a * alpha + b * (1 - alpha)


def cross_product(xp, a, b):
    x, y, z = a[:, 0], a[:, 1], a[:, 2]
    u, v, w = b[:, 0], b[:, 1], b[:, 2]
    return xp.stack([y * w - z * v, z * u - x * w, x * v - y * u], 1)


def rotated(xp, a):
    y = xp.zeros_like(a)
    y[:, 0] = 0.8 * a[:, 0] - 0.6 * a[:, 1]
    y[:, 1] = 0.6 * a[:, 0] + 0.8 * a[:, 1]
    return y


def swapped(xp, a):
    y = xp.array(a)
    y[:, 0], y[:, 1] = y[:, 1] * 2, y[:, 0] * 3
    return y


def stacked(xp, a, b):
    return xp.concatenate([a + 1, b * 2])


def interlaced(xp, a, b):
    return xp.stack([a, b + 1, b, a * 2], -1)


def overlapping(xp, a):
    y = xp.zeros_like(a)
    y[1:] = a[1:] * 2
    y[:-1] = a[:-1] + 1
    return y


@pytest.mark.parametrize("f, arrays, kernels", [
    (cross_product, [rand(500, 3), rand(500, 3)], 1), (rotated, [rand(500, 2)], 2), (swapped, [rand(500, 2)], 2),
    (stacked, [rand(500), rand(500)], 2),       # nothing that both read
    (interlaced, [rand(500), rand(500)], 1), (interlaced, [rand(20, 30), rand(20, 30)], 1),
    (overlapping, [rand(500)], 3)])
def test_stores_into_parts_of_one_array(f, arrays, kernels):
    check(f, *arrays, kernels=kernels)


@pytest.mark.parametrize("f, arrays, kernels", [
    (blended, [rand(30, 40, 3), rand(30, 40, 3), rand(30, 40, 1)], 1),
    (blended, [rand(500, 40), rand(500, 40), rand(500, 1)], 2),     # repeated too often to be computed again
    (channels, [rand(30, 40, 3) * 50], 1), (scaled_transpose, [rand(64, 48), rand(48, 64)], 1), (reshaped, [rand(64, 64)], 1),
    (neighbours, [rand(500)], 1), (window_of_rows, [rand(20, 64)], 1)])
def test_windows_of_what_is_pending(f, arrays, kernels):
    check(f, *arrays, kernels=kernels)


def layer_norm(xp, x, g, b):
    mu = xp.mean(x, axis=-1, keepdims=True)
    d = x - mu
    var = xp.mean(d * d, axis=-1, keepdims=True)
    return d / xp.sqrt(var + np.float32(1e-5)) * g + b


def test_layer_norm_forward():
    check(layer_norm, rand(200, 96), rand(96, seed=1), rand(96, seed=2))


def test_layer_norm_forward_with_var():
    def f(xp, x, g, b):
        d = x - x.mean(axis=-1, keepdims=True)
        return d / xp.sqrt(x.var(axis=-1, keepdims=True) + np.float32(1e-5)) * g + b
    check(f, rand(200, 96), rand(96, seed=1), rand(96, seed=2))


def layer_norm_backward(xp, x, g, dy):
    n = np.float32(x.shape[-1])
    mu = xp.mean(x, axis=-1, keepdims=True)
    d = x - mu
    rstd = 1 / xp.sqrt(xp.mean(d * d, axis=-1, keepdims=True) + np.float32(1e-5))
    xhat = d * rstd
    dxhat = dy * g
    dx = (dxhat - xp.sum(dxhat, axis=-1, keepdims=True) / n
          - xhat * (xp.sum(dxhat * xhat, axis=-1, keepdims=True) / n)) * rstd
    return dx, xp.sum(dy * xhat, axis=0), xp.sum(dy, axis=0)


def test_layer_norm_backward():
    check(layer_norm_backward, rand(300, 64), rand(64, seed=1), rand(300, 64, seed=2), rtol=1e-4)


@pytest.mark.parametrize("n", [1000, 300_000])
def test_variance_of_the_whole_array(n):
    check(lambda xp, x: xp.var(x), rand(n, dtype="f8"))
    check(lambda xp, x: ((x - x.mean()) ** 2).mean(), rand(n, dtype="f8"))


def test_variance_over_rows():
    check(lambda xp, x: xp.var(x, axis=1), rand(400, 100))


def test_log_sum_exp_over_rows():
    def f(xp, x):
        m = xp.max(x, axis=-1, keepdims=True)
        return xp.log(xp.sum(xp.exp(x - m), axis=-1)) + m[..., 0]
    check(f, rand(400, 100))


@pytest.mark.parametrize("n", [1000, 300_000])
def test_log_sum_exp_of_the_whole_array(n):
    def f(xp, x):
        m = x.max()
        return xp.log(xp.sum(xp.exp(x - m))) + m
    check(f, rand(n, dtype="f8"))


def test_gelu():
    c = np.float32(math.sqrt(2 / math.pi))
    check(lambda xp, x: np.float32(0.5) * x * (1 + xp.tanh(c * (x + np.float32(0.044715) * x ** 3))),
          rand(300, 200), rtol=1e-4)


def test_long_element_wise_chain():
    def f(xp, x, y):
        z = x
        for i in range(20):
            z = z * y + np.float32(i)
            z = xp.maximum(z, x) - xp.minimum(y, np.float32(0.5))
        return z / (1 + z * z)
    check(f, rand(100_000), rand(100_000, seed=1), rtol=1e-4)


def test_results_that_are_held_come_out_of_the_same_kernel():
    def f(xp, x):
        a = x * 2
        b = a + 1
        c = xp.sqrt(xp.absolute(b))
        return a, b, c
    check(f, rand(10_000))


def adam(params, grads, ms, vs, t):
    lr, b1, b2, eps = 1e-3, 0.9, 0.999, 1e-8
    for p, g, m, v in zip(params, grads, ms, vs):
        m *= b1
        m += (1 - b1) * g
        v *= b2
        v += (1 - b2) * (g * g)
        p -= lr * (m / (1 - b1 ** t)) / ((v / (1 - b2 ** t)) ** 0.5 + eps)


def test_adam_update_of_20_tensors():
    shapes = [(64, 32), (32,), (32, 16), (16,), (128, 64)] * 4
    arrays = [[rand(*s, seed=20 * k + i) for i, s in enumerate(shapes)] for k in range(4)]
    arrays[3] = [np.abs(a) for a in arrays[3]]
    tensors = [[frit.asarray(a) for a in group] for group in arrays]
    frit.eval(*(t for group in tensors for t in group))
    t = 0

    def work():
        nonlocal t
        t += 1
        adam(*tensors, t)
        frit.eval(*tensors[0], *tensors[2], *tensors[3])

    n = kernels_of(work)
    for i in range(t):
        adam(*arrays, i + 1)
    for mine, theirs in zip(tensors, arrays):
        for a, b in zip(mine, theirs):
            assert_same(a, b)
    assert n == 1


def test_sgd_with_momentum_step_is_one_kernel():
    p, v, g = (frit.asarray(rand(1000, seed=i)) for i in range(3))

    def work():
        nonlocal v
        v *= np.float32(0.9)
        v += g
        p.__isub__(np.float32(0.01) * v)
        frit.eval(p, v)
    assert kernels_of(work) == 1


def test_matmul_epilogue_is_one_kernel_beside_the_product():
    x, w, b = frit.asarray(rand(64, 32)), frit.asarray(rand(32, 48)), frit.asarray(rand(48))

    def work():
        frit.eval(frit.maximum(x @ w + b, 0))
    assert kernels_of(work) <= 2


def test_views_and_broadcasts_are_not_materialised():
    check(lambda xp, x, w: (x[:, ::2].T + w[:, None]) * 2, rand(50, 40), rand(20))


def test_where_and_comparison_fuse():
    check(lambda xp, x: xp.where(x > 0, x, np.float32(0.01) * x).sum(axis=1), rand(100, 50))


def test_axpy_then_row_and_column_sums():
    check(lambda xp, x, y: ((x * 2 + y).sum(axis=1),), rand(100, 50), rand(100, 50, seed=1))
    check(lambda xp, x, y: ((x * 2 + y).sum(axis=0),), rand(100, 50), rand(100, 50, seed=1))


def test_dead_code_is_not_computed():
    x = frit.asarray(rand(1000))

    def work():
        dead = frit.exp(x).sum()
        del dead
        frit.eval(x + 1)
    assert kernels_of(work) == 1


def test_plain_loop_hits_the_plan_from_its_third_step():
    x = frit.asarray(rand(500))
    for i in range(3):
        x = x * np.float32(0.5) + 1
        frit.eval(x)
    before = frit.stats()["plans"]
    for i in range(50):
        x = x * np.float32(0.5) + 1
        frit.eval(x)
    assert frit.stats()["plans"] == before


def test_products_of_small_matrices_are_two_kernels():
    """Each as one long row; whatever is one row for each of its steps anyway is one kernel."""
    def product(xp, a, b):
        return (a[:, :, :, None] * b[:, None]).sum(2)

    for dtype in "f4", "f8":
        check(product, rand(100, 3, 3, dtype=dtype), rand(100, 3, 3, dtype=dtype), kernels=2)
    check(product, rand(100, 8, 8, dtype="f8"), rand(100, 8, 8, dtype="f8"))     # 4 KB for each
    check(product, rand(10, 3, 3), rand(10, 3, 3))                               # few
    check(lambda xp, a, w: (a * w).sum(2), rand(100, 3, 3, 3), rand(100, 3, 3, 1))   # the outer axes are one
    check(lambda xp, a, w: (a * w).sum(1), rand(100, 3, 3), rand(100, 3, 1))
