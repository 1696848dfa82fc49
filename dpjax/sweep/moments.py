"""Moments of samples, a block at a time.

A block of n samples is reduced where it was drawn to its mean, M2 = sum (x - mean)^2, minimum, maximum and, where edges are
given, the number of samples below each edge; all in float64. The samples themselves are kept only where a sweep asks for them. Two
blocks a and b are combined on the host, in index order, by

    n = n_a + n_b,   d = mean_b - mean_a,   mean = mean_a + d n_b / n,   M2 = M2_a + M2_b + d^2 n_a n_b / n

(Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American Statistician 37, 1983). The combination is
a fixed sequence of float64 operations on the host, so that a resumed run repeats it exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt

from dpjax.sweep.workload import Quantity


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments:
    """Moments of `count` samples of one measure; `below[b]` counts the samples under edge b; `samples` where they are kept."""

    count: int
    mean: Float[np.ndarray, "*dims"]
    m2: Float[np.ndarray, "*dims"]
    minimum: Float[np.ndarray, "*dims"]
    maximum: Float[np.ndarray, "*dims"]
    below: Int[np.ndarray, " edges *dims"]
    samples: Float[np.ndarray, " count *dims"] | None = None

    @property
    def std(self) -> Float[np.ndarray, "*dims"]:
        """The sample standard deviation, with count - 1 in the denominator."""
        return np.asarray(np.sqrt(self.m2 / (self.count - 1)))

    @property
    def sem(self) -> Float[np.ndarray, "*dims"]:
        """The standard error of the mean."""
        return np.asarray(self.std / np.sqrt(self.count))

    @property
    def histogram(self) -> Int[np.ndarray, " bins *dims"]:
        """The samples under the first edge, between each two neighbours, and from the last edge on."""
        bounds = [np.zeros_like(self.below[:1]), self.below, np.full_like(self.below[:1], self.count)]
        return np.diff(np.concatenate(bounds), axis=0)


def reduce_block(x: Any, count: UInt[Array, ""], edges: tuple[float, ...], *, keep: bool = False) -> dict[str, Array]:
    """The moments of the first `count` of the samples x, (n, *dims), on the device, and all n samples to `keep`; trace it with x64 on."""
    x = x.astype(jnp.float64)
    used = (jnp.arange(x.shape[0], dtype=jnp.uint32) < count).reshape((-1,) + (1,) * (x.ndim - 1))
    total = jnp.sum(jnp.where(used, x, 0.0), axis=0)
    mean = total / (count.astype(jnp.float64) + (total - total))  # by one number for all XLA may multiply by its inverse, or not
    m2 = jnp.sum(jnp.where(used, (x - mean[None]) ** 2, 0.0), axis=0)
    minimum = jnp.min(jnp.where(used, x, jnp.inf), axis=0)
    maximum = jnp.max(jnp.where(used, x, -jnp.inf), axis=0)
    below = jax.lax.map(lambda edge: jnp.sum(used & (x < edge), axis=0, dtype=jnp.int64), jnp.array(edges, dtype=jnp.float64))
    moments = {"mean": mean, "m2": m2, "minimum": minimum, "maximum": maximum, "below": below}
    return {**moments, "samples": x} if keep else moments


def combine(a: Moments, b: Moments) -> Moments:
    """The moments of the samples of `a` followed by those of `b`; samples that are kept are not joined here."""
    count = a.count + b.count
    shift = b.mean - a.mean
    return Moments(
        count=count,
        mean=np.asarray(a.mean + shift * (b.count / count)),
        m2=np.asarray(a.m2 + b.m2 + shift**2 * (a.count * b.count / count)),
        minimum=np.asarray(np.minimum(a.minimum, b.minimum)),
        maximum=np.asarray(np.maximum(a.maximum, b.maximum)),
        below=np.asarray(a.below + b.below),
    )


def on_host(name: str, count: int, reduced: Mapping[str, Any]) -> Moments:
    """A block's reduced samples as moments; ValueError where a sample of measure `name` was not finite."""
    host = {field: np.asarray(value) for field, value in reduced.items()}
    if not (np.isfinite(host["mean"]).all() and np.isfinite(host["m2"]).all()):
        raise ValueError(f"measure {name} has samples that are not finite numbers; moments of them mean nothing")
    if "samples" in host:
        host["samples"] = host["samples"][:count].copy()
    return Moments(count=count, **host)


def agrees(name: str, quantity: Quantity, shape: tuple[int, ...], sizes: Mapping[str, int]) -> None:
    """Raise ValueError unless `shape` is the one that the quantity's dimensions announce."""
    expected = tuple(sizes[dim] for dim in quantity.dims)
    if shape != expected:
        raise ValueError(f"{name} has shape {shape}; its dimensions {quantity.dims} announce {expected}")
