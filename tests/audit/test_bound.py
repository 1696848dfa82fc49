"""The bound on laws whose epsilon is known: how often it is wrong, and how close it comes."""

import jax
import numpy as np
import pytest
from scipy.stats import binom, norm

from dpjax.audit import audit, lower_bound
from dpjax.audit.bound import choose


def responses(rng, n, epsilon):
    """Randomised response, which attains epsilon: one bit under input 0, one under input 1."""
    truth = 1 / (1 + np.exp(-epsilon))
    return rng.random(n) < truth, rng.random(n) >= truth


@pytest.mark.statistical
def test_an_honest_mechanism_is_refuted_no_more_often_than_stated():
    # 400 audits at confidence 0.9: more than 40 + 24 refuted has probability 1e-4 at most where each is wrong with 0.1
    rng = np.random.default_rng(1)
    wrong = sum(lower_bound(*responses(rng, 600, 1.0), confidence=0.9).refutes(1.0) for _ in range(400))
    assert wrong <= binom.isf(1e-4, 400, 0.1)
    # the check has power: a claim that is 0.3 too small is refuted in most
    assert sum(lower_bound(*responses(rng, 600, 1.3), confidence=0.9).refutes(1.0) for _ in range(100)) > 50


@pytest.mark.statistical
def test_gaussian_scores_at_a_positive_delta():
    # two normals one deviation apart: delta(epsilon) = Phi(1/2 - epsilon) - e^epsilon Phi(-1/2 - epsilon), the exact value
    epsilon = 1.5
    delta = norm.cdf(0.5 - epsilon) - np.exp(epsilon) * norm.cdf(-0.5 - epsilon)
    rng = np.random.default_rng(2)
    found = [lower_bound(rng.normal(size=2000), rng.normal(size=2000) + 1, delta=delta, confidence=0.9) for _ in range(200)]
    assert sum(result.refutes(epsilon) for result in found) <= binom.isf(1e-4, 200, 0.1)
    large = lower_bound(rng.normal(size=1_000_000), rng.normal(size=1_000_000) + 1, delta=delta)
    assert 0.85 * epsilon < large.lower_bound <= epsilon
    assert not large.refutes(epsilon)
    assert large.refutes(epsilon - 0.3)


def test_the_better_direction_and_tail_are_found():
    rng = np.random.default_rng(3)
    p, q = rng.random(20_000) ** 2, rng.random(20_000)  # the log-ratio of p over q is unbounded at 0: the lower tail
    result = lower_bound(p, q)
    assert (result.direction, result.event.tail) == ("p over q", -1)
    back = lower_bound(q, p)
    assert (back.direction, back.event.tail) == ("q over p", -1)
    assert (back.hits_p, back.hits_q) == (result.hits_q, result.hits_p)
    assert back.lower_bound == result.lower_bound
    assert str(result.event) == f"score <= {-result.event.threshold:.6g}"


def test_categories_have_no_order():
    rng = np.random.default_rng(4)
    law = np.array([0.1, 0.4, 0.1, 0.4])
    p, q = rng.choice([7, -2, 5, 3], 20_000, p=law), rng.choice([7, -2, 5, 3], 20_000, p=law[::-1])
    result = lower_bound(p, q)
    assert set(result.event.categories) == ({-2, 3} if result.direction == "p over q" else {7, 5})
    assert 0.9 * np.log(4) < result.lower_bound <= np.log(4)
    relabelled = [np.select([x == 7, x == -2, x == 5, x == 3], [0, 100, 50, 1]) for x in (p, q)]
    assert lower_bound(*relabelled).lower_bound == result.lower_bound


def test_an_output_that_is_impossible_under_one_input_is_found():
    p, q = np.zeros(10_000), np.where(np.arange(10_000) % 10 == 0, np.inf, 0.0)
    result = lower_bound(p, q)
    assert result.direction == "q over p"
    assert (result.hits_p, result.hits_q) == (0, 500)
    assert result.lower_bound > 4


def test_the_event_comes_from_the_first_half_alone():
    rng = np.random.default_rng(5)
    p, q = rng.normal(size=2000), rng.normal(size=2000) + 2
    risk = (1 - 0.99) / 2
    events = {"p over q": choose(p[:1000], q[:1000], 0.0, risk), "q over p": choose(q[:1000], p[:1000], 0.0, risk)}
    assert lower_bound(p, q).event == events[lower_bound(p, q).direction]
    p[1000:], q[1000:] = 0.0, 0.0  # where no event shows a difference
    after = lower_bound(p, q)
    assert after.event == events[after.direction]
    assert after.lower_bound < 0.02


def test_equal_samples_prove_nothing():
    x = np.random.default_rng(6).normal(size=5000)
    assert lower_bound(x, x).lower_bound == 0.0
    assert lower_bound(np.zeros(100, int), np.zeros(100, int)).lower_bound == 0.0


def zeros(key, n):
    return np.zeros(n)


def test_samplers_get_different_keys_and_the_score_is_used():
    def sampler(shift):
        return lambda key, n: jax.random.normal(key, (n, 2)) + shift

    key = jax.random.key(0)
    result = audit(sampler(0.0), sampler(1.5), key, 20_000, score=lambda x: x.sum(axis=1))
    assert result.lower_bound > 2
    assert result.draws_p == result.draws_q == 10_000
    assert audit(sampler(0.0), sampler(1.5), key, 20_000, score=lambda x: x.sum(axis=1)) == result
    assert audit(sampler(0.0), sampler(0.0), key, 20_000, score=lambda x: x[:, 0]).lower_bound < 0.1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"samples_p": np.zeros(5), "samples_q": np.zeros(5)}, "20 draws or more"),
        ({"samples_q": np.zeros(99)}, "Pass 100 draws"),
        ({"samples_q": np.zeros(100, int)}, "of the same kind as samples_p"),
        ({"samples_p": np.full(100, np.nan)}, "A score is NaN"),
        ({"samples_p": np.zeros((100, 2))}, "one dimension"),
        ({"samples_p": np.array(["a"] * 100)}, "floating scores or whole categories"),
        ({"delta": 1.0}, "below 1"),
        ({"confidence": 1.0}, "strictly between"),
    ],
)
def test_bad_calls(change, words):
    good = {"samples_p": np.zeros(100), "samples_q": np.zeros(100)}
    with pytest.raises(ValueError, match=words):
        lower_bound(**(good | change))


def test_too_few_draws():
    with pytest.raises(ValueError, match="n is 3"):
        audit(zeros, zeros, jax.random.key(0), 3)
