"""Bytecode: the one module that knows opcodes, of Python 3.11 to 3.14.

An instruction is (offset, opcode, argument), without inline caches and prefixes. Others ask for sets of opcodes by what
they do (`of`), for names and for what becomes of what was loaded, and for instructions that do something else instead
(_assemble.py puts them there).

The module needs nothing but Python's library, so that tests can ask other Pythons than their own for their opcodes."""
import dis
import opcode
import sys
from collections.abc import Iterable, Iterator
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType
from typing import Any

Instruction = tuple[int, int, int]

OP = dis.opmap
NOTHING: Instruction = -2, -2, 0     # before the first and after the last
_NULL_ABOVE = sys.version_info >= (3, 13)           # of the callable, in a call; before that below it
_CALLS_AS_METHOD = sys.version_info >= (3, 12)      # LOAD_ATTR has the bit, LOAD_METHOD is gone

# A row: which functions may have such instructions (plain: those of a few operations; closed: these and those that only
# compute, by _closed.py; other: all; none: they are in no code that functions have), what they do, how many values they
# take from the stack and leave there (-: that depends, or is not followed), and the opcodes, each in one row.
_TABLE = """
plain   nothing   0 0   NOP PRECALL
plain   resume    0 0   RESUME
closed  nothing   0 0   COPY_FREE_VARS MAKE_CELL NOT_TAKEN
plain   constant  0 1   LOAD_CONST LOAD_SMALL_INT
plain   local     0 1   LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW
plain   locals    0 2   LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW
closed  cell      0 1   LOAD_DEREF LOAD_CLOSURE
other   classcell - -   LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF
plain   global    - -   LOAD_GLOBAL
plain   attribute - -   LOAD_ATTR LOAD_METHOD
plain   null      - -   PUSH_NULL
plain   store     1 0   STORE_FAST
closed  store     - -   DELETE_FAST LOAD_FAST_AND_CLEAR
plain   stores    - -   STORE_FAST_LOAD_FAST STORE_FAST_STORE_FAST
closed  setcell   - -   STORE_DEREF
other   setcell   - -   DELETE_DEREF
other   setglobal - -   STORE_GLOBAL DELETE_GLOBAL
closed  setattr   - -   STORE_ATTR
closed  setitem   3 0   STORE_SUBSCR
closed  setitem   4 0   STORE_SLICE
plain   operator  1 1   UNARY_NEGATIVE UNARY_INVERT
plain   operator  2 1   BINARY_OP COMPARE_OP
closed  truth     1 1   UNARY_POSITIVE UNARY_NOT TO_BOOL
closed  truth     2 1   IS_OP
other   contains  2 1   CONTAINS_OP
plain   item      2 1   BINARY_SUBSCR
plain   slice     3 1   BINARY_SLICE
plain   stack     1 0   POP_TOP
plain   stack     - -   SWAP COPY
plain   build     - -   BUILD_TUPLE BUILD_SLICE
closed  build     - -   BUILD_LIST BUILD_MAP BUILD_STRING BUILD_CONST_KEY_MAP
other   build     - -   BUILD_SET BUILD_TEMPLATE BUILD_INTERPOLATION
closed  append    - -   LIST_APPEND LIST_EXTEND MAP_ADD
other   append    1 0   DICT_MERGE DICT_UPDATE
other   append    - -   SET_ADD SET_UPDATE
closed  convert   - -   LIST_TO_TUPLE CALL_INTRINSIC_1
closed  format    - -   FORMAT_VALUE FORMAT_SIMPLE FORMAT_WITH_SPEC CONVERT_VALUE
closed  iterable  1 1   GET_ITER
closed  unpack    - -   UNPACK_SEQUENCE
other   unpack    - -   UNPACK_EX
closed  names     - -   KW_NAMES
plain   call      - -   CALL
closed  call      - -   CALL_KW
other   call      - -   CALL_FUNCTION_EX
closed  function  - -   MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE
closed  iterate   - -   FOR_ITER
closed  jump      - -   END_FOR POP_ITER JUMP_FORWARD JUMP_BACKWARD
closed  jump      - -   POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE
closed  jump      - -   POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_NONE
closed  jump      - -   POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_FALSE
closed  jump      - -   POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP
plain   return    - -   RETURN_VALUE RETURN_CONST
closed  raise     - -   RAISE_VARARGS RERAISE LOAD_ASSERTION_ERROR LOAD_COMMON_CONSTANT
other   import    - -   IMPORT_NAME
other   import    - -   IMPORT_FROM IMPORT_STAR
other   except    - -   PUSH_EXC_INFO CHECK_EXC_MATCH CHECK_EG_MATCH PREP_RERAISE_STAR POP_EXCEPT CALL_INTRINSIC_2
other   enter     - -   BEFORE_WITH
other   except    - -   WITH_EXCEPT_START LOAD_SPECIAL JUMP_BACKWARD_NO_INTERRUPT
other   suspend   - -   RETURN_GENERATOR YIELD_VALUE SEND END_SEND CLEANUP_THROW GET_YIELD_FROM_ITER ASYNC_GEN_WRAP
other   suspend   - -   GET_AWAITABLE GET_AITER GET_ANEXT END_ASYNC_FOR BEFORE_ASYNC_WITH
other   class     - -   LOAD_BUILD_CLASS DELETE_NAME LOAD_LOCALS LOAD_FROM_DICT_OR_GLOBALS
other   name      0 1   LOAD_NAME
other   setname   1 0   STORE_NAME
other   class     - -   SETUP_ANNOTATIONS PRINT_EXPR
other   super     - -   LOAD_SUPER_ATTR
other   match     - -   MATCH_CLASS MATCH_KEYS MATCH_MAPPING MATCH_SEQUENCE GET_LEN
other   delete    - -   DELETE_ATTR DELETE_SUBSCR
none    prefix    - -   CACHE EXTENDED_ARG
none    internal  - -   INTERPRETER_EXIT ENTER_EXECUTOR EXIT_INIT_CHECK RESERVED
none    compiler  - -   JUMP JUMP_NO_INTERRUPT JUMP_IF_TRUE JUMP_IF_FALSE POP_BLOCK SETUP_FINALLY SETUP_CLEANUP SETUP_WITH
none    compiler  - -   STORE_FAST_MAYBE_NULL LOAD_SUPER_METHOD LOAD_ZERO_SUPER_METHOD LOAD_ZERO_SUPER_ATTR
none    compiler  - -   ANNOTATIONS_PLACEHOLDER BINARY_OP_INPLACE_ADD_UNICODE
"""
_ROWS = [line.split() for line in _TABLE.split("\n") if line]


