"""Permute-and-flip (McKenna and Sheldon 2020): the selection step of Mechanism 1 of the trajectory paper, in three forms of one
law.

Candidate r has the cost d_r (lower is better), c >= 0 is the scale, and its coin has the bias

    p_r = exp(c (min_q d_q - d_r)).

*Algorithm 1 (the reference).* Visit the candidates in a uniformly random order; at each toss its coin; choose the first that
accepts. The best candidate has p = 1 and always accepts.

*Exact law.* pi_r = p_r int_0^1 prod_{q != r} (1 - x p_q) dx. (Give each candidate an independent uniform arrival time x: r is
chosen if its coin accepts and none that arrives before it accepts; each other one does with probability x p_q.)

*Race.* pi is also the law of argmax_r [-c d_r + X_r], X_r independent standard exponentials. (With the best score set to 0, r
wins the race only if X_r > c g_r, of probability p_r; what remains of it, X_r - c g_r, is then again a standard exponential,
hence exp(-(X_r - c g_r)) an independent uniform arrival time: the largest score is the first accepted arrival.)

*Inverse.* Draw from the cumulative sums of the exact law.

If the costs of two inputs differ by at most D_r, the log ratio of the laws is at most c times the range of D (its largest value
minus its smallest): the caller chooses c from that.

Tails: see `dpjax.selection._uniform`; a draw's probability is right to a relative error of order 1e-6 in float32, 1e-14 in float64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax.selection._candidates import candidate_mask, scaled_gaps
from dpjax.selection._front import draw, evaluate
from dpjax.selection._inverse import draw_by_inverse
from dpjax.selection._quadrature import leave_one_out_integral
from dpjax.selection._race import draw_by_race
from dpjax.selection._uniform import open_uniform, random_words

__all__ = ["law", "log_law", "sample"]


def sample(
    key: Key[Array, ""], costs: Any, scale: Any, where: Any = None, *, shape: tuple[int, ...] = (), form: str = "auto"
) -> Int[Array, "*draws"]:
    """Draw candidates by permute-and-flip.

    `costs` (*batch, m), lower is better, +inf for a candidate never to be chosen; `scale` >= 0, a scalar or one for each of the
    batch; `where` a mask of the candidates, that broadcasts to the costs. Returns int32 indices of shape (*shape, *batch), all
    independent.

    Scale 0 gives a uniform draw over the candidates of finite cost in `where`; a very large scale gives a best one (uniform over
    ties). `form` is "permutation" (Algorithm 1), "race" or "inverse", all of one law; "auto" takes the race for one draw of each
    row of costs, and the inverse of the exact law where `shape` asks for more.

    The draw is computed in the dtype of the costs; costs, scale and mask that are not JAX arrays are taken as float64.
    ValueError for NaN, a negative scale, or a row without a candidate. Under a trace nothing is checked: such a row gives -1.

    >>> import jax, numpy as np
    >>> int(sample(jax.random.key(0), np.array([0.0, 5.0, np.inf]), 100.0))
    0
    """
    return draw(_FORMS, form, key, costs, scale, where, shape)


def law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The exact probabilities with which `sample` chooses each candidate, (*batch, m).

    Arguments as for `sample`. Each probability is right in relative terms, to about m units in the last place, however small. 0
    where a candidate is not allowed; a row without a candidate raises ValueError, and is all 0 under a trace. NumPy float64 where
    no argument is a JAX array; otherwise a JAX array of the costs' dtype, differentiable in costs and scale.

    >>> law([0.0, 2.0], 1.0).round(4)
    array([0.9323, 0.0677])
    """
    return evaluate(_law, costs, scale, where)


def log_law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The logarithms (nats) of `law`, without underflow: right where the probability is too small for a float; -inf where it is
    0.
    """
    return evaluate(_log_law, costs, scale, where)


@jax.jit
def _law(costs: Float[Array, "*batch m"], scale: Any, where: Any) -> Float[Array, "*batch m"]:
    allowed = candidate_mask(costs, where)
    gaps = scaled_gaps(costs, scale, allowed)
    integral = leave_one_out_integral(jnp.where(allowed, -jnp.expm1(-gaps), 1))
    return jnp.where(allowed, jnp.exp(-gaps) * integral, 0)


@jax.jit
def _log_law(costs: Float[Array, "*batch m"], scale: Any, where: Any) -> Float[Array, "*batch m"]:
    allowed = candidate_mask(costs, where)
    gaps = scaled_gaps(costs, scale, allowed)
    integral = leave_one_out_integral(jnp.where(allowed, -jnp.expm1(-gaps), 1))
    return jnp.where(allowed, jnp.log(integral) - gaps, -jnp.inf)


@functools.partial(jax.jit, static_argnames="shape")
def _by_permutation(
    key: Key[Array, ""], costs: Float[Array, "*batch m"], scale: Any, where: Any, shape: tuple[int, ...]
) -> Int[Array, "*draws"]:
    allowed = candidate_mask(costs, where)
    bias = jnp.where(allowed, jnp.exp(-scaled_gaps(costs, scale, allowed)), 0)
    for_order, for_coins = jax.random.split(key)
    full = shape + costs.shape
    order = jnp.argsort(random_words(for_order, full), axis=-1)
    accepts = open_uniform(for_coins, full, costs.dtype) < jnp.broadcast_to(bias, full)
    first = jnp.argmax(jnp.take_along_axis(accepts, order, axis=-1), axis=-1, keepdims=True)
    index = jnp.take_along_axis(order, first, axis=-1)[..., 0]
    return jnp.where(jnp.any(accepts, axis=-1), index, -1).astype(jnp.int32)


def _exponential(u: Float[Array, "*draws"]) -> Float[Array, "*draws"]:
    return -jnp.log(u)


_FORMS: dict[str, Callable[..., Any]] = {
    "permutation": _by_permutation,
    "race": functools.partial(draw_by_race, _exponential),
    "inverse": functools.partial(draw_by_inverse, _law),
}
