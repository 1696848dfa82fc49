"""Synthetic trajectories from a transition matrix: drawn on the host in batches, streamed, the same for the same seed.

A trajectory has a start, a length and steps of the chain. None of the three reads a record: the matrix comes from a release, start and lengths
are public. So trajectories are post-processing, however many are drawn.

    lengths               the number of states of a trajectory
    a whole number        that many
    geometric:MEAN        1, 2, ... with P(n) = (1 - q) q^(n - 1) of this mean
    uniform:LEAST:MOST    each with equal probability
    an array              the probability of each length 1, 2, ...
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dpjax._errors import InputError, invalid, real_array, require, require_whole
from dpjax._tracing import in_float64
from dpjax.chains import stationary_distribution

_BATCH = 10_000
_LONGEST = 2**24  # states of a trajectory
_REMEDY = "give a whole number, geometric:MEAN, uniform:LEAST:MOST, or the probability of each length"


def parse_lengths(text: str) -> Float[np.ndarray, " lengths"] | int | tuple[str, float]:
    """What `trajectories` takes for lengths, from a text."""
    kind, _, rest = text.partition(":")
    try:
        if kind == "geometric":
            mean = float(rest)
            require(1 <= mean <= _LONGEST / 64, "length", text, "give a mean between 1 and 2^18")
            return ("geometric", mean)
        if kind == "uniform":
            least, most = (int(part) for part in rest.split(":"))
            require(1 <= least <= most <= _LONGEST, "length", text, "give whole numbers, 1 or more, the smaller first")
            return (np.arange(1, most + 1) >= least) / (most - least + 1)
        return int(text)
    except InputError:
        raise
    except ValueError:
        invalid("length", text, _REMEDY)


def trajectories(
    matrix: Any, number: int, lengths: Any, *, start: Any = None, seed: int = 0, batch: int = _BATCH
) -> Iterator[list[Int[np.ndarray, " length"]]]:
    """Batches of synthetic trajectories, each an array of state indices. On the host.

    Args:
        matrix: (states, states) transition matrix, rows sum to one.
        number: how many trajectories.
        lengths: see the head of this module.
        start: index of the first state, or (states,) probabilities; None: the stationary distribution of the matrix.
        seed: whole number; the same seed, batch size and inputs give the same trajectories.
        batch: trajectories at a time.

    >>> [len(one) for part in trajectories([[0.5, 0.5], [1.0, 0.0]], 3, 4, start=0) for one in part]
    [4, 4, 4]
    """
    P = np.asarray(real_array(matrix, "matrix", "give a transition matrix (states, states)"), np.float64)
    square = P.ndim == 2 and P.shape[0] == P.shape[1] and P.size > 0
    require(square, "matrix", None, "give one matrix (states, states)", problem=f"has the shape {P.shape}")
    sums = bool((P >= 0).all() and np.allclose(P.sum(axis=1), 1.0, atol=1e-5))
    require(sums, "matrix", None, "give probabilities, and rows that sum to 1", problem="is not a transition matrix")
    require_whole(number, "number", "give how many trajectories, 1 or more", 1)
    require_whole(batch, "batch", "give 1 or more", 1)
    require_whole(seed, "seed", "give a whole number, 0 or more")
    law, first = _law_of(lengths), _start(start, P)
    return _batches(P, number, law, first, seed, batch)


def _law_of(lengths: Any) -> Any:
    """The lengths as ("geometric", mean), or cumulative probabilities of 1, 2, ..."""
    if isinstance(lengths, tuple) and len(lengths) == 2 and lengths[0] == "geometric":
        return lengths
    if isinstance(lengths, int | np.integer) and not isinstance(lengths, bool):
        require(1 <= lengths <= _LONGEST, "lengths", lengths, "give a whole number, 1 or more")
        return np.append(np.zeros(int(lengths) - 1), 1.0)
    law = np.asarray(real_array(lengths, "lengths", _REMEDY), np.float64)
    right = law.ndim == 1 and law.size > 0 and bool((law >= 0).all()) and math.isclose(law.sum(), 1.0, abs_tol=1e-6)
    require(right, "lengths", None, _REMEDY, problem="is not a law of lengths, one probability for each of 1, 2, ... that sum to 1")
    return np.cumsum(law) / law.sum()


def _start(start: Any, P: np.ndarray) -> np.ndarray:
    """Cumulative probabilities of the first state."""
    n = len(P)
    if start is None:
        law = in_float64(stationary_distribution)(P)
    elif isinstance(start, int | np.integer):
        require(0 <= start < n, "start", start, f"give a state's index, below {n}, or {n} probabilities")
        law = np.arange(n) == start
    else:
        law = np.asarray(real_array(start, "start", f"give {n} probabilities"), np.float64)
        right = law.shape == (n,) and bool((law >= 0).all()) and math.isclose(law.sum(), 1.0, abs_tol=1e-6)
        require(right, "start", None, f"give {n} probabilities that sum to 1", problem="is not a law of the first state")
    return np.cumsum(law) / law.sum()


def _batches(P: np.ndarray, number: int, law: Any, first: np.ndarray, seed: int, batch: int) -> Iterator[list[np.ndarray]]:
    n = len(P)
    running = np.cumsum(P, axis=1)
    last = n - 1 - np.argmax(P[:, ::-1] > 0, axis=1)  # the last state with a positive probability
    for i in range(n):
        running[i, last[i] :] = 1.0  # round-off leads to no impossible state
    flat = (running + np.arange(n)[:, None]).reshape(-1)
    for at in range(0, number, batch):
        size = min(batch, number - at)
        rng = np.random.default_rng([seed, at])
        lengths = (
            rng.geometric(1 / law[1], size) if isinstance(law, tuple) else 1 + np.searchsorted(law, rng.random(size), side="right")
        )
        lengths = np.minimum(lengths, _LONGEST if isinstance(law, tuple) else len(law))
        order = np.argsort(-lengths, kind="stable")
        ends = np.cumsum(lengths)
        states = np.empty(ends[-1], np.int64)
        now = np.minimum(np.searchsorted(first, rng.random(size), side="right"), n - 1)
        begins = ends - lengths
        states[begins] = now
        alive = order
        step = 0
        # ends: every step removes the trajectories that are complete, and lengths are finite
        while alive.size:
            step += 1
            alive = alive[: np.searchsorted(-lengths[alive], -step, side="left")]  # those longer than `step`
            if not alive.size:
                break
            here = now[alive]
            now[alive] = np.searchsorted(flat, here + rng.random(alive.size), side="right") - here * n
            states[begins[alive] + step] = now[alive]
        yield np.split(states, ends[:-1])
