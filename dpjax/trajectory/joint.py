"""A random sensitive trajectory and its private one together: the joint chain, its exact law over time, and its stationary law.

The sensitive s_0, s_1, ... follow the mechanism's own chain, and the private s'_t follow them. So the pair Z_t = (s_t, s'_t) is a
Markov chain on |S|^2 states:

    T[(s, s'), (s+, o)] = P(s, s+) K[s+, s', o],     K[s+, s', o] = pi(o | s+, s').

Its matrix has |E|^2 entries. But a law nu[s, s'] moves forward, and a function f[s, s'] is averaged backward, in two stages:

    (nu T)[s+, o]  = sum_{s'} (P^T nu)[s+, s'] K[s+, s', o],
    (T f)[s, s']   = sum_{s+} P(s, s+) H[s+, s'],     H[s+, s'] = sum_o K[s+, s', o] f[s+, o],

which cost |S| |E| each. The kernels of all sensitive states are kept in memory if they fit in HELD_BYTES (1.8 GB for a web graph of
3,817 states and 58,081 edges); otherwise they are computed again at each use.

*Over time.* With nu_t the law of Z_t, V(s, s') = G(s', s) the error of the private state, in nats, and W the edge lengths,

    nu_{t+1} = nu_t T,        P(V_t > v) = nu_t[V > v],        E V_t = nu_t V;
    taboo:    kept_0 = nu_0 1[V <= v], kept_{t+1} = (kept_t T) 1[V <= v]:  P(max_t V_t > v) = sum of the mass removed, t = 0 counted;
    entropy:  n H_n = sum_{t<n} W(s'_t, s'_{t+1}); its first two moments by carrying E[X; Z_t] and E[X^2; Z_t], X the sum of W about a
              fixed centre.

Each step costs |S| |E|, without sampling noise. All results are averages over the law of the sensitive trajectory: nothing in this
module depends on a person's data.

*In the long run* nu = nu T. Its first marginal is the chain's stationary distribution mu. Its errors and transitions are those of a
private trajectory after a long time, whatever its start. If the chain has period d, the phase between s and s' never changes, so the
joint chain has at least d closed classes and no unique stationary law: this raises an error that names the period. Up to ASSEMBLED
entries of T (|E|^2) the law comes from elimination without subtraction, or from a checked sparse solve. Larger joint chains are run
forward from mu x mu until one step moves less than a total variation of 1e-13. The last such move is the result's `residual`; it does
not bound the error if the chain mixes slowly.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
from jaxtyping import Float

from dpjax._errors import invalid, require, require_whole
from dpjax._tracing import is_traced
from dpjax.chains.stationary import stationary_of_chain
from dpjax.trajectory.exact import at_thresholds
from dpjax.trajectory.graph import (
    ChainGraph,
    Start,
    at_most_one,
    dimensions,
    initial_law,
    probabilities,
    thresholds_of,
)
from dpjax.trajectory.mechanism import OnlineMechanism
from dpjax.trajectory.steps import require_online
from dpjax.trajectory.traced import traced_joint_law, traced_stationary

HELD_BYTES = 2**31
_GROUP_ENTRIES = 2**20  # entries of the kernels of one group of sensitive states, which form one sparse matrix

Weight = Float[np.ndarray, " edges"] | None  # a factor for each edge of the private chain, in the order of `Arrivals`


class JointChain:
    """The operator T of a mechanism whose sensitive trajectory is drawn from the mechanism's own chain."""

    def __init__(self, m: OnlineMechanism) -> None:
        self.mechanism = m
        self.graph = m.graph
        self.P = scipy.sparse.csr_array(m.chain.host_matrix())
        self._held: list[Float[np.ndarray, "targets edges"]] | None = None
        self._patterns: dict[int, tuple[Any, Any]] = {}  # columns and row starts, by the number of sensitive states in a group

    @property
    def n_states(self) -> int:
        """The number of states of the chain; the joint chain has the square of it."""
        return self.graph.n_states

    @functools.cached_property
    def errors(self) -> Float[np.ndarray, "n n"]:
        """V[s, s'] = G(s', s), nats."""
        return np.ascontiguousarray(self.graph.all_distances().T)

    @functools.cached_property
    def lengths(self) -> Float[np.ndarray, " edges"]:
        """W of each edge of the private chain, in the order of `Arrivals`."""
        return self.graph.arrivals.lengths

    @functools.cached_property
    def mean_lengths(self) -> Float[np.ndarray, "n n"]:
        """E[W(s', o) | s+, s'] in entry [s+, s']: the mean length of the next private transition."""
        return self.private_means(np.ones((self.n_states, self.n_states)), self.lengths)

    def forward(self, nu: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """nu T, with the kernels multiplied by `weight`, edge by edge."""
        return self.private_step(self.sensitive_step(nu), weight)

    def backward(self, f: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """T f, with the kernels multiplied by `weight`, edge by edge."""
        return (self.P @ self.private_means(f, weight).reshape(self.n_states, -1)).reshape(f.shape)

    def sensitive_step(self, nu: Float[np.ndarray, "n n *k"]) -> Float[np.ndarray, "n n *k"]:
        """P^T nu: the law of (s_{t+1}, s'_t)."""
        return (self.P.T @ nu.reshape(self.n_states, -1)).reshape(nu.shape)

    def private_step(self, spread: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """The law of (s_{t+1}, s'_{t+1}) from the law of (s_{t+1}, s'_t), with the kernels multiplied by `weight`, edge by edge."""
        flat = spread.reshape(self.n_states**2, -1)
        result = np.empty_like(flat)
        for rows, block in self._blocks(weight):
            result[rows] = block @ flat[rows]
        return result.reshape(spread.shape)

    def private_means(self, f: Float[np.ndarray, "n n *k"], weight: Weight = None) -> Float[np.ndarray, "n n *k"]:
        """H[s+, s'] = sum_o K[s+, s', o] weight f[s+, o]."""
        flat = f.reshape(self.n_states**2, -1)
        result = np.empty_like(flat)
        for rows, block in self._blocks(weight):
            result[rows] = block.T @ flat[rows]
        return result.reshape(f.shape)

    def matrix(self) -> scipy.sparse.csr_array:
        """T itself, (n^2, n^2), row-stochastic: |E|^2 entries, for small chains."""
        kernels = scipy.sparse.block_diag([block.T for _, block in self._blocks(None)], format="csr")
        spread = scipy.sparse.kron(self.P, scipy.sparse.eye_array(self.n_states), format="csr")
        return scipy.sparse.csr_array(spread @ kernels)

    def _blocks(self, weight: Weight) -> Iterator[tuple[slice, scipy.sparse.csr_array]]:
        """The kernels of groups of sensitive states as block-diagonal matrices: entry ((s+, o), (s+, s'))."""
        if self._held is None and 8 * self.n_states * len(self.lengths) <= HELD_BYTES:
            self._held = list(self._tables())
        first = 0
        for table in self._held or self._tables():
            size = len(table)
            pattern = self._pattern(size)
            data = table if weight is None else table * weight
            width = size * self.n_states
            block = scipy.sparse.csr_array((data.reshape(-1), *pattern), shape=(width, width))
            yield slice(first * self.n_states, first * self.n_states + width), block
            first += size

    def _tables(self) -> Iterator[Float[np.ndarray, "targets edges"]]:
        size = max(1, _GROUP_ENTRIES // len(self.lengths))
        for first in range(0, self.n_states, size):
            yield np.stack(self.mechanism.arriving_laws(np.arange(first, min(first + size, self.n_states))))

    def _pattern(self, size: int) -> tuple[Any, Any]:
        if size not in self._patterns:
            self._patterns[size] = self._new_pattern(size)
        return self._patterns[size]

    def _new_pattern(self, size: int) -> tuple[Any, Any]:
        arrivals, n, edges = self.graph.arrivals, self.n_states, len(self.lengths)
        which = np.repeat(np.arange(size), edges)
        indices = np.tile(arrivals.owners, size) + n * which
        starts = np.tile(arrivals.offsets[:-1], size) + edges * np.repeat(np.arange(size), n)
        kind = np.int32 if size * max(edges, n) < 2**31 else np.int64
        return indices.astype(kind), np.append(starts, size * edges).astype(kind)


def joint_chain_of(m: OnlineMechanism) -> JointChain:
    """The joint chain of `m`. The last one is kept, so that law, drift and bounds of one mechanism share its kernels."""
    require_online(m)
    return _joint_chain_of(m)


@functools.lru_cache(maxsize=1)
def _joint_chain_of(m: OnlineMechanism) -> JointChain:
    return JointChain(m)


_HELD_BYTES = 2**28  # memory of the laws that move together, one for each threshold


@dataclasses.dataclass(frozen=True, eq=False)
class JointLaw:
    """The exact law of (s_t, s'_t), t = 0..n_steps, with V_t = G(s'_t, s_t) in nats and H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1}).

    Made by `joint_law`.
    """

    sensitive_marginals: Float[np.ndarray, "steps n"]  # P(s_t = i)
    marginals: Float[np.ndarray, "steps n"]  # P(s'_t = i)
    expected_error: Float[np.ndarray, " steps"]  # E V_t
    expected_lengths: Float[np.ndarray, " transitions"]  # E W(s'_t, s'_{t+1})
    start: Float[np.ndarray, "n n"] = dataclasses.field(repr=False)  # law of (s_0, s'_0)
    end: Float[np.ndarray, "n n"] = dataclasses.field(repr=False)  # law of (s_n, s'_n)
    chain: JointChain = dataclasses.field(repr=False)

    @property
    def n_steps(self) -> int:
        """The number of transitions n."""
        return len(self.expected_lengths)

    @property
    def expected_entropy(self) -> float:
        """E H_n, nats per transition."""
        return float(self.expected_lengths.mean())

    @functools.cached_property
    def variance_entropy(self) -> float:
        """Var H_n; computed at the first use, at about four times the cost of the law itself."""
        excess = self.chain.lengths - self.expected_entropy
        a, b, q = self.start, np.zeros_like(self.start), np.zeros_like(self.start)
        for _ in range(self.n_steps):
            plain = self.chain.forward(np.stack([a, b, q], axis=-1))
            once = self.chain.forward(np.stack([a, b], axis=-1), excess)
            twice = self.chain.forward(a, excess**2)
            a, b, q = plain[..., 0], plain[..., 1] + once[..., 0], plain[..., 2] + 2 * once[..., 1] + twice
        return float((q.sum() - b.sum() ** 2) / self.n_steps**2)

    def exceedance(self, v: Any) -> Any:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""
        if is_traced(v):
            return at_thresholds(self.exceedance, self.chain.errors, v)
        levels = thresholds_of(v)
        found = [self._removed(part) for part in self._parts(levels.reshape(-1))]
        return at_most_one(np.concatenate([np.zeros(0), *found]).reshape(levels.shape)[()])

    def step_exceedance(self, v: Any) -> Any:
        """P(V_t > v) for each t = 0..n. v: a threshold in nats, or an array of them along the last axis of the result."""
        if is_traced(v):
            return at_thresholds(self.step_exceedance, self.chain.errors, v)
        levels = thresholds_of(v)
        nu, tails = self.start, []
        for t in range(self.n_steps + 1):
            nu = nu if t == 0 else self.chain.forward(nu)
            tails.append([nu[self.chain.errors > level].sum() for level in levels.reshape(-1)])
        return at_most_one(np.asarray(tails, np.float64).reshape(self.n_steps + 1, *levels.shape))

    def _parts(self, levels: Float[np.ndarray, " thresholds"]) -> list[Float[np.ndarray, " part"]]:
        size = max(1, _HELD_BYTES // (8 * self.chain.n_states**2))
        return [levels[i : i + size] for i in range(0, len(levels), size)]

    def _removed(self, levels: Float[np.ndarray, " part"]) -> Float[np.ndarray, " part"]:
        over = self.chain.errors[..., None] > levels
        first = np.broadcast_to(self.start[..., None], over.shape)
        total, kept = np.where(over, first, 0.0).sum(axis=(0, 1)), np.where(over, 0.0, first)
        for _ in range(self.n_steps):
            moved = self.chain.forward(kept)
            total = total + np.where(over, moved, 0.0).sum(axis=(0, 1))
            kept = np.where(over, 0.0, moved)
        return total


def joint_law(m: OnlineMechanism, n_steps: int, start: Any = None, sensitive: Start = None) -> Any:
    """The exact law of the sensitive and the private trajectory together, over `n_steps` transitions.

    Args:
        m: a mechanism that draws one step at a time.
        n_steps: the number of transitions, 1 or more.
        start: the law of s'_0: None for the chain's initial distribution, a state index (public), or n probabilities. Or the joint law
            of (s_0, s'_0), shape (n, n), row s_0.
        sensitive: the law of s_0: an index or n probabilities. None takes the state `start` if that is an index, and otherwise the
            chain's initial distribution. s_0 and s'_0 are independent unless `start` is a joint law.

    Returns:
        A `JointLaw`. If a parameter, the chain's probabilities or a start are traced: a `TracedJointLaw` with the same names, in their
        floating-point type, not rounded and differentiable; its kernels are dense, for up to 645 states.

    Example:
        >>> m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
        >>> dpjax.trajectory.joint_law(m, 100).exceedance(3.0)
    """
    require_whole(n_steps, "n_steps", "give the number of transitions, a whole number, 1 or more", least=1)
    require_online(m)
    if is_traced(m, start, sensitive):
        return traced_joint_law(m, n_steps, start, sensitive)
    chain = joint_chain_of(m)
    initial = nu = joint_start(m.graph, start, sensitive)
    laws, errors, lengths = [(nu.sum(axis=1), nu.sum(axis=0))], [float((nu * chain.errors).sum())], []
    for _ in range(n_steps):
        lengths.append(float((chain.sensitive_step(nu) * chain.mean_lengths).sum()))
        nu = chain.forward(nu)
        laws.append((nu.sum(axis=1), nu.sum(axis=0)))
        errors.append(float((nu * chain.errors).sum()))
    return JointLaw(
        sensitive_marginals=np.stack([law for law, _ in laws]),
        marginals=np.stack([law for _, law in laws]),
        expected_error=np.array(errors),
        expected_lengths=np.array(lengths),
        start=initial,
        end=nu,
        chain=chain,
    )


def joint_start(graph: ChainGraph, start: Any, sensitive: Start) -> Float[np.ndarray, "n n"]:
    """The law of (s_0, s'_0), from the arguments of `joint_law`."""
    public = start is not None and dimensions(start, "start") == 0
    if start is None or dimensions(start, "start") < 2:
        private = initial_law(graph, start)
        return np.outer(private if sensitive is None and public else initial_law(graph, sensitive, "sensitive"), private)
    n, given = graph.n_states, probabilities(start, "start")
    require(sensitive is None, "sensitive", sensitive, "leave it out: the joint law given as start holds the law of s_0")
    require(given.shape == (n, n), "start", given.shape, f"give an index, {n} probabilities, or ({n}, {n}) joint probabilities")
    return given


ASSEMBLED = 2_000_000
_MOVES = 2_000
_SETTLED = 1e-13


@dataclasses.dataclass(frozen=True, eq=False)
class StationaryJointLaw:
    """The stationary law of (s, s'), entry [s, s'], with V = G(s', s) in nats. Made by `joint_stationary`."""

    law: Float[np.ndarray, "n n"]
    expected_error: float  # E V
    expected_length: float  # E W(s'_t, s'_{t+1}): the limit of E H_n, nats per transition
    residual: float  # total variation between the law and the law one step later
    chain: JointChain = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> Any:
        """P(V > v), strictly. v: a threshold in nats, or an array of them; the result has its shape."""
        if is_traced(v):
            return at_thresholds(self.exceedance, self.chain.errors, v)
        levels = thresholds_of(v)
        tails = [self.law[self.chain.errors > level].sum() for level in levels.reshape(-1)]
        return at_most_one(np.array(tails, np.float64).reshape(levels.shape)[()])


def joint_stationary(m: OnlineMechanism) -> Any:
    """The stationary law of the joint chain of `m`.

    Args:
        m: a mechanism that draws one step at a time.

    Returns:
        A `StationaryJointLaw`. If a parameter or the chain's probabilities are traced: a `TracedStationary`, differentiable by the
        adjoint of the stationary equation, and NaN if there is no unique stationary law.

    Raises:
        InputError: the joint chain has several closed classes (a periodic chain), or it mixes too slowly.

    Example:
        >>> m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
        >>> dpjax.trajectory.joint_stationary(m).expected_error
    """
    require_online(m)
    if is_traced(m):
        return traced_stationary(m)
    chain = joint_chain_of(m)
    if len(chain.lengths) ** 2 <= ASSEMBLED:
        law = np.asarray(stationary_of_chain(chain.matrix())).reshape(chain.n_states, chain.n_states)
    else:
        law = _by_running(chain)
    after = chain.forward(law)
    return StationaryJointLaw(
        law=law,
        expected_error=float((law * chain.errors).sum()),
        expected_length=float((chain.sensitive_step(law) * chain.mean_lengths).sum()),
        residual=float(np.abs(after - law).sum() / 2),
        chain=chain,
    )


def _by_running(chain: JointChain) -> Float[np.ndarray, "n n"]:
    mu = chain.mechanism.chain.stationary_distribution()
    law = np.outer(mu, mu)
    for _ in range(_MOVES):
        after = chain.forward(law)
        after /= after.sum()
        moved = float(np.abs(after - law).sum() / 2)
        law = after
        if moved <= _SETTLED:
            return law
    return invalid(
        "chain",
        None,
        "use joint_law with the horizon that you need",
        problem=f"is still moving by {moved:.1e} after {_MOVES} steps",
    )
