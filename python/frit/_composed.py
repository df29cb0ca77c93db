"""Functions of NumPy that are themselves made of functions of NumPy, in Python: np.diff is a few slices and a
subtraction.  With a Tensor among their arguments they run as NumPy has written them, in a copy whose calls of NumPy
are calls of frit (_rewrite.py), so that they stay in the graph, with the bits, dtypes, strides and errors of NumPy's.
Their names are in _numpy.py. What they need is ours, too; what looks at values to know what to do (unique, percentile)
is not among them, for NumPy on the data is as good; what NumPy has written in C is in _remade.py.

csrc/bind/numpy/fallback.c looks here before it hands a function over."""
import functools
import inspect
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from . import _core
from ._namespace import TENSORS, ndarray, ours
from ._numpy import named
from ._remade import ROWS
from ._rewrite import rewrite


def _is_broadcast(x: Any) -> bool:
    return any(step == 0 and n > 1 for step, n in zip(x.strides, x.shape))


# What is NumPy's after all: writing into the parts of complex numbers by masks; out=..., of which NumPy's
# protocol does not tell.
_REFUSED = {"nan_to_num": lambda x: x.dtype.kind == "c", "cross": lambda x: x.ndim == 1}

# The modules of NumPy's by which those functions call others.  What is called with a Tensor comes to us anyway, by
# NumPy's protocols; arrays that are made for results must be ours from the beginning.
_MODULES = ("numpy", "numpy._core", "numpy._core.numeric", "numpy._core.multiarray")


def _holds_tensor(x: Any) -> bool:
    return type(x) in TENSORS or type(x) in (list, tuple) and any(map(_holds_tensor, x))


def _converter(name: str) -> Callable[..., Any]:
    """What is no tensor is a parameter, whose values are wanted at once."""
    mine, theirs = ours[name], getattr(numpy, name)

    def convert(x: Any, *args: Any, **kwargs: Any) -> Any:
        return (mine if type(x) in TENSORS or _holds_tensor(x) else theirs)(x, *args, **kwargs)
    return convert


def _of_shape(x: Any) -> Any:
    return numpy.broadcast_to(numpy.empty((), x.dtype), x.shape) if type(x) in TENSORS else x


def _of_shapes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for which an array is its shape and dtype, whatever its values."""
    def of_shapes(*args: Any) -> Any:
        return function(*map(_of_shape, args))
    return of_shapes


def _stand_ins() -> tuple[dict[int, Any], dict[int, types.ModuleType], dict[int, Any]]:
    """{id of a function of NumPy's: what is called instead}, {id of a module: the same}, {id of what need not be called at
    once: the same}."""
    chosen = {id(getattr(numpy, name)): ours[name] for name in named("chosen")}
    instead = {id(getattr(numpy, name)): ours[name] for name in named("maker")}
    instead.update((id(getattr(numpy, name)), _converter(name)) for name in named("converter"))
    instead[id(numpy.lib.stride_tricks.as_strided)] = _as_strided
    instead[id(numpy.broadcast)] = _of_shapes(numpy.broadcast)
    instead[id(inspect.unwrap(numpy.einsum).__globals__["c_einsum"])] = ours["einsum"]
    modules = {}
    for name in filter(sys.modules.__contains__, _MODULES):
        theirs = sys.modules[name]
        module = types.ModuleType(name)
        module.__dict__.update({k: instead[id(v)] for k, v in vars(theirs).items() if id(v) in instead},
                               ndarray=ndarray, __getattr__=functools.partial(getattr, theirs))
        modules[id(theirs)] = module
    return instead, modules, chosen


class _Composed:
    """What is called for one of them: the copy, which is made now if this is the first time, or NotImplemented. It is
    called by C, for warnings that NumPy gives are its caller's: no function of ours may be in between."""

    __slots__ = ("function", "copy", "refused")

    def __init__(self, function: types.FunctionType) -> None:
        self.function, self.refused = function, _REFUSED.get(function.__name__)
        self.copy: types.FunctionType | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.refused and any(type(x) in TENSORS and self.refused(x) for x in args):
            return NotImplemented
        if self.copy is None:
            self.copy = rewrite(self.function, _modules, _functions, _values).copy
            if not self.refused:
                for function in [f for f, chosen in table.items() if chosen is self]:
                    table[function] = self.copy
        return self.copy


