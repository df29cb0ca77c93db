"""Runs a program with NumPy and with frit and says what differs.

The reference is NumPy op by op.  Only functions whose last bit is not NumPy's (exp, sin, ...) take
frit's own value of that single operation, computed at once, after it was checked to lie within a few
ULP of NumPy's.  So whatever frit does with the whole program (fusing, planning, reordering, threads,
compiled code) must give the reference's bits."""
import warnings

import numpy as np

import frit

from ..common import complex_distance, difference, ulp_distance
from .programs import INEXACT, data

# NumPy's own error is up to 4 ULP (its SIMD functions in f32) and ours up to 1; f16 is rounded from f32.
ULP = {"f2": 1, "f4": 5, "f8": 5, "c8": 64, "c16": 64}


class Mismatch(Exception):
    """frit gave another result than NumPy."""


# Of a positive and a negative zero NumPy takes one or the other, as its vector width has it; and the sign of
# a NaN that an operation makes is nobody's business (so no program asks for signs).
EITHER_ZERO = ("max", "min")


def unsigned_zeros(v):
    return np.asarray(v) + 0 if np.asarray(v).dtype.kind in "fc" else np.asarray(v)


def one_op(name, theirs):
    mine = getattr(frit, name)

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
            got = np.asarray(mine(*mine_args, **kw))
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
        if out is not None:
            np.copyto(out, got, casting="same_kind")
            return out
        return got

    return both


class Reference:
    """NumPy with our values of the inexact functions."""

    def __init__(self):
        for name in INEXACT:
            setattr(self, name, one_op(name, getattr(np, name)))

    def __getattr__(self, name):
        return getattr(np, name)


reference = Reference()


def environment(xp, force, refused):
    def raises(line):
        try:
            exec(line, env)
        except Exception as e:
            refused.append(type(e))
        else:
            refused.append(None)

    env = {"xp": xp, "np": np, "data": data, "force": force, "raises": raises}
    return env


def run(lines, xp, force):
    """The variables that are there at the end, and the exception types of the refused lines."""
    refused = []
    env = environment(xp, force, refused)
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
    return {k: v for k, v in env.items() if k[0] == "v" and k[1:].isdigit()}, refused


def plain_type(exception):
    """The built-in exception type behind one of NumPy's own."""
    return next(c for c in exception.__mro__ if c.__module__ == "builtins")


def force_now(*values):
    for v in values:
        if isinstance(v, frit.Tensor):
            frit.eval(v)


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
            if mine is None or not issubclass(mine, plain_type(theirs)):
                return (f"run {i}: refused with {mine and mine.__name__} "
                        f"instead of {theirs and theirs.__name__}")
        tensors = [v for v in got.values() if isinstance(v, frit.Tensor)]
        try:
            frit.eval(*tensors)
            for name in want:
                wrong = difference(got[name], want[name])
                if wrong and any(op in "".join(lines) for op in EITHER_ZERO):
                    wrong = difference(unsigned_zeros(got[name]), unsigned_zeros(want[name]),
                                       strides=False)
                if wrong:
                    return f"run {i}: {name}: {wrong}"
        except Exception as e:
            return f"run {i}, evaluating: {type(e).__name__}: {e}"
    return None
