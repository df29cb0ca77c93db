"""Where values cross between what an accelerated function computes, tensors, and what others hold, arrays.

The user's functions keep tensors in their local variables and on their stack. Whatever they get from elsewhere may be an
array: an attribute, a global, a cell of a closure, an item of a container, what a loop gives, what a call returns, an
argument. Behind each instruction that brings in such a value the function's code has `COMES[value]`, which is the tensor of
an array (the one of its memory) and any other value itself. What it stores where others may look goes through
`LEAVES[value]`, which is the array again where one stands behind the tensor, or, as an item, through `STORED[value, container]`,
which is an array where the container's class is somebody else's. What it calls comes from `CALLED[value]`: a function of ours,
or what lets others see arrays; what it formats passes `SHOWN[value]`, and `POWER[a, b]` is a ** b
(csrc/bind/accelerate/crossing_type.c).

A function gets such code in its place, once, when an accelerated call meets it or an object of its class: methods,
operators, properties, callbacks and generators need nothing else, however they are called. Outside of accelerated calls
each of these gives its value back. Others' functions stay as they are: they are called with arrays (_outside.py)."""
from __future__ import annotations

import builtins
import collections
import functools
import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy

from . import _assemble, _bytecode, _core, _namespace
from ._bytecode import LOAD_DEREF, LOAD_GLOBAL, Instead, is_attr
from ._numpy import FACTS, named
from ._outside import NONE, adopted, attribute, is_outside, others

_ITEM, _CALL, _ITERATES, _ENTERS, _SUPER, _LOCAL, _LOCALS, _NAME, _CONSTANT = map(
    _bytecode.of, ("item", "call", "iterate", "enter", "super", "local", "locals", "name", "constant"))
_UNPACKS, _SETS_ATTR, _SETS_ITEM, _RESUMES, _CONTAINS, _FORMATS, _ITERABLE = map(
    _bytecode.of, ("unpack", "setattr", "setitem", "resume", "contains", "format", "iterable"))
_JOINED = named("joined")
_POWERS = _bytecode.operators("**")
_NEVER = frozenset({"frit", "numpy"})
_PYTHONS = sys.stdlib_module_names | {"numpy"}
_OPTIMIZED = 0x1                     # CO_OPTIMIZED: of a function, not of a module or a class
_GENERATES = 0x20 | 0x80 | 0x200     # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>"})      # (which stay in the copy where they begin)
_SAME: Instead = [_assemble.SAME]
_method, _receiver = functools.cache(_core._Method), functools.cache(_core._Receiver)
_to = functools.lru_cache(None, typed=True)(_core._To)
_plains: dict[int, Any] = {}        # id of a function of NumPy's -> what is called instead in a plain call, or itself

# What looks into containers that it is given, or at objects: it gets arrays, and these as they are by then.
_LOOKS = frozenset({"copy", "copyreg"})
_BUILTINS_LOOK = frozenset("sum max min any all sorted set frozenset print repr str format hash bytes bytearray memoryview exec "
                           "eval next".split())
_BUILTINS_ASK = frozenset("abs divmod pow round".split())      # their argument's class
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


def _power(code: CodeType, before: _bytecode.Instruction, this: _bytecode.Instruction, place: Callable[[Any], int],
           out: dict[int, Instead], labels: set[int]) -> None:
    """What stands instead of the power `this`. `labels`: where jumps lead."""
    exponent = _bytecode.constant(code, before) if before[1] in _CONSTANT else None
    in_place = this[2] in _bytecode.IN_PLACE
    if isinstance(exponent, (int, float)) and not in_place and this[0] not in labels:
        out[before[0]], out[this[0]] = _bytecode.NOTHING_DONE, _bytecode.item_of_top(place(_to(exponent)))
    else:
        out[this[0]] = _bytecode.item_of_two(place(_core.POWERED if in_place else _core.POWER))


class _Read(NamedTuple):
    """A code object."""

    code: CodeType
    listed: list[_bytecode.Instruction]
    callees: set[int]       # offsets of instructions whose results are called,
    merged: set[int]        # and of those before which a value has come by a jump that is
    labels: set[int]        # where jumps lead


def _read(code: CodeType) -> _Read:
    listed = _core.decoded(code.co_code)
    return _Read(code, listed, *_core.called_values(code.co_code), _bytecode.labels(listed))


