"""A profile as a page: where the time went, by cause, layer, function, line and kernel; when; and the memory that it took."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._rows import at_peak_of
from .._units import bytes_text, count_text, time_text
from .charts import Bar, Life, bars, curve, timeline
from .elements import Html, facts, section, table, tag

_EVENTS = 2000      # that a timeline shows: those that took longest
_ROWS = ("scope", "call", "evaluation", "kernel", "handed", "others", "loop", "plan", "wait", "turn", "copy", "compile")


def _share(us: float, all_us: float) -> str:
    return f"{us / all_us:.1%}" if all_us else ""


def _layers(layers: Sequence[dict[str, Any]]) -> Html:
    rows: list[Bar] = []

    def add(level: Sequence[dict[str, Any]], depth: int) -> None:
        for x in level:
            passed = "" if x["wall_us"] is None else f"{time_text(x['wall_us'])} passed in it, {x['runs']:,} times"
            cells = time_text(x["us"]), bytes_text(x["bytes"]), count_text(x["ops"]), passed
            rows.append(Bar(x["name"], x["us"], cells, depth))
            add(x["children"], depth + 1)

    add(layers, 0)
    return bars(rows, "Scopes, classes and functions", ("layer", "time", "moved", "operations", ""), 1)


def _evaluations(p: dict[str, Any]) -> Html | None:
    from .._explained import WHY
    rows = [[time_text(e["us"]), f"{e['times']:,}", WHY.get(e["why"], e["why"]), e["where"]] for e in p["evaluations"]]
    return section("Why it was computed", table(["time", "times", "for", "line"], rows, "Evaluations, the longest first",
                                                {0, 1})) if rows else None


def _handed(p: dict[str, Any]) -> Html | None:
    rows = [Bar(h["name"], h["us"], (time_text(h["us"]), f"{h['calls']:,}", h["why"], h["where"])) for h in p["handed"]]
    return section("Handed to NumPy", bars(rows, "Functions of NumPy's, those first that take longest",
                                           ("function", "time", "calls", "because", "line"), 2)) if rows else None


def _others(p: dict[str, Any]) -> Html | None:
    rows = [Bar(o["name"], o["us"], (time_text(o["us"]), f"{o['calls']:,}", o["where"])) for o in p["others"]]
    caption = "Functions of other packages and of Python's library, those first that take longest"
    return section("Functions of others", bars(rows, caption, ("function", "time", "calls", "line"), 2)) if rows else None


def _memory(p: dict[str, Any]) -> Html | None:
    if not p["memory"]:
        return None
    lives = [Life(what, n, where) for n, what, where in at_peak_of(p)]
    points = [(us / 1000, float(n)) for us, n in p["memory"]]
    return section("Memory of arrays", curve(points, "Memory of frit's arrays", "ms", bytes_text, lives))


def _when(p: dict[str, Any]) -> Html | None:
    events = [e for e in p["events"] if e["thread"] == 0 or e["kind"] == "compile"]
    longest = sorted(events, key=lambda e: -e["us"])[:_EVENTS]
    if not longest:
        return None
    shown = [{"kind": e["kind"], "name": e["name"], "at_us": e["begin_us"], "us": e["us"], "line": e["where"]}
             for e in sorted(longest, key=lambda e: (_ROWS.index(e["kind"]), e["begin_us"]))]
    left = len(events) - len(longest) + p["n_lost"]
    note = tag("p", f"{left:,} shorter or earlier events are not in the picture; they are in all sums.") if left else None
    return section("When", timeline(shown, "What ran when, in the thread that was profiled", time_text), note)


def profile_content(p: dict[str, Any], kernels: Sequence[Any]) -> tuple[str, str, list[Any]]:
    """(title, what is said first, sections) of a Profile.as_dict(), with the sections of its kernels."""
    runs = sum(k["runs"] for k in p["kernels"] if k["is_kernel"])
    parts = [Bar(name, us, (time_text(us), _share(us, p["us"]))) for name, us in p["parts"].items()]
    beside = [[what, f"{n:,}", time_text(us)] for what, n, us in p["compiles"]]
    whose = (f"Kernels are beside the limits of {p['machine']}." if p["machine"]
             else "Nobody has measured this machine, so its limits are a guess: python -m frit.machine calibrate.")
    most = next(iter(p["parts"].items()), ("nothing", 0.0))
    lead = f"Most of it is {most[0]}: {_share(most[1], p['us'])}. {whose}"
    processes = [[f"{x['pid']}", x["name"], time_text(x["us"]), f"{sum(k['runs'] for k in x['kernels'] if k['is_kernel']):,}"]
                 for x in p["processes"]]
    calls = [Bar(c["name"], c["us"], (time_text(c["us"]), time_text(c["python_us"]), f"{c['calls']:,}", c["where"]))
             for c in p["calls"]]
    content = [
        facts([("time", time_text(p["us"])), ("kernels", f"{runs:,}"), ("peak of memory", bytes_text(p["peak_bytes"])),
               ("moved", bytes_text(p["bytes"])), ("operations", count_text(p["ops"])),
               *([("energy", f"{p['joules']:.3g} J, {p['joules_source']}")] if p["joules"] is not None else [])]),
        section("Where the time went", bars(parts, "Parts of the time, which add up to all of it", ("part", "time", "of all"))),
        table(["beside all else", "kernels", "time"], beside, "Kernels that were compiled or loaded meanwhile", {1, 2})
        if beside else None,
        section("By layer", _layers(p["layers"])) if p["layers"] else None,
        section("Accelerated functions", bars(calls, "Calls of accelerated functions",
                                              ("function", "time", "in Python", "calls", "called at"), 1)) if calls else None,
        *kernels,
        _handed(p), _others(p), _evaluations(p), _memory(p), _when(p),
        section("Other processes", table(["process", "what", "time", "kernels"], processes, "Begun meanwhile", {2, 3}))
        if processes else None,
    ]
    return f"Profile of {p['name'] or 'what ran'}", lead, content

