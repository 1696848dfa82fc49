"""The joint law against enumeration of every pair of trajectories, and against reference values."""

import itertools

import numpy as np
import pytest
import scipy.stats

from dpjax.chains import MarkovChain
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, joint_law, joint_stationary
from dpjax.trajectory import joint as joint_chain_module
from dpjax.trajectory import joint as joint_module
from dpjax.trajectory import joint as stationary_module
from dpjax.trajectory.joint import JointChain

N = 3  # transitions enumerated


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-15)


def mechanisms(chain):
    return {
        "mechanism 1": (TrajectoryMechanism(chain, epsilon=2.0, rho=1.5), "permute_and_flip", 2 / 3, 0.0),
        "prior": (TrajectoryMechanism(chain, epsilon=2.0, rho=1.5, prior_weight=0.6), "permute_and_flip", 2 / 3, 0.6),
        "mechanism 2": (ChenMechanism(chain, epsilon=1.2, b=2), "exponential", 0.6, 0.0),
    }


class Enumeration:
    """Every (s_0..s_N, s'_0..s'_N) with its probability, from the definitions."""

    def __init__(self, oracle, P, costs, select, scale, prior, start):
        n = len(P)
        laws = oracle.step_laws(P, costs, scale, select, prior)
        words = np.array(list(itertools.product(range(n), repeat=N + 1)))
        self.s, self.o = np.repeat(words, len(words), axis=0), np.tile(words, (len(words), 1))
        self.weight = start[self.s[:, 0], self.o[:, 0]]
        for t in range(N):
            now, after = self.s[:, t], self.s[:, t + 1]
            self.weight = self.weight * P[now, after] * laws[after, self.o[:, t], self.o[:, t + 1]]
        self.errors = oracle.distances(P)[self.o, self.s]
        with np.errstate(divide="ignore"):
            lengths = -np.log(P[self.o[:, :-1], self.o[:, 1:]])
        self.entropy = np.where(self.weight > 0, lengths.sum(axis=1), 0.0) / N


@pytest.mark.parametrize("which", ["mechanism 1", "prior", "mechanism 2"])
@pytest.mark.parametrize("seed", range(3))
def test_everything_equals_enumeration(random_chain, oracle, which, seed):
    size = 3 + (seed == 0)
    chain = random_chain(700 + seed, size)
    m, select, scale, prior = mechanisms(chain)[which]
    G = oracle.distances(chain.matrix)
    costs = 1.0 - np.eye(size) if which == "mechanism 2" else G
    start = np.random.default_rng(seed).dirichlet(np.ones(size**2)).reshape(size, size)
    every = Enumeration(oracle, chain.matrix, costs, select, scale, prior, start)
    law = joint_law(m, N, start=start)

    def near(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)

    for t in range(N + 1):
        near(law.sensitive_marginals[t], np.bincount(every.s[:, t], every.weight, size))
        near(law.marginals[t], np.bincount(every.o[:, t], every.weight, size))
    near(law.end.reshape(-1), np.bincount(every.s[:, N] * size + every.o[:, N], every.weight, size**2))
    near(law.expected_error, every.weight @ every.errors)
    mean = every.weight @ every.entropy
    near(law.expected_entropy, mean)
    assert law.variance_entropy == pytest.approx(every.weight @ (every.entropy - mean) ** 2, rel=1e-11, abs=1e-15)
    thresholds = np.sort(np.unique(G))  # at the distances themselves: strictly above
    near(law.exceedance(thresholds), [every.weight[every.errors.max(axis=1) > v].sum() for v in thresholds])
    expected = [[every.weight[every.errors[:, t] > v].sum() for v in thresholds] for t in range(N + 1)]
    near(law.step_exceedance(thresholds), expected)


def test_reference_values(chain3):
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    close(joint_law(m, 5, start=0).exceedance(3.0), 0.46179543494341347)
    settled = joint_stationary(m)
    close([settled.expected_error, settled.exceedance(3.0)], [0.59567699045496773, 0.061021112316136618])
    close(settled.law.sum(axis=1), [0.25862068965517241, 0.44252873563218391, 0.29885057471264368])
    close(chain3.entropy_rate(), 0.35389110097283225)
    assert settled.residual < 1e-15


def test_the_joint_law_is_the_mean_of_the_exact_laws_of_its_words(random_chain):
    chain = random_chain(710, 3)
    m = TrajectoryMechanism(chain, epsilon=1.5, rho=1.0, prior_weight=0.3)
    law, levels = joint_law(m, N, start=2), np.array([0.0, 0.5, 2.0])
    tail, entropy = np.zeros(3), 0.0
    for tail_of_word in itertools.product(range(3), repeat=N):
        word = np.array([2, *tail_of_word])
        probability = float(np.prod(chain.matrix[word[:-1], word[1:]]))
        if probability > 0:
            one = exact_law(m, word, start=2)
            tail, entropy = tail + probability * one.exceedance(levels), entropy + probability * one.expected_entropy
    np.testing.assert_allclose(law.exceedance(levels), tail, rtol=1e-12)
    assert law.expected_entropy == pytest.approx(entropy, rel=1e-12)


