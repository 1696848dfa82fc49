"""Figures of private trajectories come from stored results alone, and say which guarantee, which data, how many draws, and in which unit."""

import json

import numpy as np
import pytest
import xarray as xr

from dpjax import plot
from dpjax.plot import trajectory

KINDS = (("mechanism1", False), ("mechanism1", True), ("chen", False), ("prior", True))


def _results(*, starts=("sensitive",), thresholds=(0.0, 1.0, 2.0, 4.0), lengths=(1, 5, 10), places=None, bound=False):
    epsilons, shape = (1.0, 3.0), (2, len(KINDS), len(starts))
    dims = ("epsilon", "kind_matched", "start")
    epsilon = np.broadcast_to(np.array(epsilons)[:, None, None], shape)
    v, n = np.array(thresholds), np.array(lengths)
    tail = np.broadcast_to(np.exp(-3 * v), (*shape, len(v)))
    flat = np.broadcast_to(np.log(n + 1.0), (*shape, len(n)))
    spent = np.where(np.array([k == ("mechanism1", False) for k in KINDS])[None, :, None], 7 * epsilon, epsilon)
    values = {
        "exceedance": ((*dims, "threshold"), tail),
        "exceeds_mean": ((*dims, "threshold"), np.round(tail, 3)),
        "exceeds_sem": ((*dims, "threshold"), tail / 10),
        "expected_entropy": ((*dims, "length"), flat),
        "entropy_mean": ((*dims, "length"), flat),
        "entropy_sem": ((*dims, "length"), flat / 50),
        "chain_entropy": ((*dims, "length"), flat / 2),
        "chain_entropy_deviation": ((*dims, "length"), flat / 5),
        "sensitive_entropy": ((*dims, "length"), flat / 3),
        "metric_rate": (dims, epsilon),
        "substitution_epsilon": (dims, spent),
        "substitution_exact": (dims, np.full(shape, 0.0 if bound else 1.0)),
        "samples": (dims, np.full(shape, 10_000)),
        "status": (dims, np.full(shape, "done", dtype=object)),
    }
    coords = {
        "epsilon": list(epsilons),
        "kind": ("kind_matched", [k for k, _ in KINDS]),
        "matched": ("kind_matched", [m for _, m in KINDS]),
        "start": list(starts),
        "threshold": v,
        "length": n,
    }
    path = np.array([0, 1, 2, 1])
    for name, states in (("sensitive_path", path), ("private_path", np.array([0, 2, 2, 1]))):
        values[name] = ((*dims, "step"), np.broadcast_to(states, (*shape, 4)))
    coords |= {"step": np.arange(4), "state": ["AA", "BB", "CC"]}
    if places is not None:
        values["place"] = ((*dims, "state", "end", "axis"), np.broadcast_to(places, (*shape, 3, 2, 2)))
    law = {"mechanism": {"rho": 1.0, "trajectory": {"source": "simulated", "seed": 4}}}
    attrs = {"name": "t", "workload": "trajectory", "data_source": "Synthetic chain of three states.", "law": json.dumps(law)}
    return xr.Dataset(values, coords=coords, attrs=attrs)


def _said(figure):
    return " ".join(t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text"))).replace("\n", " ")


def test_every_figure_that_the_results_hold_is_written(tmp_path):
    stems = {path.stem for path in plot.draw(_results(starts=("sensitive", "uniform")), tmp_path)}
    both = {"t-tails", "t-tails-by-epsilon", "t-entropy"}
    assert stems == both | {f"{stem}-uniform" for stem in both} | {"t-samples"}
    assert {path.stem for path in plot.draw(_results(thresholds=(5.0,)), tmp_path / "e")} == {"t-entropy", "t-samples"}


def test_each_curve_names_both_guarantees_and_each_figure_its_data_samples_and_units():
    for figure in trajectory.figures(_results()).values():
        words = _said(figure)
        assert "Mechanism 1: rate 1, one state 7 nats" in words
        assert "Chen et al.: rate 1, one state 1 nats" in words
        assert "papers' parameters" in words
        assert "matched: one state costs" in words
        for said in (
            "Synthetic chain of three states.",
            "10,000 private trajectories",
            "nats",
            "simulated from the chain, seed 4",
            "exact",
        ):
            assert said in words
    assert "one state 7 nats (bound)" in _said(trajectory.tail_figure(_results(bound=True), "sensitive"))


def test_a_panel_compares_at_its_own_parameters():
    found = trajectory.at(_results(), epsilon=1.0, start="sensitive")

    def kinds(matched):
        chosen = trajectory.comparison(found, matched=matched)
        return [(trajectory.setting(cell, "kind"), bool(trajectory.setting(cell, "matched"))) for cell in chosen]

    assert kinds(False) == [("mechanism1", False), ("chen", False)]
    assert kinds(True) == [("mechanism1", True), ("chen", False), ("prior", True)]


def test_a_baseline_that_misses_the_target_is_not_in_the_matched_comparison():
    results = _results()
    results["substitution_epsilon"] = 2 * results["substitution_epsilon"]
    found = trajectory.comparison(trajectory.at(results, epsilon=1.0, start="sensitive"), matched=True)
    assert "chen" not in [trajectory.setting(cell, "kind") for cell in found]


def test_without_matched_cells_there_is_no_matched_panel():
    nominal = _results().isel(kind_matched=[0])
    assert len(trajectory.tail_figure(nominal, "sensitive").axes) == 1


def test_a_failed_cell_is_left_out():
    results = _results()
    results["status"][0, 0, 0] = "failed"
    assert len(trajectory.cells(results)) == 7
    trajectory.tail_figure(results, "sensitive")


def test_the_exact_tail_is_drawn_to_its_floor_and_markers_where_draws_fell():
    results = _results(thresholds=(0.0, 1.0, 2.0, 8.0))
    figure = trajectory.tail_figure(results, "sensitive")
    line = figure.axes[0].get_lines()[0]
    assert np.isnan(line.get_ydata()[-1])  # exp(-24) is below the floor
    assert figure.axes[0].get_ylim()[0] < np.exp(-6)
    assert figure.axes[0].get_yscale() == "log"


def test_the_table_marks_deviations():
    figure = trajectory.figure(_results())
    bold = [text for text in figure.findobj(lambda a: hasattr(a, "get_fontweight")) if text.get_fontweight() == "bold"]
    shown = 2 * 3  # two epsilons, three rows of the papers' mechanisms
    assert [text.get_text() for text in bold] == ["CC"] * shown
    assert "Synthetic chain" in _said(figure)


@pytest.mark.parametrize("roads", [True, False])
def test_the_map(roads):
    place = np.arange(12.0).reshape(3, 2, 2) ** 2
    place = place if roads else np.repeat(place[:, :1], 2, axis=1)
    words = _said(trajectory.figure(_results(places=place)))
    assert "1 of 3 steps deviate" in words
    assert ("it is no map" in words) != roads
