"""The exact privacy loss of one step, for every pair of sensitive states.

    ell(s, v) = max over edges (i, o) of [ log pi(o | s, i) - log pi(o | v, i) ]

is the largest log ratio by which one output can distinguish s from v at one time, over all private states before it. The loss of a
trajectory is at most the sum of the losses of its steps (chain rule). So a mechanism is epsilon-private under an adjacency that sums
a distance d up to rho if

    kappa = max_{s != v} ell(s, v) / d(s, v) <= epsilon / rho.

The exact epsilon of replacing one state by another at one time is max(ell(s, v), ell(v, s)). It is attained, since the private state
before it can be any state. By Lemma 1, ell(s, v) <= c [G(s, v) + G(v, s)] for Mechanism 1 and <= epsilon/b for Mechanism 2.

The selection computes logarithms of the law in the log domain: a ratio of probabilities would underflow when c times a distance
exceeds 700.

*Tiles.* One tile holds ell(s, v) for s in one band of states and v in another; minus the minimum of the same differences gives
ell(v, s). States are sorted into bands by their largest proved bound, so that the pairs with the largest losses share few tiles: a
largest loss needs only the tiles whose proved bound exceeds the largest loss found so far. The cost is n^2 |E| / 2 differences:
milliseconds for 43 states; for 3,817 states with 58,081 edges see docs/trajectory.md. The logarithms of the law of one state take
|E| numbers. They are kept for all states if they fit in HELD_BYTES.

With a store, every finished tile is a file with a checksum, in a folder named by a digest of what the tile depends on. A file is
written completely or not at all, and a file that was changed is computed again. Each tile is computed independently of all others, so
a run that was killed continues to the same numbers, bit for bit.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax import _atomic
from dpjax._errors import invalid, require
from dpjax._tracing import at_trace_time, float_dtype, is_traced
from dpjax.trajectory.graph import Matrix, Parameter, Start, Trajectory, initial_law, traced_initial_law, trajectory_indices
from dpjax.trajectory.steps import StepLaws, require_online

MARGIN = 1 + 1e-12  # covers the round-off of a computed loss
BAND = 256  # states per band
HELD_BYTES = 2**31
_EDGES = 4096  # edges at once: 9 MB of one tile's logarithms, and the differences of one row, stay in the processor's cache
_FORMAT = "2"

Progress = Callable[[int, int], object]  # (tiles done or left out, all tiles)


class Tile(NamedTuple):
    """The losses between the states `rows` and the states `columns`: there[k, l] = ell(rows[k], columns[l]), back[l, k] the reverse."""

    rows: Int[np.ndarray, " rows"]
    columns: Int[np.ndarray, " columns"]
    there: Float[np.ndarray, "rows columns"]
    back: Float[np.ndarray, "columns rows"]


class LossTiles:
    """The tiles of one mechanism, each computed when it is asked for. store: a folder for finished tiles, made if missing."""

    def __init__(self, m: StepLaws, store: str | pathlib.Path | None = None) -> None:
        self.mechanism = m
        self.folder = None if store is None else pathlib.Path(store) / f"losses-{_digest(m)}"
        order = np.argsort(-m.loss_bounds().max(axis=1), kind="stable")
        self.bands = [order[k : k + BAND] for k in range(0, len(order), BAND)]
        self._logs: dict[int, Float[np.ndarray, "states edges"]] = {}

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The tiles, as pairs of bands a <= b."""
        return [(a, b) for a in range(len(self.bands)) for b in range(a, len(self.bands))]

    def tile(self, a: int, b: int) -> Tile:
        """The losses between band a and band b: read from the store, or computed and stored."""
        path = None if self.folder is None else self.folder / f"{a:04d}-{b:04d}.tile"
        shape = 2, len(self.bands[a]), len(self.bands[b])
        found = None if path is None else _read(path, shape)
        if found is None:
            found = extremes(self._log_laws(a), self._log_laws(b))
            require_losses(found, self.mechanism)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                _atomic.write(path, functools.partial(_save, found))
        return Tile(self.bands[a], self.bands[b], found[0], np.ascontiguousarray(-found[1].T))

    def all(self, progress: Progress | None = None) -> Iterator[Tile]:
        """Every tile."""
        for done, (a, b) in enumerate(self.pairs, 1):
            yield self.tile(a, b)
            if progress is not None:
                progress(done, len(self.pairs))

    def _log_laws(self, band: int) -> Float[np.ndarray, "states edges"]:
        """log pi(o | s, i) of every edge for the states of a band; all bands are kept if they fit, otherwise the last two used."""
        laws = self._logs.pop(band, None)
        if laws is None:
            if 8 * self.mechanism.graph.n_states * len(self.mechanism.graph.edges.states) > HELD_BYTES:
                # ends: each turn drops one of the bands that are held
                while len(self._logs) > 1:
                    self._logs.pop(next(iter(self._logs)))
            laws = np.stack([log_law(self.mechanism, int(s)) for s in self.bands[band]])
        self._logs[band] = laws
        return laws


