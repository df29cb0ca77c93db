"""How large a call may be, and whether it has grown: frit.max_batch, Estimate.check, Estimate.diff."""
from __future__ import annotations

import contextlib
import functools
import os
import re
import resource
from collections.abc import Callable
from typing import Any

import numpy

from . import _core
from ._meta import ShapeDtype, asked_of
from ._units import bytes_text

def machine_bytes() -> int:
    """Memory that this process may still have: what the system says is available, within the limits of its control groups and of
    its address space."""
    found = []
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        found += [1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    for most, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        with contextlib.suppress(OSError, ValueError), open(f"/sys/fs/cgroup/{most}", encoding="ascii") as limit, \
                open(f"/sys/fs/cgroup/{used}", encoding="ascii") as now:
            found.append(max(int(limit.read()) - int(now.read()), 0))
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
            found.append(max(soft - resource.getpagesize() * int(file.read().split()[0]), 0))
    return min(found, default=os.sysconf("SC_PHYS_PAGES") * resource.getpagesize())


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def bytes_of(memory: int | str | None) -> int:
    """A number of bytes, or text like "16 GB" or "512MiB"; None: what this machine has left."""
    if memory is None:
        return machine_bytes()
    if isinstance(memory, str):
        m = re.fullmatch(r"\s*([0-9.]+)\s*([kmgt]?i?)b?\s*", memory.lower())
        if m is None or m[2] not in _UNITS:
            raise ValueError(f"memory is a number of bytes or text like '16 GB', not {memory!r}")
        memory = int(float(m[1]) * _UNITS[m[2]])
    return memory


def _order_of(o: Any) -> str:
    if isinstance(o, ShapeDtype):
        return o.order
    columns = isinstance(o, numpy.ndarray) and o.flags.f_contiguous and not o.flags.c_contiguous
    return "F" if columns else "C"


def _resized(o: Any, axis: int, old: int, new: int) -> Any:
    """Arrays with `old` elements along the axis, wherever they are, as ShapeDtypes with `new`."""
    if isinstance(o, (ShapeDtype, numpy.ndarray, _core.Tensor)):
        if -o.ndim <= axis < o.ndim and o.shape[axis] == old:
            shape = list(o.shape)
            shape[axis] = new
            return ShapeDtype(tuple(shape), o.dtype, _order_of(o))
        return o
    if isinstance(o, (list, tuple)) and type(o) in (list, tuple):
        return type(o)(_resized(x, axis, old, new) for x in o)
    if type(o) is dict:
        return {k: _resized(v, axis, old, new) for k, v in o.items()}
    return o


def first_array(o: Any) -> Any:
    if isinstance(o, (ShapeDtype, numpy.ndarray, _core.Tensor)):
        return o if o.ndim else None
    items = o if isinstance(o, (list, tuple)) else o.values() if isinstance(o, dict) else ()
    return next((a for a in map(first_array, items) if a is not None), None)


def max_batch(function: Callable[..., Any], axis: int = 0, memory: int | str | None = None, *, values: str = "small",
              unknown: Any = None) -> Callable[..., int]:
    """A function that tells how many elements its arguments may have along `axis`, so that a call of `function` needs at most
    `memory`: a number of bytes, text like "16 GB", or None for what this machine has left.

        frit.max_batch(step, memory="16 GB")(frit.ShapeDtype((32, 1024), "f4"), weights)

    All arrays that have as many elements along the axis as the first array among the arguments grow with it. Nothing is
    computed or allocated. MemoryError: one element does not fit. ValueError: there is no such axis; or the estimate ends early,
    as frit.estimate() says."""
    from ._estimate import estimated

    asked_of("max_batch", function)

    def call(*args: Any, **kwargs: Any) -> int:
        most, first = bytes_of(memory), first_array([args, kwargs])
        if first is None or not -first.ndim <= axis < first.ndim:
            raise ValueError(f"max_batch(): the arguments have no array with an axis {axis}")
        old: int = first.shape[axis]

        @functools.cache
        def needed(n: int) -> int:
            again, named = _resized((args, kwargs), axis, old, n)
            e = estimated(function, again, named, values, unknown)
            if e.stopped:
                raise ValueError(f"max_batch(): {e.stopped}")
            return int(e.total_bytes)
        if needed(1) > most:
            raise MemoryError(f"one element along axis {axis} needs {bytes_text(needed(1))}, and there are {bytes_text(most)}")
        low, high = 1, max(old, 1)
        while needed(high) <= most:
            if high > 1 << 48:
                raise ValueError(f"max_batch(): what the call needs does not grow with axis {axis}")
            low, high = high, 2 * high
        while high - low > 1:
            at, from_low = (low + high) // 2, needed(low)
            slope = (needed(high) - from_low) / (high - low)
            if slope > 0:       # most of it is a line
                at = min(max(low + int((most - from_low) / slope), low + 1), high - 1)
            if needed(at) <= most:
                low = at
                if at + 1 < high and needed(at + 1) > most:
                    return at
            else:
                high = at
        return low
    return call


# ---- two of them ----

_COMPARED = "peak_bytes", "first_peak_bytes", "result_bytes", "argument_bytes", "us", "bytes", "ops"


class Difference:
    """What one estimate or profile has more than another: `rows` of (what, before, after). As a gate in CI:

        frit.estimate(f)(x).diff(before).check(peak_bytes=0, us=0.05)
    """

    def __init__(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.before, self.after = before, after
        self.rows: list[tuple[str, float, float]] = [(k, before.get(k, 0), after[k]) for k in _COMPARED if k in after]
        for what in ("kernels", "fallbacks", "syncs"):
            self.rows.append((what, _number(before, what), _number(after, what)))

    def check(self, **tolerance: float) -> None:
        """AssertionError: one of these has grown by more than that share (0: at all)."""
        known = {k for k, _, _ in self.rows}
        if not set(tolerance) <= known:
            raise ValueError(f"check() knows {', '.join(sorted(known))}, not {', '.join(sorted(set(tolerance) - known))}")
        grown = [f"{k} from {_number_text(a)} to {_number_text(b)}" for k, a, b in self.rows
                 if k in tolerance and b > a * (1 + tolerance[k])]
        if grown:
            raise AssertionError(f"{self.after['name']} takes more than before: " + "; ".join(grown))

    def html(self) -> str:
        """A page that needs nothing else: all of it before and after, by function and by kernel."""
        from ._pages import difference_page
        return difference_page(self.before, self.after, self.rows)

    def _repr_html_(self) -> str:
        from ._pages import difference_part
        return difference_part(self.before, self.after, self.rows)

    def __str__(self) -> str:
        lines = [f"{'':18}{'before':>20}{'after':>20}{'ratio':>8}"]
        for k, a, b in self.rows:
            ratio = b / a if a else 1 if a == b else float("inf")
            lines.append(f"{k:18}{_number_text(a):>20}{_number_text(b):>20}{ratio:8.3f}")
        return "\n".join(lines)

    __repr__ = __str__


def _number_text(x: float) -> str:
    """All digits of a whole number: of two that are nearly the same it is seen in which they differ."""
    return f"{x:,.0f}" if x == int(x) else f"{x:,.6g}"


def _number(e: dict[str, Any], what: str) -> int:
    counts = [k["runs"] for k in e["kernels"] if k["is_kernel"]] if what == "kernels" else e[what].values()
    return sum(map(int, counts))
