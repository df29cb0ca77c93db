"""%load_ext frit: %%frit and %frit_line in IPython's shell; what they leave in the user's names, show, raise and refuse."""
import builtins
import contextlib
import io
import os
import re
import subprocess
import sys
import types

import numpy as np
import pytest

pytest.importorskip("IPython")

import frit

from . import notebooks
from .common import ROOT, soak
from .test_guest import run

SETUP = """
import numpy as np, frit
x = np.arange(12.0).reshape(3, 4)

class Model:
    def __init__(self):
        self.w, self.n, self.losses = np.linspace(-1, 1, 4), 0, []
    def step(self, x):
        self.n += 1
        self.w -= 0.1 * x.sum(axis=0)
        self.last = np.tanh(self.w)
        self.losses.append(self.last.sum())
        return self.last
model = Model()

def cosh_of(v):
    return np.cosh(v) * 7

log = []
"""


class Shell:
    """IPython's shell in this process, whose names are those of a module of its own."""

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        self.shell = InteractiveShell(config=config, user_module=types.ModuleType("frit_cells"))
        self.names = self.shell.user_ns
        self.first = set(self.names)

    def begin(self):
        for name in set(self.names) - self.first:
            del self.names[name]
        self.shell.ast_node_interactivity = "last_expr"
        self.shell.run_line_magic("load_ext" if "frit" not in self.shell.extension_manager.loaded else "reload_ext", "frit")
        self.run(SETUP)

    def run_cell(self, source):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            result = self.shell.run_cell(source, store_history=True)
        return result, out.getvalue()

    def run(self, source):
        """What a cell shows; an exception that it raises is raised."""
        result, out = self.run_cell(source)
        result.raise_error()
        return re.sub(r"^Out\[\d+\]: ?\n?", "", out, flags=re.M).strip()

    def shown(self, source):
        """What a cell writes, which may fail."""
        return self.run_cell(source)[1]


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in ("get_ipython", "display"):
            patch.setattr(builtins, name, None, raising=False)
        for name in ("displayhook", "excepthook"):
            patch.setattr(sys, name, getattr(sys, name))
        patch.setitem(sys.modules, "frit_cells", None)
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        made = Shell()
        yield made
        frit.unload_ipython_extension(made.shell)


@pytest.fixture
def ip(shell):
    shell.begin()
    return shell


# ---- what a cell leaves and shows

def test_names_are_numpys_arrays_afterwards(ip):
    crossed = frit.stats()["crossed"]
    ip.run("%%frit\ny = np.exp(x) * 2\nz = y.sum(axis=0)\nw = model.step(x)\nlog.append(z)\nk = int(z[0])")
    assert frit.stats()["crossed"] > crossed and frit.stats()["pending_nodes"] == 0
    x = np.arange(12.0).reshape(3, 4)
    names = ip.names
    assert np.allclose(names["y"], np.exp(x) * 2, rtol=1e-15) and np.array_equal(names["z"], names["y"].sum(axis=0))
    model = names["model"]
    for value in (names["y"], names["z"], names["w"], names["log"][0], model.w, model.last):
        assert type(value) is np.ndarray
    assert type(model.losses[0]) is np.float64 and type(names["k"]) is int and model.n == 1
    assert not [name for name in names if name.startswith("_frit")]


def test_arrays_that_were_there_are_written_into(ip):
    ip.run("before = x\nview = x[1]")
    ip.run("%%frit\nx += 1\nx[0, 0] = -5\nlog += [x]")
    x = np.arange(12.0).reshape(3, 4) + 1
    x[0, 0] = -5
    assert ip.names["before"] is ip.names["x"] is ip.names["log"][0] and np.array_equal(ip.names["x"], x)
    assert np.array_equal(ip.names["view"], x[1])


