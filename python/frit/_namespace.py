"""What `np` means inside an accelerated function: NumPy's names, with frit's functions behind those
whose meaning is the same.  Everything else is NumPy's own object, which finds its way back to us
through __array_function__ and __array_ufunc__ when it meets a Tensor."""
import types
from collections.abc import Callable
from typing import Any

import numpy

from . import _core, _grids
from ._numpy import named

_OURS = frozenset(map(numpy.dtype, named("dtype")))


def _empty_for(shape: Any = None, dtype: Any = float, *args: Any, order: Any = None, **kwargs: Any) -> Callable[..., Any] | None:
    """What makes a tensor of these arguments of np.ndarray: np.empty, if they are of no memory that is there already."""
    try:
        if shape is not None and not args and not kwargs and order in ("C", "F", None) and numpy.dtype(dtype) in _OURS:
            empty: Callable[..., Any] = ours["empty"]
            return empty
    except TypeError:       # NumPy has words for it
        pass
    return None


class _ArrayClass(type):
    """What is called instead of np.ndarray, and is that class in all that it is asked besides."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, numpy.ndarray)

    def __subclasscheck__(cls, c: Any) -> bool:
        return issubclass(c, numpy.ndarray)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        make = _empty_for(*args, **kwargs)
        return numpy.ndarray(*args, **kwargs) if make is None else make(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(numpy.ndarray, name)

    def __eq__(cls, other: object) -> bool:
        return other is numpy.ndarray or other is ndarray

    def __hash__(cls) -> int:
        return hash(numpy.ndarray)


class ndarray(metaclass=_ArrayClass):
    __module__ = "numpy"


class _Joined:
    """np.c_ or np.r_ of tensors, arrays and numbers."""

    _NUMBERS = frozenset({bool, int, float, complex})
    _ARRAYS = frozenset({numpy.ndarray, list})

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._theirs, name)

    @property       # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._theirs)

    def __len__(self) -> int:
        return len(self._theirs)

    def __getitem__(self, key: Any) -> Any:
        items = [self._item(x) for x in (key if type(key) is tuple else (key,))]
        if not any(type(x) in TENSORS for x in items) or any(x is None for x in items):
            return self._theirs[key]
        dtype = numpy.result_type(*[x if type(x) in self._NUMBERS else x.dtype for x in items])
        if dtype not in _OURS:
            return self._theirs[key]
        join: Callable[..., Any] = ours["concatenate"]
        return join([self._part(x, dtype) for x in items], axis=self._theirs.axis)

    def _item(self, x: Any) -> Any:
        """What it takes for an item, or None."""
        if type(x) is list:
            try:
                x = None if any(type(y) not in self._NUMBERS for y in x) else numpy.array(x)
            except OverflowError:
                x = None
        return x if type(x) in TENSORS | self._NUMBERS | self._ARRAYS or isinstance(x, numpy.generic) else None

    def _part(self, x: Any, dtype: Any) -> Any:
        ndmin = self._theirs.ndmin
        if type(x) not in TENSORS:
            a = numpy.array(x, copy=None, ndmin=ndmin, dtype=dtype)
            return a.T if ndmin == 2 and numpy.ndim(x) == 1 else a
        x = x if x.dtype == dtype else x.astype(dtype)
        return x[:, None] if ndmin == 2 and x.ndim == 1 else x.reshape((1,) * ndmin) if x.ndim == 0 else x


def _ours() -> dict[str, Any]:
    """Name -> function for every function of NumPy's that frit has under the same name."""
    found, kept = {}, named("kept")
    for name in dir(numpy):
        if name.startswith("_") or name in kept:
            continue
        # Where ours refuses what only NumPy has (dtypes above all), the one that hands it over.
        mine = _core._behind_numpy.get(name) or getattr(_core, name, None)
        theirs = getattr(numpy, name) if callable(mine) else None       # (other names may be modules that NumPy imports then)
        if mine is not None and callable(theirs) and not isinstance(theirs, type):
            found[name] = mine
    return found


def _namespace() -> types.ModuleType:
    module = types.ModuleType("numpy", numpy.__doc__)

    def __getattr__(name: str) -> Any:
        value = getattr(numpy, name)
        module.__dict__[name] = value
        return value

    module.__dict__.update(ours, ndarray=ndarray, _conversions=conversions, __getattr__=__getattr__,
                           __dir__=lambda: dir(numpy), c_=_Joined(numpy.c_), r_=_Joined(numpy.r_),
                           mgrid=_grids.Grid(numpy.mgrid, ours), ogrid=_grids.Grid(numpy.ogrid, ours))
    return module


TENSORS = frozenset({_core.Tensor, *_core.Tensor.__subclasses__()})     # the types; isinstance() sees NumPy's classes

# What is called instead of NumPy's number types, by name: as values they are the types.
conversions = {name: _core.conversion(getattr(numpy, name)) for name in named("number")}
ours = _ours()
namespace = _namespace()
# For _rewrite.rewrite(): by identity, since a function may have several names.
modules = {id(numpy): namespace}
functions = {id(getattr(numpy, name)): mine for name, mine in ours.items()}
functions |= {id(numpy.ndarray): ndarray, id(type): _core.type_of}
functions |= {id(getattr(numpy, name)): getattr(namespace, name) for name in named("joined")}
functions |= {id(getattr(numpy, name)): f for name, f in conversions.items()}
