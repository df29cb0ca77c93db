"""What `np` means inside an accelerated function: NumPy's names, with frit's functions behind those
whose meaning is the same.  Everything else is NumPy's own object, which finds its way back to us
through __array_function__ and __array_ufunc__ when it meets a Tensor."""
import types
from collections.abc import Callable
from typing import Any

import numpy

from . import _core
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
                           __dir__=lambda: dir(numpy))
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
functions |= {id(getattr(numpy, name)): f for name, f in conversions.items()}
