"""Explanations, estimates and what two of them differ in, as pages that need nothing else: no server, and no other file.

A page is made of sections (elements.py) of charts (charts.py, graphs.py, sources.py), whose functions take plain numbers and
texts: bars, before_after, curve, roofline, timeline, graph, source, function_bars, scope_bars. page() is the whole of one, part()
what a notebook shows."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from .._explained import event_text, head_text, operations_text
from .._units import bytes_text, count_text, time_text
from .charts import Bar, Life, Point, bars, before_after, curve, figure, roofline, svg, timeline
from .elements import Html, details, escape, facts, joined, new_id, scrolled, section, table, tag
from .graphs import bytes_of, graph, shape_text, step_names
from .sources import Kernel, Line, function_bars, parted, scope_bars, source

_OPEN = 3  # plans that are open when the page is


def _file(name: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf8") as f:
        return f.read()


def _style() -> Html:
    """page.css. The class three times goes before what a notebook says of `.its-output tbody tr:nth-child(even)`."""
    return tag("style", Html(re.sub(r"\.frit\b", ".frit.frit.frit", _file("page.css"))))


def page(title: str, lead: Any, *content: Any) -> str:
    """A whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        _style(),
    )
    body = tag(
        "body",
        tag("main", tag("h1", title), tag("p", lead, class_="lead"), *content),
        tag("script", Html(_file("page.js"))),
        class_="frit",
    )
    return "<!DOCTYPE html>\n" + tag("html", head, "\n", body, lang="en") + "\n"


def part(title: str, lead: Any, *content: Any) -> str:
    """The same for a notebook, which has a page of its own."""
    return tag(
        "div",
        _style(),
        tag("section", tag("h2", title), tag("p", lead, class_="lead"), *content, aria_label=title),
        tag("script", Html(_file("page.js"))),
        class_="frit",
    )


def _shown(make: Callable[..., tuple[str, Any, list[Any]]]) -> tuple[Callable[..., str], Callable[..., str]]:
    """Functions of what `make` takes, that give a page of its title, lead and content, and a part."""

    def whole(*given: Any) -> str:
        title, lead, content = make(*given)
        return page(title, lead, *content)

    def within(*given: Any) -> str:
        title, lead, content = make(*given)
        return part(title, lead, *content)

    return whole, within


def _short(where: str) -> str:
    """A line without the folders of its file."""
    file, n, function = parted(where)
    return f"{os.path.basename(file)}:{n} in {function}" if file else where


# ---- explanations ----


def _happened(items: Sequence[dict[str, Any]], ids: list[str]) -> Html:
    def item(e: dict[str, Any]) -> Html:
        if e["kind"] == "again":
            return tag("li", tag("strong", f"{e['times']:,} times"), _happened(e["events"], ids))
        text = event_text(e)
        if e["plan"] is None:
            return tag("li", text)
        kernels = f": {e['kernels']:,} kernel{'' if e['kernels'] == 1 else 's'}" if e["way"] == "plan" else ""
        return tag(
            "li", text + kernels + (", " if kernels else ": "), tag("a", f"plan {e['plan'] + 1}", href=f"#{ids[e['plan']]}")
        )

    return tag("ol", *(item(e) for e in items if e["kind"] != "end"), class_="happened")


def _step_keys(plan: dict[str, Any]) -> dict[str, str]:
    return {name: new_id() for name in dict.fromkeys(step_names(plan).values())}


def _plan_kernels(plan: dict[str, Any], keys: dict[str, str]) -> list[Kernel]:
    names, nodes = step_names(plan), {n["node"]: n for n in plan["nodes"]}
    out = []
    for name, key in keys.items():
        groups = [g for g in plan["groups"] if names.get(g["group"]) == name]
        steps = [s for s in plan["steps"] if any(names.get(g) == name for g in s["groups"])]
        operations = [nodes[n] for g in groups for n in g["nodes"]]
        lines = {n["line"]: 1.0 for n in operations if n["line"]}
        out.append(
            Kernel(
                name,
                joined(
                    f"{groups[0]['kind']} over {shape_text(groups[0]['shape'])}: "
                    + operations_text([n["operation"] for n in operations]),
                    tag("br"),
                    f"{bytes_text(sum(s['bytes_read'] for s in steps))} read, "
                    f"{bytes_text(sum(s['bytes_written'] for s in steps))} written, "
                    + ", ".join(dict.fromkeys(s["tier"] for s in steps)),
                    tag("br") if lines else None,
                    ", ".join(map(_short, lines)),
                ),
                list(lines.items()),
                key,
            )
        )
    return out


