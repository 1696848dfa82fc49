"""Honest mechanisms pass and planted faults are found, at stated numbers of draws.

Error rates. At confidence 0.99 an honest mechanism is refuted with probability at most 0.01; the faults are found in each of ten
runs here, which has probability under 0.05 where the power is under 0.74 (docs/audit.md gives 20 runs for several sizes).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import beta

from dpjax import ChenMechanism, DirichletMechanism, MarkovChain, PseudocountMechanism, TrajectoryMechanism, exact_law
from dpjax.audit import count_target, dirichlet_target, matrix_target, selection_target, trajectory_target
from dpjax.counts import DirichletRows, DiscreteGaussianMechanism, DiscreteLaplaceMechanism, Neighbours, PersonBound
from dpjax.simplex import MatrixMechanism, PublicRows
from dpjax.trajectory import OfflineMechanism

RUNS = 10
GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5}
CHAIN = MarkovChain.from_matrix(np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]]))
SPARSE = MarkovChain.from_matrix(np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]]))


def matrix(k_times=1.0):
    counts = np.array([[500, 300, 200], [0, 7, 0], [40, 9, 20]])
    rows = PublicRows.from_counts(counts, support="observed", eta="smallest share")
    m = MatrixMechanism.calibrate(rows=rows, epsilon=1.0, delta=0.02)
    return m if k_times == 1 else MatrixMechanism(rows=rows, k=m.k * k_times)


HONEST = {
    "dirichlet": lambda: dirichlet_target(DirichletMechanism(k=20.6, **GRADES), 0.01),
    "two categories": lambda: dirichlet_target(DirichletMechanism(k=5.0, eta=0.1, n_records=20, n_categories=2), 0.01),
    "small k": lambda: dirichlet_target(DirichletMechanism(k=0.5, eta=0.1, n_records=20, n_categories=5), 0.01),
    "replace": lambda: count_target(PseudocountMechanism(scale=0.5, pseudocount=10.0), 0.01),
    "add-remove": lambda: count_target(PseudocountMechanism(scale=0.5, pseudocount=10.0, adjacency="add-remove"), 0.01),
    "discrete Laplace": lambda: count_target(DiscreteLaplaceMechanism(epsilon=1.0), 0.01),
    "discrete Laplace, add-remove": lambda: count_target(DiscreteLaplaceMechanism(epsilon=1.0, adjacency="add-remove"), 0.01),
    "discrete Gaussian": lambda: count_target(DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=0.01), 0.01),
    "discrete Gaussian, add-remove": lambda: count_target(
        DiscreteGaussianMechanism.calibrate(epsilon=1.0, delta=0.01, adjacency="add-remove"), 0.01
    ),
    "matrix": lambda: matrix_target(matrix(), 0.02),
    "mechanism 1": lambda: trajectory_target(TrajectoryMechanism(CHAIN, epsilon=1.0, rho=1.0)),
    "exponential": lambda: trajectory_target(TrajectoryMechanism(CHAIN, epsilon=1.0, rho=1.0, selection="exponential")),
    "prior": lambda: trajectory_target(TrajectoryMechanism(CHAIN, epsilon=2.0, rho=1.0, prior_weight=0.5)),
    "offline": lambda: trajectory_target(OfflineMechanism(CHAIN, epsilon=1.0, rho=1.0, base_weight=1.0)),
    "mechanism 2": lambda: trajectory_target(ChenMechanism(CHAIN, epsilon=1.0)),
    "race": lambda: selection_target([0.0, 1.0, 2.0], [1.0, 0.0, 2.0], 0.5, form="race"),
    "permutation": lambda: selection_target([0.0, 1.0, 2.0], [1.0, 0.0, 2.0], 0.5, form="permutation"),
}


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "two categories" else ()) for name in HONEST]
)
def test_honest_mechanisms_pass(name):
    # the exact value, never above the claim, is the bar: one false alarm in 1,000 runs of all seventeen
    target = HONEST[name]()
    result = target.audit(jax.random.key(1), 100_000, confidence=1 - 1 / 17_000)
    assert target.exact <= target.claimed * (1 + 1e-12)
    assert not result.refutes(target.exact)
    assert result.lower_bound > 0.4 * target.exact  # the inputs are well chosen


def coarse_race(costs, bits):
    """Permute-and-flip by a race whose exponentials come from `bits` random bits."""

    def sampler(key, n):
        uniform = (jax.random.randint(key, (n, len(costs)), 0, 2**bits).astype(jnp.float32) + 0.5) / 2**bits
        return jnp.argmax(-jnp.log(uniform) - jnp.asarray(costs, jnp.float32)[None], axis=1)

    return sampler


def few_bits(bits):
    """One best candidate and 63 others that are 7 nats behind it, or 8: noise from 10 bits ends at log 2048 = 7.62."""
    p, q = np.array([0.0] + [7.0] * 63), np.array([0.0] + [8.0] * 63)
    target = selection_target(p, q, 1.0)
    return dataclasses.replace(
        target, sampler_p=coarse_race(p, bits), sampler_q=coarse_race(q, bits), score=lambda chosen: np.asarray(chosen) > 0
    )


def doubled_scale(m):
    return trajectory_target(m, drawn_by=dataclasses.replace(m, epsilon=2 * m.epsilon))


def doubled_offline(m):
    return trajectory_target(m, drawn_by=dataclasses.replace(m, epsilon=2 * m.epsilon))


FAULTS = {
    "doubled k": (
        lambda: dirichlet_target(DirichletMechanism(k=20.6, **GRADES), 0.01, drawn_by=DirichletMechanism(k=41.2, **GRADES)),
        100_000,
    ),
    "doubled k in a matrix": (lambda: matrix_target(matrix(), 0.02, drawn_by=matrix(2.0)), 100_000),
    "doubled scale of pseudo-counts": (
        lambda: count_target(
            PseudocountMechanism(scale=0.5, pseudocount=10.0), 0.01, drawn_by=PseudocountMechanism(scale=1.0, pseudocount=10.0)
        ),
        100_000,
    ),
    "half the noise, Laplace": (
        lambda: count_target(DiscreteLaplaceMechanism(epsilon=1.0), 0.0, drawn_by=DiscreteLaplaceMechanism(epsilon=2.0)),
        5_000,
    ),
    "half the noise, Gaussian": (
        lambda: count_target(DiscreteGaussianMechanism(variance=12), 0.01, drawn_by=DiscreteGaussianMechanism(variance=3)),
        20_000,
    ),
    "doubled coin scale, mechanism 1": (lambda: doubled_scale(TrajectoryMechanism(CHAIN, epsilon=1.0, rho=1.0)), 5_000),
    "doubled coin scale, mechanism 2": (lambda: doubled_scale(ChenMechanism(CHAIN, epsilon=1.0)), 2_000),
    "doubled coin scale, offline": (
        lambda: doubled_offline(OfflineMechanism(CHAIN, epsilon=0.25, rho=1.0, base_weight=1.0)),
        100_000,
    ),
    "doubled coin scale, selection": (lambda: selection_target([0, 1, 2], [1, 0, 2], 0.5, drawn_at=1.0), 5_000),
    "noise from 10 random bits": (lambda: few_bits(10), 10_000),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name):
    make, draws = FAULTS[name]
    target = make()
    assert all(target.audit(jax.random.key(seed), draws).refutes(target.claimed) for seed in range(RUNS))


def test_noise_from_enough_random_bits_passes():
    # 24 bits reach log 2^25 = 17.3 nats: the same audit finds nothing
    target = few_bits(24)
    assert not any(target.audit(jax.random.key(seed), 10_000).refutes(target.claimed) for seed in range(RUNS))


def test_corner_pairs():
    from dpjax.audit.targets import corner_pair

    p, q = corner_pair(0.1, 20.0, np.array([0, 2]), 3)
    np.testing.assert_allclose([p, q], [[0.15, 0, 0.85], [0.1, 0, 0.9]])
    p, q = corner_pair(0.1, 20.0, np.array([3, 1, 0, 2]), 5)
    np.testing.assert_allclose([p, q], [[0.375, 0.1, 0.375, 0.15, 0], [0.375, 0.15, 0.375, 0.1, 0]])


def test_the_corner_pair_is_adjacent_and_attains_the_curve():
    # the score's law is known: x_0 / (x_0 + x_1) ~ Beta(k eta + h, k eta), and its event at the exact epsilon has the exact delta
    target = dirichlet_target(DirichletMechanism(k=20.6, **GRADES), 0.01)
    a, h = 20.6 * 0.073, 20.6 / 98
    p, q = beta(a + h, a), beta(a, a + h)
    u = 1 / (1 + np.exp(-target.exact / h))
    np.testing.assert_allclose(p.sf(u) - np.exp(target.exact) * q.sf(u), 0.01, rtol=1e-9)
    scores = np.asarray(target.score(np.asarray(target.sampler_p(jax.random.key(0), 50_000))))
    np.testing.assert_allclose((scores > target.exact / h).mean(), p.sf(u), atol=5 * np.sqrt(p.sf(u) / 50_000))


@pytest.mark.parametrize("m", [TrajectoryMechanism(SPARSE, epsilon=2.0, rho=1.0), ChenMechanism(CHAIN, epsilon=1.0)])
def test_the_step_of_a_trajectory_target_has_the_exact_loss(m):
    from dpjax.trajectory import pairwise_losses

    losses = pairwise_losses(m)
    s, v = (int(i) for i in np.unravel_index(np.argmax(losses), losses.shape))
    start = m.telling_start(s, v)
    p, q = (exact_law(m, [start, state], start=start, check=False).marginals[1] for state in (s, v))
    seen = p > 0
    np.testing.assert_allclose(np.log(p[seen] / q[seen]).max(), losses.max(), rtol=1e-10)
    assert trajectory_target(m).exact == losses.max()


def test_underflowed_shares_have_a_place():
    from dpjax.audit.targets import log_ratio

    assert log_ratio(np.array([[0.0, 0.5], [0.5, 0.0], [0.0, 0.0], [0.25, 0.25]])).tolist() == [-np.inf, np.inf, 0.0, 0.0]


def test_noisy_counts_are_distinguished_by_their_log_likelihood_ratio():
    """The score of a table is that of its noisy counts, found again from the shares in float32: the ratio of the law at both tables."""
    for m in (DiscreteLaplaceMechanism(epsilon=0.8), DiscreteGaussianMechanism(variance=9)):
        target, pair = count_target(m, 0.01), m.audit_pair()
        x = np.asarray(target.sampler_p(jax.random.key(0), 200))
        noisy = np.rint(x[:, :, 0].astype(np.float64) / x[:, :, 1] * 1e6).astype(int)
        logs = np.log(np.maximum(m.pmf(200), 1e-300))
        before, after = (logs[noisy - table[:, 0] + 200].sum(axis=1) for table in (pair.before, pair.after))
        np.testing.assert_allclose(target.score(x), before - after, atol=1e-9)
        assert np.abs(pair.before - pair.after).sum() == 2


def test_bad_calls():
    with pytest.raises(ValueError, match="has no pair of tables"):
        count_target(DirichletRows(matrix()), 0.01)
    with pytest.raises(ValueError, match="takes a mechanism that protects records"):
        count_target(DiscreteLaplaceMechanism(epsilon=1.0, adjacency=Neighbours(persons=PersonBound(2))), 0.01)
    with pytest.raises(ValueError, match="two vectors of costs of the same length"):
        selection_target([0, 1], [0, 1, 2], 1.0)
    with pytest.raises(ValueError, match="finite costs"):
        selection_target([0, np.inf], [0, 1], 1.0)
    rows = PublicRows(n_records=np.array([3.0]), support=np.array([[True, False]]), eta=np.array([0.5]))
    with pytest.raises(ValueError, match="nothing to audit"):
        matrix_target(MatrixMechanism(rows=rows, k=1.0), 0.01)
