"""Empirical Bayes: the prior of the counts, learned from the noisy counts themselves and from public tables.

The log mean of a cell is

    log m[i, j] = c + a[i] + b[j] + s [i = j] + sum over f of v[f] F[f][i, j] + sum over l of U[i, l] V[j, l],

a row's and a column's effect, one for self-loops, a weight for each public table, and a product of low rank. These, the dispersion r and the
share w of outliers (`posterior`) maximise

    sum over cells of log p(y[i, j]) - (|a|^2 + |b|^2 + s^2 + |v|^2 + (log r)^2) / 18 - (|U|^2 + |V|^2) / 2 - (logit(w) + 6)^2 / 8,

the marginal likelihood of the noisy counts with weak normal priors on the effects, by L-BFGS (optax). r stays below 148.

*Which terms.* Rows where the support has six cells or more for each row; columns and self-loops where it has six for each row and column, since
with fewer an effect follows single cells. Public tables and the ranks 1, 2 and 4 are added in steps. Each step is fitted to nine tenths of
the cells and judged by the likelihood of the noisy counts of the other tenth, and stays if that gains. A table of fewer than 200 cells has no
tenth to judge by: it takes the public tables as they are, and no rank. The records are never read, so all of it is post-processing.

Public tables enter as F = log(table + half its least positive number), centred. With the weight 1 the prior is the table times a row's and a
column's effect.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float
from scipy import linalg, sparse

from dpjax._errors import real_array, require
from dpjax._tracing import at_trace_time
from dpjax.estimate.noise import Noise, NoisyCounts
from dpjax.estimate.posterior import Cells, Prior, far_likelihood, information, large_likelihood, near_likelihood

RANKS = (1, 2, 4)
_MOST_STEPS = 200
_SMALL = 5e-7  # of the objective a cell, per step: the fit has settled
_HELD_OUT = 0.1
_MANY = 20_000  # cells, above which a rank is tried only after a smaller one gained
_CELLS_PER_EFFECT = 6  # with fewer supported cells an effect would follow single cells
_LARGEST = 5.0  # of log r
_FLAT = 1.0  # nats: a fit has settled where no effect's derivative of the objective, over all cells, is larger
_SPREAD = 3.0  # standard deviation of the normal priors on log scales


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of the search for terms.

    Attributes:
        terms: what the log mean is made of, in words.
        held_out: mean log likelihood, in nats, of a noisy count that the fit did not use.
        gain: what it gains over the step before, in nats a cell; NaN for the first.
        settled: whether the optimiser ended within its limit of steps and where the objective is flat.
    """

    terms: str
    held_out: float
    gain: float
    settled: bool


@dataclasses.dataclass(frozen=True, eq=False)
class FittedPrior:
    """The prior of every supported cell.

    Attributes:
        prior: log means (cells,), dispersion and share of outliers, float64.
        log_likelihood: the marginal log likelihood of the noisy counts, nats.
        steps: the search; the terms in use are those of the last step that gained.
        terms: the terms in use.
        weights: the weight of each public table; 0 where they are not in use.
        settled: the same of the last fit.
        directions: (cells, parameters) derivatives of the log means in the fitted effects, and `precision`, (parameters,), that of their priors.
    """

    prior: Prior
    log_likelihood: float
    steps: tuple[Step, ...]
    terms: str
    weights: tuple[float, ...]
    settled: bool
    directions: sparse.csr_array
    precision: Float[np.ndarray, " parameters"]

    def log_means(self, cells: Cells, rng: np.random.Generator, n: int) -> Float[np.ndarray, "n cells"]:
        """n draws of the log means: the fit and a normal error, whose precision is the information of the noisy counts and the priors'.

        The dispersion and the share of outliers keep their fitted values.
        """
        X, weight = self.directions, information(cells, self.prior)
        for curvature in (weight, np.maximum(weight, 0.0)):
            hessian = (X.T @ (sparse.diags_array(curvature) @ X)).toarray() + np.diag(self.precision)
            try:
                factor = np.linalg.cholesky(hessian)
            except np.linalg.LinAlgError:
                continue
            moves = linalg.solve_triangular(factor, rng.standard_normal((len(factor), n)), trans="T", lower=True)
            return np.asarray(self.prior.log_mean) + (X @ moves).T
        return np.tile(np.asarray(self.prior.log_mean), (n, 1))


