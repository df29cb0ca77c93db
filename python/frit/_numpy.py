"""What NumPy's names mean to frit: the one table.

Every row lists facts and the names for which just these hold; a name stands in one row. A name that is not here, or
without one of the first three facts, is frit's own if frit has a function of that name, and NumPy's otherwise.

who answers
    handed      NumPy, called by a function of ours
    composed    NumPy's function as it is written in Python, over tensors (_composed.py)
    kept        NumPy inside accelerated functions, although frit has the name, too
which bits
    plain       an element-wise function with one right result, for real numbers
    exact       NumPy's bits: one right result, NumPy itself, or no arithmetic (_exact.py)
    rounded     frit's own, the same of a number and of an element
which is sooner
    sooner      frit, also for a few elements that are wanted at once
what a closed function may do (_closed.py)
    attribute   read it, of arrays and of NumPy
    assigned    assign it, which writes into the array
    hidden      not ask for it: a module, or memory
    open        not call it: it reads something else than its arguments, or calls them
what is done to arguments
    first       the function writes into its first argument
    self        the method writes into its object: an array, a list or somebody else's
    writable    the function copies an array into which it may not write, although it only reads
methods of arrays
    method      NumPy's is called by a method of ours
    exports     what it gives sees the memory
what it is
    dtype       a number type that tensors have
    number      a number type that converts what it is called with
    complex     one of complex numbers
    shown       a module that `frit` has as it is
    stranger    a module that knows no tensors
    joined      an object whose items are arrays that are made
in composed functions
    maker       makes an array for a result
    converter   makes an array of a parameter
    chosen      is looked up first and called later
    by_dtype    asks for the dtypes of its arguments only

setup.py writes what C reads of this into numpy_names.def, so this file imports nothing."""

_TABLE = (
    ("plain",
     "absolute add bitwise_and bitwise_or bitwise_xor ceil copysign divide equal fabs floor floor_divide fmod greater "
     "greater_equal invert isfinite isinf isnan left_shift less less_equal logical_and logical_not logical_or logical_xor "
     "maximum minimum multiply negative positive reciprocal remainder right_shift rint sign signbit sqrt square trunc where"),
    ("plain chosen", "not_equal subtract"),

    ("exact",
     "arange ascontiguousarray block broadcast_to column_stack concatenate count_nonzero diag dstack einsum empty_like "
     "expand_dims eye flip fliplr flipud fmax fmin frexp full_like hstack identity in1d indices inner ldexp matmul modf moveaxis "
     "ones_like "
     "ravel_multi_index stack tile tril tril_indices triu triu_indices unravel_index vdot vstack zeros_like "
     "cholesky det inv lstsq pinv qr solve svd at item tolist"),
    ("exact", "extend get items keys pop setdefault update values"),     # of lists and dicts
    ("exact maker", "empty full ones zeros"),
    ("exact converter", "array asarray"),
    ("exact attribute",
     "astype copy diagonal dot flatten nonzero ravel repeat reshape squeeze "
     "swapaxes take trace transpose T itemsize mT nbytes strides dtype e eps euler_gamma finfo iinfo inf nan "
     "ndarray newaxis pi tiny"),
    ("exact attribute sooner", "all any argmax argmin clip cumprod cumsum mean prod std sum var"),
    ("exact attribute self", "fill"),
    ("exact attribute joined", "c_ mgrid ogrid r_"),
    ("exact attribute composed", "ndim size"),
    ("exact attribute assigned composed", "shape"),
    ("exact attribute handed method", "argpartition argsort"),
    ("exact attribute handed method self", "partition sort"),
    ("exact attribute handed method writable", "searchsorted"),
    ("exact composed", "ix_ pad polyval roll"),
    ("exact composed handed",
     "array_equal array_split average cross diff dsplit gradient hsplit kron meshgrid nan_to_num outer rot90 split "
     "take_along_axis tensordot trapezoid vsplit"),
    ("exact composed handed self", "append"),
    ("exact handed",
     "argwhere ediff1d flatnonzero histogram intersect1d isin lexsort median percentile quantile rollaxis "
     "setdiff1d spacing union1d unique"),
    ("exact handed first", "fill_diagonal put_along_axis"),
    ("exact handed self", "delete insert resize"),
    ("exact handed writable", "bincount convolve correlate digitize interp"),
    ("exact writable", "packbits unpackbits"),

    ("rounded",
     "amax amin arccos arccosh arcsin arcsinh arctan arctan2 arctanh cbrt cos cosh deg2rad exp exp2 expm1 heaviside hypot "
     "log log10 log1p log2 logaddexp logaddexp2 power rad2deg sin sinh tan tanh"),
    ("rounded attribute", "max min round"),
    ("rounded composed", "ptp"),
    ("rounded composed handed", "nanmax nanmean nanmin nanstd nansum nanvar sinc"),

    ("composed",
     "apply_over_axes isneginf isposinf linalg.cross linalg.diagonal linalg.matmul linalg.matrix_norm linalg.matrix_power "
     "linalg.multi_dot linalg.norm linalg.outer linalg.tensordot linalg.trace linalg.vector_norm nancumprod nancumsum require"),
    ("composed handed", "allclose angle corrcoef cov extract isclose nanargmax nanargmin nanprod select unwrap"),
    ("handed",
     "array_equiv diagflat float_power gcd i0 lcm unique_all unique_counts unique_inverse unique_values unstack vecdot"),
    ("handed first", "place putmask"),
    ("handed open", "apply_along_axis"),
    ("composed handed open", "piecewise"),
    ("kept", "may_share_memory shares_memory show_config"),
    ("converter", "asanyarray"),
    ("by_dtype", "can_cast iscomplexobj isrealobj result_type"),
    ("first", "copyto"),
    ("open", "from_dlpack frombuffer fromfile fromfunction fromiter fromstring loadtxt"),

    ("attribute", "conjugate"),
    ("attribute assigned", "imag real"),
    ("attribute handed method", "choose compress"),
    ("attribute handed method first self", "put"),
    ("method", "byteswap dump dumps tofile"),
    ("method exports", "getfield view"),
    ("method self", "setfield"),

    ("dtype number exact attribute",
     "bool float16 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8"),
    ("dtype number complex attribute", "complex128 complex64"),
    ("number exact attribute", "bool_ intp"),
    ("number complex", "cdouble csingle"),
    ("number", "double half int_ intc single uintp"),

    ("hidden", "base core ctypes data f2py fft flags matlib testing"),
    ("hidden assigned", "flat"),
    ("hidden exact", "linalg"),
    ("hidden shown", "char ctypeslib emath exceptions lib ma polynomial rec strings typing"),
    ("hidden stranger", "random"),
    ("shown", "dtypes"),
)

