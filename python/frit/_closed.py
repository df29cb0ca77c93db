"""Whether a function is closed: what it computes follows from its arguments, from numbers among the globals and cells
that it reads, and from nothing else, and it changes nothing but arrays of its own.

Such a function need not run again where all of that is as it was and it did not look at a value: tracing it would give
the same operations (csrc/bind/replay.c).  It is told from the code of the copy that runs (_rewrite.py): every instruction
is one of those below, every name that it looks up is known.  What is not known here only costs speed."""
import types

import numpy

from . import _core
from ._namespace import modules, ndarray, ours
from ._rewrite import OP, attr_name, decode, global_name

_names = """
RESUME NOP POP_TOP PUSH_NULL PRECALL KW_NAMES COPY SWAP COPY_FREE_VARS NOT_TAKEN END_FOR POP_ITER TO_BOOL
LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_AND_CLEAR LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW
LOAD_FAST_BORROW_LOAD_FAST_BORROW STORE_FAST STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST DELETE_FAST LOAD_DEREF
BINARY_OP BINARY_SUBSCR BINARY_SLICE STORE_SUBSCR STORE_SLICE BUILD_SLICE UNARY_NEGATIVE UNARY_POSITIVE UNARY_INVERT
UNARY_NOT COMPARE_OP CALL_INTRINSIC_1 BUILD_TUPLE BUILD_LIST LIST_APPEND LIST_EXTEND LIST_TO_TUPLE UNPACK_SEQUENCE CALL CALL_KW
GET_ITER FOR_ITER JUMP_FORWARD JUMP_BACKWARD POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE
POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE
JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP RETURN_VALUE RETURN_CONST"""
_OPCODES = frozenset(OP[n] for n in _names.split() if n in OP)
_LOAD_CONST, _LOAD_GLOBAL, _LOAD_ATTR, _LOAD_METHOD, _IS_OP = (
    OP.get(n, -1) for n in "LOAD_CONST LOAD_GLOBAL LOAD_ATTR LOAD_METHOD IS_OP".split())

_BUILTINS = frozenset("abs bool complex divmod enumerate float int isinstance len list max min range reversed round slice sum "
                      "tuple zip".split())
# Functions that read something else than their arguments, or call what they are given.
_OPEN = frozenset("apply_along_axis from_dlpack frombuffer fromfile fromfunction fromiter fromstring loadtxt "
                  "piecewise".split())
_METHODS = frozenset("T all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod "
                     "cumsum diagonal dot dtype fill flatten imag itemsize mT max mean min nbytes ndim nonzero partition "
                     "prod put ravel real repeat reshape round searchsorted shape size sort squeeze std strides sum "
                     "swapaxes take trace transpose var".split())
_CONSTANTS = frozenset("bool bool_ complex128 complex64 e eps euler_gamma finfo float16 float32 float64 iinfo inf int16 "
                       "int32 int64 int8 intp nan ndarray newaxis pi tiny uint16 uint32 uint64 uint8".split())
_ATTRIBUTES = (frozenset(ours) - _OPEN) | _METHODS | _CONSTANTS
_FUNCTIONS = {id(f) for name, f in ours.items() if name not in _OPEN}
_NAMESPACES = {id(m) for m in modules.values()} | {id(numpy)}
_SINGLE = (None, True, False, Ellipsis)
_NUMBERS = frozenset({bool, int, float, complex, str, type(None), type(Ellipsis)})


def _is_fixed(value, copies):
    """Whether a constant is a value, or something to be called that is closed itself."""
    if type(value) in _NUMBERS:
        return True
    if type(value) in (tuple, frozenset):
        return all(_is_fixed(v, copies) for v in value)
    return (isinstance(value, (slice, numpy.generic)) or value is ndarray or id(value) in _NAMESPACES
            or id(value) in _FUNCTIONS or id(value) in copies)


def _is_closed_code(f, copies):
    code = f.__code__
    if code.co_exceptiontable or code.co_cellvars or code.co_flags & 0x2a0:     # generators, coroutines
        return False
    if not all(_is_fixed(v, copies) for v in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())):
        return False
    before = None
    for this in decode(code):
        op, arg = this[1:]
        if op == _LOAD_GLOBAL:
            name = global_name(code, this)
            # What else a global holds is seen when a call is recorded: it must be a number.
            fits = name in f.__globals__ or name in _BUILTINS
            value = f.__globals__.get(name)
            fits = fits and (type(value) in _NUMBERS or value is numpy or isinstance(value, numpy.generic))
        elif op in (_LOAD_ATTR, _LOAD_METHOD):
            fits = attr_name(code, this) in _ATTRIBUTES
        elif op == _LOAD_CONST:
            fits = _is_fixed(code.co_consts[arg], copies)
        elif op == _IS_OP:
            fits = before[1] == _LOAD_CONST and code.co_consts[before[2]] in _SINGLE
        else:
            fits = op in _OPCODES
        if not fits:
            return False
        before = this
    return True


def is_closed(rewritten):
    """Whether the rewritten function and those that it calls are closed.  Arguments are taken for arrays and numbers."""
    if rewritten.stored_globals or rewritten.stored_cells:
        return False
    copies = {id(f) for f in rewritten.copies}
    return all(_is_closed_code(f, copies) for f in rewritten.copies)
