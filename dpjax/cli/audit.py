"""`dpjax audit [MECHANISM]... [options]`: what draws prove about epsilon, beside its exact and its claimed value.

Each mechanism is drawn at two adjacent inputs at which its claim is tight. The confidence holds for the whole table: with n
mechanisms each one's risk is a n-th of it.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dpjax.cli.errors import DONE, FAILED

if TYPE_CHECKING:
    from dpjax.audit import AuditResult
    from dpjax.audit.targets import Target
    from dpjax.chains import MarkovChain

_EXAMPLE = [[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]]
_COUNTS = [[500, 300, 200], [30, 40, 10], [40, 9, 20]]


class Settings(NamedTuple):
    """The options, as the mechanisms read them."""

    k: float
    eta: float
    n_records: int
    n_categories: int
    gamma: float | None
    scale: float
    pseudocount: float
    counts: pathlib.Path | None
    epsilon: float
    rho: float
    b: int
    costs: str
    other_costs: str
    delta: float
    claimed: float | None


def audit(
    mechanisms: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MECHANISM]...",
            help="dirichlet, matrix, permute-and-flip, a registered mechanism on counts (pseudocount, discrete-laplace, ..., package.module:name)"
            " or on trajectories (trajectory, offline, chen, exponential, ..., package.module:kind); the main ones unless named.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[float, typer.Option(help="dirichlet: the concentration k.")] = 20.6,
    eta: Annotated[float, typer.Option(help="dirichlet: the floor of every share.")] = 0.073,
    n_records: Annotated[int, typer.Option(help="dirichlet: number of records N.")] = 98,
    n_categories: Annotated[int, typer.Option(help="dirichlet: number of categories n.")] = 5,
    gamma: Annotated[
        float | None,
        typer.Option(help="dirichlet: claim A-Theorem 1's epsilon at its delta for this gamma; --delta is then unused."),
    ] = None,
    scale: Annotated[float, typer.Option(help="pseudocount: the scale s; permute-and-flip: the coin scale.")] = 0.5,
    pseudocount: Annotated[float, typer.Option(help="pseudocount: records added to each cell.")] = 10.0,
    counts: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="CSV",
            help="matrix, and mechanisms on trajectories: a square count matrix in the example's place; a public or invented one.",
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(help="matrix, mechanisms on counts: the target at delta; mechanisms on trajectories: their epsilon."),
    ] = 1.0,
    rho: Annotated[float, typer.Option(help="mechanisms on trajectories that take one: the adjacency radius, nats.")] = 1.0,
    b: Annotated[int, typer.Option(help="mechanisms on trajectories that take it: states that may differ.")] = 1,
    costs: Annotated[str, typer.Option(help="permute-and-flip: the candidates' costs under one input.")] = "0,1,2",
    other_costs: Annotated[str, typer.Option(help="permute-and-flip: their costs under the other input.")] = "1,0,2",
    delta: Annotated[
        float,
        typer.Option(
            help="dirichlet, pseudocount, matrix, discrete-gaussian: every epsilon is at this delta; the others are at 0."
        ),
    ] = 1e-2,
    claimed: Annotated[
        float | None, typer.Option(help="The epsilon to test, of the one mechanism named; unless given, what the package claims.")
    ] = None,
    draws: Annotated[int, typer.Option(help="Draws of each input; half choose the event, half decide.")] = 200_000,
    confidence: Annotated[float, typer.Option(help="Honest mechanisms all pass with at least this probability.")] = 0.99,
    seed: Annotated[int, typer.Option(help="The draws' seed.")] = 0,
) -> int:
    """Draw mechanisms at two adjacent inputs and set side by side what the draws prove, what is true and what is claimed.

    One line for each mechanism, epsilon in nats: the lower bound that the draws prove, whatever the code does; the exact value at the worst
    adjacent inputs; the claim. Without --counts and --costs the inputs are built-in examples: the published grades, a chain of three states.
    Exit 1 if a lower bound exceeds its claim: the claim is false, or the sampler is.
    """
    import jax

    from dpjax._errors import require
    from dpjax.audit.bound import require_claim

    builders = [_builder(name) for name in mechanisms or _names()]
    names = [name for name, _ in builders]
    require(claimed is None or len(names) == 1, "--claimed", claimed, "name the one mechanism that it is claimed of")
    if claimed is not None:
        require_claim(claimed, "--claimed")
    require(0 < confidence < 1, "--confidence", confidence, "give a probability strictly between 0 and 1")
    settings = Settings(
        k, eta, n_records, n_categories, gamma, scale, pseudocount, counts, epsilon, rho, b, costs, other_costs, delta, claimed
    )
    targets = [dataclasses.replace(build(settings), name=name) for name, build in builders]
    each = 1 - (1 - confidence) / len(targets)
    root = jax.random.key(seed)
    results = [target.audit(jax.random.fold_in(root, i), draws, each) for i, target in enumerate(targets)]
    print("\n".join(_table(targets, results, confidence)))
    return FAILED if any(r.refutes(t.claimed) for t, r in zip(targets, results, strict=True)) else DONE


def _table(targets: list[Target], results: list[AuditResult], confidence: float) -> list[str]:
    head = ["mechanism", "delta", "lower bound", "exact", "claimed", "verdict"]
    rows = [
        [t.name, f"{t.delta:.6g}", f"{r.lower_bound:.4f}", f"{t.exact:.4f}", f"{t.claimed:.4f}", _verdict(t, r)]
        for t, r in zip(targets, results, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)]
    drawn = results[0].draws_p
    return [*lines, f"epsilon in nats; confidence {confidence:g} for the whole table; {drawn:,} draws of each input decide"]


def _verdict(target: Target, result: AuditResult) -> str:
    if result.refutes(target.claimed):
        return "REFUTED: the draws prove more than the claim"
    if target.claimed < target.exact * (1 - 1e-9):
        return "not refuted by these draws, but the claim is below the exact value"
    return "honest as far as these draws show"


def _dirichlet(s: Settings) -> Target:
    from dpjax.audit import dirichlet_target
    from dpjax.simplex import DirichletMechanism

    m = DirichletMechanism(k=s.k, eta=s.eta, n_records=s.n_records, n_categories=s.n_categories, gamma=s.gamma)
    if s.gamma is None:
        return dirichlet_target(m, s.delta, claimed=s.claimed)
    return dirichlet_target(m, float(m.delta), claimed=float(m.epsilon) if s.claimed is None else s.claimed)


def _pseudocount(s: Settings) -> Target:
    from dpjax.audit import count_target
    from dpjax.counts import PseudocountMechanism

    return count_target(PseudocountMechanism(scale=s.scale, pseudocount=s.pseudocount), s.delta, claimed=s.claimed)


def _on_counts() -> list[str]:
    """The registered mechanisms on counts of which something can be seen."""
    from dpjax import counts

    return [name for name in counts.names() if counts.mechanism(name).audited]


def _of_counts(name: str, s: Settings) -> Target:
    """A registered mechanism at the target --epsilon, --delta."""
    from dpjax import counts
    from dpjax.audit import count_target

    return count_target(counts.calibrated(name, counts.Target(s.epsilon, s.delta)), s.delta, claimed=s.claimed)


def _matrix(s: Settings) -> Target:
    import numpy as np

    from dpjax.audit import matrix_target
    from dpjax.datasets import read_count_matrix
    from dpjax.simplex import MatrixMechanism, PublicRows

    counts = np.array(_COUNTS) if s.counts is None else np.asarray(read_count_matrix(s.counts).counts)
    rows = PublicRows.from_counts(counts, support="observed", eta="smallest share")
    m = MatrixMechanism.calibrate(rows=rows, epsilon=s.epsilon, delta=s.delta, unreachable="withhold")
    return matrix_target(m, s.delta, claimed=s.epsilon if s.claimed is None else s.claimed)


def _trajectory(kind: str, s: Settings) -> Target:
    """The target of a registered mechanism, with those of its options that are options here."""
    from dpjax.audit import trajectory_target
    from dpjax.trajectory.protocol import find, make

    given = {option.name: getattr(s, option.name) for option in find(kind).options if hasattr(s, option.name)}
    return trajectory_target(make(_chain(s), kind, epsilon=s.epsilon, **given).mechanism, claimed=s.claimed)


def _permute_and_flip(s: Settings) -> Target:
    from dpjax.audit import selection_target

    return selection_target(_numbers(s.costs, "--costs"), _numbers(s.other_costs, "--other-costs"), s.scale, claimed=s.claimed)


def _chain(s: Settings) -> MarkovChain:
    import numpy as np

    from dpjax.chains import MarkovChain
    from dpjax.datasets import read_count_matrix

    if s.counts is None:
        return MarkovChain.from_matrix(np.array(_EXAMPLE))
    found = read_count_matrix(s.counts)
    return MarkovChain.from_counts(found.counts, labels=found.labels).largest_class()


def _numbers(text: str, option: str) -> list[float]:
    from dpjax._errors import invalid

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        invalid(option, text, "give numbers with commas between them, such as 0,1,2")


_COUNTS_TARGETS: dict[str, Any] = {"dirichlet": _dirichlet, "pseudocount": _pseudocount, "matrix": _matrix}
_SELECTION_TARGETS: dict[str, Any] = {"permute-and-flip": _permute_and_flip}
_TARGETS = {**_COUNTS_TARGETS, **_SELECTION_TARGETS}
_SHORT = {"trajectory": "mechanism1"}  # what the command calls a kind


def _names() -> list[str]:
    """The mechanisms that are drawn where none is named."""
    from dpjax.trajectory import kinds

    words = {kind: word for word, kind in _SHORT.items()}
    on_counts = [name for name in _on_counts() if name not in _TARGETS]
    on_trajectories = [words.get(one.kind, one.kind) for one in kinds().values() if one.audited]
    return [*_COUNTS_TARGETS, *on_counts, *on_trajectories, *_SELECTION_TARGETS]


def _builder(name: str) -> tuple[str, Any]:
    """The name in the table, and what makes the target of the settings."""
    from dpjax import counts
    from dpjax._errors import require
    from dpjax.trajectory.protocol import find, kinds

    if name in _TARGETS:
        return name, _TARGETS[name]
    try:
        name = counts.mechanism(name).name  # by an alias, or as a module of the user's own registers it
    except ValueError:
        name = find(name, "MECHANISM").kind if ":" in name else name
    if name in _TARGETS:
        return name, _TARGETS[name]
    kind = _SHORT.get(name, name)
    if name in _on_counts():
        return name, functools.partial(_of_counts, name)
    known = [*_TARGETS, *_on_counts(), *_SHORT, *kinds()]
    require(kind in kinds(), "MECHANISM", name, f"choose among {', '.join(known)}, and package.module:name for one of your own")
    return name, functools.partial(_trajectory, kind)


OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*Settings._fields, "confidence", "seed")} | {"n": "--draws"}
