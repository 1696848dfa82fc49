"""The release of a model: a plan made from public numbers, and the one step that reads the records.

`Plan.make` fixes the mechanism, the support or its selection, and the number of draws. Price, claims, statement and the charge to a ledger
are functions of the plan alone (`dpjax.release.statement`). `Plan.draw` takes the records and returns the private model, and nothing else
about them.

With a private support the budget is split: the selection gets `share` of epsilon and of delta, the model the rest. The split is done in
rationals, so that the two parts never add up to more than the whole.

*The price* gives, for rows of several sizes, the expected error (total variation) of the chosen mechanism, of discrete Laplace counts at the
same epsilon, and of the uniform row, which costs nothing. The rows are those of `dpjax.counts.postprocess`. It also gives the errors for
coarser states: merging states in pairs halves the cells of a row and its pseudo-records, and doubles its records.

*A replacement under "add-remove"* is two changes, one removal and one addition. It has its own claim: the claim of the form under
replacement, by the accountant of the same noise, plus that of a private selection of the support. The selection costs twice its epsilon,
and its delta once: the theorem of `selection` holds for counts that differ by 2 L at twice epsilon, and delta counts the pairs that are
new on one side only. k steps of an (epsilon, delta)-private mechanism cost (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon)))
(group privacy). Under "replace-within-row", two databases that satisfy the floor are joined by databases that satisfy it too: move one
record at a time from a cell that loses to a cell that gains; then every count stays between its two end values.

*The statement* (`build`) takes no counts and no model, so that it cannot contain anything of the data. `restated` gives the version 2 of a
statement of version 1, whose sentence was false under "add-remove".
"""

from __future__ import annotations

import dataclasses
import datetime
import numbers
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from dpjax import counts
from dpjax._errors import require
from dpjax._rationals import as_written, decimal_up, float_down, shown
from dpjax.counts import ExactSampler, Neighbours, PersonBound, Planning, Target
from dpjax.counts.dirichlet import ExactDirichlet
from dpjax.counts.discrete_gaussian import ExactGaussian
from dpjax.counts.discrete_laplace import ExactLaplace
from dpjax.counts.postprocess import laplace_error, uniform_error
from dpjax.counts.protocol import Replaced, exactly
from dpjax.counts.pseudocount import ExactPseudocount
from dpjax.release.error_bars import BARS, speaks_of
from dpjax.release.ledger import Charge, Due
from dpjax.release.model import PrivateModel, draw_model, resolution, supported_totals
from dpjax.release.secret import RecordError, Records, checked_pairs, public_labels, sealed
from dpjax.release.selection import WRITTEN, ThresholdedSelection, selection_spent, true_delta
from dpjax.release.statement import Claim, ReleasePlan, Statement, group_delta, versions

_SUPPORTS = {
    "all": "all pairs of the public labels",
    "public": "a public list of allowed pairs; records outside it were left out, which the guarantee covers",
    "private": "selected privately, at a cost included in epsilon and delta; a state for which nothing was selected keeps all pairs",
}


