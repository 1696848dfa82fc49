"""The pages' Python runs."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", ["release-trajectory.md", "comparison.md"])
def test_the_page_runs(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.S)
    assert blocks
    for block in blocks:
        exec(block, {})
    assert capsys.readouterr().out
