"""The list of small programs that benchmarks/programs.py runs, and how one is added to it."""
PROGRAMS = {}       # name: (function of xp and arrays, function that makes the arrays from a generator)


def program(make):
    def keep(f):
        PROGRAMS[f.__name__] = f, make
        return f
    return keep


def normal(*shapes, dtype="f4"):
    return lambda r: [r.standard_normal(s).astype(dtype) for s in shapes]


def whole(high, shape, dtype, n=1):
    return lambda r: [r.integers(0, high, shape).astype(dtype) for _ in range(n)]
