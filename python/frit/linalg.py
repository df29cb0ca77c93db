"""NumPy's linalg on tensors, of which results are tensors again.

    >>> float(frit.linalg.det(frit.asarray([[2.0, 0.0], [0.0, 3.0]])))
    6.0

Factorisations, solvers and eigenvalues compute what they are given and hand it to numpy.linalg (LAPACK), with its shapes, dtypes
and errors (LinAlgError). What is sums and products, such as norm, trace, outer and multi_dot, is recorded."""
from typing import Any

import numpy as _numpy

from . import _handed_over, _no_such_name


def __getattr__(name: str) -> Any:
    value = None if name.startswith("_") else getattr(_numpy.linalg, name, None)
    if value is None:
        raise _no_such_name(name, __name__, _numpy.linalg, __dir__)
    if callable(value) and not isinstance(value, type):
        value = _handed_over(value, "linalg." + name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [n for n in dir(_numpy.linalg) if not n.startswith("_")]
