"""Repeated releases of the same records: privacy-loss distributions from the exact curve, composed by dp-accounting.

A release is any mechanism with `exact_delta` and `exact_epsilon`, of `dpjax.simplex` or on a table of counts. Its exact curve
delta(epsilon) covers all its adjacent pairs and both directions. The privacy of a pair of laws (P, Q) is determined by its curve
H(e) = sup_S P(S) - e^e Q(S), e real. Exchanging P and Q turns H(e) into 1 - e^e + e^e H(-e). So the curve for both directions is

    H(e) = delta(e),     H(-e) = 1 - e^{-e} + e^{-e} delta(e),     e >= 0.

Its values at the points of a grid define a discrete privacy-loss distribution. The curve of that distribution equals H at the
points and is the chord in e^epsilon between them ("connect the dots", Doroshenko et al. 2022). It is nowhere below H, since H is
convex in e^epsilon, and exceeds it only by the second order of the grid. Losses beyond the last point count as infinite. Laws that
dominate each release compose to laws that dominate all of them, also if a release is chosen after the earlier ones are seen.

For three categories or more, and for pseudo-counts with replacement, one pair attains the curve at every epsilon at once, so that
the composed curve is exact up to the grid. For two categories, add-remove and matrices the curve is the largest of several, and the
composed one is an upper bound.

dp-accounting is an extra, `pip install 'dpjax[accounting]'`, and is imported only when one of these functions is called.
`release_event` and `release_accountant` give releases as that library's events, and an accountant of that library that reads them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dpjax._errors import require
from dpjax._tracing import require_concrete
from dpjax.counts.neighbours import Neighbours
from dpjax.simplex._rounding import Claim, Number, Numbers, Real, check_delta, check_epsilon, plain

if TYPE_CHECKING:
    from dp_accounting import DpEvent, PrivacyAccountant
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


@runtime_checkable
class Mechanism(Protocol):
    """A mechanism that can be composed: it has an exact curve."""

    def exact_delta(self, epsilon: Any) -> Any:
        """delta at epsilon, rounded up."""

    def exact_epsilon(self, delta: Any) -> Any:
        """The smallest epsilon whose delta is at most delta, rounded up."""


Releases = Sequence[tuple[Mechanism, int]]  # (mechanism, number of releases)

GRID = 1e-3  # nats
TAIL = 1e-15  # probability of a loss beyond the grid, counted as infinite
RAISED = 1e-9  # relative; more than the rounding of differences of the curve between grid points
CONVOLVED = 1e-12  # absolute; more than the rounding of dp-accounting's Fourier transforms; added to every composed delta
_POINTS = 2_000_000


def privacy_loss_distribution(mechanism: Mechanism, *, grid: Number = GRID, tail: Number = TAIL) -> PrivacyLossDistribution:
    """dp-accounting's pessimistic privacy-loss distribution of one release. Compose it with others of the same grid.

    Args:
        mechanism: A mechanism with an exact curve.
        grid: The distance of the points in nats, above 0 and at most 1.
        tail: The probability that is moved to an infinite loss.

    Raises:
        InputError: The grid would have more than two million points.
        ImportError: The extra `accounting` is not installed.
    """
    plds = _dp_accounting()
    require(bool(0 < grid <= 1), "grid", grid, "pass a distance of grid points in nats, above 0 and at most 1")
    last = int(np.ceil(float(mechanism.exact_epsilon(tail)) / grid))
    require(2 * last + 1 <= _POINTS, "grid", grid, f"losses reach {last * grid:.3g} nats: pass a coarser grid or a larger tail")
    steps, curve = _curve(mechanism, last, float(grid))
    return plds.PrivacyLossDistribution(plds.pld_pmf.create_pmf_pessimistic_connect_dots(float(grid), steps, curve))


def composed_delta(releases: Releases, epsilon: Real, *, grid: Number = GRID, tail: Number = TAIL) -> Claim:
    """On the host: an upper bound on the joint delta of several releases at epsilon, within the grid of the exact value.

    Args:
        releases: Pairs (mechanism, number of releases), all under one neighbouring relation.
        epsilon: Nats, a scalar or an array.
        grid: The distance of the grid points in nats, above 0 and at most 1.
        tail: The probability of a loss beyond the grid, counted as infinite.

    Returns:
        delta, NumPy float64, at least 1e-12.

    Raises:
        InputError: The releases have several relations, or an argument is out of range.
        ImportError: The extra `accounting` is not installed.

    Source:
        Doroshenko et al. (2022), "connect the dots"; see the module.

    Example:
        >>> from dpjax.counts import PseudocountMechanism, composed_delta
        >>> m = PseudocountMechanism(scale=0.5, pseudocount=10.0)
        >>> bool(m.exact_delta(2.0) < composed_delta([(m, 2)], 2.0) < 1e-3)
        True
    """
    require_concrete(epsilon, "epsilon", "compose outside the transformed function")
    values = np.asarray(check_epsilon(epsilon))
    found = _composed(releases, grid, tail).get_delta_for_epsilon(values.ravel())
    return plain(np.minimum(np.asarray(found) + CONVOLVED, 1.0).reshape(values.shape))


def composed_epsilon(releases: Releases, delta: Number, *, grid: Number = GRID, tail: Number = TAIL) -> np.float64:
    """On the host: the smallest epsilon found whose composed delta is at most delta; +inf if there is none.

    Args:
        releases: Pairs (mechanism, number of releases), all under one neighbouring relation.
        delta: At least 1e-11.
        grid: The distance of the grid points in nats, above 0 and at most 1.
        tail: The probability of a loss beyond the grid, counted as infinite.

    Returns:
        Nats, NumPy float64.

    Raises:
        InputError: The releases have several relations, or an argument is out of range.
        ImportError: The extra `accounting` is not installed.

    Example:
        >>> from dpjax.counts import PseudocountMechanism, composed_epsilon
        >>> round(float(composed_epsilon([(PseudocountMechanism(scale=0.5, pseudocount=10.0), 2)], 1e-4)), 2)
        1.61
    """
    require_concrete(delta, "delta", "compose outside the transformed function")
    require(bool(check_delta(delta) >= 10 * CONVOLVED), "delta", delta, "composed losses are accurate to 1e-12: pass 1e-11 or more")
    return np.float64(_composed(releases, grid, tail).get_epsilon_for_delta(float(delta) - CONVOLVED) * (1 + RAISED))


def release_event(mechanism: Mechanism, count: int = 1) -> DpEvent:
    """dp-accounting's event of `count` releases of a mechanism. It composes with that library's own events.

    `release_accountant` reads it.
    """
    event, _ = _taught()
    require(count >= 1, "count", count, "give the number of releases, 1 or more")
    one = event(mechanism)
    if count == 1:
        return one
    from dp_accounting import SelfComposedDpEvent

    return SelfComposedDpEvent(one, count)


def release_accountant(adjacency: Neighbours | str = "replace", *, grid: Number = GRID) -> PrivacyAccountant:
    """dp-accounting's accountant by privacy-loss distributions, which also reads `release_event`.

    Args:
        adjacency: "replace" for Dirichlet and matrix mechanisms; for a mechanism on counts its own relation.
        grid: The distance of the grid points in nats.
    """
    _, accountant = _taught()
    return accountant(Neighbours.of(adjacency), float(grid))


def neighbours_of(mechanism: Mechanism) -> Neighbours:
    """The neighbouring relation of the mechanism's curve; "replace" for a mechanism of `dpjax.simplex`."""
    return getattr(mechanism, "neighbours", Neighbours("replace"))


