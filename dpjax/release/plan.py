"""The release of a model from beginning to end: a plan made of public numbers, and the one step that reads the records.

`Plan.make` fixes the mechanism, the support or its selection, and the number of draws. Price, claims, statement and what a ledger is charged
are functions of the plan alone (`dpjax.release.statement`). `Plan.draw` takes the records and returns the private model, and nothing else
of them.

With a private support the budget is cut: `share` of epsilon and of delta goes to the selection and the rest to the model, in
rationals, so that the two never add up to more than the whole.

*The price*, for rows of several sizes: the expected error (total variation) of the mechanism chosen, of discrete Laplace counts at the same
epsilon, and of the uniform row, which costs nothing, on the reference row of `dpjax.counts.postprocess`. Then what coarser states would do: merging
states by twos halves the cells of a row, and its pseudo-records, and doubles its records.

*Under "add-remove" a replacement is no single change*, but one removal and one addition. It has a claim of its own: that of the form under
replacement, by the accountant of the same noise, plus that of a private selection of the support: twice its epsilon and its delta, since the
theorem of `selection` holds for counts that differ by 2 L at twice epsilon, and delta counts the pairs that are new on one side alone. k steps
of an (epsilon, delta)-private mechanism cost (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))) (group privacy). Under "replace-
within-row" the databases between two that keep the floor keep it too: move one record at a time from a cell that loses to one that gains, and
every count stays between its ends.

*The statement* (`build`) takes no counts and no model, so that nothing of the data can get into it. `restated` makes that of a statement of
version 1, whose sentence was false under "add-remove".
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
    "private": "selected privately, its cost part of epsilon and delta; a state for which nothing was selected keeps all pairs",
}


_BY_ROW = "20 for each unit of the row's concentration, at least 100"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Plan(ReleasePlan):
    """Everything that is public about a release, fixed before the records are read. Make it with `Plan.make`.

    form: what the release draws with, an `ExactSampler`; nothing that draws floats is taken. support: (n, n) booleans, or None where
    `selection` chooses it. draws: M for every row, or None where the sampler decides row by row. row_records, row_cells: planning figures,
    public guesses that set alpha and M and never limit the data.
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
        """The plan for these public inputs; ValueError for what no plan can be made of.

        support: a public (n, n) mask, "all" pairs, or "private". share: of the budget for a private support. form: a mechanism of
        `dpjax.counts` that has an exact sampler: "pseudocount" ("theorem7"), "dirichlet" ("paper") with its floor eta, or noisy counts,
        "discrete-laplace" (which spends no delta) or "discrete-gaussian". pseudocount, draws: None (chosen from the planning figures) or your
        own. options: further options of the mechanism by name. records_per_person: persons are protected, of each of whom so many records
        are kept at most, and per_row of them in a row; `draw` then takes records that were bounded so.
        """
        labels = public_labels(labels)
        n = len(labels)
        require(n >= 2 and len(set(labels)) == n, "labels", n, "give two or more, each once")
        given = {"epsilon": epsilon, "delta": delta, "row_records": row_records, "pseudocount": pseudocount, "share": share}
        for name, number in given.items():
            real = isinstance(number, numbers.Real | Decimal) and not isinstance(number, bool)
            require(real or (name == "pseudocount" and number is None), name, number, "give a number")
        require(1e-9 <= epsilon <= 1e9, "epsilon", epsilon, "give a number from 1e-9 to 1e9 (nats)", must="be positive and finite")
        kind = counts.mechanism(form)
        pure = not kind.spends_delta
        between = "it must lie strictly between 0 and 1: give one from 1e-300 (or 0 for discrete Laplace noise)"
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
        require(draws is None or not chosen.noisy, "draws", draws, "noisy counts are not drawn from a row: leave it out")
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
        """What the release will cost, in lines to print; no data are needed."""
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
                f"{self.draws:,} draws a row, {self.draws * len(self.labels):,} in all: they add {planned / self.draws:.1%} to the"
                f" variance of a row of {self.row_records:,.0f} records."
            )
        return lines

    def claims(self) -> list[Claim]:
        """What the release claims: (epsilon, delta) of each change that is spoken of; no data are needed."""
        return claims_of(self.form, self.selection, epsilon=self.epsilon, delta=self.delta)

    def statement(self) -> Statement:
        """The privacy statement; no data are needed."""
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
        """(epsilon, delta) of the whole release, under its neighbouring relation and unit."""
        what = f"privatize-model, {self.form.name}, {len(self.labels)} states"
        return Due(self.form.neighbours.word, Charge(self.epsilon, self.delta, what))

    def draw(self, records: Records) -> PrivateModel:
        """One release of the records; every call spends (epsilon, delta) again. RecordError, without content, if it fails."""
        return sealed("drawing the private model", lambda: self._draw(records))

    def _draw(self, records: Records) -> PrivateModel:
        n = len(self.labels)
        if records.bound != self.form.neighbours.persons:
            raise RecordError("the records of each person must be bounded as the plan says, or by nothing where it says nothing")
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
    """(epsilon, delta) of the selection and of the model, together at most the decimals that the whole prints as."""
    whole = as_written(epsilon), as_written(delta)
    first = tuple(float_down(x * Fraction(share)) for x in whole)
    rest = tuple(float_down(x - Fraction(y)) for x, y in zip(whole, first, strict=True))
    return (first[0], first[1]), (rest[0], rest[1])


