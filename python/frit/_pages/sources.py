"""The user's lines beside the kernels that they became; where the mouse or the keyboard is on one, the others are marked."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .charts import Bar, bars
from .elements import Html, joined, scrolled, tag

_AROUND = 2  # lines before and after those that are told of
_MOST_KERNELS = 3  # of a line that are named, those first that take longest: the code is beside them
files: dict[str, str] = {}  # where the text of a cell of a notebook is, by the name "In[3]" (_notebook.py)
_WHERE = re.compile(r"(.*):(\d+) in (.*)", re.S)


class Kernel(NamedTuple):
    name: str  # "kernel 1"
    text: Any  # what it does
    lines: Sequence[tuple[str, float]]  # ("file.py:12 in f", its share)
    key: str  # of page.js: kernels, lines and nodes with it are marked together


class Line(NamedTuple):
    where: str
    value: float  # its bar
    text: str  # and what that says


def parted(where: str) -> tuple[str, int, str]:
    """ "file.py:12 in f" as the file, the line and the function; of what is no line, ("", 0, where)."""
    m = _WHERE.fullmatch(where)
    return (m[1], int(m[2]), m[3]) if m else ("", 0, where)


def _block(
    file: str, function: str, found: dict[int, Line], keys: dict[str, list[str]], names: dict[str, str], most: float
) -> Html:
    numbers: list[int] = []
    for n in sorted(found):
        numbers += [k for k in range(max(n - _AROUND, 1), n + _AROUND + 1) if k not in numbers]
    rows, last = [], 0
    for n in sorted(numbers):
        code = linecache.getline(files.get(file, file), n).rstrip("\n")
        if not code and n not in found:
            continue
        if last and n > last + 1:
            rows.append(tag("tr", tag("td", "⋯", colspan=4)))
        last = n
        line = found.get(n)
        own = keys.get(line.where, []) if line else []
        links: list[Any] = [tag("a", names[k], href=f"#{k}") for k in own[:_MOST_KERNELS]]
        if len(own) > _MOST_KERNELS:
            links.append(f"and {len(own) - _MOST_KERNELS} more")
        share = f"--share:{100 * line.value / most:.0f}%" if line and most else None
        rows.append(
            tag(
                "tr",
                tag("th", n, scope="row", class_="number"),
                tag("td", line.text if line else "", class_="number", style=share),
                tag("td", tag("code", code or "(its text is not there)")),
                tag("td", *(joined(" " if i else "", link) for i, link in enumerate(links))),
                data_k=" ".join(own) or None,
                class_="told" if line else None,
            )
        )
    what = f"{function}, {file}"
    head = tag("thead", tag("tr", *(tag("th", c, scope="col") for c in ("line", "share", "code", "runs in"))))
    return scrolled(tag("table", tag("caption", what), head, tag("tbody", *rows), class_="code"), what)


def source(kernels: Sequence[Kernel], lines: Sequence[Line]) -> Html:
    """`lines`: what each takes, those that take most first."""
    keys: dict[str, list[str]] = {}
    for k in kernels:
        for where, _ in k.lines:
            if k.key not in keys.setdefault(where, []):
                keys[where].append(k.key)
    names = {k.key: k.name for k in kernels}
    functions: dict[tuple[str, str], dict[int, Line]] = {}
    for line in lines:
        file, n, function = parted(line.where)
        functions.setdefault((file, function), {})[n] = line
    most = max((line.value for line in lines), default=0.0)
    left = [_block(file, function, found, keys, names, most) for (file, function), found in functions.items() if file]
    right = tag(
        "ol",
        *(tag("li", tag("strong", k.name), " ", k.text, id=k.key, data_k=k.key, tabindex=0) for k in kernels),
        class_="kernels",
    )
    return tag("div", tag("div", *left), right, class_="beside")


def function_bars(lines: Sequence[tuple[str, float]], what: str, text: Callable[[float], str]) -> Html:
    """A bar for each function, of ("file.py:12 in f", value): layers, as most write them."""
    found: dict[tuple[str, str], float] = {}
    for where, value in lines:
        file, _, function = parted(where)
        found[function, file] = found.get((function, file), 0.0) + value
    return bars(
        [Bar(name, value, (text(value), file)) for (name, file), value in sorted(found.items(), key=lambda at: -at[1])],
        what,
        ("function", "time", "file"),
        1,
    )


def scope_bars(scopes: Sequence[dict[str, Any]], what: str, text: Callable[[float], str]) -> Html:
    """A bar for each of nested scopes: `name`, `us` and `children`."""
    rows: list[Bar] = []

    def add(level: Sequence[dict[str, Any]], depth: int) -> None:
        for s in level:
            rows.append(Bar(s["name"], s["us"], (text(s["us"]),), depth))
            add(s.get("children") or [], depth + 1)

    add(scopes, 0)
    return bars(rows, what, ("scope", "time"))
