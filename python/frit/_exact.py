"""Whether all that a function does has one right result, so that NumPy and frit give the same bits.

Such a function may as well run as it is where that is the faster way (csrc/bind/contest.c). It is told from the code of the
copies that run (_rewrite.py), and of functions of other modules that NumPy is handed on to: every attribute that they ask
for and every function that they call is one of those below, and no operator is a power. What rounds more than once (exp,
powers) is not among them, nor the extremes of arrays, which in NumPy depend on the processor where zeros of both signs
meet, nor complex numbers, whose functions round more than once. Products of matrices, and what frit hands over, are
NumPy's anyway.

A function that also calls frit's own exp and the like is not exact, but its operators are: in a loop over elements these
may be NumPy's numbers (csrc/runtime/element.c), for frit's functions come to the same of a number and of an element."""
from __future__ import annotations

import builtins
import types
from typing import Any

import numpy

from . import _bytecode
from ._bytecode import (
    BINARY_OP, BINARY_SLICE, BUILD_SLICE, BUILD_TUPLE, LOAD_GLOBAL, LOADS_ATTRIBUTE, NOTHING, SUBSCRIPTS, Instruction,
    attr_name, decode, global_name, is_attr)
from ._namespace import conversions, modules, ndarray, ours
from ._numpy import named
from ._rewrite import Rewritten, contents

_PLAIN, _ATTRIBUTES, _ROUNDED = named("plain"), named("plain") | named("exact"), named("rounded")
_BUILTINS = frozenset(
    "AssertionError IndexError KeyError RuntimeError TypeError ValueError abs all any bool dict divmod enumerate filter float "
    "frozenset int isinstance iter len list map max min next print range reversed round set slice sorted sum tuple zip".split())
_NAME_OF = {id(f): name for name, f in (*ours.items(), *conversions.items())} | {id(getattr(numpy, name)): name for name in ours}
_MODULES = {id(m) for m in modules.values()} | {id(numpy)}
_TYPES = frozenset({bool, int, float, list, tuple, numpy.ndarray, ndarray})
_NUMBERS = (bool, int, float, str, bytes, type(None), type(Ellipsis), slice, range, numpy.generic, numpy.dtype)
_COMPLEX_DTYPES = named("complex") | frozenset("c8 c16 F D complex".split())

# Of operators, products of matrices are NumPy's in frit, too. A square is no exact one: of a single element NumPy asks C's
# pow, which rounds otherwise once in a thousand times.
_EXACT, _POWER, _PRODUCT = (_bytecode.operators(*symbols.split()) for symbols in ("+ - * / // % & | ^ << >>", "**", "@"))
_CONSTANTS, _LOADS = _bytecode.of("constant"), _bytecode.of("constant", "local")
_COMPUTES, _LOOKS = _bytecode.of("operator", "call"), _bytecode.of("item", "slice")


def _is_exact_type(value: Any) -> bool:
    return value in _TYPES or issubclass(value, numpy.generic) and not issubclass(value, (numpy.complexfloating, numpy.object_))


class _Function:
    """One of those that run; `known`: what else its code may call; `names`: attributes that it may ask for, and what is
    called so."""

    def __init__(self, f: types.FunctionType, known: set[int], names: frozenset[str]) -> None:
        self.f, self.known, self.names = f, known, names

    def is_exact_value(self, value: Any) -> bool:
        """Whether a value that the code loads is no complex number, and, if it may be called, exact."""
        if isinstance(value, (tuple, frozenset)):
            return all(map(self.is_exact_value, value))
        if isinstance(value, types.CodeType):
            return self.is_exact_code(value)
        if isinstance(value, str):
            return value.lstrip("<>=") not in _COMPLEX_DTYPES
        if isinstance(value, type):
            return _is_exact_type(value)
        if isinstance(value, (numpy.ndarray, numpy.generic, numpy.dtype)):
            return numpy.dtype(getattr(value, "dtype", value)).kind in "biuf"
        if id(value) in _NAME_OF:
            return _NAME_OF[id(value)] in self.names
        return isinstance(value, _NUMBERS) or id(value) in _MODULES or id(value) in self.known

    def is_exact_code(self, code: types.CodeType) -> bool:
        listed, attributes = decode(code), set()
        for this in listed:
            if is_attr(this, True) or is_attr(this, False):
                attributes.add(attr_name(code, this))
            elif this[1] == BINARY_OP and this[2] not in _EXACT | _PRODUCT or this[1] == _bytecode.IMPORT_NAME:
                return False
        names, known = self.f.__globals__, vars(builtins)
        for name in code.co_names:
            if name in names and not self.is_exact_value(names[name]) and name not in attributes:
                return False
            if name not in names and name in known and name not in _BUILTINS | attributes:
                return False
        return attributes <= self.names and all(map(self.is_exact_value, code.co_consts))

    def is_exact(self) -> bool:
        f = self.f
        seen = [contents(cell) for cell in f.__closure__ or ()]
        seen += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        return self.is_exact_code(f.__code__) and all(map(self.is_exact_value, seen))


