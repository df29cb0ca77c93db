"""Draws random functions and what happens between their calls, as the lines that worlds.py runs.

A function sees arrays and numbers as arguments, globals, cells, attributes and members of lists and dicts, some of them by
two names, and reads, branches, loops, writes, calls helpers, returns. It is drawn while its lines run under NumPy, with
everything as it is at the first call; what is done between the calls is drawn while the whole case runs. Every feature can
be left out, so that what is known to go wrong does not hide the rest."""
import random
import re
import warnings

import numpy as np

from . import worlds

FEATURES = {
    "reads": "numbers made of what is no argument: W[0], float(W.sum()), c.max(), W @ W, Z[()], W.tolist()",
    "writes": "stores into arguments and whatever else is in reach",
    "left": "objects stored into lists, dicts and attributes that no argument leads to",
    "globals": "arrays and numbers of the module",
    "cells": "variables of the function around",
    "attributes": "objects with arrays",
    "containers": "lists, dicts and tuples of arrays",
    "defaults": "parameters with a default",
    "helpers": "functions of the module, which read globals themselves",
    "branches": "if, on shapes, numbers and values",
    "loops": "for, also over rows",
    "aliases": "one memory by several names",
    "strides": "arrays with gaps, backwards or transposed",
    "contents": "other contents between the calls",
    "bindings": "other objects between the calls",
    "shapes": "other shapes between the calls",
    "dtypes": "other dtypes between the calls",
    "raises": "functions that raise",
    "long": "sixty calls",
    "fed": "the last result as an argument, or written into",
    "inexact": "exp, log, sin, ..., in results",
    "large": "arrays of more than 32 KB",
    "at": "ufunc.at, put, putmask, place, put_along_axis",
    "shuffle": "NumPy's generators, writing",
    "resize": "resize in place",
    "components": ".real and .imag of complex arrays",
    "errstate": "np.errstate regions and recorded warnings",
    "scalars": "what Python does with numbers of NumPy: round, isinstance, [0] * n, str",
    "reshaping": "x.shape = ...",
    "unchanged": "np.squeeze(d) is d, np.atleast_1d(d) is d",
}
# What fails today for a known reason, or has not been gone through yet.
KNOWN = ("reads", "left", "at", "shuffle", "resize", "components", "errstate", "scalars", "reshaping", "unchanged")

MAX_ELEMS = 20_000      # of an array, and where rows and columns may become a matrix
MAX_SMALL = 2_000
GROWS = re.compile(r"concatenate|stack|repeat|broadcast_to|None\]|append\(")    # not in loops, nor where arrays are large

DTYPES = ["f8", "f8", "f8", "f8", "f4", "f4", "i8", "i8", "i4", "i1", "u1", "?", "f2"]
NUMBERS = ["2", "3", "0.5", "-1", "1.5", "0", "1", "4", "-2.0", "True"]
OPERATORS = ["+", "+", "-", "-", "*", "*", "/", "//", "%", "<", ">=", "==", "&", "|"]
FUNCTIONS_1 = ["np.abs({})", "np.negative({})", "np.square({})", "np.sqrt(np.abs({}))", "np.floor({})", "np.sign({})",
               "np.isnan({})", "np.cumsum({})", "np.zeros_like({})", "np.ones_like({})", "np.sort({})", "{}.copy()",
               "np.array({})", "np.asarray({})", "{}.astype('f8')", "np.nan_to_num({})", "-{}",
               "np.unique({})", "np.diff({})", "np.full_like({}, 3)", "np.flip({})", "np.repeat({}, 2)", "np.triu({})",
               "np.argsort({}, kind='stable')", "np.nonzero({})[0]", "np.ravel({})", "{}.round()", "np.roll({}, 1)"]
REDUCTIONS = ["{}.sum()", "{}.max()", "{}.mean()", "np.sum({}, axis=0)", "np.max({}, axis=-1)", "{}.any()", "np.min({})",
              "{}.sum(axis=0, keepdims=True)", "{}.argmax()", "{}.all()", "{}.prod()", "np.count_nonzero({})", "{}.std()",
              "np.mean({}, axis=-1)", "np.median({})", "np.ptp({})"]
VIEWS = ["{}[1:]", "{}[:-1]", "{}[::-1]", "{}[::2]", "{}.T", "{}.reshape(-1)", "{}[:, None]", "{}[None]", "{}[...]", "{}[0]",
         "{}[:2]", "{}[:, 0]", "{}[-1]", "{}.view()", "{}[:, ::-1]", "np.broadcast_to({}, (2, *{}.shape))"]
