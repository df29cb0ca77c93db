"""How a public function answers: it is called with small arguments, and frit's own counts say what came of that.

`answer(name)` gives "lazy", "immediate", "no values" or "NumPy" for a call with tensors, and `accelerated(name, ...)` the same of
the call in an accelerated function, with arrays. docs/generate.py makes the table of docs/api.rst of them."""
import io
import os
import re
import tempfile
import warnings

import numpy as np

import frit

# What a call may be given. Arrays are tensors that nobody has computed yet, or NumPy's, of as many elements as NumPy would
# not sooner take by itself.
N = 100
_r = np.random.default_rng(7)
ARRAYS = {
    "x": _r.random((N, N)) + 0.5, "v": _r.random(N) + 0.5, "m": _r.random((N, N)) + N * np.eye(N), "s": _r.random((4, N, N)),
    "i": _r.integers(0, 9, (N, N)), "j": _r.integers(1, 9, N), "b": _r.random((N, N)) > 0.5, "z": _r.random((N, N)) * (1 + 1j),
    "u": _r.integers(0, 255, N).astype("u1"), "t": np.sort(_r.random(N)), "k": np.arange(N)[::-1].copy(), "a": _r.random((N, 3)),
    "h": np.eye(N) * 3 + 1,
}
# Arguments that most functions take, the first that fits; and those that a function of that name takes.
USUAL = ("x", "x, x", "j", "j, j", "v", "v, v", "x, j", "m", "m, v", "")
OWN = {name: text for names, text in {
    "allclose isclose array_equal array_equiv fmin fmax": "x, x",
    "apply_along_axis": "np.sort, 0, x", "apply_over_axes": "np.sum, x, [0]",
    "arange": "9", "astype": "x, 'f4'", "asmatrix": "x", "bartlett blackman hamming hanning": "9", "kaiser": "9, 1.0",
    "array2string array_repr array_str": "v", "base_repr binary_repr": "5", "bincount": "j", "block": "[v, v]", "bmat": "[[x, x]]",
    "bitwise_count": "i", "broadcast_shapes": "(2, 1), (1, 3)", "broadcast_to": "v, (2, 100)",
    "busday_count": "'2026-01-05', '2026-01-09'", "busday_offset": "'2026-01-05', 1", "is_busday": "'2026-01-05'",
    "isnat": "np.array(['NaT'], 'M8[s]')", "can_cast promote_types": "'i4', 'f8'",
    "choose": "b.astype('i8'), [x, x]", "clip": "x, 0.6, 1.0", "common_type": "v", "compress": "v > 1, v", "extract": "x > 1, x",
    "concat concatenate stack vstack hstack dstack column_stack row_stack": "[x, x]", "convolve correlate": "v, v[:3]",
    "copyto": "x, 1.0",
    "cross": "a, a", "cumulative_sum cumulative_prod": "v", "datetime_data": "'M8[s]'",
    "datetime_as_string": "np.datetime64('2026-01-01')",
    "delete": "v, 1", "diag_indices tri tril_indices triu_indices identity eye": "4", "diag_indices_from": "x", "digitize": "v, t",
    "dot inner outer matmul vdot vecdot": "v, v", "matvec": "m, v", "vecmat": "v, m", "multi_dot": "[x, x]",
    "einsum": "'ij,jk->ik', x, x", "einsum_path": "'ij,jk->ik', x, x",
    "empty zeros ones": "9", "full": "9, 1.0", "full_like": "x, 1.0", "expand_dims": "x, 0", "fill_diagonal": "x.copy(), 1.0",
    "format_float_positional format_float_scientific": "1.5", "from_dlpack": "np.arange(3.0)", "frombuffer": "b'12345678', 'u1'",
    "fromfile": "FILE, 'u1'", "fromfunction": "lambda p: p, (3,)", "fromiter": "[1, 2], 'i8'", "frompyfunc": "abs, 1, 1",
    "fromregex": "FILE, '(.)', [('c', 'S1')]", "fromstring": "'1 2', sep=' '", "genfromtxt loadtxt": "io.StringIO('1 2')",
    "gcd lcm": "j, j", "geomspace linspace logspace": "1.0, 2.0, 9", "heaviside": "x, 0.5", "histogram histogram_bin_edges": "v",
    "histogram2d": "v, v", "histogramdd": "a", "in1d isin intersect1d setdiff1d setxor1d union1d": "j, j[:3]", "indices": "(2, 3)",
    "insert": "v, 1, 2.0", "interp": "v, t, t", "isdtype": "np.dtype('f8'), 'real floating'", "issubdtype": "'f8', np.floating",
    "isrealobj iscomplexobj isscalar iterable": "x", "ix_": "j, j", "kron": "v, v", "ldexp": "x, i",
    "left_shift right_shift": "i, i",
    "lexsort": "[v, v]", "load": "NPY", "mask_indices": "3, np.triu", "memmap": "FILE", "meshgrid": "v, v", "min_scalar_type": "1",
    "mintypecode": "'df'",
    "moveaxis": "x, 0, 1", "nanpercentile percentile": "x, 50", "nanquantile quantile": "x, 0.5", "nested_iters": "x, [[0], [1]]",
    "nextafter": "x, x",
    "packbits": "b", "pad": "x, 1", "partition argpartition": "v, 3", "piecewise": "x, [x > 1], [1.0]",
    "place putmask": "x, x > 1, v",
    "poly roots": "v[:4]", "polyadd polydiv polymul polysub polyval": "v[:3], v[:4]", "polyder polyint": "v[:4]",
    "polyfit": "v, v, 1",
    "power": "x, x", "put": "v, j, 1.0", "put_along_axis": "v, j, 1.0, 0",
    "random_bits random_normal random_uniform": "j.astype('u8'), np.uint64(3)",
    "ravel_multi_index": "(j, j), (9, 9)", "repeat": "v, 2", "reshape": "x, (N * N,)", "resize": "v, (2, 3)", "roll": "x, 1",
    "rollaxis": "x, 1",
    "save savetxt": "OUT, v", "savez savez_compressed": "OUT, v", "searchsorted": "t, v", "select": "[x > 1], [x]",
    "shape size ndim": "x", "split array_split": "v, 2", "hsplit vsplit": "x, 2", "dsplit": "s, 2",
    "swapaxes": "x, 0, 1", "take": "v, [1, 2]", "take_along_axis": "v, np.arange(9), 0", "tensordot": "x, x", "tile": "v, 2",
    "tril_indices_from triu_indices_from": "x",
    "trim_zeros": "v", "typename": "'d'", "unpackbits": "u", "unravel_index": "j, (9, 9)", "vander": "v[:3]",
    "where": "x > 1, x, x",
    "eval": "x", "sort_complex": "v", "angle conj conjugate imag iscomplex isreal real real_if_close": "z", "round around fix": "x",
    # numpy.linalg
    "linalg.cross": "a, a", "linalg.cholesky linalg.eigh linalg.eigvalsh": "h", "linalg.lstsq linalg.solve": "m, v",
    "linalg.matrix_power": "x, 2", "linalg.tensorinv": "m, 1", "linalg.tensorsolve": "m, v", "linalg.vecdot linalg.outer": "v, v",
    "linalg.multi_dot": "[x, x]", "linalg.matmul linalg.tensordot": "x, x",
    # numpy.fft
    "fft.fftfreq fft.rfftfreq": "8",
    # numpy.random, and streams of Philox
    "random.choice random.permutation random.shuffle": "v", "random.default_rng random.philox random.seed": "3",
    "random.randint random.random_integers": "9", "random.bytes": "3", "random.beta": "1.0, 2.0",
    "random.binomial random.negative_binomial": "5, 0.5",
    "random.dirichlet": "[1.0, 2.0]", "random.multinomial": "5, [0.5, 0.5]", "random.multivariate_normal": "[0.0], [[1.0]]",
    "random.hypergeometric": "5, 5, 5", "random.noncentral_chisquare random.wald random.f": "1.0, 2.0",
    "random.triangular": "0.0, 1.0, 2.0",
    "random.noncentral_f": "1.0, 2.0, 1.0", "random.vonmises": "0.0, 1.0",
    "random.zipf random.pareto random.power random.weibull random.standard_gamma random.standard_t": "2.0",
    "random.chisquare random.gamma": "2.0",
    "random.geometric random.logseries": "0.5", "random.rand random.randn": "3, 3",
    "random.random random.random_sample random.ranf random.sample random.standard_normal random.standard_cauchy "
    "random.standard_exponential": "9",
    "random.uniform random.normal random.exponential random.gumbel random.laplace random.logistic random.lognormal "
    "random.rayleigh random.poisson": "",
    "random.get_state random.get_bit_generator": "", "random.set_state": "np.random.get_state()",
}.items() for name in names.split()}
# These make no call that is a question of arrays: what they do is no matter of this process alone, or takes minutes.
NOT_CALLED = frozenset("test linalg.test fft.test random.test show_runtime show_config setbufsize seterr seterrcall "
                       "set_printoptions random.set_bit_generator".split())
