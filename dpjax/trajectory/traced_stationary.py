"""The long run of Mechanism 1 as a function that differentiates: the stationary law of the sensitive and the private state.

With T the operator of the joint chain (`joint_chain`), nu = nu T and sum nu = 1. For any probabilities u the linear equation

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
from jax import lax
from jaxtyping import Array, Float

from dpjax.trajectory.traced_law import finite_lengths, step_law, step_of

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