NUMBER_OF = ["{}[0]", "float({}[0])", "int({}[-1])", "{}.max()", "{}.argmax()", "float({}.sum())", "{} @ {}", "{}.tolist()[0]",
             "{}.item(0)", "{}.mean()", "bool({}.any())", "int(np.count_nonzero({}))", "{}.min()", "({} > 0).sum()", "{}[0] * 2",
             "sum({})", "max({}.tolist())", "np.add.reduce({})", "float(np.max({}))", "{}[1:].sum()", "{}.ravel()[0]",
             "sorted({}.tolist())[0]", "np.median({})", "abs({}[0])", "{}.prod()"]
NUMBER_OF_0D = ["{}[()]", "float({})", "{}.item()", "{} + 0", "bool({})", "{} * 2.0", "np.float64({})"]
SIZE_OF = ["len({})", "{}.shape[0]", "{}.size", "{}.ndim", "{}.shape[-1]", "{}.nbytes"]
INEXACT = ["np.exp({})", "np.sin({})", "np.tanh({})", "np.cos({})", "np.log1p(np.abs({}))"]


class Draw:
    """Draws one case."""

    def __init__(self, seed, without=KNOWN):
        self.r = random.Random(f"function {seed}")
        self.on = set(FEATURES) - set(without)
        self.n_data = 100 * (seed % 1_000_000)
        self.lines = []
        self.env = None
        self.paths = []         # (expression, whether an argument leads to it)
        self.n_locals = 0
        self.from_arguments = {f"a{i}" for i in range(4)}
        self.n = self.r.choice([0, 1, 2, 3, 3, 3, 4, 4, 5, 6, 8, 9, 17, 64])
        if "large" in self.on and self.r.random() < 0.06:
            self.n = self.r.choice([1000, 4097, 5000])
        # Half of the functions do what is recorded and made again: they compute, and look at the values of no argument.
        self.closed = self.r.random() < 0.5
        if self.closed:
            self.on -= {"raises", "unchanged", "scalars"}
            if self.r.random() < 0.7:
                self.on -= {"writes", "left", "at", "shuffle", "resize"}
        self.m = self.r.choice([1, 2, 2, 3, 4] if self.n < 100 else [2, 3])

    def has(self, feature, probability=1.0):
        return feature in self.on and self.r.random() < probability

    # ---- values

    def data(self, shape=None, dtype=None):
        r, n, m = self.r, self.n, self.m
        self.n_data += 1
        if shape is None:
            shape = r.choice([(n,)] * 8 + [(m, n)] * 3 + [(), (), (1,)] + ([(n, m), (n, 1), (n, n if n < 20 else m)] if n < 100 else []))
        dtype = dtype or r.choice(DTYPES)
        if self.has("components", 0.15):
            dtype = r.choice(["c16", "c8"])

        def made(shape, order=""):
            return f"data({dtype!r}, {shape}, {self.n_data}{order})"

        if shape and self.has("strides", 0.25):
            return r.choice([made((2 * shape[0], *shape[1:])) + "[::2]", made(shape) + "[::-1]", made(shape[::-1]) + ".T",
                             made(shape, ", 'F'"), made((shape[0] + 1, *shape[1:])) + "[1:]"])
        return made(shape)

    def number(self):
        return self.r.choice(NUMBERS + ["np.float64(1.5)", "np.int64(3)", "np.float32(0.5)"] * (self.r.random() < 0.2))

    def value_for(self, expression, same=0.0):
        """Another array where there is one, mostly of its shape and dtype."""
        a, r = self.env.get(expression) if expression.isidentifier() else self.value(expression), self.r
        if not isinstance(a, np.ndarray):
            return self.number()
        shape, dtype = a.shape, a.dtype.str[1:]
        if self.has("shapes", 0.3 * (1 - same)):
            shape = r.choice([(k,) for k in (0, 1, 2, 3, 5, 7)] + [() if "reads" in self.on else (1,), (2, 3), (self.n,), (self.m, self.n)])
        if self.has("dtypes", 0.3 * (1 - same)):
            dtype = r.choice(DTYPES)
        return self.data(shape, "?" if dtype == "b1" else dtype)

    # ---- what the function finds

    def add(self, kind, text):
        self.lines.append(f"{kind}: {text}")

    def path(self, *paths, argument=False):
        self.paths += [(p, argument) for p in paths]

    def found(self, name, kind, argument=False):
        """Something of one of the forms in which a function finds its arrays, by this name."""
        r, form = self.r, self.r.random()
        shared = [p for p, _ in self.paths if p.isidentifier() and p[0].isupper()] if self.has("aliases", 0.25) else []
        if shared:
            other = r.choice(shared)
            self.add(kind, f"{name} = " + r.choice([other, other, f"{other}[1:]", f"{other}[::-1]", f"{other}[:2]"]))
            self.path(name, argument=argument)
        elif form < 0.15 and "containers" in self.on:
            k = r.choice([1, 2, 3])
            self.add(kind, f"{name} = [{', '.join(self.data() for _ in range(k))}]")
            self.path(name, *(f"{name}[{i}]" for i in range(k)), argument=argument)
        elif form < 0.25 and "containers" in self.on:
            self.add(kind, f"{name} = {{'w': {self.data()}, 'k': {self.number()}, 'b': {self.data()}}}")
            self.path(name, *(f"{name}[{k!r}]" for k in "wkb"), argument=argument)
        elif form < 0.3 and "containers" in self.on:
            self.add(kind, f"{name} = ({self.data()}, {self.number()})")
            self.path(f"{name}[0]", f"{name}[1]", argument=argument)
        elif form < 0.42 and "attributes" in self.on:
            self.add(kind, f"{name} = Box(w={self.data()}, k={self.number()}, l=[{self.data()}])")
            self.path(name, f"{name}.w", f"{name}.k", f"{name}.l[0]", argument=argument)
        elif form < 0.57:
            self.add(kind, f"{name} = {self.number()}")
            self.path(name, argument=argument)
        else:
            self.add(kind, f"{name} = {self.data()}")
            self.path(name, argument=argument)

    def setup(self):
        r = self.r
        if "globals" in self.on:
            for i in range(r.choice([0, 1, 1, 2, 3])):
                self.found(f"G{i}", "m")
        if "cells" in self.on:
            for i in range(r.choice([0, 0, 0, 1, 2])):
                self.found(f"c{i}", "c")
        n = r.choice([0, 1, 1, 2, 2, 3])
        if not self.paths:
            n = max(n, 1)
        for i in range(n):
            self.found(f"a{i}", "a", argument=True)
        if self.has("defaults", 0.15):
            self.found("D0", "m")
            self.paths = [(re.sub(r"\bD0\b", "d0", p), a) for p, a in self.paths]
            self.add("d", "d0 = D0")
        if "helpers" in self.on:
            for i in range(r.choice([0, 0, 1, 1, 2])):
                self.helper(i)

    def helper(self, i):
        """def h0(x), and g0 that may take its place."""
        r = self.r
        outer = [p for p, _ in self.paths if p[0] == "G"]
        for name in (f"h{i}", f"g{i}") if self.has("bindings", 0.5) else (f"h{i}",):
            other = r.choice(outer) if outer and r.random() < 0.7 else self.number()
            element = r.choice(NUMBER_OF + NUMBER_OF_0D).format(other, other) if outer and self.has("reads", 0.5) else other
            body = r.choice([f"return x * {element}", f"return x + {other}", f"y = x - {other}\n    return y * y",
                             f"return np.where(x > {element}, x, {r.choice(NUMBERS)})", f"return np.maximum(x, {element})",
                             f"if {element} > 1:\n        return x\n    return x + 1", "return x.sum()", "return x[::-1]",
                             "return x, 2", f"return np.sum(x) + {element}", "return x"]
                            + ["x += 1\n    return x", "x[...] = 1", "x[:1] = 5\n    return x.copy()"] * ("writes" in self.on))
            parameters = r.choice(["x", "x", "x", "x, k=2"])
            if parameters != "x":
                body = body.replace("return x", "return k * x", 1)
            for line in f"def {name}({parameters}):\n    {body}".splitlines():
                self.add("h", line)

    # ---- the body, line by line

    def rebuild(self):
        """The names of the function's scope, as the lines so far leave them."""
        self.env = dict(worlds.SHARED, accelerate=lambda f: f)
        text = "".join(line + "\n" for line in worlds.of_kind(self.lines, "m"))
        helpers = worlds.of_kind(self.lines, "h")
        text += worlds.block(helpers, 0) if helpers else ""
        text += "".join(line + "\n" for k in "cad" for line in worlds.of_kind(self.lines, k))
        body = worlds.of_kind(self.lines, "s")
        self.run(text + (worlds.block(body, 0) if body else ""))

    def run(self, text):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            exec(text, self.env)

    def value(self, expression):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return eval(expression, self.env)
        except Exception:
            return None

    def locals(self):
        return [k for k in self.env if re.fullmatch(r"v\d+", k)]

    def choose(self, test, outer=True, arguments=True, left=True):
        """An expression whose value passes the test, or None."""
        names = [v for v in self.locals() if test(self.env[v])] if arguments and left else []
        names += names[-2:] * 3         # what was made last is used soonest
        if outer:
            names += [p for p, argument in self.paths if (argument or left) and (arguments or not argument) and test(self.value(p))]
        return self.r.choice(names) if names else None

    def is_read(self, expression):
        """Whether a number made of it comes from memory that is no argument's: "reads" is about those."""
        return not set(re.findall(r"[A-Za-z_]\w*", expression)) & self.from_arguments

    def own(self, test=lambda a: True):
        """An array of which numbers may be made."""
        x = self.array(test)
        return x if x and ("reads" in self.on or not self.is_read(x)) else None

    def reads(self, line):
        """True if the line, which was run, makes a number of what is no argument."""
        m = re.match(r" *(v\d+) [-+*/&]*= (.*)", line)
        return bool(m) and isinstance(self.env.get(m[1]), np.generic) and self.is_read(m[2])

    def note(self, lines):
        """Which locals come from arguments."""
        for line in lines:
            m = re.match(r" *(?:for )?(v\d+) (?:[-+*/&]*=|in) (.*)", line)
            if m and not self.is_read(m[2]):
                self.from_arguments.add(m[1])

    def array(self, test=lambda a: True, **kw):
        return self.choose(lambda a: isinstance(a, np.ndarray) and test(a), **kw)

    def operand(self):
        """An array or a number, by any name."""
        return self.choose(lambda a: isinstance(a, (np.ndarray, np.generic, int, float))) or self.number()

    def new(self):
        self.n_locals += 1
        return f"v{self.n_locals - 1}"

    def target(self, inside):
        """The local that a line assigns: inside of blocks one that is there."""
        old = self.locals()
        return self.r.choice(old) if inside and old else self.new()

    def line_binary(self, inside):
        x, y, r = self.array(), self.operand(), self.r
        if not x or "reads" not in self.on and self.value(x).ndim == 0 and self.is_read(f"{x} {y}"):
            return None         # of arrays of no axis NumPy's operators make numbers
        if r.random() < 0.3:
            x, y = y, x
        return f"{self.target(inside)} = " + r.choice([
            f"{x} {r.choice(OPERATORS)} {y}", f"{x} {r.choice(OPERATORS)} {y}", f"{x} {r.choice('+-*')} {y} {r.choice('+-*')} {self.operand()}",
            f"np.maximum({x}, {y})", f"np.minimum({x}, {y})", f"np.where({x} > {y}, {x}, {self.operand()})",
            f"np.add({x}, {y})", f"np.clip({x}, 0, {y})", f"np.concatenate([{x}, {y}])", f"np.stack([{x}, {y}])"])

    def line_unary(self, inside):
        x = self.array()
        return x and f"{self.target(inside)} = {self.r.choice(FUNCTIONS_1[:6] if self.closed else FUNCTIONS_1).format(x)}"

    def line_reduce(self, inside):
        x = self.own()
        return x and f"{self.target(inside)} = {self.r.choice(REDUCTIONS[:5] if self.closed else REDUCTIONS).format(x)}"

    def line_view(self, inside):
        x = self.own()
        return x and f"{self.target(inside)} = {self.r.choice(VIEWS).format(x, x)}"

    def line_alias(self, inside):
        x = self.choose(lambda a: a is not None)
        return x and f"{self.target(inside)} = {x}"

    def line_unchanged(self, inside):
        x = self.own()
        return x and f"{self.target(inside)} = {self.r.choice(['np.squeeze', 'np.atleast_1d', 'np.atleast_2d', 'np.ravel'])}({x})"

    def line_gather(self, inside):
        x = self.own(lambda a: a.ndim)
        y = self.array(lambda a: a.dtype.kind in "bi" and a.ndim == 1)
        return x and not self.closed and f"{self.target(inside)} = " + self.r.choice(
            [f"{x}[{x} > {self.number()}]", f"{x}[[0, -1]]", f"{x}[{y}]", f"np.take({x}, [0, 0])", f"{x}[np.arange(len({x}))[::-1]]"])

    def number_of(self, x):
        a = self.value(x)
        forms = NUMBER_OF_0D if a.ndim == 0 else NUMBER_OF if a.ndim == 1 else NUMBER_OF[3:4] + NUMBER_OF[5:6] + ["{}[0, 0]"]
        return self.r.choice(forms).format(x, x)

    def line_number(self, inside):
        """A number of an array; of those that are no arguments only with "reads"."""
        r = self.r
        if r.random() < 0.15:
            x = self.array(lambda a: a.ndim)
            return x and f"{self.target(inside)} = {r.choice(SIZE_OF).format(x)}"
        outer = "reads" in self.on
        x = self.array(lambda a: a.size, arguments=not outer or not self.closed and r.random() < 0.3)
        if not x or self.closed and not outer or not outer and not (x[0] == "a" and "aliases" not in self.on):
            return None
        return f"{self.target(inside)} = {self.number_of(x)}"

    def line_helper(self, inside):
        names = sorted({m[1] for m in (re.match(r"def (h\d)", line) for line in worlds.of_kind(self.lines, "h")) if m})
        x = self.operand()
        if not names or "reads" not in self.on and self.is_read(x):
            return None
        call = f"{self.r.choice(names)}({x})"
        return call if self.r.random() < 0.2 else f"{self.target(inside)} = {call}"

    def line_method(self, inside):
        x = self.choose(lambda a: isinstance(a, worlds.Box))
        y = self.array()
        return x and y and f"{self.target(inside)} = {x}.scaled({y})"

    def line_store(self, inside):
        r = self.r
        x, y = self.array(lambda a: a.flags.writeable), self.operand()
        if not x:
            return None
        return r.choice([
            f"{x}[...] = {y}", f"{x}[:] = {y}", f"{x}[0] = {y}", f"{x}[1:] = {x}[:-1]", f"{x}[::-1] = {x}", f"{x}[-1] += {y}",
            f"{x}[{x} > {self.number()}] = {self.number()}", f"{x}[:2] *= 2", f"{x}[[0, -1]] = {self.number()}",
            f"np.add({x}, {y}, out={x})", f"np.negative({x}, out={x})", f"{x}.fill({self.number()})", f"{x}.sort()",
            f"np.copyto({x}, {y})", f"np.maximum({x}, {y}, out={x})", f"np.multiply({x}[1:], 2, out={x}[:-1])"])

    def line_in_place(self, inside):
        x, y = self.array(lambda a: a.flags.writeable), self.operand()
        if x and x[0] == "G" and x.isidentifier() and self.r.random() < 0.5:
            return None         # makes a global that is assigned, which is seldom
        return x and f"{x} {self.r.choice(['+', '-', '*', '+', '//', '/', '&'])}= {y}"

    def line_put(self, inside):
        """Into members of containers, attributes, globals and cells."""
        r = self.r
        y = self.choose(lambda a: isinstance(a, (np.ndarray, np.generic, int, float))) or self.number()
        x = self.choose(lambda a: isinstance(a, (list, dict, worlds.Box)), left="left" in self.on)
        if r.random() < 0.2:
            names = [p for p, _ in self.paths if re.fullmatch(r"[Gc]\d", p) and isinstance(self.value(p), (np.ndarray, int, float))]
            return f"{r.choice(names)} = {y}" if names else None
        if not x:
            return None
        value = self.value(x)
        if isinstance(value, list):
            return r.choice([f"{x}[0] = {y}", f"{x}[-1] = {y}", f"{x}.append({y})" if len(value) < 6 else f"{x}.pop()", f"{x}[0] += {y}"])
        if isinstance(value, dict):
            return r.choice([f"{x}['w'] = {y}", f"{x}['new'] = {y}", f"{x}['k'] += 1", f"{x}['w'] -= {y}"])
        return r.choice([f"{x}.w = {y}", f"{x}.k += 1", f"{x}.new = {y}", f"{x}.w += {y}", f"{x}.w = {x}.w * 2"])

    def line_at(self, inside):
        r, x, y = self.r, self.array(lambda a: a.flags.writeable and a.ndim), self.operand()
        if not x:
            return None
        n = len(self.value(x))
        at = r.choice(["[0]", "[0, 0, 1]", "[0, -1]", f"np.array([{n - 1}, 0])", "[1, 0, 1]"])
        return r.choice([f"np.add.at({x}, {at}, {self.number()})", f"np.subtract.at({x}, {at}, {y})", f"np.maximum.at({x}, {at}, {y})",
                         f"np.add.at({x}, {at}, {x}[1:])", f"np.put({x}, {at}, {y})", f"{x}.put({at}, {x}[1:])",
                         f"np.putmask({x}, {x} > 1, {y})", f"np.place({x}, {x} > 1, [1, 2])", f"np.putmask({x}, {x}[::-1] > 1, {x}[::-1])",
                         f"np.put_along_axis({x}, np.zeros((1,) * {x}.ndim, int), {self.number()}, 0)", f"np.negative.at({x}, {at})",
                         f"np.add.at({x}, {x} > 1, {y})", f"np.copyto({x}, {y}, where={x} > 0)", f"np.fill_diagonal({x}, 3)"])

    def line_shuffle(self, inside):
        r, x = self.r, self.array(lambda a: a.flags.writeable and a.ndim)
        seed = r.randrange(100)
        rng = r.choice([f"np.random.default_rng({seed})", f"np.random.RandomState({seed})"])
        return x and r.choice([f"{rng}.shuffle({x})", f"np.random.default_rng({seed}).shuffle({x}, axis=-1)",
                               f"np.random.default_rng({seed}).random(out={x})", f"{self.target(inside)} = {rng}.permutation({x})",
                               f"np.random.default_rng({seed}).permuted({x}, out={x})", f"{self.target(inside)} = {rng}.choice({x}, 3)",
                               f"np.random.default_rng({seed}).standard_normal(out={x})"])

    def line_resize(self, inside):
        # Of a new array: what NumPy still has of the old one would see memory that is no longer there.
        r, x, v = self.r, self.array(lambda a: a.ndim), self.new()
        n = r.choice([0, 1, 2, 3, 5, 8])
        make = r.choice(["{}.copy()", "np.maximum({}, {})", "{} * 2", "np.concatenate([{}, {}])", "np.zeros_like({})", "np.array({})", "np.sort({})"])
        return x and f"{v} = {make.format(x, x)}\n{v}.resize({r.choice([f'{n}', f'({n}, 2)', f'({n},)'])}, refcheck=False)"

    def line_reshaping(self, inside):
        x = self.array(lambda a: a.flags.c_contiguous and a.size)
        return x and self.r.choice([f"{x}.shape = (-1, 1)", f"{x}.shape = (1, -1)", f"{x}.shape = -1", f"{x}.shape = {x}.shape[::-1]"])

    def line_component(self, inside):
        r, x, y = self.r, self.array(lambda a: a.dtype.kind == "c"), self.operand()
        if not x:
            return None
        part = f"{x}.{r.choice(['real', 'imag'])}"
        lines = [f"{self.target(inside)} = {part}", f"{self.target(inside)} = np.real({x})", f"{self.target(inside)} = np.abs({part})"]
        if "writes" in self.on:
            lines += [f"{part}[...] = {y}", f"{part} += {y}", f"{part} = {y}", f"{part}[0] = {self.number()}", f"{x} += 1j",
                      f"np.add({part}, 1, out={part})"]
        return r.choice(lines)

    def line_errstate(self, inside):
        r, x, y = self.r, self.array(lambda a: a.dtype.kind == "f"), self.operand()
        if not x:
            return None
        v, what = self.target(inside), r.choice([f"{x} / {y}", f"np.sqrt({x})", f"np.log({x})", f"{x} * 1e308", f"1 / {x}"])
        return r.choice([
            f"with np.errstate(all='raise'):\n    {v} = {what}",
            f"try:\n    with np.errstate(divide='raise', invalid='raise'):\n        {v} = {what}\nexcept FloatingPointError:\n    {v} = -1",
            f"with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n    with np.errstate(all='warn'):\n"
            f"        {v} = {what}\n        float(np.sum({v}))\n    {v} = [str(k.message) for k in w]",
            f"with np.errstate(all='ignore'):\n    {v} = {what}"])

    def line_scalars(self, inside):
        r, x = self.r, self.array(lambda a: a.size and a.ndim)
        if not x:
            return None
        s = r.choice(["{}.max()", "{}.sum()", "{}.ravel()[0]", "{}.mean()", "{}.argmax()", "{}.any()"]).format(x)
        i = r.choice(["{}.argmax()", "np.count_nonzero({})", "{}.argmin()"]).format(x)
        return f"{self.target(inside)} = " + r.choice([
            f"round({s}, 1)", f"isinstance({s}, float)", f"isinstance({s}, (int, np.integer))", f"np.isscalar({s})", f"str({s})", f"[0] * {i}",
            f"(1, 2) * {i}", f"'-' * {i}", f"hasattr({s}, '__len__')", f"repr([{s}])", f"f'{{{s}:.2f}}'", f"isinstance({x}, np.ndarray)",
            f"type({x}) is np.ndarray", f"type({s})", f"{{{s}: 1}}", f"list(range({i}))", f"{s} == {s}", f"{s}.dtype.name",
            f"type({s}).__name__", f"np.float64({s}).is_integer()", f"divmod({s}, 2)", f"int({s})", f"isinstance({s}, np.generic)"])

    KINDS = [(line_binary, 20, None), (line_unary, 7, None), (line_reduce, 6, None), (line_view, 6, None), (line_alias, 2, "aliases"),
             (line_gather, 3, None), (line_number, 7, None), (line_helper, 4, "helpers"), (line_method, 2, "attributes"),
             (line_store, 6, "writes"), (line_in_place, 5, "writes"), (line_put, 4, "writes"), (line_at, 6, "at"),
             (line_shuffle, 4, "shuffle"), (line_resize, 3, "resize"), (line_reshaping, 3, "reshaping"),
             (line_component, 8, "components"), (line_errstate, 6, "errstate"), (line_unchanged, 5, "unchanged"), (line_scalars, 8, "scalars")]

    def line(self, inside=False):
        kinds = [k for k in self.KINDS if k[2] is None or k[2] in self.on]
        return self.r.choices(kinds, [w for _, w, _ in kinds])[0][0](self, inside)

    def condition(self):
        r = self.r
        x = self.array(lambda a: a.ndim and a.size)
        k = self.choose(lambda a: type(a) in (int, float) or not self.closed and isinstance(a, np.floating))
        tests = []
        if x:
            tests += [f"{x}.shape[0] > {r.choice([1, 2, 3])}", f"len({x}) == {self.n}", f"{x}.ndim == 1", f"{x}.dtype == np.float64"]
            if not self.closed and (x[0] == "a" and "aliases" not in self.on or "reads" in self.on):
                tests += [f"{self.number_of(x)} > {r.choice(NUMBERS)}"] * 3
        if k:
            tests += [f"{k} > {r.choice(['0', '1', '2'])}"] * 2
        c = self.choose(lambda a: isinstance(a, (list, dict)))
        if c:
            tests += [f"len({c}) > {r.choice([1, 2, 3])}"]
        y = self.array()
        if x and y and "aliases" in self.on:
            tests += [f"{x} is {y}"]
        return r.choice(tests) if tests else None

    def header(self):
        r = self.r
        if r.random() < 0.55 or "loops" not in self.on:
            c = self.condition() if "branches" in self.on else None
            return c and f"if {c}:"
        x = self.array(lambda a: a.ndim and 0 < a.shape[0] < 100)
        c = self.choose(lambda a: isinstance(a, list))
        v = self.new()
        forms = [f"for {v} in range({r.choice([1, 2, 3])}):"]
        if x and not self.closed and ("reads" in self.on or x[0] == "v" or x[0] == "a" and "aliases" not in self.on):
            forms += [f"for {v} in {x}:", f"for {v} in {x}[:3]:"]
        if x and len(self.value(x)) < 10:
            forms += [f"for {v} in range(len({x})):"]
        if c:
            forms += [f"for {v} in {c}:"] * 2
        return r.choice(forms)

    def compound(self):
        """A branch or a loop, as lines."""
        head = self.header()
        if not head:
            return None
        loop = re.match(r"for (v\d+) in (.*):", head)
        if loop:
            try:
                self.run(f"{loop[1]} = next(iter({loop[2]}))")
            except Exception:
                return None
        lines = [head]
        for _ in range(self.r.choice([1, 1, 2])):
            line = self.line(inside=True)
            if loop and "writes" in self.on and self.r.random() < 0.4 and self.locals():
                line = f"{self.r.choice(self.locals())} {self.r.choice('+-')}= {loop[1]}"
            if line and not (loop and GROWS.search(line)):
                lines += ["    " + k for k in line.split("\n")]
        if not loop and self.r.random() < 0.3:
            line = self.r.choice([self.line(inside=True), f"return {self.operand()}", "return None"])
            if line and line.startswith("return"):
                lines = [head, "    " + line]
            elif line:
                lines += ["else:"] + ["    " + k for k in line.split("\n")]
        return lines

    def body(self):
        r = self.r
        n, failed = r.choice([3, 4, 4, 5, 6] if self.closed else [1, 2, 3, 4, 6, 9]), 0
        done = 0
        while done < n and failed < 3 * n:
            nested = (self.has("branches") or self.has("loops")) and r.random() < 0.2
            line = self.compound() if nested else self.line()
            lines = line.split("\n") if isinstance(line, str) else line or []
            if nested:
                self.rebuild()          # a loop's variable was there for its lines
            try:
                assert lines
                assert self.n < 100 or not any(map(GROWS.search, lines))
                self.run("\n".join(re.sub(r"return (.*)", r"pass", k) for k in lines))
                assert not self.is_large(self.env.values())
                assert "reads" in self.on or not any(map(self.reads, lines))
            except Exception as e:
                failed += 1
                self.rebuild()
                if lines and "raises" in self.on and r.random() < 0.04 and not isinstance(e, (NameError, SyntaxError, AssertionError)):
                    self.lines += [f"s: {k}" for k in lines]
                    return
                continue
            self.lines += [f"s: {k}" for k in lines]
            self.note(lines)
            done += 1
        if self.has("raises", 0.06):
            c = self.condition()
            if c:
                self.lines += [f"s: if {c}:", "s:     raise ValueError('asked for')"]
        if self.closed:
            self.join()
        self.add("s", f"return {self.result()}")

    def join(self):
        """The result depends on most of what was computed."""
        last = None
        for name in self.locals():
            if isinstance(self.env[name], (np.ndarray, np.generic, int, float)):
                line = f"v{self.n_locals} = {last} {self.r.choice('+-*')} {name}"
                if last is None:
                    last = name
                elif self.value(line.split(" = ")[1]) is not None:
                    self.run(line)
                    self.add("s", line)
                    last = self.new()

    def is_large(self, values):
        return any(v.size > (MAX_SMALL if self.n < 100 else MAX_ELEMS) for v in values if isinstance(v, np.ndarray))

    def result(self):
        r = self.r

        def one():
            x = self.choose(lambda a: a is not None) or "None"
            if self.has("inexact", 0.08) and self.array(lambda a: a.dtype.kind == "f"):
                return r.choice(INEXACT).format(self.array(lambda a: a.dtype.kind == "f"))
            y = self.own(lambda a: a.ndim)
            return r.choice([x] * 6 + ([f"{y}[1:]", f"{y}[::-1]", f"{y} * 2"] if y else []))
        last = self.locals()[-1] if self.locals() else one()
        if self.closed and self.locals():
            return r.choice([last, last, f"{last}, {one()}", f"[{last}, {last}]"])
        return r.choice([last] * 6 + [f"{last}, {one()}"] * 3 + [one(), f"({one()}, {one()}, {last})", f"{{'x': {last}, 'y': {one()}}}",
                                      f"[{last}, [{one()}]]", "None"])

    # ---- between the calls

    def step(self):
        """A line that changes something that the function sees."""
        r = self.r
        names = [n for k in "mac" for n in worlds.names_of(self.lines, k)]
        paths = [p for p, _ in self.paths]
        body = " ".join(worlds.of_kind(self.lines, "s") + worlds.of_kind(self.lines, "h"))
        seen = [p for p in paths if p in body]
        paths = [p.replace("d0", "D0") for p in (seen if seen and r.random() < 0.8 else paths)] or names
        path = r.choice(paths)
        if path[0] == "c":
            path = f"get_{path[:2]}()" + path[2:]
        value = self.value(path)
        if not self.changes:
            return None
        kind = r.choice(self.changes)
        last = self.env.get("r")
        if kind == "fed" and isinstance(last, np.ndarray):
            if r.random() < 0.5 and last.flags.writeable:
                return f"r[...] = {self.number()}"
            return self.assign(path, "r") if isinstance(value, np.ndarray) else None
        if kind == "contents" and isinstance(value, np.ndarray) and value.flags.writeable:
            a = self.value_for(path, same=1.0)
            return r.choice([f"{path}[...] = {a}"] * 4 + [f"{path}[0] = {r.choice(['7', '-1', '0', '1'])}" if value.ndim and value.size else f"{path}[...] = 2",
                                                        f"{path}[...] = {path}[::-1].copy()" if value.ndim else f"{path}[...] = 3",
                                                        f"{path}.fill({r.choice(['0', '1', '5'])})"])
        if kind == "bindings" and value is not None:
            replaced = sorted({m[1] for m in (re.match(r"def g(\d)", line) for line in worlds.of_kind(self.lines, "h")) if m})
            if replaced and r.random() < 0.3:
                i = r.choice(replaced)
                return f"h{i}, g{i} = g{i}, h{i}"
            if isinstance(value, list) and r.random() < 0.5:
                return r.choice([f"{path}.reverse()", f"{path}.append({self.data()})" if len(value) < 4 else f"{path}.pop()"])
            if isinstance(value, (list, dict, tuple, worlds.Box)):
                return None
            if r.random() < 0.06:
                return self.assign(path, r.choice([self.number(), self.data()]))
            if isinstance(value, np.ndarray) and r.random() < 0.3:
                return self.assign(path, r.choice([f"{path}.copy()", f"{path}[::-1]", f"{path}[1:]" if value.ndim else f"{path}.copy()", f"{path}.T",
                                                   f"np.asfortranarray({path})"]))
            return self.assign(path, self.value_for(path))
        if kind == "aliases":
            other = r.choice(paths)
            if other[0] == "c" or not isinstance(value, np.ndarray) or not isinstance(self.value(other), np.ndarray):
                return None
            return self.assign(path, r.choice([other, other, f"{other}[1:]", f"{other}[::-1]"]))
        return None

    @staticmethod
    def assign(path, value):
        m = re.fullmatch(r"get_(c\d)\(\)", path)
        return f"set_{m[1]}({value})" if m else f"{path} = {value}"

    def calls(self):
        r = self.r
        n = 60 if self.has("long", 0.06) else 9
        # What is never bound anew is what recorded calls are made of.
        kinds = ["contents"] if r.random() < (0.7 if self.closed else 0.3) else ["contents", "contents", "bindings", "aliases", "fed"]
        self.changes = [k for k in kinds if k in self.on]
        world = worlds.World(self.lines, lambda f: f)
        self.env = world.names
        often = r.choice([0.2, 0.5, 1.0]) if n == 9 else r.choice([0.02, 0.1])
        for i in range(n):
            for _ in range(r.choice([1, 1, 2, 3]) if i and r.random() < often else 0):
                line = self.step()
                if not line:
                    continue
                try:
                    world.step(line)
                except Exception:
                    continue
                self.add("t", line)
            raised, _, _ = world.call()
            if raised and issubclass(raised, NameError):
                raise ValueError("a local that only a block assigns")
            if self.is_large(x for _, x in world.reachable()):      # what is fed back grows
                break
            self.add("t", "CALL")

    def draw(self):
        self.setup()
        self.rebuild()
        self.body()
        self.calls()
        return self.lines


def draw(seed, without=KNOWN):
    """The lines of a case; the same for the same seed and features."""
    for i in range(20):
        try:
            return Draw(seed + i * 1_000_000_007, without).draw()
        except Exception:       # what one line does not allow another: an alias of something shorter, say
            continue
    raise AssertionError(f"no function for seed {seed}")