def of(*kinds: str) -> frozenset[int]:
    """The opcodes of this Python that do one of these things."""
    return frozenset(OP[name] for _, kind, _, _, *names in _ROWS if kind in kinds for name in names if name in OP)


def _within(*levels: str) -> frozenset[int]:
    return frozenset(OP[name] for level, _, _, _, *names in _ROWS if level in levels for name in names if name in OP)


def is_known(name: str) -> bool:
    """Whether an opcode has a row, or is never in a function's code, where it stands for one that has."""
    return name.startswith("INSTRUMENTED_") or any(name in row[4:] for row in _ROWS)


PLAIN, CLOSED = _within("plain"), _within("plain", "closed")
_LOADS, _LOADS_TWO = of("constant", "local", "cell"), of("locals")
_EFFECTS = {OP[name]: (int(takes), int(leaves)) for _, kind, takes, leaves, *names in _ROWS
            if takes != "-" for name in names if name in OP}
HAS_LOCAL, LOADS_ATTRIBUTE = frozenset(dis.haslocal), of("attribute")


def _numbers(names: str) -> Iterator[int]:
    """Opcodes by name; -1 for one that this Python has not."""
    return (OP.get(name, -1) for name in names.split())


TAKES_VALUE = frozenset(OP[name] for name in ("STORE_GLOBAL", "STORE_DEREF", "STORE_NAME"))
LOAD_CONST, LOAD_GLOBAL, LOAD_DEREF, _LOAD_SMALL_INT = _numbers("LOAD_CONST LOAD_GLOBAL LOAD_DEREF LOAD_SMALL_INT")
_LOAD_FAST, STORE_FAST, _STORE_DEREF, RETURN_GENERATOR = _numbers("LOAD_FAST STORE_FAST STORE_DEREF RETURN_GENERATOR")
_LOAD_ATTR, _LOAD_METHOD, STORE_ATTR = _numbers("LOAD_ATTR LOAD_METHOD STORE_ATTR")
BINARY_OP, BINARY_SLICE, IS_OP, IMPORT_NAME = _numbers("BINARY_OP BINARY_SLICE IS_OP IMPORT_NAME")
BUILD_SLICE, BUILD_TUPLE, _LIST_EXTEND, _LIST_TO_TUPLE = _numbers("BUILD_SLICE BUILD_TUPLE LIST_EXTEND LIST_TO_TUPLE")
_PUSH_NULL, KW_NAMES, _CALL, _CALL_KW, _CALL_EX = _numbers("PUSH_NULL KW_NAMES CALL CALL_KW CALL_FUNCTION_EX")
_INTRINSIC, _SWAP = _numbers("CALL_INTRINSIC_1 SWAP")
_SEQUENCES = {OP[name] for name in ("BUILD_LIST", "BUILD_TUPLE")}
_BUILDS = {OP["BUILD_MAP"]: 2, OP["BUILD_SLICE"]: 1, OP["BUILD_SET"]: 1, OP["BUILD_STRING"]: 1}    # values per item
_INTRINSIC_TO_TUPLE = 6
_OPERATORS = [symbol for _, symbol in getattr(opcode, "_nb_ops", ())]
IN_PLACE = frozenset(i for i, symbol in enumerate(_OPERATORS) if symbol.endswith("="))


