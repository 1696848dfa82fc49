"""Tails of the error: every provable bound above the exact value on random chains; the printed forms' counterexamples."""

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.theory import certificate, explicit_tail, geometric_tail, hajek_tail, joint_drift, printed_tail, tail_report
from dpjax.theory.concentration import hajek
from dpjax.theory.printed import printed_constants
from dpjax.trajectory import TrajectoryMechanism, joint_law, joint_stationary
from dpjax.trajectory.joint import JointChain


def test_reference_values(chain3):
    chain = JointChain(TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0))
    np.testing.assert_allclose(hajek(chain, 0.5, 2.5), [0.38956654279891717, 0.51520692667669662], rtol=1e-10)
    tail = geometric_tail(chain, 0.5, 0.3)
    assert tail.constant == pytest.approx(1.4982488681615673, rel=1e-10)
    assert tail.bound(0.0).value == pytest.approx(2.1403555259450962, rel=1e-10)  # of E e^{eta V} in the long run


def check_tails(random_chain, seeds):
    """At a Dirac start and at a random one; at several times; vacuous or not, never below the exact tail (P(V >= v) where proved)."""
    spoke = {"hajek": 0, "geometric": 0, "explicit": 0, "certificate": 0}
    for seed in seeds:
        n = 3 + seed % 2
        m = TrajectoryMechanism(random_chain(seed, n), epsilon=(0.3, 1.0, 4.0, 12.0)[seed % 4], rho=1.0)
        start = None if seed % 3 == 0 else seed % n
        t, levels = (1, 3, 8)[seed % 3], np.quantile(m.graph.all_distances(), [0.3, 0.6, 0.8, 0.95, 1.0])
        report = tail_report(m, levels, t, start=start)
        law = joint_law(m, t, start=start)
        at_least = np.array([law.end[law.chain.errors >= level].sum() for level in levels])
        for name in ("hajek", "geometric", "explicit"):
            bound = getattr(report, name)
            assert (bound.value >= at_least).all(), (seed, name)
            assert (bound.vacuous == ~(bound.value < 1)).all()
            spoke[name] += int((~bound.vacuous).any())
        low, high = report.certificate
        assert (low <= report.exact).all()
        assert (high.value >= report.exact).all()
        spoke["certificate"] += int((~high.vacuous).any())
        later = joint_law(m, t + 2, start=(seed + 1) % n).end
        after = np.array([later[law.chain.errors > level].sum() for level in levels])
        assert (low <= after * (1 + 1e-12)).all()
        assert (after <= high.value).all()
    return spoke


def test_no_bound_is_below_the_exact_tail(random_chain):
    spoke = check_tails(random_chain, range(2000, 2120))
    assert min(spoke.values()) >= 3, spoke  # each says something somewhere


@pytest.mark.slow
def test_no_bound_is_below_the_exact_tail_on_a_thousand_chains(random_chain):
    check_tails(random_chain, range(20_000, 21_000))


@pytest.mark.parametrize("seed", range(40))
def test_long_run_bounds_hold_for_the_stationary_law(random_chain, seed):
    chain = MarkovChain.from_matrix(0.8 * random_chain(2200 + seed, 4).matrix + 0.2 * np.eye(4))
    m = TrajectoryMechanism(chain, epsilon=(1.0, 6.0)[seed % 2], rho=1.0)
    settled, found = joint_stationary(m), joint_drift(m)
    largest = float(found.errors.max())
    levels = np.linspace(0, largest, 7)
    exact = np.array([settled.law[found.errors >= level].sum() for level in levels])
    tails = [
        explicit_tail(found),
        hajek_tail(found.chain, 2.0 / largest, found.level),
        geometric_tail(found.chain, 2.0 / largest, 0.5),
    ]
    for tail in tails:
        assert (tail.bound(levels).value >= exact).all()
    for tail in tails[:2]:
        mean = tail.error_bound(found.level, largest)
        assert mean.value >= settled.expected_error
        assert bool(mean.vacuous) == (not mean.value < largest)