def test_the_last_expression_is_shown(ip):
    assert ip.run("%%frit\ny = x * 2\ny[0]") == "array([0., 2., 4., 6.])"
    assert ip.run("_ is Out[max(Out)]") == "True"
    assert type(ip.names["_"]) is bool
    assert ip.run("%%frit\nx.sum()") == "np.float64(66.0)"
    assert ip.run("%%frit\nx.sum();") == ""
    assert ip.run("%%frit\nx.sum()  # silent;\n") == "np.float64(66.0)"
    assert ip.run("%%frit\ny = x.sum()") == ""
    assert ip.run("%%frit\nif True:\n    x.sum()") == ""
    assert ip.run("%%frit\nprint(x[0] + 1)\n'end'") == "[1. 2. 3. 4.]\n'end'"
    ip.shell.ast_node_interactivity = "none"
    assert ip.run("%%frit\nx.sum()") == ""


def test_magics_lines_for_the_system_and_futures_in_a_cell(ip):
    assert ip.run("%%frit\nwho = !echo someone\n%precision 3\nx[0, 1:3] / 3") == "'%.3f'\narray([0.333, 0.667])".removeprefix("'%.3f'\n")
    assert ip.names["who"] == ["someone"]
    ip.run("%precision %r")
    ip.run("%%frit\nfrom __future__ import annotations\ndef f(x: Nowhere):\n    return x + 1\ny = f(x)")
    assert ip.names["f"].__annotations__ == {"x": "Nowhere"}


def test_functions_and_classes_that_a_cell_defines(ip):
    ip.run("%%frit\ndef square(v):\n    return np.square(v)\nclass B:\n    def at(self, v):\n        self.v = square(v)\n"
           "        return self.v + 1\nb = B()\ny = b.at(x)")
    assert type(ip.names["b"].v) is np.ndarray and np.array_equal(ip.names["y"], np.arange(12.0).reshape(3, 4) ** 2 + 1)
    ip.run("y = b.at(x + 1)")
    assert np.array_equal(ip.names["y"], (np.arange(12.0).reshape(3, 4) + 1) ** 2 + 1)


def test_one_statement(ip):
    assert ip.run("%frit_line x.sum() + 1") == "np.float64(67.0)"
    assert ip.run("%frit_line x.sum() + 1;") == ""
    ip.run("%frit_line k = np.sqrt(x)\ns = %frit_line x.max()")
    assert np.array_equal(ip.names["k"], np.sqrt(np.arange(12.0).reshape(3, 4))) and type(ip.names["k"]) is np.ndarray
    assert ip.names["s"] == 11 and type(ip.names["s"]) is np.float64


# ---- reports

def test_explain_says_what_ran(ip):
    out = ip.run("%%frit --explain\ny = np.exp(x).sum(axis=1)\ny.shape")
    assert re.search(r"1 kernel.*row reduction over \(3, 4\): exp sum\n.*In\[\d+\]:2 in <module>", out, re.S), out
    assert out.endswith("(3,)") and type(ip.names["y"]) is np.ndarray
    out = ip.run("%frit_line --explain y = cosh_of(x)")
    assert "cosh multiply" in out and re.search(r"In\[\d+\]:\d+ in cosh_of", out), out
    assert "Explanation" not in out and np.allclose(ip.names["y"], np.cosh(ip.names["x"]) * 7, rtol=1e-15)


def test_estimate_computes_nothing_and_leaves_names_alone(ip):
    ip.run("pending = frit.asarray(np.ones(4)) + 1\ndone = frit.asarray(np.arange(3.0))")
    names = ip.names
    before, model = dict(names), names["model"]
    w, x = model.w.copy(), names["x"].copy()
    stats = frit.stats()
    out = ip.run("%%frit --estimate\ny = np.exp(x).sum(axis=1)\nx += 1\nmodel.step(x)\nlog.append(y)\ncosh_of.seen = 3\n"
                 "z = pending * 2 + done.sum()\ndef new(v):\n    return v\nx = 3")
    after = frit.stats()
    assert (after["evals"], after["kernels"]) == (stats["evals"], stats["kernels"])
    assert re.search(r"In\[\d+\]: \S+ \w+ in \d+ kernels, peak", out) and re.search(r"In\[\d+\]:2 in <module>", out), out
    assert "without data" not in out and "ends early" not in out
    kept = {name for name in names if not re.fullmatch(r"_+|_i+\d*|_\d+|_dh|_oh|_ih|In|Out", name)}
    assert kept == {name for name in before if name in kept}
    assert all(names[name] is before[name] for name in kept)
    assert model.n == 0 and model.losses == [] and not hasattr(model, "last") and names["log"] == []
    assert np.array_equal(model.w, w) and np.array_equal(names["x"], x) and names["pending"]._is_pending()


