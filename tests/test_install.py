"""Programs that run on frit as they are: python -m frit, frit.install()."""
import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import sys
    {first}
    import numpy as np
    from mine import Net
    U = np.zeros((40, 40))
    U[10:20, 10:20] = 1
    for k in range(30):
        u = U[1:-1, 1:-1]
        u += 0.1 * (U[:-2, 1:-1] + U[2:, 1:-1] + U[1:-1, :-2] + U[1:-1, 2:] - 4 * u)
    net, losses = Net(), []
    for k in range(20):
        losses.append(net.step(np.arange(60.0).reshape(3, 20) / 60))
    print(U.sum(), type(U).__name__, type(losses[-1]).__name__, net.W.tobytes().hex()[-40:], losses[-1], sys.argv[1:], __name__)
    if sys.argv[1:] == ["raise"]:
        raise ValueError("so it was")
    {tell}
    if sys.argv[1:] == ["exit"]:
        sys.exit(3)
"""
MINE = """
    import numpy as np

    class Net:
        def __init__(self):
            self.W = np.full((20, 20), 0.01)

        def step(self, x):
            h = np.maximum(x @ self.W, 0.0)
            self.W -= 0.01 * (x.T @ h)
            return h.sum()
"""
TELL = "import frit; s = frit.stats(); print(s['crossed'], s['kernels'] > 30, file=sys.stderr)"


def write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return str(path)


def run(*args, **settings):
    env = {name: value for name, value in os.environ.items() if name not in ("FRIT_EAGER_ELEMS", "FRIT_JIT")}
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, env=env, **settings)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "mine.py", MINE)
    write(tmp_path, "program.py", PROGRAM.format(first="", tell=""))
    write(tmp_path, "tells.py", PROGRAM.format(first="", tell=TELL))
    write(tmp_path, "installs.py", PROGRAM.format(first="import frit; frit.install()", tell=TELL))
    return tmp_path


def test_programs_do_what_they_do(folder):
    wants = {argument: run("program.py", argument, cwd=folder) for argument in ("plain", "raise", "exit")}
    for argument, *way in (("plain", "-m", "frit", "tells.py"), ("raise", "-m", "frit", "tells.py"), ("exit", "-m", "frit", "-m", "tells"),
                           ("raise", "installs.py"), ("exit", "installs.py")):
        want, got = wants[argument], run(*way, argument, cwd=folder)
        assert got.stdout == want.stdout and got.returncode == want.returncode, got.stderr
        lines = got.stderr.strip().splitlines()
        if argument == "raise":
            assert lines[-1] == "ValueError: so it was" and lines[1].startswith(f'  File "') and len(lines) == 4, got.stderr
        else:
            assert lines == ["1 True"]


def test_what_cannot_be_run(folder):
    assert run("-m", "frit", cwd=folder).returncode == 2
    assert "can't open file 'no.py'" in run("-m", "frit", "no.py", cwd=folder).stderr
    assert "No module named no_such" in run("-m", "frit", "-m", "no_such", cwd=folder).stderr
    assert "usage" in run("-m", "frit", "--help", cwd=folder).stdout
    write(folder, "inner.py", "import frit\ndef f():\n    frit.install()\nf()\n")
    write(folder, "imports.py", "import late\n")
    write(folder, "late.py", "import frit\nfrit.install()\n")
    for name in ("inner.py", "imports.py"):
        assert "RuntimeError: frit.install() is for scripts" in run(name, cwd=folder).stderr


def test_loops_over_elements_become_plain_and_what_follows_does_not(folder):
    """Within one program, by counts: single elements on NumPy's numbers, then large arrays on frit."""
    path = write(folder, "both.py", """
        import numpy as np, sys
        x, total = np.arange(900.0).reshape(30, 30), 0.0
        for k in range(12):
            for i in range(30):
                for j in range(30):
                    if x[i, j] > 450:
                        total += x[i, j]
        import frit
        before = frit.stats()["nodes"]
        for i in range(30):
            total += x[i, i]
        few = frit.stats()["nodes"] - before
        big = np.ones(10000)
        for k in range(3000):
            big = big * 1.0000001 + 1e-9
        kernels = frit.stats()["kernels"]
        for k in range(10):
            big = big * 1.0000001 + 1e-9
        print(total, big.sum())
        print(few, frit.stats()["kernels"] > kernels, type(x).__name__, file=sys.stderr)
    """)
    want, got = run(path), run("-m", "frit", path)
    assert got.stdout == want.stdout and got.stderr == "0 True ndarray\n", got.stderr
