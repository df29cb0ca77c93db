"""Writes the generated pages of the documentation: python docs/generate.py [--check] [PAGE...]

settings.rst is of frit.config, which has it of csrc/base/*.def; api.rst asks every public function how it answers (calls.py);
errors.rst shows what each example raises (error_examples.py). --check writes nothing and says which pages are others: of one that
another Python or NumPy made only whether it can be made, for their words and names change."""
import atexit
import contextlib
import difflib
import importlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

FOLDER = os.path.dirname(os.path.abspath(__file__))
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
if __name__ == "__main__":      # as frit comes, whatever is set here, and away from what this user's cache has
    for variable in [v for v in os.environ if v.startswith("FRIT_")]:
        del os.environ[variable]
    os.environ["FRIT_CACHE_DIR"] = tempfile.mkdtemp(prefix="frit-docs-cache-")
    atexit.register(shutil.rmtree, os.environ["FRIT_CACHE_DIR"], ignore_errors=True)

import numpy as np  # noqa: E402

import calls  # noqa: E402
import error_examples as errors  # noqa: E402
import frit  # noqa: E402

HEAD = ".. Written by docs/generate.py: change what it reads, not this file.\n\n"


def title(text, line="="):
    return f"{text}\n{line * len(text)}\n\n"


def literal(text):
    """Text as inline code."""
    return f"``{text}``" if text else "(empty)"


def table(columns, rows, widths=""):
    """A list-table; a cell may have several lines."""
    out = ".. list-table::\n   :header-rows: 1\n" + (f"   :widths: {widths}\n" if widths else "") + "\n"
    for row in (columns, *rows):
        for i, cell in enumerate(row):
            lines = str(cell).split("\n")
            out += ("   * - " if i == 0 else "     - ") + lines[0] + "\n"
            out += "".join(f"       {line}".rstrip() + "\n" for line in lines[1:])
    return out + "\n"


def plain(text):
    """Words of a table of frit's as reStructuredText: nothing in them is markup, but FRIT_ variables and what they may be."""
    text = re.sub(r"([*`|\\])", r"\\\1", text)
    return re.sub(r"(?<![\w`])(FRIT_\w+(?:=[\w.]+)?)", r"``\1``", re.sub(r"_(?=\W|$)", r"\_", text))


# ---- settings ----

def when(s):
    """When a setting may be changed: frit.config is asked."""
    try:
        with frit.config(**{s["name"]: s["value"]}):
            return "at any time"
    except ValueError as error:
        if "environment" not in str(error):
            raise
        return "before Python starts"


def settings():
    out = HEAD + title("Every setting") + """\
A setting is read from its variable when frit is imported. ``with frit.config(name=value):`` changes it until the end of
the block, and ``frit.config(name=value)`` for good, where the last column says so. ``python -m frit.config`` prints all of
them as they are set. A value that a setting cannot have is a ValueError, and in the environment a line on stderr
(:doc:`errors`).

>>> import frit
>>> with frit.config(num_threads=1):
...     frit.config.threads()
1

"""
    rows = [(literal(s["variable"]), literal(str(s["default"]).strip('"')), plain(s["allowed"]), plain(s["help"]), when(s))
            for s in frit.config.settings()]
    out += table(("variable", "default", "may be", "what it does", "can be changed"), rows, "20 12 24 34 10")
    out += title("Numbers of the machine", "-") + """\
``FRIT_TUNE="name=value, ..."`` and ``frit.config(tune=...)`` set numbers that depend on the machine. No result depends on
them. ``frit.config.tuned()`` gives this table as dicts.

"""
    out += table(("name", "default", "from", "to", "unit", "what it is"),
                 [(literal(t["name"]), t["default"], t["least"], t["most"], plain(t["unit"]),
                   plain(t["measured"])) for t in frit.config.tuned()],
                 "16 9 7 12 10 46")
    out += title("Ways of answering", "-") + """\
A call, an operation or an evaluation is answered in the first of these ways that fits. ``frit.stats()`` counts by these
names how often each was taken. ``FRIT_OFF="name, ..."`` leaves out those that are there for speed alone; no result
depends on that. ``frit.config.ways()`` gives this table as dicts.

"""
    rows = [(literal(w["name"]), "yes" if w["can_be_off"] else "", plain(w["fits"]), f"{plain(w['runs'])}: {plain(w['why'])}")
            for w in frit.config.ways()]
    return out + table(("name", "FRIT_OFF", "when it fits", "what runs, and why"), rows, "12 7 40 41")


# ---- names and how they answer ----

OWN = {     # what is no function of arrays: frit's tools, which reference.rst describes
    "accelerate", "estimate", "explain", "install", "isa_levels", "load_ipython_extension", "max_batch", "profile", "reset_stats",
    "show_config", "stats", "synchronize", "unload_ipython_extension", "wait_for_compiles", "warmup", "devices", "tuned", "ways"}
PARTS = (("", "frit"), ("linalg.", "frit.linalg"), ("fft.", "frit.fft"), ("random.", "frit.random"))
LOOKS = "lazy", "immediate", "no values", "NumPy"


