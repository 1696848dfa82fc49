"""The command from end to end: the shipped configs in small, on built-in and on real data, and every kind of bad input."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from dpjax import sweep
from dpjax.cli import main
from dpjax.cli.run import read_data
from experiments.chains import REAL as FILES

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"


def _run(config, out, *settings):
    changes = [word for setting in settings for word in ("--set", setting)]
    return main(["run", str(CONFIGS / config), "--out", str(out), *changes])


def test_the_grades_in_small(tmp_path, capsys):
    assert _run("grades.toml", tmp_path / "g", "sweep.samples=50", "sweep.axes.k=[20.6, 110.6]") == 0
    printed = capsys.readouterr().out
    assert "Synthetic grades" in printed
    assert (tmp_path / "g" / "figures" / "grades-kl.png").exists()
    assert sweep.open(tmp_path / "g").sizes["k"] == 2


def test_the_synthetic_manhattan_in_small_and_drawn_again(tmp_path, capsys):
    out = tmp_path / "m"
    assert _run("manhattan.toml", out, "sweep.samples=64", "sweep.axes.k_factor=[1.0, 3.0]") == 0
    printed = capsys.readouterr().out
    assert "dropped 1,195 in transitions seen fewer than 12 times" in printed
    assert "support: observed in the data, treated as public by the user's declaration" in printed
    assert "67 rows" in printed
    names = {path.name for path in (out / "figures").iterdir()}
    assert {"manhattan-map.png", "manhattan-rows.pdf", "manhattan-stationary-error.png"} <= names
    for path in (out / "figures").iterdir():
        path.unlink()
    assert main(["plot", str(out)]) == 0
    assert {path.name for path in (out / "figures").iterdir()} == names


def test_the_real_green_taxis(tmp_path, shared_data, capsys):
    path = shared_data / "nyc_tlc" / "green_tripdata_2025-11.parquet"
    settings = (f"data.path={path}", "sweep.samples=4", "sweep.axes.epsilon=[2.0, 8.0]", "data.at_least=3")
    assert _run("taxis.toml", tmp_path / "t", *settings) == 0
    printed = capsys.readouterr().out
    assert "Read 46,912 trips" in printed
    assert "can be private, exact accounting, delta 1e-06" in printed
    assert "The whole matrix" in printed
    results = sweep.open(tmp_path / "t")
    withheld = results["n_withheld"].values
    assert withheld[0] > withheld[1]
    drawn = results["row_drawn"].isel(epsilon=0) == 1
    assert (results["row_least_exact"].isel(epsilon=0).where(drawn, 0) <= 2.0).all()
    assert (results["exact_epsilon"] <= results["epsilon"]).all()


def test_the_real_class_of_98(tmp_path, shared_data):
    path = shared_data / "grades" / "gatech_calculus_sections_2013-14.csv"
    assert _run("grades-file.toml", tmp_path / "g", f"data.path={path}", "sweep.samples=10", "sweep.axes.k=[20.6]") == 0
    results = sweep.open(tmp_path / "g")
    np.testing.assert_allclose(results["share"].isel(k=0), np.array([26, 20, 22, 11, 11]) / 90)


SMALL = ("sweep.samples=40", "sweep.block=40", "sweep.axes.epsilon=[1.0]", 'sweep.axes.start=["sensitive"]')
TRAJECTORIES = ("credit", "roads", "links", "sp-ratings", "thessaloniki", "wikispeedia")


def test_private_trajectories_in_small_and_their_claims(tmp_path, capsys):
    from experiments import claims

    name, three = "roads", ('sweep.axes.kind=["mechanism1", "mechanism1", "chen"]', "sweep.axes.matched=[false, true, false]")

    assert _run(f"{name}.toml", tmp_path / "t", *SMALL[:3], *three) == 0
    entropies = (*SMALL[:2], "sweep.axes.epsilon=[3.0]", "mechanism.trajectory.steps=10", "mechanism.lengths=[1, 5, 10]")
    assert _run(f"{name}-entropy.toml", tmp_path / "e", *entropies, *three) == 0
    assert "Synthetic" in capsys.readouterr().out
    figures = {path.name for path in (tmp_path / "t" / "figures").iterdir()}
    assert {f"{name}-tails.png", f"{name}-tails-uniform.pdf", f"{name}-samples.png"} <= figures
    assert (tmp_path / "e" / "figures" / f"{name}-entropy-entropy.png").exists()
    rows = claims.tail_rows(sweep.open(tmp_path / "t")) + claims.entropy_rows(sweep.open(tmp_path / "e"))
    assert {row.id for row in rows} == {"B1", "B2", "B3", "B4", "B6"}
    for row in rows:
        assert "papers' parameters: " in row.ours
        assert "matched: " in row.ours
        assert "Synthetic" in row.data


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_every_config_of_trajectories_can_be_planned(tmp_path, shared_data, name):
    files = [f"data.{key}={shared_data / file}" for key, file in FILES.get(name, {}).items()]
    for config in (name, f"{name}-entropy"):
        settings = sweep.load_config(CONFIGS / f"{config}.toml", files)
        workload = sweep.build(settings.workload, read_data(settings), settings.mechanism)
        assert sweep.plan(settings, workload, out=tmp_path / config).grid.size >= 18


def test_the_roads_of_thessaloniki(tmp_path, shared_data):
    files = [f"data.{key}={shared_data / file}" for key, file in FILES["thessaloniki"].items()]
    assert _run("thessaloniki.toml", tmp_path / "t", *files, *SMALL) == 0
    results = sweep.open(tmp_path / "t")
    assert results.sizes["state"] == 43
    chen = results.isel(kind_matched=list(results["kind"].values).index("chen"))
    assert float(chen["substitution_epsilon"].squeeze()) == pytest.approx(1.0)
    matched = results.isel(kind_matched=1)
    assert float(matched["substitution_epsilon"].squeeze()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.slow
def test_wikispeedia_states_a_bound(tmp_path, shared_data):
    path = shared_data / "wikispeedia" / "paths_finished.tsv.gz"
    few = ('sweep.axes.kind=["mechanism1"]', "sweep.axes.matched=[true]", "mechanism.trajectory.steps=3", "mechanism.lengths=[3]")
    assert _run("wikispeedia.toml", tmp_path / "w", f"data.path={path}", *SMALL, *few, "mechanism.sample_paths=false") == 0
    results = sweep.open(tmp_path / "w").squeeze()
    assert int(results["substitution_exact"]) == 0
    assert float(results["substitution_epsilon"]) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    "setting",
    [
        "mechanism.rho=0.0",
        "mechanism.trajectory.source=data2",
        'mechanism.trajectory={source="labels", labels=["AAA", "D"]}',  # the best rating does not default within a year
        'mechanism.trajectory={source="labels", labels=["A"]}',
        "mechanism.thresholds=[-1.0]",
        "mechanism.lengths=[11]",
        'sweep.axes.kind=["mechanism3", "mechanism1", "chen", "hamming", "prior"]',
        "sweep.axes.epsilon=[0.0]",  # matched
        'sweep.axes.start=["E"]',
        "data.source=grades",
    ],
)
def test_a_bad_config_of_trajectories_gives_one_sentence_and_writes_nothing(tmp_path, capsys, setting):
    _refused(capsys, _run("credit.toml", tmp_path / "out", setting), tmp_path / "out")


def test_the_three_readings_of_eleven():
    from dpjax import datasets
    from experiments import trajectories

    (row,) = trajectories.differing_transitions(datasets.ratings())
    assert row.id == "B7"
    assert "1 for two distinct states" in row.ours
    assert "9999 for a state and itself" in row.ours
    assert "no two distinct trajectories are adjacent" in row.ours
    assert "11 does not hold on this data" in row.ours


def test_a_verdict_is_made_of_its_inequalities():
    from experiments.claims import verdict

    assert verdict([True, True]) == "holds"
    assert verdict([True, False]) == "holds in part (1 of 2)"
    assert verdict([False, False]) == "does not hold on this data"


GOOD = "a,b\n5,4\n3,6\n"
BAD_COUNTS = {
    "negative": "a,b\n5,-4\n3,6\n",
    "fractional": "a,b\n5,4.5\n3,6\n",
    "not finite": "a,b\n5,inf\n3,6\n",
    "not a number": "a,b\n5,nan\n3,6\n",
    "an empty row": "a,b\n5,4\n0,0\n",
    "not square": "a,b\n5,4\n",
    "ragged": "a,b\n5,4\n3\n",
    "one category": "a\n5\n",
    "reducible": "a,b,c\n5,0,0\n0,5,1\n0,2,3\n",
    "nothing": "",
    "cut in the middle of a letter": "a,\xe4\n5,4\n3,6\n",
}


@pytest.mark.parametrize("name", BAD_COUNTS)
def test_bad_counts_give_one_sentence_and_write_nothing(tmp_path, capsys, name):
    path = tmp_path / "counts.csv"
    path.write_bytes(BAD_COUNTS[name].encode("latin-1"))
    settings = ('data={source="count-matrix"}', f"data.path={path}", "sweep.axes.k_factor=[1.0]", "sweep.samples=4")
    code = _run("manhattan.toml", tmp_path / "out", *settings)
    _refused(capsys, code, tmp_path / "out")


def test_good_counts_pass_the_same_way(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(GOOD)
    settings = ('data={source="count-matrix"}', f"data.path={path}", "sweep.axes.k_factor=[1.0]", "sweep.samples=4")
    assert _run("manhattan.toml", tmp_path / "out", *settings, "mechanism.eta=0.1", "mechanism.gamma=1e-6") == 0


@pytest.mark.parametrize(
    "setting",
    [
        "mechanism.eta=0.09",  # above the smallest share, 8/98
        "mechanism.gamma=0.2",  # 1/n
        "mechanism.etta=0.07",
        "sweeep.samples=3",
        "sweep.sample=3",
        "data.source=gradess",
        "data.paths=x",
        "sweep.samples=-1",
        "sweep.axes.k=[0.0]",
        "sweep.axes.kk=[1.0]",
        "workload=dirichlet-vectors",
        "mechanism.eta=nan",
    ],
)
def test_a_bad_config_gives_one_sentence_and_writes_nothing(tmp_path, capsys, setting):
    _refused(capsys, _run("grades.toml", tmp_path / "out", setting), tmp_path / "out")


def test_a_file_that_is_no_trip_record(tmp_path, capsys):
    import pyarrow
    import pyarrow.parquet

    table = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2]}), table)
    broken = tmp_path / "b.parquet"
    broken.write_bytes(table.read_bytes()[:-20])
    for path in (table, broken, tmp_path / "missing.parquet"):
        code = _run("taxis.toml", tmp_path / "out", f"data.path={path}")
        _refused(capsys, code, tmp_path / "out")


def _refused(capsys, code, out):
    captured = capsys.readouterr()
    assert code == 2
    assert re.fullmatch(r"dpjax: error: [^\n]+\n", captured.err), captured.err
    assert "Traceback" not in captured.err
    assert not out.exists()


def test_the_command_as_a_process():
    done = subprocess.run([sys.executable, "-m", "dpjax.cli", "run", "nowhere.toml"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("dpjax: error: CONFIG is 'nowhere.toml'. It cannot be read")


def test_the_reproduction_table(tmp_path):
    from experiments import reproduction

    rows = {row.id: row for row in reproduction.accounting_rows()}
    assert rows["A1"].ours.startswith("2.2119 by (6); 2.1710 by (6) corrected; 0.6294 exact")
    assert rows["A2"].ours.startswith("0.001995 by (7)")
    assert "at k=31.16" in rows["A4"].ours
    written = reproduction.write(list(rows.values()), tmp_path)
    assert all(path.stat().st_size > 500 for path in written)
