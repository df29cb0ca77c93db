"""@frit.accelerate: an unchanged NumPy function that runs on tensors inside and shows arrays outside.

On each call

  1. array arguments, also inside lists, tuples and dictionaries, become tensors over the same
     memory.  Lists and dictionaries are changed in place and changed back at the end, so that
     whatever else holds them sees what it would have seen;
  2. a copy of the function runs (_rewrite.py) whose calls of NumPy are calls of frit;
  3. results, and everything that stays behind (the arguments' memory, and what the function has left anywhere), are
     computed together and become arrays again, also when the function raises (csrc/bind/accelerate/become.c).

Callables of others are called with arrays and numbers (_outside.py).

An argument that comes back is the very array that went in.  What cannot be done this way runs as it
is, on NumPy: generators and coroutines (their caller looks at arrays in between), and calls in which
the function also reaches an argument's memory through a global, a closure or an attribute.
"""
from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy

from . import _core, _namespace
from ._closed import closed
from ._exact import exact
from ._inside import inside
from ._left import attributes, exchange
from ._outside import has_parts, outside
from ._rewrite import Rewritten, rewrite

_TENSORS = _namespace.TENSORS
_MAX_REWRITES = 50      # of a function whose globals keep changing; then it runs as it is
_MAX_OBJECTS = 1000     # objects with attributes that one call looks into
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), range, slice, types.FunctionType,
                    types.BuiltinFunctionType, _core.Ufunc, types.ModuleType, type})


CallStats = _core.CallStats
_Accelerated = _core.Accelerated
_core.name_modules(numpy, _namespace.namespace)


_Array = numpy.ndarray[Any, Any]
_Pair = tuple[_Array, _core.Tensor]     # an argument, and what stands for it
_Place = tuple[Any, str | None, Any]    # (a dictionary, name, value), (a cell, None, value), (None, None, a container)
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_AS_NAMED = "._state.as_named"
_OURS = "stats", "__wrapped__"      # of a wrapper's dictionary


class _Call(NamedTuple):
    """What the short way of a call asks for (csrc/bind/accelerate/callee.h names the fields in the same order)."""

    copy: types.FunctionType                    # the function to run
    globals: dict[str, Any]                     # its dictionary
    names: tuple[str, ...]                      # the globals that it reads,
    cells: tuple[types.CellType, ...]           # and the cells that it sees
    watched: tuple[tuple[dict[str, Any], str, Any], ...]    # (dictionary, name, value): the copy is right while these hold,
    replaced: tuple[tuple[types.CellType, Any], ...]        # and these: (cell, value)
    functions: tuple[tuple[Any, ...], ...]      # (function, code, defaults, those by name) that were looked at
    finish: Callable[..., Any]                  # of (pairs, result): for results that are more than tensors and numbers
    exact: Callable[..., Any] | None            # the function itself if all that it does with real numbers has one right result
    # (attributes that it reads, whether it may store into what it is not given) of a function whose calls may be made again
    # without running it (csrc/bind/accelerate/replay.c)
    closed: tuple[tuple[str, ...], bool] | None
    # (its copy for calls that are noted, the globals and the cells that this one sees)
    inside: tuple[types.FunctionType, dict[str, Any], tuple[types.CellType, ...]] | None
    takes_module: tuple[str | None, ...]        # the parameters by number: a name if NumPy's stand-in may come for NumPy
    replace: Callable[..., None]                # replace_left(pairs, values)
    stats: CallStats


