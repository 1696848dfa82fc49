"""The Dirichlet mechanism on the simplex: sampling, privacy (Theorem 1 and exact), matrices, utility and bounds."""

from dpjax.simplex.dirichlet import dirichlet, log_dirichlet
from dpjax.simplex.mechanism import DirichletMechanism
from dpjax.simplex.pseudocount import PseudocountMechanism
from dpjax.simplex.utility import expected_kl, expected_kl_bound

__all__ = [
    "DirichletMechanism",
    "PseudocountMechanism",
    "dirichlet",
    "expected_kl",
    "expected_kl_bound",
    "log_dirichlet",
]
