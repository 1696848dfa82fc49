"""The claims of a release as values, its privacy statement, its price and its charge, all made before any record is read.

A release is of a model (`dpjax.release.plan`) or of a stream of states (`dpjax.release.stream`). Both are a `ReleasePlan`. A `Claim` has a
neighbouring relation, the protected unit, and the (epsilon, delta) of one change. It holds for any two databases or trajectories x, x'
that differ by one change of its relation, and for any set S of releases:

    P(M(x) in S) <= e^epsilon P(M(x') in S) + delta,      in both orders.

The sentences are made from the values: e^epsilon is rounded up; a given epsilon or delta is printed in full; a computed one is first
rounded up to six digits.

    relation              unit      one change
    "replace"             record    one record replaced by any other, in the same row or in another
    "replace"             person    all records of one person replaced by any others
    "add-remove"          record    one record more or fewer
    "add-remove"          person    one person more or fewer, with all their records
    "replace-within-row"  record    one record moved to another cell of its row
    "within rho"          trajectory or identifier: another trajectory of the same length; the sum of their average distances is at most rho
    "one state replaced"  state     one state at one time replaced by any other
    "m states replaced"   state     m states replaced; epsilon is for each state
    "any distance"        trajectory or identifier: any other trajectory of the same length; epsilon is for each unit of length

k steps of an (epsilon, delta)-private mechanism cost (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))): group privacy, `group_delta`.

A `Statement` has plain values under the names of stored statements; `str()` makes the text. It is made from public inputs alone: no
function of this module takes a count, a model or a state of a stream.
"""

from __future__ import annotations

import abc
import importlib.metadata
import json
import math
import platform
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dpjax
from dpjax._rationals import decimal_up, shown
from dpjax.release.ledger import Due

