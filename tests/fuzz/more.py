"""Draws programs of programs.py with more in them: what NumPy writes into memory that it is handed, components of complex
arrays, warnings, and what Python does with NumPy's numbers.  Each feature can be left out.  Beside the arrays v0, v1, ...
there are values n0, n1, ... of other types."""
import math
import json

import numpy as np

from .programs import Draw, Program, caught

FEATURES = {
    "at": "ufunc.at, put, putmask, place, put_along_axis",
    "shuffle": "NumPy's generators, writing",
    "resize": "resize in place",
    "components": ".real and .imag of complex arrays",
    "errstate": "np.errstate regions and recorded warnings",
    "scalars": "what Python does with numbers of NumPy",
}
KNOWN = ()      # that fail for a known reason

AT_REAL = ["add", "subtract", "multiply", "maximum", "minimum", "floor_divide"]
READS = ["{}.copy()", "{} + 0", "{}.sum()", "{}[::-1]", "xp.flip({})", "{}[:1]", "{} == {}"]


class More(Draw):
    """Draws one program."""

    def __init__(self, seed, features, accelerated):
        super().__init__(seed)
        self.accelerated = accelerated
        self.r.seed(f"more {seed}")
        self.features = set(features)
        self.env.update(math=math, json=json, caught=caught)
        self.n_plain = 0

    def plain(self):
        self.n_plain += 1
        return f"n{self.n_plain - 1}"

    def reader(self, v):
        """Something that reads v and may be pending when it is written."""
        return f"{self.new()} = {self.r.choice(READS).format(v, v)}; " if self.r.random() < 0.6 else ""

    def written(self, test=lambda a: True):
        return self.pick(lambda a: isinstance(a, np.ndarray) and a.ndim and a.flags.writeable and len(a) and test(a))

    def value_of(self, a, v, n):
        """What may be stored at n places of v, from its own memory, too."""
        r = self.r
        w = self.pick(lambda b: b.ndim >= 1 and b.shape[1:] == a.shape[1:] and len(b) >= n and np.can_cast(b.dtype, a.dtype, "same_kind"))
        return r.choice([self.number("u"), f"{v}[:{n}]", f"{v}[-{n}:]" if n else f"{v}[:0]", f"{w}[:{n}]" if w else "1", f"{v}[::-1][:{n}]"])

    def line_at(self):
        r, v = self.r, self.written(lambda a: a.dtype.kind in "iuf")
        if not v:
            return None
        a = self.env[v]
        n = r.randint(1, min(4, len(a)))
        rows = [r.randrange(-len(a), len(a)) for _ in range(n)]
        key = r.choice([str(rows), f"xp.asarray(np.array({rows}))", f"np.array({rows}, 'i2')"])
        flat = [r.randrange(a.size) for _ in range(n)] if a.size else []
        w = self.value_of(a, v, n)
        op = r.choice(AT_REAL)
        lines = [f"np.{op}.at({v}, {key}, {w})"] * 3 + [
            f"np.negative.at({v}, {key})", f"np.add.at({v}, {v} == {v}, 1)", f"xp.put({v}, {flat}, {v}[:{n}])",
            f"{v}.put({flat}, {v}[::-1])", f"np.put({v}, {flat}, [1, 2])", f"xp.putmask({v}, {v} == {v}, {v}[::-1])",
            f"np.putmask({v}, {v} != {v}[0], {w})", f"np.place({v}, {v} == {v}, {v}[:1])", f"xp.place({v}, {v} == {v}, [1, 2, 3])",
            f"np.put_along_axis({v}, np.array({rows[:1]}).reshape({(1,) * a.ndim}), {v}[:1], 0)",
            f"xp.put({v}, {flat}, 3, mode='wrap')"]
        if a.ndim == 2 and a.shape[1]:
            cols = [r.randrange(a.shape[1]) for _ in rows]
            lines += [f"np.{op}.at({v}, ({rows}, {cols}), 2)", f"np.{op}.at({v}, (slice(None), {cols[:1]}), {v}[:, :1])"]
        return self.reader(v) + r.choice(lines)

    def line_shuffle(self):
        r, v = self.r, self.written()
        if not v:
            return None
        a, seed = self.env[v], r.randrange(1000)
        if not self.accelerated:    # NumPy's generators are C, which knows arrays of NumPy only: frit has the functions
            return self.reader(v) + f"xp.random.seed({seed}); " + r.choice([f"xp.random.shuffle({v})"] * 2 + [
                f"{self.new()} = xp.random.permutation({v})", f"{self.new()} = xp.random.choice({v}, 3)"])
        new, old = f"np.random.default_rng({seed})", f"np.random.RandomState({seed})"
        lines = [f"{new}.shuffle({v})", f"{old}.shuffle({v})", f"{new}.shuffle({v}, axis={r.randrange(a.ndim)})",
                 f"{new}.permuted({v}, axis={r.randrange(a.ndim)}, out={v})", f"{self.new()} = {new}.permutation({v})",
                 f"{self.new()} = {old}.permutation({v})", f"{self.new()} = {new}.permuted({v}, axis=0)",
                 f"{self.new()} = {new}.choice({v}, 3)"]
        if a.dtype.str[1:] in ("f4", "f8"):
            t = f", dtype={a.dtype.str[1:]!r}, out={v}"
            lines += [f"{new}.random({t[2:]})", f"{new}.standard_normal({t[2:]})", f"{new}.standard_exponential({t[2:]})"]
        return self.reader(v) + r.choice(lines)

    def line_resize(self):
        r = self.r
        # Arguments are left out: NumPy resizes them as told by refcheck=False, frit refuses what others hold.
        given = {line.split(" = ")[0] for line in self.lines if " = xp.asarray(data(" in line}
        # And what NumPy has given no axes still has the flags of what it was, which decide what it becomes next.
        v = self.pick(lambda a: isinstance(a, np.ndarray) and a.flags.owndata and a.flags.writeable and (a.ndim or a.flags.c_contiguous))
        if not v or v in given or any(k != v and isinstance(b, np.ndarray) and (b is self.env[v] or np.may_share_memory(b, self.env[v]))
                                      for k, b in self.env.items()):
            return None         # of views of it NumPy knows nothing
        n = r.choice([0, 1, 2, 3, 5, 8])
        read = self.r.choice(["", f"{self.new()} = {v} + 0; " if self.env[v].dtype.kind != "b" else "", f"{self.new()} = {v}.copy(); "])
        return read + f"{v}.resize({r.choice([f'{n}', f'({n},)', f'({n}, 2)', f'(2, {n})', '()'])}, refcheck=False)"

    def line_component(self):
        r, v = self.r, self.pick(lambda a: isinstance(a, np.ndarray) and a.dtype.kind == "c")
        if not v:
            self.n_data += 1
            shape = r.choice(["(3,)", "(2, 3)", "(8,)", "()", "(0,)", "(17, 2)"])
            return f"{self.new()} = xp.asarray(data({r.choice(['c8', 'c16'])!r}, {shape}, {self.seed * 100 + self.n_data}))"
        a = self.env[v]
        part = f"{v}.{r.choice(['real', 'imag'])}"
        w = self.pick(lambda b: b.shape == a.shape and b.dtype.kind in "iuf") or "2"
        lines = [f"{self.new()} = {part}"] * 3 + [f"{self.new()} = xp.real({v})", f"{self.new()} = np.imag({v})"]
        if a.flags.writeable:
            lines += [f"{part}[...] = {w}", f"{part} = {w}", f"{part} += {w}", f"{part} *= 2", f"{part}.fill(3)", f"xp.add({part}, 1, out={part})",
                      f"{v} += 1", f"{v} = {v} + 1j"]
            lines += [f"{part}[{self.index(a)}] = 2", f"{v}[0] = 1j", f"{part}[::-1] = {part}", f"{part}[1:] += {part}[:-1]",
                      f"{v}.real = {v}.imag", f"{part}.sort(axis=0)"] if a.ndim else []
        return self.reader(v) * (r.random() < 0.3) + r.choice(lines)

    def line_errstate(self):
        r, v = self.r, self.pick(lambda a: a.dtype.kind == "f" and a.dtype.itemsize > 2)
        if not v:
            return None
        a, x = self.env[v], self.new()
        w = self.pick(lambda b: b.shape == a.shape and b.dtype.kind in "iuf" and isinstance(b, np.ndarray)) or "0.0"
        what = r.choice([f"{v} / {w}", f"{v} // {w}", f"xp.sqrt({v})", f"{v} * 1e300", f"{v} - {w}", f"{v} % {w}", f"{v}.mean(axis=0)",
                         f"xp.sqrt({v} - 1) + {w} / {v}", f"xp.where({v} > 0, {v} / {w}, 0)", f"xp.sum({v} * {v})", f"{v}.astype('f2')", f"1 / {v}",
                         f"xp.maximum({v}, {w}) / 0", f"{v}[:0].mean()", f"divmod({v}, {w})[{r.choice([0, 1])}]", f"xp.divide({v}, {w})", f"{v} ** {r.choice(['2', '-1', '0.5', '-1.0'])}",
                         f"{w} / {v}", f"1 // {v}", f"{v}.sum() / 0", f"{v}.max() * 1e300", f"xp.square({v} * 1e200)", f"{v}.var(axis=0)", f"{v}.std()", f"xp.mean({v})",
                         f"{v}.sum(axis=0)", f"xp.reciprocal({v})", f"xp.fmod({v}, {w})", f"({v} / {w}).max()", f"xp.nanmax({v})" if a.ndim else f"xp.fabs({v})", f"xp.add({v}, {w}, dtype='f4')",
                         f"{v}.astype('f4')", f"{v}.prod()", f"xp.cumsum({v})", f"xp.clip({v}, 0, 1) / {w}", f"xp.log({v})", f"xp.exp({v} * 100)", f"abs({v}) - {v} / 0",
                         f"xp.remainder({w}, {v})", f"xp.negative({v}) / {w}", f"xp.floor_divide({v}, {w})", f"{v}[...] * 1e308 - {v} * 1e308", f"xp.median({v})",
                         f"xp.subtract({v}, {w}) / {w}", f"xp.multiply({v}, 1e200)", f"xp.hypot({v}, 1e308)", f"xp.arctanh({v})", f"xp.ldexp({v}, 2000)"])
        if a.flags.writeable and isinstance(a, np.ndarray) and r.random() < 0.2:
            what = f"{v} + 0; {v} {r.choice('+-*/')}= {r.choice([w, '1e300', '0'])}"
        kinds = ", ".join(f"{k}={r.choice(['raise', 'raise', 'ignore'])!r}" for k in r.sample(["divide", "invalid", "over", "under"], 2))
        return r.choice([
            f"with np.errstate({kinds}): raises({f'{x} = {what}'!r})", f"with np.errstate(all='raise'): raises({f'{x} = {what}'!r})",
            f"with caught() as {self.plain()}: {x} = {what}; force({x})", f"with caught() as {self.plain()}: {x} = {what}; force({x})",
            f"with caught('error'): raises({f'{x} = {what}'!r})", f"with np.errstate(all='ignore'), caught(None) as {self.plain()}: {x} = {what}; force({x})"])

    def line_scalar(self):
        r, v = self.r, self.pick(lambda a: isinstance(a, np.ndarray) and a.size and a.dtype.kind != "c")
        if not v:
            return None
        a = self.env[v]
        first = "[" + ", ".join("0" for _ in range(a.ndim)) + "]"
        s = r.choice([f"{v}{first}" if a.ndim else f"{v}[()]", f"{v}.sum()", f"{v}.max()", f"{v}.any()", f"{v}.argmax()"])
        if a.dtype.kind != "b":
            s = r.choice([s, f"{v}.mean()", f"({v}{first} + 1)" if a.ndim else f"({v} + 1)"])
        i = r.choice([f"{v}.argmax()", f"xp.count_nonzero({v})", f"{v}.argmin()", f"({v} == {v}).sum()"])
        # Of a NaN or an infinity Python makes no whole number: both refuse, in the same way.
        forms = [f"round({s}, 1)", f"round({s})", f"int({s})", f"float({s})", f"complex({s})", f"bool({s})", f"math.trunc({s})", f"math.floor({s})",
                 f"str({s})", f"repr({s})", f"f'{{{s}:.3g}}'", f"'%s' % {s}", f"[0] * {i}", f"(1, 2) * {i}", f"'-' * {i}", f"list(range({i}))",
                 f"list(range(200))[{i}:][:2]", f"isinstance({s}, float)", f"isinstance({s}, int)", f"isinstance({s}, (np.floating, np.integer, np.bool_))",
                 f"isinstance({s}, np.generic)", f"np.isscalar({s})", f"hasattr({s}, '__len__')", f"hash({s}) if {s} == {s} else 0", f"{{{s}: 1}}", f"[{s}]", f"divmod({s}, 2)",
                 f"{s}.is_integer()", f"{s}.item()", f"{s}.dtype", f"np.float64({s})", f"np.dtype(type({s}))", f"abs({s})", f"-{s}", f"{s} == {s}",
                 f"math.isfinite({s})", f"json.dumps([{s}])", f"max({s}, 1)", f"sorted([{s}, 0])", f"{s} ** 2", f"{s} in [1, 2]", f"np.array([{s}, {s}])",
                 f"np.arange({i})", f"np.zeros({i} + 1).shape", f"{i} // 2", f"[1, 2, 3][:{i}]", f"pow({i}, 2)", f"{i}.bit_count()", f"bin({i})", f"{i} << 1"]
        if not self.accelerated:    # C asks for the type of an object, which is Tensor
            forms = [f for f in forms if not f.startswith(("json", "np.dtype(type"))]
        form = r.choice(forms)
        if r.random() < 0.2:
            return f"raises({form!r})"
        return f"{self.plain()} = {form}"

    OWN_KINDS = {"at": line_at, "shuffle": line_shuffle, "resize": line_resize, "components": line_component, "errstate": line_errstate,
                 "scalars": line_scalar}

    def draw(self):
        self.own = [self.OWN_KINDS[f] for f in FEATURES if f in self.features]
        kinds = list(self.KINDS)
        total = sum(w for _, w in kinds)
        self.KINDS = kinds + [(k, total / 3 / len(self.own)) for k in self.own]
        program = super().draw()
        return Program(program.lines, self.seed)


def draw(seed, features, accelerated=False):
    return More(seed, features, accelerated).draw()
