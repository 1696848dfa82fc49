"""Ergodicity coefficients of a transition matrix in closed form.

tau_p(P) = max { ||z P||_p : ||z||_p = 1, sum z = 0 }: how much one step brings two laws together. Both bound |lambda_2|.

p = inf (Definition 7 of the Dirichlet-mechanism paper). For a column c, max { z . c : |z_i| <= 1, sum z = 0 } is a linear
programme whose vertices have z_i = +-1 on half of the entries each (n odd: one zero), so it is the sum of the upper half of c less
that of the lower half, which is sum_i |c_i - median c|. Hence tau_inf = max_j sum_i |P_ij - median_i P_ij|. It can exceed 1.

p = 1 (Dobrushin). The extreme points of the ball with sum 0 are (e_i - e_j)/2, so tau_1 = 1/2 max_ij sum_l |P_il - P_jl|, the
largest total variation between two rows, at most 1.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.chains._arrays import following_dtype


def ergodicity_coefficient(P: Any, norm: str = "inf") -> Any:
    """The ergodicity coefficient in the norm "inf" (Definition 7) or "1" (Dobrushin), (*batch, n, n) -> (*batch,).

    In the type of the input, jitted, vmappable. Dobrushin's costs n^3 operations and holds (*batch, n, n) numbers at a time.

    >>> import numpy as np
    >>> from dpjax.chains import ergodicity_coefficient
    >>> P = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
    >>> float(ergodicity_coefficient(P).round(12)), float(ergodicity_coefficient(P, norm="1").round(12))
    (1.5, 1.0)
    """
    require(norm in ("inf", "1"), "norm", norm, 'choose "inf" (Definition 7) or "1" (Dobrushin)')
    return _coefficient(P, norm)


@following_dtype
def _coefficient(P: Float[Array, "*batch n n"], norm: str) -> Float[Array, "*batch"]:
    return _tau_inf(P) if norm == "inf" else largest_row_distance(P)


@jax.jit
def _tau_inf(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch"]:
    """max_j w_j . P_j, w_j = 1 above the median of the column, -1 below, and at the median what makes them sum to 0."""
    middle = _lower_median(jax.lax.stop_gradient(P))[..., None, :]
    above, below = middle < P, middle > P
    excess = below.sum(-2, dtype=P.dtype) - above.sum(-2, dtype=P.dtype)
    tied = (~above & ~below).sum(-2, dtype=P.dtype)
    weight = jnp.where(above, 1, jnp.where(below, -1, (excess / tied)[..., None, :]))
    return (jax.lax.stop_gradient(weight) * P).sum(-2).max(-1)


def _lower_median(P: Float[Array, "*batch n n"]) -> Float[Array, "*batch n"]:
    """The entry of rank ceil(n/2) of each column, by bisection on the bits that order the floats: vectorised, where a sort is not."""
    bits = jnp.finfo(P.dtype).bits
    whole = jnp.int32 if bits == 32 else jnp.int64
    code = jax.lax.bitcast_convert_type(P, whole)
    code = jnp.where(code < 0, jnp.iinfo(whole).min - code, code)  # negative floats are ordered backwards
    rank = (P.shape[-1] + 1) // 2
    column = (*P.shape[:-2], P.shape[-1])

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low & high) + ((low ^ high) >> 1)  # floor of the mean, without overflow
        enough = (code <= middle[..., None, :]).sum(-2, dtype=jnp.int32) >= rank
        return jnp.where(enough, low, middle + 1), jnp.where(enough, middle, high)

    ends = (jnp.full(column, jnp.iinfo(whole).min, whole), jnp.full(column, jnp.iinfo(whole).max, whole))
    found = jax.lax.fori_loop(0, bits, halve, ends)[1]
    return jax.lax.bitcast_convert_type(jnp.where(found < 0, jnp.iinfo(whole).min - found, found), P.dtype)


@jax.jit
def largest_row_distance(M: Float[Array, "*batch n m"]) -> Float[Array, "*batch"]:
    """1/2 max_ij sum_l |M_il - M_jl|, for any matrix: tau_1 where the rows have equal sums."""
    rows = jnp.moveaxis(M, -2, 0)
    distances = jax.lax.map(lambda row: jnp.abs(M - row[..., None, :]).sum(-1).max(-1), rows)
    return distances.max(0) / 2
