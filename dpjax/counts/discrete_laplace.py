"""Discrete Laplace (two-sided geometric) noise on counts: the practitioner's pure baseline (Ghosh, Roughgarden, Sundararajan 2009).

Every count of the public support gets independent noise Z, P(Z = z) proportional to e^(-|z|/b). Changing one count by 1 changes the
log probability of any output by at most 1/b.

    adjacency        counts that change            scale b          guarantee
    "replace"        one by -1, another by +1      2 / epsilon      (epsilon, 0), exactly attained
    "add-remove"     one by 1                      1 / epsilon      (epsilon, 0), exactly attained

"replace" covers any record replaced by any other, in the same row or another; "add-remove" one record more or fewer, and a replacement at
twice epsilon only. Totals, empty rows and zero cells are private under both. Nothing is assumed of the counts.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from dpjax._errors import require
from dpjax._random import open_uniform
from dpjax.counts.postprocess import POST_PROCESSING, checked_counts, checked_epsilon, checked_options

SENSITIVITY = {"replace": 2, "add-remove": 1}  # L1


@jax.jit
def laplace_noise(key: Key[Array, ""], like: Float[Array, "*shape"], scale: Float[Array, ""]) -> Float[Array, "*shape"]:
    """Discrete Laplace noise of the shape and dtype of `like`: the difference of two geometric numbers floor(scale * Exp(1))."""
    up, down = (jnp.floor(-jnp.log(open_uniform(k, like.shape, like.dtype)) * scale) for k in jax.random.split(key))
    return up - down


@dataclasses.dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceMechanism:
    """counts -> counts + discrete Laplace noise -> the simplex. epsilon > 0, nats; postprocess "floor" or "project".

    >>> DiscreteLaplaceMechanism(epsilon=0.5).scale
    4.0
    """

    epsilon: float | int
    adjacency: str = "replace"
    postprocess: str = "floor"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_options(self.adjacency, self.postprocess)

    @property
    def scale(self) -> float:
        """b = L1 sensitivity / epsilon."""
        return SENSITIVITY[self.adjacency] / self.epsilon

    def pmf(self, reach: int) -> Float[np.ndarray, " width"]:
        """P(Z = z) for z = -reach..reach, float64, not renormalised."""
        require(reach >= 0, "reach", reach, "give a whole number, 0 or more")
        ratio = 1 / self.scale
        return np.tanh(ratio / 2) * np.exp(-ratio * np.abs(np.arange(-reach, reach + 1.0)))

    def exact_delta(self, epsilon: float | int) -> float:
        """0 from the mechanism's epsilon on; below it the claim is refused."""
        require(epsilon >= self.epsilon, "epsilon", epsilon, f"this mechanism is private at {self.epsilon} and delta 0, not below")
        return 0.0

    def privatize(
        self, key: Key[Array, ""], counts: np.ndarray | Array, support: np.ndarray | None = None
    ) -> Float[Array, "*batch n"]:
        """Private shares of each row of counts, (*batch, n); categories outside the public `support` stay 0. A simulation."""
        values = checked_counts(counts)
        mask = None if support is None else jnp.asarray(support, bool)
        noisy = values + laplace_noise(key, values, jnp.asarray(self.scale, values.dtype))
        return POST_PROCESSING[self.postprocess](noisy, mask)
