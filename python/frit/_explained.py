"""What csrc/runtime/explain.h has of a call, as text and as dicts."""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy

from . import _core
from ._numpy import named
from ._units import bytes_text
from .explain import Explanation

_EVENT = "kind", "failed", "why", "way", "name", "plan", "line", "syncs", "kernels", "bytes_read", "bytes_written"

# Why an evaluation came: the sync's name (bind/base/base.h), or what runtime/ says.
WHY = {
    "bool": "a truth value", "number": "a number", "item": "an item", "print": "a text", "iteration": "an iteration",
    "buffer": "a buffer", "dlpack": "DLPack", "numpy": "an array of NumPy's", "pickle": "a pickle", "index": "an index",
    "eval": "eval()", "fallback": "a call of NumPy", "end": "the end of the call", "pending": "nobody yet",
    "others": "other code, which may see the memory",
    "at once": "each operation by itself, as errstate or filters of warnings want it",
    "much": "much that was pending", "products": "matrix products that were pending", "again": "a call made again"}
_WAYS = {
    "nodes": ", one for each operation, for it is small and has come for the first times; its plan",
    "alone": ", for it is one small operation; its plan",
    "unfused": ", one for each operation, until its own are compiled; those"}
_COMMENT = {"plan": "", "graph": "# ", "loops": "# ", "c": "// ", "cuda": "// "}
_TRIED = 16         # places where a repetition may begin
_WORTH = 6          # operations that are repeated, all together, are told with a count


