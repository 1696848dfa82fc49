"""The example of the room's page and the docstrings' run."""

import doctest
import pathlib
import re

from dpjax import _exact as urn
from dpjax.counts import accountant as spreads
from dpjax.release import secret as persons

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "release.md"


def test_the_page_runs(tmp_path, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    names = {"out": tmp_path / "release"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert (tmp_path / "release" / "statement.txt").exists()
    assert "pseudo-records" in capsys.readouterr().out


def test_the_docstrings_run():
    assert doctest.testmod(urn) == (0, 2)
    assert doctest.testmod(persons) == (0, 4)
    assert doctest.testmod(spreads) == (0, 2)
