"""Explanations, estimates and differences as pages: well-formed, of their own, for everybody, and looked at by a browser."""
import html
import json
import os
import re
import shutil
import subprocess
import sys
import types
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest

import frit
from frit import _pages
from frit._pages import charts, graphs, sources
from frit._units import bytes_text, time_text

from .common import ROOT

RNG = np.random.default_rng(11)
HOSTILE = '<script>alert("1")</script>&\'</style><img src=x onerror=alert(2)>'
FOLDER = os.path.join(ROOT, "python", "frit", "_pages")


def layer(x, w):
    h = x @ w
    return np.maximum(h - h.mean(axis=1, keepdims=True), 0)


def model(x, w):
    for _ in range(3):
        x = layer(x, w)
        if np.abs(x).max() > 1e6:
            break
    y = np.cumsum(x, axis=0)
    return np.linalg.norm(np.cumsum(y[::-1], axis=0)) * np.sort(x, axis=1)


def arguments(n=64):
    return RNG.random((n, 32)), RNG.random((32, 32))


@pytest.fixture(scope="module")
def pages():
    """Every kind of page, and the parts of notebooks."""
    e = frit.explain(model)(*arguments())
    a, b = (frit.estimate(model, unknown=0.0)(*arguments(n)) for n in (64, 128))
    events = [{"kind": "kernel", "name": "map", "at_us": 0.0, "us": 12.5, "line": "f.py:3 in f"},
              {"kind": "sync", "name": "bool", "at_us": 20.0, "us": 0.0, "line": None}]
    scopes = [{"name": "model", "us": 10.0, "children": [{"name": HOSTILE, "us": 4.0, "children": []}]}]
    run = frit.accelerate(model)
    with frit.profile(name="a model") as p:
        run(*arguments())
    general = _pages.page("Parts", "for others", _pages.timeline(events, "What ran", time_text),
                          _pages.scope_bars(scopes, "Scopes", time_text),
                          _pages.curve([(0, 0), (3.5, 1e6), (9, 2e5)], "Memory", "us", bytes_text, [_pages.Life("x", 10**6, HOSTILE)]))
    return {"explanation": e.html(), "estimate": a.html(), "difference": b.diff(a).html(), "general": general,
            "profile": p.html(), "part of a profile": p._repr_html_(),
            "raised": frit.explain(lambda: 1)().html(), "tensor": frit.explain(frit.asarray(np.ones(3)) + 1).html(),
            "part of an explanation": e._repr_html_(), "part of an estimate": a._repr_html_(), "part of a difference": b.diff(a)._repr_html_()}


class Reader(HTMLParser):
    """Checks what a page is made of while it reads it."""

    VOID = {"meta", "br"}

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.refers, self.headings, self.elements, self.text = [], [], [], [], [], ""
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        assert len({k for k, _ in attrs}) == len(attrs), (tag, attrs)
        a = dict(attrs)
        self.elements.append((tag, a, tuple(self.open)))
        if "id" in a:
            self.ids.append(a["id"])
        self.refers += [r for r in a.get("aria-labelledby", "").split()] + [v[1:] for k, v in attrs if k == "href"]
        assert all(v.startswith("#") for k, v in attrs if k in ("href", "src")), a
        assert not any(k.startswith("on") for k, _ in attrs), a
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-5:])
        self.open.pop()

    def handle_data(self, data):
        self.text += data


def all_kinds():
    return ["explanation", "estimate", "difference", "general", "raised", "tensor", "part of an explanation", "part of an estimate",
            "part of a difference"]


@pytest.mark.parametrize("kind", all_kinds())
def test_pages_are_well_formed_and_of_their_own(pages, kind):
    text = pages[kind]
    r = Reader(text)
    assert len(set(r.ids)) == len(r.ids) and set(r.refers) <= set(r.ids)
    names = [tag for tag, _, _ in r.elements]
    assert names.count("script") == 1 and names.count("style") == 1 and not {"link", "img", "iframe", "object", "base", "form"} & set(names)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", re.sub(r"<code>.*?</code>", "", text)), "nothing is loaded"
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    if not kind.startswith("part"):
        assert text.startswith("<!DOCTYPE html>") and names[0] == "html" and r.elements[0][1]["lang"] == "en"
        assert names.count("h1") == 1 and names.count("title") >= 1 and names.count("main") == 1
        assert r.headings[0] == 1 and all(b <= a + 1 for a, b in zip(r.headings, r.headings[1:], strict=False)), r.headings


