"""What is given away: the source archive builds, the wheel made from it is small, and the package computes
where it was unpacked, also without libgccjit."""
import glob
import os
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest

from .common import ROOT

pytestmark = pytest.mark.soak

COMPUTE = """
import os, sys
import numpy as np
import frit
assert os.path.dirname(frit.__file__) == os.path.join(os.getcwd(), "frit"), frit.__file__
x = np.linspace(0, 1, 100_000).reshape(100, 1000)
for _ in range(3):
    t = frit.asarray(x)
    assert np.array_equal(np.asarray((t * 2 + 1).sum(axis=1)), (x * 2 + 1).sum(axis=1))
    frit.wait_for_compiles(60)
assert np.array_equal(frit.accelerate(lambda a: np.sqrt(a) + a)(x), np.sqrt(x) + x)
here = os.path.dirname(frit.__file__)
assert all(os.path.exists(os.path.join(here, n)) for n in ("py.typed", "_core.pyi", "__init__.pyi", "frit-cc"))
assert os.access(os.path.join(here, "frit-cc"), os.X_OK)
print("compiled", frit.stats()["compiled"])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a source archive, and how long building took."""
    folder = tmp_path_factory.mktemp("package")

    def setup(where, *args):
        subprocess.run([sys.executable, "setup.py", "--quiet", *args], cwd=where, check=True)
    setup(ROOT, "egg_info", "--egg-base", str(folder), "sdist", "--dist-dir", str(folder))
    archive, = glob.glob(str(folder / "*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    begun = time.monotonic()
    setup(archive[:-len(".tar.gz")], "bdist_wheel", "--dist-dir", str(folder))
    return glob.glob(str(folder / "*.whl"))[0], time.monotonic() - begun


def test_wheel_is_small_and_quickly_built(wheel, record_property):
    path, took = wheel
    size = os.path.getsize(path)
    print(f"{os.path.basename(path)}: {size / 1e6:.2f} MB, built in {took:.0f} s")
    record_property("bytes", size)
    assert size <= 5e6
    names = zipfile.ZipFile(path).namelist()
    assert not [n for n in names if not n.startswith(("frit/", "frit-"))], "only frit is installed"
    assert {"frit/__init__.py", "frit/py.typed", "frit/_core.pyi", "frit/__init__.pyi",
            "frit/frit-cc"} <= set(names)


@pytest.mark.parametrize("gccjit", ["", "/nowhere/libgccjit.so.0"], ids=["as it is", "without libgccjit"])
def test_package_computes_where_it_was_unpacked(wheel, gccjit, tmp_path):
    with zipfile.ZipFile(wheel[0]) as z:
        for item in z.infolist():       # extractall() forgets permissions, pip does not
            os.chmod(z.extract(item, tmp_path), item.external_attr >> 16 or 0o644)
    env = dict(os.environ, PYTHONPATH=str(tmp_path), FRIT_QUIET="1")
    if gccjit:
        env["FRIT_GCCJIT"] = gccjit
    done = subprocess.run([sys.executable, "-c", COMPUTE], env=env, cwd=tmp_path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    assert not gccjit or "compiled 0" in done.stdout, done.stdout
