"""The type stubs name what the package has, and its Python is as ruff and mypy want it."""
import importlib.util
import os
import subprocess
import sys

import pytest

from .common import ROOT


def load():
    spec = importlib.util.spec_from_file_location("stubs", os.path.join(ROOT, "tests", "tools", "stubs.py"))
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    return stubs


def test_stubs_are_current():
    for name, text in load().FILES.items():
        with open(os.path.join(ROOT, "python", "frit", name)) as f:
            assert f.read() == text(), "run python tests/tools/stubs.py"
        compile(text(), name, "exec")


def test_ruff_and_mypy_find_nothing():
    """Settings: pyproject.toml."""
    for tool, *args in (("ruff", "check", "--quiet"), ("mypy",)):
        if importlib.util.find_spec(tool) is None:
            pytest.skip(f"no {tool}")
        done = subprocess.run([sys.executable, "-m", tool, *args], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": ""})
        assert done.returncode == 0, done.stdout


def test_stubs_agree_with_the_package(tmp_path):
    """mypy's own comparison of names, kinds and parameters.  NumPy's names that frit has not are in no stub; the modules
    frit.estimate and frit.profile are the functions, but for python -m."""
    pytest.importorskip("mypy.stubtest")
    allowed = tmp_path / "allowed"
    allowed.write_text("frit\\.estimate\nfrit\\.profile\nfrit\\._notebook\\.FritMagics\n")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-missing-stub", "frit",
                           "--allowlist", str(allowed),
                           "--mypy-config-file", os.path.join(ROOT, "pyproject.toml")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
    assert done.returncode == 0, done.stdout
