"""The empirical entropy of a random trajectory: bounds above exact values by enumeration, and the counterexamples to the printed forms."""

import numpy as np
import pytest

from dpjax.chains import MarkovChain, row_entropies
from dpjax.theory import (
    EntropyConcentration,
    entropy_bounds,
    entropy_distribution,
    joint_drift,
    printed_entropy_tail,
    typical_interval,
)
from dpjax.theory.entropy import joint_mixing_time, mixing_factor, typical_probability
from dpjax.trajectory import TrajectoryMechanism, joint_law


def entropies(law):
    """Every value of H_n with its probability, by following all joint paths."""
    chain, n = law.chain, law.chain.n_states
    T = chain.matrix().toarray()
    P = np.asarray(chain.mechanism.chain.matrix)
    with np.errstate(divide="ignore"):
        W = np.tile(-np.log(P), (n, n))  # entry ((s, s'), (s+, o)) is W(s', o)
    weights, sums, ends = law.start.reshape(-1), np.zeros(n**2), np.arange(n**2)
    for _ in range(law.n_steps):
        step, length = T[ends], W[ends]
        kept = step > 0
        weights, sums = (weights[:, None] * step)[kept], (sums[:, None] + length)[kept]
        ends = np.broadcast_to(np.arange(n**2), step.shape)[kept]
    return sums / law.n_steps, weights


def cases(random_chain, seeds):
    for seed in seeds:
        m = TrajectoryMechanism(
            random_chain(seed, 3), epsilon=(0.3, 1.0, 4.0, 12.0)[seed % 4], rho=1.0, prior_weight=0.4 * (seed % 2)
        )
        yield seed, joint_law(m, 2 + seed % 2, start=None if seed % 3 == 0 else seed % 3)


def check_expected(random_chain, seeds):
    spoke = dict.fromkeys(("triangle", "triangle_crude", "mismatch", "mismatch_crude"), 0)
    for seed, law in cases(random_chain, seeds):
        bounds = entropy_bounds(law)
        values, weights = entropies(law)
        assert bounds.exact == pytest.approx(float(values @ weights), rel=1e-11)
        for name in spoke:
            bound = getattr(bounds, name)
            assert bound.value >= bounds.exact, (seed, name)
            spoke[name] += int(not bound.vacuous)
        assert bounds.triangle.value <= bounds.triangle_crude.value * (1 + 1e-9)
        assert bounds.mismatch.value <= bounds.mismatch_crude.value * (1 + 1e-9)
    return spoke


def test_no_bound_on_the_mean_is_below_it(random_chain):
    spoke = check_expected(random_chain, range(3000, 3150))
    assert min(spoke.values()) >= 3, spoke


@pytest.mark.slow
def test_no_bound_on_the_mean_is_below_it_on_a_thousand_chains(random_chain):
    check_expected(random_chain, range(30_000, 31_000))


def forced_chain(seed):
    """Four states in a ring with shortcuts: most rows have a forced move or two edges."""
    rng = np.random.default_rng(seed)
    P = np.roll(np.eye(4), 1, axis=1) + (rng.random((4, 4)) < 0.3) * rng.random((4, 4)) ** 3
    return MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True))


def test_no_bound_on_the_mean_is_below_it_where_moves_are_forced():
    check_expected(lambda seed, n: forced_chain(seed), range(3400, 3520))


def test_the_crude_triangle_says_nothing_where_a_way_is_free_and_the_way_back_is_not():
    """E V_t = 0 with G(s, s') > 0: an infinite K_asym times nothing is not nothing."""
    P = np.array([[0, 0, 1, 0], [0.8, 0, 0, 0.2], [0, 1, 0, 0], [0, 0, 1, 0]])
    law = joint_law(TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=1.0, rho=1.0), 1, start=1, sensitive=0)
    found = entropy_bounds(law)
    assert found.triangle_crude.vacuous
    assert found.triangle.value >= found.exact
    sharp = TrajectoryMechanism(MarkovChain.from_matrix([[0.9, 0.1], [1, 0]]), epsilon=2000.0, rho=1.0)
    assert entropy_bounds(joint_law(sharp, 1, start=0)).triangle_crude.vacuous


