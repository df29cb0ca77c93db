"""What frit knows by name: NumPy's names (_numpy.py), and Python's opcodes (_bytecode.py)."""
import collections
import dis
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import frit
from frit import _bytecode, _core, _numpy

from .common import ROOT

UNASKED = {"in1d", "matlib"}     # gone in some version; warns


def test_names_are_someones():
    homes = np, np.ndarray, np.linalg, np.random, np.ufunc, np.finfo(float), list, dict
    for name in _numpy.FACTS.keys() - UNASKED:
        where, _, last = name.rpartition(".")
        assert any(hasattr(home, last) for home in ([getattr(np, where)] if where else homes)), name


def test_facts_exclude_each_other():
    for facts in (("plain", "exact", "rounded"), ("first", "writable"), ("handed", "kept"), ("attribute", "hidden"),
                  ("attribute", "open"), ("self", "exports")):
        n = collections.Counter(name for fact in facts for name in _numpy.named(fact))
        assert max(n.values()) == 1, (facts, n.most_common(3))


def test_the_extension_has_what_the_table_says():
    for name in _numpy.named("handed"):
        assert "arguments are computed" in getattr(_core, name).__doc__, name
    for name in _numpy.named("method"):
        assert "on evaluated data" in getattr(frit.Tensor, name).__doc__, name
    for alias, name in _numpy.ALIASES.items():
        assert getattr(_core, alias) is getattr(_core, name), alias
    assert {name for name in dir(_core) if "arguments are computed" in str(getattr(_core, name).__doc__)} == _numpy.named("handed")


UNKNOWN = """
import importlib.util as util, json, sys
spec = util.spec_from_file_location("bytecode", sys.argv[1])
m = util.module_from_spec(spec)
spec.loader.exec_module(m)
print("unknown:", *(name for name in m.OP if not m.is_known(name)))
"""


EVERY_PYTHON = pytest.mark.parametrize("python", [sys.executable, "python3.12", "python3.13", "python3.14"])


def run(python, *arguments):
    done = subprocess.run([python, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) if shutil.which(python) else None
    if python != sys.executable and (not done or subprocess.run([python, "-c", ""], stderr=subprocess.PIPE).returncode):
        pytest.skip("not here")
    return done


@EVERY_PYTHON
def test_every_opcode_is_known(python):
    """An opcode that a Python has and no row names: say there what it does, or that no function has it."""
    done = run(python, "-c", UNKNOWN, os.path.join(ROOT, "python", "frit", "_bytecode.py"))
    assert done.stdout.split() == ["unknown:"], done.stdout + done.stderr


@pytest.fixture(scope="module")
def assembler(tmp_path_factory):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    csrc, out = os.path.join(ROOT, "csrc"), str(tmp_path_factory.mktemp("assembler") / "assemble.so")
    subprocess.run(["cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-I", csrc, "-o", out,
                    *(os.path.join(csrc, name) for name in ("bind/accelerate/assemble.c", "base/alloc.c"))], check=True)
    return out


@EVERY_PYTHON
def test_code_is_the_same_with_its_instructions_moved(python, assembler):
    """Jumps, what is caught, and lines follow (csrc/bind/accelerate/assemble.c)."""
    done = run(python, os.path.join(ROOT, "tests", "assembled.py"), os.path.join(ROOT, "python", "frit"), assembler)
    assert done.stdout.split("\n") == ["the same", ""], done.stdout + done.stderr


def test_opcodes_have_one_row():
    n = collections.Counter(name for row in _bytecode._ROWS for name in row[4:])
    assert max(n.values()) == 1, n.most_common(3)


def test_opcodes_take_and_leave_what_the_table_says():
    for _, kind, takes, leaves, *names in _bytecode._ROWS:
        for name in names:      # (dis has half of a call for PRECALL, which does nothing)
            if takes != "-" and kind != "nothing" and dis.opmap.get(name, 256) < 256:
                arg = 1 if dis.opmap[name] >= dis.HAVE_ARGUMENT else None
                assert dis.stack_effect(dis.opmap[name], arg) == int(leaves) - int(takes), name


def test_what_stands_for_a_function_has_its_fields_in_order():
    from frit.accelerate import _Call
    f = frit.accelerate(lambda a: a + 1)
    good = _Call(**{**dict.fromkeys(_Call._fields, ()), "stats": f.stats})
    f._set_call(good)
    other = collections.namedtuple("_Call", (*_Call._fields[1:], _Call._fields[0]))
    for bad in (tuple(good), other(*good), good[:3], good._replace(stats=1), 7):
        with pytest.raises(TypeError):
            f._set_call(bad)
    f._set_call(None)
    assert f(np.arange(3.0)).tolist() == [1, 2, 3]


def test_looking_names_up_imports_nothing_that_numpy_has_not_yet():
    code = ("import sys, numpy; before = {*sys.modules}; import frit\n"
            "print({name.split('.')[1] for name in sys.modules.keys() - before if name.startswith('numpy.')} - {'fft'})")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "set()\n"
