"""Draws random programs: plain lines of Python over `xp`, which is NumPy or frit.

A program is drawn while it runs under NumPy, so every line knows the shapes and dtypes it works on.
Names: v0, v1, ... are arrays; data(...) makes one; force(v) computes it at once.  Lines that NumPy
refuses are kept now and then, as raises("line"): frit must refuse them in the same way."""
import contextlib
import math
import random
import warnings

import numpy as np

# No larger than what makes every path run: SIMD widths and their multiples, blocks, boundaries of
# the pairwise sum.
SIZES = [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 17, 31, 32, 33, 34, 63, 64, 65, 67]
LONG = [127, 128, 129, 130, 255, 257, 500, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097]
MAX_ELEMS = 20_000

FLOATS = ["f4", "f4", "f8", "f8", "f2"]
INTS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
DTYPES = FLOATS * 2 + INTS + ["?", "c8", "c16"]

# Functions whose last bits are not NumPy's: the reference takes ours, op by op (run.py).
INEXACT_1 = ["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin",
             "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"]
# Of complex numbers with a NaN in them, these may be zeros or infinities whose signs C99 leaves open.
OPEN_SIGNS = {f for f in INEXACT_1 if not f.startswith("log")}
INEXACT_1_REAL = ["cbrt"]
# Not logaddexp: where its result crosses zero, NumPy's own error is without bound in ULP.
INEXACT_2 = ["arctan2", "hypot"]


def stand_in(f):
    """Near enough for drawing, where dtypes, shapes and signs matter: the reference has frit's values."""
    return lambda x: np.asarray(f(np.asarray(x, "f8"))).astype(np.tanh(x).dtype)[()]


# Functions of ours alone.
OWN = {"erf": stand_in(np.vectorize(math.erf, "d")), "erfc": stand_in(np.vectorize(math.erfc, "d")),
       "sigmoid": stand_in(lambda x: 1 / (1 + np.exp(-x))), "softplus": stand_in(lambda x: np.logaddexp(0, x))}
# Bit for bit on real numbers; of complex numbers only what adds or moves is.
COMPLEX_INEXACT = ["multiply", "divide", "square", "reciprocal", "absolute", "sign", "sqrt", "power"]
INEXACT = set(INEXACT_1 + INEXACT_1_REAL + INEXACT_2 + COMPLEX_INEXACT)

UNARY = ["negative", "positive", "absolute", "sign", "square", "sqrt", "reciprocal", "floor", "ceil",
         "trunc", "rint", "isnan", "isfinite", "isinf", "logical_not", "fabs", "conjugate",
         "deg2rad", "rad2deg", "invert", "bitwise_count", "fix", "nan_to_num",
         "spacing", "isposinf", "isneginf", "isreal", "round"]
BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "maximum",
          "minimum", "fmax", "fmin", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
          "bitwise_xor", "left_shift", "right_shift", "nextafter", "heaviside", "gcd", "lcm"]
# Ufuncs of arrays that np. and xp. may both be asked for: frit answers NumPy's functions, too.
EXACT = ["add", "subtract", "maximum", "minimum", "less", "equal", "logical_and", "floor_divide",
         "remainder"]
OPERATORS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide", "//": "floor_divide",
             "%": "remainder", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal",
             "==": "equal", "!=": "not_equal", "&": "bitwise_and", "|": "bitwise_or",
             "^": "bitwise_xor"}
REDUCE = ["sum", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "mean", "var", "std",
          "count_nonzero", "ptp", "nansum", "nanmax", "median"]


class Names:
    """NumPy's namespace and stand-ins for what is frit's alone."""

    def __init__(self):
        vars(self).update(OWN)

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def cummax(a, axis=None):
        return np.maximum.accumulate(a.ravel() if axis is None else a, axis=axis or 0)

    @staticmethod
    def cummin(a, axis=None):
        return np.minimum.accumulate(a.ravel() if axis is None else a, axis=axis or 0)


