"""The type stubs name what the extension has."""
import importlib.util
import os

from .common import ROOT


def test_stubs_are_current():
    path = os.path.join(ROOT, "tests", "tools", "stubs.py")
    spec = importlib.util.spec_from_file_location("stubs", path)
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    with open(os.path.join(ROOT, "python", "frit", "_core.pyi")) as f:
        assert f.read() == stubs.text(), "run python tests/tools/stubs.py"
    compile(stubs.text(), "_core.pyi", "exec")
