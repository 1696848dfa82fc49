"""What a trace must not hide: faults of values that no check of the host has seen."""

import jax
import numpy as np
import pytest
from jax.experimental import checkify

import dpjax
from dpjax._errors import InputError
from dpjax.chains import MarkovChain
from dpjax.trajectory import (
    ChenMechanism,
    OfflineMechanism,
    RandomisedResponse,
    TrajectoryMechanism,
    exact_law,
    protection,
    substitution_epsilon,
)

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


MECHANISMS = [
    M,
    ChenMechanism(CHAIN, epsilon=1.0, b=2),
    RandomisedResponse(CHAIN, epsilon=1.0),
    OfflineMechanism(CHAIN, epsilon=1.0, rho=2.0),
]


def with_epsilon(m, epsilon):
    """The mechanism rebuilt from its leaves, another number in the place of epsilon."""
    paths, structure = jax.tree_util.tree_flatten_with_path(m)
    return jax.tree.unflatten(structure, [epsilon if "epsilon" in jax.tree_util.keystr(path) else leaf for path, leaf in paths])


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: m.name)
@pytest.mark.parametrize("epsilon", [-1.0, np.nan, np.inf])
def test_a_mechanism_rebuilt_from_bad_leaves_claims_and_draws_nothing(m, epsilon):
    calls = [
        lambda m: m.privatize(KEY, WORD),
        lambda m: m.sample(KEY, WORD, 2),
        lambda m: m.guarantee(),
        lambda m: m.substitution_loss(),
        lambda m: m.loss_bounds(),
        lambda m: m.metric_rate(),
        protection,
        lambda m: exact_law(m, WORD),
    ]
    if hasattr(m, "init"):
        calls += [lambda m: m.init(KEY), substitution_epsilon, lambda m: m.cache(), lambda m: m.scale]
    else:
        calls += [lambda m: m.adjacency.words and m.graph]
    for call in calls:
        with pytest.raises(InputError, match=r"^epsilon is"):
            call(with_epsilon(m, epsilon))
    assert with_epsilon(m, 2.0).guarantee().substitution > m.guarantee().substitution


def test_every_parameter_of_a_rebuilt_mechanism_is_checked_again():
    for m, name in ((MECHANISMS[1], "b"), (M, "rho"), (M, "prior_weight"), (MECHANISMS[3], "base_weight")):
        paths, structure = jax.tree_util.tree_flatten_with_path(m)
        bad = [-2 if jax.tree_util.keystr(path) == f".{name}" else leaf for path, leaf in paths]
        with pytest.raises(InputError, match=rf"^{name} is -2"):
            jax.tree.unflatten(structure, bad).privatize(KEY, WORD)
