"""frit.explain(f)(*args): what a call computes, evaluation by evaluation and kernel by kernel, and why."""
import functools
from typing import Any

from . import _core


class Explanation(str):
    """Text that shows itself when it is the last value of a line, and as a page in a notebook.

    as_dict()   all of it as plain dicts and lists
    html()      a page that needs nothing else
    """

    _parts: dict[str, Any]

    def __repr__(self) -> str:
        return str(self)

    def as_dict(self) -> dict[str, Any]:
        """What the text says, and more.

        `kernels`, `evaluations`, `bytes_read`, `bytes_written`, `syncs` and `fallbacks` (counts by name): what stats have counted
        `happened`  a list, in order: {"kind": "evaluation", "handed" (to NumPy), "read" (without an evaluation), "end" (of the
                    function), or "again": these "events" so many "times"}, with "why", "line", "syncs", "kernels", "bytes_read",
                    "bytes_written", and of evaluations "way": "plan", "nodes" (one by one), "alone", "unfused" or "pending", and
                    "plan", a number
        `plans`     of each its bytes, `nodes` (operation, dtype, shape, line, arguments: other nodes and how they are seen),
                    `groups` of nodes (why: it was not merged with its neighbour), `steps` of groups, and `memory`: where nodes
                    lie, and from which step to which
        """
        return self._parts

    def html(self) -> str:
        """A page: what happened, and of each plan its graph with the groups, the source beside its kernels, and memory."""
        from ._pages import explanation_page
        return explanation_page(self._parts)

    def _repr_html_(self) -> str:
        from ._pages import explanation_part
        return explanation_part(self._parts)


def explain(function: Any, kind: str = "plan") -> Any:
    """A function that makes a call of `function`, as accelerated functions are called, and tells what was computed on its way, in
    order, and at its end: which kernels ran, why each evaluation came, what was handed to NumPy, and why.

        print(frit.explain(step)(x, y))

    `kind` is "plan" (per kernel: source lines, operations, bytes moved against the minimum, and the reason for each boundary),
    "graph", "loops", "c" or "cuda".  What happens again is told once, with a count, and the totals are what stats count.  A small
    evaluation that comes for the first time goes node by node; it is told so, with the plan that it has from the second time on.
    The call is made: what it writes is written.  If it raises, that is raised, with a note of what was computed until then.

    A Tensor is explained itself: what computing it would do, which is not done.

    ValueError: there is no such kind.  TypeError: it is no function.  RuntimeError: a call is being explained already.
    """
    from . import _explained

    if isinstance(function, _core.Tensor):
        return _explained.of_tensor(function, kind)
    if not callable(function):
        raise TypeError(f"explain() takes a function or a Tensor, not {function!r}")
    _core.explain_pending((), kind)     # ValueError

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Explanation:
        return _explained.of_call(function, args, kwargs, kind)
    return call