@pytest.mark.parametrize("seed", range(40))
def test_the_explicit_constants_are_those_of_the_theorem_and_lie_above_hajeks(random_chain, seed):
    found = joint_drift(TrajectoryMechanism(random_chain(2250 + seed, 4), epsilon=(1.0, 6.0)[seed % 2], rho=1.0))
    for level in (found.level, 0.7 * float(found.errors.max())):
        tail, gamma, R = explicit_tail(found, level), found.decrease_above(level), found.range_above(level)
        if tail.phi < 1:
            largest_rate = 299 / float(found.errors.max())  # exponentials stay in the range of float64
            assert tail.eta == pytest.approx(min(2 * gamma / R**2, largest_rate))
            if tail.eta < largest_rate:
                assert tail.phi == pytest.approx(np.exp(-1.5 * (gamma / R) ** 2), rel=1e-9)
            exact = hajek(found.chain, tail.eta, level)
            assert exact.phi <= tail.phi
            assert tail.constant == pytest.approx(exact.M * np.exp(tail.eta * level))


def test_a_chain_whose_drift_says_nothing_is_reported_so():
    """Roads with forced turns: B is the largest V there is, so that 3c never speaks, and the two-sided bound does."""
    P = np.zeros((5, 5))
    P[0, 1] = P[1, 2] = P[2, 3] = P[4, 0] = 1.0
    P[3, [0, 4]] = 0.5
    m = TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=1.0, rho=1.0)
    found = joint_drift(m)
    assert found.says_nothing
    tail = explicit_tail(found)
    assert tail.phi == 1
    assert tail.bound([0.1, 0.5]).vacuous.all()
    assert tail.error_bound(found.level, float(found.errors.max())).vacuous
    settled = joint_stationary(m)
    low, high = certificate(found.chain, 0.5, 100)
    assert low[0] <= settled.exceedance(0.5) <= high.value[0]
    assert high.value[0] - low[0] < 0.01
    assert not high.vacuous[0]


def far_state_chain():
    """20 states, transitions 1/20 and shortest paths near 3 nats; state 19 is 4.6 from nearly all of them, and 18 leads to it."""
    P = np.full((20, 20), 1.0)
    P[:, 18:] = 0.01 / 0.98 * 18  # .01 after division
    P[0, 18] = 1.0
    P[18], P[18, 19] = 0.1 / 19, 0.9
    P[19] = 1.0
    return MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True))


def test_the_printed_tail_below_b_is_false():
    """v = 2.9 < B: P(V >= v) = .948, where exp(-2 v^2 / D) says .026, and .452 with D squared."""
    found, v = joint_drift(TrajectoryMechanism(far_state_chain(), epsilon=0.01, rho=1.0)), 2.9
    exact = joint_law(found.chain.mechanism, 30, start=0).step_exceedance(v)[-1]
    claimed = printed_tail(found, v)
    assert found.level > v
    assert found.largest_change == pytest.approx(np.log(100), rel=1e-12)
    assert exact == pytest.approx(0.948, abs=5e-4)
    assert claimed.value == pytest.approx(0.026, abs=5e-4)
    assert not claimed.vacuous
    assert np.exp(-2 * v**2 / found.largest_change**2) == pytest.approx(0.452, abs=1e-3)


def test_the_printed_exponent_with_d_unsquared_is_no_hajek_exponent():
    """A 3-state chain: at 2 gamma / D Hajek's phi is 12; at 2 gamma / R^2 it is .58, and a tail is proved."""
    P = np.array([[1.0, 2e-6, 6e-8], [1e-5, 8e-8, 1.0], [3e-5, 2e-4, 1.0]])
    found = joint_drift(TrajectoryMechanism(MarkovChain.from_matrix(P / P.sum(axis=1, keepdims=True)), epsilon=0.3, rho=1.0))
    printed = printed_constants(found)
    assert printed.phi > 10
    assert np.inf == printed.C
    assert printed_tail(found, 13.0).vacuous
    assert explicit_tail(found).phi < 0.6
    assert not explicit_tail(found).bound(13.0).vacuous