def _crossings(read: _Read, place: Callable[[Any], int]) -> dict[int, Instead]:
    """What stands instead of the instructions of a code at these offsets. `place` gives a constant its number."""
    code, listed, callees, merged, labels = read
    out: dict[int, Instead] = {}
    come, leave, call = (_bytecode.item_of_top(place(x)) for x in (_core.COMES, _core.LEAVES, _core.CALLED))
    entered, suspends = False, code.co_flags & _GENERATES

    def deeper(crossing: Any, depth: int) -> Instead:
        return _bytecode.item_of_top(place(crossing), depth)
    for before, this in zip([_bytecode.NOTHING, *listed], listed):
        at, op, arg = this
        if op == LOAD_GLOBAL:
            out[at] = _bytecode.load_global(this, call if at in callees else come)
        elif at in callees:
            out[at] = _SAME + call
        elif is_attr(this, True):
            name = _bytecode.attr_name(code, this)
            if not name.startswith("__"):
                out[at] = _bytecode.load_item(place(_method(name)))
        elif is_attr(this, False) and _bytecode.attr_name(code, this) in _JOINED:
            out[at] = _SAME + call
        elif op == _bytecode.BINARY_OP and arg in _POWERS:
            _power(code, before, this, place, out, labels)
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
        elif op == _bytecode.OP["STORE_SUBSCR"]:
            out[at] = _bytecode.stored_item(place(_core.STORED)) + _SAME
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


def _plain_crossings(read: _Read, place: Callable[[Any], int], names: dict[str, Any]) -> dict[int, Instead]:
    """The same for the second copy, in which arrays come as they are: what is called is the user's, which gets its code, or
    rounds otherwise than NumPy, or is known to do neither."""
    code, listed, callees, merged, labels = read
    out: dict[int, Instead] = {}
    chain: Any = None       # the module that the instruction before has loaded, where that is known
    call = _bytecode.item_of_top(place(_core.CALLED))
    for before, this in zip([_bytecode.NOTHING, *listed], listed):
        at, op, arg = this
        of, chain = chain, None
        if op == LOAD_GLOBAL:
            name = _bytecode.global_name(code, this)
            value = names.get(name, vars(builtins).get(name, None))
            if at in callees and not _is_harmless(value):
                out[at] = _bytecode.load_global(this, call)
            elif issubclass(type(value), types.ModuleType):
                chain = value
            elif issubclass(type(value), (FunctionType, type)) and not _is_harmless(value):   # somebody else may call it
                out[at] = _bytecode.load_global(this, call)
        elif op in _bytecode.LOADS_ATTRIBUTE:
            name = _bytecode.attr_name(code, this)
            value = vars(of).get(name) if of is not None else None      # (what a module makes only when asked is left alone)
            known = of is not None and _is_harmless(value)
            if is_attr(this, True) and not known and not name.startswith("__"):
                if of is not None:
                    out[at] = _bytecode.called_attr(this, call)
                else:
                    out[at] = _bytecode.item_of_top(place(_receiver(name))) + _SAME
            elif at in callees and not known:
                out[at] = _SAME + call
            elif issubclass(type(value), types.ModuleType):
                chain = value
        elif at in callees:
            out[at] = _SAME + call
        elif op == _bytecode.BINARY_OP and arg in _POWERS:
            _power(code, before, this, place, out, labels)
    for at in merged:
        out[at] = call + out.get(at, _SAME)
    return out


def _is_harmless(value: Any) -> bool:
    """Whether a callable is Python's or NumPy's, and is called as it is in plain calls."""
    name = getattr(value, "__module__", None)
    if id(value) in _namespace.functions or _few_name(value):
        return _plain(value, _namespace.functions.get(id(value), value)) is value
    if type(value) is FunctionType:
        return False
    return type(name) is str and (package := name.partition(".")[0]) in _PYTHONS and package not in adopted


# ---- functions

# id of code that crosses -> (it, the code that was written, the offset at which the second copy begins)
_ours: dict[int, tuple[CodeType, CodeType, int]] = {}


