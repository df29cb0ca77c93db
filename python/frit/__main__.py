"""python -m frit script.py [args], python -m frit -m module [args]: runs a program of the user's, unchanged, on frit.

The module's own statements and the user's functions and classes that they lead to run as accelerated functions do
(_membrane.py); installed packages and Python's library get arrays. What the program prints, writes and returns is what it
does by itself. With --stats, what it did is printed on stderr at the end."""
import importlib.util
import os
import sys
import types
from typing import Any

from . import _outside
from ._install import run_program
from .accelerate import CallStats

_USAGE = "usage: python -m frit [--stats] script.py [args]\n       python -m frit [--stats] -m module [args]"


def _script(path: str) -> tuple[Any, str, str | None]:
    """(code, file, package) of a script."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as e:
        sys.exit(f"{sys.executable}: can't open file {path!r}: [Errno {e.errno}] {e.strerror}")
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    return compile(source, path, "exec"), path, None


def _module(name: str) -> tuple[Any, str, str | None]:
    sys.path[0] = os.getcwd()
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            name += ".__main__"
            spec = importlib.util.find_spec(name)
    except (ImportError, AttributeError, ValueError) as e:
        sys.exit(f"{sys.executable}: Error while finding module specification for {name!r} ({type(e).__name__}: {e})")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(name) if hasattr(loader, "get_code") else None
    if spec is None or code is None:
        sys.exit(f"{sys.executable}: No module named {name}")
    return code, str(spec.origin), name.rpartition(".")[0]


def script(path: str, arguments: list[str]) -> tuple[Any, types.ModuleType]:
    """(code, module) of a script, as the program that Python runs."""
    code, path, _ = _script(path)
    sys.argv = [path, *arguments]
    return code, _as_main(path, None)


def _as_main(path: str, package: str | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, __package__=package, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    return module


def main(arguments: list[str]) -> None:
    """Runs the program that the arguments name."""
    tells = arguments[:1] == ["--stats"]
    arguments = arguments[tells:]
    if not arguments or arguments[0] in ("-h", "--help") or arguments[0] == "-m" and len(arguments) < 2:
        print(_USAGE, file=sys.stderr if not arguments or arguments[0] == "-m" else sys.stdout)
        sys.exit(2 if not arguments or arguments[0] == "-m" else 0)
    if arguments[0] == "-m":
        code, path, package = _module(arguments[1])
        sys.argv = [path, *arguments[2:]]
    else:
        code, path, package = _script(arguments[0])
        sys.argv = arguments
    module, stats = _as_main(path, package), CallStats()
    if package:
        _outside.adopted.add(package.partition(".")[0])
    try:
        run_program(code, module.__dict__, stats)
    finally:
        if tells:
            print(stats, file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
