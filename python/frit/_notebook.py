"""%load_ext frit: %%frit runs a cell as an accelerated function runs, %frit_line one statement.

A cell runs in the user's names, as python -m frit runs a script in a module's (_install.py): what it assigns are NumPy's arrays
and numbers when it has ended. This module is imported by IPython's %load_ext only."""
from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import IPython.core.magic
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class

from . import _core, _install, _membrane
from ._pages import sources
from .accelerate import CallStats
from .device import device

_REPORTS = "explain", "estimate", "profile"
_VALUE = "_frit_value"      # what the last expression of a cell is assigned to while it runs
_TENSOR: Any = _core.Tensor
# (Old IPythons have none, and `;` silences no magic there.)
_can_be_silenced = getattr(IPython.core.magic, "output_can_be_silenced", lambda magic: magic)
_MAGICS = {"cell": "frit", "line": "frit_line"}


# ---- options

class _Options(NamedTuple):
    report: str | None          # one of _REPORTS
    device: str | None


def _options(magic: str, line: str) -> tuple[_Options, str]:
    """What the options at the beginning of a line say, and the rest of the line."""
    report = where = None
    while (found := re.match(r"\s*--([\w-]*)(?:=(\S*))?(?=\s|$)", line)) is not None:
        name, value = found.groups()
        line = line[found.end():]
        if name == "device":
            if value is None:
                value, _, line = line.strip().partition(" ")
            if not value or value.startswith("--"):
                raise UsageError(f"{magic} --device: the name of a device is missing; there are "
                                 f"{', '.join(_core.device_names())} and auto")
            where = value
        elif name not in _REPORTS:
            raise UsageError(f"{magic}: no option --{name}; there are --explain, --estimate, --profile and --device NAME")
        elif value is not None:
            raise UsageError(f"{magic}: --{name} takes no value, not {value!r}")
        elif report not in (None, name):
            raise UsageError(f"{magic}: --{report} or --{name}, not both")
        else:
            report = name
    return _Options(report, where), line.strip()


# ---- the code of a cell

def _asks_for_await(tree: ast.Module) -> bool:
    """Whether it is code of a coroutine, at the top level."""
    try:
        code = compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True)
    except (SyntaxError, ValueError):
        return False
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _assign_last(tree: ast.Module) -> None:
    """The last statement, if it is an expression, assigns its value."""
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        target = ast.copy_location(ast.Name(_VALUE, ast.Store()), last)
        tree.body[-1] = ast.copy_location(ast.Assign([target], last.value, None), last)


def _count(shell: Any) -> int:
    """The number of the cell that runs, In[number]."""
    result = shell.displayhook.exec_result
    return getattr(result, "execution_count", None) or int(shell.execution_count)


def _code_of(shell: Any, first_line: str, source: str) -> CodeType:
    """The code of the lines behind the first one, if there is one, as IPython compiles cells: with the magics and lines for the
    system that they hold, under a file name by which tracebacks show the cell."""
    text = first_line + source
    name = shell.compile.cache(text, _count(shell), raw_code=text)
    above = re.match(r"(?:[ \t]*\n)*", source)       # IPython leaves empty lines out
    n_above = bool(first_line) + (above[0].count("\n") if above else 0)
    tree = shell.compile.ast_parse("\n" * n_above + shell.transform_cell(source), filename=name)
    if _asks_for_await(tree):
        raise UsageError("%%frit: await is for functions in such a cell, not for its top level: run it without %%frit, or call "
                         "an async function by asyncio.run(...)")
    tree = shell.transform_ast(tree)
    if shell.ast_node_interactivity != "none":
        _assign_last(tree)
    code: CodeType = shell.compile(tree, name, "exec")
    return code


# ---- --estimate: the user's names are as they were

def _functions_of(value: Any) -> Iterator[FunctionType]:
    """A function, or those of a class or of an object's class."""
    value = inspect.unwrap(value) if callable(value) else value
    value = getattr(value, "__func__", value)
    if isinstance(value, FunctionType):
        yield value
        return
    for of in (value if isinstance(value, type) else type(value)).__mro__:
        for member in vars(of).values():
            member = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(member, FunctionType):
                yield member


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _reached(code: CodeType, names: dict[str, Any]) -> dict[str, Any]:
    """What a cell may use of the user's names: those that it names, or that functions and classes behind these name."""
    found: dict[str, Any] = {}
    todo = [code]
    while todo:
        for name in _names_in(todo.pop()):
            if name in names and name not in found:
                found[name] = names[name]
                todo += [f.__code__ for f in _functions_of(names[name]) if f.__globals__ is names]
    return found


