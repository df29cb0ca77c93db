"""Runs a program with NumPy and with frit and says what differs.

The reference is NumPy op by op.  Only functions whose last bit is not NumPy's (exp, sin, ...) take
frit's own value of that single operation, computed at once, after it was checked to lie within a few
ULP of NumPy's.  So whatever frit does with the whole program (fusing, planning, reordering, threads,
compiled code) must give the reference's bits."""
import ast
import json
import math
import re
import warnings

import numpy as np

import frit

from ..common import complex_distance, difference, ulp_distance
from .programs import COMPLEX_INEXACT, INEXACT, OWN, Names, caught, data

# NumPy's own error is up to 4 ULP (its SIMD functions in f32) and ours up to 1; f16 is rounded from f32.
ULP = {"f2": 1, "f4": 5, "f8": 5, "c8": 64, "c16": 64}


class Mismatch(Exception):
    """frit gave another result than NumPy."""


# Of a positive and a negative zero NumPy takes one or the other here, as its vector width has it: fmax of
# two arrays gives the second in whole vectors and the first in some places of the rest, and the lanes of a
# vectorised max meet in the end.  There the reference takes frit's zero.  (maximum, minimum and clip of
# any dtype and everything of f16 and of complex numbers do not depend on the place and are frit's exactly.)
# The sign of a NaN that an operation makes is nobody's business.
EITHER_ZERO = ("fmax", "fmin", "max", "min", "nanmax", "nanmin")


def silent(f):
    """The function without a word about its arithmetic: what there is to say NumPy's has said."""
    def g(*args, **kw):
        with np.errstate(all="ignore"):
            return np.asarray(f(*args, **kw))
    return g


def own_zeros(name, theirs):
    """NumPy's function with frit's zeros in the place of NumPy's zeros."""
    mine = silent(getattr(frit, name))

    def both(*args, out=None, **kw):
        if name in ("fmax", "fmin"):
            args = [quiet(a) for a in args]
        result = None if out is None else np.copy(out)      # an operand may lie in it
        want = theirs(*args, **kw) if out is None else theirs(*args, out=result, **kw)
        w = np.asarray(want)
        if w.dtype.str[1:] in ("f4", "f8") or (w.dtype.kind == "c" and np.asarray(args[0]).dtype.kind != "c"):
            # Of shared memory, since the layout decides in which order a reduction meets the zeros.
            if out is not None:
                kw = kw | {"out": frit.asarray(out)}
            got = mine(*(frit.asarray(a, copy=False) if isinstance(a, np.ndarray) else a for a in args), **kw)
            if got.dtype != w.dtype or got.shape != w.shape:
                raise Mismatch(f"{name}: {got.dtype}{got.shape} instead of {w.dtype}{w.shape}")
            if isinstance(want, np.ndarray):
                np.copyto(want, got, where=(w == 0) & (got == 0))
            elif w == 0 and got == 0:
                want = got[()]
        if out is None:
            return want
        out[...] = result
        return out

    return both


QUIET = {2: ("u2", 9), 4: ("u4", 22), 8: ("u8", 51)}      # the bit of a float that a signalling NaN has not


def quiet(a):
    """Without signalling NaNs (NumPy's divmod of f16 makes some), which fmax and fmin hand on as no other NaN. What has
    none stays as it lies."""
    if not isinstance(a, np.ndarray) or a.dtype.kind != "f":
        return a
    word, bit = QUIET[a.itemsize]
    bits = np.ascontiguousarray(a).view(word).reshape(a.shape)
    signals = np.isnan(a) & (bits >> bit & 1 == 0)
    return np.where(signals, a.dtype.type(np.nan), a) if signals.any() else a


def put_out(out, result, theirs, args, kw):
    """What out= does with a result; where it is refused, NumPy's own function says so."""
    try:
        if np.shape(result) == np.shape(out):
            np.copyto(out, result, casting="same_kind")
            return out
    except (TypeError, ValueError):
        pass
    return theirs(*args, out=out, **kw)