def check_tails(random_chain, seeds):
    spoke = dict.fromkeys(("azuma", "chernoff", "cantelli", "paulin"), 0)
    for seed, law in cases(random_chain, seeds):
        values, weights = entropies(law)
        found = EntropyConcentration(law)
        nu = np.array([0.0, 0.3, 1.0]) * max(float(np.ptp(values)), 1e-3)
        for sign, below in ((1, False), (-1, True)):
            deviation = sign * (values - found.mean)
            exact = np.array([weights[deviation >= one - 1e-12].sum() for one in nu])
            bounds = {"azuma": found.azuma(nu), "chernoff": found.chernoff(nu, below), "cantelli": found.cantelli(nu)}
            bounds["paulin"] = found.paulin(nu)
            for name, bound in bounds.items():
                assert (bound.value[1:] >= np.array([weights[deviation >= one].sum() for one in nu])[1:]).all(), (seed, name)
                assert bound.vacuous[0]
                spoke[name] += int((~bound.vacuous).any())
            assert (found.best(nu, below).value >= exact * (1 - 1e-9) - 1e-15)[1:].all()
        rate, eta = law.chain.mechanism.chain.entropy_rate(), 0.4 * float(law.chain.lengths.max()) + 0.01
        typical = weights[np.abs(values - rate) <= eta].sum()
        assert typical_probability(law, eta) <= typical + 1e-12
        low, high = typical_interval(law, eta)
        assert low <= typical + 1e-12
        assert typical <= high + 1e-12
    return spoke


def test_no_tail_bound_is_below_the_exact_tail(random_chain):
    spoke = check_tails(random_chain, range(3200, 3230))
    assert min(spoke.values()) >= 3, spoke


@pytest.mark.slow
def test_no_tail_bound_is_below_the_exact_tail_on_a_thousand_chains(random_chain):
    check_tails(random_chain, range(32_000, 33_000))


def test_ranges_and_moments_equal_their_definitions(random_chain):
    law = joint_law(TrajectoryMechanism(random_chain(3300, 3), epsilon=2.0, rho=1.0), 3, start=1)
    values, weights = entropies(law)
    found = EntropyConcentration(law)
    for theta in (-2.0, 0.0, 0.7, 3.0):
        assert found.log_moment(theta) == pytest.approx(np.log(weights @ np.exp(theta * 3 * values)), rel=1e-10, abs=1e-12)
    P, T = law.chain.mechanism.chain.matrix, law.chain.matrix().toarray()
    with np.errstate(divide="ignore"):
        W = np.tile(-np.log(P), (3, 3))
    g, ranges = np.zeros(9), []
    for _ in range(3):
        after = W + g
        ranges.append(max(float(np.ptp(after[z][T[z] > 0])) for z in range(9)))
        g = np.array([float(T[z][T[z] > 0] @ after[z][T[z] > 0]) for z in range(9)])
    np.testing.assert_allclose(found.ranges, [0.0, *ranges[::-1]], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_the_mixing_factor_equals_its_definition(random_chain, seed):
    law = joint_law(TrajectoryMechanism(random_chain(3400 + seed, 3), epsilon=1.0, rho=1.0), 12, start=0)
    T, found = law.chain.matrix().toarray(), [4.0 * 13]
    for t in range(1, 13):
        power = np.linalg.matrix_power(T, t)
        apart = max(np.abs(power[x] - power[y]).sum() / 2 for x in range(9) for y in range(9))
        if apart < 1 - 1e-9:
            found.append(t * ((2 - apart) / (1 - apart)) ** 2)
    assert mixing_factor(law.chain, 12) == pytest.approx(min(found), rel=1e-9)
    assert mixing_factor(law.chain, 12) >= min(found)  # never better than the truth


def test_the_mixing_form_in_numbers_and_where_nothing_mixes(chain3):
    """4f at n = 50, nu = 1; an oracle of its own formula; a chain of period 2, where one block is all there is."""
    law = joint_law(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0), 50, start=0)
    found = EntropyConcentration(law)
    tau = mixing_factor(law.chain, 50)
    assert tau == pytest.approx(63.58, abs=0.01)
    assert tau <= 9 * joint_mixing_time(law.chain)
    R = np.log(0.92) - np.log(0.01)
    assert found.paulin(1.0).value == pytest.approx(np.exp(-2 * 50**2 / (R**2 * 198 * tau)), rel=1e-9)
    assert found.paulin(1.0).value == pytest.approx(0.981, abs=5e-4)
    assert found.paulin(1.0, tau_min=90).value > found.paulin(1.0).value
    assert found.paulin([0.0, -1.0]).vacuous.all()
    assert found.paulin(1.0, tau_min=1e30).vacuous
    with pytest.raises(ValueError, match="tau_min is 0"):
        found.paulin(1.0, tau_min=0)
    cycle = MarkovChain.from_matrix(np.kron([[0, 1], [1, 0]], np.full((2, 2), 0.5)))
    law = joint_law(TrajectoryMechanism(cycle, epsilon=1.0, rho=1.0), 5, start=0)
    assert mixing_factor(law.chain, 5) == pytest.approx(24.0)
    large = MarkovChain.from_matrix(np.full((33, 33), 1 / 33))
    law = joint_law(TrajectoryMechanism(large, epsilon=1.0, rho=1.0), 1, start=0)
    with pytest.raises(ValueError, match="pass tau_min"):
        EntropyConcentration(law).paulin(1.0)
    assert EntropyConcentration(law).paulin(1.0, tau_min=9).value < 1  # all edges alike: S never moves


