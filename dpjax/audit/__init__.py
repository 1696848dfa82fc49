"""Empirical lower bounds on epsilon for any sampler, at a stated confidence.

- `bound`: exact binomial limits, the event that separates two inputs, and the resulting lower bound; it knows no mechanism
- `targets`: the package's own mechanisms, each at inputs where its claim is tight
"""

from dpjax.audit.bound import AuditResult, audit, delta_limit, lower_bound
from dpjax.audit.targets import count_target, dirichlet_target, matrix_target, selection_target, trajectory_target

__all__ = [
    "AuditResult",
    "audit",
    "count_target",
    "delta_limit",
    "dirichlet_target",
    "lower_bound",
    "matrix_target",
    "selection_target",
    "trajectory_target",
]
