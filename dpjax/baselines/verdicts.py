"""Which mechanism wins where, in plain words: ours or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpjax.baselines.comparison import PAPER, PSEUDOCOUNT, UNIFORM, Measured
from dpjax.baselines.trajectory_comparison import EXPONENTIAL, MATCHED, MeasuredTrajectory

OURS = (PAPER, PSEUDOCOUNT, MATCHED, EXPONENTIAL)
_ERRORS = {"kl": "KL of the rows", "tv": "TV of the rows", "stationary": "TV of the stationary laws"}
_PATHS = {"mean_error": "mean distance G from the sensitive state", "error_rate": "share of wrong states"}


def count_verdicts(results: Sequence[Measured]) -> list[str]:
    """A sentence for each error that says who has the smallest, for each epsilon; then what the guarantees differ in."""
    lines = [_winners(results, field, words, lambda r: True) for field, words in _ERRORS.items() if _known(results, field)]
    if any(r.mechanism == PAPER for r in results):
        lines.append(
            "The paper's form promises less than the others: row totals, support and each row's smallest share are public, and a record"
            " changes within its row only."
        )
        lines += [
            "Among those that cover any record by any other: " + _winners(results, field, words, lambda r: r.mechanism != PAPER)
            for field, words in _ERRORS.items()
            if _known(results, field) and _wins(results, field, PAPER)
        ]
    useless = sorted({r.epsilon for r in results if r.mechanism == PSEUDOCOUNT and r.tv > _uniform(results, r.epsilon)})
    if useless:
        lines.append(f"The pseudo-count form is further from the rows than the uniform guess at epsilon {_listed(useless)}.")
    return lines


def trajectory_verdicts(results: Sequence[MeasuredTrajectory]) -> list[str]:
    """The same for trajectories, at matched single-substitution epsilon."""
    matched = [r for r in results if r.substitution == r.epsilon]
    lines = [_winners(matched, field, words, lambda r: True) for field, words in _PATHS.items()]
    nominal = [r for r in results if r.substitution != r.epsilon]
    if nominal:
        kind = "exactly" if nominal[0].exact else "by its proved bound"
        pairs = ", ".join(f"{r.epsilon:g} costs {r.substitution:.3g}" for r in nominal)
        lines.append(
            "Epsilon here is the worst substitution of one state by another. Mechanism 1's guarantee is graded: replacing a state by a near"
            " one costs it less, which these lines do not show."
        )
        lines.append(f"Mechanism 1's nominal epsilon is another thing: for one substitution, {kind}, {pairs}.")
    return lines


def _winners(results: Sequence[Any], field: str, words: str, among: Callable[[Any], bool]) -> str:
    won: dict[str, list[float]] = {}
    for epsilon in dict.fromkeys(r.epsilon for r in results):
        here = [r for r in results if r.epsilon == epsilon and among(r) and np.isfinite(getattr(r, field))]
        best = min(here, key=lambda r: getattr(r, field))
        tied = [r for r in here if _close(r, best, field)]
        won.setdefault(" and ".join(dict.fromkeys(r.mechanism for r in tied)), []).append(epsilon)
    parts = [f"{name} ({_whose(name)}) at epsilon {_listed(where)}" for name, where in won.items()]
    return f"Smallest {words}: {'; '.join(parts)}."


def _close(one: Any, best: Any, field: str) -> bool:
    """Whether the two cannot be told apart by these draws: within two standard errors of their difference."""
    error = np.hypot(getattr(one, f"{field}_se", 0.0), getattr(best, f"{field}_se", 0.0))
    return bool(getattr(one, field) - getattr(best, field) <= 2 * error)


def _whose(names: str) -> str:
    ours = [any(name == known for known in OURS) for name in names.split(" and ")]
    return "ours" if all(ours) else "a baseline" if not any(ours) else "cannot be told apart"


def _known(results: Sequence[Measured], field: str) -> bool:
    return any(np.isfinite(getattr(r, field)) for r in results)


def _wins(results: Sequence[Measured], field: str, name: str) -> bool:
    return f"{name} " in _winners(results, field, "", lambda r: True)


def _uniform(results: Sequence[Measured], epsilon: float) -> float:
    return next(r.tv for r in results if r.mechanism == UNIFORM and r.epsilon == epsilon)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