def is_function(value):
    return callable(value) and not isinstance(value, type) and not inspect.ismodule(value)


def public(prefix):
    """The public names of a part of the package, and their values; None: it is a tool for a package that is not installed."""
    module = importlib.import_module(("frit." + prefix).rstrip("."))
    for name in sorted(dir(module)):
        try:
            value = None if name.startswith("_") else getattr(module, name)
        except ImportError:
            value = None
        inner = inspect.ismodule(value) and value.__name__.startswith("frit.") and name not in frit._SUBMODULES
        if not name.startswith("_") and not inner:
            yield name, value


def functions(prefix):
    return [name for name, value in public(prefix) if is_function(value) and prefix + name not in OWN]


def looked_at(name):
    """(how a function answers, how in an accelerated function if otherwise)"""
    if name in calls.NOT_CALLED:
        return "NumPy", ""
    how, arguments = calls.answer(name)
    if how is None:
        raise ValueError(f"docs/calls.py has no arguments that frit.{name} takes")
    try:
        calls.found(np, name)
    except AttributeError:
        return how, ""
    inside = calls.accelerated(name, arguments, how)
    return how, inside if inside and inside != how else ""


def summary(name, how):
    """The first sentence of what a function says of itself."""
    value, theirs = calls.found(frit, name), has(np, name)
    if theirs and (getattr(value, "__wrapped__", None) is not None or how == "NumPy"):
        return f"as ``numpy.{name}``"
    text = " ".join((inspect.getdoc(value) or "").split())
    if ", element by element. " in text:
        own = text.partition("beyond an integer dtype. ")[2].removesuffix("frit's own, at most 1 ULP from the truth (csrc/jit/ACCURACY.md).")
        return f"element by element, as ``numpy.{name}``" if theirs else plain(own.split(" Not of")[0].strip().rstrip("."))
    first = re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;")
    return f"as ``{first}``" if re.fullmatch(r"numpy\.[\w.]+", first) else plain(first)


def has(module, name):
    try:
        calls.found(module, name)
        return True
    except AttributeError:
        return False


def api():
    out = HEAD + title("Every name, and how it answers") + f"""\
``docs/generate.py`` has called every function of this page and looked at what frit counted (with NumPy {np.__version__}).

lazy
   The operation is recorded. It is computed, with others, when a value is needed.
immediate
   A value is needed, so that what the operation reads is computed now: its shape or its type depends on values.
no values
   The answer follows from shapes, dtypes or memory. Nothing is computed.
NumPy
   frit computes the arguments and hands them to NumPy's function. New arrays among its results become tensors.
   ``frit.stats()["fallbacks"]`` counts these calls by name.

Where a call in a function that :func:`frit.accelerate` runs answers otherwise, the column says so. Arguments of a call that frit
does not have, such as ``where=`` of a sum or a dtype that tensors do not have, make any of these calls NumPy's.
:doc:`reference` describes the functions that are frit's own, and :doc:`fusion` which lazy operations become one kernel.

"""
    rows = [(literal(what), calls.operator(expression)) for expression, what in calls.OPERATORS.items()]
    out += title("Operators and conversions of a Tensor", "-") + table(("expression", "how"), rows, "70 30")
    rows = []
    for name in sorted(n for n in dir(frit.Tensor) if not n.startswith("_")):
        how = calls.method(name)
        rows.append((f"``{name}``" + ("``()``" if callable(getattr(frit.Tensor, name)) else ""), how))
    out += title("Methods and attributes of a Tensor", "-") + table(("name", "how"), [(a.replace("````", ""), b) for a, b in rows],
                                                                    "70 30")
    for prefix, module in PARTS:
        rows = []
        for name in functions(prefix):
            how, inside = looked_at(prefix + name)
            shown = literal(f"{module}.{name}")
            rows.append((shown, how + (f"; accelerated: {inside}" if inside else ""), summary(prefix + name, how)))
        out += title(f"Functions of {module}", "-") + table(("name", "how", "what it is"), rows, "30 20 50")
    out += title("Everything else in frit", "-")
    kinds = {"Frit's own tools (:doc:`reference`)": [], "Modules": [], "Types that are NumPy's": [], "Types that are frit's": [],
             "Constants and objects": []}
    for name, value in public(""):
        if name in OWN or (callable(value) and name in ("cache", "config")):
            kinds["Frit's own tools (:doc:`reference`)"].append(name)
        elif inspect.ismodule(value):
            kinds["Modules"].append(name)
        elif isinstance(value, type):
            kinds["Types that are NumPy's" if getattr(np, name, None) is value else "Types that are frit's"].append(name)
        elif not is_function(value):
            kinds["Constants and objects"].append(name)
    for kind, names in kinds.items():
        out += f"{kind}\n   " + ", ".join(literal(n) for n in names) + "\n"
    return out


# ---- errors ----

class Nothing(Exception):
    """An example that raises nothing."""


def outcome(code, with_numpy=False):
    """(type, message) of what an example raises."""
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(errors.SETUP.replace("import frit\n", "import numpy as frit\n") if with_numpy else errors.SETUP, names)
        names["__file__"] = errors.__file__
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(code, names)
        except Exception as error:
            return said(error, names["folder"])
    raise Nothing(f"this raises nothing: {code}")