METHODS = {name: text for names, text in {
    "argpartition partition": "3", "astype": "'f4'", "choose": "[x] * 9", "clip": "0.6, 1.0", "compress": "[True] * N, 0",
    "dot": "m",
    "dump tofile": "OUT", "fill": "1.0", "getfield": "'f8'", "item": "1, 2", "put": "[1], 2.0", "repeat": "2", "reshape": "-1",
    "resize": "(N, N)", "searchsorted": "v", "setfield": "1.0, 'f8'", "setflags": "", "swapaxes": "0, 1", "take": "[1, 2]",
    "to_device": "'cpu'",
    "view": "'i8'", "squeeze": "",
}.items() for name in names.split()}
OPERATORS = {
    "x + x": "+ - * / // % **", "i << i": "<< >> & | ^", "-x": "- + abs() of one", "~b": "~", "x < x": "< <= == != >= >",
    "x @ x": "@",
    "x[1:, ::2]": "slices, integers, None, ... in []", "x[[1, 2]]": "arrays of indices in []", "x[x > 1]": "masks in []",
    "set_(x, 0, 1.0)": "assignment to []", "float(x[1, 1])": "float() int() bool()", "str(x)": "print() str()",
    "repr(v)": "repr()", "list(v)": "iteration of one axis",
    "list(x)": "iteration of rows", "np.asarray(x)": "numpy.asarray()", "len(x)": "len()",
    "x.shape": ".shape .dtype .ndim .size .strides",
}


