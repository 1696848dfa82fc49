"""The exact law of Mechanism 1 as functions that differentiate: from transition probabilities, epsilon, rho to tails, entropies, long run.

`exact_law` is made for large chains on the host. Here the same recursions (`graph`) are pure JAX over dense matrices, for chains
of up to a few hundred states. With W = -log P, G its closure (`dpjax.paths`), c = epsilon / (2 rho) and K_s(i, o) = pi(o | s, i):

    a_t = a_{t-1} K_{w_t},      E V_t = a_t G(., w_t),      E H_n = (1/n) sum_t sum_{i,o} a_{t-1}(i) K_{w_t}(i, o) W(i, o),
    P(max_t V_t > v) = sum over t of the mass that step t moves to {i : G(i, w_t) > v}, t = 0 included.

Differentiable in P, epsilon, rho, prior_weight and the law of s'_0; the sensitive trajectory w and the edges (P > 0) are fixed, and a
missing edge has derivative 0 (`traced_lengths`; P enters in no other way). The step laws are recomputed in the backward pass instead of stored.

*P off the simplex.* Each entry of P is taken as a free number, so a gradient g is meant against changes whose rows sum to 0: its
product with such a change, or `dpjax.chains.elasticities`. P moves the law through the distances and, with a prior, through W.

*Thresholds.* As a function of P or v, P(max V > v) jumps where a distance crosses v: the derivative is that of the piece at hand, with
every 1[G > v] held. Put v between distances. Derivatives in epsilon, rho and prior_weight see no jump. At ties of shortest paths G has
a kink (`dpjax.paths.closure`).

*The long run.* With T the operator of the joint chain (`joint`), nu = nu T and sum nu = 1. For any probabilities u the linear equation

    A x = u,      A x = x - x T + (sum x) u,

has this one solution (sum both sides: sum x = 1). It is solved by x <- x + (u - A x), which converges as the chain mixes, since
I - A has the eigenvalues of T with the eigenvalue 1 replaced by 0. The derivative is that of the linear equation: a solve with A for a
tangent, with its adjoint A* y = y - T y + <u, y> 1 for a gradient, by the same iteration. No iteration is unrolled or stored.

T acts in two stages, |S|^3 each, and is never formed. The joint chain of an irreducible P has one stationary law if and only if P is
aperiodic. Otherwise T has other eigenvalues of modulus 1; u is uneven on purpose, so that it has a part along them, the iteration never
settles, and the result is NaN, as for a chain that mixes so slowly that MOVES steps leave a residual above SETTLED.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dpjax._errors import invalid, require
from dpjax.paths.closure import min_plus_closure
from dpjax.paths.distances import traced_lengths
from dpjax.trajectory.kernel import SELECTIONS

States = Int[Array, " steps"] | Int[np.ndarray, " steps"]


class TracedLaw(NamedTuple):
    """The law of s'_0..s'_n given s_0..s_n, as in `ExactLaw`, in JAX arrays."""

    marginals: Float[Array, "steps n"]  # P(s'_t = i)
    expected_error: Float[Array, " steps"]  # E V_t, nats
    expected_entropy: Float[Array, ""]  # E H_n, nats a transition


class Step(NamedTuple):
    """What the law of one step needs: W, G, the coin scale c and the prior's weight lambda."""

    lengths: Float[Array, "n n"]
    distances: Float[Array, "n n"]
    scale: Float[Array, ""]
    prior_weight: Float[Array, ""]


def step_of(P: Float[Array, "n n"], epsilon: Any, rho: Any, prior_weight: Any) -> Step:
    """The edge lengths and distances of P, and c = epsilon / (2 rho), in the dtype of P."""
    e, radius, weight = (jnp.asarray(x, P.dtype) for x in (epsilon, rho, prior_weight))
    lengths = traced_lengths(P)
    return Step(lengths, min_plus_closure(lengths), e / (2 * radius), weight)


