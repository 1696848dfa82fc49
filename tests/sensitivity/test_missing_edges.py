"""What each gradient says of a transition of probability 0, as the page states it, and what else the page says is refused or NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax.chains import MarkovChain, elasticities, entropy_rate, stationary_distribution
from dpjax.paths import shortest_paths
from dpjax.trajectory import TrajectoryMechanism, exact_law, joint_stationary

P = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.6, 0.0, 0.4]])
WORD, START = np.array([0, 1, 2, 0], np.int32), np.array([0.5, 0.2, 0.3])


def mechanism(P, prior_weight=0.0):
    return TrajectoryMechanism(MarkovChain.from_matrix(P), epsilon=1.0, rho=1.0, prior_weight=prior_weight)


def law_number(P):
    law = exact_law(mechanism(P, 0.5), WORD, START)
    return law.expected_error.sum() + law.expected_entropy + law.marginals[2, 1]


PROMISED = {
    "distances": lambda P: shortest_paths(P).sum(),
    "exact_law": law_number,
    "exceedance": lambda P: exact_law(mechanism(P), WORD, START).exceedance(1.0),
}
OTHERS = {
    "stationary_distribution": lambda P: stationary_distribution(P)[1],
    "entropy_rate": entropy_rate,
    "joint_stationary": lambda P: joint_stationary(mechanism(P)).expected_error,
}


def gradient(f):
    with jax.enable_x64(True):
        return np.asarray(jax.grad(f)(jnp.asarray(P)))


@pytest.mark.parametrize("name", PROMISED)
def test_a_missing_edge_has_derivative_0_where_that_is_promised(name):
    g = gradient(PROMISED[name])
    assert (g[P == 0] == 0).all()
    assert np.abs(g).max() > 0


@pytest.mark.parametrize("name", OTHERS)
def test_a_missing_edge_has_another_derivative_where_nothing_is_promised_and_elasticity_0(name):
    g = gradient(OTHERS[name])
    assert (np.abs(g[P == 0]) > 0.01).all()
    assert (elasticities(P, g)[P == 0] == 0).all()


@pytest.mark.parametrize(
    ("name", "kept"), [("exact_law", PROMISED), ("joint_stationary", OTHERS), ("stationary_distribution", OTHERS)]
)
def test_gradients_on_a_chain_with_zeros_are_those_of_central_differences(name, kept):
    """Along a change of what is there already, whose rows sum to 0."""
    f, direction = kept[name], np.array([[0.1, -0.1, 0], [0.2, -0.3, 0.1], [-0.2, 0, 0.2]])
    with jax.enable_x64(True):
        up, down = (float(f(jnp.asarray(P + h * direction))) for h in (1e-6, -1e-6))
    assert float((gradient(f) * direction).sum()) == pytest.approx((up - down) / 2e-6, rel=1e-6)


def test_the_stationary_laws_derivative_at_a_missing_edge_is_the_one_from_above():
    f, h = OTHERS["stationary_distribution"], 1e-6
    moved = P.copy()
    moved[0, 2] += h
    moved[0, 0] -= h
    with jax.enable_x64(True):
        slope = float(f(jnp.asarray(moved)) - f(jnp.asarray(P))) / h
    g = gradient(f)
    assert g[0, 2] - g[0, 0] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(("move", "slow"), [(5e-5, True), (1e-4, False)])
def test_a_very_slow_chain_is_nan_at_the_limit_that_is_stated(move, slow):
    with jax.enable_x64(True):
        found = jax.jit(OTHERS["joint_stationary"])(jnp.asarray([[1 - move, move], [move, 1 - move]]))
        assert bool(jnp.isnan(found)) is slow


@pytest.mark.parametrize("word", [np.array([0], np.int32), np.zeros((2, 3), np.int32)])
def test_one_state_alone_has_no_entropy_and_is_refused(word):
    call = jax.jit(lambda P, w: exact_law(mechanism(P), w, START).expected_entropy)
    with pytest.raises(ValueError, match=r"(?s)^trajectory .*two states or more"):
        call(P, word)
    with pytest.raises(ValueError, match=r"(?s)^trajectory .*two states or more"):
        jax.jit(lambda P: exact_law(mechanism(P), word, START).expected_entropy)(P)


@pytest.mark.parametrize("state", [-1, 3])
def test_a_state_outside_the_chain_is_refused_and_not_clamped(state):
    word = np.array([0, state, 1], np.int32)
    for call in (
        lambda: gradient(lambda P: exact_law(mechanism(P), word, START).expected_entropy),
        lambda: gradient(lambda P: exact_law(mechanism(P), word, START).exceedance(1.0)),
    ):
        with pytest.raises(ValueError, match=rf"^trajectory\[1\] is {state}. Give the index of a state, 0 to 2"):
            call()
