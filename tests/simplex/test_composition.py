"""Composition against the closed form for one release, quadrature for two, and Rényi divergences for many."""

import builtins

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import privacy_loss_distribution as plds
from scipy.special import betainc, betaln, expit

from dpjax.counts import PseudocountMechanism, composed_delta, composed_epsilon
from dpjax.counts.composition import privacy_loss_distribution, release_accountant, release_event
from dpjax.simplex import DirichletMechanism, MatrixMechanism, PublicRows
from tests.simplex import reference as ref

GRID = 1e-2
M = DirichletMechanism(k=ref.K, **ref.GRADES)
A, H = ref.K * ref.GRADES["eta"], ref.K / ref.GRADES["n_records"]
EPSILON = np.array([0.0, 0.5, 1.0, 1.0043, 1.41483, 2.255])


def test_one_release_is_the_closed_form_within_its_grid():
    # at the grid's points it is the curve itself, between them above it by the second order of the grid; never below
    exact, composed = M.exact_delta(EPSILON), composed_delta([(M, 1)], EPSILON, grid=GRID)
    assert (composed >= exact).all()
    on_grid = np.abs(EPSILON / GRID - np.round(EPSILON / GRID)) < 1e-9
    np.testing.assert_allclose(composed[on_grid], exact[on_grid], rtol=1e-8, atol=2e-12)
    np.testing.assert_allclose(composed, exact, rtol=2e-3)
    assert 1.41482 < composed_epsilon([(M, 1)], 1e-5, grid=GRID) < 1.41483 + 2 * GRID**2


def test_the_closed_form_lies_within_dp_accountings_own_discretisation():
    # the loss h logit(u), u ~ Beta(a + h, a), rounded up and down to a grid by dp-accounting from its distribution function alone
    def distribution(loss):
        return float(betainc(A + H, A, expit(loss / H)))

    above, below = (
        plds.create_from_cdf(distribution, up, value_discretization_interval=GRID, tail_mass_truncation=1e-12)
        for up in (True, False)
    )
    exact = M.exact_delta(EPSILON)
    assert (np.asarray(above.get_delta_for_epsilon(EPSILON)) >= exact).all()
    assert (np.asarray(below.get_delta_for_epsilon(EPSILON)) <= exact).all()
    later = EPSILON + GRID
    assert (np.asarray(above.get_delta_for_epsilon(later)) - 2e-12 <= exact).all()
    assert (np.asarray(below.get_delta_for_epsilon(EPSILON[1:] - GRID)) + 2e-12 >= exact[1:]).all()


def two_releases(epsilon, a, h, points=6000):
    """delta of two releases, by the trapezoid rule over the logit of the first: sum of f(x) delta_1(epsilon - h x)."""
    x = np.linspace(-40 / a, 40 / a, points)
    density = np.exp(-(a + h) * np.logaddexp(0, -x) - a * np.logaddexp(0, x) - betaln(a + h, a))
    rest = epsilon - h * x
    q = expit(-rest / h)
    inner = betainc(a, a + h, q) - np.exp(rest) * betainc(a + h, a, q)
    return float((density * inner).sum() * (x[1] - x[0]))


def test_two_releases_against_quadrature():
    for epsilon in (0.5, 1.0, 2.0):
        truth = two_releases(epsilon, A, H)
        coarse, fine = (composed_delta([(M, 2)], epsilon, grid=grid) - 1e-12 for grid in (1e-2, 5e-3))
        assert truth < fine < coarse < truth * (1 + 5e-4)
        assert 3.9 < (coarse - truth) / (fine - truth) < 4.1  # of second order in the grid


def test_below_renyi_and_above_a_single_release():
    alpha = np.linspace(1.05, 8.1, 300)
    renyi = M.renyi(alpha)
    for count in (2, 8, 32):
        converted = (count * renyi + np.log1p(-1 / alpha) - (np.log(1e-5) + np.log(alpha)) / (alpha - 1)).min()
        composed = composed_epsilon([(M, count)], 1e-5, grid=GRID)
        assert M.exact_epsilon(1e-5) < composed < converted
        assert composed < count * M.exact_epsilon(1e-5 / count)  # and below adding up


def test_a_coarser_grid_is_more_pessimistic():
    values = [composed_delta([(M, 4)], 2.0, grid=grid) for grid in (1e-1, 1e-2)]
    assert values[0] > values[1]


def test_different_mechanisms_compose_in_any_order():
    other = PseudocountMechanism(scale=0.2, pseudocount=8.0)
    one = composed_delta([(M, 2), (other, 1)], 1.5, grid=GRID)
    np.testing.assert_allclose(one, composed_delta([(other, 1), (M, 2)], 1.5, grid=GRID), rtol=1e-9)
    assert one > max(composed_delta([(M, 2)], 1.5, grid=GRID), composed_delta([(other, 1)], 1.5, grid=GRID))


def test_a_matrix_composes_as_its_weakest_row():
    support = np.ones((2, 5), bool)
    rows = PublicRows(n_records=np.array([98.0, 98.0]), support=support, eta=np.array([0.073, 0.073]))
    matrix = MatrixMechanism(rows=rows, k=np.array([ref.K, 5.0]))
    np.testing.assert_allclose(composed_delta([(matrix, 3)], 1.5, grid=GRID), composed_delta([(M, 3)], 1.5, grid=GRID), rtol=1e-6)


def test_events_and_the_accountant():
    accountant = release_accountant(grid=GRID)
    accountant.compose(ComposedDpEvent([release_event(M, 2), SelfComposedDpEvent(release_event(M), 2)]))
    np.testing.assert_allclose(accountant.get_delta(2.0), composed_delta([(M, 4)], 2.0, grid=GRID), rtol=1e-6)
    accountant.compose(GaussianDpEvent(4.0))
    assert accountant.get_delta(2.0) > composed_delta([(M, 4)], 2.0, grid=GRID)
    assert accountant.get_epsilon(1e-5) > composed_epsilon([(M, 4)], 1e-5, grid=GRID)
    other = PseudocountMechanism(scale=0.2, pseudocount=8.0, adjacency="add-remove")
    assert not accountant.supports(release_event(other))
    assert release_accountant("add-remove", grid=GRID).supports(release_event(other, 3))


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("dp_accounting"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'dpjax\[accounting\]'"):
        privacy_loss_distribution(M)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: composed_delta([], 1.0), "one release or more"),
        (lambda: composed_delta([(M, 0)], 1.0), "count is 0"),
        (lambda: composed_delta([(M, 1)], -1.0), "at least 0"),
        (lambda: composed_epsilon([(M, 1)], 1e-13), "pass 1e-11 or more"),
        (lambda: privacy_loss_distribution(M, grid=0.0), "grid is 0.0"),
        (lambda: privacy_loss_distribution(M, grid=1e-6), "coarser grid"),
        (lambda: release_event(M, 0), "count is 0"),
        (lambda: release_accountant("swap"), "adjacency is 'swap'"),
        (
            lambda: composed_delta([(M, 1), (PseudocountMechanism(scale=1.0, pseudocount=1.0, adjacency="add-remove"), 1)], 1.0),
            "under one adjacency",
        ),
    ],
)
def test_bad_calls(call, words):
    with pytest.raises(ValueError, match=words):
        call()
