"""The choice of pseudo-counts and concentrations of a private matrix under a joint (epsilon, delta), on a public model.

*The frontier of privacy* (`frontier`): the largest scale s that a smallest cell of m records (pseudo-count included) allows at (epsilon,
delta). A row with shapes s (count + alpha) has, by Theorem 6, the privacy curve of Beta(s m + s, s m) against its mirror image, with m =
the smallest publicly known count + alpha and h = s. The privacy of a row therefore depends only on (s, m), and the largest s is one
function s*(m). It increases from 0 at the least m that can meet the target (`least_pseudocount`). log s* is nearly a line in t = log(m -
least), with slopes from 1/2 to 1. It is calibrated exactly at `NODES` points and interpolated by a cubic spline, within 1e-6 of the exact
function in the middle of the table. The interpolant only guides a search; the result of a search is calibrated again.

*The choice* (`design_matrix`). At a given pseudo-count alpha_i the privacy of a row depends only on its scale s_i. Every row may have its
own largest scale, because rows are composed in parallel. (The paper's rule, one factor c for all rows, is limited by the weakest row.) Only
alpha remains to choose. With m_i the public least count of row i's cells, s_i = s*(m_i + alpha_i) (`frontier`),

    Q_i = (N_i P_i + alpha_i)/(N_i + n_i alpha_i),    k_i = s*(m_i + alpha_i) (N_i + n_i alpha_i),

and the loss is a function of the first-order law of the private stationary distribution at (Q, k), bias included. With alpha_i = least_i +
e^{theta_i}, `minimise` searches over theta, from equal pseudo-counts of several sizes and from seeded random ones. The chosen alpha_i then
get their scales from the exact accountant, not from the table.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax._errors import invalid, require, require_number
from dpjax._tracing import require_concrete
from dpjax.chains import MarkovChain
from dpjax.counts import PseudocountMechanism, least_pseudocount
from dpjax.design.matrix import Adjacency, MatrixDesign, smoothed_rows
from dpjax.design.optimise import Loss, Minimum, Named, Objective, Progress, Weighted, evaluate, minimise, resolve
from dpjax.design.stationary import stationary_moments
from dpjax.simplex import MatrixMechanism
from dpjax.simplex._rounding import float64
from dpjax.simplex.exact import calibrate_exact

NODES = 160
_NEAREST, _FARTHEST = 1e-3, 1e7  # (m - least) / least at the two ends of the table
_LEAST, _MOST = 0.15, 9e4  # range of the least cell for which the accountant accepts _SHARE and the ends above
_SHARE = 0.1  # any floor below 1/3: calibration uses N = m/_SHARE records, of which only m matters


class Frontier(NamedTuple):
    """s*(m) at one (epsilon, delta), as a table for JAX. `least` is the infimum of the m that can meet the target."""

    least: Float[np.ndarray, ""] | Float[Array, ""] | float
    first: Float[np.ndarray, ""] | Float[Array, ""] | float
    step: Float[np.ndarray, ""] | Float[Array, ""] | float
    log_scale: Float[np.ndarray, " nodes"] | Float[Array, " nodes"]
    slope: Float[np.ndarray, " nodes"] | Float[Array, " nodes"]  # d log s*/dt


@functools.lru_cache(maxsize=16)
def frontier(epsilon: float, delta: float) -> Frontier:
    """The table at (epsilon, delta), float64 on the host, read-only and cached. InputError for an epsilon or delta out of range."""
    from scipy.interpolate import CubicSpline

    least = least_pseudocount(epsilon=epsilon, delta=delta)
    words = f"the smallest cell that can meet it has {least:.3g} records, and designs need {_LEAST:g} to {_MOST:g}"
    require(least >= _LEAST, "(epsilon, delta)", (epsilon, delta), f"{words}: pass a smaller epsilon or delta")
    require(least <= _MOST, "(epsilon, delta)", (epsilon, delta), f"{words}: pass a larger epsilon or delta")
    t = np.linspace(np.log(least * _NEAREST), np.log(max(least, 1.0) * _FARTHEST), NODES)
    m = least + np.exp(t)
    scale = largest_scales(epsilon, delta, m)
    require(
        bool((scale > 0).all()),
        "(epsilon, delta)",
        (epsilon, delta),
        "no scale is found near its floor: pass a larger epsilon or delta",
    )
    log_scale = np.log(scale)
    slope = CubicSpline(t, log_scale)(t, 1)
    for array in (log_scale, slope):
        array.setflags(write=False)
    return Frontier(least, t[0], t[1] - t[0], log_scale, slope)


def largest_scales(epsilon: float, delta: float, m: Float[np.ndarray, " cells"]) -> Float[np.ndarray, " cells"]:
    """s*(m) by the exact accountant, rounded to the safe side; 0 if no scale meets the target."""
    records = m / _SHARE
    return np.asarray(calibrate_exact(epsilon=epsilon, delta=delta, eta=_SHARE, n_records=records, n_categories=3)) / records


def log_largest_scale(table: Frontier, m: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log s*(m) from the table, m > least. Pure, differentiable; linear beyond the ends of the table."""
    t = jnp.log(m - table.least)
    x = (t - table.first) / table.step
    last = table.log_scale.shape[0] - 1
    inside = jnp.clip(x, 0.0, float(last))
    at = jnp.clip(jnp.floor(jax.lax.stop_gradient(inside)).astype(jnp.int32), 0, last - 1)
    u = inside - at.astype(inside.dtype)
    y0, y1 = (jnp.asarray(table.log_scale)[at + i] for i in (0, 1))
    d0, d1 = (jnp.asarray(table.slope)[at + i] * table.step for i in (0, 1))
    cubic = y0 + u * (d0 + u * (3 * (y1 - y0) - 2 * d0 - d1 + u * (d0 + d1 - 2 * (y1 - y0))))
    end = jnp.where(x < 0, table.slope[0], table.slope[-1])
    return cubic + end * table.step * (x - inside)


