"""Writes python/frit/_core.pyi and __init__.pyi from the extension's docstrings: python tests/tools/stubs.py

tests/test_stubs.py compares the files with the extension, so they are written anew when a name is added."""
import inspect
import os
import re
import textwrap

import frit
from frit import _core
from frit._numpy import named

FOLDER = os.path.dirname(_core.__file__)
HEAD = '''"""Types of frit's compiled part.  Written by tests/tools/stubs.py."""
from typing import Any, final

import numpy

from .explain import Explanation

'''
PACKAGE = '''"""Types of the package.  Written by tests/tools/stubs.py."""
from builtins import bool as _bool
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy
from numpy import dtype as dtype, errstate as errstate, finfo as finfo, iinfo as iinfo

from . import cache as cache, energy as energy, fft as fft, linalg as linalg, machine as machine, random as random, testing as testing
from ._array_api import (
    __array_namespace_info__ as __array_namespace_info__, argsort as argsort, sort as sort, unique_values as unique_values)
from ._core import (
{names})
from ._core import Ufunc
from .device import device as device, devices as devices
from ._estimate import Estimate as Estimate
from ._meta import ShapeDtype as ShapeDtype
from ._profile import Profile as Profile
from ._scope import scope as scope
from ._warmup import Warmup as Warmup
from .explain import Explanation

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str
__array_api_version__: str
{constants}
newaxis: None
config: Any

{ufuncs}

{dtypes}


@overload
def accelerate(function: _F, *, device: str | None = None, results: str = "arrays") -> _F: ...
@overload
def accelerate(function: None = None, *, device: str | None = None, results: str = "arrays") -> Callable[[_F], _F]: ...
@overload
def explain(function: Tensor, kind: str = "plan") -> Explanation: ...
@overload
def explain(function: Callable[..., Any], kind: str = "plan") -> Callable[..., Explanation]: ...
@overload
def profile(function: _F, *, name: str = "", events: int = 65536, processes: _bool = False) -> _F: ...
@overload
def profile(function: None = None, *, name: str = "", events: int = 65536, processes: _bool = False) -> Profile: ...
def estimate(function: Callable[..., Any], *, values: str = "small", unknown: Any = None,
             machine: dict[str, Any] | None = None) -> Callable[..., Estimate]: ...
def max_batch(function: Callable[..., Any], axis: int = 0, memory: int | str | None = None, *, values: str = "small",
              unknown: Any = None) -> Callable[..., int]: ...
def warmup(function: Callable[..., Any], *, values: str | None = None, unknown: Any = None) -> Callable[..., Warmup]: ...
def load_ipython_extension(shell: Any) -> None: ...
def unload_ipython_extension(shell: Any) -> None: ...
def install() -> None: ...
def stats() -> dict[str, Any]: ...
def reset_stats() -> None: ...
def show_config(file: Any = None) -> None: ...
def wait_for_compiles(timeout: float | None = None) -> bool: ...
def isa_levels() -> list[str]: ...


# What frit does not have is NumPy's, on evaluated data.
def _handed_over(function: Any, name: str) -> Any: ...
def _no_such_name(name: str, module: str, theirs: Any, names: Callable[[], Any]) -> AttributeError: ...
def __getattr__(name: str) -> Any: ...
'''
ATTRIBUTES = {"shape": "tuple[int, ...]", "strides": "tuple[int, ...]", "ndim": "int", "size": "int",
              "itemsize": "int", "nbytes": "int", "dtype": "numpy.dtype[Any]", "T": "Tensor", "mT": "Tensor",
              "real": "Tensor", "imag": "Tensor", "device": "str", "base": "Tensor | None"}
