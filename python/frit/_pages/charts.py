"""Charts as SVG and tables, each with its numbers in words beside it; nothing is told by a colour alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .elements import Html, details, joined, new_id, scrolled, table, tag

_LETTER = 6.4  # pixels of a letter, about


def svg(width: float, height: float, title: str, description: str, *content: Any) -> Html:
    """A picture that is as wide as the page, but no smaller than it can be read, and says what it shows."""
    name, text = new_id(), new_id()
    picture = tag(
        "svg",
        tag("title", title, id=name),
        tag("desc", description, id=text),
        *content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_labelledby=f"{name} {text}",
        xmlns="http://www.w3.org/2000/svg",
    )
    return scrolled(picture, title)


def figure(caption: Any, *content: Any) -> Html:
    return tag("figure", *content, tag("figcaption", caption))


# ---- bars ----


class Bar(NamedTuple):
    label: Any
    value: float
    cells: Sequence[Any] = ()  # beside it, the text of the value first
    depth: int = 0  # in what the bars before it are of
    keys: str = ""  # what else is marked with it (page.js)


def _bar(share: float, label: str, class_: str = "") -> Html:
    return tag(
        "svg",
        tag("title", label),
        tag("rect", x=0, y=0, width="100%", height=12, rx=2, class_="track"),
        tag(
            "rect",
            x=0,
            y=0,
            width=f"{100 * max(share, 0.004 if share > 0 else 0.0):.2f}%",
            height=12,
            rx=2,
            class_=f"fill {class_}".strip(),
        ),
        class_="bar",
        height=12,
        role="img",
    )


def bars(rows: Sequence[Bar], what: str, columns: Sequence[str], texts: int = 0) -> Html:
    """A table with a bar in each row; `columns`: names of the label, and of the cells, of which so many at the end are texts."""
    most = max((r.value for r in rows), default=0.0) or 1.0
    total = sum(r.value for r in rows if r.depth == 0) or 1.0
    body = [
        [
            tag("span", r.label, style=f"padding-left:{1.2 * r.depth:.1f}em") if r.depth else r.label,
            _bar(r.value / most, f"{100 * r.value / total:.1f} % of all"),
            *r.cells,
        ]
        for r in rows
    ]
    given = [{"data_k": r.keys or None} for r in rows]
    return table([columns[0], "share", *columns[1:]], body, what, set(range(2, len(columns) + 1 - texts)), given)


def before_after(
    rows: Sequence[tuple[Any, float, float]], what: str, text: Callable[[float], str] | Sequence[Callable[[float], str]]
) -> Html:
    """A table of (label, before, after) with two bars in each row; `text` writes a value, or there is one for each row."""
    body = []
    for i, (label, a, b) in enumerate(rows):
        written, most = text if callable(text) else text[i], max(a, b) or 1.0
        given = [written(x) if x or a == b else "—" for x in (a, b)]
        change = (
            "the same" if a == b else "new" if not a else "gone" if not b else f"{'+' if b > a else '−'}{abs(b / a - 1):.1%}"
        )
        body.append(
            [
                label,
                joined(_bar(a / most, "before", "before"), _bar(b / most, "after")),
                *given,
                tag("span", change, class_="worse" if b > a else "better" if b < a else None),
            ]
        )
    return table(["", "before above, after below", "before", "after", "change"], body, what, {2, 3, 4})


# ---- axes ----


def _ticks(top: float, most: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers from 0 to `top`, `least` apart or more."""
    if top <= 0:
        return [0.0]
    step = 10.0 ** math.floor(math.log10(top / most))
    step = max(next(step * k for k in (1, 2, 5, 10) if top / (step * k) <= most), least)
    return [step * i for i in range(int(top / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**k for k in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def _number(x: float) -> str:
    return f"{x:g}" if 0.001 <= abs(x) < 1e5 or x == 0 else f"{x:.0e}"


def _frame(width: float, height: float, left: float, bottom: float) -> Html:
    return tag("path", d=f"M{left:.1f} 12V{height - bottom:.1f}H{width - 12:.1f}", class_="axis")


# ---- memory ----


class Life(NamedTuple):
    what: str
    bytes: int
    where: str


def curve(
    points: Sequence[tuple[float, float]],
    title: str,
    x_name: str,
    y_text: Callable[[float], str],
    at_peak: Sequence[Life] = (),
    limit: tuple[float, str] | None = None,
) -> Html:
    """How much there is, by steps: from each x on, so much, until the next one. Beside it what lives at the peak. `limit`: a line
    above it, and what it says."""
    width, height, left, bottom = 680.0, 260.0, 78.0, 44.0
    points = list(points) or [(0.0, 0.0)]
    x0, x1 = points[0][0], max(points[-1][0], points[0][0] + 1e-9)
    top = max(max(y for _, y in points), limit[0] if limit else 0.0, 1.0)
    peak = max(range(len(points)), key=lambda i: points[i][1])

    def x_of(x: float) -> float:
        return left + (x - x0) / (x1 - x0) * (width - left - 24)

    def y_of(y: float) -> float:
        return height - bottom - y / (top * 1.12) * (height - bottom - 24)

    d = f"M{x_of(x0):.1f} {y_of(0):.1f}"
    for i, (x, y) in enumerate(points):
        d += f"L{x_of(x):.1f} {y_of(points[i - 1][1] if i else 0):.1f}L{x_of(x):.1f} {y_of(y):.1f}"
    area = d + f"L{x_of(x1):.1f} {y_of(0):.1f}Z"
    px, py = x_of(points[peak][0]), y_of(points[peak][1])
    label = f"peak {y_text(points[peak][1])}"
    end = px + len(label) * _LETTER + 12 > width
    parts = [
        *(
            joined(
                tag("line", x1=left, x2=width - 12, y1=f"{y_of(t):.1f}", y2=f"{y_of(t):.1f}", class_="grid"),
                tag("text", y_text(t), x=left - 8, y=f"{y_of(t) + 4:.1f}", class_="end small"),
            )
            for t in _ticks(top)
        ),
        *(
            tag("text", _number(t + x0), x=f"{x_of(t + x0):.1f}", y=height - bottom + 18, class_="middle small")
            for t in _ticks(x1 - x0, 8, float(all(x == int(x) for x, _ in points)))
        ),
        tag("path", d=area, class_="area"),
        tag("path", d=d, class_="curve"),
        _frame(width, height, left, bottom),
        tag("circle", cx=f"{px:.1f}", cy=f"{py:.1f}", r=4, class_="dot"),
        tag("text", label, x=f"{px - 8 if end else px + 8:.1f}", y=f"{py - 8:.1f}", class_="strong end" if end else "strong"),
        tag("text", x_name, x=(left + width) / 2, y=height - 6, class_="middle small"),
    ]
    if limit:
        at = f"{y_of(limit[0]):.1f}"
        parts += [
            tag("line", x1=left, x2=width - 12, y1=at, y2=at, class_="limit"),
            tag("text", limit[1], x=left + 8, y=f"{y_of(limit[0]) - 6:.1f}", class_="small"),
        ]
    description = f"From {y_text(points[0][1])} to {y_text(points[-1][1])}; {label} at {x_name} {_number(points[peak][0])}."
    lives = sorted(at_peak, key=lambda life: -life.bytes)
    return joined(
        figure(description, svg(width, height, title, description, *parts)),
        bars(
            [Bar(life.what, life.bytes, (y_text(life.bytes), life.where)) for life in lives],
            "What lives at the peak",
            ("array", "bytes", "made at"),
            1,
        )
        if lives
        else None,
        details("The curve as a table", table([x_name, "live"], [[_number(x), y_text(y)] for x, y in points], title, {0, 1})),
    )


# ---- roofline ----


class Point(NamedTuple):
    label: str
    intensity: float  # operations per byte
    gops: float  # thousand million operations a second
    text: Sequence[Any]  # cells of its row in the table
    keys: str = ""


def _labels(
    dots: Sequence[tuple[float, float]], texts: Sequence[str], width: float, height: float
) -> list[tuple[float, float, str] | None]:
    """Where the texts of dots stand, and to which side they go: beside their dots, where nothing is yet; or nowhere."""
    taken = [(x - 5, y - 5, x + 5, y + 5) for x, y in dots]
    out: list[tuple[float, float, str] | None] = []
    for (x, y), text in zip(dots, texts, strict=True):
        half, found = 3.6 * len(text), None
        for at, low, side in (
            (x + 9, y + 4, ""),
            (x - 9, y + 4, " end"),
            (x, y - 9, " middle"),
            (x, y + 18, " middle"),
            (x + 9, y + 15, ""),
            (x + 9, y - 7, ""),
        ):
            left = at - (0.0 if not side else 2 * half if side == " end" else half)
            box = (left, low - 10, left + 2 * half, low + 1)
            free = not any(box[0] < t[2] and t[0] < box[2] and box[1] < t[3] and t[1] < box[3] for t in taken)
            if free and box[0] >= 0 and box[2] <= width and 0 <= box[1] and box[3] <= height:
                found = at, low, side
                taken.append(box)
                break
        out.append(found)
    return out


def roofline(points: Sequence[Point], gbs: float, gops: float, title: str, columns: Sequence[str]) -> Html:
    """Where kernels lie under what the machine can do: so many GB a second from memory, so many operations. `columns`: those of
    the points' texts in the table, of which the last is no number."""
    width, height, left, bottom = 680.0, 380.0, 66.0, 52.0
    ridge = gops / gbs
    xs, ys = [p.intensity for p in points if p.intensity > 0], [p.gops for p in points if p.gops > 0]
    low, high = min([ridge / 100, *xs]) / 1.5, max([ridge * 10, *xs]) * 1.5
    floor, top = min([gbs * low, *ys]) / 1.5, max([gops, *ys]) * 2.2

    def x_of(x: float) -> float:
        return left + math.log(x / low) / math.log(high / low) * (width - left - 20)

    def y_of(y: float) -> float:
        return height - bottom - math.log(y / floor) / math.log(top / floor) * (height - bottom - 20)

    shown = [p for p in points if p.intensity > 0 and p.gops > 0]
    places = [(x_of(p.intensity), y_of(p.gops)) for p in shown]
    labels = _labels(places, [p.label for p in shown], width, height - bottom)
    slope = math.degrees(math.atan2(y_of(gbs * low) - y_of(gops), x_of(ridge) - x_of(low)))
    mx, my = x_of(math.sqrt(low * ridge)), y_of(gbs * math.sqrt(low * ridge))
    parts = [
        *(
            joined(
                tag("line", x1=f"{x_of(t):.1f}", x2=f"{x_of(t):.1f}", y1=12, y2=height - bottom, class_="grid"),
                tag("text", _number(t), x=f"{x_of(t):.1f}", y=height - bottom + 18, class_="middle small"),
            )
            for t in _decades(low, high)
        ),
        *(
            joined(
                tag("line", x1=left, x2=width - 12, y1=f"{y_of(t):.1f}", y2=f"{y_of(t):.1f}", class_="grid"),
                tag("text", _number(t), x=left - 8, y=f"{y_of(t) + 4:.1f}", class_="end small"),
            )
            for t in _decades(floor, top)
        ),
        tag(
            "path",
            d=f"M{x_of(low):.1f} {y_of(gbs * low):.1f}L{x_of(ridge):.1f} {y_of(gops):.1f}L{x_of(high):.1f} {y_of(gops):.1f}",
            class_="roof",
        ),
        tag(
            "text",
            f"memory {gbs:,.3g} GB/s",
            x=f"{mx:.1f}",
            y=f"{my - 9:.1f}",
            class_="middle small",
            transform=f"rotate({-slope:.1f} {mx:.1f} {my - 9:.1f})",
        ),
        tag("text", f"arithmetic {gops:,.3g} Gop/s", x=f"{x_of(high) - 6:.1f}", y=f"{y_of(gops) - 9:.1f}", class_="end small"),
        _frame(width, height, left, bottom),
        *(
            tag(
                "g",
                tag("title", f"{p.label}: {p.intensity:.3g} operations per byte, {p.gops:.3g} Gop/s"),
                tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=5, class_="dot"),
                tag("text", p.label, x=f"{at[0]:.1f}", y=f"{at[1]:.1f}", class_="strong" + at[2]) if at else None,
                data_k=p.keys or None,
            )
            for p, (x, y), at in zip(shown, places, labels, strict=True)
        ),
        tag("text", "operations per byte moved", x=(left + width) / 2, y=height - 10, class_="middle small"),
        tag("text", "Gop/s", x=left, y=10, class_="small end"),
    ]
    n, n_crowded = len(points) - len(shown), labels.count(None)
    description = (
        f"{len(shown)} kernels below a roof of {gbs:,.3g} GB/s and {gops:,.3g} Gop/s, which meet at {ridge:.3g} operations "
        f"per byte." + (f" {n} without operations are in the table alone." if n else "")
        + (f" {n_crowded} stand so close to others that they have no number there." if n_crowded else "")
    )
    return joined(
        figure(description, svg(width, height, title, description, *parts)),
        table(
            ["kernel", "operations per byte", "Gop/s", "of the roof", *columns],
            [
                [
                    p.label,
                    f"{p.intensity:.3g}",
                    f"{p.gops:.3g}",
                    f"{p.gops / min(gops, gbs * p.intensity):.0%}" if p.intensity > 0 else "",
                    *p.text,
                ]
                for p in points
            ],
            title,
            set(range(1, 3 + len(columns))),
            [{"data_k": p.keys or None} for p in points],
        ),
    )


# ---- time ----


def timeline(events: Sequence[dict[str, Any]], title: str, text: Callable[[float], str]) -> Html:
    """What ran when: `kind`, `name`, `at_us`, `us` and `line` of each; a row for each kind."""
    kinds = list(dict.fromkeys(e["kind"] for e in events))
    end = max((e["at_us"] + e["us"] for e in events), default=0.0) or 1.0
    left = 24 + _LETTER * max(map(len, kinds), default=0)
    width, row = max(680.0, left + 300), 30.0
    height = row * len(kinds) + 46

    def x_of(us: float) -> float:
        return left + us / end * (width - left - 24)

    parts = [
        *(
            joined(
                tag("line", x1=f"{x_of(t):.1f}", x2=f"{x_of(t):.1f}", y1=8, y2=height - 34, class_="grid"),
                tag("text", text(t), x=f"{x_of(t):.1f}", y=height - 16, class_="middle small"),
            )
            for t in _ticks(end)
        ),
        *(
            tag("text", kind, x=left - 8, y=f"{8 + row * (i + 0.5) + 4:.1f}", class_="end small")
            for i, kind in enumerate(kinds)
        ),
        *(
            tag(
                "rect",
                tag("title", f"{e['name']}, {text(e['us'])} at {text(e['at_us'])}" + (f", {e['line']}" if e["line"] else "")),
                x=f"{x_of(e['at_us']):.2f}",
                y=f"{8 + row * kinds.index(e['kind']) + 6:.1f}",
                height=row - 12,
                width=f"{max(x_of(e['us']) - left, 1.0):.2f}",
                rx=1,
                class_="event",
            )
            for e in events
        ),
    ]
    description = (
        f"{len(events)} events in {text(end)}: " + ", ".join(f"{sum(e['kind'] == k for e in events)} {k}" for k in kinds) + "."
    )
    rows = [[text(e["at_us"]), text(e["us"]), e["kind"], e["name"], e["line"] or ""] for e in events]
    return joined(
        figure(description, svg(width, height, title, description, *parts)),
        details("The events as a table", table(["at", "for", "what", "name", "line"], rows, title, {0, 1})),
    )