def crossing(code: CodeType, names: dict[str, Any]) -> CodeType:
    """The code that crosses. Behind it is a second copy, in which only what is called does: it runs outside of accelerated
    calls and in plain ones. At the beginning and wherever a loop turns, the code goes on in the copy that is right by then
    (csrc/bind/accelerate/membrane.h). `names`: the function's globals."""
    consts = [crossing(c, names) if isinstance(c, CodeType) else c for c in code.co_consts]
    where: dict[int, int] = {}      # id of a constant -> its number

    def place(new: Any) -> int:
        index = where.setdefault(id(new), len(consts))
        if index == len(consts):
            consts.append(new)
        return index
    read = _read(code)
    changes, again = _crossings(read, place), None
    start = next((at for at, op, arg in read.listed if op in _RESUMES and arg == 0), None)
    if start is not None and not code.co_flags & _GENERATES and (code.co_flags & _OPTIMIZED or code.co_name == "<module>"):
        plain, enter = _plain_crossings(read, place, names), place(_core.ENTER)
        leave = _bytecode.jump_if(enter, _assemble.THERE)
        back = _bytecode.jump_if(enter, _assemble.HERE) + _bytecode.jump_back(_assemble.THERE)
        for this in read.listed:
            at, op, _ = this
            if op in _bytecode.LOOPS and code.co_name not in _COMPREHENSIONS:
                changes[at], plain[at] = leave + changes.get(at, _SAME), _turn(read, this, place) + back + plain.get(at, _SAME)
        changes[start] = _SAME + leave + changes.get(start, _SAME)[1:]
        again = start, plain
    new, second = _assemble.replace(code, changes, tuple(consts), 3, again)
    _ours[id(new)] = new, code, second
    return new


def _turn(read: _Read, jump: _bytecode.Instruction, place: Callable[[Any], int]) -> Instead:
    """What stands before a jump by which a loop turns: its object is asked (csrc/bind/hot/hot.h)."""
    header = _bytecode.jumps_to(jump)
    is_for = next(op for at, op, _ in read.listed if at >= header) in _ITERATES     # (a prefix may stand before it)
    return _bytecode.asked(place(_core._Loop(read.code, header, jump[0], is_for)), is_for or _bytecode.is_conditional(jump))


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
    elif issubclass(type(what), property):
        for f in (what.fget, what.fset, what.fdel):
            yield from _functions(f)
    elif issubclass(type(what), (functools.partial, functools.cached_property, functools.partialmethod)):
        yield from _functions(what.func)
    wrapped = attribute(what, "__wrapped__") if kind is not type else NONE
    if wrapped is not NONE and wrapped is not what:
        yield from _functions(wrapped)


_USERS, _OTHERS, _UNTOLD = range(3)     # (csrc/bind/accelerate/crossing.h: enum fr_whose)


def _is_named(value: Any, name: str) -> bool:
    """Whether a function of a class's runs only where somebody loads it by its name: then it gets its code when that is seen."""
    return type(value) in (FunctionType, staticmethod, classmethod) and not (name.startswith("__") and name.endswith("__"))


def _is_led(what: type) -> bool:
    """Whether others' code may call the functions of a class by their names, as a thread runs `run`."""
    return any(is_outside(kind, "") or kind.__module__ not in ("abc", "typing") and kind.__module__.partition(".")[0] in _PYTHONS
               for kind in what.__mro__[1:-1])


def prepare(what: Any) -> int:
    """Gives a function, or those of a class that run without being named, code that crosses, if they are the user's. Says
    whose it is: of a class whose objects are called by C, each may be anybody's."""
    found: Iterator[FunctionType]
    if issubclass(type(what), type):
        if is_outside(what, ""):
            return _OTHERS
        found = (f for kind in what.__mro__[:-1] for name, v in list(vars(kind).items())
                 if not issubclass(type(v), type) and (not _is_named(v, name) or _is_led(what)) for f in _functions(v))
    elif type(what) is FunctionType and not is_users(what) or type(what) is functools.partial and is_outside(what, ""):
        return _OTHERS
    else:
        found = _functions(what)
    todo = [f for f in found if id(f.__code__) not in _ours and is_users(f)]
    if todo:
        collects = gc.isenabled()
        gc.disable()        # of the many small objects that are made none stays
        for f in todo:
            if not _is_known(f.__globals__):
                _worlds[id(f.__globals__)] = weakref.ref(_owner(f)), False
            f.__code__ = crossing(f.__code__, f.__globals__)
        if collects:
            gc.enable()
    return _UNTOLD if issubclass(type(what), type) and type(getattr(what, "__call__", None)) is not FunctionType else _USERS


# id of the globals of functions that have been prepared -> (the module, or a function, that has these; whether they have been
# searched). They may die as soon as the user lets go of them.
_worlds: dict[int, tuple[weakref.ref[types.ModuleType | FunctionType], bool]] = {}


def _owner(f: FunctionType) -> types.ModuleType | FunctionType:
    module = sys.modules.get(f.__module__) if type(f.__module__) is str else None
    return module if type(module) is types.ModuleType and vars(module) is f.__globals__ else f


def _is_known(names: dict[str, Any]) -> bool:
    return id(names) in _worlds and _worlds[id(names)][0]() is not None


