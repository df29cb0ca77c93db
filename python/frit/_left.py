"""What an accelerated call has left behind, where it is to be another object.

Most of what is left becomes an array where it is (csrc/bind/accelerate/become.c). That will not do for a tensor that stands
for an argument, for the argument itself has been left there (nor for what such a tensor has become in a call that turned plain),
and for a bool, of which NumPy has but two. These are looked for in whatever the function can reach, and replaced."""
import collections
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import _core, _namespace

TENSORS: frozenset[type] = _namespace.TENSORS     # type: ignore[assignment]
_MAX_LOOKS = 10_000     # at objects: then the rest stays an array over the argument's memory
_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), range, slice, types.BuiltinFunctionType,
                    types.ModuleType, types.CodeType})


def _names(x: Any) -> dict[str, Any] | None:
    """The dictionary of an object's attributes, or None."""
    try:
        names = object.__getattribute__(x, "__dict__")
    except (AttributeError, TypeError):
        return None
    return names if type(names) is dict else None


_HEAP_TYPE = 1 << 9     # Py_TPFLAGS_HEAPTYPE


def _slots(x: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of the slots of an object."""
    for kind in type(x).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if isinstance(vars(kind).get(name), types.MemberDescriptorType) and hasattr(x, name):
                yield name, getattr(x, name)


def _exchange(x: Any, shown: Callable[[Any], Any], kinds: frozenset[type]) -> Iterable[Any]:
    """Replaces values of these types in `x` itself; returns what else it leads to."""
    if isinstance(x, dict):
        for k, v in list(x.items()):
            if type(v) in kinds:
                x[k] = shown(v)
        return list(x.values())
    if isinstance(x, (list, collections.deque)):
        for i, v in enumerate(x):
            if type(v) in kinds:
                x[i] = shown(v)
        return list(x)
    if isinstance(x, tuple):
        if any(type(v) in kinds for v in x):
            _core.set_items(x, [shown(v) if type(v) in kinds else v for v in x])
        return x
    if isinstance(x, set):
        if any(type(v) in kinds for v in x):
            new = [shown(v) if type(v) in kinds else v for v in x]
            x.clear()
            x.update(new)
        return x
    if type(x) is types.CellType:
        try:
            if type(x.cell_contents) in kinds:
                x.cell_contents = shown(x.cell_contents)
            return (x.cell_contents,)
        except ValueError:      # nothing in it
            return ()
    if type(x) is types.MethodType:
        return x.__self__, x.__func__
    if type(x) is types.FunctionType:
        return *(x.__closure__ or ()), x.__defaults__, x.__dict__
    if isinstance(x, type):
        if x.__flags__ & _HEAP_TYPE:
            for name, v in list(vars(x).items()):
                if type(v) in kinds:
                    setattr(x, name, shown(v))
            return [v for v in vars(x).values() if not isinstance(v, types.FunctionType)]
        return ()
    slots = list(_slots(x))
    for name, v in slots:
        if type(v) in kinds:
            setattr(x, name, shown(v))
    return *(v for _, v in slots), _names(x)


def exchange(values: Iterable[Any], shown: Callable[[Any], Any], kinds: frozenset[type] = TENSORS) -> None:
    """Replaces every value t of these types that `values` lead to by shown(t)."""
    todo = list(values)
    seen: dict[int, Any] = {}
    while todo and len(seen) < _MAX_LOOKS:
        x = todo.pop()
        if type(x) not in _PLAIN and id(x) not in seen:
            seen[id(x)] = x     # keeps the id valid
            todo += _exchange(x, shown, kinds)
