"""What errors say of names that do not exist: which are near, found when somebody reads the error and not when it is raised."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def near(name: str, names: Iterable[str]) -> str:
    """": did you mean 'sum'?", or "" where none is near."""
    import difflib
    known = {n.lower(): n for n in sorted(names, reverse=True) if name.startswith("_") or not n.startswith("_")}
    found = [known[n] for n in difflib.get_close_matches(name.lower(), known, 3, 0.6 if len(name) < 5 else 0.7)]
    return ": did you mean " + " or ".join(map(repr, found)) + "?" if found else ""


class Absent(AttributeError):
    """An AttributeError whose text is made when it is read: whoever only asks whether there is a name does not pay for it."""

    def __init__(self, module: str, absent: str, theirs: Any, names: Callable[[], Iterable[str]]) -> None:
        super().__init__(f"module '{module}' has no attribute '{absent}'")
        self._asked = absent, theirs, names

    def __str__(self) -> str:
        absent, theirs, names = self._asked
        try:
            getattr(theirs, absent)
        except AttributeError as error:     # of what NumPy had once, it says what to take instead
            if "has no attribute" not in str(error):
                return f"{self.args[0]}: {error}"
        return str(self.args[0]) + near(absent, names())

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeError, (str(self),)


Absent.__module__, Absent.__qualname__, Absent.__name__ = "builtins", "AttributeError", "AttributeError"
