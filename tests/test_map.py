"""csrc/README.md is a map: it names every source file and nothing that is not there, and stays short."""
import itertools
import os
import re

from . import layers
from .common import ROOT

CSRC = os.path.join(ROOT, "csrc")
SOURCE = (".c", ".h", ".def")
PLACE = re.compile(r"`([\w/]+(?:\.inc)?\.(?:c|h|def)): (\w+)`")
WORDS, LINES, COLUMNS = 120, 250, 120


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


TEXT = read("csrc", "README.md")
PLACES = set(PLACE.findall(TEXT + read("csrc", "NUMERICS.md")))
NEWCOMER = ("frees an operand", "array memory come from", "Ctrl-C", "a fork", "at exit", "in the cache key", "shape error",
            "how many threads", "line of user code", "not fused", "without a plan", "kernel compiled", "a helper dies",
            "warns of arithmetic", "accelerated call run")


def sources():
    return {os.path.relpath(os.path.join(folder, name), CSRC)
            for folder, _, names in os.walk(CSRC) for name in names if name.endswith(SOURCE)}


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]


def listed():
    """The files of the list under `Files`: a folder at the beginning of a line, below it lines that begin with names."""
    folder = None
    for line in section("Files").splitlines():
        if head := re.match(r"([\w/]+)/ ", line):
            folder = head[1]
        elif folder and line.startswith("  "):
            names = itertools.takewhile(lambda word: word.endswith(SOURCE), line.split())
            yield from (f"{folder}/{name}" for name in names)


def test_every_source_file_is_listed_once_and_exists():
    names = list(listed())
    assert len(names) == len(set(names)), sorted(n for n in names if names.count(n) > 1)
    assert set(names) == sources()


def test_named_functions_are_in_the_named_files():
    def has(path, name):
        start = "^" if path.endswith(".c") else r"\b"
        return re.search(rf"{start}{name}\b", read("csrc", path), re.M)
    assert not [place for place in PLACES if not has(*place)]


def test_other_files_that_the_map_names_exist():
    names = {os.path.basename(path) for path in sources()}
    for name in re.findall(r"[`(]((?:[\w.]+/)*[\w.]+\.(?:c|h|def|md|py))[`)]", TEXT.replace(section("Files"), "")):
        assert name in names or any(os.path.exists(os.path.join(base, name)) for base in (CSRC, ROOT)), name


def test_a_newcomers_questions_have_answers():
    index = re.findall(r"^- ([^?\n]+\?) (.*)", section(r"Where is \.\.\.\?"), re.M)
    assert not [question for question, answer in index if not PLACE.search(answer)]
    for asked in NEWCOMER:
        assert len([question for question, _ in index if asked in question]) == 1, asked


def test_the_map_stays_short():
    lines = TEXT.splitlines()
    assert len(lines) <= LINES
    assert not [line for line in lines if len(line) > COLUMNS]
    prose = TEXT.replace(section("Files"), "")
    paragraphs = re.split(r"\n\s*\n|\n(?=- |\d+\. )", prose)
    assert not [p for p in paragraphs if len(p.split()) > WORDS]


def test_every_test_is_listed():
    text = read("tests", "README.md")
    assert not [n for n in os.listdir(os.path.join(ROOT, "tests")) if n.endswith(".py") and n != "__init__.py"
                and f"`{n}`" not in text]


def test_includes_point_to_the_left_also_between_the_rooms_of_bind():
    files = layers.sources()
    assert not list(layers.faults(files))
    for path, target in (("core/dtype.c", "ir/op.h"), ("runtime/eval.c", "bind/base/base.h"),
                         ("bind/base/errors.c", "bind/numpy/numpy.h"), ("bind/tensor/index.c", "bind/accelerate/accelerate.h")):
        assert target in files
        assert len(list(layers.faults({**files, path: files[path] + f'#include "{target}"\n'}))) == 1


def test_no_files_of_bind_need_each_other():
    files = layers.sources()
    files["bind/base/errors.c"] += "fr_args_tuple"
    fault, = layers.faults(files)
    assert "bind/base/args.c, bind/base/errors.c" in fault
