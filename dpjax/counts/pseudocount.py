"""Theorem 7: counts plus a public pseudo-count through the Dirichlet mechanism, private for every database.

Each row of counts is released as a draw of Dirichlet(s (counts + alpha)). The scale s, the pseudo-count alpha and the support are public; all
rows are independent. Row totals, empty rows and zero cells are private. The privacy of a record, and of the several records of one person, is
in `accountant`; scaling s does not account for persons. Simulated, and exact for a release.

*For a release* s and alpha are found from (epsilon, delta) and the planning figures alone. delta >= e^{-alpha epsilon}/(2 alpha + 1) for every
s, so alpha has a floor near log(1/delta)/epsilon. Above the floor a larger alpha allows a larger s: less noise, but a stronger pull to the
uniform row. alpha is the one with the least expected error on a public reference row (`planned`), rounded up to a multiple of 1/1024. s is the
largest that meets (epsilon, delta) at that alpha, rounded down to 12 bits, and the pair is verified as it is used. For persons the search looks
only at the two extreme spreadings; the scale found is then lowered until all spreadings are within delta.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float

from dpjax._errors import invalid, require
from dpjax._exact import polya_urn
from dpjax._random import checked_key
from dpjax._rationals import as_written, rounded_up, verified
from dpjax._tracing import conditions, frozen_pytree, is_traced, nan_unless, require_concrete
from dpjax.counts.accountant import Cost, least_pseudocount, person_cost, record_delta, traced_record_delta, traced_record_epsilon
from dpjax.counts.neighbours import Neighbours, given
from dpjax.counts.postprocess import dirichlet_errors, plain_table, pseudocount_error
from dpjax.counts.protocol import (
    CountMechanism,
    Errors,
    ExactSampler,
    Law,
    Options,
    Parameter,
    Planning,
    Replaced,
    Target,
    Variant,
    register,
)
from dpjax.simplex._rounding import (
    SLACK,
    Claim,
    Number,
    Numbers,
    Real,
    check_delta,
    check_epsilon,
    largest,
    plain,
    require_all,
    smallest,
)
from dpjax.simplex._rounding import verified as verified_mechanism
from dpjax.simplex.gamma import dirichlet
from dpjax.simplex.rows import Shares, as_float, check_counts, check_one, check_positive

EXACT = "exact: the hockey-stick divergence of the worst pair of databases, float64 rounded to the safe side (dpjax)"
URN_CELLS = "a supported cell drawn x times of M has probability (x + 1/2)/(M + n/2), n the row's supported cells"
_SMALLEST, _MOST = 1e-6, 1e9  # range of the least pseudo-count that a factor multiplies
HINDSIGHT = (1.05, 1.3, 1.7, 2.5)  # multiples of the least pseudo-count
_RATIOS = np.geomspace(1.02, 12.0, 16)  # ratios of alpha to its floor
_FEWER_RATIOS = _RATIOS[::2]  # for persons, whose accountant takes more time
_LARGEST = 1e9  # the largest pseudo-count tried
_TRIES, _LEAST_SCALE = 300, 1e-12
_LOWER = 0.98  # the step by which a scale is lowered until all spreadings are within delta


class PseudocountOptions(Options):
    """The pseudo-count, as a number or as a multiple of the least one that reaches the target."""

    pseudocount: float | None = pydantic.Field(
        default=None, ge=1e-6, le=1e12, title="pseudo-count alpha", json_schema_extra={"units": "records"}
    )
    pseudocount_factor: float | None = pydantic.Field(
        default=None, gt=1, allow_inf_nan=False, title="pseudo-count as a multiple of the least that reaches the target"
    )

    @pydantic.model_validator(mode="after")
    def _one_of_them(self) -> PseudocountOptions:
        if (self.pseudocount is None) == (self.pseudocount_factor is None):
            both = {"pseudocount": self.pseudocount, "pseudocount_factor": self.pseudocount_factor}
            invalid("mechanism", both, "give either pseudocount or pseudocount_factor, such as 1.5")
        return self


@frozen_pytree("scale", "pseudocount", static=("adjacency",))
@dataclasses.dataclass(frozen=True, kw_only=True)
class PseudocountMechanism(CountMechanism):
    """The mechanism counts -> Dirichlet(scale (counts + pseudocount)), row by row, private for every database (Theorem 7).

    Privacy figures are NumPy float64, in nats, rounded to the safe side; those of persons are upper bounds. A pytree: scale and pseudocount are
    leaves and may be traced. Figures of traced numbers are unrounded, in their dtype, and differentiable; those of persons need the host.

    Args:
        scale: The public scale s, between 1e-12 and 1e20.
        pseudocount: The public pseudo-count alpha, in records, between 1e-6 and 1e12.
        adjacency: "replace" (any record by any other) or "add-remove" (one record more or fewer), or a `Neighbours` that protects persons.

    Example:
        >>> from dpjax import PseudocountMechanism
        >>> p = PseudocountMechanism(scale=0.5, pseudocount=10.0)
        >>> round(float(p.exact_epsilon(1e-4)), 3)
        1.127
    """

    scale: Number
    pseudocount: Number
    adjacency: Neighbours | str = "replace"

    name: ClassVar[str] = "pseudocount"
    title: ClassVar[str] = "Dirichlet, pseudo-count"
    ours: ClassVar[bool] = True
    OPTIONS: ClassVar[type[Options]] = PseudocountOptions
    PARAMETERS: ClassVar[Mapping[str, Parameter]] = {
        "dirichlet_scale": Parameter("scale s of the Dirichlet draw; inf for mechanisms that add noise", absent=float("inf")),
        "pseudocount": Parameter("pseudo-count alpha; 0 if none is added", "records"),
    }

    def __post_init__(self) -> None:
        self._check()
        object.__setattr__(self, "adjacency", given(self.adjacency))

    def _check(self) -> None:
        """Check the numbers, which a pytree brings unchecked."""
        check_one(scale=self.scale, pseudocount=self.pseudocount)
        for name, low, high, remedy in (
            ("scale", "1e-12", "1e20", "0.5, or calibrate one"),
            ("pseudocount", "1e-6", "1e12", "1.0"),
        ):
            x = check_positive(getattr(self, name), name)
            inside = (x >= float(low)) & (x <= float(high))
            require_all(inside, name, getattr(self, name), f"give a number such as {remedy}", must=f"lie between {low} and {high}")

    @classmethod
    def calibrate(  # type: ignore[override]
        cls,
        *,
        epsilon: Number,
        delta: Number,
        pseudocount: Number | None = None,
        pseudocount_factor: Number | None = None,
        adjacency: Neighbours | str = "replace",
    ) -> PseudocountMechanism:
        """On the host: the mechanism with the largest scale that is (epsilon, delta)-private.

        Args:
            epsilon: The target in nats, finite and at least 0.
            delta: The target, strictly between 0 and 1.
            pseudocount: alpha, in records.
            pseudocount_factor: In place of alpha: a multiple of the least alpha of a record.
            adjacency: The neighbouring relation, a word or a `Neighbours`.

        Raises:
            InputError: No scale meets the target; the error says what can be reached.
        """
        numbers = (epsilon, delta, pseudocount, pseudocount_factor)
        require_concrete(numbers, "the target", "calibrate outside the transformed function")
        neighbours = Neighbours.of(given(adjacency))
        if pseudocount_factor is not None:
            require(pseudocount is None, "pseudocount", pseudocount, "give either it or pseudocount_factor")
            least = least_pseudocount(epsilon=epsilon, delta=delta, adjacency=neighbours.relation)
            require(least < _MOST, "(epsilon, delta)", (epsilon, delta), "no pseudo-count reaches this pair: choose another")
            pseudocount = max(least, _SMALLEST) * float(pseudocount_factor)
        if pseudocount is None:
            invalid("pseudocount", None, "give either it or pseudocount_factor, such as 1.5")
        check_one(epsilon=epsilon, delta=delta, pseudocount=pseudocount)
        e, d = check_epsilon(epsilon), check_delta(delta)
        alpha = check_positive(pseudocount, "pseudocount")
        if neighbours.persons is not None:
            target = Target(float(e), float(d), neighbours)
            held = _held(target, _largest_scale(target, float(alpha)), float(alpha))
            return cls(scale=held, pseudocount=pseudocount, adjacency=adjacency)
        start = 1e-6 / (2 * alpha + 1)
        if not record_delta(neighbours.relation, e, start, alpha) <= d * (1 - SLACK):
            weakest = cls(scale=float(start), pseudocount=pseudocount, adjacency=adjacency)
            remedy = (
                f"no scale meets it with pseudocount = {pseudocount:g}: delta stays above {weakest.exact_delta(epsilon):.4g} at"
                f" epsilon = {epsilon:g}, and epsilon above {weakest.exact_epsilon(delta):.4g} at delta = {delta:g}; raise pseudocount"
            )
            invalid("(epsilon, delta)", (float(epsilon), float(delta)), remedy)
        scale = float(largest(lambda s: record_delta(neighbours.relation, e, s, alpha) <= d * (1 - SLACK), start))
        return verified_mechanism(
            lambda c: cls(scale=c * scale, pseudocount=pseudocount, adjacency=adjacency),
            lambda m: bool(m.exact_delta(epsilon) <= delta),
            epsilon,
            delta,
        )

    @classmethod
    def planned(
        cls, target: Target, planning: Planning, *, pseudocount: float | None = None, **options: Any
    ) -> PseudocountMechanism:
        """The mechanism for a release, with public parameters. Without `pseudocount`, alpha is chosen for rows of the planning figures."""
        require(target.epsilon > 0, "epsilon", target.epsilon, "", must="be positive")
        require(planning.cells >= 2, "cells", planning.cells, "pass two supported cells or more")
        require(planning.row_records > 0, "row_records", planning.row_records, "", must="be positive")
        if options.get("pseudocount_factor") is not None:
            return cls.calibrate(epsilon=target.epsilon, delta=target.delta, adjacency=target.neighbours, **options)
        if pseudocount is None:
            found = _frontier(target)
        else:
            alpha = float(rounded_up(pseudocount))
            found = ((alpha, _largest_scale(target, alpha)),)
        alpha, scale = min(found, key=lambda pair: pseudocount_error(planning.row_records, planning.cells, pair[1], pair[0]))
        return cls(scale=_held(target, scale, alpha), pseudocount=alpha, adjacency=target.neighbours)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactPseudocount:
        """The sampler at the scale rounded down to 12 bits, or a few steps lower, where it is verified to spend at most delta."""
        target, alpha = Target(epsilon, delta, self.neighbours), float(self.pseudocount)
        scale = verified(float(self.scale), lambda s: _cost(target, s, alpha).delta <= delta, "scale")
        return ExactPseudocount(epsilon=epsilon, delta=delta, scale=scale, pseudocount=Fraction(alpha), neighbours=self.neighbours)

    @property
    def parameters(self) -> Mapping[str, float]:
        """On the host: s and alpha."""
        return dict(zip(("dirichlet_scale", "pseudocount"), map(float, self._public()), strict=True))

    @property
    def note(self) -> str:
        """The parameters, for a comparison."""
        return f"pseudo-count {float(self.pseudocount):.4g} (by hindsight), scale {float(self.scale):.4g}"

    def exact_delta(self, epsilon: Real) -> Claim:
        """delta at epsilon >= 0 (scalar or array), rounded up. A traced argument gives an unrounded value in its dtype."""
        with conditions() as held:
            point, public = check_epsilon(epsilon), self._public()
        if is_traced(point, *public):
            return nan_unless(held, traced_record_delta(self._relation(), point, *public))
        return plain(self._delta(point))

    def exact_epsilon(self, delta: Real) -> Claim:
        """The smallest epsilon whose delta is at most delta (scalar or array), rounded up.

        A traced argument gives an unrounded value in its dtype, with the derivatives of the implicit function.
        """
        with conditions() as held:
            target, public = check_delta(delta), self._public()
        if is_traced(target, *public):
            return nan_unless(held, traced_record_epsilon(self._relation(), target, *public))
        return plain(smallest(lambda e: self._delta(e) <= target, np.ones(target.shape)))

    def _relation(self) -> str:
        """The relation of records, whose accountant can be traced."""
        remedy = "call it outside the transformed function"
        problem = "protects persons, whose accountant runs on the host"
        require(self.neighbours.persons is None, "adjacency", None, remedy, problem=problem)
        return self.neighbours.relation

    def _delta(self, epsilon: Numbers) -> Numbers:
        bound, relation, public = self.neighbours.persons, self.neighbours.relation, self._public()
        if bound is None:
            return record_delta(relation, epsilon, *public)
        scale, alpha = (float(x) for x in public)
        costs = [person_cost(float(e), scale, alpha, bound, relation).delta for e in np.ravel(epsilon)]
        return np.asarray(costs).reshape(np.shape(epsilon))

    def privatize(self, key: Array, counts: Shares, support: Bool[Numbers, "*shape"] | None = None) -> Float[Array, "*batch n"]:
        """One private vector for each row of counts, (*batch, n), in their dtype. Categories outside the public support stay exactly zero.

        Arguments as in `CountMechanism.privatize`. Concrete counts are checked on the host; the rows give independent draws. Records outside
        the support are dropped; the guarantee covers this. Differentiable once in scale, pseudocount and counts, at a fixed quantile.
        """
        key = checked_key(key)
        counts, support = plain_table(counts, support)
        check_counts(counts)
        values = as_float(counts)
        mask: Any = np.ones(values.shape[-1:], bool) if support is None else support
        mask = mask if is_traced(mask) else np.asarray(mask, dtype=bool)
        require_all(mask.any(axis=-1), "support", support, "give every row at least one category")
        with conditions() as held:
            scale, alpha = (jnp.asarray(x, dtype=values.dtype) for x in self._public())
        concentration = jnp.where(jnp.broadcast_to(jnp.asarray(mask, bool), values.shape), scale * (values + alpha), 0.0)
        return nan_unless(held, dirichlet(key, concentration, 1)[0])

    def concentrations(self, counts: np.ndarray, support: np.ndarray) -> Float[np.ndarray, "rows n"]:
        """The shapes of the Dirichlet rows of a table; 0 outside the support."""
        scale, alpha = self._public()
        return np.where(support, float(scale) * (counts + float(alpha)), 0.0)

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The shapes of the rows, and the function that draws Dirichlet rows."""
        return Law(self.concentrations(counts, support).astype(dtype), draw_dirichlet)

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """The errors of Dirichlet rows, in closed form."""
        return Errors(*dirichlet_errors(counts / counts.sum(axis=1, keepdims=True), self.concentrations(counts, support)))

    @classmethod
    def variants(cls) -> Sequence[Variant]:
        """A few multiples of the least pseudo-count."""
        return [Variant(cls.title, {"pseudocount_factor": factor}) for factor in HINDSIGHT]

    def _public(self) -> tuple[Any, Any]:
        """The parameters, which must describe one mechanism."""
        numbers: tuple[Any, Any] = (self.scale, self.pseudocount)
        remedy = "use jax.vmap to call methods of several mechanisms"
        require(
            all(np.ndim(x) == 0 for x in numbers),
            "scale, pseudocount",
            None,
            remedy,
            problem="hold the numbers of several mechanisms",
        )
        self._check()
        return tuple(x if is_traced(x) else np.asarray(x, np.float64) for x in numbers)  # type: ignore[return-value]


