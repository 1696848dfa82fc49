"""Entropy, ergodicity coefficients, deviation matrix, spectral gap and mixing time, against brute force and reference values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from dpjax.chains import (
    MarkovChain,
    deviation_matrix,
    entropy_rate,
    ergodicity_coefficient,
    mixing_time,
    row_entropies,
    second_eigenvalue_modulus,
    spectral_gap,
    stationary_distribution,
    tau1,
)

P3 = np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]])
P4 = np.array([[0, 0.7, 0.3, 0], [0, 0, 0.6, 0.4], [0.5, 0, 0, 0.5], [0.2, 0.8, 0, 0]])
PERIODIC = np.array([[0, 1.0], [1, 0]])


def random_chains(count, n, seed=0, concentration=1.0):
    return np.random.default_rng(seed).dirichlet(np.full(n, concentration), size=(count, n))


def test_reference_value_17_entropy_rate():
    assert abs(entropy_rate(P3) - 0.353891100972832) < 1e-14
    for matrix in (P3, sparse.csr_array(P3)):
        assert abs(MarkovChain.from_matrix(matrix).entropy_rate() - 0.353891100972832) < 1e-14


def test_entropy_of_zeros_ones_and_uniform_rows():
    np.testing.assert_array_equal(row_entropies(PERIODIC), [0, 0])
    assert entropy_rate(PERIODIC) == 0
    np.testing.assert_allclose(entropy_rate(np.full((2, 5, 5), 0.2)), np.log(5), rtol=1e-15)
    assert entropy_rate(jnp.asarray(P4, jnp.float32)).dtype == jnp.float32
    assert np.isfinite(jax.grad(lambda P: entropy_rate(P))(jnp.asarray(P4, jnp.float32))).all()


def test_reference_value_27_tau_inf():
    np.testing.assert_allclose([ergodicity_coefficient(P3), ergodicity_coefficient(P4)], [0.91, 1.5], rtol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, 7])
def test_tau_inf_against_linear_programmes(n):
    """max z . column over |z| <= 1, sum z = 0, one programme a column."""
    for P in random_chains(8, n, seed=n, concentration=0.5):
        best = max(-linprog(-P[:, j], A_eq=np.ones((1, n)), b_eq=[0], bounds=(-1, 1)).fun for j in range(n))
        assert abs(ergodicity_coefficient(P) - best) < 1e-12


def test_dobrushin_against_its_definition_and_bounds():
    for P in random_chains(10, 6, concentration=0.3):
        expected = max(np.abs(a - b).sum() / 2 for a in P for b in P)
        assert abs(ergodicity_coefficient(P, norm="1") - expected) < 1e-15
        assert second_eigenvalue_modulus(P) <= min(expected, ergodicity_coefficient(P)) + 1e-12
    assert ergodicity_coefficient(np.eye(3)) == ergodicity_coefficient(np.eye(3), "1") == 1


def test_coefficients_are_batched_jitted_and_vmapped():
    P = random_chains(6, 5)
    for norm in ("inf", "1"):
        each = np.array([ergodicity_coefficient(p, norm) for p in P])
        np.testing.assert_allclose(ergodicity_coefficient(P.reshape(2, 3, 5, 5), norm).ravel(), each, rtol=1e-14)
        on_jax = jnp.asarray(P, jnp.float32)
        np.testing.assert_allclose(jax.jit(jax.vmap(lambda p, norm=norm: ergodicity_coefficient(p, norm)))(on_jax), each, rtol=1e-5)
    with pytest.raises(ValueError, match="norm is '2'"):
        ergodicity_coefficient(P, norm="2")


def test_reference_value_28_tau1():
    np.testing.assert_allclose(tau1(P3), 10.3448275862069, rtol=1e-13)
    Z = deviation_matrix(P3) + stationary_distribution(P3)
    np.testing.assert_allclose([np.abs(Z).sum(1).max(), np.abs(Z).sum(0).max()], [13.3301625049544, 11.8004359889021], rtol=1e-12)


def test_deviation_matrix_is_the_group_inverse():
    for P in [P4, PERIODIC, *random_chains(5, 20)]:
        n, pi, A = len(P), stationary_distribution(P), deviation_matrix(P)
        np.testing.assert_allclose(A @ (np.eye(n) - P), np.eye(n) - pi, atol=1e-13)
        np.testing.assert_allclose(A.sum(1), 0, atol=1e-13)
        np.testing.assert_allclose(pi @ A, 0, atol=1e-13)


def test_tau1_bounds_what_a_change_moves():
    before, after = random_chains(2, 8, concentration=0.2)
    pi, moved = stationary_distribution(before), stationary_distribution(after)
    np.testing.assert_allclose(moved - pi, moved @ (after - before) @ deviation_matrix(before), atol=1e-13)
    assert np.abs(moved - pi).sum() <= tau1(before) * (moved * np.abs(after - before).sum(1)).sum()
    with pytest.raises(ValueError, match=r"reducible, with classes \{0\}, \{1\}"):
        tau1(np.eye(2))


def test_spectral_gap():
    np.testing.assert_allclose(spectral_gap(np.array([[0.9, 0.1], [0.3, 0.7]])), 0.4, rtol=1e-13)
    np.testing.assert_allclose(second_eigenvalue_modulus(np.stack([PERIODIC, np.eye(2)])), [1, 1])


@pytest.mark.parametrize("threshold", [0.9, 0.25, 0.01, 1e-6])
def test_mixing_time_against_step_by_step(threshold):
    lazy = 0.99 * np.eye(5) + 0.01 * np.roll(np.eye(5), 1, axis=1)
    for P in [P3, lazy, *random_chains(4, 5, concentration=0.1)]:
        pi, power, t = stationary_distribution(P), np.eye(len(P)), 0
        while np.abs(power - pi).sum(1).max() / 2 > threshold:
            power, t = power @ P, t + 1
        assert mixing_time(P, threshold) == t


def test_mixing_time_of_a_nearly_decomposable_chain():
    """Two states with couplings a, b: d(t) = max(pi) (1 - a - b)^t."""
    a, b = 1e-9, 3e-9
    exact = np.log(0.25 / 0.75) / np.log1p(-(a + b))
    assert abs(mixing_time(np.array([[1 - a, a], [b, 1 - b]])) / exact - 1) < 1e-6


@pytest.mark.parametrize(
    ("P", "threshold", "message"),
    [
        (PERIODIC, 0.25, "period of the chain is 2"),
        (np.array([[0.5, 0.5], [0, 1.0]]), 0.25, "reducible"),
        (np.eye(2), 0.25, "2 closed classes"),
        (P3, 0.0, "threshold"),
        (np.stack([P3, P3]), 0.25, "one matrix"),
    ],
)
def test_mixing_time_refuses(P, threshold, message):
    with pytest.raises(ValueError, match=message):
        mixing_time(P, threshold)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [2, 3, 8, 67])
def test_tau_inf_is_that_of_sorted_columns_ties_zeros_and_negative_entries_included(n, dtype):
    rng = np.random.default_rng(n)
    cases = [rng.dirichlet(np.ones(n), n), np.full((n, n), 1 / n), np.eye(n), rng.dirichlet(np.full(n, 0.05), n)]
    cases.append(np.round(cases[0] * 2) / 2 - cases[3])
    from dpjax.chains.mixing import _tau_inf

    for case in cases:
        with jax.enable_x64(dtype == "float64"):
            P = jnp.asarray(case.astype(dtype))
            ordered = np.sort(np.asarray(P), axis=0)
            expected = (ordered[::-1][: n // 2] - ordered[: n // 2]).sum(0).max()
            np.testing.assert_allclose(_tau_inf(P), expected, rtol=3e-6 if dtype == "float32" else 1e-14, atol=1e-7)


@pytest.mark.parametrize("n", [4, 5])
def test_the_gradient_of_tau_inf_against_central_differences(n):
    from dpjax.chains.mixing import _tau_inf

    P = np.random.default_rng(n).dirichlet(np.ones(n), n)
    direction = np.random.default_rng(1).standard_normal((n, n))
    with jax.enable_x64(True):
        slope = float(jnp.sum(jax.grad(_tau_inf)(jnp.asarray(P)) * direction))
        step = 1e-6
        ends = [float(_tau_inf(jnp.asarray(P + sign * step * direction))) for sign in (1, -1)]
    assert slope == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-7)