def _of_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for which an array is its dtype, whatever its values."""
    def of_dtypes(*args: Any, **kwargs: Any) -> Any:
        return function(*[numpy.empty(0, x.dtype) if type(x) in TENSORS else x for x in args], **kwargs)
    return of_dtypes


def _nan_extreme(function: Callable[..., Any], fold: numpy.ufunc, extreme: Callable[..., Any], last: float) -> Callable[..., Any]:
    """nanmax or nanmin of a real tensor as NumPy finds that of an ndarray, where a fold passes NaNs over. Here they are
    the last of all numbers; whether a slice had no others is looked at if that is what comes out."""
    def nan_extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = numpy._NoValue, initial: Any = numpy._NoValue,
                    where: Any = numpy._NoValue) -> Any:
        # What is broadcast is read in another order where it is no ndarray; complex numbers are no graph's.
        if type(a) not in TENSORS or a.dtype.kind == "c" or _is_broadcast(a):
            return NotImplemented
        given = {"out": out, "keepdims": keepdims, "initial": initial, "where": where}
        given = {k: v for k, v in given.items() if v is not numpy._NoValue and v is not None}
        if a.dtype.kind != "f":
            return extreme(a, axis, **given)
        if a.size == 0 or set(given) - {"keepdims"}:
            result = fold.reduce(a, axis=axis, **given)
            empty = numpy.isnan(result)
        else:
            result, empty = extreme(numpy.where(numpy.isnan(a), last, a), axis, **given), False
            if numpy.any(result == last):
                empty = numpy.all(numpy.isnan(a), axis, **given)
                result = numpy.where(empty, a.dtype.type(numpy.nan), result)
        if numpy.any(empty):
            what = "axis" if isinstance(a, numpy.generic) else "slice"      # as NumPy says it of its numbers
            warnings.warn(f"All-NaN {what} encountered", RuntimeWarning, stacklevel=2)
        return result
    nan_extreme.__qualname__ = function.__name__
    return nan_extreme


def _nan_to_num(written: Callable[..., Any]) -> Callable[..., Any]:
    """nan_to_num as `written`, but that with nothing else given what numbers become is chosen, not stored into a copy; of
    whole numbers that copy is all."""
    array, where, isnan = ours["array"], ours["where"], ours["isnan"]
    greatest = {numpy.dtype(c): numpy.finfo(c).max for c in "efd"}

    def nan_to_num(x: Any, *args: Any, **kwargs: Any) -> Any:
        kind = x.dtype.kind if type(x) in TENSORS and not args and not kwargs else None
        if kind is None or kind not in "biuf":
            chosen = written(x, *args, **kwargs)
            return chosen if chosen is NotImplemented else chosen(x, *args, **kwargs)
        x = array(x)
        if kind == "f":
            most = greatest[x.dtype]
            x = where(isnan(x), 0.0, where(x == numpy.inf, most, where(x == -numpy.inf, -most, x)))
        return x if x.ndim else x[()]
    return nan_to_num


def _as_strided(x: Any, shape: Any = None, strides: Any = None, subok: bool = False, writeable: bool = True) -> Any:
    """Windows into which nobody writes are windows of the tensor."""
    view = NotImplemented
    if type(x) in TENSORS and shape is not None and strides is not None and not writeable:
        view = _core.strided(x, tuple(shape), tuple(strides))
    return numpy.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable) if view is NotImplemented else view


def _sliding_window_view(written: _Composed) -> Callable[..., Any]:
    """Windows into which somebody may write, and which lie over one another, are NumPy's, over the tensor's memory."""
    theirs = numpy.lib.stride_tricks.sliding_window_view

    def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
        if type(x) not in TENSORS:
            return NotImplemented
        if writeable:
            return theirs(numpy.asarray(x), window_shape, axis, writeable=True)
        return written(x)(x, window_shape, axis, subok=subok)
    return sliding_window_view


def _cross(written: Callable[..., Any]) -> Callable[..., Any]:
    """A vector is a stack of one: NumPy writes into the parts of the result, which are numbers else."""
    def cross(a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
        few = not args and not kwargs and type(a) in TENSORS and type(b) in TENSORS and a.shape[-1:] == b.shape[-1:] == (3,)
        vectors = few and a.ndim == b.ndim == 1
        if few:
            a, b = (x[None] if x.ndim == 1 else x for x in (a, b))
        copy = written(a, b, *args, **kwargs)
        result = copy if copy is NotImplemented else copy(a, b, *args, **kwargs)
        return result[0] if vectors and copy is not NotImplemented else result
    return cross


def _multi_dot(written: Callable[..., Any]) -> Callable[..., Any]:
    """The best order of more than three products is looked for element by element of a table."""
    def multi_dot(arrays: Any, **kwargs: Any) -> Any:
        copy = written(arrays, **kwargs) if isinstance(arrays, (list, tuple)) and len(arrays) <= 3 else NotImplemented
        return copy if copy is NotImplemented else copy(arrays, **kwargs)
    return multi_dot


def _in_lanes(x: Any, y: Any) -> Any:
    """The sum of products of neighbours as einsum adds them up in vectors of 16 bytes."""
    lanes, n = 16 // x.itemsize, len(x)
    acc = numpy.zeros(lanes, x.dtype)
    products = numpy.zeros(-(-n // lanes) * lanes, x.dtype)
    products[:n] = x * y
    whole = n // (4 * lanes) * 4
    for at in [4 * (i // 4) + 3 - i % 4 for i in range(whole)] + list(range(whole, len(products) // lanes)):
        acc = acc + products[at * lanes:(at + 1) * lanes]
    while len(acc) > 1:
        acc = acc[::2] + acc[1::2]
    return acc[0] + 0


def einsum_rounding() -> int:
    """What is known of NumPy's einsum here: 1: it rounds a product before it adds it, as ufuncs do, which it does not where
    it was built for machines that do both at once; 2: and it adds up neighbours in lanes as _in_lanes says."""
    known = 3
    for dtype in "fd":
        x = numpy.array([[1, 1 / 3]], dtype)
        y = numpy.repeat(numpy.array([[-x[0, 1] * x[0, 1]], [x[0, 1]]], dtype), 39, 1)
        if any(numpy.einsum("ij,jk->ik", x, z).any() for z in (y, y[:, ::2], numpy.asfortranarray(y))):
            return 0
        for n in (3, 23, 70):
            some = numpy.modf(numpy.arange(1.0, 6 * n + 1) * 0.6180339887)[0].astype(dtype).reshape(2, 1, 3, n) - 0.5
            a, b = some[:, :, :1], some[:, :, 1:]
            got = numpy.einsum("bhqd,bhkd->bhqk", a, b)
            if any(got[i] != _in_lanes(a[i[:3]], b[i[:2] + i[3:]]) for i in numpy.ndindex(got.shape)):
                known &= 1
    return known


def _einsum(written: Callable[..., Any]) -> Callable[..., Any]:
    """With an order of products to be found, NumPy calls itself for each of them, and matmul."""
    def einsum(*operands: Any, out: Any = None, optimize: Any = False, **kwargs: Any) -> Any:
        if optimize is False:
            return NotImplemented
        copy = written(*operands)
        return copy if copy is NotImplemented else copy(*operands, out=out, optimize=optimize, **kwargs)
    return einsum


def _einsum_path() -> Callable[..., Any]:
    """The order of products depends on shapes alone; einsum asks for its operands as well."""
    find: Any = numpy.einsum_path

    @functools.lru_cache(256)
    def contractions(subscripts: str, optimize: Any, *shapes: tuple[int, ...]) -> Any:
        return find(subscripts, *[numpy.broadcast_to(0.0, shape) for shape in shapes], optimize=optimize, einsum_call=True)[1]

    def einsum_path(*operands: Any, **kwargs: Any) -> Any:
        subscripts, *arrays = operands
        asked = kwargs.keys() == {"optimize", "einsum_call"} and isinstance(kwargs["optimize"], (bool, str))
        if isinstance(subscripts, str) and asked:
            arrays = [x if type(x) in TENSORS else numpy.asanyarray(x) for x in arrays]
            return arrays, contractions(subscripts, kwargs["optimize"], *[x.shape for x in arrays])
        given = [_of_shape(x) for x in operands]
        first, second = find(*given, **kwargs)
        if kwargs.get("einsum_call"):
            first = [next((x for shape, x in zip(given, operands) if shape is y), y) for y in first]
        return first, second
    return einsum_path


def _table() -> dict[Any, Any]:
    """{function of NumPy's: the function that is called instead where it meets a Tensor, or what chooses it}."""
    found: dict[Any, Any] = {}
    for name in named("composed"):
        function: Any = numpy
        for part in name.split("."):
            function = getattr(function, part, None)
        written = inspect.unwrap(function)      # behind what looks for other libraries' arrays among its arguments
        if isinstance(written, types.FunctionType):
            found[function] = _Composed(written)
    found[numpy.nanmax] = _nan_extreme(numpy.nanmax, numpy.fmax, numpy.max, -numpy.inf)
    found[numpy.nanmin] = _nan_extreme(numpy.nanmin, numpy.fmin, numpy.min, numpy.inf)
    found[numpy.nan_to_num] = _nan_to_num(found[numpy.nan_to_num])
    view = numpy.lib.stride_tricks.sliding_window_view
    found[view] = _sliding_window_view(_Composed(inspect.unwrap(view)))
    found.update(ROWS)
    found[numpy.cross] = _cross(found[numpy.cross])
    found[numpy.linalg.multi_dot] = _multi_dot(found[numpy.linalg.multi_dot])
    found[numpy.einsum] = _einsum(_Composed(inspect.unwrap(numpy.einsum)))
    found[numpy.einsum_path] = _einsum_path()
    for name in named("by_dtype"):
        found[getattr(numpy, name)] = _of_dtypes(getattr(numpy, name))
    return found


_functions, _modules, _values = _stand_ins()
table = _table()
