"""@frit.accelerate: an unchanged NumPy function that runs on tensors inside and shows arrays outside.

A call goes one of three ways.

  closed      what the function does follows from what it is given and reads (_closed.py): a copy of it runs, whose calls of
              NumPy are calls of frit (_rewrite.py), on tensors over the arguments' memory; later calls that find all as it
              was need not run it (csrc/bind/accelerate/accelerate_call.c)
  open        any other function: its own code runs, and that of the user's functions and classes that it leads to, which
              lets arrays come in as tensors and leave as arrays wherever values cross (_membrane.py)
  as NumPy    generators and coroutines, whose caller looks at arrays in between: as they are; `stats.as_numpy` counts them

At the end results, and everything that stays behind (the arguments' memory, and what the function has left anywhere), are
computed together and become arrays, also when the function raises (csrc/bind/accelerate/become.c). An argument that comes
back is the very array that went in. Callables of others are called with arrays and numbers (_outside.py)."""
from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from . import _core, _membrane, _namespace
from ._closed import closed
from ._exact import exact, over_elements
from ._inside import inside
from ._left import TENSORS, exchange
from ._outside import adopt_module, outside
from ._rewrite import Rewritten, rewrite

_MAX_REWRITES = 50      # of a closed function whose globals keep changing; then it is an open one

CallStats = _core.CallStats
_Accelerated = _core.Accelerated
_core.name_modules(numpy, _namespace.namespace)

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_AS_NAMED = "._state.as_named"
_OURS = "stats", "__wrapped__"      # of a wrapper's dictionary


class _Call(NamedTuple):
    """What a call of a closed function asks for (csrc/bind/accelerate/callee.h names the fields in the same order)."""

    copy: types.FunctionType                    # the function to run
    globals: dict[str, Any]                     # its dictionary
    names: tuple[str, ...]                      # the globals that it reads,
    cells: tuple[types.CellType, ...]           # and the cells that it sees
    watched: tuple[tuple[dict[str, Any], str, Any], ...]    # (dictionary, name, value): the copy is right while these hold,
    replaced: tuple[tuple[types.CellType, Any], ...]        # and these: (cell, value)
    functions: tuple[tuple[Any, ...], ...]      # (function, code, defaults, those by name) that were looked at
    exact: Callable[..., Any] | None            # the function itself if all that it does with real numbers has one right result
    # (attributes that it reads, whether it may store into what it is not given), for calls that are made again without
    # running it (csrc/bind/accelerate/replay.c)
    closed: tuple[tuple[str, ...], bool]
    # (its copy for calls that are noted, the globals and the cells that this one sees)
    inside: tuple[types.FunctionType, dict[str, Any], tuple[types.CellType, ...]] | None
    takes_module: tuple[str | None, ...]        # the parameters by number: a name if NumPy's stand-in may come for NumPy
    elements: bool                              # its innermost loops read and write single elements
    stats: CallStats


def _replace(pairs: list[tuple[Any, Any]], *values: Any) -> None:
    """Puts the arrays of (array, tensor), and NumPy's bools, where `values` lead to tensors for them."""
    array_of = {id(t): a for a, t in pairs}

    def shown(t: Any) -> Any:
        array = array_of.get(id(t))
        return array if array is not None else _core.shown(t)
    exchange(values, shown, TENSORS | {type(t) for _, t in pairs})


_core.set_replace(_replace)


