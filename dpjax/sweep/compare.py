"""The accuracy of every registered mechanism at the same privacy, on counts and on trajectories; and verdicts in words.

*Tables of counts*: a sweep of the workload `count-comparison` over the registered mechanisms and epsilon, at one delta, under each
mechanism's own exact accounting. The input is one count matrix (rows, n), or one vector, with shares P. The errors are the
Kullback-Leibler divergence KL(P_i || P~_i) and the total variation TV(P_i, P~_i) of the rows, weighted by each row's share of the records,
and TV(pi, pi~) of the stationary distributions. A closed form is exact (its standard error is 0); otherwise the result is the mean of
`draws` draws. If a mechanism has several settings for one line, such as a few pseudo-counts, the best one is shown: it is chosen by
hindsight, in the mechanism's favour. The support is public for all mechanisms.

The results depend on the records: do not release them.

*Trajectories*, exactly, at the same single-substitution epsilon: the privacy loss of replacing any one state at one time by any other,
which every mechanism has. Every registered mechanism in the comparison is a matched cell of the workload `trajectory`: matched by its
exact loss if all pairs of states are affordable, and otherwise by its proved bound. One more line shows the single-substitution epsilon
of Mechanism 1 at its nominal (epsilon, rho). For one sensitive trajectory s and its private s', over t = 1..n:

    mean G: E (1/n) sum G(s'_t, s_t), nats;   error: E (1/n) #{s'_t != s_t};   impossible: E (1/n) #{no transition s'_{t-1} -> s'_t}.

All come from exact laws, without sampling. For the mechanisms whose output is a path of the chain, the first private state is the public
s_0; randomised response reports s_0 like any other state. The results depend on the sensitive trajectory: do not release them.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from dpjax._errors import InputError, require, require_number
from dpjax.chains import MarkovChain
from dpjax.counts import (
    CountMechanism,
    DirichletRows,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    PseudocountMechanism,
    UniformGuess,
    mechanism,
    names,
)
from dpjax.counts.postprocess import checked_counts, checked_delta, checked_epsilon
from dpjax.counts.protocol import Variant
from dpjax.sweep.config import Config, from_table
from dpjax.sweep.planning import plan
from dpjax.sweep.progress import Silent
from dpjax.sweep.results import open as open_results
from dpjax.sweep.runner import run
from dpjax.sweep.store import fingerprint
from dpjax.sweep.workload import Scalar
from dpjax.sweep.workloads.count import ComparisonWorkload
from dpjax.sweep.workloads.trajectory import TrajectoryWorkload
from dpjax.trajectory import kinds
from dpjax.trajectory.graph import graph_of, trajectory_indices

PAPER, PSEUDOCOUNT, GAUSSIAN, UNIFORM = (
    kind.title for kind in (DirichletRows, PseudocountMechanism, DiscreteGaussianMechanism, UniformGuess)
)
LAPLACE, LAPLACE_PROJECTED = (variant.label for variant in DiscreteLaplaceMechanism.variants())


class Measured(NamedTuple):
    """One mechanism at one epsilon. `se` fields are standard errors, 0 if exact; `stationary` is NaN without a stationary distribution."""

    mechanism: str
    epsilon: float
    delta: float
    kl: float
    kl_se: float
    tv: float
    tv_se: float
    stationary: float
    stationary_se: float
    draws: int
    note: str


class _Line(NamedTuple):
    """A registered mechanism with the settings of one variant."""

    name: str
    kind: type[CountMechanism]
    variant: Variant


def compare_counts(
    key: Key[Array, ""],
    counts: np.ndarray,
    *,
    epsilons: Sequence[float],
    delta: float,
    draws: int = 200,
    support: str = "observed",
    mechanisms: Sequence[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> list[Measured]:
    """The errors of every mechanism at every epsilon on one table of counts.

    Args:
        key: a fresh key.
        counts: (n,) or (n, n), whole numbers; no row is empty.
        epsilons: target epsilons, nats.
        delta: target delta, for the mechanisms that have one.
        draws: the number of draws of an error without a closed form, 2 or more.
        support: "observed" or "all"; public for all mechanisms.
        mechanisms: registered names, or "package.module:name"; None takes all. A mechanism that does not fit the table is left out, such
            as the paper's form with "all" if a cell is empty: its floor has no value.
        directory: where the sweep is stored; None stores nothing.

    Returns:
        One `Measured` for each mechanism and epsilon. It depends on the records: do not release it.

    Example:
        >>> results = dpjax.sweep.compare_counts(jax.random.key(0), counts, epsilons=[1.0, 4.0], delta=1e-6)
        >>> dpjax.sweep.count_verdicts(results)
    """
    checked_delta(delta)
    for epsilon in epsilons:
        checked_epsilon(epsilon)
    require(len(epsilons) > 0, "epsilons", epsilons, "give one or more")
    require(
        support in ("observed", "all"),
        "support",
        support,
        'pass "observed" for the transitions seen, "all" for all pairs',
        must='be "observed" or "all"',
    )
    require(draws >= 2, "draws", draws, "give 2 or more")
    workload = _workload(counts, {"delta": float(delta), "support": support})
    mask = workload.counts > 0 if support == "observed" else np.ones_like(workload.counts, bool)
    lines = _lines(names() if mechanisms is None else mechanisms, workload.counts, mask)
    config = _config(workload, lines, [float(epsilon) for epsilon in dict.fromkeys(epsilons)], key, draws)
    with contextlib.ExitStack() as stack:
        out = directory or stack.enter_context(tempfile.TemporaryDirectory())
        outcome = run(plan(config, workload, data_fingerprint=fingerprint(counts=workload.counts), out=out), progress=Silent())
        results = open_results(outcome.directory)
        dim = next(name for name, axes in config.sweep.grid.dims.items() if "name" in axes)
        found = [
            _measured(workload, line, results.isel({dim: i, "epsilon": j}), draws)
            for j in range(results.sizes["epsilon"])
            for i, line in enumerate(lines)
        ]
    best: dict[tuple[str, float], Measured] = {}
    for one in found:  # among the variants of a line, keep the first with the least error
        kept = best.get((one.mechanism, one.epsilon))
        best[one.mechanism, one.epsilon] = one if kept is None or one.tv < kept.tv else kept
    return list(best.values())


def _workload(counts: np.ndarray, table: dict[str, Any]) -> ComparisonWorkload:
    """The workload for any counts; it draws in float64 if float32 cannot hold every count."""
    checked_counts(counts)
    values = np.asarray(counts)
    values = values if values.ndim == 2 else values[None]
    empty = np.flatnonzero(values.sum(axis=1) == 0)
    require(not empty.size, "counts", empty.tolist(), "these rows are empty: keep the largest class")
    labels = tuple(str(i) for i in range(values.shape[1]))
    precision = "float32" if values.max() < 2**24 else "float64"
    workload = ComparisonWorkload(counts=values, labels=labels, table={**table, "precision": precision})
    if workload.square:
        workload.chain.require_irreducible()
    return workload


def _lines(wanted: Sequence[str], counts: np.ndarray, support: np.ndarray) -> list[_Line]:
    """The variants of the wanted mechanisms that fit this table, the papers' first."""
    kinds = [(name, mechanism(name)) for name in wanted]
    lines = [_Line(name, kind, variant) for name, kind in kinds if kind.takes(counts, support) for variant in kind.variants()]
    require(bool(lines), "mechanisms", list(wanted), "none of them fits this table: choose others, or the observed support")
    return sorted(lines, key=lambda line: not line.kind.ours)


