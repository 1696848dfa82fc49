"""Figure 9 and the comparison of the trajectory mechanisms are drawn from stored results alone, and say what they show."""

import numpy as np
import pytest
import xarray as xr

from dpjax import plot
from dpjax.plot import comparison, trajectory

KINDS = tuple(comparison.NAMES)


def _attraction():
    nan = np.nan
    return xr.Dataset(
        {
            "exact": (("chain", "epsilon"), [[0.7, 0.8, 0.8], [0.9, nan, 0.95]]),
            "sufficient": (("chain", "epsilon"), [[0.3, 0.5, 0.8], [0.4, nan, 0.5]]),
            "n_states": ("chain", [5, 400]),
            "source": ("chain", ["Synthetic five states", "Real clicks."]),
        },
        coords={"chain": ["credit", "links"], "epsilon": [1.0, 3.0, 10.0]},
        attrs={"name": "attraction", "workload": "attraction"},
    )


def _comparison(error=0.5):
    shape = (2, 3, len(KINDS), 4)
    dims = ("comparison", "epsilon", "mechanism", "trajectory")
    own = np.broadcast_to(error * np.arange(1, 5), shape)
    return xr.Dataset(
        {
            "error": (dims, own),
            "entropy": (dims, own),
            "typical": (dims, np.full(shape, 0.99)),
            "exceedance": ((*dims, "level"), np.broadcast_to(np.exp(-np.arange(3.0)), (*shape, 3))),
            "substitution_exact": (dims[:3], np.ones(shape[:3])),
        },
        coords={
            "comparison": ["papers", "matched"],
            "epsilon": [1.0, 3.0, 10.0],
            "mechanism": list(KINDS),
            "level": [1.0, 2.5, 5.0],
        },
        attrs={
            "name": "c-comparison",
            "workload": "trajectory-comparison",
            "data_source": "Synthetic chain of three states",
            "n_states": 3,
            "steps": 20,
            "draws": 200,
            "eta": 0.25,
            "prior_weight": 0.5,
        },
    )


def _said(figure):
    return " ".join(t.get_text() for t in figure.findobj(lambda artist: hasattr(artist, "get_text"))).replace("\n", " ")


def test_both_are_written(tmp_path):
    assert [p.name for p in plot.draw(_attraction(), tmp_path)] == ["attraction.png", "attraction.pdf"]
    assert [p.name for p in plot.draw(_comparison(), tmp_path)] == ["c-comparison.png", "c-comparison.pdf"]


def test_figure_9_draws_the_ceiling_both_curves_and_only_what_was_computed():
    figure = trajectory.attraction_figure(_attraction())
    for axes, ceiling, points in zip(figure.axes, (0.8, 0.9975), (3, 2), strict=True):
        drawn = axes.get_lines()
        assert drawn[0].get_ydata()[0] == pytest.approx(ceiling)
        assert [len(line.get_xdata()) for line in drawn[1:]] == [points, points]
        assert axes.get_ylim()[0] == 0
    words = _said(figure)
    for said in ("n = 5", "n = 400", "Synthetic five states.", "Real clicks.", "(nats)", "none sampled", "1 - 1/n"):
        assert said in words


def test_the_comparison_names_mechanisms_units_data_and_sample_sizes():
    words = _said(comparison.figure(_comparison()))
    for said in (*comparison.NAMES.values(), "papers' parameters", "matched", "mean error (nats)", "P(max error > 2.5 nats)"):
        assert said in words
    for said in (
        "Synthetic chain of three states.",
        "4 sensitive trajectories",
        "200 private trajectories",
        "proved bound",
        "0.25 nats",
    ):
        assert said in words


def test_a_probability_has_no_bar_beyond_one_and_a_vanishing_error_no_negative_ordinate():
    figure = comparison.figure(_comparison(error=1e-9))
    assert figure.axes[0].get_ylim()[0] >= comparison.FLOOR
    results = _comparison()
    results["typical"][..., 0] = 0.5  # a spread that would reach beyond 1
    bars = [path.vertices for c in comparison.figure(results).axes[3].collections for path in c.get_paths()]
    assert max(vertices[:, 1].max() for vertices in bars) <= 1 + 1e-12


def test_mean_and_standard_error_over_the_sensitive_trajectories():
    values = xr.DataArray([1.0, 2.0, 3.0, 4.0], dims="trajectory")
    assert comparison.mean_and_error(values) == pytest.approx((2.5, np.std([1, 2, 3, 4], ddof=1) / 2))
