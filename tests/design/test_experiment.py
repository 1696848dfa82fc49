"""The table and the figure of the design experiment: paired errors, what was withheld, whose support it is."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments import design as experiment


def measured(rule, values, withheld=0, epsilon=1.0, delta=1e-6, settled=None):
    return experiment.Measured(
        data="manhattan",
        epsilon=epsilon,
        delta=delta,
        rule=rule,
        mean=float(values.mean()),
        error=float(values.std(ddof=1) / len(values) ** 0.5),
        predicted=0.1,
        withheld=withheld,
        drawn=7,
        samples=len(values),
        settled=settled,
        values=values,
    )


def pairs(rng, n):
    """Two rules' errors at common random numbers: correlated."""
    shared = rng.gamma(20.0, 0.05, n)
    return shared * rng.uniform(0.9, 1.1, n), 0.7 * shared * rng.uniform(0.9, 1.1, n)


def test_the_error_of_a_reduction_is_that_of_paired_values():
    """Against the spread of 2,000 repetitions, within 5 of its standard errors (1/63 each); as if independent it would be three times that."""
    rng = np.random.default_rng(0)
    found = np.array([experiment.reduction(*(measured("", v) for v in pairs(rng, 100))) for _ in range(2000)])
    spread = found[:, 0].std()
    assert np.median(found[:, 1]) == pytest.approx(spread, rel=5 / 63)
    before, after = (measured("", v) for v in pairs(rng, 100))
    independent = after.mean / before.mean * np.hypot(after.error / after.mean, before.error / before.mean)
    assert independent > 2 * spread


@pytest.fixture
def four():
    rng = np.random.default_rng(0)
    rules = [
        measured(rule, rng.uniform(1, 2, 50), withheld, settled=s)
        for rule, withheld, s in zip(experiment.RULES, (7, 3, 0, 0), (None, None, True, False), strict=True)
    ]
    return rules + [measured(rule, rng.uniform(1, 2, 50), epsilon=3.73, delta=3e-6) for rule in experiment.RULES]


def test_the_table_says_what_was_withheld_what_settled_and_whose_support_it_is(four):
    table = experiment._markdown(four)
    lines = table.splitlines()
    assert "7 of 7, nothing released" in lines[2]
    assert "3 of 7 |" in lines[3]
    assert "| yes |" in lines[4]
    assert "| no |" in lines[5]
    assert len({line.count("|") for line in lines[:10]}) == 1
    assert all("†" in line for line in lines[2:5])
    assert "read off the sensitive counts" in lines[-1]


def test_no_line_joins_targets_of_different_delta_and_no_marker_hides_another(four):
    axes = experiment.draw(four, ["invented."]).axes[0]
    places = [(c[0].get_xdata()[0], c[0].get_linestyle()) for c in axes.containers]
    assert {style for _, style in places} == {"None"}
    assert np.diff(sorted(x for x, _ in places)).min() > 0.1
    assert [label.get_text().count("delta") for label in axes.get_xticklabels()] == [1, 1]


def test_the_experiment_is_a_command_of_its_own():
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.design", "--help"], capture_output=True, text=True, check=False, cwd=root
    )
    assert done.returncode == 0, done.stderr
    assert "--data" in done.stdout
