"""Copies of the sources with a change put in: an operation added to the table is there in every
executor, and defects put in on purpose are caught.  Each copy is compiled, so these run in `make soak`."""
import os
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from .common import ROOT

pytestmark = pytest.mark.soak


def build(folder, change, **env):
    """The package built from a copy of csrc/ to which `change(csrc)` was done; the path to import from."""
    csrc, out = folder / "csrc", folder / "lib"
    shutil.copytree(os.path.join(ROOT, "csrc"), csrc)
    change(csrc)
    subprocess.run([sys.executable, "setup.py", "--quiet", "build", "--build-base", str(folder / "build"),
                    "--build-lib", str(out)], cwd=ROOT, env={**os.environ, "FRIT_SOURCE": str(csrc), **env},
                   check=True)
    return out


def run(lib, code, **env):
    e = dict(os.environ, PYTHONPATH=os.pathsep.join([str(lib), ROOT]), FRIT_CACHE="0",
             FRIT_SHARED=os.environ.get("FRIT_SHARED", ""))
    e.update({k: str(v) for k, v in env.items()})
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=e, cwd=lib, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)


def substitute(path, pattern, replacement, count=1):
    """Exactly `count` places must match, or the defect would not be in."""
    text = path.read_text()
    new, n = re.subn(pattern, replacement, text, flags=re.M)
    assert n >= count, f"{path.name}: {pattern!r} is there {n} times"
    path.write_text(new)


def test_operation_added_to_the_table_is_in_every_executor(tmp_path):
    """A row and a recipe, as csrc/README.md says."""
    def change(csrc):
        substitute(csrc / "ir" / "ops.def", r"^OP\(square,", 'OP(cube,          1, SAME,    "iuf",   '
                   'cube,          0, any)\nOP(square,')
        substitute(csrc / "jit" / "recipe_arith.c", r"^RECIPE\(square\)", textwrap.dedent("""\
            RECIPE(cube)
            {
                out->re = m_mul(c, m_mul(c, x[0].re, x[0].re), x[0].re);
            }

            RECIPE(square)"""))
    lib = build(tmp_path, change)
    code = """
        import numpy as np, frit
        for dtype in ("f4", "f8", "i4", "u1", "i8", "f2"):
            x = np.arange(-5, 6).astype(dtype)
            for _ in range(4):
                t = frit.asarray(x)
                got = np.asarray(frit.cube(t) + t)
                assert got.dtype == dtype and (got == x * x * x + x).all(), (dtype, got)
            frit.wait_for_compiles(60)
        rows = frit.asarray(np.arange(12.0).reshape(3, 4))
        assert (np.asarray(frit.cube(rows).sum(axis=1)) == (np.arange(12.0).reshape(3, 4) ** 3).sum(axis=1)).all()
        t = frit.asarray(np.ones(3))
        assert any(r["name"] == "cube" for r in frit._core.op_table())
        for kind in ("graph", "plan", "loops", "c", "cuda"):
            assert "cube" in frit._core.explain_text([frit.cube(t) + 1], kind), kind
        try:
            frit.cube(frit.asarray(np.ones(3, "c8")))
        except TypeError as e:
            assert "cube" in str(e)
        else:
            raise AssertionError("a kind that the row does not name")
        print("fine", frit.stats()["jitted"], frit.stats()["ref"], frit.stats()["interpreted"])
    """
    for env in ({"FRIT_JIT": "interpret"}, {"FRIT_JIT": "off"}, {"FRIT_JIT": "always"}, {"FRIT_BACKEND": "ref"}):
        done = run(lib, code, **env)
        assert done.returncode == 0 and "fine" in done.stdout, f"{env}\n{done.stdout}"


FUZZ = """
    import sys
    from tests.fuzz.programs import draw
    from tests.fuzz.run import compare
    for seed in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1500):
        wrong = compare(draw(seed).lines)
        if wrong:
            print("caught by seed", seed, wrong)
            break
    else:
        print("not caught")
"""

REDUCTIONS = """
    import numpy as np, frit
    from tests.test_numerics import random_reduction
    from tests.common import difference
    def caught():
        for seed in range(3000):
            program, a, what = random_reduction(seed)
            with np.errstate(all="ignore"):
                want = program(np, a)
            for threads in (2, 1):
                with frit.config(num_threads=threads):
                    got = program(frit, frit.asarray(a))
                    for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
                        if difference(g, w):
                            return f"caught by seed {seed}: {what}"
        return "not caught"
    print(caught())
"""


@pytest.mark.parametrize("name", ["wrong tail", "dropped ordering edge", "contraction", "split by threads"])
def test_seeded_defect_is_caught(name, tmp_path):
    import importlib
    defects = importlib.import_module("tests.defects")
    change, build_env, check, env = defects.DEFECTS[name]
    lib = build(tmp_path, change, **build_env)
    done = run(lib, {"fuzz": FUZZ, "reductions": REDUCTIONS}[check], **env)
    # A crash of the broken copy is a catch, too; a clean run is not.
    assert "caught by" in done.stdout or done.returncode < 0, done.stdout
