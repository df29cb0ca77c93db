"""NumPy's fft on tensors: each function computes what it is given and hands it to numpy.fft, with its shapes, dtypes and errors;
results are tensors again.

    >>> frit.fft.rfft(frit.ones(4)).shape
    (3,)
"""
from typing import Any

import numpy as _numpy

from . import _handed_over, _no_such_name
from ._array_api import fftfreq as fftfreq
from ._array_api import rfftfreq as rfftfreq


def __getattr__(name: str) -> Any:
    value = None if name.startswith("_") else getattr(_numpy.fft, name, None)
    if value is None:
        raise _no_such_name(name, __name__, _numpy.fft, __dir__)
    if callable(value) and not isinstance(value, type):
        value = _handed_over(value, "fft." + name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [n for n in dir(_numpy.fft) if not n.startswith("_")]
