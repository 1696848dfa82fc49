"""Faults of what a user hands in, one test each. Annotations are not checked here: the package is as a user has it."""

import jax
import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.theory import (
    EntropyConcentration,
    certificate,
    drift_bound,
    entropy_distribution,
    explicit_tail,
    geometric_tail,
    hajek_tail,
    joint_drift,
    printed_entropy_tail,
    printed_tail,
    sufficient_fraction,
    tail_report,
    typical_interval,
)
from dpjax.theory.concentration import ExponentialTail, hajek
from dpjax.theory.entropy import mixing_factor, typical_probability
from dpjax.trajectory import (
    Adjacency,
    ChenMechanism,
    HammingAdjacency,
    OfflineMechanism,
    TrajectoryMechanism,
    adjacency_epsilon,
    exact_law,
    exact_scale,
    joint_law,
    joint_stationary,
    kappa,
    match_substitution,
    pairwise_losses,
    protection,
    substitution_epsilon,
    trajectory_loss,
)
from dpjax.trajectory.batch import LARGEST_RESULT
from dpjax.trajectory.graph import at_most_one
from tests.unchecked import as_a_user_has_it  # noqa: F401

KEY = jax.random.key(0)
NAN, INF = float("nan"), float("inf")
NO_NUMBERS = [None, "1", "x", True, 1j, [1.0], np.array([1.0, 2.0]), np.ones((2, 2)), NAN, INF, 10**400]
NO_WHOLE_NUMBERS = [None, "3", True, 3.0, NAN, 1j, [3], np.array([3, 4])]


@pytest.fixture(scope="module")
def m(chain3):
    return TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0)


@pytest.fixture(scope="module")
def chen(chain3):
    return ChenMechanism(chain3, epsilon=1.0)


@pytest.fixture(scope="module")
def offline(chain3):
    return OfflineMechanism(chain3, epsilon=1.0, rho=1.0)


@pytest.fixture(scope="module")
def law(m):
    return joint_law(m, 5, start=0)


@pytest.fixture(scope="module")
def found(m):
    return joint_drift(m)


def refused(argument, call, *values):
    """Each value is one sentence that names the argument; no other error."""
    for value in values:
        with pytest.raises(ValueError, match=rf"^{argument} (is|has) .*\. \S"):
            call(value)


# 5: bounds that were too good


def test_a_mixing_factor_below_4_gave_a_bound_of_0(law):
    bounds = EntropyConcentration(law)
    refused("tau_min", lambda x: bounds.paulin(1.0, tau_min=x), 1e-6, 0, -9, 3.999, *[x for x in NO_NUMBERS if x is not None])
    assert bounds.paulin(1.0, tau_min=4).value < bounds.paulin(1.0, tau_min=9).value


def test_no_chain_has_a_mixing_factor_below_4():
    rows_alike = MarkovChain.from_matrix(np.full((2, 2), 0.5))
    chain = joint_law(TrajectoryMechanism(rows_alike, epsilon=0.0, rho=1.0), 5, start=0).chain
    assert 4 <= mixing_factor(chain, 5) < 4 * (1 + 1e-11)  # the joint chain forgets all in one step: the smallest there is


def test_a_negative_time_gave_a_negative_tail(found):
    tail = hajek_tail(found.chain, 0.5, found.level)
    refused("t", lambda t: tail.bound([3.0, 4.0], t), -5, *[x for x in NO_WHOLE_NUMBERS if x is not None])
    refused("initial_error", lambda x: tail.bound(3.0, 2, x), -1.0, *NO_NUMBERS)
    refused("v", lambda v: tail.bound(v, 2), NAN, [3.0, NAN], "3", None, 1j, [[1.0], [1.0, 2.0]])
    refused("level", lambda x: tail.error_bound(x, 5.0), -1.0, *NO_NUMBERS)
    refused("largest", lambda x: tail.error_bound(1.0, x), -1.0, *NO_NUMBERS)
    assert (tail.bound([3.0, 4.0], 0).value > 0).all()


