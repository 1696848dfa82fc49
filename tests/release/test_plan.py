"""A release from a plan: what is public stays a function of the plan, what is drawn has the row's law."""

import inspect
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from dpjax.release import Plan, RecordError, Records
from dpjax.release.model import LARGEST_TOTAL, resolution, smoothed, supported_totals
from dpjax.release.plan import build
from dpjax.release.statement import Statement
from tests.release.conftest import LABELS, records_of


def test_rows_have_the_mean_and_the_law_of_theorem_7(plan, records):
    """KS against Beta at the plan's shapes, failure rate 1e-6 a row; the law with counts forgotten is rejected."""
    from scipy.stats import betabinom

    form = plan.form
    drawn = np.array([plan.draw(records).draws for _ in range(1000)])
    assert (drawn.sum(axis=2) == plan.draws).all()
    s, alpha = float(form.scale), float(form.pseudocount)
    for i, j, count, total in ((0, 0, 40, 43), (1, 2, 0, 0), (2, 2, 900, 905)):
        a, rest = s * (count + alpha), s * (total - count + 2 * alpha)
        law = betabinom(plan.draws, a, rest)
        jitter = np.random.default_rng(0).random(1000)
        below = law.cdf(drawn[:, i, j] - 1)
        assert kstest(below + jitter * (law.cdf(drawn[:, i, j]) - below), "uniform").pvalue > 1e-6
    forgotten = betabinom(plan.draws, s * alpha, 2 * s * alpha)
    assert kstest(forgotten.cdf(drawn[:, 0, 0]), "uniform").pvalue < 1e-6


def test_probabilities_are_positive_on_the_support_and_sum_to_one(plan, records):
    model = plan.draw(records)
    assert np.allclose(model.probabilities.sum(axis=1), 1, atol=1e-15)
    assert (model.probabilities > 0).all()
    m = plan.draws
    assert model.probabilities[0, 0] == pytest.approx((model.draws[0, 0] + 0.5) / (m + 1.5), rel=1e-15)
    mask = np.array([[True, False], [True, True]])
    assert smoothed(np.array([[0, 0], [3, 0]]), mask).tolist() == [[1.0, 0.0], [7 / 8, 1 / 8]]


def test_records_outside_a_public_support_are_left_out():
    mask = np.array([[True, True, False], [False, False, True], [True, True, True]])
    plan = Plan.make(LABELS, epsilon=1.0, delta=0.02, support=mask, row_records=50)
    model = plan.draw(records_of([[5, 5, 10**6], [7, 7, 7], [0, 0, 0]]))
    assert not model.draws[~mask].any()
    assert model.probabilities[1].tolist() == [0.0, 0.0, 1.0]
    assert (model.probabilities[~mask] == 0).all()
    assert supported_totals({(0, 2): 9, (0, 0): 4, (1, 2): 3}, mask) == [4, 3, 0]


def test_no_data_value_is_refused(plan):
    hard = ([[0] * 3] * 3, [[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[2**63 - 1] * 3, [0] * 3, [1, 0, 2**80]])
    for matrix in hard:
        assert plan.draw(records_of(matrix)).draws.sum() == 3 * plan.draws


def test_the_statement_is_a_function_of_the_plan_and_holds_nothing_else(plan, records):
    before = plan.statement()
    plan.draw(records)
    assert plan.statement() == before
    assert not {"counts", "records", "model", "draw"} & set(inspect.signature(build).parameters) - {"draws"}
    words = " ".join(str(Statement(before)).split())
    for said in ("replacing any one record", "persons are not", "epsilon", "scale exactly", "random source", "draws a row"):
        assert said in words
    assert before["scale_exactly"] == str(plan.form.scale)
    assert Fraction(before["pseudocount_exactly"]) == plan.form.pseudocount


def test_a_private_support_takes_its_share_and_no_more():
    plan = Plan.make(LABELS, epsilon=1.1, delta=0.03, support="private", share=0.3, row_records=50)
    assert Fraction(plan.form.epsilon) + Fraction(plan.selection.epsilon) <= Fraction(1.1)
    assert Fraction(plan.form.delta) + Fraction(plan.selection.delta) <= Fraction(0.03)
    assert plan.form.epsilon + plan.selection.epsilon == pytest.approx(1.1)
    model = plan.draw(records_of([[9000, 0, 0], [0, 0, 0], [0, 8000, 8000]]))
    assert model.support.tolist() == [[True, False, False], [True, True, True], [False, True, True]]
    statement = plan.statement()
    assert statement["epsilon"] == 1.1
    assert statement["selection_threshold"] == plan.selection.threshold
    assert "opendp" not in statement["versions"]
    assert statement["selection_delta_spent"] == plan.selection.delta_spent <= plan.selection.delta
    assert statement["selection_scale_exactly"] == str(plan.selection.scale)


def test_the_papers_form_only_by_choice_with_what_it_assumes():
    plan = Plan.make(LABELS, epsilon=3.0, delta=0.01, form="paper", eta=0.1)
    model = plan.draw(records_of([[50, 30, 20], [0, 0, 0], [400, 300, 0]]))
    assert model.draws[1].sum() == 0
    assert model.probabilities[1].tolist() == [1 / 3] * 3
    assert model.draws[2, 2] == 0
    words = " ".join(str(plan.statement()).split())
    for said in ("how many records each row holds", "every share of every row is at least 0.1", "was not checked"):
        assert said in words
    for wrong in ({"eta": None}, {"eta": 0.1, "adjacency": "add-remove"}, {"eta": 0.1, "support": "private"}):
        with pytest.raises(ValueError, match=r"eta|adjacency|support"):
            Plan.make(LABELS, epsilon=3.0, delta=0.01, form="paper", **wrong)


def test_the_price_needs_no_data(plan):
    lines = "\n".join(plan.price())
    assert f"{3 * float(plan.form.pseudocount):,.0f} pseudo-records" in lines
    assert "discrete Laplace" in lines
    assert "Coarser states" in lines
    assert f"{plan.draws:,} draws per row" in lines


def test_the_resolution_is_public_and_bounded():
    assert resolution(np.array([50.0, 1.0])).tolist() == [1000, 100]
    assert resolution(np.full(1000, 1e12)).tolist() == [LARGEST_TOTAL // 1000] * 1000


def test_a_failure_while_drawing_says_nothing_of_the_records(plan):
    for pair, count in (((0, 0), "Xyzzy4711"), ((0, 0), -4711), ((0, 4711), 1), ((0, 0), 0.4711)):
        broken = Records()
        broken.counts[pair] = count
        with pytest.raises(RecordError) as caught:
            plan.draw(broken)
        assert "4711" not in str(caught.value)


def test_numpy_counts_do_not_overflow(plan):
    huge = Records()
    huge.counts[0, 1] = np.int64(2**63 - 1)
    assert plan.draw(huge).draws[0, 1] > 0.9 * plan.draws


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": 0}, {"epsilon": float("nan")}, {"delta": 0}, {"delta": 1}, {"row_records": -1}, {"row_cells": 9}, {"draws": 0}],
)
def test_wrong_calls_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Plan.make(LABELS, **{"epsilon": 1.0, "delta": 0.01, **wrong})
