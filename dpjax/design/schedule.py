"""A privacy budget over the steps of a private trajectory: Mechanism 1 with a coin scale c_t that changes with t.

*The expected error* at every step (`expected_errors`), pure and differentiable. Sensitive s_0, s_1, ... follow the public chain P; the
private s'_t follow Mechanism 1 at scale c_t. With nu_t the distribution of (s_t, s'_t),

    nu_{t+1}[s+, o] = sum_{s'} (P^T nu_t)[s+, s'] pi_{c_{t+1}}(o | s+, s'),        E V_t = sum nu_t[s, s'] G(s', s),

the recursion of the joint chain, with one kernel for each step. It averages over the chain's own trajectories and uses no person's data.
The cost is n |E| for each step.

*The guarantee.* By the chain rule and Lemma 1 the loss between trajectories w and v is at most sum_t 2 c_t G_avg(w_t, v_t). With D = max
G_avg, let epsilon_t = 2 c_t D: the most that one changed state at time t costs.

* Definition 4 (sum_t G_sym <= rho): the worst neighbour puts all of rho where c_t is largest, so the guarantee is 2 rho max_t c_t.
  Every c_t may be as large as the largest, and nothing can be traded between steps: the constant scale is best. Use
  `TrajectoryMechanism`.
* Up to b states differ, by any amount: the guarantee is the sum of the b largest epsilon_t. For b = 1 that is the largest, and the
  constant scale is again best. For b >= 2 the epsilon of one step can be traded for that of another. For b = n (a neighbour may
  differ in every step) the constraint is sum_t epsilon_t <= total.

*The design* (`epsilon_schedule`). The scales minimise a weighted sum of the expected errors E V_t, exact over the public chain's own
trajectories, over epsilon_t = total e^{theta_t} / (sum of the b largest e^{theta}). Proofs: the docs, "Design".
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from dpjax._errors import require, require_number
from dpjax._random import checked_key
from dpjax._tracing import require_concrete
from dpjax.chains import MarkovChain
from dpjax.design.optimise import Objective, Progress, minimise, require_loss_of_trace, require_scalar
from dpjax.simplex._rounding import float64
from dpjax.trajectory import TrajectoryMechanism
from dpjax.trajectory.graph import graph_of, state_index, trajectory_indices
from dpjax.trajectory.joint import joint_start
from dpjax.trajectory.kernel import Kernel, slot_law


class Walk(NamedTuple):
    """The public data of the recursion."""

    kernel: Kernel
    distances: Float[np.ndarray, "n n"]  # G(y, s) in row s
    P: Float[np.ndarray, "n n"]
    start: Float[np.ndarray, "n n"]  # the distribution of (s_0, s'_0)
    owners: Int[np.ndarray, " edges"]  # the state that each edge leaves
    ends: Int[np.ndarray, " edges"]  # the state that it enters
    slots: Int[np.ndarray, " edges"]  # the position of its probability


def walk_of(m: TrajectoryMechanism, start: Float[np.ndarray, "n n"]) -> Walk:
    """The public facts of a mechanism's chain, on the host. The mechanism's own scale is not used.

    Args:
        m: Mechanism 1 on the chain.
        start: The distribution of (s_0, s'_0), (n, n).

    Returns:
        A `Walk`.
    """
    arrivals, n = m.graph.arrivals, m.graph.n_states
    P = m.chain.matrix if isinstance(m.chain.matrix, np.ndarray) else m.chain.matrix.toarray()
    ends = np.repeat(np.arange(n), np.diff(arrivals.offsets))
    return Walk(m.kernel, m.graph.all_distances().T, P, start, arrivals.owners, ends, arrivals.slots)


def expected_errors(walk: Walk, scales: Float[Array, " steps"] | Float[np.ndarray, " steps"]) -> Float[Array, " steps"]:
    """The expected errors E V_t, in nats, for t = 1..n at coin scales c_1..c_n. Differentiable in the scales.

    Call it under `jax.enable_x64(True)`.

    Args:
        walk: The public facts, from `walk_of`.
        scales: The coin scales, (n,). For several schedules use `jax.vmap`.

    Returns:
        Nats, (n,).
    """
    require(np.ndim(scales) == 1, "scales", np.shape(scales), "give one scale for each step; use jax.vmap for a batch")
    dtype = jnp.result_type(scales)
    walk = jax.tree.map(lambda x: jnp.asarray(x, dtype) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x, walk)
    V, P = jnp.asarray(walk.distances), jnp.asarray(walk.P)

    @jax.checkpoint
    def advance(nu: Float[Array, "n n"], scale: Float[Array, ""]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
        kernel = dataclasses.replace(walk.kernel, scale=scale)
        laws = jax.vmap(lambda costs: slot_law(kernel, costs))(V)
        mass = (P.T @ nu)[:, walk.owners] * laws[:, walk.slots]
        after = jnp.zeros_like(nu).at[:, walk.ends].add(mass)
        return after, (after * V).sum()

    return jax.lax.scan(advance, jnp.asarray(walk.start), jnp.asarray(scales))[1]


ErrorLoss = Callable[[Float[Array, " steps"]], Float[Array, ""]]
_ROUNDING = 1e-12  # more than the rounding of a sum of step epsilons


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class EpsilonSchedule:
    """One epsilon for each transition, for trajectories that may differ in up to `changed_states` of s_1..s_n.

    Made by `epsilon_schedule`.

    Args:
        chain: The public chain.
        total: The joint epsilon, at least the sum of the `changed_states` largest epsilons.
        changed_states: The number b of states in which neighbours may differ.
        epsilons: (n,) nats, the most that a change of s_t alone costs.
        loss: The loss that was minimised.
        constant_loss: The loss of the constant schedule with the same total.
        trace: The losses of the search, (starts, steps).
        settled: Whether the search came to rest.

    Raises:
        InputError: The epsilons exceed the total.
    """

    chain: MarkovChain
    total: float
    changed_states: int
    epsilons: np.ndarray
    loss: float
    constant_loss: float
    trace: np.ndarray = dataclasses.field(repr=False)
    settled: bool

    def __post_init__(self) -> None:
        values = np.array(self.epsilons, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "epsilons", values)
        require_loss_of_trace(self.loss, self.trace)
        require_loss_of_trace(self.constant_loss, self.trace, "constant_loss")
        self._certify_once()

    def certify(self) -> float:
        """The joint epsilon, computed from the mechanisms and rounded up. InputError if it exceeds the total."""
        found = largest_sum([float(m.loss_bounds().max()) for m in self.mechanisms], self.changed_states) * (1 + _ROUNDING)
        remedy = f"the {self.changed_states} largest epsilons sum to {found:.12g}, so the schedule does not meet the total: make it again"
        require(found <= self.total, "total", self.total, remedy)
        return found

    def _certify_once(self) -> None:
        """Call `certify` unless these parameters passed it last. The mechanisms must match the epsilons."""
        now = (self.total, self.changed_states, self.epsilons.tobytes(), *(float(m.scale) for m in self.mechanisms))
        if self.__dict__.get("_certified") != now:
            fits = [float(m.epsilon) for m in self.mechanisms] == self.epsilons.tolist()
            require(
                fits,
                "epsilons",
                self.epsilons,
                "they differ from those of the mechanisms, because the schedule was changed: make it again",
            )
            self.certify()
            object.__setattr__(self, "_certified", now)

    def exact_epsilon(self) -> float:
        """The sum of the b largest exact single-substitution epsilons: at most `certify()`, a tighter bound on the joint epsilon."""
        exact = {m.epsilon: m.substitution_loss() for m in self.mechanisms}
        return largest_sum([exact[m.epsilon] for m in self.mechanisms], self.changed_states) * (1 + _ROUNDING)

    @functools.cached_property
    def mechanisms(self) -> tuple[TrajectoryMechanism, ...]:
        """Mechanism 1 of each step, at coin scale epsilon_t / (2 max G_avg)."""
        return tuple(TrajectoryMechanism.under_hamming(self.chain, epsilon=float(e)) for e in self.epsilons)

    def privatize(
        self, key: Key[Array, ""], trajectory: Int[np.ndarray, " states"] | list[int], start: int | None = None
    ) -> Int[np.ndarray, " states"]:
        """A private trajectory of state indices for s_0..s_m, m at most n.

        Args:
            key: One typed JAX key.
            trajectory: The sensitive state indices.
            start: As for `TrajectoryMechanism.privatize`.
        """
        key = checked_key(key)
        self._certify_once()
        states = trajectory_indices(self.mechanisms[0].graph, trajectory)
        require(len(states) <= len(self.epsilons) + 1, "trajectory", len(states), f"give at most {len(self.epsilons) + 1} states")
        state, private = self.mechanisms[0].init(key, start)
        found = [int(private)]
        for m, s in zip(self.mechanisms, states[1:], strict=False):
            state, private = m.step(key, state, int(s))
            found.append(int(private))
        return np.asarray(found, dtype=np.int32)


def epsilon_schedule(
    chain: MarkovChain | Any,
    *,
    total: float | int,
    n_steps: int,
    changed_states: int | None = None,
    weights: np.ndarray | list[float] | None = None,
    loss: ErrorLoss | None = None,
    start: int | Any = None,
    steps: int = 200,
    seed: int = 0,
    progress: Progress | None = None,
) -> EpsilonSchedule:
    """On the host: the schedule with the least weighted expected error sum_t w_t E V_t among those of joint epsilon `total`.

    The chain is public; nothing else is read. The result is never worse than the constant schedule.

    Args:
        chain: The public chain.
        total: The joint epsilon, nats, positive.
        n_steps: The number of transitions, at least 1.
        changed_states: The number b of states among s_1..s_n in which neighbours may differ. Default: all.
        weights: The weights w_t, (n_steps,), at least 0. Default: 1/n_steps each.
        loss: In place of weights, a function of the array E V_1..E V_n, in jax.numpy.
        start: A public first state that both trajectories share. Default: each draws its own from the chain's initial distribution.
        steps: Steps of the search from each start.
        seed: The seed of the random start.
        progress: A function that receives lines of text.

    Returns:
        An `EpsilonSchedule`, certified.

    Raises:
        InputError: An argument is invalid, or all distances of the chain are 0.

    Example:
        >>> from dpjax import MarkovChain
        >>> from dpjax.design import epsilon_schedule
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> schedule = epsilon_schedule(chain, total=6.0, n_steps=3, steps=25)
        >>> schedule.certify() <= 6.0, schedule.loss <= schedule.constant_loss
        (True, True)
    """
    require_concrete((chain, total, weights), "chain, total or weights", "search outside the transformed function")
    b = n_steps if changed_states is None else changed_states
    _check(chain, total, n_steps, b)
    chosen, given = _loss(weights, loss, n_steps)
    unit = TrajectoryMechanism.under_hamming(chain, epsilon=1.0)
    if start is not None:
        state_index(unit.graph, start, "start")
    walk, share = walk_of(unit, joint_start(unit.graph, start, None)), float(total) * (1 - 4 * _ROUNDING)

    arguments = walk, share, float(unit.scale), given
    slope = np.linspace(-1.0, 1.0, n_steps)
    starts = [np.zeros(n_steps), slope, -slope, np.random.default_rng(seed).standard_normal(n_steps)]
    alone = b == 1 or n_steps == 1
    found = minimise(
        _objective(chosen, b), arguments, starts[:1] if alone else starts, steps=1 if alone else steps, progress=progress
    )
    with jax.enable_x64(True):
        values = np.asarray(_epsilons(jnp.asarray(found.point), share, b))
    return EpsilonSchedule(
        chain=chain,
        total=float(total),
        changed_states=b,
        epsilons=values,
        loss=found.loss,
        constant_loss=float(found.trace[0, 0]),
        trace=found.trace,
        settled=alone or found.settled,
    )


def _check(chain: Any, total: Any, n_steps: Any, b: Any) -> None:
    require(isinstance(chain, MarkovChain), "chain", chain, "pass a MarkovChain, such as MarkovChain.from_matrix(P)")
    require_number(total, "total", "give a positive, finite epsilon (nats)")
    require(isinstance(n_steps, int | np.integer) and n_steps >= 1, "n_steps", n_steps, "give the number of transitions, 1 or more")
    whole = isinstance(b, int | np.integer) and 1 <= b <= n_steps
    require(whole, "changed_states", b, f"give a whole number between 1 and the {n_steps} transitions")
    require(bool(0 < total < np.inf), "total", total, "give a positive, finite epsilon (nats)")
    remedy = "its distances are all 0 (every transition has probability 1), so there is no error to reduce: pass a random chain"
    require(bool(graph_of(chain).all_distances().max() > 0), "chain", chain, remedy)


def largest_sum(values: list[float], b: int) -> float:
    """The sum of the b largest."""
    return float(np.sort(values)[-b:].sum())


def _epsilons(theta: Float[Array, " steps"], share: Any, b: int) -> Float[Array, " steps"]:
    """Step epsilons whose b largest sum to `share`."""
    size = jnp.exp(theta - theta.max())
    return share * size / jnp.sort(size)[-b:].sum()


@functools.lru_cache(maxsize=16)
def _objective(loss: Callable[..., Array], b: int) -> Objective:
    def objective(theta: Float[Array, " steps"], arguments: Any) -> Float[Array, ""]:
        walk, share, scale, weights = arguments
        return loss(expected_errors(walk, _epsilons(theta, share, b) * scale), weights)

    return objective


def _weighted(errors: Float[Array, " steps"], weights: Float[Array, " steps"]) -> Float[Array, ""]:
    return (weights * errors).sum()


@functools.lru_cache(maxsize=16)
def _unweighted(loss: ErrorLoss) -> Callable[..., Array]:
    return lambda errors, weights: loss(errors)


def _loss(
    weights: np.ndarray | list[float] | None, loss: ErrorLoss | None, n_steps: int
) -> tuple[Callable[..., Array], Float[np.ndarray, " steps"]]:
    """(function of errors and weights, weights)."""
    if loss is not None:
        require(weights is None, "weights", weights, "pass either weights or a loss function")
        require_scalar(loss, np.zeros(n_steps), arguments="(errors,)")
        return _unweighted(loss), np.ones(n_steps)
    given = np.full(n_steps, 1 / n_steps) if weights is None else float64(weights, "weights")
    require(given.shape == (n_steps,), "weights", weights, f"give one weight for each of the {n_steps} transitions")
    require(
        bool((np.isfinite(given) & (given >= 0)).all() and given.any()),
        "weights",
        weights,
        "give finite weights of 0 or more, not all 0",
    )
    return _weighted, given