def plural(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


# ---- what happens again ----

Item = int | tuple[int, tuple["Item", ...]]     # an event, or (so many times, these)


def folded(order: list[int]) -> list[Item]:
    """The same with what comes again behind itself once, with a count: loops, and loops in loops."""
    out: list[Item] = []
    places: dict[Item, list[int]] = {}          # of each item, and of each repetition under the last item of what it repeats

    def key(item: Item) -> Item:
        return item if isinstance(item, int) else item[1][-1]

    def push(item: Item) -> None:
        for k in {item, key(item)}:
            places.setdefault(k, []).append(len(out))
        out.append(item)

    def pop(n: int) -> None:
        for _ in range(n):
            item = out.pop()
            for k in {item, key(item)}:
                places[k].pop()

    def fold() -> bool:
        for at in reversed(places[out[-1]][-_TRIED - 1:-1]):
            n = len(out) - 1 - at
            body, before = tuple(out[len(out) - n:]), out[at]
            if isinstance(before, tuple) and before[1] == body:
                pop(n + 1)
                push((before[0] + 1, body))
                return True
            if n <= at + 1 and tuple(out[at + 1 - n:at + 1]) == body:
                pop(2 * n)
                push((2, body))
                return True
        return False

    for event in order:
        push(event)
        while fold():
            pass
    return out


def operations_text(names: list[str]) -> str:
    """The names of operations; what comes again and again behind itself once, with a count."""
    number: dict[str, int] = {}
    order = [number.setdefault(name, len(number)) for name in names]
    words = list(number)

    def text(items: list[Item] | tuple[Item, ...]) -> list[str]:
        out: list[str] = []
        for item in items:
            if isinstance(item, int):
                out.append(words[item])
                continue
            times, body = item[0], text(item[1])
            out += body * times if times * len(body) < _WORTH else [f"({' '.join(body)}) {times} times"]
        return out
    return " ".join(text(folded(order)))


# ---- dicts ----

class _Lines(dict[int, str | None]):
    """The text of each line by its number."""

    def __missing__(self, site: int) -> str | None:
        self[site] = _core.site_text(site) if site else None
        return self[site]


def _plan_of(text: str, description: str, lines: _Lines) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(description)
    for node in plan["nodes"]:
        node["line"] = lines[node["line"]]
    return {**plan, "text": text}


def _why_handed(name: str) -> str:
    """Why NumPy does it."""
    plain = name.removeprefix("ndarray.")
    theirs: Any = numpy.ndarray if plain != name else numpy
    for part in plain.split("."):
        theirs = getattr(theirs, part, None)
    if theirs is None:
        return "it is another library's, or the user's"
    if not hasattr(_core.Tensor if plain != name else _core, plain):
        return "frit has none of its own"
    if plain in named("handed") and plain not in named("composed"):
        return "frit has none of its own"
    return "these arguments are not for frit's own"


def _tree(items: list[Item] | tuple[Item, ...], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [events[item] if isinstance(item, int) else {"kind": "again", "times": item[0], "events": _tree(item[1], events)}
            for item in items]


def _counts(order: list[int], events: list[dict[str, Any]], kind: str, name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for i in order:
        if events[i]["kind"] == kind:
            counts[events[i][name]] = counts.get(events[i][name], 0) + 1
    return dict(sorted(counts.items()))


def _parts(name: str, kind: str, raw: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    lines = _Lines()
    all_plans = [_plan_of(text, description, lines) for text, description in raw["plans"]]
    of_text = {repr(plan): plan for plan in all_plans}      # of several instructions of the same lines
    plans, found = list(of_text.values()), {text: i for i, text in enumerate(of_text)}
    numbers = [found[repr(plan)] for plan in all_plans]
    alike = [(*e[:5], numbers[e[5]] if e[5] >= 0 else -1, lines[e[6]], *e[7:]) for e in raw["events"]]
    distinct = list(dict.fromkeys(alike))
    places = {e: i for i, e in enumerate(distinct)}
    events = [dict(zip(_EVENT, e, strict=True)) for e in distinct]
    for e in events:
        if e["kind"] == "handed":
            e["why"] = _why_handed(e["name"])
        if e["plan"] < 0:
            e["plan"] = None
    order = [places[alike[i]] for i in raw["order"]]
    if order and events[order[-1]]["kind"] == "end":    # nothing followed
        order = order[:-1]
    syncs: dict[str, int] = {}
    over = False
    for i in order:
        over |= events[i]["kind"] == "end"
        if events[i]["syncs"] and not over:
            syncs[events[i]["why"]] = syncs.get(events[i]["why"], 0) + events[i]["syncs"]
    total = {k: sum(events[i][k] for i in order) for k in ("kernels", "bytes_read", "bytes_written")}
    return {"name": name, "kind": kind, **total, "evaluations": sum(events[i]["kind"] == "evaluation" for i in order),
            "syncs": dict(sorted(syncs.items())), "fallbacks": _counts(order, events, "handed", "name"), "notes": notes,
            "happened": _tree(folded(order), events), "plans": plans}


# ---- text ----

def why_text(event: dict[str, Any]) -> str:
    """Why an evaluation came, or a value was read."""
    if event["why"] == "fallback" and event["name"]:
        return f"the call of {event['name']}"
    return WHY.get(event["why"], str(event["why"]))


def event_text(event: dict[str, Any]) -> str:
    """What happened, in a sentence without its full stop."""
    at = f", at {event['line']}" if event["line"] else ""
    if event["kind"] == "handed":
        return f"{event['name']} is NumPy's{at}: {event['why']}"
    if event["kind"] == "read":
        return f"{plural(event['syncs'], 'value')} read for {why_text(event)}{at}, without an evaluation"
    if event["kind"] == "end":
        return "at the end of the call"
    ran = _WAYS.get(event["way"])
    how = "" if ran is None else f": {plural(event['kernels'], 'kernel')}{ran}"
    what = "at the end" if event["why"] == "end" else f"for {why_text(event)}"
    return f"{'failed' if event['failed'] else 'computed'} {what}{at}{how}"


def _lines_of(happened: list[dict[str, Any]], plans: list[dict[str, Any]], shown: set[int], comment: str,
              depth: int) -> Iterator[str]:
    indent = "  " * depth
    for item in happened:
        if item["kind"] == "again":
            yield f"{comment}{indent}{item['times']} times:"
            yield from _lines_of(item["events"], plans, shown, comment, depth + 1)
            continue
        if item["kind"] == "end":
            continue
        plan = item["plan"]
        again = plan is not None and plan in shown
        yield f"{comment}{indent}{event_text(item)}{'' if plan is None else ':'}{' as above' if again else ''}"
        if plan is not None and not again:
            shown.add(plan)
            for line in plans[plan]["text"].splitlines():
                yield line if comment else f"{indent}  {line}"


def head_text(parts: dict[str, Any]) -> str:
    """The totals."""
    n_syncs, n_handed = sum(parts["syncs"].values()), sum(parts["fallbacks"].values())
    moved = parts["bytes_read"] + parts["bytes_written"]
    return (f"{parts['name']}: {plural(parts['kernels'], 'kernel')} in {plural(parts['evaluations'], 'evaluation')}, "
            f"{plural(n_syncs, 'sync')}, {plural(n_handed, 'call')} of NumPy" + (f"; {bytes_text(moved)} moved" if moved else ""))


def _text(parts: dict[str, Any]) -> str:
    comment = _COMMENT[parts["kind"]]
    lines = [comment + head_text(parts), *(f"{comment}{note}" for note in parts["notes"]),
             *_lines_of(parts["happened"], parts["plans"], set(), comment, 0)]
    return "".join(line + "\n" for line in lines)


def _explanation(text: str, parts: dict[str, Any]) -> Explanation:
    e = Explanation(text)
    e._parts = parts
    return e


# ---- the two ways in ----

def of_tensor(tensor: Any, kind: str) -> Explanation:
    parts = _parts("a Tensor", kind, _core.explain_pending(tensor, kind), [])
    return _explanation("".join(p["text"] for p in parts["plans"]) or "nothing is pending: no kernel would run\n", parts)


def _notes(function: Any) -> list[str]:
    """What is to be known of how its calls go otherwise."""
    from .accelerate import _suspends

    stats = getattr(function, "stats", None)
    notes = []
    if _suspends(function):
        notes.append("a generator or coroutine: nothing of it runs until somebody asks for a value")
    if not isinstance(stats, _core.CallStats):
        return notes
    if stats.unchanged:
        notes.append(f"{stats.unchanged} of {plural(stats.calls, 'call')} before ran as NumPy's, for that is sooner; "
                     "this one was traced")
    if stats.as_numpy:
        notes.append(f"other calls run as they are: {stats.as_numpy}")
    return notes


def of_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: str) -> Explanation:
    from .accelerate import explained

    named = getattr(function, "func", function)         # of a partial
    name, notes = getattr(named, "__qualname__", None) or type(named).__qualname__, _notes(function)
    _core.explain_begin(kind)
    try:
        explained(function, args, kwargs)
    except Exception as error:
        parts = _parts(name, kind, _core.explain_end(), [*notes, f"it ended with {type(error).__name__}"])
        error.add_note("until then frit had computed:\n" + _text(parts))
        raise
    except BaseException:
        _core.explain_end()
        raise
    parts = _parts(name, kind, _core.explain_end(), notes)
    return _explanation(_text(parts), parts)
