"""What a function may change beside its arguments, noted before a call and put back after it: names of modules, cells,
containers, attributes of objects and classes, and generators of random numbers. (Arrays without data are not written to.)"""
from __future__ import annotations

import array
import collections
import functools
import random
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy

from ._outside import NONE, adopted, attribute, is_package_outside

_PLAIN = {type(None), bool, int, float, complex, str, bytes, range, slice}      # which lead to nothing, and are many
_CACHED: Any = type(functools.lru_cache(lambda: None))


def _is_users(module: Any) -> bool:
    """Whether what says that it is of this module is the user's: not Python's, NumPy's, frit's or an installed package's."""
    package = module.partition(".")[0] if type(module) is str else ""
    return package in adopted or bool(package) and package not in ("numpy", __package__, "builtins") and \
        package not in sys.stdlib_module_names and not is_package_outside(package)


def draws(o: Any) -> bool:
    """Whether it gives random numbers, other ones each time."""
    return issubclass(type(o), random.Random) or str(type(o).__module__).startswith("numpy.random.")


def _drawer(o: Any) -> Callable[[], Any] | None:
    """What sets a generator of random numbers back to the state in which it is."""
    if isinstance(o, random.Random):
        return functools.partial(o.setstate, o.getstate())
    if hasattr(o, "get_state"):
        return functools.partial(o.set_state, o.get_state(legacy=False))
    bits = getattr(o, "bit_generator", o)
    return functools.partial(setattr, bits, "state", bits.state) if hasattr(bits, "random_raw") else None


def slots_of(kind: type) -> Iterable[str]:
    """Names of attributes that objects of a class have in places of their own."""
    for c in kind.__mro__:
        slots = vars(c).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__"):
                yield name
            elif not name.endswith("__"):
                yield f"_{c.__name__.lstrip('_')}{name}"


def _is_same(a: Iterable[Any], b: Iterable[Any]) -> bool:
    return all(x is y for x, y in zip(a, b))


