"""Faults at the surface: rounding of rationals, pytrees with wrong leaves, concrete numbers inside a trace, traced numbers out of range."""

from fractions import Fraction

import jax
import numpy as np
import pytest

from dpjax import counts, simplex
from dpjax._errors import InputError
from dpjax._rationals import float_up

KEY = jax.random.key(0)
GRADES = {"eta": 0.073, "n_records": 98, "n_categories": 5}
C5 = np.full(5, 0.2)
TABLE = np.array([[70, 20, 10], [30, 40, 0]])


@pytest.mark.parametrize("epsilon", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 7), Fraction(10, 3), Fraction(1, 4)])
def test_a_rational_epsilon_is_stated_no_smaller_than_it_is(epsilon):
    m = counts.DiscreteLaplaceMechanism(epsilon=epsilon)
    stated = m.exact_epsilon()
    assert isinstance(stated, float)
    assert epsilon <= Fraction(stated) == Fraction(float_up(epsilon)) <= epsilon * (1 + Fraction(1, 2**52))
    assert m.exact_delta(stated) == 0.0
    assert isinstance(m.scale, float)
    assert Fraction(m.scale) >= 2 / epsilon
    assert m.pmf(40).sum() > 0.9
    assert np.isfinite(m.privatize(KEY, TABLE)).all()
    sampler = counts.mechanism("laplace").calibrate(epsilon=0.3, adjacency="add-remove").exact_sampler(epsilon=0.3, delta=0.0)
    assert Fraction(sampler.mechanism.exact_epsilon()) >= 1 / sampler.parameter


def test_figures_beyond_float64_are_refused():
    for k in (5e-324, 1e-308):
        with pytest.raises(InputError, match="beyond the range of float64"):
            simplex.expected_kl(C5, k)
    for records, k in ((1e308, 5.0), (1e13, 1e-300)):
        with pytest.raises(InputError, match="leave float64's range"):
            simplex.expected_kl_bound(records, 3, k)
    assert np.isfinite(simplex.expected_kl(C5, 1e-300))
