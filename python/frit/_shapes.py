"""What NumPy's functions that frit hands over make of arrays, known by their shapes and dtypes alone: for frit.estimate, where
arrays have no data.

A rule takes the arguments, with a Shape for each array, and gives a Shape, a tuple of them, or a plain value."""
from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

try:
    from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
except ImportError:     # NumPy 2.0's beginnings
    from numpy.core.numeric import normalize_axis_tuple     # type: ignore[no-redef]
    from numpy.core.multiarray import normalize_axis_index  # type: ignore[no-redef]


class Shape(NamedTuple):
    shape: tuple[int, ...]
    dtype: Any
    most: bool = False      # it may be less


def _of(x: Any) -> Shape:
    if isinstance(x, Shape):
        return x
    a = numpy.asarray(x)
    return Shape(a.shape, a.dtype)


def _floats(*of: Shape) -> Any:
    d = numpy.result_type(*(s.dtype for s in of))
    return d if d.kind in "fc" else numpy.dtype("f8")


def _without(s: Shape, axis: Any, keepdims: bool, dtype: Any) -> Shape:
    axes = range(len(s.shape)) if axis is None else normalize_axis_tuple(axis, len(s.shape))
    return Shape(tuple(1 if k in axes else n for k, n in enumerate(s.shape) if keepdims or k not in axes), dtype)


def _same(a: Any, *_: Any, **__: Any) -> Shape:
    return _of(a)


def _sort(a: Any, axis: int | None = -1, *_: Any, **__: Any) -> Shape:
    s = _of(a)
    return Shape((math.prod(s.shape),), s.dtype) if axis is None else s


def _argsort(a: Any, axis: int | None = -1, *_: Any, **__: Any) -> Shape:
    return Shape(_sort(a, axis).shape, numpy.dtype("i8"))


def _partition(a: Any, kth: Any, axis: int | None = -1, *_: Any, **__: Any) -> Shape:
    return _sort(a, axis)


def _argpartition(a: Any, kth: Any, axis: int | None = -1, *_: Any, **__: Any) -> Shape:
    return _argsort(a, axis)


def _median(a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False) -> Shape:
    return _without(_of(a), axis, keepdims, _floats(_of(a)))


def _quantile(a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
              keepdims: bool = False, **_: Any) -> Shape:
    dtype = _floats(_of(a)) if isinstance(q, (int, float)) else _floats(_of(a), _of(q))
    return Shape(_of(q).shape + _without(_of(a), axis, keepdims, dtype).shape, dtype)


def _searchsorted(a: Any, v: Any, *_: Any, **__: Any) -> Shape:
    return Shape(_of(v).shape, numpy.dtype("i8"))


def _digitize(x: Any, *_: Any, **__: Any) -> Shape:
    return Shape(_of(x).shape, numpy.dtype("i8"))


def _interp(x: Any, xp: Any, fp: Any, *_: Any, **__: Any) -> Shape:
    return Shape(_of(x).shape, numpy.dtype("c16" if _of(fp).dtype.kind == "c" else "f8"))


def _convolve(a: Any, v: Any, mode: str = "full") -> Shape:
    n, m = sorted((math.prod(_of(a).shape), math.prod(_of(v).shape)), reverse=True)
    return Shape(({"full": n + m - 1, "same": n, "valid": n - m + 1}[mode],), numpy.result_type(_of(a).dtype, _of(v).dtype))


def _correlate(a: Any, v: Any, mode: str = "valid") -> Shape:
    return _convolve(a, v, mode)


def _unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
            axis: int | None = None, **_: Any) -> Any:
    s = _of(ar)
    n = math.prod(s.shape) if axis is None else s.shape[axis]
    first = Shape((n,) if axis is None else s.shape, s.dtype, True)
    more = [Shape((n,), numpy.dtype("i8"), True)] * (return_index + return_inverse + return_counts)
    return (first, *more) if more else first


def _histogram(a: Any, bins: Any = 10, *_: Any, **kw: Any) -> tuple[Shape, Shape]:
    n = bins if isinstance(bins, int) else math.prod(_of(bins).shape) - 1
    return (Shape((n,), numpy.dtype("f8" if kw.get("density") or kw.get("weights") is not None else "i8")),
            Shape((n + 1,), _floats(_of(a))))


