"""Whether all that a function does has one right result, so that NumPy and frit give the same bits.

Such a function may as well run as it is where that is the faster way (csrc/bind/contest.c). It is told from the code of the
copies that run (_rewrite.py), which are closed (_closed.py): every attribute that they ask for and every function that
they call is one of those below, and powers are squares. What rounds more than once (exp, other powers) is not among them,
nor the extremes of arrays, which in NumPy depend on the processor where zeros of both signs meet, nor complex numbers,
whose functions round more than once. Products of matrices are NumPy's anyway."""
import types

import numpy

from ._namespace import ours
from ._rewrite import BINARY_OP, EXACT_CALLS, attr_name, contents, decode, is_attr, is_exact_operator

_CALLS = EXACT_CALLS | frozenset(
    "all any arange argmax argmin array asarray ascontiguousarray astype broadcast_to clip column_stack concatenate copy "
    "count_nonzero cumprod cumsum diag diagonal dot dstack empty empty_like expand_dims eye fill fill_diagonal flatnonzero "
    "flatten flip fliplr flipud fmax fmin full full_like hstack identity inner item matmul maximum mean minimum moveaxis "
    "nonzero ones ones_like outer pad prod ravel repeat reshape resize roll rollaxis rot90 searchsorted squeeze stack std "
    "sum swapaxes take tile trace transpose tril triu vdot vstack var where zeros zeros_like".split())
_ATTRIBUTES = _CALLS | frozenset(
    "T bool bool_ dtype e eps finfo float16 float32 float64 iinfo inf int16 int32 int64 int8 intp itemsize mT nan nbytes ndarray "
    "ndim newaxis pi shape size strides tiny uint16 uint32 uint64 uint8".split())
_COMPLEX_DTYPES = frozenset("c8 c16 F D complex complex64 complex128 csingle cdouble".split())
_NAME_OF = {id(f): name for name, f in ours.items()}


def _is_complex(value):
    """Whether the constant is a complex number, or names their dtype."""
    if isinstance(value, str):
        return value.lstrip("<>=") in _COMPLEX_DTYPES
    return isinstance(value, (complex, numpy.complexfloating)) or value is complex


def _is_exact_value(value):
    """The same of what the code of a function loads."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(_is_exact_value, value))
    if isinstance(value, types.CodeType):
        return _is_exact_code(value)
    return not _is_complex(value) and _NAME_OF.get(id(value), "empty") in _CALLS


def _is_exact_code(code):
    listed = decode(code)
    for before, this in zip([(0, -1, 0), *listed], listed):
        if is_attr(this, True) or is_attr(this, False):
            if attr_name(code, this) not in _ATTRIBUTES:
                return False
        elif this[1] == BINARY_OP and not is_exact_operator(code, before, this):
            return False
    return "complex" not in code.co_names and all(map(_is_exact_value, code.co_consts))


def exact(rewritten):
    """Whether a closed function, and those that it calls, have one right result for real numbers."""
    for f in rewritten.copies:
        seen = [f.__globals__.get(name) for name in f.__code__.co_names]
        seen += [contents(cell) for cell in f.__closure__ or ()]
        seen += [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
        if not _is_exact_code(f.__code__) or not all(map(_is_exact_value, seen)):
            return False
    return True
