"""A profile as Chrome's trace events, which Perfetto and chrome://tracing open.

The format is Google's "Trace Event Format": complete events (ph X), counters (C) and names (M), in microseconds."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def _events(p: dict[str, Any], zero_ns: int) -> Iterator[dict[str, Any]]:
    pid, begin = p["pid"], (p["begin_ns"] - zero_ns) / 1000
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": p["name"] or "Python"}}
    threads = {e["thread"] for e in p["events"]} | {0}
    beside = {e["thread"] for e in p["events"] if e["kind"] == "compile"}
    for t in sorted(threads):
        name = "compiling" if t in beside else "Python" if t == 0 else f"thread {t}"
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": t, "args": {"name": name}}
    for e in sorted(p["events"], key=lambda e: (e["begin_us"], -e["us"])):
        args = {k: e[k] for k in ("where", "number") if e[k]}
        yield {"ph": "X", "name": e["name"] or e["kind"], "cat": e["kind"], "ts": begin + e["begin_us"], "dur": e["us"],
               "pid": pid, "tid": e["thread"], "args": args}
    for at, n in p["memory"]:
        yield {"ph": "C", "name": "memory of arrays", "pid": pid, "tid": 0, "ts": begin + at, "args": {"bytes": n}}


def trace(p: dict[str, Any]) -> dict[str, Any]:
    """Of a profile's as_dict(), with its processes."""
    every = [p, *p["processes"]]
    zero_ns = min(x["begin_ns"] for x in every)
    return {"traceEvents": [e for x in every for e in _events(x, zero_ns)], "displayTimeUnit": "ms",
            "otherData": {"name": p["name"], "us": p["us"], "lost": p["n_lost"]}}