def _config(workload: ComparisonWorkload, lines: Sequence[_Line], epsilons: list[float], key: Key[Array, ""], draws: int) -> Config:
    """The sweep: the lines zipped, each with the options of its variant, against epsilon."""
    options: dict[str, Any] = {}
    for line in lines:
        for option, value in line.variant.options.items():
            options.setdefault(option, value)
    every = {option: [_setting(line, option, unused) for line in lines] for option, unused in options.items()}
    axes = {"name": [line.name for line in lines], **every, "epsilon": epsilons}
    table = {
        "samples": draws,
        "seed": int(jax.random.bits(key, dtype=jnp.uint32)),
        "axes": axes,
        "zip": [["name", *every]] if every else [],
    }
    return from_table({"name": "comparison", "workload": workload.name, "mechanism": workload.table, "sweep": table})


def _setting(line: _Line, option: str, unused: Any) -> Any:
    """The line's value of an option: that of its variant, or the mechanism's default, or `unused` if the mechanism lacks the option."""
    field = line.kind.OPTIONS.model_fields.get(option)
    default = unused if field is None or field.default is None else field.default
    return line.variant.options.get(option, default)


def _measured(workload: ComparisonWorkload, line: _Line, cell: Any, draws: int) -> Measured:
    """One cell of the sweep as a row of the table."""
    epsilon, label = float(cell["epsilon"]), line.variant.label
    if str(cell["status"].item()) != "done":
        raise InputError(f"{label} at epsilon {epsilon:g}", "cannot be computed", f"{cell['error'].item()}")
    values = {**workload.table, **line.variant.options, "name": line.name, "epsilon": epsilon}
    m = workload.mechanism({key: value for key, value in values.items() if key not in workload.table})

    def error(measure: str, exact: str) -> tuple[float, float]:
        known = float(cell[exact])
        return (known, 0.0) if known >= 0 else (float(cell[f"{measure}_mean"]), float(cell[f"{measure}_sem"]))

    kl, tv, stationary = error("kl", "kl_exact"), error("tv", "tv_exact"), (np.nan, 0.0)
    if kl[1] > 0 and float(cell["lost_mean"]) > 0:
        kl = (np.inf, 0.0)
    if workload.square and m.positive:
        stationary = error("stationary_tv", "stationary_exact")
    sampled = any(se > 0 for _, se in (kl, tv, stationary)) or np.isinf(kl[0])
    return Measured(label, epsilon, float(cell["at_delta"]), *kl, *tv, *stationary, draws if sampled else 0, m.note)


