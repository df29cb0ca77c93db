"""Settings: frit.config() and the environment take what base/env.def allows, and say what that is where they do not."""
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT

SETTINGS = {s["name"]: s for s in frit.config.settings()}
WORDS = {"jit": "auto off interpret always", "backend": "cpu ref", "log": "compiles fallbacks syncs",
         "skip": "outer forward split push fold fuse once", "off": " ".join(w["name"] for w in frit.config.ways() if w["can_be_off"])}


@pytest.mark.parametrize("name", WORDS)
def test_words(name):
    before = frit._core.config_get(name)
    for word in WORDS[name].split():
        with frit.config(**{name: word}):
            assert frit._core.config_get(name) == word
    for word in ("bad", "", "Off", "AUTO", word + "x", word[:-1], word + " ", word + ",bad", "x" * 1100, "\u00e9"):
        if word == SETTINGS[name]["default"] or (name in ("log", "skip", "off") and word.endswith(" ")):
            continue
        with pytest.raises(ValueError, match=f"{name} cannot be .*{WORDS[name].split()[-1]}"):
            frit.config(**{name: word})
        assert frit._core.config_get(name) == before
    for value in (1, None, b"off", ["off"]):
        with pytest.raises(TypeError, match=f"{name} is a string"):
            frit.config(**{name: value})


def test_several_words():
    for text in ("compiles,syncs", "syncs, compiles", "fallbacks compiles", ""):
        with frit.config(log=text):
            assert frit._core.config_get("log") == text
    with pytest.raises(ValueError, match="some of compiles, fallbacks, syncs"):
        frit.config(log="compiles,foo")


@pytest.mark.parametrize("name", [n for n, s in SETTINGS.items() if type(s["value"]) is int])
def test_numbers(name):
    least, most = map(int, re.fullmatch(r"a whole number from (\d+) to (\d+)", SETTINGS[name]["allowed"]).groups())
    before = frit._core.config_get(name)
    if name != "fail_alloc":
        for value in {least, most, before, np.int64(least)} - ({most} if name == "num_threads" else set()):
            with frit.config(**{name: value}):
                assert frit._core.config_get(name) == value
    for value in (least - 1, most + 1, -1, 2**31, 2**70, -2**70):
        with pytest.raises(ValueError, match=f"{name} cannot be {value}: it is a whole number from {least} to {most}"):
            frit.config(**{name: value})
    for value in ("1", 1.0, None, [1]):
        with pytest.raises(TypeError):
            frit.config(**{name: value})
    assert frit._core.config_get(name) == before


def test_one_that_is_wrong_changes_nothing():
    before = {s["name"]: s["value"] for s in frit.config.settings()}
    for bad in ({"jit": "bad"}, {"debug": 6}, {"nothing": 1}, {"isa": "v2"}, {"cache_dir": "/tmp"}):
        with pytest.raises((ValueError, KeyError)):
            frit.config(verify=1, log="syncs", **bad)
        assert before == {s["name"]: s["value"] for s in frit.config.settings()}


def test_no_number_of_threads_means_all():
    usable = frit.config.threads()
    with frit.config(num_threads=1):
        assert frit.config.threads() == 1
    assert frit.config.threads() == usable


BAD = {"FRIT_JIT": "banana", "FRIT_LOG": "foo", "FRIT_ISA": "v9", "FRIT_BACKEND": "CPU", "FRIT_CACHE": "2", "FRIT_CACHE_MB": "-1",
       "FRIT_NUM_THREADS": "257", "FRIT_DEBUG": "3x", "FRIT_SKIP": "fold,fuze", "FRIT_HELPERS": "0", "FRIT_VERIFY": "yes",
       "FRIT_EAGER_ELEMS": "1e6", "FRIT_PACK_BYTES": "99999999999999999999", "FRIT_CACHE_DIR": "/" + "x" * 1100}


def run(**settings):
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRIT_")}
    code = "import frit; print({s['variable']: (s['value'], s['default']) for s in frit.config.settings()})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**env, "PYTHONPATH": os.pathsep.join(sys.path), **settings})


