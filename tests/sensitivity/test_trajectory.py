"""The laws of Mechanism 1 within a trace: equal to those on the host, and their derivatives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dpjax
from dpjax.chains import elasticities, entropy_rate, row_slopes, stationary_distribution
from dpjax.trajectory import TrajectoryMechanism, exact_law, joint_stationary

N, WORD = 3, np.array([0, 1, 1, 2, 0], np.int32)
SETTINGS = pytest.mark.parametrize(
    ("prior", "selection"), [(0.0, "permute-and-flip"), (0.6, "permute-and-flip"), (0.0, "exponential")]
)


def random_matrix(seed, n, missing=0.4):
    rng = np.random.default_rng(seed)
    P = np.where(rng.random((n, n)) < missing, 0, rng.gamma(0.7, size=(n, n))) + 0.05 * np.roll(np.eye(n), 1, axis=1)
    P[0, 0] += 0.3  # aperiodic
    return P / P.sum(axis=1, keepdims=True)


def mechanism(P, epsilon, rho, prior_weight=0.0, selection="permute-and-flip"):
    chain = dpjax.MarkovChain.from_matrix(P)
    return TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, prior_weight=prior_weight, selection=selection)


@SETTINGS
def test_values_are_those_of_the_host_to_1e_12(prior, selection):
    for seed in range(6):
        P = random_matrix(seed, 6)
        m = mechanism(P, 1.7, 0.8, prior, selection)
        word = np.random.default_rng(seed).integers(0, 6, 9).astype(np.int32)
        start = np.random.default_rng(seed).dirichlet(np.ones(6))
        exact, long = dpjax.exact_law(m, word, start=start, check=False), joint_stationary(m)

        @jax.jit
        def traced(P, epsilon, rho, prior, word, start, levels):
            m = mechanism(P, epsilon, rho, prior, selection)
            law = exact_law(m, word, start=start)
            return law, law.exceedance(levels), law.variance_entropy, joint_stationary(m)

        with jax.enable_x64(True):
            law, tails, variance, run = traced(P, 1.7, 0.8, prior, word, start, np.array([0.5, 1.9, 4.2]))
        for ours, theirs in [
            (law.marginals, exact.marginals),
            (law.expected_error, exact.expected_error),
            (law.expected_entropy, exact.expected_entropy),
            (variance, exact.variance_entropy),
            (tails, exact.exceedance(np.array([0.5, 1.9, 4.2]))),
            (run.law, long.law),
            (run.expected_error, long.expected_error),
            (run.expected_length, long.expected_length),
        ]:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def parts(x):
    """P by its logits, epsilon, rho, lambda."""
    return jax.nn.softmax(x[: N * N].reshape(N, N), axis=1), *jnp.exp(0.3 * x[N * N :])


@SETTINGS
def test_errors_entropies_and_marginals(derivatives, points, prior, selection):
    x, d = points(11, 16, N * N + 3)
    start, weights = jnp.array([0.5, 0.2, 0.3]), np.random.default_rng(12).normal(size=(len(WORD), N))

    def f(x):
        P, epsilon, rho, weight = parts(x)
        law = exact_law(mechanism(P, epsilon, rho, prior * weight, selection), WORD, start)
        return jnp.sum(weights * law.marginals) + law.expected_error.sum() + 2 * law.expected_entropy

    derivatives(f, hessian=prior > 0).check(x, d)


def test_the_tail(derivatives, points):
    """Thresholds that no distance of any point lies within 1e-3 of: there the tail has no jump."""
    x, d = points(13, 16, N * N + 3)
    start = jnp.array([0.5, 0.2, 0.3])
    distances = np.stack([dpjax.shortest_paths(np.asarray(jax.nn.softmax(p[:9].reshape(3, 3), axis=1), np.float64)) for p in x])
    v = next(v for v in np.arange(1.2, 2.0, 0.01) if np.abs(distances - v).min() > 1e-3)

    def f(x):
        P, epsilon, rho, weight = parts(x)
        return exact_law(mechanism(P, epsilon, rho, weight), WORD, start).exceedance(v)

    derivatives(f).check(x, d)


def test_across_a_distance_the_tail_jumps_and_the_derivative_does_not_see_it():
    P = random_matrix(1, 4)
    G = dpjax.shortest_paths(P)
    with jax.enable_x64(True):
        word = np.array([0, 1, 2, 3, 0])

        def tail(v, P):
            return exact_law(mechanism(P, 1.0, 1.0), word, 0, check=False).exceedance(v)

        f = functools.partial(jax.jit(jax.value_and_grad(tail)), P=P)
        sides = np.array([[f(v + h) for h in (-1e-9, 1e-9)] for v in np.unique(G[G > 0])])
    assert (sides[:, 0, 0] - sides[:, 1, 0]).max() > 0.01  # the value jumps
    assert (sides[:, :, 1] == 0).all()


def test_the_long_run(derivatives, points):
    x, d = points(14, 8, N * N + 3)

    def f(x):
        run = joint_stationary(mechanism(*parts(x)))
        return run.expected_error + 0.3 * run.expected_length + run.law[0, 1]

    derivatives(f).check(x, d)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_periodic_chain_has_no_long_run_and_says_nan(n):
    """From the uniform law, which a cycle leaves as it is, the answer was one of many stationary laws."""
    with jax.enable_x64(True):
        run = jax.jit(lambda P: joint_stationary(mechanism(P, 1.0, 1.0)).expected_error)
        assert jnp.isnan(run(jnp.roll(jnp.eye(n), 1, axis=1)))


def test_the_stationary_law_and_the_entropy_rate(derivatives, points):
    x, d = points(15, 40, 25)
    weights = np.arange(5.0) ** 2

    def f(x):
        P = jax.nn.softmax(x.reshape(5, 5), axis=1)
        return jnp.sum(weights * stationary_distribution(P)) + entropy_rate(P)

    derivatives(f).check(x, d)


def test_elasticities_are_the_gradient_in_logits_and_ignore_a_constant_in_each_row():
    P, weights = random_matrix(3, 5), np.arange(5.0)
    with jax.enable_x64(True):
        logits = jnp.where(P > 0, jnp.log(jnp.where(P > 0, P, 1.0)), -jnp.inf)
        g = jax.grad(lambda P: jnp.sum(weights * stationary_distribution(P)))(jnp.asarray(P))
        by_logits = jax.grad(lambda x: jnp.sum(weights * stationary_distribution(jax.nn.softmax(x, axis=1))))(logits)
        E = np.asarray(elasticities(jnp.asarray(P), g))
    np.testing.assert_allclose(E, by_logits, atol=1e-13)
    np.testing.assert_allclose(E, elasticities(P, np.asarray(g) + np.arange(5.0)[:, None]), atol=1e-13)
    np.testing.assert_allclose(E.sum(axis=1), 0, atol=1e-13)
    assert (E[P == 0] == 0).all()
    np.testing.assert_allclose(P * row_slopes(P, np.asarray(g)), E, atol=1e-15)
    with pytest.raises(ValueError, match="gradient is"):
        elasticities(P, np.ones(5))
