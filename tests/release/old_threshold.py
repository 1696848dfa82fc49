"""The private support as it was: the threshold that OpenDP 0.16's map allows, which charges a pair that appears too little.

`make_laplace_threshold` keeps counts at or above T, and its map of (l0, l1, linf) says delta = 1 - (1 - P(Z >= T - linf + 1))^l0. The law is
written out here, so that a later OpenDP does not change what the tests call old; `test_selection` asks the installed one.
"""

import math
from fractions import Fraction

from dpjax.counts import Neighbours
from dpjax.counts.neighbours import given
from dpjax.release import ThresholdedSelection

RECORD = {"replace": (2, 2, 1), "add-remove": (1, 1, 1)}


def old_selection(epsilon, delta, adjacency, persons=None):
    """The selection that earlier versions made, unverified: a `ThresholdedSelection` with the old scale and threshold."""
    l0, l1, linf = old_distance(adjacency, persons)
    scale = l1 / epsilon
    while l1 / Fraction(scale) > epsilon:  # OpenDP's map rounds up
        scale = math.nextafter(scale * (1 + 1e-12), math.inf)
    q, least = math.exp(-1 / scale), -math.expm1(math.log1p(-delta) / l0)  # of P(Z >= T - linf + 1)
    threshold = max(linf + 1, linf - 3 - math.floor(scale * math.log(least * (1 + q))))
    while old_delta(scale, threshold, (l0, l1, linf)) > delta:
        threshold += 1
    neighbours = given(Neighbours(adjacency, persons))
    return unverified(epsilon=epsilon, delta=delta, adjacency=neighbours, scale=Fraction(scale), threshold=threshold)


def old_distance(adjacency, persons=None):
    """(l0, l1, linf) of a record or a person, as earlier versions gave them to OpenDP."""
    l0, l1, linf = RECORD[adjacency]
    return (l0, l1, linf) if persons is None else (l0 * persons.records, l1 * persons.records, persons.in_a_cell)


def old_delta(scale, threshold, distance):
    """What OpenDP's map says."""
    q = math.exp(-1 / scale)
    return -math.expm1(distance[0] * math.log1p(-(q ** (threshold - distance[2] + 1)) / (1 + q)))


def unverified(selection=None, **fields):
    """A selection with these numbers whether or not they are private: what a fault would draw from."""
    found = object.__new__(ThresholdedSelection)
    found.__dict__.update({**(selection.__dict__ if selection else {}), **fields})
    return found
