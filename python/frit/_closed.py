"""Whether a function is closed: what it does follows from its arguments, from the globals, cells and attributes that
it reads, and from nothing else, and it changes nothing but arrays and containers that it is given or makes.

Such a function need not run again where all of that lies as it did and it did not look at a value: tracing it would
give the same operations (csrc/bind/replay.c). It is told from the code of the copy that runs (_rewrite.py): every
instruction is one of those below, every name that it looks up is known. What is not known here only costs speed."""
import builtins
import opcode
import sys
import types

import numpy

from ._namespace import conversions, modules, ndarray, ours
from ._rewrite import OP, attr_name, contents, decode, global_name, is_attr

_names = """
RESUME NOP POP_TOP PUSH_NULL PRECALL KW_NAMES COPY SWAP COPY_FREE_VARS NOT_TAKEN END_FOR POP_ITER TO_BOOL
LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW
LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST DELETE_FAST LOAD_DEREF
BINARY_OP BINARY_SUBSCR BINARY_SLICE STORE_SUBSCR STORE_SLICE BUILD_SLICE UNARY_NEGATIVE UNARY_POSITIVE
UNARY_INVERT UNARY_NOT COMPARE_OP CALL_INTRINSIC_1 BUILD_TUPLE BUILD_LIST BUILD_MAP BUILD_CONST_KEY_MAP
LIST_APPEND LIST_EXTEND LIST_TO_TUPLE UNPACK_SEQUENCE CALL CALL_KW GET_ITER FOR_ITER JUMP_FORWARD JUMP_BACKWARD
POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_TRUE
POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE
POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE JUMP_IF_TRUE_OR_POP
JUMP_IF_FALSE_OR_POP RETURN_VALUE RETURN_CONST MAP_ADD MAKE_FUNCTION MAKE_CELL LOAD_CLOSURE STORE_DEREF
SET_FUNCTION_ATTRIBUTE RERAISE RAISE_VARARGS LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT FORMAT_VALUE FORMAT_SIMPLE
FORMAT_WITH_SPEC CONVERT_VALUE BUILD_STRING"""
_OPCODES = frozenset(OP[n] for n in _names.split() if n in OP)
_LOAD_CONST, _LOAD_GLOBAL, _LOAD_DEREF, _LOAD_ATTR, _LOAD_METHOD, _STORE_ATTR, _IS_OP, _BINARY_OP, _KW_NAMES = (
    OP.get(n, -1) for n in
    "LOAD_CONST LOAD_GLOBAL LOAD_DEREF LOAD_ATTR LOAD_METHOD STORE_ATTR IS_OP BINARY_OP KW_NAMES".split())
_EXCEPTIONS = frozenset(name for name, value in vars(builtins).items()
                        if isinstance(value, type) and issubclass(value, Exception))
# Attributes that are modules of NumPy's, and those of arrays that tell more than how they lie.
_HIDDEN = frozenset("base char core ctypes ctypeslib data emath exceptions f2py fft flags flat lib linalg ma matlib "
                    "polynomial random rec strings testing typing".split())
_LOADS = frozenset(OP[n] for n in "LOAD_FAST LOAD_FAST_BORROW LOAD_CONST LOAD_SMALL_INT".split() if n in OP)

_BUILTINS = frozenset("abs bool complex divmod enumerate float int isinstance len list max min range reversed "
                      "round slice sum tuple zip".split())
# Functions that read something else than their arguments, or call what they are given.
_OPEN = frozenset("apply_along_axis from_dlpack frombuffer fromfile fromfunction fromiter fromstring loadtxt "
                  "piecewise".split())
_METHODS = frozenset("T all any argmax argmin argpartition argsort astype choose clip compress conj conjugate "
                     "copy cumprod cumsum diagonal dot dtype fill flatten imag itemsize mT max mean min nbytes "
                     "ndim nonzero partition prod put ravel real repeat reshape round searchsorted shape size "
                     "sort squeeze std strides sum swapaxes take trace transpose var".split())
_CONSTANTS = frozenset("bool bool_ complex128 complex64 e eps euler_gamma finfo float16 float32 float64 iinfo inf "
                       "int16 int32 int64 int8 intp nan ndarray newaxis pi tiny uint16 uint32 uint64 uint8".split())
_ATTRIBUTES = (frozenset(ours) - _OPEN) | _METHODS | _CONSTANTS
_FUNCTIONS = {id(f) for name, f in ours.items() if name not in _OPEN} | set(map(id, conversions.values()))
_NAMESPACES = {id(m) for m in modules.values()} | {id(numpy)}
_SINGLE = (None, True, False, Ellipsis)
_NUMBERS = frozenset({bool, int, float, complex, str, type(None), type(Ellipsis)})
_HOLD_ARRAYS = frozenset({numpy.ndarray, list, tuple, dict})
# Methods and functions that change what they are given.
_CHANGES = frozenset("append copyto delete fill fill_diagonal insert partition place put put_along_axis putmask "
                     "resize sort".split())
