"""The example of the page and the docstrings' run."""

import doctest
import pathlib
import re

from dpjax import _exact
from dpjax.counts import accountant
from dpjax.release import secret, statement

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
    assert doctest.testmod(_exact) == (0, 3)
    assert doctest.testmod(secret) == (0, 4)
    assert doctest.testmod(accountant) == (0, 4)
    assert doctest.testmod(statement) == (0, 2)