class _Data(NamedTuple):
    """Arrays of a fit, (cells,) unless said otherwise."""

    rows: Any
    columns: Any
    loop: Any
    public: Any  # (tables, cells)
    near: Any
    far: Any
    large: Any
    where: tuple[Any, Any, Any]  # the cells that are near, far, large
    weight: Any  # 1 for a cell that the fit uses
    use: Any  # masks of terms: rows, columns and loops, public tables, (ranks,)


def log_means(p: dict[str, Any], d: _Data) -> Any:
    """log m of every cell."""
    rows, columns, public, ranks = d.use
    low = ((p["U"] * ranks[None])[d.rows] * p["V"][d.columns]).sum(axis=1)
    return p["c"] + rows * p["a"][d.rows] + columns * (p["b"][d.columns] + p["s"] * d.loop) + public * (p["v"] @ d.public) + low


def cell_likelihoods(p: dict[str, Any], d: _Data, noise: Noise) -> Any:
    """log p(y) of every cell, near ones interpolated."""
    return _at_log_means(log_means(p, d), p, d, noise)


def _at_log_means(log_mean: Any, p: dict[str, Any], d: _Data, noise: Noise) -> Any:
    prior = Prior(log_mean, log_dispersion(p), jax.nn.sigmoid(p["outliers"]))
    near, far, large = d.where
    out = jnp.zeros_like(log_mean)  # a cell number beyond it is dropped where it is set
    out = out.at[near].set(near_likelihood(d.near, prior.at(log_mean[near])))
    out = out.at[far].set(far_likelihood(d.far, noise, prior.at(log_mean[far])))
    return out.at[large].set(large_likelihood(d.large, prior.at(log_mean[large])))


def log_dispersion(p: dict[str, Any]) -> Any:
    """log r, below 5: no mean is believed to better than 8 %, and the tables of the fit stay exact enough."""
    return _LARGEST - jax.nn.softplus(_LARGEST - p["log_r"])


def objective(p: dict[str, Any], d: _Data, noise: Noise) -> Any:
    """What the fit minimises: minus the penalised marginal log likelihood, a cell."""
    effects = (p["a"] @ p["a"] + p["b"] @ p["b"] + p["log_r"] ** 2 + p["s"] ** 2 + p["v"] @ p["v"]) / (2 * _SPREAD**2)
    outliers = (p["outliers"] + 6.0) ** 2 / 8.0  # a few cells in a thousand, unless the counts say otherwise
    low = 0.5 * ((p["U"] ** 2).sum() + (p["V"] ** 2).sum())
    return (effects + outliers + low - (d.weight * cell_likelihoods(p, d, noise)).sum()) / d.weight.sum()


@functools.partial(jax.jit, static_argnames=("noise",))
def _maximised(p: dict[str, Any], d: _Data, noise: Noise) -> tuple[dict[str, Any], Any, Any, Any]:
    """Parameters, the log likelihood of each cell, whether the optimiser settled, and whether its value is finite."""
    loss = functools.partial(objective, d=d, noise=noise)
    search = optax.scale_by_zoom_linesearch(max_linesearch_steps=15, initial_guess_strategy="one")
    solver = optax.lbfgs(memory_size=15, linesearch=search)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def more(state: Any) -> Any:
        return (state[2] < _MOST_STEPS) & (state[4] < 3)

    def step(state: Any) -> Any:
        p, inner, n, last, still, _ = state
        value, gradient = value_and_grad(p, state=inner)
        updates, inner = solver.update(gradient, inner, p, value=value, grad=gradient, value_fn=loss)
        still = jnp.where(jnp.abs(last - value) < _SMALL, still + 1, 0)
        steepest = jnp.max(jnp.stack([jnp.max(jnp.abs(part), initial=0.0) for part in gradient.values()])) * d.weight.sum()
        return optax.apply_updates(p, updates), inner, n + 1, value, still, steepest

    # ends: after at most _MOST_STEPS steps
    p, _, n, value, _, steepest = jax.lax.while_loop(more, step, (p, solver.init(p), 0, jnp.inf, 0, jnp.inf))
    each = cell_likelihoods(p, d, noise)
    return p, each, (n < _MOST_STEPS) & (steepest < _FLAT), jnp.isfinite(value)


def public_table(table: Any, counts: NoisyCounts, name: str = "public") -> Float[np.ndarray, " cells"]:
    """The centred logarithms of a public table on the supported cells.

    Args:
        table: (rows, columns) non-negative numbers, for example the counts of an earlier year or 1/(distance + 1).
        counts: the noisy counts that it goes with.
        name: what to call it in an error.
    """
    values = np.asarray(real_array(table, name, "give a table of numbers, 0 or more"), np.float64)
    require(
        values.shape == counts.counts.shape,
        name,
        None,
        f"give a table {counts.counts.shape}",
        problem=f"has the shape {values.shape}",
    )
    right = bool(np.isfinite(values).all() and (values >= 0).all() and (values > 0).any())
    require(right, name, None, "give numbers, 0 or more, some above 0", problem="holds a number below 0, or nothing above 0")
    logs = np.log(values + 0.5 * values[values > 0].min())[counts.cells]
    return logs - logs.mean()


