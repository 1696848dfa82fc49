"""Private supports audited, the short form: a right one stays under its claim, and the faults that `auditing` lists are caught."""

import pytest

from tests.release.auditing import (
    APPEARING_DRAWS,
    APPEARS,
    DELTA,
    UNBOUNDED,
    about_the_threshold,
    as_it_was,
    quiet,
    replaced_under_adding,
    thirty,
)
from tests.unchecked import as_a_user_has_it  # noqa: F401


def test_the_old_threshold_is_caught_and_the_new_one_is_not():
    """One record a to b against none, epsilon 2, share .9, 3,000 releases; failure rate 1e-4, power 1 - 1e-6."""
    case = APPEARS["a record is added"]
    assert case.proved(3000) <= DELTA < case.proved(3000, as_it_was(case.plan))


def test_half_the_noise_of_a_private_support_is_caught():
    """T records a to b against T - 1, 1,000 releases; failure rate 1e-4, power 1 - 1e-6."""
    case = about_the_threshold("add-remove")
    assert case.proved(1000) <= DELTA < case.proved(1000, quiet(case.plan))


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_an_unbounded_person_is_caught_in_a_private_support(adjacency):
    """Thirty records where three are kept, 500 releases; failure rate 1e-4, power 1 - 1e-6."""
    case = thirty(adjacency)
    assert case.proved(500) <= DELTA < case.proved(500, bound=UNBOUNDED)


def test_the_audits_of_private_supports_have_the_power_they_say():
    """By the exact law of each event: right releases prove nothing, faulty ones more than delta, except with probability 1e-6."""
    for name, case in APPEARS.items():
        n = 3000 if name == "a record is added" else APPEARING_DRAWS[name]
        assert case.surely(n, case.plan.selection) <= DELTA < case.surely(n, as_it_was(case.plan).selection)
        assert case.chances(case.plan.selection)[0] == pytest.approx(case.plan.selection.delta_spent)
    for adjacency, n in (("replace", 4000), ("add-remove", 1000)):
        case = about_the_threshold(adjacency)
        assert case.surely(n, case.plan.selection) <= DELTA < case.surely(n, quiet(case.plan).selection)
        person = thirty(adjacency)
        assert person.surely(500, person.plan.selection) <= DELTA < person.surely(500, person.plan.selection, UNBOUNDED)
    claim = replaced_under_adding()
    assert claim.surely(4000, claim.plan.selection) > DELTA
