"""trajectory: private state trajectories, their exact laws, and what they protect (paper B).

protocol      what every mechanism on a trajectory offers, its guarantee, and the registry of mechanisms
mechanism1    Mechanism 1 and its variants; chen: the baseline of Chen et al.; both draw online and select by costs
offline       the whole private trajectory drawn at once, by backward messages
randomised_response  each state reported on its own: a baseline whose output need not be a path of the chain
adjacency     which trajectories must look alike: Definition 4, and Hamming; the guarantee within a radius
calibration   mechanisms matched by their exact loss; what adjacent trajectories lose; what a bound says
losses        the exact privacy loss of a step, of all pairs of states in resumable tiles
report        what (epsilon, rho) protects, in words
graph         what the mechanisms on one chain share: edges, distances, step laws, recursions, checks of input
kernel        a chain's edges packed by degree, and the law of the next private state; batch: one run, many runs
exact         the exact law of the private trajectory of a given sensitive one; errors, entropy and agreement of trajectories
joint         the chain of (s, s') for a random sensitive trajectory: its operator, exact law and long run
traced        laws, tails, entropies and long run that differentiate in P, epsilon and rho
"""

from dpjax.trajectory.adjacency import Adjacency, HammingAdjacency
from dpjax.trajectory.batch import TrajectoryState
from dpjax.trajectory.calibration import Bound, adjacency_epsilon, exact_scale, match_substitution
from dpjax.trajectory.chen import ChenMechanism
from dpjax.trajectory.exact import (
    ExactLaw,
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
from dpjax.trajectory.joint import JointChain, JointLaw, StationaryJointLaw, joint_law, joint_stationary
from dpjax.trajectory.losses import kappa, pairwise_losses, substitution_epsilon, trajectory_loss
from dpjax.trajectory.mechanism1 import TrajectoryMechanism
from dpjax.trajectory.offline import OfflineMechanism
from dpjax.trajectory.protocol import (
    Guarantee,
    OnlineMechanism,
    Option,
    TrajectoryProtocol,
    exact_law,
    kinds,
    make,
    register,
)
from dpjax.trajectory.randomised_response import RandomisedResponse
from dpjax.trajectory.report import ProtectionReport, protection
from dpjax.trajectory.traced import TracedLaw, TracedStationary, traced_exceedance, traced_law, traced_stationary

__all__ = [
    "Adjacency",
    "Bound",
    "ChenMechanism",
    "ExactLaw",
    "Guarantee",
    "HammingAdjacency",
    "JointChain",
    "JointLaw",
    "OfflineMechanism",
    "OnlineMechanism",
    "Option",
    "ProtectionReport",
    "RandomisedResponse",
    "StationaryJointLaw",
    "TracedLaw",
    "TracedStationary",
    "TrajectoryMechanism",
    "TrajectoryProtocol",
    "TrajectoryState",
    "adjacency_epsilon",
    "agreement",
    "empirical_entropy",
    "exact_law",
    "exact_scale",
    "feasible",
    "information_content",
    "joint_law",
    "joint_stationary",
    "kappa",
    "kinds",
    "make",
    "match_substitution",
    "pairwise_losses",
    "path_errors",
    "protection",
    "register",
    "running_maximum",
    "substitution_epsilon",
    "traced_exceedance",
    "traced_law",
    "traced_stationary",
    "trajectory_loss",
    "transition_lengths",
    "visit_divergence",
    "visit_frequencies",
]
