"""The example in the page runs."""

import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "sweeps.md"


def test_the_page_s_example_runs_and_its_config_is_one(capsys):
    from dpjax import sweep

    text = PAGE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})
    assert "0.909" in capsys.readouterr().out  # 10/11
    (config,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    import tomllib

    assert sweep.from_table(tomllib.loads(config)).sweep.grid.shape == (3, 5)