_ERRORS = {"kl": "KL of the rows", "tv": "TV of the rows", "stationary": "TV of the stationary laws"}


def count_verdicts(results: Sequence[Measured]) -> list[str]:
    """One sentence for each error: which mechanism has the smallest, at each epsilon; then how the guarantees differ."""
    lines = [winners(results, field, words, lambda r: True) for field, words in _ERRORS.items() if _known(results, field)]
    narrow = _labels(lambda kind: not kind.whole_domain)
    if any(r.mechanism in narrow for r in results):
        lines.append(
            "The paper's form promises less than the others: row totals, support and each row's smallest share are public, and a record"
            " changes within its row only."
        )
        lines += [
            "Among those that cover any record by any other: " + winners(results, field, words, lambda r: r.mechanism not in narrow)
            for field, words in _ERRORS.items()
            if _known(results, field) and any(_wins(results, field, name) for name in narrow)
        ]
    useless = sorted({r.epsilon for r in results if r.mechanism == PSEUDOCOUNT and r.tv > _uniform(results, r.epsilon)})
    if useless:
        lines.append(f"The pseudo-count form is further from the rows than the uniform guess at epsilon {_listed(useless)}.")
    return lines


def winners(
    results: Sequence[Any], field: str, words: str, among: Callable[[Any], bool], ours: Collection[str] | None = None
) -> str:
    """A sentence: which mechanism has the smallest `field` at each epsilon, and whether it is one of `ours` (None: the papers' on counts)."""
    won: dict[str, list[float]] = {}
    for epsilon in dict.fromkeys(r.epsilon for r in results):
        here = [r for r in results if r.epsilon == epsilon and among(r) and np.isfinite(getattr(r, field))]
        best = min(here, key=lambda r: getattr(r, field))
        tied = [r for r in here if _close(r, best, field)]
        won.setdefault(" and ".join(dict.fromkeys(r.mechanism for r in tied)), []).append(epsilon)
    parts = [f"{name} ({_whose(name, ours)}) at epsilon {_listed(where)}" for name, where in won.items()]
    return f"Smallest {words}: {'; '.join(parts)}."


def _close(one: Any, best: Any, field: str) -> bool:
    """Whether the draws do not distinguish the two: their difference is within two of its standard errors."""
    error = np.hypot(getattr(one, f"{field}_se", 0.0), getattr(best, f"{field}_se", 0.0))
    return bool(getattr(one, field) - getattr(best, field) <= 2 * error)


def _labels(holds: Callable[[type[CountMechanism]], bool]) -> set[str]:
    """The lines of the registered mechanisms for which `holds` is true."""
    return {variant.label for name in names() if holds(mechanism(name)) for variant in mechanism(name).variants()}


def _whose(words: str, ours: Collection[str] | None) -> str:
    known = _labels(lambda kind: kind.ours) if ours is None else ours
    mine = [name in known for name in words.split(" and ")]
    return "ours" if all(mine) else "a baseline" if not any(mine) else "cannot be distinguished"


def _known(results: Sequence[Measured], field: str) -> bool:
    return any(np.isfinite(getattr(r, field)) for r in results)


