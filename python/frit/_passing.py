"""What a function hands on: which of the values that its code loads are arguments of which of its calls.

The stack is followed from each instruction to the next, with only what was loaded on it. Where a jump or an instruction
that is not known here comes between, what was loaded before it is forgotten, so that nothing is taken for an
argument that is none."""
import dis
import sys

OP = dis.opmap
NULL_ABOVE = sys.version_info >= (3, 13)            # of the callable, in a call; before that below it
CALLS_AS_METHOD = sys.version_info >= (3, 12)       # LOAD_ATTR has the bit, LOAD_METHOD is gone


def _numbers(names):
    return frozenset(OP[name] for name in names.split() if name in OP)


_LOADS = _numbers("LOAD_CONST LOAD_SMALL_INT LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_DEREF LOAD_CLOSURE")
_LOADS_TWO = _numbers("LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW")
_NOTHING = _numbers("CACHE NOP RESUME PRECALL EXTENDED_ARG COPY_FREE_VARS MAKE_CELL")
_SEQUENCES = _numbers("BUILD_LIST BUILD_TUPLE")
_GLOBAL, _NULL, _ATTR, _METHOD, _KW_NAMES, _CALL, _CALL_KW, _CALL_EX, _EXTEND = (
    OP.get(name, -1) for name in
    "LOAD_GLOBAL PUSH_NULL LOAD_ATTR LOAD_METHOD KW_NAMES CALL CALL_KW CALL_FUNCTION_EX LIST_EXTEND".split())
# How many values others take and leave; what they leave was not loaded.
_TAKES = {OP[name]: counts for name, counts in {
    "UNARY_NEGATIVE": (1, 1), "UNARY_INVERT": (1, 1), "UNARY_NOT": (1, 1), "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1),
    "BINARY_SUBSCR": (2, 1), "IS_OP": (2, 1), "CONTAINS_OP": (2, 1), "BINARY_SLICE": (3, 1), "STORE_FAST": (1, 0),
    "STORE_SUBSCR": (3, 0), "POP_TOP": (1, 0), "DICT_MERGE": (1, 0), "DICT_UPDATE": (1, 0),
}.items() if name in OP}
_BUILDS = {OP[name]: per_item for name, per_item in {
    "BUILD_MAP": 2, "BUILD_SLICE": 1, "BUILD_SET": 1, "BUILD_STRING": 1}.items() if name in OP}
_TO_TUPLE = _numbers("LIST_TO_TUPLE")
_INTRINSIC, _INTRINSIC_TO_TUPLE = OP.get("CALL_INTRINSIC_1", -1), 6


class _Sequence(list):
    """The first of the arguments that are put together before a call."""


class _Stack(list):
    def take(self, n):
        taken = self[len(self) - n:] if n <= len(self) else [None] * (n - len(self)) + self
        del self[max(len(self) - n, 0):]
        return taken


def _callee(pair):
    """What was loaded of a callable and the NULL beside it."""
    loaded = [x for x in pair if x is not None]
    return loaded[0] if len(loaded) == 1 and type(loaded[0]) is tuple else None


def arguments(code, listed):
    """(load, callee, place) for each argument of a call that is a value as it was loaded: two instructions (offset,
    opcode, argument) of `listed`, the decoded code, with the one local's number for a pair, and the number or name of
    the argument."""
    stack, names = _Stack(), ()
    for this in listed:
        op, arg = this[1:]
        found = ()
        if op in _LOADS:
            stack.append(this)
        elif op in _LOADS_TWO:
            stack += (*this[:2], arg >> 4), (*this[:2], arg & 15)
        elif op == _GLOBAL:
            stack += ([this, None] if NULL_ABOVE else [None, this]) if arg & 1 else [this]
        elif op == _NULL:
            stack.append(None)
        elif op in (_ATTR, _METHOD):
            stack.take(1)
            stack += [None] * (1 + (op == _METHOD or bool(CALLS_AS_METHOD and arg & 1)))
        elif op in _TAKES:
            n, leaves = _TAKES[op]
            stack.take(n)
            stack += [None] * leaves
        elif op in _SEQUENCES:
            stack.append(_Sequence(stack.take(arg)))
        elif op in _BUILDS:
            stack.take(arg * _BUILDS[op])
            stack.append(None)
        elif op == _EXTEND:
            stack.take(1)
        elif op in _TO_TUPLE or op == _INTRINSIC and arg == _INTRINSIC_TO_TUPLE:
            pass
        elif op == _KW_NAMES:
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
        elif op not in _NOTHING:
            stack.clear()
        for load, callee, place in found:
            if type(load) is tuple and callee is not None:
                yield load, callee, place
