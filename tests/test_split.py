"""What is reshaped on its way is one kernel, where both shapes can be put together from the same axes."""
import os

import numpy as np
import pytest

import frit

from .common import assert_same, kernels_of

pytestmark = [pytest.mark.core, pytest.mark.planned]
RNG = np.random.default_rng(3)


def rand(*shape, dtype="f4"):
    return (RNG.standard_normal(shape) * 8).astype(dtype)


def run(f, *arrays):
    """The kernels that f was, and its results, which are NumPy's to the bit."""
    want, made = f(*[a.copy() for a in arrays]), []
    tensors = [frit.asarray(a.copy()) for a in arrays]
    frit.eval(*tensors)

    def work():
        r = f(*tensors)
        made[:] = r if isinstance(r, tuple) else (r,)
        frit.eval(*made)
    n = kernels_of(work)
    for got, w in zip(made, want if isinstance(want, tuple) else (want,)):
        assert_same(got, w)
    return n


def both(a, b):
    y = a * b
    return y, y.reshape(-1, 128) + 1


def centred(a, w):
    """By groups of channels."""
    y = (a * 2).reshape(-1, 64)
    return ((y - y.max(1, keepdims=True)) / y.min(1, keepdims=True)).reshape(a.shape) * w


def heads(a, w):
    return (a + w).reshape(8, 6, 4, 64).transpose(0, 2, 1, 3) * 2


def stored(a, b, w):
    y = a * 2
    y[:, 1] = (b + w).reshape(64, 128) * 3
    return y


