"""audit: empirical lower bounds on epsilon for any sampler, at a stated confidence.

clopper_pearson  exact binomial limits, and what they prove about epsilon or delta
events           the event that tells two inputs apart, chosen on one half of the draws
bound            the lower bound from the other half; these three know no mechanism
targets          the package's own mechanisms, each at inputs where its claim is tight
"""

from dpjax.audit.bound import AuditResult, Event, audit, delta_limit, epsilon_limit, lower_bound, lower_limit, upper_limit
from dpjax.audit.targets import (
    Target,
    count_target,
    dirichlet_target,
    matrix_target,
    selection_target,
    trajectory_target,
)

__all__ = [
    "AuditResult",
    "Event",
    "Target",
    "audit",
    "count_target",
    "delta_limit",
    "dirichlet_target",
    "epsilon_limit",
    "lower_bound",
    "lower_limit",
    "matrix_target",
    "selection_target",
    "trajectory_target",
    "upper_limit",
]