def operators(*symbols: str) -> frozenset[int]:
    """The arguments of BINARY_OP that stand for these operators, and for those in place."""
    return frozenset(i for i, symbol in enumerate(_OPERATORS) if symbol.removesuffix("=") in symbols)


SUBSCRIPTS = operators("[]")
_JUMP_IF = OP.get("POP_JUMP_FORWARD_IF_TRUE", OP.get("POP_JUMP_IF_TRUE", -1))

# ---- instructions

JUMPS = frozenset(dis.hasjrel)
BACKWARD = frozenset(op for op in dis.hasjrel if "BACKWARD" in dis.opname[op])
LOOPS = frozenset(op for op in BACKWARD if "NO_INTERRUPT" not in dis.opname[op])    # where a loop turns
_table: Any = getattr(opcode, "_inline_cache_entries", {})
CACHES = [_table.get(name, 0) if isinstance(_table, dict) else (_table[op] if op < len(_table) else 0)
          for op, name in enumerate(dis.opname)]     # code units behind an instruction


def jumps_to(this: Instruction) -> int:
    """The offset to which a jump leads."""
    at, op, arg = this
    return at + 2 * (1 + CACHES[op] + (-arg if op in BACKWARD else arg))


def tree(code: CodeType) -> list[CodeType]:
    """The code object and those of all functions written inside it."""
    found, todo = [], [code]
    while todo:
        code = todo.pop()
        found.append(code)
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]
    return found


def labels(listed: Iterable[Instruction]) -> set[int]:
    """The offsets to which jumps lead."""
    return {jumps_to(this) for this in listed if this[1] in JUMPS}


def global_name(code: CodeType, this: Instruction) -> str:
    return code.co_names[this[2] >> 1]      # the lowest bit asks for a NULL


def attr_name(code: CodeType, this: Instruction) -> str:
    return code.co_names[this[2] >> 1 if _CALLS_AS_METHOD else this[2]]


def cell_name(code: CodeType, this: Instruction) -> str:
    name: str = code._varname_from_oparg(this[2])   # type: ignore[attr-defined]
    return name


def locals_of(this: Instruction) -> tuple[int, int]:
    """The numbers of the local variables that an instruction on two of them has, the one on top last."""
    return this[2] >> 4, this[2] & 15


def constant(code: CodeType, this: Instruction) -> Any:
    """The constant that an instruction of that kind loads."""
    return this[2] if this[1] == _LOAD_SMALL_INT else code.co_consts[this[2]]


# ---- what becomes of a value that was loaded


def is_attr(i: Instruction, as_method: bool) -> bool:
    """Whether `i` loads an attribute: plainly, or as the method of a call that follows."""
    if i[1] == _LOAD_METHOD:
        return as_method
    return i[1] == _LOAD_ATTR and bool(_CALLS_AS_METHOD and i[2] & 1) == as_method


def has_null(before: Instruction, this: Instruction) -> bool:
    """Whether a NULL was pushed with the value, or, of a cell's, below it."""
    if this[1] == LOAD_GLOBAL:
        return bool(this[2] & 1)
    return before[1] == _PUSH_NULL


def attribute_called(null: bool, after: Instruction, after2: Instruction) -> bool:
    """Whether the value loaded before `after` is only asked for an attribute that is called at once.
    `null`: the value was pushed above the NULL of that call (before 3.13)."""
    if is_attr(after, True):
        return True
    if not is_attr(after, False):
        return False
    if _NULL_ABOVE:
        return after2[1] == _PUSH_NULL
    return null and not is_attr(after2, True) and not is_attr(after2, False)


def called(null: bool, after: Instruction) -> bool:
    """Whether the value loaded before `after` is itself called."""
    if _NULL_ABOVE:
        null = null or after[1] == _PUSH_NULL
    return null and not is_attr(after, True) and not is_attr(after, False)