def log_law(m: StepLaws, s: int) -> Float[np.ndarray, " edges"]:
    """log pi(o | s, i) of every edge, on the host, in the order of `Arrivals`."""
    with at_trace_time():
        return np.asarray(m.log_law_table(s))[m.graph.arrivals.slots]


def extremes(
    one: Float[np.ndarray, "rows edges"], other: Float[np.ndarray, "columns edges"]
) -> Float[np.ndarray, "2 rows columns"]:
    """The largest and the smallest one[k] - other[l] over the edges."""
    found = np.empty((2, len(one), len(other)))
    found[0], found[1] = -np.inf, np.inf
    for e in range(0, one.shape[1], _EDGES):
        part = other[:, e : e + _EDGES]
        gaps = np.empty_like(part)
        for k, row in enumerate(one[:, e : e + _EDGES]):
            np.subtract(row, part, out=gaps)
            np.maximum(found[0, k], gaps.max(axis=1), out=found[0, k])
            np.minimum(found[1, k], gaps.min(axis=1), out=found[1, k])
    return found


def _digest(m: StepLaws) -> str:
    """A digest of what the tiles of `m` depend on, 16 hexadecimal digits."""
    found = hashlib.sha256(f"{_FORMAT} {BAND} {m.law_key}".encode())
    for array in m.graph.edges:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def require_losses(losses: Float[np.ndarray, "*shape"], m: StepLaws) -> None:
    """Require that no loss is NaN, which could be taken for no loss; raises InputError."""
    if np.isnan(losses).any():
        invalid("the scale", m.scale, "take a smaller epsilon", problem=f"is {m.scale}: its losses exceed the range of float64")


def _save(tile: Float[np.ndarray, "2 rows columns"], path: pathlib.Path) -> None:
    """Write the checksum of an .npy file, then the file."""
    file = io.BytesIO()
    np.save(file, tile, allow_pickle=False)
    path.write_bytes(hashlib.sha256(file.getvalue()).digest() + file.getvalue())