def _estimated(code: CodeType, names: dict[str, Any], title: str) -> Any:
    from ._estimate import Estimate, run
    from ._meta import arrays_bytes, reached

    out = Estimate(title)
    out.argument_bytes = arrays_bytes(reached(_reached(code, names)))
    run(out, lambda: _install.execute(code, names, CallStats()), [names], "small", None)
    return out


# ---- running it

def _where(name: str | None) -> Any:
    """A block that computes on a device."""
    try:
        return nullcontext() if name is None else device(name)
    except (ValueError, RuntimeError) as e:
        raise UsageError(f"--device {name}: {e}") from e


def _profiled(code: CodeType, names: dict[str, Any], title: str, show: Callable[[Any], None]) -> None:
    """A cell that raises is shown until then: somebody may have interrupted it because it took too long."""
    from ._profile import profile

    p = profile(name=title)
    p.begin()
    try:
        _install.execute(code, names, CallStats())
    finally:
        p.end()
        show(p)


def _execute(code: CodeType, names: dict[str, Any], report: str | None, title: str, show: Callable[[Any], None]) -> None:
    """Runs a cell, and shows what is to be told of it."""
    if not _membrane.works:
        if report is not None:
            raise UsageError("frit does not know the code of this Python, which runs the cell as it is")
        exec(code, names)
    elif report == "explain":
        show(_install.explained(code, names, title))
    elif report == "estimate":
        show(_estimated(code, names, title))
    elif report == "profile":
        _profiled(code, names, title, show)
    else:
        _install.execute(code, names, CallStats())


@magics_class
class FritMagics(Magics):      # type: ignore[misc]
    """%%frit and %frit_line."""

    @_can_be_silenced     # type: ignore[untyped-decorator]
    @cell_magic     # type: ignore[untyped-decorator]
    def frit(self, line: str, cell: str) -> Any:
        """%%frit [--explain | --estimate | --profile] [--device NAME]

        Runs the cell on frit: its own statements, and the user's functions and classes that they lead to, as in a function
        decorated by @frit.accelerate. What it assigns are NumPy's arrays; the last expression is shown as that of any cell.

          --explain     and shows what was computed: which lines became which kernel, when, and why
          --estimate    computes nothing, and shows what it would take: memory, time, bytes. Its statements run, on arrays without
                        data and copies of objects; all names are as they were then, but what it prints is printed
          --profile     and shows what took how long, also of a cell that raises or is interrupted
          --device      where it computes: cpu, cuda, cuda:1, auto
        """
        __tracebackhide__ = True
        options, rest = _options("%%frit", line)
        if rest:
            raise UsageError(f"%%frit: {rest!r} is no option; statements begin on the next line")
        return self._run(options, f"%%frit {line}".rstrip() + "\n", cell)

    @_can_be_silenced     # type: ignore[untyped-decorator]
    @line_magic     # type: ignore[untyped-decorator]
    def frit_line(self, line: str) -> Any:
        """%frit_line [--explain | --estimate | --profile] [--device NAME] statement

        Runs one statement as %%frit runs a cell."""
        __tracebackhide__ = True
        options, statement = _options("%frit_line", line)
        if not statement:
            raise UsageError("%frit_line: a statement is missing")
        return self._run(options, "", statement)

    def _run(self, options: _Options, first_line: str, source: str) -> Any:
        __tracebackhide__ = True
        names = self.shell.user_ns
        code = _code_of(self.shell, first_line, source)
        try:
            with _where(options.device):
                _execute(code, names, options.report, f"In[{_count(self.shell)}]", self._show)
            return names.get(_VALUE)
        except BaseException as e:
            e.__traceback__ = _install.without_us(e.__traceback__) or e.__traceback__
            raise
        finally:
            names.pop(_VALUE, None)

    def _show(self, report: Any) -> None:
        """As HTML where it has some and it can be looked at, else as text."""
        if getattr(self.shell, "kernel", None) is not None and hasattr(report, "_repr_html_"):
            from IPython.display import display
            display(report)
        else:
            print(report)


def load_ipython_extension(shell: Any) -> None:
    """What %load_ext frit calls."""
    told = getattr(shell.compile, "format_code_name", lambda file: None)       # (old ones tell nothing)

    def name(file: str) -> str:
        if (found := told(file)) is None:
            return file
        sources.files[str(found[1])] = file
        return str(found[1])

    shell.register_magics(FritMagics(shell))
    _core.site_name_files(name)


def unload_ipython_extension(shell: Any) -> None:
    """What %unload_ext frit calls."""
    _core.site_name_files(None)
    for kind, name in _MAGICS.items():
        shell.magics_manager.magics[kind].pop(name, None)
