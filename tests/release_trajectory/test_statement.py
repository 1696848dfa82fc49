"""The statement: public inputs only, numbers never better than the truth, its warnings where they belong."""

import json
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dpjax._rationals import decimal_down, decimal_up
from dpjax.chains import MarkovChain
from dpjax.release import Plan, Statement, StreamPlan, TrajectoryRelease, trajectory_statement
from dpjax.release.stream import ChainBudget, chain_budget
from dpjax.trajectory import TrajectoryMechanism, substitution_epsilon
from tests.release_trajectory.random_chains import P4


def test_the_numbers_are_those_of_the_chain_and_on_the_safe_side(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=3)
    fields = trajectory_statement(release).fields
    simulated = substitution_epsilon(TrajectoryMechanism(chain3, epsilon=1, rho=3))
    assert fields["single_substitution_is_exact"]
    assert fields["single_substitution_epsilon"] == pytest.approx(simulated, abs=1e-5)
    assert fields["single_substitution_epsilon"] >= simulated - 1e-6
    assert Fraction(str(fields["g_min"])) <= release.distances.extremes().smallest
    assert Fraction(str(fields["g_max"])) >= release.distances.extremes().largest
    assert not fields["vacuous"]
    assert "at most 1 state(s)" in " ".join(fields["promises"])


def test_a_vacuous_radius_is_said_aloud(chain3):
    statement = trajectory_statement(TrajectoryRelease(chain=chain3, epsilon=1, rho=1))
    assert statement.fields["vacuous"]
    assert "promises nothing by itself" in str(statement)
    assert statement.fields["single_substitution_epsilon"] == pytest.approx(2.85955, abs=2e-5)  # reference value 7


def test_where_all_pairs_are_too_many_the_bound_is_said_to_be_one(chain3, monkeypatch):
    from dpjax.trajectory import losses

    monkeypatch.setattr(losses, "AFFORDABLE", 1.0)
    fields = trajectory_statement(TrajectoryRelease(chain=chain3, epsilon=1, rho=3)).fields
    assert not fields["single_substitution_is_exact"]
    assert fields["single_substitution_epsilon"] == pytest.approx(fields["g_max"] / 3, rel=1e-4)
    assert fields["single_substitution_epsilon"] >= fields["g_max"] / 3 * (1 - 1e-5)
    assert "proved bound" in " ".join(fields["promises"])


def test_the_words_say_what_the_options_were(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=3, log_base="2")
    plain, reply = trajectory_statement(release), trajectory_statement(release, start="B", identifiers=True)
    assert "3 bits" in str(plain)
    assert "says nothing of the first sensitive state" in str(plain)
    assert "public input" in str(plain)
    assert "identifiers themselves" not in str(plain)
    assert "The first private state is B, declared public" in str(reply)
    assert "identifiers themselves" in str(reply)
    for text in ("length of the stream", "no seed", "each run on the same stream".capitalize(), "delta 0"):
        assert text in str(plain)


def test_one_state_comes_first_and_a_large_epsilon_is_warned_of(chain3):
    near, far = (trajectory_statement(TrajectoryRelease(chain=chain3, epsilon=e, rho=1)) for e in (1, 20))
    assert str(near).splitlines()[1].startswith("One state replaced by another: epsilon 2.8595")
    assert near.fields["warning"] is None
    assert "a factor of at most 17.46 in" in str(near).splitlines()[1]  # e^2.85955 = 17.4537, rounded up
    assert near.fields["headline"] == str(near).splitlines()[1]
    assert far.fields["single_substitution_epsilon"] > 10
    assert str(far).splitlines()[2] == far.fields["warning"]
    assert "expect most states of the stream to come out unchanged" in far.fields["warning"]
    assert far.fields["unchanged_share_of_a_public_run"] > 0.5


def test_no_sum_is_claimed_for_what_nothing_follows_from(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon="0.7", rho=3)
    for adjacency in ("one trip replaced", "replace-within-row"):
        reply = trajectory_statement(release, chain_budget=ChainBudget(0.5, 1e-6, adjacency)).fields["chain"]
        assert reply["source"] == "private release"
        assert (reply["total_epsilon"], reply["total_delta"]) == (None, None)
        assert "no sum is claimed" in reply["words"]
        assert "from which nothing follows" in reply["no_sum"]
        assert "replace-within-row" not in reply["words"]


def test_nothing_of_a_stream_can_be_in_it_and_json_is_the_same(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon=1, rho=3)
    first, again = trajectory_statement(release), trajectory_statement(release)
    assert first.json() == again.json()
    assert json.loads(first.json()) == first.fields


