"""The mechanisms on a whole count matrix c that a sweep compares at one target (epsilon, delta), and how each is drawn.

name                private shares of row i                                                       guarantee at the target
pseudocount         Dirichlet(s (c_i + alpha)), s the largest that meets it     (Theorem 7)       exact delta
discrete-laplace    c_i + Z, P(Z = z) ~ e^(-|z|/b), then post-processed                           delta = 0
discrete-gaussian   c_i + Z, P(Z = z) ~ e^(-z^2/(2v)), then post-processed                        exact delta

Post-processing of noisy counts: "floor", max(c_i + Z, 1/2) divided by its sum, or "project", the Euclidean projection; a row whose noisy
counts are all 0 or less is uniform under "floor". Last, for every mechanism and every draw, the private row p becomes

    p + w (u - p),   u the uniform law on the row's public support, w public and small,

so that every transition of the support has a positive probability: a projection that sets cells to 0, or a Dirichlet share that
underflows, leaves no chain without a stationary law. None of this reads the counts again: it costs no privacy.

The least pseudo-count (`dpjax.simplex.least_pseudocount`) is the one up to which no scale meets the target. It is a function of epsilon,
delta and the adjacency alone.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from dpjax._errors import require
from dpjax.baselines import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from dpjax.baselines.discrete_gaussian import gaussian_noise, tail_table
from dpjax.baselines.discrete_laplace import laplace_noise
from dpjax.baselines.to_simplex import POST_PROCESSING
from dpjax.simplex import PseudocountMechanism, dirichlet, least_pseudocount
from dpjax.sweep.workload import Quantity

Name = Literal["pseudocount", "discrete-laplace", "discrete-gaussian"]
USES: dict[str, tuple[str, ...]] = {
    "pseudocount": ("delta", "pseudocount", "pseudocount_factor"),
    "discrete-laplace": ("postprocess",),
    "discrete-gaussian": ("delta", "postprocess"),
}
CountMechanism = PseudocountMechanism | DiscreteLaplaceMechanism | DiscreteGaussianMechanism
PUBLIC = {
    "dirichlet_scale": Quantity(long_name="scale s of the Dirichlet draw; inf where noise is added instead and nothing is redrawn"),
    "pseudocount": Quantity(long_name="pseudo-count alpha; 0 where none is added", units="records"),
    "laplace_scale": Quantity(long_name="scale b of the discrete Laplace noise; 0 where there is none", units="records"),
    "gaussian_variance": Quantity(long_name="variance v of the discrete Gaussian noise; 0 where there is none", units="records^2"),
}
TAIL = 2**15  # the least width of a Gaussian's table, so that a grid compiles once
_NOISE = {"discrete-laplace": laplace_noise, "discrete-gaussian": gaussian_noise}
_SMALLEST, _LARGEST = 1e-6, 1e9  # pseudo-count


class Target(NamedTuple):
    """What a mechanism is to meet. delta is 0 for the discrete Laplace."""

    epsilon: float
    delta: float
    adjacency: Literal["replace", "add-remove"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountLaw:
    """A mechanism on counts, traced: counts (n, n); uniform (n, n), the uniform law on each row's support; weight, w above.

    parameter: the Dirichlet concentrations (n, n), the scale of the Laplace noise or the Gaussian's table of tails. Shapes are not annotated:
    on its way to a device every leaf has an axis of blocks in front.
    """

    counts: Any
    uniform: Any
    weight: Any
    parameter: Any
    name: Name = dataclasses.field(metadata={"static": True})
    postprocess: Literal["floor", "project"] = dataclasses.field(metadata={"static": True})


def pseudocount_mechanism(target: Target, *, pseudocount: float | None, factor: float | None) -> PseudocountMechanism:
    """Theorem 7's mechanism at this pseudo-count, or at `factor` times the least."""
    epsilon, delta, adjacency = target
    alpha = pseudocount
    if factor is not None:
        least = least_pseudocount(**target._asdict())
        require(least < _LARGEST, "(epsilon, delta)", (epsilon, delta), "no pseudo-count reaches it: choose another pair")
        alpha = max(least, _SMALLEST) * factor
    assert alpha is not None, "one of the two is given"
    return PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=alpha, adjacency=adjacency)


def public_numbers(mechanism: CountMechanism) -> dict[str, float]:
    """PUBLIC's quantities."""
    numbers = {"dirichlet_scale": math.inf, "pseudocount": 0.0, "laplace_scale": 0.0, "gaussian_variance": 0.0}
    if isinstance(mechanism, PseudocountMechanism):
        return numbers | {"dirichlet_scale": float(mechanism.scale), "pseudocount": float(mechanism.pseudocount)}
    if isinstance(mechanism, DiscreteLaplaceMechanism):
        return numbers | {"laplace_scale": float(mechanism.scale)}
    return numbers | {"gaussian_variance": float(mechanism.variance)}


def count_law(
    mechanism: CountMechanism,
    counts: np.ndarray,
    support: Bool[np.ndarray, "n n"],
    *,
    weight: float,
    dtype: np.dtype,
) -> CountLaw:
    """The mechanism's law on these counts, NumPy arrays of this dtype."""
    name: Name
    postprocess: Literal["floor", "project"] = "floor"
    if isinstance(mechanism, PseudocountMechanism):
        name, parameter = "pseudocount", np.where(support, float(mechanism.scale) * (counts + float(mechanism.pseudocount)), 0.0)
    else:
        postprocess = "project" if mechanism.postprocess == "project" else "floor"
        if isinstance(mechanism, DiscreteLaplaceMechanism):
            name, parameter = "discrete-laplace", np.asarray(mechanism.scale)
        else:
            tail = tail_table(float(mechanism.variance), dtype)
            name, parameter = "discrete-gaussian", np.pad(tail, (0, max(0, TAIL - len(tail))))
    return CountLaw(
        counts=counts.astype(dtype),
        uniform=(support / support.sum(axis=1, keepdims=True)).astype(dtype),
        weight=np.asarray(weight, dtype),
        parameter=parameter.astype(dtype),
        name=name,
        postprocess=postprocess,
    )


def draw(key: Array, law: CountLaw, first: Any, n: int) -> Float[Array, "draws n n"]:
    """Private matrices first, ..., first + n - 1, each fixed by the key and its number; pure. float64 needs x64 on."""
    start, uniform = jnp.asarray(first, jnp.uint32), jnp.asarray(law.uniform)[None]
    if law.name == "pseudocount":
        shares = dirichlet(key, law.parameter, n, start)
    else:
        noise = _NOISE[law.name]
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(start + jnp.arange(n, dtype=jnp.uint32))
        noisy = law.counts[None] + jax.vmap(lambda k: noise(k, law.counts, law.parameter))(keys)
        shares = POST_PROCESSING[law.postprocess](noisy, uniform > 0)
    return shares + law.weight * (uniform - shares)
