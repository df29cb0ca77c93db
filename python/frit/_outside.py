"""Which modules, functions, classes and objects are somebody else's: Python's library and what was installed beside it.

An accelerated function calls them with real arrays and numbers (csrc/bind/accelerate/outside.c). Not among them are NumPy, which
knows tensors by its protocols, frit, and the user's own code, wherever it lies: it is written for arrays as the
accelerated function is, and what it computes with tensors is computed with the rest."""
import functools
import site
import sys
import types
from typing import Any

from . import _core
from ._numpy import named

# Modules that ask their arguments for no more than a tensor can tell, or do nothing with them but hand them on.
_TELLING = frozenset("abc bisect builtins cmath collections contextlib copy dataclasses enum functools gc heapq itertools math "
                     "operator random sys types typing warnings weakref".split())
_OURS = frozenset({"__main__", "numpy", __package__})
_STRANGERS = tuple(f"numpy.{name}" for name in named("stranger"))
_known: dict[str, bool] = {}    # name of a package -> whether it is somebody else's
adopted: set[str] = set()       # installed packages that the user names, and modules of frit's with accelerated functions


def _find_folders() -> tuple[str, ...]:
    """Where installed packages lie. Asked for when it is wanted: sysconfig reads a file of Python's for it."""
    import sysconfig
    found = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    if hasattr(site, "getsitepackages"):
        found.update(site.getsitepackages(), [site.getusersitepackages()])
    return tuple(filter(None, found))


_folders = functools.cache(_find_folders)


def is_package_outside(name: str) -> bool:
    if name in adopted:
        return False
    found = _known.get(name)
    if found is None:
        module = sys.modules.get(name)
        path = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), "")
        found = _known[name] = name not in _TELLING | _OURS and (name in sys.stdlib_module_names or path.startswith(_folders()))
    return found


def is_outside(value: Any, own: str) -> bool:
    """Whether a value is somebody else's: neither of Python's telling modules nor of the package `own`, nor the user's."""
    kind = type(value)
    if kind is functools.partial:
        return is_outside(value.func, own)
    if issubclass(kind, types.ModuleType):
        found = [value.__name__]
    else:       # A jitted function says that it is of the module of the function that it was made from.
        found = [getattr(value, "__module__", None), None if issubclass(kind, type) else kind.__module__]
    names = [name for name in found if type(name) is str]
    packages = [name.partition(".")[0] for name in names]
    return (any(package != own and is_package_outside(package) for package in packages)
            or any(name.startswith(_STRANGERS) for name in names))


NONE: Any = object()


def attribute(o: Any, name: str) -> Any:
    """What an object has by this name, or NONE, without asking the object: what stands for another may have none just now, or
    make it then. (isinstance() asks as well; type() does not.)"""
    try:
        return object.__getattribute__(o, name)
    except AttributeError:
        return NONE


def adopt_module(f: Any) -> None:
    """A module of frit's that accelerates a function of its own (the demo's) is like a user's. (Another's function may be
    accelerated, too, NumPy's or SciPy's; its package stays another's.)"""
    name = getattr(f, "__module__", None)
    if type(name) is str and name.startswith(f"{__package__}."):
        adopted.add(name)


def outside(value: Any, root: Any) -> Any:
    """What the function `root` is to call instead of `value`, or None: `value` itself."""
    if value is None or type(value) in (types.MethodType, _core.Accelerated):
        return None
    return others(value) if is_outside(value, (getattr(root, "__module__", None) or "").partition(".")[0]) else None


def others(value: Any) -> Any:
    """What is called instead of somebody else's value: it gets arrays."""
    if "scipy.special" in sys.modules:
        from . import _scipy        # which reads tables that are made of what is here
        _scipy.add()
    return _core.outside(value)
