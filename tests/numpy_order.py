"""The order in which NumPy 2.3 and 2.4 add, as a model in plain Python, and the proof of it.

`plan(shape, strides, axes, cast)` says how a reduction walks its operand; `model_sum(a, axis)` follows the
plan with one NumPy addition per rounding, so that its bits are those of `np.sum`. What frit's planner and kernels
must do is what these two functions say.  `python tests/numpy_order.py [n]` compares n random cases.
"""

import itertools
import sys

import numpy as np
from numpy.lib.stride_tricks import as_strided

BUFFER = 8192  # elements that NumPy's iterator buffers at most (numpy.getbufsize())


def sort_axes(shape, strides):
    """The axes from inner to outer: by absolute stride, axes of stride 0 staying between their neighbours."""
    order = [k for k in reversed(range(len(shape))) if shape[k] != 1]
    for i in range(1, len(order)):
        axis, place = order[i], i
        for j in range(i - 1, -1, -1):
            other = order[j]
            if strides[axis] == 0 or strides[other] == 0:
                continue  # no comparison: look further in
            if abs(strides[other]) <= abs(strides[axis]):
                break
            place = j
        order.insert(place, order.pop(i))
    return order


def merge_axes(shape, strides, axes):
    """[size, stride, reduced] from inner to outer after sorting and merging neighbours of one kind."""
    out = []
    for k in sort_axes(shape, strides):
        reduced = k in axes
        if out and out[-1][2] == reduced and out[-1][0] * out[-1][1] == strides[k]:
            out[-1][0] *= shape[k]
        else:
            out.append([shape[k], strides[k], reduced])
    return out