def _wins(results: Sequence[Measured], field: str, name: str) -> bool:
    return f"{name} " in winners(results, field, "", lambda r: True)


def _uniform(results: Sequence[Measured], epsilon: float) -> float:
    return next((r.tv for r in results if r.mechanism == UNIFORM and r.epsilon == epsilon), np.inf)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


_NOMINAL = "mechanism1"  # the kind that is also shown at its nominal epsilon
_PATHS = {"mean_error": "mean distance G from the sensitive state", "error_rate": "share of wrong states"}


class MeasuredTrajectory(NamedTuple):
    """One mechanism at one epsilon; `substitution` is its single-substitution epsilon (nats): exact if `exact`, otherwise a bound."""

    mechanism: str
    epsilon: float
    substitution: float
    exact: bool
    mean_error: float
    error_rate: float
    impossible: float
    note: str


def compare_trajectory(
    chain: MarkovChain, trajectory: Any, *, epsilons: Sequence[float], rho: float | int = 1.0
) -> list[MeasuredTrajectory]:
    """The exact errors of every mechanism at every single-substitution epsilon, on one trajectory.

    Args:
        chain: an irreducible `MarkovChain`.
        trajectory: state indices, two or more.
        epsilons: single-substitution epsilons, nats, positive.
        rho: the radius of the line with Mechanism 1's nominal epsilon, nats.

    Example:
        >>> results = dpjax.sweep.compare_trajectory(chain, trajectory, epsilons=[1.0, 4.0])
        >>> dpjax.sweep.trajectory_verdicts(results)
    """
    for epsilon in epsilons:
        require_number(epsilon, "epsilon", "give a positive, finite epsilon in nats", lambda x: x > 0)
    states = np.asarray(trajectory)
    require(states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a trajectory of two states or more")
    workload = TrajectoryWorkload(
        chain=chain,
        states=np.asarray(trajectory_indices(graph_of(chain), states, check=False)),
        table={"rho": float(rho), "start": "sensitive"},
        thresholds=np.zeros(0),
        lengths=np.zeros(0, dtype=np.int64),
        places=None,
    )
    return [one for epsilon in epsilons for one in _at(workload, float(epsilon), float(rho))]


def _at(workload: TrajectoryWorkload, epsilon: float, rho: float) -> Iterator[MeasuredTrajectory]:
    shown = kinds()
    nominal = shown[_NOMINAL]
    cell: Mapping[str, Scalar] = {"kind": _NOMINAL, "epsilon": epsilon, "matched": False}
    yield _measured_trajectory(workload, cell, f"{nominal.long_name}, nominal epsilon at rho {rho:g}", nominal.note)
    for kind in shown.values():
        if kind.compared:
            yield _measured_trajectory(
                workload, {"kind": kind.kind, "epsilon": epsilon, "matched": True}, kind.long_name, kind.note
            )


def _measured_trajectory(workload: TrajectoryWorkload, cell: Mapping[str, Scalar], name: str, note: str) -> MeasuredTrajectory:
    made, errors = workload.exact_errors(cell)
    epsilon = float(cell["epsilon"])
    return MeasuredTrajectory(
        mechanism=name,
        epsilon=epsilon,
        substitution=epsilon if cell["matched"] else float(made.guarantee.substitution),
        exact=made.guarantee.exact,
        mean_error=errors["expected_error"],
        error_rate=1 - errors["expected_agreement"],
        impossible=errors["expected_impossible"],
        note=note,
    )


def trajectory_verdicts(results: Sequence[MeasuredTrajectory]) -> list[str]:
    """One sentence for each error: which mechanism has the smallest, at each epsilon, at matched single-substitution epsilon."""
    ours = {kind.long_name for kind in kinds().values() if kind.ours}
    matched = [r for r in results if r.substitution == r.epsilon]
    lines = [winners(matched, field, words, lambda r: True, ours) for field, words in _PATHS.items()]
    nominal = [r for r in results if r.substitution != r.epsilon]
    if nominal:
        kind = "exactly" if nominal[0].exact else "by its proved bound"
        pairs = ", ".join(f"{r.epsilon:g} costs {r.substitution:.3g}" for r in nominal)
        lines.append(
            "Epsilon is the worst substitution of one state by another. Mechanism 1's guarantee is graded: replacing a state by a near"
            " one costs it less, which these lines do not show."
        )
        lines.append(f"Mechanism 1's nominal epsilon is a different number: for one substitution, {kind}, {pairs}.")
    return lines
