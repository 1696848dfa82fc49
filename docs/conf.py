"""Sphinx settings: Markdown pages, notebooks that run during the build, and a reference made from the docstrings."""

import importlib
import inspect
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

project = "dpjax"
author = "The dpjax developers"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
napoleon_numpy_docstring = False
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"  # a notebook runs again when its code has changed
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 300
html_theme = "furo"
html_title = "dpjax"
exclude_patterns = ["_build", "jupyter_execute"]
autodoc_typehints = "none"  # the signature shows names and defaults; `_types` writes the types beside the parameters
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}


def _as_restructured_text(app, what, name, obj, options, lines):
    """Docstrings are plain prose with `code` in single backticks: mark the code, escape the rest of the markup."""
    in_example = False  # code and its output, up to the next blank line, stay as they are
    for i, line in enumerate(lines):
        in_example = bool(line.strip()) and (in_example or line.lstrip().startswith(">>>"))
        if in_example:
            continue
        pieces = re.split(r"(`[^`]+`)", line)
        lines[i] = "".join(f"`{p}`" if p.startswith("`") and len(p) > 2 else re.sub(r"([*|\\_])", r"\\\1", p) for p in pieces)


def _types(app, what, name, obj, options, lines):
    """Add the type and shape of each parameter and of the result as they stand in the code, such as `Float[Array, "n n"]`.

    The evaluated annotations are long and unreadable. Every module has postponed annotations, so the signature holds the source text.
    """
    if what not in ("function", "method", "class"):
        return
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return
    described = {found[1] for line in lines if (found := re.match(r":param \\?\*{0,2}(\w+)(?:\\_)?:", line.replace("\\_", "_")))}
    fields = []
    for parameter in signature.parameters.values():
        if not isinstance(parameter.annotation, str) or parameter.name.startswith("_"):
            continue
        shown = parameter.name.replace("_", r"\_")
        if parameter.name not in described:
            fields.append(f":param {shown}:")
        fields.append(f":type {shown}: ``{parameter.annotation}``")
    result = signature.return_annotation
    if what != "class" and isinstance(result, str) and result != "None":
        fields.append(f":rtype: ``{result}``")
    if fields:
        at = next((i for i, line in enumerate(lines) if line.startswith(":")), None)
        if at is None:
            lines += ["", *fields, ""]
        else:
            lines[at:at] = fields


COLON = "\ue000"  # stands for a colon while Napoleon reads the docstring of a property


def _hide_colons(app, what, name, obj, options, lines):
    """Napoleon takes what stands before a colon in the docstring of a property for its type."""
    if what in ("property", "attribute", "data"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def _show_colons(app, what, name, obj, options, lines):
    lines[:] = [line.replace(COLON, ":") for line in lines]


def _load_all_names(app):
    """Some packages load a public name when it is first used; autodoc finds only names that are loaded."""
    for package in sorted((HERE.parent / "dpjax").glob("*/__init__.py")):
        module = importlib.import_module(f"dpjax.{package.parent.name}")
        for name in getattr(module, "__all__", ()):
            setattr(module, name, getattr(module, name))


def _draw_gallery(app):
    """The figures of the gallery are drawn from small runs, the first time the documentation is built."""
    from experiments import gallery

    gallery.make(HERE / "_build" / "gallery")


def setup(app):
    app.connect("builder-inited", _load_all_names)
    app.connect("builder-inited", _draw_gallery)
    app.connect("autodoc-process-docstring", _hide_colons, priority=100)
    app.connect("autodoc-process-docstring", _as_restructured_text)
    app.connect("autodoc-process-docstring", _types, priority=900)
    app.connect("autodoc-process-docstring", _show_colons, priority=950)
