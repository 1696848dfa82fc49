"""The exponential mechanism (McSherry and Talwar 2007), in the terms of `permute_and_flip`.

Candidate r has the cost d_r (lower is better), c >= 0 is the scale:

    pi_r = exp(-c d_r) / sum_q exp(-c d_q).

If the costs of two inputs differ by D_r = d_r - d'_r, then log pi_r/pi'_r = -c D_r + log(sum_q e^{-c d'_q} / sum_q e^{-c d_q}). The
last term is at most c max D. The log ratio is therefore at most c times the range of D, as for permute-and-flip, whose expected
cost is never larger at the same scale.

*Race.* Drawn as argmin_r E_r e^{c d_r}, with E_r independent standard exponentials, in logarithms. The smallest E_r decide, and E =
-log(1 - u) keeps its relative precision there (see `dpjax._random`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from dpjax._random import checked_key
from dpjax.selection._front import candidate_mask, draw, draw_by_inverse, draw_by_race, evaluate, scaled_gaps

__all__ = ["law", "log_law", "sample"]


def sample(
    key: Key[Array, ""], costs: Any, scale: Any, where: Any = None, *, shape: tuple[int, ...] = (), form: str = "auto"
) -> Int[Array, "*draws"]:
    """Candidates drawn with probability proportional to exp(-scale * cost).

    Dtypes, errors and the index -1: see `permute_and_flip.sample`.

    Args:
        key: One typed JAX key.
        costs: Costs, (*batch, m); lower is better, +inf is never chosen.
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen; broadcasts to the costs. Default: all.
        shape: The shape of the draws for each row of costs.
        form: "race", "inverse" or "auto".

    Returns:
        Independent indices, (*shape, *batch), int32.

    Source:
        McSherry and Talwar (2007).

    Example:
        >>> import jax, numpy as np
        >>> from dpjax.selection import exponential_mechanism
        >>> int(exponential_mechanism.sample(jax.random.key(0), np.array([0.0, 5.0, np.inf]), 100.0))
        0
    """
    key = checked_key(key)
    return draw(_FORMS, form, key, costs, scale, where, shape)


def law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The exact probabilities with which `sample` chooses each candidate, (*batch, m).

    Dtypes: see `permute_and_flip.law`.

    Args:
        costs: Costs, (*batch, m).
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen. Default: all.

    Example:
        >>> from dpjax.selection import exponential_mechanism
        >>> exponential_mechanism.law([0.0, 2.0], 1.0).round(4)
        array([0.8808, 0.1192])
    """
    return evaluate(_law, costs, scale, where)


def log_law(costs: Any, scale: Any, where: Any = None) -> Any:
    """The logarithms (nats) of `law`, without underflow; -inf where it is 0.

    Args:
        costs: Costs, (*batch, m).
        scale: At least 0: a scalar, or one for each of the batch.
        where: A mask of the candidates that may be chosen. Default: all.
    """
    return evaluate(_log_law, costs, scale, where)


@jax.jit
def _law(costs: Float[Array, "*batch m"], scale: Any, where: Any) -> Float[Array, "*batch m"]:
    allowed = candidate_mask(costs, where)
    weight = jnp.where(allowed, jnp.exp(-scaled_gaps(costs, scale, allowed)), 0)
    total = jnp.sum(weight, axis=-1, keepdims=True)
    return weight / jnp.where(total > 0, total, 1)


@jax.jit
def _log_law(costs: Float[Array, "*batch m"], scale: Any, where: Any) -> Float[Array, "*batch m"]:
    allowed = candidate_mask(costs, where)
    gaps = scaled_gaps(costs, scale, allowed)
    total = jnp.sum(jnp.where(allowed, jnp.exp(-gaps), 0), axis=-1, keepdims=True)
    return jnp.where(allowed, -gaps - jnp.log(jnp.where(total > 0, total, 1)), -jnp.inf)


def _log_exponential(u: Float[Array, "*draws"]) -> Float[Array, "*draws"]:
    """Minus the logarithm of an exponential arrival time."""
    return -jnp.log(-jnp.log1p(-u))


_FORMS: dict[str, Callable[..., Any]] = {
    "race": functools.partial(draw_by_race, _log_exponential),
    "inverse": functools.partial(draw_by_inverse, _law),
}
