"""The order in which NumPy 2.3 and 2.4 add, as a model in plain Python, and the proof of it.

`plan(shape, strides, axes, cast)` says how a reduction walks its operand; `model_sum(a, axis)` follows the
plan with one NumPy addition per rounding, so that its bits are those of `np.sum`. What frit's planner and kernels
must do is what these two functions say.  `python tests/numpy_order.py [n]` compares n random cases.
"""

import itertools
import sys
import warnings

import numpy as np
from numpy.lib.stride_tricks import as_strided

BUFFER = 8192  # elements that NumPy's iterator buffers at most (numpy.getbufsize())


def sort_axes(shape, strides, ones=False):
    """The axes from inner to outer: by absolute stride, axes of stride 0 staying between their neighbours.
    Axes of size 1 are left out; with `ones` they take part, as if their stride was 0."""
    strides = [0 if n == 1 else s for n, s in zip(shape, strides)]
    order = [k for k in reversed(range(len(shape))) if ones or shape[k] != 1]
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
    """-0.0 for each row; both parts of a complex number."""
    return np.full((*x.shape[:-1], 2), -0.0, x.real.dtype).view(x.dtype)[..., 0]


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


def quotient(s, count):
    """s / count as np.mean divides: the count is a typed integer, so in double precision, rounded once more."""
    s = np.asarray(s)
    with np.errstate(all="ignore"):
        return (s.astype("c16" if s.dtype.kind == "c" else "f8") / np.float64(count)).astype(s.dtype)


def count_of(a, axes):
    return int(np.prod([a.shape[k] for k in axes], dtype="i8"))


def model_mean(a, axes):
    count = count_of(a, axes)
    if a.dtype == np.float16:
        s = model_sum(a, axes, "f4")
        r = s.astype("f8") / count
        return (r.astype("f4") if s.ndim else r).astype("f2")  # an array passes through single precision
    return quotient(model_sum(a, axes, "f8" if a.dtype.kind in "bui" else None), count)


def model_var(a, axes, ddof=0):
    count = count_of(a, axes)
    mean = quotient(model_sum(a, axes, "f8" if a.dtype.kind in "bui" else None), count)  # f16 stays f16
    with np.errstate(all="ignore"):
        x = np.subtract(a, np.expand_dims(mean, axes))
        if a.dtype.kind == "c":  # kept in the real parts, whose strides count
            x = np.add(np.square(x.real), np.square(x.imag), out=np.empty_like(x).real)
        else:
            x = np.square(x)
    return quotient(model_sum(x, axes), max(count - ddof, 0))


def result_strides(a, axes, keepdims, itemsize):
    """The strides of NumPy's result (not of argmax and argmin, which are in C order)."""
    strides, step = {}, itemsize
    for k in sort_axes(a.shape, a.strides, ones=True):
        strides[k] = step
        if k not in axes:
            step *= a.shape[k]
    return tuple(strides[k] for k in range(a.ndim) if keepdims or k not in axes)


# ---- proof


SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64, 100, 129]
LONG = [300, 1000, 4095, 4096, 4097, 5000, 8191, 8192, 8193, 20000]


def random_array(rng, dtype, big):
    """Some shape in some layout: C, F, permuted, cut, with steps, backwards, broadcast."""
    nd = int(rng.integers(1, 6))
    limit = 60000 if big else 3000
    while True:
        shape = [int(n) for n in rng.choice(SIZES, nd)]
        if big and rng.random() < 0.5:
            shape[int(rng.integers(nd))] = int(rng.choice(LONG))
        if np.prod(shape) <= limit:
            break
    room = [2 * n + 3 if rng.random() < 0.4 else n for n in shape]
    a = values(rng, room if np.prod(room) <= 400000 else shape, dtype)
    if rng.random() < 0.3:
        a = np.asfortranarray(a)
    if rng.random() < 0.4:
        a = a.transpose(rng.permutation(nd))
        if rng.random() < 0.5:
            a = np.ascontiguousarray(a).transpose(rng.permutation(nd))
    cut = []
    for n in a.shape:
        step = int(rng.choice([1, 2, 3, -1, -2]))
        if n <= 3 or rng.random() < 0.5:
            cut.append(slice(None))
        else:
            cut.append(slice(0, n - 2) if step == 1 else slice(None, None, step))
    a = a[tuple(cut)]
    if rng.random() < 0.2 and a.size < 2000:
        k = int(rng.integers(a.ndim + 1))
        a = np.broadcast_to(np.expand_dims(a, k), (*a.shape[:k], int(rng.choice([2, 3, 9, 40])), *a.shape[k:]))
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
            kept = np.sum(a, axis=axes, dtype=to, keepdims=True)
        got = model_sum(a, axes, to)
        strides = want.strides == result_strides(a, axes, False, want.itemsize) or want.ndim == 0
        strides = strides and kept.strides == result_strides(a, axes, True, want.itemsize)
        if not (same(got, want) and strides):
            bad += 1
            if bad < 10:
                print("differs:", dt, to, a.shape, a.strides, axes, plan(a.shape, a.strides, set(axes), to is not None))
    return bad


def check_moments(n, seed=0):
    """How many of n means and variances differ. Two NaNs are equal."""
    rng = np.random.default_rng(seed)
    bad = 0
    for _ in range(n):
        dt = rng.choice(["f4", "f8", "c8", "c16", "i4", "i1", "u8", "?", "f2"])
        a = random_array(rng, "u1" if dt == "?" else dt, rng.random() < 0.1)
        a = a.astype("?") if dt == "?" else a
        axes = tuple(int(x) for x in rng.permutation(a.ndim)[: rng.integers(1, a.ndim + 1)])
        ddof = int(rng.integers(2))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pairs = [(model_mean(a, axes), np.mean(a, axis=axes)),
                     (model_var(a, axes, ddof), np.var(a, axis=axes, ddof=ddof))]  # fmt: skip
        for got, want in pairs:
            if not same(got, want) and not (got.dtype == want.dtype and np.array_equal(got, want, equal_nan=True)):
                bad += 1
                if bad < 10:
                    print("differs:", dt, a.shape, a.strides, axes)
    return bad


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    bad = check(n) + check_moments(n)
    print(f"{n} cases, {bad} differ")
    sys.exit(bad != 0)
