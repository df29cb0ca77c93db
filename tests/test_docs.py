"""The documentation says what frit does: examples run, generated pages are what frit says now, every name and message is there."""
import ast
import builtins
import doctest
import glob
import importlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import frit

from .common import ROOT

DOCS = os.path.join(ROOT, "docs")
PAGES = sorted(glob.glob("*.rst", root_dir=DOCS))
MODULES = [n[:-3] for n in sorted(os.listdir(os.path.join(ROOT, "python",
                                                          "frit"))) if n.endswith(".py") and not n.startswith("__main__")]


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def generate():
    """docs/generate.py, with frit as its readers have it."""
    if DOCS not in sys.path:
        sys.path.insert(0, DOCS)
    return importlib.import_module("generate")


@pytest.fixture(autouse=True)
def as_users_have_it():
    with frit.config(eager_elems=131072, jit="auto"):
        yield


# ---- examples

RUN = """
import doctest, sys
failed = tried = 0
for path in sys.argv[1:]:
    found = doctest.testfile(path, module_relative=False, encoding="utf-8", optionflags=doctest.ELLIPSIS)
    failed, tried = failed + found.failed, tried + found.attempted
print(tried)
sys.exit(failed > 0)
"""


def with_examples(paths):
    return [p for p in paths if ">>>" in read(p)]


def run(*paths):
    """Examples of files, in a process that is set as a user's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FRIT_") or k == "FRIT_CACHE_DIR"}
    env["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    return subprocess.run([sys.executable, "-c", RUN, *paths], cwd=ROOT, env=env, capture_output=True, text=True)


def test_examples_of_the_pages():
    pages = with_examples(f"docs/{p}" for p in PAGES)
    assert len(pages) >= 8
    done = run(*pages)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) >= 100      # so many there are


def test_an_example_that_is_wrong_is_found(tmp_path):
    page = tmp_path / "page.rst"
    page.write_text(">>> import frit\n>>> float(frit.arange(3.0).sum())\n4.0\n")
    assert run(str(page)).returncode == 1


def docstrings(name):
    """(where, docstring) of all that a module of the package defines."""
    tree = ast.parse(read("python", "frit", name + ".py"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", name), text


@pytest.mark.parametrize("name", [n for n in MODULES if ">>> " in read("python", "frit", n + ".py")])
def test_examples_of_docstrings(name, monkeypatch):
    monkeypatch.setattr(builtins, "_", None, raising=False)     # an example's value, which is to go with it
    parser, runner, said = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS), []
    for where, text in docstrings(name):
        runner.run(parser.get_doctest(text, {"frit": frit, "np": np}, where, name + ".py", 0), out=said.append)
    assert runner.tries > 0
    assert not runner.failures, "".join(said)


def test_programs_of_the_readme_run():
    programs = re.findall(r"^```python\n(.*?)^```", read("README.md"), re.M | re.S)
    assert programs
    for program in programs:
        done = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
        assert done.returncode == 0, done.stderr


def test_figure_and_table_of_the_readme_are_drawn_of_what_is_kept():
    from benchmarks import figure
    with open(os.path.join(DOCS, "figures", "bench.json"), encoding="utf-8") as file:
        kept = json.load(file)
    assert read("docs", "figures", "bench.svg") == figure.drawn(kept), "run python -m benchmarks.figure"
    with open(os.path.join(DOCS, "figures", "programs.json"), encoding="utf-8") as file:
        programs = json.load(file)
    assert figure.programs_table(programs) in read("README.md"), "run python -m benchmarks.figure --programs FILE"
    for picture in kept, programs:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", picture["date"]) and picture["machine"] and picture["commit"]


def test_a_run_is_drawn_in_proportion(tmp_path):
    from xml.etree import ElementTree

    from benchmarks import figure
    run = {"threads": {"1": {figure.ROWS[0]: {"numpy": 4.0, "frit accelerate": 1.0, "numexpr": 8.0, "copy": 1, "bytes": 1}},
                       "2": {figure.ROWS[0]: {"numpy": 4.0, "frit accelerate": 9.0}}},
           "date": "2026-01-01", "machine": "a <machine>", "processors": 2, "commit": "abc", "python": "3",
           "libraries": {"numpy": "2"}}
    p = figure.picked(run)
    assert p["rows"] == {figure.ROWS[0]: {"frit accelerate": 4.0, "numexpr": 0.5}} and p["threads"] == 1
    tree = ElementTree.fromstring(figure.drawn(p))
    bars = [r for r in tree.iter("{http://www.w3.org/2000/svg}rect") if r.get("height") == str(figure.BAR - 1)]
    assert len(bars) == 2
    one = figure.position(1, 0.5, 4.0)
    assert float(bars[0].get("x")) == pytest.approx(one, abs=0.1)        # to the right of 1, twice as far as the other to the left
    assert float(bars[0].get("width")) == pytest.approx(2 * float(bars[1].get("width")), abs=0.2)
    with pytest.raises(SystemExit, match="none of the rows"):
        figure.picked({"threads": {"1": {}}})


# ---- generated pages

def test_generated_pages_are_what_frit_says_now():
    done = subprocess.run([sys.executable, os.path.join(DOCS, "generate.py"), "--check"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_of_other_words_is_found(generate, monkeypatch, capsys):
    monkeypatch.setitem(generate.PAGES, "settings.rst", lambda: generate.settings().replace("num_threads=1", "num_threads=2"))
    assert generate.main(["--check", "settings.rst"]) == 1
    assert "num_threads=2" in capsys.readouterr().out


def test_every_setting_is_on_its_page():
    for s in frit.config.settings():
        assert read("docs", "settings.rst").count(f"``{s['variable']}``\n") == 1


def rows(page):
    """{first cell: second cell} of all tables of a page"""
    return dict(re.findall(r"^   \* - ``(.+?)``\n     - (.+)$", page, re.M))


def test_every_public_name_is_on_the_api_page(generate):
    page = read("docs", "api.rst")
    missing = [f"frit.{prefix}{name}" for prefix, _ in generate.PARTS for name, value in generate.public(prefix)
               if generate.is_function(value) and prefix + name not in generate.OWN and f"``frit.{prefix}{name}``" not in page
               and not newer(prefix + name)]
    missing += [name for name, value in generate.public("")
                if not generate.is_function(value) and f"``{name}``" not in page and not newer(name)]
    missing += [name for name in dir(frit.Tensor)
                if not name.startswith("_") and f"``{name}``" not in page and f"``{name}()``" not in page]
    assert not missing, missing


def newer(name):
    """Whether another NumPy than the page's has it."""
    return f"NumPy {np.__version__})" not in read("docs", "api.rst") and hasattr(np, name.partition(".")[0])


