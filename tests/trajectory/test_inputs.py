"""Bad input is a ValueError that names the argument, its value and the remedy; legal corners are legal."""

import jax
import numpy as np
import pytest
import scipy.sparse

from dpjax.chains import MarkovChain
from dpjax.trajectory import Adjacency, ChenMechanism, HammingAdjacency, TrajectoryMechanism, exact_law

KEY = jax.random.key(0)


@pytest.fixture
def m(chain4):
    return TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0)


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf")])
def test_epsilon(chain4, bad):
    with pytest.raises(ValueError, match="epsilon is"):
        TrajectoryMechanism(chain4, epsilon=bad, rho=1.0)
    with pytest.raises(ValueError, match="epsilon is"):
        ChenMechanism(chain4, epsilon=bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_rho(chain4, bad):
    with pytest.raises(ValueError, match="rho is"):
        TrajectoryMechanism(chain4, epsilon=1.0, rho=bad)
    with pytest.raises(ValueError, match="rho is"):
        Adjacency(rho=bad)


def test_other_parameters(chain4):
    with pytest.raises(ValueError, match="selection is 'noisy'"):
        TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0, selection="noisy")
    with pytest.raises(ValueError, match="prior_weight is"):
        TrajectoryMechanism(chain4, epsilon=1.0, rho=1.0, prior_weight=-1.0)
    with pytest.raises(ValueError, match="b is 0"):
        ChenMechanism(chain4, epsilon=1.0, b=0)
    with pytest.raises(ValueError, match="b is 0"):
        HammingAdjacency(b=0)


@pytest.mark.parametrize(
    ("refused", "reason"), [("min", "not epsilon-private"), ("one-sided", "not epsilon-private"), ("sum", "half the rho")]
)
def test_symmetrisations_that_are_not_private_are_refused_with_the_reason(refused, reason):
    with pytest.raises(ValueError, match=reason):
        Adjacency(rho=1.0, symmetrisation=refused)


@pytest.mark.parametrize("bad", [[], [0], [[0, 1]], [0.0, 1.0], ["a", "b"]])
def test_trajectories_that_are_none(m, bad):
    with pytest.raises(ValueError, match="trajectory is"):
        m.privatize(KEY, bad)
    with pytest.raises(ValueError, match="trajectory is"):
        exact_law(m, bad)


@pytest.mark.parametrize("bad", [-1, 4, 99])
def test_states_that_are_not_in_the_chain(m, bad):
    with pytest.raises(ValueError, match=rf"trajectory\[2\] is {bad}. Give the index of a state, 0 to 3"):
        m.sample(KEY, [0, 1, bad], 3)
    state, _ = m.init(KEY)
    with pytest.raises(ValueError, match=f"s is {bad}"):
        m.step(KEY, state, bad)
    with pytest.raises(ValueError, match=f"start is {bad}"):
        m.init(KEY, start=bad)


def test_an_impossible_sensitive_transition_is_named_by_step_and_labels():
    chain = MarkovChain.from_matrix(np.array([[0, 1.0, 0], [0, 0, 1.0], [0.5, 0.5, 0]]), labels=["north", "east", "south"])
    m = TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    for call in (lambda w: m.privatize(KEY, w), lambda w: m.sample(KEY, w, 2), lambda w: exact_law(m, w)):
        with pytest.raises(ValueError, match=r"step 2 is \('east', 'north'\). The chain has no transition from 'east' to 'north'"):
            call([0, 1, 0, 2])
    assert m.privatize(KEY, [0, 1, 0, 2], check=False).shape == (4,)


@pytest.mark.parametrize("bad", [[0.5, 0.5], [0.5, 0.5, 0.5, 0.5], [1.5, -0.5, 0.0, 0.0], [float("nan"), 1.0, 0.0, 0.0]])
def test_start_that_is_no_law(m, bad):
    with pytest.raises(ValueError, match="start is"):
        m.init(KEY, start=bad)


def test_lanes(m):
    with pytest.raises(ValueError, match="n is 0"):
        m.sample(KEY, [0, 1], 0)
    with pytest.raises(ValueError, match="first is -1"):
        m.sample(KEY, [0, 1], 1, first=-1)


@pytest.mark.parametrize("make", [np.asarray, scipy.sparse.csr_array])
def test_a_reducible_chain_names_a_pair(make):
    P = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25], [0, 0, 0.5, 0.5]])
    chain = MarkovChain.from_matrix(make(P), labels=["a", "b", "c", "d"], initial=np.full(4, 0.25))
    with pytest.raises(ValueError, match=r"'c' cannot be reached from state 'a'"):
        TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
    backwards = MarkovChain.from_matrix(make(P[::-1, ::-1].copy()), labels=["d", "c", "b", "a"], initial=np.full(4, 0.25))
    with pytest.raises(ValueError, match="cannot be reached from state"):
        ChenMechanism(backwards, epsilon=1.0)


def test_sparse_and_dense_chains_are_the_same_mechanism(chain4):
    word = [0, 1, 2, 0, 2, 3]
    sparse = MarkovChain.from_matrix(scipy.sparse.csr_array(chain4.matrix))
    one, other = (exact_law(TrajectoryMechanism(c, epsilon=1.0, rho=1.0), word, start=0) for c in (chain4, sparse))
    np.testing.assert_allclose(one.marginals, other.marginals, rtol=1e-14)


@pytest.mark.parametrize(("epsilon", "rho"), [(1e308, 0.1), (1.0, 1e-320)])
def test_a_coin_scale_that_overflows_is_refused(chain3, epsilon, rho):
    with pytest.raises(ValueError, match="coin scale"):
        TrajectoryMechanism(chain3, epsilon=epsilon, rho=rho)


@pytest.mark.parametrize("more", [{"epsilon": 1e308, "rho": 0.6}, {"epsilon": 1.0, "rho": 1.0, "prior_weight": 1e308}])
def test_costs_that_overflow_are_refused(chain3, more):
    with pytest.raises(ValueError, match=r"epsilon is .*exceed the range of float64"):
        TrajectoryMechanism(chain3, **more)


@pytest.mark.parametrize("b", [0, -1, True])
def test_a_number_of_states_is_whole_and_positive(b):
    with pytest.raises(ValueError, match="b is"):
        HammingAdjacency(b=b)


@pytest.mark.parametrize("start", ["a", 1.0])
def test_a_start_that_is_no_index_is_named(chain3, start):
    with pytest.raises(ValueError, match="start is"):
        TrajectoryMechanism(chain3, epsilon=1.0, rho=1.0).privatize(jax.random.key(0), [0, 1], start=start)