def test_parts_of_a_notebook_share_no_id(pages):
    ids = [i for kind in all_kinds() for i in Reader(pages[kind]).ids]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("kind", all_kinds())
def test_pictures_say_what_they_show(pages, kind):
    pictures = re.findall(r"<svg.*?</svg>", pages[kind], re.S)
    for text in pictures:
        svg = ET.fromstring(html.unescape(text) if "&nbsp;" in text else text)
        assert svg.get("role") == "img" and svg[0].tag.rpartition("}")[2] == "title" and svg[0].text
        if svg.get("class") != "bar":
            assert svg[1].tag.rpartition("}")[2] == "desc" and svg[1].text and svg.get("viewBox")
            assert svg.get("aria-labelledby").split() == [svg[0].get("id"), svg[1].get("id")]
    r = Reader(pages[kind])
    assert kind in ("raised",) or pictures
    for tag, a, inside in r.elements:
        if tag == "div" and a.get("class") == "scroll":
            assert a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"]
    for tag, a, inside in r.elements:
        if tag == "svg" and a.get("class") != "bar":
            assert inside[-1] == "div", "it is moved by itself where it is too wide"
    tables = sum(tag == "table" for tag, _, _ in r.elements)
    assert tables == sum(tag == "caption" for tag, _, _ in r.elements)
    assert all("scope" in a for tag, a, _ in r.elements if tag == "th")


# ---- what they say

def test_an_explanation_shows_all_of_it(pages):
    e = frit.explain(model)(*arguments())
    d, text = e.as_dict(), Reader(e.html()).text
    assert f"{d['kernels']:,} kernels in {d['evaluations']:,} evaluations" in text
    for name in d["fallbacks"]:
        assert f"handed to NumPy: {name}" in text
    for i, plan in enumerate(d["plans"]):
        assert f"Plan {i + 1}" in text and plan["text"] in text
        for g in plan["groups"]:
            assert g["why"] is None or g["why"] in text
    assert "h = x @ w" in text and f"layer, {__file__}" in text         # the source


def test_an_estimate_shows_all_of_it():
    e = frit.estimate(model, unknown=0.0)(*arguments())
    text = Reader(e.html()).text
    for k in e.kernels:
        assert f"{k.kind} over {k.shape}: {k.operations}" in text and time_text(k.us) in text
    for at in e.lines:
        assert f"{at.us / sum(k.us for k in e.kernels):.1%}" in text
    assert bytes_text(e.peak_bytes) in text and f"{e.limits['gbs']:,.3g} GB/s" in text and "def layer(x, w):" in text
    assert e.as_dict()["limits"] == e.limits and json.dumps(e.as_dict())


def test_before_and_after():
    a, b = (frit.estimate(layer)(frit.ShapeDtype((n, 32)), frit.ShapeDtype((32, 32))) for n in (64, 128))
    text = Reader(b.diff(a).html()).text
    assert "More than before: peak of memory" in text and bytes_text(a.peak_bytes) in text and bytes_text(b.peak_bytes) in text
    assert "Nothing has grown." in Reader(a.diff(b).html()).text
    table = charts.before_after([("x", 100.0, 150.0), ("y", 0.0, 1.0), ("z", 2.0, 0.0), ("same", 3.0, 3.0)], "t", str)
    assert all(word in table for word in ("+50.0%", "new", "gone", "the same"))


def test_the_curve_of_a_plan_is_its_memory():
    def f(x):
        a = np.cumsum(x, axis=0)
        b = np.cumsum(a[::-1], axis=0)
        return np.cumsum(b[::-1], axis=0)
    (plan,) = frit.explain(f)(RNG.random((400, 300))).as_dict()["plans"]
    points, lives = _pages.plan_memory(plan)
    assert max(y for _, y in points) == sum(life.bytes for life in lives) == 2 * 400 * 300 * 8 <= plan["peak_bytes"]
    assert points[0] == (0, 0) and points[-1][1] == plan["result_bytes"] and len(points) == len(plan["steps"]) + 2


