"""What is given away: the source archive builds, the wheel is small and complete, and what is installed from it computes,
also without a compiler and libgccjit; free-threaded Python is refused."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import venv
import zipfile

import numpy
import pytest

from .common import ROOT

# What the loader may be asked for: all that manylinux_2_28 has of it, and no libgccjit, which frit-cc looks up.
SYSTEM = re.compile(r"lib(c|m|dl|pthread)\.so\.\d|ld-linux-[\w-]+\.so\.\d")


def setup(where, *args):
    subprocess.run([sys.executable, "setup.py", "--quiet", *args], cwd=where, check=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel of the checkout, made of the objects that are built there already."""
    folder = tmp_path_factory.mktemp("wheel")
    setup(ROOT, "build", "--build-lib", str(folder / "lib"), "egg_info", "--egg-base", str(folder),
          "bdist_wheel", "--skip-build", "--bdist-dir", str(folder / "bdist"), "--dist-dir", str(folder))
    path, = glob.glob(str(folder / "*.whl"))
    return path


@pytest.fixture(scope="module")
def wheel_of_archive(tmp_path_factory):
    """A wheel built from a source archive, and how long building took."""
    folder = tmp_path_factory.mktemp("package")
    setup(ROOT, "egg_info", "--egg-base", str(folder), "sdist", "--dist-dir", str(folder))
    archive, = glob.glob(str(folder / "*.tar.gz"))
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    begun = time.monotonic()
    setup(archive[:-len(".tar.gz")], "bdist_wheel", "--dist-dir", str(folder))
    return glob.glob(str(folder / "*.whl"))[0], time.monotonic() - begun


def install(wheel, folder):
    """(Python of an environment that has the wheel and NumPy, and nothing else; where they lie)"""
    venv.create(folder, symlinks=True)
    python, (site,) = folder / "bin" / "python", glob.glob(str(folder / "lib" / "python*" / "site-packages"))
    where = os.path.dirname(os.path.dirname(numpy.__file__))
    for name in {"numpy", "numpy.libs"} & set(os.listdir(where)):
        os.symlink(os.path.join(where, name), os.path.join(site, name))
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(python), "install", "--no-index",
                    "--no-deps", wheel], check=True, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"})
    return str(python), site


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return install(wheel, tmp_path_factory.mktemp("empty"))


def packaged(python, site, **settings):
    """What tests/packaged.py says, run in an empty folder with nothing but these settings."""
    env = {"FRIT_QUIET": "1", "FRIT_CACHE": "0", "PATH": os.environ["PATH"], **settings}
    done = subprocess.run([python, os.path.join(ROOT, "tests", "packaged.py"), site], env=env, cwd=os.path.dirname(site),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def complete(path):
    names = set(zipfile.ZipFile(path).namelist())
    assert os.path.getsize(path) <= 5e6
    assert not [n for n in names if not n.startswith(("frit/", "frit-"))], "only frit is installed"
    assert {"frit/__init__.py", "frit/py.typed", "frit/_core.pyi", "frit/__init__.pyi", "frit/frit-cc", "frit/_pages/page.css", "frit/_pages/page.js"} <= names


def test_wheel_is_small_and_complete(wheel):
    complete(wheel)


@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_nothing_is_linked_but_the_c_library(installed):
    for file in (*glob.glob(installed[1] + "/frit/_core*.so"), installed[1] + "/frit/frit-cc"):
        text = subprocess.run(["readelf", "-d", file], stdout=subprocess.PIPE, check=True, text=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        assert needed and all(map(SYSTEM.fullmatch, needed)), needed
        assert "RPATH" not in text and "RUNPATH" not in text


def test_installed_wheel_computes_without_compiler_and_libgccjit(installed, tmp_path):
    empty = str(tmp_path)
    said = packaged(*installed, PATH=empty, FRIT_GCCJIT=os.path.join(empty, "libgccjit.so.0"))
    assert re.search(r"compiled 0 interpreted [1-9]", said), said
    packaged(*installed)        # as cibuildwheel runs it


def test_free_threaded_python_is_refused_in_words():
    for what, code in ((r"ImportError: frit does not run on free-threaded Python", "import sys; sys.abiflags = 't'; import frit"),
                       (r"frit: free-threaded Python .* is not supported", "import sysconfig, runpy, sys; sys.argv = ['setup.py', '--version']; "
                        "sysconfig.get_config_vars()['Py_GIL_DISABLED'] = 1; runpy.run_path('setup.py')")):
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
        assert done.returncode == 1 and re.search(what, done.stderr), done.stderr


def test_import_takes_few_modules():
    """Beside NumPy's; what reads files of Python's, or is large, is imported when it is wanted."""
    code = "import sys, numpy; before = set(sys.modules); import frit; print(*(set(sys.modules) - before))"
    env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")}
    names = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, check=True, text=True).stdout.split()
    theirs = {n for n in names if n.split(".")[0] not in ("frit", "numpy")}
    assert theirs <= {"__future__", "atexit", "gc"}, sorted(theirs)
    assert len(names) <= 30, sorted(names)


@pytest.mark.soak
def test_wheel_of_a_source_archive_is_quickly_built_and_computes(wheel_of_archive, record_property, tmp_path):
    path, took = wheel_of_archive
    print(f"{os.path.basename(path)}: {os.path.getsize(path) / 1e6:.2f} MB, built in {took:.0f} s")
    record_property("bytes", os.path.getsize(path))
    complete(path)
    with zipfile.ZipFile(path) as z:
        for item in z.infolist():       # extractall() forgets permissions, pip does not
            os.chmod(z.extract(item, tmp_path), item.external_attr >> 16 or 0o644)
    packaged(sys.executable, str(tmp_path), PYTHONPATH=str(tmp_path))


@pytest.mark.soak
def test_auditwheel_finds_no_other_libraries(wheel):
    pytest.importorskip("auditwheel")
    said = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], stdout=subprocess.PIPE, check=True, text=True).stdout
    print(said)
    libraries = re.findall(r"lib[\w-]+\.so[.\d]*", said)
    assert "manylinux" in said and libraries and all(map(SYSTEM.fullmatch, libraries)), libraries


@pytest.mark.soak
@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("readelf")), reason="no gcc, or no readelf")
def test_wheel_for_manylinux_asks_for_nothing_of_a_newer_glibc(tmp_path):
    """What `make wheel` makes, whatever glibc is here. A symbol without a version would be looked up when frit is loaded."""
    done = subprocess.run([os.path.join(ROOT, ".ci", "wheel"), os.uname().machine, str(tmp_path)], env={**os.environ, "PYTHON": sys.executable},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    print(done.stdout)
    path, = glob.glob(str(tmp_path / "*-manylinux_2_28_*.whl"))
    complete(path)
    python, site = install(path, tmp_path / "empty")
    for file in (*glob.glob(site + "/frit/_core*.so"), site + "/frit/frit-cc"):
        text = subprocess.run(["readelf", "--dyn-syms", "--wide", file], stdout=subprocess.PIPE, check=True, text=True).stdout
        asked = re.findall(r" (\w+) +DEFAULT +UND (\w+)(?:@+GLIBC_2\.(\d+))?", text)
        assert asked and all(int(minor) <= 28 if minor else bind == "WEAK" or re.match("_?Py", name) for bind, name, minor in asked), text
    packaged(python, site, PATH=str(tmp_path), FRIT_GCCJIT=str(tmp_path / "libgccjit.so.0"))
    packaged(python, site)