def step_law(step: Step, target: Int[Array, ""], selection: str) -> Float[Array, "n n"]:
    """pi(o | s = target, i) in row i, 0 where there is no edge."""
    edge = step.lengths < jnp.inf
    costs = step.scale * step.distances[:, target][None, :] + step.prior_weight * finite_lengths(step)
    return SELECTIONS[selection].law(jnp.where(edge, costs, jnp.inf), jnp.ones((), costs.dtype), edge)


def finite_lengths(step: Step) -> Float[Array, "n n"]:
    """W with 0 in the place of missing edges, where every law is 0."""
    return jnp.where(step.lengths < jnp.inf, step.lengths, 0)


def traced_law(
    P: Float[Array, "n n"],
    trajectory: States,
    start: Float[Array, " n"],
    epsilon: Any,
    rho: Any,
    prior_weight: Any = 0.0,
    selection: str = "permute-and-flip",
) -> TracedLaw:
    """The exact law of a private trajectory under `TrajectoryMechanism`; pure, jitted, differentiable; values of P, start, ... unchecked.

    P: (n, n), row-stochastic, irreducible. trajectory: s_0..s_n, n >= 1, state indices: ValueError for one state alone, which has no
    transition to take an entropy of, and for an index outside; a traced trajectory is not looked at, and JAX clamps what is outside.
    start: the law of s'_0, (n,); a public state is its indicator.
    epsilon >= 0 (nats), rho > 0 (nats), prior_weight >= 0. For float64, call it under `jax.enable_x64(True)`.
    """
    _check(P, trajectory, least=2)
    return _law(P, jnp.asarray(trajectory), start, epsilon, rho, prior_weight, selection)


@functools.partial(jax.jit, static_argnames="selection")
def _law(
    P: Float[Array, "n n"], trajectory: Int[Array, " steps"], start: Any, epsilon: Any, rho: Any, prior_weight: Any, selection: str
) -> TracedLaw:
    step = step_of(P, epsilon, rho, prior_weight)

    @jax.checkpoint
    def move(law: Float[Array, " n"], target: Int[Array, ""]) -> tuple[Float[Array, " n"], tuple[Array, Array]]:
        flow = law[:, None] * step_law(step, target, selection)
        return flow.sum(axis=0), (flow.sum(axis=0), jnp.sum(flow * finite_lengths(step)))

    _, (laws, lengths) = lax.scan(move, start, trajectory[1:])
    marginals = jnp.concatenate([start[None], laws])
    return TracedLaw(marginals, jnp.sum(marginals * step.distances[:, trajectory].T, axis=1), lengths.mean())


def traced_exceedance(
    P: Float[Array, "n n"],
    trajectory: States,
    start: Float[Array, " n"],
    v: Any,
    epsilon: Any,
    rho: Any,
    prior_weight: Any = 0.0,
    selection: str = "permute-and-flip",
) -> Float[Array, ""]:
    """P(max_t V_t > v), strictly, t = 0 included, for one threshold v (nats); the rest as for `traced_law`, but one state will do."""
    _check(P, trajectory, least=1)
    return _exceedance(P, jnp.asarray(trajectory), start, v, epsilon, rho, prior_weight, selection)


def _check(P: Any, trajectory: Any, least: int) -> None:
    """The length always, the indices where they have values."""
    n, steps = P.shape[-1], np.shape(trajectory)[-1]
    require(steps >= least, "trajectory", trajectory, f"give {least} state{'s' * (least > 1)} or more")
    if not isinstance(trajectory, jax.core.Tracer):
        states = np.asarray(trajectory)
        outside = np.flatnonzero((states < 0) | (states >= n))
        if len(outside):
            invalid(f"trajectory[{outside[0]}]", int(states[outside[0]]), f"give the index of a state, 0 to {n - 1}")


