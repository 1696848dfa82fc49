"""Bounds on the expected empirical entropy of the private trajectory (paper B, Theorem 3, mended), each beside the exact value.

H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1}); kappa(i, j) = W(i, j) - G(i, j) >= 0 on edges is what an edge is longer than the shortest path
between its ends (kappa(i, i) = -log P_ii).

    4a  (triangle)  E H_n <= (1/n) sum_t [E W(s_t, s_{t+1}) + E V_t + E G(s_{t+1}, s'_{t+1}) + E kappa(s'_t, s'_{t+1})];
        crude:      kappa at its largest, G(s, s') <= K_asym V with K_asym = max G(i, j) / G(j, i), +inf where some G(j, i) = 0;
    4b  (mismatch)  E H_n <= (1/n) sum_t [E W(s_t, s_{t+1}) + (W_max - W_min) P(not (s'_t = s_t and s'_{t+1} = s_{t+1}))];
        crude:      2 (W_max - W_min) / n sum_{t <= n} P(s'_t != s_t) in the place of the last term.

4a without kappa is false: see `printed`. A bound says nothing where it is not below W_max, which no transition exceeds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from dpjax.trajectory.bound import Bound, upper
from dpjax.trajectory.joint import JointLaw


class EntropyBounds(NamedTuple):
    """Upper bounds on E H_n, nats a transition."""

    exact: float  # E H_n itself
    sensitive: float  # E of the sensitive trajectory's own empirical entropy
    triangle: Bound  # 4a
    triangle_crude: Bound
    mismatch: Bound  # 4b
    mismatch_crude: Bound


def asymmetry(G: Float[np.ndarray, "n n"]) -> float:
    """K_asym: the largest G(i, j) / G(j, i); +inf where G(j, i) = 0 < G(i, j)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(G > 0, G / G.T, 0.0)
    return float(ratios.max())


def crude_way_back(K_asym: float, error: float) -> float:
    """K_asym times the sum of E V_t; +inf where K_asym is: E V_t = 0 does not bound the way back then."""
    return math.inf if math.isinf(K_asym) else K_asym * error


def entropy_bounds(law: JointLaw) -> EntropyBounds:
    """Theorems 4a and 4b for the horizon and start of `law`."""
    chain, n = law.chain, law.n_steps
    edges, arrivals = chain.graph.edges, chain.graph.arrivals
    G = chain.graph.all_distances()
    ends = np.repeat(np.arange(chain.n_states), np.diff(arrivals.offsets))
    excess = np.maximum(arrivals.lengths - G[arrivals.owners, ends], 0.0)
    mean_excess = chain.private_means(np.ones_like(G), excess)
    again = np.diag(chain.backward(np.eye(chain.n_states)))  # P(s'_{t+1} = s_{t+1} | s'_t = s_t = s)
    own = float((law.sensitive_marginals[:-1].sum(axis=0)[edges.owners] * np.exp(-edges.lengths) * edges.lengths).sum())
    nu, kappa, back, matched, apart = law.start, 0.0, 0.0, 0.0, 1 - float(np.trace(law.start))
    for _ in range(n):
        kappa += float((chain.sensitive_step(nu) * mean_excess).sum())
        matched += float(np.diag(nu) @ again)
        nu = chain.forward(nu)
        back += float((nu * G).sum())
        apart += 1 - float(np.trace(nu))
    errors, spread, largest = law.expected_error, float(np.ptp(edges.lengths)), float(edges.lengths.max())
    crude_back = crude_way_back(asymmetry(G), float(errors[1:].sum()))
    return EntropyBounds(
        exact=law.expected_entropy,
        sensitive=own / n,
        triangle=upper((own + errors[:-1].sum() + back + kappa) / n, largest),
        triangle_crude=upper((own + errors[:-1].sum() + crude_back) / n + float(excess.max()), largest),
        mismatch=upper((own + spread * (n - matched)) / n, largest),
        mismatch_crude=upper((own + 2 * spread * apart) / n, largest),
    )
