"""What is refused names the argument, its value and the remedy; what may be the sensitive table is asked about."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

from dpjax import design
from dpjax.chains import MarkovChain, elasticities

COUNTS = np.array([[310, 80, 12], [150, 210, 140], [30, 120, 150]])
MODEL = np.array([[0.70, 0.25, 0.05], [0.30, 0.40, 0.30], [0.10, 0.40, 0.50]])
CHAIN = MarkovChain.from_matrix(MODEL)


def made(**changes):
    options = {
        "epsilon": 1.0,
        "delta": 1e-4,
        "n_records": COUNTS.sum(axis=1),
        "support": np.ones((3, 3), bool),
        "public_model": MODEL,
        "steps": 1,
        "random_starts": 0,
    }
    return design.design_matrix(**options | changes)


def schedule(chain=CHAIN, **changes):
    return design.epsilon_schedule(chain, **{"total": 4.0, "n_steps": 3, "steps": 1} | changes)


@pytest.fixture(scope="module")
def one():
    return made()


def test_counts_as_the_public_model_are_asked_about_and_need_not_be_divided():
    with pytest.raises(ValueError, match=r"(?s)^public_model is .*Is this the sensitive table\?.*public") as refused:
        made(public_model=COUNTS)
    assert "divide" not in str(refused.value)


def test_shares_of_the_counts_as_the_public_model_are_warned_of():
    with pytest.warns(UserWarning, match="public_model was made from the sensitive counts"):
        made(public_model=COUNTS / COUNTS.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("model", [MODEL, np.full((3, 3), 1 / 3), (COUNTS + 0.1) / (COUNTS + 0.1).sum(axis=1, keepdims=True)])
def test_no_other_model_is_warned_of(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(public_model=model)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_records": [1, 2]}, r"(?s)^n_records is \[1, 2\]. Give one number, or one for each of the 3 rows"),
        ({"minimum_count": [1, 2]}, r"(?s)^minimum_count is \[1, 2\]. Give one number, or one for each of the 3 rows"),
        ({"epsilon": 1e-9, "delta": 1e-15}, r"(?s)^\(epsilon, delta\) is .*larger epsilon or delta"),
        ({"delta": 0.9}, r"(?s)^\(epsilon, delta\) is .*smaller epsilon or delta"),
        ({"support": np.ones((3, 3), int)}, r"(?s)^support is .*Give booleans, not int64"),
        ({"public_model": CHAIN}, r"(?s)^public_model is .*chain.matrix"),
        ({"public_model": sparse.csr_array(MODEL)}, r"(?s)^public_model is .*toarray"),
        ({"public_model": MODEL * 0.9}, r"(?s)^public_model is .*rows that sum to 1"),
        ({"loss": lambda law, pi: law.mean - pi}, r"(?s)^loss must .*one real number, and returns .*shape=\(3,\)"),
        ({"loss": lambda law, pi: np.sum(np.asarray(law.mean))}, r"(?s)^loss is .*jax.numpy"),
        ({"loss": lambda law: law.mean.sum()}, r"(?s)^loss must take the arguments \(law, pi\)"),
    ],
)
def test_a_wrong_argument_of_a_matrix_design_is_named_with_its_remedy(changes, words):
    with pytest.raises(ValueError, match=words):
        made(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chain": MODEL}, r"(?s)^chain is .*from_matrix"),
        ({"start": "zone 01"}, r"(?s)^start is 'zone 01'. .*chain.index"),
        ({"chain": MarkovChain.from_matrix([[0.0, 1.0], [1.0, 0.0]])}, r"(?s)^chain is .*distances are all 0"),
        ({"loss": lambda e: e}, r"(?s)^loss must .*one real number, and returns .*shape=\(3,\)"),
        ({"loss": lambda e: float(e[0])}, r"(?s)^loss is .*jax.numpy"),
        ({"loss": lambda: 0.0}, r"(?s)^loss must .*arguments \(errors,\)"),
    ],
)
def test_a_wrong_argument_of_a_schedule_is_named_with_its_remedy(changes, words):
    with pytest.raises(ValueError, match=words):
        schedule(**changes)


@pytest.mark.parametrize(
    ("P", "words"),
    [
        ([[1.0]], r"(?s)^P is \[\[1.0\]\]. Give at least two states"),
        (CHAIN, r"(?s)^P is .*chain.matrix"),
        (sparse.csr_array(MODEL), r"(?s)^P is .*toarray"),
    ],
)
def test_a_wrong_matrix_of_the_first_order_law_is_named_with_its_remedy(P, words):
    with pytest.raises(ValueError, match=words):
        design.stationary_law(P, 1.0)


def test_fractional_counts_are_not_released(one):
    moved = COUNTS + np.array([[0.5, -0.5, 0], [0, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match=r"(?s)^counts is .*whole numbers"):
        one.privatize(jax.random.key(0), moved)


@pytest.mark.parametrize("change", [{"mechanism": 2.0}, {"epsilon": 0.5}, {"delta": 1e-6}])
def test_a_design_changed_by_force_is_not_drawn_from(one, change):
    forced = dataclasses.replace(one)
    assert forced.privatize(jax.random.key(0), COUNTS).shape == (3, 3)
    if "mechanism" in change:
        change = {"mechanism": dataclasses.replace(one.mechanism, k=one.k * change["mechanism"])}
    for name, value in change.items():
        object.__setattr__(forced, name, value)
    with pytest.raises(ValueError, match="does not meet the target"):
        forced.privatize(jax.random.key(0), COUNTS)


def test_a_schedule_changed_by_force_is_not_drawn_from():
    forced = schedule()
    assert len(forced.privatize(jax.random.key(0), [0, 1, 2])) == 3
    object.__setattr__(forced, "total", 1.0)
    with pytest.raises(ValueError, match="does not meet the total"):
        forced.privatize(jax.random.key(0), [0, 1, 2])
    object.__setattr__(forced, "total", 4.0)
    object.__setattr__(forced, "epsilons", forced.epsilons * 0.5)
    with pytest.raises(ValueError, match="differ from those of the mechanisms"):
        forced.privatize(jax.random.key(0), [0, 1, 2])


@pytest.mark.parametrize("loss", [-5.0, 5.0, float("nan")])
def test_a_loss_that_no_search_met_cannot_be_set(one, loss):
    with pytest.raises(ValueError, match=r"(?s)^loss is .*trace"):
        dataclasses.replace(one, loss=loss)
    with pytest.raises(ValueError, match=r"(?s)^constant_loss is .*trace"):
        dataclasses.replace(schedule(), constant_loss=loss * 10)


def test_elasticities_take_lists_and_refuse_a_gradient_that_is_nan():
    P, g = [[0.9, 0.1], [0.3, 0.7]], [[1.0, 0.0], [0.0, 0.0]]
    np.testing.assert_allclose(elasticities(P, g), [[0.09, -0.09], [0, 0]], atol=1e-15)
    with pytest.raises(ValueError, match=r"^gradient\[0, 1\] is nan. .*derivative"):
        elasticities(P, [[1.0, np.nan], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"^gradient\[0, 1\] is nan"):
        elasticities(jnp.asarray(P), jnp.asarray([[1.0, jnp.nan], [0.0, 0.0]]))
    np.testing.assert_array_equal(elasticities([[1.0, 0.0], [0.5, 0.5]], [[1.0, np.nan], [0.0, 0.0]]), np.zeros((2, 2)))
