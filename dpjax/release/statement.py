"""The privacy statement: what was done, what is protected, what is not, and the numbers; a function of public inputs alone.

`build` takes no counts and no model, so that nothing of the data can get into it. What is claimed is the list `claims` (see
`dpjax.release.claims`), values and one sentence each; `restated` makes that of a statement of version 1, whose sentence was false under
"add-remove".
"""

from __future__ import annotations

import datetime
import importlib.metadata
import platform
import textwrap
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import dpjax
from dpjax._errors import require
from dpjax.release.claims import GROUP, Claim, claims, relation_and_unit, who
from dpjax.release.forms import Form
from dpjax.release.noise_form import NoiseForm
from dpjax.release.paper_form import PaperForm
from dpjax.release.selection import ThresholdedSelection
from dpjax.release.theorem7 import Theorem7Form
from dpjax.release.unit import PersonBound

FORMAT = "dpjax privacy statement, version 2"
_FIRST = "dpjax privacy statement, version 1"
_NOT_PROTECTED = (
    "Not protected: the list of states, a public support, the parameters in this statement, and what can be concluded whether or not any"
    " one {unit} is in the data. Further releases from the same records add to what this one spends; keep a ledger."
)
_BARS = "dpjax.release.error_bars(FOLDER) computes them from this release alone; they speak of {of}"
KEPT = (
    "the shares among the records kept, at most {records} of a person. Of the shares among all records of the persons nothing is promised:"
    " they may lie outside the bars far more often"
)
SUPPORTED = "the shares among the records within the support"


def build(
    form: Form,
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
        "adjacency": form.neighbours,
        "form": form.name,
        **form.facts(),
        **_persons(form),
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

    Raises: ValueError for a statement of another version, and for one with a private support, whose own cost was stated wrongly too.
    """
    require(statement.get("format") == _FIRST, "format", statement.get("format"), f"give a {_FIRST}")
    require("selection" not in statement, "support", "private", "its support spent more than it says too: see SECURITY.md")
    form = _form(statement)
    found = claims(form, None, epsilon=statement["epsilon"], delta=statement["delta"])
    return {**statement, "format": FORMAT, "restates": _FIRST, **_said(form, found)}


def speaks_of(statement: Mapping[str, Any]) -> str:
    """Of which shares the error bars of this release speak."""
    records = statement.get("records_a_person")
    return SUPPORTED if records is None else KEPT.format(records=records)


def _said(form: Form, found: list[Claim]) -> dict[str, Any]:
    """What is said of a form with these claims."""
    persons = {} if form.persons is None else {"records_a_person": form.persons.records}
    return {
        "claims": [claim.fields() for claim in found],
        **({"group_privacy": GROUP} if form.persons is None else {}),
        "hidden": form.sentences(),
        "meaning": [claim.in_words for claim in found],
        "who": who(form),
        "not_hidden": _NOT_PROTECTED.format(unit=found[0].unit),
        "error_bars": _BARS.format(of=speaks_of(persons)),
    }


def _form(statement: Mapping[str, Any]) -> Form:
    """The form that a statement without a private support describes, verified again."""
    relation, unit = relation_and_unit(statement["adjacency"])
    persons = None
    if unit == "person":
        persons = PersonBound(statement["records_a_person"], statement.get("records_a_person_and_row"))
    common: dict[str, Any] = {"epsilon": statement["epsilon"], "delta": statement["delta"]}
    if statement["form"] == "paper":
        return PaperForm(**common, eta=statement["eta"])
    common |= {"adjacency": relation, "persons": persons}
    if statement["form"] == "theorem7":
        scale, alpha = Fraction(statement["scale_exactly"]), Fraction(statement["pseudocount_exactly"])
        return Theorem7Form(**common, scale=scale, pseudocount=alpha)
    parameter = statement.get("noise_scale_exactly") or statement["noise_variance_exactly"]
    return NoiseForm(**common, name=statement["form"], parameter=Fraction(parameter))


_ELSEWHERE = (
    *("format", "hidden", "meaning", "who", "not_hidden", "claims", "group_privacy"),
    *("versions", "planning_figures", "created"),
)


def in_words(statement: Mapping[str, Any]) -> str:
    """The statement as text."""
    paragraphs = [*statement["hidden"], *statement["meaning"], statement["who"], statement["not_hidden"]]
    lines = ["PRIVACY STATEMENT", "=" * 17, ""]
    for paragraph in paragraphs:
        lines += [*textwrap.wrap(paragraph, 100), ""]
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


def _persons(form: Form) -> dict[str, Any]:
    if form.persons is None:
        return {}
    per_row = form.persons.per_row
    return {"records_a_person": form.persons.records, **({} if per_row is None else {"records_a_person_and_row": per_row})}
