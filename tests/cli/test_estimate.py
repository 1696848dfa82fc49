"""`dpjax estimate`: a release, a CSV of another tool's noisy counts, a public table, and what is refused with nothing written."""

import csv

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dpjax.estimate import Noise, NoisyCounts, fit

STATES = ["home", "work", "shop", "gym", "=park"]
TRUE = np.array([[90, 30, 9, 0, 4], [40, 60, 20, 2, 0], [12, 25, 3, 0, 0], [0, 3, 1, 0, 0], [3, 0, 0, 0, 1]])


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    from dpjax.cli import main

    folder = tmp_path_factory.mktemp("release")
    (folder / "labels.txt").write_text("\n".join(STATES) + "\n")
    rows = [f"{a},{b},{TRUE[i, j]}" for i, a in enumerate(STATES) for j, b in enumerate(STATES) if TRUE[i, j]]
    (folder / "counts.csv").write_text("from,to,count\n" + "\n".join(rows) + "\n")
    options = [
        "--epsilon",
        "2",
        "--mechanism",
        "discrete-laplace",
        "--labels",
        str(folder / "labels.txt"),
        "-o",
        str(folder / "out"),
    ]
    code = main(["privatize-model", str(folder / "counts.csv"), *options])
    assert code == 0
    return folder / "out"


@pytest.fixture
def noisy(tmp_path):
    path = tmp_path / "noisy.csv"
    path.write_text("from,a,b,c\na,20.5,3.25,-1.5\nb,4.0,11.0,0.5\nc,-2.0,1.0,7.5\n")
    return path


def test_a_release_is_estimated_with_intervals_and_files(release, call, tmp_path):
    out = tmp_path / "found"
    code, said, errors = call("estimate", release, "--of", "stationary,entropy,hitting:home:work,shares", "--draws", 50, "-o", out)
    assert code == 0, errors
    assert sorted(path.name for path in out.iterdir()) == [
        "answers.csv",
        "answers.nc",
        "answers.txt",
        "matrix.csv",
        "stationary.png",
    ]
    assert "expected steps from home to work" in said
    stored = xr.open_dataset(release / "model.nc", engine="h5netcdf").load()
    table = NoisyCounts(stored.noisy_count.values.astype(float), Noise("discrete-laplace", 1.0), labels=STATES)
    with open(out / "matrix.csv", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["from", *STATES[:4], "'=park"]
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), fit(table).shares, rtol=1e-12)
    with open(out / "answers.csv", newline="") as stream:
        answers = list(csv.DictReader(stream))
    assert sum(float(row["estimate"]) for row in answers if row["question"] == "stationary") == pytest.approx(1)
    assert all(float(row["lower"]) <= float(row["upper"]) for row in answers)
    again = call("estimate", release, "--of", "stationary,entropy,hitting:home:work,shares", "--draws", 50)
    assert again[1] == said.replace(f"{out}\n", "")


def test_noisy_counts_of_another_tool_and_a_public_table_are_read(noisy, call, tmp_path):
    earlier = tmp_path / "earlier.csv"
    earlier.write_text("from,c,b,a\nc,9,1,0\nb,1,8,3\na,0,2,25\n")  # the same states in another order
    code, said, errors = call("estimate", noisy, "--noise", "laplace", "--scale", 2, "--prior", earlier, "--draws", 40)
    assert code == 0, errors
    assert "weight of public table 1" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--noise, --scale are needed"),
        (["--noise", "laplace"], "--noise, --scale are needed"),
        (["--noise", "laplace", "--scale", "0"], "--scale"),
        (["--noise", "laplace", "--scale", "-1"], "--scale"),
        (["--noise", "discrete-laplace", "--scale", "2"], "not whole"),
        (["--noise", "laplace", "--scale", "2", "--of", "median"], "--of"),
        (["--noise", "laplace", "--scale", "2", "--of", "hitting:a:z"], "'z'"),
        (["--noise", "laplace", "--scale", "2", "--draws", "1"], "--draws"),
        (["--noise", "laplace", "--scale", "2", "--level", "2"], "--level"),
        (["--noise", "laplace", "--scale", "2", "--seed", str(2**70)], "--seed"),
        (["--noise", "laplace", "--scale", "2", "--of", "entropy,entropy"], "--of"),
    ],
)
def test_a_wrong_call_is_refused_and_nothing_is_written(noisy, call, tmp_path, arguments, says):
    out = tmp_path / "found"
    code, _, errors = call("estimate", noisy, *arguments, "-o", out)
    assert code == 2
    assert says in errors
    assert not out.exists()


