"""The grid of a sweep: the product of its axes, some of them zipped; each cell knows its own key.

Axes zipped together, such as (eta, k), run side by side and share one dimension, named eta_k. A cell's key is a hash of the seed
and of the canonical text of the cell's values ("epsilon=1.0;k=20.0", axes in alphabetical order, whole numbers written as
floats): it does not depend on the cell's place in the grid, so that another axis value, another shard or another order changes no
number of the others.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from dpjax.sweep.validation import refuse_unknown
from dpjax.sweep.workload import Scalar

_MOST_CELLS = 1_000_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One point of the grid: its place along each dimension, and its value on each axis."""

    position: tuple[int, ...]
    values: Mapping[str, Scalar]

    @functools.cached_property
    def text(self) -> str:
        """The canonical text of the values, on which key and file name rest."""
        return ";".join(f"{name}={canonical(self.values[name])}" for name in sorted(self.values))

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the cell's file."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    def key(self, seed: int) -> jax.Array:
        """The cell's typed threefry key."""
        words = hashlib.sha256(f"dpjax sweep\nseed {seed}\n{self.text}".encode()).digest()[:8]
        return jax.random.wrap_key_data(jnp.asarray(np.frombuffer(words, dtype=">u4").astype(np.uint32)), impl="threefry2x32")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """Axes and which of them are zipped; checks itself, a million cells at most. `dims` maps each dimension to the axes along it."""

    axes: Mapping[str, tuple[Scalar, ...]]
    zips: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        for name in self.axes:
            if not _NAME.fullmatch(name):
                raise ValueError(f"axis {name!r} has no plain name; use letters, digits and _")
        zipped = [name for group in self.zips for name in group]
        refuse_unknown(zipped, self.axes, "zip")
        for group in self.zips:
            lengths = {name: len(self.axes[name]) for name in group}
            if len(group) < 2 or len(set(lengths.values())) > 1 or len(set(zipped)) < len(zipped):
                raise ValueError(f"zip is {lengths}; zip two or more axes of one length, each axis once")
        if self.size > _MOST_CELLS:
            product = " x ".join(f"{n:,}" for n in self.shape)
            raise ValueError(
                f"sweep.axes make {product} = {self.size:,} cells; at most {_MOST_CELLS:,} are allowed: give fewer values, "
                "zip axes that belong together, or make several sweeps of it"
            )
        for names in self.dims.values():
            steps = collections.Counter(zip(*(map(canonical, self.axes[name]) for name in names), strict=True))
            repeated = next((step for step, times in steps.items() if times > 1), None)
            if repeated is not None:
                several = " and ".join(f"sweep.axes.{name}" for name in names)
                raise ValueError(f"{several} repeat{'s' * (len(names) == 1)} {', '.join(repeated)}; give each value once")

    @functools.cached_property
    def dims(self) -> dict[str, tuple[str, ...]]:
        group_of = {name: group for group in self.zips for name in group}
        groups = dict.fromkeys(group_of.get(name, (name,)) for name in self.axes)
        return {"_".join(group): group for group in groups}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.axes[names[0]]) for names in self.dims.values())

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, the last dimension fastest."""
        places = itertools.product(*(range(n) for n in self.shape))
        return tuple(Cell(position=place, values=self._values(place)) for place in places)

    def _values(self, place: tuple[int, ...]) -> dict[str, Scalar]:
        groups = zip(place, self.dims.values(), strict=True)
        return {name: self.axes[name][i] for i, names in groups for name in names}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """Part `index` of `total`, counted from 1: the cells index - 1, index - 1 + total, ..."""

    index: int = 1
    total: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.total:
            raise ValueError(f"shard is {self.index}/{self.total}; I/N needs 1 <= I <= N")

    @classmethod
    def parse(cls, text: str) -> Shard:
        """`"2/5"` as a shard."""
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if not match:
            raise ValueError(f"shard is {text!r}; write it as I/N, such as 2/5")
        return cls(index=int(match[1]), total=int(match[2]))

    @property
    def name(self) -> str:
        return f"{self.index}-of-{self.total}"

    def of(self, grid: Grid) -> tuple[Cell, ...]:
        return grid.cells[self.index - 1 :: self.total]


def canonical(value: Scalar) -> str:
    """The text of one value: 1 and 1.0 are the same number, "1" and true are not."""
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, int) and abs(value) > 2**53:
        return repr(value)
    return repr(float(value) + 0.0)  # -0.0 + 0.0 is 0.0
