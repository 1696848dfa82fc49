"""The search for false claims: a few cases of every kind hold, the referee agrees with itself in a second way, and a false claim is seen."""

import json
from fractions import Fraction

import pytest

from benchmarks.claims import __main__ as command
from benchmarks.claims import cases, rationals, referee
from benchmarks.claims.cases import Case
from benchmarks.claims.kinds import KINDS

mp = referee.mp


@pytest.mark.parametrize("kind", KINDS)
def test_claims_hold_in_a_few_cases(kind):
    held = 0
    for number in range(100, 160):
        case, _ = command.run(kind, 0, number)
        assert not case.findings, cases.as_json(case.findings[0])
        held += case.held
        if held >= 3:
            break
    assert held


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("trajectory", 47),
        ("trajectory", 453),
        ("private-support", 22),
        ("theorem1", 314),
        ("deviation", 2),
        ("stationary-elasticity", 18),
    ],
)
def test_a_case_that_once_found_something_finds_nothing(kind, number):
    """Of the hour's search with seed 1: claims that were false, and checks that asked more than is claimed."""
    case, how = command.run(kind, 1, number)
    assert how == "judged"
    assert not case.findings, cases.as_json(case.findings[0])


@pytest.mark.parametrize(("epsilon", "shape", "step"), [(1.0, 2.3, 0.5), (3.0, 50.0, 1.0), (1e-3, 1e7, 100.0)])
def test_the_referee_agrees_with_its_second_way(epsilon, shape, step):
    cell = [(shape, step)]
    pairs = [
        (referee.beta_pair(epsilon, shape, shape, step), referee.spread(epsilon, cell, cell)),
        (referee.gamma_pair(epsilon, shape, step), referee.spread(epsilon, cell, [])),
        (referee.gamma_pair(epsilon, shape, step, back=True), referee.spread(epsilon, [], cell)),
    ]
    for one, other in pairs:
        assert abs(one / other - 1) < 1e-15


def test_the_referee_sees_a_step_in_a_wide_density():
    # a shape of 3e-5 is flat over 1e5 nats, and the loss turns within 0.04 of them
    a, h, epsilon = mp.mpf("2.657e-5"), mp.mpf("26.57"), mp.mpf("1e-6")
    edge = mp.exp(-(epsilon + mp.loggamma(a) - mp.loggamma(a + h)) / h)
    closed = mp.gammainc(a, 0, edge, regularized=True) - mp.exp(epsilon) * mp.gammainc(a + h, 0, edge, regularized=True)
    assert abs(referee.gamma_pair(epsilon, a, h, back=True) / closed - 1) < 1e-15


@pytest.mark.parametrize(("moved", "two_cells"), [(1, True), (2, True), (1, False), (3, False)])
def test_gaussian_noise_by_every_outcome(moved, two_cells):
    v, epsilon, reach = mp.mpf("0.7"), mp.mpf("0.4"), 25
    total = sum(mp.exp(-(mp.mpf(i) ** 2) / (2 * v)) for i in range(-reach, reach + 1))

    def p(i):
        return mp.exp(-(mp.mpf(i) ** 2) / (2 * v)) / total

    whole, factor = range(-reach, reach + 1), mp.exp(epsilon)
    if two_cells:
        terms = (p(i) * p(j) - factor * p(i - moved) * p(j + moved) for i in whole for j in whole)
    else:
        terms = (p(i) - factor * p(i - moved) for i in whole)
    assert abs(referee.gaussian_delta(0.4, 0.7, moved, two_cells) - sum(max(t, mp.zero) for t in terms)) < 1e-15


def test_a_chance_below_the_last_digit_is_kept():
    # counts 2 and 1 against 1 and 2 at threshold 2: the loss is 2/scale and no more, so that nothing is left at epsilon = 2/scale
    scale = Fraction(1, 150)
    passes = [referee.laplace_tail(scale, 2 - count) for count in (2, 1)]
    assert referee.bernoulli_products(300, passes, passes[::-1]) < 1e-40


def test_wide_gaussian_tails_by_summing():
    v = mp.mpf(5400)
    summed = sum(mp.exp(-(mp.mpf(d) ** 2) / (2 * v)) for d in range(400, 2500)) / mp.sqrt(2 * mp.pi * v)
    assert abs(referee._smooth_tail(v, 400) / summed - 1) < 1e-25


def test_the_group_inverse_in_fractions():
    Q = rationals.generator([[0.5, 0.5], [0.25, 0.75]])
    pi = rationals.stationary(Q)
    assert pi == [Fraction(1, 3), Fraction(2, 3)]
    assert rationals.group_inverse(Q, pi) == [[Fraction(8, 9), Fraction(-8, 9)], [Fraction(-4, 9), Fraction(4, 9)]]


def test_a_false_claim_and_a_call_that_does_not_end_are_findings(monkeypatch, tmp_path):
    def for_ever():
        while True:
            pass

    def false(case):
        case.spread("epsilon", 1e-6, 1e5)
        case.at_most("two is at most one", 2, 1)
        case.call("the loop", for_ever)

    monkeypatch.setattr(cases, "CALL_S", 0.05)
    monkeypatch.setattr(command, "KINDS", {"false": false})
    summary = command.search(["false"], 0, 0.3, tmp_path / "out.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {line["claim"] for line in lines[:-1]} == {"two is at most one", "the loop ends"}
    assert lines[-1]["summary"] == summary
    assert summary["kinds"]["false"]["findings"] == len(lines) - 1
    again = Case("false", 0, lines[0]["number"])
    assert again.spread("epsilon", 1e-6, 1e5) == lines[0]["parameters"]["epsilon"]
