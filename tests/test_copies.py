"""A copy of the sources with a change put in: an operation added to the table is there in every
executor, and defects put in on purpose are caught, each by the check that defects.py names.

One copy is built once and then again after each change, so only what a change reaches is compiled; still
minutes, so these run in `make soak`."""
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from .common import ROOT
from .defects import DEFECTS

pytestmark = pytest.mark.soak


def substitute(path, pattern, replacement):
    """Exactly one place must match, or the change would not be in."""
    text = path.read_text()
    new, n = re.subn(pattern, replacement, text, flags=re.M)
    assert n == 1, f"{path.name}: {pattern!r} is there {n} times"
    path.write_text(new)


class Copy:
    """A copy of csrc/ and the package built from it."""

    def __init__(self, folder):
        self.folder, self.csrc, self.lib = folder, folder / "csrc", None
        shutil.copytree(os.path.join(ROOT, "csrc"), self.csrc)

    def restore(self):
        """Takes the last change out; files that it left alone keep their times and their objects."""
        for base, _, files in os.walk(os.path.join(ROOT, "csrc")):
            for name in files:
                original = os.path.join(base, name)
                mine = self.csrc / os.path.relpath(original, os.path.join(ROOT, "csrc"))
                with open(original, "rb") as f:
                    text = f.read()
                if not mine.exists() or mine.read_bytes() != text:
                    mine.write_bytes(text)

    def build(self, change=None, debug=False):
        """Builds the sources with `change(csrc)` done to them and nothing else."""
        self.restore()
        self.lib = self.folder / ("lib-debug" if debug else "lib")
        if change:
            change(self.csrc)
        subprocess.run([sys.executable, "setup.py", "--quiet", "build", "--build-base",
                        str(self.folder / "build"), "--build-lib", str(self.lib)], cwd=ROOT,
                       env={**os.environ, "FRIT_SOURCE": str(self.csrc), "FRIT_DEBUG_BUILD": str(int(debug))}, check=True)

    def check(self, name, executor, **env):
        return self.run(f"SEEDS = {SEEDS[executor]}\n" + textwrap.dedent(CHECKS[name]), **EXECUTORS[executor], **env)

    def run(self, code, **env):
        """What a program that imports this copy prints, and how it ends."""
        e = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.lib), ROOT]), "FRIT_CACHE": "0", **env}
        code = f"import frit\nassert frit.__file__.startswith({str(self.lib)!r}), frit.__file__\n" \
            + textwrap.dedent(code)
        return subprocess.run([sys.executable, "-c", code], env=e, cwd=self.lib, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("copy"))


# The checks: what test_fuzz.py, test_numerics.py and test_fold.py do.  Each stops at the first find.
CHECKS = {
    "fuzz": """
        from tests.fuzz.programs import draw
        from tests.fuzz.run import compare
        for seed in range(SEEDS):
            wrong = compare(draw(seed).lines)
            if wrong:
                print("caught by seed", seed, wrong)
                break
        else:
            print("not caught")
    """,
    "reductions": """
        from tests.test_numerics import check_reductions
        try:
            check_reductions(range(SEEDS), stop=1)
            print("not caught")
        except AssertionError as e:
            print("caught by", e)
    """,
    "rules": f"""
        import pytest
        code = pytest.main(["-q", "-x", {os.path.join(ROOT, "tests", "test_fold.py")!r}])
        print({{0: "not caught", 1: "caught by test_fold.py"}}.get(int(code), code))
    """,
}
EXECUTORS = {"interpreted": {"FRIT_JIT": "interpret"}, "compiled": {"FRIT_JIT": "always"}}
SEEDS = {"interpreted": 1000, "compiled": 60}       # what a minute or so is enough for


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("check", CHECKS)
def test_copy_without_a_change_passes(copy, check, executor):
    copy.build()
    done = copy.check(check, executor)
    assert done.returncode == 0 and done.stdout.strip().endswith("not caught"), done.stdout


