"""GTH's elimination of matrices of few states, unrolled: one array over the batch for each entry.

The recurrences of `dpjax.chains.gth` with panels of one state. For k = n-1, ..., 1:

    s_k = sum_{j < k} P_kj,    P_ik <- P_ik / s_k,    P_ij <- P_ij + P_ik P_kj    for i, j < k, i != j;

then w_0 = 1, w_k = sum_{i < k} w_i P_ik, and pi = w / sum w. Written entry by entry the n^3 / 3 steps are elementwise operations on
arrays as long as the batch: nothing is masked, no diagonal entry is computed, and the compiler keeps what a step needs in registers
and spreads the batch over the cores. The program grows as n^3, which is why only few states are done so.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

MOST_STATES = 8  # up to here the program is small


def eliminate_unrolled(P: Float[Array, "b n n"]) -> Float[Array, "b n"]:
    """The stationary distribution of each matrix; NaN where a state does not reach state 0, or not within the range of the type."""
    n = P.shape[-1]
    by_entry = P.reshape(-1, n * n).T
    rows = [[by_entry[i * n + j] for j in range(n)] for i in range(n)]
    for k in range(n - 1, 0, -1):
        visits = 1 / _sum(rows[k][:k])
        for i in range(k):
            rows[i][k] = rows[i][k] * visits
            rows[i][:k] = [rows[i][j] if i == j else rows[i][j] + rows[i][k] * rows[k][j] for j in range(k)]
    weights = [jnp.ones_like(by_entry[0])]
    for k in range(1, n):
        weights.append(_sum([weights[i] * rows[i][k] for i in range(k)]))
    share = 1 / _sum(weights)  # a quotient is computed once, where a sum would be again for each of its readers
    share = jnp.where(share > 0, share, jnp.nan)  # 0 where a weight is past the range
    return jnp.stack([weight * share for weight in weights], axis=-1)


def _sum(terms: Sequence[Float[Array, " b"]]) -> Float[Array, " b"]:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