def test_estimate_beside_what_cannot_be_copied(ip):
    ip.run("import threading\nlock = threading.Lock()")
    out = ip.run("%%frit --estimate\nwith lock:\n    y = x * 2\nlog.append(y)")
    assert "kernel" in out and ip.names["log"] == [] and "y" not in ip.names and not ip.names["lock"].locked()


def test_estimate_says_where_it_ends(ip):
    ip.run("large = np.ones(1_000_000)")
    out = ip.run("%%frit --estimate\ny = np.exp(large)\nif y.sum() > 0:\n    z = y + 1")
    assert "ends early" in out and "y" not in ip.names
    with pytest.raises(ZeroDivisionError):
        ip.run("%%frit --estimate\ny = x * 2\n1 / 0")
    assert "y" not in ip.names


def test_profile(ip):
    out = ip.run("%%frit --profile\ny = np.exp(x) * 2\ny.shape")
    assert re.search(r"map over \(12\): exp multiply|exp multiply", out) and re.search(r"In\[\d+\]:2 in <module>", out), out
    assert out.endswith("(3, 4)") and type(ip.names["y"]) is np.ndarray
    out = ip.shown("%%frit --profile\ny = np.tanh(x)\nprint(y.sum())\n1 / 0")
    assert "tanh" in out and "ZeroDivisionError" in out and type(ip.names["y"]) is np.ndarray
    with frit.profile():
        with pytest.raises(RuntimeError, match="frit records already"):
            ip.run("%%frit --profile\nz = 1")
    assert "z" not in ip.names


def test_a_report_with_html_is_displayed_where_there_is_a_kernel(ip, monkeypatch):
    from frit.explain import Explanation
    shown = []
    monkeypatch.setattr(Explanation, "_repr_html_", lambda self: "<p>", raising=False)
    monkeypatch.setattr("IPython.display.display", shown.append)
    out = ip.run("%%frit --explain\ny = x * 2")
    assert "kernel" in out and not shown
    monkeypatch.setattr(type(ip.shell), "kernel", object(), raising=False)
    assert ip.run("%%frit --explain\ny = x * 2") == ""
    assert len(shown) == 1 and "kernel" in shown[0]


