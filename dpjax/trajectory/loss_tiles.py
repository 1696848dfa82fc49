"""The losses of all pairs of sensitive states, in tiles: kept on the disk, and left out where a bound says enough.

    ell(s, v) = max over edges (i, o) of [ log pi(o | s, i) - log pi(o | v, i) ]

for s in one band of states and v in another is one tile, and the same differences give ell(v, s) as minus their minimum. States are
banded in the order of their largest proved bound, so that the pairs that can lose most share few tiles. n^2 |E| / 2 differences in
all; the logarithms of the law of one state take |E| numbers, held for all states where they fit in HELD_BYTES.

With a store every finished tile is a file, written whole or not at all, in a folder named by what the tile depends on, with a
checksum: a file that was changed since is computed again. A tile is computed apart from all others, so a run that was killed continues
to the same numbers, bit for bit.
"""

from __future__ import annotations

import functools
import hashlib
import io
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from dpjax import _atomic
from dpjax._errors import require
from dpjax.trajectory.kernel import Kernel, slot_log_law
from dpjax.trajectory.mechanism import OnlineMechanism

BAND = 256  # states a band
HELD_BYTES = 2**31
_EDGES = 4096  # edges at once: 9 MB of one tile's logarithms, and one row's differences, stay in the cache
_FORMAT = "2"

Progress = Callable[[int, int], object]  # tiles done or left out, tiles in all


class Tile(NamedTuple):
    """The losses between the states `rows` and the states `columns`: there[k, l] = ell(rows[k], columns[l]), and back."""

    rows: Int[np.ndarray, " rows"]
    columns: Int[np.ndarray, " columns"]
    there: Float[np.ndarray, "rows columns"]
    back: Float[np.ndarray, "columns rows"]


class LossTiles:
    """The tiles of one mechanism, each found when it is asked for. store: a folder for finished tiles, made if missing."""

    def __init__(self, m: OnlineMechanism, store: str | pathlib.Path | None = None) -> None:
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
        """log pi(o | s, i) of every edge for the states of a band; all bands are kept where they fit, else the last two asked for."""
        laws = self._logs.pop(band, None)
        if laws is None:
            if 8 * self.mechanism.graph.n_states * len(self.mechanism.graph.edges.states) > HELD_BYTES:
                # ends: each turn drops one of the bands that are held
                while len(self._logs) > 1:
                    self._logs.pop(next(iter(self._logs)))
            laws = np.stack([log_law(self.mechanism, int(s)) for s in self.bands[band]])
        self._logs[band] = laws
        return laws


def log_law(m: OnlineMechanism, s: int) -> Float[np.ndarray, " edges"]:
    """log pi(o | s, i) of every edge, on the host, in the order of the states that the edges arrive at."""
    with jax.enable_x64(True):
        return np.asarray(_slot_log_law(m.kernel, m.cost_row(s)))[m.graph.arrivals.slots]


def extremes(
    one: Float[np.ndarray, "rows edges"], other: Float[np.ndarray, "columns edges"]
) -> Float[np.ndarray, "2 rows columns"]:
    """The largest and the smallest one[k] - other[l] over the edges."""
    found = np.empty((2, len(one), len(other)))
    found[0], found[1] = -np.inf, np.inf
    for e in range(0, one.shape[1], _EDGES):
        part = other[:, e : e + _EDGES]
        room = np.empty_like(part)
        for k, row in enumerate(one[:, e : e + _EDGES]):
            np.subtract(row, part, out=room)
            np.maximum(found[0, k], room.max(axis=1), out=found[0, k])
            np.minimum(found[1, k], room.min(axis=1), out=found[1, k])
    return found


_slot_log_law: Callable[[Kernel, jax.Array], jax.Array] = jax.jit(slot_log_law)


def _digest(m: OnlineMechanism) -> str:
    """What the tiles of `m` depend on, in 16 hexadecimal digits."""
    found = hashlib.sha256(f"{_FORMAT} {BAND} {type(m).__name__} {m.scale!r} {m.rule!r}".encode())
    for array in m.graph.edges:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def require_losses(losses: Float[np.ndarray, "*shape"], m: OnlineMechanism) -> None:
    """ValueError where a loss is no number: it must never pass for none."""
    require(not np.isnan(losses).any(), "the scale", m.scale, "its losses pass the range of float64; take a smaller epsilon")


def _save(tile: Float[np.ndarray, "2 rows columns"], path: pathlib.Path) -> None:
    """The checksum of an .npy file, then the file."""
    file = io.BytesIO()
    np.save(file, tile, allow_pickle=False)
    path.write_bytes(hashlib.sha256(file.getvalue()).digest() + file.getvalue())


def _read(path: pathlib.Path, shape: tuple[int, ...]) -> Float[np.ndarray, "2 rows columns"] | None:
    """A stored tile; None where there is none, where a byte has changed, or where the file is not a tile of this shape."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(stored[32:]).digest() != stored[:32]:
        return None
    tile = np.load(io.BytesIO(stored[32:]), allow_pickle=False)
    return tile if tile.shape == shape and tile.dtype == np.float64 else None
