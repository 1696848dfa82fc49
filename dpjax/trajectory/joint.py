"""The exact law of the private trajectory of a random sensitive one: no sampling noise.

Sensitive s_0, s_1, ... run the mechanism's own chain, private s'_t follow them. With nu_t the law of (s_t, s'_t), T the joint chain's
operator (`joint_chain`), V(s, s') = G(s', s) and W the edge lengths,

    nu_{t+1} = nu_t T,        P(V_t > v) = nu_t[V > v],        E V_t = nu_t V;
    taboo:    kept_0 = nu_0 1[V <= v], kept_{t+1} = (kept_t T) 1[V <= v]:  P(max_t V_t > v) = sum of the mass removed, t = 0 counted;
    entropy:  n H_n = sum_{t<n} W(s'_t, s'_{t+1}); its first two moments by carrying E[X; Z_t] and E[X^2; Z_t], X the sum of W about a
              fixed centre.

Each step costs |S| |E|. Averaged over the law of sensitive trajectories: nothing here depends on anyone's data.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from jaxtyping import Float

from dpjax._errors import require, require_whole
from dpjax.trajectory.graph import ChainGraph
from dpjax.trajectory.inputs import Start, at_most_one, dimensions, initial_law, probabilities, thresholds_of
from dpjax.trajectory.joint_chain import JointChain, joint_chain_of
from dpjax.trajectory.mechanism import OnlineMechanism

_HELD_BYTES = 2**28  # thresholds moved at once: laws of this size


@dataclasses.dataclass(frozen=True, eq=False)
class JointLaw:
    """What is known exactly of (s_t, s'_t), t = 0..n_steps. V_t = G(s'_t, s_t), nats; H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1})."""

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
        """E H_n, nats a transition."""
        return float(self.expected_lengths.mean())

    @functools.cached_property
    def variance_entropy(self) -> float:
        """Var H_n; found at the first use, at about four times the cost of the law itself."""
        excess = self.chain.lengths - self.expected_entropy
        a, b, q = self.start, np.zeros_like(self.start), np.zeros_like(self.start)
        for _ in range(self.n_steps):
            plain = self.chain.forward(np.stack([a, b, q], axis=-1))
            once = self.chain.forward(np.stack([a, b], axis=-1), excess)
            twice = self.chain.forward(a, excess**2)
            a, b, q = plain[..., 0], plain[..., 1] + once[..., 0], plain[..., 2] + 2 * once[..., 1] + twice
        return float((q.sum() - b.sum() ** 2) / self.n_steps**2)

    def exceedance(self, v: Any) -> np.float64 | Float[np.ndarray, " thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included; v (nats) a number or an array of thresholds, the result of its shape."""
        levels = thresholds_of(v)
        found = [self._removed(part) for part in self._parts(levels.reshape(-1))]
        return at_most_one(np.concatenate([np.zeros(0), *found]).reshape(levels.shape)[()])

    def step_exceedance(self, v: Any) -> Float[np.ndarray, "steps ..."]:
        """P(V_t > v) for each t = 0..n; v (nats) a number or an array of thresholds (the last axis of the result)."""
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


def joint_law(m: OnlineMechanism, n_steps: int, start: Any = None, sensitive: Start = None) -> JointLaw:
    """The exact law of `n_steps` transitions of the sensitive and the private trajectory together.

    start: the law of s'_0, as for the mechanism: None for the chain's initial distribution, a state index (public), or n
    probabilities; or the joint law of (s_0, s'_0), (n, n), row s_0. sensitive: the law of s_0, an index or n probabilities; None
    takes the state `start` where that is an index, and the chain's initial distribution elsewhere. s_0 and s'_0 are independent
    unless `start` is a joint law.
    """
    require_whole(n_steps, "n_steps", "give the number of transitions, a whole number, 1 or more", least=1)
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
    """The law of (s_0, s'_0) that `joint_law` describes."""
    public = start is not None and dimensions(start, "start") == 0
    if start is None or dimensions(start, "start") < 2:
        private = initial_law(graph, start)
        return np.outer(private if sensitive is None and public else initial_law(graph, sensitive, "sensitive"), private)
    n, given = graph.n_states, probabilities(start, "start")
    require(sensitive is None, "sensitive", sensitive, "leave it out: the joint law given as start holds the law of s_0")
    require(given.shape == (n, n), "start", given.shape, f"give an index, {n} probabilities, or ({n}, {n}) joint probabilities")
    return given
