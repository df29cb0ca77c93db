"""What csrc/bind/tensor/record.c has of what ran or would run, by kernel, by line and by layer."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    """What is the same in all its runs of one kernel, matrix product or copy."""

    kind: str               # "map", "row reduction", "reduction", "scan", "copy", "node by itself" and so on
    operations: str         # their names, a space between them
    shape: str              # over which it runs
    lines: tuple[tuple[str, float], ...]    # ("file.py:12 in f", its share of the time)
    runs: int
    us: float               # microseconds of all runs together
    bytes_read: int         # of one run
    bytes_written: int
    ops: float              # operations of one run
    tier: str               # "compiled", "interpreted", "precompiled", "without BLAS", "NumPy's" (products by its BLAS)
    device: str
    arrays: int             # that one run does at once
    is_kernel: bool         # and no second part of one, or matrix product
    why: str | None         # it was not merged with its neighbour
    places: tuple[tuple[str, str, float], ...] = ()     # (scope, line, its share): the lines in their scopes
    threads: float = 0.0    # that a run had, on average; 0 of what has not run, and of NumPy's BLAS, which has its own
    limit_us: float = 0.0   # the machine could do one run no sooner; 0: it is not known

    @property
    def bytes(self) -> int:
        """Moved by all runs."""
        return self.runs * (self.bytes_read + self.bytes_written)

    @property
    def share_of_limit(self) -> float | None:
        """What part of the time the machine's memory or arithmetic makes necessary: 1 is the most; None: it is not known."""
        return min(1.0, self.limit_us * self.runs / self.us) if self.limit_us and self.us else None


class Line(NamedTuple):
    """What a line of the user's code takes."""

    where: str
    us: float
    bytes: float
    ops: float


class Layer:
    """What a scope, a class or a function takes, and what is in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.us = self.bytes = self.ops = 0.0
        self.wall_us: float | None = None       # that passed in a frit.scope; None: it is none, or nothing was measured
        self.runs = 0                           # of the scope
        self.parts: dict[str, Layer] = {}

    @property
    def children(self) -> list[Layer]:
        """Those that take longest first."""
        return sorted(self.parts.values(), key=lambda x: -x.us)

    def within(self, names: Iterable[str]) -> list[Layer]:
        """The layers on the way down by these names."""
        way, at = [], self
        for name in names:
            at = at.parts.setdefault(name, Layer(name))
            way.append(at)
        return way

    def as_dict(self) -> dict[str, Any]:
        plain = ("name", "us", "bytes", "ops", "wall_us", "runs")
        return {**{k: getattr(self, k) for k in plain}, "children": [x.as_dict() for x in self.children]}


def _together(a: Kernel, b: Kernel) -> Kernel:
    """All runs of two that do the same."""
    runs = a.runs + b.runs
    return a._replace(runs=runs, us=a.us + b.us, threads=(a.threads * a.runs + b.threads * b.runs) / runs,
                      limit_us=(a.limit_us * a.runs + b.limit_us * b.runs) / runs)


def kernels_of(rows: list[dict[str, Any]], us_per_tick: float = 0.0) -> list[Kernel]:
    """What does the same in several plans is one, with all their runs."""
    found: dict[tuple[Any, ...], Kernel] = {}
    for r in rows:
        if not r["runs"]:
            continue
        lines: dict[str, float] = {}
        places: dict[tuple[str, str], float] = {}
        for where, share, scope in r["lines"]:
            lines[where] = lines.get(where, 0) + share
            places[scope, where] = places.get((scope, where), 0) + share
        k = Kernel(lines=tuple(lines.items()), places=tuple((*at, share) for at, share in places.items()),
                   **{name: r[name] for name in Kernel._fields if name not in ("lines", "places")})
        k = k._replace(us=k.us + r["ticks"] * us_per_tick, threads=r["threads"] / r["runs"])
        key = k._replace(runs=0, us=0.0, threads=0.0, limit_us=0.0)
        found[key] = _together(found[key], k) if key in found else k
    return list(found.values())


def lines_of(kernels: Iterable[Kernel]) -> list[Line]:
    """Lines of the user's code, those that take longest first."""
    found: dict[str, list[float]] = {}
    for k in kernels:
        for where, share in k.lines:
            line = found.setdefault(where, [0.0, 0.0, 0.0])
            line[0] += share * k.us
            line[1] += share * k.bytes
            line[2] += share * k.runs * k.ops
    return sorted((Line(where, *sums) for where, sums in found.items()), key=lambda at: -at.us)


def function_of(where: str) -> str:
    """The function of "file.py:12 in Dense.forward"."""
    return where.rpartition(" in ")[2]


def layers_of(parts: Iterable[tuple[float, float, float, Iterable[tuple[str, str, float]]]]) -> list[Layer]:
    """(us, bytes, operations, places) as a tree: scopes, within them classes and functions."""
    top = Layer("")
    for us, n_bytes, ops, places in parts:
        for scope, where, share in places:
            function = function_of(where).split(".<locals>.")[-1]
            names = [*(scope.split("/") if scope else ()), *(function.rsplit(".", 1) if where else ())]
            for layer in top.within(names):
                layer.us += share * us
                layer.bytes += share * n_bytes
                layer.ops += share * ops
    return top.children


def at_peak_of(p: dict[str, Any]) -> list[tuple[int, str, str]]:
    """(bytes, what, line) of the arrays of a Profile.as_dict() at its peak, the most first; arrays of one kind are one row."""
    found: dict[tuple[str, str], list[int]] = {}
    for a in p["at_peak"]:
        found.setdefault((f"{a['dtype']} {tuple(a['shape'])}", a["where"]), []).append(a["bytes"])
    rows = [(sum(n), f"{len(n)} arrays {what}" if len(n) > 1 else what, where) for (what, where), n in found.items()]
    if p["temporary_bytes"]:
        rows.append((p["temporary_bytes"], "temporaries of one evaluation", ""))
    return sorted(rows, key=lambda row: -row[0])