def test_the_distribution_is_enclosed_as_closely_as_its_resolution(random_chain):
    law = joint_law(TrajectoryMechanism(random_chain(3310, 4), epsilon=2.0, rho=1.0), 4, start=1)
    values, weights = entropies(law)
    for h in np.quantile(values, [0.1, 0.4, 0.9]) + 1e-4:
        exact = weights[values <= h].sum()
        low, high = entropy_distribution(law, float(h), 0.002)
        assert weights[values <= h - 0.004].sum() - 1e-12 <= low <= exact + 1e-12
        assert exact - 1e-12 <= high <= weights[values <= h + 0.004].sum() + 1e-12
    assert entropy_distribution(law, 0.0).upper < 1
    assert entropy_distribution(law, -1.0) == (0.0, 0.0)
    with pytest.raises(ValueError, match="resolution is 0"):
        entropy_distribution(law, 1.0, 0.0)


def six_cycle():
    """A cycle whose every other transition, itself included, has probability e^-10."""
    P = np.full((6, 6), np.exp(-10.0))
    P[np.arange(6), (np.arange(6) + 1) % 6] = 1 - 5 * np.exp(-10.0)
    return MarkovChain.from_matrix(P)


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_small_errors_do_not_make_a_typical_trajectory(epsilon):
    """H(S) = .0025, V at most .0011, K_asym = 5, and E H_n = 8.33: no bound H(S) + constant E V can hold with a modest constant."""
    chain = six_cycle()
    m = TrajectoryMechanism(chain, epsilon=epsilon, rho=1.0)
    law = joint_law(m, 50, start=0)
    G = m.graph.all_distances()
    assert chain.entropy_rate() == pytest.approx(0.0025, abs=1e-4)
    assert G.max() == pytest.approx(0.0011, abs=5e-5)
    assert law.expected_entropy == pytest.approx(8.33, abs=0.02)
    asymmetry = float((G[~np.eye(6, dtype=bool)] / G.T[~np.eye(6, dtype=bool)]).max())
    assert asymmetry == pytest.approx(5.0, rel=1e-9)
    own, errors = chain.entropy_rate(), float(law.expected_error.mean())
    assert own + (2 + asymmetry) * errors < 0.02 < law.expected_entropy  # 4a without kappa
    assert (law.expected_entropy - own) / errors > 7000
    bounds = entropy_bounds(law)
    assert bounds.triangle.value >= law.expected_entropy  # with kappa it holds
    assert bounds.mismatch.value >= law.expected_entropy
    assert bounds.triangle.vacuous == (not bounds.triangle.value < 10.0)


def test_the_entropy_of_a_short_trajectory_is_not_the_rate(chain3):
    """E sum W(s_t, s_{t+1}) = n H(S) + p_0 sum_t (P^t - 1 mu) h: the second term is not 0 for a public start."""
    n = 10
    law = joint_law(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0), n, start=0)
    h = np.asarray(row_entropies(chain3.matrix))
    expected = sum(float(np.linalg.matrix_power(chain3.matrix, t)[0] @ h) for t in range(n)) / n
    assert entropy_bounds(law).sensitive == pytest.approx(expected, rel=1e-12)
    assert abs(expected - chain3.entropy_rate()) > 0.01


def test_the_printed_form_is_vacuous_here_and_says_so(chain3):
    """n = 50, nu = 1: the probability is near 1, and the offset leaves nothing below the longest edge."""
    m = TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)
    law = joint_law(m, 50, start=0)
    printed = printed_entropy_tail(law, joint_drift(m), 1.0)
    assert printed.probability.value > 0.9
    assert printed.offset > float(law.chain.lengths.max())
    assert printed.probability.vacuous
    assert EntropyConcentration(law).chernoff(1.0).value < 0.1
    road = MarkovChain.from_matrix([[0.0, 1.0, 0.0], [0.0, 0.3, 0.7], [0.6, 0.4, 0.0]])
    m = TrajectoryMechanism(road, epsilon=1.0, rho=1.0)
    assert printed_entropy_tail(joint_law(m, 5, start=0), joint_drift(m), 1.0).offset == np.inf  # K_asym is infinite
