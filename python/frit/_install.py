"""frit.install(): the rest of a program as python -m frit would run it; and how a module's code is run so (__main__.py)."""
import ast
import os
import sys
import types
from types import CodeType
from typing import Any

from . import _core, _membrane
from .accelerate import CallStats
from .explain import explain

_running = False


def execute(code: CodeType, names: dict[str, Any], stats: CallStats) -> None:
    """Runs the code of a module, whose names are in that dictionary, as an accelerated function is run."""
    global _running
    was, _running = _running, True
    try:
        _core.crossed(_execute, (_membrane.crossing(code, names), names), {}, False, stats)
    finally:
        _running = was


def explained(code: CodeType, names: dict[str, Any], name: str) -> Any:
    """Runs it, and gives what frit.explain says of a function of that name that does."""
    global _running
    run = types.FunctionType(_execute.__code__, globals())
    run.__name__ = run.__qualname__ = name
    was, _running = _running, True
    try:
        return explain(run)(_membrane.crossing(code, names), names)
    finally:
        _running = was


def run_program(code: CodeType, names: dict[str, Any], stats: CallStats) -> None:
    """The same for a whole program: where it raises, that is said as Python says it, and the program ends."""
    try:
        if _membrane.works:
            execute(code, names, stats)
        else:
            exec(code, names)
    except SystemExit:
        raise
    except BaseException as e:
        e.__traceback__ = without_us(e.__traceback__)
        sys.excepthook(type(e), e, e.__traceback__)
        raise SystemExit(130 if isinstance(e, KeyboardInterrupt) else 1) from None


def _execute(code: CodeType, names: dict[str, Any]) -> None:
    exec(code, names)


def without_us(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The part of a traceback that is the program's."""
    folder = os.path.dirname(os.path.abspath(__file__))
    while traceback is not None and os.path.dirname(os.path.abspath(traceback.tb_frame.f_code.co_filename)) == folder:
        traceback = traceback.tb_next
    return traceback


def _rest(path: str, line: int) -> CodeType:
    """The statements of a script behind the one that is in that line."""
    with open(path, "rb") as file:
        tree = ast.parse(file.read(), path)
    at = [i for i, s in enumerate(tree.body) if isinstance(s, ast.Expr) and s.lineno <= line <= (s.end_lineno or s.lineno)]
    if not at:
        raise RuntimeError("frit.install() is to be a statement of its own in the script, within no other")
    future = [s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    return compile(ast.Module(future + tree.body[at[0] + 1:], tree.type_ignores), path, "exec")


def install() -> None:
    """Runs the rest of the script on frit, as `python -m frit script.py` runs all of it, and ends the program then.

    It is to be called in a statement of the script itself (of `__main__`), which is read again from its file; elsewhere
    it raises RuntimeError. Under `python -m frit`, and after the first time, it does nothing."""
    if _running:
        return
    frame = sys._getframe(1)
    names = frame.f_globals
    if names.get("__name__") != "__main__" or frame.f_locals is not names or not os.path.isfile(names.get("__file__", "")):
        raise RuntimeError("frit.install() is for scripts that are run by themselves, in a statement of their own")
    if not _membrane.works:
        return
    run_program(_rest(names["__file__"], frame.f_lineno), names, CallStats())
    raise SystemExit(0)
