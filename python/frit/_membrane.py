"""Where values cross between what an accelerated function computes, tensors, and what others hold, arrays.

The user's functions keep tensors in their local variables and on their stack. Whatever they get from elsewhere may be an
array: an attribute, a global, a cell of a closure, an item of a container, what a loop gives, what a call returns, an
argument. Behind each instruction that brings in such a value the function's code has `COMES[value]`, which is the tensor of
an array (the one of its memory) and any other value itself. What it stores where others may look goes through
`LEAVES[value]`, which is the array again where one stands behind the tensor. What it calls comes from `CALLED[value]`: a
function of ours, or what lets others see arrays; what it formats passes `SHOWN[value]` (csrc/bind/accelerate/crossing.c).

A function gets such code in its place, once, when an accelerated call meets it or an object of its class: methods,
operators, properties, callbacks and generators need nothing else, however they are called. Outside of accelerated calls
each of these gives its value back. Others' functions stay as they are: they are called with arrays (_outside.py)."""
from __future__ import annotations

import builtins
import functools
import sys
import types
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy

from . import _assemble, _bytecode, _core, _namespace
from ._bytecode import LOAD_DEREF, LOAD_GLOBAL, Instead, is_attr
from ._outside import adopted, is_outside

_ITEM, _CALL, _ITERATES, _ENTERS, _SUPER, _LOCAL, _LOCALS = map(
    _bytecode.of, ("item", "call", "iterate", "enter", "super", "local", "locals"))
_UNPACKS, _STORES_GLOBAL, _STORES_CELL, _SETS_ATTR, _SETS_ITEM, _RESUMES, _CONTAINS, _FORMATS = map(
    _bytecode.of, ("unpack", "setglobal", "setcell", "setattr", "setitem", "resume", "contains", "format"))
_NEVER = frozenset({"frit", "numpy"})
_GENERATES = 0x20 | 0x80 | 0x200     # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_SAME: Instead = [_assemble.SAME]
_methods: dict[str, Any] = {}

# What looks into containers that it is given, or at objects: it gets arrays, and these as they are by then.
_LOOKS = frozenset({"copy", "copyreg"})
_BUILTINS_LOOK = frozenset("sum max min any all sorted set frozenset print repr str format hash divmod round pow abs bytes "
                           "bytearray memoryview exec eval".split())
# What keeps what it is given, or tells it by its address.
_BUILTINS_KEEP = frozenset("id setattr".split())


def _crossings(code: CodeType, place: Callable[[Any], int]) -> dict[int, Instead]:
    """What stands instead of the instructions of `code` at these offsets. `place` gives a constant its number."""
    listed = _bytecode.decode(code)
    callees, merged = _bytecode.called_values(code, listed)
    out: dict[int, Instead] = {}
    come, leave, call = (_bytecode.item_of_top(place(x)) for x in (_core.COMES, _core.LEAVES, _core.CALLED))
    entered, suspends = False, code.co_flags & _GENERATES

    def deeper(crossing: Any, depth: int) -> Instead:
        return _bytecode.item_of_top(place(crossing), depth)
    for this in listed:
        at, op, arg = this
        if op == LOAD_GLOBAL:
            out[at] = _bytecode.load_global(this, call if at in callees else come)
        elif at in callees:
            out[at] = _SAME + call
        elif is_attr(this, True):
            name = _bytecode.attr_name(code, this)
            if not name.startswith("__"):
                out[at] = _bytecode.load_item(place(_methods.setdefault(name, _core._Method(name))))
        elif op in _CALL:
            out[at] = _SAME + deeper(_core.MADE, 1)
        elif (is_attr(this, False) or op == LOAD_DEREF or op in _ITEM or op in _ITERATES or op in _ENTERS
              or op in _SUPER and not arg & 1 or op in _LOCAL and suspends):
            out[at] = _SAME + come
        elif op in _LOCALS and suspends:
            out[at] = _SAME + come + deeper(_core.COMES, 2)
        elif op in _UNPACKS:
            out[at] = _SAME + [i for depth in range(1, _bytecode.unpacked(this) + 1) for i in deeper(_core.COMES, depth)]
        elif op in _bytecode.TAKES_VALUE:
            out[at] = leave + _SAME
        elif op in _SETS_ATTR or op in _CONTAINS:
            out[at] = deeper(_core.LEAVES, 2) + _SAME
        elif op in _SETS_ITEM:
            out[at] = deeper(_core.LEAVES, 3) + _SAME       # (a slice's bounds make no difference)
        elif op in _FORMATS:
            out[at] = deeper(_core.SHOWN, _bytecode.formatted(this)) + _SAME
        elif op in _RESUMES and arg == 0 and not entered:
            entered = True
            out[at] = _SAME + _bytecode.changed_parameters(code, come)
    for at in merged:
        out[at] = call + out.get(at, _SAME)
    return out