def test_pages_show_the_text_of_cells(ip, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setattr(type(ip.shell), "kernel", object(), raising=False)
    ip.run("def doubled(x):\n    return x * 2 + np.tanh(x)     # in a cell of its own")
    ip.run("%%frit --profile\ny = doubled(x)\nz = np.exp(y).sum()")
    page = shown[-1].html()
    assert "# in a cell of its own" in page and "z = np.exp(y).sum()" in page and "its text is not there" not in page
    assert re.search(r"<h1>Profile of In\[\d+\]</h1>", page)


def test_where_it_computes(ip):
    ip.run("%%frit --device cpu\ny = x * 2")
    ip.run("%%frit --device=auto --explain\ny = x * 3")
    assert np.array_equal(ip.names["y"], ip.names["x"] * 3)


# ---- what goes wrong

@pytest.mark.parametrize("cell, message", [
    ("%%frit --wrong\n1", r"%%frit: no option --wrong; there are --explain, --estimate, --profile and --device NAME"),
    ("%%frit --explain --profile\n1", r"%%frit: --explain or --profile, not both"),
    ("%%frit --explain=3\n1", r"%%frit: --explain takes no value, not '3'"),
    ("%%frit y = 1\n1", r"%%frit: 'y = 1' is no option; statements begin on the next line"),
    ("%%frit --device\n1", r"%%frit --device: the name of a device is missing; there are cpu"),
    ("%%frit --device --explain\n1", r"%%frit --device: the name of a device is missing"),
    ("%%frit --device nowhere\n1", r"--device nowhere: Device not understood"),
    ("%frit_line", r"%frit_line: a statement is missing"),
    ("%frit_line --estimate", r"%frit_line: a statement is missing"),
    ("%frit_line --bad x", r"%frit_line: no option --bad"),
    ("%%frit\nimport asyncio\nawait asyncio.sleep(0)", r"await is for functions in such a cell, not for its top level"),
    ("%%frit\nasync with a:\n    pass", r"await is for functions in such a cell"),
])
def test_bad_use(ip, cell, message):
    from IPython.core.error import UsageError
    with pytest.raises(UsageError, match=message):
        ip.run(cell)


LINE = r"(?:Cell In\[\d+\], line |File <ipython-input-\d+-\w+>:)"       # (the latter where the shell is not the only one)


def test_tracebacks_show_the_cell(ip):
    out = ip.shown("%%frit\n\ndef inverse(v):\n    return 1 / v\n\ny = x * 2\ninverse(0)")
    assert re.search(LINE + r"7\n.*?----> 7 inverse\(0\)\n", out, re.S), out
    assert re.search(LINE + r"4, in inverse\(v\)\n.*?----> 4     return 1 / v\n", out, re.S), out
    assert "_install.py" not in out and "_notebook.py" not in out and out.rstrip().endswith("ZeroDivisionError: division by zero")
    assert type(ip.names["y"]) is np.ndarray and np.array_equal(ip.names["y"], ip.names["x"] * 2)
    out = ip.shown("%frit_line inverse(0)")
    assert re.search(LINE + r"1\n.*?----> 1 inverse\(0\)", out, re.S), out


def test_syntax_errors_name_the_line(ip):
    out = ip.shown("%%frit\ny = 1\nx = = 3")
    assert re.search(LINE + r"3\n\s+x = = 3\n", out) and "SyntaxError" in out, out
    assert "y" not in ip.names


def test_the_extension_goes(ip):
    ip.shell.run_line_magic("unload_ext", "frit")
    assert "not found" in ip.shown("%%frit\n1") + ip.shown("%frit_line 1")
    ip.shell.run_line_magic("load_ext", "frit")
    assert ip.run("%%frit\nx[0, 1]") == "np.float64(1.0)"


def test_ipython_is_imported_by_the_extension_alone():
    code = "import sys, frit; frit.wait_for_compiles(0.1); frit.warmup; print([m for m in ('IPython', 'frit._notebook') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python")})
    assert done.stdout.strip() == "[]"


# ---- Ctrl-C

def test_ctrl_c_lands_in_a_cell_and_leaves_it_usable(tmp_path):
    run(f"""
        os.environ["IPYTHONDIR"] = {str(tmp_path)!r}
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config
        shell = InteractiveShell.instance(config=Config({{"HistoryManager": {{"enabled": False}}}}))
        shell.run_line_magic("load_ext", "frit")
        shell.run_cell("import numpy as np\\nx = np.ones(2_000_000)")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sent = []
        def interrupt():
            time.sleep(0.5)
            sent.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        result = shell.run_cell(\"\"\"%%frit
for turn in range(100):
    y = x
    for i in range(100):
        y = np.sin(y) * 0.5 + x
    total = float(y.sum())
\"\"\")
        waited = time.process_time() - sent[0]
        assert isinstance(result.error_in_exec, KeyboardInterrupt), result
        assert waited < 0.4, waited             # 200 ms of each of two threads, however busy the machine is
        x, y = shell.user_ns["x"], shell.user_ns["y"]
        assert shell.user_ns["turn"] < 99 and type(x) is np.ndarray and (x == 1).all()
        wanted = [1.0]
        for i in range(100):
            wanted.append(float(np.sin(wanted[-1])) * 0.5 + 1)
        x[:] = 5
        assert min(abs(float(y[0]) - w) for w in wanted) < 1e-9 and (np.asarray(y) == y[0]).all()
        assert type(shell.user_ns["turn"]) is int
        result = shell.run_cell("%%frit\\nz = (x[:5] * 2).sum()\\nz")
        assert result.result == 50 and type(shell.user_ns["z"]) is np.float64
        work()
    """)