def test_kernels_lie_below_the_roof_where_they_should():
    text = charts.roofline([charts.Point("1", 0.5, 8.0, ()), charts.Point("2", 100.0, 90.0, ()), charts.Point("3", 0.0, 0.0, ())], 20.0, 100.0,
                           "Roof", [])
    assert "80%" in text and "90%" in text and "1 without operations" in text and "meet at 5 operations per byte" in text
    circles = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', text)]
    x, y = zip(*circles, strict=True)
    ticks = re.findall(r'<text x="([\d.]+)" y="346.0" class="middle small">([\d.e+-]+)<', text)
    assert len(circles) == 2 and x[0] < x[1] and y[0] > y[1] and len(ticks) >= 2


@pytest.mark.parametrize("n", [3, 40, 300])
def test_numbers_in_the_roofline_lie_apart(n):
    """Over no dot and no other number; those for which there is no room are said."""
    r = np.random.default_rng(n)
    dots = [(float(x), float(y)) for x, y in zip(r.uniform(60, 660, n), r.uniform(20, 320, n), strict=True)]
    found = charts._labels(dots, [str(i + 1) for i in range(n)], 680.0, 330.0)
    boxes = []
    for i, at in enumerate(found):
        if at is not None:
            wide = 7.2 * len(str(i + 1))
            left = at[0] - {"": 0, " end": wide, " middle": wide / 2}[at[2]]
            boxes.append((None, left, at[1] - 10, wide, 11))
    dot_boxes = [(None, x - 5, y - 5, 10, 10) for x, y in dots]
    assert not any(meet(a, b) for i, a in enumerate(boxes) for b in boxes[:i] + dot_boxes)
    assert found[0] is not None and (n > 3 or None not in found)
    points = [charts.Point(str(i + 1), 10.0 ** r.uniform(-2, 1), 10.0 ** r.uniform(-2, 2), ()) for i in range(n)]
    text = charts.roofline(points, 20.0, 100.0, "Roof", [])
    assert (n == 300) == ("have no number there" in text) and text.count("<circle") == n


@pytest.mark.parametrize("top", [0, 1, 3, 7, 10, 999, 1000, 1e9, 3.2e12])
def test_ticks_are_round_and_few(top):
    ticks = charts._ticks(top)
    assert ticks[0] == 0 and ticks[-1] <= top * (1 + 1e-9) and len(ticks) <= 6 and (top == 0 or len(ticks) >= 2)


def test_a_script_writes_its_estimate_as_a_page(tmp_path):
    script, page = tmp_path / "s.py", tmp_path / "s.html"
    script.write_text("import numpy as np\nx = np.exp(-np.ones((300, 300))) * 2\n")
    subprocess.run([sys.executable, "-m", "frit.estimate", "--html", str(page), str(script)], check=True, capture_output=True, cwd=ROOT)
    assert "x = np.exp(-np.ones((300, 300))) * 2" in Reader(page.read_text()).text


# ---- the graph

def boxes(text):
    svg = ET.fromstring(re.search(r"<svg.*?</svg>", text, re.S)[0])
    found = [(e.get("class"), *(float(e.get(k)) for k in ("x", "y", "width", "height"))) for e in svg.iter() if e.tag.endswith("rect")]
    return [b for b in found if b[0] == "group"], [b for b in found if b[0].startswith("node")], [float(v) for v in svg.get("viewBox").split()]


def meet(a, b):
    return a[1] < b[1] + b[3] and b[1] < a[1] + a[3] and a[2] < b[2] + b[4] and b[2] < a[2] + a[4]


def some_plan(r, n, per_group):
    """A plan of n operations in groups of that many neighbours, which read any before them."""
    nodes = [{"node": i, "operation": "leaf", "dtype": "float32", "shape": [4, 5], "line": None, "result": False, "arguments": []} for i in range(3)]
    for i in range(3, n + 3):
        reads = r.choice(i, min(i, 2), replace=False)
        nodes.append({"node": i, "operation": r.choice(["add", "exp", "maximum"]), "dtype": "float64", "shape": [int(r.integers(1, 10**6))],
                      "line": f"f.py:{i} in f", "result": bool(r.random() < 0.2), "arguments": [{"node": int(k)} for k in reads] + [{"number": 0}]})
    groups = [{"group": g, "kind": "map", "shape": [4], "nodes": list(range(at, min(at + per_group, n + 3))), "why": "different shapes" if g else None}
              for g, at in enumerate(range(3, n + 3, per_group))]
    steps = [{"kind": "launch", "tier": "compiled", "is_kernel": True, "bytes_read": 8, "bytes_written": 8, "band": 0, "groups": [g["group"]]}
             for g in groups]
    return {"nodes": nodes, "groups": groups, "steps": steps, "memory": []}


