"""The figures of sensitivities can be read in grey, and say what their axes and colours are."""

import numpy as np
import pytest
import xarray as xr

from dpjax.plot import sensitivity


def text_of(figure):
    return " ".join(t.get_text() for t in figure.findobj(lambda x: hasattr(x, "get_text")))


@pytest.fixture
def tail():
    segments = np.array([[[0.0, 0], [1, 0]], [[1, 0], [1, 1]], [[1, 1], [0, 0]]])
    return xr.Dataset(
        {
            "elasticity": ("transition", [0.2, -0.2, 0.1]),
            "origin": ("transition", ["a", "b", "c"]),
            "end": ("transition", ["b", "c", "a"]),
            "origin_index": ("transition", [0, 1, 2]),
            "end_index": ("transition", [1, 2, 0]),
            "trajectory": ("step", [0, 1, 2]),
            "segments": (("state", "end_of_segment", "xy"), segments),
        },
        attrs={
            "data_source": "invented",
            "probability": 0.1,
            "margin": 0.01,
            "threshold": 3.0,
            "steps": 2,
            "epsilon": 1.0,
            "rho": 1.0,
        },
    )


def test_the_sign_of_an_elasticity_is_in_the_dashes_and_the_trajectory_is_on_top(tail):
    network = sensitivity.tail_figure(tail).axes[0]
    turns = network.collections[1]
    dashed = {float(v): style[1] is not None for v, style in zip(turns.get_array(), turns.get_linestyles(), strict=True)}
    assert dashed == {0.1: False, -0.2: True, 0.2: False}
    assert all(line.get_zorder() > turns.get_zorder() for line in network.lines)
    words = [t.get_text() for t in network.get_legend().get_texts()]
    assert len(words) == 3
    assert words[1].endswith("+")


def test_the_heat_map_names_zones_says_its_order_and_labels_its_colours():
    n = 20
    rng = np.random.default_rng(0)
    results = xr.Dataset(
        {
            "elasticity": (("state", "row"), -rng.random((n, n))),
            "elasticity_sem": (("state", "row"), rng.random((n, n))),
            "first_order": (("state", "row"), -rng.random((n, n))),
            "total_elasticity": ("row", -rng.random(n)),
            "total_error": 0.1,
            "total_error_sem": 0.01,
            "stationary": ("state", rng.dirichlet(np.ones(n))),
            "label": ("state", [f"zone {i}" for i in range(n)]),
        },
        attrs={"data_source": "invented", "draws": 5, "k_factor": 2.0},
    )
    square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    drawn = sensitivity.stationary_figure(results, [[(square + i).tolist()] for i in range(n)])
    heat = drawn.axes[0]
    assert heat.get_yticklabels()[0].get_text() == "zone 0"
    assert heat.get_xticklabels()[-1].get_text() == f"zone {n - 1}"
    assert heat.get_ylim()[0] < heat.get_ylim()[1]
    bars = drawn.axes[3:]
    assert len(bars) == 3
    assert all(axes.get_xlabel() or axes.get_ylabel() for axes in bars)
    assert "sum to between" in text_of(drawn)
