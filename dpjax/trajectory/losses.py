"""The exact privacy loss of one step, for every pair of sensitive states.

    ell_c(s, v) = max_{i, o in N(i)} [ log pi(o | s, i) - log pi(o | v, i) ]

is the most that any output can tell s from v at one time, whatever the private state before it. Losses of a trajectory add up
over its steps at most (chain rule), so a mechanism is epsilon-private under an adjacency that sums a distance d up to rho as
soon as

    kappa = max_{s != v} ell_c(s, v) / d(s, v) <= epsilon / rho,

and the exact epsilon of substituting one state by another at one time is max(ell(s, v), ell(v, s)): it is attained, since the
private state before it can be any state. By Lemma 1, ell_c(s, v) <= c [G(s, v) + G(v, s)] for Mechanism 1 and <= epsilon/b for
Mechanism 2.

Logarithms of the law come from the selection in the log domain: a ratio of probabilities would underflow once c times a
distance passes 700. All pairs cost n^2 |E| differences: 43 states take milliseconds, 3,817 states with 58,081 edges 8.5e11.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.trajectory.kernel import Kernel, slot_log_law
from dpjax.trajectory.mechanism import OnlineMechanism

AFFORDABLE = 2e10  # differences n^2 |E| up to which all pairs are computed: about 10 s on one core
TILE = 32  # sensitive states a tile, on each side


def affordable(m: OnlineMechanism) -> bool:
    """Whether the exact loss of all pairs of states costs at most AFFORDABLE differences."""
    return m.graph.n_states**2 * len(m.graph.edges.states) <= AFFORDABLE


def pairwise_losses(m: OnlineMechanism) -> Float[np.ndarray, "n n"]:
    """ell(s, v) in nats for all pairs of sensitive states (row s, column v), float64; zero on the diagonal.

    Computed in tiles of TILE by TILE states. Raises ValueError where all pairs are not affordable: see the mechanism's
    `loss_bounds`.
    """
    n = m.graph.n_states
    require(
        affordable(m),
        "chain",
        f"{n} states, {len(m.graph.edges.states)} edges",
        "all pairs are too many; use m.loss_bounds(), the proved bound",
    )
    losses = np.zeros((n, n))
    tiles = [range(a, min(a + TILE, n)) for a in range(0, n, TILE)]
    with jax.enable_x64(True):
        logs = [jnp.stack([_log_table(m.kernel, m.cost_row(s)) for s in tile]) for tile in tiles]
        for rows, log_s in zip(tiles, logs, strict=True):
            for columns, log_v in zip(tiles, logs, strict=True):
                losses[np.ix_(rows, columns)] = _tile_losses(log_s, log_v)
    return losses


def substitution_epsilon(m: OnlineMechanism) -> float:
    """The exact epsilon, in nats, of replacing any one state of a trajectory by any other: the largest of `pairwise_losses`."""
    return float(pairwise_losses(m).max())


def kappa(m: OnlineMechanism, distance: Float[np.ndarray, "n n"]) -> float:
    """max over s != v of ell(s, v) / distance(s, v): the exact rate of loss against a distance on states, such as G_sym.

    inf where a pair at distance zero can be told apart; a pair at distance zero that cannot be told apart counts as 0.
    """
    losses, apart = pairwise_losses(m), ~np.eye(m.graph.n_states, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(losses > 0, losses / distance, 0.0)
    return float(rates[apart].max(initial=0.0))


@jax.jit
def _log_table(kernel: Kernel, costs: Float[Array, " n"]) -> Float[Array, " slots"]:
    real = kernel.neighbours.real[: kernel.neighbours.n_slots]
    return jnp.where(real, slot_log_law(kernel, costs), 0.0)  # padding differs by 0, as log pi(o) does at best


@jax.jit
def _tile_losses(log_s: Float[Array, "rows slots"], log_v: Float[Array, "columns slots"]) -> Float[Array, "rows columns"]:
    return jax.lax.map(lambda one: jnp.max(one[None, :] - log_v, axis=1), log_s)