def plan(shape, strides, axes, cast):
    """(dims, n_merged, piece): the merged dims; how many of the innermost form one virtual row (0: the innermost
    is kept, rows are added lane by lane); at most `piece` indices of the outermost of these at a time."""
    dims = merge_axes(shape, strides, axes)
    run = list(itertools.takewhile(lambda d: d[2], dims))
    if not run:
        return dims, 0, 0
    m = [d[0] for d in run]
    core, last, size = 1, 0, m[0]
    if len(m) > 1 and (size < BUFFER if cast else size <= BUFFER // 2):
        core, last, size = m[0], 1, m[0] * m[1]
        while size < BUFFER and last + 1 < len(m):
            last += 1
            core, size = size, size * m[last]
        buffered = True
    else:
        buffered = cast
    return dims, last + 1, BUFFER // core if buffered and size > BUFFER else m[last]


def tree(x):
    """Pairwise sums along the last axis, without an identity in front."""
    n = x.shape[-1]
    wide = 2 if x.dtype.kind == "c" else 1
    lanes = 8 // wide
    if n < lanes:
        r = neg_zero(x)
        for i in range(n):
            r = r + x[..., i]
        return r
    if n <= 128 // wide:
        m = n - n % lanes
        r = x[..., :lanes].copy()
        for i in range(lanes, m, lanes):
            r = r + x[..., i : i + lanes]
        while r.shape[-1] > 1:
            r = r[..., 0::2] + r[..., 1::2]
        r = r[..., 0]
        for i in range(m, n):
            r = r + x[..., i]
        return r
    h = n // 2 if wide == 1 else (n - n % 8) // 2
    if wide == 1:
        h -= h % 8
    return tree(x[..., :h]) + tree(x[..., h:])


def neg_zero(x):
    r = np.empty(x.shape[:-1], x.dtype)
    r.real = -0.0
    if x.dtype.kind == "c":
        r.imag = -0.0
    return r


def sum_dtype(a, dtype):
    if dtype is not None:
        return np.dtype(dtype)
    return {"b": np.dtype("i8"), "i": np.dtype("i8"), "u": np.dtype("u8")}.get(a.dtype.kind, a.dtype)


def model_sum(a, axis=None, dtype=None):
    dtype = sum_dtype(a, dtype)
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = {k % a.ndim for k in axes}
    kept_shape = [a.shape[k] for k in range(a.ndim) if k not in axes]
    acc = np.zeros([n for n in kept_shape], dtype)
    if a.size == 0:
        return acc
    dims, n_merged, piece = plan(a.shape, a.strides, axes, dtype != a.dtype)
    if not dims:
        return acc + a.astype(dtype).reshape(kept_shape)
    shape, strides = [d[0] for d in dims][::-1], [d[1] for d in dims][::-1]
    v = as_strided(a, shape, strides).astype(dtype)
    nd = len(dims)
    kept = [k for k in range(nd) if not dims[nd - 1 - k][2]]
    seq = [k for k in range(nd - n_merged) if dims[nd - 1 - k][2]]
    row = list(range(nd - n_merged, nd))
    v = v.transpose(seq + kept + row)
    ks = [shape[k] for k in kept]
    inner = 1
    for k in row[1:]:
        inner *= shape[k]
    n = inner * (shape[row[0]] if row else 1)
    v = v.reshape([-1] + ks + ([n] if row else []))
    acc = np.zeros(ks, dtype)
    with np.errstate(all="ignore"):
        for x in v:
            if not row:
                acc = acc + x
                continue
            for i in range(0, n, piece * inner):
                t = x[..., i : i + piece * inner]
                if dtype == np.float16:
                    acc = (acc.astype("f4") + tree(t.astype("f4"))).astype("f2")
                else:
                    acc = acc + tree(t)
    # kept dims are merged and in the order of strides: back to the operand's axes
    order = [k for k in sort_axes(a.shape, a.strides) if k not in axes][::-1]
    res = np.asarray(acc).reshape([a.shape[k] for k in order])
    where = [k for k in range(a.ndim) if k not in axes and a.shape[k] != 1]
    res = res.transpose([order.index(k) for k in where])
    return res.reshape(kept_shape)


# ---- proof


def random_array(rng, dtype, big):
    nd = int(rng.integers(1, 6))
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 100, 129]
    limit = 60000 if big else 3000
    shape = []
    while True:
        shape = [int(rng.choice(sizes)) for _ in range(nd)]
        if big and rng.random() < 0.5:
            shape[int(rng.integers(nd))] = int(rng.choice([300, 1000, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 20000]))
        if np.prod(shape) <= limit:
            break
    bigger = [n * 2 + 3 if rng.random() < 0.4 and np.prod(shape) < limit // 2 else n for n in shape]
    if np.prod([float(b) for b in bigger]) > 400000:
        bigger = shape
    base = values(rng, bigger, dtype)
    if rng.random() < 0.3:
        base = np.asfortranarray(base)
    if rng.random() < 0.4:
        base = np.ascontiguousarray(base.transpose(rng.permutation(nd))).transpose(
            np.argsort(rng.permutation(nd))) if rng.random() < 0.5 else base.transpose(rng.permutation(nd))
    cut = []
    for n in base.shape:
        if n > 3 and rng.random() < 0.5:
            step = int(rng.choice([1, 2, 3, -1, -2]))
            cut.append(slice(None, None, step) if step != 1 else slice(0, n - 2))
        else:
            cut.append(slice(None))
    a = base[tuple(cut)]
    if rng.random() < 0.2 and a.size < 2000:
        k = int(rng.integers(a.ndim + 1))
        a = np.broadcast_to(np.expand_dims(a, k), a.shape[:k] + (int(rng.choice([2, 3, 9, 40])),) + a.shape[k:])
    return a


def values(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 2 ** (8 * dtype.itemsize - 2), shape).astype(dtype)
    spread = 3 if dtype == np.float16 else 8
    x = rng.standard_normal(shape) * np.exp(rng.uniform(-spread, spread, shape))
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape) * np.exp(rng.uniform(-spread, spread, shape))
    return x.astype(dtype)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check(n, seed=0):
    rng = np.random.default_rng(seed)
    kinds = [("f4", None), ("f8", None), ("f2", None), ("c8", None), ("f4", "f8"), ("f2", "f4"), ("i8", "f8"),
             ("i4", "f4"), ("c16", None), ("c8", "c16")]
    bad = 0
    for k in range(n):
        dt, to = kinds[int(rng.integers(len(kinds)))]
        a = random_array(rng, dt, rng.random() < 0.2)
        axes = tuple(int(x) for x in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
        with np.errstate(all="ignore"):
            want = np.sum(a, axis=axes, dtype=to)
        got = model_sum(a, axes, to)
        if not same(got, want):
            bad += 1
            if bad < 10:
                print("differs:", dt, to, a.shape, a.strides, axes, plan(a.shape, a.strides, set(axes), to is not None))
    return bad


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    bad = check(n)
    print(f"{n} cases, {bad} differ")
    sys.exit(bad != 0)
