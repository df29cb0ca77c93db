"""HTML and SVG as text. What is not HTML already is escaped, so that no name of the user's is ever markup."""

from __future__ import annotations

import html
import itertools
from typing import Any

_EMPTY = {"meta", "br", "rect", "line", "circle", "path", "polyline", "polygon"}
_ids = itertools.count(1)


class Html(str):
    """Text that is HTML."""


def escape(content: Any) -> str:
    if isinstance(content, Html):
        return content
    if isinstance(content, (list, tuple)):
        return "".join(map(escape, content))
    return "" if content is None else html.escape(str(content))


def joined(*content: Any) -> Html:
    return Html(escape(content))


def tag(kind: str, /, *content: Any, **attributes: Any) -> Html:
    """An element. `class_` is `class`, and `aria_label` is `aria-label`; of None and False there is no attribute."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{key if value is True else html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if kind in _EMPTY and not content:
        return Html(f"<{kind}{given}/>")
    return Html(f"<{kind}{given}>{escape(content)}</{kind}>")


def new_id() -> str:
    """An id that no other element has, on this page or on another part of the same notebook."""
    return f"frit-{next(_ids)}"


def section(title: Any, *content: Any, level: int = 2) -> Html:
    name = new_id()
    return tag("section", tag(f"h{level}", title, id=name), *content, aria_labelledby=name)


def scrolled(content: Any, what: str) -> Html:
    """What may be wider than the page is moved by itself, by the keyboard too."""
    return tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=what)


def table(
    columns: list[str],
    rows: list[list[Any]],
    what: str,
    numbers: set[int] | None = None,
    rows_attributes: list[dict[str, Any]] | None = None,
) -> Html:
    """A table with its name. `numbers`: which columns are aligned to the right."""
    numbers = numbers or set()

    def cells(row: list[Any], kind: str) -> Html:
        return joined(
            *(
                tag(
                    "th" if kind == "th" or i == 0 else "td",
                    cell,
                    class_="number" if i in numbers else None,
                    scope="col" if kind == "th" else "row" if i == 0 else None,
                )
                for i, cell in enumerate(row)
            )
        )

    given = rows_attributes or [{}] * len(rows)
    return scrolled(
        tag(
            "table",
            tag("caption", what),
            tag("thead", tag("tr", cells(columns, "th"))),
            tag("tbody", *(tag("tr", cells(row, "td"), **a) for row, a in zip(rows, given, strict=True))),
        ),
        what,
    )


def details(summary: Any, *content: Any, is_open: bool = False) -> Html:
    return tag("details", tag("summary", summary), *content, open=is_open)


def facts(pairs: list[tuple[str, Any]]) -> Html:
    """A few numbers, each under its name."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs), class_="facts")
