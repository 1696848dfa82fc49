"""Permute-and-flip (McKenna and Sheldon 2020), the selection step of Mechanism 1 of the trajectory paper, in three forms.

Candidate r has the cost d_r (lower is better), c >= 0 is the scale, and its coin has the bias

    p_r = exp(c (min_q d_q - d_r)).

*Algorithm 1 (the reference).* Visit the candidates in a uniformly random order. Toss the coin of each, and choose the first that
accepts. The best candidate has p = 1 and always accepts.

*Exact law.* pi_r = p_r int_0^1 prod_{q != r} (1 - x p_q) dx. (Give each candidate an independent uniform arrival time x. r is
chosen if its coin accepts and no candidate that arrives before it accepts; each other candidate does so with probability x p_q.)

*Race.* pi is also the law of argmax_r [-c d_r + X_r], X_r independent standard exponentials. (Set the best score to 0. r can win
the race only if X_r > c g_r, of probability p_r. Given that, X_r - c g_r is again a standard exponential, so exp(-(X_r - c g_r)) is
an independent uniform arrival time, and the largest score is the first accepted arrival.)

*Inverse.* Draw from the cumulative sums of the exact law.

*Privacy.* If the costs of two inputs differ by at most D_r, the log ratio of the laws is at most c times the range of D (its
largest minus its smallest value). The caller chooses c from that. Tails: see `dpjax._random`. The probability of a draw has a
relative error of order 1e-6 in float32, 1e-14 in float64.

The integral of the exact law is evaluated for every candidate r by Gauss-Legendre quadrature.

*How many nodes.* The integrand is a polynomial in x of degree m - 1, so ceil(m/2) nodes are exact. Fewer are enough for many
candidates. With K nodes, the quadrature and the integral are both affine in each p_q. Their ratio is then monotone in each p_q (a
ratio of affine functions), and the relative error is largest at a corner of [0, 1]^(m-1), where the integrand is (1 - x)^k for some
k <= m - 1. That error grows with k and falls like exp(-4 K^2/k). K = ceil(3.15 sqrt(m)) leaves less than 1e-16 for every m up to
900 (checked with 30 digits); 63 nodes serve 393 candidates.

*Nodes and weights* on [0, 1] have a relative error of 5e-14 in x, in 1 - x and in the weights. With z = 1 - t and P_j the Legendre
polynomial at t, the differences D_j = P_j - P_{j-1} obey

    (j + 1) D_{j+1} = j D_j - (2j + 1) z P_j,

which describes a node near t = 1 by z and not by 1 - z. Newton's method on P_K in z starts from z = 2 sin^2(pi (4k - 1)/(8K + 4)).
The weight is 2 z (2 - z)/(K P_{K-1})^2 on [-1, 1]. The other half of the nodes follows by symmetry. (NumPy's and SciPy's rules have
errors of 1e-12 in the weights at 60 nodes, which is visible in a law of 393 candidates.)

*Rounding.* A factor is computed as (1 - x) + x (1 - p), a sum of numbers that are not negative, with 1 - x from the node and 1 - p
= -expm1(-c g). Its error is a few units in the last place even where p = 1 and x -> 1, and it is never 0, so that the product
without r is the whole product divided by r's own factor. A product that underflows weighs less than 1e-33 beside an integral of at
least 1/m. The rounding of m factors remains: about m units in the last place.

*Speed.* Division is the slowest operation, so GROUP = 4 nodes share one. With products P_k and factors f_k of a candidate, P_1/f_1
+ P_2/f_2 = (P_1 f_2 + P_2 f_1)/(f_1 f_2), applied twice. All numbers are positive, so that this adds a few units in the last place.
A product of four factors is at least 1e-12 for every m up to 900.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from dpjax._random import checked_key, open_uniform, random_words
from dpjax.selection._front import candidate_mask, draw, draw_by_inverse, draw_by_race, evaluate, scaled_gaps


@functools.cache
def gauss_legendre(
    count: int,
) -> tuple[Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"], Float[np.ndarray, " nodes"]]:
    """The nodes x, their complements 1 - x, and weights that sum to 1, float64, x increasing."""
    k = np.arange(1, (count + 1) // 2 + 1)
    z = 2 * np.sin(np.pi * (4 * k - 1) / (8 * count + 4)) ** 2
    if count % 2:
        z[-1] = 1.0  # the middle node
    for _ in range(6):
        value, before = _legendre(count, z)
        z = z + value * z * (2 - z) / (count * (before - (1 - z) * value))
    _, before = _legendre(count, z)
    weight = z * (2 - z) / (count * before) ** 2
    near, far, mirrored = z / 2, 1 - z / 2, slice(None, -1 if count % 2 else None)
    x = np.concatenate([near, far[mirrored][::-1]])
    return x, np.concatenate([far, near[mirrored][::-1]]), np.concatenate([weight, weight[mirrored][::-1]])


def _legendre(count: int, z: Float[np.ndarray, " half"]) -> tuple[Float[np.ndarray, " half"], Float[np.ndarray, " half"]]:
    """P_count and P_{count - 1} at 1 - z."""
    before, value, difference = np.ones_like(z), 1 - z, -z
    for j in range(1, count):
        difference = (j * difference - (2 * j + 1) * z * value) / (j + 1)
        before, value = value, value + difference
    return value, before


GROUP = 4  # nodes in a step, a power of two


def node_count(m: int) -> int:
    """The number of nodes that leaves a relative error below 1e-16 for m candidates."""
    return min((m + 1) // 2, math.ceil(3.15 * math.sqrt(m)))


def leave_one_out_integral(miss: Float[Array, "*batch m"]) -> Float[Array, "*batch m"]:
    """int_0^1 prod_{q != r} (1 - x p_q) dx for each r, between 1/m and 1.

    Memory: a few arrays of the input's size, whatever the number of nodes.

    Args:
        miss: 1 - p_q, (*batch, m); 1 for a candidate that cannot be chosen.
    """

    def add_nodes(total: Float[Array, "*batch m"], nodes: tuple[Array, ...]) -> tuple[Float[Array, "*batch m"], None]:
        factors = [y + x * miss for x, y in zip(nodes[0], nodes[1], strict=True)]
        products = [weight * jnp.prod(f, axis=-1, keepdims=True) for weight, f in zip(nodes[2], factors, strict=True)]
        return total + sum_of_ratios(list(zip(products, factors, strict=True))), None

    table = tuple(jnp.asarray(column, miss.dtype) for column in grouped_nodes(miss.shape[-1]))
    return lax.scan(add_nodes, jnp.zeros_like(miss), table)[0]


def grouped_nodes(m: int) -> list[Float[np.ndarray, "groups 4"]]:
    """x, 1 - x and the weights in groups. The last group is filled up with nodes of weight 0."""
    spare = -node_count(m) % GROUP
    columns = zip(gauss_legendre(node_count(m)), (0.0, 1.0, 0.0), strict=True)
    return [np.pad(column, (0, spare), constant_values=filler).reshape(-1, GROUP) for column, filler in columns]


def sum_of_ratios(ratios: list[tuple[Array, Array]]) -> Array:
    """The sum of ratios a/b with one division: a/b + c/d = (a d + c b) / (b d), in pairs. All numbers are positive."""
    # ends: each turn halves the list
    while len(ratios) > 1:
        pairs = zip(ratios[::2], ratios[1::2], strict=True)
        ratios = [(a * d + c * b, b * d) for (a, b), (c, d) in pairs]
    return ratios[0][0] / ratios[0][1]


__all__ = ["law", "log_law", "sample"]


def sample(
    key: Key[Array, ""], costs: Any, scale: Any, where: Any = None, *, shape: tuple[int, ...] = (), form: str = "auto"
) -> Int[Array, "*draws"]:
    """Candidates drawn by permute-and-flip.

    Scale 0 gives a uniform draw over the allowed candidates. A very large scale gives a best one (uniform over ties). The draw is
    computed in the dtype of the costs, or in float64 if no argument is a JAX array.

    Args:
        key: One typed JAX key.
        costs: Costs, (*batch, m); lower is better, +inf is never chosen.
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen; broadcasts to the costs. Default: all.
        shape: The shape of the draws for each row of costs.
        form: "permutation" (Algorithm 1), "race" or "inverse", all of one law. "auto" is the race for one draw of each row of
            costs, and the
            inverse of the exact law if `shape` asks for more.

    Returns:
        Independent indices, (*shape, *batch), int32. Under a trace, a row without a candidate gives -1.

    Raises:
        InputError: A cost is NaN, the scale is negative, or a row has no candidate.

    Source:
        McKenna and Sheldon (2020); Algorithm 1 of the trajectory paper.

    Example:
        >>> import jax, numpy as np
        >>> from dpjax.selection import permute_and_flip
        >>> int(permute_and_flip.sample(jax.random.key(0), np.array([0.0, 5.0, np.inf]), 100.0))
        0
    """
    key = checked_key(key)
    return draw(_FORMS, form, key, costs, scale, where, shape)


def law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The exact probabilities with which `sample` chooses each candidate, (*batch, m).

    Each probability has a relative error of about m units in the last place, however small it is. It is 0 where a candidate is not
    allowed.

    Args:
        costs: Costs, (*batch, m).
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen. Default: all.

    Returns:
        Probabilities, NumPy float64 if no argument is a JAX array; otherwise a JAX array in the dtype of the costs, differentiable
        in costs and
        scale. Under a trace a row without a candidate is all 0.

    Raises:
        InputError: As for `sample`.

    Example:
        >>> from dpjax.selection import permute_and_flip
        >>> permute_and_flip.law([0.0, 2.0], 1.0).round(4)
        array([0.9323, 0.0677])
    """
    return evaluate(_law, costs, scale, where)


def log_law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The logarithms (nats) of `law`, without underflow: accurate also for a probability too small for a float; -inf where it is 0.

    Args:
        costs: Costs, (*batch, m).
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen. Default: all.

    Example:
        >>> from dpjax.selection import permute_and_flip
        >>> permute_and_flip.log_law([0.0, 2000.0], 1.0).round(2).tolist()
        [0.0, -2000.69]
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
    """Algorithm 1 as it stands."""
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
