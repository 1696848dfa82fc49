"""Exact laws within a trace: what `exact_law`, `joint_law` and `joint_stationary` return if an argument is traced.

These are the recursions of `graph` and `joint` as pure JAX, in the type of the traced arguments, not rounded. With W = -log P, G its
closure (`dpjax.paths`), c the coin scale and K_s(i, o) = pi(o | s, i):

    a_t = a_{t-1} K_{w_t},      E V_t = a_t G(., w_t),      E H_n = (1/n) sum_t sum_{i,o} a_{t-1}(i) K_{w_t}(i, o) W(i, o),
    P(max_t V_t > v) = sum over t of the mass that step t moves to {i : G(i, w_t) > v}, t = 0 included.

They are differentiable in epsilon, rho, the weights, the law of s'_0 and the probabilities of a dense chain. The sensitive trajectory w
and the edges (P > 0) are fixed, and a missing edge has derivative 0 (`edge_lengths`; P enters in no other way). On a concrete chain,
sparse too, the cost of a step is the number of edges; a traced chain is dense, for up to a few hundred states.

*P off the simplex.* Each entry of P is a free number. So a gradient g is to be used with changes of P whose rows sum to 0: take its
product with such a change, or use `dpjax.chains.elasticities`. P changes the law through the distances and, with a prior, through W.

*Thresholds.* As a function of P or v, P(max V > v) jumps where a distance crosses v. The derivative is that of the current piece, with
every 1[G > v] fixed. Choose v between distances. Derivatives in epsilon, rho and prior_weight have no jump. At ties of shortest paths G
has a kink (`dpjax.paths.closure`).

*The long run.* With T the operator of the joint chain (`joint`), nu = nu T and sum nu = 1. For any probabilities u the linear equation

    A x = u,      A x = x - x T + (sum x) u,

has nu as its only solution (sum both sides: sum x = 1). It is solved by x <- x + (u - A x). This converges as the chain mixes, since
I - A has the eigenvalues of T with the eigenvalue 1 replaced by 0. The derivative is the derivative of the linear equation: a solve with
A for a tangent, and with its adjoint A* y = y - T y + <u, y> 1 for a gradient, by the same iteration. No iteration is unrolled or stored.

T acts in two stages, |S|^3 each, and is never formed. The joint chain of an irreducible P has a unique stationary law if and only if P is
aperiodic. Otherwise T has other eigenvalues of modulus 1. u is chosen uneven, so that it has a component along them; the iteration then
does not converge and the result is NaN. It is NaN too if the chain mixes so slowly that MOVES steps leave a residual above SETTLED.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax._tracing import check_traced, float_dtype, is_traced
from dpjax.trajectory.graph import Start, dimensions, probabilities, require_thresholds, thresholds_of, traced_initial_law
from dpjax.trajectory.steps import StepLaws, TracedSteps

Thresholds = Float[Array, "*thresholds"]


def levels_in(v: Any, dtype: Any) -> Thresholds:
    """Thresholds, checked if they are concrete."""
    if is_traced(v):
        require_thresholds(v)
    return jnp.asarray(v if is_traced(v) else thresholds_of(v), dtype)


def at_each(tail: Callable[[Array], Array], levels: Thresholds, mean: Float[Array, "*_"]) -> Float[Array, "*_"]:
    """A tail at each threshold, with the thresholds on the last axes; NaN if `mean` (of the tail's shape) or the threshold is NaN."""
    found = jax.vmap(tail, out_axes=-1)(levels.reshape(-1))
    shape = found.shape
    lost = jnp.broadcast_to(jnp.isnan(mean)[..., None], shape) | jnp.broadcast_to(jnp.isnan(levels.reshape(-1)), shape)
    return jnp.where(lost, jnp.nan, found).reshape(*found.shape[:-1], *levels.shape)


@dataclasses.dataclass(frozen=True, eq=False)
class TracedLaw:
    """The law of s'_0..s'_n given s_0..s_n, as `ExactLaw`, in JAX arrays: a pytree that a trace may return.

    Its subclasses add `expected_entropy`, `variance_entropy` and `exceedance`.
    """

    marginals: Float[Array, "steps n"]  # P(s'_t = i)
    expected_error: Float[Array, " steps"]  # E V_t, nats
    impossible: Float[Array, " transitions"]  # P(the chain has no transition from s'_{t-1} to s'_t)
    errors: Float[Array, "steps n"] = dataclasses.field(repr=False)  # V_t of each private state

    def step_exceedance(self, v: Any) -> Float[Array, "steps ..."]:
        """P(V_t > v) for each t = 0..n. v: a threshold in nats, or an array of them along the last axis of the result."""
        levels = levels_in(v, self.marginals.dtype)
        return at_each(
            lambda level: jnp.sum(jnp.where(level < self.errors, self.marginals, 0), axis=1), levels, self.expected_error
        )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class TracedWalk(TracedLaw):
    """The law of a private trajectory that is a path of the chain."""

    expected_entropy: Float[Array, ""]  # E H_n, nats per transition
    steps: TracedSteps = dataclasses.field(repr=False)

    @property
    def variance_entropy(self) -> Float[Array, ""]:
        """Var H_n."""
        return _variance(self.steps)

    def exceedance(self, v: Any) -> Float[Array, "*thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""
        levels = levels_in(v, self.marginals.dtype)
        return at_each(lambda level: _exceedance(self.steps, self.errors, level), levels, self.expected_error.sum())


@jax.jit
def traced_law(steps: TracedSteps, errors: Float[Array, "steps n"]) -> TracedWalk:
    """The exact law of a private trajectory with these steps; row t of `errors` is G(., s_t)."""
    lengths = _cut(steps)[2]

    def move(law: Float[Array, " n"], kernel: Float[Array, " slots"]) -> tuple[Float[Array, " n"], tuple[Array, Array]]:
        flow = _flow(steps, law, kernel)
        after = _arrived(steps, flow)
        return after, (after, jnp.sum(flow * lengths))

    _, (laws, means) = lax.scan(move, steps.first, steps.kernels())
    marginals = jnp.concatenate([steps.first[None], laws])
    expected_error = jnp.sum(marginals * errors, axis=1)
    return TracedWalk(marginals, expected_error, jnp.zeros_like(means), errors, means.mean(), steps)


def _cut(steps: TracedSteps) -> tuple[Array, Array, Array]:
    """Owners, states and lengths of the slots in use."""
    neighbours = steps.neighbours
    return tuple(x[: neighbours.n_slots] for x in (neighbours.owners, neighbours.states, neighbours.lengths))  # type: ignore[return-value]


def _flow(steps: TracedSteps, law: Float[Array, " n"], kernel: Float[Array, " slots"]) -> Float[Array, " slots"]:
    """The mass that moves along every slot."""
    return law.at[_cut(steps)[0]].get(mode="fill", fill_value=0) * kernel


def _arrived(steps: TracedSteps, flow: Float[Array, " slots"]) -> Float[Array, " n"]:
    """The mass that arrives at every state."""
    return jnp.zeros_like(steps.first).at[_cut(steps)[1]].add(flow, mode="drop")


@jax.jit
def _exceedance(steps: TracedSteps, errors: Float[Array, "steps n"], level: Float[Array, ""]) -> Float[Array, ""]:
    over = lax.stop_gradient(level < errors)

    def move(kept: Float[Array, " n"], at: tuple[Array, Array]) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        kernel, beyond = at
        moved = _arrived(steps, _flow(steps, kept, kernel))
        return jnp.where(beyond, 0, moved), jnp.sum(jnp.where(beyond, moved, 0))

    begun = jnp.where(over[0], 0, steps.first)
    _, removed = lax.scan(move, begun, (steps.kernels(), over[1:]))
    return jnp.sum(jnp.where(over[0], steps.first, 0)) + removed.sum()


@jax.jit
def _variance(steps: TracedSteps) -> Float[Array, ""]:
    """The second moment about the mean, as in `graph`."""
    lengths = _cut(steps)[2]

    def move(moments: tuple[Array, Array, Array], kernel: Float[Array, " slots"]) -> tuple[tuple[Array, Array, Array], None]:
        flows = [_flow(steps, moment, kernel) for moment in moments]
        excess = lengths - jnp.sum(flows[0] * lengths)
        once, twice = flows[1] + excess * flows[0], flows[2] + 2 * excess * flows[1] + excess**2 * flows[0]
        return (_arrived(steps, flows[0]), _arrived(steps, once), _arrived(steps, twice)), None

    none = jnp.zeros_like(steps.first)
    (_, _, second), _ = lax.scan(move, (steps.first, none, none), steps.kernels())
    return second.sum() / len(steps.position) ** 2


Joint = Float[Array, "n n"]
Operator = Callable[[Joint], Joint]
_LARGEST = 2**28  # largest size of the dense kernels of all states


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class TracedJoint:
    """The joint chain of (s, s'), dense: P, K[s+, s', o], W, and V[s, s'] = G(s', s) in nats."""

    P: Float[Array, "n n"]
    kernels: Float[Array, "n n n"]
    lengths: Float[Array, "n n"]
    errors: Float[Array, "n n"]

    def spread(self, nu: Joint) -> Joint:
        """The law of (s_{t+1}, s'_t)."""
        return _product("sa,sb->ab", self.P, nu)

    def forward(self, nu: Joint) -> Joint:
        """The law one step later."""
        return _product("ab,abo->ao", self.spread(nu), self.kernels)

    def mean_length(self, nu: Joint) -> Float[Array, ""]:
        """E W(s', o) of the next step."""
        return jnp.sum(self.spread(nu) * jnp.sum(self.kernels * self.lengths[None], axis=2))


def joint_within(m: StepLaws, dtype: Any) -> TracedJoint:
    """The joint chain of `m` within a trace."""
    graph = m.graph
    n, neighbours = graph.n_states, graph.neighbours
    remedy = "give concrete parameters: within a trace the kernels of all states are dense"
    require(n**3 <= _LARGEST, "chain", None, remedy, problem=f"has {n} states")
    laws, size = m.laws_in(np.arange(n), dtype), neighbours.n_slots
    at = neighbours.owners[:size] * n + neighbours.states[:size]  # padding lies outside
    kernels = jnp.zeros((n, n * n), dtype).at[:, at].set(laws, mode="drop").reshape(n, n, n)
    lengths = jnp.zeros(n * n, dtype).at[at].set(neighbours.in_type(dtype).lengths[:size], mode="drop").reshape(n, n)
    return TracedJoint(jnp.asarray(m.chain.dense(), dtype), kernels, lengths, jnp.asarray(graph.all_distances(), dtype).T)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class TracedJointLaw:
    """The exact law of (s_t, s'_t), t = 0..n_steps, as `JointLaw`, in JAX arrays: a pytree."""

    sensitive_marginals: Float[Array, "steps n"]
    marginals: Float[Array, "steps n"]
    expected_error: Float[Array, " steps"]
    expected_lengths: Float[Array, " transitions"]
    start: Joint = dataclasses.field(repr=False)
    end: Joint = dataclasses.field(repr=False)
    chain: TracedJoint = dataclasses.field(repr=False)

    @property
    def n_steps(self) -> int:
        """The number of transitions n."""
        return len(self.expected_lengths)

    @property
    def expected_entropy(self) -> Float[Array, ""]:
        """E H_n, nats per transition."""
        return self.expected_lengths.mean()

    def exceedance(self, v: Any) -> Float[Array, "*thresholds"]:
        """P(max_t V_t > v), strictly, t = 0 included. v: a threshold in nats, or an array of them; the result has its shape."""

        def tail(level: Float[Array, ""]) -> Float[Array, ""]:
            over = lax.stop_gradient(level < self.chain.errors)

            def move(kept: Joint, _: None) -> tuple[Joint, Float[Array, ""]]:
                moved = self.chain.forward(kept)
                return jnp.where(over, 0, moved), jnp.sum(jnp.where(over, moved, 0))

            _, removed = lax.scan(move, jnp.where(over, 0, self.start), None, length=self.n_steps)
            return jnp.sum(jnp.where(over, self.start, 0)) + removed.sum()

        return at_each(tail, levels_in(v, self.start.dtype), self.expected_error.sum())


def traced_joint_law(m: StepLaws, n_steps: int, start: Any, sensitive: Start) -> TracedJointLaw:
    """`joint_law` within a trace."""
    dtype = float_dtype(m, start, sensitive)
    return _joint_law(joint_within(m, dtype), _joint_start(m.graph, start, sensitive, dtype), n_steps)


@functools.partial(jax.jit, static_argnums=2)
def _joint_law(chain: TracedJoint, start: Joint, n_steps: int) -> TracedJointLaw:
    def move(nu: Joint, _: None) -> tuple[Joint, tuple[Joint, Array]]:
        return chain.forward(nu), (nu, chain.mean_length(nu))

    end, (laws, lengths) = lax.scan(move, start, None, length=n_steps)
    laws = jnp.concatenate([laws, end[None]])
    errors = jnp.sum(laws * chain.errors[None], axis=(1, 2))
    return TracedJointLaw(laws.sum(axis=2), laws.sum(axis=1), errors, lengths, start, end, chain)


def _joint_start(graph: Any, start: Any, sensitive: Start, dtype: Any) -> Joint:
    """The law of (s_0, s'_0), as in `joint`."""
    n, axes = graph.n_states, None if start is None else dimensions(start, "start")
    if axes is None or axes < 2:
        private = traced_initial_law(graph, start, dtype)
        same = sensitive is None and axes == 0
        return jnp.outer(private if same else traced_initial_law(graph, sensitive, dtype, "sensitive"), private)
    require(sensitive is None, "sensitive", None, "leave it out", problem="is given with a joint law, which includes it")
    shape = np.shape(start)
    require(shape == (n, n), "start", None, f"give an index, {n} probabilities, or ({n}, {n})", problem=f"has the shape {shape}")
    if not is_traced(start):
        return jnp.asarray(probabilities(start, "start"), dtype)
    check_traced((start >= 0).all() & (jnp.abs(start.sum() - 1) <= 1e-5), "start", "hold probabilities that sum to 1")
    return start.astype(dtype)


MOVES = 100_000
SETTLED = 1e3  # largest residual accepted, in units of round-off times the right-hand side, in the 1-norm
_AIM = 8.0  # the residual at which the iteration stops, in the same units


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class TracedStationary:
    """The stationary law of (s, s'), entry [s, s'], as `StationaryJointLaw`, in JAX arrays: a pytree."""

    law: Joint
    expected_error: Float[Array, ""]  # E V, nats
    expected_length: Float[Array, ""]  # the limit of E H_n, nats per transition
    residual: Float[Array, ""]  # total variation between the law and the law one step later
    chain: TracedJoint = dataclasses.field(repr=False)

    def exceedance(self, v: Any) -> Float[Array, "*thresholds"]:
        """P(V > v), strictly. v: a threshold in nats, or an array of them; the result has its shape."""
        over = levels_in(v, self.law.dtype)
        return at_each(lambda level: jnp.sum(jnp.where(level < self.chain.errors, self.law, 0)), over, self.expected_error)


def traced_stationary(m: StepLaws) -> TracedStationary:
    """`joint_stationary` within a trace.

    It is differentiable in P, except at missing edges. The sensitive state moves by P itself, so the derivative at P_ij = 0 describes a
    sensitive chain that may take this transition while the private one still cannot; it is not 0. `dpjax.chains.elasticities` are 0 at
    missing edges. Memory: a few arrays of n^3 numbers. The result is NaN if the joint chain has no unique stationary law, or mixes too
    slowly: in float64, two states with second eigenvalue 1 - 1e-4 give NaN, those with 1 - 2e-4 do not.
    """
    return _stationary(joint_within(m, float_dtype(m)))


@jax.jit
def _stationary(chain: TracedJoint) -> TracedStationary:
    law = stationary_law(chain.forward, _uneven(chain.P))
    residual = jnp.abs(chain.forward(law) - law).sum() / 2
    return TracedStationary(law, jnp.sum(law * chain.errors), chain.mean_length(law), residual, chain)


def _uneven(P: Float[Array, "n n"]) -> Joint:
    """Probabilities without symmetry: 1 plus the fractional parts of the multiples of the golden ratio, normalised."""
    weights = 1 + (jnp.arange(P.size, dtype=P.dtype).reshape(P.shape) * ((5**0.5 - 1) / 2)) % 1
    return weights / weights.sum()


def stationary_law(forward: Operator, guess: Joint) -> Joint:
    """The law x = forward(x) of mass 1, for a linear operator that keeps the mass; `guess` holds probabilities, the u of the module."""
    fixed = lax.stop_gradient(guess)
    return lax.custom_linear_solve(lambda x: x - forward(x) + x.sum() * fixed, fixed, _richardson, transpose_solve=_richardson)


def _richardson(operator: Operator, right: Joint) -> Joint:
    """x with operator(x) = right, by x <- x + (right - operator(x)); NaN if it does not converge."""
    unit = jnp.finfo(right.dtype).eps * jnp.abs(right).sum()

    def move(state: tuple[Joint, Joint, Array]) -> tuple[Joint, Joint, Array]:
        x, residual, count = state
        x = x + residual
        return x, right - operator(x), count + 1

    def going(state: tuple[Joint, Joint, Array]) -> Array:
        return (jnp.abs(state[1]).sum() > _AIM * unit) & (state[2] < MOVES)

    # ends: after MOVES turns at the latest
    x, residual, _ = lax.while_loop(going, move, (jnp.zeros_like(right), right, jnp.int32(0)))
    return jnp.where(jnp.abs(residual).sum() <= SETTLED * unit, x, jnp.nan)


def _product(indices: str, *arrays: Array) -> Array:
    return jnp.einsum(indices, *arrays, precision=lax.Precision.HIGHEST)
