"""Code objects with other instructions in the place of some: jumps, the table of exceptions and the lines follow.

Like _bytecode.py it needs nothing but Python's library. The formats are those of CPython's
InternalDocs/exception_handling.md and InternalDocs/code_objects.md (Objects/locations.md and
Objects/exception_handling_notes.txt before 3.14)."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from ._bytecode import BACKWARD, CACHES, JUMPS, OP, decode

SAME = -1, 0            # of a replacement: the instruction that stood there
HERE, THERE = -1, -2    # instead of a jump's argument: it leads to SAME; to the same place in the other copy, see replace()

_EXTENDED_ARG = OP["EXTENDED_ARG"]
_LONGEST = 8                    # code units that one entry of the lines is for
_DELTA_IN_KIND = 10, 11, 12     # kinds of entries that are so many lines, 0 to 2, below the one before; of others
_DELTA_FIRST = 13, 14           # the first number says it, or they are on the same line


class _Unit:
    """An instruction: of the old code at `start` (in code units), or a new one."""

    __slots__ = ("op", "arg", "start", "target", "to", "at", "width", "n_caches")

    def __init__(self, op: int, arg: int, start: int) -> None:
        self.op, self.arg, self.start = op, arg, start      # start: where its prefixes begin; of the one that it stands for
        self.target = -1        # of a jump: where the old code has what it leads to,
        self.to: _Unit | None = None    # and what that is
        self.at = 0             # where the new code has it
        self.width = 1 if arg <= 0xff else 2 if arg <= 0xffff else 3 if arg <= 0xffffff else 4     # without its caches
        self.n_caches = CACHES[op]

    def later(self, units: int) -> _Unit:
        """The same, of a copy of the old code that begins so much later."""
        new = _Unit(self.op, self.arg, self.start + units)
        new.target, new.width = self.target + units if self.target >= 0 else -1, self.width
        return new


def _units(code: CodeType) -> Iterator[tuple[int, _Unit]]:
    """(offset, instruction)."""
    start = 0
    for offset, op, arg in decode(code):
        unit, at = _Unit(op, arg, start), offset // 2
        start = at + 1 + unit.n_caches
        if op in JUMPS:
            unit.target, unit.width = start - arg if op in BACKWARD else start + arg, 1
        yield offset, unit


def _settle(units: Sequence[_Unit], n_old: int) -> list[int]:
    """Gives every instruction its place and every jump its length; returns where the old places have gone. (Those of the
    second copy, see replace(), come behind those of the first.)"""
    jumps = [(u, u.to) for u in units if u.to is not None]
    while True:
        where, at = [-1] * (n_old + 1), 0
        for u in units:
            if where[u.start] < 0:
                where[u.start] = at
            u.at = at
            at += u.width + u.n_caches
        where[n_old] = at
        grown = False
        for u, to in jumps:
            after = u.at + u.width + u.n_caches
            u.arg = after - to.at if u.op in BACKWARD else to.at - after
            wanted = 1 if u.arg <= 0xff else 2 if u.arg <= 0xffff else 3
            grown, u.width = grown or wanted > u.width, max(wanted, u.width)
        if not grown:
            break
    for i in range(n_old, 0, -1):       # what lies within an instruction goes with what follows it
        if where[i - 1] < 0:
            where[i - 1] = where[i]
    return where


def _encode(units: Iterable[_Unit]) -> bytes:
    out = bytearray()
    for u in units:
        for shift in range(8 * (u.width - 1), 0, -8):
            out += bytes((_EXTENDED_ARG, u.arg >> shift & 0xff))
        out.append(u.op)
        out.append(u.arg & 0xff)
        if u.n_caches:
            out += bytes(2 * u.n_caches)
    return bytes(out)


# ---- the table of exceptions: (start, length, target, depth and a bit) in digits of six bits, the highest first

def _exceptions(table: bytes, where: Sequence[int], first: int = 0) -> bytes:
    """The entries whose instructions lie behind `first`, where those are now."""
    out, values, value = bytearray(), [], 0
    for byte in table:
        value = value << 6 | byte & 0x3f
        if not byte & 0x40:
            values.append(value)
            value = 0
    for start, length, target, depth in zip(*[iter(values)] * 4):
        if start < first:
            continue
        begin, end = where[start], where[start + length]
        for i, v in enumerate((begin, end - begin, where[target], depth)):
            digits = [v & 0x3f]
            while v := v >> 6:
                digits.append(v & 0x3f | 0x40)
            digits[-1] |= 0x80 if i == 0 else 0
            out += bytes(reversed(digits))
    return bytes(out)


# ---- the lines: entries of a kind and a length, then numbers in digits of six bits, the lowest first

def _delta(kind: int, payload: bytes) -> int:
    """How many lines below the one before it an entry is."""
    if kind in _DELTA_IN_KIND:
        return kind - _DELTA_IN_KIND[0]
    if kind not in _DELTA_FIRST:
        return 0
    value = shift = 0
    for byte in payload:
        value |= (byte & 0x3f) << shift
        shift += 6
        if not byte & 0x40:
            break
    return -(value >> 1) if value & 1 else value >> 1


def _entries(table: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(offset in code units, length, kind, payload)."""
    at, i, n = 0, 0, len(table)
    while i < n:
        end = i + 1
        while end < n and table[end] < 0x80:
            end += 1
        yield at, (table[i] & 7) + 1, table[i] >> 3 & 15, table[i + 1:end]
        at += (table[i] & 7) + 1
        i = end


