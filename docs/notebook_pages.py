"""Jupyter notebooks as pages of the site: their cells, and the outputs that are saved in them. Nothing is run.

Sphinx's parser of files that end in .ipynb: a notebook becomes reStructuredText. Of Markdown there are headings, paragraphs, lists,
fenced code, tables without spans, emphasis, code and links, which is what notebooks about programs have."""
import json
import re

LINES = "=-~^"      # under headings, by their level
ITEM = r"\s*(?:[-*+]|\d+\.) "


def indented(text, by=3):
    return "".join(" " * by + line + "\n" if line.strip() else "\n" for line in text.splitlines())


def link(found):
    """A link; to another page of the site, as Sphinx has it, which says if there is none."""
    words, to = found[1], found[2]
    page = re.fullmatch(r"([\w./-]+)\.(?:ipynb|rst)", to)
    return f":doc:`{words} <{page[1]}>`" if page else f"`{words} <{to}>`__"


def inline(text):
    """Code, links and emphasis of a paragraph. What is code is not looked at."""
    parts = re.split(r"(`+[^`]+`+)", text)
    for i, part in enumerate(parts):
        if i % 2:
            before, after = parts[i - 1][-1:], parts[i + 1][:1]
            parts[i] = ("\\ " if before.isalnum() else "") + f"``{part.strip('`').strip()}``" + ("\\ " if after.isalnum() else "")
            continue
        part = re.sub(r"(?<![\w\\])\\?([*_])(?=\s)", r"\\\1", part)
        part = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, part)
        parts[i] = re.sub(r"(?<![\w*])[*_]([^*_\s][^*_]*)[*_](?![\w*])", r"*\1*", part)
    return "".join(parts)


def markdown(text):
    """Markdown as reStructuredText."""
    out, fence, program = [], None, []
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        if fence is not None:
            if line.strip() == "```":
                out += ["", f".. code-block:: {fence or 'text'}", "", *indented("\n".join(program)).splitlines(), ""]
                fence = None
            else:
                program.append(line)
        elif line.startswith("```"):
            fence, program = line[3:].strip(), []
        elif heading := re.match(r"(#{1,4}) +(.*)", line):
            words = inline(heading[2])
            out += ["", words, LINES[len(heading[1]) - 1] * len(words), ""]
        elif line.startswith("|") and i < len(lines) and re.fullmatch(r"[|\s:-]+", lines[i]):
            rows = [line]
            i += 1
            while i < len(lines) and lines[i].startswith("|"):
                rows.append(lines[i])
                i += 1
            out += ["", ".. list-table::", "   :header-rows: 1", ""]
            for row in rows:
                cells = [inline(c.strip()) for c in row.strip().strip("|").split("|")]
                out += [("   * - " if k == 0 else "     - ") + c for k, c in enumerate(cells)]
            out.append("")
        else:
            item = re.match(ITEM, line)
            if item and out and out[-1].strip() and not re.match(ITEM, out[-1]):
                out.append("")      # a list begins with an empty line
            out.append(re.sub(r"^(\s*)[*+] ", r"\1- ", item[0]) + inline(line[item.end():]) if item else inline(line))
    return "\n".join(out) + "\n\n"


def joined(text):
    return text if isinstance(text, str) else "".join(text)


def output(o):
    """What a cell has shown: HTML and pictures as they are, and text."""
    data = o.get("data", {})
    if "text/html" in data:
        return ".. raw:: html\n\n" + indented(f'<div class="output">{joined(data["text/html"])}</div>') + "\n"
    if "image/svg+xml" in data:
        return ".. raw:: html\n\n" + indented(joined(data["image/svg+xml"])) + "\n"
    if "image/png" in data:
        picture = "".join(joined(data["image/png"]).split())
        return ".. raw:: html\n\n" + indented(f'<img alt="" src="data:image/png;base64,{picture}">') + "\n"
    text = joined(o.get("text", data.get("text/plain", "")))
    if o.get("output_type") == "error":
        text = f"{o['ename']}: {o['evalue']}"
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return ".. code-block:: text\n\n" + indented(text) + "\n" if text.strip() else ""


def page(notebook):
    """The text of a page of a notebook, a dict."""
    out = ""
    for cell in notebook["cells"]:
        source = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            out += markdown(source)
        elif cell["cell_type"] == "code" and source.strip():
            out += ".. code-block:: python\n   :force:\n\n" + indented(source) + "\n"
            out += "".join(map(output, cell.get("outputs", [])))
    return out


def setup(app):
    from sphinx.parsers import RSTParser

    class NotebookParser(RSTParser):
        """Sphinx gives it the file's text."""

        supported = ("ipynb",)

        def parse(self, inputstring, document):
            super().parse(page(json.loads(inputstring)), document)

    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
