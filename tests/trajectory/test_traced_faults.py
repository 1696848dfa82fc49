"""What a trace must not hide: faults of values that no check of the host has seen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

import dpjax
from dpjax.chains import MarkovChain
from dpjax.trajectory import TrajectoryMechanism

P = np.array([[0.5, 0.3, 0.2], [0.25, 0.35, 0.4], [0.37, 0.03, 0.6]])
CHAIN = MarkovChain.from_matrix(P)
M = TrajectoryMechanism(CHAIN, epsilon=1.0, rho=6.0)
KEY, WORD = jax.random.key(3), np.array([0, 0, 1, 2, 1])


@pytest.mark.parametrize("start", [None, 2, P[0]])
def test_a_concrete_draw_is_the_same_within_another_trace(start):
    expected = M.privatize(KEY, WORD, start)
    within = jax.jit(lambda x: x + M.privatize(KEY, WORD, start))(0)
    scanned = jax.lax.scan(lambda x, _: (x, x + M.privatize(KEY, WORD, start)), 0, None, length=1)[1][0]
    with dpjax.debug_checks():
        error, checked = jax.jit(checkify.checkify(lambda x: x + M.privatize(KEY, WORD, start)))(0)
    error.throw()
    for found in (within, scanned, checked):
        np.testing.assert_array_equal(found, expected)
