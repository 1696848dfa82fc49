"""Dirichlet draws, in log space until the end.

If g_j ~ Gamma(alpha_j, 1) are independent, p = g / sum(g) ~ Dirichlet(alpha). With log g_j = log d_j + y_j (`gamma`),
top = max_j y_j and w_j = d_j / sum(d), over the categories with alpha_j > 0:

    p_j = w_j e^(y_j - top) / sum_l w_l e^(y_l - top).

The large common part of the logarithms never appears, so that float32 keeps the relative precision of p_j for alpha up to 1e9; and
nothing underflows in log p for alpha down to 1e-30, where a float32 p_j itself is zero with probability 0.4 at alpha_j = 0.01.
alpha_j = 0 says that category j is impossible: p_j = 0 and log p_j = -inf exactly, and the others have their Dirichlet law.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Key, UInt32

from dpjax._errors import require
from dpjax.simplex.gamma import check_draws, gamma_parts


def _normalised_parts(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> tuple[Float[Array, "*batch n"], Float[Array, "draws *batch n"]]:
    """(log w, y - top)."""
    log_d, y = gamma_parts(key, alpha.reshape(-1), n_draws, first)
    log_d, y = jnp.where(alpha == 0, -jnp.inf, log_d.reshape(alpha.shape)), y.reshape(n_draws, *alpha.shape)
    return jax.nn.log_softmax(log_d, axis=-1), y - jnp.max(y, axis=-1, keepdims=True)


@functools.partial(jax.jit, static_argnames="n_draws")
def log_dirichlet_kernel(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> Float[Array, "draws *batch n"]:
    """`log_dirichlet` without its checks."""
    log_w, y = _normalised_parts(key, alpha, n_draws, first)
    log_p = log_w[None] + y
    return log_p - jnp.log(jnp.sum(jnp.exp(log_p), axis=-1, keepdims=True))


@functools.partial(jax.jit, static_argnames="n_draws")
def dirichlet_kernel(
    key: Key[Array, ""], alpha: Float[Array, "*batch n"], n_draws: int, first: UInt32[Array, ""]
) -> Float[Array, "draws *batch n"]:
    """`dirichlet` without its checks."""
    log_w, y = _normalised_parts(key, alpha, n_draws, first)
    p = jnp.exp(log_w)[None] * jnp.exp(y)
    return p / jnp.sum(p, axis=-1, keepdims=True)


def _checked(alpha: ArrayLike, n_draws: int, first: int | Array) -> tuple[Float[Array, "*batch n"], UInt32[Array, ""]]:
    alpha, start = check_draws(alpha, n_draws, first)
    require(alpha.ndim >= 1, "alpha", alpha, "give a vector of concentrations, or a stack of them")
    if not isinstance(alpha, jax.core.Tracer):
        possible = np.any(np.asarray(alpha) > 0, axis=-1)
        require(bool(np.all(possible)), "alpha", np.asarray(alpha), "give every row a positive concentration")
    return alpha, start


def log_dirichlet(key: Key[Array, ""], alpha: ArrayLike, n_draws: int, first: int | Array = 0) -> Float[Array, "draws *batch n"]:
    """Logarithms of Dirichlet(alpha) draws, shape (n_draws, *batch, n) for alpha of shape (*batch, n), in the dtype of alpha.

    alpha: float32 or float64, finite, >= 0, one positive entry a row at least; a zero entry is a structural zero, log p = -inf. The
    draws are those numbered first, ..., first + n_draws - 1, each fixed by the key and its number (`log_gamma_draws`).
    ValueError: a negative or non-finite concentration, a row of zeros, another dtype, no draw asked for.

    >>> import jax, jax.numpy as jnp
    >>> log_p = log_dirichlet(jax.random.key(0), jnp.array([[0.01, 0.02, 0.0], [20.0, 5.0, 1.0]]), 1000)
    >>> log_p.shape, bool(jnp.all(jnp.isfinite(log_p[:, :, :2])))
    ((1000, 2, 3), True)
    """
    checked, start = _checked(alpha, n_draws, first)
    return log_dirichlet_kernel(key, checked, n_draws, start)


def dirichlet(key: Key[Array, ""], alpha: ArrayLike, n_draws: int, first: int | Array = 0) -> Float[Array, "draws *batch n"]:
    """Dirichlet(alpha) draws, as `log_dirichlet` but on the simplex: zero for a structural zero and where the type underflows.

    The same key gives the draws of `log_dirichlet`, to rounding.

    >>> import jax, jax.numpy as jnp
    >>> p = dirichlet(jax.random.key(0), jnp.array([20.0, 5.0, 0.0]), 10)
    >>> bool(jnp.all(p[:, 2] == 0)), bool(jnp.allclose(jnp.sum(p, axis=-1), 1.0))
    (True, True)
    """
    checked, start = _checked(alpha, n_draws, first)
    return dirichlet_kernel(key, checked, n_draws, start)