def _curve(mechanism: Mechanism, last: int, grid: float) -> tuple[Numbers, Numbers]:
    """The whole numbers i from -last to last, and H(i grid) for both directions, rounded up."""
    steps = np.arange(last + 1)
    forward = np.minimum(np.asarray(mechanism.exact_delta(steps * grid)) * (1 + RAISED), 1.0)
    backward = np.minimum(-np.expm1(-steps * grid) + np.exp(-steps * grid) * forward, 1.0)
    return np.arange(-last, last + 1), np.concatenate([backward[:0:-1], forward])


def _composed(releases: Releases, grid: Number, tail: Number) -> Any:
    """The privacy-loss distribution of all releases."""
    require_concrete([mechanism for mechanism, _ in releases], "releases", "compose outside the transformed function")
    require(len(releases) > 0, "releases", releases, "give one release or more")
    relations = {neighbours_of(mechanism).word for mechanism, _ in releases}
    require(len(relations) == 1, "releases", sorted(relations), "compose only releases under one adjacency")
    total: Any = None
    for mechanism, count in releases:
        require(count >= 1, "count", count, "give the number of releases, 1 or more")
        one = privacy_loss_distribution(mechanism, grid=grid, tail=tail)
        many = one if count == 1 else one.self_compose(count)
        total = many if total is None else total.compose(many)
    return total


def _dp_accounting() -> Any:
    """dp-accounting's module of privacy-loss distributions."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as plds
    except ImportError as missing:
        raise ImportError("composition needs dp-accounting: pip install 'dpjax[accounting]'") from missing
    return plds


@functools.cache
def _taught() -> tuple[Any, Any]:
    """dp-accounting's event of one release, and its accountant that composes such events.

    The event contains everything that the privacy of the release depends on.
    """
    _dp_accounting()
    import attr
    from dp_accounting import DpEvent, NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    relations = {"replace": NeighboringRelation.REPLACE_ONE, "add-remove": NeighboringRelation.ADD_OR_REMOVE_ONE}

    @attr.s(frozen=True, slots=True, auto_attribs=True)
    class ReleaseDpEvent(DpEvent):
        mechanism: Any

    class ReleaseAccountant(PLDAccountant):
        _pld: Any

        def __init__(self, neighbours: Neighbours, grid: float) -> None:
            require(neighbours.relation in relations, "adjacency", neighbours.relation, "", must='be "replace" or "add-remove"')
            super().__init__(relations[neighbours.relation], grid)
            self._neighbours = neighbours
            self._grid = grid

        def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
            if not isinstance(event, ReleaseDpEvent):
                return super()._maybe_compose(event, count, do_compose)
            wanted = neighbours_of(event.mechanism).word
            if wanted != self._neighbours.word:
                message = f"this release is private under {wanted!r}, and the accountant counts {self._neighbours.word!r}"
                return self.CompositionErrorDetails(invalid_event=event, error_message=message)
            if do_compose:
                one = privacy_loss_distribution(event.mechanism, grid=self._grid)
                self._pld = self._pld.compose(one if count == 1 else one.self_compose(count))
            return None

    return ReleaseDpEvent, ReleaseAccountant
