"""Draws against their exact laws, and against wrong laws; online, scanned and batched draws against each other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, feasible
from dpjax.trajectory import batch as batch_module
from dpjax.trajectory import mechanism as mechanism_module
from dpjax.trajectory import steps as steps_module
from dpjax.trajectory.batch import uniform_at, uniforms_between

KEY = jax.random.key(20260101)
WORD = [0, 0, 1, 2, 1]
FAILURE = 1e-6  # of each statistical test, for an honest sampler
DRAWS = 100_000


def p_value(m, reference, word, start, draws=DRAWS):
    """Chi-square p-value of draws of whole trajectories from `m` under the law of `reference`, by the oracle's enumeration."""
    paths = np.asarray(m.sample(KEY, word, draws, start=start))
    n = m.graph.n_states
    expected = reference.reshape(-1) * draws
    observed = np.bincount(np.ravel_multi_index(paths.T, (n,) * paths.shape[1]), minlength=expected.size)
    assert observed[expected == 0].sum() == 0
    rare = expected < 10
    pooled = np.append(observed[~rare], observed[rare].sum()), np.append(expected[~rare], expected[rare].sum())
    used = pooled[1] > 0
    return scipy.stats.chisquare(pooled[0][used], pooled[1][used]).pvalue


@pytest.mark.statistical
@pytest.mark.parametrize("selection", ["permute-and-flip", "exponential"])
def test_trajectories_follow_mechanism_1_and_not_a_scale_ten_per_cent_off(chain3, oracle, selection):
    G = oracle.distances(chain3.matrix)
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, selection=selection, prior_weight=0.2)

    def law(scale):
        laws = oracle.step_laws(chain3.matrix, G, scale, selection.replace("-", "_"), 0.2)
        return oracle.output_law(laws, tuple(WORD), np.array(chain3.initial_distribution))

    assert p_value(m, law(0.5), WORD, None) > FAILURE
    assert p_value(m, law(0.55), WORD, None) < FAILURE
    assert p_value(m, law(0.45), WORD, None) < FAILURE


@pytest.mark.statistical
def test_trajectories_follow_mechanism_2_and_not_a_scale_ten_per_cent_off(chain4, oracle):
    m = ChenMechanism(chain4, epsilon=2.0, b=1)
    start, word = np.array([0.1, 0.2, 0.3, 0.4]), [0, 1, 2, 0, 1]

    def law(scale):
        laws = oracle.step_laws(chain4.matrix, 1 - np.eye(4), scale, "exponential")
        return oracle.output_law(laws, tuple(word), start)

    assert p_value(m, law(2.0), word, start) > FAILURE
    assert p_value(m, law(2.2), word, start) < FAILURE
    assert p_value(m, law(1.8), word, start) < FAILURE


@pytest.mark.statistical
def test_online_steps_with_fresh_keys_follow_the_exact_law(chain3):
    """Steps under `vmap`, a fresh key each time, against the marginals: chi-square at each of 4 steps."""
    from dpjax.trajectory import batch as online

    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    law, draws = exact_law(m, WORD, start=0), 50_000
    with jax.enable_x64(True):
        state = jax.vmap(online.begin, (0, None))(jax.random.split(KEY, draws), jnp.ones(3))
        for t, s in enumerate(WORD[1:], 1):
            keys = jax.random.split(jax.random.fold_in(KEY, t), draws)
            state = jax.jit(jax.vmap(online.step, (0, None, 0, None)))(keys, m.kernel, state, m.cost_row(s))
            observed = np.bincount(np.asarray(state.private), minlength=3)
            assert scipy.stats.chisquare(observed, law.marginals[t] * draws).pvalue > FAILURE / 4