def _plan_lines(plan: dict[str, Any]) -> list[Line]:
    counts: dict[str, int] = {}
    for n in plan["nodes"]:
        if n["line"] and n["operation"] != "leaf":
            counts[n["line"]] = counts.get(n["line"], 0) + 1
    return [Line(where, k, f"{k} op{'' if k == 1 else 's'}") for where, k in counts.items()]


def plan_memory(plan: dict[str, Any]) -> tuple[list[tuple[float, float]], list[Life]]:
    """(step, bytes of results and temporaries that live in it) of each, and those that do where that is most."""
    nodes, lives = {n["node"]: n for n in plan["nodes"]}, []
    last = len(plan["steps"]) - 1
    for m in plan["memory"]:
        if m["kind"] in ("result", "temporary") and "first_step" in m:
            lives.append((m["first_step"], last if m["kind"] == "result" else m["last_step"], m))
    points = [(float(s + 1), float(sum(m["bytes"] for a, b, m in lives if a <= s <= b))) for s in range(last + 1)]
    peak = max(range(len(points)), key=lambda s: points[s][1], default=0)
    return [(0.0, 0.0), *points, (float(last + 2), float(sum(m["bytes"] for _, _, m in lives if m["kind"] == "result")))], [
        Life(
            f"{m['kind']}: {nodes[m['node']]['operation']} {nodes[m['node']]['dtype']}{shape_text(nodes[m['node']]['shape'])}",
            m["bytes"],
            _short(nodes[m["node"]]["line"] or ""),
        )
        for a, b, m in lives
        if a <= peak <= b
    ]


def _plan(i: int, plan: dict[str, Any], name: str) -> Html:
    keys = _step_keys(plan)
    of_group = {g: keys[step] for g, step in step_names(plan).items()}
    points, lives = plan_memory(plan)
    allocated = (float(plan["peak_bytes"]), f"allocated when it begins: {bytes_text(plan['peak_bytes'])}")
    kernels, moved = plan["kernels"], plan["bytes_read"] + plan["bytes_written"]
    return tag(
        "section",
        tag("h2", f"Plan {i + 1}", id=name),
        facts(
            [
                ("kernels", kernels),
                ("matrix products", plan["products"]),
                ("bytes moved", bytes_text(moved)),
                ("at least", bytes_text(plan["least_bytes"])),
                ("peak of memory", bytes_text(plan["peak_bytes"])),
                ("device", plan["device"]),
            ]
        ),
        section("Its graph", graph(plan, f"Graph of plan {i + 1}", of_group), level=3),
        section("Source beside kernels", source(_plan_kernels(plan, keys), _plan_lines(plan)), level=3),
        section(
            "Memory",
            curve(points, f"Memory of plan {i + 1}: results and temporaries", "step", bytes_text, lives, allocated),
            level=3,
        )
        if len(plan["steps"]) > 1
        else None,
        details("As text", scrolled(tag("pre", plan["text"]), f"plan {i + 1} as text")),
        aria_labelledby=name,
    )


def _explanation(e: dict[str, Any]) -> tuple[str, Any, list[Any]]:
    ids = [new_id() for _ in e["plans"]]
    counts = [
        [f"{title}: {name}", n]
        for title, of in (("values needed for", e["syncs"]), ("handed to NumPy", e["fallbacks"]))
        for name, n in of.items()
    ]
    plans = [_plan(i, plan, ids[i]) for i, plan in enumerate(e["plans"])]
    content = [
        facts(
            [
                ("kernels", f"{e['kernels']:,}"),
                ("evaluations", f"{e['evaluations']:,}"),
                ("syncs", f"{sum(e['syncs'].values()):,}"),
                ("calls of NumPy", f"{sum(e['fallbacks'].values()):,}"),
                ("moved by plans", bytes_text(e["bytes_read"] + e["bytes_written"])),
            ]
        ),
        *(tag("p", note, class_="notice") for note in e["notes"]),
        section(
            "What happened, in order", _happened(e["happened"], ids) if e["happened"] else tag("p", "Nothing was computed.")
        ),
        table(["what", "times"], counts, "Why Python waited, and what was handed over", {1}) if counts else None,
        *plans[:_OPEN],
        *(details(f"Plan {i + 1}", p) for i, p in enumerate(plans) if i >= _OPEN),
    ]
    return f"What {e['name']} computes", head_text(e), content


