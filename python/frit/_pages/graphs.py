"""The graph of a plan: operations in the boxes of their groups, in layers, each below what it reads."""

from __future__ import annotations

from typing import Any, NamedTuple

from .._explained import operations_text
from .._units import bytes_text
from .charts import figure, svg
from .elements import Html, details, joined, new_id, table, tag

_LETTER, _BOLD, _HIGH, _GAP, _PAD, _LINE = 6.3, 7.4, 25.0, 13.0, 14.0, 15.0
_BETWEEN, _BESIDE, _HEAD = 34.0, 26.0, 27  # _HEAD: letters of a box's text, beside its operations
MOST_NODES, MOST_BOXES = 250, 120  # which are still looked at as a picture


class _Text(NamedTuple):
    text: str
    class_: str


class _Box:
    """A group or what is given, with its place."""

    def __init__(self, nodes: list[int], heads: list[_Text], is_group: bool, keys: str) -> None:
        self.nodes, self.heads, self.is_group, self.keys = nodes, heads, is_group, keys
        self.layer = 0
        self.x = self.y = self.width = self.height = 0.0
        self.axis = 0.0  # the middle of its nodes


def shape_text(shape: list[int]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _wrapped(text: str, letters: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def step_names(plan: dict[str, Any]) -> dict[int, str]:
    """What each group is called: the kernel or product in which it runs."""
    names, kernels, products, last = {}, 0, 0, ""
    for s in plan["steps"]:
        if s["is_kernel"]:
            kernels += 1
            last = f"kernel {kernels}"
        elif s["kind"] == "call":
            products += 1
            last = f"matrix product {products}"
        for g in s["groups"]:
            names[g] = last
    return names


def bytes_of(node: dict[str, Any]) -> int:
    import numpy

    n = numpy.dtype(node["dtype"]).itemsize
    for d in node["shape"]:
        n *= d
    return int(n)


def _layers(parents: dict[int, list[int]]) -> dict[int, int]:
    """The longest way to each from one without parents; those are given before their children."""
    layer: dict[int, int] = {}
    for n, before in parents.items():
        layer[n] = 1 + max((layer[p] for p in before), default=-1)
    return layer


class _Drawing:
    def __init__(self, plan: dict[str, Any], keys: dict[int, str]) -> None:
        self.nodes = {n["node"]: n for n in plan["nodes"]}
        self.sources = {
            k: list(dict.fromkeys(a["node"] for a in n["arguments"] if a.get("node") in self.nodes))
            for k, n in self.nodes.items()
        }
        self.arrow = new_id()
        self.is_brief = len(self.nodes) > MOST_NODES
        self.at: dict[int, tuple[float, float, float]] = {}  # the middle of a node, its top, and how wide it is
        self.row: dict[int, int] = {}  # in its box
        self.boxes: list[_Box] = []
        self.of: dict[int, _Box] = {}
        names = step_names(plan)
        for g in plan["groups"]:
            heads = [_Text(names.get(g["group"], "a part"), "strong")]
            heads += [_Text(t, "small") for t in _wrapped(f"{g['kind']} over {shape_text(g['shape']).replace(' ', '')}", _HEAD)]
            if self.is_brief:
                heads += [_Text(t, "") for t in _wrapped(operations_text([self.nodes[n]["operation"] for n in g["nodes"]]), 60)]
            if g["why"]:
                heads += [_Text(t, "boundary small") for t in _wrapped("boundary: " + g["why"], _HEAD)]
            self._add(_Box(g["nodes"], heads, True, keys.get(g["group"], "")))
        used = {s for n in self.of for s in self.sources[n]}
        for k in self.nodes:
            if k not in self.of and k in used:
                self._add(_Box([k], [], False, ""))

    def _add(self, box: _Box) -> None:
        self.boxes.append(box)
        self.of.update(dict.fromkeys(box.nodes, box))

    def label(self, n: int) -> tuple[str, str]:
        node = self.nodes[n]
        name = "given" if node["operation"] == "leaf" else node["operation"] + (" → result" if node["result"] else "")
        return name, f"{node['dtype']}{shape_text(node['shape'])}"

    # ---- places

    def inside(self, box: _Box) -> None:
        """Nodes of a box in layers, and how large it is."""
        beside = max((_LETTER * len(t.text) for t in box.heads), default=-20.0) + 20
        rows: dict[int, list[int]] = {}
        if not (self.is_brief and box.is_group):
            own = set(box.nodes)
            for n, layer in _layers({n: [s for s in self.sources[n] if s in own] for n in sorted(own)}).items():
                rows.setdefault(layer, []).append(n)
        wide = {n: _BOLD * len(self.label(n)[0]) + _LETTER * (len(self.label(n)[1]) + 2) + 18 for n in box.nodes}
        widths = [sum(wide[n] for n in row) + _GAP * (len(row) - 1) for row in rows.values()]
        inner = max(widths, default=-20.0)
        pad = _PAD if box.is_group else 0.0
        places: dict[int, float] = {}
        y = pad
        for layer, row in sorted(rows.items()):
            row.sort(
                key=lambda n: (
                    sum(places.get(s, 0.0) for s in self.sources[n] if s in places)
                    / max(sum(s in places for s in self.sources[n]), 1),
                    n,
                )
            )
            x = pad + beside + (inner - widths[layer]) / 2
            for n in row:
                self.row[n] = layer
                places[n] = x + wide[n] / 2
                self.at[n] = (places[n], y, wide[n])
                x += wide[n] + _GAP
            y += _HIGH + _GAP
        box.width = beside + inner + 2 * pad
        box.axis = pad + beside + inner / 2
        box.height = max(y - _GAP, pad + _LINE * len(box.heads)) + pad

    def place(self) -> tuple[float, float]:
        before: dict[int, set[int]] = {
            id(b): {id(self.of[s]) for n in b.nodes for s in self.sources[n]} - {id(b)} for b in self.boxes
        }
        after: dict[int, list[_Box]] = {}
        for b in self.boxes:
            for p in before[id(b)]:
                after.setdefault(p, []).append(b)
        by_id = {id(b): b for b in self.boxes}
        for b in (b for b in self.boxes if b.is_group):  # in an order in which they can run
            b.layer = 1 + max((by_id[p].layer for p in before[id(b)] if by_id[p].is_group), default=0)
        for b in (b for b in self.boxes if not b.is_group):  # just above the first that reads it
            b.layer = min((c.layer for c in after.get(id(b), [])), default=1) - 1
        layers: dict[int, list[_Box]] = {}
        for b in self.boxes:
            self.inside(b)
            layers.setdefault(b.layer, []).append(b)
        y = 8.0
        for _, row in sorted(layers.items()):
            row.sort(
                key=lambda b: (
                    not b.is_group,
                    sum(by_id[p].x + by_id[p].width / 2 for p in before[id(b)]) / max(len(before[id(b)]), 1),
                )
            )
            centred = [b for b in row if b.is_group] or row  # with what is given beside them, to the right
            x = -centred[0].axis if len(centred) == 1 else -(sum(b.width for b in centred) + _BESIDE * (len(centred) - 1)) / 2
            high = max(b.height for b in row)
            for b in row:  # what is given is just above who reads it
                b.x, b.y = x, y if b.is_group else y + high - b.height
                x += b.width + _BESIDE
            y += high + _BETWEEN
        least = min(b.x for b in self.boxes)
        for b in self.boxes:
            b.x += 8 - least
        return max(b.x + b.width for b in self.boxes) + 60, y - _BETWEEN + 8

    # ---- drawing

    def _edges_of(self, n: int) -> tuple[float, float, float, float]:
        """Left, right, top and bottom of a node, or of a box whose nodes are not drawn."""
        b = self.of[n]
        if n not in self.at:
            return b.x, b.x + b.width, b.y, b.y + b.height
        x, y, wide = self.at[n]
        return b.x + x - wide / 2, b.x + x + wide / 2, b.y + y, b.y + y + _HIGH

    def way(self, s: int, n: int) -> str:
        """From below the one to above the other; around what is between them, and from the side into the middle of a box."""
        (l1, r1, t1, b1), (l2, r2, t2, b2) = self._edges_of(s), self._edges_of(n)
        x1, x2, inside = (l1 + r1) / 2, (l2 + r2) / 2, self.of[s] is self.of[n]
        if inside and self.row[n] > self.row[s] + 1 and abs(x1 - x2) < 60:
            y1, y2, far = (t1 + b1) / 2, (t2 + b2) / 2, max(r1, r2) + 14 + 6 * min(self.row[n] - self.row[s], 6)
            return f"M{r1:.1f} {y1:.1f}C{far:.1f} {y1:.1f} {far:.1f} {y2:.1f} {r2 + 3:.1f} {y2:.1f}"
        if not inside and self.row.get(n, 0) > 0:
            y2, far = (t2 + b2) / 2, max(r2 + 46, x1)
            return f"M{x1:.1f} {b1:.1f}C{x1:.1f} {b1 + 40:.1f} {far:.1f} {y2:.1f} {r2 + 3:.1f} {y2:.1f}"
        bend = max(abs(t2 - b1) / 2, 8)
        return f"M{x1:.1f} {b1:.1f}C{x1:.1f} {b1 + bend:.1f} {x2:.1f} {t2 - bend:.1f} {x2:.1f} {t2 - 3:.1f}"

    def edges(self) -> Html:
        drawn, parts = set(), []
        for n in self.of:
            for s in self.sources[n]:
                a, b = self.of[s], self.of[n]
                if a is b and n not in self.at:
                    continue
                way = self.way(s, n)
                if way in drawn:
                    continue
                drawn.add(way)
                parts.append(
                    tag(
                        "path",
                        tag(
                            "title",
                            f"{self.label(s)[0]} is read by {self.label(n)[0]}: {self.label(s)[1]}, "
                            f"{bytes_text(bytes_of(self.nodes[s]))}",
                        ),
                        d=way,
                        class_="edge" if a is b else "edge crossing",
                        marker_end=f"url(#{self.arrow})",
                    )
                )
        return joined(*parts)

    def box(self, b: _Box) -> Html:
        return tag(
            "rect", x=f"{b.x:.1f}", y=f"{b.y:.1f}", width=f"{b.width:.1f}", height=f"{b.height:.1f}", rx=8, class_="group"
        )

    def heads(self, b: _Box) -> Html:
        """Over the edges, which go around the letters."""
        return joined(
            *(
                tag("text", t.text, x=f"{b.x + _PAD:.1f}", y=f"{b.y + _PAD + 6 + _LINE * i:.1f}", class_=f"head {t.class_}")
                for i, t in enumerate(b.heads)
            )
        )

    def node(self, n: int) -> Html:
        b, (x, y, wide), (name, kind) = self.of[n], self.at[n], self.label(n)
        node = self.nodes[n]
        x, y = b.x + x, b.y + y
        return tag(
            "g",
            tag("title", f"{name}, {kind}, {bytes_text(bytes_of(node))}" + (f", {node['line']}" if node["line"] else "")),
            tag(
                "rect",
                x=f"{x - wide / 2:.1f}",
                y=f"{y:.1f}",
                width=f"{wide:.1f}",
                height=_HIGH,
                rx=5,
                class_="node given" if not b.is_group else "node result" if node["result"] else "node",
            ),
            tag(
                "text",
                tag("tspan", name, class_="strong"),
                " ",
                tag("tspan", kind, class_="small"),
                x=f"{x:.1f}",
                y=f"{y + 17:.1f}",
                class_="middle",
            ),
            data_k=b.keys or None,
        )


def graph(plan: dict[str, Any], title: str, keys: dict[int, str]) -> Html:
    """`keys`: by the number of a group, what is marked with it (page.js)."""
    names = step_names(plan)
    group_of = {n: g["group"] for g in plan["groups"] for n in g["nodes"]}
    rows = [
        [
            f"%{n['node']}",
            "given" if n["operation"] == "leaf" else n["operation"],
            f"{n['dtype']}{shape_text(n['shape'])}",
            ", ".join(f"%{a['node']}" if "node" in a else "a number" for a in n["arguments"]),
            names.get(group_of.get(n["node"], -1), ""),
            n["line"] or "",
            "yes" if n["result"] else "",
        ]
        for n in plan["nodes"]
    ]
    beside = details(
        "The graph as a table", table(["node", "operation", "array", "reads", "runs in", "line", "result"], rows, title)
    )
    operation = {n["node"]: n["operation"] for n in plan["nodes"]}
    reasons = [
        [
            names.get(g["group"], ""),
            operations_text([operation[k] for k in g["nodes"]]),
            g["why"],
        ]
        for g in plan["groups"]
        if g["why"]
    ]
    why = (
        table(["before", "which computes", "there is a boundary, for"], reasons, "Why groups are not one kernel")
        if reasons
        else None
    )
    drawing = _Drawing(plan, keys)
    if not drawing.boxes:
        return joined(why, beside)
    if len(drawing.boxes) > MOST_BOXES:
        return joined(
            tag("p", f"{len(drawing.boxes)} groups and arrays are more than a picture shows; the table has them."), why, beside
        )
    width, height = drawing.place()
    arrow = tag(
        "defs",
        tag(
            "marker",
            tag("path", d="M0 0L8 4L0 8z", class_="arrow"),
            id=drawing.arrow,
            viewBox="0 0 8 8",
            refX=7,
            refY=4,
            markerWidth=7,
            markerHeight=7,
            orient="auto",
        ),
    )
    n_given = sum(not b.is_group for b in drawing.boxes)
    description = (
        f"{len(group_of)} operations in {len(plan['groups'])} {'group' if len(plan['groups']) == 1 else 'groups'}, "
        f"each a box, read {n_given} given {'array' if n_given == 1 else 'arrays'}."
    )
    picture = svg(
        width,
        height,
        title,
        description,
        arrow,
        *(drawing.box(b) for b in drawing.boxes if b.is_group),
        drawing.edges(),
        *(drawing.heads(b) for b in drawing.boxes),
        *(drawing.node(n) for b in drawing.boxes for n in b.nodes if n in drawing.at),
    )
    return joined(figure(description, picture), why, beside)
