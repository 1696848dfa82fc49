"""Noisy counts: the common part of mechanisms that add independent whole noise with a public symmetric law to every supported count.

A row of counts c becomes y = c + Z, with Z whole and independent, P(Z = z) the mechanism's `pmf`. Then y is brought to the simplex: floored
at 1/2 and divided by its sum, or projected (`postprocess`), which costs no privacy. A release publishes the noisy counts themselves, drawn
from rational parameters in whole numbers; the shares are max(y, 1/2) divided by their sum. Counts are first capped at 2^62, which does not
increase the distance of neighbours.

To add a mechanism of this kind, define the law (`pmf`), the accountant and the calibration. Draws invert the tail P(|Z| >= k), unless the
mechanism overrides `noise`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float, Key

from dpjax._errors import invalid, require
from dpjax._random import checked_key, open_uniform
from dpjax.counts.postprocess import POST_PROCESSING, checked_counts, expected_kl_floored, noise_error, plain_table, reach_of
from dpjax.counts.protocol import FULL, AuditPair, CountMechanism, Errors, ExactSampler, Law, Options, worst_pair

CAP = 2**62
LARGEST = 2**40  # the largest scale or variance
TOO_MUCH = "that is too much noise: raise epsilon, or keep fewer records of a person"
TAIL = 2**15  # the least width of a table of tails, so that a grid of a sweep compiles once
ZERO_CELLS = "a supported cell of noisy count y has probability max(y, 1/2) over the sum of its row's"


class NoiseOptions(Options):
    """The way from noisy counts to shares."""

    postprocess: Literal["floor", "project"] = pydantic.Field(default="floor", title="how noisy counts become shares")


@jax.jit
def symmetric_noise(key: Key[Array, ""], like: Float[Array, "*shape"], tail: Float[Array, " width"]) -> Float[Array, "*shape"]:
    """Symmetric whole noise of the shape and dtype of `like`. |Z| is the number of k with P(|Z| >= k) = tail[k - 1] > u."""
    for_size, for_sign = jax.random.split(key)
    u = open_uniform(for_size, like.shape, like.dtype)
    size = jnp.searchsorted(-tail, -u, side="left").astype(like.dtype)
    return jnp.where(jax.random.bernoulli(for_sign, 0.5, like.shape), size, -size)


@dataclasses.dataclass(frozen=True)
class NoiseDraw:
    """The function of a `Law` that draws private tables: `noise` (key, like, parameter), then a way to the simplex."""

    noise: Callable[..., Array]
    postprocess: str

    def __call__(self, key: Array, parameters: Any, counts: Any, support: Any, first: Any, n: int) -> Array:
        """The private tables first, ..., first + n - 1, each fixed by the key and its number."""
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(first + jnp.arange(n, dtype=jnp.uint32))
        noisy = counts[None] + jax.vmap(lambda k: self.noise(k, counts, parameters))(keys)
        return POST_PROCESSING[self.postprocess](noisy, support)


class NoiseMechanism(CountMechanism):
    """The base class of counts -> counts + Z -> the simplex.

    A subclass has the fields `adjacency` and `postprocess`, a law (`pmf`) and an accountant.
    """

    OPTIONS: ClassVar[type[Options]] = NoiseOptions
    postprocess: str

    @abc.abstractmethod
    def pmf(self, reach: int) -> Float[np.ndarray, " width"]:
        """P(Z = z) for z = -reach..reach, float64, not renormalised."""

    @classmethod
    def released(cls, facts: Mapping[str, Any]) -> NoiseMechanism:
        """The mechanism with the noise that the facts of a statement describe, for error bars."""
        invalid("form", cls.name, "its noise cannot be read from a statement: define its `released`")

    @property
    def noise_variance(self) -> Any:
        """The variance E Z^2."""
        reach = reach_of(self.pmf, 1e-18)
        return float(self.pmf(reach) @ np.arange(-reach, reach + 1.0) ** 2)

    def tail(self, dtype: np.dtype) -> np.ndarray:
        """P(|Z| >= k) for k = 1, 2, ..., until it is below 1e-30, padded with zeros to a power of two."""
        reach = reach_of(self.pmf, 1e-30)
        mass = self.pmf(reach)[reach:]
        tail = 2 * np.cumsum(mass[:0:-1])[::-1]
        return np.pad(tail, (0, (1 << len(tail).bit_length()) - len(tail))).astype(dtype)

    def noise(self, dtype: np.dtype) -> tuple[Callable[..., Array], Any]:
        """The sampler (key, like, parameter) of the noise, one function for all mechanisms of a kind, and its parameter."""
        return symmetric_noise, self.tail(dtype)

    def privatize(
        self, key: Key[Array, ""], counts: np.ndarray | Array, support: np.ndarray | Array | None = None
    ) -> Float[Array, "*batch n"]:
        """Private shares of each row of counts, (*batch, n), in their dtype. A simulation: never publish it.

        Categories outside the public support stay 0. The noise is whole, with derivative 0 in its parameter; the derivative in the counts
        is that of the way to the simplex.

        Args:
            key: One typed JAX key.
            counts: Whole numbers, (*batch, n); the rows of the batch give independent draws.
            support: The possible categories, a mask that broadcasts to the counts. Default: all.
        """
        key = checked_key(key)
        counts, support = plain_table(counts, support)
        values = checked_counts(counts)
        mask = None if support is None else jnp.asarray(support, bool)
        noise, parameter = self.noise(np.dtype(values.dtype))
        return POST_PROCESSING[self.postprocess](values + noise(key, values, jnp.asarray(parameter, values.dtype)), mask)

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The parameter of the noise, with tables padded to a common width."""
        noise, parameter = self.noise(dtype)
        if parameter.ndim:
            parameter = np.pad(parameter, (0, max(0, TAIL - len(parameter))))
        return Law(parameter.astype(dtype), NoiseDraw(noise, self.postprocess))

    @property
    def positive(self) -> bool:
        """Whether every share is positive; a projection sets cells to 0."""
        return self.postprocess == "floor"

    @property
    def note(self) -> str:
        """A remark on projections, for a comparison."""
        return (
            ""
            if self.positive
            else "cells set to 0: KL may be infinite, and the chain reducible, without a stationary distribution"
        )

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """The exact KL of one floored vector, by a convolution."""
        if len(counts) > 1 or not self.positive:
            return Errors(None, None)
        return Errors(np.array([expected_kl_floored(counts[0][support[0]].astype(np.int64), self.pmf)]), None)

    def audit_pair(self) -> AuditPair:
        """The pair of `worst_pair` at counts that the floor does not change. The score is the log-likelihood ratio of the noisy counts."""
        reach = reach_of(self.pmf, 1e-12)
        logs = np.log(np.maximum(self.pmf(2 * reach + 1), 1e-300))
        pair = worst_pair(self.neighbours, records=reach)

        def score(x: np.ndarray) -> np.ndarray:
            noisy = np.rint(x[:, :, 0].astype(np.float64) / x[:, :, 1] * FULL).astype(np.int64)
            ratio = np.zeros(len(x))
            for table, sign in ((pair.before, 1), (pair.after, -1)):
                ratio += sign * logs[np.clip(noisy - table[:, 0] + 2 * reach + 1, 0, len(logs) - 1)].sum(axis=1)
            return ratio

        return pair._replace(score=score)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseSampler(ExactSampler):
    """The sampler of counts plus exact whole noise with a rational public parameter.

    Args:
        parameter: The parameter of the noise, such as b of Laplace noise or v of Gaussian noise.

    Raises:
        InputError: The noise is not (epsilon, delta)-private at this very parameter.
    """

    parameter: Fraction

    noisy: ClassVar[bool] = True
    zero_cells: ClassVar[str] = ZERO_CELLS
    words: ClassVar[tuple[str, str]] = (
        "noise_parameter",
        "parameter",
    )  # the parameter's key in a statement, and its word in a price

    def __post_init__(self) -> None:
        require(0 < self.parameter <= LARGEST, "parameter", float(self.parameter), "that is too much noise: raise epsilon")
        spent = self.delta_spent
        require(
            spent <= self.delta,
            "delta",
            self.delta,
            f"this noise spends {spent:.6g} at this epsilon: use more noise, or raise delta",
        )

    @property
    @abc.abstractmethod
    def delta_spent(self) -> float:
        """An upper bound on delta at epsilon; 1 for a pure mechanism with less noise than epsilon needs."""

    @property
    @abc.abstractmethod
    def mechanism(self) -> NoiseMechanism:
        """The mechanism with the same noise. Its draws are floats, for research."""

    @abc.abstractmethod
    def draw_one(self) -> int:
        """One draw of the noise, in whole numbers from the operating system's entropy."""

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int]:
        """Noisy counts of the row's supported cells; `draws` is not used."""
        return [min(count, CAP) + self.draw_one() for count in counts]

    def pmf(self, reach: int) -> np.ndarray:
        """The law of the noise on -reach..reach, float64."""
        return self.mechanism.pmf(reach)

    def expected_error(self, records: float, cells: int) -> float:
        """The expected total variation on the public reference row, simulated with a fixed seed."""
        return noise_error(records, cells, self.pmf)

    def price_head(self, cells: int) -> str:
        """The sentence on the noise of one count."""
        spread = f"{self.words[1]} {float(self.parameter):.4g}"
        return f"Every count gets {self.name.replace('-', ' ')} noise of {spread}, floored at 1/2 and renormalised."

    def facts(self) -> dict[str, Any]:
        """The noise, exactly and as a decimal."""
        return {
            "mechanism": f"{self.name.replace('-', ' ')} noise on every supported count, floored at 1/2 and renormalised",
            self.words[0]: float(self.parameter),
            f"{self.words[0]}_exactly": str(self.parameter),
            "delta_spent_at_epsilon": self.delta_spent,
        }
