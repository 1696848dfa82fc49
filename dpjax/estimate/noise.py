"""Noisy counts and the law of their noise: the input of every estimate.

A table of counts c was released as y = c + Z, Z independent in each cell with a public law. dpjax, OpenDP, Google's libraries and others release
such tables. Four laws are known:

    name                 log density of Z = z, up to a constant      scale
    discrete-laplace     -|z| / b,        z whole                    b
    discrete-gaussian    -z^2 / (2 s^2),  z whole                    s, the parameter (nearly the standard deviation)
    laplace              -|z| / b                                    b
    gaussian             -z^2 / (2 s^2)                              s

`reach` is the distance beyond which the noise has probability below 1e-13; sums over counts stop there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import invalid, real_array, require, require_number, require_word
from dpjax._tracing import in_float64
from dpjax.counts import postprocess

_TAIL = 30.0  # nats: e^-30 is 1e-13


def _theta(scale: float) -> float:
    """log of the sum of exp(-z^2 / (2 scale^2)) over whole z."""
    z = np.arange(1, math.ceil(9 * scale) + 2)
    return float(np.log1p(2 * np.exp(-0.5 * (z / scale) ** 2).sum()))


_NORMALISER: dict[str, Callable[[float], float]] = {
    "discrete-laplace": lambda b: -math.log(math.tanh(0.5 / b)),
    "laplace": lambda b: math.log(2 * b),
    "discrete-gaussian": _theta,
    "gaussian": lambda s: 0.5 * math.log(2 * math.pi) + math.log(s),
}
NAMES = tuple(_NORMALISER)


@dataclasses.dataclass(frozen=True)
class Noise:
    """The law of the noise in each cell.

    Args:
        name: "discrete-laplace", "discrete-gaussian", "laplace" or "gaussian".
        scale: b of Laplace noise, s of Gaussian noise; records, positive.
    """

    name: str
    scale: float

    def __post_init__(self) -> None:
        require_word(self.name, "noise", NAMES, f"name the law of the noise: {', '.join(NAMES)}")
        require_number(self.scale, "scale", "give the scale of the noise in records, above 0", lambda s: s > 0)
        require(
            self.scale <= 2**20, "scale", self.scale, "noise of this scale leaves nothing to estimate; give at most 2^20 records"
        )

    @property
    def whole(self) -> bool:
        """Whether the noise is a whole number."""
        return self.name.startswith("discrete")

    @property
    def standard_deviation(self) -> float:
        """The root of E Z^2, in records."""
        if self.name == "laplace":
            return math.sqrt(2) * self.scale
        if self.name == "discrete-laplace":
            return math.sqrt(0.5) / math.sinh(min(0.5 / self.scale, 700.0))
        if self.name == "gaussian":
            return self.scale
        z = np.arange(-self.reach, self.reach + 1)
        return float(np.sqrt(np.exp(self.log_density(z)) @ z**2.0))

    @property
    def reach(self) -> int:
        """The distance beyond which the density of Z is below e^-30 times its maximum, in whole records."""
        if "laplace" in self.name:
            return math.ceil(_TAIL * self.scale)
        return math.ceil(math.sqrt(2 * _TAIL) * self.scale)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of the noise, for simulation."""
        if self.name == "laplace":
            return rng.laplace(0.0, self.scale, shape)
        if self.name == "gaussian":
            return rng.normal(0.0, self.scale, shape)
        z = np.arange(-self.reach - 1, self.reach + 2)
        p = np.exp(self.log_density(z))
        return rng.choice(z, shape, p=p / p.sum()).astype(float)

    def log_density(self, z: Any) -> Any:
        """The log density at z, in nats; for NumPy and JAX arrays. A discrete law is not asked for z that is not whole."""
        constant = _NORMALISER[self.name](self.scale)
        if "laplace" in self.name:
            return -abs(z) / self.scale - constant
        return -0.5 * (z / self.scale) ** 2 - constant


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyCounts:
    """A released table of noisy counts.

    Args:
        counts: (rows, columns) noisy counts, in records; they may be negative.
        noise: the law of the noise.
        support: (rows, columns) booleans, the cells that may hold records; public. None: every cell.
        labels: names of the states, where rows and columns are the same states in the same order.
        speaks_of: which counts these are, for results; where persons are protected, the records kept of them.
    """

    counts: Any
    noise: Noise
    support: Any = None
    labels: Sequence[Hashable] | None = None
    speaks_of: str = "the counts before the noise was added"

    def __post_init__(self) -> None:
        counts = np.asarray(real_array(self.counts, "counts", "give a table of noisy counts"), np.float64)
        require(
            counts.ndim == 2 and counts.size > 0,
            "counts",
            None,
            "give a table (rows, columns)",
            problem=f"has the shape {counts.shape}",
        )
        finite = bool((np.abs(counts) < 2.0**53).all())
        require(
            finite, "counts", None, "give finite numbers below 2^53", problem="holds a number that is not finite, or above 2^53"
        )
        if self.noise.whole:
            whole = bool((counts == np.rint(counts)).all())
            remedy = f'{self.noise.name} noise leaves whole numbers; name the law that was used, such as "{self.noise.name[9:]}"'
            require(whole, "counts", None, remedy, problem="holds a number that is not whole")
        allowed = np.ones(counts.shape, bool) if self.support is None else np.asarray(self.support)
        same = allowed.shape == counts.shape and allowed.dtype == bool
        require(
            same,
            "support",
            None,
            f"give booleans of the shape {counts.shape}",
            problem=f"has the shape {allowed.shape} and the type {allowed.dtype}",
        )
        empty = np.flatnonzero(~allowed.any(axis=1))
        require(
            not empty.size, "support", None, "give every row an allowed cell", problem=f"has no cell in row {empty[:1].tolist()}"
        )
        outside = np.argwhere(~allowed & (counts != 0))
        if len(outside):
            i, j = outside[0].tolist()
            invalid(
                "support",
                None,
                "give the support that the release used",
                problem=f"leaves out the cell ({i}, {j}), which has a noisy count",
            )
        if self.labels is not None:
            names = tuple(self.labels)
            fits = counts.shape == (len(names), len(names))
            require(
                fits,
                "labels",
                None,
                f"give a label for each state of a square table {counts.shape}",
                problem=f"holds {len(names)} names",
            )
            require(
                len(set(names)) == len(names), "labels", None, "give each state a name of its own", problem="holds a name twice"
            )
            object.__setattr__(self, "labels", names)
        object.__setattr__(self, "counts", counts)
        object.__setattr__(self, "support", allowed)

    @property
    def cells(self) -> tuple[Int[np.ndarray, " cells"], Int[np.ndarray, " cells"]]:
        """Rows and columns of the supported cells, row by row."""
        assert self.support is not None
        rows, columns = np.nonzero(self.support)
        return rows, columns

    @property
    def has_loops(self) -> bool:
        """Whether the table is square and its support has a cell of the diagonal."""
        assert self.support is not None
        return self.counts.shape[0] == self.counts.shape[1] and bool(np.diag(self.support).any())


def floor(table: NoisyCounts) -> Float[np.ndarray, "rows columns"]:
    """The shares max(y, 1/2) over their row's sum; 0 outside the support."""
    return postprocess.floored(table.counts, np.asarray(table.support))


def project(table: NoisyCounts) -> Float[np.ndarray, "rows columns"]:
    """The Euclidean projection of each row onto the simplex of its noisy total (at least 1), as shares; 0 outside the support."""
    return in_float64(postprocess.project)(jnp.asarray(table.counts), jnp.asarray(table.support))
