"""The package's own mechanisms as targets of an audit: two adjacent inputs at which the claim is tight, and the true epsilon.

Each target contains two samplers that call the mechanism as a user does, a score that increases with the log-likelihood ratio, the exact
epsilon at delta, and the claim. `drawn_by` draws from another mechanism than the one that is claimed, to test whether the audit detects it.

    Dirichlet        the corner pair: shares (eta + 1/N, eta, rest) against (eta, eta + 1/N, rest); score log(x_0 / x_1)
    on counts        a record moves from one row to another, each with a full other cell; or one record more. The mechanism may give its own
                     tables and score. (The value of Theorem 7 is nearly attained for pseudo-counts, the exact one for noisy counts.)
    matrix           the corner pair in the row whose exact epsilon is largest
    trajectories     the two trajectories at which the mechanism's claim is tight (`TrajectoryProtocol.worst_pair`)
    selection        two cost vectors of the user's choice
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import invalid, require, require_kind
from dpjax.audit.bound import AuditResult, Sampler, audit, require_claim
from dpjax.counts import CountMechanism
from dpjax.counts.protocol import log_ratio
from dpjax.selection import permute_and_flip
from dpjax.simplex import DirichletMechanism, MatrixMechanism, exact_epsilon
from dpjax.trajectory.protocol import TrajectoryProtocol, require_mechanism


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Two adjacent inputs of one mechanism, with what an audit needs.

    Attributes:
        name: The name of the mechanism.
        sampler_p: (key, n) -> outputs.
        sampler_q: (key, n) -> outputs of the adjacent input.
        score: A function from outputs to scores or categories, or None.
        delta: The delta of the audit.
        exact: The true epsilon at delta of the worst pair; its proved bound for pseudo-counts.
        claimed: The epsilon that is claimed.
    """

    name: str
    sampler_p: Sampler
    sampler_q: Sampler
    score: Any
    delta: float
    exact: float
    claimed: float

    def __post_init__(self) -> None:
        require_claim(self.claimed)

    def audit(self, key: Key[Array, ""], n: int, confidence: float = 0.99) -> AuditResult:
        """The lower bound from n draws of each input."""
        return audit(self.sampler_p, self.sampler_q, key, n, score=self.score, delta=self.delta, confidence=confidence)


def dirichlet_target(
    m: DirichletMechanism, delta: float, *, claimed: float | None = None, drawn_by: DirichletMechanism | None = None
) -> Target:
    """The corner pair of Theorem 6; the end point for two categories.

    Args:
        m: The mechanism that makes the claim.
        delta: The delta of the audit, in (0, 1).
        claimed: The claimed epsilon. Default: the exact one.
        drawn_by: The mechanism that draws. Default: m.

    Returns:
        A `Target`, which has the method `audit`.

    Example:
        >>> import jax
        >>> from dpjax import DirichletMechanism
        >>> from dpjax.audit import dirichlet_target
        >>> target = dirichlet_target(DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5), 0.0026)
        >>> target.audit(jax.random.key(0), 1000).refutes(target.claimed)
        False
    """
    p, q = corner_pair(float(m.eta), float(m.n_records), np.arange(int(m.n_categories)), int(m.n_categories))
    one = drawn_by or m

    def sampler(C: np.ndarray) -> Sampler:
        return lambda key, n: one.privatize(key, np.broadcast_to(C, (n, C.size)))[:, :2]

    exact = float(m.exact_epsilon(delta))
    return _target("dirichlet", sampler(p), sampler(q), log_ratio, delta, exact, claimed)


def count_target(
    m: CountMechanism, delta: float, *, claimed: float | None = None, drawn_by: CountMechanism | None = None
) -> Target:
    """The two neighbouring tables that the mechanism names.

    By default they are the tables of `dpjax.counts.protocol.worst_pair`: a record moves from one row to another ("replace"), or is added or not
    ("add-remove"). The other cell of each row is full, so that the total reveals almost nothing, and the bound is nearly attained. A
    mechanism that spends no delta is audited at delta 0.

    Args:
        m: The mechanism that makes the claim.
        delta: The delta of the audit.
        claimed: The claimed epsilon. Default: the exact one.
        drawn_by: The mechanism that draws. Default: m.

    Returns:
        A `Target`, which has the method `audit`.

    Example:
        >>> import jax
        >>> from dpjax.audit import count_target
        >>> from dpjax.counts import PseudocountMechanism
        >>> target = count_target(PseudocountMechanism(scale=0.5, pseudocount=10.0), 1e-3)
        >>> target.audit(jax.random.key(0), 1000).refutes(target.claimed)
        False
    """
    require_kind(m, "m", CountMechanism, "give a mechanism of dpjax.counts")
    pair, one = m.audit_pair(), drawn_by or m
    if pair is None:
        invalid("m", m.name, "it has no pair of tables to audit: use matrix_target for a mechanism on public rows")
    at = delta if m.spends_delta else 0.0

    def sampler(counts: np.ndarray) -> Sampler:
        return lambda key, n: one.privatize(key, np.broadcast_to(counts, (n, *counts.shape)))

    return _target(m.name, sampler(pair.before), sampler(pair.after), pair.score, at, float(m.exact_epsilon(at)), claimed)


