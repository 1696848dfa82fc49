"""What to audit of the package's own mechanisms: two adjacent inputs at which the claim is tight, and the true epsilon there.

Each target holds two samplers that call the mechanism as a user does, a score increasing in the log-likelihood ratio, the exact
epsilon at delta, and what is claimed. `drawn_by` puts another mechanism in the place of the one the claim is about, to see
whether the audit finds it out.

    Dirichlet        the corner pair: shares (eta + 1/N, eta, rest) against (eta, eta + 1/N, rest); score log(x_0 / x_1)
    pseudo-count     a record changes rows, from an else full row to another; or one record more; the exact value is Theorem 7's
    matrix           the corner pair in the row whose exact epsilon is largest
    trajectories     the pair of sensitive states that one step tells apart best, from the private state before it that does so
    offline          two trajectories of two transitions that differ at the first, where the proved bound is most nearly attained
    selection        two cost vectors of a user's choice
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require, require_kind
from dpjax.audit.bound import AuditResult, Sampler, audit, require_claim
from dpjax.counts import PseudocountMechanism
from dpjax.selection import permute_and_flip
from dpjax.simplex import DirichletMechanism, MatrixMechanism, exact_epsilon
from dpjax.trajectory import ChenMechanism, OfflineMechanism, TrajectoryMechanism, pairwise_losses
from dpjax.trajectory.kernel import slot_log_law

_FULL = 10**6  # records in the other cell of a row: they hide its total
Online = TrajectoryMechanism | ChenMechanism


@dataclasses.dataclass(frozen=True, kw_only=True)
class Target:
    """Two adjacent inputs of one mechanism. sampler_p, sampler_q: (key, n) -> outputs, of which `score` makes scores or categories.

    exact: the true epsilon at delta for the worst pair (for pseudo-counts its proved bound). claimed: the epsilon claimed for it.
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


def log_ratio(x: Float[np.ndarray, "draws 2"]) -> Float[np.ndarray, " draws"]:
    """log(x_0 / x_1), infinite where one has underflown to 0, and 0 where both have."""
    with np.errstate(divide="ignore"):
        logs = np.log(x.astype(np.float64))
    lost = np.isneginf(logs).all(axis=1)
    return np.where(lost, 0.0, logs[:, 0] - np.where(lost, 0.0, logs[:, 1]))


def dirichlet_target(
    m: DirichletMechanism, delta: float, *, claimed: float | None = None, drawn_by: DirichletMechanism | None = None
) -> Target:
    """The corner pair of Theorem 6 (two categories: the end point). claimed None: the exact epsilon."""
    p, q = corner_pair(float(m.eta), float(m.n_records), np.arange(int(m.n_categories)), int(m.n_categories))
    one = drawn_by or m

    def sampler(C: np.ndarray) -> Sampler:
        return lambda key, n: one.privatize(key, np.broadcast_to(C, (n, C.size)))[:, :2]

    exact = float(m.exact_epsilon(delta))
    return _target("dirichlet", sampler(p), sampler(q), log_ratio, delta, exact, claimed)


def pseudocount_target(
    m: PseudocountMechanism, delta: float, *, claimed: float | None = None, drawn_by: PseudocountMechanism | None = None
) -> Target:
    """A record that leaves one row for another (adjacency "replace"), or that is there or not ("add-remove").

    The other cell of each row is full, so that the total says next to nothing: Theorem 7's bound is then nearly attained.
    """
    before = np.array([[1, _FULL], [0, _FULL]])
    after = np.array([[0, _FULL], [int(m.adjacency == "replace"), _FULL]])
    one = drawn_by or m

    def sampler(counts: np.ndarray) -> Sampler:
        return lambda key, n: one.privatize(key, np.broadcast_to(counts, (n, *counts.shape)))[:, :, 0]

    def first(x: Float[np.ndarray, "draws 2"]) -> Float[np.ndarray, " draws"]:
        return x[:, 0]

    score = log_ratio if m.adjacency == "replace" else first
    return _target("pseudocount", sampler(before), sampler(after), score, delta, float(m.exact_epsilon(delta)), claimed)