# Of functions that NumPy answers, how they are called, where the Array API standard says that; others take anything.
_SIGNATURES = {
    "diff": "a, n=1, axis=-1, prepend=None, append=None",
    "isin": "element, test_elements, assume_unique=False, invert=False, *, kind=None",
    "meshgrid": "*xi, copy=True, sparse=False, indexing='xy'", "searchsorted": "a, v, side='left', sorter=None",
    "take_along_axis": "arr, indices, axis=-1", "tensordot": "a, b, axes=2", "unstack": "x, /, *, axis=0",
    "vecdot": "x1, x2, /, out=None, *, axis=-1, dtype=None"}

# NumPy's second names for operations of ours, of which the same holds.
ALIASES = dict(pair.split("=") for pair in """
abs=absolute acos=arccos acosh=arccosh around=round asin=arcsin asinh=arcsinh atan=arctan atan2=arctan2 atanh=arctanh
bitwise_invert=invert bitwise_left_shift=left_shift bitwise_not=invert bitwise_right_shift=right_shift conj=conjugate
degrees=rad2deg mod=remainder pow=power radians=deg2rad true_divide=divide""".split())


def _facts() -> dict[str, frozenset[str]]:
    """{name: its facts}"""
    found: dict[str, frozenset[str]] = {}
    for facts, names in _TABLE:
        row = frozenset(facts.split())
        for name in names.split():
            if name in found:
                raise ValueError(f"{name} has two rows")
            found[name] = row
    found.update((alias, found[name]) for alias, name in ALIASES.items() if name in found)
    return found


FACTS = _facts()
_NAMES: dict[str, set[str]] = {}
for _name, _row in FACTS.items():
    for _fact in _row:
        _NAMES.setdefault(_fact, set()).add(_name)


def named(fact: str) -> frozenset[str]:
    """The names for which a fact holds."""
    return frozenset(_NAMES[fact])


def definitions() -> str:
    """What C reads: HANDED(name, signature, HANDED or COMPOSED), METHOD(name, intent), KNOWN(name, what), ALIAS(alias, name)."""
    rows: dict[str, list[str]] = {"HANDED": [], "METHOD": [], "KNOWN": [], "ALIAS": []}
    for name, facts in FACTS.items():
        if "handed" in facts:
            how = "COMPOSED" if "composed" in facts else "HANDED"
            rows["HANDED"].append(f'{name}, "{_SIGNATURES.get(name, "*args, **kwargs")}", {how}')
        if "method" in facts:
            rows["METHOD"].append(f"{name}, {'WRITES' if 'self' in facts else 'EXPORTS' if 'exports' in facts else 'READS'}")
        if "first" in facts or "writable" in facts:
            rows["KNOWN"].append(f"{name}, {'WRITES_FIRST' if 'first' in facts else 'SEEMS_WRITABLE'}")
    rows["ALIAS"] = [f"{alias}, {name}" for alias, name in ALIASES.items()]
    text = "/* Written by setup.py from python/frit/_numpy.py. */\n"
    for macro, lines in rows.items():
        text += f"#ifdef {macro}\n" + "".join(f"{macro}({line})\n" for line in lines) + f"#undef {macro}\n#endif\n"
    return text