_SETS = frozenset("flat imag real shape".split())      # attributes of arrays
_STORES = frozenset(OP[n] for n in ("STORE_SUBSCR", "STORE_SLICE") if n in OP)
_IN_PLACE = frozenset(i for i, (_, symbol) in enumerate(getattr(opcode, "_nb_ops", ())) if symbol.endswith("="))
_SUBSCRIPTS = frozenset(i for i, (_, symbol) in enumerate(getattr(opcode, "_nb_ops", ())) if symbol == "[]")


class _Code:
    """What one function does: `fits` if all of it is known."""

    def __init__(self, f, copies):
        self.f, self.copies = f, copies
        self.fits = True
        self.attributes = set()     # that it reads or stores, of whatever
        self.stores = False         # into arrays or containers
        self.hands_on = False       # what it reads outside of its arguments is more than an operand
        self.fits = (all(map(self.is_fixed, (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())))
                     and all(map(self.cell_fits, f.__closure__ or ())) and self.code_fits(f.__code__))

    def cell_fits(self, cell):
        """Whether a cell holds what may be looked at when a call is noted, or what stands in for something."""
        value = contents(cell)
        return type(value) in _HOLD_ARRAYS or self.is_fixed(value)

    def code_fits(self, code):
        """The same of the function's code, or of a function or comprehension written inside it."""
        if code.co_flags & 0x2a0:       # generators, coroutines
            return False
        listed, none = decode(code), (0, -1, 0)
        return all(self.instruction(code, *four) for four in zip([none, *listed], listed, [*listed[1:], none],
                                                                 [*listed[2:], none, none]))

    def is_fixed(self, value):
        """Whether a constant is a value, or something to be called that is closed itself."""
        if type(value) in _NUMBERS:
            return True
        if type(value) in (tuple, frozenset):
            # Members that are no arrays may be compared: they are the names of a call's arguments, or a default.
            if not all(map(self.is_fixed, value)):
                return False
            self.stores = self.stores or "out" in value
            return True
        if isinstance(value, types.CodeType):
            return self.code_fits(value)
        return (isinstance(value, (slice, numpy.generic)) or value is ndarray or id(value) in _NAMESPACES
                or id(value) in _FUNCTIONS or id(value) in self.copies)

    def reads_outside(self, after, after2):
        """A value from outside is the operand of an operation that makes a new one, or may be anything."""
        right = after[1] == _BINARY_OP and after[2] not in _SUBSCRIPTS
        left = after[1] in _LOADS and after2[1] == _BINARY_OP and after2[2] not in _IN_PLACE | _SUBSCRIPTS
        self.hands_on = self.hands_on or not (right or left)

    def instruction(self, code, before, this, after, after2):
        op, arg = this[1:]
        if op == _LOAD_GLOBAL:
            return self.global_name(global_name(code, this), after, after2)
        if op in (_LOAD_ATTR, _LOAD_METHOD):
            name = attr_name(code, this)
            self.stores = self.stores or name in _CHANGES
            self.attributes.add(name)
            # The methods of a class are not known, nor what is behind a module.
            return name in _ATTRIBUTES or not (is_attr(this, True) or name in _HIDDEN or name.startswith("__"))
        elif op == _STORE_ATTR:
            self.attributes.add(code.co_names[arg])
            self.stores = self.stores or code.co_names[arg] in _SETS
            return True
        elif op == _LOAD_CONST:
            return self.is_fixed(code.co_consts[arg])
        elif op == _KW_NAMES:
            self.stores = self.stores or "out" in code.co_consts[arg]
        elif op == _IS_OP:
            return before[1] == _LOAD_CONST and code.co_consts[before[2]] in _SINGLE
        elif op == _BINARY_OP:
            self.stores = self.stores or arg in _IN_PLACE
        elif op in _STORES:
            self.stores = True
        elif op == _LOAD_DEREF:
            self.reads_outside(after, after2)
        return op in _OPCODES

    def global_name(self, name, after, after2):
        if name not in self.f.__globals__:
            return name in _BUILTINS or name in _EXCEPTIONS
        value = self.f.__globals__[name]
        if type(value) in _HOLD_ARRAYS:
            self.reads_outside(after, after2)
            return True
        # What else it holds by then is seen when a call is noted.
        return type(value) in _NUMBERS or value is numpy or isinstance(value, numpy.generic)


def closed(rewritten):
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
