"""Whether a function is closed: what it does follows from its arguments, from the globals, cells and attributes that
it reads, and from nothing else, and it changes nothing but arrays and containers that it is given or makes.

Such a function need not run again where all of that lies as it did and it did not look at a value: tracing it would
give the same operations (csrc/bind/accelerate/replay.c). It is told from the code of the copy that runs (_rewrite.py): every
instruction is one of those below, every name that it looks up is known. What is not known here only costs speed."""
from __future__ import annotations

import builtins
import sys
import types
from typing import Any

import numpy

from . import _bytecode, _core
from ._bytecode import (
    BINARY_OP, CLOSED, IN_PLACE, IS_OP, KW_NAMES, LOAD_CONST, LOAD_DEREF, LOAD_GLOBAL, LOADS_ATTRIBUTE, NOTHING,
    STORE_ATTR, SUBSCRIPTS, Instruction)
from ._namespace import conversions, modules, ndarray, ours
from ._numpy import named
from ._rewrite import Rewritten, contents

_EXCEPTIONS = frozenset(name for name, value in vars(builtins).items()
                        if isinstance(value, type) and issubclass(value, Exception))
_LOADS, _SET_ITEM = _bytecode.of("constant", "local"), _bytecode.of("setitem")

_BUILTINS = frozenset("abs bool complex divmod enumerate float int isinstance len list max min range reversed "
                      "round slice sum tuple zip".split())
_OPEN, _HIDDEN, _ASSIGNED, _CHANGES = named("open"), named("hidden"), named("assigned"), named("first") | named("self")
_ATTRIBUTES = (frozenset(ours) - _OPEN) | named("attribute")
_FUNCTIONS = {id(f) for name, f in ours.items() if name not in _OPEN} | set(map(id, conversions.values()))
_NAMESPACES = {id(m) for m in modules.values()} | {id(numpy)}
_SINGLE = (None, True, False, Ellipsis)
_NUMBERS = frozenset({bool, int, float, complex, str, type(None), type(Ellipsis)})
_HOLD_ARRAYS = frozenset({numpy.ndarray, list, tuple, dict})


class _Code:
    """What one function does: `fits` if all of it is known."""

    def __init__(self, f: types.FunctionType, copies: set[int]) -> None:
        self.f, self.copies = f, copies
        self.fits = True
        self.attributes: set[str] = set()   # that it reads or stores, of whatever
        self.stores = False         # into arrays or containers
        self.hands_on = False       # what it reads outside of its arguments is more than an operand
        self.fits = (all(map(self.is_fixed, (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())))
                     and all(map(self.cell_fits, f.__closure__ or ())) and self.code_fits(f.__code__))

    def cell_fits(self, cell: types.CellType) -> bool:
        """Whether a cell holds what may be looked at when a call is noted, or what stands in for something."""
        value = contents(cell)
        return type(value) in _HOLD_ARRAYS or self.is_fixed(value)

    def code_fits(self, code: types.CodeType) -> bool:
        """The same of the function's code, or of a function or comprehension written inside it."""
        if code.co_flags & 0x2a0:       # generators, coroutines
            return False
        listed = _core.decoded(code.co_code)
        return all(self.instruction(code, *four) for four in zip([NOTHING, *listed], listed, [*listed[1:], NOTHING],
                                                                 [*listed[2:], NOTHING, NOTHING]))

    def is_fixed(self, value: Any) -> bool:
        """Whether a constant is a value, or something to be called that is closed itself."""
        if type(value) in _NUMBERS:
            return True
        if type(value) in (tuple, frozenset):
            # Members that are no arrays may be compared: they are the names of a call's arguments, or a default.
            if not all(map(self.is_fixed, value)):
                return False
            self.stores = self.stores or "out" in value
            return True
        if type(value) is types.CodeType:
            return self.code_fits(value)
        return (issubclass(type(value), (slice, numpy.generic)) or value is ndarray or id(value) in _NAMESPACES
                or id(value) in _FUNCTIONS or id(value) in self.copies)

    def reads_outside(self, after: Instruction, after2: Instruction) -> None:
        """A value from outside is the operand of an operation that makes a new one, or may be anything."""
        right = after[1] == BINARY_OP and after[2] not in SUBSCRIPTS
        left = after[1] in _LOADS and after2[1] == BINARY_OP and after2[2] not in IN_PLACE | SUBSCRIPTS
        self.hands_on = self.hands_on or not (right or left)

    def instruction(self, code: types.CodeType, before: Instruction, this: Instruction, after: Instruction,
                    after2: Instruction) -> bool:
        op, arg = this[1:]
        if op == LOAD_GLOBAL:
            return self.global_name(_bytecode.global_name(code, this), after, after2)
        if op in LOADS_ATTRIBUTE:
            name = _bytecode.attr_name(code, this)
            self.stores = self.stores or name in _CHANGES
            self.attributes.add(name)
            # The methods of a class are not known, nor what is behind a module.
            return name in _ATTRIBUTES or not (_bytecode.is_attr(this, True) or name in _HIDDEN or name.startswith("__"))
        elif op == STORE_ATTR:
            self.attributes.add(code.co_names[arg])
            self.stores = self.stores or code.co_names[arg] in _ASSIGNED
            return True
        elif op == LOAD_CONST:
            return self.is_fixed(code.co_consts[arg])
        elif op == KW_NAMES:
            self.stores = self.stores or "out" in code.co_consts[arg]
        elif op == IS_OP:
            return before[1] == LOAD_CONST and code.co_consts[before[2]] in _SINGLE
        elif op == BINARY_OP:
            self.stores = self.stores or arg in IN_PLACE
        elif op in _SET_ITEM:
            self.stores = True
        elif op == LOAD_DEREF:
            self.reads_outside(after, after2)
        return op in CLOSED

    def global_name(self, name: str, after: Instruction, after2: Instruction) -> bool:
        if name not in self.f.__globals__:
            return name in _BUILTINS or name in _EXCEPTIONS
        value = self.f.__globals__[name]
        if type(value) in _HOLD_ARRAYS:
            self.reads_outside(after, after2)
            return True
        # What else it holds by then is seen when a call is noted.
        return type(value) in _NUMBERS or value is numpy or issubclass(type(value), numpy.generic)


def closed(rewritten: Rewritten) -> tuple[tuple[str, ...], bool] | None:
    """None if the rewritten function or one that it calls is not closed, else (names of the attributes that they read
    or store, whether they may store into what is not among the arguments)."""
    if not rewritten.copies or rewritten.stored_globals or rewritten.stored_cells:
        return None
    copies = {id(f) for f in rewritten.copies}
    codes = []
    for f in rewritten.copies:
        codes.append(_Code(f, copies))
        if not codes[-1].fits:
            return None
    return (tuple(sorted(map(sys.intern, {a for c in codes for a in c.attributes}))),
            any(c.stores for c in codes) and any(c.hands_on for c in codes))
