"""A closed function as it runs in a call that is noted (csrc/bind/accelerate/enter.c): a copy with globals and cells of
its own, into which each call puts what the function sees by those names, with tensors in the place of arrays. Then nothing
that NumPy computes from such an array becomes a number that a later call would repeat."""
from __future__ import annotations

import types
from typing import Any

from . import _core
from ._bytecode import LOAD_GLOBAL, global_name
from ._rewrite import Rewritten, contents

# What a module's dictionary tells about the module. The registry is one object: a line warns once wherever it runs.
_KEPT = ("__name__", "__builtins__", "__file__", "__package__", "__loader__", "__spec__", "__warningregistry__")
_RUN_AT_ONCE = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})


def _outlives(code: types.CodeType, seen: set[str], cells: set[str]) -> bool:
    """Whether a function written inside `code` could be called after it, and looks up one of the names then."""
    for inner in (c for c in code.co_consts if isinstance(c, types.CodeType)):
        looks = cells.intersection(inner.co_freevars) or any(
            op == LOAD_GLOBAL and global_name(inner, (at, op, arg)) in seen for at, op, arg in _core.decoded(inner.co_code))
        if looks and inner.co_name not in _RUN_AT_ONCE or _outlives(inner, seen, cells):
            return True
    return False


def _with_consts(code: types.CodeType, new: dict[int, types.FunctionType]) -> types.CodeType:
    """The code with `new` in the place of constants: {id of one: another}."""
    def changed(c: Any) -> Any:
        return _with_consts(c, new) if isinstance(c, types.CodeType) else new.get(id(c), c)
    return code.replace(co_consts=tuple(map(changed, code.co_consts)))


def inside(rewritten: Rewritten, names: set[str], cells: list[types.CellType]
           ) -> tuple[types.FunctionType, dict[str, Any], tuple[types.CellType, ...]] | None:
    """(function, its globals, its cells in the order of `cells`), or None where that cannot be told from the original."""
    names_outside = rewritten.copy.__globals__
    seen = {n for n in names if n in names_outside}
    if any(_outlives(f.__code__, seen, set(f.__code__.co_freevars)) for f in rewritten.copies):
        return None
    names_outside.setdefault("__warningregistry__", {})
    space = {name: names_outside[name] for name in _KEPT if name in names_outside}
    # The copies are right as long as these hold.
    space.update((name, value) for where, name, value in rewritten.watched if where is names_outside)
    mine = {id(cell): types.CellType() for cell in cells}
    new, filled = {}, []
    for f in rewritten.copies:
        closure = []
        for cell in f.__closure__ or ():
            if id(cell) not in mine and any(contents(cell) is c for c in rewritten.copies):
                mine[id(cell)] = types.CellType()
                filled.append((mine[id(cell)], contents(cell)))
            closure.append(mine.get(id(cell), cell))
        g = new[id(f)] = types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, tuple(closure) or None)
        g.__kwdefaults__ = f.__kwdefaults__
        g.__qualname__ = f.__qualname__
        g.__module__ = f.__module__
        g.__annotations__ = f.__annotations__
        g.__dict__ = f.__dict__
    for g in new.values():
        g.__code__ = _with_consts(g.__code__, new)
    for cell, f in filled:
        cell.cell_contents = new[id(f)]
    return new[id(rewritten.copy)], space, tuple(mine[id(cell)] for cell in cells)
