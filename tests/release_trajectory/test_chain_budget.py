"""What a released chain costs a trajectory that is in its data: the records that a neighbour changes, counted, and group privacy."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpjax.chains import MarkovChain
from dpjax.release import TrajectoryRelease
from dpjax.release.stream import ChainBudget, chain_cost
from tests.release_trajectory.random_chains import random_chain

STEPS = 4


def records_apart(w, v):
    """How many records of w's transitions are replaced to have v's, as databases: collections without order."""
    return (Counter(itertools.pairwise(w)) - Counter(itertools.pairwise(v))).total()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("states", [1, 2])
def test_no_adjacent_trajectory_changes_more_records_than_are_charged_and_one_does(seed, states):
    chain = random_chain(seed, 3)
    D = np.stack([TrajectoryRelease(chain=chain, epsilon=1, rho=1).distances.to(s) for s in range(3)])
    average = (D + D.T) / 2
    smallest = Fraction(int((D + D.T)[~np.eye(3, dtype=bool)].min()), 2 * 10**6)
    release = TrajectoryRelease(chain=chain, epsilon=1, rho=states * smallest)
    words = list(itertools.product(range(3), repeat=STEPS + 1))
    most = 0
    for w, v in itertools.combinations(words, 2):
        if sum(average[w[t], v[t]] for t in range(1, STEPS + 1)) <= float(release.rho) * 10**6 + 1e-6:
            most = max(most, records_apart(w, v))
    charged = chain_cost(release, ChainBudget(0.25, 0.0, "replace")).changes
    assert charged == 2 * states + 1
    assert most <= charged
    assert most == min(charged, STEPS)  # with one record fewer the charge would be too low


def test_group_privacy_is_the_chain_of_its_steps(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon="0.7", rho=3)
    for adjacency, changes in (("replace", 3), ("add-remove", 6), ("replace-person", 1), ("add-remove-person", 2)):
        cost = chain_cost(release, ChainBudget(0.5, 1e-6, adjacency))
        exact = 1e-6 * sum(math.exp(0.5 * i) for i in range(changes))
        assert (cost.changes, cost.epsilon) == (changes, 0.5 * changes)
        assert cost.total_epsilon == pytest.approx(0.5 * changes + 0.7, abs=1e-12)
        assert exact * (1 - 1e-12) <= cost.delta <= exact * (1 + 2e-5)


def test_group_privacy_is_no_better_than_randomised_response_shows():
    """k changes of independent (epsilon, delta) coins: the exact delta at k epsilon is at most what is charged, and near it for k = 1."""
    epsilon, delta = 0.5, 0.01
    for k in (1, 2, 3):
        keep = (1 - delta) * math.exp(epsilon) / (1 + math.exp(epsilon))
        one, other = np.array([delta, keep, 1 - delta - keep, 0.0]), np.array([0.0, 1 - delta - keep, keep, delta])
        p, q = one, other
        for _ in range(k - 1):
            p, q = np.outer(p, one).ravel(), np.outer(q, other).ravel()
        exact = np.maximum(p - math.exp(k * epsilon) * q, 0).sum()
        charged = delta * math.expm1(k * epsilon) / math.expm1(epsilon)
        assert exact <= charged + 1e-15
        assert k > 1 or exact == pytest.approx(charged)


def test_where_no_number_follows_the_reason_is_given(chain3):
    release = TrajectoryRelease(chain=chain3, epsilon="0.7", rho=3000)
    assert "no delta below 1" in chain_cost(release, ChainBudget(1.0, 1e-6, "replace"))
    assert chain_cost(release, ChainBudget(1.0, 0.0, "replace")).delta == 0.0
    cycle = TrajectoryRelease(chain=MarkovChain.from_matrix([[0.0, 1.0], [1.0, 0.0]]), epsilon=1, rho=1)
    assert "any number of records" in chain_cost(cycle, ChainBudget(1.0, 0.0, "replace"))
    assert chain_cost(cycle, ChainBudget(1.0, 0.0, "replace-person")).changes == 1


def test_a_ledger_is_charged_for_the_group_or_refuses(call, tmp_path):
    import json

    ledger = tmp_path / "ledger.json"
    account = ("--ledger", ledger, "--data-set", "walks", "--budget-epsilon", "9", "--budget-delta", "1e-3")
    chain = ("--chain-epsilon", "0.5", "--chain-delta", "1e-6")
    code, out, reply = call(b"A\n", *account, *chain)
    assert (code, out) == (2, b"")
    assert "The chain has no finite charge" in reply
    assert not ledger.exists()
    code, _, reply = call(b"A\n", *account, *chain, "--chain-adjacency", "replace")
    assert code == 0, reply
    stored = json.loads(ledger.read_text())["releases"]
    assert [release["epsilon"] for release in stored] == [1.5, 1.0]
    assert stored[0]["delta"] == pytest.approx(1e-6 * math.expm1(1.5) / math.expm1(0.5), rel=2e-5)
    assert "for any record replaced by any other" in stored[0]["what"]
