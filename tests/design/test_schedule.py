"""A budget over the steps of a trajectory: the exact objective, the constraint, and the optimum."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import design
from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism
from dpjax.trajectory.joint import joint_law

CHAIN = MarkovChain.from_matrix([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.05, 0.35, 0.6]])


def walk():
    unit = TrajectoryMechanism.under_hamming(CHAIN, epsilon=1.0)
    law = CHAIN.initial_distribution
    return unit, design.walk_of(unit, np.outer(law, law))


@pytest.fixture(scope="module")
def last_state():
    return design.epsilon_schedule(CHAIN, total=4.0, n_steps=4, weights=[0, 0, 0, 1.0], steps=150)


def test_expected_errors_at_a_constant_scale_are_those_of_the_joint_law():
    _, facts = walk()
    m = TrajectoryMechanism.under_hamming(CHAIN, epsilon=1.7)
    with jax.enable_x64(True):
        found = np.asarray(design.expected_errors(facts, np.full(6, m.scale)))
    np.testing.assert_allclose(found, joint_law(m, 6).expected_error[1:], rtol=1e-13)


def test_their_gradient_is_that_of_central_differences():
    _, facts = walk()
    scales, direction = np.array([0.2, 0.9, 0.1, 1.4]), np.array([1.0, -0.5, 0.3, 0.7])
    with jax.enable_x64(True):
        total = jax.jit(lambda c: (jnp.arange(1.0, 5.0) * design.expected_errors(facts, c)).sum())
        slope = float(np.asarray(jax.jit(jax.grad(total))(scales)) @ direction)
        step = 1e-5
        assert slope == pytest.approx(
            float(total(scales + step * direction) - total(scales - step * direction)) / (2 * step), rel=1e-8
        )


def test_a_sum_is_kept_and_the_last_state_gets_nearly_all_of_it(last_state):
    assert last_state.certify() <= last_state.total
    assert last_state.certify() > last_state.total * (1 - 1e-10), "nothing is left unused"
    assert last_state.epsilons[-1] > 0.9 * last_state.total
    assert last_state.loss < 0.99 * last_state.constant_loss
    assert last_state.exact_epsilon() <= last_state.total


def test_the_optimum_of_two_steps_is_that_of_a_grid():
    made = design.epsilon_schedule(CHAIN, total=6.0, n_steps=2, weights=[1.0, 2.0], start=0)
    unit, _ = walk()
    first = np.zeros((3, 3))
    first[0, 0] = 1.0
    grid = np.linspace(0, 6, 301)
    with jax.enable_x64(True):
        errors = jax.jit(jax.vmap(lambda c: design.expected_errors(design.walk_of(unit, first), c)))(
            np.stack([grid, 6 - grid], axis=1) * unit.scale
        )
    losses = np.asarray(errors) @ [1.0, 2.0]
    assert made.loss == pytest.approx(losses.min(), rel=1e-4)
    assert made.epsilons[0] == pytest.approx(grid[losses.argmin()], abs=0.1)


def test_one_changed_state_forces_the_constant_schedule():
    made = design.epsilon_schedule(CHAIN, total=2.0, n_steps=4, changed_states=1, weights=[0, 0, 0, 1.0])
    np.testing.assert_allclose(made.epsilons, 2.0, rtol=1e-11)
    assert made.loss == made.constant_loss


def test_the_largest_b_are_what_is_bounded():
    made = design.epsilon_schedule(CHAIN, total=4.0, n_steps=4, changed_states=2, loss=lambda e: e[-1], steps=150)
    assert np.sort(made.epsilons)[-2:].sum() <= 4.0
    assert made.loss <= made.constant_loss
    with pytest.raises(ValueError, match="does not meet the total"):
        dataclasses.replace(made, changed_states=3)


@pytest.mark.parametrize("change", [{"total": 3.9}, {"epsilons": [1.0, 1.0, 1.0, 1.001]}])
def test_a_tampered_schedule_is_refused(last_state, change):
    with pytest.raises(ValueError, match="does not meet the total"):
        dataclasses.replace(last_state, **change)


def test_a_constant_schedule_draws_what_mechanism_1_draws():
    made = design.epsilon_schedule(CHAIN, total=2.0, n_steps=5, changed_states=1)
    m = TrajectoryMechanism.under_hamming(CHAIN, epsilon=float(made.epsilons[0]))
    path = [0, 1, 2, 2, 1, 0]
    np.testing.assert_array_equal(made.privatize(jax.random.key(2), path), np.asarray(m.privatize(jax.random.key(2), path)))
    with pytest.raises(ValueError, match="at most 6 states"):
        made.privatize(jax.random.key(2), [*path, 1])


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"total": 0.0}, "total"),
        ({"n_steps": 0}, "n_steps"),
        ({"changed_states": 5}, "changed_states"),
        ({"weights": [1.0]}, "weights"),
        ({"weights": [1.0] * 4, "loss": lambda e: e.sum()}, "weights"),
        ({"start": 7}, "start"),
    ],
)
def test_wrong_arguments_are_named(changes, word):
    with pytest.raises(ValueError, match=word):
        design.epsilon_schedule(CHAIN, **({"total": 1.0, "n_steps": 4} | changes))
