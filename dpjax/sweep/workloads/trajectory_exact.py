"""What a cell of a sweep over private trajectories knows exactly, without sampling.

For the sensitive trajectory s_0..s_n, thresholds v and lengths l: P(max_t G(s'_t, s_t) > v), E G(s'_t, s_t), P(s'_t = s_t), and mean and
standard deviation of the empirical entropy H_l of the private trajectory (nats a transition); of a trajectory of the chain itself from the
same initial law; and H_l of the sensitive trajectory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from dpjax.sweep.workload import Quantity
from dpjax.trajectory.exact import ExactLaw, entropies
from dpjax.trajectory.graph import ChainGraph, Tables
from dpjax.trajectory.protocol import TrajectoryProtocol

EXACT = {
    "exceedance": Quantity(long_name="exact P(max_t G(s'_t, s_t) > v)", dims=("threshold",)),
    "expected_error": Quantity(long_name="exact mean error G(s'_t, s_t) over t = 1..n", units="nats"),
    "expected_final_error": Quantity(long_name="exact mean error at the last step", units="nats"),
    "expected_agreement": Quantity(long_name="exact mean share of steps equal to the sensitive state"),
    "expected_entropy": Quantity(long_name="exact mean empirical entropy", units="nats a transition", dims=("length",)),
    "entropy_deviation": Quantity(
        long_name="exact standard deviation of the empirical entropy", units="nats a transition", dims=("length",)
    ),
    "chain_entropy": Quantity(
        long_name="exact mean empirical entropy of the chain's own trajectories", units="nats a transition", dims=("length",)
    ),
    "chain_entropy_deviation": Quantity(long_name="its exact standard deviation", units="nats a transition", dims=("length",)),
    "sensitive_entropy": Quantity(
        long_name="empirical entropy of the sensitive trajectory", units="nats a transition", dims=("length",)
    ),
}


def errors(law: ExactLaw, states: Int[np.ndarray, " states"]) -> Mapping[str, float]:
    """Mean error and mean agreement of a private trajectory over t = 1..n."""
    n = len(states) - 1
    return {
        "expected_error": float(law.expected_error[1:].mean()),
        "expected_final_error": float(law.expected_error[-1]),
        "expected_agreement": float(law.marginals[np.arange(1, n + 1), states[1:]].mean()),
    }


def exact_quantities(
    m: TrajectoryProtocol,
    tables: Tables,
    states: Int[np.ndarray, " states"],
    initial: Float[np.ndarray, " n"],
    thresholds: Float[np.ndarray, " thresholds"],
    lengths: Int[np.ndarray, " lengths"],
) -> Mapping[str, float | np.ndarray]:
    """Every quantity of EXACT; `initial` is p_0, `tables` the law of the private trajectory that it leads to."""
    law = m.exact_law(states, initial)
    entropy, deviation = m.entropies(tables, lengths)
    own, own_deviation = chain_entropy(m.graph, initial, lengths)
    return {
        "exceedance": np.asarray(law.exceedance(thresholds)),
        **errors(law, states),
        "expected_entropy": entropy,
        "entropy_deviation": deviation,
        "chain_entropy": own,
        "chain_entropy_deviation": own_deviation,
        "sensitive_entropy": _own_entropy(m.graph, states, lengths),
    }


def chain_entropy(
    graph: ChainGraph, initial: Float[np.ndarray, " n"], lengths: Int[np.ndarray, " lengths"]
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l over trajectories of the chain from the law `initial`, for each length l."""
    return entropies(graph.arrivals, initial, itertools.repeat(np.exp(-graph.arrivals.lengths)), lengths)


def _own_entropy(
    graph: ChainGraph, states: Int[np.ndarray, " states"], lengths: Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    edges = graph.edges
    place = np.searchsorted(edges.owners * graph.n_states + edges.states, states[:-1] * graph.n_states + states[1:])
    return np.cumsum(edges.lengths[place])[lengths - 1] / lengths