@pytest.mark.parametrize("n, per_group", [(1, 1), (5, 5), (12, 4), (30, 7), (60, 60), (80, 2), (240, 9)])
def test_boxes_lie_apart_and_hold_their_operations(n, per_group):
    for seed in range(3):
        plan = some_plan(np.random.default_rng(seed), n, per_group)
        groups, nodes, (_, _, width, height) = boxes(graphs.graph(plan, "g", {}))
        assert len(groups) == len(plan["groups"])
        for i, a in enumerate(groups):
            assert not any(meet(a, b) for b in groups[:i]), (seed, a)
            assert 0 <= a[1] and a[1] + a[3] <= width and 0 <= a[2] and a[2] + a[4] <= height
        for i, a in enumerate(nodes):
            assert not any(meet(a, b) for b in nodes[:i]), (seed, a)
            inside = [g for g in groups if g[1] <= a[1] and a[1] + a[3] <= g[1] + g[3] and g[2] <= a[2] and a[2] + a[4] <= g[2] + g[4]]
            assert len(inside) == (a[0] != "node given"), (seed, a)
        assert sum(b[0] != "node given" for b in nodes) == n


def test_many_operations_are_text_and_many_groups_are_a_table():
    text = graphs.graph(some_plan(RNG, 400, 8), "g", {})
    groups, nodes, _ = boxes(text)
    assert len(groups) == 50 and not [b for b in nodes if b[0] != "node given"]
    text = graphs.graph(some_plan(RNG, 600, 2), "g", {})
    assert "<svg" not in text and "more than a picture shows" in text and text.count("<tr") > 600


def test_every_edge_ends_at_what_reads():
    plan = some_plan(np.random.default_rng(1), 20, 4)
    text = graphs.graph(plan, "g", {})
    n = len({(a["node"], n["node"]) for n in plan["nodes"] for a in n["arguments"] if "node" in a})
    assert len(re.findall('class="edge', text)) == n


# ---- whose names are hostile

def test_names_are_no_markup(tmp_path):
    folder = tmp_path / "a<b>&"
    folder.mkdir()
    file = folder / 'x"onload=alert(1) .py'
    file.write_text("import numpy as np\ndef f(x):\n    y = np.cumsum(x * 2)  # </code><script>alert(3)</script>\n    return y + 1\n")
    space = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    f = space["f"]
    f.__code__ = f.__code__.replace(co_qualname=HOSTILE, co_name="f")
    f.__qualname__ = HOSTILE
    f = types.FunctionType(f.__code__, f.__globals__)
    f.__qualname__ = HOSTILE
    x = RNG.random(1000)
    for text in (frit.explain(f)(x).html(), frit.estimate(f)(x).html(), frit.estimate(f)(x).diff(frit.estimate(f)(x)).html()):
        r = Reader(text)
        assert [tag for tag, _, _ in r.elements].count("script") == 1 and "img" not in {tag for tag, _, _ in r.elements}
        assert HOSTILE in r.text
        if "before and after" not in r.text:
            assert "</code><script>alert(3)</script>" in r.text and 'x"onload=alert(1) .py' in r.text
        assert "<script>alert" not in text


def test_attributes_are_escaped():
    text = _pages.tag("p", "a < b", title='" onclick="x', hidden=True, lang=None)
    assert text == '<p title="&quot; onclick=&quot;x" hidden="hidden">a &lt; b</p>'
    assert _pages.joined(_pages.Html("<b>"), "<b>", None, ["&", 1]) == "<b>&lt;b&gt;&amp;1"


def test_source_that_is_gone_is_said_to_be():
    line = sources.Line("/nowhere/f.py:3 in f", 1.0, "100%")
    text = sources.source([sources.Kernel("kernel 1", "map", [(line.where, 1.0)], "k1")], [line])
    assert "its text is not there" in text and 'href="#k1"' in text
    assert sources.parted("an unknown line") == ("", 0, "an unknown line")


