"""`dpjax audit [MECHANISM]... [options]`: a lower bound on epsilon from draws, beside the exact and the claimed epsilon.

The audit draws each mechanism at two adjacent inputs at which its claim is tight. The confidence holds for the whole table: with n
mechanisms, each has a risk of (1 - confidence) / n.
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

_ON_COUNTS, _ON_TRAJECTORIES, _ON_SELECTION = "Mechanisms on counts", "Mechanisms on trajectories", "permute-and-flip"
_EXAMPLE = [[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]]
_COUNTS = [[500, 300, 200], [30, 40, 10], [40, 9, 20]]


class Settings(NamedTuple):
    """The values of the options from which the mechanisms are made."""

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
            metavar="MECHANISM",
            help="Mechanisms to audit; by default the main ones. Names: dirichlet, matrix, permute-and-flip; registered mechanisms on counts"
            " (pseudocount, discrete-laplace, ...); on trajectories (trajectory, offline, chen, exponential, ...); package.module:name.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[float, typer.Option(rich_help_panel=_ON_COUNTS, help="dirichlet: concentration k.")] = 20.6,
    eta: Annotated[
        float, typer.Option(rich_help_panel=_ON_COUNTS, help="dirichlet: smallest allowed share of a category.")
    ] = 0.073,
    n_records: Annotated[int, typer.Option(rich_help_panel=_ON_COUNTS, help="dirichlet: number of records N.")] = 98,
    n_categories: Annotated[int, typer.Option(rich_help_panel=_ON_COUNTS, help="dirichlet: number of categories n.")] = 5,
    gamma: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=_ON_COUNTS,
            help="dirichlet: claim the epsilon and delta of A-Theorem 1 for this gamma; --delta is ignored.",
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(rich_help_panel=_ON_COUNTS, help="pseudocount: scale s; permute-and-flip: coin scale.")
    ] = 0.5,
    pseudocount: Annotated[float, typer.Option(rich_help_panel=_ON_COUNTS, help="pseudocount: records added to each cell.")] = 10.0,
    counts: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="CSV",
            help="matrix, trajectories: a square count matrix in place of the example. It must be public or invented.",
        ),
    ] = None,
    epsilon: Annotated[
        float,
        typer.Option(help="matrix, counts: target epsilon at delta; trajectories: epsilon of the mechanism."),
    ] = 1.0,
    rho: Annotated[
        float, typer.Option(rich_help_panel=_ON_TRAJECTORIES, help="Adjacency radius in nats, for mechanisms that have one.")
    ] = 1.0,
    b: Annotated[
        int, typer.Option(rich_help_panel=_ON_TRAJECTORIES, help="Number of states that may differ, for mechanisms that have it.")
    ] = 1,
    costs: Annotated[str, typer.Option(rich_help_panel=_ON_SELECTION, help="Costs of the candidates under one input.")] = "0,1,2",
    other_costs: Annotated[
        str, typer.Option(rich_help_panel=_ON_SELECTION, help="Costs of the candidates under the other input.")
    ] = "1,0,2",
    delta: Annotated[
        float,
        typer.Option(help="The delta of every epsilon: dirichlet, pseudocount, matrix, discrete-gaussian. The others have 0."),
    ] = 1e-2,
    claimed: Annotated[
        float | None,
        typer.Option(help="The epsilon to test, for one named mechanism; by default the epsilon that the package claims."),
    ] = None,
    draws: Annotated[
        int, typer.Option(help="Draws from each input. Half of them choose the event, the other half test it.")
    ] = 200_000,
    confidence: Annotated[
        float, typer.Option(help="If every claim is true, all mechanisms pass with at least this probability.")
    ] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
) -> int:
    """Test the epsilon that mechanisms claim: draw each at two adjacent inputs and print bounds beside the claim.

    Each line has three epsilons in nats: the lower bound that the draws prove, whatever the code does; the exact value at the worst
    adjacent inputs; the claim. Without --counts and --costs the inputs are built-in examples: the published grades and a chain of three
    states. Exit code 1: a lower bound exceeds its claim, so the claim or the sampler is wrong.
    """
    import jax

    from dpjax._errors import require
    from dpjax.audit.bound import require_claim

    builders = [_builder(name) for name in mechanisms or _names()]
    names = [name for name, _ in builders]
    require(claimed is None or len(names) == 1, "--claimed", claimed, "name exactly one mechanism with it")
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
    return [*lines, f"epsilon in nats; confidence {confidence:g} for the whole table; {drawn:,} draws from each input for the test"]


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
    """The names of the registered mechanisms on counts that can be audited."""
    from dpjax import counts

    return [name for name in counts.names() if counts.mechanism(name).audited]


def _of_counts(name: str, s: Settings) -> Target:
    """The audit target of a registered mechanism on counts, calibrated to --epsilon and --delta."""
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
    """The audit target of a registered mechanism on trajectories, with those of its options that this command has."""
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
        invalid(option, text, "give numbers separated by commas, such as 0,1,2")


_COUNTS_TARGETS: dict[str, Any] = {"dirichlet": _dirichlet, "pseudocount": _pseudocount, "matrix": _matrix}
_SELECTION_TARGETS: dict[str, Any] = {"permute-and-flip": _permute_and_flip}
_TARGETS = {**_COUNTS_TARGETS, **_SELECTION_TARGETS}
_SHORT = {"trajectory": "mechanism1"}  # the command's name -> the registered kind


def _names() -> list[str]:
    """The mechanisms that are audited by default."""
    from dpjax.trajectory import kinds

    words = {kind: word for word, kind in _SHORT.items()}
    on_counts = [name for name in _on_counts() if name not in _TARGETS]
    on_trajectories = [words.get(one.kind, one.kind) for one in kinds().values() if one.audited]
    return [*_COUNTS_TARGETS, *on_counts, *on_trajectories, *_SELECTION_TARGETS]


def _builder(name: str) -> tuple[str, Any]:
    """(name in the table, function from Settings to the audit target)."""
    from dpjax import counts
    from dpjax._errors import require
    from dpjax.trajectory.protocol import find, kinds

    if name in _TARGETS:
        return name, _TARGETS[name]
    try:
        name = counts.mechanism(name).name  # resolves an alias, and imports the user's module, which registers a mechanism
    except ValueError:
        name = find(name, "MECHANISM").kind if ":" in name else name
    if name in _TARGETS:
        return name, _TARGETS[name]
    kind = _SHORT.get(name, name)
    if name in _on_counts():
        return name, functools.partial(_of_counts, name)
    known = [*_TARGETS, *_on_counts(), *_SHORT, *kinds()]
    require(kind in kinds(), "MECHANISM", name, f"choose among {', '.join(known)}; write package.module:name for your own")
    return name, functools.partial(_trajectory, kind)


OPTIONS = {name: f"--{name.replace('_', '-')}" for name in (*Settings._fields, "confidence", "seed")} | {"n": "--draws"}
