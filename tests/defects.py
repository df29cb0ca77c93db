"""Defects that test_copies.py puts into a copy of the sources, one at a time.

`pattern` is replaced in csrc/`path`; every one of `checks` must find it when frit runs with `executor`
and `env`."""
from typing import NamedTuple


class Defect(NamedTuple):
    path: str
    pattern: str
    replacement: str
    checks: tuple
    executor: str = "interpreted"
    env: dict = {}
    debug: bool = False     # the copy's assertions are evaluated


DEFECTS = {
    # Stores in place no longer wait for the readers of what they overwrite.
    "dropped ordering edge": Defect(
        "passes/fuse.c", r"z->info\[p\]\.over = n;", "z->info[p].over = -1;", ("fuzz",)),
    # A temporary's memory is given away in the group that still reads it.
    "lifetime one group short": Defect(
        "runtime/plan.c", r"\{from\[i\], to\[i\], p->place", "{from[i], to[i] - (to[i] > from[i]), p->place",
        ("fuzz",)),
    # !(x < y) is x >= y, also for a NaN.
    "rule that is not exact": Defect(
        "passes/fold.def", r"NOT\(less,          greater_equal, integers\)",
        "NOT(less,          greater_equal, always)", ("rules",)),
    # Compiled code joins a product and a sum into one rounding.
    "contraction": Defect(
        "jit/emit_gcc.c", '"-ffp-contract=off"', '"-ffp-contract=fast"', ("reductions",), "compiled"),
    # Compiled code forgets the last element after whole vectors.
    "wrong tail, compiled": Defect(
        "jit/emit_gcc_stage.c", r"^    fr_emit_scatter\(e, left\);",
        "    fr_emit_scatter(e, minus(e, left, fr_gcc_i64(&e->c, 1)));", ("fuzz", "reductions"), "compiled"),
    # Pieces of a long sum end where threads share the work, not where the tree of the sum divides.
    "split by threads": Defect(
        "backends/cpu/long_rows.c", r"row\.pieces\[n\+\+\] = \(struct piece\)\{t\.start, t\.n\};",
        "{ int64_t lo = t.start ? t.start + 8 : 0, end = t.start + t.n;\n"
        "int64_t hi = end == n_inner ? end : end + 8;\n"
        "row.pieces[n++] = (struct piece){lo, hi - lo}; }", ("reductions",),
        env={"FRIT_NUM_THREADS": "2"}),
    # Block kernels forget the last element where three are left over.
    "wrong tail, interpreted": Defect(
        "jit/gen/main.c", r"for \(size_t i = 0; i < n; i\+\+\)\\n",
        r"for (size_t i = 0; i < n - (n % 16 == 3); i++)\\n", ("fuzz", "reductions")),
    # Nodes are said to be lower than they are: no result is wrong, only laziness is not bounded where it should be.
    "height one too low": Defect(
        "runtime/trace.c", r"^    n->height = \(uint16_t\)height;", "    n->height = (uint16_t)(height - 1);", ("fuzz",), debug=True),
}
