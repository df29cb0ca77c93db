"""What frit knows by name: NumPy's names (_numpy.py), and Python's opcodes (_bytecode.py)."""
import collections
import dis
import importlib
import os
import pathlib
import pickle
import re
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


# ---- names that do not exist

@pytest.mark.parametrize("where, name, says", [
    ("frit", "summ", "did you mean 'sum'"), ("frit", "Float64", "did you mean 'float64'"), ("frit", "acclerate", "'accelerate'"),
    ("frit", "float_", "was removed in the NumPy 2.0 release"), ("frit", "quite_another_thing", None), ("frit", "_private", None),
    ("frit.linalg", "sovle", "did you mean 'solve'"), ("frit.random", "nromal", "did you mean 'normal'"),
    ("frit.fft", "ftt", "did you mean"), ("frit.testing", "assert_equl", "did you mean 'assert_equal'")])
def test_a_name_that_does_not_exist(where, name, says):
    module = importlib.import_module(where)
    with pytest.raises(AttributeError) as e:
        getattr(module, name)
    text = str(e.value)
    assert text.startswith(f"module '{where}' has no attribute '{name}'") and type(e.value).__name__ == "AttributeError"
    assert says in text if says else text == f"module '{where}' has no attribute '{name}'"
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is AttributeError and str(again) == text
    assert not hasattr(module, name) and getattr(module, name, 3) == 3


def test_what_is_near_is_found_when_it_is_read():
    code = ("import sys, frit\nfor n in ('nosuch', 'summ', '__array_nosuch__', '_repr_png_', '_ipython_display_'):\n    assert not hasattr(frit, n)\n"
            "assert 'frit._names' in sys.modules and 'difflib' not in sys.modules\n"
            "try: frit.summ\nexcept AttributeError as e: text = str(e)\nassert 'difflib' in sys.modules and \"'sum'\" in text")
    subprocess.run([sys.executable, "-S", "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "\n" + code], check=True)
    code = "import sys, frit\nfor n in ('__array_nosuch__', '_repr_png_', '_ipython_display_'): assert not hasattr(frit, n)\nassert 'frit._names' not in sys.modules"
    subprocess.run([sys.executable, "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "\n" + code], check=True)


def test_a_method_that_does_not_exist_is_said_by_python():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "\nimport frit; frit.zeros(3).meen()"],
                          capture_output=True, text=True)
    assert "'frit.Tensor' object has no attribute 'meen'. Did you mean: 'mean'?" in done.stderr


@pytest.mark.parametrize("name, says", [("debgu", "did you mean 'debug'"), ("num_thread", "did you mean 'num_threads'"),
                                        ("quite_another", "python -m frit.config lists them")])
def test_a_setting_that_does_not_exist(name, says):
    with pytest.raises(KeyError) as e:
        frit.config(**{name: 1})
    assert f"frit has no setting '{name}'" in e.value.args[0] and says in e.value.args[0]


def test_variables_that_are_nearly_settings():
    """Those of the build and of tests are no misspelt ones."""
    others = sorted({v for folder in ("tests", "benchmarks", ".ci", "csrc") for path in pathlib.Path(ROOT, folder).rglob("*")
                     if path.is_file() and path.suffix in (".py", ".c", ".h", "") for v in re.findall(r"FRIT_[A-Z_]+\b", path.read_text(errors="ignore"))}
                    - {s["variable"] for s in frit.config.settings()} - {"FRIT_NUM_THREAD"})
    env = {**os.environ, **dict.fromkeys(others, "1"), "FRIT_FAIL_ALLOC": ""}
    code = "import sys; sys.path[:0] = " + repr(sys.path) + "\nimport frit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert len(others) > 5 and done.stderr == "", done.stderr
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**env, "FRIT_NUM_THREAD": "2"})
    assert done.stderr == "frit: FRIT_NUM_THREAD is no setting: did you mean FRIT_NUM_THREADS?\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**env, "FRIT_NUM_THREAD": "2", "FRIT_QUIET": "1"})
    assert done.stderr == ""


@pytest.mark.parametrize("call, says", [
    (lambda: frit.device("gpu"), '"cuda:0" to "cuda:15"'), (lambda: frit.zeros(3, device="cuda0"), '"cuda:0" to "cuda:15"'),
    (lambda: frit.config(off="divded"), "divided.*duel"), (lambda: frit.config(jit="on"), "auto, off, interpret, always"),
    (lambda: frit.config(tune="nosuch=3"), "python -m frit.config lists"), (lambda: frit.config(log="sync"), "compiles, fallbacks, syncs"),
    (lambda: frit.explain(len, "plans"), "graph, loops, c, cuda and plan"),
    (lambda: frit.accelerate(len, results="tensor"), "'arrays' or 'tensors'")])
def test_a_value_that_does_not_exist_has_all_that_do_beside_it(call, says):
    with pytest.raises(ValueError, match=says):
        call()