def test_every_rule_is_of_our_own_elements_and_goes_before_those_of_a_notebook(pages):
    for kind in ("estimate", "part of an estimate"):
        css = re.sub(r"/\*.*?\*/", "", re.search("<style>(.*?)</style>", pages[kind], re.S)[1], flags=re.S)
        rules = [s.strip() for rule in re.findall(r"([^{}]+)\{[^{}]*\}", css) for s in re.sub(r"\([^()]*(\([^()]*\))?[^()]*\)", "", rule).split(",")]
        assert len(rules) > 50 and all(".frit.frit.frit" in s for s in rules), rules


def test_the_kernels_of_a_line_leave_room_for_its_code():
    kernels = [sources.Kernel(f"kernel {i}", "map", [(f"{__file__}:2 in f", 1.0)], f"k{i}") for i in range(1, 30)]
    text = sources.source(kernels, [sources.Line(f"{__file__}:2 in f", 1.0, "100%")])
    assert re.search(r"kernel 1</a> <a[^>]*>kernel 2</a> <a[^>]*>kernel 3</a> and 26 more<", text) and text.count("import html") == 1


def test_matrix_products_alone_are_called_so():
    def f(x, w):
        y = np.exp(-x) * x
        return np.sort(y - y.mean(axis=0), axis=1) @ w
    e = frit.estimate(f)(frit.ShapeDtype((2000, 500)), frit.ShapeDtype((500, 500)))
    text, sorts = Reader(e.html()).text, {("kernel" if k.is_kernel else k.kind) for k in e.kernels}
    assert sorts == {"kernel", "whole", "reduction"} and re.search(r"product \d+ whole over", text) and re.search(r"part \d+ reduction over", text)
    assert not re.search(r"product \d+ reduction", text)


# ---- colours

