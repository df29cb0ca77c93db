"""frit.warmup(f)(*args): plans and compiles ahead what a call needs, without computing it."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _core, _estimate, _progress
from ._units import time_text


class Warmup(NamedTuple):
    """What there is now for a call. `print()` it for a line."""

    name: str
    kernels: int            # that the call runs, each counted once: of these
    compiled: int           # were compiled now,
    from_disk: int          # were in the cache on disk,
    ready: int              # were in memory before,
    interpreted: int        # and have no machine code; `why` says for what reason
    plans: int              # that were made now
    seconds: float
    why: str | None
    stopped: str | None     # None, or why it ends before the function does: it needs a value that is not known

    def __str__(self) -> str:
        counts = ((self.compiled, "compiled"), (self.from_disk, "from disk"), (self.ready, "in memory"),
                  (self.interpreted, "interpreted"))
        parts = [f"{n} {what}" for n, what in counts if n]
        text = (f"{self.name}: {self.kernels} kernel{'' if self.kernels == 1 else 's'} in {time_text(self.seconds * 1e6)}"
                + (": " + ", ".join(parts) if parts else ""))
        return text + (f" ({self.why})" if self.interpreted and self.why else "") + (
            f"\n  ends early: {self.stopped}" if self.stopped else "")

    def __repr__(self) -> str:
        return f"<frit.Warmup of {self}>"


def _devices_of(function: Any) -> list[str]:
    """Where its calls may compute."""
    options = function._state.options if type(function) is _core.Accelerated else {}
    device = str(_core.device_open(options.get("device")))
    return [device] if device != "auto" else ["cpu", "cuda"]


def _why_interpreted() -> str | None:
    jit = _core.config_get("jit")
    if jit in ("off", "interpret"):
        return f"FRIT_JIT={jit}"
    why = _core.show_config()["compile_unavailable"]
    return why if why is None else str(why)


class _Counts:
    """Of one warmup, all its devices together."""

    def __init__(self) -> None:
        self.plans = self.kernels = self.ready = self.with_code = 0

    def plan(self, device: str, call: Callable[[], Any]) -> Any:
        """What call() gives, which estimates something, and its kernels are compiled."""
        _core.warmup_begin(device)
        try:
            e = call()
            _progress.wait(_core.warmup_wait)
        finally:
            self.add(*_core.warmup_end())
        return e

    def add(self, plans: int, kernels: int, ready: int, with_code: int) -> None:
        self.plans += plans
        self.kernels += kernels
        self.ready += ready
        self.with_code += with_code


def _counted(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: str, unknown: Any) -> tuple[Any, _Counts]:
    counts = _Counts()
    for device in _devices_of(function):
        e = counts.plan(device, lambda: _estimate.estimated(function, args, kwargs, values, unknown))
    return e, counts


def warmed_up(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], values: str | None, unknown: Any) -> Warmup:
    start = time.perf_counter()
    with _estimate._one_at_a_time:
        before = _core.stats()
        e, first = _counted(function, args, kwargs, values or "small", unknown)
        c = first
        if e.stopped and values is None:
            e, c = _counted(function, args, kwargs, "all", unknown)
        after = _core.stats()
    # (What the first one has compiled was ready for the second.)
    new = max(0, c.with_code - first.ready)
    compiled = min(new, after["n_compiled"] - before["n_compiled"])
    return Warmup(e.name, c.kernels, compiled, new - compiled, c.with_code - new, c.kernels - c.with_code,
                  first.plans + (c.plans if c is not first else 0), time.perf_counter() - start,
                  _why_interpreted() if c.kernels > c.with_code else None, e.stopped)


def warmup(function: Callable[..., Any], *, values: str | None = None, unknown: Any = None) -> Callable[..., Warmup]:
    """A function that makes ready what a call of `function` needs: its plans, and the machine code of its kernels. It waits for
    the compiler, and tells how many kernels were compiled, how many were there, and how long that took.

        frit.warmup(step)(frit.ShapeDtype((4096, 1024), "f4"), weights)

    A call with arguments of such shapes and dtypes compiles nothing then. As by frit.estimate, arguments are arrays or
    ShapeDtypes, the function itself runs, as Python, on arrays without data, what it does is undone, and its kernels do not
    run.

    `values`, `unknown`: as frit.estimate has them. None: "small", and where Python needs a value that is not known then, the
    function runs once more, with "all". Where even that does not do, `stopped` says why, and what comes behind is not ready.

    Without a compiler, and under FRIT_JIT=off, it makes the plans, and `interpreted` and `why` tell so.

    TypeError: arguments that cannot be copied. What the function raises itself is raised. Ctrl-C ends the wait; what was
    asked for is compiled behind it all the same.
    """
    if values not in (None, "small", "all"):
        raise ValueError(f"warmup(): values is 'small', 'all' or None, not {values!r}")
    if not callable(function):
        raise TypeError(f"warmup() takes a function, not {function!r}")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Warmup:
        return warmed_up(function, args, kwargs, values, unknown)
    return call
