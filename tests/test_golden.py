"""Golden tests: the text that a pass makes of the text of a graph, one case a file.

tests/golden/<pass>/*.ir says what goes in, why the case is there, and after `# expect:` what comes out.
FRIT_BLESS=1 writes what comes out now into the files; the diff is to be read like code. The passes run
in a small program (tests/c/golden.c), which is built here and needs no Python."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = sorted((ROOT / "tests/golden").glob("*/*.ir"))
SOURCES = ["base/*.c", "core/*.c", "ir/*.c", "passes/*.c", "jit/lower.c", "jit/loop.c", "backends/cpu/schedule*.c",
           "runtime/plan.c", "runtime/verify.c", "runtime/band*s.c", "runtime/band_place.c", "runtime/gather.c", "runtime/tensor.c"]
MARK = "# expect:\n"


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """Runs the program over a file; what it prints."""
    program = tmp_path_factory.mktemp("golden") / "golden"
    sources = [str(f) for p in SOURCES for f in sorted((ROOT / "csrc").glob(p))]
    # Of the runtime only the planner is wanted: the linker drops what nothing calls.
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE", "-O0", "-g", "-DFR_DEBUG",
                    "-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-Wall", "-Wextra",
                    "-Werror", f"-I{ROOT / 'csrc'}", "-o", str(program),
                    str(ROOT / "tests/c/golden.c"), *sources, "-lm", "-lpthread"], check=True)

    def run(path):
        done = subprocess.run([str(program), str(path)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("path", CASES, ids=[f"{p.parent.name}-{p.stem}" for p in CASES])
def test_golden(golden, path):
    text = path.read_text()
    head, mark, want = text.partition(MARK)
    assert "# why: " in head, f"{path.name} does not say why it is there"
    got = golden(path)
    if os.environ.get("FRIT_BLESS"):
        path.write_text(head + MARK + got)
        return
    assert mark, f"{path.name} has no line '# expect:'; FRIT_BLESS=1 writes it"
    assert got == want


def test_every_rule_has_a_golden_case():
    """Each operation that heads a rule of fold.def occurs in the input of a golden case."""
    import re
    rules = (ROOT / "csrc/passes/fold.def").read_text()
    heads = set(re.findall(r"^(?:FOLD|ALIKE|NOT)\((\w+)", rules, re.M))
    inputs = "".join(p.read_text().partition(MARK)[0] for p in CASES if p.parent.name == "fold")
    missing = {op for op in heads if not re.search(rf"= {op} ", inputs)}
    assert not missing