explanation_page, explanation_part = _shown(_explanation)     # of an Explanation.as_dict()


# ---- estimates ----


def _kernel_text(k: dict[str, Any]) -> str:
    return f"{k['kind']} over {k['shape']}: {operations_text(k['operations'].split())}"


def _sort(k: dict[str, Any]) -> str:
    """What it is called beside its number. The second part of a kernel runs in the same dispatch."""
    if k.get("is_kernel", True):
        return "kernel"
    return {"copy": "copy", "whole": "product"}.get(k["kind"], "part")


def _moved(k: dict[str, Any]) -> float:
    return float(k["bytes_read"] + k["bytes_written"])


def kernel_parts(
    kernels: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]], limits: dict[str, float] | None
) -> list[Any]:
    """Sections of an estimate's or a profile's kernels, each with `kind`, `operations`, `shape`, `lines`, `runs`, `us` of all,
    `bytes_read`, `bytes_written` and `ops` of one, `tier` and `device`; and of lines with `where` and `us`. `limits`: `gbs` and
    `gops` of the machine."""
    order = sorted(kernels, key=lambda k: -k["us"])
    keys = [new_id() for _ in order]
    names = [f"{_sort(k)} {i + 1}" for i, k in enumerate(order)]
    total = sum(k["us"] for k in order) or 1.0
    shown = [
        Kernel(
            names[i],
            joined(
                _kernel_text(k),
                tag("br"),
                f"{time_text(k['us'])}, {k['runs']:,} run{'' if k['runs'] == 1 else 's'}, "
                f"{bytes_text(_moved(k))} moved by each, {k['tier']}"
                + ("" if k["device"] == "meta" else f", on {k['device']}"),
                joined(tag("br"), f"boundary: {k['why']}") if k.get("why") else None,
            ),
            k["lines"],
            keys[i],
        )
        for i, k in enumerate(order)
    ]
    points = [
        Point(
            str(i + 1),
            k["ops"] / _moved(k) if _moved(k) else 0.0,
            k["runs"] * k["ops"] / k["us"] / 1e3 if k["us"] else 0.0,
            (time_text(k["us"]), _kernel_text(k)),
            keys[i],
        )
        for i, k in enumerate(order)
    ]
    where = [(at["where"], at["us"]) for at in lines]
    of_lines = max(total, sum(us for _, us in where))  # with what they called beside kernels
    out = [
        section("Time by function", function_bars(where, "Functions, those first that take longest", time_text)),
        section("Source beside kernels", source(shown, [Line(w, us, f"{us / of_lines:.1%}") for w, us in where])),
    ]
    if limits and order:
        out.append(
            section(
                "Kernels below the machine's roof",
                roofline(points, limits["gbs"], limits["gops"], "What kernels reach of the machine", ["time", "what it does"]),
            )
        )
    out.append(
        section(
            "Kernels",
            bars(
                [
                    Bar(
                        names[i],
                        k["us"],
                        (
                            time_text(k["us"]),
                            f"{k['runs']:,}",
                            bytes_text(k["runs"] * _moved(k)),
                            count_text(k["runs"] * k["ops"]),
                            _kernel_text(k),
                        ),
                        keys=keys[i],
                    )
                    for i, k in enumerate(order)
                ],
                "Kernels, those first that take longest",
                ("kernel", "time", "runs", "moved", "operations", "what it does"),
                1,
            ),
        )
    )
    return out