def test_a_tail_of_impossible_constants_bounded_anything():
    refused("eta", lambda x: ExponentialTail(x, 0.5, 1.0), -1.0, *NO_NUMBERS)
    refused("phi", lambda x: ExponentialTail(1.0, x, 1.0), -0.5, *NO_NUMBERS)
    refused("constant", lambda x: ExponentialTail(1.0, 0.5, x), -3.0, *NO_NUMBERS)


def test_a_tail_after_an_error_out_of_range_says_nothing():
    assert ExponentialTail(1.0, 0.5, 1.0).bound(1e4, 1, 1e5).vacuous


def test_nan_thresholds_had_a_certificate_of_0(m, found):
    for call in (
        lambda v: certificate(found.chain, v, 3),
        lambda v: tail_report(m, v, 5),
        lambda v: joint_stationary(m).exceedance(v),
        lambda v: printed_tail(found, v),
    ):
        refused("v", call, NAN, [1.0, NAN], "3", None, 1j, True)
    refused("k", lambda k: certificate(found.chain, 1.0, k), -1, *NO_WHOLE_NUMBERS)


def test_parameters_of_the_tails_are_numbers(found):
    chain = found.chain
    refused("eta", lambda x: hajek(chain, x, 1.0), 0.0, -1.0, 1e9, *NO_NUMBERS)
    refused("level", lambda x: hajek(chain, 0.5, x), -1.0, 1e9, *NO_NUMBERS)
    refused("phi", lambda x: geometric_tail(chain, 0.5, x), -0.1, 1.0, *NO_NUMBERS)
    refused("level", lambda x: explicit_tail(found, x), -1.0, *[x for x in NO_NUMBERS if x is not None])
    refused("level", found.decrease_above, -1.0, *NO_NUMBERS)
    refused("level", found.range_above, -1.0, *NO_NUMBERS)


def test_parameters_of_the_entropy_bounds_are_numbers(law, found):
    bounds = EntropyConcentration(law)
    for call in (bounds.azuma, bounds.cantelli, bounds.chernoff, bounds.paulin, lambda x: printed_entropy_tail(law, found, x)):
        refused("nu", call, NAN, [NAN], "1", None, 1j)
    refused("theta", bounds.log_moment, 1e9, *NO_NUMBERS)
    refused("eta", lambda x: typical_probability(law, x), 0.0, -1.0, *NO_NUMBERS)
    refused("eta", lambda x: typical_interval(law, x), 0.0, -1.0, *NO_NUMBERS)
    refused("h", lambda x: entropy_distribution(law, x), *NO_NUMBERS)
    refused("resolution", lambda x: entropy_distribution(law, 1.0, x), 0.0, -1.0, *NO_NUMBERS)
    refused("t_mix", lambda x: printed_entropy_tail(law, found, 1.0, x), 0, *[x for x in NO_WHOLE_NUMBERS if x is not None])


# 6: step_exceedance


def test_step_exceedance_took_nan_and_broadcast_thresholds_over_the_states(m, offline):
    for mechanism in (m, offline):
        law = exact_law(mechanism, [0, 1, 2, 1], start=0)
        refused("v", law.step_exceedance, NAN, [NAN, 1.0], "3", None, [[1.0]])
        levels = np.array([0.0, 2.0, 4.0])  # as many as there are states
        errors = mechanism.graph.distances_to(law.trajectory)
        expected = [[law.marginals[t][errors[t] > v].sum() for v in levels] for t in range(4)]
        np.testing.assert_allclose(law.step_exceedance(levels), expected, rtol=1e-14)
        np.testing.assert_array_equal(law.step_exceedance(2.0), law.step_exceedance(levels)[:, 1])
        assert law.step_exceedance(np.zeros(0)).shape == (4, 0)


def test_the_stationary_tail_broadcast_thresholds_over_the_states(m):
    law, levels = joint_stationary(m), np.array([0.0, 2.0, 4.0])
    np.testing.assert_array_equal(law.exceedance(levels), [law.exceedance(v) for v in levels])


