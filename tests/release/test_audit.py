"""The whole release audited on adjacent databases: what draws prove about epsilon stays under the claim, and faults are caught."""

import dataclasses

import numpy as np
import pytest

from tests.release.auditing import EPSILON, PAIRS, bound, optimum, plan_of, selected_bound


def test_a_leaky_scale_is_caught_and_the_plan_is_not():
    """The same plan drawn with 64 times its scale breaks the claim, by far (2.2 to 2.4 in five tries); itself it does not (failure rate 1e-4)."""
    plan = plan_of()
    first, second = PAIRS["within a row"]
    loud = object.__new__(type(plan.form))
    loud.__dict__.update({**plan.form.__dict__, "scale": 64 * plan.form.scale})
    wrong = dataclasses.replace(plan, form=loud)
    assert bound(plan, first, second, 3000) <= EPSILON
    assert bound(wrong, first, second, 10_000) > EPSILON


def test_a_support_read_off_the_data_is_caught():
    """The tempting variant: allow what was seen, and no more."""
    plan = plan_of()
    first, second = PAIRS["a transition appears"]

    def leaky(records):
        seen = np.zeros((2, 2), dtype=bool)
        for pair in records.counts:
            seen[pair] = True
        return dataclasses.replace(plan, support=seen).draw(records)

    assert selected_bound(plan, first, second, 400, draw=leaky) > 2 * EPSILON


def test_private_selection_is_audited_with_the_draws():
    plan = plan_of("private")
    assert selected_bound(plan, *PAIRS["a transition appears"], 1000) <= EPSILON


@pytest.mark.parametrize("name", PAIRS)
def test_what_a_pair_can_show_is_under_the_claim_and_more_with_more_draws(name):
    """Exactly, without drawing: at delta .05 the draws of each pair spend less than epsilon, and more at the plan's M than at 150."""
    few, own = (optimum(plan_of(draws=m), *PAIRS[name]) for m in (150, None))
    assert few < own <= EPSILON