# ---- functions

_ours: dict[int, tuple[CodeType, CodeType]] = {}     # id of code that crosses -> it, and the code that was written


def _crossing(code: CodeType) -> CodeType:
    consts = [_crossing(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    where: dict[int, int] = {}      # id of a constant -> its number

    def place(new: Any) -> int:
        index = where.setdefault(id(new), len(consts))
        if index == len(consts):
            consts.append(new)
        return index
    new = _assemble.replace(code, _crossings(code, place), tuple(consts), more_stack=2)
    _ours[id(new)] = new, code
    return new


def written(code: CodeType) -> CodeType:
    """The code that was written, of one that crosses; any other itself."""
    return _ours[id(code)][1] if id(code) in _ours else code


def is_users(f: FunctionType) -> bool:
    """Whether a function's code may be exchanged: it is the user's, not Python's or a package's."""
    name = getattr(f, "__module__", None) or f.__globals__.get("__name__") or ""
    package = name.partition(".")[0] if type(name) is str else ""
    return name in adopted or package not in _NEVER and package not in sys.stdlib_module_names and not is_outside(f, "")


def _functions(what: Any) -> Iterator[FunctionType]:
    """The functions of a class's, or what one of its names has, or that is called by something made from it."""
    kind = type(what)
    if kind is FunctionType:
        yield what
    elif kind is types.MethodType or kind is staticmethod or kind is classmethod:
        yield from _functions(what.__func__)
    elif isinstance(what, property):
        for f in (what.fget, what.fset, what.fdel):
            yield from _functions(f)
    elif isinstance(what, (functools.partial, functools.cached_property, functools.partialmethod)):
        yield from _functions(what.func)
    wrapped = getattr(what, "__wrapped__", None) if kind is not type else None
    if wrapped is not None and wrapped is not what:
        yield from _functions(wrapped)


_USERS, _OTHERS, _UNTOLD = range(3)     # (csrc/bind/accelerate/crossing.c: enum whose)


def prepare(what: Any) -> int:
    """Gives a function, or those of a class, code that crosses, if they are the user's. Says whose it is: of a class whose
    objects are called by C, each may be anybody's."""
    found: Iterator[FunctionType]
    if isinstance(what, type):
        if is_outside(what, ""):
            return _OTHERS
        found = (f for kind in what.__mro__[:-1] for value in list(vars(kind).values())
                 if not isinstance(value, type) for f in _functions(value))
    elif type(what) is FunctionType and not is_users(what) or type(what) is functools.partial and is_outside(what, ""):
        return _OTHERS
    else:
        found = _functions(what)
    for f in found:
        if id(f.__code__) not in _ours and is_users(f):
            f.__code__ = _crossing(f.__code__)
    return _UNTOLD if isinstance(what, type) and type(getattr(what, "__call__", None)) is not FunctionType else _USERS


def _callable(what: Any) -> Any:
    """What is called instead of `what`, which is no method and no function of the user's; or `what`."""
    ours = _namespace.functions.get(id(what))
    if ours is not None:
        return ours
    if type(what) in (_core.Accelerated, numpy.ufunc):
        return what
    if not isinstance(what, type):
        prepare(what)
    module, name = getattr(what, "__module__", None), getattr(what, "__name__", None) or ""
    if getattr(builtins, name, None) is what:
        return _core.keeper(what) if name in _BUILTINS_KEEP else _core.outside(what) if name in _BUILTINS_LOOK else what
    if type(module) is str and (module in _LOOKS or module.partition(".")[0] == "numpy" and not isinstance(what, type)):
        return _core.outside(what)
    return _core.outside(what) if is_outside(what, "") else what


def _probe(x: Any, *, key: Any = None) -> Any:
    a, b = x.parts
    x.last = [part for part in (a, b, key) if part is not None]
    try:
        x.missing()
    except AttributeError as e:
        return f"{x.last!r:>4}", str(e)[:1], x.last[0] in x.last


class _Example:
    parts = 1, 2


def _self_test() -> bool:
    """Whether code that crosses does what the written code does on the running interpreter."""
    try:
        f = FunctionType(_crossing(_probe.__code__), globals(), "_probe", None, None)
        f.__kwdefaults__ = {"key": None}
        return bool(f(_Example(), key=3) == _probe(_Example(), key=3))
    except Exception:
        return False


works = _bytecode.CAN_REWRITE and _self_test()
_core.set_crossing(_ours, prepare, _callable)
