"""The posterior law of a count, given its noisy count and a prior: summed over the counts, not approximated.

Prior of a cell with mean m (records), dispersion r and share w of outliers:

    p(c) = (1 - w) NB(c; m, r) + w Z(c),
    NB(c; m, r) = G(c + r) / (G(r) c!) (r / (r + m))^r (m / (r + m))^c,      Z(c) = (c + 1)^-1.5 / zeta(1.5).

NB is a Poisson count whose rate has a Gamma law of mean m and shape r. Z has a heavy tail: a noisy count far above what its row and column
explain is then taken as it is, and not for noise.

    p(c | y) = p(c) f(y - c) / p(y),      p(y) = sum over c of p(c) f(y - c),      f the density of the noise.

*Which counts are summed.* c from max(0, y - R) to y + R, R the noise's reach. The terms left out are together at most e^-30 / (w Z(y)) of the
sum, by the outliers' part of it (for y >= 0; Z(0) for y < 0).

*Large counts.* Where y exceeds 2,000 records and 200 standard deviations of the noise, p(y) = p(c = y), and c is y plus noise, moved and narrowed
by the slope l' and the curvature l'' of log p at y: with v the noise's variance, E(c | y) = y + V l' and the variance is V = v / (1 - v l'').

*For the fit*, log p(y) under NB is tabulated at the different values of y and on a grid of log m, by one product of matrices, with its derivative
in log m, and interpolated by cubic Hermite polynomials. The posterior itself is never interpolated.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require
from dpjax._tracing import in_float64
from dpjax.estimate.noise import Noise

_ZETA = 2.612375348685488  # zeta(1.5)
_FROM, _DEVIATIONS = 2000.0, 200.0
_STEP = 0.2
_LEAST = -20.0  # of log m
_LARGEST_TABLE = 2**27  # numbers, 1 GiB
_BLOCK = 2**22  # numbers at a time


class Prior(NamedTuple):
    """The prior of cells. log_mean: (cells,), log records. log_dispersion: log r. outliers: w."""

    log_mean: Any
    log_dispersion: Any
    outliers: Any

    def at(self, log_mean: Any) -> Prior:
        """The same law of cells with these means."""
        return self._replace(log_mean=log_mean)


def log_negative_binomial(c: Any, prior: Prior) -> Any:
    """log NB(c; m, r)."""
    log_mean = prior.log_mean
    log_r = prior.log_dispersion
    r = jnp.exp(log_r)
    both = jnp.logaddexp(log_r, log_mean)
    return gammaln(c + r) - gammaln(r) - gammaln(c + 1.0) + r * (log_r - both) + c * (log_mean - both)


def log_outlier(c: Any) -> Any:
    """log Z(c)."""
    return -1.5 * jnp.log1p(c) - np.log(_ZETA)


class _Group(NamedTuple):
    """Cells that are summed over windows of one width. cells: their numbers. y: noisy counts. first: the least count of each window."""

    cells: Int[np.ndarray, " m"]
    y: Float[np.ndarray, " m"]
    first: Float[np.ndarray, " m"]
    width: int


class _Grid(NamedTuple):
    """What the fit needs of the cells near 0: tables by value of y. log_scale + log(noise @ p) is log p(y)."""

    noise: Any  # (values, counts), each row divided by its largest
    log_scale: Any  # (values,)
    outlier: Any  # (values,) log of the outliers' part, w left out
    value: Any  # (cells,) which value a cell has


class _Direct(NamedTuple):
    """What the fit needs of cells that are summed one by one."""

    y: Any
    first: Any
    outlier: Any


@dataclasses.dataclass(frozen=True, eq=False)
class Cells:
    """The noisy counts of a table's cells, grouped by what their sums need.

    y: (cells,) noisy counts. noise: their law.
    """

    y: Float[np.ndarray, " cells"]
    noise: Noise

    @functools.cached_property
    def near(self) -> Int[np.ndarray, " m"]:
        """Cells with y at most the reach: their sums begin at 0."""
        return np.flatnonzero(self.y <= self.noise.reach)

    @functools.cached_property
    def far(self) -> Int[np.ndarray, " m"]:
        """Cells with a window of their own."""
        return np.flatnonzero((self.y > self.noise.reach) & ~self._large)

    @functools.cached_property
    def large(self) -> Int[np.ndarray, " m"]:
        """Cells in closed form."""
        return np.flatnonzero(self._large)

    @functools.cached_property
    def _large(self) -> np.ndarray:
        return self.y > max(_FROM, _DEVIATIONS * self.noise.standard_deviation, self.noise.reach)

    @functools.cached_property
    def groups(self) -> list[_Group]:
        """Near and far cells in blocks; the near ones sorted by y, so that a window is no wider than its block needs."""
        reach, found = self.noise.reach, []
        near = self.near[np.argsort(self.y[self.near], kind="stable")]
        # ends: every step takes at least one cell off
        while near.size:
            # the width grows with y: a block ends where its window would be half as wide again
            least = int(np.ceil(max(self.y[near[0]], 0.0))) + reach + 1
            width = int(1.5 * least)
            size = int(np.searchsorted(self.y[near], width - reach - 1, side="right"))
            block = near[: max(1, min(size, _BLOCK // width))]
            width = int(np.ceil(max(self.y[block[-1]], 0.0))) + reach + 1
            found.append(_Group(block, self.y[block], np.zeros(len(block)), width))
            near = near[len(block) :]
        width = 2 * reach + 2
        for at in range(0, len(self.far), max(1, _BLOCK // width)):
            block = self.far[at : at + max(1, _BLOCK // width)]
            found.append(_Group(block, self.y[block], np.floor(self.y[block]) - reach, width))
        return found

    @functools.cached_property
    def fitted(self) -> tuple[_Grid, _Direct, Any, tuple[Any, Any, Any]]:
        """The tables of the fit: near, far, large, and the cells that are so.

        Every length is filled to a power of two, so that tables of one size share a compiled program; the number of a cell that only fills is
        `len(y)`, which is none.
        """
        reach, far = self.noise.reach, _filled(self.far, len(self.y))
        values, which = np.unique(self.y[self.near], return_inverse=True)
        top = _power(int(np.ceil(max(float(values.max(initial=0.0)), 0.0))) + reach + 1)
        values = _filled(values, 0.0)
        size = len(values) * top
        remedy = "give a table with fewer different noisy counts, or with less noise"
        require(
            size <= _LARGEST_TABLE,
            "counts",
            None,
            remedy,
            problem=f"needs a table of {8 * size / 2**30:.1f} GiB for noise of this scale",
        )
        logs = self.noise.log_density(values[:, None] - np.arange(float(top)))
        scale = logs.max(axis=1)
        noise = np.exp(logs - scale[:, None])
        outlier = scale + np.log(noise @ np.exp(np.asarray(log_outlier(np.arange(float(top))))))
        grid = _Grid(noise, scale, outlier, _filled(which.reshape(-1), 0))
        y = np.append(self.y, 0.0)[far]
        first = np.maximum(np.floor(y) - reach, 0.0)
        counts = first[:, None] + np.arange(2 * reach + 2.0)
        logs = self.noise.log_density(y[:, None] - counts) + np.asarray(log_outlier(counts))
        direct = _Direct(y, first, np.logaddexp.reduce(logs, axis=1))
        large = _filled(self.large, len(self.y))
        return grid, direct, np.append(self.y, 1.0)[large], (_filled(self.near, len(self.y)), far, large)


def _power(size: int) -> int:
    """The least power of two that is at least `size`."""
    return 1 << max(size - 1, 0).bit_length()


def _filled(values: np.ndarray, fill: float) -> np.ndarray:
    """`values` (m,) filled to a power of two; at least one."""
    return np.pad(values, (0, _power(len(values)) - len(values)), constant_values=fill)


def _mixed(nb: Any, outlier: Any, w: Any) -> Any:
    return jnp.logaddexp(jnp.log1p(-w) + nb, jnp.log(w) + outlier)


def near_likelihood(grid: _Grid, prior: Prior) -> Any:
    """log p(y) of the near cells, (cells,), interpolated in log m."""
    log_mean = prior.log_mean
    c = jnp.arange(grid.noise.shape[1], dtype=log_mean.dtype)[:, None]
    most = np.log(grid.noise.shape[1]) + 3.0
    knots = jnp.arange(_LEAST, most + _STEP, _STEP, dtype=log_mean.dtype)

    def tabulated(knots: Any) -> Any:
        whole = grid.noise @ jnp.exp(log_negative_binomial(c, prior.at(knots[None])))
        return jnp.log(jnp.maximum(whole, 1e-140)) + grid.log_scale[:, None]

    values, slopes = jax.jvp(tabulated, (knots,), (jnp.full_like(knots, _STEP),))
    at = jnp.clip((log_mean - _LEAST) / _STEP, 0.0, len(knots) - 1.001)
    k = jnp.floor(at).astype(int)
    t, v = at - k.astype(at.dtype), grid.value
    low, high, d_low, d_high = values[v, k], values[v, k + 1], slopes[v, k], slopes[v, k + 1]
    nb = (1 + 2 * t) * (1 - t) ** 2 * low + t * (1 - t) ** 2 * d_low + t**2 * (3 - 2 * t) * high + t**2 * (t - 1) * d_high
    return _mixed(nb, grid.outlier[v], prior.outliers)


def far_likelihood(cells: _Direct, noise: Noise, prior: Prior) -> Any:
    """log p(y) of the far cells, (cells,), summed over their windows."""
    width = 2 * noise.reach + 2

    def one(cell: tuple[Any, Any, Any]) -> Any:
        y, first, m = cell
        c = first + jnp.arange(width, dtype=m.dtype)
        return jax.nn.logsumexp(log_negative_binomial(c, prior.at(m)) + noise.log_density(y - c))

    at_once = max(1, min(cells.y.shape[0], _BLOCK // width))
    nb = jax.lax.map(jax.checkpoint(one), (cells.y, cells.first, prior.log_mean), batch_size=at_once)
    return _mixed(nb, cells.outlier, prior.outliers)


def large_likelihood(y: Any, prior: Prior) -> Any:
    """log p(c = y) of the large cells, (cells,)."""
    return _mixed(log_negative_binomial(y, prior), log_outlier(y), prior.outliers)


def _weights(y: Any, first: Any, prior: Prior, noise: Noise, width: int) -> tuple[Any, Any, Any]:
    """Counts, p(c) f(y - c) over the largest density, and the log of that density. `first` may have one element for all cells."""
    c = first[:, None] + jnp.arange(width, dtype=y.dtype)[None]
    nb = jnp.exp(log_negative_binomial(c, prior.at(prior.log_mean[:, None])))
    p = (1 - prior.outliers) * nb + prior.outliers * jnp.exp(log_outlier(c))
    nearest = noise.log_density(jnp.maximum(first - y, 0.0))  # of c = 0 where y < 0, else of c = y
    return c, p * jnp.exp(noise.log_density(y[:, None] - c) - nearest[:, None]), nearest


@functools.partial(jax.jit, static_argnames=("noise", "width"))
def _summed(y: Any, first: Any, prior: Prior, noise: Noise, width: int) -> tuple[Any, Any, Any]:
    c, weights, nearest = _weights(y, first, prior, noise, width)
    total = weights.sum(axis=1)
    mean = (weights * c).sum(axis=1) / total
    return jnp.log(total) + nearest, mean, (weights * (c - mean[:, None]) ** 2).sum(axis=1) / total


@functools.partial(jax.jit, static_argnames=("noise", "width"))
def _curved(y: Any, first: Any, prior: Prior, noise: Noise, width: int) -> Any:
    """-d^2 log p(y) / d (log m)^2 of each cell."""

    def log_p(log_mean: Any) -> Any:
        return jnp.log(_weights(y, first, prior.at(log_mean), noise, width)[1].sum(axis=1))

    ones = jnp.ones_like(prior.log_mean)
    return -jax.jvp(lambda at: jax.jvp(log_p, (at,), (ones,))[1], (prior.log_mean,), (ones,))[1]


@functools.partial(jax.jit, static_argnames=("noise", "width"))
def _cumulative(y: Any, first: Any, prior: Prior, noise: Noise, width: int) -> Any:
    running = jnp.cumsum(_weights(y, first, prior, noise, width)[1], axis=1)
    return running / running[:, -1:]


@functools.partial(jax.jit, static_argnames=("shape",))
def _uniforms(key: Any, shape: tuple[int, int]) -> Any:
    return jax.random.uniform(key, shape, jnp.float64)


@jax.jit
def _large(y: Any, prior: Prior, variance: Any) -> tuple[Any, Any, Any]:
    """log p(y), and the mean and the variance of the normal law that has the slope and the curvature of the prior at y."""

    def log_p(c: Any, m: Any) -> Any:
        return large_likelihood(c, prior.at(m))

    slope = jax.vmap(jax.grad(log_p))(y, prior.log_mean)
    curvature = jax.vmap(jax.grad(jax.grad(log_p)))(y, prior.log_mean)
    own = variance / jnp.maximum(1 - variance * curvature, 0.1)
    return log_p(y, prior.log_mean), y + own * slope, own


class Moments(NamedTuple):
    """log p(y), E(c | y) and the variance of c given y, (cells,) each."""

    log_likelihood: Float[np.ndarray, " cells"]
    mean: Float[np.ndarray, " cells"]
    variance: Float[np.ndarray, " cells"]


@in_float64
def moments(cells: Cells, prior: Prior) -> Moments:
    """The moments of every cell's posterior; on the host, float64."""
    out = [np.zeros(len(cells.y)) for _ in range(3)]
    for group in cells.groups:
        y, first, own = _padded(group, prior)
        found = _summed(y, first, own, cells.noise, group.width)
        for total, part in zip(out, found, strict=True):
            total[group.cells] = np.asarray(part)[: len(group.cells)]
    if cells.large.size:
        own = prior.at(jnp.asarray(np.asarray(prior.log_mean)[cells.large]))
        for total, part in zip(out, _large(jnp.asarray(cells.y[cells.large]), own, cells.noise.standard_deviation**2), strict=True):
            total[cells.large] = np.asarray(part)
    return Moments(*out)


