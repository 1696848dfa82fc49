"""A search says that it settled only where fresh restarts from its best point gain nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

from dpjax import design
from dpjax.chains import MarkovChain
from dpjax.design.optimise import minimise

CHAIN = MarkovChain.from_matrix([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.05, 0.35, 0.6]])
P = np.array([[0.70, 0.25, 0.05], [0.30, 0.40, 0.30], [0.10, 0.40, 0.50]])


def bowl(x, centre):
    return 1.0 + ((x - centre) ** 2).sum()


def sharp(x, centre):
    """A kink at the optimum, as a sum of the b largest has: its slope never goes to 0."""
    return 1.0 + jnp.abs(x - centre).sum()


@pytest.mark.parametrize("objective", [bowl, sharp])
@pytest.mark.parametrize(
    ("steps", "far", "settled"), [(400, 2.0, True), (60, 200.0, False), (1, 2.0, False), (1, 0.0, False), (24, 0.0, False)]
)
def test_a_search_stopped_early_has_not_settled_and_one_at_rest_has(objective, steps, far, settled):
    found = minimise(objective, np.full(3, far), [np.zeros(3)], steps=steps)
    assert found.settled is settled


def test_a_slow_search_whose_last_tenth_hardly_moves_has_not_settled():
    """The rate falls to 0, so the loss stands still at the end wherever it is: that was taken for rest."""
    found = minimise(bowl, np.full(3, 200.0), [np.zeros(3)], steps=60)
    late = found.trace[0, -6:]
    assert np.ptp(late) < 1e-3 * late[-1]
    assert not found.settled


def test_designs_and_schedules_of_one_step_have_not_settled():
    options = {"epsilon": 1.0, "delta": 1e-4, "n_records": [402, 500, 300], "support": np.ones((3, 3), bool), "public_model": P}
    assert not design.design_matrix(**options, steps=1).settled
    assert not design.epsilon_schedule(CHAIN, total=4.0, n_steps=4, weights=[0, 0, 0, 1.0], steps=1).settled
    assert design.epsilon_schedule(CHAIN, total=4.0, n_steps=4, changed_states=1, steps=1).settled, "nothing is searched there"
