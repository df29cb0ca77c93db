"""Golden tests: the text that a pass makes of the text of a graph, one case a file.

tests/golden/<pass>/*.ir says what goes in, why the case is there, and after `# expect:` what comes out.
FRIT_BLESS=1 writes what comes out now into the files; the diff is to be read like code. The passes run
in a small program (tests/c/golden.c), which is built here and needs no Python."""
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest

import frit

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = sorted((ROOT / "tests/golden").glob("*/*.ir"))
SOURCES = ["base/*.c", "core/*.c", "ir/*.c", "passes/*.c", "jit/lower.c", "jit/loop.c", "jit/work.c", "jit/micro.c", "jit/recipe*.c",
           "backends/expect.c", "backends/cpu/schedule*.c",
           "runtime/plan.c", "runtime/kernels.c", "runtime/verify.c", "runtime/band*s.c", "runtime/band_place.c",
           "runtime/gather.c"]
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


NODE = re.compile(r"%\d+ = (\w+) \w+\[([\d,]*)\](.*)")
WINDOW = r"\{\[([\d,]*)\](?:/([-\d,]*))?(?:\+(\d+))?\}"
ARGUMENT = re.compile(r"%(\d+)(?:" + WINDOW + r")?|\$(\d+):\w+(?:=(\S+))?")


def window(node, dims, strides, offset):
    dims, strides = ([int(v) for v in (text or "").split(",") if v] for text in (dims, strides))
    return np.lib.stride_tricks.as_strided(node.reshape(-1)[int(offset or 0):], dims, [8 * s for s in strides])


def evaluate(text, leaves):
    """The results of a graph whose nodes lie in C order, by NumPy in f8; run-time scalars are 0.75."""
    nodes, leaves = [], iter(leaves)
    for op, dims, rest in NODE.findall(text):
        dims = [int(d) for d in dims.split(",") if d]
        args = [window(nodes[int(n)], *where) if where[0] or where[2] else nodes[int(n)] if n else float(value or 0.75)
                for n, *where, _, value in ARGUMENT.findall(rest)]
        if op == "store":
            new = args[0].copy()
            window(new, *re.search(" " + WINDOW, rest).groups())[...] = args[1]
        elif op == "leaf":
            new = next(leaves)
        elif op == "cast":
            new = np.broadcast_to(args[0], dims)
        elif op == "sum":
            new = args[0].sum(axis=tuple(int(k) for k in rest.split("axes=")[1].split(",")))
        elif op == "cumsum":
            new = args[0].cumsum(axis=int(rest.split("axis=")[1]))
        else:
            new = getattr(np, op)(*args)
        nodes.append(np.ascontiguousarray(new).reshape(dims))
    return [nodes[int(n)] for n in re.findall(r"%(\d+)", text.rpartition("return")[2].partition("\n")[0])]


@pytest.mark.parametrize("path", [p for p in CASES if p.parent.name == "adjoint"], ids=lambda p: p.stem)
def test_an_adjoint_is_what_differences_say(path):
    before, _, after = path.read_text().partition(MARK)
    rng = np.random.default_rng(1)
    leaves = [rng.random([int(d) for d in dims.split(",")]) for op, dims, _ in NODE.findall(before) if op == "leaf"]
    got = {a.shape: a for a in evaluate(after, leaves)[-len(leaves):]}
    for leaf in leaves:
        want = np.empty_like(leaf)
        for i, x in np.ndenumerate(leaf):
            ends = []
            for leaf[i] in (x + 1e-5, x - 1e-5):
                ends.append(evaluate(before, leaves)[-1].sum())
            leaf[i] = x
            want[i] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(got[leaf.shape], want, rtol=1e-5, atol=1e-7)


def expressions(m, v, i, u, z, k):
    """Of m[3,1,5], v[4,1] in f4, i[4,5] turned in i4, u[5] in u1, z[2,3] in c8, and k[4,5,6] in Fortran order."""
    return [
        m * v, m + i, v - u, i / u, np.sqrt(u), np.exp(i), u + i[:, 0:1], np.logical_and(m, u), m > i, abs(z), z * 2j,
        np.where(m > 0, i, v), np.clip(i, 2, u), np.ldexp(v, i), np.negative(k), k + v.reshape(4, 1, 1), k[::-1] * m[0].T,
        np.maximum(k[:, ::2, 1], k[:, 1:4, 2]), u << 3, 2 ** v, m.sum(axis=0), k.sum(axis=(0, 2)), i.sum(axis=1), u.sum(),
        u.prod(), i.max(axis=0), k.argmax(axis=1), k[:, :, 0].argmin(), (m > 0).any(axis=2), z.sum(axis=0), v.all(),
        np.cumsum(u), k.cumsum(axis=1), i.cumprod(axis=0), v @ m[:1, 0], k @ k.transpose(0, 2, 1), m[0] @ u.astype("f8"),
    ]


def test_a_pass_builds_the_nodes_that_tracing_makes(golden, tmp_path):
    """fr_insert_* and fr_trace_* come to the same dtypes and layouts, which are NumPy's."""
    rng = np.random.default_rng(1)
    arrays = [rng.random((3, 1, 5)), rng.random((4, 1)).astype("f4"), rng.integers(1, 9, (5, 4)).astype("i4").T,
              np.arange(5, dtype="u1"), rng.random((2, 3)).astype("c8"), rng.random((6, 5, 4)).T]
    want = expressions(*arrays)
    with frit.config(skip="outer,forward,split,push,fold,fuse,once"):
        got = expressions(*map(frit.asarray, arrays))
        text = frit._core.explain_text(got, "graph")
    graph = text[:text.index("\n", text.index("\nreturn")) + 1]
    (tmp_path / "again.ir").write_text("# pass: again\n" + graph)
    said = golden(tmp_path / "again.ir")
    assert said == f"{sum(' = ' in line and ' = leaf' not in line for line in graph.splitlines())} alike\n"
    for a, b in zip(got, want):
        assert (a.dtype, a.shape, np.asarray(a).strides) == (b.dtype, b.shape, np.asarray(b).strides)


def test_every_rule_has_a_golden_case():
    """Each operation that heads a rule of fold.def occurs in the input of a golden case."""
    rules = (ROOT / "csrc/passes/fold.def").read_text()
    heads = set(re.findall(r"^(?:FOLD|ALIKE|NOT)\((\w+)", rules, re.M))
    inputs = "".join(p.read_text().partition(MARK)[0] for p in CASES if p.parent.name == "fold")
    missing = {op for op in heads if not re.search(rf"= {op} ", inputs)}
    assert not missing
