"""The privacy statement: what was done, what is hidden, what is not, and the numbers; a function of public inputs alone.

`build` takes no counts and no model, so that nothing of the data can get into it.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import platform
import textwrap
from collections.abc import Mapping
from typing import Any

import dpjax
from dpjax.release.forms import Form
from dpjax.release.selection import ThresholdedSelection
from dpjax.release.unit import changed, who

_MEANING = (
    "Whoever sees the release, whatever else they know, learns almost the same as if {changed} had been {otherwise}: the probability of"
    " anything they may conclude changes by a factor of at most e^epsilon = {factor:.4g}, up to an additional probability of"
    " delta."
)
_NOT_PROTECTED = (
    "Not hidden: the list of states, the parameters in this statement, and what holds of the population whether or not one of them is in"
    " the data. Further releases from the same records add to what this one spends; keep a ledger."
)


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
        "format": "dpjax privacy statement, version 1",
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
        "hidden": form.sentences(),
        "meaning": _MEANING.format(
            factor=math.exp(min(epsilon, 700.0)),
            changed=changed(form.persons),
            otherwise="another" if form.persons is None else "others",
        ),
        "who": who(form.persons),
        "not_hidden": _NOT_PROTECTED,
        "error_bars": "dpjax.release.error_bars(FOLDER) computes them from this release alone",
    }


def in_words(statement: Mapping[str, Any]) -> str:
    """The statement as text."""
    told = ("format", "hidden", "meaning", "who", "not_hidden", "versions", "planning_figures", "created")
    paragraphs = [*statement["hidden"], statement["meaning"], statement["who"], statement["not_hidden"]]
    lines = ["PRIVACY STATEMENT", "=" * 17, ""]
    for paragraph in paragraphs:
        lines += [*textwrap.wrap(paragraph, 100), ""]
    rows = [(key.replace("_", " "), value) for key, value in statement.items() if key not in told]
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
