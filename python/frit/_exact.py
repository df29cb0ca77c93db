"""Whether all that a function does has one right result, so that NumPy and frit give the same bits.

Such a function may as well run as it is where that is the faster way (csrc/bind/accelerate/accelerate_call.c: is_numpys). It is
told from the code of the copies that run (_rewrite.py), and of functions of other modules that NumPy is handed on to:
every attribute that they ask for and every function that they call is one of those below, and no operator is a power.
What rounds more than once (exp, powers) is not among them, nor the extremes of arrays, which in NumPy depend on the
processor where zeros of both signs meet, nor complex numbers, whose functions round more than once. Products of
matrices, and what frit hands over, are NumPy's anyway."""
from __future__ import annotations

import builtins
import types
from typing import Any

import numpy

from . import _bytecode, _core, _membrane
from ._bytecode import BINARY_OP, SUBSCRIPTS, attr_name, is_attr
from ._namespace import conversions, modules, ndarray, ours
from ._numpy import named
from ._rewrite import Rewritten, contents

_ATTRIBUTES = named("plain") | named("exact")
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
_EXACT = _bytecode.operators(*"+ - * / // % & | ^ << >> @".split())


def _is_exact_type(value: Any) -> bool:
    return value in _TYPES or issubclass(value, numpy.generic) and not issubclass(value, (numpy.complexfloating, numpy.object_))


class _Function:
    """One of those that run; `known`: what else its code may call."""

    def __init__(self, f: types.FunctionType, known: set[int]) -> None:
        self.f, self.known = f, known

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
            return _NAME_OF[id(value)] in _ATTRIBUTES
        return isinstance(value, _NUMBERS) or id(value) in _MODULES or id(value) in self.known

    def is_exact_code(self, code: types.CodeType) -> bool:
        listed, attributes = _core.decoded(code.co_code), set()
        for this in listed:
            if is_attr(this, True) or is_attr(this, False):
                attributes.add(attr_name(code, this))
            elif this[1] == BINARY_OP and this[2] not in _EXACT | SUBSCRIPTS or this[1] == _bytecode.IMPORT_NAME:
                return False
        names, known = self.f.__globals__, vars(builtins)
        for name in code.co_names:
            if name in names and not self.is_exact_value(names[name]) and name not in attributes:
                return False
            if name not in names and name in known and name not in _BUILTINS | attributes:
                return False
        return attributes <= _ATTRIBUTES and all(map(self.is_exact_value, code.co_consts))

    def is_exact(self) -> bool:
        f = self.f
        seen = [contents(cell) for cell in f.__closure__ or ()]
        seen += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        return self.is_exact_code(f.__code__) and all(map(self.is_exact_value, seen))


def exact(rewritten: Rewritten) -> bool:
    """Whether a function, and those that it calls, have one right result for real numbers."""
    known = {id(f) for f in rewritten.copies} | {id(value) for _, _, value in rewritten.watched
                                                 if type(value) is types.FunctionType}
    return bool(rewritten.copies) and all(_Function(f, known).is_exact() for f in (*rewritten.copies, *rewritten.uncopied))


_SUBSCRIPT, _SETS, _SLICES = map(_bytecode.of, ("item", "setitem", "slice"))
_PRODUCTS = _bytecode.operators("@")
_OF_NUMBERS = frozenset("abs bool float int len max min range".split())


def _innermost(code: types.CodeType) -> list[tuple[int, int]]:
    """(first, last) offsets of the instructions of each loop in which there is no other."""
    loops = {(_bytecode.jumps_to(i), i[0]) for i in _core.decoded(code.co_code) if i[1] in _bytecode.LOOPS}
    return [(a, b) for a, b in loops if not any((a, b) != (c, d) and a <= c and d <= b for c, d in loops)]


def _is_over_elements(code: types.CodeType, first: int, last: int) -> bool:
    """Whether a loop has indices, and slices only as factors of a product of rows; or calls nothing but Python's functions of
    numbers."""
    found = sliced = product = called = False
    for this in _core.decoded(code.co_code):
        at, op, arg = this
        if first <= at <= last:
            found = found or op in _SUBSCRIPT or op in _SETS or op == BINARY_OP and arg in SUBSCRIPTS
            sliced = sliced or op in _SLICES or op == _bytecode.BUILD_SLICE
            product = product or op == BINARY_OP and arg in _PRODUCTS or is_attr(this, True) and attr_name(code, this) == "dot"
            called = called or op in _bytecode.LOADS_ATTRIBUTE or op == _bytecode.LOAD_GLOBAL and _bytecode.global_name(
                code, this) not in _OF_NUMBERS
    return (found or not called) and (product or not sliced)


def over_elements(code: types.CodeType) -> bool:
    """Whether a function may be one of loops over single elements, as most of its innermost loops look."""
    loops = _innermost(_membrane.written(code))
    return bool(loops) and 2 * sum(_is_over_elements(_membrane.written(code), *loop) for loop in loops) > len(loops)
