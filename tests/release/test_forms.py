"""Parameters as they are used: rationals on the safe side, whole weights, prices that are right."""

from fractions import Fraction

import numpy as np
import pytest

from dpjax._rationals import rounded_down, rounded_up, verified
from dpjax.counts import PseudocountMechanism
from dpjax.counts.dirichlet import ExactDirichlet
from dpjax.counts.postprocess import dirichlet_error, laplace_error, pseudocount_error, reference_shares, uniform_error
from dpjax.counts.pseudocount import ExactPseudocount
from dpjax.simplex import MatrixMechanism, PublicRows
from tests.release.conftest import form_of


@pytest.mark.parametrize("x", [1e-9, 0.1, 1.0, 0.4720736894674178, 12345.678, 1e18])
def test_rationals_lie_on_their_side_and_are_held_exactly(x):
    down, up = rounded_down(x), rounded_up(x)
    assert Fraction(x) * (1 - Fraction(1, 2**11)) < down <= Fraction(x)
    assert Fraction(x) <= up < Fraction(x) + Fraction(1, 1024)
    assert Fraction(float(down)) == down


def test_verified_steps_down_to_where_the_target_holds():
    limit = float(rounded_down(0.3)) * (1 - 2**-11)
    found = verified(0.3, lambda s: s <= limit, "scale")
    assert float(found) <= limit
    assert float(found) > limit * (1 - 2**-10)
    with pytest.raises(ValueError, match="No rational slightly below"):
        verified(0.3, lambda s: False, "scale")


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.2, 0.01), (8.0, 1e-9)])
def test_the_pair_that_is_used_meets_the_target_and_wastes_little(epsilon, delta, adjacency):
    form = form_of("pseudocount", epsilon=epsilon, delta=delta, adjacency=adjacency, cells=20, row_records=300)
    assert float(form.mechanism.exact_delta(epsilon)) <= delta
    best = PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=float(form.pseudocount), adjacency=adjacency)
    assert 1 - 2**-10 < float(form.scale) / best.scale <= 1


def test_parameters_that_spend_more_are_refused():
    form = form_of("pseudocount", epsilon=1.0, delta=0.02, cells=3, row_records=50)
    with pytest.raises(ValueError, match="spend"):
        ExactPseudocount(epsilon=1.0, delta=0.02, scale=form.scale * Fraction(17, 16), pseudocount=form.pseudocount)
    with pytest.raises(ValueError, match="rationals that a float holds exactly"):
        ExactPseudocount(epsilon=1.0, delta=0.02, scale=Fraction(1, 3), pseudocount=form.pseudocount)
    with pytest.raises(ValueError, match="raise pseudocount"):
        form_of("pseudocount", epsilon=1.0, delta=1e-6, cells=3, row_records=50, pseudocount=2.0)


def test_alpha_is_the_best_of_those_near_it_for_the_planned_row():
    form = form_of("pseudocount", epsilon=1.0, delta=1e-6, cells=30, row_records=2000)
    chosen = form.expected_error(2000, 30)
    for factor in (0.6, 2.0):
        other = form_of(
            "pseudocount",
            epsilon=1.0,
            delta=1e-6,
            cells=30,
            row_records=2000,
            pseudocount=max(10.8, float(form.pseudocount) * factor),
        )
        assert chosen <= other.expected_error(2000, 30)


def test_whole_weights_are_the_shapes():
    form = form_of("pseudocount", epsilon=1.0, delta=0.02, cells=3, row_records=50)
    counts = [0, 7, 2**63 - 1]
    urn = form.urn(0, counts)
    shapes = [Fraction(w, urn.unit) for w in urn.weights]
    assert shapes == [form.scale * (c + form.pseudocount) for c in counts]


def test_the_papers_form_has_the_papers_shapes_and_its_exact_privacy():
    form = ExactDirichlet(epsilon=2.0, delta=1e-3, eta=0.05).fitted([98, 0, 400, 30], np.array([5, 5, 5, 1]))
    assert [k == 0 for k in form.concentrations] == [False, True, False, True]
    assert form.urn(1, [0] * 5) is None
    urn = form.urn(0, [39, 29, 15, 8, 7])
    assert sum(Fraction(w, urn.unit) for w in urn.weights) == form.concentrations[0]
    assert Fraction(urn.weights[0], urn.unit) == form.concentrations[0] * Fraction(39, 98)
    rows = PublicRows(n_records=np.array([98.0, 400.0]), support=np.ones((2, 5), bool), eta=np.full(2, 0.05))
    used = MatrixMechanism(rows=rows, k=np.array([float(form.concentrations[0]), float(form.concentrations[2])]))
    assert float(used.exact_delta(2.0)) <= 1e-3
    best = MatrixMechanism.calibrate(rows=rows, epsilon=2.0, delta=1e-3)
    assert np.all(np.asarray(used.k) >= best.k * (1 - 2**-10))
    with pytest.raises(ValueError, match="Pass a floor above 0"):
        ExactDirichlet(epsilon=2.0, delta=1e-3, eta=0.9)


@pytest.mark.statistical
def test_the_expected_errors_are_those_of_draws():
    """Within five standard errors of 40,000 draws; twice the scale is far outside."""
    shares = reference_shares(7)
    shapes = 0.3 * (40 * shares + 2.0)
    drawn = 0.5 * np.abs(np.random.default_rng(3).dirichlet(shapes, 40_000) - shares).sum(axis=1)
    allowed = 5 * drawn.std() / 200
    assert abs(dirichlet_error(shapes, shares) - drawn.mean()) < allowed
    assert abs(dirichlet_error(2 * shapes, shares) - drawn.mean()) > 4 * allowed
    assert pseudocount_error(40, 7, 0.3, 2.0) == dirichlet_error(shapes, shares)


def test_limits_of_the_reference_errors():
    assert laplace_error(1e9, 10, 1.0, 2) < 1e-6
    assert pseudocount_error(1e9, 10, 1.0, 10.0) < 1e-3
    assert abs(pseudocount_error(1e-6, 10, 1e6, 10.0) - uniform_error(10)) < 1e-3
    assert laplace_error(1000, 10, 1.0, 1) < laplace_error(1000, 10, 1.0, 2)
