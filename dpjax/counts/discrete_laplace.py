"""Discrete Laplace (two-sided geometric) noise on counts: the usual pure baseline (Ghosh, Roughgarden, Sundararajan 2009).

Every count of the public support gets independent noise Z, P(Z = z) proportional to e^(-|z|/b). A change of one count by 1 changes the log
probability of any output by at most 1/b.

    adjacency        counts that change            scale b          guarantee
    "replace"        one by -1, another by +1      2 / epsilon      (epsilon, 0), exactly attained
    "add-remove"     one by 1                      1 / epsilon      (epsilon, 0), exactly attained

For persons also b = L1/epsilon, with L1 of `neighbours`; the guarantee is pure and attained. For a release b is L1 divided by the decimal
that epsilon prints as, in rationals, and the noise is drawn in whole numbers.

"replace" covers any record replaced by any other, in the same row or another. "add-remove" covers one record more or fewer, and a
replacement at twice epsilon. Totals, empty rows and zero cells are private under both. Nothing is assumed about the counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dpjax import _exact
from dpjax._errors import require
from dpjax._random import open_uniform
from dpjax._rationals import as_written, float_up
from dpjax._tracing import check_traced, conditions, frozen_pytree, is_traced, nan_unless, require_concrete
from dpjax.counts.neighbours import Neighbours, given
from dpjax.counts.noise import LARGEST, TOO_MUCH, NoiseMechanism, NoiseSampler
from dpjax.counts.postprocess import checked_epsilon, checked_postprocess, laplace_error
from dpjax.counts.protocol import Parameter, Replaced, Variant, register
from dpjax.simplex._rounding import alike


@jax.jit
def laplace_noise(key: Key[Array, ""], like: Float[Array, "*shape"], scale: Float[Array, ""]) -> Float[Array, "*shape"]:
    """Discrete Laplace noise of the shape and dtype of `like`: the difference of two geometric numbers floor(scale * Exp(1))."""
    up, down = (jnp.floor(-jnp.log(open_uniform(k, like.shape, like.dtype)) * scale) for k in jax.random.split(key))
    return up - down


@frozen_pytree("epsilon", static=("adjacency", "postprocess"))
@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceMechanism(NoiseMechanism):
    """The mechanism counts -> counts + discrete Laplace noise -> the simplex.

    A pytree: epsilon is a leaf and may be traced. Draws are whole-number noise with derivative 0 in epsilon.

    Args:
        epsilon: Nats, positive.
        adjacency: "replace", "add-remove" or a `Neighbours`.
        postprocess: "floor" (positive shares) or "project" (the nearest shares).

    Source:
        Ghosh, Roughgarden and Sundararajan (2009).

    Example:
        >>> from dpjax.counts import DiscreteLaplaceMechanism
        >>> DiscreteLaplaceMechanism(epsilon=0.5).scale
        4.0
    """

    epsilon: Any
    adjacency: Neighbours | str = "replace"
    postprocess: str = "floor"

    name: ClassVar[str] = "discrete-laplace"
    title: ClassVar[str] = "discrete Laplace"
    spends_delta: ClassVar[bool] = False
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        "laplace_scale": Parameter("scale b of the discrete Laplace noise; 0 if there is none", "records")
    }

    def __post_init__(self) -> None:
        self._check()
        checked_postprocess(self.postprocess)
        object.__setattr__(self, "adjacency", given(self.adjacency))

    def _check(self) -> None:
        """Check epsilon, which a pytree brings unchecked."""
        checked_epsilon(self.epsilon)

    @classmethod
    def calibrate(  # type: ignore[override]
        cls,
        *,
        epsilon: float | int,
        delta: float | int = 0.0,
        adjacency: Neighbours | str = "replace",
        postprocess: str = "floor",
    ) -> DiscreteLaplaceMechanism:
        """The mechanism at this epsilon. delta is neither spent nor used."""
        return cls(epsilon=epsilon, adjacency=adjacency, postprocess=postprocess)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactLaplace:
        """The sampler with the least rational scale that epsilon, as it is written, allows."""
        b = self.neighbours.l1 / as_written(epsilon)
        require(b <= LARGEST, "epsilon", epsilon, TOO_MUCH)
        return ExactLaplace(epsilon=epsilon, delta=0.0, parameter=b, neighbours=self.neighbours)

    @property
    def scale(self) -> Any:
        """The scale b = L1 sensitivity / epsilon, a float; rounded up if epsilon is a Fraction."""
        with conditions() as held:
            self._check()
        b = self.neighbours.l1 / self.epsilon
        return float_up(b) if isinstance(b, Fraction) else nan_unless(held, b) if is_traced(b) else b

    @property
    def parameters(self) -> Mapping[str, float]:
        """On the host: the scale b."""
        return {"laplace_scale": float(self.scale)}

    def pmf(self, reach: int) -> Float[np.ndarray, " width"]:
        """On the host: P(Z = z) for z = -reach..reach, float64, not renormalised."""
        require_concrete(self.epsilon, "epsilon", "call it outside the transformed function")
        require(reach >= 0, "reach", reach, "give a whole number, 0 or more")
        ratio = 1 / self.scale
        return np.tanh(ratio / 2) * np.exp(-ratio * np.abs(np.arange(-reach, reach + 1.0)))

    def exact_delta(self, epsilon: Any) -> Any:
        """0 for epsilon at or above the mechanism's epsilon; a smaller epsilon is refused.

        A traced argument gives a value in its dtype, NaN for a smaller epsilon.
        """
        with conditions() as held:
            self._check()
        if is_traced(epsilon, self.epsilon):
            asked, ours = alike(epsilon, self.epsilon)
            check_traced(asked >= ours, "epsilon", "be the mechanism's epsilon or more")
            return nan_unless(held, jnp.where(asked >= ours, jnp.zeros_like(asked), jnp.nan))
        require(
            epsilon >= self.epsilon,
            "epsilon",
            epsilon,
            f"this mechanism is private at delta 0 only for epsilon >= {self.epsilon}: pass that or more",
        )
        return 0.0

    def exact_epsilon(self, delta: Any = 0.0) -> Any:
        """The mechanism's epsilon: exact at delta 0, an upper bound for delta > 0. A Fraction is rounded up to a float.

        A traced argument gives a value in its dtype.
        """
        with conditions() as held:
            self._check()
        if is_traced(delta, self.epsilon):
            asked, ours = alike(delta, self.epsilon)
            right = (asked >= 0) & (asked < 1)
            check_traced(right, "delta", "be a probability, at least 0 and below 1")
            return nan_unless([*held, right], jnp.broadcast_to(ours, asked.shape))
        require(bool(0 <= delta < 1), "delta", delta, "give a probability, at least 0 and below 1")
        return float_up(self.epsilon) if isinstance(self.epsilon, Fraction) else float(self.epsilon)

    @classmethod
    def released(cls, facts: Mapping[str, Any]) -> DiscreteLaplaceMechanism:
        """The mechanism with the noise scale of a statement."""
        return cls(epsilon=1 / float(facts["noise_scale"]), adjacency="add-remove")

    @property
    def noise_variance(self) -> Any:
        """The variance of the noise, 1 / (2 sinh(1/(2b))^2)."""
        if is_traced(self.epsilon):
            return 0.5 / jnp.sinh(0.5 / self.scale) ** 2
        return 0.5 / math.sinh(0.5 / self.scale) ** 2

    def noise(self, dtype: np.dtype) -> tuple[Callable[..., Array], Any]:
        """The difference of two geometric numbers, and the scale b."""
        return laplace_noise, self.scale if is_traced(self.epsilon) else np.asarray(self.scale)

    @classmethod
    def variants(cls) -> Sequence[Variant]:
        """Both ways to the simplex."""
        return [Variant("discrete Laplace, floored", {}), Variant("discrete Laplace, projected", {"postprocess": "project"})]


register(DiscreteLaplaceMechanism, "laplace")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactLaplace(NoiseSampler):
    """The sampler of counts plus exact discrete Laplace noise of the rational scale `parameter`."""

    name: ClassVar[str] = "discrete-laplace"
    words: ClassVar[tuple[str, str]] = ("noise_scale", "scale")

    @property
    def delta_spent(self) -> float:
        """0, or 1 for a scale smaller than epsilon allows."""
        return 0.0 if self.parameter * as_written(self.epsilon) >= self.neighbours.l1 else 1.0

    def replaced(self) -> Replaced | None:
        """For "add-remove": exactly twice epsilon, because two counts move (for persons, the records of both)."""
        if self.neighbours.relation == "replace":
            return None
        return Replaced(Neighbours("replace", self.neighbours.persons).l1 / self.parameter, 0.0, self.accountant)

    @property
    def accountant(self) -> str:
        """The source of epsilon."""
        return "exact, pure: L1 sensitivity over the scale, in rationals (dpjax)"

    @property
    def mechanism(self) -> DiscreteLaplaceMechanism:
        """The mechanism with noise of this scale, for one record added or removed."""
        return DiscreteLaplaceMechanism(epsilon=float_up(1 / Fraction(self.parameter)), adjacency="add-remove")

    def draw_one(self) -> int:
        """One draw of the noise."""
        return _exact.discrete_laplace(Fraction(self.parameter))

    def expected_error(self, records: float, cells: int) -> float:
        """The expected total variation on the public reference row. Drawn without a table, which would be too long at a small epsilon."""
        return laplace_error(records, cells, float(1 / self.parameter), 1)
