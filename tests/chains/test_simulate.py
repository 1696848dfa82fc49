"""Simulation: the law of draws (chi-square, with power), draws at the edges of the uniform, keys, and sparse against dense."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse, stats

from dpjax.chains import MarkovChain, simulate, transition_table, walk
from dpjax.chains.simulate import TransitionTable, _first_above, cumulative_start

P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
FAILURE_RATE = 1e-6  # of each test of a law here, were its key drawn afresh


def p_value(transitions, P):
    """Chi-square of observed transitions, row by row, against P; a transition of probability 0 has p-value 0."""
    observed = np.bincount(transitions, minlength=P.size).reshape(P.shape)
    if observed[P == 0].any():
        return 0.0
    expected = observed.sum(1, keepdims=True) * P
    statistic = ((observed - expected)[P > 0] ** 2 / expected[P > 0]).sum()
    return stats.chi2.sf(statistic, (P > 0).sum() - len(P))


def lanes(chain, n_lanes, n_steps, initial=None, seed=0):
    table = transition_table(chain)
    start = cumulative_start(chain.initial_distribution if initial is None else initial, table)
    root = jax.random.key(seed)
    return np.asarray(jax.vmap(lambda lane: walk(jax.random.fold_in(root, lane), table, start, n_steps))(jnp.arange(n_lanes)))


@pytest.mark.statistical
@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_transitions_follow_the_matrix_and_a_wrong_one_is_rejected(form):
    paths = lanes(MarkovChain.from_matrix(form(P4)), 2000, 100)
    steps = (paths[:, :-1] * 4 + paths[:, 1:]).ravel()
    assert p_value(steps, P4) > FAILURE_RATE
    wrong = P4.copy()
    wrong[0, 1:3] = 0.68, 0.32  # one probability wrong by 0.02
    assert p_value(steps, wrong) < FAILURE_RATE


@pytest.mark.statistical
def test_the_first_state_follows_its_law_and_a_wrong_one_is_rejected():
    law = np.array([0.1, 0.2, 0.0, 0.7])
    first = lanes(MarkovChain.from_matrix(P4, initial=law), 100_000, 0)[:, 0]
    assert p_value(first, law[None]) > FAILURE_RATE
    assert p_value(first, np.array([[0.11, 0.19, 0.0, 0.7]])) < FAILURE_RATE


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
def test_no_uniform_leads_to_a_state_of_probability_zero(monkeypatch, dtype):
    """At u = 0, at the largest u below 1, and where rounding leaves the last sum short of 1 or above it."""
    rows = np.array([[0, 0.3, 0, 0.7, 0], [0.1, 0.2, 0.3, 0.4, 0], [0, 0, 1, 0, 0]])
    for scale in (1, 0.999, 1.001):
        cumulative = jnp.asarray(np.cumsum((rows * scale).astype(dtype), axis=1, dtype=dtype))
        for u in (0.0, float(np.nextafter(np.array(1, dtype), np.array(0, dtype)))):
            monkeypatch.setattr(jax.random, "uniform", lambda key, shape, dtype, u=u: jnp.asarray(u, dtype))
            for row, sums in zip(rows, cumulative, strict=True):
                drawn = int(_first_above(jax.random.key(0), sums))
                assert row[drawn] > 0
                assert drawn == (np.flatnonzero(row)[0] if u == 0 else np.flatnonzero(row)[-1])


def test_sums_stay_where_a_probability_is_zero_under_a_trace_too():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(300, 0.05), size=300).astype(np.float32)
    P[P < 1e-3] = 0
    P /= P.sum(1, keepdims=True)
    traced = jax.jit(lambda P: transition_table(P).cumulative)(jnp.asarray(P))
    np.testing.assert_array_equal(traced, transition_table(P).cumulative)
    steps = np.diff(np.asarray(traced), axis=1, prepend=0)
    assert (steps >= 0).all()
    assert not (steps[P == 0] != 0).any()


def test_sparse_and_dense_forms_give_the_same_trajectory():
    key = jax.random.key(3)
    for initial in (None, 2):
        dense = simulate(key, MarkovChain.from_matrix(P4), 200, initial=initial)
        thin = simulate(key, MarkovChain.from_matrix(sparse.csr_array(P4)), 200, initial=initial)
        np.testing.assert_array_equal(dense, thin)
        np.testing.assert_array_equal(dense, simulate(key, P4, 200, initial=initial))
    assert dense[0] == 2
    assert dense.dtype == jnp.int32


def test_a_longer_run_begins_with_the_shorter_and_lanes_do_not_depend_on_their_number():
    chain = MarkovChain.from_matrix(P4)
    np.testing.assert_array_equal(simulate(jax.random.key(1), chain, 50)[:21], simulate(jax.random.key(1), chain, 20))
    np.testing.assert_array_equal(lanes(chain, 7, 30)[:3], lanes(chain, 3, 30))
    assert (lanes(chain, 2, 30)[0] != lanes(chain, 2, 30)[1]).any()


def test_matrices_and_starts_may_be_traced():
    P = jnp.asarray(np.stack([P4, P4[::-1]]), jnp.float32)
    key = jax.random.key(0)
    paths = jax.jit(jax.vmap(lambda p, s: simulate(key, p, 10, initial=s)))(P, jnp.array([0, 3]))
    assert paths[:, 0].tolist() == [0, 3]
    np.testing.assert_array_equal(paths[0], simulate(key, P4, 10, initial=0))


def test_one_compilation_serves_all_keys_chains_and_starts():
    before = walk._cache_size()
    for seed in range(4):
        P = np.random.default_rng(seed).dirichlet(np.ones(9), size=9)
        simulate(jax.random.key(seed), P, 13, initial=seed)
    assert walk._cache_size() == before + 1
    assert isinstance(transition_table(P4), TransitionTable)


@pytest.mark.parametrize(
    ("chain", "n_steps", "initial", "message"),
    [
        (P4, -1, 0, "n_steps is -1"),
        (P4, 5, 4, "initial is 4. Pass a state index, 0 to 3"),
        (P4, 5, -1, "initial is -1"),
        (P4, 5, [0.5, 0.5], "distribution on 4 states"),
        (P4, 5, [0.5, 0.6, 0, 0], "sums to 1"),
        (P4[None], 5, 0, "one matrix"),
        (P4 * 1.1, 5, 0, "the sum of row"),
        (P4[:3], 5, 0, "square"),
    ],
)
def test_bad_input_is_named(chain, n_steps, initial, message):
    with pytest.raises(ValueError, match=message):
        simulate(jax.random.key(0), chain, n_steps, initial=initial)