RETURNS = {"stats": "dict[str, Any]", "stats_reset": "None", "config_list": "list[dict[str, Any]]",
           "ways": "list[dict[str, Any]]", "tuned": "list[dict[str, Any]]",
           "config_set": "None", "config_get": "int | str", "show_config": "dict[str, Any]",
           "cache_info": "dict[str, Any]", "cache_clear": "None", "cache_export": "tuple[bytes, int]", "cache_load": "int", "wait_compiles": "bool",
           "explain": "Explanation", "explain_text": "str", "explain_begin": "None", "explain_end": "dict[str, Any]", "explain_pending": "dict[str, Any]",
           "device_names": "tuple[str, ...]", "device_open": "str", "device_stream": "int | None", "device_enter": "None",
           "device_leave": "None", "device_memory": "dict[str, int]", "synchronize": "None", "give_back": "None", "crossed": "Any", "keeper": "Any", "reader": "Any",
           "looper": "Any", "plain": "Any",
           "asker": "Any", "assembled": "tuple[bytes, bytes, bytes, int]", "called_values": "tuple[set[int], set[int]]",
           "decoded": "list[tuple[int, int, int]]", "set_opcodes": "None", "set_crossing": "None", "set_replace": "None",
           "counters": "tuple[int, int, int]", "numpy_call": "Any",
           "set_items": "None", "shown": "Any", "conversion": "Any", "strided": "Any",
           "tolist": "Any", "item": "Any", "tobytes": "bytes", "numpy": "numpy.ndarray[Any, Any]",
           "fill": "None", "op_table": "list[dict[str, Any]]", "alloc_count": "int", "alloc_live": "int",
           "alloc_fail_at": "None", "machine_set": "None", "estimate_us": "float", "meta_begin": "None", "meta_end": "tuple[int, int, int]", "meta_known": "bool",
           "meta_values": "None", "warmup_begin": "None", "warmup_wait": "int", "warmup_end": "tuple[int, int, int, int]", "record_begin": "None", "record_end": "dict[str, Any]", "scope_enter": "tuple[int, int, int]", "scope_leave": "None", "memory_trim": "None", "name_modules": "None", "site_text": "str", "site_name_files": "None", "site_here": "int"}
OF_FUNCTIONS = {**RETURNS, "eval": "Any"}
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
             "rshift"]
DUNDERS = {"__array__": "numpy.ndarray[Any, Any]", "__array_namespace__": "Any", "__array_ufunc__": "Any",
           "__array_function__": "Any", "__copy__": "Tensor", "__deepcopy__": "Tensor", "__dlpack__": "Any",
           "__dlpack_device__": "tuple[int, int]"}
UNARY = ["neg", "pos", "abs", "invert"]
COMPARE = ["lt", "le", "gt", "ge"]


def parameters(f, is_method):
    """The parameters of a signature with Any for each, or everything where there is none."""
    try:
        s = inspect.signature(f)
    except (ValueError, TypeError):
        return "self, *args: Any, **kwargs: Any" if is_method else "*args: Any, **kwargs: Any"
    out, kinds = [], [p.kind for p in s.parameters.values()]
    for i, p in enumerate(s.parameters.values()):
        if p.name == "self" and is_method:
            out.append("self")
            continue
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind == p.KEYWORD_ONLY and p.KEYWORD_ONLY not in kinds[:i] and p.VAR_POSITIONAL not in kinds[:i]:
            out.append("*")
        out.append(f"{stars}{p.name}: Any" + (" = ..." if p.default is not p.empty else ""))
        if p.kind == p.POSITIONAL_ONLY and (i + 1 == len(kinds) or kinds[i + 1] != p.POSITIONAL_ONLY):
            out.append("/")
    if is_method and (not out or out[0] != "self"):
        out.insert(0, "self")
    return ", ".join(out)


