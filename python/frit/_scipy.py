"""Functions of SciPy's that are themselves made of functions of NumPy, in Python: with a Tensor among their arguments they
stay in the graph, as NumPy's do (_composed.py). Each computes what SciPy computes, in its order; what it takes besides an
array of floats and plain numbers is SciPy's own.

SciPy's compiled functions (erf, expit, ndtr, gammaln) are called as they are: ours round otherwise.
_outside.py adds these once a program has imported SciPy, of which nothing is imported here."""
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy

from . import _composed
from ._namespace import TENSORS, ours

_FLOATS = (numpy.dtype("f4"), numpy.dtype("f8"))
_where, _isnan, _isfinite, _equal = ours["where"], ours["isnan"], ours["isfinite"], ours["equal"]
_exp, _log, _log1p, _sum, _max, _squeeze = (ours[name] for name in ("exp", "log", "log1p", "sum", "max", "squeeze"))


def _is_ours(x: Any) -> bool:
    return type(x) in TENSORS and x.dtype in _FLOATS and x.ndim > 0 and x.size > 0


def _softmax(x: Any, axis: Any = None) -> Any:
    if not _is_ours(x):
        return NotImplemented
    e = _exp(x - _max(x, axis=axis, keepdims=True))
    return e / _sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Any, axis: Any = None) -> Any:
    if not _is_ours(x):
        return NotImplemented
    most = _max(x, axis=axis, keepdims=True)
    shifted = x - _where(_isfinite(most), most, 0)
    e = _exp(shifted)
    with numpy.errstate(divide="ignore"):
        out = _log(_sum(e, axis=axis, keepdims=True))
    return shifted - out


def _logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """The greatest elements are apart: log1p(the others / how many they are) + log(how many) + the greatest."""
    if not _is_ours(a) or b is not None or return_sign:
        return NotImplemented
    axis = tuple(range(a.ndim)) if axis is None else axis
    with numpy.errstate(divide="ignore", invalid="ignore", over="ignore"):
        infinite = _log(_sum(_exp(a), axis=axis, keepdims=True))
    with numpy.errstate(divide="ignore", invalid="ignore"):
        most = _max(a, axis=axis, keepdims=True)
        is_most = _equal(a, most)
        m = _sum(is_most.astype(a.dtype), axis=axis, keepdims=True)
        s = _sum(_exp(_where(is_most, -numpy.inf, a) - most), axis=axis, keepdims=True)
        out = _log1p(_where(s == 0, s, s / m)) + _log(m) + most
    out = _where(_isfinite(out), out, infinite)
    if not keepdims:
        out = _squeeze(out, axis=axis)
    return out[()] if out.ndim == 0 else out


def _of_norm(formula: Callable[[Any, Any, Any], Any], is_quantile: bool = False) -> Callable[..., Any]:
    """A method of scipy.stats.norm: formula(what is asked for, loc, scale) where that is a number."""
    def method(*args: Any, **kwargs: Any) -> Any:
        if not 0 < len(args) <= 3 or not kwargs.keys() <= {"loc", "scale"}:
            return NotImplemented
        x, loc, scale = (*args, *[kwargs.get(name, k) for k, name in enumerate(("loc", "scale"))][len(args) - 1:])
        if not _is_ours(x) or not x.flags.c_contiguous or type(loc) not in (int, float) or type(scale) not in (int, float):
            return NotImplemented
        if not 0 < scale < numpy.inf or not -numpy.inf < loc < numpy.inf:
            return NotImplemented
        x = x.astype(numpy.float64)
        x = x if is_quantile else (x - loc) / scale
        return _where(_isnan(x), numpy.nan, formula(x, float(loc), float(scale)))
    return method


def _special(special: types.ModuleType) -> dict[Any, Any]:
    return {special.softmax: _softmax, special.log_softmax: _log_softmax, special.logsumexp: _logsumexp}


def _stats(stats: types.ModuleType) -> dict[Any, Any]:
    special, root = sys.modules["scipy.special"], numpy.sqrt(2 * numpy.pi)
    log_root = numpy.log(root)
    norm = stats.norm
    return {norm.pdf: _of_norm(lambda x, loc, scale: _exp(-x**2 / 2.0) / root / scale),
            norm.logpdf: _of_norm(lambda x, loc, scale: -x**2 / 2.0 - log_root - numpy.log(scale)),
            norm.cdf: _of_norm(lambda x, loc, scale: special.ndtr(x)),
            norm.ppf: _of_norm(lambda q, loc, scale: special.ndtri(q) * scale + loc, is_quantile=True)}


_ROWS = {"scipy.special": _special, "scipy.stats": _stats}


def add() -> None:
    """Adds to what is composed the functions of those modules that have been imported by now."""
    for name in [name for name in _ROWS if name in sys.modules]:
        rows = _ROWS.pop(name)
        try:
            _composed.table.update(rows(sys.modules[name]))
        except AttributeError:      # half imported, or another SciPy
            pass
