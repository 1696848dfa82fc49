"""What each mechanism on counts costs in accuracy at the same (epsilon, delta), every one under its exact accounting.

Errors of one count matrix (rows, n), or one vector, whose shares are P: the Kullback-Leibler divergence KL(P_i || P~_i) and the total
variation TV(P_i, P~_i) of its rows, averaged with each row's share of the records as weight; and TV(pi, pi~) of stationary laws. A
result is exact where a closed form is used (its standard error is 0), otherwise the mean of `draws` draws.

| mechanism | guarantee at (epsilon, delta) |
|---|---|
| Dirichlet, paper's form | one record within its row; row totals, support and smallest shares public; rows that cannot meet it uniform |
| Dirichlet, pseudo-count | Theorem 7: any record by any other, every database. The pseudo-count is the best of a few by hindsight, in its favour |
| discrete Laplace | any record by any other, every database; delta 0 |
| discrete Gaussian | any record by any other, every database |
| uniform guess | says nothing of the data |

The support is public for all of them alike. What is computed here depends on the records: it is not for release.

What each mechanism on trajectories costs in accuracy at the same single-substitution epsilon, exactly.

Epsilon here is what replacing any one state at one time by any other costs: the one number that all of them have. For Mechanism 1 it is
matched, by its exact loss where all pairs of states are affordable and by its proved bound elsewhere; a line for its nominal (epsilon,
rho) shows what those numbers cost when read that way. For one sensitive trajectory s and its private s', over t = 1..n:

    mean G: E (1/n) sum G(s'_t, s_t), nats;   error: E (1/n) #{s'_t != s_t};   impossible: E (1/n) #{no transition s'_{t-1} -> s'_t}.

All by the exact laws; no sampling. The first private state is the public s_0 for the mechanisms that walk the chain; randomised response
reports s_0 as any other state. What is computed here depends on the sensitive trajectory: it is not for release.

Which mechanism wins where, in plain words: ours or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from dpjax._errors import require
from dpjax.chains import MarkovChain, gth
from dpjax.counts import PseudocountMechanism, least_pseudocount
from dpjax.counts.discrete_gaussian import DiscreteGaussianMechanism
from dpjax.counts.discrete_laplace import DiscreteLaplaceMechanism
from dpjax.counts.postprocess import checked_counts, checked_delta, checked_epsilon, dirichlet_errors, expected_kl_floored
from dpjax.simplex import MatrixMechanism, PublicRows, dirichlet
from dpjax.trajectory import ChenMechanism, TrajectoryMechanism, exact_law, match_substitution
from dpjax.trajectory.losses import affordable, substitution_epsilon_above
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.randomised_response import RandomisedResponse

PAPER, PSEUDOCOUNT = "Dirichlet, paper's form", "Dirichlet, pseudo-count"
LAPLACE, LAPLACE_PROJECTED = "discrete Laplace, floored", "discrete Laplace, projected"
GAUSSIAN, UNIFORM = "discrete Gaussian, floored", "uniform guess"
_HINDSIGHT = (1.05, 1.3, 1.7, 2.5)  # times the least pseudo-count
_AT_ONCE = 2**24  # numbers of the draws measured together


class Measured(NamedTuple):
    """One mechanism at one epsilon. `se` fields are standard errors, 0 where exact; stationary is NaN where there is none."""

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


class Truth(NamedTuple):
    """What the errors are measured against."""

    counts: Float[np.ndarray, "rows n"]
    support: Bool[np.ndarray, "rows n"]
    shares: Float[np.ndarray, "rows n"]
    weights: Float[np.ndarray, " rows"]  # each row's share of the records
    stationary: Float[np.ndarray, " n"] | None


def compare_counts(
    key: Key[Array, ""],
    counts: np.ndarray,
    *,
    epsilons: Sequence[float],
    delta: float,
    draws: int = 200,
    support: str = "observed",
) -> list[Measured]:
    """Every mechanism at every epsilon on `counts`, (n,) or (n, n), no row empty. support: "observed" or "all", public for all alike.

    With "all" the paper's form is left out where a cell is empty: its floor has no value there.
    """
    checked_delta(delta)
    for epsilon in epsilons:
        checked_epsilon(epsilon)
    require(support in ("observed", "all"), "support", support, "", must='be "observed" or "all"')
    require(draws >= 2, "draws", draws, "give 2 or more")
    truth = _truth(counts, support)
    return [
        measured
        for index, epsilon in enumerate(epsilons)
        for measured in _at(jax.random.fold_in(key, index), truth, float(epsilon), float(delta), draws)
    ]


def _truth(counts: np.ndarray, support: str) -> Truth:
    checked_counts(counts)
    values = np.asarray(counts, np.float64)
    square = values.ndim == 2
    values = values if square else values[None]
    totals = values.sum(axis=1)
    require(
        bool((totals > 0).all()), "counts", np.flatnonzero(totals == 0).tolist(), "these rows are empty: keep the largest class"
    )
    shares = values / totals[:, None]
    stationary = _stationary(shares[None])[0] if square else None
    mask = values > 0 if support == "observed" else np.ones_like(values, bool)
    return Truth(values, mask, shares, totals / totals.sum(), stationary)


def _at(key: Key[Array, ""], truth: Truth, epsilon: float, delta: float, draws: int) -> Iterator[Measured]:
    keys = jax.random.split(key, 4)
    if bool((truth.counts[truth.support] > 0).all()):
        yield _paper(keys[0], truth, epsilon, delta, draws)
    yield _pseudocount(keys[1], truth, epsilon, delta, draws)
    laplace = DiscreteLaplaceMechanism(epsilon=epsilon)
    yield _noise(keys[2], truth, laplace, LAPLACE, epsilon, 0.0, draws)
    yield _noise(
        keys[2], truth, DiscreteLaplaceMechanism(epsilon=epsilon, postprocess="project"), LAPLACE_PROJECTED, epsilon, 0.0, draws
    )
    gaussian = DiscreteGaussianMechanism.calibrate(epsilon=epsilon, delta=delta)
    yield _noise(keys[3], truth, gaussian, GAUSSIAN, epsilon, delta, draws)
    uniform = truth.support / truth.support.sum(axis=1, keepdims=True)
    kl, tv = _errors(truth, uniform[None])
    stationary = _stationary_errors(truth, uniform[None])
    yield Measured(UNIFORM, epsilon, 0.0, kl[0], 0.0, tv[0], 0.0, float(stationary[0]), 0.0, 0, "needs no data")


def _paper(key: Key[Array, ""], truth: Truth, epsilon: float, delta: float, draws: int) -> Measured:
    rows = PublicRows.from_counts(truth.counts, support=truth.support, eta="smallest share")
    m = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
    withheld = np.asarray(m.withheld)
    a = np.where(truth.support, np.asarray(m.k)[:, None] * truth.shares, 0.0)
    uniform = truth.support / truth.support.sum(axis=1, keepdims=True)
    note = (
        f"{int(withheld.sum())} of {len(withheld)} rows withheld, holding {float(truth.weights[withheld].sum()):.1%} of the records"
    )
    return _dirichlet(key, truth, a, np.where(withheld[:, None], uniform, np.nan), PAPER, epsilon, delta, draws, note)


def _pseudocount(key: Key[Array, ""], truth: Truth, epsilon: float, delta: float, draws: int) -> Measured:
    least = least_pseudocount(epsilon=epsilon, delta=delta)
    tried = []
    for factor in _HINDSIGHT:
        m = PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=max(factor * least, 1e-6))
        a = np.where(truth.support, float(m.scale) * (truth.counts + float(m.pseudocount)), 0.0)
        tried.append((float(truth.weights @ dirichlet_errors(truth.shares, a)[1]), m, a))
    _, m, a = min(tried, key=lambda one: one[0])
    note = f"pseudo-count {float(m.pseudocount):.4g} (by hindsight), scale {float(m.scale):.4g}"
    return _dirichlet(key, truth, a, np.full(a.shape, np.nan), PSEUDOCOUNT, epsilon, delta, draws, note)


def _dirichlet(
    key: Key[Array, ""],
    truth: Truth,
    a: Float[np.ndarray, "rows n"],
    fixed: Float[np.ndarray, "rows n"],
    name: str,
    epsilon: float,
    delta: float,
    draws: int,
    note: str,
) -> Measured:
    """Exact row errors of Dirichlet(a), of the row `fixed` where it is a number; stationary errors by `draws` draws."""
    still = ~np.isnan(fixed[:, 0])
    kl, tv = dirichlet_errors(truth.shares, a)
    fixed_kl, fixed_tv = _row_errors(truth.shares, fixed[None])
    kl, tv = np.where(still, fixed_kl[0], kl), np.where(still, fixed_tv[0], tv)
    found = np.full(1, np.nan)
    if truth.stationary is not None:
        parts = []
        for first, n in _parts(draws, a.size):
            drawn = np.asarray(dirichlet(key, jnp.asarray(a, jnp.float32), n, first), np.float64)
            parts.append(_stationary_errors(truth, np.where(still[:, None], fixed, drawn)))
        found = np.concatenate(parts)
    mean, error = _mean(found)
    used = 0 if truth.stationary is None else draws
    return Measured(name, epsilon, delta, float(truth.weights @ kl), 0.0, float(truth.weights @ tv), 0.0, mean, error, used, note)


def _noise(
    key: Key[Array, ""],
    truth: Truth,
    m: DiscreteLaplaceMechanism | DiscreteGaussianMechanism,
    name: str,
    epsilon: float,
    delta: float,
    draws: int,
) -> Measured:
    """Row and stationary errors by `draws` draws; the exact KL of a floored vector."""
    kls, tvs, stationary = [], [], []
    connected = m.postprocess == "floor"
    for first, n in _parts(draws, truth.counts.size):
        part = jax.random.fold_in(key, first)
        private = np.asarray(m.privatize(part, np.broadcast_to(truth.counts, (n, *truth.counts.shape)), truth.support), np.float64)
        kl, tv = _errors(truth, private)
        kls.append(kl)
        tvs.append(tv)
        if connected:
            stationary.append(_stationary_errors(truth, private))
    (mean_kl, kl_se), (mean_tv, tv_se) = _mean(np.concatenate(kls)), _mean(np.concatenate(tvs))
    if len(truth.counts) == 1 and connected:
        seen = truth.counts[0][truth.support[0]].astype(np.int64)
        mean_kl, kl_se = expected_kl_floored(seen, m.pmf), 0.0
    note = "" if connected else "cells set to 0: KL may be infinite, the chain reducible, so no stationary law"
    return Measured(
        name,
        epsilon,
        delta,
        mean_kl,
        kl_se,
        mean_tv,
        tv_se,
        *_mean(np.concatenate(stationary or [np.full(1, np.nan)])),
        draws,
        note,
    )


def _parts(draws: int, size: int) -> Iterator[tuple[int, int]]:
    """(first, how many) of the draws measured together."""
    width = max(1, min(draws, _AT_ONCE // size))
    for first in range(0, draws, width):
        yield first, min(width, draws - first)


def _row_errors(
    shares: Float[np.ndarray, "rows n"], private: Float[np.ndarray, "draws rows n"]
) -> tuple[Float[np.ndarray, "draws rows"], Float[np.ndarray, "draws rows"]]:
    with np.errstate(divide="ignore"):
        ratio = np.where(shares > 0, np.log(np.where(shares > 0, shares, 1.0)) - np.log(np.where(shares > 0, private, 1.0)), 0.0)
    return (shares * ratio).sum(axis=-1), 0.5 * np.abs(private - shares).sum(axis=-1)


def _errors(truth: Truth, private: Float[np.ndarray, "draws rows n"]) -> tuple[np.ndarray, np.ndarray]:
    kl, tv = _row_errors(truth.shares, private)
    return kl @ truth.weights, tv @ truth.weights


def _stationary_errors(truth: Truth, private: Float[np.ndarray, "draws rows n"]) -> Float[np.ndarray, " draws"]:
    if truth.stationary is None:
        return np.full(len(private), np.nan)
    return 0.5 * np.abs(_stationary(private) - truth.stationary).sum(axis=-1)


def _stationary(P: Float[np.ndarray, "draws n n"]) -> Float[np.ndarray, "draws n"]:
    with jax.enable_x64(True):
        return np.asarray(gth(jnp.asarray(P)))


def _mean(values: Float[np.ndarray, " draws"]) -> tuple[float, float]:
    if len(values) < 2 or not np.isfinite(values).all():
        return float(values.mean()), 0.0
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


MATCHED, EXPONENTIAL = "Mechanism 1", "Mechanism 1, exponential selection"
RESTRICTED, RESPONSE = "randomised response among neighbours", "randomised response among all states"


class MeasuredTrajectory(NamedTuple):
    """One mechanism at one epsilon; `substitution` is its single-substitution epsilon (nats), `exact` whether it is one or a bound."""

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
    """Every mechanism at every single-substitution epsilon (nats) on one trajectory of state indices, two states or more."""
    for epsilon in epsilons:
        checked_epsilon(epsilon)
    states = np.asarray(trajectory)
    require(states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a trajectory of two states or more")
    return [one for epsilon in epsilons for one in _trajectory_at(chain, states, float(epsilon), float(rho))]


def _trajectory_at(chain: MarkovChain, states: np.ndarray, epsilon: float, rho: float) -> list[MeasuredTrajectory]:
    nominal = TrajectoryMechanism(chain, epsilon=epsilon, rho=rho)
    exact = affordable(nominal)
    matched: Callable[[TrajectoryMechanism], TrajectoryMechanism] = (
        (lambda m: match_substitution(m, epsilon)) if exact else (lambda m: _bounded(m, epsilon))
    )
    cost = substitution_epsilon_above(nominal) if exact else float(nominal.loss_bounds().max())
    mechanisms: list[tuple[str, OnlineMechanism, float, bool]] = [
        (f"{MATCHED}, nominal epsilon at rho {rho:g}", nominal, cost, exact),
        (MATCHED, matched(nominal), epsilon, exact),
        (EXPONENTIAL, matched(TrajectoryMechanism(chain, epsilon=epsilon, rho=rho, selection="exponential")), epsilon, exact),
        (RESTRICTED, ChenMechanism(chain, epsilon=epsilon, b=1), epsilon, True),
    ]
    return [_walked(name, m, states, epsilon, cost, known) for name, m, cost, known in mechanisms] + [
        _responded(chain, states, epsilon)
    ]


def _bounded(m: TrajectoryMechanism, target: float) -> TrajectoryMechanism:
    """`m` at the largest epsilon whose proved single-substitution bound is `target`."""
    return TrajectoryMechanism(m.chain, epsilon=m.epsilon * target / float(m.loss_bounds().max()), rho=m.rho, selection=m.selection)


def _walked(
    name: str, m: OnlineMechanism, states: np.ndarray, epsilon: float, substitution: float, exact: bool
) -> MeasuredTrajectory:
    law = exact_law(m, states, start=int(states[0]), check=False)
    hits = law.marginals[np.arange(1, len(states)), states[1:]]
    return MeasuredTrajectory(
        name, epsilon, substitution, exact, float(law.expected_error[1:].mean()), float(1 - hits.mean()), 0.0, "a path of the chain"
    )


def _responded(chain: MarkovChain, states: np.ndarray, epsilon: float) -> MeasuredTrajectory:
    m = RandomisedResponse(chain, epsilon=epsilon)
    impossible = float(m.infeasible_rate(states).mean())
    note = "s_0 is protected too"
    return MeasuredTrajectory(
        RESPONSE, epsilon, epsilon, True, float(m.expected_errors(states)[1:].mean()), m.error_rate, impossible, note
    )


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