_BY_ROW = "20 for each unit of the row's concentration, at least 100"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Plan(ReleasePlan):
    """All public parameters of a release, fixed before the records are read. Make it with `Plan.make`.

    Args:
        labels: the public labels of the n states.
        epsilon, delta: the whole budget of the release; nats, and a probability.
        form: the `ExactSampler` that draws. A sampler of floats is refused.
        support: (n, n) booleans, or None if `selection` chooses the support.
        support_policy: "all", "public" or "private".
        selection: the private selection of the support, or None.
        row_records, row_cells: public guesses for a typical row. They set alpha and M; they do not limit the data.
        draws: M for every row, or None if the sampler decides for each row.
    """

    labels: tuple[str, ...]
    epsilon: float
    delta: float
    form: ExactSampler
    support: np.ndarray | None
    support_policy: str
    selection: ThresholdedSelection | None
    row_records: float
    row_cells: int
    draws: int | None

    def __post_init__(self) -> None:
        exactly(self.form)

    @classmethod
    def make(
        cls,
        labels: tuple[str, ...],
        *,
        epsilon: float,
        delta: float,
        adjacency: str = "replace",
        support: np.ndarray | str = "all",
        share: float = 0.3,
        form: str = "pseudocount",
        eta: float | None = None,
        pseudocount: float | None = None,
        row_records: float = 1000.0,
        row_cells: int | None = None,
        draws: int | None = None,
        records_per_person: int | None = None,
        per_row: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Plan:
        """The plan for these public inputs.

        Args:
            labels: distinct labels of the n states, n >= 2.
            epsilon: nats, 1e-9 to 1e9.
            delta: from 1e-300 to below 1, or 0 for a mechanism that spends none.
            adjacency: "replace" or "add-remove"; "dirichlet" turns "replace" into "replace-within-row".
            support: a public (n, n) mask, "all" pairs, or "private".
            share: part of the budget for a private support, 1e-6 to 1 - 1e-6.
            form: a mechanism of `dpjax.counts` with an exact sampler: "pseudocount" ("theorem7"), "dirichlet" ("paper") with its floor
                eta, "discrete-laplace" (which spends no delta) or "discrete-gaussian".
            eta: the floor that "dirichlet" assumes.
            pseudocount: records added to each cell; None chooses them from the planning figures.
            row_records, row_cells: public guesses for a typical row.
            draws: M for each row; None chooses it from the planning figures.
            records_per_person: protect persons and keep at most this many records of each; `draw` then needs records with this bound.
            per_row: keep at most this many records of each person in a row.
            options: further options of the mechanism, by name.

        Raises:
            InputError: names the argument that cannot be used.
        """
        labels = public_labels(labels)
        n = len(labels)
        require(n >= 2 and len(set(labels)) == n, "labels", n, "give two or more labels, each once")
        given = {"epsilon": epsilon, "delta": delta, "row_records": row_records, "pseudocount": pseudocount, "share": share}
        for name, number in given.items():
            real = isinstance(number, numbers.Real | Decimal) and not isinstance(number, bool)
            require(real or (name == "pseudocount" and number is None), name, number, "give a number")
        require(1e-9 <= epsilon <= 1e9, "epsilon", epsilon, "give a number from 1e-9 to 1e9 (nats)", must="be positive and finite")
        kind = counts.mechanism(form)
        pure = not kind.spends_delta
        between = "it must lie strictly between 0 and 1: give 1e-300 or more (or 0 for discrete Laplace noise)"
        require((pure and delta == 0) or 1e-300 <= delta < 1, "delta", delta, between)
        require(records_per_person is not None or per_row is None, "per_row", per_row, "give the records per person too")
        bound = None if records_per_person is None else PersonBound(records_per_person, per_row)
        neighbours = Neighbours(adjacency, bound)
        require(1e-3 <= row_records <= 1e12, "row_records", row_records, "give a number from 0.001 to 1e12")
        fits = pseudocount is None or 1e-3 <= pseudocount <= 1e9
        require(fits, "pseudocount", pseudocount, "give a number from 0.001 to 1e9, or leave it out for the best")
        mask, policy = _mask(support, n)
        selection, rest = None, (epsilon, delta)
        if mask is None:
            require(kind.whole_domain, "support", "private", "give a public support, which the paper's form needs")
            require(delta > 0, "delta", delta, "give a delta above 0, which a private support spends")
            require(1e-6 <= share <= 1 - 1e-6, "share", share, "give a share of the budget from 1e-6 to 1 - 1e-6, such as 0.3")
            (spent, rest) = _cut(epsilon, delta, share)
            if pure:
                spent, rest = (spent[0], delta), (rest[0], 0.0)
            selection = ThresholdedSelection.calibrate(epsilon=spent[0], delta=spent[1], adjacency=neighbours)
        widest = n if mask is None else int(mask.sum(axis=1).max())
        require(row_cells is None or 2 <= row_cells <= n, "row_cells", row_cells, f"give a whole number from 2 to {n}, the states")
        cells = max(2, widest) if row_cells is None else row_cells
        require(draws is None or 1 <= draws <= 2**31, "draws", draws, "give a number of draws from 1 to 2^31")
        given = {name: value for name, value in (("eta", eta), ("pseudocount", pseudocount)) if value is not None}
        target = Target(*rest, neighbours)
        chosen = counts.exact_sampler(form, target, Planning(cells, row_records), **given, **(options or {}))
        require(
            draws is None or not chosen.noisy, "draws", draws, "a mechanism of noisy counts draws nothing from rows: leave it out"
        )
        return cls(
            labels=labels,
            epsilon=epsilon,
            delta=delta if selection is not None or not pure else 0.0,
            form=chosen,
            support=mask,
            support_policy=policy,
            selection=selection,
            row_records=row_records,
            row_cells=cells,
            draws=draws if draws is not None or chosen.noisy or chosen.by_row else _draws(chosen, n, cells, row_records),
        )

    def price(self) -> list[str]:
        """The cost of the release, as lines to print. Needs no data."""
        total = f"epsilon = {shown(self.epsilon)}, delta = {shown(self.delta)}, adjacency: {self.form.neighbours.word}"
        if self.selection is not None:
            spent = shown(decimal_up(self.selection.epsilon, digits=4))
            total += f"; {spent} of epsilon chooses the support (threshold {self.selection.threshold} records)"
        lines = [
            total,
            *(claim.in_words for claim in self.claims()),
            *_price(self.form, cells=self.row_cells, row_records=self.row_records),
        ]
        if self.draws is not None:
            planned = self.form.planned_concentrations(1, self.row_cells, self.row_records)[0]
            lines.append(
                f"{self.draws:,} draws per row, {self.draws * len(self.labels):,} in all: they add {planned / self.draws:.1%} to the"
                f" variance of a row of {self.row_records:,.0f} records."
            )
        return lines

    def claims(self) -> list[Claim]:
        """The (epsilon, delta) of each change that the statement covers. Needs no data."""
        return claims_of(self.form, self.selection, epsilon=self.epsilon, delta=self.delta)

    def statement(self) -> Statement:
        """The privacy statement. Needs no data."""
        return build(
            self.form,
            epsilon=self.epsilon,
            delta=self.delta,
            selection=self.selection,
            support=_SUPPORTS[self.support_policy],
            draws=None if self.form.noisy else _BY_ROW if self.draws is None else self.draws,
            planned={"records_a_row": self.row_records, "cells_a_row": self.row_cells},
            n_states=len(self.labels),
        )

    def due(self) -> Due:
        """The charge: (epsilon, delta) of the whole release, under its neighbouring relation and unit."""
        what = f"privatize-model, {self.form.name}, {len(self.labels)} states"
        return Due(self.form.neighbours.word, Charge(self.epsilon, self.delta, what))

    def draw(self, records: Records) -> PrivateModel:
        """The private model of the records. Every call is a new release and spends (epsilon, delta) again.

        Raises:
            RecordError: if drawing fails; the message quotes no content.
        """
        return sealed("drawing the private model", lambda: self._draw(records))

    def _draw(self, records: Records) -> PrivateModel:
        n = len(self.labels)
        if records.bound != self.form.neighbours.persons:
            raise RecordError(
                "the bound on the records of each person differs from the plan's bound: read the records with the plan's PersonBound, or"
                " without one if the plan has none"
            )
        pairs = checked_pairs(records.counts, n)
        support = self.selection.select(pairs, n) if self.selection is not None else self.support
        assert support is not None
        form = self.form.fitted(supported_totals(pairs, support), support.sum(axis=1))
        draws = np.full(n, self.draws) if self.draws is not None else resolution(form.planned_concentrations(n, 0, 0.0))
        return draw_model(pairs, self.labels, form=form, support=support, draws=draws)


def _mask(support: np.ndarray | str, n: int) -> tuple[np.ndarray | None, str]:
    if isinstance(support, str):
        require(support in ("all", "private"), "support", support, 'give a mask, "all" or "private"')
        return (None, "private") if support == "private" else (np.ones((n, n), dtype=bool), "all")
    mask = np.asarray(support)
    require(mask.shape == (n, n) and mask.dtype == bool, "support", mask.shape, f"give an ({n}, {n}) matrix of booleans")
    require(bool(mask.any(axis=1).all()), "support", None, "give every state an allowed transition", problem="has an empty row")
    return mask, "public"


def _draws(form: ExactSampler, n: int, cells: int, row_records: float) -> int:
    return int(resolution(form.planned_concentrations(n, cells, row_records))[0])


def _cut(epsilon: float, delta: float, share: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """(epsilon, delta) of the selection and of the model. Their sums are at most the printed decimals of the whole."""
    whole = as_written(epsilon), as_written(delta)
    first = tuple(float_down(x * Fraction(share)) for x in whole)
    rest = tuple(float_down(x - Fraction(y)) for x, y in zip(whole, first, strict=True))
    return (first[0], first[1]), (rest[0], rest[1])


SIZES = (10, 100, 1_000, 10_000, 100_000)


def _price(form: ExactSampler, *, cells: int, row_records: float) -> list[str]:
    """The price as lines. cells, row_records: the public planning figures of a typical row."""
    head = form.price_head(cells)
    if form.neighbours.persons is not None:
        head += (
            f" Persons are protected: {form.neighbours.persons.in_words()}; the errors below do not include the records left out."
        )
    return [head, *_table(form, cells), *_coarser(form, cells, row_records)]


def _table(form: ExactSampler, cells: int) -> list[str]:
    head = f"Expected error of a row (total variation, 0 to 1; shares falling as 1/rank over {cells} cells):"
    lines = [head, f"{'records in the row':>20}{'this release':>14}{'discrete Laplace':>18}{'uniform, free':>15}  best"]
    for n in SIZES:
        errors = {
            "this release": form.expected_error(n, cells),
            "discrete Laplace": laplace_error(n, cells, form.epsilon, form.neighbours.l1),
            "the uniform row": uniform_error(cells),
        }
        best = min(reversed(errors), key=lambda name: errors[name])  # of equal errors the uniform row, which is free
        lines.append(f"{n:>20,}{''.join(f'{e:>{w}.3f}' for e, w in zip(errors.values(), (14, 18, 15), strict=True))}  {best}")
    lines.append(
        "Discrete Laplace: two-sided geometric noise on every count, pure epsilon, floored at 1/2 and renormalised; simulated on"
        " invented rows."
    )
    return lines


def _coarser(form: ExactSampler, cells: int, row_records: float) -> list[str]:
    """Lines with the error of fewer, coarser states at the same guarantee."""
    lines = ["Coarser states, 2, 4 or 8 merged into one (a merged row has that many times the records):"]
    sizes = {-(-cells // merged): row_records * merged for merged in (8, 4, 2, 1)}
    for fewer, records in reversed(sizes.items()):
        if fewer >= 2:
            other = form.coarser(fewer, records)
            lines.append(f"{fewer:>8} cells: error {other.expected_error(records, fewer):.3f} at {records:,.0f} records")
    return lines


_SEVERAL = {
    "replace": "m records replaced by any others",
    "add-remove": "m records added or removed",
    "replace-within-row": "m records moved within their rows",
}
GROUP = {"epsilon": "m * epsilon", "delta": "m * exp((m - 1) * epsilon) * delta"}
SUM = "the sum of what the support and the model cost"
_TWO_STEPS = "by group privacy in two steps, removal and addition"


class Spent(NamedTuple):
    """The budget that a private selection of the support spends, under the form's relation and unit."""

    epsilon: float
    delta: float


def claims_of(form: ExactSampler, selection: ThresholdedSelection | Spent | None, *, epsilon: float, delta: float) -> list[Claim]:
    """The claims of the whole release: first for its own relation; under "add-remove" also for a replacement, if its delta is below 1."""
    relation, unit = form.neighbours.relation, form.neighbours.unit
    found = [Claim(relation=relation, unit=unit, epsilon=epsilon, delta=delta, basis=form.accountant if selection is None else SUM)]
    if relation == "add-remove":
        replaced = form.replaced()
        cost = None if replaced is None else _whole(replaced, selection)
        if cost is None:
            cost = _steps(epsilon, delta)
        if cost is not None:
            found.append(Claim(relation="replace", unit=unit, epsilon=decimal_up(cost.epsilon), delta=cost.delta, basis=cost.basis))
    return found


def who(neighbours: Neighbours) -> str:
    """A paragraph that says whether persons are protected and what several records cost."""
    persons = neighbours.persons
    if persons is None:
        several = _SEVERAL[neighbours.relation]
        return (
            f"A record is one transition from a state to a state, counted once. Records are protected, persons are not: {several} cost at"
            " most (m epsilon, m e^((m-1) epsilon) delta), by group privacy; nothing better is claimed."
        )
    return (
        f"Persons are protected: {persons.in_words()}, a uniformly random part of that person's own records, and the rest left out before"
        " anything else is done. Each value of the column of identifiers counts as one person: a person with two identifiers counts as two,"
        " and records without an identifier were left out. Not covered: what one person's records say about another person."
    )


def _whole(replaced: Replaced, selection: ThresholdedSelection | Spent | None) -> Replaced | None:
    """The cost of a replacement in the form plus in the selection of the support; None if its delta is not below 1."""
    epsilon, delta, basis = replaced.epsilon, Fraction(replaced.delta), replaced.basis
    if selection is not None:
        epsilon, delta = epsilon + 2 * as_written(selection.epsilon), delta + Fraction(selection.delta)
        basis = f"{SUM}; the model: {basis}"
    return Replaced(epsilon, decimal_up(delta), basis) if decimal_up(delta) < 1 else None


def _steps(epsilon: float, delta: float) -> Replaced | None:
    """The cost of two steps of (epsilon, delta) by group privacy; None if its delta is not below 1."""
    found = group_delta(2, Fraction(epsilon), Fraction(delta))
    if found is None or decimal_up(found) >= 1:
        return None
    return Replaced(2 * as_written(epsilon), decimal_up(found), _TWO_STEPS)


FORMAT = "dpjax privacy statement, version 2"
_FIRST = "dpjax privacy statement, version 1"
_NOT_PROTECTED = (
    "Not protected: the list of states, a public support, the parameters in this statement, and what can be concluded whether or not any"
    " one {unit} is in the data. Further releases from the same records add to what this one spends; keep a ledger."
)


def build(
    form: ExactSampler,
    *,
    epsilon: float,
    delta: float,
    selection: ThresholdedSelection | None,
    support: str,
    draws: int | str | None,
    planned: Mapping[str, float],
    n_states: int,
) -> Statement:
    """The privacy statement of a model.

    Args:
        form: the exact sampler.
        epsilon, delta: of the whole release, at least the sum of the form's and the selection's.
        selection: the private selection of the support, or None.
        support: a sentence about the support.
        draws: the public M, a sentence, or None if nothing is drawn from rows.
        planned: the public planning figures.
        n_states: number of states.
    """
    values: dict[str, Any] = {
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "epsilon": epsilon,
        "delta": delta,
        "adjacency": form.neighbours.word,
        "form": form.name,
        **form.facts(),
        **form.neighbours.facts(),
        "accountant": form.accountant,
        **({} if selection is None else {"model_epsilon": form.epsilon, "model_delta": form.delta, **selection.facts()}),
        "support": support,
        "states": n_states,
        **({} if draws is None else {"draws_a_row": draws}),
        "zero_cells": form.zero_cells,
        "planning_figures": dict(planned),
        "random_source": "os.urandom; whole-number arithmetic, no seed",
        "versions": versions(),
        **_said(form, claims_of(form, selection, epsilon=epsilon, delta=delta)),
    }
    return Statement(values)


def restated(statement: Mapping[str, Any]) -> Statement:
    """A statement of version 1 with the claims of version 2, computed from its own parameters.

    `delta` and the claims include what a private support really spends (`selection.true_delta`).

    Raises:
        ValueError: for a statement of another version, or if a number of a part is missing.
    """
    require(statement.get("format") == _FIRST, "format", statement.get("format"), f"give a {_FIRST}")
    delta, selection, own = true_delta(statement), None, statement
    if "selection_threshold" in statement:
        require(
            "model_epsilon" in statement,
            "statement",
            None,
            WRITTEN,
            problem="has no model_epsilon",
        )
        own = {**statement, "epsilon": statement["model_epsilon"], "delta": statement["model_delta"]}
        selection = Spent(statement["selection_epsilon"], selection_spent(statement))
    form = _form(own)
    found = claims_of(form, selection, epsilon=statement["epsilon"], delta=delta)
    return Statement({**statement, "delta": delta, "format": FORMAT, "restates": _FIRST, **_said(form, found)})


def _said(form: ExactSampler, found: list[Claim]) -> dict[str, Any]:
    """The fields of a statement that depend on the claims `found`."""
    bound = form.neighbours.persons
    persons = {} if bound is None else {"records_a_person": bound.records}
    return {
        "claims": [claim.fields() for claim in found],
        **({"group_privacy": GROUP} if bound is None else {}),
        "hidden": form.sentences(),
        "meaning": [claim.in_words for claim in found],
        "who": who(form.neighbours),
        "not_hidden": _NOT_PROTECTED.format(unit=found[0].unit),
        "error_bars": BARS.format(of=speaks_of(persons)),
    }


def _form(statement: Mapping[str, Any]) -> ExactSampler:
    """The sampler that a statement of version 1 without a private support describes, verified again. Version 1 had no other forms."""
    common: dict[str, Any] = {"epsilon": statement["epsilon"], "delta": statement["delta"]}
    if statement["form"] == "paper":
        return ExactDirichlet(**common, neighbours=Neighbours("replace-within-row"), eta=statement["eta"])
    word, persons = statement["adjacency"], None
    if word.endswith("-person"):
        persons = PersonBound(statement["records_a_person"], statement.get("records_a_person_and_row"))
    common["neighbours"] = Neighbours(word.removesuffix("-person"), persons)
    if statement["form"] == "theorem7":
        scale, alpha = Fraction(statement["scale_exactly"]), Fraction(statement["pseudocount_exactly"])
        return ExactPseudocount(**common, scale=scale, pseudocount=alpha)
    noise = {"discrete-laplace": ExactLaplace, "discrete-gaussian": ExactGaussian}[statement["form"]]
    parameter = statement.get("noise_scale_exactly") or statement["noise_variance_exactly"]
    return noise(**common, parameter=Fraction(parameter))