Real = np.ndarray | float | int | list
_SIZES = (-6.0, -1.0, 0.0, 1.0, 2.0)  # starts: log of the extra pseudo-count divided by the least cell


class _Facts(NamedTuple):
    """The public facts of the rows, checked."""

    n_records: np.ndarray
    support: np.ndarray
    minimum_count: np.ndarray
    P: np.ndarray  # the public model
    pi: np.ndarray

    @property
    def constant(self) -> np.ndarray:
        """The rows with one supported category, which are not drawn."""
        return self.support.sum(axis=1) == 1


def design_matrix(
    *,
    epsilon: float | int,
    delta: float,
    n_records: Real,
    support: np.ndarray,
    public_model: Any,
    minimum_count: Real = 0,
    adjacency: Adjacency = "row",
    loss: Named | Loss = "tv",
    weights: np.ndarray | list[float] | None = None,
    steps: int = 200,
    least_shape: float = 1.0,
    random_starts: int = 1,
    seed: int = 0,
    progress: Progress | None = None,
) -> MatrixDesign:
    """On the host: the pseudo-counts and scales with the least expected stationary error on `public_model` that meet (epsilon, delta).

    A DESIGN CHOSEN ON THE SENSITIVE COUNTS LEAKS THEM: its parameters depend on them, and the certificate does not cover that. A
    UserWarning is given if n_records times the model is a whole number in every cell, as it is for shares of those counts. Deterministic
    for a given `seed`.

    Args:
        epsilon: The target in nats.
        delta: The target, strictly between 0 and 1.
        n_records: Row totals, one number or (n,): public for "row"; for "any" a public guess that only guides the search.
        support: The public support, (n, n), booleans.
        public_model: A transition matrix THAT IS PUBLIC, (n, n), irreducible on the support (last year's published figures, a survey, a
            guess).
        minimum_count: A public lower bound on every supported cell of each row, one number or (n,); only for "row".
        adjacency: "row" (a record changes within its row) or "any" (any record is replaced by any other).
        loss: "tv", "l2" or "kl" (see `dpjax.design.optimise`), or a function (law, pi) -> scalar in jax.numpy.
        weights: Weights of the states, (n,). Default: 1 each.
        steps: Steps of the search from each start.
        least_shape: The search is restricted to rows whose smallest Dirichlet parameter, s_i (m_i + alpha_i), is at least this. Below 1 the
            first-order law is too optimistic, and a search would exploit that; 0 removes the restriction.
        random_starts: The number of random starts.
        seed: The seed of the random starts.
        progress: A function that receives lines of text.

    Returns:
        A `MatrixDesign`, certified.

    Raises:
        InputError: A fact is invalid, or no design meets the target.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import design_matrix
        >>> model = [[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]]  # public
        >>> found = design_matrix(
        ...     epsilon=1.0, delta=1e-3, n_records=1007, support=np.ones((3, 3), bool), public_model=model, steps=5
        ... )
        >>> found.certificate.exact_delta <= 1e-3
        True
    """
    given = (epsilon, delta, n_records, minimum_count, public_model)
    require_concrete(given, "the target or the public facts", "search outside the transformed function")
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        require_number(value, name, "give a finite number")
    facts = _checked(n_records, support, minimum_count, public_model)
    require(
        adjacency in ("row", "any"),
        "adjacency",
        adjacency,
        'pass "row" (a record changed within its row) or "any"',
        must='be "row" or "any"',
    )
    if adjacency == "any":
        require(not facts.minimum_count.any(), "minimum_count", minimum_count, 'adjacency "any" covers every database: give 0')
    else:
        _require_neighbours(facts)
    table = frontier(float(epsilon), float(delta))
    lowest = _least_trusted_cell(table, float(least_shape))
    least = np.where(facts.constant, 0.0, np.maximum(lowest - facts.minimum_count, 0.0))
    chosen, weighing = resolve(loss, weights, len(facts.pi))
    cell = np.where(facts.constant, 2.0 * table.least, facts.minimum_count + least)
    support = facts.support.astype(np.float64)
    search = _Search(table, facts.constant, support, facts.n_records, least, cell, facts.P, facts.pi, weighing)
    starts = _starts(facts, table, adjacency == "any", random_starts, seed)
    found = minimise(_objective(chosen), search, starts, steps=steps, progress=progress)
    alpha = _pseudocounts(found, facts, least)
    design = MatrixDesign(
        adjacency=adjacency,
        epsilon=float(epsilon),
        delta=float(delta),
        n_records=facts.n_records,
        support=facts.support,
        minimum_count=facts.minimum_count,
        pseudocount=alpha,
        mechanism=_mechanism(facts, alpha, float(epsilon), float(delta), adjacency),
        loss=found.loss,
        trace=found.trace,
        settled=found.settled,
    )
    return dataclasses.replace(design, loss=evaluate(chosen, design.predict(facts.P), facts.pi, weighing))


