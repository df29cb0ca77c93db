"""Code objects with other instructions in the place of some: jumps, the table of exceptions and the lines follow
(csrc/bind/accelerate/assemble.h)."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from . import _core
from ._bytecode import BACKWARD, CACHES, JUMPS, OP, kinds

SAME = -1, 0            # of a replacement: the instruction that stood there
HERE, THERE = -1, -2    # instead of a jump's argument: it leads to SAME; to the same place in the other copy, see replace()

Changes = Mapping[int, Sequence[tuple[int, int]]]

_core.set_opcodes(bytes(CACHES[:256]), bytes((op in JUMPS) + (op in BACKWARD) for op in range(256)), kinds(),
                  OP["EXTENDED_ARG"], OP["NOP"])


def replace(code: CodeType, changes: Changes, consts: tuple[Any, ...] | None = None, more_stack: int = 0,
            again: tuple[int, Changes] | None = None) -> tuple[CodeType, int]:
    """`code` with other instructions, lists of (opcode, argument), in the place of those at some offsets, of which SAME is the
    old one; jumps that led to it lead to the first of them. They are on its line, and among what is caught where it was. The
    new ones need `more_stack` places on the stack at most. Some instructions look at the next one, or skip it (FOR_ITER,
    YIELD_VALUE, the calls of 3.11): nothing may come between these.

    `again`: (offset, changes) for a second copy of what follows the instruction there, behind the first. New jumps, whose
    argument is THERE, lead to where they stand in the other copy: to SAME from before it, and behind it from behind.
    Returns with the code the offset at which the second copy begins, or what is behind it would."""
    start, more = again or (-1, {})
    new, exceptions, lines, second = _core.assembled(
        code.co_code, code.co_exceptiontable, code.co_linetable, sorted(changes.items()), start, sorted(more.items()))
    return code.replace(
        co_code=new, co_consts=code.co_consts if consts is None else consts, co_exceptiontable=exceptions, co_linetable=lines,
        co_stacksize=code.co_stacksize + more_stack), second