def _estimate(e: dict[str, Any]) -> tuple[str, Any, list[Any]]:
    n = sum(k["runs"] for k in e["kernels"] if k["is_kernel"])
    memory = [
        Bar(name, e[key], (bytes_text(e[key]), what))
        for name, key, what in (
            ("arguments", "argument_bytes", "of the arrays that it is given"),
            ("peak", "peak_bytes", "results and temporaries at one time"),
            ("peak at first", "first_peak_bytes", "at most, while there is no plan"),
            ("NumPy's peak", "numpy_bytes", "for the same in NumPy"),
            ("results", "result_bytes", "which stay"),
        )
    ]
    whose = (
        f"the time is that of {e['machine']}"
        if e["machine"]
        else "nobody has measured this machine, so times are a guess: python -m frit.machine calibrate"
    )
    beside = [
        [f"{title}: {name}", f"{k:,}"]
        for title, of in (("handed to NumPy", e["fallbacks"]), ("values needed for", e["syncs"]))
        for name, k in sorted(of.items())
    ]
    content = [
        facts(
            [
                ("time", time_text(e["us"])),
                ("kernels", f"{n:,}"),
                ("peak of memory", bytes_text(e["peak_bytes"])),
                ("moved", bytes_text(e["bytes"])),
                ("operations", count_text(e["ops"])),
                *([("energy", f"{e['joules']:.3g} J")] if e["joules"] is not None else []),
            ]
        ),
        tag("p", f"It ends early: {e['stopped']}", class_="notice") if e["stopped"] else None,
        section("Memory", bars(memory, "Bytes of arrays", ("what", "bytes", ""), 1)),
        *kernel_parts(e["kernels"], e["lines"], e.get("limits")),
        section(
            "Beside kernels",
            table(["what", "times"], beside, "Of what NumPy is called with, time and memory are not known", {1}),
        )
        if beside
        else None,
    ]
    return f"What {e['name']} would take", whose[0].upper() + whose[1:] + ".", content


estimate_page, estimate_part = _shown(_estimate)     # of an Estimate.as_dict()


# ---- profiles ----


def _profile(p: dict[str, Any]) -> tuple[str, Any, list[Any]]:
    from .profiles import profile_content

    return profile_content(p, kernel_parts(p["kernels"], p["lines"], p.get("limits")))


profile_page, profile_part = _shown(_profile)     # of a Profile.as_dict()


# ---- before and after ----

_TEXTS = {"us": time_text, "ops": count_text}
_NAMES = {
    "peak_bytes": "peak of memory",
    "first_peak_bytes": "peak at first",
    "result_bytes": "results",
    "argument_bytes": "arguments",
    "us": "time",
    "bytes": "moved",
    "ops": "operations",
    "fallbacks": "calls of NumPy",
}


def _matched(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], name: Any) -> list[tuple[Any, float, float]]:
    found: dict[Any, list[float]] = {}
    for i, of in enumerate((before, after)):
        for x in of:
            found.setdefault(name(x), [0.0, 0.0])[i] += x["us"]
    return [(key, a, b) for key, (a, b) in sorted(found.items(), key=lambda at: -max(at[1]))]


def _difference(
    before: dict[str, Any], after: dict[str, Any], rows: Sequence[tuple[str, float, float]]
) -> tuple[str, Any, list[Any]]:
    def text_of(what: str) -> Any:
        return _TEXTS.get(what) or (bytes_text if what.endswith("bytes") else lambda n: f"{n:,.0f}")

    grown = [_NAMES.get(what, what) for what, a, b in rows if b > a]
    lead = f"More than before: {', '.join(grown)}." if grown else "Nothing has grown."
    content = [
        section(
            "All of it",
            before_after(
                [(_NAMES.get(what, what), a, b) for what, a, b in rows],
                "What it takes, before and after",
                [text_of(what) for what, _, _ in rows],
            ),
        ),
        section(
            "By function",
            before_after(
                _matched(before["lines"], after["lines"], lambda at: parted(at["where"])[2]),
                "Time by function, those first that take longest",
                time_text,
            ),
        ),
        section(
            "By kernel",
            before_after(
                _matched(
                    before["kernels"],
                    after["kernels"],
                    lambda k: f"{k['kind']}: {operations_text(k['operations'].split())}",
                ),
                "Time by kernel, those first that take longest",
                time_text,
            ),
        ),
    ]
    return f"{after['name']}, before and after", lead, content


difference_page, difference_part = _shown(_difference)     # of two of these, and (what, before, after) of their totals


__all__ = [
    "Bar",
    "Html",
    "Kernel",
    "Life",
    "Line",
    "Point",
    "bars",
    "before_after",
    "bytes_of",
    "curve",
    "details",
    "difference_page",
    "difference_part",
    "escape",
    "estimate_page",
    "estimate_part",
    "explanation_page",
    "explanation_part",
    "facts",
    "figure",
    "function_bars",
    "graph",
    "joined",
    "kernel_parts",
    "new_id",
    "page",
    "part",
    "parted",
    "plan_memory",
    "profile_page",
    "profile_part",
    "roofline",
    "scope_bars",
    "scrolled",
    "section",
    "source",
    "svg",
    "table",
    "tag",
    "timeline",
]