class _Function:
    """One accelerated function. How its calls go is found when it is decorated, or at the first call if names that it
    looks up are not there yet, and again when a global of a closed function changed."""

    def __init__(self, f: Callable[..., Any], device: str | None = None, results: str = "arrays") -> None:
        self.f: Any = f
        self.stats = CallStats()
        self.wrapper = _Accelerated(self, f, self.stats)
        self.options = {"device": device, "results": results}
        self.wrapper._set_device(device)
        self.wrapper._set_keeps(results == "tensors")
        self.n_rewrites = 0
        self.rewritten: Rewritten | None = None
        self.named: types.FunctionType | None = None    # as_named
        adopt_module(f)

    def prepare(self) -> None:
        """Finds it now, so that the first call need not, unless later there is more to be seen."""
        if type(self.f) is types.FunctionType and not _suspends(self.f):
            r = self.rewrite()
            if r.is_settled():
                self.adopt(r)

    def find(self) -> None:
        """Tells the wrapper how calls go."""
        if _suspends(self.f):
            self.wrapper._set_call("a generator or coroutine, whose caller sees arrays in between")
        elif not _membrane.works:
            self.wrapper._set_call("a Python whose code frit does not know")
        elif type(self.f) is not types.FunctionType or self.n_rewrites >= _MAX_REWRITES:
            self.wrapper._set_call(None)
        else:
            self.n_rewrites += 1
            self.adopt(self.rewrite())

    def rewrite(self) -> Rewritten:
        return rewrite(self.f, _namespace.modules, _namespace.functions, unwrap=_unwrap, outside=outside)

    def adopt(self, r: Rewritten) -> None:
        self.rewritten = r
        known = closed(r)
        if known is None:
            self.wrapper._set_call(None)
            return
        # What is watched is known to be no array.
        names = r.globals_read - {name for where, name, _ in r.watched if where is r.copy.__globals__}
        cells = [cell for cell in r.all_cells if not any(cell is replaced for replaced, _ in r.cells)]
        self.wrapper._set_call(_Call(
            copy=r.copy, globals=r.copy.__globals__, names=tuple(names), cells=tuple(cells),
            watched=(*r.watched, *r.named_defaults), replaced=tuple(r.cells), functions=tuple(r.functions.values()),
            exact=self.f if exact(r) else None, closed=known,
            inside=inside(r, names, cells) if r.holds_arrays(names, cells) else None, takes_module=r.takes_module,
            elements=over_elements(self.f.__code__), stats=self.stats))

    def is_closed(self) -> bool:
        """Whether what calls do follows from what they are given and read, so that they may be made again without running it."""
        return self.rewritten is not None and closed(self.rewritten) is not None

    @staticmethod
    def written(code: types.CodeType) -> types.CodeType:
        """The code that the user wrote, of what the function runs by."""
        return _membrane.written(code)

    # ---- pickles

    @property
    def as_named(self) -> types.FunctionType:
        """The function as one that can be found by its name, which leads to the wrapper: `m.f` by `m.f._state.as_named`."""
        f, w = self.f, self.wrapper
        if self.named is None:
            self.named = types.FunctionType(self.written(f.__code__), f.__globals__, closure=f.__closure__)
        for name in (*functools.WRAPPER_ASSIGNMENTS, "__code__", "__defaults__", "__kwdefaults__"):
            setattr(self.named, name, getattr(w, name))
        self.named.__qualname__ += _AS_NAMED
        self.named.__dict__ = {name: value for name, value in w.__dict__.items() if name not in _OURS}
        return self.named

    def reduce(self, wrapper: Any, protocol: int) -> str | tuple[Any, ...]:
        """An accelerated function is pickled as a function is, and accelerated where it arrives. Some picklers take
        functions apart (cloudpickle: those of __main__, closures), others want them to be found by their name: which of
        the two is for the pickler to say, so it gets a function to be looked up or taken apart."""
        if _named(wrapper.__module__, getattr(wrapper, "__qualname__", "")) is not wrapper:
            theirs = getattr(self.f, "__dict__", {})
            own = {name: value for name, value in wrapper.__dict__.items()
                   if name not in _OURS and (name not in theirs or theirs[name] is not value)}
            names = {name: getattr(wrapper, name, None) for name in ("__name__", "__qualname__", "__doc__", "__module__")
                     if getattr(wrapper, name, None) != getattr(self.f, name, None)}
            return _accelerate_with, (self.f, self.options), (own, names) if own or names else None
        if protocol < 4 or type(self.f) is not types.FunctionType:      # (names with dots came with 4)
            return str(wrapper.__qualname__)
        return _accelerate_named, (self.as_named, self.options)


