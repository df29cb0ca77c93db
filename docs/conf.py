"""Sphinx's settings: `make docs` builds the site into build/docs, and needs no network."""
import fnmatch
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frit  # noqa: E402

project = "frit"
copyright = "frit contributors, BSD-3-Clause"
version = release = frit.__version__
extensions = ["sphinx.ext.autodoc", "notebook_pages"]
exclude_patterns = ["_build"]
html_theme = "furo"         # light and dark, and nothing from other servers
html_title = f"frit {release}"
html_theme_options = {"source_repository": "", "light_css_variables": {"font-stack": "sans-serif"},
                      "dark_css_variables": {"font-stack": "sans-serif"}}
html_copy_source = html_show_sphinx = False
default_role = "code"       # `x` in docstrings is code
nitpicky = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True


def without_missing(app, docname, source):
    """Pages that others add may not be there yet: a pattern of index.rst that fits none is left out, which would be a warning."""
    if docname == "index":
        found = app.project.docnames
        lines = source[0].split("\n")
        source[0] = "\n".join(line for line in lines if not re.match(r" +\S*\*", line)
                              or any(fnmatch.fnmatch(name, line.strip()) for name in found))


def as_markup(app, what, name, obj, options, lines):
    """Docstrings are plain text: an indented block is a program, "name     what it is" a definition, and stars are stars."""
    out, after_blank, in_block, in_list = [], True, False, False
    for line in lines:
        indented, row = line.startswith("    "), re.match(r"(\w+(?:, \w+)*) {3,}(\S.*)", line)
        if indented and after_blank and not in_block:
            out += ["::", ""]
            in_block = True
        elif line.strip() and not indented:
            in_block = False
        if row and not in_block:
            out += ["", f"``{row[1]}``", "   " + row[2]]
        elif in_list and indented:
            out.append("   " + line.strip())
        else:
            out.append(line if in_block else re.sub(r"(?<!\*)(\*+)(?=\w)", lambda m: "\\*" * len(m[1]), line))
        in_list = bool(row) or in_list and indented
        after_blank = not line.strip()
    lines[:] = out


def setup(app):
    app.connect("source-read", without_missing)
    app.connect("autodoc-process-docstring", as_markup)
