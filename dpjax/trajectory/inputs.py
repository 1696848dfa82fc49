"""Checks of what a user hands in, on the host, before anything is traced: ValueError naming the argument and the mend."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import invalid, require, require_number
from dpjax._real import real_array
from dpjax.trajectory.graph import ChainGraph

Trajectory = Any  # whole numbers, one-dimensional: a NumPy or JAX array, or a sequence
Start = Any  # None, a state index, or n probabilities
_THRESHOLDS = "give a threshold in nats, or a one-dimensional array"
_PROBABILITIES = "give probabilities that are 0 or more and sum to 1"


def require_epsilon(epsilon: Any) -> None:
    """epsilon: finite, zero or more."""
    require_number(epsilon, "epsilon", "give a finite privacy parameter in nats, 0 or more", lambda x: x >= 0)


def require_scale(scale: float, epsilon: Any) -> None:
    """A coin scale must be finite: an overflow would make every coin 0."""
    require(
        bool(math.isfinite(scale)),
        "epsilon",
        epsilon,
        f"the coin scale it gives is {scale}: take a smaller epsilon or a larger radius",
    )


def state_index(graph: ChainGraph, s: Any, argument: str = "s") -> int:
    """The index of a state, checked."""
    whole = "give the index of a state, a whole number; chain.index(label) finds it"
    require(not (isinstance(s, bool) or str(getattr(s, "dtype", "")) == "bool"), argument, s, whole)
    try:
        index = operator.index(s)
    except TypeError:
        invalid(argument, s, whole)
    require(0 <= index < graph.n_states, argument, index, f"give the index of a state, 0 to {graph.n_states - 1}")
    return index


def trajectory_indices(graph: ChainGraph, trajectory: Trajectory, check: bool = True) -> Int[np.ndarray, " steps"]:
    """The trajectory s_0..s_n as int64; with `check`, every transition must have positive probability."""
    try:
        states = np.asarray(trajectory)
    except ValueError:
        invalid("trajectory", trajectory, "give a one-dimensional trajectory of state indices; this one is ragged")
    require(
        states.ndim == 1 and len(states) >= 2, "trajectory", trajectory, "give a one-dimensional trajectory of two states or more"
    )
    require(bool(np.issubdtype(states.dtype, np.integer)), "trajectory", trajectory, "give state indices, whole numbers")
    states = states.astype(np.int64)
    outside = np.flatnonzero((states < 0) | (states >= graph.n_states))
    if len(outside):
        t = int(outside[0])
        invalid(f"trajectory[{t}]", int(states[t]), f"give the index of a state, 0 to {graph.n_states - 1}")
    if check:
        _require_feasible(graph, states)
    return states


def _require_feasible(graph: ChainGraph, states: Int[np.ndarray, " steps"]) -> None:
    broken = np.flatnonzero(~graph.feasible(states[:-1], states[1:]))
    if len(broken):
        t = int(broken[0]) + 1
        i, j = (graph.chain.labels[int(s)] for s in states[t - 1 : t + 1])
        invalid(
            f"trajectory at step {t}",
            (i, j),
            f"the chain has no transition from {i!r} to {j!r} (probability zero); mend it, or pass check=False to take it as it is",
        )


def thresholds_of(v: Any) -> Float[np.ndarray, "*thresholds"]:
    """A threshold in nats, or a one-dimensional array of them, as float64."""
    levels = real_array(v, "v", _THRESHOLDS)
    require(levels.ndim <= 1, "v", v, _THRESHOLDS)
    return levels


def at_most_one(probability: Float[np.ndarray, "*shape"] | np.float64) -> Any:
    """A sum of probabilities of disjoint events without what round-off puts above 1 (some 1e-15)."""
    return np.minimum(probability, 1.0)


def initial_law(graph: ChainGraph, start: Start, argument: str = "start") -> Float[np.ndarray, " n"]:
    """The law p_0 of s'_0: the chain's initial distribution, a Dirac at a public state, or the distribution given."""
    if start is None:
        return np.asarray(graph.chain.initial_distribution, np.float64)
    if dimensions(start, argument) == 0:
        law = np.zeros(graph.n_states)
        law[state_index(graph, start, argument)] = 1.0
        return law
    given = probabilities(start, argument)
    require(given.shape == (graph.n_states,), argument, given.shape, f"give a state index or {graph.n_states} probabilities")
    return given


def dimensions(start: Any, argument: str) -> int:
    """0 for an index, 1 for a law, 2 for a joint law."""
    try:
        return np.ndim(start)
    except ValueError:
        invalid(argument, start, "give an index or probabilities; this list is ragged")


def probabilities(start: Any, argument: str) -> Float[np.ndarray, "*shape"]:
    """Probabilities of any shape, divided by their sum, which must be 1 within 1e-6."""
    law = real_array(start, argument, _PROBABILITIES)
    total = law.sum()
    require(bool((law >= 0).all() and abs(total - 1) <= 1e-6), argument, start, _PROBABILITIES)
    return law / total