def matrix_target(
    m: MatrixMechanism, delta: float, *, claimed: float | None = None, drawn_by: MatrixMechanism | None = None
) -> Target:
    """The corner pair in the row whose exact epsilon at delta is largest; the other rows are uniform on their support.

    Args:
        m: The mechanism that makes the claim.
        delta: The delta of the audit, in (0, 1).
        claimed: The claimed epsilon. Default: the exact one.
        drawn_by: The mechanism that draws. Default: m.

    Returns:
        A `Target`, which has the method `audit`.
    """
    rows, drawn = m.rows, np.flatnonzero(~(m.rows.constant | np.asarray(m.withheld)))
    require(
        len(drawn) > 0,
        "rows",
        None,
        "nothing is drawn, so there is nothing to audit: pass a mechanism that draws a row",
        problem="are all constant or withheld",
    )
    k, eta, records, n = (np.asarray(x)[drawn] for x in (m.k, rows.eta, rows.n_records, rows.n_categories))
    row = int(drawn[np.argmax(exact_epsilon(delta, k=k, eta=eta, n_records=records, n_categories=n))])
    cells, one = np.flatnonzero(rows.support[row]), drawn_by or m
    uniform = rows.support / rows.n_categories[:, None]

    def sampler(C: np.ndarray) -> Sampler:
        P = uniform.copy()
        P[row] = C
        return lambda key, n: one.draws(key, P, n)[:, row, cells[:2]]

    p, q = corner_pair(float(rows.eta[row]), float(rows.n_records[row]), cells, rows.support.shape[1])
    return _target("matrix", sampler(p), sampler(q), log_ratio, delta, float(m.exact_epsilon(delta)), claimed)


def corner_pair(
    eta: float, n_records: float, cells: Int[np.ndarray, " cells"], width: int
) -> tuple[Float[np.ndarray, " width"], Float[np.ndarray, " width"]]:
    """Shares (eta + 1/N, eta, rest) and (eta, eta + 1/N, rest) on `cells`, the rest even; for two cells (eta + 1/N, 1 - eta - 1/N)."""
    shares = np.full(len(cells), (1 - 2 * eta - 1 / n_records) / max(len(cells) - 2, 1))
    shares[:2] = (eta, eta + 1 / n_records) if len(cells) > 2 else (eta, 1 - eta)
    pair = np.zeros((2, width))
    pair[:, cells] = shares
    pair[0, cells[0]] += 1 / n_records
    pair[0, cells[1]] -= 1 / n_records
    return pair[0], pair[1]


def trajectory_target(m: TrajectoryProtocol, *, claimed: float | None = None, drawn_by: TrajectoryProtocol | None = None) -> Target:
    """The two trajectories at which the mechanism's claim is most nearly attained (`worst_pair`).

    delta is 0. The outputs after the first are categories. The cost depends on the mechanism: the losses of all pairs of states for an
    online mechanism, n^2 contexts for the offline one.

    Args:
        m: The mechanism that makes the claim.
        claimed: The claimed epsilon. Default: the proved bound for these trajectories.
        drawn_by: The mechanism that draws. Default: m.

    Returns:
        A `Target`, which has the method `audit`.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.audit import trajectory_target
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> target = trajectory_target(TrajectoryMechanism.under_hamming(chain, epsilon=4.0))
        >>> target.exact <= target.claimed
        True
    """
    require_mechanism(m)
    pair, one, n = m.worst_pair(), drawn_by or m, m.graph.n_states

    def sampler(trajectory: Int[np.ndarray, " steps"]) -> Sampler:
        def draw(key: Key[Array, ""], draws: int) -> np.ndarray:
            paths = np.asarray(one.sample(key, trajectory, draws, start=pair.start, check=False)).astype(np.int64)
            return functools.reduce(lambda category, state: category * n + state, paths.T[2:], paths[:, 1])

        return draw

    claim = pair.bound if claimed is None else claimed
    return _target(m.name, sampler(pair.w), sampler(pair.v), None, 0.0, pair.exact, claim)


def selection_target(
    costs_p: Any, costs_q: Any, scale: float, *, form: str = "auto", claimed: float | None = None, drawn_at: float | None = None
) -> Target:
    """Permute-and-flip on two cost vectors.

    Args:
        costs_p: Costs, (m,), finite.
        costs_q: The adjacent costs, (m,).
        scale: The scale of the mechanism that makes the claim.
        form: The form of the draw; see `permute_and_flip.sample`.
        claimed: The claimed epsilon. Default: scale times the range of the difference of the costs.
        drawn_at: The scale of the draws. Default: `scale`.

    Returns:
        A `Target`, which has the method `audit`.

    Example:
        >>> from dpjax.audit import selection_target
        >>> target = selection_target([0.0, 1.0], [1.0, 0.0], 1.0)
        >>> round(target.exact, 3), target.claimed
        (1.49, 2.0)
    """
    p, q = np.asarray(costs_p, np.float64), np.asarray(costs_q, np.float64)
    require(p.shape == q.shape and p.ndim == 1, "costs_q", costs_q, "pass two vectors of costs of the same length")
    require(bool(np.isfinite(p).all() and np.isfinite(q).all()), "costs", (costs_p, costs_q), "give finite costs")
    logs = [np.asarray(permute_and_flip.log_law(costs, scale)) for costs in (p, q)]

    def sampler(costs: np.ndarray) -> Sampler:
        return lambda key, n: permute_and_flip.sample(key, costs, scale if drawn_at is None else drawn_at, shape=(n,), form=form)

    claim = float(scale * np.ptp(p - q)) if claimed is None else claimed
    exact = float(np.abs(logs[0] - logs[1]).max())
    return _target("permute-and-flip", sampler(p), sampler(q), None, 0.0, exact, claim)


def _target(name: str, p: Sampler, q: Sampler, score: Any, delta: float, exact: float, claimed: float | None) -> Target:
    claim = exact if claimed is None else claimed
    return Target(name=name, sampler_p=p, sampler_q=q, score=score, delta=float(delta), exact=exact, claimed=claim)