class _Arrays:
    """The arrays of one call: the tensors that stand for them, and the way back."""

    __slots__ = ("tensor_of", "array_of", "containers", "objects", "functions", "keep", "left", "numbers")

    def __init__(self) -> None:
        self.tensor_of: dict[int, Any] = {}     # id of an array -> tensor
        self.array_of: dict[int, _Array] = {}   # id of a tensor -> array
        self.containers: dict[int, Any] = {}    # id -> list or dict that the caller holds
        self.objects: dict[int, Any] = {}       # id -> object whose attributes the function may assign
        self.functions: list[types.FunctionType] = []   # that the function may call
        self.keep: list[_Pair] = []     # keeps the ids above valid
        self.left: list[_Array] = []    # arrays that stay NumPy's
        self.numbers = False    # objects of others may be asked for their parts by numbers, or get them

    # ---- in

    def find(self, x: Any, arrays: list[_Array]) -> None:
        """Notes the containers, objects and arrays that `x` leads to; changes nothing."""
        kind = type(x)
        if kind is types.FunctionType:
            self.functions.append(x)
        if kind in _PLAIN:
            return
        if issubclass(kind, numpy.ndarray):
            arrays.append(x)
        elif kind is types.MethodType:
            self.find(x.__func__, arrays)
            if id(x.__self__) not in self.objects and attributes(x.__self__) is not None:
                self.objects[id(x.__self__)] = x.__self__
        elif isinstance(x, tuple):
            for v in x:
                self.find(v, arrays)
        elif isinstance(x, (list, dict)):
            if id(x) not in self.containers:
                self.containers[id(x)] = x
                for v in x.values() if isinstance(x, dict) else x:
                    self.find(v, arrays)
        elif id(x) not in self.objects and len(self.objects) < _MAX_OBJECTS:
            self.numbers = self.numbers or has_parts(x)
            if attributes(x) is not None:
                self.objects[id(x)] = x

    @staticmethod
    def are_apart(arrays: list[_Array]) -> bool:
        """False if two of the arrays see one memory as different types: no storage does that."""
        roots: dict[int, Any] = {}
        for a in arrays:
            root: Any = a
            while issubclass(type(root.base), numpy.ndarray):
                root = root.base
            # What is not an array's own may be the memory of several: a buffer, a file.
            key = id(root) if root.base is None else None
            kind = a.dtype, type(a)
            if key is not None:
                if roots.setdefault(key, kind) != kind:
                    return False
            elif any(b is not a and (b.dtype, type(b)) != kind and numpy.may_share_memory(a, b)
                     for b in arrays):
                return False
        return True

    def attribute_arrays(self) -> list[_Array]:
        """The arrays that the functions reach through attributes; follows objects in attributes."""
        found, todo, seen = [], list(self.objects.values()), set(self.objects)
        while todo and len(seen) < _MAX_OBJECTS:
            x = todo.pop()
            if type(x) is numpy.ndarray:
                found.append(x)
                continue
            inner: Iterable[Any]
            if isinstance(x, (list, tuple)):
                inner = x
            elif isinstance(x, dict):
                inner = x.values()
            else:
                names = attributes(x)
                if names is None:
                    continue
                self.objects[id(x)] = x
                inner = names.values()
            for v in list(inner):
                if type(v) not in _PLAIN and id(v) not in seen:
                    seen.add(id(v))
                    todo.append(v)
        return found

    def function_arrays(self) -> Iterator[_Array]:
        """The arrays that functions among the arguments see without being given them."""
        for f in self.functions:
            names = f.__globals__
            seen: list[Any] = [names.get(n) for n in f.__code__.co_names]
            for cell in f.__closure__ or ():
                try:
                    seen.append(cell.cell_contents)
                except ValueError:      # not assigned yet
                    pass
            yield from (v for v in seen if issubclass(type(v), numpy.ndarray))

    def borrow(self, arrays: list[_Array]) -> bool:
        """Makes the tensors; False if the arrays must not become any."""
        for a in arrays:
            if type(a) is numpy.ndarray:
                self.enter_array(a)
        return not any(a is not b and numpy.may_share_memory(a, b) for a in self.left for b in arrays)

    def enter(self, x: Any) -> Any:
        """`x` with tensors for arrays; call it after find()."""
        kind = type(x)
        if kind in _PLAIN:
            return x
        if kind is numpy.ndarray:
            return self.enter_array(x)
        if isinstance(x, tuple):
            return self.map_tuple(x, self.enter)
        return x

    def enter_arguments(self, rewritten: Rewritten | None, args: tuple[Any, ...], kwargs: dict[str, Any]
                        ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments of a call with tensors for arrays, and the stand-in for NumPy where it may be taken."""
        takes = rewritten.takes_module if rewritten is not None else ()

        def enter(name: str | None, x: Any) -> Any:
            return _namespace.namespace if x is numpy and name is not None and name in takes else self.enter(x)
        return ([enter(name, x) for name, x in itertools.zip_longest(takes[:len(args)], args)],
                {name: enter(name, x) for name, x in kwargs.items()})

    def enter_containers(self) -> None:
        for c in self.containers.values():
            for k, v in list(c.items() if isinstance(c, dict) else enumerate(c)):
                new = self.enter(v)
                if new is not v:
                    c[k] = new

    def enter_array(self, a: Any) -> Any:
        t = self.tensor_of.get(id(a))
        if t is None:
            try:
                t = _core.borrow(a)
            except TypeError:   # a dtype or layout that stays NumPy's
                self.left.append(a)
                self.tensor_of[id(a)] = a
                return a
            self.tensor_of[id(a)] = t
            self.array_of[id(t)] = a
            self.keep.append((a, t))
        return t

    @staticmethod
    def map_tuple(x: Any, change: Callable[[Any], Any]) -> Any:
        if type(x) is not tuple and not hasattr(x, "_fields"):
            return x
        new = [change(v) for v in x]
        if all(a is b for a, b in zip(new, x)):
            return x
        return x._make(new) if hasattr(x, "_fields") else tuple(new)

    # ---- out

    def pending(self, x: Any, found: list[Any], seen: set[int]) -> None:
        """Appends every tensor that `x` leads to through lists, tuples and dictionaries."""
        kind = type(x)
        if kind in _TENSORS:
            found.append(x)
        elif kind not in _PLAIN and isinstance(x, (list, tuple, dict)) and id(x) not in seen:
            seen.add(id(x))
            for v in x.values() if isinstance(x, dict) else x:
                self.pending(v, found, seen)

    def leave(self, x: Any, seen: set[int]) -> Any:
        """`x` with arrays for tensors; lists and dictionaries are changed in place."""
        kind = type(x)
        if kind in _PLAIN:
            return x
        if kind in _TENSORS:
            array = self.array_of.get(id(x))
            return array if array is not None else _core.shown(x)
        if isinstance(x, tuple):
            new = [self.leave(v, seen) for v in x]
            if any(a is not b for a, b in zip(new, x)):
                _core.set_items(x, new)     # whoever else has the tuple was to see arrays in it, too
            return x
        if isinstance(x, (set, frozenset)):
            return self.leave_set(x)
        if isinstance(x, (list, dict)) and id(x) not in seen:
            seen.add(id(x))
            if isinstance(x, dict) and any(type(k) in _TENSORS for k in x):
                items = [(_core.shown(k) if type(k) in _TENSORS else k, v) for k, v in x.items()]
                x.clear()
                x.update(items)
            for k, v in list(x.items() if isinstance(x, dict) else enumerate(x)):
                new = self.leave(v, seen)
                if new is not v:
                    x[k] = new
        return x

    @staticmethod
    def leave_set(x: Any) -> Any:
        if not any(type(v) in _TENSORS for v in x):
            return x
        new = [_core.shown(v) if type(v) in _TENSORS else v for v in x]
        if isinstance(x, frozenset):
            return x if all(a is b for a, b in zip(new, x)) else frozenset(new)
        x.clear()
        x.update(new)
        return x

    def left_behind(self, rewritten: Rewritten | None) -> Iterator[_Place]:
        """(where, name, value) of all that somebody may look at after the call."""
        for c in self.containers.values():
            yield None, None, c
        for o in self.objects.values():
            names = attributes(o)
            for name, value in list((names or {}).items()):
                yield names, name, value
        if rewritten is not None:
            names = rewritten.copy.__globals__
            for name in rewritten.stored_globals:
                if name in names:
                    yield names, name, names[name]
            for cell in rewritten.stored_cells:
                try:
                    yield cell, None, cell.cell_contents
                except ValueError:      # deleted
                    pass

    def finish(self, rewritten: Rewritten | None, result: Any = None) -> Any:
        """Computes what is pending, puts arrays back, and returns `result` as arrays."""
        behind = list(self.left_behind(rewritten))
        found: list[Any] = [t for _, t in self.keep]
        seen: set[int] = set()
        if _core.call_depth() > 1:      # else all that this call has left is computed
            self.pending(result, found, seen)
            for _, _, value in behind:
                self.pending(value, found, seen)
        done = False
        try:
            _core.eval_left(found)
            done = True
        finally:
            try:
                # Whatever we do not see and still wants to read the arguments' memory is computed, for
                # the caller may write into it next.
                _core.give_back(self.keep, done)
            finally:
                self.put_back(behind, seen := set())
        return self.leave(result, seen)

    def end(self, function: _Function, values: tuple[Any, ...]) -> None:
        """Lets go of the tensors. For those that somebody has kept, in what `function` sees or `values` lead to, the very
        arguments are put there; others become arrays."""
        self.tensor_of.clear()
        if _core.are_kept(self.keep):
            function.replace_left(self.keep, values)
        _core.end_loans(self.keep)

    def put_back(self, behind: list[_Place], seen: set[int]) -> None:
        failed = None
        for where, name, value in behind:
            try:
                new = self.leave(value, seen)
            except MemoryError as e:    # this one stays a tensor
                failed = failed or e
                continue
            if new is value or where is None:
                continue
            if type(where) is types.CellType:
                where.cell_contents = new
            else:
                where[name] = new
        if failed:
            raise failed


def _finish(pairs: list[_Pair], result: Any) -> Any:
    """The end of a call that began the short way."""
    arrays = _Arrays()
    for array, tensor in pairs:
        arrays.tensor_of[id(array)] = tensor
        arrays.array_of[id(tensor)] = array
        arrays.keep.append((array, tensor))
    return arrays.finish(None, result)


class _Function:
    """One accelerated function: its copy, made when it is decorated, or at the first call if names it looks up are
    not there yet, and again when a global changed."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f: Any = f
        self.run = outside(f, f) or f
        self.stats = CallStats()
        self.rewritten: Rewritten | None = None
        self.wrapper: _Accelerated | None = None    # the _core.Accelerated that is called
        self.n_rewrites = 0
        self.named: types.FunctionType | None = None    # as_named

    def prepare(self) -> None:
        """Makes the copy, so that the first call need not, unless a later one may be better."""
        if type(self.f) is types.FunctionType and not _suspends(self.f):
            r = self.rewrite()
            if r.is_settled():
                self.adopt(r)

    def current(self) -> Rewritten | None:
        """The copy that fits the globals of the moment, or None to run the function as it is."""
        r = self.rewritten
        if r is not None and r.is_current():
            return r
        if type(self.f) is not types.FunctionType or self.n_rewrites >= _MAX_REWRITES:
            return None
        self.n_rewrites += 1
        self.adopt(self.rewrite())
        return self.rewritten

    def rewrite(self) -> Rewritten:
        return rewrite(self.f, _namespace.modules, _namespace.functions, unwrap=_unwrap, outside=outside)

    def adopt(self, r: Rewritten) -> None:
        self.rewritten = r
        if self.wrapper is None:
            return
        # What is watched is known to be no array.
        names = r.globals_read - {name for where, name, _ in r.watched if where is r.copy.__globals__}
        cells = [cell for cell in r.all_cells if not any(cell is replaced for replaced, _ in r.cells)]
        known = closed(r)
        sees_arrays = known and r.holds_arrays(names, cells)
        more = r.stored_globals or r.stored_cells or any(map(has_parts, r.outer_values()))
        self.wrapper._set_call(None if more else _Call(
            copy=r.copy, globals=r.copy.__globals__, names=tuple(names), cells=tuple(cells),
            watched=(*r.watched, *r.named_defaults), replaced=tuple(r.cells), functions=tuple(r.functions.values()),
            finish=_finish, exact=self.f if exact(r) else None, closed=known,
            inside=inside(r, names, cells) if sees_arrays else None, takes_module=r.takes_module, replace=self.replace_left,
            stats=self.stats))

    def replace_left(self, pairs: list[_Pair], values: Any) -> None:
        """Puts arrays and bools where the function has left tensors for them."""
        array_of = {id(t): a for a, t in pairs}

        def shown(t: Any) -> Any:
            array = array_of.get(id(t))
            return array if array is not None else _core.shown(t)
        exchange((*self.rewritten.outer_values(), values) if self.rewritten is not None else (values,), shown)

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _suspends(self.f):
            return self.f(*args, **kwargs)
        r = self.current()
        run = r.copy if r is not None else self.run
        arrays = _Arrays()
        if _core.call_depth():
            inside: list[Any] = []
            arrays.pending((args, kwargs), inside, set())
            if inside:      # called from an accelerated function: tensors go in and come out
                return run(*args, **kwargs)
        shared: list[_Array] = []
        arrays.find((args, kwargs), shared)
        arrays.containers.pop(id(kwargs))       # ours, not the caller's
        others = arrays.attribute_arrays() if arrays.objects else []
        if arrays.functions:
            others += arrays.function_arrays()
        outer = tuple(r.outer_values()) if r is not None else ()
        arrays.numbers = arrays.numbers or any(map(has_parts, outer))
        if (any(numpy.may_share_memory(a, b) for a in others for b in shared) or _core.reaches(outer, shared)
                or len(shared) > 1 and not arrays.are_apart(shared)):
            return self.f(*args, **kwargs)
        try:
            apart = arrays.borrow(shared)
        except Exception:
            apart = False
        if not apart:
            _core.give_back(arrays.keep, False)
            return self.f(*args, **kwargs)
        before, body = _core.counters(), None
        values: tuple[Any, ...] = args, kwargs
        _core.enter_call()
        try:
            args_in, kwargs_in = arrays.enter_arguments(r, args, kwargs)
            arrays.enter_containers()
            if arrays.numbers:
                _core.numbers_at_once()
            result = run(*args_in, **kwargs_in)
            body = _core.counters()
            result = arrays.finish(r, result)
            values += result,
            return result
        finally:
            args_in, kwargs_in = [], {}
            try:
                if body is None:
                    arrays.finish(r)
            finally:
                arrays.end(self, values)
                _core.leave_call()
            s, after = self.stats, _core.counters()
            s.kernels, s.fallbacks, s.syncs = (max(b - a, 0) for a, b in zip(before, after))
            if body is not None:    # the computation at the end is no sync
                s.syncs = max(body[2] - before[2], 0)
            s.calls += 1

    # ---- pickles

    @property
    def as_named(self) -> types.FunctionType:
        """The function as one that can be found by its name, which leads to the wrapper: `m.f` by `m.f._state.as_named`."""
        f, w = self.f, self.wrapper
        if self.named is None:
            self.named = types.FunctionType(f.__code__, f.__globals__, closure=f.__closure__)
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
            return accelerate, (self.f,), (own, names) if own or names else None
        if protocol < 4 or type(self.f) is not types.FunctionType:      # (names with dots came with 4)
            return str(wrapper.__qualname__)
        return _accelerate_named, (self.as_named,)


def _named(module: str, name: str) -> Any:
    """What a name of a module leads to, or None."""
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _accelerate_named(function: types.FunctionType) -> Any:
    """The accelerated function of which `function` was pickled: the one of that name, if it was found by it."""
    name = function.__qualname__.removesuffix(_AS_NAMED)
    found = _named(function.__module__, name)
    if type(found) is _Accelerated and found._state.named is function:
        return found
    function.__qualname__ = name
    return accelerate(function)


def explained(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any], describe: Callable[[list[Any]], Any]) -> Any:
    """describe(tensors), where the tensors are the pending results of calling `f` with tensors for
    arrays, and what it left pending in its arguments."""
    state: _Function = f._state if type(f) is _Accelerated else _Function(f)
    r = state.current()
    arrays = _Arrays()
    found: list[Any] = []
    seen: set[int] = set()
    arrays.find((args, kwargs), [])
    arrays.containers.pop(id(kwargs))
    try:
        args_in, kwargs_in = arrays.enter_arguments(r, args, kwargs)
        arrays.enter_containers()
        result = (r.copy if r is not None else state.f)(*args_in, **kwargs_in)
        arrays.pending(result, found, seen)
        found += [t for _, t in arrays.keep]
        for _, _, value in arrays.left_behind(r):
            arrays.pending(value, found, seen)
        return describe(found)
    finally:
        arrays.finish(r)
        args_in, kwargs_in, result = [], {}, None
        arrays.end(state, ())


