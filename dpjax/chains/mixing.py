"""How fast a chain forgets its start: the second largest eigenvalue modulus, the spectral gap, the mixing time. On the host, in
float64.

|lambda_2|: the second of the moduli |lambda_1| = 1 >= |lambda_2| >= ..., by a dense eigenvalue solver; 1 for a chain that is
periodic or has several closed classes. The spectral gap is 1 - |lambda_2|.

Mixing time: t(v) = min { t >= 0 : d(t) <= v }, d(t) = max_i TV(P^t(i, .), pi), for an irreducible aperiodic chain. d never
increases, so t is found by squaring P until d(2^k) <= v and then descending through the stored powers. Rows of a power are divided
by their sums, which keeps rounding from growing; a d(t) within rounding of v may move t by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from dpjax._errors import require
from dpjax.chains._arrays import as_floats, require_square
from dpjax.chains.stationary import stationary_distribution
from dpjax.chains.structure import period, require_irreducible

_LONGEST = 60  # doublings of the time


def second_eigenvalue_modulus(P: Any) -> Float[np.ndarray, "*batch"] | np.float64:
    """|lambda_2| of each matrix, (*batch, n, n) -> (*batch,), NumPy float64, between 0 and 1 but for rounding."""
    array = as_floats(P).astype(np.float64)
    require_square(array)
    return np.sort(np.abs(np.linalg.eigvals(array)), axis=-1)[..., -2]


def spectral_gap(P: Any) -> Float[np.ndarray, "*batch"] | np.float64:
    """1 - |lambda_2| of each matrix, (*batch, n, n) -> (*batch,), NumPy float64."""
    return 1 - second_eigenvalue_modulus(P)


def mixing_time(P: Any, threshold: float = 0.25) -> int:
    """The smallest t with max_i TV(P^t(i, .), pi) <= threshold, for one irreducible aperiodic matrix; dense, n^3 operations a
    doubling.

    ValueError for a reducible chain (its classes named), a periodic one (its period named), a threshold outside (0, 1).

    >>> import numpy as np
    >>> from dpjax.chains import mixing_time
    >>> mixing_time(np.array([[0.9, 0.1], [0.1, 0.9]]))
    4
    """
    matrix = as_floats(P).astype(np.float64)
    require(0 < threshold < 1, "threshold", threshold, "a total variation strictly between 0 and 1 is needed")
    require(matrix.ndim == 2, "P.shape", matrix.shape, "mixing_time takes one matrix (n, n)")
    pi = stationary_distribution(matrix)
    require_irreducible(matrix)
    require(
        period(matrix) == 1,
        "the period of the chain",
        period(matrix),
        "a periodic chain never mixes; take (I + P) / 2, for instance",
    )
    return _first_below(matrix, pi, threshold)


def _first_below(P: Float[np.ndarray, "n n"], pi: Float[np.ndarray, " n"], threshold: float) -> int:
    def distance(power: Float[np.ndarray, "n n"]) -> float:
        return float(np.abs(power - pi).sum(1).max()) / 2

    def times(a: Float[np.ndarray, "n n"], b: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
        c = a @ b
        return c / c.sum(1, keepdims=True)

    current, t = np.eye(P.shape[0]), 0
    if distance(current) <= threshold:
        return t
    powers = [P]
    # ends: after _LONGEST turns, with the error below
    while distance(powers[-1]) > threshold:
        require(len(powers) < _LONGEST, "the mixing time", f"above 2^{_LONGEST - 1}", "float64 cannot resolve it")
        powers.append(times(powers[-1], powers[-1]))
    for k in range(len(powers) - 1, -1, -1):  # the largest t with d(t) > threshold, bit by bit
        further = times(current, powers[k])
        if distance(further) > threshold:
            current, t = further, t + 2**k
    return t + 1