# ---- a kernel of Jupyter's

@pytest.mark.parametrize("name", ["tour", *soak(*(name for name in notebooks.names() if name != "tour"))])
def test_notebooks_show_what_is_in_them(name):
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    want = notebooks.tidied(notebooks.read(name))
    found = list(notebooks.differences(want, notebooks.executed(notebooks.read(name))))
    assert not found, "\n".join(f"{source}\n{diff}" for source, diff in found)


def test_what_differs_is_found():
    nbformat = pytest.importorskip("nbformat")
    want, got = (notebooks.tidied(notebooks.read("tour")) for _ in range(2))
    assert not list(notebooks.differences(want, got))
    changed = [cell for cell in got.cells if cell.get("outputs") and "varies" not in cell.metadata.get("tags", [])][0]
    changed.outputs[0].data["text/plain"] += "0"
    varying = [cell for cell in got.cells if "varies" in cell.metadata.get("tags", [])]
    varying[0].outputs = [nbformat.v4.new_output("display_data", {"text/plain": "other"})]
    varying[1].outputs = []
    assert [source for source, _ in notebooks.differences(want, got)] == [changed.source, varying[1].source]


class Kernel:
    """A Jupyter kernel, and what the cells that run in it send."""

    def __init__(self, cache):
        from jupyter_client.manager import KernelManager
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(env=notebooks.environment(cache), stderr=subprocess.DEVNULL)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, source, meanwhile=lambda message: None):
        """[(type, content)] of the messages of a cell."""
        sent, found = self.client.execute(source), []
        while True:
            m = self.client.get_iopub_msg(timeout=120)
            if m["parent_header"].get("msg_id") != sent:
                continue
            if m["msg_type"] == "status":
                if m["content"]["execution_state"] == "idle":
                    return found
                continue
            found.append((m["msg_type"], m["content"]))
            meanwhile(found[-1])

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.mark.soak
def test_interrupts_and_waits_in_a_kernel(tmp_path):
    pytest.importorskip("ipykernel")
    tmp_path.chmod(0o700)
    kernel = Kernel(str(tmp_path))
    try:
        assert [t for t, _ in kernel.run("%load_ext frit\nimport numpy as np, frit\nx = np.ones(4_000_000)")] == ["execute_input"]

        def interrupt(message):
            if message[0] == "stream":
                kernel.manager.interrupt_kernel()
        messages = kernel.run("%%frit\nprint('now')\nfor turn in range(100):\n    y = x\n    for i in range(100):\n"
                              "        y = np.sin(y) * 0.5 + x\n    total = float(y.sum())", interrupt)
        assert messages[-1][0] == "error" and messages[-1][1]["ename"] == "KeyboardInterrupt"
        result = [m["data"]["text/plain"] for t, m in kernel.run("%%frit\n(x[:5] * 2).sum(), turn < 99") if t == "execute_result"]
        assert result == ["(np.float64(10.0), True)"]

        source = ("def many(x):\n    for i in range(60):\n        x = np.sin(x) * 0.5 + i\n        if i % 3 == 0:\n"
                  "            x = x / x.sum()\n    return x\nw = frit.warmup(many)(np.ones(5000))\nw.kernels == w.compiled")
        messages = kernel.run(source)
        shown = [m["data"]["text/plain"] for t, m in messages if t in ("display_data", "update_display_data")]
        assert len(shown) > 1 and re.fullmatch(r"frit: \d+ kernels? left to compile", shown[0]), messages
        assert re.fullmatch(r"frit: waited [\d.]+ s for the compiler", shown[-1])
        assert len([t for t, _ in messages if t == "display_data"]) == 1
        assert [m["data"]["text/plain"] for t, m in messages if t == "execute_result"] == ["True"]
    finally:
        kernel.close()
