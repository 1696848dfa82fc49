"""The tidy table as a file."""

import numpy as np
import pandas
import pytest
import sweep_normals

from dpjax import sweep


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    config = sweep.from_table(
        {
            "name": "t",
            "workload": "sweep_normals:build",
            "sweep": {"samples": 20, "block": 16, "axes": {"mu": [0.0, 1.0]}, "keep_samples": ["x"]},
        }
    )
    out = tmp_path_factory.mktemp("table") / "out"
    sweep.run(sweep.plan(config, sweep_normals.Normals(), out=out))
    return sweep.open(out)


@pytest.mark.parametrize(("ending", "read"), [("csv", pandas.read_csv), ("parquet", pandas.read_parquet)])
def test_both_endings_hold_the_table(tmp_path, results, ending, read):
    sweep.write_table(results, tmp_path / f"t.{ending}")
    back = read(tmp_path / f"t.{ending}")
    assert len(back) == len(sweep.to_table(results)) == 2 * (1 + 1 + 3 + 1 + 3)
    row = back[(back["quantity"] == "x") & (back["mu"] == 1.0)]
    np.testing.assert_allclose(row["value"], results["x_mean"].sel(mu=1.0), rtol=1e-12)
    assert [path.name for path in tmp_path.iterdir()] == [f"t.{ending}"]


def test_what_cannot_be_written_is_refused(tmp_path, results, monkeypatch):
    with pytest.raises(ValueError, match=r"End the name in \.csv or \.parquet"):
        sweep.write_table(results, tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match="folder does not exist"):
        sweep.write_table(results, tmp_path / "no" / "t.csv")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="Parquet needs pyarrow"):
        sweep.write_table(results, tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())
