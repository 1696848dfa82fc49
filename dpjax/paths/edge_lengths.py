"""Edge lengths of a Markov chain: W(i, j) = -log P(i, j), in nats.

A transition of probability 0 is no edge: its length is +inf. A transition of probability 1 has length 0 and is an edge. In a
SciPy sparse array an edge is a stored entry, zero or not; SciPy's sparse graph routines keep stored zeros as edges of length 0,
while its dense ones take every 0 for a missing edge, so that only stored entries are handed to SciPy here. Self loops keep their
length W(i, i): a distance of 0 from a state to itself is put in by the closure, not here.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import sparse

from dpjax._errors import require

_ROW_SUM_TOLERANCE = 1e-5  # a matrix held in float32


def transition_matrix(chain: Any) -> sparse.csr_array:
    """A chain's transition matrix, or the one given, as a float64 sparse array of positive entries; ValueError if it is none."""
    given = getattr(chain, "matrix", chain)
    shape = np.shape(given)
    require(len(shape) == 2 and shape[0] == shape[1] > 0, "chain", shape, "give a chain, or a square transition matrix")
    matrix = sparse.csr_array(given).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    wrong = matrix.data[~((matrix.data > 0) & (matrix.data <= 1))]
    require(wrong.size == 0, "chain", wrong[:3].tolist(), "give probabilities between 0 and 1")
    sums = np.asarray(matrix.sum(axis=1))
    off = {int(i): float(sums[i]) for i in np.flatnonzero(np.abs(sums - 1) > _ROW_SUM_TOLERANCE)[:3]}
    require(not off, "chain", off, "make these rows sum to 1")
    return matrix


def edge_lengths(chain: Any) -> sparse.csr_array:
    """-log P as a float64 sparse array whose stored entries are the edges, length 0 included; P a chain or a transition matrix.

    >>> edge_lengths([[0.0, 1.0], [0.5, 0.5]]).nnz
    3
    """
    lengths = transition_matrix(chain)
    lengths.data = 0.0 - np.log(lengths.data)
    return lengths


def length_matrix(lengths: sparse.csr_array) -> Float[np.ndarray, "n n"]:
    """The edge lengths as a dense float64 matrix, +inf where there is no edge."""
    dense = np.full(lengths.shape, np.inf)
    dense[np.repeat(np.arange(lengths.shape[0]), np.diff(lengths.indptr)), lengths.indices] = lengths.data
    return dense


@jax.jit
def traced_lengths(P: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """-log P under a trace, unchecked: +inf where P is 0, with derivative 0 there (a missing edge stays missing)."""
    edge = P > 0
    return jnp.where(edge, 0 - jnp.log(jnp.where(edge, P, 1)), jnp.inf)
