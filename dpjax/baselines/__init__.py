"""What a practitioner would use instead: noisy counts and randomised response, on the same footing as the papers' mechanisms."""

from dpjax.baselines.comparison import Measured, compare_counts
from dpjax.baselines.discrete_gaussian import DiscreteGaussianMechanism, calibrated_variance, gaussian_delta
from dpjax.baselines.discrete_laplace import DiscreteLaplaceMechanism
from dpjax.baselines.expected import dirichlet_errors, expected_kl_floored
from dpjax.baselines.randomised_response import RandomisedResponse
from dpjax.baselines.to_simplex import floor_and_renormalise, project
from dpjax.baselines.trajectory_comparison import MeasuredTrajectory, compare_trajectory
from dpjax.baselines.verdicts import count_verdicts, trajectory_verdicts

__all__ = [
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "Measured",
    "MeasuredTrajectory",
    "RandomisedResponse",
    "calibrated_variance",
    "compare_counts",
    "compare_trajectory",
    "count_verdicts",
    "dirichlet_errors",
    "expected_kl_floored",
    "floor_and_renormalise",
    "gaussian_delta",
    "project",
    "trajectory_verdicts",
]
