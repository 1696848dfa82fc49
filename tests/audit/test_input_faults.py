"""Faults of what a user hands to the audit, one test each. Annotations are not checked here: the package is as a user has it."""

import jax
import numpy as np
import pytest

from dpjax.audit import audit, delta_limit, lower_bound, selection_target, trajectory_target
from dpjax.audit.bound import epsilon_limit, lower_limit, upper_limit
from dpjax.chains import MarkovChain
from dpjax.cli import main
from dpjax.trajectory import ChenMechanism, OfflineMechanism
from tests.unchecked import as_a_user_has_it  # noqa: F401

KEY = jax.random.key(0)
NO_NUMBERS = [None, "1", True, 1j, [0.5], np.array([0.5, 0.6]), float("nan"), float("inf")]
BITS = np.arange(40) % 2 == 0


def refused(argument, call, *values):
    for value in values:
        with pytest.raises(ValueError, match=rf"^{argument} is .*\. \S"):
            call(value)


@pytest.mark.parametrize("claimed", ["nan", "inf", "-1"])
def test_a_claim_of_nan_was_honest(capsys, claimed):
    assert main(["audit", "chen", "--claimed", claimed, "--draws", "100"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"--claimed is {float(claimed)}. Pass the claimed epsilon, a finite number of nats, 0 or more" in said.err
    assert said.err.count("\n") == 1


def test_a_claim_is_a_number():
    refused("claimed", lower_bound(BITS, BITS).refutes, -1.0, *NO_NUMBERS)
    refused("claimed", lambda x: selection_target([0.0, 1.0], [1.0, 0.0], 0.5, claimed=x), -1.0, *NO_NUMBERS[1:])
    assert not lower_bound(BITS, BITS).refutes(0)


def test_levels_are_numbers():
    def still(key, n):
        return np.zeros(n)

    for call in (lambda **x: lower_bound(BITS, BITS, **x), lambda **x: audit(still, still, KEY, 40, **x)):
        refused("delta", lambda x, one=call: one(delta=x), -0.1, 1.0, *NO_NUMBERS)
        refused("confidence", lambda x, one=call: one(confidence=x), 0.0, 1.0, *NO_NUMBERS)
    refused("n", lambda n: audit(still, still, KEY, n), 100.5, 100.0, "100", None, True, 19, np.array([100]))


@pytest.mark.parametrize("other", [-1, 1])
def test_a_sampler_that_returns_another_number_of_draws(other):
    def honest(key, n):
        return np.zeros(n)

    def short(key, n):
        return np.zeros(n + other)

    for name, samplers in (("p", (short, honest)), ("q", (honest, short)), ("p", (short, short))):
        with pytest.raises(ValueError, match=rf"the shape of sampler_{name}'s outputs is \({100 + other},\). Return 100 draws"):
            audit(*samplers, KEY, 100)
    with pytest.raises(ValueError, match=r"the shape of the scores of sampler_p is .*. Return 100, one for each draw"):
        audit(honest, honest, KEY, 100, score=lambda x: short(None, len(x)))


def test_a_sampler_that_returns_one_number():
    with pytest.raises(ValueError, match=r"the shape of sampler_p's outputs is \(\). Return 100 draws"):
        audit(lambda key, n: 0.0, lambda key, n: 0.0, KEY, 100)


def test_counts_that_cannot_be():
    for call in (
        lambda x: lower_limit(x, 20, 0.01),
        lambda x: upper_limit(x, 20, 0.01),
        lambda x: epsilon_limit(x, 20, 1, 20, 0.0, 0.01),
    ):
        refused("hits", call, -3, 21, 2.5, "3", None, float("nan"))
    refused("hits", lambda x: upper_limit(0, x, 0.01), 0, -1)
    refused("risk", lambda x: lower_limit(3, 20, x), 0.0, 1.0, *NO_NUMBERS)
    refused("delta", lambda x: epsilon_limit(3, 20, 1, 20, x, 0.01), -0.1, 1.0, *NO_NUMBERS)
    refused("epsilon", lambda x: delta_limit(3, 20, 1, 20, x, 0.01), -0.1, 701.0, *NO_NUMBERS)


def test_a_mechanism_of_another_kind():
    chain = MarkovChain.from_matrix(np.array([[0.5, 0.5], [0.3, 0.7]]))
    refused(
        "m", trajectory_target, None, chain, "m", [ChenMechanism(chain, epsilon=1.0), OfflineMechanism(chain, epsilon=1.0, rho=1.0)]
    )