SIZES = (10, 100, 1_000, 10_000, 100_000)


def _price(form: ExactSampler, *, cells: int, row_records: float) -> list[str]:
    """The lines to print; cells and row_records are the public planning figures of the typical row."""
    head = form.price_head(cells)
    if form.neighbours.persons is not None:
        head += (
            f" Persons are protected: {form.neighbours.persons.in_words()}; what that leaves out is no part of the errors below."
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
        best = min(reversed(errors), key=lambda name: errors[name])  # where all are alike, the one that is free
        lines.append(f"{n:>20,}{''.join(f'{e:>{w}.3f}' for e, w in zip(errors.values(), (14, 18, 15), strict=True))}  {best}")
    lines.append(
        "Discrete Laplace: two-sided geometric noise on every count, pure epsilon, floored at 1/2 and renormalised; simulated on"
        " invented rows."
    )
    return lines


def _coarser(form: ExactSampler, cells: int, row_records: float) -> list[str]:
    """What fewer, coarser states would cost at the same guarantee."""
    lines = ["Coarser states, merged by twos, fours and eights (a merged row holds that many times the records):"]
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
    """What a private choice of the support spends, under the form's relation and unit."""

    epsilon: float
    delta: float


def claims_of(form: ExactSampler, selection: ThresholdedSelection | Spent | None, *, epsilon: float, delta: float) -> list[Claim]:
    """What is claimed of the whole release: its own relation first; under "add-remove" then a replacement, where its delta is below 1."""
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
    """Whether persons are protected, and what several records cost."""
    persons = neighbours.persons
    if persons is None:
        several = _SEVERAL[neighbours.relation]
        return (
            f"A record is one transition from a state to a state, counted once. Records are protected, persons are not: {several} cost at"
            " most (m epsilon, m e^((m-1) epsilon) delta), by group privacy; nothing better is claimed."
        )
    return (
        f"Persons are protected: {persons.in_words()}, a uniformly random part of that person's own records, and the rest left out before"
        " anything else is done. A person is what the column of identifiers calls one: a person with two identifiers counts as two, and"
        " records without an identifier were left out. Not covered: what one person's records say of another."
    )


def _whole(replaced: Replaced, selection: ThresholdedSelection | Spent | None) -> Replaced | None:
    """A replacement in the form and in the selection of the support; None where no delta below 1 follows."""
    epsilon, delta, basis = replaced.epsilon, Fraction(replaced.delta), replaced.basis
    if selection is not None:
        epsilon, delta = epsilon + 2 * as_written(selection.epsilon), delta + Fraction(selection.delta)
        basis = f"{SUM}; the model: {basis}"
    return Replaced(epsilon, decimal_up(delta), basis) if decimal_up(delta) < 1 else None


def _steps(epsilon: float, delta: float) -> Replaced | None:
    """Two steps of (epsilon, delta); None where no delta below 1 follows."""
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
    """The statement of a model.

    epsilon, delta: of the whole release, at least the form's and the selection's together. support: a sentence. draws: the public
    M, a sentence, or None where nothing is drawn from a row. planned: the public planning figures.
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
    """A statement of version 1 with the claims of version 2, found from the parameters that it holds.

    A private support is charged what it really spends (`selection.true_delta`), in the claims and in `delta`.

    Raises: ValueError for a statement of another version, and for one that lacks a number of its parts.
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
    """What is said of a form with these claims."""
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
    """The sampler that a statement of version 1 without a private support describes, verified again; that version knew these alone."""
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