def _named(module: str, name: str) -> Any:
    """What a name of a module leads to, or None."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _accelerate_with(function: Any, options: dict[str, Any]) -> Any:
    return accelerate(function, **options)


def _accelerate_named(function: types.FunctionType, options: dict[str, Any]) -> Any:
    """The accelerated function of which `function` was pickled: the one of that name, if it was found by it."""
    name = function.__qualname__.removesuffix(_AS_NAMED)
    found = _named(function.__module__, name)
    if type(found) is _Accelerated and found._state.named is function:
        return found
    function.__qualname__ = name
    return accelerate(function, **options)


def explained(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Makes a call of `f` that is traced, whatever way its calls go otherwise."""
    device = f._state.options["device"] if type(f) is _Accelerated else None
    if device is not None:
        _core.device_enter(_core.device_open(device))
    try:
        result = _core.crossed(_unwrap(f), args, kwargs, True, CallStats())
        with contextlib.suppress(RecursionError):       # of a list in itself
            _core.eval(result)      # in an accelerated call its end would be that one's
    finally:
        if device is not None:
            _core.device_leave()


def _unwrap(value: Any) -> Any:
    """The function that was decorated, if `value` is what accelerate() made of it."""
    return value._state.f if type(value) is _Accelerated else value


def _suspends(f: Any) -> bool:
    """Whether what a call gives runs later, so that its caller sees arrays in between."""
    if type(f) is types.FunctionType:
        return f.__code__.co_flags & _SUSPENDS != 0
    return inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)


def accelerate(function: Any = None, *, device: str | None = None, results: str = "arrays") -> Any:
    """Runs an unchanged NumPy function on frit and returns NumPy arrays.

        >>> @frit.accelerate
        ... def scaled(x):
        ...     return x / np.sqrt((x * x).sum(axis=1, keepdims=True))
        >>> scaled(np.array([[3.0, 4.0]]))
        array([[0.6, 0.8]])

    Use it as a decorator, with or without parentheses.  Shapes, dtypes and strides of results are NumPy's, and so are their
    bits, but for functions such as exp (at most 1 ULP from the truth) and products of matrices (BLAS's).  The result behaves
    as the function did: arrays that it writes into are written, results are ndarrays and NumPy scalars, exceptions come from
    the same lines.  The functions and classes of
    the user's that it leads to, in whatever modules and packages that were not installed, run in the same way while it runs;
    those of other packages get arrays.

    `function.stats` tells what the last call did: kernels run, calls handed to NumPy (fallbacks), and values that Python
    needed on the way (syncs); `stats.as_numpy` why calls ran as they are, if any did.  A function of nothing but exact
    operations may also run as it is, where that is the faster way to the same bits; `stats.unchanged` counts such calls.  So
    may a loop over single elements or small arrays, which then leaves Python where it can, with frit's functions where they are
    sooner or round: what its calls count
    tells which way is the faster, and where that leaves it open a few calls of each kind are timed.  NumPy may be an argument
    or a default, as in `f(xp, x)` and `f(x, xp=np)`, and be handed on to other functions; arguments may be bound by
    functools.partial.

    `device`: where calls compute, "cpu", the like of "cuda:0" or "auto" (frit.device); None: where frit.device and
    FRIT_DEVICE say at the time of the call. Arguments go there once in a call, when they are first computed with, and
    come back at its end where they were written into; tensors that are there already stay. RuntimeError: there is no such
    device, and why.

    `results`: "arrays", or "tensors": what a call gives and what it leaves in objects, lists and dicts are Tensors, computed,
    where they were computed.  A loop whose state is a GPU's stays there: tensors are arguments as arrays are.  Arrays that are
    arguments stay arrays.

    TypeError: it is no function (of a class, decorate methods); ValueError: `results` is neither.  A call raises what the
    function raises, from its lines.
    """
    if results not in ("arrays", "tensors"):
        raise ValueError(f"accelerate(): results is 'arrays' or 'tensors', not {results!r}")
    again = functools.partial(accelerate, device=device, results=results)
    if function is None:
        return again
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(again(function.__func__))
    if isinstance(function, types.MethodType):
        return types.MethodType(again(function.__func__), function.__self__)
    if type(function) is functools.partial:
        inner = again(function.func)
        bound = functools.partial(inner, *function.args, **function.keywords)
        bound.__dict__.update(function.__dict__, stats=inner.stats)
        return bound
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"accelerate() takes a function, not {function!r}")
    function = _unwrap(function)
    state = _Function(function, device, results)
    wrapper = state.wrapper
    wrapper.__dict__.update(getattr(function, "__dict__", {}), stats=state.stats, __wrapped__=function)
    state.prepare()
    return wrapper