def one_op(name, theirs):
    mine = silent(getattr(frit, name))

    def both(*args, out=None, **kw):
        want = theirs(*args, **kw)
        kind = np.asarray(want).dtype.kind
        if kind not in "fc" or (kind == "f" and name in ("multiply", "divide", "square", "reciprocal", "sign",
                                                         "sqrt")):
            got = want
        elif kind == "f" and name == "absolute" and np.asarray(args[0]).dtype.kind != "c":
            got = want
        else:
            mine_args = [frit.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
            got = mine(*mine_args, **kw)
            w = np.asarray(want)
            if got.dtype != w.dtype or got.shape != w.shape:
                raise Mismatch(f"{name}: {got.dtype}{got.shape} instead of {w.dtype}{w.shape}")
            limit, judged = ULP[w.dtype.str[1:]], got
            if name in ("logaddexp", "logaddexp2"):
                # Where the result crosses zero NumPy's has lost its digits: the terms' ULP count.
                with np.errstate(all="ignore"):
                    scale = np.maximum(np.abs(np.asarray(args[0])), np.abs(np.asarray(args[1])))
                    near = np.abs(got - w) <= limit * np.spacing(scale.astype(w.dtype))
                judged = np.where(near, w, got)
            is_complex = np.asarray(args[0]).dtype.kind == "c" or w.dtype.kind == "c"
            far = (complex_distance(got.astype(np.result_type(w.dtype, np.complex64)),
                                    w.astype(np.result_type(w.dtype, np.complex64)))
                   > ULP["c8"]) if is_complex else ulp_distance(judged, w) > limit
            if far.any() and not is_complex:
                at = tuple(int(i) for i in np.argwhere(far)[0])
                raise Mismatch(f"{name}: {got[at]!r} instead of {w[at]!r} is more than {limit} ULP")
            if isinstance(want, np.ndarray):
                want[...] = got
                got = want
            else:
                got = got[()]
        return got if out is None else put_out(out, got, theirs, args, kw)

    return both


def own_function(name):
    def alone(*args, **kw):
        got = getattr(frit, name)(*(frit.asarray(a, copy=False) if isinstance(a, np.ndarray) else a for a in args), **kw)
        return np.asarray(got)[()]      # a scalar where NumPy's functions give one
    return alone


class Reference(Names):
    """NumPy with our values of the inexact functions, and our zeros or NumPy's, and our complex numbers or NumPy's."""

    def __init__(self, zeros_are_ours=True, complex_is_ours=True):
        for name in OWN:
            setattr(self, name, own_function(name))
        for name in INEXACT - (set() if complex_is_ours else set(COMPLEX_INEXACT)):
            setattr(self, name, one_op(name, getattr(np, name)))
        for name in EITHER_ZERO:
            theirs = getattr(np, name)
            setattr(self, name, own_zeros(name, theirs) if zeros_are_ours else theirs)


reference = Reference()
of_their_arrays = Reference(zeros_are_ours=False), Reference(zeros_are_ours=False, complex_is_ours=False)


# Methods and operators of ndarray cannot be exchanged, so the reference calls the function instead.
METHOD = re.compile(r"\b(v\d+)\.(max|min)\(")
# NumPy promises that an assignment between overlapping parts of an array does what it does between others, but of one
# axis with two different strides it reads elements that it has written: the reference assigns a copy.
ASSIGNMENT = re.compile(r"^(\s*v\d+\[.*?\]) = (.+)")
IN_PLACE = re.compile(r"(v\d+)(?:\[.*?\])? \*= |multiply\(.*out=(v\d+)|square\(.*out=(v\d+)")
SCALAR_ASSIGNED = re.compile(r"(v\d+)\[.*\] = (v\d+)")
MASKED = re.compile(r"v\d+\[(v\d+)\]")


def for_numpy(line):
    return METHOD.sub(r"xp.\2(\1, ", ASSIGNMENT.sub(r"\1 = apart(\2)", line))


def apart(value):
    return value.copy() if isinstance(value, np.ndarray) else value


def depends_on_class(lines, values):
    """Whether NumPy's result depends on the class of its operands, which is not ndarray where a function got some of its
    arrays by global names.  That are a product of complex numbers of one element in place, the only one that NumPy rounds
    without fma; an array indexed by a mask without elements, which then is taken for integers; and an integer scalar
    assigned to a shorter type, which then is refused."""
    def product_of_one(v):
        return np.asarray(v).dtype.kind == "c" and np.size(v) == 1

    def empty_mask(v):
        return np.asarray(v).dtype == bool and np.size(v) == 0

    def fits(v, target):
        return target in values and np.can_cast(v.dtype, values[target].dtype)

    text = "\n".join(lines)

    def may_be(test, name):     # one that was deleted, or is of another size by now, may be like any other
        known = name in values and f"{name}.resize(" not in text
        return test(values[name]) if known else any(map(test, values.values())) or name in values

    return (any(may_be(product_of_one, v) for line in lines for m in IN_PLACE.finditer(line) for v in m.groups() if v)
            or any(may_be(empty_mask, v) for line in lines for v in MASKED.findall(line))
            or any(may_be(lambda v: isinstance(v, np.integer) and not fits(v, m[1]), m[2])
                   for m in map(SCALAR_ASSIGNED.fullmatch, lines) if m))


MODULES = {"math": math, "json": json, "caught": caught}


def environment(xp, force, refused):
    def raises(line):
        try:
            exec(line, env)
        except Exception as e:
            refused.append(type(e))
        else:
            refused.append(None)

    env = {"xp": xp, "np": np, "data": data, "force": force, "raises": raises, "apart": apart, **MODULES}
    return env


def run(lines, xp, force):
    """The variables that are there at the end, and the exception types of the refused lines."""
    refused = []
    env = environment(xp, force, refused)
    if xp is reference:
        lines = [for_numpy(line) for line in lines]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i, line in enumerate(lines):
            try:
                exec(line, env)
            except Mismatch:
                raise
            except Exception as e:
                e.add_note(f"line {i}: {line}")
                raise
    return {k: v for k, v in env.items() if k[0] in "vn" and k[1:].isdigit()}, refused


def unlike(got, want, **how):
    """What is different between two values, which may be no arrays; None if nothing is."""
    if hasattr(want, "dtype") and hasattr(got, "dtype"):
        return difference(got, want, **how)
    if type(got) is not type(want):
        return f"{type(got).__name__} instead of {type(want).__name__} ({got!r:.60} for {want!r:.60})"
    if isinstance(want, (list, tuple)) and len(got) == len(want):
        return next(filter(None, map(unlike, got, want)), None)
    return None if repr(got) == repr(want) else f"{got!r} instead of {want!r}"


def force_now(*values):
    for v in values:
        if isinstance(v, frit.Tensor):
            frit.eval(v)


DATA = re.compile(r"data\('[^']*', \([^)]*\), \d+(?:, '\w')?\)")
A_LINE = re.compile(rf"(v\d+) = ({DATA.pattern})")
REFUSED = re.compile(r"((?:with .*?: )?)raises\((['\"].*)\)")
# Functions of frit alone, and what of NumPy's stands for them: of the same dtypes.
STANDS_FOR = {"erf": "tanh", "erfc": "cos", "sigmoid": "tanh", "softplus": "arctan"}


FORMS = {   # how a function gets its arrays: its parameters, what stands before its first line, and how it is called
    "arguments": (", ".join, lambda names: "", lambda f, env, given: f(*given.values())),
    "named": (", ".join, lambda names: "", lambda f, env, given: f(**given)),
    "list": (lambda names: "p", lambda names: "".join(f"    {n} = p[{i}]\n" for i, n in enumerate(names)),
             lambda f, env, given: f(list(given.values()))),
    "dict": (lambda names: "p", lambda names: "".join(f"    {n} = p['{n}']\n" for n in names),
             lambda f, env, given: f(given)),
    "object": (lambda names: "p", lambda names: "".join(f"    {n} = p.{n}\n" for n in names),
               lambda f, env, given: f(Holder(given))),
    "global": (lambda names: "", lambda names: "".join(f"    {n} = outer_{n}\n" for n in names),
               lambda f, env, given: env.update({f"outer_{n}": v for n, v in given.items()}) or f()),
}


class Holder:
    def __init__(self, values):
        vars(self).update(values)


def in_numpy(line):
    """The line without functions of frit alone."""
    line = re.sub(r"xp\.(erfc?|sigmoid|softplus)\(", lambda m: f"xp.{STANDS_FOR[m[1]]}(", line)
    line = re.sub(r"xp\.cum(max|min)\((\w+), axis=None\)", r"xp.\1imum.accumulate(xp.ravel(\2))", line)
    return re.sub(r"xp\.cum(max|min)\(", r"xp.\1imum.accumulate(", line)


def statements(line, n):
    """The line as one stands in a function: force is done without, and what is refused is told by the variable e<n>."""
    line = in_numpy(re.sub(r"^force\(.*\)$|; force\(\w+\)", "", line))
    m = REFUSED.fullmatch(line)
    if not m:
        return [line] if line else []
    tried = ["try:", "    " + in_numpy(ast.literal_eval(m[2])), f"    e{n} = None", "except Exception as e:",
             f"    e{n} = type(e).__name__"]
    return [m[1], *("    " + k for k in tried)] if m[1] else tried


def as_function(lines, names, form):
    """(text of f, {argument: how it is made}): the program as a function of its data, which returns all other
    variables."""
    args = {m[1]: m[2] for m in map(A_LINE.fullmatch, lines) if m}

    def argument(m):
        name = f"d{len(args)}"
        args[name] = m[0]
        return name

    body = [DATA.sub(argument, k) for n, line in enumerate(lines) if not A_LINE.fullmatch(line) for k in statements(line, n)]
    names = [n for n in names if n not in args] + [f"e{n}" for n, line in enumerate(lines) if REFUSED.fullmatch(line)]
    parameters, before, _ = FORMS[form]
    text = before(args) + "".join(f"    {line}\n" for line in body)
    return f"def f({parameters(args)}):\n{text}    return {''.join(n + ', ' for n in names) or None}\n", args


def compare_accelerated(lines, runs=7):
    """The same for the program as a function under frit.accelerate, called with other arrays of the same values
    each time, so that the later calls are made again from what was recorded."""
    form = list(FORMS)[len("".join(lines)) % len(FORMS)]

    def call(f, env, arrays):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return FORMS[form][2](f, env, dict(arrays)) or ()

    def copies():
        return {name: v.copy(order="K") for name, v in given.items()}

    def expected(xp):
        env, after = {"xp": xp, "np": np, "apart": apart, **MODULES}, copies()
        exec("".join(map(for_numpy, text.splitlines(keepends=True))), env)
        return [*call(env["f"], env, after), *after.values()]

    def first_wrong(got, want):
        for k, (mine, wanted) in enumerate(zip(got, want)):
            wrong = unlike(mine, wanted, strides=isinstance(mine, np.ndarray))
            if wrong:
                return f"{k} of {len(want) - len(given)} results and {len(given)} arguments: {wrong}"
        return None

    try:
        want, _ = run(lines, reference, lambda *v: None)
        if depends_on_class(lines, want):
            raise ValueError("depends on the class of operands")
        text, made = as_function(lines, want, form)
        given = {name: eval(how, {"data": data}) for name, how in made.items()}
        env = {"xp": np, "np": np, **MODULES}
        exec(text, env)
        call(env["f"], env, copies())      # some names are frit's alone
        want = expected(reference)
    except Mismatch as e:
        return str(e)
    except Exception as e:
        raise ValueError("not a program") from e
    f = frit.accelerate(env["f"])
    for i in range(runs):
        passed = copies()
        try:
            got = call(f, env, passed)
        except Exception as e:
            return f"call {i}: {type(e).__name__}: {e}"
        got = [*got, *passed.values()]
        wrong = first_wrong(got, want)
        # What a function finds by itself are arrays of NumPy, of which NumPy itself finds some extremes and products.
        if wrong and form in ("object", "global") and any(not first_wrong(got, expected(xp)) for xp in of_their_arrays):
            continue
        if wrong:
            return f"call {i} ({form}): {wrong}"
    return None


def compare(lines, runs=2):
    """None when frit agrees with NumPy, else a sentence.  A line that NumPy refuses makes the program
    invalid: ValueError.  `runs` times, so that plans made by the first are replayed."""
    try:
        want, want_refused = run(lines, reference, lambda *v: None)
    except Mismatch as e:
        return str(e)
    except Exception as e:
        raise ValueError("not a program") from e
    for i in range(runs):
        try:
            got, got_refused = run(lines, frit, force_now)
        except Exception as e:
            return f"run {i}: {type(e).__name__}: {e} [{'; '.join(getattr(e, '__notes__', []))}]"
        for mine, theirs in zip(got_refused, want_refused):
            if mine is not theirs:
                return (f"run {i}: refused with {mine and mine.__name__} "
                        f"instead of {theirs and theirs.__name__}")
        tensors = [v for v in got.values() if isinstance(v, frit.Tensor)]
        try:
            frit.eval(*tensors)
            for name in want:
                wrong = unlike(got[name], want[name])
                if wrong:
                    return f"run {i}: {name}: {wrong}"
        except Exception as e:
            return f"run {i}, evaluating: {type(e).__name__}: {e}"
    return None
