"""Mechanisms on a table of counts: one protocol, one registry, and every implementation of it."""

from dpjax.counts.composition import composed_delta, composed_epsilon, privacy_loss_distribution, release_accountant, release_event
from dpjax.counts.discrete_gaussian import DiscreteGaussianMechanism, calibrated_variance, gaussian_delta
from dpjax.counts.discrete_laplace import DiscreteLaplaceMechanism
from dpjax.counts.postprocess import dirichlet_errors, expected_kl_floored, floor_and_renormalise, project
from dpjax.counts.pseudocount import PseudocountMechanism, least_pseudocount, log_add_remove_delta, log_pseudocount_delta

__all__ = [
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "PseudocountMechanism",
    "calibrated_variance",
    "composed_delta",
    "composed_epsilon",
    "dirichlet_errors",
    "expected_kl_floored",
    "floor_and_renormalise",
    "gaussian_delta",
    "least_pseudocount",
    "log_add_remove_delta",
    "log_pseudocount_delta",
    "privacy_loss_distribution",
    "project",
    "release_accountant",
    "release_event",
]
