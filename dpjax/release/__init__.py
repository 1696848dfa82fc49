"""Releasing somebody's data: exact arithmetic, the operating system's entropy, and a statement of what is protected.

Nothing here takes a seed, and no float reaches a random decision.
"""

from dpjax.release.discrete_counts import NoisyCounts, release_counts_gaussian, release_counts_laplace
from dpjax.release.exact_coins import coin_exp, discrete_gaussian, discrete_laplace
from dpjax.release.exact_selection import permute_and_flip
from dpjax.release.lengths import WholeDistances
from dpjax.release.stream import StreamError, private_lines
from dpjax.release.trajectory import TrajectoryRelease
from dpjax.release.trajectory_statement import ChainBudget, TrajectoryStatement, trajectory_statement

__all__ = [
    "ChainBudget",
    "NoisyCounts",
    "StreamError",
    "TrajectoryRelease",
    "TrajectoryStatement",
    "WholeDistances",
    "coin_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "permute_and_flip",
    "private_lines",
    "release_counts_gaussian",
    "release_counts_laplace",
    "trajectory_statement",
]