def matrix_target(
    m: MatrixMechanism, delta: float, *, claimed: float | None = None, drawn_by: MatrixMechanism | None = None
) -> Target:
    """The corner pair in the row whose exact epsilon at delta is largest; the other rows are uniform on their support."""
    rows, drawn = m.rows, np.flatnonzero(~(m.rows.constant | np.asarray(m.withheld)))
    require(
        len(drawn) > 0,
        "rows",
        None,
        "nothing is drawn, so there is nothing to audit: give a mechanism that draws a row",
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
    """Shares (eta + 1/N, eta, rest) and (eta, eta + 1/N, rest) on `cells`, the rest even; two cells: (eta + 1/N, 1 - eta - 1/N)."""
    shares = np.full(len(cells), (1 - 2 * eta - 1 / n_records) / max(len(cells) - 2, 1))
    shares[:2] = (eta, eta + 1 / n_records) if len(cells) > 2 else (eta, 1 - eta)
    pair = np.zeros((2, width))
    pair[:, cells] = shares
    pair[0, cells[0]] += 1 / n_records
    pair[0, cells[1]] -= 1 / n_records
    return pair[0], pair[1]


def trajectory_target(m: Online, *, claimed: float | None = None, drawn_by: Online | None = None) -> Target:
    """One step, at the pair of sensitive states with the largest exact loss. claimed None: the proved bound for that pair.

    delta is 0; the outputs are private states, taken as categories. Needs the losses of all pairs of states.
    """
    require_kind(m, "m", (TrajectoryMechanism, ChenMechanism), "give a TrajectoryMechanism or a ChenMechanism")
    losses = pairwise_losses(m)
    s, v = (int(i) for i in np.unravel_index(np.argmax(losses), losses.shape))
    start, one = telling_start(m, s, v), drawn_by or m

    def sampler(state: int) -> Sampler:
        return lambda key, n: one.sample(key, np.array([start, state]), n, start=start, check=False)[:, 1]

    name = "trajectory" if isinstance(m, TrajectoryMechanism) else "chen"
    claim = float(m.loss_bounds()[s, v]) if claimed is None else claimed
    return _target(name, sampler(s), sampler(v), None, 0.0, float(losses[s, v]), claim)


def telling_start(m: Online, s: int, v: int) -> int:
    """The private state from which one step tells sensitive state s from v best."""
    with jax.enable_x64(True):
        logs = [np.asarray(slot_log_law(m.kernel, m.cost_row(state))) for state in (s, v)]
    real = np.asarray(m.graph.neighbours.real)[: m.graph.neighbours.n_slots]
    gain = np.where(real, logs[0] - np.where(real, logs[1], 0.0), -np.inf)
    return int(np.asarray(m.graph.neighbours.owners)[int(np.argmax(gain))])


def offline_target(m: OfflineMechanism, *, claimed: float | None = None, drawn_by: OfflineMechanism | None = None) -> Target:
    """Two trajectories that differ at t = 1 in the pair of states whose bound is largest. claimed None: that bound.

    What a substitution costs depends on the rest of the trajectory: s_2 and the public s'_0 are those that show most, and the exact
    value is for these two trajectories. delta is 0; the outputs (s'_1, s'_2) are categories. Tries n^2 contexts: small chains.
    """
    require_kind(m, "m", OfflineMechanism, "give an OfflineMechanism; trajectory_target takes the others")
    bounds, n = m.loss_bounds(), m.graph.n_states
    s, v = (int(i) for i in np.unravel_index(np.argmax(bounds), bounds.shape))
    contexts = [(start, last) for start in range(n) for last in range(n)]
    losses = [_loss_of(m, start, (s, last), (v, last)) for start, last in contexts]
    start, last = contexts[int(np.argmax(losses))]
    one = drawn_by or m

    def sampler(state: int) -> Sampler:
        def draw(key: Key[Array, ""], draws: int) -> np.ndarray:
            paths = np.asarray(one.sample(key, np.array([start, state, last]), draws, start=start, check=False))
            return paths[:, 1] * n + paths[:, 2]

        return draw

    claim = float(bounds[s, v]) if claimed is None else claimed
    return _target("offline", sampler(s), sampler(v), None, 0.0, max(losses), claim)


def _loss_of(m: OfflineMechanism, start: int, w: tuple[int, int], v: tuple[int, int]) -> float:
    """The largest log-ratio, either way, of the laws of (s'_1, s'_2) given s_1, s_2 = w and = v."""
    edges, logs = m.graph.arrivals, []
    ends = np.repeat(np.arange(m.graph.n_states), np.diff(edges.offsets))
    for word in (w, v):
        one, two = (np.full((m.graph.n_states,) * 2, -np.inf) for _ in range(2))
        for table, law in zip((one, two), m.forward(np.array([start, *word]), start).kernels(), strict=True):
            table[edges.owners, ends] = np.log(law)
        logs.append((one[start][:, None] + two).reshape(-1))
    possible = np.isfinite(logs[0])
    return float(np.abs(logs[0][possible] - logs[1][possible]).max())


def selection_target(
    costs_p: Any, costs_q: Any, scale: float, *, form: str = "auto", claimed: float | None = None, drawn_at: float | None = None
) -> Target:
    """Permute-and-flip on two cost vectors. claimed None: scale times the range of their difference. drawn_at: another scale."""
    p, q = np.asarray(costs_p, np.float64), np.asarray(costs_q, np.float64)
    require(p.shape == q.shape and p.ndim == 1, "costs_q", costs_q, "give two vectors of as many costs")
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
