"""The table in SECURITY.md of what earlier private supports spent: every figure is computed again, by the exact law."""

import pathlib

import numpy as np
import pytest

from dpjax.release import PersonBound
from dpjax.release.selection import selection_delta
from tests.release.old_threshold import old_selection

PAGE = pathlib.Path(__file__).parents[2] / "SECURITY.md"
ROWS = {
    "a record added or removed": ("add-remove", None),
    "a record replaced": ("replace", None),
    "a person added or removed, 3 records, 1 a row": ("add-remove", PersonBound(3, 1)),
    "a person added or removed, 10 records, 1 a row": ("add-remove", PersonBound(10, 1)),
    "a person added or removed, 3 records": ("add-remove", PersonBound(3)),
    "a person added or removed, 10 records": ("add-remove", PersonBound(10)),
    "a person replaced, 3 records, 1 a row": ("replace", PersonBound(3, 1)),
    "a person replaced, 10 records, 1 a row": ("replace", PersonBound(10, 1)),
    "a person replaced, 3 records": ("replace", PersonBound(3)),
    "a person replaced, 10 records": ("replace", PersonBound(10)),
}
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 8.0)
DELTAS = np.geomspace(1e-9, 0.05, 400)


def overspent(row, form, share, epsilon):
    """True delta over stated delta of the whole release: the largest over deltas from 1e-9 to .05, and that at 1e-6."""
    adjacency, persons = ROWS[row]

    def ratio(delta):
        given = delta if form == "discrete Laplace" else delta * share
        old = old_selection(epsilon * share, given, adjacency, persons)
        return (selection_delta(old.scale, old.threshold, persons) + delta - given) / delta

    return max(map(ratio, DELTAS)), ratio(1e-6)


def written(ratio):
    """A ratio as the table prints it."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"


def printed():
    """The rows of the table, by what is protected, form and share."""
    lines = [[cell.strip() for cell in line.strip("| \n").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("| a ")]
    return {(row, form, float(share)): cells for row, form, share, *cells in lines}


@pytest.mark.parametrize("row", ROWS)
def test_the_table_of_what_was_spent_is_right_and_whole(row):
    """Every printed ratio, rounded; a row that is not printed was never above one."""
    for form in ("discrete Laplace", "other"):
        for share in (0.3, 0.9):
            found = [overspent(row, form, share, epsilon) for epsilon in EPSILONS]
            said = printed().get((row, form, share))
            if said is None:
                assert max(most for most, _ in found) <= 1.005
            else:
                assert said == [f"{written(most)} ({written(at)})" for most, at in found]
