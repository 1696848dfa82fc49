"""A release from beginning to end: a plan made of public numbers, and the one step that reads the records.

`Plan.make` fixes the mechanism, the support or its selection, and the number of draws. `Plan.price` and `Plan.statement` are
functions of the plan alone. `Plan.draw` takes the records and returns the private model, and nothing else of them.

With a private support the budget is cut: `share` of epsilon and of delta goes to the selection and the rest to the model, in
rationals, so that the two never add up to more than the whole.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dpjax._decimals import decimal_up, shown
from dpjax._errors import require
from dpjax.counts.pseudocount import Adjacency
from dpjax.release.claims import Claim, claims
from dpjax.release.forms import Form, price
from dpjax.release.model import PrivateModel, draw_model, resolution, supported_totals
from dpjax.release.noise_form import NoiseForm
from dpjax.release.paper_form import PaperForm
from dpjax.release.rationals import float_down
from dpjax.release.secret import RecordError, Records, checked_pairs, sealed
from dpjax.release.selection import ThresholdedSelection
from dpjax.release.statement import build
from dpjax.release.theorem7 import Theorem7Form
from dpjax.release.unit import PersonBound

FormName = Literal["theorem7", "paper", "discrete-laplace", "discrete-gaussian"]
_SUPPORTS = {
    "all": "all pairs of the public labels",
    "public": "a public list of allowed pairs; records outside it were left out, which the guarantee covers",
    "private": "selected privately, its cost part of epsilon and delta; a state for which nothing was selected keeps all pairs",
}


_BY_ROW = "20 for each unit of the row's concentration, at least 100"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """Everything that is public about a release, fixed before the records are read. Make it with `Plan.make`.

    support: (n, n) booleans, or None where `selection` chooses it. draws: M for every row, or None where the form decides row by
    row. row_records, row_cells: planning figures, public guesses that set alpha and M and never limit the data.
    """

    labels: tuple[str, ...]
    epsilon: float
    delta: float
    form: Form
    support: np.ndarray | None
    support_policy: str
    selection: ThresholdedSelection | None
    row_records: float
    row_cells: int
    draws: int | None

    @classmethod
    def make(
        cls,
        labels: tuple[str, ...],
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency = "replace",
        support: np.ndarray | str = "all",
        share: float = 0.3,
        form: FormName = "theorem7",
        eta: float | None = None,
        pseudocount: float | None = None,
        row_records: float = 1000.0,
        row_cells: int | None = None,
        draws: int | None = None,
        records_per_person: int | None = None,
        per_row: int | None = None,
    ) -> Plan:
        """The plan for these public inputs; ValueError for what no plan can be made of.

        support: a public (n, n) mask, "all" pairs, or "private". share: of the budget for a private support. form: "theorem7",
        "paper" with its floor eta, or noisy counts, "discrete-laplace" (which spends no delta) or "discrete-gaussian". pseudocount,
        draws: None (chosen from the planning figures) or your own. records_per_person: persons are protected, of each of whom so
        many records are kept at most, and per_row of them in a row; `draw` then takes records that were bounded so.
        """
        n = len(labels)
        require(n >= 2 and len(set(labels)) == n, "labels", n, "give two or more, each once")
        require(1e-9 <= epsilon <= 1e9, "epsilon", epsilon, "give a number from 1e-9 to 1e9 (nats)", must="be positive and finite")
        pure = form == "discrete-laplace" and delta == 0
        between = "it must lie strictly between 0 and 1: give one from 1e-300 (or 0 for discrete Laplace noise)"
        require(pure or 1e-300 <= delta < 1, "delta", delta, between)
        require(records_per_person is not None or per_row is None, "per_row", per_row, "give the records per person too")
        persons = None if records_per_person is None else PersonBound(records_per_person, per_row)
        require(1e-3 <= row_records <= 1e12, "row_records", row_records, "give a number from 0.001 to 1e12")
        fits = pseudocount is None or 1e-3 <= pseudocount <= 1e9
        require(fits, "pseudocount", pseudocount, "give a number from 0.001 to 1e9, or leave it out for the best")
        mask, policy = _mask(support, n)
        selection, rest = None, (epsilon, delta)
        if mask is None:
            require(form != "paper", "support", "private", "give a public support, which the paper's form needs")
            require(delta > 0, "delta", delta, "give a delta above 0, which a private support spends")
            require(1e-6 <= share <= 1 - 1e-6, "share", share, "give a share of the budget from 1e-6 to 1 - 1e-6, such as 0.3")
            (spent, rest) = _cut(epsilon, delta, share)
            if form == "discrete-laplace":
                spent, rest = (spent[0], delta), (rest[0], 0.0)
            selection = ThresholdedSelection.calibrate(epsilon=spent[0], delta=spent[1], adjacency=adjacency, persons=persons)
        widest = n if mask is None else int(mask.sum(axis=1).max())
        require(row_cells is None or 2 <= row_cells <= n, "row_cells", row_cells, f"give a whole number from 2 to {n}, the states")
        cells = max(2, widest) if row_cells is None else row_cells
        require(draws is None or 1 <= draws <= 2**31, "draws", draws, "give a number of draws from 1 to 2^31")
        chosen = _form(form, rest, adjacency, eta, pseudocount, cells, row_records, persons)
        require(draws is None or not chosen.noisy, "draws", draws, "noisy counts are not drawn from a row: leave it out")
        return cls(
            labels=labels,
            epsilon=epsilon,
            delta=delta if selection is not None or form != "discrete-laplace" else 0.0,
            form=chosen,
            support=mask,
            support_policy=policy,
            selection=selection,
            row_records=row_records,
            row_cells=cells,
            draws=draws if draws is not None or form != "theorem7" else _draws(chosen, n, cells, row_records),
        )

    def price(self) -> list[str]:
        """What the release will cost, in lines to print; no data are needed."""
        total = f"epsilon = {shown(self.epsilon)}, delta = {shown(self.delta)}, adjacency: {self.form.neighbours}"
        if self.selection is not None:
            spent = shown(decimal_up(self.selection.epsilon, digits=4))
            total += f"; {spent} of epsilon chooses the support (threshold {self.selection.threshold} records)"
        lines = [
            total,
            *(claim.in_words for claim in self.claims()),
            *price(self.form, cells=self.row_cells, row_records=self.row_records),
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
        return claims(self.form, self.selection, epsilon=self.epsilon, delta=self.delta)

    def statement(self) -> dict[str, Any]:
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

    def draw(self, records: Records) -> PrivateModel:
        """One release of the records; every call spends (epsilon, delta) again. RecordError, without content, if it fails."""
        return sealed("drawing the private model", lambda: self._draw(records))

    def _draw(self, records: Records) -> PrivateModel:
        n = len(self.labels)
        if records.bound != self.form.persons:
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


def _form(
    name: FormName,
    budget: tuple[float, float],
    adjacency: Adjacency,
    eta: float | None,
    pseudocount: float | None,
    cells: int,
    row_records: float,
    persons: PersonBound | None,
) -> Form:
    if name == "paper":
        require(persons is None, "records_per_person", persons, "leave it out: the paper's form protects records, within their row")
        require(eta is not None, "eta", eta, "give the public floor that every share is assumed to keep", problem="is not given")
        require(adjacency == "replace", "adjacency", adjacency, "give replace: the paper's form replaces a record within its row")
        require(pseudocount is None, "pseudocount", pseudocount, "leave it out: the paper's form has none")
        return PaperForm(epsilon=budget[0], delta=budget[1], eta=float(eta or 0))
    require(eta is None, "eta", eta, "leave it out: only the paper's form assumes a floor")
    if name != "theorem7":
        require(pseudocount is None, "pseudocount", pseudocount, "leave it out: noisy counts have none")
        return NoiseForm.calibrate(name, epsilon=budget[0], delta=budget[1], adjacency=adjacency, persons=persons)
    return Theorem7Form.calibrate(
        epsilon=budget[0],
        delta=budget[1],
        adjacency=adjacency,
        cells=cells,
        row_records=row_records,
        pseudocount=pseudocount,
        persons=persons,
    )


def _draws(form: Form, n: int, cells: int, row_records: float) -> int:
    return int(resolution(form.planned_concentrations(n, cells, row_records))[0])


def _cut(epsilon: float, delta: float, share: float) -> tuple[tuple[float, float], tuple[float, float]]:
    """(epsilon, delta) of the selection and of the model, together at most the whole."""
    first = tuple(float_down(Fraction(x) * Fraction(share)) for x in (epsilon, delta))
    rest = tuple(float_down(Fraction(x) - Fraction(y)) for x, y in zip((epsilon, delta), first, strict=True))
    return (first[0], first[1]), (rest[0], rest[1])