CASES = {
    "columns": (lambda a, r, w: (a * r).reshape(16, 512) + w, rand(128, 64), rand(128, 1), rand(512)),
    "rows": (lambda a, w, v: (a * w).reshape(16, 512) + v, rand(128, 64), rand(64), rand(16, 1)),
    "taken apart": (lambda a, w, v: (a + w).reshape(16, 8, 64) * v, rand(16, 512), rand(512), rand(8, 64)),
    "flat": (lambda a, w: (a * w).ravel() + 1, rand(30, 3), rand(3)),
    "shown, too": (both, rand(16, 512), rand(512)),
    "in two shapes": (lambda a, w: ((a - w).reshape(64, 128) + 1, (a - w).ravel() * 2), rand(16, 512), rand(512)),
    "there and back": (centred, rand(16, 512), rand(512)),
    "turned": (heads, rand(48, 256), rand(256)),
    "rows are summed": (lambda a, r: (a * r).reshape(8, 16, 64).sum(2), rand(128, 64), rand(128, 1)),
    "columns are summed": (lambda a, r: (a * r).reshape(8, 16, 64).sum(0), rand(128, 64), rand(128, 1)),
    "places": (lambda a, r: (a * r).reshape(8, 1024).argmax(0), rand(128, 64), rand(128, 1)),
    "of axes of one": (lambda a, w: (a + w).reshape(1, 64, 1, 128)[:, :, 0] * w[:128], rand(16, 512), rand(512)),
    "twice as large": (lambda a: a.repeat(2, 0).repeat(2, 1), rand(64, 128)),
    "three times as large": (lambda a: a.repeat(3, 0).repeat(3, 1) * 2, rand(64, 128)),
    "four of them": (lambda a: np.tile(np.tile(a, (2, 1)), (1, 2)), rand(64, 128)),
    "other numbers": (lambda a, w: (a + w).reshape(64, 128) // 3, rand(16, 512, dtype="i4"), rand(512, dtype="i4")),
}


@pytest.mark.parametrize("name", CASES)
def test_is_one_kernel(name):
    assert run(*CASES[name]) == 1


def test_is_one_nest_behind_a_product():
    assert run(lambda a, b, w: ((a @ b).reshape(8, 6, 4, 64) + w).reshape(48, 256).max(1), rand(48, 2, dtype="i4"),
               rand(2, 256, dtype="i4"), rand(4, 64, dtype="i4")) == 1     # and the product


def test_is_stored_at_once():
    assert run(stored, rand(64, 2, 128), rand(16, 512), rand(512)) == 2     # one for what it is stored into


@pytest.mark.parametrize("f, arrays", [
    (lambda a, w, v: (a * w).reshape(90, 512) + v, (rand(360, 128), rand(360, 1), rand(90, 1))),        # 360 = 90 * 4
    (lambda a, w, v: (a * w).reshape(192, 240) + v, (rand(360, 128), rand(128), rand(240))),   # 128 and 240: no refinement
    (lambda a, w: (a * w).reshape(100, 20).max(0), (rand(500, 4), rand(500, 1))),              # rows would be short
    (lambda a, w: (a * w).reshape(-1).sum(), (rand(64, 128), rand(128))),                      # a row is not one
    (lambda a, w: (a * w).reshape(64, 64)[:, 5:60] + 1, (rand(32, 128), rand(128))),           # a part of an axis
    (lambda a, w: np.cumsum((a * w).reshape(64, 64), 1) * 2, (rand(32, 128, dtype="i4"), rand(128, dtype="i4"))),
    (lambda a, w: (a * w).reshape(0, 64) + 1, (rand(0, 128), rand(128))),
    (lambda a, w: (a.T * w).reshape(64, 128) + 1, (rand(128, 64), rand(128))),                 # in Fortran's order: a copy
])
def test_what_is_not_split_is_right(f, arrays):
    run(f, *arrays)


def shape_of(rng, n):
    """Some factors of n, in a row."""
    dims = []
    while n > 1 and len(dims) < 4:
        d = int(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
        dims.append(d)
        n //= d
    return tuple(dims + [n])


def beside(rng, shape, dtype):
    """What can be broadcast to the shape."""
    own = [d if rng.random() < 0.6 else 1 for d in shape][int(rng.integers(0, len(shape))):]
    a = (rng.standard_normal(own) * 8).astype(dtype)
    return np.asfortranarray(a) if rng.random() < 0.2 else a


def program(seed):
    """Operations with one right result, between them shapes, and what they work on."""
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["f4", "f8", "i4", "u1"]))
    n = int(rng.choice([24, 64, 360, 1024, 4096, 6144]))
    shape, arrays, steps = shape_of(rng, n), [], []
    arrays.append((rng.standard_normal(shape) * 8).astype(dtype))
    for _ in range(int(rng.integers(3, 9))):
        what = rng.choice(["beside", "beside", "reshape", "reshape", "reduce", "turn", "part", "shown", "store", "repeat", "tile"])
        if what == "beside":
            arrays.append(beside(rng, shape, dtype))
            steps.append(("beside", str(rng.choice(["add", "multiply", "maximum", "subtract"])), len(arrays) - 1))
        elif what == "reshape":
            shape = shape_of(rng, int(np.prod(shape)))
            steps.append(("reshape", shape))
        elif what == "reduce":
            axes = tuple(k for k in range(len(shape)) if rng.random() < 0.4)
            steps.append(("reduce", str(rng.choice(["sum", "max", "min"])), axes, bool(rng.random() < 0.6)))
        elif what == "turn":
            order = tuple(int(k) for k in rng.permutation(len(shape)))
            shape = tuple(shape[k] for k in order)
            steps.append(("turn", order))
        elif what == "part":
            cut = tuple(slice(int(rng.integers(0, 2)), None) if d > 2 and rng.random() < 0.3 else slice(None) for d in shape)
            shape = tuple(len(range(d)[c]) for d, c in zip(shape, cut))
            steps.append(("part", cut))
        elif what in ("repeat", "tile") and np.prod(shape) <= 2 * n:
            axis, times = int(rng.integers(0, len(shape))), int(rng.integers(2, 4))
            shape = tuple(d * times if k == axis else d for k, d in enumerate(shape))
            steps.append((str(what), times, axis))
        elif what in ("repeat", "tile"):
            steps.append(("shown",))
        else:
            steps.append((str(what),))
    return arrays, steps


def execute(xp, arrays, steps):
    x, shown = arrays[0], []
    for what, *how in steps:
        if what == "beside":
            x = getattr(xp, how[0])(x, arrays[how[1]])
        elif what == "reshape":
            x = x.reshape(how[0])
        elif what == "reduce":
            m = getattr(x, how[0])(axis=how[1], keepdims=True)
            if how[2]:
                x = (x - m).astype(x.dtype)
            else:
                shown.append(m.reshape(-1) * 2)
        elif what == "turn":
            x = x.transpose(how[0])
        elif what == "part":
            x = x[how[0]]
        elif what == "repeat":
            x = xp.repeat(x, how[0], how[1])
        elif what == "tile":
            x = xp.tile(x, [how[0] if k == how[1] else 1 for k in range(x.ndim)])
        elif what == "shown":
            shown.append(x)
            x = x + 1
        else:
            y = x * 2
            y[...] = (y.reshape(-1) + y.reshape(-1)[::-1]).reshape(y.shape)
            x = y
    return [*shown, x]


@np.errstate(all="ignore")
def test_random_programs():
    for seed in range(60 if os.environ.get("FRIT_JIT") == "always" else 300):
        arrays, steps = program(seed)
        want = execute(np, [a.copy() for a in arrays], steps)
        got = execute(frit, [frit.asarray(a.copy()) for a in arrays], steps)
        frit.eval(*got)
        for g, w in zip(got, want):
            assert_same(g, w, what=(seed, steps))