@pytest.mark.parametrize("seed", range(2))
def test_online_scanned_and_batched_runs_are_the_same_numbers(random_chain, seed):
    chain = random_chain(400 + seed, 9)
    word = np.random.default_rng(seed).integers(0, 9, 60)
    for m in (TrajectoryMechanism(chain, epsilon=3.0, rho=1.0, prior_weight=0.1), ChenMechanism(chain, epsilon=1.0)):
        batch = np.asarray(m.sample(KEY, word, 5, first=2, check=False))
        for lane in (0, 4):
            key = jax.random.fold_in(KEY, 2 + lane)
            whole = np.asarray(m.privatize(key, word, check=False))
            state, private = m.init(key)
            online = [int(private)]
            for s in word[1:]:  # the end of the stream is not known
                state, private = m.step(key, state, int(s))
                online.append(int(private))
            assert whole.tolist() == batch[lane].tolist() == online


def test_a_lane_is_the_same_in_any_batch_and_segment(chain4, monkeypatch):
    m = TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0)
    word = np.random.default_rng(1).integers(0, 4, 70)
    whole = np.asarray(m.sample(KEY, word, 300, check=False))
    assert (np.asarray(m.sample(KEY, word, 37, first=100, check=False)) == whole[100:137]).all()
    monkeypatch.setattr(batch_module, "LANES", 64)
    monkeypatch.setattr(batch_module, "STEPS", 16)
    assert (np.asarray(m.sample(KEY, word, 300, check=False)) == whole).all()
    assert (np.asarray(m.privatize(jax.random.fold_in(KEY, 7), word, check=False)) == whole[7]).all()


def test_a_shorter_trajectory_is_a_prefix(chain4):
    m = TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0)
    word = np.random.default_rng(2).integers(0, 4, 40)
    assert (np.asarray(m.sample(KEY, word[:11], 8, check=False)) == np.asarray(m.sample(KEY, word, 8, check=False))[:, :11]).all()


@pytest.mark.parametrize("seed", range(3))
def test_every_private_transition_is_feasible(random_chain, seed):
    chain = random_chain(500 + seed, 12)
    word = np.random.default_rng(seed).integers(0, 12, 30)
    for m in (
        TrajectoryMechanism(chain, epsilon=(0, 1, 1e5)[seed], rho=0.7, selection=("exponential", "permute-and-flip")[seed % 2]),
        ChenMechanism(chain, epsilon=5.0),
    ):
        paths = np.asarray(m.sample(KEY, word, 200, check=False))
        assert (chain.matrix[paths[:, :-1], paths[:, 1:]] > 0).all()
        assert np.asarray(feasible(m.graph.neighbours, jnp.asarray(paths))).all()


def test_epsilon_zero_is_uniform_over_neighbours(chain4):
    m = TrajectoryMechanism(chain4, epsilon=0, rho=1)
    law = exact_law(m, [0, 1], start=2)
    np.testing.assert_allclose(law.marginals[1], [0.5, 0, 0, 0.5], rtol=1e-14)
    law = exact_law(ChenMechanism(chain4, epsilon=0), [0, 1], start=0)
    np.testing.assert_allclose(law.marginals[1], [0, 0.5, 0.5, 0], rtol=1e-14)


@pytest.mark.parametrize("epsilon", [1e4, 1e12, 1e300])
def test_a_huge_epsilon_takes_a_nearest_candidate(random_chain, oracle, epsilon):
    chain = random_chain(600, 8)
    G = oracle.distances(chain.matrix)
    word = np.random.default_rng(3).integers(0, 8, 50)
    m = TrajectoryMechanism(chain, epsilon=epsilon, rho=1.0)
    paths = np.asarray(m.sample(KEY, word, 100, check=False))
    for t in range(1, 50):
        nearest = np.array([G[np.flatnonzero(chain.matrix[i]), word[t]].min() for i in paths[:, t - 1]])
        np.testing.assert_allclose(G[paths[:, t], word[t]], nearest, atol=1e-12)


