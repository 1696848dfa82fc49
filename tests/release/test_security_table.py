"""The table in SECURITY.md of what earlier private supports spent: every figure is computed again, by the exact law."""

import itertools
import pathlib

import pytest

from dpjax.counts import PersonBound
from dpjax.release.selection import selection_delta
from tests.release.old_threshold import old_delta, old_distance, old_selection, unverified
from tests.unchecked import as_a_user_has_it  # noqa: F401

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
LEAST, MOST = 1e-9, 0.05


def overspent(row, form, share, epsilon):
    """True delta over stated delta of the whole release: the largest over deltas from 1e-9 to .05, and that at 1e-6.

    At a threshold the ratio falls in delta, so it is largest at the least delta that leads there: what the old map said of the threshold.
    """
    adjacency, persons = ROWS[row]
    given = 1.0 if form == "discrete Laplace" else share
    distance = old_distance(adjacency, persons)

    def ratio(delta, old):
        return (selection_delta(old.scale, old.threshold, persons) + delta - delta * given) / delta

    def at(delta):
        return ratio(delta, old_selection(epsilon * share, delta * given, adjacency, persons))

    first = old_selection(epsilon * share, MOST * given, adjacency, persons)
    stated = ((t, old_delta(float(first.scale), t, distance) / given) for t in itertools.count(first.threshold))
    within = itertools.takewhile(lambda pair: pair[1] >= LEAST, stated)
    ratios = [ratio(delta, unverified(first, threshold=threshold)) for threshold, delta in within]
    return max(at(LEAST), at(MOST), *ratios), at(1e-6)


def written(ratio):
    """A ratio as the table prints it."""
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}"


def printed():
    """The rows of the table, by what is protected, form and share."""
    lines = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| a ")
    ]
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
