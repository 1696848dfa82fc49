"""Sphinx settings: Markdown pages, one for each package, and a reference made from the docstrings."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

project = "dpjax"
author = "The dpjax developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
napoleon_numpy_docstring = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "dpjax"
exclude_patterns = ["_build"]
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True, "show-inheritance": False}


def _as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain prose with `code` in single backticks: mark the code, escape the rest of the markup."""
    in_example = False  # code and its output, up to the next blank line, stay as they are
    for i, line in enumerate(lines):
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if in_example:
            continue
        pieces = re.split(r"(`[^`]+`)", line)
        lines[i] = "".join(f"`{p}`" if p.startswith("`") and len(p) > 2 else re.sub(r"([*|\\_])", r"\\\1", p) for p in pieces)


def _draw_gallery(app):
    """The figures of the gallery are drawn from small runs, the first time the documentation is built."""
    from experiments import gallery

    gallery.make(HERE / "_build" / "gallery")


def setup(app):
    app.connect("builder-inited", _draw_gallery)
    app.connect("autodoc-process-docstring", _as_restructured_text)
