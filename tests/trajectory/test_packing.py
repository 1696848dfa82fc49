"""Packed edges against plain loops over the matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from dpjax.chains import MarkovChain
from dpjax.trajectory.graph import arriving, graph_of
from dpjax.trajectory.kernel import cumulative, invert, invert_packed


@pytest.fixture(scope="module")
def web():
    """300 states, a few hubs of degree 100 or so, many rows of one to three."""
    rng = np.random.default_rng(0)
    degree = np.where(rng.random(300) < 0.03, 110, rng.integers(0, 3, 300))
    P = np.zeros((300, 300))
    for i in range(300):
        P[i, rng.choice(300, degree[i], replace=False)] = 1.0
        P[i, (i + 1) % 300] = 1.0
    P *= rng.gamma(1.0, size=P.shape)
    return MarkovChain.from_matrix(scipy.sparse.csr_array(P / P.sum(axis=1, keepdims=True)))


def test_rows_hold_the_edges(web):
    neighbours, P = graph_of(web).neighbours, web.matrix.toarray()
    arrays = (neighbours.states, neighbours.lengths, neighbours.real, neighbours.base, neighbours.width)
    states, lengths, real, base, width = (np.asarray(a) for a in arrays)
    for i in range(300):
        row = slice(base[i], base[i] + width[i])
        held = states[row][real[row]]
        assert held.tolist() == np.flatnonzero(P[i]).tolist()
        np.testing.assert_allclose(lengths[row][real[row]], -np.log(P[i, held]), rtol=1e-15, atol=1e-15)
        assert (np.asarray(neighbours.owners)[row][real[row]] == i).all()
    assert real.sum() == (P > 0).sum()
    assert neighbours.n_slots < 300 * 4 + 3 * (P > 0).sum()


def test_arriving_edges_are_the_transposed_matrix(web):
    graph = graph_of(web)
    slots = np.zeros(graph.neighbours.n_slots)
    real = np.asarray(graph.neighbours.real)[: len(slots)]
    slots[real] = np.exp(-np.asarray(graph.neighbours.lengths)[: len(slots)][real])
    move = arriving(graph.arrivals, slots[graph.arrivals.slots])
    np.testing.assert_allclose(move.toarray(), web.matrix.toarray().T, rtol=1e-14)


def test_bisection_finds_what_a_linear_search_finds(web):
    neighbours = graph_of(web).neighbours
    rng = np.random.default_rng(2)
    with jax.enable_x64(True):
        table = np.zeros(neighbours.n_slots)
        for start, rows, width in neighbours.blocks:
            block = rng.gamma(0.1, size=(rows, width)) * np.asarray(neighbours.real[start : start + rows * width]).reshape(
                rows, width
            )
            table[start : start + rows * width] = np.asarray(cumulative(jnp.asarray(block))).reshape(-1)
        i, u = rng.integers(0, 300, 4000).astype(np.int32), rng.random(4000)
        flat = jnp.concatenate([jnp.zeros(7), jnp.asarray(table)])
        found = np.asarray(jax.vmap(invert_packed, (None, None, None, 0, 0))(neighbours, flat, jnp.int32(7), i, u))
    base, width, states = (np.asarray(a) for a in (neighbours.base, neighbours.width, neighbours.states))
    for one, uniform, state in zip(i, u, found, strict=True):
        row = slice(base[one], base[one] + width[one])
        assert state == states[row][np.flatnonzero(table[row] > uniform)[0]]


@pytest.mark.parametrize("width", [4, 8, 48, 512])
def test_cumulative_sums_never_decrease_and_end_in_exactly_one(width):
    rng = np.random.default_rng(width)
    law = rng.gamma(0.05, size=(200, width))
    law[:, width - width // 3 :] = 0.0  # padding
    law[rng.random(law.shape) < 0.2] = 0.0
    law[:, 0] += 1e-300
    with jax.enable_x64(True):
        total = np.asarray(cumulative(jnp.asarray(law)))
        last = np.array([np.flatnonzero(row)[-1] for row in law])
        highest = jnp.float64(1 - 2.0**-53)
        chosen = [int(invert(jnp.asarray(row), highest)) for row in total[:50]]
    assert (np.diff(total, axis=1) >= 0).all()
    assert (np.diff(total, axis=1)[law[:, 1:] == 0] == 0).all()
    assert all((row[k:] == 1.0).all() for row, k in zip(total, last, strict=True))
    np.testing.assert_allclose(total, np.cumsum(law, axis=1) / law.sum(axis=1, keepdims=True), rtol=1e-12)
    assert all(law[r, k] > 0 for r, k in enumerate(chosen))
