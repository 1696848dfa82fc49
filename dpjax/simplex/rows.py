"""What is public about the rows of a count matrix: record totals N_i, the support, and the floor eta_i of each row.

Algorithm 2's guarantee speaks of databases with these totals, this support and all supported shares at least eta_i: they are
declared by the user, or read off the data because the user says so, and `statement` says which. A row with one supported category
is a public constant. The paper's rule, eta_i = smallest share of row i, makes the border a function of the data: the guarantee is
then among databases no rarer in any cell than this one, and the release reveals that share. A row whose shares are all equal, or
nearly (one record in each of two categories, or fifty), has no neighbour at all under that rule (n_i eta_i + 1/N_i > 1): its
guarantee is empty, and it is reported so. A floor below the smallest share, declared without looking, mends both; it costs
privacy, since m = N eta shrinks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

import numpy as np

from dpjax._errors import require
from dpjax.simplex import _domain as domain
from dpjax.simplex._domain import check_counts
from dpjax.simplex._rounding import Real, float64

Source = Literal["declared", "observed"]
_SUPPORT = {
    "declared": "support: declared public by the user",
    "observed": "support: observed in the data, treated as public by the user's declaration",
}
_ETA = {
    "declared": "eta: declared public by the user",
    "observed": "eta: the smallest share of each row, read off the data and treated as public by the user's declaration",
}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PublicRows:
    """Totals (rows,), support (rows, n) and floors eta (rows,) of a count matrix, public by declaration.

    eta of a row with one supported category is not used. ValueError for a row without a category, a total below 1 in a row with a
    choice, an eta outside (0, 1/n_i].
    """

    n_records: np.ndarray
    support: np.ndarray
    eta: np.ndarray
    support_source: Source = "declared"
    eta_source: Source = "declared"

    def __post_init__(self) -> None:
        support = np.asarray(self.support)
        require(
            support.ndim == 2 and support.dtype == bool,
            "support",
            self.support,
            "give one, such as counts > 0",
            must="be a matrix of booleans (rows, n)",
        )
        n = support.sum(axis=1)
        require(bool((n > 0).all()), "support", np.flatnonzero(n == 0).tolist(), "these rows have no supported category: drop them")
        for name in ("n_records", "eta"):
            values = np.broadcast_to(float64(getattr(self, name), name), n.shape)
            object.__setattr__(self, name, values)
        object.__setattr__(self, "support", support)
        choice = n > 1
        few = choice & ~(self.n_records >= 1)
        require(not few.any(), "n_records", self.n_records, f"rows {some(few)} have fewer than one record: drop them or pool them")
        domain.check_border(self.eta[choice], n[choice].astype(np.float64))

    @classmethod
    def from_counts(
        cls, counts: np.ndarray, *, support: np.ndarray | Literal["observed"], eta: Real | Literal["smallest share"]
    ) -> PublicRows:
        """Totals from counts (rows, n); support as declared or "observed" (positive counts); eta as declared or the paper's rule.

        "smallest share" is the smallest share among the supported categories of each row.
        """
        check_counts(counts)
        values = np.asarray(counts, dtype=np.float64)
        observed = isinstance(support, str)
        if observed:
            require(
                support == "observed",
                "support",
                support,
                'pass a mask, or "observed" to take counts > 0 as public',
                must='be a boolean matrix or "observed"',
            )
        mask = values > 0 if observed else np.asarray(support)
        if not observed:
            require(mask.shape == values.shape, "support", np.shape(mask), f"its shape must be that of the counts, {values.shape}")
            outside = np.where(mask, 0.0, values).sum(axis=1) > 0
            problem = "have records outside the declared support: they would swell N_i; leave them out of the counts, or declare them possible"
            require(not outside.any(), "counts", some(outside), f"these rows {problem}")
        rule = isinstance(eta, str)
        if rule:
            require(
                eta == "smallest share",
                "eta",
                eta,
                'pass a public floor, or "smallest share" to read it off the counts',
                must='be numbers or "smallest share"',
            )
        return cls(
            n_records=values.sum(axis=1),
            support=mask,
            eta=smallest_shares(values, mask) if isinstance(eta, str) else float64(eta, "eta"),
            support_source="observed" if observed else "declared",
            eta_source="observed" if rule else "declared",
        )

    @functools.cached_property
    def n_categories(self) -> np.ndarray:
        """Supported categories of each row."""
        return self.support.sum(axis=1)

    @functools.cached_property
    def constant(self) -> np.ndarray:
        """Rows with one supported category: public, epsilon 0."""
        return self.n_categories == 1

    @functools.cached_property
    def k_min(self) -> np.ndarray:
        """3/(2 eta_i), A-Theorem 1's Assumption 4; 0 for a constant row."""
        return np.where(self.constant, 0.0, 1.5 / np.where(self.constant, 1.0, self.eta))

    @functools.cached_property
    def has_adjacent_pair(self) -> np.ndarray:
        """Whether row i's bordered simplex holds two count vectors that differ by one record; a constant row needs none."""
        records = np.where(self.constant, 1.0, self.n_records)
        return ~self.constant & domain.has_adjacent_pair(self.eta, records, self.n_categories)

    @property
    def statement(self) -> str:
        """Where support and eta come from, for the reader of the release."""
        return f"{_SUPPORT[self.support_source]}; {_ETA[self.eta_source]}; row totals: public"


def smallest_shares(counts: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The paper's rule for eta: each row's smallest share among its supported categories, (rows,).

    ValueError where a supported category has no record: its share, 0, is no floor. `PseudocountMechanism` covers empty cells.
    """
    values, mask = np.asarray(counts, dtype=np.float64), np.asarray(support, dtype=bool)
    least = np.where(mask, values, np.inf).min(axis=1)
    empty = ~(least > 0)
    remedy = "in these rows a supported category has no record, and 0 is no floor: shrink the support or use PseudocountMechanism"
    require(not empty.any(), "counts", np.flatnonzero(empty).tolist(), remedy)
    return least / values.sum(axis=1)


def some(mask: np.ndarray) -> str:
    """The indices of the true entries, in words: at most eight."""
    found = np.flatnonzero(mask).tolist()
    return str(found) if len(found) <= 8 else f"{found[:8]} and {len(found) - 8} more"