def _files():
    folder = tempfile.mkdtemp(prefix="frit-docs-")
    text, saved = os.path.join(folder, "file"), os.path.join(folder, "file.npy")
    with open(text, "wb") as file:
        file.write(b"12345678")
    np.save(saved, np.arange(3.0))
    return {"FILE": text, "NPY": saved, "OUT": os.path.join(folder, "out")}


FILES = _files()


def found(module, name):
    """The function that a module has by that name, which may have dots."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def _set(x, key, value):
    x[key] = value


def _names(pending):
    """The arguments by name: tensors that nobody has computed, or NumPy's."""
    made = {k: frit.asarray(a) for k, a in ARRAYS.items()} if pending else {k: a.copy() for k, a in ARRAYS.items()}
    if pending:
        # (an operation on each, which is recorded and nothing more)
        made = {k: ~t if t.dtype == bool else -(-t) if t.dtype.kind in "fc" else +t for k, t in made.items()}
    return {**made, **FILES, "np": np, "io": io, "N": N, "set_": _set, "frit": frit}


def _outcome(call, arguments):
    """What came of a call of `call` with what an expression says: "lazy", "immediate", "NumPy"; None: it does not take that."""
    names = _names(True)
    given = eval(f"(lambda *a, **k: (a, k))({arguments})", names)
    tensors = [t for t in names.values() if isinstance(t, frit.Tensor)]
    used = [t for t in tensors if any(t is o for o in _flat(given))]
    was = [t for t in used if t._is_pending()]
    before = frit.stats()
    try:
        result = call(*given[0], **given[1])
    except Exception:
        return None
    after = frit.stats()
    if after["fallbacks"] != before["fallbacks"]:
        return "NumPy"
    if after["evals"] != before["evals"] or not all(t._is_pending() for t in was):
        return "immediate"
    return "lazy" if result is None and used or any(isinstance(o, frit.Tensor) for o in _flat(result)) else "no values"


def _flat(o):
    if isinstance(o, (list, tuple)):
        for item in o:
            yield from _flat(item)
    elif isinstance(o, dict):
        for item in o.values():
            yield from _flat(item)
    else:
        yield o


def _quietly(function, *args):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        printing = np.get_printoptions()
        try:
            return function(*args)
        finally:
            np.set_printoptions(**{k: v for k, v in printing.items() if k != "override_repr"})


def arguments_of(name):
    """The expressions to try as arguments of a function of NumPy's name."""
    return (OWN[name],) if name in OWN else USUAL


def answer(name):
    """(how frit.`name` answers, the arguments it was given); (None, None): it takes none of those."""
    function = found(frit, name)
    for arguments in arguments_of(name):
        how = _quietly(_outcome, function, arguments)
        if how:
            return how, arguments
    return None, None


def accelerated(name, arguments, called):
    """How a call numpy.`name` of an accelerated function is answered, whose arguments are arrays. `called`: how frit.`name` is;
    what ran no kernel was answered like that."""
    names = _names(False)
    used = [n for n in ARRAYS if re.search(rf"\b{n}\b", arguments)]
    function = eval(f"lambda {', '.join(used)}: np.{name}({arguments})", {k: v for k, v in names.items() if k not in ARRAYS})
    how = _quietly(_in_accelerated, function, [names[n] for n in used])
    return called if how == "nothing" else how


def _in_accelerated(function, given):
    fast = frit.accelerate(function)
    try:
        with frit.config(off="unchanged"):      # what is sooner is not asked, for that is a matter of clocks
            for _ in range(2):      # the first may be another way
                fast(*given)
    except Exception:
        return None
    s = fast.stats
    return "NumPy" if s.fallbacks or s.as_numpy else "immediate" if s.syncs else "lazy" if s.kernels else "nothing"


def method(name):
    """How a method or attribute of a tensor answers; None: it is no matter of computing."""
    return _quietly(_method, name)


def _method(name):
    if not callable(getattr(frit.Tensor, name)):
        return _outcome(lambda x: getattr(x, name), "x")
    for of in ("x", "v", "z", "i"):
        how = _outcome(lambda x, *a: getattr(x, name)(*a), f"{of}, {METHODS[name]}" if name in METHODS else of)
        if how:
            return how
    return None


def operator(expression):
    """How an expression of tensors answers."""
    return _quietly(_operator, expression)


def _operator(expression):
    names = _names(True)
    before = frit.stats()
    result = eval(expression, names)
    after = frit.stats()
    if after["fallbacks"] != before["fallbacks"]:
        return "NumPy"
    if after["evals"] != before["evals"]:
        return "immediate"
    return "lazy" if result is None or isinstance(result, frit.Tensor) else "no values"