def _data(table: NoisyCounts, cells: Cells, public: Sequence[Any], weight: np.ndarray) -> _Data:
    rows, columns = table.cells
    loop = (rows == columns).astype(float) if table.has_loops else np.zeros(len(rows))
    near, far, large, where = cells.fitted
    found = [public_table(one, table, f"public[{k}]") for k, one in enumerate(public)]
    tables = np.stack(found) if found else np.zeros((0, len(rows)))
    use = (1.0, 1.0, float(len(found) > 0), np.zeros(max(RANKS)))
    return jax.tree.map(jnp.asarray, _Data(rows, columns, loop, tables, near, far, large, where, weight, use))


def _start(table: NoisyCounts, d: _Data) -> dict[str, Any]:
    """Effects from the margins, and no low rank."""
    n_rows, n_columns = table.counts.shape
    spread = table.noise.standard_deviation
    y = np.where(table.support, table.counts, 0.0)
    of_rows = np.log(np.maximum(y.sum(axis=1), spread * np.sqrt(n_columns) / 2 + 0.5))
    of_columns = np.log(np.maximum(y.sum(axis=0), spread * np.sqrt(n_rows) / 2 + 0.5))
    total = np.log(max(float(y.sum()), 1.0))
    most = max(RANKS)
    start = {
        "c": of_rows.mean() + of_columns.mean() - total,
        "a": of_rows - of_rows.mean(),
        "b": of_columns - of_columns.mean(),
        "s": 0.0,
        "v": np.full(len(d.public), 0.5),
        "U": np.zeros((n_rows, most)),
        "V": np.zeros((n_columns, most)),
        "log_r": -1.0,
        "outliers": -6.0,
    }
    return {name: jnp.asarray(value, float) for name, value in start.items()}


def fit_prior(
    table: NoisyCounts,
    cells: Cells,
    public: Sequence[Any] = (),
    ranks: Sequence[int] = RANKS,
    progress: Callable[[Step], object] | None = None,
) -> FittedPrior:
    """The prior of largest marginal likelihood, its terms chosen on held-out noisy counts; on the host, float64.

    Args:
        table: the noisy counts.
        cells: their cells, grouped.
        public: public tables, (rows, columns) each.
        ranks: the ranks to try, increasing; empty: none.
        progress: called with each step of the search when it ends.
    """
    with at_trace_time(), jax.numpy_dtype_promotion("standard"):  # optax's line search adds int32 to int64
        return _fitted(table, cells, public, ranks, progress)


def _directions(table: NoisyCounts, d: _Data, p: dict[str, Any], terms: _Terms) -> tuple[sparse.csr_array, np.ndarray]:
    """Derivatives of the log means in c, a, b, s, v, U, V, those in use, and the precision of their priors."""
    (rows, columns), cells = table.cells, len(d.rows)
    U, V = np.asarray(p["U"]), np.asarray(p["V"])
    one, wide = np.arange(cells), 1 / _SPREAD**2

    def indicator(where: np.ndarray, value: Any, width: int) -> sparse.csr_array:
        return sparse.csr_array((np.broadcast_to(value, cells), (one, where)), shape=(cells, width))

    parts = [(sparse.csr_array(np.ones((cells, 1))), 1e-9), *([(indicator(rows, 1.0, len(U)), wide)] if terms.rows else [])]
    if terms.columns:
        parts += [(indicator(columns, 1.0, len(V)), wide), (sparse.csr_array(np.asarray(d.loop)[:, None]), wide)]
    if terms.public:
        parts.append((sparse.csr_array(np.asarray(d.public).T), wide))
    for k in range(terms.rank):
        parts += [(indicator(rows, V[columns, k], len(U)), 1.0), (indicator(columns, U[rows, k], len(V)), 1.0)]
    precision = np.concatenate([np.full(part.shape[1], weight) for part, weight in parts])
    return sparse.csr_array(sparse.hstack([part for part, _ in parts])), precision


