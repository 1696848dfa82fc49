"""The page's Python runs as it stands."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "sensitivity.md"


def test_the_walk_from_a_question_to_a_gradient_runs(capsys):
    names = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)), names)
    assert names["by_epsilon"] < 0  # more epsilon, a lighter tail
    assert "in log p" in capsys.readouterr().out
