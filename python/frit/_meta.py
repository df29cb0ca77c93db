"""What a function is called with, and what stands for NumPy, where arrays have no data (device "meta"): for _estimate.py."""
from __future__ import annotations

import functools
import io
import math
import operator
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy

from . import _core
from ._kept import draws, slots_of
from ._outside import attribute

META = "meta"


def _ints(shape: Any) -> tuple[int, ...]:
    try:
        return tuple(map(operator.index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        raise TypeError(f"ShapeDtype(): a shape is an int or a tuple of ints, not {shape!r}") from None


class ShapeDtype:
    """An array that is not there: its `shape`, a tuple of ints, its `dtype`, and its order, "C" or "F".
    Stands for an argument of a function that is estimated, so that no memory is needed for it.

        frit.estimate(f)(frit.ShapeDtype((1 << 20, 1024), "f4"))
    """

    __slots__ = ("dtype", "order", "shape")
    __module__ = "frit"

    def __init__(self, shape: int | tuple[int, ...], dtype: Any = "f8", order: str = "C") -> None:
        if order not in ("C", "F"):
            raise ValueError(f"ShapeDtype(): order is 'C' or 'F', not {order!r}")
        self.order = order
        self.shape: tuple[int, ...] = _ints(shape)
        self.dtype: numpy.dtype[Any] = numpy.dtype(dtype)
        self._tensor()      # raises what is wrong with either

    def _tensor(self) -> Any:
        return _core.meta_like(self.shape, self.dtype, None, self.order == "F")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"frit.ShapeDtype({self.shape}, {self.dtype.str!r}, {self.order!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtype) and (self.shape, self.dtype, self.order) == (other.shape, other.dtype, other.order)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.order))


# ---- what the function is called with ----

def asked_of(what: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"{what}() takes a function, not {function!r}")


_KEPT: tuple[type, ...] = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, numpy.ndarray, numpy.generic,
                           numpy.dtype, _core.Tensor)


def without_data(o: Any) -> Any:
    """What stands for a ShapeDtype, or an array on a device, where nothing is computed; anything else itself."""
    if issubclass(type(o), ShapeDtype):
        return o._tensor()
    if type(o) is not _core.Tensor or o.device == META:
        return o
    tensor: Any = o
    if tensor._is_pending():    # to know its values would compute it
        return ShapeDtype(o.shape, o.dtype)._tensor()
    return _core.meta_like(o.shape, o.dtype, numpy.array(o, order="C"), False)


class _Copier(pickle.Pickler):
    """Copies arguments with all that they hold, but for arrays and what has no state that a call could change: what the function
    does to objects, it does to copies."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.kept: list[Any] = []
        super().__init__(self.file, protocol=5)

    def persistent_id(self, o: Any) -> int | None:
        if isinstance(o, (ShapeDtype, _core.Tensor)):
            o = without_data(o)
        elif not (isinstance(o, _KEPT) or (type(o).__flags__ & _HEAP == 0 and type(o) not in _COPIED and not draws(o))):
            return None
        self.kept.append(o)
        return len(self.kept) - 1

    def copy(self, o: Any) -> Any:
        self.dump(o)
        self.file.seek(0)
        return _Reader(self.file, self.kept).load()


class _Reader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, kept: list[Any]) -> None:
        super().__init__(file)
        self.kept = kept

    def persistent_load(self, number: int) -> Any:
        return self.kept[number]


_HEAP = 1 << 9      # Py_TPFLAGS_HEAPTYPE: a class of Python's; others are kept, but for
_COPIED: set[type] = {list, tuple, dict, set, frozenset, int, float, complex, str, bytes, bool, type(None), bytearray,
                       slice, range, types.MethodType, types.SimpleNamespace, functools.partial}


def copied(values: Any) -> Any:
    try:
        return _Copier().copy(values)
    except Exception as error:
        raise TypeError(f"the arguments cannot be copied, so that the call would leave them alone: {error}") from error


def reached(o: Any) -> Iterator[Any]:
    """What is in containers and attributes, what methods and partial functions are of, and what views are views of, each once."""
    seen: dict[int, Any] = {}
    found = [o]
    while found:
        o = found.pop()
        if id(o) in seen:
            continue
        seen[id(o)] = o
        yield o
        kind = type(o)
        if issubclass(kind, numpy.ndarray):
            found.append(o.base)
        elif issubclass(kind, (list, tuple, set, frozenset)):
            found += o
        elif issubclass(kind, dict):
            found += o.values()
        elif issubclass(kind, types.MethodType):
            found.append(o.__self__)
        elif issubclass(kind, functools.partial):
            found += [o.func, o.args, o.keywords]
        elif not issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            found += [attribute(o, name) for name in ("__dict__", *slots_of(kind))]


def arrays_bytes(objects: Iterable[Any]) -> int:
    """Bytes of the arrays among them, but for views of others."""
    return sum(o.nbytes for o in objects if issubclass(type(o), (ShapeDtype, _core.Tensor))
               or (issubclass(type(o), numpy.ndarray) and not isinstance(o.base, numpy.ndarray)))


# ---- what NumPy is asked for ----

class Handed(NamedTuple):
    """Calls of a NumPy function that frit does not do itself, on one line."""

    name: str
    where: str
    calls: int
    result_bytes: int       # of each; what NumPy has beside them, and for how long it computes, is not known


_MOST_DRAWN = 1 << 20       # bytes of random numbers that are drawn: what csrc/runtime/known.c takes for few


class HandOver:
    """Stands for NumPy's functions where arrays have no data."""

    def __init__(self, computes_all: bool) -> None:
        self.found: dict[tuple[str, str, int], int] = {}
        self.at_most: set[str] = set()
        self.most_drawn = sys.maxsize if computes_all else _MOST_DRAWN

    def __call__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from ._shapes import drawn, result_of
        is_known = all(map(_is_known, (*args, *kwargs.values())))
        if not is_known:        # NumPy is given what is there: it is computed before
            _core.eval([x for x in reached([args, kwargs]) if isinstance(x, _core.Tensor)])
        if draws(getattr(function, "__self__", None)):
            if function.__name__ == "shuffle" and not is_known:
                return None
            shapes = drawn(function.__name__, tuple(map(_shape_of, args)), {k: _shape_of(v) for k, v in kwargs.items()})
            if shapes is NotImplemented or (is_known and math.prod(shapes.shape) * shapes.dtype.itemsize <= self.most_drawn):
                return NotImplemented
            return self._made(f"random.{function.__name__}", shapes)
        if is_known:
            return NotImplemented       # NumPy computes it
        if function == "asarray":
            s = _stacked(args[0])
            return NotImplemented if s is None else ShapeDtype(s.shape, s.dtype)._tensor()
        name = function if isinstance(function, str) else getattr(function, "__name__", repr(function))
        shapes = result_of(function, tuple(map(_shape_of, args)), {k: _shape_of(v) for k, v in kwargs.items()})
        if shapes is NotImplemented:
            raise _core.NoDataError(f"{name} is handed to NumPy, and what it makes of an array without data is not known")
        return self._made(name, shapes)

    def _made(self, name: str, shapes: Any) -> Any:
        where = _core.site_text(_core.site_here())
        size = 0

        def made(s: Any) -> Any:
            nonlocal size
            if isinstance(s, tuple) and not hasattr(s, "most"):
                return tuple(map(made, s))
            if s.most:
                self.at_most.add(f"{name} at {where}")
            array = ShapeDtype(s.shape, s.dtype)
            size += array.nbytes
            return array._tensor()
        result = made(shapes)
        self.found[name, where, size] = self.found.get((name, where, size), 0) + 1
        return result

    def calls(self) -> list[Handed]:
        return [Handed(name, where, n, size) for (name, where, size), n in self.found.items()]


def _stacked(x: Any) -> Any:
    """The Shape of the array that a list of lists of arrays and numbers becomes; None: it becomes none."""
    from ._shapes import Shape
    if isinstance(x, (list, tuple)) and x:
        parts = list(map(_stacked, x))
        if any(p is None or p.shape != parts[0].shape for p in parts):
            return None
        return Shape((len(x), *parts[0].shape), numpy.result_type(*(p.dtype for p in parts)))
    if isinstance(x, (_core.Tensor, numpy.ndarray, numpy.generic, bool, int, float, complex)):
        return _shape_of(x) if isinstance(x, _core.Tensor) else Shape(numpy.shape(x), numpy.asarray(x).dtype)
    return None


def _is_known(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(map(_is_known, x))
    return not isinstance(x, _core.Tensor) or _core.meta_known(x)


def _shape_of(x: Any) -> Any:
    from ._shapes import Shape
    if isinstance(x, (list, tuple)):
        return type(x)(map(_shape_of, x)) if type(x) in (list, tuple) else x
    return Shape(x.shape, x.dtype) if isinstance(x, _core.Tensor) else x


def where_text(error: BaseException) -> str:
    """The innermost line of the user's code."""
    here, found, trace = os.path.dirname(__file__), None, error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith((here, os.path.dirname(numpy.__file__))):
            found = f"{code.co_filename}:{trace.tb_lineno} in {code.co_qualname}"
        trace = trace.tb_next
    return f", at {found}" if found else ""


def element(value: Any) -> Callable[[Any], bytes]:
    """The bytes of a number as an element of a dtype."""
    if not isinstance(value, (int, float, complex, numpy.generic)):
        raise TypeError(f"unknown is a number, or None, not {type(value).__name__}")
    return lambda dtype: numpy.asarray(value).astype(dtype).tobytes()