def _cov(m: Any, y: Any = None, rowvar: bool = True, *_: Any, **__: Any) -> Shape:
    s = _of(m)
    n = 1 if len(s.shape) < 2 else s.shape[0 if rowvar else 1]
    return Shape(() if n == 1 else (n, n), numpy.result_type(s.dtype, "f8"))


# ---- linalg ----

def _solve(a: Any, b: Any) -> Shape:
    return Shape(_of(b).shape, _floats(_of(a), _of(b)))


def _like_matrix(a: Any, *_: Any, **__: Any) -> Shape:
    return Shape(_of(a).shape, _floats(_of(a)))


def _pinv(a: Any, *_: Any, **__: Any) -> Shape:
    s = _of(a).shape
    return Shape((*s[:-2], s[-1], s[-2]), _floats(_of(a)))


def _det(a: Any) -> Shape:
    return Shape(_of(a).shape[:-2], _floats(_of(a)))


def _real(d: Any) -> Any:
    return numpy.zeros((), d).real.dtype


def _eigh(a: Any, *_: Any, **__: Any) -> tuple[Shape, Shape]:
    s, d = _of(a).shape, _floats(_of(a))
    return Shape(s[:-1], _real(d)), Shape(s, d)


def _eigvalsh(a: Any, *_: Any, **__: Any) -> Shape:
    return _eigh(a)[0]


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, **_: Any) -> Any:
    s, d = _of(a).shape, _floats(_of(a))
    m, n = s[-2:]
    k = min(m, n)
    values = Shape((*s[:-2], k), _real(d))
    if not compute_uv:
        return values
    return Shape((*s[:-2], m, m if full_matrices else k), d), values, Shape((*s[:-2], n if full_matrices else k, n), d)


def _qr(a: Any, mode: str = "reduced") -> Any:
    s, d = _of(a).shape, _floats(_of(a))
    m, n = s[-2:]
    k = m if mode == "complete" else min(m, n)
    r = Shape((*s[:-2], k, n), d)
    return r if mode == "r" else (Shape((*s[:-2], m, k), d), r)


def _lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Shape, ...]:
    (m, n), s, d = _of(a).shape, _of(b).shape, _floats(_of(a), _of(b))
    return Shape((n, *s[1:]), d), Shape(s[1:] or (1,), d, True), Shape((), numpy.dtype("i4")), Shape((min(m, n),), _real(d))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Shape:
    return _without(_of(x), axis, keepdims, _real(_floats(_of(x))))


# ---- fft ----

def _complex(s: Shape) -> Any:
    return numpy.result_type(_floats(s), numpy.complex64)


def _fft(a: Any, n: int | None = None, axis: int = -1, *_: Any, **__: Any) -> Shape:
    s, d = list(_of(a).shape), _complex(_of(a))
    if n is not None:
        s[normalize_axis_index(axis, len(s))] = n
    return Shape(tuple(s), d)


def _rfft(a: Any, n: int | None = None, axis: int = -1, *_: Any, **__: Any) -> Shape:
    s = list(_of(a).shape)
    k = normalize_axis_index(axis, len(s))
    s[k] = (s[k] if n is None else n) // 2 + 1
    return Shape(tuple(s), _complex(_of(a)))


def _irfft(a: Any, n: int | None = None, axis: int = -1, *_: Any, **__: Any) -> Shape:
    s = list(_of(a).shape)
    k = normalize_axis_index(axis, len(s))
    s[k] = 2 * (s[k] - 1) if n is None else n
    return Shape(tuple(s), _real(_complex(_of(a))))


def _fftn(a: Any, s: Any = None, axes: Any = None, *_: Any, **__: Any) -> Shape:
    shape, d = list(_of(a).shape), _complex(_of(a))
    for n, axis in zip(s or (), range(-len(s or ()), 0) if axes is None else axes):
        if n != -1:
            shape[normalize_axis_index(axis, len(shape))] = n
    return Shape(tuple(shape), d)


def _name(function: Any) -> str:
    module = (getattr(function, "__module__", None) or "numpy").removeprefix("numpy.")
    name = getattr(function, "__name__", str(function))
    return f"{module}.{name}" if module in ("linalg", "fft") else name