def _unwrap(value: Any) -> Any:
    """The function that was decorated, if `value` is what accelerate() made of it."""
    return value._state.f if type(value) is _Accelerated else value


def _suspends(f: Any) -> bool:
    """Whether what a call gives runs later, so that its caller sees arrays in between."""
    if type(f) is types.FunctionType:
        return f.__code__.co_flags & _SUSPENDS != 0
    return inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f) or inspect.isasyncgenfunction(f)


def accelerate(function: Any = None) -> Any:
    """Runs an unchanged NumPy function on frit and returns NumPy arrays.

    Use it as a decorator, with or without parentheses.  The result behaves as the function did:
    arrays that it writes into are written, results are ndarrays and NumPy scalars, exceptions come from
    the same lines.  `function.stats` tells what the last call did: kernels run, calls handed to NumPy
    (fallbacks), and values that Python needed on the way (syncs).  A function of nothing but exact operations may also
    run as it is, where that is the faster way to the same bits; `stats.unchanged` counts such calls, and a loop over single
    elements may see them as NumPy's numbers.  NumPy may be an argument or a default,
    as in `f(xp, x)` and `f(x, xp=np)`, and be handed on to other functions; arguments may be bound by functools.partial.
    """
    if function is None:
        return accelerate
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(accelerate(function.__func__))
    if isinstance(function, types.MethodType):
        return types.MethodType(accelerate(function.__func__), function.__self__)
    if type(function) is functools.partial:
        inner = accelerate(function.func)
        bound = functools.partial(inner, *function.args, **function.keywords)
        bound.__dict__.update(function.__dict__, stats=inner.stats)
        return bound
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"accelerate() takes a function, not {function!r}")
    function = _unwrap(function)
    state = _Function(function)
    wrapper = state.wrapper = _Accelerated(state)
    wrapper.__dict__.update(getattr(function, "__dict__", {}), stats=state.stats, __wrapped__=function)
    state.prepare()
    return wrapper