def test_what_the_environment_has_wrong_is_said_and_left_alone():
    done = run(**BAD)
    found, lines = eval(done.stdout), done.stderr.splitlines()
    assert len(lines) == len(BAD), done.stderr
    for name, text in BAD.items():
        line, = (k for k in lines if k.startswith(f"frit: {name}="))
        allowed = SETTINGS[name[5:].lower()]["allowed"]
        assert f"={text[:60]} is not {allowed}; using" in line
        assert str(found[name][0]) == found[name][1]
    assert run(**BAD, FRIT_QUIET="1").stderr == ""
    good = {"FRIT_JIT": "off", "FRIT_LOG": "compiles,syncs", "FRIT_ISA": "generic", "FRIT_DEBUG": "0", "FRIT_SKIP": "", "FRIT_CACHE": "0"}
    done = run(**good)
    assert done.stderr == "" and all(str(eval(done.stdout)[name][0]) == text for name, text in good.items())


def test_every_pass_may_be_skipped():
    with open(os.path.join(ROOT, "csrc", "passes", "passes.def")) as f:
        assert re.findall(r"^PASS\((\w+)", f.read(), re.M) == WORDS["skip"].split()


def test_a_way_that_is_off_is_not_taken():
    def replays():
        fast, before = frit.accelerate(lambda a: a * 2 + a), frit.stats()["replayed"]
        for _ in range(100):
            fast(np.ones(10))
            frit.wait_for_compiles()
        return frit.stats()["replayed"] - before

    assert replays() > 0
    with frit.config(off="divided,replayed"):
        assert replays() == 0


FILES = {p.name for p in pathlib.Path(ROOT, "csrc").rglob("*.c")}


def test_every_way_is_counted_and_said():
    stats = frit.stats()
    for w in frit.config.ways():
        assert stats[w["name"]] >= 0 and all(len(w[k]) > 5 for k in ("fits", "runs", "why"))
        assert {name.rsplit("/")[-1] for name in re.findall(r"[\w/]+\.c", w["runs"])} <= FILES
    frit.reset_stats()
    frit.eval(frit.asarray(np.ones(9)) / 4)
    stats = frit.stats()
    assert stats["divided"] == 1 and sum(stats[k] for k in ("jitted", "interpreted", "ref")) == 1


def test_numbers_of_the_machine():
    def value(name):
        return next(t["value"] for t in frit.config.tuned() if t["name"] == name)

    usual = {t["name"]: t["default"] for t in frit.config.tuned()}
    as_it_was = {name: value(name) for name in usual}       # (conftest.py sets one)
    with frit.config(tune="duel_ns=7, rows_tile=99"):
        assert value("duel_ns") == 7 and value("rows_tile") == 99 and value("lanes") == usual["lanes"]
        with frit.config(tune=""):
            assert value("duel_ns") == usual["duel_ns"]
        assert value("duel_ns") == 7
    assert {name: value(name) for name in usual} == as_it_was
    for text in ("duel_ns", "duel_ns=", "duel_ns=x", "duel_ns=1x", "duel_ns=-1", "duel=1", "=1", "rows_tile=0", "lanes=99999999999999999999",
                 "duel_ns=1;lanes=99", "duel_ns= 1"):
        with pytest.raises(ValueError, match="tune cannot be .*name=value"):
            frit.config(tune=text)


@pytest.mark.parametrize("extreme", ["least", "most"])
def test_no_result_depends_on_a_number_of_the_machine(extreme):
    a, b = np.linspace(1, 2, 6000).reshape(600, 10), np.linspace(3, 4, 6000).reshape(10, 600)
    with frit.config(tune=", ".join(f"{t['name']}={t[extreme]}" for t in frit.config.tuned())):
        for f in (lambda x, y: x + y.T, lambda x, y: x.sum(0) * y.max(1), lambda x, y: np.exp(x) / y.T.sum(1)[:, None]):
            got = f(frit.asarray(a), frit.asarray(b))
            with frit.config(tune=""):
                want = f(frit.asarray(a), frit.asarray(b))
                frit.eval(want)
            frit.eval(got)
            assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("off", WORDS["off"].split())