@pytest.mark.parametrize("value", ["0.1", "1/3", "2.9957322735539909", "123456.7891", "1e-9"])
def test_printed_numbers_round_to_their_safe_side(value):
    exact = Fraction(value)
    for rounded, sign in ((decimal_up(exact), 1), (decimal_down(exact), -1)):
        printed = Fraction(repr(rounded)) - exact
        assert 0 <= sign * printed <= exact * Fraction(1, 10**4)
        assert Fraction(f"{rounded:g}") == Fraction(repr(rounded))


@pytest.mark.parametrize(("epsilon", "delta"), [("x", "0"), ("1", "y"), ("1", "1"), ("1", "-1"), ("-1", "0"), ("1", "nan")])
def test_budgets_that_are_none_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="the chain's"):
        chain_budget(epsilon, delta)


def test_states_at_distance_zero_allow_any_number_of_differences():
    cycle = MarkovChain.from_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert "any number of states" in str(trajectory_statement(TrajectoryRelease(chain=cycle, epsilon=1, rho=1)))
    assert "any number" not in str(trajectory_statement(TrajectoryRelease(chain=MarkovChain.from_matrix(P4), epsilon=1, rho=1)))


@pytest.mark.parametrize(("epsilon", "rho"), [("1e-6", "100"), ("1e-6", "1"), ("1e-3", "1e4"), ("1/3", "2")])
@pytest.mark.parametrize("P", [[[0.4, 0.6], [0.37, 0.63]], [[1e-3, 0.999], [0.999, 1e-3]], [[0.5, 0.5], [0.9, 0.1]]])
def test_what_one_state_costs_is_from_above_however_small(P, epsilon, rho):
    """The rounding of a computed loss is absolute: the margin was a part in 1e9 of an epsilon of 1e-8."""
    release = TrajectoryRelease(chain=MarkovChain.from_matrix(P), epsilon=epsilon, rho=rho)
    fields = trajectory_statement(release).fields
    assert fields["single_substitution_is_exact"]
    with mp.workdps(60):
        c = mp.mpf(release.coin_scale.numerator) / release.coin_scale.denominator

        def log_law(s):
            costs = [c * int(x) for x in release.distances.to(s)]
            p = [mp.exp(min(costs) - cost) for cost in costs]
            weights = [p[0] * (1 - p[1] / 2), p[1] * (1 - p[0] / 2)]
            return [mp.log(weight) for weight in weights]

        loss = max(abs(x - y) for x, y in zip(log_law(0), log_law(1), strict=True))
        assert (
            loss <= mp.mpf(fields["single_substitution_epsilon"]) <= loss * (1 + mp.mpf(10) ** -5) + mp.mpf(10) ** -12
        )  # six digits


def test_streams_and_models_say_the_same_kind_of_claims_and_statements(chain3):
    """One core: relation, unit, epsilon, delta, basis and a sentence each; a stored statement is read again with the same text."""
    stream = StreamPlan(release=TrajectoryRelease(chain=chain3, epsilon="0.7", rho=3), identifiers=True)
    model = Plan.make(("a", "b"), epsilon=1.0, delta=1e-6, form="discrete-gaussian", adjacency="add-remove")
    for plan, kind in ((stream, "stream"), (model, "model")):
        statement = plan.statement()
        assert (statement.kind, type(statement)) == (kind, Statement)
        stored = json.loads(statement.json())
        assert Statement(stored).kind == kind
        assert str(Statement(stored)) == str(statement)
        assert stored == statement.fields
        said = " ".join([*stored.get("promises", ()), stored.get("headline", ""), *stored.get("meaning", ())])
        assert len(stored["claims"]) == len(plan.claims()) >= 2
        for claim, values in zip(plan.claims(), stored["claims"], strict=True):
            assert {"relation", "unit", "delta", "basis", "words"} <= values.keys()
            assert values["words"] == claim.in_words
            assert claim.in_words in said
            assert next(value for name, value in values.items() if name.startswith("epsilon")) == claim.epsilon
        assert plan.due().amount.epsilon == stored["epsilon"]
        assert plan.due().amount.delta == stored["delta"]
    assert {claim.unit for claim in stream.claims()} == {"identifier", "state"}


def test_a_start_that_is_no_state_is_refused_before_anything_is_said(chain3):
    with pytest.raises(ValueError, match=r"^start is 'Z'. It is not a state of the chain: give one of its 3 labels"):
        StreamPlan(release=TrajectoryRelease(chain=chain3, epsilon=1, rho=3), start="Z")
