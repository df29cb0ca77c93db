"""Small programs, as text, judged by NumPy: each runs with arrays as it is, and accelerated, on copies of the same
input, a few times in turn, for a call that is made again goes another way than the first."""
import copy
import operator
import os
import textwrap
import warnings

import numpy as np

import frit

COMPILED = os.environ.get("FRIT_JIT") == "always"       # each new structure waits for the compiler: a few will do


def function(source, **names):
    """A function of the arguments a, b that the statements, which ';' separates, are the body of."""
    space = {"np": np, "operator": operator, **names}
    exec("def f(a, b):\n" + textwrap.indent(source.replace("; ", "\n"), "    "), space)
    return space["f"]


def shown(x):
    """What can be told of a value: type, dtype, shape, strides, bits."""
    if isinstance(x, (tuple, list)):
        return type(x).__name__, [shown(v) for v in x]
    if isinstance(x, np.ndarray):
        return "ndarray", x.dtype.str, x.shape, x.strides if x.size else None, x.flags.writeable, x.tobytes()
    if isinstance(x, np.generic):
        return type(x).__name__, x.tobytes()
    return type(x).__name__, repr(x)


def outcome(f, arguments):
    """What a call gives or raises, leaves of its arguments and of what these are parts of, and warns of."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        try:
            gave = shown(f(*arguments))
        except Exception as e:
            gave = type(e).__name__, str(e)
    bases = [x.base for x in arguments if isinstance(x, np.ndarray) and x.base is not None]
    return gave, shown(list(arguments)), shown(bases), [(w.category.__name__, str(w.message)) for w in noted]


def together(arguments):
    """A copy of the arguments, which are parts of the same memory again."""
    a, b = arguments() if callable(arguments) else copy.deepcopy(arguments)
    return a, b


def assert_like_numpy(source, arguments, calls=6, warns=False, **names):
    f, h = function(source, **names), frit.accelerate(function(source, **names))
    for k in range(calls):
        want, got = outcome(f, together(arguments)), outcome(h, together(arguments))
        assert got[:3 + warns] == want[:3 + warns], f"call {k} of: {source}"
