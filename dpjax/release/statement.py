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
from dpjax.counts import ExactSampler, Neighbours, PersonBound
from dpjax.counts.dirichlet import ExactDirichlet
from dpjax.counts.discrete_gaussian import ExactGaussian
from dpjax.counts.discrete_laplace import ExactLaplace
from dpjax.counts.pseudocount import ExactPseudocount
from dpjax.release.claims import GROUP, Claim, claims, who
from dpjax.release.selection import ThresholdedSelection

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
