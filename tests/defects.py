"""Defects that test_copies.py puts into copies of the sources: name -> (change, build settings, which
check must catch it, settings of the run)."""
from .test_copies import substitute


def wrong_tail(csrc):
    """Block kernels forget the last element where three are left over."""
    substitute(csrc / "jit" / "gen" / "main.c", r"for \(size_t i = 0; i < n; i\+\+\)\\n",
               r"for (size_t i = 0; i < n - (n % 16 == 3); i++)\\n")


def dropped_edge(csrc):
    """Stores in place no longer wait for the readers of what they overwrite."""
    substitute(csrc / "passes" / "fuse.c",
               r"if \(node->op != FR_OP_store \|\| !z->f->in_place\[n\]\)", "if (n >= 0)")


def contraction(csrc):
    """Compiled code may join a product and a sum into one rounding."""
    substitute(csrc / "jit" / "emit_gcc.c", '"-ffp-contract=off"', '"-ffp-contract=fast"')


def split_by_threads(csrc):
    """Pieces of a long sum end where threads share the work, not where the tree of the sum divides."""
    substitute(csrc / "backends" / "cpu" / "long_rows.c",
               r"row\.pieces\[n\+\+\] = \(struct piece\)\{t\.start, t\.n\};",
               "{ int64_t lo = t.start ? t.start + 8 : 0, end = t.start + t.n;\n"
               "int64_t hi = end == n_inner ? end : end + 8;\n"
               "row.pieces[n++] = (struct piece){lo, hi - lo}; }")


DEFECTS = {
    "wrong tail": (wrong_tail, {}, "fuzz", {"FRIT_JIT": "interpret"}),
    "dropped ordering edge": (dropped_edge, {}, "fuzz", {"FRIT_JIT": "interpret"}),
    "contraction": (contraction, {}, "fuzz", {"FRIT_JIT": "always"}),
    "split by threads": (split_by_threads, {}, "reductions", {"FRIT_JIT": "interpret"}),
}