def data(dtype, shape, seed, order="C"):
    """An array of random numbers and special values."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    n = int(np.prod(shape, dtype=np.int64))
    if dtype.kind == "b":
        a = rng.integers(0, 2, n).astype(bool)
    elif dtype.kind in "iu":
        i = np.iinfo(dtype)
        a = rng.integers(-8 if i.min else 0, 9, n).astype(dtype)
        big = rng.integers(i.min, i.max, n, dtype=dtype, endpoint=True)
        a = np.where(rng.random(n) < 0.3, big, a)
        s = np.array([i.min, i.max, 0, 1, i.max - 1], dtype)
        a = np.where(rng.random(n) < 0.1, s[rng.integers(0, len(s), n)], a)
    else:
        part = {"c8": "f4", "c16": "f8"}.get(dtype.str[1:], dtype.str[1:])
        f = np.finfo(part)

        def real():
            a = rng.standard_normal(n) * 10.0 ** rng.integers(-2, 3, n)
            a = np.where(rng.random(n) < 0.3, np.round(a), a).astype(part)
            if seed % 3 == 0:       # a third of the arrays have special values
                s = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, f.tiny, -f.smallest_subnormal,
                              f.max, -1.0, 1.0, f.eps], part)
                a = np.where(rng.random(n) < 0.15, s[rng.integers(0, len(s), n)], a)
            return a

        if dtype.kind == "c":
            a = np.empty(n, dtype)
            a.real, a.imag = real(), real()
        else:
            a = real()
    return np.array(a.astype(dtype).reshape(shape), order=order)


@contextlib.contextmanager
def caught(action="always"):
    """The arithmetic warnings of a region, as a list of (category, text) that is there after it."""
    with warnings.catch_warnings(record=action != "error") as met, contextlib.ExitStack() as stack:
        if action is not None:
            stack.enter_context(np.errstate(all="warn"))
        warnings.simplefilter(action or "always")
        found = []
        yield found
        found += sorted({(w.category.__name__, str(w.message)) for w in met or ()})


class Program:
    """Lines, and how to run them with one namespace."""

    def __init__(self, lines, seed=None):
        self.lines, self.seed = lines, seed

    def text(self):
        return "\n".join(self.lines)


class Draw:
    """Draws one program."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.seed = seed
        self.lines = []
        self.env = {"xp": Names(), "np": np, "data": data, "force": lambda *v: None, "raises": self.raises}
        self.n = 0
        self.n_data = 0

    def raises(self, line):
        try:
            exec(line, self.env)
        except Exception:
            pass

    # ---- choosing

    def values(self, test=lambda a: True):
        return [k for k, v in self.env.items()
                if k[0] == "v" and k[1:].isdigit() and isinstance(v, (np.ndarray, np.generic)) and test(v)]

    def pick(self, test=lambda a: True):
        """A name, later ones more often; None when there is none."""
        names = self.values(test)
        if not names:
            return None
        return names[-1 - min(int(self.r.expovariate(0.5)), len(names) - 1)]

    def new(self):
        self.n += 1
        return f"v{self.n - 1}"

    def number(self, kind):
        r = self.r
        if kind == "b":
            return r.choice(["True", "False"])
        if kind in "iu":
            if r.random() < 0.15:
                return r.choice(["np.int8(3)", "np.uint8(200)", "np.int64(-1)", "np.float32(0.5)", "2.5",
                                 "True"])
            return str(r.choice([0, 1, 2, 3, 5, 7, 100] + ([-1, -2, -7] if kind == "i" else [])))
        return r.choice(["0.5", "2", "-1.0", "3", "1e-3", "0.0", "-0.0", "1.25", "7", "np.float32(0.1)",
                         "np.float64(-1.5)", "np.inf", "np.nan", "100.0"])

    def partner(self, name):
        """Something that broadcasts with the array `name`: an array, a part of one, a number."""
        r, a = self.r, self.env[name]
        if r.random() < 0.25:
            return self.number(a.dtype.kind)

        def fits(b):
            try:
                return (np.broadcast_shapes(a.shape, b.shape) is not None
                        and np.prod(np.broadcast_shapes(a.shape, b.shape)) <= MAX_ELEMS)
            except ValueError:
                return False

        other = self.pick(fits) or name
        b = self.env[other]
        if r.random() < 0.2 and b.ndim == 2 and b.shape[0] == b.shape[1]:
            return other + ".T"
        if r.random() < 0.1 and b.ndim >= 1 and b.shape[0] > 0:
            part = r.choice([f"{other}[:1]", f"{other}[-1]"])
            return part if fits(eval(part, self.env)) else other
        return other

    def axis(self, a):
        r = self.r
        if a.ndim == 0 or r.random() < 0.25:
            return "None"
        k = r.randint(1, a.ndim)
        axes = r.sample(range(a.ndim), k)
        if k == 1:
            return str(axes[0] - (a.ndim if r.random() < 0.4 else 0))
        return str(tuple(axes))

    def index(self, a):
        """A basic index into `a`."""
        r, parts = self.r, []
        for n in a.shape[:r.randint(1, a.ndim)] if a.ndim else ():
            kind = r.random()
            if kind < 0.15 and n > 0:
                parts.append(str(r.randrange(-n, n)))
            elif kind < 0.25:
                parts.append(":")
            elif kind < 0.35:
                parts.append("::-1")
            elif kind < 0.5:
                parts.append(f"::{r.choice([2, 3, -2])}")
            elif kind < 0.75:
                parts.append(r.choice(["1:", ":-1", "1:-1", "2:", ":1", "-1:"]))
            else:
                lo = r.randint(0, max(n, 1))
                parts.append(f"{lo}:{r.randint(lo, max(n, lo))}")
        if r.random() < 0.1:
            parts.insert(r.randint(0, len(parts)), "None")
        if r.random() < 0.1 and parts:
            parts.insert(0, "...")
        return ", ".join(parts) if parts else "..."

    # ---- lines; each returns a line or None

    def line_data(self):
        r = self.r
        ndim = r.choice([0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 4])
        shape = [r.choice(SIZES) for _ in range(ndim)]
        if ndim and r.random() < 0.3:
            shape[r.randrange(ndim)] = r.choice(LONG)
        if ndim >= 2 and r.random() < 0.2:
            shape[1] = shape[0]
        while np.prod([d or 1 for d in shape]) > MAX_ELEMS:     # also what is left when an axis of 0 is reduced
            shape[r.randrange(ndim)] = r.choice([1, 2, 3, 5])
        if r.random() < 0.05:
            shape = [r.choice([1, 2, 2, 3]) for _ in range(r.choice([5, 6, 7, 8]))]
        elif r.random() < 0.01:
            shape = [1] * r.choice([12, 20, 28])      # frit has 32, and programs add some
            for _ in range(6):
                shape[r.randrange(len(shape))] = r.choice([2, 3])
        self.n_data += 1
        order = r.choice(["C", "C", "C", "F"])
        return (f"{self.new()} = xp.asarray(data({r.choice(DTYPES)!r}, {tuple(shape)}, "
                f"{self.seed * 100 + self.n_data}, {order!r}))")

    def line_like(self):
        """Another array of the shape of one that is there: programs are mostly about equal shapes."""
        v = self.pick()
        if v is None:
            return None
        self.n_data += 1
        a = self.env[v]
        dtype = a.dtype.str[1:] if self.r.random() < 0.6 else self.r.choice(DTYPES)
        dtype = "?" if dtype == "b1" else dtype
        return f"{self.new()} = xp.asarray(data({dtype!r}, {a.shape}, {self.seed * 100 + self.n_data}))"

    def line_unary(self):
        v = self.pick()
        return v and f"{self.new()} = xp.{self.r.choice(UNARY)}({v})"

    def line_inexact(self):
        v = self.pick(lambda a: a.dtype.kind in "fc")
        if not v:
            return None
        if self.env[v].dtype.kind == "f" and self.r.random() < 0.3:
            if self.r.random() < 0.5:
                return f"{self.new()} = xp.{self.r.choice(INEXACT_1_REAL + list(OWN))}({v})"
            w = self.partner(v)
            if w[0] == "v" and self.env[w.split("[")[0].split(".")[0]].dtype.kind == "c":
                return None
            return f"{self.new()} = xp.{self.r.choice(INEXACT_2)}({v}, {w})"
        name = self.r.choice(INEXACT_1)
        if name in OPEN_SIGNS and self.env[v].dtype.kind == "c" and np.isnan(self.env[v]).any():
            return None
        return f"{self.new()} = xp.{name}({v})"

    def is_complex(self, *operands):
        return any(np.result_type(eval(o, self.env)).kind == "c" for o in operands)

    def orders_scalars(self, op, *operands):
        """NumPy's operators order its complex scalars otherwise than arrays where one has a NaN."""
        return op[0] in "<>" and not any(isinstance(eval(o, self.env), np.ndarray) for o in operands)

    def line_binary(self):
        v = self.pick()
        if not v:
            return None
        w = self.partner(v)
        if self.r.random() < 0.3:
            v, w = w, v
        if self.r.random() < 0.6:
            op = self.r.choice(list(OPERATORS))
            if self.is_complex(v, w) and (OPERATORS[op] in COMPLEX_INEXACT or self.orders_scalars(op, v, w)):
                return f"{self.new()} = xp.{OPERATORS[op]}({v}, {w})"
            return f"{self.new()} = {v} {op} {w}"
        if self.r.random() < 0.1:
            return f"{self.new()} = np.{self.r.choice(EXACT)}({v}, {w})"
        return f"{self.new()} = xp.{self.r.choice(BINARY)}({v}, {w})"

    def line_power(self):
        # Of arrays only: of a NumPy scalar, ** 2 is libm's pow and not the square.
        r = self.r
        v = self.pick(lambda a: a.dtype.kind in "fiu" and isinstance(a, np.ndarray))
        if not v:
            return None
        if self.env[v].dtype.kind == "f":
            if r.random() < 0.3:
                return f"{self.new()} = xp.power({v}, {r.choice([3, 4, -2, 1.5, 'np.float32(0.7)', v])})"
            return f"{self.new()} = {v} ** {r.choice([2, 2, 2, 0.5, -1, 1])}"
        if r.random() < 0.2:
            return f"{v} **= {r.choice([0, 1, 2, 3])}"
        return f"{self.new()} = {v} ** {r.choice([0, 1, 2, 2, 3, 5, -1, f'({v} & 3)'])}"

    def line_sign(self):
        """The signs of numbers, those of zeros among them; the sign of a NaN is nobody's business."""
        v = self.pick(lambda a: a.dtype.kind == "f" and not np.isnan(a).any())
        if not v:
            return None
        if self.r.random() < 0.4:
            return f"{self.new()} = xp.signbit({v})"
        w = self.partner(v)
        if w[0] != "v" or self.env[w.split("[")[0].split(".")[0]].dtype.kind == "c":
            w = "-1.5"
        return f"{self.new()} = xp.copysign({w}, {v})"

    def line_several(self):
        """Functions with two results."""
        r, v = self.r, self.pick(lambda a: a.dtype.kind in "iuf")
        if not v:
            return None
        a, b = self.new(), self.new()
        if self.env[v].dtype.kind == "f" and r.random() < 0.4:
            return f"{a}, {b} = xp.{r.choice(['modf', 'frexp'])}({v})"
        return f"{a}, {b} = {r.choice(['divmod', 'xp.divmod'])}({v}, {self.partner(v)})"

    def line_ldexp(self):
        v = self.pick(lambda a: a.dtype.kind == "f")
        w = v and self.pick(lambda b: b.dtype.kind in "iub" and b.shape == self.env[v].shape)
        return v and f"{self.new()} = xp.ldexp({v}, {w or self.r.choice([-200, -3, 0, 1, 40])})"

    def line_options(self):
        """dtype=, out= and where= of element-wise functions, with an out= that may overlap an operand."""
        r = self.r
        v = self.pick(lambda a: isinstance(a, np.ndarray))
        if not v:
            return None
        a, op = self.env[v], r.choice(EXACT + ["fmod", "bitwise_or", "greater"])
        w = self.partner(v)
        kind = r.random()
        if kind < 0.2:
            return f"{self.new()} = xp.{op}({v}, {w}, dtype={r.choice(DTYPES)!r})"
        if kind < 0.5:
            m = self.pick(lambda b: b.dtype.kind == "b" and b.shape == a.shape)
            x = self.pick(lambda b: isinstance(b, np.ndarray) and b.shape == a.shape) or v
            try:
                fits = m and getattr(np, op)(eval(x, self.env), eval(w, self.env)).dtype == a.dtype
            except TypeError:
                fits = m
            except OverflowError:
                return None
            # With a conversion and an overlap, NumPy writes where the mask says not to.
            return f"xp.{op}({x}, {w}, out={v}, where={m})" if fits else None
        if a.ndim and kind < 0.8:
            return r.choice([f"xp.{op}({v}[1:], {v}[:-1], out={v}[1:])", f"xp.{op}({v}[:-1], {v}[1:], out={v}[1:])",
                             f"xp.negative({v}, out={v}[::-1])", f"xp.{op}({v}, {v}[::-1], out={v})",
                             f"xp.{op}({v}, {v}[:1], out={v})", f"xp.square({v}[::2], out={v}[:{(len(a) + 1) // 2}])",
                             f"xp.{op}({v}.T, {w}, out={v}.T)", f"xp.{op}({v}[-1], {w}, {v})"])
        x = self.pick(lambda b: isinstance(b, np.ndarray) and b.shape == a.shape and b is not a)
        return x and f"xp.{op}({v}, {w}, out={x})"

    def line_where(self):
        c = self.pick(lambda a: a.dtype.kind == "b")
        v = self.pick()
        if not c:
            return v and f"{self.new()} = {v} > 0" if not v or self.env[v].dtype.kind != "c" else None
        return f"{self.new()} = xp.where({c}, {self.partner(c)}, {self.partner(c)})"

    def line_clip(self):
        v, r = self.pick(lambda a: a.dtype.kind in "iuf"), self.r
        if not v:
            return None
        a = self.env[v]
        bounds = [r.choice(["0", "None", "1", "-0.0"] if a.dtype.kind == "f" else ["0", "None", "1"]), "3"]
        if r.random() < 0.3:
            # No rows or columns: whether those are arrays or numbers to NumPy depends on its buffers.
            w = self.pick(lambda b: b.shape == a.shape and b.dtype.kind in "iuf")
            bounds[r.randrange(2)] = w
        lo, hi = bounds
        return f"{self.new()} = " + r.choice([f"xp.clip({v}, {lo}, {hi})", f"xp.clip({v}, {lo}, {hi})",
                                              f"{v}.clip({lo}, {hi})", f"xp.clip({v}, max={hi})"])

    def line_cast(self):
        v = self.pick()
        if not v:
            return None
        a, to = self.env[v], self.r.choice(DTYPES)
        if a.dtype.kind == "c" and np.dtype(to).kind != "c":
            return f"{self.new()} = {v}.real + 0"
        if a.dtype.kind == "f" and np.dtype(to).kind in "iu":
            # What a number outside the target's range becomes is not defined.
            return f"{self.new()} = xp.clip(xp.where(xp.isnan({v}), 0, {v}), 0, 100).astype({to!r})"
        order = self.r.choice(["", "", "", ", order='C'", ", order='F'", ", order='A'", ", copy=False"])
        return f"{self.new()} = {v}.astype({to!r}{order})"

    def line_view(self):
        v = self.pick(lambda a: isinstance(a, np.ndarray))
        if not v:
            return None
        a, r = self.env[v], self.r
        kind = r.random()
        if kind < 0.5 and a.ndim:
            return f"{self.new()} = {v}[{self.index(a)}]"
        if kind < 0.6:
            return f"{self.new()} = {v}.T"
        if kind < 0.7 and a.ndim >= 2:
            axes = list(range(a.ndim))
            r.shuffle(axes)
            return f"{self.new()} = xp.transpose({v}, {tuple(axes)})"
        if kind < 0.8:
            shapes = ["-1", "(-1, 1)", "(1, -1)", "-1, order='F'"]
            for k in 2, 3, 4:
                if a.size % k == 0:
                    shapes += [f"({k}, -1)", f"(-1, {k})", f"(-1, {k}), order='F'"]
            return f"{self.new()} = {v}.reshape({r.choice(shapes)})"
        if kind < 0.88 and a.size * 3 <= MAX_ELEMS:
            return f"{self.new()} = xp.broadcast_to({v}, {(r.choice([1, 2, 3]), *a.shape)})"
        if kind < 0.92:
            return f"{self.new()} = xp.expand_dims({v}, {r.randint(0, a.ndim)})"
        if kind < 0.95:
            return f"{self.new()} = xp.squeeze({v})"
        if r.random() < 0.3:
            # + 0, since NumPy's components of complex numbers are views and frit's are read-only.
            return f"{self.new()} = " + r.choice([f"{v}.real + 0", f"{v}.imag + 0", f"xp.real({v}) + 0", f"xp.imag({v}) + 0"])
        more = [f"xp.atleast_{r.choice([1, 2, 3])}d({v})", f"{v}.view()", f"xp.asarray({v})", f"xp.ravel({v})"]
        if a.ndim >= 2:
            i, j = r.sample(range(a.ndim), 2)
            more += [f"xp.moveaxis({v}, {i}, {j})", f"xp.swapaxes({v}, {i}, {j})", f"xp.rot90({v})",
                     f"xp.diagonal({v}, {r.choice([0, 1, -1])}, {i}, {j})", f"xp.split({v}, 1, axis={i})[0]",
                     f"{v}.mT", f"xp.array_split({v}, 3, axis={j})[1]", f"xp.fliplr({v})"]
        return f"{self.new()} = {r.choice(more)}"

    def line_move(self):
        v = self.pick(lambda a: a.ndim >= 1 and a.size * 3 <= MAX_ELEMS)
        if not v:
            return None
        a, r = self.env[v], self.r
        axis = r.randrange(a.ndim)
        n = a.shape[axis]
        same = self.pick(lambda b: b.shape == a.shape and (b.dtype.kind == "c") == (a.dtype.kind == "c"))
        n2 = n // 2
        text = r.choice([
            f"xp.flip({v}, {axis})", f"xp.flip({v})", f"xp.roll({v}, {r.choice([1, -1, 2, 5])}, {axis})",
            f"xp.roll({v}, {r.choice([1, -3])})", f"xp.roll({v}, (1, 2), (0, {axis}))",
            f"xp.concatenate([{v}, {same}], axis={axis})", f"xp.stack([{v}, {same}], axis={axis})",
            f"xp.concatenate([{v}, {same}], axis=None)", f"xp.{r.choice(['hstack', 'vstack', 'dstack'])}([{v}, {same}])",
            f"xp.concatenate([{v}[:{n2}], {v}])", f"xp.column_stack([{v}, {same}])",
            f"xp.pad({v}, 1)", f"xp.pad({v}, (1, 2), constant_values=3)",
            f"xp.pad({v}, 1, mode={r.choice(['edge', 'reflect', 'wrap', 'symmetric', 'linear_ramp'])!r})",
            f"xp.tile({v}, {r.choice(['2', '(2, 1)', '(1, 2)', '(2, 1, 1)'])})",
            f"xp.repeat({v}, 2, axis={axis})", f"xp.repeat({v}, 2)",
            f"xp.repeat({v}, {[r.choice([0, 1, 2]) for _ in range(n)] if n < 20 else 1}, axis={axis})",
            f"xp.take({v}, {[r.randrange(n) for _ in range(3)] if n else []}, axis={axis})",
            f"xp.take({v}, [[0, 1], [2, -1]], mode={r.choice(['wrap', 'clip', 'raise'])!r})",
            f"xp.swapaxes({v}, 0, {axis})", f"{v}.copy()", f"{v}.copy('F')", f"xp.copy({v})",
            f"xp.zeros_like({v})", f"xp.ones_like({v}, dtype='f4')", f"xp.full_like({v}, 3)", f"xp.ravel({v})",
            f"xp.ravel({v}, 'F')", f"{v}.flatten()", f"xp.tril({v})", f"xp.triu({v}, 1)", f"xp.diag({v})",
            f"xp.diff({v}, axis={axis})", f"xp.insert({v}, 0, 1, axis={axis})", f"xp.delete({v}, 0, axis={axis})",
            f"xp.append({v}, {same})", f"xp.resize({v}, (3, 4))", f"xp.ascontiguousarray({v})"])
        if text.startswith("xp.pad") and np.prod([k + 3.0 for k in a.shape]) > 1 << 20:
            return None     # of many axes
        return f"{self.new()} = {text}"

    def line_scan(self):
        v = self.pick(lambda a: a.ndim >= 1)
        if not v:
            return None
        a, r = self.env[v], self.r
        names = ["cumsum", "cumsum", "cummax", "cummin", "cumprod", "cumulative_sum"]
        name = r.choice(names[:1] if a.dtype.kind == "c" else names)
        axis = r.choice(["None", str(r.randrange(a.ndim))])
        if name == "cumulative_sum" and axis == "None":
            axis = "0"
        extra = ", dtype='f8'" if name in ("cumsum", "cumprod") and a.dtype.kind != "c" and r.random() < 0.1 else ""
        return f"{self.new()} = xp.{name}({v}, axis={axis}{extra})"

    def line_make(self):
        r = self.r
        n, m, k = r.choice(SIZES), r.choice([1, 2, 3, 8, 17]), r.choice([-1, 0, 0, 1, 2])
        d = r.choice(["f4", "f8", "i4", "i8", "f2"])
        return f"{self.new()} = " + r.choice([
            f"xp.eye({m}, {n % 20}, k={k}, dtype={d!r})", f"xp.tri({m}, {n % 20}, {k}, dtype={d!r})",
            f"xp.identity({m})", f"xp.zeros(({m}, {n}), dtype={d!r})", f"xp.ones({n}, dtype={d!r})",
            f"xp.full(({n}, {m}), {r.choice([0, 3, -1])}, dtype={d!r})", f"xp.arange({n})",
            f"xp.arange({k}, {n}, 2, dtype={d!r})", f"xp.arange({n}, {k}, -1)", f"xp.arange(0.5, {n}, 0.25)",
            f"xp.linspace({k}, {n}, {m})", f"xp.linspace(0, 1, {n}, endpoint=False)",
            f"xp.zeros(({n}, {m}), order='F')"])

    def whole(self, v):
        """Small whole numbers, whose sums of products do not depend on an order."""
        if self.env[v].dtype.kind == "f":
            return f"xp.rint(xp.clip(xp.nan_to_num({v}), -9, 9))"
        return v

    def line_product(self):
        """Matrix products are NumPy's; the zero added takes the sign that depends on its library."""
        r = self.r
        v = self.pick(lambda a: 1 <= a.ndim <= 3 and (a.dtype.kind in "iu" or a.dtype.str[1:] in ("f4", "f8"))
                      and a.size <= 2000)
        if not v:
            return None
        a = self.env[v]
        w = self.pick(lambda b: 1 <= b.ndim <= 3 and b.dtype.kind in "iuf" and b.dtype.itemsize > 2
                      and b.shape[-2:][0] == a.shape[-1] and b.size <= 2000)
        if w and r.random() < 0.7:
            return f"{self.new()} = ({self.whole(v)} @ {self.whole(w)}) + 0"
        return f"{self.new()} = " + r.choice([
            f"xp.matmul({self.whole(v)}, {self.whole(v)}.T) + 0", f"xp.dot({self.whole(v)}, {self.whole(v)}.T) + 0",
            f"xp.outer({v}, {v}[:3])", f"xp.inner({self.whole(v)}, {self.whole(v)}) + 0",
            f"xp.tensordot({self.whole(v)}, {self.whole(v)}, 1) + 0", f"xp.einsum('...i->...', {self.whole(v)}) + 0",
            f"xp.matmul({self.whole(v)}[..., None], {self.whole(v)}[..., None, :]) + 0",
            f"xp.einsum('...i,...i->...', {v}, {v})", f"xp.einsum('...i,...j->...ij', {v}, {v})",
            f"xp.einsum('i...,i...->...', {v}, {v})", f"xp.einsum('...i,...i->i...', {v}, {v}) * 2",
            f"xp.trace(xp.atleast_2d({v}))"])

    def line_numpy(self):
        """Arrays of NumPy's beside tensors, memory that both see, and values that Python needs."""
        r = self.r
        v = self.pick(lambda a: a.ndim >= 1)
        if not v:
            return None
        a = self.env[v]
        m = self.pick(lambda b: b.dtype.kind == "b") or "True"
        return r.choice([
            f"{self.new()} = xp.asarray(np.asarray({v}), copy=False)", f"{self.new()} = xp.asarray(np.array({v}))",
            f"np.asarray({v})[...] = 3" if isinstance(a, np.ndarray) else None,
            f"np.add({v}, 1, out=np.asarray({v}), casting='unsafe')" if isinstance(a, np.ndarray) and a.dtype.kind in "iufc" else None,
            f"{self.new()} = xp.asarray(np.arange({a.shape[-1]}))",
            f"{self.new()} = {v} if bool(xp.any({m})) else {v}[::-1]",
            f"{self.new()} = xp.where({v} == {v}, {v}, float(xp.count_nonzero({v})))",
            f"{self.new()} = {v} - {v}[{'0, ' * (a.ndim - 1)}0].item()" if a.size else None,
            f"{self.new()} = np.add.reduce({v})" if a.dtype.kind != "c" else None,
            f"{self.new()} = xp.asarray({v}.tolist())" if a.size < 100 else None,
            f"{self.new()} = [k for k in {v}][0]" if a.shape[0] else None,
            f"{self.new()} = np.asarray({v}) + {v}", f"{self.new()} = {v} + np.asarray({v})[:1]"])

    def line_handed(self):
        """What frit leaves to NumPy, between operations that wait."""
        r = self.r
        v = self.pick(lambda a: a.ndim >= 1 and a.size > 0)
        if not v:
            return None
        a = self.env[v]
        if r.random() < 0.3 and isinstance(a, np.ndarray):
            i = r.randrange(a.shape[0])
            return r.choice([f"{v}.sort(axis=0)", f"{v}.fill(3)", f"xp.put({v}, [0, -1], 2)",
                             f"xp.copyto({v}, 1)", f"xp.putmask({v}, {v} == {v}, 2)", f"xp.place({v}, {v} != {v}, [1, 2])",
                             f"xp.copyto({v}, 1, where={v} == {v})", f"{v}.partition({i}, axis=0)",
                             f"xp.fill_diagonal({v}, 5)", f"xp.put_along_axis({v}, xp.argmax({v}, 0)[None], 1, 0)",
                             f"{v}.flags.writeable = False", f"{v}.put([0], [7])"])
        return f"{self.new()} = " + r.choice([
            f"xp.sort({v}, axis=-1)", f"xp.argsort({v}, axis=0, kind='stable')", f"xp.unique({v})",
            f"xp.nonzero({v})[0] + 0", f"xp.argwhere({v})", f"xp.flatnonzero({v})", f"xp.compress([True, False], {v}, axis=0)",
            f"xp.extract({v} == {v}, {v})", f"xp.take_along_axis({v}, xp.argsort({v}, axis=0, kind='stable'), axis=0)",
            f"xp.searchsorted({v}.ravel()[:5], 1)", f"xp.select([{v} == {v}], [{v}], 3)", f"xp.isin({v}, [0, 1])",
            f"xp.where({v})[0] + 0", f"xp.broadcast_arrays({v}, 1)[0] + 0", f"xp.choose({v} == {v}, [0, 1])",
            f"xp.isclose({v}, {v})", f"xp.array_equal({v}, {v}) + {v}[:1]"])

    def line_gather(self):
        v = self.pick(lambda a: a.ndim >= 1 and a.shape[0] > 0)
        if not v:
            return None
        a, r = self.env[v], self.r
        if r.random() < 0.5:
            m = self.pick(lambda b: b.dtype.kind == "b" and b.shape == a.shape)
            return m and f"{self.new()} = {v}[{m}]"
        n = a.shape[0]
        rows = [r.randrange(-n, n) for _ in range(r.randint(1, 4))]
        picks = f"xp.asarray(np.array({rows}))"
        if r.random() < 0.5:
            return f"{self.new()} = {v}[{picks}]"
        half = [bool(k % 2) for k in range(n)] if n <= 40 else None
        keys = [str(rows), f"{picks}[:, None]", f"({picks}, ...)", f"({picks}, None)", f"np.array({rows}, 'i1')",
                "xp.asarray(np.zeros((0,), int))", f"({n},)", str(half or rows)]
        if a.ndim >= 2 and a.shape[1]:
            cols = [r.randrange(a.shape[1]) for _ in rows]
            keys += [f"({picks}, {cols})", f"(slice(None), {cols})", f"({rows[0]}, {cols})",
                     f"({rows}, slice(None, None, -1))", f"(slice(1, None), {cols})", f"xp.ix_({rows}, {cols})",
                     f"xp.asarray(np.array([{rows}, {rows}]))", f"(None, {rows}, {cols})"]
        m = self.pick(lambda b: b.dtype.kind == "b" and b.ndim == 1 and b.shape == a.shape[:1])
        if m:
            keys += [m, f"({m}, ...)"]
        key = r.choice(keys)
        if isinstance(a, np.ndarray) and r.random() < 0.4:
            x = self.number("i" if a.dtype.kind == "i" else "u")
            return r.choice([f"{v}[{key}] = {x}", f"{v}[{key}] += 1" if a.dtype.kind not in "b" else f"{v}[{key}] ^= True",
                             f"{v}[{key}] = {v}[{key}] + 0" if a.dtype.kind != "b" else f"{v}[{key}] = {x}"])
        return f"{self.new()} = {v}[{key}]"

    def line_matmul(self):
        """A matrix product of small whole numbers: exact, in whatever order they are added up."""
        v = self.pick(lambda a: a.ndim >= 1 and a.dtype.kind in "biuf")
        if not v:
            return None
        a, r = self.env[v], self.r
        w = self.pick(lambda b: b.ndim >= 1 and b.dtype.kind in "biuf" and b.shape[-2:][0] == a.shape[-1])
        pairs = [(v, w)] if w else []
        pairs += [(v, f"{v}.T"), (f"{v}.T", v)] if a.ndim <= 2 else [(v, f"xp.swapaxes({v}, -1, -2)")]
        x, y = (f"xp.clip(xp.where(xp.isnan({n}), 0, xp.rint({n})), -9, 9)"
                if eval(n, self.env).dtype.kind == "f" else n for n in r.choice(pairs))
        return f"{self.new()} = " + r.choice([f"{x} @ {y}", f"xp.matmul({x}, {y})",
                                              f"xp.maximum({x} @ {y} + {self.number('i')}, 0)"])

    def line_reduce(self):
        v = self.pick()
        if not v:
            return None
        a, r = self.env[v], self.r
        name = r.choice(REDUCE)
        axis = self.axis(a)
        if name in ("argmax", "argmin") and axis.startswith("("):
            axis = "None"
        if a.dtype.kind == "c" and name in ("prod", "var", "std", "median", "nansum", "nanmax", "ptp"):
            name = "sum"
        plain = name in ("count_nonzero", "ptp", "nansum", "nanmax", "median")
        extra = ", keepdims=True" if r.random() < 0.35 and not plain else ""
        if name in ("sum", "prod", "mean", "var") and r.random() < 0.1 and a.dtype.kind == "f":
            extra += f", dtype={r.choice(['f8', 'f4'])!r}"
        if name in ("var", "std") and r.random() < 0.2:
            extra += ", ddof=1"
        if name in ("sum", "max", "min", "prod") and r.random() < 0.15:
            extra += f", initial={r.choice(['1', '0', '-2.5' if a.dtype.kind in 'fc' else '2'])}"
        if name in ("sum", "mean", "max", "min", "any", "all", "prod", "var") and r.random() < 0.15:
            m = self.pick(lambda b: b.dtype.kind == "b" and b.ndim <= a.ndim
                          and np.broadcast_shapes(b.shape, a.shape) == a.shape
                          if b.shape in (a.shape, a.shape[-1:], ()) else False)
            extra += f", where={m}" if m else ""
            if m and name in ("max", "min") and "initial" not in extra:
                extra += ", initial=-3" if a.dtype.kind in "ifc" else ", initial=0"
        if r.random() < 0.1 and not plain and "where" not in extra:
            shape = np.empty(a.shape, "?").any(axis=eval(axis), keepdims="keepdims" in extra).shape
            out = self.pick(lambda b: isinstance(b, np.ndarray) and b.shape == shape)
            if out:
                return f"xp.{name}({v}, axis={axis}{extra}, out={out})"
        if r.random() < 0.3 and not plain and "where" not in extra:
            return f"{self.new()} = {v}.{name}(axis={axis}{extra})"
        return f"{self.new()} = xp.{name}({v}, axis={axis}{extra})"

    def line_softmax(self):
        v = self.pick(lambda a: a.dtype.kind == "f" and a.ndim >= 1 and a.size > 0)
        if not v:
            return None
        return self.r.choice([
            f"{self.new()} = {v} - xp.max({v}, axis=-1, keepdims=True)",
            f"{self.new()} = {v} / xp.sum({v}, axis=-1, keepdims=True)",
            f"{self.new()} = {v} == {v}.max()",
            f"{self.new()} = ({v} - xp.mean({v}, axis=0)) * {v}",
            f"{self.new()} = xp.sum({v} * {v}, axis={self.axis(self.env[v])})",
        ])

    def line_inplace(self):
        v = self.pick(lambda a: isinstance(a, np.ndarray))
        if not v:
            return None
        op = self.r.choice(["+", "-", "*", "/", "//", "%", "&", "|", "+", "-", "*", "^", "<<", ">>"])
        a = self.env[v]
        if op == "/" and a.dtype.kind in "iu":
            op = "//"       # an element of integers takes the quotient, and what does not fit is not defined
        w = self.partner(v)
        if op in "*/" and self.is_complex(v, w):
            return f"xp.{OPERATORS[op]}({v}, {w}, out={v})"
        if a.ndim == 2 and a.shape[0] == a.shape[1] and self.r.random() < 0.3:
            w = v + ".T"
        if a.ndim and self.r.random() < 0.3:
            return f"{v}[{self.index(a)}] {op}= {self.number(a.dtype.kind)}"
        return f"{v} {op}= {w}"

    def store_chosen(self, v, a):
        """A store of an array where a mask, of the first axes or of all, or indices say. NumPy reads both, and the array,
        while it writes: where they lie in the same memory, the result depends on their classes."""
        r = self.r
        w = self.pick(lambda b: b.shape == a.shape and np.can_cast(b.dtype, a.dtype, "same_kind")) or v
        add = "^ True" if a.dtype.kind == "b" else "+ 0"
        if r.random() < 0.6:
            m = self.pick(lambda b: b.dtype.kind == "b" and 0 < b.ndim <= a.ndim and b.shape == a.shape[:b.ndim]
                          and not np.may_share_memory(a, b))
            kept = m and eval(f"np.count_nonzero({m})", self.env)
            part = r.choice([f"{w}[{m}]", f"{w}[{m}]", f"{w}[{m}][::-1]", f"{v}[{m}] {add}", f"{v}[:{kept}] {add}",
                             f"{w}[{m}][:1]", f"xp.arange({kept})"]) if m else None
            return m and f"{v}[{m}] = {part}"
        n = a.shape[0]
        if not n:
            return None
        rows = [r.randrange(-n, n) for _ in range(r.randint(1, 5))]
        picks = r.choice([str(rows), f"xp.asarray(np.array({rows}))", f"np.array({rows}, 'i2')"])
        keys = [picks, f"({picks}, ...)"]
        if a.ndim >= 2 and a.shape[1]:
            cols = [r.randrange(a.shape[1]) for _ in rows]
            keys += [f"({picks}, {cols})", f"(slice(None), {cols})"]
        key = r.choice(keys)
        return f"{v}[{key}] = {r.choice([f'{w}[{key}]', f'{v}[{key}] {add}', f'{w}[{key}][::-1]', f'{w}[{key}][:1]'])}"

    def line_store(self):
        v = self.pick(lambda a: isinstance(a, np.ndarray) and a.ndim >= 1)
        if not v:
            return None
        a, r = self.env[v], self.r
        kind = r.random()
        n = a.shape[0]
        if kind < 0.25 and n >= 2:
            lo, hi = f"{v}[1:]", f"{v}[:-1]"
            if r.random() < 0.5:
                lo, hi = hi, lo
            return r.choice([f"{lo} = {hi}", f"{lo} += {hi}" if a.dtype.kind != "b" else f"{lo} |= {hi}",
                             f"{v}[::-1] = {v}", f"{v}[:] = {v}[::-1]"])
        if kind < 0.4:
            # NumPy reads a mask while it writes, so one that looks at the same memory in another order
            # changes on the way; frit reads it first.
            m = self.pick(lambda b: b.dtype.kind == "b" and b.shape == a.shape
                          and (b is a or not np.may_share_memory(a, b)))
            if m:
                return f"{v}[{m}] = {self.number('i' if a.dtype.kind == 'i' else 'u')}"
        if kind < 0.55:
            line = self.store_chosen(v, a)
            if line:
                return line
        key = self.index(a)
        try:
            part = eval(f"{v}[{key}]", self.env)
        except Exception:
            return None
        w = self.pick(lambda b: b.shape == part.shape and np.can_cast(b.dtype, a.dtype, "same_kind"))
        if w and r.random() < 0.7:
            return f"{v}[{key}] = {w}"
        return f"{v}[{key}] = {self.number('u')}"

    def line_out(self):
        v = self.pick(lambda a: isinstance(a, np.ndarray) and a.dtype.kind == "f")
        if not v:
            return None
        a = self.env[v]
        w = self.pick(lambda b: b.shape == a.shape and b.dtype.kind == "f")
        x = self.pick(lambda b: b.shape == a.shape and b.dtype.kind == "f")
        return f"xp.{self.r.choice(['add', 'multiply', 'maximum', 'subtract'])}({w}, {x}, out={v})"

    def line_force(self):
        v = self.pick()
        return v and f"force({v})"

    def line_del(self):
        names = self.values()
        return f"del {self.r.choice(names)}" if len(names) > 4 else None

    KINDS = [(line_data, 4), (line_like, 8), (line_unary, 8), (line_inexact, 6), (line_binary, 22),
             (line_power, 3), (line_sign, 4), (line_several, 2), (line_ldexp, 1), (line_options, 4),
             (line_where, 6), (line_clip, 3), (line_cast, 6), (line_view, 12), (line_move, 8),
             (line_scan, 3), (line_make, 2), (line_product, 1), (line_matmul, 2), (line_numpy, 2), (line_handed, 2),
             (line_gather, 5), (line_reduce, 14), (line_softmax, 6), (line_inplace, 12),
             (line_store, 12), (line_out, 3), (line_force, 4), (line_del, 3)]

    def add(self, line):
        """Runs the line under NumPy and keeps it if it worked, or, rarely, if it was refused."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            before = dict(self.env)
            try:
                exec(line, self.env)
            except Exception as e:
                self.env = before
                # Not MemoryError: what is lazy needs no memory yet. Of several statements the first have an effect.
                if self.r.random() < 0.1 and "; " not in line and not isinstance(e, (NameError, SyntaxError, MemoryError)):
                    self.lines.append(f"raises({line!r})")
                return
        if any(isinstance(v, np.ndarray) and v.size > 4 * MAX_ELEMS for v in self.env.values()):
            self.env = before
            return
        self.lines.append(line)

    def draw(self):
        n = self.r.choice([6, 10, 15, 25, 40])
        self.add(self.line_data())
        if self.r.random() < 0.7:
            self.add(self.line_like())
        kinds, weights = zip(*self.KINDS)
        for _ in range(5 * n):
            if len(self.lines) >= n:
                break
            line = self.r.choices(kinds, weights)[0](self)
            if line:
                self.add(line)
        return Program(self.lines, self.seed)


def draw(seed):
    return Draw(seed).draw()