register(PseudocountMechanism, "theorem7")


def draw_dirichlet(key: Array, parameters: Any, counts: Any, support: Any, first: Any, n: int) -> Array:
    """The private tables first, ..., first + n - 1, whose rows are Dirichlet of these shapes."""
    return dirichlet(key, parameters, n, first)


class Urn(NamedTuple):
    """Whole weights (cells,) and a unit: the row is Dirichlet of shapes weights/unit. SECRET: they contain counts."""

    weights: list[int]
    unit: int

    def draw(self, draws: int) -> list[int]:
        """The number of times that each cell is drawn."""
        return polya_urn(self.weights, self.unit, draws).tolist()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactPseudocount(ExactSampler):
    """The sampler of rows ~ Dirichlet(scale (counts + pseudocount)) on their supported cells, the parameters public.

    InputError if the exact delta at epsilon, at these very rationals, exceeds delta.
    """

    scale: Fraction
    pseudocount: Fraction

    name: ClassVar[str] = "theorem7"
    zero_cells: ClassVar[str] = URN_CELLS

    def __post_init__(self) -> None:
        exact = all(Fraction(float(x)) == x for x in (self.scale, self.pseudocount))
        require(exact, "scale, pseudocount", (self.scale, self.pseudocount), "give rationals that a float holds exactly")
        spent = self.cost.delta
        require(spent <= self.delta, "delta", self.delta, f"these parameters spend {spent:.6g} at this epsilon: lower the scale")

    @functools.cached_property
    def cost(self) -> Cost:
        """delta at epsilon, exact for a record and an upper bound for a person, and the argument used."""
        return _cost(Target(self.epsilon, self.delta, self.neighbours), float(self.scale), float(self.pseudocount))

    def replaced(self) -> Replaced | None:
        """For "add-remove": the delta of a replacement at the same epsilon, by the accountant of the same parameters."""
        if self.neighbours.relation == "replace":
            return None
        target = Target(self.epsilon, self.delta, Neighbours("replace", self.neighbours.persons))
        cost = _cost(target, float(self.scale), float(self.pseudocount))
        return Replaced(as_written(self.epsilon), cost.delta, cost.accountant)

    @property
    def accountant(self) -> str:
        """The source of delta."""
        return self.cost.accountant

    @property
    def mechanism(self) -> PseudocountMechanism:
        """The mechanism with the same law. Its draws are floats, for research."""
        return PseudocountMechanism(scale=float(self.scale), pseudocount=float(self.pseudocount), adjacency=self.neighbours)

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int]:
        """Draws from the row's urn."""
        return self.urn(row, counts).draw(draws)

    def urn(self, row: int, counts: Sequence[int]) -> Urn:
        """The urn of a row. s (c + alpha) with s = p/q and alpha = a/b is p (b c + a)/(q b)."""
        p, b, a = self.scale.numerator, self.pseudocount.denominator, self.pseudocount.numerator
        return Urn([p * (b * c + a) for c in counts], self.scale.denominator * b)

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """s n alpha, the concentration of an empty row."""
        return float(self.scale * self.pseudocount) * cells

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """s (row_records + cells alpha), the same for every row."""
        return np.full(n_rows, float(self.scale) * (row_records + cells * float(self.pseudocount)))

    def expected_error(self, records: float, cells: int) -> float:
        """Expected total variation on the public reference row."""
        return pseudocount_error(records, cells, float(self.scale), float(self.pseudocount))

    def coarser(self, cells: int, row_records: float) -> ExactPseudocount:
        """The sampler calibrated again for these planning figures."""
        target = Target(self.epsilon, self.delta, self.neighbours)
        planned = PseudocountMechanism.planned(target, Planning(cells, row_records))
        return planned.exact_sampler(epsilon=self.epsilon, delta=self.delta)

    def price_head(self, cells: int) -> str:
        """The sentence on pseudo-records."""
        alpha, scale = float(self.pseudocount), float(self.scale)
        return f"Every row gets {cells * alpha:,.0f} pseudo-records ({cells} cells with alpha = {alpha:.4g} each); scale s = {scale:.4g}."

    def facts(self) -> dict[str, Any]:
        """s and alpha, exactly and as decimals."""
        return {
            "mechanism": "Dirichlet with public scale and pseudo-count (Theorem 7), released as draws from a Polya urn",
            "scale": float(self.scale),
            "scale_exactly": str(self.scale),
            "pseudocount": float(self.pseudocount),
            "pseudocount_exactly": str(self.pseudocount),
            "delta_spent_at_epsilon": self.cost.delta,
        }


