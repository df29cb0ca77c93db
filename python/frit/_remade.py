"""Functions of NumPy's that are written in C, made of others so that they stay in the graph: of tensors, with NumPy's bits,
dtypes and strides. Each knows the common case and gives NotImplemented for all else, errors above all, which is NumPy's."""
from collections.abc import Callable
from typing import Any

import numpy

from ._namespace import TENSORS, ours
from ._numpy import named

_DTYPES = frozenset(map(numpy.dtype, named("dtype")))


def _is_mask(x: Any, ndim: int | None = None) -> bool:
    return (type(x) in TENSORS or type(x) is numpy.ndarray) and x.dtype == bool and x.ndim == (ndim or x.ndim)


def _compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """What a mask chooses, by its indices. NumPy has words for one that is too long."""
    if type(a) not in TENSORS or not _is_mask(condition, 1) or out is not None or not a.ndim:
        return NotImplemented
    if type(axis) not in (int, type(None)):
        return NotImplemented
    if axis is not None and not -a.ndim <= axis < a.ndim or len(condition) > (a.size if axis is None else a.shape[axis]):
        return NotImplemented
    return ours["take"](a, ours["nonzero"](condition)[0], axis=axis)


def _one_number(x: Any, kinds: str) -> Any:
    """The number that is meant by a list of it, as np.place takes them, if arrays of these kinds take it as it is; or None."""
    x = x[0] if type(x) in (list, tuple) and len(x) == 1 else x
    return x if type(x) is float and kinds in "fc" or type(x) is int and kinds in "ifc" and abs(x) < 1 << 7 else None


def _place(arr: Any, mask: Any, vals: Any) -> Any:
    value = _one_number(vals, arr.dtype.kind) if type(arr) in TENSORS and arr.ndim else None
    if value is None or not _is_mask(mask) or mask.shape != arr.shape:
        return NotImplemented
    arr[mask] = value


def _putmask(a: Any, mask: Any, values: Any) -> Any:
    if type(a) not in TENSORS or not a.ndim or not _is_mask(mask) or mask.shape != a.shape:
        return NotImplemented
    number = _one_number(values, a.dtype.kind)
    if number is not None:
        a[mask] = number
    elif (type(values) in TENSORS or type(values) is numpy.ndarray) and values.dtype == a.dtype and values.shape == a.shape:
        a[...] = ours["where"](mask, values, a)
    else:
        return NotImplemented


def _choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """One choice or another, of arrays of one dtype and shape; that there are as many is looked at."""
    if type(a) not in TENSORS or a.dtype.kind not in "iu" or not a.size or out is not None or mode != "raise":
        return NotImplemented
    if type(choices) not in (list, tuple) or not 0 < len(choices) <= 32:
        return NotImplemented
    for c in choices:
        if (type(c) not in TENSORS and type(c) is not numpy.ndarray or c.dtype not in _DTYPES or c.dtype != choices[0].dtype
                or c.shape != a.shape or not c.flags.c_contiguous):
            return NotImplemented
    if not a.flags.c_contiguous or numpy.min(a) < 0 or numpy.max(a) >= len(choices):
        return NotImplemented
    result = ours["array"](choices[-1])
    for k in range(len(choices) - 1):
        result = ours["where"](a == k, choices[k], result)
    return result


_FEW, _MANY = 24, 4096      # so few bins are compared with each of so many numbers in less time than a search takes


def _are_many(v: Any) -> bool:
    return type(v) in TENSORS and v.dtype == numpy.float64 and v.size >= _MANY and bool(v.flags.c_contiguous)


def _few(a: Any, n_least: int) -> Any:
    """A few doubles as an ndarray, or None: something else is meant."""
    if type(a) in (list, tuple):
        a = numpy.asarray(a) if len(a) <= _FEW and all(type(x) in (int, float) for x in a) else None
    elif type(a) not in TENSORS and type(a) is not numpy.ndarray or a.ndim != 1 or not n_least <= a.size <= _FEW:
        return None
    return numpy.asarray(a) if a is not None and a.ndim == 1 and a.size >= n_least and a.dtype == numpy.float64 else None


def _count_below(a: Any, v: Any, side: str) -> Any:
    """How many of a few sorted numbers stand before each element of v, or NotImplemented. A NaN stands behind all."""
    if not _are_many(v) or (a := _few(a, 1)) is None or not (a[1:] >= a[:-1]).all() or a[-1] != a[-1]:
        return NotImplemented
    before, negation = ours["less_equal" if side == "left" else "less"], ours["logical_not"]
    count: Any = 0
    for x in a.tolist():
        count = count + negation(before(v, x)).astype(numpy.int64)
    return count


def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    return _count_below(a, v, side) if sorter is None and side in ("left", "right") else NotImplemented


# Whether NumPy was compiled so that interp rounds products.
_X, _SLOPE = numpy.linspace(0.1, 0.9, 97), 1 / 3 - 1 / 7
_INTERP_ROUNDS = bool((numpy.interp(_X, [0.0, 1.0], [1 / 7, 1 / 3]) == _SLOPE * _X + 1 / 7).all())


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Each of a few lines for what lies above its beginning; NumPy computes the same for the one that it has found."""
    if not _are_many(x) or period is not None or type(left) not in (float, type(None)) or type(right) not in (float, type(None)):
        return NotImplemented
    xp, fp = _few(xp, 2), _few(fp, 2)
    if not _INTERP_ROUNDS or xp is None or fp is None or len(xp) != len(fp) or not (xp[1:] > xp[:-1]).all():
        return NotImplemented
    with numpy.errstate(all="ignore"):
        slopes = (fp[1:] - fp[:-1]) / (xp[1:] - xp[:-1])
        values = numpy.abs(numpy.concatenate([xp, fp, slopes]))
        if not (values < 1e150).all() or numpy.signbit(fp[fp == 0]).any():      # where NumPy looks twice
            return NotImplemented
        where, least, most = ours["where"], float(xp[0]), float(xp[-1])
        inside = where((x >= least) & (x <= most), x, least)
        result: Any = None
        for x0, y0, slope in zip(xp.tolist(), fp.tolist(), slopes.tolist()):
            line = (inside - x0) * slope + y0
            result = line if result is None else where(inside >= x0, line, result)
        result = where(x >= most, float(fp[-1]), result)
        result = where(x > most, right, result) if right is not None else result
        result = where(x < least, float(fp[0]) if left is None else left, result)
        return where(ours["isnan"](x), x, result)


def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    return _count_below(bins, x, "left" if right else "right") if type(right) is bool else NotImplemented


# {function of NumPy's: the function that is called instead where it meets a Tensor}
ROWS: dict[Any, Callable[..., Any]] = {
    numpy.compress: _compress, numpy.choose: _choose, numpy.place: _place, numpy.putmask: _putmask, numpy.interp: _interp,
    numpy.searchsorted: _searchsorted, numpy.digitize: _digitize}
