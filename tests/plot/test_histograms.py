"""Histograms of stored counts: what is in the bins is drawn, what lies outside is said."""

import numpy as np
import pytest
import xarray as xr

from dpjax import plot
from dpjax.plot import comparison


def _results(bins=3):
    edges = [-np.inf, *np.linspace(0.0, 1.0, bins)]
    counts = np.tile(np.array([10.0, *[40.0] * (bins - 1), 10.0][: bins + 1]), (2, 1)).astype(int)
    return xr.Dataset(
        {
            "tv_mean": ("k", [0.1, 0.2], {"long_name": "total variation, mean", "units": "1"}),
            "tv_histogram": (("k", "tv_bin"), counts),
            "samples": ("k", counts.sum(axis=1)),
            "status": ("k", ["done", "failed"]),
        },
        coords={"k": [1.0, 2.0], "tv_bin": edges},
        attrs={"name": "g", "workload": "mine", "measures": "tv other", "data_source": "Synthetic."},
    )


def test_densities_and_what_is_outside():
    axes = comparison.histogram_figure(_results(), "tv").axes[0]
    (stairs,) = axes.patches
    values, edges, _ = stairs.get_data()
    np.testing.assert_allclose(edges, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(values, [0.8, 0.8])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["k = 1.0 (20.0% outside)"]
    assert axes.get_xlabel() == "total variation (1)"


def test_they_are_drawn_for_a_workload_of_ones_own(tmp_path):
    written = plot.draw(_results(), tmp_path)
    assert [path.name for path in written] == ["g-tv-histogram.png", "g-tv-histogram.pdf"]


@pytest.mark.parametrize("bins", [1, 3])
def test_one_edge_is_no_histogram(bins):
    assert comparison.histogram_names(_results(bins)) == (["tv"] if bins == 3 else [])
    assert comparison.histogram_names(_results().drop_vars("tv_histogram")) == []