def _cost(target: Target, scale: float, alpha: float, *, quick: bool = False) -> Cost:
    """The delta of these parameters at the target's epsilon. quick: a lower bound of it for persons, for a search."""
    if target.neighbours.persons is None:
        mechanism = PseudocountMechanism(scale=scale, pseudocount=alpha, adjacency=target.neighbours)
        return Cost(float(mechanism.exact_delta(target.epsilon)), EXACT)
    return person_cost(target.epsilon, scale, alpha, target.neighbours.persons, target.neighbours.relation, quick=quick)


def _reachable(target: Target, alpha: float) -> bool:
    """Whether some scale may meet the target at this pseudo-count: whether the least scale does."""
    return _cost(target, max(1e-12, 1e-6 / (2 * alpha + 1)), alpha, quick=True).delta <= target.delta


def _held(target: Target, scale: float, alpha: float) -> float:
    """The scale, lowered until every spreading of a person's records is within delta."""
    for _ in range(_TRIES if target.neighbours.persons is not None else 0):
        if _cost(target, scale, alpha).delta <= target.delta:
            break
        scale *= _LOWER
    return scale


@functools.lru_cache(maxsize=8)
def _frontier(target: Target) -> tuple[tuple[float, float], ...]:
    """Pseudo-counts above the floor below which no scale meets the target, each with the largest scale that does."""
    low, high = 1e-6, 2.0
    # ends: high doubles, up to the limit below
    while not _reachable(target, high):
        low, high = high, 2 * high
        require(
            high < _LARGEST,
            "(epsilon, delta)",
            (target.epsilon, target.delta),
            "no pseudo-count reaches this pair: choose another, or keep fewer records of a person",
        )
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _reachable(target, middle) else (middle, high)
    ratios = _RATIOS if target.neighbours.persons is None else _FEWER_RATIOS
    alphas = [float(rounded_up(high * ratio)) for ratio in ratios]
    return tuple((alpha, _largest_scale(target, alpha)) for alpha in alphas)


