"""Nests for tests: built from Python, run through tests/c/test_launch.c, evaluated by NumPy."""

import ctypes as ct

import numpy as np

DTYPES = {"bool": "?", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "u8": "u1", "u16": "u2",
          "u32": "u4", "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
CODES = {np.dtype(v): k for k, v in DTYPES.items()}
LEVELS = ["SCALAR", "ROW", "FULL"]
TRUTH = {"isnan", "less", "less_equal", "greater", "equal", "not_equal", "logical_not", "logical_and",
         "logical_or"}


class Value:
    def __init__(self, nest, kind, dtype, level, stage, args=(), op=None, operand=None):
        self.nest, self.kind, self.dtype, self.level, self.stage = nest, kind, dtype, level, stage
        self.args, self.op, self.operand = args, op, operand
        nest.values.append(self)


class Nest:
    """Writes the text form; levels and stages follow from the arguments."""

    def __init__(self, rowbuf=False):
        self.values, self.operands, self.scalars, self.rowbuf = [], [], [], rowbuf

    def _operand(self, dtype, access, flags=""):
        self.operands.append((dtype, access, flags))
        return len(self.operands) - 1

    def load(self, dtype, level="FULL", access="unit"):
        access = access if level == "FULL" else "zero"
        return Value(self, "load", dtype, LEVELS.index(level), 0, operand=self._operand(dtype, access))

    def iota(self, level="FULL"):
        return Value(self, "iota", "i64", LEVELS.index(level), 0,
                     operand=self._operand("i64", "strided"))

    def scalar(self, dtype):
        self.scalars.append(dtype)
        return Value(self, "scalar", dtype, 0, 0, operand=len(self.scalars) - 1)

    def op(self, name, *args, dtype=None):
        dtype = dtype or ("bool" if name in TRUTH else args[-1].dtype)
        return Value(self, "op", dtype, max(a.level for a in args), max(a.stage for a in args), args, name)

    def cast(self, a, dtype, level=None):
        return Value(self, "op", dtype, a.level if level is None else LEVELS.index(level), a.stage, (a,),
                     "cast")

    def reduce(self, name, a):
        dtype = {"argmax": "i64", "argmin": "i64", "any": "bool", "all": "bool"}.get(name, a.dtype)
        return Value(self, "reduce", dtype, 1, a.stage + 1, (a,), name)

    def store(self, a, level=None, access="unit", stream=False):
        level = a.level if level is None else LEVELS.index(level)
        k = self._operand(a.dtype, access if level == 2 else "zero", " written" + " stream" * stream)
        return Value(self, "store", a.dtype, level, a.stage, (a,), "sum" if stream else None, operand=k)

    def accum(self, name, a, access="unit"):
        dtype = {"any": "bool", "all": "bool"}.get(name, a.dtype)
        k = self._operand(dtype, access, " written")
        return Value(self, "accum", dtype, 2, a.stage, (a,), name, k)

    def sorted(self):
        return sorted(self.values, key=lambda v: v.stage)

    @property
    def n_stages(self):
        return max([1] + [v.stage + 1 for v in self.values if v.level == 2] +
                   [v.stage for v in self.values if v.level == 1])

    def text(self):
        order = self.sorted()
        number = {v: i for i, v in enumerate(order)}
        n = self.n_stages
        reduces = any(v.kind == "reduce" for v in order)
        lines = [f"nest {n} stage{'s' * (n > 1)}{' rowbuf' * self.rowbuf}{' reduces' * reduces}"]
        lines += [f"[{k}] {d} {a}{f}" for k, (d, a, f) in enumerate(self.operands)]
        lines += [f"${k} {d}" for k, d in enumerate(self.scalars)]
        for i, v in enumerate(order):
            head = {"op": v.op, "reduce": f"reduce {v.op}", "accum": f"accum {v.op}",
                    "store": f"store {v.op}" if v.op else "store"}.get(v.kind, v.kind)
            where = "" if v.operand is None else f" ${v.operand}" if v.kind == "scalar" else f" [{v.operand}]"
            args = "".join(f" %{number[a]}" for a in v.args)
            lines.append(f"%{i} = {head}{where}{args} {v.dtype} {LEVELS[v.level]} stage {v.stage}")
        return "\n".join(lines) + "\n"


# ---- NumPy's answer


def pairwise(x):
    """0.0 + the pairwise sum of each row: np.sum along a contiguous last axis."""
    return np.sum(np.ascontiguousarray(x), axis=-1, dtype=x.dtype)


REDUCES = {
    "sum": pairwise,
    "prod": lambda x: np.multiply.reduce(np.ascontiguousarray(x), axis=-1, dtype=x.dtype),
    "max": lambda x: x.max(-1), "min": lambda x: x.min(-1),
    "any": lambda x: x.astype(bool).any(-1), "all": lambda x: x.astype(bool).all(-1),
    "argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(-1),
}


def evaluate(nest, shape, arrays, scalars):
    """Values of the stores, by operand: FULL as shape, ROW as shape[:-1]. Accumulated values are not combined yet."""
    out, val = {}, {}
    for v in nest.sorted():
        a = [val[x] if x.level == v.level or v.kind == "reduce" or x.level == 0 else val[x][..., None] if x.level == 1
             else val[x] for x in v.args]
        with np.errstate(all="ignore"):
            if v.kind in ("load", "iota"):
                r = arrays[v.operand]
            elif v.kind == "scalar":
                r = np.asarray(scalars[v.operand], DTYPES[v.dtype])
            elif v.kind == "reduce":
                r = REDUCES[v.op](a[0])
            elif v.kind in ("store", "accum"):
                r = np.broadcast_to(a[0], shape if v.level == 2 else shape[:-1])
                out[v.operand] = r
                continue
            elif v.op == "cast":
                r = a[0].astype(DTYPES[v.dtype])
            else:
                r = getattr(np, v.op)(*a)
                assert CODES[r.dtype] == v.dtype, (v.op, r.dtype, v.dtype)
        val[v] = np.broadcast_to(r, [(), shape[:-1], shape][v.level])
    return out


# ---- running it


class Err(ct.Structure):
    _fields_ = [("code", ct.c_int), ("text", ct.c_char * 480)]


class Instance(ct.Structure):
    _fields_ = [("n_outer", ct.c_int32), ("n_packed", ct.c_int32), ("outer", ct.c_int64 * 32), ("n_rows", ct.c_int64),
                ("n_inner", ct.c_int64), ("ptr", ct.POINTER(ct.c_void_p)),
                ("stride", ct.POINTER(ct.c_int64)), ("scalars", ct.c_void_p), ("scratch", ct.c_void_p),
                ("scratch_bytes", ct.c_size_t), ("joined", ct.c_bool), ("shape", ct.c_uint8),
                ("ps", ct.c_int64), ("own", ct.c_void_p)]


class Launcher:
    INTERPRET, REF, CODE = range(3)

    def __init__(self, path):
        self.lib = ct.CDLL(path)
        self.lib.test_new.restype = ct.c_void_p
        self.lib.test_widest.argtypes = [ct.c_void_p, ct.POINTER(Instance)]
        self.lib.test_time.restype = ct.c_double
        self.lib.test_know.argtypes = [ct.c_void_p, ct.c_double, ct.c_double]
        self.lib.test_pays.argtypes = [ct.c_int64, ct.c_int, ct.c_int]
        self.lib.test_duel.argtypes = [ct.c_int64, ct.c_int64, ct.c_double, ct.c_double, ct.c_double, ct.c_double, ct.c_int]
        self.lib.test_shared.argtypes = [ct.c_int64, ct.c_double, ct.c_double, ct.c_double, ct.c_int, ct.c_int, ct.c_int]

    def new(self, nest):
        err = Err()
        k = self.lib.test_new(nest.text().encode(), ct.byref(err))
        if not k:
            raise ValueError(err.text.decode() + "\n" + nest.text())
        return ct.c_void_p(k)

    def free(self, k):
        self.lib.test_free(k)

    def run(self, k, instances, how=0, threads=1):
        err = Err()
        table = (Instance * len(instances))(*[i.c for i in instances])
        st = self.lib.test_run(k, how, threads, table, len(instances), ct.byref(err))
        if st:
            raise RuntimeError(err.text.decode())

    def time(self, k, instances, threads=1, repeat=15):
        table = (Instance * len(instances))(*[i.c for i in instances])
        return self.lib.test_time(k, threads, table, len(instances), repeat)


class Bound:
    """An instance: shape is (outer..., rows, inner); `arrays` by operand, with stride 0 where they do not move.
    ROW operands have shape[:-1]."""

    def __init__(self, nest, shape, arrays, scalars=()):
        n_outer = len(shape) - 2
        n = len(nest.operands)
        self.keep = [arrays, (ct.c_void_p * max(n, 1))(), (ct.c_int64 * max(n * len(shape), 1))(),
                     np.zeros((max(len(scalars), 1), 16), np.uint8)]
        for k in range(n):
            a = arrays[k]
            if isinstance(a, tuple):  # iota: start, strides
                start, strides = a
                self.keep[1][k] = start % 2**64
            else:
                strides = a.strides + ((0,) if len(a.strides) < len(shape) else ())
                strides = [0 if s == 1 and False else t for s, t in zip(shape, strides)]
                self.keep[1][k] = a.__array_interface__["data"][0]
            for d in range(len(shape)):
                self.keep[2][k * len(shape) + d] = strides[d]
        for k, s in enumerate(scalars):
            v = np.asarray(s, DTYPES[nest.scalars[k]]).tobytes()
            self.keep[3][k, :len(v)] = np.frombuffer(v, np.uint8)
        self.c = Instance(n_outer, 0, (ct.c_int64 * 32)(*shape[:-2]), shape[-2], shape[-1],
                          ct.cast(self.keep[1], ct.POINTER(ct.c_void_p)),
                          ct.cast(self.keep[2], ct.POINTER(ct.c_int64)),
                          self.keep[3].ctypes.data)
