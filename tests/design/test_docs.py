"""The examples of the page run as they stand, one after the other."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "design.md"


def test_the_examples_of_the_page_run(capsys):
    names: dict = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    assert "private: exact delta" in capsys.readouterr().out
