"""How shortest-path lengths move with the edge lengths: the derivative along one shortest path.

G(i, j) = min over paths from i to j of the sum of W along the path. Where the shortest path is unique, G is differentiable and

    d G(i, j) / d W(a, b) = 1 if the edge (a, b) lies on it, and 0 if not.

Where several paths are shortest G has a kink: it is a minimum of linear functions, concave in W, and the derivative of each of those
paths is a supergradient. One path is taken, always the same one, so the derivative given is then one of the extreme ones: right for
the changes that leave the chosen path shortest. All second derivatives are 0. Unreachable pairs (+inf) and the diagonal have
derivative 0, and a missing edge (+inf) stays missing.

*Tracing.* An edge (i, k) is tight for the target j if W(i, k) + G(k, j) = G(i, j). Each i gets one tight edge for each target, its
first step k = next(i, j), and the derivative obeys the linear recursion

    dG(i, j) = dW(i, next(i, j)) + dG(next(i, j), j),      dG(j, j) = 0,

solved by pointer doubling: ceil(log2 n) rounds of one gather and one addition. No iteration of the closure is kept or differentiated.
Among tight edges the one that comes nearest to j is taken, then the first.

*Lengths below rounding.* Steps must lead to j. A cycle of tight edges needs lengths that vanish beside the distance (two states that
hold each other with probability 1 - 1e-16); the pairs caught in one are then traced again from their target outwards.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

_ROUNDING = 4.0  # times n times the unit round-off: the relative slack within which an edge counts as tight

Choice = tuple[Float[Array, "n targets"], Int[Array, "n targets"], Int[Array, "n targets"]]
Chooser = Callable[[Bool[Array, "n targets"]], Choice]


def follow(first: Float[Array, "n targets"], after: Int[Array, "n targets"]) -> Float[Array, "n targets"]:
    """x(i, j) = first(i, j) + x(after(i, j), j), where every walk along `after` ends in a fixed point at which `first` is 0."""
    total = first
    for _ in range(_rounds(after)):
        total = total + jnp.take_along_axis(total, after, axis=0)
        after = jnp.take_along_axis(after, after, axis=0)
    return total


def tight_steps(
    choose: Chooser, distances: Float[Array, "n targets"], ends: Int[Array, " targets"]
) -> tuple[Int[Array, "n targets"], Int[Array, "n targets"]]:
    """(which edge, which state after) of one tight edge for each state and target; a state without a path stays where it is.

    choose(allowed): the least W(i, k) + G(k, j) over edges to states k allowed for j, the number of that edge in row i, and k.
    ends: the place of each target.
    """
    here = jnp.broadcast_to(jnp.arange(distances.shape[0], dtype=ends.dtype)[:, None], distances.shape)
    still = (here == ends[None, :]) | ~(distances < jnp.inf)
    _, edge, after = choose(jnp.ones(distances.shape, bool))
    after = jnp.where(still, here, after)
    slack = _ROUNDING * distances.shape[0] * jnp.finfo(distances.dtype).eps
    limit = distances * (1 + slack)

    def mend(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        edge, after, done, _ = state
        length, other, next_state = choose(done)
        take = ~done & (length <= limit)
        return jnp.where(take, other, edge), jnp.where(take, next_state, after), done | take, jnp.any(take)

    start = (edge, after, _arrives(after, ends, still), jnp.asarray(True))
    # ends: each turn but the last marks at least one more pair of a state and a target as done
    found = lax.while_loop(lambda state: state[3] & ~jnp.all(state[2]), mend, start)
    return found[0], found[1]


def _arrives(after: Int[Array, "n targets"], ends: Int[Array, " targets"], still: Bool[Array, "n targets"]) -> Array:
    """Whether the walk along `after` ends in the target; true of the pairs that stay."""
    for _ in range(_rounds(after)):
        after = jnp.take_along_axis(after, after, axis=0)
    return still | (after == ends[None, :])


def _rounds(after: Int[Array, "n targets"]) -> int:
    return max(after.shape[0] - 1, 1).bit_length()


def choose_dense(lengths: Float[Array, "n n"], distances: Float[Array, "n n"]) -> Chooser:
    """The chooser of a dense graph: the number of an edge is the state that it enters."""
    n = lengths.shape[0]
    apart = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, lengths)  # no path needs a self loop

    def choose(allowed: Bool[Array, "n n"]) -> Choice:
        open_distances = jnp.where(allowed, distances, jnp.inf)

        def through(k: Array, best: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            rest = jnp.broadcast_to(open_distances[k][None, :], best[1].shape)
            length = apart[:, k][:, None] + rest
            better = (length < best[0]) | ((length == best[0]) & (rest < best[1]))
            return jnp.where(better, length, best[0]), jnp.where(better, rest, best[1]), jnp.where(better, k, best[2])

        start = (jnp.full((n, n), jnp.inf, distances.dtype),) * 2 + (jnp.zeros((n, n), jnp.int32),)
        length, _, step = lax.fori_loop(jnp.int32(0), jnp.int32(n), through, start)
        return length, step, step

    return choose