@functools.partial(jax.jit, static_argnames="selection")
def _exceedance(
    P: Float[Array, "n n"],
    trajectory: Int[Array, " steps"],
    start: Any,
    v: Any,
    epsilon: Any,
    rho: Any,
    prior_weight: Any,
    selection: str,
) -> Float[Array, ""]:
    step = step_of(P, epsilon, rho, prior_weight)
    over = lax.stop_gradient(jnp.asarray(v, P.dtype) < step.distances[:, trajectory].T)

    @jax.checkpoint
    def move(kept: Float[Array, " n"], at: tuple[Array, Array]) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        target, beyond = at
        moved = jnp.sum(kept[:, None] * step_law(step, target, selection), axis=0)
        return jnp.where(beyond, 0, moved), jnp.sum(jnp.where(beyond, moved, 0))

    _, removed = lax.scan(move, jnp.where(over[0], 0, start), (trajectory[1:], over[1:]))
    return jnp.sum(jnp.where(over[0], start, 0)) + removed.sum()


MOVES = 100_000
SETTLED = 1e3  # times the unit round-off, relative to the right-hand side, in the 1-norm
_AIM = 8.0  # the same, at which the iteration stops

Joint = Float[Array, "n n"]
Operator = Callable[[Joint], Joint]


class TracedStationary(NamedTuple):
    """The stationary law of (s, s'), entry [s, s'], as in `StationaryJointLaw`."""

    law: Joint
    expected_error: Float[Array, ""]  # E V, nats
    expected_length: Float[Array, ""]  # the limit of E H_n, nats a transition


@functools.partial(jax.jit, static_argnames="selection")
def traced_stationary(
    P: Float[Array, "n n"], epsilon: Any, rho: Any, prior_weight: Any = 0.0, selection: str = "permute-and-flip"
) -> TracedStationary:
    """The long run of `TrajectoryMechanism` on a random sensitive trajectory; pure, jitted, differentiable, unchecked.

    P: (n, n), row-stochastic, irreducible and aperiodic. Arguments as for `traced_law`, and a gradient in P too, but for missing edges:
    the sensitive state moves by P itself, so the derivative at P_ij = 0 is that of letting it move there, which the private state still
    cannot, and not 0. `dpjax.chains.elasticities` are 0 there. Memory: a few arrays of n^3. NaN where the joint chain has no one
    stationary law, and where it is too slow: in float64 for two states with second eigenvalue 1 - 1e-4, not with 1 - 2e-4.
    """
    step = step_of(P, epsilon, rho, prior_weight)
    K = jax.vmap(lambda s: step_law(step, s, selection))(jnp.arange(P.shape[0], dtype=jnp.int32))

    def forward(nu: Joint) -> Joint:
        return _product("ab,abo->ao", _product("sa,sb->ab", P, nu), K)

    law = stationary_law(forward, _uneven(P))
    mean_lengths = jnp.sum(K * finite_lengths(step)[None], axis=2)
    length = jnp.sum(_product("sa,sb->ab", P, law) * mean_lengths)
    return TracedStationary(law, jnp.sum(law * step.distances.T), length)


def _uneven(P: Float[Array, "n n"]) -> Joint:
    """Probabilities without symmetry: 1 plus the fractional parts of the multiples of the golden ratio, normalised."""
    weights = 1 + (jnp.arange(P.size, dtype=P.dtype).reshape(P.shape) * ((5**0.5 - 1) / 2)) % 1
    return weights / weights.sum()


def stationary_law(forward: Operator, guess: Joint) -> Joint:
    """The law x = forward(x) of mass 1 of a linear operator that keeps the mass; `guess` holds probabilities, u above."""
    fixed = lax.stop_gradient(guess)
    return lax.custom_linear_solve(lambda x: x - forward(x) + x.sum() * fixed, fixed, _richardson, transpose_solve=_richardson)


def _richardson(operator: Operator, right: Joint) -> Joint:
    """x with operator(x) = right, by x <- x + (right - operator(x)); NaN where it does not settle."""
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