def _largest_scale(target: Target, alpha: float) -> float:
    """The largest scale that meets the target; for a person the largest by the two extreme spreadings, below the scale for a record."""
    pair, persons = (target.epsilon, target.delta), target.neighbours.persons
    try:
        most = PseudocountMechanism.calibrate(
            epsilon=target.epsilon, delta=target.delta, pseudocount=alpha, adjacency=target.neighbours.relation
        ).scale
    except ValueError:
        if persons is None and not _reachable(target, alpha):
            raise
        invalid("(epsilon, delta)", pair, "the accountant finds no scale for this pair: choose another")
    return float(most) if persons is None else _lowered(target, float(most), alpha)


def _lowered(target: Target, high: float, alpha: float) -> float:
    """The largest scale up to `high` by the extreme spreadings, to three parts in a thousand."""
    require(_reachable(target, alpha), "pseudocount", alpha, "no scale meets the target for so many records of a person: raise it")

    def holds(scale: float) -> bool:
        return _cost(target, scale, alpha, quick=True).delta <= target.delta

    low = high
    for _ in range(_TRIES):
        if low < _LEAST_SCALE or holds(low):
            break
        low, high = low / 2, low
    pair = (target.epsilon, target.delta)
    require(low >= _LEAST_SCALE, "(epsilon, delta)", pair, "the accountant finds no scale for this pair: choose another")
    # ends: each turn halves the ratio in the logarithm
    while high / low > 1.003:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