def search() -> None:
    """Before arrays come as they are: what the user's modules have that may be called where nobody sees it, as operators and
    properties are, and rounds otherwise than NumPy, gets its code."""
    for at in [at for at, (of, _) in _worlds.items() if of() is None]:
        del _worlds[at]
    todo = [owner for of, done in _worlds.values() if not done and (owner := of()) is not None]
    while todo:
        owner = todo.pop()
        names = owner.__globals__ if isinstance(owner, FunctionType) else vars(owner)
        _worlds[id(names)] = weakref.ref(owner), True
        for value in list(names.values()):
            if issubclass(type(value), types.ModuleType):
                if not is_outside(value, "") and value.__name__.partition(".")[0] not in _NEVER and not _is_known(vars(value)):
                    todo.append(value)
            elif issubclass(type(value), type) and any(
                    _may_round(f.__code__) for name, v in list(vars(value).items())
                    if not (issubclass(type(v), type) or _is_named(v, name) or name in ("__init__", "__new__"))
                    for f in _functions(v)):
                prepare(value)


def _may_round(code: CodeType) -> bool:
    """Whether a code that has not been prepared names what frit rounds otherwise than NumPy."""
    return id(code) not in _ours and any(
        not _ROUNDS.isdisjoint(c.co_names) or not _POWERS.isdisjoint(c.co_code[1::2]) and any(
            op == _bytecode.BINARY_OP and arg in _POWERS for _, op, arg in _core.decoded(c.co_code))
        for c in _bytecode.tree(code))


def _callables(what: Any) -> tuple[Any, Any]:
    """What is called instead of `what`, which is no method and no function of the user's, or `what`; and the same in a plain
    call, where only what rounds otherwise than NumPy is ours."""
    ours = _namespace.functions.get(id(what))
    if ours is None:
        return _callable(what), _plain(what, what)
    return ours, _plain(what, ours)


def _plain(what: Any, ours: Any) -> Any:
    """What is called in a plain call instead of a function of NumPy's: ours where its bits are others, or it is sooner."""
    if id(what) not in _plains:
        facts = FACTS.get(_NAME_OF.get(id(what), ""), frozenset())
        is_ours = "sooner" in facts or _NAME_OF.get(id(what)) in _ROUNDS
        if what is ours and not _few_name(what):        # (there is no end of such objects)
            return what
        _plains[id(what)] = _core.plain(ours, None if is_ours else what, _few_name(what))
    return _plains[id(what)]


_few: dict[int, str] = {}       # id of a function of NumPy's -> its name, where C does it for few elements
_few_in: set[str] = set()       # the modules in which they have been looked for, which NumPy may import late
_FEW_HOMES = {"numpy", "numpy.linalg", "numpy.random"}


def _few_name(what: Any) -> str:
    """What csrc/bind/numpy/few.h calls a function of NumPy's, or nothing."""
    for home in _FEW_HOMES - _few_in & sys.modules.keys() if len(_few_in) < len(_FEW_HOMES) else ():
        _few_in.add(home)
        for name in _core.few_names():
            module, _, last = f"numpy.{name}".rpartition(".")
            if module == home and last in vars(sys.modules[home]):
                _few[id(getattr(sys.modules[home], last))] = name
    return _few.get(id(what), "")


def _callable(what: Any) -> Any:
    if type(what) in (_core.Accelerated, numpy.ufunc):
        return what
    if not issubclass(type(what), type):
        prepare(what)
    module, name = getattr(what, "__module__", None), getattr(what, "__name__", None) or ""
    if issubclass(type(what), type) and what is not memoryview:
        if what in _LOOPS:
            return _core.looper(what)
        if _keeps(what):
            return _core.keeper(what)
    if getattr(builtins, name, None) is what:
        if name in _BUILTINS_ASK:
            return _core.asker(what)
        return _core.keeper(what) if name in _BUILTINS_KEEP else _core.outside(what) if name in _BUILTINS_LOOK else what
    if hasattr(what, "_implementation") and type(module) is str and module.partition(".")[0] == "numpy":
        return _core.reader(what)       # which asks tensors by __array_function__
    if type(module) is str and (module in _LOOKS or module.partition(".")[0] == "numpy" and not issubclass(type(what), type)):
        return _core.outside(what)
    if is_outside(what, ""):
        return others(what)
    return _core.reader(what) if module in _READS and not issubclass(type(what), type) else what


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


_core.set_crossing(_ours, prepare, search, _callables, (named("rounded") | named("sooner")) & named("attribute"))
works = _bytecode.CAN_REWRITE and _self_test()
