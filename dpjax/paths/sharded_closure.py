"""The min-plus closure of a matrix too large for one device: its rows spread over a mesh of devices.

Blocked Floyd-Warshall as in `floyd_warshall`, the same panels in the same order. Device p of m holds ceil(n/m) consecutive rows of D.
For a panel K of b pivots

    the devices that hold rows of D(K, :) give them to all (a minimum over the devices, +inf from the others);
    every device closes the b x b block D(K, K) for itself, and updates its own rows through it.

Each device sends or receives b n numbers a panel, n^2 in all, and works n^3 / m steps. A step is one addition and one minimum of
the same numbers as on one device, so that the distances are the same bit for bit.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.paths.floyd_warshall import _PANEL, _TILE_BYTES, _close_block, _min_plus

_AXIS = "rows"


def sharded_closure(
    lengths: Float[np.ndarray, "rows_given n"] | Float[Array, "rows_given n"], devices: Any = None
) -> Float[Array, "rows n"]:
    """Shortest-path lengths G(i, j), as `min_plus_closure`, with the rows spread over `devices` (a list; None: all local ones).

    lengths: nats, square, float32 or float64, not negative, +inf where there is no edge; the diagonal is set to 0. Row i of the result
    is that of state i; where n is no multiple of the number m of devices, up to m - 1 rows of +inf follow, so that every device holds
    as many: `np.asarray(result)[:n]` gathers the distances. A device holds about 3 n^2 / m numbers, and none holds all. ValueError:
    lengths that are not square, no device, a negative length or NaN in a NumPy array.

    >>> import numpy as np
    >>> lengths = np.array([[0.0, 1.0, 5.0], [np.inf, 0.0, 1.0], [1.0, np.inf, 0.0]])
    >>> np.asarray(sharded_closure(lengths))[:3].tolist()
    [[0.0, 1.0, 2.0], [2.0, 0.0, 1.0], [1.0, 2.0, 0.0]]
    """
    found = list(jax.local_devices()) if devices is None else list(devices)
    square = np.ndim(lengths) == 2 and np.shape(lengths)[0] == np.shape(lengths)[1] > 0
    require(square, "lengths", np.shape(lengths), "give a square matrix")
    require(len(found) > 0, "devices", found, "give at least one")
    if isinstance(lengths, np.ndarray):
        require(not bool((~(lengths >= 0)).any()), "lengths", "negative or NaN", "lengths are -log of probabilities, 0 or more")
    mesh = Mesh(np.array(found), (_AXIS,))
    with jax.enable_x64(lengths.dtype == np.float64):
        return _closed(mesh, len(lengths))(_spread(mesh, lengths))


def _spread(mesh: Mesh, lengths: Any) -> Float[Array, "rows columns"]:
    """The matrix with 0 on the diagonal, padded to whole tiles and to as many rows for each device, which is given its own only."""
    n, devices = len(lengths), mesh.devices.size
    tile = min(_TILE_BYTES // lengths.dtype.itemsize, _PANEL * math.ceil(n / _PANEL))
    shape = devices * math.ceil(n / devices), tile * math.ceil(n / tile)

    def part(index: Any) -> np.ndarray:
        first, last, _ = index[0].indices(shape[0])
        rows = np.full((last - first, shape[1]), np.inf, lengths.dtype)
        real = max(min(last, n) - first, 0)
        rows[:real, :n] = np.asarray(lengths[first : first + real])
        rows[np.arange(real), first + np.arange(real)] = 0
        return rows

    return jax.make_array_from_callback(shape, NamedSharding(mesh, PartitionSpec(_AXIS)), part)


@functools.lru_cache(maxsize=16)
def _closed(mesh: Mesh, n: int) -> Any:
    """The compiled closure of n states on a mesh."""
    spec = PartitionSpec(_AXIS)
    return jax.jit(jax.shard_map(functools.partial(_close_rows, n=n), mesh=mesh, in_specs=spec, out_specs=spec))


def _close_rows(own: Float[Array, "r columns"], n: int) -> Float[Array, "r n"]:
    """This device's rows, closed."""
    rows, columns = own.shape
    tile = min(_TILE_BYTES // own.dtype.itemsize, columns)
    here = lax.axis_index(_AXIS) * rows

    def use_panel(panel: Array, tiles: Float[Array, "tiles r t"]) -> Float[Array, "tiles r t"]:
        first = panel * _PANEL
        place = first - here.astype(first.dtype) + jnp.arange(_PANEL, dtype=first.dtype)
        mine = ((place >= 0) & (place < rows))[None, :, None]
        pivots = lax.pmin(jnp.where(mine, tiles[:, jnp.clip(place, 0, rows - 1)], jnp.inf), _AXIS)
        through = lax.dynamic_slice(tiles, (first // tile, 0, first % tile), (1, rows, _PANEL))
        block = lax.dynamic_slice(pivots, (first // tile, 0, first % tile), (1, _PANEL, _PANEL))
        block = _close_block(block)
        return _min_plus(_min_plus(through, block, through), _min_plus(block, pivots, pivots), tiles)

    tiles = own.reshape(rows, columns // tile, tile).transpose(1, 0, 2)
    tiles = lax.fori_loop(0, math.ceil(n / _PANEL), use_panel, tiles)
    closed = tiles.transpose(1, 0, 2).reshape(rows, columns)[:, :n]
    diagonal = here + jnp.arange(rows, dtype=jnp.int32)[:, None] == jnp.arange(n, dtype=jnp.int32)[None, :]
    return jnp.where(diagonal, 0, closed)
