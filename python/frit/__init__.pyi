"""Types of the package.  Written by tests/tools/stubs.py."""
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy
from numpy import dtype as dtype, errstate as errstate, finfo as finfo, iinfo as iinfo

from . import cache as cache, fft as fft, linalg as linalg, random as random, testing as testing
from ._core import (
    Tensor as Tensor, abs as abs, absolute as absolute, acos as acos, acosh as acosh, add as add,
    all as all, allclose as allclose, amax as amax, amin as amin, angle as angle, any as any, append
    as append, apply_along_axis as apply_along_axis, arange as arange, arccos as arccos, arccosh as
    arccosh, arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctan2 as arctan2, arctanh as
    arctanh, argmax as argmax, argmin as argmin, argpartition as argpartition, argsort as argsort,
    argwhere as argwhere, around as around, array as array, array_equal as array_equal, array_equiv
    as array_equiv, array_split as array_split, asanyarray as asanyarray, asarray as asarray,
    ascontiguousarray as ascontiguousarray, asfortranarray as asfortranarray, asin as asin, asinh as
    asinh, astype as astype, atan as atan, atan2 as atan2, atanh as atanh, atleast_1d as atleast_1d,
    atleast_2d as atleast_2d, atleast_3d as atleast_3d, average as average, bartlett as bartlett,
    bincount as bincount, bitwise_and as bitwise_and, bitwise_count as bitwise_count, bitwise_invert
    as bitwise_invert, bitwise_left_shift as bitwise_left_shift, bitwise_not as bitwise_not,
    bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift, bitwise_xor as
    bitwise_xor, blackman as blackman, broadcast_arrays as broadcast_arrays, broadcast_to as
    broadcast_to, cbrt as cbrt, ceil as ceil, choose as choose, clip as clip, column_stack as
    column_stack, compress as compress, concat as concat, concatenate as concatenate, conj as conj,
    conjugate as conjugate, convolve as convolve, copy as copy, copysign as copysign, copyto as
    copyto, corrcoef as corrcoef, correlate as correlate, cos as cos, cosh as cosh, count_nonzero as
    count_nonzero, cov as cov, cross as cross, cummax as cummax, cummin as cummin, cumprod as
    cumprod, cumsum as cumsum, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum,
    deg2rad as deg2rad, degrees as degrees, delete as delete, diag as diag, diagflat as diagflat,
    diagonal as diagonal, diff as diff, digitize as digitize, divide as divide, divmod as divmod,
    dot as dot, dsplit as dsplit, dstack as dstack, ediff1d as ediff1d, einsum as einsum, empty as
    empty, empty_like as empty_like, equal as equal, erf as erf, erfc as erfc, eval as eval, exp as
    exp, exp2 as exp2, expand_dims as expand_dims, expm1 as expm1, extract as extract, eye as eye,
    fabs as fabs, fill_diagonal as fill_diagonal, flatnonzero as flatnonzero, flip as flip, fliplr
    as fliplr, flipud as flipud, float_power as float_power, floor as floor, floor_divide as
    floor_divide, fmax as fmax, fmin as fmin, fmod as fmod, frexp as frexp, from_dlpack as
    from_dlpack, frombuffer as frombuffer, fromfile as fromfile, fromfunction as fromfunction,
    fromiter as fromiter, fromstring as fromstring, full as full, full_like as full_like, gcd as
    gcd, geomspace as geomspace, gradient as gradient, greater as greater, greater_equal as
    greater_equal, hamming as hamming, hanning as hanning, heaviside as heaviside, histogram as
    histogram, hsplit as hsplit, hstack as hstack, hypot as hypot, i0 as i0, identity as identity,
    imag as imag, indices as indices, inner as inner, insert as insert, interp as interp,
    intersect1d as intersect1d, invert as invert, isclose as isclose, isfinite as isfinite, isin as
    isin, isinf as isinf, isnan as isnan, kaiser as kaiser, kron as kron, lcm as lcm, ldexp as
    ldexp, left_shift as left_shift, less as less, less_equal as less_equal, lexsort as lexsort,
    linspace as linspace, loadtxt as loadtxt, log as log, log10 as log10, log1p as log1p, log2 as
    log2, logaddexp as logaddexp, logaddexp2 as logaddexp2, logical_and as logical_and, logical_not
    as logical_not, logical_or as logical_or, logical_xor as logical_xor, logspace as logspace,
    matmul as matmul, matrix_transpose as matrix_transpose, max as max, maximum as maximum,
    may_share_memory as may_share_memory, mean as mean, median as median, meshgrid as meshgrid, min
    as min, minimum as minimum, mod as mod, modf as modf, moveaxis as moveaxis, multiply as
    multiply, nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as nanargmin, nanmax as
    nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as
    nansum, nanvar as nanvar, negative as negative, nextafter as nextafter, nonzero as nonzero,
    not_equal as not_equal, ones as ones, ones_like as ones_like, outer as outer, pad as pad,
    partition as partition, percentile as percentile, permute_dims as permute_dims, piecewise as
    piecewise, place as place, positive as positive, pow as pow, power as power, prod as prod, ptp
    as ptp, put as put, put_along_axis as put_along_axis, putmask as putmask, quantile as quantile,
    rad2deg as rad2deg, radians as radians, random_bits as random_bits, random_normal as
    random_normal, random_uniform as random_uniform, ravel as ravel, real as real, reciprocal as
    reciprocal, remainder as remainder, repeat as repeat, reshape as reshape, resize as resize,
    right_shift as right_shift, rint as rint, roll as roll, rollaxis as rollaxis, rot90 as rot90,
    round as round, searchsorted as searchsorted, select as select, setdiff1d as setdiff1d,
    shares_memory as shares_memory, sigmoid as sigmoid, sign as sign, signbit as signbit, sin as
    sin, sinc as sinc, sinh as sinh, softplus as softplus, sort as sort, spacing as spacing, split
    as split, sqrt as sqrt, square as square, squeeze as squeeze, stack as stack, std as std,
    subtract as subtract, sum as sum, swapaxes as swapaxes, take as take, take_along_axis as
    take_along_axis, tan as tan, tanh as tanh, tensordot as tensordot, tile as tile, trace as trace,
    transpose as transpose, trapezoid as trapezoid, tri as tri, tril as tril, triu as triu,
    true_divide as true_divide, trunc as trunc, union1d as union1d, unique as unique, unique_all as
    unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as
    unique_values, unstack as unstack, unwrap as unwrap, vander as vander, var as var, vdot as vdot,
    vecdot as vecdot, vsplit as vsplit, vstack as vstack, where as where, zeros as zeros, zeros_like
    as zeros_like)
from .explain import Explanation

_F = TypeVar("_F", bound=Callable[..., Any])

__version__: str
pi: float
e: float
inf: float
nan: float
euler_gamma: float
newaxis: None
config: Any

from numpy import bool as bool
from numpy import int8 as int8
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import uint8 as uint8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import complex64 as complex64
from numpy import complex128 as complex128


@overload
def accelerate(function: _F) -> _F: ...
@overload
def accelerate(function: None = None) -> Callable[[_F], _F]: ...
@overload
def explain(function: Tensor, kind: str = "plan") -> Explanation: ...
@overload
def explain(function: Callable[..., Any], kind: str = "plan") -> Callable[..., Explanation]: ...
def stats() -> dict[str, Any]: ...
def reset_stats() -> None: ...
def show_config(file: Any = None) -> None: ...
def wait_for_compiles(timeout: float | None = None) -> bool: ...
def isa_levels() -> list[str]: ...


# What frit does not have is NumPy's, on evaluated data.
def __getattr__(name: str) -> Any: ...