class _Terms(NamedTuple):
    """What the log mean is made of."""

    rows: bool
    columns: bool
    public: int = 0
    rank: int = 0

    def masks(self, most: int) -> Any:
        """The masks of `_Data.use`."""
        ranks = (np.arange(most) < self.rank).astype(float)
        return jax.tree.map(jnp.asarray, (float(self.rows), float(self.columns), float(self.public > 0), ranks))

    def __str__(self) -> str:
        words = ["rows, columns and self-loops" if self.columns else "rows" if self.rows else "one mean"]
        words += [f"{self.public} public"] if self.public else []
        words += [f"rank {self.rank}"] if self.rank else []
        return ", ".join(words)


_SIZES = (0.1, 0.3, 1.0, 3.0)


@functools.partial(jax.jit, static_argnames=("noise",))
def _slopes(p: dict[str, Any], d: _Data, noise: Noise) -> Any:
    """The derivative of the marginal log likelihood in the log mean of each cell."""
    return jax.grad(lambda log_mean: d.weight @ _at_log_means(log_mean, p, d, noise))(log_means(p, d))


@functools.partial(jax.jit, static_argnames=("noise",))
def _objective(p: dict[str, Any], d: _Data, noise: Noise) -> Any:
    return objective(p, d, noise)


def _with_factors(p: dict[str, Any], d: _Data, table: NoisyCounts, rank: int) -> dict[str, Any]:
    """A start for a fit of this rank: factors not yet in use follow the steepest rise, as far as it goes.

    At U = V = 0 the likelihood is stationary, so that small random factors would move too little for the optimiser to go on.
    """
    idle = np.flatnonzero(np.asarray((p["U"] ** 2).sum(axis=0) == 0))
    new = idle[idle < rank]
    if not new.size:
        return p
    slopes = np.zeros(table.counts.shape)
    slopes[table.cells] = np.asarray(_slopes(p, d, table.noise))
    left, _, right = np.linalg.svd(slopes, full_matrices=False)
    scale = np.sqrt(np.sqrt(left.shape[0] * right.shape[1]))
    tried = []
    for size in _SIZES:
        U, V = np.array(p["U"]), np.array(p["V"])
        U[:, new], V[:, new] = np.sqrt(size) * scale * left[:, : new.size], np.sqrt(size) * scale * right[: new.size].T
        one = {**p, "U": jnp.asarray(U), "V": jnp.asarray(V)}
        tried.append((float(_objective(one, d, table.noise)), one))
    return min(tried, key=lambda found: found[0])[1]


def _fitted(
    table: NoisyCounts, cells: Cells, public: Sequence[Any], ranks: Sequence[int], progress: Callable[[Step], object] | None
) -> FittedPrior:
    count, most = len(cells.y), max(RANKS)
    kept = np.ones(count)
    kept[np.random.default_rng(1).permutation(count)[: round(_HELD_OUT * count)]] = 0.0
    searching = bool((kept == 0).sum() >= 20)
    d = _data(table, cells, public, kept if searching else np.ones(count))
    effects = count // _CELLS_PER_EFFECT
    plain = _Terms(rows=table.counts.shape[0] <= effects, columns=sum(table.counts.shape) <= effects)
    if not searching:
        plain = plain._replace(public=len(public))
    tried = [plain._replace(public=len(public))] if public else []
    tried += [plain._replace(rank=k) for k in ranks if k <= min(most, *table.counts.shape) and plain.columns]
    best, steps, terms, last = _start(table, d), list[Step](), plain, -np.inf
    for step in [plain, *(tried if searching else [])]:
        wanted = terms._replace(public=max(terms.public, step.public), rank=step.rank)
        own = d._replace(use=wanted.masks(most))
        found, each, settled, finite = _maximised(_with_factors(best, own, table, wanted.rank), own, table.noise)
        judged = float(np.asarray(each)[kept == 0].mean()) if searching else float(np.asarray(each).mean())
        steps.append(Step(str(wanted), judged, judged - last if step is not plain else np.nan, bool(settled)))
        if progress is not None:
            progress(steps[-1])
        if bool(finite) and judged > last:
            best, terms, last = found, wanted, judged
        elif wanted.rank and count > _MANY:
            break  # each fit takes seconds
    d = d._replace(use=terms.masks(most), weight=jnp.ones(count))
    best, each, settled, _ = _maximised(best, d, table.noise)
    prior = Prior(np.asarray(log_means(best, d)), float(log_dispersion(best)), float(jax.nn.sigmoid(best["outliers"])))
    weights = tuple(float(v) for v in best["v"] * d.use[2])
    likelihood = float(np.asarray(each).sum())
    return FittedPrior(prior, likelihood, tuple(steps), str(terms), weights, bool(settled), *_directions(table, d, best, terms))
