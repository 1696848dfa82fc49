"""Mechanisms that protect persons: the accountant is the bound of a person, calibration meets it, and a release keeps the same value."""

import numpy as np
import pytest

from dpjax.counts import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    Neighbours,
    PersonBound,
    PseudocountMechanism,
    Target,
    calibrated,
)
from dpjax.counts.discrete_gaussian import concentrated_delta
from dpjax.counts.persons import person_cost

PERSONS = Neighbours("replace", PersonBound(3))


def test_pseudo_counts_for_persons_cost_what_person_cost_says():
    m = PseudocountMechanism(scale=0.1, pseudocount=40.0, adjacency=PERSONS)
    alone = PseudocountMechanism(scale=0.1, pseudocount=40.0)
    assert m.neighbours.word == "replace-person"
    found = m.exact_delta(np.array([0.0, 0.5, 1.0]))
    assert found[1:].tolist() == [person_cost(e, 0.1, 40.0, PERSONS.persons).delta for e in (0.5, 1.0)]
    assert found[0] == pytest.approx(3 * alone.exact_delta(0.0))  # a whole epsilon of 0 was a division by zero
    assert (found > alone.exact_delta(np.array([0.0, 0.5, 1.0]))).all()
    epsilon = m.exact_epsilon(1e-3)
    assert m.exact_delta(epsilon) <= 1e-3 < m.exact_delta(epsilon * 0.98)


def test_a_mechanism_for_persons_is_calibrated_to_its_target():
    m = calibrated("pseudocount", Target(1.0, 1e-3, PERSONS), pseudocount=80.0)
    assert 0.8e-3 < m.exact_delta(1.0) <= 1e-3
    gaussian = calibrated("discrete-gaussian", Target(1.0, 1e-3, PERSONS))
    assert gaussian.exact_delta(1.0) == concentrated_delta(1.0, float(18 / (2 * gaussian.variance))) <= 1e-3
    laplace = calibrated("discrete-laplace", Target(0.5, 0.0, PERSONS))
    assert (laplace.scale, laplace.exact_sampler(epsilon=0.5, delta=0.0).parameter) == (12.0, 12)
    for one in (m, gaussian, laplace):
        assert one.exact_sampler(epsilon=1.0, delta=1e-3).neighbours == PERSONS


def test_a_person_of_one_record_is_a_record():
    one = Neighbours("add-remove", PersonBound(1))
    assert DiscreteLaplaceMechanism(epsilon=0.5, adjacency=one).scale == 2.0
    person, record = (DiscreteGaussianMechanism(variance=9, adjacency=a) for a in (one, "add-remove"))
    assert person.exact_delta(0.7) == record.exact_delta(0.7)
    assert (person.neighbours.word, record.neighbours.word) == ("add-remove-person", "add-remove")


@pytest.mark.parametrize("wrong", ["person", "replace-within-row", ["replace"], None])
def test_other_relations_are_refused(wrong):
    for make in (
        lambda: DiscreteLaplaceMechanism(epsilon=1.0, adjacency=wrong),
        lambda: DiscreteGaussianMechanism(variance=9, adjacency=wrong),
        lambda: PseudocountMechanism(scale=1.0, pseudocount=5.0, adjacency=wrong),
    ):
        with pytest.raises((ValueError, TypeError), match="adjacency"):
            make()
