"""frit.explain(f)(*args): what f's results cost, kernel by kernel."""
import functools
from typing import Any

from . import _core


class Explanation(str):
    """Text that shows itself when it is the last value of a cell or line."""

    def __repr__(self) -> str:
        return str(self)


def explain(function: Any, kind: str = "plan") -> Any:
    """A function that calls `function` and tells what computing its results would do.

    `kind` is "plan" (per kernel: source lines, operations, bytes moved against the minimum, and the
    reason for each boundary), "graph", "loops", "c" or "cuda".  Arrays among the arguments become
    tensors; nothing that f returns is computed.  A Tensor is explained itself.
    """
    if isinstance(function, _core.Tensor):
        return Explanation(_core.explain_text([function], kind))

    from .accelerate import explained

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Explanation:
        return Explanation(explained(function, args, kwargs,
                                     lambda tensors: _core.explain_text(tensors, kind)))
    return call
