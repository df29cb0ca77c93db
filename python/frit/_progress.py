"""A line that tells how a wait for the compiler goes, from its second second on: in a terminal, where it is written over and goes
in the end, or below a notebook's cell. Into pipes and files nothing is written."""
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_SOON_S, _SLICE_S = 1.0, 0.2    # nothing is said before; then as often


def _kernels(n: int) -> str:
    return f"frit: {n} kernel{'' if n == 1 else 's'} left to compile"


class _Terminal:
    def __init__(self, file: Any) -> None:
        self.file, self.width = file, 0

    def say(self, text: str) -> None:
        self.file.write("\r" + text.ljust(self.width))
        self.file.flush()
        self.width = len(text)

    def end(self, text: str) -> None:
        self.say("")
        self.file.write("\r")
        self.file.flush()


class _Notebook:
    def __init__(self, display: Callable[..., Any]) -> None:
        self.display, self.shown = display, None

    def say(self, text: str) -> None:
        data = {"text/plain": text}
        if self.shown is None:
            self.shown = self.display(data, raw=True, display_id=True)
        else:
            self.shown.update(data, raw=True)

    end = say


def _line() -> _Terminal | _Notebook | None:
    """Where somebody looks; None: nobody does."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display
        return _Notebook(display)
    try:
        return _Terminal(sys.stderr) if sys.stderr.isatty() else None
    except (AttributeError, ValueError):    # there is none, or it is closed
        return None


def wait(step: Callable[[float], int], timeout: float | None = None) -> bool:
    """Calls step(seconds), which waits no longer than that and gives the number of kernels that are left, until there are none.
    False: that took more than `timeout` seconds."""
    start = time.monotonic()
    end = float("inf") if timeout is None else start + timeout
    line, said = None, False
    left = step(min(_SOON_S, end - start))
    try:
        while left and time.monotonic() < end:
            if not said:
                line, said = _line(), True
            if line is not None:
                line.say(_kernels(left))
            left = step(max(0.0, min(_SLICE_S, end - time.monotonic())))
    finally:
        if line is not None:
            line.end(f"frit: waited {time.monotonic() - start:.1f} s for the compiler")
    return not left
