"""What a cell of a sweep over private trajectories knows exactly, without sampling.

For the sensitive trajectory s_0..s_n, thresholds v and lengths l: P(max_t G(s'_t, s_t) > v), E G(s'_t, s_t), P(s'_t = s_t), and mean and
standard deviation of the empirical entropy H_l of the private trajectory (nats a transition); of a trajectory of the chain itself from the
same initial law; and H_l of the sensitive trajectory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float, Int

from dpjax.sweep.workload import Quantity
from dpjax.sweep.workloads.trajectory_kinds import Tabulated
from dpjax.sweep.workloads.trajectory_steps import Steps
from dpjax.trajectory import OfflineMechanism, exact_law
from dpjax.trajectory.evolution import Arrivals, Moments, next_moments
from dpjax.trajectory.graph import ChainGraph

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


def exact_quantities(
    m: Tabulated | OfflineMechanism,
    steps: Steps,
    states: Int[np.ndarray, " states"],
    initial: Float[np.ndarray, " n"],
    thresholds: Float[np.ndarray, " thresholds"],
    lengths: Int[np.ndarray, " lengths"],
) -> Mapping[str, float | np.ndarray]:
    """Every quantity of EXACT; `initial` is p_0, `steps` the law of the private trajectory that it leads to."""
    law = exact_law(m, states, initial)
    entropy, deviation = entropies(m.graph.arrivals, steps.first, steps.kernels(m.graph.arrivals), lengths)
    own, own_deviation = chain_entropy(m.graph, initial, lengths)
    n = len(states) - 1
    return {
        "exceedance": np.asarray(law.exceedance(thresholds)),
        "expected_error": float(law.expected_error[1:].mean()),
        "expected_final_error": float(law.expected_error[-1]),
        "expected_agreement": float(law.marginals[np.arange(1, n + 1), states[1:]].mean()),
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


def entropies(
    arrivals: Arrivals,
    first: Float[np.ndarray, " n"],
    kernels: Iterable[Float[np.ndarray, " edges"]],
    lengths: Int[np.ndarray, " lengths"],
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l for each length l, of a trajectory whose transitions have these kernels, in one pass."""
    moments, total = Moments(first, np.zeros_like(first), np.zeros_like(first)), 0.0
    found: dict[int, tuple[float, float]] = {}
    for length, kernel in zip(range(1, int(lengths.max()) + 1), kernels, strict=False):
        moments, mean = next_moments(arrivals, kernel, moments)
        total += mean
        found[length] = total / length, float(np.sqrt(max(moments.second.sum(), 0.0))) / length
    means, deviations = np.array([found[int(length)] for length in lengths]).T
    return means, deviations


def _own_entropy(
    graph: ChainGraph, states: Int[np.ndarray, " states"], lengths: Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    edges = graph.edges
    place = np.searchsorted(edges.owners * graph.n_states + edges.states, states[:-1] * graph.n_states + states[1:])
    return np.cumsum(edges.lengths[place])[lengths - 1] / lengths
