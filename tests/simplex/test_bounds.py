import numpy as np
import pytest

from dpjax.simplex import expected_kl, expected_kl_bound
from dpjax.theory import ergodicity_bound, stationary_bound, stationary_gap_bound
from dpjax.theory.dirichlet import expected_change_bound, half_row_distance
from tests.simplex import reference as ref


def stationary(P):
    """Stationary laws of a batch of irreducible chains by Grassmann, Taksar and Heyman's elimination."""
    A = np.array(P, dtype=float)
    n = A.shape[-1]
    for m in range(n - 1, 0, -1):
        A[..., :m, m] /= A[..., m, :m].sum(axis=-1)[..., None]
        A[..., :m, :m] += A[..., :m, m, None] * A[..., m, None, :m]
    pi = np.zeros(A.shape[:-1])
    pi[..., 0] = 1
    for m in range(1, n):
        pi[..., m] = (pi[..., :m] * A[..., :m, m]).sum(axis=-1)
    return pi / pi.sum(axis=-1, keepdims=True)


def deviation(P):
    pi = np.broadcast_to(stationary(P), P.shape)
    return np.linalg.inv(np.eye(len(P)) - P + pi) - pi


def tau_inf(P):
    return np.abs(P - np.median(P, axis=-2, keepdims=True)).sum(axis=-2).max(axis=-1)


def private(rng, P, k, draws):
    return np.stack([rng.dirichlet(k_i * row, draws) for k_i, row in zip(k, P, strict=True)], axis=1)


def random_chain(rng):
    n = int(rng.integers(2, 7))
    P = 0.02 / n + 0.98 * rng.dirichlet(np.full(n, rng.choice([0.5, 1.0, 3.0])), n)
    return P / P.sum(axis=1, keepdims=True), 10 ** rng.uniform(1, 4, n)


def test_reference_value():
    np.testing.assert_allclose(half_row_distance(deviation(np.array(ref.P3))), ref.TAU1_DEVIATION_P3, rtol=1e-10)


def test_single_draws_of_1000_random_chains_obey_theorem_4_prime_both_ways():
    rng = np.random.default_rng(1)
    largest = 0.0
    for _ in range(1000):
        P, k = random_chain(rng)
        Q = private(rng, P, k, 1)[0]
        pi, rho = stationary(P), stationary(Q)
        distance = 0.5 * np.abs(pi - rho).sum()
        ours = stationary_gap_bound(Q - P, rho, deviation(P))
        assert distance <= ours * (1 + 1e-9)
        largest = max(largest, distance / ours)
        if Q.min() > 1e-6:
            assert distance <= stationary_gap_bound(Q - P, pi, deviation(Q)) * (1 + 1e-6)
    assert largest > 0.5


def under(sample, bound):
    """The mean of the sample is under the bound, or above it by what five standard errors explain (1,000 chains: 3e-4 in all)."""
    return sample.mean() - 5 * sample.std(ddof=1) / np.sqrt(len(sample)) <= bound


def check_expectations(seed, chains):
    rng = np.random.default_rng(seed)
    for _ in range(chains):
        P, k = random_chain(rng)
        Q = private(rng, P, k, 200)
        kl, pi = expected_kl(P, k), stationary(P)
        tv = 0.5 * np.abs(stationary(Q) - pi).sum(axis=-1)
        change = np.abs(tau_inf(Q) - tau_inf(P))
        column = np.abs(Q - P).sum(axis=1).max(axis=1)
        assert under(tv, stationary_bound(kl, pi, deviation(P)).value)
        assert (change <= column + 1e-12).all()
        assert under(column, expected_change_bound(P, k, kl))
        assert under(change, ergodicity_bound(P, k, kl, pi).value)


def test_expectations_on_random_chains():
    check_expectations(2, 60)


@pytest.mark.slow
def test_expectations_on_a_thousand_random_chains():
    check_expectations(4, 1000)


def test_the_check_of_expectations_finds_a_bound_that_is_too_small():
    """Theorem 5' divided by 4 is under the mean somewhere among the same chains."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(60):
        P, k = random_chain(rng)
        column = np.abs(private(rng, P, k, 200) - P).sum(axis=1).max(axis=1)
        missed += not under(column, expected_change_bound(P, k, expected_kl(P, k)) / 4)
    assert missed >= 30


def test_printed_theorem_5_is_false():
    # twenty identical rows (1/2, 1/38, ...), N = 20,000, k = 1.5/min p = 57: tau_inf(P) = 0, and E tau_inf(P~) = 1.0
    n, records, k = 20, 20_000, 57.0
    p = np.full(n, 0.5 / (n - 1))
    p[0] = 0.5
    P = np.tile(p, (n, 1))
    kl = np.full(n, expected_kl_bound(records, n, k))
    bound = ergodicity_bound(P, np.full(n, k), kl, stationary(P))
    change = tau_inf(private(np.random.default_rng(3), P, np.full(n, k), 400))
    assert change.mean() - 5 * change.std() / 20 > bound.printed
    assert change.mean() < bound.value
    np.testing.assert_allclose([bound.printed, bound.value, change.mean()], [0.810, 2.25, 1.01], atol=0.03)


def test_vacuous_bounds_say_so():
    P = np.array(ref.P3)
    assert stationary_bound(np.full(3, 0.1), stationary(P), deviation(P)).vacuous
    assert not stationary_bound(np.full(3, 1e-6), stationary(P), deviation(P)).vacuous
    assert ergodicity_bound(P, np.full(3, 0.1), np.full(3, 2.0), stationary(P)).vacuous


def test_bad_input():
    with pytest.raises(ValueError, match="at least 0"):
        stationary_bound(np.array([-0.1, 0.2]), np.array([0.5, 0.5]), np.eye(2))
