"""Which trajectories are adjacent, so that the output must not distinguish them (paper B, Definition 4 and Appendix B).

G(i, j) is the length of the shortest path from i to j with edge lengths W_ij = -log P_ij, in nats; G(i, i) = 0. Two trajectories w
and v of n + 1 states are compared over t = 1..n. The first state does not count: the mechanisms do not read it, since s'_0 is drawn
from a public law.

    Adjacency(rho):        sum_{t>=1} G_sym(w_t, v_t) <= rho,   G_sym = (G + G^T)/2 ("average") or max(G, G^T) ("max")
    HammingAdjacency(b):   #{t >= 1 : w_t != v_t} <= b

Both sum a distance between states (`apart`) up to a radius (`radius`). `words` describes the relation.

*Sensitivity.* One step scores candidate r by q_r = -G(r, s). When s is replaced by v, the changes of the scores lie within a range of
at most G(s, v) + G(v, s) (two triangle inequalities). Lemma 1 of the derivations shows that permute-and-flip at coin scale c then
loses at most c times that range. Summed over the steps of two adjacent trajectories, the range is at most `sensitivity`:

    2 rho for "average" (an equality of sums) and for "max" (an upper bound);     b max_ij [G(i, j) + G(j, i)] under Hamming.

So the coin scale is epsilon / sensitivity = epsilon / (2 rho) for both symmetrisations. With min(G, G^T) or a one-sided sum, rho does
not bound the range, and the mechanism at this scale is not epsilon-private: these adjacencies are refused.

*Within a radius.* Mechanism 1 and the offline mechanism draw by the costs c G(candidate, sensitive state) with c = epsilon / (2 rho).
For both, the log probability ratio of any output under w and under v is at most

    c sum_{t >= 1} [G(w_t, v_t) + G(v_t, w_t)] = (epsilon / rho) sum_{t >= 1} G_avg(w_t, v_t)

(Theorem 1; the derivation of the offline mechanism).
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import require, require_whole, require_word
from dpjax._tracing import check_traced, frozen_pytree, is_traced, non_negative, positive, sound
from dpjax.trajectory.graph import (
    Matrix,
    OnChain,
    Parameter,
    graph_of,
    plain,
    require_epsilon,
    require_parameter,
    require_scale,
    settle,
)
from dpjax.trajectory.losses import MARGIN

_REFUSED = {
    "min": "the smaller of G(w, v) and G(v, w) does not bound the loss: not epsilon-private; use 'average' or 'max'",
    "one-sided": "a one-sided sum of G(w, v) does not bound the loss: not epsilon-private; use 'average' or 'max'",
    "sum": "G + G^T within rho is the average within rho / 2; use 'average' with half the rho",
}


@frozen_pytree("rho", static=("symmetrisation",))
@dataclasses.dataclass(frozen=True, kw_only=True)
class Adjacency:
    """Definition 4: trajectories whose summed symmetrised distance is at most `rho`.

    Args:
        rho: adjacency radius in nats, positive and finite.
        symmetrisation: "average" (the default: proved, and protects the most pairs) or "max".

    Source:
        Paper B, Definition 4.

    Example:
        >>> adjacency = dpjax.trajectory.Adjacency(rho=1.0)
        >>> adjacency.adjacent(dpjax.paths.shortest_paths(P), np.array([0, 1, 2]), np.array([0, 1, 1]))
    """

    rho: Parameter
    symmetrisation: str = "average"

    def __post_init__(self) -> None:
        remedy = "give a positive, finite adjacency radius in nats"
        require_parameter(self.rho, "rho", remedy, "be positive and finite", lambda x: x > 0)
        settle(self, "rho")
        remedy = _REFUSED.get(str(self.symmetrisation), "use 'average' or 'max'")
        require_word(self.symmetrisation, "symmetrisation", ("average", "max"), remedy)

    def symmetrised(self, G: Matrix) -> Matrix:
        """G_sym, the symmetric distance between states whose sum the adjacency bounds; nats."""
        larger = jnp.maximum if is_traced(G) else np.maximum
        return (G + G.T) / 2 if self.symmetrisation == "average" else larger(G, G.T)

    def distance(self, G: Float[np.ndarray, "n n"], w: Int[np.ndarray, " steps"], v: Int[np.ndarray, " steps"]) -> float:
        """Sum over t >= 1 of G_sym(w_t, v_t), in nats."""
        return float(self.symmetrised(G)[w[1:], v[1:]].sum())

    def adjacent(self, G: Float[np.ndarray, "n n"], w: Int[np.ndarray, " steps"], v: Int[np.ndarray, " steps"]) -> bool:
        """Whether the two trajectories are adjacent."""
        return self.distance(G, w, v) <= self.rho

    def sensitivity(self) -> Parameter:
        """2 rho: the largest range of the score changes between adjacent trajectories, summed over the steps; nats."""
        return 2.0 * sound(plain(self.rho), positive)

    def apart(self, G: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        """The distance between states that is summed over the steps: `symmetrised`, nats."""
        return self.symmetrised(G)

    @property
    def radius(self) -> Parameter:
        """The largest summed distance of adjacent trajectories: rho, nats."""
        return self.rho

    @property
    def words(self) -> str:
        """Which trajectories are adjacent, in words."""
        return f"trajectories within rho {self.rho:g} nats (Definition 4, {self.symmetrisation})"


@frozen_pytree("b")
@dataclasses.dataclass(frozen=True, kw_only=True)
class HammingAdjacency:
    """Trajectories that differ in at most `b` of the states s_1..s_n.

    Args:
        b: the number of states that may differ, 1 or more.

    Source:
        Paper B, Appendix B; Chen et al. (2023).
    """

    b: Parameter = 1

    def __post_init__(self) -> None:
        settle(self, "b")
        if is_traced(self.b):
            return check_traced(self.b >= 1, "b", "be a whole number, 1 or more, got {b}", b=self.b)
        return require_whole(self.b, "b", "give the number of states that may differ, a whole number, 1 or more", least=1)

    def distance(self, w: Int[np.ndarray, " steps"], v: Int[np.ndarray, " steps"]) -> int:
        """The number of t >= 1 at which the two trajectories differ."""
        return int(np.count_nonzero(w[1:] != v[1:]))

    def adjacent(self, w: Int[np.ndarray, " steps"], v: Int[np.ndarray, " steps"]) -> bool:
        """Whether the two trajectories are adjacent."""
        return self.distance(w, v) <= self.b

    def sensitivity(self, G: Matrix) -> Parameter:
        """b max (G + G^T): the largest range of the score changes between adjacent trajectories, summed over the steps; nats."""
        widest = (G + G.T).max()
        return sound(plain(self.b), positive) * (widest if is_traced(widest) else float(widest))

    def apart(self, G: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        """The distance between states that is summed over the steps: 1 between distinct states."""
        return 1.0 - np.eye(len(G))

    @property
    def radius(self) -> Parameter:
        """The largest summed distance of adjacent trajectories: b."""
        return float(self.b)

    @property
    def words(self) -> str:
        """Which trajectories are adjacent, in words."""
        return f"trajectories that differ in at most {self.b} states (Hamming)"


Neighbouring = Adjacency | HammingAdjacency

_LARGEST_COST = 1e307  # twice this is still within float64


class WithinRadius(OnChain):
    """Base of the mechanisms that are epsilon-private within an adjacency radius. Subclasses are frozen dataclasses with these fields."""

    epsilon: Parameter
    rho: Parameter
    symmetrisation: str

    def check(self, weight: str) -> None:
        """Check epsilon, the radius, the resulting scale, the field called `weight`, and the chain; raises InputError."""
        require_epsilon(self.epsilon)
        Adjacency(rho=self.rho, symmetrisation=self.symmetrisation)
        remedy = "give a finite weight, 0 or more"
        require_parameter(getattr(self, weight), weight, remedy, "be finite and 0 or more", lambda x: x >= 0)
        settle(self, "epsilon", "rho", weight)
        if is_traced(self):
            graph_of(self.chain)
            return
        with np.errstate(over="ignore", divide="ignore"):
            require_scale(float(np.float64(self.epsilon) / np.float64(2 * self.rho)), self.epsilon)
        self._check_range(getattr(self, weight))

    def _check_range(self, weight: float | int) -> None:
        """Require that the largest cost of a candidate is finite; no distance exceeds n - 1 times the longest edge."""
        graph = graph_of(self.chain)
        longest = float(graph.edges.lengths.max())
        with np.errstate(over="ignore"):
            cost = np.float64(self.scale) * longest * graph.n_states + np.float64(weight) * longest
        require(
            bool(cost < _LARGEST_COST), "epsilon", self.epsilon, f"costs near {cost:.3g} exceed the range of float64: take less"
        )

    @property
    def adjacency(self) -> Adjacency:
        """Definition 4 at this radius and symmetrisation."""
        m = self.checked()
        return Adjacency(rho=m.rho, symmetrisation=m.symmetrisation)

    @property
    def scale(self) -> Parameter:
        """c = epsilon / sensitivity = epsilon / (2 rho)."""
        return sound(self.checked().epsilon, non_negative) / self.adjacency.sensitivity()

    def loss_bounds(self) -> Matrix:
        """The proved bound on the loss of replacing state i by j at one time: (epsilon / rho) G_avg(i, j), nats."""
        G = self.graph.all_distances()
        return self.scale * (G + G.T)

    def metric_rate(self) -> Parameter:
        """epsilon / rho: an upper bound on the loss of replacing one state, per nat of G_avg."""
        m = self.checked()
        return sound(m.epsilon, non_negative) / sound(m.rho, positive)

    def proved_epsilon(self, target: float | int) -> float:
        """The nominal epsilon at which the proved bound for replacing any state is `target`, less a margin for round-off."""
        return target * self.checked().rho / self.graph.extremes.most / MARGIN