def test_no_result_depends_on_a_way(off):
    def loop(x):
        for i in range(1, len(x)):
            if x[i, 0] > x[i - 1, 0]:
                x[i] += x[i - 1] / 3
        return x

    a = np.random.default_rng(3).random((60, 5))
    for f in (loop, lambda x: x / 4 + x.T.copy().T, lambda x: (x - x.mean(1, keepdims=True)).argmax(), lambda x: x[:, ::2] + x[:, 1:4]):
        with frit.config(off=off, eager_elems=131072):
            fast = frit.accelerate(f)
            for _ in range(8):
                assert np.asarray(fast(a.copy())).tobytes() == np.asarray(f(a.copy())).tobytes()


# ---- FRIT_LOG

LOOP = """
import os, sys
import numpy as np, frit
def f(x):
    n = 0
    for i in range({n}):
        n += bool((x * i).sum() > 3)
        x = x + np.sort(x)
    return n
frit.explain(f)(np.ones(5))
"""


def logged(code, log="fallbacks,syncs"):
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRIT_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**env, "PYTHONPATH": os.pathsep.join(sys.path), "FRIT_LOG": log})
    return done.stderr.splitlines()


def test_lines_that_come_again_are_counted():
    lines = logged(LOOP.format(n=123))
    syncs = [k for k in lines if k.startswith("frit: computed for bool at <string>:7 in f")]
    assert [k.rpartition(" in f")[2] for k in syncs] == ["", ", 10 times", ", 100 times", ", 123 times"], lines
    handed = [k for k in lines if k.startswith("frit: sort is NumPy's, at <string>:8 in f")]
    assert [k.rpartition(" in f")[2] for k in handed] == ["", ", 10 times", ", 100 times", ", 123 times"], lines
    assert len(lines) == 8


@pytest.mark.parametrize("n, last", [(1, ""), (2, ", 2 times"), (10, ", 10 times"), (11, ", 11 times")])
def test_what_was_said_last_is_not_said_again_at_exit(n, last):
    lines = logged(LOOP.format(n=n), "fallbacks")
    assert lines[-1].endswith(f" in f{last}") and len(lines) == len(set(lines)), lines


def test_a_child_says_what_it_has_counted_itself():
    lines = logged(LOOP.format(n=5) + "if os.fork() == 0:\n    frit.explain(f)(np.ones(5)); frit.explain(f)(np.ones(5)); sys.exit()\nos.wait()",
                   "fallbacks")
    assert sorted(k.rpartition(" in f")[2] for k in lines) == ["", "", ", 10 times", ", 5 times"], lines


def test_a_log_that_ends_says_the_rest(capsys):
    def f(x):
        for _ in range(7):
            x = x + np.sort(x)
        return x
    for _ in range(2):
        with frit.config(log="fallbacks"):
            frit.explain(f)(np.ones(5))
            assert len(capsys.readouterr().err.splitlines()) == 1
        assert capsys.readouterr().err.rstrip().endswith("test_a_log_that_ends_says_the_rest.<locals>.f, 7 times")
    frit.explain(f)(np.ones(5))
    assert capsys.readouterr().err == ""


def test_compiled_kernels_are_said_once(tmp_path):
    code = "import numpy as np, frit\nfor _ in range(3): frit.eval(frit.asarray(np.ones(10**5)) * 2 + 1); frit.wait_for_compiles()"
    env = {name: value for name, value in os.environ.items() if not name.startswith("FRIT_")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env={**env, "PYTHONPATH": os.pathsep.join(sys.path), "FRIT_LOG": "compiles", "FRIT_JIT": "always",
                               "FRIT_CACHE_DIR": str(tmp_path)})
    lines = done.stderr.splitlines()
    assert lines and all(re.fullmatch(r"frit: compiled kernel [0-9a-f]{8}, [\d.]+ ms", k) for k in lines) and len(set(lines)) == len(lines)