def _lines(table: bytes, where: Sequence[int], first: int = 0) -> bytes:
    """The entries with the lengths that their instructions have now, each in as many as it needs; without those of
    instructions before `first`."""
    out, new = bytearray(), where[first]
    for at, n_units, kind, payload in _entries(table):
        at += n_units
        if at <= first:
            continue
        length, new = where[at] - new, where[at]
        while length > 0:
            out.append(0x80 | kind << 3 | min(length, _LONGEST) - 1)
            out += payload
            length -= _LONGEST
            if kind in _DELTA_IN_KIND:      # the others are on the same line
                kind = _DELTA_IN_KIND[0]
            elif kind in _DELTA_FIRST and payload[0]:
                digits = next(k for k, byte in enumerate(payload, 1) if not byte & 0x40)
                payload = b"\0" + payload[digits:]
    return bytes(out)


def _back(table: bytes, first: int) -> bytes:
    """An entry of one instruction that comes after all, on the line of the one before `first`."""
    lines = -sum(_delta(kind, payload) for at, n_units, kind, payload in _entries(table) if at + n_units > first)
    value, out = abs(lines) << 1 | (lines < 0), bytearray((0x80 | _DELTA_FIRST[0] << 3,))
    while value > 0x3f:
        out.append(value & 0x3f | 0x40)
        value >>= 6
    out.append(value)
    return bytes(out)


Changes = Mapping[int, Sequence[tuple[int, int]]]


def _changed(old: Sequence[tuple[int, _Unit]], changes: Changes) -> tuple[list[_Unit], dict[int, int]]:
    """The instructions of a copy, and the number in it of each old one that is still there, by its offset."""
    units: list[_Unit] = []
    same: dict[int, int] = {}
    for offset, unit in old:
        for new in changes.get(offset, (SAME,)):
            if new is SAME:
                same[offset] = len(units)
            units.append(unit if new is SAME else _Unit(new[0], max(new[1], 0), unit.start))
            if new[1] < 0:
                units[-1].target, units[-1].arg, units[-1].width = new[1] - 1, offset, 1
    return units, same


def _lead(copies: Sequence[tuple[list[_Unit], dict[int, int]]]) -> None:
    """Gives each jump the instruction that it leads to."""
    first: dict[int, _Unit] = {}
    for units, _ in copies:
        for u in units:
            first.setdefault(u.start, u)
    for i, (units, same) in enumerate(copies):
        there, same_there = copies[i - 1]
        for k, u in enumerate(units):
            if u.target >= 0:
                u.to = first[u.target]
            elif u.target == HERE - 1:
                u.to = units[same[u.arg]]
            elif u.target == THERE - 1:
                u.to = there[same_there[u.arg] + (k > same[u.arg])]


def replace(code: CodeType, changes: Changes, consts: tuple[Any, ...] | None = None, more_stack: int = 0,
            again: tuple[int, Changes] | None = None) -> tuple[CodeType, int]:
    """`code` with other instructions, (opcode, argument), in the place of those at some offsets, of which SAME is the old
    one; jumps that led to it lead to the first of them. They are on its line, and among what is caught where it was. The
    new ones need `more_stack` places on the stack at most. Some instructions look at the next one, or skip it (FOR_ITER,
    YIELD_VALUE, the calls of 3.11): nothing may come between these.

    `again`: (offset, changes) for a second copy of what follows the instruction there, behind the first. New jumps, whose
    argument is THERE, lead to where they stand in the other copy: to SAME from before it, and behind it from behind.
    Returns with the code the offset at which the second copy begins, or what is behind it would."""
    n_old = len(code.co_code) // 2
    old = list(_units(code))
    copies = [_changed(old, changes)]
    first = n_old
    if again is not None:       # with an instruction on the line where the first copy began
        begins = next(k for k, (offset, _) in enumerate(old) if offset == again[0])
        first = old[begins + 1][1].start
        later = [(offset, u.later(n_old + 1)) for offset, u in old[begins + 1:]]
        copies.append(_changed([(again[0], _Unit(OP["NOP"], 0, n_old)), *later], again[1]))
    _lead(copies)
    units = [u for copy, _ in copies for u in copy]
    where = _settle(units, n_old if again is None else 2 * n_old + 1)
    exceptions, lines = _exceptions(code.co_exceptiontable, where), _lines(code.co_linetable, where)
    if again is not None:
        second = where[n_old + 1:]
        exceptions += _exceptions(code.co_exceptiontable, second, first)
        lines += _back(code.co_linetable, first) + _lines(code.co_linetable, second, first)
    new = code.replace(
        co_code=_encode(units), co_consts=code.co_consts if consts is None else consts, co_exceptiontable=exceptions,
        co_linetable=lines, co_stacksize=code.co_stacksize + more_stack)
    return new, 2 * where[n_old]
