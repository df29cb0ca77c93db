"""Where values cross between what an accelerated function computes, tensors, and what others hold, arrays.

The user's functions keep tensors in their local variables and on their stack. Whatever they get from elsewhere may be an
array: an attribute, a global, a cell of a closure, an item of a container, what a loop gives, what a call returns, an
argument. Behind each instruction that brings in such a value the function's code has `COMES[value]`, which is the tensor of
an array (the one of its memory) and any other value itself. What it stores where others may look goes through
`LEAVES[value]`, which is the array again where one stands behind the tensor. What it calls comes from `CALLED[value]`: a
function of ours, or what lets others see arrays; what it formats passes `SHOWN[value]`, and `POWER[a, b]` is a ** b
(csrc/bind/accelerate/crossing_type.c).

A function gets such code in its place, once, when an accelerated call meets it or an object of its class: methods,
operators, properties, callbacks and generators need nothing else, however they are called. Outside of accelerated calls
each of these gives its value back. Others' functions stay as they are: they are called with arrays (_outside.py)."""
from __future__ import annotations

import builtins
import collections
import functools
import sys
import types
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy

from . import _assemble, _bytecode, _core, _namespace
from ._bytecode import LOAD_DEREF, LOAD_GLOBAL, Instead, is_attr
from ._numpy import FACTS, named
from ._outside import adopted, is_outside, others

_ITEM, _CALL, _ITERATES, _ENTERS, _SUPER, _LOCAL, _LOCALS, _NAME = map(
    _bytecode.of, ("item", "call", "iterate", "enter", "super", "local", "locals", "name"))
_UNPACKS, _SETS_ATTR, _SETS_ITEM, _RESUMES, _CONTAINS, _FORMATS, _ITERABLE = map(
    _bytecode.of, ("unpack", "setattr", "setitem", "resume", "contains", "format", "iterable"))
_JOINED = named("joined")
_POWERS = _bytecode.operators("**")
_NEVER = frozenset({"frit", "numpy"})
_OPTIMIZED = 0x1                     # CO_OPTIMIZED: of a function, not of a module or a class
_GENERATES = 0x20 | 0x80 | 0x200     # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_SAME: Instead = [_assemble.SAME]
_methods: dict[str, Any] = {}

# What looks into containers that it is given, or at objects: it gets arrays, and these as they are by then.
_LOOKS = frozenset({"copy", "copyreg"})
_BUILTINS_LOOK = frozenset("sum max min any all sorted set frozenset print repr str format hash divmod round pow abs bytes "
                           "bytearray memoryview exec eval next".split())
# What may look, of modules that otherwise only hand on what they get: what is there is what it would be.
_READS = frozenset("bisect collections dataclasses functools heapq itertools operator random".split())
# What goes over its arguments, now or later.
_LOOPS = frozenset({enumerate, zip, map, filter, reversed, list, tuple, set, frozenset, dict, collections.deque,
                    collections.OrderedDict, collections.defaultdict, collections.Counter})
# What keeps what it is given, or tells it by its address.
_BUILTINS_KEEP = frozenset("id setattr".split())


# What frit rounds otherwise than NumPy, by the names of NumPy's functions and of methods of arrays.
_ROUNDS = frozenset(name for name, facts in FACTS.items() if not facts & {"plain", "exact", "number"} and (
    facts & {"rounded", "composed"}))
