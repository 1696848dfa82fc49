"""Every public name has its page, and every page is in the index."""

import importlib
import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
ROOMS = sorted(p.parent.name for p in (DOCS.parent / "dpjax").glob("*/__init__.py") if p.parent.name not in ("cli", "selection"))


def test_every_room_is_in_the_reference_with_all_that_it_exports():
    text = (DOCS / "reference.md").read_text()
    for room in ROOMS:
        assert f".. automodule:: dpjax.{room}\n" in text, room
        module = importlib.import_module(f"dpjax.{room}")
        assert all(hasattr(module, name) for name in module.__all__)
    for name in ("permute_and_flip", "exponential_mechanism"):
        assert f".. automodule:: dpjax.selection.{name}\n" in text


def test_every_page_is_in_the_index():
    index = (DOCS / "index.md").read_text()
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in DOCS.rglob("*.md") if "_build" not in p.parts} - {"index"}
    listed = set(re.findall(r"^([\w/-]+)$", index, flags=re.M))
    assert pages <= listed, pages - listed


def test_every_top_level_name_can_be_had_and_has_a_docstring():
    import dpjax

    for name in dpjax.__all__:
        value = getattr(dpjax, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name