# 9: raw errors, and what was taken in silence


def test_parameters_of_mechanisms_are_numbers(chain3):
    refused("epsilon", lambda x: TrajectoryMechanism(chain3, epsilon=x, rho=1.0), *NO_NUMBERS)
    refused("rho", lambda x: TrajectoryMechanism(chain3, epsilon=1.0, rho=x), *NO_NUMBERS)
    refused("prior_weight", lambda x: TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, prior_weight=x), -1.0, *NO_NUMBERS)
    refused("base_weight", lambda x: OfflineMechanism(chain3, epsilon=1.0, rho=1.0, base_weight=x), -1.0, *NO_NUMBERS)
    refused("epsilon", lambda x: ChenMechanism(chain3, epsilon=x), *NO_NUMBERS)
    refused("b", lambda x: ChenMechanism(chain3, epsilon=1.0, b=x), *NO_WHOLE_NUMBERS)
    refused("b", lambda x: HammingAdjacency(b=x), *NO_WHOLE_NUMBERS)


@pytest.mark.parametrize("bad", [["average"], None, 1, {}, np.array(["average", "max"])])
def test_words_that_no_table_can_look_up(chain3, bad):
    refused("symmetrisation", lambda x: Adjacency(rho=1.0, symmetrisation=x), bad)
    refused("symmetrisation", lambda x: TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, symmetrisation=x), bad)
    refused("selection", lambda x: TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0, selection=x), bad)


@pytest.mark.parametrize("bad", [None, "chain", np.eye(3), [[0.5, 0.5], [0.5, 0.5]]])
def test_a_chain_that_is_none(bad):
    refused("chain", lambda x: TrajectoryMechanism(x, epsilon=1.0, rho=1.0), bad)
    refused("chain", lambda x: TrajectoryMechanism.under_hamming(x, epsilon=1.0), bad)
    refused("chain", lambda x: ChenMechanism(x, epsilon=1.0), bad)
    refused("chain", lambda x: OfflineMechanism(x, epsilon=1.0, rho=1.0), bad)


def test_numbers_of_steps_and_of_draws_are_whole(m, offline, law):
    refused("n_steps", lambda x: joint_law(m, x), 0, *NO_WHOLE_NUMBERS)
    refused("n_steps", lambda x: tail_report(m, 1.0, x), 0, *NO_WHOLE_NUMBERS)
    refused("n_steps", lambda x: mixing_factor(law.chain, x), 0, *NO_WHOLE_NUMBERS)
    for mechanism in (m, offline):
        refused("n", lambda x, one=mechanism: one.sample(KEY, [0, 1], x), 0, *NO_WHOLE_NUMBERS)
        refused("first", lambda x, one=mechanism: one.sample(KEY, [0, 1], 1, first=x), -1, 2**31, *NO_WHOLE_NUMBERS)


def test_more_draws_than_memory_holds_say_what_they_take(m, offline):
    for mechanism in (m, offline):
        with pytest.raises(ValueError, match=r"n is 1000000000000. 8e\+12 bytes .* take 2147483648 or fewer per call"):
            mechanism.sample(KEY, [0, 1], 10**12)
    assert LARGEST_RESULT // 8 == 2147483648


def test_targets_and_tolerances_are_numbers(m):
    refused("target", lambda x: match_substitution(m, x), 0.0, -1.0, *NO_NUMBERS)
    refused("tolerance", lambda x: match_substitution(m, 1.0, x), 0.0, 1.0, *NO_NUMBERS)
    refused("tolerance", lambda x: exact_scale(m, x), 0.0, 1.0, *NO_NUMBERS)