class _Search(NamedTuple):
    """The data of the objective, all traced. `cell` is the least cell without the part that theta adds."""

    table: Frontier
    constant: Any
    support: Any
    n_records: Any
    least: Any
    cell: Any
    P: Any
    pi: Any
    weights: Any


@functools.lru_cache(maxsize=16)
def _objective(loss: Weighted) -> Objective:
    """The function (theta, data) -> loss. theta has one entry for all rows, or one for each."""

    def objective(theta: Float[Array, " parameters"], x: _Search) -> Float[Array, ""]:
        more = jnp.where(x.constant, 0.0, jnp.broadcast_to(jnp.exp(theta), x.n_records.shape))
        alpha = x.least + more
        records = x.n_records + x.support.sum(axis=1) * alpha
        Q = (x.n_records[:, None] * x.P + alpha[:, None] * x.support) / records[:, None]
        k = jnp.where(x.constant, jnp.inf, jnp.exp(log_largest_scale(x.table, x.cell + more)) * records)
        return loss(stationary_moments(Q, k), x.pi, x.weights)

    return objective


def _least_trusted_cell(table: Frontier, least_shape: float) -> float:
    """The smallest cell m of the table at which s*(m) m >= least_shape."""
    require(least_shape >= 0, "least_shape", least_shape, "give a Dirichlet parameter, 0 or more")
    m = table.least + np.exp(table.first + table.step * np.arange(len(table.log_scale)))
    shapes = np.exp(np.asarray(table.log_scale)) * m
    require(
        bool(shapes[-1] >= least_shape), "least_shape", least_shape, "no pseudo-count reaches it at this target: pass a smaller one"
    )
    return float(m[int(np.argmax(shapes >= least_shape))])


def _starts(facts: _Facts, table: Frontier, shared: bool, random_starts: int, seed: int) -> list[np.ndarray]:
    rng, centre = np.random.default_rng(seed), np.log(table.least)
    width = 1 if shared else len(facts.pi)
    return [np.full(width, centre + size) for size in _SIZES] + [centre + rng.standard_normal(width) for _ in range(random_starts)]


def _pseudocounts(found: Minimum, facts: _Facts, least: np.ndarray) -> np.ndarray:
    return np.where(facts.constant, 0.0, least + np.exp(np.broadcast_to(found.point, least.shape)))


def _mechanism(
    facts: _Facts, alpha: np.ndarray, epsilon: float, delta: float, adjacency: Adjacency
) -> MatrixMechanism | PseudocountMechanism:
    """The mechanism with the largest concentrations (or the largest common scale) at these pseudo-counts, by the exact accountant."""
    if adjacency == "any":
        return PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=float(alpha[~facts.constant][0]))
    rows = smoothed_rows(facts.n_records, facts.support, facts.minimum_count, alpha)
    return MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta)