def test_rows_with_one_neighbour_and_edges_of_length_zero(oracle):
    P = np.array([[0, 1.0, 0], [0, 0, 1.0], [0.5, 0.5, 0]])  # two rows without a choice
    m = TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=1.0, rho=1.0)
    np.testing.assert_allclose(m.graph.all_distances(), oracle.distances(P), atol=1e-15)
    paths = np.asarray(m.sample(KEY, [0, 1, 2, 1, 2], 50, start=0))
    assert (paths[:, :3] == [0, 1, 2]).all()
    cycle = TrajectoryMechanism(
        MarkovChain.from_matrix(np.roll(np.eye(4), 1, axis=1), initial=np.ones(4) / 4), epsilon=1.0, rho=1.0
    )
    assert np.asarray(cycle.privatize(KEY, [0, 1, 2, 3, 0], start=2)).tolist() == [2, 3, 0, 1, 2]
    law = exact_law(cycle, [0, 1, 2], start=2)
    assert law.expected_entropy == 0.0
    assert law.exceedance(0.0) == 0.0


def test_the_first_sensitive_state_is_never_copied(chain3):
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    one, other = (np.asarray(m.sample(KEY, [s, 1, 1], 500)) for s in (0, 2))
    assert (one == other).all()
    start = np.bincount(one[:, 0], minlength=3) / 500
    np.testing.assert_allclose(start, chain3.initial_distribution, atol=5 * np.sqrt(0.25 / 500))  # five standard errors
    assert (np.asarray(m.sample(KEY, [0, 1, 1], 50, start=2))[:, 0] == 2).all()
    assert set(np.asarray(m.sample(KEY, [0, 1, 1], 50, start=[0.5, 0.0, 0.5]))[:, 0].tolist()) == {0, 2}


def test_a_grid_over_parameters_and_keys_compiles_once(random_chain):
    chain = random_chain(700, 21)
    word = np.random.default_rng(5).integers(0, 21, 20)
    tables = (steps_module._law_table, steps_module._law_tables)
    compiled = (mechanism_module._step, mechanism_module._scan, batch_module._walk, batch_module._joined, *tables)

    def run(m, key):
        state, _ = m.init(key)
        m.step(key, state, 3)
        m.privatize(key, word, check=False)
        m.sample(key, word, 4, check=False)

    m = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    run(m, KEY)
    before = [f._cache_size() for f in compiled]
    for k, epsilon in enumerate((0.1, 2.0, 30.0)):
        run(dataclasses.replace(m, epsilon=epsilon, rho=0.5 + k, prior_weight=0.1 * k), jax.random.fold_in(KEY, k))
    assert [f._cache_size() for f in compiled] == before


def test_any_number_of_sensitive_states_is_tabulated_by_one_program(random_chain):
    """One for each rounded number of distinct states was compiled: seconds, on a web graph, for a trajectory of another length."""
    m = TrajectoryMechanism(random_chain(701, 26), epsilon=1.0, rho=1.0)
    before = steps_module._law_tables._cache_size()
    for count in (2, 8, 9, 26):
        with jax.enable_x64(True):
            tables = m.law_tables(np.arange(count))
            assert len(tables) == count
            for s in (0, count - 1):
                np.testing.assert_array_equal(tables[s], m.law_table(s))
    assert steps_module._law_tables._cache_size() == before + 1


def test_uniforms_are_fine_and_depend_on_key_and_time_alone():
    with jax.enable_x64(True):
        block = np.asarray(uniforms_between(KEY[None], jnp.int32(2), 1))[:, 0]
        assert float(uniform_at(KEY, jnp.int32(37))) == block[5]
        many = np.asarray(uniforms_between(KEY[None], jnp.int32(0), 5000))[:, 0]
    assert many.dtype == np.float64
    assert (many * 2**53 == np.floor(many * 2**53)).all()
    assert many.min() >= 0
    assert many.max() < 1
    assert len(np.unique(many)) == len(many)
    assert scipy.stats.kstest(many, "uniform").pvalue > FAILURE
