"""What a release claims: the neighbouring relation, the protected unit, and the (epsilon, delta) of each change, as values and in words.

A claim speaks of any two databases x, x' that differ by one change of its relation, and of any set S of releases:

    P(M(x) in S) <= e^epsilon P(M(x') in S) + delta,      in both orders.

The words are made from the values, and the values are printed as they are: e^epsilon is rounded up, a given epsilon or delta is printed in
full, a computed one is rounded up to six digits first.

    relation              unit      one change
    "replace"             record    one record replaced by any other, in the same row or in another
    "replace"             person    all records of one person replaced by any others
    "add-remove"          record    one record more or fewer
    "add-remove"          person    one person more or fewer, with all their records
    "replace-within-row"  record    one record moved to another cell of its row

*Under "add-remove" a replacement is no single change*, but one removal and one addition. It has a claim of its own: that of the form under
replacement, by the accountant of the same noise, plus that of a private selection of the support: twice its epsilon and its delta, since the
theorem of `selection` holds for counts that differ by 2 L at twice epsilon, and delta counts the pairs that are new on one side alone. k steps
of an (epsilon, delta)-private mechanism cost (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))) (group privacy). Under "replace-
within-row" the databases between two that keep the floor keep it too: move one record at a time from a cell that loses to one that gains, and
every count stays between its ends.

The privacy statement: what was done, what is protected, what is not, and the numbers; a function of public inputs alone.

`build` takes no counts and no model, so that nothing of the data can get into it. What is claimed is the list `claims` (see
`dpjax.release.statement`), values and one sentence each; `restated` makes that of a statement of version 1, whose sentence was false under
"add-remove".
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import math
import platform
import textwrap
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

import dpjax
from dpjax._errors import require
from dpjax._rationals import as_written, decimal_up, shown
from dpjax.counts import ExactSampler, Neighbours, PersonBound
from dpjax.counts.dirichlet import ExactDirichlet
from dpjax.counts.discrete_gaussian import ExactGaussian
from dpjax.counts.discrete_laplace import ExactLaplace
from dpjax.counts.protocol import Replaced
from dpjax.counts.pseudocount import ExactPseudocount
from dpjax.release.selection import WRITTEN, ThresholdedSelection, selection_spent, true_delta

_CHANGES = {
    ("replace", "record"): "Replacing one record by any other",
    ("replace", "person"): "Replacing all records of one person by any others",
    ("add-remove", "record"): "Adding or removing one record",
    ("add-remove", "person"): "Adding or removing one person with all their records",
    ("replace-within-row", "record"): "Moving one record to another possible cell of its row",
}
_SEVERAL = {
    "replace": "m records replaced by any others",
    "add-remove": "m records added or removed",
    "replace-within-row": "m records moved within their rows",
}
GROUP = {"epsilon": "m * epsilon", "delta": "m * exp((m - 1) * epsilon) * delta"}
SUM = "the sum of what the support and the model cost"
_TWO_STEPS = "by group privacy in two steps, removal and addition"
_LARGEST_FACTOR = 20.0  # of epsilon, above which e^epsilon is left as a power
_MARGIN = Fraction(1 + 1e-9)  # over the round-off of a few exponentials


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """(epsilon, delta) of one change of `relation` to one `unit`; basis: how they were found."""

    relation: str
    unit: str
    epsilon: float
    delta: float
    basis: str

    @property
    def factor(self) -> float | None:
        """A decimal of four digits, at least e^epsilon; None where epsilon is above 20."""
        return factor_up(self.epsilon)

    @property
    def in_words(self) -> str:
        """The claim in one sentence."""
        more = f" + {shown(self.delta)}" if self.delta else ""
        return (
            f"{_CHANGES[self.relation, self.unit]} costs epsilon = {shown(self.epsilon)}, delta = {shown(self.delta)}: the probabilities p"
            f" and q of any event of the release, under two databases that differ so, satisfy p <= {shown_factor(self.epsilon)} q{more} in"
            f" either order ({self.basis})."
        )

    def fields(self) -> dict[str, Any]:
        """The claim for machines, with its sentence."""
        return {**dataclasses.asdict(self), "factor": self.factor, "words": self.in_words}


@runtime_checkable
class Selection(Protocol):
    """A private choice of the support, with a budget of its own under the form's relation and unit."""

    @property
    def epsilon(self) -> float:
        """What it spends, nats."""
        ...

    @property
    def delta(self) -> float:
        """What it spends."""
        ...