@in_float64
def information(cells: Cells, prior: Prior) -> Float[np.ndarray, " cells"]:
    """What each noisy count says of its cell's log mean: minus the second derivative of log p(y). On the host, float64."""
    out = np.zeros(len(cells.y))
    for group in cells.groups:
        y, first, own = _padded(group, prior)
        out[group.cells] = np.asarray(_curved(y, first, own, cells.noise, group.width))[: len(group.cells)]
    if cells.large.size:
        y, log_mean = (jnp.asarray(np.asarray(values)[cells.large]) for values in (cells.y, prior.log_mean))
        second = jax.grad(jax.grad(lambda m, c: large_likelihood(c, prior.at(m))))
        out[cells.large] = -np.asarray(jax.vmap(second)(log_mean, y))
    return out


@in_float64
def draws(key: Key[Array, ""], cells: Cells, prior: Prior, n: int) -> Int[np.ndarray, "n cells"]:
    """n draws of every cell's count from its posterior, independent; on the host."""
    out = np.zeros((n, len(cells.y)), np.int32 if float(cells.y.max(initial=0.0)) < 2**30 else np.int64)
    for number, group in enumerate(cells.groups):
        y, first, own = _padded(group, prior)
        size = len(group.cells)
        running = np.asarray(_cumulative(y, first, own, cells.noise, group.width))[:size]
        u = np.asarray(_uniforms(jax.random.fold_in(key, number), (size, n)))
        out[:, group.cells] = (group.first[:, None] + _positions(running, u)).T
    if cells.large.size:
        own = prior.at(jnp.asarray(np.asarray(prior.log_mean)[cells.large]))
        spread = cells.noise.standard_deviation
        _, mean, variance = (np.asarray(part) for part in _large(jnp.asarray(cells.y[cells.large]), own, spread**2))
        rng = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.fold_in(key, len(cells.groups)))))
        noise = cells.noise.draw(rng, (n, len(mean)))
        narrowed = np.sqrt(variance) / spread if spread > 0 else 1.0
        out[:, cells.large] = np.rint(np.maximum(mean - narrowed * noise, 0.0))
    return out


def _positions(running: np.ndarray, u: np.ndarray) -> np.ndarray:
    """How many of a row's cumulative probabilities are at most u, for (cells, width) and (cells, n).

    Most cells hold nothing, and their draws are found at the first comparison. For the others one sorted array of all rows is searched.
    """
    found = np.zeros(u.shape, np.int64)
    cell, draw = np.nonzero(u >= running[:, :1])
    width = running.shape[1]
    at = np.searchsorted((running + np.arange(len(running))[:, None]).reshape(-1), u[cell, draw] + cell, side="right")
    found[cell, draw] = np.minimum(at - cell * width, width - 1)
    return found


def _padded(group: _Group, prior: Prior) -> tuple[Any, Any, Prior]:
    """The group's arrays, filled to a power of two, so that few programs are compiled."""
    size = len(group.cells)
    pad = (0, _power(size) - size)
    own = np.pad(np.asarray(prior.log_mean)[group.cells], pad)
    first = np.pad(group.first, pad) if group.first.any() else np.zeros(1)
    return (
        jnp.asarray(np.pad(group.y, pad)),
        jnp.asarray(first),
        prior.at(jnp.asarray(own)),
    )
