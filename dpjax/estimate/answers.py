"""Questions about the chain, answered with intervals: the same quantity of many posterior draws of the counts.

A draw of all counts gives the transition matrix

    P[i, j] = (c[i, j] + q[i, j]) / (c[i] + 1),      q[i] = m[i] / (sum of m[i]),

the records and one record more in each row, spread as the fitted prior says; m are the prior's means. So every state of a draw can be left
and entered, and a row without records is the prior's. The true value of a quantity is that of the true counts in the same formula. `shares`
are c[i, j] / c[i] themselves.

    question            what comes back                                                         dimensions
    shares              transition probabilities among the records                              from, to
    stationary          stationary distribution                                                 state
    entropy             entropy rate, nats per step                                             -
    mixing              mixing time, steps until every start is within 1/4 in total variation   -
    hitting:A:B         expected steps from state A until B is reached; A = B: the return time  -
    path:A:B            probability of the path from A to B that the estimate holds likeliest   -

The draws include the error of the fitted effects, by a normal approximation; not that of the dispersion and the share of outliers.
`mixing` is computed for 100 of the draws, which takes most of its time; the others for all.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key
from scipy import sparse

from dpjax._errors import InputError, invalid, require, require_number, require_whole
from dpjax._random import checked_key
from dpjax._tracing import in_float64
from dpjax.chains import entropy_rate, mixing_time, stationary_distribution
from dpjax.estimate.noise import NoisyCounts, project
from dpjax.estimate.posterior import Cells, moments
from dpjax.estimate.posterior import draws as posterior_draws
from dpjax.estimate.prior import RANKS, FittedPrior, Step, fit_prior
from dpjax.paths import most_likely_path

if TYPE_CHECKING:
    import xarray as xr

_AT_ONCE = 2**23  # numbers of a batch of matrices
_FEW = 100
_PRIORS = 20


@dataclasses.dataclass(frozen=True, eq=False)
class Estimate:
    """What the noisy counts say of the counts: the posterior law of every cell.

    Attributes:
        table: the noisy counts.
        fitted: the prior and how it was found; None where no prior could be fitted, and the estimate is the projection.
        counts: (rows, columns) posterior means, records; of the projection, shares times the row's noisy total.
        shares: (rows, columns) estimated transition probabilities, rows sum to one, 0 outside the support.
    """

    table: NoisyCounts
    fitted: FittedPrior | None
    counts: Float[np.ndarray, "rows columns"]
    shares: Float[np.ndarray, "rows columns"]

    @functools.cached_property
    def cells(self) -> Cells:
        """The supported cells, grouped."""
        return Cells(self.table.counts[self.table.cells], self.table.noise)

    @functools.cached_property
    def prior_rows(self) -> Float[np.ndarray, "rows columns"]:
        """q: the prior's means, each row divided by its sum."""
        return self._dense(np.exp(np.asarray(self._prior().prior.log_mean)), 1.0)

    @property
    def matrix(self) -> Float[np.ndarray, "rows columns"]:
        """The transition matrix of the posterior mean counts with one record more in each row, spread as the prior says."""
        return (self.counts + self.prior_rows) / (self.counts.sum(axis=1, keepdims=True) + 1.0)

    def draw(self, key: Key[Array, ""], n: int) -> Int[np.ndarray, "n cells"]:
        """n draws of the supported cells' counts from their posterior, in the order of `table.cells`.

        The prior's effects are uncertain too: they are drawn at most 20 times from their normal approximation, and for each of these the counts as
        often as n asks.
        """
        require_whole(n, "n", "give a number of draws", 1)
        fitted, groups = self._prior(), min(n, _PRIORS)
        keys = jax.random.split(checked_key(key), groups + 1)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(keys[groups])))
        sizes = [n // groups + (k < n % groups) for k in range(groups)]
        log_means = fitted.log_means(self.cells, rng, groups)
        return np.concatenate(
            [posterior_draws(keys[k], self.cells, fitted.prior.at(log_means[k]), size) for k, size in enumerate(sizes)]
        )

    def matrices(self, drawn: Int[np.ndarray, "n cells"]) -> Float[np.ndarray, "n rows columns"]:
        """The transition matrices of draws."""
        dense = np.zeros((len(drawn), *self.table.counts.shape))
        dense[:, *self.table.cells] = drawn
        dense += self.prior_rows
        return dense / dense.sum(axis=-1, keepdims=True)

    def _prior(self) -> FittedPrior:
        if self.fitted is None:
            invalid(
                "estimate", None, "use its shares, or give a larger table", problem="is a projection, which has no posterior law"
            )
        return self.fitted

    def _dense(self, values: np.ndarray, total: float | None = None) -> np.ndarray:
        dense = np.zeros(self.table.counts.shape)
        dense[self.table.cells] = values
        return dense if total is None else dense * (total / dense.sum(axis=1, keepdims=True))


def fit(
    table: NoisyCounts,
    *,
    public: Sequence[Any] = (),
    ranks: Sequence[int] = RANKS,
    progress: Callable[[Step], object] | None = None,
) -> Estimate:
    """The best estimate of a chain from noisy counts: posterior means under a prior that is learned from the same noisy counts. On the host.

    This is post-processing: it spends no privacy budget.

    Args:
        table: the noisy counts and the law of their noise.
        public: public tables (rows, columns) of numbers, 0 or more, that resemble the counts: an earlier year, 1/(distance + 1), a 0/1 graph.
        ranks: ranks of the product added to the log mean, tried in this order while held-out noisy counts gain; empty: none.
        progress: called with each step of the search when it ends.

    Returns:
        The estimate. Where no prior can be fitted (the likelihood is not finite), the Euclidean projection, with `fitted` None.

    >>> table = NoisyCounts([[40, 3], [-1, 12]], Noise("discrete-laplace", 2.0))
    >>> fit(table).shares.round(2)  # doctest: +SKIP
    """
    cells = Cells(table.counts[table.cells], table.noise)
    fitted = fit_prior(table, cells, public, ranks, progress)
    found = moments(cells, fitted.prior) if np.isfinite(fitted.log_likelihood) else None
    if found is None or not np.isfinite(found.mean).all():
        shares = project(table)
        total = np.maximum(np.where(table.support, table.counts, 0.0).sum(axis=1, keepdims=True), 0.0)
        return Estimate(table, None, shares * total, shares)
    counts = np.zeros(table.counts.shape)
    counts[table.cells] = found.mean
    return Estimate(table, fitted, counts, counts / counts.sum(axis=1, keepdims=True))


Question = Callable[[np.ndarray], np.ndarray]  # of matrices (n, states, states): (n, ...)


def _mixing(matrices: np.ndarray) -> np.ndarray:
    return np.array([mixing_time(P) for P in matrices], float)


def hitting_times(matrices: Float[np.ndarray, "n states states"], start: int, end: int) -> Float[np.ndarray, " n"]:
    """Expected steps from `start` until `end` is reached; if both are one state, until it is reached again."""
    others = np.flatnonzero(np.arange(matrices.shape[-1]) != end)
    h = np.zeros(matrices.shape[:2])
    system = np.eye(len(others)) - matrices[:, others[:, None], others]
    h[:, others] = np.linalg.solve(system, np.ones((len(matrices), len(others), 1)))[..., 0]
    return h[:, start] if start != end else 1.0 + (matrices[:, end] * h).sum(axis=1)


def _hitting(start: int, end: int) -> Question:
    return lambda matrices: hitting_times(matrices, start, end)


def _path(states: Sequence[int]) -> Question:
    return lambda matrices: np.prod(matrices[:, states[:-1], states[1:]], axis=1)


_PLAIN: dict[str, tuple[Question, str, str]] = {
    "stationary": (in_float64(stationary_distribution), "stationary probability", "1"),
    "entropy": (in_float64(entropy_rate), "entropy rate", "nats per step"),
    "mixing": (_mixing, "mixing time", "steps"),
}
QUESTIONS = ("shares", *_PLAIN, "hitting:A:B", "path:A:B")


def _names(table: NoisyCounts) -> tuple[Hashable, ...]:
    return tuple(range(len(table.counts))) if table.labels is None else tuple(table.labels)


def check_questions(table: NoisyCounts, of: Sequence[str]) -> None:
    """InputError for a question that `answers` does not know, or whose states the table does not have."""
    require(not isinstance(of, str), "of", of, 'give a list such as ["stationary"]', problem="is a text")
    require(len(of) > 0, "of", None, f"ask for one of {', '.join(QUESTIONS)}", problem="holds no question")
    rows, columns = table.counts.shape
    require(rows == columns, "counts", None, "give a square table", problem=f"has the shape {table.counts.shape}")
    variables = [question.replace(":", "_") for question in of]
    again = next((of[k] for k, name in enumerate(variables) if name in variables[:k]), None)
    require(again is None, "of", again, "ask each question once", problem=f"has {again!r} twice, or a question of the same name")
    for question in of:
        if question != "shares" and question not in _PLAIN:
            _states(table, question)
    if set(of) != {"shares"}:
        classes = sparse.csgraph.connected_components(sparse.csr_array(table.support), connection="strong", return_labels=False)
        remedy = "ask for shares alone, or estimate each class of states separately"
        require(classes == 1, "support", None, remedy, problem="does not let every state be reached from every other")
        require(rows > 1, "counts", None, "ask for shares alone", problem="has one state")


def _states(table: NoisyCounts, question: str) -> tuple[str, int, int]:
    """The kind of a question of two states, and the states."""
    kind, _, rest = question.partition(":")
    names = [str(one) for one in _names(table)]
    ends = [(rest[:at], rest[at + 1 :]) for at, letter in enumerate(rest) if letter == ":"]  # a label may hold a colon
    if kind not in ("hitting", "path") or not ends:
        invalid("of", question, f"ask for one of {', '.join(QUESTIONS)}", problem=f"has the unknown question {question!r}")
    found = [(first, last) for first, last in ends if first in names and last in names]
    require(len(found) < 2, "of", question, "rename the states", problem=f"has {question!r}, which can be read in two ways")
    for first, last in found:
        own = kind == "hitting" or first != last
        require(own, "of", question, "give two states", problem="asks for a path from a state to itself")
        return kind, names.index(first), names.index(last)
    lost = next((name for name in ends[0] if name not in names), rest)
    remedy = f'give two states of the release after "{kind}:"'
    raise InputError("of", f"names the state {lost!r}, which the release does not have", remedy, value=question)


def _asked(estimate: Estimate, question: str) -> tuple[Question, dict[str, Any]]:
    """The function of matrices that answers a question, and what is said of it."""
    if question in _PLAIN:
        ask, name, unit = _PLAIN[question]
        return ask, {"long_name": name, "units": unit}
    kind, first, last = _states(estimate.table, question)
    names = _names(estimate.table)
    if kind == "hitting":
        return _hitting(first, last), {"long_name": f"expected steps from {names[first]} to {names[last]}", "units": "steps"}
    states = [int(state) for state in most_likely_path(estimate.matrix, first, last)]
    said = {"long_name": f"probability of the path {' > '.join(str(names[i]) for i in states)}", "units": "1"}
    return _path(states), {**said, "path": [str(names[i]) for i in states]}


def answers(
    estimate: Estimate, key: Key[Array, ""], of: Sequence[str] = ("stationary",), *, draws: int = 1000, level: float = 0.9
) -> xr.Dataset:
    """Estimates and central intervals of quantities of the chain: posterior means, of hitting and mixing times posterior medians. On the host.

    Args:
        estimate: what `fit` returned, of a square table.
        key: a typed JAX key; the same key gives the same draws.
        of: questions, see the head of this module.
        draws: posterior draws.
        level: probability of each interval.

    Returns:
        For each question q the variables q, q_lower and q_upper (":" becomes "_"), with units and a long name. Intervals are
        pointwise. Their level is an average over tables drawn from the prior: see the page on estimates.
    """
    import xarray as xr

    check_questions(estimate.table, of)
    require_whole(draws, "draws", "give 20 or more", 20)
    require_number(level, "level", "give a probability between 0 and 1", lambda p: 0 < p < 1)
    asked = {question: _asked(estimate, question) for question in of if question != "shares"}
    drawn = estimate.draw(key, draws)
    found: dict[str, list[np.ndarray]] = {question: [] for question in asked}
    for first, matrices in _batches(estimate, drawn):
        for question, (ask, _) in asked.items():
            kept = matrices[_some(first, len(matrices), draws)] if question == "mixing" else matrices
            if len(kept):
                found[question].append(ask(kept))
    names = np.array([str(name) for name in _names(estimate.table)], dtype=object)
    attributes = {
        "draws": draws,
        "level": level,
        "method": "empirical Bayes, posterior draws",
        "speaks_of": estimate.table.speaks_of,
    }
    data = xr.Dataset(coords={"state": names}, attrs=attributes)
    for question, (_, said) in asked.items():
        values = np.concatenate(found[question])
        dims = ("state",) if values.ndim == 2 else ()
        centre = np.median if question.startswith(("hitting", "mixing")) else np.mean
        _add(data, question.replace(":", "_"), dims, values, level, said, centre(values, axis=0))
    if "shares" in of:
        data = data.assign_coords({"from": names, "to": names})
        said = {"long_name": "transition probability among the records", "units": "1"}
        _add_shares(data, estimate, drawn, level, said)
    return data


def _some(first: int, size: int, draws: int) -> np.ndarray:
    """Which of the draws first, ..., first + size - 1 are among at most _FEW, evenly spread."""
    every = -(-draws // _FEW)
    return np.flatnonzero((first + np.arange(size)) % every == 0)


def _batches(estimate: Estimate, drawn: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    size = max(1, _AT_ONCE // estimate.table.counts.size)
    for first in range(0, len(drawn), size):
        yield first, estimate.matrices(drawn[first : first + size])


def _add(data: Any, name: str, dims: tuple[str, ...], values: np.ndarray, level: float, said: dict[str, Any], mid: Any) -> None:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    for suffix, part in (("", mid), ("_lower", low), ("_upper", high)):
        data[name + suffix] = (dims, part, said)


def _add_shares(data: Any, estimate: Estimate, drawn: np.ndarray, level: float, said: dict[str, Any]) -> None:
    """Shares row by row, so that no more than one row's draws are held as numbers."""
    rows, columns = estimate.table.cells
    parts = {
        "shares": estimate.shares.copy(),
        "shares_lower": np.zeros(estimate.shares.shape),
        "shares_upper": np.zeros(estimate.shares.shape),
    }
    for i in range(estimate.table.counts.shape[0]):
        own = np.flatnonzero(rows == i)
        counts = drawn[:, own].astype(float)
        total = counts.sum(axis=1, keepdims=True)
        shares = np.where(total > 0, counts / np.where(total > 0, total, 1.0), estimate.prior_rows[i, columns[own]])
        low, high = np.quantile(shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
        parts["shares_lower"][i, columns[own]], parts["shares_upper"][i, columns[own]] = low, high
    for name, values in parts.items():
        data[name] = (("from", "to"), values, said)
