"""Classes and periods, against what they are by eye and by powers of the matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpjax.chains import closed_classes, communicating_classes, is_irreducible, largest_class, period, transient_states

P = np.array([[0, 1, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1.0]])


def as_lists(classes):
    return [c.tolist() for c in classes]


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
def test_classes_by_eye(form):
    given_matrix = form(P)
    assert as_lists(communicating_classes(given_matrix)) == [[0, 1], [2, 3], [4]]
    assert as_lists(closed_classes(given_matrix)) == [[2, 3], [4]]
    assert transient_states(given_matrix).tolist() == [0, 1]
    assert largest_class(given_matrix).tolist() == [0, 1]  # a tie, by smallest index
    assert not is_irreducible(given_matrix)


def test_a_stored_zero_is_no_edge():
    stored = sparse.csr_array((np.array([1.0, 0.0, 1.0]), (np.array([0, 0, 1]), np.array([1, 0, 0]))), shape=(2, 2))
    assert period(stored) == 2


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 6).flatmap(lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)))
def test_classes_and_period_against_powers(rows):
    edges = np.array(rows)
    n = len(edges)
    reach = np.linalg.matrix_power(edges.astype(object) + np.eye(n, dtype=int), n) > 0
    expected = {tuple(np.flatnonzero(reach[i] & reach[:, i])) for i in range(n)}
    assert {tuple(c) for c in as_lists(communicating_classes(edges))} == expected
    assert {tuple(c) for c in as_lists(closed_classes(edges))} == {c for c in expected if not np.delete(reach[c[0]], c).any()}
    if len(expected) == 1 and edges.any():
        power, returns = np.eye(n, dtype=bool), []
        for t in range(1, 3 * n * n):
            power = (power.astype(int) @ edges) > 0
            returns += [t] if power[0, 0] else []
        assert period(edges) == np.gcd.reduce(returns)


def test_period_of_a_reducible_chain_is_refused():
    with pytest.raises(ValueError, match="number of classes is 3"):
        period(P)
