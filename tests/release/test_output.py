"""The files of a release: whole or absent, readable by others, honest with strange labels."""

import json
import os
import pathlib

import numpy as np
import pytest

from dpjax._atomic import check_usable, write_folder
from dpjax.release import Plan, error_bars, read_release, write_private, write_release
from dpjax.release.model import dataset, spreadsheet_safe
from tests.release.conftest import records_of

STRANGE = ('=HYPERLINK("http://x")', "a,b", "two\nlines", "-3", '"quoted"', "@sum")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    plan = Plan.make(STRANGE, epsilon=1.0, delta=0.02, row_records=50)
    model = plan.draw(records_of(np.diag([900, 0, 5, 0, 2, 1])))
    folder = tmp_path_factory.mktemp("out") / "release"
    write_release(model, plan.statement(), folder)
    return plan, model, folder


def test_the_files_hold_the_release(written):
    import pandas as pd

    plan, model, folder = written
    assert sorted(path.name for path in folder.iterdir()) == ["model.csv", "model.nc", "statement.json", "statement.txt"]
    stored = read_release(folder / "model.nc")
    assert stored["from"].values.tolist() == stored["to"].values.tolist() == list(STRANGE)
    assert np.array_equal(stored.probability.values, model.probabilities)
    assert np.array_equal(stored.draws.values, model.draws)
    assert json.loads(stored.attrs["privacy_statement"]) == json.loads((folder / "statement.json").read_text())
    table = pd.read_csv(folder / "model.csv", index_col=0)
    assert np.array_equal(table.values, model.probabilities)
    assert list(table.columns) == ["'" + STRANGE[0], "a,b", "two\nlines", "-3", '"quoted"', "'@sum"]
    assert list(table.index) == list(table.columns)
    assert plan.statement()["epsilon"] == stored.attrs["epsilon"] == 1.0


def test_quantecon_reads_it(written):
    from quantecon import MarkovChain

    stored = read_release(written[2] / "model.nc")
    chain = MarkovChain(stored.probability.values, state_values=stored["from"].values)
    assert chain.is_irreducible
    assert chain.stationary_distributions.shape == (1, 6)


def test_labels_that_a_spreadsheet_would_run():
    assert [spreadsheet_safe(x) for x in ("=1", "+a", "-a", "@a", "\tx")] == ["'=1", "'+a", "'-a", "'@a", "'\tx"]
    assert [spreadsheet_safe(x) for x in ("-3", "+4.5", "a=1", "")] == ["-3", "+4.5", "a=1", ""]


def test_no_two_labels_become_one_in_a_spreadsheet_and_all_come_back(tmp_path):
    import pandas as pd

    from dpjax.release import read_public_labels

    labels = ("=x", "'=x", "''=x", "x", "'x", "'", "''", "-3", "'-3", "@a", "'tis")
    assert len({spreadsheet_safe(label) for label in labels}) == len(labels)
    (tmp_path / "labels.csv").write_text("\n".join(labels) + "\n")
    names = read_public_labels(tmp_path / "labels.csv")
    assert names == labels
    plan = Plan.make(names, epsilon=1.0, delta=0.02, row_records=50)
    write_release(plan.draw(records_of(np.eye(len(labels), dtype=int))), plan.statement(), tmp_path / "out")
    table = pd.read_csv(tmp_path / "out" / "model.csv", index_col=0)
    for axis in (table.index, table.columns):
        assert tuple(str(name).removeprefix("'") for name in axis) == labels
        assert not [name for name in axis if str(name)[0] in "=+@"]


def test_a_place_is_tried_before_it_is_used(tmp_path):
    check_usable(tmp_path / "new", "--out")
    assert list(tmp_path.iterdir()) == []
    for wrong, said in (
        ("n" * 300, "Nothing can be written there"),
        ("no/new", "folder does not exist"),
        (".", "It already exists"),
    ):
        with pytest.raises(ValueError, match=rf"^--out is .*{said}"):
            check_usable(tmp_path / wrong, "--out")
    with pytest.raises(ValueError, match="Nothing can be written there"):
        check_usable(pathlib.Path("/proc/new"), "--out")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_nothing(tmp_path):
    def fail(path: pathlib.Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_folder(tmp_path / "out", {"a": lambda path: path.write_text("whole"), "b": fail})
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_touched(tmp_path, written):
    plan, model, _ = written
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").write_text("mine")
    for name in ("link", "file"):
        with pytest.raises(ValueError, match="It already exists"):
            write_release(model, plan.statement(), tmp_path / name)
        with pytest.raises(ValueError, match="It already exists"):
            write_private(tmp_path / name, "text")
    with pytest.raises(ValueError, match="Its folder does not exist"):
        write_release(model, plan.statement(), tmp_path / "no" / "out")
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


def test_the_private_report_is_its_owners_alone(tmp_path, monkeypatch):
    write_private(tmp_path / "report.txt", "text")
    assert os.stat(tmp_path / "report.txt").st_mode & 0o777 == 0o600
    monkeypatch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError(5, "failed")))
    with pytest.raises(OSError, match="failed"):
        write_private(tmp_path / "other.txt", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


@pytest.mark.statistical
def test_error_bars_cover_the_means_and_with_known_totals_the_shares(plan):
    """Chebyshev promises level .8 a cell; 300 releases, 9 cells: below 0.77 with probability under 1e-9. Bars a third as wide fail."""
    matrix = np.array([[40, 3, 0], [0, 0, 0], [5, 0, 900]])
    alpha, totals = float(plan.form.pseudocount), matrix.sum(axis=1, keepdims=True)
    means = (matrix + alpha) / (totals + 3 * alpha)
    shares = matrix / np.maximum(totals, 1)
    covered, narrow, known, wide = [], [], [], []
    for _ in range(300):
        data = dataset(plan.draw(records_of(matrix)), plan.statement())
        bars = error_bars(data, level=0.8)
        covered.append((bars.lower.values <= means) & (means <= bars.upper.values))
        narrow.append(np.abs(bars.estimate.values - means)[1] < bars.standard_error.values[1] / 3)
        better = error_bars(data, level=0.8, row_records=np.maximum(totals[:, 0], 1))
        known.append(((better.lower.values <= shares) & (shares <= better.upper.values))[[0, 2]])
        wide.append((bars.upper - bars.lower).values[2].mean() > (better.upper - better.lower).values[2].mean())
    assert np.mean(covered, axis=0).min() > 0.77
    assert np.mean(known, axis=0).min() > 0.77
    assert np.mean(narrow) < 0.77
    assert np.mean(wide) > 0.9


def test_error_bars_read_a_folder_and_check_their_inputs(written):
    bars = error_bars(written[2])
    assert set(bars.data_vars) == {"estimate", "standard_error", "lower", "upper"}
    assert bool((bars.lower <= bars.estimate).all())
    assert bool((bars.estimate <= bars.upper).all())
    with pytest.raises(ValueError, match="level is 1"):
        error_bars(written[2], level=1)
    with pytest.raises(ValueError, match="row_records is 0"):
        error_bars(written[2], row_records=0)