def _checked(n_records: Real, support: np.ndarray, minimum_count: Real, public_model: Any) -> _Facts:
    mask = np.asarray(support)
    require(mask.dtype == bool, "support", support, f"give booleans, not {mask.dtype}: for a table of counts, counts > 0")
    require(mask.ndim == 2 and mask.shape[0] == mask.shape[1], "support.shape", mask.shape, "give a square matrix, one row a state")
    require(bool(mask.any(axis=1).all()), "support", support, "give every row a category")
    n = mask.sum(axis=1)
    require(
        bool((n > 1).any()),
        "support",
        support,
        "every row has one category, so there is nothing to privatise: pass a larger support",
    )
    totals, least = _per_row(n_records, "n_records", len(n)), _per_row(minimum_count, "minimum_count", len(n))
    require(bool((np.isfinite(totals) & (totals >= 1)).all()), "n_records", n_records, "give every row one record or more")
    require(bool((np.isfinite(least) & (least >= 0)).all()), "minimum_count", minimum_count, "give counts of 0 or more")
    chain = MarkovChain.from_matrix(_public_model(public_model, mask))
    P = np.asarray(chain.matrix)
    outside = np.flatnonzero(np.where(mask, 0.0, P).any(axis=1)).tolist()
    require(
        not outside,
        "public_model",
        outside,
        "these rows have transitions outside the support: set them to 0, or add them to the support",
    )
    chain.require_irreducible()
    _warn_of_counts(P, totals, mask)
    return _Facts(totals, mask, np.where(n == 1, 0.0, least), P, np.asarray(chain.stationary_distribution()))


def _per_row(value: Real, name: str, rows: int) -> np.ndarray:
    numbers = float64(value, name)
    fits = numbers.shape in ((), (rows,))
    require(fits, name, value, f"give one number, or one for each of the {rows} rows")
    return np.broadcast_to(numbers, (rows,))


def _public_model(public_model: Any, support: np.ndarray) -> np.ndarray:
    """The model as an array of probabilities. A table of counts is refused, because it is most likely the sensitive one."""
    dense = not (isinstance(public_model, MarkovChain) or sparse.issparse(public_model))
    remedy = "give the transition matrix itself, dense: chain.matrix of a chain, .toarray() of a sparse matrix"
    require(dense, "public_model", public_model, remedy)
    P = float64(public_model, "public_model")
    require(
        P.shape == support.shape,
        "public_model.shape",
        P.shape,
        "give one row and one column a state",
        must=f"equal the shape of the support, {support.shape}",
    )
    counts = bool((np.isfinite(P) & (P >= 0)).all() and P.max() > 1 + 1e-5)
    remedy = (
        "its rows do not sum to 1. Is this the sensitive table? Choose a design only on a transition matrix that is public,"
        " such as the shares of an earlier, published table"
    )
    require(not counts, "public_model", public_model, remedy)
    good = bool((np.isfinite(P) & (P >= 0)).all() and (np.abs(P.sum(axis=1) - 1) <= 1e-5).all())
    require(good, "public_model", public_model, "give a public transition matrix: entries at least 0, rows that sum to 1")
    return P / P.sum(axis=1, keepdims=True)


def _warn_of_counts(P: np.ndarray, n_records: np.ndarray, support: np.ndarray) -> None:
    """Warn if n_records times the public model is a whole number in every cell, as it is for shares of the sensitive counts.

    Rows that are uniform on their support do not count. A rounded public model can meet the condition by chance if the totals are round
    numbers. The warning therefore asks and does not refuse.
    """
    telling = (P.max(axis=1, where=support, initial=0) - P.min(axis=1, where=support, initial=1)) > 1e-9
    records = n_records[:, None] * P
    whole = np.abs(records - np.round(records)) <= 1e-9 + 4e-16 * n_records[:, None]
    if telling.any() and whole[telling].all():
        message = (
            "n_records times public_model is a whole number in every cell, as it is if public_model was made from the sensitive counts:"
            " a design chosen on them leaks them, and its guarantee does not hold. Is the model public?"
        )
        warnings.warn(message, stacklevel=4)


def _require_neighbours(facts: _Facts) -> None:
    """Raise InputError for rows without two adjacent databases with all cells at least minimum_count: n_i m_i + 1 > N_i."""
    n = facts.support.sum(axis=1)
    alone = np.flatnonzero((n > 1) & (n * facts.minimum_count + 1 > facts.n_records))
    if len(alone):
        problem = "have no two adjacent databases with every cell at least minimum_count, so their guarantee would be empty: pass a smaller one"
        invalid("minimum_count", facts.minimum_count[alone].tolist(), f"rows {alone[:8].tolist()} ({len(alone)} in all) {problem}")
