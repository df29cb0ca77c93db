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
SOURCES = ["base/*.c", "core/*.c", "ir/*.c", "passes/*.c", "jit/lower.c", "jit/loop.c",
           "runtime/plan.c", "runtime/gather.c", "runtime/tensor.c"]
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


def intervals(path):
    """Rows of a minimalloc problem: (first step, last step, bytes)."""
    rows = [line.split(",") for line in path.read_text().split()[1:]]
    return [(int(lower), int(upper) - 1, int(size)) for _, lower, upper, size in rows]


@pytest.mark.parametrize("name", ["A", "C", "E", "G", "I", "K"])
def test_memory_packing_of_known_hard_problems(golden, tmp_path, name):
    """No two that live at the same time share a byte. The best placement known has a peak of 1 MiB."""
    capacity = 1048576
    problem = intervals(ROOT / f"tests/data/minimalloc/{name}.{capacity}.csv")
    text = "# pass: memory\n" + "".join(f"{a} {b} {n}\n" for a, b, n in problem)
    (tmp_path / "problem.ir").write_text(text)
    *lines, last = golden(tmp_path / "problem.ir").splitlines()
    placed = [(a, b, n, int(line.rpartition(" ")[2])) for (a, b, n), line in zip(problem, lines)]
    assert len(lines) == len(problem)
    for i, (a, b, n, at) in enumerate(placed):
        assert at >= 0 and at % 64 == 0
        for c, d, m, there in placed[:i]:
            assert b < c or d < a or at + n <= there or there + m <= at
    peak, bound = (int(w) for w in last.replace(",", "").split() if w.isdigit())
    assert peak == max(-(-n // 64) * 64 + at for _, _, n, at in placed)
    assert bound <= peak <= 2 * capacity
    print(f"{name}: {len(problem)} intervals, peak {peak} bytes, {peak / capacity:.3f} of the best; "
          f"bound {bound}")