@pytest.mark.parametrize("name", DEFECTS)
def test_seeded_defect_is_caught(name, copy):
    defect = DEFECTS[name]
    copy.build(lambda csrc: substitute(csrc / defect.path, defect.pattern, defect.replacement), defect.debug)
    for check in defect.checks:
        done = copy.check(check, defect.executor, **defect.env)
        # A crash of the broken copy is a catch, too; a clean run is not, and neither is a failing import.
        assert "caught by" in done.stdout or done.returncode < 0, f"{check}: {done.stdout}"


def add_rows(csrc):
    """An operation, by a row and a recipe, and a reduction, by a row and block kernels, as csrc/README.md says."""
    substitute(csrc / "ir" / "ops.def", r"^OP\(square,", 'OP(softsign, 1, FLOAT, "f", softsign, "", none, OURS, any)\nOP(square,')
    substitute(csrc / "ir" / "ops.def", r"^REDUCE\(argmax,",
               'REDUCE(parity, SAME, "biu", bitwise_xor, zero, none, OURS)\nREDUCE(argmax,')
    substitute(csrc / "backends" / "cpu" / "reduce.inc.c", r"^/\* ---- the table.*", textwrap.dedent("""\
        #define PARITY(s, T) FOLD(parity, s, T, T, 0, 0, (T)(m ^ v)) ACCUM(parity, s, T, T, (T)(m ^ v))
        PARITY(u8, uint8_t) PARITY(u16, uint16_t) PARITY(u32, uint32_t) PARITY(u64, uint64_t)
        """))
    substitute(csrc / "backends" / "cpu" / "reduce.inc.c", r"^( *\[FR_REDUCE_ROW\(FR_OP_argmax\)\] = )",
               r"        [FR_REDUCE_ROW(FR_OP_parity)] = {[FR_BOOL] = kind##_parity_u8, \\"
               "\n            ROW_INTEGERS(kind, parity, u8, u8, u16, u32, u64, u16, u32, u64)}, \\\\\n\\1")
    substitute(csrc / "jit" / "recipe_arith.c", r"^RECIPE\(square\)", textwrap.dedent("""\
        RECIPE(softsign)
        {
            out->re = m_div(c, x[0].re, m_add(c, m_abs(c, x[0].re), m_real(c, m_type(c, x[0].re), 1)));
        }

        RECIPE(square)"""))


ROWS = """
    import numpy as np
    from tests.test_operations import HERE, TRUTHS, check_maps, check_reductions, needs_compiler

    def softsign(x):
        wide = x.astype("f4") if x.dtype == "f2" else x
        return wide / (1 + abs(wide))

    TRUTHS["softsign"] = softsign
    ways = HERE + ["machine code"] * (not needs_compiler.args[0])
    for dtype in "f16", "f32", "f64":
        check_maps(dtype, ways, ["softsign"])
    for dtype in "bool", "i8", "u16", "i32", "i64", "u64":
        check_reductions(dtype, ways, names=["parity"])
    x = np.arange(12).reshape(3, 4)
    t = frit.asarray(x)
    for kind in ("graph", "plan", "loops", "c", "cuda"):
        assert "softsign" in frit._core.explain_text([frit.softsign(t) + 1], kind), kind
        assert kind == "cuda" or "parity" in frit._core.explain_text([frit.parity(t, axis=0)], kind), kind
    assert np.array_equal(np.bitwise_xor.reduce(t, axis=1, keepdims=True), np.bitwise_xor.reduce(x, axis=1, keepdims=True))
    assert frit.stats()["fallbacks"] == {}, frit.stats()["fallbacks"]
    for f, dtype in ((frit.softsign, "c8"), (frit.parity, "f4")):
        try:
            f(frit.asarray(np.ones(3, dtype)))
        except TypeError as e:
            assert f.__name__ in str(e)
        else:
            raise AssertionError("a kind that the row does not name")
    print("all there")
"""


def test_rows_added_to_the_table_are_in_every_executor(copy):
    copy.build(add_rows)
    done = copy.run(ROWS)
    assert done.returncode == 0 and "all there" in done.stdout, done.stdout
