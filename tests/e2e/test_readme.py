"""The README's Python runs as it stands, and says what its comments say."""

import pathlib
import re

import pytest

README = pathlib.Path(__file__).resolve().parents[2] / "README.md"


def test_the_readme_runs_and_its_figures_are_true(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)
    names = {}
    exec("\n".join(blocks), names)
    m, best = names["best"].__class__(k=20.6, eta=0.073, n_records=98, n_categories=5, gamma=4e-4), names["best"]
    assert (round(float(m.epsilon), 4), round(float(m.delta), 7)) == (2.2119, 0.0019953)
    assert round(float(m.exact_epsilon(0.0026)), 4) == 0.6294
    assert round(best.k, 1) == 249.2
    assert best.calibrate(
        epsilon=2.255, delta=0.0026, eta=0.073, n_records=98, n_categories=5, accounting="theorem1"
    ).k == pytest.approx(22.0, abs=0.05)
    assert "replacing any one state by any other" in capsys.readouterr().out
    assert 0 < names["law"].exceedance(3.0) < 1