class Kept:
    """What can be reached from here, as it is now: through the user's functions, classes, objects and modules, and through
    containers. `instead` says what is to stand in place of a value, or gives it back. For a with statement, whose end puts all
    of it back."""

    def __init__(self, roots: Iterable[Any], instead: Callable[[Any], Any] = lambda o: o) -> None:
        self.instead = instead
        self.seen: dict[int, Any] = {}
        self.undo: list[Callable[[], Any]] = []
        self.found = [*roots, vars(numpy.random.mtrand)["_rand"], vars(random)["_inst"]]    # and generators that all have
        try:
            while self.found:
                o = self.found.pop()
                if type(o) not in _PLAIN and id(o) not in self.seen:
                    self.seen[id(o)] = o
                    self._keep(o)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self.undo):
            undo()
        self.undo, self.seen = [], {}

    def _keep(self, o: Any) -> None:
        kind = type(o)      # not what it says that it is: a proxy may have nothing to ask just now
        if issubclass(kind, (tuple, frozenset)):
            self.found += o
        elif issubclass(kind, dict):
            self._dict(o)
        elif issubclass(kind, (list, collections.deque)):
            self._list(o)
        elif issubclass(kind, set):
            self._set(o)
        elif issubclass(kind, (bytearray, array.array)):
            self.undo.append(functools.partial(o.__setitem__, slice(None), o[:]))
        elif issubclass(kind, types.FunctionType):
            if _is_users(o.__module__ or o.__globals__.get("__name__")):
                self._function(o)
        elif issubclass(kind, types.MethodType):
            self.found += [o.__self__, o.__func__]
        elif issubclass(kind, types.BuiltinMethodType):
            self.found.append(o.__self__)
        elif issubclass(kind, functools.partial):
            self.found += [o.func, o.args, o.keywords]
        elif issubclass(kind, (classmethod, staticmethod)):
            self.found.append(o.__func__)
        elif issubclass(kind, property):
            self.found += [o.fget, o.fset]
        elif issubclass(kind, numpy.ndarray):
            if o.dtype.hasobject and kind is numpy.ndarray:
                self.undo.append(functools.partial(o.__setitem__, ..., o.copy()))
                self.found += o.ravel().tolist()
        elif issubclass(kind, _CACHED):
            self._cached(o)
        elif issubclass(kind, types.ModuleType):
            if _is_users(o.__name__):
                self.found.append(vars(o))
        elif draws(o):
            if (back := _drawer(o)) is not None:
                self.undo.append(back)
        elif issubclass(kind, type):
            if _is_users(o.__module__):
                self._class(o)
        elif _is_users(kind.__module__) or issubclass(kind, types.SimpleNamespace) or kind.__module__ == "argparse":
            self._object(o)     # (the last two hold what the user puts there)
        elif (function := attribute(o, "__wrapped__")) is not NONE:
            self.found.append(function)

    def _value(self, o: Any) -> Any:
        """What stands for it meanwhile. What it leads to is kept."""
        self.found.append(o)
        return self.instead(o)

    def _dict(self, d: dict[Any, Any]) -> None:
        kind: Any = collections.OrderedDict if isinstance(d, collections.OrderedDict) else dict
        before = dict(kind.items(d))

        def back() -> None:
            now = list(kind.items(d))
            if [k for k, _ in now] == list(before) and _is_same((v for _, v in now), before.values()):
                return
            if set(before) <= set(k for k, _ in now):      # other keys stay where they are: somebody may go over them
                for k, v in now:
                    if k not in before:
                        kind.__delitem__(d, k)
                    elif before[k] is not v:
                        kind.__setitem__(d, k, before[k])
                return
            kind.clear(d)
            for k, v in before.items():
                kind.__setitem__(d, k, v)
        self.undo.append(back)
        for k, v in before.items():
            if (other := self._value(v)) is not v:
                kind.__setitem__(d, k, other)

    def _list(self, o: Any) -> None:
        kind: Any = list if isinstance(o, list) else collections.deque
        before = list(kind.__iter__(o))

        def back() -> None:
            if len(before) == kind.__len__(o) and _is_same(kind.__iter__(o), before):
                return
            kind.clear(o)
            kind.extend(o, before)
        self.undo.append(back)
        for i, v in enumerate(before):
            if (other := self._value(v)) is not v:
                kind.__setitem__(o, i, other)

    def _set(self, o: set[Any]) -> None:
        before = set(set.__iter__(o))
        self.found += before

        def back() -> None:
            if set(set.__iter__(o)) != before:
                set.clear(o)
                set.update(o, before)
        self.undo.append(back)

    def _function(self, f: types.FunctionType) -> None:
        self.found += [f.__globals__, f.__defaults__, f.__kwdefaults__, f.__dict__]
        for cell in f.__closure__ or ():
            if id(cell) not in self.seen:
                self.seen[id(cell)] = cell
                self._cell(cell)

    def _cell(self, cell: types.CellType) -> None:
        def content() -> Any:
            try:
                return cell.cell_contents
            except ValueError:
                return NONE

        def back() -> None:
            if before is NONE:
                if content() is not NONE:
                    del cell.cell_contents
            elif content() is not before:
                cell.cell_contents = before
        before = content()
        self.undo.append(back)
        if before is not NONE and (other := self._value(before)) is not before:
            cell.cell_contents = other

    def _cached(self, f: Any) -> None:
        """Of what functools.lru_cache has made of a function nothing may stay that has no data."""
        self.found.append(f.__wrapped__)
        misses = f.cache_info().misses
        self.undo.append(lambda: f.cache_info().misses == misses or f.cache_clear())

    def _class(self, c: type) -> None:
        before = dict(vars(c))
        self.found += [*before.values(), *c.__mro__]

        def back() -> None:
            for name in [n for n in vars(c) if n not in before]:
                type.__delattr__(c, name)
            for name, value in before.items():
                if vars(c).get(name, NONE) is not value:
                    type.__setattr__(c, name, value)
        self.undo.append(back)

    def _object(self, o: Any) -> None:
        self.found += [type(o), attribute(o, "__dict__")]
        for name in slots_of(type(o)):
            self._slot(o, name)

    def _slot(self, o: Any, name: str) -> None:
        before = attribute(o, name)

        def back() -> None:
            if attribute(o, name) is before:
                return
            if before is NONE:
                object.__delattr__(o, name)
            else:
                object.__setattr__(o, name, before)
        self.undo.append(back)
        if before is not NONE and (other := self._value(before)) is not before:
            object.__setattr__(o, name, other)