def said(error, folder):
    kind = type(error)
    name = "TypeError" if kind.__name__.startswith(("_UFunc", "UFunc")) else kind.__name__
    if kind.__module__.startswith("frit"):
        name = f"{kind.__module__}.{name}"
    text = str(error).replace(folder, "FOLDER").replace(os.path.dirname(errors.__file__), "docs")
    return name, re.sub(r"0x[0-9a-f]+", "0x...", text)


def said_apart(code, environment):
    """The last line that a program writes on stderr."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FRIT_")}
    env["PYTHONPATH"] = os.pathsep.join([os.path.dirname(os.path.dirname(frit.__file__)), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**env, **environment}, cwd=FOLDER)
    lines = done.stderr.strip().splitlines()
    if not lines:
        raise Nothing(f"this says nothing: {code}")
    return lines[-1].replace(sys.executable, "python").replace(FOLDER, "docs").replace(tempfile.gettempdir(), "TMP")


def block(text, kind="python"):
    return f".. code-block:: {kind}\n\n" + "".join(f"   {line}\n" if line else "\n" for line in text.splitlines()) + "\n"


def error_page():
    out = HEAD + title("Every error, with an example") + f"""\
Look for the words of the message. Each example of this page has been run (Python {sys.version_info[0]}.{sys.version_info[1]},
NumPy {np.__version__}), and the comment below it is what it raised.

An error of shapes, dtypes, axes or indices is raised at the line that makes it, as NumPy does: frit knows shapes and
dtypes although values come later. Its type is NumPy's (``numpy.exceptions.AxisError`` is an IndexError and a
ValueError). After an error all arrays are as they were.

All examples begin with this:

""" + block(errors.SETUP.strip())
    out += title("Errors that frit has of its own", "-")
    for heading, text, examples in errors.OWN:
        out += title(heading, "~") + (plain_or_markup(text) + "\n\n" if text else "")
        for code, meaning in examples:
            kind, message = outcome(code)
            out += shown(code, f"{kind}: {message}", meaning)
    for heading, text, examples in errors.APART:
        out += title(heading, "~") + (plain_or_markup(text) + "\n\n" if text else "")
        for code, environment, meaning in examples:
            setting = "".join(f"# {k}={v}\n" for k, v in environment.items())
            out += shown(setting + code, said_apart(code, environment), meaning)
    out += title("What no example shows", "~") + """\
MemoryError: out of memory: ...
   frit had no memory for its own work. What was asked for is not done, and all arrays are as before.
KeyboardInterrupt
   Ctrl-C ends a computation within 0.2 s. Tensors stay pending and can be computed later.
SystemError: ...
   A defect of frit. Please report it with the output of ``FRIT_DEBUG=3`` and ``frit.show_config()``; ``FRIT_JIT=off``,
   ``FRIT_SKIP=fuse`` or ``FRIT_EAGER_ELEMS=0`` may go round it.
RuntimeError: CUDA: ...
   The driver of a GPU has failed; the message has its words. Tensors on that device are lost, those of the host are not.

"""
    out += title("Errors that are NumPy's", "-") + """\
NumPy raises the same type for each of these examples. An asterisk says that the words are NumPy's, too; other messages
add the operation, the shapes or the dtypes. Of what NumPy computes for frit, as ``frit.linalg.inv``, all errors are NumPy's own.

"""
    for heading, text, examples in errors.NUMPYS:
        out += title(heading, "~") + (text + "\n\n" if text else "")
        rows = []
        for code in examples:
            got, want = outcome(code), outcome(code, with_numpy=True)
            if got[0] != want[0]:
                raise ValueError(f"{code}: {got} instead of {want}")
            rows.append((literal(code), literal_text(f"{got[0]}: {got[1]}") + (" \\*" if got == want else "")))
        out += table(("example", "what it raises"), rows, "35 65")
    return out


def literal_text(text):
    """A message as inline code, which has no back quotes."""
    return "``" + text.replace("``", "''").strip() + "``"


def plain_or_markup(text):
    return re.sub(r"(?<![:`])`([^`]+)`(?!`)", r"``\1``", text)


def shown(code, message, meaning):
    return block(f"{code}\n# {message}") + (plain_or_markup(meaning) + "\n\n" if meaning else "")


PAGES = {"settings.rst": settings, "api.rst": api, "errors.rst": error_page}


def made_with(text):
    """The versions that a page names."""
    return re.findall(r"\bPython \d+\.\d+|\bNumPy \d+\.\d+\S*?(?=[),])", text)


def main(arguments):
    checks, others = "--check" in arguments, []
    for name in [a for a in arguments if not a.startswith("-")] or PAGES:
        text, path = PAGES[name](), os.path.join(FOLDER, name)
        if not checks:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(path, encoding="utf-8") as file:
            before = file.read()
        if before != text and made_with(before) == made_with(text):
            others.append(name)
            print(*difflib.unified_diff(before.splitlines(), text.splitlines(), name, "now", n=0, lineterm=""), sep="\n")
    if others:
        print("run python docs/generate.py:", *others)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