def _all_exact(rewritten: Rewritten, names: frozenset[str]) -> bool:
    known = {id(f) for f in rewritten.copies} | {id(value) for _, _, value in rewritten.watched
                                                 if type(value) is types.FunctionType}
    # (What runs as it is calls NumPy's exp of a number by its own `np`, and frit's by the module that it was given.)
    return (bool(rewritten.copies) and all(_Function(f, known, names).is_exact() for f in rewritten.copies)
            and all(_Function(f, known, _ATTRIBUTES).is_exact() for f in rewritten.uncopied))


def exact(rewritten: Rewritten) -> bool:
    """Whether a function, and those that it calls, have one right result for real numbers."""
    return _all_exact(rewritten, _ATTRIBUTES)


def exact_in_elements(rewritten: Rewritten) -> bool:
    """Whether that is so of what they do with single elements."""
    return _all_exact(rewritten, _ATTRIBUTES | _ROUNDED)


def _makes_axes(code: types.CodeType, listed: list[Instruction]) -> bool:
    """Whether an index among the instructions may be None: what is not a part of a slice of simple values."""
    in_slices: set[int] = set()
    for at, (_, op, arg) in enumerate(listed):
        n = arg if op == BUILD_SLICE else 2 if op == BINARY_SLICE else 0
        if any(i[1] not in _LOADS for i in listed[at - n:at]):
            return True
        in_slices.update(range(at - n, at))
    loaded = [_bytecode.constant(code, this) for at, this in enumerate(listed)
              if this[1] in _CONSTANTS and at not in in_slices]
    return any(c is None or isinstance(c, tuple) and None in c for c in loaded)


def _loads_two(code: types.CodeType, this: Instruction) -> bool:
    """Whether the instruction loads the int 2, to whose power a number is a product."""
    value = _bytecode.constant(code, this) if this[1] in _CONSTANTS else None
    return type(value) is int and value == 2


def plain_operations(f: types.FunctionType, most: int) -> tuple[int | None, bool, bool]:
    """(n, calls, views) of what a function does that does nothing but up to `most` operations, on its arguments, parts
    of them and constants, which have the same bits in NumPy and in frit: how many, whether functions of NumPy are among
    them, and whether parts or transposes. n is None for any other function."""
    code = f.__code__
    other = None, False, False
    if len(code.co_code) > 128 + 64 * most or code.co_freevars or code.co_cellvars:
        return other
    listed, n, calls, views, elements, squares = decode(code), 0, False, False, False, False
    for first, before, this, after in zip([NOTHING, NOTHING, *listed], [NOTHING, *listed], listed, [*listed[1:], NOTHING]):
        op, arg = this[1:]
        turns = is_attr(this, False) and before[1] != LOAD_GLOBAL and attr_name(code, this) == "T"
        looks = turns or op in _LOOKS or op == BINARY_OP and arg in SUBSCRIPTS
        n += op in _COMPUTES and not looks
        views |= looks
        in_slice = before[1] == BUILD_SLICE or before[1] == BUILD_TUPLE and first[1] == BUILD_SLICE
        elements |= looks and not (turns or op == BINARY_SLICE or in_slice)
        if looks:
            fits = True
        elif op == LOAD_GLOBAL:
            # (a function of what the module imports is loaded as an attribute, not as a method, in 3.11)
            calls = fits = f.__globals__.get(global_name(code, this)) is numpy and after[1] in LOADS_ATTRIBUTE
        elif op in LOADS_ATTRIBUTE:
            fits = before[1] == LOAD_GLOBAL and attr_name(code, this) in _PLAIN
        elif op == BINARY_OP:
            squares |= arg in _POWER
            fits = arg in _EXACT or arg in _POWER and _loads_two(code, before)
        else:
            fits = op in _bytecode.PLAIN
        if not fits:
            return other
    # (The square of what may be a single element is C's pow, which has other bits.)
    fits = n <= most and not (views and _makes_axes(code, listed)) and not (elements and squares)
    return (n, calls, views) if fits else other