def test_frits_tools_are_in_the_reference(generate):
    text = read("docs", "reference.rst")
    unseen = {"ways", "tuned"}      # of frit.config
    assert not [n for n in generate.OWN - unseen if f"frit.{n}\n" not in text]
    for module in ("cache", "config", "energy", "machine", "random", "testing"):
        assert f"automodule:: frit.{module}\n" in text


@pytest.mark.parametrize("name, how", [
    ("frit.exp", "lazy"), ("frit.sum", "lazy"), ("frit.matmul", "lazy"), ("frit.nonzero", "immediate"), ("frit.eval", "immediate"),
    ("frit.shape", "no values"), ("frit.sort", "NumPy"), ("frit.linalg.inv", "NumPy"), ("frit.fft.fft", "NumPy"),
    ("frit.linalg.norm", "lazy"),
    ("masks in []", "immediate"), ("+ - * / // % **", "lazy"), ("numpy.asarray()", "immediate")])
def test_known_answers(name, how):
    assert rows(read("docs", "api.rst"))[name] == how


FOR_FUNCTIONS = {"choose", "compress"}       # written in the graph after a look at their indices (_composed.py)


def test_names_that_numpy_answers_are_the_tables(generate):
    """The page asks frit; python/frit/_numpy.py is what NumPy is asked for. Both say the same of these."""
    from frit._numpy import named
    said = rows(read("docs", "api.rst"))
    handed = {n for n in named("handed") - named("composed") if f"frit.{n}" in said and "." not in n}
    assert len(handed) > 20
    assert not [n for n in handed if said[f"frit.{n}"] != "NumPy" and n not in FOR_FUNCTIONS]


# ---- every message has an example

def patterns_of_c(path):
    """(line, regular expression) of each message that a file of C raises."""
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), read("csrc", path), flags=re.S)
    for call in re.finditer(r"\b(PyErr_Format|PyErr_SetString|fr_fail|FAIL|fr_warn_once)\s*\(", text):
        args = text[call.end():call.end() + 700].split(";")[0]
        if call[1] == "fr_fail" and re.search(r"FR_(EBUG|ENOMEM|ENOTSUP|ERAISED|EASKED|EAGAIN|EINTR|EOS|EDEVICE)\b", args):
            continue        # what no example shows, or the system's words
        for found in re.finditer(r'((?:"(?:[^"\\]|\\.)*"\s*)+)', args):
            words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found[1])).encode().decode("unicode_escape")
            if len(words) > 8:
                yield text.count("\n", 0, call.start()) + 1, pattern(words)


def pattern(words):
    parts = re.split(r"%(?:[-+ #0]*\d*(?:\.\d+|\.\*)?(?:hh|h|ll|l|z|j)?[diouxXeEfgGcspRSUAV]|%)", words)
    parts = [re.sub(r"\s+", " ", p).replace("``", "''") for p in parts]       # (as the page has them)
    return ".*".join(re.escape(p) for p in [*parts[:-1], parts[-1].rstrip()])


