"""The whole release audited from a file to the draws, at the plan's own number of draws, without checks of annotations, as installed.

`pytest -m slow -rP tests/release/test_long_audits.py` shows what the draws proved.
"""

import pytest

from tests.release.auditing import (
    APPEARING_DRAWS,
    APPEARS,
    DELTA,
    EPSILON,
    ONE_MORE,
    PAIRS,
    UNBOUNDED,
    about_the_threshold,
    as_it_was,
    bound,
    from_a_file,
    optimum,
    plan_of,
    quiet,
    replaced_under_adding,
    selected_bound,
    thirty,
)
from tests.unchecked import as_a_user_has_it  # noqa: F401

pytestmark = pytest.mark.slow
# Releases of each database: half of an optimum lies 4.4 standard deviations or more below the mean of audits of the exact laws.
AUDITED = 50_000


def reply(name, proved, best=None):
    """What the draws proved."""
    print(f"{name}: epsilon is at least {proved:.3f}" + ("" if best is None else f"; at most {best:.3f} could be proved"))
    return proved


@pytest.mark.parametrize("name", PAIRS)
def test_every_kind_of_replacement_stays_under_the_claim(name, tmp_path):
    """From a file to the release at the plan's own number of draws a row (658), under the very optimum of each pair, and above a half of it.

    Each fails with probability under 1e-4 above, and about 1e-5 below.
    """
    plan = plan_of(draws=None)
    best = optimum(plan, *PAIRS[name])
    assert best <= EPSILON
    assert 0.5 * best < reply(name, bound(plan, *PAIRS[name], AUDITED, draw=from_a_file(plan, tmp_path)), best) <= best


@pytest.mark.parametrize("name", PAIRS)
def test_every_kind_of_replacement_with_private_selection(name, tmp_path):
    """The same with the support found privately (706 draws a row)."""
    plan = plan_of("private", draws=None)
    assert reply(name, selected_bound(plan, *PAIRS[name], 20_000, draw=from_a_file(plan, tmp_path))) <= EPSILON


@pytest.mark.parametrize("name", ONE_MORE)
def test_adding_and_removing_a_record(name, tmp_path):
    """508 draws a row, under the optimum and above a half of it."""
    plan = plan_of(adjacency="add-remove", draws=None)
    best = optimum(plan, *ONE_MORE[name])
    assert best <= EPSILON
    assert 0.5 * best < reply(name, bound(plan, *ONE_MORE[name], AUDITED, draw=from_a_file(plan, tmp_path)), best) <= best


@pytest.mark.parametrize("name", ONE_MORE)
def test_adding_and_removing_a_record_with_private_selection(name, tmp_path):
    plan = plan_of("private", "add-remove", draws=None)
    assert reply(name, selected_bound(plan, *ONE_MORE[name], 20_000, draw=from_a_file(plan, tmp_path))) <= EPSILON


def test_the_audit_sees_most_of_what_is_spent():
    """At the worst pair the bound comes within a half of the claim, so that a pass says something."""
    assert reply("within a row", bound(plan_of(draws=None), *PAIRS["within a row"], 60_000)) > 0.5 * EPSILON


# The delta of private supports, by a fixed event: `auditing` has the parameters, the chances of each event and the power. Each right release fails
# with probability under 1e-4, each faulty one passes with probability under 1e-6.


def spent(name, proved):
    """The delta that the draws proved at the claimed epsilon."""
    print(f"{name}: delta is at least {proved:.4f}, claimed {DELTA}")
    return proved


@pytest.mark.parametrize("name", APPEARS)
def test_records_that_appear_cost_a_private_support_no_more_than_delta(name, tmp_path):
    """From a file; and the old threshold, drawn the same way, is caught."""
    case, n = APPEARS[name], APPEARING_DRAWS[name]
    assert spent(name, case.proved(n, draw=from_a_file(case.plan, tmp_path))) <= DELTA
    old = as_it_was(case.plan)
    assert spent(f"{name}, old threshold", case.proved(n, draw=from_a_file(old, tmp_path))) > DELTA


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_counts_about_the_threshold_cost_a_private_support_no_more_than_epsilon(adjacency, tmp_path):
    """From a file; and half the noise is caught."""
    case = about_the_threshold(adjacency)
    assert spent(adjacency, case.proved(4000, draw=from_a_file(case.plan, tmp_path))) <= DELTA
    assert spent(f"{adjacency}, half the noise", case.proved(4000, draw=from_a_file(quiet(case.plan), tmp_path))) > DELTA


def test_the_claim_that_an_add_remove_release_hides_what_is_replaced_is_caught(tmp_path):
    """Statements of earlier versions said so: as if the record had been another, within e^epsilon."""
    case = replaced_under_adding()
    assert spent("replaced, add-remove claimed", case.proved(4000, draw=from_a_file(case.plan, tmp_path))) > DELTA


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_an_unbounded_person_is_caught_in_a_private_support_from_a_file(adjacency, tmp_path):
    """All thirty records are in the file: bounded while it is read they cost no more than delta, counted whole they do."""
    case = thirty(adjacency)
    draw = from_a_file(case.plan, tmp_path)
    assert spent(f"person, {adjacency}", case.proved(2000, draw=draw, bound=UNBOUNDED)) <= DELTA
    assert spent(f"person, {adjacency}, unbounded", case.proved(2000, bound=UNBOUNDED)) > DELTA
