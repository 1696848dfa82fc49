"""The examples of the package's docs page and docstrings run, and print what they say."""

import contextlib
import doctest
import importlib
import io
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "datasets.md"


def test_the_page_runs_and_prints_what_its_comments_say():
    printed = io.StringIO()
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), {})
    for said in ("43 25000 True", "kept 2,932,703; dropped 1,195 in transitions seen fewer than 12 times.", "100000"):
        assert said in printed.getvalue()


@pytest.mark.parametrize("name", ["registry", "config"])
def test_the_docstring_examples_run(name):
    found = doctest.testmod(importlib.import_module(f"dpjax.datasets.{name}"))
    assert (found.failed, found.attempted) == (0, 1)