def test_forms_of_a_start(chain3):
    m, p = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0), np.array([0.2, 0.3, 0.5])
    mu = chain3.stationary_distribution()
    np.testing.assert_allclose(joint_law(m, 1).start, np.outer(mu, mu))
    np.testing.assert_allclose(joint_law(m, 1, start=p).start, np.outer(mu, p))
    np.testing.assert_allclose(joint_law(m, 1, start=1, sensitive=p).start, np.outer(p, [0, 1, 0]))
    np.testing.assert_allclose(joint_law(m, 1, start=2).start, np.diag([0, 0, 1.0]))
    np.testing.assert_allclose(joint_law(m, 1, start=np.diag(p)).start, np.diag(p))
    for bad in ({"start": np.ones((2, 2))}, {"start": np.diag(p), "sensitive": 1}, {"start": -np.eye(3)}, {"start": 3}):
        with pytest.raises(ValueError, match="is"):
            joint_law(m, 1, **bad)
    with pytest.raises(ValueError, match="n_steps is 0"):
        joint_law(m, 0)
    with pytest.raises(ValueError, match="v is"):
        joint_law(m, 1).exceedance(float("nan"))


def test_small_pieces_change_nothing(random_chain, monkeypatch):
    m = TrajectoryMechanism(random_chain(720, 7), epsilon=1.0, rho=1.0)
    levels = np.linspace(0, 3, 5)

    def numbers():
        law, f = joint_law(m, 4, start=0), np.random.default_rng(0).random((7, 7, 2))
        return law.exceedance(levels), law.variance_entropy, law.marginals, law.chain.backward(f), law.chain.matrix().toarray()

    whole = numbers()
    monkeypatch.setattr(joint_chain_module, "_GROUP_ENTRIES", 60)
    monkeypatch.setattr(joint_chain_module, "HELD_BYTES", 0)
    monkeypatch.setattr(joint_module, "_HELD_BYTES", 1)
    for one, other in zip(whole, numbers(), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12)


def test_the_operator_is_the_matrix(random_chain):
    chain = JointChain(TrajectoryMechanism(random_chain(730, 5), epsilon=2.0, rho=1.0))
    T, rng = chain.matrix().toarray(), np.random.default_rng(1)
    np.testing.assert_allclose(T.sum(axis=1), 1.0, rtol=1e-13)
    nu, f = rng.random((5, 5)), rng.random((5, 5))
    np.testing.assert_allclose(chain.forward(nu).reshape(-1), nu.reshape(-1) @ T, rtol=1e-13)
    np.testing.assert_allclose(chain.backward(f).reshape(-1), T @ f.reshape(-1), rtol=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_running_and_elimination_give_one_stationary_law(random_chain, seed, monkeypatch):
    chain = MarkovChain.from_matrix(0.7 * random_chain(740 + seed, 4).matrix + 0.3 * np.eye(4))
    m = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    solved = joint_stationary(m)
    monkeypatch.setattr(stationary_module, "ASSEMBLED", 0)
    np.testing.assert_allclose(joint_stationary(m).law, solved.law, atol=1e-11)
    later = joint_law(m, 1, start=solved.law)
    np.testing.assert_allclose(later.end, solved.law, rtol=1e-11, atol=1e-15)
    assert later.expected_entropy == pytest.approx(solved.expected_length, rel=1e-12)


def test_a_periodic_chain_has_no_one_stationary_law_and_says_so():
    cycle = MarkovChain.from_matrix(np.roll(np.eye(3), 1, axis=1))
    with pytest.raises(ValueError, match="closed classes"):
        joint_stationary(TrajectoryMechanism(cycle, epsilon=1.0, rho=1.0))


@pytest.mark.statistical
def test_draws_of_both_trajectories_lie_in_the_band_and_reject_a_wrong_epsilon(chain3):
    """40,000 random words, one private draw each; binomial tests at failure rate 1e-6; epsilon 10 % off falls outside."""
    rng, draws, steps = np.random.default_rng(5), 40_000, 12
    m = TrajectoryMechanism(chain3, epsilon=2.0, rho=1.0)
    G, P = m.graph.all_distances(), chain3.matrix
    from dpjax.selection import permute_and_flip

    laws = np.cumsum([[permute_and_flip.law(G[:, s], m.scale) for _ in range(3)] for s in range(3)], axis=-1)
    s, o, largest = np.zeros(draws, int), np.zeros(draws, int), np.zeros(draws)
    total = 0.0
    for _ in range(steps):
        s = np.minimum((rng.random(draws)[:, None] > np.cumsum(P, axis=1)[s]).sum(axis=1), 2)
        new = np.minimum((rng.random(draws)[:, None] > laws[s, o]).sum(axis=1), 2)
        total, o = total - np.log(P[o, new]), new
        largest = np.maximum(largest, G[o, s])

    def worst(epsilon):
        law = joint_law(TrajectoryMechanism(chain3, epsilon=epsilon, rho=1.0), steps, start=0)
        hits = [(int((largest > v).sum()), float(law.exceedance(v))) for v in (0.0, 2.5, 3.0, 4.0)]
        return min(scipy.stats.binomtest(k, draws, p).pvalue for k, p in hits), law

    p, law = worst(2.0)
    assert p > 1e-6
    assert abs(total.mean() / steps - law.expected_entropy) < 5 * np.sqrt(law.variance_entropy / draws)  # failure rate 6e-7
    assert worst(2.2)[0] < 1e-6