def test_a_mechanism_of_another_kind(m, chen, offline):
    others = [None, "m", m.chain, [m]]
    for call in (
        pairwise_losses,
        substitution_epsilon,
        joint_drift,
        joint_stationary,
        lambda x: kappa(x, 1.0 - np.eye(3)),
        lambda x: trajectory_loss(x, [0, 1], [0, 2]),
        lambda x: joint_law(x, 3),
        lambda x: tail_report(x, 1.0, 3),
    ):
        refused("m", call, offline, *others)
    for call in (exact_scale, adjacency_epsilon, drift_bound, sufficient_fraction):
        refused("m", call, offline, chen, *others)
    refused("m", lambda x: match_substitution(x, 1.0), *others)
    refused("m", lambda x: exact_law(x, [0, 1]), *others)
    refused("m", protection, *others)


def test_the_sentence_names_the_class_that_was_given(offline):
    with pytest.raises(ValueError, match=r"m is an OfflineMechanism. Give a TrajectoryMechanism or a ChenMechanism"):
        joint_law(offline, 3)


@pytest.mark.parametrize("bad", [[[0], [0, 1]], [0, [1, 2]], None, "012", [True, False], 3])
def test_a_ragged_trajectory(m, offline, bad):
    for mechanism in (m, offline):
        refused("trajectory", lambda w, one=mechanism: one.privatize(KEY, w), bad)
        refused("trajectory", lambda w, one=mechanism: one.sample(KEY, w, 2), bad)
        refused("trajectory", lambda w, one=mechanism: exact_law(one, w), bad)


@pytest.mark.parametrize(
    "bad", [True, np.True_, "0", 1.0, ["1", "0", "0"], [1j, 0, 0], [True, False, False], [[1.0], [0.0, 0.0]], [0.5, NAN, 0.5], {}]
)
def test_a_start_that_is_neither_an_index_nor_probabilities(m, offline, bad):
    refused("start", lambda x: m.init(KEY, x), bad)
    refused("start", lambda x: offline.privatize(KEY, [0, 1], x), bad)
    refused("start", lambda x: joint_law(m, 3, start=x), bad)
    refused("sensitive", lambda x: joint_law(m, 3, start=0, sensitive=x), bad)  # it was reported as start


def test_joint_starts_are_numbers(m):
    refused("start", lambda x: joint_law(m, 3, start=x), np.full((3, 3), 1j / 9), np.full((3, 3), "0.1"), np.full((3, 3), NAN))
    refused("start", lambda x: joint_law(m, 3, start=x), np.full((3, 3), 1.0), np.full((2, 2), 0.25))


def test_a_state_is_no_boolean(m):
    state, _ = m.init(KEY)
    refused("s", lambda s: m.step(KEY, state, s), True, np.True_, jax.numpy.asarray(True), None, "1", 1.0)
    assert m.step(KEY, state, jax.numpy.int32(1))[1].shape == ()


@pytest.mark.parametrize("bad", ["3", None, True, 1j, ["3"], [[1.0], [1.0, 2.0]]])
def test_thresholds_are_numbers(m, law, bad):
    exact = exact_law(m, [0, 1, 2])
    for call in (exact.exceedance, exact.step_exceedance, law.exceedance, law.step_exceedance):
        refused("v", call, bad)


# 10: probabilities above 1


def test_a_tail_is_never_above_1(random_chain):
    """The sums are of probabilities: what lies above 1 is round-off, and there was some."""
    above = 0.0
    for seed in range(8):
        chain = random_chain(seed, 6)
        m = TrajectoryMechanism(chain, epsilon=0.3, rho=1.0)
        exact, joint = exact_law(m, np.arange(6), check=False), joint_law(m, 6)
        above = max(above, float(exact.marginals.sum(axis=1).max()), float(joint.end.sum()))
        assert exact.exceedance(-1.0) <= 1
        assert exact.step_exceedance(-1.0).max() <= 1
        assert joint.exceedance(-1.0) <= 1
        assert joint.step_exceedance([-1.0]).max() <= 1
    assert 1 < above < 1 + 1e-14
    assert at_most_one(np.array([0.5, 1 + 7e-16])).tolist() == [0.5, 1.0]