def _read(path: pathlib.Path, shape: tuple[int, ...]) -> Float[np.ndarray, "2 rows columns"] | None:
    """A stored tile; None if it is missing, if a byte has changed, or if the file is not a tile of this shape."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(stored[32:]).digest() != stored[:32]:
        return None
    tile = np.load(io.BytesIO(stored[32:]), allow_pickle=False)
    return tile if tile.shape == shape and tile.dtype == np.float64 else None


AFFORDABLE = 2e10  # n^2 |E| up to which all pairs are computed without being asked for: about 10 s on one core
_SKIPPED = 1 + 5e-13  # skip a tile whose bound is within this factor of the largest loss found: half of calibration's margin

Store = str | pathlib.Path | None


def affordable(m: StepLaws) -> bool:
    """Whether the exact loss of all pairs of states is cheap enough to be computed without being asked for."""
    return m.graph.n_states**2 * (m.graph.neighbours.n_slots if is_traced(m) else len(m.graph.edges.states)) <= AFFORDABLE


def pairwise_losses(m: StepLaws, store: Store = None, progress: Progress | None = None) -> Matrix:
    """ell(s, v) in nats for all pairs of sensitive states (row s, column v), float64; zero on the diagonal.

    Args:
        m: a mechanism that draws one step at a time.
        store: a folder for finished tiles, from which a killed run continues; None keeps nothing.
        progress: called with the number of tiles done and the number of all tiles.

    Returns:
        An (n, n) NumPy array. If parameters or probabilities are traced: a JAX array in their type, differentiable; the derivative at a
        maximum that several outputs attain is shared among them.

    Raises:
        InputError: the chain is large and there is no store; `m.loss_bounds()` gives the proved bounds instead.

    Example:
        >>> m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
        >>> dpjax.trajectory.pairwise_losses(m).max()
    """
    require_online(m)
    if is_traced(m):
        return _traced_losses(m, float_dtype(m))
    losses = np.zeros((m.graph.n_states, m.graph.n_states))
    for tile in _tiles(m, store).all(progress):
        losses[np.ix_(tile.rows, tile.columns)] = tile.there
        losses[np.ix_(tile.columns, tile.rows)] = tile.back
    return losses


def substitution_epsilon(m: StepLaws, store: Store = None, progress: Progress | None = None) -> Parameter:
    """The exact epsilon of replacing any one state of a trajectory by any other, nats: the largest of `pairwise_losses`.

    Args and exceptions are those of `pairwise_losses`.
    """
    require_online(m)
    if is_traced(m):
        return pairwise_losses(m).max()
    return kappa(m, 1.0 - np.eye(m.graph.n_states), store, progress)


def kappa(
    m: StepLaws,
    distance: Any,
    store: Store = None,
    progress: Progress | None = None,
    enough: float = np.inf,
    error: float = 0.0,
) -> Parameter:
    """max over s != v of ell(s, v) / distance(s, v): the exact rate of loss per unit of a distance on states, such as G_sym.

    It is right to a relative 1e-12 (tiles that cannot contain more are skipped), and to the round-off of a loss divided by the distance
    of its pair.

    Args:
        m: a mechanism that draws one step at a time.
        distance: an (n, n) matrix, 0 or more off the diagonal.
        store, progress: as for `pairwise_losses`.
        enough: the search stops at a rate above this one.
        error: added to every loss, such as `loss_error`, for an upper bound on the rate.

    Returns:
        The rate; inf if a pair at distance zero can be distinguished. A pair at distance zero that cannot be distinguished counts as 0.
    """
    require_online(m)
    _check_distance(distance, m.graph.n_states)
    if is_traced(m, distance):
        dtype = float_dtype(m, distance)
        losses, apart = _traced_losses(m, dtype), jnp.asarray(distance, dtype)
        known = jnp.where(apart > 0, apart, 1)
        counted = (losses > 0) | ((error > 0) & (apart > 0))
        rates = jnp.where(counted, jnp.where(apart > 0, (losses + error) / known, jnp.inf), 0)
        rates = jnp.where(jnp.isnan(losses + apart), jnp.nan, rates)
        return jnp.where(jnp.eye(len(rates), dtype=bool), 0, rates).max()
    tiles, best = _tiles(m, store), 0.0
    limit = _rates(m.loss_bounds(), distance)
    bounds = np.array([max(_largest(limit, tiles, a, b), _largest(limit, tiles, b, a)) for a, b in tiles.pairs])
    order = np.argsort(-bounds, kind="stable")
    for done, k in enumerate(order):
        if bounds[k] <= best * _SKIPPED or best > enough:
            break
        tile = tiles.tile(*tiles.pairs[k])
        there = _rates(tile.there, distance[np.ix_(tile.rows, tile.columns)], error)
        back = _rates(tile.back, distance[np.ix_(tile.columns, tile.rows)], error)
        best = max(best, float(there.max()), float(back.max()))
        if progress is not None:
            progress(done + 1, len(order))
    return best


def trajectory_loss(m: StepLaws, w: Trajectory, v: Trajectory, start: Start = None) -> Parameter:
    """The exact loss of one pair of trajectories, nats: max over outputs s' of log P(s' | w) - log P(s' | v).

    It is at most the sum of the losses of the steps, and smaller if no output is the worst at every step. A backward recursion carries
    the largest gain from each private state on; a step costs the number of edges.

    Args:
        m: a mechanism that draws one step at a time.
        w, v: state indices, of equal length; their transitions need not be possible.
        start: the law of s'_0, as for `init`.
    """
    require_online(m)
    one, other = (trajectory_indices(m.graph, x, check=False) for x in (w, v))
    require(len(one) == len(other), "v", v, f"give a trajectory of {len(one)} states, as w")
    if is_traced(m, one, other, start):
        return _traced_trajectory_loss(m, one, other, start)
    arrivals = m.graph.arrivals
    ends = np.repeat(np.arange(m.graph.n_states), np.diff(arrivals.offsets))
    gain = np.zeros(m.graph.n_states)
    for s, t in zip(one[:0:-1], other[:0:-1], strict=True):
        after = log_law(m, int(s)) - log_law(m, int(t)) + gain[ends]
        require_losses(after, m)
        gain = np.full(m.graph.n_states, -np.inf)
        np.maximum.at(gain, arrivals.owners, after)
    return float(gain[initial_law(m.graph, start) > 0].max())


def _traced_losses(m: StepLaws, dtype: Any) -> Float[Array, "n n"]:
    """ell(s, v) within a trace, all pairs at once."""
    neighbours = m.graph.neighbours
    logs = m.log_laws_in(np.arange(m.graph.n_states), dtype)
    real = neighbours.real[: neighbours.n_slots]
    known = jnp.where(real[None], logs, 0)
    return jax.lax.map(lambda one: jnp.max(jnp.where(real[None], one[None] - known, -jnp.inf), axis=1), known)


def _traced_trajectory_loss(m: StepLaws, w: Any, v: Any, start: Start) -> Float[Array, ""]:
    """`trajectory_loss` within a trace: the same recursion, row by row of the packed neighbours."""
    dtype, graph = float_dtype(m, start), m.graph
    neighbours = graph.neighbours
    one, other = (m.log_laws_in(x[1:] if is_traced(x) else np.asarray(x[1:]), dtype) for x in (w, v))

    def back(gain: Float[Array, " n"], logs: tuple[Array, Array]) -> tuple[Float[Array, " n"], None]:
        found = jnp.zeros_like(gain)
        for first, rows, width in neighbours.blocks:
            cut = slice(first, first + rows * width)
            real, after = neighbours.real[cut], gain.at[neighbours.states[cut]].get(mode="clip")
            lost = jnp.where(real, logs[0][cut], 0) - jnp.where(real, logs[1][cut], 0) + after
            best = jnp.where(real, lost, -jnp.inf).reshape(rows, width).max(axis=1)
            found = found.at[neighbours.owners[cut].reshape(rows, width)[:, 0]].set(best)
        return found, None

    gain, _ = jax.lax.scan(back, jnp.zeros(graph.n_states, dtype), (one, other), reverse=True)
    first = traced_initial_law(graph, start, dtype)
    return jnp.max(jnp.where(first > 0, gain, jnp.where(jnp.isnan(first), jnp.nan, -jnp.inf)))


def _check_distance(distance: Any, n: int) -> None:
    one = f"give a matrix of {n} x {n} distances, and map over several with jax.vmap"
    require(np.shape(distance) == (n, n), "distance", np.shape(distance), one)
    if is_traced(distance):
        return
    off = distance[~np.eye(n, dtype=bool)]
    require(bool((off >= 0).all()), "distance", distance, "give distances between states of 0 or more, and no NaN")


def _tiles(m: StepLaws, store: Store) -> LossTiles:
    require(
        store is not None or affordable(m),
        "chain",
        None,
        "give a folder as store, which keeps finished tiles, or use m.loss_bounds(), the proved bound",
        problem=f"has {m.graph.n_states} states and {len(m.graph.edges.states)} edges",
    )
    return LossTiles(m, store)


def _largest(limit: Float[np.ndarray, "n n"], tiles: LossTiles, a: int, b: int) -> float:
    return float(limit[np.ix_(tiles.bands[a], tiles.bands[b])].max())


def loss_error(m: StepLaws) -> float:
    """A bound on the absolute rounding error of one computed loss of `m`, nats; it does not shrink with the loss.

    A logarithm of the law has the rounding error of the weighted costs and their gaps, a few units in the last place of the largest cost,
    and a few more for each candidate of the quadrature. A loss is the difference of two. The proved bound on a loss is at least the largest
    weighted cost.
    """
    prior = m.rule[1] * float(m.graph.edges.lengths.max()) if type(m).rule is not StepLaws.rule else 0.0
    return 2.0**-52 * 8 * (float(m.loss_bounds().max()) + prior + m.graph.neighbours.max_width + 1)


def _rates(
    losses: Float[np.ndarray, "rows columns"], distance: Float[np.ndarray, "rows columns"], error: float = 0.0
) -> Float[np.ndarray, "rows columns"]:
    """(losses + error) / distance; at distance 0 it is 0 if nothing is lost and inf otherwise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((losses > 0) | ((error > 0) & (distance > 0)), (losses + error) / distance, 0.0)