class _Sequence(list[Any]):
    """The first of the arguments that are put together before a call."""


class _Stack(list[Any]):
    def take(self, n: int) -> list[Any]:
        taken = self[len(self) - n:] if n <= len(self) else [None] * (n - len(self)) + self
        del self[max(len(self) - n, 0):]
        return taken


def _callee(pair: list[Any]) -> Instruction | None:
    """What was loaded of a callable and the NULL beside it."""
    loaded = [x for x in pair if x is not None]
    return loaded[0] if len(loaded) == 1 and type(loaded[0]) is tuple else None


def arguments(code: CodeType, listed: Iterable[Instruction]) -> Iterator[tuple[Instruction, Instruction, int | str]]:
    """(load, callee, place) for each argument of a call that is a value as it was loaded: two instructions of `listed`,
    the decoded code, with the one local's number for a pair, and the number or name of the argument.

    The stack is followed from each instruction to the next, with only what was loaded on it. Where a jump or an
    instruction that is not followed comes between, what was loaded before it is forgotten, so that nothing is taken for
    an argument that is none."""
    stack = _Stack()
    names: tuple[str, ...] = ()
    for this in listed:
        op, arg = this[1:]
        found: list[tuple[Any, Instruction | None, int | str]] = []
        if op in _LOADS:
            stack.append(this)
        elif op in _LOADS_TWO:
            stack += [(*this[:2], local) for local in locals_of(this)]
        elif op == LOAD_GLOBAL:
            stack += ([this, None] if _NULL_ABOVE else [None, this]) if arg & 1 else [this]
        elif op == _PUSH_NULL:
            stack.append(None)
        elif op in LOADS_ATTRIBUTE:
            stack.take(1)
            stack += [None] * (1 + is_attr(this, True))
        elif op in _EFFECTS:
            takes, leaves = _EFFECTS[op]
            stack.take(takes)
            stack += [None] * leaves
        elif op in _SEQUENCES:
            stack.append(_Sequence(stack.take(arg)))
        elif op in _BUILDS:
            stack.take(arg * _BUILDS[op])
            stack.append(None)
        elif op == _LIST_EXTEND:
            stack.take(1)
        elif op == _LIST_TO_TUPLE or op == _INTRINSIC and arg == _INTRINSIC_TO_TUPLE:
            pass
        elif op == KW_NAMES:
            names = code.co_consts[arg]
        elif op in (_CALL, _CALL_KW):
            if op == _CALL_KW:
                (keys,) = stack.take(1)
                names = code.co_consts[keys[2]] if keys else ()
            values = stack.take(arg)
            callee = _callee(stack.take(2))
            places = [*range(arg - len(names)), *names]
            found, names = [(v, callee, p) for v, p in zip(values, places)], ()
            stack.append(None)
        elif op == _CALL_EX:
            stack.take(arg & 1)
            (values,) = stack.take(1)
            callee = _callee(stack.take(2))
            if type(values) is _Sequence:
                found = [(v, callee, p) for p, v in enumerate(values)]
            stack.append(None)
        else:
            stack.clear()
        for load, callee, place in found:
            if type(load) is tuple and callee is not None:
                yield load, callee, place


# ---- what is called

_MAKES_TOP = of("operator", "item", "slice", "build", "call", "attribute", "convert", "function", "truth", "contains", "format",
                "iterable", "unpack", "super")
_ENDS = frozenset(OP[name] for name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD",
                                        "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT") if name in OP)
_COPY, _PRECALL = _numbers("COPY PRECALL")


def kinds() -> bytes:
    """A letter for each opcode that csrc/bind/accelerate/bytecode.c asks for."""
    letters = {"m": _MAKES_TOP, "e": _ENDS, "k": {_CALL_KW, _CALL_EX}, "c": {_CALL}, "p": {_PRECALL}, "s": {_SWAP}, "y": {_COPY},
               "g": {LOAD_GLOBAL}, "n": {_PUSH_NULL}}
    found = {op: letter for letter, ops in letters.items() for op in ops}
    return "".join(found.get(op, " ") for op in range(256)).encode()


# ---- instructions instead of others: [(opcode, argument)]

Instead = list[tuple[int, int]]

CAN_REWRITE = all(name in OP for name in ("LOAD_GLOBAL", "LOAD_CONST", "PUSH_NULL", "SWAP"))
_NULL = _PUSH_NULL, 0
_SUBSCRIPT = (OP["BINARY_SUBSCR"], 0) if "BINARY_SUBSCR" in OP else (BINARY_OP, min(SUBSCRIPTS, default=0))