_NAME_OF = {id(getattr(numpy, name)): name for name in (*_namespace.ours, *_namespace.conversions)}


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
            out[at] = _bytecode.load_global(this, deeper(_core.NAMED, 1) if at in callees else come)
        elif at in callees:
            out[at] = _SAME + (deeper(_core.NAMED, 1) if op in _NAME else call)
        elif is_attr(this, True):
            name = _bytecode.attr_name(code, this)
            if not name.startswith("__"):
                out[at] = _bytecode.load_item(place(_methods.setdefault(name, _core._Method(name))))
        elif is_attr(this, False) and _bytecode.attr_name(code, this) in _JOINED:
            out[at] = _SAME + deeper(_core.NAMED, 1)
        elif op == _bytecode.BINARY_OP and arg in _POWERS:
            out[at] = _bytecode.item_of_two(place(_core.POWERED if arg in _bytecode.IN_PLACE else _core.POWER))
        elif op in _CALL:
            out[at] = _SAME + deeper(_core.MADE, 1)
        elif (is_attr(this, False) or op == LOAD_DEREF or op in _NAME or op in _ITEM or op in _ITERATES or op in _ENTERS
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
        elif op in _ITERABLE:
            out[at] = deeper(_core.ITERATED, 1) + _SAME
        elif op in _FORMATS:
            out[at] = deeper(_core.SHOWN, _bytecode.formatted(this)) + _SAME
        elif op == _bytecode.RETURN_GENERATOR:      # what it is given, and what it stores, may stay in it
            out[at] = _bytecode.changed_parameters(code, leave, leave) + _SAME
        elif suspends and op == _bytecode.STORE_FAST:
            out[at] = leave + _SAME
        elif op in _RESUMES and arg == 0 and not entered and not suspends:
            entered = True
            out[at] = _SAME + _bytecode.changed_parameters(code, come, leave)
    for at in merged:
        out[at] = call + out.get(at, _SAME)
    return out


# ---- functions

def _may_round(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether a code calls by name what frit rounds otherwise than NumPy. (What comes by other ways is seen when it is called:
    csrc/bind/accelerate/called.c.)"""
    for this in _bytecode.decode(code):
        if this[1] == _bytecode.BINARY_OP and this[2] in _POWERS:
            return True
        if is_attr(this, True) or is_attr(this, False):
            if _bytecode.attr_name(code, this) in _ROUNDS:
                return True
        elif this[1] == LOAD_GLOBAL:
            name = _bytecode.global_name(code, this)
            if _NAME_OF.get(id(names.get(name))) in _ROUNDS or name in _ROUNDS and not (name in names or hasattr(builtins, name)):
                return True
    return False


# id of code that crosses -> (it, the code that was written, its _Enter or None)
_ours: dict[int, tuple[CodeType, CodeType, Any]] = {}


def crossing(code: CodeType, names: dict[str, Any]) -> CodeType:
    """The code that crosses, and which outside of accelerated calls, and in plain ones if it calls nothing that rounds, goes on
    with what was written, which is in it, too. `names`: the function's globals."""
    consts = [crossing(c, names) if isinstance(c, CodeType) else c for c in code.co_consts]
    where: dict[int, int] = {}      # id of a constant -> its number

    def place(new: Any) -> int:
        index = where.setdefault(id(new), len(consts))
        if index == len(consts):
            consts.append(new)
        return index
    changes, twice, enter = _crossings(code, place), None, None
    start = next((at for at, op, arg in _bytecode.decode(code) if op in _RESUMES and arg == 0), None)
    if start is not None and code.co_flags & _OPTIMIZED and not code.co_flags & _GENERATES:
        enter = _core._Enter(not _may_round(code, names))
        twice = start, [*_bytecode.item_of_itself(place(enter)), _bytecode.JUMP_UNLESS_NONE]
    new = _assemble.replace(code, changes, tuple(consts), 2, twice)
    _ours[id(new)] = new, code, enter
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


_USERS, _OTHERS, _UNTOLD = range(3)     # (csrc/bind/accelerate/crossing.h: enum fr_whose)


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
            f.__code__ = crossing(f.__code__, f.__globals__)
    return _UNTOLD if isinstance(what, type) and type(getattr(what, "__call__", None)) is not FunctionType else _USERS


def _callables(what: Any) -> tuple[Any, Any]:
    """What is called instead of `what`, which is no method and no function of the user's, or `what`; and the same in a plain
    call, where only what rounds otherwise than NumPy is ours."""
    ours = _namespace.functions.get(id(what))
    if ours is None:
        return _callable(what), what
    return ours, _core.plain(ours) if _NAME_OF.get(id(what)) in _ROUNDS else what


def _callable(what: Any) -> Any:
    if type(what) in (_core.Accelerated, numpy.ufunc):
        return what
    if not isinstance(what, type):
        prepare(what)
    module, name = getattr(what, "__module__", None), getattr(what, "__name__", None) or ""
    if isinstance(what, type) and what is not memoryview:
        if what in _LOOPS:
            return _core.looper(what)
        if _keeps(what):
            return _core.keeper(what)
    if getattr(builtins, name, None) is what:
        return _core.keeper(what) if name in _BUILTINS_KEEP else _core.outside(what) if name in _BUILTINS_LOOK else what
    if hasattr(what, "_implementation") and type(module) is str and module.partition(".")[0] == "numpy":
        return _core.reader(what)       # which asks tensors by __array_function__
    if type(module) is str and (module in _LOOKS or module.partition(".")[0] == "numpy" and not isinstance(what, type)):
        return _core.outside(what)
    if is_outside(what, ""):
        return others(what)
    return _core.reader(what) if module in _READS and not isinstance(what, type) else what


# Classes that only hand on what their objects are made from, or make something else of it.
_HAND_ON = frozenset({bool, int, float, complex, str, bytes, range, slice, type, super, staticmethod, classmethod, property,
                      object})


def _keeps(what: type) -> bool:
    """Whether objects of a class, which is no other package's, keep what they are made from in a way that C has made."""
    return (what not in _HAND_ON and not is_outside(what, "") and not issubclass(what, (numpy.generic, numpy.ndarray))
            and (getattr(what, "__module__", "") or "").partition(".")[0] not in _NEVER
            and FunctionType not in (type(what.__init__), type(what.__new__))
            and not (what.__init__ is object.__init__ and what.__new__ is object.__new__))


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
        f = FunctionType(crossing(_probe.__code__, globals()), globals(), "_probe", None, None)
        f.__kwdefaults__ = {"key": None}
        return bool(f(_Example(), key=3) == _probe(_Example(), key=3))
    except Exception:
        return False


works = _bytecode.CAN_REWRITE and _self_test()
_core.set_crossing(_ours, prepare, _callables, named("rounded") & named("attribute"))