def schemes():
    css = open(os.path.join(FOLDER, "page.css"), encoding="utf8").read()
    light, dark, of_notebooks = re.findall(r"\.frit \{\s+(--bg.*?)\}", css, re.S)
    assert dark.split() == of_notebooks.split()
    return {name: dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", text)) for name, text in (("light", light), ("dark", dark))}


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_contrast(name):
    """WCAG 2.1, 1.4.3 for texts and 1.4.11 for what charts are read by."""
    c = schemes()[name]
    assert set(c) == set(schemes()["light"])
    texts = [(fg, bg) for fg in ("fg", "muted", "link", "boundary") for bg in ("bg", "panel", "hot", "group", "area")]
    texts += [(fg, bg) for fg in ("fg", "muted") for bg in ("node", "given", "result")]
    texts += [("worse", "bg"), ("better", "bg"), ("worse", "hot"), ("better", "hot")]
    low = {pair: round(contrast(c[pair[0]], c[pair[1]]), 2) for pair in texts if contrast(c[pair[0]], c[pair[1]]) < 4.5}
    assert not low
    marks = [(mark, bg) for mark in ("fill", "before", "muted") for bg in ("bg", "given")] + [("fill", "group"), ("fill", "area")]
    low = {pair: round(contrast(c[pair[0]], c[pair[1]]), 2) for pair in marks if contrast(c[pair[0]], c[pair[1]]) < 3}
    assert not low


# ---- a browser

CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
PROBE = """<!DOCTYPE html><html><body><iframe id="f" style="border:0;width:{width}px;height:900px" srcdoc="{page}"></iframe><script>
const errors = [];
const f = document.getElementById("f");
f.addEventListener("load", () => {{
  const w = f.contentWindow, d = f.contentDocument;
  w.addEventListener("error", (e) => errors.push(String(e.message)));
  const marked = d.querySelector("[data-k]");
  let hot = 0;
  if (marked) {{
    marked.dispatchEvent(new w.MouseEvent("mouseover", {{bubbles: true}}));
    hot = d.querySelectorAll(".hot").length;
    marked.dispatchEvent(new w.MouseEvent("mouseout", {{bubbles: true}}));
    hot -= 1000 * d.querySelectorAll(".hot").length;
  }}
  const clipped = [...d.querySelectorAll("svg text")].filter((t) => {{
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 2 || a.bottom > b.bottom + 2;
  }}).map((t) => t.textContent);
  const out = document.createElement("pre");
  out.id = "found";
  out.textContent = JSON.stringify({{
    width: d.documentElement.scrollWidth, errors, hot, clipped, background: w.getComputedStyle(d.body).backgroundColor,
    loaded: w.performance.getEntriesByType("resource").map((r) => r.name), focusable: d.querySelectorAll("a, summary, [tabindex='0']").length}});
  document.body.append(out);
}});
</script></body></html>"""


# What JupyterLab, nbconvert and Jupyter Notebook say of everything in a cell's output.
NOTEBOOK_CSS = """.its-output table { font-size: 12px; table-layout: fixed; margin: 0 auto 1em; border: none; }
.its-output tr, .its-output th, .its-output td { text-align: right; vertical-align: middle; padding: .5em; border: none; white-space: normal; }
.its-output tbody tr { background: white; } .its-output tbody tr:nth-child(odd) { background: #f5f5f5; }
.its-output tbody tr:hover { background: #e1f5fe; } .its-output dl dt { float: left; clear: left; display: block; font-weight: bold; }
.its-output dl dd { display: block; margin: 0 0 0 4em; } .its-output code { background-color: #eee; padding: 1px 5px; }
.its-output h2:not(:first-child) { margin-top: 1em; font-weight: 400; } .its-output ol { padding-left: 2em; } .its-output ol > li { margin-top: 1em; }
.its-output a { color: red; text-decoration: none; } .its-output p { text-align: left; margin: 0 0 1em; } .its-output svg { max-width: 100%; }"""
COMPARE = """<!DOCTYPE html><html><head><style>{css}</style></head><body data-jp-theme-light="{light}">
<div class="its-output" style="width: 900px">{page}</div><div class="own" style="width: 900px">{page}</div><script>
const NAMES = ["display", "float", "textAlign", "whiteSpace", "backgroundColor", "color", "fontSize", "fontWeight", "paddingLeft", "marginTop",
               "marginLeft", "borderBottomWidth", "tableLayout", "textDecorationLine"];
const [a, b] = ["its-output", "own"].map((c) => [...document.querySelectorAll("." + c + " .frit, ." + c + " .frit *:not(svg, svg *)")]);
const differ = new Set(), out = document.createElement("pre");
a.forEach((e, i) => {{ for (const n of NAMES) if (getComputedStyle(e)[n] !== getComputedStyle(b[i])[n]) differ.add(e.tagName + " " + n); }});
out.id = "found";
out.textContent = JSON.stringify({{n: a.length, m: b.length, differ: [...differ], background: getComputedStyle(a[0]).backgroundColor}});
document.body.append(out);
</script></body></html>"""


def shown_by_chromium(page, folder, scheme):
    path = folder / "probe.html"
    path.write_text(page)
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--enable-logging=stderr",
                           f"--blink-settings=preferredColorScheme={'0' if scheme == 'dark' else '1'}", "--host-resolver-rules=MAP * ~NOTFOUND",
                           "--window-size=1300,1000", f"--user-data-dir={folder}/profile", "--dump-dom", path.as_uri()],
                          capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    return json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.S)[1]))


@pytest.mark.soak
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium (Debian: apt-get install chromium)")
@pytest.mark.parametrize("light", ["true", "false"])
@pytest.mark.parametrize("kind", ["explanation", "estimate", "difference", "profile"])
def test_rules_of_a_notebook_do_not_reach_it(pages, kind, light, tmp_path):
    """Nor does the reader's scheme, where the notebook has one."""
    text = pages["part of " + {"explanation": "an ", "estimate": "an ", "difference": "a ", "profile": "a "}[kind] + kind]
    found = shown_by_chromium(COMPARE.format(css=NOTEBOOK_CSS, light=light, page=text), tmp_path, "dark" if light == "true" else "light")
    assert found["n"] == found["m"] > 50 and found["differ"] == []
    assert found["background"] == ("rgb(255, 255, 255)" if light == "true" else "rgb(15, 20, 26)")


@pytest.mark.soak
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium (Debian: apt-get install chromium)")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["explanation", "estimate", "difference", "profile", "general"])
def test_in_a_browser(pages, kind, scheme, tmp_path):
    for width in (400, 1200):
        found = shown_by_chromium(PROBE.format(width=width, page=html.escape(pages[kind])), tmp_path, scheme)
        assert found["width"] <= width and found["errors"] == [] and found["loaded"] == [] and found["clipped"] == [], found
        assert found["background"] == ("rgb(15, 20, 26)" if scheme == "dark" else "rgb(255, 255, 255)") and found["focusable"]
        assert kind in ("difference", "general") or 2 <= found["hot"] < 1000