def load_constant(this: Instruction, index: int) -> Instead:
    """A constant instead of the global that `this` loads."""
    load = LOAD_CONST, index
    if not this[2] & 1:
        return [load]
    return [load, _NULL] if _NULL_ABOVE else [_NULL, load]


def load_callable(after: Instruction, index: int) -> tuple[Instead, Instead]:
    """A constant that is called: instead of a global, and instead of its attribute `after` that was called."""
    if not _NULL_ABOVE:
        return [_NULL], [(LOAD_CONST, index)]
    return [(OP["NOP"], 0)], [(LOAD_CONST, index), *([_NULL] if is_attr(after, True) else [])]


def load_item(index: int) -> Instead:
    """The object's item in a constant, `constant[object]`, instead of its method; one more place on the stack."""
    item = [(LOAD_CONST, index), (_SWAP, 2), _SUBSCRIPT]
    return [*item, _NULL] if _NULL_ABOVE else [_NULL, (_SWAP, 2), *item]


def called_attr(this: Instruction, more: Instead) -> Instead:
    """Instead of a method that `this` loads: the attribute, and `more` of it, to be called by itself."""
    plain = [(_LOAD_ATTR, this[2] & ~1 if _CALLS_AS_METHOD else this[2]), *more]
    return [*plain, _NULL] if _NULL_ABOVE else [_NULL, (_SWAP, 2), *plain]


def item_of_top(index: int, depth: int = 1) -> Instead:
    """`constant[value]` instead of a value on the stack, the one on top or deeper; one more place on the stack."""
    deeper = [(_SWAP, depth)] if depth > 1 else []
    return [*deeper, (LOAD_CONST, index), (_SWAP, 2), _SUBSCRIPT, *deeper]


def asked(index: int, top: bool) -> Instead:
    """`constant[value]` for the value on top of the stack, which stays, or for the constant; the answer is dropped."""
    value = (_COPY, 1) if top else (LOAD_CONST, index)
    return [value, (LOAD_CONST, index), (_SWAP, 2), _SUBSCRIPT, (OP["POP_TOP"], 0)]


def is_conditional(this: Instruction) -> bool:
    """Whether a jump asks for the value on top of the stack."""
    return "POP_JUMP" in dis.opname[this[1]]


def load_global(this: Instruction, more: Instead) -> Instead:
    """The global, and `more` of it, with the NULL that it is loaded with where it was."""
    plain = [(this[1], this[2] & ~1), *more]
    if not this[2] & 1:
        return plain
    return [*plain, _NULL] if _NULL_ABOVE else [_NULL, *plain]


def unpacked(this: Instruction) -> int:
    """How many values an instruction leaves that unpacks one."""
    return this[2] if this[1] == OP["UNPACK_SEQUENCE"] else (this[2] & 0xff) + 1 + (this[2] >> 8)


def changed_parameters(code: CodeType, more: Instead, in_cell: Instead) -> Instead:
    """`more` done to each parameter, at the beginning of the function, or `in_cell` to one that inner functions see."""
    n = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    out: Instead = []
    for i, name in enumerate(code.co_varnames[:n]):
        if name in code.co_cellvars:
            out += [(LOAD_DEREF, i), *in_cell, (_STORE_DEREF, i)]
        else:
            out += [(_LOAD_FAST, i), *more, (STORE_FAST, i)]
    return out


def formatted(this: Instruction) -> int:
    """How deep on the stack the value lies that an instruction formats."""
    return 2 if this[1] == OP.get("FORMAT_VALUE") and this[2] & 4 or this[1] == OP.get("FORMAT_WITH_SPEC") else 1


def jump_if(index: int, to: int) -> Instead:
    """A jump forward to `to` where a constant is true."""
    return [(LOAD_CONST, index), *([(OP["TO_BOOL"], 0)] if "TO_BOOL" in OP else []), (_JUMP_IF, to)]


def jump_back(to: int) -> Instead:
    return [(OP["JUMP_BACKWARD"], to)]


NOTHING_DONE: Instead = [(OP["NOP"], 0)]


def stored_item(index: int) -> Instead:
    """`constant[value, container]` instead of the value that STORE_SUBSCR stores; one more place on the stack."""
    return [(_SWAP, 3), (_COPY, 2), (BUILD_TUPLE, 2), (LOAD_CONST, index), (_SWAP, 2), _SUBSCRIPT, (_SWAP, 3)]


def item_of_two(index: int) -> Instead:
    """`constant[a, b]` instead of an operator between the two values on top of the stack."""
    return [(BUILD_TUPLE, 2), (LOAD_CONST, index), (_SWAP, 2), _SUBSCRIPT]