_CHANGES = {
    ("replace", "record"): "Replacing one record by any other",
    ("replace", "person"): "Replacing all records of one person by any others",
    ("add-remove", "record"): "Adding or removing one record",
    ("add-remove", "person"): "Adding or removing one person with all their records",
    ("replace-within-row", "record"): "Moving one record to another possible cell of its row",
}
PROVED, EXACTLY = "the proved bound", "exact"  # the basis of a stream's claim
_LARGEST_FACTOR = 20.0  # above this epsilon, e^epsilon is printed as a power
_MARGIN = Fraction(1 + 1e-9)  # over the round-off of a few exponentials


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The (epsilon, delta) of one change of `relation` to one `unit`.

    Args:
        relation, unit: see the table of this module.
        epsilon, delta: nats, and a probability.
        basis: how epsilon and delta were found.
        each: "state" or "unit" (of length) if epsilon is for each of these and not for the whole change.
        rho: radius of the neighbours of a trajectory, exactly.
        unit_of_rho: unit of rho and of lengths.
    """

    relation: str
    unit: str
    epsilon: float
    delta: float
    basis: str
    each: str | None = None
    rho: str | None = None
    unit_of_rho: str | None = None

    @property
    def factor(self) -> float | None:
        """A decimal of four digits, at least e^epsilon; None if epsilon is above 20 or is not for the whole change."""
        return None if self.each is not None else factor_up(self.epsilon)

    @property
    def in_words(self) -> str:
        """The claim in one sentence."""
        return _SENTENCES.get(self.relation, _change)(self)

    def fields(self) -> dict[str, Any]:
        """The claim as plain values, with its sentence under "words"."""
        lengths = {"rho": self.rho, "unit_of_rho": self.unit_of_rho}
        return {
            "relation": self.relation,
            "unit": self.unit,
            "epsilon" if self.each is None else f"epsilon_a_{self.each}": self.epsilon,
            "delta": self.delta,
            "basis": self.basis,
            **{name: value for name, value in lengths.items() if value is not None},
            **({"factor": self.factor} if self.each is None else {}),
            "words": self.in_words,
        }


def _change(claim: Claim) -> str:
    more = f" + {shown(claim.delta)}" if claim.delta else ""
    return (
        f"{_CHANGES[claim.relation, claim.unit]} costs epsilon = {shown(claim.epsilon)}, delta = {shown(claim.delta)}: the probabilities p"
        f" and q of any event of the release, under two databases that differ so, satisfy p <= {shown_factor(claim.epsilon)} q{more} in"
        f" either order ({claim.basis})."
    )


def _within(claim: Claim) -> str:
    assert claim.rho is not None
    whose, epsilon = "of one identifier " if claim.unit == "identifier" else "", shown(claim.epsilon)
    return (
        f"Trajectories {whose}of the same length are adjacent when the average shortest-path distances (G(i,j) + G(j,i))/2 between their"
        f" states, summed over all times but the first, are at most rho = {_shown_exactly(claim.rho)} {claim.unit_of_rho} (Definition 4)."
        f" The probabilities of any event of the output under two adjacent trajectories differ by a factor of at most e^{epsilon}:"
        f" pure {epsilon}-differential privacy, delta 0. This also covers trajectories with transitions that the chain does not have."
    )


def _one_state(claim: Claim) -> str:
    how = "computed exactly" if claim.basis == EXACTLY else f"{PROVED}; all pairs are too many to compute it exactly"
    return f"Replacing one state at one time by any other costs epsilon {shown(claim.epsilon)} at most ({how})."


def _several_states(claim: Claim) -> str:
    return "m states replaced cost at most m times this epsilon."


def _any_distance(claim: Claim) -> str:
    return (
        f"Trajectories further apart, by d {claim.unit_of_rho} in all, are protected less: they cost at most {shown(claim.epsilon)} d. This"
        " holds at any length, for each pair of trajectories; a person whose every state may change costs the sum over all times, which has no"
        " limit."
    )


_SENTENCES: dict[str, Callable[[Claim], str]] = {
    "within rho": _within,
    "one state replaced": _one_state,
    "m states replaced": _several_states,
    "any distance": _any_distance,
}


def _shown_exactly(value: str) -> str:
    number = Fraction(value)
    return f"{float(number):g}" if Fraction(f"{float(number):g}") == number else str(number)


def group_delta(steps: int, epsilon: Fraction, delta: Fraction) -> Fraction | None:
    """delta (1 + e^epsilon + ... + e^((steps-1) epsilon)), rounded up; None if it is 1 or more."""
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
    """e^epsilon as text: a decimal, rounded up, or a power above epsilon = 20."""
    factor = factor_up(epsilon)
    return f"e^{shown(epsilon)}" if factor is None else shown(factor)


class Statement(dict[str, Any]):
    """The privacy statement of a model or of a stream: a dict of plain values; `str()` gives the text.

    >>> statement = Statement(kind="dpjax private trajectory", epsilon=1.0)
    >>> statement.kind, statement["epsilon"]
    ('stream', 1.0)
    """

    @property
    def kind(self) -> str:
        """The kind of release: "model" or "stream"."""
        return "stream" if self.get("kind") == STREAM else "model"

    @property
    def fields(self) -> dict[str, Any]:
        """The plain values."""
        return dict(self)

    def json(self) -> str:
        """Indented JSON."""
        return json.dumps(self, indent=2, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return "\n".join(_TEXTS[self.kind](self)) + "\n"


STREAM = "dpjax private trajectory"  # `kind` of the stored statement of a stream; the statement of a model has a `format`
_ELSEWHERE = (
    *("format", "hidden", "meaning", "who", "not_hidden", "claims", "group_privacy"),
    *("versions", "planning_figures", "created"),
)


def _text_of_model(statement: Mapping[str, Any]) -> list[str]:
    paragraphs = [*statement["hidden"], *statement["meaning"], statement["who"], statement["not_hidden"]]
    lines = ["PRIVACY STATEMENT", "=" * 17, ""]
    for paragraph in paragraphs:
        lines += [*textwrap.wrap(paragraph, 100, break_on_hyphens=False), ""]
    rows = [(key.replace("_", " "), value) for key, value in statement.items() if key not in _ELSEWHERE]
    rows += [(f"planned {key}".replace("_", " "), value) for key, value in statement["planning_figures"].items()]
    rows += [("made with", _made_with(statement))]
    width = max(len(key) for key, _ in rows)
    for key, value in rows:
        lines += textwrap.wrap(f"{key:<{width}}  {value}", 116, subsequent_indent=" " * (width + 2), drop_whitespace=True)
    return lines


def _text_of_stream(f: Mapping[str, Any]) -> list[str]:
    lines = ["PRIVACY STATEMENT: private trajectory", f["headline"], *([f["warning"]] if f["warning"] else []), ""]
    lines += [f["mechanism"], "", "What is promised"]
    lines += [f"- {line}" for line in f["promises"]]
    lines += ["", "What is not hidden"]
    lines += [f"- {line}" for line in f["reveals"]]
    made = f"made with {_made_with(f)}"
    return [*lines, "", "The chain", f"- {f['chain']['words']}", "", "How it is drawn", f"- {f['arithmetic']}", f"- {made}"]


_TEXTS: dict[str, Callable[[Mapping[str, Any]], list[str]]] = {"model": _text_of_model, "stream": _text_of_stream}


def _made_with(statement: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {version}" for name, version in statement["versions"].items())


def versions() -> dict[str, str]:
    """The versions of dpjax, NumPy, SciPy, JAX and Python."""
    found = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "jax")}
    return {"dpjax": dpjax.__version__, **found, "python": platform.python_version()}


class ReleasePlan(abc.ABC):
    """All public parameters of a release, fixed before anything sensitive is read. No method of this class needs data."""

    @abc.abstractmethod
    def price(self) -> list[str]:
        """The cost of the release, as lines to print."""

    @abc.abstractmethod
    def claims(self) -> list[Claim]:
        """The (epsilon, delta) of each change that the statement covers."""

    @abc.abstractmethod
    def statement(self) -> Statement:
        """The privacy statement."""

    @abc.abstractmethod
    def due(self) -> Due:
        """The charge to a ledger, made before the first output. ValueError if the release has no finite charge."""
