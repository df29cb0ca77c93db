"""Types of the package.  Written by tests/tools/stubs.py."""
from builtins import bool as _bool
from collections.abc import Callable
from typing import Any, TypeVar, overload

import numpy
from numpy import dtype as dtype, errstate as errstate, finfo as finfo, iinfo as iinfo

from . import cache as cache, energy as energy, fft as fft, linalg as linalg, machine as machine, random as random, testing as testing
from ._array_api import (
    __array_namespace_info__ as __array_namespace_info__, argsort as argsort, sort as sort, unique_values as unique_values)
from ._core import (
    NoDataError as NoDataError, Tensor as Tensor, all as all, allclose as allclose, amax as amax,
    amin as amin, angle as angle, any as any, append as append, apply_along_axis as
    apply_along_axis, arange as arange, argmax as argmax, argmin as argmin, argpartition as
    argpartition, argwhere as argwhere, around as around, array as array, array_equal as
    array_equal, array_equiv as array_equiv, array_split as array_split, asanyarray as asanyarray,
    asarray as asarray, ascontiguousarray as ascontiguousarray, asfortranarray as asfortranarray,
    astype as astype, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
    average as average, bartlett as bartlett, bincount as bincount, blackman as blackman,
    broadcast_arrays as broadcast_arrays, broadcast_to as broadcast_to, choose as choose, clip as
    clip, column_stack as column_stack, compress as compress, concat as concat, concatenate as
    concatenate, convolve as convolve, copy as copy, copyto as copyto, corrcoef as corrcoef,
    correlate as correlate, count_nonzero as count_nonzero, cov as cov, cross as cross, cummax as
    cummax, cummin as cummin, cumprod as cumprod, cumsum as cumsum, cumulative_prod as
    cumulative_prod, cumulative_sum as cumulative_sum, delete as delete, diag as diag, diagflat as
    diagflat, diagonal as diagonal, diff as diff, digitize as digitize, dot as dot, dsplit as
    dsplit, dstack as dstack, ediff1d as ediff1d, einsum as einsum, empty as empty, empty_like as
    empty_like, erf as erf, erfc as erfc, eval as eval, expand_dims as expand_dims, extract as
    extract, eye as eye, fill_diagonal as fill_diagonal, flatnonzero as flatnonzero, flip as flip,
    fliplr as fliplr, flipud as flipud, from_dlpack as from_dlpack, frombuffer as frombuffer,
    fromfile as fromfile, fromfunction as fromfunction, fromiter as fromiter, fromstring as
    fromstring, full as full, full_like as full_like, geomspace as geomspace, gradient as gradient,
    hamming as hamming, hanning as hanning, histogram as histogram, hsplit as hsplit, hstack as
    hstack, i0 as i0, identity as identity, imag as imag, indices as indices, inner as inner, insert
    as insert, interp as interp, intersect1d as intersect1d, isclose as isclose, isin as isin,
    kaiser as kaiser, kron as kron, lexsort as lexsort, linspace as linspace, loadtxt as loadtxt,
    logspace as logspace, matrix_transpose as matrix_transpose, max as max, may_share_memory as
    may_share_memory, mean as mean, median as median, meshgrid as meshgrid, min as min, moveaxis as
    moveaxis, nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as nanargmin, nanmax as
    nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as
    nansum, nanvar as nanvar, nonzero as nonzero, ones as ones, ones_like as ones_like, outer as
    outer, pad as pad, partition as partition, percentile as percentile, permute_dims as
    permute_dims, piecewise as piecewise, place as place, prod as prod, ptp as ptp, put as put,
    put_along_axis as put_along_axis, putmask as putmask, quantile as quantile, random_bits as
    random_bits, random_normal as random_normal, random_uniform as random_uniform, ravel as ravel,
    real as real, repeat as repeat, reshape as reshape, resize as resize, roll as roll, rollaxis as
    rollaxis, rot90 as rot90, round as round, searchsorted as searchsorted, select as select,
    setdiff1d as setdiff1d, shares_memory as shares_memory, sigmoid as sigmoid, sinc as sinc,
    softplus as softplus, split as split, squeeze as squeeze, stack as stack, std as std, sum as
    sum, swapaxes as swapaxes, synchronize as synchronize, take as take, take_along_axis as
    take_along_axis, tensordot as tensordot, tile as tile, trace as trace, transpose as transpose,
    trapezoid as trapezoid, tri as tri, tril as tril, triu as triu, union1d as union1d, unique as
    unique, unique_all as unique_all, unique_counts as unique_counts, unique_inverse as
    unique_inverse, unstack as unstack, unwrap as unwrap, vander as vander, var as var, vdot as
    vdot, vsplit as vsplit, vstack as vstack, where as where, zeros as zeros, zeros_like as
    zeros_like)
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
pi: float
e: float
inf: float
nan: float
euler_gamma: float
newaxis: None
config: Any

abs: Ufunc
absolute: Ufunc
acos: Ufunc
acosh: Ufunc
add: Ufunc
arccos: Ufunc
arccosh: Ufunc
arcsin: Ufunc
arcsinh: Ufunc
arctan: Ufunc
arctan2: Ufunc
arctanh: Ufunc
asin: Ufunc
asinh: Ufunc
atan: Ufunc
atan2: Ufunc
atanh: Ufunc
bitwise_and: Ufunc
bitwise_count: Ufunc
bitwise_invert: Ufunc
bitwise_left_shift: Ufunc
bitwise_not: Ufunc
bitwise_or: Ufunc
bitwise_right_shift: Ufunc
bitwise_xor: Ufunc
cbrt: Ufunc
ceil: Ufunc
conj: Ufunc
conjugate: Ufunc
copysign: Ufunc
cos: Ufunc
cosh: Ufunc
deg2rad: Ufunc
degrees: Ufunc
divide: Ufunc
divmod: Ufunc
equal: Ufunc
exp: Ufunc
exp2: Ufunc
expm1: Ufunc
fabs: Ufunc
float_power: Ufunc
floor: Ufunc
floor_divide: Ufunc
fmax: Ufunc
fmin: Ufunc
fmod: Ufunc
frexp: Ufunc
gcd: Ufunc
greater: Ufunc
greater_equal: Ufunc
heaviside: Ufunc
hypot: Ufunc
invert: Ufunc
isfinite: Ufunc
isinf: Ufunc
isnan: Ufunc
lcm: Ufunc
ldexp: Ufunc
left_shift: Ufunc
less: Ufunc
less_equal: Ufunc
log: Ufunc
log10: Ufunc
log1p: Ufunc
log2: Ufunc
logaddexp: Ufunc
logaddexp2: Ufunc
logical_and: Ufunc
logical_not: Ufunc
logical_or: Ufunc
logical_xor: Ufunc
matmul: Ufunc
maximum: Ufunc
minimum: Ufunc
mod: Ufunc
modf: Ufunc
multiply: Ufunc
negative: Ufunc
nextafter: Ufunc
not_equal: Ufunc
positive: Ufunc
pow: Ufunc
power: Ufunc
rad2deg: Ufunc
radians: Ufunc
reciprocal: Ufunc
remainder: Ufunc
right_shift: Ufunc
rint: Ufunc
sign: Ufunc
signbit: Ufunc
sin: Ufunc
sinh: Ufunc
spacing: Ufunc
sqrt: Ufunc
square: Ufunc
subtract: Ufunc
tan: Ufunc
tanh: Ufunc
true_divide: Ufunc
trunc: Ufunc
vecdot: Ufunc

from numpy import bool as bool
from numpy import complex128 as complex128
from numpy import complex64 as complex64
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import int8 as int8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import uint8 as uint8


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
