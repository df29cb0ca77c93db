"""frit.scope: names for parts of a program, in estimates and profiles."""
from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from . import _core

_F = TypeVar("_F", bound=Callable[..., Any])


class scope:
    """A name for what is done in a with statement, or by a function: a layer of a model, a phase of a step.

        with frit.scope("attention"):
            ...

        @frit.scope("loss")
        def loss(...): ...

    Estimates and profiles say what each takes, also of what is computed only later, for it belongs to where it was written.
    Scopes lie within each other and belong to the thread; nothing that is computed depends on them.

    name    text, of which a slash makes two names

    TypeError: the name is no text.
    """

    __slots__ = ("name", "_entered")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a scope's name is a str, not {type(name).__name__}")
        self.name = name
        self._entered: list[tuple[int, int, int]] = []

    def __enter__(self) -> scope:
        self._entered.append(_core.scope_enter(self.name))
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _core.scope_leave(*self._entered.pop())

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)
        return call         # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"frit.scope({self.name!r})"
