"""frit makes ordinary NumPy code fast without changing what it means.

Functions and operators on frit.Tensor record what is to be computed; it is computed, in fused and
compiled kernels, when Python needs a value.  @frit.accelerate does this to a NumPy function as it is.
"""
import math as _math
import os as _os
import sys as _sys
from typing import Any as _Any

import numpy as _np

if "t" in _sys.abiflags:
    raise ImportError("frit does not run on free-threaded Python (3.13t, 3.14t): use the build of Python that has the GIL")

from . import _core
from ._core import Tensor
from ._numpy import named as _named

# What of _core is for the modules of this package and for tests.
_INTERNAL = frozenset({
    "Accelerated", "CALLED", "COMES", "CallStats", "ENTER", "ITERATED", "LEAVES", "MADE", "POWER", "POWERED", "SHOWN", "STORED",
    "Ufunc", "alloc_count", "alloc_fail_at", "alloc_live", "asker", "assembled", "borrow", "cache_clear", "cache_export",
    "cache_info", "cache_load",
    "called_plain", "called_values", "config_get", "config_list", "config_set", "conversion", "counters", "crossed",
    "decoded", "device_enter", "device_leave", "device_memory", "device_names", "device_open", "device_stream",
    "estimate_us", "explain_begin", "explain_end", "explain_pending", "explain_text",
    "few_names", "give_back", "keeper", "looper", "machine_set", "memory_trim", "meta_begin",
    "meta_end", "meta_known", "meta_like", "meta_values", "name_modules", "numpy_call", "op_table", "outside", "plain",
    "reader", "record_begin", "record_end", "scope_enter", "scope_leave", "set_crossing", "set_items", "set_opcodes",
    "set_replace", "share", "shown",
    "site_here", "site_name_files", "site_text", "stats_reset", "strided", "tuned", "type_of", "wait_compiles", "ways",
    "warmup_begin", "warmup_end", "warmup_wait"})


_ufuncs = {}


def _shown(function: _Any, name: str) -> _Any:
    """A function of ours as the package has it: with reduce, at and the like where NumPy's is a ufunc."""
    theirs = getattr(_np, name, None)
    if isinstance(theirs, _np.ufunc) and function not in _ufuncs:    # abs is absolute
        _ufuncs[function] = _core.Ufunc(function, theirs)
    return _ufuncs.get(function, function)


globals().update({_name: _shown(getattr(_core, _name), _name) for _name in dir(_core)
                  if not _name.startswith("_") and _name not in _INTERNAL})

from ._array_api import __array_namespace_info__, argsort, sort, unique_values
from .accelerate import accelerate
from .device import device, devices
from ._install import install
from .explain import explain
from .info import isa_levels, reset_stats, show_config, stats, wait_for_compiles

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

pi, e, inf, nan, newaxis = _math.pi, _math.e, _math.inf, _math.nan, None
euler_gamma = _np.euler_gamma

globals().update({_name: getattr(_np, _name) for _name in _named("dtype")})
dtype, finfo, iinfo, errstate = _np.dtype, _np.finfo, _np.iinfo, _np.errstate

_SUBMODULES = ("cache", "config", "energy", "machine", "fft", "linalg", "random", "testing", "demo")
_LATER = {"estimate": "_estimate", "Estimate": "_estimate", "max_batch": "_limits", "ShapeDtype": "_meta", "profile": "_profile",
          "Profile": "_profile", "scope": "_scope", "warmup": "_warmup", "Warmup": "_warmup",     # and their modules
          "load_ipython_extension": "_notebook", "unload_ipython_extension": "_notebook"}
_THEIRS = _named("shown")


def _handed_over(function: _Any, name: str) -> _Any:
    """NumPy's `function` on evaluated tensors; what it returns becomes tensors.  Counted."""
    def call(*args: _Any, **kwargs: _Any) -> _Any:
        return _core.numpy_call(function, args, kwargs)
    module, _, call.__name__ = name.rpartition(".")
    call.__qualname__ = call.__name__
    call.__doc__ = getattr(function, "__doc__", None)
    call.__module__ = f"{__name__}.{module}" if module else __name__
    call.__wrapped__ = function     # whose signature it has
    return call


_absent: _Any = None        # _names.Absent, once a name was


def _no_such_name(name: str, module: str, theirs: _Any, names: _Any) -> AttributeError:
    """That there is no such name; protocols that are asked for pay nothing for what is near."""
    if name.startswith("_"):
        return AttributeError(f"module '{module}' has no attribute '{name}'")
    global _absent
    if _absent is None:
        from ._names import Absent as _absent
    return _absent(module, name, theirs, names)     # type: ignore[no-any-return]


def __getattr__(name: str) -> _Any:
    # Imported when they are asked for: none of them is needed to compute something.
    if name in _SUBMODULES:
        import importlib
        return importlib.import_module("." + name, __name__)
    if name in _LATER:
        import importlib
        return globals().setdefault(name, getattr(importlib.import_module("." + _LATER[name], __name__), name))
    value = None if name.startswith("_") else getattr(_np, name, None)
    if value is None or (isinstance(value, type(_math)) and name not in _THEIRS):
        raise _no_such_name(name, __name__, _np, __dir__)
    if callable(value) and not isinstance(value, type):
        value = _shown(_handed_over(value, name), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    theirs = (n for n, v in vars(_np).items() if not (n.startswith("_") or v is None
                                                         or isinstance(v, type(_math))))
    return sorted({*globals(), *_SUBMODULES, *_LATER, *_THEIRS, *theirs})


if "FRIT_TRACE" in _os.environ:
    from ._profile import join as _join
    _join()