RULES: dict[str, Callable[..., Any]] = {
    "sort": _sort, "argsort": _argsort, "partition": _partition, "argpartition": _argpartition, "median": _median,
    "quantile": _quantile, "percentile": _quantile, "nanmedian": _median, "nanquantile": _quantile, "nanpercentile": _quantile,
    "searchsorted": _searchsorted, "digitize": _digitize, "interp": _interp, "convolve": _convolve, "correlate": _correlate,
    "unique": _unique, "histogram": _histogram, "cov": _cov, "corrcoef": _cov, "nan_to_num": _same,
    "linalg.solve": _solve, "linalg.inv": _like_matrix, "linalg.pinv": _pinv, "linalg.cholesky": _like_matrix, "linalg.det": _det,
    "linalg.eigh": _eigh, "linalg.eigvalsh": _eigvalsh, "linalg.svd": _svd, "linalg.qr": _qr, "linalg.lstsq": _lstsq,
    "linalg.norm": _norm, "linalg.matrix_power": _same,
    "fft.fft": _fft, "fft.ifft": _fft, "fft.rfft": _rfft, "fft.irfft": _irfft, "fft.fft2": _fftn, "fft.ifft2": _fftn,
    "fft.fftn": _fftn, "fft.ifftn": _fftn, "fft.fftshift": _same, "fft.ifftshift": _same,
}


# Methods of generators of random numbers: how many parameters stand before `size`, and what they give.
_FLOATS = {"random": 0, "random_sample": 0, "standard_normal": 0, "standard_exponential": 0, "standard_cauchy": 0,
           "standard_gamma": 1, "standard_t": 1, "normal": 2, "uniform": 2, "exponential": 1, "gamma": 2, "beta": 2,
           "lognormal": 2, "laplace": 2, "logistic": 2, "gumbel": 2, "chisquare": 1, "noncentral_chisquare": 2, "f": 2,
           "noncentral_f": 3, "pareto": 1, "power": 1, "rayleigh": 1, "triangular": 3, "vonmises": 2, "wald": 2, "weibull": 1}
_INTS = {"integers": 2, "randint": 2, "poisson": 1, "binomial": 2, "geometric": 1, "negative_binomial": 2, "hypergeometric": 3,
         "zipf": 1, "logseries": 1}
_NAMED = {"size", "dtype", "endpoint", "method", "out"}     # which are no parameters of a distribution


def drawn(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a method of a generator of random numbers gives, without its values; NotImplemented: no rule says."""
    at = _FLOATS.get(name, _INTS.get(name))
    try:
        if name in ("rand", "randn"):
            return Shape(tuple(map(int, args)), numpy.dtype("f8"))
        if name in ("permutation", "permuted"):
            return Shape((int(args[0]),), numpy.dtype("i8")) if isinstance(args[0], (int, numpy.integer)) else _of(args[0])
        if name == "choice":
            of, size = args[0], kwargs.get("size", args[1] if len(args) > 1 else None)
            of = Shape((0,), numpy.dtype("i8")) if isinstance(of, (int, numpy.integer)) else _of(of)
            return Shape((*_size(size), *of.shape[1:]), of.dtype)
        if at is None or kwargs.get("out") is not None:
            return NotImplemented
        dtype = kwargs.get("dtype", args[at + 1] if len(args) > at + 1 else "f8" if name in _FLOATS else "i8")
        size = kwargs.get("size", args[at] if len(args) > at else None)
        given = [*args[:at], *(v for k, v in kwargs.items() if k not in _NAMED)]
        shape = numpy.broadcast_shapes(*(_of(x).shape for x in given)) if size is None else _size(size)
        return Shape(shape, numpy.dtype(dtype))
    except (TypeError, ValueError, IndexError):
        return NotImplemented


def _size(size: Any) -> tuple[int, ...]:
    return () if size is None else tuple(map(int, size)) if isinstance(size, (tuple, list)) else (int(size),)


def result_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the function, or the method of that name, gives for such arguments; NotImplemented: no rule says."""
    rule = RULES.get(_name(function))
    if rule is None or kwargs.get("out") is not None or any(isinstance(x, numpy.ma.MaskedArray) for x in args):
        return NotImplemented
    try:
        inspect.signature(rule).bind(*args, **kwargs)
        return rule(*args, **kwargs)
    except (TypeError, KeyError):
        return NotImplemented