def patterns_of_python(name):
    """The same of a module of the package."""
    tree = ast.parse(read("python", "frit", name + ".py"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            text = node.exc.args[0]
            parts = text.values if isinstance(text, ast.JoinedStr) else [text]
            words = [re.escape(p.value) if isinstance(p, ast.Constant) and isinstance(p.value, str) else ".*" for p in parts]
            if any(len(w) > 8 for w in words):
                yield node.lineno, "".join(words)


def messages():
    folders = ("bind/base", "bind/numpy", "bind/tensor", "bind/accelerate", "bind", "runtime", "ir", "core", "jit", "base",
               "backends")
    for folder in folders:
        for name in sorted(glob.glob("*.c", root_dir=os.path.join(ROOT, "csrc", folder))):
            for line, words in patterns_of_c(f"{folder}/{name}"):
                yield f"{folder}/{name}:{line}", words
    for name in MODULES:
        for line, words in patterns_of_python(name):
            yield f"{name}.py:{line}", words


def test_every_message_has_an_example(generate):
    """Messages of the sources are on the page of errors, or docs/error_examples.py says why they are not."""
    page = "\n".join(line.strip().lstrip("# ").rstrip("`") for line in read("docs", "errors.rst").splitlines())
    reasons = generate.errors.NOT_SHOWN
    found = list(messages())
    assert len(found) > 200
    missing, used = [], set()
    for place, words in found:
        if re.search(words, page):
            continue
        said = re.sub(r"\\(.)", r"\1", words)
        why = next((r for r, parts in reasons.items() if any(p in place or p in said for p in parts)), None)
        if why is None:
            missing.append(f"{place}: {said}")
        used.add(why)
    assert not missing, "\n".join(missing)
    assert set(reasons) <= used, set(reasons) - used


# ---- the site

def test_notebooks_become_pages(generate):
    import notebook_pages
    text = "# Of `frit`s\n\nSee [the *tour*](tour.ipynb), [it](https://x.org/y_z) and `a*b`s, 2 * 3.\n- one\n- two"
    assert notebook_pages.markdown(text).split("\n") == [
        "", r"Of ``frit``\ s", "=" * 14, "", "",
        r"See :doc:`the *tour* <tour>`, `it <https://x.org/y_z>`__ and ``a*b``\ s, 2 \* 3.", "",
        "- one", "- two", "", ""]
    assert notebook_pages.markdown("```python\nx = [1](2)\n```") == "\n.. code-block:: python\n\n   x = [1](2)\n\n\n"
    assert "   * - 1\n     - ``c``\n" in notebook_pages.markdown("| a | b |\n|---|---|\n| 1 | `c` |\n")
    page = notebook_pages.page({"cells": [
        {"cell_type": "code", "source": ["%load_ext frit\n", "x"], "outputs": [
            {"output_type": "stream", "text": ["\x1b[31mred\x1b[0m\n"]},
            {"output_type": "display_data", "data": {"text/html": "<b>", "text/plain": "no"}},
            {"output_type": "error", "ename": "ValueError", "evalue": "why"}]},
        {"cell_type": "code", "source": "", "outputs": []}, {"cell_type": "raw", "source": "no"}]})
    assert "   %load_ext frit\n   x\n" in page and "   red\n" in page and "<b>" in page and "   ValueError: why\n" in page
    assert "no" not in page


@pytest.mark.soak
def test_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    # (Without a network: whatever asks for one fails.)
    env = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "-n", "--keep-going", "-E", "-b", "html", DOCS,
                           str(tmp_path)],
                          env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in PAGES:
        text = (tmp_path / page.replace(".rst", ".html")).read_text(encoding="utf-8")
        for link in re.findall(r'(?:src|href)="([^"#]+)', text):
            if not link.startswith(("http:", "https:", "data:")):
                assert (tmp_path / link.partition("?")[0]).exists(), f"{page}: {link}"
        assert not re.findall(r'(?:src|<link[^>]* href)="https?:', text), page


def test_links_between_files_lead_somewhere():
    for path in ("README.md", "CONTRIBUTING.md", *(f"docs/{p}" for p in PAGES)):
        text = read(path)
        for link in re.findall(r"\]\(([^)#]+)\)", text) + re.findall(r"<img [^>]*src=\"([^\"]+)\"", text):
            assert re.match(r"https?:", link) or os.path.exists(os.path.join(ROOT, os.path.dirname(path), link)), f"{path}: {link}"
        for name in re.findall(r":doc:`(?:[^<`]*<)?(\w+)>?`", text):
            assert f"{name}.rst" in PAGES, f"{path}: {name}"
        for name in re.findall(r"``?((?:csrc|benchmarks|tests|docs|python)/[\w./]+\.(?:md|c|h|def|py|rst|svg))``?", text):
            assert os.path.exists(os.path.join(ROOT, name)), f"{path}: {name}"
