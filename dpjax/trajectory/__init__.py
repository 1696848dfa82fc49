"""trajectory: private state trajectories drawn online, their exact laws, and what they protect (paper B).

adjacency     which trajectories must look alike: Definition 4, and Hamming
mechanism1    Mechanism 1 and its variants; mechanism2: the baseline of Chen et al.; both are `mechanism` with other costs
neighbours    a chain's edges packed by degree; graph: they and the distances found so far, for one chain
kernel        the law of the next private state; uniforms: what a transition is drawn from; online, batch: one run, many runs
exact         the exact law of the private trajectory of a given sensitive one; evolution: its recursions
losses        the exact privacy loss of a step; calibration: scales matched by it; report: what (epsilon, rho) protects
measures      errors, entropy and agreement of private trajectories
"""

from dpjax.trajectory.adjacency import Adjacency, HammingAdjacency
from dpjax.trajectory.calibration import exact_scale, match_substitution
from dpjax.trajectory.exact import ExactLaw, exact_law
from dpjax.trajectory.losses import kappa, pairwise_losses, substitution_epsilon
from dpjax.trajectory.measures import (
    agreement,
    empirical_entropy,
    feasible,
    information_content,
    path_errors,
    running_maximum,
    transition_lengths,
    visit_divergence,
    visit_frequencies,
)
from dpjax.trajectory.mechanism1 import TrajectoryMechanism
from dpjax.trajectory.mechanism2 import ChenMechanism
from dpjax.trajectory.online import TrajectoryState
from dpjax.trajectory.report import ProtectionReport, protection

__all__ = [
    "Adjacency",
    "ChenMechanism",
    "ExactLaw",
    "HammingAdjacency",
    "ProtectionReport",
    "TrajectoryMechanism",
    "TrajectoryState",
    "agreement",
    "empirical_entropy",
    "exact_law",
    "exact_scale",
    "feasible",
    "information_content",
    "kappa",
    "match_substitution",
    "pairwise_losses",
    "path_errors",
    "protection",
    "running_maximum",
    "substitution_epsilon",
    "transition_lengths",
    "visit_divergence",
    "visit_frequencies",
]