def claims(form: ExactSampler, selection: Selection | None, *, epsilon: float, delta: float) -> list[Claim]:
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


def group_delta(steps: int, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """delta (1 + e^epsilon + ... + e^((steps-1) epsilon)), rounded up; None where it is 1 or more."""
    if delta == 0 or steps == 1:
        return delta
    try:
        factor = math.expm1(steps * epsilon) / math.expm1(epsilon)
    except OverflowError:
        return None
    found = delta * Fraction(factor) * _MARGIN
    return found if found < 1 else None


def factor_up(epsilon: float) -> float | None:
    """A decimal of four digits, at least e^epsilon; None above epsilon = 20."""
    if epsilon > _LARGEST_FACTOR:
        return None
    return decimal_up(Fraction(math.exp(epsilon)) * _MARGIN, digits=4)


def shown_factor(epsilon: float) -> str:
    """e^epsilon for people: rounded up, or left as a power."""
    factor = factor_up(epsilon)
    return f"e^{shown(epsilon)}" if factor is None else shown(factor)


def _whole(replaced: Replaced, selection: Selection | None) -> Replaced | None:
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
_BARS = "dpjax.release.error_bars(FOLDER) computes them from this release alone; they speak of {of}"
KEPT = (
    "the shares among the records kept, at most {records} of a person, within the support. Of the shares among all records of the persons nothing"
    " is promised: they may lie outside the bars far more often"
)
SUPPORTED = "the shares among the records within the support"


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
) -> dict[str, Any]:
    """The statement as plain values.

    epsilon, delta: of the whole release, at least the form's and the selection's together. support: a sentence. draws: the public
    M, a sentence, or None where nothing is drawn from a row. planned: the public planning figures.
    """
    return {
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
        **_said(form, claims(form, selection, epsilon=epsilon, delta=delta)),
    }


def restated(statement: Mapping[str, Any]) -> dict[str, Any]:
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
        selection = _Spent(statement["selection_epsilon"], selection_spent(statement))
    form = _form(own)
    found = claims(form, selection, epsilon=statement["epsilon"], delta=delta)
    return {**statement, "delta": delta, "format": FORMAT, "restates": _FIRST, **_said(form, found)}


class _Spent(NamedTuple):
    """What a private support spends."""

    epsilon: float
    delta: float


def speaks_of(statement: Mapping[str, Any]) -> str:
    """Of which shares the error bars of this release speak."""
    records = statement.get("records_a_person")
    return SUPPORTED if records is None else KEPT.format(records=records)


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
        "error_bars": _BARS.format(of=speaks_of(persons)),
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


_ELSEWHERE = (
    *("format", "hidden", "meaning", "who", "not_hidden", "claims", "group_privacy"),
    *("versions", "planning_figures", "created"),
)


def in_words(statement: Mapping[str, Any]) -> str:
    """The statement as text."""
    paragraphs = [*statement["hidden"], *statement["meaning"], statement["who"], statement["not_hidden"]]
    lines = ["PRIVACY STATEMENT", "=" * 17, ""]
    for paragraph in paragraphs:
        lines += [*textwrap.wrap(paragraph, 100, break_on_hyphens=False), ""]
    rows = [(key.replace("_", " "), value) for key, value in statement.items() if key not in _ELSEWHERE]
    rows += [(f"planned {key}".replace("_", " "), value) for key, value in statement["planning_figures"].items()]
    rows += [("made with", ", ".join(f"{name} {version}" for name, version in statement["versions"].items()))]
    width = max(len(key) for key, _ in rows)
    for key, value in rows:
        lines += textwrap.wrap(f"{key:<{width}}  {value}", 116, subsequent_indent=" " * (width + 2), drop_whitespace=True)
    return "\n".join(lines) + "\n"


def versions() -> dict[str, str]:
    """What this was made with: dpjax, NumPy, SciPy, JAX and Python."""
    found = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "jax")}
    return {"dpjax": dpjax.__version__, **found, "python": platform.python_version()}
