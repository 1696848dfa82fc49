"""Figures are drawn from stored results alone, whole or not at all, and say what they show."""

import pathlib

import numpy as np
import pytest
import xarray as xr

from dpjax import plot
from dpjax.plot import comparison, matrix, style


def _vector():
    k = np.linspace(20.0, 100.0, 5)
    names = ("kl_mean", "kl_sem", "expected_kl", "expected_kl_bound", "theorem1_epsilon", "exact_epsilon", "at_delta")
    return xr.Dataset(
        dict.fromkeys(names, ("k", 1 / k)) | {"samples": ("k", np.full(5, 2000))},
        coords={"k": k},
        attrs={"name": "g", "workload": "dirichlet-vector", "data_source": "Synthetic grades of 98."},
    )


def _matrix(axis="k_factor"):
    x = np.array([1.0, 2.0, 3.0])
    n = 4
    cell = dict.fromkeys(("tv_mean", "tv_sem", "tv_bound", "theorem1_epsilon", "exact_epsilon", "at_delta"), (axis, 0.1 / x))
    cell |= {"status": (axis, np.full(3, "done"))}
    cell |= {"tv_bound_printed": (axis, 2 / x), "samples": (axis, np.full(3, 100)), "n_withheld": (axis, np.zeros(3, int))}
    by_state = {
        "stationary": 0.25,
        "stationary_draw": 0.25,
        "row_records": 50.0,
        "row_categories": 3,
        "row_eta": 0.1,
        "row_k": 15.0,
    }
    by_state |= {"row_drawn": 1, "row_least_theorem1": 2.0, "row_least_exact": 1.0}
    values = {name: ((axis, "state"), np.full((3, n), value)) for name, value in by_state.items()}
    return xr.Dataset(
        cell | values,
        coords={axis: x, "state": [f"z{i}" for i in range(n)]},
        attrs={"name": "m", "workload": "dirichlet-matrix", "data_source": "Synthetic trips."},
    )


OUTLINES = [[[[i, 0], [i + 1, 0], [i + 1, 1], [i, 0]]] for i in range(4)]


def test_the_figures_of_a_vector(tmp_path):
    written = plot.draw(_vector(), tmp_path)
    assert [path.name for path in written] == ["g-kl.png", "g-kl.pdf"]
    assert all(path.stat().st_size > 5000 for path in written)
    assert sorted(tmp_path.iterdir()) == sorted(written)


@pytest.mark.parametrize("axis", ["k_factor", "epsilon"])
def test_the_figures_of_a_matrix(tmp_path, axis):
    stems = {path.stem for path in plot.draw(_matrix(axis), tmp_path, OUTLINES)}
    assert stems == {"m-rows", "m-stationary-error", "m-map"}
    assert {path.stem for path in plot.draw(_matrix(axis), tmp_path / "other")} == {"m-rows", "m-stationary-error"}


def test_every_figure_names_its_data_its_samples_and_its_units():
    words = [
        " ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))
        for figure in (comparison.vector_figure(_vector()), matrix.error_figure(_matrix()))
    ]
    assert "Synthetic grades of 98." in words[0]
    assert "2,000 draws" in words[0]
    assert "(nats)" in words[0]
    assert "Synthetic trips." in words[1]
    assert "100 privatizations" in words[1]
    assert "(nats)" in words[1]


def test_a_vacuous_bound_is_left_out_and_said_to_be():
    results = _matrix()
    results["tv_bound_printed"] = results["tv_bound_printed"] + 1
    words = " ".join(t.get_text() for t in matrix.error_figure(results).findobj(lambda a: hasattr(a, "get_text")))
    assert "Vacuous (1 or more)" in words
    assert "Theorem 4 as printed" in words


def test_what_is_unknown_draws_nothing(tmp_path):
    results = _vector()
    results.attrs["workload"] = "somebody:else"
    assert plot.draw(results, tmp_path) == []


def test_the_rows_in_words():
    words = matrix.describe(_matrix())
    assert "4 rows, 200 records" in words
    assert "| 1 | 4 rows | 100.0% | 0 rows |" in words
    assert "from epsilon 1 on" in words
    assert "by A-Theorem 1 from epsilon 2" in words
    assert "Least epsilon of a row by exact accounting: 1 smallest, 1 median, 1 largest." in words
    assert matrix.table(_matrix()).splitlines()[1].startswith("z0,")


def test_rows_are_read_off_the_first_cell_that_was_computed():
    results = _matrix()
    results["status"] = results["status"].astype(object)
    results["status"][0] = "failed"
    results["row_records"][0] = np.nan
    assert matrix.has_rows(results)
    assert "4 rows, 200 records" in matrix.describe(results)
    results["status"][:] = "failed"
    assert not matrix.has_rows(results)


def test_a_row_that_nothing_covers_is_named():
    results = _matrix()
    results["row_least_exact"][:, 2] = np.inf
    results["row_least_theorem1"][:, 2] = np.inf
    words = matrix.describe(results)
    assert "cannot be made private" in words
    assert "rows z2 have no adjacent database" in words
    assert "1 rows at no epsilon" in words


def test_a_map_in_degrees_is_stretched_and_a_tile_map_is_not():
    degrees = np.array([[-74.0, 40.7], [-73.9, 40.9]])
    assert style._aspect(degrees) == pytest.approx(1 / np.cos(np.radians(40.8)))
    assert style._aspect(np.array([[0.0, 0.0], [5.0, 17.0]])) == 1


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    figure = comparison.vector_figure(_vector())
    monkeypatch.setattr(type(figure), "savefig", lambda self, path, **_: (pathlib.Path(path).write_text("half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        style.save(figure, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_users_own_settings_of_matplotlib_stay():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    comparison.vector_figure(_vector())
    assert dict(mpl.rcParams) == before


def test_lines_differ_without_colour():
    seen = {(str(style.line(i)["linestyle"])) for i in range(len(style.PALETTE))}
    assert len(seen) == len(style.PALETTE)