def core():
    """_core.pyi"""
    lines = [HEAD, "@final", "class Tensor:"]
    for name, kind in ATTRIBUTES.items():
        lines += ["    @property", f"    def {name}(self) -> {kind}: ..."]
    for name in OPERATORS:
        if name == "pow":
            lines += [f"    def __{p}pow__(self, other: Any, mod: None = None, /) -> Tensor: ..." for p in ("", "r")]
            lines += ["    def __ipow__(self, other: Any, /) -> Tensor: ...  # type: ignore[misc]"]
            continue
        lines += [f"    def __{p}{name}__(self, other: Any, /) -> Tensor: ..." for p in ("", "r", "i")]
    lines += [f"    def __{name}__(self) -> Tensor: ..." for name in UNARY]
    lines += [f"    def __{name}__(self, other: Any, /) -> Tensor: ..." for name in COMPARE]
    lines += ["    def __eq__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]",
              "    def __ne__(self, other: Any, /) -> Tensor: ...  # type: ignore[override]",
              "    def __getitem__(self, key: Any, /) -> Tensor: ...",
              "    def __setitem__(self, key: Any, value: Any, /) -> None: ...",
              "    def __len__(self) -> int: ...", "    def __bool__(self) -> bool: ...",
              "    def __int__(self) -> int: ...", "    def __float__(self) -> float: ...",
              "    def __complex__(self) -> complex: ...", "    def __index__(self) -> int: ...",
              "    def __iter__(self) -> Any: ..."]
    lines += ["    __array_priority__: float", "    @property", "    def __array_interface__(self) -> dict[str, Any]: ...",
              "    @property", "    def __array_struct__(self) -> Any: ..."]
    lines += [f"    def {name}({parameters(getattr(_core.Tensor, name), True)}) -> {kind}: ..."
              for name, kind in DUNDERS.items()]
    for name in sorted(vars(_core.Tensor)):
        value = getattr(_core.Tensor, name)
        if not name.startswith("_") and name not in ATTRIBUTES:
            if callable(value):
                returns = RETURNS.get(name, "Tensor")
                lines.append(f"    def {name}({parameters(value, True)}) -> {returns}: ...")
            else:
                lines += ["    @property", f"    def {name}(self) -> Any: ..."]
    lines += ["", "", "@final", "class Ufunc:", "    def __new__(cls, function: Any, theirs: Any, /) -> Ufunc: ...",
              "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ..."]
    lines += [f"    def {name}({parameters(getattr(_core.Ufunc, name), True)}) -> Any: ..."
              for name in ("accumulate", "at", "outer", "reduce", "reduceat")]
    for name in "nin nout nargs ntypes types identity signature resolve_dtypes".split():
        lines += ["    @property", f"    def {name}(self) -> Any: ..."]
    lines += ["", "", "class NoDataError(RuntimeError): ..."]
    lines += ["", "", "@final", "class CallStats:"]
    lines += [f"    {name}: int" for name in ("kernels", "fallbacks", "syncs", "calls", "unchanged")]
    lines += ["    @property", "    def as_numpy(self) -> dict[str, int]: ..."]
    lines += ["", "", "@final", "class Accelerated:", "    def __new__(cls, state: Any, function: Any, stats: CallStats, /) -> Accelerated: ...",
              "    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...", "    @property",
              "    def _state(self) -> Any: ...", "    def _set_call(self, call: Any, /) -> None: ...",
              "    def _set_device(self, name: str | None, /) -> None: ...",
              "    def _set_keeps(self, keeps: bool, /) -> None: ..."]
    for name, takes in (
            ("_Method", "name: str"), ("_Receiver", "name: str"), ("_To", "exponent: float"),
            ("_Loop", "code: Any, header: int, last: int, is_for: bool")):
        lines += ["", "", "@final", f"class {name}:", f"    def __new__(cls, {takes}, /) -> {name}: ...",
                  "    def __getitem__(self, key: Any, /) -> Any: ..."]
    lines += ["", "", "_behind_numpy: dict[str, Any]", ""]
    lines += [f"{name}: Any" for name in sorted(dir(_core)) if name.isupper() and not name.startswith("_")]
    for name in sorted(dir(_core)):
        value = getattr(_core, name)
        if name.startswith("_") or isinstance(value, type) or not callable(value):
            continue
        lines.append(f"def {name}({parameters(value, False)}) -> {OF_FUNCTIONS.get(name, 'Tensor')}: ...")
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines) + "\n")


def package():
    """__init__.pyi"""
    names = sorted(n for n in {*dir(_core)} - frit._INTERNAL if not n.startswith("_") and hasattr(frit, n)
                   and getattr(frit, n) is getattr(_core, n))
    ufuncs = sorted(n for n in dir(_core) if isinstance(vars(frit).get(n), _core.Ufunc))
    return PACKAGE.format(
        ufuncs="\n".join(f"{n}: Ufunc" for n in ufuncs),
        names=textwrap.fill(", ".join(f"{n} as {n}" for n in names), 100, initial_indent="    ",
                            subsequent_indent="    ", break_long_words=False),
        constants="\n".join(f"{n}: float" for n in ("pi", "e", "inf", "nan", "euler_gamma")),
        dtypes="\n".join(f"from numpy import {n} as {n}" for n in sorted(named("dtype"))))


FILES = {"_core.pyi": core, "__init__.pyi": package}

if __name__ == "__main__":
    for name, text in FILES.items():
        with open(os.path.join(FOLDER, name), "w") as f:
            f.write(text())
