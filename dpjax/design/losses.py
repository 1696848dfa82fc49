"""What a design minimises: expected errors of the private stationary distribution in its first-order law, smooth in all parameters.

X = pi~ - pi is taken as normal, mean m = E pi~ - pi (smoothing and second order), variances s^2. Then, with weights w (1 unless given),

    "tv":  1/2 sum_l w_l E|X_l|,    E|X| = s sqrt(2/pi) exp(-m^2/(2 s^2)) + m erf(m/(s sqrt 2))  (the folded normal law),
    "l2":  sum_l w_l (m_l^2 + s_l^2),
    "kl":  1/2 sum_l w_l (m_l^2 + s_l^2)/pi_l, the divergence KL(pi || pi~) to second order.

A loss of one's own is a function (law, pi) -> scalar of the `StationaryLaw` and of the public model's stationary law, in jax.numpy.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax.design.stationary import Numbers, StationaryLaw
from dpjax.simplex._rounding import float64

Vector = Float[Array, "*batch n"] | Float[np.ndarray, "*batch n"]
Weights = Float[Array, "*each n"] | Float[np.ndarray, "*each n"] | float  # one for each state, or for each law and state
Loss = Callable[[StationaryLaw, Float[Array, " n"]], Float[Array, ""]]
Weighted = Callable[[StationaryLaw, Float[Array, " n"], Any], Float[Array, ""]]
Named = Literal["tv", "l2", "kl"]


def folded_normal_mean(mean: Numbers, variance: Numbers) -> Float[Array, "*shape"]:
    """E|X| for X normal, elementwise; |mean| where the variance is 0. Pure and smooth where the variance is positive."""
    mean, variance = jnp.asarray(mean), jnp.asarray(variance)
    some = variance > 0
    s = jnp.sqrt(jnp.where(some, variance, 1.0))
    z = mean / (s * math.sqrt(2))
    return jnp.where(some, s * math.sqrt(2 / math.pi) * jnp.exp(-(z**2)) + mean * erf(z), jnp.abs(mean))


def total_variation(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """Expected total variation of pi~ from pi in the first-order law; with weights, half the weighted sum of E|pi~_l - pi_l|."""
    error = folded_normal_mean(law.mean - _like(pi, law), law.variance)
    return 0.5 * (_like(weights, law) * error).sum(axis=-1)


def squared_error(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """Expected (weighted) squared error of pi~ in the first-order law."""
    return (_like(weights, law) * ((law.mean - _like(pi, law)) ** 2 + law.variance)).sum(axis=-1)


def divergence(law: StationaryLaw, pi: Vector, weights: Weights = 1.0) -> Float[Array, "*batch"]:
    """Expected KL(pi || pi~), nats, to second order: half the squared error over pi."""
    return 0.5 * squared_error(law, pi, _like(weights, law) / _like(pi, law))


def _like(x: Any, law: StationaryLaw) -> Float[Array, "*batch n"]:
    """`x` in the shape of the law's mean, a batch of laws having one x or one each."""
    return jnp.broadcast_to(jnp.asarray(x, law.stationary.dtype), law.stationary.shape)


_NAMED: dict[str, Weighted] = {"tv": total_variation, "l2": squared_error, "kl": divergence}


def resolve(loss: Named | Loss, weights: np.ndarray | list[float] | None, n: int) -> tuple[Weighted, Float[np.ndarray, " n"]]:
    """The loss as a function (law, pi, weights) -> scalar, one object for each loss, and the weights; ValueError where they do not fit."""
    if callable(loss):
        require(weights is None, "weights", weights, "leave weights out with a loss of your own, or name a loss")
        vector = np.zeros(n)
        require_scalar(loss, StationaryLaw(vector, vector, np.zeros((n, n))), vector, arguments="(law, pi)")
        return _unweighted(loss), np.ones(n)
    require(loss in _NAMED, "loss", loss, f"use one of {', '.join(map(repr, _NAMED))}, or a function (law, pi) -> scalar")
    given = np.ones(n) if weights is None else float64(weights, "weights")
    require(given.shape == (n,), "weights", weights, f"give one weight for each of the {n} states")
    require(
        bool((np.isfinite(given) & (given >= 0)).all() and given.any()),
        "weights",
        weights,
        "give finite weights of 0 or more, not all 0",
    )
    return _NAMED[loss], given


def require_scalar(loss: Callable[..., Any], *given: Any, arguments: str) -> None:
    """ValueError unless a loss of the user's own takes arguments of these shapes, is traced by JAX, and gives one real number."""
    try:
        inspect.signature(loss).bind(*given)
    except TypeError:
        invalid("loss", loss, "give a function of them", must=f"take the arguments {arguments}")
    except ValueError:
        pass  # a built-in without a signature: the trace will tell
    try:
        with jax.enable_x64(True):
            found = jax.eval_shape(loss, *given)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        invalid("loss", loss, "write it in jax.numpy, not in NumPy, so that it can be differentiated")
    shape = getattr(found, "shape", None)
    real = shape == () and jnp.issubdtype(found.dtype, jnp.floating)
    require(real, "loss", loss, "take a sum or a mean", must=f"return one real number, and returns {found}")


@functools.lru_cache(maxsize=16)
def _unweighted(loss: Loss) -> Weighted:
    return lambda law, pi, weights: loss(law, pi)


def evaluate(
    loss: Callable[..., Array], law: StationaryLaw, pi: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"] | float = 1.0
) -> np.float64:
    """A loss (law, pi, weights) -> scalar of NumPy float64 arrays, as a NumPy float64.

    >>> import numpy as np
    >>> from dpjax.design import stationary_law, total_variation
    >>> law = stationary_law(np.array([[0.9, 0.1], [0.3, 0.7]]), 1000.0)
    >>> round(float(evaluate(total_variation, law, law.stationary)), 5)
    0.01592
    """
    with jax.enable_x64(True):
        return np.float64(loss(StationaryLaw(*(jnp.asarray(x) for x in law)), jnp.asarray(pi), weights))