def test_a_prior_with_other_labels_says_which(noisy, call, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("from,a,b,d\na,1,2,3\nb,1,2,3\nd,1,2,3\n")
    code, _, errors = call("estimate", noisy, "--noise", "laplace", "--scale", 2, "--prior", other)
    assert code == 2
    assert "lacks 'c'" in errors
    assert "adds 'd'" in errors


def test_other_folders_are_refused_and_a_wrong_prior_by_its_option(noisy, call, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "holds no model.nc" in call("estimate", tmp_path / "empty")[2]
    assert "does not exist" in call("estimate", tmp_path / "lost")[2]
    zeros = tmp_path / "zeros.csv"
    zeros.write_text("from,a,b,c\na,0,0,0\nb,0,0,0\nc,0,0,0\n")
    code, _, errors = call("estimate", noisy, "--noise", "laplace", "--scale", 2, "--prior", zeros)
    assert code == 2
    assert "--prior" in errors
    sums = tmp_path / "sums.csv"
    sums.write_text("from,a,b,total\na,1.5,2,3.5\nb,4,5,9\ntotal,5.5,7,12.5\n")
    assert "sums" in call("estimate", sums, "--noise", "laplace", "--scale", 2)[2]


def test_an_estimate_says_that_it_speaks_of_the_records_kept_of_persons(call, tmp_path):
    (tmp_path / "labels.txt").write_text("a\nb\n")
    rows = "".join(f"p{k // 3},{'ab'[k % 2]},{'ab'[k % 3 // 2]}\n" for k in range(60))
    (tmp_path / "pairs.csv").write_text("person,from,to\n" + rows)
    persons = ["--person-column", "person", "--records-per-person", 2]
    options = ["--epsilon", 2, "--mechanism", "discrete-laplace", "--labels", tmp_path / "labels.txt", *persons]
    made = call("privatize-model", tmp_path / "pairs.csv", *options, "-o", tmp_path / "out")
    assert made[0] == 0, made[2]
    code, said, errors = call("estimate", tmp_path / "out", "--draws", 30)
    assert code == 0, errors
    assert "at most 2 of a person" in said


def test_a_release_of_dirichlet_rows_is_refused(call, tmp_path, release):
    labels, counts = release.parent / "labels.txt", release.parent / "counts.csv"
    made = call("privatize-model", counts, "--epsilon", 2, "--delta", 1e-6, "--labels", labels, "-o", tmp_path / "rows")
    assert made[0] == 0, made[2]
    code, _, errors = call("estimate", tmp_path / "rows")
    assert code == 2
    assert "no noisy counts" in errors
    assert call("estimate", release, "--noise", "laplace", "--scale", 1)[0] == 2


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_synthetic_trajectories_have_the_labels_of_the_release(release, call, tmp_path, kind):
    out, again = tmp_path / f"paths.{kind}", tmp_path / f"again.{kind}"
    options = ["--trajectories", 30, "--length", "uniform:2:5", "--start", "work", "--seed", 4]
    code, said, errors = call("simulate", release, *options, "-o", out)
    assert code == 0, errors
    assert said == ""
    rows = pd.read_csv(out) if kind == "csv" else pd.read_parquet(out)
    assert list(rows.columns) == ["trajectory", "step", "state"]
    sizes = rows.groupby("trajectory").size()
    assert len(sizes) == 30
    assert sizes.between(2, 5).all()
    assert set(rows.state[rows.step == 0]) == {"work"}
    names = {*STATES[:4], "'=park" if kind == "csv" else "=park"}
    assert set(rows.state) <= names
    assert call("simulate", release, *options, "-o", again)[0] == 0
    assert out.read_bytes() == again.read_bytes()


def test_a_release_of_rows_is_simulated_from_its_probabilities(call, tmp_path, release):
    labels, counts = release.parent / "labels.txt", release.parent / "counts.csv"
    made = call("privatize-model", counts, "--epsilon", 2, "--delta", 1e-6, "--labels", labels, "-o", tmp_path / "rows")
    assert made[0] == 0, made[2]
    code, _, errors = call("simulate", tmp_path / "rows", "--trajectories", 5, "--length", 3, "-o", tmp_path / "paths.csv")
    assert code == 0, errors
    assert len((tmp_path / "paths.csv").read_text().splitlines()) == 16


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--length": "many"}, "--length"),
        ({"--length": "0"}, "--length"),
        ({"--trajectories": "0"}, "--trajectories"),
        ({"--start": "moon"}, "--start"),
        ({"--seed": "-1"}, "--seed"),
        ({"-o": "paths.xlsx"}, "--out"),
    ],
)
def test_a_wrong_simulation_is_refused_and_nothing_is_written(release, call, tmp_path, changed, says):
    options = {"--trajectories": "5", "--length": "3", "-o": "paths.csv", **changed}
    options["-o"] = str(tmp_path / options["-o"])
    code, _, errors = call("simulate", release, *(word for option in options.items() for word in option))
    assert code == 2
    assert says in errors
    assert not list(tmp_path.iterdir())
