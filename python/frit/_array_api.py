"""What the Array API standard asks of a namespace and NumPy has otherwise or not at all."""
from typing import Any

import numpy as _numpy

from . import _core
from .device import device, devices

_KINDS = {"bool": ("bool",), "signed integer": ("int8", "int16", "int32", "int64"),
          "unsigned integer": ("uint8", "uint16", "uint32", "uint64"), "real floating": ("float32", "float64"),
          "complex floating": ("complex64", "complex128")}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]
_MAX_DIMS = 32
_Dtype = _numpy.dtype[Any]


class __array_namespace_info__:
    """What the namespace can do, by the Array API standard: `frit.__array_namespace_info__().dtypes(kind="integral")`."""

    __module__ = "frit"

    def capabilities(self) -> dict[str, bool | int]:
        """{"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 32}"""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": _MAX_DIMS}

    def default_device(self) -> str:
        """Where arrays are made, "cpu" unless frit.device or FRIT_DEVICE say otherwise."""
        return device()

    def devices(self) -> tuple[str, ...]:
        """All that there are, since 2025.12 a tuple."""
        return devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, _Dtype]:
        """{what numbers are: the dtype of an array that is made of them}"""
        _check(device)
        return {"real floating": _numpy.dtype("float64"), "complex floating": _numpy.dtype("complex128"),
                "integral": _numpy.dtype("int64"), "indexing": _numpy.dtype("int64")}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, _Dtype]:
        """{name: dtype} of all that the standard has, or of one kind, such as "bool" and "real floating", or of several in
        a tuple."""
        _check(device)
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in _KINDS:
                raise ValueError(f"unsupported kind: {k!r}")
        return {name: _numpy.dtype(name) for k in kinds for name in _KINDS[k]}


def _check(name: Any) -> None:
    if name not in ("cpu", None):
        device(name)


def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, descending: bool = False,
         stable: bool | None = None) -> Any:
    """The elements in order along an axis, None: of all; by NumPy. descending=True: the greatest first."""
    if not descending:
        return _core.sort(a, axis, kind, order, stable=stable)
    return _core.flip(_core.sort(a, axis, kind, order, stable=stable), -1 if axis is None else axis)


def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, descending: bool = False,
            stable: bool | None = None) -> Any:
    """The indices that would sort along an axis, None: of all; by NumPy. descending=True: of the greatest first; with
    stable=True, equal elements stay in their order."""
    if not descending:
        return _core.argsort(a, axis, kind, order, stable=stable)
    a = _core.asarray(a)
    if axis is None:
        a, axis = _core.ravel(a), -1
    # Backwards, there and back, so that equal elements keep their order.
    last_first = _core.argsort(_core.flip(a, axis), axis, kind, order, stable=stable)
    return a.shape[axis] - 1 - _core.flip(last_first, axis)


def unique_values(x: Any) -> Any:
    """The different elements, sorted; every NaN is one of its own; of zeros with either sign the first. (Those of
    numpy.unique_values come in any order.)"""
    if getattr(x, "dtype", None) is not None and x.dtype.kind in "fc":     # a sort that is not stable may end with either zero
        return _core.numpy_call(_numpy.unique, (x,), {"equal_nan": False, "return_index": True})[0]
    return _core.numpy_call(_numpy.unique, (x,), {"equal_nan": False})


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a Fourier transform of n samples that lie d apart, float64 unless a dtype is given; by NumPy."""
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Those of a transform of real samples that are not negative."""
    return _frequencies("rfftfreq", n, d, dtype, device)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any) -> Any:
    return _core.asarray(_core.numpy_call(getattr(_numpy.fft, name), (n, d), {}), dtype, device=device)
